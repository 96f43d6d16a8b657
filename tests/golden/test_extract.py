from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from golden.conftest import MakeBuilder
from unit import building
from unit.building import region, tensor

from tosa_convert.errors import TosaConvertError
from tosa_convert.graph import Graph, Operator, dtype, operator, verify
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.derived import extract, extract_region, needed_operators


def test_a_name_that_only_locations_have_is_refused_with_the_last_value_there(chain: Graph) -> None:
    for op in chain.main.operators:
        op.location = r'loc("the s\C3\BCm"("m.tflite":0:0))'
    last = chain.main.operators[-1].outputs[-1]
    hint = f'values of the location "the süm", the last is "{last}"'
    with pytest.raises(TosaConvertError, match=hint):
        extract(chain, ["the süm"])


def test_an_input_that_no_output_depends_on_is_refused(chain: Graph) -> None:
    with pytest.raises(TosaConvertError, match='no output depends on "c"'):
        extract(chain, ["a"], ["c"])
    with pytest.raises(TosaConvertError, match="needs an output"):
        extract(chain, [])


def test_a_shape_cannot_be_an_input(builder: MakeBuilder) -> None:
    b = builder()
    b.input("x", "INT32", (4,))
    b.shape("s", [2, 2])
    b.op("RESHAPE", ["x", "s"], "y", "INT32", (2, 2))
    with pytest.raises(TosaConvertError, match='"s" is a shape'):
        extract(b.graph("y"), ["y"], ["s"])
    assert set(extract(b.graph("y"), ["y"]).main.shapes) == {"s"}


def test_a_variable_cannot_be_an_input(builder: MakeBuilder) -> None:
    b = builder()
    data = constant_of(np.array([5]), dtype("INT32"))
    b.input("x", "INT32", (1,))
    b.tensor("v", "INT32", (1,), data=data, variable=True)
    b.block.operators.append(Operator(operator("VARIABLE_WRITE"), ("x",), ("v",)))
    b.op("VARIABLE_READ", ["v"], "now", "INT32", (1,))
    with pytest.raises(TosaConvertError, match='"v" is a variable'):
        extract(b.graph("now"), ["now"], ["v"])


def writing_branches() -> Graph:
    """Return a program with a variable that branches write, and operators that do not read it."""
    states = [tensor("v", "INT32", (1,)), tensor("w", "INT32", (1,))]
    for state in states:
        state.variable, state.variable_name = True, f"symbol_{state.name}"
    values = [tensor(name, "INT32", (1,)) for name in "xyreznu"]
    branches = {"then_graph": "inner", "else_graph": "still"}
    made = building.graph(
        "c x",
        "y r e z n u",
        [tensor("c", "BOOL", ()), *values, *states],
        [
            building.op("VARIABLE_WRITE", "x", "v"),
            building.op("COND_IF", "c x", "y", **branches),
            building.op("VARIABLE_READ", "v", "r"),
            building.op("ABS", "x", "e"),
            building.op("COND_IF", "c e", "z", **branches),
            building.op("VARIABLE_WRITE", "e", "v"),
            building.op("VARIABLE_READ", "v", "n"),
            building.op("COND_IF", "c x", "u", then_graph="still", else_graph="still"),
        ],
    )
    inner = [tensor("a", "INT32", (1,)), replace(states[0])]
    made.regions += [
        region("inner", "a", "b", [*inner, tensor("b", "INT32", (1,)), tensor("t", "BOOL", ())], [
            building.op("CONST", "", "t"),
            building.op("COND_IF", "t a", "b", then_graph="writes", else_graph="still"),
        ]),
        region("still", "a", "a", [inner[0]], []),
        region("lost", "a", "a", inner, [
            building.op("COND_IF", "t a", "b", then_graph="more", else_graph="still"),
        ]),
        region("writes", "a", "a", inner, [building.op("VARIABLE_WRITE", "a", "v")]),
        region("more", "a", "a", [inner[0]], []),
    ]  # fmt: skip
    return made


@pytest.mark.parametrize(
    ("output", "needed"),
    [
        ("y", {0, 1}),
        ("r", {0, 1, 2}),
        ("e", {3}),
        ("z", {0, 1, 3, 4}),
        ("n", {0, 1, 3, 4, 5, 6}),
        ("u", {7}),
    ],
)
def test_a_region_that_writes_a_variable_is_kept_for_what_sees_it(
    output: str, needed: set[int]
) -> None:
    made = writing_branches()
    assert needed_operators(made, [output]) == needed
    part = extract(made, [output])
    # The variables of regions are not looked at, so all remain.
    states = {name for name, value in part.main.tensors.items() if value.variable}
    assert states == (set() if output == "e" else {"v", "w"})


def test_a_region_becomes_a_graph_with_the_regions_it_runs(builder: MakeBuilder) -> None:
    from golden.test_regions import region

    outer, middle, inner, other = (builder() for _ in range(4))
    for b in (outer, middle, inner, other):
        b.input("c", "BOOL", (1,))
    outer.op("COND_IF", ["c", "c"], "y", "BOOL", (1,), then_graph="middle", else_graph="other")
    middle.op("COND_IF", ["c", "c"], "y", "BOOL", (1,), then_graph="inner", else_graph="inner")
    inner.op("LOGICAL_NOT", ["c"], "y", "BOOL", (1,))
    graph = outer.graph("y")
    graph.regions += [region("middle", middle, "y"), region("inner", inner, "y")]
    graph.regions.append(region("other", other, "c"))
    assert verify(graph) == []
    part = extract_region(graph, "middle")
    assert [r.name for r in part.regions] == ["main", "inner"]
    assert part.main.name == "main"
    assert verify(part) == []
    assert graph.regions[1].blocks[0].name == "middle"
    with pytest.raises(TosaConvertError, match="does not have this region"):
        extract_region(graph, "nowhere")


def split(builder: MakeBuilder) -> Graph:
    """Both results of an operator, and a sum of them."""
    b = builder()
    b.input("x", "FP32", (1, 2, 4))
    b.tensor("r", "FP32", (1, 2, 3))
    b.tensor("i", "FP32", (1, 2, 3))
    op = Operator(operator("RFFT2D"), ("x",), ("r", "i"), {"local_bound": False})
    b.block.operators.append(op)
    b.op("ADD", ["r", "i"], "s", "FP32", (1, 2, 3))
    return b.graph("s")


def test_one_result_of_an_operator_may_be_an_input_while_another_is_computed(
    builder: MakeBuilder,
) -> None:
    graph = split(builder)
    part = extract(graph, ["s"], ["r"])
    assert verify(part) == []
    assert part.main.inputs == ["x", "r"]
    assert part.main.operators[0].outputs == ("r_1", "i")
    assert graph.main.operators[0].outputs == ("r", "i")
    assert verify(graph) == []


@pytest.mark.usefixtures("refmodel")
def test_the_results_of_an_operator_come_in_one_batch(builder: MakeBuilder) -> None:
    from tosa_convert.golden.running.run import batches, select

    graph = split(builder)
    x = {"x": np.ones((1, 2, 4), np.float32)}
    found = [batch.tensors for batch in batches(graph, x, select(graph), batch_bytes=1)]
    assert found == [[(0, "r"), (0, "i")], [(1, "s")]]
