"""Reductions, normalisations and sums along an axis."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import numpy as np
from frontends.tflite_operators.elementwise import OTHER
from frontends.tflite_operators.programs import Program, Programs, one
from frontends.tflite_operators.values import PLAIN, Given, Quantized, Result, Shape

_SHAPE: Final[Shape] = (2, 3, 4, 5)
#: Operator -> element types of it.
_REDUCTIONS: Final = {
    "MEAN": ("float32", "int8", "uint8", "int16"),
    "SUM": ("float32", "int32", "int8", "int16"),
    "REDUCE_PROD": ("float32", "int32"),
    "REDUCE_MAX": ("float32", "int32", "int8", "uint8", "int16"),
    "REDUCE_MIN": ("float32", "int32", "int8", "uint8", "int16"),
    "REDUCE_ANY": ("bool",),
    "REDUCE_ALL": ("bool",),
}
_AXES: Final = {"last": (-1,), "spatial": (1, 2), "first": (0,), "two": (0, 3)}
_ONE_SCALE: Final = ("REDUCE_MAX", "REDUCE_MIN")


def reductions() -> Programs:
    """Reductions along some axes, which stay or go."""
    for operator, dtypes in _REDUCTIONS.items():
        for dtype, (name, axes), keep in product(dtypes, _AXES.items(), (False, True)):
            if keep and name in ("first", "two"):
                continue
            result = tuple(np.empty(_SHAPE).sum(axes, keepdims=keep).shape)
            between = {"REDUCE_PROD": (0.5, 1.5) if dtype == "float32" else (-2, 2)}.get(operator)
            program = Program(operator, f"{dtype}_{name}" + ("_kept" if keep else ""))
            x = program.input(dtype, _SHAPE, between=between)
            other = None if operator in _ONE_SCALE else OTHER.get(dtype)
            if operator == "SUM" and other is not None:  # TFLite's sums do not saturate.
                count = np.prod(_SHAPE) // np.prod(result)
                other = Quantized((float(other.scales[0] * count),), 0)
            values = [x, program.constant(axes, "int32")]
            row = (dtype, result, other)
            yield program.returns(program.apply(operator, values, row, keep_dims=keep))


def positions() -> Programs:
    """ARG_MAX and ARG_MIN."""
    for operator in ("ARG_MAX", "ARG_MIN"):
        for dtype, axis in product(("float32", "int8", "uint8", "int32"), (0, 1, -1)):
            shape = [3, 4, 5]
            del shape[axis]
            yield one(
                *(operator, f"{dtype}_axis_{axis}", [(dtype, (3, 4, 5))]),
                ("int32", tuple(shape)),
                constants=[axis],
                output_type=2,
            )


def normalisations() -> Programs:
    """SOFTMAX, LOG_SOFTMAX, L2_NORMALIZATION and LOCAL_RESPONSE_NORMALIZATION."""
    results = {
        "int8": Quantized((1 / 256,), -128),
        "uint8": Quantized((1 / 256,)),
        "int16": Quantized((1 / 32768,)),
    }
    for shape in ((1, 10), (3, 7), (1, 2, 3, 5)):
        for dtype in ("float32", "int8", "uint8", "int16"):
            for beta in (1.0, 0.5):
                program = Program("SOFTMAX", f"{dtype}_rank_{len(shape)}_{shape[-1]}_beta_{beta:g}")
                x = program.input(dtype, shape)
                row: Result = (dtype, shape, results.get(dtype))
                yield program.returns(program.apply("SOFTMAX", [x], row, beta=beta))
        for dtype in ("float32", "int8", "uint8"):
            program = Program("LOG_SOFTMAX", f"{dtype}_rank_{len(shape)}_{shape[-1]}")
            x = program.input(dtype, shape)
            zero = {"int8": 127, "uint8": 255}.get(dtype, 0)
            row = (dtype, shape, None if dtype == "float32" else Quantized((16 / 256,), zero))
            yield program.returns(program.apply("LOG_SOFTMAX", [x], row))
            program = Program("L2_NORMALIZATION", f"{dtype}_rank_{len(shape)}_{shape[-1]}")
            x = program.input(dtype, shape)
            zero = {"uint8": 128}.get(dtype, 0)
            row = (dtype, shape, None if dtype == "float32" else Quantized((1 / 128,), zero))
            yield program.returns(program.apply("L2_NORMALIZATION", [x], row))
    given: Given = [("float32", (1, 3, 4, 8))]
    options: dict[str, Any] = {"radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 0.5}
    yield one("LOCAL_RESPONSE_NORMALIZATION", "float32", given, given[0], **options)


def along_axes() -> Programs:
    """Sums up to each element, the largest elements, and sums of segments."""
    for dtype, axis in product(("float32", "int32"), (0, 1, -1)):
        for exclusive, backwards in ((False, False), (True, False), (False, True), (True, True)):
            name = f"{dtype}_axis_{axis}" + "_exclusive" * exclusive + "_back" * backwards
            yield one(
                *("CUMSUM", name, [(dtype, (3, 4, 5))], (dtype, (3, 4, 5))),
                constants=[axis],
                exclusive=exclusive,
                reverse=backwards,
            )
    for dtype in ("float32", "int8", "int32"):
        rows: list[Result] = [(dtype, (2, 3)), ("int32", (2, 3))]
        yield one("TOPK_V2", dtype, [(dtype, (2, 9))], *rows, constants=[3])
    kinds = (f"UNSORTED_SEGMENT_{kind}" for kind in ("SUM", "PROD", "MAX", "MIN"))
    for operator in ("SEGMENT_SUM", *kinds):
        for dtype in ("float32", "int32"):
            segments: list[Any] = [[0, 0, 1, 2, 2]]
            if operator != "SEGMENT_SUM":
                segments = [[2, 0, 0, 2, -1], 3]
            given: Given = [(dtype, (5, 3))]
            yield one(operator, dtype, given, (dtype, (3, 3)), constants=segments)
    for dtype in ("float32", "int32"):
        yield one("MATRIX_DIAG", dtype, [(dtype, (2, 3))], (dtype, (2, 3, 3)))
        given = [(dtype, (2, 3, 3)), (dtype, (2, 3))]
        yield one("MATRIX_SET_DIAG", dtype, given, (dtype, (2, 3, 3)))
    program = Program("RFFT2D", "float32")
    x = program.input("float32", (4, 8))
    (spectrum,) = program.apply(
        "RFFT2D", [x, program.constant((4, 8), "int32")], ("complex64", (4, 5))
    )
    parts = [
        *program.apply("REAL", [spectrum], ("float32", (4, 5))),
        *program.apply("IMAG", [spectrum], ("float32", (4, 5))),
    ]
    yield program.returns(parts)
    for name in ("UNIQUE", "WHERE"):
        row: Result = ("int64", (3, 2)) if name == "WHERE" else ("int32", (6,))
        program = Program(name, "int32")
        x = program.input(
            "bool" if name == "WHERE" else "int32", (3, 2) if name == "WHERE" else (6,)
        )
        options = {} if name == "WHERE" else {"idx_out_type": 2}
        more: list[Result] = [] if name == "WHERE" else [("int32", (6,))]
        yield program.returns(program.apply(name, [x], row, *more, **options))
    bits = Program("BITCAST", "float32_to_int32")
    x = bits.input("float32", (2, 3))
    yield bits.returns(bits.apply("BITCAST", [x], ("int32", (2, 3), PLAIN)))
