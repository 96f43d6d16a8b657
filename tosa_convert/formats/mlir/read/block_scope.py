"""The state of the block that is being read, and the regions that remain to be read."""

from __future__ import annotations

from tosa_convert.formats.mlir.bytecode import operations
from tosa_convert.formats.mlir.bytecode.operations import Operation
from tosa_convert.graph.model import Block, Operator, Region, ShapeValue, Tensor


class RegionNames:
    """Names that an import noted for a region; None for those it did not note."""

    __slots__ = ("block", "inputs", "name", "outputs")

    def __init__(self) -> None:
        self.name: str | None = None
        self.block: str | None = None
        self.inputs: list[str | None] = []
        self.outputs: list[str | None] = []


class PendingRegion:
    """A region that is named, but whose block is not read yet.

    inputs, outputs: the names that its arguments and results carry; they may be fewer than there are.
    in_function: its values are numbered after those of the function, not from 0.
    runner: the operator that runs it. outer: the scope of that operator's block, whose values the region
        sees; None if it is isolated.
    """

    __slots__ = ("body", "in_function", "inputs", "outer", "outputs", "owner", "region", "runner")

    def __init__(
        self,
        region: Region,
        body: operations.Block,
        owner: Operation,
        inputs: list[str | None] | None = None,
        outputs: list[str | None] | None = None,
        in_function: bool = True,
        runner: Operator | None = None,
        outer: Scope | None = None,
    ) -> None:
        self.region = region
        self.body = body
        self.owner = owner
        self.inputs = [] if inputs is None else inputs
        self.outputs = [] if outputs is None else outputs
        self.in_function = in_function
        self.runner = runner
        self.outer = outer


class Scope:
    """The state of the block that is being read.

    values: names by the numbers of values; "" for a value that has a finding already.
    tensors, shapes: the values of the block, which are those of `block` once it has been read.
    names: names that results of operations get, by the numbers of values.
    taken: names that must not be generated. claimed: names that the module carries.
    runner, outer: as for PendingRegion.
    captured: names of values from outside that were passed in. copies: of constants from outside.
    unsigned: tensors whose elements were unsigned.
    """

    __slots__ = (
        "block",
        "body",
        "captured",
        "claimed",
        "copies",
        "in_function",
        "names",
        "outer",
        "owner",
        "pending",
        "runner",
        "shapes",
        "taken",
        "tensors",
        "unsigned",
        "uses",
        "values",
    )

    def __init__(
        self, item: PendingRegion, block: Block, tensors: dict[str, Tensor], taken: set[str]
    ) -> None:
        self.owner = item.owner
        self.body = item.body
        self.block = block
        self.tensors = tensors
        self.taken = taken
        self.in_function = item.in_function
        self.runner = item.runner
        self.outer = item.outer
        self.captured: dict[int, str] = {}
        self.copies: list[Operator] = []
        self.shapes: dict[str, ShapeValue] = {}
        self.values: dict[int, str] = {}
        self.names: dict[int, str] = {}
        self.claimed: set[str] = set()
        self.unsigned: set[str] = set()
        self.pending: list[PendingRegion] = []
        #: The names of the operations that use each value, made on the first call of `users`.
        self.uses: dict[int, set[str]] | None = None

    def users(self, value: int, names: list[str]) -> set[str]:
        """Return the names of the operations that use a value of this block.

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
