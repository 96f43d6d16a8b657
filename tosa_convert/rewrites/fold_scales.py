"""Sums and products with a constant for each channel become part of the convolution before them.

Frontends leave a normalisation behind a convolution as SUB, MUL, MUL and ADD. Scaling the weights, not
the sums, rounds each weight once more: the error is below that of the order in which a sum of products
is computed, which TOSA leaves open. A sum with a bias of zeros is exact.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.dtypes import dtype
from tosa_convert.graph.from_numpy import constant_of
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import operator

Array = npt.NDArray[Any]

_ADD, _SUB, _MUL = OPERATORS = tuple(map(operator, ("ADD", "SUB", "MUL")))
_FP32: Final = dtype("FP32")
_DEPTHWISE: Final = operator("DEPTHWISE_CONV2D")
_RESHAPE, _REDUCE_SUM, _TRANSPOSE = map(operator, ("RESHAPE", "REDUCE_SUM", "TRANSPOSE"))
#: Convolution -> the axes of its weights that are output channels.
_CHANNELS: Final = {
    operator("CONV2D"): (0,),
    operator("CONV3D"): (0,),
    operator("TRANSPOSE_CONV2D"): (0,),
    _DEPTHWISE: (2, 3),
}


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Put a convolution with other weights in place of it and of what follows it, or return None."""
    found = _chain_and_numbers(op, edit)
    if found is None:
        return None
    (convolution, *rest), numbers = found
    x, weights, bias, *zeros = convolution.inputs
    given, shift = _array(weights, edit), _array(bias, edit)
    if given is None or shift is None:
        return None
    if len(rest) > 1:
        numbers = _of_each_channel(op, numbers, rest[1], edit)
    name = op.outputs[0]
    # The sum of many products has a larger error than any one of these roundings.
    with np.errstate(all="ignore"):
        if op.spec is _MUL:
            axes = _CHANNELS[convolution.spec]
            sizes = [size if axis in axes else 1 for axis, size in enumerate(given.shape)]
            scales = numbers.reshape(sizes)
            scaled = given * scales
            if not _is_safe(scaled, given, scales):
                return None
            weights = _constant(scaled, f"{name}_weight", edit)
            shift = shift * numbers
        else:
            shift = shift - numbers if op.spec is _SUB else shift + numbers
    if not np.isfinite(shift).all():
        return None
    inputs = [x, weights, _constant(shift, f"{name}_bias", edit), *zeros]
    chain = [replace(convolution, inputs=tuple(inputs)), *rest]
    value = ""
    for number, link in enumerate(chain):
        operands = [value, *link.inputs[1:]] if number else link.inputs
        results = op.outputs if link is chain[-1] else None
        value = edit.emit(link.spec, operands, link.attributes, results=results)
    return f"{op.spec} with constants became part of the {convolution.spec} before it"


def _chain_and_numbers(op: Operator, edit: BlockEditor) -> tuple[list[Operator], Array] | None:
    """Return the convolution that only this operator uses, and the constants of its channels.

    Behind a convolution of single channels may be the sum over those of each group, between RESHAPEs,
    and behind any convolution a TRANSPOSE.
    """
    made = edit.tensors[op.outputs[0]].shape
    pairs = [op.inputs[:2]] if op.spec is _SUB else [op.inputs[:2], op.inputs[1::-1]]
    for value, constant in pairs:
        numbers, last = _array(constant, edit), edit.producers.get(value)
        if numbers is None or last is None or made is None or made != edit.tensors[value].shape:
            continue
        axis = len(made) - 1
        if last.spec is _TRANSPOSE and edit.uses[value] == 1:
            perms = last.attributes["perms"]
            assert isinstance(perms, tuple)
            chain, axis = _chain(last.inputs[0], edit), perms.index(axis)
            chain += [last] if chain else []
        else:
            chain = _chain(value, edit)
        if chain and numbers.size in (1, made[axis]) and numbers.shape[axis] == numbers.size:
            return chain, np.broadcast_to(numbers.reshape(-1), made[axis])
    return None


def _chain(value: str, edit: BlockEditor) -> list[Operator]:
    """Return the operators from a convolution to a value, each of which has one use."""
    chain: list[Operator] = []
    for spec in (_RESHAPE, _REDUCE_SUM, _RESHAPE):
        op = edit.producers.get(value)
        if op is None or edit.uses[value] > 1:
            return []
        chain.insert(0, op)
        if op.spec in _CHANNELS:
            return chain if len(chain) == 1 else []
        if op.spec is not spec:
            return []
        value = op.inputs[0]
    convolution = edit.producers.get(value)
    if convolution is None or convolution.spec is not _DEPTHWISE or edit.uses[value] > 1:
        return []
    summed, (wide, kept) = chain[1], [edit.tensors[chain[n].outputs[0]].shape for n in (0, 2)]
    given = edit.tensors[value].shape
    is_of_groups = (
        summed.attributes["axis"] == 2
        and wide is not None
        and given is not None
        and kept is not None
        and (len(wide), prod(wide[1:]), wide[1] * wide[-1]) == (4, given[-1], kept[-1])
    )
    return [convolution, *chain] if is_of_groups else []


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


def _is_safe(scaled: Array, weights: Array, scales: Array) -> bool:
    """Return whether no weight left the range of normal numbers, in which products round once."""
    size = np.abs(scaled)
    least = np.finfo(np.float32).tiny
    return bool((np.isfinite(scaled) & ((size >= least) | (weights == 0) | (scales == 0))).all())
