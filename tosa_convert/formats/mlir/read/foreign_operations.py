"""The operations of a module that do not belong to TOSA, and the passes that lower them to it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from typing import Final

from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.operations import Fields, Operation
from tosa_convert.formats.mlir.bytecode.sections import read_sections
from tosa_convert.formats.mlir.locations import LocationReader, plain_location
from tosa_convert.records import NamedTuple

#: Dialects whose operations are read: TOSA's, and those around it. `arith` has constants.
_READ: Final = frozenset({"tosa", "builtin", "func", "ml_program", "arith", "util", "iree_input"})


class ForeignOperation(NamedTuple):
    """An operation of another dialect. name: with its dialect. where: its location, or ""."""

    name: str
    where: str


def foreign_operations(data: memoryview, where: str = "") -> list[ForeignOperation]:
    """Find all operations of a bytecode file that are not TOSA's, in order, with those of regions."""
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
    blocks = (block for region in operation.regions for block in region.blocks)
    return chain.from_iterable(block.operations for block in blocks)


_FIRST: Final = "lower it to TOSA before exporting"

_BY_CONVERT: Final = (
    "tosa-flatbuffer-convert does it, or tosa_convert.frontends.from_file, with the extra"
)
#: Dialects above TOSA -> what lowers them to TOSA.
_LOWERING: Final = {
    **dict.fromkeys(("stablehlo", "chlo", "vhlo", "mhlo"), f"{_BY_CONVERT} `jax`"),
    "torch": f"{_BY_CONVERT} `mlir`",
    "tfl": "convert the .tflite file that the text was made from, with tosa-flatbuffer-convert",
    "tf": "convert the SavedModel or the .pb file, with tosa-flatbuffer-convert",
    "onnx": "convert the .onnx file that the text was made from, with tosa-flatbuffer-convert",
}

#: Dialects that TOSA is lowered to; no pass leads back.
_BELOW: Final = frozenset(
    ("affine", "bufferization", "cf", "gpu", "linalg", "llvm", "math", "memref", "scf", "vector")
)


def lowering_hint(operator: str) -> str:
    """Return the hint for an operator of another dialect.

    Example:
        >>> lowering_hint("linalg.matmul")
        'lower it to TOSA before exporting; if TOSA was lowered to linalg, export before that pass'
    """
    dialect = operator.partition(".")[0]
    if dialect in _LOWERING:
        return f"{_FIRST}: {_LOWERING[dialect]}"
    if dialect in _BELOW:
        return f"{_FIRST}; if TOSA was lowered to {dialect}, export before that pass"
    return _FIRST
