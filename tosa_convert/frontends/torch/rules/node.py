"""An operator of a torch program while it is lowered, and what its rule takes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.arithmetic import clip
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import FLOAT32, INT32, INT64, is_float, is_small, neutral

#: Types of torch that its tensors do not have as arrays of numpy; ml_dtypes gives numpy their names.
_EXTENDED: Final = (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
_FP8: Final = (np.dtype("float8_e4m3fn"), np.dtype("float8_e5m2"))
#: Whether this torch makes the largest E4M3 of what does not fit; others make NaN.
_SATURATES: Final = bool(torch.tensor(1e3).to(torch.float8_e4m3fn).to(torch.float32) == 448)


def kind_of(dtype: Any) -> np.dtype[Any]:
    name = str(dtype).removeprefix("torch.")
    try:
        return np.dtype(name)
    except TypeError:
        raise NotLowered(f"TOSA does not have the element type {name}", "cast it") from None


def own_kind(kind: np.dtype[Any], narrow: Collection[str]) -> np.dtype[Any]:
    """Return an element type, or the one of 32 bits if floating-point numbers of 64 are narrowed."""
    if "f64" not in narrow or str(kind) not in ("float64", "complex128"):
        return kind
    return FLOAT32 if kind == np.float64 else np.dtype(np.complex64)


def view_of(tensor: Any) -> Any:
    """Return the elements of a tensor, in torch's own memory."""
    held = tensor.detach().cpu()
    if held.is_conj() or held.is_neg():
        held = held.resolve_conj().resolve_neg()
    if held.dtype not in _EXTENDED:
        return held.numpy()
    bits = torch.int16 if held.element_size() == 2 else torch.uint8
    return held.view(bits).numpy().view(kind_of(held.dtype))


def array_of(tensor: Any) -> Array:
    """Return a tensor as a constant; its elements are not copied."""
    data = view_of(tensor)
    return Array(data.dtype, tuple(tensor.shape), data)


@dataclass(slots=True)
class Node:
    """An operator that is lowered.

    scope: the block that gets its operators.
    shapes, dtypes: those of its results.
    narrow: the element types that are narrowed afterwards, such as "i64".
    raw: its operands as torch traced them: tensors without elements, and numbers.
    is_used: whether something uses the result with a number.
    run: lowers a graph that it takes, such as the body of a loop.
    """

    scope: Scope
    shapes: Sequence[tuple[int, ...]]
    dtypes: Sequence[Any]
    narrow: frozenset[str]
    raw: Sequence[Any]
    is_used: Callable[[int], bool]
    run: Callable[[Scope, Any, Sequence[Any]], list[Any]]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.shapes[0]

    @property
    def dtype(self) -> Any:
        return self.dtypes[0]

    @property
    def rank(self) -> int:
        return len(self.shapes[0])

    def unused(self, number: int) -> Array:
        """Return a result that nothing uses, or that is 0."""
        shape = self.shapes[number]
        data = np.zeros([min(size, 1) for size in shape], self.dtypes[number])
        return Array(data.dtype, shape, data)

    def neutral(self, word: str, dtype: Any) -> float:
        """Return the number that changes no other by "add", "mul", "max" or "min"."""
        return neutral(word, INT32 if dtype == INT64 and "i64" in self.narrow else dtype)

    def convert(self, a: Array, dtype: Any) -> Array:
        """Convert an array to another element type, as torch does."""
        s, kind = self.scope, np.dtype(dtype)
        if a.dtype == kind:
            return a
        if a.data is not None:
            with np.errstate(all="ignore"):
                return Array(kind, a.shape, a.data.astype(kind))
        if kind in _FP8:
            number = self.convert(a, FLOAT32)
            if kind == _FP8[0] and _SATURATES:
                number = clip(s, number, -448.0, 448.0)
            return s.cast(number, kind)
        if a.dtype in _FP8:
            return self.convert(s.cast(a, FLOAT32), kind)
        if is_float(a.dtype) and is_small(kind):
            # Integers of 8 and 16 bits get the low bits.
            return s.narrowed(converted(s, a, INT32), kind)
        return converted(s, a, kind)

    def index(self, a: Array) -> Array:
        """Convert indices to INT32: those that do not fit are beyond every array."""
        if a.dtype == INT32:
            return a
        return self.scope.cast(a, INT32) if a.dtype == INT64 else self.scope.widened(a)

    def ranked(self, a: Array, rank: int) -> Array:
        if a.rank >= rank:
            return a
        return movement.reshape(self.scope, a, (1,) * (rank - a.rank) + a.shape)

    def arrays(self, *values: Any, dtype: Any = None) -> list[Array]:
        """Return operands as arrays of one rank and type: numbers, and tensors of any type."""
        kind = self.dtype if dtype is None else dtype
        found = [
            self.convert(value, kind)
            if isinstance(value, Array)
            else constant(np.asarray(value).astype(kind))
            for value in values
        ]
        rank = max(item.rank for item in found)
        return [self.ranked(item, rank) for item in found]

    def promoted(self) -> np.dtype[Any]:
        """Return the type in which torch combines the first two operands."""
        return self.own(kind_of(torch.result_type(*self.raw[:2])))

    def own(self, kind: np.dtype[Any]) -> np.dtype[Any]:
        return own_kind(kind, self.narrow)


#: Lowers an operator: its node, and its operands.
Rule = Callable[..., Any]


def sizes_of(value: Any, count: int) -> list[int]:
    """Return a size for each axis, of which torch may have one for all."""
    given = list(value) if isinstance(value, Sequence) else [value]
    return given * count if len(given) == 1 else given


def axes_of(dim: Any, rank: int) -> list[int]:
    """Return the axes that an operator names, all if it names none, counted from the front."""
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return list(range(rank))
    given = [dim] if isinstance(dim, int) else dim
    return sorted({axis % rank for axis in given}) if rank else []
