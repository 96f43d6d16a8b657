"""Operators by element type at the ends of what they take, against TFLite's reference kernels.

What TFLite gives is recorded: see recorded_tflite.py. Each test converts one model of many operators.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from frontends.recorded_tflite import check, expected, in_process
from frontends.tflite_models import OperatorRow, Subgraph, TensorRow
from frontends.tflite_operators.control import branches, loops, states
from frontends.tflite_operators.programs import Program, Value, built
from frontends.tflite_operators.values import PLAIN, Array, Quantized, Shape
from frontends.tflite_schema import ELEMENT_TYPES

import tosa_convert as tc
from tosa_convert.frontends.process.request import Request
from tosa_convert.frontends.tflite.convert import lower
from tosa_convert.io.options import ReadOptions

_INTEGERS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
_TYPES: Final = ("bool", *_INTEGERS, "float32", "float16")
_SCALED: Final = ("int8", "uint8", "int16")
_INF, _NAN = np.inf, np.nan
#: Below, at and above halves, of both signs, and the ends of the integer types.
_FLOATS: Final = (
    *(0, 0.4, 0.5, 0.6, 1.5, 2.5, 4.5, 40.7, -0.4, -0.5, -0.6, -1.5, -2.5, -5.7, 100.25, -100.75),
    *(127.9, 128.5, 200.9, 255.9, 256, 300, -128.9, -129, 32767.5, 32768.5, 40000.6, -32768.5),
    *(65504, -65504, _INF, -_INF, _NAN),
)
_WIDE_FLOATS: Final = (*_FLOATS, 65535.5, 65536, 2147483520, 2147483648, 4294967040, 1e10, -1e10)
_WHOLE: Final = (
    *(0, 1, 5, 127, 128, 200, 255, 256, 300, 32767, 32768, 40000, 65535, 65536, 16777217),
    *(2147483647, 2147483648, 4294967295, -1, -5, -128, -129, -32768, -32769, -2147483648),
)


def numbers(dtype: str, values: Sequence[float] = ()) -> Array:
    """Return the numbers of a type that a matrix tries, or those of others that it has."""
    if dtype == "bool":
        return np.array([False, True, True])
    if dtype.startswith("float"):
        usual = _FLOATS if dtype == "float16" else _WIDE_FLOATS
        return np.array(values or usual, np.float64).astype(dtype)
    info = np.iinfo(dtype)
    fitting = (one for one in values or _WHOLE if info.min <= one <= info.max)
    return np.array([*fitting, *(() if values else (info.min, info.max))], dtype)


def given(program: Program, array: Array, quantized: Quantized | None = PLAIN) -> Value:
    """Return an input with these numbers."""
    value = program.input(str(array.dtype), array.shape, quantized=quantized)
    program.arrays[list(program.arrays)[-1]] = array
    return value


def add(
    program: Program,
    operator: str,
    values: Sequence[Any],
    dtype: str = "",
    shape: Shape | None = None,
    quantized: Quantized = PLAIN,
    **options: Any,
) -> None:
    """Add an operator of inputs with these arrays, or of values, and return its result."""
    made = [given(program, one) if isinstance(one, np.ndarray) else one for one in values]
    first = made[0]
    row = (dtype or first.dtype, first.shape if shape is None else shape, quantized)
    program.returns(program.apply(operator, made, row, **options))


def pairs(first: Array, second: Array) -> tuple[Array, Array]:
    """Return both, so that each element of one is with each of the other."""
    return np.repeat(first, second.size), np.tile(second, first.size)


def casts(types: Sequence[str], *, narrow: bool = False) -> Program:
    program = Program("CAST", "_".join(types))
    for source, target in itertools.product(types, _TYPES):
        # TOSA does not convert between these.
        is_long = not narrow and {source[:5], target[:5]} == {"float", "int64"}
        is_other = "int64" in (source, target)
        if source == target or is_long or (narrow and not is_other):
            continue
        array = numbers(source)
        if narrow:  # What fits into 32 bits, of both.
            array = array[np.isfinite(array) & (np.abs(array.astype(float)) < 2147483647)]
        codes = [ELEMENT_TYPES[one] for one in (source, target)]
        add(program, "CAST", [array], target, in_data_type=codes[0], out_data_type=codes[1])
    return program


def unary() -> Program:
    """Functions of one element, of floats and of plain integers."""
    program = Program("unary", "ends")
    floats = numbers("float32", (*_FLOATS, -0.0, 1e30, -1e30, 3e38))
    for operator in ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "ROUND", "SIGN", "ABS", "NEG"):
        add(program, operator, [floats])
    for operator in ("FLOOR", "CEIL", "ELU"):
        add(program, operator, [floats])
    for alpha in (0.1, 1.5, -0.5):
        add(program, "LEAKY_RELU", [floats], alpha=alpha)
    for row in ([100, 0, 1], [-1e30, 0, 1e30], [88.8, 88.8, 88.8], [-200, -300, -200.5]):
        add(program, "LOG_SOFTMAX", [np.array([row, [0.5, 0.25, 4]], np.float32)])
    for dtype in ("int8", "int16", "int32"):
        add(program, "NEG", [numbers(dtype)])
        if dtype != "int8":
            add(program, "ABS", [numbers(dtype)])
    return program


def binary() -> Program:
    """Functions of two elements at the ends of their types."""
    program = Program("binary", "ends")
    few = (0.1, -0.1, 3, -3, 7, -7, 1e10, -1e10, 1e-30, 3e38, -3e38, 0.3, 16777217, 1e30, -2.5)
    x, y = pairs(numbers("float32", (*few, 0, _INF, _NAN)), numbers("float32", (*few, _INF, -_INF)))
    add(program, "FLOOR_MOD", [x, y])
    tenths = np.arange(-60, 60).astype(np.float32) / np.float32(10)
    for operator in ("FLOOR_DIV", "FLOOR_MOD"):
        add(program, operator, [tenths, np.full(120, 0.1, np.float32)])
    add(program, "FLOOR_DIV", [x, y])
    bases = (0, -0.0, -2, 2, -2.5, 1, -1, 0.5, -0.5, _INF, -_INF, _NAN, 3, -3, 8388609)
    powers = numbers("float32", bases)
    add(program, "POW", list(pairs(powers, powers)))
    add(program, "POW", [powers, program.constant(np.float32(2.5), "float32")])
    integers = [np.array(row, np.int32) for row in ([2, -3, 10, 0, -1, -2, 46340, 1], _EXPONENTS)]
    add(program, "POW", integers)
    sides = numbers("float32", (0, 1, -1, 0.5, -2, 1e30, _INF, -_INF, _NAN))
    add(program, "ATAN2", list(pairs(sides, sides)))
    for dtype in ("int8", "int16", "int32"):
        info = np.iinfo(dtype)
        ends = np.array([0, 1, -1, 7, -7, info.max, info.min, info.max // 3], dtype)
        x, y = pairs(ends, ends)
        is_defined = (y != 0) & ~((dtype == "int32") & (x == info.min) & (y == -1))
        for operator in ("FLOOR_DIV", "FLOOR_MOD", *(("DIV",) if dtype == "int32" else ())):
            add(program, operator, [x[is_defined], y[is_defined]])
        if dtype == "int32":
            for operator in ("MAXIMUM", "MINIMUM"):
                add(program, operator, [x, y])
    for dtype in _INTEGERS[:-1]:
        info = np.iinfo(dtype)
        values = np.array([info.max, info.min, 5, info.max, info.max // 3], dtype)
        places = np.array([0, 1, 40, info.max, info.max - 3, info.min, 7, 31], dtype)
        add(program, "RIGHT_SHIFT", list(pairs(values, places)))
    return program


_EXPONENTS: Final = (10, 3, 9, 0, 101, 31, 2, 2147483647)


def scaled() -> Program:
    """Quantised operators: halves, the lowest integer, and sums that do not fit."""
    program = Program("scaled", "ends")
    below = float(np.nextafter(np.float32(0.125), np.float32(0)))
    halves = [0.125, -0.125, below, -below, 0.375, -0.375, 0.0625]
    floats = np.array([*halves, 40000, -40000, 1e8, -1e8, 7.3, -7.3], np.float32)
    for dtype in _SCALED:
        info, zero = np.iinfo(dtype), {"int8": -5, "uint8": 122, "int16": 0}[dtype]
        add(program, "QUANTIZE", [floats], dtype, quantized=Quantized((0.25,), zero))
        ends = np.linspace(info.min, info.max, 700).round().astype(dtype)
        scale, other = Quantized((0.03,), zero), Quantized((0.05,), zero + 3 * (zero != 0))
        for alpha in (0.1, 0.5, 1.5, -0.5, 0.0):
            value = given(program, ends, scale)
            add(program, "LEAKY_RELU", [value], quantized=other, alpha=alpha)
        # SUM of LiteRT for int8 and int16 reads what it has not written.
        for operator in ("SUM", "MEAN") if dtype == "uint8" else ("MEAN",):
            value = given(program, ends, scale)
            axes = program.constant(np.zeros(0), "int32")
            add(program, operator, [value, axes], quantized=other, keep_dims=True)
        many = np.random.default_rng(0).integers(info.min, info.max, (3, 400)).astype(dtype)
        value, axes = given(program, many, scale), program.constant([1], "int32")
        for operator in ("SUM", "MEAN") if dtype == "uint8" else ("MEAN",):
            sums = Quantized((10.0,), zero) if operator == "SUM" else scale
            add(program, operator, [value, axes], shape=(3,), quantized=sums)
        for sizes, options in _RESIZED:
            image = np.random.default_rng(1).integers(info.min, info.max, sizes[:4], endpoint=True)
            image[0, 0, 0] = info.min
            value = given(program, image.astype(dtype), scale)
            size = program.constant(sizes[4:], "int32")
            shape = (sizes[0], *sizes[4:], sizes[3])
            add(program, "RESIZE_BILINEAR", [value, size], "", shape, scale, **options)
    least = numbers("int16")
    add(program, "ABS", [given(program, least, Quantized((0.1,)))], quantized=Quantized((0.1,)))
    add(program, "NEG", [given(program, least, Quantized((0.1,)))], quantized=Quantized((0.1,)))
    value = given(program, numbers("int8"), Quantized((0.1,), 3))
    add(program, "NEG", [value], quantized=Quantized((0.1,), 3))
    positive = np.arange(1, 32000, 97).astype(np.int16)
    for operator in ("LOG", "EXP"):
        value = given(program, positive, Quantized((0.0003,)))
        add(program, operator, [value], quantized=Quantized((0.0005,)))
    return program


_RESIZED: Final[tuple[tuple[tuple[int, ...], dict[str, bool]], ...]] = (
    ((2, 3, 5, 2, 4, 7), {}),
    ((2, 3, 3, 2, 6, 6), {"half_pixel_centers": True}),
    ((2, 5, 5, 2, 9, 9), {"align_corners": True}),
    ((1, 4, 1, 2, 13, 14), {"align_corners": True}),
)


def rarely_scaled() -> Program:
    """Kernels of quantised numbers that few models have."""
    program = Program("rarely scaled", "ends")
    x, y = pairs(*(np.arange(-128, 128, step).astype(np.int8) for step in (5, 7)))
    for scales, zeros in (
        ((0.05, 0.1, 0.03), (3, -7, 5)),
        ((0.9, 0.01, 1.7), (-128, 0, 0)),
        ((0.01, 0.3, 0.002), (0, 127, -3)),
    ):
        left, right, result = (
            Quantized((one,), zero) for one, zero in zip(scales, zeros, strict=True)
        )
        # TFLite does not define the division by 0, nor of small numbers at large quotients of scales.
        dividends = np.where(np.abs(x - np.int16(left.zero)) < 4, np.int8(100), x)
        divisors = np.where(y == right.zero, y - 1, y)
        values = [given(program, dividends, left), given(program, divisors, right)]
        for code in (0, 3):
            add(program, "DIV", values, quantized=result, activation=code)
    for scale, zero, root in ((0.05, -128, 0.02), (0.3, 0, 0.05), (2.0, -20, 0.11)):
        # TFLite refuses negative numbers when it runs.
        value = given(program, np.arange(zero, 128).astype(np.int8), Quantized((scale,), zero))
        add(program, "SQRT", [value], quantized=Quantized((root,), -100))
    x, y = pairs(*(np.array([-32768, -777, -3, -1, 0, 1, 2, 6, 32767], np.int16),) * 2)
    for powers, to in (((-10, -12), -10), ((-3, 0), 0), ((-11, -11), -11), ((2, -1), 2)):
        values = [
            given(program, one, Quantized((2.0**power,)))
            for one, power in zip((x, y), powers, strict=True)
        ]
        for operator, code in itertools.product(("ADD", "SUB"), (0, 1)):
            add(program, operator, values, quantized=Quantized((2.0**to,)), activation=code)
    for operator in ("LESS", "GREATER_EQUAL"):
        values = [given(program, one, Quantized((0.01,))) for one in (x, y)]
        add(program, operator, values, "bool")
    weights = program.random("int8", (3, 4), quantized=Quantized((0.1, 0.03, 0.7)))
    add(program, "DEQUANTIZE", [weights], "float32")
    joined = [
        given(program, np.arange(0, 256, 5).astype(np.uint8), Quantized((scale,), zero))
        for scale, zero in ((0.03, 122), (0.1, 30), (0.03, 122))
    ]
    add(program, "CONCATENATION", joined, "", (156,), Quantized((0.03,), 122), axis=-1)
    joined[1] = program.constant(np.arange(0, 256, 5), "uint8", quantized=Quantized((0.07,), 9))
    add(program, "CONCATENATION", joined, "", (156,), Quantized((0.03,), 122), axis=-1)
    known = program.constant(np.arange(-128, 128), "int8", quantized=Quantized((0.03,), 9))
    add(program, "TANH", [known], quantized=Quantized((1 / 128,)))
    return program


def of_floats() -> Program:
    """Boundaries, sizes that RESIZE does not take, sums of no axis or of one element, and spectra."""
    program = Program("floats", "ends")
    bounds = [-1.5, 0.0, 2.5]
    for dtype in ("float32", "int32"):
        add(program, "BUCKETIZE", [numbers(dtype)], "int32", boundaries=bounds)
    image = program.input("float32", (1, 40, 3, 1))
    for operator in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
        for sizes in ([2, 3], [1, 2500]):
            operands = [image, program.constant(sizes, "int32")]
            add(program, operator, operands, "", (1, *sizes, 1))
    rows = given(program, np.arange(-9, 15, dtype=np.int32).reshape(2, 3, 4))
    for axes, shape in (([], (2, 3, 4)), ([1], (2, 4)), ([0, 2], (3,))):
        for operator in ("SUM", "MEAN"):
            add(program, operator, [rows, program.constant(axes, "int32")], "", shape)
    column = program.input("float32", (3, 1))
    add(program, "CUMSUM", [column, program.constant(1, "int32")], exclusive=True)
    image = program.input("float32", (2, 6, 8))
    size = program.constant([8, 8], "int32")
    (spectrum,) = program.apply("RFFT2D", [image, size], ("complex64", (2, 8, 5)))
    for operator in ("COMPLEX_ABS", "REAL", "IMAG"):
        add(program, operator, [spectrum], "float32")
    return program


FAMILIES: Final[dict[str, tuple[Callable[[], Program], float, str]]] = {
    "casts": (lambda: casts(_TYPES), 0, ""),
    "narrow casts": (lambda: casts(_TYPES, narrow=True), 0, "i64"),
    "unary": (unary, 1e-6, ""),
    "binary": (binary, 1e-5, ""),
    "scaled": (scaled, 0, ""),
    "rarely scaled": (rarely_scaled, 1e-6, ""),
    "floats": (of_floats, 2e-5, ""),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_operators_give_what_tflite_gives(name: str, tmp_path: Path) -> None:
    make, rtol, narrow = FAMILIES[name]
    check(make(), tmp_path, rtol, narrow)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("count", [7, 400])
def test_sums_are_those_of_integers(dtype: str, count: int) -> None:
    """Rounded once, and bounded; LiteRT's own SUM of these types reads what it has not written."""
    program = Program("SUM", dtype)
    info, zero = np.iinfo(dtype), -5 if dtype == "int8" else 0
    x = np.random.default_rng(0).integers(info.min, info.max, (9, count)).astype(dtype)
    x[0], x[1] = info.max, info.min
    value, axes = given(program, x, Quantized((0.03,), zero)), program.constant([1], "int32")
    add(program, "SUM", [value, axes], shape=(9,), quantized=Quantized((0.7,), zero))
    graph = in_process(program.data())
    (found,) = tc.run(graph, {"x0": x}, engine="numpy").outputs.values()
    exact = (x.astype(np.int64) - zero).sum(1) * (np.float32(0.03) / np.float32(0.7)) + zero
    assert np.abs(found - np.clip(exact, info.min, info.max)).max() <= 0.5 + 1e-3


