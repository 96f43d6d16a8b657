"""Types, shapes and scales of tensors in programs of operators, and seeded numbers for them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Shape = tuple[int, ...]


class Quantized(NamedTuple):
    """How integers represent numbers: scale * (integer - zero); several scales go along `axis`."""

    scales: tuple[float, ...]
    zero: int = 0
    axis: int = 0


#: The quantisation of activations, unless a program has another one.
ACTIVATION: Final = {
    "int8": Quantized((0.03,), -5),
    "uint8": Quantized((0.03,), 122),
    "int16": Quantized((0.0002,)),
}
#: Numbers of inputs, unless a program has another range. Integers: all for 8 and 16 bits.
_FLOATS: Final = (-4.0, 4.0)
_INTEGERS: Final = (-100, 100)


#: Element type and shape of a result, and its quantisation if it is not the usual one of the type.
Result = tuple[str, Shape] | tuple[str, Shape, Quantized | None]
#: The lowest and the highest number of an input; None for those that are usual for its type.
Range = tuple[float, float] | None
#: Element types and shapes of inputs.
Given = list[tuple[str, Shape]]


#: Integers without a scale.
PLAIN: Final = Quantized(())


def numbers(dtype: str, shape: Shape, seed: int, between: Range = None) -> Array:
    """Return seeded numbers of a type."""
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    if dtype.startswith("float"):
        return generator.uniform(*(between or _FLOATS), shape).astype(dtype)
    low, high = between or _INTEGERS
    if between is None and dtype in ("int8", "uint8", "int16", "uint16"):
        info = np.iinfo(dtype)
        low, high = info.min, info.max
    elif between is None and dtype == "uint32":
        low = 0
    return generator.integers(int(low), int(high), shape, np.int64, endpoint=True).astype(dtype)
