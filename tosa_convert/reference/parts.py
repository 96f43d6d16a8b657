"""Compute operators on large tensors in parts, whose intermediate values stay in the cache."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.reference.call import Array, Call, Operation, Type, new_result

#: Elements that are computed at a time.
PART: Final = 1 << 15
#: Bytes that most operators take for the intermediate values of an element, or less.
EACH: Final = 40
#: Bytes of intermediate values that are worth no smaller parts.
_LEAST_BYTES: Final = 1 << 16
#: Tensors with this many elements for each value of their type are computed by looking up results.
_WORTH_LOOKING_UP: Final = 4
#: Bits of FP32 that decide about a cast to a type of one byte.
_UPPER_BITS: Final = 16
#: Operators on integers that take longer than that. Those on floating point do, since numpy computes
#: with FP32 alone.
_LOOKED_UP: Final = frozenset(("NEGATE", "RESCALE", "TABLE"))
#: Operators that are one function of numpy, without intermediate values if it computes in their type.
_ONE_PASS: Final = frozenset(("ABS", "ADD", "CLAMP", "MAXIMUM", "MINIMUM", "MUL", "NEGATE", "SUB"))
#: Operators whose function of FP32 is in tables, and of these the ones that are functions of numpy; see
#: `tabled_functions`.
_TABLED: Final = frozenset(("ERF", "EXP", "LOG", "SIGMOID", "TANH"))
_OF_NUMPY: Final = {"EXP": "exp", "LOG": "log", "TANH": "tanh"}
#: Rows of at most so many bytes are reduced faster across them than along them, so many bytes at a time:
#: they fit the second cache, and columns are no power of 2 apart, which would share its lines.
_SHORT_BYTES: Final = 256
_TURNED_BYTES: Final = 3 << 16
#: Bytes of the intermediate values of an element that is reduced, or less.
_REDUCED_BYTES: Final = 24
#: Types of the elements that are turned at once, the longest one first, if there are enough of them.
_WORDS: Final = (np.complex128, np.int64, np.int32, np.int16)
_ENOUGH_WORDS: Final = 4


def _is_vectorised(function: str) -> bool:
    """Return whether numpy computes a function of FP64 on several elements at once, and says so."""
    try:
        from numpy.lib import introspect
    except ImportError:  # numpy before 2.1
        return False
    find: Any = introspect.opt_func_info
    rows = find(func_name=f"^{function}$", signature="float64")[function].values()
    return any(str(row["current"]).startswith("AVX512") for row in rows)


#: Operators whose function of FP32 computes parts by itself, from tables.
LOOKED_UP_IN_FP32: Final = _TABLED - {
    name for name, function in _OF_NUMPY.items() if _is_vectorised(function)
}


def affordable(call: Call, each: int, most: int, *, beside: int = 0, times: float = 1.0) -> int:
    """Return how many items, at most `most`, take no more memory than operands and results."""
    operands = {id(array): array.nbytes for array in call.operands}
    live = sum(operands.values()) + sum(map(_bytes_of, call.results))
    allowed = int(times * max(live, _LEAST_BYTES)) - beside
    return max(1, min(most, allowed // max(1, each)))


def _bytes_of(result: Type) -> int:
    return math.prod(result.shape) * (result.dtype.numpy.itemsize if result.dtype else 0)


def compute_in_parts(call: Call, function: Operation) -> Array | None:
    """Return the result of an operator on elements, in its type; None if it is another or small."""
    # RESCALE, whose other operands can have an element for each channel, computes parts by itself.
    is_rescale = call.spec.name == "RESCALE"
    count = call.spec.elementwise or int(is_rescale)
    if not count or call.spec.family == "layout":
        return None
    shape, size = call.result.shape, affordable(call, EACH, PART)
    if math.prod(shape) <= size:
        return None
    operands = call.operands[:count]
    is_slow = not call.is_integer or call.spec.name in _LOOKED_UP
    if count == 1 and is_slow and not call.attributes.get("per_channel"):
        entries = _results_by_code(call, function)
        if entries is not None:
            result = new_result(call.result, call.precision)
            for part in slices(shape, size):
                result[part] = entries.take(_codes(operands[0][part]))
            return result
    if is_rescale:
        return None
    if call.spec.name == "CAST" and _is_cut_short(call):
        return _cast_upper_halves(call, function)
    if call.spec.name in _ONE_PASS and operands[0].dtype in (np.float32, np.float64):
        return None
    if call.spec.name in LOOKED_UP_IN_FP32 and operands[0].dtype == np.float32:
        return None
    result = new_result(call.result, call.precision)
    for part in slices(shape, size):
        target = result[part]
        parts = (*(_part_of(operand, part) for operand in operands), *call.operands[count:])
        kind = Type(call.result.dtype, target.shape)
        target[...] = function(replace(call, operands=parts, results=(kind,)))
    return result


def _results_by_code(call: Call, function: Operation) -> Array | None:
    """Return the results of all values of a short type, by code; None if too many or refused."""
    operand, element = call.operands[0], call.types[0].dtype
    bits = operand.itemsize * 8
    if element is None or element.name == "BOOL" or element.bits != bits or bits > 16:
        return None
    if operand.size < _WORTH_LOOKING_UP << bits:
        return None
    values = np.arange(1 << bits, dtype=f"u{operand.itemsize}").view(operand.dtype)
    kind = Type(call.result.dtype, values.shape)
    entries = new_result(kind, call.precision)
    with contextlib.suppress(TosaConvertError):
        for part in slices(values.shape, affordable(call, EACH, PART)):
            kind = Type(call.result.dtype, entries[part].shape)
            operands = (values[part], *call.operands[1:])
            entries[part] = function(replace(call, operands=operands, results=(kind,)))
        return entries
    return None


def _is_cut_short(call: Call) -> bool:
    """Return whether FP32 is rounded to at most 5 bits after the point, and is worth looking up."""
    array, element = call.operands[0], call.result.dtype
    is_byte = element is not None and element.is_float and element.numpy.itemsize == 1
    is_wide = array.dtype == np.float32 and array.size >= _WORTH_LOOKING_UP << _UPPER_BITS
    return is_byte and is_wide and call.precision == "own"


def _cast_upper_halves(call: Call, function: Operation) -> Array:
    """Cast FP32 to a type of one byte by its upper half, first rounded to odd, which is exact."""
    values = np.arange(1 << _UPPER_BITS, dtype=np.uint32) << np.uint32(32 - _UPPER_BITS)
    kind = Type(call.result.dtype, values.shape)
    entries = new_result(kind, call.precision)
    entries[...] = function(
        replace(call, operands=(values.view(np.float32), *call.operands[1:]), results=(kind,))
    )
    result = new_result(call.result, call.precision)
    for part in slices(call.result.shape, PART):
        bits = _codes(call.operands[0][part])
        codes = bits >> np.uint32(32 - _UPPER_BITS)
        codes |= (bits & np.uint32((1 << (32 - _UPPER_BITS)) - 1)) != 0
        result[part] = entries.take(codes)
    return result


def _codes(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


def slices(shape: Sequence[int], size: int, whole: int = 0) -> Iterator[tuple[slice, ...]]:
    """Iterate over parts of about `size` elements; `whole`: how many last axes are not cut."""
    axis, inner = len(shape) - 1, 1
    while axis > 0 and (inner * shape[axis] <= size or len(shape) - axis <= whole):
        inner *= shape[axis]
        axis -= 1
    step = max(1, size // max(1, inner))
    outer = [[slice(index, index + 1) for index in range(count)] for count in shape[:axis]]
    cut = [slice(start, start + step) for start in range(0, shape[axis], step)]
    yield from itertools.product(*outer, cut, *[[slice(None)]] * (len(shape) - axis - 1))


def steps(count: int, step: int) -> list[slice]:
    """Return parts of an axis of so many elements, the last one of the rest."""
    step = max(1, step)
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def _part_of(operand: Array, part: tuple[slice, ...]) -> Array:
    """Return what belongs to a part of the result; axes of one element are broadcast."""
    pairs = zip(operand.shape, part, strict=True)
    return operand[tuple(slice(None) if size == 1 else cut for size, cut in pairs)]


def reduce_in_parts(
    array: Array,
    axis: int,
    reduce: Callable[[Array, int], Array],
    kind: np.dtype[Any],
    *,
    is_turned: bool = True,
    size: int = PART,
) -> Array:
    """Return an array with one element along an axis."""
    axis %= array.ndim
    sizes = array.shape
    count, inner = sizes[axis], math.prod(sizes[axis + 1 :])
    cube = array.reshape(-1, count, inner)
    result = np.empty((len(cube), inner), kind)
    # At least two columns, which numpy adds up like many; a single one in another order.
    most = max(1, size // max(1, count))
    small = max(array.nbytes, _LEAST_BYTES) // (_REDUCED_BYTES * max(1, count))
    size = max(min(2, most), min(most, small))
    shape = (*sizes[:axis], 1, *sizes[axis + 1 :])
    if inner == 1:
        table = cube[:, :, 0]
        if is_turned and count * array.itemsize <= _SHORT_BYTES:
            _reduce_turned(table, reduce, result[:, 0])
            return result.reshape(shape)
        for rows, _ in slices(result.shape, size):
            result[rows, 0] = reduce(table[rows], 1)
        return result.reshape(shape)
    for rows, columns in slices(result.shape, size):
        result[rows, columns] = reduce(cube[rows, :, columns], 1)
    return result.reshape(shape)


def _reduce_turned(table: Array, reduce: Callable[[Array, int], Array], result: Array) -> None:
    """Reduce rows: first across words of several elements, then across the elements of a word."""
    words = _words(table)
    each = words.itemsize // table.itemsize
    turned_bytes = min(_TURNED_BYTES, max(table.nbytes // 4, _LEAST_BYTES // 4))
    step = max(1, turned_bytes // max(1, table.shape[1] * table.itemsize))
    turned = np.empty((words.shape[1], min(step, len(words))), words.dtype)
    for start in range(0, len(words), step):
        part = words[start : start + step].T
        across = turned[:, : part.shape[1]]
        across[...] = part
        found = reduce(across.view(table.dtype), 0)
        if each > 1:
            found = reduce(np.ascontiguousarray(found.reshape(-1, each).T), 0)
        result[start : start + step] = found


def _words(table: Array) -> Array:
    """Return rows as the longest words of which each has enough, or as they are."""
    size = table.shape[1] * table.itemsize
    for word in map(np.dtype, _WORDS if table.flags.c_contiguous else ()):
        is_longer = word.itemsize > table.itemsize
        if is_longer and size % word.itemsize == 0 and size >= _ENOUGH_WORDS * word.itemsize:
            return table.view(word)
    return table
