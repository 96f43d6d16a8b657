"""What TOSA demands of a program as a whole."""

from __future__ import annotations

from unit.building import branching, counting, example, op, region, shape, tensor

from tosa_convert.graph import Graph
from tosa_convert.spec.program import program_findings
from tosa_convert.spec.values import TensorType, TypeTable


def rules(graph: Graph) -> list[str]:
    return [finding.rule for finding in program_findings(graph)]


def test_sound_programs_have_no_finding() -> None:
    for made in (example(), branching(), counting()):
        assert rules(made) == []


def test_a_program_can_return_a_shape_and_takes_none() -> None:
    made = example()
    made.main.outputs.append("to")
    assert rules(made) == []
    made.main.shapes["more"] = shape("more", 1)
    made.main.inputs.append("more")
    assert rules(made) == ["program-input"]


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


def test_the_first_value_of_a_variable_is_no_constant() -> None:
    state = counting().main.tensors["v"]
    found = TypeTable().of_tensor(state, with_data=True)
    assert isinstance(found, TensorType)
    assert found.data is None
