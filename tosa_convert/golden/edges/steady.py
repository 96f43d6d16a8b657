"""Whether a run leaves something to compare: correct implementations compute about the same."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from tosa_convert.golden.accuracy.bounds_of_operators import accumulator, rule_of, terms_of_sum
from tosa_convert.golden.accuracy.error_bounds import FLOATS, may_flush
from tosa_convert.golden.accuracy.implementation_errors import function_errors
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.edges.codes import SMALLEST_NORMAL, codes_of
from tosa_convert.golden.edges.coverage import has_edges
from tosa_convert.golden.edges.elements import Elements, has_elements, moves
from tosa_convert.golden.edges.forward import Run
from tosa_convert.golden.edges.trace import inputs_of, operands_of, sources, undefined_elements
from tosa_convert.graph.model import Block, Graph, Operator
from tosa_convert.records import replace
from tosa_convert.reference.bounds import BOUNDS
from tosa_convert.reference.call import is_float
from tosa_convert.reference.evaluate import call_of

#: Of an output, the least share of elements that are finite: fewer leave little to compare.
_LEAST_FINITE: Final = 0.5
#: Operators whose zeros have one sign, if those of their operands have.
_KEEP_SIGNS: Final = frozenset(("ABS", "NEGATE"))


def unsteady_operators(graph: Graph, run: Run) -> list[int]:
    """Return the operators whose sums or products of finite numbers may overflow on the way.

    Whether they do depends on the order of the terms, and with it all that follows.
    """
    block = graph.main
    found = []
    for index, operator in enumerate(block.operators):
        is_sum = operator.spec.accuracy in ("dot-product", "reduce-product")
        if not is_sum or not has_edges(block, operator):
            continue
        result = block.tensors[operator.outputs[0]]
        if result.dtype.is_float and operator.inputs[0] in run.values:
            largest = FLOATS[accumulator(operator, result.dtype.name)][2]
            if _may_exceed(graph, index, run, largest / 2):
                found.append(index)
    return found


def _may_exceed(graph: Graph, index: int, run: Run, most: float) -> bool:
    """Return whether the sizes of the terms of an element add up, or multiply, to more than a number."""
    block = graph.main
    operator = block.operators[index]
    operands = [
        np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        if is_float(array.dtype)
        else array
        for array in operands_of(graph, operator, run.values)
    ]
    with np.errstate(all="ignore"):
        if operator.spec.accuracy == "reduce-product":
            axis = operator.attributes["axis"]
            assert isinstance(axis, int)
            return bool((np.prod(np.maximum(np.abs(operands[0]), 1.0), axis=axis) > most).any())
        largest = [max(float(np.abs(array).max(initial=0.0)), 1.0) for array in operands[:3]]
        if math.prod(largest) * (terms_of_sum(block, operator) + 1) <= most:
            return False
        call = call_of(block, operator, operands, "wide")
        if "local_bound" in call.attributes:
            call = replace(call, attributes={**call.attributes, "local_bound": True})
        bounds = BOUNDS[operator.spec.name](call)
        parts = bounds if isinstance(bounds, tuple) else (bounds,)
        return any(not (part <= most).all() for part in parts)


def undefined_sources(graph: Graph, run: Run) -> dict[str, Array]:
    """Return the elements of inputs that undefined results are made of; none if they are mixed."""
    ids = undefined_elements(graph, run.operator, run.values)
    if ids is None:
        return {}
    name = graph.main.operators[run.operator].outputs[0]
    return sources(graph, name, ids, run.values) or {}


def fragile_sources(graph: Graph, run: Run) -> dict[str, Array]:
    """Return the elements of inputs for which correct implementations differ much.

    A subnormal number may be read as 0, at which LOG, FLOOR and comparisons jump, and so does its
    product with a large number. Of large numbers TOSA allows functions such as SIN to err by more than
    their size, which what follows shows. The sign of a zero that is computed may differ, and with it the
    sign of its reciprocal.
    """
    block = graph.main
    used = {name for operator in block.operators for name in operator.inputs}
    found: dict[str, Array] = {}
    signed = set(block.inputs)
    for operator in block.operators:
        kind = operator.spec.name
        if moves(operator) or kind in _KEEP_SIGNS:
            signed.update(
                name for name in operator.outputs if signed.issuperset(operator.inputs[:1])
            )
        wrong: dict[str, Array] = {}
        if kind == "ARGMAX":
            wrong = {name: _subnormal(block, name, run.values) for name in operator.inputs}
        elif operator.outputs and operator.outputs[0] in run.values:
            (name, *_) = operator.outputs
            ids = _changed_by_flushing(graph, operator, run.values)
            if name in used:
                ids = np.union1d(ids, _uncertain(graph, operator, run.values))
            wrong = {name: ids}
            if kind in ("RECIPROCAL", "RSQRT") and operator.inputs[0] not in signed:
                zeros = run.values[operator.inputs[0]].reshape(-1) == 0
                wrong[operator.inputs[0]] = np.flatnonzero(zeros)
        for name, ids in wrong.items():
            if not len(ids):
                continue
            places = sources(graph, name, ids, run.values)
            if places is None:
                # They are mixed: the subnormal ones of the inputs may be among them.
                names = inputs_of(block, [name])
                places = {own: _subnormal(block, own, run.values) for own in names}
            for key, own in places.items():
                found[key] = np.union1d(found.get(key, own[:0]), own)
    return found


def _subnormal(block: Block, name: str, values: Mapping[str, Array]) -> Array:
    """Return the subnormal elements of a tensor."""
    tensor = block.tensors.get(name)
    if tensor is None or name not in values or not may_flush(tensor.dtype):
        return np.zeros(0, np.int64)
    codes = codes_of(values[name], tensor.dtype).reshape(-1)
    size = np.where(codes < 0, -codes - 1, codes)
    return np.flatnonzero((size > 0) & (size < SMALLEST_NORMAL[tensor.dtype.name]))


def _changed_by_flushing(graph: Graph, operator: Operator, values: Mapping[str, Array]) -> Array:
    """Return the results of an operator on elements that change if subnormal operands are read as 0."""
    block = graph.main
    none = np.zeros(0, np.int64)
    if not has_elements(operator) or not has_edges(block, operator):
        return none
    elements = Elements(call_of(block, operator, operands_of(graph, operator, values), "own"))
    row = elements.call.result.dtype
    every = np.arange(elements.size)
    flushed: dict[int, Array] = {}
    affected = np.zeros(elements.size, np.bool_)
    for position in range(elements.count):
        ids = _subnormal(block, operator.inputs[position], values)
        if len(ids):
            is_one = np.zeros(elements.call.operands[position].size, np.bool_)
            is_one[ids] = True
            own = is_one[elements.operand_ids(position, every)]
            given = elements.values(position, every)
            zero = np.copysign(np.zeros(1, np.float32), given.astype(np.float32))
            flushed[position] = np.where(own, zero.astype(given.dtype), given)
            affected |= own
    ids = np.flatnonzero(affected)
    if row is None or not len(ids):
        return none
    kept, found = elements.compute_defined(ids, {p: array[ids] for p, array in flushed.items()})
    right = values[operator.outputs[0]].reshape(-1)[ids[kept]]
    with np.errstate(all="ignore"):
        one, other = right.astype(np.float64), found.astype(np.float64)
        least = FLOATS[row.name][1] if may_flush(row) else 0.0
        near = (np.abs(one - other) <= least) | (one == other) | (np.isnan(one) & np.isnan(other))
    return np.setdiff1d(ids, ids[kept[near]])


def _uncertain(graph: Graph, operator: Operator, values: Mapping[str, Array]) -> Array:
    """Return the results of a function that may err by more than half of their size, or than a half."""
    block = graph.main
    name = operator.outputs[0]
    none = np.zeros(0, np.int64)
    if operator.spec.elementwise != 1 or name not in values or operator.inputs[0] not in values:
        return none
    row = block.tensors[name].dtype
    rule = rule_of(block, operator, name) if row.name in FLOATS else None
    if rule is None or rule.kind != "abs-error" or not has_edges(block, operator):
        return none
    operands = [array.astype(np.float64) for array in operands_of(graph, operator, values)]
    exact = values[name].astype(np.float64)
    with np.errstate(all="ignore"):
        bounds = np.abs(exact)
        if operator.spec.name in BOUNDS:
            call = call_of(block, operator, operands, "wide")
            bounds = np.asarray(BOUNDS[operator.spec.name](call)).reshape(exact.shape)
        error = np.maximum(*function_errors(operator, rule, exact, bounds, row))
        wrong = np.isfinite(exact) & ~(error <= 0.5 * np.maximum(np.abs(exact), 1.0))
    return np.flatnonzero(wrong)


def spoiled_outputs(graph: Graph, run: Run) -> list[str]:
    """Return the outputs most of whose elements are infinite or NaN."""
    found = []
    for name in dict.fromkeys(graph.main.outputs):
        tensor = graph.main.tensors.get(name)
        if tensor is not None and tensor.dtype.is_float and run.values[name].size:
            finite = np.isfinite(run.values[name].astype(np.float32))
            if finite.mean() < _LEAST_FINITE:
                found.append(name)
    return found
