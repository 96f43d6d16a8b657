"""Bytecode whose counts do not fit the file is refused before MLIR allocates memory for them."""

from __future__ import annotations

import io
from pathlib import Path
from random import Random
from typing import Any

import pytest
from unit.building import example
from unit.test_verify import zoo

import tosa_convert as tc
from tosa_convert import api
from tosa_convert.bindings import detach_weights
from tosa_convert.bindings.packages import Bindings
from tosa_convert.bindings.untrusted import bytecode as untrusted

#: Versions of the format that writers can be asked for.
VERSIONS = range(7)


def bytecode(bindings: Bindings, version: int | None = None) -> bytes:
    sink = io.BytesIO()
    render: Any = api.render(zoo(), "mlirbc", bindings=bindings.package)
    render(sink)
    if version is None:
        return sink.getvalue()
    module = bindings.ir.Module.parse(sink.getvalue(), bindings.new_context())
    sink = io.BytesIO()
    module.operation.write_bytecode(sink, version)
    return sink.getvalue()


def refusal(data: bytes) -> str:
    with pytest.raises(tc.TosaConvertError) as caught:
        untrusted.check(memoryview(data), "m.mlirbc")
    assert caught.value.code == "malformed-mlir"
    return str(caught.value)


def test_what_mlir_writes_is_accepted(bindings: Bindings, root: Path) -> None:
    untrusted.check(memoryview(bytecode(bindings)))
    untrusted.check(memoryview((root / "examples/digits_cnn.mlirbc").read_bytes()))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_the_format_is_accepted(bindings: Bindings, version: int) -> None:
    data = bytecode(bindings, version)
    assert data[4] == 2 * version + 1
    untrusted.check(memoryview(data))


def test_a_truncated_file_is_refused_at_an_offset(bindings: Bindings) -> None:
    data = bytecode(bindings)
    for size in range(4, len(data) - 1, 7):
        assert refusal(data[:size]).startswith("m.mlirbc: byte ")


#: The number 2**62, in nine bytes.
HUGE = b"\x00" + (1 << 62).to_bytes(8, "little")


def build(**contents: bytes) -> bytes:
    """A file with these sections, and empty ones for the others."""
    names = ("strings", "dialects", "kinds", "offsets", "operations", "r", "ro", "v", "properties")
    file = b"ML\xefR\x0dx\x00"
    for number, name in enumerate(names):
        content = contents.get(name, b"\x01\x01" if name in ("dialects", "offsets") else b"\x01")
        if name in contents or number < 5:
            file += bytes([number, 2 * len(content) + 1]) + content
    return file


def test_the_files_built_here_are_sound() -> None:
    untrusted.check(memoryview(build()))
    untrusted.check(memoryview(build(strings=b"\x03\x05a\x00")))


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ({"strings": HUGE}, "found 4611686018427387904 strings, but only 0 bytes are left"),
        ({"strings": b"\x03" + HUGE}, "a string of 4611686018427387904 bytes does not fit"),
        ({"strings": b"\x03\x01"}, "a string of 0 bytes"),
        ({"dialects": HUGE}, "found 4611686018427387904 dialects"),
        ({"dialects": b"\x01" + HUGE}, "found 4611686018427387904 operators' names"),
        ({"dialects": b"\x03\x01\x01"}, "a dialect's name is 0, expected less than 0"),
        ({"offsets": HUGE + b"\x01"}, "found 4611686018427387904 attributes"),
        ({"offsets": b"\x01" + HUGE}, "found 4611686018427387904 types"),
        ({"offsets": b"\x03\x01\x01\x03\x03"}, "a dialect is 0, expected less than 0"),
        ({"properties": HUGE}, "found 4611686018427387904 properties"),
    ],
)
def test_a_count_of_more_entries_than_bytes_is_refused(
    contents: dict[str, bytes], said: str
) -> None:
    assert said in refusal(build(**contents))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"ML\xefR", "the version is outside"),
        (b"ML\xefR\x0dx", "is not terminated"),
        (b"ML\xefR\x0dx\x00\x09\x01", "section id 9"),
        (b"ML\xefR\x0dx\x00\x00\xff", "has 127 bytes, but only 0 are left"),
        (b"ML\xefR\x0dx\x00\x80\x01\x07", "aligned to 3, expected a power of two"),
        (b"ML\xefR\x0dx\x00\x00\x01\x00\x01", "duplicate section of strings"),
        (b"ML\xefR\x0dx\x00", "the section of strings is missing"),
    ],
)
def test_a_wrong_section_structure_is_refused(data: bytes, said: str) -> None:
    assert said in refusal(data)


def test_the_check_runs_before_the_parser(torch_mlir: Bindings) -> None:
    """Without the check, these files end the process."""
    for contents in ({"strings": HUGE}, {"offsets": HUGE + b"\x01"}):
        with pytest.raises(tc.TosaConvertError, match="bytes are left for them"):
            tc.load(build(**contents), bindings=torch_mlir.package)


def test_a_sound_program_is_read(bindings: Bindings) -> None:
    render: Any = api.render(example(), "mlirbc", bindings=bindings.package)
    sink = io.BytesIO()
    render(sink)
    assert tc.load(sink.getvalue(), bindings=bindings.package).main.operators


@pytest.mark.parametrize("version", VERSIONS)
def test_weights_of_a_damaged_file_are_detached_or_the_file_is_read_whole(
    bindings: Bindings, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(detach_weights, "MIN_TOTAL_BYTES", 1)
    monkeypatch.setattr(detach_weights, "MAX_ATTACHED_BYTES", 8)
    data = bytecode(bindings, version)
    random = Random(version)
    outcomes = {"refused": 0, "whole": 0, "detached": 0}
    for _ in range(600):
        damaged = bytearray(data)
        for _ in range(random.randrange(3)):
            damaged[random.randrange(8, len(damaged))] = random.choice(
                (0, 1, 2, 0xFF, random.randrange(256))
            )
        view = memoryview(bytes(damaged))
        try:
            found = detach_weights.detach(view, untrusted.check(view))
        except tc.TosaConvertError:
            outcomes["refused"] += 1
        else:
            outcomes["whole" if found is None else "detached"] += 1
    assert outcomes["refused"]
    assert outcomes["detached" if version else "whole"]
