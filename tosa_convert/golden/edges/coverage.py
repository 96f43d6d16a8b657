"""Tell which edges of its operators a program meets with some inputs."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tosa_convert.golden.accuracy.erring_runs import (
    function_errors,
    undefined_integers,
    with_local_bound,
)
from tosa_convert.golden.accuracy.error_bounds import (
    FLOATS,
    accumulator,
    axis_of,
    is_subnormal,
    may_flush,
    rule_of,
    terms_of_sum,
)
from tosa_convert.golden.arrays import Array, Arrays
from tosa_convert.golden.edges.back_propagation import (
    extreme_counts,
    extreme_labels,
    extreme_limits,
)
from tosa_convert.golden.edges.operator_edges import edges_of, element_targets, row_targets
from tosa_convert.golden.edges.values import (
    Elements,
    Run,
    binade_names,
    binades_of,
    elements_of,
    has_elements,
    in_binades,
    moves,
    operands_of,
    run_forward,
    sources,
    undefined_elements,
)
from tosa_convert.golden.running.programs import (
    AS_IT_IS,
    as_graph,
    input_arrays,
    inputs_of,
    with_variables,
)
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Block, Graph, Operator, counted, operator_path
from tosa_convert.graph.shown import Shown
from tosa_convert.io.keywords import ReadKeywords, takes_keywords
from tosa_convert.io.options import ReadOptions
from tosa_convert.reference.bounds import BOUNDS
from tosa_convert.reference.call import Call, Step, is_float
from tosa_convert.reference.evaluate import OPERATIONS, call_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True, slots=True)
class Exponents(Shown):
    """Hold the signs and exponents of the numbers that an operand may have, and which it has.

    existing: such as "-2^-3", ascending; for an integer that of the power of 2 below its size.
    """

    operand: str
    existing: tuple[str, ...]
    met: frozenset[str]

    def missed(self) -> list[str]:
        """Return the ranges of numbers that it never has, such as "2^-126 to 2^-31"."""
        runs = itertools.groupby(self.existing, self.met.__contains__)
        lines = [list(names) for is_met, names in runs if not is_met]
        return [" to ".join(dict.fromkeys((names[0], names[-1]))) for names in lines]

    def __str__(self) -> str:
        never = f", never {', '.join(missed)}" if (missed := self.missed()) else ""
        return f"; exponents of {self.operand}: {len(self.met)} of {len(self.existing)}{never}"

    def to_dict(self) -> dict[str, Any]:
        """Return how many there are, and the ranges that are missed."""
        counts = {"existing": len(self.existing), "met": len(self.met)}
        return {"operand": self.operand, **counts, "missed": self.missed()}


@dataclass(frozen=True, slots=True)
class OperatorEdges(Shown):
    """The edges of one operator.

    operator: its path, such as `operator #12 RESCALE`; inside of a loop that of all iterations.
    location: where it comes from.
    met: edge -> how many elements are there. missed: edges that other values of its operands would meet.
    exponents: of each operand that changes, whether it has numbers of each sign and exponent; those for
        which the operator gives a finite number.
    """

    operator: str
    location: str
    met: dict[str, int]
    missed: tuple[str, ...]
    exponents: tuple[Exponents, ...] = ()

    def __str__(self) -> str:
        met = ", ".join(f"{label} {count}" for label, count in self.met.items()) or "none"
        missed = f"; never: {', '.join(self.missed)}" if self.missed else ""
        return f"{self.operator}: {met}{missed}{''.join(map(str, self.exponents))}"


@dataclass(frozen=True, slots=True)
class EdgeCoverage(Shown):
    """The edges that a program's operators meet with one set of inputs, or with several."""

    operators: tuple[OperatorEdges, ...] = ()

    @property
    def met(self) -> int:
        """Return the number of edges that are met."""
        return sum(len(row.met) for row in self.operators)

    @property
    def existing(self) -> int:
        """Return the number of edges that there are."""
        return self.met + sum(len(row.missed) for row in self.operators)

    def joined(self, other: EdgeCoverage) -> EdgeCoverage:
        """Return what both meet together, of the same program."""
        rows = {row.operator: row for row in self.operators}
        for row in other.operators:
            before = rows.get(row.operator)
            if before is not None:
                met = dict(Counter(before.met) + Counter(row.met))
                both = dict.fromkeys((*before.missed, *row.missed))
                missed = tuple(label for label in both if label not in met)
                pairs = zip(before.exponents, row.exponents, strict=True)
                sizes = tuple(replace(one, met=one.met | own.met) for one, own in pairs)
                row = OperatorEdges(row.operator, row.location, met, missed, sizes)
            rows[row.operator] = row
        return EdgeCoverage(tuple(rows.values()))

    def __str__(self) -> str:
        count = counted(len(self.operators), "operator")
        rows = [own for row in self.operators for own in row.exponents]
        met, existing = sum(len(row.met) for row in rows), sum(len(row.existing) for row in rows)
        exponents = f", {met} of {existing} exponents" if existing else ""
        return f"{self.met} of {self.existing} edges of {count}{exponents} are met"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {"met": self.met, "existing": self.existing, **Shown.to_dict(self)}


