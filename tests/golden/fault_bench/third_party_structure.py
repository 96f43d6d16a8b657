"""Faults of structure: borders, layouts, broadcasts, order, control flow, state, memory.

They come from index arithmetic, from fusions that are not the same, from liveness of buffers, and from
lowerings of one operator to another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from golden.fault_bench import third_party_float_programs as floats
from golden.fault_bench import third_party_integer_programs as integers
from golden.fault_bench.fault import At, Fault, FaultyMachine, Value
from golden.fault_bench.third_party_support import (
    FLOATS,
    QUANTISED,
    Program,
    again,
    array,
    axis_of,
    like,
    of,
    rows,
    wide,
)

from tosa_convert.graph import Operator
from tosa_convert.graph.dtypes import ResizeMode


class ThenBranch(FaultyMachine):
    """Run the first branch always: the condition is read before it is computed."""

    def condition(self, op: Operator, is_true: bool, turn: int) -> bool:
        """See `FaultyMachine`."""
        return is_true or op.spec.name == "COND_IF"


class ElseBranch(FaultyMachine):
    """Run the second branch always: the condition is read as the upper byte of a word."""

    def condition(self, op: Operator, is_true: bool, turn: int) -> bool:
        """See `FaultyMachine`."""
        return is_true and op.spec.name != "COND_IF"


class LastTurnMissing(FaultyMachine):
    """Leave out the third and last iteration: the condition is tested on the state of the next one."""

    def condition(self, op: Operator, is_true: bool, turn: int) -> bool:
        """See `FaultyMachine`."""
        return is_true and (op.spec.name != "WHILE_LOOP" or turn < 2)


class OneTurnMore(FaultyMachine):
    """Run one iteration too many: the condition is tested after the body."""

    def condition(self, op: Operator, is_true: bool, turn: int) -> bool:
        """See `FaultyMachine`."""
        if op.spec.name != "WHILE_LOOP":
            return is_true
        before = bool(self.memory.get("before", True)) or turn == 0
        self.memory["before"] = is_true
        return before


class FirstReadKept(FaultyMachine):
    """Keep what the first read of a variable gave: the read is not ordered after the write."""

    def operator(self, at: At, results: list[Value]) -> Sequence[Value]:
        """See `FaultyMachine`."""
        tensor = at.block.tensors[at.op.inputs[0]]
        key = (self.runs, tensor.variable_name or tensor.name)
        return [self.memory.setdefault(key, results[0])]


class ResultOfTurnBefore(FaultyMachine):
    """Return the result of the previous iteration: two buffers that are not swapped."""

    def operator(self, at: At, results: list[Value]) -> Sequence[Value]:
        """See `FaultyMachine`."""
        key = (self.runs, at.op.outputs[0])
        before = self.memory.get(key, results[0])
        self.memory[key] = results[0]
        return [before]


class ScratchShared(FaultyMachine):
    """Leave the end of the result before in the scratch buffer, which two operators share."""

    def operator(self, at: At, results: list[Value]) -> Sequence[Value]:
        """See `FaultyMachine`."""
        found = array(results[0]).copy()
        before = self.memory.get(self.runs)
        self.memory[self.runs] = array(results[0])
        if before is not None and before.dtype == found.dtype:
            count = min(2, before.size, found.size)
            found.reshape(-1)[-count:] = before.reshape(-1)[-count:]
        return [found]


def written_in_place(at: At, results: list[Value]) -> Sequence[Value]:
    """Write the result over the operand, which another operator still reads."""
    operand, result = array(at.operands[0]), array(results[0])
    if at.producer() is not None and operand.shape == result.shape:
        np.copyto(operand, result)
    return results


def operand_overwritten(at: At, results: list[Value]) -> Sequence[Value]:
    """Read an operand after the operator of another operand wrote its result over it."""
    for position in range(2):
        producer = at.producer(1 - position)
        if producer is not None and producer.op.inputs[0] == at.op.inputs[position]:
            return again(at, position, array(at.operands[1 - position]))
    return results


def state_updated_in_place(at: At, results: list[Value]) -> Sequence[Value]:
    """Read a state of the loop after it was updated: both share memory."""
    for (block, _), other in list(at.machine.computed.items()):
        is_update = other.op.spec.name in ("ADD", "MUL") and other.block is at.block
        if block == id(at.block) and is_update and at.op.inputs[0] in _sources(other):
            return like(results[0], array(other.again()[0]))
    return results


def _sources(at: At) -> set[str]:
    """Return the operands of an operator, and those of their producers in the block."""
    found = set(at.op.inputs)
    for position in range(len(at.op.inputs)):
        producer = at.producer(position)
        if producer is not None:
            found |= _sources(producer)
    return found


def last_of_axis_dropped(at: At, results: list[Value]) -> Sequence[Value]:
    """Leave out the last element of the axis, such as the last key, in the tail of a vector."""
    value, axis = array(at.operands[0]), axis_of(at)
    kept = value.copy()
    index = [slice(None)] * value.ndim
    index[axis] = slice(-1, None)
    first = [slice(None)] * value.ndim
    first[axis] = slice(0, 1)
    kept[tuple(index)] = 0 if at.op.spec.name == "REDUCE_SUM" else value[tuple(first)]
    return again(at, 0, kept)


def padded_lanes_reduced(at: At, results: list[Value]) -> Sequence[Value]:
    """Take lanes beyond the end of the axis into the reduction, which hold zeros."""
    if at.op.spec.name == "REDUCE_ALL":
        return [np.zeros_like(array(results[0]))]
    function = np.minimum if at.op.spec.name == "REDUCE_MIN" else np.maximum
    return like(results[0], function(wide(results[0]), 0))


def border_is_raw_zero(at: At, results: list[Value]) -> Sequence[Value]:
    """Fill the border with the code 0 instead of the zero point."""
    pad: Any = at.op.attributes["pad"]
    value = np.pad(array(at.operands[0]), ((0, 0), pad[:2], pad[2:], (0, 0)))
    block = _with_shape(at, value)
    operands = [value, *at.operands[1:]]
    changed = At(at.machine, block, at.op, operands)
    return changed.again(pad=(0, 0, 0, 0))


def border_of_next_row(at: At, results: list[Value]) -> Sequence[Value]:
    """Read the left and right border from the neighbouring rows in memory: no test of the column."""
    pad: Any = at.op.attributes["pad"]
    image = array(at.operands[0])
    count, height, width, channels = image.shape
    flat = np.pad(
        image.reshape(count, height * width, channels), ((0, 0), (pad[2], pad[3]), (0, 0))
    )
    index = np.arange(height)[:, None] * width + np.arange(pad[2] + width + pad[3])
    block = _with_shape(at, flat[:, index])
    changed = At(at.machine, block, at.op, [flat[:, index], *at.operands[1:]])
    return changed.again(pad=(pad[0], pad[1], 0, 0))


def _with_shape(at: At, value: Any) -> Any:
    """Return the block with another shape of the first operand."""
    tensor = replace(at.block.tensors[at.op.inputs[0]], shape=value.shape)
    return replace(at.block, tensors={**at.block.tensors, at.op.inputs[0]: tensor})


def borders_swapped(at: At, results: list[Value]) -> Sequence[Value]:
    """Take the widths of the border before and after each axis for one another."""
    name = "out_pad" if "out_pad" in at.op.attributes else "pad"
    pad: Any = at.op.attributes[name]
    return at.again(**{name: (pad[1], pad[0], pad[3], pad[2])})


def padding_constant_ignored(at: At, results: list[Value]) -> Sequence[Value]:
    """Pad with zeros whatever the constant is."""
    return again(at, 2, np.zeros_like(array(at.operands[2])))


def last_column_repeated(at: At, results: list[Value]) -> Sequence[Value]:
    """Compute the last column at the position before it, to stay inside of the image."""
    found = array(results[0]).copy()
    found[:, :, -1] = found[:, :, -2]
    return [found]


def window_transposed(at: At, results: list[Value]) -> Sequence[Value]:
    """Take rows of the window for columns."""
    weight = array(at.operands[1])
    axes = (0, 1) if at.op.spec.name == "DEPTHWISE_CONV2D" else (1, 2)
    return again(at, 1, weight.swapaxes(*axes))


def window_mirrored(at: At, results: list[Value]) -> Sequence[Value]:
    """Mirror the window, as in a convolution of signal processing."""
    weight = array(at.operands[1])
    axes = (0, 1) if at.op.spec.name == "DEPTHWISE_CONV2D" else (1, 2)
    return again(at, 1, np.flip(weight, axes))


def channels_of_multiplier_swapped(at: At, results: list[Value]) -> Sequence[Value]:
    """Order the results by multiplier first and channel second."""
    found = array(results[0])
    count = array(at.operands[1]).shape[3]
    apart = found.reshape(*found.shape[:-1], -1, count)
    return like(found, np.ascontiguousarray(apart.swapaxes(-1, -2)))


def dilation_of_rows_only(at: At, results: list[Value]) -> Sequence[Value]:
    """Use the dilation of rows for the columns too."""
    dilation: Any = at.op.attributes["dilation"]
    pad: Any = at.op.attributes["pad"]
    width = array(at.operands[1]).shape[1]
    less = (width - 1) * (dilation[1] - dilation[0])
    return at.again(dilation=(dilation[0],) * 2, pad=(*pad[:3], pad[3] - less))


def first_batch_for_all(at: At, results: list[Value]) -> Sequence[Value]:
    """Read the first batch for all: the stride of the batch is 0."""
    value = array(at.operands[0])
    return again(at, 0, np.broadcast_to(value[:1], value.shape).copy())


def matrix_transposed(at: At, results: list[Value]) -> Sequence[Value]:
    """Take a square matrix for its transpose."""
    matrix = array(at.operands[1])
    if matrix.shape[1] != matrix.shape[2]:
        return results
    return again(at, 1, matrix.swapaxes(1, 2))


def broadcast_along_other_axis(at: At, results: list[Value]) -> Sequence[Value]:
    """Broadcast along the other axis of the same size: shapes are aligned at the wrong end."""
    operands = list(at.operands)
    small = array(operands[1])
    if small.size == array(operands[0]).size:
        return results
    count = array(operands[0]).shape[-1]
    turned = np.broadcast_to(small, (1, count, count)).swapaxes(1, 2)
    result = {"ADD": np.add, "MUL": np.multiply, "MINIMUM": np.minimum}[at.op.spec.name]
    return like(results[0], result(wide(operands[0]), turned.astype(np.float64)))


def parts_swapped(at: At, results: list[Value]) -> Sequence[Value]:
    """Put the first part last."""
    sizes = [array(value) for value in at.operands]
    return like(results[0], np.concatenate([*sizes[1:], sizes[0]], axis_of(at)))


def parts_overlap(at: At, results: list[Value]) -> Sequence[Value]:
    """Start the second part one element early, over the end of the first one."""
    found, axis = array(results[0]).copy(), axis_of(at)
    count = array(at.operands[0]).shape[axis]
    target = np.moveaxis(found, axis, 0)
    target[count - 1] = np.moveaxis(array(at.operands[1]), axis, 0)[0]
    return [found]


def reshape_by_columns(at: At, results: list[Value]) -> Sequence[Value]:
    """Reshape in the order of the device's layout, in which the first axis is the fastest."""
    return like(results[0], array(at.operands[0]).reshape(array(results[0]).shape, order="F"))


