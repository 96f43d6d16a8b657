"""Bound how far an operator's result may be from the exact one, by TOSA's accuracy rules.

The specification gives a bound in terms of the exact result, which the reference model computes in FP64
(precise mode), and for some operators of the bounds, which it computes from the absolute values of the
operands (bounds mode). They were checked against the official verifier (tests/golden/test_accuracy.py).
A rule is about one operator whose operands were exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np

from tosa_convert.golden.arrays import Array
from tosa_convert.golden.running.programs import writes_variables
from tosa_convert.graph import dtypes
from tosa_convert.graph.derived import extract_region, reachable, touches_variables
from tosa_convert.graph.dtypes import DTYPES, DType, ResizeMode, RoundingMode
from tosa_convert.graph.model import Block, Graph, Operator, Tensor
from tosa_convert.graph.opset import operator as row_of
from tosa_convert.reference.parts import slices

#: Element type -> bits of the fraction, smallest normal, largest finite, whether it has infinity.
FLOATS: Final = {row.name: row.numbers for row in DTYPES if row.numbers is not None}
#: The number that the MXINT8 code 1 encodes.
MXINT8_UNIT: Final = 1 / 64
_PART: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Rule:
    """Hold the largest allowed distance of a result from the exact one.

    kind: "exact", "ulp", "dot-product", "abs-error", "reduce-product", "max-relative", "steps", "bounds"
        (the bounds tensor is the bound), "from-block" (it is the scales).
    amount: units in the last place (away from zero; towards zero `lower`, if given), the multiple of the
        dot product's unit, the number of factors, or integer steps.
    base, lower, divisor, magnitude, floor: the terms of "abs-error", as the official descriptors name
        them. base: for "max-relative" the fraction of the largest operand, of which `amount` units in
        the last place of 1 are the least; for "steps" a fraction of the result, in addition.
    largest: for "max-relative" the size of the largest operand.
    in_any_order: for "reduce-product" whether the bounds are those of `products_on_the_way`.
    """

    kind: str
    amount: float = 0.0
    base: float = 0.0
    lower: float = 0.0
    divisor: float = 1.0
    magnitude: bool = False
    floor: float = 0.0
    largest: float | None = None
    in_any_order: bool = False

    @property
    def needs_bounds(self) -> bool:
        return self.kind in ("dot-product", "abs-error", "bounds", "from-block")

    def __str__(self) -> str:
        plain = self.kind in ("exact", "abs-error", "bounds")
        if self.kind == "steps" and self.base:
            return f"steps {self.amount:g} + {self.base:.2g} of the value"
        return self.kind if plain else f"{self.kind} {self.amount:g}"

    def limits(
        self, reference: Array, bounds: Array | None, dtype: DType
    ) -> tuple[Array, Array, Array]:
        """Return the lowest and the highest result allowed, and the bound on the error, by element.

        reference, bounds: float64, from the precise run. Where the bound is infinite every result is
            allowed; where it is NaN none is. Where the reference is NaN so are the limits.
        """
        _, _, most, _ = FLOATS[dtype.name]
        with np.errstate(all="ignore"):
            error = self._error(reference, bounds, dtype)
            inner = error * self.lower / self.amount if self.kind == "ulp" and self.lower else error
            negative = reference < 0
            low = reference - np.where(negative, error, inner)
            high = reference + np.where(negative, inner, error)
            unbounded = np.isposinf(error) & ~np.isnan(reference)
            high = np.where(high > most, np.inf, high)
            low = np.where(low > most, np.inf, low)
            low = np.where(low < -most, -np.inf, low)
            high = np.where(high < -most, -np.inf, high)
            low, high = np.where(unbounded, -np.inf, low), np.where(unbounded, np.inf, high)
        return low, high, error

    def _error(self, reference: Array, bounds: Array | None, dtype: DType) -> Array:
        frac, least, _, _ = FLOATS[dtype.name]
        size = np.abs(reference)
        if self.kind == "ulp":
            return np.asarray(_ulp(size, frac, least) * self.amount)
        if self.kind == "reduce-product":
            factor = math.expm1(self.amount * math.log1p(2.0 ** (-frac - 1)))
            error = np.maximum(size, least) * factor
            return np.asarray(error if bounds is None or not self.in_any_order else error + bounds)
        if self.kind == "max-relative":
            largest = self.largest
            if largest is None:
                largest = float(np.nanmax(size, initial=0.0, where=np.isfinite(size)))
            relative = max(self.base, self.amount * 2.0**-frac)
            return np.full(size.shape, relative * largest)
        if not self.needs_bounds:
            return np.zeros(reference.shape)
        assert bounds is not None
        if self.kind == "dot-product":
            unit = np.maximum(bounds * 2.0 ** (-1 - frac), least)
            error = np.where(bounds == 0, 0.0, unit * self.amount)
            unlimited = self.may_overflow(bounds, dtype) | np.isnan(bounds)
            return np.where(unlimited, np.inf, error)
        if self.kind == "abs-error":
            scale = bounds if self.magnitude else reference
            value = np.full_like(bounds, self.base) if self.magnitude else bounds + self.base
            scaled = np.maximum(np.abs(scale), least)
            if self.lower:
                scaled = np.maximum(self.lower / value, scaled)
            error = 2.0 ** (-frac / self.divisor) * scaled * value
            if not self.magnitude:
                # A result of 0 has no error if the operand has no finite bound, as SIGMOID(-inf).
                error = np.where((reference == 0) & ~np.isfinite(bounds), 0.0, error)
            return np.asarray(np.maximum(error, self.floor))
        if self.kind == "from-block":
            error = np.maximum(_ulp(size, frac, least), bounds * (least * 2.0**-frac))
            return np.where(size == 0, 0.0, np.maximum(error, least))
        return bounds

    def may_overflow(self, bounds: Array, dtype: DType) -> Array:
        """Return for each element of a "dot-product" whether a sum of some terms may overflow."""
        frac = FLOATS[dtype.name][0]
        return overflows(bounds * (1 + self.amount * 2.0 ** (-1 - frac)), dtype)

    def accepts(self, actual: Array, reference: Array, bounds: Array | None, dtype: DType) -> Array:
        """Return for each element whether the result is allowed. actual: in the type's numpy type."""
        _, least, _, has_infinity = FLOATS[dtype.name]
        result = numbers(actual, dtype)
        low, high, error = self.limits(reference, bounds, dtype)
        with np.errstate(invalid="ignore"):
            good = (result >= low) & (result <= high)
            if may_flush(dtype):
                # A result that may be subnormal may be flushed to zero.
                nearest = np.minimum(np.abs(low), np.abs(high))
                nearest = np.where((low <= 0) & (high >= 0), 0.0, nearest)
                good |= (result == 0) & (nearest < least) & ~np.isnan(error)
                if self.in_any_order and bounds is not None:
                    # So may a subnormal product on the way.
                    good |= (result == 0) & (bounds > 0)
            unbounded = np.isposinf(error)
            if not has_infinity:
                unbounded |= np.isinf(low) | np.isinf(high)
            good |= np.isnan(result) & unbounded
        return np.asarray(np.where(np.isnan(reference), np.isnan(result), good))


