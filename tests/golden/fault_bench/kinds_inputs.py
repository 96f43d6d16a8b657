"""Faults that only some inputs show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from golden.fault_bench.fault import At, Fault, Value, at_target, faulty

from tosa_convert.builder import Builder
from tosa_convert.graph import Graph


def clamped(dtype: str) -> Graph:
    """Return a program that adds, clamps and negates."""
    b = Builder("clamped")
    x = b.input("x", dtype, (4, 8))
    y = b.add(x, 0.25)
    with at_target(b):
        y = b.clamp(y, min_val=-0.5, max_val=0.5)
    b.output(b.negate(y), name="y")
    return b.graph()


def drops_nan(at: At, results: list[Value]) -> Sequence[Value]:
    """Give the lower limit for NaN, as a maximum that ignores NaN does."""
    (x,) = at.operands
    assert isinstance(x, np.ndarray)
    low = at.again([np.full_like(x, -np.inf)])[0]
    return [np.where(np.isnan(x.astype(np.float32)), low, results[0])]


def faults() -> Iterator[Fault]:
    """Iterate over the faults of this file."""
    for dtype in ("FP32", "FP16", "BF16"):
        yield Fault(
            kind="clamp loses NaN",
            family="inputs",
            dtype=dtype,
            program=partial(clamped, dtype),
            backend=faulty(drops_nan),
        )
