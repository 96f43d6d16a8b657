"""Decompositions of single operators of TFLite, without its converter: facts, and what they compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from frontends.tflite_models import OperatorRow, TensorRow, model
from frontends.tflite_operators.cells import both_lstms, lstm, rnn, svdf
from frontends.tflite_operators.programs import Program

import tosa_convert as tc
from tosa_convert.builder import Builder, dtype_of
from tosa_convert.builder.values import Value
from tosa_convert.frontends.tflite.lowerings import sequences
from tosa_convert.frontends.tflite.lowerings.arithmetic import (
    fixed_point,
    multiplier_and_shift,
    narrow_multiplier_and_shift,
    rounded,
    scaled_down,
    single,
)
from tosa_convert.frontends.tflite.lowerings.find import (
    CORRECTIONS,
    DECOMPOSITIONS,
    without_decomposed,
)
from tosa_convert.frontends.tflite.lowerings.lowering import Given, Refused, is_found
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
    expected = np.full((4, 3), empty(limits), dtype)
    for segment in (0, 2):
        expected[segment] = reduce(x[segment == IDS], axis=0)
    operands = [
        TensorRow("x", dtype, (5, 3)),
        TensorRow("ids", "int32", (5,)),
        TensorRow("count", "int32", (), integers(4)[0]),
    ]
    results = [TensorRow("y", dtype, (4, 3))]
    found = computed(f"UNSORTED_SEGMENT_{kind}", operands, results, [x, IDS, integers(4)[0]])
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


def of(dtype: str, *shape: int, name: str = "x", scale: float = 0.0, zero: int = 0) -> TensorRow:
    quantized: dict[str, Any] = {"scales": (scale,), "zero_points": (zero,)} if scale else {}
    return TensorRow(name, dtype, shape, **quantized)


def floats(*values: float) -> TensorRow:
    return TensorRow("c", "float32", (len(values),), np.array(values, np.float32))


def listed(*values: int) -> TensorRow:
    return TensorRow("c", "int32", (len(values),), integers(*values))


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
        ("RELU", [of("int8", 3, scale=0.5)], [of("int8", 3, scale=0.5)], {}),
        ("RELU", [of("int8", 3, scale=1e-20)], [of("int8", 3, scale=0.5)], {}),
        ("LEAKY_RELU", [of("int8", 3)], [of("int8", 3, scale=0.5)], {"alpha": 0.5}),
        ("LEAKY_RELU", [of("int8", 3, scale=1e-20)], [of("int8", 3, scale=0.5)], {"alpha": 0.5}),
        ("LEAKY_RELU", [X], [Y], {"alpha": 0.5}),
        ("QUANTIZE", [X], [of("int8", 3)], {}),
        ("QUANTIZE", [X], [of("int32", 3, scale=0.5)], {}),
        ("ADD", [X, X], [Y], {"activation": 1}),
        ("ADD", [BYTES, BYTES], [of("int8", 2, 3)], {"activation": 1}),
        ("ADD", [BYTES, BYTES], [BYTES_OUT], {"activation": 4}),
        ("MAX_POOL_2D", [of("int32", 1, 2, 2, 1)], [of("int32", 1, 2, 2, 1)], {"activation": 1}),
        ("MAX_POOL_2D", [of("uint8", 1, 2, 2, 1)], [of("uint8", 1, 2, 2, 1)], {"activation": 1}),
        ("AVERAGE_POOL_2D", [X], [Y], {}),
        ("CAST", [of("int32", 3)], [of("int8", 3)], {}),
        ("CAST", [of("uint16", 3)], [of("bool", 3)], {}),
        ("CAST", [of("uint8", 3)], [of("uint8", 3)], {}),
        ("CAST", [of("int64", 3)], [of("int32", 3)], {}),
        ("BITWISE_XOR", [of("int8", 3)], [of("int8", 3)], {}),
        ("GELU", [of("int8", 3)], [of("int8", 3)], {"approximate": False}),
        ("GELU", [of("uint8", 3)], [of("uint8", 3)], {"approximate": False}),
        ("GELU", [X], [Y], {"approximate": True}),
        ("EXP", [BYTES], [BYTES_OUT], {}),
        ("ROUND", [of("int32", 3)], [of("int32", 3)], {}),
        ("LOG_SOFTMAX", [BYTES], [BYTES_OUT], {}),
        ("ABS", [X], [Y], {}),
        ("NEG", [of("int64", 3)], [of("int64", 3)], {}),
        ("TANH", [of("int16", 3)], [of("int16", 3, scale=2.0**-15)], {}),
        ("TANH", [of("int16", 3, scale=1e-9)], [of("int16", 3, scale=2.0**-15)], {}),
        ("LOGISTIC", [of("int16", 3, scale=8 / 3)], [of("int16", 3, scale=2.0**-15)], {}),
        ("LOGISTIC", [BYTES], [BYTES_OUT], {}),
        ("SCATTER_ND", [of("int32", 1, 1), X, ONE], [Y], {}),
        ("SOFTMAX", [of("int8", 2, 511)], [of("int8", 2, 511)], {}),
        ("SOFTMAX", [of("float32", 2, 512)], [of("float32", 2, 512)], {}),
        ("FULLY_CONNECTED", [of("int16", 2, 3, scale=0.1), of("int8", 2, 3)],
         [of("int16", 2, 2, scale=0.1)], {}),
        ("FULLY_CONNECTED", [of("int16", 2, 3, scale=1e-20), of("int8", 2, 3, scale=0.1)],
         [of("int16", 2, 2, scale=0.1)], {}),
        ("FULLY_CONNECTED", [of("int16", 2, 3, scale=0.1),
         TensorRow("w", "int8", (2, 3), np.ones((2, 3), np.int8), (0.1, 1e-20), (0, 0))],
         [of("int16", 2, 2, scale=0.1)], {}),
        ("FULLY_CONNECTED", [X, X], [Y], {}),
        ("SUM", [BYTES, listed(1)], [of("int16", 2, scale=0.5)], {}),
        ("SUM", [BYTES, listed(1)], [of("int8", 2)], {}),
        ("SUM", [X, listed(1)], [Y], {}),
        ("RESIZE_NEAREST_NEIGHBOR", [of("float32", 1, 2, 2, 1), ONE], [of("float32", 1, 4, 4, 1)],
         {"half_pixel_centers": True}),
        ("RESIZE_NEAREST_NEIGHBOR", [of("float32", 1, 2, 2, 1), ONE], [of("float32", 1, 4, 4, 1)],
         {"align_corners": True}),
        ("RESIZE_BILINEAR", [of("float32", 1, 2, 2, 1), ONE], [of("float32", 1, 4, 4, 1)], {}),
        ("RESIZE_BILINEAR", [of("int8", 1, -1, 2, 1), ONE], [of("int8", 1, 4, 4, 1)], {}),
        ("RESIZE_BILINEAR", [of("int8", 1, 2, 2), ONE], [of("int8", 1, 4, 4)], {}),
        ("RESIZE_BILINEAR", [of("int8", 1, 2, 2, 1), ONE], [of("int8", 1, 9999, 4, 1)], {}),
    ],
)  # fmt: skip
def test_other_forms_are_not_corrected(
    operator: str, operands: list[TensorRow], results: list[TensorRow], options: dict[str, Any]
) -> None:
    read = read_alone(operator, operands, results, **options)
    for row in CORRECTIONS[operator]:
        assert not row.find(read, read.operators[0])


@pytest.mark.parametrize(
    ("compute", "given", "expected"),
    [
        *((rounded, (number,), one) for number, one in ((0.5, 1), (-0.5, -1), (1.49, 1), (-2.5, -3))),
        (single, (0.1,), 0.10000000149011612),
        (fixed_point, (1.0 - 2.0**-40,), (1 << 30, 1)),
        (fixed_point, (1.0 - 2.0**-31,), ((1 << 31) - 1, 0)),
        (multiplier_and_shift, (0.0, 1.0), None),
        (multiplier_and_shift, (1.0, 0.0), None),
        (multiplier_and_shift, (3.0, 4.0), (3 << 29, 31)),
        (multiplier_and_shift, (2.0**28, 1.0), (1 << 30, 2)),
        (multiplier_and_shift, (2.0**29, 1.0), None),
        (multiplier_and_shift, (2.0**-32, 1.0), (1 << 30, 62)),
        (multiplier_and_shift, (2.0**-33, 1.0), None),
        (narrow_multiplier_and_shift, (0.0, 1.0), None),
        (narrow_multiplier_and_shift, (2.0**12, 1.0), (1 << 14, 2)),
        (narrow_multiplier_and_shift, (2.0**13, 1.0), None),
        (narrow_multiplier_and_shift, (0x40008000 * 2.0**-31, 1.0), (0x4001, 15)),
        (narrow_multiplier_and_shift, (0x40007FFF * 2.0**-31, 1.0), (0x4000, 15)),
        (narrow_multiplier_and_shift, (0x7FFEFFFF * 2.0**-31, 1.0), (0x7FFF, 15)),
        (narrow_multiplier_and_shift, (0x7FFF8000 * 2.0**-31, 1.0), (0x7FFF, 15)),
        (scaled_down, (3, 0.5), 2),
        (scaled_down, (-3, 0.5), -1),
        (scaled_down, (5, 0.25), 2),
        (scaled_down, (-5, 0.25), -1),
        (scaled_down, (-6, 0.25), -2),
        (scaled_down, (0, 0.25), 0),
    ],
)  # fmt: skip
def test_numbers_are_rounded_as_in_the_kernels(
    compute: Callable[..., Any], given: tuple[float, ...], expected: Any
) -> None:
    assert compute(*given) == expected


@pytest.mark.parametrize(
    ("dtype", "steps", "backwards", "most"),
    [
        ("float32", 1, True, 4),
        ("float32", 4, True, 32),
        ("float32", 5, False, 32),
        ("float32", 5, True, 32),
        ("int32", 5, True, 32),
        ("int8", 5, False, 32),
        ("int16", 4, False, 32),
        ("int16", 5, False, 32),
        ("float32", 128, True, 1024),
        ("float32", 129, True, 1024),
    ],
)
def test_steps_are_unrolled_up_to_1024_operators(
    dtype: str, steps: int, backwards: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step combines a state with what it takes, by 8 operators; the state stays after the last.

    Inside of the steps, states of int16 are int32.
    """
    if most < sequences._UNROLLED:
        monkeypatch.setattr(sequences, "_UNROLLED", most)
    is_float = dtype == "float32"

    def step(b: Builder, x: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        total = b.add(x, states[0]) if is_float else b.bitwise_xor(x, states[0])
        for _ in range(6):
            total = b.negate(total) if is_float else b.bitwise_not(total)
        total = b.identity(total)
        return total, [total]

    element = dtype_of(dtype.replace("float", "fp"))
    b = Builder()
    taken = dtype_of("int32") if dtype == "int16" else element
    x = b.input("x", taken, (steps * 2, 1, 1, 3))
    states = [sequences.State("s", element, (2, 3), 1)]
    b.output(sequences.run_steps(b, x, steps, states, step, backwards=backwards))
    graph = b.graph()
    assert tc.validate(graph) == []
    operators = graph.main.operators
    has_loop = any(one.spec.name == "WHILE_LOOP" for one in operators)
    assert has_loop is (steps > 1 and 8 * steps > most)
    assert all(len(one.inputs) <= 64 for one in operators)
    given = np.random.default_rng(0).integers(-9, 9, (steps, 2, 1, 1, 3))
    given = given.astype(taken.numpy)
    found = tc.run(graph, {"x": given.reshape(-1, 1, 1, 3)}, engine="numpy")
    order = slice(None, None, -1 if backwards else 1)
    join = np.add if is_float else np.bitwise_xor
    sums = join.accumulate(np.concatenate([np.ones_like(given[:1]), given[order]]), axis=0)
    (y,) = found.outputs.values()
    np.testing.assert_array_equal(y, sums[1:][order].reshape(y.shape))
    np.testing.assert_array_equal(found.variables["s"], sums[-1].reshape(2, 3))


def changed(program: Program, place: int, **more: Any) -> Program:
    """Return a program whose first operator has another operand at a place."""
    number = program.rows[0].inputs[place]
    program.tensors[number] = replace(program.tensors[number], **more)
    return program


def with_option(program: Program, **options: Any) -> Program:
    row = program.rows[0]
    program.rows[0] = replace(row, options={**row.options, **options})
    return program


def with_intermediates(program: Program, count: int) -> Program:
    row = program.rows[0]
    program.rows[0] = replace(
        row, intermediates=(*row.intermediates, *row.intermediates * 2)[:count]
    )
    return program


SEQUENCE: Final = "UNIDIRECTIONAL_SEQUENCE_LSTM"
INT8: Final = np.ones((5, 3), np.int8)
#: What makes a recurrent operator one that is not decomposed -> the reason, if the user is told one.
NOT_RECURRENT: Final[list[tuple[Program, str]]] = [
    (with_option(lstm("LSTM", "float32"), kernel_type=1), "it is the basic kernel"),
    (lstm(SEQUENCE, "float32", activation=0), "its activation is NONE"),
    (lstm(SEQUENCE, "float32", activation=5), ""),
    (changed(lstm(SEQUENCE, "float32"), 1, data=None), ""),
    (changed(lstm(SEQUENCE, "float32"), 1, dtype="int8", data=INT8), "its inputs are FP32"),
    (changed(lstm(SEQUENCE, "float32"), 0, dtype="int32"), ""),
    (changed(both_lstms(), 18, data=None), ""),
    (changed(both_lstms(), 0, dtype="int8"), ""),
    (changed(both_lstms(), 18, dtype="int8", data=INT8), "its inputs are FP32"),
    (with_intermediates(lstm(SEQUENCE, "int8"), 12), "its kernel computes in floating point"),
    (with_intermediates(lstm(SEQUENCE, "int8"), 4), ""),
    (changed(lstm(SEQUENCE, "int8"), 12, dtype="float32"), ""),
    (changed(lstm(SEQUENCE, "int8"), 18, dtype="int16"), ""),
    (changed(lstm(SEQUENCE, "int8"), 19, dtype="int32"), ""),
    (changed(lstm(SEQUENCE, "int8"), 19, scales=(), zero_points=()), ""),
    (changed(lstm(SEQUENCE, "int8"), 2, scales=(1e-30,)), ""),
    (lstm(SEQUENCE, "int8", cell_scale=2.0**-8), ""),
    (lstm(SEQUENCE, "int8", cell_scale=2.0**-16), ""),
    (lstm(SEQUENCE, "int8", cell_scale=1.01 * 2.0**-11), ""),
    *((changed(rnn("RNN"), place, data=None), "") for place in (1, 2, 3)),
    (rnn("RNN", activation=5), ""),
    (changed(rnn("RNN"), 0, dtype="int8"), ""),
    (changed(rnn("RNN"), 2, dtype="int8", data=np.ones((5, 5), np.int8)), "its inputs are FP32"),
    (changed(rnn("BIDIRECTIONAL_SEQUENCE_RNN"), 6, data=None), ""),
    *((changed(svdf("float32"), place, data=None), "") for place in (1, 2, 3)),
    (svdf("float32", activation=5), ""),
    (with_option(svdf("float32"), rank=0), ""),
    (changed(svdf("float32"), 1, dtype="int8", data=np.ones((2, 3), np.int8)), "its inputs are FP32"),
    (changed(svdf("int8"), 4, dtype="int8"), ""),
    (changed(svdf("int8"), 1, scales=(1e-30,)), ""),
    (changed(svdf("int8"), 2, scales=(1e-30,)), ""),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(NOT_RECURRENT)))
