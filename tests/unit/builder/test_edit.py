"""Edited blocks: operators of a caller in the place of others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.builder import Builder, Value
from tosa_convert.builder.edit import BlockEditor
from tosa_convert.graph import Graph, Operator, dtype


def program(build: Callable[[Builder], Value]) -> Graph:
    """Return a program of one result, "y"."""
    b = Builder("net")
    b.output(build(b), name="y")
    return b.graph()


def edited(graph: Graph, rule: Callable[[Operator, BlockEditor], object]) -> Graph:
    """Return the rewritten program, which is valid; the given one does not change."""
    before = str(graph)
    made = tc.edit.rewrite(graph, rule)
    assert str(graph) == before
    assert tc.validate(made) == []
    return made


def kinds(graph: Graph) -> list[str]:
    return [op.spec.name for op in graph.main.operators]


def sigmoid_by_tanh(op: Operator, edit: BlockEditor) -> None:
    if op.spec.name == "SIGMOID":
        (x,), half = op.inputs, edit.number(0.5, like=op.inputs[0])
        tanh = edit.emit("TANH", [edit.emit("MUL", [x, half])])
        edit.replace(op, [edit.emit("ADD", [edit.emit("MUL", [tanh, half]), half])])


SIGMOID = program(lambda b: b.sigmoid(b.input("x", "fp32", (2, 3))))
ADD = program(lambda b: b.add(b.input("x", "fp32", (2, 3)), 1.0))


def test_a_rewrite_of_a_caller_computes_the_same() -> None:
    made = edited(SIGMOID, sigmoid_by_tanh)
    assert kinds(made) == ["CONST", "CONST", "MUL", "TANH", "MUL", "ADD"]
    x = np.linspace(-4, 4, 6, dtype=np.float32).reshape(2, 3)
    before, after = (tc.run(graph, {"x": x}).outputs["y"] for graph in (SIGMOID, made))
    np.testing.assert_allclose(after, before, atol=1e-6)


def test_operators_in_regions_are_rewritten() -> None:
    b = Builder("net")
    x, flag = b.input("x", "fp32", (4,)), b.input("flag", "bool", ())
    b.output(*b.cond_if(flag, [x], lambda b, x: b.sigmoid(x), lambda b, x: b.abs(x)), name="y")
    made = edited(b.graph(), sigmoid_by_tanh)
    assert [len(region.blocks[0].operators) for region in made.regions] == [1, 6, 1]


def test_a_program_without_the_operator_is_the_same_object() -> None:
    assert tc.edit.rewrite(ADD, sigmoid_by_tanh) is ADD


def test_what_is_emitted_has_the_location_of_the_visited_operator() -> None:
    b = Builder("net")
    x = b.input("x", "fp32", (2, 3))
    b.location = 'loc("net.py":3:1)'
    b.output(b.sigmoid(x), name="y")
    made = edited(b.graph(), sigmoid_by_tanh)
    places = {op.spec.name: op.location for op in made.main.operators if op.inputs}
    assert set(places.values()) == {'loc("net.py":3:1)'}


def test_the_last_emitted_operator_takes_the_name_of_the_result() -> None:
    made = edited(SIGMOID, sigmoid_by_tanh)
    assert made.main.outputs == ["y"]
    assert made.main.operators[-1].outputs == ("y",)
    assert "y_add" not in made.main.tensors


def test_later_operators_use_the_value_that_replaces_a_result() -> None:
    graph = program(lambda b: b.abs(b.identity(b.exp(b.input("x", "fp32", (4,))))))

    def without_identity(op: Operator, edit: BlockEditor) -> None:
        if op.spec.name == "IDENTITY":
            edit.replace(op, op.inputs)

    made = edited(graph, without_identity)
    assert kinds(made) == ["EXP", "ABS"]
    assert made.main.operators[1].inputs == made.main.operators[0].outputs
    assert "identity" not in made.main.tensors


def test_a_result_of_the_program_keeps_its_name_if_an_input_replaces_it() -> None:
    graph = program(lambda b: b.abs(b.input("x", "fp32", (4,))))

    def to_operand(op: Operator, edit: BlockEditor) -> None:
        edit.replace(op, op.inputs)

    made = edited(graph, to_operand)
    assert [(op.spec.name, op.inputs, op.outputs) for op in made.main.operators] == [
        ("IDENTITY", ("x",), ("y",))
    ]


def test_an_operator_stays_behind_what_is_emitted_before_it() -> None:
    def with_exp(op: Operator, edit: BlockEditor) -> None:
        if op.spec.name == "ADD":
            op.inputs = (edit.emit("EXP", op.inputs[:1]), op.inputs[1])

    b = Builder("net")
    b.output(b.add(b.input("x", "fp32", (2, 3)), 1.0), name="y")
    made = tc.edit.rewrite(b.graph(), with_exp)
    assert kinds(made) == ["CONST", "EXP", "ADD"]


def test_an_operator_without_users_can_be_removed() -> None:
    b = Builder("net")
    x = b.input("x", "fp32", (4,))
    b.exp(x)
    b.output(b.abs(x), name="y")

    def without_exp(op: Operator, edit: BlockEditor) -> None:
        if op.spec.name == "EXP":
            edit.remove(op)

    made = edited(b.graph(), without_exp)
    assert kinds(made) == ["ABS"]
    assert "exp" not in made.main.tensors


def test_equal_constants_are_one_and_shifts_are_zero() -> None:
    edit = tc.edit.BlockEditor(ADD.main)
    one, other = edit.number(2, like="x"), edit.number(2, like="x")
    edit.emit("MUL", ["x", one])
    edit.emit("MUL", ["x", other])
    assert [op.spec.name for op in edit.operators] == ["CONST", "CONST", "MUL", "MUL"]
    shift = edit.tensors[edit.operators[-1].inputs[2]]
    assert (shift.dtype, edit.number_of(shift.name)) == (dtype("INT8"), 0)


@pytest.mark.parametrize(
    ("kind", "operands", "attributes", "zeros"),
    [
        ("MATMUL", ["a", "a"], {}, ["INT8", "INT8"]),
        ("NEGATE", ["a"], {}, ["INT8", "INT8"]),
        ("AVG_POOL2D", ["i"], {"kernel": (2, 2)}, ["INT8", "INT8"]),
        ("CONV2D", ["i", "w", "b"], {}, ["INT8", "INT8"]),
    ],
)
def test_zero_points_that_are_left_out_are_0(
    kind: str, operands: list[str], attributes: dict[str, tuple[int, ...]], zeros: list[str]
) -> None:
    b = Builder("net")
    b.input("a", "int8", (1, 4, 4))
    b.input("i", "int8", (1, 4, 4, 2))
    b.input("w", "int8", (3, 1, 1, 2))
    b.output(b.identity(b.input("b", "int32", (3,))))
    edit = tc.edit.BlockEditor(b.graph().main)
    result = edit.emit(kind, operands, attributes)
    added = edit.operators[-1].inputs[len(operands) :]
    assert [edit.tensors[name].dtype.name for name in added] == zeros
    assert [edit.number_of(name) for name in added] == [0] * len(zeros)
    assert edit.tensors[result].shape


def test_a_dtype_chooses_among_the_types_of_results() -> None:
    edit = tc.edit.BlockEditor(ADD.main)
    assert edit.tensors[edit.emit("CAST", ["x"], dtype="fp16")].dtype is dtype("FP16")
    with pytest.raises(tc.TosaConvertError) as caught:
        edit.emit("CAST", ["x"])
    assert caught.value.code == "option-conflict"


@pytest.mark.parametrize(
    ("emit", "code", "message"),
    [
        (lambda e: e.emit("ADD", ["x", "wide"]), "invalid-operator", "[5, 7]"),
        (lambda e: e.emit("ADD", ["x"]), "malformed-operator", "1 operands"),
        (lambda e: e.emit("ADD", ["x", "z"]), "undefined-name", '"z"'),
        (lambda e: e.emit("ADDD", ["x", "x"]), "option-conflict", "did you mean ADD"),
        (lambda e: e.emit("EXP", ["x"], {"axis": 1}), "malformed-operator", "axis"),
        (lambda e: e.emit("REDUCE_SUM", ["x"]), "malformed-operator", "axis"),
        (lambda e: e.constant([300], "int8"), "value-out-of-range", "300 does not fit INT8"),
        (lambda e: e.constant([1], "int7"), "unsupported-dtype", "int7"),
        (lambda e: e.const_shape([1 << 63]), "value-out-of-range", "INT64"),
    ],
)
def test_what_tosa_forbids_is_refused_where_it_is_emitted(
    emit: Callable[[BlockEditor], str], code: str, message: str
) -> None:
    b = Builder("net")
    b.input("wide", "fp32", (5, 7))
    b.output(b.identity(b.input("x", "fp32", (2, 3))))
    edit = tc.edit.BlockEditor(b.graph().main, 'region "net" block "main"')
    with pytest.raises(tc.TosaConvertError) as caught:
        emit(edit)
    finding = caught.value.findings[0]
    assert finding.code == code
    assert message in f"{finding.message} {finding.hint}"
    assert finding.where.startswith('region "net" block "main"') or code in (
        "option-conflict",
        "unsupported-dtype",
    )
    assert edit.operators == []


def test_a_value_of_another_type_replaces_nothing() -> None:
    def to_half(op: Operator, edit: BlockEditor) -> None:
        if op.spec.name == "SIGMOID":
            edit.replace(op, [edit.emit("CAST", op.inputs, dtype="fp16")])

    with pytest.raises(tc.TosaConvertError) as caught:
        tc.edit.rewrite(SIGMOID, to_half)
    (finding,) = caught.value.findings
    assert finding.code == "malformed-operator"
    assert "FP16 [2, 3], and replaces FP32 [2, 3]" in finding.message


def test_a_removed_result_that_is_used_is_found() -> None:
    def without_operators(op: Operator, edit: BlockEditor) -> None:
        edit.remove(op)

    with pytest.raises(tc.TosaConvertError) as caught:
        tc.edit.rewrite(SIGMOID, without_operators)
    assert caught.value.code == "undefined-name"


def test_two_results_can_be_replaced_by_one_emitted_value() -> None:
    b = Builder("net")
    real, imag = b.rfft2d(b.input("x", "fp32", (1, 4, 4)))
    b.output(real, imag, name=("re", "im"))

    def to_zero(op: Operator, edit: BlockEditor) -> None:
        if op.spec.name == "RFFT2D":
            start, size = edit.const_shape((0, 0, 0)), edit.const_shape((1, 4, 3))
            edit.replace(op, [edit.emit("SLICE", [op.inputs[0], start, size])] * 2)

    made = edited(b.graph(), to_zero)
    assert [(op.spec.name, op.outputs) for op in made.main.operators[2:]] == [
        ("SLICE", ("re",)),
        ("IDENTITY", ("im",)),
    ]


def test_a_graph_is_asked_for() -> None:
    with pytest.raises(TypeError, match="expected a Graph"):
        tc.edit.rewrite(ADD.main, sigmoid_by_tanh)  # type: ignore[arg-type]


def test_a_value_that_does_not_exist_replaces_nothing() -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.edit.rewrite(SIGMOID, lambda op, edit: edit.replace(op, ["nothing"]))
    assert caught.value.code == "undefined-name"
    assert caught.value.findings[0].where == 'region "net" block "main" operator #0 SIGMOID'
