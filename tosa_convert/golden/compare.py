"""Compare two sets of arrays: what differs, by how much, where, and what would have been enough.

A step of its own: it runs nothing. Integers, booleans and whatever TOSA computes exactly are compared
bit for bit; other floating point by TOSA's rule for the operator where the caller has one, else within
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

from tosa_convert.golden.array_io import Array
from tosa_convert.golden.tolerance_rules import EXACT, Rule, numbers
from tosa_convert.graph.dtypes import DType

#: Elements looked at in one go, so that memory does not grow with the tensor.
BLOCK: Final = 1 << 15
#: Default tolerances, and the least of each as a multiple of the unit in the last place of 1.
DEFAULT_ATOL: Final = 1e-5
DEFAULT_RTOL: Final = 1e-4
ATOL_UNITS: Final = 1
RTOL_UNITS: Final = 4


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Absolute and relative tolerances, by pattern of the tensor's name; the last match counts.

    default: for names that no pattern matches; None means by the element type's precision.
    """

    atol: tuple[tuple[str, float], ...] = ()
    rtol: tuple[tuple[str, float], ...] = ()

    def of(self, name: str, kind: np.dtype[Any]) -> tuple[float, float]:
        """(atol, rtol) for a tensor. Integers get what was asked for by name or pattern, else 0."""
        exact = kind.kind in "biu" or "int" in kind.name
        unit = _epsilon(kind)
        defaults = (0.0, 0.0)
        if not exact:
            defaults = max(DEFAULT_ATOL, ATOL_UNITS * unit), max(DEFAULT_RTOL, RTOL_UNITS * unit)
        found = []
        for pairs, default in zip((self.atol, self.rtol), defaults, strict=True):
            value = default
            for pattern, given in pairs:
                if fnmatch.fnmatchcase(name, pattern) or name == pattern:
                    value = given
            found.append(value)
        return found[0], found[1]

    def names(self, name: str) -> bool:
        """Whether a tolerance was asked for this tensor."""
        return any(
            fnmatch.fnmatchcase(name, pattern) or name == pattern
            for pattern, _ in (*self.atol, *self.rtol)
        )


def _epsilon(kind: np.dtype[Any]) -> float:
    if kind.kind in "biu" or "int" in kind.name:
        return 0.0
    finfo: Any = np.finfo
    if kind.name not in ("float16", "float32", "float64"):  # some of the others have kind "f", too
        import ml_dtypes

        finfo = ml_dtypes.finfo
    return float(finfo(kind).eps)


@dataclass(frozen=True, slots=True)
class TensorComparison:
    """One tensor's result.

    rule: what it was judged by. differing: elements that are not bit for bit the same (NaNs count as
    equal); failing: elements that the rule does not allow. worst: the index of the element furthest
    beyond (or nearest to) what is allowed, with its two values.
    needed_atol, needed_rtol: the tolerance, either alone, with which every element would pass;
    needed_ulp: the largest distance in representable values; infinite where NaN meets a number.
    margin: the largest error as a fraction of the rule's bound, or None without a bound.
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
            f"{head}: {self.differing} of {self.elements} elements differ, {self.failing} beyond; "
            f"worst at {list(self.worst)}: expected {self.expected}, found {self.found}; it needs "
            f"atol={self.needed_atol:.4g} or rtol={self.needed_rtol:.4g}"
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
    """All tensors. `ok` only if at least one was compared, all passed, and none was missing."""

    tensors: tuple[TensorComparison, ...]
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether everything that was expected is there and agrees."""
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
        """Everything, as JSON has it; infinities and NaN as strings."""
        rows = []
        for tensor in self.tensors:
            row = {name: getattr(tensor, name) for name in TensorComparison.__slots__}
            rows.append({key: _plain(value) for key, value in row.items()})
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


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


@dataclass(frozen=True, slots=True)
class Judge:
    """A rule for one tensor with what it needs: the exact result, and bounds for some rules."""

    rule: Rule
    kind: DType
    precise: Array | None = None
    bounds: Array | None = None


