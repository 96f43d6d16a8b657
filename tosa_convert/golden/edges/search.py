"""The search for inputs that bring operators inside of a program to their edges.

Values that an operator wants of its operands are propagated back through the operators before it, to
single elements of the inputs; a run says what came of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tosa_convert.golden.arrays.by_name import Array, Slot
from tosa_convert.golden.edges.back_propagation import back_propagate, extreme_targets
from tosa_convert.golden.edges.coverage import (
    CoverageWatch,
    changing_names,
    changing_positions,
    has_edges,
    ill_conditioned_sources,
    non_finite_outputs,
    undefined_sources,
    unstable_operators,
)
from tosa_convert.golden.edges.operator_edges import (
    Demand,
    EdgeTarget,
    element_targets,
    row_targets,
)
from tosa_convert.golden.edges.values import (
    ALL,
    LARGE,
    MODERATE,
    RANDOM,
    SMALL,
    Elements,
    Run,
    binade_numbers,
    binades_of,
    code_limits,
    codes_of,
    edge_codes,
    elements_of,
    has_elements,
    limits_of,
    operands_of,
    run_forward,
    special_codes,
)
from tosa_convert.graph.model import Graph, Operator, operator_path
from tosa_convert.reference.call import Call
from tosa_convert.reference.evaluate import call_of

#: Elements of inputs and their codes, by key.
Changes = dict[str, tuple[Array, Array]]


def limited(
    changes: Changes,
    slots: Sequence[Slot],
    ranks: Mapping[str, int],
    finite: Collection[str],
    rank: int = ALL,
    *,
    special: bool = True,
) -> Changes:
    """Return the changes of floating point that have at most a rank, and that of the input."""
    rows = {slot.key: slot.dtype for slot in slots}
    found = {}
    for key, (ids, codes) in changes.items():
        row = rows[key]
        if row.is_float:
            allowed = edge_codes(row, min(rank, ranks.get(key, ALL)), special=False)
            kept = (codes >= allowed[0]) & (codes <= allowed[-1])
            if special and key not in finite:
                kept |= np.isin(codes, special_codes(row))
            ids, codes = ids[kept], codes[kept]
        found[key] = ids, codes
    return found


#: Elements of one tensor that are propagated back in one round.
_MOST: Final = 8192
#: Elements for one edge of one operator in one round.
_FOR_ONE: Final = 2
#: One of so many elements of an operand is to have a sign and an exponent that none has.
_SIZED: Final = 8
#: Each round of this number changes neighbours, and not what operators want.
_BLOCKS: Final = 3
#: How often other inputs are tried for a course, and the powers of two that their elements are about.
_TRIALS: Final = 16
_POWERS: Final = (4, -4, 8, -8, 2, 12, -12, 6, -2, 14, 0)
#: How often a run is repeated without the elements that TOSA does not allow.
_REPAIRS: Final = 3


@dataclass(slots=True)
class EdgeSearch:
    """The best inputs so far, and the run of the program on them.

    ranks, finite: see `Candidate` in edge_inputs.py.
    """

    graph: Graph
    seed: int
    slots: list[Slot]
    limits: dict[str, tuple[float, float]]
    ranks: dict[str, int]
    finite: set[str]
    arrays: dict[str, Array]
    run: Run
    watch: CoverageWatch
    rounds: int = 0
    aimed: dict[str, Array] = field(default_factory=dict)
    _changing: set[str] = field(default_factory=set)
    _wants_sizes: bool = False
    _kept: set[tuple[str, str]] = field(default_factory=set)

    def improve(self, *, sizes: bool = False) -> bool:
        """Try inputs that meet more edges; return whether they are better. sizes: or more exponents."""
        self._wants_sizes = sizes
        generator = np.random.default_rng([self.seed, self.rounds, 2])
        self.rounds += 1
        self._changing = changing_names(self.graph.main)
        if self.rounds % _BLOCKS == 0 and not sizes:
            changes = self._blocks(generator)
        else:
            changes = self._changes(self._demands(generator), generator)
        if not changes:
            return False
        before = self._unfit(self.run)
        for rank, special in ((ALL, True), (LARGE, True), (LARGE, False), (SMALL, False)):
            own = limited(changes, self.slots, self.ranks, self.finite, rank, special=special)
            found = self._tried(own)
            if found is None:
                return False
            arrays, run, watch = found
            if self._unfit(run) <= before:
                break
        else:
            return False
        is_kept = all(watch.taken().get(own) for own in self._kept)
        if _score(watch) <= _score(self.watch) or not is_kept:
            return False
        self.arrays, self.run, self.watch = arrays, run, watch
        return True

    def take_course(self, turn: int) -> None:
        """Change all inputs until control flow takes a course that it did not; another one each turn."""
        missed = [own for own, count in self.watch.taken().items() if not count]
        if not missed:
            return
        generator = np.random.default_rng([self.seed, turn, 3])
        own = missed[turn % len(missed)]
        for trial in range(_TRIALS):
            changes = self._of_one_size(trial, generator)
            if trial == 0:
                changes = self._changes(self._towards(*own, generator), generator)
            # After half of the trials any other course will do.
            wanted = {own} if trial < _TRIALS // 2 else set(missed)
            watch = self._take(changes, wanted)
            if watch is not None and not self._kept and trial:
                self._take_between(changes, *own, watch)
            if self._kept:
                return

    def _take(self, changes: Changes, wanted: Collection[tuple[str, str]]) -> CoverageWatch | None:
        """Run with changed inputs, and keep them if the program takes one of these courses."""
        own = limited(changes, self.slots, self.ranks, self.finite, special=False)
        found = self._tried(own) if own else None
        if found is None or self._unfit(found[1]) > self._unfit(self.run):
            return None
        self._kept = {course for course in wanted if found[2].taken().get(course)}
        if self._kept:
            self.arrays, self.run, self.watch = found
        return found[2]

    def _take_between(self, changes: Changes, path: str, label: str, watch: CoverageWatch) -> None:
        """Search inputs between two, with which a loop takes fewer turns and more turns than wanted."""
        labels = [*self.watch.courses[path]]
        wanted = labels.index(label)
        sides = [_most_turns(one.courses[path]) < wanted for one in (self.watch, watch)]
        if sides[0] == sides[1]:
            return
        rows = {slot.key: slot.dtype for slot in self.slots}
        first = {key: codes_of(self.arrays[key], rows[key]).reshape(-1) for key in changes}
        last = {key: codes for key, (_, codes) in changes.items()}
        for _ in range(_TRIALS):
            middle = {key: codes + (last[key] - codes) // 2 for key, codes in first.items()}
            own = {key: (np.arange(len(codes)), codes) for key, codes in middle.items()}
            found = self._take(own, {(path, label)})
            if found is None or self._kept:
                return
            if (_most_turns(found.courses[path]) < wanted) == sides[0]:
                first = middle
            else:
                last = middle

    def _towards(self, path: str, label: str, generator: np.random.Generator) -> dict[str, Demand]:
        """Return what a branch wants of inputs, by tensor."""
        for index, operator in enumerate(self.graph.main.operators):
            is_own = operator_path("", index, operator).strip() == path
            if is_own and operator.spec.name == "COND_IF":
                code = np.array([int(label == "then branch")])
                start = {operator.inputs[0]: Demand.of(np.zeros(1, np.int64), code)}
                return self._demands(generator, start)
        return {}

    def _of_one_size(self, trial: int, generator: np.random.Generator) -> Changes:
        """Return other elements for all inputs, about as large as each other."""
        found: Changes = {}
        for slot in self.slots:
            row, size = slot.dtype, self.arrays[slot.key].size
            if not size or slot.key != slot.tensor or self.ranks.get(slot.key) == RANDOM:
                continue
            power = _POWERS[trial % len(_POWERS)]
            with np.errstate(all="ignore"):
                values = np.exp2(power + generator.uniform(-1, 1, size))
                # Both signs, or one.
                values *= (np.where(generator.integers(0, 2, size), 1, -1), 1, -1)[trial % 3]
                lowest, highest = limits_of(row)
                if row.is_float:
                    codes = codes_of(values.astype(row.numpy), row)
                else:
                    codes = np.trunc(values).astype(np.int64)
            ends = code_limits(row, self.limits[slot.key]) if slot.key in self.limits else ()
            codes = np.clip(codes, *(ends or (lowest, highest)))
            found[slot.key] = np.arange(size), codes
        return found

    def _unfit(self, run: Run) -> int:
        """Count the outputs and operators that leave little to compare."""
        non_finite, unstable = (
            non_finite_outputs(self.graph, run),
            unstable_operators(self.graph, run),
        )
        return len(non_finite) + len(unstable)

    # -- from operators to inputs --------------------------------------------------------------------

    def _demands(
        self, generator: np.random.Generator, start: Mapping[str, Demand] | None = None
    ) -> dict[str, Demand]:
        """Return what operators want of inputs, by tensor; or what is wanted at the start alone."""
        block = self.graph.main
        demands = dict(start or {})
        for index in reversed(range(len(block.operators))):
            operator = block.operators[index]
            wanted = [demands.pop(name, None) for name in operator.outputs]
            positions = changing_positions(operator, self._changing)
            if not positions or not has_edges(block, operator):
                continue
            call = call_of(
                block, operator, operands_of(self.graph, operator, self.run.values), "own"
            )
            rows = [] if start else self._targets(index, operator, call, positions, generator)
            if wanted[0] is not None:
                result = self.run.values[operator.outputs[0]]
                with np.errstate(all="ignore"):
                    back = back_propagate(
                        block, operator, call, result, wanted[0], positions, generator
                    )
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
                before = self.aimed.get(name, demand.ids[:0])
                self.aimed[name] = np.union1d(before, demands[name].ids)
        return demands

    def _targets(
        self,
        index: int,
        operator: Operator,
        call: Call,
        positions: list[int],
        generator: np.random.Generator,
    ) -> list[tuple[int, Demand]]:
        """Return demands for edges that the operator did not meet."""
        path = operator_path("", index, operator).strip()
        met = self.watch.met.get(path, Counter())
        known = self.watch.known.get(path)
        targets: list[EdgeTarget] = []
        if known is not None and met.keys() >= set(known.labels):
            positions = []
        with np.errstate(all="ignore"):
            if has_elements(operator):
                elements = Elements(call)
                for position in positions:
                    if position < elements.count:
                        targets += element_targets(elements, position, generator, met)
            elif operator.spec.accuracy != "operand" and 0 in positions:
                targets += row_targets(call, generator)
                targets += extreme_targets(call, positions, generator)
        missed = [target for target in targets if not met.get(target.label)]
        order = [missed[number] for number in generator.permutation(len(missed))]
        if generator.integers(2):
            # Later ones hardly find a whole row that no other has an element of.
            order.sort(key=lambda target: not target.is_whole)
        found: dict[int, Demand] = {}
        for target in [*order, *self._sizes(index, operator, call, generator)]:
            demand = target.demand
            before = found.get(target.position)
            if not target.is_whole:
                free = np.arange(len(demand.ids))
                if before is not None:
                    free = np.flatnonzero(~np.isin(demand.ids, before.ids))
                most = _FOR_ONE if target.label else len(free)
                demand = demand.at(generator.permutation(free)[:most])
            elif before is not None and np.isin(demand.ids, before.ids).any():
                continue
            found[target.position] = demand if before is None else before.joined(demand)
        return list(found.items())

    def _sizes(
        self, index: int, operator: Operator, call: Call, generator: np.random.Generator
    ) -> Iterator[EdgeTarget]:
        """Iterate over demands for numbers of the binades that the operator did not meet."""
        path = operator_path("", index, operator).strip()
        if not self._wants_sizes:
            return
        for row, met in zip(self.watch.known[path].binades, self.watch.sizes[path], strict=True):
            missed = binades_of(row.dtype)[row.exist & ~met]
            own = binade_numbers(call.operands[row.position], row.dtype)
            # Numbers that others are about as large as.
            free = np.flatnonzero((np.bincount(own)[own] > 2) & (own < len(met)))
            count = min(len(missed), len(free), max(1, own.size // _SIZED))
            ids = generator.permutation(free)[:count]
            low, high = generator.permutation(missed)[:count].T
            yield EdgeTarget("", row.position, Demand(ids, low, high))

    # -- inputs --------------------------------------------------------------------------------------

    def _changes(self, demands: dict[str, Demand], generator: np.random.Generator) -> Changes:
        """Return the elements of inputs that change, and their codes."""
        found = {}
        for slot in self.slots:
            demand = demands.get(slot.tensor)
            if demand is None or slot.key != slot.tensor or self.ranks.get(slot.key) == RANDOM:
                continue
            ends = generator.integers(0, 3, len(demand.ids))
            inside = generator.integers(demand.low, demand.high, endpoint=True)
            codes = np.choose(ends, (demand.low, demand.high, inside))
            ids = demand.ids
            if slot.key in self.limits:
                low, high = code_limits(slot.dtype, self.limits[slot.key])
                inside = (demand.low <= high) & (demand.high >= low)
                ids, codes = ids[inside], np.clip(codes[inside], low, high)
            if len(ids):
                found[slot.key] = ids, codes
        return found

    def _blocks(self, generator: np.random.Generator) -> Changes:
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

    def _tried(self, changes: Changes) -> tuple[dict[str, Array], Run, CoverageWatch] | None:
        """Run the program with changed inputs; None if TOSA does not define what it computes."""
        arrays = dict(self.arrays)
        for slot in self.slots:
            if slot.key in changes:
                ids, codes = changes[slot.key]
                array = arrays[slot.key].copy()
                array.reshape(-1)[ids] = elements_of(codes, slot.dtype)
                arrays[slot.key] = array
        for _ in range(_REPAIRS):
            watch = CoverageWatch(self.graph, self.watch.known, self.aimed)
            run = run_forward(self.graph, arrays, watch)
            is_defined = run.error is None
            found = (ill_conditioned_sources if is_defined else undefined_sources)(self.graph, run)
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


def _score(watch: CoverageWatch) -> tuple[int, int]:
    """Return the number of edges that are met, and then of signs and exponents."""
    edges = sum(len(+counts) for counts in (*watch.met.values(), *watch.courses.values()))
    return edges, sum(int(own.sum()) for sizes in watch.sizes.values() for own in sizes)


def _most_turns(courses: Counter[str]) -> int:
    """Return the place of the last course that was taken."""
    return max((place for place, count in enumerate(courses.values()) if count), default=0)
