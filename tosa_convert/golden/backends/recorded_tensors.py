"""Read the tensors of a source, a model, program or backend that has run, and pair those of two.

Tensors of two sources are the same by name, then by place (where the user wrote what computes them) and
shape, in order.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from tosa_convert.golden.accuracy.comparison import BLOCK, ErrorStatistics, StatisticsBuilder
from tosa_convert.golden.arrays import Array, slots
from tosa_convert.graph.derived import computed_tensors
from tosa_convert.graph.model import Graph, name_in_location, operator_path
from tosa_convert.io.files import read_json

#: Where a tensor comes from: a name, or files and lines, the innermost first; "" if it is not known.
Place = str | tuple[tuple[str, int], ...]

_FRAME: Final = re.compile(r'"([^"]*)":(\d+)')
_FILE: Final = re.compile(r"[^/\\]*$")


class Recorded(NamedTuple):
    """Hold a tensor of a source.

    shape: as `read` gives it. scale: the scale and the zero point of its integers, if they are known.
        operator, location: what computes it, for reports. operands: the names of what it is computed
        from.
    """

    name: str
    read: Callable[[], Array]
    shape: tuple[int, ...]
    dtype: str
    place: Place = ""
    scale: tuple[float, float] | None = None
    operator: str = ""
    location: str = ""
    operands: tuple[str, ...] = ()

    @property
    def is_float(self) -> bool:
        return "float" in self.dtype

    @property
    def has_numbers(self) -> bool:
        """Return whether it is known which numbers the elements stand for."""
        return self.is_float or self.scale is not None

    def numbers(self) -> Array:
        """Return the numbers of the tensor in FP64: those that its integers stand for."""
        wide = self.read().astype(np.float64)
        return wide if self.scale is None else (wide - self.scale[1]) * self.scale[0]


def recorded(name: str, array: Callable[[], Array], **more: Any) -> Recorded:
    """Return a tensor whose shape and type are those of its array."""
    found = array()
    return Recorded(name, array, found.shape, str(found.dtype), **more)


@dataclass(frozen=True, slots=True)
class Source:
    """Hold what ran once: its tensors in the order in which they were computed.

    name: the user's. graph: the program, if it is one.
    """

    name: str
    tensors: tuple[Recorded, ...]
    graph: Graph | None = None


def steps_of_model(folder: Path, steps: Sequence[Callable[[], Array]]) -> list[Recorded]:
    """Return the results of a model's operators that `worker.py` wrote into a folder."""
    if not steps:
        return []
    rows = read_json(folder / "steps.json", "the steps of a model")
    return [
        recorded(
            name,
            step,
            place=place if isinstance(place, str) else frames(place),
            scale=scale and tuple(scale),
            operands=tuple(operands),
        )
        for (name, place, scale, operands, *_), step in zip(rows, steps, strict=True)
    ]


def with_results(steps: Sequence[Recorded], results: Sequence[Recorded]) -> tuple[Recorded, ...]:
    """Return the tensors of a model and its results, which follow from what nothing else takes."""
    named, used = {row.name: row for row in steps}, {key for row in steps for key in row.operands}
    last = tuple(key for key in named if key not in used)
    made = [row._replace(operands=named.get(row.name, row).operands or last) for row in results]
    return (*(row for row in steps if row.name not in {one.name for one in made}), *made)


def tensors_of(graph: Graph, read: Callable[[str], Array]) -> list[Recorded]:
    """Return the tensors that a program computes, in order. read: returns one's array."""
    found = []
    for index, name in computed_tensors(graph):
        operator = graph.main.operators[index]
        for slot in slots(graph.main, name):
            found.append(
                Recorded(
                    slot.key,
                    partial(read, slot.key),
                    slot.shape,
                    str(np.dtype(slot.dtype.numpy)),
                    place_of(operator.location),
                    operator=operator_path("", index, operator).strip(),
                    location=operator.location,
                    operands=tuple(operator.inputs),
                )
            )
    return found


def place_of(location: str) -> Place:
    """Return the place in a location of MLIR."""
    if name := name_in_location(location):
        return name
    return frames((path, int(line)) for path, line in _FRAME.findall(location))


def frames(rows: Iterable[tuple[str, int]]) -> Place:
    """Return files and lines as a place, without folders."""
    found = tuple((_FILE.findall(path)[0], int(line)) for path, line in rows)
    return tuple(row for row in found if row[0][:1] != "<")


