"""Sums and products with a constant for each channel become part of the convolution before them.

Frontends leave a normalisation behind a convolution, or behind a MATMUL and the ADD of its bias, as
SUB, MUL, MUL and ADD. Scaling the weights, not the sums, rounds each weight once more: the error is
below that of the order in which a sum of products is computed, which TOSA leaves open. A sum with a bias
of zeros is exact.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final
from weakref import WeakKeyDictionary, proxy

import numpy as np
import numpy.typing as npt

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.dtypes import dtype
from tosa_convert.graph.model import DYNAMIC, Operator
from tosa_convert.graph.opset import operator
from tosa_convert.records import NamedTuple, replace
from tosa_convert.rewrites.layout_changes import is_order, order_of
from tosa_convert.rewrites.tied_weights import Tables

Array = npt.NDArray[Any]

_ADD: Final = operator("ADD")
_SUB: Final = operator("SUB")
_MUL: Final = operator("MUL")
OPERATORS: Final = (_ADD, _SUB, _MUL)
_FP32: Final = dtype("FP32")
_DEPTHWISE: Final = operator("DEPTHWISE_CONV2D")
_MATMUL: Final = operator("MATMUL")
_RESHAPE: Final = operator("RESHAPE")
_REDUCE_SUM: Final = operator("REDUCE_SUM")
_SLICE: Final = operator("SLICE")
_TRANSPOSE: Final = operator("TRANSPOSE")
#: Operator that sums products -> the axes of its weights that are output channels.
_CHANNELS: Final = {
    operator("CONV2D"): (0,),
    operator("CONV3D"): (0,),
    operator("TRANSPOSE_CONV2D"): (0,),
    _DEPTHWISE: (2, 3),
    _MATMUL: (2,),
}


_TABLES: Final[WeakKeyDictionary[BlockEditor, Tables]] = WeakKeyDictionary()
#: What an operator with constants does to the bias of the sums before it.
_OF_BIAS: Final = {_ADD: np.add, _SUB: np.subtract, _MUL: np.multiply}


#: The largest weights that are scaled by one number for all channels, behind what splits these, and
#: the largest ones that something else uses, too.
_MOST_BYTES: Final = 1 << 22
FEW_BYTES: Final = 1 << 10


class _Link(NamedTuple):
    """Holds an operator between the sums and their scale, and the axis of channels in its result.

    The axis is None behind what splits channels.
    """

    op: Operator
    axis: int | None


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Put a convolution with other weights in place of it and of what follows it, or return None."""
    found = _chain_and_numbers(op, edit)
    if found is None:
        return None
    chain, numbers = found
    sums, name = chain[0].op, op.outputs[0]
    added = _adds(chain)
    given = _array(sums.inputs[1], edit)
    shift = None
    if sums.spec is not _MATMUL:
        shift = _array(sums.inputs[2], edit)
    elif added:
        shift = _array(added[0].op.inputs[1], edit)
    if given is None or (shift is None and not (sums.spec is _MATMUL and op.spec is _MUL)):
        return None
    if sums.spec is _DEPTHWISE and len(chain) > 2 and chain[2].op.spec is _REDUCE_SUM:
        numbers = _of_each_channel(op, numbers, chain[2].op, edit)
    weights = sums.inputs[1]
    # The sum of many products has a larger error than any one of these roundings.
    with np.errstate(all="ignore"):
        if op.spec is _MUL:
            axes = _CHANNELS[sums.spec]
            sizes = [size if axis in axes else 1 for axis, size in enumerate(given.shape)]
            if prod(sizes) != numbers.size:
                return None  # The program is not valid.
            scales = numbers.reshape(sizes)
            if sums.spec is _MATMUL and _tables(edit).of(weights):
                return None  # Scaled, it would not be stored once.
            scaled = given * scales
            if not is_safe(scaled, given, scales):
                return None
            weights = _constant(scaled, f"{name}_weight", edit)
        if shift is not None:
            if added:
                assert added[0].axis is not None
                numbers = _along(numbers, added[0].axis, shift.ndim)
            shift = _OF_BIAS[op.spec](shift, numbers)
            if not np.isfinite(shift).all():
                return None
    bias = _constant(shift, f"{name}_bias", edit) if shift is not None else ""
    value = ""
    for link in chain:
        operands = [value, *link.op.inputs[1:]]
        if link.op is sums:
            operands = [sums.inputs[0], weights, *sums.inputs[2:]]
            if sums.spec is not _MATMUL:
                operands[2] = bias
        elif link in added:
            operands = [value, bias]
        results, like = (op.outputs, "") if link is chain[-1] else (None, link.op.outputs[0])
        value = edit.emit(link.op.spec, operands, link.op.attributes, results=results, like=like)
    return f"{op.spec} with constants became part of the {sums.spec} before it"


