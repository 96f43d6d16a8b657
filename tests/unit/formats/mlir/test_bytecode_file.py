"""Bytecode files: every version gives the same graph, and large constants are views of the file."""

from __future__ import annotations

import io
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.graph.test_verify import zoo

import tosa_convert as tc
from tosa_convert import api
from tosa_convert.formats.bindings.modules import read
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.mlir.bytecode import read_sections
from tosa_convert.formats.mlir.bytecode.format import NEWEST_VERSION, OLDEST_VERSION
from tosa_convert.formats.mlir.bytecode.read_sections import COPIED_BYTES, Section, entry_sizes
from tosa_convert.formats.mlir.bytecode.varints import encode_varint
from tosa_convert.formats.mlir.read.module import read_file
from tosa_convert.graph import DTYPES, Graph, compare

VERSIONS = range(OLDEST_VERSION, NEWEST_VERSION + 1)
COUNT = 64


def bytecode(operation: Any, version: int = NEWEST_VERSION) -> bytes:
    sink = io.BytesIO()
    operation.write_bytecode(sink, version)
    return sink.getvalue()


def program(*attributes: str) -> str:
    """Return a function that returns constants with these attributes."""
    types = [attribute.rpartition(" : ")[2] for attribute in attributes]
    lines = [
        f'  %{index} = "tosa.const"() {{values = {attribute}}} : () -> {kind}'
        for index, (attribute, kind) in enumerate(zip(attributes, types, strict=True))
    ]
    results = ", ".join(f"%{index}" for index in range(len(types)))
    return (
        f"func.func @main() -> ({', '.join(types)}) {{\n"
        + "\n".join(lines)
        + f"\n  return {results} : {', '.join(types)}\n}}\n"
        + '{-# dialect_resources: { builtin: { w: "0x04000000'
        + "0000803F" * COUNT
        + '", small: "0x0400000000000040", unused: "0x0400000000000040" } } #-}'
    )


@pytest.fixture(params=[8, COPIED_BYTES], ids=["views", "copies"])
def copied_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """With the first value all constants but the smallest are views; with the second none here."""
    monkeypatch.setattr(read_sections, "COPIED_BYTES", request.param)
    found: int = request.param
    return found


def both_ways(bindings: Bindings, text: str, version: int) -> tuple[Graph, Graph]:
    """Return the graph of the module in MLIR, and the graph of the file that MLIR writes."""
    parsed = bindings.ir.Module.parse(text, bindings.new_context())
    data = bytecode(parsed.operation, version)
    return read(parsed), read_file(memoryview(data), "m.mlirbc")


CONSTANTS = [
    "dense<[1.0, -0.0, 0x7FC00001, 3.0]> : tensor<4xf32>",
    "dense<[1, -2, 3]> : tensor<3xi64>",
    "dense<[1, -2, 3, 4, 5, 6, 7]> : tensor<7xi8>",
    "dense<[1, -2, 3, 4, 5, 6, 7, -8, 1]> : tensor<9xi4>",
    "dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xbf16>",
    "dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 6.0, 6.0, 7.0]> : tensor<9xf8E4M3FN>",
    "dense<5> : tensor<3xi8>",
    "dense<true> : tensor<99xi1>",
    "dense<[true, false, false]> : tensor<3xi1>",
    f"dense_resource<w> : tensor<{COUNT}xf32>",
    "dense_resource<small> : tensor<1xf32>",
]


@pytest.mark.parametrize("version", VERSIONS)
def test_constants_of_every_form_are_read_from_every_version(
    bindings: Bindings, version: int, copied_bytes: int
) -> None:
    module, file = both_ways(bindings, program(*CONSTANTS), version)
    assert compare(module, file) is None
    assert [data.padding for _, data in module.constants()] == [
        data.padding for _, data in file.constants()
    ]
    # As bytes, because the comparison knows nothing of padding or of packing.
    assert b"".join(map(bytes, api.encode(module))) == b"".join(map(bytes, api.encode(file)))


@pytest.mark.parametrize("row", [row for row in DTYPES if row.name != "MXINT8"], ids=str)
def test_every_element_type_is_read(bindings: Bindings, row: Any, copied_bytes: int) -> None:
    if row.mlir[0] == "i":
        values = ", ".join(
            ["true, false"] * 20 if row.bits == 1 or row.mlir == "i1" else ["1, 2"] * 20
        )
    else:
        values = ", ".join(["1.0, 2.0"] * 20)
    module, file = both_ways(bindings, program(f"dense<[{values}]> : tensor<40x{row.mlir}>"), 6)
    assert compare(module, file) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_all_operators_are_read_from_every_version(bindings: Bindings, version: int) -> None:
    module = tc.to_module(zoo(), context=bindings.new_context())
    data = bytecode(module.operation, version)
    assert data[4] == 2 * version + 1
    assert compare(tc.load(data), read(module), names=True, locations=True, version=True) is None


def test_the_comparison_sees_other_data(bindings: Bindings) -> None:
    module, _ = both_ways(bindings, program(CONSTANTS[1]), 6)
    _, file = both_ways(bindings, program("dense<[1, -2, 4]> : tensor<3xi64>"), 6)
    assert compare(module, file) is not None


@pytest.mark.parametrize("form", ["dense", "resource"])
def test_a_large_constant_is_a_view_of_the_file(
    bindings: Bindings, tmp_path: Path, form: str
) -> None:
    elements = 100_000
    digits = "0123456789ABCDEF" * (elements // 2)
    text = program(f'dense<"0x{digits}"> : tensor<{elements}xf32>')
    if form == "resource":
        text = program(f"dense_resource<w> : tensor<{elements}xf32>")
        text = text.replace("0000803F" * COUNT, digits)
    parsed = bindings.ir.Module.parse(text, bindings.new_context())
    (tmp_path / "m.mlirbc").write_bytes(bytecode(parsed.operation))
    (constant,) = [data for _, data in tc.load(tmp_path / "m.mlirbc").constants()]
    assert not constant.splat
    assert type(constant.buffer.obj).__name__ == "mmap"
    expected = np.frombuffer(bytes.fromhex(digits), np.uint8)
    assert np.array_equal(constant.numpy().view(np.uint8), expected)


def test_short_and_long_sizes_of_entries_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of one byte are decoded together, others one by one."""

    def offsets(sizes: list[int], width: int) -> Section:
        def encoded(size: int) -> bytes:
            number = size << 1 | 1
            return encode_varint(number) if width == 1 else long(number)

        def long(number: int) -> bytes:
            return (number << 2 | 2).to_bytes(2, "little")

        counts = encode_varint(len(sizes)) + encode_varint(0)
        group = encode_varint(0) + encode_varint(len(sizes))
        return Section(counts + group + b"".join(map(encoded, sizes)), {}, 0)

    sizes = [1, 2, 30, 4, 0, 6] * 5
    for run in (1, 7, 1 << 16):
        monkeypatch.setattr(read_sections, "_RUN", run)
        short, long = (entry_sizes(offsets(sizes, width), 1000) for width in (1, 2))
        assert short == long
        assert list(short.starts) == [0, *accumulate(sizes)]
        assert short.is_encoded == bytes([1] * len(sizes))
