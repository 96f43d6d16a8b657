"""TreeEnsemble: all comparisons, and matrices from these to leaves and from leaves to results."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering import layout
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.indexing import rows_of_batches
from tosa_convert.frontends.lowering.products import product
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant, whole_data
from tosa_convert.frontends.onnx.node import Node, Rule

#: Modes of nodes by their number in ONNX: the comparison of a feature and a threshold.
_LESS_OR_EQUAL, _LESS, _GREATER_OR_EQUAL, _GREATER, _EQUAL, _DIFFERENT, _MEMBER = range(7)
_SUM: Final = 1
#: Most elements of a matrix.
_MATRIX: Final = 1 << 22


def _tree_ensemble(n: Node) -> Array:
    """Compute all comparisons, find the leaf of each tree, and add up the leaves' weights."""
    if int(n.get("aggregate_function", _SUM)) != _SUM:
        raise NotLowered("it does not add up its trees", "use the aggregate function SUM")
    if n.get("post_transform", 0):
        raise NotLowered("it transforms its sums", "transform them in operators of their own")
    features = n.get("nodes_featureids")
    paths, leaves = _paths(n)
    if len(features) * len(leaves) > _MATRIX:
        raise NotLowered("it has too many nodes", "split the ensemble and add the results")
    s, x = n.scope, n.array(0)
    decisions = _decisions(n, np.array(features))
    # A leaf is reached if every comparison on its way has the result that leads to it.
    ways = np.zeros((len(features), len(leaves)))
    for index, path in enumerate(paths):
        for node, result in path:
            ways[node, index] = 1 if result else -1
    agreed = _multiplied(s, converted(s, decisions, x.dtype), ways)
    needed = (ways > 0).sum(axis=0).astype(x.dtype).reshape(1, 1, -1)
    reached = converted(s, s.equal(agreed, constant(needed)), x.dtype)
    targets = np.array(n.get("leaf_targetids"))[leaves]
    weights = np.zeros((len(leaves), int(n.get("n_targets"))))
    weights[np.arange(len(leaves)), targets] = _tensor(n, "leaf_weights")[leaves]
    made = _multiplied(s, reached, weights)
    return layout.reshape(s, made, made.shape[1:])


def _multiplied(s: Scope, a: Array, matrix: Any) -> Array:
    return product(s, a, constant(matrix.astype(a.dtype)[None]), a.dtype)


def _tensor(n: Node, name: str) -> Any:
    return whole_data(n.walk.constant(n.get(name))).reshape(-1)


def _decisions(n: Node, features: Any) -> Array:
    """Compare the feature of every node, [1, rows, nodes]."""
    s, x = n.scope, n.array(0)
    modes, splits = _tensor(n, "nodes_modes"), _tensor(n, "nodes_splits").astype(x.dtype)
    rows = x.shape[0]
    places = layout.broadcast_to(
        s, constant(features.astype(np.int32)[None]), (rows, features.size)
    )
    values = rows_of_batches(s, layout.reshape(s, x, (*x.shape, 1)), places)
    values = layout.reshape(s, values, (1, rows, features.size))
    held: Array | None = None
    for mode in sorted(set(modes.tolist())):
        of_mode = (modes == mode).reshape(1, 1, -1)
        if mode == _MEMBER:
            same = _is_member(n, values, np.flatnonzero(of_mode), len(modes))
        else:
            same = _compared(s, mode, values, constant(splits.reshape(1, 1, -1)))
        if not of_mode.all():
            same = s.both(same, constant(of_mode))
        held = same if held is None else s.either(held, same)
    assert held is not None
    return held


def _compared(s: Scope, mode: int, a: Array, b: Array) -> Array:
    made: dict[int, Any] = {
        _LESS_OR_EQUAL: lambda: s.greater_equal(b, a),
        _LESS: lambda: s.greater(b, a),
        _GREATER_OR_EQUAL: lambda: s.greater_equal(a, b),
        _GREATER: lambda: s.greater(a, b),
        _EQUAL: lambda: s.equal(a, b),
        _DIFFERENT: lambda: s.negation(s.equal(a, b)),
    }
    if mode not in made:
        raise NotLowered(f"ONNX does not define the mode {mode} of nodes")
    found: Array = made[mode]()
    return found


def _is_member(n: Node, values: Array, nodes: Any, count: int) -> Array:
    """Return whether values are in the sets of nodes, which follow one another, each before a NaN."""
    s, every = n.scope, _tensor(n, "membership_values")
    sets = np.split(every, np.flatnonzero(np.isnan(every))[:-1] + 1)
    tables = dict(zip(nodes.tolist(), sets, strict=False))
    # A value that is not a number equals nothing.
    padded = np.full((max(map(len, tables.values())), count), np.nan)
    for node, table in tables.items():
        padded[: len(table), node] = table
    made: Array | None = None
    for row in padded:
        equal = s.equal(values, constant(row.astype(values.dtype).reshape(1, 1, -1)))
        made = equal if made is None else s.either(made, equal)
    assert made is not None
    return made


def _paths(n: Node) -> tuple[list[list[tuple[int, bool]]], list[int]]:
    """Return the comparisons and their results on the way to each leaf of each tree, and the leaf."""
    branches = [
        (result, n.get(f"nodes_{name}nodeids"), n.get(f"nodes_{name}leafs"))
        for result, name in ((True, "true"), (False, "false"))
    ]
    paths, leaves, seen = [], [], set()
    pending: list[tuple[int, list[tuple[int, bool]]]] = [(r, []) for r in n.get("tree_roots")]
    while pending:
        node, path = pending.pop()
        if node in seen:
            raise NotLowered("its nodes are not trees")
        seen.add(node)
        for result, successors, is_leaf in branches:
            way = [*path, (node, result)]
            if is_leaf[node]:
                paths.append(way)
                leaves.append(successors[node])
            else:
                pending.append((successors[node], way))
    return paths, leaves


RULES: Final[dict[str, Rule]] = {"TreeEnsemble": _tree_ensemble}
