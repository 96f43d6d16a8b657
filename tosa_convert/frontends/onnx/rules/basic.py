"""Operators without which no model is lowered."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from onnx import helper

from tosa_convert.frontends.lowering import layout
from tosa_convert.frontends.lowering.scope import Array, NotLowered, constant
from tosa_convert.frontends.onnx.node import Item, Node, Rule


def _constant(n: Node) -> Array:
    """Return the value of a Constant, which has one of several attributes."""
    ((name, value),) = n.attributes.items()
    if name == "value":
        return n.walk.constant(value)
    kinds: dict[str, Any] = {"value_float": np.float32, "value_floats": np.float32}
    kinds |= {"value_int": np.int64, "value_ints": np.int64}
    if name in kinds:
        return constant(np.asarray(value, kinds[name]))
    if name == "sparse_value":
        raise NotLowered("it is a sparse tensor", "store it as a dense one")
    return constant(np.asarray(value, object))


def _shape(n: Node) -> Array:
    shape = n.array(0).shape
    return constant(np.array(shape[n.get("start", 0) : n.get("end", len(shape))], np.int64))


def _constant_of_shape(n: Node) -> Array:
    value = n.get("value")
    number = np.zeros(1, np.float32) if value is None else n.walk.constant(value).data
    assert number is not None
    shape = tuple(n.ints(0))
    stored = shape if 0 in shape else (1,) * len(shape)
    return Array(
        number.dtype,
        shape,
        np.broadcast_to(number.reshape(-1)[:1], (1,))
        .reshape(-1)[: int(np.prod(stored))]
        .reshape(stored),
    )


def _identity(n: Node) -> Item | list[Item]:
    item = n.given[0]
    return [] if item is None else item


def _reshape(n: Node) -> Array:
    a = n.array(0)
    sizes = list(n.get("shape")) if n.since < 5 else n.ints(1)
    if not n.get("allowzero", 0):
        sizes = [a.shape[k] if size == 0 else size for k, size in enumerate(sizes)]
    if -1 in sizes:
        others = int(np.prod([size for size in sizes if size != -1]))
        sizes[sizes.index(-1)] = a.size // max(others, 1)
    return layout.reshape(n.scope, a, sizes)


def _transpose(n: Node) -> Array:
    a = n.array(0)
    return layout.transpose(n.scope, a, n.get("perm") or range(a.rank)[::-1])


def dtype_of(number: int) -> np.dtype[Any]:
    """Return the element type of ONNX's number of it."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(number))


RULES: Final[dict[str, Rule]] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Identity": _identity,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": lambda n: constant(np.array(n.array(0).size, np.int64)),
    "Transpose": _transpose,
}
OWN: Final = frozenset(RULES)
