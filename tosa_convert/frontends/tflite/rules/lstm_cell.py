"""The weights of an LSTM, and its step in floating point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.tflite.rules.sequences import (
    Constants,
    activate,
    clipped,
    matrix_of,
    part,
)

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value

#: What TFLite adds to a variance.
_VARIANCE: Final = 1e-8


class LstmCell:
    """Weights of all gates as one matrix for the input, and one for the output of the step before.

    Gates are "i" (input), "f" (forget), "c" (cell) and "o" (output), in TFLite's order; without "i", its
    gate is 1 minus that of "f". Weights are "input_f", "recurrent_f", "cell_f", "bias_f" and "norm_f" of
    the gate f, "projection" and "projection_bias".
    """

    def __init__(self, weights: Mapping[str, Any]) -> None:
        import numpy as np

        self.const = Constants()
        self.gates = [gate for gate in "ifco" if f"input_{gate}" in weights]
        self.input = matrix_of([weights[f"input_{gate}"] for gate in self.gates])
        self.recurrent = matrix_of([weights[f"recurrent_{gate}"] for gate in self.gates])
        bias = np.concatenate([weights[f"bias_{gate}"] for gate in self.gates])
        self.none = np.zeros_like(bias)
        self.has_norm = "norm_f" in weights
        self.bias = self.none if self.has_norm else bias
        self.has_projection = "projection" in weights
        if self.has_projection:
            self.projection = matrix_of([weights["projection"]])
            none = np.zeros(self.projection.shape[0], bias.dtype)
            self.projection_bias = weights.get("projection_bias", none)
        self.rows = {role: row[None, None, None] for role, row in weights.items() if row.ndim == 1}

    def gates_of(self, b: Builder, rows: Value) -> Value:
        """Return what the inputs add to the gates, of all steps."""
        return self.const.product(b, rows, self.input, self.bias)

    def step(self, b: Builder, x: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        """Return the output of a step, and the output and the cell after it."""
        raise NotImplementedError

    def parts(self, b: Builder, total: Value) -> dict[str, Value]:
        """Return what belongs to each gate."""
        return {gate: part(b, total, n, len(self.gates)) for n, gate in enumerate(self.gates)}

    def row(self, b: Builder, role: str) -> Value:
        """Return a weight for each element as a constant."""
        return self.const(b, self.rows[role])


class FloatCell(LstmCell):
    """Steps of floating point. activation, cell_clip, proj_clip: as in TFLite."""

    def __init__(
        self, weights: Mapping[str, Any], activation: int, cell_clip: float, proj_clip: float
    ) -> None:
        super().__init__(weights)
        self.activation, self.cell_clip, self.proj_clip = activation, cell_clip, proj_clip

    def step(self, b: Builder, x: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        output, cell = states
        total = b.add(x, self.const.product(b, output, self.recurrent, self.none))
        parts = self.parts(b, total)
        forget = self._gate(b, "f", parts, cell)
        update = self._gate(b, "i", parts, cell) if "i" in parts else b.sub(1, forget)
        added = b.mul(update, self._gate(b, "c", parts, cell))
        cell = clipped(b, b.add(b.mul(forget, cell), added), self.cell_clip)
        output = b.mul(self._gate(b, "o", parts, cell), activate(b, cell, self.activation))
        if self.has_projection:
            output = self.const.product(b, output, self.projection, self.projection_bias)
            output = clipped(b, output, self.proj_clip)
        return output, (output, cell)

    def _gate(self, b: Builder, name: str, parts: Mapping[str, Value], cell: Value) -> Value:
        """Return a gate after its activation."""
        value = parts[name]
        if f"cell_{name}" in self.rows:
            value = b.add(value, b.mul(cell, self.row(b, f"cell_{name}")))
        if self.has_norm:
            value = b.mul(_normalized(b, value), self.row(b, f"norm_{name}"))
            value = b.add(value, self.row(b, f"bias_{name}"))
        return activate(b, value, self.activation) if name == "c" else b.sigmoid(value)


def _normalized(b: Builder, x: Value) -> Value:
    """Subtract the mean, and divide by the standard deviation."""
    share = 1.0 / (x.shape or (1,))[-1]
    distance = b.sub(x, b.mul(b.reduce_sum(x, axis=3), share))
    variance = b.mul(b.reduce_sum(b.mul(distance, distance), axis=3), share)
    return b.mul(distance, b.rsqrt(b.add(variance, _VARIANCE)))
