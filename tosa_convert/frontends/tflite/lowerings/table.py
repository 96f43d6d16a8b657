"""The table of our lowerings; each row has both halves, what is found in a model and what is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tosa_convert.frontends.tflite.lowerings import (
    activations,
    elementwise,
    functions,
    movement,
    normalization,
    products,
    reductions,
    resize,
    sigmoid,
)
from tosa_convert.frontends.tflite.lowerings.correction import Correction
from tosa_convert.frontends.tflite.lowerings.decomposition import Decomposition

#: Operator that the converter does not lower in every form -> how it is decomposed.
DECOMPOSITIONS: Final[Mapping[str, Decomposition[Any]]] = {
    **activations.DECOMPOSITIONS,
    **elementwise.DECOMPOSITIONS,
    **movement.DECOMPOSITIONS,
    **normalization.DECOMPOSITIONS,
    **products.DECOMPOSITIONS,
    **reductions.DECOMPOSITIONS,
}
#: Operator that the converter lowers to other numbers in some form -> how that is corrected, in order.
CORRECTIONS: Final[Mapping[str, tuple[Correction[Any], ...]]] = {
    **activations.CORRECTIONS,
    **elementwise.CORRECTIONS,
    **functions.CORRECTIONS,
    **movement.CORRECTIONS,
    **normalization.CORRECTIONS,
    **products.CORRECTIONS,
    **resize.CORRECTIONS,
    **sigmoid.CORRECTIONS,
}
