"""What a fault of the bench is, and the backend that has it.

The backend computes every operator as `tosa_convert.reference` does, each result rounded to its element
type, so that without its hooks it is right. A fault overrides a hook.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tosa_convert.builder import Builder
from tosa_convert.golden.arrays import Array, slots
from tosa_convert.golden.backends.isolated import part_of
from tosa_convert.golden.running.programs import STATE_PREFIX
from tosa_convert.graph import Block, Graph, Operator
from tosa_convert.graph.opset import CONST, CONST_SHAPE
from tosa_convert.reference.block_scaled import Scaled, Value
from tosa_convert.reference.call import Inside
from tosa_convert.reference.evaluate import Machine

__all__ = ["TARGET", "At", "Fault", "FaultyMachine", "Scaled", "Value", "at_target", "faulty"]

#: The location of the faulty operator, unless a fault says otherwise.
TARGET: Final = 'loc("target")'
Inputs = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class At:
    """An operator that the backend computes, when a hook is called.

    operands: an array for each operand, in its element type; a shape is a vector of INT64, a tensor with
        scales a pair `Scaled(data, scale)`.
    machine: the run: `machine.graph` is the part that is compiled, `machine.variables` the states.
    """

    machine: _Run
    block: Block
    op: Operator
    operands: list[Value]

    def again(self, operands: Sequence[Value] | None = None, **attributes: Any) -> list[Value]:
        """Compute the operator rightly, with other operands or attributes, and return its results."""
        op = replace(self.op, attributes={**self.op.attributes, **attributes})
        taken = self.operands if operands is None else list(operands)
        return list(Machine.compute(self.machine, self.block, op, taken, "again").values())

    def producer(self, position: int = 0) -> At | None:
        """Return the operator that computes an operand in the same run, or None: what a fusion sees."""
        return self.machine.computed.get((id(self.block), self.op.inputs[position]))


class FaultyMachine:
    """A backend that is right, but for what its hooks change.

    It is a `Runner`: `check` runs the whole program on it, `bisect` parts of it. One object is one
    backend: what a hook stores in `memory` stays from run to run.

    places: locations of the operators that the hook `operator` is called for.
    runs: how many runs there were, with this one.
    """

    name = text = "faulty"

    def __init__(self, *places: str) -> None:
        self.places = frozenset(places or (TARGET,))
        self.runs = 0
        self.memory: dict[Any, Any] = {}

    def operator(self, at: At, results: list[Value]) -> Sequence[Value]:
        """Change the results of an operator at one of the places."""
        return results

    def condition(self, op: Operator, is_true: bool, turn: int) -> bool:
        """Change the truth of a condition: of a COND_IF, or of a WHILE_LOOP before iteration `turn`."""
        return is_true

    def rewrite(self, graph: Graph) -> Graph:
        """Return the program that is compiled: the whole, or a part that bisect asks for."""
        return graph

    def begin(self, graph: Graph, inputs: Inputs) -> Inputs:
        """Change what the program reads."""
        return inputs

    def finish(self, graph: Graph, outputs: dict[str, Array]) -> dict[str, Array]:
        """Change the outputs of a run, such as where two of them share memory."""
        return outputs

    def compute(
        self, graph: Graph, names: list[str], inputs: Inputs, cuts: list[str], folder: Path
    ) -> Mapping[str, Array]:
        """See `Runner`."""
        self.runs += 1
        part = part_of(graph, names, cuts)
        compiled = self.rewrite(part)
        wanted = [slot.key for name in part.main.inputs for slot in slots(part.main, name)]
        run = _Run(compiled)
        run.backend, run.computed = self, {}
        outputs = run.run(self.begin(compiled, {key: inputs[key] for key in wanted}))
        states = {STATE_PREFIX + name: array for name, array in run.variables.items()}
        return self.finish(compiled, outputs) | (states if part is graph else {})

    def inside(self, output: str, attribute: str) -> FaultyMachine:
        """See `Runner`."""
        return self


class _Run(Machine):
    """One run of a program on a faulty machine."""

    backend: FaultyMachine
    computed: dict[tuple[int, str], At]

    def compute(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        found = Machine.compute(self, block, operator, operands, where)
        if operator.spec in (CONST, CONST_SHAPE):
            return found
        at = At(self, block, operator, list(operands))
        self.computed |= {(id(block), name): at for name in operator.outputs}
        if operator.location not in self.backend.places or not found:
            return found
        results = self.backend.operator(at, list(found.values()))
        return dict(zip(found, results, strict=True))

    def _control_flow(
        self,
        operator: Operator,
        operands: Sequence[Value],
        results: dict[str, Value],
        enter: Callable[..., Inside],
    ) -> Iterator[Any]:
        def holds(value: Value, turn: int) -> bool:
            array = value.data if isinstance(value, Scaled) else value
            return self.backend.condition(operator, bool(array.reshape(-1)[0]), turn)

        regions = {row.name: self._region(operator, row.name) for row in operator.spec.regions}
        state = list(operands)
        if "then_graph" in regions:
            taken = "then" if holds(state[0], 0) else "else"
            block = regions[f"{taken}_graph"]
            state = yield from self._region_run(block, state[1:], enter(taken))
        else:
            for turn in itertools.count():
                place = enter(f"cond[{turn}]", turn)
                found = yield from self._region_run(regions["cond_graph"], state, place)
                if not holds(found[0], turn):
                    break
                place = enter(f"body[{turn}]", turn)
                state = yield from self._region_run(regions["body_graph"], state, place)
        if operator.location in self.backend.places:
            block = next(b for _, b in self.graph.blocks() if operator in b.operators)
            at = At(self, block, operator, list(operands))
            state = list(self.backend.operator(at, state))
        results.update(zip(operator.outputs, state, strict=True))


#: Changes the results of the operator at the target; see `FaultyMachine.operator`.
Change = Callable[[At, list[Value]], Sequence[Value]]


def faulty(change: Change, *places: str) -> Callable[[], FaultyMachine]:
    """Return what makes a backend that changes the results of the operators at some places."""

    class Changed(FaultyMachine):
        def operator(self, at: At, results: list[Value]) -> Sequence[Value]:
            return change(at, results)

    return lambda: Changed(*places)


@contextmanager
def at_target(b: Builder, location: str = TARGET) -> Iterator[Builder]:
    """Give the operators that are added the location of the faulty one."""
    before, b.location = b.location, location
    yield b
    b.location = before


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A faulty backend, and a program that shows its fault.

    kind: what is wrong, in a few words; one row of the table. family: "inputs", "precision", "structure"
        or "discrete". dtype: the element type that the fault is about, such as "FP16".
    program: makes the program. backend: makes a new backend.
    location: where `bisect` must say the fault is: each operator that it names must be at one of these;
        more than one for fusions. None if no operator is to blame, so that any failure is right.
    witness: makes inputs on which the outputs are wrong, if ordinary inputs do not show it.
    """

    kind: str
    family: str
    dtype: str
    program: Callable[[], Graph]
    backend: Callable[[], FaultyMachine]
    location: str | tuple[str, ...] | None = TARGET
    witness: Callable[[], Inputs] | None = None
    variant: str = ""

    @property
    def title(self) -> str:
        """Return the kind, the element type and the variant."""
        return ", ".join(filter(None, (self.kind, self.dtype, self.variant)))
