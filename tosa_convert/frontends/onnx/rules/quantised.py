"""Operators that quantise and dequantise, and products of quantised tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement, quantisation
from tosa_convert.frontends.lowering.arithmetic import clip, divided
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.reductions import extreme
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant, whole_data
from tosa_convert.frontends.lowering.types import FLOAT32, INT32
from tosa_convert.frontends.onnx.node import Node, Rule
from tosa_convert.frontends.onnx.rules.movement import dtype_of
from tosa_convert.frontends.onnx.rules.products import convolved, matmul

_UINT8: Final = np.dtype(np.uint8)
_BYTES: Final = (np.dtype(np.int8), _UINT8)
_FP8: Final = ("float8_e4m3fn", "float8_e5m2")
#: ONNX's number of FP32, in which quotients are computed.
_FLOAT: Final = 1
#: Operators that are computed with integers where both operands are dequantised.
PRODUCTS: Final = ("Conv", "ConvTranspose", "Gemm", "MatMul")
#: FP32 holds every integer below this.
_EXACT: Final = 1 << 24


@dataclass(slots=True, eq=False)
class Dequantised(Array):
    """A tensor of FP32 that was dequantised. of: the integers, their scale and zero point."""

    of: tuple[Array, Array, Array | None] | None = None


# -- scales and zero points ------------------------------------------------------------------------


def along(n: Node, x: Array, a: Array, axis: int, block: int = 0) -> Array:
    """Let a scale or zero point broadcast with a tensor: one for all, along an axis, or for blocks."""
    if a.size == 1:
        return movement.reshape(n.scope, a, ())
    if block:
        if a.rank != x.rank:
            raise NotLowered(f"scales of blocks have {a.rank} dimensions, expected {x.rank}")
        return _repeated(n.scope, a, axis, block, x.shape[axis])
    shape = [1] * x.rank
    shape[axis] = a.size
    if a.size != x.shape[axis]:
        raise NotLowered(f"it has {a.size} scales for an axis of {x.shape[axis]}")
    return movement.reshape(n.scope, a, shape)


def _repeated(s: Scope, a: Array, axis: int, block: int, size: int) -> Array:
    """Repeat each element of an axis for a block of `size` elements in all."""
    if a.data is not None:
        return constant(np.repeat(whole_data(a), block, axis).take(range(size), axis))
    wide = (*a.shape[: axis + 1], 1, *a.shape[axis + 1 :])
    full = (*a.shape[: axis + 1], block, *a.shape[axis + 1 :])
    spread = movement.broadcast_to(s, movement.reshape(s, a, wide), full)
    joined = [n * block if k == axis else n for k, n in enumerate(a.shape)]
    return movement.part(s, movement.reshape(s, spread, joined), axis, 0, size)


def _axis(n: Node, x: Array) -> int:
    return n.axis(x.rank, 1) if x.rank > 1 else 0


# -- quantise and dequantise -----------------------------------------------------------------------


def _dequantize(n: Node) -> Array:
    """Return (x - zero point) * scale."""
    x, axis, block = n.array(0), _axis(n, n.array(0)), int(n.get("block_size", 0))
    scale = along(n, x, n.array(1), axis, block)
    zero = along(n, x, n.array(2), axis, block) if n.has(2) else None
    real = quantisation.dequantized(n.scope, x, scale, zero)
    kind = int(n.get("output_dtype", 0))
    made = converted(n.scope, real, dtype_of(kind) if kind else n.array(1).dtype)
    if made is not real or block:
        return made
    return Dequantised(made.dtype, made.shape, made.data, made.value, of=(x, scale, zero))


def _quantize(n: Node) -> Array:
    """Return round(x / scale) + zero point, saturated."""
    s, x, axis, block = n.scope, n.array(0), _axis(n, n.array(0)), int(n.get("block_size", 0))
    if n.get("precision", 0) not in (0, _FLOAT):
        raise NotLowered("it divides in another type than FP32", "leave out the precision")
    number = int(n.get("output_dtype", 0))
    kind = n.array(2).dtype if n.has(2) else (dtype_of(number) if number else _UINT8)
    scale = along(n, x, n.array(1), axis, block)
    if str(kind) in _FP8:
        factor = movement.broadcast_to(s, converted(s, scale, FLOAT32), x.shape)
        real = divided(s, converted(s, x, FLOAT32), factor)
        return quantisation.quantized_fp8(s, real, kind, bool(n.get("saturate", 1)))
    zero = along(n, x, n.array(2), axis, block) if n.has(2) else None
    made = _requantized(s, x, scale, zero, kind) if isinstance(x, Dequantised) else None
    return quantisation.quantized(s, x, scale, zero, kind) if made is None else made


def _requantized(
    s: Scope, x: Dequantised, scale: Array, zero: Array | None, kind: Any
) -> Array | None:
    """Look bytes up in a TABLE of what becomes of each: as onnxruntime divides; None for others."""
    assert x.of is not None
    given, factor, start = x.of
    numbers = (factor, start, scale, zero)
    is_known = all(one is None or one.number() is not None for one in numbers)
    if not is_known or given.is_constant or {given.dtype, np.dtype(kind)} - {*_BYTES}:
        return None
    codes = np.arange(-128, 128).astype(np.int8)
    real = quantisation.dequantized(s, constant(codes.view(given.dtype)), factor, start)
    found = quantisation.quantized(s, real, scale, zero, kind).data
    assert found is not None
    if given.dtype == kind and np.array_equal(found.view(np.int8), codes):
        return given
    made = s.builder.table(s.value(given), found.view(np.int8))
    return Array(np.dtype(kind), x.shape, None, made)


def _dynamic_quantize(n: Node) -> Sequence[Array]:
    """Quantise to UINT8 by the range. Quotients are rounded once, so that ties are as in ONNX."""
    s, x = n.scope, n.array(0)
    if x.dtype != FLOAT32:
        raise NotLowered(f"it takes FP32, found {x.dtype}")
    ones = (1,) * x.rank
    ends = [
        movement.reshape(s, extreme(s, x, range(x.rank), word), ones) for word in ("min", "max")
    ]
    low, high = s.minimum(ends[0], 0), s.maximum(ends[1], 0)
    span = s.sub(high, low)
    # onnxruntime gives zeros the scale 1.
    span = s.select(s.equal(span, 0), 255, span)
    scale = quantisation.divided_once(s, span, constant(np.full(ones, 255, x.dtype)))
    initial = s.elementwise("negate", quantisation.divided_once(s, low, scale))
    # What is quantised is in the range, so that INT16 holds all quotients.
    whole = s.cast(clip(s, initial, 0.0, 255.0), np.int16)
    zero = s.cast(whole, INT32)
    moved = s.add(s.cast(s.cast(quantisation.divided_once(s, x, scale), np.int16), INT32), zero)
    bounded = s.minimum(s.maximum(moved, 0), 255)
    return (
        s.narrowed(bounded, _UINT8),
        movement.reshape(s, scale, ()),
        movement.reshape(s, s.narrowed(zero, _UINT8), ()),
    )


# -- products --------------------------------------------------------------------------------------


def with_dequantised_weights(rule: Rule) -> Rule:
    """Keep dequantised weights if both operands are: a rewrite then multiplies the integers."""

    def lower(n: Node) -> Any:
        given = list(n.given)
        x, w = given[:2]
        if isinstance(x, Dequantised) and isinstance(w, Dequantised) and x.data is None and w.of:
            integers, scale, zero = w.of
            if integers.data is not None and integers.dtype == np.int8:
                given[1] = _computed(n.scope, integers, scale, zero)
        return rule(replace(n, given=given))

    return lower


def _computed(s: Scope, x: Array, scale: Array, zero: Array | None) -> Array:
    """Dequantise a constant in the program."""
    held = Array(x.dtype, x.shape, None, s.value(Array(x.dtype, x.shape, whole_data(x))))
    return quantisation.dequantized(s, held, scale, zero)


@dataclass(frozen=True)
class Quantised:
    """A quantised operand. scale, zero: as they are given; None for no zero point."""

    x: Array
    scale: Array
    zero: Array | None = None

    @property
    def number(self) -> int | None:
        """Return the zero point if it is one that is known."""
        if self.zero is None:
            return 0
        if self.zero.data is None or len(np.unique(self.zero.data)) != 1:
            return None
        return int(self.zero.data.reshape(-1)[0])


def operand(n: Node, index: int) -> Quantised:
    """Return an operand that its scale and its zero point follow."""
    return Quantised(n.array(index), n.array(index + 1), n.optional(index + 2))


def real(n: Node, a: Quantised, axis: int = 0) -> Array:
    """Dequantise an operand. axis: that of scales of which there are several."""
    x = a.x
    place = axis % max(x.rank, 1)
    scale = along(n, x, a.scale, place)
    zero = None if a.zero is None else along(n, x, a.zero, place)
    return quantisation.dequantized(n.scope, x, scale, zero)


def requantised(n: Node, x: Array, index: int) -> Array:
    """Quantise numbers of FP32 by the scale and the zero point from this operand on."""
    scale, zero = n.array(index), n.optional(index + 1)
    if scale.size != 1:
        raise NotLowered("the result has a scale for each index")
    kind = _UINT8 if zero is None else zero.dtype
    held = None if zero is None else movement.reshape(n.scope, zero, ())
    return quantisation.quantized(n.scope, x, movement.reshape(n.scope, scale, ()), held, kind)


def scaled_sums(n: Node, sums: Array, scales: Sequence[Array], index: int, axis: int) -> Array:
    """Quantise sums of INT32 by one factor as onnxruntime does: the scales over that of the result."""
    s, zero = n.scope, n.optional(index + 1)
    shape = [1] * sums.rank
    factor, by = factor_of(s, scales), movement.reshape(s, n.array(index), (1,))
    if factor.data is not None and by.data is not None:  # Known ones are divided in one step.
        factor = constant(np.asarray(factor.data / by.data, FLOAT32))
    else:
        factor = divided(s, factor, by)
    shape[axis] = factor.size
    numbers = s.mul(s.cast(sums, FLOAT32), movement.reshape(s, factor, shape))
    held = None if zero is None else movement.reshape(s, zero, ())
    return quantisation.rounded(s, numbers, held, _UINT8 if zero is None else zero.dtype)


def factor_of(s: Scope, scales: Sequence[Array]) -> Array:
    """Return the product of scales, [1] or [channels]."""
    return reduce(s.mul, (movement.reshape(s, scale, (scale.size,)) for scale in scales))


def multiplied(n: Node, a: Quantised, b: Quantised) -> Array:
    """Multiply matrices of bytes, less their zero points, to INT32."""
    s = n.scope
    zeros = a.number, b.number
    if a.x.dtype in _BYTES and b.x.dtype in _BYTES and None not in zeros:
        return matmul(s, a.x, b.x, INT32, zeros=(zeros[0] or 0, zeros[1] or 0))
    _refuse_inexact(a.x.shape[-1])
    left = _less_zero(n, a, max(a.x.rank - 2, 0))
    right = _less_zero(n, b, b.x.rank - 1)
    return s.cast(matmul(s, left, right), INT32)


def _less_zero(n: Node, a: Quantised, axis: int) -> Array:
    zero = None if a.zero is None else along(n, a.x, a.zero, axis)
    return quantisation.centred(n.scope, a.x, zero)


def _refuse_inexact(terms: int) -> None:
    if terms * 255 * 255 >= _EXACT:
        raise NotLowered(f"sums of {terms} products are not exact in FP32")


def _without_scales(n: Node) -> tuple[Quantised, Quantised]:
    """Return two operands that their zero points follow."""
    one = constant(np.float32(1))
    return Quantised(n.array(0), one, n.optional(2)), Quantised(n.array(1), one, n.optional(3))


def _qlinear_matmul(n: Node) -> Array:
    a, b = operand(n, 0), operand(n, 3)
    if a.scale.size > 1:
        made = matmul(n.scope, real(n, a, -2), real(n, b, -1))
        return requantised(n, made, 6)
    return scaled_sums(n, multiplied(n, a, b), (a.scale, b.scale), 6, -1)


def convolution(n: Node, a: Quantised, b: Quantised, bias: Array | None = None) -> Array:
    """Convolve bytes, less their zero points, to INT32."""
    s = n.scope
    zeros = a.number, b.number
    if a.x.dtype in _BYTES and b.x.dtype in _BYTES and None not in zeros:
        return convolved(n, a.x, b.x, bias, INT32, zeros=(zeros[0] or 0, zeros[1] or 0))
    _refuse_inexact(int(np.prod(b.x.shape[1:])))
    left, right = _less_zero(n, a, 1), _less_zero(n, b, 0)
    made = s.cast(convolved(n, left, right, None, FLOAT32), INT32)
    if bias is None:
        return made
    return s.add(made, movement.reshape(s, bias, (1, bias.size, *(1,) * (made.rank - 2))))


def _qlinear_conv(n: Node) -> Array:
    a, b = operand(n, 0), operand(n, 3)
    return scaled_sums(n, convolution(n, a, b, n.optional(8)), (a.scale, b.scale), 6, 1)


RULES: Final[dict[str, Rule]] = {
    "ConvInteger": lambda n: convolution(n, *_without_scales(n)),
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "MatMulInteger": lambda n: multiplied(n, *_without_scales(n)),
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantize,
}
#: Those that take known operands themselves: weights stay integers where the product is of integers.
OWN: Final = frozenset(("DequantizeLinear",))
