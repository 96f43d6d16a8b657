"""Takes operators out of a TFLite model, so that its converter lowers the rest."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from tosa_convert.frontends.partial.cut import Cut, CutOperator, Operand
from tosa_convert.frontends.tflite.file import (
    DamagedError,
    Operator,
    TfliteFile,
    place_text,
    root_table,
)

#: Positions of fields in the tables of the model and of a subgraph.
_SUBGRAPHS: Final = 2
_SIGNATURES: Final = 7
_INPUTS: Final = 1
_OUTPUTS: Final = 2
_OPERATORS: Final = 3


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


def without_operators(data: bytes | memoryview, rest: TfliteFile) -> bytes:
    """Cut the main subgraph of a model down to the inputs, outputs and operators of `rest`.

    Raises:
        DamagedError: the model has no inputs or no outputs.
    """
    changed = bytearray(data)
    root = root_table(data)
    main = next(root.tables(_SUBGRAPHS))
    # The names of the signature do not fit any more.
    start, length = root.vector(_SIGNATURES)
    if length:
        struct.pack_into("<I", changed, start - 4, 0)
    start, _ = main.vector(_OPERATORS)
    kept = [operator.index for operator in rest.operators]
    for position, index in enumerate(kept):
        # An offset counts from where it is stored.
        (offset,) = struct.unpack_from("<I", data, start + 4 * index)
        struct.pack_into("<I", changed, start + 4 * position, offset + 4 * (index - position))
    struct.pack_into("<I", changed, start - 4, len(kept))
    for field, tensors in ((_INPUTS, rest.inputs), (_OUTPUTS, rest.outputs)):
        place = main.place(field)
        if not place:
            raise DamagedError("the TFLite file has no inputs or no outputs")
        changed += bytes(-len(changed) % 4)
        struct.pack_into("<I", changed, place, len(changed) - place)
        changed += struct.pack(f"<I{len(tensors)}i", len(tensors), *tensors)
    return bytes(changed)
