"""Spectra, which are pairs of real and imaginary parts until one of these is taken."""

from __future__ import annotations

from typing import Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.functions import sqrt
from tosa_convert.frontends.lowering.scope import Array, NotLowered
from tosa_convert.frontends.lowering.spectral import dft
from tosa_convert.frontends.tflite.node import Node, Rule


def _spectrum(n: Node) -> Array:
    """Transform real numbers along the last two axes, cut or filled with zeros to the lengths."""
    s, x, (height, width) = n.scope, n.array(0), n.ints(1)
    rank = x.rank
    high = [0] * (rank - 2) + [height - x.shape[-2], width - x.shape[-1]]
    pairs = movement.pad(s, x, [0] * rank, high, 0)
    pairs = movement.reshape(s, pairs, (*pairs.shape, 1))
    pairs = dft(s, pairs, rank - 1, width, is_onesided=True)
    pairs = dft(s, pairs, rank - 2, height)
    shape = pairs.shape[:-1]
    real, imaginary = (
        movement.reshape(s, one, shape) for one in movement.split(s, pairs, [1, 1], rank)
    )
    return Array(np.dtype(np.complex64), shape, parts=(real, imaginary))


def _part(index: int) -> Rule:
    return lambda n: _parts(n)[index]


def _parts(n: Node) -> tuple[Array, Array]:
    found = n.array(0).parts
    if found is None:
        raise NotLowered(
            "its operand does not come from RFFT2D", "compute the spectrum in the model"
        )
    return found


def _size(n: Node) -> Array:
    s, (real, imaginary) = n.scope, _parts(n)
    return sqrt(s, s.add(s.mul(real, real), s.mul(imaginary, imaginary)))


RULES: Final[dict[str, Rule]] = {
    "RFFT2D": _spectrum,
    "REAL": _part(0),
    "IMAG": _part(1),
    "COMPLEX_ABS": _size,
}
