"""The rows of element types: what they match, what they need, and why nothing matches."""

from __future__ import annotations

from itertools import product

import pytest

from tosa_convert.graph.dtypes import (
    BLOCK_SCALE,
    BLOCK_SCALED,
    DTYPES,
    BlockShape,
    NanPropagationMode,
    ResizeMode,
    dtype,
)
from tosa_convert.graph.model import Block, BlockScale, Graph, Operator, Region, Tensor
from tosa_convert.graph.opset import OPERATORS, OperatorSpec, operator
from tosa_convert.graph.versions import V1_1_DRAFT, lowest_version
from tosa_convert.rules.types import Element, Need, TypeMismatch, forms, match, mismatch, rows


def types(text: str) -> list[Element]:
    """Return the types of a text such as "INT8 mx:FP8E4M3 shape"."""
    found: list[Element] = []
    for word in text.split():
        name = word.removeprefix("mx:")
        if word == "shape":
            found.append(None)
        else:
            found.append((dtype(name), BLOCK_SCALE) if name != word else dtype(name))
    return found


def needs(name: str, signature: str, **attributes: object) -> set[str]:
    """Return what a signature such as "INT8 INT8 -> INT32" needs: each alternative as a text."""
    left, _, right = signature.partition("->")
    row = match(operator(name), types(left), types(right), attributes)
    assert row is not None
    return {needed(need) for need in row.needs}


def needed(need: Need) -> str:
    version = "" if need.since == (1, 0) else "1.1 "
    return version + " ".join(sorted(need.names, reverse=True))


def wrong(name: str, signature: str, **attributes: object) -> TypeMismatch:
    left, _, right = signature.partition("->")
    found = mismatch(operator(name), types(left), types(right), attributes)
    assert found is not None
    return found


@pytest.mark.parametrize("spec", OPERATORS, ids=str)
def test_every_operator_has_rows_and_each_row_matches_itself(spec: OperatorSpec) -> None:
    assert rows(spec)
    for row in rows(spec):
        assert row.needs
        assert row.since >= spec.since
        attributes = {row.attribute[0]: row.attribute[1]} if row.attribute else {}
        shapes = [None] * sum(operand.is_shape for operand in spec.operands)
        if spec.operands and spec.operands[-1].is_shape:
            assert match(spec, [*row.operands, *shapes], row.results, attributes) is row


@pytest.mark.parametrize("spec", OPERATORS, ids=str)
def test_the_version_of_each_row_is_that_of_graph_versions(spec: OperatorSpec) -> None:
    for row in rows(spec):
        block = Block("main")
        for element in (*row.operands, *row.results):
            name = f"v{len(block.tensors)}"
            assert element is not None
            data, scale = element if isinstance(element, tuple) else (element, None)
            blocks = None if scale is None else BlockScale(scale, BlockShape.BLOCK_SHAPE_32)
            block.tensors[name] = Tensor(name, data, (2,), scale=blocks)
        names, count = tuple(block.tensors), len(row.operands)
        made = Operator(spec, names[:count], names[count:])
        if row.attribute and row.attribute[0] == "acc_type":
            made.attributes["acc_type"] = dtype(row.attribute[1])
        block.operators.append(made)
        found = lowest_version(Graph(V1_1_DRAFT, [Region("main", [block])]))
        assert (found.major, found.minor) == row.since


@pytest.mark.parametrize(
    ("name", "signature", "expected"),
    [
        ("ADD", "INT32 INT32 -> INT32", {"PRO-INT", "PRO-FP"}),
        ("ADD", "BF16 BF16 -> BF16", {"PRO-FP EXT-BF16"}),
        ("ADD", "INT64 INT64 -> INT64", {"1.1 PRO-INT EXT-INT64", "1.1 PRO-FP EXT-INT64"}),
        ("CLAMP", "INT16 -> INT16", {"PRO-INT EXT-INT16"}),
        ("CAST", "FP32 -> FP32", set()),
        ("CAST", "FP32 -> mx:FP8E4M3", {"1.1 PRO-FP EXT-MX-FP8E4M3 EXT-MX-COMMON"}),
        ("GATHER", "INT8 INT32 -> INT8", {"PRO-INT", "1.1 PRO-FP"}),
        (
            "GATHER",
            "INT64 INT32 -> INT64",
            {"1.1 PRO-INT EXT-INT64", "1.1 PRO-FP EXT-INT64"},
        ),
        (
            "SCATTER",
            "INT64 INT32 INT64 -> INT64",
            {"1.1 PRO-INT EXT-INT64", "1.1 PRO-FP EXT-INT64"},
        ),
        ("PAD", "FP16 shape FP16 -> FP16", {"PRO-FP"}),
        ("CONCAT", "BOOL BOOL BOOL -> BOOL", {"PRO-INT", "PRO-FP"}),
        ("CONST", "-> INT48", {"PRO-INT EXT-INT16"}),
        ("CUSTOM", "INT48 shape FP16 -> INT4", {"PRO-INT", "PRO-FP"}),
        ("COND_IF", "BOOL INT48 -> INT48", {"PRO-INT EXT-CONTROLFLOW", "PRO-FP EXT-CONTROLFLOW"}),
        (
            "CAST_TO_BLOCK_SCALED",
            "BF16 -> MXINT8 FP8UE8M0",
            {"1.1 PRO-FP EXT-MX-INT8 EXT-MX-COMMON EXT-BF16"},
        ),
    ],
)
def test_types_need_profiles_and_extensions(name: str, signature: str, expected: set[str]) -> None:
    if expected:
        assert needs(name, signature) == expected
    else:
        assert wrong(name, signature)


