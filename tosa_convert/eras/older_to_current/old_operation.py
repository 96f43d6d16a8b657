"""An operation in a form that TOSA had before 1.0."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import Operator
from tosa_convert.records import NamedTuple, dataclass, field

#: The value of an attribute. A list was an ArrayAttr, which the dialect had until 2022; a tuple is a
#: dense array, or a vector of a file. A dictionary has the zero points of `quantization_info`.
OldValue = (
    bool
    | int
    | float
    | str
    | bytes
    | DType
    | list["OldValue"]
    | tuple[int, ...]
    | Mapping[str, "OldValue"]
    | None
)


@dataclass(slots=True, eq=False)
class OldOperation:
    """An operation as an old program has it.

    name: that of the operation in MLIR, such as "tosa.conv2d".
    inputs, outputs: names of values of the block.
    attributes: by name; None for one of a kind that no rule reads.
    location: as in `graph.Operator`.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, OldValue]
    location: str = ""

    @property
    def label(self) -> str:
        """Return the name without the dialect."""
        return self.name.partition(".")[2] or self.name


# -- operations that are written -------------------------------------------------------------------


class Integer(NamedTuple):
    """A signless integer."""

    value: int
    bits: int


class Integers(NamedTuple):
    """A list of signless integers: an array of attributes, or a dense array since 2023."""

    values: tuple[int, ...]
    bits: int


class Floats(NamedTuple):
    """An array of attributes that are numbers of FP32."""

    values: tuple[float, ...]


class Element(NamedTuple):
    """A number by the bytes of an element."""

    data: bytes
    dtype: DType


class ZeroPoints(NamedTuple):
    """`quantization_info`. kind: such as "conv". values: by name."""

    kind: str
    values: dict[str, int]


#: The value of an attribute of an operation that is written.
WrittenValue = (
    bool
    | float
    | str
    | bytes
    | DType
    | IntEnum
    | Integer
    | Integers
    | Floats
    | Element
    | ZeroPoints
)


@dataclass(slots=True, eq=False, repr=False)
class OlderOperator(Operator):
    """An operator in the form of an older release.

    mlir: the name of the operation. own: its attributes, except the value of a constant and the
    symbol of a variable; a float has the type FP32. `attributes` are still those of today.
    """

    mlir: str = ""
    own: dict[str, WrittenValue] = field(default_factory=dict)
