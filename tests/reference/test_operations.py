"""Results of single operators that the specification gives by formula."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tosa_convert import reference
from tosa_convert.builder import Builder, dtype_of
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph import OPERATORS, Graph
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.opset import OperatorSpec
from tosa_convert.reference.call import Call, Type, store
from tosa_convert.reference.elementwise import error_function
from tosa_convert.reference.evaluate import OPERATIONS, Machine
from tosa_convert.rules.types import rows

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
    assert computed(unsigned, i16(0).reshape(())).tolist() == -64
    found = computed(rescaled(1 << 14, 2, scale32=False), i32((1 << 19) - 1, -(1 << 19)))
    assert found.tolist() == [(1 << 31) - (1 << 12), -(1 << 31)]


LEAST64 = np.iinfo(np.int64).min
MOST64 = np.iinfo(np.int64).max


def test_sums_of_large_integer_products_are_exact() -> None:
    count = 5000
    left = np.full((1, 1, count), 127, np.int8)
    right = np.full((1, count, 1), -128, np.int8)
    found = computed(lambda b, x, y: b.matmul(x, y), left, right)
    assert found.tolist() == [[[127 * -128 * count]]]


@pytest.mark.parametrize("element", [np.float32, np.int8, np.int16])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 3, 4), (1, 4, 5)),
        ((2, 1, 3, 4), (5, 4, 5)),
        ((1, 2, 1, 2, 40, 3), (2, 3, 1, 3, 70)),
    ],
)
def test_batches_of_any_rank_are_broadcast(
    element: Any, one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    draw = np.random.default_rng(1)
    left, right = (draw.integers(-128, 128, shape).astype(element) for shape in (one, other))
    expected = np.matmul(left.astype(np.int64), right.astype(np.int64))
    turned = np.ascontiguousarray(right.swapaxes(-1, -2))
    for precision in ("own", "wide"):
        found = computed(lambda b, x, y: b.matmul(x, y), left, right, precision=precision)
        np.testing.assert_array_equal(found, expected)
        found = computed(lambda b, x, y: b.matmul_t(x, y), left, turned, precision=precision)
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(reference.matmul(left, right), expected)
    np.testing.assert_array_equal(reference.matmul_t(left, turned), expected)


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


def test_sums_of_int64_at_the_limits_are_exact() -> None:
    found = computed(lambda b, x, y: b.add(x, y), i64(MOST64, LEAST64), i64(-1, 1))
    assert found.tolist() == [MOST64 - 1, LEAST64 + 1]
    found = computed(lambda b, x, y: b.sub(x, y), i64(MOST64, -1), i64(0, MOST64))
    assert found.tolist() == [MOST64, LEAST64]
    assert computed(lambda b, x: b.reduce_sum(x, axis=0), i64(MOST64 - 1, 1)).tolist() == [MOST64]


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


@pytest.mark.parametrize("spec", [row for row in OPERATORS if row.elementwise], ids=str)
def test_a_tensor_of_rank_0_gives_one_of_rank_0(spec: OperatorSpec) -> None:
    for row in rows(spec):
        elements = [e for e in (*row.operands, *row.results) if isinstance(e, DType)]
        if len(elements) < len(row.operands) + 1:
            continue  # block-scaled tensors have a dimension
        arrays = [np.ones((), e.numpy) for e in elements[: spec.elementwise]]
        for part, e in list(zip(spec.operands, elements, strict=False))[spec.elementwise :]:
            arrays.append(np.zeros(513 if part.name == "table" else 1, e.numpy))
        if spec.name == "TABLE" and elements[0].bits == 8:
            arrays[1] = arrays[1][:256]
        types = tuple(Type(e, a.shape) for e, a in zip(elements, arrays, strict=False))
        attributes = {part.name: part.default for part in spec.attributes}
        attributes |= {"min_val": 0, "max_val": 2} if spec.name == "CLAMP" else {}
        result = Type(elements[-1], ())
        call = Call(spec, tuple(arrays), types, attributes, (result,))
        assert store(OPERATIONS[spec.name](call), result, "own").shape == ()
