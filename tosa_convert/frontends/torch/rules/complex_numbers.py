"""Operators of complex numbers, on pairs of arrays: the real parts, and the imaginary parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import complex_numbers as pairs
from tosa_convert.frontends.lowering import movement, spectral
from tosa_convert.frontends.lowering.arithmetic import divided
from tosa_convert.frontends.lowering.complex_numbers import Pair, is_complex, real_kind
from tosa_convert.frontends.lowering.products import Window, conv_transposed
from tosa_convert.frontends.lowering.scope import Array, NotLowered, constant, whole_data
from tosa_convert.frontends.torch.rules.node import Node, Rule
from tosa_convert.frontends.torch.rules.products import product

_MOVED: Final = (
    *("view", "reshape", "_unsafe_view", "permute", "transpose", "t", "unsqueeze", "squeeze"),
    *("expand", "slice", "select", "split", "split_with_sizes", "unbind", "clone", "alias"),
    *("detach", "index", "index_select", "gather", "flip", "repeat", "sum", "mean", "neg"),
    *("cumsum", "unfold", "diagonal", "flatten", "contiguous", "lift_fresh_copy", "cat"),
    *("stack", "narrow", "scalar_tensor", "zeros", "zeros_like", "_neg_view", "prims.view_of"),
    *("resolve_conj", "resolve_neg", "as_strided"),
)
#: Operators that do the same to both parts -> the positions of the operands that have parts.
_BY_PARTS: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(_MOVED, (0,)),
    **dict.fromkeys(("add", "sub", "slice_scatter", "select_scatter", "copy", "fill"), (0, 1)),
    **dict.fromkeys(("constant_pad_nd", "index_put", "masked_fill"), (0, 2)),
    **dict.fromkeys(("full", "full_like"), (1,)),
    "where": (1, 2),
}


def complex_rule(name: str, rule: Rule | None) -> Rule | None:
    """Return the rule of an operator for complex numbers, or None. rule: that for real numbers."""
    if name in RULES:
        return partial(_of_pairs, rule=RULES[name])
    if name in _BY_PARTS and rule is not None:
        return partial(_of_parts, rule=rule, places=_BY_PARTS[name])
    return None


def _pair(value: Any, dtype: Any = None) -> Pair:
    """Return an array, or a number, as its parts."""
    if not isinstance(value, Array):
        parts = complex(value).real, complex(value).imag
        return constant(np.asarray(parts[0], dtype)), constant(np.asarray(parts[1], dtype))
    if value.parts is not None:
        return value.parts
    if value.data is not None and is_complex(value.dtype):
        real, imag = pairs.parts_of(value.data)
        return replace(real, shape=value.shape), replace(imag, shape=value.shape)
    return pairs.of_real(value)


def _joined(n: Node, found: Any, number: int) -> Any:
    """Return what a rule found as an array: a pair, or what is real already."""
    if not isinstance(found, tuple):
        return found
    kind = n.dtypes[number]
    return Array(kind, n.shapes[number], parts=found) if is_complex(kind) else found[0]


def _of_parts(n: Node, *given: Any, rule: Rule, places: Sequence[int], **named: Any) -> Any:
    """Apply the rule of real numbers to the real and to the imaginary parts."""
    real = replace(n, dtypes=[real_kind(one) for one in n.dtypes])

    def part(value: Any, number: int) -> Any:
        if isinstance(value, Array):
            return _pair(value)[number]
        if isinstance(value, (bool, int, float, complex)):
            return (complex(value).real, complex(value).imag)[number]
        return [part(one, number) for one in value] if isinstance(value, (list, tuple)) else value

    both = [
        rule(real, *(part(v, k) if at in places else v for at, v in enumerate(given)), **named)
        for k in range(2)
    ]
    if isinstance(both[0], Array):
        return _joined(n, tuple(both), 0)
    return [_joined(n, found, k) for k, found in enumerate(zip(*both, strict=True))]


def _of_pairs(n: Node, *given: Any, rule: Callable[..., Any], **named: Any) -> Any:
    real = replace(n, dtypes=[real_kind(one) for one in n.dtypes])
    return _joined(n, rule(real, *given, **named), 0)


# -- arithmetic ----------------------------------------------------------------------------------


def _held(n: Node, *values: Any) -> list[Pair]:
    """Return operands as pairs of one rank, in the type of the parts of the result."""
    found = [_pair(value, n.dtype) for value in values]
    rank = max(real.rank for real, _ in found)
    return [
        (n.ranked(n.convert(a, n.dtype), rank), n.ranked(n.convert(b, n.dtype), rank))
        for a, b in found
    ]


def _is_real(value: Any) -> bool:
    if isinstance(value, Array):
        return not is_complex(value.dtype)
    return not isinstance(value, complex) or value.imag == 0


def _multiplied(n: Node, a: Any, b: Any) -> Pair:
    x, y = _held(n, a, b)
    if _is_real(a):
        return pairs.scaled(n.scope, y, x[0])
    return pairs.scaled(n.scope, x, y[0]) if _is_real(b) else pairs.mul(n.scope, x, y)


def _divided(n: Node, a: Any, b: Any) -> Pair:
    s, (x, y) = n.scope, _held(n, a, b)
    if _is_real(b):
        return divided(s, x[0], y[0]), divided(s, x[1], y[0])
    return pairs.divided(s, x, y)


def _power(n: Node, a: Any, exponent: Any) -> Pair:
    if not isinstance(exponent, (int, float)) or exponent != int(exponent):
        raise NotLowered("its exponent is not a whole number", pairs.ADVICE)
    return pairs.integer_power(n.scope, _held(n, a)[0], int(exponent))


def _sign(n: Node, a: Any) -> Pair:
    s, x = n.scope, _pair(a)
    size = pairs.magnitude(s, x)
    size = s.select(s.equal(size, 0), 1, size)
    return divided(s, x[0], size), divided(s, x[1], size)


def _product(n: Node, a: Any, b: Any) -> Pair:
    return pairs.contracted(n.scope, _pair(a), _pair(b), partial(product, n))


def _equal(n: Node, a: Any, b: Any, *, is_other: bool) -> Array:
    kind = next(real_kind(one.dtype) for one in (a, b) if isinstance(one, Array))
    x, y = _held(replace(n, dtypes=[kind]), a, b)
    made = pairs.equals(n.scope, x, y)
    return n.scope.negation(made) if is_other else made


def _ones(n: Node, *_: Any, **__: Any) -> Pair:
    real, imag = (Array(n.dtype, n.shape, np.full((1,) * n.rank, k, n.dtype)) for k in (1, 0))
    return real, imag


def _converted(n: Node, a: Array, *_: Any, **__: Any) -> Pair:
    """Convert to other complex numbers, or to the real parts."""
    real, imag = (n.convert(part, n.dtype) for part in _pair(a))
    return real, imag


# -- Fourier transforms --------------------------------------------------------------------------


def _normalised(n: Node, x: Pair, lengths: Sequence[int], norm: int, is_inverse: bool) -> Pair:
    """Normalise: 0 leaves sums, 1 divides by the root of the size, 2 by the size, as inverses do."""
    size = math.prod(lengths)
    factor = (1.0, 1 / math.sqrt(size), 1 / size)[norm] * (size if is_inverse else 1)
    if math.isclose(factor, 1):
        return x
    return pairs.scaled(n.scope, x, constant(np.asarray(factor, n.dtype)))


def _fft(n: Node, a: Array, dims: Sequence[int], norm: int, is_forward: bool) -> Pair:
    lengths = [a.shape[dim] for dim in dims]
    made = pairs.transformed(n.scope, _pair(a), dims, not is_forward)
    return _normalised(n, made, lengths, norm, not is_forward)


def _fft_of_real(n: Node, a: Array, dims: Sequence[int], norm: int, is_onesided: bool) -> Pair:
    if not is_onesided:
        return _fft(n, a, dims, norm, True)
    made = pairs.transformed_real(n.scope, a, dims[-1])
    made = pairs.transformed(n.scope, made, dims[:-1])
    return _normalised(n, made, [a.shape[dim] for dim in dims], norm, False)


def _fft_to_real(n: Node, a: Array, dims: Sequence[int], norm: int, last: int) -> Array:
    made = pairs.transformed(n.scope, _pair(a), dims[:-1], True)
    real = pairs.real_from_half(n.scope, made, dims[-1], last)
    lengths = [*(a.shape[dim] for dim in dims[:-1]), last]
    return _normalised(n, pairs.of_real(real), lengths, norm, True)[0]


def _window_of(n: Node, window: Array | None, size: int, length: int | None) -> Array:
    """Return the window in the middle of a frame."""
    held = constant(np.ones(length or size, n.dtype)) if window is None else window
    before = (size - held.size) // 2
    return movement.pad(n.scope, held, (before,), (size - held.size - before,), 0)


def _short_time(
    n: Node,
    a: Array,
    size: int,
    hop: int | None = None,
    length: int | None = None,
    window: Array | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    *others: Any,
) -> Pair | Array:
    """Transform each frame: multiply it by windowed waves."""
    if is_complex(a.dtype) or (window is not None and is_complex(window.dtype)) or any(others):
        raise NotLowered("its signal or window is complex, or it aligns to the window", "")
    s = n.scope
    matrix = spectral.matrix_of_dft(size, size, False, onesided is not False)[0::2].T
    scale = 1 / math.sqrt(size) if normalized else 1.0
    waves = constant((np.concatenate([matrix[0::2], matrix[1::2]]) * scale).astype(a.dtype))
    frame = movement.reshape(s, _window_of(n, window, size, length), (1, size))
    rows = movement.reshape(s, a, (a.size // a.shape[-1], a.shape[-1]))
    made = spectral.multiplied_frames(s, rows, s.mul(waves, frame), hop or size // 4)
    made = movement.transpose(s, made, (0, 2, 1))
    shape = n.shape if return_complex else n.shape[:-1]
    parts = [movement.reshape(s, one, shape) for one in movement.split(s, made, [shape[-2]] * 2, 1)]
    return (parts[0], parts[1]) if return_complex else movement.stack(s, parts, len(shape))


def _short_time_inverse(
    n: Node,
    a: Array,
    size: int,
    hop: int | None = None,
    length: int | None = None,
    window: Array | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    samples: int | None = None,
    return_complex: bool = False,
) -> Array:
    """Add up the frames, by a transposed convolution, and divide by the sum of squared windows."""
    s, frame, step = n.scope, _window_of(n, window, size, length), hop or size // 4
    if return_complex or onesided is False or frame.data is None:
        raise NotLowered("its result is complex, or its window is computed", "")
    used, matrix = spectral.matrix_from_half(size, a.shape[-2])
    waves = np.concatenate([matrix[0::2], matrix[1::2]])[:, None] * whole_data(frame)
    waves = waves * math.sqrt(size) if normalized else waves
    terms, frames = a.shape[-2:]
    parts = [movement.part(s, part, a.rank - 2, 0, used) for part in _pair(a)]
    shape = a.size // (terms * frames), used, frames
    joined = movement.concatenate(s, [movement.reshape(s, part, shape) for part in parts], 1)
    steps = Window((1,), ((0, 0),), (step,), (1,))
    total = conv_transposed(s, joined, constant(waves.astype(n.dtype)), steps)
    count = total.shape[-1]
    weights = np.zeros(count)
    for index in range(frames):
        weights[index * step : index * step + size] += whole_data(frame).astype(np.float64) ** 2
    start = size // 2 if center else 0
    end = count - start if samples is None else start + samples
    kept = min(end, count)
    made = movement.part(s, total, 2, start, kept)
    share = constant((1 / weights[start:kept]).astype(n.dtype).reshape(1, 1, -1))
    made = movement.pad(s, s.mul(made, share), (0, 0, 0), (0, 0, end - kept), 0)
    return movement.reshape(s, made, n.shape)


def _by_scope(function: Callable[..., Any]) -> Rule:
    return lambda n, a: function(n.scope, _pair(a))


#: Operator -> its rule, which returns a pair for a complex result.
RULES: Final[dict[str, Rule]] = {
    "mul": _multiplied,
    "div": _divided,
    "reciprocal": lambda n, a: _divided(n, 1.0, a),
    "pow": _power,
    "mm": _product,
    "bmm": _product,
    "exp": _by_scope(pairs.exponential),
    "log": _by_scope(pairs.logarithm),
    "sqrt": _by_scope(pairs.root),
    "abs": _by_scope(pairs.magnitude),
    "angle": _by_scope(pairs.angle),
    "sgn": _sign,
    "eq": partial(_equal, is_other=False),
    "ne": partial(_equal, is_other=True),
    **dict.fromkeys(
        ("conj", "_conj", "conj_physical", "_conj_physical"), _by_scope(pairs.conjugate)
    ),
    "real": lambda n, a: _pair(a)[0],
    "imag": lambda n, a: _pair(a)[1],
    "complex": lambda n, a, b: tuple(n.arrays(a, b)),
    "polar": lambda n, a, b: pairs.polar(n.scope, *n.arrays(a, b)),
    "view_as_complex": lambda n, a: tuple(movement.unstack(n.scope, a, a.rank - 1)),
    "view_as_real": lambda n, a: movement.stack(n.scope, _pair(a), a.rank),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), _ones),
    "_to_copy": _converted,
    "prims.convert_element_type": _converted,
    "_fft_c2c": _fft,
    "_fft_r2c": _fft_of_real,
    "_fft_c2r": _fft_to_real,
    "stft": _short_time,
    "istft": _short_time_inverse,
}
