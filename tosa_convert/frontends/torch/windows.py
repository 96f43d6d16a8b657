"""Torch's pools and resizing as sums and products."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, Final

import torch
from torch._decomp import decomposition_table

#: Positions of a window above which it is not written out as slices.
_POSITIONS: Final = 64
#: Times that an axis grows at most, and its greatest size, of a resize that becomes RESIZE; TOSA
#: allows numerators of scales up to 2048.
_GROWTH: Final = 16
_RESIZED: Final = 1024
#: The greatest size of an axis that a product with a matrix makes larger.
_CUBIC: Final = 256
aten: Any = torch.ops.aten


def all_sizes(value: Any, count: int) -> list[int]:
    """Return a size for each axis, of which torch may have one for all."""
    given = list(value) if isinstance(value, Sequence) else [value]
    return given * count if len(given) == 1 else given


def _windows(x: Any, kernel: list[int], stride: list[int], dilation: list[int]) -> Iterator[Any]:
    """Iterate over the positions in the window.

    Each gives the elements of all windows there, as a strided slice.
    """
    axes = range(x.dim() - len(kernel), x.dim())
    sizes = [
        (x.shape[axis] - (k - 1) * d - 1) // s + 1
        for axis, k, s, d in zip(axes, kernel, stride, dilation, strict=True)
    ]
    for position in product(*(range(k) for k in kernel)):
        part = x
        for axis, p, n, s, d in zip(axes, position, sizes, stride, dilation, strict=True):
            part = torch.ops.aten.slice.Tensor(part, axis, p * d, p * d + (n - 1) * s + 1, s)
        yield part


def pad(x: Any, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Any:
    """Join what is beyond the edges to the tensor, one axis after the other; torch gathers it."""
    if mode == "constant":
        return torch.constant_pad_nd(x, pad, value or 0)
    if min(pad) < 0 and mode == "circular":
        return NotImplemented
    for index in range(0, len(pad), 2):
        axis = x.dim() - 1 - index // 2
        front, back = pad[index], pad[index + 1]
        x = _beyond_edges(x, axis, max(front, 0), max(back, 0), mode)
        if min(front, back) < 0:  # It is cut off.
            first = max(-front, 0)
            x = x.narrow(axis, first, x.shape[axis] - first - max(-back, 0))
    return x if any(one > 0 for one in pad) else x.clone()


def _beyond_edges(x: Any, axis: int, front: int, back: int, mode: str) -> Any:
    size, shape = x.shape[axis], list(x.shape)
    if mode == "reflect":
        before = x.narrow(axis, 1, front).flip(axis) if front else None
        after = x.narrow(axis, size - 1 - back, back).flip(axis) if back else None
    elif mode == "circular":
        before = x.narrow(axis, size - front, front) if front else None
        after = x.narrow(axis, 0, back) if back else None
    else:
        shape[axis] = front
        before = x.narrow(axis, 0, 1).expand(shape) if front else None
        shape[axis] = back
        after = x.narrow(axis, size - 1, 1).expand(shape) if back else None
    parts = [part for part in (before, x, after) if part is not None]
    return torch.cat(parts, axis) if len(parts) > 1 else x


def _end_of_windows(size: int, kernel: int, step: int, pad: int, gap: int) -> int:
    """Return the padding, perhaps negative, with which the windows of `ceil_mode` end at the end."""
    reach = (kernel - 1) * gap + 1
    last = -(-(size + 2 * pad - reach) // step)
    if last * step >= size + pad:  # It would begin in the padding.
        last -= 1
    return last * step + reach - size - pad


def average_pool(
    x: Any,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    axes: int,
) -> Any:
    """Pool two axes and then the third, or add integers: TOSA has pools over two axes only.

    It has none of 32-bit integers, nor with a divisor of its own.
    """
    is_float = x.is_floating_point()
    if axes == 2 and is_float and divisor_override is None:
        return NotImplemented
    kernel, pads = all_sizes(kernel_size, axes), all_sizes(padding, axes)
    if not is_float and math.prod(kernel) > _POSITIONS:
        return NotImplemented
    step = all_sizes(stride, axes) if stride else kernel
    rows = list(zip(x.shape[-axes:], kernel, step, pads, strict=True))
    # Windows of `ceil_mode` reach beyond the padding, where nothing counts.
    ends = [_end_of_windows(*row, 1) if ceil_mode else row[3] for row in rows]
    around = [amount for pair in zip(pads[::-1], ends[::-1], strict=True) for amount in pair]
    x = torch.constant_pad_nd(x, around) if any(around) else x
    counts: Any = divisor_override or math.prod(kernel)
    if not divisor_override and (ends != pads or not count_include_pad):
        made = [
            (size + pad + end - k) // s + 1
            for (size, k, s, pad), end in zip(rows, ends, strict=True)
        ]
        counts = _counts(rows, made, count_include_pad)
    if not is_float:
        total = _added(_windows(x, kernel, step, [1] * axes))
        return torch.div(total, counts, rounding_mode="trunc")
    mean = _mean_of_windows(x, kernel, step)
    if not torch.is_tensor(counts):
        factor = math.prod(kernel) / counts
        return mean if factor == 1 else mean * factor
    return mean * (math.prod(kernel) / counts.to(x.dtype))


def _counts(rows: Sequence[Sequence[int]], made: Sequence[int], with_padding: bool) -> Any:
    """Return how many elements of each window count, along one axis after the other."""
    total: Any = 1
    for (size, kernel, step, pad), count in zip(rows, made, strict=True):
        first = torch.arange(count) * step - pad
        least, most = (-pad, size + pad) if with_padding else (0, size)
        total = torch.unsqueeze(total, -1) if torch.is_tensor(total) else total
        total = total * (torch.clamp(first + kernel, max=most) - torch.clamp(first, min=least))
    return total


def _mean_of_windows(x: Any, kernel: list[int], step: list[int]) -> Any:
    """Pool the last two axes, and then the one before them."""
    pool = torch.ops.aten.avg_pool2d
    if len(kernel) == 2:
        return pool(x, kernel, step)
    *front, depth, height, width = x.shape
    if kernel[1:] != [1, 1] or step[1:] != [1, 1]:
        x = pool(x.reshape(-1, 1, height, width), kernel[1:], step[1:])
        height, width = x.shape[-2:]
    x = x.reshape(-1, 1, depth, height * width)
    if kernel[0] != 1 or step[0] != 1:
        x = pool(x, [kernel[0], 1], [step[0], 1])
    return x.reshape(*front, x.shape[2], height, width)


def _added(parts: Iterator[Any]) -> Any:
    """Add without the zero with which `sum` begins."""
    total = next(parts)
    for part in parts:
        total = total + part
    return total


def _bounds(size: int, count: int) -> list[tuple[int, int]]:
    """Return the first element and the end of each window of an adaptive pool."""
    return [(index * size // count, -(-(index + 1) * size // count)) for index in range(count)]


def _by_windows(x: Any, output_size: Sequence[int], reduce: Callable[..., Any]) -> Any:
    """Reduce the windows of an adaptive pool, one axis after the other."""
    for axis, count in enumerate(output_size, x.dim() - len(output_size)):
        size = x.shape[axis]
        if count == size:
            continue
        rows = _bounds(size, count)
        parts = [
            reduce(x.narrow(axis, low, high - low), [axis], keepdim=True) for low, high in rows
        ]
        x = torch.cat(parts, axis)
    return x


def adaptive_average(x: Any, output_size: Sequence[int]) -> Any:
    """Compute the means along one axis after the other."""
    count = len(output_size)
    if not x.is_floating_point() or sum(output_size) > _POSITIONS or 0 in output_size:
        return NotImplemented
    if all(size == 1 for size in output_size):
        return x.mean([*range(-count, 0)], keepdim=True)
    if count == 2 and (kernel := _even(x, output_size)):
        return torch.ops.aten.avg_pool2d(x, kernel)
    return _by_windows(x, output_size, torch.mean)


def _even(x: Any, output_size: Sequence[int]) -> list[int]:
    """Return the size of the windows of an adaptive pool if all have the same, without overlap."""
    pairs = list(zip(x.shape[-len(output_size) :], output_size, strict=True))
    return (
        [] if any(size % made for size, made in pairs) else [size // made for size, made in pairs]
    )


def adaptive_maximum(x: Any, output_size: Sequence[int]) -> Any:
    """Compute the maxima along one axis after the other, and where they are in each window."""
    axes = len(output_size)
    if axes < 2 or 0 in output_size:
        return NotImplemented
    if axes == 2 and (kernel := _even(x, output_size)):
        largest = torch.ops.aten.max_pool2d(x, kernel)
    else:
        largest = _by_windows(x, output_size, torch.amax)
    return largest, _places_of_largest(x, output_size)


def _places_of_largest(x: Any, output_size: Sequence[int]) -> Any:
    """Find the first largest element of each window, as its position in the flattened axes."""
    axes = len(output_size)
    shape = [1] * (x.dim() - axes) + list(x.shape[-axes:])
    places = torch.arange(math.prod(shape), device=x.device).reshape(shape)
    for axis, count in reversed(list(enumerate(output_size, x.dim() - axes))):
        found = []
        for low, high in _bounds(x.shape[axis], count):
            best, place = x.narrow(axis, low, 1), places.narrow(axis, low, 1)
            for at in range(low + 1, high):
                other = x.narrow(axis, at, 1)
                place = torch.where(other > best, places.narrow(axis, at, 1), place)
                best = torch.maximum(best, other)
            found.append((best, place.expand(best.shape)))
        x, places = (torch.cat(parts, axis) for parts in zip(*found, strict=True))
    return places


def resize_without_aliases(
    x: Any, output_size: Sequence[int], align_corners: bool, *scales: float | None, cubic: bool
) -> Any:
    """Resize with a filter as wide as the step, by a product with a matrix for each axis."""
    if not x.is_floating_point():
        return NotImplemented
    given = scales or (None, None)
    for axis, (made, scale) in enumerate(zip(output_size, given, strict=True), x.dim() - 2):
        size = x.shape[axis]
        step = 1 / scale if scale else size / made
        if align_corners:
            step = (size - 1) / (made - 1) if made > 1 else 0.0
        x = _multiply_axis(x, axis, _filter(size, made, step, cubic=cubic))
    return x


def resize_bilinear(
    x: Any, output_size: Sequence[int] | None, align_corners: bool, scales: Sequence[float] | None
) -> Any:
    """Keep a resize whose steps are fractions of its sizes, which becomes RESIZE; repeat one pixel."""
    sizes = x.shape[-2:]
    made = output_size or [
        int(size * scale) for size, scale in zip(sizes, scales or (), strict=True)
    ]
    if list(sizes) == [1, 1]:
        return x.expand(*x.shape[:-2], *made)
    pairs = list(zip(sizes, made, strict=True))
    steps = scales or [count / size for size, count in pairs]
    exact = align_corners or all(
        scale * size == count for scale, (size, count) in zip(steps, pairs, strict=True)
    )
    fits = all(size > 1 and size < count <= _GROWTH * size for size, count in pairs)
    if x.dtype == torch.float32 and exact and fits and max(made) <= _RESIZED:
        return NotImplemented
    return decomposition_table[aten.upsample_bilinear2d.vec](x, output_size, align_corners, scales)


def repeat_elements(
    x: Any, output_size: Sequence[int] | None, scales: Sequence[float] | None = None
) -> Any:
    """Enlarge to whole multiples by copies of each element; torch gathers them."""
    sizes = x.shape[-2:]
    made = output_size or [
        int(size * scale) for size, scale in zip(sizes, scales or (), strict=True)
    ]
    times = [count // size for size, count in zip(sizes, made, strict=True)]
    whole = [size * count for size, count in zip(sizes, times, strict=True)] == list(made)
    if not whole or 0 in times or x.dim() != 4 or list(scales or times) != times:
        table = decomposition_table[aten.upsample_nearest2d.vec]
        return table(x, output_size, scales)
    (n, c, h, w), (down, right) = x.shape, times
    copies = x.reshape(n * c, h, 1, w, 1).expand(n * c, h, down, w, right)
    return copies.reshape(n, c, h * down, w * right)


def resize_bicubic(
    x: Any, output_size: Sequence[int] | None, align_corners: bool, scales: Sequence[float] | None
) -> Any:
    """Resize by a product with a matrix for each axis; elements beyond the edge are those at it."""
    sizes = x.shape[-2:]
    if not x.is_floating_point() or max(sizes) > _CUBIC:
        table = decomposition_table[aten.upsample_bicubic2d.vec]
        return table(x, output_size, align_corners, scales)
    made = output_size or [
        int(size * scale) for size, scale in zip(sizes, scales or (), strict=True)
    ]
    given = scales or (None, None)
    for axis, (count, scale) in enumerate(zip(made, given, strict=True), x.dim() - 2):
        size = x.shape[axis]
        line = torch.arange(count, dtype=torch.float32)
        if align_corners:
            at = line * ((size - 1) / (count - 1) if count > 1 else 0.0)
        else:
            at = (line + 0.5) * (1 / scale if scale else size / count) - 0.5
        x = _multiply_axis(x, axis, _cubic(at, size))
    return x


def _multiply_axis(x: Any, axis: int, matrix: Any) -> Any:
    return (x.movedim(axis, -1) @ matrix.to(x.dtype)).movedim(-1, axis)


def _cubic(at: Any, size: int) -> Any:
    """Return the weights of all elements, by row, at each position, by column.

    By operators, since torch 2.13 loses a tensor that a decomposition makes.
    """
    first = torch.floor(at)
    place = torch.arange(size, dtype=torch.float32).unsqueeze(1)
    matrix = torch.zeros(())
    for step in (-1, 0, 1, 2):
        d = (at - first - step).abs()
        inner = (1.25 * d - 2.25) * d * d + 1
        outer = ((-0.75 * d + 3.75) * d - 6.0) * d + 3.0
        taken = torch.clamp(first + step, 0, size - 1)
        matrix = matrix + torch.where(place == taken, inner if step in (0, 1) else outer, 0.0)
    return matrix


def _filter(size: int, count: int, step: float, *, cubic: bool) -> Any:
    """Return the weights of all elements, by row, in each result, by column."""
    wide = max(step, 1.0)
    reach = (2 if cubic else 1) * wide
    centre = (torch.arange(count, dtype=torch.float32) + 0.5) * step
    place = torch.arange(size, dtype=torch.float32).unsqueeze(1)
    start = torch.floor(centre - reach + 0.5)
    end = torch.floor(centre + reach + 0.5)
    distance = (place - centre + 0.5).abs() / wide
    near = 1 - distance
    if cubic:  # The spline of Catmull and Rom.
        inner = (1.5 * distance - 2.5) * distance * distance + 1
        outer = ((2.5 - 0.5 * distance) * distance - 4) * distance + 2
        near = torch.where(distance < 1, inner, outer)
    inside = torch.logical_and(place >= start, place < end)
    weights = torch.where(torch.logical_and(inside, distance < (2 if cubic else 1)), near, 0.0)
    return weights / weights.sum(0, keepdim=True)
