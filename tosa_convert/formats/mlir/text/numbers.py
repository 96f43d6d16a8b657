"""Numbers as MLIR's text has them: printed, and parsed to the bytes of elements."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from math import copysign, isfinite
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.formats.mlir.bytecode.attributes import bit_width
from tosa_convert.graph.dtypes import BY_MLIR
from tosa_convert.graph.lazy_numpy import np

if TYPE_CHECKING:
    import numpy.typing as npt


#: Bits of the significand of each floating-point type, the hidden one included.
_SIGNIFICAND_BITS: Final = {
    "f64": 53,
    "f32": 24,
    "f16": 11,
    "bf16": 8,
    "f8E4M3FN": 4,
    "f8E5M2": 3,
    "f6E2M3FN": 4,
    "f6E3M2FN": 3,
    "f4E2M1FN": 2,
    "f8E8M0FNU": 1,
}
#: Digits that are tried first, and zeros after the point or before the end that are written out.
_SHORT: Final = 6
_MOST_ZEROS: Final = 3
#: Numbers that are remembered as text.
_CACHED: Final = 1 << 14


def is_float(element: str) -> bool:
    """Return whether numbers of the element type are printed by `float_text`."""
    return element in _SIGNIFICAND_BITS


@lru_cache(_CACHED)
def float_text(bits: int, element: str) -> str:
    """Format a number as MLIR's printFloatValue: six digits if exact, else more, else its bits."""
    value = _value_of(bits, element)
    if isfinite(value):
        sign = "-" if copysign(1, value) < 0 else ""
        text = sign + _scientific(abs(value))
        if _bits_of(float(text), element) == bits:
            return text
        text = _exact(abs(value), element)
        if "." in text:
            return sign + text
    return f"0x{bits:X}"


#: The forms in `struct` of element types that Python has, and of their bits.
_FORMATS: Final = {"f64": ("<d", "<Q"), "f32": ("<f", "<I"), "f16": ("<e", "<H")}


def _value_of(bits: int, element: str) -> float:
    if element in _FORMATS:
        # Fast path of numpy's types; equal by test test_numbers_of_python_are_those_of_numpy
        form, unsigned = _FORMATS[element]
        (found,) = struct.unpack(form, struct.pack(unsigned, bits))
        return float(found)
    kind = BY_MLIR[element].numpy
    return float(np.frombuffer(bits.to_bytes(kind.itemsize, "little"), kind)[0])


def _bits_of(value: float, element: str) -> int:
    """Return the bits of the number of a type that is nearest to a value; -1 if it is too large."""
    if element in _FORMATS:
        # Fast path of numpy's types; equal by test test_numbers_of_python_are_those_of_numpy
        form, unsigned = _FORMATS[element]
        try:
            (found,) = struct.unpack(unsigned, struct.pack(form, value))
        except OverflowError:
            return -1
        return int(found)
    return int.from_bytes(np.array(value).astype(BY_MLIR[element].numpy).tobytes(), "little")


def _scientific(value: float) -> str:
    digits, exponent = _digits(value, _SHORT) if value else ("0", 0)
    power = exponent + len(digits) - 1
    return f"{digits[0]}.{digits[1:]:0<{_SHORT}}e{'-' if power < 0 else '+'}{abs(power):02}"


def _exact(value: float, element: str) -> str:
    """Format as many digits as tell numbers apart; without a point where MLIR has none."""
    precision = 2 + _SIGNIFICAND_BITS[element] * 59 // 196
    digits, exponent = _digits(value, precision)
    count = len(digits)
    whole = count + exponent
    if exponent >= 0:
        is_scientific = exponent > _MOST_ZEROS or whole > precision
    else:
        is_scientific = whole < 1 - _MOST_ZEROS
    if is_scientific:
        power = whole - 1
        return f"{digits[0]}.{digits[1:] or '0'}E{'-' if power < 0 else '+'}{abs(power)}"
    if exponent >= 0:
        return digits + "0" * exponent
    if whole > 0:
        return f"{digits[:whole]}.{digits[whole:]}"
    return f"0.{'0' * -whole}{digits}"


def _digits(value: float, precision: int) -> tuple[str, int]:
    """Return the first decimal digits, rounded in two steps as LLVM does, and the last one's power."""
    numerator, denominator = value.as_integer_ratio()
    exponent = 1 - denominator.bit_length()
    significand = numerator * 5**-exponent
    needed = (precision * 196 + 58) // 59
    removable = max(significand.bit_length() - needed, 0) * 59 // 196
    significand //= 10**removable
    digits, exponent = _without_zeros(significand, exponent + removable)
    excess = len(digits) - precision
    if excess > 0:
        rounded = int(digits[:precision]) + (digits[precision] >= "5")
        digits, exponent = _without_zeros(rounded, exponent + excess)
    return digits, exponent


def _without_zeros(significand: int, exponent: int) -> tuple[str, int]:
    text = str(significand)
    digits = text.rstrip("0")
    return digits, exponent + len(text) - len(digits)


_INDEX: Final = "index"
_BOOL: Final = "i1"
_HEX: Final = re.compile(rb"-?0x", re.IGNORECASE)
_INTEGER: Final = re.compile(r"[su]?i([0-9]{1,3})\Z")
_MOST_BITS: Final = 64
#: Words that stand for numbers.
_WORDS: Final = {b"true": b"1", b"false": b"0"}


class BadNumber(Exception):
    """A number that is not one of its type; the message says what was found."""


