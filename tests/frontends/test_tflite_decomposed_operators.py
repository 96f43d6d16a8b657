"""Operators of TFLite, one program each, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from frontends.lowered_tflite import NEEDS_TFLITE, run_program
from frontends.tflite_operators.programs import Program, Value
from frontends.tflite_operators.values import PLAIN, Array, Quantized, Result
from frontends.tflite_operators.write import write

import tosa_convert as tc

pytestmark = NEEDS_TFLITE


def result_of(
    folder: Path,
    operator: str,
    given: list[Array | tuple[str, tuple[int, ...]]],
    row: Result,
    **more: Any,
) -> tuple[Array, list[Array]]:
    """Return the result of an operator, and its inputs; an array is a constant, a pair an input."""
    program = Program(operator, "test")
    values: list[Value | None] = []
    for one in given:
        if isinstance(one, tuple):
            values.append(program.input(*one, between=more.pop("between", None)))
        else:
            values.append(program.constant(one, one.dtype.name))
    found = run_program(folder, program, [one for one in values if one], row, **more)
    return found, list(program.arrays.values())


def integers(*numbers: Any) -> Array:
    return np.array(numbers, np.int32)


COMPARISONS: Final[dict[str, Callable[..., Any]]] = {
    "EQUAL": np.equal,
    "NOT_EQUAL": np.not_equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("operator", COMPARISONS)
def test_numbers_of_two_scales_are_compared(tmp_path: Path, operator: str, dtype: str) -> None:
    """1/4 and 1/8 are exact, so that equal numbers are equal."""
    scales = Quantized((0.25,), 3), Quantized((0.125,), 7)
    program = Program(operator, dtype)
    x, y = (program.input(dtype, (40, 40), quantized=row) for row in scales)
    found = run_program(tmp_path, program, [x, y], ("bool", (40, 40)))
    first, second = (
        (array.astype(int) - row.zero) * row.scales[0]
        for array, row in zip(program.arrays.values(), scales, strict=True)
    )
    assert (first == second).any()
    np.testing.assert_array_equal(found, COMPARISONS[operator](first, second))


def test_what_tflite_rounds_to_the_same_number_is_equal(tmp_path: Path) -> None:
    """It compares 256 * scale * number, as an integer."""
    program = Program("EQUAL", "int8")
    near = Quantized((0.001,), 0)
    x, y = (program.input("int8", (60, 60), quantized=near) for _ in range(2))
    found = run_program(tmp_path, program, [x, y], ("bool", (60, 60)))
    first, second = (np.round(array * 0.256) for array in program.arrays.values())
    np.testing.assert_array_equal(found, first == second)
    assert (found != np.equal(*program.arrays.values())).any()


ARITHMETIC: Final[dict[str, Callable[..., Any]]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "DIV": lambda a, b: np.trunc(a / b).astype(np.int32),
}


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "low", "high"), [(1, 0, None), (2, -1, 1), (3, 0, 6)])
@pytest.mark.parametrize("operator", ["ADD", "SUB", "MUL", "DIV"])
def test_integers_have_an_activation(
    tmp_path: Path, operator: str, activation: int, low: int, high: int | None
) -> None:
    divisors = integers(*range(1, 10))
    rows: Any = [("int32", (4, 9)), divisors]
    found, (x,) = result_of(
        tmp_path, operator, rows, ("int32", (4, 9)), activation=activation, between=(-9, 9)
    )
    expected = ARITHMETIC[operator](x, divisors)
    np.testing.assert_array_equal(found, np.clip(expected, low, high))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_bits_are_shifted_and_combined(tmp_path: Path, dtype: str) -> None:
    program = Program("RIGHT_SHIFT", dtype)
    x = program.input(dtype, (50,), quantized=PLAIN)
    y = program.input(dtype, (50,), quantized=PLAIN, between=(0, 40))
    found = run_program(tmp_path, program, [x, y], (dtype, (50,), PLAIN)).view(dtype)
    first, second = (array.astype(np.int64) for array in program.arrays.values())
    expected = first >> np.minimum(second, 8 * np.dtype(dtype).itemsize - 1)
    np.testing.assert_array_equal(found, expected.astype(dtype))
    program = Program("BITWISE_XOR", dtype)
    x, y = (program.input(dtype, (50,), quantized=PLAIN) for _ in range(2))
    found = run_program(tmp_path, program, [x, y], (dtype, (50,), PLAIN)).view(dtype)
    np.testing.assert_array_equal(found, np.bitwise_xor(*program.arrays.values()))


def test_a_quotient_is_rounded_down(tmp_path: Path) -> None:
    given: Any = [("int32", (6, 1)), integers([-7, -2, -1, 1, 3, 5])]
    found, (x,) = result_of(tmp_path, "FLOOR_DIV", given, ("int32", (6, 6)))
    np.testing.assert_array_equal(found, x // given[1])


def test_functions_of_quantised_numbers(tmp_path: Path) -> None:
    row = Quantized((0.02,), 5)
    program = Program("ELU", "int8")
    x = program.input("int8", (300,), quantized=row)
    found = run_program(tmp_path, program, [x], ("int8", (300,), row))
    number = (program.arrays["x0"].astype(int) - 5) * 0.02
    expected = np.where(number < 0, np.expm1(number), number) / 0.02 + 5
    assert np.abs(found - np.clip(expected, -128, 127)).max() <= 0.5 + 1e-4
    program = Program("ABS", "int16")
    x = program.input("int16", (300,), quantized=Quantized((0.02,)))
    found = run_program(tmp_path, program, [x], ("int16", (300,), Quantized((0.03,))))
    expected = np.abs(program.arrays["x0"].astype(int)) * (2 / 3)
    assert np.abs(found - expected).max() <= 0.5 + 1e-4


def test_numbers_of_4_bits(tmp_path: Path) -> None:
    options = {"min": -1.0, "max": 2.0, "num_bits": 4, "narrow_range": False}
    found, (x,) = result_of(
        tmp_path, "FAKE_QUANT", [("float32", (90,))], ("float32", (90,)), **options
    )
    expected = np.floor((np.clip(x, -1, 2) + 1) / 0.2 + 0.5) * 0.2 - 1
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert 8 < len(set(found.tolist())) <= 16


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_slices_go_backwards(tmp_path: Path, dtype: str) -> None:
    bounds = [integers(*row) for row in ((3, 0, 4), (0, 3, 0), (-1, 2, -2))]
    found, (x,) = result_of(
        tmp_path, "STRIDED_SLICE", [(dtype, (4, 3, 5)), *bounds], (dtype, (3, 2, 3)), end_mask=4
    )
    np.testing.assert_array_equal(found, x[3:0:-1, 0:3:2, 4::-2])


def test_slices_have_new_axes(tmp_path: Path) -> None:
    bounds = [integers(*row) for row in ((0, 1, 0), (0, 2, 5), (1, 1, 3))]
    masks = {"new_axis_mask": 1, "shrink_axis_mask": 2}
    found, (x,) = result_of(
        tmp_path, "STRIDED_SLICE", [("int32", (4, 5)), *bounds], ("int32", (1, 2)), **masks
    )
    np.testing.assert_array_equal(found, x[None, 1, 0:5:3])


@pytest.mark.parametrize("start", [(1, 2), (-3, 9)])
def test_a_slice_is_updated_within_the_tensor(tmp_path: Path, start: tuple[int, int]) -> None:
    given: Any = [("int8", (5, 4)), ("int8", (2, 3)), integers(*start)]
    found, (x, update) = result_of(tmp_path, "DYNAMIC_UPDATE_SLICE", given, ("int8", (5, 4)))
    row, column = np.clip(start, 0, (3, 1))
    x[row : row + 2, column : column + 3] = update
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_sequences_are_reversed(tmp_path: Path, dtype: str) -> None:
    given: Any = [(dtype, (4, 2, 3)), integers(4, 1, 2)]
    options = {"seq_dim": 0, "batch_dim": 2}
    found, (x,) = result_of(tmp_path, "REVERSE_SEQUENCE", given, (dtype, (4, 2, 3)), **options)
    expected = x.copy()
    for column, count in enumerate((4, 1, 2)):
        expected[:count, :, column] = x[:count, :, column][::-1]
    np.testing.assert_array_equal(found.view(dtype), expected)


@pytest.mark.slow
def test_elements_are_chosen_and_repeated(tmp_path: Path) -> None:
    given: Any = [("bool", (3,)), ("float32", (3, 3)), ("float32", (3, 3))]
    found, (rows, x, y) = result_of(tmp_path, "SELECT", given, ("float32", (3, 3)))
    np.testing.assert_array_equal(found, np.where(rows[:, None], x, y))
    found, (value,) = result_of(
        tmp_path, "FILL", [integers(2, 3), ("int32", ())], ("int32", (2, 3))
    )
    np.testing.assert_array_equal(found, np.full((2, 3), value))
    on, off = (np.array(number, np.int8) for number in (7, -3))
    given = [("int32", (2, 3)), integers(4)[0], on, off]
    found, (x,) = result_of(
        tmp_path, "ONE_HOT", given, ("int8", (2, 4, 3), PLAIN), axis=1, between=(-1, 5)
    )
    expected = np.where(x[:, None] == np.arange(4).reshape(1, 4, 1), 7, -3)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_rows_of_tables(tmp_path: Path) -> None:
    table = np.arange(18, dtype=np.float32).reshape(6, 3)
    given: Any = [("int32", (4,)), table]
    found, (x,) = result_of(
        tmp_path, "EMBEDDING_LOOKUP", given, ("float32", (4, 3)), between=(0, 5)
    )
    np.testing.assert_array_equal(found, table[x])
    given = [("float32", (3, 2, 5)), integers(4, 0)]
    found, (y,) = result_of(tmp_path, "GATHER", given, ("float32", (3, 2, 2)), axis=-1)
    np.testing.assert_array_equal(found, y[..., [4, 0]])
    given = [integers([0, 1], [3, 2]), integers(4, 5), ("float32", (2,)), np.float32(9)]
    given[3] = np.array(9, np.float32)
    found, (z,) = result_of(tmp_path, "SPARSE_TO_DENSE", given, ("float32", (4, 5)))
    expected = np.full((4, 5), 9, np.float32)
    expected[[0, 3], [1, 2]] = z
    np.testing.assert_array_equal(found, expected)


def test_diagonals(tmp_path: Path) -> None:
    found, (x,) = result_of(tmp_path, "MATRIX_DIAG", [("int32", (2, 3))], ("int32", (2, 3, 3)))
    np.testing.assert_array_equal(found, x[:, None] * np.eye(3, dtype=int))
    given: Any = [("float32", (2, 3, 3)), ("float32", (2, 3))]
    found, (y, diagonal) = result_of(tmp_path, "MATRIX_SET_DIAG", given, ("float32", (2, 3, 3)))
    np.testing.assert_array_equal(found, np.where(np.eye(3, dtype=bool), diagonal[:, None], y))


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["SLICE", "PAD", "UNPACK"])
def test_unsigned_numbers_that_stay_as_they_are(tmp_path: Path, operator: str) -> None:
    more: Any = [integers(0, 0), integers(2, 3)] if operator == "SLICE" else []
    more = [np.zeros((2, 2), np.int32)] if operator == "PAD" else more
    shape, options = ((3,), {"num": 1, "axis": 0}) if operator == "UNPACK" else ((2, 3), {})
    given: Any = [("uint8", (1, 3) if operator == "UNPACK" else (2, 3)), *more]
    found, (x,) = result_of(tmp_path, operator, given, ("uint8", shape), **options)
    np.testing.assert_array_equal(found.view(np.uint8), x.reshape(shape))


@pytest.mark.slow
def test_places_and_products_of_integers(tmp_path: Path) -> None:
    for operator, compute in (("ARG_MAX", np.argmax), ("ARG_MIN", np.argmin)):
        given: Any = [("int32", (4, 5, 6)), integers(1)[0]]
        found, (x,) = result_of(
            tmp_path, operator, given, ("int32", (4, 6)), output_type=2, between=(0, 3)
        )
        np.testing.assert_array_equal(found, compute(x, 1))
    given = [("int32", (3, 5, 7)), integers(-1, 0)]
    found, (x,) = result_of(tmp_path, "REDUCE_PROD", given, ("int32", (5,)), between=(-9, 9))
    np.testing.assert_array_equal(found, np.prod(x, (0, 2), dtype=np.int32))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left", "right"), [((2, 3, 4), (1, 4, 5)), ((1, 2, 3, 4), (3, 1, 4, 5)), ((3, 4), (2, 4, 5))]
)
def test_matrices_of_smaller_batches_are_repeated(
    tmp_path: Path, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    shape = np.matmul(np.empty(left), np.empty(right)).shape
    given: Any = [("float32", left), ("float32", right)]
    found, (x, y) = result_of(tmp_path, "BATCH_MATMUL", given, ("float32", shape))
    np.testing.assert_allclose(found, np.matmul(x, y), rtol=1e-5, atol=1e-5)
    turned: Any = [("float32", left), ("float32", (*right[:-2], right[-1], right[-2]))]
    found, (x, y) = result_of(tmp_path, "BATCH_MATMUL", turned, ("float32", shape), adj_y=True)
    np.testing.assert_allclose(found, np.matmul(x, y.swapaxes(-1, -2)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("dtype", "scale"), [("int8", 0.1), ("int16", 0.0004)])
def test_products_of_integers_are_rescaled(tmp_path: Path, dtype: str, scale: float) -> None:
    program = Program("BATCH_MATMUL", dtype)
    x, y = program.input(dtype, (2, 2, 3, 4)), program.input(dtype, (1, 2, 4, 5))
    row = (dtype, (2, 2, 3, 5), Quantized((scale,), 3 if dtype == "int8" else 0))
    found = run_program(tmp_path, program, [x, y], row)
    assert x.quantized is not None
    own = x.quantized
    first, second = (array.astype(float) - own.zero for array in program.arrays.values())
    exact = np.matmul(first, second) * own.scales[0] ** 2 / scale + (3 if dtype == "int8" else 0)
    info = np.iinfo(dtype)
    assert np.abs(found - np.clip(exact, info.min, info.max)).max() <= (1 if dtype == "int8" else 2)
    assert (found > info.min).any()


@pytest.mark.parametrize("padding", [0, 1])
def test_roots_of_mean_squares(tmp_path: Path, padding: int) -> None:
    size = (4, 5) if padding == 0 else (3, 3)
    options = {"padding": padding, "stride_h": 2, "stride_w": 2}
    options |= {"filter_height": 3, "filter_width": 4}
    row = ("float32", (1, *size, 2))
    found, (x,) = result_of(tmp_path, "L2_POOL_2D", [("float32", (1, 7, 9, 2))], row, **options)
    before = (1, 1) if padding == 0 else (0, 0)
    expected = np.empty_like(found)
    for i, j in np.ndindex(*size):
        top, left = 2 * i - before[0], 2 * j - before[1]
        part = x[0, max(0, top) : top + 3, max(0, left) : left + 4]
        expected[0, i, j] = np.sqrt((part**2).mean((0, 1)))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_rows_of_integers_are_normalised(tmp_path: Path, dtype: str) -> None:
    """Within a step; test_tflite_operators.py compares them with TFLite bit for bit."""
    program = Program("L2_NORMALIZATION", dtype)
    x = program.input(dtype, (200, 6))
    zero = 128 if dtype == "uint8" else 0
    assert x.quantized is not None
    own = x.quantized.zero
    array = program.arrays["x0"]
    array[:3] = own
    array[1, 2], array[2, 3:5] = own + 1, own - 1
    found = run_program(tmp_path, program, [x], (dtype, (200, 6), Quantized((1 / 128,), zero)))
    numbers = array.astype(float) - own
    roots = np.sqrt((numbers**2).sum(-1, keepdims=True))
    expected = np.minimum(numbers * 128 / np.where(roots == 0, 1, roots), 127) + zero
    assert np.abs(found.view(dtype) - expected).max() <= 1


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_logarithms_of_shares_are_rounded(tmp_path: Path, dtype: str) -> None:
    program = Program("LOG_SOFTMAX", dtype)
    x = program.input(dtype, (200, 6))
    assert x.quantized is not None
    zero = 255 if dtype == "uint8" else 127
    row = (dtype, (200, 6), Quantized((16 / 256,), zero))
    found = run_program(tmp_path, program, [x], row).view(dtype)
    numbers = program.arrays["x0"].astype(float) * x.quantized.scales[0]
    exact = (numbers - np.log(np.exp(numbers).sum(-1, keepdims=True))) * 16 + zero
    assert np.abs(found - np.maximum(exact, zero - 255)).max() <= 0.5 + 1e-3


def test_normalisations(tmp_path: Path) -> None:
    row = ("float32", (1, 2, 3, 8))
    options = {"radius": 2, "bias": 1.5, "alpha": 0.5, "beta": 0.75}
    found, (x,) = result_of(tmp_path, "LOCAL_RESPONSE_NORMALIZATION", [row], row, **options)
    sums = [(x[..., max(0, at - 2) : at + 3] ** 2).sum(-1) for at in range(8)]
    np.testing.assert_allclose(found, x / (1.5 + 0.5 * np.stack(sums, -1)) ** 0.75, rtol=1e-4)
    found, (x,) = result_of(tmp_path, "SOFTMAX", [row], row, beta=0.5)
    powers = np.exp(0.5 * x)
    np.testing.assert_allclose(found, powers / powers.sum(-1, keepdims=True), rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "operator", ["STRIDED_SLICE", "BATCH_MATMUL", "REVERSE_SEQUENCE", "EQUAL", "SELECT"]
)
def test_an_operator_with_other_operands_is_named(tmp_path: Path, operator: str) -> None:
    program = Program(operator, "damaged")
    x = program.input("int8", (2, 3))
    program.returns(program.apply(operator, [x], ("int8", (2, 3))))
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_tflite(write(program, tmp_path))
    assert caught.value.code == "unrecognised-input"
    assert operator in str(caught.value)


def test_an_operator_with_operands_of_too_many_axes_is_named(tmp_path: Path) -> None:
    program = Program("BATCH_MATMUL", "damaged")
    x, y = program.input("float32", (2, 1, 3, 4, 5)), program.input("float32", (1, 4, 4))
    program.returns(program.apply("BATCH_MATMUL", [x, y], ("float32", (3, 4, 4))))
    with pytest.raises(tc.TosaConvertError, match=r"BATCH_MATMUL ") as caught:
        tc.frontends.from_tflite(write(program, tmp_path))
    assert caught.value.code == "not-lowered"