def slice_one_off(at: At, results: list[Value]) -> Sequence[Value]:
    """Start one element late along the last axis, where there is room."""
    start, size = array(at.operands[1]).copy(), array(at.operands[2])
    whole = array(at.operands[0]).shape
    for axis in reversed(range(len(whole))):
        if start[axis] + size[axis] < whole[axis]:
            start[axis] += 1
            break
    return again(at, 1, start)


def axes_inverted(at: At, results: list[Value]) -> Sequence[Value]:
    """Use the inverse permutation of axes, and keep the shape."""
    perms: Any = at.op.attributes["perms"]
    return like(results[0], array(at.operands[0]).transpose(np.argsort(perms)))


def tiles_as_repeats(at: At, results: list[Value]) -> Sequence[Value]:
    """Repeat each element instead of the whole."""
    found = array(at.operands[0])
    for axis, count in enumerate(array(at.operands[1])):
        found = np.repeat(found, count, axis)
    return [found]


def reversed_by_half(at: At, results: list[Value]) -> Sequence[Value]:
    """Reverse half of the axis: the swap in place runs over the other half and back."""
    value, axis = array(at.operands[0]), axis_of(at)
    found = array(results[0]).copy()
    half = value.shape[axis] // 2
    np.moveaxis(found, axis, 0)[half:] = np.moveaxis(value, axis, 0)[half:]
    return [found]


