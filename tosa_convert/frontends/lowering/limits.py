"""The least and the greatest of integers, so far as they follow from how an array is made.

Where a sum is known to fit INT32, it is ADD; elsewhere it must wrap around as JAX's does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.lowering.scope import Array

Limits = tuple[int, int]

#: Primitives whose elements are those of some of their operands: how many operands, or None for all.
_MOVING: Final = {
    **dict.fromkeys(("concatenate", "pad", "stack", "copy", "optimization_barrier"), None),
    **dict.fromkeys(
        (
            *("broadcast_in_dim", "broadcast_to", "cummax", "cummin", "dynamic_slice"),
            *("expand_dims", "reduce_max", "reduce_min", "reshape", "rev", "slice", "sort"),
            *("split", "squeeze", "tile", "transpose", "unstack"),
        ),
        1,
    ),
}


def known_limits(a: Array) -> Limits:
    """Return the limits of an array of integers or truth values: those of its type if nothing is known.

    Example:
        >>> known_limits(Array(np.dtype("uint8"), (3,)))
        (0, 255)
    """
    if a.limits is not None:
        return a.limits
    if a.data is not None and a.data.size:
        return int(a.data.min()), int(a.data.max())
    return _of_type(a.dtype)


def _of_type(dtype: Any) -> Limits:
    if np.dtype(dtype) == np.bool_:
        return 0, 1
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def limits_of_result(
    name: str, params: Mapping[str, Any], inputs: Sequence[Array], result: Any
) -> Limits | None:
    """Return the limits of a primitive's result (its shape and type); None if unknown, or its type's."""
    if np.dtype(result.dtype).kind not in "iu" or any(a.parts for a in inputs):
        return None
    if name in ("argmax", "argmin"):
        return 0, math.prod(inputs[0].shape[axis] for axis in params["axes"]) - 1
    if not inputs or any(np.dtype(a.dtype).kind not in "iub" for a in inputs):
        return None
    found = _computed(name, params, inputs)
    low, high = _of_type(result.dtype)
    if found is None or found[0] < low or found[1] > high:
        return None
    return None if found == (low, high) else found


def _computed(name: str, params: Mapping[str, Any], inputs: Sequence[Array]) -> Limits | None:
    known = [known_limits(a) for a in inputs]
    (low, high), (low_2, high_2) = known[0], known[-1]
    if name in ("convert_element_type", "sign", "abs") or name in _MOVING:
        taken = known[: _MOVING.get(name, 1)]
        low, high = min(low for low, _ in taken), max(high for _, high in taken)
        if name == "sign":
            return max(low, -1), min(high, 1)
        return (0, max(high, -low)) if name == "abs" else (low, high)
    if name == "select_n":
        return min(low for low, _ in known[1:]), max(high for _, high in known[1:])
    if name == "clamp":
        # A number beyond both ends becomes the upper one.
        return min(low, known[2][0]), high_2
    if name in ("reduce_sum", "cumsum"):
        axes = params.get("axes", (params.get("axis"),))
        count = math.prod(inputs[0].shape[axis] for axis in axes)
        return min(low * count, low), max(high * count, high)
    pairs: dict[str, Limits] = {
        "add": (low + low_2, high + high_2),
        "sub": (low - high_2, high - low_2),
        "max": (max(low, low_2), max(high, high_2)),
        "min": (min(low, low_2), min(high, high_2)),
    }
    if name == "mul":
        products = [x * y for x in known[0] for y in known[-1]]
        return min(products), max(products)
    if name == "rem" and low_2 > 0:
        return max(low, 1 - high_2) if low < 0 else 0, min(max(high, 0), high_2 - 1)
    if name == "and" and max(low, low_2) >= 0:
        return 0, min(high for low, high in known if low >= 0)
    return pairs.get(name)