@takes_keywords(ReadKeywords)
def edge_coverage(
    program: Any,
    inputs: Mapping[str, Any] | None = None,
    *,
    random: int | None = None,
    variables: Mapping[str, Any] | None = None,
    read: ReadOptions = AS_IT_IS,
    **options: Unpack[ReadKeywords],
) -> EdgeCoverage:
    """Return which edges of its operators a program meets; it runs on numpy.

    An edge is a kind of value at which implementations err: a tie of RESCALE, a bound of CLAMP, equal
    operands of GREATER. An operator has an edge if some values of its operands meet it, whether or not
    the operators before it can compute them.

    Further keywords are those of `tosa_convert.load`: how a file or module is read.

    Args:
        program: anything that `golden.run` takes.
        inputs: an array for each input, by name.
        random: a seed, 0 or more, for inputs that are not given.
        variables: initial states by name; the others start as the program says.
        read: how to read a file or module, as a value.

    Raises:
        TosaConvertError: as `golden.run`.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> few = golden.edge_coverage(graph, random=1)
        >>> many = golden.edge_coverage(graph, golden.edge_inputs(graph, seed=1))
        >>> few.existing == many.existing and few.met < many.met
        True
    """
    graph = with_variables(as_graph(program, read, options), variables or {})
    watch = CoverageWatch(graph)
    run = run_forward(graph, input_arrays(graph, inputs, random), watch)
    if run.error is not None:
        raise run.error
    return watch.coverage()


#: Elements of a tensor that are looked at; of a larger one this many that are spread over it.
_MOST: Final = 1 << 14


@cache
def _spread(size: int) -> Array:
    return np.unique(np.random.default_rng(size).integers(0, size, _MOST))


_TURNS: Final = ("0 turns", "1 turn", "2 turns", "more turns")


def course_labels(graph: Graph, operator: Operator, changing: Collection[str]) -> list[str]:
    """Return the courses that control flow may take, if values that change decide about it."""
    regions = {
        row.name: next(
            region.blocks[0]
            for region in graph.regions
            if region.name == operator.attributes[row.name]
        )
        for row in operator.spec.regions
    }
    if "then_graph" in regions:
        return ["then branch", "else branch"] if operator.inputs[0] in changing else []
    state = [name in changing for name in operator.inputs]
    while True:
        body, cond = regions["body_graph"], regions["cond_graph"]
        found, decided = (
            changing_names(block, [n for n, own in zip(block.inputs, state, strict=True) if own])
            for block in (body, cond)
        )
        after = [own or name in found for own, name in zip(state, body.outputs, strict=True)]
        if after == state:
            return list(_TURNS) if cond.outputs[0] in decided else []
        state = after


