"""Integers of every size, and known operands, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from frontends.lowered_arrays import BF16, F16, F32, known, names, program, results

from tosa_convert.frontends.lowering import arithmetic, folding, functions, indexing, reductions
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.scope import Scope

SIGNED = (np.int8, np.int16, np.int32, np.int64)
UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)
#: A function, the same in numpy, and the element types.
BINARY: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "add": (partial(arithmetic.computed, name="add"), np.add, SIGNED + UNSIGNED),
    "sub": (partial(arithmetic.computed, name="sub"), np.subtract, SIGNED + UNSIGNED),
    "mul": (arithmetic.mul, np.multiply, SIGNED + UNSIGNED),
    "maximum": (partial(arithmetic.extremum, name="maximum"), np.maximum, SIGNED + UNSIGNED),
    "minimum": (partial(arithmetic.extremum, name="minimum"), np.minimum, SIGNED + UNSIGNED),
    "quotient": (arithmetic.div, folding.quotient, SIGNED + UNSIGNED),
    "remainder": (arithmetic.rem, np.fmod, SIGNED + UNSIGNED),
    "floor quotient": (arithmetic.floor_quotient, np.floor_divide, SIGNED + UNSIGNED),
    "floor remainder": (arithmetic.floor_remainder, np.remainder, SIGNED + UNSIGNED),
    "greater": (partial(arithmetic.compared, name="greater"), np.greater, SIGNED + UNSIGNED),
    "equal": (arithmetic.equals, np.equal, SIGNED + UNSIGNED),
    "and": (partial(arithmetic.bitwise, word="and"), np.bitwise_and, SIGNED + UNSIGNED),
    "xor": (partial(arithmetic.bitwise, word="xor"), np.bitwise_xor, SIGNED + UNSIGNED),
}
UNARY: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "abs": (arithmetic.abs_, np.abs, SIGNED),
    "negative": (arithmetic.neg, np.negative, SIGNED + UNSIGNED),
    "sign": (arithmetic.sign, np.sign, SIGNED + UNSIGNED),
    "square": (partial(functions.integer_power, exponent=2), np.square, SIGNED + UNSIGNED),
    "sum": (
        partial(reductions.summed, axes=[0]),
        lambda x: x.sum(0, dtype=x.dtype),
        SIGNED + UNSIGNED,
    ),
    "least": (
        partial(reductions.extreme, axes=[0], word="min"),
        lambda x: x.min(0),
        SIGNED + UNSIGNED,
    ),
    "place": (
        partial(reductions.position, axes=[0], dtype=np.int64, word="max"),
        lambda x: x.argmax(0),
        SIGNED + UNSIGNED,
    ),
}


def numbers(dtype: Any, size: int = 64) -> tuple[Any, Any]:
    """Return integers of the whole range, but of half the bits of 64, and others without 0."""
    limits = np.iinfo(np.int32 if np.dtype(dtype).itemsize == 8 else dtype)
    rng = np.random.default_rng(11)
    x, y = rng.integers(limits.min, limits.max, (2, size), endpoint=True)
    # By a greater one, the quotient is 0 or 1.
    y[: size // 2] = rng.integers(1, 9, size // 2) * (
        rng.choice([-1, 1], size // 2) if limits.min else 1
    )
    x[:3], y[y == 0] = (limits.min, limits.max, 0), 1
    return x.astype(dtype), y.astype(dtype)


def rows(table: dict[str, Any]) -> list[Any]:
    return [
        pytest.param(row[0], row[1], dtype, id=f"{name} {np.dtype(dtype)}")
        for name, row in table.items()
        for dtype in row[2]
    ]


@pytest.mark.parametrize(("function", "expected", "dtype"), rows(BINARY))
@np.errstate(all="ignore")
def test_two_operands_have_the_result_of_numpy(function: Any, expected: Any, dtype: Any) -> None:
    x, y = numbers(dtype)

    def called(s: Scope, a: Any, b: Any) -> Any:
        return function(s, a=a, b=b)

    want = expected(x, y)
    np.testing.assert_array_equal(results(called, x, y)[0].view(want.dtype), want)
    np.testing.assert_array_equal(known(called, x, y), want)


@pytest.mark.parametrize(("function", "expected", "dtype"), rows(UNARY))
@np.errstate(all="ignore")
def test_one_operand_has_the_result_of_numpy(function: Any, expected: Any, dtype: Any) -> None:
    x, _ = numbers(dtype)
    want = np.asarray(expected(x))
    np.testing.assert_array_equal(results(function, x)[0].view(want.dtype), want)
    np.testing.assert_array_equal(known(function, x), want)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_divisors_and_dividends_may_have_the_highest_bit(dtype: Any) -> None:
    top = int(np.iinfo(dtype).max)
    some = [1, 2, 3, 7, top // 3, top // 2, top // 2 + 1, top // 2 + 2, top - 1, top]
    x, y = (
        item.ravel() for item in np.meshgrid(np.array([0, *some], dtype), np.array(some, dtype))
    )
    np.testing.assert_array_equal(results(arithmetic.div, x, y)[0].view(dtype), x // y)
    np.testing.assert_array_equal(results(arithmetic.rem, x, y)[0].view(dtype), x % y)


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
@np.errstate(all="ignore")
def test_powers_of_integers_wrap_around(dtype: Any) -> None:
    x, _ = numbers(dtype)
    y = np.random.default_rng(5).integers(0, 100, 64).astype(np.int32)
    y[:2] = 0, 2**31 - 1
    modulus = 1 << 8 * np.dtype(dtype).itemsize
    rows = zip(x.tolist(), y.tolist(), strict=True)
    want = np.array([pow(base, exponent, modulus) for base, exponent in rows], np.uint64)
    want = want.astype(dtype)
    np.testing.assert_array_equal(results(functions.power, x, y)[0].view(dtype), want)


@pytest.mark.parametrize("dtype", SIGNED)
def test_negative_powers_of_integers_are_rounded_to_0(dtype: Any) -> None:
    x, y = np.array([1, -1, -1, 2, 0, -5], dtype), np.array([-3, -3, -2, -1, -1, 2], np.int32)
    np.testing.assert_array_equal(results(functions.power, x, y)[0], [1, -1, 1, 0, 0, 25])


def test_unsigned_numbers_that_are_narrowed_need_no_bits_above_31() -> None:
    """Find no constant that does not fit INT32 in programs whose INT64 becomes INT32."""
    x, y = np.array([5, 7, 9], np.uint64), np.array([3, 7, 11], np.uint64)
    functions_of_two: list[Any] = [
        partial(arithmetic.computed, name="add"),
        partial(arithmetic.extremum, name="maximum"),
        partial(arithmetic.compared, name="greater"),
        lambda s, a, b: arithmetic.shifted(s, a, b, "logical_right_shift"),
        arithmetic.div,
    ]
    for function in functions_of_two:

        def narrowed(s: Scope, a: Any, b: Any, function: Any = function) -> Any:
            s.narrows = True
            return function(s, a=a, b=b)

        graph = program(narrowed, x, y)
        held = [tensor.data for tensor in graph.main.tensors.values() if tensor.data is not None]
        assert all(-(2**31) <= value < 2**31 for data in held for value in data.values())


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("by", [0, 3, 7])
def test_bits_move(dtype: Any, by: int) -> None:
    x, _ = numbers(dtype)
    count = np.full(64, by, dtype)
    left = partial(arithmetic.shifted, name="logical_left_shift")
    right = partial(arithmetic.shifted, name="arithmetic_right_shift", round=False)
    for function, want in ((left, x << count), (right, x >> count)):
        np.testing.assert_array_equal(results(function, x, count)[0], want)
        np.testing.assert_array_equal(known(function, x, count), want)


@pytest.mark.parametrize("source", [*SIGNED, *UNSIGNED, np.bool_])
@pytest.mark.parametrize("target", [*SIGNED, *UNSIGNED])
def test_integers_keep_their_low_bits(source: Any, target: Any) -> None:
    x = numbers(np.int8 if source is np.bool_ else source)[0].astype(source)
    convert = partial(converted, dtype=target)
    np.testing.assert_array_equal(results(convert, x)[0].view(target), x.astype(target))
    np.testing.assert_array_equal(known(convert, x), x.astype(target))


@pytest.mark.parametrize("target", [*SIGNED, *UNSIGNED])
def test_floating_point_is_truncated_and_saturates(target: Any) -> None:
    limits = np.iinfo(target)
    numbers = (0.5, -0.5, 1.5, -1.5, 99.9, -3e9, 5e9, -7e17, 6e18, 1e19, 3e38)
    x = np.array([*numbers, np.inf, -np.inf, np.nan], F32)
    whole = [
        int(n) if abs(n) < np.inf else 0 if n != n else 2**70 * int(np.sign(n)) for n in x.tolist()
    ]
    want = np.array([min(max(n, limits.min), limits.max) for n in whole], target)
    convert = partial(converted, dtype=target)
    np.testing.assert_array_equal(known(convert, x), want)
    np.testing.assert_array_equal(results(convert, x[:-1])[0].view(target), want[:-1])


@pytest.mark.parametrize("source", [*SIGNED, *UNSIGNED])
def test_integers_become_floating_point(source: Any) -> None:
    limits = np.iinfo(source)
    x = np.array([limits.min, limits.max, 0, 1, 100, limits.min // 3, limits.max // 3], source)
    convert = partial(converted, dtype=F32)
    np.testing.assert_array_equal(known(convert, x), x.astype(F32))
    np.testing.assert_allclose(results(convert, x)[0], x.astype(F32), rtol=1.2e-7)


@pytest.mark.parametrize(("source", "target"), [(np.int64, F32), (F32, np.int64)])
def test_what_becomes_int32_is_converted_by_two_casts(source: Any, target: Any) -> None:
    def convert(s: Scope, x: Any) -> Any:
        s.narrows = True
        return converted(s, x, target)

    assert names(program(convert, np.ones(3, source))).keys() <= {
        "CAST",
        "CEIL",
        "FLOOR",
        "GREATER",
        "SELECT",
    }
    assert names(program(convert, np.ones(3, source)))["CAST"] == 2


def test_indices_of_64_bits_keep_their_signs() -> None:
    x = np.array([-(2**40), -7, 0, 5, 2**40])
    found = results(indexing.index32, x)[0]
    np.testing.assert_array_equal(found, [-(2**31), -7, 0, 5, 2**31 - 1])


def test_int64_of_known_limits_is_converted_by_int32() -> None:
    def position(s: Scope, x: Any) -> Any:
        found = reductions.position(s, x, [0], np.int64, "max")
        found.limits = (0, 7)
        return converted(s, found, F32)

    x = np.array([1, 5, 2, 8, 3, 8, 0, -1], F32)
    assert results(position, x)[0] == 3
    assert names(program(position, x)).keys() == {"ARGMAX", "CAST"}


FLOATS: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "cos": np.cos,
    "exp": np.exp,
    "floor": np.floor,
    "log": np.log,
    "negate": np.negative,
    "reciprocal": np.reciprocal,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sin": np.sin,
    "tanh": np.tanh,
}


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("dtype", [F32, F16, BF16])
@np.errstate(all="ignore")
def test_constants_are_computed_at_once(name: str, dtype: Any) -> None:
    x = np.array([0.25, 3, -2, 0, np.inf, -np.inf, np.nan], F32).astype(dtype)
    found = known(lambda s, a: s.elementwise(name, a), x)
    assert found.dtype == dtype
    want = FLOATS[name](x.astype(np.float64)).astype(dtype)
    np.testing.assert_array_equal(found.astype(F32), want.astype(F32))


@pytest.mark.parametrize("divisor", [2.5, -0.75])
def test_remainders_of_floating_point_have_the_sign_of_the_divisor(divisor: float) -> None:
    x = np.array([5.25, -5.25, 0, 2.5, -0.5, 100.125], F32)
    by = np.full(6, divisor, F32)
    (found,) = results(arithmetic.floor_remainder, x, by)
    np.testing.assert_array_equal(found, np.remainder(x, by))
