"""The weights of an LSTM, and its steps: of floats, and in the integers of TFLite's reference kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.arithmetic import clip
from tosa_convert.frontends.lowering.normalization import layer_norm
from tosa_convert.frontends.lowering.recurrent import States
from tosa_convert.frontends.lowering.reductions import by_operator
from tosa_convert.frontends.lowering.scope import Array, Data, Scope, constant
from tosa_convert.frontends.lowering.types import INT32
from tosa_convert.frontends.tflite import integer_functions
from tosa_convert.frontends.tflite.rescale import gathered, rescaled
from tosa_convert.frontends.tflite.rules.lstm_integers import Integers
from tosa_convert.frontends.tflite.rules.normalization import high_product, inverse_root
from tosa_convert.frontends.tflite.rules.quantised import halved
from tosa_convert.frontends.tflite.rules.sequences import activate, matrix_of, product
from tosa_convert.frontends.tflite.scales import RANGES

_LOWEST, _LARGEST = RANGES["int16"]
_FRACTION: Final = 15
#: Fraction bits of a mean.
_MEAN_BITS: Final = 10
#: What TFLite adds to a variance.
_VARIANCE: Final = 1e-8


class LstmCell(ABC):
    """Weights of all gates as one matrix for the input, and one for the output of the step before.

    Gates are "i" (input), "f" (forget), "c" (cell) and "o" (output), in TFLite's order; without "i", its
    gate is 1 minus that of "f". Weights are "input_f", "recurrent_f", "cell_f", "bias_f" and "norm_f" of
    the gate f, "projection" and "projection_bias".
    """

    def __init__(self, weights: Mapping[str, Data]) -> None:
        self.gates = [gate for gate in "ifco" if f"input_{gate}" in weights]
        self.input = matrix_of([weights[f"input_{gate}"] for gate in self.gates])
        self.recurrent = matrix_of([weights[f"recurrent_{gate}"] for gate in self.gates])
        bias = np.concatenate([weights[f"bias_{gate}"] for gate in self.gates])
        self.none = constant(np.zeros_like(bias))
        self.has_norm = "norm_f" in weights
        self.bias = self.none if self.has_norm else constant(bias)
        self.has_projection = "projection" in weights
        if self.has_projection:
            self.projection = matrix_of([weights["projection"]])
            none = np.zeros(self.projection.shape[0], bias.dtype)
            self.projection_bias = constant(weights.get("projection_bias", none))
        self.rows = {
            role: constant(row[None, None, None]) for role, row in weights.items() if row.ndim == 1
        }

    def gates_of(self, s: Scope, rows: Array) -> Array:
        """Return what the inputs add to the gates, of all steps."""
        return product(s, rows, self.input, self.bias)

    @abstractmethod
    def step(self, s: Scope, x: Array, states: States) -> tuple[Array, States]:
        """Return the output of a step, and the output and the cell after it."""

    def parts(self, s: Scope, total: Array) -> dict[str, Array]:
        sizes = [total.shape[3] // len(self.gates)] * len(self.gates)
        return dict(zip(self.gates, movement.split(s, total, sizes, 3), strict=True))


class FloatCell(LstmCell):
    """Steps of floating point. activation, cell_clip, proj_clip: as in TFLite."""

    def __init__(
        self, weights: Mapping[str, Data], activation: int, cell_clip: float, proj_clip: float
    ) -> None:
        super().__init__(weights)
        self.activation, self.cell_clip, self.proj_clip = activation, cell_clip, proj_clip

    def step(self, s: Scope, x: Array, states: States) -> tuple[Array, States]:
        output, cell = states
        parts = self.parts(s, s.add(x, product(s, output, self.recurrent, self.none)))
        forget = self._gate(s, "f", parts, cell)
        update = self._gate(s, "i", parts, cell) if "i" in parts else s.sub(1, forget)
        added = s.mul(update, self._gate(s, "c", parts, cell))
        cell = _clipped(s, s.add(s.mul(forget, cell), added), self.cell_clip)
        output = s.mul(self._gate(s, "o", parts, cell), activate(s, cell, self.activation))
        if self.has_projection:
            output = product(s, output, self.projection, self.projection_bias)
            output = _clipped(s, output, self.proj_clip)
        return output, (output, cell)

    def _gate(self, s: Scope, name: str, parts: Mapping[str, Array], cell: Array) -> Array:
        value = parts[name]
        if f"cell_{name}" in self.rows:
            value = s.add(value, s.mul(cell, self.rows[f"cell_{name}"]))
        if self.has_norm:
            factors = self.rows[f"norm_{name}"], self.rows[f"bias_{name}"]
            value = layer_norm(s, value, (3,), *factors, _VARIANCE)
        return (
            activate(s, value, self.activation) if name == "c" else s.elementwise("sigmoid", value)
        )


def _clipped(s: Scope, x: Array, limit: float) -> Array:
    """Clamp to a distance from 0; 0 means no limit."""
    return clip(s, x, -limit, limit) if limit > 0 else x


class IntegerCell(LstmCell):
    """Steps of integers; gates and cell are INT32 with the range of int16."""

    def __init__(self, weights: Mapping[str, Data], facts: Integers, batch: int) -> None:
        super().__init__(weights)
        self.facts = facts
        # By experiment: the kernel takes weights of the cell as if the cell had the size of the output.
        cells, outputs = self.none.size // len(self.gates), self.recurrent.shape[3]
        for role, row in self.rows.items():
            assert row.data is not None
            numbers = row.data.astype(np.int32)
            if role.startswith("cell_"):
                places = np.arange(batch * cells)
                kept = places < batch * outputs
                numbers = np.where(kept, numbers.ravel()[places % outputs], 0)
                numbers = numbers.reshape(batch, 1, 1, cells).astype(np.int32)
            self.rows[role] = constant(numbers)
        # All functions in one table, one after the other.
        bits = sorted({integer_functions.GATE_BITS, facts.cell_bits})
        tables = [integer_functions.logistic_table(), *map(integer_functions.tanh_table, bits)]
        self.table = constant(np.concatenate(tables))
        # Without what depends on the cell or on other gates, all gates are looked up at once.
        self.is_joint = not self.has_norm and not any(role[:5] == "cell_" for role in self.rows)
        self.functions = ["c" if gate == "c" else "gate" for gate in self.gates]
        inputs = len(tables[0])
        self.places = {
            "gate": 0,
            "c": inputs * (1 + bits.index(integer_functions.GATE_BITS)),
            "cell": inputs * (1 + bits.index(facts.cell_bits)),
        }

    def gates_of(self, s: Scope, rows: Array) -> Array:
        total = product(s, rows, self.input, self.bias, self.facts.input_zero)
        return _saturated(s, self._rescaled(s, total, "input"))

    def step(self, s: Scope, x: Array, states: States) -> tuple[Array, States]:
        output, cell = states
        facts = self.facts
        more = product(s, output, self.recurrent, self.none, facts.output_zero)
        total = _saturated(s, s.add(x, self._rescaled(s, more, "recurrent")))
        if self.is_joint:
            total = self._looked_up(s, total, *self.functions)
        parts = self.parts(s, total)
        forget = self._gate(s, "f", parts, cell)
        update = self._gate(s, "i", parts, cell) if "i" in parts else s.sub(_LARGEST, forget)
        added = s.mul(update, self._gate(s, "c", parts, cell))
        kept = halved(s, s.mul(forget, cell), _FRACTION)
        cell = s.add(kept, halved(s, added, _FRACTION + facts.cell_bits))
        limit = facts.cell_clip
        cell = _bounded(s, cell, -limit, limit) if limit else _saturated(s, cell)
        found = s.mul(self._gate(s, "o", parts, cell), self._looked_up(s, cell, "cell"))
        output = rescaled(s, found, facts.scales["hidden"], np.int8, zero=facts.hidden_zero)
        if self.has_projection:
            total = product(s, output, self.projection, self.projection_bias, facts.hidden_zero)
            scale = facts.scales["projection"]
            output = rescaled(s, total, scale, np.int8, zero=facts.output_zero)
            if facts.proj_clip:
                output = clip(s, output, -facts.proj_clip, facts.proj_clip)
        return output, (output, cell)

    def _gate(self, s: Scope, name: str, parts: Mapping[str, Array], cell: Array) -> Array:
        value = parts[name]
        if self.is_joint:
            return value
        if (role := f"cell_{name}") in self.rows:
            more = self._rescaled(s, s.mul(cell, self.rows[role]), role)
            value = _saturated(s, s.add(value, more))
        if self.has_norm:
            value = self._normalized(s, value, name)
        return self._looked_up(s, value, "c" if name == "c" else "gate")

    def _rescaled(self, s: Scope, x: Array, role: str) -> Array:
        """Multiply by the scale of a role; of a role of all gates, each by that of its gate."""
        scales = self.facts.scales
        if role in scales:
            return rescaled(s, x, scales[role], INT32)
        times = x.shape[-1] // len(self.gates)
        rows = [scales[f"{role}_{gate}"] for gate in self.gates for _ in range(times)]
        return rescaled(s, x, rows, INT32)

    def _looked_up(self, s: Scope, x: Array, *functions: str) -> Array:
        """Look up each element in the table of a function, or of that of its part."""
        starts = np.array([self.places[name] - _LOWEST for name in functions], np.int32)
        starts = np.repeat(starts, x.shape[-1] // len(functions) if len(functions) > 1 else 1)
        index = s.add(x, constant(starts[None, None, None]))
        return s.cast(gathered(s, index, self.table), INT32)

    def _normalized(self, s: Scope, x: Array, name: str) -> Array:
        """Subtract the mean, divide by the standard deviation, and apply the gate's weights and bias."""
        mean, variance = _mean_and_variance(s, x)
        variance = s.select(s.greater(1, variance), self.facts.guards[name], variance)
        # Of 30 bits the kernel drops a pair first.
        is_large = s.greater_equal(variance, 1 << 29)
        reduced = s.elementwise("arithmetic_right_shift", variance, 2, round=False)
        root, shift = inverse_root(s, s.select(is_large, reduced, variance))
        shift = s.add(shift, s.select(is_large, 1, 0, INT32))
        found = high_product(s, s.sub(s.mul(x, 1 << _MEAN_BITS), mean), root)
        size = s.elementwise(
            "arithmetic_right_shift", s.elementwise("abs", found), shift, round=True
        )
        found = s.select(s.greater(found, 0), size, s.sub(0, size))
        total = s.add(s.mul(found, self.rows[f"norm_{name}"]), self.rows[f"bias_{name}"])
        return _saturated(s, self._rescaled(s, halved(s, total, _MEAN_BITS), f"norm_{name}"))


