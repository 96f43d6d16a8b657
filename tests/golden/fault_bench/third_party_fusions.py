"""Faults of rewrites: fusions, operators moved past one another, folded constants, lost loop states.

A compiler joins an operator with the one that computes its operand. Each fault sees such a pair, and
computes both as a wrong pattern of the rewriter does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import wraps
from typing import Any

import numpy as np
from golden.fault_bench import third_party_float_programs as floats
from golden.fault_bench import third_party_fused_programs as fused
from golden.fault_bench import third_party_integer_programs as integers
from golden.fault_bench.fault import At, Change, Fault, FaultyMachine, Value
from golden.fault_bench.third_party_rescale import Requantised
from golden.fault_bench.third_party_support import (
    FLOATS,
    Array,
    again,
    array,
    axis_of,
    like,
    limits,
    of,
    rows,
    wide,
    window_sums,
)


def before(at: At | None, *names: str) -> list[At]:
    """Return the operators of these names that are fused: each computes the first operand of the last.

    None at all if the program has others, or if they are compiled apart.
    """
    found: list[At] = []
    for name in names:
        at = at.producer() if at is not None else None
        if at is None or at.op.spec.name != name:
            return []
        found.append(at)
    return found


def _at_last(change: Change, last: str) -> Change:
    """Return a change of the last operator of a pattern alone, which is the first of its names."""

    @wraps(change)
    def changed(at: At, results: list[Value]) -> Sequence[Value]:
        return change(at, results) if at.op.spec.name == last else results

    return changed


def activated_before_addition(at: At, results: list[Value]) -> Sequence[Value]:
    """Limit the first operand of a sum, then add the second one."""
    for total in before(at, "ADD"):
        first = again(at, 0, total.operands[0])[0]
        return like(results[0], wide(first) + wide(total.operands[1]))
    return results


def bias_rescaled_alone(at: At, results: list[Value]) -> Sequence[Value]:
    """Rescale the products and the bias each on their own, with two roundings."""
    for convolution in before(at, "CONV2D") or before(at, "DEPTHWISE_CONV2D"):
        q, bias = Requantised(at), wide(convolution.operands[2])
        q.value = q.value - bias
        products = np.floor(q.exact + 0.5)
        q.value = bias
        return q.result(products + np.floor(q.exact + 0.5))
    return results


def padding_joins_convolution(at: At, results: list[Value]) -> Sequence[Value]:
    """Make the padding before a convolution its own, which is of zeros whatever the constant was."""
    for pad in before(at, "PAD"):
        return again(at, 0, again(pad, 2, [0])[0])
    return results


def padding_joins_maximum(at: At, results: list[Value]) -> Sequence[Value]:
    """Make the zeros before a max pooling its own padding, which never is the greatest."""
    for pad in before(at, "PAD"):
        least = float(limits(array(pad.operands[2]).dtype).min)
        return again(at, 0, again(pad, 2, [least])[0])
    return results


def padding_joins_mean(at: At, results: list[Value]) -> Sequence[Value]:
    """Make the zeros before an average pooling its own padding, which is not counted."""
    for pad in before(at, "PAD"):
        count = window_sums(at, wide(again(pad, 0, np.ones(array(pad.operands[0]).shape))[0]))
        return like(results[0], wide(results[0]) * count.max() / count)
    return results


def transposes_composed_backwards(at: At, results: list[Value]) -> Sequence[Value]:
    """Join two transposes with the permutations in the other order."""
    for first in before(at, "TRANSPOSE"):
        second: Any = at.op.attributes["perms"]
        perms: Any = first.op.attributes["perms"]
        return like(results[0], array(first.operands[0]).transpose([second[i] for i in perms]))
    return results


def axis_not_renumbered(at: At, results: list[Value]) -> Sequence[Value]:
    """Move a transpose behind an operator that has an axis, and keep the number of the axis."""
    moved = [at.producer(position) for position in range(len(at.operands))]
    parts = [one for one in moved if one is not None and one.op.spec.name == "TRANSPOSE"]
    if len(parts) < len(moved):
        return results
    perms: Any = parts[0].op.attributes["perms"]
    if at.op.spec.name == "REDUCE_SUM":
        found = wide(parts[0].operands[0]).sum(axis=axis_of(at), keepdims=True)
    else:
        found = np.concatenate([array(part.operands[0]) for part in parts], axis_of(at))
    return like(results[0], found.transpose(perms))


def transpose_taken_for_reshape(at: At, results: list[Value]) -> Sequence[Value]:
    """Change the shape alone: the test that only axes of size 1 move is wrong."""
    return like(results[0], array(at.operands[0]))


def depth_to_space_of_columns(at: At, results: list[Value]) -> Sequence[Value]:
    """Replace reshape, transpose and reshape by a kernel that takes channels as the outer axis."""
    pattern = before(at, "TRANSPOSE", "RESHAPE")
    if not pattern:
        return results
    image = array(pattern[1].operands[0])
    count, height, width, channels = image.shape
    apart = image.reshape(count, height, width, channels // 4, 2, 2)
    return like(results[0], apart.transpose(0, 1, 4, 2, 5, 3))


def conversions_cancel(at: At, results: list[Value]) -> Sequence[Value]:
    """Drop a conversion to a short type and back, as if it lost nothing."""
    for first in before(at, "CAST"):
        return like(results[0], array(first.operands[0]))
    return results


def constants_cancel(at: At, results: list[Value]) -> Sequence[Value]:
    """Drop the addition of a constant that is subtracted again, which was there to round."""
    for total in before(at, "ADD"):
        return like(results[0], array(total.operands[0]))
    return results


def first_of_two_clamps_dropped(at: At, results: list[Value]) -> Sequence[Value]:
    """Keep the limits of the second of two clamps alone."""
    for first in before(at, "CLAMP"):
        return again(at, 0, first.operands[0])
    return results


def extremes_change_places(at: At, results: list[Value]) -> Sequence[Value]:
    """Apply the upper limit before the lower one, as a clamp kernel does."""
    for greatest in before(at, "MAXIMUM"):
        value, low = (wide(operand) for operand in greatest.operands[:2])
        return like(results[0], np.maximum(np.minimum(value, wide(at.operands[1])), low))
    return results


def root_as_product(at: At, results: list[Value]) -> Sequence[Value]:
    """Compute a square root as x * rsqrt(x), which is NaN for 0."""
    for root in before(at, "RSQRT"):
        return like(results[0], wide(root.operands[0]) * wide(at.operands[0]))
    return results


def scale_joins_inputs(at: At, results: list[Value]) -> Sequence[Value]:
    """Multiply the weights of a convolution by factors along their input channels."""
    for convolution in before(at, "CONV2D"):
        weight, bias = array(convolution.operands[1]), wide(convolution.operands[2])
        factor = wide(at.operands[1]).reshape(-1)
        if factor.size == weight.shape[-1]:
            operands = list(convolution.operands)
            operands[1] = (wide(weight) * factor).astype(weight.dtype)
            operands[2] = (bias * factor).astype(weight.dtype)
            return convolution.again(operands)
    return results


def scale_leaves_bias(at: At, results: list[Value]) -> Sequence[Value]:
    """Multiply the weights by the factors of the channels, but not the bias."""
    for convolution in before(at, "CONV2D"):
        bias, factor = wide(convolution.operands[2]), wide(at.operands[1])
        return like(results[0], (wide(at.operands[0]) - bias) * factor + bias)
    return results


def slice_of_first_part(at: At, results: list[Value]) -> Sequence[Value]:
    """Replace a slice of a concatenation by one of its first part."""
    for joined in before(at, "CONCAT"):
        start, size = (array(operand) for operand in at.operands[1:3])
        part, axis = np.moveaxis(array(joined.operands[0]), axis_of(joined), 0), axis_of(joined)
        if start[axis] >= len(part):
            found = part[start[axis] - len(part) :][: size[axis]]
            return like(results[0], np.moveaxis(found, 0, axis))
    return results


def neighbours_rotated(at: At, results: list[Value]) -> Sequence[Value]:
    """Rotate pairs of neighbours instead of pairs of the two halves."""
    turn, side = at.producer(0), at.producer(1)
    if turn is None or side is None or not before(side, "CONCAT"):
        return results
    value = wide(turn.operands[0])
    pairs = value.reshape(*value.shape[:-1], -1, 2)
    turned = np.stack([-pairs[..., 1], pairs[..., 0]], -1).reshape(value.shape)
    return like(results[0], wide(turn.operands[1]) * value + wide(side.operands[1]) * turned)


class DifferencesMerged(FaultyMachine):
    """Take a - b and b - a for one expression: the operands are sorted before they are compared."""

    def operator(self, at: At, results: list[Value]) -> Sequence[Value]:
        """See `FaultyMachine`."""
        return [self.memory.setdefault((self.runs, *sorted(at.op.inputs)), results[0])]


class TablesMerged(FaultyMachine):
    """Keep one constant of those whose first 16 bytes and sizes are equal."""

    def operator(self, at: At, results: list[Value]) -> Sequence[Value]:
        """See `FaultyMachine`."""
        table = array(at.operands[1])
        return again(at, 1, self.memory.setdefault((table.size, table.tobytes()[:16]), table))


def factor_moved_past_maximum(at: At, results: list[Value]) -> Sequence[Value]:
    """Multiply the greatest element by a factor that is negative."""
    for scaled in before(at, "MUL"):
        most = wide(scaled.operands[0]).max(axis=axis_of(at), keepdims=True)
        return like(results[0], most * wide(scaled.operands[1]))
    return results


def gates_in_another_order(at: At, results: list[Value]) -> Sequence[Value]:
    """Exchange the forget gate and the cell gate: the kernel has another order than the program."""
    start, count = array(at.operands[1]).copy(), array(results[0]).shape[-1]
    if before(at, "ADD") and start[-1] in (count, 2 * count):
        start[-1] = 3 * count - start[-1]
        return again(at, 1, start)
    return results


def epsilon_after_root(at: At, results: list[Value]) -> Sequence[Value]:
    """Add the small constant to the standard deviation instead of the variance."""
    for total in before(at, "ADD"):
        variance, epsilon = (wide(operand) for operand in total.operands[:2])
        return like(results[0], 1 / (np.sqrt(variance) + epsilon))
    return results


def variance_of_sample(at: At, results: list[Value]) -> Sequence[Value]:
    """Divide the sum of squares by one less than the number of elements."""
    pattern = before(at, "REDUCE_SUM", "MUL")
    if not pattern:
        return results
    count = array(pattern[0].operands[0]).shape[axis_of(pattern[0])]
    return like(results[0], wide(results[0]) * count / (count - 1))


def variance_about_zero(at: At, results: list[Value]) -> Sequence[Value]:
    """Add the squares of the elements from which the mean was not subtracted."""
    pattern = before(at, "MUL", "SUB")
    if not pattern:
        return results
    squares = wide(pattern[1].operands[0]) ** 2
    return like(results[0], squares.sum(axis=axis_of(at), keepdims=True))


def statistics_of_row_before(at: At, results: list[Value]) -> Sequence[Value]:
    """Use the factor of the row before, which is still in the register."""
    factor = at.producer(1)
    if factor is None or factor.op.spec.name not in ("RSQRT", "RECIPROCAL"):
        return results
    return again(at, 1, np.roll(array(at.operands[1]), 1, axis=-2))


def _blocks(scores: Array) -> Iterator[tuple[slice, Array, Array]]:
    """Return blocks of 4 keys, with their scores and the greatest score so far."""
    for start in range(0, scores.shape[-1], 4):
        part = slice(start, start + 4)
        yield part, scores[..., part], scores[..., : start + 4].max(axis=-1, keepdims=True)


def sum_not_rescaled(at: At, results: list[Value]) -> Sequence[Value]:
    """Leave the sum of a softmax as it is when a later block has a greater maximum."""
    pattern = before(at, "EXP", "SUB")
    if not pattern:
        return results
    scores = wide(pattern[1].operands[0])
    sums = [np.exp(x - most).sum(axis=-1, keepdims=True) for _, x, most in _blocks(scores)]
    return like(results[0], np.sum(sums, axis=0))


def values_not_rescaled(at: At, results: list[Value]) -> Sequence[Value]:
    """Leave the sum of values as it is when a later block of keys has a greater maximum."""
    pattern = before(at, "MUL", "EXP", "SUB")
    if not pattern:
        return results
    scores, values = wide(pattern[2].operands[0]), wide(at.operands[1])
    found = [np.exp(x - most) @ values[:, part] for part, x, most in _blocks(scores)]
    return like(results[0], np.sum(found, axis=0) * wide(pattern[0].operands[1]))


def maximum_of_block(at: At, results: list[Value]) -> Sequence[Value]:
    """Subtract the maximum of the block of keys, and never correct it."""
    for difference in before(at, "SUB"):
        scores = wide(difference.operands[0])
        found = [np.exp(x - x.max(axis=-1, keepdims=True)) for _, x, _ in _blocks(scores)]
        return like(results[0], np.concatenate(found, axis=-1))
    return results


class OnceInLoop(FaultyMachine):
    """Compute an operator of a loop once, before the loop, although its operand changes."""

    def operator(self, at: At, results: list[Value]) -> Sequence[Value]:
        """See `FaultyMachine`."""
        return [self.memory.setdefault((self.runs, at.op.outputs[0]), results[0])]


class InitialStateLost(FaultyMachine):
    """Begin with zeros: the initial values of variables are not loaded."""

    def operator(self, at: At, results: list[Value]) -> Sequence[Value]:
        """See `FaultyMachine`."""
        key = (self.runs, at.block.tensors[at.op.inputs[0]].variable_name or at.op.inputs[0])
        is_first = self.memory.setdefault(key, at.op.outputs[0]) == at.op.outputs[0]
        return like(results[0], np.zeros_like(array(results[0]))) if is_first else results


def faults() -> Iterator[Fault]:
    """Return the faults."""
    blocks, views = of(fused.residual, *FLOATS), of(fused.views, *FLOATS)
    rounded, costs = of(fused.rounded, *FLOATS), of(fused.costs, *FLOATS)
    padded, norms = of(fused.padded, *FLOATS), of(floats.layer_norm, *FLOATS)
    scores, rotary = of(floats.attention, "FP32", "BF16"), of(fused.rotary, *FLOATS)
    classes, clipping = of(floats.classifier, "FP32", "FP16"), of(floats.clipping, *FLOATS)
    quantised = of(integers.quantised_conv, "INT8", "INT16")
    states = [*of(integers.cache, "INT8"), *of(floats.lstm, "FP32", "BF16")]
    layouts, tables = of(floats.layout, "INT8", "BF16"), [(fused.two_tables, ())]
    bias, axis = "bias is rescaled on its own", "axis not renumbered behind a transpose"
    table: list[tuple[Any, ...]] = [
        ("activation before the addition", activated_before_addition, "CLAMP ADD", blocks),
        (bias, bias_rescaled_alone, "RESCALE CONV2D DEPTHWISE_CONV2D", quantised),
        ("padding joins a convolution", padding_joins_convolution, "CONV2D PAD", padded),
        ("padding joins a max pooling", padding_joins_maximum, "MAX_POOL2D PAD", padded),
        ("padding joins an average pooling", padding_joins_mean, "AVG_POOL2D PAD", padded),
        ("transposes joined backwards", transposes_composed_backwards, "TRANSPOSE", views),
        (axis, axis_not_renumbered, "REDUCE_SUM TRANSPOSE", views),
        (axis, axis_not_renumbered, "CONCAT TRANSPOSE", views[:1]),
        ("transpose taken for a reshape", transpose_taken_for_reshape, "TRANSPOSE", layouts),
        ("depth to space in the other mode", depth_to_space_of_columns, "RESHAPE TRANSPOSE", views),
        ("narrowing and widening cancel", conversions_cancel, "CAST", rounded),
        ("constants of a rounding cancel", constants_cancel, "SUB ADD", rounded),
        ("first of two clamps dropped", first_of_two_clamps_dropped, "CLAMP", rounded),
        ("upper limit before the lower one", extremes_change_places, "MINIMUM MAXIMUM", clipping),
        ("square root as a product", root_as_product, "RECIPROCAL RSQRT", rounded),
        ("scale joins the weights of inputs", scale_joins_inputs, "MUL CONV2D", blocks),
        ("scale joins the weights but not the bias", scale_leaves_bias, "MUL CONV2D", blocks),
        ("slice of the first part alone", slice_of_first_part, "SLICE CONCAT", rotary),
        ("neighbours rotated instead of halves", neighbours_rotated, "ADD MUL CONCAT", rotary),
        ("differences of both signs merged", DifferencesMerged, "SUB", costs),
        ("constants with an equal beginning merged", TablesMerged, "TABLE", tables),
        ("negative factor past a maximum", factor_moved_past_maximum, "REDUCE_MAX MUL", costs),
        ("gates in another order", gates_in_another_order, "SLICE ADD", of(floats.lstm, *FLOATS)),
        ("epsilon after the root", epsilon_after_root, "RSQRT ADD", norms, "near", "plain"),
        ("variance divided by one less", variance_of_sample, "MUL REDUCE_SUM", norms[:2]),
        ("variance about zero", variance_about_zero, "REDUCE_SUM MUL SUB", norms, "offset"),
        ("statistics of the row before", statistics_of_row_before, "MUL", [*norms, *scores]),
        ("sum of a softmax not rescaled", sum_not_rescaled, "REDUCE_SUM EXP SUB", scores),
        ("values of an attention not rescaled", values_not_rescaled, "MATMUL MUL EXP SUB", scores),
        ("each block has its own maximum", maximum_of_block, "EXP SUB", [scores[0], *classes]),
        ("operator of a loop computed once", OnceInLoop, "RECIPROCAL", of(floats.newton, *FLOATS)),
        ("initial state lost", InitialStateLost, "VARIABLE_READ", states),
    ]
    for kind, change, names, *others in table:
        last, *first = names.split()
        wrong = change if isinstance(change, type) else _at_last(change, last)
        yield from rows(kind, "structure", wrong, (last, *first), *others)
