"""Elementwise operators: operands of one rank, sizes that are equal or 1. Reductions along an axis."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from typing import Final

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT8, INT32, MIDDLE_OF_UINT16, RoundingMode, dtype
from tosa_convert.graph.model import DYNAMIC
from tosa_convert.graph.opset import operator, table_of
from tosa_convert.rules.families.checks import (
    Check,
    Infer,
    OperatorRules,
    ResultShape,
    Rules,
    Violation,
    agree,
    axis_of,
    dashed,
    first_shape,
    known,
    listing,
    merged,
    of_families,
    outside,
    rank,
    rank_of_at_least,
    says,
    single,
    zero_point,
)
from tosa_convert.rules.operator_view import OperatorView, Shape, ShapeType, TensorType


def _without_axis(view: OperatorView) -> tuple[ResultShape, ...]:
    shape, axis = view.shape("input"), view.attributes["axis"]
    return (None if shape is None else shape[:axis] + shape[axis + 1 :],)


def _one_at_axis(view: OperatorView) -> tuple[ResultShape, ...]:
    shape, axis = view.shape("input"), view.attributes["axis"]
    return (None if shape is None else (*shape[:axis], 1, *shape[axis + 1 :]),)


#: The most bits that MUL of INT32 can shift a product by.
_MAX_SHIFT: Final = 63
#: The number of entries of a table for input of INT8 and for input of INT16.
_TABLE_SIZES: Final = (256, 513)


# -- operands that are broadcast -----------------------------------------------------------------


def broadcast(shapes: list[Shape]) -> Shape:
    """Return the shape that shapes of one rank broadcast to; None if no rank is known.

    Example:
        >>> broadcast([(2, 1), (1, 3)]), broadcast([(2, -1), (1, 1)])
        ((2, 3), (2, -1))
        >>> broadcast([(2, 1), None])
        (2, -1)
    """
    ranked = [shape for shape in shapes if shape is not None]
    if not ranked:
        return None
    if len(ranked) < len(shapes):
        ranked.append((DYNAMIC,) * len(ranked[0]))
    return tuple(map(_broadcast_size, zip(*ranked, strict=True)))


def _broadcast_size(sizes: tuple[int, ...]) -> int:
    others = {size for size in sizes if size != DYNAMIC} - {1}
    if others:
        return others.pop()
    return DYNAMIC if DYNAMIC in sizes else 1


def broadcast_operands(view: OperatorView) -> list[TensorType]:
    return [
        value for value in view.inputs[: view.spec.elementwise] if isinstance(value, TensorType)
    ]


def _broadcast_names(view: OperatorView) -> list[str]:
    return [row.name for row in view.spec.operands[: view.spec.elementwise]]


#: In text that says nothing of its age, these operators have the form of today.
_RANKS_HINT: Final = (
    "TOSA 1.0 does not allow that; a program that is older is read with tosa-flatbuffer upgrade, "
    'or dialect="2024-12"'
)


def operands_have_one_rank(view: OperatorView) -> Iterator[Violation]:
    """Check that the operands that are broadcast have one rank."""
    ranks = {value.rank for value in broadcast_operands(view)} - {None}
    if len(ranks) > 1:
        operands = listing(view, _broadcast_names(view))
        message = f"operands have different ranks: {operands}"
        yield Violation("rank", message, "one rank", _RANKS_HINT)


def operands_broadcast(view: OperatorView) -> Iterator[Violation]:
    """Check that sizes in each dimension are equal or 1."""
    shapes = [value.shape for value in broadcast_operands(view) if value.shape is not None]
    for dimension, sizes in enumerate(zip(*shapes, strict=True)):
        if len({size for size in sizes if known(size)} - {1}) > 1:
            found = " and ".join(str(size) for size in sizes if known(size))
            operands = listing(view, _broadcast_names(view))
            yield Violation(
                "broadcast",
                f"sizes {found} in dimension {dimension}: {operands}",
                "equal sizes, or 1",
            )


def _broadcast_shape(view: OperatorView) -> tuple[ResultShape, ...]:
    return (broadcast([value.shape for value in broadcast_operands(view)]),)


# -- attributes and constants --------------------------------------------------------------------


def clamp_range(view: OperatorView) -> Iterator[Violation]:
    """Check that min_val and max_val are numbers, and in order."""
    dtype = view.tensor("input").dtype
    low, high = (
        Constant(dtype, 1, view.attributes[name][: dtype.element_bytes], unpacked=True).values()[0]
        for name in ("min_val", "max_val")
    )
    for name, value in (("min_val", low), ("max_val", high)):
        if isnan(value):
            yield Violation(dashed(name), f"{name} is NaN", "a number")
    if high < low:
        yield Violation(
            "range", f"min_val is {low}, and max_val is {high}", "min_val of at most max_val"
        )


def mul_shift(view: OperatorView) -> Iterator[Violation]:
    """Check that shift is 0 to 63, and 0 unless the operands are of INT32."""
    shift, dtype = view.splat("shift"), view.tensor("input1").dtype
    if shift is None:
        return
    if dtype is not INT32 and shift != 0:
        yield Violation(
            "shift", f"shift is {shift}, and input1 is of {dtype}", "0, unless input1 is of INT32"
        )
    elif not 0 <= shift <= _MAX_SHIFT:
        yield Violation("shift", f"shift is {shift}", f"0 to {_MAX_SHIFT}")


def shift_amounts(view: OperatorView) -> Iterator[Violation]:
    """Check that no value is shifted by a negative amount, or by as many bits as it has or more."""
    dtype = view.tensor("input1").dtype
    expected = f"0 to {dtype.bits - 1}, since input1 is of {dtype}"
    yield from outside(view, "input2", 0, dtype.bits - 1, "shift", expected)


def divisors(view: OperatorView) -> Iterator[Violation]:
    """Check that no value is divided by 0."""
    divisor = view.tensor("input2")
    for block in () if divisor.data is None else divisor.data.blocks():
        if not block.all():
            yield Violation("divisor", "an element of input2 is 0", "divisors other than 0")
            return


def table_size(view: OperatorView) -> Iterator[Violation]:
    """Check that a table has an entry for each value of INT8, or 513 for INT16."""
    table, dtype = view.tensor("table"), view.tensor("input1").dtype
    expected = _TABLE_SIZES[dtype is not INT8]
    if table.shape is not None and not agree(table.shape[0], expected):
        yield Violation(
            "table-size",
            f"table has {table.shape[0]} entries, and input1 is of {dtype}",
            f"{expected} entries",
        )


# -- conversion between element types and between quantised scales ---------------------------------

_INT16: Final = dtype("INT16")
_INT48: Final = dtype("INT48")
_LEAST_SHIFT: Final = 2
_MOST_SHIFT: Final = 62


def zero_point_of(side: str) -> Check:
    """Require a zero point of RESCALE's input or output that its element type has."""
    name = f"{side}_zp"

    @says(f"Check that {name} is 0 unless {side} is of INT8; 32768 for unsigned INT16.")
    def check(view: OperatorView) -> Iterator[Violation]:
        value, element = view.splat(name), view.tensor(name).dtype
        if not value or element is INT8:
            return
        is_uint16 = element is _INT16 and view.attributes[f"{side}_unsigned"]
        if is_uint16 and value != MIDDLE_OF_UINT16:
            yield Violation(
                f"{side}-zp-uint16",
                f"{name} is {int(value) & 0xFFFF}, and {side} is unsigned INT16",
                "0 or 32768",
            )
        elif not is_uint16:
            yield Violation(
                f"{side}-zp-not-zero",
                f"{name} is {value}, and {side} is of {element}",
                "0, since only INT8 and unsigned INT16 have other zero points",
            )

    return check


