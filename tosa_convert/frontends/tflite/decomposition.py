"""What a decomposition gets and gives, and steps that several of them have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tosa_convert.builder import Builder
from tosa_convert.builder.values import Value


class Given(NamedTuple):
    """What an operator is decomposed from.

    operands: its operands, without those that it leaves out. constants: their elements; None for an
    operand that is not constant. facts: what the converter says of it; `shape` and `dtype` are those of
    its first result, and `dtypes` the framework's types of its operands.

    Unsigned integers are signed ones with the same bits.
    """

    operands: Sequence[Value]
    constants: Sequence[Any]
    facts: Mapping[str, Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the first result."""
        return tuple(self.facts["shape"])


#: The results of an operator.
Decompose = Callable[[Builder, Given], list[Value]]


def sizes_of(value: Value) -> tuple[int, ...]:
    return tuple(value.shape or ())


def ranked(b: Builder, value: Value, rank: int) -> Value:
    """Put sizes of 1 in front of those of the value, for a broadcast."""
    shape = sizes_of(value)
    return value if len(shape) == rank else b.reshape(value, (1,) * (rank - len(shape)) + shape)


def broadcast(b: Builder, value: Value, shape: Sequence[int]) -> Value:
    """Repeat the value to a shape."""
    value = ranked(b, value, len(shape))
    times = [size // own for size, own in zip(shape, sizes_of(value), strict=True)]
    return value if max(times, default=1) == 1 else b.tile(value, times)


def around(value: Value, axis: int) -> tuple[int, int, int]:
    """Count the elements before an axis, along it, and after it."""
    shape = sizes_of(value)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def between(b: Builder, value: Value, bounds: Sequence[float | None]) -> Value:
    """Clamp the value to a lower and an upper bound; None means no bound."""
    low, high = bounds
    if low is not None:
        value = b.maximum(value, low)
    return value if high is None else b.minimum(value, high)
