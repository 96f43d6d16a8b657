"""Changes the bytes of a TFLite model, so that its converter lowers more of it."""

from __future__ import annotations

import struct
from typing import Final

from tosa_convert.errors import fail
from tosa_convert.frontends.tflite.lowerings.functions import find_abs_table
from tosa_convert.frontends.tflite.read import (
    DamagedError,
    TfliteFile,
    expected_form,
    operator_name,
)
from tosa_convert.io.flatbuffer_tables import Table, root_table

#: The code of ABS.
_ABS: Final = 101
#: The placeholder: an operator that the converter writes as a table for every scale.
_PLACEHOLDER: Final = 117  # HARD_SWISH
#: Positions of fields: of a model, a subgraph, an operator, its code, and the options of GATHER.
_CODES, _SUBGRAPHS, _SIGNATURES = 1, 2, 7
_INPUTS, _OUTPUTS, _OPERATORS, _NAME = 1, 2, 3, 4
_INDEX, _OPTIONS_TYPE, _OPTIONS = 0, 3, 4
_OLD_CODE, _NEW_CODE = 0, 3
_AXIS: Final = 0
#: Operator -> the positions of subgraphs among its options.
_CALLED: Final = {"IF": (0, 1), "WHILE": (0, 1), "CALL_ONCE": (0,), "CALL": (0,)}


def reached(model: TfliteFile) -> dict[int, TfliteFile]:
    """Return a subgraph and those that its control flow calls, by their numbers."""
    found = {model.subgraph: model}
    waiting = [model]
    while waiting and model.read_subgraph is not None:
        for operator in waiting.pop().operators:
            for position in _CALLED.get(operator_name(operator.code), ()):
                number = operator.option(position)
                if number not in found:
                    found[number] = model.read_subgraph(number)
                    waiting.append(found[number])
    return found


def with_axes_from_start(data: bytes | memoryview, model: TfliteFile) -> bytes | memoryview:
    """Return a model's bytes with GATHER's axes counted from the start.

    The converter does not lower those that count from the end.
    """
    changed: bytearray | None = None
    for operator in model.operators:
        options = operator.options
        if operator_name(operator.code) != "GATHER" or options is None:
            continue
        axis = options.number(_AXIS, "i")
        if axis < 0:
            changed = bytearray(data) if changed is None else changed
            rank = len(model.tensors[operator.inputs[0]].shape)
            struct.pack_into("<i", changed, options.place(_AXIS), axis + rank)
    return data if changed is None else bytes(changed)


def with_placeholders(data: bytes | memoryview, model: TfliteFile) -> bytes | memoryview:
    """Return a model's bytes with a placeholder for each ABS, if all of them are of int8.

    The converter ends at ABS of int8. For the placeholder it writes a table, whose values are then
    corrected to those of ABS.
    """
    absolute = [operator for operator in model.operators if operator.code == _ABS]
    for operator in absolute:
        with expected_form(model, operator.index, "ABS"):
            if find_abs_table(model, operator) is None:
                return data
    if not absolute:
        return data
    changed = bytearray(data)
    root = root_table(data)
    main = next(root.tables(_SUBGRAPHS))
    indices = set()
    for operator, row in zip(model.operators, main.tables(_OPERATORS), strict=True):
        if operator.code == _ABS:
            indices.add(row.number(_INDEX, "I"))
            if at := row.place(_OPTIONS_TYPE):
                changed[at] = 0
    for index, row in enumerate(root.tables(_CODES)):
        if index in indices:
            # A field that is absent has a default, which is not the code of ABS.
            if at := row.place(_OLD_CODE):
                changed[at] = _PLACEHOLDER
            if at := row.place(_NEW_CODE):
                struct.pack_into("<i", changed, at, _PLACEHOLDER)
    return bytes(changed)


def with_first_subgraph(data: bytes | memoryview, number: int) -> bytes:
    """Return a model's bytes with a subgraph as the first one, and without signatures.

    The converter's main function is that of the first subgraph; the two change places.
    """
    root = root_table(data)
    codes = [
        max(row.number(_OLD_CODE, "b"), row.number(_NEW_CODE, "i")) for row in root.tables(_CODES)
    ]
    for graph in root.tables(_SUBGRAPHS):
        for row in graph.tables(_OPERATORS):
            name, options = operator_name(codes[row.number(_INDEX, "I")]), row.table(_OPTIONS)
            called = [options.number(at, "i") for at in _CALLED.get(name, ())] if options else []
            if {0, number} & set(called):
                message = f"{name} calls the subgraph of this signature, or that of the first one"
                hint = "export the model with this signature alone"
                raise fail("option-conflict", "--func", message, hint)
    changed = bytearray(data)
    start, _ = root.vector(_SUBGRAPHS)
    places = start, start + 4 * number
    targets = [place + struct.unpack_from("<I", data, place)[0] for place in places]
    try:
        for place, target in zip(places, reversed(targets), strict=True):
            struct.pack_into(
                "<I", changed, place, target - place
            )  # Counts from where it is stored.
    except struct.error:
        raise DamagedError("the TFLite file has its subgraphs inside of their list") from None
    # The converter calls the first one main, and the others by their names.
    at, length = next(root.tables(_SUBGRAPHS)).vector(_NAME)
    changed[at : at + length] = b"_" * length
    _remove_signatures(changed, root)
    return bytes(changed)


def _remove_signatures(changed: bytearray, root: Table) -> None:
    start, length = root.vector(_SIGNATURES)
    if length:
        struct.pack_into("<I", changed, start - 4, 0)


def without_operators(data: bytes | memoryview, rest: TfliteFile) -> bytes:
    """Cut the main subgraph of a model down to the inputs, outputs and operators of `rest`."""
    changed = bytearray(data)
    root = root_table(data)
    main = next(root.tables(_SUBGRAPHS))
    # The names of the signature do not fit any more.
    _remove_signatures(changed, root)
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
