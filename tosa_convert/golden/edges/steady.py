"""Whether a run leaves something to compare: correct implementations compute about the same."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from tosa_convert.golden.accuracy.bounds_of_operators import accumulator, terms_of_sum
from tosa_convert.golden.accuracy.error_bounds import FLOATS
from tosa_convert.golden.edges.coverage import has_edges
from tosa_convert.golden.edges.forward import Run
from tosa_convert.golden.edges.trace import operands_of
from tosa_convert.graph.model import Graph
from tosa_convert.reference.bounds import BOUNDS
from tosa_convert.reference.call import is_float
from tosa_convert.reference.evaluate import call_of

#: Of an output, the least share of elements that are finite: fewer leave little to compare.
_LEAST_FINITE: Final = 0.5


def unsteady_operators(graph: Graph, run: Run) -> list[int]:
    """Return the operators whose sums or products of finite numbers may overflow on the way.

    Whether they do depends on the order of the terms, and with it all that follows.
    """
    block = graph.main
    found = []
    for index, operator in enumerate(block.operators):
        is_sum = operator.spec.accuracy in ("dot-product", "reduce-product")
        if not is_sum or not has_edges(block, operator):
            continue
        result = block.tensors[operator.outputs[0]]
        if result.dtype.is_float and operator.inputs[0] in run.values:
            largest = FLOATS[accumulator(operator, result.dtype.name)][2]
            if _may_exceed(graph, index, run, largest / 2):
                found.append(index)
    return found


def _may_exceed(graph: Graph, index: int, run: Run, most: float) -> bool:
    """Return whether the sizes of the terms of an element add up, or multiply, to more than a number."""
    block = graph.main
    operator = block.operators[index]
    operands = [
        np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        if is_float(array.dtype)
        else array
        for array in operands_of(graph, operator, run.values)
    ]
    with np.errstate(all="ignore"):
        if operator.spec.accuracy == "reduce-product":
            axis = operator.attributes["axis"]
            assert isinstance(axis, int)
            return bool((np.prod(np.maximum(np.abs(operands[0]), 1.0), axis=axis) > most).any())
        largest = [max(float(np.abs(array).max(initial=0.0)), 1.0) for array in operands[:3]]
        if math.prod(largest) * (terms_of_sum(block, operator) + 1) <= most:
            return False
        call = call_of(block, operator, operands, "wide")
        if "local_bound" in call.attributes:
            call = replace(call, attributes={**call.attributes, "local_bound": True})
        bounds = BOUNDS[operator.spec.name](call)
        parts = bounds if isinstance(bounds, tuple) else (bounds,)
        return any(not (part <= most).all() for part in parts)


def spoiled_outputs(graph: Graph, run: Run) -> list[str]:
    """Return the outputs most of whose elements are infinite or NaN."""
    found = []
    for name in dict.fromkeys(graph.main.outputs):
        tensor = graph.main.tensors.get(name)
        if tensor is not None and tensor.dtype.is_float and run.values[name].size:
            finite = np.isfinite(run.values[name].astype(np.float32))
            if finite.mean() < _LEAST_FINITE:
                found.append(name)
    return found
