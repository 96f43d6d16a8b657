"""Operators of torch's quantised programs that are written with others."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch


def choose(
    x: Any, least: int, most: int, eps: float, dtype: Any, *, is_symmetric: bool
) -> tuple[Any, Any]:
    """Lower `choose_qparams`: the scale and the zero point with which the numbers fill the range."""
    low, high = x.amin().clamp(max=0).reshape(1), x.amax().clamp(min=0).reshape(1)
    if is_symmetric:
        scale = (torch.maximum(-low, high) / ((most - least) / 2)).clamp(min=eps)
        zero_point = torch.full_like(scale, 128 if dtype is torch.uint8 else 0)
    else:
        scale = ((high - low) / (most - least)).clamp(min=eps)
        zero_point = (least - torch.round(low / scale)).clamp(least, most)
    return scale.to(torch.float64), zero_point.to(torch.int64)


def fake_quantize(x: Any, scale: Any, zero_point: Any, *given: Any) -> Any:
    """Quantise and dequantise.

    given: the least and the greatest integer, and before them what may turn it off.
    """
    *switches, least, most = given
    steps = torch.round(x * (1.0 / scale)) + zero_point
    made = ((torch.clamp(steps, least, most) - zero_point) * scale).to(x.dtype)
    for switch in switches:
        made = torch.where(switch >= 1, made, x)
    return made


def fake_quantize_channels(
    x: Any, scale: Any, zero_point: Any, axis: int, least: int, most: int
) -> Any:
    """Quantise and dequantise with a scale and a zero point for each channel."""
    sizes = [1] * x.dim()
    sizes[axis] = -1
    return fake_quantize(x, scale.reshape(sizes), zero_point.reshape(sizes), least, most)


def decompositions() -> dict[Any, Any]:
    """Return those that choose scales and zero points."""
    known, found = torch.ops.quantized_decomposed, {}
    for name, is_symmetric in (("choose_qparams", False), ("choose_qparams_symmetric", True)):
        packet = getattr(known, name, None)
        if packet is not None:
            found[packet.tensor] = partial(choose, is_symmetric=is_symmetric)
    return found
