"""The rules of docs/architecture.md: what may import what, and the length of files and functions."""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.house import (
    ARROWS,
    EXCEPTIONS,
    OUTSIDE,
    OUTSIDE_EXCEPTIONS,
    TYPING_CIRCLES,
    part_of,
)
from docs.source_rules import (
    MAX_FILE_LINES,
    MAX_FUNCTION_LINES,
    OTHERS,
    PACKAGE,
    Source,
    circles,
    fast_paths,
    functions_named,
    imports,
    long_functions,
    sources,
    without_verb,
)

#: Part, dotted name below the package, and syntax of a module.
Module = tuple[str, str, ast.Module]


@pytest.fixture(scope="module", autouse=True)
def _without_collection() -> Iterator[None]:
    """Keep the garbage collector from the syntax of a thousand files, which it would look at often."""
    gc.disable()
    yield
    sources.cache_clear()
    gc.enable()


@pytest.fixture(scope="module")
def package(root: Path) -> list[Source]:
    return sources(root, PACKAGE)


@pytest.fixture(scope="module")
def everything(root: Path, package: list[Source]) -> list[Source]:
    return [*package, *sources(root, *OTHERS)]


@pytest.fixture(scope="module")
def modules(package: list[Source]) -> list[Module]:
    names = [source.path.split("/", 1)[1][:-3].replace("/", ".") for source in package]
    return [(part_of(name), name, source.tree) for name, source in zip(names, package, strict=True)]


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield every module that is imported anywhere, also within functions and for type checkers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            inside = [name for name in names if name.removeprefix(f"{PACKAGE}.") in ARROWS]
            yield from inside or (names if node.module == PACKAGE else [node.module])


def offences(part: str, name: str, tree: ast.Module) -> Iterator[str]:
    """Imports that a module must not have."""
    if part not in ARROWS:
        yield f"{name}: the part {part} has no row in ARROWS: what may it import?"
        return
    inside = ARROWS[part] | EXCEPTIONS.get(name, (set(), ""))[0] | {part, "remedies", "exit_codes"}
    outside = OUTSIDE.get(part, set()) | OUTSIDE_EXCEPTIONS.get(name, (set(), ""))[0]
    for module in imported(tree):
        top, _, below = module.partition(".")
        if top == PACKAGE:
            target = part_of(below or "__init__")
            if target not in inside:
                yield f"{name} imports {module}; {part} may import {', '.join(sorted(inside))}"
        elif top not in sys.stdlib_module_names and top not in outside:
            yield f"{name} imports {module}; {part} may import {', '.join(sorted(outside)) or 'nothing'}"


def test_modules_import_only_what_they_may_import(modules: list[Module]) -> None:
    found = [problem for row in modules for problem in offences(*row)]
    assert not found, "\n".join(found)


def test_every_row_and_exception_is_of_a_part_that_exists(modules: list[Module]) -> None:
    names = {name for _, name, _ in modules}
    assert {part for part, _, _ in modules} == ARROWS.keys()
    assert EXCEPTIONS.keys() | OUTSIDE_EXCEPTIONS.keys() <= names
    assert OUTSIDE.keys() <= ARROWS.keys()


def test_every_exception_is_needed(modules: list[Module]) -> None:
    found = {name: (part, tree) for part, name, tree in modules}
    for table in (EXCEPTIONS, OUTSIDE_EXCEPTIONS):
        for name in list(table):
            row = table.pop(name)
            try:
                assert list(offences(found[name][0], name, found[name][1])), f"{name}: {row[1]}"
            finally:
                table[name] = row


def test_there_are_no_import_cycles(package: list[Source]) -> None:
    modules = {source.module for source in package}
    found = {source.module: imports(source, modules) for source in package}
    running = circles({module: row.running for module, row in found.items()})
    assert running == []
    both = circles({module: row.running | row.typing for module, row in found.items()})
    typing = [tuple(group) for group in both if group not in running]
    assert sorted(typing) == sorted(TYPING_CIRCLES), "circles that only TYPE_CHECKING closes"


def test_functions_are_not_too_long_or_say_why(everything: list[Source]) -> None:
    problems = [
        f"{name} has {lines} lines; split it, or say why: `# Long because ...` above it"
        for source in everything
        for name, lines in long_functions(source)
    ]
    assert not problems, "\n".join(problems)


def test_files_are_not_too_long_except_tests(everything: list[Source]) -> None:
    code = [source for source in everything if not source.path.startswith("tests/")]
    long = {s.path: len(s.lines) for s in code if len(s.lines) > MAX_FILE_LINES}
    problems = [
        f"{path} has {lines} lines; split it: at most {MAX_FILE_LINES}"
        for path, lines in long.items()
    ]
    assert not problems, "\n".join(problems)


def test_docstrings_of_functions_begin_with_a_verb(package: list[Source]) -> None:
    problems = [row for source in package for row in without_verb(source)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("text", "found"),
    [("Whether it is so.", 1), ("The sum.", 1), ("Return the sum.", 0), ("Add a row.", 0)],
)
def test_a_docstring_without_a_verb_is_found(text: str, found: int) -> None:
    assert len(list(without_verb(source(f'def f():\n    """{text}"""\n')))) == found


