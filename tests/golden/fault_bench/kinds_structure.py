"""Faults of structure: control flow, order, states, and places in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from golden.fault_bench.fault import At, Fault, FaultyMachine, Value, at_target
from golden.fault_bench.programs import FLOATS, finished, fused, instead, place
from golden.fault_bench.programs import rows as _rows

from tosa_convert.builder import Builder, DTypeName
from tosa_convert.golden.arrays import Array
from tosa_convert.golden.running.programs import variables_of, with_variables
from tosa_convert.graph import Block, Graph, Operator, Region
from tosa_convert.graph.opset import VARIABLE_WRITE

rows = partial(_rows, family="structure")
BOTH: Final = ("", "behind")
SOME: Final[tuple[DTypeName, ...]] = ("FP32", "FP16", "BF16", "INT32")
MOVED: Final[tuple[DTypeName, ...]] = ("FP32", "FP16", "BF16", "INT8", "INT16", "INT32")
LOOPED: Final[tuple[DTypeName, ...]] = ("FP32", "FP16", "INT32")
FIRST, SECOND, LAST = place("first"), place("second"), place("last")


def fault(kind: str, dtype: str, program: Any, backend: Any, **more: Any) -> Fault:
    """Return a fault of this family."""
    return Fault(
        kind=kind, family="structure", dtype=dtype, program=program, backend=backend, **more
    )


# -- control flow -----------------------------------------------------------------------------------


def branches(dtype: DTypeName) -> Graph:
    """Return a program with a branch that depends on an input."""
    b = Builder("branches")
    x, c = b.input("x", dtype, (4, 8)), b.input("c", "int32", ())
    y = b.abs(x) if dtype in SOME else x
    with at_target(b):
        (y,) = b.cond_if(b.greater(c, 0), [y], _add(3), _add(5))
    b.output(finished(b, y), name="y")
    return b.graph()


def _add(number: int) -> Callable[[Builder, Any], Any]:
    def body(b: Builder, v: Any) -> Any:
        b.location = ""
        return b.add(v, number)

    return body


def loops(dtype: DTypeName, turns: int = 3) -> Graph:
    """Return a program with a loop that exchanges two values and adds to one."""
    b = Builder("loops")
    x, z = b.input("x", dtype, (4, 8)), b.input("z", dtype, (4, 8))
    first, second = b.maximum(x, z), b.minimum(x, z)
    with at_target(b):
        _, y, w = b.while_loop([b.const([0], "int32"), first, second], _until(turns), _exchange)
    b.output(finished(b, y), name="y")
    b.output(finished(b, w), name="w")
    return b.graph()


def _until(turns: int) -> Callable[..., Any]:
    def condition(b: Builder, i: Any, *others: Any) -> Any:
        b.location = ""
        return b.greater(b.const([turns], "int32"), i)

    return condition


def _exchange(b: Builder, i: Any, y: Any, w: Any) -> list[Any]:
    b.location = ""
    return [b.add(i, b.const([1], "int32")), w, b.add(y, 2)]


class WrongCondition(FaultyMachine):
    """Takes conditions for something else."""

    def __init__(self, truth: Callable[[bool, int], bool]) -> None:
        super().__init__()
        self.truth = truth

    def condition(self, op: Operator, is_true: bool, turn: int) -> bool:
        """See `FaultyMachine`."""
        return self.truth(is_true, turn)


class WrongRegions(FaultyMachine):
    """Compiles the bodies of loops wrongly."""

    def __init__(self, change: Callable[[list[str]], list[str]]) -> None:
        super().__init__()
        self.change = change

    def rewrite(self, graph: Graph) -> Graph:
        """See `FaultyMachine`."""
        changed = [graph.regions[0]]
        for region in graph.regions[1:]:
            (block,) = region.blocks
            outputs = self.change(block.outputs) if len(block.outputs) > 1 else block.outputs
            changed.append(Region(region.name, [replace(block, outputs=outputs)]))
        return Graph(graph.version, changed, graph.producer, graph.target)


def _one_after_another(outputs: list[str]) -> list[str]:
    return [outputs[0], outputs[2], outputs[2]]


def control_flow() -> Iterator[Fault]:
    """Branches and loops."""
    for dtype in SOME:
        for kind, truth in (
            ("the other branch runs", lambda is_true, turn: not is_true),
            ("the first branch always runs", lambda is_true, turn: True),
        ):
            backend = partial(WrongCondition, truth)
            yield fault(kind, dtype, partial(branches, dtype), backend)
    for dtype in LOOPED:
        for kind, truth, turns in (
            ("a loop ends one iteration early", lambda is_true, turn: is_true and turn < 2, 3),
            ("a loop runs once more", lambda is_true, turn: turn < 4, 3),
            ("a loop without iterations runs once", lambda is_true, turn: is_true or turn < 1, 0),
        ):
            backend = partial(WrongCondition, truth)
            yield fault(kind, dtype, partial(loops, dtype, turns), backend)
        for kind, change in (
            ("values of a loop are copied one after another", _one_after_another),
            ("values of a loop change places", lambda names: [names[0], names[2], names[1]]),
        ):
            yield fault(kind, dtype, partial(loops, dtype), partial(WrongRegions, change))


# -- states and memory ------------------------------------------------------------------------------


def counted(dtype: DTypeName) -> Graph:
    """Return a program that adds to a state, and returns what it was."""
    b = Builder("counted")
    x, state = b.input("x", dtype, (2, 4)), b.variable("state", dtype, (2, 4), initial=1)
    with at_target(b, FIRST):
        old = b.read(state)
    with at_target(b, SECOND):
        b.write(state, b.add(old, b.abs(x)))
    with at_target(b, LAST):
        b.output(finished(b, old), name="old")
    return b.graph()


class KeepsStates(FaultyMachine):
    """Begins with the states of the run before, instead of the initial ones."""

    def rewrite(self, graph: Graph) -> Graph:
        """Give the variables their last values."""
        known = {name: self.memory[name] for name in variables_of(graph) if name in self.memory}
        return with_variables(graph, known) if known else graph

    def compute(self, *given: Any) -> Any:
        """See `FaultyMachine`."""
        found = super().compute(*given)
        for key, array in found.items():
            if key.startswith("variable:"):
                self.memory[key.removeprefix("variable:")] = array
        return found


class WritesEarly(FaultyMachine):
    """Writes to a variable before it is read: what uses the old value gets the new one."""

    def rewrite(self, graph: Graph) -> Graph:
        """See `FaultyMachine`."""
        operators = graph.main.operators
        reads = [op for op in operators if op.spec.name == "VARIABLE_READ"]
        writes = [op for op in operators if op.spec is VARIABLE_WRITE]
        if not reads or not writes:
            return graph
        (old,), (new,) = reads[0].outputs, writes[0].inputs
        changed = [
            replace(op, inputs=tuple(new if name == old else name for name in op.inputs))
            if op.spec.name in ("NEGATE", "BITWISE_NOT")
            else op
            for op in operators
        ]
        return _with_block(graph, replace(graph.main, operators=changed))


def _with_block(graph: Graph, block: Block) -> Graph:
    first = Region(graph.regions[0].name, [block])
    return Graph(graph.version, [first, *graph.regions[1:]], graph.producer, graph.target)


class LosesWrites(FaultyMachine):
    """Does not write to variables."""

    def rewrite(self, graph: Graph) -> Graph:
        """Leave the writes out."""
        kept = [op for op in graph.main.operators if op.spec is not VARIABLE_WRITE]
        return _with_block(graph, replace(graph.main, operators=kept))


class LastRun(FaultyMachine):
    """Gives the results that the operator had in the last run: its buffer is not computed again."""

    def operator(self, at: At, results: list[Value]) -> list[Value]:
        """See `FaultyMachine`."""
        before = self.memory.get("last", results)
        self.memory["last"] = results
        return list(before)


class Races(FaultyMachine):
    """Sometimes reads an element before it is written."""

    def operator(self, at: At, results: list[Value]) -> list[Value]:
        """See `FaultyMachine`."""
        changed = np.array(results[0])
        changed.reshape(-1)[self.runs % changed.size] = 0
        return [changed, *results[1:]]


class SharesOutputs(FaultyMachine):
    """Has one buffer for two outputs."""

    def finish(self, graph: Graph, outputs: dict[str, Array]) -> dict[str, Array]:
        """See `FaultyMachine`."""
        if {"y", "w"} <= outputs.keys():
            outputs["y"] = outputs["w"]
        return outputs


def two_outputs(dtype: DTypeName) -> Graph:
    """Return a program with two outputs of one type."""
    b = Builder("two_outputs")
    x = b.input("x", dtype, (4, 8))
    with at_target(b, FIRST):
        y = b.reverse(x, axis=1)
    with at_target(b, SECOND):
        w = b.clamp(x, min_val=-0.5, max_val=1) if dtype in FLOATS else b.identity(x)
    b.output(b.identity(y), name="y")
    b.output(b.identity(w), name="w")
    for op in b._block.operators[-2:]:
        op.location = FIRST if "y" in op.outputs else SECOND
    return b.graph()


def residual(dtype: DTypeName) -> Graph:
    """Return a program that adds what comes before a clamp to what comes after it."""
    b = Builder("residual")
    x = b.input("x", dtype, (4, 8))
    h = b.sub(x, 0.25 if dtype in FLOATS else 3)
    with at_target(b, FIRST):
        y = b.maximum(h, 0)
    with at_target(b, SECOND):
        y = b.add(h, y)
    b.output(finished(b, y), name="y")
    return b.graph()


def _clobbered(at: At, results: list[Value]) -> list[Value]:
    return at.again([at.operands[1], at.operands[1]])


def similar(dtype: DTypeName) -> Graph:
    """Return a program with two operators that differ in an attribute only."""
    b = Builder("similar")
    x = b.input("x", dtype, (4, 4))
    with at_target(b, FIRST):
        y = b.reverse(x, axis=0)
    with at_target(b, SECOND):
        w = b.reverse(x, axis=1)
    b.output(b.identity(b.concat([y, w], axis=0)), name="y")
    return b.graph()


class MergesSimilar(FaultyMachine):
    """Takes two operators with the same operands for the same, whatever their attributes."""

    def rewrite(self, graph: Graph) -> Graph:
        """Give later operators the attributes of the first."""
        seen: dict[Any, Operator] = {}
        changed = []
        for op in graph.main.operators:
            first = seen.setdefault((op.spec.name, op.inputs), op) if op.inputs else op
            changed.append(replace(op, attributes=first.attributes))
        return _with_block(graph, replace(graph.main, operators=changed))


def memory() -> Iterator[Fault]:
    """States, buffers and runs."""
    for dtype in LOOPED:
        program = partial(counted, dtype)
        places = (FIRST, SECOND)
        yield fault("states stay from run to run", dtype, program, KeepsStates, location=places)
        yield fault("a variable is not written", dtype, program, LosesWrites, location=places)
        users = (FIRST, SECOND, LAST)
        yield fault("a variable is written early", dtype, program, WritesEarly, location=users)
    for dtype in SOME:
        both = (FIRST, SECOND)
        yield fault(
            "an operator in place destroys an operand that is used again",
            dtype,
            partial(residual, dtype),
            fused(_clobbered, *both),
            location=both,
        )
    for dtype in MOVED:
        both = (FIRST, SECOND)
        yield fault(
            "two outputs share memory",
            dtype,
            partial(two_outputs, dtype),
            SharesOutputs,
            location=both,
        )
        yield fault(
            "operators that differ in an attribute are merged",
            dtype,
            partial(similar, dtype),
            MergesSimilar,
            location=both,
        )
    for dtype in ("FP32", "INT8"):
        row = next(rows("", make=_sum_or_shift, change=instead(lambda r: r), dtypes=(dtype,)))
        yield fault("an element is read before it is written", dtype, row.program, Races)
        yield fault("results are those of the last run", dtype, row.program, LastRun)


def _sum_or_shift(b: Any, x: Any) -> Any:
    return b.add(x, 2.0) if x.dtype.is_float else b.logical_right_shift(x, 1)


def faults() -> Iterator[Fault]:
    """Iterate over the faults of this file."""
    yield from control_flow()
    yield from memory()