@np.errstate(all="ignore")
def products_on_the_way(factors: Array, axis: int, dtype: DType) -> Array:
    """Return what the products on the way to those along an axis may add to the error of each.

    The order of the factors is free. 0 where every product of some of them is a normal number; infinite
    where one overflows. A subnormal product is rounded to a multiple of the least number, and the
    factors that are left multiply this error.
    """
    frac, least, most, _ = FLOATS[dtype.name]
    size = np.abs(factors.astype(np.float64))
    finite = np.where(np.isfinite(size) & (size > 0), size, 1.0)
    count = size.shape[axis]
    growth = 1 + math.expm1(count * math.log1p(2.0 ** (-frac - 1)))
    largest = np.prod(np.maximum(finite, 1.0), axis=axis, keepdims=True) * growth
    smallest = np.prod(np.minimum(finite, 1.0), axis=axis, keepdims=True)
    product = np.prod(size, axis=axis, keepdims=True)
    rounding = least * 2.0 ** (-frac - 1)
    relative = np.expm1(count * np.log1p(np.minimum(rounding / smallest, 1.0)))
    added = np.where(
        product == 0, 0.0, np.minimum((count - 1) * rounding * largest, product * relative)
    )
    is_small = smallest < least
    # An infinite factor times a product that is 0 is NaN.
    unlimited = (largest > most) | (is_small & np.isinf(product))
    return np.where(unlimited, np.inf, np.where(is_small, added, 0.0))


