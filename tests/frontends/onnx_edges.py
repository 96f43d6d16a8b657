"""Single operators of ONNX at the ends of every element type, and what onnxruntime computes of them.

`python tests/frontends/onnx_edges.py` records the results in onnx_edges.json.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import operator
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

RECORDED: Final = Path(__file__).with_name("onnx_edges.json")
SIGNED: Final = ("int8", "int16", "int32", "int64")
UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
FP8: Final = ("float8_e4m3fn", "float8_e5m2")
BITS: Final = ("int4", "uint4")
NUMBERS: Final = (*SIGNED, *UNSIGNED, *FLOATS[:3])
ALL: Final = ("bool", *NUMBERS, "float64", *FP8, *BITS)


class Case(NamedTuple):
    """A node. constants: the positions of the inputs that are initializers."""

    name: str
    kind: str
    inputs: Sequence[Any]
    attributes: Mapping[str, Any] = {}
    opset: int = 22
    constants: tuple[int, ...] = ()
    outputs: int = 1


def dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name if name != "bool" else "bool"))


def limits(name: str) -> tuple[int, int]:
    info: Any = ml_dtypes.iinfo(dtype(name))  # type: ignore[no-untyped-call]
    return int(info.min), int(info.max)


def edges(name: str) -> Any:
    """Return the ends of a type, and numbers between them."""
    if name == "bool":
        return np.array([False, True, True])
    if name in (*SIGNED, *UNSIGNED, *BITS):
        low, high = limits(name)
        middle = high // 2 + 1
        found = [low, low + 1, -3, -1, 0, 1, 2, 7, middle - 1, middle, high - 1, high]
        return (
            np.array([v for v in dict.fromkeys(found) if low <= v <= high]).astype(dtype(name))
            if name != "uint64"
            else np.array([v for v in dict.fromkeys(found) if v >= 0], np.uint64)
        )
    most = float(ml_dtypes.finfo(dtype(name)).max)  # type: ignore[no-untyped-call]
    real = [math.nan, math.inf, -math.inf, most, -most, 0.0, -0.0, 0.25, 0.5, -0.5, 0.75, -0.75]
    real += [1, -1, 1.5, -1.5, 2.5, -2.5, 3, 5, -12, 30, 88, 100, -100, 2**-7, -(2**-7)]
    with np.errstate(all="ignore"):
        return np.array(real).astype(dtype(name))


def pairs(name: str, other: str = "") -> tuple[Any, Any]:
    a, b = edges(name), edges(other or name)
    return np.repeat(a, len(b)), np.tile(b, len(a))


def exact(a: Any) -> Any:
    """Return an array of any type as one of Python's numbers."""
    return np.array(
        [
            v
            if isinstance(v, bool)
            else (int(v) if float(v) == v and a.dtype.kind in "iu" else float(v))
            for v in a.tolist()
        ],
        object,
    )


def casts() -> Iterator[Case]:
    """Casts between every pair of types. A float beyond INT32 or a NaN has no integer in ONNX."""
    for source, target in itertools.product(ALL, ALL):
        if source == target:
            continue
        values = edges(source)
        if source in (*FLOATS, *FP8):
            more = [
                0.49,
                -0.49,
                0.51,
                -0.51,
                1.99,
                -1.99,
                127,
                128,
                200.7,
                255,
                256,
                300.6,
                -129,
                -300,
                32768,
                40.7,
            ]
            more += [65535, 65536, 70000.5, -40000.5, 448, 464, 465, 500, -500, 57344, 61440, 1e6]
            with np.errstate(all="ignore"):
                values = (
                    values[abs(values.astype(np.float64)) < 1e39] if source == "float64" else values
                )
                values = np.concatenate([values, np.array(more).astype(dtype(source))])
            if target == "bool" and source in FP8:
                values = values[values.astype(np.float32) != 0]
            if target in (*SIGNED, *UNSIGNED, *BITS):
                kept = np.isfinite(values.astype(np.float64)) & (
                    abs(values.astype(np.float64)) < 2**31
                )
                if target in ("uint32", "uint64"):
                    kept &= values.astype(np.float64) > -1
                values = values[kept]
        kind = to_onnx(target)
        yield Case(f"Cast {source} {target}", "Cast", [values], {"to": kind}, 21)
        if target in FP8 and source in FLOATS:
            yield Case(
                f"Cast {source} {target} wraps", "Cast", [values], {"to": kind, "saturate": 0}, 21
            )


