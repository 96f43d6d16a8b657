"""Quantised types of StableHLO, which JAX's bindings do not have.

In the text that is parsed, such a type is its expressed type with the quantised one as the tensor's
encoding: `tensor<2xf32, "!quant.uniform<i8:f32, 0.1:3>">`. Values are the stored integers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo

from tosa_convert.frontends.jax.rescale import is_rescaled, rescale
from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.frontends.stablehlo.evaluate import Operation, Rule, array_of, dtype_of, shape_of

_TYPE: Final = re.compile(
    r"!quant\.uniform<([iu])(\d+)(?:<(-?\d+):(-?\d+)>)?:(\w+)(?::(\d+))?,\s*([^<>]*)>"
)
_ALIAS: Final = re.compile(r"^\s*(!\w+) = (.*!quant\..*)$", re.MULTILINE)
_IN_TENSOR: Final = re.compile(_TYPE.pattern + r"(?=>)")
_NUMBERS: Final = re.compile(r"([-+.\w]+)(?::(-?\d+))?")
#: Operations whose types JAX's bindings refuse with an encoding; they are parsed as custom calls.
_CALLS: Final = "uniform_quantize|uniform_dequantize|bitcast_convert"
_PLAIN: Final = re.compile(rf"stablehlo\.({_CALLS}) (%[\w#]+)( \{{.*?\}})? :")
_GENERIC: Final = re.compile(rf'"stablehlo\.({_CALLS})"\(([^)]*)\)( <?\{{.*?\}}>?)? :')
_CONSTANT: Final = re.compile(r'"?stablehlo\.constant"?\(\) <?\{value = (.*)\}>? : \(\) ->')
#: The names that custom calls have for these operations, and for constants.
_CALLED: Final = ("uniform_quantize", "uniform_dequantize", "bitcast_convert", "quantised_constant")

#: Operations that move integers, or choose among them, if all types are equal.
_MOVED: Final = frozenset(
    (
        *("broadcast", "broadcast_in_dim", "clamp", "compare", "concatenate", "dynamic_slice"),
        *("dynamic_update_slice", "gather", "maximum", "minimum", "pad", "reduce"),
        *("reduce_window", "reshape", "reverse", "select", "slice", "transpose"),
    )
)
#: Operations that pass values on to a region or a function.
_PASSED: Final = frozenset(
    (
        *("call", "case", "composite", "get_tuple_element", "if", "optimization_barrier", "tuple"),
        "while",
    )
)
_PRODUCTS: Final = frozenset(("convolution", "dot", "dot_general"))


class Quantised(NamedTuple):
    """A type: an integer i from `low` to `high` means scale * (i - zero).

    stored: the element type of JAX that has the integers. scales, zeros: one, or one for each index
    of the axis.
    """

    stored: Any
    low: int
    high: int
    axis: int | None
    scales: tuple[float, ...]
    zeros: tuple[int, ...]

    def along(self, numbers: Sequence[float], rank: int, dtype: Any) -> Any:
        """Return scales or zeros as an array that has the rank of a tensor."""
        return _placed(numbers, self.axis, rank, dtype)


def with_encodings(text: str) -> str:
    """Return a module's text without quantised types, which become encodings. Lines stay the same."""
    if "quant." not in text:
        return text
    for name, kind in _ALIAS.findall(text):
        text = re.sub(rf"^\s*{name} = .*$", "", text, flags=re.MULTILINE)
        # What a function returns is inserted as it is.
        text = re.sub(rf"{name}\b", kind.strip().replace("\\", "\\\\"), text)
    return "\n".join(map(_line, text.split("\n")))


def _line(line: str) -> str:
    if "!quant." not in line:
        return line
    line = _IN_TENSOR.sub(lambda found: f'{found[5]}, "{found[0]}"', line)
    line = _PLAIN.sub(r"stablehlo.custom_call @\1(\2) :", line)
    line = _GENERIC.sub(r'"stablehlo.custom_call"(\2) {call_target_name = "\1"} :', line)
    call = (
        r'"stablehlo.custom_call"() {call_target_name = "quantised_constant", value = \1} : () ->'
    )
    return _CONSTANT.sub(call, line)


