"""Repairs of single operators: arithmetic, casts and clamps of types for which TOSA lacks them."""

from __future__ import annotations

from typing import Final, NamedTuple

from tosa_convert.builder.edit import BlockEditor
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import BY_NAME, FLOATS, INT8, INT32, INT64, dtype
from tosa_convert.graph.model import DYNAMIC, Operator
from tosa_convert.graph.opset import OPERATORS, operator
from tosa_convert.rewrites.operator_pass import replace_by_value

_BOOL: Final = dtype("BOOL")

BOOLEAN_ARITHMETIC: Final = tuple(row for row in OPERATORS if row.traits.on_bool != "none")


def replace_boolean_arithmetic(op: Operator, edit: BlockEditor) -> str | None:
    """Put logical operators in place of one that computes with BOOL."""
    (result,) = op.outputs
    made, _, change = op.spec.traits.on_bool.partition(":")
    if edit.tensors[op.inputs[0]].dtype is not _BOOL:
        return None
    if made == "operand":
        what = f"{op.spec} of BOOL became its operand"
        return replace_by_value(edit, op, op.inputs[0], what)
    if made in BY_NAME:
        element = dtype(made)
        cast = edit.emit("CAST", op.inputs, like=op.inputs[0], dtype=element)
        edit.emit(op.spec, [cast], op.attributes, results=op.outputs)
        return f"{op.spec} of BOOL became one of {element}"
    if edit.tensors[result].dtype is not _BOOL:
        return None
    if change == "inverted":
        differ = edit.emit(made, op.inputs, like=result)
        edit.emit("LOGICAL_NOT", [differ], results=op.outputs)
        return f"{op.spec} of BOOL became LOGICAL_NOT of {made}"
    if change == "negated":
        negated = edit.emit("LOGICAL_NOT", op.inputs[1:], like=op.inputs[1])
        edit.emit(made, [op.inputs[0], negated], results=op.outputs)
        return f"{op.spec} of BOOL became {made} with LOGICAL_NOT"
    attributes = {"axis": op.attributes["axis"]} if "axis" in op.attributes else {}
    # Without the shift of MUL.
    edit.emit(made, op.inputs[:2], attributes, results=op.outputs)
    return f"{op.spec} of BOOL became {made}"


# -- casts that TOSA lacks, by way of a type that holds every value --------------------------------
# FP32 between floats, INT8 from BOOL; a number becomes a BOOL by comparison, also NaN.

CASTS: Final = (operator("CAST"),)

_FP32 = dtype("FP32")
_HALVES: Final = frozenset(row for row in FLOATS if row.bits == 16)


def replace_cast(op: Operator, edit: BlockEditor) -> str | None:
    """Return what replaces a CAST that TOSA does not have, or None."""
    (operand,), (result,) = op.inputs, op.outputs
    source, target = edit.tensors[operand], edit.tensors[result]
    if source.scale is not None or target.scale is not None:
        return None
    what = f"CAST from {source.dtype} to {target.dtype}"
    if source.dtype is target.dtype:
        return replace_by_value(edit, op, operand, f"{what} became its operand")
    if source.dtype in _HALVES and target.dtype is _BOOL:
        if source.shape is None:
            return None
        zero = edit.number(0, like=operand, name=f"{result}_zero")
        equal = edit.emit("EQUAL", [operand, zero], like=operand, dtype=_BOOL)
        edit.emit("LOGICAL_NOT", [equal], results=op.outputs)
        return f"{what} became a comparison with 0"
    if source.dtype in _HALVES and target.dtype in _HALVES:
        between = _FP32
    elif source.dtype is _BOOL and target.dtype in _HALVES:
        between = INT8
    else:
        return None
    first = edit.emit("CAST", [operand], like=operand, dtype=between)
    edit.emit("CAST", [first], results=op.outputs)
    return f"{what} became two, by way of {between}"


# -- CLAMP of INT32, INT64 and BOOL becomes MAXIMUM and MINIMUM, or LOGICAL_OR and LOGICAL_AND -----

INTEGER_CLAMPS: Final = (operator("CLAMP"),)


def replace_integer_clamp(op: Operator, edit: BlockEditor) -> str | None:
    """Put MAXIMUM and MINIMUM in place of a CLAMP of a type that it does not have, or return None."""
    (operand,), (result,) = op.inputs, op.outputs
    element, shape = edit.tensors[operand].dtype, edit.tensors[result].shape
    if element not in (INT32, INT64, _BOOL) or shape is None:
        return None
    bounds = []
    for name in ("min_val", "max_val"):
        raw = op.attributes[name]
        assert isinstance(raw, bytes)
        data = Constant(element, 1, raw[: element.element_bytes])
        bounds.append(edit.constant_of(data, (1,) * len(shape), name=f"{result}_{name}"))
    if element is _BOOL:
        low = edit.emit("LOGICAL_OR", [operand, bounds[0]], like=operand)
        edit.emit("LOGICAL_AND", [low, bounds[1]], results=op.outputs)
        return "CLAMP of BOOL became LOGICAL_OR and LOGICAL_AND"
    nan_mode = {"nan_mode": op.attributes["nan_mode"]}
    low = edit.emit("MAXIMUM", [operand, bounds[0]], nan_mode, like=operand)
    edit.emit("MINIMUM", [low, bounds[1]], nan_mode, results=op.outputs)
    return f"CLAMP of {element} became MAXIMUM and MINIMUM"