def to_onnx(name: str) -> int:
    names = {"bool": 9, "int8": 3, "int16": 5, "int32": 6, "int64": 7, "uint8": 2, "uint16": 4}
    names |= {
        "uint32": 12,
        "uint64": 13,
        "float16": 10,
        "bfloat16": 16,
        "float32": 1,
        "float64": 11,
    }
    names |= {"float8_e4m3fn": 17, "float8_e5m2": 19, "int4": 22, "uint4": 21}
    return names[name]


_OF_REALS: Final[list[tuple[str, int, dict[str, Any]]]] = [
    *(
        (kind, 13, {})
        for kind in (
            "Ceil",
            "Floor",
            "Reciprocal",
            "Sqrt",
            "Exp",
            "Log",
            "Sigmoid",
            "Tanh",
            "Erf",
            "IsNaN",
        )
    ),
    *(
        (kind, 22, {})
        for kind in (
            "Round",
            "Softsign",
            "Sin",
            "Cos",
            "Atan",
            "Sinh",
            "Cosh",
            "Asinh",
            "Acosh",
            "Atanh",
            "Asin",
            "Acos",
            "Tan",
            "Mish",
            "HardSwish",
            "HardSigmoid",
            "Softplus",
            "Elu",
            "Selu",
            "ThresholdedRelu",
        )
    ),
    ("Softplus", 1, {}),
    ("Softplus", 18, {}),
    ("Softplus", 20, {}),
    ("IsInf", 20, {}),
    ("IsInf", 20, {"detect_negative": 0}),
    *(("LeakyRelu", 16, {"alpha": alpha}) for alpha in (0.0, 0.01, 2.0, -1.0)),
    *(("Celu", 12, {"alpha": alpha}) for alpha in (1.0, 2.0, -1.0)),
    ("Elu", 22, {"alpha": -0.5}),
    ("Elu", 22, {"alpha": 0.0}),
    ("HardSigmoid", 22, {"alpha": -0.5, "beta": 0.25}),
    ("Selu", 22, {"alpha": -1.0, "gamma": 2.0}),
    ("ThresholdedRelu", 22, {"alpha": -1.0}),
    ("Gelu", 20, {}),
    ("Gelu", 20, {"approximate": "tanh"}),
    ("Softmax", 13, {}),
    ("LogSoftmax", 13, {}),
    ("Hardmax", 13, {}),
]


_FIRST_OPEN: Final = (("Abs", "int64"), ("Neg", "int64"), ("Sign", "float16"))


def unary() -> Iterator[Case]:
    for kind, opset in (
        ("Abs", 13),
        ("Neg", 13),
        ("Sign", 13),
        ("Relu", 14),
        ("BitwiseNot", 18),
        ("Identity", 21),
    ):
        for name in NUMBERS:
            if not (kind == "BitwiseNot" and name in FLOATS):
                # A least INT64 has no magnitude in TOSA.
                # onnxruntime's Sign of an FP16 that is NaN is 0, of an FP32 NaN.
                values = edges(name)[1:] if (kind, name) in _FIRST_OPEN else edges(name)
                yield Case(f"{kind} {name}", kind, [values], {}, opset)
    for name in FLOATS[:3]:
        for number, (kind, opset, attributes) in enumerate(_OF_REALS):
            values = edges(name)
            if kind == "Softplus" and name == "float16":  # onnxruntime's own overflows from 12 on.
                values = values[~(values > 5)]
            if kind in ("Sin", "Cos", "Tan"):
                values = values[~(abs(values.astype(np.float64)) > 1000)]
            if kind in ("Softmax", "LogSoftmax"):
                values = np.stack(
                    [
                        np.where(
                            np.isfinite(v.astype(np.float32)) | np.isneginf(v.astype(np.float32)),
                            v,
                            v.dtype.type(0),
                        )
                        for v in (values, values[::-1])
                    ]
                )
            if kind == "Hardmax":
                values = values[1:]
            yield Case(f"{kind} {name} {number}", kind, [values], attributes, opset)
    yield Case("Not", "Not", [edges("bool")])


