"""Compute with integers what stands between dequantised tensors and a quantised one.

Frontends dequantise the operands of a quantised network, compute in FP32, and quantise. Sums of products
become sums of INT32 and a RESCALE: the results differ where a number is as near to the middle of two
integers as the order of a sum in FP32 may move it. Functions of one tensor become a TABLE of what they
compute, and moves move integers. What is quantised from something else is rounded by CAST.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.builder.edit import change_blocks
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph.dtypes import FP32, INT8, INT32
from tosa_convert.graph.model import Block, Graph, Operator
from tosa_convert.graph.opset import operator
from tosa_convert.reference.call import Call, Type, store
from tosa_convert.reference.evaluate import OPERATIONS as DEFINITIONS
from tosa_convert.rewrites.fold_constants import with_numbers
from tosa_convert.rewrites.integer_sums import FACTORS, MOST, MOVES, Emit, SumPlans, Sums
from tosa_convert.rewrites.quantised_patterns import (
    HIGH,
    LOW,
    Array,
    Dequantised,
    Quantised,
    array_of,
    clamp_bounds,
    dequantised,
    quantised,
)
from tosa_convert.rewrites.report import Recorder

NAME: Final = "integers"
_CAST: Final = operator("CAST")
_FUNCTIONS: Final = ("activation", "elementwise")
#: Operators of a function that are computed for a TABLE.
_MOST_OPERATORS: Final = 64


def rewrite(graph: Graph, recorder: Recorder) -> Graph:
    """Return the graph with integers between what quantises and dequantises."""
    return change_blocks(graph, partial(_rewrite_block, recorder))


def _rewrite_block(recorder: Recorder, where: str, block: Block) -> Block:
    tensors = block.tensors
    casts = {
        op.outputs[0]
        for op in block.operators
        if op.spec is _CAST and tensors[op.outputs[0]].dtype is INT8
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
        if plan is None and target.is_literal:
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
        if kind in MOVES:
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
            try:
                with np.errstate(all="ignore"):
                    made = np.asarray(DEFINITIONS[op.spec.name](call))
            except (KeyError, ValueError, IndexError, TosaConvertError):
                return None
            values[result] = np.broadcast_to(store(made, kind, "own"), integers.shape)
        return values.get(name)