# -- arithmetic on INT8 and INT16 that TOSA has only for INT32: CAST, the operator, CAST back ------
# Operands are extended with their sign. CAST back keeps the low bits, so that a sum, product or
# absolute value that does not fit wraps around, as in C, numpy and torch: 127 + 1 is -128 in
# INT8.

_NARROW: Final = frozenset({INT8, dtype("INT16")})
_MUL: Final = operator("MUL")

NARROW_INTEGERS: Final = tuple(
    map(
        operator,
        (
            *("ABS", "ADD", "INTDIV", "MAXIMUM", "MINIMUM", "MUL", "REDUCE_SUM", "SUB"),
            *("EQUAL", "GREATER", "GREATER_EQUAL"),
        ),
    )
)


def widen_integers(op: Operator, edit: BlockEditor) -> str | None:
    """Put an operator of INT32 in place of one of INT8 or INT16, or return None."""
    (result,) = op.outputs
    element = edit.tensors[op.inputs[0]].dtype
    made = edit.tensors[result].dtype
    if element not in _NARROW or (op.spec is _MUL and made is INT32):
        return None
    # The second operand of REDUCE_SUM and the third of MUL are not numbers.
    numbers = op.inputs[:2]
    if any(edit.tensors[name].dtype is not element for name in numbers):
        return None
    wide = {
        name: edit.emit("CAST", [name], like=name, dtype=INT32) for name in dict.fromkeys(numbers)
    }
    operands = [*(wide[name] for name in numbers), *op.inputs[2:]]
    if made is element:
        name = edit.new_tensor(f"{result}_int32", INT32, edit.tensors[result].shape)
        edit.emit(op.spec, operands, op.attributes, results=[name])
        edit.emit("CAST", [name], results=op.outputs)
    else:
        edit.emit(op.spec, operands, op.attributes, results=op.outputs)
    return f"{op.spec} of {element} became one of INT32"


# -- POW by a small constant becomes products, reciprocals and roots -------------------------------
# TOSA leaves POW unpredictable for a base that is negative or not finite, and for a base of 0
# with an exponent that is not positive. Frameworks define these, and square with POW. What
# replaces POW is defined for every base and gives what frameworks give: a square for a negative
# number, NaN for its root, and infinity for the reciprocal of 0.

POW_BY_CONSTANT: Final = (operator("POW"),)


class _Power(NamedTuple):
    """How a power is computed.

    text: for the report.
    steps: operators and the values that each takes: 0 is the base, 1 the result of the first operator.
    """

    text: str
    steps: tuple[tuple[str, tuple[int, ...]], ...]


_SQUARE: Final = ("MUL", (0, 0))
_POWERS: Final[dict[float, _Power]] = {
    1: _Power("x", ()),
    2: _Power("x * x", (_SQUARE,)),
    3: _Power("x * x * x", (_SQUARE, ("MUL", (1, 0)))),
    4: _Power("the square of x * x", (_SQUARE, ("MUL", (1, 1)))),
    0.5: _Power("RECIPROCAL(RSQRT(x))", (("RSQRT", (0,)), ("RECIPROCAL", (1,)))),
    -0.5: _Power("RSQRT(x)", (("RSQRT", (0,)),)),
    -1: _Power("RECIPROCAL(x)", (("RECIPROCAL", (0,)),)),
    -2: _Power("the square of RECIPROCAL(x)", (("RECIPROCAL", (0,)), ("MUL", (1, 1)))),
}


def replace_pow(op: Operator, edit: BlockEditor) -> str | None:
    """Put products, reciprocals and roots in place of POW by a constant of `_POWERS`, or return None."""
    base, exponent = op.inputs
    (result,) = op.outputs
    number = edit.number_of(exponent)
    power = None if number is None else _POWERS.get(number)
    if power is None:
        return None
    times = _multiples(edit.tensors[base].shape, edit.tensors[result].shape)
    if times is None:
        return None
    # The base of a broadcast is narrower than the result.
    is_narrow = any(count != 1 for count in times)
    what = f"POW by {number:g} became {power.text}"
    values = [base]
    for position, (kind, operands) in enumerate(power.steps, 1):
        inputs = [values[number] for number in operands]
        if position == len(power.steps) and not is_narrow:
            edit.emit(kind, inputs, results=op.outputs)
        else:
            values.append(edit.emit(kind, inputs, like=base))
    if is_narrow:
        multiples = edit.const_shape(times, name=f"{result}_multiples")
        edit.emit("TILE", [values[-1], multiples], results=op.outputs)
    elif not power.steps:
        return replace_by_value(edit, op, base, what)
    return what


def _multiples(
    shape: tuple[int, ...] | None, wide: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """Return how often a base repeats in the result of a broadcast; None if that is not known."""
    if shape == wide:
        return ()
    if shape is None or wide is None or DYNAMIC in (*shape, *wide) or 0 in shape:
        return None
    return tuple(new // old for new, old in zip(wide, shape, strict=True))
