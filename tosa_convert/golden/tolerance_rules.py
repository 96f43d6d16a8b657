"""TOSA's accuracy rules: how far an operator's result may be from the exact one.

The specification gives each floating-point operator a bound on its error in terms of the exact
result, which the reference model computes in FP64 (precise mode), and for some of a second tensor,
the bounds, which it computes from the absolute values of the operands (bounds mode). The rows below
were read off the descriptors of the official tests, and the bounds were checked against the official
verifier (tests/golden/test_accuracy.py). A rule judges one operator whose operands were exact: it
says nothing about a network in which errors add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from tosa_convert.golden.array_io import Array
from tosa_convert.graph.dtypes import DType, RoundingMode
from tosa_convert.graph.extract import extract_region
from tosa_convert.graph.model import Block, Graph, Operator, Tensor

#: Element type -> bits of the fraction, smallest normal, largest finite, whether it has infinity.
FLOATS: Final[dict[str, tuple[int, float, float, bool]]] = {
    "FP32": (23, 2.0**-126, (2 - 2.0**-23) * 2.0**127, True),
    "FP16": (10, 2.0**-14, 65504.0, True),
    "BF16": (7, 2.0**-126, (2 - 2.0**-7) * 2.0**127, True),
    "FP8E4M3": (3, 2.0**-6, 448.0, False),
    "FP8E5M2": (2, 2.0**-14, 57344.0, True),
    "FP6E2M3": (3, 1.0, 7.5, False),
    "FP6E3M2": (2, 0.25, 28.0, False),
    "FP4E2M1": (1, 1.0, 6.0, False),
    # Fixed point: everywhere the distance that floats of six bits have below 1.
    "MXINT8": (6, 1.0, 127 / 64, False),
}
#: The number that an MXINT8 of code 1 is.
MXINT8_UNIT: Final = 1 / 64
_SUBNORMALS_REQUIRED: Final = frozenset(("FP8E4M3", "FP8E5M2"))


@dataclass(frozen=True, slots=True)
class Rule:
    """How far a result may be off.

    kind: "exact", "ulp", "dot-product", "abs-error", "reduce-product", "max-relative", "steps",
        "bounds" (the bounds tensor is the bound).
    amount: ulps (away from zero, and towards it `lower` where that is given), the multiple of the
        dot product's unit, products, or integer steps.
    largest: for "max-relative" the size of the largest operand.
    """

    kind: str
    amount: float = 0.0
    base: float = 0.0
    lower: float = 0.0
    divisor: float = 1.0
    magnitude: bool = False
    floor: float = 0.0
    largest: float | None = None

    @property
    def needs_bounds(self) -> bool:
        """Whether the bounds tensor is part of it."""
        return self.kind in ("dot-product", "abs-error", "bounds")

    def __str__(self) -> str:
        plain = self.kind in ("exact", "abs-error", "bounds")
        return self.kind if plain else f"{self.kind} {self.amount:g}"

    def limits(
        self, reference: Array, bounds: Array | None, kind: DType
    ) -> tuple[Array, Array, Array]:
        """Lowest and highest result allowed, and the bound on the error, for each element.

        reference, bounds: float64, from the precise run. Where the bound is infinite or NaN every
        result is allowed; where the reference is NaN so are the limits.
        """
        frac, least, most, _ = FLOATS[kind.name]
        with np.errstate(all="ignore"):
            error = self._error(reference, bounds, frac, least, most)
            inner = error * self.lower / self.amount if self.kind == "ulp" and self.lower else error
            negative = reference < 0
            low = reference - np.where(negative, error, inner)
            high = reference + np.where(negative, inner, error)
            free = ~np.isfinite(error) & ~np.isnan(reference)
            high = np.where(high > most, np.inf, high)
            low = np.where(low > most, np.inf, low)
            low = np.where(low < -most, -np.inf, low)
            high = np.where(high < -most, -np.inf, high)
            low, high = np.where(free, -np.inf, low), np.where(free, np.inf, high)
        return low, high, error

    def _error(
        self, reference: Array, bounds: Array | None, frac: int, least: float, most: float
    ) -> Array:
        size = np.abs(reference)
        if self.kind == "ulp":
            return np.asarray(_ulp(size, frac, least) * self.amount)
        if self.kind == "bounds":
            assert bounds is not None
            return bounds
        if self.kind == "reduce-product":
            factor = math.expm1(self.amount * math.log1p(2.0 ** (-frac - 1)))
            return np.asarray(size * factor)
        if self.kind == "max-relative":
            largest = self.largest
            if largest is None:
                largest = float(np.nanmax(size, initial=0.0, where=np.isfinite(size)))
            relative = np.full(size.shape, self.base * largest)
            return np.asarray(np.maximum(relative, _ulp(size, frac, least) * self.amount))
        if self.kind == "dot-product":
            assert bounds is not None
            unit = np.maximum(bounds * 2.0 ** (-1 - frac), least)
            error = np.where(bounds == 0, 0.0, unit * self.amount)
            overflow = bounds * (1 + self.amount * 2.0 ** (-1 - frac)) > most
            return np.where(overflow | np.isnan(bounds), np.inf, error)
        if self.kind == "abs-error":
            assert bounds is not None
            sized, value = (
                (bounds, np.ones_like(bounds))
                if self.magnitude
                else (
                    reference,
                    bounds + self.base,
                )
            )
            scaled = np.maximum(np.abs(sized), least)
            if self.lower:
                scaled = np.maximum(self.lower / value, scaled)
            error = 2.0 ** (-frac / self.divisor) * scaled * value
            return np.asarray(np.maximum(error, self.floor))
        return np.zeros(reference.shape)

    def accepts(self, actual: Array, reference: Array, bounds: Array | None, kind: DType) -> Array:
        """For each element whether the result is allowed. actual: in the type's own numpy type."""
        _, least, _, has_infinity = FLOATS[kind.name]
        found = numbers(actual, kind)
        low, high, error = self.limits(reference, bounds, kind)
        with np.errstate(invalid="ignore"):
            good = (found >= low) & (found <= high)
            if kind.name not in _SUBNORMALS_REQUIRED:
                nearest = np.minimum(np.abs(low), np.abs(high))
                nearest = np.where((low <= 0) & (high >= 0), 0.0, nearest)
                good |= (found == 0) & (nearest < least) & ~np.isnan(error)
            free = ~np.isfinite(error)
            if not has_infinity:
                free |= np.isinf(low) | np.isinf(high)
            good |= np.isnan(found) & free
        return np.asarray(np.where(np.isnan(reference), np.isnan(found), good))


