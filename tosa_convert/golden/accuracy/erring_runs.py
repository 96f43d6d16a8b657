"""Run a program in FP64 with results that have the errors of implementations."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.accuracy.criteria import half_units
from tosa_convert.golden.accuracy.error_bounds import (
    FLOATS,
    MXINT8_UNIT,
    Rule,
    accumulator,
    axis_of,
    has_narrow_units,
    is_subnormal,
    may_flush,
    numbers,
    parts_of,
    rule_of,
    terms_of_sum,
)
from tosa_convert.golden.arrays import Array, Arrays
from tosa_convert.graph.derived import extract, reachable
from tosa_convert.graph.dtypes import FP32, DType
from tosa_convert.graph.model import Block, Graph, Operator, element_value
from tosa_convert.reference.block_scaled import Scaled, Value, plain, with_numbers
from tosa_convert.reference.bounds import BOUNDS
from tosa_convert.reference.call import Call, Type, integer_limits
from tosa_convert.reference.evaluate import OPERATIONS, Machine, call_of

# -- sums of products in several runs that have one factor in common, such as weights --------------
# They are linear in the other factor: the result of a run is that of the exact run, and the sums
# for the difference of the two operands. It is so small that FP32 has more than enough bits for
# it, and all runs take one product of matrices together.

#: Operators of two factors; for each factor, the axis along which operands of several runs are put
#: together, and that of the result.
SUMS_OF_PRODUCTS: Final = {
    "CONV2D": {"input": (0, 0)},
    "CONV3D": {"input": (0, 0)},
    "DEPTHWISE_CONV2D": {"input": (0, 0)},
    "MATMUL": {"a": (-2, -2), "b": (-1, -1)},
    "TRANSPOSE_CONV2D": {"input": (0, 0)},
}
#: The exponent of the largest difference in FP32, of which products neither overflow nor lose bits
#: that count: what is lost is less than 2^-180 of it, and thus less than half a unit of the least
#: normal number if no difference is larger than _MOST.
_EXPONENT: Final = 40
_MOST: Final = 2.0**30


@np.errstate(all="ignore")
def results_of_runs(
    block: Block, operator: Operator, operands: Sequence[Sequence[Value]], exact: Array
) -> dict[int, Array]:
    """Return the results of runs whose operands differ in one factor from those of the exact run."""
    factors = SUMS_OF_PRODUCTS.get(operator.spec.name, {})
    found: dict[int, Array] = {}
    if any(isinstance(value, Scaled) for value in operands[0]):
        return found
    for position, row in enumerate(operator.spec.operands):
        if row.name not in factors or exact.dtype != np.float64 or not np.isfinite(exact).all():
            continue
        numbers = [
            number
            for number, own in enumerate(operands)
            if [i for i, value in enumerate(own) if value is not operands[0][i]] == [position]
        ]
        if numbers:
            given = [plain(operands[number][position]) for number in numbers]
            differences = _of_differences(block, operator, operands[0], position, given)
            for number, difference in zip(numbers, differences, strict=False):
                # Where nothing differs, the sign of a zero stays.
                found[number] = exact - difference
    return found


def _of_differences(
    block: Block,
    operator: Operator,
    operands: Sequence[Value],
    position: int,
    given: Sequence[Array],
) -> Sequence[Array]:
    """Return the sums for the exact operand minus that of each run; none if they may be wrong."""
    call = call_of(block, operator, operands, "own")
    center = call.operands[position]
    axis, along = SUMS_OF_PRODUCTS[operator.spec.name][operator.spec.operands[position].name]
    together = np.concatenate([center - value for value in given], axis=axis)
    largest = float(np.maximum(-together.min(), together.max()))
    if not largest <= _MOST:
        return ()
    scale = 2.0 ** (_EXPONENT - math.frexp(largest)[1])
    together *= scale
    found = np.asarray(OPERATIONS[operator.spec.name](_call(call, position, together, along)))
    if not np.isfinite(found).all():
        return ()
    parts = np.split(found.astype(np.float64), len(given), axis=along)
    return [part * (1 / scale) for part in parts]


def _call(call: Call, position: int, factor: Array, along: int) -> Call:
    """Return an operator of FP32 with another factor, and without a bias."""
    rows = call.spec.operands
    count = factor.shape[along] // call.operands[position].shape[along]
    operands = [
        np.zeros(array.shape, np.float32)
        if rows[index].name == "bias"
        else (factor if index == position else array).astype(np.float32)
        for index, array in enumerate(call.operands)
    ]
    shape = list(call.result.shape)
    shape[along] *= count
    types = tuple(Type(FP32, array.shape) for array in operands)
    results = (Type(FP32, tuple(shape)),)
    return replace(call, operands=tuple(operands), types=types, results=results)


# -- the errors that correct implementations of one operator have ----------------------------------

#: Bits of the element types in which nothing is computed: what is stored in them is rounded.
_NARROW: Final = 8
#: Functions that approach 1 as e^(-rate * x) does, with this rate; and their bounds: a constant, and a
#: multiple of the operand, as in `reference.bounds`.
_SATURATING: Final = {"SIGMOID": (1.0, 2.0, 2.0), "TANH": (2.0, 0.0, 8.0)}
#: Units that multiply FP8 and block-scaled data, and add so many products at once: they keep 14 bits, as
#: TOSA allows, and cut off the others, so that the errors of all additions have one sign.
_NARROW_ERROR: Final = 2.0**10
_NARROW_TERMS: Final = 32
#: Units in the last place that rounding to nearest needs.
_NEAREST: Final = 0.5


class Errors(NamedTuple):
    """Hold the largest errors that are added to a result.

    of_function: what TOSA allows the operator, downwards and upwards, or None; NaN where the exact
        result is not finite. unit: one in the last place of 1. of_rounding: of sums and of rounding.
    least, most: the smallest normal number and the largest one; what is smaller may become zero, and
        what is larger infinite.
    stored: the element type, if it has so few bits that a number is always rounded to it.
    is_of_sum: whether the result is a sum of products, which is not stored in so few bits.
    """

    of_function: tuple[Array, Array] | None
    of_rounding: Array
    least: float
    most: float
    stored: DType | None = None
    is_of_sum: bool = False
    unit: float = 0.0

    @property
    def is_any(self) -> bool:
        return self.of_function is not None or self.least > 0 or bool(self.of_rounding.any())


def errors_of(
    block: Block,
    operator: Operator,
    operands: Sequence[Value],
    results: Mapping[str, Value],
    is_certain: bool = False,
    others: Sequence[Sequence[Value]] = (),
) -> dict[str, Errors]:
    """Return the errors that implementations of an operator have; nothing for what is exact.

    others: the operands of other runs. A sum of whole numbers in all runs has no errors.
    is_certain: no run has errors in the operands. Then an operator that is correctly rounded has the
        same result in all implementations, or is not rounded; else only what is rounded errs.
    """
    errors = {}
    for name, result in results.items():
        tensor = block.tensors.get(name)
        if tensor is None or tensor.dtype.name not in FLOATS:
            continue
        rule = rule_of(block, operator, name)
        if rule is not None and rule.kind == "exact":
            continue
        value = plain(result)
        half = half_units(value, tensor.dtype)
        _, least, most, _ = FLOATS[tensor.dtype.name]
        if tensor.dtype.bits <= _NARROW:
            # Of the units that are allowed, rounding to nearest needs a half.
            units = rule.amount if rule is not None else 1.0
            more = half * (2 * units - 1) if units >= 1 else np.zeros(value.shape)
            errors[name] = Errors(None, more, 0.0, most, tensor.dtype)
            continue
        of_function, is_of_sum = None, rule is not None and rule.kind == "dot-product"
        with np.errstate(all="ignore"):
            if is_of_sum:
                frac, smallest, _, _ = FLOATS[accumulator(operator, tensor.dtype.name)]
                half_unit, terms = 2.0 ** (-1 - frac), terms_of_sum(block, operator)
                if has_narrow_units(block, operator, tensor.dtype.name):
                    half_unit *= _NARROW_ERROR * max(1.0, terms / _NARROW_TERMS)
                bounds = _bounds(block, operator, operands, name, value)
                # Errors of additions grow with the partial sums: as the sum of the terms' sizes if
                # their signs vary, and with the root of their number if they do not.
                half = half + half_unit * (bounds + math.sqrt(terms) / 2 * np.abs(value))
                if operator.spec.family == "reduction":
                    half += _of_sum_in_order(block, operator, plain(operands[0]), value)
                half = half + late_bias_error(operator, operands, value, tensor.dtype)
                # Products that are subnormal may be flushed to zero.
                half += np.minimum(bounds, smallest * math.sqrt(terms))
                runs = [operands, *(() if is_certain else others)]
                is_whole = whole_sums(block, operator, runs, bounds)
                away = value != rounded(value, tensor.dtype)
                half = np.where(is_whole, half_units(value, tensor.dtype) * away, half)
            elif rule is not None and (rule.kind != "ulp" or rule.amount > _NEAREST):
                bounds = None
                if rule.needs_bounds:
                    bounds = _bounds(block, operator, operands, name, value)
                of_function = function_errors(operator, rule, value, bounds, tensor.dtype)
            if not operator.spec.is_inexact or operator.spec.traits.response == "product":
                # What needs no rounding has no error; a product that is fused is not rounded either.
                away = np.abs(value - rounded(value, tensor.dtype))
                half = np.nan_to_num(away) if is_certain else half * (away != 0)
                if of_function is not None:
                    of_function = of_function[0] * (away != 0), of_function[1] * (away != 0)
        least = least if may_flush(tensor.dtype) else 0.0
        unit = 2.0 ** -FLOATS[tensor.dtype.name][0]
        errors[name] = Errors(of_function, half, least, most, is_of_sum=is_of_sum, unit=unit)
    return errors


#: The fractions in units of which terms may be whole numbers.
_FRACTIONS: Final = (1.0, 2.0**8)


@np.errstate(all="ignore")
def whole_sums(
    block: Block, operator: Operator, runs: Sequence[Sequence[Value]], bounds: Array | None
) -> Array:
    """Return which results are sums of whole numbers in all runs, so small that no order rounds them.

    bounds: the sums of the sizes of products; not needed for REDUCE_SUM.
    """
    output = block.tensors[operator.outputs[0]].dtype.name
    most = 2.0 ** (FLOATS[accumulator(operator, output)][0] + 1)
    if operator.spec.traits.response == "sum":
        axis = axis_of(operator)
        found = np.ones(1, np.bool_)
        for own in runs:
            terms = plain(own[0])
            units = [terms * fraction for fraction in _FRACTIONS]
            fits = [
                (unit == np.rint(unit)).all(axis=axis, keepdims=True)
                & (np.abs(unit).sum(axis=axis, keepdims=True) <= most)
                for unit in units
            ]
            found = found & np.logical_or(*fits)
        return found
    if (
        bounds is None
        or operator.spec.name not in SUMS_OF_PRODUCTS
        or any(isinstance(value, Scaled) for own in runs for value in own)
        or has_narrow_units(block, operator, output)
    ):
        return np.zeros(1, np.bool_)
    # The other runs differ by whole numbers from the exact one, whose products are far below the most.
    are_whole = all(
        bool((value == np.rint(value)).all())
        for own in runs
        for value in map(plain, own)
        if value.dtype.kind == "f"
    )
    return np.asarray(are_whole & (4 * bounds <= most))


def function_errors(
    operator: Operator, rule: Rule, exact: Array, bounds: Array | None, dtype: DType
) -> tuple[Array, Array]:
    """Return how far below and above the exact result a function may be, without leaving its range.

    NaN where the exact result is not finite. Some bounds of TOSA grow with the operand: SIN of 60 in
    FP16 may be 3, and TANH of 60,000 may be -1, which no implementation gives. Where a function is 1 it
    may err as much as where it becomes 1.
    """
    kind = operator.spec.name
    with np.errstate(all="ignore"):
        if bounds is not None and kind in _SATURATING:
            rate, constant, multiple = _SATURATING[kind]
            # From here on the distance to 1 is less than a quarter of a unit.
            end = (FLOATS[dtype.name][0] + 2) * math.log(2) / rate
            most = np.where(np.abs(exact) > 0.5, constant + multiple * end, np.inf)
            bounds = np.minimum(bounds, most)
        error = rule.limits(exact, bounds, dtype)[2]
        low, high = np.clip((exact - error, exact + error), *operator.spec.range)
        ends = (np.nan_to_num(np.abs(end - exact), posinf=0.0) for end in (low, high))
        down, up = (np.where(np.isfinite(exact), end, np.nan) for end in ends)
    return down, up


def _of_sum_in_order(block: Block, operator: Operator, terms: Array, exact: Array) -> Array:
    """Return the error of a sum in the order of its terms: the errors of equal terms have one sign."""
    axis = axis_of(operator)
    name = accumulator(operator, block.tensors[operator.outputs[0]].dtype.name)
    kind = np.float16 if name == "FP16" else np.float32
    sums = np.add.accumulate(terms.astype(kind), axis=axis, dtype=kind)
    last = np.take(sums, [terms.shape[axis] - 1], axis=axis).astype(np.float64)
    return np.asarray(np.nan_to_num(np.abs(last - exact), posinf=0.0))


def late_bias_error(
    operator: Operator, operands: Sequence[Value], exact: Array, dtype: DType
) -> Array | float:
    """Return the error of a sum that is rounded to the result's type before the bias is added.

    The reference model does so in its convolutions of FP16 and BF16, whatever `acc_type` says.
    """
    count = len(operator.inputs)
    rows = [operator.spec.operand(index, count).name for index in range(count)]
    if "bias" not in rows or not dtype.is_float or dtype.bits != 16:
        return 0.0
    bias = plain(operands[rows.index("bias")])
    return np.where(bias == 0, 0.0, half_units(exact - bias, dtype))


def rounded(value: Array, row: DType) -> Array:
    """Return numbers rounded to an element type, in FP64; types without infinity saturate."""
    _, _, most, has_infinity = FLOATS[row.name]
    if row.bits <= _NARROW and not has_infinity:
        value = np.clip(value, -most, most)
    code = np.rint(value / MXINT8_UNIT) if row.name == "MXINT8" else value
    return numbers(code.astype(row.numpy), row)


def with_local_bound(call: Call) -> Call:
    if "local_bound" not in call.attributes:
        return call
    return replace(call, attributes={**call.attributes, "local_bound": True})


def _bounds(
    block: Block, operator: Operator, operands: Sequence[Value], name: str, value: Array
) -> Array:
    """Return the bounds of a result whose operands are exact, as `reference.bounds` defines them."""
    if operator.spec.family == "fft":
        # Sines and cosines have errors, also where they are 0.
        parts = [np.abs(plain(part)).sum(axis=(1, 2), keepdims=True) for part in operands]
        return np.asarray(np.broadcast_to(sum(parts), value.shape))
    function = BOUNDS.get(operator.spec.name)
    if function is None:
        return np.abs(value)
    call = with_local_bound(with_numbers(call_of(block, operator, operands, "wide"), operands))
    found = None
    if operator.spec.name in SUMS_OF_PRODUCTS:
        # FP32 has more than enough bits, but not for numbers of any size.
        found = np.asarray(function(replace(call, precision="own")), np.float64)
    if found is None or not np.isfinite(found.max(initial=0.0)):
        found = function(call)
    if isinstance(found, tuple):
        found = found[operator.outputs.index(name)]
    return np.asarray(found).reshape(value.shape)


# -- results that TOSA leaves open: integers that NaN was cast to, and the larger one of 0 and -0 --
# CAST of floating point gives `round_to_nearest_int(value)`, and no integer is the nearest one to
# NaN. Processors give 0, the least or the greatest integer, and so do the reference model and
# numpy. 0 and -0 are equal for TOSA, so that MAXIMUM may return either; RECIPROCAL makes
# infinities of them.

#: Responses of operators whose results show the sign of a zero.
_SHOWS_SIGN: Final = frozenset(("pole", "power"))


def undefined_integers(block: Block, operator: Operator, operands: Sequence[Value]) -> Array | None:
    """Return where the result of a CAST is the integer nearest to NaN; None if nowhere."""
    if not _rounds_to_integer(block, operator):
        return None
    found = np.isnan(plain(operands[0]).astype(np.float64))
    return found if found.any() else None


def _chooses(operator: Operator) -> bool:
    """Return whether an operator returns one of several numbers."""
    is_number = operator.spec.traits.response != "position"
    return is_number and any(row.name == "nan_mode" for row in operator.spec.attributes)


def chooses_zeros(block: Block, operator: Operator, operands: Sequence[Value]) -> bool:
    """Return whether an operator chooses between 0 and -0, which are equal for TOSA."""
    if not _chooses(operator) or not block.tensors[operator.inputs[0]].dtype.is_float:
        return False
    values = [plain(one) for one in operands[: max(operator.spec.elementwise, 1)]]
    element = block.tensors[operator.inputs[0]].dtype
    for row in operator.spec.attributes:
        if row.kind == "element":
            bound = operator.attributes[row.name]
            assert isinstance(bound, bytes)
            values.append(np.array([element_value(bound, element)]))
    signs = [np.signbit(value[value == 0]) for value in values]
    return any(one.any() for one in signs) and not all(one.all() for one in signs)


def open_tensors(graph: Graph, inputs: Arrays, golden: Arrays) -> frozenset[str]:
    """Return the tensors of the main block that depend on a result which TOSA leaves open."""
    block = graph.main
    operators = [op for _, own in graph.blocks() for op in own.operators]
    has_zeros = any(map(_chooses, operators))
    has_zeros = has_zeros and any(op.spec.traits.response in _SHOWS_SIGN for op in operators)
    has_zeros = has_zeros and any(
        array.dtype.kind not in "biuV" and np.isinf(array.astype(np.float64)).any()
        for array in golden.values()
    )

    def may_be_open(own: Block, op: Operator) -> bool:
        return _rounds_to_integer(own, op) or (has_zeros and _chooses(op))

    casts = [
        name
        for op in block.operators
        if may_be_open(block, op)
        or any(
            may_be_open(inner, own)
            for region in reachable(graph, [op])
            for inner in region.blocks
            for own in inner.operators
        )
        for name in op.outputs
    ]
    if not casts:
        return frozenset()
    part = extract(graph, casts)
    machine = _Watching(part, "wide", has_zeros=has_zeros)
    found: set[str] = set()
    try:
        for step in machine.steps(inputs, {}):
            if step.block is part.main:
                found.update(step.operator.outputs if machine.has_seen else ())
                machine.has_seen = False
    except TosaConvertError:
        return frozenset()
    for op in block.operators:
        if not found.isdisjoint(op.inputs):
            found.update(op.outputs)
    return frozenset(found)


@dataclass(slots=True)
class _Watching(Machine):
    """Note whether an operator had an open result. has_zeros: look for the sign of zeros."""

    has_seen: bool = field(default=False)
    has_zeros: bool = False

    def compute(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        self.has_seen |= undefined_integers(block, operator, operands) is not None
        self.has_seen |= self.has_zeros and chooses_zeros(block, operator, operands)
        return Machine.compute(self, block, operator, operands, where)


def _rounds_to_integer(block: Block, operator: Operator) -> bool:
    if operator.spec.traits.response != "cast":
        return False
    source, result = block.tensors[operator.inputs[0]], block.tensors[operator.outputs[0]]
    # In blocks NaN is in the scale.
    is_integer = not (result.dtype.is_float or result.dtype.name == "BOOL")
    return source.dtype.is_float and is_integer and result.scale is None


RUNS: Final = 6
#: Of these, the first ones, in which the errors of functions have one sign in the whole program.
COHERENT: Final = 2
#: How many elements in a row differ in the errors of functions in the other runs.
_CODES: Final = 3 ** (RUNS - COHERENT)
#: The shares of what TOSA allows a function that the coherent runs err, in each batch in turn. Six
#: times the spread of the first one is more than all of it: this leaves room for errors of several
#: functions that add up. The others show results that jump in between.
_SHARES: Final = (0.8, 1.0, 0.9, 0.6, 0.3)
#: The least number that is certainly not 0.
_LEAST: Final = 5e-324


@dataclass(slots=True)
class ErringRun(Machine):
    """Run the program with errors; number 0 has none.

    batch: another number means other random errors. is_alive: whether no error has moved an operand to
        where TOSA defines no result.
    """

    number: int = 0
    batch: int = 0
    random: np.random.Generator = field(default_factory=np.random.default_rng)
    is_alive: bool = True
    #: Whether it has cast a NaN to an integer.
    casts_nan: bool = False

    def compute(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        results = self.without_errors(block, operator, operands, where)
        return self.with_errors(results, errors_of(block, operator, operands, results))

    def without_errors(
        self, block: Block, operator: Operator, operands: Sequence[Value], where: str
    ) -> dict[str, Value]:
        """Return results; NaN is cast to the least integer in run 1, and to the greatest in run 2.

        Of two zeros the larger one is 0 in run 1, and -0 in run 2.
        """
        results = Machine.compute(self, block, operator, operands, where)
        if 0 < self.number <= COHERENT:
            if chooses_zeros(block, operator, operands):
                (name,) = operator.outputs
                value, zero = plain(results[name]), 0.0 if self.number == 1 else -0.0
                results[name] = np.where(value == 0, np.array(zero, value.dtype), value)
            is_open = undefined_integers(block, operator, operands)
            if is_open is not None:
                self.casts_nan = True
                (name,) = operator.outputs
                limit = integer_limits(block.tensors[name].dtype)[self.number - 1]
                value = plain(results[name])
                results[name] = np.where(is_open, np.array(limit).astype(value.dtype), value)
        return results

    def with_errors(
        self, results: Mapping[str, Value], errors: Mapping[str, Errors]
    ) -> dict[str, Value]:
        """Return results with random errors of at most this size; the exact run only stores them."""
        changed = dict(results)
        with np.errstate(all="ignore"):
            for name, error in errors.items():
                value = results[name]
                if self.number:
                    array = self._with_error(name, plain(value), error)
                elif error.stored is not None:
                    array = rounded(plain(value), error.stored)
                else:
                    continue
                changed[name] = value._replace(data=array) if isinstance(value, Scaled) else array
        return changed

    def as_read(self, values: Mapping[str, Value], small: Arrays) -> dict[str, Value]:
        """Return inputs and constants as this run reads them: two runs flush subnormal numbers."""
        read = dict(values)
        if 0 < self.number <= COHERENT:
            for name, is_small in small.items():
                read[name] = self._flushed(plain(read[name]), is_small)
        return read

    def _with_error(self, name: str, exact: Array, error: Errors) -> Array:
        changed = np.empty(exact.shape)
        shares = self._shares(exact.shape)
        of_function = error.of_function
        share = self._shares_of_function(name, exact.shape) if of_function is not None else 0.0
        for part in parts_of(exact.shape):
            center, found = exact[part], changed[part]
            found[...] = shares[part]
            found *= error.of_rounding[part]
            if of_function is None:
                found += center
            else:
                down, up = (_where_finite(own[part], center, error.unit) for own in of_function)
                mine = share[part] if isinstance(share, np.ndarray) else np.asarray(share)
                erring = center + mine * np.where(mine < 0, down, up)
                # A result that errs by all its value is 0, which is not rounded.
                found *= np.fmin(1.0, np.abs(erring) / np.abs(center))
                found += erring
                # With the rounding: what TOSA allows is about the result, which may be an end such as 0.
                np.clip(found, center - down, center + up, out=found)
            size = np.abs(found)
            if size.min() >= max(error.least, _LEAST) and size.max() <= error.most:
                continue
            # The sum of an error and of -0 is 0.
            stays = ~np.isfinite(center) | ((center == 0) & (found == 0))
            found[stays] = center[stays]
            if error.stored is None and self.number <= COHERENT:
                found[...] = self._flushed(found, np.abs(found) < error.least)
            if error.stored is None and self.number == 1:
                overflows = np.abs(found) > error.most
                found[overflows] = np.copysign(np.inf, found[overflows])
        return changed if error.stored is None else rounded(changed, error.stored)

    def _shares_of_function(self, name: str, shape: tuple[int, ...]) -> Array | float:
        """Return which share of what TOSA allows a function this run errs.

        Run 1 is high everywhere, and run 2 low. In the others the share of an element is -1, 0 or 1: two
        elements of a row or a column have the same in all runs only if they are a multiple of _CODES
        apart, so that a difference of two, as in a softmax, errs in some run.
        """
        if self.number <= COHERENT:
            share = _SHARES[self.batch % len(_SHARES)]
            return share if self.number == 1 else -share
        seed = [zlib.crc32(name.encode()), self.batch]
        codes = np.random.default_rng(seed).permutation(_CODES)
        digits = codes // 3 ** (self.number - COHERENT - 1) % 3 - 1.0
        place = np.zeros(shape, np.intp)
        for axis, size in enumerate(shape):
            step = 4 ** (len(shape) - 1 - axis)  # no multiple of 3
            place += (np.arange(size) * step).reshape(-1, *[1] * (len(shape) - 1 - axis))
        found: Array = digits[place % _CODES] * (1 - self._shares(shape) ** 2 / 8)
        return found

    def _flushed(self, values: Array, is_small: Array) -> Array:
        """Return zeros in place of small values: of their sign in run 1, and without one in run 2."""
        return np.where(is_small, np.copysign(0.0, values) if self.number == 1 else 0.0, values)

    def _shares(self, shape: tuple[int, ...]) -> Array:
        """Return random numbers between -1 and 1."""
        count = math.prod(shape)
        # Numbers of 16 bits take a third of the time that those of FP32 take.
        drawn = self.random.bit_generator.random_raw(-(-count // 4))
        shares = np.asarray(drawn).view(np.int16)[:count].astype(np.float32)
        shares *= 2.0**-15
        return shares.reshape(shape)


def subnormal_numbers(block: Block, values: Mapping[str, Value]) -> dict[str, Array]:
    """Return which elements are subnormal, of the values that have any."""
    found = {}
    for name, value in values.items():
        tensor = block.tensors.get(name)
        if tensor is not None and not isinstance(value, Scaled):
            is_small = is_subnormal(value, tensor.dtype)
            if is_small.any():
                found[name] = is_small
    return found


def _where_finite(error: Array, exact: Array, unit: float) -> Array:
    """Return the error of a function; where it is NaN, one unit of what this run has."""
    is_nan = np.isnan(error)
    return np.where(is_nan, np.abs(exact) * unit, error) if is_nan.any() else error
