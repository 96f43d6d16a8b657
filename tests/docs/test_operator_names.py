"""A fact about one operator stands in its row: few files of the package name it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

import pytest

from tosa_convert.graph.opset import OPERATORS

PACKAGE: Final = Path(__file__).resolve().parents[2] / "tosa_convert"
#: schema/generate.py writes it. Stubs do not count either.
GENERATED: Final = "formats/wire/layout.py"
NAMES: Final = frozenset(row.name for row in OPERATORS)
#: The most files that name an operator, in the median over all operators. A framework, and a consumer
#: of its files, has a table of what it calls them.
MOST: Final = 10


def named(text: str, suffix: str) -> frozenset[str]:
    """Return the operators that a file names, docstrings and comments aside."""
    strings = _strings(ast.parse(text)) if suffix == ".py" else iter([text])
    return NAMES.intersection(
        word
        for string in strings
        for word in re.findall(r"\w+", re.sub(r"^tosa\.(\w+)$", lambda m: m[1].upper(), string))
    )


def _strings(tree: ast.AST) -> Iterator[str]:
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in docstrings:
                yield node.value


def test_names_in_code_count_and_those_in_docstrings_do_not() -> None:
    code = '"""What ADD does."""\nx = {"SUB": 1, "a": "MUL POW"}  # DIM\ny = "tosa.abs"\n'
    assert named(code, ".py") == {"SUB", "MUL", "POW", "ABS"}
    assert named("const shown = ['ADD'];", ".js") == {"ADD"}


@pytest.mark.slow
def test_the_median_operator_is_named_by_few_files() -> None:
    files = {
        path: named(path.read_text("utf-8"), path.suffix)
        for path in PACKAGE.rglob("*")
        if path.suffix in (".py", ".js") and path.relative_to(PACKAGE).as_posix() != GENERATED
    }
    counts = {
        name: sorted(str(path) for path, found in files.items() if name in found) for name in NAMES
    }
    assert median(map(len, counts.values())) <= MOST, counts
