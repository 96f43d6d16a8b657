"""RESCALE in its steps, for faults of one of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from golden.fault_bench.fault import At, Value
from golden.fault_bench.third_party_support import Array, array


class Requantised:
    """The steps of a RESCALE.

    value: without its zero point. exact: the scaled value before rounding, in extended precision.
    """

    def __init__(self, at: At) -> None:
        """Read the operands."""
        attributes = at.op.attributes
        self.value = _signed(array(at.operands[0]), attributes["input_unsigned"]).astype(np.int64)
        self.multiplier = array(at.operands[1]).astype(np.int64).reshape(-1)
        self.shift = array(at.operands[2]).astype(np.int64).reshape(-1)
        if not attributes["per_channel"]:
            self.multiplier, self.shift = self.multiplier[:1], self.shift[:1]
        self.value = self.value - int(
            _signed(array(at.operands[3]), attributes["input_unsigned"]).flat[0]
        )
        unsigned = attributes["output_unsigned"]
        self.output_point = int(_signed(array(at.operands[4]), unsigned).flat[0])
        self.kind: Any = array(at.operands[0]).dtype
        result = at.block.tensors[at.op.outputs[0]]
        assert result.dtype is not None
        self.element = result.dtype
        self.shape = tuple(result.shape or ())
        bits = result.dtype.bits
        self.low, self.high = (
            (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        )

    @property
    def exact(self) -> Array:
        """Return the scaled value, exact but for a part in 2^64."""
        return self.scaled(self.multiplier, self.shift)

    def scaled(self, multiplier: Array, shift: Array) -> Array:
        """Return the value with another scale."""
        product = (self.value * multiplier).astype(np.longdouble)
        found: Array = np.ldexp(product, -shift.astype(np.int32))
        return found

    def result(self, rounded: Any) -> list[Value]:
        """Return rounded values with their zero point, saturated."""
        found = np.clip(rounded + self.output_point, self.low, self.high)
        return [found.astype(np.int64).astype(self.element.numpy).reshape(self.shape)]


def _signed(values: Array, is_unsigned: Any) -> Array:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}") if is_unsigned else values
