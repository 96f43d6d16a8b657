"""The coordinates of static pictures, as `viewer/placement.js` has them; a test compares both."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tosa_convert.errors import fail
from tosa_convert.installation import install_command
from tosa_convert.views.pictures.diagram import ENTRY, EXIT, box_size, group_size

if TYPE_CHECKING:
    from tosa_convert.views.pictures.diagram import Diagram, End, Item


# -- the rows of a group, laid out once by fast-sugiyama with items of equal size ------------------
# Room for real sizes is made later, so that opening a group needs no new layout. See decision 28.

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
        """Connect each part with vertex 0: with many parts the library's time is quadratic."""
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
    """Align the longest chains of items, so that a network's main path is a straight line."""
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


#: Pixels: between the items of a row, between rows, around the items of a group, for the title of a
#: group, for a unit of the layout, and the width of a bend.
METRICS: Final = {"gap": 18, "rowGap": 34, "padding": 18, "header": 44, "unit": 60, "bend": 6}


class Box(NamedTuple):
    """A rectangle in pixels; y grows downwards."""

    x: float
    y: float
    width: float
    height: float


@dataclass(slots=True)
class Placed:
    """Where everything is.

    boxes: of nodes and groups that are shown, outer ones first.
    lines: for each line its group, its route, and its points from start to end.
    """

    boxes: dict[Item, Box] = field(default_factory=dict)
    lines: list[tuple[int, int, list[tuple[float, float]]]] = field(default_factory=list)


@dataclass(slots=True)
class _Arranged:
    """A group's content, relative to its upper left corner. boxes: of the places of its rows."""

    width: float
    height: float
    boxes: list[Box]


def place(diagram: Diagram, rows: Sequence[Rows]) -> Placed:
    """Return the coordinates of what is shown when the picture opens."""
    result = Placed()
    # Inner groups have larger numbers than outer ones, except for ranges; so this is by depth.
    order, waiting = [], [0]
    while waiting:
        number = waiting.pop()
        order.append(number)
        waiting += [~item for item in diagram.groups[number].items if item < 0]
    arranged: dict[int, _Arranged] = {}
    for number in reversed(order):
        if diagram.groups[number].is_open:
            arranged[number] = _arrange(diagram, rows[number], arranged, number)
    whole = arranged[0]
    result.boxes[~0] = Box(0, 0, whole.width, whole.height)
    for number in order:
        if ~number in result.boxes and number in arranged:
            _add(rows[number], number, arranged[number], result)
    return result


def _add(rows: Rows, number: int, arranged: _Arranged, result: Placed) -> None:
    """Add the boxes and lines of an open group whose own box has been added."""
    outer = result.boxes[~number]
    boxes = [Box(outer.x + box.x, outer.y + box.y, box.width, box.height) for box in arranged.boxes]
    bottoms: dict[int, float] = {}
    for place_, box in zip(rows.places, boxes, strict=True):
        if place_.item is not None:
            result.boxes[place_.item] = box
        bottoms[place_.row] = max(bottoms.get(place_.row, 0), box.y + box.height)
    for index, route in enumerate(rows.routes):
        points: list[tuple[float, float]] = []
        for position in route.path:
            if position == FROM_OUTSIDE:
                x = _middle(boxes[route.path[1]]) if route.path[1] >= 0 else _middle(outer)
                points.append((x, outer.y))
            elif position == TO_OUTSIDE:
                points.append((points[-1][0], outer.y + outer.height))
            else:
                box = boxes[position]
                if points:
                    points.append((_middle(box), box.y))
                if position != route.path[-1]:
                    points.append((_middle(box), box.y + box.height))
                    points.append((_middle(box), bottoms[rows.places[position].row]))
        result.lines.append((number, index, points))


def _middle(box: Box) -> float:
    return box.x + box.width / 2


