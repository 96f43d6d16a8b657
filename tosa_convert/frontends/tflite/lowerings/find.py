"""Finds the operators of a model that are decomposed, and those whose lowering is corrected.

Nothing here needs numpy: most models have no such operators. Which lowerings are corrected was found by
experiment, with the programs of tests/frontends/tflite_operators. TFLite's numbers are those of its
reference kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tosa_convert.frontends.partial.cut import Cut
from tosa_convert.frontends.tflite.cut import cut_out
from tosa_convert.frontends.tflite.lowerings.correction import Correction
from tosa_convert.frontends.tflite.lowerings.table import CORRECTIONS, DECOMPOSITIONS
from tosa_convert.frontends.tflite.read import Operator, TfliteFile, expected_form, operator_name


class Decomposed(NamedTuple):
    """The operators of a model that are decomposed.

    model: the whole model. cut: where the operators were. facts: those of each, by its index.
    """

    model: TfliteFile
    cut: Cut
    facts: Mapping[int, Any]


class Wanted(NamedTuple):
    """A lowering that is to be corrected.

    name: the name in the locations of its operators. facts: as `row.find` returned them.
    """

    name: str
    row: Correction[Any]
    facts: Any


def without_decomposed(model: TfliteFile) -> tuple[TfliteFile, Decomposed | None]:
    """Cut out the operators that are decomposed.

    Return the facts of the model without them, and these; None if there are none.

    Args:
        model: the facts of the whole model; it is not changed.
    """
    found = ((one.index, _facts(model, one)) for one in model.operators)
    facts = {index: one for index, one in found if one is not None}
    if not facts:
        return model, None
    by_index = {one.index: one for one in model.operators}
    chosen = [(index, operator_name(by_index[index].code)) for index in facts]
    rest, cut = cut_out(model, chosen)
    return rest, Decomposed(model, cut, facts)


def _facts(model: TfliteFile, operator: Operator) -> Any:
    """Find what the decomposition of an operator needs; None if it has none."""
    row = DECOMPOSITIONS.get(operator_name(operator.code))
    tensors = [model.tensors[one] for one in (*operator.inputs, *operator.outputs) if one >= 0]
    sizes = (size for tensor in tensors for size in tensor.shape)
    if row is None or not operator.outputs or min(sizes, default=1) < 1:
        return None
    try:
        return row.find(model, operator)
    except (IndexError, ValueError, ZeroDivisionError):
        # It has other operands than its kind: the converter says what is wrong with it.
        return None


def find_corrections(model: TfliteFile) -> Iterator[Wanted]:
    """Find the lowerings of a model that the converter writes wrongly.

    Raises:
        DamagedError: an operator has other operands or options than in TFLite.
    """
    for operator in model.operators:
        name = operator_name(operator.code)
        if not operator.outputs:
            continue
        with expected_form(model, operator.index, name):
            for row in CORRECTIONS.get(name, ()):
                facts = row.find(model, operator)
                if facts is not None:
                    yield Wanted(model.result(operator).name, row, facts)
