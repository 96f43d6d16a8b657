"""Regions that no run of a program reaches."""

from __future__ import annotations

from tosa_convert.graph.model import Graph, Region


def unrun_regions(graph: Graph) -> list[Region]:
    """Return the regions that no operator runs, or only operators of such regions.

    They are in the graph's order.
    """
    regions = {region.name: region for region in graph.regions}
    pending = graph.regions[:1]
    reached = {region.name for region in pending}
    while pending:
        for block in pending.pop().blocks:
            for operator in block.operators:
                for row in operator.spec.regions:
                    name = str(operator.attributes.get(row.name))
                    if name in regions and name not in reached:
                        reached.add(name)
                        pending.append(regions[name])
    return [region for region in graph.regions if region.name not in reached]
