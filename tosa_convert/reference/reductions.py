"""Operators that combine the elements along an axis, and products of matrices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tosa_convert.reference.call import (
    Array,
    Call,
    Operation,
    describe,
    integer_limits,
    refuse_undefined,
)
from tosa_convert.reference.elementwise import ignores_nan
from tosa_convert.reference.products import Products, largest_of


def find_maximum(call: Call) -> Array:
    """Return the index of the greatest element, the first of several.

    NaN is greater than every number; if nan_mode is IGNORE it is passed over, and the index is 0 where
    there is nothing else.
    """
    value = call.value("input")
    axis = call.attributes["axis"]
    if ignores_nan(call) and not call.is_integer:
        value = np.where(np.isnan(value), -np.inf, value)
    found: Array = np.argmax(value, axis=axis)
    return found


def multiply_matrices(call: Call) -> Array:
    """Return the products of the matrices of each batch, (a - a_zp) @ (b - b_zp); integers are exact."""
    left, right = call.value("a"), call.value("b")
    if call.is_integer:
        left, right = left - call.number("a_zp"), right - call.number("b_zp")
    return _product(left, right)


def multiply_by_transposed(call: Call) -> Array:
    """Return the products of the matrices of a and the transposed ones of b; see `multiply_matrices`."""
    left, right = call.value("a"), call.value("b")
    if call.is_integer:
        left, right = left - call.number("a_zp"), right - call.number("b_zp")
    return _product(left, right.swapaxes(-1, -2))


def multiply_block_scaled(call: Call) -> Array:
    """Return the product of the numbers that block-scaled a and transposed b stand for, in FP32."""
    from tosa_convert.reference.block_scaled import scaled

    return _product(scaled(call, "a"), scaled(call, "b").swapaxes(-1, -2))


def _product(left: Array, right: Array) -> Array:
    products = Products(left, right, left.shape[-1])
    return products.multiply(products.convert(left), products.convert(right))


def _reduce(function: Any, text: str) -> Operation:
    """Return an operation that keeps the axis, with one element."""

    def compute(call: Call) -> Array:
        value = call.value("input")
        result: Array = function.reduce(value, axis=call.attributes["axis"], keepdims=True)
        return result

    return describe(compute, text)


def _reduce_comparing(propagating: Any, ignoring: Any, text: str) -> Operation:
    reductions = {False: _reduce(propagating, text), True: _reduce(ignoring, text)}
    return describe(lambda call: reductions[ignores_nan(call)](call), text)


def add(call: Call) -> Array:
    """Return the sum of the elements along the axis; floating point in numpy's order, in FP32.

    Integers are added in their order, and all sums on the way have to fit.
    """
    value, axis = call.value("input"), call.attributes["axis"]
    if call.is_integer:
        low, high = integer_limits(call.result.dtype)
        if value.shape[axis] * largest_of(value) > high:
            sums = np.cumsum(value, axis=axis, dtype=np.int64)
            # Sums of INT64 that wrapped around differ by 2^64 from those in FP64.
            rounded = np.cumsum(value, axis=axis, dtype=np.float64)
            wrong = (sums < low) | (sums > high) | (np.abs(rounded - sums) > 2.0**62)
            refuse_undefined(call, wrong, f"it does not fit {call.result.dtype}")
    return np.asarray(value.sum(axis=axis, keepdims=True, dtype=value.dtype))


def transform(call: Call) -> tuple[Array, Array]:
    """Return the discrete Fourier transform of each image, not normalised; `inverse` changes the sign.

    Computed in FP64 and rounded once.
    """
    image = call.raw("input_real").astype(np.float64) + 1j * call.raw("input_imag").astype(
        np.float64
    )
    found = (
        np.fft.ifft2(image, norm="forward") if call.attributes["inverse"] else np.fft.fft2(image)
    )
    # Each element of the result has a term of each element of the image.
    found[np.isnan(image).any(axis=(1, 2))] = complex(np.nan, np.nan)
    return found.real, found.imag


def transform_real(call: Call) -> tuple[Array, Array]:
    """Return the columns 0 to W / 2 of the discrete Fourier transform of each real image."""
    image = call.raw("input_real").astype(np.float64)
    found = np.fft.rfft2(image)
    found[np.isnan(image).any(axis=(1, 2))] = complex(np.nan, np.nan)
    return found.real, found.imag


OPERATIONS: Final[dict[str, Operation]] = {
    "ARGMAX": find_maximum,
    "FFT2D": transform,
    "MATMUL": multiply_matrices,
    "MATMUL_T": multiply_by_transposed,
    "MATMUL_T_BLOCK_SCALED": multiply_block_scaled,
    "REDUCE_ALL": _reduce(np.logical_and, "Return whether all elements along the axis are true."),
    "REDUCE_ANY": _reduce(np.logical_or, "Return whether any element along the axis is true."),
    "REDUCE_MAX": _reduce_comparing(
        np.maximum,
        np.fmax,
        "Return the greatest element along the axis; NaN if one is NaN, unless nan_mode is IGNORE.",
    ),
    "REDUCE_MIN": _reduce_comparing(
        np.minimum,
        np.fmin,
        "Return the least element along the axis; NaN if one is NaN, unless nan_mode is IGNORE.",
    ),
    "REDUCE_PRODUCT": describe(
        lambda call: np.prod(
            call.value("input").astype(np.float64), axis=call.attributes["axis"], keepdims=True
        ),
        "Return the product of the elements along the axis, computed in FP64 and rounded once.",
    ),
    "REDUCE_SUM": add,
    "RFFT2D": transform_real,
}
