"""What the user is told of operators that do not lower: grouped, with the first place and advice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tosa_convert.frontends.converters.torch_dialect import Unlowered
from tosa_convert.frontends.interface import NotLowered

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
        "quantise per tensor, or convert through ExecuTorch's Arm backend or litert-torch",
    ),
    (
        r"Loop|Scan|prim\.If|higher_order|cond|while",
        "unroll it, or use torch.where: torch-mlir has no control flow for TOSA",
    ),
    (r"Sequence|Optional|String|TfIdf|onnx\.(Regex|Label)", "TOSA has tensors of numbers only"),
)
_DEFAULT: Final = "write it with simpler operators in the model"
_FRAME: Final = re.compile(r'"([^"]*)":(\d+)')
_NAMED: Final = re.compile(r'loc\("([^"]*)"')


def report(found: Mapping[Unlowered, int]) -> list[NotLowered]:
    """One entry for each operator and reason, in the order of the program."""
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
            hint=advice(unlowered.operator),
        )
    return list(rows.values())


def advice(operator: str) -> str:
    """What would help with an operator."""
    return next((text for pattern, text in _ADVICE if re.search(pattern, operator)), _DEFAULT)


def place(location: str) -> str:
    """Where an operator is: the innermost line of the model itself, or the name of the node.

    Example:
        >>> place('loc(callsite("/lib/torch/nn/modules/linear.py":134:0 at "model.py":25:0))')
        'model.py:25'
        >>> place('loc("conv_1")')
        'conv_1'
    """
    frames = [(path, line) for path, line in _FRAME.findall(location)]
    own = [frame for frame in frames if not re.search(r"[/\\]torch[/\\]", frame[0])]
    if own or frames:
        path, line = (own or frames)[0]
        return f"{path}:{line}"
    named = _NAMED.search(location)
    return named[1] if named else ""
