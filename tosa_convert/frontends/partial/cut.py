"""Operators that do not lower and were cut out of a program, as values and as JSON.

A converter makes the results of such an operator arguments of the program, after the model's inputs, and
what it takes results of the program. A value's place is its position among the program's results, or
-1 - n for the argument n.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tosa_convert.records import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """What an operator takes: a value, or a number, text, list or None that the model fixes.

    place: that of the value; None for what is fixed.
    items: those of a list of values.
    literal: what is fixed.
    """

    place: int | None = None
    items: tuple[Operand, ...] | None = None
    literal: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOperator:
    """An operator that was cut out.

    operator: its name in the framework's words. where: its place in the source.
    operands: what it takes, in order.
    results: the positions of its results among the program's arguments.
    attributes: what else it is given, by name. reason, hint: as of `NotLowered`.
    """

    operator: str
    where: str = ""
    operands: tuple[Operand, ...] = ()
    results: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What was cut out of a program.

    inputs: how many of the arguments are the model's inputs; they come first.
    outputs: the place of each of the model's outputs.
    operators: those that were cut out, in the order of the model.
    """

    inputs: int
    outputs: tuple[int, ...]
    operators: tuple[CutOperator, ...]
