"""Recipes for what TOSA has no operator for, shared by the frontends.

Two of them take any kind of value, whose operations the caller gives: of the builder, of JAX, of torch,
or names of ONNX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value

V = TypeVar("V")


#: Groups of a convolution up to which each has an operator of its own: 5 operators, with slices.
FEW_GROUPS: Final = 2
#: Elements of the sums of single channels above which groups have operators of their own.
_SUMS: Final = 1 << 23


def is_summed_by_group(groups: int, sums: int) -> bool:
    """Return whether a convolution of groups is one of single channels, and sums over each group.

    DEPTHWISE_CONV2D with as many results for each channel as its group has, RESHAPE, REDUCE_SUM and
    RESHAPE: the products of the convolution, and 4 operators for any number of groups. One for each
    group takes 2 * groups + 1 operators. One CONV2D with zeros outside of the groups takes `groups`
    times the products and the weights, and an infinite element would be NaN in other groups.
    """
    return groups > FEW_GROUPS and sums <= _SUMS


def cumulate(x: V, size: int, combine: Callable[[V, V], V], moved: Callable[[V, int], V]) -> V:
    """Combine each element along an axis with all before it, in as many steps as the size has bits.

    Example:
        >>> cumulate([1, 2, 3, 4], 4, lambda x, y: [a + b for a, b in zip(x, y)],
        ...          lambda x, by: [0] * by + x[:-by])
        [1, 3, 6, 10]
    """
    distance = 1
    while distance < size:
        x = combine(x, moved(x, distance))
        distance *= 2
    return x


def reduce_by_halves(
    x: V,
    size: int,
    combine: Callable[[V, V], V],
    part: Callable[[V, int, int], V],
    join: Callable[[Sequence[V]], V],
) -> V:
    """Combine one half of an axis with the other, until one element is left.

    Example:
        >>> reduce_by_halves([3, 1, 2], 3, lambda x, y: [a * b for a, b in zip(x, y)],
        ...                  lambda x, start, stop: x[start:stop], lambda parts: sum(parts, []))
        [6]
    """
    while size > 1:
        half = size // 2
        combined = combine(part(x, 0, half), part(x, half, 2 * half))
        if size % 2:
            combined = join([combined, part(x, size - 1, size)])
        x, size = combined, half + size % 2
    return x


def scatter_rows(b: Builder, table: Value, places: Value, rows: Value, columns: int = 1) -> Value:
    """Replace rows of a table at places that all differ; return it in the shape [1, K, columns]."""
    flat, update = (
        b.reshape(value, (1, math.prod(value.shape or ()) // columns, columns))
        for value in (table, rows)
    )
    return b.scatter(flat, places, update)
