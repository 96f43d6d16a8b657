"""Products of matrices and Fourier transforms through BLAS and numpy; of integers, exactly."""

from __future__ import annotations

import functools
import itertools
from typing import Any, Final

import numpy as np

from tosa_convert.reference.call import (
    Array,
    Call,
    Operation,
    new_result,
)
from tosa_convert.reference.parts import PART, affordable, slices, steps

#: Bits of a sum that FP32 and FP64 hold exactly.
_EXACT: Final = ((np.float32, 1 << 24), (np.float64, 1 << 53))
#: Fewer terms than this are not worth a product of their own.
_LEAST_TERMS: Final = 64


class Products:
    """Multiplies by a matrix, in the fastest type that gives exact sums of integers.

    kind: the type that operands are converted to.
    """

    def __init__(self, largest: int | None, right: Array, point: int = 0) -> None:
        self._count = terms = right.shape[-2]
        self._is_integer = largest is not None
        self._largest_sum = 0
        self.kind: np.dtype[Any] = right.dtype
        self.terms = terms
        if largest is None:
            return
        largest, most = max(1, largest), max(1, largest_of(right, point))
        sum_of_all = most * terms
        if largest * sum_of_all >= _EXACT[0][1] >= largest * most * _LEAST_TERMS:
            sum_of_all = _largest_sum(right, point)
        for kind, exact in _EXACT:
            self.kind = np.dtype(kind)
            self.terms = terms
            if largest * sum_of_all < exact:
                self._largest_sum = largest * sum_of_all
                return
            self.terms = exact // (largest * most)
            if self.terms >= min(terms, _LEAST_TERMS):
                return
        self.kind, self.terms = np.dtype(np.int64), terms

    @property
    def sum_kind(self) -> np.dtype[Any]:
        """Return the type that holds the sum of all terms exactly."""
        return self.kind if self.terms >= self._count else np.dtype(np.int64)

    def whole_kind(self, bias: Array, result: np.dtype[Any]) -> np.dtype[Any]:
        """Return the type in which a bias is added to the sums of all terms, for a result of a type."""
        if not self._is_integer:
            return self.kind
        if self.sum_kind != np.float32 or result != np.int32:
            return np.dtype(np.int64)
        # Sums that FP32 holds fit INT32, in which the bias may wrap around, as in the result.
        is_exact = self._largest_sum + largest_of(bias) < _EXACT[0][1]
        return self.kind if is_exact else result

    def multiply(self, left: Array, right: Array) -> Array:
        """Return left @ right, in INT64 if the operands are integers."""
        count = left.shape[-1]
        if self.terms >= count:
            return self._finish(left @ right)
        total: Array | None = None
        for start in range(0, count, self.terms):
            end = min(start + self.terms, count)
            part = self._finish(left[..., start:end] @ right[..., start:end, :])
            total = part if total is None else np.add(total, part, out=total)
        assert total is not None
        return total

    def _finish(self, product: Array) -> Array:
        return product.astype(np.int64, copy=False) if self._is_integer else product


def _largest_sum(matrix: Array, point: int) -> int:
    """Return a bound of the sums of the absolute values of columns without their zero point."""
    sums = np.zeros(matrix.shape[1], np.float64)
    for part in slices(matrix.shape, PART, whole=1):
        values = matrix[part].astype(np.float32)
        values -= point
        sums += np.abs(values, out=values).sum(axis=0)
    # Sums in FP32 are rounded by far less than 1 %.
    return int(float(sums.max(initial=1.0)) * 1.01)


def largest_of(array: Array, point: int = 0) -> int:
    """Return the largest absolute value of an array without its zero point; of INT8 a bound."""
    if not array.size:
        return 0
    if array.dtype == np.int8:
        return 128 + abs(point)
    return max(abs(int(array.min()) - point), abs(int(array.max()) - point))


# -- products of matrices --------------------------------------------------------------------------

#: Bytes of the intermediate values of a transformed element.
_TRANSFORMED_BYTES: Final = 48
#: Bytes of a block of a matrix that is converted for a product.
_BLOCK_BYTES: Final = 1 << 19
#: Rows for which sums of several products take less time than blocks of columns.
_FEW_ROWS: Final = 32


def multiply_matrices(call: Call) -> Array:
    """Return the products of the matrices of each batch, (a - a_zp) @ (b - b_zp); integers are exact.

    Batches are broadcast.
    """
    return _product(call, call.raw("b"))


def multiply_by_transposed(call: Call) -> Array:
    """Return the products of the matrices of a and the transposed ones of b, as MATMUL."""
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
    batches = result.shape[:-2]
    left, right = (np.broadcast_to(one, (*batches, *one.shape[-2:])) for one in (left, right))
    for batch in np.ndindex(batches):
        target, a, b = result[batch], left[batch], right[batch]
        # BLAS has no product of FP16.
        if a.dtype == b.dtype == target.dtype and a.dtype.kind == "f" and a.itemsize > 2:
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


#: Operator -> what it computes.
OPERATIONS: Final[dict[str, Operation]] = {
    "FFT2D": transform,
    "MATMUL": multiply_matrices,
    "MATMUL_T": multiply_by_transposed,
    "MATMUL_T_BLOCK_SCALED": multiply_block_scaled,
    "RFFT2D": transform_real,
}
