"""Changes that stand for faults: what is changed in a tensor, and by how much."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np

from tosa_convert.golden.accuracy.criteria import half_units
from tosa_convert.golden.accuracy.error_bounds import FLOATS
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.dtypes import DType
from tosa_convert.records import dataclass, replace

#: What a change is about: one element, all elements with one last index, or all of them.
Kind = Literal["element", "channel", "all"]
KINDS: Final[tuple[Kind, ...]] = ("element", "channel", "all")
#: Elements and channels that are drawn of a tensor.
_DRAWN: Final[dict[Kind, int]] = {"element": 5, "channel": 3}
#: Sizes between two powers of two.
STEPS: Final = 8
#: The least size of a change of several numbers, in steps from the unit: a quarter of it, because some
#: of them are smaller than others.
_LEAST: Final = -2 * STEPS
#: Ranges of integers that are not those of their numpy type.
_RANGES: Final = {"INT4": (-7, 7), "INT48": (-(2**47), 2**47 - 1), "MXINT8": (-127, 127)}


@dataclass(frozen=True, slots=True)
class Place:
    """What is changed, and in which direction.

    index: of the element in the flattened tensor, of the channel, or None. sign: 1 or -1.
    """

    kind: Kind
    index: int | None
    sign: int

    def position(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the index of the element in a tensor of this shape, or that of the channel."""
        if self.index is None:
            return ()
        found = np.unravel_index(self.index, shape) if self.kind == "element" else (self.index,)
        return tuple(map(int, found))

    def of(self, array: Array) -> Array:
        """Return the part of a contiguous array that is changed, as a view."""
        flat = array.reshape(-1)
        if self.kind == "element":
            assert self.index is not None
            return flat[self.index : self.index + 1]
        if self.kind == "channel":
            return flat[self.index :: array.shape[-1]]
        return flat


def has_sizes(row: DType) -> bool:
    """Return whether tensors of an element type can be changed: the scales of blocks are not."""
    return row.name in FLOATS or row.numpy.kind in "biu" or row.name.startswith("INT")


def places(shape: tuple[int, ...], seed: int) -> Iterator[Place]:
    """Draw what is changed in a tensor: the same for the same shape and seed, signs in turn."""
    random = np.random.default_rng(seed)
    counts: dict[Kind, int] = {"element": math.prod(shape)}
    if len(shape) > 1 and 1 < shape[-1] < counts["element"]:
        counts["channel"] = shape[-1]
    for kind, count in counts.items():
        drawn = random.choice(count, min(count, _DRAWN[kind]), replace=False)
        for number, index in enumerate(drawn):
            yield Place(kind, int(index), -1 if number % 2 else 1)
    if counts["element"] > 1:
        yield Place("all", None, 1)
        yield Place("all", None, -1)


class Change:
    """A change of a tensor, of sizes that grow by the STEPS-th root of two with each number.

    place: what is changed; in the other direction if an integer is at the limit of its type.
    unit: what sizes are multiples of: the unit in the last place of what is changed, in the root of
        the mean square, and of the whole tensor where that is zero; 1 for integers.
    low, high: the numbers of the smallest and the largest size.
    """

    def __init__(self, array: Array, row: DType, place: Place) -> None:
        self.array, self.row, self.place = np.ascontiguousarray(array), row, place
        part = place.of(self.array)
        self.is_float = row.name in FLOATS and row.name != "MXINT8"
        self.unit = 1.0
        if self.is_float:
            size = rms(part) or rms(self.array)
            self.unit = 2 * float(half_units(np.array(size), row))
            most = FLOATS[row.name][2]
            self.low = 0 if part.size == 1 else _LEAST
            self.high = math.ceil(STEPS * math.log2(2 * most / self.unit))
            return
        self.limits = (0, 1) if row.name == "BOOL" else _range(row)
        wide = part.astype(np.int64)
        room = {1: self.limits[1] - int(wide.min()), -1: int(wide.max()) - self.limits[0]}
        if not room[place.sign]:
            self.place = replace(place, sign=-place.sign)
        self.low = 0
        self.high = math.ceil(STEPS * math.log2(max(room[self.place.sign], 1)))

    def size(self, number: int) -> float:
        """Return a size: in the tensor's numbers, and whole for integers."""
        size = 2.0 ** (number / STEPS)
        return self.unit * size if self.is_float else float(round(size))

    def number(self, size: float) -> int:
        """Return the number of the size that is nearest to a given one."""
        return round(STEPS * math.log2(size / self.unit)) if size > 0 else self.low

    def applied(self, number: int) -> Array:
        """Return the tensor with a change of this size; what does not fit the type is its limit."""
        result = self.array.copy()
        part = self.place.of(result)
        part[:] = self._moved(part, number)
        return result

    def _moved(self, part: Array, number: int) -> Array:
        size, sign = self.size(number), self.place.sign
        if self.row.name == "BOOL":
            return ~part
        if self.is_float:
            most = FLOATS[self.row.name][2]
            wide = part.astype(np.float64)
            moved = np.where(np.isfinite(wide), np.clip(wide + sign * size, -most, most), wide)
            return moved.astype(part.dtype)
        low, high = self.limits
        step, old = min(int(size), high), part.astype(np.int64)
        # Nothing overflows: INT64 has no wider type.
        with np.errstate(over="ignore"):
            moved = (
                np.where(old > high - step, high, old + step)
                if sign > 0
                else np.where(old < low + step, low, old - step)
            )
        return moved.astype(part.dtype)


def rms(array: Array) -> float:
    """Return the root of the mean square of what is finite; 0 if nothing is."""
    wide = array.astype(np.float64)
    wide = wide[np.isfinite(wide)]
    largest = float(np.abs(wide).max(initial=0.0))
    if largest == 0:
        return 0.0
    return largest * float(np.sqrt(np.mean(np.square(wide / largest))))


def _range(row: DType) -> tuple[int, int]:
    if row.name in _RANGES:
        return _RANGES[row.name]
    info: Any = np.iinfo(row.numpy)
    return int(info.min), int(info.max)