def _arrange(
    diagram: Diagram, rows: Rows, arranged: dict[int, _Arranged], number: int
) -> _Arranged:
    places = rows.places
    sizes = [_size(diagram, place, arranged) for place in places]
    centers = _centers(rows, [width for width, _ in sizes])
    heights = [0.0] * (places[-1].row + 1 if places else 0)
    for place_, (_, height) in zip(places, sizes, strict=True):
        heights[place_.row] = max(heights[place_.row], height)
    tops = [float(METRICS["header"])]
    for height in heights:
        tops.append(tops[-1] + height + METRICS["rowGap"])
    width = max((c + w / 2 for c, (w, _) in zip(centers, sizes, strict=True)), default=0.0)
    title, _ = group_size(diagram.groups[number])
    shift = METRICS["padding"] + max(0.0, (title - width - 2 * METRICS["padding"]) / 2)
    return _Arranged(
        max(title, width + 2 * METRICS["padding"]),
        tops[-1] - (METRICS["rowGap"] if heights else 0) + METRICS["padding"],
        [
            Box(shift + center - w / 2, tops[place_.row], w, h)
            for place_, center, (w, h) in zip(places, centers, sizes, strict=True)
        ],
    )


def _size(diagram: Diagram, place_: Place, arranged: dict[int, _Arranged]) -> tuple[float, float]:
    item = place_.item
    if item is None:
        return METRICS["bend"], 0
    if item < 0:
        if ~item in arranged:
            return arranged[~item].width, arranged[~item].height
        return group_size(diagram.groups[~item])
    node = diagram.nodes[item]
    return box_size([node.title, *node.lines])


def _centers(rows: Rows, widths: Sequence[float]) -> list[float]:
    """Return the middle of each place: row by row towards its neighbours, aligned chains first."""
    places = rows.places
    if not places:
        return []
    above, below = [place_.above for place_ in places], [-1] * len(places)
    for position, upper in enumerate(above):
        if upper >= 0:
            below[upper] = position
    ups: list[list[int]] = [[] for _ in places]
    downs: list[list[int]] = [[] for _ in places]
    for one, other in links(rows.routes):
        downs[one].append(other)
        ups[other].append(one)
    starts = [k for k, p in enumerate(places) if not k or places[k - 1].row != p.row]
    spans = list(zip(starts, [*starts[1:], len(places)], strict=True))
    x = [place_.x * METRICS["unit"] for place_ in places]
    for span in spans:
        _settle(x, span, widths, x[span[0] : span[1]], [1.0] * (span[1] - span[0]))
    for order, chosen, others in (
        (spans, above, ups),
        (spans[::-1], below, downs),
        (spans, above, ups),
    ):
        for start, end in order:
            wanted, weights = [], []
            for position in range(start, end):
                partner, near = chosen[position], others[position]
                if partner >= 0:
                    wanted.append(x[partner])
                    weights.append(_ALIGNED)
                else:
                    wanted.append(sum(x[k] for k in near) / len(near) if near else x[position])
                    weights.append(1.0 if places[position].item is not None else _BEND)
            _settle(x, (start, end), widths, wanted, weights)
    left = min(center - width / 2 for center, width in zip(x, widths, strict=True))
    return [center - left for center in x]


#: How much more an aligned place counts than one that is not, and a bend than an item.
_ALIGNED: Final = 1e5
_BEND: Final = 30.0


def _settle(
    x: list[float],
    span: tuple[int, int],
    widths: Sequence[float],
    wanted: Sequence[float],
    weights: Sequence[float],
) -> None:
    """Place a row without overlaps by least weighted squares (pool adjacent violators)."""
    start, end = span
    offsets = [0.0]
    for position in range(start + 1, end):
        space = (widths[position - 1] + widths[position]) / 2 + METRICS["gap"]
        offsets.append(offsets[-1] + space)
    means: list[float] = []
    totals: list[float] = []
    counts: list[int] = []
    for index in range(end - start):
        mean, total, count = wanted[index] - offsets[index], weights[index], 1
        while means and means[-1] >= mean:
            weight = totals.pop()
            mean = (mean * total + means.pop() * weight) / (total + weight)
            total += weight
            count += counts.pop()
        means.append(mean)
        totals.append(total)
        counts.append(count)
    index = 0
    for mean, count in zip(means, counts, strict=True):
        for _ in range(count):
            x[start + index] = mean + offsets[index]
            index += 1
