"""Inverse and hyperbolic functions, infinities, running products."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from tosa_convert.frontends.onnx.decompositions import integers
from tosa_convert.frontends.onnx.decompositions.node import (
    Decomposition,
    NotDecomposedError,
    RefusedError,
)
from tosa_convert.frontends.recipes import cumulate

#: The opset from which BF16 can be compared.
_COMPARES_BF16 = 16
#: The magnitude below which hyperbolic functions are polynomials: x to the fifth is less than FP32 sees.
_SMALL = 0.03


def asin(e: Decomposition) -> None:
    """Twice the arc tangent of x / (1 + sqrt(1 - x²)), which has no pole at 1."""
    e.result(_asin(e))


def acos(e: Decomposition) -> None:
    """Compute the complement of the arc sine."""
    e.result(e.op("Sub", e.like(math.pi / 2), _asin(e)))


def _asin(e: Decomposition) -> str:
    (x, *_), one = e.inputs, e.like(1)
    root = e.op("Sqrt", e.op("Sub", one, e.op("Mul", x, x)))
    half = e.op("Atan", e.op("Div", x, e.op("Add", one, root)))
    return e.op("Add", half, half)


def acosh(e: Decomposition) -> None:
    """log(x) + log(1 + sqrt(1 - 1/x²)), which does not overflow; NaN below 1."""
    (x, *_), one = e.inputs, e.like(1)
    below = e.op("Less", x, one)
    inverse = e.op("Reciprocal", x)
    root = e.op("Sqrt", e.op("Sub", one, e.op("Mul", inverse, inverse)))
    found = e.op("Add", e.op("Log", x), e.op("Log", e.op("Add", one, root)))
    e.result(e.op("Where", below, e.like(np.nan), found))


def asinh(e: Decomposition) -> None:
    """Logarithms of the magnitude, so that large numbers do not overflow; a polynomial of small ones."""
    (x, *_), one = e.inputs, e.like(1)
    size = e.op("Max", e.op("Abs", x), e.like(_SMALL))
    inverse = e.op("Reciprocal", size)
    root = e.op("Sqrt", e.op("Add", one, e.op("Mul", inverse, inverse)))
    large = e.op("Add", e.op("Log", size), e.op("Log", e.op("Add", one, root)))
    _odd(e, x, e.op("Mul", e.op("Sign", x), large), -1 / 6)


def _odd(e: Decomposition, x: str, large: str, cubic: float) -> None:
    """Make the result x + cubic * x³ near zero, where differences cancel, and `large` elsewhere."""
    small = e.op("Less", e.op("Abs", x), e.like(_SMALL))
    term = e.op("Mul", e.op("Mul", e.op("Mul", x, x), x), e.like(cubic))
    e.result(e.op("Where", small, e.op("Add", x, term), large))


def atanh(e: Decomposition) -> None:
    """Half the logarithm of (1 + x) / (1 - x)."""
    (x, *_), one = e.inputs, e.like(1)
    quotient = e.op("Div", e.op("Add", one, x), e.op("Sub", one, x))
    e.result(e.op("Mul", e.op("Log", quotient), e.like(0.5)))


def hyperbolic(e: Decomposition) -> None:
    """Sinh and Cosh by exponentials."""
    x, is_sinh = e.inputs[0], e.node.op_type == "Sinh"
    exponentials = e.op("Exp", x), e.op("Exp", e.op("Neg", x))
    halves = [e.op("Mul", value, e.like(0.5)) for value in exponentials]
    both = e.op("Sub" if is_sinh else "Add", *halves)
    _odd(e, x, both, 1 / 6) if is_sinh else e.result(both)


def softplus(e: Decomposition) -> None:
    """Compute log(1 + exp(x)) without an exponential that overflows."""
    x, one = e.inputs[0], e.like(1)
    rest = e.op("Log", e.op("Add", e.op("Exp", e.op("Neg", e.op("Abs", x))), one))
    e.result(e.op("Add", e.op("Max", x, e.like(0)), rest))


def sign(e: Decomposition) -> None:
    """Keep NaN; it has no order, and torch-mlir gives 0."""
    x = e.inputs[0]
    if e.type(0) in integers.UNSIGNED:
        number = integers.widened(e, x, e.type(0))
        one = e.op("Min", number, e.constant(1, np.int32))
        return e.result(integers.as_bits(e, one, e.type(0)))
    kind = e.numpy_type()
    e.leave_if(kind.kind in "iub" or e.node.doc_string == integers.BITS, "it has no NaN")
    if kind.kind == "V" and e.opset < _COMPARES_BF16:
        raise RefusedError("BF16 cannot be compared with NaN before opset 16 of ONNX")
    made = e.op("Sign", x)
    e.nodes[-1].doc_string = integers.BITS
    return e.result(e.op("Where", e.op("LessOrEqual", e.op("Abs", x), e.like(np.inf)), made, x))


def celu(e: Decomposition) -> None:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)), which torch-mlir has for positive alpha."""
    x, zero, alpha = e.inputs[0], e.like(0), e.attribute("alpha", 1.0)
    e.leave_if(alpha > 0, "torch-mlir lowers it")
    power = e.op("Exp", e.op("Div", x, e.like(alpha)))
    other = e.op("Mul", e.op("Sub", power, e.like(1)), e.like(alpha))
    e.result(e.op("Add", e.op("Max", x, zero), e.op("Min", other, zero)))


