"""Small changes of Python source, each of which a test ought to notice."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

#: Operator -> the one that takes its place.
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.MatMult: ast.Mult,
}
#: Fields of nodes that no run reads, or whose change no run can show.
_LEFT_OUT = {"annotation", "returns", "decorator_list", "type_params"}
#: Keywords whose change shows in nothing but speed, or in an error that other checks exclude.
_KEYWORDS = {"strict", "slots", "frozen", "stacklevel"}


@dataclass(frozen=True)
class Mutation:
    """One change: its line, the text before and after, and the whole source with it."""

    line: int
    before: str
    after: str
    source: str


def mutations(source: str) -> Iterator[Mutation]:
    """Yield every mutation of a module, in the order of its text.

    Annotations, decorators, texts and what only type checkers read stay as they are.
    """
    lines = source.encode().splitlines(keepends=True)
    for node, changed in _changes(ast.parse(source)):
        before, after = ast.unparse(node), ast.unparse(changed)
        if before != after:  # infinity stays infinity
            yield Mutation(node.lineno, before, after, _replaced(lines, node, changed))


def _changes(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:
    """Yield nodes with what takes their place."""
    if isinstance(tree, (ast.expr, ast.stmt)):
        for changed in _replacements(tree):
            yield tree, changed
    if isinstance(tree, (ast.If, ast.IfExp, ast.While)) and _is_plain(tree.test):
        yield tree.test, ast.UnaryOp(ast.Not(), tree.test)
    for name, value in ast.iter_fields(tree):
        if name in _LEFT_OUT:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_left_out(child):
                yield from _changes(child)


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Assert():
            return True
        case ast.If(test=ast.Name("TYPE_CHECKING")):
            return True
        case ast.keyword(arg=name):
            return name in _KEYWORDS
    return False


def _replacements(node: ast.expr | ast.stmt) -> Iterator[ast.AST]:
    """Yield what can take the place of one node; its children are not changed."""
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                changed = copy.deepcopy(node)
                changed.ops[place] = _COMPARED[type(op)]()
                yield changed
        case ast.BinOp(left=left, op=op, right=right):
            if not isinstance(left, (ast.JoinedStr, ast.List)) and not _is_text(left, right):
                yield ast.BinOp(left, _COMPUTED[type(op)](), right)
        case ast.AugAssign(target=target, op=op, value=value):
            yield ast.AugAssign(target, _COMPUTED[type(op)](), value)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1 if value + 1 != value else value * 2)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Raise() | ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _is_text(*nodes: ast.expr) -> bool:
    return any(isinstance(node, ast.Constant) and isinstance(node.value, str) for node in nodes)


def _is_plain(test: ast.expr) -> bool:
    """Return whether no other mutation changes a condition as a whole."""
    return not isinstance(test, (ast.Compare, ast.BoolOp, ast.UnaryOp))


def _replaced(lines: list[bytes], node: ast.expr | ast.stmt, changed: ast.AST) -> str:
    """Put the changed node where the node is; every other line keeps its number."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    text = ast.unparse(ast.fix_missing_locations(changed))
    rest = "\n" * (node.end_lineno - node.lineno)
    text = f"({text}{rest})" if isinstance(node, ast.expr) else f"{text}{rest}"
    before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    after = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
    return (before + text.encode() + after).decode()
