"""Fourier transforms."""

from __future__ import annotations

from typing import Final

from tosa_convert.frontends.lowering import layout, spectral
from tosa_convert.frontends.lowering.scope import Array, NotLowered
from tosa_convert.frontends.onnx.node import Node, Rule, place

#: The opset in which the axis became an operand.
_OPERAND_SINCE: Final = 20


def _dft(n: Node) -> Array:
    """Transform forward, inverse, one-sided, and back from one side."""
    a = n.array(0)
    axis = n.number(2, -2) if n.since >= _OPERAND_SINCE else int(n.get("axis", 1))
    inverse, onesided = bool(n.get("inverse", 0)), bool(n.get("onesided", 0))
    length = n.number(1, 0) or None
    return spectral.dft(n.scope, a, place(axis, a.rank), length, inverse, onesided)


def _stft(n: Node) -> Array:
    """Transform frames of real signals."""
    signal, window = n.array(0), n.optional(2)
    if signal.rank == 3 and signal.shape[2] != 1:
        raise NotLowered("the signal is complex", "transform its frames by DFT")
    if window is None and not n.has(3):
        raise NotLowered("it has neither a window nor a length of frames")
    length = n.number(3) if n.has(3) else (window.size if window else 0)
    flat = layout.reshape(n.scope, signal, signal.shape[:2])
    is_onesided = bool(n.get("onesided", 1))
    return spectral.stft(n.scope, flat, window, n.number(1), length, is_onesided)


RULES: Final[dict[str, Rule]] = {"DFT": _dft, "STFT": _stft}
