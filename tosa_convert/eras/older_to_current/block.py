"""The operators of a block with its old operations expressed as today's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tosa_convert.eras.older_to_current.changed_meaning import as_today
from tosa_convert.eras.older_to_current.editor import Editor, Refused
from tosa_convert.eras.older_to_current.old_operation import OldOperation
from tosa_convert.eras.older_to_current.record import Upgrade
from tosa_convert.eras.table import RULES
from tosa_convert.graph.model import Block, Operator
from tosa_convert.graph.opset import CONST

#: Reports an operation that cannot be upgraded: the operation, the reason, and a hint.
Refuse = Callable[[Operator | OldOperation, str, str], None]


def upgrade_block(
    block: Block,
    items: Sequence[Operator | OldOperation],
    unsigned: Collection[str],
    upgrade: Upgrade,
    refuse: Refuse,
) -> None:
    """Give a block the operators of today that its operators are, and their new values."""
    editor = Editor(block, unsigned, upgrade)
    for item in items:
        done, editor.operators = editor.operators, []
        if isinstance(item, Operator):
            editor.add(item)
        else:
            _apply(editor, item, refuse)
        upgraded_operators, editor.operators, start = editor.operators, done, len(done)
        for operator in upgraded_operators:
            editor.begin_operation(operator.spec.name.lower(), operator.location)
            editor.infer_open_results(operator)
            try:
                as_today(editor, operator)
            except Refused as problem:
                if str(problem):
                    refuse(operator, str(problem), problem.hint)
        # What follows may need ranks that the old form left open.
        for operator in editor.operators[start:]:
            editor.infer_open_results(operator)
    block.operators = _without_unused(editor)
    block.tensors, block.shapes = editor.tensors, editor.shapes


def _apply(editor: Editor, item: OldOperation, refuse: Refuse) -> None:
    """Add the operators that an old operation is, or report why there are none."""
    rule = RULES[item.name]
    editor.begin_operation(item.label, item.location)
    try:
        if rule.operands and len(item.inputs) not in rule.operands:
            expected = " or ".join(map(str, rule.operands))
            raise Refused(f"it has {len(item.inputs)} operands, expected {expected}")
        rule.apply(editor, item)
    except Refused as problem:
        if str(problem):
            refuse(item, str(problem), problem.hint)
    else:
        editor.note(rule.what)


def _without_unused(editor: Editor) -> list[Operator]:
    """Return the operators without constants that rules have read and nothing uses any more."""
    if not editor.consumed:
        return editor.operators
    used = set(editor.source.outputs)
    used.update(name for operator in editor.operators for name in operator.inputs)
    unused = editor.consumed - used
    for name in unused:
        editor.tensors.pop(name, None)
    return [
        operator
        for operator in editor.operators
        if operator.spec is not CONST or operator.outputs[0] not in unused
    ]
