"""Integers: casts, and unsigned ones, which torch-mlir takes for signed ones of the same bits."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from onnx import TensorProto, helper

from tosa_convert.frontends.onnx.decompositions.node import (
    Decomposition,
    NotDecomposedError,
    RefusedError,
)

#: Type of integers -> their least and greatest value.
RANGES: Final = {
    TensorProto.UINT8: (0, 255),
    TensorProto.INT8: (-128, 127),
    TensorProto.UINT16: (0, 65535),
    TensorProto.INT16: (-32768, 32767),
    TensorProto.INT4: (-8, 7),
    TensorProto.UINT4: (0, 15),
}
UNSIGNED: Final = (TensorProto.UINT8, TensorProto.UINT16)
#: Unsigned integers whose values INT32 does not hold.
WIDE: Final = (TensorProto.UINT32, TensorProto.UINT64)
_SHORT: Final = (TensorProto.INT8, TensorProto.INT16)
#: Types of real numbers -> their greatest.
FLOATS: Final = {
    TensorProto.FLOAT16: 65504.0,
    TensorProto.BFLOAT16: 3.3895313892515355e38,
    TensorProto.FLOAT: 3.4028234663852886e38,
    TensorProto.DOUBLE: float(np.finfo(np.float64).max),
}
#: Types of 8 bits -> their greatest number.
FP8: Final = {TensorProto.FLOAT8E4M3FN: 448.0, TensorProto.FLOAT8E5M2: 57344.0}
_LEAST: Final = -(1 << 31)
#: The numbers of half the bits of INT32.
_HALF: Final = 65536
#: A cast between an unsigned type and INT32 that keeps the bits, as torch-mlir has every such cast.
BITS: Final = "bits"
_HALF_POWER: Final = 0.5
#: The largest exponent of a power of integers: 2**31 does not fit INT32.
_MOST_FACTORS: Final = 31


def cast(e: Decomposition) -> None:
    """Casts of short and unsigned integers wrap around, and those to 8-bit floats saturate."""
    source, target = e.type(0), int(e.attribute("to", TensorProto.FLOAT))
    e.leave_if(e.node.doc_string == BITS or source == target, "it keeps the bits")
    x = e.inputs[0]
    if source in UNSIGNED:
        e.result(e.cast(widened(e, x, source), target))
    elif source in WIDE or target in WIDE:
        e.result(_cast_wide(e, x, source, target))
    elif source in FP8 and target not in FLOATS:
        e.result(e.cast(e.cast(x, TensorProto.FLOAT), target))
    elif target in FP8:
        e.result(to_fp8(e, x, source, target))
    elif source != TensorProto.INT32 and (
        target in UNSIGNED or (target in _SHORT and source != TensorProto.BOOL)
    ):
        # By INT32: casts of floats to shorter types saturate in TOSA, those of INT32 wrap around.
        e.result(as_bits(e, e.cast(x, TensorProto.INT32), target))
    else:
        raise NotDecomposedError("torch-mlir lowers it")


def _cast_wide(e: Decomposition, x: str, source: int, target: int) -> str:
    """Cast to or from UINT32; UINT64 only keeps its bits."""
    names = {kind: TensorProto.DataType.Name(kind) for kind in (source, target)}
    if source == TensorProto.UINT32 and target not in (TensorProto.INT64, TensorProto.UINT64):
        number = bits_of(e, x)
        if target not in (*FLOATS, *FP8):
            return number if target == TensorProto.INT32 else e.cast(number, target)
        # Both halves are exact, so that their sum is rounded once.
        halves = [as_bits(e, half, TensorProto.UINT16) for half in _shifted_and_whole(e, number)]
        high, low = (e.cast(half, TensorProto.FLOAT) for half in halves)
        return e.cast(e.op("Add", e.op("Mul", high, _real(e, _HALF)), low), target)
    if target == TensorProto.UINT32 and source not in (TensorProto.UINT64, TensorProto.DOUBLE):
        if source not in (*FLOATS, *FP8):
            return as_bits(e, e.cast(x, TensorProto.INT32))
        real = e.op("Floor", e.op("Max", e.cast(x, TensorProto.FLOAT), _real(e, 0)))
        high = e.op("Floor", e.op("Mul", real, _real(e, 1 / _HALF)))
        low = e.cast(e.op("Sub", real, e.op("Mul", high, _real(e, _HALF))), TensorProto.INT32)
        above = e.op("Sub", high, _real(e, _HALF))
        high = e.op("Where", e.op("Less", high, _real(e, _HALF / 2)), high, above)
        high = e.op("BitShift", e.cast(high, TensorProto.INT32), _int(e, 16), direction="LEFT")
        return as_bits(e, e.op("Add", high, low))
    raise RefusedError(f"TOSA has no cast from {names[source]} to {names[target]}")


def to_fp8(e: Decomposition, x: str, source: int, target: int) -> str:
    """Cast to a float of 8 bits; numbers beyond its greatest become that, unless `saturate` is 0."""
    if source not in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16):
        x, source = e.cast(x, TensorProto.FLOAT), TensorProto.FLOAT
    if e.attribute("saturate", 1):
        kind = helper.tensor_dtype_to_np_dtype(source)
        most = e.constant(FP8[target], kind)
        x = e.op("Max", e.op("Min", x, most), e.constant(-FP8[target], kind))
    elif target == TensorProto.FLOAT8E5M2:
        raise RefusedError("onnxruntime rounds to NaN beyond its range, and TOSA to infinity")
    return as_bits(e, x, target)


def _shifted_and_whole(e: Decomposition, x: str) -> tuple[str, str]:
    """Return two INT32 whose lowest 16 bits are the upper and the lower half of one."""
    return e.op("BitShift", x, _int(e, 16), direction="RIGHT"), x


def _int(e: Decomposition, value: int) -> str:
    return e.constant(value, np.int32)


def _real(e: Decomposition, value: float) -> str:
    return e.constant(value, np.float32)


def _moved(e: Decomposition, x: str) -> str:
    """Invert the highest bit of an INT32, by which unsigned ones have the order of signed ones."""
    below = e.op("Sub", e.op("Min", x, _int(e, -1)), _int(e, _LEAST))
    above = e.op("Add", e.op("Max", x, _int(e, 0)), _int(e, _LEAST))
    return e.op("Where", e.op("Less", x, _int(e, 0)), below, above)


def bits_of(e: Decomposition, x: str) -> str:
    """Return the bits of an unsigned integer as INT32."""
    made = e.cast(x, TensorProto.INT32)
    e.nodes[-1].doc_string = BITS
    return made


def as_bits(e: Decomposition, x: str, kind: int = TensorProto.UINT32) -> str:
    """Add a cast that stays as it is: of an INT32 to its lowest bits."""
    made = e.cast(x, kind)
    e.nodes[-1].doc_string = BITS
    return made


def widened(e: Decomposition, x: str, kind: int) -> str:
    """Convert an integer of 4 to 16 bits to INT32, keeping its value."""
    if kind not in UNSIGNED:
        return e.cast(x, TensorProto.INT32)
    bits = bits_of(e, x)
    above = e.op("Add", bits, _int(e, RANGES[kind][1] + 1))
    return e.op("Where", e.op("Less", bits, _int(e, 0)), above, bits)


def gather_bits(e: Decomposition) -> None:
    """Gather the bits of an unsigned table: torch-mlir makes an invalid constant of it."""
    kind = e.type(0)
    e.leave_if(kind not in UNSIGNED, "the table is not unsigned")
    table = e.value(0)
    signed = e.constant(table.view(np.int8 if table.itemsize == 1 else np.int16))
    rows = e.op("Gather", signed, e.inputs[1], axis=int(e.attribute("axis", 0)))
    e.result(as_bits(e, e.cast(rows, TensorProto.INT32), kind))


def bit_cast(e: Decomposition) -> None:
    """Keep the bits of integers: of one size, or of a boolean."""
    source, target = e.type(0), int(e.attribute("to"))
    if source == TensorProto.BOOL:
        return e.result(e.cast(e.inputs[0], target))
    pairs = (
        (TensorProto.INT8, TensorProto.UINT8),
        (TensorProto.INT16, TensorProto.UINT16),
        (TensorProto.INT32, TensorProto.UINT32),
    )
    same = any({source, target} <= set(pair) for pair in pairs)
    e.leave_if(not same, "TOSA has no cast that keeps the bits of other types")
    return e.result(as_bits(e, bits_of(e, e.inputs[0]), target))


def by_int32(e: Decomposition) -> None:
    """Arithmetic of unsigned integers on INT32."""
    kinds = [e.type(index) for index in range(len(e.inputs)) if e.has(index)]
    wide = next((kind for kind in kinds if kind in WIDE), None)
    if wide is not None:
        raise RefusedError(f"TOSA has no arithmetic of {TensorProto.DataType.Name(wide)}")
    _on_int32(e)


def by_order(e: Decomposition) -> None:
    """Comparisons of unsigned integers on INT32."""
    if any(e.has(index) and e.type(index) == TensorProto.UINT64 for index in range(len(e.inputs))):
        raise RefusedError("TOSA has no comparison of UINT64")
    _on_int32(e)


def _on_int32(e: Decomposition) -> None:
    count = len(e.inputs)
    found = [
        e.has(index) and e.type(index) in (*UNSIGNED, TensorProto.UINT32) for index in range(count)
    ]
    e.leave_if(not any(found), "no input is unsigned")
    inputs = [_comparable(e, index) if found[index] else e.inputs[index] for index in range(count)]
    results = e.ops(e.node.op_type, *inputs, outputs=len(e.node.output), **e.attributes)
    for index, result in enumerate(results):
        if e.wants(index):
            e.result(_back(e, result, e.output_type(index)), index)


def _comparable(e: Decomposition, index: int) -> str:
    """Return an input as a signed one of the same order: UINT32 without its highest bit."""
    x, kind = e.inputs[index], e.type(index)
    if kind in UNSIGNED:
        return widened(e, x, kind)
    return _moved(e, bits_of(e, x)) if kind == TensorProto.UINT32 else x


def _back(e: Decomposition, x: str, kind: int) -> str:
    """Return a result of `_comparable` inputs as the unsigned type, if it has that."""
    if kind == TensorProto.UINT32:
        return as_bits(e, _moved(e, x))
    return as_bits(e, x, kind) if kind in UNSIGNED else x


def absolute(e: Decomposition) -> None:
    """Keep the least integer, whose magnitude TOSA leaves open, or saturates."""
    if e.type(0) in (*UNSIGNED, *WIDE):
        return e.result(e.inputs[0])
    return _around_the_least(e)


def negated(e: Decomposition) -> None:
    """Keep the least integer, as what wraps around does."""
    _around_the_least(e)


def _around_the_least(e: Decomposition) -> None:
    x, kind = e.inputs[0], e.type(0)
    if kind in _SHORT:
        return e.result(as_bits(e, e.op(e.node.op_type, e.cast(x, TensorProto.INT32)), kind))
    e.leave_if(kind != TensorProto.INT32 or e.node.doc_string == BITS, "it has no such integer")
    made = e.op(e.node.op_type, e.op("Max", x, _int(e, _LEAST + 1)))
    e.nodes[-1].doc_string = BITS
    return e.result(e.op("Where", e.op("Equal", x, _int(e, _LEAST)), x, made))


def modulo(e: Decomposition) -> None:
    """Subtract a truncated quotient; floats are divided exactly by powers of two only."""
    x, y = e.inputs
    truncates = bool(e.attribute("fmod", 0))
    kind = e.numpy_type()
    if np.issubdtype(kind, np.integer):
        rest = e.op("Sub", x, e.op("Mul", e.op("Div", x, y), y))
        zero = e.like(0)
        if not truncates:
            signs = [e.op("Less", value, zero) for value in (rest, y)]
            moved = e.op("And", e.op("Xor", *signs), e.op("Not", e.op("Equal", rest, zero)))
            rest = e.op("Add", rest, e.op("Where", moved, y, zero))
        return e.result(rest)
    try:
        divisors = np.abs(e.value(1).astype(np.float64))
    except NotDecomposedError:
        divisors = np.zeros(1)
    if not (np.isfinite(divisors).all() and np.all(np.frexp(divisors)[0] == 0.5)):
        raise RefusedError(
            "the remainder of a division by other numbers than constant powers of two is not exact"
        )
    quotient = e.op("Div", x, y)
    whole = e.op("Mul", e.op("Sign", quotient), e.op("Floor", e.op("Abs", quotient)))
    return e.result(e.op("Sub", x, e.op("Mul", whole, y)))


def shift(e: Decomposition) -> None:
    """Shift unsigned integers on INT32, with zeros from the left."""
    kind, direction = e.type(0), e.attribute("direction")
    if kind == TensorProto.UINT64:
        raise RefusedError("TOSA has no shift of UINT64")
    if kind in UNSIGNED:
        return _on_int32(e)
    e.leave_if(kind != TensorProto.UINT32, "it is not unsigned")
    x, by = (bits_of(e, name) for name in e.inputs)
    if direction == "LEFT":
        return e.result(as_bits(e, e.op("BitShift", x, by, direction=direction)))
    # The highest bit moves on its own: INT32 would copy it.
    negative = e.op("Less", x, _int(e, 0))
    cleared = e.op("Sub", e.op("Min", x, _int(e, -1)), _int(e, _LEAST))
    rest = e.op("BitShift", e.op("Where", negative, cleared, x), by, direction=direction)
    highest = e.op("BitShift", _int(e, 1), e.op("Sub", _int(e, 31), by), direction="LEFT")
    return e.result(as_bits(e, e.op("Add", rest, e.op("Where", negative, highest, _int(e, 0)))))


def extreme_position(e: Decomposition) -> None:
    """Find the first or last place: torch-mlir compares in FP32, or negates, also the least integer."""
    kind, greatest = e.type(0), e.node.op_type == "ArgMax"
    exact = kind in FLOATS or (greatest and kind in _SHORT)
    last = bool(e.attribute("select_last_index", 0))
    e.leave_if(exact and not last, "torch-mlir lowers it")
    shape = e.shape(0)
    axis = int(e.attribute("axis", 0)) % len(shape)
    size = shape[axis]
    extreme = e.reduce("ReduceMax" if greatest else "ReduceMin", e.inputs[0], [axis])
    line = [-1 if other == axis else 1 for other in range(len(shape))]
    places = e.constant(np.arange(size, dtype=np.int32).reshape(line))
    chosen = e.op(
        "Where", e.op("Equal", e.inputs[0], extreme), places, _int(e, -1 if last else size)
    )
    keeps = int(e.attribute("keepdims", 1))
    found = e.reduce("ReduceMax" if last else "ReduceMin", chosen, [axis], keeps)
    e.result(e.cast(found, TensorProto.INT64))


def power(e: Decomposition) -> None:
    """Powers by products, where FP32 is not exact or TOSA's POW is not defined."""
    whole = np.issubdtype(e.numpy_type(), np.integer)
    try:
        exponents = np.unique(e.value(1).astype(np.float64))
    except NotDecomposedError:
        exponents = np.zeros(0)
    number = float(exponents[0]) if len(exponents) == 1 else -math.inf
    number = -math.inf if whole and number < 0 else number
    if abs(number) not in range(_MOST_FACTORS) and (whole or number != _HALF_POWER):
        if whole:
            raise RefusedError("powers of integers are products: the exponent must be one constant")
        raise NotDecomposedError("torch-mlir lowers it")
    shape = np.broadcast_shapes(e.shape(0), e.shape(1))
    if number == _HALF_POWER:  # Of minus infinity, Sqrt has no root.
        least = e.op("Equal", e.inputs[0], e.like(-np.inf))
        return e.result(e.op("Where", least, e.like(np.inf), e.op("Sqrt", e.inputs[0])))
    if not number:
        return e.result(e.constant(np.ones(shape, e.numpy_type())))
    x = e.inputs[0] if e.shape(0) == shape else e.op("Expand", e.inputs[0], e.ints(*shape))
    result, square, left = "", x, abs(int(number))
    while left:
        if left & 1:
            result = e.op("Mul", result, square) if result else square
        left >>= 1
        square = e.op("Mul", square, square) if left else square
    return e.result(e.op("Reciprocal", result) if number < 0 else result)


