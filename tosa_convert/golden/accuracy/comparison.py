"""Compare two sets of arrays: what differs, by how much, where, and which tolerance would be enough.

Integers, booleans and what TOSA computes exactly are compared bit for bit; other floating point by the
caller's check (TOSA's rule, or the measured error of a network), else within atol + rtol * |expected|.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import ml_dtypes
import numpy as np

from tosa_convert.errors import printable
from tosa_convert.exit_codes import EXIT_WEAK
from tosa_convert.golden.accuracy.criteria import (
    ELEMENT_MULTIPLE,
    NO_TOLERANCES,
    WEAK,
    Check,
    Criterion,
    NetworkTotals,
    Tolerances,
    criterion_for,
    is_integer,
)
from tosa_convert.golden.arrays import Array
from tosa_convert.graph.shown import Shown

# -- how large the errors of a tensor are, added part by part: memory does not grow with it --------

#: The fractions of the elements for which the largest error is stated.
QUANTILES: Final = (0.5, 0.9, 0.99)
#: Bins of the histogram of errors: the upper 16 bits of a positive float32, 1/128 wide.
_BINS: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class ErrorStatistics(Shown):
    """Hold the absolute differences of two arrays where both are finite.

    quantiles: differences that QUANTILES of the elements do not exceed, up to a hundredth. snr: in
        decibels. cosine: of the angle between the arrays as vectors; None if one of them is zero.
    """

    mean: float
    largest: float
    quantiles: tuple[float, ...]
    snr: float
    cosine: float | None

    def __str__(self) -> str:
        shares = ", ".join(
            f"{share:.0%} up to {value:.3g}"
            for share, value in zip(QUANTILES, self.quantiles, strict=True)
        )
        cosine = "" if self.cosine is None else f", cosine {self.cosine:.9g}"
        return f"error: mean {self.mean:.3g}, {shares}; SNR {self.snr:.1f} dB{cosine}"


class StatisticsBuilder:
    """Add up the errors of two arrays, part by part."""

    def __init__(self) -> None:
        self._count, self._sum, self._largest = 0, 0.0, 0.0
        self._noise = self._expected = self._found = self._product = 0.0
        self._histogram = np.zeros(_BINS, np.int64)
        self.lowest, self.highest, self.nans, self.elements = math.inf, -math.inf, 0, 0

    def add(self, expected: Array, found: Array) -> None:
        """Add one part, both in float64."""
        self.elements += expected.size
        self.nans += int(np.count_nonzero(np.isnan(expected)))
        numbers = expected[~np.isnan(expected)]
        self.lowest = min(self.lowest, float(numbers.min(initial=math.inf)))
        self.highest = max(self.highest, float(numbers.max(initial=-math.inf)))
        finite = np.isfinite(expected) & np.isfinite(found)
        one, other = expected[finite], found[finite]
        error = np.abs(one - other)
        self._count += error.size
        with np.errstate(over="ignore", under="ignore"):
            self._sum += float(error.sum())
            self._noise += float(error @ error)
            self._expected += float(one @ one)
            self._found += float(other @ other)
            self._product += float(one @ other)
            codes = error.astype(np.float32).view(np.uint32) >> 16
        self._largest = max(self._largest, float(error.max(initial=0.0)))
        self._histogram += np.bincount(codes, minlength=_BINS)

    def result(self) -> ErrorStatistics:
        count = max(self._count, 1)
        if self._noise:
            snr = 10 * math.log10(self._expected / self._noise) if self._expected else -math.inf
        else:
            snr = math.inf
        sizes = math.sqrt(self._expected) * math.sqrt(self._found)
        cosine = self._product / sizes if sizes and math.isfinite(sizes) else None
        quantiles = tuple(self._quantile(share) for share in QUANTILES)
        return ErrorStatistics(self._sum / count, self._largest, quantiles, snr, cosine)

    def _quantile(self, share: float) -> float:
        """Return the upper end of the histogram bin that contains this share of the elements."""
        if not self._count:
            return 0.0
        wanted = math.ceil(share * self._count)
        code = int(np.searchsorted(np.cumsum(self._histogram), wanted))
        if code == 0:
            return 0.0
        upper = np.array([(code + 1) << 16], np.uint32).view(np.float32)[0]
        return min(float(upper), self._largest)

    def vacuous(self) -> str:
        """Return why the expected array says little (all NaN, or one value everywhere), or ""."""
        if self.elements and self.nans == self.elements:
            return "every element of the golden answer is NaN"
        if self.elements > 1 and not self.nans and self.lowest == self.highest:
            return f"every element of the golden answer is {self.lowest:g}"
        return ""


def differences(one: Array, other: Array) -> tuple[Array, Array]:
    """Return |difference| and |expected| as float64; infinite where no tolerance would be enough."""
    if one.dtype == np.int64:
        # float64 does not hold every INT64; the difference of the upper halves does not matter here.
        difference = np.abs(one.astype(object) - other.astype(object)).astype(np.float64)
        return difference, np.abs(one.astype(np.float64))
    left, right = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.abs(left - right)
    return np.where(np.isnan(difference), np.inf, difference), np.abs(left)


def ulp_distance(one: Array, other: Array) -> float:
    """Return the largest distance in representable values: infinite for NaN, 0 for unordered codes."""
    if is_integer(one.dtype) or one.dtype.name.startswith(("float4_", "float6_", "float8_e8")):
        return 0.0
    if np.isnan(one).any() or np.isnan(other).any():
        return math.inf
    width = one.dtype.itemsize * 8
    wide = np.int64 if width < 64 else object
    bits = [np.ascontiguousarray(a).view(f"i{width // 8}").astype(wide) for a in (one, other)]
    # From sign and magnitude to one number line: negative codes count downwards from zero.
    lowest = -(1 << (width - 1))
    lines = [np.where(b < 0, lowest - b, b) for b in bits]
    return float(np.abs(lines[0] - lines[1]).max())


#: Elements that are compared at a time, so that memory does not grow with the tensor.
BLOCK: Final = 1 << 13
#: A tensor is wrong without more runs if more than half of its elements are, and one is beyond this
#: multiple of its spread. Beside a pole a few elements of a correct result may be any number.
_CLEAR: Final = 5.0
#: Measurements of six runs each that confirm that a tensor is wrong, and up to which multiple of what is
#: allowed. Of 28,800 correct results at edge inputs, five measurements reject one: it errs by 1.15 times
#: what they allow.
CONFIRMATIONS: Final = ((5, math.inf), (20, 2.0))


@dataclass(frozen=True, slots=True)
class TensorComparison(Shown):
    """One tensor's result.

    rule: the criterion. differing: elements that are not bit for bit the same (NaNs count as equal).
    failing: elements that the criterion does not allow.
    worst: the index of the element furthest beyond (or nearest to) what is allowed; expected, found:
        its two values. worst_ulp: their distance in representable values, as needed_ulp.
    exact: what FP64 gives there, from which the share of the bound is measured; None if nothing is.
    needed_atol, needed_rtol: the tolerance, either alone, with which every element would pass.
    needed_ulp: the largest distance in representable values; infinite between NaN and a number.
    margin: the largest error as a fraction of the rule's bound, or None without a bound.
    allowed_share: the error that the tensor may have, as a share of its values; None if it is exact.
    statistics: of the errors; None if the elements were not compared.
    problem: why the elements were not compared, or "". note: what the reader should know.
    low_precision: says that correct results may differ so much that faults are not seen, or "".
    weak: whether it agrees only because correct results may differ by more than a tenth of its values.
    """

    name: str
    ok: bool
    rule: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    differing: int = 0
    failing: int = 0
    worst: tuple[int, ...] | None = None
    expected: float | int | bool | None = None
    found: float | int | bool | None = None
    worst_ulp: float = 0.0
    exact: float | None = None
    needed_atol: float = 0.0
    needed_rtol: float = 0.0
    needed_ulp: float = 0.0
    margin: float | None = None
    allowed_share: float | None = None
    statistics: ErrorStatistics | None = None
    problem: str = ""
    note: str = ""
    low_precision: str = ""
    weak: bool = False
    operator: str = ""
    location: str = ""

    @property
    def line(self) -> str:
        """Return what decides about a tensor that agrees."""
        counts = count_text(self.ok, self.elements, self.differing, self.failing)
        is_less = self.differing and self.margin is not None
        return f"{self._head}: {counts}{f'; {self.margin:.3g} of the bound' if is_less else ''}"

    @property
    def _head(self) -> str:
        verdict = "FAIL" if not self.ok else "weak" if self.weak else "ok  "
        return f"{verdict} {printable(self.name)} {self.dtype}{list(self.shape)} [{self.rule}]"

    def __str__(self) -> str:
        head = self._head
        imprecise = "" if self.problem == self.low_precision else self.low_precision
        note = "; ".join(filter(None, (self.note, imprecise)))
        note = f"\n       note: {note}" if note else ""
        if self.problem:
            return f"{head}: {self.problem}{note}"
        if not self.differing:
            return f"{head}: {count_text(self.ok, self.elements, 0, 0)}{note}"
        assert self.worst is not None
        place = f"at {list(self.worst)}: expected {self.expected}, found {self.found}"
        if self.worst_ulp:
            place += f" ({self.worst_ulp:g} ulp)"
        if self.exact is not None and self.exact != self.expected:
            place += f", in FP64 {self.exact:.12g}"
        relative = f" or rtol={self.needed_rtol:.4g}" * math.isfinite(self.needed_rtol)
        tolerance = f"atol={self.needed_atol:.4g}{relative}"
        if self.needed_ulp:
            tolerance += f", at most {self.needed_ulp:g} ulp"
        counts = count_text(self.ok, self.elements, self.differing, self.failing)
        largest = "largest error" if self.margin is None else "largest share of the bound"
        which, verb = (largest, "needs") if self.ok else ("worst", "would pass with")
        text = f"{head}: {counts}; {which} {place}; over all elements: {verb} {tolerance}"
        if self.margin is not None:
            text += f"; {self.margin:.3g} of the bound"
        if self.statistics is not None:
            text += f"\n       {self.statistics}"
        if self.operator:
            text += f"\n       computed by {self.operator} {printable(self.location)}".rstrip()
        return text + note


def count_text(ok: bool, elements: int, differing: int, failing: int) -> str:
    """Return text that counts the elements of a tensor that are equal, differ, and violate its rule."""
    if not differing:
        return f"all {elements} elements equal"
    if ok:
        return f"all {elements} elements within the rule, {elements - differing} equal"
    text = f"{differing} of {elements} elements differ, "
    return text + (f"{failing} too much" if failing else "each within the rule, together too much")


@dataclass(frozen=True, slots=True)
class Comparison(Shown):
    """The result for all tensors.

    missing: names without an actual array. extra: names without an expected one; not compared.
    notes: what the reader of a report should know.
    """

    tensors: tuple[TensorComparison, ...]
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Return whether at least one tensor was compared, all passed, and none is missing."""
        return bool(self.tensors) and not self.missing and all(t.ok for t in self.tensors)

    @property
    def weak(self) -> bool:
        """Return whether all passed, and some only because their bound is a tenth of their values.

        Such a tensor differs, and the bound excludes no fault of this size.
        """
        return self.ok and any(t.weak for t in self.tensors)

    @property
    def exit_code(self) -> int:
        """Return what a command ends with: 0, 1 if something is wrong, 5 for a weak verdict."""
        return EXIT_WEAK if self.weak else int(not self.ok)

    @property
    def failures(self) -> list[TensorComparison]:
        """Return the tensors that do not agree."""
        return [tensor for tensor in self.tensors if not tensor.ok]

    @property
    def low_precision(self) -> str:
        """Return a line for each tensor whose correct results differ too much to see faults."""
        return "\n".join(
            f"{printable(row.name)}: {row.low_precision}"
            for row in self.tensors
            if row.low_precision
        )

    @property
    def what_is_wrong(self) -> str:
        """Return the lines about tensors that do not agree, or else all; "" if everything agrees."""
        return "" if self.ok else "\n".join(map(str, self.failures)) or str(self)

    def __str__(self) -> str:
        lines = [str(tensor) for tensor in self.tensors]
        lines += [
            f"FAIL {printable(name)}: the other side has no such tensor" for name in self.missing
        ]
        lines += [
            f"note: {printable(name)}: only the other side has it; not compared"
            for name in self.extra
        ]
        lines += [f"note: {note}" for note in self.notes]
        if not self.tensors:
            lines.append("FAIL nothing was compared")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values; infinities and NaN as strings."""
        counts = {"ok": self.ok, "weak": self.weak, "compared": len(self.tensors)}
        return {**counts, **Shown.to_dict(self)}

    def to_json(self) -> str:
        """Return `to_dict` as text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)


