"""Judge one tensor by a tolerance, TOSA's rule for an operator, or a measured error.

TOSA's rules are about one operator with exact operands. Behind several inexact operators the error is
measured (`verdict.measure`): a result may err a multiple of what the reference model errs.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, Final

import ml_dtypes
import numpy as np

from tosa_convert.errors import Findings, suggest
from tosa_convert.golden.accuracy.error_bounds import (
    EXACT,
    FLOATS,
    Rule,
    kinds_of,
    may_flush,
    numbers,
    same_values,
)
from tosa_convert.golden.arrays import Array
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import counted

# -- tolerances that a user gives for tensors by name, and the default ones of each element type ---

#: Default tolerances, and the least of each as a multiple of the unit in the last place of 1.
DEFAULT_ATOL: Final = 1e-5
DEFAULT_RTOL: Final = 1e-4
ATOL_UNITS: Final = 1
RTOL_UNITS: Final = 4
#: The pattern of a tolerance without a name: every tensor of floating point.
FLOATING_POINT: Final = ""


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Absolute and relative tolerances: (pattern of the tensor's name, value); the last match counts.

    The pattern "" means every tensor of floating point; "*" also means integers and booleans. A
    tensor that no pattern matches is compared by the rules, or by its element type's precision.

    official: TOSA's rule alone decides about the result of a single operator, as in the official tests;
        else a sum that errs far more than ordinary implementations is wrong, too.
    strict: a tensor fails if the error that it may have is more than a hundredth of its values.

    Example:
        >>> import numpy as np
        >>> Tolerances(atol=(("*", 0.5), ("logits", 0.25))).of("logits", np.dtype("float32"))[0]
        0.25
    """

    atol: tuple[tuple[str, float], ...] = ()
    rtol: tuple[tuple[str, float], ...] = ()
    official: bool = False
    strict: bool = False

    def of(self, name: str, element_type: np.dtype[Any]) -> tuple[float, float]:
        """Return (atol, rtol) for a tensor; without a matching pattern, 0 for integers."""
        defaults = (0.0, 0.0)
        is_float = not is_integer(element_type)
        if is_float:
            finfo: Any = ml_dtypes.finfo
            unit = float(finfo(element_type).eps)
            defaults = max(DEFAULT_ATOL, ATOL_UNITS * unit), max(DEFAULT_RTOL, RTOL_UNITS * unit)
        return (
            _last_match(self.atol, name, is_float, defaults[0]),
            _last_match(self.rtol, name, is_float, defaults[1]),
        )

    def names(self, name: str, element_type: np.dtype[Any]) -> bool:
        """Return whether a pattern matches this tensor."""
        is_float = not is_integer(element_type)
        return any(_matches(pattern, name, is_float) for pattern, _ in (*self.atol, *self.rtol))

    def restricted_to(self, names: Collection[str]) -> Tolerances:
        """Copy the tolerances, without patterns that match none of the names."""

        def some(pairs: tuple[tuple[str, float], ...]) -> tuple[tuple[str, float], ...]:
            return tuple(
                (pattern, value)
                for pattern, value in pairs
                if any(_matches(pattern, name, is_float=True) for name in names)
            )

        return replace(self, atol=some(self.atol), rtol=some(self.rtol))

    def refuse_unmatched(self, names: Collection[str]) -> None:
        """Raise TosaConvertError("option-conflict") for each pattern that matches none of the names."""
        findings = Findings()
        for option, pairs in (("atol", self.atol), ("rtol", self.rtol)):
            for pattern, value in pairs:
                if not any(_matches(pattern, name, is_float=True) for name in names):
                    findings.add(
                        "option-conflict",
                        f"{option} {pattern}:{value:g}",
                        f"none of the {len(names)} compared tensors has a name that matches it",
                        suggest(pattern, names, "the tensors are: " + ", ".join(sorted(names)[:8])),
                    )
        findings.raise_if_any()


NO_TOLERANCES: Final = Tolerances()


def _last_match(
    pairs: tuple[tuple[str, float], ...], name: str, is_float: bool, default: float
) -> float:
    values = [value for pattern, value in pairs if _matches(pattern, name, is_float)]
    return values[-1] if values else default


