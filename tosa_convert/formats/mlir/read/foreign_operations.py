"""The operations of a module that do not belong to TOSA."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.file_sections import read_sections
from tosa_convert.formats.mlir.bytecode.operations import Fields, Operation
from tosa_convert.formats.mlir.locations import LocationReader, plain_location

#: Dialects whose operations are read: TOSA's, and those around it. `arith` has constants.
_READ: Final = frozenset({"tosa", "builtin", "func", "ml_program", "arith"})


class ForeignOperation(NamedTuple):
    """An operation of another dialect. name: with its dialect. where: its location, or ""."""

    name: str
    where: str


def foreign_operations(data: memoryview, where: str = "") -> list[ForeignOperation]:
    """Find all operations of a bytecode file that are not TOSA's, in order, with those of regions.

    Raises:
        TosaConvertError: "malformed-mlir".
    """
    bytecode = Bytecode(read_sections(data, where))
    locations = LocationReader(bytecode)
    foreign = {
        number for number, name in enumerate(bytecode.names) if name.partition(".")[0] not in _READ
    }
    return [
        ForeignOperation(
            bytecode.names[operation.name],
            plain_location(locations.cut(locations.full(operation.location))),
        )
        for operation in operations_named(bytecode.root, foreign)
    ]


def operations_named(root: Operation, names: Collection[int]) -> Iterator[Operation]:
    """Iterate over operations in an operation's regions whose names have these indices, in order."""
    pending: list[Iterator[Fields]] = [_inside(root)]
    while pending:
        fields = next(pending[-1], None)
        if fields is None:
            pending.pop()
            continue
        operation = Operation(*fields)
        if operation.name in names:
            yield operation
        if operation.regions:
            pending.append(_inside(operation))


def _inside(operation: Operation) -> Iterator[Fields]:
    return _chained(block.operations for region in operation.regions for block in region.blocks)


def _chained(lists: Iterable[list[Fields]]) -> Iterator[Fields]:
    for one in lists:
        yield from one
