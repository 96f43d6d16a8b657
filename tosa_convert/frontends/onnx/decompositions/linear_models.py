"""Linear models and the steps before them, as scikit-learn's are written: domain `ai.onnx.ml`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from tosa_convert.frontends.onnx.decompositions.node import Decomposition


def _real(e: Decomposition) -> str:
    """Return the features as f32."""
    kinds = (TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.DOUBLE)
    e.leave_if(e.type(0) not in kinds, "its input has another type")
    return e.inputs[0] if e.type(0) == TensorProto.FLOAT else e.cast(e.inputs[0], TensorProto.FLOAT)


def _floats(e: Decomposition, values: Sequence[float]) -> str:
    return e.constant(np.array(values), np.float32)


def scale(e: Decomposition) -> None:
    """Scaler: subtract the offset, and multiply by the scale."""
    moved = e.op("Sub", _real(e), _floats(e, e.attribute("offset", [0.0])))
    e.result(e.op("Mul", moved, _floats(e, e.attribute("scale", [1.0]))))


def normalise(e: Decomposition) -> None:
    """Divide each row by its norm; a row of zeros stays."""
    x, kind = _real(e), e.attribute("norm", "MAX")
    if kind == "L2":
        norm = e.op("Sqrt", e.reduce("ReduceSum", e.op("Mul", x, x), [-1]))
    else:
        sizes = e.op("Abs", x) if kind == "L1" else x
        norm = e.reduce("ReduceSum" if kind == "L1" else "ReduceMax", sizes, [-1])
    zero = e.op("Equal", norm, e.constant(0, np.float32))
    e.result(e.op("Div", x, e.op("Where", zero, e.constant(1, np.float32), norm)))


def impute(e: Decomposition) -> None:
    """Replace the missing value, which may be NaN."""
    values = e.attribute("imputed_value_floats")
    e.leave_if(values is None or e.type(0) != TensorProto.FLOAT, "its values are integers")
    missing, x = e.attribute("replaced_value_float", 0.0), e.inputs[0]
    found = e.op("IsNaN", x) if np.isnan(missing) else e.op("Equal", x, e.like(missing))
    e.result(e.op("Where", found, _floats(e, values), x))


def _scores(e: Decomposition, rows: int) -> str:
    """Multiply the features by the coefficients of each row, and add the intercepts."""
    weights = np.array(e.attribute("coefficients"), np.float32).reshape(rows, -1)
    product = e.op("MatMul", _real(e), e.constant(weights.T))
    intercepts = e.attribute("intercepts")
    return e.op("Add", product, _floats(e, intercepts)) if intercepts else product


def _transformed(e: Decomposition, x: str) -> str:
    kind = e.attribute("post_transform", "NONE")
    names = {"NONE": "", "LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}
    e.leave_if(kind not in names, f"it transforms its scores by {kind}")
    if kind == "SOFTMAX":
        return e.op("Softmax", x, axis=1)
    return e.op(names[kind], x) if names[kind] else x


def regress(e: Decomposition) -> None:
    """LinearRegressor: a product, and the intercepts."""
    e.result(_transformed(e, _scores(e, int(e.attribute("targets", 1)))))


def classify(e: Decomposition) -> None:
    """LinearClassifier: the label of the largest score, and the transformed scores.

    One row of coefficients for two labels gives the score of the second, which is against the first.
    """
    labels = e.attribute("classlabels_ints")
    e.leave_if(not labels, "its labels are texts: make them integers")
    count = len(e.attribute("coefficients"))
    rows = count // int(e.shape(0)[-1])
    e.leave_if(rows != len(labels), "it has one score for two labels")
    scores = _scores(e, rows)
    best = e.op("ArgMax", scores, axis=1, keepdims=0)
    e.result(e.op("Gather", e.ints(*labels), best))
    if e.wants(1):
        e.result(_transformed(e, scores), 1)
