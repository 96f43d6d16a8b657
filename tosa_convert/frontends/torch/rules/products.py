"""Products of matrices, convolutions, and linear systems."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import matrices, movement, products
from tosa_convert.frontends.lowering.products import Window
from tosa_convert.frontends.lowering.scope import Array, NotLowered, constant
from tosa_convert.frontends.lowering.types import is_float
from tosa_convert.frontends.torch.rules.elementwise import combined
from tosa_convert.frontends.torch.rules.node import Node, Rule, sizes_of
from tosa_convert.frontends.torch.rules.reductions import summed

# -- matrices ------------------------------------------------------------------------------------


def product(n: Node, a: Array, b: Array) -> Array:
    """Multiply matrices: [H, C] and [C, W], or batches of them."""
    s = n.scope
    x, y = (movement.reshape(s, one, (1,) * (3 - one.rank) + one.shape) for one in (a, b))
    made = products.product(s, x, y, n.dtype)
    return movement.reshape(s, made, n.shape)


def _scaled(n: Node, a: Array, factor: Any) -> Array:
    return a if factor == 1 else combined(n.scope, "mul", *n.arrays(a, factor))


def _sum_and_product(
    n: Node, bias: Array, a: Array, b: Array, *, beta: Any = 1, alpha: Any = 1
) -> Array:
    made = _scaled(n, product(n, a, b), alpha)
    if beta == 0:
        return made
    return combined(n.scope, "add", *n.arrays(made, _scaled(n, bias, beta)))


def _product_of_three(n: Node, *given: Any) -> Array:
    """Sum the products along axes, as `bilinear` does; each operand gets axes of size 1."""
    s = n.scope
    factors = []
    for one, axes in zip(given[:3], given[3:6], strict=True):
        sizes = list(one.shape)
        for axis in sorted(axes):
            sizes.insert(axis, 1)
        factors.append(movement.reshape(s, one, sizes))
    made = reduce(partial(combined, s, "mul"), factors)
    return movement.reshape(s, summed(s, made, given[6]) if given[6] else made, n.shape)


def _product_of_groups(
    n: Node,
    a: Array,
    weights: Array,
    ends: Array | None = None,
    bias: Any = None,
    dtype: Any = None,
) -> Array:
    """Multiply rows by the matrix of their group g, from end g - 1 to end g; later rows give 0."""
    if a.rank != 2 or weights.rank != 3 or ends is None or bias is not None:
        raise NotLowered("its groups are not those of rows", "multiply them one by one")
    s, groups = n.scope, weights.shape[0]
    row = constant(np.arange(a.shape[0], dtype=np.int32).reshape(1, -1, 1))
    after = movement.reshape(s, n.index(ends), (groups, 1, 1))
    start = movement.pad(s, after, (1, 0, 0), (-1, 0, 0), 0)
    is_inside = s.both(s.greater_equal(row, start), s.greater(after, row))
    rows = movement.broadcast_to(s, movement.reshape(s, a, (1, *a.shape)), (groups, *a.shape))
    made = products.product(s, rows, weights, a.dtype)
    total = movement.reshape(s, summed(s, s.select(is_inside, made, 0), (0,)), n.shape)
    return n.convert(total, n.dtype)


# -- convolutions --------------------------------------------------------------------------------


def convolution(
    n: Node,
    a: Array,
    weight: Array,
    bias: Array | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Array:
    """Convolve; transposed, the padding is taken away from the result, and more is added at its end."""
    axes = a.rank - 2
    if not is_float(a.dtype):
        raise NotLowered("TOSA has no convolution of these integers", "convolve in float32")
    step, gaps = (tuple(sizes_of(value, axes)) for value in (stride, dilation))
    more = sizes_of(output_padding, axes) if transposed else [0] * axes
    pads = zip(sizes_of(padding, axes), more, strict=True)
    pairs = tuple((pad, pad - extra) for pad, extra in pads)
    weight = n.convert(weight, a.dtype)
    if transposed:
        window = Window((1,) * axes, pairs, step, gaps)
        return products.conv_transposed(n.scope, a, weight, window, groups, bias)
    window, spec = Window(step, pairs, (1,) * axes, gaps), tuple(range(a.rank))
    layouts = spec, spec, spec
    return products.conv_general_dilated(
        n.scope, a, weight, window, layouts, a.dtype, groups, 1, bias
    )


def _convolution_of_times(n: Node, a: Array, weight: Array, bias: Array, pad: int = 0) -> Array:
    """Lower `conv_tbc`: places are first, channels last; the kernel is [places, inputs, outputs]."""
    window, spec = Window((1,), ((pad, pad),), (1,), (1,)), (1, 2, 0)
    layouts = spec, (2, 1, 0), spec
    return products.conv_general_dilated(n.scope, a, weight, window, layouts, a.dtype, 1, 1, bias)


def _gradients(
    n: Node,
    grad: Array,
    a: Array,
    weight: Array,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    mask: Sequence[bool],
) -> list[Array | None]:
    """Return the gradients of a convolution by its input, kernel and bias, as the mask asks.

    That by the kernel convolves with the gradient as the kernel; batch and channels change places.
    """
    if transposed:
        raise NotLowered("it is the gradient of a transposed convolution", "")
    s, axes = n.scope, a.rank - 2
    step, pads, gaps = (tuple(sizes_of(value, axes)) for value in (stride, padding, dilation))
    pairs, ones, spec = tuple(zip(pads, pads, strict=True)), (1,) * axes, tuple(range(a.rank))
    found: list[Array | None] = [None, None, None]
    if mask[0]:
        spans = zip(a.shape[2:], grad.shape[2:], weight.shape[2:], step, pads, gaps, strict=True)
        more = [size - ((g - 1) * by - 2 * p + d * (k - 1) + 1) for size, g, k, by, p, d in spans]
        ends = tuple((pad, pad - extra) for pad, extra in zip(pads, more, strict=True))
        found[0] = products.conv_transposed(s, grad, weight, Window(ones, ends, step, gaps), groups)
    if mask[1]:
        batch, each = a.shape[0], a.shape[1] // groups
        rows = movement.reshape(s, a, (batch, groups, each, *a.shape[2:]))
        rows = movement.transpose(s, rows, (2, 1, 0, *range(3, 3 + axes)))
        rows = movement.reshape(s, rows, (each, groups * batch, *a.shape[2:]))
        layouts = spec, (1, 0, *spec[2:]), (1, 0, *spec[2:])
        window = Window(gaps, pairs, ones, step)
        made = products.conv_general_dilated(s, rows, grad, window, layouts, a.dtype, groups)
        found[1] = movement.cut(s, made, [0] * a.rank, weight.shape)
    if mask[2]:
        total = summed(n.scope, grad, (0, *spec[2:]))
        found[2] = movement.reshape(s, total, (grad.shape[1],))
    return found


# -- determinants, inverses, factors and linear systems --------------------------------------------


def _determinant(n: Node, a: Array) -> list[Array]:
    """Return the determinant; torch also gives factors, for its derivative."""
    if n.is_used(1) or n.is_used(2):
        raise NotLowered("its factors are used", "use torch.linalg.det alone")
    return [matrices.determinant(n.scope, a), n.unused(1), n.unused(2)]


def _with_codes(rule: Rule) -> Rule:
    """Return the rule that also gives the codes of errors, which are 0."""
    return lambda n, *given, **named: [rule(n, *given, **named), n.unused(1)]


def _inverse(n: Node, a: Array, **_: Any) -> Array:
    return matrices.inverse(n.scope, a)


def _cholesky(n: Node, a: Array, *, upper: bool = False, **_: Any) -> Array:
    made = matrices.cholesky(n.scope, a)
    return matrices.transposed(n.scope, made) if upper else made


def _of_one_batch(n: Node, a: Array, b: Array) -> tuple[Array, Array]:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    made = [movement.broadcast_to(n.scope, one, (*batch, *one.shape[-2:])) for one in (a, b)]
    return made[0], made[1]


def _solve(n: Node, a: Array, b: Array, *, left: bool = True, **_: Any) -> Array:
    """Solve a x = b, or x a = b. A vector is a matrix of one column."""
    s = n.scope
    if b.rank == 1 or (b.rank == a.rank - 1 and b.shape == a.shape[:-1]):
        b = movement.reshape(s, b, (*b.shape, 1))
    if left:
        made = matrices.solve(s, *_of_one_batch(n, a, b))
    else:
        turned = [matrices.transposed(s, one) for one in _of_one_batch(n, a, b)]
        made = matrices.transposed(s, matrices.solve(s, *turned))
    return movement.reshape(s, made, n.shape)


def _solve_triangular(
    n: Node, a: Array, b: Array, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    a, b = _of_one_batch(n, a, b)
    return matrices.triangular_solve(n.scope, a, b, left, not upper, False, unitriangular)


def _solve_by_factor(n: Node, b: Array, factor: Array, upper: bool = False) -> Array:
    """Lower `cholesky_solve`: solve with the factor, and then with its transpose."""
    a, b = _of_one_batch(n, factor, b)
    for is_transposed in (upper, not upper):
        b = matrices.triangular_solve(n.scope, a, b, True, not upper, is_transposed)
    return b


RULES: Final[dict[str, Rule]] = {
    "mm": product,
    "_int_mm": product,
    "bmm": product,
    "addmm": _sum_and_product,
    "baddbmm": _sum_and_product,
    "_trilinear": _product_of_three,
    "_grouped_mm": _product_of_groups,
    "transformers.grouped_mm_fallback": _product_of_groups,
    "convolution": convolution,
    "conv_tbc": _convolution_of_times,
    "convolution_backward": _gradients,
    "_linalg_det": _determinant,
    "linalg_slogdet": lambda n, a: list(matrices.sign_and_logarithm(n.scope, a)),
    "linalg_inv": _inverse,
    "linalg_inv_ex": _with_codes(_inverse),
    "linalg_cholesky": _cholesky,
    "linalg_cholesky_ex": _with_codes(_cholesky),
    "linalg_solve": _solve,
    "linalg_solve_ex": _with_codes(_solve),
    "linalg_solve_triangular": _solve_triangular,
    "cholesky_solve": _solve_by_factor,
}