def compare(
    expected: Mapping[str, Array],
    actual: Mapping[str, Array],
    *,
    tolerances: Tolerances | None = None,
    judges: Mapping[str, Judge] | None = None,
    origins: Mapping[str, tuple[str, str]] | None = None,
    notes: tuple[str, ...] = (),
) -> Comparison:
    """Compare arrays by name, in the order of `expected`.

    tolerances: beat rules where they name a tensor. judges: rules by name.
    origins: (operator, location) by name, for the report.
    """
    limits = tolerances or Tolerances()
    results = []
    for name in expected:
        if name not in actual:
            continue
        judge = (judges or {}).get(name)
        if limits.names(name):
            judge = None
        operator, location = (origins or {}).get(name, ("", ""))
        # Both sides may read from files: only one tensor of each is in memory.
        results.append(
            compare_tensor(name, expected[name], actual[name], limits, judge, operator, location)
        )
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
    tolerances: Tolerances,
    judge: Judge | None = None,
    operator: str = "",
    location: str = "",
) -> TensorComparison:
    """Compare two arrays of one tensor; see `compare`."""
    atol, rtol = tolerances.of(name, expected.dtype)
    exact = expected.dtype.kind in "biu" or "int" in expected.dtype.name
    usable = judge is not None and (
        judge.rule == EXACT or judge.precise is not None or judge.rule.kind == "steps"
    )
    if judge is not None and judge.rule.kind == "steps":
        atol = max(atol, judge.rule.amount)
    if judge is not None and judge.rule == EXACT:
        atol = rtol = 0.0
    if usable and judge is not None:
        rule = str(judge.rule)
    elif exact and not (atol or rtol):
        rule = "exact"
    else:
        rule = f"atol {atol:g} rtol {rtol:g}"
    base: dict[str, Any] = {
        "name": name,
        "rule": rule,
        "dtype": str(expected.dtype),
        "shape": expected.shape,
        "elements": expected.size,
        "operator": operator,
        "location": location,
    }
    problem = ""
    if actual.shape != expected.shape:
        problem = f"expected shape {list(expected.shape)}, found {list(actual.shape)}"
    elif actual.dtype != expected.dtype:
        problem = f"expected {expected.dtype}, found {actual.dtype}"
    elif not expected.size:
        problem = "it has no elements: nothing was compared"
    if problem:
        return TensorComparison(ok=False, problem=problem, **base)
    worst = _Worst()
    flat_expected, flat_actual = expected.reshape(-1), actual.reshape(-1)
    for start in range(0, expected.size, BLOCK):
        part = slice(start, start + BLOCK)
        allowed: tuple[Array, Array] | None = None
        if usable and judge is not None and judge.rule.kind not in ("exact", "steps"):
            assert judge.precise is not None
            reference = judge.precise.reshape(-1)[part].astype(np.float64)
            bounds = None if judge.bounds is None else judge.bounds.reshape(-1)[part]
            good = judge.rule.accepts(flat_actual[part], reference, bounds, judge.kind)
            error = judge.rule.limits(reference, bounds, judge.kind)[2]
            with np.errstate(all="ignore"):
                off = np.abs(numbers(flat_actual[part], judge.kind) - reference) / error
            allowed = (good, off)
        worst.add(start, flat_expected[part], flat_actual[part], atol, rtol, allowed)
    index = None if worst.index is None else np.unravel_index(worst.index, expected.shape)
    return TensorComparison(
        ok=worst.failing == 0,
        differing=worst.differing,
        failing=worst.failing,
        worst=None if index is None else tuple(int(i) for i in index),
        expected=None if worst.index is None else _number(flat_expected[worst.index]),
        found=None if worst.index is None else _number(flat_actual[worst.index]),
        needed_atol=worst.atol,
        needed_rtol=worst.rtol,
        needed_ulp=worst.ulp,
        margin=worst.margin,
        **base,
    )


def _number(value: Any) -> float | int | bool:
    if value.dtype.kind in "biu":
        plain: float | int | bool = value.item()
        return plain
    return int(value) if "int" in value.dtype.name else float(value)


class _Worst:
    """What the blocks of a tensor amount to."""

    def __init__(self) -> None:
        self.differing = self.failing = 0
        self.index: int | None = None
        self.rank = (-1, -1.0)
        self.atol = self.rtol = self.ulp = 0.0
        self.margin: float | None = None

    def add(
        self,
        start: int,
        expected: Array,
        actual: Array,
        atol: float,
        rtol: float,
        allowed: tuple[Array, Array] | None,
    ) -> None:
        unequal = _unequal(expected, actual)
        if allowed is not None:
            good, off = allowed
            off = np.where(np.isnan(off), np.where(good, 0.0, np.inf), off)
            self.margin = max(self.margin or 0.0, float(off.max(initial=0.0)))
        where = np.flatnonzero(unequal if allowed is None else unequal | ~allowed[0])
        self.differing += int(np.count_nonzero(unequal))
        if not len(where):
            return
        one, other = expected[where], actual[where]
        difference, size = _differences(one, other)
        with np.errstate(all="ignore"):
            relative = np.where(np.isfinite(difference), difference / size, np.inf)
            relative = np.where(difference == 0, 0.0, relative)
        self.atol = max(self.atol, float(difference.max()))
        self.rtol = max(self.rtol, float(relative.max()))
        self.ulp = max(self.ulp, _ulp_distance(one, other))
        if allowed is not None:
            bad = ~allowed[0][where]
            score = off[where]
        else:
            # An infinite difference passes nothing, not even relative to an infinity.
            bad = ~((difference <= atol + rtol * size) & np.isfinite(difference))
            score = difference
        self.failing += int(np.count_nonzero(bad))
        score = np.where(np.isnan(score), np.inf, score)
        order = np.lexsort((score, bad))
        last = int(order[-1])
        rank = (int(bad[last]), float(score[last]))
        if rank > self.rank:
            self.rank, self.index = rank, start + int(where[last])


def _unequal(expected: Array, actual: Array) -> Array:
    """Elements that differ in value; NaN equals NaN, and 0 equals -0."""
    unequal = expected != actual
    if expected.dtype.kind not in "biu" and "int" not in expected.dtype.name:
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
    name = one.dtype.name
    if (
        one.dtype.kind in "biu"
        or "int" in name
        or name.startswith(("float4", "float6", "float8_e8"))
    ):
        return 0.0
    if np.isnan(one).any() or np.isnan(other).any():
        return math.inf
    width = one.dtype.itemsize * 8
    wide = np.int64 if width < 64 else object
    bits = [np.ascontiguousarray(a).view(f"i{width // 8}").astype(wide) for a in (one, other)]
    # Sign and magnitude to one line: negative codes count downwards from zero.
    lowest = -(1 << (width - 1))
    lines = [np.where(b < 0, lowest - b, b) for b in bits]
    return float(np.abs(lines[0] - lines[1]).max())
