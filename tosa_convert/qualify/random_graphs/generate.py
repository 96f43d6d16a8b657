"""Generate random graphs that are valid: types, shapes, attributes and ranges of integer values.

Each operator's rule chooses operands among the values of the block and appends the operator with the
builder, which infers its results. Integer values carry a bound, so that nothing overflows where TOSA
leaves the result unpredictable. The same seed gives the same graph, byte for byte, on every machine.
"""

from __future__ import annotations

import operator as arithmetic
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

import numpy as np

from tosa_convert.builder import Builder, Value
from tosa_convert.errors import fail, refuse_unknown
from tosa_convert.graph.dtypes import MIDDLE_OF_UINT16, V1_0, V1_1
from tosa_convert.graph.model import Graph
from tosa_convert.graph.opset import operator, table_of
from tosa_convert.qualify.random_graphs.builder import (
    ELEMENT_TYPES,
    FLOATS,
    INPUT_BOUND,
    INT32_BOUND,
    RECENT,
    RULES,
    RULES_OF_WORDS,
    NoOperandsError,
    RandomBuilder,
    Shape,
    State,
    Target,
    Tensor,
    rule,
)
from tosa_convert.qualify.random_graphs.tensors import block_pair
from tosa_convert.rules.families.shapes import ARITHMETIC

# -- elementwise operators, conversions, control flow and variables --------------------------------

#: The bound of a result, from those of the operands; of others, what their bits can hold.
_BOUNDS: Final[dict[str, Callable[[int, int], int]]] = {
    **dict.fromkeys(("ADD", "SUB"), arithmetic.add),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), max),
}
#: Whether RESCALE takes its input and its result as unsigned.
_SIGNS: Final = (*((False, False),) * 2, (True, False), (False, True))
_TABLE_SIZES: Final = {"INT8": 256, "INT16": 513}


@rule("unary")
def _unary(g: RandomBuilder, name: str) -> None:
    t, _ = g.operand(name)
    g.emit(name, t, bound=64 if name == "CLZ" else t.bound + (name == "BITWISE_NOT"))


@rule("NEGATE")
def _negate(g: RandomBuilder, name: str) -> None:
    t, row = g.operand(name, bound=INT32_BOUND)
    g.emit(name, t, bound=t.bound, **g.zero_points(row, "input1_zp", "output_zp"))


@rule("POW")
def _pow(g: RandomBuilder, name: str) -> None:
    # TOSA leaves the power of a negative base, of NaN and of infinity unpredictable; inputs are finite.
    t = g.recent([t for t in g.inputs if t.dtype in FLOATS])
    base = [g.random.randint(8, 64) / 32 for _ in range(t.count)]
    g.emit(name, np.array(base).reshape(t.shape).astype(t.value.dtype.numpy), t)