def test_every_fast_path_names_a_test_that_exists(everything: list[Source]) -> None:
    tests = functions_named([source for source in everything if source.path.startswith("tests/")])
    problems = [
        f"{where}: expected `# Fast path of X; equal by test test_y`, found {test or 'no test'}"
        for source in everything
        if source.path.startswith(f"{PACKAGE}/")
        for where, test in fast_paths(source)
        if test not in tests
    ]
    assert not problems, "\n".join(problems)


def test_no_floor_imports_one_above_it() -> None:
    found = circles({part: targets - {part} for part, targets in ARROWS.items()})
    assert found == []


@pytest.mark.parametrize(
    ("part", "name", "source"),
    [
        ("graph", "graph.model", "import tosa_convert.io.files"),
        ("graph", "graph.model", "from tosa_convert import api"),
        (
            "graph",
            "graph.model",
            "def f():\n    from tosa_convert.formats.bindings.modules import read",
        ),
        (
            "formats.mlir",
            "formats.mlir.read",
            "from tosa_convert.formats.flatbuffer.read import read",
        ),
        ("formats.mlir", "formats.mlir.read", "import torch_mlir.ir"),
        ("formats.mlir", "formats.mlir.read", "import tosa_convert"),
        ("cli", "cli.show", "from tosa_convert.formats.flatbuffer.read import read"),
        ("errors", "errors", "import numpy"),
        ("utils", "utils", ""),
    ],
)
def test_a_forbidden_import_is_reported(part: str, name: str, source: str) -> None:
    assert list(offences(part, name, ast.parse(source)))


@pytest.mark.parametrize(
    ("part", "name", "source"),
    [
        ("graph", "graph.model", "import numpy as np\nfrom tosa_convert.errors import fail"),
        ("formats.bindings", "formats.bindings.passes", "from tosa_convert import api"),
        ("cli", "cli.show", "from tosa_convert.api import load\nimport click"),
    ],
)
def test_an_allowed_import_is_not_reported(part: str, name: str, source: str) -> None:
    assert not list(offences(part, name, ast.parse(source)))


# -- each rule can fail ----------------------------------------------------------------------------

OURS = {"tosa_convert", "tosa_convert.a", "tosa_convert.b", "tosa_convert.c"}


def source(text: str, path: str = "tosa_convert/a.py") -> Source:
    return Source(path, text)


def test_import_cycles_of_any_length_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circles({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == [["a", "b"]]
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"e"}, "e": {"d"}}) == [
        ["a", "b", "c"],
        ["d", "e"],
    ]


@pytest.mark.parametrize(
    "text",
    [
        "import tosa_convert.b",
        "from tosa_convert import b",
        "from tosa_convert.b import thing",
        "def f():\n    from tosa_convert.b import thing",
        "try:\n    import tosa_convert.b\nexcept ImportError:\n    pass",
    ],
)
def test_an_import_is_found_wherever_it_is(text: str) -> None:
    assert imports(source(text), OURS).running == {"tosa_convert.b"}


def test_an_import_for_type_checkers_is_distinguished() -> None:
    text = (
        "from typing import TYPE_CHECKING\n"
        "from tosa_convert import b\n"
        "if TYPE_CHECKING:\n    from tosa_convert import b, c\n"
    )
    found = imports(source(text), OURS)
    assert found.running == {"tosa_convert.b"}
    assert found.typing == {"tosa_convert.c"}


def function(lines: int, *, above: str = "", docstring: str = "", inside: str = "") -> str:
    """Return a function with this number of lines, with comments and a docstring."""
    body = "".join(f"    a{number} = {number}\n" for number in range(lines - 1))
    return f"x = 1\n{above}@decorated\ndef f():\n{docstring}{inside}{body}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (function(MAX_FUNCTION_LINES), 0),
        (function(MAX_FUNCTION_LINES + 1), 1),
        (function(MAX_FUNCTION_LINES, docstring='    """Doc.\n\n    More.\n    """\n'), 0),
        (function(MAX_FUNCTION_LINES + 1, docstring='    """Doc.\n\n    More.\n    """\n'), 1),
        (function(90, above="# Long because it is one loop.\n"), 0),
        (function(90, above="# More.\n# Long because it is one loop.\n# And more.\n"), 0),
        (function(90, inside="    # Long because it is one loop.\n"), 0),
        (function(90, above="# Long because it is one loop.\ny = 1\n"), 1),
        (function(90, above="# It is long.\n"), 1),
        ("class A:\n" + "".join(f"    {line}\n" for line in function(61).splitlines()), 1),
    ],
)
def test_a_function_that_is_too_long_is_found_unless_it_says_why(text: str, found: int) -> None:
    assert len(list(long_functions(source(text)))) == found


@pytest.mark.parametrize(
    ("comment", "tests"),
    [
        ("# Fast path of `f`; equal by test test_f", ["test_f"]),
        ("# Fast path of f for plain\n# constants; equal by test\n# test_f. And more.", ["test_f"]),
        ("# Fast path of f.", [""]),
        ("# The fast path: no test.", [""]),
        ("# As fast as can be.", []),
    ],
)
def test_the_test_of_a_fast_path_is_read_from_its_comment(comment: str, tests: list[str]) -> None:
    assert [test for _, test in fast_paths(source(f"x = 1\n{comment}\ny = 2\n"))] == tests
