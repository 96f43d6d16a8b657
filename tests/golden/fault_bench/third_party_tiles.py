"""Faults of tiles, vectors and memory: borders of tiles, stale buffers, addresses, masks, layouts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from golden.fault_bench import third_party_float_programs as floats
from golden.fault_bench import third_party_fused_programs as fused
from golden.fault_bench import third_party_integer_programs as integers
from golden.fault_bench.fault import At, Fault, FaultyMachine, Value
from golden.fault_bench.third_party_support import (
    FLOATS,
    again,
    array,
    axis_of,
    like,
    of,
    rows,
    wide,
)

from tosa_convert.reference.call import is_float


def halo_is_border(at: At, results: list[Value]) -> Sequence[Value]:
    """Take the rows above the second tile for padding, although they belong to the first one."""
    image, found = array(at.operands[0]).copy(), array(results[0]).copy()
    pad: Any = at.op.attributes["pad"]
    stride: Any = at.op.attributes["stride"]
    first = found.shape[1] // 2
    image[:, : first * stride[0]] = 0 if is_float(image.dtype) else array(at.operands[3])[0]
    if pad[0]:
        found[:, first:] = again(at, 0, image)[0][:, first:]
    return [found]


def tile_skips_padding(at: At, results: list[Value]) -> Sequence[Value]:
    """Begin the second tile at its rows, without those that the padding of the first one moves up."""
    pad: Any = at.op.attributes["pad"]
    found = array(results[0]).copy()
    first = found.shape[1] // 2
    moved = np.roll(array(at.operands[0]), -pad[0], axis=1)
    found[:, first:] = again(at, 0, moved)[0][:, first:]
    return [found]


def buffer_of_tile_before(at: At, results: list[Value]) -> Sequence[Value]:
    """Store the last of three or more tiles of 16 before it is there: the buffer holds an older one."""
    found = array(results[0]).copy()
    flat = found.reshape(-1)
    last = (flat.size - 1) // 16 * 16
    if last >= 32:
        flat[last:] = flat[last - 32 :][: flat.size - last]
    return [found]


def tail_processed_twice(at: At, results: list[Value]) -> Sequence[Value]:
    """Process the last 8 elements again in place, of which some were in the vector before."""
    found = array(results[0])
    if array(at.operands[0]).shape != found.shape or found.size < 8:
        return results
    twice, flat = again(at, 0, found)[0], found.reshape(-1).copy()
    overlap = slice(flat.size - 8, flat.size // 8 * 8)
    flat[overlap] = twice.reshape(-1)[overlap]
    return like(found, flat)


def lane_forgotten(at: At, results: list[Value]) -> Sequence[Value]:
    """Leave out the last of the four partial sums of an unrolled loop."""
    position, axis = (1, 1) if at.op.spec.name == "MATMUL" else (0, axis_of(at))
    value = array(at.operands[position]).copy()
    np.moveaxis(value, axis, 0)[3::4] = 0
    return again(at, position, value)


def phases_transposed(at: At, results: list[Value]) -> Sequence[Value]:
    """Exchange the phases of odd rows and of odd columns when the image is put together."""
    found, right = array(results[0]).copy(), array(results[0])
    found[:, ::2, 1::2], found[:, 1::2, ::2] = right[:, 1::2, ::2], right[:, ::2, 1::2]
    return [found]


def parts_of_sum_overwrite(at: At, results: list[Value]) -> Sequence[Value]:
    """Store the second half of a split sum over the first one instead of adding it."""
    value = array(at.operands[0]).copy()
    value[..., : value.shape[-1] // 2] = 0
    return again(at, 0, value)


def bias_with_every_part(at: At, results: list[Value]) -> Sequence[Value]:
    """Add the bias once for each part of the sum: each slice of the depth, or half of the channels."""
    parts = array(at.operands[1]).shape[1] if at.op.spec.name == "CONV3D" else 2
    return like(results[0], wide(results[0]) + (parts - 1) * wide(at.operands[2]))


def accumulator_not_cleared(at: At, results: list[Value]) -> Sequence[Value]:
    """Add the sums of a batch to those of the batches before."""
    return like(results[0], np.cumsum(wide(results[0]), axis=0))


def short_address(at: At, results: list[Value]) -> Sequence[Value]:
    """Read the elements beyond 256 from the beginning: the address has 8 bits."""
    value = array(at.operands[0])
    return again(at, 0, np.resize(value.reshape(-1)[:256], value.shape))


def aligned_pitch(at: At, results: list[Value]) -> Sequence[Value]:
    """Read rows of packed data as if each began at a multiple of 8 elements."""
    value = array(at.operands[0])
    count, width = value.size // value.shape[-1], value.shape[-1]
    index = np.arange(count)[:, None] * (-(-width // 8) * 8) + np.arange(width)
    flat = np.append(value.reshape(-1), np.zeros(1, value.dtype))
    return again(at, 0, flat[np.minimum(index, value.size)].reshape(value.shape))


def store_over_next_row(at: At, results: list[Value]) -> Sequence[Value]:
    """Store whole vectors of 4, whose unused lanes clear the beginning of the next row."""
    found = array(results[0]).copy()
    found[:, 1:, : -found.shape[-1] % 4] = 0
    return [found]


def tiles_stored_transposed(at: At, results: list[Value]) -> Sequence[Value]:
    """Store each whole tile of 4 by 4 sums by columns."""
    found = array(results[0]).copy()
    for y in range(0, found.shape[1] - 3, 4):
        for x in range(0, found.shape[2] - 3, 4):
            tile = found[:, y : y + 4, x : x + 4]
            tile[...] = tile.swapaxes(1, 2).copy()
    return [found]


def swizzle_not_undone(at: At, results: list[Value]) -> Sequence[Value]:
    """Store columns with the number of the row in their low bits, and read them plainly."""
    found, right = array(results[0]).copy(), array(results[0])
    whole = right.shape[-1] // 4 * 4
    for row in range(right.shape[-2]):
        found[..., row, :whole] = right[..., row, np.arange(whole) ^ (row % 4)]
    return [found]


def condition_not_broadcast(at: At, results: list[Value]) -> Sequence[Value]:
    """Read the condition element by element, although it is the same along an axis."""
    condition, shape = array(at.operands[0]).reshape(-1), array(results[0]).shape
    taken = np.resize(condition, shape)
    yes, no = (np.broadcast_to(array(operand), shape) for operand in at.operands[1:3])
    return like(results[0], np.where(taken, yes, no))


def mask_bits_reversed(at: At, results: list[Value]) -> Sequence[Value]:
    """Read a mask of packed bits from the other end of each byte."""
    condition = array(at.operands[0])
    packed = np.packbits(condition.reshape(-1), bitorder="little")
    found = np.unpackbits(packed, count=condition.size, bitorder="big")
    return again(at, 0, found.reshape(condition.shape))


def scatter_adds(at: At, results: list[Value]) -> Sequence[Value]:
    """Add rows to those that are there instead of replacing them."""
    found = wide(at.operands[0]).copy()
    for batch, row in np.ndindex(array(at.operands[1]).shape):
        found[batch, array(at.operands[1])[batch, row]] += wide(at.operands[2])[batch, row]
    return like(results[0], found)


def scatter_drops_rows(at: At, results: list[Value]) -> Sequence[Value]:
    """Begin with zeros instead of the rows that are there."""
    return again(at, 0, np.zeros_like(array(at.operands[0])))


def tile_of_whole_memory(at: At, results: list[Value]) -> Sequence[Value]:
    """Repeat the memory of the operand as a whole, not along the axis."""
    return like(results[0], np.resize(array(at.operands[0]), array(results[0]).shape))


def move_in_wrong_direction(at: At, results: list[Value]) -> Sequence[Value]:
    """Shift a state in place from the wrong end, so that its last row is copied over all."""
    state, found = at.producer(), array(results[0]).copy()
    if state is not None and state.op.spec.name == "VARIABLE_READ" and found.ndim == 3:
        found[:] = found[:, -1:]
    return [found]


class WeightsOfLayerBefore(FaultyMachine):
    """Use the weights of the layer before if they have the same size: the new ones are not there yet."""

    def operator(self, at: At, results: list[Value]) -> Sequence[Value]:
        """See `FaultyMachine`."""
        weight = array(at.operands[1])
        older = self.memory.setdefault((self.runs, weight.shape), weight)
        return again(at, 1, older)


def stride_of_projection_ignored(at: At, results: list[Value]) -> Sequence[Value]:
    """Compute a convolution of 1 by 1 as a product of matrices, of the first pixels of the image."""
    image, weight, found = wide(at.operands[0]), wide(at.operands[1]), array(results[0])
    if weight.shape[1:3] != (1, 1):
        return results
    pixels = image.reshape(len(image), -1, image.shape[3])[:, : found.shape[1] * found.shape[2]]
    return like(found, pixels @ weight[:, 0, 0].T + wide(at.operands[2]))


def bias_of_input_channel(at: At, results: list[Value]) -> Sequence[Value]:
    """Take the bias of a depthwise convolution by the channel of the image."""
    bias, count = array(at.operands[2]), array(at.operands[1]).shape[3]
    return again(at, 2, bias[np.arange(bias.size) // count])


def corners_aligned(at: At, results: list[Value]) -> Sequence[Value]:
    """Resize so that the corners of both images are at one place, whatever the scale is."""
    small, large = array(at.operands[0]).shape[1:3], array(results[0]).shape[1:3]
    operands = list(at.operands)
    operands[1] = np.array([large[0] - 1, small[0] - 1, large[1] - 1, small[1] - 1])
    operands[2] = np.zeros(2, np.int64)
    return at.again(operands)


def weights_of_three_bits(at: At, results: list[Value]) -> Sequence[Value]:
    """Round the weights of a bilinear resize to 3 bits."""
    found, scale = wide(at.operands[0]), array(at.operands[1])
    for axis in (1, 2):
        size, count = found.shape[axis], array(results[0]).shape[axis]
        place = np.rint(np.arange(count) * scale[1] / scale[0] * 8) / 8
        matrix = np.maximum(0, 1 - np.abs(place[:, None] - np.arange(size)))
        found = np.moveaxis(np.tensordot(matrix, found, (1, axis)), 0, axis)
    return like(results[0], found)


def inverse_divided(at: At, results: list[Value]) -> Sequence[Value]:
    """Divide the inverse transform by the number of elements, as many libraries do."""
    count = array(results[0])[0].size
    return [value for found in results for value in like(found, wide(found) / count)]


def bits_of_index_reversed(at: At, results: list[Value]) -> Sequence[Value]:
    """Leave the columns in the order in which the butterflies give them."""
    return [array(found)[..., [0, 4, 2, 6, 1, 5, 3, 7]] for found in results]


def imaginary_part_ignored(at: At, results: list[Value]) -> Sequence[Value]:
    """Transform the real part alone."""
    return again(at, 1, np.zeros_like(array(at.operands[1])))


def rows_alone_transformed(at: At, results: list[Value]) -> Sequence[Value]:
    """Transform along the rows, but not along the columns."""
    found = np.fft.rfft(wide(at.operands[0]), axis=2)
    return [*like(results[0], found.real), *like(results[1], found.imag)]


def contiguous_elements_reduced(at: At, results: list[Value]) -> Sequence[Value]:
    """Add elements that follow one another in memory, whatever the axis is."""
    size = array(results[0]).size
    return like(results[0], wide(at.operands[0]).reshape(size, -1).sum(axis=1))


def remainder_not_transposed(at: At, results: list[Value]) -> Sequence[Value]:
    """Copy the columns beyond whole tiles of 4 as they are in memory."""
    found = array(results[0]).copy()
    plain = array(at.operands[0]).reshape(found.shape)
    whole = found.shape[-1] // 4 * 4
    found[..., whole:] = plain[..., whole:]
    return [found]


def stride_of_depth_ignored(at: At, results: list[Value]) -> Sequence[Value]:
    """Move the window by one slice of the depth where the stride is more."""
    image, found = array(at.operands[0]), array(results[0]).copy()
    for depth in range(1, found.shape[1]):
        moved = np.zeros_like(image)
        moved[:, depth:] = image[:, :-depth]
        found[:, depth] = again(at, 0, moved)[0][:, depth]
    return [found]


def faults() -> Iterator[Fault]:
    """Return the faults."""
    residual, volume = of(fused.residual, *FLOATS), of(fused.volume, *FLOATS)
    attention, merges = of(floats.attention, "FP32", "BF16"), of(floats.merges, *FLOATS)
    detector, layouts = of(floats.detector, *FLOATS), of(floats.layout, "FP16", "INT8", "BF16")
    block, quantised = of(floats.conv_block, "FP32", "FP16"), of(integers.quantised_conv, "INT8")
    resized, spectrum = of(floats.decoder, *FLOATS), of(floats.spectrum, "FP32")
    caches = of(integers.cache, "INT8", "FP16")
    dense = of(integers.quantised_dense, "INT8", "INT16")
    table: list[tuple[Any, ...]] = [
        ("halo of a tile is a border", halo_is_border, "CONV2D", [*block, *quantised]),
        ("second tile skips the padding", tile_skips_padding, "CONV2D", [*block, *quantised]),
        ("buffer of an older tile", buffer_of_tile_before, "MUL", of(floats.layer_norm, *FLOATS)),
        ("overlapping tail processed twice", tail_processed_twice, "MUL", merges),
        ("one of four partial sums forgotten", lane_forgotten, "MATMUL", attention),
        ("one of four partial sums forgotten", lane_forgotten, "REDUCE_SUM", attention[:1]),
        ("phases of a transposed convolution", phases_transposed, "TRANSPOSE_CONV2D", resized),
        ("parts of a sum overwrite one another", parts_of_sum_overwrite, "MATMUL", attention),
        ("bias with every part of the sum", bias_with_every_part, "CONV3D", volume[:2]),
        ("bias with every part of the sum", bias_with_every_part, "CONV2D", quantised),
        ("accumulator not cleared", accumulator_not_cleared, "MATMUL", [*attention[:1], *dense]),
        ("address of 8 bits", short_address, "CONV2D", block),
        ("address of 8 bits", short_address, "DEPTHWISE_CONV2D", quantised),
        ("rows read with an aligned pitch", aligned_pitch, "MATMUL", [*attention, *dense[1:]]),
        (
            "vector stored over the next row",
            store_over_next_row,
            "MATMUL",
            [*attention, *dense[:1]],
        ),
        ("tiles of a product transposed", tiles_stored_transposed, "MATMUL", attention),
        ("swizzle not undone", swizzle_not_undone, "MATMUL", [*attention[:1], *dense]),
        ("condition not broadcast", condition_not_broadcast, "SELECT", detector),
        ("bits of a mask reversed", mask_bits_reversed, "SELECT", merges),
        ("scatter adds", scatter_adds, "SCATTER", layouts),
        ("scatter drops the other rows", scatter_drops_rows, "SCATTER", layouts),
        ("tile repeats the whole memory", tile_of_whole_memory, "TILE", layouts),
        ("state moved in the wrong direction", move_in_wrong_direction, "SLICE", caches),
        ("weights of the layer before", WeightsOfLayerBefore, "CONV2D", residual),
        ("stride of a projection ignored", stride_of_projection_ignored, "CONV2D", residual),
        ("bias of the input channel", bias_of_input_channel, "DEPTHWISE_CONV2D", block),
        ("resize aligns the corners", corners_aligned, "RESIZE", resized),
        (
            "weights of a resize short",
            weights_of_three_bits,
            "RESIZE",
            of(fused.upsampled, "FP32", "FP16"),
        ),
        ("inverse transform divided", inverse_divided, "FFT2D", spectrum),
        ("columns of a transform by reversed bits", bits_of_index_reversed, "FFT2D", spectrum),
        ("imaginary part ignored", imaginary_part_ignored, "FFT2D", spectrum),
        ("rows alone transformed", rows_alone_transformed, "RFFT2D", spectrum),
        ("contiguous elements reduced", contiguous_elements_reduced, "REDUCE_SUM", block),
        ("remainder of a transpose copied", remainder_not_transposed, "TRANSPOSE", attention),
        ("stride of the depth ignored", stride_of_depth_ignored, "CONV3D", volume),
    ]
    for kind, *row in table:
        yield from rows(kind, "structure", *row)
