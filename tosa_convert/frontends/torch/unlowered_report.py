"""What the user is told of operators that do not lower: grouped, with the first place and advice."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.process.interface import NotLowered

if TYPE_CHECKING:
    from tosa_convert.frontends.torch.dialect import Unlowered

#: Pattern of an operator's name -> what would help. The first that matches counts.
_ADVICE: Final = (
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
        "TOSA computes on real tensors: write the transform as a product with a matrix of cosines and"
        " one of sines",
    ),
    (
        r"linalg|cholesky|\binv|\bqr|\bsvd|Det$",
        "it is an algorithm with loops: compute it outside the network",
    ),
    (
        r"size\.int|Int\.Tensor|Int\.bool|Bool\.|\.item|sym_|runtime\.assert|onnx\.(Range|Shape)",
        "a size is computed at run time: fix the sizes of the inputs with --input-shape",
    ),
    (
        r"per_channel",
        "convert with --via executorch or --via litert-torch, or quantise per tensor",
    ),
    (
        r"Loop|Scan|prim\.If|higher_order|cond|while",
        "unroll it, or use torch.where: torch-mlir has no control flow for TOSA",
    ),
    (r"ReverseSequence", "gather the steps in the reversed order of each row"),
    (r"Sequence|Optional|String|TfIdf|onnx\.(Regex|Label)", "TOSA has tensors of numbers only"),
    (
        r"QLinear|Integer|DynamicQuantize|onnx\.Q[A-Z]",
        "export the form with QuantizeLinear and DequantizeLinear around float operators (QDQ)",
    ),
    (
        r"onnx\.(LSTM|GRU|RNN)\b",
        "unroll it: torch exports a loop over cells as simple operators",
    ),
    (r"bicubic|cubic", "use bilinear or nearest interpolation"),
    (
        r"sort|topk|TopK|kthvalue|median",
        "TOSA does not sort: use max and argmax for the largest, or sort outside the network",
    ),
    (r"loss|Loss", "compute the loss outside the network, which inference does not need"),
    (r"_backward", "export the forward pass only"),
)
_DEFAULT: Final = "write it with other operators, or leave it to the caller with --partial"
_FRAME: Final = re.compile(r'"([^"]*)":(\d+)')
_NAMED: Final = re.compile(r'loc\("([^"]*)"')


def report(
    found: Mapping[Unlowered, int], advise: Callable[[str], str] | None = None
) -> list[NotLowered]:
    """Return one entry for each operator and reason, in the order of the program.

    Args:
        found: the operators.
        advise: what else the framework knows to help with an operator; "" for nothing.
    """
    rows: dict[tuple[str, str], NotLowered] = {}
    for unlowered, count in found.items():
        key = unlowered.operator, unlowered.reason
        if key in rows:
            rows[key].count += count
            continue
        rows[key] = NotLowered(
            operator=unlowered.operator,
            where=place(unlowered.location),
            count=count,
            reason=unlowered.reason,
            hint=(advise(unlowered.operator) if advise else "") or advice(unlowered.operator),
        )
    return list(rows.values())


def advice(operator: str) -> str:
    """Return what would help with an operator."""
    return next((text for pattern, text in _ADVICE if re.search(pattern, operator)), _DEFAULT)


def locate(node: Any) -> str:
    """Return where a node of a torch program was written, in MLIR's form, innermost first."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    frames = [line.split('"') for line in lines if line.startswith('File "')]
    return " ".join(
        f'"{path}":{rest.removeprefix(", line ").split(",")[0]}:0'
        for _, path, rest in reversed(frames)
    )


def place(location: str) -> str:
    """Return where an operator is: the innermost line of the model, or the name of the node.

    Example:
        >>> place('loc(callsite("/lib/torch/nn/modules/linear.py":134:0 at "model.py":25:0))')
        'model.py:25'
        >>> place('loc("conv_1")')
        'conv_1'
    """
    frames = [(path, line) for path, line in _FRAME.findall(location)]
    own = [frame for frame in frames if not re.search(r"[/\\](torch|executorch)[/\\]", frame[0])]
    if own or frames:
        path, line = (own or frames)[0]
        return f"{path}:{line}"
    named = _NAMED.search(location)
    return named[1] if named else ""
