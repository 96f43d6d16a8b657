"""Numbers as MLIR's text has them."""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from typing import Final

import numpy as np

from tosa_convert.graph.dtypes import BY_MLIR

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
    """Format a floating-point number: six digits where they are exact, else more, else its bits.

    Args:
        bits: the number's bits, unsigned.
        element: its type in MLIR's words, such as "bf16".

    Source: printFloatValue in MLIR's AsmPrinter.cpp, which prints by LLVM's APFloat.
    """
    kind = np.dtype("<f8") if element == "f64" else BY_MLIR[element].numpy
    raw = bits.to_bytes(kind.itemsize, "little")
    value = float(np.frombuffer(raw, kind)[0])
    if isfinite(value):
        sign = "-" if np.signbit(value) else ""
        text = sign + _scientific(abs(value))
        if np.array(float(text)).astype(kind).tobytes() == raw:
            return text
        text = _exact(abs(value), element)
        if "." in text:
            return sign + text
    return f"0x{bits:X}"


def _scientific(value: float) -> str:
    """Six digits, as in 1.250000e-01."""
    digits, exponent = _digits(value, _SHORT) if value else ("0", 0)
    power = exponent + len(digits) - 1
    return f"{digits[0]}.{digits[1:]:0<{_SHORT}}e{'-' if power < 0 else '+'}{abs(power):02}"


def _exact(value: float, element: str) -> str:
    """Format as many digits as tell numbers of a type apart, as in 3.14159274 or 1.23456703E-4.

    A number that MLIR prints without a point has none here: it would be parsed as an integer.
    """
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
    """Return the first `precision` decimal digits without final zeros, and the last one's power of ten.

    LLVM drops digits in two steps: it cuts the number to somewhat more bits than the digits need, and
    rounds the rest half up. The last digit depends on this.
    """
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
