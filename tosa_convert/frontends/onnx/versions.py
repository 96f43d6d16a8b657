"""Models of old sets of operators, with operators of the version that torch-mlir converts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

#: The version of ONNX's operators that torch-mlir's conversions expect at least.
OPSET: Final = 17
#: The opset in which Resize got attributes for positions and rounding.
_MODES_SINCE: Final = 11


def opset_of(model: Any) -> int:
    """Return the version of ONNX's own operators that a model uses."""
    return max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=1)


def name_operators(model: Any) -> None:
    """Name ONNX's own operators among those of a model, for what its other ones become, in place."""
    if all(row.domain not in ("", "ai.onnx") for row in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", OPSET))


def newer(model: Any) -> Any:
    """Convert a model to operators of OPSET; None if it has them, or if it cannot be converted."""
    opset = opset_of(model)
    if opset >= OPSET:
        return None
    try:
        made = onnx.version_converter.convert_version(model, OPSET)
    except Exception:  # onnx converts some operators only.
        return None
    if opset < _MODES_SINCE and not _keep_positions(made):
        return None
    return made


def _keep_positions(model: Any) -> bool:
    """Give Resize the positions that it and Upsample had before, in place; False if that fails.

    onnx's conversion leaves out the attributes, so that they would get the defaults of a later version.
    Elements are at scaled positions. These are rounded down where an axis grows, and up where it
    shrinks, as onnxruntime does, since the definition leaves it open.
    """
    constants = _constants(model.graph)
    nodes: list[Any] = []
    for node in model.graph.node:
        if node.op_type != "Resize":
            nodes.append(node)
        elif node.input[2] in constants:
            nodes += _with_positions(node, constants[node.input[2]])
        else:
            return False
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return True


def _with_positions(node: Any, scales: np.ndarray[Any, Any]) -> list[Any]:
    """Return the nodes for a Resize: one for the axes that grow, and one for those that shrink."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    attributes["coordinate_transformation_mode"] = "asymmetric"
    x, result = node.input[0], node.output[0]
    made: list[Any] = []
    for rounding, factors in (("floor", np.maximum(scales, 1)), ("ceil", np.minimum(scales, 1))):
        if made and np.all(factors == 1):
            break
        given, shrunk = f"{result}/{rounding}_scales", f"{result}/{rounding}"
        tensor = numpy_helper.from_array(factors.astype(np.float32))
        made.append(helper.make_node("Constant", [], [given], name=node.name, value=tensor))
        attributes["nearest_mode"] = rounding
        made.append(
            helper.make_node("Resize", [x, "", given], [shrunk], name=node.name, **attributes)
        )
        x = shrunk
    made[-1].output[0] = result
    return made


def _constants(graph: Any) -> Mapping[str, np.ndarray[Any, Any]]:
    """Return the values of initializers and of nodes that are constants."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            found[node.output[0]] = node.attribute[0].t
    return {
        name: numpy_helper.to_array(tensor)
        for name, tensor in found.items()
        if tensor.data_location != onnx.TensorProto.EXTERNAL and len(tensor.dims) < 2
    }