def compare(
    expected: Mapping[str, Array],
    actual: Mapping[str, Array],
    *,
    tolerances: Tolerances = NO_TOLERANCES,
    checks: Mapping[str, Check] | None = None,
    origins: Mapping[str, tuple[str, str]] | None = None,
    notes: tuple[str, ...] = (),
) -> Comparison:
    """Compare arrays by name, in the order of `expected`.

    Args:
        expected: the golden arrays.
        actual: the arrays to judge; shape and type must be the same, nothing is broadcast.
        tolerances: for tensors that a pattern names, instead of the rules.
        checks: by tensor, TOSA's rules and the errors that were measured for a network.
        origins: (operator, location) by tensor, for the report.
        notes: for the report.

    Returns:
        A row for each tensor that both sides have. `ok` is False if nothing was compared.

    Example:
        >>> import numpy as np
        >>> from tosa_convert import golden
        >>> result = golden.compare({"y": np.int32([1, 2])}, {"y": np.int32([1, 5])})
        >>> print(result)
        FAIL y int32[2] [exact]: 1 of 2 elements differ, 1 too much; worst at [1]: \
expected 2, found 5; over all elements: would pass with atol=3 or rtol=1.5
               error: mean 1.5, 50% up to 0, 90% up to 3, 99% up to 3; SNR -2.6 dB, cosine 0.964763821
        >>> loose = golden.Tolerances(atol=(("y", 3.0),))
        >>> golden.compare({"y": np.int32([1, 2])}, {"y": np.int32([1, 5])}, tolerances=loose).ok
        True
    """
    results = []
    for name in expected:
        if name in actual:
            # Both mappings may read from files: hold only one tensor of each in memory.
            golden = expected[name]
            check = (checks or {}).get(name)
            criterion = criterion_for(name, golden.dtype, tolerances, check)
            origin = (origins or {}).get(name, ("", ""))
            results.append(compare_tensor(name, golden, actual[name], criterion, origin))
    return Comparison(
        tuple(results),
        tuple(name for name in expected if name not in actual),
        tuple(name for name in actual if name not in expected),
        notes,
    )


