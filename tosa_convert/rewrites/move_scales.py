"""Products with one number move to where another product takes them in.

Attention scales both operands of its first product of matrices: one is enough. A normalisation divides a
sum of squares by their number, takes the root, and scales each channel: the root of c * (s + e / c)
is that of s + e / c, scaled with the channels.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.dtypes import dtype
from tosa_convert.graph.model import DYNAMIC, Operator
from tosa_convert.graph.opset import operator
from tosa_convert.records import NamedTuple
from tosa_convert.rewrites.fold_scales import FEW_BYTES, is_safe

_MATMUL: Final = operator("MATMUL")
_MUL: Final = operator("MUL")
OPERATORS: Final = (_MATMUL, _MUL)
_ADD: Final = operator("ADD")
_RSQRT: Final = operator("RSQRT")
_MOVERS: Final = tuple(map(operator, ("RESHAPE", "SLICE", "TRANSPOSE")))
_FP32: Final = dtype("FP32")
#: The largest number that scales, and the largest that is added; the reciprocals are the least. So
#: products stay far from the ends of the range of FP32.
_MOST_SCALE: Final = 1e6
_MOST_ADDED: Final = 1e18


class _Scaled(NamedTuple):
    """Describes a value as another one, times a number, moved by some operators.

    value: the other one. number: the number. movers: what moves the product, in order.
    """

    value: str
    number: float
    movers: list[Operator]


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Scale one operand of a product of matrices in place of both, or channels in place of a mean."""
    return _of_matrices(op, edit) if op.spec is _MATMUL else _of_norm(op, edit)


def _of_matrices(op: Operator, edit: BlockEditor) -> str | None:
    one, other = (_scaled(name, edit) for name in op.inputs[:2])
    if one is None or other is None:
        return None
    value = _times(one.value, one.number * other.number, edit)
    operands = [_moved(value, one.movers, edit), _moved(other.value, other.movers, edit)]
    edit.emit(_MATMUL, [*operands, *op.inputs[2:]], op.attributes, results=op.outputs)
    return "MATMUL of two scaled operands became one of which one is scaled"


def _scaled(name: str, edit: BlockEditor) -> _Scaled | None:
    """Return what an operand is, if it is scaled by a number and nothing else uses it; else None."""
    movers: list[Operator] = []
    while (op := edit.producers.get(name)) and edit.uses[name] == 1:
        if op.spec is _MUL:
            found = _with_number(op, edit, _MOST_SCALE)
            return None if found is None else _Scaled(*found, movers)
        if op.spec not in _MOVERS:
            break
        movers.insert(0, op)
        name = op.inputs[0]
    return None


def _with_number(op: Operator, edit: BlockEditor, most: float) -> tuple[str, float] | None:
    """Return the value of equal shape and the number of a product or sum of FP32, or None.

    most: the largest number; the least is its reciprocal.
    """
    shape = edit.tensors[op.outputs[0]].shape
    for value, constant in (op.inputs[:2], op.inputs[1::-1]):
        number, given = edit.number_of(constant), edit.tensors[value]
        if number is None or shape is None or (given.dtype, given.shape) != (_FP32, shape):
            continue
        sizes = edit.tensors[constant].shape or ()
        # Where a size is not known, a constant of more elements could decide it.
        if DYNAMIC not in shape or set(sizes) <= {1}:
            return (value, float(number)) if 1 / most <= number <= most else None
    return None


def _times(value: str, number: float, edit: BlockEditor) -> str:
    return edit.emit(_MUL, [value, edit.number(number, like=value)], like=value)


def _moved(value: str, movers: list[Operator], edit: BlockEditor) -> str:
    for op in movers:
        value = edit.emit(op.spec, [value, *op.inputs[1:]], op.attributes, like=op.outputs[0])
    return value


def _of_norm(op: Operator, edit: BlockEditor) -> str | None:
    """Compute x * rsqrt(c * s + e) * w as x * rsqrt(s + e / c) * (w / sqrt(c)), or return None."""
    for product, weights in (op.inputs[:2], op.inputs[1::-1]):
        data = edit.data_of(weights)
        scaled = _only(product, _MUL, edit)
        if data is None or data.dtype is not _FP32 or scaled is None:
            continue
        if data.nbytes > FEW_BYTES and edit.uses[weights] > 1:
            continue  # A file would have them twice.
        for value, root in (scaled.inputs[:2], scaled.inputs[1::-1]):
            found = _mean_in(root, edit)
            if found is None:
                continue
            total, share, added = found
            array = data.numpy().reshape(edit.tensors[weights].shape or ())
            scales = np.float32(1 / sqrt(share))
            with np.errstate(all="ignore"):
                wider_weights = array * scales
            if not is_safe(wider_weights, array, scales):
                return None
            wider = edit.emit(_ADD, [total, edit.number(added / share, like=total)], like=total)
            normal = edit.emit(_MUL, [value, edit.emit(_RSQRT, [wider], like=root)], like=product)
            made = constant_of(wider_weights, _FP32)
            new = edit.constant_of(made, array.shape, name=f"{op.outputs[0]}_weight")
            edit.emit(_MUL, [normal, new], results=op.outputs)
            return "MUL of a mean became part of the weights of a normalisation"
    return None


def _mean_in(root: str, edit: BlockEditor) -> tuple[str, float, float] | None:
    """Return s, c and e of a value rsqrt(c * s + e) that nothing else uses, or None."""
    rsqrt = _only(root, _RSQRT, edit)
    total = None if rsqrt is None else _only(rsqrt.inputs[0], _ADD, edit)
    if total is None:
        return None
    added = _with_number(total, edit, _MOST_ADDED)
    mean = None if added is None else _only(added[0], _MUL, edit)
    found = None if mean is None else _with_number(mean, edit, _MOST_SCALE)
    return None if added is None or found is None else (*found, added[1])


def _only(name: str, spec: object, edit: BlockEditor) -> Operator | None:
    """Return the operator of a kind that computes a value of FP32 with one use, or None."""
    op = edit.producers.get(name)
    if op is None or op.spec is not spec or edit.uses[name] != 1:
        return None
    return op if edit.tensors[name].dtype is _FP32 else None
