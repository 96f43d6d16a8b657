"""Elementwise operators and conversions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tosa_convert.golden.random_graphs.builder import (
    ELEMENT_TYPES,
    FLOATS,
    INT32_BOUND,
    INTEGERS,
    RULES,
    RandomBuilder,
    Rule,
    rule,
    types_of,
)
from tosa_convert.graph.opset import OPERATORS, OperatorSpec
from tosa_convert.graph.opset import operator as row_of
from tosa_convert.rules.types import rows

#: The bound of a result, from those of the operands; of others, what their bits can hold.
_BOUNDS: Final[dict[str, Callable[[int, int], int]]] = {
    **dict.fromkeys(("ADD", "SUB"), operator.add),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), max),
}
_CAST: Final = {
    "BOOL": INTEGERS,
    "INT8": ("BOOL", "INT16", "INT32", "FP32", "FP16", "BF16"),
    "INT16": ("BOOL", "INT8", "INT32", "FP32", "FP16", "BF16"),
    "INT32": ("BOOL", "INT8", "INT16", "FP32", "FP16", "BF16"),
    "FP32": ("INT8", "INT16", "FP16", "BF16"),
    "FP16": ("INT8", "INT16", "FP32"),
    "BF16": ("INT8", "INT16", "FP32"),
}


@rule("IDENTITY")
def _unary(g: RandomBuilder, name: str) -> None:
    t = g.pick(types_of(name) - {"INT16"} if name == "NEGATE" else types_of(name))
    g.emit(name, t, bound=32 if name == "CLZ" else t.bound + (name == "BITWISE_NOT"))


@rule("POW")
def _pow(g: RandomBuilder, name: str) -> None:
    # TOSA leaves the power of a negative base, of NaN and of infinity unpredictable; inputs are finite.
    t = g.recent([t for t in g.inputs if t.dtype in FLOATS])
    base = [g.random.randint(8, 64) / 32 for _ in range(t.count)]
    g.emit(name, np.array(base).reshape(t.shape).astype(t.value.dtype.numpy), t)


def _binary(g: RandomBuilder, name: str) -> None:
    t = g.pick(types_of(name), bound=INT32_BOUND // 2)
    other, bound = g.broadcast_operand(t, INT32_BOUND // 2)
    keywords: dict[str, Any] = {}
    if t.dtype in FLOATS and any(row.name == "nan_mode" for row in row_of(name).attributes):
        keywords["nan_mode"] = g.random.choice(("PROPAGATE", "IGNORE"))
    of_bits = 2 ** max(t.bound, bound).bit_length()
    total = _BOUNDS[name](t.bound, bound) if name in _BOUNDS else of_bits
    g.emit(name, t, other, bound=total, **keywords)


def _with_amounts(g: RandomBuilder, name: str) -> None:
    """Shift or divide by constants."""
    t = g.pick(types_of(name))
    most = 100 if name == "INTDIV" else 7
    numbers = [g.random.randint(1, most) for _ in range(t.count)]
    other = g.build.const(np.array(numbers).reshape(t.shape), t.dtype)
    g.emit(name, t, other, bound=2**31 - 1 if name.startswith("LOGICAL") else t.bound)


def _compare(g: RandomBuilder, name: str) -> None:
    t = g.pick(types_of(name))
    g.emit(name, t, g.broadcast_operand(t)[0])


@rule("MUL")
def _mul(g: RandomBuilder, name: str) -> None:
    t = g.pick((*FLOATS, "INT32"), bound=2**15)
    other, bound = g.broadcast_operand(t, 2**15)
    g.emit(name, t, other, bound=t.bound * bound)


@rule("SELECT")
def _select(g: RandomBuilder, name: str) -> None:
    condition = g.pick(("BOOL",))
    kinds = (*FLOATS, *INTEGERS)
    t = g.recent([t for t in g.tensors if t.shape == condition.shape and t.dtype in kinds])
    other, bound = g.broadcast_operand(t)
    g.emit(name, condition, t, other, bound=max(t.bound, bound))


@rule("CLAMP")
def _clamp(g: RandomBuilder, name: str) -> None:
    t = g.pick((*FLOATS, "INT8", "INT16"))
    low, high = (-1, 1) if t.dtype in FLOATS else (-50, 60)
    g.emit(name, t, min_val=low, max_val=high, bound=min(t.bound, 60))


@rule("TABLE")
def _table(g: RandomBuilder, name: str) -> None:
    g.emit(name, g.pick(("INT8",)), g.random_const("INT8", (256,), 127), bound=128)


@rule("CAST")
def _cast(g: RandomBuilder, name: str) -> None:
    t = g.pick(ELEMENT_TYPES)
    target = g.random.choice(_CAST[t.dtype])
    bound = {"INT8": 128, "INT16": 32768, "INT32": max(t.bound, 1)}.get(target, 0)
    g.emit(name, t, dtype=target, bound=bound)


@rule("RESCALE")
def _rescale(g: RandomBuilder, name: str) -> None:
    t = g.pick(INTEGERS, bound=INT32_BOUND - 1)
    target = g.random.choice(INTEGERS)
    g.emit(
        name,
        t,
        g.random.randint(2**30, 2**31 - 1),
        g.random.randint(31, 38),
        rounding_mode=g.random.choice(("SINGLE_ROUND", "DOUBLE_ROUND")),
        dtype=target,
        bound={"INT8": 128, "INT16": 32768, "INT32": t.bound + 1}[target],
    )


def _rule_of(row: OperatorSpec) -> Rule:
    """Return the rule of an elementwise operator that has none of its own."""
    if row.elementwise == 1:
        return _unary
    if row.operands[1].domain:
        return _with_amounts
    returns_bool = any(types.results != types.operands[:1] for types in rows(row))
    return _compare if returns_bool else _binary


for _row in OPERATORS:
    if _row.family in ("elementwise", "activation") and _row.name not in RULES:
        RULES[_row.name] = _rule_of(_row)
