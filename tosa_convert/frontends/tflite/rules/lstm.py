"""LSTM: of one step, of a sequence, and of a sequence in both directions.

All gates are one product for the whole sequence, and one for each step. Integers are those of TFLite's
kernel with int16 as cell, bit for bit; its other kernel, which has 12 intermediate tensors, computes
between its integers in floating point.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tosa_convert.frontends.lowering import movement
from tosa_convert.frontends.lowering.arithmetic import clip
from tosa_convert.frontends.lowering.normalization import layer_norm
from tosa_convert.frontends.lowering.recurrent import States
from tosa_convert.frontends.lowering.reductions import by_operator
from tosa_convert.frontends.lowering.scope import Array, Data, NotLowered, Scope, constant
from tosa_convert.frontends.lowering.types import INT32
from tosa_convert.frontends.tflite import integer_functions
from tosa_convert.frontends.tflite.node import Node, Rule
from tosa_convert.frontends.tflite.read import Tensor
from tosa_convert.frontends.tflite.rescale import gathered, rescaled
from tosa_convert.frontends.tflite.rules.normalization import high_product, inverse_root
from tosa_convert.frontends.tflite.rules.quantised import halved, power_of_two
from tosa_convert.frontends.tflite.rules.recurrent import (
    OTHER,
    State,
    activate,
    constants_at,
    joined,
    matrix_of,
    product,
    refuse_hybrid,
    rows_of,
    run,
)
from tosa_convert.frontends.tflite.scales import RANGES, Scale, rescale_of, single

#: The scale of a gate before its activation, without layer normalisation.
_GATE_SCALE: Final = 2.0**-12
#: The states' places among the operands, and the intermediate tensor of the output before projection.
_OUTPUT, _CELL, _HIDDEN = 18, 19, 4
_FRACTION: Final = 15
#: What a weight is -> its type.
_TYPES: Final = {
    **dict.fromkeys(("input", "recurrent"), "int8"),
    **dict.fromkeys(("cell", "norm"), "int16"),
    "bias": "int32",
}


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


def find_integers(n: Node, tensors: Mapping[str, Tensor], clips: tuple[float, float]) -> Integers:
    """Find the facts of the kernel of integers; tensors: its weights, by what they are."""
    x = n.tensor(0)
    output, cell, hidden, bits = _checked(n, tensors)
    scales: dict[str, Scale] = {}
    guards = {}
    has_norm = "norm_f" in tensors
    for number, gate in enumerate("ifco"):
        if f"input_{gate}" not in tensors:
            continue
        gate_scale = _GATE_SCALE
        if has_norm:
            gate_scale = n.part.tensors[n.operator.intermediates[number]].scale
        for role, given in (("input", x.scale), ("recurrent", output.scale)):
            weights = tensors[f"{role}_{gate}"].scale
            scales[f"{role}_{gate}"] = _scale(single(weights * given) / gate_scale)
        if f"cell_{gate}" in tensors:
            peephole = tensors[f"cell_{gate}"].scale * 2.0 ** (bits - _FRACTION)
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
        proj_clip=_limit(clips[1], n.result.scale, "int8"),
        guards=guards,
    )


def _checked(n: Node, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, int]:
    """Return output, cell, output before projection, and the integer bits of the cell."""
    output, cell = (n.part.tensors[n.operator.inputs[place]] for place in (_OUTPUT, _CELL))
    kinds = [(role.partition("_")[0], tensor.dtype) for role, tensor in tensors.items()]
    is_known = all(_TYPES.get(role, dtype) == dtype for role, dtype in kinds)
    inner = [n.part.tensors[one] for one in n.operator.intermediates]
    if not is_known or (output.dtype, cell.dtype) != ("int8", "int16") or len(inner) <= _HIDDEN:
        raise NotLowered(OTHER)
    power = power_of_two(cell.scale) if cell.scale else None
    if power is None or not -_FRACTION <= power <= 6 - _FRACTION:
        raise NotLowered(OTHER)
    return output, cell, inner[_HIDDEN], power + _FRACTION


def _limit(clip: float, scale: float, dtype: str) -> int:
    low, high = RANGES[dtype]
    return int(min(max(single(clip / scale), low), high)) if clip > 0 else 0


def _scale(number: float) -> Scale:
    """Return multiplier and shift of a number that TFLite has in FP32."""
    return rescale_of(single(number))


_LOWEST, _LARGEST = RANGES["int16"]
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


#: What an operand is -> its place in the operator of one direction.
_PLACES: Final = {
    **{f"input_{gate}": 1 + n for n, gate in enumerate("ifco")},
    **{f"recurrent_{gate}": 5 + n for n, gate in enumerate("ifco")},
    **{f"cell_{gate}": 9 + n for n, gate in enumerate("ifo")},
    **{f"bias_{gate}": 12 + n for n, gate in enumerate("ifco")},
    "projection": 16,
    "projection_bias": 17,
}
_NORMS: Final = {f"norm_{gate}": 20 + n for n, gate in enumerate("ifco")}
_STATES: Final = 18
#: In the operator of both directions: how much later the weights of the second one are, the states of
#: each, the second input, and its weights in each.
_SECOND: Final = 17
_BOTH_STATES: Final = (35, 37)
_AUX: Final = 39
_AUX_WEIGHTS: Final = (40, 44)
#: The kernel of LSTM that has other operands.
_BASIC: Final = 1


def _one(n: Node) -> Array:
    is_step = n.kind == "LSTM"
    if is_step and n.option(3, "b") == _BASIC:
        raise NotLowered("it is the basic kernel", "export it with the full kernel")
    places = _PLACES | (_NORMS if len(n.given) > _STATES + 2 else {})
    return _directed(n, places, [0], _STATES, is_step or n.flag(3))


def _both(n: Node) -> Sequence[Array]:
    made = []
    for number, (states, aux) in enumerate(zip(_BOTH_STATES, _AUX_WEIGHTS, strict=True)):
        places = {role: place + number * _SECOND for role, place in _PLACES.items()}
        inputs = [0]
        if n.has(_AUX) and n.has(_AUX_WEIGHTS[0] + 1):
            # With weights of its own the second input is added; without, it is that of the second
            # direction.
            inputs = [0, _AUX]
            places |= {f"aux_{gate}": aux + at for at, gate in enumerate("ifco")}
        elif n.has(_AUX) and number:
            inputs = [_AUX]
        made.append(_directed(n, places, inputs, states, n.flag(4, True), bool(number)))
    return joined(n, made, n.flag(3))


def _directed(
    n: Node,
    places: Mapping[str, int],
    inputs: Sequence[int],
    states: int,
    time_major: bool,
    backwards: bool = False,
) -> Array:
    """Lower a direction. places: of its weights, by what they are. states: the place of its states."""
    constants = constants_at(n, list(places.values()))
    roles = {role: place for role, place in places.items() if place in constants}
    weights = {role: constants[place] for role, place in roles.items()}
    rows, steps, batch = rows_of(n, inputs, time_major)
    cell = _cell(n, roles, weights, batch if time_major else 1)
    kept = State(n, states), State(n, states + 1)
    return run(n, cell.gates_of(n.scope, rows), steps, kept, cell.step, time_major, backwards)


def _cell(n: Node, roles: Mapping[str, int], weights: dict[str, Data], batch: int) -> LstmCell:
    """Return the cell of a direction. batch: 1 if it comes first, and sequences run one by one."""
    for gate in "ifco":
        recurrent = weights.get(f"recurrent_{gate}")
        if recurrent is not None and recurrent.ndim == 1:  # A diagonal.
            weights[f"recurrent_{gate}"] = np.diag(recurrent)
        if f"aux_{gate}" in weights:
            both = weights[f"input_{gate}"], weights[f"aux_{gate}"]
            weights[f"input_{gate}"] = np.concatenate(both, axis=1)
    activation, clips = n.option(0, "b"), (n.real(1), n.real(2))
    if n.tensor(0).dtype == "float32":
        refuse_hybrid(n, list(roles.values()))
        if not activation:
            reason = "its activation is NONE, for which TFLite's kernel leaves other numbers"
            raise NotLowered(reason)
        return FloatCell(weights, activation, *clips)
    if n.tensor(0).dtype != "int8":
        raise NotLowered(OTHER)
    if len(n.operator.intermediates) == len("ifco") * 3:
        reason = "its kernel computes in floating point between integers"
        raise NotLowered(reason, "quantise it with 5 intermediate tensors, not 12")
    integers = find_integers(n, {role: n.tensor(place) for role, place in roles.items()}, clips)
    return IntegerCell(weights, integers, batch)


RULES: Final[dict[str, Rule]] = {
    "LSTM": _one,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _one,
    "BIDIRECTIONAL_SEQUENCE_LSTM": _both,
}
