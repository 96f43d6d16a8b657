"""The step of an LSTM of int8 with a cell of int16, in the integers of TFLite's reference kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.tflite.read import Operator as TfliteOperator
from tosa_convert.frontends.tflite.read import Tensor, TfliteFile
from tosa_convert.frontends.tflite.rules.by_builder import between, sizes_of
from tosa_convert.frontends.tflite.rules.lstm_cell import LstmCell
from tosa_convert.frontends.tflite.rules.normalization import high_product, inverse_root
from tosa_convert.frontends.tflite.scales import (
    RANGES,
    Scale,
    rescale_of,
    single,
)

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value

_LOWEST, _LARGEST = RANGES["int16"]
#: The scale of a gate before its activation, without layer normalisation.
_GATE_SCALE: Final = 2.0**-12
#: The states' places among the operands, and the intermediate tensor of the output before projection.
_OUTPUT, _CELL, _HIDDEN = 18, 19, 4
#: How close the logarithm of a scale is to an integer that is a power of 2.
_POWER_OF_TWO: Final = 1e-3
_FRACTION: Final = 15
#: Fraction bits of a mean.
_MEAN_BITS: Final = 10


@dataclass(frozen=True, slots=True)
class Integers:
    """input_zero, output_zero, hidden_zero: zero points of input, output, and output before projection.

    scales: "input_f", "recurrent_f", "cell_f" and "norm_f" of the gate f, "hidden" and "projection".
    cell_bits: integer bits of the cell. cell_clip, proj_clip: 0 is none.
    guards: gate -> what layer normalisation takes as a variance below 1.
    """

    input_zero: int
    output_zero: int
    hidden_zero: int
    scales: Mapping[str, Scale]
    cell_bits: int
    cell_clip: int
    proj_clip: int
    guards: Mapping[str, int]


def find_integers(
    model: TfliteFile,
    operator: TfliteOperator,
    tensors: Mapping[str, Tensor],
    clips: tuple[float, float],
) -> Integers | None:
    """Find the facts of a kernel of integers; None if it has another form."""
    x, result = model.tensors[operator.inputs[0]], model.result(operator)
    output, cell = (model.tensors[operator.inputs[place]] for place in (_OUTPUT, _CELL))
    wanted = {"input": "int8", "recurrent": "int8", "projection": "int8", "bias": "int32"}
    wanted |= {"cell": "int16", "norm": "int16"}
    types = [(role.partition("_")[0], tensor.dtype) for role, tensor in tensors.items()]
    types = [pair for pair in types if pair[0] != "projection"]
    if any(wanted[role] != dtype for role, dtype in types) or output.dtype != "int8":
        return None
    between_them = [model.tensors[one] for one in operator.intermediates]
    if cell.dtype != "int16" or not cell.scale or len(between_them) <= _HIDDEN:
        return None
    exponent = round(math.log2(cell.scale))
    bits = exponent + _FRACTION
    if abs(math.log2(cell.scale) - exponent) > _POWER_OF_TWO or not 0 <= bits <= 6:
        return None
    hidden = between_them[_HIDDEN]
    scales: dict[str, Scale] = {}
    guards = {}
    has_norm = "norm_f" in tensors
    for number, gate in enumerate("ifco"):
        if f"input_{gate}" not in tensors:
            continue
        gate_scale = between_them[number].scale if has_norm else _GATE_SCALE
        for role, given in (("input", x.scale), ("recurrent", output.scale)):
            weights = tensors[f"{role}_{gate}"].scale
            scales[f"{role}_{gate}"] = _scale(single(weights * given) / gate_scale)
        if f"cell_{gate}" in tensors:
            peephole = tensors[f"cell_{gate}"].scale * 2.0**exponent
            scales[f"cell_{gate}"] = _scale(peephole / gate_scale)
        if has_norm:
            norm = tensors[f"norm_{gate}"].scale
            scales[f"norm_{gate}"] = _scale(norm * 2.0**12)
            guards[gate] = max(1, int(single(10000 * norm)))
    scales["hidden"] = _scale(2.0**-30 / hidden.scale)
    if "projection" in tensors:
        projected = single(tensors["projection"].scale * hidden.scale)
        scales["projection"] = _scale(projected / output.scale)
    return Integers(
        *(x.zero_point, output.zero_point, hidden.zero_point),
        scales=scales,
        cell_bits=bits,
        cell_clip=_limit(clips[0], cell.scale, "int16"),
        proj_clip=_limit(clips[1], result.scale, "int8"),
        guards=guards,
    )


def _limit(clip: float, scale: float, dtype: str) -> int:
    """Return a clip as an integer."""
    low, high = RANGES[dtype]
    return int(min(max(single(clip / scale), low), high)) if clip > 0 else 0


def _scale(number: float) -> Scale:
    """Return multiplier and shift of a number that TFLite has in FP32."""
    return rescale_of(single(number))


class IntegerCell(LstmCell):
    """Steps of integers; gates and cell are INT32 with the range of int16."""

    def __init__(self, weights: Mapping[str, Any], facts: Integers, batch: int) -> None:
        import numpy as np

        from tosa_convert.frontends.tflite import integer_functions

        super().__init__(weights)
        self.facts = facts
        self.rows = {role: row.astype(np.int32) for role, row in self.rows.items()}
        # By experiment: the kernel takes weights of the cell as if the cell had the size of the output.
        cells, outputs = len(self.none) // len(self.gates), self.recurrent.shape[3]
        for role in [role for role in self.rows if role[:5] == "cell_"]:
            places = np.arange(batch * cells)
            row = np.where(places < batch * outputs, weights[role][places % outputs], 0)
            self.rows[role] = row.astype(np.int32).reshape(batch, 1, 1, cells)
        # All functions in one table, one after the other.
        bits = sorted({integer_functions.GATE_BITS, facts.cell_bits})
        tables = [integer_functions.logistic_table(), *map(integer_functions.tanh_table, bits)]
        self.table = np.concatenate(tables).reshape(1, -1, 1)
        # Without what depends on the cell or on other gates, all gates are looked up at once.
        self.is_joint = not self.has_norm and not any(role[:5] == "cell_" for role in self.rows)
        self.functions = ["c" if gate == "c" else "gate" for gate in self.gates]
        inputs = len(tables[0])
        self.places = {
            "gate": 0,
            "c": inputs * (1 + bits.index(integer_functions.GATE_BITS)),
            "cell": inputs * (1 + bits.index(facts.cell_bits)),
        }

    def gates_of(self, b: Builder, rows: Value) -> Value:
        total = self.const.product(b, rows, self.input, self.bias, self.facts.input_zero)
        return self.saturated(b, self.rescaled(b, total, "input"))

    def step(self, b: Builder, x: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        output, cell = states
        facts, const = self.facts, self.const
        more = const.product(b, output, self.recurrent, self.none, facts.output_zero)
        total = self.saturated(b, b.add(x, self.rescaled(b, more, "recurrent")))
        if self.is_joint:
            total = self.looked_up(b, total, *self.functions)
        parts = self.parts(b, total)
        forget = self.gate(b, "f", parts, cell)
        update = self.gate(b, "i", parts, cell) if "i" in parts else b.sub(_LARGEST, forget)
        added = b.mul(update, self.gate(b, "c", parts, cell))
        kept = _divided(b, b.mul(forget, cell), _FRACTION)
        cell = b.add(kept, _divided(b, added, _FRACTION + facts.cell_bits))
        limit = facts.cell_clip
        cell = between(b, cell, (-limit, limit)) if limit else self.saturated(b, cell)
        found = b.mul(self.gate(b, "o", parts, cell), self.looked_up(b, cell, "cell"))
        multiplier, shift = facts.scales["hidden"]
        output = _int8(b, found, multiplier, shift, facts.hidden_zero)
        if self.has_projection:
            zero = facts.hidden_zero
            total = const.product(b, output, self.projection, self.projection_bias, zero)
            output = _int8(b, total, *facts.scales["projection"], facts.output_zero)
            if facts.proj_clip:
                output = b.clamp(output, min_val=-facts.proj_clip, max_val=facts.proj_clip)
        return output, (output, cell)

    def gate(self, b: Builder, name: str, parts: Mapping[str, Value], cell: Value) -> Value:
        """Return a gate after its activation."""
        value = parts[name]
        if self.is_joint:
            return value
        if (role := f"cell_{name}") in self.rows:
            more = self.rescaled(b, b.mul(cell, self.row(b, role)), role)
            value = self.saturated(b, b.add(value, more))
        if self.has_norm:
            value = self.normalized(b, value, name)
        return self.looked_up(b, value, "c" if name == "c" else "gate")

    def rescaled(self, b: Builder, x: Value, role: str) -> Value:
        """Multiply by the scale of a role; of a role of all gates, each by that of its gate."""
        import numpy as np

        scales = self.facts.scales
        rows = [scales[role]] if role in scales else [scales[f"{role}_{g}"] for g in self.gates]
        times = sizes_of(x)[-1] // len(self.gates) if len(rows) > 1 else 1
        return b.rescale(
            x,
            b.const(np.repeat(np.array([row[0] for row in rows], np.int32), times)),
            b.const(np.repeat(np.array([row[1] for row in rows], np.int8), times)),
            scale32=True,
            per_channel=len(rows) > 1,
            rounding_mode="DOUBLE_ROUND",
            dtype="int32",
        )

    def saturated(self, b: Builder, x: Value) -> Value:
        return between(b, x, (_LOWEST, _LARGEST))

    def looked_up(self, b: Builder, x: Value, *functions: str) -> Value:
        """Look up each element in the table of a function, or of that of its part."""
        import numpy as np

        shape = sizes_of(x)
        starts = np.array([self.places[name] - _LOWEST for name in functions], np.int32)
        starts = np.repeat(starts, shape[-1] // len(functions) if len(functions) > 1 else 1)
        index = b.reshape(b.add(x, starts.reshape(1, 1, 1, -1)), (1, math.prod(shape)))
        found = b.gather(self.const(b, self.table), index)
        return b.reshape(b.cast(found, dtype="int32"), shape)

    def normalized(self, b: Builder, x: Value, name: str) -> Value:
        """Subtract the mean, divide by the standard deviation, and apply the gate's weights and bias."""
        mean, variance = _mean_and_variance(b, x)
        variance = b.select(b.greater(1, variance), self.facts.guards[name], variance)
        # Of 30 bits the kernel drops a pair first.
        is_large = b.greater_equal(variance, 1 << 29)
        reduced = b.arithmetic_right_shift(variance, 2, round=False)
        root, shift = inverse_root(b, b.select(is_large, reduced, variance))
        shift = b.add(shift, b.select(is_large, 1, b.sub(shift, shift)))
        distance = b.sub(b.mul(x, 1 << _MEAN_BITS), mean)
        found = high_product(b, distance, root)
        size = b.arithmetic_right_shift(b.abs(found), shift, round=True)
        found = b.select(b.greater(0, found), b.sub(0, size), size)
        total = b.add(b.mul(found, self.row(b, f"norm_{name}")), self.row(b, f"bias_{name}"))
        total = _divided(b, total, _MEAN_BITS)
        return self.saturated(b, self.rescaled(b, total, f"norm_{name}"))


