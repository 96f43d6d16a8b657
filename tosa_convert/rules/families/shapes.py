"""Operators on values of type !tosa.shape, judged where the values are known, by experiment."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Final

from tosa_convert.graph.opset import table_of
from tosa_convert.rules.families.checks import (
    Check,
    OperatorRules,
    ResultShape,
    Rules,
    Violation,
    agree,
    axis_of,
    known,
    listing,
    of_families,
    rank_of_at_least,
    says,
)
from tosa_convert.rules.operator_view import OperatorView, ShapeType, Size, shape_text

#: The values of a !tosa.shape are integers of 64 bits.
_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1
#: The largest exponent of EXP2_SHAPE at any level.
_MOST_EXPONENT: Final = 62

#: What an operator computes of known values; None if it is not defined.
_Compute = Callable[[int, int], Size]


# -- two shapes --------------------------------------------------------------------------------------


def _of_whole(compute: _Compute) -> _Compute:
    """Return a division, which negative values do not have."""
    return lambda dividend, divisor: compute(dividend, divisor) if dividend >= 0 < divisor else None


#: What operators of two shapes compute of each pair of values.
ARITHMETIC: Final[dict[str, _Compute]] = {
    "ADD_SHAPE": operator.add,
    "SUB_SHAPE": operator.sub,
    "MUL_SHAPE": operator.mul,
    "MAX_SHAPE": max,
    "MIN_SHAPE": min,
    "MOD_SHAPE": _of_whole(operator.mod),
    "DIV_CEIL_SHAPE": _of_whole(lambda dividend, divisor: -(-dividend // divisor)),
    "DIV_FLOOR_SHAPE": _of_whole(operator.floordiv),
}


def _pairs(view: OperatorView) -> Iterator[tuple[Size, Size]]:
    return zip(view.sizes("input1"), view.sizes("input2"), strict=True)


def _shapes_have_one_rank(view: OperatorView) -> Iterator[Violation]:
    """Check that both operands have one rank."""
    one, other = len(view.sizes("input1")), len(view.sizes("input2"))
    if one != other:
        yield Violation(
            "rank", f"operands have ranks {one} and {other}: {listing(view)}", "one rank"
        )


def _computed(view: OperatorView) -> Iterator[Size]:
    """Compute the values of the result, whatever their range."""
    compute = ARITHMETIC[view.spec.name]
    for one, other in _pairs(view):
        yield None if one is None or other is None else compute(one, other)


def _values_in_range(view: OperatorView) -> Iterator[Violation]:
    """Check that the values of the result fit into 64 bits."""
    for index, value in enumerate(_computed(view)):
        if value is not None and not _LEAST <= value <= _MOST:
            yield Violation(
                "range",
                f"value {index} of the result is {value}: {listing(view)}",
                f"{_LEAST} to {_MOST}",
            )


def _divisors_are_not_zero(view: OperatorView) -> Iterator[Violation]:
    """Check that no value of input2 is 0."""
    if 0 in view.sizes("input2"):
        yield Violation("divisor", f"a divisor is 0: {listing(view)}", "divisors other than 0")


def _infer_computed(view: OperatorView) -> tuple[ResultShape, ...]:
    return (tuple(_computed(view)),)


def _arithmetic(*checks: Check) -> OperatorRules:
    return OperatorRules(_infer_computed, (_shapes_have_one_rank,), checks)


def _shapes_are_equal(view: OperatorView) -> Iterator[Violation]:
    """Check that the shapes are equal; with allow_broadcast a value may be 1."""
    broadcast = bool(view.attributes["allow_broadcast"])
    wrong = [
        index
        for index, (one, other) in enumerate(_pairs(view))
        if not (agree(one, other) or (broadcast and 1 in (one, other)))
    ]
    if wrong:
        where = ", ".join(map(str, wrong[:8])) + (", ..." if len(wrong) > 8 else "")
        yield Violation(
            "equal",
            f"the shapes differ at {where}: {listing(view)}",
            "equal values, or 1" if broadcast else "equal values; allow_broadcast is false",
        )


# -- one shape ---------------------------------------------------------------------------------------


_UNARY: Final[dict[str, Callable[[int], int]]] = {
    "EXP2_SHAPE": lambda value: 1 << value,
    "LOG2_CEIL_SHAPE": lambda value: (value - 1).bit_length(),
    "LOG2_FLOOR_SHAPE": lambda value: value.bit_length() - 1,
}


def _values_between(rule: str, fewest: int, most: int) -> Check:
    end = "or more" if most == _MOST else f"to {most}"

    @says(f"Check that the values of input are {fewest} {end}.")
    def check(view: OperatorView) -> Iterator[Violation]:
        for index, value in enumerate(view.sizes("input")):
            if value is not None and not fewest <= value <= most:
                yield Violation(
                    rule,
                    f"value {index} of input is {value}: {listing(view)}",
                    f"{fewest} or more" if most == _MOST else f"{fewest} to {most}",
                )

    return check


def _infer_unary(view: OperatorView) -> tuple[ResultShape, ...]:
    compute = _UNARY[view.spec.name]
    return (tuple(None if size is None else compute(size) for size in view.sizes("input")),)


_LOGARITHM: Final = OperatorRules(_infer_unary, (), (_values_between("value", 1, _MOST),))


# -- parts of shapes ---------------------------------------------------------------------------------


def _has_inputs(view: OperatorView) -> Iterator[Violation]:
    """Check that there is at least one operand."""
    if not view.inputs:
        yield Violation("input-list", "it has no operands", "at least one shape")


def _parts_have_values(view: OperatorView) -> Iterator[Violation]:
    """Check that no operand is a shape of rank 0."""
    for index, part in enumerate(view.all("input")):
        if isinstance(part, ShapeType) and not part.sizes:
            yield Violation("input-rank", f"operand {index} is {part}, of rank 0", "rank 1 or more")


def _infer_concatenated(view: OperatorView) -> tuple[ResultShape, ...]:
    parts = view.all("input")
    return (tuple(size for part in parts if isinstance(part, ShapeType) for size in part.sizes),)


def _sliced_shape_has_values(view: OperatorView) -> Iterator[Violation]:
    """Check that input is not of rank 0."""
    if not view.sizes("input"):
        yield Violation("input-rank", "input is shape [], of rank 0", "rank 1 or more")


def _is_one_element(name: str) -> Check:
    @says(f"Check that {name} has the shape [1].")
    def check(view: OperatorView) -> Iterator[Violation]:
        found = view.tensor(name)
        if found.shape is not None and (len(found.shape) != 1 or not agree(found.shape[0], 1)):
            yield Violation(f"{name}-shape", f"{name} is {found}", "[1]")

    return check


def _position(view: OperatorView, name: str) -> int | None:
    """Return the value of start or size; None if it is not known."""
    value = view.splat(name)
    return None if value is None else int(value)


def _position_from(name: str, least: int) -> Check:
    @says(f"Check that {name} is at least {least}.")
    def check(view: OperatorView) -> Iterator[Violation]:
        value = _position(view, name)
        if value is not None and value < least:
            yield Violation(name, f"{name} is {value}", f"{least} or more")

    return check


def _slice_is_inside(view: OperatorView) -> Iterator[Violation]:
    """Check that the slice ends within the input."""
    start, size = _position(view, "start") or 0, _position(view, "size") or 1
    length = len(view.sizes("input"))
    if max(start, 0) + max(size, 1) > length:
        yield Violation(
            "bounds",
            f"{size} values from {start} on, of input {shape_text(view.sizes('input'))}",
            f"start + size of at most {length}",
        )


def _infer_sliced(view: OperatorView) -> tuple[ResultShape, ...]:
    start, size = _position(view, "start"), _position(view, "size")
    if size is None:
        return (None,)
    return ((None,) * size if start is None else view.sizes("input")[start : start + size],)


# -- shapes of tensors -------------------------------------------------------------------------------


def _infer_dimension(view: OperatorView) -> tuple[ResultShape, ...]:
    shape = view.shape("input1")
    size = None if shape is None else shape[view.attributes["axis"]]
    return ((size if known(size) else None,),)


def _infer_nothing(view: OperatorView) -> tuple[ResultShape, ...]:
    return ()


_OWN: Final[Rules] = {
    "DIM": OperatorRules(_infer_dimension, (rank_of_at_least("input1", 1),), (axis_of("input1"),)),
    "CONCAT_SHAPE": OperatorRules(_infer_concatenated, (_has_inputs, _parts_have_values)),
    "SLICE_SHAPE": OperatorRules(
        _infer_sliced,
        (_sliced_shape_has_values, _is_one_element("start"), _is_one_element("size")),
        (_position_from("start", 0), _position_from("size", 1), _slice_is_inside),
    ),
    **dict.fromkeys(ARITHMETIC, _arithmetic()),
    **dict.fromkeys(("ADD_SHAPE", "SUB_SHAPE", "MUL_SHAPE"), _arithmetic(_values_in_range)),
    **dict.fromkeys(
        ("MOD_SHAPE", "DIV_CEIL_SHAPE", "DIV_FLOOR_SHAPE"), _arithmetic(_divisors_are_not_zero)
    ),
    "EXP2_SHAPE": OperatorRules(
        _infer_unary, (), (_values_between("exponent", 0, _MOST_EXPONENT),)
    ),
    "LOG2_CEIL_SHAPE": _LOGARITHM,
    "LOG2_FLOOR_SHAPE": _LOGARITHM,
    "ASSERT_EQUAL_SHAPE": OperatorRules(
        _infer_nothing, (_shapes_have_one_rank,), (_shapes_are_equal,)
    ),
}
RULES: Final[Rules] = table_of("shape", _OWN, of_families("shape"))
