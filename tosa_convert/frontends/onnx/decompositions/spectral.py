"""Fourier transforms: products with constant matrices of cosines and sines."""

from __future__ import annotations

from typing import Any

import numpy as np

from tosa_convert.frontends.onnx.decompositions.node import Decomposition


def dft(e: Decomposition) -> None:
    """Forward, inverse, one-sided, and back from one side."""
    shape = e.shape(0)
    rank = len(shape)
    axis = (e.number(2, -2) if e.opset >= 20 else int(e.attribute("axis", 1))) % rank
    order = [a for a in range(rank - 1) if a != axis] + [axis, rank - 1]
    x = e.transpose(e.inputs[0], order)
    inverse, onesided = bool(e.attribute("inverse", 0)), bool(e.attribute("onesided", 0))
    size = shape[axis]
    length = e.number(1, 0)
    if inverse and onesided:
        length = length or 2 * (size - 1)
        used, matrix = _from_one_side(length, size)
    else:
        length = length or size
        used = min(size, length)
        matrix = _matrix(length, used, inverse, onesided)
    if used < size:
        x = e.slice(x, rank - 2, 0, used)
    real = shape[-1] == 1
    if real:
        matrix = matrix[0::2]
    lead = [shape[a] for a in order[:-2]]
    flat = e.reshape(x, [*lead, used * shape[-1]])
    y = e.op("MatMul", flat, e.constant(matrix, e.numpy_type()))
    parts = 1 if inverse and onesided else 2
    y = e.reshape(y, [*lead, matrix.shape[1] // parts, parts])
    e.result(e.transpose(y, [order.index(a) for a in range(rank)]))


def _matrix(length: int, used: int, inverse: bool, onesided: bool) -> Any:
    """Rows: real and imaginary parts of the elements; columns: those of the frequencies."""
    count = length // 2 + 1 if onesided else length
    angle = 2 * np.pi * np.outer(np.arange(used), np.arange(count)) / length
    sign, scale = (1, 1 / length) if inverse else (-1, 1)
    cos, sin = np.cos(angle) * scale, sign * np.sin(angle) * scale
    matrix = np.empty((2 * used, 2 * count))
    matrix[0::2, 0::2], matrix[0::2, 1::2] = cos, sin
    matrix[1::2, 0::2], matrix[1::2, 1::2] = -sin, cos
    return matrix


def _from_one_side(length: int, size: int) -> tuple[int, Any]:
    """From half a spectrum to real numbers: the other half is its mirror image."""
    used = min(size, length // 2 + 1)
    frequencies = np.arange(used)
    twice = np.where((frequencies == 0) | (2 * frequencies == length), 1.0, 2.0)
    angle = 2 * np.pi * np.outer(frequencies, np.arange(length)) / length
    matrix = np.empty((2 * used, length))
    matrix[0::2] = twice[:, None] * np.cos(angle) / length
    matrix[1::2] = -twice[:, None] * np.sin(angle) / length
    return used, matrix


def stft(e: Decomposition) -> None:
    """Frames, gathered and windowed, times the matrix of a transform."""
    shape = e.shape(0)
    e.leave_if(len(shape) == 3 and shape[2] != 1, "the signal is complex")
    step = e.number(1)
    e.leave_if(not e.has(3) and not e.has(2), "neither a window nor a length of frames")
    length = e.number(3) if e.has(3) else e.shape(2)[0]
    frames = (shape[1] - length) // step + 1
    indices = np.arange(frames)[:, None] * step + np.arange(length)
    signal = e.reshape(e.inputs[0], [shape[0], shape[1]])
    parts = e.op("Gather", signal, e.ints(*indices.reshape(-1).tolist()), axis=1)
    parts = e.reshape(parts, [shape[0], frames, length])
    if e.has(2):
        parts = e.op("Mul", parts, e.inputs[2])
    matrix = _matrix(length, length, False, bool(e.attribute("onesided", 1)))[0::2]
    y = e.op("MatMul", parts, e.constant(matrix, e.numpy_type()))
    e.result(e.reshape(y, [shape[0], frames, matrix.shape[1] // 2, 2]))