def _matches(pattern: str, name: str, is_float: bool) -> bool:
    if pattern == FLOATING_POINT:
        return is_float
    return name == pattern or fnmatch.fnmatchcase(name, pattern)


def is_integer(element_type: np.dtype[Any]) -> bool:
    """Return whether elements are integers or booleans; ml_dtypes' short integers have kind "V"."""
    return element_type.kind in "biu" or "int" in element_type.name


#: How many times its spread an element may err; a row or channel; and a whole tensor, by the root of
#: the mean of squares.
ELEMENT_MULTIPLE: Final = 6.0
GROUP_MULTIPLE: Final = 5.0
WHOLE_MULTIPLE: Final = 4.0
#: How many spreads all errors may lean to one side; and where sums may be truncated, which costs
#: 1.7. Beside it, how many times the leaning of runs of correct implementations.
ONE_SIDED: Final = 1.0
TRUNCATED: Final = 2.0
LEANING_MULTIPLE: Final = 6.0
#: A tensor that may err by a larger share of its values is of low precision.
MOST_ALLOWED: Final = 0.01
#: One that differs, and may err by a larger share of its values, has a weak verdict.
WEAK: Final = 0.1
_MAY_ERR: Final = (
    "may err by {:.2%} of its values and be right, so that smaller faults are not seen"
)
#: Elements of the smallest row or channel that is judged by itself.
SMALLEST_GROUP: Final = 8
#: Errors below the smallest normal number of a type do not count, if that is as small as this.
_TINY: Final = 1e-30
_EXPONENT: Final = 0x7FF << 52
#: How reports call the criterion of a measured error.
NETWORK_LABEL: Final = f"network, {ELEMENT_MULTIPLE:g} times the measured error"
#: The same of integers and booleans: they are among those that correct implementations compute.
DISCRETE_LABEL: Final = "network, what measured runs give"


@dataclass(frozen=True, slots=True)
class ToleranceCheck:
    """Hold one of TOSA's rules for one tensor, with the values that the rule refers to.

    exact: the result in float64, for rules that are relative to it.
    bounds: the tensor of bounds mode, for rules that need it.
    network: the spread of ordinary implementations, if it has to be kept as well.
    flushed: the result if subnormal operands are zero, which is right, too.
    is_exact: which elements no inexact operator computes, if some do not: these have to be equal.
    """

    rule: Rule
    dtype: DType
    exact: Array | None = None
    bounds: Array | None = None
    network: NetworkCheck | None = None
    flushed: Array | None = None
    is_exact: Array | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """Hold how far apart correct implementations are in a tensor; see `verdict.measure`.

    exact: the result of FP64; integers, BOOL and indices in their own type.
    sigma: of each floating-point number, the root of the mean square of its errors.
    low, high: of each other element, the least and the greatest value that it may have.
    possible: of an index of a largest element, which indices may be the result, in the last dimension.
    kinds: of elements that are not finite in all runs, the kinds that they may also have (`kinds_of`).
    alone: elements judged by themselves only: they would decide about their row, channel or the whole.
    leaning: the mean squares of `leanings` of the runs. one_sided: how many spreads all errors may lean.
    """

    exact: Array
    sigma: Array | None = None
    low: Array | None = None
    high: Array | None = None
    possible: Array | None = None
    kinds: Array | None = None
    alone: Array | None = None
    leaning: list[Array] | None = None
    one_sided: float = TRUNCATED


def leanings(errors: Array, exact: Array, sigma: Array) -> list[Array]:
    """Return the sums of errors, also along a slope, of each row, each channel and the whole."""
    weights = slope_weights(exact, sigma)
    with np.errstate(all="ignore"):
        parts = np.where(sigma > 0, errors / sigma, 0.0)
    # What is further off is wrong by itself.
    parts = np.clip(np.nan_to_num(parts), -ELEMENT_MULTIPLE, ELEMENT_MULTIPLE)
    return [total for own in (parts, parts * weights) for total in sums_of_groups(own)]


def slope_weights(exact: Array, sigma: Array) -> Array:
    """Return the exact numbers in spreads, divided by the root of the mean of their squares."""
    with np.errstate(all="ignore"):
        parts = np.where(sigma > 0, exact / sigma, 0.0)
        parts = np.where(np.isfinite(parts), parts, 0.0)
        parts /= np.abs(parts).max(initial=1e-300)
        return np.asarray(np.nan_to_num(parts / np.sqrt(np.square(parts).mean())))


