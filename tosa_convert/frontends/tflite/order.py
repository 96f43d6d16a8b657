"""The order of arguments and results of a TFLite model, by its signature."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from tosa_convert.errors import fail
from tosa_convert.frontends.tflite.file import read_tflite, root_table

#: Positions of fields: of a model, of a subgraph.
_SUBGRAPHS, _INPUTS, _OUTPUTS = 2, 1, 2


def in_order(data: bytes, inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
    """Return a model with arguments and results in a given order; its only signature names them.

    Raises:
        TosaConvertError: "frontend-failed" if the signature has other names.
    """
    model = read_tflite(data)
    found = [model.input_name(tensor) for tensor in model.inputs]
    changed = bytearray(data)
    main = next(root_table(data).tables(_SUBGRAPHS))
    for what, position, tensors, names, wanted in (
        ("inputs", _INPUTS, model.inputs, found, inputs),
        ("outputs", _OUTPUTS, model.outputs, model.output_names, outputs),
    ):
        if sorted(names) != sorted(wanted):
            message = f"the TFLite model has the {what} {names}, expected {list(wanted)}"
            raise fail("frontend-failed", "TFLite", message, "please report it")
        by_name: Mapping[str, int] = dict(zip(names, tensors, strict=True))
        start, _ = main.vector(position)
        struct.pack_into(f"<{len(wanted)}i", changed, start, *(by_name[name] for name in wanted))
    return bytes(changed)
