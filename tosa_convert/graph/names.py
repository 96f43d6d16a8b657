"""Names that are not taken."""

from __future__ import annotations

from collections.abc import Callable, Container


def unused_name(
    wanted: str,
    taken: Container[str],
    *,
    separator: str = "_",
    first: int = 1,
    fold: Callable[[str], str] = str,
    numbers: dict[str, int] | None = None,
) -> str:
    """`wanted`, or the first of wanted_1, wanted_2, ... that is not taken.

    Example:
        >>> unused_name("x", {"x", "x_1"})
        'x_2'
    """
    candidate = wanted
    key = fold(wanted)
    number = first if numbers is None else numbers.get(key, first - 1) + 1
    while fold(candidate) in taken:
        candidate = f"{wanted}{separator}{number}"
        if numbers is not None:
            numbers[key] = number
        number += 1
    return candidate
