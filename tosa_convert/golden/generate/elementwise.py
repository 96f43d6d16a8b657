"""Operators that look at one element of each operand at a time, and conversions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tosa_convert.golden.generate.builder import (
    FLOATS,
    INT32_BOUND,
    INTEGERS,
    KINDS,
    Maker,
    rule,
)
from tosa_convert.graph.dtypes import NanPropagationMode, RoundingMode, dtype
from tosa_convert.graph.opset import AttributeValue


@rule("CEIL", "FLOOR", "EXP", "LOG", "SIN", "COS", "ERF", "SIGMOID", "TANH", "RECIPROCAL", "RSQRT")
def _float_unary(m: Maker, name: str) -> bool:
    v = m.pick(FLOATS)
    return v is not None and m.emit(name, [v.name], [(v.dtype, v.shape)])


@rule("ABS", "IDENTITY", "BITWISE_NOT", "CLZ", "LOGICAL_NOT")
def _unary(m: Maker, name: str) -> bool:
    kinds: Sequence[str] = {
        "ABS": (*FLOATS, "INT32"),
        "IDENTITY": KINDS,
        "BITWISE_NOT": INTEGERS,
        "CLZ": ("INT32",),
        "LOGICAL_NOT": ("BOOL",),
    }[name]
    v = m.pick(kinds)
    if v is None:
        return False
    bound = 32 if name == "CLZ" else v.bound + (name == "BITWISE_NOT")
    return m.emit(name, [v.name], [(v.dtype, v.shape)], bound)


@rule("NEGATE")
def _negate(m: Maker, name: str) -> bool:
    v = m.pick((*FLOATS, "INT8", "INT32"))
    if v is None:
        return False
    zeros = [m.zero(v.dtype), m.zero(v.dtype)]
    return m.emit(name, [v.name, *zeros], [(v.dtype, v.shape)], v.bound)


@rule("POW")
def _pow(m: Maker, name: str) -> bool:
    # Of a base below zero, NaN and infinity TOSA leaves the power unpredictable: inputs are finite.
    finite = [v for v in m.values if v.dtype in FLOATS and v.name in m.block.inputs]
    if not finite:
        return False
    v = m.random.choice(finite)
    base = m.const(v.dtype, [m.random.randint(8, 64) / 32 for _ in range(v.count)], v.shape)
    return m.emit(name, [base, v.name], [(v.dtype, v.shape)])


@rule("ADD", "SUB", "MAXIMUM", "MINIMUM")
def _binary(m: Maker, name: str) -> bool:
    v = m.pick((*FLOATS, "INT32"), bound=INT32_BOUND // 2)
    if v is None:
        return False
    other, bound = m.partner(v, INT32_BOUND // 2)
    total = v.bound + bound if name in ("ADD", "SUB") else max(v.bound, bound)
    extra: dict[str, AttributeValue] = {}
    if name in ("MAXIMUM", "MINIMUM"):
        extra["nan_mode"] = m.random.choice(
            (NanPropagationMode.PROPAGATE, NanPropagationMode.IGNORE)
        )
        if v.dtype not in FLOATS:
            extra["nan_mode"] = NanPropagationMode.PROPAGATE
    return m.emit(name, [v.name, other], [(v.dtype, v.shape)], total, **extra)


@rule("MUL")
def _mul(m: Maker, name: str) -> bool:
    v = m.pick((*FLOATS, "INT32"), bound=2**15)
    if v is None:
        return False
    other, bound = m.partner(v, 2**15)
    shift = m.const("INT8", [0], (1,))
    return m.emit(name, [v.name, other, shift], [(v.dtype, v.shape)], v.bound * bound)


@rule("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR", "LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR")
def _bits(m: Maker, name: str) -> bool:
    v = m.pick(("BOOL",) if name.startswith("LOGICAL") else INTEGERS, bound=INT32_BOUND // 2)
    if v is None:
        return False
    other, bound = m.partner(v, INT32_BOUND // 2)
    size = 2 ** (max(v.bound, bound).bit_length())
    return m.emit(name, [v.name, other], [(v.dtype, v.shape)], size)


@rule("ARITHMETIC_RIGHT_SHIFT", "LOGICAL_RIGHT_SHIFT", "LOGICAL_LEFT_SHIFT", "INTDIV")
def _shift(m: Maker, name: str) -> bool:
    v = m.pick(("INT32",) if name == "INTDIV" else INTEGERS)
    if v is None:
        return False
    low, high = (1, 100) if name == "INTDIV" else (1, 7)
    values = [m.random.randint(low, high) for _ in range(v.count)]
    other = m.const(v.dtype, values, v.shape)
    bound = 2**31 - 1 if name.startswith("LOGICAL") else v.bound
    extra: dict[str, AttributeValue] = {"round": False} if name.startswith("ARITH") else {}
    return m.emit(name, [v.name, other], [(v.dtype, v.shape)], bound, **extra)


@rule("EQUAL", "GREATER", "GREATER_EQUAL")
def _compare(m: Maker, name: str) -> bool:
    v = m.pick((*FLOATS, "INT32"))
    if v is None:
        return False
    return m.emit(name, [v.name, m.partner(v)[0]], [("BOOL", v.shape)])


@rule("SELECT")
def _select(m: Maker, name: str) -> bool:
    condition = m.pick(("BOOL",))
    if condition is None:
        return False
    kinds = (*FLOATS, *INTEGERS)
    same = [v for v in m.values if v.shape == condition.shape and v.dtype in kinds]
    if not same:
        return False
    v = m.random.choice(same)
    other, bound = m.partner(v)
    return m.emit(name, [condition.name, v.name, other], [(v.dtype, v.shape)], max(v.bound, bound))


@rule("CLAMP")
def _clamp(m: Maker, name: str) -> bool:
    v = m.pick((*FLOATS, "INT8", "INT16"))
    if v is None:
        return False
    row = dtype(v.dtype)
    limits = np.asarray([-1, 1] if v.dtype in FLOATS else [-50, 60]).astype(row.numpy)
    low, high = (limits[i : i + 1].tobytes() for i in (0, 1))
    extra: dict[str, AttributeValue] = {
        "min_val": low,
        "max_val": high,
        "nan_mode": NanPropagationMode.PROPAGATE,
    }
    return m.emit(name, [v.name], [(v.dtype, v.shape)], min(v.bound, 60), **extra)


@rule("TABLE")
def _table(m: Maker, name: str) -> bool:
    v = m.pick(("INT8",))
    if v is None:
        return False
    table = m.random_const("INT8", (256,), 127)
    return m.emit(name, [v.name, table], [("INT8", v.shape)], 128)


@rule("CAST")
def _cast(m: Maker, name: str) -> bool:
    v = m.pick((*INTEGERS, *FLOATS, "BOOL"))
    if v is None:
        return False
    targets: dict[str, Sequence[str]] = {
        "BOOL": INTEGERS,
        "INT8": ("BOOL", "INT16", "INT32", "FP32", "FP16", "BF16"),
        "INT16": ("BOOL", "INT8", "INT32", "FP32", "FP16", "BF16"),
        "INT32": ("BOOL", "INT8", "INT16", "FP32", "FP16", "BF16"),
        "FP32": ("INT8", "INT16", "FP16", "BF16"),
        "FP16": ("INT8", "INT16", "FP32"),
        "BF16": ("INT8", "INT16", "FP32"),
    }
    target = m.random.choice(targets[v.dtype])
    bound = {"INT8": 128, "INT16": 32768, "INT32": max(v.bound, 1)}.get(target, 0)
    return m.emit(name, [v.name], [(target, v.shape)], bound)


@rule("RESCALE")
def _rescale(m: Maker, name: str) -> bool:
    v = m.pick(INTEGERS, bound=INT32_BOUND - 1)
    if v is None:
        return False
    target = m.random.choice(INTEGERS)
    shift = m.random.randint(31, 38)
    return m.emit(
        name,
        [
            v.name,
            m.const("INT32", [m.random.randint(2**30, 2**31 - 1)], (1,)),
            m.const("INT8", [shift], (1,)),
            m.zero(v.dtype),
            m.zero(target),
        ],
        [(target, v.shape)],
        {"INT8": 128, "INT16": 32768, "INT32": v.bound + 1}[target],
        scale32=True,
        rounding_mode=m.random.choice((RoundingMode.SINGLE_ROUND, RoundingMode.DOUBLE_ROUND)),
        per_channel=False,
        input_unsigned=False,
        output_unsigned=False,
    )