def in_loop(operator: str, *inputs: int) -> Program:
    """Return a loop whose body has an operator of one tensor."""
    program = next(loops())
    condition, body = program.others
    row = OperatorRow(operator, inputs, (5,))
    program.others = [condition, replace(body, operators=[body.operators[0], row])]
    program.arrays |= {"x0": np.array(2, np.int32), "x1": numbers("float32", _FLOATS[:6])}
    program.arrays["x1"] = program.arrays["x1"].reshape(2, 3)
    return program


@pytest.mark.parametrize("flag", [False, True, [True]])
def test_branches_are_those_of_tflite(tmp_path: Path, flag: Any) -> None:
    program = next(branches())
    program.arrays["x0"] = np.array(flag)
    program.tensors[0] = replace(program.tensors[0], shape=program.arrays["x0"].shape)
    check(program, tmp_path)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    check(next(states()), tmp_path)


def test_operators_in_loops_and_of_open_sizes_are_corrected(tmp_path: Path) -> None:
    check(in_loop("ROUND", 1), tmp_path)
    program = Program("CAST", "open")
    add(program, "CAST", [numbers("float32", _FLOATS[:6]).reshape(2, 3)], "uint8", in_data_type=0)
    data = program.data()
    results = expected(data, list(program.arrays.values()), tmp_path)
    program.tensors = [replace(one, shape=(-1, 3)) for one in program.tensors]
    path, lowered = tmp_path / "m.tflite", tmp_path / "m.tosa"
    path.write_bytes(program.data())
    tc.save(tc.frontends.from_tflite(path), lowered)
    read = ReadOptions(input_shapes={"x0": (2, 3)})
    (found,) = tc.run(lowered, program.arrays, engine="numpy", read=read).outputs.values()
    np.testing.assert_array_equal(found.view(np.uint8), results[0])


