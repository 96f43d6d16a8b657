"""Read frozen GraphDefs of TensorFlow without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tosa_convert.frontends.protobuf import Value, fields
from tosa_convert.records import NamedTuple

#: Number of TensorFlow's DataType -> name of the element type.
_TYPES: Final = {
    0: "",
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "string",
    8: "complex64",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    17: "uint16",
    18: "complex128",
    19: "float16",
    22: "uint32",
    23: "uint64",
}
#: Operators that compute nothing: inputs, weights, and what orders others.
_NO_OPERATOR: Final = frozenset(("Placeholder", "Const", "NoOp"))


class Node(NamedTuple):
    """A node: its name, operator, inputs, and encoded attributes."""

    name: str
    operator: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, memoryview]


class GraphDefHeader(NamedTuple):
    """The main graph: its operators in order, its inputs, and the names of its outputs.

    An input has a name, an element type, and sizes; None for an unknown rank.
    """

    operators: list[str]
    inputs: list[tuple[str, str, tuple[int | str, ...] | None]]
    outputs: list[str]


def read_graph_def(data: memoryview) -> GraphDefHeader:
    r"""Read the main graph; functions in its library are left out.

    Example:
        >>> read_graph_def(memoryview(b"\n\x10\n\1x\x12\x0bPlaceholder")).inputs
        [('x', '', None)]
    """
    nodes = [_node(_message(value)) for number, value in fields(data) if number == 1]
    used = {name.lstrip("^").partition(":")[0] for node in nodes for name in node.inputs}
    computed = [node for node in nodes if node.operator not in _NO_OPERATOR]
    return GraphDefHeader(
        [node.operator for node in computed],
        [_input(node) for node in nodes if node.operator == "Placeholder"],
        [node.name for node in computed if node.name not in used],
    )


def _node(message: memoryview) -> Node:
    name, operator, inputs = "", "", []
    attributes: dict[str, memoryview] = {}
    for number, value in fields(message):
        if number == 1:
            name = _text(value)
        elif number == 2:
            operator = _text(value)
        elif number == 3:
            inputs.append(_text(value))
        elif number == 5:
            held = dict(fields(_message(value)))
            attributes[_text(held.get(1, memoryview(b"")))] = _message(held.get(2, memoryview(b"")))
    if not operator:
        raise ValueError("a node has no operator")
    return Node(name, operator, tuple(inputs), attributes)


def _input(node: Node) -> tuple[str, str, tuple[int | str, ...] | None]:
    held = {key: dict(fields(node.attributes.get(key, b""))) for key in ("dtype", "shape")}
    number = held["dtype"].get(6, 0)
    dtype = _TYPES.get(number, f"type {number}") if isinstance(number, int) else ""
    shape = held["shape"].get(7)
    return node.name, dtype, None if shape is None else _sizes(_message(shape))


def _sizes(message: memoryview) -> tuple[int | str, ...] | None:
    if any(number == 3 and value for number, value in fields(message)):
        return None
    return tuple(_size(value) for number, value in fields(message) if number == 2)


def _size(value: Value) -> int | str:
    found = dict(_numbers(_message(value))).get(1, 0)
    return "?" if found >> 63 else found  # A negative number has 64 bits.


def _numbers(message: memoryview) -> Iterator[tuple[int, int]]:
    return ((number, value) for number, value in fields(message) if isinstance(value, int))


def _message(value: Value) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a field is a number, expected a message")
    return value


def _text(value: Value) -> str:
    return bytes(_message(value)).decode(errors="replace")
