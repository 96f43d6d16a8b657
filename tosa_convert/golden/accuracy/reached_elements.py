"""Which elements of a tensor the errors of implementations reach.

What operators only move, beside results that err, stays exact: an operand of CONCAT, the border of PAD,
the other side of SELECT, the branch of COND_IF that computes nothing inexact. So do results that jump,
such as those of CEIL and GREATER, where the operand is far from the jump.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.accuracy.bounds_of_operators import is_exact_inside, rule_of
from tosa_convert.golden.accuracy.erring_runs import subnormal_numbers
from tosa_convert.golden.accuracy.error_bounds import EXACT, is_subnormal, same_values
from tosa_convert.golden.accuracy.implementation_errors import rounded
from tosa_convert.golden.accuracy.open_results import undefined_integers
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.derived import extract, touches_variables
from tosa_convert.graph.model import Graph, Operator, operator_path
from tosa_convert.graph.opset import CONST
from tosa_convert.records import dataclass, field, replace
from tosa_convert.reference.block_scaled import Scaled, Value, plain
from tosa_convert.reference.evaluate import OPERATIONS, Machine, call_of

#: Whether errors reach all elements of a tensor, none, or which of them.
Reached = bool | Array
#: Operators whose results have elements of several operands.
_MIXING: Final = frozenset(("CONCAT", "COND_IF", "PAD", "SCATTER", "SELECT"))


@dataclass(slots=True)
class ReachedElements:
    """Follows through a main block which elements errors reach, one operator after another."""

    graph: Graph
    by_name: dict[str, Reached] = field(default_factory=dict)

    def of(self, name: str) -> Reached:
        """Return which elements of a tensor are reached; none of one that no operator computed."""
        return self.by_name.get(name, False)

    def start(self, values: Mapping[str, Value]) -> None:
        """Add inputs or constants: their subnormal numbers may be read as zeros."""
        self.by_name.update(subnormal_numbers(self.graph.main, values))

    def add(
        self, operator: Operator, operands: Sequence[Value], results: Mapping[str, Value]
    ) -> None:
        """Add the results of an operator. operands, results: their values without errors."""
        if operator.spec.regions:
            self._add_control_flow(operator, operands)
            return
        for name in operator.outputs:
            self.by_name[name] = self._result(operator, operands, name, results.get(name))

    def keep_those_that_jump(
        self, operator: Operator, runs: Sequence[Mapping[str, Value]], possible: Array | None
    ) -> None:
        """Leave out elements of a result that jumps where no run jumps.

        runs: the results of the exact run and of runs whose operands were moved as far as they may err.
        possible: the indices that each element may be, if the result is one.
        """
        for name in operator.outputs:
            exact, *others = (plain(own[name]) for own in runs)
            jumps = np.zeros(exact.shape, np.bool_)
            for other in others:
                jumps |= ~same_values(other, exact)
            if possible is not None:
                jumps |= possible.sum(axis=-1) > 1
            self.by_name[name] = _in_short(jumps & self.of(name))

    def _add_control_flow(self, operator: Operator, operands: Sequence[Value]) -> None:
        run = [row.name for row in operator.spec.regions]
        if "then_graph" in run:
            run = ["then_graph" if plain(operands[0]).reshape(-1)[0] else "else_graph"]
        states: list[str] = []
        if touches_variables(self.graph, operator):
            tensors = self.graph.main.tensors
            states = [name for name, tensor in tensors.items() if tensor.variable]
        errs = any(self.of(name) is not False for name in (*operator.inputs, *states))
        errs = errs or not is_exact_inside(self.graph, operator, run)
        for name in (*operator.outputs, *(states if errs else ())):
            self.by_name[name] = errs

    def _result(
        self, operator: Operator, operands: Sequence[Value], name: str, result: Value | None
    ) -> Reached:
        block, spec = self.graph.main, operator.spec
        reached = [self.of(operand) for operand in operator.inputs]
        if rule_of(block, operator, name) != EXACT:
            row = block.tensors[name].dtype
            is_rounded = not spec.is_inexact or spec.name == "MUL"
            if not is_rounded or not spec.elementwise or row.bits <= 8 or result is None:
                return True
            # What needs no rounding has no error of its own, unless it may become zero.
            value = plain(result)
            with np.errstate(all="ignore"):
                errs = ~same_values(value, rounded(value, row)) | is_subnormal(value, row)
            reached.insert(0, _in_short(errs))
            return _any_of(reached, spec.elementwise + 1)
        undefined = undefined_integers(block, operator, operands)
        if undefined is not None:
            reached[0] = undefined | reached[0]
        if all(own is False for own in reached):
            return False
        if spec.family == "control":  # a variable, which is read or written as it is
            return reached[0]
        if any(isinstance(value, Scaled) for value in operands):
            return True
        if spec.accuracy == "operand" or spec.name == "SELECT":
            return self._moved(operator, operands, reached)
        return _any_of(reached, spec.elementwise)

    def _moved(
        self, operator: Operator, operands: Sequence[Value], reached: Sequence[Reached]
    ) -> Reached:
        """Return where an operator moves the elements that are reached."""
        spec, arrays = operator.spec, list(operands)
        unsure: Reached = False
        for position, own in enumerate(reached):
            row = spec.operand(position, len(operands))
            if row.domain == "index" and own is not False:
                if spec.name != "GATHER":
                    return True
                unsure = np.broadcast_to(own, plain(operands[position]).shape)[..., None]
            if spec.name == "SELECT" and position == 0:
                unsure = own
            elif row.domain != "index" and not row.is_shape:
                shape = plain(operands[position]).shape
                arrays[position] = np.broadcast_to(np.asarray(own, np.uint8), shape)
        call = call_of(self.graph.main, operator, operands, "wide")
        found = OPERATIONS[spec.name](replace(call, operands=tuple(map(plain, arrays))))
        return _in_short(np.asarray(found).astype(np.bool_) | unsure)


def _any_of(reached: Sequence[Reached], count: int) -> Reached:
    """Return where one of the first operands is reached, if these alone are."""
    if not count or any(own is not False for own in reached[count:]):
        return True
    return _in_short(np.logical_or.reduce(np.broadcast_arrays(*reached[:count])))


def _in_short(reached: Array) -> Reached:
    """Return a bool in place of an array whose elements are all the same."""
    if reached.all():
        return True
    return reached if reached.any() else False


def exact_elements(
    graph: Graph, inputs: Mapping[str, Array], names: Iterable[str]
) -> dict[str, Array]:
    """Return which elements of tensors no error reaches, of those that have some beside others."""
    block = graph.main
    makers = {name: op for op in block.operators for name in op.outputs}
    wanted = [name for name in names if _may_mix(graph, makers, name)]
    if not wanted:
        return {}
    part = extract(graph, wanted)
    machine, reached = Machine(part, "wide"), ReachedElements(part)
    try:
        values = {name: machine.argument(part.main, name, inputs) for name in part.main.inputs}
        reached.start(values)
        for index, op in enumerate(part.main.operators):
            operands = [machine.value(part.main, values, name) for name in op.inputs]
            if op.spec.regions:
                results = machine.control_flow(index, op, operands)
            else:
                where = operator_path("main", index, op)
                results = machine.compute(part.main, op, operands, where)
            reached.add(op, operands, results)
            if op.spec is CONST:
                reached.start(results)
            values |= results
    except TosaConvertError:
        return {}
    return {
        name: np.broadcast_to(np.logical_not(own), block.tensors[name].shape or ())
        for name in wanted
        if (own := reached.of(name)) is not True
    }


def _may_mix(graph: Graph, makers: Mapping[str, Operator], name: str) -> bool:
    """Return whether a tensor may have exact elements beside others."""
    pending, seen = [name], {name}
    while pending:
        current = pending.pop()
        op = makers.get(current)
        if op is None:
            continue
        if op.spec.name in _MIXING:
            return True
        if op.spec.regions or rule_of(graph.main, op, current) == EXACT:
            pending += [own for own in op.inputs if own not in seen]
            seen.update(op.inputs)
    return False
