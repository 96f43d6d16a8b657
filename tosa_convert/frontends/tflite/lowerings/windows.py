"""Pooling, which is not lowered or without its activation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.frontends.tflite.lowerings.activations import Bounds, activation_bounds, clamp
from tosa_convert.frontends.tflite.lowerings.arithmetic import ACTIVATIONS
from tosa_convert.frontends.tflite.lowerings.correction import Correction, Group
from tosa_convert.frontends.tflite.lowerings.decomposition import (
    Decomposition,
    Given,
    between,
    sizes_of,
)
from tosa_convert.frontends.tflite.read import Operator, TfliteFile, operator_name

if TYPE_CHECKING:
    from tosa_convert.builder import Builder
    from tosa_convert.builder.values import Value
    from tosa_convert.frontends.tflite.lowerings.writer import Writer
    from tosa_convert.graph.model import Block


@dataclass(frozen=True, slots=True)
class _Window:
    """strides, kernel: of height and width. pads: before and after each. bounds: of the activation."""

    strides: list[int]
    kernel: list[int]
    pads: list[int]
    bounds: tuple[float | None, float | None]


def _find_root_of_mean_square(model: TfliteFile, operator: Operator) -> _Window | None:
    (x,), result = model.operands(operator), model.result(operator)
    limits = ACTIVATIONS.get(operator.option(5, "b"))
    if x.dtype != "float32" or limits is None:
        return None
    strides, kernel = ([operator.option(place) for place in pair] for pair in ((2, 1), (4, 3)))
    is_same = operator.option(0, "b") == 0
    pads: list[int] = []
    for axis in (0, 1):
        reach = (result.shape[1 + axis] - 1) * strides[axis] + kernel[axis] - x.shape[1 + axis]
        before = max(0, reach) // 2 if is_same else 0
        pads += [before, reach - before]
    return _Window(strides, kernel, pads, limits)


def _lower_root_of_mean_square(b: Builder, given: Given, facts: _Window) -> list[Value]:
    """Compute the square root of the average of squares."""
    x = given.operands[0]
    shape = list(sizes_of(x))
    for axis in (1, 2):  # AVG_POOL2D has no negative padding.
        shape[axis] += min(0, facts.pads[2 * axis - 1])
    if shape != list(sizes_of(x)):
        x = b.slice(x, [0] * 4, shape)
    pads = [max(0, pad) for pad in facts.pads]
    mean = b.avg_pool2d(b.mul(x, x), kernel=facts.kernel, stride=facts.strides, pad=pads)
    return [between(b, b.reciprocal(b.rsqrt(mean)), facts.bounds)]


@dataclass(frozen=True, slots=True)
class _Pool:
    """bounds: of the activation. is_unsigned: of an average."""

    bounds: Bounds | None
    is_unsigned: bool


def _find_pool(model: TfliteFile, operator: Operator) -> _Pool | None:
    bounds = activation_bounds(model, operator)
    is_average = operator_name(operator.code) == "AVERAGE_POOL_2D"
    is_unsigned = is_average and model.result(operator).dtype == "uint8"
    return _Pool(bounds, is_unsigned) if bounds or is_unsigned else None


def _lower_pool(block: Block, group: Group, facts: _Pool, write: Writer) -> None:
    """Add the activation that the converter leaves out, and round halves up for unsigned numbers."""
    value = write.like(group.result) if facts.bounds else group.result
    for one in group.returning(value):
        if one.spec.name == "AVG_POOL2D" and facts.is_unsigned:
            zero = write.values([-128], "INT8")
            one = replace(one, inputs=(one.inputs[0], zero, zero))
        write.operators.append(one)
    if facts.bounds:
        clamp(write, facts.bounds, value, group.result)


_POOL: Final = Correction(
    "the pooling operator",
    "the converter leaves its activation out, and rounds averages of unsigned numbers otherwise",
    _find_pool,
    _lower_pool,
)
DECOMPOSITIONS: Final[Mapping[str, Decomposition[Any]]] = {
    "L2_POOL_2D": Decomposition(_find_root_of_mean_square, _lower_root_of_mean_square),
}
CORRECTIONS: Final[Mapping[str, tuple[Correction[Any], ...]]] = dict.fromkeys(
    ("AVERAGE_POOL_2D", "MAX_POOL_2D"), (_POOL,)
)
