"""Compute with integers what stands between dequantised tensors and a quantised one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from tosa_convert.builder.edit import BlockEditor, change_blocks
from tosa_convert.builder.rescale import fixed_points
from tosa_convert.graph.dtypes import FP32, INT8, INT32, ResizeMode, RoundingMode
from tosa_convert.graph.model import Block, Graph, Operator
from tosa_convert.graph.opset import operator
from tosa_convert.reference.call import Call, Type, store
from tosa_convert.rewrites.fold_constants import evaluated, with_numbers
from tosa_convert.rewrites.operator_pass import Recorder
from tosa_convert.rewrites.quantised_patterns import (
    HIGH,
    LOW,
    Array,
    Dequantised,
    Quantised,
    array_of,
    clamp_bounds,
    dequantised,
    made_by,
    quantised,
    sides,
)

# -- tensors of FP32 as sums of INT32 with scales: what is computed of dequantised tensors ---------

#: Operators that move elements, or choose the greatest or the least of them.
_MOVES: Final = frozenset(
    (
        *("GATHER", "MAX_POOL2D", "PAD", "REDUCE_MAX", "REDUCE_MIN"),
        *("RESHAPE", "REVERSE", "SLICE", "TILE", "TRANSPOSE"),
    )
)
#: Those of them that move INT32 with a scale for each channel.
_MOVES_CHANNELS: Final = frozenset(("RESHAPE", "TRANSPOSE"))
#: Operator that sums products -> the axes of its weights that are output channels.
_CHANNELS: Final = {
    "CONV2D": (0,),
    "CONV3D": (0,),
    "DEPTHWISE_CONV2D": (2, 3),
    "MATMUL": (-1,),
    "TRANSPOSE_CONV2D": (0,),
}
#: The largest factor of a RESCALE, and the smallest, that 31 bits hold.
FACTORS: Final = (2.0**-30, 2.0**20)
#: Sums stay below this, before and after a RESCALE.
MOST: Final = 2.0**30
#: Bits below those of two integers with which they are added in one scale.
_FINER: Final = 20
#: Emits the operators of a value, and returns its name.
Emit = Callable[[], str]


def _is_move(op: Operator) -> bool:
    return op.spec.name in _MOVES or op.attributes.get("mode") == ResizeMode.NEAREST


class Operand(NamedTuple):
    """Describe a tensor of INT8 whose integers i mean scales * (i - zero)."""

    emit: Emit
    scales: Array
    zero: int


class Sums(NamedTuple):
    """Describe a tensor of INT32: integers times scales. No integer is above `bound`."""

    emit: Emit
    scales: Array
    bound: float


class SumPlans:
    """Plan tensors as sums of integers; emit nothing before a plan is complete."""

    def __init__(self, edit: BlockEditor) -> None:
        self.edit = edit
        self._operands: dict[str, Operand | None] = {}

    def shape_of(self, name: str) -> tuple[int, ...]:
        return self.edit.tensors[name].shape or ()

    def move(self, op: Operator, plan: Emit, target: Quantised | Dequantised) -> Emit | None:
        """Plan an operator that moves elements, of a tensor of integers."""
        edit, others = self.edit, list(op.inputs[1:])
        if op.spec.name == "PAD":
            number = edit.number_of(others[1])
            if number is None or (isinstance(target, Dequantised) and number != 0):
                return None
            padded = target.zero
            if isinstance(target, Quantised):
                padded = int(target.integers(np.array([number], np.float32))[0])
            return lambda: edit.emit(
                "PAD", [plan(), others[0], edit.constant([padded], INT8)], op.attributes
            )
        return lambda: edit.emit(op.spec, [plan(), *others], op.attributes)

    def rescale(self, value: str, factors: Array, zero: int, dtype: Any, given: int = 0) -> str:
        multipliers, exponents = fixed_points(factors)
        edit = self.edit
        return edit.emit(
            "RESCALE",
            [
                value,
                edit.constant(multipliers, INT32),
                edit.constant(31 - exponents, INT8),
                edit.constant([given], edit.tensors[value].dtype),
                edit.constant([zero], dtype),
            ],
            {
                "scale32": True,
                "rounding_mode": RoundingMode.SINGLE_ROUND,
                "per_channel": len(factors) > 1,
                "input_unsigned": False,
                "output_unsigned": False,
            },
            dtype=dtype,
        )

    # -- operands ------------------------------------------------------------------------------------

    def operand(self, name: str) -> Operand | None:
        """Plan a dequantised tensor, moved or not, as integers."""
        if name not in self._operands:
            self._operands[name] = self._planned(name)
        return self._operands[name]

    def _planned(self, name: str) -> Operand | None:
        found = dequantised(self.edit, name)
        if found is not None:
            return Operand(lambda: found.value, found.scales.astype(np.float64), found.zero)
        op = self.edit.producers.get(name)
        inner = self.operand(op.inputs[0]) if op is not None and _is_move(op) else None
        scales = self._moved_scales(op, inner.scales) if op is not None and inner else None
        if op is None or inner is None or scales is None:
            return None
        move = self.move(op, inner.emit, Dequantised("", inner.scales, inner.zero))
        return Operand(cache(move), scales, inner.zero) if move is not None else None

    def _moved_scales(self, op: Operator, scales: Array) -> Array | None:
        """Return the scales of what an operator moved; None if they are not along axes any more."""
        given, made = self.shape_of(op.inputs[0]), self.shape_of(op.outputs[0])
        if scales.size == 1:
            return scales.reshape((1,) * len(made))
        if op.spec.name == "TRANSPOSE":
            perms = op.attributes["perms"]
            assert isinstance(perms, tuple)
            return scales.transpose(perms)
        if op.spec.name == "REVERSE":
            axis = op.attributes["axis"]
            assert isinstance(axis, int)
            return np.flip(scales, axis)
        if op.spec.name == "SLICE":
            start, size = (self.edit.sizes_of(one) for one in op.inputs[1:])
            if start is None or size is None:
                return None
            part = tuple(
                slice(first, first + count) if several > 1 else slice(None)
                for first, count, several in zip(start, size, scales.shape, strict=True)
            )
            return scales[part]
        if op.spec.name != "RESHAPE" or 0 in given:
            return None
        first = next(axis for axis, size in enumerate(scales.shape) if size > 1)
        # The same axes from the last on, cut in another way.
        for left in range(first, -1, -1):
            for axis in range(len(made) + 1):
                if prod(made[:axis]) == prod(given[:left]):
                    whole = np.broadcast_to(scales[(0,) * left], given[left:])
                    return _narrowed(whole.reshape(*[1] * axis, *made[axis:]))
        return None

    def sums(self, name: str) -> Sums | None:
        """Plan a tensor of FP32 as sums of INT32."""
        op = self.edit.producers.get(name)
        if op is None:
            return None
        kind = op.spec.name
        if kind in _CHANNELS:
            return self._products(op)
        if kind in _MOVES_CHANNELS:
            return self._moved_sums(op)
        if kind == "CAST":
            return self._cast_product(op)
        if kind == "AVG_POOL2D":
            return self._average(op)
        if kind == "RESIZE" and not _is_move(op):
            return self._resized(op)
        if kind == "REDUCE_SUM":
            return self._reduced(op)
        if kind in ("ADD", "SUB", "MUL"):
            for one, other in sides(op):
                number = array_of(self.edit, other)
                if number is not None:
                    is_first = one == op.inputs[0]
                    return (
                        self._with_constant(op, one, number) if kind != "SUB" or is_first else None
                    )
            return self._of_two(op)
        return None

    def _products(self, op: Operator) -> Sums | None:
        """Plan a convolution or a product of matrices."""
        edit, name = self.edit, op.outputs[0]
        x, weights = self.operand(op.inputs[0]), self.operand(op.inputs[1])
        if (
            x is None
            or weights is None
            or x.scales.size != 1
            or edit.tensors[name].dtype is not FP32
        ):
            return None
        if any(edit.number_of(one) != 0 for one in op.inputs[-2:]):
            return None
        shape = self.shape_of(op.inputs[1])
        axes = [axis % len(shape) for axis in _CHANNELS[op.spec.name]]
        if any(size > 1 and axis not in axes for axis, size in enumerate(weights.scales.shape)):
            return None
        channels = prod(shape[axis] for axis in axes)
        sizes = [shape[axis] if axis in axes else 1 for axis in range(len(shape))]
        scales = np.broadcast_to(weights.scales, sizes).reshape(-1) * float(x.scales.reshape(-1)[0])
        bound = prod(shape) // channels * 255.0 * 255.0
        if op.spec.name == "MATMUL":
            bound = shape[-2] * 255.0 * 255.0
        wide: Array | None = None
        if op.spec.name != "MATMUL":
            given = self._constant(op.inputs[2])
            if given is None:
                return None
            wide = np.rint(np.broadcast_to(given.astype(np.float64), (channels,)) / scales)
            bound += float(np.abs(wide).max(initial=0))
        if not bound < MOST:
            return None
        bias = None if wide is None else wide.astype(np.int32)
        attributes = {**op.attributes}
        if "acc_type" in attributes:
            attributes["acc_type"] = INT32

        @cache
        def emit() -> str:
            operands = [x.emit(), weights.emit()]
            if bias is not None:
                operands.append(edit.constant(bias, INT32))
            operands += [edit.constant([zero], INT8) for zero in (x.zero, weights.zero)]
            return edit.emit(op.spec, operands, attributes, dtype=INT32)

        along = _narrowed(scales.reshape(*[1] * (len(self.shape_of(name)) - 1), channels))
        return Sums(emit, along, bound)

    def _constant(self, name: str) -> Array | None:
        """Return the elements of a constant, or of a part of one."""
        part = made_by(self.edit, name, "SLICE")
        if part is None:
            return array_of(self.edit, name)
        whole = array_of(self.edit, part.inputs[0])
        return self._moved_scales(part, whole) if whole is not None else None

    def _cast_product(self, op: Operator) -> Sums | None:
        """Plan a CAST of a product of matrices of INT8, which torch-mlir makes itself."""
        edit, name = self.edit, op.inputs[0]
        before = made_by(edit, name, "RESHAPE")
        product = made_by(edit, before.inputs[0] if before else name, "MATMUL")
        if product is None or edit.tensors[product.inputs[0]].dtype is not INT8:
            return None
        bound = self.shape_of(product.inputs[0])[-1] * 255.0 * 255.0
        ones = np.ones((1,) * len(self.shape_of(name)))
        return Sums(lambda: name, ones, bound) if bound < MOST else None

    def _moved_sums(self, op: Operator) -> Sums | None:
        sums = self.sums(op.inputs[0])
        scales = self._moved_scales(op, sums.scales) if sums is not None else None
        if sums is None or scales is None:
            return None
        others = op.inputs[1:]
        emit = cache(lambda: self.edit.emit(op.spec, [sums.emit(), *others], op.attributes))
        return Sums(emit, scales, sums.bound)

    def _wide(self, name: str) -> Sums | None:
        """Plan a dequantised tensor as INT32 less its zero point."""
        found = self.operand(name)
        if found is None:
            return None
        edit = self.edit

        @cache
        def emit() -> str:
            integers = found.emit()
            wide = edit.emit("CAST", [integers], like=integers, dtype=INT32)
            if not found.zero:
                return wide
            return edit.emit("SUB", [wide, edit.number(found.zero, like=wide)])

        return Sums(emit, found.scales, 255.0)

    def _reduced(self, op: Operator) -> Sums | None:
        """Plan a sum along an axis, of sums or of a dequantised tensor."""
        inner = self.sums(op.inputs[0]) or self._wide(op.inputs[0])
        axis = op.attributes["axis"]
        assert isinstance(axis, int)
        if inner is None or inner.scales.shape[axis] != 1:
            return None
        bound = inner.bound * self.shape_of(op.inputs[0])[axis]
        if bound >= MOST:
            return None
        emit = cache(lambda: self.edit.emit(op.spec, [inner.emit()], op.attributes))
        return Sums(emit, inner.scales, bound)

    def _average(self, op: Operator) -> Sums | None:
        """Plan an average of windows inside of the image as sums of them."""
        x, name = self.operand(op.inputs[0]), op.outputs[0]
        if x is None or x.scales.size != 1 or op.attributes["pad"] != (0, 0, 0, 0):
            return None
        kernel, edit = op.attributes["kernel"], self.edit
        assert isinstance(kernel, tuple)
        channels, count = self.shape_of(name)[3], prod(kernel)
        if count * 255.0 >= MOST:
            return None

        @cache
        def emit() -> str:
            ones = edit.constant(np.ones((*kernel, channels, 1)), INT8)
            bias = edit.constant([0] * channels, INT32)
            zeros = [edit.constant([zero], INT8) for zero in (x.zero, 0)]
            attributes = {
                "pad": (0, 0, 0, 0),
                "stride": op.attributes["stride"],
                "dilation": (1, 1),
                "local_bound": False,
                "acc_type": INT32,
            }
            operands = [x.emit(), ones, bias, *zeros]
            return edit.emit("DEPTHWISE_CONV2D", operands, attributes, dtype=INT32)

        return Sums(emit, x.scales / count, count * 255.0)

    def _resized(self, op: Operator) -> Sums | None:
        """Plan a linear RESIZE: its weights are integers, whose sum is the same for each element."""
        x, scale, edit = self.operand(op.inputs[0]), self.edit.sizes_of(op.inputs[1]), self.edit
        if x is None or x.scales.size != 1 or scale is None:
            return None
        total = scale[0] * scale[2]
        if 255.0 * total >= MOST:
            return None

        @cache
        def emit() -> str:
            wide = edit.emit("RESIZE", [x.emit(), *op.inputs[1:]], op.attributes, dtype=INT32)
            return edit.emit("SUB", [wide, edit.number(x.zero * total, like=wide)])

        return Sums(emit, x.scales / total, 255.0 * total)

    def _with_constant(self, op: Operator, name: str, number: Array) -> Sums | None:
        """Plan sums to which a constant is added, or that it multiplies."""
        inner = self.sums(name)
        if inner is None:
            inner = self._wide(name) if op.spec.name == "MUL" else self._finer(name)
        if inner is None or self.shape_of(name) != self.shape_of(op.outputs[0]):
            return None
        edit, wide = self.edit, number.astype(np.float64)
        if op.spec.name == "MUL":
            if number.size != 1 or not 0 < wide.reshape(-1)[0] < np.inf:
                return None
            return Sums(inner.emit, inner.scales * wide.reshape(-1)[0], inner.bound)
        with np.errstate(all="ignore"):
            bias = np.rint(wide / inner.scales)
        bound = inner.bound + float(np.abs(bias).max(initial=0))
        if not bound < MOST:
            return None
        emit = cache(
            lambda: edit.emit(op.spec, [inner.emit(), edit.constant(bias.astype(np.int32), INT32)])
        )
        return Sums(emit, inner.scales, bound)

    def _finer(self, name: str, scale: float = 0.0) -> Sums | None:
        """Plan a dequantised tensor as INT32 so finely scaled that sums, in `scale` too, are exact."""
        found = self.operand(name)
        if found is None or found.scales.size != 1:
            return None
        own = float(found.scales.reshape(-1)[0])
        unit = max(own, scale) * 2.0**-_FINER
        if own / unit < FACTORS[0]:
            return None
        emit = cache(
            lambda: self.rescale(found.emit(), np.array([own / unit]), 0, INT32, found.zero)
        )
        rank = len(self.shape_of(name))
        return Sums(emit, np.full((1,) * rank, unit), 255.0 * own / unit + 1)

    def _of_two(self, op: Operator) -> Sums | None:
        """Plan the sum, the difference or the product of two dequantised tensors."""
        a, b = (self.operand(one) for one in op.inputs[:2])
        if a is None or b is None or a.scales.size != 1 or b.scales.size != 1:
            return None
        edit, rank = self.edit, len(self.shape_of(op.outputs[0]))
        scales = [float(one.scales.reshape(-1)[0]) for one in (a, b)]
        if op.spec.name == "MUL":
            wide = [self._wide(one) for one in op.inputs[:2]]
            emit = cache(lambda: edit.emit("MUL", [one.emit() for one in wide if one is not None]))
            return Sums(emit, np.full((1,) * rank, scales[0] * scales[1]), 255.0 * 255.0)
        one, other = (self._finer(name, max(scales)) for name in op.inputs[:2])
        if one is None or other is None:
            return None
        first, second = one.emit, other.emit
        add = cache(lambda: edit.emit(op.spec, [first(), second()]))
        return Sums(add, one.scales, one.bound + other.bound)


def _narrowed(scales: Array) -> Array:
    """Return scales with one index for each axis along which they do not differ."""
    for axis, size in enumerate(scales.shape):
        first = scales.take([0], axis) if size else scales
        if size > 1 and (scales == first).all():
            scales = first
    return scales


NAME: Final = "integers"
_QUANTISING: Final = (operator("CAST"), operator("RESCALE"))
_FUNCTIONS: Final = ("activation", "elementwise")
#: Operators of a function that are computed for a TABLE.
_MOST_OPERATORS: Final = 64


def rewrite(graph: Graph, recorder: Recorder) -> Graph:
    return change_blocks(graph, partial(_rewrite_block, recorder))


def _rewrite_block(recorder: Recorder, where: str, block: Block) -> Block:
    tensors = block.tensors
    casts = {
        op.outputs[0]
        for op in block.operators
        if op.spec in _QUANTISING and tensors[op.outputs[0]].dtype is INT8
    }
    if not casts:
        return block
    edit = BlockEditor(block, where)
    plans = _Plans(edit)
    for index, op in enumerate(edit.visit()):
        target = quantised(edit, op) if casts.intersection(op.outputs) else None
        if target is None:
            continue
        plans.is_literal = target.is_literal
        plan = plans.quantised(target.value, target.inverse, target.zero)
        what = "operators between INT8 became operators of integers"
        if plan is None and (target.is_literal or target.is_short):
            continue
        if plan is None:
            plan = plans.rounded(target)
            what = "a rounding and CAST to INT8 became CAST and RESCALE"
        edit.replace(op, [plan()])
        recorder.add(NAME, what, where, index, op)
    return edit.finish()


class _Plans(SumPlans):
    """Plan how quantised results are computed with integers.

    is_literal: only tensors are moved; see `Quantised`.
    """

    is_literal = False

    def rounded(self, target: Quantised) -> Emit:
        """Plan to quantise a tensor of FP32 by CAST, which rounds to the nearest even integer."""
        edit = self.edit

        def emit() -> str:
            inverse = edit.number(target.inverse, like=target.value)
            scaled = edit.emit("MUL", [target.value, inverse])
            bounds = {
                name: np.float32(limit - target.zero).tobytes()
                for name, limit in (("min_val", LOW), ("max_val", HIGH))
            }
            kept = edit.emit("CLAMP", [scaled], bounds)
            whole = edit.emit("CAST", [kept], like=target.value, dtype=INT32)
            return self.rescale(whole, np.ones(1), target.zero, INT8)

        return emit

    def quantised(self, name: str, inverse: float, zero: int) -> Emit | None:
        """Plan a tensor quantised with a scale and a zero point; None if not by integers."""
        edit, op = self.edit, self.edit.producers.get(name)
        target = Quantised(name, inverse, zero)
        if op is None or edit.tensors[name].dtype is not FP32:
            return None
        if any(size < 1 for size in self.shape_of(name)):
            return None  # Not known, or nothing.
        array = array_of(edit, name)
        if array is not None and np.isfinite(array).all():
            whole = np.broadcast_to(array, self.shape_of(name))
            return lambda: edit.constant(target.integers(whole), INT8)
        found = dequantised(edit, name)
        if found is not None and target.is_scale_of(found):
            return lambda: found.value
        kind = op.spec.name
        inner = op.inputs[0] if op.inputs else ""
        if kind == "CLAMP":
            plan = self._clamped(op, target)
            before = dequantised(edit, inner)
            if plan is not None and not (before and not target.is_scale_of(before)):
                return plan
        table = None if self.is_literal else self._table(target)
        if table is not None:
            return table
        if _is_move(op):
            return self._moved(op, target)
        if kind == "CONCAT":
            parts = [self.quantised(one, inverse, zero) for one in op.inputs]
            given = [part for part in parts if part is not None]
            if len(given) < len(parts):
                return None
            return lambda: edit.emit("CONCAT", [part() for part in given], op.attributes)
        sums = None if self.is_literal else self.sums(name)
        return self._rescaled(sums, target) if sums is not None else None

    def _clamped(self, op: Operator, target: Quantised) -> Emit | None:
        """Plan the CLAMP of a tensor: to quantise keeps the order."""
        bounds = np.array(clamp_bounds(op), np.float32)
        plan = self.quantised(op.inputs[0], target.inverse, target.zero)
        if plan is None or np.isnan(bounds).any():
            return None
        low, high = target.integers(bounds)
        if (low, high) == (LOW, HIGH):
            return plan
        limits = {"min_val": low.tobytes(), "max_val": high.tobytes()}
        return lambda: self.edit.emit("CLAMP", [plan()], limits)

    def _moved(self, op: Operator, target: Quantised) -> Emit | None:
        plan = self.quantised(op.inputs[0], target.inverse, target.zero)
        return self.move(op, plan, target) if plan is not None else None

    def _rescaled(self, sums: Sums, target: Quantised) -> Emit | None:
        """Plan sums at the scale of a result. RESCALE has several scales along the last axis only."""
        factors = sums.scales * target.inverse
        rank, several = factors.ndim, [axis for axis, size in enumerate(factors.shape) if size > 1]
        fits = factors.min() >= FACTORS[0] and factors.max() <= FACTORS[1]
        if len(several) > 1 or not fits or sums.bound * factors.max() >= MOST:
            return None
        edit, flat = self.edit, factors.reshape(-1)
        if not several or several == [rank - 1]:
            return lambda: self.rescale(sums.emit(), flat, target.zero, INT8)
        perms = (*(axis for axis in range(rank) if axis not in several), *several)
        back = tuple(int(axis) for axis in np.argsort(perms))

        def emit() -> str:
            last = edit.emit("TRANSPOSE", [sums.emit()], {"perms": perms})
            return edit.emit(
                "TRANSPOSE", [self.rescale(last, flat, target.zero, INT8)], {"perms": back}
            )

        return emit

    def _table(self, target: Quantised) -> Emit | None:
        """Plan a TABLE of a function of one tensor, computed as the operators do."""
        steps: dict[str, Operator | Dequantised] = {}
        if not self._note_steps(target.value, steps):
            return None
        given = [step for step in steps.values() if isinstance(step, Dequantised)]
        values = {one.value for one in given}
        if len(values) != 1 or any(one.scales.size != 1 for one in given):
            return None
        (base,) = values
        if self.shape_of(base) != self.shape_of(target.value):
            return None
        numbers = self._computed(target.value, steps)
        if numbers is None or np.isnan(numbers).any():
            return None
        edit, table = self.edit, target.integers(numbers)
        return lambda: edit.emit("TABLE", [base, edit.constant(table, INT8)])

    def _note_steps(self, name: str, steps: dict[str, Operator | Dequantised]) -> bool:
        """Note the operators of a function of dequantised tensors; return whether it is one."""
        if name in steps:
            return True
        found = dequantised(self.edit, name)
        if found is None:
            op = self.edit.producers.get(name)
            if op is None or op.spec.family not in _FUNCTIONS or len(op.outputs) != 1:
                return False
            others = (one for one in op.inputs if self.edit.number_of(one) is None)
            if not all(self._note_steps(one, steps) for one in others):
                return False
        steps[name] = found or self.edit.producers[name]
        return len(steps) <= _MOST_OPERATORS

    def _computed(self, name: str, steps: Mapping[str, Operator | Dequantised]) -> Array | None:
        """Compute a function for all numbers that INT8 stands for."""
        integers = np.arange(LOW, HIGH + 1, dtype=np.int64)
        values: dict[str, Array] = {}
        for result, op in steps.items():
            if isinstance(op, Dequantised):
                values[result] = op.numbers(integers)
                continue
            arrays, types = [], []
            for one in op.inputs:
                element = self.edit.tensors[one].dtype
                array = values.get(one)
                if array is None:
                    array = np.array([self.edit.number_of(one)]).astype(element.numpy)
                arrays.append(array)
                types.append(Type(element, array.shape))
            kind = Type(self.edit.tensors[result].dtype, integers.shape)
            attributes = with_numbers(op, self.edit.tensors[op.inputs[0]].dtype)
            call = Call(op.spec, tuple(arrays), tuple(types), attributes, (kind,))
            made = evaluated(call)
            if made is None:
                return None
            values[result] = np.broadcast_to(store(made, kind, "own"), integers.shape)
        return values.get(name)
