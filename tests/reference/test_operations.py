"""Results of single operators that the specification gives by formula."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from unit.building import counting

from tosa_convert.builder import Builder, dtype_of
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph import Graph
from tosa_convert.reference.elementwise import error_function
from tosa_convert.reference.evaluate import Machine

NAMES = {
    "bool": "BOOL",
    "float8_e4m3fn": "FP8E4M3",
    "bfloat16": "BF16",
    **{f"int{bits}": f"INT{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"FP{bits}" for bits in (16, 32)},
}


def computed(make: Callable[..., Any], *arrays: Any, precision: Any = "own") -> Any:
    """Return the result of a program that `make` builds of the inputs."""
    given = [np.asarray(array) for array in arrays]
    b = Builder("main")
    values = [
        b.input(f"x{index}", dtype_of(NAMES[array.dtype.name]), array.shape)
        for index, array in enumerate(given)
    ]
    b.output(make(b, *values), name="y")
    inputs = {f"x{index}": array for index, array in enumerate(given)}
    return Machine(b.graph(), precision).run(inputs)["y"]


def i8(*values: int) -> Any:
    return np.array(values, np.int8)


def i16(*values: int) -> Any:
    return np.array(values, np.int16)


def i64(*values: int) -> Any:
    return np.array(values, np.int64)


def i32(*values: int) -> Any:
    return np.array(values, np.int32)


def f32(*values: float) -> Any:
    return np.array(values, np.float32)


def rescaled(multiplier: int, shift: int, *, scale32: bool = True) -> Callable[..., Any]:
    """Return a function that adds a RESCALE to INT32."""

    def make(b: Builder, x: Any) -> Any:
        return b.rescale(
            x,
            b.const([multiplier], "INT32" if scale32 else "INT16"),
            b.const([shift], "INT8"),
            scale32=scale32,
            rounding_mode="SINGLE_ROUND",
            per_channel=False,
            input_unsigned=False,
            output_unsigned=False,
            dtype="INT32",
        )

    return make


def pointed(kind: str, shift: int, point: int, *, is_unsigned: bool = False) -> Callable[..., Any]:
    """Return a function that adds a RESCALE with a zero point, which only a run can judge."""

    def make(b: Builder, x: Any) -> Any:
        zero = np.array([point]).astype(f"u{x.dtype.numpy.itemsize}").view(x.dtype.numpy)
        # Of something that is no constant.
        zero_point = b.reverse(b.const(zero), axis=0)
        return b.rescale(
            x,
            b.const([1 << 8], "INT32"),
            b.const([shift], "INT8"),
            zero_point,
            scale32=True,
            rounding_mode="SINGLE_ROUND",
            per_channel=False,
            input_unsigned=is_unsigned,
            output_unsigned=False,
            dtype="INT8" if is_unsigned else "INT32",
        )

    return make


def test_a_value_with_as_many_bits_as_the_shift_is_rescaled() -> None:
    found = computed(rescaled(1 << 30, 30), i32(1 << 28, -(1 << 29)))
    assert found.tolist() == [1 << 28, -(1 << 29)]
    assert computed(pointed("INT8", 9, 127), i8(-128, 127)).tolist() == [-127, 0]
    assert computed(pointed("INT8", 9, -128), i8(-128, 127)).tolist() == [0, 128]
    unsigned = pointed("INT16", 17, 1 << 15, is_unsigned=True)
    assert computed(unsigned, i16(0, -1)).tolist() == [-64, 64]
    found = computed(rescaled(1 << 14, 2, scale32=False), i32((1 << 19) - 1, -(1 << 19)))
    assert found.tolist() == [(1 << 31) - (1 << 12), -(1 << 31)]


def test_a_shift_that_rescale_does_not_have_is_refused() -> None:
    def make(b: Builder, x: Any, shift: Any) -> Any:
        return b.rescale(
            x,
            b.const([1], "INT32"),
            shift,
            scale32=True,
            rounding_mode="SINGLE_ROUND",
            per_channel=False,
            input_unsigned=False,
            output_unsigned=False,
            dtype="INT32",
        )

    for shift in (1, 63):
        with pytest.raises(TosaConvertError, match="a shift that is not from 2 to 62"):
            computed(make, i32(0), i8(shift))


def test_a_transform_of_nan_is_nan() -> None:
    image = np.array([[[0.5, 1, 2, 3], [4, math.nan, 6, 7]]], np.float32)
    zeros = np.zeros_like(image)
    for index in (0, 1):
        found = computed(
            lambda b, x, y, i=index: b.fft2d(x, y, inverse=False, local_bound=False)[i],
            image,
            zeros,
        )
        assert np.isnan(found).all()


LEAST = np.iinfo(np.int32).min
MOST = np.iinfo(np.int32).max
LEAST64 = np.iinfo(np.int64).min
MOST64 = np.iinfo(np.int64).max


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (lambda: computed(lambda b, x: b.abs(x), i32(-MOST, -3, 4)), [MOST, 3, 4]),
        (lambda: computed(lambda b, x, y: b.add(x, y), i32(MOST, 1), i32(0, 2)), [MOST, 3]),
        (lambda: computed(lambda b, x: b.negate(x), i8(-128, 5)), [127, -5]),
        (
            lambda: computed(lambda b, x, y: b.intdiv(x, y), i32(7, -7, 7, -7), i32(2, 2, -2, -2)),
            [3, -3, -3, 3],
        ),
        (
            lambda: computed(lambda b, x, y: b.mul(x, y, shift=1), i32(3, -3, 1), i32(1, 1, 1)),
            [2, -1, 1],
        ),
        (
            lambda: computed(
                lambda b, x, y: b.arithmetic_right_shift(x, y, round=True),
                i8(3, -3, 5, -5),
                i8(1, 1, 0, 2),
            ),
            [2, -1, 5, -1],
        ),
        (
            lambda: computed(lambda b, x, y: b.logical_right_shift(x, y), i8(-1, -128), i8(1, 7)),
            [127, 1],
        ),
        (lambda: computed(lambda b, x: b.clz(x), i32(0, 1, -1, MOST)), [32, 31, 0, 1]),
        (
            lambda: computed(lambda b, x: b.cast(x, dtype="INT8"), f32(0.5, 1.5, -2.5, 300, -300)),
            [0, 2, -2, 127, -128],
        ),
        (
            lambda: computed(lambda b, x: b.cast(x, dtype="INT32"), f32(3e9, -3e9, math.inf)),
            [MOST, LEAST, MOST],
        ),
        (lambda: computed(lambda b, x: b.cast(x, dtype="INT8"), i32(300, -129)), [44, 127]),
        (lambda: computed(lambda b, x: b.argmax(x, axis=0, dtype="INT32"), i8(3, 7, 7)), 1),
        (
            lambda: computed(
                lambda b, x: b.table(x, b.const(np.arange(-128, 128).astype(np.int8)[::-1])),
                i8(-128, 0, 127),
            ),
            [127, -1, -128],
        ),
    ],
)
def test_integers_have_the_value_of_the_formula(
    found: Callable[[], Any], expected: list[int]
) -> None:
    assert found().tolist() == expected


def test_a_table_of_16_bits_interpolates_between_its_entries() -> None:
    table = np.zeros(513, np.int16)
    table[256:258] = 10, 20
    found = computed(lambda b, x: b.table(x, b.const(table)), i16(0, 1, 127))
    assert found.tolist() == [10 << 7, (10 << 7) + 10, (10 << 7) + 1270]


@pytest.mark.parametrize(
    ("mode", "expected"), [("SINGLE_ROUND", [1, 0, -1]), ("DOUBLE_ROUND", [1, -1, -1])]
)
def test_rescale_rounds_half_up_and_with_double_round_first_away_from_zero(
    mode: str, expected: list[int]
) -> None:
    def make(b: Any, x: Any) -> Any:
        return b.rescale(
            x,
            b.const(i32(1 << 30)),
            b.const(i8(32)),
            dtype="INT8",
            scale32=True,
            rounding_mode=mode,
            per_channel=False,
            input_unsigned=False,
            output_unsigned=False,
        )

    assert computed(make, i32(2, -2, -4)).tolist() == expected


def test_nan_goes_through_or_is_passed_over() -> None:
    x, y = f32(math.nan, 1, -0.0), f32(2, math.nan, 0)
    propagated = computed(lambda b, x, y: b.maximum(x, y), x, y)
    assert np.isnan(propagated).tolist() == [True, True, False]
    ignored = computed(lambda b, x, y: b.maximum(x, y, nan_mode="IGNORE"), x, y)
    assert ignored.tolist() == [2, 1, 0]
    assert (
        computed(lambda b, x: b.argmax(x, axis=0, dtype="INT32"), f32(1, math.nan, 3)).tolist() == 1
    )
    found = computed(
        lambda b, x: b.argmax(x, axis=0, nan_mode="IGNORE", dtype="INT32"), f32(1, math.nan, 3)
    )
    assert found.tolist() == 2


def test_results_are_rounded_to_the_element_type_only_in_their_own_precision() -> None:
    x = np.array([1 + 2**-8, 3], ml_dtypes.bfloat16)
    square = computed(lambda b, x: b.mul(x, x), x)
    assert square.dtype == ml_dtypes.bfloat16
    wide = computed(lambda b, x: b.reciprocal(x), f32(3), precision="wide")
    assert wide.dtype == np.float64
    assert wide.tolist() == [1 / 3]


def test_the_average_counts_only_what_is_inside_the_image() -> None:
    image = np.ones((1, 2, 2, 1), np.float32)
    kernel: dict[str, Any] = {"kernel": [2, 2], "stride": [1, 1], "pad": [1, 1, 1, 1]}
    found = computed(lambda b, x: b.avg_pool2d(x, acc_type="FP32", **kernel), image)
    assert found.reshape(-1).tolist() == [1.0] * 9


def test_sums_of_large_integer_products_are_exact() -> None:
    count = 5000
    left = np.full((1, 1, count), 127, np.int8)
    right = np.full((1, count, 1), -128, np.int8)
    found = computed(lambda b, x, y: b.matmul(x, y), left, right)
    assert found.tolist() == [[[127 * -128 * count]]]


def test_odd_sums_beyond_the_whole_numbers_of_fp32_are_exact() -> None:
    count = 1041
    left, right = np.full((1, 1, count), 127, np.int8), np.full((1, count, 1), 127, np.int8)
    found = computed(lambda b, x, y: b.matmul(x, y), left, right)
    assert found.tolist() == [[[127 * 127 * count]]]
    assert 127 * 127 * count > 1 << 24


def test_the_error_function_equals_that_of_the_standard_library() -> None:
    x = np.linspace(-7, 7, 4001)
    expected = np.array([math.erf(value) for value in x])
    assert np.abs(error_function(x) - expected).max() < 4e-15
    special = error_function(np.array([math.inf, -math.inf, math.nan, -0.0]))
    assert special[:2].tolist() == [1, -1]
    assert np.isnan(special[2])
    assert np.signbit(special[3])


@pytest.mark.parametrize(
    ("make", "arrays", "rule"),
    [
        (lambda b, x, y: b.intdiv(x, y), (i32(7), i32(0)), "a division by zero"),
        (lambda b, x, y: b.add(x, y), (i32(MOST), i32(1)), "does not fit INT32"),
        (lambda b, x, y: b.sub(x, y), (i32(LEAST), i32(1)), "does not fit INT32"),
        (lambda b, x: b.reduce_sum(x, axis=0), (i32(MOST, 1),), "does not fit INT32"),
        (lambda b, x, y: b.mul(x, y, shift=2), (i32(MOST), i32(MOST)), "does not fit INT32"),
        (lambda b, x: b.abs(x), (i32(LEAST),), "does not fit INT32"),
        (lambda b, x: b.abs(x), (i64(LEAST64),), "does not fit INT64"),
        (lambda b, x: b.negate(x), (i32(LEAST),), "does not fit INT32"),
        (lambda b, x: b.negate(x), (i64(LEAST64),), "does not fit INT64"),
        (lambda b, x, y: b.add(x, y), (i64(MOST64), i64(1)), "does not fit INT64"),
        (lambda b, x, y: b.sub(x, y), (i64(LEAST64), i64(1)), "does not fit INT64"),
        (lambda b, x: b.reduce_sum(x, axis=0), (i64(MOST64, 1),), "does not fit INT64"),
        (lambda b, x: b.reduce_sum(x, axis=0), (i64(MOST64, 1, -1),), "does not fit INT64"),
        (lambda b, x: b.reduce_sum(x, axis=0), (i32(MOST, 1, -1),), "does not fit INT32"),
        (rescaled(1, 30), (i32(1 << 29),), "more bits than the shift"),
        (rescaled(1, 30), (i32(-(1 << 29) - 1),), "more bits than the shift"),
        # With a zero point a value has one bit more, at either end.
        (pointed("INT8", 8, 127), (i8(-128),), "more bits than the shift"),
        (pointed("INT8", 8, -128), (i8(127),), "more bits than the shift"),
        (pointed("INT16", 8, 1 << 15, is_unsigned=True), (i16(0),), "more bits than the shift"),
        (pointed("INT16", 8, 5, is_unsigned=True), (i16(0),), "a zero point of INT16"),
        (pointed("INT16", 8, 1), (i16(0),), "a zero point of INT16"),
        (rescaled(1 << 14, 2, scale32=False), (i32(1 << 19),), "more than 32 bits"),
        (rescaled(1 << 14, 2, scale32=False), (i32(-(1 << 19) - 1),), "more than 32 bits"),
        (lambda b, x, y: b.mul(x, y, shift=1), (i32(MOST), i32(3)), "does not fit INT32"),
        (lambda b, x, y: b.pow(x, y), (f32(2), f32(math.nan)), "an infinity or NaN"),
        (lambda b, x, y: b.pow(x, y), (f32(math.inf), f32(1)), "an infinity or NaN"),
        (lambda b, x, z: b.negate(x, z), (i32(1), i32(1)), "a zero point of INT32"),
        (lambda b, x, y, z: b.mul(x, y, z), (i16(1), i16(1), i8(1)), "from 0 to 0"),
        (lambda b, x, y, z: b.mul(x, y, z), (i32(1), i32(1), i8(64)), "from 0 to 63"),
        (lambda b, x, y: b.logical_left_shift(x, y), (i32(1), i32(32)), "a shift that"),
        (lambda b, x, y: b.logical_left_shift(x, y), (i8(1), i8(8)), "from 0 to 7"),
        (lambda b, x, y: b.logical_right_shift(x, y), (i16(1), i16(16)), "from 0 to 15"),
        (lambda b, x, y: b.arithmetic_right_shift(x, y, round=False), (i32(1), i32(-1)), "shift"),
    ],
)
def test_data_without_a_defined_result_is_refused_with_the_operator(
    make: Callable[..., Any], arrays: tuple[Any, ...], rule: str
) -> None:
    with pytest.raises(TosaConvertError, match=rule) as caught:
        computed(make, *arrays)
    assert caught.value.code == "refmodel-refused"
    assert 'block "main" operator #' in caught.value.findings[0].where


@pytest.mark.parametrize(
    "kind", ["abs", "ceil", "cos", "erf", "exp", "log", "rsqrt", "sigmoid", "sin", "tanh"]
)
@pytest.mark.parametrize("precision", ["own", "wide", "bounds"])
def test_a_tensor_of_rank_0_has_the_result_of_one_element(kind: str, precision: Any) -> None:
    found = [
        computed(
            lambda b, x: getattr(b, kind)(x), np.full(shape, 0.5, np.float32), precision=precision
        )
        for shape in ((), (1,))
    ]
    assert found[0].shape == ()
    assert found[0] == found[1][0]


@pytest.mark.parametrize("nan", [0.5, math.nan])
def test_pools_of_one_element_leave_their_input_alone(nan: float) -> None:
    x = f32(1, 2, nan, 4).reshape(1, 2, 2, 1)
    x.flags.writeable = False
    window: dict[str, Any] = {"kernel": [1, 1], "stride": [1, 1], "pad": [0] * 4}
    found = computed(lambda b, v: b.avg_pool2d(v, acc_type="FP32", **window), x)
    np.testing.assert_array_equal(found, x)
    found = computed(lambda b, v: b.max_pool2d(v, nan_mode="IGNORE", **window), x)
    np.testing.assert_array_equal(found, x)


def test_sums_of_int64_at_the_limits_are_exact() -> None:
    found = computed(lambda b, x, y: b.add(x, y), i64(MOST64, LEAST64), i64(-1, 1))
    assert found.tolist() == [MOST64 - 1, LEAST64 + 1]
    found = computed(lambda b, x, y: b.sub(x, y), i64(MOST64, -1), i64(0, MOST64))
    assert found.tolist() == [MOST64, LEAST64]
    assert computed(lambda b, x: b.reduce_sum(x, axis=0), i64(MOST64 - 1, 1)).tolist() == [MOST64]


def test_a_product_that_leaves_fp32_on_the_way_is_exact() -> None:
    found = computed(lambda b, x: b.reduce_product(x, axis=0), f32(3e38, 3e38, 0, 1))
    assert found.tolist() == [0]
    found = computed(lambda b, x: b.reduce_product(x, axis=0), f32(1e-30, 1e-30, 1e30, 1e30))
    assert abs(float(found[0]) - 1) < 1e-6


def test_two_rows_for_one_index_are_refused() -> None:
    rows, indices = np.zeros((1, 3, 1), np.float32), np.array([[1, 1]], np.int32)
    with pytest.raises(TosaConvertError, match="two rows for one index"):
        computed(lambda b, x, y, z: b.scatter(x, y, z), rows, indices, rows[:, :2])


def test_an_index_outside_of_the_values_is_refused() -> None:
    values = np.zeros((1, 3, 1), np.float32)
    with pytest.raises(TosaConvertError, match="the index 3 is outside of the 3 rows"):
        computed(lambda b, x, y: b.gather(x, y), values, np.array([[0, 3]], np.int32))


def test_values_are_dropped_after_their_last_use() -> None:
    b = Builder("main")
    value = b.input("x", "FP32", (4,))
    for _ in range(5):
        value = b.exp(value)
    b.output(value, name="y")
    machine = Machine(b.graph())
    outputs: dict[str, Any] = {}
    steps = list(machine.steps({"x": f32(0, 0, 0, 0)}, outputs))
    assert [step.operator.spec.name for step in steps] == ["EXP"] * 5
    assert list(outputs) == ["y"]


@pytest.mark.parametrize("scale", [2, 16, 512])
def test_weighted_sums_of_a_resized_image_are_exact(scale: int) -> None:
    """From 4 to 2^18 times an element, which 32 bits do not hold."""
    image = i16(32767, -32768).reshape(1, 1, 2, 1)
    found = computed(
        lambda b, x: b.resize(
            x, (scale, scale, scale, 1), (0, 0), (0, 0), mode="BILINEAR", dtype="INT48"
        ),
        image,
    )
    first, second = (int(value) * scale for value in image.reshape(-1))
    expected = [first * (scale - step) + second * step for step in range(scale + 1)]
    assert found.reshape(-1).tolist() == expected


def test_a_variable_keeps_what_was_written_for_the_next_run() -> None:
    machine = Machine(counting())
    for total in (7, 9):
        (found,) = machine.run({"x": i32(2)}).values()
        assert found.tolist() == [total]
        assert machine.variables["counter"].tolist() == [total]


def test_a_custom_operator_without_a_meaning_is_refused(custom: Graph) -> None:
    with pytest.raises(TosaConvertError, match="nothing says what"):
        Machine(custom).run({"x": f32(1, 2)})


@pytest.fixture
def custom() -> Graph:
    from tosa_convert.graph import Block, Operator, Region, Tensor, Version, dtype, operator

    block = Block("main", ["x"], ["y"])
    for name in ("x", "y"):
        block.tensors[name] = Tensor(name, dtype("FP32"), (2,))
    attributes: dict[str, Any] = {"operator_name": "twice", "domain_name": "d"}
    attributes["implementation_attrs"] = b""
    block.operators.append(Operator(operator("CUSTOM"), ("x",), ("y",), attributes))
    return Graph(Version(1, 0, 0), [Region("main", [block])])


def test_a_large_bias_is_added_exactly() -> None:
    def make(b: Builder, x: Any, bias: Any) -> Any:
        weight = b.const(np.full((1, 1, 1, 1), 3, np.int8))
        return b.depthwise_conv2d(x, weight, bias)

    found = computed(make, np.full((1, 1, 1, 1), 5, np.int8), i32(944471923))
    assert found.tolist() == [[[[944471938]]]]


def test_products_of_int16_are_exact() -> None:
    left, right = np.full((1, 2, 3), 30001, np.int16), np.full((1, 3, 2), 29999, np.int16)
    found = computed(lambda b, x, y: b.matmul(x, y), left, right)
    assert (found == 3 * 30001 * 29999).all()


def test_one_matrix_is_multiplied_with_those_of_every_batch() -> None:
    left, right = (
        np.arange(12, dtype=np.float32).reshape(3, 2, 2),
        np.eye(2, dtype=np.float32)[None],
    )
    found = computed(lambda b, x, y: b.matmul_t(x, y), left, right)
    assert found.tolist() == left.tolist()


def test_one_bias_is_added_to_every_channel() -> None:
    def make(b: Builder, x: Any, bias: Any) -> Any:
        return b.depthwise_conv2d(x, b.const(np.full((1, 1, 3, 2), 2, np.int8)), bias)

    found = computed(make, np.full((1, 2, 4, 3), 5, np.int8), i32(7))
    assert (found == 17).all()


@pytest.mark.parametrize("mode", ["SINGLE_ROUND", "DOUBLE_ROUND"])
@pytest.mark.parametrize("shifts", [(40,), (31,), (2, 31, 32), (33, 40, 62)])
@pytest.mark.parametrize("is_turned", [False, True])
def test_large_rescales_are_exact(mode: str, shifts: tuple[int, ...], is_turned: bool) -> None:
    draw, count = np.random.default_rng(1), len(shifts)
    least = min(shifts) - 1
    low, high = max(-(1 << least), -(1 << 31)), min(1 << least, 1 << 31)
    value = draw.integers(low, high, (3, 5000, 3)).astype(np.int32)
    value[0, :2, 0] = low, high - 1
    value = np.asfortranarray(value) if is_turned else value
    factors = [(1 << 31) - 1 - 2 * index for index in range(count)]

    def make(b: Builder, x: Any) -> Any:
        given = b.const(factors, "INT32"), b.const(list(shifts), "INT8")
        return b.rescale(
            x, *given, 0, 7, per_channel=count > 1, rounding_mode=mode, dtype="INT8", scale32=True
        )

    found = computed(make, value)
    for channel in range(3):
        shift, factor = shifts[channel % count], factors[channel % count]
        # numpy's integers have 64 bits, and these need more.
        exact = value[..., channel].astype(object)
        more = (1 << 30) * (mode == "DOUBLE_ROUND" and shift > 31)
        product = exact * factor + (1 << (shift - 1)) + np.where(exact < 0, -more, more)
        expected = np.clip((product >> shift) + 7, -128, 127)
        np.testing.assert_array_equal(found[..., channel], expected.astype(np.int8))


@pytest.mark.parametrize(
    ("name", "kind"), [("FP8E4M3", ml_dtypes.float8_e4m3fn), ("FP8E5M2", ml_dtypes.float8_e5m2)]
)
def test_large_casts_to_one_byte_are_rounded_once(name: str, kind: Any) -> None:
    codes = np.arange(256, dtype=np.uint8).view(kind).astype(np.float32)
    numbers = np.sort(codes[np.isfinite(codes)])
    between = (numbers[1:] + numbers[:-1]) / 2
    places = np.concatenate([numbers, between]).view(np.int32)
    near = np.add.outer(places, np.arange(-256, 257, dtype=np.int32)).view(np.float32)
    every = np.arange(0, 1 << 32, 1 << 13, dtype=np.uint32).view(np.float32)
    value = np.concatenate(
        [near.reshape(-1), every, np.array([np.nan, np.inf, -np.inf], np.float32)]
    )
    with np.errstate(all="ignore"):
        expected = value.astype(kind)
    found = computed(lambda b, x: b.cast(x, dtype=name), value)
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("values", [(3e38, 3e38, 1e38, 1e38), (3e38, 3e38, -3e38, -3e38)])
def test_a_mean_does_not_overflow_with_its_sums(values: tuple[float, ...]) -> None:
    image = np.array(values, np.float32).reshape(1, 2, 2, 1)
    mean = {"kernel": (2, 2), "stride": (1, 1), "pad": (0, 0, 0, 0)}
    found = computed(lambda b, x: b.avg_pool2d(x, **mean), image)
    np.testing.assert_allclose(found.reshape(-1), [np.mean(np.array(values))], rtol=1e-7)
    image[0, 0, 0, 0] = np.inf
    assert np.isinf(computed(lambda b, x: b.avg_pool2d(x, **mean), image)).all()


def test_quotients_of_int32_are_rounded_toward_zero() -> None:
    """FP64 is nearest to the next integer where the divisor is large and divides the next number."""
    low, high = -(1 << 31), (1 << 31) - 1
    near = [k * d + e for d in (3, 46341, 65537) for k in (1, 46340, 32767) for e in (-1, 0, 1)]
    numbers = [n for n in (*near, low, low + 1, high, high - 1, 1, 2, 3) if low <= n <= high]
    numbers += [-n for n in numbers if n != low]
    pairs = [(a, d) for a in (0, *numbers) for d in numbers if (a, d) != (low, -1)]
    left, right = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    b = Builder("main")
    shape = (len(pairs),)
    quotient = b.intdiv(b.input("a", "INT32", shape), b.input("d", "INT32", shape))
    b.output(quotient, name="y")
    found = Machine(b.graph()).run({"a": left, "d": right})["y"]
    exact = [abs(a) // abs(d) * (1 if (a < 0) == (d < 0) else -1) for a, d in pairs]
    assert found.tolist() == exact


@pytest.mark.parametrize("count", [1, 2, 3, 7, 32, 45, 130])
def test_products_along_the_last_axis_are_those_along_another_one(count: int) -> None:
    data = np.random.default_rng(count).normal(size=(5, count)).astype(np.float32)
    found = []
    for array, axis in ((data, 1), (data.T[:, :, None], 0)):
        b = Builder("main")
        b.output(b.reduce_product(b.input("x", "FP32", array.shape), axis=axis), name="y")
        found.append(Machine(b.graph()).run({"x": array})["y"].reshape(-1))
    np.testing.assert_allclose(found[0], found[1], rtol=2e-7)
