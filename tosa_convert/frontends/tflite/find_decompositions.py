"""Which operators of a TFLite model are decomposed, because its converter does not lower them.

The converter gets the model without them, as with `--partial`; `decompositions` adds them to its
program, as operators of TOSA.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tosa_convert.frontends.partial.cut import Cut
from tosa_convert.frontends.tflite import (
    find_decomposed_elementwise as tflite_decomposed_elementwise,
)
from tosa_convert.frontends.tflite import find_decomposed_movement as tflite_decomposed_movement
from tosa_convert.frontends.tflite import find_decomposed_products as tflite_decomposed_products
from tosa_convert.frontends.tflite.cut import cut_out
from tosa_convert.frontends.tflite.facts import Facts, Find
from tosa_convert.frontends.tflite.file import Operator, TfliteFile
from tosa_convert.frontends.tflite.names import operator_name


def without_decomposed(model: TfliteFile, file: str) -> tuple[TfliteFile, Cut | None]:
    """Cut out the operators that are decomposed.

    Return the facts without them, and these; None if there are none.

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


def _facts(model: TfliteFile, operator: Operator) -> Facts | None:
    """Find what the decomposition of an operator needs; None if it has none."""
    find = FINDERS.get(operator_name(operator.code))
    operands = [model.tensors[one] for one in operator.inputs if one >= 0]
    results = [model.tensors[one] for one in operator.outputs]
    sizes = (size for tensor in (*operands, *results) for size in tensor.shape)
    if find is None or not results or min(sizes, default=1) < 1:
        return None
    try:
        found = find(model, operator)
    except (IndexError, ValueError, ZeroDivisionError):
        # It has other operands than its kind: the converter says what is wrong with it.
        return None
    if found is None:
        return None
    shown = {"shape": results[0].shape, "dtype": results[0].dtype}
    return {**shown, "dtypes": [one.dtype for one in operands], **found}


#: Operator -> what finds the facts of its decomposition.
FINDERS: Final[Mapping[str, Find]] = {
    **tflite_decomposed_elementwise.FINDERS,
    **tflite_decomposed_movement.FINDERS,
    **tflite_decomposed_products.FINDERS,
}
