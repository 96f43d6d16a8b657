"""How an operator can be computed with fewer dimensions: neighbouring ones that it treats alike merge.

A tensor in row-major order has the same elements in the same order if neighbouring dimensions are one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final

from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import AttributeValue, OperatorSpec

Shape = tuple[int, ...]
#: A run of neighbouring dimensions: the first one, and the one after the last.
Run = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """An operator with merged dimensions.

    data: positions of the operands whose dimensions merge. operands: their new shapes.
    result: the new shape of the result.
    shapes: position of an operand that is a shape -> its new values.
    attributes: those that change.
    """

    data: tuple[int, ...]
    operands: tuple[Shape, ...]
    result: Shape
    shapes: dict[int, Shape] = field(default_factory=dict)
    attributes: dict[str, AttributeValue] = field(default_factory=dict)


#: The plan for an operator, of the shapes of its operands and of its result, and of the known values
#: of operands that are shapes, by position; None if there is none.
Planner = Callable[[Operator, Sequence[Shape], Shape, dict[int, Shape]], Plan | None]


def merged(shape: Shape, runs: Sequence[Run]) -> Shape:
    """Merge each run of dimensions of a shape into one dimension.

    Example:
        >>> merged((2, 3, 4, 5), [(0, 2), (2, 3), (3, 4)])
        (6, 4, 5)
    """
    return tuple(prod(shape[start:stop]) for start, stop in runs)


def runs_of(alike: Sequence[object], is_neutral: Sequence[bool]) -> list[Run]:
    """Find the longest runs of dimensions that are alike; a neutral one belongs to any run.

    Example:
        >>> runs_of("aabb", [False] * 4)
        [(0, 2), (2, 4)]
        >>> runs_of("abaa", [False, True, False, False])
        [(0, 4)]
    """
    runs: list[Run] = []
    current: object = None
    has_kind = False
    for index, (kind, neutral) in enumerate(zip(alike, is_neutral, strict=True)):
        if runs and (neutral or not has_kind or kind == current):
            runs[-1] = runs[-1][0], index + 1
        else:
            runs.append((index, index + 1))
            has_kind = False
        if not neutral:
            current, has_kind = kind, True
    return runs


def elementwise(*data: int) -> Planner:
    """Dimensions merge where the same operands are broadcast."""

    def plan(
        op: Operator, operands: Sequence[Shape], result: Shape, shapes: dict[int, Shape]
    ) -> Plan | None:
        chosen = [operands[position] for position in data]
        if any(len(shape) != len(result) for shape in chosen):
            return None
        alike = [tuple(shape[d] == size for shape in chosen) for d, size in enumerate(result)]
        runs = runs_of(alike, [size == 1 for size in result])
        return Plan(data, tuple(merged(shape, runs) for shape in chosen), merged(result, runs))

    return plan


def along_axis(
    op: Operator, operands: Sequence[Shape], result: Shape, shapes: dict[int, Shape]
) -> Plan:
    """Merge the dimensions before the axis, and those after it."""
    axis = op.attributes["axis"]
    assert isinstance(axis, int)
    runs = _around(axis, len(operands[0]))
    new = 0 if axis == 0 else 1
    # ARGMAX removes the axis.
    kept = runs if len(result) == len(operands[0]) else [(0, axis), (axis, len(result))]
    made = merged(result, [run for run in kept if run[0] < run[1]])
    return Plan(
        tuple(range(len(operands))),
        tuple(merged(shape, runs) for shape in operands),
        made,
        attributes={"axis": new},
    )


def _around(axis: int, rank: int) -> list[Run]:
    return [run for run in ((0, axis), (axis, axis + 1), (axis + 1, rank)) if run[0] < run[1]]


def pad(
    op: Operator, operands: Sequence[Shape], result: Shape, shapes: dict[int, Shape]
) -> Plan | None:
    """Dimensions without padding merge."""
    padding = shapes.get(1)
    if padding is None:
        return None
    rows = list(zip(padding[::2], padding[1::2], strict=True))
    runs = _apart([row != (0, 0) for row in rows])
    values = tuple(value for start, _ in runs for value in rows[start])
    return Plan((0,), (merged(operands[0], runs),), merged(result, runs), {1: values})


def slice_(
    op: Operator, operands: Sequence[Shape], result: Shape, shapes: dict[int, Shape]
) -> Plan | None:
    """Dimensions that are taken whole merge."""
    start, size = shapes.get(1), shapes.get(2)
    if start is None or size is None:
        return None
    whole = operands[0]
    runs = _apart([taken != given for taken, given in zip(size, whole, strict=True)])
    starts = tuple(start[first] if last - first == 1 else 0 for first, last in runs)
    made = merged(result, runs)
    return Plan((0,), (merged(whole, runs),), made, {1: starts, 2: made})


def tile(
    op: Operator, operands: Sequence[Shape], result: Shape, shapes: dict[int, Shape]
) -> Plan | None:
    """Merge dimensions that are not repeated.

    Such a dimension merges with the one before it, and any with one of size 1.
    """
    multiples = shapes.get(1)
    if multiples is None:
        return None
    runs: list[Run] = []
    for index, count in enumerate(multiples):
        if runs and (count == 1 or prod(operands[0][slice(*runs[-1])]) == 1):
            runs[-1] = runs[-1][0], index + 1
        else:
            runs.append((index, index + 1))
    values = merged(multiples, runs)
    return Plan((0,), (merged(operands[0], runs),), merged(result, runs), {1: values})


def _apart(is_alone: Sequence[bool]) -> list[Run]:
    """Return runs of dimensions, in which each that is alone has a run of its own."""
    alike = [index if alone else -1 for index, alone in enumerate(is_alone)]
    return runs_of(alike, [False] * len(alike))


def transpose(
    op: Operator, operands: Sequence[Shape], result: Shape, shapes: dict[int, Shape]
) -> Plan | None:
    """Dimensions that stay neighbours merge; those of size 1 are left out."""
    perms = op.attributes["perms"]
    assert isinstance(perms, tuple)
    (shape,) = operands
    moved = [axis for axis in perms if shape[axis] != 1]
    order = {axis: rank for rank, axis in enumerate(sorted(moved))}
    groups: list[list[int]] = []
    for axis in moved:
        if groups and order[axis] == order[groups[-1][-1]] + 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    sizes = [prod(shape[axis] for axis in group) for group in groups]
    sources = sorted(range(len(groups)), key=lambda index: groups[index][0])
    places = {group: place for place, group in enumerate(sources)}
    return Plan(
        (0,),
        (tuple(sizes[index] for index in sources) or (1,),),
        tuple(sizes) or (1,),
        attributes={"perms": tuple(places[index] for index in range(len(groups))) or (0,)},
    )


def planner_of(spec: OperatorSpec) -> Planner | None:
    """Return what plans an operator with fewer dimensions; None if nothing does."""
    if spec.elementwise:
        return elementwise(*range(spec.elementwise))
    if any(row.name == "axis" for row in spec.attributes) and not spec.results[0].is_shape:
        return along_axis
    return _PLANNERS.get(spec.name)


_PLANNERS: Final[dict[str, Planner]] = {
    "PAD": pad,
    "SLICE": slice_,
    "TILE": tile,
    "TRANSPOSE": transpose,
}
