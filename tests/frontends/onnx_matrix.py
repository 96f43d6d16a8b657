"""Nodes of ONNX for the matrix of operators and element types, and how they are lowered.

An expression calls operators: `Clip(x, of(1), None, opset=13)` has a constant in the type of `x` and
leaves an operand out. `opset` is that of the model, and `results` says how many results there are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from frontends.matrix import FLOATS, SIGNED, WHOLE_BITS, Row, dtype
from onnx import TensorProto, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

import tosa_convert as tc
from tosa_convert.errors import fail
from tosa_convert.frontends.onnx.convert import lower_model
from tosa_convert.frontends.onnx.weights import Weights

INDEX: Final = "int64"
WIDE: Final = ("int64", "uint64", "float64")
FLUSHES: Final = False
REFUSALS: Final = (tc.TosaConvertError,)
_UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
_WHOLE: Final = (*SIGNED, *_UNSIGNED)
_HALF: Final = ("float16", "bfloat16")
_REAL: Final = (*_HALF, "float32")
_NUMBERS: Final = (*_WHOLE, *_REAL)
_FP8: Final = ("float8_e4m3fn", "float8_e5m2")
_ALL: Final = ("bool", *_NUMBERS, "float64", *_FP8, *WHOLE_BITS)
#: Types, and by how many units of the last place functions of them may differ.
_NEAR: Final = ((_HALF, 2), (("float32",), 84))


def _casts(targets: Sequence[str], more: str = "") -> str:
    return "; ".join(f'Cast(x, to="{target}"{more})' for target in targets)


TABLE: Final = (
    # A float beyond INT32 or a NaN has no integer in ONNX, a negative one no unsigned one.
    Row(_casts((*SIGNED, "uint8", "uint16", *WHOLE_BITS)), "whole", _ALL),
    Row('Cast(x, to="bool")', "whole", ("bool", *_NUMBERS, "float64", *WHOLE_BITS)),
    Row(_casts(("uint32", "uint64")), "whole", ("bool", *_WHOLE, *WHOLE_BITS)),
    Row(_casts(("uint32", "uint64")), "40:p", (*FLOATS, *_FP8)),
    Row(_casts((*FLOATS, *_FP8)), "ends", _ALL),
    Row(_casts(_FP8, ", saturate=0, opset=21"), "ends", FLOATS),
    Row("Abs(x); Neg(x); Relu(x); Identity(x)", "ends", _NUMBERS),
    # onnxruntime's Sign of an FP16 that is NaN is 0, of an FP32 NaN.
    Row("Sign(x)", "ends", (*_WHOLE, "float32")),
    Row("BitwiseNot(x)", "ends", _WHOLE),
    Row("Not(x)", "ends", ("bool",)),
    Row(
        """Ceil(x); Floor(x); Round(x); IsNaN(x); IsInf(x); IsInf(x, detect_negative=0);
        IsInf(x, detect_positive=0); IsInf(x, detect_negative=0, detect_positive=0)""",
        "ends",
        _REAL,
    ),
    *(
        Row(
            """Reciprocal(x); Sqrt(x); Exp(x); Log(x); Sigmoid(x); Tanh(x); Erf(x); Softsign(x);
            Atan(x); Asinh(x); Acosh(x); Atanh(x); Asin(x); Acos(x); HardSwish(x);
            HardSigmoid(x); HardSigmoid(x, alpha=-0.5, beta=0.25); Elu(x); Elu(x, alpha=-0.5);
            Elu(x, alpha=0.0); Selu(x); Selu(x, alpha=-1.0, gamma=2.0); ThresholdedRelu(x);
            ThresholdedRelu(x, alpha=-1.0); Gelu(x); Gelu(x, approximate="tanh"); Mish(x);
            LeakyRelu(x, alpha=0.0); LeakyRelu(x); LeakyRelu(x, alpha=2.0); LeakyRelu(x, alpha=-1.0);
            Celu(x); Celu(x, alpha=2.0); Celu(x, alpha=-1.0); Shrink(x, lambd=1.0, bias=0.5);
            Swish(x, opset=24)""",
            "usual",
            types,
            near,
            1,
        )
        for types, near in _NEAR
    ),
    *(
        Row(
            """Sin(x); Cos(x); Tan(x); Sinh(x); Cosh(x); Softplus(x, opset=1); Softplus(x);
            Softplus(x, opset=18)""",
            "40",
            types,
            near,
            1,
        )
        for types, near in _NEAR
    ),
    *(
        Row(
            "; ".join(
                f"{kind}(x, axis={axis}, opset={opset})"
                for kind in ("Softmax", "LogSoftmax", "Hardmax")
                for opset, axes in ((7, (0, 1, 2)), (11, (0, 1, 2, -1)), (13, (0, 1, 2, -1)))
                for axis in axes
            ),
            "2,3,4",
            types,
            near,
            1,
        )
        for types, near in _NEAR
    ),
    Row(
        "Clip(x, of(2)); Clip(x, None, of(5)); Clip(x, of(2), of(5)); Clip(x, of(5), of(2))",
        "ends",
        (*_WHOLE, "float16", "float32"),  # onnx's reference keeps infinities of others.
    ),
    Row("Max(x, of(2)); Min(x, of(2)); Where(Equal(x, of(2)), x, of(5))", "ends", _NUMBERS),
    Row("Clip(x, y, z)", "2,3 . .", _NUMBERS),
    Row(
        """Greater(x, y); GreaterOrEqual(x, y); Less(x, y); LessOrEqual(x, y); Equal(x, y);
        Max(x, y); Min(x, y)""",
        "pairs",
        _NUMBERS,
    ),
    Row("BitwiseAnd(x, y); BitwiseOr(x, y); BitwiseXor(x, y)", "pairs", _WHOLE),
    Row("And(x, y); Or(x, y); Xor(x, y); Equal(x, y)", "pairs", ("bool",)),
    # What leaves 32 bits is undefined in TOSA.
    Row("Add(x, y); Sub(x, y); Mul(x, y)", "pairs", ("int8", "int16", "int64", *_UNSIGNED, *_REAL)),
    Row(
        "Add(x, y); Sub(x, y); Mul(x, y); Sum(x, y, x)", "2,3,4 3,1", ("int32", "int64", "float32")
    ),
    Row("Div(x, y)", "divisors", _NUMBERS, 84),
    Row("Mod(x, y); Mod(x, y, fmod=1)", "divisors", _WHOLE),
    Row("Mod(x, y, fmod=1)", "3,7 3,7:p", _REAL, 16),
    Row("Mod(x, 0.1, fmod=1); Mod(x, 3e9, fmod=1)", "usual", ("float32",), 16),
    Row(
        """BitShift(x, y, direction="LEFT"); BitShift(x, y, direction="RIGHT");
        BitShift(x, of(1), direction="LEFT"); BitShift(x, of(1), direction="RIGHT")""",
        "shifts",
        _UNSIGNED,
    ),
    Row(
        "; ".join(f"Pow(x, {number})" for number in (0, 1, 2, 3, 7, -1, 0.0, 1.0, 2.0, 3.0, -1.0)),
        "3,7",
        ("int32", "int64", "float16", "float32"),
        16,
    ),
    Row("Pow(x, 0.0); Pow(x, 2.0); Pow(x, 0.5)", "ends", ("float32",)),
    Row("Pow(x, y)", "3,7:p 3,7:4", ("int32", "int64", "float16", "float32"), 16),
    Row("Pow(x, y); PRelu(x, y)", "3,7:p 3,7:p", ("float32",), 84),
    Row(
        """OneHot(x, 10, of([1, 3])); OneHot(x, 10, of([1, 3]), axis=0)""",
        "3,7",
        ("int32", "int64", "float32"),
    ),
    *(
        Row(
            """ReduceMax(x, [1]); ReduceMax(x, keepdims=0); ReduceMin(x, [1]);
            ReduceMin(x, keepdims=0); ArgMax(x, axis=1); ArgMin(x, axis=1);
            ArgMax(x, axis=1, select_last_index=1); ArgMin(x, axis=1, select_last_index=1);
            ArgMax(x, axis=0, keepdims=0); TopK(x, [2], results=2);
            TopK(x, [2], largest=0, axis=0, results=2); Gather(x, [0, -1, 1], axis=1);
            Transpose(x); Flatten(x);
            Concat(x, x, axis=1); Tile(x, [1, 2]); Expand(x, [2, 1, 1]); Slice(x, [3], [-9], [1], [-2]);
            Pad(x, [0, 1, 1, 0], of(3)); GatherElements(x, [[1, 0, 1]], axis=0); Trilu(x);
            ScatterElements(x, [[0, 1]], Slice(x, [0, 0], [1, 2])); Split(x, [1, 2], axis=1, results=2);
            ScatterND(x, [[1]], Slice(x, [0], [1])); GatherND(x, [[1, 0]]);
            Squeeze(Unsqueeze(x, [1]))""",
            shape,
            types,
        )
        for shape, types in (("2,3", _NUMBERS), ("2,3!", (*_WHOLE,)))
    ),
    *(
        Row(
            """ReduceSum(x, [1]); ReduceProd(x, [1]); ReduceMean(x, [1]); ReduceL1(x, [1]);
            ReduceSumSquare(x, [1]); CumSum(x, 1); CumSum(x, 0, exclusive=1);
            CumSum(x, 1, reverse=1); CumSum(x, 1, exclusive=1, reverse=1)""",
            "2,4",
            types,
            near,
        )
        for types, near in ((_WHOLE, 4), *_NEAR)
    ),
    *(
        Row(
            """ReduceL2(x, [1]); ReduceLogSum(x, [1]); ReduceLogSumExp(x, [1]);
            ReduceLogSumExp(x, axes=[1], opset=13); Mean(x, x); LpNormalization(x)""",
            "3,4:p",
            types,
            near,
            1,
        )
        for types, near in _NEAR
    ),
    Row(
        "; ".join(
            f"{kind}(x{axes}, {more}opset={18 if kind != 'ReduceSum' else 13})"
            for kind in (
                *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1"),
                *("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
            )
            for axes, more in (
                *(("", ""), (", none", "keepdims=0, "), ("", "noop_with_empty_axes=1, ")),
                *(
                    (", none", "noop_with_empty_axes=1, keepdims=0, "),
                    (", [-1, 0]", "keepdims=0, "),
                ),
            )
        ),
        "2,3,4:p",
        ("float32", "int32"),
        84,
    ),
    *(
        Row(
            f'ScatterElements(x, [0, 1, 1], y, reduction="{how}")',
            "4 3",
            ("uint8", "int32", "float32"),
        )
        for how in ("add", "mul", "max", "min")
    ),
    Row(
        """MaxPool(x, kernel_shape=[2, 2], strides=[2, 2]); GlobalMaxPool(x);
        MaxPool(x, kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1])""",
        "1,2,4,6",
        ("int8", "uint8", *_REAL),
    ),
    *(
        Row(
            "; ".join(
                f"{kind}(x, kernel_shape={[kernel] * axes}, strides={[step] * axes}, ceil_mode=1,"
                f" pads={[low] * axes + [high] * axes}{more}, opset={opset})"
                for kind in ("AveragePool", "MaxPool", "LpPool")
                for more in (("", ", count_include_pad=1") if kind == "AveragePool" else ("",))
                for opset in (19, 22)
            ),
            f"1,2,{sizes}",
            ("float32",),
            84,
            1,
        )
        for sizes, kernel, step, low, high in (
            *(("5,5", 2, 2, 1, 1), ("5,4", 2, 2, 1, 1), ("7,6", 3, 2, 1, 0), ("6,6", 3, 3, 1, 1)),
            *(("7,7", 3, 2, 0, 0), ("8,5", 3, 4, 1, 2), ("5", 2, 2, 1, 1), ("4,5,5", 2, 2, 1, 1)),
            *(("5,5", 2, 2, 0, 1), ("9,9", 3, 3, 0, 2)),
        )
        for axes in (sizes.count(",") + 1,)
    ),
    *(
        Row(
            f'QuantizeLinear(x, of(1), zero(0, "{target}"), opset={opset}{more});'
            f'QuantizeLinear(x, of(0.5), zero(3, "{target}"), opset={opset}{more});'
            f"QuantizeLinear(Concat(Unsqueeze(x, [0]), Unsqueeze(x, [0]), axis=0), of([0.5, 2]),"
            f' zero([3, 3], "{target}"), axis=0, opset={opset}{more})',
            "usual" if target in _FP8 else "whole",
            types,
        )
        for target in ("int8", "uint8", "int16", "uint16", *_FP8, *WHOLE_BITS)
        for types, opset in ((("float32", "float16"), 21), (("float32",), 19))
        if opset == 21 or target not in ("int16", "uint16", *WHOLE_BITS)
        for more in (("", ", saturate=0") if target in _FP8 else ("",))
    ),
    Row(
        "DequantizeLinear(x, 0.5, of(1), opset=21); DequantizeLinear(x, 0.5, opset=21)",
        "ends",
        ("int8", "uint8", "int16", "uint16", *_FP8, *WHOLE_BITS),
    ),
    Row("DynamicQuantizeLinear(x, results=3)", "3,4", ("float32",)),
    *(Row("DynamicQuantizeLinear(x, results=3)", form, ("float32",)) for form in ("2:p", "1", "7")),
    *(
        Row(
            "; ".join(
                f'{kind}(x, y, z, w, hidden_size=2, direction="{way}"{clip}, opset=14, results=2)'
                for clip in ("", ", clip=0.3", ", clip=0.1")
            ),
            f"5,2,3 {ways},{2 * gates},3 {ways},{2 * gates},2 {ways},{4 * gates}",
            ("float32",),
            84,
            1,
        )
        for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
        for way, ways in (("forward", 1), ("reverse", 1), ("bidirectional", 2))
    ),
    Row(
        "; ".join(
            f'Pad(x, {pads}, mode="{mode}", opset=19)'
            for pads in ([0, -1, 0, 2], [0, 2, 0, -1], [0, -2, 0, -1], [0, 7, 0, 8], [0, -3, 0, 4])
            for mode in ("wrap", "reflect", "edge", "constant")
            if mode != "reflect" or max(pads) < 6
        ),
        "1,6",
        ("float32",),
    ),
    *(
        Row(
            "; ".join(
                f"Attention(x, y, z{mask}{cap}{causal}, opset={opset})"
                for cap in ("", ", softcap=2.0")
                for causal in ("", ", is_causal=1")
                for opset in (23, 24)
            ),
            f"1,2,4,8 1,2,4,8 1,2,4,8{form}",
            ("float32",),
            84,
            1,
        )
        for mask, form in (("", ""), (", w", " 4,4"), (", w", " 4,4:b"))
    ),
    *(
        Row(
            "; ".join(
                f"{kind}(x, {given}, {how}opset={opset})"
                for mode in ("nearest", "linear")
                for kind, given, how, opset in (
                    ("Resize", str(scales), f'mode="{mode}", ', 10),
                    ("Resize", f"None, {scales}", f'mode="{mode}", ', 13),
                    *(
                        ()
                        if min(scales) < 1
                        else (("Upsample", str(scales), f'mode="{mode}", ', 9),)
                    ),
                )
            ),
            form,
            ("float32",),
            84,
            1,
        )
        for form, scales in (
            ("1,2,4,5", [1.0, 1.0, 2.0, 3.0]),
            ("1,2,4,10", [1.0, 1.0, 1.5, 2.3]),
            ("1,2,7,10", [1.0, 1.0, 0.3, 0.7]),
            ("1,2,8,9", [1.0, 1.0, 2.0, 0.7]),
            ("1,1,3,3,3", [1.0, 1.0, 2.0, 2.0, 2.0]),
        )
    ),
    *(
        Row(
            f'Resize(x, None, [1.0, 1.0, 5.0, 3.0], mode="linear", {where}="{way}");'
            f'Resize(x, None, None, [1, 2, 15, 12], mode="linear", {where}="{way}")',
            "1,2,3,4",
            ("float32",),
            84,
            1,
        )
        for where in ("coordinate_transformation_mode",)
        for way in ("half_pixel", "pytorch_half_pixel", "align_corners")
    ),
    Row(
        """Resize(x, None, [1.0, 1.0, 2.0, 3.0], mode="nearest", nearest_mode="floor",
        coordinate_transformation_mode="asymmetric"); MeanVarianceNormalization(x);
        Resize(x, None, [1.0, 1.0, 0.75, 0.75], mode="linear",
        coordinate_transformation_mode="align_corners");
        Upsample(x, scales=[1.0, 1.0, 1.5, 2.3], opset=7);
        MaxPool(x, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], results=2);
        MaxPool(x, kernel_shape=[2, 3], storage_order=1, results=2);
        MaxUnpool(x, MaxIndex, kernel_shape=[2, 2], strides=[2, 2]); Pad(x, [0, 0, -1, 2, 0, 0, 1, -2]);
        LpNormalization(x, axis=1, p=1); LRN(x, size=3); LpPool(x, kernel_shape=[2, 2], p=3)""",
        "1,2,4,4",
        ("float32",),
        84,
        1,
    ),
    Row('Resize(x, None, [1.0, 1.0, 2.0, 2.0], mode="linear")', "1,1,4,4", ("uint8", "int8")),
    Row(
        'DepthToSpace(x, mode="CRD", blocksize=3); DepthToSpace(x, blocksize=3)', "1,18,4,5", _REAL
    ),
    Row("Det(x)", "2,5,3,3", ("float32",), 4096, 1),
    Row("Det(x)", "4,1,1", ("float32",)),
    Row('Einsum(x, equation="->")', ".", ("float32",)),
    Row('BitCast(x, to="uint8", opset=26)', "ends", ("int8",)),
    Row('BitCast(x, to="int16", opset=26)', "ends", ("uint16",)),
    Row(
        """AffineGrid(x, [2, 1, 3, 4]); AffineGrid(x, [2, 1, 3, 4], align_corners=1)""",
        "2,2,3",
        ("float32",),
        84,
        1,
    ),
    Row("AffineGrid(x, [2, 1, 2, 3, 4])", "2,3,4", ("float32",), 84, 1),
    Row(
        "QLinearMatMul(x, 0.5, of(3), of([[3, 4], [5, 6]]), 0.5, of(3), 0.5, of(3), opset=10)",
        "2,2",
        ("uint8",),
    ),
    Row(
        'ConvTranspose(x, y, z, strides=[2, 2], auto_pad="SAME_UPPER")',
        "1,3,4,5 3,2,3,3 2",
        ("float32",),
        84,
        1,
    ),
    Row(
        """DeformConv(x, y, z, None, w, group=2, offset_group=2, strides=[2, 2], pads=[1, 0, 0, 0])""",
        "2,4,5,6 6,2,2,3 2,24,3,2 2,12,3,2:p",
        ("float32",),
        256,
        1,
    ),
    Row(
        """RoiAlign(x, [[-3.0, 0, 5, 9], [1, 1, 2, 2], [4, 4, 20, 22]], [1, 0, 1], output_height=3,
        output_width=2, sampling_ratio=2, spatial_scale=0.5, opset=16)""",
        "2,3,8,6",
        ("float32",),
        84,
        1,
    ),
    Row(
        "; ".join(
            f'TfIdfVectorizer(x, mode="{mode}", pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7, 1, 2, 3],'
            f" ngram_counts=[0, 4, 10], ngram_indexes={places}, min_gram_length=1, max_gram_length=3,"
            f" weights=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], max_skip_count={skips})"
            for mode, skips, places in (
                ("TF", 2, [0, 1, 2, 6, 4, 5, 3, 8]),
                *(("TFIDF", 1, [*range(8)]), ("IDF", 0, [*range(8)])),
            )
        ),
        "3,8:9",
        ("int64",),
    ),
    Row(
        """Adagrad(of(0.1), 3, x, y, z, decay_factor=0.1, epsilon=1e-3, norm_coefficient=0.25,
        domain=TRAINING, results=2);
        Momentum(of(0.1), 0, x, y, x, alpha=0.9, beta=0.7, mode="standard", norm_coefficient=0.25,
        domain=TRAINING, results=2);
        Momentum(of(0.1), 2, x, y, x, alpha=0.9, beta=0.7, mode="nesterov", norm_coefficient=0.25,
        domain=TRAINING, results=2);
        Adam(of(0.1), 0, x, y, x, z, alpha=0.9, beta=0.99, norm_coefficient=0.25, domain=TRAINING,
        norm_coefficient_post=0.2, results=3);
        Adam(of(0.1), 4, x, y, y, x, x, y, z, z, alpha=0.9, beta=0.99, domain=TRAINING, results=6)""",
        "2,3 2,3 2,3:p",
        ("float32",),
        84,
        1,
    ),
    # onnxruntime ignores NaN in a maximum.
    Row('Normalizer(x, norm="MAX", domain=ML)', "6,3", ("float32",), 84, 1),
    *(
        Row(
            """Binarizer(x, threshold=0.3, domain=ML); ArrayFeatureExtractor(x, [[2, 0, 2]], domain=ML);
            Scaler(x, offset=[1.0, 2.0, 3.0], scale=[0.5, 2.0, 3.0], domain=ML);
            Normalizer(x, norm="L1", domain=ML); Normalizer(x, norm="L2", domain=ML);
            LinearRegressor(x, coefficients=[1.0, -2.0, 3.0],
            intercepts=[0.5], domain=ML); Imputer(x, imputed_value_floats=[7.0, 8.0, 9.0],
            replaced_value_float=nan, domain=ML);
            TreeEnsemble(x, n_targets=2, nodes_featureids=[0, 1, 2, 0], tree_roots=[0, 3], domain=ML,
            nodes_modes=zero([0, 3, 5, 1], "uint8"), nodes_splits=of([0, 0.5, 1, -0.5]),
            nodes_truenodeids=[1, 0, 2, 4], nodes_trueleafs=[0, 1, 1, 1],
            leaf_targetids=[0, 1, 1, 0, 1, 0],
            nodes_falsenodeids=[2, 1, 3, 5], nodes_falseleafs=[0, 1, 1, 1],
            leaf_weights=of([1, 2, 3, 4, 5, 6]))""",
            form,
            ("float32",),
            84,
            1,
        )
        for form in ("6,3", "2,3!")
    ),
    Row(
        "; ".join(
            f"LinearClassifier(x, coefficients={[*map(float, range(-4, 5))]},"
            " intercepts=[0.5, 0.0, -0.5], classlabels_ints=[4, 7, 9],"
            f' post_transform="{way}", domain=ML, results=2)'
            for way in ("NONE", "SOFTMAX", "LOGISTIC")
        ),
        "2,3",
        ("float32",),
        84,
        1,
    ),
    Row(
        """Gelu(x, domain=MICROSOFT); BiasGelu(x, y, domain=MICROSOFT); FastGelu(x, y, domain=MICROSOFT);
        QuickGelu(x, alpha=1.5, domain=MICROSOFT);
        FusedMatMul(x, x, transB=1, alpha=0.5, domain=MICROSOFT);
        SkipLayerNormalization(x, x, y, y, y, epsilon=1e-5, domain=MICROSOFT);
        FusedMatMul(z, z, transBatchA=1, transBatchB=1, transB=1, domain=MICROSOFT)""",
        "1,2,8 8 3,2,4",
        ("float32",),
        84,
        1,
    ),
    Row(
        """FusedConv(x, y, z, activation="Relu", domain=MICROSOFT); FusedConv(x, y, z, w,
        activation="LeakyRelu", activation_params=[0.2], domain=MICROSOFT)""",
        "1,2,6,6 3,2,3,3 3 1,3,4,4",
        ("float32",),
        84,
        1,
    ),
    Row(
        """QLinearSigmoid(x, 0.05, of(10), 0.02, of(20), domain=MICROSOFT);
        QLinearLeakyRelu(x, 0.05, of(10), 0.02, of(20), alpha=0.1, domain=MICROSOFT);
        QLinearGlobalAveragePool(x, 0.05, of(10), 0.02, of(20), channels_last=0, domain=MICROSOFT);
        QLinearAveragePool(x, 0.05, of(10), 0.02, of(20), kernel_shape=[2, 2], strides=[2, 2],
        channels_last=0, domain=MICROSOFT); QuantizeLinear(DequantizeLinear(x, 0.5, of(1)), 0.5, of(1));
        QLinearConcat(0.05, of(10), x, 0.05, of(10), x, 0.1, of(10), axis=1, domain=MICROSOFT)""",
        "1,1,6,6",
        ("uint8",),
    ),
    Row(
        'RNN(x, y, z, hidden_size=4, activations=["Relu"], opset=14, results=2)',
        "3,1,3 1,4,3 1,4,4",
        ("float32",),
        84,
        1,
    ),
)


_DOMAINS: Final = {
    "ML": ("ai.onnx.ml", 5),
    "MICROSOFT": ("com.microsoft", 1),
    "TRAINING": ("ai.onnx.preview.training", 1),
}
#: Names of domains in expressions, and of constants that Python cannot write as numbers.
_NAMES: Final = {
    **{name: domain for name, (domain, _) in _DOMAINS.items()},
    "nan": math.nan,
    "MaxIndex": np.arange(32).reshape(1, 2, 4, 4) * 4 + 1,
}


class _Nodes:
    """Hold the names of an expression: operands, operators, `of` and `zero` for constants, and `none`.

    through: operands of types that numpy lacks come in as FP32.
    """

    def __init__(self, prefix: str, given: Sequence[Any], through: bool) -> None:
        self.prefix, self.kind, self.opset = prefix, given[0].dtype, 22
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self.infos: list[Any] = []
        self.names: dict[str, Any] = {"none": [], "of": self._of, "zero": self._of, **_NAMES}
        for name, one in zip("xyzw", given, strict=False):
            held, kind = f"{prefix}{name}", helper.np_dtype_to_tensor_dtype(one.dtype)
            self.names[name] = held
            if through and kind in _FOREIGN:
                self.names[name] = f"{held}/inner"
                self.nodes.append(
                    helper.make_node("Cast", [held], [f"{held}/inner"], to=kind, saturate=0)
                )
                kind = TensorProto.FLOAT
            self.infos.append(helper.make_tensor_value_info(held, kind, one.shape))

    def __getitem__(self, name: str) -> Any:
        return self.names[name] if name in self.names else partial(self._node, name)

    def _of(self, value: Any, kind: str = "") -> Any:
        return np.asarray(value, np.float64).astype(dtype(kind) if kind else self.kind)

    def _node(
        self, operator: str, *given: Any, opset: int = 22, results: int = 1, **attributes: Any
    ) -> Any:
        self.opset, number = opset, len(self.nodes)
        if "to" in attributes:
            attributes["to"] = helper.np_dtype_to_tensor_dtype(dtype(attributes["to"]))
        attributes |= {
            name: numpy_helper.from_array(one)
            for name, one in attributes.items()
            if isinstance(one, np.ndarray)
        }
        outputs = [f"{self.prefix}{operator}{number}_{place}" for place in range(results)]
        inputs = [self._input(one) for one in given]
        self.nodes.append(helper.make_node(operator, inputs, outputs, **attributes))
        return outputs[0] if results == 1 else outputs

    def _input(self, one: Any) -> str:
        if one is None or isinstance(one, str):
            return one or ""
        array = np.asarray(one, np.int64 if np.size(one) == 0 else None)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        name = f"{self.prefix}constant{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(array, name))
        return name


#: BFLOAT16, the types of 8 bits, INT4 and UINT4.
_FOREIGN: Final = frozenset((16, 17, 18, 19, 20, 21, 22))
#: Operators of which onnx's own reference is right, where onnxruntime does not have them, or a type.
_EXACT: Final = re.compile(
    r"Abs|Ada|Affine|Array|Binar|BitC|Deform|Det|Momen|MeanV|TfIdf|Tree|Unpool|Add|Arg|Cast|Clip"
    r"|Concat|Cum|Equal|Expand|Flatten|Floor|Ceil|Gather|Great|Identity|Is|Less"
    r"|Max|Min|Mul|Neg|OneHot|Pad|Quantize|Reduce(?:Max|Min|Sum|Prod|L1)|Relu|Round|Scatter|Sign\(|Slice"
    r"|Split|Squeeze|Sub|Sum|Tile|Top|Trans|Trilu|Where"
)


def model(expressions: Sequence[str], operands: Sequence[Any], *, through: bool = False) -> Any:
    """Return a model of expressions of one set of operators."""
    parts, outputs = [], []
    for number, (expression, given) in enumerate(zip(expressions, operands, strict=True)):
        parts.append(_Nodes(f"{number}/", given, through))
        made = eval(expression, {"__builtins__": {}}, parts[-1])  # type: ignore[arg-type]
        outputs += made if isinstance(made, list) else [made]
    nodes, infos, tensors = (
        [one for part in parts for one in getattr(part, name)]
        for name in ("nodes", "infos", "tensors")
    )
    opsets = {part.opset for part in parts}
    if len(opsets) > 1:
        raise ValueError("its operators are of several sets")
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(nodes, "graph", infos, results, tensors)
    opset = max(*opsets, 19) if through else opsets.pop()
    sets = [helper.make_opsetid(*row) for row in (("", opset), *_DOMAINS.values())]
    made = helper.make_model(graph, opset_imports=sets, ir_version=10)
    inferred = shape_inference.infer_shapes(made)
    for info, found in zip(made.graph.output, inferred.graph.output, strict=True):
        kind = (
            found if found.type.tensor_type.elem_type else made.graph.input[0]
        ).type.tensor_type.elem_type
        if through and kind in _FOREIGN:
            inner, kind = info.name, TensorProto.FLOAT
            info.name = f"{inner}/result"
            made.graph.node.append(helper.make_node("Cast", [inner], [info.name], to=kind))
        info.type.tensor_type.elem_type = kind
    return made


def computed(expression: str, operands: Sequence[Any]) -> list[Any]:
    """Return what onnxruntime computes, or onnx's reference of types that onnxruntime does not have."""
    plain = model([expression], [operands])
    outputs = [info.type.tensor_type.elem_type for info in plain.graph.output]
    inputs = [info.type.tensor_type.elem_type for info in plain.graph.input]
    is_foreign = bool(_FOREIGN & {*inputs, *outputs})
    made = model([expression], [operands], through=True) if is_foreign else plain
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    fed = {info.name: one for info, one in zip(plain.graph.input, operands, strict=True)}
    try:
        session = onnxruntime.InferenceSession(
            made.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        held = {
            name: one.astype(np.float32) if kind in _FOREIGN else one
            for (name, one), kind in zip(fed.items(), inputs, strict=True)
        }
        found = session.run(None, held)
    except Exception:  # It has exceptions of its own for each reason.
        if not _EXACT.match(expression):
            raise
        found = ReferenceEvaluator(plain).run(None, fed)
    kinds = [helper.tensor_dtype_to_np_dtype(kind) for kind in outputs]
    results = [np.asarray(one).astype(kind) for one, kind in zip(found, kinds, strict=True)]
    return [one.astype(np.int8) if one.dtype.name in WHOLE_BITS else one for one in results]


def lowered(
    expressions: Sequence[str], operands: Sequence[Any], narrow: Any, path: Path
) -> tc.Graph:
    """Return the program of some expressions, each with operands of its own."""
    try:
        made = model(expressions, operands)
    except ValueError as error:
        raise fail("not-lowered", "onnx", str(error)) from None
    found = lower_model(made, Weights(path.parent), narrow)
    if found.graph is None:
        row = next(iter(found.problems))
        assert row.operator
        raise fail("not-lowered", row.where or "onnx", f"{row.operator}: {row.reason}")
    graph = found.graph
    if narrow:
        tc.save(graph, path)
        graph = tc.load(path, narrow=narrow)
    return tc.rewrites.apply(graph).graph
