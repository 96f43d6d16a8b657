"""What `bisect` makes of the parts of a program: results of one operator, refusals, and single runs."""

from __future__ import annotations

import numpy as np
import pytest
from golden.numpy_backend import NumpyBackend, Values

from tosa_convert.builder import Builder, Value
from tosa_convert.golden.arrays.by_name import Array, differing_elements
from tosa_convert.golden.bisection.bisect import bisect
from tosa_convert.graph import Graph, Operator

pytestmark = pytest.mark.usefixtures("refmodel")
FIRST, SECOND = 'loc("first")', 'loc("second")'
X: dict[str, Array] = {"x": np.linspace(0.25, 1, 256, dtype=np.float32).reshape(1, 4, 64)}


def at(b: Builder, location: str, value: Value) -> Value:
    """A value whose operator has a location."""
    b._block.operators[-1].location = location
    return value


def two_results(b: Builder, kind: str, x: Value) -> tuple[Value, ...]:
    """Two results of one operator."""
    if kind == "FFT2D":
        return b.fft2d(x, b.abs(x))
    if kind == "RFFT2D":
        return b.rfft2d(x)
    if kind == "COND_IF":
        return b.cond_if(
            True,
            [x],
            lambda inner, x: [inner.tanh(x), inner.sigmoid(x)],
            lambda inner, x: [inner.sigmoid(x), inner.tanh(x)],
        )
    _, one, two = b.while_loop(
        [b.const([0], "int32"), x, x],
        lambda inner, i, *values: inner.greater(inner.const([2], "int32"), i),
        lambda inner, i, one, two: [
            inner.add(i, inner.const([1], "int32")),
            inner.tanh(one),
            inner.sigmoid(two),
        ],
    )
    return one, two


def clamped(b: Builder, kind: str, x: Value) -> Value:
    """A sum of two results, each clamped."""
    one, two = two_results(b, kind, x)
    first = at(b, FIRST, b.clamp(one, min_val=-3.0, max_val=3.0))
    second = at(b, SECOND, b.clamp(two, min_val=-3.0, max_val=3.0))
    return b.add(first, second)


class WrongBehind(NumpyBackend):
    """Adds 0.5 to the CLAMP at a location if its operand is computed in the same run."""

    def __init__(self, location: str) -> None:
        super().__init__()
        self.location = location

    def operator(
        self, graph: Graph, index: int, op: Operator, values: Values, states: Values
    ) -> Values:
        results = super().operator(graph, index, op, values, states)
        computed = {name for other in graph.main.operators for name in other.outputs}
        if op.location != self.location or op.inputs[0] not in computed:
            return results
        return {name: array + np.float32(0.5) for name, array in results.items()}


@pytest.mark.parametrize("location", [FIRST, SECOND])
@pytest.mark.parametrize(
    "kind", ["FFT2D", "RFFT2D", "COND_IF", pytest.param("WHILE_LOOP", marks=pytest.mark.slow)]
)
def test_an_operator_that_is_wrong_behind_one_of_several_results_is_named(
    kind: str, location: str
) -> None:
    b = Builder()
    b.output(b.abs(clamped(b, kind, b.input("x", "fp32", (1, 4, 64)))))
    result = bisect(b.graph(), WrongBehind(location), X, engine="numpy")
    assert result.first is not None
    assert result.first.kind == "in-context"
    names = [row[1].split()[-1] for row in result.first.operators]
    assert names == [kind, "CLAMP"], result
    assert result.first.operators[-1][2] == location
    assert not result.first.case.comparison.ok


@pytest.mark.slow
@pytest.mark.parametrize("location", [FIRST, SECOND])
@pytest.mark.parametrize("kind", ["FFT2D", "RFFT2D", "COND_IF"])
def test_such_an_operator_in_a_branch_is_named(kind: str, location: str) -> None:
    b = Builder()
    x = b.input("x", "fp32", (1, 4, 64))
    results = b.cond_if(
        True,
        [x],
        lambda inner, x: [clamped(inner, kind, x)],
        lambda inner, x: [clamped(inner, kind, inner.negate(x))],
    )
    b.output(*results)
    result = bisect(b.graph(), WrongBehind(location), X, engine="numpy")
    assert result.first is not None
    names = [row[1].split()[-1] for row in result.first.operators]
    assert (result.first.kind, names) == ("in-context", [kind, "CLAMP"]), result


def test_arrays_that_were_not_read_are_compared_without_being_made() -> None:
    """An array of an unexpected shape is one zero, however large its header says it is."""
    huge = np.broadcast_to(np.float32(0), (1 << 42,))
    assert differing_elements(huge, huge) == 0
    assert differing_elements(huge, np.broadcast_to(np.float32(1), huge.shape)) == huge.size
    one, other = (np.array([0, value, np.nan], np.float32) for value in (1, 2))
    assert differing_elements(one, other) == 1
    assert differing_elements(np.zeros((0, 3)), np.ones((0, 3))) == 0