def rows_of_first_batch(at: At, results: list[Value]) -> Sequence[Value]:
    """Gather from the first batch for all batches."""
    values = array(at.operands[0])
    return again(at, 0, np.broadcast_to(values[:1], values.shape).copy())


def scattered_in_order(at: At, results: list[Value]) -> Sequence[Value]:
    """Write rows in the order of sorted indices, but without moving their data."""
    return again(at, 1, np.sort(array(at.operands[1]), axis=1))


def alternatives_swapped(at: At, results: list[Value]) -> Sequence[Value]:
    """Choose the other operand: the blend instruction takes the mask the other way."""
    return again(at, 0, ~array(at.operands[0]))


def offset_ignored(at: At, results: list[Value]) -> Sequence[Value]:
    """Resize from the corner: the offset is taken for 0."""
    return again(at, 2, np.zeros_like(array(at.operands[2])))


def border_fades(at: At, results: list[Value]) -> Sequence[Value]:
    """Interpolate with zeros beyond the edge instead of the edge itself."""
    if at.op.attributes["mode"] != ResizeMode.BILINEAR:
        return results
    found = array(results[0]).copy()
    found[:, 0] = (wide(found[:, 0]) * 0.75).astype(found.dtype)
    return [found]


def scale_after_addition(at: At, results: list[Value]) -> Sequence[Value]:
    """Add before multiplying, in a fusion of both."""
    product = at.producer()
    if at.op.spec.name != "ADD" or product is None or product.op.spec.name != "MUL":
        return results
    left, right = (wide(value) for value in product.operands[:2])
    return like(results[0], (left + wide(at.operands[1])) * right)


