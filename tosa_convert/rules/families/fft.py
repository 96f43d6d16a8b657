"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.graph.model import DYNAMIC
from tosa_convert.rules.families.core import (
    OperatorRules,
    ResultShape,
    Rules,
    Violation,
    agree,
    known,
    listing,
    merged,
    rank,
)
from tosa_convert.rules.families.window import sizes_of
from tosa_convert.rules.operator_view import OperatorView

_DIMENSIONS: Final = ("batch", "height", "width")


def _sizes(view: OperatorView) -> tuple[int, ...]:
    """Return the sizes of the input, whose real and imaginary parts have one shape."""
    parts = [sizes_of(view.shape(row.name), 3) for row, _ in view.operands()]
    return tuple(merged(*sizes) for sizes in zip(*parts, strict=True))


def powers_of_two(view: OperatorView) -> Iterator[Violation]:
    """Check that height and width are powers of two."""
    for name, size in zip(_DIMENSIONS[1:], _sizes(view)[1:], strict=True):
        if known(size) and (size < 1 or size & (size - 1)):
            yield Violation(f"{name}-power-of-two", f"{name} is {size}", "a power of two")


def same_shape(view: OperatorView) -> Iterator[Violation]:
    """Check that the real and the imaginary part have one shape."""
    real, imaginary = view.shape("input_real"), view.shape("input_imag")
    if real is None or imaginary is None or all(map(agree, real, imaginary)):
        return
    yield Violation("input-shapes", f"operands have different shapes: {listing(view)}", "one shape")


def _infer_complex(view: OperatorView) -> tuple[ResultShape, ...]:
    sizes = _sizes(view)
    return sizes, sizes


def _infer_real(view: OperatorView) -> tuple[ResultShape, ...]:
    batch, height, width = _sizes(view)
    sizes = (batch, height, width // 2 + 1 if known(width) else DYNAMIC)
    return sizes, sizes


RULES: Final[Rules] = {
    "FFT2D": OperatorRules(
        _infer_complex,
        (rank("input_real", 3), rank("input_imag", 3)),
        (powers_of_two, same_shape),
        _DIMENSIONS,
    ),
    "RFFT2D": OperatorRules(_infer_real, (rank("input_real", 3),), (powers_of_two,), _DIMENSIONS),
}