def numbers(array: Array, kind: DType) -> Array:
    """What elements are as numbers, in float64."""
    found = array.astype(np.float64)
    return found * MXINT8_UNIT if kind.name == "MXINT8" else found


def _ulp(size: Array, frac: int, least: float) -> Array:
    """The unit in the last place of each value; that of the smallest normal below it, 0 for 0."""
    finite = np.where(np.isfinite(size) & (size > 0), size, 1.0)
    exponent = np.frexp(finite)[1] - 1
    power = np.maximum(np.ldexp(1.0, exponent), least)
    return np.where(np.isfinite(size) & (size > 0), power * 2.0**-frac, 0.0)


def _words(text: str) -> list[str]:
    return text.split()


EXACT: Final = Rule("exact")
_DOT: Final = frozenset(
    _words(
        "AVG_POOL2D AVG_POOL2D_ADAPTIVE CONV2D CONV3D DEPTHWISE_CONV2D TRANSPOSE_CONV2D FFT2D RFFT2D "
        "MATMUL MATMUL_T MATMUL_T_BLOCK_SCALED CONV2D_BLOCK_SCALED REDUCE_SUM"
    )
)
_ULPS: Final = {
    "CEIL": 0.5,
    "FLOOR": 0.5,
    "ERF": 5.0,
    "RECIPROCAL": 1.0,
    "RSQRT": 2.0,
}
#: Operators that only move elements: what is allowed for an operand is allowed for the result.
MOVES: Final = frozenset(
    _words(
        "CONCAT GATHER IDENTITY PAD RESHAPE REVERSE ROW_GATHER SCATTER SLICE TILE TRANSPOSE "
        "VARIABLE_READ VARIABLE_WRITE"
    )
)
_OneOf = Callable[[str], Rule]
_FUNCTIONS: Final[dict[str, _OneOf]] = {
    "SIGMOID": lambda kind: Rule("abs-error"),
    "EXP": lambda kind: Rule("abs-error", base=3.0 if kind == "FP32" else 1.0),
    "LOG": lambda kind: Rule("abs-error", lower=0.5),
    "TANH": lambda kind: Rule("abs-error", lower=0.5, base=12.0 if kind == "FP32" else 4.0),
    "COS": lambda kind: Rule("abs-error", base=1.0, divisor=2.0, magnitude=True),
    "SIN": lambda kind: Rule(
        "abs-error", base=2.0, divisor=2.0, magnitude=True, floor=math.pi * FLOATS[kind][1]
    ),
    "RESIZE": lambda kind: Rule("max-relative", 20.0, base=0.006),
}


