"""The number of multiply-accumulates of an operator, from the shapes of its operands and results.

One multiply-accumulate is a product of two elements and its addition to a sum. The counts follow from
the pseudo-code of each operator in the TOSA specification, with the usual convention that a kernel is
multiplied at every position, also where it covers padding (PyTorch's and TFLite's counters do the same).
Adding a bias, subtracting zero points and applying the scales of blocks are not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tosa_convert.graph.model import DYNAMIC
from tosa_convert.rules.amounts import Amount, product
from tosa_convert.rules.families.core import known, merged

if TYPE_CHECKING:
    from tosa_convert.graph.model import Block, Operator

#: Sizes of the tensor of a name, as many as the rank; DYNAMIC where unknown.
_Sizes = Callable[[str, int], tuple[int, ...]]


def _convolution(rank: int, suffix: str = "") -> Callable[[_Sizes], Amount]:
    """Return a counter in which each element of the result sums over kernel and input channels."""

    def count(sizes: _Sizes) -> Amount:
        x, weight, y = (
            sizes(f"input{suffix}", rank),
            sizes(f"weight{suffix}", rank),
            sizes("", rank),
        )
        return product(
            (
                merged(y[0], x[0]),
                *y[1:-1],
                merged(y[-1], weight[0]),
                *weight[1:-1],
                merged(weight[-1], x[-1]),
            )
        )

    return count


def _depthwise(sizes: _Sizes) -> Amount:
    """Count with a sum over the kernel for each element of the result; the weight is [KH, KW, C, M]."""
    x, weight, y = sizes("input", 4), sizes("weight", 4), sizes("", 4)
    channels, multiplier = merged(weight[2], x[-1]), weight[3]
    results = channels * multiplier if known(channels) and known(multiplier) else DYNAMIC
    return product((merged(y[0], x[0]), *y[1:3], merged(y[3], results), *weight[:2]))


def _transposed(sizes: _Sizes) -> Amount:
    """Count each element of the input times the whole kernel, for each output channel."""
    x, weight, y = sizes("input", 4), sizes("weight", 4), sizes("", 4)
    return product(
        (
            merged(x[0], y[0]),
            *x[1:3],
            merged(weight[0], y[3]),
            *weight[1:3],
            merged(weight[3], x[3]),
        )
    )


def _product(suffix: str = "", *, is_transposed: bool = True) -> Callable[[_Sizes], Amount]:
    """Return a counter in which each element of the result is a sum over the shared dimension."""
    shared, columns = (2, 1) if is_transposed else (1, 2)

    def count(sizes: _Sizes) -> Amount:
        a, b, y = sizes(f"a{suffix}", 3), sizes(f"b{suffix}", 3), sizes("", 3)
        return product(
            (
                merged(y[0], a[0]),
                merged(y[1], a[1]),
                merged(y[2], b[columns]),
                merged(a[2], b[shared]),
            )
        )

    return count


#: Operator -> how its multiply-accumulates are counted.
COUNTED: Final[dict[str, Callable[[_Sizes], Amount]]] = {
    "CONV2D": _convolution(4),
    "CONV3D": _convolution(5),
    "DEPTHWISE_CONV2D": _depthwise,
    "TRANSPOSE_CONV2D": _transposed,
    "CONV2D_BLOCK_SCALED": _convolution(4, "_data"),
    "MATMUL": _product(is_transposed=False),
    "MATMUL_T": _product(),
    "MATMUL_T_BLOCK_SCALED": _product("_data"),
}
#: Operators that multiply and add and are not counted, and why. All others compute no sums of products:
#: pooling and reductions add, elementwise operators and RESIZE do a few operations for each element.
NOT_COUNTED: Final = {
    "FFT2D": "the number depends on the algorithm",
    "RFFT2D": "the number depends on the algorithm",
    "CUSTOM": "what it computes is not known",
}


def multiply_accumulates(operator: Operator, block: Block) -> Amount | None:
    """Return the multiply-accumulates of an operator, or None if it is not one of `COUNTED`.

    Args:
        operator: an operator of any graph; it need not be one that TOSA allows.
        block: its block, which has the shapes. If sizes are unknown, the number is a lower bound.

    Example:
        >>> import tosa_convert as tc
        >>> block = tc.load("digits_cnn.tosa").main
        >>> for operator in block.operators:
        ...     if operator.spec.name in COUNTED:
        ...         print(operator.spec, multiply_accumulates(operator, block))
        CONV2D 36,864
        CONV2D 147,456
        CONV2D 221,184
        MATMUL 3,840
    """
    count = COUNTED.get(operator.spec.name)
    if count is None:
        return None
    names = dict(zip((row.name for row in operator.spec.operands), operator.inputs, strict=False))
    if operator.outputs:
        names[""] = operator.outputs[0]

    def sizes(operand: str, rank: int) -> tuple[int, ...]:
        tensor = block.tensors.get(names.get(operand, ""))
        shape = None if tensor is None else tensor.shape
        if shape is None or len(shape) != rank:
            return (DYNAMIC,) * rank
        return shape

    return count(sizes)
