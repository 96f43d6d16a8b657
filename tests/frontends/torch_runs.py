"""Functions of torch, lowered and run in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import tosa_convert as tc
from tosa_convert.graph.model import Graph


class Program(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """Calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def lowered(function: Callable[..., Any], *arguments: Any, narrow: str = "i64") -> Graph:
    """Return the valid program of a function."""
    from tosa_convert.frontends.read_result import with_own_outputs
    from tosa_convert.frontends.torch.convert import lower_directly

    with torch.no_grad():
        program = torch.export.export(Program(function), arguments)
    graph = with_own_outputs(lower_directly(program, (narrow,)).graph)
    assert not tc.validate(graph)
    return graph


def assert_equal(
    function: Callable[..., Any], *arguments: Any, rtol: float = 2e-6, atol: float = 1e-6
) -> Graph:
    """Lower and run a function; its results are those of torch. Return the program."""
    graph = lowered(function, *arguments)
    given = dict(zip(graph.main.inputs, (one.numpy() for one in arguments), strict=True))
    wanted = torch.utils._pytree.tree_leaves(function(*arguments))
    outputs = tc.run(graph, given, engine="numpy").outputs.values()
    for made, right in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(made, right.numpy(), rtol=rtol, atol=atol)
    return graph
