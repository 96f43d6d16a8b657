"""Values that regions of MLIR capture, passed in as operands on request."""

from __future__ import annotations

import logging

import pytest
from refusing import refused

import tosa_convert as tc
from tosa_convert.graph import Graph, operator
from tosa_convert.graph.model import Block, Operator

T = "tensor<2xi32>"
S = "tensor<i32>"
LIMIT = f'%limit = "tosa.const"() <{{values = dense<10> : {S}}}> : () -> {S}'


def loop(body: str) -> str:
    """Return a function with a loop over %i, until that is 10 or more; `body` computes %next."""
    return f"""
func.func @f(%x: {S}, %step: {S}, %c: tensor<i1>) -> {S} {{
  {LIMIT}
  %r = tosa.while_loop (%i_x = %x) : ({S}) -> {S} {{
    %more = tosa.greater %limit, %i_x : ({S}, {S}) -> tensor<i1>
    tosa.yield %more : tensor<i1>
  }} do {{
  ^bb0(%i: {S}):
    {body}
    tosa.yield %next : {S}
  }}
  return %r : {S}
}}
"""


def load(text: str, **options: bool) -> Graph:
    return tc.load(text.encode(), pass_captured=True, **options)  # type: ignore[arg-type]


def control_flow(graph: Graph) -> Operator:
    kinds = (operator("WHILE_LOOP"), operator("COND_IF"))
    (found,) = [op for op in graph.main.operators if op.spec in kinds]
    return found


def region(graph: Graph, op: Operator, name: str) -> Block:
    (found,) = [r.blocks[0] for r in graph.regions if r.name == op.attributes[name]]
    return found


NESTED = f"""
    %next = tosa.cond_if %c (%j = %i) : tensor<i1> ({S}) -> {S} {{
    ^bb0(%j: {S}):
      %s = tosa.add %j, %step : ({S}, {S}) -> {S}
      tosa.yield %s : {S}
    }} else {{
    ^bb0(%j: {S}):
      %d = tosa.add %limit, %i : ({S}, {S}) -> {S}
      tosa.yield %d : {S}
    }}"""


def test_all_formats_of_mlir_are_read_alike() -> None:
    from torch_mlir import ir

    text = loop(NESTED)
    module = ir.Module.parse(text, ir.Context())
    graph = tc.from_module(module, pass_captured=True)
    assert tc.compare(graph, load(text), names=True) is None
    assert tc.export_tosa_func_to_flatbuffer(module, pass_captured=True) == tc.dumps(graph, "tosa")


def test_what_is_passed_and_copied_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        load(loop(NESTED))
    assert [record.getMessage() for record in caplog.records] == [
        "passed 3 captured values as operands of 2 control-flow operators: "
        "TosaInput_2, TosaInput_1, TosaInput_4",
        "copied 1 captured constant into the regions that use them: layer_0",
    ]


SHAPES = f"""
func.func @f(%x: {T}, %c: tensor<i1>) -> {T} {{
  SHAPE
  %r = tosa.cond_if %c (%j = %x) : tensor<i1> ({T}) -> {T} {{
  ^bb0(%j: {T}):
    %s = tosa.reshape %j, %to : ({T}, !tosa.shape<1>) -> {T}
    tosa.yield %s : {T}
  }} else {{
  ^bb0(%j: {T}):
    tosa.yield %j : {T}
  }}
  return %r : {T}
}}
"""
CONSTANT = "%to = tosa.const_shape {values = dense<2> : tensor<1xindex>} : () -> !tosa.shape<1>"
COMPUTED = f"%to = tosa.dim %x {{axis = 0 : i32}} : ({T}) -> !tosa.shape<1>"


def test_a_constant_shape_is_copied() -> None:
    graph = load(SHAPES.replace("SHAPE", CONSTANT))
    assert tc.validate(graph) == []
    then = region(graph, control_flow(graph), "then_graph")
    assert [op.spec.name for op in then.operators] == ["CONST_SHAPE", "RESHAPE"]


def test_a_computed_shape_is_refused() -> None:
    with refused("captured-value", match="only tensors and constant shapes"):
        load(SHAPES.replace("SHAPE", COMPUTED))