def rule_of(block: Block, operator: Operator, output: str) -> Rule | None:
    """The rule for an operator's output when its operands are exact; None where TOSA gives none."""
    name = operator.spec.name
    result = block.tensors.get(output)
    if result is None or result.dtype.name not in FLOATS:
        inexact = operator.attributes.get("rounding_mode") is RoundingMode.INEXACT_ROUND
        return Rule("steps", 1.0) if name == "RESCALE" and inexact else EXACT
    kind = result.dtype.name
    if name in ("ADD", "SUB", "MUL"):
        return Rule("ulp", 1.0 if kind == "BF16" else 0.5)
    if name == "CAST_TO_BLOCK_SCALED" or (name == "CAST" and result.scale is not None):
        return Rule("ulp", 2.0 if kind == "FP8E4M3" else 1.0)
    if name == "CAST_FROM_BLOCK_SCALED" or (
        name == "CAST" and block.tensors[operator.inputs[0]].scale is not None
    ):
        return Rule("ulp", 1.0)
    if name == "CAST":
        return Rule("ulp", 0.5, lower=1.0)
    if name == "POW":
        return Rule("bounds")
    if name in _ULPS:
        return Rule("ulp", _ULPS[name])
    if name in _DOT:
        return Rule("dot-product", _dot_amount(block, operator, result))
    if name == "REDUCE_PRODUCT":
        source = block.tensors[operator.inputs[0]]
        axis = operator.attributes["axis"]
        return Rule("reduce-product", float(source.shape[axis]) if source.shape else 1.0)  # type: ignore[index]
    if name == "RESIZE" and result.scale is not None:
        return EXACT
    if name in _FUNCTIONS:
        return _FUNCTIONS[name](kind)
    if name in ("CUSTOM", "COND_IF", "WHILE_LOOP"):
        return None
    return EXACT


def _rule_of_regions(graph: Graph, operator: Operator, output: str) -> Rule | None:
    """The rule for an output of control flow: its region's, where the operands are exact.

    Of two branches the one that may err. A loop that errs adds its errors up, so it has none.
    """
    if operator.spec.name not in ("COND_IF", "WHILE_LOOP"):
        return None
    found: list[list[Rule | None]] = []
    for row in operator.spec.regions:
        inner = extract_region(graph, str(operator.attributes[row.name]))
        known = rules(inner)
        constant = {name for op in inner.main.operators if not op.inputs for name in op.outputs}
        found.append(
            [EXACT if name in constant else known.get(name) for name in inner.main.outputs]
        )
    if operator.spec.name == "WHILE_LOOP":
        return EXACT if all(rule == EXACT for each in found for rule in each) else None
    position = operator.outputs.index(output)
    pair = {each[position] if position < len(each) else None for each in found}
    if None in pair or len(pair - {EXACT}) > 1:
        return None
    return next(iter(pair - {EXACT}), EXACT)


