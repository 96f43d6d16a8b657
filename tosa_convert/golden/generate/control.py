"""Control flow: regions of their own, whose blocks are made by rules that change no type or shape."""

from __future__ import annotations

from typing import Final

from tosa_convert.golden.generate.builder import KINDS, Maker, Value, rule
from tosa_convert.graph.dtypes import dtype
from tosa_convert.graph.model import Block, Region, Tensor

_SAME: Final = (
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
#: A loop's body runs again on its own result: nothing in it may grow with each iteration.
_STEADY: Final = tuple(name for name in _SAME if name not in ("ADD", "SUB"))
#: Regions in regions.
_DEEPEST: Final = 2
_TURNS: Final = 4


def _inner(m: Maker, name: str, values: list[Value]) -> tuple[Maker, list[Value]]:
    """A maker for a region's block with an input for each value."""
    inner = Maker(m.random, Block(name), regions=m.regions, depth=m.depth + 1)
    arguments = []
    for value in values:
        argument = Value(inner.name("argument"), value.dtype, value.shape, value.bound)
        inner.block.tensors[argument.name] = Tensor(argument.name, dtype(value.dtype), value.shape)
        inner.block.inputs.append(argument.name)
        arguments.append(argument)
    return inner, arguments


def _some(inner: Maker, v: Value, kinds: tuple[str, ...]) -> Value:
    """A few operators behind a value; the last result of its type and shape, or the value itself."""
    count = inner.random.randint(0, 3)
    inner.values = [v]
    for _ in range(12):
        if len(inner.values) > count:
            break
        inner.attempt(inner.random.choice(kinds))
    return [w for w in inner.values if (w.dtype, w.shape) == (v.dtype, v.shape)][-1]


def _region(m: Maker, prefix: str) -> str:
    """A name for a region, held by an empty one until it is made."""
    name = f"{prefix}{len(m.regions)}"
    m.regions.append(Region(name))
    return name


def _close(m: Maker, name: str, inner: Maker, outputs: list[str]) -> None:
    inner.block.outputs = outputs
    next(region for region in m.regions if region.name == name).blocks = [inner.block]


@rule("COND_IF")
def _cond_if(m: Maker, name: str) -> bool:
    v = m.pick(KINDS, bound=2**20)
    if v is None or m.depth >= _DEEPEST:
        return False
    known = [c for c in m.values if c.dtype == "BOOL" and c.count == 1]
    condition = m.random.choice(known) if known else m.input("BOOL", (1,))
    names, bound = [], 0
    for prefix in ("then", "else"):
        names.append(_region(m, prefix))
        inner, (argument,) = _inner(m, names[-1], [v])
        result = _some(inner, argument, (*_SAME, "COND_IF", "WHILE_LOOP"))
        _close(m, names[-1], inner, [result.name])
        bound = max(bound, result.bound)
    regions = {"then_graph": names[0], "else_graph": names[1]}
    return m.emit(name, [condition.name, v.name], [(v.dtype, v.shape)], bound, **regions)


@rule("WHILE_LOOP")
def _while_loop(m: Maker, name: str) -> bool:
    v = m.pick(KINDS, bound=2**20)
    if v is None or m.depth >= _DEEPEST:
        return False
    turns = m.random.randint(0, _TURNS)
    count = Value(m.const("INT32", [0], (1,)), "INT32", (1,), _TURNS)
    condition, body = _region(m, "condition"), _region(m, "body")
    inner, (turn, _) = _inner(m, condition, [count, v])
    inner.emit("GREATER", [inner.const("INT32", [turns], (1,)), turn.name], [("BOOL", (1,))])
    _close(m, condition, inner, [inner.values[-1].name])
    inner, (turn, argument) = _inner(m, body, [count, v])
    inner.emit("ADD", [turn.name, inner.const("INT32", [1], (1,))], [("INT32", (1,))])
    following = inner.values[-1]
    result = _some(inner, argument, _STEADY)
    _close(m, body, inner, [following.name, result.name])
    bound = v.bound + _TURNS * (abs(result.bound - v.bound) + 1)
    results = [("INT32", (1,)), (v.dtype, v.shape)]
    regions = {"cond_graph": condition, "body_graph": body}
    return m.emit(name, [count.name, v.name], results, bound, **regions)
