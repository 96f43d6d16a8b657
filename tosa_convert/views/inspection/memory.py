"""The memory of activations: the most bytes of tensors that are in use at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tosa_convert.graph.opset import CONST
from tosa_convert.rules.amounts import Amount, product

if TYPE_CHECKING:
    from tosa_convert.graph.model import Block, Tensor


def tensor_bytes(tensor: Tensor) -> Amount:
    """Return the bytes of a tensor's elements as they are in a file, scales included.

    Example:
        >>> from tosa_convert.graph import Tensor, dtype
        >>> tensor_bytes(Tensor("x", dtype("INT4"), (3, 3)))
        Amount(value=5, exact=True)
    """
    if tensor.shape is None:
        return Amount(0, exact=False)
    count = product(tensor.shape)
    size = tensor.dtype.wire_bytes(count.value)
    if tensor.scale is not None:
        blocks = -(-count.value // int(tensor.scale.shape))
        size += tensor.scale.dtype.wire_bytes(blocks)
    return Amount(size, count.exact)


def peak_activations(block: Block) -> Amount:
    """Return the most bytes of activations in use at any operator of a block, in file order.

    A tensor is in use from the operator that computes it to the last one that reads it; inputs from
    the start, outputs to the end. An operator's operands and results are in use together: nothing is
    computed in place, and RESHAPE copies. Constants and variables are not counted.
    """
    end = len(block.operators)
    last: dict[str, int] = dict.fromkeys(block.inputs, -1)
    constants: set[str] = set()
    exact = True
    for index, operator in enumerate(block.operators):
        exact = exact and not operator.spec.regions
        last.update(dict.fromkeys(operator.outputs, index))
        last.update(dict.fromkeys(operator.inputs, index))
        if operator.spec is CONST:
            constants.update(operator.outputs)
    last.update(dict.fromkeys(block.outputs, end))
    sizes: dict[str, int] = {}
    for name in last:
        tensor = block.tensors.get(name)
        if tensor is not None and name not in constants and not tensor.variable:
            size = tensor_bytes(tensor)
            sizes[name] = size.value
            exact = exact and size.exact
    used = peak = sum(sizes.get(name, 0) for name in dict.fromkeys(block.inputs))
    alive = set(block.inputs)
    for index, operator in enumerate(block.operators):
        for name in operator.outputs:
            if name not in alive:
                alive.add(name)
                used += sizes.get(name, 0)
        peak = max(peak, used)
        for name in dict.fromkeys((*operator.inputs, *operator.outputs)):
            if last[name] == index and name in alive:
                alive.remove(name)
                used -= sizes.get(name, 0)
    return Amount(peak, exact)
