"""One equation of a jaxpr, as the function that lowers its primitive gets it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tosa_convert.frontends.jax.arrays import Array
from tosa_convert.frontends.jax.scope import Scope

#: Lowers a closed jaxpr in a block: the block, the jaxpr, its arguments -> its results.
Run = Callable[[Scope, Any, Sequence[Array]], list[Array]]


@dataclass(frozen=True, slots=True)
class Step:
    """An equation: a primitive, what it is applied to, and what it returns.

    scope: the block that gets the operators.
    name: the primitive.
    inputs: its operands, all of them lowered.
    params: its parameters.
    shape, dtype: those of its first result.
    shapes, dtypes: those of all results.
    run: lowers a jaxpr among the parameters.
    """

    scope: Scope
    name: str
    inputs: Sequence[Array]
    params: Mapping[str, Any]
    shapes: Sequence[tuple[int, ...]]
    dtypes: Sequence[Any]
    run: Run

    @property
    def shape(self) -> tuple[int, ...]:
        return self.shapes[0]

    @property
    def dtype(self) -> Any:
        return self.dtypes[0]


#: Lowers a primitive.
Rule = Callable[[Step], Array | Sequence[Array]]
