"""Measure how small a wrong number `check` and `bisect` report: `power`.

It changes a tensor, runs the later operators again, and judges the results by the criteria of
`check` and `bisect`, which it makes once for the inputs.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tosa_convert.errors import printable
from tosa_convert.golden.accuracy.comparison import compare_tensor
from tosa_convert.golden.accuracy.criteria import (
    NO_TOLERANCES,
    Criterion,
    NetworkCheck,
    NetworkTotals,
    Spread,
    Tolerances,
)
from tosa_convert.golden.accuracy.error_bounds import FLOATS, numbers, same_values
from tosa_convert.golden.accuracy.verdict import independent_runs
from tosa_convert.golden.arrays import Array, Arrays, scratch_folder, slots, subfolder
from tosa_convert.golden.checking.check import Reference, seeded_inputs
from tosa_convert.golden.edges.coverage import CoverageWatch
from tosa_convert.golden.edges.values import run_forward
from tosa_convert.golden.running.programs import (
    AS_IT_IS,
    STATE_PREFIX,
    as_graph,
    input_arrays,
    with_variables,
)
from tosa_convert.golden.running.run import BATCH_BYTES, select, tensors_in_runs
from tosa_convert.golden.running.run_options import TIMEOUT, Engine, Progress, RunOptions
from tosa_convert.graph.derived import extract
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Graph, counted, operator_path, quoted
from tosa_convert.graph.shown import Shown, json_value, table
from tosa_convert.io.keywords import ReadKeywords, takes_keywords
from tosa_convert.io.options import ReadOptions
from tosa_convert.qualify.bisection.judge_operators import Operators
from tosa_convert.qualify.detection.changes import (
    KINDS,
    STEPS,
    Change,
    Kind,
    Place,
    Rerun,
    has_sizes,
    places,
)
from tosa_convert.reference.call import is_float

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Measurements of six independent runs each. Fewer give one of many elements by chance hardly any error.
_BATCHES: Final = 10


@dataclass(frozen=True, slots=True)
class Noise:
    """Hold the largest errors of independent runs of a tensor, as multiples of the spread's sigma."""

    dtype: DType
    spread: Spread
    element: float = 0.0
    group: float = 0.0
    whole: float = 0.0

    def is_exceeded(self, before: Array, after: Array) -> bool:
        if self.spread.sigma is None:
            low, high = self.spread.low, self.spread.high
            assert low is not None
            assert high is not None
            wide = after.astype(low.dtype)
            return bool(np.any((after != before) & ((wide < low) | (wide > high))))
        one, other = numbers(before, self.dtype), numbers(after, self.dtype)
        with np.errstate(all="ignore"):
            effect = np.where(same_values(one, other), 0.0, np.abs(other - one))
        if not np.isfinite(effect).all():
            return True
        found = _deviations(self.dtype, self.spread, effect)
        limits = self.element, self.group, self.whole
        return any(own > limit for own, limit in zip(found, limits, strict=True))


@dataclass(slots=True)
class HonestRuns:
    """Hold the noise of some tensors, and the largest error in each of the others, in its numbers."""

    noises: dict[str, Noise] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)


def measure_noise(
    graph: Graph, inputs: Arrays, wanted: Collection[str], timeout: float
) -> HonestRuns:
    """Measure how far independent runs are from the exact one."""
    found = HonestRuns()
    kept: dict[str, list[Array]] = {}
    for batch in range(_BATCHES):
        differs = False
        for name, values in independent_runs(graph, inputs, batch, timeout):
            tensor = graph.main.tensors.get(name)
            if tensor is None or not values[0].size:
                continue
            differs |= any(value is not values[0] for value in values)
            errors = _errors(tensor.dtype, values)
            largest = max((float(e.max()) for e in errors), default=0.0)
            found.largest[name] = max(largest, found.largest.get(name, 0.0))
            if name in wanted:
                kept.setdefault(name, values[:1]).extend(
                    value for value in values[1:] if value is not values[0]
                )
        if not differs:
            break
    for name, values in kept.items():
        row = graph.main.tensors[name].dtype
        found.noises[name] = _noise(row, values, _errors(row, values))
    return found