def scale(view: OperatorView) -> Iterator[Violation]:
    """Check that scale32 fits the input and the rounding mode."""
    scale32 = view.attributes["scale32"]
    if scale32 and view.tensor("input").dtype is _INT48:
        yield Violation("scale32", "scale32 is true, and input is of INT48", "false")
    if not scale32 and view.attributes["rounding_mode"] is RoundingMode.DOUBLE_ROUND:
        yield Violation(
            "rounding-mode",
            "rounding_mode is DOUBLE_ROUND, and scale32 is false",
            "scale32 true, or another rounding mode",
        )


def unsigned(view: OperatorView) -> Iterator[Violation]:
    """Check that at most one side is unsigned, and none if the other or itself is of INT32 or INT48."""
    sides = {"input": view.tensor("input").dtype, "output": view.tensor("output_zp").dtype}
    flags = [side for side in sides if view.attributes[f"{side}_unsigned"]]
    if len(flags) == 2:
        yield Violation(
            "unsigned", "input_unsigned and output_unsigned are true", "one of them at most"
        )
    for flag in flags:
        for side, element in sides.items():
            if element in (INT32, _INT48):
                yield Violation(
                    f"{flag}-unsigned",
                    f"{flag}_unsigned is true, and {side} is of {element}",
                    f"{flag}_unsigned false",
                )


