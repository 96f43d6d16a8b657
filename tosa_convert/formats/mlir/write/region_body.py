"""The encoding of a region while its function is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.formats.mlir.bytecode.encode import Encoder
from tosa_convert.formats.mlir.bytecode.format import HAS_OPERANDS
from tosa_convert.formats.mlir.bytecode.varint import encode_varint
from tosa_convert.formats.mlir.types import TypeWriter
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Block, Operator, Region, Tensor
from tosa_convert.records import dataclass, field

#: The count at the beginning of the encoding of one operand, or of one result.
ONE: Final = encode_varint(1)


@dataclass(slots=True, eq=False, repr=False)
class Body:
    """A region at one place of the module.

    shared: its constants that become resources once MLIR has parsed the module, by their operators.
    children: the regions that its operators run, in order.
    needed: whether it or a region inside it shares a constant.
    parts: its encoding before `finish`: bytes, and the regions of one operator. pieces, size: after it.
    """

    region: Region
    depth: int = 0
    parts: list[bytes | tuple[Body, ...]] = field(default_factory=list)
    pieces: list[bytes | Body] = field(default_factory=list)
    size: int = 0
    shared: dict[Operator, Tensor] = field(default_factory=dict)
    children: list[Body] = field(default_factory=list)
    needed: bool = False

    @property
    def block(self) -> Block:
        return self.region.blocks[0]

    def finish(self, encoder: Encoder) -> None:
        """Put the parts together, once the regions inside it are finished."""
        for part in self.parts:
            if isinstance(part, bytes):
                self.pieces.append(part)
                self.size += len(part)
            else:
                inside = sum(child.size for child in part)
                head = encoder.isolated_regions(len(part), inside)
                self.pieces += head, *part
                self.size += len(head) + inside
        self.needed = bool(self.shared) or any(child.needed for child in self.children)

    def encoding(self) -> Iterator[bytes]:
        """Iterate over the encoding of the block and of those inside it."""
        pending: list[Iterator[bytes | Body]] = [iter(self.pieces)]
        while pending:
            for piece in pending[-1]:
                if isinstance(piece, Body):
                    pending.append(iter(piece.pieces))
                    break
                yield piece
            else:
                pending.pop()


class ResultTypes(dict[tuple[DType, tuple[int, ...] | None], bytes]):
    """The encodings of one result, by the dtype and shape of its tensor."""

    def __init__(self, types: TypeWriter) -> None:
        self.types = types

    def __missing__(self, key: tuple[DType, tuple[int, ...] | None]) -> bytes:
        encoded = self[key] = ONE + self.types.tensor(Tensor("", *key))
        return encoded


def terminating(encoder: Encoder, name: str, values: list[bytes]) -> bytes:
    """Encode the operation that ends a block and returns these values."""
    head = encoder.operation(name) + bytes((HAS_OPERANDS if values else 0,)) + encoder.unknown
    return head + (encoder.numbers[len(values)] + b"".join(values) if values else b"")
