"""The elements of constant operands: whether all are in a range."""

from __future__ import annotations

import numpy as np

from tosa_convert.graph.constant import Constant
from tosa_convert.rules.operator_view import OperatorView


def first_outside(data: Constant, least: int, most: int | None) -> tuple[int, int] | None:
    """Return the position of the first element outside of a range, and its value. None if there is none.

    most: None for a range without an end. The elements are read in blocks, and of a splat only one.

    Example:
        >>> from tosa_convert.graph import Constant, dtype
        >>> data = Constant(dtype("INT8"), 4, bytes([0, 1, 7, 255]))
        >>> first_outside(data, 0, 3), first_outside(data, -1, None)
        ((2, 7), None)
    """
    start = 0
    for block in data.blocks():
        wrong = block < least if most is None else (block < least) | (block > most)
        if wrong.any():
            index = int(wrong.argmax())
            return start + index, int(block[index])
        if data.splat:
            break  # the other elements are the same
        start += len(block)
    return None


def outside_text(view: OperatorView, name: str, least: int, most: int | None) -> str:
    """Describe the first element of a constant operand outside of a range; "" if there is none."""
    tensor = view.tensor(name)
    found = None if tensor.data is None else first_outside(tensor.data, least, most)
    return "" if found is None else f"{name} {place(tensor.shape, found[0])} is {found[1]}"


def place(shape: tuple[int, ...] | None, position: int) -> str:
    """Return the place of an element in a tensor of a known shape, for messages.

    Example:
        >>> place((2, 3), 4), place((5,), 4), place((), 0)
        ('[1, 1]', '[4]', '[]')
    """
    if shape is None or min(shape, default=0) < 0:
        return str(position)
    return str([int(index) for index in np.unravel_index(position, shape)]) if shape else "[]"
