"""The number of multiply-accumulates of an operator, from the shapes of its operands and results.

One multiply-accumulate is a product of two elements and its addition to a sum. The counts follow from
the pseudo-code of each operator in the TOSA specification, with the usual convention that a kernel is
multiplied at every position, also where it covers padding (PyTorch's and TFLite's counters do the same).
Adding a bias, subtracting zero points and applying the scales of blocks are not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tosa_convert.graph.model import DYNAMIC
from tosa_convert.rules.amounts import Amount, product
from tosa_convert.rules.families.core import merged

if TYPE_CHECKING:
    from tosa_convert.graph.model import Block, Operator


def multiply_accumulates(operator: Operator, block: Block) -> Amount | None:
    """Return the multiply-accumulates of an operator, or None if its row does not count them.

    Args:
        operator: an operator of any graph; it need not be one that TOSA allows.
        block: its block, which has the shapes. If sizes are unknown, the number is a lower bound.

    Example:
        >>> import tosa_convert as tc
        >>> block = tc.load("digits_cnn.tosa").main
        >>> for operator in block.operators:
        ...     if operator.spec.multiply_accumulates:
        ...         print(operator.spec, multiply_accumulates(operator, block))
        CONV2D 36,864
        CONV2D 147,456
        CONV2D 221,184
        MATMUL 3,840
    """
    spec = operator.spec
    if not spec.multiply_accumulates:
        return None
    names = {
        row.name: name
        for rows, values in ((spec.operands, operator.inputs), (spec.results, operator.outputs))
        for row, name in zip(rows, values, strict=False)
    }
    sizes: dict[str, int] = {}
    for operand, letters in spec.multiply_accumulates.items():
        tensor = block.tensors.get(names.get(operand, ""))
        shape = None if tensor is None else tensor.shape
        if shape is None or len(shape) != len(letters):
            shape = (DYNAMIC,) * len(letters)
        for letter, size in zip(letters, shape, strict=True):
            sizes[letter] = merged(sizes.get(letter, DYNAMIC), size)
    sizes.pop(".", None)
    for group in [letters for letters in sizes if len(letters) > 1]:
        # Of a product, either the number is known or its factors are.
        for unused in (group,) if sizes[group] == DYNAMIC else group:
            del sizes[unused]
    return product(sizes.values())