def clips() -> Iterator[Case]:
    for name in NUMBERS:
        # onnxruntime has no Clip of BF16; ONNX's reference keeps infinities, unlike it.
        x = np.delete(edges(name), [1, 2]) if name == "bfloat16" else edges(name)
        low, high = (np.array(v).astype(x.dtype) for v in (2, 5))
        yield Case(f"Clip {name} low", "Clip", [x, low], {}, 13, (1,))
        yield Case(f"Clip {name} high", "Clip", [x, None, high], {}, 13, (2,))
        yield Case(f"Clip {name} both", "Clip", [x, low, high], {}, 13, (1, 2))
        yield Case(f"Clip {name} computed", "Clip", [x, low, high], {}, 13)
        if name in UNSIGNED:
            yield Case(f"Clip {name} upper", "Clip", [x, x[-4], x[-2]], {}, 13, (1, 2))


def binary() -> Iterator[Case]:
    for name in NUMBERS:
        a, b = pairs(name)
        for kind in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "Max", "Min"):
            yield Case(f"{kind} {name}", kind, [a, b], {}, 16 if "Or" in kind else 13)
        if name == "int64":
            a, b = (side.astype(np.int64) for side in pairs("int32"))
        left, right = exact(a), exact(b)
        whole = name not in FLOATS
        for kind, function in (("Add", operator.add), ("Sub", operator.sub), ("Mul", operator.mul)):
            kept = np.ones(len(a), bool)
            if name in ("int32", "int64"):  # What wraps is undefined in TOSA.
                low, high = limits("int32")
                kept = np.array(
                    [low <= function(p, q) <= high for p, q in zip(left, right, strict=True)]
                )
            yield Case(f"{kind} {name}", kind, [a[kept], b[kept]], {}, 14)
        kept = (
            np.array(
                [
                    q != 0 and not (q == -1 and p in (limits(name)[0], limits("int32")[0]))
                    for p, q in zip(left, right, strict=True)
                ]
            )
            if whole
            else np.ones(len(a), bool)
        )
        yield Case(f"Div {name}", "Div", [a[kept], b[kept]], {}, 14)
        kept = kept if whole else np.isfinite(a.astype(np.float64)) & (b.astype(np.float64) != 0)
        yield Case(f"Mod {name} f", "Mod", [a[kept], b[kept]], {"fmod": 1}, 13)
        if whole:
            yield Case(f"Mod {name}", "Mod", [a[kept], b[kept]], {}, 13)
            for kind in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
                yield Case(f"{kind} {name}", kind, [a, b], {}, 18)


def shifts() -> Iterator[Case]:
    for name in UNSIGNED:
        a = edges(name)
        by = np.array([0, 1, 3, a.dtype.itemsize * 8 - 1]).astype(a.dtype)
        x, s = np.repeat(edges(name), 4), np.tile(by, len(edges(name)))
        for way in ("LEFT", "RIGHT"):
            yield Case(f"BitShift {name} {way}", "BitShift", [x, s], {"direction": way}, 11)
            yield Case(
                f"BitShift {name} {way} by 1",
                "BitShift",
                [edges(name), by[1:2]],
                {"direction": way},
                11,
                (1,),
            )