def compare_tensor(
    name: str,
    expected: Array,
    actual: Array,
    criterion: Criterion,
    origin: tuple[str, str] = ("", ""),
) -> TensorComparison:
    """Compare two arrays of one tensor, which the operator and location of `origin` made.

    What fails by its spread in a network has to fail by the spread of more runs, too: a few runs give an
    element by chance a spread that is several times too small.
    """
    found = _compared(name, expected, actual, criterion, origin)
    network = criterion.network
    is_clear = 2 * found.failing > found.elements and _CLEAR < (found.margin or 0.0) < math.inf
    if found.ok or found.problem or is_clear or network is None or network.more is None:
        return found
    for batches, margin in CONFIRMATIONS:
        if found.ok or (found.margin or 0.0) > margin:
            break
        spread = network.more(batches)
        if spread is None:
            break
        criterion = replace(criterion, network=replace(network, spread=spread))
        found = _compared(name, expected, actual, criterion, origin)
    return found


def _compared(
    name: str, expected: Array, actual: Array, criterion: Criterion, origin: tuple[str, str]
) -> TensorComparison:
    base: dict[str, Any] = {
        "name": name,
        "rule": criterion.label,
        "dtype": str(expected.dtype),
        "shape": expected.shape,
        "elements": expected.size,
        "operator": origin[0],
        "location": origin[1],
    }
    actual, note, problem = in_type_of(expected, actual)
    if problem:
        return TensorComparison(ok=False, problem=problem, note=note, **base)
    totals = _Totals(criterion)
    flat_expected, flat_actual = expected.reshape(-1), actual.reshape(-1)
    for start in range(0, expected.size, BLOCK):
        part = slice(start, start + BLOCK)
        totals.add(part, flat_expected[part], flat_actual[part])
    totals.finish()
    worst: dict[str, Any] = {}
    if totals.index is not None:
        index = np.unravel_index(totals.index, expected.shape)
        worst = {
            "worst": tuple(int(i) for i in index),
            "exact": criterion.exact_at(totals.index),
            "expected": _number(flat_expected[totals.index]),
            "found": _number(flat_actual[totals.index]),
            "worst_ulp": ulp_distance(
                flat_expected[totals.index :][:1], flat_actual[totals.index :][:1]
            ),
        }
    if vacuous := totals.statistics.vacuous():
        vacuous = f"{vacuous}: the comparison says little"
    shares = criterion.allowed_shares()
    imprecise = shares.low_precision() if shares else ""
    is_refused = bool(imprecise) and criterion.strict and totals.ok
    is_measured = criterion.network is not None and shares is not None and shares.whole > WEAK
    base["problem"] = imprecise if is_refused else ""
    return TensorComparison(
        ok=totals.ok and not is_refused,
        differing=totals.differing,
        failing=totals.failing,
        needed_atol=totals.atol,
        needed_rtol=totals.rtol,
        needed_ulp=totals.ulp,
        margin=totals.margin,
        allowed_share=None if shares is None or math.isnan(shares.whole) else shares.whole,
        low_precision=imprecise,
        weak=is_measured and totals.ok and not is_refused and totals.differing > 0,
        statistics=totals.statistics.result(),
        note="; ".join(filter(None, (note, vacuous, _beyond_ordinary(totals), totals.leaning))),
        **base,
        **worst,
    )


