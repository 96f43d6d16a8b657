"""The rows of a group: which items are side by side, in which order, and the way of each line.

The library fast-sugiyama does the layered layout (docs/decisions/0028-layout-by-fast-sugiyama.md). It is
called once for each group, with items of equal size, when the picture is written. `placement` and the
viewer make room for the real sizes, so that opening a group needs no new layout.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.errors import fail
from tosa_convert.installation import install_command
from tosa_convert.records import dataclass, field
from tosa_convert.views.pictures.diagram import ENTRY, EXIT

if TYPE_CHECKING:
    from tosa_convert.views.pictures.diagram import Diagram, End, Item

#: Up to so many edges the layout has the better and slower heuristics.
_SMALL: Final = 3000
#: Bends for each item, and at least so many: lines that would need more are not routed. A graph in
#: which every item is used at the end would otherwise need a bend for each pair of rows and items.
_BENDS_PER_ITEM, _BENDS = 4, 4000
#: Up to so many items without lines are in their order, such as the regions of an operator.
_IN_ORDER: Final = 8
#: Ends of a path instead of positions.
FROM_OUTSIDE: Final = -1
TO_OUTSIDE: Final = -2


@dataclass(slots=True)
class Place:
    """An item, or a bend of a line (item is None), in a row.

    x: where the library puts it. above: the place that it should be right below, or -1; see `_align`.
    """

    item: Item | None
    row: int
    x: float
    above: int = -1


@dataclass(slots=True)
class Route:
    """A line for one or more values. path: positions in `places`, or FROM_OUTSIDE and TO_OUTSIDE.

    is_cut: the line is too long to be drawn; only its ends are marked.
    """

    values: list[int]
    path: list[int]
    is_cut: bool = False


@dataclass(slots=True)
class Rows:
    """A group's layout. places: row after row, each from left to right."""

    places: list[Place] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)


def lay_out(diagram: Diagram) -> list[Rows]:
    """Lay out each group."""
    lines: list[dict[tuple[End, End], list[int]]] = [{} for _ in diagram.groups]
    for group, start, end, value in diagram.connections():
        values = lines[group].setdefault((start, end), [])
        if not values or values[-1] != value:
            values.append(value)
    return [
        _GroupLayout(group.items, found).rows()
        for group, found in zip(diagram.groups, lines, strict=True)
    ]