def powers() -> Iterator[Case]:
    for kind in ("And", "Or", "Xor", "Equal"):
        yield Case(f"{kind} bool", kind, list(pairs("bool")), {}, 13)
    for a_name, b_name in itertools.product(
        ("int32", "int64", "float32", "float16"), ("int32", "int64", "float32")
    ):
        if a_name.startswith("int"):
            a, b = (
                np.array([4097, 7, 1001, -3, -2, 0, 1, 46340, 2, -1]),
                np.array([2, 10, 3, 5, 31, 0, 9, 2, 30, 7]),
            )
        else:
            a, b = (
                np.array([2, 0.5, 7, 3, 0, 1.5, 4, 9]),  # TOSA's POW takes no others.
                np.array([3, 2, 2, 3, 1, 0, -1, 2]),
            )
        yield Case(f"Pow {a_name} {b_name}", "Pow", [a.astype(a_name), b.astype(b_name)], {}, 15)
        for power in (0, 1, 2, 3, -1, 7):
            yield Case(
                f"Pow {a_name} {b_name} {power}",
                "Pow",
                [np.array([-3, 2, 7, 5]).astype(a_name), np.array(power).astype(b_name)],
                {},
                15,
                (1,),
            )
    for name in ("int32", "int64", "float32"):
        places = np.array([0, -7, -8, 9, -10, 3, *([10, -11] if name == "int64" else [])])
        values = np.array([1, 3], np.float32)
        yield Case(
            f"OneHot {name}", "OneHot", [places.astype(name), np.int64(10), values], {}, 11, (1, 2)
        )
    yield Case("Pow zero", "Pow", [edges("float32"), np.float32(0)], {}, 15, (1,))
    yield Case("Pow two", "Pow", [edges("float32"), np.float32(2)], {}, 15, (1,))
    yield Case("Pow half", "Pow", [edges("float32"), np.float32(0.5)], {}, 15, (1,))
    real = edges("float32")
    real = real[(real > 0) & np.isfinite(real)]
    yield Case(
        "Pow computed",
        "Pow",
        [np.repeat(real, 4), np.resize([0, 1, 2, 0.5], 4 * len(real)).astype(np.float32)],
        {},
        15,
    )
    big = np.array([1e10, 3, -1e10, 16777217, 1e30, 5.5, -5.5, 7, -7, -0.0, 512], np.float32)
    yield Case(
        "Mod large",
        "Mod",
        [big, np.array([3, np.inf, 7, 3, 0.7, 2, 2, -np.inf, 3, 3, 5], np.float32)],
        {"fmod": 1},
        13,
    )
    yield Case(
        "Mod tenth",
        "Mod",
        [np.array([0.5, 1, 3, -0.3], np.float32), np.float32(0.1)],
        {"fmod": 1},
        13,
    )


def reductions() -> Iterator[Case]:
    for name in NUMBERS:
        x = edges(name)
        if name in FLOATS:
            x = x[1:]
        x = np.stack([x, x[::-1]])
        ends = (
            edges(name)[[-2, -1]]
            if name not in FLOATS
            else np.array([-np.inf, np.inf]).astype(x.dtype)
        )
        least = (
            edges(name)[[1, 0]] if name not in FLOATS else np.array([1, -np.inf]).astype(x.dtype)
        )
        low = edges(name)[[0, 1]] if name not in FLOATS else np.array([-np.inf, 1]).astype(x.dtype)
        near = np.stack([ends, least, low, ends[::-1]])
        for kind in ("ReduceMax", "ReduceMin"):
            yield Case(f"{kind} {name}", kind, [x, np.array([1])], {}, 20, (1,))
            yield Case(f"{kind} {name} all", kind, [x], {"keepdims": 0}, 20)
        small = np.array([[1, 2, 3, 5], [0, 7, 2, 1]]).astype(x.dtype)
        for kind in (
            "ReduceSum",
            "ReduceProd",
            "ReduceMean",
            "ReduceL1",
            "ReduceL2",
            "ReduceSumSquare",
            "ReduceLogSum",
            "ReduceLogSumExp",
        ):
            yield Case(f"{kind} {name}", kind, [small, np.array([1])], {}, 18, (1,))
        yield from _moved(name, x, near, small)


def _moved(name: str, x: Any, near: Any, small: Any) -> Iterator[Case]:
    for kind in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            yield Case(
                f"{kind} {name} {last}", kind, [near], {"axis": 1, "select_last_index": last}, 13
            )
        yield Case(f"{kind} {name} ends", kind, [x], {"axis": 1, "keepdims": 0}, 13)
    for largest in (0, 1):
        yield Case(
            f"TopK {name} {largest}", "TopK", [x, np.array([3])], {"largest": largest}, 11, (1,), 2
        )
    yield Case(f"CumSum {name}", "CumSum", [small, np.array(1)], {}, 14, (1,))
    yield Case(f"Where {name}", "Where", [edges("bool")[:2], x[:, :2], x[:, -2:]], {}, 16)
    yield Case(f"Gather {name}", "Gather", [x[0], np.array([0, -1, 1])], {}, 13)
    for how in ("add", "mul", "max", "min") if name in ("uint8", "int32", "float32") else ():
        yield Case(
            f"ScatterElements {name} {how}",
            "ScatterElements",
            [
                x[0][:4],
                np.array([0, 1, 3]),
                x[1][:3] if how[0] == "m" and how != "mul" else small[0][:3],
            ],
            {"reduction": how},
            18,
            (1,),
        )


