"""Products of matrices, convolutions and Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import matrices, movement, spectral
from tosa_convert.frontends.lowering.arithmetic import mul
from tosa_convert.frontends.lowering.products import (
    Window,
    Zeros,
    conv_general_dilated,
    conv_transposed,
    dot_general,
    product,
)
from tosa_convert.frontends.lowering.reductions import summed
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant, whole_data
from tosa_convert.frontends.lowering.types import is_float
from tosa_convert.frontends.onnx.node import Node, Rule, place, plain
from tosa_convert.frontends.onnx.rules.elementwise import added, ranked
from tosa_convert.frontends.onnx.rules.windows import spatial_attributes, spatial_padding


def matmul(s: Scope, a: Array, b: Array, dtype: Any = None, zeros: Zeros = (0, 0)) -> Array:
    """Multiply as numpy does, with broadcasting. dtype: of the result. zeros: zero points of bytes."""
    kind = a.dtype if dtype is None else dtype
    is_row, is_column = a.rank == 1, b.rank == 1
    a = movement.reshape(s, a, (1, *a.shape)) if is_row else a
    b = movement.reshape(s, b, (*b.shape, 1)) if is_column else b
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*batch, a.shape[-2], b.shape[-1])
    if math.prod(b.shape[:-2]) == 1:
        # The batch of the first operand adds rows.
        left = movement.reshape(s, a, (1, a.size // a.shape[-1], a.shape[-1]))
        right = movement.reshape(s, b, (1, *b.shape[-2:]))
    else:
        count = math.prod(batch)
        left, right = (
            movement.reshape(
                s,
                movement.broadcast_to(s, item, (*batch, *item.shape[-2:])),
                (count, *item.shape[-2:]),
            )
            for item in (a, b)
        )
    made = product(s, left, right, kind, zeros)
    shape = (*shape[:-2], *shape[-2:][is_row : 2 - is_column])
    return movement.reshape(s, made, shape)


def _matmul(n: Node) -> Array:
    a, b = n.arrays
    if a.data is not None and b.data is not None:
        return constant(np.matmul(whole_data(a), whole_data(b)))
    return matmul(n.scope, a, b)


def _gemm(n: Node) -> Array:
    s, (a, b) = n.scope, n.arrays[:2]
    a = movement.transpose(s, a, (1, 0)) if n.get("transA", 0) else a
    b = movement.transpose(s, b, (1, 0)) if n.get("transB", 0) else b
    made = _scaled(s, matmul(s, a, b), n.get("alpha", 1.0))
    c, beta = n.optional(2), n.get("beta", 1.0)
    if c is None or not beta:
        return made
    return added(s, *ranked(s, made, _scaled(s, c, beta)))


def _scaled(s: Scope, a: Array, by: float) -> Array:
    if by == 1:
        return a
    if not is_float(a.dtype) and not float(by).is_integer():
        raise NotLowered("integers are multiplied by a real number")
    return mul(s, a, constant(np.full((1,) * a.rank, by).astype(a.dtype)))


# -- convolutions --------------------------------------------------------------------------------


def convolved(
    n: Node, a: Array, weight: Array, bias: Array | None, dtype: Any, zeros: Zeros = (0, 0)
) -> Array:
    """Convolve by the attributes of a node. zeros: the zero points of bytes."""
    kernel = weight.shape[2:]
    _, strides, dilations, padding = spatial_padding(n, a.shape[2:], kernel)
    window = Window(tuple(strides), tuple(padding), (1,) * len(kernel), tuple(dilations), zeros)
    spec = tuple(range(a.rank))
    groups = int(n.get("group", 1))
    return conv_general_dilated(
        n.scope, a, weight, window, (spec, spec, spec), dtype, groups, 1, bias
    )


def _conv(n: Node) -> Array:
    a, weight = n.arrays[:2]
    return convolved(n, a, weight, n.optional(2), a.dtype)


def _conv_transpose(n: Node) -> Array:
    a, weight = n.arrays[:2]
    sizes = a.shape[2:]
    spans, strides, gaps, padding = spatial_attributes(n, weight.shape[2:])
    extra = list(n.get("output_padding") or [0] * len(sizes))
    automatic, wanted = n.get("auto_pad", "NOTSET"), n.get("output_shape")
    if wanted is None and automatic.startswith("SAME"):
        wanted = [size * step for size, step in zip(sizes, strides, strict=True)]
    for k, target in enumerate(wanted[-len(sizes) :] if wanted else ()):
        total = strides[k] * (sizes[k] - 1) + extra[k] + spans[k] - target
        if total < 0:
            extra[k], total = extra[k] - total, 0
        low = total // 2 if automatic == "SAME_UPPER" else total - total // 2
        padding[k] = low, total - low
    pairs = tuple((low, high - more) for (low, high), more in zip(padding, extra, strict=True))
    window = Window((1,) * len(strides), pairs, tuple(strides), tuple(gaps))
    return conv_transposed(n.scope, a, weight, window, int(n.get("group", 1)), n.optional(2))


# -- sums of products ----------------------------------------------------------------------------


def _einsum(n: Node) -> Array:
    equation = n.get("equation").replace(" ", "")
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    arrays = n.arrays
    letters = [_expanded(term, a.rank) for term, a in zip(terms, arrays, strict=True)]
    if arrow:
        spread = max(letters, key=lambda item: sum(c > "z" for c in item))
        wanted = result.replace("...", "".join(c for c in spread if c > "z"))
    else:
        every = sorted("".join(letters))
        wanted = "".join(c for c in dict.fromkeys(every) if every.count(c) == 1 or c > "z")
        wanted = "".join(sorted(wanted, key=lambda c: (c <= "z", c)))
    return contracted(n.scope, letters, arrays, wanted)


def _expanded(term: str, rank: int) -> str:
    """Write the dimensions of an ellipsis as characters after z, from the last one on."""
    count = rank - len(term.replace("...", ""))
    dots = "".join(chr(ord("~") + 1 + k) for k in reversed(range(count)))
    return term.replace("...", dots)


def contracted(s: Scope, letters: Sequence[str], arrays: Sequence[Array], wanted: str) -> Array:
    """Multiply arrays whose dimensions have letters, and sum those that are not wanted."""
    held = [_of_diagonals(s, text, a) for text, a in zip(letters, arrays, strict=True)]
    made_letters, made = held[0]
    for index, (text, a) in enumerate(held[1:], 1):
        later = "".join(t for t, _ in held[index + 1 :]) + wanted
        made_letters, made = _pair(s, (made_letters, made), (text, a), later)
    gone = [k for k, c in enumerate(made_letters) if c not in wanted]
    if gone:
        made = summed(s, made, gone)
        made_letters = "".join(c for c in made_letters if c in wanted)
    return movement.transpose(s, made, [made_letters.index(c) for c in wanted])


def _of_diagonals(s: Scope, text: str, a: Array) -> tuple[str, Array]:
    """Return an array whose letters all differ: of equal ones the diagonal."""
    for c in dict.fromkeys(text):
        while text.count(c) > 1:
            first, second = [k for k, other in enumerate(text) if other == c][:2]
            size = a.shape[first]
            shape = [size if k in (first, second) else 1 for k in range(a.rank)]
            eye = constant(np.eye(size, dtype=a.dtype).reshape(shape))
            a = summed(s, s.mul(a, eye), [second])
            text = text[:second] + text[second + 1 :]
    return text, a


def _pair(
    s: Scope, one: tuple[str, Array], two: tuple[str, Array], later: str
) -> tuple[str, Array]:
    """Multiply two arrays, and sum what no later array or result has."""
    (left, a), (right, b) = one, two
    for text, array, other in ((left, a, right), (right, b, left)):
        alone = [k for k, c in enumerate(text) if c not in other and c not in later]
        if alone:
            array = summed(s, array, alone)
            kept = "".join(c for k, c in enumerate(text) if k not in alone)
            if text is left and array is not b:
                left, a = kept, array
            else:
                right, b = kept, array
    # A dimension of size 1 broadcasts: it is left out.
    for c in sorted(set(left) & set(right)):
        sizes = a.shape[left.index(c)], b.shape[right.index(c)]
        if sizes[0] == sizes[1]:
            continue
        if sizes[0] == 1:
            a = movement.reshape(s, a, [n for k, n in enumerate(a.shape) if left[k] != c])
            left = left.replace(c, "")
        else:
            b = movement.reshape(s, b, [n for k, n in enumerate(b.shape) if right[k] != c])
            right = right.replace(c, "")
    shared = [c for c in left if c in right]
    summed_letters = [c for c in shared if c not in later]
    batch = [c for c in shared if c in later]
    numbers = (
        ([left.index(c) for c in summed_letters], [right.index(c) for c in summed_letters]),
        ([left.index(c) for c in batch], [right.index(c) for c in batch]),
    )
    made = dot_general(s, a, b, numbers, a.dtype)
    text = "".join(
        [*batch, *(c for c in left if c not in shared), *(c for c in right if c not in shared)]
    )
    return text, made


#: The opset in which the axis became an operand.
_OPERAND_SINCE: Final = 20


def _dft(n: Node) -> Array:
    a = n.array(0)
    axis = n.number(2, -2) if n.since >= _OPERAND_SINCE else int(n.get("axis", 1))
    inverse, onesided = bool(n.get("inverse", 0)), bool(n.get("onesided", 0))
    length = n.number(1, 0) or None
    return spectral.dft(n.scope, a, place(axis, a.rank), length, inverse, onesided)


def _stft(n: Node) -> Array:
    signal, window = n.array(0), n.optional(2)
    if signal.rank == 3 and signal.shape[2] != 1:
        raise NotLowered("the signal is complex", "transform its frames by DFT")
    if window is None and not n.has(3):
        raise NotLowered("it has neither a window nor a length of frames")
    length = n.number(3) if n.has(3) else (window.size if window else 0)
    flat = movement.reshape(n.scope, signal, signal.shape[:2])
    is_onesided = bool(n.get("onesided", 1))
    return spectral.stft(n.scope, flat, window, n.number(1), length, is_onesided)


RULES: Final[dict[str, Rule]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Det": plain(matrices.determinant),
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "DFT": _dft,
    "STFT": _stft,
}
OWN: Final = frozenset(("MatMul",))