def test_other_recurrent_forms_are_not_decomposed(number: int) -> None:
    program, reason = NOT_RECURRENT[number]
    read = read_tflite(program.data())
    found = DECOMPOSITIONS[program.operator].find(read, read.operators[0])
    assert found is None or isinstance(found, Refused)
    assert reason in getattr(found, "reason", "")
    assert bool(reason) is isinstance(found, Refused)


@pytest.mark.parametrize(("place", "zero"), [(18, -6), (19, 0)])
def test_a_state_is_a_variable_of_a_name_of_its_own(place: int, zero: int) -> None:
    def state(name: str, **more: Any) -> sequences.State:
        program = changed(lstm("LSTM", "int8"), place, name=name, **more)
        changed(program, 37 - place, name="twice")
        read = read_tflite(program.data())
        return sequences.find_state(read, read.operators[0], place)

    dtype, size = ("int8", 5) if place == 18 else ("int16", 5)
    assert state("mine") == sequences.State("mine", dtype_of(dtype), (2, size), zero)
    for name in ("", "tfl.pseudo", "arith.constant", "twice"):
        assert state(name).name == f"lstm_0_state_{place}"
    with pytest.raises(ValueError, match=f"operand {place} is not a variable"):
        state("mine", is_variable=False)


def test_diagonal_weights_are_those_of_a_matrix() -> None:
    diagonal = np.arange(1, 6, dtype=np.float32)
    graphs = []
    for weights in (diagonal, np.diag(diagonal)):
        program = lstm("LSTM", "float32")
        for place in (5, 6, 7, 8):
            changed(program, place, shape=weights.shape, data=weights)
        read = read_tflite(program.data())
        operator = read.operators[0]
        facts = DECOMPOSITIONS["LSTM"].find(read, operator)
        taken = [read.tensors[one] for one in read.takes(operator).values()]
        constants = [
            np.frombuffer(one.data, np.float32).reshape(one.shape) if len(one.data) else None
            for one in taken
        ]
        b = Builder()
        x = b.input("x", "fp32", taken[0].shape)
        result = read.result(operator)
        given = Given([x], constants, [one.dtype for one in taken], result.shape, result.dtype)
        b.output(*DECOMPOSITIONS["LSTM"].lower(b, given, facts))
        graphs.append(b.graph())
    assert tc.compare(*graphs) is None


