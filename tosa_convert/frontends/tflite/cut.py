"""Which operators are taken out of a TFLite model, so that its converter lowers the rest."""

from __future__ import annotations

from collections.abc import Sequence

from tosa_convert.frontends.partial.cut import Cut, CutOperator, Operand
from tosa_convert.frontends.source_places import place_text
from tosa_convert.frontends.tflite.read import Operator, TfliteFile


def cut_out(model: TfliteFile, chosen: Sequence[tuple[int, str]]) -> tuple[TfliteFile, Cut]:
    """Cut some operators out of a model; return the facts of the rest, and what was cut out.

    Args:
        model: the facts of the whole model; it is not changed.
        chosen: the number and the name of each operator.
    """
    names = dict(chosen)
    gone = [operator for operator in model.operators if operator.index in names]
    results = [tensor for operator in gone for tensor in operator.outputs]
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
        tensors = operator.inputs
        made = (model.tensors[tensor].name for tensor in operator.outputs)
        return CutOperator(
            operator=names[operator.index],
            where=place_text(operator.index, *made),
            operands=tuple(Operand(place=place(one) if one >= 0 else None) for one in tensors),
            results=tuple(inputs.index(tensor) for tensor in operator.outputs),
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
    return TfliteFile(model.tensors, inputs, outputs, rest, names_of_inputs, output_names), found