def _mean_and_variance(b: Builder, x: Value) -> tuple[Value, Value]:
    """Return the mean with 10 fraction bits, and the variance, of the elements of each row.

    The kernel has 64 bits for `squares * (2 ** 20 / n) - mean ** 2`. Here each of the two is a sum of
    three numbers of 32 bits, for bits from 20, from 10, and from 0 on.
    """
    count = sizes_of(x)[-1]
    total = b.reduce_sum(x, axis=3)
    whole = b.intdiv(total, count)
    rest = b.sub(total, b.mul(whole, count))
    one = 1 << _MEAN_BITS
    mean = b.add(b.mul(whole, one), b.intdiv(b.mul(rest, one), count))

    def bits(value: Value) -> tuple[Value, Value]:
        return b.arithmetic_right_shift(value, _MEAN_BITS, round=False), b.bitwise_and(
            value, one - 1
        )

    upper, low = bits(b.mul(x, x))
    factor = (one * one) // count
    squares = [b.mul(b.reduce_sum(part, axis=3), factor) for part in (*bits(upper), low)]
    high, low = bits(b.abs(mean))
    means = [b.mul(high, high), b.mul(b.mul(high, low), 2), b.mul(low, low)]
    digits = [b.sub(square, part) for square, part in zip(squares, means, strict=True)]
    carry, _ = bits(digits[2])
    carry, _ = bits(b.add(digits[1], carry))
    return mean, b.add(digits[0], carry)


def _divided(b: Builder, x: Value, bits: int) -> Value:
    """Divide by a power of 2, rounding halves away from zero."""
    is_negative = b.arithmetic_right_shift(x, 31, round=False)
    return b.arithmetic_right_shift(b.add(x, is_negative), bits, round=True)


def _int8(b: Builder, x: Value, multiplier: int, shift: int, zero: int) -> Value:
    import numpy as np

    return b.rescale(
        x,
        b.const(np.array([multiplier], np.int32)),
        b.const(np.array([shift], np.int8)),
        output_zp=b.const(np.array([zero], np.int8)),
        scale32=True,
        rounding_mode="DOUBLE_ROUND",
        dtype="int8",
    )
