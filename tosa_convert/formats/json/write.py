"""Graph -> JSON, byte for byte `flatc --json --strict-json --raw-binary` of `flatbuffer.write`."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from functools import cache, cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.errors import lone_surrogate
from tosa_convert.formats.wire.layout import ATTRIBUTES
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import (
    Block,
    Graph,
    Operator,
    ShapeValue,
    SoftwareVersion,
    Tensor,
    Version,
)
from tosa_convert.graph.opset import OPERATORS, AttributeSpec, AttributeValue
from tosa_convert.graph.versions import MIN_READER, V1_0, features

if TYPE_CHECKING:
    import numpy.typing as npt

STEP: Final = "  "
#: Bytes that are formatted at a time; each becomes about 20 bytes of text.
BLOCK: Final = 1 << 16
#: Fewer bytes are formatted one by one.
MANY_BYTES: Final = BLOCK

#: Fills the rows of the table up to one width; UTF-8 text does not contain it.
_FILLER: Final = 0xFF
#: Characters of a piece, at the least.
PIECE: Final = 1 << 18

_TO_ESCAPE: Final = re.compile(r'[^ -~]|["\\]')
_ESCAPES: Final = {
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
    "\b": "\\b",
    "\f": "\\f",
    '"': '\\"',
    "\\": "\\\\",
}
_NAMES: Final = {row.code: tuple(a.name for a in row.attributes) for row in OPERATORS}


def write(graph: Graph, producer: SoftwareVersion) -> Iterator[bytes]:
    """Write a graph that `verify` accepts as JSON."""
    gathered: list[str] = []
    size = 0
    for piece in _Writer(graph, producer).pieces():
        if isinstance(piece, str):
            gathered.append(piece)
            size += len(piece)
            if size < PIECE:
                continue
        # Everything that is not ASCII was escaped.
        yield "".join(gathered).encode("ascii")
        gathered.clear()
        size = 0
        if isinstance(piece, bytes):
            yield piece
    yield "".join(gathered).encode("ascii")


def quoted(text: str) -> str:
    """Return a JSON string as flatc writes it: ASCII, upper-case digits; refuse a lone surrogate."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{_TO_ESCAPE.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    escape = _ESCAPES.get(character)
    if escape is not None:
        return escape
    code = ord(character)
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 | code >> 10:04X}\\u{0xDC00 | code & 0x3FF:04X}"
    if 0xD800 <= code < 0xE000:
        try:
            match.string.encode()
        except UnicodeEncodeError as error:
            raise lone_surrogate(error) from None
    return f"\\u{code:04X}"


def _listed(members: Sequence[object], indent: str) -> str:
    separator = f",\n{indent}{STEP}"
    return (
        f"[\n{f'{indent}{STEP}' if members else ''}{separator.join(map(str, members))}\n{indent}]"
    )


class ByteListFormatter:
    """Formats bytes as a list of numbers, one a line, at one indentation."""

    def __init__(self, indent: str) -> None:
        self.indent = indent
        self.lines = [f",\n{indent}{STEP}{value}".encode() for value in range(256)]

    @cached_property
    def rows(self) -> npt.NDArray[Any]:
        """Return the lines of all bytes, filled up to one length."""
        width = len(self.lines[-1])
        rows = b"".join(line.ljust(width, bytes([_FILLER])) for line in self.lines)
        return np.frombuffer(rows, f"V{width}")

    def members(self, data: memoryview) -> bytes:
        """Return a line for each byte, with the comma and line break that precede it."""
        if len(data) < MANY_BYTES:
            return b"".join(map(self.lines.__getitem__, data))
        # Fast path of the lines; equal by test test_few_bytes_are_listed_as_many
        lines: bytes = self.rows.take(np.frombuffer(data, np.uint8)).tobytes()
        return lines.translate(None, bytes([_FILLER]))

    def pieces(self, chunks: Iterator[memoryview]) -> Iterator[str | bytes]:
        """Iterate over the text of a list, of data that comes in chunks."""
        first = True
        for chunk in chunks:
            for start in range(0, len(chunk), BLOCK):
                lines = self.members(chunk[start : start + BLOCK])
                # The first member has no comma before it.
                yield b"[" + lines[1:] if first else lines
                first = False
        yield f"[\n\n{self.indent}]" if first else f"\n{self.indent}]"


