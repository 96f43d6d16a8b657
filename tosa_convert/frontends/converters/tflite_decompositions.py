"""Which operators of a TFLite model are decomposed, because its converter does not lower them.

The converter gets the model without them, as with `--partial`; `decompositions` adds them to its
program, as operators of TOSA.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from tosa_convert.frontends.converters.tflite_cut import cut_out
from tosa_convert.frontends.converters.tflite_file import Operator, TfliteFile
from tosa_convert.frontends.converters.tflite_names import operator_name
from tosa_convert.frontends.cut import Cut

#: Most pairs of elements that are compared to find the order of rows.
_MOST_PAIRS: Final = 1 << 22
#: Codes of activations -> the range that they clamp to.
_ACTIVATIONS: Final = {0: None, 1: (0.0, None), 3: (0.0, 6.0)}
_Facts = Mapping[str, Any]


def without_decomposed(model: TfliteFile, file: str) -> tuple[TfliteFile, Cut | None]:
    """The facts of a model without the operators that are decomposed, and these; None if there are none.

    Args:
        model: the facts of the whole model; it is not changed.
        file: the name of its file, for locations.
    """
    facts = {one.index: found for one in model.operators if (found := _facts(model, one))}
    if not facts:
        return model, None
    by_index = {one.index: one for one in model.operators}
    chosen = [(index, operator_name(by_index[index].code)) for index in facts]
    rest, cut = cut_out(model, chosen)
    operators = []
    for one in cut.operators:
        index = one.attributes["index"]
        name = model.tensors[by_index[index].outputs[0]].name
        quoted = name.isprintable() and not {'"', "\\"} & set(name)
        location = f'loc("{name}"("{file}":0:0))' if quoted else ""
        attributes = {**facts[index], "location": location}
        operators.append(replace(one, attributes=attributes))
    return rest, replace(cut, operators=tuple(operators))


def _facts(model: TfliteFile, operator: Operator) -> _Facts | None:
    """What the decomposition of an operator needs; None if it has none."""
    find = _FINDERS.get(operator_name(operator.code))
    tensors = [model.tensors[one] for one in (*operator.inputs, *operator.outputs) if one >= 0]
    if find is None or any(min(tensor.shape, default=1) < 1 for tensor in tensors):
        return None
    return find(model, operator)


def _cumulative_sum(model: TfliteFile, operator: Operator) -> _Facts | None:
    x, axis = (model.tensors[one] for one in operator.inputs)
    given = _integers(axis.data)
    if x.dtype not in ("float32", "int32") or len(given) != 1 or axis.dtype != "int32":
        return None
    options = operator.options
    return {
        "axis": given[0] % len(x.shape),
        "exclusive": options is not None and bool(options.number(0, "b")),
        "reverse": options is not None and bool(options.number(1, "b")),
    }


def _largest(model: TfliteFile, operator: Operator) -> _Facts | None:
    x, count = (model.tensors[one] for one in operator.inputs)
    types = [model.tensors[one].dtype for one in operator.outputs]
    given = _integers(count.data)
    if x.dtype not in ("float32", "int32", "int16", "int8") or types != [x.dtype, "int32"]:
        return None
    if len(given) != 1 or count.dtype != "int32":
        return None
    if math.prod(x.shape) * x.shape[-1] > _MOST_PAIRS:
        return None
    return {"count": given[0]}


def _transposed_convolution(model: TfliteFile, operator: Operator) -> _Facts | None:
    sizes, weights, x = (model.tensors[one] for one in operator.inputs[:3])
    options = operator.options
    if options is None or not sizes.data or not weights.data or x.dtype != "float32":
        return None
    activation = options.number(4, "b")
    dilation = [options.number(position, "i", 1) for position in (5, 6, 7)]
    if weights.dtype != "float32" or dilation != [1, 1, 1] or activation not in _ACTIVATIONS:
        return None
    # The fields are those of depth, width and height.
    strides = [options.number(position, "i") for position in (1, 3, 2)]
    result = model.tensors[operator.outputs[0]].shape[1:4]
    is_same = options.number(0, "b") == 0
    extents = zip(result, x.shape[1:4], strides, weights.shape[:3], strict=True)
    before = [
        max(0, (given - 1) * stride + kernel - size) // 2 if is_same else 0
        for size, given, stride, kernel in extents
    ]
    return {"strides": strides, "before": before, "clamp": _ACTIVATIONS[activation]}


def _integers(data: memoryview) -> list[int]:
    return list(struct.unpack(f"<{len(data) // 4}i", data)) if len(data) % 4 == 0 else []


_FINDERS: Final[Mapping[str, Callable[[TfliteFile, Operator], _Facts | None]]] = {
    "CUMSUM": _cumulative_sum,
    "TOPK_V2": _largest,
    "CONV_3D_TRANSPOSE": _transposed_convolution,
}
