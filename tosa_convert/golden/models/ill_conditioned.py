"""Elements of models for which FP32 is not enough: their framework itself errs there.

A network that amplifies rounding, such as the largest of many nearly equal scores, or many steps of a
recurrence, has elements about which no two implementations in FP32 agree. Its framework in FP64 shows
which they are. All others are judged as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from tosa_convert.golden.accuracy.comparison import Comparison, TensorComparison
from tosa_convert.golden.accuracy.error_bounds import same_values
from tosa_convert.golden.accuracy.user_tolerances import is_integer
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.model import counted
from tosa_convert.records import replace

#: How many times as far as its framework in FP32 a program may be from the framework in FP64.
TIMES: Final = 2.0


def excused(
    found: Comparison,
    program: Mapping[str, Array],
    framework: Mapping[str, Array],
    exact: Mapping[str, Array],
    name: str,
    compared: Callable[[dict[str, Array]], Comparison],
) -> Comparison:
    """Judge outputs that fail again, without the elements at which the framework itself errs as much."""
    failing = {
        row.name: _excusable(program[row.name], framework[row.name], exact[row.name])
        for row in found.failures
        if not row.problem and row.name in exact and exact[row.name].shape == row.shape
    }
    if not failing:
        return found
    others = {key: framework[key] for key in framework}
    for key, places in failing.items():
        others[key] = framework[key].copy()
        others[key][places] = program[key][places]
    again = {row.name: row for row in compared(others).tensors}

    def rejudged(row: TensorComparison) -> TensorComparison:
        if row.name not in failing:
            return row
        key, rest = row.name, again[row.name]
        sides = program[key], framework[key], exact[key]
        note = _note(row, rest, sides, failing[key], name)
        # What differs is what differed before; what is worst is the worst that fails.
        shown = row if rest.ok else replace(rest, differing=row.differing)
        return replace(
            shown,
            ok=rest.ok,
            failing=rest.failing,
            margin=rest.margin,
            note="; ".join(filter(None, (rest.note, note))),
        )

    return replace(found, tensors=tuple(map(rejudged, found.tensors)))


def _excusable(program: Array, framework: Array, exact: Array) -> Array:
    """Return the places at which the program is at most TIMES as far from FP64 as the framework is.

    Integers, indices and BOOL have no distance: where the framework's order of a row differs from that
    in FP64, the program may have the same elements in a third order.
    """
    same = same_values(_numbers(program), _numbers(exact))
    if is_integer(exact.dtype):
        return same | _permuted(program, framework, exact)
    ours, theirs = _distance(program, exact), _distance(framework, exact)
    # An infinite error of the framework says nothing about how far a number may be off.
    return same | (np.isfinite(theirs) & (ours <= TIMES * theirs))


def _permuted(program: Array, framework: Array, exact: Array) -> Array:
    """Return the places of a row at which the framework differs, if there all have the same elements."""
    length = exact.shape[-1] if exact.ndim else 1
    rows = [array.reshape(-1, length) for array in (program, framework, exact)]
    differs = rows[1] != rows[2]
    found = np.zeros(differs.shape, bool)
    for index in np.flatnonzero(differs.any(axis=1)):
        ours, theirs, wanted = (np.sort(row[index][differs[index]]) for row in rows)
        if np.array_equal(theirs, wanted) and np.array_equal(ours, wanted):
            found[index] = differs[index]
    return found.reshape(exact.shape)


def _numbers(array: Array) -> Array:
    return array if is_integer(array.dtype) else array.astype(np.float64)


def _distance(array: Array, other: Array) -> Array:
    """Return how far elements are apart: infinitely, if only one is finite or a number."""
    one, two = array.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        distance = np.nan_to_num(np.abs(one - two), nan=np.inf, posinf=np.inf)
    return np.where(same_values(one, two), 0.0, distance)


def _note(
    before: TensorComparison,
    after: TensorComparison,
    sides: tuple[Array, Array, Array],
    places: Array,
    name: str,
) -> str:
    """Return how many elements were accepted, why, and which of them is the worst.

    sides: the program, the framework in FP32, and in FP64.
    """
    if after.failing == before.failing and not after.ok:
        return f"{name} in FP32 is right about what fails, compared with {name} in FP64"
    distance = np.where(places, _distance(*sides[:2]), -1.0)
    worst = np.unravel_index(int(np.argmax(distance)), distance.shape)
    ours, theirs, wanted = (array[worst] for array in sides)
    count = counted(before.failing - after.failing, "element")
    return (
        f"ill-conditioned, and accepted: {count}, for which {name} in FP32 differs from {name} in FP64 "
        f"and the program at most {TIMES:g} times as much; the worst is at "
        f"{[int(index) for index in worst]}: program {ours}, {name} in FP32 {theirs}, in FP64 {wanted}"
    )