def _bounded(s: Scope, x: Array, low: int, high: int) -> Array:
    return s.minimum(s.maximum(x, low), high)


def _saturated(s: Scope, x: Array) -> Array:
    return _bounded(s, x, _LOWEST, _LARGEST)


def _mean_and_variance(s: Scope, x: Array) -> tuple[Array, Array]:
    """Return the mean with 10 fraction bits, and the variance, of the elements of each row.

    The kernel has 64 bits for `squares * (2 ** 20 / n) - mean ** 2`. Here each of the two is a sum of
    three numbers of 32 bits, for bits from 20, from 10, and from 0 on.
    """

    def summed(a: Array) -> Array:
        return by_operator(s, a, (3,), "reduce_sum", keep=True)

    def bits(a: Array) -> tuple[Array, Array]:
        high = s.elementwise("arithmetic_right_shift", a, _MEAN_BITS, round=False)
        return high, s.elementwise("bitwise_and", a, one - 1)

    count, one = x.shape[-1], 1 << _MEAN_BITS
    total = summed(x)
    whole = s.elementwise("intdiv", total, count)
    rest = s.sub(total, s.mul(whole, count))
    mean = s.add(s.mul(whole, one), s.elementwise("intdiv", s.mul(rest, one), count))
    upper, low = bits(s.mul(x, x))
    factor = (one * one) // count
    squares = [s.mul(summed(part), factor) for part in (*bits(upper), low)]
    high, low = bits(s.elementwise("abs", mean))
    means = [s.mul(high, high), s.mul(s.mul(high, low), 2), s.mul(low, low)]
    digits = [s.sub(square, part) for square, part in zip(squares, means, strict=True)]
    carry, _ = bits(digits[2])
    carry, _ = bits(s.add(digits[1], carry))
    return mean, s.add(digits[0], carry)
