"""A writer of the operators that replace those of a lowering."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.dtypes import RoundingMode, dtype
from tosa_convert.graph.model import Operator
from tosa_convert.records import replace


class Writer(BlockEditor):
    """Makes the operators of corrected lowerings in a block."""

    shares_constants = False

    def fresh_name(self, wanted: str = "") -> str:
        """Return a name that no value has, which says that a lowering was corrected."""
        return super().fresh_name(f"corrected_{wanted}")

    def values(self, numbers: Sequence[float], element: str, shape: tuple[int, ...] = ()) -> str:
        """Add a constant of an element type, which by default is a list; return its name."""
        return self.constant(np.array(numbers).reshape(shape or (len(numbers),)), dtype(element))

    def rounding(
        self, rescale: Operator, mode: str, inputs: Sequence[str], **attributes: bool
    ) -> Operator:
        """Return a RESCALE with another way of rounding, and other operands and attributes."""
        changed = {**rescale.attributes, "rounding_mode": RoundingMode[mode], **attributes}
        return replace(rescale, inputs=tuple(inputs), attributes=changed)

    def by(self, kind: str, value: str, number: float) -> str:
        """Add an operator of a value and a number; return the result."""
        return self.emit(kind, [value, self.number(number, value)])

    def between(self, value: str, low: float, high: float) -> str:
        """Add bounds to a value; return the result."""
        least, most = self.number(low, value), self.number(high, value)
        above = self.emit("MAXIMUM", [value, least])
        return self.emit("MINIMUM", [above, most])

    def like(self, name: str, element: str = "") -> str:
        """Add a tensor of the type and the shape of another, or of another type; return its name."""
        tensor = self.tensors[name]
        return self.new_tensor("value", dtype(element) if element else tensor.dtype, tensor.shape)
