"""The ordinary operators of a large block as bytecode, one field of all of them at a time."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Protocol

from tosa_convert.formats.mlir.bytecode.format import HAS_OPERANDS, HAS_RESULTS
from tosa_convert.formats.mlir.bytecode.operation_columns import (
    encode_together,
    integers_of,
    join_together,
)
from tosa_convert.formats.mlir.write.region_body import Body, LocationWriter
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.opset import BY_CODE, CONST, CONST_SHAPE, IDENTITY

if TYPE_CHECKING:
    from tosa_convert.formats.mlir.bytecode.operation_columns import Numbers
    from tosa_convert.formats.mlir.bytecode.varints import Varints
    from tosa_convert.graph.columns import BlockColumns
    from tosa_convert.graph.model import Block, Operator
    from tosa_convert.graph.opset import OperatorSpec


class OperatorEncoder(Protocol):
    """What `FunctionWriter` does for single operators; see there."""

    numbers: Varints
    rows: dict[OperatorSpec, list[bytes]]
    locations: LocationWriter

    def row(self, spec: OperatorSpec) -> list[bytes]: ...

    def result(self, block: Block, name: str) -> bytes: ...

    def named_results(self, block: Block, outputs: list[tuple[str, ...]]) -> set[int]: ...

    def encoded_attributes(
        self, block: Block, operator: Operator, body: Body, *, spec: OperatorSpec, is_named: bool
    ) -> tuple[int, bytes]: ...


#: The constants, whose data is not among their attributes.
_CONSTANTS = (CONST.code, CONST_SHAPE.code)


def write_all_at_once(
    writer: OperatorEncoder,
    block: Block,
    body: Body,
    columns: BlockColumns,
    locations: list[str],
    values: dict[str, bytes],
) -> bytes | None:
    """Encode a block in columns; None unless all have one result, no regions and no variables."""
    # Fast path of one_by_one; equal by test test_operators_written_all_at_once_equal_others
    specs = [BY_CODE[code] for code in np.unique(columns.codes).tolist()]
    if (
        (columns.output_counts != 1).any()
        or any(spec.encoded_as == IDENTITY.name and spec is not IDENTITY for spec in specs)
        or any(tensor.variable for tensor in columns.examples)
        or any(columns.tensors[index].scale is not None for index in columns.others)
    ):
        return None
    return _ColumnWriter(writer, block, body, columns).encode(locations, values)


class _ColumnWriter:
    """Encodes the operators of one block."""

    def __init__(
        self, writer: OperatorEncoder, block: Block, body: Body, columns: BlockColumns
    ) -> None:
        self.writer = writer
        self.block = block
        self.body = body
        self.columns = columns
        count = len(columns.operators)
        self.flags = np.full(count, HAS_RESULTS) | HAS_OPERANDS * (columns.input_counts > 0)
        #: The attributes and the result of each operator; see `varint.integers_of`.
        self.attributes = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.results = self.attributes

    def encode(self, locations: list[str], values: dict[str, bytes]) -> bytes:
        columns = self.columns
        encoded_locations = self.writer.locations.together(locations)
        self.add_to_tables()
        numbers = self.value_numbers(values)
        kinds, which = np.unique(columns.codes * 256 + self.flags, return_inverse=True)
        rows = self.writer.rows
        heads = [rows[BY_CODE[kind >> 8]][kind & 255] for kind in kinds.tolist()]
        encoded_heads, head_widths = integers_of(heads)
        has_operands = columns.input_counts > 0
        before = 4 + has_operands
        # Each operator: head, location, attributes, result, number of operands, operands.
        parts = before + columns.input_counts
        starts = np.cumsum(parts) - parts
        encoded = np.zeros(int(parts.sum()), np.int64)
        widths = np.zeros(len(encoded), np.int64)

        def put(at: Numbers, part: tuple[Numbers, Numbers]) -> None:
            encoded[at], widths[at] = part

        put(starts, (encoded_heads[which], head_widths[which]))
        for position, part in enumerate((encoded_locations, self.attributes, self.results), 1):
            put(starts + position, part)
        counts = columns.input_counts[has_operands]
        put(starts[has_operands] + 4, encode_together(counts))
        within = np.arange(len(columns.inputs)) - np.repeat(
            np.cumsum(columns.input_counts) - columns.input_counts, columns.input_counts
        )
        at = np.repeat(starts + before, columns.input_counts) + within
        put(at, encode_together(numbers[columns.inputs]))
        return join_together(encoded, widths)

    def add_to_tables(self) -> None:
        """Encode attributes and results. What is new is added in the order of the operators."""
        writer, block, columns = self.writer, self.block, self.columns
        operators, codes = columns.operators, columns.codes
        ranks = np.array([shape.rank for shape in columns.shapes], np.int64)
        types = np.concatenate([columns.types, len(columns.examples) + ranks])
        _, first_types, type_of = np.unique(
            types[columns.outputs], return_index=True, return_inverse=True
        )
        _, first_codes = np.unique(codes, return_index=True)
        named = writer.named_results(block, [operator.outputs for operator in operators])
        alike, examples = self.equal_attributes(types, named)
        constants = np.flatnonzero(np.isin(codes, _CONSTANTS)).tolist()
        firsts = set(first_types.tolist())
        results = [b""] * len(first_types)
        chosen = sorted({*constants, *examples.tolist(), *named, *first_codes.tolist(), *firsts})
        attributes = []
        for index in chosen:
            operator = operators[index]
            if operator.spec not in writer.rows:
                writer.row(operator.spec)
            has, encoded = writer.encoded_attributes(
                block, operator, self.body, spec=operator.spec, is_named=index in named
            )
            attributes.append(encoded)
            self.flags[index] |= has
            if index in firsts:
                results[type_of[index]] = writer.result(block, operator.outputs[0])
        encoded_results, result_widths = integers_of(results)
        self.results = encoded_results[type_of], result_widths[type_of]
        for column, found in zip(self.attributes, integers_of(attributes), strict=True):
            column[chosen] = found
            column[alike] = column[examples]
        self.flags[alike] = self.flags[examples]

    def equal_attributes(self, types: Numbers, named: set[int]) -> tuple[Numbers, Numbers]:
        """Find the operators with attributes and without a name, and for each the first one like it."""
        columns = self.columns
        has = columns.attributes > 0
        has[list(named)] = False
        chosen = np.flatnonzero(has)
        starts = np.cumsum(columns.input_counts) - columns.input_counts
        # The first operand, if there is one; else whatever comes next, which does no harm.
        operands = np.append(columns.inputs, 0)[starts[chosen]]
        kinds = columns.attributes[chosen] * (int(types.max(initial=0)) + 1) + types[operands]
        _, first, which = np.unique(kinds, return_index=True, return_inverse=True)
        return chosen, chosen[first[which]]

    def value_numbers(self, values: dict[str, bytes]) -> Numbers:
        """Return the index of each value of the block; those that it returns are added to `values`."""
        block, columns = self.block, self.columns
        numbers = np.zeros(len(columns.tensors) + len(columns.shapes), np.int64)
        ends = {*block.inputs, *block.outputs}
        at = {
            name: index
            for index, name in enumerate(chain(block.tensors, block.shapes))
            if name in ends
        }
        for number, name in enumerate(block.inputs):
            numbers[at[name]] = number
        numbers[columns.outputs] = len(block.inputs) + np.arange(len(columns.operators))
        for name in block.outputs:
            values[name] = self.writer.numbers[int(numbers[at[name]])]
        return numbers