def sums_of_groups(array: Array) -> list[Array]:
    table = array.reshape(-1, array.shape[-1] if array.shape else 1)
    return [table.sum(axis=1), table.sum(axis=0), table.sum().reshape(1)]


@dataclass(frozen=True, slots=True)
class NetworkCheck:
    """Hold the spread of a tensor, and what measures it in more runs to confirm that it is wrong."""

    dtype: DType
    spread: Spread
    more: Callable[[int], Spread | None] | None = None


Check = ToleranceCheck | NetworkCheck


class NetworkTotals:
    """Judge the elements of a tensor by its spread; then its rows, its channels and the whole.

    A row has the elements that differ in the last index only, a channel those with the same one.
    """

    def __init__(self, check: NetworkCheck) -> None:
        self.check = check
        shape = check.spread.exact.shape
        self.length = shape[-1] if shape else 1
        self.by_row = np.zeros(max(math.prod(shape[:-1]), 1))
        self.by_channel = np.zeros(self.length)
        spread = check.spread
        if spread.sigma is not None:
            # Where the spread is not known, or a number overflows, an error says nothing about others.
            self.in_groups = np.isfinite(spread.sigma) & _fits(spread.exact, check.dtype)
            if spread.alone is not None:
                self.in_groups &= ~spread.alone
            self.errors = np.zeros(spread.exact.size, np.float32)

    def add(self, part: slice, expected: Array, actual: Array) -> tuple[Array, Array]:
        """Return for each element of a part whether it is accepted, and its error as a fraction."""
        if self.check.spread.sigma is None:
            return self._add_discrete(part, actual)
        return self._add_numbers(part, self.check.spread.sigma, expected, actual)

    def _add_discrete(self, part: slice, actual: Array) -> tuple[Array, Array]:
        spread = self.check.spread
        assert spread.low is not None
        assert spread.high is not None
        wide = np.float64 if actual.dtype == np.bool_ or actual.dtype.kind not in "biu" else None
        exact, low, high, found = (
            array.astype(wide) if wide else array
            for array in (
                *(whole.reshape(-1)[part] for whole in (spread.exact, spread.low, spread.high)),
                actual,
            )
        )
        allowed = np.asarray((found >= low) & (found <= high))
        if spread.possible is not None:
            choices = spread.possible.reshape(-1, spread.possible.shape[-1])[part]
            is_index = (found >= 0) & (found < choices.shape[-1])
            index = np.where(is_index, found, 0).astype(np.intp)
            allowed = is_index & choices[np.arange(len(index)), index]
        return allowed, np.where(found == exact, 0.0, np.where(allowed, 1.0, np.inf))

    def _add_numbers(
        self, part: slice, sigma: Array, expected: Array, actual: Array
    ) -> tuple[Array, Array]:
        check, spread = self.check, self.check.spread
        frac, least, most, _ = FLOATS[check.dtype.name]
        exact = spread.exact.reshape(-1)[part]
        limit = sigma.reshape(-1)[part] * ELEMENT_MULTIPLE
        found, golden = numbers(actual, check.dtype), numbers(expected, check.dtype)
        with np.errstate(all="ignore"):
            errors = np.abs(found - exact)
            # An operand that hardly overflows may lead the reference to another number.
            is_apart = np.abs(golden - exact) > limit
            errors = np.where(is_apart, np.minimum(errors, np.abs(found - golden)), errors)
            size = np.abs(exact)
            is_flushed = (found == 0) & (size < least + limit) & may_flush(check.dtype)
            sign = np.sign(found)
            overflows = np.isinf(found) & (sign * exact + limit > most)
            # The greatest number, where the exact one hardly overflows.
            overflows |= (np.abs(found) == most) & (
                np.abs(sign * exact - most) <= most * 2.0**-frac
            )
        # What the reference has is right, and an infinity or NaN also where the spread reaches it.
        same = (found == exact) | (found == golden)
        same |= np.isnan(found) & (np.isnan(golden) | np.isnan(exact))
        # Nothing says how far a number may be off where only FP64 is not finite.
        same |= ~np.isfinite(exact) & np.isfinite(golden) & np.isfinite(found)
        if spread.kinds is not None:
            # A finite number is judged by its size, unless the exact one is not finite.
            kinds = spread.kinds.reshape(-1)[part] & kinds_of(found)
            same |= (kinds != 0) & ~(np.isfinite(found) & np.isfinite(exact))
        if least < _TINY:
            same |= errors < least  # both are about zero
        errors = np.where(same | is_flushed | overflows, 0.0, errors)
        errors = np.where(np.isnan(errors), np.inf, errors)
        counted = np.where(self.in_groups.reshape(-1)[part], errors, 0.0)
        self.add_errors(part, counted)
        with np.errstate(all="ignore"):
            self.errors[part] = np.copysign(counted, found - exact)
            fractions = np.where(errors == 0, 0.0, errors / limit)
        return errors <= limit, fractions

    def add_errors(self, part: slice, errors: Array) -> None:
        with np.errstate(over="ignore"):
            squares = np.square(np.where(np.isfinite(errors), errors, 0.0))
        places = np.arange(part.start, part.start + len(errors))
        rows, channels = places // self.length, places % self.length
        first = int(rows[0]) if len(rows) else 0
        sums = np.bincount(rows - first, squares)
        self.by_row[first : first + len(sums)] += sums
        self.by_channel += np.bincount(channels, squares, minlength=self.length)

    def fraction(self) -> tuple[float, str]:
        """Return the fraction of the worst row, channel or whole, and how errors lean if too far."""
        group, whole = self.deviations()
        leaning, text = self.leaning()
        fraction = max(group / GROUP_MULTIPLE, whole / WHOLE_MULTIPLE, leaning)
        return fraction, text if leaning > 1.0 else ""

    def leaning(self) -> tuple[float, str]:
        """Return how far errors have one sign, or grow with the numbers, as a fraction; and where."""
        spread = self.check.spread
        if spread.sigma is None or spread.leaning is None or not spread.sigma.size:
            return 0.0, ""
        sigma = np.where(self.in_groups, spread.sigma, 0.0)
        found = leanings(self.errors.reshape(sigma.shape), spread.exact, sigma)
        is_any = (sigma > 0).astype(np.float64)
        weights = [is_any, np.abs(slope_weights(spread.exact, sigma))]
        sizes = [own for weight in weights for own in sums_of_groups(weight)]
        squares = [own for weight in weights for own in sums_of_groups(np.square(weight))]
        counts = 2 * sums_of_groups(is_any)
        worst = 0.0, ""
        # The whole comes last, and says more than a row of it.
        for number in (0, 1, 3, 4, 2, 5):
            noise = np.sqrt(np.maximum(spread.leaning[number], squares[number]))
            limit = spread.one_sided * sizes[number] + LEANING_MULTIPLE * noise
            large = (counts[number] >= SMALLEST_GROUP) & (limit > 0)
            with np.errstate(all="ignore"):
                fractions = np.where(large, np.abs(found[number]) / limit, 0.0)
            place, is_whole = int(fractions.argmax()), number % 3 == 2
            if fractions[place] > (min(worst[0], 1.0) if is_whole else worst[0]):
                text = "have one sign" if number < 3 else "grow with the numbers"
                text += "" if is_whole else f" in {'channel' if number % 3 else 'row'} {place}"
                worst = max(float(fractions[place]), worst[0]), f"the errors {text}"
        return worst

    def deviations(self) -> tuple[float, float]:
        """Return the errors of the worst row or channel, and of the whole, in spreads."""
        sigma = self.check.spread.sigma
        if sigma is None or not sigma.size:
            return 0.0, 0.0
        allowed = np.square(np.where(self.in_groups, sigma, 0.0)).reshape(-1, self.length)
        ratios = [0.0]
        if self.length >= SMALLEST_GROUP:
            ratios.append(_largest_ratio(self.by_row, allowed.sum(axis=1)))
        if len(allowed) >= SMALLEST_GROUP:
            ratios.append(_largest_ratio(self.by_channel, allowed.sum(axis=0)))
        return max(ratios), _largest_ratio(self.by_row.sum(), allowed.sum())


