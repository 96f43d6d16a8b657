"""Torch's operators of complex numbers, with pairs of real tensors; Fourier transforms as products."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch
from torch.utils import _pytree as pytree

from tosa_convert.records import NamedTuple

aten: Any = torch.ops.aten
#: Elements of the matrix of a transform above which it is not made.
_MOST_ELEMENTS: Final = 1 << 22


class Pair(NamedTuple):
    """Real and imaginary part of a complex tensor, or of a number."""

    real: Any
    imaginary: Any


def _pair(value: Any) -> Pair:
    """Return a real or complex operand as a pair."""
    if isinstance(value, Pair):
        return value
    if torch.is_tensor(value):
        return Pair(value, torch.zeros_like(value))
    return Pair(complex(value).real, complex(value).imag)


def _is_real(value: Any) -> bool:
    return not isinstance(value, (Pair, complex))


def _add(x: Any, y: Any, *, alpha: Any = 1, sign: int = 1) -> Pair:
    (a, b), (c, d) = _pair(x), _pair(y)
    factor = sign * alpha
    if factor == 1:
        return Pair(a + c, b + d)
    return Pair(a - c, b - d) if factor == -1 else Pair(a + factor * c, b + factor * d)


def _subtract(x: Any, y: Any, *, alpha: Any = 1) -> Pair:
    return _add(x, y, alpha=alpha, sign=-1)


def _by(operator: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Pair]:
    """Return the product of complex operands by the products of their parts."""

    def product(x: Any, y: Any) -> Pair:
        (a, b), (c, d) = _pair(x), _pair(y)
        if _is_real(x):
            return Pair(operator(a, c), operator(a, d))
        if _is_real(y):
            return Pair(operator(a, c), operator(b, c))
        return Pair(operator(a, c) - operator(b, d), operator(a, d) + operator(b, c))

    return product


_multiply = _by(lambda x, y: x * y)


def _divide(x: Any, y: Any) -> Pair:
    if _is_real(y):
        a, b = _pair(x)
        return Pair(a / y, b / y)
    c, d = _pair(y)
    size = c * c + d * d
    a, b = _multiply(x, Pair(c, -d))
    return Pair(a / size, b / size)


def _power(x: Any, exponent: Any) -> Any:
    if not isinstance(x, Pair) or exponent not in (2, 3, 4):
        return NotImplemented
    made = x
    for _ in range(int(exponent) - 1):
        made = _multiply(made, x)
    return made


def _size(x: Pair) -> Any:
    return torch.sqrt(x.real * x.real + x.imaginary * x.imaginary)


def _sign(x: Pair) -> Pair:
    size = _size(x)
    divisor = torch.where(size == 0, torch.ones_like(size), size)
    return Pair(x.real / divisor, x.imaginary / divisor)


def _exponential(x: Pair) -> Pair:
    return _polar(torch.exp(x.real), x.imaginary)


def _polar(size: Any, angle: Any) -> Pair:
    return Pair(size * torch.cos(angle), size * torch.sin(angle))


def _root(x: Pair) -> Pair:
    """Return the square root whose real part is not negative."""
    size, zero = _size(x), torch.zeros_like(x.real)
    real = torch.sqrt(torch.maximum((size + x.real) / 2, zero))
    imaginary = torch.sqrt(torch.maximum((size - x.real) / 2, zero))
    return Pair(real, torch.where(x.imaginary < 0, -imaginary, imaginary))


def _conjugate(x: Pair) -> Pair:
    return Pair(x.real, -x.imaginary)


def _convert(x: Any, *, dtype: Any = None, **_: Any) -> Any:
    """`_to_copy`: to complex, or to the real part."""
    if dtype is None:
        return Pair(x.real.clone(), x.imaginary.clone()) if isinstance(x, Pair) else x.clone()
    if not dtype.is_complex:
        return x.real.to(dtype)
    part = dtype.to_real()
    return Pair(*(one.to(part) for one in _pair(x)))


def _filled(size: Any, value: Any, *, dtype: Any = None, **options: Any) -> Pair:
    part = dtype.to_real() if dtype is not None and dtype.is_complex else torch.float32
    return Pair(*(torch.full(size, one, dtype=part) for one in _pair(value)))


def _filled_like(x: Any, value: Any, *, dtype: Any = None, **options: Any) -> Pair:
    like = x.real if isinstance(x, Pair) else x
    part = dtype.to_real() if dtype is not None and dtype.is_complex else like.dtype
    return Pair(*(torch.full(like.shape, one, dtype=part) for one in _pair(value)))


def _chosen(condition: Any, x: Any, y: Any) -> Pair:
    (a, b), (c, d) = _pair(x), _pair(y)
    return Pair(torch.where(condition, a, c), torch.where(condition, b, d))


def _equal(x: Any, y: Any) -> Any:
    (a, b), (c, d) = _pair(x), _pair(y)
    return torch.logical_and(a == c, b == d)


def _each(packet: Any, *values: int) -> Callable[..., Any]:
    """Return an operator that moves or adds elements, on the real and on the imaginary parts.

    values: positions of arguments with elements, of which real ones have an imaginary part of 0.
    """

    def applied(*args: Any, **keywords: Any) -> Any:
        promoted = [
            pytree.tree_map(_pair, one, is_leaf=_is_value) if index in values else one
            for index, one in enumerate(args)
        ]
        results = [packet(*_part(promoted, part), **_part(keywords, part)) for part in (0, 1)]
        if torch.is_tensor(results[0]):
            return Pair(*results)
        return [Pair(*pair) for pair in zip(*results, strict=True)]

    return applied


def _is_value(value: Any) -> bool:
    return isinstance(value, Pair) or torch.is_tensor(value)


def _part(value: Any, index: int) -> Any:
    return pytree.tree_map(
        lambda one: one[index] if isinstance(one, Pair) else one,
        value,
        is_leaf=lambda one: isinstance(one, Pair),
    )


def _padded(x: Pair, pad: Sequence[int], value: Any = 0) -> Pair:
    fill = _pair(value)
    return Pair(*(aten.constant_pad_nd(a, pad, b) for a, b in zip(x, fill, strict=True)))


# Transforms: the sums over an axis as products with a matrix of cosines and one of sines.


class TooLargeError(Exception):
    """The matrix of a transform would be too large."""


def _waves(rows: int, columns: int, size: int) -> Iterator[Any]:
    """Yield cosine and sine of 2 pi jk / size in double precision, for row j and column k."""
    if rows * columns > _MOST_ELEMENTS:
        raise TooLargeError
    places = torch.arange(rows).unsqueeze(1) * torch.arange(columns) % size
    angles = places.double() * (2 * math.pi / size)
    # A quarter turn has an exact 0, which pi in double precision does not give.
    for one in (angles.cos(), angles.sin()):
        yield torch.where(one.abs() < 1e-12, 0.0, one)


def matrices_of(packet: Any, node: Any) -> Iterator[Any]:
    """Yield the matrices that the rule of an operator takes: cosines and sines, axis by axis."""
    if packet not in TRANSFORMS:
        return
    x = node.args[0].meta["val"]
    dtype = x.dtype.to_real()
    if packet in (aten.stft, aten.istft):
        size, short = node.args[1], node.meta["val"].shape[-2 - (not node.meta["val"].is_complex())]
        if packet is aten.istft:
            short = x.shape[-2]
            yield from _back_to_real(size, short, dtype)
        else:
            yield from (one.to(dtype) for one in _waves(short, size, size))
        return
    dims = node.args[1]
    for dim in dims:
        size = made = x.shape[dim]
        if packet is aten._fft_r2c and dim == dims[-1] and node.args[3]:
            made = size // 2 + 1
        if packet is aten._fft_c2r and dim == dims[-1]:
            yield from _back_to_real(node.args[3], size, dtype)
            continue
        yield from (one.to(dtype) for one in _waves(size, made, size))


def _back_to_real(size: int, terms: int, dtype: Any) -> Iterator[Any]:
    """Yield what takes the terms of a real signal to its elements: inner terms count twice."""
    weights = torch.full((terms, 1), 2.0, dtype=torch.float64)
    weights[0] = 1
    if size % 2 == 0 and terms == size // 2 + 1:
        weights[-1] = 1
    yield from ((one * weights).to(dtype) for one in _waves(terms, size, size))


def _scale(x: Any, size: int, norm: int) -> Any:
    """Normalise: 0 leaves it, 1 divides by the root of the size, 2 by the size."""
    if norm == 0:
        return x
    factor = 1 / math.sqrt(size) if norm == 1 else 1 / size
    return Pair(x.real * factor, x.imaginary * factor) if isinstance(x, Pair) else x * factor


def _along(x: Any, dim: int, matrix: Any) -> Any:
    """Multiply the elements of an axis by a matrix."""
    return (x.movedim(dim, -1) @ matrix).movedim(-1, dim)


def _complex_axis(x: Any, dim: int, cosines: Any, sines: Any, *, forward: bool) -> Pair:
    """Transform one axis of a complex or real tensor."""
    sign = -1 if forward else 1
    if not isinstance(x, Pair):
        return Pair(_along(x, dim, cosines), sign * _along(x, dim, sines))
    a, b = x
    real = _along(a, dim, cosines) - sign * _along(b, dim, sines)
    return Pair(real, _along(b, dim, cosines) + sign * _along(a, dim, sines))


def _real_to_complex(
    x: Any, dims: Sequence[int], norm: int, onesided: bool, *, matrices: Sequence[Any]
) -> Any:
    size = math.prod(x.shape[dim] for dim in dims)
    made = x
    for index in reversed(range(len(dims))):  # The last axis is the one that is halved.
        cosines, sines = matrices[2 * index : 2 * index + 2]
        made = _complex_axis(made, dims[index], cosines, sines, forward=True)
    return _scale(made, size, norm)


def _complex_to_complex(
    x: Pair, dims: Sequence[int], norm: int, forward: bool, *, matrices: Sequence[Any]
) -> Any:
    size = math.prod(x.real.shape[dim] for dim in dims)
    for index, dim in enumerate(dims):
        x = _complex_axis(x, dim, *matrices[2 * index : 2 * index + 2], forward=forward)
    return _scale(x, size, norm)


def _complex_to_real(
    x: Pair, dims: Sequence[int], norm: int, last: int, *, matrices: Sequence[Any]
) -> Any:
    size = last * math.prod(x.real.shape[dim] for dim in dims[:-1])
    for index, dim in enumerate(dims[:-1]):
        x = _complex_axis(x, dim, *matrices[2 * index : 2 * index + 2], forward=False)
    cosines, sines = matrices[-2:]
    made = _along(x.real, dims[-1], cosines) - _along(x.imaginary, dims[-1], sines)
    return _scale(made, size, norm)


def _window_of(window: Any, size: int, length: int | None, like: Any) -> Any:
    """Return the window in the middle of the frame."""
    made = window if window is not None else torch.ones(length or size, dtype=like.dtype)
    left = (size - made.shape[0]) // 2
    return torch.constant_pad_nd(made, [left, size - made.shape[0] - left]) if left else made


def _short_time(
    x: Any,
    size: int,
    hop: int | None = None,
    length: int | None = None,
    window: Any = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
    *,
    matrices: Sequence[Any],
) -> Any:
    """Transform each frame, by a convolution with the windowed waves."""
    if isinstance(x, Pair) or align_to_window:
        return NotImplemented
    frame = _window_of(window, size, length, x)
    terms = matrices[0].shape[0]
    waves = torch.cat([matrices[0], -matrices[1]]) * frame
    if normalized:
        waves = waves / math.sqrt(size)
    rows = x.reshape(-1, 1, x.shape[-1])
    made = aten.convolution(
        rows, waves.unsqueeze(1), None, [hop or size // 4], [0], [1], False, [0], 1
    )
    parts = [part.reshape(*x.shape[:-1], terms, -1) for part in made.split(terms, 1)]
    return Pair(*parts) if return_complex else torch.stack(parts, -1)


def _short_time_inverse(
    x: Pair,
    size: int,
    hop: int | None = None,
    length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    samples: int | None = None,
    return_complex: bool = False,
    *,
    matrices: Sequence[Any],
) -> Any:
    """Add up the frames, by a transposed convolution, and divide by the sum of squared windows."""
    if return_complex or onesided is False:
        return NotImplemented
    terms, frames = x.real.shape[-2:]
    frame, step = _window_of(window, size, length, x.real), hop or size // 4
    waves = torch.cat([matrices[0], -matrices[1]]) * (
        frame / (math.sqrt(size) if normalized else size)
    )
    rows = torch.cat([part.reshape(-1, terms, frames) for part in x], 1)

    def added(elements: Any, kernel: Any) -> Any:
        return aten.convolution(
            elements, kernel.unsqueeze(1), None, [step], [0], [1], True, [0], 1
        ).squeeze(1)

    total = added(rows, waves)
    weights = added(torch.ones_like(rows[:1, :1]), (frame * frame).unsqueeze(0))
    start = size // 2 if center else 0
    end = total.shape[-1] - start if samples is None else start + samples
    kept = min(end, total.shape[-1])
    made = total[:, start:kept] / weights[:, start:kept]
    made = torch.constant_pad_nd(made, [0, end - kept]) if end > kept else made
    return made.reshape(*x.real.shape[:-2], made.shape[-1])


TRANSFORMS: Final[dict[Any, Callable[..., Any]]] = {
    aten._fft_r2c: _real_to_complex,
    aten._fft_c2c: _complex_to_complex,
    aten._fft_c2r: _complex_to_real,
    aten.stft: _short_time,
    aten.istft: _short_time_inverse,
}

#: Operator -> what computes it with pairs in place of complex tensors.
RULES: Final[dict[Any, Callable[..., Any]]] = {
    **TRANSFORMS,
    **{
        packet: _each(packet)
        for packet in (
            *(aten.view, aten.reshape, aten._unsafe_view, aten.permute, aten.transpose, aten.t),
            *(aten.unsqueeze, aten.squeeze, aten.expand, aten.slice, aten.select, aten.split),
            *(aten.split_with_sizes, aten.unbind, aten.clone, aten.alias, aten.detach, aten.index),
            *(aten.index_select, aten.gather, aten.flip, aten.roll, aten.repeat, aten.sum),
            *(aten.mean, aten.cumsum, aten.tril, aten.triu, aten.unfold, aten.neg, aten.diagonal),
            *(aten.flatten, aten.movedim, aten.contiguous, aten.lift_fresh_copy, aten.chunk),
        )
    },
    aten.cat: _each(aten.cat, 0),
    aten.stack: _each(aten.stack, 0),
    aten.slice_scatter: _each(aten.slice_scatter, 0, 1),
    aten.select_scatter: _each(aten.select_scatter, 0, 1),
    aten.index_put: _each(aten.index_put, 0, 2),
    aten.copy: _each(aten.copy, 0, 1),
    aten.constant_pad_nd: _padded,
    aten.where: _chosen,
    aten.add: _add,
    aten.sub: _subtract,
    aten.rsub: lambda x, y: _subtract(y, x),
    aten.square: lambda x: _multiply(x, x),
    aten.mul: _multiply,
    aten.div: _divide,
    aten.mm: _by(torch.mm),
    aten.bmm: _by(torch.bmm),
    aten.matmul: _by(torch.matmul),
    aten.reciprocal: lambda x: _divide(1.0, x),
    aten.pow: _power,
    aten.exp: _exponential,
    aten.log: lambda x: Pair(torch.log(_size(x)), torch.atan2(x.imaginary, x.real)),
    aten.sqrt: _root,
    aten.abs: _size,
    aten.angle: lambda x: torch.atan2(x.imaginary, x.real),
    aten.sgn: _sign,
    aten._conj: _conjugate,
    aten.conj: _conjugate,
    aten._conj_physical: _conjugate,
    aten.conj_physical: _conjugate,
    aten.resolve_conj: lambda x: x,
    aten.resolve_neg: lambda x: x,
    aten._neg_view: lambda x: Pair(-x.real, -x.imaginary),
    aten.real: lambda x: x.real,
    aten.imag: lambda x: x.imaginary,
    aten.eq: _equal,
    aten.ne: lambda x, y: torch.logical_not(_equal(x, y)),
    aten.complex: Pair,
    aten.polar: _polar,
    aten.view_as_complex: lambda x: Pair(x.select(-1, 0), x.select(-1, 1)),
    aten.view_as_real: lambda x: torch.stack([x.real, x.imaginary], -1),
    aten._to_copy: _convert,
    aten.full: _filled,
    aten.full_like: _filled_like,
    aten.zeros_like: lambda x, **options: _filled_like(x, 0, **options),
    aten.ones_like: lambda x, **options: _filled_like(x, 1, **options),
    aten.zeros: lambda size, **options: _filled(size, 0, **options),
    aten.ones: lambda size, **options: _filled(size, 1, **options),
    aten.scalar_tensor: lambda value, **options: _filled([], value, **options),
}
