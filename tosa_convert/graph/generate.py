"""Random graphs that are valid: types, shapes, attributes and, for integers, ranges of values.

Each operator's row says what it takes from the values there are and what it makes of them. Integer
values carry a bound on their size, so that nothing overflows where TOSA leaves the result
unpredictable. The same seed gives the same graph, byte for byte, on every machine.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import (
    INT64,
    NanPropagationMode,
    ResizeMode,
    RoundingMode,
    dtype,
)
from tosa_convert.graph.model import Block, Graph, Operator, Region, Shape, Tensor
from tosa_convert.graph.opset import AttributeValue, operator
from tosa_convert.graph.versions import V1_1_DRAFT, lowest_version

#: Elements that no tensor has more of.
MOST_ELEMENTS: Final = 2048
#: Inputs are at most this large, as the random inputs of the reference model are.
INPUT_BOUND: Final = {"INT8": 128, "INT16": 32768, "INT32": 2**15}
_INT32_BOUND: Final = 2**30
_FLOATS: Final = ("FP32", "FP16", "BF16")
_INTEGERS: Final = ("INT8", "INT16", "INT32")
_INPUTS: Final = (*_FLOATS, *_INTEGERS, "BOOL")
_NAN: Final = NanPropagationMode


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor made so far. bound: no integer element is larger in size."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bound: int

    @property
    def count(self) -> int:
        return math.prod(self.shape)


@dataclass(slots=True)
class _Maker:
    random: random.Random
    block: Block = field(default_factory=lambda: Block("main"))
    values: list[Value] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    operators: int = 0
    names: int = 0

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names - 1}"

    def input(self) -> Value:
        """A new input of the graph."""
        kind = self.random.choice(_INPUTS)
        rank = self.random.choice((1, 2, 3, 3, 4, 4))
        shape = tuple(self.random.randint(1, 6) for _ in range(rank))
        name = self.name("input")
        self.block.tensors[name] = Tensor(name, dtype(kind), shape)
        self.block.inputs.append(name)
        return self.add(Value(name, kind, shape, INPUT_BOUND.get(kind, 0)))

    def add(self, value: Value) -> Value:
        self.values.append(value)
        return value

    def pick(
        self,
        kinds: Sequence[str],
        ranks: Sequence[int] = (1, 2, 3, 4),
        bound: int | None = None,
    ) -> Value | None:
        """A value of one of the types and ranks, recent ones more often; None if there is none."""
        fitting = [
            v
            for v in self.values
            if v.dtype in kinds
            and len(v.shape) in ranks
            and (bound is None or v.dtype in _FLOATS or v.bound <= bound)
        ]
        if not fitting:
            return None
        index = max(self.random.randrange(len(fitting)), self.random.randrange(len(fitting)))
        return fitting[index]

    def const(self, kind: str, values: Sequence[float], shape: tuple[int, ...]) -> str:
        """A constant tensor; CONST operators do not count."""
        row = dtype(kind)
        array = np.asarray(values, np.float64 if kind in _FLOATS else np.int64).astype(row.numpy)
        data = array.astype(array.dtype.newbyteorder("<")) if row.bits > 8 else array
        name = self.name("const")
        octets = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        constant = Constant(row, array.size, octets.tobytes())
        self.block.tensors[name] = Tensor(name, row, shape, constant)
        self.block.operators.append(Operator(operator("CONST"), (), (name,)))
        return name

    def random_const(self, kind: str, shape: tuple[int, ...], bound: int) -> str:
        count = math.prod(shape)
        if kind in _FLOATS:
            values: list[float] = [self.random.randint(-64, 64) / 32 for _ in range(count)]
        else:
            values = [self.random.randint(-bound, bound) for _ in range(count)]
        return self.const(kind, values, shape)

    def zero(self, kind: str) -> str:
        return self.const(kind, [0], (1,))

    def shape(self, sizes: Sequence[int]) -> str:
        name = self.name("shape")
        data = Constant(INT64, len(sizes), np.asarray(sizes, "<i8").tobytes())
        self.block.shapes[name] = Shape(name, len(sizes), data)
        self.block.operators.append(Operator(operator("CONST_SHAPE"), (), (name,)))
        return name

    def emit(
        self,
        kind: str,
        operands: Sequence[str],
        results: Sequence[tuple[str, tuple[int, ...]]],
        bound: int = 0,
        **attributes: AttributeValue,
    ) -> bool:
        """Append an operator; True."""
        made = []
        for element, shape in results:
            name = self.name("v")
            self.block.tensors[name] = Tensor(name, dtype(element), shape)
            made.append(Value(name, element, shape, bound))
        names = tuple(value.name for value in made)
        index = self.operators
        self.block.operators.append(
            Operator(
                operator(kind),
                tuple(operands),
                names,
                attributes,
                f'loc("generated":{index + 1}:1)',
            )
        )
        self.operators += 1
        self.used.update(operands)
        self.values += made
        return True

    def partner(self, value: Value, bound: int | None = None) -> tuple[str, int]:
        """Something of the value's type and rank that broadcasts with it, and its bound."""
        fitting = [
            v
            for v in self.values
            if v.dtype == value.dtype
            and len(v.shape) == len(value.shape)
            and all(a == b or b == 1 for a, b in zip(value.shape, v.shape, strict=True))
            and (bound is None or v.dtype in _FLOATS or v.bound <= bound)
        ]
        if fitting and self.random.random() < 0.8:
            other = self.random.choice(fitting)
            return other.name, other.bound
        shape = tuple(size if self.random.random() < 0.7 else 1 for size in value.shape)
        limit = min(100, bound) if bound is not None else 100
        if value.dtype == "BOOL":
            values = [self.random.randint(0, 1) for _ in range(math.prod(shape))]
            return self.const("BOOL", values, shape), 0
        return self.random_const(value.dtype, shape, limit), limit


