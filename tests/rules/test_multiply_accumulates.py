"""Multiply-accumulates, compared with numbers that are computed by hand beside each case."""

from __future__ import annotations

import pytest
from unit.building import graph, op, tensor

from tosa_convert.graph.opset import OPERATORS
from tosa_convert.rules.costs import Amount, multiply_accumulates

Shape = tuple[int, ...] | None

COUNTED = {row.name for row in OPERATORS if row.multiply_accumulates}


def counted(name: str, operands: str, **shapes: Shape) -> Amount | None:
    """Return the number of an operator with operands of these names; `y` is its result."""
    values = [tensor(operand, shape=shape) for operand, shape in shapes.items()]
    made = graph("", "", values, [op(name, operands, "y")])
    return multiply_accumulates(made.main.operators[0], made.main)


def test_every_operator_of_a_family_that_multiplies_is_counted_or_says_why_not() -> None:
    families = {"convolution", "matmul", "fft"}
    names = {row.name for row in OPERATORS if row.family in families} | {"CUSTOM"}
    assert COUNTED | {row.name for row in OPERATORS if row.uncounted} == names


def test_dimensions_are_those_of_the_result_and_of_two_operands() -> None:
    for row in OPERATORS:
        if row.multiply_accumulates:
            result, *operands = row.multiply_accumulates
            assert [value.name for value in row.results] == [result]
            assert len(operands) == 2
            assert set(operands) < {value.name for value in row.operands}


@pytest.mark.parametrize(
    ("name", "operands", "shapes", "expected"),
    [
        # 1x5x6x16 results, each a sum over 3x3 positions of 8 channels
        (
            "CONV2D",
            "x w b",
            {"x": (1, 5, 6, 8), "w": (16, 3, 3, 8), "b": (16,), "y": (1, 5, 6, 16)},
            1 * 5 * 6 * 16 * 3 * 3 * 8,
        ),
        # 2x4x4x4x6 results, each a sum over 2x3x3 positions of 5 channels
        (
            "CONV3D",
            "x w b",
            {"x": (2, 5, 6, 6, 5), "w": (6, 2, 3, 3, 5), "y": (2, 4, 4, 4, 6)},
            2 * 4 * 4 * 4 * 6 * 2 * 3 * 3 * 5,
        ),
        # 1x10x10x(4x2) results, each a sum over 3x5 positions of a single channel
        (
            "DEPTHWISE_CONV2D",
            "x w b",
            {"x": (1, 12, 14, 4), "w": (3, 5, 4, 2), "y": (1, 10, 10, 8)},
            1 * 10 * 10 * 8 * 3 * 5,
        ),
        # each of 1x7x7x3 inputs meets a kernel of 4x4 for each of 9 output channels
        (
            "TRANSPOSE_CONV2D",
            "x w b",
            {"x": (1, 7, 7, 3), "w": (9, 4, 4, 3), "y": (1, 16, 16, 9)},
            1 * 7 * 7 * 3 * 4 * 4 * 9,
        ),
        # 3 products of 4x5 and 5x6
        ("MATMUL", "a b", {"a": (3, 4, 5), "b": (3, 5, 6), "y": (3, 4, 6)}, 3 * 4 * 5 * 6),
        # 2x3 products of 4x5 and 5x6, of which the first operands are broadcast, and a single one
        ("MATMUL", "a b", {"a": (2, 1, 4, 5), "b": (3, 5, 6), "y": (2, 3, 4, 6)}, 6 * 4 * 5 * 6),
        ("MATMUL_T", "a b", {"a": (4, 5), "b": (6, 5), "y": (4, 6)}, 4 * 5 * 6),
        # 3 products of 4x5 and the transposed 6x5, which all share
        ("MATMUL_T", "a b", {"a": (3, 4, 5), "b": (1, 6, 5), "y": (3, 4, 6)}, 3 * 4 * 5 * 6),
        (
            "MATMUL_T_BLOCK_SCALED",
            "a as b bs",
            {"a": (2, 4, 64), "as": (2, 4, 2), "b": (2, 7, 64), "bs": (2, 7, 2), "y": (2, 4, 7)},
            2 * 4 * 64 * 7,
        ),
        (
            "CONV2D_BLOCK_SCALED",
            "x xs w ws b",
            {
                "x": (1, 5, 5, 32),
                "xs": (1, 5, 5, 1),
                "w": (6, 3, 3, 32),
                "ws": (6, 3, 3, 1),
                "y": (1, 3, 3, 6),
            },
            1 * 3 * 3 * 6 * 3 * 3 * 32,
        ),
    ],
)
def test_the_number_is_the_one_computed_by_hand(
    name: str, operands: str, shapes: dict[str, Shape], expected: int
) -> None:
    assert counted(name, operands, **shapes) == Amount(expected)


def test_every_counted_operator_has_a_case() -> None:
    (mark,) = (
        row
        for row in test_the_number_is_the_one_computed_by_hand.pytestmark  # type: ignore[attr-defined]
        if row.name == "parametrize"
    )
    assert {case[0] for case in mark.args[1]} == COUNTED


def test_an_unknown_size_makes_the_number_a_lower_bound() -> None:
    shapes = {"x": (-1, 5, 6, 8), "w": (16, 3, 3, 8), "y": (-1, 5, 6, 16)}
    assert counted("CONV2D", "x w", **shapes) == Amount(5 * 6 * 16 * 72, exact=False)


def test_a_size_that_any_operand_has_is_known() -> None:
    shapes = {"x": (2, 5, 6, 8), "w": (-1, 3, 3, -1), "y": (-1, 5, 6, 16)}
    assert counted("CONV2D", "x w", **shapes) == Amount(2 * 5 * 6 * 16 * 72)
    assert counted("MATMUL", "a b", a=(3, 4, -1), b=(3, 5, 6), y=(-1, -1, -1)) == Amount(360)
    unknown = counted("MATMUL", "a b", a=(1, 4, 5), b=(-1, 5, 6), y=(-1, -1, -1))
    assert unknown == Amount(120, exact=False)
    for name in ("MATMUL_T", "MATMUL_T_BLOCK_SCALED"):
        names = "a b" if name == "MATMUL_T" else "a as b bs"
        # One size follows from b at a time: exchanging both dimensions of b keeps their product.
        for a, y in (((3, 4, -1), (3, 4, 6)), ((3, 4, 5), (-1, -1, -1))):
            found = counted(name, names, a=a, b=(1, 6, 5), y=y)
            assert found == Amount(3 * 4 * 5 * 6)
    assert counted(
        "DEPTHWISE_CONV2D", "x w", x=(1, 9, 9, 4), w=(3, 3, -1, 2), y=(1, 7, 7, -1)
    ) == Amount(7 * 7 * 8 * 9)


@pytest.mark.parametrize("shape", [None, (1, 5, 6), ()])
def test_operands_of_wrong_or_unknown_rank_give_a_lower_bound(shape: Shape) -> None:
    found = counted("CONV2D", "x w", x=shape, w=shape, y=shape)
    assert found is not None
    assert not found.exact
    assert found.value <= 1


def test_missing_operands_and_results_are_no_crash() -> None:
    made = graph("", "", [], [op("MATMUL", "", ""), op("CONV2D", "gone", "away")])
    found = [multiply_accumulates(operator, made.main) for operator in made.main.operators]
    assert found == [Amount(1, exact=False)] * 2


@pytest.mark.parametrize("name", ["FFT2D", "CUSTOM", "ADD", "AVG_POOL2D"])
def test_other_operators_have_no_number(name: str) -> None:
    assert counted(name, "x", x=(1, 8, 8), y=(1, 8, 8)) is None
