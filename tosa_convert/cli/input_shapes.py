"""`--input-shape NAME=1x2x3`: sizes for arguments with dynamic dimensions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import click

#: The largest size of a dimension in a file.
_MAX_SIZE: Final = 2**31 - 1
#: A number, "?", or a symbol: "x" separates sizes, so that it is not a letter of symbols.
_SIZE: Final = "[0-9]{1,10}|[?]|[A-Za-wyz_][A-Za-wyz_0-9]{0,63}"


def parsed(given: Iterable[str]) -> dict[str, tuple[int | str, ...]]:
    """Parse the shapes that `NAME=1x2x3` texts give, by name.

    Raises:
        click.UsageError: a text has another form, or a name occurs twice.

    Example:
        >>> parsed(["x=Bx2x?", "a=b=4", "B=8"])
        {'x': ('B', 2, '?'), 'a=b': (4,), 'B': (8,)}
    """
    shapes: dict[str, tuple[int | str, ...]] = {}
    for text in given:
        # A name may contain any character, so the last = separates.
        name, _, sizes = text.rpartition("=")
        parts = sizes.split("x") if sizes else []
        if not name or not all(re.fullmatch(_SIZE, part) for part in parts):
            raise click.UsageError(
                f"--input-shape {text[:200]}: expected NAME=SIZExSIZE..., each size a number from 0, "
                "a symbol without the letter x, or ?"
            )
        sizes_given = tuple(int(part) if part.isdecimal() else part for part in parts)
        if any(isinstance(size, int) and size > _MAX_SIZE for size in sizes_given):
            raise click.UsageError(f"--input-shape {text}: a size is at most {_MAX_SIZE}")
        if name in shapes:
            raise click.UsageError(f"--input-shape {text}: {name} has a shape already")
        shapes[name] = sizes_given
    return shapes
