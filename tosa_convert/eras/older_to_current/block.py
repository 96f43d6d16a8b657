"""The operators of a block with its old operations expressed as today's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tosa_convert.eras.older_to_current.changed_meaning import as_today
from tosa_convert.eras.older_to_current.editor import Editor, Refused, Values
from tosa_convert.eras.older_to_current.old_operation import OldOperation
from tosa_convert.eras.older_to_current.record import Upgrade
from tosa_convert.eras.table import RULES
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import CONST

#: Reports an operation that cannot be upgraded: the operation, the reason, and a hint.
Refuse = Callable[[Operator | OldOperation, str, str], None]


def upgraded(
    items: Sequence[Operator | OldOperation], values: Values, upgrade: Upgrade, refuse: Refuse
) -> list[Operator]:
    """Return the operators of a block.

    Args:
        items: operators of today and old operations, in order.
        values: the values of the block, to which those of new constants and operators are added.
        upgrade: what changes is noted in it.
        refuse: is called for each operation that cannot be upgraded, which is then left out.
    """
    editor = Editor(values, upgrade)
    for item in items:
        if isinstance(item, Operator):
            editor.operators.append(item)
            continue
        rule = RULES[item.name]
        editor.begin(item.label, item.location)
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
    upgraded_operators, editor.operators = editor.operators, []
    for operator in upgraded_operators:
        editor.begin(operator.spec.name.lower(), operator.location)
        try:
            as_today(editor, operator)
        except Refused as problem:
            if str(problem):
                refuse(operator, str(problem), problem.hint)
    return _without_unused(editor)


def _without_unused(editor: Editor) -> list[Operator]:
    """Return the operators without constants that rules have read and nothing uses any more."""
    if not editor.consumed:
        return editor.operators
    used = set(editor.values.outputs)
    used.update(name for operator in editor.operators for name in operator.inputs)
    unused = editor.consumed - used
    for name in unused:
        editor.values.tensors.pop(name, None)
    return [
        operator
        for operator in editor.operators
        if operator.spec is not CONST or operator.outputs[0] not in unused
    ]
