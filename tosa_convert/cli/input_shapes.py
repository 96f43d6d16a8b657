"""`--input-shape NAME=1x2x3`: sizes for arguments whose own are dynamic."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import click

#: The largest size that a dimension can have in a file.
_MOST: Final = 2**31 - 1
_SIZE: Final = re.compile("[0-9]{1,10}")


def input_shape_option(command: Any) -> Any:
    """The option, for a command; `parsed` reads what it was given."""
    return click.option(
        "--input-shape",
        "input_shapes",
        multiple=True,
        metavar="NAME=1x224x224x3",
        help="Sizes of an argument with dynamic dimensions; MLIR infers the rest. NAME may be its "
        "position: arg0, arg1, ... May be repeated.",
    )(command)


def parsed(given: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """`NAME=1x2x3` as a name and sizes. A name may hold anything, so the last = counts.

    Raises click.UsageError.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for text in given:
        name, _, sizes = text.rpartition("=")
        parts = sizes.split("x") if sizes else []
        if not name or not all(map(_SIZE.fullmatch, parts)):
            raise click.UsageError(
                f"--input-shape {text[:200]}: expected NAME=SIZExSIZE..., sizes 0 or more"
            )
        if any(int(part) > _MOST for part in parts):
            raise click.UsageError(f"--input-shape {text}: a size is at most {_MOST}")
        if name in shapes:
            raise click.UsageError(f"--input-shape {text}: {name} has a shape already")
        shapes[name] = tuple(int(part) for part in parts)
    return shapes
