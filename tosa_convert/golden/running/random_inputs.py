"""Random inputs of a program, in the ranges that its operators take."""

from __future__ import annotations

import contextlib
import fnmatch
import itertools
import math
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from tosa_convert.errors import Findings, fail, suggest
from tosa_convert.golden.arrays import (
    SCALE_SUFFIX,
    Array,
    Slot,
)
from tosa_convert.graph.dtypes import DTYPES, FLOATS, DType
from tosa_convert.graph.model import (
    INT32_MAX,
    Block,
    Graph,
    Operator,
    quoted,
)
from tosa_convert.graph.opset import OperatorSpec

#: Ranges of inputs: (pattern of the name, lowest, highest).
Ranges = Sequence[tuple[str, float, float]]
_WIDE: Final = (-(2**30), 2**30)
#: Lowest and highest value by element type. INT32 and wider stay small enough for sums of products.
RANGES: Final[dict[str, tuple[int, int]]] = {
    row.name: row.limits if row.bits <= 16 else (-(2**15), 2**15) if row.bits == 32 else _WIDE
    for row in DTYPES
    if row.kind == "integer"
}
#: Lowest code of a scale, and the code after the highest: 2**-3 to 2**2 of FP8UE8M0.
_SCALE_CODES: Final = (124, 130)
#: Most elements of a random array. They are drawn in 8 bytes each.
_MOST_ELEMENTS: Final = INT32_MAX
#: The share of the elements of random inputs that are evenly spread over exponents.
_SIZED: Final = 0.125
_FLOATS: Final = {row.name: row.numbers for row in FLOATS if row.numbers is not None}


def random_inputs(
    graph: Graph, wanted: Iterable[Slot], seed: int, ranges: Ranges = ()
) -> dict[str, Array]:
    """Return an array for each slot; the same seed gives the same arrays.

    ranges: (pattern of names, lowest, highest) instead of the usual range; the last match counts.
    """
    if seed < 0:
        raise fail("option-conflict", "random", f"found the seed {seed}, expected 0 or more")
    slots = list(wanted)
    limits = limits_of_inputs(graph.main) | requested_ranges(slots, ranges)
    return {slot.key: _of_more_sizes(slot, seed, limits.get(slot.key)) for slot in slots}


def _of_more_sizes(slot: Slot, seed: int, limit: tuple[float, float] | None) -> Array:
    """Draw an array with evenly spread sizes, of floats so small that two have a normal product."""
    array = random_array(slot, seed, limit)
    row = slot.dtype
    if not array.size or not (row.name in _FLOATS or (row.kind == "integer" and row.bits > 8)):
        return array
    low, high = limit if limit is not None else RANGES.get(row.name, (-1.0, 1.0))
    least = 1.0 if row.kind == "integer" else math.sqrt(_FLOATS[row.name].least)
    generator = np.random.default_rng([seed, zlib.crc32(slot.key.encode()), 3])
    chosen = np.flatnonzero(generator.random(array.size) < _SIZED)
    sign = np.where(generator.integers(0, 2, chosen.size) == 1, 1.0, -1.0)
    first = np.maximum(np.where(sign > 0, low, -high), least)
    most = np.where(sign > 0, high, -low)
    chosen, sign, first, most = (own[most > first] for own in (chosen, sign, first, most))
    sizes = sign * first * (most / first) ** generator.random(chosen.size)
    array.reshape(-1)[chosen] = np.trunc(sizes) if row.kind == "integer" else sizes
    return array