def leaky(e: Decomposition) -> None:
    """LeakyRelu without a slope: of minus infinity, the product with 0 is NaN."""
    e.leave_if(e.attribute("alpha", 0.01) != 0, "torch-mlir lowers it")
    x = e.inputs[0]
    least = e.op("Equal", x, e.like(-np.inf))
    e.result(e.op("Where", least, e.like(np.nan), e.op("Relu", x)))


def hard_sigmoid(e: Decomposition) -> None:
    """max(0, min(1, alpha * x + beta)), also of infinities."""
    line = e.op("Mul", e.inputs[0], e.like(e.attribute("alpha", 0.2)))
    line = e.op("Add", line, e.like(e.attribute("beta", 0.5)))
    e.result(e.op("Max", e.op("Min", line, e.like(1)), e.like(0)))


def clip(e: Decomposition) -> None:
    """Bound real numbers by two operators; a bound that is left out is the greatest number."""
    most = integers.FLOATS.get(e.type(0))
    if most is None or not (e.has(1) or e.has(2)):
        raise NotDecomposedError("it has no bounds as inputs")
    low = e.inputs[1] if e.has(1) else e.like(-most)
    high = e.inputs[2] if e.has(2) else e.like(most)
    e.result(e.op("Min", e.op("Max", e.inputs[0], low), high))


def hardmax(e: Decomposition) -> None:
    """Fold the axes from the given one on into one, as ONNX did before opset 13."""
    shape = e.shape(0)
    e.leave_if(e.opset >= 13 or len(shape) == 2, "it is one axis")
    axis = int(e.attribute("axis", 1)) % max(len(shape), 1)
    rows = math.prod(shape[:axis])
    made = e.op("Hardmax", e.reshape(e.inputs[0], [rows, math.prod(shape[axis:])]), axis=1)
    e.result(e.reshape(made, shape))


def is_inf(e: Decomposition) -> None:
    """Comparisons with the infinities that are asked for; torch-mlir ignores the flags."""
    x = e.inputs[0]
    positive, negative = e.attribute("detect_positive", 1), e.attribute("detect_negative", 1)
    above, below = e.op("Equal", x, e.like(np.inf)), e.op("Equal", x, e.like(-np.inf))
    if positive and negative:
        e.result(e.op("Or", above, below))
    elif positive or negative:
        e.result(above if positive else below)
    else:
        e.result(e.op("And", above, below))


def cumulative_product(e: Decomposition) -> None:
    """Multiply neighbours at distances of 1, 2, 4, ...."""
    shape = e.shape(0)
    axis = e.number(1) % len(shape)
    size, x = shape[axis], e.inputs[0]
    backwards = bool(e.attribute("reverse", 0))
    if e.attribute("exclusive", 0):
        x = _shifted(e, x, shape, axis, 1, backwards)

    def moved(values: str, count: int) -> str:
        return _shifted(e, values, shape, axis, count, backwards)

    e.result(cumulate(x, size, partial(e.op, "Mul"), moved))


