"""Names: those in the module, and those that are generated as tosa-opt generates them."""

from __future__ import annotations

from typing import Any

import pytest
from unit.building import graph, op, tensor

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.bindings.modules import read, write
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.graph import Graph, compare, verify
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


PLAIN = (
    f"func.func @f(%a: {T}, %b: {T}) -> ({T}, {T}) {{\n"
    + exp("0", "a") + exp("1", "0") + exp("2", "1")
    + f"return %0, %2 : {T}, {T}\n}}\n"
)  # fmt: skip


@pytest.mark.parametrize("mode", ["retain", "generate"])
def test_values_without_names_get_generated_ones(parse: Any, mode: Any) -> None:
    found = check(read(parse(PLAIN), ReadOptions(names=mode)))
    # k in layer_k counts every result, also those with other names.
    assert names(found) == (
        ["TosaInput_0", "TosaInput_1"],
        ["TosaOutput_0", "layer_1", "TosaOutput_1"],
        ["TosaOutput_0", "TosaOutput_1"],
    )
    assert found.regions[0].name == ("f" if mode == "retain" else "main")
    assert found.main.name == "main"


CARRIED = (
    f'func.func @f(%a: {T} {named("x")}, %b: {T}) -> ({T} {named("y")}, {T}) {{\n'
    + exp("0", "a", named("inner")) + exp("1", "0") + exp("2", "1")
    + f"return %2, %1 : {T}, {T}\n}}\n"
)  # fmt: skip


def test_names_of_arguments_results_and_inner_values_are_retained(parse: Any) -> None:
    assert names(check(read(parse(CARRIED)))) == (
        ["x", "TosaInput_0"],
        ["inner", "TosaOutput_0", "y"],
        ["y", "TosaOutput_0"],
    )


def test_names_are_ignored_if_all_are_to_be_generated(parse: Any) -> None:
    assert names(check(read(parse(CARRIED), ReadOptions(names="generate")))) == (
        ["TosaInput_0", "TosaInput_1"],
        ["layer_0", "TosaOutput_1", "TosaOutput_0"],
        ["TosaOutput_0", "TosaOutput_1"],
    )


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


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f'func.func @f(%a: {T} {named("n")}, %b: {T} {named("n")}) {{ return }}\n', "argument 1"),
        (
            f'func.func @f(%a: {T} {named("n")}) {{\n{exp("0", "a", named("n"))}return\n}}\n',
            "the result of 'tosa.exp'",
        ),
        (
            f"func.func @f(%a: {T}) {{\n"
            + exp("0", "a", named("n")) + exp("1", "a", named("n")) + "return\n}\n",
            "the result of 'tosa.exp'",
        ),
        (
            f'func.func @f(%a: {T}) -> ({T} {named("n")}, {T} {named("n")}) {{\n'
            + exp("0", "a") + exp("1", "a") + f"return %0, %1 : {T}, {T}\n}}\n",
            "result 1",
        ),
        (
            f'func.func @f(%a: {T} {named("n")}) -> ({T} {named("n")}) {{\n'
            + exp("0", "a") + f"return %0 : {T}\n}}\n",
            "result 0",
        ),
    ],
)  # fmt: skip
def test_two_values_with_one_name_are_refused_unless_names_are_generated(
    parse: Any, text: str, what: str
) -> None:
    with pytest.raises(TosaConvertError) as caught:
        read(parse(text))
    (finding,) = caught.value.findings
    assert finding.code == "duplicate-name"
    assert f'{what} is called "n"' in finding.message
    check(read(parse(text), ReadOptions(names="generate")))


RETURNED = (
    f"func.func @f(%c: tensor<i1>, %a: {T}) -> (SIGNATURE) {{\n"
    f'%0:2 = "tosa.cond_if"(%c, %a) ({{ ^bb0(%x: {T}): {exp("1", "x", named("then"))}'
    f'"tosa.yield"(%1, %x) : ({T}, {T}) -> () }}, '
    f'{{ ^bb0(%x: {T}): {exp("1", "x")} "tosa.yield"(%x, %1) : ({T}, {T}) -> () }}) '
    f'{{tosa.tensor_name = ["left", "right"]}} : (tensor<i1>, {T}) -> ({T}, {T})\n'
    f"return %0#1, %0#0 : {T}, {T}\n}}\n"
)


