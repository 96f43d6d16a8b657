"""What one tensor is judged by: a tolerance, TOSA's rule for an operator, or a measured error.

TOSA's rules are about one operator with exact operands. Behind several inexact operators nothing
states how large an error may be, so it is measured (`network_accuracy`): a result may err as much as
a multiple of what the reference model itself errs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tosa_convert.golden.accuracy.error_bounds import EXACT, FLOATS, Rule, numbers
from tosa_convert.golden.accuracy.user_tolerances import Tolerances, is_integer
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.dtypes import DType

#: The multiple of the reference model's own error that a result of a network may err.
NETWORK_MULTIPLE: Final = 10.0
#: How reports call the criterion of a measured error.
NETWORK_LABEL: Final = f"network, {NETWORK_MULTIPLE:g} times the reference's error"


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
class NetworkCheck:
    """The error that the reference model itself makes in a tensor of a network.

    exact: the result that was computed in FP64. root: the root of the sum of squared errors.
    largest: the largest error. unsure: elements for which the reference's own results are not all
        finite; any value is accepted there.
    """

    dtype: DType
    exact: Array
    root: float
    largest: float
    unsure: Array | None = None


Check = ToleranceCheck | NetworkCheck


@dataclass(slots=True)
class NetworkTotals:
    """The errors of a tensor against the exact result, over the parts that were compared."""

    check: NetworkCheck
    squares: float = 0.0
    largest: float = 0.0

    def add(self, part: slice, expected: Array, actual: Array) -> tuple[Array, Array]:
        """Judge each element of a part. Return whether it is accepted, and its error as a fraction."""
        check = self.check
        exact = check.exact.reshape(-1)[part].astype(np.float64)
        found, golden = numbers(actual, check.dtype), numbers(expected, check.dtype)
        unsure = (
            np.zeros(found.shape, np.bool_)
            if check.unsure is None
            else check.unsure.reshape(-1)[part]
        )
        with np.errstate(all="ignore"):
            errors = np.abs(found - exact)
        same = (found == golden) | (np.isnan(found) & np.isnan(golden))
        # An infinity or NaN is right only if both results of the reference have it.
        errors = np.where(np.isfinite(errors), errors, np.where(same, 0.0, np.inf))
        errors = np.where(unsure, 0.0, errors)
        limit = check.largest * NETWORK_MULTIPLE
        finite = errors[np.isfinite(errors)]
        with np.errstate(over="ignore"):
            self.squares += float(np.square(finite).sum())
        self.largest = max(self.largest, float(errors.max(initial=0.0)))
        with np.errstate(all="ignore"):
            fractions = np.where(errors == 0, 0.0, errors / limit)
        return errors <= limit, np.where(np.isnan(fractions), np.inf, fractions)

    def fraction(self) -> float:
        """Return the errors of the whole tensor as a fraction of what is allowed; above 1 fails."""
        pairs = ((math.sqrt(self.squares), self.check.root), (self.largest, self.check.largest))
        ratios = [
            0.0 if error == 0 else (error / (limit * NETWORK_MULTIPLE) if limit else math.inf)
            for error, limit in pairs
        ]
        return max(ratios)


@dataclass(frozen=True, slots=True)
class Criterion:
    """The criterion for the elements of one tensor: a tolerance, a rule of TOSA, or a measured error.

    label: how reports call it. check: if given, it decides instead of the tolerance.
    """

    label: str
    atol: float = 0.0
    rtol: float = 0.0
    check: ToleranceCheck | None = None
    network: NetworkCheck | None = field(default=None)

    def bound_fractions(self, part: slice, actual: Array) -> tuple[Array, Array]:
        """Return for each element of a part whether the rule allows it, and its error in bounds."""
        check = self.check
        assert check is not None
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
    check: Check | None = None,
) -> Criterion:
    """Choose a tensor's criterion: a tolerance for it, else its check, else its type's tolerance."""
    atol, rtol = tolerances.of(name, element_type)
    if check is not None and not tolerances.names(name, element_type):
        if isinstance(check, NetworkCheck):
            return Criterion(NETWORK_LABEL, network=check)
        if check.rule == EXACT:
            return Criterion(str(check.rule))
        if check.rule.kind == "steps":
            return Criterion(str(check.rule), max(atol, check.rule.amount), rtol)
        if check.exact is not None:
            return Criterion(str(check.rule), check=check)
    if is_integer(element_type) and not (atol or rtol):
        return Criterion("exact")
    return Criterion(f"atol {atol:g} rtol {rtol:g}", atol, rtol)


def half_units(array: Array, dtype: DType) -> Array:
    """Return the rounding error of each number in its element type; 0 for integers."""
    if dtype.name not in FLOATS:
        return np.zeros(array.shape)
    frac, least, _, _ = FLOATS[dtype.name]
    size = np.abs(array)
    finite = np.where(np.isfinite(size) & (size > least), size, least)
    return np.asarray(np.ldexp(2.0 ** (-1 - frac), np.frexp(finite)[1] - 1))