_FAKE: Final = {"min": -1.0, "max": 2.0}
_ENDS: Final = (listed(0, 0), listed(2, 2), listed(1, 1))
_DEEP: Final = of("float32", 1, 4, 4, 4, 1)
_KERNEL: Final = TensorRow("w", "float32", (1, 1, 1, 1, 1), np.ones((1, 1, 1, 1, 1), np.float32))
_BYTES: Final = TensorRow("w", "int8", (1, 1, 1, 1, 1), np.ones((1, 1, 1, 1, 1), np.int8))
_SIZES: Final = listed(1, 4, 4, 4, 1)
#: Operator, operands, result, options -> whether it is decomposed.
BOUNDARIES: Final[list[tuple[str, list[TensorRow], TensorRow, dict[str, Any], bool]]] = [
    ("EQUAL", [of("int8", 3, scale=0.5), of("uint8", 3, scale=0.25)], of("bool", 3), {}, True),
    ("EQUAL", [of("int8", 3, scale=0.5), of("int16", 3, scale=0.5)], of("bool", 3), {}, False),
    ("EQUAL", [of("int8", 3, scale=0.5), of("int8", 3)], of("bool", 3), {}, False),
    ("EQUAL", [of("int8", 3, scale=0.5), of("int8", 3, scale=1.0)], of("bool", 3), {}, False),
    ("EQUAL", [of("uint8", 3, scale=32767 / 65280)] * 2, of("bool", 3), {}, True),
    ("EQUAL", [of("uint8", 3, scale=32768.1 / 65280)] * 2, of("bool", 3), {}, False),
    ("ADD", [of("int32", 3)] * 2, of("int32", 3), {"activation": 1}, True),
    ("ADD", [of("int32", 3)] * 2, of("int32", 3), {"activation": 0}, False),
    ("ADD", [of("int32", 3)] * 2, of("int32", 3), {"activation": 4}, False),
    ("ADD", [of("int32", 3), of("int64", 3)], of("int32", 3), {"activation": 1}, False),
    ("RIGHT_SHIFT", [of("int64", 3)] * 2, of("int64", 3), {}, False),
    ("RIGHT_SHIFT", [of("int8", 3), of("int16", 3)], of("int8", 3), {}, False),
    ("BITWISE_XOR", [of("uint16", 3)] * 2, of("uint16", 3), {}, True),
    ("BITWISE_XOR", [of("uint8", 3)] * 2, of("uint8", 3), {}, False),
    ("ELU", [of("int8", 3, scale=0.5)], of("int8", 3, scale=0.5), {}, True),
    ("ELU", [of("int8", 3)], of("int8", 3, scale=0.5), {}, False),
    ("ELU", [of("int8", 3, scale=0.5)], of("int8", 3), {}, False),
    ("ELU", [of("int8", 3, scale=0.5)], of("int16", 3, scale=0.5), {}, False),
    ("ABS", [of("int16", 3, scale=0.5)], of("int16", 3, scale=0.25), {}, True),
    ("ABS", [of("int16", 3, scale=0.5)], of("int16", 3, scale=0.5), {}, False),
    ("ABS", [of("int16", 3)], of("int16", 3, scale=0.5), {}, False),
    ("ABS", [of("int16", 3, scale=0.5)], of("int16", 3), {}, False),
    ("ABS", [of("int8", 3, scale=0.5)], of("int8", 3, scale=0.25), {}, False),
    *(
        ("FAKE_QUANT", [X], Y, {**_FAKE, "num_bits": bits}, 1 < bits < 17 and bits not in (8, 16))
        for bits in (1, 2, 7, 8, 9, 15, 16, 17)
    ),
    ("FAKE_QUANT", [X], Y, {**_FAKE, "num_bits": 4, "narrow_range": True}, False),
    ("FAKE_QUANT", [X], Y, {"num_bits": 4, "min": 1.0, "max": 1.0}, False),
    ("POW", [X, floats(2.5)], Y, {}, True),
    *(("POW", [X, floats(one)], Y, {}, False) for one in (1, 2, 3, 4, 0.5, -0.5, -1, -2)),
    ("POW", [X, floats(2, 2, 2)], Y, {}, True),
    ("POW", [WIDE, WIDE], WIDE, {}, False),
    ("POW", [X, listed(2)], Y, {}, False),
    ("FLOOR_DIV", [X, X], Y, {}, True),
    ("FLOOR_DIV", [X, listed(1)], Y, {}, False),
    ("FLOOR_MOD", [WIDE, WIDE], WIDE, {}, False),
    ("TOPK_V2", [of("float32", 1, 2048), ONE], of("float32", 1, 1), {}, True),
    ("TOPK_V2", [of("float32", 1, 2049), ONE], of("float32", 1, 1), {}, False),
    ("TOPK_V2", [X, listed(1, 1)], FIRST, {}, False),
    ("TOPK_V2", [X, floats(1)], FIRST, {}, False),
    ("CUMSUM", [X, listed(1, 0)], Y, {}, False),
    ("ARG_MAX", [of("int32", 2, 3), ONE], of("int64", 2), {}, False),
    ("ARG_MAX", [of("int32", 2, 3), listed(0, 1)], of("int32", 2), {}, False),
    ("ARG_MAX", [of("int32", 2, 3), ONE], of("int32", 2), {}, True),
    ("REDUCE_PROD", [of("int32", 2, 3), of("int32", 1)], of("int32", 2), {}, False),
    ("UNSORTED_SEGMENT_MAX", [of("int32", 2048, 1), of("int32", 2048), ONE],
     of("int32", 2048, 1), {}, True),
    ("UNSORTED_SEGMENT_MAX", [of("int32", 2049, 1), of("int32", 2049), ONE],
     of("int32", 2048, 1), {}, False),
    ("UNSORTED_SEGMENT_MAX", [X, of("int64", 2), ONE], Y, {}, False),
    ("MEAN", [BYTES, listed()], BYTES_OUT, {}, True),
    ("MEAN", [BYTES, listed()], BYTES, {}, False),
    ("MEAN", [BYTES, listed(1)], BYTES_OUT, {}, False),
    ("MEAN", [X, listed()], Y, {}, False),
    ("MEAN", [BYTES, listed()], of("int8", 2, 3, scale=0.25), {}, True),
    ("MEAN", [BYTES, listed()], of("int8", 2, 3), {}, False),
    ("MEAN", [BYTES, listed()], of("int16", 2, 3, scale=0.25), {}, False),
    ("SOFTMAX", [X], Y, {"beta": 0.5}, True),
    ("SOFTMAX", [X], Y, {"beta": 1.0}, False),
    ("SOFTMAX", [X], Y, {"beta": 0.0}, False),
    ("SOFTMAX", [BYTES], BYTES, {"beta": 0.5}, False),
    ("L2_NORMALIZATION", [of("int8", 8192, scale=0.5)], of("int8", 8192), {}, True),
    ("L2_NORMALIZATION", [of("int8", 8193, scale=0.5)], of("int8", 8193), {}, False),
    ("L2_NORMALIZATION", [BYTES], of("int8", 2, 3), {"activation": 1}, False),
    ("L2_NORMALIZATION", [of("uint8", 3)], of("uint8", 3, scale=1 / 128, zero=128), {}, True),
    ("L2_NORMALIZATION", [of("uint8", 3)], of("uint8", 3, scale=1 / 128), {}, False),
    ("L2_NORMALIZATION", [of("uint8", 3)], of("int8", 3), {}, False),
    ("LOG_SOFTMAX", [BYTES], of("int8", 2, 3, scale=16 / 256, zero=127), {}, True),
    ("LOG_SOFTMAX", [BYTES], of("int8", 2, 3, scale=16 / 256, zero=126), {}, False),
    ("LOG_SOFTMAX", [BYTES], of("int8", 2, 3, scale=1 / 8, zero=127), {}, False),
    ("LOG_SOFTMAX", [of("int8", 2, 3)], of("int8", 2, 3, scale=16 / 256, zero=127), {}, False),
    ("LOG_SOFTMAX", [BYTES], of("uint8", 2, 3, scale=16 / 256, zero=255), {}, False),
    ("LOCAL_RESPONSE_NORMALIZATION", [of("float32", 2048)],
     of("float32", 2048), {"radius": 1}, True),
    ("LOCAL_RESPONSE_NORMALIZATION", [of("float32", 2049)],
     of("float32", 2049), {"radius": 1}, False),
    ("L2_POOL_2D", [of("float32", 1, 2, 2, 1)],
     of("float32", 1, 1, 1, 1), {"activation": 4}, False),
    ("L2_POOL_2D", [of("float32", 1, 2, 2, 1)], of("float32", 1, 1, 1, 1), {"activation": 3}, True),
    ("CONV_3D_TRANSPOSE", [_SIZES, _KERNEL, _DEEP], _DEEP, {"activation": 3}, True),
    ("CONV_3D_TRANSPOSE", [_SIZES, _KERNEL, _DEEP], _DEEP, {"activation": 4}, False),
    ("CONV_3D_TRANSPOSE", [_SIZES, _BYTES, _DEEP], _DEEP, {}, False),
    ("CONV_3D_TRANSPOSE", [_SIZES, of("float32", 1, 1, 1, 1, 1), _DEEP], _DEEP, {}, False),
    ("CONV_3D_TRANSPOSE", [of("int32", 5), _KERNEL, _DEEP], _DEEP, {}, False),
    ("CONV_3D_TRANSPOSE", [_SIZES, _KERNEL, of("int8", 1, 4, 4, 4, 1)], _DEEP, {}, False),
    ("BATCH_MATMUL", [of("float32", 2, 1, 3), of("float32", 1, 3, 1)],
     of("float32", 2, 1, 1), {}, True),
    ("BATCH_MATMUL", [of("float32", 2, 1, 3), of("float32", 2, 3, 1)],
     of("float32", 2, 1, 1), {}, False),
    ("BATCH_MATMUL", [of("int8", 2, 1, 3, scale=0.1), of("int8", 1, 3, 1, scale=0.1)],
     of("int8", 2, 1, 1), {}, False),
    ("BATCH_MATMUL", [of("int8", 2, 1, 3, scale=0.1), of("int8", 1, 3, 1, scale=0.1)],
     of("int32", 2, 1, 1, scale=0.1), {}, False),
    ("BATCH_MATMUL", [of("int16", 1, 2, 1, 3, scale=0.1), of("int16", 1, 2, 3, 1, scale=0.1)],
     of("int16", 1, 2, 1, 1, scale=0.1), {}, True),
    ("BATCH_MATMUL", [of("int16", 2, 1, 3, scale=0.1), of("int16", 2, 3, 1, scale=0.1)],
     of("int16", 2, 1, 1, scale=0.1), {}, False),
    ("BATCH_MATMUL", [of("int8", 1, 2, 1, 3, scale=0.1), of("int8", 1, 2, 3, 1, scale=0.1)],
     of("int8", 1, 2, 1, 1, scale=0.1), {}, False),
    ("BATCH_MATMUL", [of("int8", 2, 1, 3), of("int8", 1, 3, 1, scale=0.1)],
     of("int8", 2, 1, 1, scale=0.1), {}, False),
    ("STRIDED_SLICE", [X, *_ENDS], Y, {}, False),
    ("STRIDED_SLICE", [X, *_ENDS], Y, {"new_axis_mask": 1}, True),
    ("STRIDED_SLICE", [X, *_ENDS], Y, {"begin_mask": 1, "shrink_axis_mask": 1}, True),
    ("STRIDED_SLICE", [X, *_ENDS], Y, {"end_mask": 1, "shrink_axis_mask": 1}, True),
    ("STRIDED_SLICE", [X, *_ENDS], Y, {"end_mask": 2, "shrink_axis_mask": 1}, False),
    ("STRIDED_SLICE", [X, listed(0, 0), listed(2, 3), listed(1, 1)], Y, {}, False),
    ("STRIDED_SLICE", [X, listed(0, 0), listed(2, 4), listed(1, 1)], Y, {}, True),
    ("STRIDED_SLICE", [X, listed(-3, 0), listed(2, 3), listed(1, 1)], Y, {}, True),
    ("STRIDED_SLICE", [X, listed(0, 2), listed(2, 0), listed(1, -1)], Y, {}, True),
    ("STRIDED_SLICE", [X, listed(0, 0), listed(2, 2), listed(1, 0)], Y, {}, False),
    ("STRIDED_SLICE", [X, listed(0, 2), listed(2, 2), listed(1, -1)], Y, {}, False),
    ("STRIDED_SLICE", [X, listed(0, 0, 0), listed(2, 4, 1), listed(1, 1, 1)], Y, {}, False),
    ("STRIDED_SLICE", [X, listed(0, 0), listed(2, 4), listed(1)], Y, {}, False),
    ("SLICE", [of("uint8", 3), listed(0), listed(3)], of("uint8", 3, name="y"), {}, True),
    ("SLICE", [of("uint8", 3), listed(0), listed(2)], of("uint8", 2, name="y"), {}, False),
    ("SLICE", [of("int8", 3), listed(0), listed(3)], of("int8", 3, name="y"), {}, False),
    ("UNPACK", [of("uint8", 1, 3)], of("uint8", 3), {"num": 1}, True),
    ("SPLIT_V", [X, listed(1, -1), ONE], FIRST, {}, True),
    ("SPLIT_V", [X, listed(1, 2), ONE], FIRST, {}, False),
    ("SPLIT_V", [X, listed(-1, -1), ONE], FIRST, {}, False),
    ("SELECT", [of("bool", 2), X, X], Y, {}, True),
    ("SELECT", [of("bool", 3), X, X], Y, {}, False),
    ("SELECT", [of("bool", 2, 1), X, X], Y, {}, False),
    ("SELECT", [of("bool", 3), of("float32", 3), of("float32", 3)], of("float32", 3), {}, False),
    ("FILL", [listed(2, 3), of("float32")], Y, {}, True),
    ("FILL", [listed(2, 3), floats(1)], Y, {}, False),
    ("FILL", [listed(2, 3), of("float32")], of("float32"), {}, False),
    ("MATRIX_DIAG", [of("float32", 2, 3)], of("float32", 2, 3, 3), {}, True),
    ("MATRIX_DIAG", [of("float32", 2, 3)], of("float32", 2, 3, 4), {}, False),
    ("MATRIX_DIAG", [of("int64", 2, 3)], of("int64", 2, 3, 3), {}, False),
    ("REVERSE_SEQUENCE", [of("float32", 2, 3), of("int32", 2)], Y, {"seq_dim": 1}, True),
    ("REVERSE_SEQUENCE", [of("float32", 2, 3), of("int64", 2)], Y, {"seq_dim": 1}, False),
    ("REVERSE_SEQUENCE", [of("int8", 2, 3), of("int32", 2)],
     of("int8", 2, 3), {"seq_dim": 1}, False),
    ("REVERSE_SEQUENCE", [of("int64", 2, 3), of("int32", 2)],
     of("int64", 2, 3), {"seq_dim": 1}, False),
    ("DYNAMIC_UPDATE_SLICE", [X, FIRST, of("int32", 2)], Y, {}, True),
    ("DYNAMIC_UPDATE_SLICE", [X, FIRST, of("int64", 2)], Y, {}, False),
    ("DYNAMIC_UPDATE_SLICE", [of("float32"), of("float32"), of("int32", 1)],
     of("float32"), {}, False),
    ("DYNAMIC_UPDATE_SLICE", [WIDE, WIDE, of("int32", 2)], WIDE, {}, False),
    ("SPARSE_TO_DENSE", [listed(2, 0), listed(3), floats(5, 6), of("float32")],
     of("float32", 3), {}, True),
    ("SPARSE_TO_DENSE", [listed(2, 2), listed(3), floats(5, 6), of("float32")],
     of("float32", 3), {}, False),
    ("SPARSE_TO_DENSE", [listed(2, 0), listed(3), floats(5, 6), of("float32", 1)],
     of("float32", 3), {}, False),
    ("SPARSE_TO_DENSE", [listed(2, 0), listed(3), of("int64", 2), of("int64")],
     of("int64", 3), {}, False),
    ("EMBEDDING_LOOKUP", [of("int32", 2), of("int64", 2, 3)], of("int64", 2, 3), {}, False),
    ("EMBEDDING_LOOKUP", [of("int32", 2), of("int8", 2, 3, scale=0.5)], Y, {}, True),
    ("EMBEDDING_LOOKUP", [of("int32", 2), of("int8", 2, 3, scale=0.5, zero=1)], Y, {}, False),
    ("EMBEDDING_LOOKUP", [of("int32", 2), of("uint8", 2, 3, scale=0.5)], Y, {}, False),
    ("EMBEDDING_LOOKUP", [of("int32", 2), of("int8", 2, 3, scale=0.5)],
     of("int32", 2, 3), {}, False),
    ("BROADCAST_ARGS", [of("int32", 2), of("int32", 1)], of("int32", 2), {}, True),
    ("TRANSPOSE", [X, listed(-1, 0)], Y, {}, True),
    ("TRANSPOSE", [X, listed(1, 0)], Y, {}, False),
    ("TRANSPOSE", [of("bool", 2, 3), listed(1, 0)], of("bool", 3, 2), {}, False),
    ("TRANSPOSE", [TensorRow("c", "bool", (1, 2), np.ones((1, 2), bool)), listed(1, 0)],
     of("bool", 2, 1), {}, True),
    ("TRANSPOSE", [X, of("int32", 2)], Y, {}, False),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BOUNDARIES)))
