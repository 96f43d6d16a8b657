"""Operators of constants become constants, if all implementations agree and files do not grow."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tosa_convert.builder.edit import BlockEditor
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph.constant import Constant, constant_of
from tosa_convert.graph.dtypes import DTYPES, FLOATS, INT64, DType
from tosa_convert.graph.model import Operator, Tensor, element_value
from tosa_convert.graph.opset import OPERATORS as ALL_OPERATORS
from tosa_convert.graph.opset import operator
from tosa_convert.reference.call import Call, Type, store
from tosa_convert.reference.evaluate import OPERATIONS as DEFINITIONS
from tosa_convert.rules.operator_view import OperatorView, ShapeType, TensorType, ValueType
from tosa_convert.rules.validate import judge_shapes

Array = npt.NDArray[Any]

#: Operators whose results are exact or correctly rounded, or rounded alike by the reference model; and
#: those whose results implementations round differently.
FOLDED: Final = tuple(row for row in ALL_OPERATORS if row.traits.folding in ("exact", "both"))
ROUNDED: Final = tuple(row for row in ALL_OPERATORS if row.traits.folding in ("rounded", "both"))

#: The largest result that is computed, in bytes. A larger one stays an operator.
MOST_BYTES: Final = 1 << 16
#: Sums and products of smaller integers fit into INT64.
_SMALL: Final = 1 << 31

_LOG: Final = operator("LOG")
_POW: Final = operator("POW")
_RESHAPE: Final = operator("RESHAPE")
_SELECT: Final = operator("SELECT")
_TRANSPOSE: Final = operator("TRANSPOSE")
#: Bytes that are transposed at a time.
_PART: Final = 1 << 23
_NUMBERS: Final = frozenset((*FLOATS, *(row for row in DTYPES if row.is_native)))


class _Operand(NamedTuple):
    """A constant operand: a tensor with its data, or the sizes of a shape."""

    type: Type
    data: Constant | None
    sizes: tuple[int, ...] = ()

    def numbers(self) -> Array:
        if self.data is None:
            return np.array(self.sizes, np.int64)
        return self.data.numpy().reshape(self.type.shape)

    def bits(self) -> Array:
        """Return the bits of elements, so that every element type moves alike."""
        if self.data is None:
            return self.numbers()
        width = self.data.dtype.element_bytes
        kind = f"u{width}" if width in (1, 2, 4, 8) else f"V{width}"
        return np.ascontiguousarray(self.data.elements()).view(kind).reshape(self.type.shape)


def fold_constant(op: Operator, edit: BlockEditor) -> str | None:
    """Put the constant that an operator computes in place of it, or return None."""
    return _folded(op, edit, _computed)


def rewrite_rounded(op: Operator, edit: BlockEditor) -> str | None:
    """Put the constant nearest to the result of a sum or a function in place of it, or return None."""
    return _folded(op, edit, _rounded)


def _folded(
    op: Operator,
    edit: BlockEditor,
    compute: Callable[[Operator, list[_Operand], Tensor], Constant | None],
) -> str | None:
    if not op.inputs or len(op.outputs) != 1:
        return None
    operands: list[_Operand] = []
    for name in op.inputs:
        producer = edit.producers.get(name)
        if producer is None or producer.inputs:
            return None
        data = edit.data_of(name)
        if data is not None:
            operands.append(_Operand(Type(data.dtype, edit.tensors[name].shape or ()), data))
            continue
        sizes = edit.sizes_of(name)
        if sizes is None:
            return None
        operands.append(_Operand(Type(None, (len(sizes),)), None, sizes))
    constants = [row.data for row in operands if row.data is not None]
    target = edit.tensors[op.outputs[0]]
    count = target.element_count()
    if count is None or target.scale is not None or not constants:
        return None
    if op.spec is _RESHAPE:
        (data,) = constants
        if data.count != count or data.dtype is not target.dtype:
            return None
        if data.nbytes > MOST_BYTES and edit.uses[op.inputs[0]] > 1:
            return None  # A file would have it twice.
        edit.replace_by_constant(op, data)
        return "RESHAPE of constants became a constant"
    # The result, or what it is computed from, is larger than folding may handle.
    size = target.dtype.wire_bytes(count)
    if max(size, *(data.nbytes for data in constants)) > MOST_BYTES:
        if op.spec is not _TRANSPOSE or edit.uses[op.inputs[0]] > 1:
            return None
        moved = _transposed(operands[0], op.attributes["perms"])
        if moved is None:
            return None
        edit.replace_by_constant(op, moved)
        return "TRANSPOSE of a large constant became a constant"
    made = compute(op, operands, target)
    if made is None:
        return None
    edit.replace_by_constant(op, made)
    return f"{op.spec} of constants became a constant"


def _transposed(operand: _Operand, perms: Any) -> Constant | None:
    """Transpose a constant into a temporary file, which is mapped; None if that cannot be written."""
    data = operand.data
    if data is None or data.splat or data.dtype.is_packed:
        return data if data is not None and data.splat else None
    moved = operand.bits().transpose(perms)
    rows = max(1, _PART * len(moved) // moved.nbytes) if moved.ndim else 1
    try:
        with tempfile.TemporaryFile() as file:
            for start in range(0, len(moved), rows):
                file.write(np.ascontiguousarray(moved[start : start + rows]).view(np.uint8).data)
            file.flush()
            mapped = mmap.mmap(file.fileno(), moved.nbytes, access=mmap.ACCESS_READ)
    except OSError:
        return None
    return Constant(data.dtype, data.count, mapped, owner=mapped)


def _computed(op: Operator, operands: list[_Operand], target: Tensor) -> Constant | None:
    """Compute an operator of constants; return None if TOSA does not define the result."""
    assert target.shape is not None
    if any(row.data and prod(row.type.shape) != row.data.count for row in operands):
        return None
    types = tuple([row.type for row in operands])
    result = Type(target.dtype, target.shape)
    is_moving = op.spec.accuracy == "operand" or op.spec is _SELECT
    elements = [target.dtype, *[kind for kind, _ in types if kind]]
    if not is_moving and not _NUMBERS.issuperset(elements):
        return None
    arrays = tuple(row.bits() if is_moving else row.numbers() for row in operands)
    first = types[0].dtype
    assert first is not None
    call = Call(op.spec, arrays, types, with_numbers(op, first), (result,))
    found = evaluated(call)
    if found is None or found.shape != target.shape:
        return None
    if is_moving:
        element = types[1 if op.spec is _SELECT else 0].dtype
        return _from_bits(found, target.dtype) if element is target.dtype else None
    return (
        constant_of(store(found, result, "own"), target.dtype) if _is_defined(call, found) else None
    )


def _rounded(op: Operator, operands: list[_Operand], target: Tensor) -> Constant | None:
    """Compute an operator of floating-point constants in FP64; return None if a number is not finite."""
    assert target.shape is not None
    types = tuple([row.type for row in operands])
    if not set(FLOATS).issuperset([target.dtype, *[element for element, _ in types]]):
        return None
    if any(row.data and prod(row.type.shape) != row.data.count for row in operands):
        return None
    arrays = tuple([row.numbers().astype(np.float64) for row in operands])
    if op.spec is _POW and (arrays[0] <= 0).any():
        return None
    result = Type(target.dtype, target.shape)
    found = evaluated(Call(op.spec, arrays, types, op.attributes, (result,), "wide"))
    if found is None or found.shape != target.shape:
        return None
    with np.errstate(all="ignore"):
        stored = store(found, result, "own")
    # The logarithm of 0 is -inf.
    checked = stored[arrays[0] != 0] if op.spec is _LOG else stored
    if not all(np.isfinite(array).all() for array in (*arrays, checked.astype(np.float64))):
        return None
    return constant_of(stored, target.dtype)


def evaluated(call: Call) -> Array | None:
    """Compute an operator; None of operands that TOSA forbids, or an index outside of a tensor."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(DEFINITIONS[call.spec.name](call))
    except (KeyError, ValueError, IndexError, TosaConvertError):
        return None


