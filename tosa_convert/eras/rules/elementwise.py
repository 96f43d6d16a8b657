"""Elementwise operators: bounds of CLAMP, the shift of MUL, RESCALE, tables."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tosa_convert.eras.dialect_states import (
    CUSTOM_CONFIG,
    NARROW_SHIFTS,
    OPERATOR_NAMES,
    UNSIGNED_FLAGS,
)
from tosa_convert.eras.editor import (
    DowngradeEditor,
    Editor,
    Integer,
    Integers,
    OldOperation,
    Refused,
    WrittenValue,
    flag,
    integer,
    integers,
    member,
    number,
    text,
)
from tosa_convert.eras.rules.convolution import zero_point_operand
from tosa_convert.graph.constant import ELEMENT_BYTES, Constant, constant_of
from tosa_convert.graph.dtypes import INT8, INT32, DType, NanPropagationMode, RoundingMode, dtype
from tosa_convert.graph.model import Operator, Tensor, element_value

_INT16: Final = dtype("INT16")


def clamp(edit: Editor, old: OldOperation) -> None:
    """Convert one pair of bounds, for integers or for floating point, to the element's type."""
    result, image = edit.result(old), edit.operand(old, 0)
    element = image.dtype
    nan_mode = member(old, "nan_mode", NanPropagationMode, NanPropagationMode.PROPAGATE)
    if element.is_float:
        low, high = number(old, "min_fp"), number(old, "max_fp")
        bounds = [_rounded(bound, element) for bound in (low, high)]
    else:
        limit = 1 << element.bits - 1
        bounds = [
            bytes(constant_of(np.array([max(-limit, min(bound, limit - 1))]), element).elements())
            for bound in (integer(old, "min_int"), integer(old, "max_int"))
        ]
        if element not in (INT8, _INT16):
            maximum_and_minimum(edit, image.name, result.name, (bounds[0], bounds[1]))
            return
    low_bytes, high_bytes = (bytes(bound).ljust(ELEMENT_BYTES, b"\0") for bound in bounds)
    edit.emit(
        "CLAMP",
        old.inputs[:1],
        {
            "min_val": low_bytes,
            "max_val": high_bytes,
            "nan_mode": nan_mode,
        },
        results=old.outputs,
    )


def downgrade_clamp(edit: DowngradeEditor, op: Operator) -> None:
    """Convert to the older form, with both pairs of bounds: the inverse of `clamp`."""
    element = edit.tensors[op.inputs[0]].dtype
    own, largest = edit.attributes(op, "min_val", "max_val"), edit.largest_bound
    for name in ("min", "max"):
        raw = op.attributes[f"{name}_val"]
        assert isinstance(raw, bytes)
        bound = float(element_value(raw, element))
        own[f"{name}_fp"] = bound
        whole = int(max(-largest, min(bound, largest))) if bound == bound else 0
        own[f"{name}_int"] = Integer(whole, 64)
    edit.downgrade(op, own)


def relu_n(edit: Editor, old: OldOperation) -> None:
    """Convert to a clamp from zero."""
    old.attributes |= {"min_int": 0, "min_fp": 0.0}
    clamp(edit, old)


def _rounded(bound: float, element: DType) -> bytes:
    """Round a bound to the nearest value of the element's type, at most its largest."""
    with np.errstate(over="ignore"):
        rounded: Any = np.array([bound]).astype(element.numpy)
    if np.isnan(rounded.astype(np.float64)).any() and not np.isnan(bound):
        import ml_dtypes

        limits: Any = ml_dtypes.finfo(element.numpy)  # type: ignore[no-untyped-call]
        rounded = np.array([limits.max if bound > 0 else limits.min]).astype(element.numpy)
    raw: bytes = rounded.tobytes()
    return raw


def maximum_and_minimum(edit: Editor, value: str, result: str, bounds: tuple[bytes, bytes]) -> None:
    """Replace CLAMP of wider integers, which TOSA lacks. bounds: the bytes of one element each."""
    edit.note("TOSA has no CLAMP of this type: it is a MAXIMUM and a MINIMUM")
    tensor = edit.tensor(result)
    edit.settle(tensor, edit.rank(edit.tensor(value)))
    ones = (1,) * len(edit.rank(tensor))
    between = edit.new_tensor(f"{result}_maximum", tensor.dtype, tensor.shape)
    for name, bound, output in zip(("MAXIMUM", "MINIMUM"), bounds, (between, result), strict=True):
        data = Constant(tensor.dtype, 1, bound)
        operand = edit.constant_of(data, ones, name=f"{result}_{name.lower()}_bound")
        edit.emit(name, [value, operand], results=[output])
        value = output


def mul(edit: Editor, old: OldOperation) -> None:
    """Turn the shift into an operand; one of narrow integers applies to INT32."""
    result, left, right = edit.result(old), edit.operand(old, 0), edit.operand(old, 1)
    inputs, shift = list(old.inputs[:2]), integer(old, "shift", 0)
    if shift and left.dtype.is_float:
        raise Refused("a MUL of floating-point numbers has a shift, which means nothing")
    if shift and left.dtype in (INT8, _INT16):
        if result.dtype is not INT32:
            raise Refused(f"a MUL with a shift has a result of {result.dtype}, expected INT32")
        edit.note("the operands of a MUL with a shift are cast to INT32")
        for index, (side, tensor) in enumerate((("input1", left), ("input2", right))):
            wide = edit.new_tensor(f"{old.outputs[0]}_{side}", INT32, tensor.shape)
            edit.emit("CAST", [tensor.name], results=[wide])
            inputs[index] = wide
    inputs.append(edit.constant([shift], INT8, name=f"{old.outputs[0]}_shift"))
    edit.emit("MUL", inputs, results=old.outputs)


