"""Images whose parts are converted, and padded for windows that move over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tosa_convert.records import NamedTuple
from tosa_convert.reference.call import Array, is_float
from tosa_convert.reference.products import largest_of


class Image(NamedTuple):
    """A tensor that is converted a part at a time.

    point: the zero point, which is subtracted. widen: converts elements to a type of numpy's own.
    """

    array: Array
    point: int
    widen: Callable[[Array], Array]

    @property
    def largest(self) -> int | None:
        """Return the greatest absolute value of integers without the zero point."""
        if is_float(self.array.dtype):
            return None
        is_native = self.array.dtype.kind == "i"
        return largest_of(self.array if is_native else self.widen(self.array), self.point)

    def convert(self, kind: np.dtype[Any]) -> Array:
        """Return the whole tensor as a new array."""
        result = np.empty(self.array.shape, kind)
        self.fill(result, self.array)
        return result

    def fill(self, target: Array, part: Array) -> None:
        """Write a part of the tensor into an array of another type."""
        # numpy copies columns that are apart faster if all channels are one element.
        pixel = part.shape[-1] * part.itemsize
        are_apart = part.size and part.strides[-1] == part.itemsize and part.strides[-2] > pixel
        if are_apart and part.dtype == target.dtype:
            _pixels(target)[...] = _pixels(part)
        else:
            if are_apart:
                part = _pixels(part).copy().view(part.dtype).reshape(part.shape)
            target[...] = part if part.dtype.kind in "bi" else self.widen(part)
        if self.point:
            target -= target.dtype.type(self.point)


class Border(NamedTuple):
    """The elements around an image, and how windows move over it."""

    pad: Sequence[int]
    stride: Sequence[int]
    dilation: Sequence[int]
    value: float

    def around(
        self,
        image: Image,
        batch: int,
        rows: slice,
        kernel: Sequence[int],
        kind: np.dtype[Any],
        value: float | None = None,
        columns: tuple[int, int] = (0, 1),
        memory: Array | None = None,
        is_read: bool = False,
    ) -> Array:
        """Return the part of a padded image that some rows of the result are computed of.

        Its first axis is that of the rows. columns: the first one, and the distance to the next.
        memory: the part of a block before, of at least as many rows, that is not needed any more.
        is_read: nothing writes into the part, so that it may be the image's own memory.
        """
        source = image.array[batch]
        extent = (kernel[0] - 1) * self.dilation[0] + 1
        start = rows.start * self.stride[0] - self.pad[0]
        stop = (rows.stop - 1) * self.stride[0] + extent - self.pad[0]
        first = min(max(start, 0), len(source))
        inside = slice(first, max(min(stop, len(source)), first))
        before = min(max(-start, 0), stop - start)
        padding = zip(self.pad[2::2], source.shape[1:], self.pad[3::2], strict=False)
        axes = [_pad(*axis, *(columns if i == 0 else (0, 1))) for i, axis in enumerate(padding)]
        part: Array = source[(inside, *(axis.source for axis in axes))]
        shape = (stop - start, *(axis.size for axis in axes), source.shape[-1])
        if is_read and part.shape == shape and not image.point:
            return part if part.dtype == kind else image.widen(part).astype(kind, copy=False)
        padded = np.empty(shape, kind) if memory is None else memory[: shape[0]]
        starts = (before, *(axis.start for axis in axes))
        place = tuple(slice(a, a + n) for a, n in zip(starts, part.shape[:-1], strict=True))
        # A block inside of the image has the borders of the one before.
        is_filled = memory is not None and len(part) == len(padded)
        for axis, cut in enumerate(() if is_filled else place):
            # What earlier axes have filled is left out.
            for beside in (slice(None, cut.start), slice(cut.stop, None)):
                padded[(*place[:axis], beside)] = self.value if value is None else value
        image.fill(padded[place], part)
        return padded


class _Padded(NamedTuple):
    """An axis of a padded image: its size, and the elements of the image from `start` on."""

    size: int
    start: int
    source: slice


def _pad(before: int, size: int, after: int, first: int, step: int) -> _Padded:
    """Pad an axis, and take every `step`-th element from the first one on."""
    start = max(0, -((first - before) // step))
    total = -((first - before - size - after) // step)
    return _Padded(total, start, slice(first + start * step - before, size, step))


def _pixels(part: Array) -> Array:
    """Return an image whose elements have all channels of a pixel."""
    found: Array = part.view(np.dtype((np.void, part.shape[-1] * part.itemsize)))[..., 0]
    return found
