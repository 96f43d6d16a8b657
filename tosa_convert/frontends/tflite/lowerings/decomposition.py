"""What a decomposition is, and steps that several of them have."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from tosa_convert.frontends.tflite.read import Operator, TfliteFile

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value

Facts = TypeVar("Facts")


class Given(NamedTuple):
    """What an operator is decomposed from.

    operands: its operands, without those that it leaves out. constants: their elements; None for an
    operand that is not constant. dtypes: their types in TFLite.
    shape, dtype: those of the first result.

    Unsigned integers are signed ones with the same bits.
    """

    operands: Sequence[Value]
    constants: Sequence[Any]
    dtypes: Sequence[str]
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Decomposition(Generic[Facts]):
    """Both halves of the decomposition of an operator that the converter does not lower.

    find: returns the facts of an operator in a model; True if operands and results say everything; None
        or False for one that is left to the converter. It may raise IndexError, ValueError or
        ZeroDivisionError for operands that TFLite does not take.
    lower: returns the results, computed by operators of TOSA.
    """

    find: Callable[[TfliteFile, Operator], Facts | None]
    lower: Callable[[Builder, Given, Facts], list[Value]]


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
