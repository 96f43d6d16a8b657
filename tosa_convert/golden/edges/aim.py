"""Inputs that bring operators inside of a program to their edges.

Values that an operator wants of its operands are sent back through the operators before it, to single
elements of the inputs; a run says what came of it.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.slots import Slot
from tosa_convert.golden.edges.codes import elements_of
from tosa_convert.golden.edges.coverage import (
    CoverageWatch,
    changing_names,
    changing_positions,
    has_edges,
)
from tosa_convert.golden.edges.elements import Elements, has_elements
from tosa_convert.golden.edges.forward import Run, run_forward
from tosa_convert.golden.edges.send_back import send_back
from tosa_convert.golden.edges.steady import (
    fragile_sources,
    spoiled_outputs,
    undefined_sources,
    unsteady_operators,
)
from tosa_convert.golden.edges.trace import operands_of
from tosa_convert.golden.edges.values import (
    ALL,
    LARGE,
    MODERATE,
    RANDOM,
    SMALL,
    code_limits,
    edge_codes,
    special_codes,
)
from tosa_convert.golden.edges.wishes import Demand, Wish, element_wishes, row_wishes
from tosa_convert.graph.model import Graph, Operator, operator_path
from tosa_convert.records import dataclass, field
from tosa_convert.reference.call import Call
from tosa_convert.reference.evaluate import call_of

#: Elements of one tensor that are sent back in one round.
_MOST: Final = 512
#: Elements for one edge of one operator in one round.
_FOR_ONE: Final = 2
#: Each round of this number changes neighbours, and not what operators want.
_BLOCKS: Final = 3
#: How often a run is repeated without the elements that TOSA does not allow.
_REPAIRS: Final = 3


@dataclass(slots=True)
class Aim:
    """The best inputs so far, and the run of the program on them.

    ranks, calm: see `Draft`.
    """

    graph: Graph
    seed: int
    slots: list[Slot]
    limits: dict[str, tuple[float, float]]
    ranks: dict[str, int]
    calm: set[str]
    arrays: dict[str, Array]
    run: Run
    watch: CoverageWatch
    rounds: int = 0
    _changing: set[str] = field(default_factory=set)

    def improve(self) -> bool:
        """Try inputs that meet more edges; return whether they are better."""
        generator = np.random.default_rng([self.seed, self.rounds, 2])
        self.rounds += 1
        self._changing = changing_names(self.graph.main)
        if self.rounds % _BLOCKS == 0:
            changes = self._blocks(generator)
        else:
            changes = self._changes(self._demands(generator), generator)
        if not changes:
            return False
        before = self._unfit(self.run)
        for rank, special in ((ALL, True), (LARGE, True), (LARGE, False), (SMALL, False)):
            found = self._tried(self._limited(changes, rank, special=special))
            if found is None:
                return False
            arrays, run, watch = found
            if self._unfit(run) <= before:
                break
        else:
            return False
        if _score(watch) <= _score(self.watch):
            return False
        self.arrays, self.run, self.watch = arrays, run, watch
        return True

    def _unfit(self, run: Run) -> int:
        """Count the outputs and operators that leave little to compare."""
        spoiled, unsteady = spoiled_outputs(self.graph, run), unsteady_operators(self.graph, run)
        return len(spoiled) + len(unsteady)

    # -- from operators to inputs --------------------------------------------------------------------

    def _demands(self, generator: np.random.Generator) -> dict[str, Demand]:
        """Return what operators want of inputs, by tensor."""
        block = self.graph.main
        demands: dict[str, Demand] = {}
        for index in reversed(range(len(block.operators))):
            operator = block.operators[index]
            wanted = [demands.pop(name, None) for name in operator.outputs]
            positions = changing_positions(operator, self._changing)
            if not positions or not has_edges(block, operator):
                continue
            call = call_of(
                block, operator, operands_of(self.graph, operator, self.run.values), "own"
            )
            rows = self._wishes(index, operator, call, positions, generator)
            if wanted[0] is not None:
                result = self.run.values[operator.outputs[0]]
                with np.errstate(all="ignore"):
                    back = send_back(block, operator, call, result, wanted[0], positions, generator)
                # What comes from further inside is harder to meet, but may be out of reach.
                rows = back + rows if generator.integers(3) else rows + back
            for position, demand in rows:
                name = operator.inputs[position]
                if name in demands:
                    # Each reader comes first now and then: one that wants all elements gets them else.
                    pair = demands[name], demand
                    first = int(generator.integers(2))
                    demand = pair[first].joined(pair[1 - first])
                demands[name] = _limited(demand, generator)
        return demands

    def _wishes(
        self,
        index: int,
        operator: Operator,
        call: Call,
        positions: list[int],
        generator: np.random.Generator,
    ) -> list[tuple[int, Demand]]:
        """Return demands for edges that the operator did not meet."""
        met = self.watch.met.get(operator_path("", index, operator).strip(), Counter())
        wishes: list[Wish] = []
        with np.errstate(all="ignore"):
            if has_elements(operator):
                elements = Elements(call)
                for position in positions:
                    if position < elements.count:
                        wishes += element_wishes(elements, position, generator)
            elif operator.spec.accuracy != "operand" and 0 in positions:
                wishes += row_wishes(call, generator)
        missed = [wish for wish in wishes if not met.get(wish.label)]
        order = [missed[number] for number in generator.permutation(len(missed))]
        if generator.integers(2):
            # Later ones hardly find a whole row that no other has an element of.
            order.sort(key=lambda wish: not wish.is_whole)
        found: dict[int, Demand] = {}
        for wish in order:
            demand = wish.demand
            before = found.get(wish.position)
            if not wish.is_whole:
                free = np.arange(len(demand.ids))
                if before is not None:
                    free = np.flatnonzero(~np.isin(demand.ids, before.ids))
                demand = demand.at(generator.permutation(free)[:_FOR_ONE])
            elif before is not None and np.isin(demand.ids, before.ids).any():
                continue
            found[wish.position] = demand if before is None else before.joined(demand)
        return list(found.items())

    # -- inputs --------------------------------------------------------------------------------------

    def _changes(
        self, demands: dict[str, Demand], generator: np.random.Generator
    ) -> dict[str, tuple[Array, Array]]:
        """Return the elements of inputs that change, and their codes."""
        found = {}
        for slot in self.slots:
            demand = demands.get(slot.tensor)
            if demand is None or slot.key != slot.tensor or self.ranks.get(slot.key) == RANDOM:
                continue
            ends = generator.integers(0, 2, len(demand.ids)) == 1
            codes = np.where(ends, demand.low, demand.high)
            ids = demand.ids
            if slot.key in self.limits:
                low, high = code_limits(slot.dtype, self.limits[slot.key])
                inside = (demand.low <= high) & (demand.high >= low)
                ids, codes = ids[inside], np.clip(codes[inside], low, high)
            if len(ids):
                found[slot.key] = ids, codes
        return found

    def _blocks(self, generator: np.random.Generator) -> dict[str, tuple[Array, Array]]:
        """Return neighbours that all have a limit of their type, or one of both: sums become large."""
        found = {}
        for slot in self.slots:
            size = self.arrays[slot.key].size
            is_left = (
                slot.key != slot.tensor or slot.key in self.limits or slot.dtype.name == "BOOL"
            )
            if not size or is_left or self.ranks.get(slot.key) == RANDOM:
                continue
            codes = edge_codes(slot.dtype, MODERATE)
            ends = np.array([codes[0], codes[-1]])
            count = max(1, size // 4)
            ids = int(generator.integers(size - count + 1)) + np.arange(count)
            kind = int(generator.integers(3))
            chosen = (
                ends[generator.integers(0, 2, count)] if kind == 2 else np.full(count, ends[kind])
            )
            found[slot.key] = ids, chosen
        return found

    def _limited(
        self, changes: dict[str, tuple[Array, Array]], rank: int, *, special: bool
    ) -> dict[str, tuple[Array, Array]]:
        """Return the changes of floating point that have at most a rank, and that of the input."""
        rows = {slot.key: slot.dtype for slot in self.slots}
        found = {}
        for key, (ids, codes) in changes.items():
            row = rows[key]
            if row.is_float:
                allowed = edge_codes(row, min(rank, self.ranks.get(key, ALL)), special=False)
                kept = (codes >= allowed[0]) & (codes <= allowed[-1])
                if special and key not in self.calm:
                    kept |= np.isin(codes, special_codes(row))
                ids, codes = ids[kept], codes[kept]
            found[key] = ids, codes
        return found

    def _tried(
        self, changes: dict[str, tuple[Array, Array]]
    ) -> tuple[dict[str, Array], Run, CoverageWatch] | None:
        """Run the program with changed inputs; None if TOSA does not define what it computes."""
        arrays = dict(self.arrays)
        for slot in self.slots:
            if slot.key in changes:
                ids, codes = changes[slot.key]
                array = arrays[slot.key].copy()
                array.reshape(-1)[ids] = elements_of(codes, slot.dtype)
                arrays[slot.key] = array
        for _ in range(_REPAIRS):
            watch = CoverageWatch(self.watch.known)
            run = run_forward(self.graph, arrays, watch)
            is_defined = run.error is None
            found = (fragile_sources if is_defined else undefined_sources)(self.graph, run)
            found = {
                key: np.intersect1d(ids, changes[key][0])
                for key, ids in found.items()
                if key in changes
            }
            if is_defined and not any(len(ids) for ids in found.values()):
                return arrays, run, watch
            if not found:
                return None
            for key, ids in found.items():
                array = arrays[key].copy()
                array.reshape(-1)[ids] = self.arrays[key].reshape(-1)[ids]
                arrays[key] = array
        return None


def _limited(demand: Demand, generator: np.random.Generator) -> Demand:
    if len(demand.ids) <= _MOST:
        return demand
    return demand.at(generator.permutation(len(demand.ids))[:_MOST])


def _score(watch: CoverageWatch) -> int:
    """Return the number of edges that are met."""
    return sum(len(counts) for counts in watch.met.values())
