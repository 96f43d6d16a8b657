"""Find the lines of rules that no valid program reaches: those that describe a violation."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
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


def _gives_value(statement: ast.stmt) -> bool:
    """Return whether a statement returns anything but None."""
    none = (isinstance(statement, ast.Return) and statement.value) or ast.Constant(None)
    return not (isinstance(none, ast.Constant) and none.value is None)


def _seekers(trees: Iterable[ast.Module]) -> set[str]:
    """Return functions whose results, unless None, are violations wherever they are called.

    They are called as in `found = seek(...)`, before `if found is not None:` and a block that refuses.
    """
    calls, seeking = Counter[str](), Counter[str]()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            calls[node.func.id] += 1
        if isinstance(node, ast.FunctionDef):
            refused = {
                ast.unparse(one.test).removesuffix(" is not None")
                for one in node.body
                if isinstance(one, ast.If) and any(map(_refuses, one.body)) and not one.orelse
            }
            for one in node.body:
                if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) in refused:
                    seeking.update(
                        call.func.id
                        for call in ast.walk(one.value)
                        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
                    )
    return {name for name, count in seeking.items() if count == calls[name]}


def _found_in(tree: ast.Module, name: str) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of a function of a module."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            yield from _blocks(node)


def _modules(path: Path, tree: ast.Module) -> dict[str, str]:
    """Return the names of functions that a module knows, with the modules that define them."""
    found = {
        alias.asname or alias.name: (node.module or "").rpartition(".")[2]
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return found | {node.name: path.stem for node in tree.body if isinstance(node, ast.FunctionDef)}


def _lines(node: ast.AST) -> range:
    return range(getattr(node, "lineno", 0), (getattr(node, "end_lineno", 0) or 0) + 1)


def refusing_lines(folder: Path) -> Lines:
    """Return the lines of each file that only a program with a violation runs.

    They are the blocks that yield a violation whenever they run, or whenever they go on behind their
    last way out, such as `if fits: return`; functions that only such lines call; and what returns a
    value from a function whose values are violations.
    """
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")}
    found: Lines = {path: set() for path in trees}
    seekers = _seekers(trees.values())
    for path, tree in trees.items():
        seeking = {id(block) for name in seekers for block in _found_in(tree, name)}
        for block in _blocks(tree):
            refuses = _gives_value if id(block) in seeking else _refuses
            place = next((index for index, one in enumerate(block) if refuses(one)), None)
            if place is None:
                continue
            # What leaves the block before it may be valid.
            ways_out = [index for index, one in enumerate(block[:place]) if _leaves(one)]
            first = ways_out[-1] + 1 if ways_out else 0
            found[path].update(line for node in block[first:] for line in _lines(node))
    uses = defaultdict[tuple[str, str], set[tuple[Path, int]]](set)
    for path, tree in trees.items():
        modules = _modules(path, tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                uses[modules.get(node.id, ""), node.id].add((path, node.lineno))
    functions = [
        (path, node)
        for path, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    ]
    before = -1
    while before != (before := sum(map(len, found.values()))):
        for path, node in functions:
            own, used = set(_lines(node)), uses[path.stem, node.name]
            outside = [
                (place, line)
                for place, line in used
                if line not in found[place] and not (place == path and line in own)
            ]
            if used and not outside:
                found[path] |= own
    return found
