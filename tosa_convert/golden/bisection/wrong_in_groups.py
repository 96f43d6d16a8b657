"""The smallest group of operators beside which an operator is wrong that is right alone."""

from __future__ import annotations

from collections.abc import Callable

from tosa_convert.golden.bisection.single_operators import Group, Operators


def smallest_group(
    operators: Operators, index: int, group: Group, is_wrong: Callable[[Group], bool]
) -> Group:
    """Leave out operators of a group as long as one of them is wrong beside the others.

    Args:
        operators: those of the program.
        index: the operator that is wrong.
        group: operators that are independent of one another, among them this one.
        is_wrong: whether its results are wrong in a run of a group.

    Returns:
        The group that was found: none of its other operators can be left out.
    """
    others = list(dict.fromkeys(operators.producers[name] for name in group.names))
    others.remove(index)
    size = len(others)
    while size:
        for start in reversed(range(0, len(others), size)):
            rest = others[:start] + others[start + size :]
            smaller = _group(operators, group, [index, *rest])
            if is_wrong(smaller):
                others, group = rest, smaller
        size //= 2
    return group


def _group(operators: Operators, group: Group, indices: list[int]) -> Group:
    """Return the part of a group that these operators compute."""
    chosen = Group()
    for index in sorted(indices):
        names = [name for name in group.names if operators.producers[name] == index]
        cuts, between = operators.operands(index, operators.computed)
        chosen.add(names, cuts, between)
    return chosen