_Rule = Callable[[_Maker], bool]
RULES: dict[str, _Rule] = {}


def _rule(*names: str) -> Callable[[Callable[[_Maker, str], bool]], None]:
    def register(make: Callable[[_Maker, str], bool]) -> None:
        for name in names:
            RULES[name] = lambda maker, name=name: make(maker, name)  # type: ignore[misc]

    return register


@_rule("CEIL", "FLOOR", "EXP", "LOG", "SIN", "COS", "ERF", "SIGMOID", "TANH", "RECIPROCAL", "RSQRT")
def _float_unary(m: _Maker, name: str) -> bool:
    v = m.pick(_FLOATS)
    return v is not None and m.emit(name, [v.name], [(v.dtype, v.shape)])


@_rule("ABS", "IDENTITY", "BITWISE_NOT", "CLZ", "LOGICAL_NOT")
def _unary(m: _Maker, name: str) -> bool:
    kinds: Sequence[str] = {
        "ABS": (*_FLOATS, "INT32"),
        "IDENTITY": _INPUTS,
        "BITWISE_NOT": _INTEGERS,
        "CLZ": ("INT32",),
        "LOGICAL_NOT": ("BOOL",),
    }[name]
    v = m.pick(kinds)
    if v is None:
        return False
    bound = 32 if name == "CLZ" else v.bound + (name == "BITWISE_NOT")
    return m.emit(name, [v.name], [(v.dtype, v.shape)], bound)


@_rule("NEGATE")
def _negate(m: _Maker, name: str) -> bool:
    v = m.pick((*_FLOATS, "INT8", "INT32"))
    if v is None:
        return False
    zeros = [m.zero(v.dtype), m.zero(v.dtype)]
    return m.emit(name, [v.name, *zeros], [(v.dtype, v.shape)], v.bound)


@_rule("POW")
def _pow(m: _Maker, name: str) -> bool:
    # Of a base below zero, NaN and infinity TOSA leaves the power unpredictable: inputs are finite.
    finite = [v for v in m.values if v.dtype in _FLOATS and v.name in m.block.inputs]
    if not finite:
        return False
    v = m.random.choice(finite)
    base = m.const(v.dtype, [m.random.randint(8, 64) / 32 for _ in range(v.count)], v.shape)
    return m.emit(name, [base, v.name], [(v.dtype, v.shape)])


