"""What a program needs of a target, and which of its operators a target does not have."""

from __future__ import annotations

from typing import get_args

import pytest

from tosa_convert.errors import TosaConvertError
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import RoundingMode, dtype
from tosa_convert.graph.model import Block, Graph, Operator, Region, Tensor, Version
from tosa_convert.graph.opset import operator
from tosa_convert.rules.profiles import (
    CAPABILITIES,
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