def _is_defined(call: Call, result: Array) -> bool:
    """Return whether all implementations agree: no overflow, no order of a sum, no 0 against -0."""
    element = call.result.dtype
    assert element is not None
    values = [array for array, row in zip(call.operands, call.types, strict=True) if row.dtype]
    if call.is_integer and not element.is_float and result.dtype.kind in "if":
        if element is INT64 and any(
            np.abs(value.astype(float)).max() >= _SMALL for value in values
        ):
            return False
        half = 1 << (element.bits - 1)
        fits = bool(((result >= -half) & (result < half)).all())
        if call.spec.traits.response == "sum":
            total = int(np.abs(values[0].astype(np.int64)).sum())
            return fits and total <= np.iinfo(np.int32).max
        return fits
    if call.is_integer:
        return True
    return _is_defined_for_floats(call, values, element)


def _is_defined_for_floats(call: Call, values: list[Array], element: DType) -> bool:
    kind = call.spec.name
    if call.spec.family == "reduction":
        return False
    if kind not in ("CAST", "CLAMP", "MAXIMUM", "MINIMUM"):
        return True
    first = values[0].astype(np.float32)
    if kind == "CAST" and not element.is_float and element.name != "BOOL":
        half = float(1 << (element.bits - 1))
        rounded = np.rint(first.astype(np.float64))
        return bool(((rounded >= -half) & (rounded < half)).all())
    others: list[Array] = []
    if kind in ("MAXIMUM", "MINIMUM"):
        others = [values[1].astype(np.float32)]
    elif kind == "CLAMP":
        if np.isnan(first).any():
            return False
        others = [np.asarray(call.attributes[name], np.float32) for name in ("min_val", "max_val")]
    return not any(
        ((first == 0) & (other == 0) & (np.signbit(first) != np.signbit(other))).any()
        for other in others
    )


