"""Rewrites of other packages."""

from __future__ import annotations

import importlib
from typing import Final

from tosa_convert.builder.block_editor import BlockEditor
from tosa_convert.errors import TosaConvertError
from tosa_convert.extensions import broken, failed, find_extension
from tosa_convert.graph.model import Operator
from tosa_convert.graph.opset import operator
from tosa_convert.rewrites.operator_pass import OperatorRewrite

#: The group that lists of rewrites show.
GROUP: Final = "added"
#: Times in a row that it may replace what makes one value.
_MOST: Final = 100


def extension_rewrite(name: str) -> OperatorRewrite:
    """Return the rewrite of an extension, whose module is imported."""
    extension = find_extension("rewrites", name)
    try:
        module = importlib.import_module(extension.module)
        operators = tuple(operator(one) for one in module.OPERATORS)
    except (Exception, SystemExit) as error:
        raise failed(extension, f"{extension.module} was not loaded", error) from error

    last: tuple[str, ...] = ()
    times = 0

    def rewrite(op: Operator, edit: BlockEditor) -> str | None:
        nonlocal last, times
        try:
            what: str | None = module.rewrite(op, edit)
        except TosaConvertError:
            raise
        except (Exception, SystemExit) as error:
            raise failed(extension, f"it failed on {op}", error) from error
        if what is not None:
            times = times + 1 if op.outputs == last else 1
            last = op.outputs
            if times > _MOST:
                raise broken(name, f"it replaced {op} {_MOST} times, and still does")
        return what

    reason = str(getattr(module, "REASON", f"a rewrite of {extension.module}"))
    return OperatorRewrite(name, GROUP, reason, rewrite, operators)