def test_custom_operators_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    program = Program("Custom", "named")
    add(program, "SignalWindow", [np.zeros(3, np.float32)])
    path = tmp_path / "m.tflite"
    path.write_bytes(program.data())
    with caplog.at_level("WARNING"):
        tc.frontends.from_tflite(path)
    assert "1 custom operator became CUSTOM of TOSA: SignalWindow" in caplog.text


def test_custom_operators_take_and_give_unsigned_bytes_as_they_are(tmp_path: Path) -> None:
    program = Program("Custom", "bytes")
    value = program.input("uint8", (3,))
    add(program, "Own", [value], quantized=Quantized((0.1,), 7))
    path = tmp_path / "m.tflite"
    path.write_bytes(program.data())
    graph = tc.frontends.from_tflite(path)
    assert [one.spec.name for one in graph.main.operators] == ["CUSTOM"]
    assert [graph.main.tensors[one].dtype.name for one in graph.main.outputs] == ["INT8"]


def test_unsigned_bytes_are_not_moved_back_and_forth() -> None:
    program = Program("ABS", "through")
    x = program.input("uint8", (3,))
    graph = in_process(program.returns([x]).data())
    assert [one.spec.name for one in graph.main.operators].count("RESCALE") <= 1


def refused() -> Iterator[tuple[str, Program]]:
    """Iterate over operators that TOSA does not have, or of which TFLite has no kernel."""
    x, scale = np.arange(1, 7, dtype=np.int16), Quantized((0.1,))
    rows: dict[str, dict[str, Any]] = {"COS": {}, "LESS": {}, "GELU": {"approximate": True}}
    for operator, options in rows.items():
        program = Program(operator, "int16")
        values = [given(program, x, scale)]
        values += [given(program, x, Quantized((0.2,)))] if operator == "LESS" else []
        dtype = "bool" if operator == "LESS" else "int16"
        add(program, operator, values, dtype, quantized=scale, **options)
        yield operator, program
    program = Program("ADD", "tanh")
    add(program, "ADD", [numbers("float32")] * 2, activation=4)
    yield "ADD", program
    program = Program("BITCAST", "float32")
    add(program, "BITCAST", [numbers("float32")], "int32")
    yield "BITCAST", program
    program = Program("CAST", "complex64")
    add(program, "CAST", [numbers("float32")], "complex64", in_data_type=0, out_data_type=8)
    yield "CAST", program
    program = Program("WHERE", "bool")
    add(program, "WHERE", [np.ones(3, bool)], "int64", (3, 1))
    yield "WHERE", program
    for field in ("dilation_d", "dilation_w", "dilation_h"):
        program = Program("CONV_3D_TRANSPOSE", field)
        shape = (1, 4, 4, 4, 1)
        weights = program.constant(np.ones((2, 2, 2, 1, 1)), "float32")
        values = [program.constant(shape, "int32"), weights, program.input("float32", shape)]
        sizes: dict[str, Any] = dict.fromkeys(("stride_d", "stride_w", "stride_h"), 1)
        sizes[field] = 2
        add(program, "CONV_3D_TRANSPOSE", values, "float32", shape, **sizes)
        yield "CONV_3D_TRANSPOSE", program