def _fits(exact: Array, dtype: DType) -> Array:
    """Return whether numbers do not overflow in an element type, and are no NaN."""
    return np.asarray(np.abs(exact) <= FLOATS[dtype.name][2])


def _largest_ratio(squares: Array, allowed: Array) -> float:
    """Return the root of the largest quotient; 0 where nothing deviates."""
    with np.errstate(all="ignore"):
        return float(np.max(np.where(squares == 0, 0.0, np.sqrt(squares / allowed))))


@dataclass(frozen=True, slots=True)
class Criterion:
    """Hold a tolerance, a rule of TOSA, or a measured error for the elements of one tensor.

    label: how reports call it. least: a number whose size is less may be zero. check, network: decide
        instead of the tolerance; if both are given, each of them has to accept an element.
    """

    label: str
    atol: float = 0.0
    rtol: float = 0.0
    least: float = 0.0
    check: ToleranceCheck | None = None
    network: NetworkCheck | None = field(default=None)
    strict: bool = False
    flushed: Array | None = None

    def allows_flushed(self, part: slice, actual: Array) -> Array | None:
        """Return for each element of a part whether it is right with subnormal operands as zeros."""
        if self.flushed is None:
            return None
        wanted = self.flushed.reshape(-1)[part].astype(np.float64)
        same = same_values(actual.astype(np.float64), wanted)
        if self.check is None:
            return same
        bounds = None if self.check.bounds is None else self.check.bounds.reshape(-1)[part]
        # The bound of an infinity is infinite.
        near = self.check.rule.accepts(actual, wanted, bounds, self.check.dtype)
        if self.check.is_exact is not None:
            near &= ~self.check.is_exact.reshape(-1)[part]
        return np.asarray(same | (near & np.isfinite(wanted)))

    def exact_at(self, index: int) -> float | None:
        """Return the number from which the error of an element is measured, if it is one of FP64."""
        exact = None if self.check is None else self.check.exact
        if exact is None and self.network is not None and self.network.spread.sigma is not None:
            exact = self.network.spread.exact
        return None if exact is None else float(exact.reshape(-1)[index])

    def sum_may_overflow(self, part: slice, actual: Array) -> Array:
        """Return for each element whether it is what a sum gives that overflows in some order."""
        check = self.check
        if check is None or check.bounds is None or check.rule.kind != "dot-product":
            return np.zeros(actual.shape, np.bool_)
        bounds = check.bounds.reshape(-1)[part]
        finite = np.isfinite(numbers(actual, check.dtype))
        # An operand that is infinite has an infinite bound.
        return np.asarray(
            np.isfinite(bounds) & check.rule.may_overflow(bounds, check.dtype) & ~finite
        )

    def allowed_shares(self) -> Shares | None:
        """Return the error that the tensor may have as a share of its values.

        None for what is exact, or compared within a tolerance. Where both a rule and a spread decide,
        the smaller one counts. Elements without a finite bound do not count.
        """
        spread = None if self.network is None else self.network.spread
        if spread is not None and spread.sigma is not None:
            exact = spread.exact
            spreads = [multiple * spread.sigma for multiple in (WHOLE_MULTIPLE, GROUP_MULTIPLE)]
        elif self.check is not None and self.check.exact is not None:
            exact = self.check.exact.astype(np.float64)
            spreads = [np.full(exact.shape, np.inf)] * 2
        else:
            return None
        if self.check is not None and self.check.exact is not None:
            exact = self.check.exact.astype(np.float64)
            limit = self.check.rule.limits(exact, self.check.bounds, self.check.dtype)[2]
            spreads = [np.minimum(own, limit) for own in spreads]
        judge = self.network or self.check
        assert judge is not None
        fits = _fits(exact, judge.dtype)
        whole, group = (_shares_of(np.where(fits, own, np.inf), exact) for own in spreads)
        return Shares(exact.shape, whole(None).item(), group(1), group(0))

    def bound_fractions(self, part: slice, actual: Array) -> tuple[Array, Array]:
        """Return for each element of a part whether the rule allows it, and its error in bounds."""
        check = self.check
        assert check is not None
        assert check.exact is not None
        exact = check.exact.reshape(-1)[part].astype(np.float64)
        bounds = None if check.bounds is None else check.bounds.reshape(-1)[part]
        allowed = check.rule.accepts(actual, exact, bounds, check.dtype)
        error = check.rule.limits(exact, bounds, check.dtype)[2]
        found = numbers(actual, check.dtype)
        with np.errstate(all="ignore"):
            fractions = np.abs(found - exact) / error
        if check.is_exact is not None:
            least = FLOATS[check.dtype.name][1] if may_flush(check.dtype) else 0.0
            is_right = same_values(found, exact) | ((found == 0) & (np.abs(exact) < least))
            is_wrong = check.is_exact.reshape(-1)[part] & ~is_right
            allowed, fractions = allowed & ~is_wrong, np.where(is_wrong, np.inf, fractions)
        return allowed, np.where(np.isnan(fractions), np.where(allowed, 0.0, np.inf), fractions)