def test_only_forms_that_are_lowered_wrongly_or_not_are_decomposed(number: int) -> None:
    operator, operands, result, options, is_decomposed = BOUNDARIES[number]
    results = [result]
    if operator == "TOPK_V2":
        results.append(replace(result, name="i", dtype="int32"))
    read = read_alone(operator, operands, results, **options)
    _, decomposed = without_decomposed(read)
    row = f"{operator} {[one.dtype for one in operands]} {options}"
    found = DECOMPOSITIONS[operator].find(read, read.operators[0])
    assert is_found(found) is is_decomposed, row
    assert (decomposed is not None) is is_decomposed, row


@pytest.mark.parametrize("parts", [(), ("time_major",), ("merged",), ("time_major", "merged")])
@pytest.mark.parametrize(
    "make",
    [
        both_lstms,
        lambda parts: rnn("BIDIRECTIONAL_SEQUENCE_RNN", parts),
        lambda parts: rnn("UNIDIRECTIONAL_SEQUENCE_RNN", parts),
        lambda parts: lstm("UNIDIRECTIONAL_SEQUENCE_LSTM", "float32", parts),
    ],
)
def test_options_of_sequences_are_read(
    make: Callable[[Sequence[str]], Program], parts: Sequence[str]
) -> None:
    program = make(parts)
    is_both = program.operator.startswith("BIDIRECTIONAL")
    clips = {"cell_clip": 0.5, "proj_clip": 0.25} if "LSTM" in program.operator else {}
    read = read_tflite(with_option(program, activation=2, **clips).data())
    find = DECOMPOSITIONS[program.operator].find
    facts: Any = find(read, read.operators[0])
    assert facts.activation == 2
    assert facts.time_major is ("time_major" in parts)
    assert facts.is_merged is (is_both and "merged" in parts)
    assert len(facts.directions) == 1 + is_both
    assert not clips or (facts.cell_clip, facts.proj_clip) == (0.5, 0.25)
    if program.operator == "BIDIRECTIONAL_SEQUENCE_LSTM":  # The schema's default.
        row = program.rows[0]
        options = {name: one for name, one in row.options.items() if name != "time_major"}
        program.rows[0] = replace(row, options=options)
        read = read_tflite(program.data())
        facts = find(read, read.operators[0])
        assert facts.time_major is True