def downgrade_mul(edit: DowngradeEditor, op: Operator) -> None:
    (shift,) = edit.numbers(op.inputs[2], "shift")
    bits = 8 if edit.state >= OPERATOR_NAMES else 32
    edit.downgrade(op, {"shift": Integer(shift, bits)}, op.inputs[:2])


def rescale(edit: Editor, old: OldOperation) -> None:
    """Make multipliers, shifts and zero points operands, and the way of rounding an enum."""
    result, image = edit.result(old), edit.operand(old, 0)
    scale32 = flag(old, "scale32")
    double = flag(old, "double_round")
    if double and not scale32:
        raise Refused("double_round without scale32, which no version of TOSA allows")
    multipliers, shifts = integers(old, "multiplier"), integers(old, "shift")
    stem, unsigned = old.outputs[0], edit.unsigned
    inputs = [
        old.inputs[0],
        edit.constant(multipliers, INT32 if scale32 else _INT16, name=f"{stem}_multiplier"),
        edit.constant(shifts, INT8, name=f"{stem}_shift"),
        _rescale_zero_point(edit, old, "input_zp", image),
        _rescale_zero_point(edit, old, "output_zp", result),
    ]
    edit.emit(
        "RESCALE",
        inputs,
        {
            "scale32": scale32,
            "rounding_mode": RoundingMode.DOUBLE_ROUND if double else RoundingMode.SINGLE_ROUND,
            "per_channel": flag(old, "per_channel"),
            "input_unsigned": flag(old, "input_unsigned", False) or image.name in unsigned,
            "output_unsigned": flag(old, "output_unsigned", False) or result.name in unsigned,
        },
        results=old.outputs,
    )


def downgrade_rescale(edit: DowngradeEditor, op: Operator) -> None:
    attributes = op.attributes
    rounding = attributes["rounding_mode"]
    if rounding is RoundingMode.INEXACT_ROUND:
        raise Refused("its rounding_mode is INEXACT_ROUND, which there was not")
    own: dict[str, WrittenValue] = {
        "double_round": rounding is RoundingMode.DOUBLE_ROUND,
        "multiplier": Integers(edit.numbers(op.inputs[1], "multiplier"), 32),
        "per_channel": bool(attributes["per_channel"]),
        "scale32": bool(attributes["scale32"]),
        "shift": Integers(
            edit.numbers(op.inputs[2], "shift"), 8 if edit.state >= NARROW_SHIFTS else 32
        ),
    }
    for name, operand in (("input", op.inputs[3]), ("output", op.inputs[4])):
        (value,) = edit.numbers(operand, f"{name}_zp")
        is_unsigned = bool(attributes[f"{name}_unsigned"])
        if is_unsigned and value < 0:
            value += 1 << edit.tensors[operand].dtype.bits
        own[f"{name}_zp"] = Integer(value, 32)
        if edit.state >= UNSIGNED_FLAGS:
            own[f"{name}_unsigned"] = is_unsigned
        elif is_unsigned:
            raise Refused(f"{name}_unsigned is an attribute only since {UNSIGNED_FLAGS}")
    edit.downgrade(op, own, op.inputs[:1])


def _rescale_zero_point(edit: Editor, old: OldOperation, name: str, tensor: Tensor) -> str:
    """Return a zero point. The flags of 0.80.1 mark signless tensors as unsigned, too."""
    is_unsigned = flag(old, f"{name.partition('_')[0]}_unsigned", False)
    if is_unsigned and tensor.name not in edit.unsigned:
        value, bits = integer(old, name, 0), tensor.dtype.bits
        old.attributes[name] = value - (max(value, 0) >> bits - 1 << bits)
    return zero_point_operand(edit, old, name, tensor)


def table(edit: Editor, old: OldOperation) -> None:
    """Turn the table of a file of TOSA 0.80, an attribute of 16-bit integers, into an operand."""
    edit.result(old)
    element = edit.operand(old, 0).dtype
    values = integers(old, "table")
    operand = edit.constant(values, element, name=f"{old.outputs[0]}_table")
    edit.emit("TABLE", [old.inputs[0], operand], results=old.outputs)


def custom(edit: Editor, old: OldOperation) -> None:
    """Rename `identifier` and `config` of CUSTOM."""
    attributes = old.attributes.get("implementation_attrs", b"")
    if isinstance(attributes, str):
        attributes = attributes.encode()
    if not isinstance(attributes, bytes):
        raise Refused("its attribute implementation_attrs is not a string")
    edit.emit(
        "CUSTOM",
        old.inputs,
        {
            "operator_name": text(old, "identifier"),
            "domain_name": text(old, "config", ""),
            "implementation_attrs": attributes,
        },
        results=old.outputs,
    )


def downgrade_custom(edit: DowngradeEditor, op: Operator) -> None:
    own = edit.attributes(op)
    names = {"operator_name": "identifier", "domain_name": "config"}
    older = {names.get(name, name): value for name, value in own.items()}
    if edit.state < CUSTOM_CONFIG:
        if older.pop("config") or older.pop("implementation_attrs"):
            raise Refused(f"it has more than an operator_name only since {CUSTOM_CONFIG}")
        older.pop("implementation_attrs", None)
    edit.downgrade(op, older)
