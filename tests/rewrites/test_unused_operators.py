from __future__ import annotations

import numpy as np
from rewrites.programs import kinds, program, rewritten
from unit.building import counting, graph, op, region, tensor

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.graph import Graph

NAME = "unused-operators"


def test_what_no_output_depends_on_is_removed() -> None:
    def build(b: Builder) -> object:
        x = b.input("x", "fp32", (2, 3))
        b.reshape(b.add(x, 1.0), (6,))
        return b.abs(x)

    made, report = rewritten(program(build), NAME)  # type: ignore[arg-type]
    assert [op.spec.name for op in made.main.operators] == ["ABS"]
    assert list(made.main.tensors) == ["x", "y"]
    assert not made.main.shapes
    assert report.count(NAME) == 4
    assert [change.what for change in report.changes] == [
        "removed CONST",
        "removed ADD",
        "removed CONST_SHAPE",
        "removed RESHAPE",
    ]


def test_an_unused_input_stays() -> None:
    made, _ = rewritten(
        program(lambda b: (b.input("unused", "fp32", (1,)), b.abs(b.input("x", "fp32", (2,))))[1]),
        NAME,
    )
    assert made.main.inputs == ["unused", "x"]


def test_writes_of_variables_stay_and_unused_reads_do_not() -> None:
    state = counting()
    block = state.main
    block.outputs = ["x"]
    made, _ = rewritten(state, NAME)
    assert made is state
    block.operators = [block.operators[0], op("VARIABLE_WRITE", "x", "v")]
    made, report = rewritten(state, NAME)
    assert kinds(made) == ["VARIABLE_WRITE"]
    assert [t.variable_name for t in made.main.tensors.values() if t.variable] == ["counter"]
    assert str(report).startswith("unused-operators: removed VARIABLE_READ: ")


def test_one_read_of_a_variable_that_nothing_writes_stays() -> None:
    b = Builder("t")
    x = b.input("x", "int32", (2,))
    state = b.variable("state", "int32", (2,), initial=[1, 2])
    for _ in range(2):
        b.add(b.read(state), x)
    b.output(b.bitwise_not(x), name="y")
    made, _ = rewritten(b.graph(), NAME)
    assert kinds(made) == ["VARIABLE_READ", "BITWISE_NOT"]
    assert tc.validate(made) == []
    assert rewritten(made, NAME)[0] is made


def test_operators_with_an_effect_stay() -> None:
    custom = graph(
        "x",
        "x",
        [tensor("x"), tensor("y")],
        [op("CUSTOM", "x", "y", operator_name="log", domain_name="d", implementation_attrs=b"")],
    )
    assert rewritten(custom, NAME)[0] is custom


def unused_branch(writes: bool) -> Graph:
    """Return a COND_IF without a use, whose branch reads a variable, and perhaps writes it."""
    made = counting()
    block = made.main
    block.inputs.append("c")
    block.tensors["c"] = tensor("c", "BOOL", ())
    block.tensors["z"] = tensor("z", "INT32", (1,))
    block.outputs = ["x"]
    block.operators = [op("COND_IF", "c x", "z", then_graph="then", else_graph="else")]
    values = [tensor("a", "INT32", (1,)), block.tensors["v"]]
    body = [op("VARIABLE_WRITE", "a", "v")] if writes else []
    made.regions += [region("then", "a", "a", list(values), body)]
    made.regions += [region("else", "a", "a", list(values), [])]
    return made


def test_control_flow_that_writes_a_variable_stays() -> None:
    made = unused_branch(writes=True)
    assert rewritten(made, NAME)[0] is made


def test_unused_control_flow_goes_with_its_regions() -> None:
    made, _ = rewritten(unused_branch(writes=False), NAME)
    assert [region.name for region in made.regions] == ["main"]


def test_regions_are_cleaned_up_too() -> None:
    made = unused_branch(writes=True)
    block = made.regions[1].blocks[0]
    block.tensors["t"] = tensor("t", "INT32", (1,))
    block.operators.append(op("ABS", "a", "t"))
    cleaned, report = rewritten(made, NAME)
    assert [op.spec.name for op in cleaned.regions[1].blocks[0].operators] == ["VARIABLE_WRITE"]
    assert 'region "then" block "then_bb0" operator #1 ABS' in str(report)


def test_results_of_one_operator_stay_together() -> None:
    def build(b: Builder) -> object:
        x = b.input("x", "fp32", (1, 2, 4))
        real, _ = b.rfft2d(x)
        return real

    built = program(build)  # type: ignore[arg-type]
    assert rewritten(built, NAME)[0] is built
    assert kinds(built) == ["RFFT2D"]


def test_a_large_chain_of_unused_operators_takes_one_pass() -> None:
    def build(b: Builder) -> object:
        x = b.input("x", "fp32", (2,))
        value = x
        for _ in range(50):
            value = b.abs(value)
        return b.const(np.zeros(2, np.float32))

    made, report = rewritten(program(build), NAME)  # type: ignore[arg-type]
    assert [op.spec.name for op in made.main.operators] == ["CONST"]
    assert report.count(NAME) == 50