def pools() -> Iterator[Case]:
    for name in ("int8", "uint8", *FLOATS[:3]):
        image = np.resize(edges(name)[1:], (1, 1, 4, 6))
        for pads in ([0] * 4, [1, 1, 1, 1]):
            yield Case(
                f"MaxPool {name} {pads[0]}",
                "MaxPool",
                [image],
                {"kernel_shape": [2, 2], "strides": [2, 2], "pads": pads},
                22,
            )
        yield Case(f"MaxPool {name} line", "MaxPool", [image[0]], {"kernel_shape": [3]}, 22)
        yield Case(f"GlobalMaxPool {name}", "GlobalMaxPool", [image])
    for name in ("float16", "float32", "bfloat16"):
        wide = np.array(
            [[100, -np.inf, 5, 90], [-np.inf] * 4, [np.inf, 1, 2, 3], [12, 11, 12, 12]]
        ).astype(dtype(name))
        for opset in (13, 18):
            inputs, attributes, constants = (
                ([wide, np.array([1])], {}, (1,)) if opset == 18 else ([wide], {"axes": [1]}, ())
            )
            yield Case(
                f"ReduceLogSumExp {name} wide {opset}",
                "ReduceLogSumExp",
                inputs,
                attributes,
                opset,
                constants,
            )


_QUANTISED: Final = (
    *(
        500,
        -1000,
        100,
        0.5,
        1.5,
        2.5,
        -0.5,
        -2.5,
        300,
        57344,
        61441,
        1e9,
        -1e9,
        np.inf,
        -np.inf,
        448,
    ),
    464,
)


def quantised() -> Iterator[Case]:
    x = np.array(_QUANTISED, np.float32)
    for target, (real, opset) in itertools.product(
        ("int8", "uint8", "int16", "uint16", *FP8, *BITS),
        (("float32", 21), ("float16", 21), ("float32", 19)),
    ):
        for zero in (0, 3):
            z = np.array(zero).astype(dtype(target))
            values = x.astype(real) if target in FP8 else x[:8].astype(real)
            with np.errstate(all="ignore"):
                yield Case(
                    f"QuantizeLinear {real} {target} {zero} {opset}",
                    "QuantizeLinear",
                    [values, np.array(1).astype(real), z],
                    {},
                    opset,
                    (1, 2),
                )
                yield Case(
                    f"QuantizeLinear {real} {target} {zero} {opset} axis",
                    "QuantizeLinear",
                    [
                        np.stack([values, values]),
                        np.array([0.5, 2]).astype(real),
                        np.array([zero, zero]).astype(dtype(target)),
                    ],
                    {"axis": 0},
                    opset,
                    (1, 2),
                )
        if real == "float32":
            yield Case(
                f"DequantizeLinear {target} {opset}",
                "DequantizeLinear",
                [edges(target), np.float32(0.5), np.array(1).astype(dtype(target))],
                {},
                opset,
                (1, 2),
            )


def quantised_otherwise() -> Iterator[Case]:
    x = np.array(_QUANTISED, np.float32)
    for target in FP8:
        yield Case(
            f"QuantizeLinear {target} wraps",
            "QuantizeLinear",
            [x[:10], np.float32(1), np.zeros((), dtype(target))],
            {"saturate": 0},
            19,
            (1, 2),
        )
    for pair in ([0.0, 0.0], [1.0, 2.0], [-3.0, -1.0], [-1.0, 254.0], [0.5, 2.5]):
        yield Case(
            f"DynamicQuantizeLinear {pair}",
            "DynamicQuantizeLinear",
            [np.array(pair, np.float32)],
            {},
            11,
            (),
            3,
        )