def _errors(row: DType, values: Sequence[Array]) -> list[Array]:
    """Return the distances of each run that differs from the exact one, where they are finite."""
    wide = [numbers(v, row) if row.name in FLOATS else v.astype(np.float64) for v in values]
    errors = []
    for value, other in zip(values[1:], wide[1:], strict=True):
        if value is values[0]:
            continue
        with np.errstate(all="ignore"):
            error = np.abs(other - wide[0])
        errors.append(np.where(np.isfinite(error), error, 0.0))
    return errors


def _noise(row: DType, values: Sequence[Array], errors: Sequence[Array]) -> Noise:
    if row.name not in FLOATS:
        wide = [array.astype(np.float64) if is_float(array.dtype) else array for array in values]
        low, high = reduce(np.minimum, wide), reduce(np.maximum, wide)
        return Noise(row, Spread(wide[0], low=low, high=high))
    exact = numbers(values[0], row)
    squares = sum((np.square(error) for error in errors), np.zeros(exact.shape))
    spread = Spread(exact, sigma=np.sqrt(squares / max(len(errors), 1)))
    found = [_deviations(row, spread, error) for error in errors]
    none = 0.0, 0.0, 0.0
    return Noise(row, spread, *(max(column) for column in zip(none, *found, strict=True)))


def _deviations(row: DType, spread: Spread, errors: Array) -> tuple[float, float, float]:
    """Return errors as multiples of a spread: of an element, a row or channel, and the whole."""
    assert spread.sigma is not None
    totals = NetworkTotals(NetworkCheck(row, spread))
    flat = errors.reshape(-1)
    totals.add_errors(slice(0, flat.size), flat)
    with np.errstate(all="ignore"):
        ratios = np.where(flat == 0, 0.0, flat / spread.sigma.reshape(-1))
    return float(ratios.max(initial=0.0)), *totals.deviations()


# -- what `power` returns: the smallest changes that are reported, and the table of them -----------

Verb = Literal["check", "bisect"]
VERBS: Final[tuple[Verb, ...]] = ("check", "bisect")

_LEGEND: Final = (
    "Sizes are units in the last place, or steps of integers: the median of what is reported (and of "
    "the noise).\nThe last columns have the largest ratio of the two; no effect: no output changes."
)


