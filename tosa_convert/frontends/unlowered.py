"""Operators that do not lower: the error, where they are in the source, and what would help."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tosa_convert.errors import Finding
from tosa_convert.frontends.process.request import NotLowered

# -- what would help with operators that do not lower, by framework and operator -------------------

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
        r"dropout|bernoulli|aten\.rand|normal_|normal\b|multinomial|poisson|exponential|onnx\.(Random|Multi|Bern)",
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
    (r"per_channel", "convert with --via executorch, or quantise per tensor"),
    (r"Loop|Scan|prim\.If|higher_order|cond|while", "unroll it, or use torch.where"),
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
_ONNX: Final = (
    (
        r"^com\.microsoft\.(?!Tokenizer)|SimplifiedLayerNorm",
        "onnxruntime's optimisations made it: convert the model from before them, or save it with"
        " ORT_ENABLE_BASIC",
    ),
    (
        r"^an? (input|result)$|Tokenizer|ImageDecoder",
        "take and return tensors of numbers, and leave the rest to the program around the network",
    ),
    (r"onnx\.ZipMap", "convert with options={'zipmap': False}, so that the result is a tensor"),
    (
        r"onnx\.(Loop|Scan|If)$",
        "unroll it with a constant count, or compute both branches and choose with Where",
    ),
    *_TORCH,
)
#: Framework -> pattern of an operator's name, and what would help. The first that matches counts.
#: Modules of the torch dialect have operators of ONNX, too.
_ADVICE: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "tflite": _TFLITE,
    "torch": _TORCH,
    "onnx": _ONNX,
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


# -- what locations name: tensors of a TFLite model, and lines of the source -----------------------

#: The first name of a location; a file is not one.
_NAME: Final = re.compile(r'^loc\((?:callsite\()?(?:fused\[)?"((?:[^"\\]|\\.)*)"(?!:)')
_LINE: Final = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):')


def place_text(index: int, *tensors: str) -> str:
    """Return where an operator is, for messages: its position, and the tensors that it makes."""
    made = ", ".join(f'"{name}"' for name in tensors)
    return f"operator {index}, which makes {made}"


def line_of(location: str) -> str:
    """Return the file and line of a location, as messages have them; "" if it has none.

    Example:
        >>> line_of('loc("head/abs"("/home/net.py":9:0))')
        '/home/net.py:9'
    """
    found = _LINE.search(location)
    return f"{found[1]}:{found[2]}" if found else ""


def name_of(location: str) -> str:
    """Return the name in a location such as `loc("x"("model.tflite":0:0))`; of several, the first.

    Example:
        >>> name_of('loc("/embed/Gather")')
        '/embed/Gather'
    """
    found = _NAME.match(location)
    return found[1] if found else ""


_NO_LOWERING: Final = " has no lowering to TOSA"
#: In place of an operator's name, if none is to blame.
THE_MODEL: Final = "the model"


def unlowered(operator: str, where: str = "", reason: str = "", hint: str = "") -> NotLowered:
    """Return a row for one operator. hint: what would help; "" for the advice of the operator."""
    return NotLowered(operator=operator, where=where, reason=reason, hint=hint)


def grouped(rows: Iterable[NotLowered], framework: str) -> list[NotLowered]:
    """Join rows of one operator and reason, in their order, with the first place, and give advice."""
    found: dict[tuple[str, str], NotLowered] = {}
    for row in rows:
        first = found.setdefault((row.operator, row.reason), row)
        if first is not row:
            first.count += row.count
    for row in found.values():
        row.hint = row.hint or advice(framework, row.operator)
    return list(found.values())


def findings(rows: Sequence[NotLowered], source: str) -> Iterator[Finding]:
    """Iterate over findings "not-lowered": one for each row, with the count of equal operators."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.operator] = counts.get(row.operator, 0) + row.count
    for row in rows:
        count = counts[row.operator]
        times = f", {count} times" if count > 1 else ""
        reason = f": {row.reason}" if row.reason else ""
        where = f"{source}: {row.where}" if row.where else source
        message = f"{row.operator}{_NO_LOWERING}{times}{reason}"
        hint = row.hint or (advice("tflite", row.operator) if row.index is not None else "")
        yield Finding("not-lowered", where, message, hint)


def operator_and_count(finding: Finding) -> tuple[str, int] | None:
    """Return the operator of a finding of `findings`, and its count; None for another.

    Example:
        >>> row = NotLowered(operator="CUMSUM", count=3)
        >>> [operator_and_count(finding) for finding in findings([row], "m.tflite")]
        [('CUMSUM', 3)]
    """
    if finding.code != "not-lowered":
        return None
    name, separator, rest = finding.message.partition(_NO_LOWERING)
    if not separator:
        return None
    times = re.match(r", (\d+) times", rest)
    return name, int(times[1]) if times else 1
