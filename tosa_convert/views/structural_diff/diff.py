"""The public function of this package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tosa_convert.graph.compare import compare
from tosa_convert.graph.derived import unrun_regions
from tosa_convert.graph.model import Graph, Region, counted, require_graphs, value_text
from tosa_convert.graph.verify import refuse_unsound
from tosa_convert.views.structural_diff.alignment import Program, RegionPairs
from tosa_convert.views.structural_diff.block_changes import BlockChanges, Compared, Partners
from tosa_convert.views.structural_diff.changes import Change, Detail, Diff, Item, alone
from tosa_convert.views.structural_diff.dataflow import Keys


def diff(
    left: Graph,
    right: Graph,
    *,
    names: bool = False,
    locations: bool = False,
    order: bool = True,
    version: bool = True,
) -> Diff:
    """Return the differences of two programs, aligned by what their operators compute, not by names.

    Operators are paired by the data flow: by what they take and by what takes their results. So a
    program that was generated again, with other names, differs only where it differs. Without `names`,
    `locations` and `version`, there are differences exactly if `compare(left, right, names=False)` finds
    one. Constants are compared block by block, so that memory does not grow with them.

    Args:
        left: a program that `verify` finds sound, such as `load` returns.
        right: the program to compare it with. Neither is changed.
        names: also compare the names of regions, blocks and values. The symbols of variables are always
            compared: a run refers to them.
        locations: also compare the locations of operators.
        order: also report operators that are the same at another place of their block. Reads and writes
            of variables must keep their order in any case.
        version: also compare the TOSA versions.

    Returns:
        The differences; false if there are none.

    Raises:
        TosaConvertError: with the findings of `verify`, if a program is not sound and no difference can
            be named.

    Example:
        >>> import tosa_convert as tc
        >>> left, right = tc.load("digits_cnn.tosa"), tc.load("digits_cnn.tosa")
        >>> bool(tc.diff(left, right))
        False
        >>> right.main.operators[13].attributes["stride"] = (2, 2)
        >>> print(tc.diff(left, right))
        changed operator #13 CONV2D: attribute stride: [1, 1] -> [2, 2]
        1 operator changed
    """
    require_graphs(left, right)
    changes = list(_metadata_changes(left, right)) if version else []
    first = compare(left, right, names=False)
    if first is not None or names or locations:
        compared = Compared(names, locations, order)
        found = list(_program_changes(left, right, compared, equal=first is None))
        if first is not None and not found and order:
            refuse_unsound(left)
            refuse_unsound(right)
            raise AssertionError(f"no change was found for: {first}")
        changes += found
    return Diff(
        tuple(changes),
        tuple(_notes(left, right)),
        _title(left),
        _title(right),
        (_operator_count(left), _operator_count(right)),
    )


def _title(graph: Graph) -> str:
    producer = f", written by {graph.producer}" if graph.producer else ""
    return f"TOSA {graph.version}, {counted(_operator_count(graph), 'operator')}{producer}"


def _operator_count(graph: Graph) -> int:
    return sum(len(block.operators) for _, block in graph.blocks())


def _metadata_changes(left: Graph, right: Graph) -> Iterator[Change]:
    if left.version != right.version:
        detail = Detail("TOSA version", str(left.version), str(right.version))
        one, other = (Item("", "", -1, "", (), f"TOSA {graph.version}") for graph in (left, right))
        yield Change("changed", "program", one, other, (detail,))


def _notes(left: Graph, right: Graph) -> Iterator[Detail]:
    """Iterate over what differs besides the program. Only MLIR has targets, and MLIR has no producer."""
    if left.producer and right.producer and left.producer != right.producer:
        yield Detail("producer", str(left.producer), str(right.producer))
    if left.target != right.target:
        yield Detail("target", str(left.target or "none"), str(right.target or "none"))


def _program_changes(
    left: Graph, right: Graph, compared: Compared, *, equal: bool
) -> Iterator[Change]:
    """Iterate over the changes of all regions. equal: `compare` finds both equal but for names."""
    programs = Program(left), Program(right)
    found = RegionPairs(*programs, Keys(left, right))
    if equal:
        found.find_equal()
    elif left.regions and right.regions:
        found.find()
    changes = [*_paired_regions(found, compared), *_unpaired_regions(found)]
    if all(change.kind == "retyped" for change in changes):
        # The types of a region's inputs follow those of operands, but no operand has another type.
        changes = [
            replace(change, kind="changed") if change.subject == "input" else change
            for change in changes
        ]
    yield from changes


def _paired_regions(found: RegionPairs, compared: Compared) -> Iterator[Change]:
    regions = found.left.graph.regions, found.right.graph.regions
    names = {regions[0][one].name: regions[1][other].name for one, other in found.pairs.items()}
    # Where a region that operators run is in the file does not matter.
    places = [
        {id(region): place for place, region in enumerate(unrun_regions(program.graph))}
        for program in (found.left, found.right)
    ]
    for one, other in sorted(found.pairs.items()):
        pair = regions[0][one], regions[1][other]
        region_names = pair[0].name, pair[1].name
        items = (_region_item(pair[0]), _region_item(pair[1]))
        if compared.names and region_names[0] != region_names[1]:
            yield Change("changed", "region", *items, (Detail("name", *region_names),))
        place, other_place = places[0].get(id(pair[0])), places[1].get(id(pair[1]))
        if place != other_place and None not in (place, other_place) and compared.order:
            detail = Detail("place among those that nothing runs", str(place), str(other_place))
            yield Change("moved", "region", *items, (detail,))
        for index, partners in enumerate(found.partners[one]):
            flows = found.left.flows[one][index], found.right.flows[other][index]
            reverse = [-1] * len(flows[1])
            for node, partner in enumerate(partners):
                if partner >= 0:
                    reverse[partner] = node
            aligned = Partners(*flows, partners, reverse, names)
            blocks = flows[0].block.name, flows[1].block.name
            if compared.names and blocks[0] != blocks[1]:
                one_item = _block_item(region_names[0], blocks[0])
                other_item = _block_item(region_names[1], blocks[1])
                detail = Detail("name", *blocks)
                yield Change("changed", "block", one_item, other_item, (detail,))
            within = region_names[0], blocks[0]
            for change in BlockChanges(aligned, compared, region_names, one == other == 0).found():
                yield replace(change, within=within)
        counts = len(pair[0].blocks), len(pair[1].blocks)
        for side, region in enumerate(pair):
            for block in region.blocks[min(counts) :]:
                yield alone(side, "block", _block_item(region.name, block.name))


def _unpaired_regions(found: RegionPairs) -> Iterator[Change]:
    for side, (program, paired) in enumerate(
        ((found.left, set(found.pairs)), (found.right, set(found.pairs.values())))
    ):
        for index, region in enumerate(program.graph.regions):
            if index not in paired:
                yield alone(side, "region", _region_item(region))


def _region_item(region: Region) -> Item:
    count = sum(len(block.operators) for block in region.blocks)
    text = f"region {value_text(region.name, None)}: {counted(count, 'operator')}"
    return Item(region.name, "", -1, region.name, (), text)


def _block_item(region: str, name: str) -> Item:
    return Item(region, name, -1, name, (), f"block {value_text(name, None)}")
