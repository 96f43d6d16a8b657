"""Operators whose operands are constants become constants.

A RESHAPE shares the data of its operand, whatever its size. Other results are computed by numpy, if they
have the bits that the reference model gives. They are limited in size: a file should not grow, and large
weights are not copied.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.graph.from_numpy import constant_of
from tosa_convert.graph.model import Operator, Tensor, element_value
from tosa_convert.graph.opset import operator
from tosa_convert.rewrites.numpy_arithmetic import ARITHMETIC, compute
from tosa_convert.rewrites.numpy_movement import MOVEMENTS

OPERATORS: Final = tuple(map(operator, ("RESHAPE", *MOVEMENTS, *ARITHMETIC)))

#: The largest result that is computed, in bytes. A larger one stays an operator.
MOST_BYTES: Final = 1 << 16
#: A result of this many bytes may be larger than the operands together; any other may not.
_FREE_BYTES: Final = 1 << 10

_RESHAPE: Final = operator("RESHAPE")
_NUMBERS: Final = frozenset(
    map(dtype, ("BOOL", "INT8", "INT16", "INT32", "INT64", "FP32", "FP16", "BF16"))
)


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Return the constant that an operator computes, or None."""
    if not op.inputs or len(op.outputs) != 1:
        return None
    constants: list[tuple[Tensor, Constant]] = []
    sizes: list[tuple[int, ...]] = []
    for name in op.inputs:
        data = edit.data_of(name)
        if data is not None:
            constants.append((edit.tensors[name], data))
            continue
        known = edit.sizes_of(name)
        if known is None:
            return None
        sizes.append(known)
    target = edit.tensors[op.outputs[0]]
    count = target.element_count()
    if count is None or target.scale is not None or not constants:
        return None
    if op.spec is _RESHAPE:
        (_, data) = constants[0]
        if data.count != count or data.dtype is not target.dtype:
            return None
        edit.replace_by_constant(op, data)
        return "RESHAPE of constants became a constant"
    if _is_too_large(target, [data for _, data in constants]):
        return None
    made = _computed(op, constants, sizes, target)
    if made is None:
        return None
    edit.replace_by_constant(op, made)
    return f"{op.spec} of constants became a constant"


def _is_too_large(target: Tensor, operands: list[Constant]) -> bool:
    """Return whether a result, or what it is computed from, is larger than folding may handle."""
    count = target.element_count() or 0
    made, given = target.dtype.wire_bytes(count), [data.nbytes for data in operands]
    if max(made, *given) > MOST_BYTES:
        return True
    return made > _FREE_BYTES and made > sum(given)


def _computed(
    op: Operator,
    constants: list[tuple[Tensor, Constant]],
    sizes: list[tuple[int, ...]],
    target: Tensor,
) -> Constant | None:
    """Compute an operator of constants; return None if numpy cannot tell the result."""
    assert target.shape is not None
    kind = op.spec.name
    if any(tensor.element_count() != data.count for tensor, data in constants):
        return None
    try:
        if kind in MOVEMENTS:
            element = constants[-1 if kind == "SELECT" else 0][1].dtype
            moved = MOVEMENTS[kind](
                [_bits(tensor, data) for tensor, data in constants], sizes, op.attributes
            )
            if moved is None or moved.shape != target.shape or element is not target.dtype:
                return None
            return _from_bits(moved, element)
        if any(data.dtype not in _NUMBERS for _, data in constants) or target.dtype not in _NUMBERS:
            return None
        arrays = [data.numpy().reshape(tensor.shape or ()) for tensor, data in constants]
        result = compute(kind, arrays, _with_numbers(op, constants[0][1].dtype), target.dtype)
    except (ValueError, IndexError):
        # Operands that TOSA forbids together: the program has a finding.
        return None
    if result is None or result.shape != target.shape:
        return None
    return constant_of(result, target.dtype)


def _bits(tensor: Tensor, data: Constant) -> npt.NDArray[Any]:
    """Return the bits of elements, in the shape of their tensor."""
    width = data.dtype.element_bytes
    raw = np.ascontiguousarray(data.elements())
    kind = f"u{width}" if width in (1, 2, 4, 8) else f"V{width}"
    return raw.view(kind).reshape(tensor.shape or ())


def _from_bits(bits: npt.NDArray[Any], element: DType) -> Constant:
    raw = np.ascontiguousarray(bits).reshape(-1).view(np.uint8)
    return Constant(element, bits.size, raw, unpacked=True)


def _with_numbers(op: Operator, element: DType) -> dict[str, object]:
    """Return the attributes with values in place of the bytes of an element, as in bounds of CLAMP."""
    values: dict[str, object] = {**op.attributes}
    for row in op.spec.attributes:
        raw = values.get(row.name)
        if row.kind == "element" and isinstance(raw, bytes):
            values[row.name] = element_value(raw, element)
    return values