@dataclass(frozen=True, slots=True)
class Shares:
    """Hold the error that a tensor may have as a share of its values, by the root of the mean square.

    NaN where all values are 0. rows, channels: of each that is judged by itself.
    """

    shape: tuple[int, ...]
    whole: float
    rows: Array
    channels: Array

    def low_precision(self) -> str:
        """Return the words for what may err so much that faults are not seen, or ""."""
        if self.whole > MOST_ALLOWED:
            return f"low precision: it {_MAY_ERR.format(self.whole)}"
        for what, shares in (("channel", self.channels), ("row", self.rows)):
            over = np.flatnonzero(shares > MOST_ALLOWED)
            if not len(over):
                continue
            worst = int(over[np.argmax(shares[over])])
            index = np.unravel_index(worst, self.shape[:-1]) if what == "row" else (worst,)
            place = f"{what} [{', '.join(map(str, index))}] {_MAY_ERR.format(shares[worst])}"
            return f"low precision in {len(over)} of {counted(len(shares), what)}: {place}"
        return ""


def _shares_of(limit: Array, exact: Array) -> Callable[[int | None], Array]:
    """Return what gives the shares of the whole (None), of the channels (0) and of the rows (1)."""
    known = np.isfinite(limit)
    length = exact.shape[-1] if exact.shape else 1
    squares = [np.square(np.where(known, own, 0.0)).reshape(-1, length) for own in (limit, exact)]

    def shares(axis: int | None) -> Array:
        if axis is not None and squares[0].shape[axis] < SMALLEST_GROUP:
            return np.empty(0)
        allowed, size = (own.sum(axis=axis) for own in squares)
        with np.errstate(all="ignore"):
            return np.where(size > 0, np.sqrt(allowed / size), np.nan)

    return shares