def test_returned_and_yielded_values_keep_the_names_of_their_operators(parse: Any) -> None:
    found = check(read(parse(RETURNED.replace("SIGNATURE", f"{T}, {T}"))))
    assert found.main.outputs == ["right", "left"]
    assert found.main.operators[0].outputs == ("left", "right")
    then, otherwise = (region.blocks[0] for region in found.regions[1:])
    # The counter of generated names does not count the others.
    assert then.outputs == ["then", "TosaInput_2"]
    assert otherwise.outputs == ["TosaInput_3", "TosaOutput_0"]


def test_the_name_of_a_result_comes_before_the_name_of_its_operator(parse: Any) -> None:
    signature = f"{T} {named('first')}, {T}"
    found = check(read(parse(RETURNED.replace("SIGNATURE", signature))))
    assert found.main.outputs == ["first", "left"]
    generated = read(parse(RETURNED.replace("SIGNATURE", signature)), ReadOptions(names="generate"))
    assert generated.main.outputs == ["TosaOutput_0", "TosaOutput_1"]


def test_names_of_returned_operators_survive_the_round_trip_through_mlir(
    parse: Any, bindings: Bindings, context: Any
) -> None:
    graph = read(parse(RETURNED.replace("SIGNATURE", f"{T}, {T}")))
    assert compare(graph, read(write(graph, bindings, context)), locations=True) is None


def test_a_value_returned_twice_has_one_name(parse: Any) -> None:
    text = (
        f'func.func @f(%a: {T}) -> ({T} {named("y")}, {T} {named("z")}, {T}) {{\n'
        + exp("0", "a") + f"return %0, %0, %0 : {T}, {T}, {T}\n}}\n"
    )  # fmt: skip
    assert names(check(read(parse(text)))) == (["TosaInput_0"], ["y"], ["y", "y", "y"])


def test_a_returned_argument_keeps_the_arguments_name(parse: Any) -> None:
    text = f"func.func @f(%a: {T} {named('x')}) -> ({T} {named('y')}) {{ return %a : {T} }}\n"
    assert names(check(read(parse(text)))) == (["x"], [], ["x"])


@pytest.mark.parametrize("name", ["", " ", "é", "a b/c:0", "\N{GRINNING FACE}", "q\\22q"])
def test_any_text_may_be_a_name(parse: Any, name: str) -> None:
    text = f"func.func @f(%a: {T} {named(name)}) {{ return }}\n"
    assert read(parse(text)).main.inputs == [name.replace("\\22", '"')]


@pytest.mark.parametrize("attribute", ["7 : i32", "unit", "[1]", '"\\FF"', "{}"])
def test_an_attribute_that_is_not_text_is_not_a_name(parse: Any, attribute: str) -> None:
    text = f"func.func @f(%a: {T} {{tosa.tensor_name = {attribute}}}) {{ return }}\n"
    assert read(parse(text)).main.inputs == ["TosaInput_0"]
    inner = f"{{tosa.tensor_name = {attribute}}}"
    text = f"func.func @f(%a: {T}) {{\n{exp('0', 'a', inner)}return\n}}\n"
    assert names(read(parse(text)))[1] == ["layer_0"]


def test_names_that_frontends_leave_are_used_without_names_of_the_dialect(parse: Any) -> None:
    entry = 'attributes {tf.entry_function = {inputs = "in:0, other", outputs = "out"}}'
    text = f"func.func @f(%a: {T}, %b: {T}) -> {T} {entry} {{ return %b : {T} }}\n"
    assert read(parse(text)).main.inputs == ["in:0", "other"]
    text = text.replace(f"%a: {T}", f"%a: {T} {named('x')}")
    assert read(parse(text)).main.inputs == ["x", "TosaInput_0"]
    text = f'func.func @f(%a: {T} {{tf_saved_model.index_path = ["k"]}}, %b: {T}) {{ return }}\n'
    assert read(parse(text)).main.inputs == ["k", "TosaInput_0"]


@pytest.mark.parametrize("inputs", ["only", "a,b,c", "a,a", "a,", ""])
def test_a_list_of_names_that_does_not_fit_is_ignored(parse: Any, inputs: str) -> None:
    entry = f'attributes {{tf.entry_function = {{inputs = "{inputs}"}}}}'
    text = f"func.func @f(%a: {T}, %b: {T}) {entry} {{ return }}\n"
    assert read(parse(text)).main.inputs == ["TosaInput_0", "TosaInput_1"]