#: Operators that torch-mlir lowers right for unsigned integers, of which it keeps the bits.
_KEEP_BITS: Final = frozenset(
    (
        *("Identity", "Reshape", "Transpose", "Concat", "Split", "Slice", "Gather", "Squeeze"),
        *("GatherElements", "GatherND", "Unsqueeze", "Flatten", "Expand", "Tile", "Pad", "Where"),
        *(
            "Equal",
            "BitwiseAnd",
            "BitwiseOr",
            "BitwiseXor",
            "BitwiseNot",
            "Shape",
            "Size",
            "Constant",
        ),
        *("ScatterND", "ScatterElements", "DepthToSpace", "SpaceToDepth", "If", "Loop", "Scan"),
        *("Cast", "ConstantOfShape", "OneHot", "Compress", "NonZero"),
    )
)


def refuse_unsigned(e: Decomposition) -> None:
    """Refuse to leave an operator that computes with unsigned integers to torch-mlir."""
    kinds = {e.type(index) for index in range(len(e.inputs)) if e.has(index)}
    found = sorted(kinds & {*UNSIGNED, *WIDE})
    if found and e.node.op_type not in _KEEP_BITS:
        name = TensorProto.DataType.Name(found[0])
        raise RefusedError(f"torch-mlir takes {name} for a signed type, which gives other numbers")
