"""Detached weights: the graph is the same as if MLIR had read the weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tosa_convert import api
from tosa_convert.bindings import detach_weights as module
from tosa_convert.bindings.detach_weights import detach
from tosa_convert.bindings.packages import Bindings
from tosa_convert.bindings.parse import parse as parse_file
from tosa_convert.bindings.read import read
from tosa_convert.bindings.untrusted import bytecode as untrusted
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph import DTYPES, Graph, compare
from tosa_convert.mlir.bytecode.detached import DetachedConstant

COUNT = 64


def bytecode(operation: Any) -> bytes:
    pieces: list[bytes] = []

    class Sink:
        def write(self, piece: bytes) -> None:
            pieces.append(piece)

    operation.write_bytecode(Sink())
    return b"".join(pieces)


def program(*attributes: str) -> str:
    """A function that returns constants with these attributes."""
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


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_TOTAL_BYTES", 1)
    monkeypatch.setattr(module, "MAX_ATTACHED_BYTES", 8)


def both_ways(bindings: Bindings, text: str) -> tuple[Graph, Graph, int]:
    """The graph of the module, the graph with detached weights, and how many were detached."""
    context = bindings.ir.Context()
    parsed = bindings.ir.Module.parse(text, context)
    data = memoryview(bytecode(parsed.operation))
    found, weights = parse_file(bindings, context, data)
    return read(parsed), read(found, weights=weights), len(weights)


DENSE = [
    "dense<[1.0, -0.0, 0x7FC00001, 3.0]> : tensor<4xf32>",
    "dense<[1, -2, 3]> : tensor<3xi64>",
    "dense<[1, -2, 3, 4, 5, 6, 7]> : tensor<7xi8>",
    "dense<[1, -2, 3, 4, 5, 6, 7, -8, 1]> : tensor<9xi4>",
    "dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xbf16>",
    "dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 6.0, 6.0, 7.0]> : tensor<9xf8E4M3FN>",
]


@pytest.mark.parametrize("attribute", DENSE)
def test_a_dense_constant_is_detached(bindings: Bindings, attribute: str) -> None:
    whole, taken, count = both_ways(bindings, program(attribute))
    assert compare(whole, taken) is None
    assert count >= 1
    (constant,) = [data for _, data in taken.constants()]
    assert constant.padding == next(data for _, data in whole.constants()).padding


def test_constants_of_all_forms_at_once_and_twice_in_one_context(bindings: Bindings) -> None:
    kinds = [
        *DENSE,
        f"dense_resource<w> : tensor<{COUNT}xf32>",
        "dense_resource<small> : tensor<1xf32>",
    ]
    text = program(*kinds, "dense<5> : tensor<3xi8>", "dense<true> : tensor<99xi1>")
    whole, taken, count = both_ways(bindings, text)
    assert compare(whole, taken) is None
    assert count >= len(kinds)
    context = bindings.ir.Context()
    data = memoryview(bytecode(bindings.ir.Module.parse(text, context).operation))
    for _ in range(3):
        found, weights = parse_file(bindings, context, data)
        assert compare(whole, read(found, weights=weights)) is None


def test_a_detached_constant_is_a_view_of_the_file(bindings: Bindings, tmp_path: Path) -> None:
    elements = 100_000
    text = program(f'dense<"0x{"0123456789ABCDEF" * (elements // 2)}"> : tensor<{elements}xf32>')
    parsed = bindings.ir.Module.parse(text, bindings.ir.Context())
    data = bytecode(parsed.operation)
    (tmp_path / "m.mlirbc").write_bytes(data)
    graph = api.load(tmp_path / "m.mlirbc", bindings=bindings.package)
    (constant,) = [data for _, data in graph.constants()]
    assert not constant.splat
    assert type(constant.buffer.obj).__name__ == "mmap"
    expected = np.frombuffer(bytes.fromhex("0123456789ABCDEF") * (elements // 2), np.uint8)
    assert np.array_equal(constant.numpy().view(np.uint8), expected)


@pytest.mark.parametrize("row", [row for row in DTYPES if row.name != "MXINT8"], ids=str)
def test_every_element_type_survives(bindings: Bindings, row: Any) -> None:
    if row.mlir[0] == "i":
        values = ", ".join(
            ["true, false"] * 20 if row.bits == 1 or row.mlir == "i1" else ["1, 2"] * 20
        )
    else:
        values = ", ".join(["1.0, 2.0"] * 20)
    whole, taken, _ = both_ways(bindings, program(f"dense<[{values}]> : tensor<40x{row.mlir}>"))
    assert compare(whole, taken) is None


def test_the_comparison_sees_other_data(bindings: Bindings) -> None:
    whole, _, _ = both_ways(bindings, program(DENSE[1]))
    _, taken, _ = both_ways(bindings, program("dense<[1, -2, 4]> : tensor<3xi64>"))
    assert compare(whole, taken) is not None


def test_data_that_does_not_have_the_size_of_its_type_is_refused(bindings: Bindings) -> None:
    context = bindings.ir.Context()
    parsed = bindings.ir.Module.parse(program("dense<[1, -2, 3]> : tensor<3xi64>"), context)
    found, weights = parse_file(bindings, context, memoryview(bytecode(parsed.operation)))
    cut = {
        name: DetachedConstant(entry.data[:-8], entry.is_dense) for name, entry in weights.items()
    }
    with pytest.raises(TosaConvertError) as caught:
        read(found, weights=cut)
    assert caught.value.code == "constant-form"


def test_a_damaged_attribute_is_left_to_mlir(bindings: Bindings) -> None:
    context = bindings.ir.Context()
    parsed = bindings.ir.Module.parse(program("dense<[1, -2, 3]> : tensor<3xi64>"), context)
    data = bytecode(parsed.operation)
    # The attribute says that it has 16 bytes, where 24 are before the next one.
    one = (1).to_bytes(8, "little")
    damaged = data.replace(bytes([24 << 1 | 1]) + one, bytes([16 << 1 | 1]) + one)
    assert damaged != data
    view = memoryview(damaged)
    assert detach(view, untrusted.check(view)) is None
    with pytest.raises(TosaConvertError, match="malformed-mlir"):
        parse_file(bindings, context, view)


def test_a_small_file_is_read_whole(bindings: Bindings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_TOTAL_BYTES", 1 << 22)
    _, _, count = both_ways(bindings, program(DENSE[0]))
    assert count == 0
