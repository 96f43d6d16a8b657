"""Lowers functions of arrays without a framework, and runs the programs by numpy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.frontends.lowering.scope import Array, Scope, constant
from tosa_convert.frontends.lowering.types import carrier
from tosa_convert.frontends.read_result import with_own_outputs

F32, F16, BF16 = np.float32, np.float16, ml_dtypes.bfloat16


def program(function: Callable[..., Any], *data: Any) -> tc.Graph:
    """Return the program of a function of arrays, after the rewrites. TOSA allows it."""
    builder = Builder("main")
    scope = Scope(builder)
    held = []
    for index, item in enumerate(data):
        value = builder.input(f"x{index}", carrier(item.dtype), item.shape)
        held.append(scope.array(value, item.dtype))
    made = function(scope, *held)
    builder.output(*map(scope.whole, [made] if isinstance(made, Array) else made))
    graph = tc.rewrites.apply(with_own_outputs(builder.graph())).graph
    found = [row for row in tc.validate(graph) if row.code != "requires-extension"]
    assert found == []
    return graph


def results(function: Callable[..., Any], *data: Any) -> list[Any]:
    """Return what the program of a function returns, as numpy computes it."""
    feed = {f"x{index}": item.view(carrier(item.dtype)) for index, item in enumerate(data)}
    run = tc.golden.run(program(function, *data), feed, engine="numpy")
    return list(run.outputs.values())


def known(function: Callable[..., Any], *data: Any) -> Any:
    """Return what a function of constants returns; it adds no operator to the program."""
    builder = Builder("main")
    made = function(Scope(builder), *map(constant, data))
    assert made.data is not None
    return np.broadcast_to(made.data, made.shape)


def names(graph: tc.Graph) -> dict[str, int]:
    """Return how many of each operator a program has, apart from constants."""
    found = Counter(operator.spec.name for operator in graph.main.operators)
    return {name: count for name, count in found.items() if not name.startswith("CONST")}
