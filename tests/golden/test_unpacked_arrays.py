"""Arrays of another shape or type than the program's are refused, and not unpacked."""

from __future__ import annotations

import contextlib
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from golden.official_cases import X, unary
from unit.building import counting

import tosa_convert as tc
from tosa_convert.cli import main
from tosa_convert.cli.convert_check import check_model
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden import arrays as by_name
from tosa_convert.golden.arrays import load_npz, save_npz, stored_arrays
from tosa_convert.golden.backends.process import Machine
from tosa_convert.qualify.suite.model_cases import inputs_of

Run = Callable[..., tuple[int, str]]
#: Bytes that an array of the archives takes, and that a command may take.
UNPACKED, ALLOWED = 24 << 20, 16 << 20


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small archive of large arrays."""
    path = tmp_path_factory.mktemp("large") / "large.npz"
    array = np.broadcast_to(np.int32(0), (4, UNPACKED // 16))
    np.savez_compressed(path, **dict.fromkeys(("x", "y", "counter"), array))
    return path


@pytest.fixture
def run(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs a verb beside files of y = ABS(x), and returns the exit code and what it says."""
    monkeypatch.chdir(tmp_path)
    tc.save(unary("ABS"), "m.tosa")
    tc.save(counting(), "counting.tosa")
    Path("large.npz").write_bytes(large.read_bytes())

    def found(verb: str, *words: str) -> tuple[int, str]:
        with _little_memory():
            code = main.run(main.verb(verb), list(words))
        said = capsys.readouterr()
        return code, said.out + said.err

    return found


@contextlib.contextmanager
def _little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < ALLOWED, peak


RECORDED = ("m.tosa", "--random", "1", "--against")


def test_recordings_that_agree_about_a_wrong_shape_are_refused(run: Run, tmp_path: Path) -> None:
    code, said = run("check", *RECORDED, "large.npz", "--reference", "large.npz")
    assert code == 4
    assert 'large.npz: "y": error: expected shape [4], found [4, 1572864]' in said
    for array in (np.zeros(3, np.int32), np.zeros(4, np.float32), np.full(4, 1 << 40)):
        save_npz("two.npz", {"y": array})
        code, said = run("check", *RECORDED, "two.npz", "--reference", "two.npz")
        assert (code, "[backend-failed]" in said) == (4, True), said
    save_npz("right.npz", {"y": X["x"]})
    assert run("check", *RECORDED, "right.npz", "--reference", "right.npz")[0] == 0
    code, said = run("check", *RECORDED, "large.npz", "--reference", "right.npz", "--save", "s")
    assert (code, "expected shape [4], found [4, 1572864]" in said) == (1, True), said
    assert load_npz(tmp_path / "s/seed-1/found.npz") == {}


def test_states_of_another_shape_are_not_unpacked(run: Run) -> None:
    for verb, further in (("run", ()), ("check", ("--against", "large.npz"))):
        words = ("counting.tosa", "--random", "1", "--variables", "large.npz", *further)
        code, said = run(verb, *words)
        assert (code, "[input-mismatch]" in said) == (2, True), said


def test_samples_are_read_one_by_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = run("check", "m.tosa", "--calibration", "large.npz", "--against", "large.npz")
    assert (code, "expected [samples, 4]" in said) == (2, True), said
    samples = np.broadcast_to(np.int32(0), (UNPACKED // 16, 4))
    np.savez_compressed("many.npz", x=samples)
    with _little_memory():
        ((_, stored),) = stored_arrays("many.npz")
        rows = stored.rows()
        assert [next(rows).tolist() for _ in range(2)] == [[0] * 4] * 2
        rows.close()  # type: ignore[attr-defined]
    np.savez_compressed("fortran.npz", x=np.asfortranarray(samples))
    monkeypatch.setattr(by_name, "_WHOLE_BYTES", ALLOWED)
    with _little_memory(), pytest.raises(TosaConvertError, match="Fortran order"):
        next(next(stored_arrays("fortran.npz"))[1].rows())


@pytest.mark.parametrize("shape", [(3, 2, 4), (3,), (3, 0), (0, 2)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_are_those_of_the_array(shape: tuple[int, ...], order: Any, tmp_path: Path) -> None:
    array = np.asarray(np.arange(np.prod(shape), dtype=np.int16).reshape(shape), order=order)
    np.savez_compressed(tmp_path / "x.npz", x=array)
    ((_, stored),) = stored_arrays(tmp_path / "x.npz")
    rows = list(stored.rows())
    assert len(rows) == len(array)
    assert all(np.array_equal(*pair) for pair in zip(rows, array, strict=True))


def test_inputs_beside_a_model_are_those_of_its_program(large: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.inputs.npz"
    path.write_bytes(large.read_bytes())
    for shapes, message in (({"x": (4,)}, "expected [4]"), ({"z": (4,)}, "the inputs are")):
        with _little_memory(), pytest.raises(TosaConvertError, match="input-mismatch") as caught:
            inputs_of(tmp_path / "m.tflite", shapes)
        assert message in str(caught.value)
    save_npz(path, {"x": np.zeros((2, 3))})
    assert inputs_of(tmp_path / "m.tflite", {"x": (-1, 3)})["x"].shape == (2, 3)


def test_inputs_of_a_model_of_another_shape_are_not_unpacked(large: Path) -> None:
    graph = unary("ABS")
    interface = SimpleNamespace(inputs=(), outputs=())
    found: Any = SimpleNamespace(graph=graph, model="m.tflite", examples={}, interface=interface)
    options: Any = SimpleNamespace(
        arrays=(str(large),), random=None, python="", timeout=5.0, engine="auto"
    )
    with _little_memory(), pytest.raises(TosaConvertError, match="input-mismatch"):
        check_model(graph, "tflite", found, options, Machine("", 5.0))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (f"{{'descr': '|V{1 << 27}', 'fortran_order': False, 'shape': (4,)}}", "expected numbers"),
        (",", "not a valid .npz file"),
        ("-" * 9000 + "1", "not a valid .npz file"),
        ("(" * 9000, "not a valid .npz file"),
    ],
)
def test_damaged_headers_are_file_errors(header: str, message: str, run: Run) -> None:
    with zipfile.ZipFile("x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        start = b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little")
        archive.writestr("x.npy", start + f"{header}\n".encode())
    Path("x.npy").write_bytes(start + f"{header}\n".encode())
    code, said = run("run", "m.tosa", "-i", "x.npz")
    assert (code, message in said) == (2, True), said
    assert run("data", "x.npz")[0] in (0, 2)
    assert main.run(main.verb("data"), ["x.npy"]) == 2