def channels(view: OperatorView) -> Iterator[Violation]:
    """Check that there is one multiplier and shift, or one for each channel of the input."""
    expected, reason = 1, "per_channel is false"
    if view.attributes["per_channel"]:
        shape = view.shape("input")
        if shape == ():
            yield Violation(
                "per-channel", "per_channel is true, and input has rank 0", "an input of rank 1"
            )
            return
        expected = DYNAMIC if shape is None else shape[-1]
        reason = f"per_channel is true, and input is {view.tensor('input')}"
    shapes = {name: shape for name in ("multiplier", "shift") if (shape := view.shape(name))}
    if expected == DYNAMIC:
        expected = merged(*(shape[0] for shape in shapes.values()))
        reason = f"multiplier is {view.tensor('multiplier')}"
    for name, shape in shapes.items():
        if not agree(shape[0], expected):
            yield Violation(
                f"{name}-size",
                f"{name} is {view.tensor(name)}, and {reason}",
                f"shape [{expected}]",
            )


def factors(view: OperatorView) -> Iterator[Violation]:
    """Check that multipliers are not negative, and shifts are 2 to 62."""
    limits = (
        ("multiplier", 0, None, "at least 0"),
        ("shift", _LEAST_SHIFT, _MOST_SHIFT, f"{_LEAST_SHIFT} to {_MOST_SHIFT}"),
    )
    for name, least, most, expected in limits:
        yield from outside(view, name, least, most, name, expected)


# -- constants: only the data of a result says what its type is, and `verify` compares the two -----


def _declared(view: OperatorView) -> tuple[ResultShape, ...]:
    """Return the sizes of a !tosa.shape as declared; a tensor has any shape that it is declared with."""
    sizes = [value.sizes if isinstance(value, ShapeType) else None for value in view.outputs]
    return tuple(sizes) or (None,)


# -- rows: the shape that the row of an operator says, and what its operands and attributes need ---

_SHAPES: Final = table_of(
    "shape",
    {
        "first": first_shape,
        "broadcast": _broadcast_shape,
        "one_at_axis": _one_at_axis,
        "without_axis": _without_axis,
        "declared": _declared,
    },
    of_families("elementwise", "activation", "reduction", "conversion", "constant"),
)
#: Domain of an operand, or attribute -> the condition of its values.
_CONDITIONS: Final = {
    "shift": shift_amounts,
    "divisor": divisors,
    "axis": axis_of("input"),
    "min_val": clamp_range,
}
#: Further conditions of single operators: of the ranks of operands, and others.
_FURTHER: Final[dict[str, tuple[tuple[Check, ...], tuple[Check, ...]]]] = {
    "MUL": ((), (single("shift"), mul_shift)),
    "NEGATE": ((), (zero_point("input1_zp"), zero_point("output_zp"))),
    "RESCALE": (
        (rank("multiplier", 1), rank("shift", 1)),
        (
            single("input_zp"),
            single("output_zp"),
            zero_point_of("input"),
            zero_point_of("output"),
            scale,
            unsigned,
            channels,
            factors,
        ),
    ),
    "TABLE": ((rank("table", 1),), (table_size,)),
}


def _rules(name: str, infer: Infer) -> OperatorRules:
    spec = operator(name)
    ranks, checks = _FURTHER.get(name, ((), ()))
    attributes = [row.name for row in spec.attributes]
    words = (*[row.domain for row in spec.operands], *attributes)
    checks = (*[_CONDITIONS[word] for word in words if word in _CONDITIONS], *checks)
    if spec.elementwise > 1:
        ranks, checks = (operands_have_one_rank, *ranks), (operands_broadcast, *checks)
    if "axis" in attributes:
        ranks = (rank_of_at_least("input", 1), *ranks)
    return OperatorRules(infer, ranks, checks)


RULES: Final[Rules] = {name: _rules(name, infer) for name, infer in _SHAPES.items()}