@pytest.mark.parametrize(
    ("dtype", "scale", "zero", "code", "bounds"),
    [
        ("int8", 0.5, 3, 1, (3, 127)),
        ("int8", 0.5, 3, 2, (1, 5)),
        ("int8", 0.5, 3, 3, (3, 15)),
        ("int8", 0.4, 3, 2, (0, 6)),
        ("int8", 0.001, 3, 3, (3, 127)),
        ("int8", 0.001, 100, 2, (-128, 127)),
        ("uint8", 0.5, 130, 3, (2, 14)),
        ("uint8", 0.5, 130, 1, (2, 127)),
        ("uint8", 0.001, 1, 2, (-128, 127)),
        ("int16", 0.001, 0, 3, (0, 6000)),
        ("int16", 0.0001, 0, 2, (-10000, 10000)),
    ],
)
@pytest.mark.parametrize(
    "operator",
    [
        *("ADD", "SUB", "MUL", "FULLY_CONNECTED", "CONV_2D", "TRANSPOSE_CONV"),
        *("DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D"),
    ],
)
def test_activations_of_operators_have_bounds(
    operator: str, dtype: str, scale: float, zero: int, code: int, bounds: tuple[int, int]
) -> None:
    row = of(dtype, 2, 3, scale=scale, zero=zero)
    read = read_alone(operator, [row, row], [replace(row, name="y")], activation=code)
    rows = [one for one in CORRECTIONS[operator] if one.operator in ACTIVATED]
    facts: Any = rows[0].find(read, read.operators[0])
    found = facts.bounds if operator.endswith("POOL_2D") else facts
    assert (found.low, found.high) == bounds


