"""Operators that combine the elements along an axis, and products of matrices."""

from __future__ import annotations

import functools
import itertools
from typing import Any, Final

import numpy as np

from tosa_convert.reference.call import (
    Array,
    Call,
    Operation,
    describe,
    integer_limits,
    new_result,
    refuse_undefined,
)
from tosa_convert.reference.elementwise import ignores_nan
from tosa_convert.reference.parts import PART, affordable, reduce_in_parts, slices, steps
from tosa_convert.reference.products import Products, largest_of

#: Elements that are multiplied at a time.
_MULTIPLIED: Final = 1 << 17
#: Bytes of the intermediate values of a transformed element.
_TRANSFORMED_BYTES: Final = 48
#: Bytes of a block of a matrix that is converted for a product.
_BLOCK_BYTES: Final = 1 << 19
#: Columns of which each is copied for `argmax`.
_FEW_COLUMNS: Final = 16
#: Rows for which sums of several products take less time than blocks of columns.
_FEW_ROWS: Final = 32


def find_maximum(call: Call) -> Array:
    """Return the index of the greatest element, the first of several.

    NaN is greater than every number; if nan_mode is IGNORE it is passed over, and the index is 0 where
    there is nothing else.
    """
    ignores = ignores_nan(call) and not call.is_integer

    def find(part: Array, axis: int) -> Array:
        value = part if part.dtype.kind == "i" else call.widened(part)
        if ignores:
            value = np.where(np.isnan(value), -np.inf, value)
        if axis == value.ndim - 1:
            return np.asarray(np.argmax(value, axis=axis))
        return _position_of(np.max(value, axis=axis, keepdims=True), value, axis)

    value, axis = call.raw("input"), call.attributes["axis"]
    return reduce_in_parts(value, axis, find, np.dtype(np.intp), is_turned=False).squeeze(axis)


def _position_of(largest: Array, value: Array, axis: int) -> Array:
    """Return where the largest element first is, or NaN."""
    count = value.shape[axis]
    if largest.dtype.kind == "f" and np.isnan(largest).any():
        return np.asarray(np.argmax(value, axis=axis))
    # numpy copies for `argmax` across an axis, but for a few long columns.
    if value.size < _FEW_COLUMNS * count:
        return np.asarray(np.argmax(value == largest, axis=axis))
    # The first one has the most elements from it on.
    left = np.arange(count, 0, -1, dtype=np.int32).reshape(-1, *[1] * (value.ndim - 1 - axis))
    found: Array = count - np.max((value == largest) * left, axis=axis)
    return found


def multiply_matrices(call: Call) -> Array:
    """Return the products of the matrices of each batch, (a - a_zp) @ (b - b_zp); integers are exact."""
    return _product(call, call.raw("b"))


def multiply_by_transposed(call: Call) -> Array:
    """Return the products of the matrices of a and the transposed ones of b; see `multiply_matrices`."""
    return _product(call, call.raw("b").swapaxes(-1, -2))


def multiply_block_scaled(call: Call) -> Array:
    """Return the product of the numbers that block-scaled a and transposed b stand for, in FP32."""
    from tosa_convert.reference.block_scaled import scaled

    result = new_result(call.result, call.precision)
    batches, count, terms = call.raw("a_data").shape
    shared, columns, _ = call.raw("b_data").shape
    item = 8 * max(1, terms)
    for batch, part in itertools.product(
        range(batches), steps(columns, affordable(call, item, columns))
    ):
        right = scaled(call, "b", (batch % shared, part)).T
        for rows in steps(count, affordable(call, item, count)):
            result[batch, rows, part] = scaled(call, "a", (batch, rows)) @ right
    return result


