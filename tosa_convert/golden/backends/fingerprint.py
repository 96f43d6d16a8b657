"""Fingerprints of all that decides an answer: a kept answer counts only while they stay the same.

They are made of contents and releases: a time or a size says nothing about what a file has.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from tosa_convert.errors import TosaConvertError
from tosa_convert.extensions import find_extension, is_extension
from tosa_convert.golden.running import reference_model_process
from tosa_convert.golden.running.commands import command_words
from tosa_convert.io.files import PathLike, open_regular
from tosa_convert.process.child import run_child
from tosa_convert.version import __version__

#: Bytes of a file that are in memory at a time.
_PIECE: Final = 1 << 20
#: Prints which packages a Python has, and in which releases.
_INSTALLED: Final = """
import os, sys
names = [n for p in sys.path if os.path.isdir(p) for n in os.listdir(p)]
print(sys.version, sys.prefix, sorted(n for n in names if n.endswith((".dist-info", ".egg-info"))))
"""
_START_SECONDS: Final = 60.0
#: Characters of a text in a Python file that may be the name of a file.
_NAME_CHARACTERS: Final = 1000


def digest(content: Any) -> str:
    """Return the fingerprint of a value that JSON can have.

    Example:
        >>> digest({"level": "8k"}) == digest({"level": "none"})
        False
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def of_file(path: PathLike) -> str:
    """Return the fingerprint of a file's content; of a file that cannot be read, why."""
    found = hashlib.sha256()
    try:
        with open_regular(path) as file:
            while piece := file.read(_PIECE):
                found.update(piece)
    except (OSError, TosaConvertError) as error:
        return str(error)
    return found.hexdigest()


def of_file_at_hand(path: str) -> str:
    """Return the fingerprint of a file that many cases read, without reading it for each of them.

    The kernel changes the time of the last change with every write; no program can set it.
    """
    try:
        found = os.stat(path)
    except OSError as error:
        return str(error)
    return _of_file_as_of(path, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@functools.lru_cache(4096)
def _of_file_as_of(path: str, *state: int) -> str:
    return of_file(path)


def of_files(paths: Iterable[PathLike]) -> dict[str, str]:
    """Return the fingerprint of each file by its path."""
    return {os.fspath(path): of_file(path) for path in sorted({os.fspath(path) for path in paths})}


def of_software(python: str = "") -> dict[str, Any]:
    """Describe what computes and judges: this package, the reference model, packages of a Python."""
    try:
        model: Any = of_files([reference_model_process.locate()])
    except TosaConvertError as error:
        model = str(error)
    return {
        "version": __version__,
        "source": _own_source(),
        "model": model,
        "python": [
            _packages(program) for program in {sys.executable: 0, python or sys.executable: 0}
        ],
    }


@functools.cache
def _own_source() -> str:
    """Return the fingerprint of this package: in a checkout its files change, and no release."""
    folder = Path(__file__).parents[2]
    return digest([of_file(path) for path in sorted(folder.rglob("*.py"))])


def _packages(python: str) -> str:
    try:
        ended = run_child([python, "-c", _INSTALLED], timeout=_START_SECONDS, with_stdout=True)
    except OSError as error:
        return str(error)
    return ended.stderr


#: Environment variables that decide what any program does.
_ALWAYS: Final = ("LD_LIBRARY_PATH", "LD_PRELOAD", "OMP_NUM_THREADS", "PYTHONPATH")


def of_environment(text: str) -> dict[str, str]:
    """Return the environment variables that a backend of `--against` may read, as far as they are set.

    They are those whose names its Python files or the words of its command have.
    """
    names = set(_ALWAYS)
    for path in of_backend(text):
        if path.endswith(".py"):
            names.update(_words_of(path))
    names.update(re.findall(r"\w+", text))
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}


def _words_of(path: str) -> set[str]:
    """Return the words of a text file; none of one that cannot be read."""
    try:
        with open_regular(path) as file:
            return set(re.findall(r"\w+", file.read().decode(errors="replace")))
    except (OSError, TosaConvertError):
        return set()


def of_backend(text: str) -> dict[str, str]:
    """Return the files of a backend of `--against`: a Python file, or those that a command names."""
    if is_extension(text):
        text = str(find_extension("backends", text).source)
    if text.endswith(".py") and os.path.isfile(text):
        return of_files(files_of_python(Path(text)))
    return of_command(text)


def of_command(text: str) -> dict[str, str]:
    """Return the files that a command names, its program, and what Python files of them import."""
    paths: set[Path] = set()
    words = command_words(text)
    program = shutil.which(words[0]) if words else None
    for word in (program or "", *words[1:]):
        for name in (word, word.partition("=")[2]):
            if name and os.path.isfile(name):
                path = Path(os.path.abspath(name))
                paths.update(files_of_python(path) if path.suffix == ".py" else (path,))
    return of_files(paths)


def files_of_python(path: Path) -> set[Path]:
    """Find what a Python file needs: modules beside it that it imports, and files that it names."""
    found: set[Path] = set()
    waiting = [path]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        if one.suffix == ".py":
            waiting += _named_by(one, path.parent)
    return found


def _named_by(path: Path, root: Path) -> Iterator[Path]:
    """Yield the files that a Python file imports or names. root: the folder that it imports from."""
    try:
        with open_regular(path) as file:
            tree = ast.parse(file.read())
    except (OSError, TosaConvertError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module(root, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            folder = path.parents[node.level - 1] if 0 < node.level <= len(path.parents) else root
            parts = node.module.split(".") if node.module else []
            for alias in node.names:
                yield from _module(folder, [*parts, alias.name])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if 0 < len(text) < _NAME_CHARACTERS and "\0" not in text:
                named = path.parent / text
                if os.path.isfile(named):
                    yield named


def _module(folder: Path, parts: list[str]) -> Iterator[Path]:
    """Yield the files below a folder that an import of `a.b.c` runs."""
    for part in parts:
        module = folder / f"{part}.py"
        folder = folder / part
        for candidate in (module, folder / "__init__.py"):
            if os.path.isfile(candidate):
                yield candidate
