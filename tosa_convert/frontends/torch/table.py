"""The operators of torch that lower, by name."""

from __future__ import annotations

from typing import Any, Final

from tosa_convert.frontends.torch.rules import (
    complex_numbers,
    control_flow,
    elementwise,
    indexing,
    matrices,
    normalization,
    products,
    quantised,
    reductions,
    scatters,
    shapes,
    windows,
)
from tosa_convert.frontends.torch.rules.node import Rule

#: Name of an operator, with its overload or without -> its rule.
RULES: Final[dict[str, Rule]] = {
    **elementwise.RULES,
    **shapes.RULES,
    **reductions.RULES,
    **normalization.RULES,
    **products.RULES,
    **windows.RULES,
    **indexing.RULES,
    **scatters.RULES,
    **matrices.RULES,
    **quantised.RULES,
    **control_flow.RULES,
}
#: Operators that move elements: torch is not asked to compute those of constants, which would copy.
MOVES: Final = frozenset(shapes.RULES)


def name_of(target: Any) -> tuple[str, str]:
    """Return the names of an operator: without its overload, and with it."""
    packet = getattr(target, "overloadpacket", None)
    if packet is None:
        return str(target), str(target)
    name = str(target).removesuffix(".default").removeprefix("aten.")
    overload = f".{target._overloadname}"
    return name.removesuffix(overload), name


def rule_of(target: Any) -> Rule | None:
    """Return the rule of an operator; None if it has none."""
    short, full = name_of(target)
    return RULES.get(full) or RULES.get(short)


def complex_rule_of(target: Any) -> Rule | None:
    """Return the rule of an operator for complex numbers; None if it has none."""
    return complex_numbers.complex_rule(name_of(target)[0], rule_of(target))
