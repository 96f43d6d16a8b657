"""The hub: a TOSA program that knows no file format.

A Graph mirrors what TOSA says a program is: regions of blocks, blocks of operators in topological
order, and tensors and shapes that operators refer to by name. Names are unique within a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import BlockShape, DType
from tosa_convert.graph.opset import AttributeValue, OperatorSpec

#: A dimension whose size is not known.
DYNAMIC = -1
#: Dimensions of a tensor. More would say nothing, and their product may take forever.
MAX_RANK = 64
#: Elements beyond which nobody counts: a file may give a tensor a million dimensions.
_COUNTED = 2**63
#: Characters of a name that a message repeats: a file may give a name of megabytes to everything.
_NAME_CHARACTERS = 200


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A version of the TOSA specification; a draft of 1.1 is (1, 1, 0, True)."""

    major: int
    minor: int
    patch: int = 0
    draft: bool = False

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}{' draft' if self.draft else ''}"


@dataclass(frozen=True, slots=True)
class SoftwareVersion:
    """The release of the software that wrote a file."""

    major: int
    minor: int
    micro: int
    modifier: str = ""

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.micro}{self.modifier and ' ' + self.modifier}"


@dataclass(slots=True, eq=False)
class BlockScale:
    """What makes a tensor block-scaled (MX): consecutive elements share a scale.

    data: one scale for each `shape` elements, row-major; None unless the tensor is constant.
    """

    dtype: DType
    shape: BlockShape
    data: Constant | None = None


@dataclass(slots=True, eq=False)
class Tensor:
    """A value.

    shape: elements in each dimension, DYNAMIC where unknown; () is rank 0, None is unranked.
    data: the value, if it is known: the tensor is a constant or a variable's initial state.
    variable: state that outlives one run; `variable_name` is its symbol.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...] | None
    data: Constant | None = None
    scale: BlockScale | None = None
    variable: bool = False
    variable_name: str = ""

    def element_count(self) -> int | None:
        """Elements of the tensor, or None if a dimension or the rank is unknown."""
        return element_count(self.shape)


@dataclass(slots=True, eq=False)
class ShapeValue:
    """A value of !tosa.shape: `rank` sizes; `data` holds them as INT64 if they are constant."""

    name: str
    rank: int
    data: Constant | None = None

    def values(self) -> tuple[int, ...] | None:
        """The sizes, or None if they are not constant."""
        return None if self.data is None else tuple(self.data.numpy().tolist())


@dataclass(slots=True, eq=False)
class Operator:
    """One operator; inputs and outputs are names of tensors and shapes in the same block.

    location: a textual MLIR location such as `loc("f.mlir":2:8)`, or "" for none.
    """

    spec: OperatorSpec
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    location: str = ""


@dataclass(slots=True, eq=False)
class Block:
    """Operators in topological order, the values they mention, and the block's own signature."""

    name: str
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    shapes: dict[str, ShapeValue] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Region:
    """A graph with a name. Control-flow operators refer to regions by it."""

    name: str
    blocks: list[Block] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Graph:
    """A TOSA program. regions[0] is the main graph.

    producer: the software that wrote the file it was read from, if one did.
    """

    version: Version
    regions: list[Region] = field(default_factory=list)
    producer: SoftwareVersion | None = None

    @property
    def main(self) -> Block:
        """The block that runs first."""
        return self.regions[0].blocks[0]

    def blocks(self) -> Iterator[tuple[str, Block]]:
        """Every block with its path, such as `region "main" block "main"`."""
        for region in self.regions:
            for block in region.blocks:
                yield block_path(region.name, block.name), block

    def constants(self) -> Iterator[tuple[str, Constant]]:
        """Every constant's data with its tensor's name, scales behind their values."""
        for _, block in self.blocks():
            for tensor in block.tensors.values():
                if tensor.data is not None:
                    yield tensor.name, tensor.data
                if tensor.scale is not None and tensor.scale.data is not None:
                    yield f"{tensor.name}/scale", tensor.scale.data


def element_count(shape: tuple[int, ...] | None) -> int | None:
    """Elements of a tensor of this shape, or None if a dimension or the rank is unknown.

    Exact up to 2**63; of a shape beyond that, some number that no data is as long as.
    """
    if shape is None or min(shape, default=0) < 0:
        return None
    if 0 in shape:
        return 0
    count = 1
    for size in shape:
        count *= size
        if count > _COUNTED:
            break
    return count


def quoted(name: str) -> str:
    """A name in quotes, for messages; the middle of a very long one is left out."""
    if len(name) <= _NAME_CHARACTERS:
        return f'"{name}"'
    half = _NAME_CHARACTERS // 2
    return f'"{name[:half]}...{name[-half:]}"'


def sizes(shape: Sequence[int]) -> str:
    """A shape, for messages; the end of a very long one is left out."""
    if len(shape) <= MAX_RANK:
        return str(list(shape))
    return f"{str(list(shape[:MAX_RANK]))[:-1]}, ... {len(shape)} dimensions]"


def block_path(region: str, block: str) -> str:
    """Where a block stands, for messages."""
    return f"region {quoted(region)} block {quoted(block)}"


def operator_path(where: str, index: int, operator: Operator) -> str:
    """Where an operator stands, for messages: its block, its index and its name."""
    return f"{where} operator #{index} {operator.spec.name}"