def _shifted(
    e: Decomposition, x: str, shape: tuple[int, ...], axis: int, step: int, backwards: bool
) -> str:
    """Move the value along an axis, with ones where nothing came from."""
    size = shape[axis]
    ones = e.constant(np.ones([*shape[:axis], step, *shape[axis + 1 :]], e.numpy_type()))
    if backwards:
        return e.op("Concat", e.slice(x, axis, step, size), ones, axis=axis)
    return e.op("Concat", ones, e.slice(x, axis, 0, size - step), axis=axis)


def trilu(e: Decomposition) -> None:
    """Select the elements on one side of a diagonal by a constant mask; the others become zeros."""
    shape = e.shape(0)
    offset = e.number(1, 0)
    mask = np.ones(shape[-2:], bool)
    mask = np.triu(mask, offset) if e.attribute("upper", 1) else np.tril(mask, offset)
    e.leave_if(0 in shape, "it is empty")
    e.result(e.op("Where", e.constant(np.broadcast_to(mask, shape)), e.inputs[0], e.like(0)))


def slice_backwards(e: Decomposition) -> None:
    """Gather the elements of a slice with a negative step."""
    shape = e.shape(0)
    starts, ends = e.value(1), e.value(2)
    axes = e.value(3) if e.has(3) else np.arange(len(starts))
    steps = e.value(4) if e.has(4) else np.ones(len(starts), np.int64)
    e.leave_if(all(step > 0 for step in steps), "every step is positive")
    x = e.inputs[0]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = shape[axis]
        indices = np.arange(size)[_bounds(int(start), int(end), int(step), size)]
        x = e.op("Gather", x, e.ints(*indices.tolist()), axis=int(axis))
    e.result(x)


def _bounds(start: int, end: int, step: int, size: int) -> slice:
    """ONNX counts negative positions from the end and then clamps; -size - 1 lies before the first."""
    if step > 0:
        return slice(start, end, step)
    begin = min(start + size if start < 0 else start, size - 1)
    stop = end + size if end < 0 else end
    return slice(begin, None, step) if stop < 0 else slice(begin, stop, step)


def random(e: Decomposition) -> None:
    """TOSA has no random numbers, and torch-mlir would lower these to constants."""
    raise RefusedError("it draws random numbers")


def dropout(e: Decomposition) -> None:
    """Refuse dropout in training, which draws random numbers, unless it keeps every element."""
    e.leave_if(not e.has(2) or not bool(e.value(2)), "it is not in training mode")
    e.leave_if((float(e.value(1)) if e.has(1) else 0.5) == 0, "it keeps every element")
    random(e)


def binarizer(e: Decomposition) -> None:
    """Return 1 for what exceeds the threshold, else 0."""
    above = e.op("Greater", e.inputs[0], e.like(e.attribute("threshold", 0.0)))
    e.result(e.cast(above, e.type(0)))


def determinant(e: Decomposition) -> None:
    """Expand determinants of up to three rows by their first row."""
    *batch, size = e.shape(0)[:-1]
    e.leave_if(not 0 < size <= 3, "its matrices have more than three rows")
    flat = e.reshape(e.inputs[0], [-1, size * size])
    elements = [
        [e.slice(flat, 1, row * size + column, row * size + column + 1) for column in range(size)]
        for row in range(size)
    ]

    def expanded(rows: list[list[str]]) -> str:
        total = ""
        for index, first in enumerate(rows[0]):
            minor = [[*row[:index], *row[index + 1 :]] for row in rows[1:]]
            term = e.op("Mul", first, expanded(minor)) if minor else first
            total = e.op("Sub" if index % 2 else "Add", total, term) if total else term
        return total

    e.result(e.reshape(expanded(elements), batch))


def einsum_of_a_number(e: Decomposition) -> None:
    """Keep an operand without axes, on which torch-mlir crashes."""
    e.leave_if(len(e.inputs) != 1 or e.shape(0) != (), "it has axes")
    e.result(e.inputs[0])