def in_type_of(expected: Array, actual: Array) -> tuple[Array, str, str]:
    """Convert the array to the expected type if all values fit; add a note about it, and a problem."""
    wanted = expected.dtype
    if actual.shape != expected.shape:
        return actual, "", f"expected shape {list(expected.shape)}, found {list(actual.shape)}"
    if not expected.size:
        return actual, "", "it has no elements: nothing was compared"
    mismatch = f"expected {wanted}, found {actual.dtype}"
    if actual.dtype == np.bool_:
        # numpy takes any byte but 0 for true; TOSA has the bytes 0 and 1 only.
        largest = int(np.ascontiguousarray(actual).view(np.uint8).max())
        if largest > 1:
            return actual, "", f"expected the bytes 0 and 1 of a bool, found {largest}"
    if actual.dtype == wanted:
        return actual, "", ""
    if is_integer(wanted) and actual.dtype.kind in "biu":
        iinfo: Any = ml_dtypes.iinfo
        limits = None if wanted == np.bool_ else iinfo(wanted)
        low, high = (0, 1) if limits is None else (int(limits.min), int(limits.max))
        least, most = int(actual.min()), int(actual.max())
        if least < low or most > high:
            return actual, "", f"{mismatch} with values from {least} to {most}"
    elif is_integer(wanted) or actual.dtype.kind != "f" or actual.dtype.itemsize <= wanted.itemsize:
        return actual, "", mismatch
    with np.errstate(over="ignore"):
        converted = actual.astype(wanted)
    return converted, f"{mismatch}; its values were converted", ""


