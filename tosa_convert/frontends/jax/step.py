"""Holds an equation of a jaxpr while it is lowered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tosa_convert.frontends.lowering.scope import Array, Scope

#: Lowers a function of its own, such as the body of a loop: the block, the function, its arguments.
Run = Callable[[Scope, Any, Sequence[Array]], list[Array]]


@dataclass(frozen=True, slots=True)
class Step:
    """An operation that is lowered.

    scope: the block that gets the operators.
    inputs: its operands, all of them lowered.
    params: its parameters.
    shapes, dtypes: those of its results.
    run: lowers a function among the parameters.
    """

    scope: Scope
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


#: Lowers an operation.
Rule = Callable[[Step], Array | Sequence[Array]]
