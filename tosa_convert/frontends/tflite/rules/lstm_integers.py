"""The scales, zero points and limits of an LSTM of int8 with a cell of int16."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.frontends.tflite.node import Node
from tosa_convert.frontends.tflite.read import Tensor
from tosa_convert.frontends.tflite.rules.quantised import power_of_two
from tosa_convert.frontends.tflite.rules.sequences import OTHER
from tosa_convert.frontends.tflite.scales import RANGES, Scale, rescale_of, single

#: The scale of a gate before its activation, without layer normalisation.
_GATE_SCALE: Final = 2.0**-12
#: The states' places among the operands, and the intermediate tensor of the output before projection.
_OUTPUT, _CELL, _HIDDEN = 18, 19, 4
_FRACTION: Final = 15
#: What a weight is -> its type.
_TYPES: Final = {
    **dict.fromkeys(("input", "recurrent"), "int8"),
    **dict.fromkeys(("cell", "norm"), "int16"),
    "bias": "int32",
}


@dataclass(frozen=True, slots=True)
class Integers:
    """input_zero, output_zero, hidden_zero: zero points of input, output, and output before projection.

    scales: "input_f", "recurrent_f", "cell_f" and "norm_f" of the gate f, "hidden" and "projection".
    cell_bits: integer bits of the cell. cell_clip, proj_clip: 0 is none.
    guards: gate -> what layer normalisation takes as a variance below 1.
    """

    input_zero: int
    output_zero: int
    hidden_zero: int
    scales: Mapping[str, Scale]
    cell_bits: int
    cell_clip: int
    proj_clip: int
    guards: Mapping[str, int]


def find_integers(n: Node, tensors: Mapping[str, Tensor], clips: tuple[float, float]) -> Integers:
    """Find the facts of the kernel of integers; tensors: its weights, by what they are."""
    x = n.tensor(0)
    output, cell, hidden, bits = _checked(n, tensors)
    scales: dict[str, Scale] = {}
    guards = {}
    has_norm = "norm_f" in tensors
    for number, gate in enumerate("ifco"):
        if f"input_{gate}" not in tensors:
            continue
        gate_scale = _GATE_SCALE
        if has_norm:
            gate_scale = n.part.tensors[n.operator.intermediates[number]].scale
        for role, given in (("input", x.scale), ("recurrent", output.scale)):
            weights = tensors[f"{role}_{gate}"].scale
            scales[f"{role}_{gate}"] = _scale(single(weights * given) / gate_scale)
        if f"cell_{gate}" in tensors:
            peephole = tensors[f"cell_{gate}"].scale * 2.0 ** (bits - _FRACTION)
            scales[f"cell_{gate}"] = _scale(peephole / gate_scale)
        if has_norm:
            norm = tensors[f"norm_{gate}"].scale
            scales[f"norm_{gate}"] = _scale(norm * 2.0**12)
            guards[gate] = max(1, int(single(10000 * norm)))
    scales["hidden"] = _scale(2.0**-30 / hidden.scale)
    if "projection" in tensors:
        projected = single(tensors["projection"].scale * hidden.scale)
        scales["projection"] = _scale(projected / output.scale)
    return Integers(
        *(x.zero_point, output.zero_point, hidden.zero_point),
        scales=scales,
        cell_bits=bits,
        cell_clip=_limit(clips[0], cell.scale, "int16"),
        proj_clip=_limit(clips[1], n.result.scale, "int8"),
        guards=guards,
    )


def _checked(n: Node, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, int]:
    """Return output, cell, output before projection, and the integer bits of the cell."""
    output, cell = (n.part.tensors[n.operator.inputs[place]] for place in (_OUTPUT, _CELL))
    kinds = [(role.partition("_")[0], tensor.dtype) for role, tensor in tensors.items()]
    is_known = all(_TYPES.get(role, dtype) == dtype for role, dtype in kinds)
    inner = [n.part.tensors[one] for one in n.operator.intermediates]
    if not is_known or (output.dtype, cell.dtype) != ("int8", "int16") or len(inner) <= _HIDDEN:
        raise NotLowered(OTHER)
    power = power_of_two(cell.scale) if cell.scale else None
    if power is None or not -_FRACTION <= power <= 6 - _FRACTION:
        raise NotLowered(OTHER)
    return output, cell, inner[_HIDDEN], power + _FRACTION


def _limit(clip: float, scale: float, dtype: str) -> int:
    low, high = RANGES[dtype]
    return int(min(max(single(clip / scale), low), high)) if clip > 0 else 0


def _scale(number: float) -> Scale:
    """Return multiplier and shift of a number that TFLite has in FP32."""
    return rescale_of(single(number))