ACTIVATED: Final = ("the activation of the operator", "the pooling operator")


@pytest.mark.parametrize("code", [1, 2, 3])
def test_pools_of_floats_have_their_activation(code: int) -> None:
    read = read_alone("MAX_POOL_2D", [X], [Y], activation=code)
    facts: Any = CORRECTIONS["MAX_POOL_2D"][0].find(read, read.operators[0])
    largest = float(np.finfo(np.float32).max)
    bounds = {1: (0.0, largest), 2: (-1.0, 1.0), 3: (0.0, 6.0)}[code]
    assert (facts.bounds.low, facts.bounds.high) == bounds


def test_operators_that_are_lowered_here_are_told_apart_by_name() -> None:
    assert " ".join(sorted(CORRECTIONS)) == (
        "ABS ADD ATAN2 AVERAGE_POOL_2D BITWISE_XOR CAST CONV_2D DEPTHWISE_CONV_2D EXP "
        "FULLY_CONNECTED GELU LEAKY_RELU LOG LOGISTIC LOG_SOFTMAX MAX_POOL_2D MUL NEG QUANTIZE RELU "
        "RELU6 RELU_0_TO_1 RELU_N1_TO_1 RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR ROUND SCATTER_ND "
        "SIGN SOFTMAX SUB SUM TANH TRANSPOSE_CONV"
    )
    assert " ".join(sorted(DECOMPOSITIONS)) == (
        "ABS ADD ARG_MAX ARG_MIN ASSIGN_VARIABLE BATCH_MATMUL BIDIRECTIONAL_SEQUENCE_LSTM "
        "BIDIRECTIONAL_SEQUENCE_RNN BITWISE_XOR BROADCAST_ARGS CALL_ONCE CONV_3D_TRANSPOSE CUMSUM DIV "
        "DYNAMIC_UPDATE_SLICE ELU EMBEDDING_LOOKUP EQUAL FAKE_QUANT FILL FLOOR_DIV FLOOR_MOD GREATER "
        "GREATER_EQUAL L2_NORMALIZATION L2_POOL_2D LESS LESS_EQUAL LOCAL_RESPONSE_NORMALIZATION "
        "LOG_SOFTMAX LSTM MATRIX_DIAG MATRIX_SET_DIAG MEAN MUL NOT_EQUAL ONE_HOT PAD POW "
        "READ_VARIABLE REDUCE_PROD REVERSE_SEQUENCE RIGHT_SHIFT RNN SELECT SLICE SOFTMAX "
        "SPARSE_TO_DENSE SPLIT_V STRIDED_SLICE SUB SUM SVDF TOPK_V2 TRANSPOSE "
        "UNIDIRECTIONAL_SEQUENCE_LSTM UNIDIRECTIONAL_SEQUENCE_RNN UNPACK UNSORTED_SEGMENT_MAX "
        "UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM VAR_HANDLE"
    )


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [
        *(("float32", "fp32"), ("float16", "fp16"), ("bool", "bool"), ("uint8", "int8")),
        *(("uint16", "int16"), ("int8", "int8"), ("int16", "int16"), ("int32", "int32")),
    ],
)
def test_variables_keep_the_bits_of_their_type(dtype: str, kept: str) -> None:
    rows = [TensorRow("h", "resource", ()), of(dtype, 2)]
    handle = OperatorRow("VAR_HANDLE", (), (0,), {"shared_name": "v"})
    read = read_tflite(model(rows, [handle, OperatorRow("READ_VARIABLE", (0,), (1,))], [], [1]))
    facts: Any = DECOMPOSITIONS["READ_VARIABLE"].find(read, read.operators[1])
    assert (facts.name, facts.dtype, facts.shape, facts.initial) == (
        "v",
        dtype_of(kept),
        (2,),
        None,
    )


@pytest.mark.parametrize("dtype", ["float32", "int32", "int16", "int8", "uint8"])
def test_elements_of_these_types_are_moved(dtype: str) -> None:
    row, values = of(dtype, 2, 3), [of("int32", 2)]
    for operator, operands in (
        ("DYNAMIC_UPDATE_SLICE", [row, row, *values]),
        ("EMBEDDING_LOOKUP", [*values, row]),
        ("TOPK_V2", [row, ONE]),
    ):
        results = [replace(row, name="y"), of("int32", 2, 3, name="i")]
        read = read_alone(operator, operands, results[: 1 + (operator == "TOPK_V2")])
        found = is_found(DECOMPOSITIONS[operator].find(read, read.operators[0]))
        assert found is not (operator == "TOPK_V2" and dtype == "uint8")