def forms() -> Iterator[Case]:
    """Forms that the inference of shapes and the bodies of functions describe in another way."""
    random = np.random.default_rng(0)
    for kind, (size, kernel, stride, pad, include) in itertools.product(
        ("AveragePool", "MaxPool", "LpPool"),
        [
            ((5, 5), 2, 2, (1, 1), 0),
            ((5, 4), 2, 2, (1, 1), 1),
            ((7, 6), 3, 2, (1, 0), 0),
            ((6, 6), 3, 3, (1, 1), 0),
            ((7, 7), 3, 2, (0, 0), 1),
            ((8, 5), 3, 4, (1, 2), 1),
            ((5,), 2, 2, (1, 1), 0),
            ((4, 5, 5), 2, 2, (1, 1), 0),
            ((5, 5), 2, 2, (0, 1), 1),
            ((9, 9), 3, 3, (0, 2), 0),
        ],
    ):
        given = {
            "kernel_shape": [kernel] * len(size),
            "strides": [stride] * len(size),
            "pads": [pad[0]] * len(size) + [pad[1]] * len(size),
            "ceil_mode": 1,
        }
        if kind == "AveragePool":
            given["count_include_pad"] = include
        x = random.standard_normal((1, 2, *size)).astype(np.float32)
        for opset in (19, 22):
            yield Case(
                f"{kind} ceil {size} {kernel} {stride} {pad} {include} {opset}",
                kind,
                [x],
                given,
                opset,
            )


def choices() -> Iterator[Case]:
    random = np.random.default_rng(1)
    x = random.standard_normal((2, 3, 4)).astype(np.float32)
    for kind, opset, axis in itertools.product(
        ("Hardmax", "Softmax", "LogSoftmax"), (7, 11, 13), (0, 1, 2, -1)
    ):
        if opset >= 11 or axis >= 0:
            yield Case(f"{kind} {opset} {axis}", kind, [x], {"axis": axis}, opset)
    for opset in (7, 11, 13):
        yield Case(f"Hardmax {opset}", "Hardmax", [x], {}, opset)
        yield Case(f"Hardmax {opset} ties", "Hardmax", [np.round(x)], {}, opset)
    for kind, gates, way, clip in itertools.product(
        ("LSTM", "GRU", "RNN"), (4,), ("forward", "reverse", "bidirectional"), (0.0, 0.3, 0.1)
    ):
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
        n = 1 + (way == "bidirectional")
        w = [
            0.7 * random.standard_normal(s)
            for s in ((5, 2, 3), (n, gates * 2, 3), (n, gates * 2, 2), (n, gates * 4))
        ]
        given = {"hidden_size": 2, "direction": way, **({"clip": clip} if clip else {})}
        yield Case(
            f"{kind} {way} {clip}", kind, [a.astype(np.float32) for a in w], given, 14, (1, 2, 3), 2
        )


def layers() -> Iterator[Case]:
    random = np.random.default_rng(2)
    row = np.arange(6, dtype=np.float32).reshape(1, 6)
    for pads in ([0, -1, 0, 2], [0, 2, 0, -1], [0, -2, 0, -1], [0, 7, 0, 8], [0, -3, 0, 4]):
        for mode in ("wrap", "reflect", "edge", "constant"):
            if not (mode == "reflect" and max(pads) > 5):
                yield Case(
                    f"Pad {mode} {pads}", "Pad", [row, np.array(pads)], {"mode": mode}, 19, (1,)
                )
    q, k, v = (random.standard_normal((1, 2, 4, 8)).astype(np.float32) for _ in range(3))
    mask = np.where(np.tri(4, dtype=bool), 0, -np.inf).astype(np.float32)
    for number, (given, masks) in enumerate(
        itertools.product(
            ({}, {"softcap": 2.0}, {"is_causal": 1}, {"softcap": 0.5, "is_causal": 1}),
            ([], [mask], [np.tri(4, dtype=bool)], [0.5 * q[0, 0, :, :4]]),
        )
    ):
        for opset in (23, 24):
            yield Case(f"Attention {number} {opset}", "Attention", [q, k, v, *masks], given, opset)


def all_cases() -> list[Case]:
    makers: Any = (casts, unary, clips, binary, shifts, powers, reductions, pools, quantised)
    makers += (quantised_otherwise, forms, choices, layers)
    with np.errstate(all="ignore"):
        return [case for make in makers for case in make()]


