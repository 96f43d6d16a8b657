"""Branches, loops, sequences and optional values."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import control_flow, movement
from tosa_convert.frontends.lowering.control_flow import Columns, with_row
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.indexing import index32
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant, whole_data
from tosa_convert.frontends.lowering.types import INT64
from tosa_convert.frontends.onnx.node import (
    Item,
    Items,
    Maybe,
    Names,
    Node,
    Rule,
    Stop,
    outer_names,
    place,
)
from tosa_convert.frontends.onnx.rules.movement import empty, part_of

#: Iterations of which each is lowered on its own; a loop of more is WHILE_LOOP, if it can be.
_ITERATIONS: Final = 256
#: The most nodes of unrolled iterations together.
_NODES: Final = 4096


# -- branches ------------------------------------------------------------------------------------


def _if(n: Node) -> list[Item]:
    condition = n.array(0)
    if condition.data is not None:
        taken = bool(condition.data.reshape(-1)[0])
        return n.run(n.get("then_branch" if taken else "else_branch"), [])
    graphs = n.get("else_branch"), n.get("then_branch")
    captured = _captured(n, graphs)
    branches = [_branch(n, graph, list(captured)) for graph in graphs]
    number = movement.reshape(n.scope, condition, ())
    return list(control_flow.cond(n.scope, number, branches, list(captured.values())))


def _captured(n: Node, graphs: Sequence[Any]) -> dict[str, Array]:
    """Return what graphs take of those around them."""
    names = sorted({name for graph in graphs for name in outer_names(graph)})
    found = {}
    for name in names:
        item = n.names.get(name)
        if item is None:
            raise Stop
        if isinstance(item, Array):
            found[name] = item
    return found


def _branch(n: Node, graph: Any, captured: Sequence[str]) -> control_flow.Branch:
    def branch(scope: Scope, operands: Sequence[Array]) -> list[Array]:
        held: dict[str, Item] = dict(zip(captured, operands, strict=True))
        inner: Names = ChainMap(held, n.names)
        return _arrays(n.run(graph, [], scope, inner))

    return branch


def _arrays(items: Sequence[Item]) -> list[Array]:
    found = [item for item in items if isinstance(item, Array)]
    if len(found) != len(items):
        raise NotLowered("a graph whose course is computed returns a sequence or an optional value")
    return found


# -- loops ---------------------------------------------------------------------------------------


_COMPUTED_SIZE: Final = "how often it runs is computed, and so is the size of its results"


def _loop(n: Node) -> list[Item]:
    graph = n.get("body")
    trips = n.optional(0)
    condition = n.optional(1)
    is_true = condition is None or condition.data is not None
    if condition is not None and condition.data is not None and not condition.data.reshape(-1)[0]:
        trips = constant(np.array(0, np.int64))
    if trips is None or trips.data is None or not is_true:
        return list(_while(n, trips, condition))
    count = int(trips.data.reshape(-1)[0])
    if count > _ITERATIONS or count * len(graph.node) > _NODES:
        return list(_while(n, trips, condition))
    carried = [item for item in n.given[2:] if item is not None]
    rows: list[list[Array]] = [[] for _ in graph.output[1 + len(carried) :]]
    for index in range(count):
        given = [constant(np.array(index, np.int64)), constant(np.array(True)), *carried]
        going, *made = n.run(graph, given)
        goes_on = going.data if isinstance(going, Array) else None
        if goes_on is None and index + 1 < count:
            return list(_while(n, trips, condition))
        carried = made[: len(carried)]
        for row, item in zip(rows, _arrays(made[len(carried) :]), strict=True):
            row.append(item)
        if goes_on is not None and not goes_on.all():
            break
    return [*carried, *(_stacked(n.scope, row) for row in rows)]


def _stacked(s: Scope, row: Sequence[Array], axis: int = 0) -> Array:
    if not row:
        raise NotLowered("it has no iteration, so that the sizes of its results are not known")
    if row[0].size == 0:
        shape = [*row[0].shape[:axis], len(row), *row[0].shape[axis:]]
        return empty(row[0].dtype, shape)
    return movement.stack(s, row, axis)


def _while(n: Node, trips: Array | None, condition: Array | None) -> list[Array]:
    """Make a WHILE_LOOP, whose state is the index, the condition, and the values that are carried."""
    s, graph = n.scope, n.get("body")
    carried = [n.array(index) for index in range(2, len(n.given))]
    names = _captured(n, [graph])
    scanned = len(graph.output) - 1 - len(carried)
    known = trips is not None and trips.data is not None
    if scanned and not (known and (condition is None or condition.data is not None)):
        raise NotLowered(_COMPUTED_SIZE)
    limit = None if trips is None else index32(s, movement.reshape(s, trips, ()))
    first = constant(np.zeros((1,), np.int32))
    going = constant(np.ones((1,), np.bool_))
    if condition is not None:
        going = movement.reshape(s, condition, (1,))
    most = int(whole_data(trips).reshape(-1)[0]) if known and trips is not None else 2**31 - 1
    tables = _tables(n, len(carried) + 1, most) if scanned else []
    captured = list(names.values()) if limit is None else [*names.values(), limit]

    def test(scope: Scope, inner: Sequence[Array], given: Sequence[Array]) -> list[Array]:
        made = movement.reshape(scope, inner[1], ())
        if limit is None:
            return [made]
        index = movement.reshape(scope, inner[0], ())
        return [scope.both(made, scope.greater(given[-1], index))]

    def body(scope: Scope, inner: Sequence[Array], given: Sequence[Array]) -> list[Array]:
        held: dict[str, Item] = dict(zip(names, given, strict=False))
        outer: Names = ChainMap(held, n.names)
        index = converted(scope, movement.reshape(scope, inner[0], ()), INT64)
        # Results have a row for each iteration, so that no condition may end it before.
        goes_on = constant(np.array(True)) if scanned else movement.reshape(scope, inner[1], ())
        arguments = [index, goes_on, *inner[2 : 2 + len(carried)]]
        made = _arrays(n.run(graph, arguments, scope, outer))
        if scanned and not (made[0].data is not None and made[0].data.all()):
            raise NotLowered(_COMPUTED_SIZE)
        rows = [
            with_row(scope, table, inner[0], row)
            for table, row in zip(inner[2 + len(carried) :], made[1 + len(carried) :], strict=True)
        ]
        following = scope.add(inner[0], 1)
        return [
            following,
            movement.reshape(scope, made[0], (1,)),
            *made[1 : 1 + len(carried)],
            *rows,
        ]

    state = [first, going, *carried, *tables]
    found = control_flow.while_loop(s, state, captured, test, body, {0: (0, most - 1)})
    return list(found[2:])


def _tables(n: Node, first: int, count: int) -> list[Array]:
    """Return arrays of zeros for what each iteration gives, from a first result of its graph on."""
    types = []
    for info in n.get("body").output[first:]:
        tensor = info.type.tensor_type
        sizes = [dim.dim_value for dim in tensor.shape.dim]
        if not tensor.HasField("shape") or not all(sizes):
            raise NotLowered(f"the sizes of {info.name} are not fixed")
        types.append((n.walk.dtype(tensor.elem_type), (count, *sizes)))
    return control_flow.tables_of(types)


def _scan(n: Node) -> list[Item]:
    s, graph, count = n.scope, n.get("body"), int(n.get("num_scan_inputs"))
    if n.since < 9:
        raise NotLowered("the first version of Scan has a batch")
    items = n.arrays
    carried, columns = list(items[: len(items) - count]), items[len(items) - count :]
    axes = [
        place(axis, a.rank)
        for axis, a in zip(n.get("scan_input_axes") or [0] * count, columns, strict=True)
    ]
    backwards = n.get("scan_input_directions") or [0] * count
    length = columns[0].shape[axes[0]]
    results = len(graph.output) - len(carried)
    out_axes = n.get("scan_output_axes") or [0] * results
    out_backwards = n.get("scan_output_directions") or [0] * results
    if length * len(graph.node) > _NODES:
        moved = [movement.moved(s, a, axis, 0) for a, axis in zip(columns, axes, strict=True)]
        tables = _tables(n, len(carried), length)
        ways = Columns(moved, backwards), Columns(tables, out_backwards)
        return list(_scan_loop(n, length, carried, *ways, out_axes))
    rows: list[list[Array]] = [[] for _ in range(results)]
    for step in range(length):
        given = [
            movement.row(s, a, length - 1 - step if back else step, axis)
            for a, axis, back in zip(columns, axes, backwards, strict=True)
        ]
        made = _arrays(n.run(graph, [*carried, *given]))
        carried = made[: len(carried)]
        for row, item in zip(rows, made[len(carried) :], strict=True):
            row.append(item)
    scanned = []
    for row, axis, back in zip(rows, out_axes, out_backwards, strict=True):
        where = place(int(axis), (row[0].rank if row else 0) + 1)
        scanned.append(_stacked(s, row[::-1] if back else row, where))
    return [*carried, *scanned]


def _scan_loop(
    n: Node,
    length: int,
    carried: Sequence[Array],
    taken: Columns,
    made: Columns,
    out_axes: Sequence[int],
) -> list[Array]:
    graph = n.get("body")
    names = _captured(n, [graph])

    def turn(
        scope: Scope, state: Sequence[Array], rows: Sequence[Array], given: Sequence[Array]
    ) -> list[Array]:
        held: dict[str, Item] = dict(zip(names, given, strict=True))
        return _arrays(n.run(graph, [*state, *rows], scope, ChainMap(held, n.names)))

    captured = list(names.values())
    found = control_flow.scan(n.scope, length, carried, taken, made, captured, turn)
    scanned = [
        movement.moved(n.scope, table, 0, place(int(axis), table.rank))
        for table, axis in zip(found[len(carried) :], out_axes, strict=True)
    ]
    return [*found[: len(carried)], *scanned]


# -- sequences -----------------------------------------------------------------------------------


def _items(n: Node, index: int = 0) -> tuple[Item, ...]:
    item = n.given[index]
    if isinstance(item, Maybe) and isinstance(item.held, Items):
        item = item.held
    if not isinstance(item, Items):
        raise NotLowered("it takes a sequence whose length is not known")
    return item.held


def _sequence_insert(n: Node) -> Items:
    held = list(_items(n))
    at = n.number(2) if n.has(2) else len(held)
    held.insert(at + len(held) if at < 0 else at, n.array(1))
    return Items(tuple(held))


def _sequence_erase(n: Node) -> Items:
    held = list(_items(n))
    del held[n.number(1) if n.has(1) else -1]
    return Items(tuple(held))


def _split_to_sequence(n: Node) -> Items:
    s, a = n.scope, n.array(0)
    axis = n.axis(a.rank)
    size = a.shape[axis]
    keeps = bool(n.get("keepdims", 1))
    if n.has(1):
        given, keeps = n.known(1), True
        each = int(given) if given.ndim == 0 else 0
        sizes = (
            [min(each, size - start) for start in range(0, size, each)]
            if each
            else [int(length) for length in given]
        )
    else:
        sizes = [1] * size
    made: list[Item] = []
    start = 0
    for length in sizes:
        low, high = [0] * a.rank, list(a.shape)
        low[axis], high[axis] = start, start + length
        start += length
        part = part_of(s, a, low, high)
        if not keeps:
            part = movement.reshape(s, part, (*a.shape[:axis], *a.shape[axis + 1 :]))
        made.append(part)
    return Items(tuple(made))


def _concat_from_sequence(n: Node) -> Array:
    arrays = _arrays(_items(n))
    axis = int(n.get("axis"))
    if n.get("new_axis", 0):
        return movement.stack(n.scope, arrays, place(axis, arrays[0].rank + 1))
    return movement.concatenate(n.scope, arrays, place(axis, arrays[0].rank))


def _sequence_map(n: Node) -> list[Items]:
    graph, items = n.get("body"), _items(n)
    rows: list[list[Item]] = [[] for _ in graph.output]
    for index, item in enumerate(items):
        others = [
            other.held[index] if isinstance(other, Items) else other
            for other in n.given[1:]
            if other is not None
        ]
        for row, made in zip(rows, n.run(graph, [item, *others]), strict=True):
            row.append(made)
    return [Items(tuple(row)) for row in rows]


# -- optional values -----------------------------------------------------------------------------


def _has_element(n: Node) -> Array:
    item = n.given[0] if n.given else None
    has = item is not None and (not isinstance(item, Maybe) or item.held is not None)
    return constant(np.array(has))


def _get_element(n: Node) -> Item:
    item = n.given[0]
    held = item.held if isinstance(item, Maybe) else item
    if held is None:
        raise NotLowered("the optional value is empty")
    return held


RULES: Final[dict[str, Rule]] = {
    "ConcatFromSequence": _concat_from_sequence,
    "If": _if,
    "Loop": _loop,
    "Optional": lambda n: Maybe(n.given[0] if n.given else None),
    "OptionalGetElement": _get_element,
    "OptionalHasElement": _has_element,
    "Scan": _scan,
    "SequenceAt": lambda n: _items(n)[n.number(1)],
    "SequenceConstruct": lambda n: Items(tuple(n.arrays)),
    "SequenceEmpty": lambda n: Items(()),
    "SequenceErase": _sequence_erase,
    "SequenceInsert": _sequence_insert,
    "SequenceLength": lambda n: constant(np.array(len(_items(n)), np.int64)),
    "SequenceMap": _sequence_map,
    "SplitToSequence": _split_to_sequence,
}
OWN: Final = frozenset(RULES)