def last_frequency_missing(at: At, results: list[Value]) -> Sequence[Value]:
    """Leave the last column of a real transform at zero: width / 2 columns instead of one more."""
    found = [array(value).copy() for value in results]
    for value in found:
        value[..., -1] = 0
    return [*found]


def direction_ignored(at: At, results: list[Value]) -> Sequence[Value]:
    """Transform forward although the inverse is asked for."""
    return at.again(inverse=not at.op.attributes["inverse"])


def maximum_not_subtracted(at: At, results: list[Value]) -> Sequence[Value]:
    """Leave out the maximum that keeps a softmax from overflow, as it cancels on paper."""
    producer = at.producer(1)
    if producer is None or producer.op.spec.name != "REDUCE_MAX":
        return results
    return [array(at.operands[0])]


def any_and_all_swapped(at: At, results: list[Value]) -> Sequence[Value]:
    """Use any for all, or all for any."""
    function = np.all if at.op.spec.name == "REDUCE_ANY" else np.any
    return [np.asarray(function(array(at.operands[0]), axis=axis_of(at), keepdims=True))]


# Long because it is a list: which kernels and programs have each fault.
def faults() -> Iterator[Fault]:
    """Return the faults."""
    family = "structure"
    loops: list[Program] = [(integers.counter, ()), *of(floats.newton, *FLOATS)]
    programs: list[Program]
    title = "then branch always"
    yield from rows(title, family, ThenBranch, "COND_IF", loops[:1], "small")
    yield from rows(title, family, ThenBranch, "COND_IF", loops[1:3], "wide")
    title, styles = "else branch always", ("plain", "positive", "large")
    yield from rows(title, family, ElseBranch, "COND_IF", loops, *styles)
    yield from rows("last iteration missing", family, LastTurnMissing, "WHILE_LOOP", loops)
    yield from rows(
        "one iteration more", family, OneTurnMore, "WHILE_LOOP", loops, "large", "plain"
    )
    title = "state of a loop updated in place"
    yield from rows(title, family, state_updated_in_place, "IDENTITY", loops, "plain", "large")
    caches = [*of(integers.cache, "INT8", "INT16", "FP16"), *of(floats.lstm, *FLOATS)]
    yield from rows("variable read once", family, FirstReadKept, "VARIABLE_READ", caches)
    title = "result of the iteration before"
    yield from rows(title, family, ResultOfTurnBefore, "RECIPROCAL", loops[1:], "large", "plain")
    yield from rows(title, family, ResultOfTurnBefore, "ADD", loops[:1])
    layouts = of(floats.layout, "FP32", "FP16", "BF16", "INT8", "INT16", "INT32", "FP8E4M3", "BOOL")
    for name in ("RESHAPE", "SLICE"):
        yield from rows("scratch shared", family, ScratchShared, name, layouts[1:5])
    title = "written in place"
    programs = of(floats.lstm, *FLOATS)
    yield from rows(title, family, written_in_place, "TANH", programs, is_located=False)
    title = "operand overwritten in place"
    for name, build in (
        ("SUB", floats.merges),
        ("MAXIMUM", floats.activations),
        ("MUL", floats.activations),
    ):
        yield from rows(title, family, operand_overwritten, name, of(build, *FLOATS))
    programs = [(integers.integers, ())]
    yield from rows(title, family, operand_overwritten, "EQUAL", programs)
    title = "last of an axis dropped"
    programs = [*of(floats.attention, *FLOATS), (integers.integer_softmax, ())]
    yield from rows(title, family, last_of_axis_dropped, "REDUCE_SUM", programs)
    programs = [*of(floats.detector, *FLOATS), *of(integers.quantised_residual, "INT8")]
    yield from rows(title, family, last_of_axis_dropped, "REDUCE_MAX", programs)
    title = "lanes beyond the end reduced"
    programs = of(floats.clipping, *FLOATS)
    yield from rows(title, family, padded_lanes_reduced, "REDUCE_MIN", programs, "positive")
    masks: list[Program] = [(integers.masks, ())]
    styles = ("plain", "small", "positive")
    yield from rows(title, family, padded_lanes_reduced, "REDUCE_ALL", masks, *styles, dtype="BOOL")
    title = "all taken for any"
    for name in ("REDUCE_ALL", "REDUCE_ANY"):
        yield from rows(title, family, any_and_all_swapped, name, masks, *styles, dtype="BOOL")
    convolutions = [
        ("CONV2D", of(floats.conv_block, *FLOATS)),
        ("CONV2D", of(integers.quantised_conv, *QUANTISED)),
        ("DEPTHWISE_CONV2D", of(integers.quantised_conv, *QUANTISED)),
    ]
    eight = of(integers.quantised_conv, "INT8")
    for name in ("CONV2D", "DEPTHWISE_CONV2D"):
        yield from rows("border is the code 0", family, border_is_raw_zero, name, eight)
    for name, programs in convolutions:
        yield from rows("border of the next row", family, border_of_next_row, name, programs)
        yield from rows("last column repeated", family, last_column_repeated, name, programs)
        yield from rows("window transposed", family, window_transposed, name, programs)
        yield from rows("window mirrored", family, window_mirrored, name, programs)
        yield from rows("first batch for all", family, first_batch_for_all, name, programs)
        if name == "CONV2D":
            yield from rows("borders swapped", family, borders_swapped, name, programs)
    programs = of(integers.quantised_conv, *QUANTISED)
    for name in ("MAX_POOL2D", "AVG_POOL2D"):
        yield from rows("borders swapped", family, borders_swapped, name, programs)
    decoders = of(floats.decoder, *FLOATS)
    yield from rows("borders swapped", family, borders_swapped, "TRANSPOSE_CONV2D", decoders)
    yield from rows("window mirrored", family, window_mirrored, "TRANSPOSE_CONV2D", decoders)
    title = "padding constant ignored"
    yield from rows(title, family, padding_constant_ignored, "PAD", layouts)
    title, name = "multiplier before channel", "DEPTHWISE_CONV2D"
    blocks = of(floats.conv_block, *FLOATS)
    yield from rows(title, family, channels_of_multiplier_swapped, name, blocks)
    yield from rows("dilation of rows for columns", family, dilation_of_rows_only, name, blocks)
    programs = [*of(floats.attention, *FLOATS), *of(integers.quantised_dense, *QUANTISED)]
    yield from rows("first batch for all", family, first_batch_for_all, "MATMUL", programs)
    title = "square matrix transposed"
    yield from rows(title, family, matrix_transposed, "MATMUL", of(floats.attention, *FLOATS))
    title = "broadcast along the other axis"
    for name in ("ADD", "MUL"):
        programs = of(floats.merges, *FLOATS)
        yield from rows(title, family, broadcast_along_other_axis, name, programs)
    programs = [*of(floats.lstm, "FP32"), *of(floats.parts, "FP16"), *of(floats.decoder, "BF16")]
    programs += of(integers.cache, "INT8", "INT16")
    yield from rows("parts in another order", family, parts_swapped, "CONCAT", programs)
    programs += of(integers.eights, "FP8E4M3")
    yield from rows("parts overlap", family, parts_overlap, "CONCAT", programs)
    for title, change, name in (
        ("reshape by columns", reshape_by_columns, "RESHAPE"),
        ("slice one off", slice_one_off, "SLICE"),
        ("axes inverted", axes_inverted, "TRANSPOSE"),
        ("tiles as repeats", tiles_as_repeats, "TILE"),
        ("reversed by half", reversed_by_half, "REVERSE"),
        ("rows of the first batch", rows_of_first_batch, "GATHER"),
        ("scattered in order", scattered_in_order, "SCATTER"),
    ):
        yield from rows(title, family, change, name, layouts)
    title = "alternatives swapped"
    programs = [*of(floats.merges, *FLOATS), (integers.integers, ())]
    yield from rows(title, family, alternatives_swapped, "SELECT", programs)
    yield from rows("offset of a resize ignored", family, offset_ignored, "RESIZE", decoders)
    yield from rows("border of a resize fades", family, border_fades, "RESIZE", decoders)
    title = "scaled after the addition"
    for build in (floats.conv_block, floats.layer_norm):
        yield from rows(title, family, scale_after_addition, ("ADD", "MUL"), of(build, *FLOATS))
    spectrum = of(floats.spectrum, "FP32")
    yield from rows("last frequency missing", family, last_frequency_missing, "RFFT2D", spectrum)
    yield from rows("direction ignored", family, direction_ignored, "FFT2D", spectrum)
    title = "maximum of a softmax not subtracted"
    programs = of(floats.attention, *FLOATS)
    yield from rows(title, family, maximum_not_subtracted, "SUB", programs, "large")
