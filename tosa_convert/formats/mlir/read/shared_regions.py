"""Regions that several operators run. In MLIR each operator has a copy; reading makes them one again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from tosa_convert.graph.compare import compare
from tosa_convert.graph.derived import unrun_regions
from tosa_convert.graph.model import Graph, Operator, Region, quoted
from tosa_convert.graph.versions import V1_1_DRAFT
from tosa_convert.io import log

#: The most regions that a region is compared with: a module of many different ones takes linear time.
_COMPARED: Final = 8


def warn_of_regions(graph: Graph, written: Counter[str]) -> None:
    """Log which regions a module does not hold as the graph does."""
    unrun = [quoted(region.name) for region in unrun_regions(graph)]
    copied = [f"{quoted(name)} ({count} copies)" for name, count in written.items() if count > 1]
    if unrun:
        log.warning(
            "regions that no operator runs are omitted, because MLIR cannot hold them: %s",
            ", ".join(unrun),
        )
    if copied:
        log.warning(
            "MLIR cannot share a region, so each operator that runs one of these has a copy: %s",
            ", ".join(copied),
        )


def merge_copies(regions: list[Region], noted: Mapping[str, str]) -> list[Region]:
    """Merge regions that are copies of others: operators that ran a copy run the other instead.

    A region is a copy of an earlier one for which the same name was noted, if the two are equal except
    for locations, which in text may be its own lines. A pass may have changed one of them: then both
    stay. Operators that ran a copy run an equal region, so the program is the same.
    """
    originals: dict[str, list[Region]] = {}
    merged: dict[str, str] = {}
    # The regions that a region runs are merged before it.
    for region in _innermost_first(regions):
        _rename(region, merged)
        if region.name not in noted:
            continue
        same_name = originals.setdefault(noted[region.name], [])
        equal = (original for original in same_name if _equal(original, region))
        original = next(equal, None)
        if original is not None:
            merged[region.name] = original.name
        elif len(same_name) < _COMPARED:
            same_name.append(region)
    remaining = [region for region in regions if region.name not in merged]
    taken = {region.name for region in remaining}
    names: dict[str, str] = {}
    for region in remaining:
        given = noted.get(region.name, region.name)
        if given not in taken:
            names[region.name] = given
            taken.add(given)
    for region in remaining:
        _rename(region, names)
        region.name = names.get(region.name, region.name)
    return remaining


def _innermost_first(regions: list[Region]) -> list[Region]:
    """Regions in an order in which each comes after those that its operators run."""
    heights: dict[str, int] = {}
    for region in reversed(regions):
        inside = [heights[name] for _, _, name in _runs(region)]
        heights[region.name] = 1 + max(inside, default=0)
    return sorted(regions, key=lambda region: heights[region.name])


def _runs(region: Region) -> Iterator[tuple[Operator, str, str]]:
    """Iterate over the operators that run regions, the attribute that names one, and its name."""
    for operator in region.blocks[0].operators:
        for row in operator.spec.regions:
            yield operator, row.name, str(operator.attributes[row.name])


def _rename(region: Region, names: Mapping[str, str]) -> None:
    for operator, attribute, name in _runs(region):
        operator.attributes[attribute] = names.get(name, name)


def _equal(left: Region, right: Region) -> bool:
    """Return whether two regions are equal except for their own names and for locations."""
    left, right = (Region("", region.blocks) for region in (left, right))
    graphs = Graph(V1_1_DRAFT, [left]), Graph(V1_1_DRAFT, [right])
    return compare(*graphs, names=True) is None