class _GroupLayout:
    """The layout of one group.

    The library's vertices are 0 for what comes from outside, 1, 2, ... for the items in their order,
    and one more for what goes outside.
    """

    def __init__(self, items: Sequence[Item], lines: Mapping[tuple[End, End], list[int]]) -> None:
        self.items = items
        self.lines = lines
        self.vertices: dict[End, int] = {item: number for number, item in enumerate(items, 1)}
        self.vertices[ENTRY] = 0
        self.vertices[EXIT] = len(items) + 1
        #: The library numbers bends after the vertices that have edges.
        self.first_bend = len(items) + 1 + any(end == EXIT for _, end in lines)

    def rows(self) -> Rows:
        if not self.lines and len(self.items) <= _IN_ORDER:
            return Rows([Place(item, 0, float(number)) for number, item in enumerate(self.items)])
        # A line against the order, which only groups that use each other have, is laid out reversed.
        pairs = {
            ends: (min(pair), max(pair))
            for ends in self.lines
            if (pair := (self.vertices[ends[0]], self.vertices[ends[1]]))
        }
        drawn = self._short_enough(sorted(set(pairs.values())))
        vertices, edges = _layered(self._connected(drawn))
        result = Rows()
        positions = self._place(vertices, result)
        bends = _paths(edges, self.first_bend)
        for ends, values in self.lines.items():
            start, end = pairs[ends]
            inner = bends.get((start, end), [])
            if self.vertices[ends[0]] != start:
                inner = inner[::-1]
            path = [
                FROM_OUTSIDE if ends[0] == ENTRY else positions[self.vertices[ends[0]]],
                *(positions[bend] for bend in inner),
                TO_OUTSIDE if ends[1] == EXIT else positions[self.vertices[ends[1]]],
            ]
            result.routes.append(Route(values, path, (start, end) not in drawn))
        _align(result)
        return result

    def _place(self, vertices: Mapping[int, tuple[float, float]], result: Rows) -> dict[int, int]:
        """Add the places, row by row; returns the position of each vertex."""
        inside = [v for v in vertices if 0 < v <= len(self.items) or v >= self.first_bend]
        # The library counts y upwards.
        heights = sorted({vertices[vertex][1] for vertex in inside}, reverse=True)
        rows = {y: row for row, y in enumerate(heights)}
        inside.sort(key=lambda vertex: (rows[vertices[vertex][1]], vertices[vertex][0]))
        for vertex in inside:
            x, y = vertices[vertex]
            item = self.items[vertex - 1] if vertex <= len(self.items) else None
            result.places.append(Place(item, rows[y], round(x, 2)))
        return {vertex: position for position, vertex in enumerate(inside)}

    def _short_enough(self, pairs: list[tuple[int, int]]) -> set[tuple[int, int]]:
        """Return the shortest pairs, as long as there are not too many bends."""
        row = [0] * (len(self.items) + 2)
        for start, end in pairs:  # sorted, so that `start` has its row already
            row[end] = max(row[end], row[start] + 1)
        left = max(_BENDS, _BENDS_PER_ITEM * len(self.items))
        found = set()
        for start, end in sorted(pairs, key=lambda pair: (row[pair[1]] - row[pair[0]], pair)):
            left -= row[end] - row[start] - 1
            if left < 0:
                break
            found.add((start, end))
        return found

    def _connected(self, pairs: set[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the pairs, and one from vertex 0 to each part that is not connected with it.

        The library needs a connected graph: with many parts its time is quadratic.
        """
        parents = list(range(len(self.items) + 2))

        def root(vertex: int) -> int:
            while parents[vertex] != vertex:
                parents[vertex] = parents[parents[vertex]]
                vertex = parents[vertex]
            return vertex

        for start, end in pairs:
            one, other = sorted((root(start), root(end)))
            parents[other] = one
        roots = [v for v in range(1, len(self.items) + 1) if parents[v] == v]
        return sorted(pairs) + [(0, vertex) for vertex in roots]


def links(routes: Iterable[Route]) -> Iterator[tuple[int, int]]:
    """Iterate over the pairs of places that a line connects directly, the upper one first."""
    for route in routes:
        if not route.is_cut:
            for one, other in zip(route.path, route.path[1:], strict=False):
                if one >= 0 and other >= 0:
                    yield (one, other) if one < other else (other, one)


def _align(rows: Rows) -> None:
    """Choose which places are right below one another: those of the longest chains of items.

    A network's main path is then a straight line, and what is shorter, such as the branch around a
    residual block, gives way. The library's own positions move sideways at every branch.
    """
    pairs = sorted(set(links(rows.routes)))
    count = len(rows.places)
    own = [int(place.item is not None) for place in rows.places]
    depth, height = own.copy(), own.copy()
    for one, other in pairs:  # sorted by rows
        depth[other] = max(depth[other], depth[one] + own[other])
    for one, other in reversed(pairs):
        height[one] = max(height[one], height[other] + own[one])
    best_above, best_below = [-1] * count, [-1] * count
    for one, other in pairs:
        if best_above[other] < 0 or depth[one] > depth[best_above[other]]:
            best_above[other] = one
        if best_below[one] < 0 or height[other] > height[best_below[one]]:
            best_below[one] = other
    for other, one in enumerate(best_above):
        if one >= 0 and best_below[one] == other:
            rows.places[other].above = one


def _layered(
    edges: list[tuple[int, int]],
) -> tuple[dict[int, tuple[float, float]], list[tuple[int, int]]]:
    """Return the library's positions of vertices and bends, and its edges between both."""
    if not edges:
        return {}, []
    is_small = len(edges) <= _SMALL
    # The graph has no cycle, no edge from a vertex to itself, and no edge twice: the library ends the
    # process for some of these.
    (layout,) = _library()(
        edges,
        vertex_spacing=1,
        dummy_vertices=True,
        dummy_size=0.25,
        ranking_type="minimize" if is_small else "up",
        crossing_minimization="barycenter" if is_small else "median",
        transpose=is_small,
    )
    positions, _, _, found = layout
    return dict(positions), found or edges


def _paths(edges: Iterable[tuple[int, int]], first_bend: int) -> dict[tuple[int, int], list[int]]:
    """Return the bends of each edge, in its direction. Bends are the vertices from `first_bend` on."""
    following: dict[int, int] = {}
    starts: list[tuple[int, int]] = []
    for start, end in edges:
        if start >= first_bend:
            following[start] = end
        elif end >= first_bend:
            starts.append((start, end))
    paths = {}
    for start, bend in starts:
        bends = [bend]
        while (following_bend := following[bends[-1]]) >= first_bend:
            bends.append(following_bend)
        paths[start, following_bend] = bends
    return paths


def _library() -> Any:
    try:
        from fast_sugiyama import from_edges
    except ImportError:
        hint = install_command("report")
        if sys.version_info < (3, 11):
            hint = "use Python 3.11 or later: fast-sugiyama has no release for older ones"
        message = "fast-sugiyama, which computes the layout, is not installed"
        raise fail("missing-layout", "", message, hint) from None
    return from_edges
