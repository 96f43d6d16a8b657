"""Random programs whose operators the reference model has, with the element types that they have."""

from __future__ import annotations

from itertools import count
from typing import Any

from tosa_convert.consumers.readers import CONSUMERS
from tosa_convert.consumers.unread import program_findings
from tosa_convert.golden import generate
from tosa_convert.graph import Graph

#: From the seed of a program that the model does not read to the next one.
_STEP = 10**6


def runs_on_the_model(graph: Graph) -> bool:
    """Return whether the reference model has all operators of a program."""
    return not any(program_findings(graph, CONSUMERS["reference-model"], mlir=False))


def generate_for_model(seed: int, operators: int, **options: Any) -> Graph:
    """Return the first program, of this seed and further ones, that the reference model reads."""
    for own in count(seed, _STEP):
        graph = generate(own, operators, **options)
        if runs_on_the_model(graph):
            return graph
    raise AssertionError