@_rule("ADD", "SUB", "MAXIMUM", "MINIMUM")
def _binary(m: _Maker, name: str) -> bool:
    v = m.pick((*_FLOATS, "INT32"), bound=_INT32_BOUND // 2)
    if v is None:
        return False
    other, bound = m.partner(v, _INT32_BOUND // 2)
    total = v.bound + bound if name in ("ADD", "SUB") else max(v.bound, bound)
    extra: dict[str, AttributeValue] = {}
    if name in ("MAXIMUM", "MINIMUM"):
        extra["nan_mode"] = m.random.choice((_NAN.PROPAGATE, _NAN.IGNORE))
        if v.dtype not in _FLOATS:
            extra["nan_mode"] = _NAN.PROPAGATE
    return m.emit(name, [v.name, other], [(v.dtype, v.shape)], total, **extra)


@_rule("MUL")
def _mul(m: _Maker, name: str) -> bool:
    v = m.pick((*_FLOATS, "INT32"), bound=2**15)
    if v is None:
        return False
    other, bound = m.partner(v, 2**15)
    shift = m.const("INT8", [0], (1,))
    return m.emit(name, [v.name, other, shift], [(v.dtype, v.shape)], v.bound * bound)


@_rule("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR", "LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR")
def _bits(m: _Maker, name: str) -> bool:
    v = m.pick(("BOOL",) if name.startswith("LOGICAL") else _INTEGERS, bound=_INT32_BOUND // 2)
    if v is None:
        return False
    other, bound = m.partner(v, _INT32_BOUND // 2)
    size = 2 ** (max(v.bound, bound).bit_length())
    return m.emit(name, [v.name, other], [(v.dtype, v.shape)], size)


@_rule("ARITHMETIC_RIGHT_SHIFT", "LOGICAL_RIGHT_SHIFT", "INTDIV")
def _shift(m: _Maker, name: str) -> bool:
    v = m.pick(("INT32",) if name == "INTDIV" else _INTEGERS)
    if v is None:
        return False
    low, high = (1, 100) if name == "INTDIV" else (1, 7)
    values = [m.random.randint(low, high) for _ in range(v.count)]
    other = m.const(v.dtype, values, v.shape)
    bound = 2**31 - 1 if name == "LOGICAL_RIGHT_SHIFT" else v.bound
    extra: dict[str, AttributeValue] = {"round": False} if name.startswith("ARITH") else {}
    return m.emit(name, [v.name, other], [(v.dtype, v.shape)], bound, **extra)


@_rule("EQUAL", "GREATER", "GREATER_EQUAL")
def _compare(m: _Maker, name: str) -> bool:
    v = m.pick((*_FLOATS, "INT32"))
    if v is None:
        return False
    return m.emit(name, [v.name, m.partner(v)[0]], [("BOOL", v.shape)])


@_rule("SELECT")
def _select(m: _Maker, name: str) -> bool:
    condition = m.pick(("BOOL",))
    if condition is None:
        return False
    same = [v for v in m.values if v.shape == condition.shape and v.dtype != "BOOL"]
    if not same:
        return False
    v = m.random.choice(same)
    other, bound = m.partner(v)
    return m.emit(name, [condition.name, v.name, other], [(v.dtype, v.shape)], max(v.bound, bound))


@_rule("CLAMP")
def _clamp(m: _Maker, name: str) -> bool:
    v = m.pick((*_FLOATS, "INT8", "INT16"))
    if v is None:
        return False
    row = dtype(v.dtype)
    limits = np.asarray([-1, 1] if v.dtype in _FLOATS else [-50, 60]).astype(row.numpy)
    low, high = (limits[i : i + 1].tobytes() for i in (0, 1))
    extra: dict[str, AttributeValue] = {"min_val": low, "max_val": high, "nan_mode": _NAN.PROPAGATE}
    return m.emit(name, [v.name], [(v.dtype, v.shape)], min(v.bound, 60), **extra)


@_rule(
    "REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PRODUCT", "REDUCE_ALL", "REDUCE_ANY", "ARGMAX"
)
def _reduce(m: _Maker, name: str) -> bool:
    kinds: Sequence[str] = {
        "REDUCE_SUM": (*_FLOATS, "INT32"),
        "REDUCE_MAX": (*_FLOATS, *_INTEGERS),
        "REDUCE_MIN": (*_FLOATS, *_INTEGERS),
        "REDUCE_PRODUCT": _FLOATS,
        "REDUCE_ALL": ("BOOL",),
        "REDUCE_ANY": ("BOOL",),
        "ARGMAX": (*_FLOATS, "INT8"),
    }[name]
    v = m.pick(kinds, (2, 3, 4), bound=_INT32_BOUND // 8)
    if v is None:
        return False
    axis = m.random.randrange(len(v.shape))
    extra: dict[str, AttributeValue] = {"axis": axis}
    if name in ("REDUCE_MAX", "REDUCE_MIN", "ARGMAX"):
        extra["nan_mode"] = _NAN.PROPAGATE
    if name == "ARGMAX":
        shape = v.shape[:axis] + v.shape[axis + 1 :]
        return m.emit(name, [v.name], [("INT32", shape)], v.shape[axis], **extra)
    shape = (*v.shape[:axis], 1, *v.shape[axis + 1 :])
    bound = v.bound * v.shape[axis] if name == "REDUCE_SUM" else v.bound
    return bound <= _INT32_BOUND and m.emit(name, [v.name], [(v.dtype, shape)], bound, **extra)


@_rule("CONCAT", "REVERSE", "TRANSPOSE", "RESHAPE", "TILE", "PAD", "SLICE")
def _layout(m: _Maker, name: str) -> bool:
    v = m.pick(_INPUTS)
    if v is None:
        return False
    rank = len(v.shape)
    axis = m.random.randrange(rank)
    shape = list(v.shape)
    operands = [v.name]
    extra: dict[str, AttributeValue] = {}
    bound = v.bound
    if name == "CONCAT":
        others = [
            o
            for o in m.values
            if o.dtype == v.dtype
            and len(o.shape) == rank
            and all(
                i == axis or a == b for i, (a, b) in enumerate(zip(o.shape, shape, strict=True))
            )
        ]
        other = m.random.choice(others)
        operands, bound, extra = [v.name, other.name], max(bound, other.bound), {"axis": axis}
        shape[axis] += other.shape[axis]
    elif name == "REVERSE":
        extra = {"axis": axis}
    elif name == "TRANSPOSE":
        perms = list(range(rank))
        m.random.shuffle(perms)
        extra, shape = {"perms": tuple(perms)}, [shape[p] for p in perms]
    elif name == "RESHAPE":
        shape = _other_shape(m, v.count)
        operands.append(m.shape(shape))
    elif name == "TILE":
        multiples = [m.random.choice((1, 1, 2)) for _ in shape]
        shape = [a * b for a, b in zip(shape, multiples, strict=True)]
        operands.append(m.shape(multiples))
    elif name == "PAD":
        pads = [m.random.randint(0, 2) for _ in range(2 * rank)]
        shape = [size + pads[2 * i] + pads[2 * i + 1] for i, size in enumerate(shape)]
        operands += [m.shape(pads), m.const(v.dtype, [0], (1,))]
    else:
        start = [m.random.randrange(size) for size in shape]
        shape = [m.random.randint(1, s - a) for s, a in zip(shape, start, strict=True)]
        operands += [m.shape(start), m.shape(shape)]
    if math.prod(shape) > MOST_ELEMENTS:
        return False
    return m.emit(name, operands, [(v.dtype, tuple(shape))], bound, **extra)


def _other_shape(m: _Maker, count: int) -> list[int]:
    """Sizes with this product."""
    shape = [count]
    for _ in range(m.random.randint(0, 3)):
        last = shape.pop()
        divisors = [d for d in range(1, last + 1) if last % d == 0]
        first = m.random.choice(divisors)
        shape += [first, last // first]
    return shape


@_rule("GATHER", "SCATTER")
def _gather(m: _Maker, name: str) -> bool:
    v = m.pick((*_FLOATS, *_INTEGERS), (3,))
    if v is None:
        return False
    n, k, c = v.shape
    w = m.random.randint(1, k)
    rows = [m.random.sample(range(k), w) for _ in range(n)]
    indices = m.const("INT32", [i for row in rows for i in row], (n, w))
    if name == "GATHER":
        return m.emit(name, [v.name, indices], [(v.dtype, (n, w, c))], v.bound)
    source = m.random_const(v.dtype, (n, w, c), 100)
    return m.emit(name, [v.name, indices, source], [(v.dtype, v.shape)], max(v.bound, 100))


@_rule("TABLE")
def _table(m: _Maker, name: str) -> bool:
    v = m.pick(("INT8",))
    if v is None:
        return False
    table = m.random_const("INT8", (256,), 127)
    return m.emit(name, [v.name, table], [("INT8", v.shape)], 128)


@_rule("CAST")
def _cast(m: _Maker, name: str) -> bool:
    v = m.pick((*_INTEGERS, *_FLOATS, "BOOL"))
    if v is None:
        return False
    targets: dict[str, Sequence[str]] = {
        "BOOL": _INTEGERS,
        "INT8": ("BOOL", "INT16", "INT32", "FP32", "FP16", "BF16"),
        "INT16": ("BOOL", "INT8", "INT32", "FP32", "FP16", "BF16"),
        "INT32": ("BOOL", "INT8", "INT16", "FP32", "FP16", "BF16"),
        "FP32": ("INT8", "INT16", "FP16", "BF16"),
        "FP16": ("INT8", "INT16", "FP32"),
        "BF16": ("INT8", "INT16", "FP32"),
    }
    target = m.random.choice(targets[v.dtype])
    bound = {"INT8": 128, "INT16": 32768, "INT32": max(v.bound, 1)}.get(target, 0)
    return m.emit(name, [v.name], [(target, v.shape)], bound)


@_rule("RESCALE")
def _rescale(m: _Maker, name: str) -> bool:
    v = m.pick(_INTEGERS)
    if v is None:
        return False
    target = m.random.choice(_INTEGERS)
    shift = m.random.randint(31, 38)
    return m.emit(
        name,
        [
            v.name,
            m.const("INT32", [m.random.randint(2**30, 2**31 - 1)], (1,)),
            m.const("INT8", [shift], (1,)),
            m.zero(v.dtype),
            m.zero(target),
        ],
        [(target, v.shape)],
        {"INT8": 128, "INT16": 32768, "INT32": v.bound + 1}[target],
        scale32=True,
        rounding_mode=m.random.choice((RoundingMode.SINGLE_ROUND, RoundingMode.DOUBLE_ROUND)),
        per_channel=False,
        input_unsigned=False,
        output_unsigned=False,
    )


@_rule("MATMUL")
def _matmul(m: _Maker, name: str) -> bool:
    v = m.pick(("FP32", "FP16", "INT8"), (3,))
    if v is None:
        return False
    n, _, c = v.shape
    width = m.random.randint(1, 6)
    other = m.random_const(v.dtype, (n, c, width), 100)
    result = "INT32" if v.dtype == "INT8" else v.dtype
    zeros = [m.zero(v.dtype), m.zero(v.dtype)]
    shape = (n, v.shape[1], width)
    return m.emit(name, [v.name, other, *zeros], [(result, shape)], 128 * 100 * c)


@_rule("CONV2D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D")
def _conv2d(m: _Maker, name: str) -> bool:
    v = m.pick(("FP32", "INT8"), (4,))
    if v is None:
        return False
    n, height, width, c = v.shape
    kernel = (min(m.random.randint(1, 3), height), min(m.random.randint(1, 3), width))
    out = m.random.randint(1, 4)
    result = "INT32" if v.dtype == "INT8" else "FP32"
    shape = (out, *kernel, c)
    channels = out
    if name == "DEPTHWISE_CONV2D":
        shape, channels = (*kernel, c, out), c * out
    weight = m.random_const(v.dtype, shape, 100)
    bias = m.random_const(result, (channels,), 1000)
    operands = [v.name, weight, bias, m.zero(v.dtype), m.zero(v.dtype)]
    extra: dict[str, AttributeValue] = {
        "stride": (1, 1),
        "acc_type": dtype(result),
        "local_bound": False,
    }
    if name == "TRANSPOSE_CONV2D":
        extra["out_pad"] = (0, 0, 0, 0)
        sizes = (height + kernel[0] - 1, width + kernel[1] - 1)
    else:
        extra["pad"] = (0, kernel[0] - 1, 0, kernel[1] - 1)
        extra["dilation"] = (1, 1)
        sizes = (height, width)
    if n * sizes[0] * sizes[1] * channels > MOST_ELEMENTS:
        return False
    bound = 128 * 100 * math.prod(kernel) * c + 1000
    return m.emit(name, operands, [(result, (n, *sizes, channels))], bound, **extra)


@_rule("AVG_POOL2D", "MAX_POOL2D")
def _pool(m: _Maker, name: str) -> bool:
    v = m.pick(("FP32", "FP16", "INT8"), (4,))
    if v is None:
        return False
    n, height, width, c = v.shape
    kernel = (min(2, height), min(2, width))
    shape = (n, height - kernel[0] + 1, width - kernel[1] + 1, c)
    extra: dict[str, AttributeValue] = {"kernel": kernel, "stride": (1, 1), "pad": (0, 0, 0, 0)}
    operands = [v.name]
    if name == "AVG_POOL2D":
        operands += [m.zero(v.dtype), m.zero(v.dtype)]
        extra["acc_type"] = dtype("INT32" if v.dtype == "INT8" else "FP32")
    else:
        extra["nan_mode"] = _NAN.PROPAGATE
    return m.emit(name, operands, [(v.dtype, shape)], v.bound, **extra)


@_rule("RESIZE")
def _resize(m: _Maker, name: str) -> bool:
    v = m.pick(("FP32", "FP16", "INT8"), (4,))
    if v is None:
        return False
    n, height, width, c = v.shape
    shape = (n, (height - 1) * 2 + 1, (width - 1) * 2 + 1, c)
    if math.prod(shape) > MOST_ELEMENTS:
        return False
    operands = [v.name, m.shape((2, 1, 2, 1)), m.shape((0, 0)), m.shape((0, 0))]
    return m.emit(name, operands, [(v.dtype, shape)], v.bound, mode=ResizeMode.NEAREST)


def generate(seed: int, operators: int, *, kinds: Sequence[str] | None = None) -> Graph:
    """A random valid graph with this many operators, constants not counted.

    kinds: only these operators. Values that nothing uses are the outputs.
    Raises TosaConvertError("option-conflict") if the kinds are unknown or cannot be had.
    """
    chosen = sorted(RULES) if kinds is None else list(dict.fromkeys(kinds))
    unknown = [kind for kind in chosen if kind not in RULES]
    if unknown or not chosen or operators < 1:
        raise fail(
            "option-conflict",
            "generate",
            f"cannot make {', '.join(unknown) or f'{operators} operators'}",
            "operators that can be generated: " + ", ".join(sorted(RULES)),
        )
    # Seeded with text: the same on every platform and Python.
    maker = _Maker(random.Random(f"tosa {seed} {operators}"))
    for _ in range(3):
        maker.input()
    refused = 0
    while maker.operators < operators:
        kind = maker.random.choice(chosen)
        marks = len(maker.block.operators), maker.names
        if RULES[kind](maker):
            refused = 0
            continue
        for op in maker.block.operators[marks[0] :]:
            for name in op.outputs:
                maker.block.tensors.pop(name, None)
                maker.block.shapes.pop(name, None)
        del maker.block.operators[marks[0] :]
        maker.names = marks[1]
        refused += 1
        if refused % 20 == 0:
            maker.input()
        if refused > 2000:
            raise fail("option-conflict", "generate", f"{', '.join(chosen)} find no operands")
    made = [value for value in maker.values if value.name not in maker.block.inputs]
    maker.block.outputs = [value.name for value in made if value.name not in maker.used]
    graph = Graph(V1_1_DRAFT, [Region("main", [maker.block])])
    return Graph(lowest_version(graph), graph.regions)
