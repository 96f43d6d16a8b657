"""Sums of products in several runs that have one factor in common, such as weights.

They are linear in the other factor: the result of a run is that of the exact run, and the sums for the
difference of the two operands. It is so small that FP32 has more than enough bits for it, and all runs
take one product of matrices together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.dtypes import FP32
from tosa_convert.graph.model import Block, Operator
from tosa_convert.records import replace
from tosa_convert.reference.block_scaled import Scaled, Value, plain
from tosa_convert.reference.call import Call, Type
from tosa_convert.reference.evaluate import OPERATIONS, call_of

#: Operators of two factors; for each factor, the axis along which operands of several runs are put
#: together, and that of the result.
SUMS_OF_PRODUCTS: Final = {
    "CONV2D": {"input": (0, 0)},
    "CONV3D": {"input": (0, 0)},
    "DEPTHWISE_CONV2D": {"input": (0, 0)},
    "MATMUL": {"a": (1, 1), "b": (2, 2)},
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
