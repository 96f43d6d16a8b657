"""Linear models and the steps before them, as scikit-learn's are written: domain `ai.onnx.ml`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tosa_convert.frontends.lowering import layout
from tosa_convert.frontends.lowering.arithmetic import divided
from tosa_convert.frontends.lowering.conversion import converted
from tosa_convert.frontends.lowering.functions import sqrt
from tosa_convert.frontends.lowering.indexing import index32, rows_at, rows_of_batches
from tosa_convert.frontends.lowering.normalization import softmax
from tosa_convert.frontends.lowering.products import product
from tosa_convert.frontends.lowering.reductions import extreme, position, summed
from tosa_convert.frontends.lowering.scope import FLOAT32, INT32, Array, NotLowered, constant
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
    """Subtract the offset, and multiply by the scale."""
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
    norm = layout.reshape(s, norm, shape)
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
    left = layout.reshape(s, x, (1, x.size // weights.shape[1], weights.shape[1]))
    made = product(s, left, constant(np.ascontiguousarray(weights.T)[None]), FLOAT32)
    made = layout.reshape(s, made, (left.shape[1], rows))
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
    """Return a product, and the intercepts."""
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
    found = layout.reshape(s, rows_at(s, table, best), (scores.shape[0],))
    return converted(s, found, np.int64), _transformed(n, scores)


def _binarize(n: Node) -> Array:
    s, x = n.scope, n.array(0)
    above = s.greater(x, float(n.get("threshold", 0.0)))
    return converted(s, above, x.dtype)


def _extract_features(n: Node) -> Array:
    """Take elements of the last axis."""
    s, x, index = n.scope, n.array(0), index32(n.scope, n.array(1))
    outer, size = x.size // x.shape[-1], x.shape[-1]
    table = layout.reshape(s, x, (outer, size, 1))
    places = layout.reshape(s, index, (1, index.size))
    places = layout.broadcast_to(s, places, (outer, index.size))
    made = rows_of_batches(s, table, places)
    return layout.reshape(s, made, (*(x.shape[:-1] or (1,)), index.size))


RULES: Final[dict[str, Rule]] = {
    "ArrayFeatureExtractor": _extract_features,
    "Binarizer": _binarize,
    "Imputer": _impute,
    "LinearClassifier": _classify,
    "LinearRegressor": _regress,
    "Normalizer": _normalise,
    "Scaler": _scale,
}
