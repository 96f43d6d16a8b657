"""Elementwise operators and conversions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final

import numpy as np

from tosa_convert.graph.dtypes import MIDDLE_OF_UINT16
from tosa_convert.graph.opset import OPERATORS, OperatorSpec
from tosa_convert.qualify.random_graphs.builder import (
    FLOATS,
    INT32_BOUND,
    RULES,
    NoOperandsError,
    RandomBuilder,
    Rule,
    rule,
)
from tosa_convert.rules.types import rows

#: The bound of a result, from those of the operands; of others, what their bits can hold.
_BOUNDS: Final[dict[str, Callable[[int, int], int]]] = {
    **dict.fromkeys(("ADD", "SUB"), operator.add),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), max),
}
#: Whether RESCALE takes its input and its result as unsigned.
_SIGNS: Final = (*((False, False),) * 2, (True, False), (False, True))
#: The size of a table, by the element type of its indices.
_TABLE_SIZES: Final = {"INT8": 256, "INT16": 513}


@rule("IDENTITY")
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


def _binary(g: RandomBuilder, name: str) -> None:
    t, _ = g.operand(name, bound=INT32_BOUND // 2)
    other, bound = g.broadcast_operand(t, INT32_BOUND // 2)
    of_bits = 2 ** max(t.bound, bound).bit_length()
    total = _BOUNDS[name](t.bound, bound) if name in _BOUNDS else of_bits
    g.emit(name, t, other, bound=total, **g.keywords(name, t.dtype))


def _with_amounts(g: RandomBuilder, name: str) -> None:
    """Shift or divide by constants."""
    t, _ = g.operand(name)
    most = 100 if name == "INTDIV" else 7
    numbers = [g.random.randint(1, most) for _ in range(t.count)]
    other = g.build.const(np.array(numbers).reshape(t.shape), t.dtype)
    bound = 2**63 - 1 if name.startswith("LOGICAL") else t.bound
    g.emit(name, t, other, bound=bound, **g.keywords(name, t.dtype))


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
    low, high = sorted(g.random.randint(-100, 100) for _ in "lh")
    scale = 32 if t.value.dtype.is_float else 1
    limits = {"min_val": low / scale, "max_val": high / scale}
    if scale == 1:
        limits = {"min_val": low, "max_val": high}
    g.emit(name, t, bound=100, **limits, **g.keywords(name, t.dtype))


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