def _dot_amount(block: Block, operator: Operator, result: Tensor) -> float:
    """How many units a sum of products may be off: by its length, its operands, its accumulator."""
    name = operator.spec.name
    terms = dot_length(block, operator)
    pair = [block.tensors[operator.inputs[i]] for i in _factors(name)]
    narrow = [t.dtype.bits <= 8 or t.scale is not None for t in pair]
    scaled = any(t.scale is not None for t in pair) or "BLOCK_SCALED" in name
    bias = "CONV" in name and (scaled or not _is_zero(block.tensors[operator.inputs[_bias(name)]]))
    out = FLOATS[result.dtype.name][0]
    accumulator = operator.attributes.get("acc_type")
    acc = accumulator.name if isinstance(accumulator, DType) else result.dtype.name
    if name == "REDUCE_SUM" and acc == "BF16":
        acc = "FP32"
    if "BLOCK_SCALED" in name:
        acc = "FP32"
    # Errors of an accumulator with more bits add up as a random walk does: by the root of its excess.
    excess = max(0, FLOATS[acc][0] - out)
    terms = math.ceil(terms / math.pow(2.0, excess / 2)) + bias
    # Narrow operands may be multiplied by units that keep fewer bits than FP32 has.
    if acc == "FP32" and ("MATMUL" in name or "CONV" in name) and any(narrow):
        return float(min(_NARROW_UNITS * terms, _NARROW_MOST))
    whole = all(t.dtype.name == "FP32" for t in pair) and result.dtype.name == "FP32"
    return (6.0 if whole else 2.0) * terms


_NARROW_UNITS: Final = 2048
_NARROW_MOST: Final = 131072


def _factors(name: str) -> tuple[int, ...]:
    """Positions of the operands that are multiplied with one another."""
    if name.startswith(("AVG_POOL", "REDUCE", "FFT", "RFFT")):
        return (0,)
    return (0, 2) if "BLOCK_SCALED" in name else (0, 1)


def _bias(name: str) -> int:
    return 4 if "BLOCK_SCALED" in name else 2


def _is_zero(tensor: Tensor) -> bool:
    return tensor.data is not None and not tensor.data.elements().any()


def dot_length(block: Block, operator: Operator) -> int:
    """How many products an element of the result is the sum of."""
    name = operator.spec.name
    first = block.tensors[operator.inputs[0]].shape or ()
    attributes = operator.attributes
    if name == "AVG_POOL2D":
        kernel = attributes["kernel"]
        assert isinstance(kernel, tuple)
        return math.prod(kernel)
    if name == "AVG_POOL2D_ADAPTIVE":
        kernel_shape = block.shapes[operator.inputs[3]].values()
        return math.prod(kernel_shape if kernel_shape is not None else first[1:3])
    if name in ("MATMUL", "MATMUL_T", "MATMUL_T_BLOCK_SCALED"):
        return first[-1]
    if name == "REDUCE_SUM":
        axis = attributes["axis"]
        assert isinstance(axis, int)
        return first[axis]
    if name == "FFT2D":
        return 2 * math.prod(first[1:])
    if name == "RFFT2D":
        return math.prod(first[1:])
    position = 2 if name == "CONV2D_BLOCK_SCALED" else 1
    weight = block.tensors[operator.inputs[position]].shape or ()
    # Weights are [output, kernel..., input]; those of a depthwise one [kernel..., channel, multiple].
    return math.prod(weight[:2]) if name == "DEPTHWISE_CONV2D" else math.prod(weight[1:])


def rules(graph: Graph) -> dict[str, Rule]:
    """The rule for each tensor of the main block on whose way at most one operator may err.

    Tensors that are not in it inherit errors: no rule of TOSA's judges them.
    """
    block = graph.main
    known: dict[str, Rule] = dict.fromkeys(block.inputs, EXACT)
    known.update((name, EXACT) for name, tensor in block.tensors.items() if tensor.variable)
    for operator in block.operators:
        operands = [known.get(name) for name in operator.inputs if name in block.tensors]
        for name in operator.outputs:
            if None not in operands and all(rule == EXACT for rule in operands):
                rule = (
                    _rule_of_regions(graph, operator, name)
                    if operator.spec.regions
                    else rule_of(block, operator, name)
                )
                if rule is not None:
                    known[name] = rule
            elif operator.spec.name in MOVES and None not in operands:
                different = {rule for rule in operands if rule is not None and rule != EXACT}
                if len(different) == 1:
                    known[name] = different.pop()
    return known