def test_the_accumulator_belongs_to_the_types() -> None:
    signature = "FP16 FP16 FP16 FP16 FP16 -> FP16"
    assert needs("CONV2D", signature, acc_type=dtype("FP32")) == {"PRO-FP"}
    found = wrong("CONV2D", signature, acc_type=dtype("INT32"))
    assert (found.rule, found.expected) == ("acc-type", "FP32 or FP16")


def test_the_zero_point_of_a_block_scaled_operand_is_fp32() -> None:
    signature = "mx:FP6E3M2 FP16 FP32 FP16 -> FP32"
    assert needs("MATMUL_T", signature) == {"1.1 PRO-FP EXT-MX-FP6E3M2 EXT-MX-COMMON"}
    assert wrong("MATMUL_T", "mx:FP6E3M2 FP16 FP6E3M2 FP16 -> FP32").rule == "a-zp-type"


def test_the_mode_of_resize_decides_its_result() -> None:
    assert needs("RESIZE", "INT8 shape shape shape -> INT32", mode=ResizeMode.BILINEAR)
    found = wrong("RESIZE", "INT8 shape shape shape -> INT32", mode=ResizeMode.NEAREST)
    assert (found.rule, found.expected) == ("output-type", "INT8")


def test_attributes_that_do_not_belong_to_the_types_do_not_matter() -> None:
    assert needs("ARGMAX", "INT8 -> INT32", axis=1, nan_mode=NanPropagationMode.IGNORE)


@pytest.mark.parametrize(
    ("name", "signature", "rule", "message", "expected"),
    [
        ("ADD", "INT8 INT8 -> INT8", "input1-type", "input1 is INT8", "INT32"),
        ("ADD", "INT32 INT32 -> FP32", "output-type", "output is FP32 with input1 INT32", "INT32"),
        ("ADD", "FP32 INT8 -> FP32", "input2-type", "input2 is INT8 with input1 FP32", "FP32"),
        ("MUL", "INT32 INT32 INT32 -> INT32", "shift-type", "shift is INT32", "INT8"),
        ("CAST", "FP32 -> INT48", "output-type", "output is INT48", "BOOL or INT8"),
        ("EQUAL", "FP32 FP32 -> FP32", "output-type", "output is FP32", "BOOL"),
        (
            "CONCAT",
            "FP32 FP16 -> FP32",
            "input1-list",
            "the operands are FP32, FP16",
            "equal types",
        ),
        ("CONCAT", "-> FP32", "input1-list", "there are no operands", "at least one tensor"),
        ("ABS", "FP32 -> shape", "output-list", "the results are !tosa.shape", "other results"),
        (
            "ABS",
            "FP32 FP32 -> FP32",
            "input1-list",
            "the operands are FP32, FP32",
            "other operands",
        ),
        (  # No single type makes it right: the first that goes with none before it is named.
            "CONV2D",
            "INT8 FP16 INT4 INT8 INT8 -> INT32",
            "weight-type",
            "weight is FP16 with input INT8",
            "INT4 or INT8",
        ),
        ("GATHER", "FP32 INT8 -> FP32", "indices-type", "indices is INT8", "INT32 or INT64"),
    ],
)
def test_a_mismatch_says_which_operand_or_result_is_wrong(
    name: str, signature: str, rule: str, message: str, expected: str
) -> None:
    found = wrong(name, signature)
    assert found.rule == rule
    assert found.message.startswith(message)
    assert found.expected.startswith(expected)


def test_types_that_match_have_no_mismatch() -> None:
    assert mismatch(operator("ABS"), types("INT32"), types("INT32"), {}) is None


@pytest.mark.parametrize("spec", OPERATORS, ids=lambda spec: spec.name)
def test_a_key_is_found_without_making_the_rows(spec: OperatorSpec) -> None:
    kinds: list[Element | str] = [
        *DTYPES,
        *((kind, BLOCK_SCALE) for kind in BLOCK_SCALED),
        "FP32",
        "FP16",
        "INT8",
    ]
    for form in forms(spec):
        keys = list(form.rows)
        assert all(map(form.has, keys))
        for key in keys[:: max(1, len(keys) // 12)]:
            for position, kind in product(range(len(key)), kinds):
                if isinstance(kind, str) != isinstance(key[position], str):
                    continue
                other = (*key[:position], kind, *key[position + 1 :])
                assert form.has(other) == (other in form.rows), other
