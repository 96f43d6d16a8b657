"""List torch's operators: name -> the rule that lowers it."""

from __future__ import annotations

from typing import Any, Final

from tosa_convert.frontends.torch.rules import (
    complex_numbers,
    control_flow,
    elementwise,
    indexing,
    movement,
    normalization,
    products,
    quantised,
    reductions,
    windows,
)
from tosa_convert.frontends.torch.rules.node import Rule

_MODULES: Final = (
    *(elementwise, movement, reductions, normalization, products, windows, indexing),
    *(quantised, control_flow),
)
RULES: Final[dict[str, Rule]] = {
    name: rule for module in _MODULES for name, rule in module.RULES.items()
}
#: Operators that move elements: torch is not asked to compute those of constants, which would copy.
MOVES: Final = frozenset(movement.RULES)


def name_of(target: Any) -> tuple[str, str]:
    """Return the names of an operator: without its overload, and with it."""
    packet = getattr(target, "overloadpacket", None)
    if packet is None:
        return str(target), str(target)
    name = str(target).removesuffix(".default").removeprefix("aten.")
    overload = f".{target._overloadname}"
    return name.removesuffix(overload), name


def rule_of(target: Any) -> Rule | None:
    short, full = name_of(target)
    return RULES.get(full) or RULES.get(short)


def complex_rule_of(target: Any) -> Rule | None:
    return complex_numbers.complex_rule(name_of(target)[0], rule_of(target))
