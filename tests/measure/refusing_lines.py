"""Find the lines of rules that no valid program reaches: those that describe a violation."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

Lines = dict[Path, set[int]]
_REFUSALS = ("Violation", "TypeMismatch", "Misfit")


def _refuses(statement: ast.stmt) -> bool:
    """Return whether a statement yields or returns a violation, in every case."""
    value: object = getattr(statement, "value", None)
    if isinstance(value, ast.Yield):
        value = value.value
    function = value.func if isinstance(value, ast.Call) else None
    is_refusal = isinstance(function, ast.Name) and function.id in _REFUSALS
    return isinstance(statement, ast.Raise) or is_refusal


def _leaves(statement: ast.stmt) -> bool:
    """Return whether a statement may end its block early."""
    return any(
        isinstance(node, (ast.Return, ast.Continue, ast.Break)) for node in ast.walk(statement)
    )


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the bodies of conditions and loops."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.For, ast.While)):
            yield node.body
            yield node.orelse


def _lines(node: ast.AST) -> range:
    return range(getattr(node, "lineno", 0), (getattr(node, "end_lineno", 0) or 0) + 1)


def refusing_lines(folder: Path) -> Lines:
    """Return the lines of each file that only a program with a violation runs.

    They are the blocks that yield a violation whenever they run, and functions that only such blocks
    call.
    """
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")}
    found: Lines = {path: set() for path in trees}
    for path, tree in trees.items():
        for block in _blocks(tree):
            place = next((index for index, one in enumerate(block) if _refuses(one)), None)
            # What returns before may be valid.
            if place is not None and not any(map(_leaves, block[:place])):
                found[path].update(line for node in block for line in _lines(node))
    uses = defaultdict[str, set[tuple[Path, int]]](set)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                uses[node.id].add((path, node.lineno))
    functions = [
        (path, node)
        for path, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    ]
    before = -1
    while before != (before := sum(map(len, found.values()))):
        for path, node in functions:
            own = set(_lines(node))
            outside = [
                (place, line)
                for place, line in uses[node.name]
                if line not in found[place] and not (place == path and line in own)
            ]
            if uses[node.name] and not outside:
                found[path] |= own
    return found
