"""Mutations of models: of TFLite's flatbuffers, ONNX's protocol buffers, and torch's archives."""

from __future__ import annotations

import copy
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from mutate_bytes import INTERESTING, mutate_bytes
from mutate_flatbuffer import Map
from mutate_text import mutate_text, tokens_of

from tosa_convert.formats.wire.tables import Field, Table
from tosa_convert.frontends.tflite.read import OPERATOR_NAMES

#: TensorFlow's schema, as far as mutations need it. Options of operators are numbers; which ones depends
#: on the operator.
_SCHEMA: Final = """
Model version:0:u32 codes:1:[table]:Code subgraphs:2:[table]:Subgraph description:3:string \
buffers:4:[table]:Buffer metadata_buffer:5:[i32] metadata:6:[table]:Metadata \
signatures:7:[table]:Signature
Code old_code:0:u8:Operator custom_code:1:string version:2:i32 code:3:i32:Operator
Subgraph tensors:0:[table]:Tensor inputs:1:[i32] outputs:2:[i32] operators:3:[table]:Operator \
name:4:string
Tensor shape:0:[i32] type:1:u8:Type buffer:2:u32 name:3:string quantization:4:table:Quantization \
is_variable:5:bool shape_signature:7:[i32] has_rank:8:bool
Quantization scale:2:[i32] zero_point:3:[i32] details_type:4:u8 dimension:6:i32
Operator code:0:u32 inputs:1:[i32] outputs:2:[i32] options_type:3:u8 options:4:table:Options \
custom_options:5:[u8] format:6:u8
Options first:0:i32 second:1:i32 third:2:i32 fourth:3:i32 fifth:4:i32 sixth:5:i32
Buffer data:0:[u8]
Metadata name:0:string buffer:1:u32
Signature inputs:0:[table]:TensorMap outputs:1:[table]:TensorMap key:2:string subgraph:4:u32
TensorMap name:0:string tensor:1:u32
"""
_ENUMS: Final = {
    "Operator": {name: code for code, name in enumerate(OPERATOR_NAMES)},
    "Type": {str(code): code for code in range(20)},
}


def _tables() -> Iterator[tuple[str, Table]]:
    for line in _SCHEMA.strip().splitlines():
        name, *fields = line.split()
        rows = []
        for text in fields:
            field, slot, kind, *of = text.split(":")
            other = of[0] if of else ""
            enum, table = ("", other) if "table" in kind else (other, "")
            rows.append(Field(field, int(slot), kind, enum=enum, table=table))
        yield name, Table(name, tuple(rows))


_TABLES: Final = dict(_tables())


def tflite_map(data: bytes) -> Map:
    """Return the positions in a TFLite model by what they mean."""
    return Map(data, _TABLES, _ENUMS, "Model")


# -- protocol buffers ------------------------------------------------------------------------------

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
#: Messages within messages that are taken apart.
_DEPTH: Final = 8
_TEXTS: Final = (
    b"",
    b"\n",
    b"\xff\xfe",
    b"/",
    b"../../etc/passwd",
    b'"',
    b"%0",
    b"x" * 5000,
    b"\0",
)


@dataclass(slots=True)
class ProtobufField:
    """A field: a number, bytes, or the fields of a message."""

    number: int
    wire: int
    value: int | bytes | list[ProtobufField]


class _DamagedError(ValueError):
    """The bytes are not a message."""


def protobuf_fields(data: bytes, depth: int = 0) -> list[ProtobufField]:
    """Return the fields of a message. Bytes that could be a message are taken for one.

    Raises:
        ValueError: the bytes are not a message.
    """
    found: list[ProtobufField] = []
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        value: int | bytes | list[ProtobufField]
        if wire == _VARINT:
            value, position = _varint(data, position)
        elif wire in (_BYTES, _FIXED_64, _FIXED_32):
            size = {_FIXED_64: 8, _FIXED_32: 4}.get(wire, 0)
            if wire == _BYTES:
                size, position = _varint(data, position)
            if not number or size > len(data) - position:
                raise _DamagedError
            value = data[position : position + size]
            position += size
            is_message = not value.isascii() or value[:1] in b"\x08\x0a\x12\x1a\x22"
            if wire == _BYTES and depth < _DEPTH and is_message:
                value = _inner(value, depth)
        else:
            raise _DamagedError
        found.append(ProtobufField(number, wire, value))
    return found


def _inner(data: bytes, depth: int) -> bytes | list[ProtobufField]:
    try:
        return protobuf_fields(data, depth + 1)
    except ValueError:
        return data


