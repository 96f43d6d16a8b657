"""Edited blocks: operators of a caller in the place of others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from refusing import refused

import tosa_convert as tc
from tosa_convert.builder import Builder, Value
from tosa_convert.builder.edit import BlockEditor
from tosa_convert.graph import Graph, Operator


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

    with refused("undefined-name"):
        tc.edit.rewrite(SIGMOID, without_operators)


def test_a_graph_is_asked_for() -> None:
    with pytest.raises(TypeError, match="expected a Graph"):
        tc.edit.rewrite(ADD.main, sigmoid_by_tanh)  # type: ignore[arg-type]


def test_a_value_that_does_not_exist_replaces_nothing() -> None:
    with refused("undefined-name") as caught:
        tc.edit.rewrite(SIGMOID, lambda op, edit: edit.replace(op, ["nothing"]))
    assert caught.value.findings[0].where == 'region "net" block "main" operator #0 SIGMOID'
