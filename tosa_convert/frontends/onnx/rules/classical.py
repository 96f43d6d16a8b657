"""ONNX's other domains: `ai.onnx.ml`, as scikit-learn's models are written, and steps of optimizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.arithmetic import divided
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.functions import power, sqrt
from tosa_convert.frontends.lowering.indexing import index32, rows_at, rows_of_batches
from tosa_convert.frontends.lowering.normalization import softmax
from tosa_convert.frontends.lowering.products import by_matrix
from tosa_convert.frontends.lowering.reductions import extreme, position, summed
from tosa_convert.frontends.lowering.scope import Array, NotLowered, Scope, constant, whole_data
from tosa_convert.frontends.lowering.types import FLOAT32, INT32
from tosa_convert.frontends.onnx.node import Node, Rule


def _real(n: Node) -> Array:
    """Return the features in FP32."""
    x = n.array(0)
    if x.dtype == np.int64 and x.data is None:
        x = n.scope.cast(x, INT32)
    return converted(n.scope, x, FLOAT32)


def _floats(x: Array, values: Sequence[float]) -> Array:
    """Return numbers along the last axis."""
    return constant(np.array(values, np.float32).reshape(*[1] * (x.rank - 1), -1))


def _scale(n: Node) -> Array:
    x = _real(n)
    moved = n.scope.sub(x, _floats(x, n.get("offset") or [0.0]))
    return n.scope.mul(moved, _floats(x, n.get("scale") or [1.0]))


def _normalise(n: Node) -> Array:
    """Divide each row by its norm; a row of zeros stays."""
    s, x, kind = n.scope, _real(n), n.get("norm", "MAX")
    shape = (*x.shape[:-1], 1)
    if kind == "L2":
        norm = sqrt(s, summed(s, s.mul(x, x), (x.rank - 1,)))
    elif kind == "L1":
        norm = summed(s, s.elementwise("abs", x), (x.rank - 1,))
    else:
        norm = extreme(s, x, (x.rank - 1,), "max")
    norm = movement.reshape(s, norm, shape)
    return divided(s, x, s.select(s.equal(norm, 0), 1, norm))


def _impute(n: Node) -> Array:
    """Replace the missing value, which may be NaN."""
    s, x, values = n.scope, n.array(0), n.get("imputed_value_floats")
    if not values or x.dtype != FLOAT32:
        raise NotLowered("its values are integers", "cast to float32")
    missing = n.get("replaced_value_float", 0.0)
    found = s.is_nan(x) if np.isnan(missing) else s.equal(x, missing)
    return s.select(found, _floats(x, values), x)


def _scores(n: Node, rows: int) -> Array:
    """Multiply the features by the coefficients of each row, and add the intercepts."""
    s, x = n.scope, _real(n)
    weights = np.array(n.get("coefficients"), np.float32).reshape(rows, -1)
    x = movement.reshape(s, x, (x.size // weights.shape[1], weights.shape[1]))
    made = by_matrix(s, x, np.ascontiguousarray(weights.T))
    intercepts = n.get("intercepts")
    return s.add(made, _floats(made, intercepts)) if intercepts else made


def _transformed(n: Node, x: Array) -> Array:
    kind = n.get("post_transform", "NONE")
    if kind == "SOFTMAX":
        return softmax(n.scope, x, 1)
    if kind == "LOGISTIC":
        return n.scope.elementwise("sigmoid", x)
    if kind != "NONE":
        raise NotLowered(f"it transforms its scores by {kind}", "use NONE, LOGISTIC or SOFTMAX")
    return x


def _regress(n: Node) -> Array:
    return _transformed(n, _scores(n, int(n.get("targets", 1))))


def _classify(n: Node) -> Sequence[Array]:
    """Return the label of the largest score, and the transformed scores.

    One row of coefficients for two labels gives the score of the second, which is against the first.
    """
    s, labels = n.scope, n.get("classlabels_ints")
    if not labels:
        raise NotLowered("its labels are texts", "make them integers")
    rows = len(n.get("coefficients")) // n.array(0).shape[-1]
    if rows != len(labels):
        raise NotLowered("it has one score for two labels", "write a score for each")
    scores = _scores(n, rows)
    best = position(s, scores, (1,), INT32, "max")
    table = constant(np.array(labels, np.int32).reshape(-1, 1))
    found = movement.reshape(s, rows_at(s, table, best), (scores.shape[0],))
    return converted(s, found, np.int64), _transformed(n, scores)


def _binarize(n: Node) -> Array:
    s, x = n.scope, n.array(0)
    above = s.greater(x, float(n.get("threshold", 0.0)))
    return converted(s, above, x.dtype)


def _extract_features(n: Node) -> Array:
    s, x, index = n.scope, n.array(0), index32(n.scope, n.array(1))
    outer, size = x.size // x.shape[-1], x.shape[-1]
    table = movement.reshape(s, x, (outer, size, 1))
    places = movement.reshape(s, index, (1, index.size))
    places = movement.broadcast_to(s, places, (outer, index.size))
    made = rows_of_batches(s, table, places)
    return movement.reshape(s, made, (*(x.shape[:-1] or (1,)), index.size))


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
    agreed = by_matrix(s, converted(s, decisions, x.dtype), ways)
    needed = (ways > 0).sum(axis=0).astype(x.dtype).reshape(1, 1, -1)
    reached = converted(s, s.equal(agreed, constant(needed)), x.dtype)
    targets = np.array(n.get("leaf_targetids"))[leaves]
    weights = np.zeros((len(leaves), int(n.get("n_targets"))))
    weights[np.arange(len(leaves)), targets] = _tensor(n, "leaf_weights")[leaves]
    made = by_matrix(s, reached, weights)
    return movement.reshape(s, made, made.shape[1:])


def _tensor(n: Node, name: str) -> Any:
    return whole_data(n.walk.constant(n.get(name))).reshape(-1)


def _decisions(n: Node, features: Any) -> Array:
    """Compare the feature of every node, [1, rows, nodes]."""
    s, x = n.scope, n.array(0)
    modes, splits = _tensor(n, "nodes_modes"), _tensor(n, "nodes_splits").astype(x.dtype)
    rows = x.shape[0]
    places = movement.broadcast_to(
        s, constant(features.astype(np.int32)[None]), (rows, features.size)
    )
    values = rows_of_batches(s, movement.reshape(s, x, (*x.shape, 1)), places)
    values = movement.reshape(s, values, (1, rows, features.size))
    decisions = []
    for mode in sorted(set(modes.tolist())):
        of_mode = (modes == mode).reshape(1, 1, -1)
        if mode == _MEMBER:
            same = _is_member(n, values, np.flatnonzero(of_mode), len(modes))
        else:
            same = _compared(s, mode, values, constant(splits.reshape(1, 1, -1)))
        decisions.append(same if of_mode.all() else s.both(same, constant(of_mode)))
    return reduce(s.either, decisions)


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
    rows = (constant(row.astype(values.dtype).reshape(1, 1, -1)) for row in padded)
    return reduce(s.either, (s.equal(values, row) for row in rows))


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


def _count_ngrams(n: Node) -> Array:
    """Compare every window of tokens with every n-gram, and add up the matches.

    Tokens of an n-gram are neighbours, or have up to `max_skip_count` others between any two.
    """
    if n.get("pool_strings"):
        raise NotLowered("its tokens are strings", "make them integers")
    s, x = n.scope, n.array(0)
    length = x.shape[-1]
    pool, outputs = np.array(n.get("pool_int64s")), np.array(n.get("ngram_indexes"))
    starts = [*n.get("ngram_counts"), len(pool)]
    least, most = int(n.get("min_gram_length")), int(n.get("max_gram_length"))
    rows = movement.reshape(s, x, (x.size // length, length, 1))
    counts: list[Array] = []
    places: list[int] = []
    seen = 0
    for size in range(1, len(starts)):
        grams = pool[starts[size - 1] : starts[size]].reshape(-1, size)
        own = outputs[seen : seen + len(grams)]
        seen += len(grams)
        # The gaps do not change an n-gram of one token: it is counted once.
        steps = range(1, 2 + int(n.get("max_skip_count")) if size > 1 else 2)
        fitting = [step for step in steps if (size - 1) * step < length]
        if len(grams) and fitting and least <= size <= most:
            counts.append(reduce(s.add, [_matches(s, rows, grams, step) for step in fitting]))
            places += own.tolist()
    if not counts:
        raise NotLowered("no n-gram of its sizes fits")
    matrix = np.zeros((len(places), int(outputs.max()) + 1), np.float32)
    matrix[np.arange(len(places)), places] = 1
    table = movement.reshape(s, movement.concatenate(s, counts, 1), (1, rows.shape[0], len(places)))
    result = _weighted(n, by_matrix(s, table, matrix), outputs)
    return movement.reshape(s, result, (*x.shape[:-1], matrix.shape[1]))


def _weighted(n: Node, counts: Array, outputs: Any) -> Array:
    s, mode, weights = n.scope, n.get("mode"), n.get("weights")
    if mode == "IDF":
        counts = s.minimum(counts, 1)
    if mode == "TF" or not weights:
        return counts
    if outputs.tolist() != list(range(len(weights))):
        raise NotLowered(
            "ONNX orders its weights by n-gram, onnxruntime by column",
            "give the n-grams in the order of their columns",
        )
    return s.mul(counts, constant(np.array(weights, np.float32).reshape(1, 1, -1)))


def _matches(s: Scope, rows: Array, grams: Any, step: int) -> Array:
    """Count the windows whose tokens, `step` apart, are those of each n-gram: rows x n-grams."""
    length, size = rows.shape[1], grams.shape[1]
    tokens = []
    for index in range(size):
        stop = length - (size - 1 - index) * step
        window = movement.part(s, rows, 1, index * step, stop)
        token = constant(grams[:, index].astype(rows.dtype).reshape(1, 1, -1))
        tokens.append(s.equal(window, token))
    return summed(s, converted(s, reduce(s.both, tokens), FLOAT32), (1,))


# -- steps of optimizers (ai.onnx.preview.training), a group of tensors for each parameter ---------


class _Step(NamedTuple):
    """Hold what the parameters of a step share. rate and steps: of rank 0, in floating point."""

    n: Node
    s: Scope
    rate: Array
    steps: Array

    def number(self, name: str) -> float:
        return float(self.n.get(name, 0.0))

    def later(self, value: Array, first: Array | float) -> Array:
        """Select `first` in step 0, else the value."""
        return self.s.select(self.s.greater(self.steps, 0), value, first)

    def regularized(self, x: Array, gradient: Array) -> Array:
        """Add the gradient of the L2 penalty."""
        penalty = self.number("norm_coefficient")
        return self.s.add(self.s.mul(x, penalty), gradient) if penalty else gradient

    def mixed(self, name: str, old: Array, new: Array) -> Array:
        """Return an exponential average, whose weight of the old value is an attribute."""
        s, weight = self.s, self.number(name)
        return s.add(s.mul(old, weight), s.mul(new, 1 - weight))


_Of = Callable[[_Step, Sequence[Array]], Sequence[Array]]


def _for_each_parameter(step: _Of, state: int) -> Rule:
    """Return the rule that applies a step to every parameter. state: tensors that each keeps."""

    def lower(n: Node) -> Sequence[Array]:
        parts = state + 2
        count, left = divmod(len(n.given) - 2, parts)
        if left:
            raise NotLowered("a parameter lacks its gradient or state")
        s, rate = n.scope, n.array(0)
        steps = n.array(1)
        steps = index32(s, steps) if steps.data is None else s.cast(steps, INT32)
        steps = converted(s, steps, rate.dtype)
        shared = _Step(n, s, rate, steps)
        made = [
            step(shared, [n.array(2 + part * count + index) for part in range(parts)])
            for index in range(count)
        ]
        return [row[part] for part in range(parts - 1) for row in made]

    return lower


def _adagrad(t: _Step, given: Sequence[Array]) -> Sequence[Array]:
    """Divide the gradient by the root of the sum of its squares; the rate decays."""
    s, (x, gradient, squares) = t.s, given
    gradient = t.regularized(x, gradient)
    squares = s.add(squares, s.mul(gradient, gradient))
    size = s.add(sqrt(s, squares), t.number("epsilon"))
    decay = s.add(s.mul(t.steps, t.number("decay_factor")), 1)
    change = divided(s, s.mul(divided(s, t.rate, decay), gradient), size)
    return [s.sub(x, change), squares]


def _adam(t: _Step, given: Sequence[Array]) -> Sequence[Array]:
    """Divide the average gradient by the root of its average square."""
    s, (x, gradient, average, squares) = t.s, given
    gradient = t.regularized(x, gradient)
    average = t.mixed("alpha", average, gradient)
    squares = t.mixed("beta", squares, s.mul(gradient, gradient))
    size = s.add(sqrt(s, squares), t.number("epsilon"))
    bases = [constant(t.rate.dtype.type(t.number(name))) for name in ("alpha", "beta")]
    left = [s.sub(1, power(s, base, t.steps)) for base in bases]
    rate = t.later(divided(s, s.mul(t.rate, sqrt(s, left[1])), left[0]), t.rate)
    new = s.sub(x, divided(s, s.mul(rate, average), size))
    after = t.number("norm_coefficient_post")
    return [s.mul(new, 1 - after) if after else new, average, squares]


def _momentum(t: _Step, given: Sequence[Array]) -> Sequence[Array]:
    """Move along a sum of gradients that fades; Nesterov's form looks one step ahead."""
    s, (x, gradient, sums) = t.s, given
    gradient = t.regularized(x, gradient)
    weight = t.later(constant(t.rate.dtype.type(t.number("beta"))), 1.0)
    faded = s.mul(sums, t.number("alpha"))
    sums = s.add(faded, s.mul(weight, gradient))
    change = sums
    if t.n.get("mode") == "nesterov":
        change = s.add(gradient, s.mul(sums, t.number("alpha")))
    return [s.sub(x, s.mul(t.rate, change)), sums]


RULES: Final[dict[str, Rule]] = {
    "ArrayFeatureExtractor": _extract_features,
    "Binarizer": _binarize,
    "Imputer": _impute,
    "LinearClassifier": _classify,
    "LinearRegressor": _regress,
    "Normalizer": _normalise,
    "Scaler": _scale,
    "TreeEnsemble": _tree_ensemble,
    "TfIdfVectorizer": _count_ngrams,
    "Adagrad": _for_each_parameter(_adagrad, 1),
    "Adam": _for_each_parameter(_adam, 2),
    "Momentum": _for_each_parameter(_momentum, 1),
}
