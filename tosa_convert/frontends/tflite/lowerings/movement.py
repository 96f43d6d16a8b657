"""Operators that move elements, repeat them, or choose among them, and are not lowered or wrongly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.recipes import scatter_rows
from tosa_convert.frontends.tflite.lowerings.lowering import (
    Correction,
    Decomposition,
    Given,
    Group,
    OtherFormError,
    around,
    broadcast,
    ranked,
    sizes_of,
)
from tosa_convert.frontends.tflite.read import Operator, TfliteFile, operator_name
from tosa_convert.records import replace

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value
    from tosa_convert.frontends.tflite.lowerings.writer import Writer

#: Types whose elements GATHER and SCATTER take; unsigned numbers keep their bits.
_MOVED: Final = ("float32", "int32", "int16", "int8", "uint8")


def _find_strided_slice(model: TfliteFile, operator: Operator) -> list[tuple[int, int, int]] | None:
    """Find start, count and step of each axis, for slices that the converter takes for others.

    These are backwards, have new axes, reach beyond the operand, or leave out an axis that is masked.
    """
    x, *bounds = model.operands(operator)
    begin, end, strides = (one.integers() for one in bounds)
    masks = [operator.option(place) for place in range(5)]
    begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask = masks
    if ellipsis_mask or not begin or not len(begin) == len(end) == len(strides):
        return None
    is_other = bool(new_axis_mask) or min(strides) < 1
    is_other |= bool(shrink_mask & (begin_mask | end_mask))
    axes: list[tuple[int, int, int]] = []
    for at in range(len(begin)):
        if new_axis_mask >> at & 1:
            continue
        if len(axes) == len(x.shape) or not strides[at]:
            return None
        size = x.shape[len(axes)]
        if shrink_mask >> at & 1:
            first = 0 if begin_mask >> at & 1 else begin[at]
            axes.append((first % size, 1, 1))
            continue
        is_other |= size > 0 and max(abs(begin[at]), abs(end[at])) > size
        start = None if begin_mask >> at & 1 else begin[at]
        stop = None if end_mask >> at & 1 else end[at]
        taken = range(*slice(start, stop, strides[at]).indices(size))
        axes.append((taken.start, len(taken), taken.step))
    axes += [(0, size, 1) for size in x.shape[len(axes) :]]
    return axes if is_other and all(count for _, count, _ in axes) else None


def _lower_strided_slice(
    b: Builder, given: Given, facts: Sequence[tuple[int, int, int]]
) -> list[Value]:
    """Axis by axis; backwards, the axis is reversed first."""
    x = given.operands[0]
    for axis, (start, count, step) in enumerate(facts):
        x = _taken(b, x, axis, start, count, step)
    return [b.reshape(x, given.shape)]


def _find_whole(model: TfliteFile, operator: Operator) -> bool:
    """PAD and SLICE that change nothing: of a result of uint8, the converter writes another type."""
    x, result = model.operands(operator)[0], model.result(operator)
    is_result = operator.outputs[0] in model.outputs
    return is_result and result.dtype == "uint8" and x.shape == result.shape


def _lower_copy(b: Builder, given: Given, facts: bool) -> list[Value]:
    return [b.identity(given.operands[0])]


def _find_unpack(model: TfliteFile, operator: Operator) -> int | None:
    """Find UNPACK with a returned result of uint8, for which the converter writes another type."""
    x, result = model.operands(operator)[0], model.result(operator)
    if result.dtype != "uint8" or not set(operator.outputs) & set(model.outputs):
        return None
    return operator.option(1) % len(x.shape)


def _lower_unpack(b: Builder, given: Given, axis: int) -> list[Value]:
    x = given.operands[0]
    return [b.reshape(_part(b, x, axis, at, 1), given.shape) for at in range(sizes_of(x)[axis])]


def _find_split(model: TfliteFile, operator: Operator) -> tuple[int, list[int]] | None:
    """Find the axis and the sizes of parts, one of which is what the others leave."""
    x, sizes, axis = model.operands(operator, 3)
    found, (at,) = sizes.integers(), axis.integers()
    if found.count(-1) != 1:
        return None
    at %= len(x.shape)
    left = x.shape[at] - sum(found) - 1
    return at, [left if size < 0 else size for size in found]


def _lower_split(b: Builder, given: Given, facts: tuple[int, list[int]]) -> list[Value]:
    axis, sizes = facts
    starts = (sum(sizes[:at]) for at in range(len(sizes)))
    parts = [_part(b, given.operands[0], axis, *row) for row in zip(starts, sizes, strict=True)]
    return [b.identity(part) if part is given.operands[0] else part for part in parts]


def _find_select(model: TfliteFile, operator: Operator) -> bool:
    """Find selections by a condition for each row of operands with several axes."""
    condition, *_ = model.operands(operator, 3)
    result = model.result(operator)
    is_row = len(condition.shape) == 1 and len(result.shape) > 1
    return is_row and condition.shape[0] == result.shape[0]


def _lower_select(b: Builder, given: Given, facts: bool) -> list[Value]:
    """Select by a condition for each row."""
    condition, *values = given.operands
    rows = b.reshape(condition, (*sizes_of(condition), *(1,) * (len(given.shape) - 1)))
    return [b.select(rows, *values)]


def _find_fill(model: TfliteFile, operator: Operator) -> bool:
    """Find FILL with a computed value; a constant one is folded."""
    _, value = model.operands(operator)
    return not value.data and bool(model.result(operator).shape)


def _lower_fill(b: Builder, given: Given, facts: bool) -> list[Value]:
    value = given.operands[1]
    return [broadcast(b, b.reshape(value, (1,) * len(given.shape)), given.shape)]


def _find_one_hot(model: TfliteFile, operator: Operator) -> int:
    model.operands(operator, 4)
    result = model.result(operator)
    return operator.option(0) % len(result.shape)


def _lower_one_hot(b: Builder, given: Given, axis: int) -> list[Value]:
    import numpy as np

    indices, _, on, off = given.operands
    rank = len(given.shape)
    shape = sizes_of(indices)
    each = b.reshape(indices, (*shape[:axis], 1, *shape[axis:]))
    along = np.arange(given.shape[axis]).reshape([-1 if at == axis else 1 for at in range(rank)])
    is_on = b.equal(each, b.const(along, dtype=indices.dtype))
    return [b.select(is_on, *(ranked(b, one, rank) for one in (on, off)))]


def _find_diagonal(model: TfliteFile, operator: Operator) -> bool:
    """Find diagonals of square matrices."""
    has_others = operator_name(operator.code) == "MATRIX_SET_DIAG"
    model.operands(operator, 2 if has_others else 1)
    result = model.result(operator)
    is_square = result.shape[-1] == result.shape[-2]
    return is_square and result.dtype in _MOVED


def _lower_diagonal(b: Builder, given: Given, facts: bool) -> list[Value]:
    """Make a matrix with a diagonal; the other elements are those of the matrix, or 0."""
    import numpy as np

    *matrices, diagonal = given.operands
    shape = sizes_of(diagonal)
    size = shape[-1]
    is_diagonal = np.eye(size, dtype=bool).reshape((1,) * (len(shape) - 1) + (size, size))
    others = matrices[0] if matrices else b.const(np.zeros((1,) * len(given.shape)), diagonal.dtype)
    rows = b.reshape(diagonal, (*shape, 1))
    found = b.select(b.const(is_diagonal), rows, others)
    return [found]


def _find_reverse_sequence(model: TfliteFile, operator: Operator) -> tuple[int, int] | None:
    x, lengths = model.operands(operator)
    axes = operator.option(1) % len(x.shape), operator.option(0) % len(x.shape)
    is_moved = x.dtype in _MOVED and x.dtype != "int8"  # TFLite does not run it.
    return axes if is_moved and lengths.dtype == "int32" else None


def _lower_reverse_sequence(b: Builder, given: Given, axes: tuple[int, int]) -> list[Value]:
    """Gather from n - 1 - p for a position p of the first n elements, and from p for the others."""
    import numpy as np

    x, lengths = given.operands
    order = [*axes, *(axis for axis in range(len(given.shape)) if axis not in axes)]
    moved = b.transpose(x, perms=order)
    rows, size, *rest = sizes_of(moved)
    flat = b.reshape(moved, (rows, size, math.prod(rest)))
    places = b.const(np.arange(size, dtype=np.int32).reshape(1, size))
    count = b.reshape(lengths, (rows, 1))
    backwards = b.sub(b.sub(count, b.const(np.ones((1, 1), np.int32))), places)
    indices = b.select(b.greater(count, places), backwards, places)
    found = b.reshape(b.gather(flat, indices), sizes_of(moved))
    return [b.transpose(found, perms=np.argsort(order).tolist())]


def _find_dynamic_update_slice(model: TfliteFile, operator: Operator) -> bool:
    x, _, start = model.operands(operator)
    return x.dtype in _MOVED and start.dtype == "int32" and x.shape != ()


def _lower_dynamic_update_slice(b: Builder, given: Given, facts: bool) -> list[Value]:
    """SCATTER to places that begin where the operand says, within the tensor."""
    import numpy as np

    x, update, start = given.operands
    shape, part = sizes_of(x), sizes_of(update)
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    most = np.array([size - own for size, own in zip(shape, part, strict=True)], np.int32)
    begin = b.minimum(b.maximum(start, 0), b.const(most))
    first = b.reduce_sum(b.mul(begin, b.const(np.array(steps, np.int32))), axis=0)
    grid = np.indices(part).reshape(len(part), -1)
    offsets = (np.array(steps)[:, None] * grid).sum(0).astype(np.int32)
    places = b.add(b.reshape(first, (1, 1)), b.const(offsets[None]))
    return [b.reshape(scatter_rows(b, x, places, update), shape)]


def _find_sparse_to_dense(model: TfliteFile, operator: Operator) -> list[int] | None:
    """Find those to constant places, which are all different."""
    indices, _, values, default = model.operands(operator)
    found, shape = indices.integers(), model.result(operator).shape
    if not found or values.dtype not in _MOVED or default.shape:
        return None
    rank = len(shape)
    places = []
    for at in range(0, len(found), rank):
        place = 0
        for size, index in zip(shape, found[at : at + rank], strict=True):
            place = place * size + index
        places.append(place)
    return places if len(set(places)) == len(places) else None


def _lower_sparse_to_dense(b: Builder, given: Given, facts: list[int]) -> list[Value]:
    import numpy as np

    _, _, values, default = given.operands
    places = np.array(facts, np.int32)[None]
    whole = broadcast(b, b.reshape(default, (1,) * len(given.shape)), given.shape)
    update = broadcast(b, b.reshape(values, sizes_of(values) or (1,)), places.shape[1:])
    return [b.reshape(scatter_rows(b, whole, b.const(places), update), given.shape)]


def _find_embedding_lookup(model: TfliteFile, operator: Operator) -> tuple[float, ...] | None:
    """Find the scales of a table of integers whose rows become floating point; () for other tables."""
    rows, table = model.operands(operator)
    if table.dtype not in _MOVED or rows.dtype != "int32":
        return None
    if table.dtype == model.result(operator).dtype:
        return ()
    is_scaled = len(table.scales) in (1, table.shape[0]) and not table.zero_point
    is_hybrid = table.dtype == "int8" and model.result(operator).dtype == "float32"
    return table.scales if is_scaled and is_hybrid else None


def _lower_embedding_lookup(b: Builder, given: Given, scales: tuple[float, ...]) -> list[Value]:
    rows, table = given.operands
    count, *rest = sizes_of(table)
    flat = b.reshape(table, (1, count, math.prod(rest)))
    index = b.reshape(rows, (1, math.prod(sizes_of(rows))))
    found = b.gather(flat, index)
    if scales:
        import numpy as np

        factors = b.const(np.array(scales, np.float32).reshape(1, -1, 1))
        factor = b.gather(factors, index) if len(scales) > 1 else factors
        found = b.mul(b.cast(found, dtype="fp32"), factor)
    return [b.reshape(found, given.shape)]


def _find_common_shape(model: TfliteFile, operator: Operator) -> bool:
    return {tensor.dtype for tensor in model.operands(operator, 2)} == {"int32"}


def _lower_common_shape(b: Builder, given: Given, facts: bool) -> list[Value]:
    """Take the size of the second shape where that of the first one is 1."""
    import numpy as np

    rank = given.shape[0]
    shapes = []
    for shape in given.operands:
        before = rank - sizes_of(shape)[0]
        parts = [b.const(np.ones(before, np.int32)), shape] if before else [shape]
        shapes.append(b.concat(parts, axis=0) if before else shape)
    first, second = shapes
    return [b.select(b.equal(first, 1), second, first)]


def _find_transpose(model: TfliteFile, operator: Operator) -> list[int] | None:
    """Find the order of the axes of a TRANSPOSE that the converter lowers wrongly, or not.

    It folds constants of BOOL to other elements, and does not take axes that are counted from the end.
    """
    x, order = model.operands(operator)
    axes = order.integers()
    is_wrong = x.dtype == "bool" and _is_fixed(model, operator)
    return axes if is_wrong or min(axes, default=0) < 0 else None


def _lower_transpose(b: Builder, given: Given, order: list[int]) -> list[Value]:
    x = given.operands[0]
    return [b.transpose(x, perms=[axis % len(sizes_of(x)) for axis in order])]


def _is_fixed(model: TfliteFile, wanted: Operator) -> bool:
    """Return whether an operator has operands that follow from constants alone."""
    free = {*model.inputs, *(at for at, one in enumerate(model.tensors) if one.is_state)}
    for operator in model.operators:
        is_free = bool(free & {*operator.inputs})
        if operator is wanted:
            return not is_free
        free.update(operator.outputs if is_free else ())
    return False


def _taken(b: Builder, x: Value, axis: int, start: int, count: int, step: int) -> Value:
    """`count` elements along an axis."""
    size = sizes_of(x)[axis]
    if step < 0:
        x, start, step = b.reverse(x, axis=axis), size - 1 - start, -step
    if count == 1:
        step = 1
    reach = (count - 1) * step + 1
    x = _part(b, x, axis, start, reach)
    if step == 1:
        return x
    before, _, after = around(x, axis)
    shape = sizes_of(x)
    flat = b.pad(b.reshape(x, (before, reach, after)), [0, 0, 0, step - 1, 0, 0])
    groups = b.reshape(flat, (before, count, step, after))
    first = b.slice(groups, (0, 0, 0, 0), (before, count, 1, after))
    return b.reshape(first, (*shape[:axis], count, *shape[axis + 1 :]))


def _part(b: Builder, x: Value, axis: int, start: int, size: int) -> Value:
    shape = list(sizes_of(x))
    begin = [start if at == axis else 0 for at in range(len(shape))]
    shape[axis] = size
    return x if tuple(shape) == sizes_of(x) else b.slice(x, begin, shape)


def _find_unsigned_zeros(model: TfliteFile, operator: Operator) -> bool:
    return model.result(operator).dtype == "uint8"


def _lower_unsigned_zeros(group: Group, facts: bool, write: Writer) -> None:
    """Correct the zeros among which unsigned numbers are scattered."""
    from tosa_convert.graph.constant import Constant

    scatter = group.the("SCATTER")
    tensor = write.tensors[scatter.inputs[0]]
    if tensor.data is None or tensor.dtype.name != "INT8" or tensor.data.numpy().any():
        raise OtherFormError
    zeros = Constant(tensor.dtype, tensor.data.count, b"\x80", splat=True)
    values = write.constant_of(zeros, tensor.shape or ())
    inputs = (values, *scatter.inputs[1:])
    write.operators += [
        replace(one, inputs=inputs) if one is scatter else one for one in group.operators
    ]


DECOMPOSITIONS: Final[dict[str, Decomposition[Any]]] = {
    "STRIDED_SLICE": Decomposition(
        _find_strided_slice, _lower_strided_slice, "the converter slices otherwise"
    ),
    "SPLIT_V": Decomposition(
        _find_split, _lower_split, "the converter takes the size that is left for another"
    ),
    "TRANSPOSE": Decomposition(_find_transpose, _lower_transpose),
    "SLICE": Decomposition(_find_whole, _lower_copy),
    "PAD": Decomposition(_find_whole, _lower_copy),
    "UNPACK": Decomposition(_find_unpack, _lower_unpack),
    "SELECT": Decomposition(_find_select, _lower_select),
    "FILL": Decomposition(_find_fill, _lower_fill),
    "ONE_HOT": Decomposition(
        _find_one_hot, _lower_one_hot, "the converter scatters to places that do not exist"
    ),
    "MATRIX_DIAG": Decomposition(_find_diagonal, _lower_diagonal),
    "MATRIX_SET_DIAG": Decomposition(_find_diagonal, _lower_diagonal),
    "REVERSE_SEQUENCE": Decomposition(_find_reverse_sequence, _lower_reverse_sequence),
    "DYNAMIC_UPDATE_SLICE": Decomposition(_find_dynamic_update_slice, _lower_dynamic_update_slice),
    "SPARSE_TO_DENSE": Decomposition(_find_sparse_to_dense, _lower_sparse_to_dense),
    "BROADCAST_ARGS": Decomposition(_find_common_shape, _lower_common_shape),
    "EMBEDDING_LOOKUP": Decomposition(_find_embedding_lookup, _lower_embedding_lookup),
}
CORRECTIONS: Final[tuple[Correction[Any], ...]] = (
    Correction(
        "SCATTER_ND",
        "unsigned numbers get 128 for 0",
        _find_unsigned_zeros,
        _lower_unsigned_zeros,
    ),
)
