"""Resizing: along each axis a selection of elements or a product with a constant matrix, or RESIZE."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import layout
from tosa_convert.frontends.lowering.indexing import rows_of_batches
from tosa_convert.frontends.lowering.products import product
from tosa_convert.frontends.lowering.scope import Array, Scope, carrier, constant
from tosa_convert.rules.families.images import ResizeAxis

Matrix = np.ndarray[Any, Any]
#: The most dimensions of a tensor that level 8K allows.
_MOST_DIMENSIONS: Final = 6
#: Axes of an image that RESIZE changes, with the channels between batch and height.
_HEIGHT_AND_WIDTH: Final = (2, 3)
#: Types of which RESIZE takes the nearest element.
_RESIZED: Final = ("int8", "float16", "bfloat16", "float32")


def selected(s: Scope, a: Array, indices: Mapping[int, Matrix]) -> Array:
    """Select elements along axes: by RESIZE or TILE where each is repeated equally often, or by GATHER.

    indices: axis -> the indices of the elements that stay.
    """
    changed = {
        axis: index
        for axis, index in indices.items()
        if not np.array_equal(index, np.arange(a.shape[axis]))
    }
    times = {axis: _times(index, a.shape[axis]) for axis, index in changed.items()}
    repeated = {axis: count for axis, count in times.items() if count}
    if repeated and set(repeated) == set(changed) and _is_image(a, changed):
        sizes = [(a.shape[axis], times.get(axis, 1)) for axis in _HEIGHT_AND_WIDTH]
        axes = [ResizeAxis.between(n, n * k, *half_pixel(k)) for n, k in sizes]
        if all(axis.is_allowed() for axis in axes):
            held = s.viewed(a, carrier(a.dtype))
            return s.viewed(resized(s, held, axes, "NEAREST"), a.dtype)
    if a.rank + len(repeated) <= _MOST_DIMENSIONS:
        a = _repeated(s, a, repeated) if repeated else a
        changed = {axis: index for axis, index in changed.items() if axis not in repeated}
    for axis, index in changed.items():
        a = _gathered(s, a, axis, index)
    return a


def _is_image(a: Array, axes: Iterable[int]) -> bool:
    """Return whether RESIZE takes an array and changes these axes of it."""
    is_changed = a.rank == 4 and set(axes) <= set(_HEIGHT_AND_WIDTH)
    return is_changed and a.data is None and str(carrier(a.dtype)) in _RESIZED


def _times(indices: Matrix, size: int) -> int:
    """Return how often each element occurs, one after another; 0 if not equally often."""
    count = len(indices) // size
    is_equal = np.array_equal(indices, np.repeat(np.arange(size), count))
    return count if is_equal else 0


def _repeated(s: Scope, a: Array, times: Mapping[int, int]) -> Array:
    """Repeat each element along axes."""
    wide: list[int] = []
    full: list[int] = []
    for axis, size in enumerate(a.shape):
        wide += [size, 1] if axis in times else [size]
        full += [size, times[axis]] if axis in times else [size]
    spread = layout.broadcast_to(s, layout.reshape(s, a, wide), full)
    sizes = [size * times.get(axis, 1) for axis, size in enumerate(a.shape)]
    return layout.reshape(s, spread, sizes)


def _gathered(s: Scope, a: Array, axis: int, indices: Matrix) -> Array:
    """Take elements by known indices along one axis."""
    steps = np.diff(indices)
    if len(indices) == 1 or (steps[0] > 0 and (steps == steps[0]).all()):
        step = int(steps[0]) if len(indices) > 1 else 1
        return layout.part(s, a, axis, int(indices[0]), int(indices[-1]) + 1, step)
    if a.data is not None:
        held = a.data if a.stored[axis] == 1 else a.data.take(indices, axis)
        shape = [len(indices) if k == axis else n for k, n in enumerate(a.shape)]
        return Array(a.dtype, tuple(shape), held)
    before, after = a.shape[:axis], a.shape[axis + 1 :]
    outer, inner = math.prod(before), math.prod(after)
    table = layout.reshape(s, a, (outer, a.shape[axis], inner))
    places = np.broadcast_to(indices.astype(np.int32), (outer, len(indices)))
    made = rows_of_batches(s, table, constant(np.ascontiguousarray(places)))
    return layout.reshape(s, made, (*before, len(indices), *after))


def resized(s: Scope, a: Array, axes: Sequence[ResizeAxis], mode: str) -> Array:
    """RESIZE of height and width, the last two of four dimensions."""
    held = layout.transpose(s, a, (0, 2, 3, 1))
    made = s.apply(
        "resize",
        [held],
        a.dtype,
        scale=[n for axis in axes for n in axis[:2]],
        offset=[axis.offset for axis in axes],
        border=[axis.border for axis in axes],
        mode=mode,
    )
    return layout.transpose(s, made, (0, 3, 1, 2))


def half_pixel(times: int) -> tuple[int, int, int]:
    """Return numerator, denominator and offset of RESIZE by a whole scale, between pixels' centres."""
    even = 1 - times % 2
    scale = (1 + even) * times, 1 + even
    return *scale, (1 - times) // (2 - even)