def is_number(element: str) -> bool:
    width = _INTEGER.match(element)
    if width is not None:
        return 0 < int(width[1]) <= _MOST_BITS
    return element == _INDEX or is_float(element)


def stored_type(element: str) -> np.dtype[Any]:
    """Return the numpy type of an element's bits: the smallest unsigned one that holds them."""
    width = bit_width(element)
    return np.dtype(f"<u{next(size for size in (1, 2, 4, 8) if width <= 8 * size)}")


#: The forms in `struct` of the element types whose ordinary numbers Python rounds as MLIR does.
_ORDINARY: Final = {
    **{element: form[-1] for element, (form, _) in _FORMATS.items()},
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    _INDEX: "q",
}


# Fast path of bits_of; equal by test test_ordinary_numbers_equal_others
def ordinary_bytes(tokens: Sequence[bytes], element: str) -> bytes | None:
    """Return the bytes of numbers without numpy, or None if a number or the type is not ordinary."""
    form = _ORDINARY.get(element)
    if form is None:
        return None
    try:
        if form not in "dfe":
            return struct.pack(f"<{len(tokens)}{form}", *map(int, tokens))
        if b",".join(tokens).count(b".") != len(tokens):
            return None
        return struct.pack(f"<{len(tokens)}{form}", *map(float, tokens))
    except (ValueError, OverflowError, struct.error):
        return None


def bits_of(tokens: Sequence[bytes], element: str) -> npt.NDArray[Any]:
    if is_float(element):
        return _floats(tokens, element)
    return np.array(integers(tokens, element), "<u8").astype(stored_type(element))


def integers(tokens: Sequence[bytes], element: str) -> list[int]:
    width = bit_width(element)
    least = 0 if element[0] == "u" else -1 << (width - 1)
    most = (1 << width) - 1 if element[0] != "s" else (1 << (width - 1)) - 1
    numbers = []
    for token in tokens:
        try:
            number = int(token)
        except ValueError:
            number = _unusual_integer(token, element)
        if not least <= number <= most:
            raise BadNumber(f"{_shown(token)} does not fit {element}")
        numbers.append(number & (1 << width) - 1)
    return numbers


def _unusual_integer(token: bytes, element: str) -> int:
    text = token.strip()
    if text in _WORDS and element == _BOOL:
        return int(_WORDS[text])
    if _HEX.match(text):
        try:
            return int(text, 16)
        except ValueError:
            pass
    raise BadNumber(f"{_shown(token)} is not an integer")


def _floats(tokens: Sequence[bytes], element: str) -> npt.NDArray[Any]:
    kind = np.dtype("<f8") if element == "f64" else BY_MLIR[element].numpy
    stored = stored_type(element)
    # Joining is many times as fast as looking at each of them.
    if b",".join(tokens).count(b".") != len(tokens):
        for token in tokens:
            if b"." not in token and not _HEX.match(token.strip()):
                raise BadNumber(f"{_shown(token)} is not a number of {element}: it has no point")
    try:
        values = np.array(list(map(float, tokens)), np.float64)
    except ValueError:
        return np.concatenate([_unusual_float(token, kind, element) for token in tokens])
    return _rounded(values, kind).view(stored)


def _unusual_float(token: bytes, kind: np.dtype[Any], element: str) -> npt.NDArray[Any]:
    """Parse a number in decimal, or its bits in hexadecimal."""
    text, stored = token.strip(), stored_type(element)
    if _HEX.match(text):
        try:
            bits = int(text, 16)
        except ValueError:
            raise BadNumber(f"{_shown(token)} is not a number") from None
        if not 0 <= bits < 1 << bit_width(element):
            raise BadNumber(f"{_shown(token)} has more bits than the type")
        return np.array([bits], stored)
    try:
        value = float(text)
    except ValueError:
        raise BadNumber(f"{_shown(token)} is not a number") from None
    return _rounded(np.array([value]), kind).view(stored)


def powers_of_two(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """Return f8E8M0FNU: the nearest power of two, ties to the larger; NaN beyond. No signs."""
    fractions, exponents = np.frexp(np.abs(values))
    codes = np.clip(exponents + 126 + (fractions >= 0.75), 0, 0xFF)
    codes[values == 0] = 0
    codes[~np.isfinite(values)] = 0xFF
    found: npt.NDArray[np.uint8] = codes.astype(np.uint8)
    return found


def _rounded(values: npt.NDArray[np.float64], kind: np.dtype[Any]) -> npt.NDArray[Any]:
    if kind == BY_MLIR["f8E8M0FNU"].numpy:
        return powers_of_two(values)
    with np.errstate(over="ignore", invalid="ignore"):
        if kind.itemsize == 8 or kind in (np.dtype("<f4"), np.dtype("<f2")):
            return values.astype(kind)
        # ml_dtypes rounds by way of float32. Rounding to odd first makes the second rounding exact.
        nearest = values.astype(np.float32)
        bits = nearest.view(np.uint32)
        inexact = np.isfinite(nearest) & (nearest.astype(np.float64) != values)
        away = inexact & (np.abs(nearest.astype(np.float64)) > np.abs(values))
        bits = np.where(away, bits - np.uint32(1), bits)
        bits = np.where(inexact, bits | np.uint32(1), bits).astype(np.uint32)
        return bits.view(np.float32).astype(kind)


def _shown(token: bytes) -> str:
    return repr(token.strip()[:40].decode("utf-8", "replace"))
