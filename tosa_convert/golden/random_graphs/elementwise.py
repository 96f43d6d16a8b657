"""Elementwise operators and conversions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tosa_convert.golden.random_graphs.builder import (
    ELEMENT_TYPES,
    FLOATS,
    INT32_BOUND,
    INTEGERS,
    GraphBuilder,
    rule,
)
from tosa_convert.graph.dtypes import NanPropagationMode, RoundingMode, dtype
from tosa_convert.graph.opset import AttributeValue


@rule("CEIL", "FLOOR", "EXP", "LOG", "SIN", "COS", "ERF", "SIGMOID", "TANH", "RECIPROCAL", "RSQRT")
def _float_unary(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick(FLOATS)
    return v is not None and builder.emit(name, [v.name], [(v.dtype, v.shape)])


@rule("ABS", "IDENTITY", "BITWISE_NOT", "CLZ", "LOGICAL_NOT")
def _unary(builder: GraphBuilder, name: str) -> bool:
    kinds: Sequence[str] = {
        "ABS": (*FLOATS, "INT32"),
        "IDENTITY": ELEMENT_TYPES,
        "BITWISE_NOT": INTEGERS,
        "CLZ": ("INT32",),
        "LOGICAL_NOT": ("BOOL",),
    }[name]
    v = builder.pick(kinds)
    if v is None:
        return False
    bound = 32 if name == "CLZ" else v.bound + (name == "BITWISE_NOT")
    return builder.emit(name, [v.name], [(v.dtype, v.shape)], bound)


@rule("NEGATE")
def _negate(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick((*FLOATS, "INT8", "INT32"))
    if v is None:
        return False
    zeros = [builder.zero(v.dtype), builder.zero(v.dtype)]
    return builder.emit(name, [v.name, *zeros], [(v.dtype, v.shape)], v.bound)


@rule("POW")
def _pow(builder: GraphBuilder, name: str) -> bool:
    # TOSA leaves the power of a negative base, of NaN and of infinity unpredictable; inputs are finite.
    finite = [v for v in builder.values if v.dtype in FLOATS and v.name in builder.block.inputs]
    if not finite:
        return False
    v = builder.random.choice(finite)
    base = builder.const(
        v.dtype, [builder.random.randint(8, 64) / 32 for _ in range(v.count)], v.shape
    )
    return builder.emit(name, [base, v.name], [(v.dtype, v.shape)])


@rule("ADD", "SUB", "MAXIMUM", "MINIMUM")
def _binary(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick((*FLOATS, "INT32"), bound=INT32_BOUND // 2)
    if v is None:
        return False
    other, bound = builder.broadcast_operand(v, INT32_BOUND // 2)
    total = v.bound + bound if name in ("ADD", "SUB") else max(v.bound, bound)
    attributes: dict[str, AttributeValue] = {}
    if name in ("MAXIMUM", "MINIMUM"):
        attributes["nan_mode"] = builder.random.choice(
            (NanPropagationMode.PROPAGATE, NanPropagationMode.IGNORE)
        )
        if v.dtype not in FLOATS:
            attributes["nan_mode"] = NanPropagationMode.PROPAGATE
    return builder.emit(name, [v.name, other], [(v.dtype, v.shape)], total, **attributes)


@rule("MUL")
def _mul(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick((*FLOATS, "INT32"), bound=2**15)
    if v is None:
        return False
    other, bound = builder.broadcast_operand(v, 2**15)
    shift = builder.const("INT8", [0], (1,))
    return builder.emit(name, [v.name, other, shift], [(v.dtype, v.shape)], v.bound * bound)


@rule("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR", "LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR")
def _bits(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick(("BOOL",) if name.startswith("LOGICAL") else INTEGERS, bound=INT32_BOUND // 2)
    if v is None:
        return False
    other, bound = builder.broadcast_operand(v, INT32_BOUND // 2)
    size = 2 ** (max(v.bound, bound).bit_length())
    return builder.emit(name, [v.name, other], [(v.dtype, v.shape)], size)


@rule("ARITHMETIC_RIGHT_SHIFT", "LOGICAL_RIGHT_SHIFT", "LOGICAL_LEFT_SHIFT", "INTDIV")
def _shift(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick(("INT32",) if name == "INTDIV" else INTEGERS)
    if v is None:
        return False
    low, high = (1, 100) if name == "INTDIV" else (1, 7)
    values = [builder.random.randint(low, high) for _ in range(v.count)]
    other = builder.const(v.dtype, values, v.shape)
    bound = 2**31 - 1 if name.startswith("LOGICAL") else v.bound
    attributes: dict[str, AttributeValue] = {"round": False} if name.startswith("ARITH") else {}
    return builder.emit(name, [v.name, other], [(v.dtype, v.shape)], bound, **attributes)


@rule("EQUAL", "GREATER", "GREATER_EQUAL")
def _compare(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick((*FLOATS, "INT32"))
    if v is None:
        return False
    return builder.emit(name, [v.name, builder.broadcast_operand(v)[0]], [("BOOL", v.shape)])


@rule("SELECT")
def _select(builder: GraphBuilder, name: str) -> bool:
    condition = builder.pick(("BOOL",))
    if condition is None:
        return False
    kinds = (*FLOATS, *INTEGERS)
    same = [v for v in builder.values if v.shape == condition.shape and v.dtype in kinds]
    if not same:
        return False
    v = builder.random.choice(same)
    other, bound = builder.broadcast_operand(v)
    return builder.emit(
        name, [condition.name, v.name, other], [(v.dtype, v.shape)], max(v.bound, bound)
    )


@rule("CLAMP")
def _clamp(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick((*FLOATS, "INT8", "INT16"))
    if v is None:
        return False
    row = dtype(v.dtype)
    limits = np.asarray([-1, 1] if v.dtype in FLOATS else [-50, 60]).astype(row.numpy)
    low, high = (limits[i : i + 1].tobytes() for i in (0, 1))
    attributes: dict[str, AttributeValue] = {
        "min_val": low,
        "max_val": high,
        "nan_mode": NanPropagationMode.PROPAGATE,
    }
    return builder.emit(name, [v.name], [(v.dtype, v.shape)], min(v.bound, 60), **attributes)


@rule("TABLE")
def _table(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick(("INT8",))
    if v is None:
        return False
    table = builder.random_const("INT8", (256,), 127)
    return builder.emit(name, [v.name, table], [("INT8", v.shape)], 128)


@rule("CAST")
def _cast(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick((*INTEGERS, *FLOATS, "BOOL"))
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
    target = builder.random.choice(targets[v.dtype])
    bound = {"INT8": 128, "INT16": 32768, "INT32": max(v.bound, 1)}.get(target, 0)
    return builder.emit(name, [v.name], [(target, v.shape)], bound)


@rule("RESCALE")
def _rescale(builder: GraphBuilder, name: str) -> bool:
    v = builder.pick(INTEGERS, bound=INT32_BOUND - 1)
    if v is None:
        return False
    target = builder.random.choice(INTEGERS)
    shift = builder.random.randint(31, 38)
    return builder.emit(
        name,
        [
            v.name,
            builder.const("INT32", [builder.random.randint(2**30, 2**31 - 1)], (1,)),
            builder.const("INT8", [shift], (1,)),
            builder.zero(v.dtype),
            builder.zero(target),
        ],
        [(target, v.shape)],
        {"INT8": 128, "INT16": 32768, "INT32": v.bound + 1}[target],
        scale32=True,
        rounding_mode=builder.random.choice((RoundingMode.SINGLE_ROUND, RoundingMode.DOUBLE_ROUND)),
        per_channel=False,
        input_unsigned=False,
        output_unsigned=False,
    )
