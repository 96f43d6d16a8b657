"""`tosa_convert.validate`: the rules, the targets, and graphs that are not sound."""

from __future__ import annotations

from typing import Any

import pytest
from unit.building import branching, graph, op, region, shape, tensor

import tosa_convert as tc
from tosa_convert.errors import CODES
from tosa_convert.graph import Graph, Operator, ShapeValue, Tensor
from tosa_convert.graph.model import Target
from tosa_convert.graph.versions import V1_0, V1_1_DRAFT, lowest_version
from tosa_convert.rules.public import TARGET_CODES


def sum_of(kind: str = "INT32", first: Any = (2, 3), second: Any = (2, 3)) -> Graph:
    """Return a sum of two inputs. The result has the first shape."""
    values = [tensor("x", kind, first), tensor("y", kind, second), tensor("z", kind, first)]
    return graph("x y", "z", values, [op("ADD", "x y", "z")])


def codes(findings: list[tc.Finding]) -> list[str]:
    return [finding.code for finding in findings]


# -- graphs that are not sound ---------------------------------------------------------------------


def test_findings_of_verify_come_first() -> None:
    program = sum_of(second=(2, 5))
    program.main.outputs.append("missing")
    assert codes(tc.validate(program)) == ["undefined-name", "invalid-operator"]
    assert tc.validate(program)[:1] == tc.verify(program)


def test_operators_of_values_that_verify_refuses_are_not_judged() -> None:
    program = sum_of(second=(2, 5))
    program.main.tensors["y"].shape = (1,) * 99
    assert codes(tc.validate(program)) == ["unsupported-shape"]
    program = sum_of(second=(2, 5))
    program.main.shapes["y"] = shape("y", 1)
    assert "invalid-operator" not in codes(tc.validate(program))


def test_operators_of_values_whose_sizes_verify_refuses_are_judged() -> None:
    program = sum_of(second=(2, 5))
    program.main.tensors["y"].shape = (2, -7)
    assert codes(tc.validate(program)) == ["unsupported-shape", "invalid-operator"]


def test_a_region_without_a_block_is_no_error_of_ours() -> None:
    program = branching()
    program.regions[1].blocks.clear()
    program.main.operators.append(op("ADD", "x c", "q"))
    assert codes(tc.validate(program, profile="PRO-FP", level="8k", for_reader="vela"))


# -- targets ---------------------------------------------------------------------------------------


def test_the_target_that_a_program_carries_is_used() -> None:
    program = sum_of("FP32", (1,) * 7, (1,) * 7)
    program.target = Target("8K", ("PRO-INT",))
    assert set(codes(tc.validate(program))) == {"outside-level", "outside-profile"}
    assert tc.validate(program, level="none") == []
    assert set(codes(tc.validate(program, profile="PRO-INT"))) == {"outside-profile"}
    program.target = Target("NONE", ())
    assert tc.validate(program) == []


def of_1_1() -> Graph:
    """Return a program with an operator, types, combined types and sizes that TOSA 1.0 does not have."""
    values: list[Tensor | ShapeValue] = [
        tensor("v", "BOOL", (1, 4, 3)),
        tensor("i", "INT32", (1, 2)),
        tensor("g", "BOOL", (1, 2, 3)),
        tensor("w", "INT64", (2, 3)),
        tensor("n", "INT64", (2, 3)),
        tensor("d", "FP32", (-1, 3)),
        tensor("u", "FP32", None),
        ShapeValue("s", 1),
    ]
    operators = [
        op("GATHER", "v i", "g"),
        op("ABS", "w", "n"),
        op("EXP", "d", "u"),
        op("DIM", "d", "s", axis=0),
    ]
    made = graph("v i w d", "g n u s", values, operators)
    made.version = V1_1_DRAFT
    return made


NOT_IN_1_0 = [
    "operator #0 GATHER",
    "operator #3 DIM",
    'tensor "w"',
    'tensor "n"',
    'tensor "d"',
    'tensor "u"',
]


def places(findings: list[tc.Finding]) -> list[str]:
    assert set(codes(findings)) <= {"version-too-low"}
    return [finding.where.partition('block "main" ')[2] for finding in findings]


def test_what_the_requested_version_does_not_have_is_a_finding() -> None:
    assert places(tc.validate(of_1_1(), spec_version="1.0")) == NOT_IN_1_0
    assert tc.validate(of_1_1(), spec_version="1.1") == []
    assert tc.validate(of_1_1()) == []


