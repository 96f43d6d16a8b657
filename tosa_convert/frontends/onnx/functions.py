"""Inlines operators that ONNX itself defines by other operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    names = dict.fromkeys(function.input, "")
    names.update(zip(function.input, node.input, strict=False))
    names.update(zip(function.output, node.output, strict=False))
    given = {attribute.name: attribute for attribute in node.attribute}
    given.update({a.name: a for a in function.attribute_proto if a.name not in given})
    nodes = copied(function.node, names, prefix, given)
    for inner in nodes:
        inner.name = prefix
    made = {output for inner in nodes for output in inner.output}
    # An output may be one of the inputs.
    return nodes + [
        helper.make_node("Identity", [names[name]], [output])
        for name, output in zip(function.output, node.output, strict=False)
        if output and output not in made and name in function.input
    ]


def copied(
    nodes: Iterable[Any], names: dict[str, str], prefix: str, given: Mapping[str, Any] | None = None
) -> list[Any]:
    """Copy the nodes of a body. Values that they make get a prefix, and are added to `names`."""
    found = []
    for inner in nodes:
        node = _bound(inner, names, given or {})
        for index, name in enumerate(node.output):
            if name:
                node.output[index] = names.setdefault(name, f"{prefix}/{name}")
        found.append(node)
    return found


def _bound(inner: Any, names: Mapping[str, str], given: Mapping[str, Any]) -> Any:
    """Copy a node, with what names and references to attributes stand for, also in its graphs."""
    node = onnx.NodeProto()
    node.CopyFrom(inner)
    node.input[:] = [names.get(name, name) for name in inner.input]
    del node.attribute[:]
    for attribute in inner.attribute:
        if attribute.ref_attr_name and attribute.ref_attr_name not in given:
            continue
        bound = node.attribute.add()
        bound.CopyFrom(given[attribute.ref_attr_name] if attribute.ref_attr_name else attribute)
        bound.name = attribute.name
        if attribute.HasField("g"):
            _bind_graph(bound.g, names, given)
    return node


def _bind_graph(graph: Any, names: Mapping[str, str], given: Mapping[str, Any]) -> None:
    """Bind what a nested graph uses of the graphs around it, in place."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {output for node in graph.node for output in node.output}
    outer = {name: new for name, new in names.items() if name not in own}
    nodes = [_bound(node, outer, given) for node in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    for value in graph.output:
        value.name = outer.get(value.name, value.name)
