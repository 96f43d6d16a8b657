"""Compare two sets of arrays: what differs, by how much, where, and which tolerance would be enough.

Nothing is run here. Integers, booleans and whatever TOSA computes exactly are compared bit for bit;
other floating point by TOSA's rule for the operator where the caller has one, else within
atol + rtol * |expected|.
"""

from __future__ import annotations

import fnmatch
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tosa_convert.golden.arrays import Array
from tosa_convert.golden.tolerance_rules import EXACT, Rule, numbers
from tosa_convert.graph.dtypes import DType

#: Elements that are compared at a time, so that memory does not grow with the tensor.
BLOCK: Final = 1 << 15
#: Default tolerances, and the least of each as a multiple of the unit in the last place of 1.
DEFAULT_ATOL: Final = 1e-5
DEFAULT_RTOL: Final = 1e-4
ATOL_UNITS: Final = 1
RTOL_UNITS: Final = 4


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Absolute and relative tolerances: (pattern of the tensor's name, value); the last match counts.

    A tensor that no pattern matches is compared by the rules, or by its element type's precision.

    Example:
        >>> import numpy as np
        >>> Tolerances(atol=(("*", 0.5), ("logits", 0.25))).of("logits", np.dtype("float32"))[0]
        0.25
    """

    atol: tuple[tuple[str, float], ...] = ()
    rtol: tuple[tuple[str, float], ...] = ()

    def of(self, name: str, element_type: np.dtype[Any]) -> tuple[float, float]:
        """(atol, rtol) for a tensor; without a matching pattern, 0 for integers."""
        defaults = (0.0, 0.0)
        if not _is_integer(element_type):
            unit = _epsilon(element_type)
            defaults = max(DEFAULT_ATOL, ATOL_UNITS * unit), max(DEFAULT_RTOL, RTOL_UNITS * unit)
        return (
            _last_match(self.atol, name, defaults[0]),
            _last_match(self.rtol, name, defaults[1]),
        )

    def names(self, name: str) -> bool:
        """Whether a pattern matches this tensor."""
        return any(_matches(pattern, name) for pattern, _ in (*self.atol, *self.rtol))


NO_TOLERANCES: Final = Tolerances()


def _last_match(pairs: tuple[tuple[str, float], ...], name: str, default: float) -> float:
    return next((value for pattern, value in reversed(pairs) if _matches(pattern, name)), default)


def _matches(pattern: str, name: str) -> bool:
    return name == pattern or fnmatch.fnmatchcase(name, pattern)


def _is_integer(element_type: np.dtype[Any]) -> bool:
    """Whether elements are integers or booleans; the short integers of ml_dtypes have kind "V"."""
    return element_type.kind in "biu" or "int" in element_type.name


def _epsilon(element_type: np.dtype[Any]) -> float:
    finfo: Any = np.finfo
    # Some types of ml_dtypes have the kind "f", too, and numpy does not know them.
    if element_type.name not in ("float16", "float32", "float64"):
        import ml_dtypes

        finfo = ml_dtypes.finfo
    return float(finfo(element_type).eps)


@dataclass(frozen=True, slots=True)
class ToleranceCheck:
    """One of TOSA's rules for one tensor, with the values that the rule refers to.

    dtype: the tensor's. exact: the result in float64, for rules that are relative to it.
    bounds: the tensor of bounds mode, for rules that need it.
    """

    rule: Rule
    dtype: DType
    exact: Array | None = None
    bounds: Array | None = None


@dataclass(frozen=True, slots=True)
class Criterion:
    """The criterion for the elements of one tensor: a tolerance, or a rule of TOSA.

    label: how reports call it. check: if given, it decides instead of the tolerance.
    """

    label: str
    atol: float = 0.0
    rtol: float = 0.0
    check: ToleranceCheck | None = None

    def bound_fractions(self, part: slice, actual: Array) -> tuple[Array, Array] | None:
        """For each element of a part, whether the rule allows it and its error in bounds.

        None if a tolerance decides.
        """
        if self.check is None:
            return None
        check = self.check
        assert check.exact is not None
        exact = check.exact.reshape(-1)[part].astype(np.float64)
        bounds = None if check.bounds is None else check.bounds.reshape(-1)[part]
        allowed = check.rule.accepts(actual, exact, bounds, check.dtype)
        error = check.rule.limits(exact, bounds, check.dtype)[2]
        with np.errstate(all="ignore"):
            fractions = np.abs(numbers(actual, check.dtype) - exact) / error
        return allowed, np.where(np.isnan(fractions), np.where(allowed, 0.0, np.inf), fractions)


def criterion_for(
    name: str,
    element_type: np.dtype[Any],
    tolerances: Tolerances,
    check: ToleranceCheck | None = None,
) -> Criterion:
    """A tensor's criterion: a tolerance that names it, else its rule, else its type's tolerance."""
    atol, rtol = tolerances.of(name, element_type)
    if check is not None and not tolerances.names(name):
        if check.rule == EXACT:
            return Criterion(str(check.rule))
        if check.rule.kind == "steps":
            return Criterion(str(check.rule), max(atol, check.rule.amount), rtol)
        if check.exact is not None:
            return Criterion(str(check.rule), check=check)
    if _is_integer(element_type) and not (atol or rtol):
        return Criterion("exact")
    return Criterion(f"atol {atol:g} rtol {rtol:g}", atol, rtol)


@dataclass(frozen=True, slots=True)
class TensorComparison:
    """One tensor's result.

    rule: the criterion. differing: elements that are not bit for bit the same (NaNs count as equal).
    failing: elements that the criterion does not allow.
    worst: the index of the element furthest beyond (or nearest to) what is allowed; expected, found:
        its two values.
    needed_atol, needed_rtol: the tolerance, either alone, with which every element would pass.
    needed_ulp: the largest distance in representable values; infinite between NaN and a number.
    margin: the largest error as a fraction of the rule's bound, or None without a bound.
    problem: why the elements were not compared, or "".
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
    needed_atol: float = 0.0
    needed_rtol: float = 0.0
    needed_ulp: float = 0.0
    margin: float | None = None
    problem: str = ""
    operator: str = ""
    location: str = ""

    def __str__(self) -> str:
        verdict = "ok  " if self.ok else "FAIL"
        head = f"{verdict} {self.name} {self.dtype}{list(self.shape)} [{self.rule}]"
        if self.problem:
            return f"{head}: {self.problem}"
        if not self.differing:
            return f"{head}: all {self.elements} elements equal"
        assert self.worst is not None
        text = (
            f"{head}: {self.differing} of {self.elements} elements differ, {self.failing} too much; "
            f"worst at {list(self.worst)}: expected {self.expected}, found {self.found}; "
            f"would pass with atol={self.needed_atol:.4g} or rtol={self.needed_rtol:.4g}"
        )
        if self.needed_ulp:
            text += f" ({self.needed_ulp:g} ulp)"
        if self.margin is not None:
            text += f"; {self.margin:.3g} of the bound"
        if self.operator:
            text += f"\n       by {self.operator} {self.location}".rstrip()
        return text


@dataclass(frozen=True, slots=True)
class Comparison:
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
        """Whether at least one tensor was compared, all passed, and none is missing."""
        return bool(self.tensors) and not self.missing and all(t.ok for t in self.tensors)

    @property
    def failures(self) -> list[TensorComparison]:
        """The tensors that do not agree."""
        return [tensor for tensor in self.tensors if not tensor.ok]

    def __str__(self) -> str:
        lines = [str(tensor) for tensor in self.tensors]
        lines += [f"FAIL {name}: the other side has no such tensor" for name in self.missing]
        lines += [f"note: {name}: only the other side has it; not compared" for name in self.extra]
        lines += [f"note: {note}" for note in self.notes]
        if not self.tensors:
            lines.append("FAIL nothing was compared")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON values; infinities and NaN as strings."""
        rows = [
            {name: _json_value(getattr(tensor, name)) for name in TensorComparison.__slots__}
            for tensor in self.tensors
        ]
        return {
            "ok": self.ok,
            "compared": len(self.tensors),
            "tensors": rows,
            "missing": list(self.missing),
            "extra": list(self.extra),
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)


def _json_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def compare(
    expected: Mapping[str, Array],
    actual: Mapping[str, Array],
    *,
    tolerances: Tolerances = NO_TOLERANCES,
    checks: Mapping[str, ToleranceCheck] | None = None,
    origins: Mapping[str, tuple[str, str]] | None = None,
    notes: tuple[str, ...] = (),
) -> Comparison:
    """Compare arrays by name, in the order of `expected`.

    Args:
        expected: the golden arrays.
        actual: the arrays to judge; shape and type must be the same, nothing is broadcast.
        tolerances: for tensors that a pattern names, instead of the rules.
        checks: TOSA's rules by tensor.
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
expected 2, found 5; would pass with atol=3 or rtol=1.5
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
    """Compare two arrays of one tensor. origin: the operator that made it, and its location."""
    base: dict[str, Any] = {
        "name": name,
        "rule": criterion.label,
        "dtype": str(expected.dtype),
        "shape": expected.shape,
        "elements": expected.size,
        "operator": origin[0],
        "location": origin[1],
    }
    if problem := _why_not_comparable(expected, actual):
        return TensorComparison(ok=False, problem=problem, **base)
    totals = _Totals(criterion)
    flat_expected, flat_actual = expected.reshape(-1), actual.reshape(-1)
    for start in range(0, expected.size, BLOCK):
        part = slice(start, start + BLOCK)
        totals.add(part, flat_expected[part], flat_actual[part])
    worst: dict[str, Any] = {}
    if totals.index is not None:
        index = np.unravel_index(totals.index, expected.shape)
        worst = {
            "worst": tuple(int(i) for i in index),
            "expected": _number(flat_expected[totals.index]),
            "found": _number(flat_actual[totals.index]),
        }
    return TensorComparison(
        ok=totals.failing == 0,
        differing=totals.differing,
        failing=totals.failing,
        needed_atol=totals.atol,
        needed_rtol=totals.rtol,
        needed_ulp=totals.ulp,
        margin=totals.margin,
        **base,
        **worst,
    )


def _why_not_comparable(expected: Array, actual: Array) -> str:
    if actual.shape != expected.shape:
        return f"expected shape {list(expected.shape)}, found {list(actual.shape)}"
    if actual.dtype != expected.dtype:
        return f"expected {expected.dtype}, found {actual.dtype}"
    return "" if expected.size else "it has no elements: nothing was compared"


def _number(value: Any) -> float | int | bool:
    if value.dtype.kind in "biu":
        plain: float | int | bool = value.item()
        return plain
    return int(value) if "int" in value.dtype.name else float(value)


class _Totals:
    """The result so far, over the parts of a tensor that were compared."""

    def __init__(self, criterion: Criterion) -> None:
        self.criterion = criterion
        self.differing = self.failing = 0
        self.index: int | None = None
        self.rank = (-1, -1.0)
        self.atol = self.rtol = self.ulp = 0.0
        self.margin: float | None = None

    def add(self, part: slice, expected: Array, actual: Array) -> None:
        """Compare one part."""
        unequal = _unequal(expected, actual)
        by_rule = self.criterion.bound_fractions(part, actual)
        if by_rule is None:
            where = np.flatnonzero(unequal)
        else:
            allowed, fractions = by_rule
            self.margin = max(self.margin or 0.0, float(fractions.max(initial=0.0)))
            where = np.flatnonzero(unequal | ~allowed)
        self.differing += int(np.count_nonzero(unequal))
        if not len(where):
            return
        one, other = expected[where], actual[where]
        difference, size = _differences(one, other)
        self._add_needed(one, other, difference, size)
        if by_rule is None:
            # An infinite difference never passes, not even relative to an infinite value.
            limit = self.criterion.atol + self.criterion.rtol * size
            is_failing = ~((difference <= limit) & np.isfinite(difference))
            score = difference
        else:
            is_failing, score = ~allowed[where], fractions[where]
        self.failing += int(np.count_nonzero(is_failing))
        self._add_worst(part.start, where, is_failing, score)

    def _add_needed(self, one: Array, other: Array, difference: Array, size: Array) -> None:
        """Raise the tolerances that would have been enough."""
        with np.errstate(all="ignore"):
            relative = np.where(np.isfinite(difference), difference / size, np.inf)
            relative = np.where(difference == 0, 0.0, relative)
        self.atol = max(self.atol, float(difference.max()))
        self.rtol = max(self.rtol, float(relative.max()))
        self.ulp = max(self.ulp, _ulp_distance(one, other))

    def _add_worst(self, start: int, where: Array, is_failing: Array, score: Array) -> None:
        """Remember the element with the highest score, failing ones first."""
        score = np.where(np.isnan(score), np.inf, score)
        last = int(np.lexsort((score, is_failing))[-1])
        rank = (int(is_failing[last]), float(score[last]))
        if rank > self.rank:
            self.rank, self.index = rank, start + int(where[last])


def _unequal(expected: Array, actual: Array) -> Array:
    """Elements that differ in value; NaN equals NaN, and 0 equals -0."""
    unequal = expected != actual
    if not _is_integer(expected.dtype):
        unequal &= ~(np.isnan(expected) & np.isnan(actual))
    return np.asarray(unequal)


def _differences(one: Array, other: Array) -> tuple[Array, Array]:
    """|difference| and |expected| as float64; infinite where no tolerance would be enough."""
    if one.dtype == np.int64:
        # float64 does not hold every INT64; the difference of the upper halves does not matter here.
        difference = np.abs(one.astype(object) - other.astype(object)).astype(np.float64)
        return difference, np.abs(one.astype(np.float64))
    left, right = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.abs(left - right)
    return np.where(np.isnan(difference), np.inf, difference), np.abs(left)


def _ulp_distance(one: Array, other: Array) -> float:
    """The largest distance in representable values; infinite for NaN.

    0 for integers, and for types below 8 bits and scales, whose codes are not in the values' order.
    """
    if _is_integer(one.dtype) or one.dtype.name.startswith(("float4", "float6", "float8_e8")):
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