def _from_bits(bits: Array, element: DType) -> Constant:
    raw = np.ascontiguousarray(bits).reshape(-1).view(np.uint8)
    return Constant(element, bits.size, raw, unpacked=True)


def with_numbers(op: Operator, element: DType) -> dict[str, object]:
    """Return the attributes with values in place of the bytes of an element, as in bounds of CLAMP."""
    values: dict[str, object] = {**op.attributes}
    for row in op.spec.attributes:
        raw = values.get(row.name)
        if row.kind == "element" and isinstance(raw, bytes):
            values[row.name] = element_value(raw, element)
    return values


# -- operators on shapes whose operands are known become CONST_SHAPE; assertions that hold go ------
# TOSA's rules for shapes say what each computes. An operator that they forbid stays, for
# `validate`.

ON_SHAPES: Final = tuple(spec for spec in ALL_OPERATORS if spec.family == "shape")


def fold_shape(op: Operator, edit: BlockEditor) -> str | None:
    """Return the constant that an operator on shapes computes, or None."""
    inputs = []
    for name in op.inputs:
        known = _known(name, edit)
        if known is None:
            return None
        inputs.append(known)
    verdict = judge_shapes(OperatorView(op, tuple(inputs), ()))
    if verdict.results is None:
        return None  # it breaks a rule
    if not op.outputs:
        edit.remove(op)
        return f"{op.spec} holds"
    (sizes,) = verdict.results
    rank = edit.shapes[op.outputs[0]].rank
    if sizes is None or len(sizes) != rank or any(size is None for size in sizes):
        return None
    data = constant_of(np.array(sizes, np.int64), INT64)
    edit.replace_by_constant(op, data)
    return f"{op.spec} became a constant"


def _known(name: str, edit: BlockEditor) -> ValueType | None:
    """Return the type of an operand with its values; None if it is a shape that is not known."""
    if name in edit.shapes:
        sizes = edit.sizes_of(name)
        return None if sizes is None else ShapeType(len(sizes), sizes)
    tensor = edit.tensors[name]
    return TensorType(tensor.dtype, tensor.shape, None, edit.data_of(name))
