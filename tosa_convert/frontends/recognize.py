"""Which frontend reads a model, from the model's content. No framework is imported."""

from __future__ import annotations

import os
from typing import Final

from tosa_convert.errors import TosaConvertError, fail, near_match
from tosa_convert.frontends.table import FRONTENDS, LIBRARIES
from tosa_convert.io.files import map_file
from tosa_convert.io.formats import is_saved_model, model_kind
from tosa_convert.records import NamedTuple

#: Package that a Python file imports -> the frontend of what it makes.
_BY_IMPORT: Final = {package: row.name for row in FRONTENDS.values() for package in row.imports}


class Recognised(NamedTuple):
    """A model: its frontend's name, and its absolute path, or its name in a library.

    shown: the model as the user named it, for messages.
    member: what the Python file at the path calls it; else "".
    library: the library that makes it, as in the table of frontends; else "".
    """

    frontend: str
    path: str
    shown: str
    member: str = ""
    library: str = ""


def is_file(model: Recognised) -> bool:
    """Return whether a model is all in one file, and not made by code."""
    return not model.member and not model.library and os.path.isfile(model.path)


def recognize(source: str) -> Recognised | None:
    """Return the model that a path names, or None if it is not one.

    Example:
        >>> recognize("examples/digits_cnn.mlirbc") is None
        True
        >>> recognize("timm:resnet50").path
        'resnet50'
    """
    path, colon, member = source.rpartition(":")
    if colon and path.endswith(".py") and os.path.isfile(path):
        return Recognised(_of_python(path), os.path.abspath(path), source, member)
    library, _, called = source.partition(":")
    if called and library in LIBRARIES and not os.path.exists(source):
        return Recognised(LIBRARIES[library], called, source, library=library)
    if library != source and not os.path.exists(source):
        near = near_match(library, LIBRARIES)
        if near:
            message = f"there is no file of this name, and no model of {library or near}"
            raise fail(
                "unrecognised-input", source, message, f"did you mean {near}:{called or 'NAME'}?"
            )
    name = ""
    if os.path.isdir(source):
        name = "tensorflow" if is_saved_model(source) else ""
    elif os.path.isfile(source):
        try:
            data = map_file(source)
        except TosaConvertError:
            return None  # The caller reports it, or reads the file by another way.
        name = model_kind(data)
    return Recognised(name, os.path.abspath(source), source) if name in FRONTENDS else None


def _of_python(path: str) -> str:
    import ast

    with open(path, "rb") as file:
        try:
            tree = ast.parse(file.read(), path)
        except SyntaxError as error:
            where = path if error.lineno is None else f"{path}:{error.lineno}"
            message = f"the Python file has a syntax error: {error.msg}"
            raise fail("unrecognised-input", where, message) from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise fail("unrecognised-input", path, f"Python cannot read it: {error}") from None
    packages = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    found = {_BY_IMPORT[name] for name in packages & _BY_IMPORT.keys()}
    if len(found) != 1:
        problem = " and ".join(sorted(found)) or f"none of {', '.join(_BY_IMPORT)}"
        raise fail(
            "option-conflict",
            path,
            f"it imports {problem}, so that its framework is not known",
            "import one of them in the file, which decides",
        )
    return found.pop()
