"""Backends with one fault each, and small programs in which the fault is placed.

A program has the operator of a kind in the middle of others, with the location "target". A fault is
applied to the results of operators with that location.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from golden.conftest import Builder
from golden.correct_backends import CorrectBackend

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.npz import Slot
from tosa_convert.graph import Block, Graph, Operator, Region, dtype, operator
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.dtypes import NanPropagationMode
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


@dataclass(frozen=True)
class Kind:
    """A kind of operator: how it is added to a program, and a factor just beyond its rule."""

    add: Callable[[Builder, str], None]
    dtype: str = "FP32"
    factor: float = 1.0


def _unary(kind: str) -> Callable[[Builder, str], None]:
    def add(b: Builder, source: str) -> None:
        b.op(kind, [source], "target", b.block.tensors[source].dtype.name, SHAPE)

    return add


def _binary(kind: str) -> Callable[[Builder, str], None]:
    def add(b: Builder, source: str) -> None:
        operands = [source, "row"]
        b.op(kind, operands, "target", b.block.tensors[source].dtype.name, SHAPE)

    return add


def _convolution(b: Builder, source: str) -> None:
    b.shape("image", [1, 1, 4, 8])
    b.op("RESHAPE", [source, "image"], "as_image", "FP32", (1, 1, 4, 8))
    b.const("weight", "FP32", np.linspace(0.3, 1, 192).reshape(8, 1, 3, 8))
    b.const("bias", "FP32", np.full(8, 0.5))
    b.const("no_zero", "FP32", [0.0])
    operands = ["as_image", "weight", "bias", "no_zero", "no_zero"]
    sizes = {"pad": (0, 0, 1, 1), "stride": (1, 1), "dilation": (1, 1)}
    more = {"local_bound": False, "acc_type": dtype("FP32")}
    b.op("CONV2D", operands, "target", "FP32", (1, 1, 4, 8), **sizes, **more)


def _gather(b: Builder, source: str) -> None:
    b.const("indices", "INT32", [[3, 1, 0, 2]])
    b.op("GATHER", [source, "indices"], "target", "FP32", SHAPE)


def _select(b: Builder, source: str) -> None:
    b.const("mask", "BOOL", np.arange(32).reshape(SHAPE) % 3 == 0)
    b.op("SELECT", ["mask", source, "row"], "target", "FP32", SHAPE)


def _to_half(b: Builder, source: str) -> None:
    b.op("CAST", [source], "target", "FP16", SHAPE)


def _multiply(b: Builder, source: str) -> None:
    b.const("no_shift", "INT8", [0])
    b.op("MUL", [source, "row", "no_shift"], "target", "FP32", SHAPE)


def _matmul(b: Builder, source: str) -> None:
    b.const("weight", "FP32", np.linspace(0.3, 1, 64).reshape(1, 8, 8))
    b.const("no_zero", "FP32", [0.0])
    b.op("MATMUL", [source, "weight", "no_zero", "no_zero"], "target", "FP32", SHAPE)


def _reduce(b: Builder, source: str) -> None:
    b.op("REDUCE_SUM", [source], "target", "FP32", (1, 1, 8), axis=1)


def _reverse(b: Builder, source: str) -> None:
    b.op("REVERSE", [source], "target", "FP32", SHAPE, axis=1)


def _maximum(b: Builder, source: str) -> None:
    mode, kind = NanPropagationMode.PROPAGATE, b.block.tensors[source].dtype.name
    b.op("MAXIMUM", [source, "row"], "target", kind, SHAPE, nan_mode=mode)


def _greater(b: Builder, source: str) -> None:
    b.op("GREATER", [source, "row"], "target", "BOOL", SHAPE)


#: Just beyond the rule: some units in the last place; for sums twice what their lengths allow.
KINDS: dict[str, Kind] = {
    "TANH": Kind(_unary("TANH"), factor=1 + 2.0**-18),
    "EXP": Kind(_unary("EXP"), factor=1 + 2.0**-18),
    "SIGMOID": Kind(_unary("SIGMOID"), factor=1 + 2.0**-19),
    "ADD": Kind(_binary("ADD"), factor=1 + 2.0**-21),
    "MUL": Kind(_multiply, factor=1 + 2.0**-21),
    "MATMUL": Kind(_matmul, factor=1 + 2.0**-17),
    "CONV2D": Kind(_convolution, factor=1 + 2.0**-15),
    "REDUCE_SUM": Kind(_reduce, factor=1 + 2.0**-18),
    "REVERSE": Kind(_reverse, factor=1 + 2.0**-22),
    "GATHER": Kind(_gather, factor=1 + 2.0**-22),
    "SELECT": Kind(_select, factor=1 + 2.0**-22),
    "MAXIMUM": Kind(_maximum, factor=1 + 2.0**-22),
    "CAST": Kind(_to_half, factor=1 + 2.0**-8),
    "FP16 TANH": Kind(_unary("TANH"), "FP16", factor=1 + 2.0**-6),
    "FP16 ADD": Kind(_binary("ADD"), "FP16", factor=1 + 2.0**-8),
    "BF16 EXP": Kind(_unary("EXP"), "BF16", factor=1 + 2.0**-3),
    "INT32 ADD": Kind(_binary("ADD"), "INT32"),
    "INT32 MAXIMUM": Kind(_maximum, "INT32"),
    "GREATER": Kind(_greater, "INT32"),
}
#: Element types of floating point.
_FLOATS = ("FP32", "FP16", "BF16")
#: Fault -> what changes, for floating point and for integers.
FAULTS: dict[str, tuple[Change | None, Change | None]] = {
    "scaled": (None, None),
    "offset": (offset(0.125), offset(0.125)),
    "one NaN": (one_nan, None),
    "one element": (one_element, one_element),
    "wrong broadcast": (rolled, rolled),
    "nondeterministic": (changing, changing),
}


def change_of(kind: str, fault: str) -> Change | None:
    """Return the change that a fault makes to results of a kind of operator; None if there is none."""
    if fault == "scaled":
        factor = KINDS[kind].factor
        return moved(factor) if factor != 1.0 else None
    return FAULTS[fault][0 if KINDS[kind].dtype in _FLOATS else 1]


def program(kind: str, *, masked: bool = False) -> Graph:
    """x -> exact operators -> the operator -> operators after it.

    masked: the output does not show the operator's result.
    """
    b, row = Builder(), KINDS[kind]
    b.input("x", row.dtype, SHAPE)
    values = np.arange(1, 9).reshape(1, 1, 8)
    b.const("row", row.dtype, values * 0.1 if row.dtype in _FLOATS else values)
    b.op("ABS", ["x"], "first", row.dtype, SHAPE)
    source = "first"
    if row.dtype in _FLOATS:
        source = b.op("SIGMOID", ["first"], "second", row.dtype, SHAPE)
    row.add(b, source)
    target = b.block.tensors["target"]
    kind_of_result, shape = target.dtype.name, target.shape
    assert shape is not None
    if kind_of_result == "BOOL":
        b.op("LOGICAL_NOT", ["target"], "after", "BOOL", shape)
    elif kind_of_result == "INT32":
        b.op("SUB", ["target", "row"], "after", "INT32", shape)
    else:
        other = (*(1,) * (len(shape) - 1), shape[-1])
        b.const("addend", kind_of_result, np.arange(1, 1 + shape[-1]).reshape(other) * 0.1)
        b.op("ADD", ["target", "addend"], "after", kind_of_result, shape)
    b.op("REVERSE", ["after"], "last", kind_of_result, shape, axis=2)
    if masked:
        b.const("never", "BOOL", np.zeros(shape, np.bool_))
        mode = ["never", "last", "last"]
        if kind_of_result == "BOOL":
            b.op("LOGICAL_AND", ["never", "last"], "y", "BOOL", shape)
        else:
            b.const("other", kind_of_result, np.ones(shape))
            b.op("SELECT", [*mode[:2], "other"], "y", kind_of_result, shape)
        return b.graph("y")
    return b.graph("last")


def inputs(kind: str) -> dict[str, Array]:
    """Return values for `x`."""
    row = dtype(KINDS[kind].dtype).numpy
    return {"x": (np.arange(32).reshape(SHAPE) % 7 - 2.5).astype(row)}


def in_region(kind: str) -> Graph:
    """Return the operator in the branch that is taken, or in the body of a loop of three iterations."""
    b, first, second = Builder(), Builder(), Builder()
    b.input("x", "FP32", SHAPE)
    b.op("ABS", ["x"], "first", "FP32", SHAPE)
    attributes: dict[str, Any]
    if kind == "COND_IF":
        b.const("yes", "BOOL", [True])
        attributes = {"then_graph": "one", "else_graph": "two"}
        operands, results = ["yes", "first"], ["y"]
    else:
        b.const("zero", "INT32", [[[0]]])
        attributes = {"cond_graph": "two", "body_graph": "one"}
        operands, results = ["zero", "first"], ["count", "y"]
        b.tensor("count", "INT32", (1, 1, 1))
        for inner in (first, second):
            inner.input("i", "INT32", (1, 1, 1))
    b.tensor("y", "FP32", SHAPE)
    b.block.operators.append(
        Operator(operator(kind), tuple(operands), tuple(results), attributes, 'loc("region")')
    )
    b.op("REVERSE", ["y"], "last", "FP32", SHAPE, axis=1)
    for inner in (first, second):
        inner.input("v", "FP32", SHAPE)
    first.op("SIGMOID", ["v"], "s", "FP32", SHAPE)
    first.op("TANH", ["s"], "target", "FP32", SHAPE)
    if kind == "COND_IF":
        first.block.outputs = ["target"]
        second.op("ABS", ["v"], "n", "FP32", SHAPE)
        second.block.outputs = ["n"]
    else:
        first.const("one", "INT32", [[[1]]])
        first.op("ADD", ["i", "one"], "next", "INT32", (1, 1, 1))
        first.block.outputs = ["next", "target"]
        second.const("end", "INT32", [[[3]]])
        second.op("GREATER", ["end", "i"], "go", "BOOL", (1, 1, 1))
        second.block.outputs = ["go"]
    graph = b.graph("last")
    for name, inner in (("one", first), ("two", second)):
        inner.block.name = name
        graph.regions.append(Region(name, [inner.block]))
    return graph


def with_state() -> Graph:
    """Return a variable that is read, and written with the operator's result."""
    b = Builder()
    b.input("x", "FP32", SHAPE)
    slot = Slot("v", "v", dtype("FP32"), SHAPE)
    initial = constant_of(np.full(SHAPE, 0.5), slot.dtype)
    b.tensor("v", "FP32", SHAPE, data=initial, variable=True, variable_name="state")
    b.op("VARIABLE_READ", ["v"], "old", "FP32", SHAPE)
    b.op("ABS", ["old"], "y", "FP32", SHAPE)
    b.op("SUB", ["old", "x"], "difference", "FP32", SHAPE)
    b.op("TANH", ["difference"], "target", "FP32", SHAPE)
    b.block.operators.append(Operator(VARIABLE_WRITE, ("target",), ("v",), location='loc("write")'))
    return b.graph("y")


def pairs() -> list[tuple[str, str]]:
    """Return every kind of operator with every fault that it can have."""
    return [(kind, fault) for kind in KINDS for fault in FAULTS if change_of(kind, fault)]
