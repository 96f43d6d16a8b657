"""What a program needs of a target, and which of its operators a target does not have."""

from __future__ import annotations

from typing import get_args

import pytest

from tosa_convert.errors import TosaConvertError
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import V1_0, DType, RoundingMode, dtype
from tosa_convert.graph.model import Block, Graph, Operator, Region, Tensor, Version
from tosa_convert.graph.opset import OPERATORS, operator
from tosa_convert.graph.versions import _NEW_IN_1_1
from tosa_convert.rules.profiles import (
    CAPABILITIES,
    EXTENSIONS,
    PROFILES,
    ProfileName,
    complete,
    fits,
    least,
    listed,
    misfits,
    parse,
    requirements,
    suitable_profiles,
)
from tosa_convert.rules.types import rows


def program(*lines: str) -> Graph:
    """Return a program of lines such as "ADD INT32 INT32 -> INT32".

    Operands are inputs of the program.
    """
    block = Block("main")
    for line in lines:
        left, _, right = line.partition("->")
        name, *operands = left.split()
        names = []
        for element in (*operands, *right.split()):
            names.append(f"v{len(block.tensors)}")
            block.tensors[names[-1]] = Tensor(names[-1], dtype(element), (2,))
        count = len(operands)
        block.operators.append(Operator(operator(name), tuple(names[:count]), tuple(names[count:])))
        block.inputs += names[:count]
        block.outputs += names[count:]
    return Graph(Version(1, 1, 0, draft=True), [Region("main", [block])])


def needed(graph: Graph, version: tuple[int, int] = (1, 1)) -> str | None:
    names = least(requirements(graph), version)
    return None if names is None else listed(names)


def test_names_are_parsed_in_any_case() -> None:
    assert parse("pro-fp,EXT-BF16, ext-mx-common,") == {"PRO-FP", "EXT-BF16", "EXT-MX-COMMON"}


def test_all_unknown_names_and_missing_profiles_are_reported_at_once() -> None:
    with pytest.raises(TosaConvertError) as caught:
        parse("PRO-DOUBLE,EXT-BF16,EXT-INT99")
    messages = [finding.message for finding in caught.value.findings]
    assert [message[:22] for message in messages] == [
        "found 'PRO-DOUBLE', ex",
        "found 'EXT-INT99', exp",
        "EXT-BF16 needs PRO-FP",
    ]
    assert caught.value.code == "option-conflict"


@pytest.mark.parametrize("text", ["", " , "])
def test_an_empty_list_is_refused(text: str) -> None:
    with pytest.raises(TosaConvertError, match="the list is empty"):
        parse(text)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((), "PRO-INT"),
        (("ADD INT32 INT32 -> INT32",), "PRO-INT"),
        (("ADD FP32 FP32 -> FP32", "ADD INT32 INT32 -> INT32"), "PRO-FP"),
        (("ABS FP32 -> FP32", "ABS INT32 -> INT32"), "PRO-INT,PRO-FP"),
        (("CLAMP INT16 -> INT16", "ADD INT64 INT64 -> INT64"), "PRO-INT,EXT-INT16,EXT-INT64"),
    ],
)
def test_the_least_profiles_and_extensions(lines: tuple[str, ...], expected: str) -> None:
    assert needed(program(*lines)) == expected


def test_elements_of_a_block_scaled_constant_need_no_second_extension() -> None:
    graph = program("CONST -> FP8E4M3", "CAST_FROM_BLOCK_SCALED FP8E4M3 FP8UE8M0 -> FP32")
    assert needed(graph) == "PRO-FP,EXT-MX-COMMON,EXT-MX-FP8E4M3"
    assert needed(program("CONST -> FP8E4M3")) == "PRO-FP,EXT-FP8E4M3"


def test_a_version_without_the_types_has_no_least_set() -> None:
    assert needed(program("ADD INT64 INT64 -> INT64"), (1, 0)) is None


def test_version_1_0_gathers_integers_only_in_pro_int() -> None:
    graph = program("GATHER INT8 INT32 -> INT8")
    assert suitable_profiles(requirements(graph), (1, 0)) == ("PRO-INT",)
    assert suitable_profiles(requirements(graph), (1, 1)) == ("PRO-INT", "PRO-FP")


def test_a_zero_point_that_is_not_constant_needs_dynamic() -> None:
    graph = program("NEGATE INT8 INT8 INT8 -> INT8")
    assert needed(graph) == "PRO-INT,EXT-DYNAMIC"
    for name in ("v1", "v2"):
        graph.main.tensors[name].data = Constant(dtype("INT8"), 2, b"\0\0")
    assert needed(graph) == "PRO-INT"


