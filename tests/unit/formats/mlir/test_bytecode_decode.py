"""Bytecode that MLIR wrote: what is decoded equals the module."""

from __future__ import annotations

from typing import Any

import pytest

from tosa_convert.formats.bindings import modules
from tosa_convert.formats.bindings.modules import bytecode_of, read
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.mlir.bytecode.attributes import (
    FunctionType,
    ScalarAttr,
    SymbolAttr,
    TensorType,
    TypeAttr,
    bit_width,
)
from tosa_convert.formats.mlir.text.print.attributes import short_text


@pytest.mark.parametrize(
    ("kind", "width"),
    [("i1", 1), ("i48", 48), ("ui8", 8), ("index", 64), ("f32", 32), ("bf16", 16), ("f8E4M3FN", 8)],
)
def test_only_element_types_have_a_bit_width(kind: str, width: int) -> None:
    assert bit_width(kind) == width
    assert not bit_width(TensorType((1,), kind))
    assert not bit_width("!tosa.shape<1>")
    assert not bit_width("vector<4xf32>")


def module(bindings: Bindings, text: str) -> Any:
    context = bindings.ir.Context()
    context.allow_unregistered_dialects = True
    return bindings.ir.Module.parse(text, context).operation


ATTRIBUTES = [
    ("1 : i8", ScalarAttr("i8", 1, False)),
    ("-1 : i48", ScalarAttr("i48", 2**48 - 1, False)),
    ("true", ScalarAttr("i1", 1, False)),
    ("-5 : i64", ScalarAttr("i64", 2**64 - 5, False)),
    ("1.5 : f16", ScalarAttr("f16", 0x3E00, True)),
    ("0x7FC00001 : f32", ScalarAttr("f32", 0x7FC00001, True)),
    ("18446744073709551617 : i80", ScalarAttr("i80", 2**64 + 1, False)),
    ("-1 : i128", ScalarAttr("i128", 2**128 - 1, False)),
    ('"text"', b"text"),
    ("unit", None),
    ("f32", TypeAttr("f32")),
    ("tensor<?x2xi8>", TypeAttr(TensorType((-1, 2), "i8"))),
    ("tensor<*xbf16>", TypeAttr(TensorType(None, "bf16"))),
    ("#tosa.rounding_mode<SINGLE_ROUND>", "#tosa.rounding_mode<SINGLE_ROUND>"),
    ("memref<?x2xf32>", TypeAttr("memref<?x2xf32>")),
    ("complex<f32>", TypeAttr("complex<f32>")),
    ("(f32) -> i1", TypeAttr(FunctionType(("f32",), ("i1",)))),
    ("@symbol", SymbolAttr(b"symbol")),
]


@pytest.mark.parametrize(("text", "expected"), ATTRIBUTES)
def test_attributes_are_decoded(bindings: Bindings, text: str, expected: object) -> None:
    bytecode = bytecode_of(bindings, module(bindings, f"module attributes {{a.a = {text}}} {{}}"))
    index = bytecode.dictionary(bytecode.root.attributes)["a.a"]
    assert bytecode.attribute(index) == expected
    assert bytecode.attribute(index) is bytecode.attribute(index)


