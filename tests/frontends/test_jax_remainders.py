"""Remainders of JAX, which are exact, and the operators of integer sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frontends.jax_runs import jax

import tosa_convert as tc

jnp, lax = jax.numpy, jax.lax
FLOATS = ("float32", "float16", "bfloat16")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("divisor", "kind"),
    [
        (0.1, "float32"),
        *(
            pytest.param(number, kind, marks=pytest.mark.slow)
            for kind in FLOATS
            for number in (None, 3, 6.2831855, 1, 0.5, 1e-3, 360, 1e30 if kind != "float16" else 7)
        ),
    ],
)
def test_remainders_are_exact(divisor: float | None, kind: str) -> None:
    """None is for divisors that are computed. The judge is fmod of C, which XLA uses."""
    dtype = jnp.dtype(kind)
    bits = np.random.default_rng(0).integers(0, 2**32, (2, 20_000), dtype=np.uint64)
    unsigned = f"uint{8 * dtype.itemsize}"
    a, b = (bits & (2 ** (8 * dtype.itemsize) - 1)).astype(unsigned).view(dtype)
    a = np.concatenate([a, np.arange(1, 5000, dtype=np.float32).astype(dtype)])
    if divisor is not None:
        b = np.full(a.shape, divisor, np.float32).astype(dtype)
        graph = tc.frontends.from_jax(lambda x: lax.rem(x, b[0]), (a,))
    else:
        b = np.resize(b, a.shape)
        graph = tc.frontends.from_jax(lax.rem, (a, b))
    given = dict(zip(graph.main.inputs, (a, b), strict=False))
    (found,) = tc.run(graph, given, engine="numpy").outputs.values()
    wide = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        expected = np.fmod(*wide).astype(dtype)
    # XLA takes subnormal numbers of FP32 and BF16 for 0.
    normal = np.ones(a.shape, bool)
    if kind != "float16":
        normal = (np.abs(wide[0]) >= 2.0**-126) & (np.abs(wide[1]) >= 2.0**-126)
    x, y = found.astype(np.float64)[normal], expected.astype(np.float64)[normal]
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ("function", "operators"),
    [
        (lambda x, i: x[i], {"BITWISE_OR", "ADD", "GREATER", "SELECT"}),
        (lambda x, i: (i > 0).sum() + jnp.argmax(x), {"ADD"}),
        (lambda x, i: i + 1, {"BITWISE_OR", "ADD", "BITWISE_XOR", "GREATER", "SELECT"}),
        (lambda x, i: lax.fori_loop(0, i[0], lambda n, a: a * n, 1.0), {"ADD"}),
    ],
    ids=["index", "count", "sum", "loop"],
)
def test_sums_that_fit_are_plain_ones(function: Callable[..., Any], operators: set[str]) -> None:
    x, i = np.ones((10, 4), np.float32), np.zeros(3, np.int32)
    graph = tc.frontends.from_jax(function, (x, i))
    names = {op.spec.name for _, block in graph.blocks() for op in block.operators}
    asked = {"ADD", "BITWISE_OR", "BITWISE_XOR", "BITWISE_AND"}
    assert names & asked == operators & asked
