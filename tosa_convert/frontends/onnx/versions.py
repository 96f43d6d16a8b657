"""The version of the operators of a model."""

from __future__ import annotations

from typing import Any, Final

from onnx import helper

#: The version of ONNX's own operators, for a model that names none.
_OPSET: Final = 17


def opset_of(model: Any) -> int:
    """Return the version of ONNX's own operators that a model uses."""
    return max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=1)


def name_operators(model: Any) -> None:
    """Name ONNX's own operators among those of a model, for what its other ones become, in place."""
    if all(row.domain not in ("", "ai.onnx") for row in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", _OPSET))
