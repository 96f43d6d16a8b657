"""TreeEnsemble: all comparisons, and matrices from these to leaves and from leaves to results."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from onnx import numpy_helper

from tosa_convert.frontends.onnx.decompositions.node import Decomposition

#: Modes of nodes by their number in ONNX -> the comparison of a feature and a threshold, and whether
#: its negation is meant.
_COMPARISONS: Final = {
    0: ("LessOrEqual", False),
    1: ("Less", False),
    2: ("GreaterOrEqual", False),
    3: ("Greater", False),
    4: ("Equal", False),
    5: ("Equal", True),
}
_MEMBER: Final = 6
_SUM: Final = 1
#: Elements of a matrix.
_MATRIX: Final = 1 << 22


def tree_ensemble(e: Decomposition) -> None:
    """Compute all comparisons, find the leaf of each tree, and add up the leaves' weights."""
    e.leave_if(int(e.attribute("aggregate_function", _SUM)) != _SUM, "it does not add up its trees")
    e.leave_if(bool(e.attribute("post_transform", 0)), "it transforms its sums")
    features = e.attribute("nodes_featureids")
    paths, leaves = _paths(e)
    results = int(e.attribute("n_targets"))
    e.leave_if(len(features) * len(leaves) > _MATRIX, "it has too many nodes")
    decisions = _decisions(e, np.array(features))
    # A leaf is reached if every comparison on its way has the result that leads to it.
    ways = np.zeros((len(features), len(leaves)))
    for index, path in enumerate(paths):
        for node, result in path:
            ways[node, index] = 1 if result else -1
    agreed = e.op("MatMul", decisions, e.like(ways))
    needed = e.like((ways > 0).sum(axis=0, keepdims=True))
    reached = e.cast(e.op("Equal", agreed, needed), e.type(0))
    targets = np.array(e.attribute("leaf_targetids"))[leaves]
    weights = np.zeros((len(leaves), results))
    weights[np.arange(len(leaves)), targets] = _tensor(e, "leaf_weights")[leaves]
    e.result(e.op("MatMul", reached, e.like(weights)))


def _tensor(e: Decomposition, name: str) -> Any:
    return numpy_helper.to_array(e.attribute(name)).reshape(-1)


def _decisions(e: Decomposition, features: Any) -> str:
    """Compare the feature of every node: 1 where the comparison holds; rows x nodes."""
    modes, splits = _tensor(e, "nodes_modes"), _tensor(e, "nodes_splits")
    values = e.op("Gather", e.inputs[0], e.ints(*features.tolist()), axis=1)
    members = np.split(*_member_lists(e)) if e.attribute("membership_values") is not None else []
    held = ""
    for mode in sorted(set(modes.tolist())):
        of_mode = modes == mode
        if mode == _MEMBER:
            tables = dict(zip(np.flatnonzero(of_mode).tolist(), members, strict=False))
            width = max(len(table) for table in tables.values())
            # A value that is not a number equals nothing.
            sets = np.full((width, len(modes)), np.nan)
            for node, table in tables.items():
                sets[: len(table), node] = table
            same = ""
            for row in sets:
                equal = e.op("Equal", values, e.like(row))
                same = e.op("Or", same, equal) if same else equal
        else:
            kind, negated = _COMPARISONS[mode]
            same = e.op(kind, values, e.like(splits))
            same = e.op("Not", same) if negated else same
        same = e.op("And", same, e.constant(of_mode))
        held = e.op("Or", held, same) if held else same
    return e.cast(held, e.type(0))


def _member_lists(e: Decomposition) -> tuple[Any, Any]:
    """Return the values of all sets, which end with NaN, and where each set but the first begins."""
    values = _tensor(e, "membership_values")
    return values, np.flatnonzero(np.isnan(values))[:-1] + 1


def _paths(e: Decomposition) -> tuple[list[list[tuple[int, bool]]], list[int]]:
    """Return the comparisons and their results on the way to each leaf of each tree, and the leaf."""
    branches = [
        (result, e.attribute(f"nodes_{name}nodeids"), e.attribute(f"nodes_{name}leafs"))
        for result, name in ((True, "true"), (False, "false"))
    ]
    paths, leaves, seen = [], [], set()
    pending: list[tuple[int, list[tuple[int, bool]]]] = [(r, []) for r in e.attribute("tree_roots")]
    while pending:
        node, path = pending.pop()
        e.leave_if(node in seen, "its nodes are not trees")
        seen.add(node)
        for result, successors, is_leaf in branches:
            way = [*path, (node, result)]
            if is_leaf[node]:
                paths.append(way)
                leaves.append(successors[node])
            else:
                pending.append((successors[node], way))
    return paths, leaves
