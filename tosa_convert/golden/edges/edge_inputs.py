"""Make edge inputs: values at which implementations err, for which TOSA defines what a program computes.

Values that an operator wants of its operands are propagated back through the operators before it, to
single elements of the inputs; a run says what came of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.golden.arrays import Array, Arrays, Slot, match
from tosa_convert.golden.edges.back_propagation import back_propagate, extreme_targets
from tosa_convert.golden.edges.coverage import (
    CoverageWatch,
    EdgeCoverage,
    Known,
    changing_names,
    changing_positions,
    has_edges,
    ill_conditioned_sources,
    is_unstable,
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
    KEPT_BYTES,
    LARGE,
    MODERATE,
    RANDOM,
    RANK_TEXTS,
    SMALL,
    Elements,
    Run,
    beginning,
    binade_numbers,
    binades_of,
    code_limits,
    codes_of,
    edge_array,
    edge_codes,
    elements_of,
    has_elements,
    kept_bytes,
    limits_of,
    moves,
    operands_of,
    run_forward,
    special_codes,
    spread_places,
)
from tosa_convert.golden.running.programs import (
    AS_IT_IS,
    as_graph,
    input_arrays,
    input_slots,
    inputs_of,
    output_slots,
    with_variables,
)
from tosa_convert.golden.running.random_inputs import (
    Ranges,
    limits_of_inputs,
    random_array,
    requested_ranges,
)
from tosa_convert.graph.model import Graph, Operator, counted, operator_path, quoted
from tosa_convert.io.keywords import ReadKeywords, takes_keywords
from tosa_convert.io.options import ReadOptions
from tosa_convert.reference.call import Call, Step
from tosa_convert.reference.evaluate import call_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Elements of inputs and their codes, by key.
Changes = dict[str, tuple[Array, Array]]

#: Elements of one tensor that are propagated back in one round.
_MOST: Final = 8192
#: Elements for one edge of one operator in one round.
_FOR_ONE: Final = 2
#: One of so many elements of an operand is to have a sign and an exponent that none has.
_SIZED: Final = 16
#: Each round of this number changes neighbours, and not what operators want.
_BLOCKS: Final = 3
#: How often other inputs are tried for a course, and the powers of two that their elements are about.
_TRIALS: Final = 16
_POWERS: Final = (4, -4, 8, -8, 2, 12, -12, 6, -2, 14, 0)
#: How often a run is repeated without the elements that TOSA does not allow.
_REPAIRS: Final = 3


@dataclass(slots=True)
class EdgeSearch:
    """Hold the best inputs so far, and the run of the program on them."""

    base: Candidate
    graph: Graph
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
        generator = np.random.default_rng([self.base.seed, self.rounds, 2])
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
            found = self._tried(self.base.limited(changes, rank, special=special))
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
        generator = np.random.default_rng([self.base.seed, turn, 3])
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
        own = self.base.limited(changes, special=False)
        found = self._tried(own) if own else None
        if found is None or self._unfit(found[1]) > self._unfit(self.run):
            return None
        self._kept = {course for course in wanted if found[2].taken().get(course)}
        if self._kept:
            self.arrays, self.run, self.watch = found
        return found[2]

    def _take_between(self, changes: Changes, path: str, label: str, watch: CoverageWatch) -> None:
        """Search inputs between two, with which a loop takes fewer turns and more turns than wanted."""
        wanted = [*self.watch.courses[path]].index(label)
        sides = [_most_turns(one.courses[path]) < wanted for one in (self.watch, watch)]
        if sides[0] == sides[1]:
            return
        rows = {slot.key: slot.dtype for slot in self.base.slots}
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
        found: Changes = {}
        for slot in self.base.slots:
            row, size = slot.dtype, self.arrays[slot.key].size
            if not size or slot.key != slot.tensor or self.base.ranks.get(slot.key) == RANDOM:
                continue
            power = _POWERS[trial % len(_POWERS)]
            with np.errstate(all="ignore"):
                values = np.exp2(power + generator.uniform(-1, 1, size))
                # Both signs, or one.
                values *= (np.where(generator.integers(0, 2, size), 1, -1), 1, -1)[trial % 3]
                if row.is_float:
                    codes = codes_of(values.astype(row.numpy), row)
                else:
                    codes = np.trunc(values).astype(np.int64)
            limit = self.base.limits.get(slot.key)
            ends = limits_of(row) if limit is None else code_limits(row, limit)
            found[slot.key] = np.arange(size), np.clip(codes, *ends)
        return found

    def _unfit(self, run: Run) -> int:
        """Count the outputs and operators that leave little to compare."""
        graph = self.graph
        return len(non_finite_outputs(graph, run)) + len(unstable_operators(graph, run))

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
                if len(demand.ids) > _MOST:
                    demand = demand.at(generator.permutation(len(demand.ids))[:_MOST])
                demands[name] = demand
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
            turn = _turn(self.base.seed)[0] * _ROUNDS_OF_SIZES + self.rounds
            low, high = missed[spread_places(len(missed), count, turn)].T
            yield EdgeTarget("", row.position, Demand(ids, low, high))

    # -- inputs --------------------------------------------------------------------------------------

    def _changes(self, demands: dict[str, Demand], generator: np.random.Generator) -> Changes:
        """Return the elements of inputs that change, and their codes."""
        found = {}
        for slot in self.base.slots:
            demand = demands.get(slot.tensor)
            if demand is None or slot.key != slot.tensor or self.base.ranks.get(slot.key) == RANDOM:
                continue
            ends = generator.integers(0, 3, len(demand.ids))
            inside = generator.integers(demand.low, demand.high, endpoint=True)
            codes = np.choose(ends, (demand.low, demand.high, inside))
            ids = demand.ids
            if slot.key in self.base.limits:
                low, high = code_limits(slot.dtype, self.base.limits[slot.key])
                inside = (demand.low <= high) & (demand.high >= low)
                ids, codes = ids[inside], np.clip(codes[inside], low, high)
            if len(ids):
                found[slot.key] = ids, codes
        return found

    def _blocks(self, generator: np.random.Generator) -> Changes:
        """Return neighbours that all have a limit of their type, or one of both: sums become large."""
        found = {}
        for slot in self.base.slots:
            size = self.arrays[slot.key].size
            is_left = (
                slot.key != slot.tensor or slot.key in self.base.limits or slot.dtype.name == "BOOL"
            )
            if not size or is_left or self.base.ranks.get(slot.key) == RANDOM:
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
        for slot in self.base.slots:
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


def _score(watch: CoverageWatch) -> tuple[int, int]:
    """Return the number of edges that are met, and then of signs and exponents."""
    edges = sum(len(+counts) for counts in (*watch.met.values(), *watch.courses.values()))
    return edges, sum(int(own.sum()) for sizes in watch.sizes.values() for own in sizes)


def _most_turns(courses: Counter[str]) -> int:
    """Return the place of the last course that was taken."""
    return max((place for place, count in enumerate(courses.values()) if count), default=0)


def _may_overflow(step: Step) -> bool:
    operands = [step.operands.get(name) for name in step.operator.inputs]
    given = [operand for operand in operands if operand is not None]
    return len(given) == len(operands) and is_unstable(step.block, step.operator, given)


# -- inputs at the edges of their own types, made tamer until TOSA defines what a program computes --

_ILL_CONDITIONED: Final = "correct implementations may differ much"
_TOO_LITTLE: Final = "too little of the outputs is a number"


@dataclass(slots=True)
class Candidate:
    """Hold inputs that a run on numpy has yet to accept.

    limits, usual: the ranges of all values, and of random ones, by input. ranks: the highest rank of the
        numbers of an input. finite: inputs without infinities and NaN. plain: elements with random
        values. mixed: inputs of which an operator combines elements.
    changes: elements with codes of their own, as far as their ranks allow; aimed: see `CoverageWatch`.
    """

    graph: Graph
    seed: int
    slots: list[Slot]
    given: dict[str, Array]
    limits: dict[str, tuple[float, float]]
    usual: dict[str, tuple[float, float]]
    ranks: dict[str, int] = field(default_factory=dict)
    finite: set[str] = field(default_factory=set)
    plain: dict[str, Array] = field(default_factory=dict)
    repairs: list[str] = field(default_factory=list)
    mixed: set[str] = field(default_factory=set)
    changes: Changes = field(default_factory=dict)
    aimed: dict[str, Array] = field(default_factory=dict)
    known: dict[str, Known] = field(default_factory=dict)

    def __post_init__(self) -> None:
        block = self.graph.main
        mixing = [op for op in block.operators if not has_elements(op) and not moves(op)]
        self.mixed.update(inputs_of(block, [name for op in mixing for name in op.inputs]))
        if _turn(self.seed)[1]:
            rest = [s.tensor for s in self.slots if s.dtype.is_float and s.tensor not in self.mixed]
            self.ranks |= dict.fromkeys(rest, SMALL)
        # Implementations differ in blocks whose scale is near the greatest one.
        self._limit("block_conversion", LARGE)
        # TOSA's bounds of a transform are far less than what the angles of correct ones err, unless its
        # elements are about as large as each other.
        self._limit("fft", RANDOM)

    def _limit(self, family: str, rank: int) -> None:
        block = self.graph.main
        operators = [op for op in block.operators if op.spec.family == family]
        names = inputs_of(block, [name for op in operators for name in op.inputs])
        self.ranks |= dict.fromkeys(names, rank)

    def arrays(self) -> dict[str, Array]:
        made = {slot.key: self._array(slot) for slot in self.slots}
        return {slot.key: {**made, **self.given}[slot.key] for slot in input_slots(self.graph)}

    def inputs_of(self, run: Run) -> dict[str, Array]:
        return {slot.key: run.values[slot.key] for slot in input_slots(self.graph)}

    def limited(self, changes: Changes, rank: int = ALL, *, special: bool = True) -> Changes:
        """Return the changes of floating point that have at most a rank, and that of the input."""
        rows = {slot.key: slot.dtype for slot in self.slots}
        found = {}
        for key, (ids, codes) in changes.items():
            row = rows[key]
            if row.is_float:
                allowed = edge_codes(row, min(rank, self.ranks.get(key, ALL)), special=False)
                kept = (codes >= allowed[0]) & (codes <= allowed[-1])
                if special and key not in self.finite:
                    kept |= np.isin(codes, special_codes(row))
                ids, codes = ids[kept], codes[kept]
            found[key] = ids, codes
        return found

    def _array(self, slot: Slot) -> Array:
        limit, usual = self.limits.get(slot.key), self.usual.get(slot.key)
        rank, special = self.ranks.get(slot.tensor, ALL), slot.tensor not in self.finite
        array = edge_array(
            *(slot, self.seed, rank, limit, usual),
            special=special,
            everywhere=slot.tensor not in self.mixed,
            turn=_turn(self.seed)[0],
        )
        own = {slot.key: self.changes[slot.key]} if slot.key in self.changes else {}
        for ids, codes in self.limited(own).values():
            array.reshape(-1)[ids] = elements_of(codes, slot.dtype)
        if (spoilt := self.plain.get(slot.key)) is not None:
            plain = random_array(slot, self.seed, limit or usual)
            array.reshape(-1)[spoilt] = plain.reshape(-1)[spoilt]
        return array

    def settle(self, *, only_courses: bool = False) -> tuple[Run, CoverageWatch]:
        """Lower ranks until the program runs, and leaves something to compare; return the last run."""
        block = self.graph.main
        stops = True
        while True:
            watch = CoverageWatch(self.graph, self.known, self.aimed, only_courses=only_courses)
            run = run_forward(self.graph, self.arrays(), watch, _may_overflow if stops else None)
            operator = block.operators[min(run.operator, len(block.operators) - 1)]
            if run.is_stopped:
                reason = f"the order in which {operator.spec.name} adds or multiplies decides"
                # Where no lower rank is left, what follows is judged as it is.
                stops = self._lower(inputs_of(block, operator.inputs), SMALL, reason)
                continue
            if run.error is not None:
                reason = run.error.findings[0].message
                names = inputs_of(block, operator.inputs)
                # Elements that an undefined result is made of get random values.
                is_lower = self._make_plain(undefined_sources(self.graph, run), reason)
                is_lower = is_lower or self._make_tame(names, RANDOM, reason)
            else:
                names = inputs_of(block, non_finite_outputs(self.graph, run))
                is_lower = self._make_tame(names, SMALL, _TOO_LITTLE)
            if not is_lower:
                is_lower = self._make_plain(
                    ill_conditioned_sources(self.graph, run), _ILL_CONDITIONED
                )
            if not is_lower:
                return run, watch
            stops = True

    def begin(self, found: EdgeSearch, other: Candidate) -> None:
        """Begin with what was found for the first operators of the program."""
        self.ranks, self.finite, self.plain = other.ranks, other.finite, other.plain
        self.repairs, self.aimed = other.repairs, found.aimed
        for slot in self.slots:
            before, after = (
                codes_of(array, slot.dtype).reshape(-1)
                for array in (self._array(slot), found.arrays[slot.key])
            )
            ids = np.flatnonzero(before != after)
            self.changes[slot.key] = ids, after[ids]

    def _make_plain(self, found: Arrays, reason: str) -> bool:
        changed = False
        own = {slot.key for slot in self.slots}
        for name, elements in found.items():
            before = self.plain.get(name, elements[:0])
            after = np.union1d(before, elements)
            if name in own and len(after) > len(before):
                self.plain[name] = after
                count = counted(len(after) - len(before), "element")
                self.repairs.append(f"{count} of {quoted(name)} got random values: {reason}")
                changed = True
        return changed

    def _make_tame(self, names: list[str], least: int, reason: str) -> bool:
        """Leave out infinities and NaN of inputs, or else the largest numbers."""
        own = {slot.tensor: slot for slot in self.slots}
        special = [
            n for n in names if n in own and n not in self.finite and special_codes(own[n].dtype)
        ]
        if not special:
            return self._lower(names, least, reason)
        self.finite.update(special)
        listed = ", ".join(map(quoted, special))
        self.repairs.append(f"no infinities and no NaN in {listed}: {reason}")
        return True

    def _lower(self, names: list[str], least: int, reason: str) -> bool:
        """Lower the highest ranks of some inputs by one that changes them; not below the least."""
        own = {slot.tensor: slot for slot in self.slots}
        below = {name: self._rank_below(own[name], least) for name in names if name in own}
        ranks = {name: rank for name, rank in below.items() if rank is not None}
        if not ranks:
            return False
        top = max(self.ranks.get(name, ALL) for name in ranks)
        for name, rank in ranks.items():
            if self.ranks.get(name, ALL) == top:
                self.ranks[name] = rank
                self.repairs.append(f"{quoted(name)} has {RANK_TEXTS[rank]}: {reason}")
        return True

    def _rank_below(self, slot: Slot, least: int) -> int | None:
        """Return the next rank below that gives an input other values."""
        rank = self.ranks.get(slot.tensor, ALL)
        if rank == RANDOM:
            return None
        codes = edge_codes(slot.dtype, rank)
        for lower in range(rank - 1, least - 1, -1):
            if lower == RANDOM or edge_codes(slot.dtype, lower) != codes:
                return lower
        return None


#: How often values are propagated back, and how often in a small program. Each takes a run or two.
_ROUNDS: Final = 3
_ROUNDS_IF_SMALL: Final = 12
#: Rounds after these for exponents; a larger program has most of them.
_ROUNDS_OF_SIZES: Final = 4
#: The tensors of a small program have at most so many bytes together.
_SMALL_BYTES: Final = 1 << 20
#: A program whose tensors have at most so many bytes together gets several sets of edge inputs for each
#: seed, because one does not hold every edge.
_SEVERAL_SETS_BYTES: Final = 1 << 16
_SETS: Final = 4
#: How far apart the seeds of these sets are: as many seeds have their sets next to one another.
_NEXT_SET: Final = 1000
#: Domains of operands outside of which TOSA defines no result, whatever the other operands are.
_HARD: Final = ("index", "shift")


@dataclass(slots=True)
class EdgeInputs:
    """Hold inputs at the edges of operators, and repairs that made TOSA define what is computed.

    outputs: what numpy computes of them.
    """

    arrays: dict[str, Array]
    repairs: list[str]
    outputs: dict[str, Array]
    _watch: CoverageWatch

    @property
    def taken(self) -> Counter[tuple[str, str]]:
        return self._watch.taken()

    @property
    def coverage(self) -> EdgeCoverage:
        """Return the edges that are met; those of a large program are counted in a run of their own."""
        watch = self._watch
        if watch.only_courses:
            watch = replace(watch, only_courses=False, courses={})
            run_forward(watch.graph, self.arrays, watch)
        return watch.coverage()


#: What inputs are if nothing says which, as those of `convert --check`.
DEFAULT_SEED: Final = 0
DEFAULT_INPUTS: Final = f"the inputs are random, of seed {DEFAULT_SEED}: none were given"


@takes_keywords(ReadKeywords)
def edge_inputs(
    program: Any,
    seed: int = 0,
    inputs: Mapping[str, Any] | None = None,
    *,
    ranges: Ranges = (),
    variables: Mapping[str, Any] | None = None,
    read: ReadOptions = AS_IT_IS,
    **options: Unpack[ReadKeywords],
) -> dict[str, Array]:
    """Return inputs at the edges of what a program's operators compute.

    Zeros of both signs, ties, the limits of each type, subnormal and huge numbers, NaN and infinities,
    the first and the last index, negative divisors; among random values, so that the rest stays a test.
    The program was run with them: TOSA defines its results.

    Further keywords are those of `tosa_convert.load`: how a file or module is read.

    Args:
        program: anything that `golden.run` takes.
        seed: 0 or more; the same seed gives the same inputs.
        inputs: arrays by name that stay as they are.
        ranges: (pattern of names, lowest, highest) for the other inputs.
        variables: initial states by name; the others start as the program says.
        read: how to read a file or module, as a value.

    Returns:
        An array for each input, by name.

    Raises:
        TosaConvertError: as `golden.input_arrays`; "refmodel-refused" if TOSA does not define what the
            program computes of random inputs either, "unsupported-operator" for a CUSTOM operator.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> arrays = golden.edge_inputs(graph, seed=1)
        >>> golden.run(graph, arrays).outputs.keys() == set(graph.main.outputs)
        True
    """
    graph = with_variables(as_graph(program, read, options), variables or {})
    return find_edge_inputs(graph, seed, inputs or {}, ranges).arrays


def chosen_inputs(
    graph: Graph,
    inputs: Mapping[str, Any] | None,
    random: int | None,
    *,
    edges: bool,
    variables: Mapping[str, Any] | None = None,
) -> dict[str, Array]:
    """Return the inputs of one run: those that are given, and edge inputs or random ones."""
    if not edges:
        return input_arrays(graph, inputs, random)
    if random is None:
        raise fail("option-conflict", "edges", "edge inputs need a seed", "random=SEED")
    return find_edge_inputs(with_variables(graph, variables or {}), random, inputs or {}).arrays


def seeds_of_sets(graph: Graph, seed: int) -> range:
    """Return the seeds of the sets of a seed: for a small program 7, 1007, 2007 and 3007 of 7."""
    if kept_bytes(graph) > _SEVERAL_SETS_BYTES:
        return range(seed, seed + 1)
    first = seed + seed // _NEXT_SET * (_SETS - 1) * _NEXT_SET
    return range(first, first + _SETS * _NEXT_SET, _NEXT_SET)


def set_number(seed: int) -> int:
    """Return the place of a seed among those of `seeds_of_sets`, one after another."""
    block, own = divmod(seed, _SETS * _NEXT_SET)
    return block * _SETS * _NEXT_SET + own % _NEXT_SET * _SETS + own // _NEXT_SET


def _turn(seed: int) -> tuple[int, bool]:
    """Return the place of a set among others like it, and whether it has no large numbers.

    The last set of each seed has none of floating point, where they do not spoil sums anyway: errors of
    a function for other arguments are small beside those that TOSA allows for large ones.
    """
    number = set_number(seed)
    is_moderate = number % _SETS == _SETS - 1
    return number // _SETS if is_moderate else number - number // _SETS, is_moderate


def find_edge_inputs(
    graph: Graph, seed: int, given: Mapping[str, Any], ranges: Ranges = ()
) -> EdgeInputs:
    """Return edge inputs of a graph, and how they were repaired; see `edge_inputs`."""
    if seed < 0:
        raise fail("option-conflict", "edges", f"found the seed {seed}, expected 0 or more")
    wanted = input_slots(graph)
    own = match(wanted, dict(given), complete=False)
    slots = [slot for slot in wanted if slot.key not in own]
    limits = limits_of_inputs(graph.main, _HARD) | requested_ranges(slots, ranges)
    candidate = Candidate(graph, seed, slots, own, limits, limits_of_inputs(graph.main))
    size = kept_bytes(graph)
    first = beginning(graph) if size > _SMALL_BYTES else graph
    if first is not graph and kept_bytes(first) <= KEPT_BYTES:
        other = replace(candidate, graph=first, ranks={**candidate.ranks})
        run, watch = other.settle()
        if run.error is None:
            candidate.begin(_searched(other, run, watch, _ROUNDS), other)
    is_searched = first is graph and size <= KEPT_BYTES
    run, watch = candidate.settle(only_courses=not is_searched)
    if run.error is not None:
        raise run.error
    if is_searched:
        is_small = size <= _SMALL_BYTES
        rounds = (_ROUNDS_IF_SMALL, _ROUNDS_OF_SIZES) if is_small else (_ROUNDS, 0)
        search = _searched(candidate, run, watch, *rounds)
        run, watch = search.run, search.watch
    arrays = candidate.inputs_of(run)
    outputs = {slot.key: run.values[slot.key] for slot in output_slots(graph)}
    return EdgeInputs(arrays, candidate.repairs, outputs, watch)


def _searched(
    candidate: Candidate, run: Run, watch: CoverageWatch, rounds: int, rounds_of_sizes: int = 0
) -> EdgeSearch:
    search = EdgeSearch(candidate, candidate.graph, candidate.inputs_of(run), run, watch)
    number = set_number(candidate.seed)
    if number % _SETS:
        search.take_course(number - number // _SETS - 1)
    for _ in range(rounds):
        search.improve()
    for _ in range(rounds_of_sizes):
        search.improve(sizes=True)
    return search
