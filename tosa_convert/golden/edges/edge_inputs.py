"""Edge inputs: values at which implementations err, for which TOSA defines what a program computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.golden.arrays.by_name import Array, Slot, match
from tosa_convert.golden.edges.coverage import (
    CoverageWatch,
    EdgeCoverage,
    Known,
    ill_conditioned_sources,
    is_unstable,
    non_finite_outputs,
    undefined_sources,
)
from tosa_convert.golden.edges.search import Changes, EdgeSearch, limited
from tosa_convert.golden.edges.values import (
    ALL,
    KEPT_BYTES,
    LARGE,
    RANDOM,
    RANK_TEXTS,
    SMALL,
    Run,
    beginning,
    codes_of,
    edge_array,
    edge_codes,
    elements_of,
    has_elements,
    inputs_of,
    kept_bytes,
    moves,
    run_forward,
    special_codes,
)
from tosa_convert.golden.running.programs import (
    AS_IT_IS,
    Ranges,
    as_graph,
    input_arrays,
    input_slots,
    limits_of_inputs,
    random_array,
    requested_ranges,
    with_variables,
)
from tosa_convert.graph.model import Graph, counted, quoted
from tosa_convert.io.keywords import ReadKeywords, takes_keywords
from tosa_convert.io.options import ReadOptions
from tosa_convert.reference.call import Step

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _may_overflow(step: Step) -> bool:
    operands = [step.operands.get(name) for name in step.operator.inputs]
    given = [operand for operand in operands if operand is not None]
    return len(given) == len(operands) and is_unstable(step.block, step.operator, given)


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
        """Return the array of each input, in the order of the graph."""
        made = {slot.key: self._array(slot) for slot in self.slots}
        return {slot.key: {**made, **self.given}[slot.key] for slot in input_slots(self.graph)}

    def inputs_of(self, run: Run) -> dict[str, Array]:
        """Return the inputs of a run."""
        return {slot.key: run.values[slot.key] for slot in input_slots(self.graph)}

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
        for ids, codes in limited(own, [slot], self.ranks, self.finite).values():
            array.reshape(-1)[ids] = elements_of(codes, slot.dtype)
        if (spoilt := self.plain.get(slot.key)) is not None:
            plain = random_array(slot, self.seed, limit or usual)
            array.reshape(-1)[spoilt] = plain.reshape(-1)[spoilt]
        return array

    def settle(self) -> tuple[Run, CoverageWatch]:
        """Lower ranks until the program runs, and leaves something to compare; return the last run."""
        block = self.graph.main
        stops = True
        while True:
            watch = CoverageWatch(self.graph, self.known, self.aimed)
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
                is_lower = self._make_random(run, reason) or self._make_tame(names, RANDOM, reason)
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


#: How often values are propagated back, and how often in a small program. Each takes a run or two.
_ROUNDS: Final = 3
_ROUNDS_IF_SMALL: Final = 12
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
    """

    arrays: dict[str, Array]
    repairs: list[str]
    _watch: CoverageWatch

    @property
    def taken(self) -> Counter[tuple[str, str]]:
        """Return how often control flow took each course that it has, by operator and course."""
        return self._watch.taken()

    @property
    def coverage(self) -> EdgeCoverage:
        """Return which edges of the operators they meet."""
        return self._watch.coverage()


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
    run, watch = candidate.settle()
    if run.error is not None:
        raise run.error
    if first is graph and size <= KEPT_BYTES:
        is_small = size <= _SMALL_BYTES
        rounds = (_ROUNDS_IF_SMALL, _ROUNDS_OF_SIZES) if is_small else (_ROUNDS, 0)
        search = _searched(candidate, run, watch, *rounds)
        return EdgeInputs(search.arrays, candidate.repairs, search.watch)
    return EdgeInputs(candidate.inputs_of(run), candidate.repairs, watch)


def _searched(
    candidate: Candidate, run: Run, watch: CoverageWatch, rounds: int, rounds_of_sizes: int = 0
) -> EdgeSearch:
    """Improve inputs that a run accepted."""
    search = EdgeSearch(
        *(candidate.graph, candidate.seed, candidate.slots, candidate.limits, candidate.ranks),
        *(candidate.finite, candidate.inputs_of(run), run, watch),
    )
    number = set_number(candidate.seed)
    if number % _SETS:
        search.take_course(number - number // _SETS - 1)
    for _ in range(rounds):
        search.improve()
    for _ in range(rounds_of_sizes):
        search.improve(sizes=True)
    return search