def quantised(kind: Any) -> Quantised | None:
    """Return the quantised type of a tensor; None if its elements are plain."""
    if not isinstance(kind, ir.RankedTensorType) or kind.encoding is None:
        return None
    found = _TYPE.match(str(kind.encoding).strip('"'))
    if found is None:
        return None
    sign, bits, low, high, _, axis, numbers = found.groups()
    wide = max(8, int(bits))
    stored = np.dtype(f"{'u' if sign == 'u' else ''}int{wide}")
    span = 1 << int(bits)
    least = 0 if sign == "u" else -span // 2
    try:
        pairs = [(float(scale), int(zero or 0)) for scale, zero in _NUMBERS.findall(numbers)]
    except ValueError:
        raise NotLowered(f"the type {found[0]}", "write its scales as decimal numbers") from None
    return Quantised(
        stored,
        int(low or least),
        int(high or least + span - 1),
        None if axis is None else int(axis),
        tuple(scale for scale, _ in pairs),
        tuple(zero for _, zero in pairs),
    )


def has_quantised_types(module: Any) -> bool:
    """Return whether a function of a module takes or makes quantised tensors."""
    return '"!quant.' in module.operation.get_asm(large_elements_limit=16)


def stored_type(kind: Any) -> Any:
    """Return the element type of JAX that holds a tensor's values."""
    found = quantised(kind)
    return dtype_of(kind) if found is None else found.stored


def aware(rule: Rule) -> Rule:
    """Return a rule that also computes with quantised operands and results."""

    def computed(op: Operation) -> Any:
        given, made = [[quantised(kind) for kind in row] for row in (op.operand_types, op.types)]
        if not any(given) and not any(made):
            return rule(op)
        is_constant = all(isinstance(item, np.ndarray | np.generic) for item in op.operands)
        if op.operands and is_constant and not op.regions:
            with jax.ensure_compile_time_eval():
                return jax.tree.map(np.asarray, _compute(op, rule, given, made))
        return _compute(op, rule, given, made)

    return computed


def _compute(
    op: Operation, rule: Rule, given: Sequence[Quantised | None], made: Sequence[Quantised | None]
) -> Any:
    if op.name in _PASSED:
        return rule(op)
    kinds = {(kind.scales, kind.zeros, kind.stored) for kind in (*given, *made) if kind}
    if op.regions:
        names = {held.operation.name for block in op.blocks for held in block.operations}
        if len(kinds) > 1 or not names <= {
            "stablehlo.maximum",
            "stablehlo.minimum",
            "stablehlo.return",
        }:
            reason = "a region that computes with quantised numbers, other than an extreme"
            raise NotLowered(reason, "dequantise before, and quantise after")
    if op.name in _MOVED and len(kinds) == 1:
        return rule(op)
    target = op.attributes.text("call_target_name") if op.name == "custom_call" else ""
    if target in ("bitcast_convert", "quantised_constant"):
        dtype = stored_type(op.types[0])
        if not op.operands:
            return array_of(op.attributes.raw("value")).astype(dtype)
        return lax.bitcast_convert_type(op.operands[0], dtype)
    if op.name in _PRODUCTS and all(given[:2]):
        return _product(op, rule, given, made[0])
    numbers = [
        item if kind is None else _numbers(kind, item, dtype_of(held))
        for item, kind, held in zip(op.operands, given, op.operand_types, strict=True)
    ]
    found = numbers if target in _CALLED else rule(replace(op, operands=numbers))
    results = list(found) if isinstance(found, (list, tuple)) else [found]
    return [
        item if kind is None else _integers(kind, item)
        for item, kind in zip(results, made, strict=True)
    ]


def _numbers(kind: Quantised, values: Any, dtype: Any) -> Any:
    """Dequantise."""
    rank = jnp.ndim(values)
    difference = jnp.asarray(values, np.int32) - kind.along(kind.zeros, rank, np.int32)
    return difference.astype(dtype) * kind.along(kind.scales, rank, dtype)


def _integers(kind: Quantised, numbers: Any) -> Any:
    """Quantise: to the nearest integer, halves to even, within the type."""
    rank, dtype = jnp.ndim(numbers), numbers.dtype
    scaled = numbers / kind.along(kind.scales, rank, dtype)
    near = lax.round(scaled, lax.RoundingMethod.TO_NEAREST_EVEN)
    wide = near + kind.along(kind.zeros, rank, dtype)
    # The number below 2^31 that FP32 has.
    high = np.nextafter(np.float32(kind.high), 0) if kind.high >= 1 << 24 else kind.high
    return jnp.clip(wide, jnp.asarray(kind.low, dtype), jnp.asarray(high, dtype)).astype(
        kind.stored
    )


