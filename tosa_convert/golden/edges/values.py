"""The values at the edges of each element type, and arrays that mix them with random values.

Numbers have ranks by their size. A program in which large ones leave nothing to compare gets only those
of lower ranks; and infinities and NaN can be left out.
"""

from __future__ import annotations

import zlib
from functools import cache
from math import gcd
from typing import Any, Final

import numpy as np

from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.npz import SCALE_SUFFIX, Slot
from tosa_convert.golden.running.random_inputs import random_array
from tosa_convert.graph.dtypes import FLOATS, FP8, DType

# -- elements of every type as integers in the order of their values -------------------------------
# The code of an integer is its value. Those of floating point count the numbers of the type: 0 is
# 0 and -0 is -1, the smallest positive number is 1, and NaN is above infinity.

#: The code of -0.
NEGATIVE_ZERO: Final = -1
#: The code of NaN, of the types that have it.
NAN: Final[dict[str, int]] = {}
#: The code of infinity, of the types that have it.
INFINITE: Final[dict[str, int]] = {}
#: Those of the smallest normal numbers: what is between 0 and this is subnormal.
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
    """Return the codes of elements, as INT64."""
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
    every = np.arange(256, dtype=np.uint8).view(row.numpy) if row.bits <= 8 else None
    if every is not None:
        codes = codes_of(every[: 1 << row.bits], row)
        finite = np.isfinite(_plain(every[: 1 << row.bits]))
        return int(codes[finite].min()), int(codes[finite].max())
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
    *(
        np.pi / 2,
        np.pi,
        4.5,
        7.5,
        8.5,
        9.0,
        10.0,
        16.5,
        17.0,
        20.0,
        45.0,
        50.0,
        60.0,
        88.5,
        89.0,
        104.0,
    ),
    *(126.5, 127.0, 127.5, 128.0, 128.5, 254.5, 255.0, 255.5, 256.0, 2047.0, 2049.0, 11.0, 12.0),
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
    """Return the codes of the values of a type at its edges, of this rank or lower, ascending.

    special: with infinities and NaN.
    """
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


def of_every_size(
    row: DType, count: int, turn: int, limits: tuple[int, int], generator: np.random.Generator
) -> Array:
    """Return codes inside of limits, each of another sign and exponent; other turns have other ones."""
    binades = np.clip(binades_of(row), *limits)
    binades = binades[(binades_of(row)[:, 0] <= limits[1]) & (binades_of(row)[:, 1] >= limits[0])]
    if not len(binades):
        return np.zeros(0, np.int64)
    # Every number of successive ones is evenly spread.
    step = next(n for n in range(round(0.618 * len(binades)), 0, -1) if gcd(n, len(binades)) == 1)
    chosen = binades[(turn * count + np.arange(count)) * step % len(binades)]
    codes: Array = generator.integers(chosen[:, 0], chosen[:, 1], endpoint=True)
    return codes


def special_codes(row: DType) -> tuple[int, ...]:
    """Return the codes of the infinities and NaN that a type has."""
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

    everywhere: no element spoils others, so that large numbers need not be near together.
    turn: which of several sets it is for; see `of_every_size`.
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
    every = _edges(row, rank, limit, special=special)
    larger = np.setdiff1d(every, _edges(row, lower, limit))
    count = -(-codes.size // _CLUSTER)
    start = int(generator.integers(codes.size - count + 1))
    ends = edge_codes(row, rank if everywhere else lower, special=False)
    inside = (ends[0], ends[-1]) if limit is None else code_limits(row, limit)
    sized = generator.permutation(codes.size)
    if len(larger):
        sized = sized[(sized < start) | (sized >= start + count)]
    share = _SIZED if rank > SMALL or not row.is_float else _SIZED_IF_SMALL
    sized = sized[: round((share if everywhere else _SIZED_IF_MIXED) * codes.size)]
    sizes = of_every_size(row, len(sized), turn, inside, generator)
    codes[sized[: len(sizes)]] = sizes
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
    return elements_of(codes, row).reshape(slot.shape)


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
