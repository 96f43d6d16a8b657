"""Lowers functions of JAX, runs the programs on the reference model, and compares with JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc

jax = pytest.importorskip("jax", reason="jax is not installed")

SIGNED = {"uint8": np.int8, "uint16": np.int16, "uint32": np.int32}


def lowered(function: Callable[..., Any], *args: Any, **options: Any) -> tc.Graph:
    """Return the program of a function, which TOSA allows."""
    graph = tc.frontends.from_jax(function, args, **options)
    assert tc.validate(graph) == []
    return graph


def agree(function: Callable[..., Any], *args: Any, tolerance: float = 1e-5) -> tc.Graph:
    """Assert that the program of a function returns what JAX returns; returns the program.

    tolerance: the absolute difference that floating-point results may have, and a tenth of the relative
        one. Integers are equal.
    """
    graph = lowered(function, *args)
    expected = [np.asarray(value) for value in jax.tree.leaves(jax.jit(function)(*args))]
    found = outputs(graph, *args)
    assert len(found) == len(expected)
    for name, want in zip(graph.main.outputs, expected, strict=True):
        compare(name, found[name], want, tolerance)
    return graph


def agree_in_turn(module: Any, calls: Iterable[Any], tolerance: float = 1e-4) -> Mapping[str, Any]:
    """Assert that calls of a module of nnx in turn return what its program returns; returns its state.

    calls: an argument for each call. The first is the example, too.
    """
    calls = list(calls)
    graph = lowered(module, calls[0])
    variables: Mapping[str, Any] = {}
    for argument in calls:
        run = tc.run(graph, dict.fromkeys(graph.main.inputs, argument), variables=dict(variables))
        variables = run.variables
        (found,) = run.outputs.values()
        compare("output", found, np.asarray(module(argument)), tolerance)
    return variables


def outputs(graph: tc.Graph, *args: Any) -> Mapping[str, Any]:
    """Return the results of a program for the arguments of its function."""
    flat = [np.asarray(value) for value in jax.tree.leaves(args)]
    feed = {
        name: value.view(SIGNED.get(str(value.dtype), value.dtype))
        for name, value in zip(graph.main.inputs, flat, strict=True)
    }
    return tc.run(graph, feed).outputs


def compare(name: str, found: Any, want: Any, tolerance: float) -> None:
    assert found.shape == want.shape, name
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(found.view(want.dtype), want, err_msg=name)
        return
    assert found.dtype == want.dtype, name
    np.testing.assert_allclose(
        found.astype(np.float64),
        want.astype(np.float64),
        rtol=10 * tolerance,
        atol=tolerance,
        err_msg=name,
    )