class _Writer:
    """The file's text in order. Each method takes the indentation of the value that it writes."""

    def __init__(self, graph: Graph, producer: SoftwareVersion) -> None:
        self.graph = graph
        self.producer = producer
        self.attributes: dict[Hashable, str] = {}
        self.quoted = cache(quoted)
        self.formatter = cache(ByteListFormatter)

    def pieces(self) -> Iterator[str | bytes]:
        graph = self.graph
        yield f'{{\n  "version": {_version(graph.version)},\n  "regions": '
        yield from self.members(self.regions(), "  ")
        yield f',\n  "software_version": {_software_version(self.producer, "  ")}'
        if graph.version > V1_0:
            bits = features(graph)
            yield ',\n  "compatibility": {\n    "min_reader_version": '
            yield _software_version(MIN_READER, "    ")
            yield (f',\n    "features": {bits}' if bits else "") + "\n  }"
        yield "\n}\n"

    def members(
        self, members: Iterator[Iterator[str | bytes]], indent: str
    ) -> Iterator[str | bytes]:
        """Iterate over the text of a list of objects: each is pieces without its braces."""
        inner = indent + STEP
        opening = f"[\n{inner}{{\n"
        for member in members:
            yield opening
            yield from member
            opening = f"\n{inner}}},\n{inner}{{\n"
        yield f"[\n\n{indent}]" if opening[0] == "[" else f"\n{inner}}}\n{indent}]"

    def regions(self) -> Iterator[Iterator[str | bytes]]:
        for region in self.graph.regions:
            yield self.region(region.name, region.blocks)

    def region(self, name: str, blocks: list[Block]) -> Iterator[str | bytes]:
        yield f'      "name": {self.quoted(name)},\n      "blocks": '
        yield from self.members((self.block(block) for block in blocks), "      ")

    def block(self, block: Block) -> Iterator[str | bytes]:
        indent = " " * 10
        yield f'{indent}"name": {self.quoted(block.name)},\n{indent}"operators": '
        yield from self.members((self.operator(op) for op in block.operators), indent)
        yield f',\n{indent}"tensors": '
        yield from self.members((self.tensor(row) for row in block.tensors.values()), indent)
        yield f',\n{indent}"inputs": {self.names(block.inputs, indent)}'
        yield f',\n{indent}"outputs": {self.names(block.outputs, indent)}'
        yield f',\n{indent}"shapes": '
        yield from self.members((self.shape(row) for row in block.shapes.values()), indent)

    def names(self, names: Sequence[str], indent: str) -> str:
        return _listed(list(map(self.quoted, names)), indent)

    def operator(self, operator: Operator) -> Iterator[str | bytes]:
        indent = " " * 14
        spec = operator.spec
        key: Hashable = (spec.code, *map(operator.attributes.__getitem__, _NAMES[spec.code]))
        attribute = self.attributes.get(key)
        if attribute is None:
            attribute = self.attributes[key] = self.attribute(operator, indent)
        yield (
            f'{indent}"op": "{spec.encoded_as}",\n'
            f'{indent}"attribute_type": "{ATTRIBUTES[spec.code]}",\n'
            f'{indent}"attribute": {attribute},\n'
            f'{indent}"inputs": {self.names(operator.inputs, indent)},\n'
            f'{indent}"outputs": {self.names(operator.outputs, indent)},\n'
            f'{indent}"location": {{\n'
            f'{indent}  "text": {self.quoted(operator.location)}\n'
            f"{indent}}}"
        )

    def attribute(self, operator: Operator, indent: str) -> str:
        inner = indent + STEP
        lines = []
        for row in operator.spec.attributes:
            text = self.attribute_value(row, operator.attributes[row.name], inner)
            if text:
                lines.append(f'{inner}"{row.name}": {text}')
        return "{\n" + ",\n".join(lines) + (f"\n{indent}}}" if lines else f"{indent}}}")

    def attribute_value(self, row: AttributeSpec, value: AttributeValue, indent: str) -> str:
        """Return the text of a value; "" for a scalar that equals the schema's default."""
        if isinstance(value, tuple):
            return _listed(value, indent)
        if isinstance(value, bytes):
            pieces = self.formatter(indent).pieces(iter((memoryview(value),)))
            return "".join(p if isinstance(p, str) else p.decode("ascii") for p in pieces)
        if isinstance(value, str):
            return self.quoted(value)
        if isinstance(value, DType):
            return f'"{value.name}"'
        if row.enum is not None:
            return f'"{row.enum(value).name}"'
        if isinstance(value, bool):
            return "true" if value else ""
        return str(int(value)) if value else ""

    def tensor(self, tensor: Tensor) -> Iterator[str | bytes]:
        indent = " " * 14
        scale = tensor.scale
        yield (
            f'{indent}"name": {self.quoted(tensor.name)},\n'
            f'{indent}"shape": {_listed(tensor.shape or (), indent)},\n'
            f'{indent}"type": "{tensor.dtype.name}",\n'
            f'{indent}"data": '
        )
        yield from self.data(tensor.data, indent)
        yield (
            (f',\n{indent}"variable": true' if tensor.variable else "")
            + (f',\n{indent}"is_unranked": true' if tensor.shape is None else "")
            + f',\n{indent}"variable_name": {self.quoted(tensor.variable_name)}'
            + (f',\n{indent}"scale_type": "{scale.dtype.name}"' if scale is not None else "")
            + f',\n{indent}"scale_data": '
        )
        yield from self.data(None if scale is None else scale.data, indent)
        if scale is not None:
            yield f',\n{indent}"block_shape": "{scale.shape.name}"'

    def shape(self, shape: ShapeValue) -> Iterator[str | bytes]:
        indent = " " * 14
        rank = f',\n{indent}"rank": {shape.rank}' if shape.rank else ""
        yield f'{indent}"name": {self.quoted(shape.name)}{rank},\n{indent}"data": '
        yield from self.data(shape.data, indent)

    def data(self, data: Constant | None, indent: str) -> Iterator[str | bytes]:
        if data is None:
            yield f"[\n\n{indent}]"
            return
        padding = [memoryview(bytes(data.padding))] if data.padding else []
        yield from self.formatter(indent).pieces(chain(data.chunks(), padding))


def _version(version: Version) -> str:
    fields = f'{{\n    "_major": {version.major},\n    "_minor": {version.minor},\n'
    draft = "" if version.draft else ',\n    "_draft": false'
    return f'{fields}    "_patch": {version.patch}{draft}\n  }}'


def _software_version(version: SoftwareVersion, indent: str) -> str:
    inner = indent + STEP
    return (
        f'{{\n{inner}"_major": {version.major},\n{inner}"_minor": {version.minor},\n'
        f'{inner}"_micro": {version.micro},\n{inner}"_modifier": {quoted(version.modifier)}\n'
        f"{indent}}}"
    )
