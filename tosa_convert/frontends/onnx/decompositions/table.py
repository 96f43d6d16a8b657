"""ONNX operator -> the function that decomposes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tosa_convert.frontends.onnx.decompositions import (
    convolution,
    elementwise,
    grid_sample,
    integers,
    linear_models,
    microsoft,
    movement,
    normalization,
    optimizers,
    pooling,
    quantized,
    recurrent,
    regions,
    resize,
    spectral,
    tokens,
    trees,
)
from tosa_convert.frontends.onnx.decompositions.node import Decomposition, NotDecomposedError


def first_that_applies(
    *functions: Callable[[Decomposition], None],
) -> Callable[[Decomposition], None]:
    """Return a decomposition that tries others in order."""

    def decompose(e: Decomposition) -> None:
        for function in functions[:-1]:
            try:
                return function(e)
            except NotDecomposedError:
                e.nodes.clear()
        return functions[-1](e)

    return decompose


#: Operator -> what builds the nodes that replace it; NotDecomposedError where it does not apply.
DECOMPOSITIONS: Final[dict[str, Callable[[Decomposition], None]]] = {
    "Acos": elementwise.acos,
    "Acosh": elementwise.acosh,
    "Asin": elementwise.asin,
    "Asinh": elementwise.asinh,
    "Atanh": elementwise.atanh,
    "Cosh": elementwise.hyperbolic,
    "Sinh": elementwise.hyperbolic,
    "Celu": elementwise.celu,
    "Hardmax": elementwise.hardmax,
    "HardSigmoid": elementwise.hard_sigmoid,
    "LeakyRelu": elementwise.leaky,
    "Sign": elementwise.sign,
    "Softplus": elementwise.softplus,
    "IsInf": elementwise.is_inf,
    "CumProd": elementwise.cumulative_product,
    "Trilu": elementwise.trilu,
    "Slice": elementwise.slice_backwards,
    "Resize": resize.resize,
    "Upsample": resize.upsample,
    "AveragePool": pooling.average_pool,
    "LpPool": pooling.lp_pool,
    "MaxPool": pooling.max_pool,
    "GlobalLpPool": pooling.global_lp_pool,
    "Attention": normalization.attention,
    "LRN": normalization.local_response,
    "LayerNormalization": normalization.layer_normalization,
    "SimplifiedLayerNormalization": microsoft.simplified_layer_normalization,
    "LpNormalization": normalization.lp_normalization,
    "DepthToSpace": movement.depth_to_space,
    "ReverseSequence": movement.reverse_sequence,
    "TensorScatter": movement.tensor_scatter,
    "Col2Im": movement.column_to_image,
    "ScatterND": movement.scatter_nd,
    "ScatterElements": movement.scatter_elements,
    "Conv": convolution.conv,
    "ConvTranspose": convolution.conv_transpose,
    "GridSample": grid_sample.grid_sample,
    "AffineGrid": grid_sample.affine_grid,
    "Pad": first_that_applies(movement.crop, movement.pad_around),
    "DFT": spectral.dft,
    "STFT": spectral.stft,
    "LSTM": recurrent.lstm,
    "GRU": recurrent.gru,
    "RNN": recurrent.rnn,
    "Cast": integers.cast,
    "QuantizeLinear": quantized.quantize,
    "DequantizeLinear": quantized.dequantize,
    "DynamicQuantizeLinear": quantized.dynamic_quantize,
    "QLinearMatMul": quantized.qlinear_matmul,
    "QLinearConv": quantized.qlinear_conv,
    "Gather": integers.gather_bits,
    "MatMulInteger": quantized.matmul_integer,
    "ConvInteger": quantized.conv_integer,
    "Dropout": elementwise.dropout,
    "Det": elementwise.determinant,
    "Einsum": elementwise.einsum_of_a_number,
    "BitCast": integers.bit_cast,
    "MaxUnpool": pooling.max_unpool,
    "DeformConv": grid_sample.deform_conv,
    "RoiAlign": grid_sample.roi_align,
    "TfIdfVectorizer": tokens.count_ngrams,
    "TreeEnsemble": trees.tree_ensemble,
    "Binarizer": elementwise.binarizer,
    "Scaler": linear_models.scale,
    "Normalizer": linear_models.normalise,
    "Imputer": linear_models.impute,
    "LinearRegressor": linear_models.regress,
    "LinearClassifier": linear_models.classify,
    "ArrayFeatureExtractor": movement.extract_features,
    "Adagrad": optimizers.adagrad,
    "Adam": optimizers.adam,
    "Momentum": optimizers.momentum,
    **dict.fromkeys(
        (
            *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"),
            "RandomUniformLike",
        ),
        elementwise.random,
    ),
    **dict.fromkeys(
        (*("Max", "Min", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),),
        integers.by_order,
    ),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "ReduceMean"), integers.by_int32),
    **dict.fromkeys(
        ("ArgMax", "ArgMin"), first_that_applies(integers.by_order, integers.extreme_position)
    ),
    "Abs": integers.absolute,
    "Neg": integers.negated,
    "Clip": first_that_applies(integers.by_order, elementwise.clip),
    "BitShift": integers.shift,
    "Mod": first_that_applies(integers.by_int32, integers.modulo),
    "Pow": first_that_applies(integers.by_int32, integers.power),
    "TopK": first_that_applies(integers.by_order, movement.top_integers),
    **dict.fromkeys(
        ("ReduceMax", "ReduceMin"),
        first_that_applies(normalization.of_nothing, integers.by_order),
    ),
    **dict.fromkeys(
        ("ReduceSum", "ReduceProd"),
        first_that_applies(normalization.of_nothing, integers.by_int32),
    ),
    **dict.fromkeys(
        ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"],
        first_that_applies(normalization.of_nothing, normalization.composed_reduction),
    ),
}

#: Operator with graphs in it -> what returns the nodes that replace it.
GRAPHS: Final[dict[str, Callable[[Decomposition], list[Any]]]] = {
    "If": regions.if_inlined,
    "Loop": regions.loop_unrolled,
    "Scan": regions.scan_unrolled,
}
