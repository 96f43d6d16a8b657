"""The numbers that integers of a quantised input or output stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tosa_convert.frontends.process.request import Value
from tosa_convert.graph.model import Graph
from tosa_convert.rewrites import quantised_patterns

Array = npt.NDArray[Any]


class Scale(NamedTuple):
    """An integer i means scale * (i - zero_point).

    Example:
        >>> scale = Scale(0.5, -1)
        >>> scale.quantised(np.array([0.0, 1.0, 99.0]), np.dtype(np.int8))
        array([ -1,   1, 127], dtype=int8)
        >>> scale.numbers(np.array([-1, 1], np.int8))
        array([0., 1.], dtype=float32)
    """

    scale: float
    zero_point: int

    def quantised(self, array: Array, element: np.dtype[Any]) -> Array:
        """Quantise an array: to the nearest integers, halves to even, within the element type."""
        bounds = np.iinfo(element)
        wide = np.round(array.astype(np.float64) / self.scale) + self.zero_point
        result: Array = np.clip(wide, bounds.min, bounds.max).astype(element)
        return result

    def numbers(self, array: Array) -> Array:
        """Dequantise integers in float32, as frameworks do."""
        wide = array.astype(np.float32) - np.float32(self.zero_point)
        result: Array = wide * np.float32(self.scale)
        return result


def scales_of(values: Iterable[Value], names: Sequence[str]) -> dict[str, Scale]:
    """Return the scale of each quantised value of an interface, by the program's names of them."""
    return {
        name: Scale(value.scale, value.zero_point)
        for name, value in zip(names, values, strict=False)
        if value.scale is not None
    }


def steps_of_outputs(graph: Graph) -> dict[str, float]:
    """Return how far each output that a program dequantises from INT8 moves in one step, by name."""
    return quantised_patterns.steps_of_outputs(graph.main)
