"""Edge inputs: values at which implementations err, for which TOSA defines what a program computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.npz import Slot, match
from tosa_convert.golden.edges.back_propagation import back_propagate, extreme_targets
from tosa_convert.golden.edges.coverage import (
    CoverageWatch,
    EdgeCoverage,
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
from tosa_convert.golden.edges.trace import (
    KEPT_BYTES,
    Elements,
    Run,
    has_elements,
    inputs_of,
    kept_bytes,
    moves,
    operands_of,
    run_forward,
)
from tosa_convert.golden.edges.values import (
    ALL,
    LARGE,
    MODERATE,
    RANDOM,
    RANK_TEXTS,
    SMALL,
    binade_numbers,
    binades_of,
    code_limits,
    edge_array,
    edge_codes,
    elements_of,
    special_codes,
)
from tosa_convert.golden.running.programs import (
    AS_IT_IS,
    as_graph,
    input_arrays,
    input_slots,
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
from tosa_convert.reference.call import Call
from tosa_convert.reference.evaluate import call_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


# --------------------------------------------------------------------------------------------------
# inputs at the edges of their own types, made tamer until TOSA defines what the program computes.

_ILL_CONDITIONED: Final = "correct implementations may differ much"
_TOO_LITTLE: Final = "too little of the outputs is a number"


@dataclass(slots=True)
class Candidate:
    """Inputs that a run on numpy has yet to accept.

    limits, usual: the ranges of all values, and of random ones, by input.
    ranks: the highest rank of the numbers of an input. finite: inputs without infinities and NaN.
    plain: elements with random values. mixed: inputs of which an operator combines elements.
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

    def __post_init__(self) -> None:
        block = self.graph.main
        mixing = [op for op in block.operators if not has_elements(op) and not moves(op)]
        self.mixed.update(inputs_of(block, [name for op in mixing for name in op.inputs]))
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
        """Return the array of each input, in the order of the graph."""
        made = {slot.key: self._array(slot) for slot in self.slots}
        return {slot.key: {**made, **self.given}[slot.key] for slot in input_slots(self.graph)}

    def _array(self, slot: Slot) -> Array:
        limit, usual = self.limits.get(slot.key), self.usual.get(slot.key)
        rank, special = self.ranks.get(slot.tensor, ALL), slot.tensor not in self.finite
        array = edge_array(
            *(slot, self.seed, rank, limit, usual),
            special=special,
            everywhere=slot.tensor not in self.mixed,
            turn=set_number(self.seed),
        )
        if (ids := self.plain.get(slot.key)) is not None:
            plain = random_array(slot, self.seed, limit or usual)
            array.reshape(-1)[ids] = plain.reshape(-1)[ids]
        return array

    def settle(self) -> tuple[Run, CoverageWatch]:
        """Lower ranks until the program runs, and leaves something to compare; return the last run."""
        block = self.graph.main
        while True:
            watch = CoverageWatch()
            run = run_forward(self.graph, self.arrays(), watch)
            if run.error is not None:
                reason = run.error.findings[0].message
                names = inputs_of(block, block.operators[run.operator].inputs)
                is_lower = self._make_random(run, reason) or self._make_tame(names, RANDOM, reason)
            elif open_sums := unstable_operators(self.graph, run):
                operator = block.operators[open_sums[0]]
                reason = f"the order in which {operator.spec.name} adds or multiplies decides"
                is_lower = self._lower(inputs_of(block, operator.inputs), SMALL, reason)
                if not is_lower:
                    names = inputs_of(block, non_finite_outputs(self.graph, run))
                    is_lower = self._make_tame(names, SMALL, _TOO_LITTLE)
            else:
                names = inputs_of(block, non_finite_outputs(self.graph, run))
                is_lower = self._make_tame(names, SMALL, _TOO_LITTLE)
            if not is_lower:
                is_lower = self._make_plain(
                    ill_conditioned_sources(self.graph, run), _ILL_CONDITIONED
                )
            if not is_lower:
                return run, watch

    def _make_random(self, run: Run, reason: str) -> bool:
        """Give the elements that an undefined result is made of random values."""
        return self._make_plain(undefined_sources(self.graph, run), reason)

    def _make_plain(self, found: Mapping[str, Array], reason: str) -> bool:
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
        ranks = {name: self._rank_below(own[name], least) for name in names if name in own}
        changed = [name for name, rank in ranks.items() if rank is not None]
        if not changed:
            return False
        top = max(self.ranks.get(name, ALL) for name in changed)
        for name in changed:
            rank = ranks[name]
            if rank is not None and self.ranks.get(name, ALL) == top:
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


# -- inputs that bring operators inside of a program to their edges --------------------------------
# Values that an operator wants of its operands are propagated back through the operators before it, to
# single elements of the inputs; a run says what came of it.

