"""An operation in a form that TOSA had before 1.0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tosa_convert.graph.dtypes import DType

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
        """The name without the dialect."""
        return self.name.partition(".")[2] or self.name
