"""Inlines operators that ONNX itself defines by other operators."""

from __future__ import annotations

from typing import Any, Final

import onnx
from onnx import defs, helper

from tosa_convert.frontends.onnx.decompositions.node import Values

#: Operators that torch-mlir does not lower, or lowers to wrong numbers, whose definition does lower.
INLINED: Final = frozenset(
    (
        *("AffineGrid", "Attention", "FlexAttention", "LinearAttention", "RotaryEmbedding"),
        *("BlackmanWindow", "HammingWindow", "HannWindow", "CastLike", "CenterCropPad", "Range"),
        *("GroupNormalization", "MeanVarianceNormalization", "RMSNormalization", "Swish"),
        *("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "CausalConvWithState"),
    )
)


def function_body(node: Any, values: Values, opset: int) -> Any | None:
    """Return the definition of a node's operator as a FunctionProto, or None if it has none."""
    try:
        schema = defs.get_schema(node.op_type, max_inclusive_version=opset, domain=node.domain)
    except defs.SchemaError:
        return None
    plain = max((v for v in schema.function_opset_versions if v <= opset), default=0)
    by_context = schema.context_dependent_function_opset_versions
    dependent = max((v for v in by_context if v <= opset), default=0)
    if not plain and not dependent:
        return None
    if dependent > plain or (dependent and dependent == plain):
        types = [
            values.types[name].SerializeToString() if name in values.types else _known(values, name)
            for name in node.input
        ]
        text = schema.get_context_dependent_function_with_opset_version(
            dependent, node.SerializeToString(), types
        )
    else:
        text = schema.get_function_with_opset_version(plain)
    if not text:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(text)
    own = {attribute.name for attribute in function.attribute_proto}
    defaults = (row.default_value for row in schema.attributes.values())
    # The body refers to these, and does not repeat what the operator's definition says.
    function.attribute_proto.extend(row for row in defaults if row.name and row.name not in own)
    return function


def _known(values: Values, name: str) -> bytes:
    if name not in values.constants:
        return b""
    array = values.constants[name]
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    data: bytes = helper.make_tensor_type_proto(kind, array.shape).SerializeToString()
    return data


def inlined(node: Any, function: Any, prefix: str) -> list[Any]:
    """Return the nodes of a function's body in place of the node that calls it."""
    names = dict(zip(function.input, node.input, strict=False))
    names.update(zip(function.output, node.output, strict=False))
    for name in function.input:
        names.setdefault(name, "")
    given = {attribute.name: attribute for attribute in node.attribute}
    given.update({a.name: a for a in function.attribute_proto if a.name not in given})
    nodes = [_renamed(inner, names, given, prefix) for inner in function.node]
    # An output may be one of the inputs.
    return [*nodes, *_unmade_outputs(node, function, nodes, names)]


def _unmade_outputs(node: Any, function: Any, nodes: list[Any], names: dict[str, str]) -> list[Any]:
    made = {output for inner in nodes for output in inner.output}
    return [
        helper.make_node("Identity", [names[name]], [output])
        for name, output in zip(function.output, node.output, strict=False)
        if output and output not in made and name in function.input
    ]


def _renamed(inner: Any, names: dict[str, str], given: dict[str, Any], prefix: str) -> Any:
    node = onnx.NodeProto()
    node.CopyFrom(inner)
    node.name = prefix
    for field in (node.input, node.output):
        for index, name in enumerate(field):
            if name:
                field[index] = names.setdefault(name, f"{prefix}/{name}")
    del node.attribute[:]
    for attribute in inner.attribute:
        bound = _bound(attribute, names, given, prefix)
        if bound is not None:
            node.attribute.append(bound)
    return node


def _bound(attribute: Any, names: dict[str, str], given: dict[str, Any], prefix: str) -> Any | None:
    """Replace references in an attribute by the caller's values; None if the caller lacks them."""
    if attribute.ref_attr_name:
        if attribute.ref_attr_name not in given:
            return None
        bound = onnx.AttributeProto()
        bound.CopyFrom(given[attribute.ref_attr_name])
        bound.name = attribute.name
        return bound
    if not attribute.HasField("g"):
        return attribute
    bound = onnx.AttributeProto()
    bound.CopyFrom(attribute)
    inner = dict(names)  # Values of the outer body are visible inside.
    nodes = [_renamed(node, inner, given, prefix) for node in attribute.g.node]
    del bound.g.node[:]
    bound.g.node.extend(nodes)
    for value in (*bound.g.output, *bound.g.input):
        value.name = inner.get(value.name, value.name)
    return bound