#: Elements of one tensor that are propagated back in one round.
_MOST: Final = 8192
#: Elements for one edge of one operator in one round.
_FOR_ONE: Final = 2
#: One of so many elements of an operand is to have a sign and an exponent that none has.
_SIZED: Final = 8
#: Each round of this number changes neighbours, and not what operators want.
_BLOCKS: Final = 3
#: How often a run is repeated without the elements that TOSA does not allow.
_REPAIRS: Final = 3


@dataclass(slots=True)
class EdgeSearch:
    """The best inputs so far, and the run of the program on them.

    ranks, finite: see `Candidate`.
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
    _changing: set[str] = field(default_factory=set)
    _wants_sizes: bool = False

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
        non_finite, unstable = (
            non_finite_outputs(self.graph, run),
            unstable_operators(self.graph, run),
        )
        return len(non_finite) + len(unstable)

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
            rows = self._targets(index, operator, call, positions, generator)
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
        met = self.watch.met.get(operator_path("", index, operator).strip(), Counter())
        targets: list[EdgeTarget] = []
        with np.errstate(all="ignore"):
            if has_elements(operator):
                elements = Elements(call)
                for position in positions:
                    if position < elements.count:
                        targets += element_targets(elements, position, generator)
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
        for row, met in zip(self.watch.known[path][1], self.watch.sizes[path], strict=True):
            missed = binades_of(row.dtype)[row.exist & ~met]
            own = binade_numbers(call.operands[row.position], row.dtype)
            # Numbers that others are about as large as.
            free = np.flatnonzero((np.bincount(own)[own] > 2) & (own < len(met)))
            count = min(len(missed), len(free), max(1, own.size // _SIZED))
            ids = generator.permutation(free)[:count]
            low, high = generator.permutation(missed)[:count].T
            yield EdgeTarget("", row.position, Demand(ids, low, high))

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
                if special and key not in self.finite:
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
    edges = sum(len(counts) for counts in watch.met.values())
    return edges, sum(int(own.sum()) for sizes in watch.sizes.values() for own in sizes)


#: How often values are propagated back, and how often in a small program. Each takes a run or two.
_ROUNDS: Final = 3
_ROUNDS_IF_SMALL: Final = 9
#: Rounds after these for exponents; a larger program has most of them.
_ROUNDS_OF_SIZES: Final = 2
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
    """Inputs of a program at the edges of what its operators compute.

    arrays: by the names of inputs.
    repairs: what was changed, until TOSA defined what the program computes.
    coverage: which edges of the operators they meet.
    """

    arrays: dict[str, Array]
    repairs: list[str]
    coverage: EdgeCoverage


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
    """Return the inputs of one run: those that are given, and edge inputs or random ones.

    Raises TosaConvertError as `input_arrays`; "option-conflict" for edges without a seed.
    """
    if not edges:
        return input_arrays(graph, inputs, random)
    if random is None:
        raise fail("option-conflict", "edges", "edge inputs need a seed", "random=SEED")
    return find_edge_inputs(with_variables(graph, variables or {}), random, inputs or {}).arrays


def seeds_of_sets(graph: Graph, seed: int) -> range:
    """Return the seeds of the sets of edge inputs that belong to a seed: several for a small program.

    No set belongs to two seeds.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> list(seeds_of_sets(graph, 7))
        [7, 1007, 2007, 3007]
    """
    if kept_bytes(graph) > _SEVERAL_SETS_BYTES:
        return range(seed, seed + 1)
    first = seed + seed // _NEXT_SET * (_SETS - 1) * _NEXT_SET
    return range(first, first + _SETS * _NEXT_SET, _NEXT_SET)


def set_number(seed: int) -> int:
    """Return the place of a seed among those of `seeds_of_sets`, one after another.

    Example:
        >>> [set_number(seed) for seed in (0, 1000, 2000, 3000, 1, 1001)]
        [0, 1, 2, 3, 4, 5]
    """
    block, own = divmod(seed, _SETS * _NEXT_SET)
    return block * _SETS * _NEXT_SET + own % _NEXT_SET * _SETS + own // _NEXT_SET


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
    run, watch = candidate.settle()
    if run.error is not None:
        raise run.error
    search = EdgeSearch(
        graph,
        seed,
        slots,
        limits,
        candidate.ranks,
        candidate.finite,
        candidate.arrays(),
        run,
        watch,
    )
    size = kept_bytes(graph)
    if size <= KEPT_BYTES:
        for _ in range(_ROUNDS if size > _SMALL_BYTES else _ROUNDS_IF_SMALL):
            search.improve()
        for _ in range(0 if size > _SMALL_BYTES else _ROUNDS_OF_SIZES):
            search.improve(sizes=True)
    return EdgeInputs(search.arrays, candidate.repairs, search.watch.coverage())