@dataclass
class Known:
    """Hold what is the same of an operator in all runs, computed when it is asked for.

    call: the operator with its operands in one run, or with the elements that are looked at.
    """

    operator: Operator
    call: Call
    positions: list[int]

    @cached_property
    def labels(self) -> list[str]:
        return edge_labels(self.operator, self.call, self.positions)

    @cached_property
    def binades(self) -> list[Binades]:
        return binades(self.operator, self.call, self.positions)

    @cached_property
    def limits(self) -> tuple[int, ...]:
        """Return the least and the greatest sum of a product of integers."""
        return extreme_limits(self.call, self.positions)


_TURN: Final = re.compile(r"(?P<loop>.*) (?P<region>cond|body)\[(?P<number>\d+)\]")


def _path_of(step: Step) -> str:
    return f"{step.inside.path} {operator_path('', step.index, step.operator).strip()}".strip()


def _every_turn(path: str) -> str:
    """Return the path of an operator inside of loops without the numbers of turns."""
    return re.sub(r"(cond|body)\[\d+\]", r"\1", path)


@dataclass(slots=True)
class CoverageWatch:
    """Count the edges of each operator that runs, in at most some thousand elements of each tensor.

    known: what is known of operators by path; that of further runs is the same. aimed: elements that are
        looked at in any case, by tensor. sizes: how many numbers are in each binade, of each operand
        that has some.
    courses: how often each branch was taken, and how often a loop took a number of turns; only_courses:
        nothing else is counted.
    """

    graph: Graph
    known: dict[str, Known] = field(default_factory=dict)
    aimed: Arrays = field(default_factory=dict)
    met: dict[str, Counter[str]] = field(default_factory=dict)
    sizes: dict[str, list[Array]] = field(default_factory=dict)
    courses: dict[str, Counter[str]] = field(default_factory=dict)
    only_courses: bool = False
    _locations: dict[str, str] = field(default_factory=dict)
    _changing: dict[int, set[str]] = field(default_factory=dict)
    _turns: dict[str, int] = field(default_factory=dict)

    def __call__(self, step: Step) -> None:
        operator, block = step.operator, step.block
        if id(block) not in self._changing:
            self._changing[id(block)] = changing_names(block)
        changing = self._changing[id(block)]
        if turn := _TURN.fullmatch(step.inside.path):
            self._turns[turn["loop"]] = int(turn["number"]) + (turn["region"] == "body")
        if operator.spec.regions:
            self._count_course(step, changing)
        if self.only_courses:
            return
        positions = changing_positions(operator, changing)
        if not positions or not has_edges(block, operator):
            return
        call = call_of(block, operator, [step.operands[name] for name in operator.inputs], "own")
        path = _every_turn(_path_of(step))
        counts = self.met.setdefault(path, Counter())
        self._locations[path] = operator.location
        result = step.results[operator.outputs[0]]
        if is_single := has_elements(operator):
            call, result = self._part(operator, call, result)
        if (known := self.known.get(path)) is None:
            known = self.known[path] = Known(operator, call, positions)
            if not is_single:
                _ = known.labels, known.limits
                # No operands are kept.
                known.call = replace(call, operands=())
        names = [*operator.inputs, operator.outputs[0]]

        def look(position: int, array: Array) -> Array:
            if is_single or array.size <= _MOST:
                return array
            return array.reshape(-1)[self._ids(array.size, names[position])]

        with np.errstate(all="ignore"):
            for label, mask in edges_of(call, result, positions, look):
                if count := int(np.count_nonzero(mask)):
                    counts[label] += count
            if not is_single and known.limits:
                counts.update(dict(extreme_counts(call, result, known.limits)))
        if not is_single:
            self.sizes.setdefault(path, [])
            return
        sizes = [
            in_binades(call.operands[position], row) for position, row in sized(call, positions)
        ]
        before = self.sizes.get(path, sizes)
        self.sizes[path] = [one | own for one, own in zip(before, sizes, strict=True)]

    def _count_course(self, step: Step, changing: Collection[str]) -> None:
        """Count the branch that was taken, or the number of turns."""
        operator, own = step.operator, _path_of(step)
        path, turns = _every_turn(own), self._turns.pop(own, 0)
        if path not in self.courses:
            labels = course_labels(self.graph, operator, changing)
            self.courses[path] = Counter(dict.fromkeys(labels, 0))
            self._locations[path] = operator.location
        label = _TURNS[min(turns, len(_TURNS) - 1)]
        if operator.spec.name == "COND_IF":
            is_taken = step.operands[operator.inputs[0]].reshape(-1)[0]
            label = "then branch" if is_taken else "else branch"
        if label in self.courses[path]:
            self.courses[path][label] += 1

    def taken(self) -> Counter[tuple[str, str]]:
        """Return how often control flow took each course that it has, by path and course."""
        return Counter(
            {
                (path, label): count
                for path, counts in self.courses.items()
                for label, count in counts.items()
            }
        )

    def _ids(self, size: int, *names: str) -> Array:
        own = [self.aimed[name] for name in names if name in self.aimed]
        ids = np.concatenate([_spread(size), *own]) if own else _spread(size)
        return np.unique(ids[ids < size]) if own else ids

    def _part(self, operator: Operator, call: Call, result: Array) -> tuple[Call, Array]:
        """Return the elements of an operator on elements that are looked at."""
        if result.size <= _MOST:
            return call, result
        names = [
            name
            for name, array in zip(operator.inputs, call.operands, strict=True)
            if array.shape == result.shape
        ]
        ids = self._ids(result.size, operator.outputs[0], *names)
        return Elements(call).part(ids, {}), result.reshape(-1)[ids]

    def coverage(self) -> EdgeCoverage:
        rows = []
        for path, counts in self.met.items():
            labels, existing = self.known[path].labels, self.known[path].binades
            known = dict.fromkeys((*labels, *counts))
            met = {label: counts[label] for label in known if counts[label]}
            missed = tuple(label for label in known if label not in met)
            sizes = zip(existing, self.sizes[path], strict=True)
            exponents = tuple(row.exponents(own) for row, own in sizes)
            rows.append(OperatorEdges(path, self._locations[path], met, missed, exponents))
        for path, taken in self.courses.items():
            missed = tuple(label for label, count in taken.items() if not count)
            rows.append(OperatorEdges(path, self._locations[path], dict(+taken), missed))
        return EdgeCoverage(tuple(row for row in rows if row.met or row.missed))


