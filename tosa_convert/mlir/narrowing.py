"""Narrower element types, on request: i64 to i32, f64 to f32.

Frontends compute indices in i64 and Python numbers in f64, which most consumers of TOSA do not take.
Narrowing changes a program, so it happens only where it is asked for, every tensor it touches is
reported, and a value that does not fit stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

import numpy as np

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT32, INT64, DType, dtype
from tosa_convert.options import Narrow

#: What f64 constants are stored as while they are read. Not an element type of TOSA: no row.
_FP64: Final = DType("FP64", -1, 64, "float64", "f64")
_FP32: Final = dtype("FP32")

#: Element type in MLIR -> what it is stored as, and what it becomes.
TARGETS: Final = {"i64": (INT64, INT32), "f64": (_FP64, _FP32)}

#: Operators whose result depends on how many bits there are, not on the number alone.
WIDTH_MATTERS: Final = frozenset({"CLZ", "LOGICAL_RIGHT_SHIFT"})


class Narrowing:
    """Which element types are narrowed, and what was touched. False if none are."""

    def __init__(self, kinds: Collection[Narrow] = ()) -> None:
        self.kinds = frozenset(kinds)
        self.touched: dict[str, list[str]] = {kind: [] for kind in TARGETS if kind in self.kinds}
        self.rounded = 0
        self.rounded_bounds = 0
        self.saturated = 0

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def target(self, kind: str) -> DType | None:
        """What the MLIR element type `kind` becomes, or None if it stays."""
        return TARGETS[kind][1] if kind in self.kinds else None

    def stored(self, kind: str) -> DType | None:
        """What constants of the narrowed element type `kind` hold before, or None if it stays."""
        return TARGETS[kind][0] if kind in self.kinds else None

    def touch(self, kind: str, name: str) -> None:
        """Note that the tensor `name` was narrowed."""
        self.touched[kind].append(name)

    def bound(self, kind: str, value: Any, *, upper: bool) -> Any:
        """A bound of a CLAMP in the narrower type.

        One beyond every narrower value (frontends write the largest number for "none") becomes the
        last of them, which bounds the same. OverflowError if nothing lies within the bound.
        """
        narrow: Any
        lowest: Any
        highest: Any
        if kind == "i64":
            narrow, lowest, highest = int(value), -(2**31), 2**31 - 1
        else:
            with np.errstate(over="ignore"):
                narrow = np.float32(value)
            limits = np.finfo(np.float32)
            lowest, highest = float(limits.min), float(limits.max)
            if not np.isfinite(value):
                return narrow
            if np.isfinite(narrow):
                self.rounded_bounds += float(narrow) != float(value)
                return narrow
        if lowest <= value <= highest:
            return narrow
        if (value > highest) is not upper:
            raise OverflowError(f"{value} does not fit {TARGETS[kind][1].mlir}")
        self.saturated += 1
        return highest if upper else lowest

    def convert(self, data: Constant, target: DType, users: Callable[[], set[str]]) -> Constant:
        """The data of a constant operation in the narrower type.

        users: the names of the operations that use it.
        OverflowError names the first element that does not fit.
        """
        if data.dtype is target:
            return data
        whole = data.dtype is INT64
        wide = np.frombuffer(data.buffer, "<i8" if whole else "<f8")
        with np.errstate(over="ignore"):
            narrow = wide.astype("<i4" if whole else "<f4")
        if whole:
            lost = narrow != wide
        else:
            lost = np.isfinite(wide) & ~np.isfinite(narrow)
            self.rounded += int((np.isfinite(wide) & ~lost & (narrow != wide)).sum())
        if lost.any():
            moved = lost & _BEYOND[_use(users())](wide)
            limits = np.iinfo("<i4") if whole else np.finfo("<f4")
            narrow[moved] = np.where(wide[moved] > 0, limits.max, limits.min)
            self.saturated += int(moved.sum())
            lost &= ~moved
        if lost.any():
            index = int(lost.argmax())
            raise OverflowError(
                f"element {index} is {wide[index]}, which does not fit {target.mlir}"
            )
        return Constant(target, data.count, narrow.view(np.uint8), splat=data.splat)

    def report(self) -> Iterator[str]:
        """What was done, a line for each element type that occurred."""
        for kind, names in self.touched.items():
            if names:
                target = TARGETS[kind][1].mlir
                count = "1 tensor" if len(names) == 1 else f"{len(names)} tensors"
                yield f"narrowed {kind} to {target} in {count}: {', '.join(names)}"
        if self.rounded:
            yield f"narrowing f64 to f32 rounded {self.rounded} constant elements"
        if self.rounded_bounds:
            yield f"narrowing f64 to f32 rounded {self.rounded_bounds} bounds of CLAMP"
        if self.saturated:
            yield f"narrowing moved {self.saturated} bounds beyond the type to its last number"


def _use(users: set[str]) -> str:
    """The one operator that uses a constant, or "" if there are others, or none."""
    return next(iter(users)) if len(users) == 1 and users <= _BEYOND.keys() else ""


#: Operator -> whether elements of its operand bound nothing that the narrower type holds: frontends
#: write "no more than the largest number" for "unbounded".
_BEYOND: Final[dict[str, Callable[[Any], Any]]] = {
    "tosa.minimum": lambda wide: wide > 0,
    "tosa.maximum": lambda wide: wide < 0,
    "": lambda wide: np.zeros(wide.shape, bool),
}
