"""Graph -> flatbuffer, laid out forward: tables first, then strings, then constants' data.

Offsets in a flatbuffer only point forward (vtables excepted). So tables are packed in one pass with
references left open, what they refer to follows, and the references are filled in at the end, all
at once. Weights never pass through this: the plan only notes where each constant goes, and its
buffer is copied once, into the file.

Equal attribute tables, locations, shapes and strings are stored once, as the format allows.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tosa_convert.errors import fail
from tosa_convert.flatbuffer.layout import ENUMS, IDENTIFIER, TABLES
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Block, Graph, Operator, Shape, SoftwareVersion, Tensor, Version
from tosa_convert.graph.opset import OPERATORS, Attribute, AttributeValue
from tosa_convert.graph.versions import V1_0, features

#: A flatbuffer addresses its contents with signed 32-bit offsets.
SIZE_LIMIT: Final = 2**31 - 1
#: Alignment of constants' data in the file, in bytes; the schema asks for 8.
DATA_ALIGN: Final = 16
#: Alignment of data behind the flatbuffer, in bytes; what readers in the field were tested with.
TAIL_ALIGN: Final = 8
#: The first schema release that has everything of TOSA 1.1 that we write.
MIN_READER: Final = SoftwareVersion(2026, 8, 0)

_U32: Final = struct.Struct("<I")
_OPERATOR: Final = TABLES["TosaOperator"].shape(
    ("attribute_type", "op", "attribute", "inputs", "outputs", "location")
)
_LOCATION: Final = TABLES["OpLocation"].shape(("text",))
_CODES: Final = {
    row.code: (ENUMS["Op"][row.encoded_as], row.code) for row in OPERATORS
}
_TENSOR_FIELDS: Final = ("name", "shape", "type", "data", "variable_name", "scale_data")
_OFFSET_FIELDS: Final = ("name", "shape", "type", "variable_name", "offset", "size")
_ZEROS: Final = memoryview(bytes(2 * DATA_ALIGN))


@dataclass(slots=True)
class Plan:
    """A file that is laid out but not written: its tables, and where each constant goes.

    size: bytes of the whole file. out_of_line: the data lies behind the flatbuffer.
    """

    head: bytearray
    data: list[tuple[int, Constant]]
    size: int
    out_of_line: bool

    def pieces(self) -> Iterator[bytes | bytearray | memoryview]:
        """The file's bytes in order; constants come as views of their own buffers."""
        yield self.head
        position = len(self.head)
        for start, constant in self.data:
            if self.out_of_line:
                yield _ZEROS[: start - position]
                padding = 0
            else:
                padding = constant.padding
                yield _ZEROS[: start - 4 - position]
                yield _U32.pack(constant.nbytes + padding)
            yield from constant.chunks()
            yield _ZEROS[:padding]
            position = start + constant.nbytes + padding


def plan(graph: Graph, producer: SoftwareVersion, *, out_of_line: bool | None = None) -> Plan:
    """Lay out a graph that `verify` accepts.

    out_of_line: put the data behind the flatbuffer (`offset` and `size` of a tensor); by default
        only where the file would otherwise reach 2 GiB.

    Raises TosaConvertError("too-large") if even so it does not fit.
    """
    if not out_of_line:
        result = _Writer(graph, producer, out_of_line=False).plan()
        if result.size < SIZE_LIMIT:
            return result
        if out_of_line is False:
            raise fail(
                "too-large",
                "",
                f"the file would have {result.size} bytes, a flatbuffer ends at {SIZE_LIMIT}",
                "put the weights behind it (weights='offset') or beside it (weights='npy')",
            )
    result = _Writer(graph, producer, out_of_line=True).plan()
    if len(result.head) >= SIZE_LIMIT:
        raise fail(
            "too-large",
            "",
            f"without weights the file still has {len(result.head)} bytes, "
            f"a flatbuffer ends at {SIZE_LIMIT}",
        )
    return result


