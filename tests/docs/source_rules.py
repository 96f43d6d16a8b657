"""Reads imports, lengths, and marks in comments from source files, for the tests of the house.

All of it is read from the syntax; no module is imported.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

PACKAGE = "tosa_convert"
#: Folders of Python files besides the package.
OTHERS = ("tests", "fuzz", "benchmarks", "schema", "examples", "manual", "release", "zoo")

#: Lines of a function, without its decorators and docstring; lines of a file.
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 800

_LONG = re.compile(r"# Long because \w")
_MENTIONS_FAST_PATH = re.compile(r"\bfast[\s#:]+path\b", re.IGNORECASE)
_FAST_PATH = re.compile(r"# Fast path of .+; equal by test (?P<test>test_\w+)")


@dataclass(frozen=True)
class Source:
    """A Python file: its path below the checkout, with slashes, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def module(self) -> str:
        """Return the dotted name: `tosa_convert.graph` for tosa_convert/graph/__init__.py."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@lru_cache
def sources(root: Path, *folders: str) -> list[Source]:
    """Return all Python files of some folders of the checkout, sorted."""
    paths = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
    return [
        Source(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
        for path in paths
    ]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below a node that can hold statements: most of a tree is expressions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield child


#: First words of docstrings that say what a function is rather than what it does.
NO_VERBS = re.compile(
    r"(The|A|An|Whether|What|How|Which|Those|Each|All|One|Every|Everything|Where|That|Its|It|Of|In"
    r"|For|Two|Some|Who|When|Why|This|These|Numbers)\b"
)


def without_verb(source: Source) -> Iterator[str]:
    """Iterate over functions whose docstring does not begin with a verb.

    The place, and the first line.
    """
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node) or ""
            if NO_VERBS.match(text):
                yield f"{source.path}:{node.lineno}: {text.splitlines()[0]}"


# -- imports ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Imports:
    """The package's own modules that a module imports: when it runs, and for type checkers only."""

    running: set[str] = field(default_factory=set)
    typing: set[str] = field(default_factory=set)


def imports(source: Source, modules: set[str]) -> Imports:
    """Return the members of `modules` that a module imports, also within functions."""
    found = Imports()

    def visit(node: ast.AST, into: set[str]) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for statement in node.body:
                visit(statement, found.typing)
            for statement in node.orelse:
                visit(statement, into)
            return
        if isinstance(node, ast.Import):
            into.update(alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                into.update({inner if inner in modules else node.module} & modules)
        for child in statements(node):
            visit(child, into)

    visit(source.tree, found.running)
    found.running.discard(source.module)
    found.typing.difference_update(found.running, {source.module})
    return found


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the sorted strongly connected components of more than one node (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(found)


# -- lengths ---------------------------------------------------------------------------------------


def long_functions(source: Source) -> Iterator[tuple[str, int]]:
    """Yield the functions that are too long and do not say why: `path:Class.name` and the lines.

    A comment `# Long because ...` right above the function, or before its second statement, says why.
    """

    def visit(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        for child in statements(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                inner = (*names, child.name)
                if not isinstance(child, ast.ClassDef):
                    lines = function_lines(child)
                    if lines > MAX_FUNCTION_LINES and not _says_why(source, child):
                        yield f"{source.path}:{'.'.join(inner)}", lines
                yield from visit(child, inner)
            else:
                yield from visit(child, names)

    yield from visit(source.tree, ())


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function, without decorators and docstring."""
    assert node.end_lineno is not None
    lines = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is not None:
        assert first.end_lineno is not None
        lines -= first.end_lineno - first.lineno + 1
    return lines


def _says_why(source: Source, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
    above = start
    while above and source.lines[above - 1].lstrip().startswith("#"):
        above -= 1
    first = node.body[1] if len(node.body) > 1 else node.body[0]
    return any(_LONG.search(line) for line in source.lines[above : first.lineno])


# -- marks in comments -----------------------------------------------------------------------------


def comments(source: Source) -> Iterator[tuple[int, str]]:
    """Iterate over the comments of a file.

    The first line's number, and the text of lines that belong together.
    """
    number, text = 0, ""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type != tokenize.COMMENT:
            continue
        alone = source.lines[token.start[0] - 1].lstrip().startswith("#")
        if text and alone and token.start[0] == number + text.count("\n") + 1:
            text += "\n" + token.string
        else:
            if text:
                yield number, text
            number, text = token.start[0], token.string
    if text:
        yield number, text


def fast_paths(source: Source) -> Iterator[tuple[str, str]]:
    """Iterate over the comments that mark a fast path, and the test that each names.

    "" if it names none.
    """
    if not _MENTIONS_FAST_PATH.search(source.text):
        return
    for number, text in comments(source):
        joined = "# " + " ".join(line.lstrip("#: ") for line in text.split("\n"))
        if re.search(r"\bfast path\b", joined, re.IGNORECASE):
            match = _FAST_PATH.search(joined)
            yield f"{source.path}:{number}", match["test"] if match else ""


def functions_named(files: list[Source]) -> set[str]:
    """Return the names of all functions of some files."""
    nodes = (node for source in files for node in ast.walk(source.tree))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
