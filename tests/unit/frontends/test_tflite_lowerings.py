"""Decompositions of single operators of TFLite, without its converter: facts, and what they compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from frontends.tflite_models import OperatorRow, TensorRow, model

import tosa_convert as tc
from tosa_convert.builder import Builder, dtype_of
from tosa_convert.frontends.tflite.lowerings.find import CORRECTIONS, DECOMPOSITIONS
from tosa_convert.frontends.tflite.lowerings.lowering import Given, is_found
from tosa_convert.frontends.tflite.read import TfliteFile, read_tflite


def integers(*values: int) -> Any:
    return np.array(values, np.int32)


def read_alone(
    operator: str, operands: Sequence[TensorRow], results: Sequence[TensorRow], **options: Any
) -> TfliteFile:
    """Return a model of one operator."""
    rows, count = [*operands, *results], len(operands)
    row = OperatorRow(operator, tuple(range(count)), tuple(range(count, len(rows))), options)
    inputs = [index for index, one in enumerate(operands) if one.data is None]
    return read_tflite(model(rows, [row], inputs, row.outputs))


def computed(
    operator: str,
    operands: Sequence[TensorRow],
    results: Sequence[TensorRow],
    arrays: Sequence[Any],
    **options: Any,
) -> list[Any]:
    """Return the results of the decomposition, for arrays of all operands."""
    read = read_alone(operator, operands, results, **options)
    facts = DECOMPOSITIONS[operator].find(read, read.operators[0])
    assert is_found(facts)
    b = Builder()
    values = [
        b.input(one.name, dtype_of(one.dtype.replace("float", "fp")), one.shape) for one in operands
    ]
    constants = [one.data for one in operands]
    dtypes = [one.dtype for one in operands]
    result = read.result(read.operators[0])
    given = Given(values, constants, dtypes, result.shape, result.dtype)
    b.output(*DECOMPOSITIONS[operator].lower(b, given, facts))
    graph = b.graph()
    assert tc.validate(graph) == []
    named = {one.name: array for one, array in zip(operands, arrays, strict=True)}
    return list(tc.run(graph, named, engine="numpy").outputs.values())


IDS = integers(2, 0, 0, 2, -1)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(
    ("kind", "reduce", "empty"),
    [
        ("SUM", np.sum, lambda row: 0),
        ("PROD", np.prod, lambda row: 1),
        ("MAX", np.max, lambda row: row.min),
        ("MIN", np.min, lambda row: row.max),
    ],
)
def test_rows_of_a_segment_are_reduced_and_others_left_out(
    dtype: str, kind: str, reduce: Callable[..., Any], empty: Callable[[Any], Any]
) -> None:
    """A negative segment is none, and one without rows has what changes no result."""
    x = np.arange(-7, 8).reshape(5, 3).astype(dtype)
    limits = np.finfo(dtype) if dtype == "float32" else np.iinfo(dtype)
    expected = np.full((3, 3), empty(limits), dtype)
    for segment in (0, 2):
        expected[segment] = reduce(x[segment == IDS], axis=0)
    operands = [
        TensorRow("x", dtype, (5, 3)),
        TensorRow("ids", "int32", (5,)),
        TensorRow("count", "int32", (), integers(3)[0]),
    ]
    results = [TensorRow("y", dtype, (3, 3))]
    found = computed(f"UNSORTED_SEGMENT_{kind}", operands, results, [x, IDS, integers(3)[0]])
    np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize("scales", [(), (0.5,), (0.5, 2.0, 4.0, 1.0)])
def test_rows_of_a_table_are_looked_up_with_their_scales(scales: tuple[float, ...]) -> None:
    table = np.arange(-6, 6, dtype=np.int8).reshape(4, 3)
    rows = [
        TensorRow("rows", "int32", (2,)),
        TensorRow("table", "int8", (4, 3), table, scales, (0,) * len(scales)),
    ]
    dtype = "float32" if scales else "int8"
    (found,) = computed(
        "EMBEDDING_LOOKUP", rows, [TensorRow("y", dtype, (2, 3))], [integers(3, 1), table]
    )
    factors = np.broadcast_to(scales or 1, 4)[[3, 1], None]
    np.testing.assert_array_equal(found, table[[3, 1]] * factors)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [((2, 3), (2, 1), (2, 3)), ((1,), (4, 5), (4, 5)), ((7, 1, 3), (6, 1), (7, 6, 3))],
)
def test_the_shape_of_a_broadcast_is_computed(
    one: tuple[int, ...], other: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    operands = [TensorRow("a", "int32", (len(one),)), TensorRow("b", "int32", (len(other),))]
    result = TensorRow("y", "int32", (len(expected),))
    (found,) = computed("BROADCAST_ARGS", operands, [result], [integers(*one), integers(*other)])
    assert tuple(found) == expected


X = TensorRow("x", "float32", (2, 3))
WIDE = TensorRow("x", "int64", (2, 3))
ONE = TensorRow("k", "int32", (), integers(1)[0])
Y = TensorRow("y", "float32", (2, 3))
PLACES = TensorRow("i", "int32", (2, 1))
FIRST = TensorRow("v", "float32", (2, 1))
BYTES = TensorRow("x", "int8", (2, 3), None, (0.5,), (0,))
BYTES_OUT = TensorRow("y", "int8", (2, 3), None, (0.5,), (3,))


@pytest.mark.parametrize(
    ("operator", "operands", "results", "options"),
    [
        ("TOPK_V2", [WIDE, ONE], [TensorRow("v", "int64", (2, 1)), PLACES], {}),
        ("TOPK_V2", [X, TensorRow("k", "int32", ())], [FIRST, PLACES], {}),
        ("TOPK_V2", [TensorRow("x", "float32", (9, 1 << 14)), ONE], [FIRST, PLACES], {}),
        ("ARG_MAX", [X, ONE], [TensorRow("y", "int32", (2,))], {}),
        ("REDUCE_PROD", [X, ONE], [TensorRow("y", "float32", (2,))], {}),
        ("CUMSUM", [WIDE, ONE], [TensorRow("y", "int64", (2, 3))], {}),
        ("UNSORTED_SEGMENT_SUM", [WIDE, TensorRow("i", "int32", (2,)), ONE], [Y], {}),
        ("UNSORTED_SEGMENT_SUM", [X, TensorRow("i", "int32", ()), ONE], [Y], {}),
        (
            "UNSORTED_SEGMENT_SUM",
            [TensorRow("x", "float32", (1 << 13, 9)), TensorRow("i", "int32", (1 << 13,)), ONE],
            [TensorRow("y", "float32", (1 << 13, 9))],
            {},
        ),
        ("EMBEDDING_LOOKUP", [TensorRow("i", "int64", (2,)), X], [Y], {}),
        ("EMBEDDING_LOOKUP", [TensorRow("i", "int32", (2,)), TensorRow("t", "int8", (4, 3))], [Y], {}),
        ("BROADCAST_ARGS", [TensorRow("a", "int64", (2,)), ONE], [TensorRow("y", "int64", (2,))], {}),
        ("STRIDED_SLICE", [X, ONE, ONE, ONE], [Y], {"ellipsis_mask": 1}),
        ("STRIDED_SLICE", [X, TensorRow("b", "int32", (1,)), ONE, ONE], [Y], {}),
        ("UNPACK", [X], [FIRST], {"axis": 0}),
        ("UNPACK", [BYTES], [BYTES_OUT], {"axis": 0}),
        ("SPARSE_TO_DENSE", [PLACES, PLACES, FIRST, ONE], [Y], {}),
        ("L2_NORMALIZATION", [TensorRow("x", "int16", (2, 3))], [TensorRow("y", "int16", (2, 3))], {}),
        ("L2_NORMALIZATION", [BYTES], [BYTES_OUT], {}),
        ("LOG_SOFTMAX", [BYTES], [TensorRow("y", "int8", (2, 3), None, (0.5,), (3,))], {}),
        ("LOG_SOFTMAX", [WIDE], [TensorRow("y", "int64", (2, 3))], {}),
        ("LOCAL_RESPONSE_NORMALIZATION", [WIDE], [TensorRow("y", "int64", (2, 3))], {"radius": 1}),
        ("BATCH_MATMUL", [X, WIDE], [Y], {"adj_x": False}),
        ("BATCH_MATMUL", [WIDE, WIDE], [TensorRow("y", "int64", (2, 3))], {"adj_x": False}),
        ("L2_POOL_2D", [BYTES], [BYTES_OUT], {"stride_w": 1}),
        ("ELU", [X], [Y], {}),
        ("FAKE_QUANT", [WIDE], [TensorRow("y", "int64", (2, 3))], {"num_bits": 4}),
        ("FAKE_QUANT", [X], [Y], {"num_bits": 4, "min": 1.0, "max": 0.0}),
        ("SVDF", [X, X, X, X], [Y], {"rank": 0}),
    ],
)  # fmt: skip
def test_other_forms_are_not_decomposed(
    operator: str, operands: list[TensorRow], results: list[TensorRow], options: dict[str, Any]
) -> None:
    read = read_alone(operator, operands, results, **options)
    assert not is_found(DECOMPOSITIONS[operator].find(read, read.operators[0]))


@pytest.mark.parametrize(
    ("operator", "operands", "results", "options"),
    [
        ("LEAKY_RELU", [BYTES], [TensorRow("y", "int8", (2, 3))], {"alpha": 0.5}),
        ("QUANTIZE", [WIDE], [BYTES_OUT], {}),
        ("RESIZE_NEAREST_NEIGHBOR", [X, ONE], [Y], {"align_corners": True}),
        ("RELU", [X], [TensorRow("y", "int8", (2, 3))], {}),
    ],
)
def test_other_forms_are_not_corrected(
    operator: str, operands: list[TensorRow], results: list[TensorRow], options: dict[str, Any]
) -> None:
    read = read_alone(operator, operands, results, **options)
    for row in CORRECTIONS[operator]:
        assert not row.find(read, read.operators[0])