def has_edges(block: Block, operator: Operator) -> bool:
    """Return whether an operator computes something of elements that are not block-scaled."""
    names = (*operator.inputs, *operator.outputs)
    tensors = [block.tensors[name] for name in names if name in block.tensors]
    return (
        operator.spec.name in OPERATIONS
        and operator.outputs[:1] != ()
        and operator.outputs[0] in block.tensors
        and all(tensor.scale is None for tensor in tensors)
    )


class Binades(NamedTuple):
    """Hold the binades of an operand, and for which of them an operator gives a finite number."""

    position: int
    operand: str
    dtype: DType
    exist: Array

    def exponents(self, met: Array) -> Exponents:
        names = np.array(binade_names(self.dtype))
        existing, own = (names[mask].tolist() for mask in (self.exist, self.exist & met))
        return Exponents(self.operand, tuple(existing), frozenset(own))


def sized(call: Call, positions: Sequence[int]) -> list[tuple[int, DType]]:
    """Return the operands whose numbers have binades, of an operator on elements."""
    count = Elements(call).count
    pairs = [(position, call.types[position].dtype) for position in positions if position < count]
    return [(p, row) for p, row in pairs if row is not None and len(binades_of(row))]


def binades(operator: Operator, call: Call, positions: Sequence[int]) -> list[Binades]:
    """Return the binades of each operand of an operator that computes single elements of numbers."""
    elements = Elements(call)
    found = []
    for position, row in sized(call, positions) if has_elements(operator) else ():
        middle = elements_of(binades_of(row).sum(axis=1) // 2, row)
        ids = np.zeros(len(middle) if elements.size else 0, np.int64)
        kept, result = elements.compute_defined(ids, {position: middle})
        exist = np.zeros(len(middle), np.bool_)
        exist[kept] = np.isfinite(result.astype(np.float64))
        name = call.spec.operand(position, len(call.operands)).name
        found.append(Binades(position, name, row, exist))
    return found


def edge_labels(operator: Operator, call: Call, positions: list[int]) -> list[str]:
    generator = np.random.default_rng(0)
    found: dict[str, None] = {}
    with np.errstate(all="ignore"):
        if has_elements(operator):
            elements = Elements(call)
            for position in positions:
                if position < elements.count:
                    targets = element_targets(elements, position, generator)
                    found |= dict.fromkeys(target.label for target in targets)
        elif operator.spec.accuracy != "operand" and 0 in positions:
            found |= dict.fromkeys(target.label for target in row_targets(call, generator))
            found |= dict.fromkeys(extreme_labels(call, positions))
    return list(found)


def changing_names(block: Block, given: Collection[str] | None = None) -> set[str]:
    """Return the values of a block that depend on its inputs, or on some of them."""
    found = set(block.inputs if given is None else given)
    for operator in block.operators:
        if not found.isdisjoint(operator.inputs):
            found.update(operator.outputs)
    return found


def changing_positions(operator: Operator, changing: set[str]) -> list[int]:
    """Return the operands of an operator that depend on inputs and are not shapes or constants."""
    count = len(operator.inputs)
    rows = [operator.spec.operand(position, count) for position in range(count)]
    return [
        position
        for position, (name, row) in enumerate(zip(operator.inputs, rows, strict=True))
        if name in changing and not row.is_shape and not row.is_constant
    ]


# -- whether a run leaves something to compare: correct implementations compute about the same -----

#: Of an output, the least share of elements that are finite: fewer leave little to compare.
_LEAST_FINITE: Final = 0.5
#: Operators whose zeros have one sign, if those of their operands have.
_KEEP_SIGNS: Final = frozenset(("ABS", "NEGATE"))


def unstable_operators(graph: Graph, run: Run) -> list[int]:
    block = graph.main
    return [
        index
        for index, operator in enumerate(block.operators)
        if _is_sum(block, operator)
        and operator.inputs[0] in run.values
        and is_unstable(block, operator, operands_of(graph, operator, run.values))
    ]


def _is_sum(block: Block, operator: Operator) -> bool:
    """Return whether an operator adds up or multiplies floating point."""
    return (
        operator.spec.accuracy in ("dot-product", "reduce-product")
        and has_edges(block, operator)
        and block.tensors[operator.outputs[0]].dtype.is_float
    )


def is_unstable(block: Block, operator: Operator, given: Sequence[Array]) -> bool:
    """Return whether an operator's sums or products of finite numbers may overflow on the way.

    Whether they do depends on the order of the terms, and with it all that follows.
    """
    if not _is_sum(block, operator):
        return False
    result = block.tensors[operator.outputs[0]]
    most = FLOATS[accumulator(operator, result.dtype.name)][2] / 2
    with np.errstate(all="ignore"):
        if operator.spec.accuracy == "reduce-product":
            sizes = np.maximum(np.abs(_finite(given[0])), 1.0)
            return bool((np.prod(sizes, axis=axis_of(operator)) > most).any())
        largest = math.prod(map(_largest, given[:3]))
        if largest * (terms_of_sum(block, operator) + 1) <= most:
            return False
        operands = [_finite(array) if is_float(array.dtype) else array for array in given]
        call = with_local_bound(call_of(block, operator, operands, "wide"))
        bounds = BOUNDS[operator.spec.name](call)
        parts = bounds if isinstance(bounds, tuple) else (bounds,)
        return any(not (part <= most).all() for part in parts)


def _finite(array: Array) -> Array:
    """Return numbers in FP64, with 0 for those that are not finite."""
    return np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def _largest(array: Array) -> float:
    """Return the size of the largest finite number, and at least 1."""
    own = array.astype(np.float32) if is_float(array.dtype) and array.itemsize < 4 else array
    is_number: Any = np.isfinite(own) if is_float(own.dtype) else True
    ends = own.max(initial=1, where=is_number), own.min(initial=-1, where=is_number)
    return max(float(ends[0]), -float(ends[1]))


def undefined_sources(graph: Graph, run: Run) -> dict[str, Array]:
    """Return the elements of inputs that undefined results are made of; none if they are mixed."""
    ids = undefined_elements(graph, run.operator, run.values)
    if ids is None:
        return {}
    return sources(graph, graph.main.operators[run.operator].outputs[0], ids, run.values) or {}


def ill_conditioned_sources(graph: Graph, run: Run) -> dict[str, Array]:
    """Return the elements of inputs for which correct implementations differ much.

    A subnormal number may be read as 0, at which LOG, FLOOR and comparisons jump, and so does its
    product with a large number. Of large numbers TOSA allows functions such as SIN to err by more than
    their size. The sign of a zero that is computed may differ, and with it the sign of its reciprocal.
    NaN is cast to any integer, and so may be what is computed of that.
    """
    block = graph.main
    used = {name for operator in block.operators for name in operator.inputs}
    found: dict[str, Array] = {}
    signed = set(block.inputs)
    clamped = {op.outputs[0]: op.inputs[0] for op in block.operators if op.spec.name == "CLAMP"}
    for operator in block.operators:
        if moves(operator) or operator.spec.name in _KEEP_SIGNS:
            signed.update(
                name for name in operator.outputs if signed.issuperset(operator.inputs[:1])
            )
        wrong: dict[str, Array] = {}
        if operator.spec.traits.response == "position":
            wrong = {name: _subnormal(block, name, run.values) for name in operator.inputs}
        elif operator.outputs and operator.outputs[0] in run.values:
            (name, *_) = operator.outputs
            ids = _changed_by_flushing(graph, operator, run.values)
            if name in used:
                ids = np.union1d(ids, _uncertain(graph, operator, run.values))
                operands = operands_of(graph, operator, run.values)
                is_open = undefined_integers(block, operator, operands)
                if is_open is not None:
                    nans = sources(graph, name, np.flatnonzero(is_open), run.values) or {}
                    found |= {k: np.union1d(found.get(k, own[:0]), own) for k, own in nans.items()}
            wrong = {name: ids}
            if operator.spec.traits.response == "pole" and operator.inputs[0] not in signed:
                operand = operator.inputs[0]
                zeros = run.values[operand] == 0
                if operand in clamped:
                    # A number beyond a limit of 0 becomes that zero, whatever its error.
                    zeros &= ~_is_clear(block, clamped[operand], run.values)
                wrong[operand] = np.flatnonzero(zeros)
        for name, ids in wrong.items():
            if not len(ids):
                continue
            places = sources(graph, name, ids, run.values)
            if places is None:
                # They are mixed: the subnormal ones of the inputs may be among them.
                names = inputs_of(block, [name])
                places = {own: _subnormal(block, own, run.values) for own in names}
            for key, own in places.items():
                found[key] = np.union1d(found.get(key, own[:0]), own)
    return found


def _is_clear(block: Block, name: str, values: Arrays) -> Array:
    """Return which elements are not zero, and no subnormal numbers, which may be read as zero."""
    found: Array = np.asarray(values[name] != 0)
    found.reshape(-1)[_subnormal(block, name, values)] = False
    return found


def _subnormal(block: Block, name: str, values: Arrays) -> Array:
    tensor = block.tensors.get(name)
    if tensor is None or name not in values or not may_flush(tensor.dtype):
        return np.zeros(0, np.int64)
    return np.flatnonzero(is_subnormal(values[name].reshape(-1), tensor.dtype))


def _changed_by_flushing(graph: Graph, operator: Operator, values: Arrays) -> Array:
    """Return the results of an operator on elements that change if subnormal operands are read as 0."""
    block = graph.main
    none = np.zeros(0, np.int64)
    if not has_elements(operator) or not has_edges(block, operator):
        return none
    elements = Elements(call_of(block, operator, operands_of(graph, operator, values), "own"))
    row = elements.call.result.dtype
    subnormal = {
        position: ids
        for position in range(elements.count)
        if len(ids := _subnormal(block, operator.inputs[position], values))
    }
    if row is None or not subnormal:
        return none
    every = np.arange(elements.size)
    flushed: dict[int, Array] = {}
    affected = np.zeros(elements.size, np.bool_)
    for position, ids in subnormal.items():
        is_one = np.zeros(elements.call.operands[position].size, np.bool_)
        is_one[ids] = True
        own = is_one[elements.operand_ids(position, every)]
        given = elements.values(position, every)
        zero = np.copysign(np.zeros(1, np.float32), given.astype(np.float32))
        flushed[position] = np.where(own, zero.astype(given.dtype), given)
        affected |= own
    ids = np.flatnonzero(affected)
    kept, found = elements.compute_defined(ids, {p: array[ids] for p, array in flushed.items()})
    right = values[operator.outputs[0]].reshape(-1)[ids[kept]]
    with np.errstate(all="ignore"):
        one, other = right.astype(np.float64), found.astype(np.float64)
        least = FLOATS[row.name][1] if may_flush(row) else 0.0
        near = (np.abs(one - other) <= least) | (one == other) | (np.isnan(one) & np.isnan(other))
    return np.setdiff1d(ids, ids[kept[near]])


def _uncertain(graph: Graph, operator: Operator, values: Arrays) -> Array:
    """Return the results of a function that may err by more than half of their size, or than a half."""
    block = graph.main
    name = operator.outputs[0]
    none = np.zeros(0, np.int64)
    if operator.spec.elementwise != 1 or name not in values or operator.inputs[0] not in values:
        return none
    row = block.tensors[name].dtype
    rule = rule_of(block, operator, name) if row.name in FLOATS else None
    if rule is None or rule.kind != "abs-error" or not has_edges(block, operator):
        return none
    operands = [array.astype(np.float64) for array in operands_of(graph, operator, values)]
    exact = values[name].astype(np.float64)
    with np.errstate(all="ignore"):
        bounds = np.abs(exact)
        if operator.spec.name in BOUNDS:
            call = call_of(block, operator, operands, "wide")
            bounds = np.asarray(BOUNDS[operator.spec.name](call)).reshape(exact.shape)
        error = np.maximum(*function_errors(operator, rule, exact, bounds, row))
        wrong = np.isfinite(exact) & ~(error <= 0.5 * np.maximum(np.abs(exact), 1.0))
    return np.flatnonzero(wrong)


def non_finite_outputs(graph: Graph, run: Run) -> list[str]:
    """Return the outputs most of whose elements are infinite or NaN."""
    found = []
    for name in dict.fromkeys(graph.main.outputs):
        tensor = graph.main.tensors.get(name)
        if tensor is not None and tensor.dtype.is_float and run.values[name].size:
            finite = np.isfinite(run.values[name].astype(np.float32))
            if finite.mean() < _LEAST_FINITE:
                found.append(name)
    return found
