"""Axes of GATHER that count from the end, which TFLite's converter does not lower."""

from __future__ import annotations

import struct
from typing import Final

from tosa_convert.frontends.tflite.file import TfliteFile
from tosa_convert.frontends.tflite.names import operator_name

_AXIS: Final = 0


def with_axes_from_start(data: bytes | memoryview, model: TfliteFile) -> bytes | memoryview:
    """Return a model's bytes with GATHER's axes counted from the start."""
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