def _tables(edit: BlockEditor) -> Tables:
    """Return what knows the large matrices of a block, which is read once."""
    if edit not in _TABLES:
        _TABLES[edit] = Tables(proxy(edit))  # It goes with the editor.
    return _TABLES[edit]


def _chain_and_numbers(op: Operator, edit: BlockEditor) -> tuple[list[_Link], Array] | None:
    """Return the operators from the sums that only this operator uses, and the constants of channels."""
    made = edit.tensors[op.outputs[0]].shape
    pairs = [op.inputs[:2]] if op.spec is _SUB else [op.inputs[:2], op.inputs[1::-1]]
    for value, constant in pairs:
        numbers = _array(constant, edit)
        if numbers is None or made is None or made != edit.tensors[value].shape:
            continue
        for axis in reversed(range(len(made))):
            is_of_axis = numbers.size in (1, made[axis]) and numbers.shape[axis] == numbers.size
            if is_of_axis and made[axis] != DYNAMIC:
                chain = _chain(value, axis, edit)
                if chain and (chain[0].op.spec is not _MATMUL or op.spec is _MUL or _adds(chain)):
                    return chain, np.broadcast_to(numbers.reshape(-1), made[axis])
        if op.spec is _MUL and numbers.size == 1 and (chain := _chain(value, None, edit)):
            sums = chain[0].op
            data = edit.data_of(sums.inputs[1])
            *_, channels = edit.tensors[sums.outputs[0]].shape or (DYNAMIC,)
            # A file would have weights of many uses several times.
            most = _MOST_BYTES if edit.uses[sums.inputs[1]] == 1 else FEW_BYTES
            if data is not None and data.nbytes <= most and channels != DYNAMIC:
                return chain, np.broadcast_to(numbers.reshape(-1), channels)
    return None


def _chain(value: str, axis: int | None, edit: BlockEditor) -> list[_Link]:
    """Return the operators from the sums to a value, each of which has one use; none if one has more.

    Between them may be what moves whole channels, the sum over those of each group behind a convolution
    of single channels, and the bias of a MATMUL. axis: that of the channels; None if all are treated
    alike, so that they may be split.
    """
    chain: list[_Link] = []
    while True:
        op, shape = edit.producers.get(value), edit.tensors[value].shape
        if op is None or shape is None or not op.inputs or edit.uses[value] != 1:
            return []
        if axis is None and (op.spec is _ADD or op.spec in _CHANNELS):
            axis = len(shape) - 1
        if op.spec is _ADD:
            assert axis is not None
            op = None if _adds(chain) else _with_bias(op, axis, edit)
            if op is None:
                return []
        chain.insert(0, _Link(op, axis))
        if op.spec in _CHANNELS:
            is_sum = axis == len(shape) - 1 and (op.spec is _MATMUL or not _adds(chain))
            return chain if is_sum else []
        value = op.inputs[0]
        given = edit.tensors[value].shape
        if given is None:
            return []
        if axis is None:
            if op.spec not in (_RESHAPE, _SLICE, _TRANSPOSE) or _sums_of_groups(op, edit):
                return []
        elif op.spec is _TRANSPOSE:
            perms = order_of(op)
            if not is_order(perms, len(given)):
                return []
            axis = perms[axis]
        elif op.spec is _RESHAPE:
            groups = _sums_of_groups(op, edit)
            if groups:
                is_last = axis == len(shape) - 1 and not _adds(chain)
                return [_Link(one, -1) for one in groups] + chain if is_last else []
            same = [
                place
                for place, size in enumerate(given)
                if (size, prod(given[:place])) == (shape[axis], prod(shape[:axis]))
            ]
            if not same:
                return []
            axis = same[-1]
        elif op.spec is not _ADD and (op.spec is not _SLICE or given[axis] != shape[axis]):
            return []


