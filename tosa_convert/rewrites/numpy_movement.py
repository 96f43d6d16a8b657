"""Operators that move elements without looking at them, computed by numpy.

The arrays hold the bits of elements, so that every element type is moved alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: Computes a result of the operands that are tensors, those that are shapes, and the attributes; None if
#: TOSA does not define it.
Movement = Callable[[Sequence[Array], Sequence[tuple[int, ...]], Mapping[str, Any]], Array | None]


def _transpose(
    tensors: Sequence[Array], shapes: Sequence[tuple[int, ...]], attributes: Mapping[str, Any]
) -> Array:
    return tensors[0].transpose(attributes["perms"])


def _slice(
    tensors: Sequence[Array], shapes: Sequence[tuple[int, ...]], attributes: Mapping[str, Any]
) -> Array:
    return tensors[0][tuple(slice(a, a + n) for a, n in zip(*shapes, strict=True))]


def _concat(
    tensors: Sequence[Array], shapes: Sequence[tuple[int, ...]], attributes: Mapping[str, Any]
) -> Array:
    return np.concatenate(tensors, attributes["axis"])


def _reverse(
    tensors: Sequence[Array], shapes: Sequence[tuple[int, ...]], attributes: Mapping[str, Any]
) -> Array:
    return np.flip(tensors[0], attributes["axis"])


def _tile(
    tensors: Sequence[Array], shapes: Sequence[tuple[int, ...]], attributes: Mapping[str, Any]
) -> Array:
    return np.tile(tensors[0], shapes[0])


def _pad(
    tensors: Sequence[Array], shapes: Sequence[tuple[int, ...]], attributes: Mapping[str, Any]
) -> Array:
    array, value = tensors
    before, after = shapes[0][::2], shapes[0][1::2]
    sizes = [a + n + b for a, n, b in zip(before, array.shape, after, strict=True)]
    result = np.empty(sizes, array.dtype)
    result[...] = value.reshape(-1)[0]
    result[tuple(slice(a, a + n) for a, n in zip(before, array.shape, strict=True))] = array
    return result


def _select(
    tensors: Sequence[Array], shapes: Sequence[tuple[int, ...]], attributes: Mapping[str, Any]
) -> Array:
    condition, one, other = tensors
    return np.where(condition.view(np.uint8) != 0, one, other)


def _gather(
    tensors: Sequence[Array], shapes: Sequence[tuple[int, ...]], attributes: Mapping[str, Any]
) -> Array | None:
    values, bits = tensors
    indices = bits.view(f"i{bits.dtype.itemsize}")
    if ((indices < 0) | (indices >= values.shape[1])).any():
        return None
    gathered: Array = values[np.arange(len(values))[:, None], indices]
    return gathered


MOVEMENTS: Final[dict[str, Movement]] = {
    "CONCAT": _concat,
    "GATHER": _gather,
    "PAD": _pad,
    "REVERSE": _reverse,
    "SELECT": _select,
    "SLICE": _slice,
    "TILE": _tile,
    "TRANSPOSE": _transpose,
}