PRINTED = [
    ("@symbol", "@symbol"),
    ("[1 : i32, 2]", "[1 : i32, 2 : i64]"),
    ("{b, a = true}", "{a = true, b}"),
    ("array<i8: 1, -2>", "array<i8: 1, -2>"),
    ("array<i64>", "array<i64>"),
    ("dense<[1.5, -0.0]> : tensor<2xf32>", "dense<[1.500000e+00, -0.000000e+00]> : tensor<2xf32>"),
    ("dense<7> : tensor<4x4xi4>", "dense<7> : tensor<4x4xi4>"),
    ("dense<[true, false]> : tensor<2xi1>", "dense<[true, false]> : tensor<2xi1>"),
    ("dense<[[1], [2]]> : tensor<2x1xindex>", "dense<[[1], [2]]> : tensor<2x1xindex>"),
    ("dense<[1,2,3,4,5,6,7,8,9]> : tensor<9xi8>", "dense<...> : tensor<9xi8>"),
    ("dense_resource<missing> : tensor<2xi8>", "dense_resource<missing> : tensor<2xi8>"),
    ("0x7FC00001 : f32", "0x7FC00001 : f32"),
    ("(f32) -> tensor<2xi8>", "(f32) -> tensor<2xi8>"),
    ("(f32) -> ((i1) -> i1)", "(f32) -> ..."),
    ('dense<"0x12"> : tensor<2x!tosa.mxint8>', "dense<...> : tensor<2x!tosa.mxint8>"),
    ("sparse<0, 1.0> : tensor<1xf32>", "..."),
    (f'"{"x" * 300}"', '"' + "x" * 199 + "..."),
    ("[" * 40 + "]" * 40, "[" * 17 + "..." + "]" * 17),
    (f"[{', '.join(map(str, range(300)))}]", None),
]


@pytest.mark.parametrize(("text", "expected"), PRINTED)
def test_messages_print_attributes_as_mlir_does_and_cut_long_ones(
    bindings: Bindings, text: str, expected: str | None
) -> None:
    bytecode = bytecode_of(bindings, module(bindings, f"module attributes {{a.a = {text}}} {{}}"))
    index = bytecode.dictionary(bytecode.root.attributes)["a.a"]
    short = short_text(bytecode, index)
    assert len(short) <= 203
    assert short == expected or expected is None


@pytest.mark.parametrize("text", ["vector<4xf32>", "tuple<f32, i1>"])
def test_types_that_no_program_has_are_named_by_their_kind(bindings: Bindings, text: str) -> None:
    bytecode = bytecode_of(bindings, module(bindings, f"module attributes {{a.a = {text}}} {{}}"))
    found = bytecode.attribute(bytecode.dictionary(bytecode.root.attributes)["a.a"])
    assert isinstance(found, TypeAttr)
    assert str(found.type).startswith("a type of kind ")


def weights(elements: int) -> str:
    data = "".join(f"{index % 251:02X}" for index in range(elements))
    kind = f"tensor<{elements}xi8>"
    return f"""
module {{
  func.func @main() -> ({kind}, {kind}, tensor<3xi8>) {{
    %0 = "tosa.const"() {{values = dense<"0x{data}"> : {kind}}} : () -> {kind}
    %1 = "tosa.const"() {{values = dense_resource<w> : {kind}}} : () -> {kind}
    %2 = "tosa.const"() {{values = dense_resource<s> : tensor<3xi8>}} : () -> tensor<3xi8>
    return %0, %1, %2 : {kind}, {kind}, tensor<3xi8>
  }}
}}
{{-# dialect_resources: {{ builtin: {{ s: "0x40000000010203", w: "0x10000000{data}" }} }} #-}}
"""


@pytest.mark.parametrize("elements", [1, 4095, 4096, 4097, 100_003])
@pytest.mark.parametrize("has_c_api", [True, False])
def test_data_is_the_same_whether_it_is_copied_or_not(
    bindings: Bindings, monkeypatch: pytest.MonkeyPatch, elements: int, has_c_api: bool
) -> None:
    if has_c_api:
        assert modules._c_api(bindings) is not None
    else:
        monkeypatch.setattr(modules, "_c_api", lambda _: None)
    operation = module(bindings, weights(elements))
    found = [data for _, data in read(operation).constants()]
    expected = bytes(index % 251 for index in range(elements))
    assert [bytes(data.packed()) for data in found] == [expected, expected, b"\1\2\3"]
    # Of what is large nothing is copied where MLIR's own memory can be seen.
    kind = type(found[0].buffer.obj).__name__
    assert kind.startswith("c_ubyte_Array" if has_c_api and elements > 4096 else "bytes")
