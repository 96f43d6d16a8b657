"""The error for operators that a converter left in the framework's dialect."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

from tosa_convert.errors import Finding
from tosa_convert.frontends.advice import advice
from tosa_convert.frontends.process.interface import NotLowered
from tosa_convert.frontends.source_places import line_of, name_of, place_text

#: Operations that only accompany others: constants of operators that stayed, and ends of regions.
_COMPANIONS: Final = frozenset(
    {"tfl.pseudo_qconst", "tfl.pseudo_const", "tfl.no_value", "tfl.yield"}
)

_NO_LOWERING: Final = " has no lowering to TOSA"


class Operation(Protocol):
    """An operation that stayed: its name with the dialect, and its location."""

    @property
    def name(self) -> str: ...

    @property
    def where(self) -> str: ...


def leftover_rows(
    operations: Sequence[Operation],
    places: Mapping[str, int],
    source_places: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[NotLowered]:
    """Iterate over rows, one for each operator that stayed.

    places: name of a tensor -> the number of the operator that makes it.
    source_places: name of a tensor -> a location in the source, for a model that was made from it.
    """
    for operation in operations:
        if operation.name in _COMPANIONS:
            continue
        name = operation.name.partition(".")[2]
        tensor = name_of(operation.where)
        index = places.get(tensor)
        yield NotLowered(
            operator=name.upper() if operation.name.startswith("tfl.") else operation.name,
            where=line_of(source_places.get(tensor, ""))
            or (operation.where if index is None else place_text(index, tensor)),
            hint=advice("tflite", name),
            index=index,
        )


def findings(rows: Sequence[NotLowered], source: str) -> Iterator[Finding]:
    """Iterate over findings "not-lowered": one for each row, with the count of equal operators."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.operator] = counts.get(row.operator, 0) + row.count
    for row in rows:
        count = counts[row.operator]
        times = f", {count} times" if count > 1 else ""
        reason = f": {row.reason}" if row.reason else ""
        where = f"{source}: {row.where}" if row.where else source
        message = f"{row.operator}{_NO_LOWERING}{times}{reason}"
        hint = row.hint or (advice("tflite", row.operator) if row.index is not None else "")
        yield Finding("not-lowered", where, message, hint)


def operator_and_count(finding: Finding) -> tuple[str, int] | None:
    """Return the operator of a finding of `findings`, and its count; None for another.

    Example:
        >>> row = NotLowered(operator="CUMSUM", count=3)
        >>> [operator_and_count(finding) for finding in findings([row], "m.tflite")]
        [('CUMSUM', 3)]
    """
    if finding.code != "not-lowered":
        return None
    name, separator, rest = finding.message.partition(_NO_LOWERING)
    if not separator:
        return None
    times = re.match(r", (\d+) times", rest)
    return name, int(times[1]) if times else 1