def requested_ranges(slots: list[Slot], ranges: Ranges) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    findings = Findings()
    for pattern, low, high in ranges:
        where = f"range {pattern}={low:g}:{high:g}"
        matched = [slot for slot in slots if fnmatch.fnmatchcase(slot.key, pattern)]
        if not matched:
            names = ", ".join(slot.key for slot in slots)
            hint = suggest(pattern, [slot.key for slot in slots])
            findings.add("option-conflict", where, f"no input matches it; they are {names}", hint)
        for slot in matched:
            least, most = _whole_range(slot.dtype)
            if not least <= low <= high <= most:
                message = f"{slot} holds {least:g} to {most:g}"
                findings.add("option-conflict", where, message, "LOW:HIGH inside of it")
            elif slot.dtype.name in RANGES and (low % 1 or high % 1):
                findings.add("option-conflict", where, f"{slot} holds integers")
            found[slot.key] = (low, high)
    findings.raise_if_any()
    return found


def _whole_range(dtype: DType) -> tuple[float, float]:
    if dtype.is_in_bytes:
        low, high = dtype.limits
        return float(low), float(high)
    if dtype.name in RANGES:
        bits = min(dtype.bits - 1, 53)  # the range is given in FP64
        return -(2.0**bits), 2.0**bits - 1
    if dtype.kind in ("bool", "scale", "fixed"):  # random ones always have the same range
        return -math.inf, math.inf
    info: Any = ml_dtypes.finfo
    largest = float(info(dtype.numpy).max)
    return -largest, largest


def random_array(slot: Slot, seed: int, limit: tuple[float, float] | None = None) -> Array:
    """Draw one array: integers uniform over RANGES, or a limit, floating point uniform over -1 to 1."""
    generator = np.random.default_rng([seed, zlib.crc32(slot.key.encode())])
    is_scale = slot.key.endswith(SCALE_SUFFIX)
    with contextlib.suppress(MemoryError):
        # numpy refuses the product of the others beside a 0, too.
        if math.prod(size or 1 for size in slot.shape) <= _MOST_ELEMENTS:
            return draw(generator, slot.dtype, slot.shape, limit, is_scale=is_scale)
    message = f"{slot} has too many elements for random values"
    raise fail("unsupported-shape", f"input {quoted(slot.key)}", message)


def draw(
    generator: np.random.Generator,
    dtype: DType,
    shape: tuple[int, ...],
    limit: tuple[float, float] | None = None,
    *,
    is_scale: bool = False,
) -> Array:
    """Return random elements of a dtype within a range."""
    target: np.dtype[Any] = dtype.numpy
    if dtype.kind == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind == "fixed":
        return generator.integers(-127, 128, shape).astype(np.int8)
    if dtype.kind == "scale" or is_scale:
        return generator.integers(*_SCALE_CODES, shape).astype(np.uint8).view(target)
    if dtype.name in RANGES:
        low, high = limit if limit is not None else RANGES[dtype.name]
        values = generator.integers(int(low), int(high), shape, np.int64, endpoint=True)
        return values.astype(np.int8).astype(target) if dtype.is_in_bytes else values.astype(target)
    low, high = limit if limit is not None else (-1.0, 1.0)
    return generator.uniform(low, high, shape).astype(np.float32).astype(target)


#: Most forms of inputs that are kept of one tensor.
_MOST_FORMS: Final = 8
#: The domains of operands that have a range of their own; see `OperandSpec`.
DOMAINS: Final = ("index", "shift", "divisor", "positive")


class _Form(NamedTuple):
    """Describe values that are an input times a factor, plus a number from `low` to `high`."""

    source: str
    factor: int = 1
    low: int = 0
    high: int = 0

    def limit(self, least: float, most: float) -> tuple[float, float]:
        """Return the range of the input for which the values are in a range."""
        if self[1:] == (1, 0, 0):
            return least, most
        return math.ceil((least - self.low) / self.factor), (most - self.high) // self.factor