def test_a_rounding_mode_needs_its_extension() -> None:
    graph = program("RESCALE INT8 INT32 INT8 INT8 INT8 -> INT8")
    rescale = graph.main.operators[0]
    rescale.attributes.update(scale32=True, rounding_mode=RoundingMode.DOUBLE_ROUND)
    assert needed(graph) == "PRO-INT,EXT-DOUBLEROUND,EXT-DYNAMIC"


def test_each_operator_that_a_target_does_not_have_is_reported() -> None:
    graph = program("ABS FP32 -> FP32", "ADD INT32 INT32 -> INT32", "ABS BF16 -> BF16")
    found = list(misfits(graph, {"PRO-INT"}))
    assert [(row.message, row.hint) for row in found] == [
        ("ABS needs PRO-FP", "add PRO-FP to the target"),
        ("ABS needs PRO-FP and EXT-BF16", "add PRO-FP and EXT-BF16 to the target"),
    ]
    assert found[0].where.startswith('region "main" block "main" operator #0')
    assert list(misfits(graph, {"PRO-INT", "PRO-FP", "EXT-BF16"})) == []


def test_types_that_a_profile_has_since_1_1_need_another_profile_in_1_0() -> None:
    graph = program("GATHER INT8 INT32 -> INT8")
    assert list(misfits(graph, {"PRO-FP"}, (1, 1))) == []
    (found,) = misfits(graph, {"PRO-FP"}, (1, 0))
    assert found.hint == "add PRO-INT to the target"


def test_what_no_target_of_a_version_has_is_no_matter_of_profiles() -> None:
    assert list(misfits(program("GATHER BOOL INT32 -> BOOL"), {"PRO-INT"}, (1, 0))) == []


def test_the_earlier_name_of_the_block_scaled_types_implies_them() -> None:
    graph = program("CAST_FROM_BLOCK_SCALED FP4E2M1 FP8UE8M0 -> FP32")
    assert list(misfits(graph, {"PRO-FP", "EXT-MXFP"})) == []
    assert list(misfits(graph, {"PRO-FP", "EXT-MX-COMMON"})) != []


def test_rows_need_only_what_exists_and_a_profile_that_their_extensions_allow() -> None:
    for spec in OPERATORS:
        for need in (need for row in rows(spec) for need in row.needs):
            assert need.names <= CAPABILITIES.keys()
            assert len([row for row in PROFILES if row.name in need.names]) == 1
            for row in EXTENSIONS:
                if row.name in need.names:
                    assert need.names & set(row.profiles)
                    assert need.since >= row.since


def test_operators_of_the_same_types_need_the_same_and_forbidden_types_nothing() -> None:
    rows = {name: Tensor(name, dtype("FP32"), (1,)) for name in "xyz"}
    rows["s"] = Tensor("s", dtype("INT4"), (1,))
    twice = [Operator(operator("ABS"), ("x",), (name,)) for name in "yz"]
    wrong = Operator(operator("ABS"), ("s",), ("s",))
    main = Block("main", ["x", "s"], ["y"], [*twice, wrong], rows)
    made = Graph(Version(1, 0, 0), [Region("main", [main])])
    assert [row.hint for row in misfits(made, parse("PRO-INT"))] == ["add PRO-FP to the target"] * 2
    has = complete(parse("PRO-INT"))
    assert [fits(main, row, has) for row in main.operators] == [False, False, True]


def test_type_checkers_know_every_profile_and_extension() -> None:
    assert get_args(ProfileName) == tuple(CAPABILITIES)


def test_the_table_of_versions_has_the_types_that_rows_have_since_1_1() -> None:
    for spec in OPERATORS:
        count, newer = _NEW_IN_1_1.get(spec.name, (0, frozenset[tuple[str, ...]]()))
        for row in rows(spec):
            elements = [e for e in (*row.operands, *row.results) if isinstance(e, DType)]
            has_blocks = len(elements) < len(row.operands) + len(row.results)
            if spec.since > V1_0 or has_blocks or any(e.since > V1_0 for e in elements):
                continue
            if any(part.state for part in spec.operands[: len(row.operands)]):
                continue  # the operand says it
            types = tuple(e.name for e in (*elements[:count], *elements[len(row.operands) :][:1]))
            if row.attribute and row.attribute[0] == "acc_type":
                types += (row.attribute[1],)
            assert (row.since > V1_0) == (types in newer), (spec, types)