# -- products ------------------------------------------------------------------------------------


def _product(op: Operation, rule: Rule, given: Sequence[Any], made: Quantised | None) -> Any:
    """Multiply and add the integers, then scale the sums: by RESCALE where it takes any."""
    left, right = given[:2]
    if left.axis is not None or len(set(right.zeros)) > 1:
        raise NotLowered("images with a scale, or weights with a zero point, for each channel")
    (x, left_zero), (y, right_zero) = map(_signed, given[:2], op.operands[:2])
    sums = _sums(replace(op, operands=[x, y]), rule, left_zero, right_zero)
    rank, axis = jnp.ndim(sums), _channel(op)
    scales = left.scales[0] * np.asarray(right.scales, np.float64)
    if made is None:
        return sums.astype(dtype_of(op.types[0])) * _placed(scales, axis, rank, np.float32)
    ratios = scales / np.asarray(made.scales, np.float64)
    if np.all(ratios == 1) and not any(made.zeros) and made.stored == np.int32:
        return sums
    limits = np.iinfo(made.stored)
    is_whole = (made.low, made.high) == (limits.min, limits.max)
    has_zero = made.stored == np.int8 or (made.stored == np.int16 and not any(made.zeros))
    if is_whole and has_zero and len(set(made.zeros)) == 1 and is_rescaled(ratios):
        return rescale(sums, tuple(ratios.tolist()), axis, made.zeros[0], made.stored)
    numbers = sums.astype(np.float32) * _placed(scales, axis, rank, np.float32)
    return _integers(made, numbers)


def _signed(kind: Quantised, values: Any) -> tuple[Any, int]:
    """Return the integers, with bytes as INT8, and their zero point."""
    if kind.stored != np.uint8:
        return values, kind.zeros[0]
    turned = lax.bitwise_xor(values, np.uint8(128))
    return lax.bitcast_convert_type(turned, np.int8), kind.zeros[0] - 128


def _sums(op: Operation, rule: Rule, left: int, right: int) -> Any:
    """Return the sums of the products of differences from zero points, in INT32."""
    x, y = op.operands[:2]
    whole = ir.RankedTensorType.get(shape_of(op.types[0]), ir.IntegerType.get_signless(32))

    def of(*operands: Any) -> Any:
        return rule(replace(op, operands=list(operands), types=[whole]))

    sums = of(x, y)
    ones = [np.ones(jnp.shape(item), item.dtype) for item in (x, y)]
    if left:
        sums = sums - left * _at_once(of, ones[0], y)
    if right:
        sums = sums - right * _at_once(of, x, ones[1])
    if left and right:
        sums = sums + left * right * _at_once(of, *ones)
    return sums


def _at_once(function: Any, *arrays: Any) -> Any:
    """Return a product, computed now if its operands are constants."""
    if all(isinstance(item, np.ndarray | np.generic) for item in arrays):
        with jax.ensure_compile_time_eval():
            return np.asarray(function(*arrays))
    return function(*arrays)


def _channel(op: Operation) -> int:
    """Return the dimension of a product's result that comes from the channels of the weights."""
    if op.name == "convolution":
        layout = stablehlo.ConvDimensionNumbers(op.attributes.raw("dimension_numbers"))
        return int(layout.output_feature_dimension)
    rank, axis = jnp.ndim(op.operands[1]), (quantised(op.operand_types[1]) or _NONE).axis
    if op.name == "dot" or axis is None:
        return len(shape_of(op.types[0])) - 1
    numbers = stablehlo.DotDimensionNumbers(op.attributes.raw("dot_dimension_numbers"))
    batch, summed = numbers.rhs_batching_dimensions, numbers.rhs_contracting_dimensions
    free = [k for k in range(rank) if k not in (*batch, *summed)]
    if axis not in free:
        raise NotLowered("a scale for each number of what is summed, or for each batch")
    return len(shape_of(op.types[0])) - len(free) + free.index(axis)


_NONE: Final = Quantised(np.dtype(np.int8), -128, 127, None, (1.0,), (0,))


def _placed(numbers: Any, axis: int | None, rank: int, dtype: Any) -> Any:
    shape = [1] * rank
    if axis is not None:
        shape[axis] = len(numbers)
    return np.asarray(numbers, dtype).reshape(shape)