def _with_bias(op: Operator, axis: int, edit: BlockEditor) -> Operator | None:
    """Return an ADD with the constant of each channel as its second operand, or None."""
    made = edit.tensors[op.outputs[0]].shape
    for value, constant in (op.inputs[:2], op.inputs[1::-1]):
        numbers = _array(constant, edit)
        if numbers is not None and made == edit.tensors[value].shape:
            is_of_channels = numbers.size == numbers.shape[axis]
            return replace(op, inputs=(value, constant)) if is_of_channels else None
    return None


def _adds(chain: list[_Link]) -> list[_Link]:
    return [link for link in chain if link.op.spec is _ADD]


def _sums_of_groups(last: Operator, edit: BlockEditor) -> list[Operator]:
    """Return what sums the channels of each group before a RESHAPE; none if that does not."""
    chain: list[Operator] = []
    value = last.inputs[0]
    for spec in (_REDUCE_SUM, _RESHAPE, _DEPTHWISE):
        op = edit.producers.get(value)
        if op is None or op.spec is not spec or edit.uses[value] != 1:
            return []
        chain.insert(0, op)
        value = op.inputs[0]
    convolution, wider, summed = chain
    wide = edit.tensors[wider.outputs[0]].shape
    given = edit.tensors[convolution.outputs[0]].shape
    kept = edit.tensors[last.outputs[0]].shape
    is_of_groups = (
        summed.attributes["axis"] == 2
        and wide is not None
        and given is not None
        and kept is not None
        and (len(wide), prod(wide[1:]), wide[1] * wide[-1]) == (4, given[-1], kept[-1])
    )
    return chain if is_of_groups else []


def _along(numbers: Array, axis: int, rank: int) -> Array:
    sizes = [1] * rank
    sizes[axis] = numbers.size
    return numbers.reshape(sizes)


def _of_each_channel(op: Operator, numbers: Array, summed: Operator, edit: BlockEditor) -> Array:
    """Return the numbers of single channels: products for each of a group, sums for the first."""
    _, groups, size, each = edit.tensors[summed.inputs[0]].shape or ()
    wide = np.zeros((groups, size, each), np.float32)
    wide[:, : size if op.spec is _MUL else 1] = numbers.reshape(groups, 1, each)
    return wide.reshape(-1)


def _array(name: str, edit: BlockEditor) -> Array | None:
    """Return the elements of a constant of FP32, or None."""
    data = edit.data_of(name)
    if data is None or data.dtype is not _FP32:
        return None
    return data.numpy().reshape(edit.tensors[name].shape or ())


def _constant(array: Array, name: str, edit: BlockEditor) -> str:
    return edit.constant_of(constant_of(array.astype(np.float32), _FP32), array.shape, name=name)


def is_safe(scaled: Array, weights: Array, scales: npt.ArrayLike) -> bool:
    """Return whether no weight left the range of normal numbers, in which products round once."""
    size = np.abs(scaled)
    least = np.finfo(np.float32).tiny
    return bool(
        (np.isfinite(scaled) & ((size >= least) | (weights == 0) | (np.asarray(scales) == 0))).all()
    )
