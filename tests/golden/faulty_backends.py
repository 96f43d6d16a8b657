"""Backends with one fault each, and small programs in which the fault is placed.

A program has the operator of a kind in the middle of others, with the location "target". A fault is
applied to the results of operators with that location.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from golden.conftest import Builder
from golden.correct_backends import CorrectBackend

from tosa_convert.golden.arrays import Array
from tosa_convert.graph import Block, Graph, Operator
from tosa_convert.graph.opset import VARIABLE_WRITE
from tosa_convert.reference.block_scaled import Value, plain

SHAPE = (1, 4, 8)
TARGET = 'loc("target")'
#: What changes a result; the number counts the runs of the backend.
Change = Callable[[Array, int], Array]


def moved(factor: float) -> Change:
    """Multiplied by a factor."""
    return lambda array, run: (array * np.float64(factor)).astype(array.dtype)


def offset(share: float) -> Change:
    """Return all elements moved: floating point by a share of the largest, integers by 1."""

    def change(array: Array, run: int) -> Array:
        if array.dtype.kind in "biu":
            return ~array if array.dtype == np.bool_ else array + 1
        return np.asarray(array + array.dtype.type(share * _size(array)), array.dtype)

    return change


def _size(array: Array) -> float:
    return 1 + float(np.abs(array.astype(np.float64)).max())


def one_element(array: Array, run: int) -> Array:
    """One element changed."""
    changed = array.copy()
    flat = changed.reshape(-1)
    index = flat.size // 2
    if array.dtype == np.bool_:
        flat[index] ^= True
    else:
        step = 64 if array.dtype.kind in "iu" else _size(array)
        flat[index : index + 1] += array.dtype.type(step)
    return changed


def one_nan(array: Array, run: int) -> Array:
    """One element is not a number."""
    changed = array.copy()
    changed.reshape(-1)[array.size // 2] = np.nan
    return changed


def rolled(array: Array, run: int) -> Array:
    """Elements in other places, as after a wrong broadcast."""
    along_last = np.roll(array, 1, axis=-1)
    return np.roll(array, 1) if np.array_equal(along_last, array) else along_last


def changing(array: Array, run: int) -> Array:
    """Another error in every run."""
    if array.dtype == np.bool_:
        changed = array.copy()
        changed.reshape(-1)[run % array.size] ^= True
        return changed
    return np.asarray(array + array.dtype.type(run % 5 + 1))


@dataclass
class Faulty(CorrectBackend):
    """A correct backend with a fault.

    change: of the results of operators at `places`. fused_with: the fault shows only in runs that
        compute the operator at this location, too, and do not return the result.
    beside: the fault shows only in runs that return results of the operator at this location, too.
    at_first: the fault shows only in this many runs.
    """

    change: Change = one_element
    places: tuple[str, ...] = (TARGET,)
    fused_with: str = ""
    beside: str = ""
    at_first: int = 0
    changes_state: bool = False
    runs: int = 0
    active: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def compute(
        self,
        graph: Graph,
        names: list[str],
        inputs: Mapping[str, Array],
        cuts: list[str],
        folder: Path,
    ) -> Mapping[str, Array]:
        """See Runner."""
        self.runs += 1
        self.active = set(names)
        return super().compute(graph, names, inputs, cuts, folder)

    def changed(
        self,
        block: Block,
        op: Operator,
        operands: Mapping[str, Value],
        results: dict[str, Value],
        states: dict[str, Array],
    ) -> dict[str, Value]:
        """Return the results of an operator, changed if the fault is here."""
        if op.spec is VARIABLE_WRITE and self.changes_state:
            for name in states:
                states[name] = self.change(states[name], self.runs)
        if op.location not in self.places:
            return results
        if self.fused_with:
            others = [other.location for other in block.operators]
            if self.fused_with not in others or self.active & set(op.outputs):
                return results
        if self.beside:
            beside = [other for other in block.operators if other.location == self.beside]
            if not any(self.active & set(other.outputs) for other in beside):
                return results
        if self.at_first and self.runs > self.at_first:
            return results
        # Of two results the first: the scales of block-scaled data are no numbers to add to.
        first = op.outputs[0]
        return {**results, first: self.change(plain(results[first]), self.runs)}


def program(kind: str, *, masked: bool = False) -> Graph:
    """x -> exact operators -> TANH, or ADD of INT32 -> operators after it.

    masked: the output does not show the operator's result.
    """
    b, row = Builder(), "FP32" if kind == "TANH" else "INT32"
    b.input("x", row, SHAPE)
    b.const("row", row, np.arange(1, 9).reshape(1, 1, 8) * (0.1 if kind == "TANH" else 1))
    b.op("ABS", ["x"], "first", row, SHAPE)
    if kind == "TANH":
        b.op("SIGMOID", ["first"], "second", row, SHAPE)
        b.op("TANH", ["second"], "target", row, SHAPE)
        b.op("ADD", ["target", "row"], "after", row, SHAPE)
    else:
        b.op("ADD", ["first", "row"], "target", row, SHAPE)
        b.op("SUB", ["target", "row"], "after", row, SHAPE)
    b.op("REVERSE", ["after"], "last", row, SHAPE, axis=2)
    if not masked:
        return b.graph("last")
    b.const("never", "BOOL", np.zeros(SHAPE, np.bool_))
    b.const("other", row, np.ones(SHAPE))
    return b.graph(b.op("SELECT", ["never", "last", "other"], "y", row, SHAPE))


def inputs(kind: str) -> dict[str, Array]:
    """Return values for `x`."""
    row = np.float32 if kind == "TANH" else np.int32
    return {"x": (np.arange(32).reshape(SHAPE) % 7 - 2.5).astype(row)}
