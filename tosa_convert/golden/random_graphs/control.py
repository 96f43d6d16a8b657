"""Control flow: the regions use only operators that keep their operand's type and shape."""

from __future__ import annotations

from typing import Final

from tosa_convert.builder import Builder, Value
from tosa_convert.golden.random_graphs.builder import (
    ELEMENT_TYPES,
    NoOperandsError,
    RandomBuilder,
    Tensor,
    rule,
)

_KEEP_TYPE: Final = (
    "ABS",
    "ADD",
    "BITWISE_NOT",
    "CEIL",
    "CLAMP",
    "COS",
    "FLOOR",
    "IDENTITY",
    "LOGICAL_NOT",
    "LOGICAL_XOR",
    "MAXIMUM",
    "MINIMUM",
    "NEGATE",
    "REVERSE",
    "SIGMOID",
    "SIN",
    "SUB",
    "TANH",
)
#: A loop's body runs again on its own result: no value may grow with each iteration.
_KEEP_RANGE: Final = tuple(name for name in _KEEP_TYPE if name not in ("ADD", "SUB"))
#: Levels of nested regions.
_MOST_NESTED: Final = 2
_MOST_ITERATIONS: Final = 4


def _operand(g: RandomBuilder) -> Tensor:
    """Pick a tensor for a region to work on."""
    if g.depth >= _MOST_NESTED:
        raise NoOperandsError
    return g.pick(ELEMENT_TYPES, bound=2**20)


def _append_operators(
    g: RandomBuilder, inner: Builder, value: Value, bound: int, kinds: tuple[str, ...]
) -> Tensor:
    """Append operators that use a value of a region; returns the last result of its type and shape."""
    region = RandomBuilder(g.random, inner, g.depth + 1)
    first = region.add(value, bound)
    count = g.random.randint(0, 3)
    for _ in range(12):
        if len(region.tensors) > count:
            break
        region.try_rule(g.random.choice(kinds))
    same = (first.dtype, first.shape)
    return [t for t in region.tensors if (t.dtype, t.shape) == same][-1]


@rule("COND_IF")
def _cond_if(g: RandomBuilder, name: str) -> None:
    t = _operand(g)
    available = [c for c in g.tensors if c.dtype == "BOOL" and c.count == 1]
    condition = g.random.choice(available) if available else g.input("BOOL", (1,))
    bounds = []

    def region(inner: Builder, value: Value) -> Value:
        kinds = (*_KEEP_TYPE, "COND_IF", "WHILE_LOOP")
        result = _append_operators(g, inner, value, t.bound, kinds)
        bounds.append(result.bound)
        return result.value

    g.emit(name, condition, [t], region, region)
    g.tensors[-1] = Tensor(g.tensors[-1].value, t.dtype, t.shape, max(bounds))


@rule("WHILE_LOOP")
def _while_loop(g: RandomBuilder, name: str) -> None:
    t = _operand(g)
    iterations = g.random.randint(0, _MOST_ITERATIONS)
    grown = []

    def condition(inner: Builder, iteration: Value, _: Value) -> Value:
        return inner.greater(iterations, iteration)

    def body(inner: Builder, iteration: Value, value: Value) -> tuple[Value, Value]:
        following = inner.add(iteration, 1)
        result = _append_operators(g, inner, value, t.bound, _KEEP_RANGE)
        grown.append(abs(result.bound - t.bound) + 1)
        return following, result.value

    first = g.build.const([0], "INT32")
    _, result = g.emit(name, [first, t], condition, body, bound=_MOST_ITERATIONS)
    bound = t.bound + _MOST_ITERATIONS * grown[0] if t.bound else 0
    g.tensors[-1] = Tensor(result.value, t.dtype, t.shape, bound)
