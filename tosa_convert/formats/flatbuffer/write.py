"""Graph -> flatbuffer, laid out forward: tables first, then strings, then constants' data."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.errors import fail
from tosa_convert.formats.flatbuffer.builder import Builder, Interner, Plan, Reference, as_array
from tosa_convert.formats.wire.layout import ATTRIBUTES, ENUMS, IDENTIFIER, TABLES
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.lazy_numpy import FEW, np
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
from tosa_convert.graph.verify import NO_COLUMNS
from tosa_convert.graph.versions import MIN_READER, V1_0, features

if TYPE_CHECKING:
    from tosa_convert.formats.flatbuffer.builder import Positions
    from tosa_convert.graph.columns import BlockColumns

#: A flatbuffer addresses its contents with signed 32-bit offsets.
SIZE_LIMIT: Final = 2**31 - 1

_OPERATOR: Final = TABLES["TosaOperator"].layout(
    ("attribute_type", "op", "attribute", "inputs", "outputs", "location")
)
_TENSOR: Final = TABLES["TosaTensor"].layout(
    ("name", "shape", "type", "data", "variable_name", "scale_data")
)
_LOCATION: Final = TABLES["OpLocation"].layout(("text",))
#: Code of an operator -> its code in a file.
_ENCODED: Final = [0, *(ENUMS["Op"][row.encoded_as] for row in OPERATORS)]
#: Code of an operator that has attributes -> their names.
_NAMES: Final = {
    row.code: tuple(a.name for a in row.attributes) for row in OPERATORS if row.attributes
}


def plan(
    graph: Graph,
    producer: SoftwareVersion,
    *,
    out_of_line: bool | None = None,
    columns: Mapping[str, BlockColumns] = NO_COLUMNS,
) -> Plan:
    """Lay out a graph that `verify` accepts."""
    if not out_of_line:
        result = _Writer(graph, producer, columns, out_of_line=False).plan()
        if result.size < SIZE_LIMIT:
            return result
        if out_of_line is False:
            message = f"the file would have {result.size} bytes, a flatbuffer ends at {SIZE_LIMIT}"
            hint = "store the weights after it (weights='offset') or beside it (weights='npy')"
            raise fail("too-large", "", message, hint)
    result = _Writer(graph, producer, columns, out_of_line=True).plan()
    if len(result.head) >= SIZE_LIMIT:
        raise fail(
            "too-large",
            "",
            f"without weights the file still has {len(result.head)} bytes, "
            f"a flatbuffer ends at {SIZE_LIMIT}",
        )
    return result


class _Writer(Builder):
    def __init__(
        self,
        graph: Graph,
        producer: SoftwareVersion,
        columns: Mapping[str, BlockColumns],
        *,
        out_of_line: bool,
    ) -> None:
        super().__init__(out_of_line=out_of_line)
        self.graph = graph
        self.columns = columns
        self.producer = producer
        #: The ids of the names of the current block's values, -1 for those that no operator has.
        self.value_names: Any = ()
        self.locations = Interner()
        self.attributes = Interner()
        #: The first operator that has each of the attribute tables, by their ids.
        self.examples: list[Operator] = []

    def plan(self) -> Plan:
        self.out += bytes(4) + IDENTIFIER
        root = self.new_object()
        self.refer(0, None, root)
        self.header(root)
        self.attributes.positions = [self.attribute_table(operator) for operator in self.examples]
        texts = self.strings.intern_last(self.locations.ids)
        self.locations.positions = self.rows(_LOCATION, {"text": (self.strings, texts)})
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
        references: dict[str, Reference] = {
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
        self.regions(regions_at, graph.regions)

    def software_version(self, which: int, version: SoftwareVersion) -> None:
        self.objects[which] = self.table(
            "SoftwareVersion",
            {"_major": version.major, "_minor": version.minor, "_micro": version.micro},
            {"_modifier": self.string(version.modifier)},
        )

    def block(self, which: int, block: Block, region: str) -> None:
        columns = self.columns.get(region)
        operators, tensors, inputs, outputs, shapes = self.new_objects(5)
        self.objects[which] = self.table(
            "TosaBasicBlock",
            {},
            {
                "name": self.string(block.name),
                "operators": (None, operators),
                "tensors": (None, tensors),
                "inputs": (None, inputs),
                "outputs": (None, outputs),
                "shapes": (None, shapes),
            },
        )
        self.names(inputs, block.inputs)
        self.names(outputs, block.outputs)
        members = self.members(operators, len(block.operators))
        if columns is None:
            self.operators(members, block.operators)
        else:
            self.operators_in_columns(members, block, columns)
        members = self.members(tensors, len(block.tensors))
        if columns is None or not self.tensors_in_columns(members, columns):
            self.tensors(members, list(block.tensors.values()))
        self.shapes(self.members(shapes, len(block.shapes)), list(block.shapes.values()))

    def operators(self, members: range, operators: list[Operator]) -> None:
        """Lay out the operators' tables, then the lists of names of them all."""
        # Column by column: a comprehension takes a fraction of a loop's time.
        lists: list[tuple[str, ...]] = [()] * (2 * len(operators))
        lists[0::2] = [operator.inputs for operator in operators]
        lists[1::2] = [operator.outputs for operator in operators]
        lengths = list(map(len, lists))
        names = self.strings.intern_all(chain.from_iterable(lists))
        attributes = self.attributes.intern_all(map(_attributes_key, operators))
        # In reverse, so that the first operator of each new id is the one that remains.
        firsts = dict(zip(reversed(attributes), reversed(operators), strict=True))
        new = range(len(self.examples), len(self.attributes.ids))
        self.examples.extend(map(firsts.__getitem__, new))
        codes = [operator.spec.code for operator in operators]
        self.operator_tables(members, operators, codes, attributes, lengths, names)

    def operators_in_columns(self, members: range, block: Block, columns: BlockColumns) -> None:
        """Lay out a large block as `operators` does."""
        # Fast path of operators; equal by test test_blocks_are_laid_out_alike_from_their_columns
        lengths = np.stack([columns.input_counts, columns.output_counts], 1).ravel()
        is_input = np.repeat(np.arange(len(lengths)) % 2 == 0, lengths)
        values = np.empty(len(is_input), np.int64)
        values[is_input], values[~is_input] = columns.inputs, columns.outputs
        # The names get their ids in the order in which they occur first.
        used, first = np.unique(values, return_index=True)
        used = used[np.argsort(first)]
        texts = list(chain(block.tensors, block.shapes))
        self.value_names = np.full(len(texts), -1)
        self.value_names[used] = self.strings.intern_array(
            map(texts.__getitem__, used.tolist()), len(used)
        )
        kinds = columns.codes * (int(columns.attributes.max(initial=0)) + 1) + columns.attributes
        _, first, which = np.unique(kinds, return_index=True, return_inverse=True)
        ids = np.zeros(len(first), np.int64)
        for kind in np.argsort(first).tolist():
            operator = columns.operators[int(first[kind])]
            ids[kind] = self.attributes.intern(_attributes_key(operator))
            if ids[kind] == len(self.examples):
                self.examples.append(operator)
        self.operator_tables(
            members, columns.operators, columns.codes, ids[which], lengths, self.value_names[values]
        )

    def operator_tables(
        self,
        members: range,
        operators: list[Operator],
        codes: Positions,
        attributes: Positions,
        lengths: Positions,
        names: Positions,
    ) -> None:
        """Append the operators. lengths, names: of the lists of names, first inputs and then outputs."""
        locations = self.locations.intern_first([operator.location for operator in operators])
        # The vtable and the alignment come before the tables, so their positions are known only now.
        self.vtable(_OPERATOR.vtable)
        self.align(4)
        starts = range(
            len(self.out), len(self.out) + _OPERATOR.size * len(operators), _OPERATOR.size
        )
        self.objects[members.start : members.stop] = starts
        columns: dict[str, Any] = {
            "attribute_type": codes,
            "attribute": (self.attributes, attributes),
            "location": (self.locations, locations),
        }
        # The lists follow the tables, and one another.
        if len(operators) < FEW:
            heads = list(accumulate((length + 1 for length in lengths), initial=0))
            counts = [0] * heads.pop()
            columns["op"] = [_ENCODED[code] for code in codes]
            for which, field in enumerate(("inputs", "outputs")):
                distance = starts.stop - _OPERATOR.offsets[field]
                columns[field] = [
                    distance + 4 * head - start
                    for head, start in zip(heads[which::2], starts, strict=True)
                ]
            self.rows(_OPERATOR, columns)
            fields: list[int] = []
            for head, length in zip(heads, lengths, strict=True):
                counts[head] = length
                first = len(self.out) + 4 * head + 4
                fields += range(first, first + 4 * length, 4)
            self.open.append((fields, self.strings, names))
            self.out += struct.pack(f"<{len(counts)}I", *counts)
            return
        # Fast path of the lists above; equal by test test_few_tables_are_laid_out_as_many
        sizes, at = as_array(lengths), as_array(starts)
        places = np.cumsum(sizes + 1) - sizes - 1
        vectors = starts.stop + 4 * places
        columns["op"] = np.array(_ENCODED, np.int64)[codes]
        columns["inputs"] = vectors[0::2] - at - _OPERATOR.offsets["inputs"]
        columns["outputs"] = vectors[1::2] - at - _OPERATOR.offsets["outputs"]
        self.rows(_OPERATOR, columns)
        words = np.zeros(int((sizes + 1).sum()), np.uint32)
        words[places] = sizes
        is_name = np.ones(len(words), bool)
        is_name[places] = False
        self.open.append((len(self.out) + 4 * np.flatnonzero(is_name), self.strings, names))
        self.out += words.astype("<u4").data.cast("B")

    def attribute_table(self, operator: Operator) -> int:
        spec = operator.spec
        scalars: dict[str, int] = {}
        references: dict[str, Reference] = {}
        for row in spec.attributes:
            value = operator.attributes[row.name]
            if isinstance(value, tuple):
                references[row.name] = (self.vectors, self.vectors.intern(value))
            elif isinstance(value, bytes):
                references[row.name] = (self.blobs, self.blobs.intern(value))
            elif isinstance(value, str):
                references[row.name] = self.string(value)
            else:
                number = value.code if isinstance(value, DType) else int(value)
                # An absent field has the schema's default, which is 0.
                if number:
                    scalars[row.name] = number
        return self.table(ATTRIBUTES[spec.code], scalars, references)

    def tensors_in_columns(self, members: range, columns: BlockColumns) -> bool:
        """Append the tensors of a large block; False if one of them has rare fields."""
        # Fast path of tensors; equal by test test_blocks_are_laid_out_alike_from_their_columns
        tensors, examples = columns.tensors, columns.examples
        if (
            self.out_of_line
            or any(tensor.variable or tensor.shape is None for tensor in examples)
            or any(tensors[index].scale is not None for index in columns.others)
        ):
            return False
        self.strings.intern("")  # its id precedes those of the names
        names = self.value_names[: len(tensors)]
        unused = np.flatnonzero(names < 0)
        names[unused] = self.strings.intern_array(
            [tensors[index].name for index in unused.tolist()], len(unused)
        )
        shapes = self.vectors.intern_array([tensor.shape for tensor in examples], len(examples))
        dtypes = np.array([tensor.dtype.code for tensor in examples], np.int64)
        data = np.full(len(tensors), self.no_data)
        for index in columns.others:
            data[index] = self.data_object(tensors[index].data)
        starts = self.plain_tensors(names, shapes[columns.types], dtypes[columns.types], data)
        self.objects[members.start : members.stop] = starts
        return True

    def plain_tensors(
        self, names: Positions, shapes: Positions, types: Positions, data: Positions
    ) -> Sequence[int]:
        """Append tensors without rare fields; returns their positions."""
        empty, no_data = (
            [number] * len(names) if len(names) < FEW else np.full(len(names), number)
            for number in (self.strings.intern(""), self.no_data)
        )
        columns = {
            "name": (self.strings, names),
            "shape": (self.vectors, shapes),
            "type": types,
            "data": (None, data),
            "variable_name": (self.strings, empty),
            "scale_data": (None, no_data),
        }
        return self.rows(_TENSOR, columns)

    def tensors(self, members: range, tensors: list[Tensor]) -> None:
        """Append the tensors: those without rare fields all at once, the others one by one."""
        # Fast path of tensor; equal by test test_plain_tensors_are_packed_as_each_of_them_alone
        plain: list[Tensor] = []
        places: list[int] = []
        out_of_line, no_data = self.out_of_line, self.no_data
        for member, tensor in zip(members, tensors, strict=True):
            if tensor.variable or tensor.shape is None or tensor.scale is not None or out_of_line:
                self.tensor(member, tensor)
            else:
                plain.append(tensor)
                places.append(member)
        self.strings.intern("")  # its id precedes those of the names
        data = [no_data if t.data is None else self.data_object(t.data) for t in plain]
        names = self.strings.intern_all([tensor.name for tensor in plain])
        shapes = self.vectors.intern_all([tensor.shape for tensor in plain])
        starts = self.plain_tensors(names, shapes, [tensor.dtype.code for tensor in plain], data)
        for place, start in zip(places, starts, strict=True):
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
        references: dict[str, Reference] = {
            "name": self.string(tensor.name),
            "shape": (self.vectors, self.vectors.intern(tensor.shape or ())),
            "variable_name": self.string(tensor.variable_name),
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
            # The size directly follows the offset: both are 8 bytes wide and in slot order.
            offsets = TABLES["TosaTensor"].layout((*scalars, *references)).offsets
            self.tails.append((start + offsets["offset"], _stored(tensor.data)))
            if tensor.scale is not None:
                self.tails.append((start + offsets["scale_offset"], _stored(scales)))

    def shapes(self, members: range, shapes: list[ShapeValue]) -> None:
        """Append the shapes, those of rank 0 last: 0 is the default of the rank, so they have none."""
        places = [*zip(members, shapes, strict=True)]
        for has_rank in (True, False):
            chosen = [pair for pair in places if bool(pair[1].rank) is has_rank]
            if not chosen:
                continue
            # Sizes are part of the program and not weights: they are inside in every form.
            names = self.strings.intern_all([shape.name for _, shape in chosen])
            data = [self.data_object(shape.data) for _, shape in chosen]
            columns: dict[str, Any] = {"name": (self.strings, names), "data": (None, data)}
            if has_rank:
                columns["rank"] = [shape.rank for _, shape in chosen]
            starts = self.rows(TABLES["TosaShape"].layout((*columns,)), columns)
            for (which, _), start in zip(chosen, starts, strict=True):
                self.objects[which] = start

    def data_object(self, data: Constant | None) -> int:
        data = _stored(data)
        if data is None:
            return self.no_data
        which = self.new_object()
        self.constants.append((which, data))
        return which


def _attributes_key(operator: Operator) -> Hashable:
    """Return a key that is equal for operators whose attributes are one table."""
    code = operator.spec.code
    if code not in _NAMES:
        return code
    return (code, *map(operator.attributes.__getitem__, _NAMES[code]))


def _stored(data: Constant | None) -> Constant | None:
    """Return the data that a file stores: no bytes are the same as no data."""
    return data if data is not None and data.nbytes + data.padding else None


def _version_fields(version: Version) -> dict[str, int]:
    fields = {"_major": version.major, "_minor": version.minor, "_patch": version.patch}
    if not version.draft:
        fields["_draft"] = 0
    return fields
