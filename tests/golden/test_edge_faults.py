"""Faults that random inputs hardly ever show: edge inputs do, and `bisect` names the operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tosa_convert.builder import Builder, DTypeName, Value
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.backends.isolated import part_of
from tosa_convert.golden.checking.check import check, edge_sets, seeded_inputs
from tosa_convert.graph import Graph
from tosa_convert.graph.model import Block, Operator
from tosa_convert.qualify.bisection.bisect import bisect
from tosa_convert.reference.evaluate import Machine

#: Changes the result of an operator, given its operands.
Change = Callable[..., Any]


class FaultyMachine(Machine):
    """Computes all operators but one kind as they are defined."""

    def __init__(self, graph: Graph, kind: str, change: Change) -> None:
        super().__init__(graph)
        self.kind, self.change = kind, change

    def compute(self, block: Block, operator: Operator, operands: Any, where: str) -> Any:
        found = Machine.compute(self, block, operator, operands, where)
        if operator.spec.name != self.kind:
            return found
        (name,) = operator.outputs
        right: Any = found[name]
        with np.errstate(all="ignore"):
            changed = np.asarray(self.change(right, *operands))
        return {name: changed.astype(right.dtype).reshape(right.shape)}


class FaultyBackend:
    """A backend of which one kind of operator is wrong."""

    name = text = "faulty"

    def __init__(self, kind: str, change: Change) -> None:
        self.kind, self.change = kind, change

    def compute(
        self,
        graph: Graph,
        names: list[str],
        inputs: Mapping[str, Array],
        cuts: list[str],
        folder: Path,
    ) -> Mapping[str, Array]:
        """See Runner."""
        part = part_of(graph, names, cuts)
        return FaultyMachine(part, self.kind, self.change).run(inputs)

    def inside(self, output: str, attribute: str) -> FaultyBackend:
        """See Runner."""
        return self


def behind_a_convolution(b: Builder, x: Value) -> Value:
    weight = b.const(np.arange(-4, 4).reshape(8, 1, 1, 1) % 5 - 2, "int8")
    bias = b.const(np.arange(8), "int32")
    image = b.reshape(x, (1, 4, 8, 1))
    return b.conv2d(image, weight, bias, 3, pad=(0,) * 4, stride=(1, 1), dilation=(1, 1))


def rescaled(b: Builder, x: Value, bits: int) -> Value:
    rounding = "double_round" if bits < 3 else "single_round"
    y = behind_a_convolution(b, x)
    return b.rescale(y, 1 << 30, 30 + bits, 0, 3, rounding_mode=rounding, dtype="int8")


def in_32_bits(array: Array) -> Array:
    return array.astype(np.int32).astype(np.int64)


def tie_away(right: Array, x: Array) -> Any:
    return np.where(np.abs(x % 1) == 0.5, np.trunc(x + np.copysign(0.5, x)), right)


#: What is wrong: the type of the input x [4, 8], the operator, the program, and the wrong result.
FAULTS: dict[str, tuple[DTypeName, str, Callable[[Builder, Value], Value], Change]] = {
    "INT64 is computed in 32 bits": (
        *("int64", "ADD", lambda b, x: b.add(x, b.const([[5]], "int64"))),
        lambda r, x, y: in_32_bits(in_32_bits(x) + y),
    ),
    "comparisons of INT64 see 32 bits": (
        *("int64", "GREATER", lambda b, x: b.greater(x, b.const([[7]], "int64"))),
        lambda r, x, y: in_32_bits(x) > y,
    ),
    "ties of CAST are rounded away from zero": (
        *("fp32", "CAST", lambda b, x: b.cast(b.add(x, 0.25), dtype="int8"), tie_away),
    ),
    "CAST wraps around": (
        *("fp32", "CAST", lambda b, x: b.cast(b.mul(x, 2.0), dtype="int16")),
        lambda r, x: np.where(np.abs(x) < 1e9, np.rint(np.nan_to_num(x)) % 65536, r).astype(
            np.uint16
        ),
    ),
    "CLAMP loses NaN": (
        *("fp32", "CLAMP", lambda b, x: b.clamp(b.negate(x), min_val=-1.0, max_val=1.0)),
        lambda r, x: np.where(np.isnan(x), -1, r),
    ),
    "RESCALE rounds ties down": (
        *("int8", "RESCALE", lambda b, x: rescaled(b, x, 3)),
        lambda r, x, *others: np.where((x % 8 == 4) & (np.abs(r) < 100), r - 1, r),
    ),
    "RESCALE wraps around": (
        *("int8", "RESCALE", lambda b, x: rescaled(b, x, 1)),
        lambda r, x, *others: np.where(r == 127, (x >> 1) + 4, r),
    ),
    "INTDIV rounds down": (
        *("int32", "INTDIV", lambda b, x: b.intdiv(b.const([[1000003]], "int32"), x)),
        lambda r, x, y: x // y,
    ),
    "the negative of the least integer wraps around": (
        *("int8", "NEGATE", lambda b, x: b.negate(b.reverse(x, axis=1)), lambda r, x, *zp: -x),
    ),
    "ARGMAX takes the last of equal elements": (
        *("fp32", "ARGMAX", lambda b, x: b.argmax(b.mul(x, 2.0), axis=1, dtype="int32")),
        lambda r, x: x.shape[1] - 1 - x[:, ::-1].argmax(axis=1),
    ),
    "an infinite result of EXP is the largest number": (
        *("fp32", "EXP", lambda b, x: b.exp(b.add(x, 1.0))),
        lambda r, x: np.where(np.isposinf(r), 1e38, r),
    ),
    "0 and -0 are not equal": (
        *("fp32", "EQUAL", lambda b, x: b.equal(x, 0.0)),
        lambda r, x, y: r & ~np.signbit(x),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_edge_inputs_of_two_seeds_show_it_and_bisect_names_it(fault: str) -> None:
    dtype, kind, make, change = FAULTS[fault]
    b = Builder()
    b.output(make(b, b.input("x", dtype, (4, 8))))
    graph, backend = b.graph(), FaultyBackend(kind, change)
    sets = {
        **dict(edge_sets(graph, {}, 0, 2, (), further=True)),
        **dict(seeded_inputs(graph, {}, 0, 2, ())),
    }
    ok = {name: check(graph, backend, arrays, engine="numpy").ok for name, arrays in sets.items()}
    failing = [name for name in ok if not ok[name]]
    assert failing, ok
    assert failing[0].startswith("edges")
    found = bisect(graph, backend, sets[failing[0]], engine="numpy").first
    assert found is not None
    assert [row[1].split()[-1] for row in found.operators] == [kind]


def test_without_a_fault_the_backend_passes() -> None:
    b = Builder()
    b.output(b.exp(b.input("x", "fp32", (4, 8))))
    graph = b.graph()
    backend = FaultyBackend("EXP", lambda right, x: right)
    for _, arrays in edge_sets(graph, {}, 0, 2, ()):
        assert check(graph, backend, arrays, engine="numpy").ok
