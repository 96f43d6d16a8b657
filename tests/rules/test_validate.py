"""`tosa_convert.validate`: the rules, the targets, and graphs that are not sound."""

from __future__ import annotations

from typing import Any

import pytest
from refusing import refused
from unit.building import branching, graph, op, region, shape, tensor

import tosa_convert as tc
from tosa_convert.consumers.readers import CONSUMERS
from tosa_convert.errors import CODES, MAX_FINDINGS
from tosa_convert.graph import Graph, Operator, ShapeValue, Tensor
from tosa_convert.graph.dtypes import NanPropagationMode
from tosa_convert.graph.model import Target
from tosa_convert.graph.versions import V1_0, V1_1_DRAFT, lowest_version
from tosa_convert.rules.infer import infer
from tosa_convert.rules.public import TARGET_CODES, needs


def sum_of(kind: str = "INT32", first: Any = (2, 3), second: Any = (2, 3)) -> Graph:
    """Return a sum of two inputs. The result has the first shape."""
    values = [tensor("x", kind, first), tensor("y", kind, second), tensor("z", kind, first)]
    return graph("x y", "z", values, [op("ADD", "x y", "z")])


def codes(findings: list[tc.Finding]) -> list[str]:
    return [finding.code for finding in findings]


def test_a_valid_program_has_no_finding() -> None:
    assert tc.validate(sum_of()) == []
    assert tc.validate(branching()) == []


def test_attributes_of_equal_values_in_another_order_are_judged_apart() -> None:
    common: dict[str, Any] = {"pad": (0, 0, 0, 0), "nan_mode": NanPropagationMode.PROPAGATE}
    values = [tensor("x", "FP32", (1, 6, 6, 1))]
    values += [tensor(name, "FP32", (1, 5, 5, 1)) for name in "yz"]
    good = op("MAX_POOL2D", "x", "y", kernel=(2, 2), stride=(1, 1), **common)
    wrong = op("MAX_POOL2D", "x", "z", stride=(2, 2), kernel=(1, 1), **common)
    made = graph("x", "y z", values, [good, wrong])
    assert {found.where for found in tc.validate(made)} == {
        'region "main" block "main" operator #1 MAX_POOL2D'
    }
    with pytest.raises(tc.TosaConvertError, match="operator #1 MAX_POOL2D"):
        infer(made, {})


def test_a_finding_names_the_rule_the_operator_and_the_shapes() -> None:
    (found,) = tc.validate(sum_of(second=(2, 5)))
    assert (found.code, found.rule) == ("invalid-operator", "add-broadcast")
    assert found.where == 'region "main" block "main" operator #0 ADD'
    assert "[2, 3]" in found.message
    assert "[2, 5]" in found.message


def test_the_graph_is_not_changed_and_may_be_validated_again() -> None:
    program = sum_of(second=(2, 5))
    before = tc.dumps(program, "json")
    assert tc.validate(program) == tc.validate(program)
    assert tc.dumps(program, "json") == before


# -- graphs that are not sound ---------------------------------------------------------------------


def test_findings_of_verify_come_first() -> None:
    program = sum_of(second=(2, 5))
    program.main.outputs.append("missing")
    assert codes(tc.validate(program)) == ["undefined-name", "invalid-operator"]
    assert tc.validate(program)[:1] == tc.verify(program)


def test_operators_that_verify_refuses_are_not_judged() -> None:
    program = sum_of(second=(2, 5))
    program.main.tensors["w"] = tensor("w", "INT32", (2, 3))
    program.main.operators = [
        op("ADD", "x", "w"),
        op("ADD", "x gone", "v"),
        op("CONV2D", "x", "u"),
        op("COND_IF", "x y", "t", then_graph="a", else_graph="b"),
        *program.main.operators,
    ]
    rules = [found for found in tc.validate(program) if found.rule]
    assert [found.rule for found in rules] == ["add-broadcast"]
    assert rules[0].where.endswith("operator #4 ADD")


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


def test_there_are_at_most_as_many_findings_as_one_error_has() -> None:
    program = sum_of(second=(2, 5))
    program.main.operators *= 2 * MAX_FINDINGS
    assert len(tc.validate(program)) == MAX_FINDINGS
    for index, operator in enumerate(program.main.operators):
        name = f"z{index}"
        program.main.tensors[name] = tensor(name, "INT32")
        program.main.operators[index] = op("ADD", " ".join(operator.inputs), name)
    assert len(tc.validate(program, profile="PRO-FP", level="8k")) == MAX_FINDINGS


# -- targets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["PRO-INT", ["PRO-INT"], {"pro-int", "EXT-INT16"}])
def test_a_program_fits_its_profile(profile: Any) -> None:
    assert tc.validate(sum_of(), profile=profile) == []


def test_what_needs_another_profile_is_a_finding() -> None:
    (found,) = tc.validate(sum_of("FP32"), profile="PRO-INT")
    assert found.code == "outside-profile"
    assert found.where.endswith("operator #0 ADD")
    assert "PRO-FP" in found.message
    assert found.hint


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


def test_the_version_that_a_file_states_has_its_operators_and_types() -> None:
    program = of_1_1()
    program.version = V1_0
    # A size can be unknown in a file of any version until the program runs.
    assert places(tc.validate(program)) == NOT_IN_1_0[:-2]


def test_a_profile_is_that_of_the_requested_version() -> None:
    values = [tensor("v", "INT8", (1, 4, 3)), tensor("i", "INT32", (1, 2))]
    values.append(tensor("g", "INT8", (1, 2, 3)))
    program = graph("v i", "g", values, [op("GATHER", "v i", "g")])
    assert tc.validate(program, profile="PRO-FP", spec_version="1.1") == []
    found = tc.validate(program, profile="PRO-FP", spec_version="1.0")
    assert codes(found) == ["outside-profile"]


def test_a_version_that_does_not_exist_is_refused() -> None:
    with refused("option-conflict", match="spec_version"):
        tc.validate(sum_of(), spec_version="0.80")  # type: ignore[arg-type]


def test_what_is_wrong_with_that_target_is_a_finding() -> None:
    program = sum_of("FP32")
    program.target = Target("8K", ("PRO-HALF",))
    (found,) = tc.validate(program)
    assert "PRO-HALF" in found.message


def test_what_exceeds_a_level_is_a_finding() -> None:
    deep = (1,) * 7
    (found, *_) = tc.validate(sum_of(first=deep, second=deep), level="8k")
    assert found.code == "outside-level"
    assert found.rule.startswith("add-level-")
    assert tc.validate(sum_of(first=deep, second=deep), level="None") == []  # type: ignore[arg-type]


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


def test_every_reader_reads_a_sum_of_integers() -> None:
    for reader in CONSUMERS:
        assert tc.validate(sum_of(), for_reader=reader) == []


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
    with refused("option-conflict"):
        tc.validate(sum_of(second=(2, 5)), **target)


def test_codes_of_targets_exist() -> None:
    assert CODES.keys() >= TARGET_CODES


# -- the least target ------------------------------------------------------------------------------


def test_the_least_target_of_a_program() -> None:
    assert needs(sum_of()) == ("1.0", ("PRO-INT",), (), "8k")
    assert needs(sum_of("BF16")) == ("1.0", ("PRO-FP",), ("EXT-BF16",), "8k")
    assert needs(sum_of(first=(1,) * 7, second=(1,) * 7)) == ("1.0", ("PRO-INT",), (), "none")
    assert needs(sum_of("INT64")) == ("1.1", ("PRO-INT",), ("EXT-INT64",), "8k")


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
