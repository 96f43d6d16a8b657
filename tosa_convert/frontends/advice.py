"""What would help with operators that do not lower, by framework and operator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_TFLITE: Final = (
    (r"(?i)^embedding_lookup$", "use a gather: tf.gather(table, ids)"),
    (
        r"(?i)^cumsum$",
        "give the input fixed sizes and a constant axis, or multiply by a triangular matrix",
    ),
    (
        r"(?i)^topk_v2$",
        "give the input fixed sizes and the count as a constant, or select on the host",
    ),
    (
        r"(?i)^conv_3d_transpose$",
        "give the input fixed sizes, float32 elements and constant weights",
    ),
    (
        r"(?i)^slice$",
        "give begin and size as constants: TOSA has no slice that starts at a computed position",
    ),
    (
        r"(?i)^dynamic_update_slice$",
        "select with a mask: tf.where(tf.range(n) == position, update, old)",
    ),
    (
        r"(?i)^rfft2d$",
        "compute the spectrum on the host, or as a product with the matrix of the transform",
    ),
)
_TORCH: Final = (
    (
        r"^com\.microsoft\.(?!Tokenizer)|SimplifiedLayerNorm",
        "onnxruntime's optimisations made it: convert the model from before them, or save it with"
        " ORT_ENABLE_BASIC",
    ),
    (r"^an input$|Tokenizer", "leave what is done with text to the program around the network"),
    (r"onnx\.ZipMap", "convert with options={'zipmap': False}, so that the result is a tensor"),
    (
        r"dropout|bernoulli|aten\.rand|normal_|normal\b|multinomial|poisson|exponential|onnx\.(Random|Multi)",
        "TOSA has no random numbers: export in evaluation mode, or make the noise an input",
    ),
    (
        r"nonzero|unique|masked_select|bincount|NonZero|NonMaxSuppression|Compress|Unique",
        "the size of its result depends on the data, and TOSA's shapes are static: select with a mask"
        " of fixed size, or leave it to the program around the network",
    ),
    (
        r"complex|fft|stft|view_as_real|DFT|STFT|polar",
        "TOSA computes on real tensors: take and return these, and write a transform of another form"
        " as a product with a matrix of cosines and one of sines",
    ),
    (
        r"linalg|cholesky|\binv|\bqr|\bsvd|Det$",
        "it is an algorithm with loops: compute it outside the network",
    ),
    (
        r"size\.int|Int\.Tensor|Int\.bool|Bool\.|\.item|sym_|runtime\.assert|onnx\.(Range|Shape)",
        "a size is computed at run time: fix the sizes of the inputs with --input-shape",
    ),
    (r"per_channel", "convert with --via executorch or --via litert-torch, or quantise per tensor"),
    (
        r"Loop|Scan|prim\.If|higher_order|cond|while",
        "unroll it, or use torch.where: torch-mlir has no control flow for TOSA",
    ),
    (r"ReverseSequence", "gather the steps in the reversed order of each row"),
    (r"Sequence|Optional|String|onnx\.(Regex|Label)", "TOSA has tensors of numbers only"),
    (
        r"QLinear|Integer|DynamicQuantize|onnx\.Q[A-Z]",
        "export the form with QuantizeLinear and DequantizeLinear around float operators (QDQ)",
    ),
    (r"onnx\.(LSTM|GRU|RNN)\b", "unroll it: torch exports a loop over cells as simple operators"),
    (r"bicubic|cubic", "use bilinear or nearest interpolation"),
    (
        r"sort|topk|TopK|kthvalue|median",
        "TOSA does not sort: use max and argmax for the largest, or sort outside the network",
    ),
    (r"loss|Loss", "compute the loss outside the network, which inference does not need"),
    (r"_backward", "export the forward pass only"),
)
#: Framework -> pattern of an operator's name, and what would help. The first that matches counts. The
#: operators of ONNX become torch's on their way.
_ADVICE: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "tflite": _TFLITE,
    "torch": _TORCH,
    "onnx": _TORCH,
}
_OTHERWISE: Final = "write it with other operators, or leave it to the caller with --partial"


def advice(framework: str, operator: str) -> str:
    """Return what would help with an operator of a framework.

    Example:
        >>> advice("torch", "aten.nll_loss_forward")
        'compute the loss outside the network, which inference does not need'
        >>> advice("tflite", "EMBEDDING_LOOKUP")
        'use a gather: tf.gather(table, ids)'
    """
    rows = _ADVICE[framework]
    return next((text for pattern, text in rows if re.search(pattern, operator)), _OTHERWISE)