class _Writer:
    def __init__(self, graph: Graph, producer: SoftwareVersion, *, out_of_line: bool) -> None:
        self.graph = graph
        self.producer = producer
        self.out_of_line = out_of_line
        self.out = bytearray()
        self.vtables: dict[bytes, int] = {}
        # References: the field at ref_at[i] holds the distance to object ref_to[i].
        self.ref_at: list[int] = []
        self.ref_to: list[int] = []
        self.object_at: list[int] = []
        self.strings: dict[str, int] = {}
        self.vectors: dict[tuple[int, ...], int] = {}
        self.blobs: dict[bytes, int] = {}
        self.attributes: dict[Hashable, tuple[int, Operator]] = {}
        self.locations: dict[str, int] = {}
        self.constants: list[tuple[int, Constant]] = []
        #: Where a tensor's offset field is, with the constant it is for (None: it has none).
        self.tails: list[tuple[int, Constant | None]] = []
        self.no_data = self.new_object()

    # -- objects that are placed later -------------------------------------------------------

    def new_object(self) -> int:
        self.object_at.append(-1)
        return len(self.object_at) - 1

    def refer(self, at: int, to: int) -> None:
        self.ref_at.append(at)
        self.ref_to.append(to)

    def place(self, which: int) -> None:
        self.object_at[which] = len(self.out)

    def string(self, text: str) -> int:
        which = self.strings.get(text)
        if which is None:
            which = self.strings[text] = self.new_object()
        return which

    def vector(self, values: tuple[int, ...]) -> int:
        which = self.vectors.get(values)
        if which is None:
            which = self.vectors[values] = self.new_object()
        return which

    # -- placing ------------------------------------------------------------------------------

    def align(self, to: int, ahead: int = 0) -> None:
        """Pad so that the byte `ahead` bytes further is a multiple of `to`."""
        self.out += bytes(-(len(self.out) + ahead) % to)

    def vtable(self, code: bytes) -> int:
        position = self.vtables.get(code)
        if position is None:
            self.align(2)
            position = self.vtables[code] = len(self.out)
            self.out += code
        return position

    def table(
        self, name: str, scalars: dict[str, int], references: dict[str, int]
    ) -> dict[str, int]:
        """Append a table; returns where each of its fields lies."""
        shape = TABLES[name].shape((*scalars, *references))
        vtable = self.vtable(shape.vtable)
        self.align(shape.align)
        start = len(self.out)
        self.out += shape.pack.pack(start - vtable, *(scalars.get(n, 0) for n in shape.names))
        for field, which in references.items():
            self.refer(start + shape.offsets[field], which)
        return {field: start + offset for field, offset in shape.offsets.items()}

    def table_object(
        self, which: int, name: str, scalars: dict[str, int], references: dict[str, int]
    ) -> dict[str, int]:
        fields = self.table(name, scalars, references)
        shape = TABLES[name].shape((*scalars, *references))
        self.object_at[which] = len(self.out) - shape.size
        return fields

    def vector_of(self, which: int, members: list[int]) -> None:
        """Append a vector of references."""
        self.align(4)
        self.place(which)
        self.out += _U32.pack(len(members))
        start = len(self.out)
        self.out += bytes(4 * len(members))
        self.ref_at.extend(range(start, start + 4 * len(members), 4))
        self.ref_to.extend(members)

    def names(self, names: list[str]) -> int:
        which = self.new_object()
        self.vector_of(which, [self.string(name) for name in names])
        return which

    # -- the file -----------------------------------------------------------------------------

    def plan(self) -> Plan:
        self.out += bytes(4) + IDENTIFIER
        root = self.new_object()
        self.refer(0, root)
        self.header(root)
        for which, operator in self.attributes.values():
            self.attribute_table(which, operator)
        vtable = self.vtable(_LOCATION.vtable) if self.locations else 0
        self.align(4)
        for text, which in self.locations.items():
            self.place(which)
            start = len(self.out)
            self.out += _LOCATION.pack.pack(start - vtable, 0)
            self.refer(start + _LOCATION.offsets["text"], self.string(text))
        self.place_vectors()
        self.place_strings()
        self.align(4)
        if self.out_of_line:
            return self.finish_out_of_line()
        return self.finish_embedded()

    def header(self, root: int) -> None:
        graph = self.graph
        parts = [self.new_object() for _ in range(3)]
        references = dict(zip(("version", "regions", "software_version"), parts, strict=True))
        bits = features(graph)
        compatibility = self.new_object()
        if graph.version > V1_0:
            references["compatibility"] = compatibility
        self.table_object(root, "TosaGraph", {}, references)
        self.table_object(parts[0], "Version", _version_fields(graph.version), {})
        self.software_version(parts[2], self.producer)
        if graph.version > V1_0:
            reader = self.new_object()
            scalars = {"features": bits} if bits else {}
            self.table_object(
                compatibility,
                "SerializationCompatibility",
                scalars,
                {"min_reader_version": reader},
            )
            self.software_version(reader, MIN_READER)
        regions = [self.new_object() for _ in graph.regions]
        self.vector_of(parts[1], regions)
        for which, region in zip(regions, graph.regions, strict=True):
            blocks = [self.new_object() for _ in region.blocks]
            vector = self.new_object()
            self.table_object(
                which, "TosaRegion", {}, {"name": self.string(region.name), "blocks": vector}
            )
            self.vector_of(vector, blocks)
            for block_object, block in zip(blocks, region.blocks, strict=True):
                self.block(block_object, block)

    def software_version(self, which: int, version: SoftwareVersion) -> None:
        self.table_object(
            which,
            "SoftwareVersion",
            {"_major": version.major, "_minor": version.minor, "_micro": version.micro},
            {"_modifier": self.string(version.modifier)},
        )

    def block(self, which: int, block: Block) -> None:
        vectors = {
            name: self.new_object() for name in ("operators", "tensors", "inputs", "outputs", "shapes")
        }
        self.table_object(which, "TosaBasicBlock", {}, {"name": self.string(block.name), **vectors})
        self.vector_of(vectors["inputs"], [self.string(name) for name in block.inputs])
        self.vector_of(vectors["outputs"], [self.string(name) for name in block.outputs])
        self.operators(vectors["operators"], block.operators)
        members = [self.new_object() for _ in block.tensors]
        self.vector_of(vectors["tensors"], members)
        for member, tensor in zip(members, block.tensors.values(), strict=True):
            self.tensor(member, tensor)
        members = [self.new_object() for _ in block.shapes]
        self.vector_of(vectors["shapes"], members)
        for member, shape in zip(members, block.shapes.values(), strict=True):
            self.shape(member, shape)

    def operators(self, which: int, operators: list[Operator]) -> None:
        """The operators' tables and name lists, the longest loop of all: no calls but `pack`."""
        first = len(self.object_at)
        self.object_at.extend([-1] * len(operators))
        self.vector_of(which, list(range(first, first + len(operators))))
        vtable = self.vtable(_OPERATOR.vtable)
        self.align(4)
        out, ref_at, ref_to, object_at = self.out, self.ref_at, self.ref_to, self.object_at
        pack, size, at = _OPERATOR.pack.pack, _OPERATOR.size, _OPERATOR.offsets
        order = {name: position for position, name in enumerate(_OPERATOR.names)}
        assert _OPERATOR.names[-1] == "attribute_type" and order["op"] == 0
        attribute_at, location_at = at["attribute"], at["location"]
        inputs_at, outputs_at = at["inputs"], at["outputs"]
        strings, locations = self.strings, self.locations
        pack_u32 = _U32.pack
        position = len(out)
        for index, operator in enumerate(operators, first):
            spec, inputs, outputs = operator.spec, operator.inputs, operator.outputs
            object_at[index] = position
            op_code, attribute_type = _CODES[spec.code]
            below = position + size
            behind = below + 4 + 4 * len(inputs)
            out += pack(
                position - vtable,
                op_code,
                0,
                below - position - inputs_at,
                behind - position - outputs_at,
                0,
                attribute_type,
            )
            out += pack_u32(len(inputs))
            out += bytes(4 * len(inputs))
            out += pack_u32(len(outputs))
            out += bytes(4 * len(outputs))
            key: Hashable
            if spec.attributes:
                key = (spec.code, *map(operator.attributes.__getitem__, _NAMES[spec.code]))
            else:
                key = spec.code
            known = self.attributes.get(key)
            if known is None:
                known = self.attributes[key] = (self.new_object(), operator)
            text = operator.location
            place = locations.get(text)
            if place is None:
                place = locations[text] = self.new_object()
            ref_at.append(position + attribute_at)
            ref_to.append(known[0])
            ref_at.append(position + location_at)
            ref_to.append(place)
            for names, start in ((inputs, below + 4), (outputs, behind + 4)):
                for name in names:
                    string = strings.get(name)
                    if string is None:
                        string = strings[name] = self.new_object()
                    ref_at.append(start)
                    ref_to.append(string)
                    start += 4
            position = behind + 4 + 4 * len(outputs)

    def attribute_table(self, which: int, operator: Operator) -> None:
        spec = operator.spec
        scalars: dict[str, int] = {}
        references: dict[str, int] = {}
        for row in spec.attributes:
            value = operator.attributes[row.name]
            if row.kind in ("i32s", "element", "bytes", "string", "region"):
                references[row.name] = self.attribute_object(row, value)
            else:
                number = value.code if isinstance(value, DType) else int(value)  # type: ignore[arg-type]
                # Readers take the schema's default for an absent field, so it need not be stored.
                if number:
                    scalars[row.name] = number
        self.table_object(which, f"{spec.table}Attribute", scalars, references)

    def attribute_object(self, row: Attribute, value: AttributeValue) -> int:
        if isinstance(value, tuple):
            return self.vector(value)
        if isinstance(value, bytes):
            which = self.blobs.get(value)
            if which is None:
                which = self.blobs[value] = self.new_object()
            return which
        return self.string(str(value))

    def tensor(self, which: int, tensor: Tensor) -> None:
        scalars = {"type": tensor.dtype.code}
        if tensor.variable:
            scalars["variable"] = 1
        if tensor.shape is None:
            scalars["is_unranked"] = 1
        if tensor.scale is not None:
            scalars["scale_type"] = tensor.scale.dtype.code
            scalars["block_shape"] = int(tensor.scale.shape)
        references = {
            "name": self.string(tensor.name),
            "shape": self.vector(tensor.shape or ()),
            "variable_name": self.string(tensor.variable_name),
        }
        scales = None if tensor.scale is None else tensor.scale.data
        if self.out_of_line:
            scalars["offset"] = scalars["size"] = 0
            if tensor.scale is not None:
                scalars["scale_offset"] = scalars["scale_size"] = 0
        else:
            references["data"] = self.data_object(tensor.data)
            references["scale_data"] = self.data_object(scales)
        fields = self.table_object(which, "TosaTensor", scalars, references)
        if self.out_of_line:
            # The field behind an offset is its size: both are 8 bytes wide and in slot order.
            self.tails.append((fields["offset"], tensor.data))
            if tensor.scale is not None:
                self.tails.append((fields["scale_offset"], scales))

    def shape(self, which: int, shape: Shape) -> None:
        scalars = {"rank": shape.rank} if shape.rank else {}
        # Sizes are part of the program, not weights: they stay inside in every form.
        data = self.data_object(shape.data)
        self.table_object(which, "TosaShape", scalars, {"name": self.string(shape.name), "data": data})

    def data_object(self, data: Constant | None) -> int:
        if data is None:
            return self.no_data
        which = self.new_object()
        self.constants.append((which, data))
        return which

    # -- what tables refer to -----------------------------------------------------------------

    def place_vectors(self) -> None:
        self.align(4)
        for values, which in self.vectors.items():
            self.place(which)
            self.out += struct.pack(f"<I{len(values)}i", len(values), *values)
        for blob, which in self.blobs.items():
            self.align(8, ahead=4)
            self.place(which)
            self.out += _U32.pack(len(blob))
            self.out += blob

    def place_strings(self) -> None:
        self.align(4)
        out, object_at = self.out, self.object_at
        pack_u32 = _U32.pack
        position = len(out)
        for text, which in self.strings.items():
            object_at[which] = position
            encoded = text.encode("utf-8", "surrogateescape")
            # A terminating zero, and on to the next multiple of 4.
            tail = 4 - len(encoded) % 4
            out += pack_u32(len(encoded))
            out += encoded
            out += bytes(tail)
            position += 4 + len(encoded) + tail

    def finish_embedded(self) -> Plan:
        self.align(8, ahead=4)
        self.place(self.no_data)
        self.out += bytes(4)
        position = len(self.out)
        data: list[tuple[int, Constant]] = []
        for which, constant in self.constants:
            # A vector's length stands right before its elements.
            start = position + 4
            start += -start % DATA_ALIGN
            self.object_at[which] = start - 4
            data.append((start, constant))
            position = start + constant.nbytes + constant.padding
        return self.finished(data, position)

    def finish_out_of_line(self) -> Plan:
        self.align(8, ahead=4)
        self.place(self.no_data)
        self.out += bytes(4)
        for which, constant in self.constants:
            self.align(DATA_ALIGN, ahead=4)
            self.place(which)
            self.out += _U32.pack(constant.nbytes)
            for chunk in constant.chunks():
                self.out += chunk
        self.align(TAIL_ALIGN)
        position = len(self.out)
        data: list[tuple[int, Constant]] = []
        for field, tail in self.tails:
            size = 0 if tail is None else tail.nbytes
            position += -position % TAIL_ALIGN
            struct.pack_into("<QQ", self.out, field, position, size)
            if tail is not None:
                data.append((position, tail))
                position += size
        return self.finished(data, position)

    def finished(self, data: list[tuple[int, Constant]], size: int) -> Plan:
        """Fill in the references."""
        at = np.array(self.ref_at, np.int64)
        distance = np.array(self.object_at, np.int64)[np.array(self.ref_to, np.int64)] - at
        words = np.frombuffer(self.out, "<u4", count=len(self.out) // 4)
        # A distance beyond 32 bits only occurs in a plan that is too large and never written.
        words[at >> 2] = distance & 0xFFFFFFFF
        del words
        return Plan(self.out, data, size, self.out_of_line)


_NAMES: Final = {row.code: tuple(a.name for a in row.attributes) for row in OPERATORS}


def _version_fields(version: Version) -> dict[str, int]:
    fields = {"_major": version.major, "_minor": version.minor, "_patch": version.patch}
    if not version.draft:
        fields["_draft"] = 0
    return fields
