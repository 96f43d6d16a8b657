"""What findings and warnings say of places, causes and what was written."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.errors import TosaConvertError

SHAPE = "!tosa.shape<1>"


def shapes(line: str, first: int = -7) -> str:
    """Return a RESHAPE to 12, or to what a line computes of %n and %two if that is more."""
    numbers = "".join(
        f"  %{name} = tosa.const_shape {{values = dense<{value}> : tensor<1xindex>}} : () -> {SHAPE}\n"
        for name, value in (("n", first), ("two", 2), ("k", 12))
    )
    return (
        f"func.func @f(%a: tensor<2x6xf32>) -> tensor<12xf32> {{\n{numbers}  %x = tosa.{line}\n"
        f"  %v = tosa.max_shape %k, %x : ({SHAPE}, {SHAPE}) -> {SHAPE}\n"
        f"  %0 = tosa.reshape %a, %v : (tensor<2x6xf32>, {SHAPE}) -> tensor<12xf32>\n"
        "  return %0 : tensor<12xf32>\n}"
    )


@pytest.mark.parametrize("operator", ["div_ceil_shape", "div_floor_shape", "mod_shape"])
def test_a_division_of_a_negative_shape_is_not_folded_and_warned_of(
    operator: str, caplog: pytest.LogCaptureFixture
) -> None:
    line = f"{operator} %n, %two : ({SHAPE}, {SHAPE}) -> {SHAPE}"
    with caplog.at_level(logging.WARNING):
        tc.dumps(tc.load(shapes(line).encode()))
    assert "TOSA does not define it for negative values: input1 shape [-7]" in caplog.text
    kept, folded = (
        [
            op.spec.name
            for op in tc.rewrites.apply(tc.load(shapes(line, n).encode()))[0].main.operators
        ]
        for n in (-7, 7)
    )
    assert operator.upper() in kept
    assert operator.upper() not in folded


@pytest.mark.parametrize("operator", ["log2_ceil_shape", "log2_floor_shape"])
@pytest.mark.parametrize("engine", ["numpy", "auto"])
def test_a_logarithm_of_a_negative_shape_does_not_run(operator: str, engine: Any) -> None:
    graph = tc.load(shapes(f"{operator} %n : ({SHAPE}) -> {SHAPE}").encode())
    with pytest.raises(TosaConvertError, match="value 0 of input is -7"):
        tc.golden.run(graph, {"TosaInput_0": np.zeros((2, 6), np.float32)}, engine=engine)


@pytest.mark.parametrize(
    "location",
    [
        'fused<"x">["b", "n.py":1:2]',
        'fused<{k = 1 : i32}>["b", "c"]',
        'fused<[1 : i64, array<i64: 2, 3>]>["b"]',
        'callsite("a"("m.py":3:4) at fused<unit>["b", "c"])',
    ],
)
def test_a_fused_location_with_metadata_comes_back(location: str) -> None:
    a = "tensor<2xf32>"
    text = (
        f"func.func @f(%a: {a}) -> {a} {{\n  %0 = tosa.abs %a : ({a}) -> {a} loc({location})\n"
        f"  return %0 : {a}\n}}"
    )
    graph = tc.load(text.encode())
    assert graph.main.operators[0].location == f"loc({location})"
    assert b'"loc(' not in tc.dumps(tc.load(tc.dumps(graph)), "mlir")
    for form in ("mlir", "mlirbc"):
        again = tc.load(tc.dumps(tc.load(tc.dumps(graph)), form))
        assert again.main.operators[0].location == f"loc({location})"


@pytest.mark.parametrize(
    "metadata", ['"{}"'.format("y" * 300), 'loc("c")', f"dense<{[*range(9)]}> : tensor<9xi32>"]
)
def test_metadata_that_text_would_shorten_stays_in_the_name_of_a_location(metadata: str) -> None:
    location = f'loc(fused<{metadata}>["a"])'
    graph = tc.load(OLD.replace("@f", "@g").encode())
    graph.main.operators[-1].location = location
    for form in ("mlir", "mlirbc"):
        again = tc.load(tc.dumps(graph, form, validate=False), names="retain")
        assert metadata in again.main.operators[-1].location.replace("\\22", '"')


OLD = """func.func @f(%a: tensor<3x4xi8>, %b: tensor<5x4xi8>, %c: tensor<5xi32>) -> tensor<3x5xi8> {
  %0 = "tosa.fully_connected"(%a, %b, %c) : (tensor<3x4xi8>, tensor<5x4xi8>, tensor<5xi32>)
    -> tensor<3x5xi8>
  return %0 : tensor<3x5xi8>
}"""
UNRANKED = """func.func @f(%a: tensor<*xf32>, %b: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = tosa.mul %a, %b {shift = 0 : i8} : (tensor<*xf32>, tensor<2x3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}"""
CUT = """func.func @f() -> tensor<2xf32> {
  %0 = "tosa.const"() <{values = dense_resource<d> : tensor<2xf32>}> : () -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
{-# dialect_resources: { builtin: { d: "0x040000000000803F000000" } } #-}"""
UNSIGNED = """func.func @f(%a: tensor<2xui8>) -> tensor<2xui8> {
  %0 = tosa.identity %a : (tensor<2xui8>) -> tensor<2xui8>
  return %0 : tensor<2xui8>
}"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OLD, ["FILE:2:8: region", " (the text has tosa.fully_connected) [invalid-operator"]),
        (
            UNRANKED,
            ["FILE:2:8: error: 'tosa.mul' has no form", "      %0 = tosa.mul %a, %b {shift"],
        ),
        (CUT, ["has 7 bytes of data, expected 8 [", "the module's resource is cut off"]),
        (UNSIGNED, ["upgraded from an older TOSA: unsigned types 2"]),
    ],
)
def test_a_message_names_file_line_and_what_was_written(
    text: str,
    expected: list[str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(text, encoding="utf-8")
    run(verb("convert"), [str(path), "-o", str(tmp_path / "o.tosa")])
    printed = capfd.readouterr().err + caplog.text
    for part in expected:
        assert part.replace("FILE", str(path)) in printed
