"""Images whose parts are converted, and padded for windows that move over them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tosa_convert.records import NamedTuple
from tosa_convert.reference.call import Array, Call, is_float
from tosa_convert.reference.parts import slices
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
        return largest_of(self.array if is_native else self.array.astype(np.int8), self.point)

    def part(self, place: slice) -> Image:
        """Return a part of the first axis."""
        return self._replace(array=self.array[place])

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
        window: slice | None = None,
    ) -> Array:
        """Return the part of a padded image that some rows of the result are computed of.

        Its first axis is that of the rows. columns: the first one, and the distance to the next.
        memory: the part of a block before, of at least as many rows, that is not needed any more.
        is_read: nothing writes into the part, so that it may be the image's own memory.
        window: the columns of the result; by default all of the image are needed.
        """
        source = image.array[batch]
        extent = (kernel[0] - 1) * self.dilation[0] + 1
        start = rows.start * self.stride[0] - self.pad[0]
        stop = (rows.stop - 1) * self.stride[0] + extent - self.pad[0]
        first = min(max(start, 0), len(source))
        inside = slice(first, max(min(stop, len(source)), first))
        before = min(max(-start, 0), stop - start)
        padding = zip(self.pad[2::2], source.shape[1:], self.pad[3::2], strict=False)
        if window is not None:
            reach = (kernel[1] - 1) * self.dilation[1] + 1
            last = (window.stop - 1) * self.stride[1] + reach
            columns = (window.start * self.stride[1], 1)
        axes = [
            _pad(*axis, *columns, last if window else None) if i == 0 else _pad(*axis, 0, 1)
            for i, axis in enumerate(padding)
        ]
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


def _pad(
    before: int, size: int, after: int, first: int, step: int, stop: int | None = None
) -> _Padded:
    """Pad an axis, and take every `step`-th element from the first one on, up to `stop`."""
    stop = before + size + after if stop is None else stop
    start = max(0, -((first - before) // step))
    source = slice(first + start * step - before, max(0, min(size, stop - before)), step)
    return _Padded(-((first - stop) // step), start, source)


def _pixels(part: Array) -> Array:
    """Return an image whose elements have all channels of a pixel."""
    found: Array = part.view(np.dtype((np.void, part.shape[-1] * part.itemsize)))[..., 0]
    return found


def image_of(call: Call) -> Image:
    """Return the input, of which its zero point is to be subtracted."""
    has_point = call.is_integer and call.has("input_zp")
    return Image(call.raw("input"), call.number("input_zp") if has_point else 0, call.widened)


def blocks(result: Array, size: int) -> Iterator[tuple[int, slice, slice]]:
    """Iterate over the batches of a result, and blocks of so many positions: rows, or a part of one."""
    shape = result.shape[1:3]
    # A column of a volume has several positions.
    size = max(1, size // max(1, math.prod(result.shape[3:-1])))
    for batch in range(len(result)):
        for rows, columns in slices(shape, size):
            yield (
                batch,
                slice(rows.start or 0, min(rows.stop or shape[0], shape[0])),
                slice(columns.start or 0, min(columns.stop or shape[1], shape[1])),
            )