def criterion_for(
    name: str, element_type: np.dtype[Any], tolerances: Tolerances, check: Check | None = None
) -> Criterion:
    """Return a tensor's criterion: a tolerance for it, else its check, else its type's tolerance."""
    atol, rtol = tolerances.of(name, element_type)
    if check is not None and not tolerances.names(name, element_type):
        if isinstance(check, NetworkCheck):
            label = DISCRETE_LABEL if check.spread.sigma is None else NETWORK_LABEL
            return Criterion(label, network=check, strict=tolerances.strict)
        if check.rule == EXACT:
            least = FLOATS[check.dtype.name][1] if may_flush(check.dtype) else 0.0
            return Criterion(str(check.rule), least=least, flushed=check.flushed)
        if check.rule.kind == "steps":
            return Criterion(
                str(check.rule), max(atol, check.rule.amount), max(rtol, check.rule.base)
            )
        if check.exact is not None:
            return Criterion(
                str(check.rule),
                check=check,
                network=check.network,
                strict=tolerances.strict,
                flushed=check.flushed,
            )
    if is_integer(element_type) and not (atol or rtol):
        return Criterion("exact")
    return Criterion(f"atol {atol:g} rtol {rtol:g}", atol, rtol)


def half_units(array: Array, dtype: DType) -> Array:
    """Return the rounding error of each number in its element type; 0 for integers."""
    if dtype.name not in FLOATS:
        return np.zeros(array.shape)
    frac, least, _, _ = FLOATS[dtype.name]
    # Without sign and fraction a number is the power of 2 below it, and NaN is an infinity.
    codes = np.asarray(np.asarray(array, np.float64).view(np.int64) & _EXPONENT)
    powers = np.asarray(np.maximum(codes.view(np.float64), least))
    powers[np.isinf(powers)] = least
    powers *= 2.0 ** (-1 - frac)
    return powers
