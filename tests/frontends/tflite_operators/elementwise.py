"""Operators of one element, and of a pair of elements."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from frontends.tflite_operators.programs import Program, Programs, named, one
from frontends.tflite_operators.values import ACTIVATION, Quantized, Shape
from frontends.tflite_schema import ACTIVATIONS

_SHAPES: Final[tuple[Shape, ...]] = ((2, 3), (1, 4, 5, 3), (7,))
#: Operator -> lowest and highest number of its floating-point inputs.
_UNARY: Final = {
    "ABS": (-4, 4),
    "CEIL": (-4, 4),
    "FLOOR": (-4, 4),
    "ROUND": (-4, 4),
    "EXP": (-4, 2),
    "LOG": (0.05, 9),
    "SQRT": (0, 9),
    "RSQRT": (0.05, 9),
    "SQUARE": (-4, 4),
    "NEG": (-4, 4),
    "SIN": (-7, 7),
    "COS": (-7, 7),
    "TANH": (-4, 4),
    "LOGISTIC": (-8, 8),
    "RELU": (-4, 4),
    "RELU6": (-4, 9),
    "RELU_N1_TO_1": (-2, 2),
    "RELU_0_TO_1": (-2, 2),
    "ELU": (-4, 4),
    "HARD_SWISH": (-5, 5),
    "SIGN": (-4, 4),
    "ZEROS_LIKE": (-4, 4),
}
_QUANTIZED_UNARY: Final = {
    "ABS": ("int8", "int16"),
    "EXP": ("int8", "int16"),
    "LOG": ("int8",),
    "RSQRT": ("int8",),
    "TANH": ("int8", "uint8", "int16"),
    "LOGISTIC": ("int8", "uint8", "int16"),
    "RELU": ("int8", "uint8", "int16"),
    "RELU6": ("int8", "uint8", "int16"),
    "RELU_N1_TO_1": ("int8", "uint8"),
    "RELU_0_TO_1": ("int8", "uint8"),
    "ELU": ("int8",),
    "HARD_SWISH": ("int8", "uint8"),
}
#: The quantisation that TFLite requires of the results of these.
_RESULT_OF: Final = {
    ("TANH", "int8"): Quantized((1 / 128,)),
    ("TANH", "uint8"): Quantized((1 / 128,), 128),
    ("TANH", "int16"): Quantized((1 / 32768,)),
    ("LOGISTIC", "int8"): Quantized((1 / 256,), -128),
    ("LOGISTIC", "uint8"): Quantized((1 / 256,)),
    ("LOGISTIC", "int16"): Quantized((1 / 32768,)),
}
#: Operators that are defined above 0 only: their zero point is the lowest integer.
_POSITIVE: Final = ("LOG", "RSQRT")
#: Another quantisation than that of inputs.
OTHER: Final = {
    "int8": Quantized((0.05,), 3),
    "uint8": Quantized((0.05,), 131),
    "int16": Quantized((0.0003,)),
}
_QUANTIZED: Final = ("int8", "uint8", "int16")
#: Pairs of shapes, with all forms of broadcasting.
_PAIRS: Final[tuple[tuple[Shape, Shape], ...]] = (
    ((2, 3), (2, 3)),
    ((1, 4, 5, 3), (3,)),
    ((2, 1, 4), (1, 3, 1)),
    ((4, 3), ()),
)


def unary() -> Programs:
    """Iterate over functions of one element."""
    for operator, between in _UNARY.items():
        for shape in _SHAPES:
            same = ("float32", shape)
            yield one(operator, f"float32_{named(shape)}", [same], same, between=between)
    for operator in ("ABS", "NEG", "SIGN", "ZEROS_LIKE"):
        yield one(operator, "int32", [("int32", (2, 5))], ("int32", (2, 5)))
    for operator, dtypes in _QUANTIZED_UNARY.items():
        for dtype in dtypes:
            for shape in ((3, 40), (1, 4, 5, 3)):
                program = Program(operator, f"{dtype}_{named(shape)}")
                lowest = np.iinfo(dtype).min
                given = Quantized((0.03,), int(lowest)) if operator in _POSITIVE else None
                x = program.input(dtype, shape, quantized=given)
                result = _RESULT_OF.get((operator, dtype), OTHER[dtype])
                yield program.returns(program.apply(operator, [x], (dtype, shape, result)))


def rescaled_unary() -> Programs:
    """RELU and its kin between scales whose quotients are below and above 1, and halves."""
    for operator in ("RELU", "RELU6", "RELU_N1_TO_1"):
        for dtype in ("int8", "uint8"):
            for given, result in ((6 / 255, 8 / 255), (1 / 256, 4 / 255), (0.05, 0.01), (0.1, 0.2)):
                program = Program(operator, f"{dtype}_scale_{given:.4f}_to_{result:.4f}")
                zero = -128 if dtype == "int8" else 0
                x = program.input(dtype, (3, 40), quantized=Quantized((given,), zero))
                row = (dtype, (3, 40), Quantized((result,), zero + 20))
                yield program.returns(program.apply(operator, [x], row))


def with_options() -> Programs:
    """Iterate over functions of one element that have options."""
    for approximate in (False, True):
        kind = "tanh" if approximate else "exact"
        for shape in _SHAPES:
            result = ("float32", shape)
            name = f"float32_{kind}_{named(shape)}"
            yield one("GELU", name, [result], result, approximate=approximate)
        for dtype in ("int8", "uint8"):
            program = Program("GELU", f"{dtype}_{kind}")
            x = program.input(dtype, (3, 40))
            result8 = (dtype, (3, 40), OTHER[dtype])
            yield program.returns(program.apply("GELU", [x], result8, approximate=approximate))
    for alpha in (0.1, 0.5, 1.5):
        name = f"float32_alpha_{alpha}"
        yield one("LEAKY_RELU", name, [("float32", (2, 7))], ("float32", (2, 7)), alpha=alpha)
        for dtype in _QUANTIZED:
            program = Program("LEAKY_RELU", f"{dtype}_alpha_{alpha}")
            x = program.input(dtype, (3, 40))
            made = program.apply("LEAKY_RELU", [x], (dtype, (3, 40), OTHER[dtype]), alpha=alpha)
            yield program.returns(made)
    program = Program("LEAKY_RELU", "int16_scales")
    x = program.input("int16", (3, 40), quantized=Quantized((0.00065,)))
    made = program.apply("LEAKY_RELU", [x], ("int16", (3, 40), Quantized((0.00025,))), alpha=0.1)
    yield program.returns(made)
    for bits, narrow in ((8, False), (8, True), (16, False), (4, False)):
        given = [("float32", (4, 9))]
        name = f"float32_{bits}_bits_{'narrow' if narrow else 'full'}"
        options: dict[str, Any] = {
            "min": -1.5,
            "max": 2.0,
            "num_bits": bits,
            "narrow_range": narrow,
        }
        yield one("FAKE_QUANT", name, given, given[0], **options)
    for dtype in ("float32", "int8", "uint8"):
        program = Program("PRELU", dtype)
        x = program.input(dtype, (1, 4, 5, 3))
        slopes = {"float32": None, "int8": Quantized((0.01,), 4), "uint8": Quantized((0.01,), 99)}
        slope = program.random(dtype, (1, 1, 3), quantized=slopes[dtype])
        made = program.apply("PRELU", [x, slope], (dtype, (1, 4, 5, 3), OTHER.get(dtype)))
        yield program.returns(made)


#: Operator -> element types of its operands; those of the results are the same.
_BINARY: Final = {
    "ADD": ("float32", "int32", *_QUANTIZED),
    "SUB": ("float32", "int32", *_QUANTIZED),
    "MUL": ("float32", "int32", *_QUANTIZED),
    "DIV": ("float32", "int32", "uint8"),
    "MAXIMUM": ("float32", "int32", *_QUANTIZED),
    "MINIMUM": ("float32", "int32", *_QUANTIZED),
    "SQUARED_DIFFERENCE": ("float32", "int32", "int8"),
    "FLOOR_DIV": ("float32", "int32"),
    "FLOOR_MOD": ("float32", "int32"),
    "ATAN2": ("float32",),
}
#: Operators of equal quantisation on both sides.
_ONE_SCALE: Final = ("MAXIMUM", "MINIMUM")
_ACTIVATED: Final = ("ADD", "SUB", "MUL", "DIV")


def _pair(
    operator: str, dtype: str, shapes: tuple[Shape, Shape], name: str, **options: int
) -> Program:
    program = Program(operator, name)
    between = (1, 9) if operator in ("DIV", "FLOOR_DIV", "FLOOR_MOD") else None
    same = ACTIVATION.get(dtype) if operator in _ONE_SCALE else OTHER.get(dtype)
    x = program.input(dtype, shapes[0])
    y = program.input(dtype, shapes[1], between=between, quantized=same)
    result = np.broadcast_shapes(*shapes)
    if operator not in _ONE_SCALE and dtype in _QUANTIZED:
        zero = same.zero if same is not None else 0
        same = Quantized((0.0004 if dtype == "int16" else 0.07,), zero)
    if operator == "DIV" and dtype == "uint8":
        same = Quantized((0.02,), 90)
    made = program.apply(operator, [x, y], (dtype, result, same), **options)
    return program.returns(made)


def binary() -> Programs:
    """Iterate over functions of two elements, with broadcasting and with their activations."""
    for operator, dtypes in _BINARY.items():
        for dtype in dtypes:
            for shapes in _PAIRS[: 1 if operator == "ATAN2" else None]:
                name = f"{dtype}_{named(shapes[0])}_{named(shapes[1])}"
                yield _pair(operator, dtype, shapes, name)
    for operator in _ACTIVATED:
        for dtype in ("float32", "int32", "int8"):
            for activation, code in ACTIVATIONS.items():
                # No kernel of TFLite has tanh.
                if activation in ("none", "tanh") or dtype not in _BINARY[operator]:
                    continue
                shapes = ((3, 8), (3, 8))
                yield _pair(operator, dtype, shapes, f"{dtype}_{activation}", activation=code)
    for divisor in (3.0, -2.5):
        for operator in ("FLOOR_DIV", "FLOOR_MOD"):
            program = Program(operator, f"float32_by_{divisor:g}")
            x = program.input("float32", (2, 9), between=(-9, 9))
            y = program.constant([divisor], "float32")
            yield program.returns(program.apply(operator, [x, y], ("float32", (2, 9))))
    for operator in ("DIV", "FLOOR_DIV", "FLOOR_MOD"):
        program = Program(operator, "int32_by_-7")
        x = program.input("int32", (2, 9))
        y = program.constant([-7], "int32")
        yield program.returns(program.apply(operator, [x, y], ("int32", (2, 9))))


def powers() -> Programs:
    """POW with constants and with tensors, and sums of several tensors."""
    for exponent, between in ((2.0, (-3, 3)), (3.0, (-3, 3)), (0.5, (0, 9)), (-1.5, (0.2, 4))):
        program = Program("POW", f"float32_to_{exponent:g}")
        x = program.input("float32", (2, 9), between=between)
        y = program.constant(exponent, "float32")
        yield program.returns(program.apply("POW", [x, y], ("float32", (2, 9))))
    for shapes in _PAIRS[:2]:
        program = Program("POW", f"float32_{named(shapes[0])}_{named(shapes[1])}")
        x = program.input("float32", shapes[0], between=(0.2, 3))
        y = program.input("float32", shapes[1], between=(-2, 2))
        yield program.returns(program.apply("POW", [x, y], ("float32", shapes[0])))
    program = Program("POW", "int32")
    x = program.input("int32", (2, 5), between=(-5, 5))
    y = program.input("int32", (2, 5), between=(0, 4))
    yield program.returns(program.apply("POW", [x, y], ("int32", (2, 5))))
    for dtype in ("float32", "int32"):
        yield one("ADD_N", dtype, [(dtype, (2, 3))] * 3, (dtype, (2, 3)))


def comparisons() -> Programs:
    """Comparisons, and operators of truth values and of bits."""
    for operator in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
        dtypes = ["float32", "int32", "int8", "uint8"]
        if operator in ("EQUAL", "NOT_EQUAL"):
            dtypes.append("bool")
        for dtype in dtypes:
            for shapes in _PAIRS[:3]:
                program = Program(operator, f"{dtype}_{named(shapes[0])}_{named(shapes[1])}")
                few = (-3, 3) if dtype == "int32" else None
                x = program.input(dtype, shapes[0], between=few)
                y = program.input(dtype, shapes[1], between=few)
                result = ("bool", np.broadcast_shapes(*shapes))
                yield program.returns(program.apply(operator, [x, y], result))
    for operator in ("LOGICAL_AND", "LOGICAL_OR"):
        for shapes in _PAIRS[:3]:
            given = [("bool", shape) for shape in shapes]
            name = f"bool_{named(shapes[0])}_{named(shapes[1])}"
            yield one(operator, name, given, ("bool", np.broadcast_shapes(*shapes)))
    for shape in _SHAPES:
        yield one("LOGICAL_NOT", f"bool_{named(shape)}", [("bool", shape)], ("bool", shape))
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
        plain = Quantized(())
        for operator, most in (("BITWISE_XOR", None), ("RIGHT_SHIFT", 7)):
            program = Program(operator, dtype)
            x = program.input(dtype, (3, 6), quantized=plain)
            between = None if most is None else (0, most)
            y = program.input(dtype, (3, 6), between=between, quantized=plain)
            yield program.returns(program.apply(operator, [x, y], (dtype, (3, 6), plain)))