_OTHER: Final = "does not have the operands or options that it has in TFLite"
_F, _B, _S, _I = "float32", "int8", "int16", "int32"
_WINDOW: Final[dict[str, Any]] = {
    "filter_height": 2,
    "filter_width": 2,
    "stride_h": 1,
    "stride_w": 1,
}
_TENTH: Final = Quantized((0.1,))
_STRIDES: Final[dict[str, Any]] = {"stride_h": 1, "stride_w": 1}
#: An operator; the type, the shape and the scale of each operand that is computed, and the constants
#: among them; its options, and the type, the shape and the quantisation of its result if they are not
#: those of its first operand; and what is said.
_REFUSED: Final[tuple[tuple[str, tuple[Any, ...], dict[str, Any], str], ...]] = (
    ("RESHAPE", ((_F, (2, 3)), [4, 2]), {}, _OTHER),
    ("RESHAPE", ((_F, (2, 3)), [-1, 0]), {}, _OTHER),
    ("SQUEEZE", ((_F, (1, 3)),), {"squeeze_dims": [1]}, _OTHER),
    ("TRANSPOSE", ((_F, (2, 3)), [0, 0]), {}, _OTHER),
    ("TRANSPOSE", ((_F, (2, 3)), [0, 2]), {}, _OTHER),
    (
        "SPACE_TO_BATCH_ND",
        ((_F, (2, 4, 4)), [2, 2, 2], [[0, 0]] * 3),
        {},
        "blocks of 3 or 4 dimensions",
    ),
    ("SPLIT", ([0], (_F, (3, 2))), {"num_splits": 2, "count": 2}, _OTHER),
    ("SPLIT_V", ((_F, (3, 2)), [1, 1], [0]), {"num_splits": 2, "count": 2}, _OTHER),
    ("SPLIT_V", ((_F, (3, 2)), [0, 3], [0]), {"num_splits": 2, "count": 2}, "size 0 is 0"),
    ("SPLIT_V", ((_F, (3, 2)), [4, -1], [0]), {"num_splits": 2, "count": 2}, _OTHER),
    ("SLICE", ((_F, (3, 2)), (_I, (2,)), [1, -1]), {}, "begins at a computed position"),
    ("SLICE", ((_F, (3, 2)), [-1, 0], [1, 1]), {}, _OTHER),
    ("SLICE", ((_F, (3, 2)), [1, 0], [3, 1]), {}, _OTHER),
    ("SLICE", ((_F, (3, 2)), [1, 0], [0, 1]), {}, "size 0 is 0"),
    ("STRIDED_SLICE", ((_F, (3,)), [3], [4], [1]), {"shrink_axis_mask": 1}, _OTHER),
    ("PAD", ((_F, (3, 2)), [[1, 1]]), {}, _OTHER),
    ("PAD", ((_F, (3,)), [[-1, 1]]), {}, _OTHER),
    ("MIRROR_PAD", ((_F, (3,)), [[3, 0]]), {"mode": 0}, _OTHER),
    ("MIRROR_PAD", ((_F, (3,)), [[0, 4]]), {"mode": 1}, _OTHER),
    ("TILE", ((_F, (3,)), [0]), {}, "TOSA does not have empty tensors"),
    ("TILE", ([1, 2, 3], [5592406]), {}, "it makes 16777218 elements of a constant"),
    ("BROADCAST_TO", ((_F, (3,)), [2, 1]), {}, _OTHER),
    ("RANGE", ([[0]], [[1]], [[0]]), {}, _OTHER),
    ("RANGE", ([[0]], [[(1 << 24) + 1]], [[1]]), {}, _OTHER),
    ("MATRIX_DIAG", ((_F, ((1 << 14) + 1,)),), {}, _OTHER),
    ("MATRIX_SET_DIAG", ((_F, (2, 3)), (_F, (2,))), {}, "its matrices are not square"),
    ("GATHER", ((_F, (2, 3)), (_I, (3,))), {"axis": 1, "batch_dims": 1}, _OTHER),
    ("GATHER", ((_F, (2, 3)), (_I, (2, 1))), {"axis": 0, "batch_dims": 1}, _OTHER),
    ("GATHER", ((_F, (2, 3)), [2]), {}, _OTHER),
    ("GATHER", ((_F, (2, 3)), [-1]), {}, _OTHER),
    ("GATHER_ND", ((_F, (2, 3)), (_I, (1, 3))), {}, _OTHER),
    (
        "EMBEDDING_LOOKUP",
        ((_I, (1,)), (_B, (2, 3), 0.1, 5)),
        {"result": (_F, (1, 3))},
        "a scale for",
    ),
    ("MAX_POOL_2D", ((_F, (4, 4, 1)),), _WINDOW, _OTHER),
    ("MAX_POOL_2D", ((_F, (1, 4, 4, 1)),), _WINDOW | {"padding": 2}, _OTHER),
    ("MAX_POOL_2D", ((_F, (1, 4, 4, 1)),), _WINDOW | {"stride_h": 0}, _OTHER),
    ("L2_POOL_2D", ((_B, (1, 4, 4, 1)),), _WINDOW, "no kernel of int8"),
    ("RESIZE_BILINEAR", ((_F, (4, 4, 1)), [2, 2]), {}, _OTHER),
    ("RESIZE_BILINEAR", ((_F, (1, 4, 4, 1)), [0, 2]), {}, _OTHER),
    ("RESIZE_BILINEAR", ((_I, (1, 4, 4, 1)), [2, 2]), {}, "no kernel of int32"),
    ("RESIZE_BILINEAR", ((_B, (1, 64, 4, 1)), [2, 4]), {}, "by this factor"),
    ("RESIZE_BILINEAR", (("uint8", (1, 64, 4, 1)), [2, 4]), {}, "by this factor"),
    ("DIV", ((_S, (3,)), (_S, (3,))), {}, "no kernel of quantised int16"),
    ("DIV", (("uint32", (3,)), ("uint32", (3,))), {}, "TOSA does not divide uint32"),
    ("DIV", ((_S, (3,), 0), (_S, (3,), 0)), {}, "TOSA does not divide int16"),
    ("FLOOR_DIV", (("uint32", (3,)), ("uint32", (3,))), {}, "TOSA does not divide uint32"),
    ("POW", ((_S, (3,), 0), (_S, (3,), 0)), {}, "TOSA does not have powers of int16"),
    ("FAKE_QUANT", ((_F, (3,)),), {"min": -1.0, "max": 1.0, "num_bits": 17}, _OTHER),
    ("FAKE_QUANT", ((_F, (3,)),), {"min": -1.0, "max": 1.0, "num_bits": 1}, _OTHER),
    ("FAKE_QUANT", ((_F, (3,)),), {"min": 1.0, "max": 1.0, "num_bits": 8}, _OTHER),
    ("FAKE_QUANT", ((_F, (3,)),), {"num_bits": 8, "narrow_range": True}, "the narrow range"),
    ("ADD", ((_I, (3,), 0.1), (_I, (3,), 0.1)), {}, "no kernel of quantised int32"),
    (
        "ADD",
        ((_S, (3,), 2.0**-10), (_S, (3,), 2.0**-10)),
        {"result": (_S, (3,), Quantized((2.0**-12,)))},
        "one operand with the scale of the result",
    ),
    ("LESS", ((_B, (3,), 1.0), (_B, (3,), 0.5)), {"result": ("bool", (3,))}, "scales below 1"),
    ("PRELU", ((_S, (3,)), (_S, (3,))), {}, "no kernel of quantised int16"),
    ("SQRT", ((_S, (3,)),), {}, "no kernel of quantised int16"),
    ("QUANTIZE", ((_F, (3,)),), {"result": (_B, (3,), PLAIN)}, "TFLite quantises to one scale"),
    ("QUANTIZE", (("uint16", (3,)),), {"result": (_B, (3,), _TENTH)}, "quantises to one scale"),
    ("QUANTIZE", ((_F, (3,)),), {"result": (_I, (3,), Quantized((0.1,)))}, "not quantise to int32"),
    ("SELECT", ((_F, (3,)), (_F, (3,)), (_F, (3,))), {}, _OTHER),
    ("REDUCE_PROD", ((_B, (3,)), [0]), {}, "does not multiply quantised elements"),
    ("CUMSUM", ((_B, (3,)), [0]), {}, "no kernel of quantised elements"),
    ("TOPK_V2", ((_F, (3,)), [4]), {"count": 2}, _OTHER),
    ("TOPK_V2", ((_F, (3,)), [0]), {"count": 2}, "size 1 is 0"),
    ("SOFTMAX", ((_B, (3,)),), {"beta": 1.0, "result": (_S, (3,))}, "int8 and int16, differ"),
    ("LOG_SOFTMAX", ((_B, (3,)),), {}, "a result of 8 bits with the scale 1/16"),
    ("L2_NORMALIZATION", ((_S, (3,)),), {}, "8 bits, a result around 0"),
    (
        "L2_NORMALIZATION",
        ((_B, (3,)),),
        {"activation": 1, "result": (_B, (3,), Quantized((1 / 128,)))},
        "8 bits, a result around 0",
    ),
    (
        "L2_NORMALIZATION",
        ((_B, (1, 1, 8193)),),
        {"result": (_B, (1, 1, 8193), Quantized((1 / 128,)))},
        "8 bits, a result around 0",
    ),
    (
        "LOCAL_RESPONSE_NORMALIZATION",
        ((_F, (1, 1, 1, 2049)),),
        {"radius": 1},
        "the squares of up to",
    ),
    ("LOGISTIC", ((_S, (3,), 40.0),), {}, "kernel does not take the scale 40"),
    (
        "HARD_SWISH",
        ((_B, (3,), 90.0),),
        {"result": (_B, (3,), Quantized((0.1,)))},
        "so much smaller",
    ),
    ("CONV_2D", ((_F, (1, 4, 4, 3)), (_F, (1, 1, 1, 2))), {"stride_h": 1, "stride_w": 1}, _OTHER),
    ("CONV_2D", ((_B, (1, 4, 4, 2)), (_F, (1, 1, 1, 2))), {"stride_h": 1, "stride_w": 1}, _OTHER),
    ("CONV_2D", ((_B, (1, 4, 4, 2)), (_F, (1, 1, 1, 2), 0.1)), _STRIDES, _OTHER),
    ("CONV_3D", ((_B, (1, 4, 4, 4, 1)), (_B, (1, 1, 1, 1, 1))), {}, "no kernel of int8"),
    ("CONV_3D_TRANSPOSE", ([1, 4, 4, 4, 1], *((_B, (1, 1, 1, 1, 1)),) * 2), {}, "kernel of int8"),
    ("CONV_2D", ((_B, (1, 4, 4, 2)), (_B, (1, 1, 1, 2), 0)), _STRIDES, _OTHER),
    ("CONV_2D", ((_B, (1, 4, 4, 2)), (_B, (1, 1, 1, 2)), (_F, (1,))), _STRIDES, _OTHER),
    ("CONV_2D", ((_S, (1, 4, 4, 4)), (_B, (2, 1, 1, 2))), _STRIDES, "does not join sums of INT48"),
    ("DEPTHWISE_CONV_2D", ((_F, (1, 4, 4, 3)), (_F, (1, 1, 1, 4))), _STRIDES, _OTHER),
    (
        "TRANSPOSE_CONV",
        ([1, 4, 4, 2], (_B, (2, 1, 1, 3)), (_S, (1, 4, 4, 3)), (_I, (2,))),
        _STRIDES | {"padding": 1, "result": (_S, (1, 4, 4, 2))},
        "its bias is computed",
    ),
    (
        "TRANSPOSE_CONV",
        ([1, 2, 2, 2], (_F, (2, 1, 1, 3)), (_F, (1, 4, 4, 3))),
        _STRIDES | {"padding": 1, "result": (_F, (1, 2, 2, 2))},
        "its result is smaller than its windows reach",
    ),
    (
        "FULLY_CONNECTED",
        ((_B, (3, 4)), (_B, (2, 4))),
        {"result": (_I, (3, 2), Quantized((0.1,)))},
        "no kernel with results of int32",
    ),
    ("UNSORTED_SEGMENT_SUM", ((_F, (2048,)), (_I, (2048,)), [2049]), {}, "too many to compare"),
    ("ABS", (("uint8", (3,)),), {}, "no kernel of quantised uint8"),
    ("ABS", (None,), {"result": (_F, (3,))}, _OTHER),
    ("ATAN2", ((_F, (3,)), None), {}, _OTHER),
    ("SIN", ((_F, (3,)),), {"result": (_I, (3,))}, _OTHER),
    ("REAL", (np.ones(3, np.complex64),), {"result": (_F, (3,))}, "does not come from RFFT2D"),
    ("SOFTMAX", ((_B, (3,), 1e-12),), {"beta": 1.0}, _OTHER),
    ("SOFTMAX", ((_B, (3,), 2.0**-26),), {"beta": 1.0}, _OTHER),
    ("FULLY_CONNECTED", ((_F, (3, 4)), (_F, (2, 5))), {}, _OTHER),
    (
        "FULLY_CONNECTED",
        ((_B, (3, 4), 0), (_B, (2, 4))),
        {"result": (_B, (3, 2), Quantized((0.1,)))},
        _OTHER,
    ),
    ("FULLY_CONNECTED", ((_F, (3, 4)), (_B, (2, 4), 0)), {}, _OTHER),
    ("FULLY_CONNECTED", ((_F, (3, 4)), (_F, (2, 4))), {"weights_format": 1}, "are shuffled"),
    ("Own", ((_F, (3, 4)),), {"result": (_F, (-1, 4))}, "sizes of its results are not known"),
    ("BATCH_MATMUL", ((_B, (3, 4)), (_S, (4, 3))), {}, _OTHER),
)


