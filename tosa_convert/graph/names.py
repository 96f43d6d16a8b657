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

    Args:
        wanted: the preferred name.
        taken: names that are in use, as `fold` makes them. The result is not added to it.
        separator: what comes between the name and the number.
        first: the first number to try.
        fold: makes equal what counts as the same name, such as `str.lower` for names of files.
        numbers: the last number tried for each name. Pass the same dictionary each time to name many
            equal things in linear time; `taken` must then only grow.

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