@dataclass(frozen=True, slots=True)
class Threshold(Shown):
    """The smallest size of a change that a verb reports, and the least that any could.

    reported: None if it reports no size. noise: the smallest size whose effect is larger than the errors
        of every independent run of a correct implementation; None if no size has an effect.
    """

    reported: float | None
    noise: float | None

    @property
    def ratio(self) -> float | None:
        """Return how many times the noise a change has to be; None if it has no effect."""
        if self.noise is None:
            return None
        return math.inf if self.reported is None else self.reported / self.noise

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the ratio; a size that is never reported is null."""
        return {**Shown.to_dict(self), "ratio": json_value(self.ratio)}


@dataclass(frozen=True, slots=True)
class ChangePower(Shown):
    """A change of a tensor, and how large it is when it is reported.

    Sizes are multiples of `unit`: units in the last place of what is changed, or integer steps.

    run: the inputs, such as "seed-0". kind: "element", "channel" or "all". index: of the element or
        channel, none of all. sign: whether it is added or subtracted. unit: in the tensor's numbers.
    check: at the outputs of the program. bisect: at the tensor itself.
    """

    run: str
    kind: Kind
    index: tuple[int, ...]
    sign: int
    unit: float
    check: Threshold
    bisect: Threshold


@dataclass(frozen=True, slots=True)
class TensorPower(Shown):
    """What the checks see of one tensor.

    noise: the largest error of a correct implementation in the network, in `unit`.
    unit: a unit in the last place of the root of the mean square of the tensor; 1 for integers.
    largest: the largest number of the tensor.
    """

    name: str
    operator: str
    location: str
    dtype: str
    shape: tuple[int, ...]
    noise: float
    unit: float
    largest: float
    changes: tuple[ChangePower, ...]

    def of(self, kind: Kind, verb: Verb) -> list[Threshold]:
        """Return the thresholds of all changes of a kind."""
        return [getattr(row, verb) for row in self.changes if row.kind == kind]

    def worst_ratio(self, verb: Verb) -> float | None:
        """Return the largest ratio of what a verb reports to the noise; None without any effect."""
        found = [getattr(row, verb).ratio for row in self.changes]
        return max((ratio for ratio in found if ratio is not None), default=None)

    @property
    def seen_at(self) -> float | None:
        """Return the median change of one element that `check` reports, by the largest number."""
        sizes = [
            math.inf if row.check.reported is None else row.check.reported * row.unit
            for row in self.changes
            if row.kind == "element"
        ]
        size = _median(sizes)
        if not math.isfinite(size):
            return None
        return size / self.largest if self.largest else size

    def __str__(self) -> str:
        return "  ".join(filter(None, _cells(self)))

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values, and what follows from them."""
        worst = {verb: json_value(self.worst_ratio(verb)) for verb in VERBS}
        return {**Shown.to_dict(self), "seen_at": self.seen_at, "worst_ratio": worst}


@dataclass(frozen=True, slots=True)
class Power(Shown):
    """The smallest changes that `check` and `bisect` report, tensor by tensor.

    notes: what was left out, and why.
    """

    tensors: tuple[TensorPower, ...]
    notes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return {"power": [row.to_dict() for row in self.tensors], "notes": list(self.notes)}

    def __str__(self) -> str:
        head = ["tensor", "operator", "type", "noise"]
        head += [f"{verb}: {kind}" for verb in VERBS for kind in KINDS]
        head += [f"{verb} / noise" for verb in VERBS]
        rows = [_cells(row) for row in self.tensors]
        return "\n".join([*table(head, rows), "", _LEGEND, *(f"note: {n}" for n in self.notes)])


def _cells(row: TensorPower) -> list[str]:
    cells = [printable(row.name), row.operator.removeprefix("operator "), row.dtype]
    cells.append(number_text(row.noise))
    cells += [_cell(row.of(kind, verb)) for verb in VERBS for kind in KINDS]
    return cells + [_ratio_text(row.worst_ratio(verb)) for verb in VERBS]


def _cell(found: Sequence[Threshold]) -> str:
    """Return the median of what is reported, that of the noise, and how many are never reported."""
    if not found:
        return ""
    reported, noise = (
        _median([math.inf if size is None else size for size in column])
        for column in ([t.reported for t in found], [t.noise for t in found])
    )
    never = sum(threshold.reported is None for threshold in found)
    text = number_text(reported)
    if math.isfinite(reported):
        text += f" ({number_text(noise)})"
    return text + (f", {never} of {len(found)} never" if 0 < never < len(found) else "")