@pytest.mark.parametrize(
    "number", range(len(_REFUSED)), ids=[f"{row[0]}_{at}" for at, row in enumerate(_REFUSED)]
)
def test_what_an_operator_cannot_be_is_said(number: int, tmp_path: Path) -> None:
    operator, operands, options, words = _REFUSED[number]
    program = built(operator, operands, str(number), **options)
    said = refusal(program, tmp_path)
    assert operator in said
    assert words in said


#: What is as large as it may be.
_LARGEST: Final[tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...]] = (
    ("UNSORTED_SEGMENT_SUM", ((_F, (2048,)), (_I, (2048,)), [2048]), {}),
    ("RANGE", ([[0]], [[1 << 24]], [[1]]), {}),
    ("TILE", ([1, 2, 3, 4], [1 << 22]), {}),
    ("L2_NORMALIZATION", ((_B, (1, 8192)),), {"result": (_B, (1, 8192), Quantized((1 / 128,)))}),
    ("LOCAL_RESPONSE_NORMALIZATION", ((_F, (1, 1, 1, 2048)),), {"radius": 1}),
)


@pytest.mark.parametrize("number", range(len(_LARGEST)))
def test_what_is_as_large_as_it_may_be_lowers(number: int) -> None:
    operator, operands, options = _LARGEST[number]
    assert in_process(built(operator, operands, **options).data()).main.outputs


