"""Make the values at the edges of each element type, and compute single elements of a run from them.

Numbers have ranks by their size. A program in which large ones leave nothing to compare gets only those
of lower ranks; and infinities and NaN can be left out.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import SCALE_SUFFIX, Array, Arrays, Slot
from tosa_convert.golden.running.programs import inputs_of
from tosa_convert.golden.running.random_inputs import random_array
from tosa_convert.graph.derived import computed_tensors, with_main
from tosa_convert.graph.dtypes import FLOATS, FP8, DType
from tosa_convert.graph.model import Block, Graph, Operator
from tosa_convert.process.child import end_if_unwanted
from tosa_convert.reference.block_scaled import plain
from tosa_convert.reference.call import Call, Step, Type, UndefinedResult, store
from tosa_convert.reference.evaluate import OPERATIONS, Machine, call_of, operation_of

# -- elements of every type as integers in the order of their values -------------------------------
# The code of an integer is its value. Those of floating point count the numbers of the type: 0 is
# 0 and -0 is -1, the smallest positive number is 1, and NaN is above infinity.

NEGATIVE_ZERO: Final = -1
#: The codes of the types that have them; what is between 0 and the smallest normal one is subnormal.
NAN: Final[dict[str, int]] = {}
INFINITE: Final[dict[str, int]] = {}
SMALLEST_NORMAL: Final[dict[str, int]] = {}
for _row in (*FLOATS, *FP8):
    if _row.numbers is not None:
        _sign, _fraction = 1 << (_row.bits - 1), 1 << _row.numbers.fraction
        SMALLEST_NORMAL[_row.name] = _fraction
        NAN[_row.name] = _sign - 1
        if _row.numbers.has_infinity:
            INFINITE[_row.name] = _sign - _fraction
            NAN[_row.name] = _sign - _fraction // 2


def codes_of(array: Array, row: DType) -> Array:
    if not row.is_float:
        return array.astype(np.int64)
    sign = np.int64(1) << (row.bits - 1)
    unsigned = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").astype(np.int64)
    size = unsigned & (sign - 1)
    codes = np.where(unsigned & sign, -size - 1, size)
    return np.where(np.isnan(_plain(array)), NAN.get(row.name, 0), codes)


def elements_of(codes: Array, row: DType) -> Array:
    target: np.dtype[Any] = row.numpy
    if not row.is_float:
        narrow = codes.astype(np.int8) if row.is_in_bytes else codes
        return narrow.astype(target)
    sign = np.int64(1) << (row.bits - 1)
    unsigned = np.where(codes < 0, (-codes - 1) | sign, codes)
    return unsigned.astype(f"u{target.itemsize}").view(target)


def limits_of(row: DType) -> tuple[int, int]:
    """Return the lowest and the highest code of a number that is not infinite."""
    if not row.is_float:
        return row.limits
    if row.bits <= 8:
        every = np.arange(1 << row.bits, dtype=np.uint8).view(row.numpy)
        codes = codes_of(every, row)[np.isfinite(_plain(every))]
        return int(codes.min()), int(codes.max())
    greatest = int(codes_of(np.array([np.inf], np.float32).astype(row.numpy), row)[0]) - 1
    return -greatest - 1, greatest


def _plain(array: Array) -> Array:
    """Return numbers in a type of numpy's own."""
    return array if array.dtype.kind == "f" else array.astype(np.float32)


