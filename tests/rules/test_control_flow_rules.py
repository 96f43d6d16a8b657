"""The rules of operators that run regions."""

from __future__ import annotations

from unit.building import branching, op, region, tensor

from tosa_convert.graph import Graph, Region, Tensor, dtype
from tosa_convert.rules.families.checks import Violation
from tosa_convert.rules.families.control_flow import _fits
from tosa_convert.rules.operator_view import OperatorView, TypeTable
from tosa_convert.rules.validate import Verdict, judge


def verdict(graph: Graph, *, building: bool = False) -> Verdict:
    """Return the verdict on the first operator of the main graph; building: it has no results yet."""
    main = graph.main
    types = TypeTable().of_block(main)
    operator = main.operators[0]
    inputs = tuple(types[name] for name in operator.inputs)
    outputs = () if building else tuple(types[name] for name in operator.outputs)
    regions = {region.name: region.blocks[0] for region in graph.regions}
    return judge(OperatorView(operator, inputs, outputs, regions))


def rules(graph: Graph) -> list[str]:
    return [violation.rule for violation in verdict(graph).violations]


def looping() -> Graph:
    """Return a loop over a counter and a tensor."""
    made = branching()
    made.main.tensors = {
        value.name: value
        for value in (tensor("c", "INT32", ()), tensor("x"), tensor("d", "INT32", ()), tensor("y"))
    }
    made.main.operators[:] = [op("WHILE_LOOP", "c x", "d y", cond_graph="cond", body_graph="body")]
    counter, state = tensor("i", "INT32", ()), tensor("a")
    made.regions[1:] = [
        region("cond", "i a", "p", [counter, state, tensor("p", "BOOL", ())], []),
        region("body", "i a", "i a", [tensor("i", "INT32", ()), tensor("a")], []),
    ]
    return made


def values(made: Graph, name: str) -> dict[str, Tensor]:
    return made.regions[[found.name for found in made.regions].index(name)].blocks[0].tensors


def test_a_condition_is_one_bool() -> None:
    made = branching()
    for shape in ((1, 1), (-1,), None):
        made.main.tensors["c"].shape = shape
        assert rules(made) == []
    made.main.tensors["c"].shape = (1, 2)
    assert rules(made) == ["condition-shape"]
    made.main.tensors["c"] = tensor("c", "INT8", (1,))
    assert rules(made) == ["condition-type"]


def test_a_loops_condition_is_one_bool() -> None:
    made = looping()
    values(made, "cond")["p"].shape = (3,)
    assert rules(made) == ["condition-shape"]
    values(made, "cond")["p"].dtype = dtype("INT32")
    assert rules(made) == ["condition-type"]
    made.regions[1].blocks[0].outputs.append("i")
    assert rules(made) == ["condition-count"]


def test_a_region_takes_the_operands() -> None:
    made = branching()
    values(made, "then")["a"].shape = (2, 4)
    assert rules(made) == ["then-inputs"]
    made = branching()
    values(made, "else")["a"].dtype = dtype("FP16")
    assert rules(made) == ["else-inputs", "else-outputs"]
    made = branching()
    made.regions[2].blocks[0].inputs.append("x")
    assert rules(made) == ["else-inputs"]
    assert verdict(made).violations[0] == Violation(
        "else-inputs", 'inputs of region "else": 2 values', "1, as the operands are"
    )


def test_a_region_returns_the_results() -> None:
    made = branching()
    values(made, "then")["b"].shape = (2, 4)
    assert verdict(made).violations == (
        Violation(
            "then-outputs",
            'outputs of region "then": value 0 is FP32 [2, 4]',
            "FP32 [2, 3], as the results are",
        ),
    )
    made = branching()
    made.regions[2].blocks[0].outputs.clear()
    assert rules(made) == ["else-outputs"]


def test_a_loop_keeps_the_types_of_its_state() -> None:
    made = looping()
    made.main.tensors["y"].shape = (2, 4)
    assert rules(made) == ["output-list"]
    made = looping()
    made.main.operators[0].outputs = ("d",)
    assert rules(made) == ["output-list"]
    made = looping()
    values(made, "body")["a"].shape = (2, 4)
    assert rules(made) == ["body-inputs", "body-outputs"]
    made = looping()
    values(made, "cond")["a"].shape = (2, 4)
    assert rules(made) == ["cond-inputs"]


def test_what_branches_share_is_inferred() -> None:
    made = branching()
    values(made, "then")["b"].shape = (2, 4)
    made.main.tensors["y"].shape = (2, -1)
    assert rules(made) == []
    assert verdict(made).results == ((2, -1),)
    made.main.tensors["y"].shape = None
    values(made, "then")["b"].shape = (2,)
    assert verdict(made).results == (None,)
    assert [found.rule for found in verdict(made, building=True).violations] == ["else-outputs"]


def test_what_a_loop_keeps_is_inferred() -> None:
    made = looping()
    body = values(made, "body")
    body["b"] = tensor("b", shape=(2, -1))
    made.regions[2].blocks[0].outputs[1] = "b"
    assert verdict(made, building=True).results == ((), (2, -1))


def test_a_shape_fits_a_shape_of_its_rank_alone() -> None:
    table = TypeTable()
    two, three = table.shape((1, None)), table.shape((1, 2, 3))
    number = table.tensor(dtype("INT8"), (1,), None)
    assert _fits(two, table.shape((5, 6)))
    assert not _fits(two, three)
    assert not _fits(two, number)
    assert not _fits(number, two)


def test_regions_that_are_not_known_yet_are_not_judged() -> None:
    made = looping()
    made.regions[1:] = [Region("other", [made.main])]
    assert verdict(made) == Verdict((), (None, None))
    made = branching()
    del made.regions[2:]
    assert verdict(made) == Verdict((), (None,))