@rule("binary")
def _binary(g: RandomBuilder, name: str) -> None:
    t, _ = g.operand(name, bound=INT32_BOUND // 2)
    other, bound = g.broadcast_operand(t, INT32_BOUND // 2)
    of_bits = 2 ** max(t.bound, bound).bit_length()
    total = _BOUNDS[name](t.bound, bound) if name in _BOUNDS else of_bits
    g.emit(name, t, other, bound=total, **g.keywords(name, t.dtype))


@rule("amounts")
def _with_amounts(g: RandomBuilder, name: str) -> None:
    t, _ = g.operand(name)
    most = 100 if name == "INTDIV" else 7
    numbers = [g.random.randint(1, most) for _ in range(t.count)]
    other = g.build.const(np.array(numbers).reshape(t.shape), t.value.dtype)
    bound = 2**63 - 1 if name.startswith("LOGICAL") else t.bound
    g.emit(name, t, other, bound=bound, **g.keywords(name, t.dtype))


@rule("comparison")
def _compare(g: RandomBuilder, name: str) -> None:
    t, _ = g.operand(name)
    g.emit(name, t, g.broadcast_operand(t)[0])


@rule("MUL")
def _mul(g: RandomBuilder, name: str) -> None:
    t, row = g.operand(name, bound=2**15)
    other, bound = g.broadcast_operand(t, 2**15)
    shift = g.random.choice((0, 0, 1, 7, 31)) if t.dtype == "INT32" else 0
    g.emit(name, t, other, shift, bound=(t.bound * bound >> shift) + 1, dtype=row.results[0])


@rule("SELECT")
def _select(g: RandomBuilder, name: str) -> None:
    condition, row = g.operand(name)
    element_type = str(row.operands[1])
    fitting = [t for t in g.tensors if (t.shape, t.dtype) == (condition.shape, element_type)]
    t = g.recent(fitting) if fitting else g.input(element_type, condition.shape)
    other, bound = g.broadcast_operand(t)
    g.emit(name, condition, t, other, bound=max(t.bound, bound))


@rule("CLAMP")
def _clamp(g: RandomBuilder, name: str) -> None:
    t, _ = g.operand(name)
    limits: list[float] = sorted(g.random.randint(-100, 100) for _ in "lh")
    low, high = [limit / 32 for limit in limits] if t.value.dtype.is_float else limits
    g.emit(name, t, bound=100, min_val=low, max_val=high, **g.keywords(name, t.dtype))


@rule("TABLE")
def _table(g: RandomBuilder, name: str) -> None:
    t, row = g.operand(name)
    table = g.random_const(t.dtype, (_TABLE_SIZES[t.dtype],), 16000)
    g.emit(name, t, table, bound=128 * 16001, dtype=row.results[0])


@rule("CAST")
def _cast(g: RandomBuilder, name: str) -> None:
    t, row = g.operand(name)
    bound = 2**63 if t.value.dtype.is_float else max(t.bound, 1)
    # An integer that the result cannot hold wraps.
    if t.bound > 1 << (row.results[0].bits - 1):
        bound = 2**63
    g.emit(name, t, dtype=row.results[0], bound=bound)


@rule("RESCALE")
def _rescale(g: RandomBuilder, name: str) -> None:
    t, row = g.operand(name, bound=INT32_BOUND - 1)
    wide, result = row.attribute == "True", str(row.results[0])
    if wide and t.dtype == "INT48":
        raise NoOperandsError  # the row is there, and ERROR_IF(scale32 && is_same<in_out_t,i48_t>())
    per_channel = g.random.random() < 0.3
    count = t.shape[-1] if per_channel else 1
    factors = (2**30, 2**31 - 1) if wide else (2**14, 2**15 - 1)
    modes = ("SINGLE_ROUND", "DOUBLE_ROUND") if wide else ("SINGLE_ROUND",)
    unsigned = g.random.choice(_SIGNS)
    if {t.dtype, result} & {"INT32", "INT48"}:
        unsigned = (False, False)
    bound = t.bound + 256 if not unsigned[0] else 1 << 17
    # Scaled values fit into 32 bits.
    least = 31 if wide else max(2, bound.bit_length() - 14)
    g.emit(
        name,
        t,
        g.build.const([g.random.randint(*factors) for _ in range(count)], row.operands[1]),
        g.build.const([g.random.randint(least, least + 7) for _ in range(count)], "INT8"),
        scale32=wide,
        per_channel=per_channel,
        rounding_mode=g.random.choice(modes),
        input_unsigned=unsigned[0],
        output_unsigned=unsigned[1],
        input_zp=_zero_point(g, t.dtype, unsigned[0]),
        output_zp=_zero_point(g, result, unsigned[1]),
        dtype=result,
        bound=bound + 1 if wide else (bound << 15 >> least) + 1,
    )


def _zero_point(g: RandomBuilder, element_type: str, unsigned: bool) -> int:
    """Return a zero point that RESCALE takes; that of unsigned elements has their bits."""
    if element_type == "INT8":
        return g.random.randint(-128, 127)
    return g.random.choice((0, MIDDLE_OF_UINT16)) if unsigned else 0


# -- control flow, variables and shapes: operators of regions keep their operand's type and shape --

_KEEP_TYPE: Final = (
    *("ABS", "ADD", "BITWISE_NOT", "CEIL", "CLAMP", "COS", "FLOOR", "IDENTITY", "LOGICAL_NOT"),
    *("LOGICAL_XOR", "MAXIMUM", "MINIMUM", "NEGATE", "REVERSE", "SIGMOID", "SIN", "SUB", "TANH"),
)
#: A loop's body runs again on its own result: no value may grow with each iteration.
_KEEP_RANGE: Final = tuple(name for name in _KEEP_TYPE if name not in ("ADD", "SUB"))
_MOST_NESTED: Final = 2
_MOST_ITERATIONS: Final = 4


def _value_for_region(g: RandomBuilder) -> Tensor:
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
        result = _append_operators(g, inner, value, t.bound, (*_KEEP_TYPE, "COND_IF", "WHILE_LOOP"))
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
    variable = g.build.variable(g.name("state"), t.value.dtype, t.shape, initial)
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


@rule("arithmetic")
def _arithmetic(g: RandomBuilder, name: str) -> None:
    one = _shape(g)
    other = _shape(g, len(one.sizes))
    made = list(map(ARITHMETIC[name], one.sizes, other.sizes))
    if any(size is None or not 0 <= size <= _MOST for size in made):
        raise NoOperandsError
    g.emit(name, one, other)


@rule("logarithm")
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


# -- the public function `generate` ----------------------------------------------------------------

__all__ = ["NOT_GENERATED", "RULES", "generate"]

RULES.update(table_of("random", RULES_OF_WORDS))
#: Operators that programs have by default: those that the newest tools take.
GENERATED: Final = sorted(name for name in RULES if operator(name).is_in_tools)
#: Operators without a rule, and why.
NOT_GENERATED: Final = {
    "CONST": "is added with the operator that takes it",
    "CONST_SHAPE": "is added with the operator that takes it",
    "VARIABLE": "is not an operator in a file: a tensor declares the variable",
    "CUSTOM": "only its implementation defines what it computes",
}


def generate(
    seed: int,
    operators: int,
    *,
    kinds: Sequence[str] | None = None,
    profile: str | Iterable[str] | None = None,
    types: Iterable[str] | None = None,
    level: Literal["8k", "none"] = "8k",
    scaled: bool = False,
) -> Graph:
    """Generate a random valid graph.

    Args:
        seed: any integer. The same arguments give the same graph, byte for byte.
        operators: how many operators the main block has, constants not counted.
        kinds: names of operators to choose from; by default all that can be generated and that the
            newest tosa-tools have, and for odd seeds those of TOSA 1.0.
        profile: the profiles and extensions that the program may need, such as "PRO-INT,EXT-INT16"; by
            default all.
        types: element types of inputs and of what operators compute, such as ["INT8", "INT32"]; by
            default all. Constants have the types that their operator needs.
        level: "8k" or "none". Programs keep to 8k in both.
        scaled: whether tensors may be block-scaled and hold their scales, and products of matrices have
            any batches, neither of which the reference model runs.

    Returns:
        The graph; the values that no operator uses are its outputs.

    Raises:
        TosaConvertError: `option-conflict` if an operator is unknown, cannot be generated, or finds
            no operands; if the profile or the types do not allow one that was named.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> [op.spec.name for op in graph.main.operators]
        ['ABS', 'ABS', 'ABS']
    """
    chosen = GENERATED if kinds is None else list(dict.fromkeys(kinds))
    unknown = [name for name in chosen if name not in RULES]
    if unknown or not chosen or operators < 1:
        raise fail(
            "option-conflict",
            "generate",
            f"cannot generate {', '.join(unknown) or f'{operators} operators'}",
            "operators that can be generated: " + ", ".join(sorted(RULES)),
        )
    refuse_unknown("level", level, ("8k", "none"))
    target = Target.of(profile, types, V1_0 if kinds is None and seed % 2 else V1_1)
    if kinds is not None:
        target.refuse_impossible(chosen)
    chosen = target.taken(chosen)
    if not chosen or not target.inputs(ELEMENT_TYPES):
        message = f"no program can be generated with {target}"
        known = ", ".join(ELEMENT_TYPES)
        raise fail("option-conflict", "generate", message, f"inputs have one of {known}")
    # Seeded with text: the same on every platform and Python.
    source = random.Random(f"tosa {seed} {operators}")
    made = RandomBuilder(source, Builder("main"), target=target, is_scaled=scaled)
    for _ in range(3):
        made.input()
    refused = 0
    while made.operators < operators:
        if made.try_rule(made.random.choice(chosen)):
            refused = 0
            continue
        refused += 1
        if refused % 20 == 0:
            made.input()
        if refused > 2000:
            raise fail(
                "option-conflict",
                "generate",
                f"no operands were found for {', '.join(chosen)}{f' with {target}' * bool(str(target))}",
            )
    unused = [
        t.value
        for t in (*made.tensors, *made.held)
        if t.value.name not in made.build.block.inputs and t.value.name not in made.used
    ]
    # Operators on shapes leave no tensor, but a program has at least one output.
    made.build.output(*(unused or [made.inputs[0].value]))
    return made.build.graph()