#: Ranks of numbers by their size; an input has those of its rank and of all lower ones.
RANDOM, SMALL, MODERATE, LARGE, HUGE, ALL = range(6)
#: What reports say of an input with numbers of at most a rank.
RANK_TEXTS: Final = (
    "random values only",
    "no values above 4 in floating point, and integers of 16 bits",
    "no values above 256 in floating point, and integers of 24 bits",
    "no values above 2^31",
    "integers of 63 bits",
    "all values",
)
#: The greatest size of a number of a rank, in floating point.
_SIZES: Final = {SMALL: 4.0, MODERATE: 256.0, LARGE: 2.0**31}
#: The bits of an integer of a rank, if its type has more.
_BITS: Final = {SMALL: 16, MODERATE: 24, LARGE: 31, HUGE: 63, ALL: 64}
#: Numbers near which functions and conversions turn: ties, limits of integers, ends of what EXP, TANH
#: and SIGMOID resolve, multiples of pi/2.
_TURNS: Final = (
    *(0.1, 0.25, 1 / 3, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0),
    *(np.pi / 2, np.pi, 4.5, 7.5, 8.5, 9.0, 10.0, 11.0, 12.0, 16.5, 17.0, 20.0, 45.0, 50.0, 60.0),
    *(88.5, 89.0, 104.0, 126.5, 127.0, 127.5, 128.0, 128.5, 254.5, 255.0, 255.5, 256.0),
    *(2047.0, 2049.0),
    *(32766.5, 32767.0, 32767.5, 32768.0, 32768.5, 65504.0, 65519.0, 65520.0, 1e4, 1e5),
    *(2.0**23 - 0.5, 2.0**24, 2.0**24 + 2, 2.0**31 - 128, 2.0**31, 2.0**32, 2.0**63),
)
#: One of so many elements in a row has ranks above MODERATE: what they spoil is near together.
_CLUSTER: Final = 12
#: Shares of the elements: random values, edges, values on a coarse grid, one bit beside another element;
#: and of all those that get values of every size instead.
_SHARES: Final = (0.2, 0.45, 0.2, 0.15)
_SIZED: Final = 1 / 3
#: The same without large numbers, which is a set of its own: there smaller errors of functions are seen.
_SIZED_IF_SMALL: Final = 0.6
#: The same where sums, or other operators that combine elements, use them.
_SIZED_IF_MIXED: Final = 0.1


@cache
def edge_codes(row: DType, rank: int = ALL, *, special: bool = True) -> tuple[int, ...]:
    """Return the codes of the values of a type at its edges, of this rank or lower, ascending."""
    low, high = limits_of(row)
    if row.is_float:
        found = _number_codes(row, rank, high)
        return tuple(sorted(found | set(special_codes(row)) if special else found))
    if row.bits > 8:
        most = 1 << min(row.bits - 1, _BITS[rank] - 1)
        low, high = max(low, -most), min(high, most - 1)
    powers = [1 << bit for bit in range(row.bits)]
    near = [power + step for power in powers for step in (-1, 0, 1)]
    values = {0, low, low + 1, high, high - 1, *near, *(-value for value in near)}
    return tuple(sorted(value for value in values if low <= value <= high))


@cache
def binades_of(row: DType) -> Array:
    """Return the first and the last code of each sign and exponent of a type, or number of bits.

    Only of normal numbers, and of integers of more than 8 bits: others are met anyway.
    """
    low, high = limits_of(row)
    if row.is_float and row.name not in SMALLEST_NORMAL:
        return np.zeros((0, 2), np.int64)
    if row.is_float:
        first = np.arange(SMALLEST_NORMAL[row.name], high + 1, SMALLEST_NORMAL[row.name])
        last = np.minimum(first + SMALLEST_NORMAL[row.name] - 1, high)
        negative = np.stack([-last - 1, -first - 1], axis=1)
    else:
        first = np.int64(1) << np.arange(row.bits - 1 if row.bits > 8 else 0)
        last = np.minimum(first - 1 + first, high)
        negative = np.maximum(np.stack([-last, -first], axis=1), low)
    return np.concatenate([negative[::-1], np.stack([first, last], axis=1)])


@cache
def binade_names(row: DType) -> tuple[str, ...]:
    """Return a name for each binade of a type, such as "-2^-3"."""
    sizes = elements_of(binades_of(row)[:, 0], row).astype(np.float64)
    # Of negative ones the last code is nearest to 0.
    ends = elements_of(binades_of(row)[:, 1], row).astype(np.float64)
    sizes = np.where(sizes < 0, ends, sizes)
    return tuple(f"{'-' if size < 0 else ''}2^{int(np.log2(abs(size)))}" for size in sizes)


def binade_numbers(array: Array, row: DType) -> Array:
    """Return the number of the binade that each element is in; one more than there are for none."""
    codes = codes_of(array, row).reshape(-1)
    firsts = binades_of(row)[:, 0]
    if row.is_float:
        fraction = SMALLEST_NORMAL[row.name].bit_length() - 1
        sizes = np.where(codes < 0, -codes - 1, codes) >> fraction
    else:
        sizes = np.frexp(codes.astype(np.float64))[1]
    half = len(firsts) // 2
    places = np.where(codes < 0, half - sizes, half - 1 + sizes)
    is_none = (sizes <= 0) | (places < 0) | (places >= len(firsts))
    return np.asarray(np.where(is_none, len(firsts), places))


