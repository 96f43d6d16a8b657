"""Operators, inputs and outputs of an ONNX file, read by the fields of onnx.proto without onnx."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tosa_convert.frontends.protobuf import Value, fields, message, text

#: Field of a TypeProto -> what a value is if it is not a tensor.
_KINDS: Final = {4: "a sequence", 5: "a map", 8: "a sparse tensor", 9: "an optional value"}
RANDOM: Final = frozenset(
    (
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"),
        "RandomUniformLike",
    )
)
#: Others of which no form lowers: what they give has a size that the data decides, or is a text.
NEVER_LOWERED: Final = frozenset(
    (
        *("Compress", "ImageDecoder", "NonMaxSuppression", "NonZero", "Unique"),
        *("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"),
    )
)
#: Operators whose results are constants if the sizes of their operands are fixed.
_SIZES: Final = frozenset(("Shape", "Size"))
_OWN_DOMAINS: Final = ("", "ai.onnx")


@dataclass(slots=True)
class OnnxValue:
    """An input or an output.

    kind: what it is if it is not a tensor; else "". element: ONNX's number of the element type, 0 if
    unknown. shape: its sizes; a text, which can be empty, where one is not fixed; None if unknown.
    """

    name: str = ""
    kind: str = ""
    element: int = 0
    shape: tuple[int | str, ...] | None = None

    @property
    def is_open(self) -> bool:
        """Return whether a size is not fixed."""
        return any(isinstance(size, str) for size in self.shape or ())


@dataclass(slots=True)
class OnnxHeader:
    """A model. operators: of its nodes, in order, without those of functions and inner graphs.

    inputs: in order, without initializers.
    not_lowered: the operators of which no form lowers, without those whose operands do not depend on an
        input: onnxruntime folds these.
    """

    operators: list[str] = field(default_factory=list)
    inputs: list[OnnxValue] = field(default_factory=list)
    outputs: list[OnnxValue] = field(default_factory=list)
    not_lowered: list[str] = field(default_factory=list)


def read_onnx(data: memoryview) -> OnnxHeader:
    """Read the header of a file; raises ValueError if it is not a protocol buffer."""
    model = OnnxHeader()
    constants: set[str] = set()
    graphs = [message(value) for number, value in fields(data) if number == 7]
    for number, value in (row for graph in graphs for row in fields(graph)):
        if number == 5:
            constants.update(text(part) for one, part in fields(message(value)) if one == 8)
        elif number == 11:
            model.inputs.append(_value(message(value)))
        elif number == 12:
            model.outputs.append(_value(message(value)))
    model.inputs = [value for value in model.inputs if value.name not in constants]
    computed = {value.name for value in model.inputs}
    for number, value in (row for graph in graphs for row in fields(graph)):
        if number == 1:
            _read_node(model, _node(message(value)), computed)
    return model


class _Node(NamedTuple):
    """A call of an operator. operator: "" for none."""

    operator: str
    domain: str
    inputs: list[str]
    outputs: list[str]


def _node(data: memoryview) -> _Node:
    found: dict[int, list[str]] = {}
    for number, part in fields(data):
        if number in (1, 2, 4, 7):
            found.setdefault(number, []).append(text(part))
    operator, domain = ("".join(found.get(number, ())[-1:]) for number in (4, 7))
    return _Node(operator, domain, found.get(1, []), found.get(2, []))


def _read_node(model: OnnxHeader, node: _Node, computed: set[str]) -> None:
    """Note a node; `computed` has the names of the values that depend on an input, and gets its own."""
    if node.operator:
        model.operators.append(node.operator)
    is_own = node.domain in _OWN_DOMAINS
    if is_own and node.operator in RANDOM:
        model.not_lowered.append(node.operator)
    elif node.operator not in _SIZES and not computed.isdisjoint(node.inputs):
        computed.update(node.outputs)
        if is_own and node.operator in NEVER_LOWERED:
            model.not_lowered.append(node.operator)


def _value(data: memoryview) -> OnnxValue:
    found = OnnxValue()
    for number, value in fields(data):
        if number == 1:
            found.name = text(value)
        elif number == 2:
            for kind, inner in fields(message(value)):
                if kind == 1:
                    _read_tensor_type(found, message(inner))
                found.kind = _KINDS.get(kind, found.kind)
    return found


def _read_tensor_type(found: OnnxValue, data: memoryview) -> None:
    for number, value in fields(data):
        if number == 1:
            found.element = _number(value)
        elif number == 2:
            sizes = [dict(fields(message(dim))) for n, dim in fields(message(value)) if n == 1]
            found.shape = tuple(
                _number(size[1]) if 1 in size else text(size.get(2, memoryview(b"")))
                for size in sizes
            )


def _number(value: Value) -> int:
    if isinstance(value, int):
        return value
    raise ValueError("a field has bytes, expected a number")
