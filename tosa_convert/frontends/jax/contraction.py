"""Products of matrices: dot_general with any batch and contracted dimensions."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.jax import layout
from tosa_convert.frontends.jax.arithmetic import computed
from tosa_convert.frontends.jax.arrays import (
    FLOAT32,
    INT32,
    Array,
    NotLowered,
    constant,
    is_float,
    is_small,
)
from tosa_convert.frontends.jax.conversion import converted
from tosa_convert.frontends.jax.reductions import summed
from tosa_convert.frontends.jax.scope import Scope, Step

#: Most products of integers that MATMUL does not take, which are elementwise.
_MOST_PRODUCTS: Final = 1 << 22
_BYTES: Final = (np.dtype(np.int8), np.dtype(np.uint8))


def dot_general(step: Step) -> Array:
    s, (a, b) = step.scope, step.inputs
    (contracted_a, contracted_b), (batch_a, batch_b) = step.params["dimension_numbers"]
    free_a = [k for k in range(a.rank) if k not in (*contracted_a, *batch_a)]
    free_b = [k for k in range(b.rank) if k not in (*contracted_b, *batch_b)]
    a = layout.transpose(s, a, (*batch_a, *free_a, *contracted_a))
    b = layout.transpose(s, b, (*batch_b, *contracted_b, *free_b))
    batches, rows = a.shape[: len(batch_a)], a.shape[len(batch_a) :][: len(free_a)]
    columns = b.shape[len(batch_b) + len(contracted_b) :]
    depth = math.prod(a.shape[len(batch_a) + len(free_a) :])
    count = math.prod(batches)
    left = layout.reshape(s, a, (count, math.prod(rows), depth))
    right = layout.reshape(s, b, (count, depth, math.prod(columns)))
    made = product(s, left, right, step.dtype)
    return layout.reshape(s, made, (*batches, *rows, *columns))


def product(s: Scope, a: Array, b: Array, dtype: Any) -> Array:
    """Multiply matrices, [N, H, C] and [N, C, W] to [N, H, W].

    dtype: the element type of the result.
    """
    if a.dtype in _BYTES and b.dtype in _BYTES:
        return converted(s, _of_bytes(s, a, b), dtype)
    if is_float(a.dtype) and is_float(b.dtype):
        if a.dtype != b.dtype:
            a, b = converted(s, a, FLOAT32), converted(s, b, FLOAT32)
        # XLA sums in float32.
        made = s.apply("matmul", [a, b], FLOAT32, dtype="fp32")
        return converted(s, made, dtype)
    if is_float(a.dtype) or is_float(b.dtype):
        return product(s, converted(s, a, FLOAT32), converted(s, b, FLOAT32), dtype)
    kind = INT32 if is_small(a.dtype) or is_small(b.dtype) else a.dtype
    made = _by_elements(s, converted(s, a, kind), converted(s, b, kind))
    return converted(s, made, dtype)


def with_zero_point(s: Scope, a: Array) -> tuple[Array, int]:
    """Bytes as INT8, and their zero point: uint8 is INT8 with the zero point -128."""
    if a.dtype == np.int8:
        return a, 0
    if a.data is not None:
        shifted = (a.data.astype(np.int16) - 128).astype(np.int8)
        return Array(np.dtype(np.int8), a.shape, shifted), -128
    return s.elementwise("bitwise_xor", s.viewed(a, np.int8), -128), -128


def _of_bytes(s: Scope, a: Array, b: Array) -> Array:
    (left, left_zero), (right, right_zero) = with_zero_point(s, a), with_zero_point(s, b)
    zeros = {
        "a_zp": s.value(constant([left_zero], np.int8)),
        "b_zp": s.value(constant([right_zero], np.int8)),
    }
    return s.apply("matmul", [left, right], INT32, **zeros)


def _by_elements(s: Scope, a: Array, b: Array) -> Array:
    """Products of integers of 32 bits, which MATMUL does not take: MUL and REDUCE_SUM."""
    count, rows, depth = a.shape
    columns = b.shape[2]
    if count * rows * depth * columns > _MOST_PRODUCTS:
        reason = f"TOSA's MATMUL does not take {a.dtype}, and there are too many products for MUL"
        raise NotLowered(reason, "multiply int8 with preferred_element_type=int32, or float32")
    left = layout.reshape(s, a, (count, rows, 1, depth))
    right = layout.transpose(s, b, (0, 2, 1))
    right = layout.reshape(s, right, (count, 1, columns, depth))
    return summed(s, computed(s, "mul", left, right), (3,))
