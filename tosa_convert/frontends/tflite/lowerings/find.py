"""The table of our lowerings, and the operators of a model to which its rows apply.

Nothing here needs numpy: most models have no such operators. Which lowerings are corrected was found by
experiment, with the programs of tests/frontends/tflite_operators. TFLite's numbers are those of its
reference kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tosa_convert.frontends.partial.cut import Cut, CutOperator, Operand
from tosa_convert.frontends.process.interface import NotLowered
from tosa_convert.frontends.source_places import place_text
from tosa_convert.frontends.tflite.lowerings import (
    activations,
    elementwise,
    functions,
    lstm,
    movement,
    normalization,
    products,
    recurrent,
    reductions,
    resize,
    variables,
)
from tosa_convert.frontends.tflite.lowerings.lowering import (
    Correction,
    Decomposition,
    Refused,
    is_found,
)
from tosa_convert.frontends.tflite.read import Operator, TfliteFile, expected_form, operator_name
from tosa_convert.records import NamedTuple

#: Operator that the converter does not lower in every form -> how it is decomposed.
DECOMPOSITIONS: Final[Mapping[str, Decomposition[Any]]] = {
    **activations.DECOMPOSITIONS,
    **elementwise.DECOMPOSITIONS,
    **lstm.DECOMPOSITIONS,
    **movement.DECOMPOSITIONS,
    **normalization.DECOMPOSITIONS,
    **products.DECOMPOSITIONS,
    **recurrent.DECOMPOSITIONS,
    **reductions.DECOMPOSITIONS,
    **variables.DECOMPOSITIONS,
}
_ROWS: Final[tuple[Correction[Any], ...]] = (
    *elementwise.CORRECTIONS,
    *functions.CORRECTIONS,
    *movement.CORRECTIONS,
    *normalization.CORRECTIONS,
    *products.CORRECTIONS,
    *activations.CORRECTIONS,
    *resize.CORRECTIONS,
)
#: Operator that the converter lowers to other numbers in some form -> how that is corrected, in order.
CORRECTIONS: Final = {
    name: tuple(row for row in _ROWS if name in row.applies_to())
    for one in _ROWS
    for name in one.applies_to()
}


def cut_out(model: TfliteFile, chosen: Sequence[tuple[int, str]]) -> tuple[TfliteFile, Cut]:
    """Cut some operators out of a model; return the facts of the rest, and what was cut out.

    Args:
        model: the facts of the whole model; it is not changed.
        chosen: the number and the name of each operator.
    """
    names = dict(chosen)
    gone = [operator for operator in model.operators if operator.index in names]
    made = {operator.index: _values(model, operator) for operator in gone}
    results = [tensor for operator in gone for tensor in made[operator.index]]
    inputs = [*model.inputs, *results]
    outputs: list[int] = []
    output_names: list[str] = []
    places: list[int] = []
    for tensor, name in zip(model.outputs, model.output_names, strict=True):
        if tensor in results and -1 - inputs.index(tensor) not in places:
            places.append(-1 - inputs.index(tensor))
            continue
        places.append(len(outputs))
        outputs.append(tensor)
        output_names.append(name)

    def place(tensor: int) -> int:
        if tensor in inputs:
            return -1 - inputs.index(tensor)
        if tensor not in outputs:
            outputs.append(tensor)
            output_names.append(model.tensors[tensor].name)
        return outputs.index(tensor)

    def cut(operator: Operator) -> CutOperator:
        taken = model.takes(operator)
        return CutOperator(
            operator=names[operator.index],
            where=_where(model, operator),
            operands=tuple(
                Operand(place=place(taken[at]) if at in taken else None)
                for at in range(len(operator.inputs))
            ),
            results=tuple(inputs.index(tensor) for tensor in made[operator.index]),
            attributes={"index": operator.index},
        )

    found = Cut(
        inputs=len(model.inputs),
        operators=tuple(map(cut, gone)),
        outputs=tuple(places),
    )
    rest = [operator for operator in model.operators if operator.index not in names]
    names_of_inputs = {tensor: model.output_name(tensor) for tensor in results}
    names_of_inputs |= model.input_signature
    left = TfliteFile(model.tensors, inputs, outputs, rest, names_of_inputs, output_names)
    left.read_subgraph = model.read_subgraph
    return left, found


def _values(model: TfliteFile, operator: Operator) -> list[int]:
    """Return the results of an operator, but handles of variables."""
    return [tensor for tensor in operator.outputs if not model.tensors[tensor].is_state]


def _where(model: TfliteFile, operator: Operator) -> str:
    return place_text(operator.index, *(model.tensors[one].name for one in operator.outputs))


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
    facts = {index: one for index, one in found if is_found(one)}
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
    if row is None or min(sizes, default=1) < 1:
        return None
    try:
        return row.find(model, operator)
    except (IndexError, ValueError, ZeroDivisionError):
        # It has other operands than its kind: the converter says what is wrong with it.
        return None


def find_refused(model: TfliteFile) -> Iterator[NotLowered]:
    """Find the operators that no row decomposes, for a reason that the user is told."""
    for operator in model.operators:
        if isinstance(facts := _facts(model, operator), Refused):
            yield NotLowered(
                operator=operator_name(operator.code),
                where=_where(model, operator),
                reason=facts.reason,
                hint=facts.hint,
                index=operator.index,
            )


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
                if is_found(facts):
                    yield Wanted(model.result(operator).name, row, facts)
