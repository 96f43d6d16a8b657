"""Integers of 8, 16 and 32 bits, signed and unsigned, and truth values: equal to JAX's bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from frontends.jax_runs import agree, jax

jnp, lax = jax.numpy, jax.lax
pytestmark = [
    pytest.mark.usefixtures("refmodel"),
    # Shifts and sums that do not fit wrap around in JAX; numpy warns of constants that do.
    pytest.mark.filterwarnings("ignore:overflow encountered"),
]
TYPES = ("int8", "int16", "int32", "uint8", "uint16", "uint32")


def integers(dtype: str, *shape: int, low: int | None = None, high: int | None = None) -> Any:
    bounds = (0, 200) if dtype.startswith("u") else (-100, 100)
    low, high = bounds[0] if low is None else low, bounds[1] if high is None else high
    return np.random.default_rng(3).integers(low, high, shape).astype(dtype)


def pair(dtype: str) -> tuple[Any, Any]:
    both = integers(dtype, 2, 5, 6)
    return both[0], both[1]


every_type = pytest.mark.parametrize("dtype", TYPES)


@every_type
def test_sums_and_products_wrap_around(dtype: str) -> None:
    agree(lambda a, b: (a + b, a - b if dtype != "int32" else a, a * b), *pair(dtype))


@every_type
def test_comparisons_agree(dtype: str) -> None:
    agree(
        lambda a, b: (a < b, a <= b, a > b, a >= b, a == b, a != b, jnp.where(a > b, a, b)),
        *pair(dtype),
    )


@every_type
def test_extremes_agree(dtype: str) -> None:
    agree(lambda a, b: (jnp.maximum(a, b), jnp.minimum(a, b), jnp.clip(a, 3, 90)), *pair(dtype))


@every_type
def test_bits_agree(dtype: str) -> None:
    agree(
        lambda a, b: (a & b, a | b, a ^ b, ~a, lax.population_count(a), lax.clz(a), jnp.sign(a)),
        *pair(dtype),
    )


@every_type
def test_shifts_by_any_amount_agree(dtype: str) -> None:
    amounts = integers(dtype, 5, 6, low=0, high=40)
    agree(
        lambda a, by: (
            lax.shift_left(a, by),
            lax.shift_right_logical(a, by),
            lax.shift_right_arithmetic(a, by),
            a << 1,
            a >> 1,
        ),
        integers(dtype, 5, 6),
        amounts,
    )


@pytest.mark.parametrize("dtype", [name for name in TYPES if name != "uint32"])
def test_quotients_have_the_signs_of_jax(dtype: str) -> None:
    a, b = pair(dtype)
    assert (b == 0).any() or dtype != "uint8", "a division by 0 is among them"
    b[0, :3] = (0, 1, 2)
    agree(lambda a, b: (lax.div(a, b), lax.rem(a, b), a // b, a % b, a // 3, a % 7), a, b)


def test_a_division_by_minus_one_and_by_zero_agrees() -> None:
    a = np.array([-(2**31), 2**31 - 1, 5, -5, 0], np.int32)
    b = np.array([-1, -1, 0, 0, 0], np.int32)
    agree(lambda a, b: (lax.div(a, b), lax.rem(a, b)), a, b)


def test_uint32_computes_with_all_bits() -> None:
    a = (np.random.default_rng(1).integers(0, 2**32, 8)).astype(np.uint32)
    b = (np.random.default_rng(2).integers(0, 2**32, 8)).astype(np.uint32)
    agree(lambda a, b: (a + b, a - b, a * b, a < b, jnp.maximum(a, b), a.astype(jnp.float32)), a, b)
    agree(lambda a: (a // 8, a % 16, a.astype(jnp.int8), a.sum()), a)


@every_type
def test_reductions_agree(dtype: str) -> None:
    agree(
        lambda a: (
            a.max(1),
            a.min(0),
            a.sum(),
            lax.reduce_sum(a, (0,)),
            a[:, :2].prod(1),
            a.argmax(1),
            a.argmin(0),
            jnp.cumsum(a, 1),
            lax.cummax(a, 1),
            jnp.sort(a, 1),
        ),
        integers(dtype, 5, 6),
    )


@every_type
def test_conversions_agree(dtype: str) -> None:
    targets = [name for name in (*TYPES, "bool", "float32", "bfloat16") if name != dtype]
    agree(lambda a: [a.astype(target) for target in targets], integers(dtype, 5, 6))


@every_type
def test_floating_point_numbers_are_truncated_and_saturate(dtype: str) -> None:
    numbers = [0.5, -0.5, 1.7, -1.7, 100.9, 300, -300, 70000, -7e4, 5e9, -5e9]
    agree(lambda x: x.astype(dtype), np.array(numbers, np.float32))


def test_truth_values_agree() -> None:
    a, b = np.random.default_rng(5).integers(0, 2, (2, 3, 4)).astype(bool)
    agree(lambda a, b: (a & b, a | b, a ^ b, ~a, a == b, a != b, a < b, a >= b), a, b)
    agree(lambda a, b: (a.all(0), a.any(), a.sum(), a.max(0), jnp.sort(a, 1), a.argmax(1)), a, b)
    agree(
        lambda a, b: (jnp.where(a, 1.0, b), a.T, jnp.concatenate([a, b]), a.astype("uint8")), a, b
    )


def test_selection_by_an_integer_agrees() -> None:
    which = np.array([0, 2, 1, 2], np.int32)
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    agree(lambda which, x: lax.select_n(which, x[0], x[1], x[2]), which, data)
