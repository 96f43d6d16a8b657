"""Which operators of a TFLite model that move elements are decomposed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tosa_convert.frontends.tflite.facts import (
    Facts,
    Find,
    integers,
    operands_of,
    result_of,
)
from tosa_convert.frontends.tflite.file import Operator, TfliteFile
from tosa_convert.frontends.tflite.names import operator_name
from tosa_convert.frontends.tflite.numbers import option

#: Types whose elements GATHER and SCATTER take; unsigned numbers keep their bits.
_MOVED: Final = ("float32", "int32", "int16", "int8", "uint8")


def _strided_slice(model: TfliteFile, operator: Operator) -> Facts | None:
    """Backwards, and with new axes: start, count and step of each axis of the operand."""
    x, *bounds = operands_of(model, operator)
    begin, end, strides = (integers(one) for one in bounds)
    masks = [option(operator, place) for place in range(5)]
    begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask = masks
    if ellipsis_mask or not begin or not len(begin) == len(end) == len(strides):
        return None
    if not new_axis_mask and min(strides) > 0:
        return None
    axes: list[tuple[int, int, int]] = []
    for at in range(len(begin)):
        if new_axis_mask >> at & 1:
            continue
        if len(axes) == len(x.shape) or not strides[at]:
            return None
        size = x.shape[len(axes)]
        if shrink_mask >> at & 1:
            axes.append((begin[at] % size, 1, 1))
            continue
        start = None if begin_mask >> at & 1 else begin[at]
        stop = None if end_mask >> at & 1 else end[at]
        taken = range(*slice(start, stop, strides[at]).indices(size))
        axes.append((taken.start, len(taken), taken.step))
    axes += [(0, size, 1) for size in x.shape[len(axes) :]]
    return {"axes": axes} if all(count for _, count, _ in axes) else None


def _whole(model: TfliteFile, operator: Operator) -> Facts | None:
    """PAD and SLICE that change nothing: of a result of uint8, the converter writes another type."""
    x, result = operands_of(model, operator)[0], result_of(model, operator)
    is_result = operator.outputs[0] in model.outputs
    return {} if is_result and result.dtype == "uint8" and x.shape == result.shape else None


def _unpack(model: TfliteFile, operator: Operator) -> Facts | None:
    """Find UNPACK with a returned result of uint8, for which the converter writes another type."""
    x, result = operands_of(model, operator)[0], result_of(model, operator)
    if result.dtype != "uint8" or not set(operator.outputs) & set(model.outputs):
        return None
    return {"axis": option(operator, 1) % len(x.shape)}


def _select(model: TfliteFile, operator: Operator) -> Facts | None:
    """Find selections by a condition for each row of operands with several axes."""
    condition, *_ = operands_of(model, operator, 3)
    result = result_of(model, operator)
    is_row = len(condition.shape) == 1 and len(result.shape) > 1
    return {} if is_row and condition.shape[0] == result.shape[0] else None


def _fill(model: TfliteFile, operator: Operator) -> Facts | None:
    """Find FILL with a computed value; a constant one is folded."""
    _, value = operands_of(model, operator)
    return {} if not value.data and result_of(model, operator).shape else None


def _one_hot(model: TfliteFile, operator: Operator) -> Facts | None:
    operands_of(model, operator, 4)
    result = result_of(model, operator)
    if result.dtype not in ("int8", "uint8", "int16"):
        return None
    return {"axis": option(operator, 0) % len(result.shape)}


def _diagonal(model: TfliteFile, operator: Operator) -> Facts | None:
    """Find diagonals of square matrices."""
    has_others = operator_name(operator.code) == "MATRIX_SET_DIAG"
    operands_of(model, operator, 2 if has_others else 1)
    result = result_of(model, operator)
    is_square = result.shape[-1] == result.shape[-2]
    return {} if is_square and result.dtype in _MOVED else None


def _reverse_sequence(model: TfliteFile, operator: Operator) -> Facts | None:
    x, lengths = operands_of(model, operator)
    axes = [option(operator, 1) % len(x.shape), option(operator, 0) % len(x.shape)]
    is_moved = x.dtype in _MOVED and x.dtype != "int8"  # TFLite does not run it.
    return {"axes": axes} if is_moved and lengths.dtype == "int32" else None


def _dynamic_update_slice(model: TfliteFile, operator: Operator) -> Facts | None:
    x, _, start = operands_of(model, operator)
    return {} if x.dtype in _MOVED and start.dtype == "int32" and x.shape else None


def _sparse_to_dense(model: TfliteFile, operator: Operator) -> Facts | None:
    """To constant places, which are all different."""
    indices, _, values, default = operands_of(model, operator)
    found, shape = integers(indices), result_of(model, operator).shape
    if not found or values.dtype not in _MOVED or default.shape:
        return None
    rank = len(shape)
    places = []
    for at in range(0, len(found), rank):
        place = 0
        for size, index in zip(shape, found[at : at + rank], strict=True):
            place = place * size + index
        places.append(place)
    return {"places": places} if len(set(places)) == len(places) else None


def _embedding_lookup(model: TfliteFile, operator: Operator) -> Facts | None:
    rows, table = operands_of(model, operator)
    is_same = table.dtype == result_of(model, operator).dtype
    return {} if is_same and table.dtype in _MOVED and rows.dtype == "int32" else None


FINDERS: Final[Mapping[str, Find]] = {
    "STRIDED_SLICE": _strided_slice,
    "SLICE": _whole,
    "PAD": _whole,
    "UNPACK": _unpack,
    "SELECT": _select,
    "FILL": _fill,
    "ONE_HOT": _one_hot,
    "MATRIX_DIAG": _diagonal,
    "MATRIX_SET_DIAG": _diagonal,
    "REVERSE_SEQUENCE": _reverse_sequence,
    "DYNAMIC_UPDATE_SLICE": _dynamic_update_slice,
    "SPARSE_TO_DENSE": _sparse_to_dense,
    "EMBEDDING_LOOKUP": _embedding_lookup,
}
