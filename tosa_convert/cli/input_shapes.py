"""`--input-shape NAME=1x2x3`: sizes for arguments with dynamic dimensions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import click

#: The largest size of a dimension in a file.
_MAX_SIZE: Final = 2**31 - 1
_SIZE: Final = re.compile("[0-9]{1,10}")


def input_shape_option(command: Any) -> Any:
    """Add the option to a command; `parsed` reads its values."""
    return click.option(
        "--input-shape",
        "input_shapes",
        multiple=True,
        metavar="NAME=1x224x224x3",
        help="Sizes of an argument with dynamic dimensions; MLIR infers the rest. NAME may be its "
        "position: arg0, arg1, ... May be repeated.",
    )(command)


def parsed(given: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The shapes that `NAME=1x2x3` texts give, by name.

    Raises:
        click.UsageError: a text has another form, or a name occurs twice.

    Example:
        >>> parsed(["x=1x2x3", "a=b=4"])
        {'x': (1, 2, 3), 'a=b': (4,)}
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for text in given:
        # A name may contain any character, so the last = separates.
        name, _, sizes = text.rpartition("=")
        parts = sizes.split("x") if sizes else []
        if not name or not all(map(_SIZE.fullmatch, parts)):
            raise click.UsageError(
                f"--input-shape {text[:200]}: expected NAME=SIZExSIZE..., sizes 0 or more"
            )
        if any(int(part) > _MAX_SIZE for part in parts):
            raise click.UsageError(f"--input-shape {text}: a size is at most {_MAX_SIZE}")
        if name in shapes:
            raise click.UsageError(f"--input-shape {text}: {name} has a shape already")
        shapes[name] = tuple(int(part) for part in parts)
    return shapes
