"""The state of the block that is being read, and the regions that remain to be read."""

from __future__ import annotations

from dataclasses import dataclass, field

from tosa_convert.graph.model import Region, ShapeValue, Tensor
from tosa_convert.mlir.bytecode import operations
from tosa_convert.mlir.bytecode.operations import Operation


@dataclass(slots=True)
class RegionNames:
    """Names that an import noted for a region; None for those it did not note."""

    name: str | None = None
    block: str | None = None
    inputs: list[str | None] = field(default_factory=list)
    outputs: list[str | None] = field(default_factory=list)


@dataclass(slots=True)
class PendingRegion:
    """A region that is named, but whose block is not read yet.

    inputs, outputs: the names that its arguments and results carry; they may be fewer than there are.
    in_function: its values are numbered after those of the function, not from 0.
    """

    region: Region
    body: operations.Block
    owner: Operation
    inputs: list[str | None] = field(default_factory=list)
    outputs: list[str | None] = field(default_factory=list)
    in_function: bool = True


@dataclass(slots=True)
class Scope:
    """The state of the block that is being read.

    values: names by the numbers of values; "" for a value that has a finding already.
    names: names that results of operations get, by the numbers of values.
    taken: names that must not be generated. claimed: names that the module carries.
    """

    owner: Operation
    body: operations.Block
    tensors: dict[str, Tensor]
    taken: set[str]
    in_function: bool
    shapes: dict[str, ShapeValue] = field(default_factory=dict)
    values: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    claimed: set[str] = field(default_factory=set)
    pending: list[PendingRegion] = field(default_factory=list)
    #: The names of the operations that use each value, made on the first call of `users`.
    uses: dict[int, set[str]] | None = None

    def users(self, value: int, names: list[str]) -> set[str]:
        """The names of the operations that use a value of this block.

        names: the full names of operations, by their numbers.
        """
        if self.uses is None:
            self.uses = {}
            blocks = [self.body]
            while blocks:
                for fields in blocks.pop().operations:
                    operation = Operation(*fields)
                    for operand in operation.operands:
                        self.uses.setdefault(operand, set()).add(names[operation.name])
                    for region in operation.regions:
                        blocks += region.blocks
        return self.uses.get(value, set())