def corner_to_corner(size: int, wanted: int) -> tuple[int, int, int]:
    """Return numerator, denominator and offset of RESIZE that keeps the first and the last pixel."""
    if size == 1:
        return 1, 1, 0
    shared = math.gcd(wanted - 1, size - 1)
    return (wanted - 1) // shared, (size - 1) // shared, 0


def multiplied(s: Scope, a: Array, matrices: Mapping[int, Matrix]) -> Array:
    """Multiply constant matrices [result, size] by an array along axes."""
    order = list(range(a.rank))
    for axis, matrix in matrices.items():
        if np.array_equal(matrix, np.eye(a.shape[order.index(axis)])):
            continue
        # The axis comes last, and the order is restored once.
        wanted = [k for k in order if k != axis] + [axis]
        a = layout.transpose(s, a, [order.index(k) for k in wanted])
        order = wanted
        held = constant(matrix.T.astype(a.dtype)[None])
        flat = layout.reshape(s, a, (1, a.size // a.shape[-1], a.shape[-1]))
        made = product(s, flat, held, a.dtype)
        a = layout.reshape(s, made, (*a.shape[:-1], len(matrix)))
    return layout.transpose(s, a, np.argsort(order).tolist())


# -- matrices ------------------------------------------------------------------------------------


def weights(
    positions: Matrix,
    size: int,
    kernel: Callable[[Matrix], Matrix],
    reach: int = 1,
    factor: float = 1.0,
    exclude_outside: bool = False,
) -> Matrix:
    """Return the weight of each old element in each new one; elements beyond the border repeat it.

    positions: of the new elements among the old ones. reach: that of the kernel, which `factor`
    below 1 widens. exclude_outside: elements beyond the border have no weight.
    """
    matrix = np.zeros((len(positions), size))
    first = math.floor(-reach / factor) + 1
    for index, position in enumerate(positions):
        base = math.ceil(position) - 1
        neighbours = base + np.arange(first, reach + 1 - first - (reach - 1))
        part = kernel((neighbours - position) * factor)
        inside = (neighbours >= 0) & (neighbours < size)
        if exclude_outside:
            part = np.where(inside, part, 0)
        if exclude_outside or factor != 1.0:
            part = part / part.sum()
        np.add.at(matrix[index], np.clip(neighbours, 0, size - 1), part)
    return matrix


def linear(distance: Matrix) -> Matrix:
    """Weigh two neighbours by their distance."""
    return np.clip(1 - np.abs(distance), 0, 1)


def cubic(a: float) -> Callable[[Matrix], Matrix]:
    """Return Keys' kernel, which weighs four neighbours."""

    def kernel(distance: Matrix) -> Matrix:
        x = np.abs(distance)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0))

    return kernel
