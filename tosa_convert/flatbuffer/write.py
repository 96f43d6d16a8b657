"""Graph -> flatbuffer, laid out forward: tables first, then strings, then constants' data.

Offsets in a flatbuffer only point forward (vtables excepted). So tables are packed in one pass with
references left open, what they refer to follows, and the references are filled in at the end, all
at once. Weights never pass through this: the plan only notes where each constant goes, and its
buffer is copied once, into the file.

Equal attribute tables, locations, shapes and strings are stored once, as the format allows.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np

from tosa_convert.errors import fail, lone_surrogate
from tosa_convert.flatbuffer.interning import Positions, Space
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import (
    Block,
    Graph,
    Operator,
    ShapeValue,
    SoftwareVersion,
    Tensor,
    Version,
)
from tosa_convert.graph.opset import OPERATORS
from tosa_convert.graph.versions import MIN_READER, V1_0, features
from tosa_convert.wire.layout import ENUMS, IDENTIFIER, TABLES
from tosa_convert.wire.tables import Shape as TableShape

#: A flatbuffer addresses its contents with signed 32-bit offsets.
SIZE_LIMIT: Final = 2**31 - 1
#: Alignment of constants' data in the file, in bytes; the schema asks for 8.
DATA_ALIGN: Final = 16
#: Alignment of data behind the flatbuffer, in bytes; what readers in the field were tested with.
TAIL_ALIGN: Final = 8

_U32: Final = struct.Struct("<I")
_OPERATOR: Final = TABLES["TosaOperator"].shape(
    ("attribute_type", "op", "attribute", "inputs", "outputs", "location")
)
_TENSOR: Final = TABLES["TosaTensor"].shape(
    ("name", "shape", "type", "data", "variable_name", "scale_data")
)
_LOCATION: Final = TABLES["OpLocation"].shape(("text",))
#: Code of an operator -> the code that stands for it in a file.
_ENCODED: Final = np.array([0, *(ENUMS["Op"][row.encoded_as] for row in OPERATORS)], np.int64)
#: Code of an operator that has attributes -> their names.
_NAMES: Final = {
    row.code: tuple(a.name for a in row.attributes) for row in OPERATORS if row.attributes
}
#: What follows a string of length n mod 4: its zeros, and room for the length of the next one.
_TAILS: Final = (bytes(8), bytes(7), bytes(6), bytes(5))
_ZEROS: Final = memoryview(bytes(2 * DATA_ALIGN))
_GAPS: Final = [bytes(size) for size in range(DATA_ALIGN)]


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
            size = constant.nbytes + constant.padding
            if self.out_of_line:
                yield _ZEROS[: start - position]
            else:
                yield _GAPS[start - 4 - position] + _U32.pack(size)
            if constant.is_view:
                yield constant.buffer
            else:
                yield from constant.chunks()
            if constant.padding:
                yield _ZEROS[: constant.padding]
            position = start + size


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
        # What fields refer to. Objects are the rest: tables and vectors that occur once.
        self.objects: list[int] = []
        self.strings = Space()
        self.locations = Space()
        self.attributes = Space()
        self.vectors = Space()
        self.blobs = Space()
        #: The first operator with the attributes of each attribute table.
        self.examples: list[Operator] = []
        #: References still open: the fields, what they refer to, and the numbers there.
        self.open: list[tuple[Positions, Space | None, Positions]] = []
        self.fields: dict[Space | None, tuple[list[int], list[int]]] = {}
        self.constants: list[tuple[int, Constant]] = []
        #: Where a tensor's offset field is, with the constant it is for (None: it has none).
        self.tails: list[tuple[int, Constant | None]] = []
        self.no_data = self.new_object()

    # -- references ---------------------------------------------------------------------------

    def new_object(self) -> int:
        self.objects.append(-1)
        return len(self.objects) - 1

    def new_objects(self, count: int) -> range:
        first = len(self.objects)
        self.objects.extend([-1] * count)
        return range(first, first + count)

    def refer(self, at: int, space: Space | None, to: int) -> None:
        """The field at `at` refers to number `to` of a space; None is the objects."""
        fields, targets = self.fields.setdefault(space, ([], []))
        fields.append(at)
        targets.append(to)

    # -- placing ------------------------------------------------------------------------------

    def align(self, to: int, ahead: int = 0) -> None:
        """Pad so that the byte `ahead` bytes further is a multiple of `to`."""
        self.out += bytes(-(len(self.out) + ahead) % to)

    def place(self, which: int) -> None:
        self.objects[which] = len(self.out)

    def vtable(self, code: bytes) -> int:
        position = self.vtables.get(code)
        if position is None:
            self.align(2)
            position = self.vtables[code] = len(self.out)
            self.out += code
        return position

    def table(
        self, name: str, scalars: dict[str, int], references: dict[str, tuple[Space | None, int]]
    ) -> int:
        """Append a table; returns where it starts."""
        shape = TABLES[name].shape((*scalars, *references))
        vtable = self.vtable(shape.vtable)
        self.align(shape.align)
        start = len(self.out)
        self.out += shape.pack.pack(start - vtable, *(scalars.get(n, 0) for n in shape.names))
        for field, (space, which) in references.items():
            self.refer(start + shape.offsets[field], space, which)
        return start

    def vector_of(self, which: int, space: Space | None, members: Sequence[int]) -> None:
        """Append object `which`: a vector of references."""
        self.align(4)
        self.place(which)
        self.out += _U32.pack(len(members))
        start = len(self.out)
        self.out += bytes(4 * len(members))
        fields = np.arange(start, start + 4 * len(members), 4, dtype=np.int64)
        self.open.append((fields, space, np.array(members, np.int64)))

    def names(self, which: int, names: list[str]) -> None:
        self.vector_of(which, self.strings, self.strings.all(names))

    def rows(self, shape: TableShape, columns: dict[str, Any]) -> Positions:
        """Append many tables of one shape of 32-bit fields; returns where they start.

        columns: for each field its numbers, or (space, numbers) for references.
        """
        vtable = self.vtable(shape.vtable)
        self.align(4)
        first, width = len(self.out), shape.size // 4
        count = max(len(c[1]) if isinstance(c, tuple) else len(c) for c in columns.values())
        words = np.zeros((count, width), np.uint32)
        starts = first + shape.size * np.arange(count, dtype=np.int64)
        words[:, 0] = starts - vtable
        for name, column in columns.items():
            offset = shape.offsets[name]
            if isinstance(column, tuple):
                self.open.append((starts + offset, column[0], np.asarray(column[1], np.int64)))
            else:
                words[:, offset // 4] = column
        self.out += words.astype("<u4").data.cast("B") if count else b""
        return starts

    # -- the file -----------------------------------------------------------------------------

    def plan(self) -> Plan:
        self.out += bytes(4) + IDENTIFIER
        root = self.new_object()
        self.refer(0, None, root)
        self.header(root)
        self.attributes.at = [self.attribute_table(operator) for operator in self.examples]
        texts = self.strings.last(self.locations.ids)
        self.locations.at = self.rows(_LOCATION, {"text": (self.strings, texts)})
        self.place_vectors()
        self.place_strings()
        self.align(8, ahead=4)
        self.place(self.no_data)
        self.out += bytes(4)
        if self.out_of_line:
            return self.finish_out_of_line()
        return self.finish_embedded()

    def header(self, root: int) -> None:
        graph = self.graph
        version, regions_at, software, compatibility = self.new_objects(4)
        references: dict[str, tuple[Space | None, int]] = {
            "version": (None, version),
            "regions": (None, regions_at),
            "software_version": (None, software),
        }
        if graph.version > V1_0:
            references["compatibility"] = (None, compatibility)
        self.objects[root] = self.table("TosaGraph", {}, references)
        self.objects[version] = self.table("Version", _version_fields(graph.version), {})
        self.software_version(software, self.producer)
        if graph.version > V1_0:
            reader = self.new_object()
            bits = features(graph)
            self.objects[compatibility] = self.table(
                "SerializationCompatibility",
                {"features": bits} if bits else {},
                {"min_reader_version": (None, reader)},
            )
            self.software_version(reader, MIN_READER)
        regions = self.new_objects(len(graph.regions))
        self.vector_of(regions_at, None, regions)
        for which, region in zip(regions, graph.regions, strict=True):
            vector = self.new_object()
            name = (self.strings, self.strings(region.name))
            self.objects[which] = self.table(
                "TosaRegion", {}, {"name": name, "blocks": (None, vector)}
            )
            blocks = self.new_objects(len(region.blocks))
            self.vector_of(vector, None, blocks)
            for block_object, block in zip(blocks, region.blocks, strict=True):
                self.block(block_object, block)

    def software_version(self, which: int, version: SoftwareVersion) -> None:
        self.objects[which] = self.table(
            "SoftwareVersion",
            {"_major": version.major, "_minor": version.minor, "_micro": version.micro},
            {"_modifier": (self.strings, self.strings(version.modifier))},
        )

    def block(self, which: int, block: Block) -> None:
        operators, tensors, inputs, outputs, shapes = self.new_objects(5)
        self.objects[which] = self.table(
            "TosaBasicBlock",
            {},
            {
                "name": (self.strings, self.strings(block.name)),
                "operators": (None, operators),
                "tensors": (None, tensors),
                "inputs": (None, inputs),
                "outputs": (None, outputs),
                "shapes": (None, shapes),
            },
        )
        self.names(inputs, block.inputs)
        self.names(outputs, block.outputs)
        members = self.new_objects(len(block.operators))
        self.vector_of(operators, None, members)
        self.operators(members, block.operators)
        members = self.new_objects(len(block.tensors))
        self.vector_of(tensors, None, members)
        self.tensors(members, list(block.tensors.values()))
        members = self.new_objects(len(block.shapes))
        self.vector_of(shapes, None, members)
        self.shapes(members, list(block.shapes.values()))

    def operators(self, members: range, operators: list[Operator]) -> None:
        """The operators' tables, then the lists of names of them all."""
        # Column by column: a comprehension takes a fraction of a loop's time.
        codes = [operator.spec.code for operator in operators]
        keys: list[Hashable] = [
            (code, *map(operator.attributes.__getitem__, _NAMES[code])) if code in _NAMES else code
            for code, operator in zip(codes, operators, strict=True)
        ]
        lists: list[tuple[str, ...]] = [()] * (2 * len(operators))
        lists[0::2] = [operator.inputs for operator in operators]
        lists[1::2] = [operator.outputs for operator in operators]
        attributes = self.attributes.all(keys)
        # Backwards, so that of each new number the first operator stays.
        firsts = dict(zip(reversed(attributes), reversed(operators), strict=True))
        new = range(len(self.examples), len(self.attributes.ids))
        self.examples.extend(map(firsts.__getitem__, new))
        locations = self.locations.first([operator.location for operator in operators])
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        kinds = np.array(codes, np.int64)
        # The lists lie one behind the other: of each operator first the inputs, then the outputs.
        self.vtable(_OPERATOR.vtable)
        self.align(4)
        starts = len(self.out) + _OPERATOR.size * np.arange(len(operators), dtype=np.int64)
        first = len(self.out) + _OPERATOR.size * len(operators)
        vectors = first + 4 * (np.cumsum(lengths + 1) - lengths - 1)
        self.rows(
            _OPERATOR,
            {
                "op": _ENCODED[kinds],
                "attribute_type": kinds,
                "attribute": (self.attributes, attributes),
                "inputs": vectors[0::2] - starts - _OPERATOR.offsets["inputs"],
                "outputs": vectors[1::2] - starts - _OPERATOR.offsets["outputs"],
                "location": (self.locations, locations),
            },
        )
        self.objects[members.start : members.stop] = starts.tolist()
        area = np.zeros(int((lengths + 1).sum()), np.uint32)
        heads = (vectors - first) >> 2
        area[heads] = lengths
        is_name = np.ones(len(area), bool)
        is_name[heads] = False
        fields = first + 4 * np.flatnonzero(is_name)
        names = np.array(self.strings.all(chain.from_iterable(lists)), np.int64)
        self.open.append((fields, self.strings, names))
        self.out += area.astype("<u4").data.cast("B") if len(area) else b""

    def attribute_table(self, operator: Operator) -> int:
        spec = operator.spec
        scalars: dict[str, int] = {}
        references: dict[str, tuple[Space | None, int]] = {}
        for row in spec.attributes:
            value = operator.attributes[row.name]
            if isinstance(value, tuple):
                references[row.name] = (self.vectors, self.vectors(value))
            elif isinstance(value, bytes):
                references[row.name] = (self.blobs, self.blobs(value))
            elif isinstance(value, str):
                references[row.name] = (self.strings, self.strings(value))
            else:
                number = value.code if isinstance(value, DType) else int(value)
                # Readers take the schema's default for an absent field, so it need not be stored.
                if number:
                    scalars[row.name] = number
        return self.table(f"{spec.table}Attribute", scalars, references)

    def tensors(self, members: range, tensors: list[Tensor]) -> None:
        """Tensors without special fields all at once, the others one by one."""
        plain: list[Tensor] = []
        places: list[int] = []
        out_of_line, no_data = self.out_of_line, self.no_data
        for member, tensor in zip(members, tensors, strict=True):
            if tensor.variable or tensor.shape is None or tensor.scale is not None or out_of_line:
                self.tensor(member, tensor)
            else:
                plain.append(tensor)
                places.append(member)
        empty = np.full(len(plain), self.strings(""), np.int64)
        nothing = np.full(len(plain), no_data, np.int64)
        data = [no_data if t.data is None else self.data_object(t.data) for t in plain]
        starts = self.rows(
            _TENSOR,
            {
                "name": (self.strings, self.strings.all([tensor.name for tensor in plain])),
                "shape": (self.vectors, self.vectors.all([tensor.shape for tensor in plain])),
                "type": [tensor.dtype.code for tensor in plain],
                "data": (None, data),
                "variable_name": (self.strings, empty),
                "scale_data": (None, nothing),
            },
        )
        for place, start in zip(places, starts.tolist(), strict=True):
            self.objects[place] = start

    def tensor(self, which: int, tensor: Tensor) -> None:
        scalars = {"type": tensor.dtype.code}
        if tensor.variable:
            scalars["variable"] = 1
        if tensor.shape is None:
            scalars["is_unranked"] = 1
        if tensor.scale is not None:
            scalars["scale_type"] = tensor.scale.dtype.code
            scalars["block_shape"] = int(tensor.scale.shape)
        references: dict[str, tuple[Space | None, int]] = {
            "name": (self.strings, self.strings(tensor.name)),
            "shape": (self.vectors, self.vectors(tensor.shape or ())),
            "variable_name": (self.strings, self.strings(tensor.variable_name)),
        }
        scales = None if tensor.scale is None else tensor.scale.data
        if self.out_of_line:
            scalars["offset"] = scalars["size"] = 0
            if tensor.scale is not None:
                scalars["scale_offset"] = scalars["scale_size"] = 0
        else:
            references["data"] = (None, self.data_object(tensor.data))
            references["scale_data"] = (None, self.data_object(scales))
        start = self.objects[which] = self.table("TosaTensor", scalars, references)
        if self.out_of_line:
            # The field behind an offset is its size: both are 8 bytes wide and in slot order.
            offsets = TABLES["TosaTensor"].shape((*scalars, *references)).offsets
            self.tails.append((start + offsets["offset"], _stored(tensor.data)))
            if tensor.scale is not None:
                self.tails.append((start + offsets["scale_offset"], _stored(scales)))

    def shapes(self, members: range, shapes: list[ShapeValue]) -> None:
        """Shapes, those of rank 0 last: readers take that for an absent rank, so it is not stored."""
        places = [*zip(members, shapes, strict=True)]
        for has_rank in (True, False):
            chosen = [pair for pair in places if bool(pair[1].rank) is has_rank]
            if not chosen:
                continue
            # Sizes are part of the program, not weights: they stay inside in every form.
            columns: dict[str, Any] = {
                "name": (self.strings, self.strings.all([shape.name for _, shape in chosen])),
                "data": (None, [self.data_object(shape.data) for _, shape in chosen]),
            }
            if has_rank:
                columns["rank"] = [shape.rank for _, shape in chosen]
            starts = self.rows(TABLES["TosaShape"].shape((*columns,)), columns)
            for (which, _), start in zip(chosen, starts.tolist(), strict=True):
                self.objects[which] = start

    def data_object(self, data: Constant | None) -> int:
        data = _stored(data)
        if data is None:
            return self.no_data
        which = self.new_object()
        self.constants.append((which, data))
        return which

    # -- what tables refer to -----------------------------------------------------------------

    def place_vectors(self) -> None:
        self.align(4)
        self.vectors.at = places = []
        for values in self.vectors.ids:
            places.append(len(self.out))
            self.out += struct.pack(f"<I{len(values)}i", len(values), *values)
        self.blobs.at = places = []
        for blob in self.blobs.ids:
            self.align(8, ahead=4)
            places.append(len(self.out))
            self.out += _U32.pack(len(blob))
            self.out += blob
        self.align(4)

    def place_strings(self) -> None:
        """Each string: its length, its bytes, a terminating zero, and on to a multiple of 4."""
        try:
            encoded = list(map(str.encode, chain(self.strings.ids, self.strings.more)))
        except UnicodeEncodeError as error:
            raise lone_surrogate(error) from None
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        sizes = 4 + (lengths // 4 + 1) * 4
        first = len(self.out)
        starts = first + np.cumsum(sizes) - sizes
        self.strings.at = starts
        tails = map(_TAILS.__getitem__, (lengths & 3).tolist())
        # Behind each text its zeros and room for the length of the next; the last has none.
        self.out += bytes(4)
        self.out += b"".join(chain.from_iterable(zip(encoded, tails, strict=True)))
        del self.out[-4:]
        words = np.frombuffer(self.out, "<u4", count=len(self.out) // 4)
        words[starts >> 2] = lengths
        del words

    def finish_embedded(self) -> Plan:
        position = len(self.out)
        data: list[tuple[int, Constant]] = []
        for which, constant in self.constants:
            # A vector's length stands right before its elements.
            start = position + 4
            start += -start % DATA_ALIGN
            self.objects[which] = start - 4
            data.append((start, constant))
            position = start + constant.nbytes + constant.padding
        return self.finished(data, position)

    def finish_out_of_line(self) -> Plan:
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
            if tail is None:
                # Never 0 or 1, which readers in the field take for "the data is inside".
                struct.pack_into("<QQ", self.out, field, position, 0)
                continue
            position += -position % TAIL_ALIGN
            stored = tail.nbytes + tail.padding
            struct.pack_into("<QQ", self.out, field, position, stored)
            data.append((position, tail))
            position += stored
        return self.finished(data, position)

    def finished(self, data: list[tuple[int, Constant]], size: int) -> Plan:
        """Fill in the references."""
        words = np.frombuffer(self.out, "<u4", count=len(self.out) // 4)
        for space, (fields, targets) in self.fields.items():
            self.open.append((np.array(fields, np.int64), space, np.array(targets, np.int64)))
        objects = np.array(self.objects, np.int64)
        for at, space, to in self.open:
            places = objects if space is None else np.asarray(space.at, np.int64)
            # A distance beyond 32 bits only occurs in a plan that is too large and never written.
            words[at >> 2] = (places[to] - at) & 0xFFFFFFFF
        del words
        return Plan(self.out, data, size, self.out_of_line)


def _stored(data: Constant | None) -> Constant | None:
    """The data as far as a file has it: no bytes are the same as no data."""
    return data if data is not None and data.nbytes + data.padding else None


def _version_fields(version: Version) -> dict[str, int]:
    fields = {"_major": version.major, "_minor": version.minor, "_patch": version.patch}
    if not version.draft:
        fields["_draft"] = 0
    return fields