def same_tensors(left: Sequence[Recorded], right: Sequence[Recorded]) -> dict[int, int]:
    """Return which tensor of `right` each one of `left` is, by their positions."""
    by_name = {row.name: k for k, row in enumerate(right)}
    pairs = ((k, by_name.get(row.name)) for k, row in enumerate(left))
    found = {
        k: other
        for k, other in pairs
        if other is not None and fits(left[k], right[other]) and _have_names(left[k], right[other])
    }
    ours, theirs = _last_of_places(left, found), _last_of_places(right, set(found.values()))
    keys, others = [key for _, key in ours], [key for _, key in theirs]
    for block in SequenceMatcher(None, keys, others, autojunk=False).get_matching_blocks():
        for k in range(block.size):
            one, other = ours[block.a + k][0], theirs[block.b + k][0]
            if fits(left[one], right[other]):
                found[one] = other
    return dict(sorted(found.items()))


#: The error of two tensors that may be different ones, as a share of the values; and that of all next
#: ones is then less than this share of its square.
_OTHER: Final = 0.02
_RECOVERED: Final = 0.1


def recovered(tensors: Sequence[Recorded], sizes: Mapping[str, float]) -> set[str]:
    """Return the tensors of a source that differ much while all that follows from them agrees.

    They are not the same tensors: lines of code run several times, and converters join operators. sizes:
        of the errors, as a share of the values.
    """
    found: set[str] = set()
    following: dict[str, set[str]] = {}
    for row in reversed(tensors):
        own, after = sizes.get(row.name, 0.0), following.get(row.name, set())
        limit = _RECOVERED * own**2
        if _OTHER < own < math.inf and after and all(sizes[k] < limit for k in after):
            found.add(row.name)
        elif row.name in sizes:
            after = {row.name}
        for name in row.operands:
            following.setdefault(name, set()).update(after)
    return found


def _last_of_places(
    rows: Sequence[Recorded], taken: Iterable[int]
) -> list[tuple[int, tuple[Place, tuple[int, ...], str]]]:
    """Return the last tensor of each shape that neighbours of one place compute, with its key."""
    left, result = set(taken), []
    keyed = (
        (k, (row.place, tuple(sorted(size for size in row.shape if size != 1)), row.dtype[:3]))
        for k, row in enumerate(rows)
        if row.place and k not in left
    )
    for _, group in itertools.groupby(keyed, key=lambda row: row[1][0]):
        last = {key: k for k, key in group}
        result += [(k, key) for key, k in last.items()]
    return sorted(result)


def fits(one: Recorded, other: Recorded) -> bool:
    """Return whether two tensors may be the same: in some layout, of one place and kind of operator."""
    kinds = {row.operator.rpartition(" ")[2] for row in (one, other)} - {""}
    places = {row.place for row in (one, other)} - {"", ()}
    return bool(_orders(one.shape, other.shape)) and len(kinds) < 2 and len(places) < 2


def _have_names(one: Recorded, other: Recorded) -> bool:
    """Return whether equal names mean one tensor: frameworks and converters number what has no name."""
    is_line = isinstance(one.place, tuple) and isinstance(other.place, tuple)
    return not is_line or bool(one.operator) == bool(other.operator)


def _orders(shape: tuple[int, ...], other: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the orders of dimensions in which a shape is another one: channels last or first."""
    rank = len(shape)
    is_same = [size for size in shape if size != 1] == [size for size in other if size != 1]
    found = [tuple(range(rank))] if is_same else []
    if rank > 2 and len(other) == rank:
        turned = ((0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1)))
        found += [own for own in turned if tuple(shape[k] for k in own) == other]
    return list(dict.fromkeys(found))


def in_layout(array: Array, like: Array) -> Array:
    """Return an array in another one's order of dimensions: the nearest, if several have its shape."""
    fitting = [array.transpose(own).reshape(like.shape) for own in _orders(array.shape, like.shape)]
    return fitting[0] if len(fitting) == 1 else min(fitting, key=lambda row: _distance(row, like))


def _distance(one: Array, other: Array) -> float:
    with np.errstate(all="ignore"):
        return float(np.nansum(np.abs(one.astype(np.float64) - other.astype(np.float64))))


def errors(expected: Array, found: Array) -> ErrorStatistics:
    """Return the statistics of the differences of two arrays of FP64."""
    totals, flat = StatisticsBuilder(), (expected.reshape(-1), found.reshape(-1))
    for start in range(0, expected.size, BLOCK):
        totals.add(*(row[start : start + BLOCK] for row in flat))
    return totals.result()


def relative_error(found: Array, expected: Array) -> float:
    """Return the root of the mean square of an error, as a share of that of the values.

    Where zeros are expected, it is a share of what was found. NaN and infinities that are not expected
    are an infinite error; others are not compared: integers hold no infinity.
    """
    if (np.isfinite(expected) & ~np.isfinite(found)).any():
        return math.inf
    size = root_mean_square(expected) or root_mean_square(found)
    return root_mean_square(found - expected) / (size or 1.0)


def root_mean_square(array: Array) -> float:
    """Return the root of the mean square of the finite numbers."""
    finite = array[np.isfinite(array)]
    return math.sqrt(float(np.mean(np.square(finite)))) if finite.size else 0.0
