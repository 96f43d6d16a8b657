"""`bisect` names the operator of every integer tensor of a quantised network that is one step off."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
from golden.fault_bench.fault import At, FaultyMachine

from tosa_convert.builder import Builder, Value
from tosa_convert.golden.arrays import Array
from tosa_convert.golden.backends.runners import Record
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.random_inputs import random_inputs
from tosa_convert.golden.running.run import iterate_tensors
from tosa_convert.golden.running.run_options import RunOptions
from tosa_convert.graph import Graph
from tosa_convert.graph.derived import computed_tensors
from tosa_convert.qualify.bisection.bisect import bisect

_RNG = np.random.default_rng(7)
_ZERO = -3


def _weights(*shape: int) -> Array:
    return _RNG.integers(-90, 90, shape).astype(np.int8)


def _bias(count: int) -> Array:
    return _RNG.integers(-500, 500, count).astype(np.int32)


def _to_int8(b: Builder, y: Value, shift: int) -> Value:
    """Return the rescale of each channel after a sum of products."""
    channels = (y.shape or ())[-1]
    multiplier = _RNG.integers(1 << 30, (1 << 31) - 1, channels).astype(np.int32)
    shifts = np.full(channels, shift, np.int8)
    return b.rescale(
        y,
        multiplier,
        shifts,
        output_zp=_ZERO,
        per_channel=True,
        rounding_mode="DOUBLE_ROUND",
        dtype="INT8",
    )


def _added(b: Builder, one: Value, two: Value) -> Value:
    """Return the sum of two INT8 tensors, as TFLite adds: in INT32, with 20 bits more."""
    wide = [
        b.rescale(y, 1 << 30, shift, input_zp=_ZERO, rounding_mode="DOUBLE_ROUND", dtype="INT32")
        for y, shift in ((one, 11), (two, 12))
    ]
    total = b.add(*wide)
    return b.rescale(
        total, 1 << 30, 49, output_zp=_ZERO, rounding_mode="DOUBLE_ROUND", dtype="INT8"
    )


@cache
def network() -> Graph:
    """Build a small network like MobileNet's, quantised: a stem, two residual blocks, a classifier."""
    b = Builder("quantised")
    x = b.input("image", "int8", (1, 8, 8, 3))
    point: dict[str, Any] = {"input_zp": _ZERO}
    y = b.conv2d(x, _weights(4, 3, 3, 3), _bias(4), stride=(2, 2), pad=(0, 1, 0, 1), **point)
    y = b.clamp(_to_int8(b, y, 40), min_val=_ZERO, max_val=110)
    for _ in range(2):
        wide = b.conv2d(y, _weights(8, 1, 1, 4), _bias(8), **point)
        wide = b.clamp(_to_int8(b, wide, 37), min_val=_ZERO, max_val=110)
        deep = b.depthwise_conv2d(wide, _weights(3, 3, 8, 1), _bias(8), pad=(1, 1, 1, 1), **point)
        deep = b.table(_to_int8(b, deep, 37), np.arange(-128, 128).clip(-100, 90).astype(np.int8))
        flat = b.conv2d(deep, _weights(4, 1, 1, 8), _bias(4), **point)
        y = _added(b, y, _to_int8(b, flat, 38))
    pooled = b.avg_pool2d(y, input_zp=_ZERO, output_zp=_ZERO, kernel=(4, 4))
    scores = b.conv2d(pooled, _weights(10, 1, 1, 4), _bias(10), **point)
    scores = b.reshape(_to_int8(b, scores, 38), (1, 10))
    b.output(scores, b.argmax(scores, axis=1, dtype="INT32"))
    graph = b.graph()
    for index, op in enumerate(graph.main.operators):
        op.location = f'loc("{index}")'
    return graph


@cache
def inputs() -> Mapping[str, Array]:
    return random_inputs(network(), input_slots(network()), 1)


@cache
def right() -> Mapping[str, Array]:
    """Return the array of every tensor."""
    tensors = iterate_tensors(network(), inputs(), options=RunOptions(engine="numpy"))
    return {tensor.name: tensor.arrays[tensor.name] for tensor in tensors}


def one_step(array: Array, place: int) -> Array:
    """Return the array with one element one step away, towards zero."""
    changed = array.copy()
    flat = changed.reshape(-1)
    flat[place % array.size] += -1 if flat[place % array.size] > 0 else 1
    return changed


class OneStep(FaultyMachine):
    """Changes one element of an operator's result by one step."""

    def __init__(self, location: str, place: int) -> None:
        super().__init__(location)
        self.place = place

    def operator(self, at: At, results: list[Any]) -> list[Any]:
        """See `FaultyMachine`."""
        return [one_step(np.asarray(results[0]), self.place), *results[1:]]


TENSORS = computed_tensors(network())


@pytest.mark.slow
@pytest.mark.parametrize(("index", "name"), TENSORS, ids=[name for _, name in TENSORS])
def test_one_step_in_one_element_is_named(index: int, name: str) -> None:
    for place in (0, 5, 1 << 20):
        result = bisect(network(), OneStep(f'loc("{index}")', place), inputs(), engine="numpy")
        assert result.first is not None
        assert (result.first.kind, [row[0] for row in result.first.operators]) == (
            "by-itself",
            [index],
        )
        (failure,) = result.first.case.comparison.failures
        assert (failure.name, failure.differing) == (name, 1)


@pytest.mark.slow
def test_one_step_in_one_element_of_a_record_is_named() -> None:
    for index, name in TENSORS:
        recorded = {**right(), name: one_step(right()[name], 7)}
        result = bisect(network(), Record("left", recorded), inputs(), engine="numpy")
        assert result.first is not None, name
        assert [row[0] for row in result.first.operators] == [index]
