"""Rules of recurrent operators: facts of the model first, then operators of the builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tosa_convert.frontends.lowering.scope import NotLowered, whole_data
from tosa_convert.frontends.tflite.node import Node, Rule, element_of
from tosa_convert.frontends.tflite.read import Operator, TfliteFile

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value

Facts = TypeVar("Facts")
_OTHER: Final = "TFLite has no kernel with its types, or its weights are computed"


class Given(NamedTuple):
    """What an operator is lowered from.

    operands: its operands, without states and those that it leaves out. constants: their elements; None
    for an operand that is not constant. rank: of the first result.
    """

    operands: Sequence[Value]
    constants: Sequence[Any]
    rank: int


def sizes_of(value: Value) -> tuple[int, ...]:
    return tuple(value.shape or ())


def between(b: Builder, value: Value, bounds: Sequence[float | None]) -> Value:
    """Clamp the value to a lower and an upper bound; None means no bound."""
    low, high = bounds
    if low is not None:
        value = b.maximum(value, low)
    return value if high is None else b.minimum(value, high)


def by_builder(
    find: Callable[[TfliteFile, Operator], Facts | None],
    lower: Callable[[Builder, Given, Facts], list[Value]],
) -> Rule:
    """Return the rule that finds the facts of an operator, and writes its operators with the builder."""

    def rule(n: Node) -> Any:
        facts = find(n.part, n.operator)
        if facts is None:
            raise NotLowered(_OTHER)
        s, arrays = n.scope, [a for a in n.given if a is not None and a.size]
        constants = [None if a.data is None else whole_data(a) for a in arrays]
        given = Given([s.whole(a) for a in arrays], constants, len(n.result.shape))
        made = lower(s.builder, given, facts)
        return [
            s.array(value, element_of(tensor))
            for value, tensor in zip(made, n.results, strict=True)
        ]

    return rule
