"""`convert --for`: what a reader does not read is refused, whatever the program was made from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from frontends import fake_framework
from oracle.small_programs import programs

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.consumers.readers import READERS, reader_named

TFLITE = b"\x1c\0\0\0TFL3".ljust(64, b"\0")
PROGRAMS = dict(programs())
#: Reader -> a program that it does not read; without one it reads all.
REFUSED = {
    "reference-model": "unknown-size",
    "tosa-opt": "operand-zero-point",
    "model-converter": "branch",
    "vela": "type-fp32",
    "netron": "new-operator",
    "torq": "branch",
    "soda-opt": "branch",
    "virtio-accel": "convolution",
}
#: Reader -> a program that it reads; the others read a convolution.
ACCEPTED = {"virtio-accel": "no-input"}


@pytest.fixture
def python(program: Callable[[str], str]) -> str:
    """Return the test double of a framework, started as `--python`."""
    path = fake_framework.__file__
    return program(f"import runpy\nrunpy.run_path({path!r}, run_name='__main__')")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str) -> None:
    """A program as a flatbuffer, as bytecode, and as the model that is lowered to it."""
    tc.save(PROGRAMS[name], "m.tosa")
    tc.save(PROGRAMS[name], "m.mlirbc")
    Path("m.tflite").write_bytes(TFLITE)


def written(*words: str) -> tuple[int, bool]:
    """Return the exit code, and whether there is an output."""
    code = run(verb("convert"), list(words))
    found = [path for path in Path("out").rglob("*") if path.is_file()]
    for path in found:
        path.unlink()
    return code, bool(found)


@pytest.mark.parametrize(
    "reader",
    [name if name == "vela" else pytest.param(name, marks=pytest.mark.slow) for name in READERS],
)
def test_a_model_is_refused_as_its_program_is(reader: str, python: str, folder: Path) -> None:
    row = reader_named(reader)
    output = ("-o", f"out/m.{row.formats[0]}")
    (folder / "out").mkdir()
    accepted = ACCEPTED.get(reader, "convolution")
    for name, expected in ((accepted, (0, True)), (REFUSED.get(reader), (4, False))):
        if name is None:
            continue
        write(name)
        for release in ("", f"=={row.release.split()[1]}"):
            words = (*output, "--for", f"{reader}{release}")
            assert written("m.tosa", *words) == expected
            assert written("m.mlirbc", *words) == expected
            assert written("m.tflite", *words, "--python", python) == expected


def test_every_way_to_convert_a_model_asks_the_reader(
    python: str, folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (folder / "out").mkdir()
    words = ("--python", python, "--for", "vela")
    for name, expected in (("convolution", (0, True)), ("type-fp32", (4, False))):
        write(name)
        Path("m.mlirbc").unlink()
        assert written("m.tflite", "-o", "out", "--to", "tosa", *words) == expected
        assert written("m.tflite", "-o", "out/m.tosa", "--partial", *words) == expected
        assert written("m.tosa", "m.tflite", "-o", "out", "--to", "tosa", *words)[0] == 2
        Path("models").mkdir(exist_ok=True)
        for suffix in ("tosa", "tflite"):
            Path("models", f"m.{suffix}").write_bytes(Path(f"m.{suffix}").read_bytes())
        Path("m.tosa").unlink()
        assert written("models", "-o", "out", "--to", "mlirbc", *words)[0] == 2
        capfdbinary.readouterr()
        assert run(verb("convert"), ["models/m.tflite", *words]) == expected[0]
        assert bool(capfdbinary.readouterr().out) == expected[1]
