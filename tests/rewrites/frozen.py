"""Random programs some of whose inputs are constants, so that rewrites find something to do."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt
from golden.model_programs import generate_for_model
from rewrites.programs import SPECIAL, with_constants

from tosa_convert.graph import Graph

#: Element types whose inputs are frozen, with the range of their integers.
_RANGES = {"INT8": (-128, 127), "INT16": (-100, 100), "INT32": (-100, 100)}


def frozen(seed: int, operators: int = 25, **options: Any) -> Graph:
    """Return a random program.

    About half of its inputs are constants, with zeros, ones and special numbers.
    """
    graph = generate_for_model(seed, operators, **options)
    chosen = random.Random(seed)
    block = graph.main
    numbers = np.random.default_rng(seed)
    inputs = [name for name in block.inputs if chosen.random() < 0.5 and _can_freeze(graph, name)]
    arrays = {
        name: _array(
            block.tensors[name].dtype.name, block.tensors[name].element_count() or 0, numbers
        )
        for name in inputs
    }
    return with_constants(graph, arrays)


def _can_freeze(graph: Graph, name: str) -> bool:
    block = graph.main
    tensor = block.tensors.get(name)
    if tensor is None or tensor.scale is not None or name in block.outputs:
        return False
    return tensor.dtype.name in (*_RANGES, "BOOL", "FP32", "FP16", "BF16")


def _array(dtype: str, count: int, numbers: np.random.Generator) -> npt.NDArray[Any]:
    kind = numbers.integers(4)
    if dtype == "BOOL":
        return numbers.integers(0, 2, count).astype(bool)
    if dtype in _RANGES:
        low, high = _RANGES[dtype]
        return [
            np.zeros(count, np.int64),
            np.ones(count, np.int64),
            numbers.integers(low, high, count, endpoint=True),
            numbers.integers(-2, 2, count, endpoint=True),
        ][kind]
    return [
        np.full(count, numbers.choice([0.0, -0.0, 1.0, 2.0])),
        numbers.choice([number for number in SPECIAL if abs(number) < 1e4], count),
        numbers.integers(-4, 5, count) / 2,
        numbers.standard_normal(count),
    ][kind].astype(np.float64)
