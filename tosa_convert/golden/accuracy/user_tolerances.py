"""Tolerances that a user gives for tensors by name, and the default ones of each element type."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection
from typing import Any, Final

import numpy as np

from tosa_convert.errors import Findings, suggest
from tosa_convert.records import dataclass, replace

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
            unit = _epsilon(element_type)
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


def _epsilon(element_type: np.dtype[Any]) -> float:
    finfo: Any = np.finfo
    # Some types of ml_dtypes have the kind "f", too, and numpy does not know them.
    if element_type.name not in ("float16", "float32", "float64"):
        import ml_dtypes

        finfo = ml_dtypes.finfo
    return float(finfo(element_type).eps)
