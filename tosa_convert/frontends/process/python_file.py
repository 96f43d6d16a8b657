"""Calls a function of a user's Python file, such as the factory of a model."""

from __future__ import annotations

import importlib.util
import inspect
import os
import random
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from tosa_convert.errors import TosaConvertError, fail

#: Lines of an exception's text that a message repeats.
_MOST_LINES = 12
_USERS_FOLDER: Final = (
    "the file runs in the folder of the command: name a file beside it"
    " Path(__file__).with_name(NAME)"
)
_TRACED_BY: Final = re.compile(r"The error occurred while tracing the function .* for jit\. ")
_BY_KEYWORD: Final = "arguments by keyword come third, after the tuple: (..., (), {'name': ...})"
#: What the function has assumed, for the user.
assumed: Final[list[str]] = []
_BESIDE: Final = "it is not part of a package: import what is beside it by its name, without a dot"


def call_factory(path: Path, member: str, users_folder: str = "") -> Any:
    """Return what a function of a Python file returns, which runs in the folder of the user.

    No compiled copy is read: one is taken for current if the file was changed in the second in which it
    was made. Random numbers are seeded: the runtime of `--check` makes the same weights.
    """
    own = os.getcwd()
    os.chdir(users_folder or own)
    try:
        return _made(path, member)
    finally:
        # Frameworks write files into the folder in which they work.
        os.chdir(own)


def tuple_of_arguments(arguments: Any, where: str) -> tuple[Any, ...]:
    """Return example arguments as a tuple. An array that is not in one is the only argument."""
    if hasattr(arguments, "shape"):
        return (arguments,)
    if isinstance(arguments, Mapping) or not isinstance(arguments, Iterable):
        message = (
            f"the example arguments are a {type(arguments).__name__}, expected a tuple of them"
        )
        hint = _BY_KEYWORD if isinstance(arguments, Mapping) else "put it into one: (argument,)"
        raise fail("frontend-failed", where, message, hint)
    return tuple(arguments)


def _made(path: Path, member: str) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    loaded = importlib.util.module_from_spec(spec)
    # The file's dataclasses find it by name.
    sys.modules.setdefault(path.stem, loaded)
    # Not what is in the folder of the user, which "" would be.
    sys.path[:] = [str(path.parent), *filter(None, sys.path)]
    sys.dont_write_bytecode = True
    _seed()
    try:
        exec(compile(path.read_bytes(), path, "exec"), vars(loaded))
    except (Exception, SystemExit) as error:
        raise failure(error, path) from None
    factory = getattr(loaded, member, None)
    if not callable(factory):
        own = [
            name
            for name, value in vars(loaded).items()
            if callable(value) and getattr(value, "__module__", "") == path.stem
        ]
        message = f"the file has no function {member!r}; it has {', '.join(own) or 'none'}"
        raise fail("frontend-failed", str(path), message)
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        message = f"{member}() is called without arguments: {error}"
        hint = "write a function that takes none and returns the model"
        raise fail("frontend-failed", str(path), message, hint) from None
    except ValueError:  # It has no signature that Python knows.
        pass
    try:
        return factory()
    except TosaConvertError:  # Of a factory of our own.
        raise
    except (Exception, SystemExit) as error:
        raise failure(error, path) from None


def _seed() -> None:
    """Seed the random numbers of Python, numpy and torch, as far as they are imported."""
    random.seed(0)
    for name, member in (("numpy", "random.seed"), ("torch", "manual_seed")):
        if library := sys.modules.get(name):
            attrgetter(member)(library)(0)


def failure(error: Exception | SystemExit, path: Path, hint: str = "") -> TosaConvertError:
    """Return the error for an exception of the user's code, with its file's last line."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename) == path
    ]
    where = f"{path}:{lines[-1]}" if lines else str(path)
    # JAX would name a function of ours here.
    said = _TRACED_BY.sub("", str(error))
    text = "\n    ".join(said.splitlines()[:_MOST_LINES])
    if isinstance(error, SystemExit):
        message = f"the file ends the process: {text or 'sys.exit()'}"
        return fail("frontend-failed", where, message, "leave sys.exit out, or raise an exception")
    if "attempted relative import" in text:
        hint = _BESIDE
    if isinstance(error, FileNotFoundError):
        hint = _USERS_FOLDER
    return fail("frontend-failed", where, f"{type(error).__name__}: {text}", hint)