def unlowered() -> Iterator[tuple[Program, str]]:
    """Iterate over models that do not lower, with what is said of each."""
    for operator, count in (("ADD", 2), ("CAST", 1), ("", 0)):
        program = Program("RFFT2D", operator)
        values = [program.input(_F, (4, 4)), program.constant([4, 4], _I)]
        made = program.apply("RFFT2D", values, ("complex64", (4, 3)))
        if operator:
            made = program.apply(operator, made * count, ("complex64", (4, 3)))
        yield program.returns(made), "complex"
    for operators, words in (([], "nothing makes the output"), (["NEG"], "NEG of float32 does")):
        program = Program("ABS", words)
        made = program.apply("ABS", [program.input(_F, (3,))], (_F, (3,)))
        program.rows.clear()
        for operator in operators:
            made = program.apply(operator, made, (_F, (3,)))
        yield program.returns(made), words
    yield Program("ABS", "nothing"), "the TFLite file has no outputs"
    program = Program("DEQUANTIZE", "computed")
    x = program.input(_B, (2, 3), quantized=Quantized((0.1, 0.2)))
    yield program.returns(program.apply("DEQUANTIZE", [x], (_F, (2, 3)))), "several scales of what"
    program = Program("MAXIMUM", "open")
    sizes = program.apply("SHAPE", [program.input(_F, (2, 3))], (_I, (2,)), out_type=2)
    program.tensors[0] = replace(program.tensors[0], shape=(-1, 3))
    made = program.apply("MAXIMUM", [*sizes, program.constant([4, 4], _I)], (_I, (2,)))
    yield program.returns(made), "compares a size"
    for dtype, words in ((_F, "has no handle in the main"), ("int64", "its variable holds int64")):
        program = Program("READ_VARIABLE", words)
        if dtype == _F:
            handles = [Value(0, "resource", (), None)]
            program.tensors.append(TensorRow("h", "resource", ()))
            program.inputs.append(0)
        else:
            handles = program.apply("VAR_HANDLE", [], ("resource", ()), shared_name="v")
        yield program.returns(program.apply("READ_VARIABLE", handles, (dtype, (3,)))), words