def model(case: Case, *, through: bool = False) -> Any:
    """Return the model of a case. through: types that numpy lacks come in and go out as FP32."""
    from onnx import TensorProto, helper, numpy_helper, shape_inference

    names = [f"x{index}" if x is not None else "" for index, x in enumerate(case.inputs)]
    outputs = [f"y{index}" for index in range(case.outputs)]
    nodes = [helper.make_node(case.kind, names, outputs, name="node", **case.attributes)]
    tensors = [
        numpy_helper.from_array(np.asarray(case.inputs[index]), names[index])
        for index in case.constants
    ]
    given = {
        name: np.asarray(x)
        for index, (name, x) in enumerate(zip(names, case.inputs, strict=True))
        if name and index not in case.constants
    }
    kinds = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in given.items()}
    sets = [helper.make_opsetid("", case.opset)]
    infos = [helper.make_tensor_value_info(name, kinds[name], x.shape) for name, x in given.items()]
    graph = helper.make_graph(
        nodes,
        "graph",
        infos,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        tensors,
    )
    made = helper.make_model(graph, opset_imports=sets, ir_version=10)
    inferred = shape_inference.infer_shapes(made)
    for info, found in zip(made.graph.output, inferred.graph.output, strict=True):
        info.type.tensor_type.elem_type = found.type.tensor_type.elem_type
    if not through:
        return made
    graph = made.graph
    for info in graph.input:
        if kinds[info.name] in _FOREIGN:
            inner = f"{info.name}/inner"
            graph.node.insert(
                0, helper.make_node("Cast", [info.name], [inner], to=kinds[info.name], saturate=0)
            )
            for one in graph.node[1:]:
                one.input[:] = [
                    inner if name == info.name and inner not in one.output else name
                    for name in one.input
                ]
            info.type.tensor_type.elem_type = TensorProto.FLOAT
    last = graph.node[-1]
    for info in graph.output:
        if info.type.tensor_type.elem_type in _FOREIGN:
            inner = f"{info.name}/inner"
            last.output[:] = [inner if name == info.name else name for name in last.output]
            graph.node.append(helper.make_node("Cast", [inner], [info.name], to=TensorProto.FLOAT))
            info.type.tensor_type.elem_type = TensorProto.FLOAT
    made.opset_import[0].version = max(case.opset, 19)
    return made


#: Of these the results of onnx's own reference are not exact.
INEXACT: Final = {kind for kind, *_ in _OF_REALS} | {
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceL2",
    "ReduceMean",
    "Div",
    "Mod",
}
#: BFLOAT16, the types of 8 bits, INT4 and UINT4.
_FOREIGN: Final = frozenset((16, 17, 18, 19, 20, 21, 22))


def judged(case: Case) -> list[Any] | None:
    """Return what onnxruntime computes; None if it does not run the operator of these types."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    plain = model(case)
    foreign = {
        info.name: info.type.tensor_type.elem_type in _FOREIGN
        for info in (*plain.graph.input, *plain.graph.output)
    }
    made = model(case, through=True) if any(foreign.values()) else plain
    fed = {info.name: np.asarray(case.inputs[int(info.name[1:])]) for info in plain.graph.input}
    fed = {name: x.astype(np.float32) if foreign[name] else x for name, x in fed.items()}
    try:
        session = onnxruntime.InferenceSession(
            made.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        found = session.run(None, fed)
    except Exception as error:  # It has exceptions of its own for each reason.
        if "-v" in sys.argv:
            print(case.name, str(error)[:200])
        return _by_reference(case, plain) if case.kind not in INEXACT else None
    from onnx import helper

    kinds = [
        helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        for info in plain.graph.output
    ]
    return [np.asarray(x).astype(kind) for x, kind in zip(found, kinds, strict=True)]


def _by_reference(case: Case, made: Any) -> list[Any] | None:
    from onnx.reference import ReferenceEvaluator

    try:
        found = ReferenceEvaluator(made).run(
            None,
            {info.name: np.asarray(case.inputs[int(info.name[1:])]) for info in made.graph.input},
        )
    except Exception:
        return None
    return [np.asarray(x) for x in found]


def packed(arrays: Sequence[Any]) -> list[list[Any]]:
    return [
        [
            str(x.dtype),
            list(x.shape),
            base64.b64encode(zlib.compress(np.ascontiguousarray(x).tobytes(), 9)).decode(),
        ]
        for x in arrays
    ]


def unpacked(rows: Sequence[Any]) -> list[Any]:
    return [
        np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype(kind)).reshape(shape)
        for kind, shape, text in rows
    ]


def main() -> None:
    with np.errstate(all="ignore"):
        found = {case.name: judged(case) for case in all_cases()}
    rows = {name: packed(arrays) for name, arrays in found.items() if arrays is not None}
    print(len(found), "cases, of which onnxruntime runs", len(rows))
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    RECORDED.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