def in_binades(array: Array, row: DType) -> Array:
    """Return for each binade of a type whether an array has a number of it."""
    count = len(binades_of(row))
    return np.bincount(binade_numbers(array, row), minlength=count)[:count] > 0


def spread_places(total: int, count: int, turn: int) -> Array:
    """Return some of so many places, evenly spread; successive turns have other ones."""
    step = next((n for n in range(round(0.618 * total), 0, -1) if math.gcd(n, total) == 1), 0)
    return (turn * count + np.arange(count)) * step % max(total, 1)


def of_every_size(
    row: DType, count: int, turn: int, limits: tuple[int, int], generator: np.random.Generator
) -> Array:
    """Return codes inside of limits, each of another sign and exponent; other turns have other ones."""
    binades = np.clip(binades_of(row), *limits)
    binades = binades[(binades_of(row)[:, 0] <= limits[1]) & (binades_of(row)[:, 1] >= limits[0])]
    if not len(binades):
        return np.zeros(0, np.int64)
    chosen = binades[spread_places(len(binades), count, turn)]
    codes: Array = generator.integers(chosen[:, 0], chosen[:, 1], endpoint=True)
    return codes


def special_codes(row: DType) -> tuple[int, ...]:
    infinite = INFINITE.get(row.name)
    found = () if infinite is None else (-infinite - 1, infinite)
    return (*found, NAN[row.name]) if row.name in NAN else found


