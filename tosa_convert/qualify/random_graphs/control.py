"""Control flow, variables and shapes. The operators of regions keep their operand's type and shape."""

from __future__ import annotations

from typing import Final

from tosa_convert.builder import Builder, Value
from tosa_convert.qualify.random_graphs.builder import (
    ELEMENT_TYPES,
    INPUT_BOUND,
    RECENT,
    NoOperandsError,
    RandomBuilder,
    Shape,
    State,
    Tensor,
    rule,
)
from tosa_convert.qualify.random_graphs.tensors import block_pair
from tosa_convert.rules.families.shapes import ARITHMETIC

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


def _value_for_region(g: RandomBuilder) -> Tensor:
    """Pick a tensor for a region to work on."""
    if g.depth >= _MOST_NESTED:
        raise NoOperandsError
    return g.pick(ELEMENT_TYPES, bound=2**20)


def _append_operators(
    g: RandomBuilder, inner: Builder, value: Value, bound: int, kinds: tuple[str, ...]
) -> Tensor:
    """Append operators that use a value of a region; returns the last result of its type and shape."""
    region = RandomBuilder(g.random, inner, g.depth + 1, g.target)
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
    t = _value_for_region(g)
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
    t = _value_for_region(g)
    if not {"INT32", "BOOL"} <= {*g.target.inputs(ELEMENT_TYPES)}:
        raise NoOperandsError  # the condition compares integers
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


def _declare(g: RandomBuilder, t: Tensor) -> State:
    """Declare a variable of a tensor's type with an initial state."""
    most = 4 if t.value.dtype.is_float else min(100, INPUT_BOUND.get(t.dtype, 1))
    initial = g.random.choice((0, 1, most))
    variable = g.build.variable(g.name("state"), t.dtype, t.shape, initial)
    g.states.append(State(variable, 100))
    return g.states[-1]


@rule("VARIABLE_READ")
def _read(g: RandomBuilder, name: str) -> None:
    # The order of a read and a write is not defined: a variable is read only before it is written.
    available = [state for state in g.states if not state.written]
    if available and g.random.random() < 0.5:
        state = g.random.choice(available)
    else:
        state = _declare(g, g.operand(name, range(1, 7))[0])
    g.count_operator()
    g.record(g.build.read(state.variable), (), state.bound)


@rule("VARIABLE_WRITE")
def _write(g: RandomBuilder, name: str) -> None:
    t, _ = g.operand(name)
    same = [
        state
        for state in g.states
        if not state.written
        and (state.variable.type.dtype.name, state.variable.type.shape) == (t.dtype, t.shape)
    ]
    state = g.random.choice(same) if same else _declare(g, t)
    state.written = True
    g.count_operator()
    g.record(g.build.write(state.variable, t.value), (t.value.name,), 0)


#: The largest size, and the longest shape: tensors have at most this rank.
_MOST: Final = 1 << 20
_LONGEST: Final = 6


def _shape(g: RandomBuilder, length: int = -1) -> Shape:
    """Return a shape, an existing one or a new one; of this length, if one is given."""
    available = [
        s
        for s in g.shapes[-RECENT:]
        if 1 <= len(s.sizes) <= _LONGEST and length in (-1, len(s.sizes))
    ]
    if available and g.random.random() < 0.7:
        return g.random.choice(available)
    count = g.random.randint(1, 4) if length < 0 else length
    return g.shape([g.random.randint(1, 12) for _ in range(count)], new=True)


@rule(*ARITHMETIC)
def _arithmetic(g: RandomBuilder, name: str) -> None:
    one = _shape(g)
    other = _shape(g, len(one.sizes))
    made = list(map(ARITHMETIC[name], one.sizes, other.sizes))
    if any(size is None or not 0 <= size <= _MOST for size in made):
        raise NoOperandsError
    g.emit(name, one, other)


@rule("EXP2_SHAPE", "LOG2_CEIL_SHAPE", "LOG2_FLOOR_SHAPE")
def _logarithm(g: RandomBuilder, name: str) -> None:
    one = _shape(g)
    low, high = (0, 12) if name == "EXP2_SHAPE" else (1, _MOST)
    if not all(low <= size <= high for size in one.sizes):
        raise NoOperandsError
    g.emit(name, one)


@rule("CONCAT_SHAPE")
def _concat_shapes(g: RandomBuilder, name: str) -> None:
    parts = [_shape(g) for _ in range(g.random.randint(1, 3))]
    if sum(len(part.sizes) for part in parts) > _LONGEST:
        raise NoOperandsError
    g.emit(name, parts)


@rule("SLICE_SHAPE")
def _slice_shape(g: RandomBuilder, name: str) -> None:
    one = _shape(g)
    start = g.random.randrange(len(one.sizes))
    g.emit(name, one, start, g.random.randint(1, len(one.sizes) - start))


@rule("DIM")
def _dim(g: RandomBuilder, name: str) -> None:
    if g.random.random() < 0.1:
        t = g.random.choice(block_pair(g, g.random.randint(1, 4)))
    else:
        t = g.operand(name)[0].value
    g.emit(name, t, axis=g.random.randrange(len(t.shape)))


@rule("ASSERT_EQUAL_SHAPE")
def _assert_equal(g: RandomBuilder, name: str) -> None:
    # The reference model frees a shape at its first assertion: no other operator may take it.
    fresh = [s for s in g.shapes if s.name not in g.used and 1 <= len(s.sizes) <= _LONGEST]
    one = g.random.choice(fresh) if fresh else g.shape((g.random.randint(1, 12),), new=True)
    broadcast = g.random.random() < 0.5
    ones = [1 if broadcast and g.random.random() < 0.3 else size for size in one.sizes]
    other = g.shape(ones, new=True)
    g.emit(name, one, other, allow_broadcast=broadcast)
    g.shapes[:] = [shape for shape in g.shapes if shape not in (one, other)]
