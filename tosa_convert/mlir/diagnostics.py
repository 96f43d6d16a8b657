"""MLIR's own refusals, as findings."""

from __future__ import annotations

import re
from typing import Final

from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.mlir.bindings import Bindings
from tosa_convert.mlir.locations import unquote

_FILE: Final = re.compile(r'loc\(("(?:[^"\\]|\\.)*"):(\d+):(\d+)( to [\d:]+)?\)\Z')
_NAME: Final = re.compile(r'loc\(("(?:[^"\\]|\\.)*")\)\Z')

#: What MLIR says when text was printed by a version whose syntax differs from this one's.
_SKEW: Final = (
    "use the generic form (print with --mlir-print-op-generic, or get_asm(print_generic_op_form=True)) "
    "or the bindings that wrote it: the syntax of TOSA operators differs between MLIR versions"
)


def plain_location(text: str) -> str:
    """`file:line:col` or a name where a textual location is no more than that, "" for unknown."""
    found = _FILE.match(text)
    if found is not None:
        return f"{unquote(found[1])}:{found[2]}:{found[3]}"
    found = _NAME.match(text)
    if found is not None:
        return unquote(found[1])
    return "" if text == "loc(unknown)" else text


def diagnostics(
    bindings: Bindings, error: Exception, what: str, *, parsing: bool = False
) -> TosaConvertError:
    """MLIR's refusal, one finding for each error it reports. `what`: the place if it tells none.

    parsing: the refusal is of text or bytecode, so a difference of versions may be the reason.
    """
    reported = getattr(error, "error_diagnostics", None) or []
    hint = f"this is what {bindings} says"
    if parsing:
        hint += f"; if other tools read the file, {_SKEW}"
    findings = [
        Finding("malformed-mlir", plain_location(str(found.location)), str(found.message), hint)
        for found in reported
    ]
    return TosaConvertError(findings or [Finding("malformed-mlir", what, str(error).strip(), hint)])