def _median(sizes: Sequence[float]) -> float:
    """Return the middle size, the larger one of two."""
    return sorted(sizes)[len(sizes) // 2] if sizes else math.inf


def number_text(size: float) -> str:
    """Return a size in few characters.

    Example:
        >>> [number_text(size) for size in (0.25, 3.0, 1448.15, 2.0**25, float("inf"))]
        ['0.25', '3', '1448', '2^25', 'never']
    """
    if not math.isfinite(size):
        return "never"
    if size >= 2**16:
        return f"2^{round(math.log2(size))}"
    return f"{size:.0f}" if size >= 10 else f"{size:.2g}"


def _ratio_text(ratio: float | None) -> str:
    if ratio is None:
        return "no effect"
    return f"{ratio:.1f}" if math.isfinite(ratio) else "never"


MOST_TENSORS: Final = 250


@takes_keywords(ReadKeywords)
def power(
    program: Any,
    inputs: Mapping[str, Any] | None = None,
    *,
    random: int | None = None,
    seeds: int = 1,
    patterns: Sequence[str] = ("*",),
    max_tensors: int = MOST_TENSORS,
    variables: Mapping[str, Any] | None = None,
    tolerances: Tolerances = NO_TOLERANCES,
    timeout: float = TIMEOUT,
    engine: Engine = "auto",
    progress: Progress | None = None,
    read: ReadOptions = AS_IT_IS,
    **options: Unpack[ReadKeywords],
) -> Power:
    """Measure the smallest changes of a program's tensors that `check` and `bisect` report.

    Of each tensor one element, one channel (all elements with one last index) and all elements are
    changed: the program runs again from there, in numpy, and `check` judges its outputs and `bisect`
    the tensor itself. Sizes are found to a factor of 1.1. Beside each size is that of the noise: the
    smallest change whose effect is larger than the errors of correct implementations, which are
    measured in runs of their own.

    Further keywords are those of `tosa_convert.load`: how a file or module is read.

    Args:
        program: anything that `golden.run` takes.
        inputs: an array for each input, by name, in exactly its element type and shape.
        random: a seed, 0 or more, for inputs that are not given.
        seeds: how many seeds from that of `random` on, each for inputs that are not given.
        patterns: of the names of tensors, such as `layer_1*`.
        max_tensors: how many tensors are changed, spread evenly over those that match.
        variables: initial states by name; the others start as the program says.
        tolerances: for tensors by name, instead of the rules, as `check` and `bisect` take them.
        timeout: seconds for one run.
        engine: what computes the reference; see `RunOptions`.
        progress: called for each seed with how many tensors are done, and how many there are.
        read: how to read a file or module, as a value.

    Returns:
        What is seen of each tensor, in the order of operators.

    Raises:
        TosaConvertError: as `golden.check`; `undefined-name` for a pattern that no tensor matches;
            `unsupported-operator` for a CUSTOM operator.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> found = golden.power(graph, random=1, engine="numpy")
        >>> [row.changes[0].bisect.reported for row in found.tensors]
        [1.0, 1.0, 1.0]
    """
    graph = with_variables(as_graph(program, read, options), variables or {})
    run_options = RunOptions(timeout=timeout, engine=engine)
    if random is None or seeds == 1:
        sets = [("", input_arrays(graph, inputs, random))]
    else:
        given = inputs or {}
        sets = [
            (name, input_arrays(graph, arrays))
            for name, arrays in seeded_inputs(graph, dict(given), random, seeds, ())
        ]
    return power_of_runs(
        graph,
        sets,
        patterns=patterns,
        max_tensors=max_tensors,
        tolerances=tolerances,
        options=run_options,
        progress=progress,
    )


def power_of_runs(
    graph: Graph,
    sets: Iterable[tuple[str, Arrays]],
    *,
    patterns: Sequence[str],
    max_tensors: int,
    tolerances: Tolerances,
    options: RunOptions,
    progress: Progress | None = None,
) -> Power:
    """Measure as `power` does, with inputs that each have a name."""
    matching = select(graph, patterns)
    able = [name for _, name in matching if has_sizes(graph.main.tensors[name].dtype)]
    count = min(len(able), max_tensors)
    chosen = [able[i] for i in sorted({round(i) for i in np.linspace(0, len(able) - 1, count)})]
    notes = []
    if len(chosen) < len(able):
        notes.append(f"{len(chosen)} of {len(able)} tensors were changed, spread evenly")
    if inner := len(tensors_in_runs(graph)):
        notes.append(f"{counted(inner, 'tensor')} in regions of control flow were left out")
    found: dict[str, list[TensorPower]] = {}
    watch = CoverageWatch(graph)
    for label, inputs in sets:
        run_forward(graph, inputs, watch)
        with scratch_folder() as folder:
            bench = _Bench(graph, inputs, label, tolerances, options, folder)
            notes += [note for note in bench.notes if note not in notes]
            for position, name in enumerate(chosen):
                found.setdefault(name, []).append(bench.tensor(name))
                if progress is not None:
                    progress(position + 1, len(chosen))
    for row in watch.coverage().operators:
        notes += [f"{row.operator}{own}" for own in row.exponents if own.missed()]
    return Power(tuple(map(_joined, found.values())), tuple(notes))


def _joined(rows: Sequence[TensorPower]) -> TensorPower:
    worst = max(rows, key=lambda row: row.noise)
    return replace(worst, changes=tuple(change for row in rows for change in row.changes))


#: Returns whether a change of this number is reported; None if the program does not run with it.
_Verdict = Callable[[int], bool | None]


def smallest(verdict: _Verdict, start: int, low: int, high: int) -> int | None:
    """Return the smallest number from `low` to `high` that is reported; None if there is none.

    The search goes from `start` by powers of two until it has passed the border, and then halves what is
    between. What does not run is above the border.
    """
    number, step = min(max(start, low), high), STEPS
    if verdict(number) is False:
        while verdict(number) is False:
            if number == high:
                return None
            below, number, step = number, min(high, number + step), 2 * step
        border = number
    else:
        border, below = number, low - 1
        while border > low:
            number, step = max(low, border - step), 2 * step
            if verdict(number) is False:
                below = number
                break
            border = number
    while border - below > 1:
        middle = (border + below) // 2
        if verdict(middle) is False:
            below = middle
        else:
            border = middle
    return border if verdict(border) else None


class _Bench:
    """Run a program on one set of inputs, with the criteria of its outputs, and their noise."""

    def __init__(
        self,
        graph: Graph,
        inputs: Arrays,
        label: str,
        tolerances: Tolerances,
        options: RunOptions,
        folder: Any,
    ) -> None:
        self.graph, self.inputs, self.label = graph, dict(inputs), label
        self.tolerances, self.options, self.folder = tolerances, options, folder
        self.rerun = Rerun(graph, self.inputs, subfolder(folder, "run"), options.timeout)
        self.operators = Operators(graph, inputs, tolerances, options, BATCH_BYTES)
        reference = Reference(graph, self.inputs, options, tolerances)
        self.golden = reference.outputs
        self.criteria, self.notes = reference.criteria(self.golden, subfolder(folder, "outputs"))
        self.before = self.rerun.results()
        wrong = [
            key
            for key, array in self.before.items()
            if key in self.criteria
            and not compare_tensor(key, self.golden[key], array, self.criteria[key]).ok
        ]
        if wrong:
            where = f"{label}: " if label else ""
            text = f"{where}check fails without a change, at {', '.join(map(quoted, wrong))}"
            self.notes = (*self.notes, f"{text}: what it reports of changes says nothing")
        wanted = {*graph.main.outputs, *self.rerun.states.values()}
        self.baseline = measure_noise(self.rerun.graph, self.inputs, wanted, options.timeout)
        self._noise = {
            STATE_PREFIX + state: self.baseline.noises.get(name)
            for state, name in self.rerun.states.items()
        } | {name: self.baseline.noises.get(name) for name in graph.main.outputs}
        self._starts: dict[tuple[str, Kind], float] = {}

    def tensor(self, name: str) -> TensorPower:
        index = self.operators.producers[name]
        operator, tensor = self.graph.main.operators[index], self.graph.main.tensors[name]
        row, array = tensor.dtype, np.ascontiguousarray(self.rerun.array(name))
        own, noise = self._judge_alone(name, index)
        changes = []
        for place in places(array.shape, zlib.crc32(name.encode())) if array.size else ():
            change = Change(array, row, place)
            changes.append(
                ChangePower(
                    self.label,
                    place.kind,
                    place.position(array.shape),
                    change.place.sign,
                    change.unit,
                    self._at_outputs(name, change),
                    self._by_itself(name, change, own, noise),
                )
            )
        unit = Change(array, row, Place("all", None, 1)).unit if array.size else 1.0
        wide = np.abs(array.astype(np.float64))
        return TensorPower(
            name,
            operator_path("", index, operator).strip(),
            operator.location,
            row.name,
            array.shape,
            self.baseline.largest.get(name, 0.0) / unit,
            unit,
            float(wide.max(initial=0.0, where=np.isfinite(wide))),
            tuple(changes),
        )

    def _judge_alone(self, name: str, index: int) -> tuple[Criterion, Noise]:
        """Return the criterion by which `bisect` judges a tensor, and its noise."""
        cuts, _ = self.operators.operands(index, self.operators.computed)
        part = extract(self.graph, [name], cuts)
        given = dict(self.inputs)
        for cut in cuts:
            given |= {s.key: self.rerun.array(s.key) for s in slots(self.graph.main, cut)}
        array = self.rerun.array(name)
        folder = subfolder(self.folder, f"part{len(list(self.folder.iterdir()))}")
        reference = Reference(part, given, self.options, self.tolerances)
        criteria, notes = reference.criteria({name: array}, folder)
        self.notes = (*self.notes, *notes)
        noise = measure_noise(part, given, {name}, self.options.timeout).noises[name]
        return criteria[name], noise

    def _by_itself(self, name: str, change: Change, own: Criterion, noise: Noise) -> Threshold:
        """Find the smallest change of a tensor that is reported where it is."""

        def is_reported(number: int) -> bool:
            return not compare_tensor(name, change.array, change.applied(number), own).ok

        def is_above_noise(number: int) -> bool:
            return noise.is_exceeded(change.array, change.applied(number))

        least = smallest(is_above_noise, 0, change.low, change.high)
        found = smallest(is_reported, 0 if least is None else least, change.low, change.high)
        return _threshold(change, found, least)

    def _at_outputs(self, name: str, change: Change) -> Threshold:
        """Find the smallest change of a tensor that the outputs show."""
        # By size: small integers have several numbers.
        known: dict[float, tuple[bool, bool] | None] = {}

        def verdicts(number: int) -> tuple[bool, bool] | None:
            size = change.size(number)
            if size not in known:
                results = self.rerun.changed_results(name, change.applied(number))
                known[size] = None if results is None else self._judge(results)
            return known[size]

        def is_reported(number: int) -> bool | None:
            both = verdicts(number)
            return both and both[0]

        def is_above_noise(number: int) -> bool | None:
            both = verdicts(number)
            return both and both[1]

        key = name, change.place.kind
        start = change.number(self._starts.get(key, self.baseline.largest.get(name, 0.0)))
        least = smallest(is_above_noise, start, change.low, change.high)
        found = smallest(is_reported, start if least is None else least, change.low, change.high)
        if least is not None and found is not None and found < least:
            # A larger change can have a smaller effect, and the two searches met different borders.
            least = smallest(is_above_noise, found, change.low, change.high)
        if least is not None:
            self._starts[key] = change.size(least)
        return _threshold(change, found, least)

    def _judge(self, results: Arrays) -> tuple[bool, bool]:
        """Return whether `check` reports changed outputs, and whether they are above the noise."""
        known = [key for key in results if key in self.criteria]
        is_reported = any(
            not compare_tensor(key, self.golden[key], results[key], self.criteria[key]).ok
            for key in known
        )
        is_above = any(
            noise.is_exceeded(self.before[key], results[key])
            if (noise := self._noise.get(key)) is not None
            else not np.array_equal(self.before[key], results[key])
            for key in known
        )
        return is_reported, is_above


def _threshold(change: Change, found: int | None, least: int | None) -> Threshold:
    reported, noise = (
        None if number is None else change.size(number) / change.unit for number in (found, least)
    )
    return Threshold(reported, noise)
