"""The peak of activations, compared with tables of what is in use at each operator."""

from __future__ import annotations

from unit.building import branching, counting, graph, op, tensor

from tosa_convert.graph import Tensor, dtype
from tosa_convert.graph.dtypes import BLOCK_SCALE, BlockShape
from tosa_convert.graph.model import BlockScale
from tosa_convert.rules.amounts import Amount
from tosa_convert.views.inspection.summary import peak_activations, tensor_bytes


def int8(name: str, count: int) -> Tensor:
    return tensor(name, "INT8", (count,))


def test_a_tensor_is_in_use_until_its_last_reader() -> None:
    made = graph(
        "x",
        "d",
        [int8("x", 10), int8("a", 100), int8("b", 40), int8("c", 30), int8("d", 5)],
        [
            op("ABS", "x", "a"),  # x a        110
            op("ABS", "a", "b"),  # a b        140
            op("ABS", "b", "c"),  # b c         70
            op("ADD", "b c", "d"),  # b c d     75
        ],
    )
    assert peak_activations(made.main) == Amount(140)


def test_a_tensor_that_is_read_late_stays_in_use() -> None:
    made = graph(
        "x",
        "d",
        [int8("x", 10), int8("a", 100), int8("b", 40), int8("d", 5)],
        [
            op("ABS", "x", "a"),  # x a        110
            op("ABS", "a", "b"),  # x a b      150
            op("ADD", "b x", "d"),  # x b d     55
        ],
    )
    assert peak_activations(made.main) == Amount(150)


def test_outputs_and_results_that_nothing_reads_are_counted() -> None:
    made = graph(
        "x",
        "a",
        [int8("x", 1), int8("a", 10), int8("unread", 100), int8("b", 4)],
        [
            op("ABS", "x", "a"),  # x a             11
            op("ABS", "a", "unread"),  # a unread  110
            op("ABS", "a", "b"),  # a b             14
        ],
    )
    assert peak_activations(made.main) == Amount(110)


def test_constants_and_variables_are_not_counted() -> None:
    assert peak_activations(counting().main) == Amount(4 + 4 + 4)
    made = graph(
        "x",
        "y",
        [int8("x", 3), tensor("w", "INT8", (1000,), bytes(1000)), int8("y", 3)],
        [op("CONST", "", "w"), op("ADD", "x w", "y")],
    )
    assert peak_activations(made.main) == Amount(6)


def test_unknown_sizes_and_regions_make_it_a_lower_bound() -> None:
    made = graph("x", "y", [tensor("x", "INT8", (-1, 3)), int8("y", 2)], [op("ABS", "x", "y")])
    assert peak_activations(made.main) == Amount(5, exact=False)
    # BOOL [] and FP32 [2, 3] twice
    assert peak_activations(branching().main) == Amount(1 + 24 + 24, exact=False)


def test_a_block_without_operators_holds_its_inputs() -> None:
    made = graph("x", "x", [int8("x", 7)], [])
    assert peak_activations(made.main) == Amount(7)


def test_names_without_a_tensor_are_no_crash() -> None:
    made = graph("gone", "away", [], [op("ABS", "lost", "found"), op("ABS", "found", "found")])
    assert peak_activations(made.main) == Amount(0)


def test_elements_below_a_byte_share_bytes_and_scales_are_counted() -> None:
    assert tensor_bytes(tensor("x", "INT4", (3, 3))) == Amount(5)
    scaled = tensor("x", "FP8E4M3", (2, 64))
    scaled.scale = BlockScale(BLOCK_SCALE, BlockShape.BLOCK_SHAPE_32)
    assert tensor_bytes(scaled) == Amount(128 + 4)
    assert tensor_bytes(Tensor("x", dtype("FP32"), None)) == Amount(0, exact=False)
