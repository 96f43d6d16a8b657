"""Names: those in the module, and those that are generated as tosa-opt generates them."""

from __future__ import annotations

from typing import Any

import pytest
from refusing import refused
from unit.building import graph, op, tensor

from tosa_convert.formats.bindings.modules import read, write
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.graph import Graph, verify
from tosa_convert.io.options import ReadOptions

T = "tensor<2xf32>"


def exp(result: str, operand: str, attributes: str = "") -> str:
    return f'%{result} = "tosa.exp"(%{operand}) {attributes} : ({T}) -> {T}\n'


def named(name: str) -> str:
    return f'{{tosa.tensor_name = "{name}"}}'


def names(graph: Graph) -> tuple[list[str], list[str], list[str]]:
    """Return inputs, results of operators, outputs."""
    block = graph.main
    produced = [name for operator in block.operators for name in operator.outputs]
    return block.inputs, produced, block.outputs


def check(graph: Graph) -> Graph:
    assert verify(graph) == []
    return graph


def test_generated_names_avoid_the_names_in_the_module(parse: Any) -> None:
    text = (
        f'func.func @f(%a: {T} {named("TosaInput_1")}, %b: {T}, %c: {T}) -> {T} {{\n'
        + exp("0", "a") + exp("1", "0", named("layer_0")) + exp("2", "1", named("TosaOutput_0"))
        + exp("3", "2")
        + f"return %3 : {T}\n}}\n"
    )  # fmt: skip
    inputs, produced, outputs = names(check(read(parse(text))))
    everything = [*inputs, *produced]
    assert len(set(everything)) == len(everything)
    assert inputs[0] == "TosaInput_1"
    assert produced[1:3] == ["layer_0", "TosaOutput_0"]
    assert outputs == [produced[3]]


RETURNED = (
    f"func.func @f(%c: tensor<i1>, %a: {T}) -> (SIGNATURE) {{\n"
    f'%0:2 = "tosa.cond_if"(%c, %a) ({{ ^bb0(%x: {T}): {exp("1", "x", named("then"))}'
    f'"tosa.yield"(%1, %x) : ({T}, {T}) -> () }}, '
    f'{{ ^bb0(%x: {T}): {exp("1", "x")} "tosa.yield"(%x, %1) : ({T}, {T}) -> () }}) '
    f'{{tosa.tensor_name = ["left", "right"]}} : (tensor<i1>, {T}) -> ({T}, {T})\n'
    f"return %0#1, %0#0 : {T}, {T}\n}}\n"
)


def test_the_name_of_a_result_comes_before_the_name_of_its_operator(parse: Any) -> None:
    signature = f"{T} {named('first')}, {T}"
    found = check(read(parse(RETURNED.replace("SIGNATURE", signature))))
    assert found.main.outputs == ["first", "left"]
    generated = read(parse(RETURNED.replace("SIGNATURE", signature)), ReadOptions(names="generate"))
    assert generated.main.outputs == ["TosaOutput_0", "TosaOutput_1"]


@pytest.mark.parametrize("attribute", ["7 : i32", "unit", "[1]", '"\\FF"', "{}"])
def test_an_attribute_that_is_not_text_is_not_a_name(parse: Any, attribute: str) -> None:
    text = f"func.func @f(%a: {T} {{tosa.tensor_name = {attribute}}}) {{ return }}\n"
    assert read(parse(text)).main.inputs == ["TosaInput_0"]
    inner = f"{{tosa.tensor_name = {attribute}}}"
    text = f"func.func @f(%a: {T}) {{\n{exp('0', 'a', inner)}return\n}}\n"
    assert names(read(parse(text)))[1] == ["layer_0"]


@pytest.mark.parametrize("where", ["name", "location"])
def test_a_lone_surrogate_is_refused(bindings: Bindings, context: Any, where: str) -> None:
    name, location = ("a\ud800", "") if where == "name" else ("a", 'loc("\udfff":1:2)')
    made = graph(name, "b", [tensor(name), tensor("b")], [op("EXP", name, "b", location)])
    with refused("value-out-of-range"):
        write(made, bindings, context)
