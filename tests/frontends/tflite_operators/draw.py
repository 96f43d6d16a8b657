"""Draws what programs of one operator are made of: types, sizes, scales, numbers and operands."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import numpy as np
from frontends.tflite_operators.programs import Program, Value
from frontends.tflite_operators.values import PLAIN, Array, Quantized, Result, Shape

_T = TypeVar("_T")
SCALED: Final = ("int8", "uint8", "int16")
#: Numbers of FP32 that are in each input, where there is room.
_FLOATS: Final = (0.0, -0.5, 0.5, 1.5, -2.5, 6.0, -1.0, 3.0, 1e-3, -3.25)


class Draw:
    """Draws what a program is made of; the same for one operator and number each time."""

    def __init__(self, operator: str, number: int) -> None:
        self.random = random.Random(f"{operator} {number}")
        self.number = number
        self.program = Program(operator, f"varied_{number}")

    # -- choices ---------------------------------------------------------------------------------

    def pick(self, *choices: _T) -> _T:
        return self.random.choice(choices)

    def turn(self, *choices: _T) -> _T:
        """Return one of the choices: of programs that follow one another, one after the other."""
        return choices[self.number % len(choices)]

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def between(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def shape(self, low: int, high: int, most: int = 5) -> Shape:
        """Return a shape whose rank has these limits."""
        sizes = (1, *range(2, most + 1))
        return tuple(self.pick(*sizes) for _ in range(self.between(low, high)))

    def axis(self, rank: int) -> int:
        """Return an axis, counted from either end."""
        return self.between(-rank, rank - 1)

    def broadcast(self) -> tuple[Shape, Shape]:
        """Return two shapes that have a common one."""
        whole = self.shape(0, 4)
        part = tuple(1 if self.chance(0.3) else size for size in whole)
        other = tuple(1 if self.chance(0.15) else size for size in whole)
        part = part[self.between(0, len(part)) if self.chance(0.4) else 0 :]
        return (other, part) if self.chance(0.6) else (part, other)

    # -- quantisation ----------------------------------------------------------------------------

    def quantized(self, dtype: str, near: float = 0.0) -> Quantized | None:
        """Return a quantisation whose scale may be near another one; None for other types."""
        if dtype not in SCALED:
            return PLAIN if dtype in ("uint16", "uint32") else None
        usual = near or (0.0005 if dtype == "int16" else 0.05)
        kind = self.random.random()
        if kind < 0.15:
            scale = 2.0 ** round(math.log2(usual))
        elif kind < 0.25 and near:
            scale = near
        else:
            scale = usual * 10 ** self.random.uniform(-0.7, 0.7)
        return Quantized((float(np.float32(scale)),), self.zero(dtype))

    def zero(self, dtype: str) -> int:
        if dtype == "int16":
            return 0
        info = np.iinfo(dtype)
        return self.pick(info.min, info.max, 3, self.between(info.min, info.max), 0)

    # -- tensors ---------------------------------------------------------------------------------

    def numbers(
        self, dtype: str, shape: Shape, low: float | None = None, high: float | None = None
    ) -> Array:
        """Return numbers between limits, or of the whole type with its ends."""
        count = math.prod(shape)
        generator = np.random.default_rng(self.random.getrandbits(32))
        found: Array
        if dtype == "bool":
            return generator.integers(0, 2, shape).astype(np.bool_)
        if dtype.startswith("float"):
            first, last = -4.0 if low is None else low, 4.0 if high is None else high
            found = generator.uniform(first, last, count)
            ends = [one for one in _FLOATS if first <= one <= last]
        else:
            info = np.iinfo(dtype)
            is_wide = info.bits > 16
            first = low if low is not None else -1000 if is_wide and info.min else info.min
            last = high if high is not None else 1000 if is_wide else info.max
            found = generator.integers(int(first), int(last), count, np.int64, endpoint=True)
            ends = [int(first), int(last), *(one for one in (0, 1, -1) if first <= one <= last)]
        for at, end in zip(generator.permutation(count)[: count // 2], ends, strict=False):
            found[at] = end
        return np.asarray(found, dtype).reshape(shape)

    def given(
        self,
        dtype: str,
        shape: Shape = (),
        low: float | None = None,
        high: float | None = None,
        *,
        quantized: Quantized | None = None,
        array: Array | None = None,
        constant: float = 0.0,
    ) -> Value:
        """Return an operand: an input, or with the share `constant` a constant."""
        found = self.numbers(dtype, shape, low, high) if array is None else array
        held = self.quantized(dtype) if quantized is None else quantized
        if self.chance(constant):
            return self.program.constant(found, dtype, quantized=held)
        value = self.program.input(dtype, found.shape, quantized=held)
        self.program.arrays[list(self.program.arrays)[-1]] = found
        return value

    def every(
        self, dtype: str, held: Quantized, low: int | None = None, shape: Sequence[int] = (-1,)
    ) -> Value:
        """Return an input that has each integer of 8 or 16 bits, or each from the lowest on."""
        limits = np.iinfo(dtype)
        least = int(limits.min) if low is None else low
        array = np.arange(least, limits.max + 1).astype(dtype).reshape(shape)
        return self.given(dtype, array=array, quantized=held)

    def ints(self, values: Any, dtype: str = "int32") -> Value:
        return self.program.constant(values, dtype)

    def result(self, dtype: str, near: float = 0.0) -> Result:
        return dtype, (1,), self.quantized(dtype, near)

    def like(self, value: Value) -> Result:
        return value.dtype, (1,), value.quantized

    def apply(
        self, values: Sequence[Value | None], *results: Result | Value | str, **options: Any
    ) -> None:
        """Add the operator, and return its results; each is given by a value of its type and shape."""
        rows = [
            self.result(one)
            if isinstance(one, str)
            else self.like(one)
            if isinstance(one, Value)
            else one
            for one in results
        ]
        made = self.program.apply(self.program.operator, values, *rows, **options)
        self.program.returns(made)

    @property
    def operator(self) -> str:
        return self.program.operator


def scale_of(value: Value) -> float:
    """Return the scale of an operand; 0 without one."""
    held = value.quantized
    return held.scales[0] if held is not None and held.scales else 0.0