@pytest.mark.parametrize("entry", ["7 : i32", '"a,b"', "[]", "{inputs = 7 : i32}", "{outputs}"])
def test_a_list_of_names_in_another_form_is_ignored(parse: Any, entry: str) -> None:
    entry = f"attributes {{tf.entry_function = {entry}}}"
    text = f"func.func @f(%a: {T}, %b: {T}) {entry} {{ return }}\n"
    assert read(parse(text)).main.inputs == ["TosaInput_0", "TosaInput_1"]


def test_an_operation_may_name_all_its_results(parse: Any) -> None:
    kind = "tensor<1x4x8xf32>"
    half = "tensor<1x4x5xf32>"
    text = (
        f"func.func @f(%a: {kind}) {{\n"
        f'%0:2 = "tosa.rfft2d"(%a) {{tosa.tensor_name = ["re", "im"]}} : ({kind}) -> ({half}, {half})\n'
        f'%1:2 = "tosa.rfft2d"(%a) {{tosa.tensor_name = "only"}} : ({kind}) -> ({half}, {half})\n'
        "return\n}\n"
    )
    assert names(check(read(parse(text))))[1] == ["re", "im", "only", "layer_3"]


VARIABLES = (
    "module {\n"
    "tosa.variable @v = dense<1> : tensor<2xi32>\n"
    "tosa.variable @w : tensor<2xi32>\n"
    'func.func @f(%a: tensor<2xi32> {tosa.tensor_name = "NAME"}) {\n'
    "%0 = tosa.variable_read @w : tensor<2xi32>\n"
    "tosa.variable_write @v, %0 : tensor<2xi32>\n"
    "return\n}\n}\n"
)


def test_variables_are_numbered_and_keep_their_symbols(parse: Any) -> None:
    found = check(read(parse(VARIABLES)))
    variables = {t.name: t.variable_name for t in found.main.tensors.values() if t.variable}
    assert variables == {"Variable_1": "w", "Variable_0": "v"}
    assert list(variables) == ["Variable_1", "Variable_0"]
    reading, writing = found.main.operators
    assert (reading.inputs, writing.outputs) == (("Variable_1",), ("Variable_0",))


def test_the_name_of_a_variable_is_refused_for_a_value(parse: Any) -> None:
    with pytest.raises(TosaConvertError) as caught:
        read(parse(VARIABLES.replace("NAME", "Variable_0")))
    assert caught.value.code == "duplicate-name"


@pytest.mark.parametrize("text", [PLAIN, CARRIED, VARIABLES])
@pytest.mark.parametrize("mode", ["retain", "generate"])
def test_names_survive_the_round_trip_through_mlir(
    parse: Any, bindings: Bindings, context: Any, text: str, mode: Any
) -> None:
    graph = read(parse(text), ReadOptions(names=mode))
    module = write(graph, bindings, context, names="retain")
    again = read(module)
    assert compare(graph, again, locations=True) is None


def test_only_names_that_would_not_be_generated_are_written(
    parse: Any, bindings: Bindings, context: Any
) -> None:
    module = write(read(parse(PLAIN)), bindings, context)
    inner = list(next(iter(module.body.operations)).regions[0].blocks[0].operations)
    assert all("tosa.tensor_name" not in operation.attributes for operation in inner)
    module = write(read(parse(CARRIED)), bindings, context)
    assert str(module).count("inner") == 1


def test_generated_names_leave_only_the_signatures_in_mlir(
    parse: Any, bindings: Bindings, context: Any
) -> None:
    graph = read(parse(CARRIED))
    module = write(graph, bindings, context, names="generate")
    text = str(module)
    assert "inner" not in text
    assert "func.func @main" in text
    assert 'tosa.tensor_name = "x"' in text
    assert 'tosa.tensor_name = "y"' in text


@pytest.mark.parametrize("where", ["name", "location"])
def test_a_lone_surrogate_is_refused(bindings: Bindings, context: Any, where: str) -> None:
    name, location = ("a\ud800", "") if where == "name" else ("a", 'loc("\udfff":1:2)')
    made = graph(name, "b", [tensor(name), tensor("b")], [op("EXP", name, "b", location)])
    with pytest.raises(TosaConvertError) as caught:
        write(made, bindings, context)
    assert caught.value.code == "value-out-of-range"
