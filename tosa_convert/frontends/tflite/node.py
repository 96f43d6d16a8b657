"""An operator of a TFLite model while it is lowered.

Quantised tensors of uint8 are held as int8, with elements and zero points that are 128 less: TOSA
computes with signed bytes. What has no scale is held as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from tosa_convert.frontends.lowering.arithmetic import clip, extremum
from tosa_convert.frontends.lowering.quantisation import rescaled
from tosa_convert.frontends.lowering.scope import (
    Array,
    Data,
    NotLowered,
    Scope,
    constant,
    whole_data,
)
from tosa_convert.frontends.lowering.types import carrier, is_float, refuse_empty
from tosa_convert.frontends.tflite.read import Operator, Tensor, TfliteFile
from tosa_convert.frontends.tflite.scales import ACTIVATIONS, rounded, single

_INT8: Final = np.dtype(np.int8)
_UINT8: Final = np.dtype(np.uint8)
#: How much smaller bytes are as signed ones.
_HALF: Final = 128
_KNOWN: Final = "make it a constant"


def is_shifted(tensor: Tensor) -> bool:
    """Return whether a tensor of uint8 is held as int8."""
    return tensor.dtype == "uint8" and bool(tensor.scale)


def element_of(tensor: Tensor) -> np.dtype[Any]:
    """Return the element type in which a tensor is held."""
    if is_shifted(tensor) or tensor.dtype == "int4":
        return _INT8
    try:
        return np.dtype(tensor.dtype)
    except TypeError:
        what = tensor.dtype or "of its tensor"
        raise NotLowered(f"TOSA does not have the element type {what}") from None


def zero_of(tensor: Tensor) -> int:
    """Return the zero point of a tensor as it is held."""
    return tensor.zero_point - (_HALF if is_shifted(tensor) else 0)


def raw_of(tensor: Tensor) -> np.dtype[Any]:
    """Return the element type that a tensor has in TFLite."""
    return _UINT8 if tensor.dtype == "uint8" else element_of(tensor)


def argument(s: Scope, name: str, tensor: Tensor, shape: tuple[int, ...]) -> Array:
    refuse_empty(shape)
    dtype = raw_of(tensor)
    value = s.builder.input(name, carrier(dtype), shape)
    return as_held(s, Array(dtype, shape, None, value), tensor)


def plain_of(s: Scope, a: Array, tensor: Tensor) -> Array:
    """Return an array with the numbers that its tensor has in TFLite."""
    return _moved(s, a, _UINT8) if is_shifted(tensor) and a.dtype == _INT8 else a


def as_held(s: Scope, a: Array, tensor: Tensor) -> Array:
    """Return bytes as a tensor holds them, from either form."""
    if a.dtype == _UINT8 and is_shifted(tensor):
        return _moved(s, a, _INT8)
    if a.dtype == _INT8 and tensor.dtype == "uint8" and not is_shifted(tensor):
        return _moved(s, a, _UINT8)
    return a


def _moved(s: Scope, a: Array, dtype: np.dtype[Any]) -> Array:
    """Convert bytes between signed and unsigned ones."""
    to_signed = dtype == _INT8
    if a.data is not None:
        wide = a.data.astype(np.int16) + (-_HALF if to_signed else _HALF)
        return Array(dtype, a.shape, wide.astype(dtype))
    if a.origin is not None and a.origin[0] == "moved":
        return a.origin[1]
    made = rescaled(s, a, dtype, *((_HALF, 0) if to_signed else (0, _HALF)))
    made.origin = ("moved", a, ())
    return made


class Stop(Exception):
    """Something in a subgraph that an operator calls does not lower, and is named."""


class Walks(Protocol):
    """What goes through the subgraphs of a model, as rules see it.

    variables: those that are declared, by name.
    padded: what got zero points around it: what PAD gave, what it was given, and how many.
    """

    variables: dict[str, Any]
    padded: list[tuple[Array, Array, list[tuple[int, int]]]]

    def graph(self, scope: Scope, part: TfliteFile, given: Sequence[Array]) -> list[Array]: ...


@dataclass(frozen=True, slots=True)
class Node:
    """An operator that is lowered.

    scope: the block that gets the operators.
    kind: its name. operator: its row in the file. part: the subgraph in which it is.
    tensors: of its operands. given: their values; None for one that is left out, or is a state.
    results: the tensors that it makes.
    """

    scope: Scope
    kind: str
    operator: Operator
    part: TfliteFile
    tensors: Sequence[Tensor | None]
    given: Sequence[Array | None]
    results: Sequence[Tensor]
    walk: Walks

    # -- operands --------------------------------------------------------------------------------

    def has(self, index: int) -> bool:
        return index < len(self.given) and self.given[index] is not None

    def array(self, index: int) -> Array:
        """Return an operand as it is held."""
        found = self.given[index] if index < len(self.given) else None
        if found is None:
            raise LookupError(f"operand {index} is left out")
        return found

    @property
    def arrays(self) -> list[Array]:
        return [self.array(index) for index in range(len(self.given))]

    def pair(self) -> tuple[Array, Array]:
        """Return both of two operands, with one rank."""
        x, y = self.arrays
        x, y = self.scope.aligned([x, y])
        np.broadcast_shapes(x.shape, y.shape)
        return x, y

    def plain(self, index: int) -> Array:
        """Return an operand with the numbers that it has in TFLite."""
        return plain_of(self.scope, self.array(index), self.tensor(index))

    def like(self, index: int, other: int = 0) -> Array:
        """Return an operand as another one is held."""
        return as_held(self.scope, self.array(index), self.tensor(other))

    def tensor(self, index: int) -> Tensor:
        found = self.tensors[index]
        if found is None:
            raise LookupError(f"operand {index} is left out")
        return found

    def known(self, index: int) -> Data:
        """Return the elements of an operand that must be a constant."""
        a = self.array(index)
        if a.data is None:
            raise NotLowered(f"operand {index} is computed from the inputs of the model", _KNOWN)
        return whole_data(a)

    def ints(self, index: int) -> list[int]:
        """Return the elements of an operand that must be a constant list of integers."""
        return [int(n) for n in self.known(index).ravel()]

    def pairs(self, index: int) -> list[tuple[int, int]]:
        """Return the pairs of a constant list of integers, such as borders."""
        numbers = self.ints(index)
        return list(zip(numbers[::2], numbers[1::2], strict=True))

    # -- options ---------------------------------------------------------------------------------

    def option(self, position: int, form: str = "i", default: int = 0) -> int:
        return self.operator.option(position, form, default)

    def flag(self, position: int, default: bool = False) -> bool:
        return bool(self.option(position, "b", default))

    def real(self, position: int) -> float:
        return self.operator.options.real(position)

    # -- scales ----------------------------------------------------------------------------------

    @property
    def result(self) -> Tensor:
        return self.results[0]

    @property
    def is_quantised(self) -> bool:
        """Return whether the first operand is integers with a scale."""
        return bool(self.tensor(0).scales) and not is_float(self.array(0).dtype)

    def scale(self, index: int) -> float:
        return scale_of(self.tensor(index))

    def zero(self, index: int) -> int:
        return zero_of(self.tensor(index))

    @property
    def result_scale(self) -> float:
        return scale_of(self.result)

    @property
    def result_zero(self) -> int:
        return zero_of(self.result)

    def bounds(self, position: int) -> tuple[float | None, float | None]:
        """Return the bounds of the activation that is an option."""
        code = self.option(position, "b")
        if code not in ACTIVATIONS:
            raise NotLowered(f"TFLite does not have its activation, {code}, for this operator")
        return ACTIVATIONS[code]

    def activated(self, made: Array, position: int) -> Array:
        return self.bounded(made, *self.bounds(position))

    def bounded(self, made: Array, low: float | None, high: float | None) -> Array:
        """Return a result within bounds, which are numbers that quantised elements stand for."""
        s = self.scope
        if low is None and high is None:
            return made
        if is_float(made.dtype):
            least = -math.inf if low is None else low
            return clip(s, made, least, math.inf if high is None else high)
        if self.result.scale:
            zero, scale = self.result_zero, self.result_scale
            limits = np.iinfo(made.dtype)
            ends = [None if n is None else rounded(single(n / scale)) + zero for n in (low, high)]
            least, most = (
                outer if end is None else min(max(end, int(limits.min)), int(limits.max))
                for outer, end in zip((int(limits.min), int(limits.max)), ends, strict=True)
            )
            if (least, most) == (limits.min, limits.max):
                return made
            value = s.builder.clamp(s.value(made), min_val=least, max_val=most)
            return Array(made.dtype, made.shape, None, value)
        for bound, name in ((low, "maximum"), (high, "minimum")):
            if bound is not None:
                made = extremum(s, name, *s.aligned([made, constant(np.array(bound, made.dtype))]))
        return made

    def axis(self, position: int, rank: int) -> int:
        """Return an option that is an axis, counted from the first."""
        return place(self.option(position), rank)


def scale_of(tensor: Tensor) -> float:
    if not 0 < tensor.scale < math.inf:
        raise ValueError(f'"{tensor.name}" has no scale')
    return tensor.scale


def place(axis: int, rank: int) -> int:
    """Return an axis counted from the first."""
    if not -rank <= axis < max(rank, 1):
        raise LookupError(f"axis {axis} is not one of {rank}")
    return axis % max(rank, 1)


#: Lowers an operator: returns its results; None for one that makes nothing.
Rule = Callable[[Node], Array | Sequence[Array] | None]


def elementwise(function: Callable[..., Array]) -> Rule:
    """Return the rule that gives a function the operands, with the numbers that they have in TFLite."""
    return lambda n: function(n.scope, *(n.plain(index) for index in range(len(n.given))))
