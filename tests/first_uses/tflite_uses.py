"""Small models of TFLite as tutorials and forums have them.

A line of tflite_uses.txt is a model: its name, its inputs, and words that take values from a stack,
where the inputs are, and leave their results there. What is left at the end is returned. `f`, `q`, `u`
and `h` are FP32 and quantised int8, uint8 and int16; `i` is int32 below 5, and `b` bool.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from frontends.tflite_operators.programs import Program, Value
from frontends.tflite_operators.values import ACTIVATION, PLAIN, Quantized, Result, Shape
from frontends.tflite_schema import ACTIVATIONS, ELEMENT_TYPES

TEXT: Final = Path(__file__).with_name("tflite_uses.txt")
_TYPES: Final = {"q": "int8", "u": "uint8", "h": "int16", "i": "int32", "b": "bool", "f": "float32"}
_INPUT: Final = re.compile(r"(\w)\[([\d,]*)\]")
_WORD: Final = re.compile(r"(\w+)(?:\(([^)]*)\))?")
#: The scales that TFLite wants of some results.
_UNITS: Final = {
    "int8": Quantized((1 / 256,), -128),
    "uint8": Quantized((1 / 256,)),
    "int16": Quantized((1 / 32768,)),
}
_SIGNED: Final = {
    "int8": Quantized((1 / 128,)),
    "uint8": Quantized((1 / 128,), 128),
    "int16": Quantized((1 / 32768,)),
}
#: Words that are the names of operators: of one operand, of two, those that compare, and that reduce.
_NAMES: Final = """
relu relu6 hard_swish exp log sqrt rsqrt square abs neg floor sin cos sign logical_not logistic tanh \
gelu dequantize l2_normalization log_softmax
add sub mul div maximum minimum pow floor_div floor_mod squared_difference logical_and logical_or
less greater equal not_equal greater_equal less_equal
mean sum reduce_max reduce_min reduce_prod reduce_any reduce_all
"""
_UNARY, _BINARY, _COMPARED, _REDUCED = (row.split() for row in _NAMES.strip().split("\n"))


def programs() -> Iterator[Program]:
    """Iterate over the models of the text."""
    for line in TEXT.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, given, words = re.fullmatch(r"(\w+): (.*) \| (.*)", line).groups()  # type: ignore[union-attr]
            yield _Model(name, given).run(words)


class _Model:
    def __init__(self, name: str, given: str) -> None:
        self.program = Program("first uses", name)
        self.stack: list[Value] = []
        for kind, sizes in _INPUT.findall(given):
            shape = tuple(map(int, sizes.split(","))) if sizes else ()
            between = (0, 4) if kind == "i" else None
            value = self.program.input(_TYPES[kind], shape, between=between)
            self.stack.append(value)

    def run(self, words: str) -> Program:
        """Apply the words, and return what is left."""
        for word, text in _WORD.findall(words):
            arguments = [_argument(one) for one in text.split(",")] if text else []
            self.apply(word, arguments)
        return self.program.returns(self.stack)

    def apply(self, word: str, arguments: Sequence[Any]) -> None:
        """Apply one word."""
        if word in _UNARY:
            self.unary(word)
        elif word in _BINARY or word in _COMPARED:
            self.binary(word, *arguments)
        elif word in _REDUCED:
            self.reduced(word.upper(), *arguments)
        else:
            function: Callable[..., None] = getattr(self, word)
            function(*arguments)

    def pop(self) -> Value:
        return self.stack.pop()

    def constant(self, values: Any) -> Value:
        return self.program.constant(values, "int32")

    def push(
        self,
        operator: str,
        values: Sequence[Value | None],
        shape: Sequence[int],
        dtype: str = "",
        quantized: Quantized | None = None,
        count: int = 1,
        **options: Any,
    ) -> None:
        """Apply an operator whose results have the type and the scale of its first operand."""
        first = values[0]
        assert first is not None
        same = first.quantized if dtype in ("", first.dtype) else ACTIVATION.get(dtype)
        row = (dtype or first.dtype, tuple(shape), quantized or same)
        self.stack += self.program.apply(operator, values, *[row] * count, **options)

    # -- the stack -------------------------------------------------------------------------------

    def dup(self) -> None:
        self.stack.append(self.stack[-1])

    def swap(self) -> None:
        self.stack[-2:] = self.stack[:-3:-1]

    def over(self) -> None:
        self.stack.append(self.stack[-2])

    def rot(self) -> None:
        self.stack.append(self.stack.pop(-3))

    def drop(self) -> None:
        self.stack.pop()

    def number(self, value: float, like: int = -1) -> None:
        """Leave a constant of the type and the scale of another value."""
        other = self.stack[like]
        quantized = other.quantized if other.quantized and other.quantized.scales else None
        data = np.array(value)
        if quantized is not None:
            info = np.iinfo(other.dtype)
            data = np.clip(
                np.round(data / quantized.scales[0]) + quantized.zero, info.min, info.max
            )
        self.stack.append(self.program.constant(data, other.dtype, quantized=quantized or PLAIN))

    # -- elementwise -----------------------------------------------------------------------------

    def unary(self, word: str) -> None:
        x = self.pop()
        scales = {"logistic": _UNITS, "tanh": _SIGNED, "l2_normalization": _SIGNED}.get(word, {})
        quantized = scales.get(x.dtype)
        if word == "log_softmax" and x.dtype == "int8":
            quantized = Quantized((1 / 16,), 127)
        dtype = "float32" if word == "dequantize" else ""
        self.push(word.upper(), [x], x.shape, dtype, quantized)

    def binary(self, word: str, activation: str = "none") -> None:
        y, x = self.pop(), self.pop()
        shape = np.broadcast_shapes(x.shape, y.shape)
        if word in _COMPARED:
            self.push(word.upper(), [x, y], shape, "bool")
        elif word in ("add", "sub", "mul", "div"):
            code = ACTIVATIONS[activation]
            self.push(word.upper(), [x, y], shape, activation=code)
        else:
            self.push(word.upper(), [x, y], shape)

    def leaky(self, alpha: float) -> None:
        x = self.pop()
        self.push("LEAKY_RELU", [x], x.shape, alpha=alpha)

    def prelu(self) -> None:
        x = self.pop()
        self.push("PRELU", [x, self.weights(x, (1, 1, x.shape[-1]))], x.shape)

    def select(self) -> None:
        no, yes, condition = self.pop(), self.pop(), self.pop()
        shape = np.broadcast_shapes(condition.shape, yes.shape, no.shape)
        row = (yes.dtype, shape, yes.quantized)
        self.stack += self.program.apply("SELECT_V2", [condition, yes, no], row)

    def cast(self, kind: str) -> None:
        x, dtype = self.pop(), _TYPES[kind]
        codes = {"in_data_type": ELEMENT_TYPES[x.dtype], "out_data_type": ELEMENT_TYPES[dtype]}
        self.push("CAST", [x], x.shape, dtype, PLAIN, **codes)

    def quantize(self, kind: str, scale: float = 0.0, zero: int = 0) -> None:
        x, dtype = self.pop(), _TYPES[kind]
        self.push(
            "QUANTIZE",
            [x],
            x.shape,
            dtype,
            Quantized((scale,), zero) if scale else ACTIVATION[dtype],
        )

    def softmax(self, beta: float = 1.0) -> None:
        x = self.pop()
        self.push("SOFTMAX", [x], x.shape, "", _UNITS.get(x.dtype), beta=beta)

    # -- layers ----------------------------------------------------------------------------------

    def weights(self, x: Value, shape: Shape, axis: int = -1) -> Value:
        """Return weights after which numbers are as large as before; axis: that of the scales."""
        fan = max(1, int(np.prod(shape[1:])))
        if x.dtype == "float32":
            return self.program.random("float32", shape, (-1.7 / fan**0.5, 1.7 / fan**0.5))
        scale = 1 / (73 * fan**0.5)
        if x.dtype == "uint8":
            return self.program.random("uint8", shape, (1, 255), quantized=Quantized((scale,), 128))
        scales = (scale,)
        if axis >= 0:
            scales = tuple(scale * (1 + at / 40) for at in range(shape[axis]))
        quantized = Quantized(scales, 0, max(axis, 0))
        return self.program.random("int8", shape, (-127, 127), quantized=quantized)

    def bias(self, x: Value, weights: Value, size: int) -> Value:
        """Return a bias of numbers from -1/2 to 1/2, at the scale of products."""
        if not x.quantized or not weights.quantized:
            return self.program.random("float32", (size,), (-1, 1))
        scales = tuple(x.quantized.scales[0] * scale for scale in weights.quantized.scales)
        limit = 0.5 / scales[0]
        dtype = "int64" if x.dtype == "int16" else "int32"
        quantized = Quantized(scales)
        return self.program.random(dtype, (size,), (-limit, limit), quantized=quantized)

    def conv(
        self, outputs: int, kernel: int, stride: int = 1, activation: str = "none", padding: int = 0
    ) -> None:
        x = self.pop()
        axis = -1 if x.dtype == "uint8" else 0
        weights = self.weights(x, (outputs, kernel, kernel, x.shape[3]), axis)
        values = [x, weights, self.bias(x, weights, outputs)]
        shape = (x.shape[0], *_sizes(x.shape[1:3], kernel, stride, padding), outputs)
        steps: dict[str, Any] = {"stride_w": stride, "stride_h": stride, "padding": padding}
        code = ACTIVATIONS[activation]
        gaps: dict[str, Any] = {"dilation_w": 1, "dilation_h": 1}
        self.push("CONV_2D", values, shape, activation=code, **steps, **gaps)

    def conv1d(self, outputs: int, kernel: int, stride: int = 1, activation: str = "none") -> None:
        x = self.pop()
        weights = self.weights(x, (outputs, 1, kernel, x.shape[3]))
        values = [x, weights, self.bias(x, weights, outputs)]
        shape = (x.shape[0], 1, -(-x.shape[2] // stride), outputs)
        steps: dict[str, Any] = {
            "stride_w": stride,
            "stride_h": 1,
            "padding": 0,
            "dilation_w": 1,
            "dilation_h": 1,
        }
        self.push("CONV_2D", values, shape, activation=ACTIVATIONS[activation], **steps)

    def depthwise(
        self,
        kernel: int,
        stride: int = 1,
        activation: str = "none",
        padding: int = 0,
        many: int = 1,
    ) -> None:
        x = self.pop()
        outputs = x.shape[3] * many
        weights = self.weights(x, (1, kernel, kernel, outputs), -1 if x.dtype == "uint8" else 3)
        values = [x, weights, self.bias(x, weights, outputs)]
        shape = (x.shape[0], *_sizes(x.shape[1:3], kernel, stride, padding), outputs)
        steps: dict[str, Any] = {"stride_w": stride, "stride_h": stride, "padding": padding}
        code = ACTIVATIONS[activation]
        gaps: dict[str, Any] = {"dilation_w": 1, "dilation_h": 1}
        more: dict[str, Any] = {"activation": code, "depth_multiplier": many}
        self.push("DEPTHWISE_CONV_2D", values, shape, **more, **steps, **gaps)

    def transpose_conv(self, outputs: int, kernel: int, stride: int) -> None:
        x = self.pop()
        shape = (x.shape[0], x.shape[1] * stride, x.shape[2] * stride, outputs)
        weights = self.weights(x, (outputs, kernel, kernel, x.shape[3]))
        row = (x.dtype, shape, x.quantized)
        steps: dict[str, Any] = {"stride_w": stride, "stride_h": stride, "padding": 0}
        values = [self.constant(shape), weights, x]
        self.stack += self.program.apply("TRANSPOSE_CONV", values, row, **steps)

    def dense(self, outputs: int, activation: str = "none", keep: int = 0) -> None:
        x = self.pop()
        weights = self.weights(x, (outputs, x.shape[-1]))
        values = [x, weights, self.bias(x, weights, outputs)]
        shape = (*x.shape[:-1], outputs) if keep else (x_rows(x), outputs)
        more: dict[str, Any] = {"activation": ACTIVATIONS[activation], "keep_num_dims": bool(keep)}
        self.push("FULLY_CONNECTED", values, shape, **more)

    def matmul(self, adjoint: int = 0) -> None:
        y, x = self.pop(), self.pop()
        shape = (*x.shape[:-1], y.shape[-2] if adjoint else y.shape[-1])
        self.push("BATCH_MATMUL", [x, y], shape, adj_y=bool(adjoint))

    def avg_pool(self, kernel: int, stride: int = 1, padding: int = 0) -> None:
        self.pool("AVERAGE_POOL_2D", kernel, stride, padding)

    def max_pool(self, kernel: int, stride: int = 1, padding: int = 0) -> None:
        self.pool("MAX_POOL_2D", kernel, stride, padding)

    def pool(self, operator: str, kernel: int, stride: int, padding: int) -> None:
        x = self.pop()
        shape = (x.shape[0], *_sizes(x.shape[1:3], kernel, stride, padding), x.shape[3])
        sizes: dict[str, Any] = {
            "filter_height": kernel,
            "filter_width": kernel,
            "padding": padding,
        }
        self.push(operator, [x], shape, stride_w=stride, stride_h=stride, **sizes)

    def resize(self, mode: str, height: int, width: int, half: int = 0) -> None:
        x = self.pop()
        operator = {"nearest": "RESIZE_NEAREST_NEIGHBOR", "bilinear": "RESIZE_BILINEAR"}[mode]
        shape = (x.shape[0], height, width, x.shape[3])
        values = [x, self.constant([height, width])]
        self.push(operator, values, shape, half_pixel_centers=bool(half))

    def embedding(self, rows: int, size: int) -> None:
        x = self.pop()
        table = self.program.random("float32", (rows, size), (-1, 1))
        row = ("float32", (*x.shape, size))
        self.stack += self.program.apply("GATHER", [table, x], row, axis=0)

    # -- movement --------------------------------------------------------------------------------

    def reshape(self, *sizes: int) -> None:
        x = self.pop()
        self.push("RESHAPE", [x, self.constant(list(sizes))], sizes)

    def transpose(self, *order: int) -> None:
        x = self.pop()
        shape = [x.shape[axis] for axis in order]
        self.push("TRANSPOSE", [x, self.constant(list(order))], shape)

    def expand(self, axis: int) -> None:
        x = self.pop()
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        self.push("EXPAND_DIMS", [x, self.constant(axis)], shape)

    def squeeze(self, axis: int) -> None:
        x = self.pop()
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        self.push("SQUEEZE", [x], shape, squeeze_dims=[axis])

    def pad(self, *pairs: int) -> None:
        x = self.pop()
        rows = np.reshape(pairs, (-1, 2))
        shape = [size + sum(row) for size, row in zip(x.shape, rows.tolist(), strict=True)]
        self.push("PAD", [x, self.constant(rows)], shape)

    def mirror(self, *pairs: int) -> None:
        x = self.pop()
        rows = np.reshape(pairs, (-1, 2))
        shape = [size + sum(row) for size, row in zip(x.shape, rows.tolist(), strict=True)]
        self.push("MIRROR_PAD", [x, self.constant(rows)], shape, mode=0)

    def concat(self, count: int, axis: int) -> None:
        values, self.stack[-count:] = self.stack[-count:], []
        shape = list(values[0].shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        self.push("CONCATENATION", values, shape, axis=axis)

    def pack(self, count: int, axis: int) -> None:
        values, self.stack[-count:] = self.stack[-count:], []
        shape = (*values[0].shape[:axis], count, *values[0].shape[axis:])
        self.push("PACK", values, shape, values_count=count, axis=axis)

    def unpack(self, axis: int) -> None:
        x = self.pop()
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        self.push("UNPACK", [x], shape, count=x.shape[axis], num=x.shape[axis], axis=axis)

    def split(self, count: int, axis: int) -> None:
        x = self.pop()
        shape = list(x.shape)
        shape[axis] //= count
        row = (x.dtype, tuple(shape), x.quantized)
        values = [self.constant(axis), x]
        self.stack += self.program.apply("SPLIT", values, *[row] * count, num_splits=count)

    def slice(self, *numbers: int) -> None:
        x = self.pop()
        begin, size = numbers[: len(x.shape)], numbers[len(x.shape) :]
        self.push("SLICE", [x, self.constant(list(begin)), self.constant(list(size))], size)

    def strided(self, begin: int, end: int, step: int) -> None:
        """Take elements of the first axis."""
        x = self.pop()
        count = len(range(x.shape[0])[begin:end:step])
        values = [x, *(self.constant([one]) for one in (begin, end, step))]
        self.push("STRIDED_SLICE", values, (count, *x.shape[1:]))

    def gather(self, axis: int, *places: int) -> None:
        x = self.pop()
        shape = (*x.shape[:axis], len(places), *x.shape[axis + 1 :])
        self.push("GATHER", [x, self.constant(list(places))], shape, axis=axis)

    def tile(self, *times: int) -> None:
        x = self.pop()
        shape = [size * count for size, count in zip(x.shape, times, strict=True)]
        self.push("TILE", [x, self.constant(list(times))], shape)

    def reverse(self, axis: int) -> None:
        x = self.pop()
        self.push("REVERSE_V2", [x, self.constant([axis])], x.shape)

    def blocks(self, direction: str, block: int) -> None:
        x = self.pop()
        batch, height, width, depth = x.shape
        if direction == "depth":
            shape = (batch, height // block, width // block, depth * block**2)
            self.push("SPACE_TO_DEPTH", [x], shape, block_size=block)
        else:
            shape = (batch, height * block, width * block, depth // block**2)
            self.push("DEPTH_TO_SPACE", [x], shape, block_size=block)

    # -- reductions ------------------------------------------------------------------------------

    def reduced(self, operator: str, keep: int, *axes: int) -> None:
        x = self.pop()
        named = [axis % len(x.shape) for axis in axes]
        kept = [
            1 if at in named else size for at, size in enumerate(x.shape) if keep or at not in named
        ]
        self.push(operator, [x, self.constant(list(axes))], kept, keep_dims=bool(keep))

    def argmax(self, axis: int) -> None:
        x = self.pop()
        shape = [size for at, size in enumerate(x.shape) if at != axis % len(x.shape)]
        values = [x, self.constant(axis)]
        self.push("ARG_MAX", values, shape, "int32", output_type=ELEMENT_TYPES["int32"])

    def top(self, count: int) -> None:
        x = self.pop()
        shape = (*x.shape[:-1], count)
        rows: list[Result] = [(x.dtype, shape, x.quantized), ("int32", shape)]
        self.stack += self.program.apply("TOPK_V2", [x, self.constant(count)], *rows)

    def cumsum(self, axis: int) -> None:
        x = self.pop()
        self.push("CUMSUM", [x, self.constant(axis)], x.shape)

    def one_hot(self, depth: int) -> None:
        x = self.pop()
        on, off = (self.program.constant(one, "float32") for one in (1.0, 0.0))
        row = ("float32", (*x.shape, depth))
        values = [x, self.constant(depth), on, off]
        self.stack += self.program.apply("ONE_HOT", values, row, axis=-1)

    def spectrum(self, size: int) -> None:
        """Leave the sizes of the spectrum of each row of [rows, 1, size]."""
        x = self.pop()
        shape = (*x.shape[:-1], size // 2 + 1)
        (made,) = self.program.apply("RFFT2D", [x, self.constant([1, size])], ("complex64", shape))
        self.stack += self.program.apply("COMPLEX_ABS", [made], ("float32", shape))

    # -- recurrent -------------------------------------------------------------------------------

    def lstm(self, size: int) -> None:
        x = self.pop()
        batch, features = x.shape[0], x.shape[-1]
        values: list[Value | None] = [x]
        values += [self.weights(x, (size, features)) for _ in range(4)]
        values += [self.weights(x, (size, size)) for _ in range(4)]
        values += [None] * 3
        values += [self.program.random("float32", (size,), (-1, 1)) for _ in range(4)]
        values += [None, None]
        values += [self.program.variable("float32", (batch, size)) for _ in range(2)]
        shape = (*x.shape[:-1], size)
        options: dict[str, Any] = {"activation": ACTIVATIONS["tanh"], "time_major": False}
        self.push("UNIDIRECTIONAL_SEQUENCE_LSTM", values, shape, **options)

    def rnn(self, size: int) -> None:
        x = self.pop()
        weights = [self.weights(x, (size, x.shape[-1])), self.weights(x, (size, size))]
        values = [x, *weights, self.program.random("float32", (size,), (-1, 1))]
        values.append(self.program.variable("float32", (x.shape[0], size)))
        shape = (*x.shape[:-1], size)
        options: dict[str, Any] = {"activation": ACTIVATIONS["tanh"], "time_major": False}
        self.push("UNIDIRECTIONAL_SEQUENCE_RNN", values, shape, **options)


def x_rows(x: Value) -> int:
    """Return the rows of a matrix that a value is for a dense layer."""
    return int(np.prod(x.shape[:-1]))


def _sizes(sizes: Sequence[int], kernel: int, stride: int, padding: int) -> list[int]:
    """Return the sizes after windows; padding 0 is SAME, 1 VALID."""
    if padding:
        return [(size - kernel) // stride + 1 for size in sizes]
    return [-(-size // stride) for size in sizes]


def _argument(text: str) -> Any:
    """Return an argument of a word: a number, or a name."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip()