def _varint(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for shift, byte in enumerate(data[position : position + 10]):
        number |= (byte & 127) << (7 * shift)
        if byte < 128:
            return number, position + shift + 1
    raise _DamagedError


def protobuf_bytes(fields: list[ProtobufField]) -> bytes:
    """Return the bytes of a message with these fields."""
    parts = []
    for field in fields:
        parts.append(_varint_bytes(field.number << 3 | field.wire))
        if isinstance(field.value, int):
            parts.append(_varint_bytes(field.value))
            continue
        data = field.value if isinstance(field.value, bytes) else protobuf_bytes(field.value)
        if field.wire == _BYTES:
            parts.append(_varint_bytes(len(data)))
        parts.append(data)
    return b"".join(parts)


def _varint_bytes(number: int) -> bytes:
    number &= (1 << 64) - 1
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def mutate_protobuf(data: bytes, random: Random) -> bytes:
    """Return a mutant of a message, after one to four mutations."""
    if random.random() < 0.1:
        changed = bytearray(data)
        mutate_bytes(changed, random, random.choice((1, 2, 4)))
        return bytes(changed)
    fields = protobuf_fields(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 4))):
        lists = list(_lists(fields))
        _mutate_fields(random.choice([one for one in lists if one] or [fields]), lists, random)
    return protobuf_bytes(fields)


def _lists(fields: list[ProtobufField]) -> Iterator[list[ProtobufField]]:
    """Yield the fields of the message and of each message in it."""
    yield fields
    for field in fields:
        if isinstance(field.value, list):
            yield from _lists(field.value)


def _mutate_fields(
    fields: list[ProtobufField], lists: list[list[ProtobufField]], random: Random
) -> None:
    """Change one field of a message in place. lists: those of all messages."""
    if not fields:
        fields.append(ProtobufField(random.randrange(1, 20), _VARINT, 1))
    at = random.randrange(len(fields))
    field = fields[at]
    match random.randrange(12):
        case 0:
            del fields[at]
        case 1:
            fields.insert(at, copy.deepcopy(field))
        case 2:
            field.number = random.randrange(1, 30)
        case 3:
            other = random.choice(random.choice([one for one in lists if one]))
            fields.insert(random.randrange(len(fields) + 1), copy.deepcopy(other))
        case 4 if isinstance(field.value, list):
            fields[at] = _nested(field, random.choice((2, 10, 40)))
        case 5:
            random.shuffle(fields)
        case 6 | 7 | 8:
            # Another value of the same kind, such as the name of another tensor.
            same = [
                one
                for row in lists
                for one in row
                if one.number == field.number and one.wire == field.wire
            ]
            field.value = copy.deepcopy(random.choice(same).value)
        case _:
            _change(field, random)


def _nested(field: ProtobufField, depth: int) -> ProtobufField:
    """Return the field in a message of its number, in one of its number, and so on."""
    value = field.value
    for _ in range(depth):
        value = [ProtobufField(field.number, _BYTES, value)]
    return ProtobufField(field.number, _BYTES, value)


def _change(field: ProtobufField, random: Random) -> None:
    if isinstance(field.value, int):
        near = field.value + random.choice((-2, -1, 1, 2))
        field.value = random.choice((near, near, random.randrange(30), random.choice(INTERESTING)))
    elif isinstance(field.value, bytes):
        data = bytearray(random.choice(_TEXTS) if random.random() < 0.2 else field.value)
        mutate_bytes(data, random, random.choice((1, 1, 2)))
        size = {_FIXED_64: 8, _FIXED_32: 4}.get(field.wire)
        field.value = bytes(data) if size is None else bytes(data[:size]).ljust(size, b"\0")


# -- archives --------------------------------------------------------------------------------------

_NAMES: Final = ("../../x", "/tmp/x", "model.json", "", "a\0b", "data/aotinductor/m/x.so")


def members(data: bytes) -> dict[str, bytes]:
    """Return the files of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(files: dict[str, bytes], *, compressed: bool = False) -> bytes:
    """Return an archive with these files."""
    made = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return made.getvalue()


def mutate_archive(files: dict[str, bytes], random: Random) -> bytes:
    """Return a mutant of an archive: of its files, of their names, or of its bytes."""
    files = dict(files)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if not files:
            break
        name = random.choice(list(files))
        texts = [one for one in files if one.endswith(".json")]
        match random.randrange(10):
            case 0:
                del files[name]
            case 1:
                files[random.choice((*_NAMES, *files))] = files.pop(name)
            case 2:
                files[name] = random.choice(list(files.values()))
            case 3 | 4:
                changed = bytearray(files[name])
                mutate_bytes(changed, random, random.choice((1, 2, 4)))
                files[name] = bytes(changed)
            case _ if texts:
                text = random.choice(texts)
                files[text] = mutate_text(tokens_of(files[text]), random, mlir=False)
    data = archive_of(files, compressed=random.random() < 0.1)
    if random.random() < 0.1:
        changed = bytearray(data)
        mutate_bytes(changed, random, random.choice((1, 2, 4)))
        data = bytes(changed)
    return data