def test_what_does_not_lower_is_said(tmp_path: Path) -> None:
    for program, words in unlowered():
        assert words in refusal(program, tmp_path), words


def test_a_subgraph_is_called(tmp_path: Path) -> None:
    program = Program("CALL", _F)
    program.others = next(branches()).others[:1]
    x = program.input(_F, (2, 3))
    program.returns(program.apply("CALL", [x], (_F, (2, 3)), subgraph=1))
    (found,) = tc.run(in_process(program.data()), program.arrays, engine="numpy").outputs.values()
    np.testing.assert_array_equal(found, np.abs(program.arrays["x0"]))
    # A condition that does not lower is named once.
    program = next(loops())
    condition = program.others[0]
    row = OperatorRow("WHERE", (1,), (3,))
    program.others[0] = replace(condition, operators=[row, *condition.operators[1:]])
    assert refusal(program, tmp_path).count("WHERE") == 1


def refusal(program: Program, folder: Path) -> str:
    """Return why a program is not lowered."""
    path = folder / "m.tflite"
    path.write_bytes(program.data())
    try:
        problems = lower(Request(frontend="tflite", source=str(path)), folder).not_lowered
        return "; ".join(f"{one.operator}: {one.reason}" for one in problems)
    except tc.TosaConvertError as error:
        return str(error)