def _product(call: Call, right: Array) -> Array:
    left = call.raw("a")
    points = (call.number("a_zp"), call.number("b_zp")) if call.is_integer else (0, 0)
    result = new_result(call.result, call.precision)
    # MATMUL_T takes one b for all batches.
    right = np.broadcast_to(right, (len(left), *right.shape[1:]))
    for target, a, b in zip(result, left, right, strict=True):
        if a.dtype == b.dtype == target.dtype and not call.is_integer:
            np.matmul(a, b, out=target)
            continue
        products = _products(call, a, b, points)
        if len(a) <= _FEW_ROWS < len(b):
            target[...] = _product_of_few_rows(call, a, b, points, products)
            continue
        size = affordable(call, 4, _BLOCK_BYTES)
        step = max(1, size // max(1, len(b) * products.kind.itemsize))
        for columns in steps(b.shape[1], step):
            two = _converted(call, b[:, columns], points[1], products.kind)
            sums = two.shape[1] * (products.kind.itemsize + 8 * call.is_integer)
            most = affordable(call, sums, max(1, 2 * _BLOCK_BYTES // max(1, sums)))
            for rows in steps(len(a), min(step, most)):
                one = _converted(call, a[rows], points[0], products.kind)
                target[rows, columns] = products.multiply(one, two)
    return result


def _product_of_few_rows(
    call: Call, a: Array, b: Array, points: tuple[int, int], products: Products
) -> Array:
    """Return the sum of products of blocks of rows of b, which are adjacent, unlike those of columns."""
    total = np.zeros((len(a), b.shape[1]), products.kind if not call.is_integer else np.int64)
    size = affordable(call, 2, _BLOCK_BYTES)
    for terms in steps(len(b), max(1, size // max(1, b.shape[1] * products.kind.itemsize))):
        one = _converted(call, a[:, terms], points[0], products.kind)
        total += products.multiply(one, _converted(call, b[terms], points[1], products.kind))
    return total


def _products(call: Call, a: Array, b: Array, points: tuple[int, int]) -> Products:
    if not call.is_integer:
        return Products(None, call.widened(b[:, :0]))
    # Sums of absolute values are those of the smaller matrix.
    if a.size < b.size:
        return Products(largest_of(b, points[1]), a.T, points[0])
    return Products(largest_of(a, points[0]), b, points[1])


def _converted(call: Call, array: Array, point: int, kind: np.dtype[Any]) -> Array:
    """Return elements in the type of the products, without their zero point."""
    if not call.is_integer:
        return call.widened(array)
    result: Array = array.astype(kind)
    if point:
        result -= kind.type(point)
    return result


def _reduce(function: Any, text: str, *, selects: bool = False) -> Operation:
    """Return an operation that keeps the axis, with one element.

    selects: its result is one of the elements, so that integers stay as they are.
    """

    def compute(call: Call) -> Array:
        value = call.raw("input")
        is_native = selects and value.dtype.kind == "i"
        computed = (value if is_native else call.widened(value[:0])).dtype

        def reduce(part: Array, axis: int) -> Array:
            if part.dtype != computed:
                part = call.widened(part).astype(computed, copy=False)
            result: Array = function.reduce(part, axis=axis)
            return result

        return reduce_in_parts(value, call.attributes["axis"], reduce, computed)

    return describe(compute, text)


def _reduce_comparing(propagating: Any, ignoring: Any, text: str) -> Operation:
    reductions = {
        ignores: _reduce(function, text, selects=True)
        for ignores, function in ((False, propagating), (True, ignoring))
    }
    return describe(lambda call: reductions[ignores_nan(call)](call), text)


def add(call: Call) -> Array:
    """Return the sum of the elements along the axis; floating point in numpy's order, in FP32.

    Integers are added in their order, and all sums on the way have to fit.
    """
    value, axis = call.raw("input"), call.attributes["axis"]
    if call.is_integer:
        low, high = integer_limits(call.result.dtype)
        if value.shape[axis] * largest_of(value) > high:

            def check(part: Array, along: int) -> Array:
                sums, rounded = np.zeros(1, np.int64), np.zeros(1, np.float64)
                part = np.moveaxis(part, along, 0)
                for some in steps(len(part), max(1, PART // max(1, part[:1].size))):
                    sums = np.cumsum(part[some], axis=0, dtype=np.int64) + sums[-1]
                    # Sums of INT64 that wrapped around differ by 2^64 from those in FP64.
                    rounded = np.cumsum(part[some], axis=0, dtype=np.float64) + rounded[-1]
                    wrong = (sums < low) | (sums > high) | (np.abs(rounded - sums) > 2.0**62)
                    refuse_undefined(call, wrong, f"it does not fit {call.result.dtype}")
                return np.asarray(sums[-1])

            reduce_in_parts(value, axis, check, np.dtype(np.int64), is_turned=False)
    return np.asarray(_ADD(call))


_ADD: Final = _reduce(np.add, "")


def multiply(call: Call) -> Array:
    """Return the product of the elements along the axis, computed in FP64 and rounded once."""

    def reduce(part: Array, axis: int) -> Array:
        wide = call.widened(part).astype(np.float64, copy=False)
        is_last = axis == wide.ndim - 1
        return _product_of_pairs(wide) if is_last else np.asarray(np.prod(wide, axis=axis))

    value, axis = call.raw("input"), call.attributes["axis"]
    kind = np.dtype(np.float64)
    return reduce_in_parts(value, axis, reduce, kind, is_turned=False, size=_MULTIPLIED)


def _product_of_pairs(table: Array) -> Array:
    """Return the product of each row: of pairs of neighbours, then of pairs of these products.

    numpy multiplies many pairs at once, and the elements of a row one after the other.
    """
    rows, count = table.shape
    while count > 1:
        if count % 2:
            pairs = table[:, :-1:2] * table[:, 1::2]
            pairs[:, 0] *= table[:, -1]
        else:
            flat = table.reshape(-1)
            pairs = flat[::2] * flat[1::2]
        count //= 2
        table = pairs.reshape(rows, count)
    return table[:, 0]


def transform(call: Call) -> tuple[Array, Array]:
    """Return the discrete Fourier transform of each image, not normalised; `inverse` changes the sign.

    Computed in FP64 and rounded once.
    """
    operands = call.raw("input_real"), call.raw("input_imag")
    real, imaginary = (new_result(target, call.precision) for target in call.results)
    inverse = functools.partial(np.fft.ifft, norm="forward")
    size = affordable(call, _TRANSFORMED_BYTES, PART)
    for part in slices(real.shape, size, whole=2):
        image = np.empty(real[part].shape, np.complex128)
        image.real, image.imag = (operand[part] for operand in operands)
        is_nan = np.isnan(image).any(axis=(1, 2))
        for axis in (2, 1):
            function = inverse if call.attributes["inverse"] else np.fft.fft
            _transform_lines(image, axis, function, size)
        # Each element of the result has a term of each element of the image.
        image[is_nan] = complex(np.nan, np.nan)
        real[part], imaginary[part] = image.real, image.imag
    return real, imaginary


def _transform_lines(image: Array, axis: int, function: Any, size: int) -> None:
    """Transform an array along an axis in its own memory, a few lines at a time."""
    lines = np.moveaxis(image, axis, -1)
    for part in slices(lines.shape, size, whole=1):
        lines[part] = function(lines[part])


def transform_real(call: Call) -> tuple[Array, Array]:
    """Return the columns 0 to W / 2 of the discrete Fourier transform of each real image.

    The imaginary part leaves out terms whose sine is 0, so that NaN stays out of it.
    """
    operand = call.raw("input_real")
    real, imaginary = (new_result(target, call.precision) for target in call.results)
    size = affordable(call, _TRANSFORMED_BYTES, PART)
    for part in slices(operand.shape, size, whole=2):
        real[part], imaginary[part] = _transform_real(operand[part], size)
    return real, imaginary


def _transform_real(images: Array, size: int) -> tuple[Array, Array]:
    height, width = images.shape[1:]
    has_nan = np.isnan(images).any()

    def transform_lines(part: Any) -> Array:
        lines = images[part].astype(np.float64)
        if has_nan:
            lines[np.isnan(lines)] = 0
        return np.fft.rfft(lines)

    places = list(slices(images.shape, size, whole=1))
    if len(places) == 1:
        found = transform_lines(places[0])
    else:
        found = np.empty((len(images), height, width // 2 + 1), np.complex128)
        for part in places:
            found[part] = transform_lines(part)
    _transform_lines(found, 1, np.fft.fft, size)
    real, imaginary = found.real, found.imag
    if has_nan:
        is_nan = np.isnan(images)
        rows, columns = _sine_is_zero(height, height), _sine_is_zero(real.shape[2], width)
        left_out = rows @ is_nan.astype(np.float64) @ columns.T
        real[is_nan.any(axis=(1, 2))] = np.nan
        imaginary[left_out < is_nan.sum(axis=(1, 2), keepdims=True)] = np.nan
    return real, imaginary


def _sine_is_zero(results: int, size: int) -> Array:
    """Return 1 where the angle of an element in a result, along an axis, is a multiple of pi, else 0."""
    products = np.outer(np.arange(results), np.arange(size))
    return np.asarray(products % max(size // 2, 1) == 0, np.float64)


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
    "REDUCE_PRODUCT": multiply,
    "REDUCE_SUM": add,
    "RFFT2D": transform_real,
}
