"""What is known of a block while it is read, and of the regions that are still to be read."""

from __future__ import annotations

from dataclasses import dataclass, field

from tosa_convert.graph.model import Region, ShapeValue, Tensor
from tosa_convert.mlir.bytecode import operations
from tosa_convert.mlir.bytecode.operations import Operation


@dataclass(slots=True)
class Pending:
    """A region whose name is known and whose block is still to be read."""

    region: Region
    body: operations.Block
    owner: Operation
    inputs: list[str | None] = field(default_factory=list)
    outputs: list[str | None] = field(default_factory=list)
    #: Whether it counts its values on from the function's.
    in_function: bool = True


@dataclass(slots=True)
class KeptRegion:
    """Names that an import noted for a region; None where it noted none."""

    name: str | None = None
    block: str | None = None
    inputs: list[str | None] = field(default_factory=list)
    outputs: list[str | None] = field(default_factory=list)


@dataclass(slots=True)
class Scope:
    """What is known of the block that is read.

    values: names by the numbers of values; "" for those that are spoken for by a finding.
    returned: names that the block's results get for being returned.
    taken: names that must not be generated. claimed: names that the module gave.
    """

    owner: Operation
    body: operations.Block
    tensors: dict[str, Tensor]
    taken: set[str]
    in_function: bool
    shapes: dict[str, ShapeValue] = field(default_factory=dict)
    values: dict[int, str] = field(default_factory=dict)
    returned: dict[int, str] = field(default_factory=dict)
    claimed: set[str] = field(default_factory=set)
    pending: list[Pending] = field(default_factory=list)
    #: The names of the operations that use a value, once somebody asked.
    uses: dict[int, set[str]] | None = None

    def users(self, value: int, names: list[str]) -> set[str]:
        """The names of the operations that use a value of this block.

        names: what MLIR calls operations, by the numbers of their names.
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
