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
    """Yield the bodies of functions, conditions and loops."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.body
        if isinstance(node, (ast.If, ast.For, ast.While)):
            yield node.body
            yield node.orelse


def _lines(node: ast.AST) -> range:
    return range(getattr(node, "lineno", 0), (getattr(node, "end_lineno", 0) or 0) + 1)


def refusing_lines(folder: Path) -> Lines:
    """Return the lines of each file that only a program with a violation runs.

    They are the blocks that yield a violation whenever they run, or whenever they go on behind their
    last way out, such as `if fits: return`; and functions that only such lines call.
    """
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")}
    found: Lines = {path: set() for path in trees}
    for path, tree in trees.items():
        for block in _blocks(tree):
            place = next((index for index, one in enumerate(block) if _refuses(one)), None)
            if place is None:
                continue
            # What leaves the block before it may be valid.
            ways_out = [index for index, one in enumerate(block[:place]) if _leaves(one)]
            first = ways_out[-1] + 1 if ways_out else 0
            found[path].update(line for node in block[first:] for line in _lines(node))
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
