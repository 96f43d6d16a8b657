"""Fourier transforms of pairs: products with constant matrices of cosines and sines.

Complex numbers are pairs of a real and an imaginary part along the last dimension, of size 2. Real
numbers have size 1 there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.products import Window, by_matrix, conv_general_dilated
from tosa_convert.frontends.lowering.scope import Array, Scope, constant


def dft(
    s: Scope,
    a: Array,
    axis: int,
    length: int | None = None,
    is_inverse: bool = False,
    is_onesided: bool = False,
) -> Array:
    """Transform along an axis: forward, inverse, to half a spectrum, or from one to real numbers.

    length: to which the input is cut, or padded with zeros; from half a spectrum, that of the result.
    """
    last = a.rank - 1
    order = [k for k in range(last) if k != axis] + [axis, last]
    moved = movement.transpose(s, a, order)
    size, parts = a.shape[axis], a.shape[last]
    if is_inverse and is_onesided:
        used, matrix = matrix_from_half(length or 2 * (size - 1), size)
        made_parts = 1
    else:
        count = length or size
        used = min(size, count)
        matrix = matrix_of_dft(count, used, is_inverse, is_onesided)
        made_parts = 2
    moved = movement.part(s, moved, last - 1, 0, used)
    matrix = matrix[0::2] if parts == 1 else matrix
    lead = moved.shape[:-2]
    made = by_matrix(s, movement.reshape(s, moved, (*lead, used * parts)), matrix)
    made = movement.reshape(s, made, (*lead, matrix.shape[1] // made_parts, made_parts))
    return movement.transpose(s, made, np.argsort(order).tolist())


def stft(
    s: Scope, signal: Array, window: Array | None, step: int, length: int, is_onesided: bool = True
) -> Array:
    """Transform windowed frames of real signals [batch, time] to [batch, frames, frequencies, 2]."""
    waves = constant(matrix_of_dft(length, length, False, is_onesided)[0::2].T.astype(signal.dtype))
    if window is not None:
        waves = s.mul(waves, movement.reshape(s, window, (1, length)))
    made = multiplied_frames(s, signal, waves, step)
    return movement.reshape(s, made, (*made.shape[:2], waves.shape[0] // 2, 2))


def multiplied_frames(s: Scope, signal: Array, waves: Array, step: int) -> Array:
    """Convolve signals [batch, time] with waves [count, length] to [batch, frames, count]."""
    count, length = waves.shape
    image = movement.reshape(s, signal, (signal.shape[0], 1, signal.shape[1], 1))
    filters = movement.reshape(s, waves, (count, 1, length, 1))
    window = Window((1, step), ((0, 0), (0, 0)), (1, 1), (1, 1))
    spec = (0, 3, 1, 2)
    made = conv_general_dilated(s, image, filters, window, (spec, spec, spec), signal.dtype)
    return movement.reshape(s, made, (made.shape[0], *made.shape[2:]))


def matrix_of_dft(length: int, used: int, is_inverse: bool, is_onesided: bool) -> Any:
    """Return the matrix of a transform whose input has `used` elements, and zeros after them.

    Rows: real and imaginary parts of the elements; columns: those of the frequencies.
    """
    count = length // 2 + 1 if is_onesided else length
    angle = 2 * np.pi * (np.outer(np.arange(used), np.arange(count)) % length) / length
    sign, scale = (1, 1 / length) if is_inverse else (-1, 1)
    cos, sin = np.cos(angle) * scale, sign * np.sin(angle) * scale
    matrix = np.empty((2 * used, 2 * count))
    matrix[0::2, 0::2], matrix[0::2, 1::2] = cos, sin
    matrix[1::2, 0::2], matrix[1::2, 1::2] = -sin, cos
    return np.where(np.abs(matrix) < 1e-12, 0, matrix)


def matrix_from_half(length: int, size: int) -> tuple[int, Any]:
    """Return how many frequencies of half a spectrum count, and the matrix with their mirror image."""
    used = min(size, length // 2 + 1)
    frequencies = np.arange(used)
    twice = np.where((frequencies == 0) | (2 * frequencies == length), 1.0, 2.0)
    angle = 2 * np.pi * np.outer(frequencies, np.arange(length)) / length
    matrix = np.empty((2 * used, length))
    matrix[0::2] = twice[:, None] * np.cos(angle) / length
    matrix[1::2] = -twice[:, None] * np.sin(angle) / length
    return used, matrix
