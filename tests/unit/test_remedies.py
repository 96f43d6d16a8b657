"""What repairs a finding: each row is applied to a program that has the finding, which is then gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert import rewrites
from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.graph import Graph
from tosa_convert.remedies import REMEDIES, hint_for
from tosa_convert.rewrites.table import REPAIR, REWRITES


def unary(op: str, source: str, target: str, sizes: str = "2x3", attributes: str = "") -> str:
    """Return a function of one operator."""
    a, b = (f"tensor<{sizes}x{element}>" for element in (source, target))
    return (
        f"func.func @f(%a: {a}) -> {b} {{\n  %0 = tosa.{op} %a {attributes}: ({a}) -> {b}\n"
        f"  return %0 : {b}\n}}"
    )


def binary(op: str, element: str, result: str = "") -> str:
    a, b = (f"tensor<2x3x{name}>" for name in (element, result or element))
    return (
        f"func.func @f(%a: {a}, %b: {a}) -> {b} {{\n  %0 = tosa.{op} %a, %b : ({a}, {a}) -> {b}\n"
        f"  return %0 : {b}\n}}"
    )


def product(element: str) -> str:
    a = f"tensor<2x3x{element}>"
    return (
        f'func.func @f(%a: {a}) -> {a} {{\n  %s = "tosa.const"() <{{values = dense<0> : tensor<1xi8>}}>'
        f" : () -> tensor<1xi8>\n  %0 = tosa.mul %a, %a, %s : ({a}, {a}, tensor<1xi8>) -> {a}\n"
        f"  return %0 : {a}\n}}"
    )


CAPTURING = """func.func @f(%x: tensor<2xf32>, %c: tensor<i1>) -> tensor<2xf32> {
  %0 = tosa.cond_if %c (%y = %x) : tensor<i1> (tensor<2xf32>) -> tensor<2xf32> {
    %1 = tosa.add %y, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    tosa.yield %1 : tensor<2xf32>
  } else {
    tosa.yield %y : tensor<2xf32>
  }
  return %0 : tensor<2xf32>
}"""
SHAPES = """func.func @f(%a: tensor<2x3xf32>) -> tensor<6xf32> {
  %n = tosa.const_shape {values = dense<3> : tensor<1xindex>} : () -> !tosa.shape<1>
  %s = tosa.add_shape %n, %n : (!tosa.shape<1>, !tosa.shape<1>) -> !tosa.shape<1>
  %0 = tosa.reshape %a, %s : (tensor<2x3xf32>, !tosa.shape<1>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}"""
SHRUNK = """func.func @f(%a: tensor<1x32x32x3xf32>) -> tensor<1x2x2x3xf32> {
  %s = tosa.const_shape {values = dense<[2, 32, 2, 32]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %o = tosa.const_shape {values = dense<[15, 15]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %b = tosa.const_shape {values = dense<[-15, -15]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %0 = tosa.resize %a, %s, %o, %b {mode = BILINEAR} : (tensor<1x32x32x3xf32>, !tosa.shape<4>,
    !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x2x2x3xf32>
  return %0 : tensor<1x2x2x3xf32>
}"""
HIGH = """func.func @f(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %s = tosa.const_shape {values = dense<[1,1,1,1,1,2,3]> : tensor<7xindex>} : () -> !tosa.shape<7>
  %t = tosa.const_shape {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %0 = tosa.reshape %a, %s : (tensor<2x3xf32>, !tosa.shape<7>) -> tensor<1x1x1x1x1x2x3xf32>
  %1 = tosa.abs %0 : (tensor<1x1x1x1x1x2x3xf32>) -> tensor<1x1x1x1x1x2x3xf32>
  %2 = tosa.reshape %1, %t : (tensor<1x1x1x1x1x2x3xf32>, !tosa.shape<2>) -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}"""
POWER = """func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %z = "tosa.const"() <{values = dense<2.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %0 = tosa.pow %x, %z : (tensor<3xf32>, tensor<1xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}"""
QUOTIENT = """func.func @f(%x: tensor<1xi32>) -> tensor<1xi32> {
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %0 = tosa.intdiv OPERAND, %z : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi32>
  return %0 : tensor<1xi32>
}"""
TWO = f"{unary('abs', 'f32', 'f32')}\n{unary('exp', 'f32', 'f32').replace('@f', '@g')}"

TWICE = f"{unary('abs', 'f32', 'f32')}\n// -----\n{unary('exp', 'f32', 'f32')}"

Load = Callable[[str], Graph]
Findings = Callable[[Graph], Iterable[Finding]]


def load(text: str, **options: Any) -> Graph:
    return tc.load(text.encode(), **options)


def with_options(**options: Any) -> Load:
    return lambda text: load(text, **options)


def with_rewrites(text: str) -> Graph:
    return rewrites.apply(load(text))[0]


def for_target(**target: Any) -> Findings:
    return lambda graph: tc.validate(graph, **target)


def of_run(arrays: dict[str, Any]) -> Findings:
    def findings(graph: Graph) -> Iterator[Finding]:
        try:
            tc.golden.run(graph, arrays, engine="numpy")
        except TosaConvertError as error:
            yield from error.findings

    return findings


VALID = for_target()
TO_1_0 = for_target(spec_version="1.0")
NEGATIVE = of_run({"TosaInput_0": np.array([-1, 2, 3], np.float32)})
ONE = of_run({"TosaInput_0": np.ones((2, 3), np.float32)})
#: A program with a finding, how it is found, and how it is loaded with the remedy; None: the remedy is
#: another program.
CASES: list[tuple[str, Findings, Load | None]] = [
    *(
        (binary(op, element), VALID, with_rewrites)
        for op in ("add", "sub")
        for element in ("i8", "i16")
    ),
    *((binary(op, "i8"), VALID, with_rewrites) for op in ("intdiv", "maximum", "minimum")),
    *(
        (binary(op, "i8", "i1"), VALID, with_rewrites)
        for op in ("equal", "greater", "greater_equal")
    ),
    *((product(element), VALID, with_rewrites) for element in ("i8", "i16", "i1")),
    (unary("abs", "i8", "i8"), VALID, with_rewrites),
    *((binary(op, "i1"), VALID, with_rewrites) for op in ("add", "sub", "bitwise_xor", "equal")),
    (unary("abs", "i1", "i1"), VALID, with_rewrites),
    (unary("bitwise_not", "i1", "i1"), VALID, with_rewrites),
    *(
        (
            unary("clamp", e, e, attributes=f"{{min_val = {a}, max_val = {b}}} "),
            VALID,
            with_rewrites,
        )
        for e, a, b in (
            ("i32", "0 : i32", "5 : i32"),
            ("i64", "0 : i64", "5 : i64"),
            ("i1", "false", "true"),
        )
    ),
    *(
        (unary("cast", source, target), VALID, with_rewrites)
        for source, target in (("f32", "f32"), ("f16", "bf16"), ("f16", "i1"), ("i1", "bf16"))
    ),
    (unary("cast", "i64", "f32"), VALID, with_options(narrow="i64")),
    (unary("cast", "f32", "i64"), VALID, with_options(narrow="i64")),
    (SHRUNK, VALID, None),
    (HIGH, for_target(level="8k"), with_rewrites),
    (SHAPES, TO_1_0, with_rewrites),
    (binary("add", "i64"), TO_1_0, with_options(narrow="i64")),
    (unary("abs", "f32", "f32", "?"), TO_1_0, with_options(input_shapes={"arg0": (3,)})),
    (unary("cast", "f32", "i1"), TO_1_0, None),
    (unary("abs", "f32", "f32", "?x3"), ONE, with_options(input_shapes={"arg0": (2, 3)})),
    (unary("abs", "f64", "f64"), VALID, with_options(narrow="f64")),
    (
        unary("abs", "!quant.uniform<i8:f32, 0.5>", "!quant.uniform<i8:f32, 0.5>"),
        lambda graph: (),
        with_options(narrow="quant"),
    ),
    (CAPTURING, VALID, with_options(pass_captured=True)),
    (TWO, VALID, with_options(func="f")),
    (TWICE, VALID, lambda text: load(text.partition("// -----")[0])),
    (POWER, NEGATIVE, with_rewrites),
    (QUOTIENT.replace("OPERAND", "%z"), of_run({"TosaInput_0": np.ones(1, np.int32)}), None),
    (QUOTIENT.replace("OPERAND", "%x"), of_run({"TosaInput_0": np.ones(1, np.int32)}), None),
]


def found(text: str, findings: Findings, load_program: Load = load) -> list[Finding]:
    try:
        return list(findings(load_program(text)))
    except TosaConvertError as error:
        return list(error.findings)


def row_of(finding: Finding) -> int:
    (number,) = (
        number
        for number, row in enumerate(REMEDIES)
        if hint_for(finding.code, finding.rule, finding.message)
        in (row.hint, row.hint.replace("\\1", "f"), row.hint.replace("\\1", "g"))
    )
    return number


@pytest.mark.parametrize(("text", "findings", "load_program"), CASES)
def test_a_remedy_removes_its_finding(
    text: str, findings: Findings, load_program: Load | None
) -> None:
    before = found(text, findings)
    assert before
    for finding in before:
        assert finding.hint.startswith(hint_for(finding.code, finding.rule, finding.message))
        row = REMEDIES[row_of(finding)]
        assert bool(row.rewrites) == (load_program is with_rewrites)
    if load_program is not None:
        codes = {finding.code for finding in before}
        assert not [row for row in found(text, findings, load_program) if row.code in codes]


def test_every_remedy_has_a_case_and_every_repair_a_remedy() -> None:
    rows = {row_of(one) for text, findings, _ in CASES for one in found(text, findings)}
    assert rows == set(range(len(REMEDIES)))
    named = {name for row in REMEDIES for name in row.rewrites}
    assert named <= {row.name for row in REWRITES}
    assert {row.name for row in REWRITES if row.group == REPAIR} <= named