@np.errstate(over="ignore")
def overflows(values: Array, dtype: DType) -> Array:
    """Return whether numbers become infinite in an element type, by way of FP32."""
    has_infinity = FLOATS[dtype.name][3]
    return np.asarray(np.isinf(values.astype(np.float32).astype(dtype.numpy)) & has_infinity)


def may_flush(dtype: DType) -> bool:
    """Return whether a subnormal number of an element type may become zero."""
    return dtype in dtypes.FLOATS


@np.errstate(all="ignore")
def is_subnormal(array: Array, dtype: DType) -> Array:
    """Return which numbers of an element type are subnormal and may become zero."""
    found = np.zeros(array.shape, np.bool_)
    if may_flush(dtype):
        least = FLOATS[dtype.name][1]
        for part in parts_of(array.shape):
            size = np.abs(array[part].astype(np.float64, copy=False))
            if not size.min() >= least:
                found[part] = (size < least) & (size > 0)
    return found


def parts_of(shape: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """Iterate over parts of an array that stay in the cache while several runs are compared."""
    return slices(shape, _PART) if shape else iter(((...,),))


def same_values(one: Array, other: Array) -> Array:
    """Return whether elements are equal; NaN equals NaN, and 0 equals -0."""
    return np.asarray((one == other) | (np.isnan(one) & np.isnan(other)))


def kinds_of(array: Array) -> Array:
    """Return for each number the bit of its kind: finite 1, infinity 2, minus infinity 4, NaN 8."""
    infinite = np.where(np.signbit(array), np.uint8(4), np.uint8(2))
    return np.where(
        np.isfinite(array), np.uint8(1), np.where(np.isnan(array), np.uint8(8), infinite)
    )


def numbers(array: Array, dtype: DType) -> Array:
    """Return the values that elements encode, in float64."""
    values = array.astype(np.float64)
    return values * MXINT8_UNIT if dtype.name == "MXINT8" else values


def _ulp(size: Array, frac: int, least: float) -> Array:
    """Return the unit in the last place of each value: at least that of the smallest normal; 0 for 0."""
    is_usual = np.isfinite(size) & (size > 0)
    exponent = np.frexp(np.where(is_usual, size, 1.0))[1] - 1
    return np.where(is_usual, np.maximum(np.ldexp(1.0, exponent), least) * 2.0**-frac, 0.0)


EXACT: Final = Rule("exact")
#: Results that are rounded to one of the two numbers beside them, whichever is nearer. Of operators that
#: round once, TOSA also allows the other one in BF16, and CAST the one towards zero.
ROUNDED: Final = Rule("ulp", 0.5)
_TRUNCATED: Final = Rule("ulp", 0.5, lower=1.0)
_ROUNDING_ONCE: Final = frozenset(("ADD", "MUL", "SUB"))

# -- the accuracy rule of an operator, from its row, and of each tensor of a graph -----------------

#: The rule for a floating-point result of an operator whose operands are exact.
Formula = Callable[[Block, Operator, Tensor], Rule]
#: The number of values in the sum that gives an element of an operator's result.
Length = Callable[[Block, Operator], int]


def _sin(block: Block, operator: Operator, result: Tensor) -> Rule:
    least = FLOATS[result.dtype.name][1]
    return Rule("abs-error", base=2.0, divisor=2.0, magnitude=True, floor=math.pi * least)


def _cast(block: Block, operator: Operator, result: Tensor) -> Rule:
    if result.scale is not None:
        return bound(row_of("CAST_TO_BLOCK_SCALED").accuracy, result.dtype.name)
    if block.tensors[operator.inputs[0]].scale is not None:
        return Rule("ulp", 1.0)
    return _TRUNCATED


def _resize(block: Block, operator: Operator, result: Tensor) -> Rule:
    return EXACT if result.scale is not None else Rule("max-relative", 20.0, base=0.006)


def _reduce_product(block: Block, operator: Operator, result: Tensor) -> Rule:
    size = _axis_size(block, operator) if block.tensors[operator.inputs[0]].shape else 1
    return Rule("reduce-product", float(size))


# -- sums ------------------------------------------------------------------------------------------


def _dot_product(block: Block, operator: Operator, result: Tensor) -> Rule:
    rows = [row.name for row in operator.spec.operands]
    operands = _factors(block, operator)
    output = result.dtype.name
    is_block_scaled = _is_block_scaled(operator)
    summed_in = accumulator(operator, output)
    # Errors of an accumulator with more bits add up as a random walk does: by the root of its
    # excess of bits.
    excess = max(0, FLOATS[summed_in][0] - FLOATS[output][0])
    terms = math.ceil(terms_of_sum(block, operator) / math.pow(2.0, excess / 2))
    is_scaled = is_block_scaled or any(t.scale is not None for t in operands)
    if "bias" in rows:
        # One more term, if the bias is not known to be zero.
        data = block.tensors[operator.inputs[rows.index("bias")]].data
        terms += is_scaled or data is None or bool(data.elements().any())
    if has_narrow_units(block, operator, output):
        return Rule("dot-product", float(min(_NARROW_UNITS * terms, _NARROW_MOST)))
    is_fp32 = output == "FP32" and all(t.dtype.name == "FP32" for t in operands)
    return Rule("dot-product", (6.0 if is_fp32 else 2.0) * terms)


def accumulator(operator: Operator, output: str) -> str:
    if _is_block_scaled(operator):
        return "FP32"
    chosen = operator.attributes.get("acc_type")
    name = chosen.name if isinstance(chosen, DType) else output
    is_reduction = operator.spec.family == "reduction"
    return (is_reduction and dtypes.dtype(name).accumulator) or name


def has_narrow_units(block: Block, operator: Operator, output: str) -> bool:
    """Return whether units with fewer bits than FP32 may add the products of an operator.

    TOSA allows it for operands of at most 8 bits that are accumulated in FP32.
    """
    return (
        bool(operator.spec.multiply_accumulates)
        and accumulator(operator, output) == "FP32"
        and any(t.dtype.bits <= 8 or t.scale is not None for t in _factors(block, operator))
    )


def _factors(block: Block, operator: Operator) -> list[Tensor]:
    """Return the operands whose products are added, or that which is added."""
    products = operator.spec.multiply_accumulates
    rows = enumerate(operator.spec.operands)
    positions = [index for index, row in rows if row.name in products] or [0]
    return [block.tensors[operator.inputs[index]] for index in positions]


def _is_block_scaled(operator: Operator) -> bool:
    return any(row.name == "block_size" for row in operator.spec.attributes)


_NARROW_UNITS: Final = 2048
_NARROW_MOST: Final = 131072


def terms_of_sum(block: Block, operator: Operator) -> int:
    """Count the values in the sum that gives an element of the result."""
    products = operator.spec.multiply_accumulates
    if not products:
        return _LENGTHS[operator.spec.family](block, operator)
    (_, result), (factor, dimensions), _ = products.items()
    position = next(i for i, row in enumerate(operator.spec.operands) if row.name == factor)
    kept = "".join(result)
    # From the last one on: products of matrices have batches of any number.
    sizes = zip(dimensions[::-1], _shape(block, operator, position)[::-1], strict=False)
    return math.prod(size for letter, size in sizes if letter not in kept)


def _shape(block: Block, operator: Operator, position: int) -> tuple[int, ...]:
    return block.tensors[operator.inputs[position]].shape or ()


def _window(block: Block, operator: Operator) -> int:
    kernel = operator.attributes.get("kernel")
    if kernel is None:
        kernel = block.shapes[operator.inputs[3]].values()
    assert kernel is None or isinstance(kernel, tuple)
    return math.prod(kernel if kernel is not None else _shape(block, operator, 0)[1:3])


def _plane(block: Block, operator: Operator) -> int:
    """Count the values of a plane, whose points have real and, for FFT2D, imaginary parts."""
    return len(operator.spec.operands) * math.prod(_shape(block, operator, 0)[1:])


def axis_of(operator: Operator) -> int:
    axis = operator.attributes["axis"]
    assert isinstance(axis, int)
    return axis


def _axis_size(block: Block, operator: Operator) -> int:
    return _shape(block, operator, 0)[axis_of(operator)]


_LENGTHS: Final[Mapping[str, Length]] = {"pooling": _window, "fft": _plane, "reduction": _axis_size}

# -- rules -----------------------------------------------------------------------------------------

#: Name in the column `accuracy` -> formula of the rule.
FORMULAS: Final[Mapping[str, Formula]] = {
    "cast": _cast,
    "dot-product": _dot_product,
    "reduce-product": _reduce_product,
    "resize": _resize,
    "sin": _sin,
}


@cache
def bound(accuracy: str, element: str) -> Rule:
    """Parse a bound such as "ulp 1; FP32 ulp 2" for results of an element type."""
    bounds = {}
    for part in accuracy.split("; "):
        words = part.split()
        bounds[words.pop(0) if words[0] in FLOATS else ""] = words
    kind, *terms = bounds.get(element, bounds[""])
    values: dict[str, Any] = {}
    for term in terms:
        name, _, value = term.rpartition("=")
        values[name or "amount"] = float(value)
    return Rule(kind, **values)


def _float_rule(block: Block, operator: Operator, result: Tensor, *, official: bool) -> Rule | None:
    """Return the rule of an operator for a floating-point result; None where TOSA gives none."""
    rule = _official_rule(block, operator, result)
    if official:
        return rule
    if operator.attributes.get("mode") is ResizeMode.NEAREST:
        return EXACT  # Results are elements, which integers choose.
    return ROUNDED if rule == _TRUNCATED or operator.spec.name in _ROUNDING_ONCE else rule


def _official_rule(block: Block, operator: Operator, result: Tensor) -> Rule | None:
    accuracy = operator.spec.accuracy
    if accuracy in ("exact", "operand"):
        return EXACT
    if accuracy == "none":
        return None
    if accuracy in FORMULAS:
        return FORMULAS[accuracy](block, operator, result)
    return bound(accuracy, result.dtype.name)


#: RESCALE with INEXACT_ROUND, whose scaled value may be off by 2^-22 of itself before it is rounded, as
#: the reference model's FP64 results and bounds show. The result that it is compared with may be, too.
#: Results of 8 and 16 bits are too small for more than one step.
INEXACT_RESCALE: Final = Rule("steps", 1.0, base=2.0**-21)


def rule_of(
    block: Block, operator: Operator, output: str, *, official: bool = False
) -> Rule | None:
    """Return the rule for an output of an operator with exact operands; None where TOSA gives none.

    official: as the official verifier has it, which is more lenient where `ROUNDED` says so.
    """
    result = block.tensors.get(output)
    if result is not None and result.dtype.name in FLOATS:
        return _float_rule(block, operator, result, official=official)
    # Of the attributes only RESCALE's can have this value.
    is_inexact = operator.attributes.get("rounding_mode") is RoundingMode.INEXACT_ROUND
    return INEXACT_RESCALE if is_inexact else EXACT


def _rule_of_regions(
    graph: Graph, operator: Operator, output: str, *, official: bool
) -> Rule | None:
    """Return the rule of the branch that is not exact; None for a loop, where errors add up."""
    by_region: list[list[Rule | None]] = []
    for row in operator.spec.regions:
        inner = extract_region(graph, str(operator.attributes[row.name]))
        inner_rules = rules(inner, official=official)
        constant = {name for op in inner.main.operators if not op.inputs for name in op.outputs}
        by_region.append(
            [EXACT if name in constant else inner_rules.get(name) for name in inner.main.outputs]
        )
    if operator.spec.name == "WHILE_LOOP":
        return EXACT if all(rule == EXACT for outputs in by_region for rule in outputs) else None
    position = operator.outputs.index(output)
    pair = {outputs[position] if position < len(outputs) else None for outputs in by_region}
    if None in pair or len(pair - {EXACT}) > 1:
        return None
    return next(iter(pair - {EXACT}), EXACT)


def rules(graph: Graph, *, official: bool = False) -> dict[str, Rule]:
    """Return the rule for each tensor of the main block that depends on at most one inexact operator.

    The other tensors inherit errors: no rule of TOSA is about them. official: see `rule_of`.
    """
    block = graph.main
    variables = [name for name, tensor in block.tensors.items() if tensor.variable]
    result: dict[str, Rule] = dict.fromkeys((*block.inputs, *variables), EXACT)
    for operator in block.operators:
        operands = [result.get(name) for name in operator.inputs if name in block.tensors]
        uses_states = bool(operator.spec.regions) and touches_variables(graph, operator)
        if uses_states:
            operands += map(result.get, variables)
        for name in operator.outputs:
            rule = _result_rule(graph, operator, name, operands, official=official)
            if rule is None:
                result.pop(name, None)  # of a variable: it had one before it was written
            else:
                result[name] = rule
        is_exact = all(rule == EXACT for rule in operands)
        if uses_states and not (is_exact and is_exact_inside(graph, operator)):
            for name in variables:
                tensor = block.tensors[name]
                if writes_variables(graph, operator, [tensor.variable_name or name]):
                    result.pop(name, None)
    return result


def _result_rule(
    graph: Graph, operator: Operator, name: str, operands: list[Rule | None], *, official: bool
) -> Rule | None:
    if None in operands:
        return None
    if all(rule == EXACT for rule in operands):
        if operator.spec.regions:
            return _rule_of_regions(graph, operator, name, official=official)
        return rule_of(graph.main, operator, name, official=official)
    different = {rule for rule in operands if rule is not None and rule != EXACT}
    return different.pop() if operator.spec.accuracy == "operand" and len(different) == 1 else None


def is_exact_inside(graph: Graph, operator: Operator, only: Container[str] | None = None) -> bool:
    """Return whether all that an operator's regions compute is exact, if their operands are.

    only: the attributes of the regions that count; by default all.
    """
    attributes = {
        name: value
        for name, value in operator.attributes.items()
        if only is None or name in only or name not in {row.name for row in operator.spec.regions}
    }
    return all(
        rule_of(block, op, name) == EXACT
        for region in reachable(graph, [replace(operator, attributes=attributes)])
        for block in region.blocks
        for op in block.operators
        for name in op.outputs
        if not op.spec.regions and name in block.tensors
    )


def makers_of(block: Block, name: str, formulas: Container[str]) -> list[Operator]:
    """Return the operators of some formulas whose elements a tensor has, maybe in another order."""
    producers = {output: op for op in block.operators for output in op.outputs}
    found, todo, seen = [], [name], set[str]()
    while todo:
        tensor = todo.pop()
        operator = producers.get(tensor)
        # Each tensor once: in a chain of diamonds the ways to the first are exponentially many.
        if operator is None or tensor in seen:
            continue
        seen.add(tensor)
        if operator.spec.accuracy in formulas:
            found.append(operator)
        elif operator.spec.accuracy == "operand":
            todo += operator.inputs
    return found


def with_operands(
    tensor: Tensor, rule: Rule, makers: Sequence[Operator], operands: Sequence[Array], bounds: Array
) -> tuple[Rule, Array]:
    """Return the rule for the first operands of the operators that made a tensor, and its bounds.

    makers, operands: as `makers_of` returns them, not empty, and their first operands in FP64. bounds:
        those of its bounds mode; a product has what `products_on_the_way` says in their place.
    """
    if rule.kind == "max-relative":
        sizes = [np.abs(operand) for operand in operands]
        largest = max(size.max(initial=0.0, where=np.isfinite(size)) for size in sizes)
        return replace(rule, largest=float(largest)), bounds
    added = [
        products_on_the_way(operand, axis_of(operator), tensor.dtype)
        for operator, operand in zip(makers, operands, strict=True)
    ]
    rule = replace(rule, in_any_order=True)
    if tensor.name in makers[0].outputs:
        return rule, added[0]
    # Operators that move elements may have moved the largest to any place.
    return rule, np.full(bounds.shape, max(part.max(initial=0.0) for part in added))
