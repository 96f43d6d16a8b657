"""Control flow: the regions use only operators that keep their operand's type and shape."""

from __future__ import annotations

from typing import Final

from tosa_convert.golden.random_graphs.builder import ELEMENT_TYPES, GraphBuilder, Value, rule
from tosa_convert.graph.dtypes import dtype
from tosa_convert.graph.model import Block, Region, Tensor

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


def _region_builder(
    builder: GraphBuilder, name: str, values: list[Value]
) -> tuple[GraphBuilder, list[Value]]:
    """A builder for a region's block with an input for each value."""
    inner = GraphBuilder(
        builder.random, Block(name), regions=builder.regions, depth=builder.depth + 1
    )
    arguments = []
    for value in values:
        argument = Value(inner.name("argument"), value.dtype, value.shape, value.bound)
        inner.block.tensors[argument.name] = Tensor(argument.name, dtype(value.dtype), value.shape)
        inner.block.inputs.append(argument.name)
        arguments.append(argument)
    return inner, arguments


def _append_operators(inner: GraphBuilder, v: Value, kinds: tuple[str, ...]) -> Value:
    """Append operators that use a value; returns the last result of its type and shape, or the value."""
    count = inner.random.randint(0, 3)
    inner.values = [v]
    for _ in range(12):
        if len(inner.values) > count:
            break
        inner.try_rule(inner.random.choice(kinds))
    return [w for w in inner.values if (w.dtype, w.shape) == (v.dtype, v.shape)][-1]


def _reserve_region(builder: GraphBuilder, prefix: str) -> str:
    """The name of a new region, which is empty until `_finish_region`."""
    name = f"{prefix}{len(builder.regions)}"
    builder.regions.append(Region(name))
    return name


def _finish_region(
    builder: GraphBuilder, name: str, inner: GraphBuilder, outputs: list[str]
) -> None:
    inner.block.outputs = outputs
    next(region for region in builder.regions if region.name == name).blocks = [inner.block]


@rule("COND_IF")
def _cond_if(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick(ELEMENT_TYPES, bound=2**20)
    if v is None or builder.depth >= _MOST_NESTED:
        return False
    available = [c for c in builder.values if c.dtype == "BOOL" and c.count == 1]
    condition = builder.random.choice(available) if available else builder.input("BOOL", (1,))
    names, bound = [], 0
    for prefix in ("then", "else"):
        names.append(_reserve_region(builder, prefix))
        inner, (argument,) = _region_builder(builder, names[-1], [v])
        result = _append_operators(inner, argument, (*_KEEP_TYPE, "COND_IF", "WHILE_LOOP"))
        _finish_region(builder, names[-1], inner, [result.name])
        bound = max(bound, result.bound)
    regions = {"then_graph": names[0], "else_graph": names[1]}
    return builder.emit(name, [condition.name, v.name], [(v.dtype, v.shape)], bound, **regions)


@rule("WHILE_LOOP")
def _while_loop(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick(ELEMENT_TYPES, bound=2**20)
    if v is None or builder.depth >= _MOST_NESTED:
        return False
    iterations = builder.random.randint(0, _MOST_ITERATIONS)
    count = Value(builder.const("INT32", [0], (1,)), "INT32", (1,), _MOST_ITERATIONS)
    condition, body = _reserve_region(builder, "condition"), _reserve_region(builder, "body")
    inner, (iteration, _) = _region_builder(builder, condition, [count, v])
    inner.emit(
        "GREATER", [inner.const("INT32", [iterations], (1,)), iteration.name], [("BOOL", (1,))]
    )
    _finish_region(builder, condition, inner, [inner.values[-1].name])
    inner, (iteration, argument) = _region_builder(builder, body, [count, v])
    inner.emit("ADD", [iteration.name, inner.const("INT32", [1], (1,))], [("INT32", (1,))])
    following = inner.values[-1]
    result = _append_operators(inner, argument, _KEEP_RANGE)
    _finish_region(builder, body, inner, [following.name, result.name])
    bound = v.bound + _MOST_ITERATIONS * (abs(result.bound - v.bound) + 1)
    results = [("INT32", (1,)), (v.dtype, v.shape)]
    regions = {"cond_graph": condition, "body_graph": body}
    return builder.emit(name, [count.name, v.name], results, bound, **regions)
