"""Loads a file of an exported torch program without running code that is in it.

torch.export.load unpickles what a file asks for, evaluates its expressions of sizes and its conditions
as Python, and loads compiled code. This was found by experiment with torch 2.13.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import sympy
import torch
from torch._export.serde.schema import SCHEMA_VERSION
from torch.export.pt2_archive._package import load_pt2
from torch.utils._sympy import functions

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.frontends.torch.mapped_weights import map_weights
from tosa_convert.frontends.torch.stand_ins import (
    give_samples,
    register,
    unknown_classes,
    without_samples,
)

#: The environment variable with which torch unpickles tensors and plain values only.
_WEIGHTS_ONLY: Final = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
#: What torch raises after it has logged the cause.
_HIDDEN: Final = "We ran into an error when deserializing the saved file"
#: What torch says if it finds something else.
_NOT_PLAIN: Final = "Weights only load failed"
_TRUST: Final = (
    "if you trust the file: write a Python file with a function that returns torch.export.load(PATH),"
    " and convert FILE.py:FUNCTION"
)
_EXPRESSION: Final = "expr_str"
#: A member with code that torch loads, and a constant of any class, which torch unpickles.
_COMPILED, _OBJECT = "data/aotinductor/", "opaque_obj"
#: Parts of expressions of sizes: symbols, numbers, what is known of a symbol, names, and operators.
#: Attributes of objects, other texts, and names with underscores at the beginning are not among them.
_PART: Final = re.compile(
    r"(?:Symbol|Dummy)\('\w+'|Float\('[\d.eE+-]+'|\w+=(?:True|False|\d+)"
    r"|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|(?P<name>[A-Za-z]\w*)|[-+*/%(),<>=!&|~\s]"
)
_SYMBOL: Final = re.compile(r"[a-z]+\d+\Z")
#: Functions of sympy that torch writes, besides its own.
_FUNCTIONS: Final = frozenset(
    [
        *("Abs", "Add", "And", "Eq", "Ge", "Gt", "Integer", "Le", "Lt", "Max", "Min", "Mod", "Mul"),
        *("Ne", "Not", "Or", "Piecewise", "Pow", "Rational", "ceiling", "exp", "floor", "log"),
        *("sqrt", "False", "True", "int_oo", "oo"),
    ]
)
#: Lines of what torch says that a message repeats.
_MOST_LINES: Final = 6
#: An archive of torch is not compressed: a member is not larger than the file.
_TOO_LARGE: Final = "a file in it is larger than the archive"


def load_archive(path: Path, shown: str, *, trusted: bool = False) -> Any:
    """Load the program of a `.pt2` file."""
    try:
        if not trusted:
            _refuse_code(path, shown)
        with contextlib.nullcontext() if trusted else _plain_values_only():
            program = _loaded(path, shown)
    except TosaConvertError:
        raise
    except Exception as error:  # torch raises what it likes for a damaged file.
        cause = _cause(error, path)
        if _NOT_PLAIN in str(cause):
            raise _code(shown, "it has pickled objects other than tensors") from None
        lines = [line for line in str(cause).splitlines() if line.strip()][:_MOST_LINES]
        text = "\n    ".join([f"torch.export.load refuses it: {type(cause).__name__}", *lines])
        raise fail("unrecognised-input", shown, text, _release(path)) from None
    # Conditions on the inputs, as Python: they would run with other shapes.
    with contextlib.suppress(AttributeError):
        program._guards_code = []
    return program


def _loaded(path: Path, shown: str) -> Any:
    """Load a file, with its weights, and stand-ins for the classes of its arguments and results."""
    arguments, results = unknown_classes(path)
    register(arguments | results)
    with tempfile.TemporaryDirectory() as folder:
        weights = map_weights(path, Path(folder), shown)
        source = weights.archive
        is_loaded_as_it_is = not arguments and not weights.is_meta
        if not is_loaded_as_it_is:
            source = without_samples(source, Path(folder))
        program = torch.export.load(source)
    weights.give_to(program)
    if not is_loaded_as_it_is:
        give_samples(program)
    return program


def _cause(error: Exception, path: Path) -> Exception:
    """Return the exception that torch logs before it raises one that does not say the cause."""
    if _HIDDEN not in str(error):
        return error
    try:
        with _plain_values_only():
            load_pt2(path)
    except Exception as cause:
        return cause
    return error


def _release(path: Path) -> str:
    """Return the hint for a file that is not loaded; it names the schema if the file has another one."""
    found: list[Any] = []

    def check(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found.extend(value for key, value in pairs if key == "schema_version")
        return dict(pairs)

    with contextlib.suppress(Exception), zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if "models/" in name:
                json.loads(archive.read(name), object_pairs_hook=check)
    versions = [(row.get("major"), row.get("minor")) for row in found if isinstance(row, dict)]
    if versions and versions != [tuple(SCHEMA_VERSION)]:
        theirs, ours = (".".join(map(str, version)) for version in (versions[0], SCHEMA_VERSION))
        return (
            f"the file has schema {theirs}, and torch {torch.__version__} reads {ours}: export the"
            " model again, or --python PROGRAM with the torch that wrote it"
        )
    return "export the model again, and save it with torch.export.save"


def _code(shown: str, what: str) -> TosaConvertError:
    message = f"loading it would run code of the file: {what}"
    return fail("frontend-failed", shown, message, _TRUST)


@contextlib.contextmanager
def _plain_values_only() -> Iterator[None]:
    before = os.environ.get(_WEIGHTS_ONLY)
    os.environ[_WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_WEIGHTS_ONLY]
        else:
            os.environ[_WEIGHTS_ONLY] = before


def _refuse_code(path: Path, shown: str) -> None:
    """Refuse an archive with code, whatever its members are called."""
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        rows = archive.infolist()
        names = [row.filename for row in rows]
        # torch reads archives by other code, which could take another member of the name.
        if len(set(names)) != len(names) or archive.comment or rows[0].header_offset:
            raise ValueError(
                "two files in the archive have one name, or it has other data around it"
            )
        for row in rows:
            if _COMPILED in row.filename:
                raise _code(shown, f"{row.filename} is compiled code")
            if row.file_size > size:
                raise ValueError(_TOO_LARGE)
            if row.filename.endswith("json") or "models/" in row.filename:
                # What is not JSON is refused by torch.
                with contextlib.suppress(ValueError, UnicodeDecodeError):
                    _check_json(archive.read(row), shown)


def _check_json(data: bytes, shown: str) -> None:
    def check(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key, value in pairs:
            if key == _EXPRESSION and not _is_expression(value):
                raise _code(shown, f"the size {str(value)[:80]!r} is not an expression of sizes")
            if key == "path_name" and str(value).startswith(_OBJECT):
                raise _code(shown, "it has a pickled object")
        return dict(pairs)

    json.loads(data, object_pairs_hook=check)


def _is_expression(text: Any) -> bool:
    """Return whether a text has only numbers, symbols, and torch's functions of sizes.

    Example:
        >>> texts = ("2*s0 + 1", "Add(Symbol('s0', integer=True), Integer(1))", "chr(95)", "s0.real")
        >>> [_is_expression(text) for text in texts]
        [True, True, False, False]
    """
    if not isinstance(text, str):
        return False
    parts = list(_PART.finditer(text))
    if "".join(part[0] for part in parts) != text:
        return False
    names = {part["name"] for part in parts} - {None}
    return all(_SYMBOL.match(name) or name in _FUNCTIONS or _is_own(name) for name in names)


def _is_own(name: str) -> bool:
    """Return whether torch has a function of sizes of this name."""
    found = getattr(functions, name, None)
    return isinstance(found, type) and issubclass(found, sympy.Basic)
