"""Writes the Python file that makes the model of a library.

It is one like a user's: every route converts it, and `--check` runs it in the framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tosa_convert.frontends.recognize import Recognised
from tosa_convert.process.workers import import_of_this_package

_MEMBER: Final = "make"
_CODE: Final = """
from tosa_convert.frontends.named.from_{library} import make_model
from tosa_convert.frontends.named.wanted import Wanted

def {member}():
    return make_model(Wanted({library!r}, {name!r}, {shapes!r}, {random_weights!r}))
"""


def write_factory(
    model: Recognised, shapes: Mapping[str, tuple[int, ...]], folder: Path, *, random_weights: bool
) -> Recognised:
    """Write the file into a folder; return the model as one that it makes."""
    path = folder / f"{model.library}_model.py"
    code = _CODE.format(
        library=model.library,
        member=_MEMBER,
        name=model.path,
        shapes=dict(shapes),
        random_weights=random_weights,
    )
    path.write_text(import_of_this_package() + code, encoding="utf-8")
    return model._replace(path=str(path), member=_MEMBER)
