"""Resizing: along each axis a selection of elements or a product with a constant matrix, or RESIZE."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.indexing import rows_of_batches
from tosa_convert.frontends.lowering.products import by_matrix
from tosa_convert.frontends.lowering.scope import Array, Scope, constant
from tosa_convert.frontends.lowering.types import carrier
from tosa_convert.rules.families.resize import ResizeAxis

Matrix = np.ndarray[Any, Any]
#: Axes of an image that RESIZE changes, with the channels between batch and height.
_HEIGHT_AND_WIDTH: Final = (2, 3)
#: Types of which RESIZE takes the nearest element.
_RESIZED: Final = ("int8", "float16", "bfloat16", "float32")


def selected(s: Scope, a: Array, indices: Mapping[int, Matrix]) -> Array:
    """Select elements along axes by indices: RESIZE of an image, TILE if each repeats, else GATHER."""
    changed = {
        axis: index
        for axis, index in indices.items()
        if not np.array_equal(index, np.arange(a.shape[axis]))
    }
    if changed and _is_image(a, changed):
        sizes = {axis: a.shape[axis] for axis in _HEIGHT_AND_WIDTH}
        axes = [nearest(n, changed.get(axis, np.arange(n))) for axis, n in sizes.items()]
        found = [axis for axis in axes if axis is not None]
        if len(found) == len(axes):
            held = s.viewed(a, carrier(a.dtype))
            return s.viewed(resized(s, held, found, "NEAREST"), a.dtype)
    times = {axis: _times(index, a.shape[axis]) for axis, index in changed.items()}
    repeated = {axis: count for axis, count in times.items() if count}
    if repeated and a.rank + len(repeated) <= movement.MOST_DIMENSIONS:
        a = _repeated(s, a, repeated)
        changed = {axis: index for axis, index in changed.items() if axis not in repeated}
    for group in _neighbours(changed):
        a = _gathered(s, a, group, changed)
    return a


#: Way to pad -> the elements of an axis of a size that lie at places around it.
PADS: Final[dict[str, Callable[[Matrix, int], Matrix]]] = {
    "edge": lambda at, size: np.clip(at, 0, size - 1),
    "wrap": lambda at, size: at % size,
    "reflect": lambda at, size: _mirrored(at, size),
}


def _mirrored(at: Matrix, size: int) -> Matrix:
    period = max(2 * (size - 1), 1)
    return np.minimum(at % period, -at % period)


def padded(s: Scope, a: Array, pads: Mapping[int, tuple[int, int]], mode: str) -> Array:
    """Pad with elements of the array itself. pads: axis -> how many before it and after it.

    Negative numbers remove elements, which "wrap" does not bring back.
    """
    indices = {}
    for axis, (before, after) in pads.items():
        first, size = 0, a.shape[axis]
        if mode == "wrap":
            first, before = max(0, -before), max(0, before)
            size, after = size - first + min(0, after), max(0, after)
        indices[axis] = first + PADS[mode](np.arange(-before, size + after), size)
    return selected(s, a, indices)


def _neighbours(axes: Iterable[int]) -> list[list[int]]:
    """Return axes in groups that follow one another."""
    groups: list[list[int]] = []
    for axis in sorted(axes):
        if groups and groups[-1][-1] == axis - 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups


def _is_image(a: Array, axes: Iterable[int]) -> bool:
    """Return whether RESIZE takes an array and changes these axes of it."""
    is_changed = a.rank == 4 and set(axes) <= set(_HEIGHT_AND_WIDTH)
    return is_changed and a.data is None and str(carrier(a.dtype)) in _RESIZED


def nearest(size: int, indices: Matrix) -> ResizeAxis | None:
    """Return the numbers of a RESIZE to nearest neighbours that selects these indices, or None.

    Example:
        >>> nearest(2, np.array([0, 0, 0, 1, 1, 1]))
        ResizeAxis(numerator=3, denominator=1, offset=-1, border=1)
    """
    wanted = len(indices)
    for made, given in ((wanted, size), (wanted - 1, size - 1)):
        if made < 1 or given < 1:
            continue
        shared = math.gcd(made, given)
        numerator, denominator = 4 * made // shared, 4 * given // shared
        # Pixels' centres, or first pixels, or all rounded down or up; ties up, then down.
        half = numerator // 2
        starts = denominator // 2 - half, 0, -half, half - 1
        for offset in (start - less for start in starts for less in (0, 1)):
            positions = denominator * np.arange(wanted) + offset
            found = np.clip((2 * positions + numerator) // (2 * numerator), 0, size - 1)
            factor = math.gcd(numerator, denominator, offset)
            numbers = (n // factor for n in (numerator, denominator, offset))
            axis = ResizeAxis.between(size, wanted, *numbers)
            if np.array_equal(found, indices) and axis.is_allowed():
                return axis
    return None


def _times(indices: Matrix, size: int) -> int:
    """Return how often each element occurs, one after another; 0 if not equally often."""
    count = len(indices) // size
    is_equal = np.array_equal(indices, np.repeat(np.arange(size), count))
    return count if is_equal else 0


def _repeated(s: Scope, a: Array, times: Mapping[int, int]) -> Array:
    wide: list[int] = []
    full: list[int] = []
    for axis, size in enumerate(a.shape):
        wide += [size, 1] if axis in times else [size]
        full += [size, times[axis]] if axis in times else [size]
    spread = movement.broadcast_to(s, movement.reshape(s, a, wide), full)
    sizes = [size * times.get(axis, 1) for axis, size in enumerate(a.shape)]
    return movement.reshape(s, spread, sizes)


def _gathered(s: Scope, a: Array, axes: Sequence[int], indices: Mapping[int, Matrix]) -> Array:
    """Take elements by known indices along axes that follow one another."""
    first, last = axes[0], axes[-1]
    if a.data is not None or all(_step(indices[axis]) for axis in axes):
        for axis in axes:
            a = _taken(s, a, axis, indices[axis])
        return a
    before, sizes, after = a.shape[:first], a.shape[first : last + 1], a.shape[last + 1 :]
    outer, count, inner = math.prod(before), math.prod(sizes), math.prod(after)
    held = [indices[axis] for axis in axes]
    places = np.ravel_multi_index(np.meshgrid(*held, indexing="ij"), sizes).reshape(1, -1)
    rows = np.ascontiguousarray(np.broadcast_to(places.astype(np.int32), (outer, places.size)))
    table = movement.reshape(s, a, (outer, count, inner))
    made = rows_of_batches(s, table, constant(rows))
    return movement.reshape(s, made, (*before, *map(len, held), *after))


def _step(indices: Matrix) -> int:
    """Return the distance of indices that are equally far apart; else 0."""
    steps = np.diff(indices)
    if not steps.size:
        return 1
    return int(steps[0]) if steps[0] > 0 and (steps == steps[0]).all() else 0


def _taken(s: Scope, a: Array, axis: int, indices: Matrix) -> Array:
    """Take elements of a constant, or those that are equally far apart."""
    if a.data is None:
        ends = int(indices[0]), int(indices[-1]) + 1
        return movement.part(s, a, axis, *ends, _step(indices))
    held = a.data if a.stored[axis] == 1 else a.data.take(indices, axis)
    shape = [len(indices) if k == axis else n for k, n in enumerate(a.shape)]
    return Array(a.dtype, tuple(shape), held)


def resized(s: Scope, a: Array, axes: Sequence[ResizeAxis], mode: str) -> Array:
    """Resize height and width, the last two of four dimensions, by RESIZE."""
    made = by_operator(s, movement.transpose(s, a, (0, 2, 3, 1)), axes, mode, a.dtype)
    return movement.transpose(s, made, (0, 3, 1, 2))


def by_operator(s: Scope, a: Array, axes: Sequence[ResizeAxis], mode: str, dtype: Any) -> Array:
    """Resize [batch, height, width, channels] by RESIZE."""
    return s.apply(
        "resize",
        [a],
        dtype,
        scale=[n for axis in axes for n in axis[:2]],
        offset=[axis.offset for axis in axes],
        border=[axis.border for axis in axes],
        mode=mode,
    )


def linear_axis(size: int, wanted: int, is_aligned: bool) -> ResizeAxis:
    """Return the numbers of a linear RESIZE between pixels' centres, or between the first and the last.

    Example:
        >>> linear_axis(2, 4, False)
        ResizeAxis(numerator=4, denominator=2, offset=-1, border=1)
    """
    numbers = 2 * wanted, 2 * size, size - wanted
    if is_aligned:
        numbers = (1, 1, 0) if size == 1 else (wanted - 1, size - 1, 0)
    factor = math.gcd(*numbers)
    return ResizeAxis.between(size, wanted, *(number // factor for number in numbers))


def multiplied(s: Scope, a: Array, matrices: Mapping[int, Matrix]) -> Array:
    """Multiply constant matrices [result, size] by an array along axes."""
    order = list(range(a.rank))
    for axis, matrix in matrices.items():
        if np.array_equal(matrix, np.eye(a.shape[order.index(axis)])):
            continue
        # The axis comes last, and the order is restored once.
        wanted = [k for k in order if k != axis] + [axis]
        a = movement.transpose(s, a, [order.index(k) for k in wanted])
        order = wanted
        a = by_matrix(s, a, matrix.T)
    return movement.transpose(s, a, np.argsort(order).tolist())


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