def _number_codes(row: DType, rank: int, high: int) -> set[int]:
    with np.errstate(over="ignore"):
        turns = np.array(_TURNS, np.float64).astype(row.numpy)
    near = codes_of(turns[np.isfinite(turns.astype(np.float64))], row)
    normal = SMALLEST_NORMAL.get(row.name, 1)
    positive = {0, 1, 2, normal // 2, normal - 1, normal, normal + 1}
    positive |= {int(code) + step for code in near for step in (-1, 0, 1)}
    if rank >= HUGE:
        positive |= {high, high - 1, (high + 1) // 2 + normal, high - normal}
        root = np.sqrt(np.float64(elements_of(np.array([high]), row)[0]))
        positive |= {int(codes_of(np.array([root]).astype(row.numpy), row)[0]) + n for n in (0, 1)}
    codes = np.array(sorted(code for code in positive if 0 <= code <= high))
    size = elements_of(codes, row).astype(np.float64)
    codes = codes[size <= _SIZES[rank]] if rank < HUGE else codes
    return {*codes.tolist(), *(-codes - 1).tolist()}


def edge_array(
    slot: Slot,
    seed: int,
    rank: int = ALL,
    limit: tuple[float, float] | None = None,
    usual: tuple[float, float] | None = None,
    *,
    special: bool = True,
    everywhere: bool = False,
    turn: int = 0,
) -> Array:
    """Return an array of random values and of values at the edges of its type.

    everywhere: no element spoils others, so that large numbers need not be near together. turn: which of
        several sets it is for; see `of_every_size`.
    """
    array = random_array(slot, seed, limit or usual)
    row = slot.dtype
    if rank == RANDOM or not array.size or row.name == "BOOL":
        return array
    generator = np.random.default_rng([seed, zlib.crc32(slot.key.encode()), 1])
    if row.name == "FP8UE8M0" or slot.key.endswith(SCALE_SUFFIX):
        return array
    codes = codes_of(array, row).reshape(-1)
    kinds = generator.choice(len(_SHARES), codes.size, p=_SHARES)
    kinds[generator.integers(codes.size)] = 1
    lower = min(rank, MODERATE) if row.is_float else rank
    for kind, values in ((1, _edges(row, lower, limit)), (2, _grid(row, rank, limit, generator))):
        if len(values):
            chosen = kinds == kind
            codes[chosen] = generator.choice(values, int(chosen.sum()))
    beside = np.flatnonzero(kinds == 3)
    neighbour = codes[generator.integers(codes.size, size=beside.size)]
    codes[beside] = np.clip(neighbour ^ 1, *limits_of(row))
    larger = np.setdiff1d(_edges(row, rank, limit, special=special), _edges(row, lower, limit))
    count = -(-codes.size // _CLUSTER)
    start = int(generator.integers(codes.size - count + 1))
    ends = edge_codes(row, rank if everywhere else lower, special=False)
    inside = (ends[0], ends[-1]) if limit is None else code_limits(row, limit)
    sized = np.delete(np.arange(codes.size), range(start, start + count if len(larger) else start))
    share = _SIZED if rank > SMALL or not row.is_float else _SIZED_IF_SMALL
    share = share if everywhere else _SIZED_IF_MIXED
    shift = int(generator.integers(codes.size))
    sized = np.roll(sized, shift) if everywhere else generator.permutation(sized)
    sized = sized[: round(share * codes.size)]
    sizes = of_every_size(row, len(sized), turn, inside, generator)
    codes[sized[: len(sizes)]] = sizes[np.argsort(np.where(sizes < 0, -sizes - 1, sizes))]
    if len(larger):
        # Each infinity and NaN, if there is room; and as many of them as of huge numbers.
        chosen = generator.choice(larger, count)
        extreme = np.intersect1d(larger, special_codes(row))
        if len(extreme):
            first = generator.permutation(extreme)[:count]
            more = generator.choice(extreme, count)
            chosen = np.where(generator.integers(0, 2, count) == 1, more, chosen)
            chosen[: len(first)] = first
        codes[start : start + count] = generator.permutation(chosen)
    if limit is not None:
        codes = np.clip(codes, *code_limits(row, limit))
    if everywhere and slot.shape:
        # Channel by channel: beside others about as large, an element may err least.
        codes = codes.reshape(slot.shape[-1], -1).T
    return elements_of(codes.reshape(-1), row).reshape(slot.shape)


def code_limits(row: DType, limit: tuple[float, float]) -> tuple[int, int]:
    """Return the lowest and the highest code inside of a range of values."""
    if not row.is_float:
        low, high = limits_of(row)
        return max(low, int(limit[0])), min(high, int(limit[1]))
    low, high = codes_of(np.array(limit, np.float64).astype(row.numpy), row).tolist()
    return min(low, high), max(low, high)


def _edges(
    row: DType, rank: int, limit: tuple[float, float] | None, *, special: bool = False
) -> Array:
    """Return the codes of edges inside of a limit, with its ends."""
    codes = np.array(edge_codes(row, rank, special=special), np.int64)
    if limit is None:
        return codes
    low, high = code_limits(row, limit)
    return np.array([low, high, *codes[(codes >= low) & (codes <= high)]], np.int64)


def _grid(
    row: DType, rank: int, limit: tuple[float, float] | None, generator: np.random.Generator
) -> Array:
    """Return codes of values that repeat: halves of floating point, and integers of every size."""
    if row.is_float:
        with np.errstate(over="ignore"):
            halves = (np.arange(-24, 25) / 2).astype(row.numpy)
        codes = codes_of(halves, row)
    else:
        low, high = limits_of(row)
        bits = min(row.bits, _BITS[rank]) - 1
        sizes = generator.integers(0, 1 << bits, 64) >> generator.integers(0, max(bits, 1), 64)
        codes = np.clip(np.where(generator.integers(0, 2, 64) == 1, sizes, -sizes), low, high)
    if limit is not None:
        low, high = code_limits(row, limit)
        codes = codes[(codes >= low) & (codes <= high)]
    return codes


# -- single elements of a program: of which elements they are made, and how a run computes them ----

#: Rules of one operator that an element can break, one after another.
_MOST_RULES: Final = 6


def type_of(call: Call, position: int = 0) -> DType:
    """Return the element type of an operand that is a tensor."""
    row = call.types[position].dtype
    assert row is not None
    return row


def has_elements(operator: Operator) -> bool:
    """Return whether each element of the result is made of one element of each operand."""
    return operator.spec.elementwise > 0 or operator.spec.name == "RESCALE"


def moves(operator: Operator) -> bool:
    """Return whether the elements of the result are elements of the operands."""
    spec = operator.spec
    return spec.accuracy == "operand" and spec.name in OPERATIONS


@dataclass(slots=True)
class Elements:
    """Compute the elements of an operator, whose call has its operands, one by one."""

    call: Call
    count: int = field(init=False)

    def __post_init__(self) -> None:
        self.count = max(self.call.spec.elementwise, 1)

    @property
    def size(self) -> int:
        """Return the number of elements of the result."""
        return math.prod(self.call.result.shape)

    def operand_ids(self, position: int, ids: Array) -> Array:
        shape, own = self.call.result.shape, self.call.operands[position].shape
        if shape == own:
            return ids
        places = np.unravel_index(ids, shape) if shape else ()
        kept = [
            np.where(np.int64(size) == 1, 0, place)
            for place, size in zip(places[len(shape) - len(own) :], own, strict=True)
        ]
        if not kept:
            return np.zeros(len(ids), np.int64)
        return np.asarray(np.ravel_multi_index(kept, own), np.int64)

    def values(self, position: int, ids: Array) -> Array:
        """Return the elements of an operand that elements of the result are made of."""
        found: Array = self.call.operands[position].reshape(-1)[self.operand_ids(position, ids)]
        return found

    def part(self, ids: Array, replaced: Mapping[int, Array]) -> Call:
        """Return the operator for some elements, with other values for operands at some positions."""
        call = self.call
        operands = [
            replaced[position] if position in replaced else self.values(position, ids)
            for position in range(self.count)
        ] + list(call.operands[self.count :])
        if call.spec.name == "RESCALE" and call.attributes["per_channel"]:
            channel = ids % call.result.shape[-1]
            for position in (1, 2):
                operands[position] = operands[position].reshape(-1)[channel]
        kind = Type(call.result.dtype, (len(ids),))
        types = tuple(
            Type(own.dtype, (len(ids),)) if position < self.count else own
            for position, own in enumerate(call.types)
        )
        return replace(call, operands=tuple(operands), types=types, results=(kind,))

    def compute(self, ids: Array, replaced: Mapping[int, Array]) -> Array:
        part = self.part(ids, replaced)
        if not len(ids):
            return store(ids, part.result, "own")
        with np.errstate(all="ignore"):
            return store(operation_of(part)(part), part.result, "own")

    def compute_defined(self, ids: Array, replaced: Mapping[int, Array]) -> tuple[Array, Array]:
        """Return which of the elements TOSA defines, and these; see `compute`."""
        kept = np.arange(len(ids))
        for _ in range(_MOST_RULES):
            if not len(kept):
                break
            given = {position: values[kept] for position, values in replaced.items()}
            try:
                return kept, self.compute(ids[kept], given)
            except UndefinedResult as error:
                kept = kept[~np.broadcast_to(error.wrong, kept.shape)]
        element = self.call.result.dtype
        assert element is not None
        return kept[:0], np.zeros(0, element.numpy)

    def undefined(self) -> Array:
        kept, _ = self.compute_defined(np.arange(self.size), {})
        return np.setdiff1d(np.arange(self.size), kept)


def moved_ids(block: Block, operator: Operator, operands: Sequence[Array]) -> tuple[Array, Array]:
    """Return for each element of the result of an operator that moves elements where it is from."""
    spec = operator.spec
    count = len(operands)
    offset = 0
    starts = []
    given = []
    for position, array in enumerate(operands):
        row = spec.operand(position, count)
        if row.is_shape or row.is_constant or row.domain:
            given.append(np.full_like(array, -1) if row.name == "pad_const" else array)
            starts.append(-1)
            continue
        given.append(np.arange(offset, offset + array.size, dtype=np.int64).reshape(array.shape))
        starts.append(offset)
        offset += array.size
    ids = np.asarray(OPERATIONS[spec.name](call_of(block, operator, given, "own"))).reshape(-1)
    positions = np.full(ids.shape, -1)
    local = np.zeros(ids.shape, np.int64)
    for position, start in enumerate(starts):
        if start >= 0:
            inside = (ids >= start) & (ids < start + operands[position].size)
            positions[inside] = position
            local[inside] = ids[inside] - start
    return positions, local


def operands_of(graph: Graph, operator: Operator, values: Arrays) -> list[Array]:
    """Return the operands of an operator of the main block, of the values of a run or constants."""
    block, machine = graph.main, Machine(graph)
    return [
        values[name] if name in values else plain(machine.value(block, {}, name))
        for name in operator.inputs
    ]


def undefined_elements(graph: Graph, index: int, values: Arrays) -> Array | None:
    """Return the elements of an operator's result that TOSA does not define; None if not known."""
    operator = graph.main.operators[index]
    if not has_elements(operator):
        return None
    call = call_of(graph.main, operator, operands_of(graph, operator, values), "own")
    found = Elements(call).undefined()
    return found if len(found) else None


def sources(graph: Graph, name: str, ids: Array, values: Arrays) -> dict[str, Array] | None:
    block = graph.main
    masks: dict[str, Array] = {name: ids}
    for op in reversed(block.operators):
        wanted = [masks.pop(name) for name in op.outputs if name in masks]
        if not wanted or not op.inputs or op.spec.name.startswith("VARIABLE"):
            continue
        for position, own in _operand_elements(graph, op, np.concatenate(wanted), values):
            operand = op.inputs[position]
            if own is None:
                if inputs_of(block, [operand]):
                    return None
                continue
            masks[operand] = np.union1d(masks.get(operand, own[:0]), own)
    return {own: masks[own] for own in block.inputs if own in masks}


def _operand_elements(
    graph: Graph, op: Operator, ids: Array, values: Arrays
) -> list[tuple[int, Array | None]]:
    """Return for each operand that results are made of its elements; None if they are mixed."""
    operands = operands_of(graph, op, values)
    if has_elements(op):
        elements = Elements(call_of(graph.main, op, operands, "own"))
        return [(p, elements.operand_ids(p, ids)) for p in range(elements.count)]
    if moves(op):
        position, local = moved_ids(graph.main, op, operands)
        return [
            (p, np.unique(local[ids[position[ids] == p]])) for p in set(position[ids]) if p >= 0
        ]
    return [(p, None) for p in range(len(operands))]


# -- a run on numpy, with the values on the way, up to where TOSA leaves a result open -------------

#: Codes of errors that other values avoid.
_OF_VALUES: Final = frozenset(("refmodel-refused", "input-mismatch"))
#: Programs whose tensors have more bytes than this together run without their values being kept.
KEPT_BYTES: Final = 256 << 20


@dataclass(slots=True)
class Run:
    """Hold what a run computed.

    values: the arrays of the main block, by name; only inputs and outputs of a large program.
    error: why it ended early; operator: the one of the main block where it did.
    is_stopped: whether it ended early because it was asked to.
    """

    values: dict[str, Array] = field(default_factory=dict)
    error: TosaConvertError | None = None
    operator: int = -1
    is_stopped: bool = False


def run_forward(
    graph: Graph,
    inputs: Arrays,
    watch: Callable[[Step], None] | None = None,
    stops: Callable[[Step], bool] | None = None,
) -> Run:
    """Run a program on numpy, up to an operator of the main block at which it stops."""
    result = Run(dict(inputs), operator=0)
    keeps = kept_bytes(graph) <= KEPT_BYTES
    outputs: dict[str, Array] = {}
    try:
        for step in Machine(graph, "own").steps(inputs, outputs):
            end_if_unwanted()
            if watch is not None:
                watch(step)
            if not step.inside.path:
                if stops is not None and stops(step):
                    result.operator, result.is_stopped = step.index, True
                    return result
                result.operator = step.index + 1
                if keeps:
                    result.values |= step.operands | step.results
    except TosaConvertError as error:
        if not {row.code for row in error.findings} <= _OF_VALUES:
            raise
        result.error = error
    result.values |= outputs
    return result


#: Operators that combine elements, through how many of which values are propagated back: of what is
#: behind more of them, hardly anything is met.
_COMBINED: Final = 2


def beginning(graph: Graph) -> Graph:
    """Return the operators of a program before those that are behind many that combine elements."""
    block = graph.main
    depths: dict[str, int] = {}
    end = len(block.operators)
    for index, operator in enumerate(block.operators):
        depth = max((depths.get(name, 0) for name in operator.inputs), default=0)
        if operator.inputs and not has_elements(operator) and not moves(operator):
            depth += any(name in depths or name in block.inputs for name in operator.inputs)
        if depth > _COMBINED:
            end = index
            break
        depths |= dict.fromkeys(operator.outputs, depth)
    if end == len(block.operators):
        return graph
    later = {name for operator in block.operators[end:] for name in operator.inputs}
    outputs = [
        name
        for operator in block.operators[:end]
        for name in operator.outputs
        if name in block.tensors and (name in later or name in block.outputs)
    ]
    return with_main(graph, replace(block, operators=block.operators[:end], outputs=outputs))


def kept_bytes(graph: Graph) -> int:
    """Return the bytes of all tensors that a program computes."""
    tensors = [graph.main.tensors[name] for _, name in computed_tensors(graph)]
    return sum(
        row.dtype.element_bytes * math.prod(max(size, 1) for size in row.shape or ())
        for row in tensors
    )
