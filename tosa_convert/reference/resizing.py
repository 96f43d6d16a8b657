"""RESIZE: images at another resolution."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tosa_convert.graph.dtypes import ResizeMode
from tosa_convert.reference.call import Array, Call, Operation, new_result
from tosa_convert.reference.parts import EACH, PART, affordable, slices
from tosa_convert.reference.products import largest_of


def resize(call: Call) -> Array:
    """Return the image at another resolution.

    The element (y, x) of the result is at (y * scale_d + offset) / scale_n of the image, whose edges
    continue. NEAREST takes the nearest element, the later one of two at the same distance. BILINEAR
    weighs the four around it; the weights of integers are multiples of 1 / scale_n, and the sum is not
    divided again.
    """
    image = call.raw("input")
    scales, offsets = call.sizes("scale"), call.sizes("offset")
    _, height, width, _ = image.shape
    _, rows, columns, _ = call.result.shape
    y = _positions(rows, height, scales[0], scales[1], offsets[0])
    x = _positions(columns, width, scales[2], scales[3], offsets[1])
    if call.attributes["mode"] == ResizeMode.NEAREST:
        nearest_y, nearest_x = (np.where(2 * f >= n, b, a) for a, b, f, n in (y, x))
        return image[:, nearest_y[:, None], nearest_x]
    kind = call.widened(image[:0]).dtype
    if call.is_integer:
        is_large = largest_of(image) * scales[0] * scales[2] >= 1 << 31
        kind = np.dtype(np.int64 if is_large else np.int32)
    late_y, late_x = _weights(y, kind), _weights(x, kind)
    whole_y, whole_x = (n if call.is_integer else 1 for n in (scales[0], scales[2]))
    result = new_result(call.result, call.precision)
    for part in slices(result.shape, affordable(call, EACH, PART), whole=1):
        batch, row, column, _ = part
        first, second = x[0][column], x[1][column]
        near = slice(first[0], second[-1] + 1)
        late = late_y[row, None, None]
        mixed = _widen(call, image[batch][:, y[0][row], near], kind) * (whole_y - late)
        mixed += _widen(call, image[batch][:, y[1][row], near], kind) * late
        late = late_x[column, None]
        found = np.take(mixed, first - near.start, 2) * (whole_x - late)
        found += np.take(mixed, second - near.start, 2) * late
        result[part] = found
    return result


def _widen(call: Call, array: Array, kind: np.dtype[Any]) -> Array:
    wide: Array = (array if call.is_integer else call.widened(array)).astype(kind, copy=False)
    return wide


def _weights(positions: _Positions, kind: np.dtype[Any]) -> Array:
    """Return the weight of the second element of each pair; a numerator for integers."""
    _, _, numerators, denominator = positions
    return (numerators if kind.kind == "i" else numerators / denominator).astype(kind)


#: For each element of an axis of the result: the two elements of the image, and the distance from the
#: first one as a numerator; then the denominator.
_Positions = tuple[Array, Array, Array, int]


def _positions(count: int, size: int, numerator: int, denominator: int, offset: int) -> _Positions:
    places = np.arange(count, dtype=np.int64) * denominator + offset
    first = places // numerator
    fraction = places - first * numerator
    last = size - 1
    return np.clip(first, 0, last), np.clip(first + 1, 0, last), fraction, numerator


OPERATIONS: Final[dict[str, Operation]] = {"RESIZE": resize}
