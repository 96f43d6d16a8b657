"""POW by a small constant becomes products, reciprocals and roots.

TOSA leaves POW unpredictable for a base that is negative or not finite, and for a base of 0 with an
exponent that is not positive. Frameworks define these, and square with POW. What replaces POW is defined
for every base and gives what frameworks give: a square for a negative number, NaN for its root, and
infinity for the reciprocal of 0.
"""

from __future__ import annotations

from typing import Final

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.graph.model import DYNAMIC, Operator
from tosa_convert.graph.opset import operator
from tosa_convert.records import NamedTuple
from tosa_convert.rewrites.operator_pass import replace_by_value

OPERATORS: Final = (operator("POW"),)


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


def rewrite(op: Operator, edit: BlockEditor) -> str | None:
    """Return what replaces POW by a constant of `_POWERS`, or None."""
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
