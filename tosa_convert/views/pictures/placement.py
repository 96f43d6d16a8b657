"""The coordinates of a diagram, for pictures that do not change.

`viewer/placement.js` does the same in the browser, where groups open and close; a test compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tosa_convert.records import NamedTuple, dataclass, field
from tosa_convert.views.pictures.box_text import box_size, group_size
from tosa_convert.views.pictures.layers import FROM_OUTSIDE, TO_OUTSIDE, links

if TYPE_CHECKING:
    from tosa_convert.views.pictures.diagram import Diagram, Item
    from tosa_convert.views.pictures.layers import Place, Rows

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
    """Return the middle of each place.

    Each row in turn, down, up and down again, moves as near as it can to the places that its places
    are connected with. Those that `layers` aligned have the say.
    """
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
    """Put the places of a row as near as possible to where they want to be, without overlaps.

    The weighted squares of the distances are least: places that would overlap become a block, whose
    position is the mean of what they want (pool adjacent violators).
    """
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