_X: Final = [TensorRow("a", _F, (2, 3)), TensorRow("b", _F, (2, 3)), TensorRow("f", "bool", ())]
_KNOWN: Final = [*_X[:2], TensorRow("f", "bool", (), np.array(True))]
_FOLLOWED: Final = [
    OperatorRow(name, (at,), (1 + (at > 0),)) for at, name in enumerate(("WHERE", "UNIQUE"))
]
_AGAIN: Final = {"then_subgraph_index": 1, "else_subgraph_index": 2}
#: A branch of IF, and what is said of it.
_BRANCHES: Final[tuple[tuple[Subgraph, str], ...]] = (
    (Subgraph(_X, [OperatorRow("ABS", (0,), (1,))], [0, 0], [1]), "IF of bool, float32 " + _OTHER),
    (Subgraph(_X, [OperatorRow("ABS", (0,), (1,))], [0], [1, 1]), "IF of bool, float32 " + _OTHER),
    (Subgraph(_X, [OperatorRow("EQUAL", (0, 0), (2,))], [0], [2]), "IF of bool, float32 " + _OTHER),
    (Subgraph(_X, [OperatorRow("WHERE", (0,), (1,))], [0], [1]), "WHERE: "),
    (Subgraph(_X, _FOLLOWED, [0], [2]), "WHERE: ; UNIQUE: "),
    (Subgraph(_X, [_FOLLOWED[0], OperatorRow("NEG", (1,), (2,))], [0], [2]), "WHERE: "),
    (Subgraph(_KNOWN, [OperatorRow("IF", (2, 0), (1,), _AGAIN)], [0], [1]), "call one another"),
)


@pytest.mark.parametrize("number", range(len(_BRANCHES)))
def test_what_a_branch_cannot_be_is_said(number: int, tmp_path: Path) -> None:
    program = next(branches())
    branch, words = _BRANCHES[number]
    program.others = [branch, program.others[1]]
    assert words in refusal(program, tmp_path)


def test_what_a_loop_and_a_condition_cannot_be_is_said(tmp_path: Path) -> None:
    program = next(branches())
    program.tensors[0] = replace(program.tensors[0], shape=(2,))
    assert "IF of bool, float32 " + _OTHER in refusal(program, tmp_path)
    program = next(loops())
    condition, body = program.others
    program.others[0] = replace(condition, outputs=[0])
    assert "WHILE of int32, float32 " + _OTHER in refusal(program, tmp_path)
    rows = [*body.tensors, TensorRow("wide", _F, (2, 6))]
    joined = OperatorRow("CONCATENATION", (1, 1), (6,), {"axis": 1})
    changed = replace(body, tensors=rows, operators=[body.operators[0], joined], outputs=[3, 6])
    program.others = [condition, changed]
    assert "another shape after a round" in refusal(program, tmp_path)


@pytest.mark.parametrize("number", range(10))
def test_what_is_not_right_is_refused_by_name(number: int, tmp_path: Path) -> None:
    operator, program = next(itertools.islice(refused(), number, None))
    path = tmp_path / "m.tflite"
    path.write_bytes(program.data())
    with pytest.raises(tc.TosaConvertError, match=f"{operator} ") as caught:
        tc.frontends.from_tflite(path)
    assert caught.value.code == "not-lowered"
    assert re.search(r"operator 0, which makes", str(caught.value))


def test_floats_become_integers_of_64_bits(tmp_path: Path) -> None:
    program = Program("CAST", "int64")
    floats = numbers("float32", (0.5, -1.5, 7.9, 2147483648, -4294967296, 1e15))
    add(program, "CAST", [floats], "int64", in_data_type=0, out_data_type=4)
    check(program, tmp_path)


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_unsigned_integers_are_no_signed_ones(dtype: str) -> None:
    x, y = pairs(*(np.array([1, 7, 40000, 65535], dtype) for _ in range(2)))
    for operator, compute in (("MUL", np.multiply), ("MAXIMUM", np.maximum)):
        program = Program(operator, dtype)
        add(program, operator, [x, y])
        graph = in_process(program.data())
        signed = {name: a.view(f"i{a.itemsize}") for name, a in program.arrays.items()}
        (found,) = tc.run(graph, signed, engine="numpy").outputs.values()
        np.testing.assert_array_equal(found.view(dtype), compute(x, y))


def test_remainders_in_loops_and_of_open_sizes(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    for operator in ("FLOOR_MOD", "POW"):
        program = Program(operator, "open")
        values = [given(program, np.array([[5, 7, 9]], np.float32)) for _ in range(2)]
        add(program, operator, values)
        program.tensors = [replace(one, shape=(-1, 3)) for one in program.tensors]
        path.write_bytes(program.data())
        assert tc.frontends.from_tflite(path).main.tensors["x0"].shape == (-1, 3)
    program = in_loop("FLOOR_MOD", 1, 1)
    path.write_bytes(program.data())
    graph = tc.frontends.from_tflite(path)
    inputs = dict(zip(graph.main.inputs, program.arrays.values(), strict=True))
    _, rest = tc.run(graph, inputs, engine="numpy").outputs.values()
    np.testing.assert_array_equal(rest[np.isfinite(rest)], 0)
