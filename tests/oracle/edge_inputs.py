"""Inputs at the edges of types: limits, ties, zeros, subnormals, infinities, first and last indices."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

from tosa_convert.golden.arrays import SCALE_SUFFIX, Array, Slot
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.random_inputs import indexed
from tosa_convert.graph.model import Block, Graph, Operator

#: How far inputs go: "all" has every edge, so that sums overflow and an operator may refuse them;
#: "half" the edges whose sums and differences fit, without NaN and infinities; "few" has an edge among
#: eight small values.
VARIANTS: Final = ("all", "half", "few")
_SMALL_INTEGERS: Final = (-2, -1, 0, 1, 2, 3, -3, 7, -7)
#: Ties of the conversion to integers, their limits, overflow and underflow of EXP, multiples of pi.
_ORDINARY: Final = (
    *(0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.5, -2.5, 0.1, -0.1, 1e-3, 3.1415927, 1.5707964),
    *(126.5, 127.5, 128.5, -127.5, -128.5, -129.5, 32767.5, -32768.5, 65504.0, 88.0, -87.0, 1e5),
)
_EXTREME: Final = (
    89.0,
    -104.0,
    2147483647.0,
    -2147483648.0,
    4294967296.0,
    9.3e18,
    -9.3e18,
    65520.0,
)
_SMALL_FLOATS: Final = (0.0, -0.0, 0.25, -0.5, 0.75, 1.0, -1.5, 2.0)


def edge_inputs(graph: Graph, variant: str, seed: int) -> dict[str, Array]:
    """Return an array of edge values for each input; the same arguments give the same arrays."""
    return {slot.key: _array(graph.main, slot, variant, seed) for slot in input_slots(graph)}


def _array(block: Block, slot: Slot, variant: str, seed: int) -> Array:
    drawn = np.random.default_rng([seed, VARIANTS.index(variant), zlib.crc32(slot.key.encode())])
    if slot.key.endswith(SCALE_SUFFIX) or slot.dtype.name == "FP8UE8M0":
        codes = (0, 1, 126, 127, 128, 253, 254, 255) if variant == "all" else (124, 127, 130)
        found = drawn.choice(np.array(codes, np.uint8), slot.shape)
        return np.asarray(found).view(slot.dtype.numpy).reshape(slot.shape)
    zero = _zero_point(block, slot)
    if zero is not None:
        return np.asarray(drawn.choice(np.array(zero), slot.shape)).astype(slot.dtype.numpy)
    pools = [_special(block, op, i, slot, variant) for op, i in _uses(block, slot.tensor)]
    special = next((pool for pool in pools if pool is not None), None)
    if special is not None and special[0] == "distinct":
        order = [drawn.permutation(special[1])[: slot.shape[1]] for _ in range(slot.shape[0])]
        if all(len(row) == slot.shape[1] for row in order):
            return np.array(order).reshape(slot.shape).astype(slot.dtype.numpy)
    usual, edges = special[1] if special and special[0] == "pools" else _pools(slot, variant)
    # Of INT64 and INT48 a list keeps every bit.
    chosen = np.array(edges, usual.dtype) if variant != "few" else usual
    found = drawn.choice(chosen, slot.shape)
    if variant == "few":
        few = drawn.choice(np.array(edges, usual.dtype), slot.shape)
        found = np.where(drawn.random(slot.shape) < 1 / 8, few, found)
    with np.errstate(all="ignore"):
        return np.asarray(found).reshape(slot.shape).astype(slot.dtype.numpy)


def _uses(block: Block, name: str) -> list[tuple[Operator, int]]:
    return [(op, i) for op in block.operators for i, n in enumerate(op.inputs) if n == name]


def _special(
    block: Block, operator: Operator, position: int, slot: Slot, variant: str
) -> tuple[str, Any] | None:
    """Return the pools of an operand that an operator limits; of SCATTER the number of rows."""
    match operator.spec.operand(position, len(operator.inputs)).domain:
        case "index":
            index = indexed(block, operator.spec, operator.inputs)
            if index is None:
                return None
            if operator.spec.name == "SCATTER" and variant != "all":
                return "distinct", index.rows
            inside = [0, index.rows - 1]
            return _integers(inside, [*inside, *([-1, index.rows] if variant == "few" else [])])
        case "shift":
            bits = block.tensors[operator.inputs[0]].dtype.bits
            return _integers([0, 1, bits - 1], [0, bits - 1, *([bits] if variant == "few" else [])])
        case "divisor":
            low, high = _limits(slot)
            zero = [0] if variant == "few" else []
            return _integers([1, -1, 2, -3], [1, -1, 2, -2, 7, -7, high, low, *zero])
        case "positive" if variant != "all":
            return "pools", (np.array([0.5, 1.0, 1.5, 2.0, 3.0]), [0.1, 1.0, 2.0, 10.0, 1e-3])
    return None


def _zero_point(block: Block, slot: Slot) -> list[int] | None:
    """Return the values of an operand that is a zero point or a shift of MUL; None for another one."""
    for op, position in _uses(block, slot.tensor):
        name = op.spec.operand(position, len(op.inputs)).name
        if name.endswith("_zp"):
            unsigned = op.attributes.get(name.removesuffix("zp") + "unsigned")
            if slot.dtype.name == "INT16" and unsigned:
                return [0, -(1 << 15)]
            return [-128, -1, 0, 127] if slot.dtype.name == "INT8" else [0]
        if name == "shift":
            return [0, 1, 31, 62]
    return None


def _integers(usual: Sequence[int], edges: Sequence[int]) -> tuple[str, Any]:
    return "pools", (np.array(usual, np.int64), edges)


def _limits(slot: Slot) -> tuple[int, int]:
    if slot.dtype.name in ("INT4", "MXINT8"):  # the least code of these is not a value
        most = (1 << (slot.dtype.bits - 1)) - 1
        return -most, most
    return -(1 << (slot.dtype.bits - 1)), (1 << (slot.dtype.bits - 1)) - 1


def _pools(slot: Slot, variant: str) -> tuple[Array, Sequence[Any]]:
    """Return ordinary values of a type, and those at its edges."""
    if slot.dtype.name == "BOOL":
        return np.array([False, True]), [False, True]
    if not slot.dtype.is_float:
        low, high = _limits(slot)
        usual = [n for n in _SMALL_INTEGERS if low <= n <= high]
        if variant == "half":
            return np.array(usual, np.int64), [*usual, low // 2, high // 2, high // 2 - 1]
        return np.array(usual, np.int64), [
            *usual,
            low,
            low + 1,
            high - 1,
            high,
            low // 2,
            high // 2,
        ]
    row: Any = ml_dtypes.finfo(slot.dtype.numpy)  # type: ignore[no-untyped-call]
    most = float(row.max)
    ordinary = [x for x in _ORDINARY if abs(x) <= most]
    if variant == "half":
        return np.array(_SMALL_FLOATS), ordinary
    least, tiny = float(row.smallest_normal), float(row.smallest_subnormal)
    edges = [most, -most, least, -least, tiny, -tiny, least / 2, least - tiny, np.nextafter(1, 2)]
    extreme = [x for x in _EXTREME if abs(x) <= most]
    return np.array(_SMALL_FLOATS), [*ordinary, *edges, *extreme, np.inf, -np.inf, np.nan]
