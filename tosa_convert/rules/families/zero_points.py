"""Zero points: constants of one element, which must be 0 for most element types."""

from __future__ import annotations

from collections.abc import Iterator

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT8
from tosa_convert.rules.families.core import Check, Violation, dashed, single
from tosa_convert.rules.operator_view import OperatorView


def zero_point(name: str) -> Check:
    """Require the operand to have one element, which is 0 unless its dtype is INT8."""
    is_single = single(name)

    def check(view: OperatorView) -> Iterator[Violation]:
        wrong_shape = [*is_single(view)]
        yield from wrong_shape
        tensor = view.tensor(name)
        if wrong_shape or tensor.data is None or tensor.dtype is INT8 or is_zero(tensor.data):
            return
        yield Violation(
            f"{dashed(name)}-not-zero",
            f"{name} is {tensor.data.numpy()[0]} of {tensor.dtype}",
            "0, as for all dtypes but INT8",
        )

    return check


def is_zero(data: Constant) -> bool:
    """Return whether the first element is 0 or -0.

    Example:
        >>> from tosa_convert.graph.dtypes import dtype
        >>> is_zero(Constant(dtype("BF16"), 1, bytes([0, 0x80])))
        True
    """
    # By bits, since numpy does not have most floating-point types.
    element = data.uniform()
    if element is None:
        return False
    bits = int.from_bytes(element, "little")
    return bits == 0 or (data.dtype.is_float and bits == 1 << (data.dtype.bits - 1))