def _number(value: Any) -> float | int | bool:
    if value.dtype.kind in "biu":
        plain: float | int | bool = value.item()
        return plain
    return int(value) if "int" in value.dtype.name else float(value)


def _beyond_ordinary(totals: _Totals) -> str:
    """Return a note about an error that TOSA allows and ordinary implementations do not have."""
    network = totals.criterion.network
    if totals.ok or not totals.keeps_rule or totals.criterion.check is None or network is None:
        return ""
    assert totals.margin is not None
    times = f"{totals.margin * ELEMENT_MULTIPLE:.3g} times"
    return f"within TOSA's rule, but {times} the error of ordinary implementations"


class _Totals:
    """Hold the result so far, over the parts of a tensor that were compared."""

    def __init__(self, criterion: Criterion) -> None:
        self.criterion = criterion
        self.network = None if criterion.network is None else NetworkTotals(criterion.network)
        self.statistics = StatisticsBuilder()
        self.differing = self.failing = 0
        self.index: int | None = None
        self.rank = (-1, -1.0)
        self.atol = self.rtol = self.ulp = 0.0
        self.margin: float | None = None
        self.ok = self.keeps_rule = True
        self.leaning = ""

    def add(self, part: slice, expected: Array, actual: Array) -> None:
        unequal = _unequal(expected, actual)
        self.statistics.add(expected.astype(np.float64), actual.astype(np.float64))
        self.differing += int(np.count_nonzero(unequal))
        by_rule = self._by_rule(part, expected, actual)
        also = self.criterion.allows_flushed(part, actual)
        if by_rule is None:
            where = np.flatnonzero(unequal)
        else:
            allowed, fractions = by_rule
            allowed |= ~unequal  # what the reference model answers is right
            if also is not None:
                allowed |= also
            # The share of what is allowed for another reason decides nothing.
            fractions = np.where(allowed & ~(fractions <= 1.0), 0.0, fractions)
            self.margin = max(self.margin or 0.0, float(fractions.max(initial=0.0)))
            by_rule = allowed, fractions
            where = np.flatnonzero(unequal | ~allowed)
        if not len(where):
            return
        one, other = expected[where], actual[where]
        difference, size = differences(one, other)
        self._add_needed(one, other, difference, size)
        if by_rule is None:
            # An infinite difference never passes, not even relative to an infinite value.
            with np.errstate(invalid="ignore"):
                limit = self.criterion.atol + self.criterion.rtol * size
            is_failing = ~((difference <= limit) & np.isfinite(difference))
            is_failing &= ~((other == 0) & (size < self.criterion.least))
            if also is not None:
                is_failing &= ~also[where]
            score = difference
        else:
            is_failing, score = ~by_rule[0][where], by_rule[1][where]
        self.failing += int(np.count_nonzero(is_failing))
        self._add_worst(part.start, where, is_failing, score)

    def _by_rule(self, part: slice, expected: Array, actual: Array) -> tuple[Array, Array] | None:
        """Return for each element whether it is allowed, and its error in bounds, if it has a rule."""
        found = None if self.network is None else self.network.add(part, expected, actual)
        if self.criterion.check is not None:
            allowed, fractions = self.criterion.bound_fractions(part, actual)
            self.keeps_rule &= bool((allowed | ~_unequal(expected, actual)).all())
            if found is None:
                return allowed, fractions
            may_be = self.criterion.sum_may_overflow(part, actual)
            fractions = np.maximum(fractions, np.where(may_be, 0.0, found[1]))
            found = allowed & (found[0] | may_be), fractions
        return found

    def finish(self) -> None:
        self.ok = self.failing == 0
        if self.network is not None:
            together, text = self.network.fraction()
            self.margin = max(self.margin or 0.0, together)
            self.ok = self.ok and together <= 1.0
            self.leaning = "" if self.failing else text

    def _add_needed(self, one: Array, other: Array, difference: Array, size: Array) -> None:
        """Raise the tolerances that would have been enough."""
        with np.errstate(all="ignore"):
            relative = np.where(np.isfinite(difference), difference / size, np.inf)
            relative = np.where(difference == 0, 0.0, relative)
        self.atol = max(self.atol, float(difference.max()))
        self.rtol = max(self.rtol, float(relative.max()))
        self.ulp = max(self.ulp, ulp_distance(one, other))

    def _add_worst(self, start: int, where: Array, is_failing: Array, score: Array) -> None:
        """Remember the element with the highest score, failing ones first."""
        score = np.where(np.isnan(score), np.inf, score)
        last = int(np.lexsort((score, is_failing))[-1])
        rank = (int(is_failing[last]), float(score[last]))
        if rank > self.rank:
            self.rank, self.index = rank, start + int(where[last])


def _unequal(expected: Array, actual: Array) -> Array:
    """Return which elements differ in value; NaN equals NaN, and 0 equals -0."""
    unequal = expected != actual
    if not is_integer(expected.dtype):
        unequal &= ~(np.isnan(expected) & np.isnan(actual))
    return np.asarray(unequal)
