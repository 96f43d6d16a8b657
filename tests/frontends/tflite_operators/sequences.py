"""Random sequences of operators: each seed is a program, in floating point or quantised."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from frontends.tflite_operators.programs import Program, Programs, Value
from frontends.tflite_operators.values import Quantized, Result, Shape
from frontends.tflite_schema import SAME, VALID

#: Operators of one program.
LENGTH: Final = 12
SEEDS: Final = 50
_START: Final[Shape] = (1, 6, 8, 3)
_MOST_ELEMENTS: Final = 1500
_Step = Callable[["_Sequence"], None]


class _Sequence:
    """A program, and the value that it has come to."""

    def __init__(self, dtype: str, seed: int) -> None:
        self.choice = random.Random(f"{dtype} {seed}")
        self.program = Program("sequences", f"{dtype}_seed_{seed}")
        self.dtype = dtype
        self.value = self.program.input(dtype, _START, between=self._range())

    def _range(self) -> tuple[float, float] | None:
        return (-2, 2) if self.dtype == "float32" else None

    @property
    def shape(self) -> Shape:
        """Return the sizes of the value."""
        return self.value.shape

    def quantised(self, low: float, high: float) -> Quantized | None:
        """Return the quantisation of numbers in a range."""
        if self.dtype == "float32":
            return None
        if self.dtype == "int16":
            # Not a power of 2, for which TFLite has kernels of its own.
            return Quantized((max(-low, high) * 1.1 / 32767,))
        scale = (high - low) / 255
        return Quantized((scale,), int(np.clip(round(-128 - low / scale), -128, 127)))

    def apply(
        self, operator: str, values: list[Value | None], shape: Shape, kept: bool, **options: object
    ) -> None:
        """Append an operator. kept: its result has the quantisation of its operand."""
        row = self.value.quantized if kept else self.quantised(*self.choice.choice(_RANGES))
        result: Result = (self.dtype, shape, row)
        (self.value,) = self.program.apply(operator, values, result, **options)

    def integers(self, *numbers: int) -> Value:
        """Return a constant of int32."""
        return self.program.constant(np.array(numbers).reshape(-1), "int32")


_RANGES: Final = ((-2.0, 2.0), (-4.0, 4.0), (-1.0, 3.0), (0.0, 6.0))


def _unary(s: _Sequence) -> None:
    names = ["RELU", "RELU6", "LEAKY_RELU", "ABS", "NEG", "FLOOR", "HARD_SWISH", "ELU", "GELU"]
    names += ["TANH", "LOGISTIC", "SIN", "COS", "SQUARE"]
    if s.dtype != "float32":
        names = ["RELU", "RELU6", "LEAKY_RELU", "TANH", "LOGISTIC"]
    operator = s.choice.choice(names)
    of_operator: dict[str, dict[str, Any]] = {
        "LEAKY_RELU": {"alpha": 0.2},
        "GELU": {"approximate": True},
    }
    options = of_operator.get(operator, {})
    fixed = {"TANH": Quantized((1 / 128,)), "LOGISTIC": Quantized((1 / 256,), -128)}
    if s.dtype == "int16":
        fixed = dict.fromkeys(fixed, Quantized((1 / 32768,)))
    if operator in fixed:
        row = None if s.dtype == "float32" else fixed[operator]
        (s.value,) = s.program.apply(operator, [s.value], (s.dtype, s.shape, row))
    else:
        s.apply(operator, [s.value], s.shape, kept=False, **options)


def _binary(s: _Sequence) -> None:
    operator = s.choice.choice(["ADD", "SUB", "MUL"])
    shape = s.choice.choice([s.shape, s.shape[-1:]])
    other = s.program.random(
        s.dtype,
        shape,
        (-2, 2) if s.dtype == "float32" else None,
        quantized=s.quantised(-1.0, 1.0),
    )
    s.apply(operator, [s.value, other], s.shape, kept=False, activation=s.choice.choice([0, 0, 1]))


def _extremes(s: _Sequence) -> None:
    other = s.program.random(s.dtype, s.shape[-1:], s._range(), quantized=s.value.quantized)
    s.apply(s.choice.choice(["MAXIMUM", "MINIMUM"]), [s.value, other], s.shape, kept=True)


def _transpose(s: _Sequence) -> None:
    order = s.choice.sample(range(len(s.shape)), len(s.shape))
    shape = tuple(s.shape[axis] for axis in order)
    s.apply("TRANSPOSE", [s.value, s.integers(*order)], shape, kept=True)


def _reshape(s: _Sequence) -> None:
    first, *rest = s.shape
    shape = (*rest[:-1], first * rest[-1]) if rest else (1, first)
    s.apply("RESHAPE", [s.value, s.integers(*shape)], shape, kept=True, new_shape=shape)


def _pad(s: _Sequence) -> None:
    sizes = [[s.choice.randrange(2), s.choice.randrange(2)] for _ in s.shape]
    shape = tuple(size + sum(row) for size, row in zip(s.shape, sizes, strict=True))
    if np.prod(shape) < _MOST_ELEMENTS:
        borders = s.program.constant(sizes, "int32")
        s.apply("PAD", [s.value, borders], shape, kept=True)


def _slice(s: _Sequence) -> None:
    begin = [s.choice.randrange(size) if size > 2 else 0 for size in s.shape]
    size = tuple(whole - start for whole, start in zip(s.shape, begin, strict=True))
    s.apply("SLICE", [s.value, s.integers(*begin), s.integers(*size)], size, kept=True)


def _concatenation(s: _Sequence) -> None:
    axis = s.choice.randrange(len(s.shape))
    shape = list(s.shape)
    shape[axis] *= 2
    if np.prod(shape) < _MOST_ELEMENTS:
        s.apply("CONCATENATION", [s.value, s.value], tuple(shape), kept=True, axis=axis)


def _reduction(s: _Sequence) -> None:
    axis = s.choice.randrange(len(s.shape))
    shape = tuple(1 if at == axis else size for at, size in enumerate(s.shape))
    operator = s.choice.choice(["MEAN", "REDUCE_MAX", "REDUCE_MIN"])
    values: list[Value | None] = [s.value, s.integers(axis)]
    before = s.value
    s.apply(operator, values, shape, kept=operator != "MEAN", keep_dims=True)
    s.apply("SUB", [before, s.value], before.shape, kept=False)


def _window(s: _Sequence) -> None:
    if len(s.shape) != 4 or min(s.shape[1:3]) < 3:
        return
    batch, height, width, channels = s.shape
    kind = s.choice.choice(["CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D"])
    padding = s.choice.choice([SAME, VALID])
    options = {"padding": padding, "stride_h": 1, "stride_w": 1}
    size = (height, width) if padding == SAME else (height - 1, width - 1)
    if kind == "CONV_2D":
        weights = s.program.random(
            "float32" if s.dtype == "float32" else "int8",
            (4, 2, 2, channels),
            (-0.5, 0.5) if s.dtype == "float32" else (-127, 127),
            quantized=None if s.dtype == "float32" else Quantized((0.004,) * 4),
        )
        options |= {"dilation_h": 1, "dilation_w": 1}
        bias_type = {"float32": "float32", "int8": "int32", "int16": "int64"}[s.dtype]
        before = s.value.quantized
        scales = None if before is None else Quantized((before.scales[0] * 0.004,) * 4)
        bias = s.program.constant([0] * 4, bias_type, quantized=scales)
        s.apply(kind, [s.value, weights, bias], (batch, *size, 4), kept=False, **options)
    else:
        options |= {"filter_height": 2, "filter_width": 2}
        s.apply(kind, [s.value], (batch, *size, channels), kept=True, **options)


def _softmax(s: _Sequence) -> None:
    fixed = {"int8": Quantized((1 / 256,), -128), "int16": Quantized((1 / 32768,))}
    row = (s.dtype, s.shape, fixed.get(s.dtype))
    (s.value,) = s.program.apply("SOFTMAX", [s.value], row, beta=1.0)


_STEPS: Final[tuple[_Step, ...]] = (
    *(_unary, _unary, _binary, _binary, _extremes, _transpose, _reshape, _pad, _slice),
    *(_concatenation, _reduction, _window, _softmax),
)


def sequence(dtype: str, seed: int) -> Program:
    """Return the program of a seed."""
    made = _Sequence(dtype, seed)
    while len(made.program.rows) < LENGTH:
        made.choice.choice(_STEPS)(made)
    return made.program.returns([made.value])


def sequences() -> Programs:
    """Iterate over the programs of all seeds."""
    for dtype in ("float32", "int8", "int16"):
        for seed in range(SEEDS if dtype != "int16" else SEEDS // 2):
            yield sequence(dtype, seed)
