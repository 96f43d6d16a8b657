"""Elements at which verdicts could differ: at the limits of rules, and where element types end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tosa_convert.golden.accuracy.error_bounds import FLOATS
from tosa_convert.golden.arrays import Array
from tosa_convert.graph import dtype
from tosa_convert.qualify.suite.official_rules import parse_compliance

#: Rows of descriptors, as the official tests have them.
MODES: Final[Mapping[str, dict[str, Any]]] = {
    "ulp": {"mode": "ULP", "ulp_info": {"ulp": 2}},
    "half": {"mode": "ULP", "ulp_info": {"ulp": 0.5}},
    "cast": {"mode": "ULP", "ulp_info": {"ulp": 0.5, "ulp_lower": 1.0}},
    "product": {"mode": "REDUCE_PRODUCT", "reduce_product_info": {"n": 6}},
    "plain": {"mode": "ABS_ERROR", "abs_error_info": {}},
    "exp": {"mode": "ABS_ERROR", "abs_error_info": {"base_bound": 3}},
    "log": {"mode": "ABS_ERROR", "abs_error_info": {"lower_bound": 0.5}},
    "tanh": {"mode": "ABS_ERROR", "abs_error_info": {"lower_bound": 0.5, "base_bound": 4.0}},
    "sin": {
        "mode": "ABS_ERROR",
        "abs_error_info": {
            "base_bound": 2.0,
            "bound_as_magnitude": True,
            "normal_divisor": 2,
            "max_compare": 1.9e-4,
        },
    },
    "cos": {
        "mode": "ABS_ERROR",
        "abs_error_info": {"base_bound": 1.0, "bound_as_magnitude": True, "normal_divisor": 2},
    },
    "dot product": {"mode": "DOT_PRODUCT", "dot_product_info": {"s": 3, "ksb": 65}},
    "dot product of 8 bits": {
        "mode": "DOT_PRODUCT",
        "dot_product_info": {
            "s": 0,
            "ksb": 385,
            "abs_bound": 131072,
            "variance_error_bound": 107374182.4,
        },
    },
    "special": {"mode": "FP_SPECIAL"},
    "exact": {"mode": "EXACT"},
    "resize": {
        "mode": "MAX_RELATIVE",
        "max_relative_info": {"max": 1.0, "scale": 0.006, "ulp_bound": 20.0},
    },
    "pow": {"mode": "PRECOMPUTED"},
    "from a block": {"mode": "FROM_BLOCK", "block_size": 32},
}


def special_numbers(kind: str) -> Array:
    """Zeros, subnormal numbers, the smallest and the largest ones, ties, infinities and NaN."""
    frac, least, most, _ = FLOATS[kind]
    unit = 2.0**-frac
    small = [0.0, least, least / 2, least * unit, least * (1 - unit / 2), least * 1.5, 1e-300]
    large = [
        most,
        *(most * (1 + unit * share) for share in (0.25, 0.5, 1)),
        most * 2,
        1e300,
        np.inf,
    ]
    middle = [1.0, 1 + unit, 1 - unit / 2, 1 + unit / 2, 2.0, 0.7, np.pi, 1e-3, 1e3, most / 2]
    numbers = np.array([*small, *middle, *large, most * (1 - unit / 2), np.nan])
    return np.concatenate([numbers, -numbers])


def stepped(values: Array, kind: str, steps: Any) -> Array:
    """Return the numbers of an element type this many representable ones further."""
    element = np.dtype(dtype(kind).numpy)
    code = np.dtype(f"i{element.itemsize}")
    near = np.ascontiguousarray(values.astype(element))
    return np.asarray((near.view(code) + steps.astype(code)).astype(code).view(element))


def changed(
    row: Mapping[str, Any], reference: Array, bounds: Array, random: np.random.Generator
) -> Array:
    """Return results for a reference: near it, near the limits of its rule, and special numbers."""
    kind, shape = str(row["data_type"]), reference.shape
    compliance = parse_compliance(row)
    frac, least, _, _ = FLOATS[kind]
    with np.errstate(all="ignore"):
        low = high = reference
        if compliance.rule is not None:
            low, high, _ = compliance.rule.limits(reference, bounds, compliance.dtype)
        elif compliance.dot_product is not None:
            unit = np.maximum(bounds * 2.0 ** (-1 - frac), least)
            low = reference - unit * compliance.dot_product.absolute
            high = reference + unit * np.sqrt(compliance.dot_product.variance)
        limit = np.where(random.random(shape) < 0.5, low, high)
        choices = (
            stepped(reference, kind, random.integers(-3, 4, shape)),
            stepped(limit, kind, random.integers(-2, 3, shape)),
            random.choice(special_numbers(kind), shape),
            -reference,
        )
        chosen = random.choice(4, shape, p=(0.35, 0.35, 0.25, 0.05))
        wide = [array.astype(np.float64) for array in choices]
        return np.asarray(np.choose(chosen, wide).astype(dtype(kind).numpy))


def drawn(
    row: Mapping[str, Any], count: int, random: np.random.Generator
) -> tuple[Array, Array, Array]:
    """References, bounds and results."""
    kind = str(row["data_type"])
    frac, least, most, _ = FLOATS[kind]
    special = special_numbers(kind)
    with np.errstate(all="ignore"):
        exponents = random.uniform(np.log2(least) - 3, np.log2(most) + 1, count)
        plain = random.normal(size=count) * 2.0**exponents
        reference = np.where(random.random(count) < 0.5, random.choice(special, count), plain)
        stored = reference.astype(dtype(kind).numpy).astype(np.float64)
        reference = np.where(random.random(count) < 0.3, stored, reference)
        bounds = np.abs(reference) * random.choice([1, 1, 1.25, 2, 1e3, 2.0**frac], count)
        bounds = np.where(
            random.random(count) < 0.25, np.abs(random.choice(special, count)), bounds
        )
    if row["mode"] == "FROM_BLOCK":
        bounds = 2.0 ** random.integers(-20, 20, count)
    return reference, bounds, changed(row, reference, bounds, random)