def test_the_version_of_the_target_that_a_program_carries_is_honoured() -> None:
    program = of_1_1()
    program.target = Target("NONE", ())
    assert tc.validate(program) == []
    program.version = V1_0
    assert places(tc.validate(program)) == NOT_IN_1_0
    assert places(tc.validate(program, level="none", profile=["PRO-INT", "PRO-FP"])) == NOT_IN_1_0
    assert tc.validate(program, spec_version="1.1") == []


def test_a_profile_is_that_of_the_requested_version() -> None:
    values = [tensor("v", "INT8", (1, 4, 3)), tensor("i", "INT32", (1, 2))]
    values.append(tensor("g", "INT8", (1, 2, 3)))
    program = graph("v i", "g", values, [op("GATHER", "v i", "g")])
    assert tc.validate(program, profile="PRO-FP", spec_version="1.1") == []
    found = tc.validate(program, profile="PRO-FP", spec_version="1.0")
    assert codes(found) == ["outside-profile"]


def test_what_is_wrong_with_that_target_is_a_finding() -> None:
    program = sum_of("FP32")
    program.target = Target("8K", ("PRO-HALF",))
    (found,) = tc.validate(program)
    assert "PRO-HALF" in found.message


def test_rules_are_judged_with_a_level_too() -> None:
    assert codes(tc.validate(sum_of(second=(2, 5)), level="8k")) == ["invalid-operator"]


def nested(depth: int) -> Graph:
    """Conditionals in conditionals; both branches of each run the next one."""
    values = [tensor("c", "BOOL", ()), tensor("x"), tensor("y")]

    def run(inner: int) -> list[Operator]:
        return [op("COND_IF", "c c x", "y", then_graph=f"r{inner}", else_graph=f"r{inner}")]

    made = graph("c x", "y", values, run(1))
    for number in range(1, depth):
        made.regions.append(region(f"r{number}", "c x", "y", list(values), run(number + 1)))
    made.regions.append(region(f"r{depth}", "c x", "x", values[:2], []))
    return made


def test_control_flow_that_is_nested_too_deeply_exceeds_a_level() -> None:
    assert tc.validate(nested(3), level="8k") == []
    found = tc.validate(nested(8), level="8k")
    assert {(row.code, row.rule) for row in found} == {("outside-level", "cond-if-level-nesting")}
    assert tc.validate(nested(8), level="none") == []


@pytest.mark.parametrize(
    ("reader", "program", "message"),
    [
        ("vela", sum_of("FP32"), "vela:ethos-u55 does not read FP32 tensors"),
        ("model-converter", branching(), "model-converter does not read COND_IF"),
        (
            "vela",
            graph("x", "s", [tensor("x", "INT8"), shape("s", 2)], [op("DIM", "x", "s", axis=0)]),
            "vela:ethos-u55 does not read DIM",
        ),
        (
            "model-converter",
            graph(
                "x zp",
                "y",
                [tensor("x", "INT8"), tensor("y", "INT8"), tensor("zp", "INT8", (1,))],
                [op("NEGATE", "x zp zp", "y")],
            ),
            'only with a constant input1_zp, found the tensor "zp"',
        ),
    ],
)
def test_what_a_reader_does_not_read_is_a_finding(
    reader: str, program: Graph, message: str
) -> None:
    program.version = lowest_version(program)
    found = [row for row in tc.validate(program, for_reader=reader) if row.code in TARGET_CODES]
    assert {row.code for row in found} == {"unsupported-by-reader"}
    assert any(message in row.message for row in found)


@pytest.mark.parametrize(
    "target",
    [
        {"profile": "PRO-X"},
        {"profile": "EXT-INT16"},
        {"profile": []},
        {"level": "9k"},
        {"for_reader": "x"},
    ],
)
def test_a_target_that_does_not_exist_is_an_error(target: dict[str, Any]) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.validate(sum_of(second=(2, 5)), **target)
    assert caught.value.code == "option-conflict"


def test_codes_of_targets_exist() -> None:
    assert CODES.keys() >= TARGET_CODES


# -- the least target ------------------------------------------------------------------------------


def test_a_reader_without_unknown_sizes_names_the_input_and_its_option() -> None:
    program = graph(
        "x y",
        "z",
        [tensor("x", "INT8", (-1, 3)), tensor("y", "INT8"), tensor("z", "INT8", (-1, 3))],
        [op("IDENTITY", "x", "z")],
    )
    found = tc.validate(program, for_reader="vela:ethos-u85==5.2.0")
    (hint,) = {row.hint for row in found if "unknown sizes" in row.message}
    assert hint == "set them when you convert: --input-shape x=1x3"
