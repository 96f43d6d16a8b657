"""What TOSA demands of a program as a whole."""

from __future__ import annotations

import pytest
from unit.building import branching, counting, example, graph, op, region, shape, tensor

from tosa_convert import validate
from tosa_convert.graph import Graph, ShapeValue, Tensor
from tosa_convert.graph.versions import V1_1_DRAFT
from tosa_convert.rules.validate import program_findings


def rules(graph: Graph) -> list[str]:
    return [finding.rule for finding in program_findings(graph)]


def test_a_program_can_return_a_shape_and_takes_none() -> None:
    made = example()
    made.main.outputs.append("to")
    assert rules(made) == []
    made.main.shapes["more"] = shape("more", 1)
    made.main.inputs.append("more")
    assert rules(made) == ["program-input"]


@pytest.mark.parametrize("is_returned", [False, True])
def test_an_input_that_no_operator_uses_is_judged(is_returned: bool) -> None:
    for sizes, rule in (
        ((1, 0), "program-input-size"),
        ((1,) * 9, "program-level-input-rank"),
        ((1 << 10, 1 << 10, 1 << 11), "program-level-input-size"),
    ):
        made = example()
        made.main.tensors["u"] = tensor("u", "INT8", sizes)
        made.main.inputs.append("u")
        made.main.outputs += ["u"] if is_returned else []
        (found,) = validate(made, level="8k")
        assert found.rule == rule
        assert '"u"' in found.message
        assert (found.code == "outside-level") == ("level" in rule)
        assert bool(validate(made, level="none")) == (rule == "program-input-size")


def unused(graph: Graph) -> list[str]:
    found = [finding for finding in validate(graph) if finding.rule == "program-unused-value"]
    return [finding.where.partition('block "')[2] for finding in found]


def test_a_variable_is_used_if_any_block_uses_it() -> None:
    made = branching()
    inner = made.regions[1].blocks[0]
    for block in (made.main, inner):
        block.tensors["v"] = tensor("v", "FP32", (2, 3), bytes(24))
        block.tensors["v"].variable, block.tensors["v"].variable_name = True, "state"
    assert len(unused(made)) == 2
    inner.operators.insert(0, op("VARIABLE_WRITE", inner.inputs[0], "v"))
    assert unused(made) == []


def test_a_slice_of_a_shape_whose_size_is_an_input_is_not_known() -> None:
    values: list[Tensor | ShapeValue] = [
        tensor("x", shape=(2, 3)),
        *(tensor(name, "INT32", (1,)) for name in ("start", "size")),
        shape("s", 6, 1),
        ShapeValue("part", 1),
        tensor("y", shape=(-1,)),
    ]
    operators = [
        op("CONST_SHAPE", "", "s"),
        op("SLICE_SHAPE", "s start size", "part"),
        op("RESHAPE", "x part", "y"),
    ]
    program = graph("x start size", "y", values, operators)
    program.version = V1_1_DRAFT
    assert validate(program) == []


def test_a_variable_has_one_type_in_all_regions() -> None:
    made = counting()
    again = tensor("again", "INT32", (1,))
    again.variable, again.variable_name = True, "counter"
    made.regions.append(region("other", "", "", [again], []))
    assert rules(made) == []
    again.shape = (2,)
    assert rules(made) == ["program-variable"]
    again.variable_name = "another"
    assert rules(made) == []


def test_an_operator_without_results_runs_regions_that_return_nothing() -> None:
    made = branching()
    made.main.operators[:] = [op("COND_IF", "c x", "", then_graph="then", else_graph="else")]
    made.regions[2].blocks[0].outputs.clear()
    assert rules(made) == ["program-results"]


def test_a_loop_without_results_names_the_body_that_returns_some() -> None:
    made = graph(
        "x", "x", [tensor("x")], [op("WHILE_LOOP", "x", "", cond_graph="c", body_graph="b")]
    )
    made.regions += [
        region("c", "i", "p", [tensor("i"), tensor("p", "BOOL", ())], []),
        region("b", "a", "a", [tensor("a")], []),
    ]
    found = [row for row in program_findings(made) if row.rule == "program-results"]
    assert [row.message for row in found] == [
        'region "b" returns 1 values; expected none, as the results are'
    ]
