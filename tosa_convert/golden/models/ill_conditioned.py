"""Outputs of models for which FP32 is not enough: their framework itself errs there.

A network that amplifies rounding, such as the largest of many nearly equal scores, or many steps of a
recurrence, has no result in FP32 that two implementations agree about. Its framework in FP64 shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from tosa_convert.golden.accuracy.comparison import Comparison, TensorComparison
from tosa_convert.golden.arrays.by_name import Array

#: How many times as far as its framework in FP32 a program may be from the framework in FP64.
TIMES: Final = 2.0


def excused(
    found: Comparison,
    program: Mapping[str, Array],
    framework: Mapping[str, Array],
    exact: Mapping[str, Array],
    name: str,
) -> Comparison:
    """Accept the outputs that fail although the framework itself is as far from its result in FP64.

    Args:
        found: the comparison of the program with the framework.
        program: its outputs.
        framework: those of the framework in FP32, as the model has it.
        exact: those of the framework in FP64.
        name: of the framework.
    """
    rows = tuple(
        row
        if row.ok or row.problem or row.name not in exact
        else _judged(row, program[row.name], framework[row.name], exact[row.name], name)
        for row in found.tensors
    )
    return replace(found, tensors=rows)


def _judged(
    row: TensorComparison, program: Array, framework: Array, exact: Array, name: str
) -> TensorComparison:
    if exact.shape != program.shape:
        return row
    ours, theirs = (_sorted_errors(array, exact) for array in (program, framework))
    # Of the largest errors, of the two largest, ..., of all: a single wrong element counts, too.
    with np.errstate(divide="ignore", invalid="ignore"):
        times = float(np.max(ours / np.where(ours > 0, theirs, 1), initial=0.0))
    means = f"by {theirs[-1] / ours.size:.3g} on average, the program by {ours[-1] / ours.size:.3g}"
    if not times <= TIMES:
        note = f"{name} in FP32 differs from {name} in FP64 {means}"
        return replace(row, note="; ".join(filter(None, (row.note, note))))
    note = f"ill-conditioned: {name} in FP32 differs from {name} in FP64 {means}"
    return replace(
        row,
        ok=True,
        rule=f"ill-conditioned, {TIMES:g} times the error of {name} in FP32",
        failing=0,
        margin=times / TIMES,
        note="; ".join(filter(None, (row.note, note))),
    )


def _sorted_errors(array: Array, exact: Array) -> Array:
    """Return the sums of the largest error, of the two largest, ... and of all; 1 for each wrong index.

    NaN in both, or the same infinity, has no error. NaN or an infinity in one has an infinite error.
    """
    if exact.dtype.kind in "biu":
        errors = (array != exact).astype(np.float64)
    else:
        one, other = array.astype(np.float64), exact.astype(np.float64)
        with np.errstate(invalid="ignore"):
            errors = np.abs(one - other)
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        errors = np.where(same, 0.0, np.nan_to_num(errors, nan=np.inf, posinf=np.inf))
    return np.cumsum(np.sort(errors, axis=None)[::-1])