def limits_of_inputs(
    block: Block, domains: Collection[str] = DOMAINS
) -> dict[str, tuple[float, float]]:
    """Return the ranges of inputs that an operator uses as indices, shifts, divisors or bases.

    Between the two may be casts, operators that move elements, sums and products with constants, and
    SELECT: frameworks add the number of rows to indices below 0, and number the elements of rows.
    """
    limits: dict[str, tuple[float, float]] = {}
    forms: dict[str, tuple[_Form, ...]] = {name: (_Form(name),) for name in block.inputs}
    for op in block.operators:
        if not op.spec.takes(len(op.inputs), len(op.outputs)):
            continue
        for position, name in enumerate(op.inputs):
            if op.spec.operand(position, len(op.inputs)).domain not in domains:
                continue
            if forms.get(name) and (limit := _limit(op, position, block)) is not None:
                for form in forms[name]:
                    low, high = form.limit(*limit)
                    least, most = limits.get(form.source, (low, high))
                    if low <= high:
                        limits[form.source] = max(low, least), min(high, most)
        if len(op.outputs) == 1:
            forms[op.outputs[0]] = tuple(dict.fromkeys(_forms(op, block, forms)))[:_MOST_FORMS]
    return {name: (low, high) for name, (low, high) in limits.items() if low <= high}


def _forms(
    operator: Operator, block: Block, forms: Mapping[str, tuple[_Form, ...]]
) -> Iterable[_Form]:
    """Return the forms of an operator's result, given those of its operands."""
    operands = [forms.get(name, ()) for name in operator.inputs]
    match operator.spec.name:
        case "CONCAT":
            return itertools.chain(*operands)
        case "SELECT":
            # Of an index and one that counts from the end, the index.
            rows = {row.source: row for row in operands[2]}
            for row in operands[1]:
                if abs(row.low) < abs(rows.get(row.source, row._replace(low=INT32_MAX)).low):
                    rows[row.source] = row
            return rows.values()
        case "ADD" | "SUB" | "MUL" as kind:
            for first, second in ((0, 1), (1, 0)):
                own = operands[first]
                found = _integers(block, operator.inputs[second]) if own else None
                if found is None:
                    continue
                low, high = found if kind != "SUB" else (-found[1], -found[0])
                if kind == "ADD" or (kind == "SUB" and first == 0):
                    return [row._replace(low=row.low + low, high=row.high + high) for row in own]
                if (
                    kind == "MUL"
                    and 0 < low == high
                    and _integers(block, operator.inputs[2]) == (0, 0)
                ):
                    return [_Form(row.source, *(low * part for part in row[1:])) for row in own]
            return ()
    return operands[0] if operator.spec.accuracy in ("operand", "cast") else ()


def _integers(block: Block, name: str) -> tuple[int, int] | None:
    """Return the least and the greatest element of a constant of integers; None for anything else."""
    tensor = block.tensors.get(name)
    if tensor is None or tensor.data is None or tensor.variable or tensor.dtype.name not in RANGES:
        return None
    values = tensor.data.numpy()
    return (int(values.min()), int(values.max())) if values.size else None


def _limit(operator: Operator, position: int, block: Block) -> tuple[float, float] | None:
    first = block.tensors.get(operator.inputs[0])
    if first is None or first.shape is None:
        return None
    match operator.spec.operand(position, len(operator.inputs)).domain:
        case "index":
            index = indexed(block, operator.spec, operator.inputs)
            return None if index is None else (0, index.rows - 1)
        case "shift":
            return 0, first.dtype.bits - 1
        case "divisor":
            return 1, 1000
        case "positive":
            return 0.05, 4.0
    return None


@dataclass(frozen=True, slots=True)
class Indexed:
    """Hold the operand that has indices, the tensor they index, and its rows: each index is less."""

    position: int
    tensor: str
    rows: int


def indexed(block: Block, spec: OperatorSpec, operands: Sequence[str]) -> Indexed | None:
    """Return what an operator indexes, or None if it indexes nothing or a tensor of unknown size."""
    rows = [spec.operand(i, len(operands)).domain for i in range(len(operands))]
    if "index" not in rows:
        return None
    tensor = block.tensors.get(operands[0])
    if tensor is None or tensor.shape is None or len(tensor.shape) < 2 or tensor.shape[1] < 1:
        return None
    return Indexed(rows.index("index"), tensor.name, tensor.shape[1])
