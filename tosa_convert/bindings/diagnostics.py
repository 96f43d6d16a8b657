"""MLIR's own refusals, as findings."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Final, Literal

from tosa_convert.bindings.packages import Bindings, installed
from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.mlir.quoting import unquote

_FILE: Final = re.compile(r'loc\(("(?:[^"\\]|\\.)*"):(\d+):(\d+)( to [\d:]+)?\)\Z')
_NAME: Final = re.compile(r'loc\(("(?:[^"\\]|\\.)*")\)\Z')

#: How the file that MLIR refuses is written; "" where it refuses no file.
Form = Literal["", "text", "generic", "bytecode"]

#: What MLIR says of an operator or an attribute that these bindings do not have at all.
_NO_OPERATOR: Final = re.compile(
    r"unregistered operation '(tosa\.\w+)'|custom op '(tosa\.\w+)' is unknown"
)
_NO_ATTRIBUTE: Final = re.compile(r"invalid properties (\{[^}]*\}) for op (tosa\.\w+)")
#: What it says of bytecode in which an operator's properties lie otherwise than it reads them.
_OTHER_BYTECODE: Final = re.compile(r"missing BytecodeOpInterface|expected mlir::\w+, but got")

_GENERIC: Final = "get_asm(print_generic_op_form=True), or --mlir-print-op-generic"


def plain_location(text: str) -> str:
    """`file:line:col` or a name where a textual location is no more than that, "" for unknown."""
    found = _FILE.match(text)
    if found is not None:
        name = unquote(found[1])
        # Bytecode has no lines.
        return name if found[2] == found[3] == "0" else f"{name}:{found[2]}:{found[3]}"
    found = _NAME.match(text)
    if found is not None:
        return unquote(found[1])
    return "" if text == "loc(unknown)" else text


def form_of(data: bytes) -> Form:
    """How a file is written, by its beginning."""
    if data.startswith(b"ML\xefR"):
        return "bytecode"
    return "generic" if b'"builtin.module"' in data or b'"func.func"' in data else "text"


def diagnostics(
    bindings: Bindings, error: Exception, what: str, *, form: Form = ""
) -> TosaConvertError:
    """MLIR's refusal, one finding for each error it reports. `what`: the place if it tells none.

    form: of the file that is refused, where it is one: the reason may then be that another version of
    MLIR wrote it, and the hint says which form these bindings would read.
    """
    reported = getattr(error, "error_diagnostics", None) or []
    findings = [
        Finding(
            "malformed-mlir",
            plain_location(str(found.location)),
            str(found.message),
            _hint(bindings, str(found.message), form),
        )
        for found in reported
    ]
    text = str(error).strip()
    return TosaConvertError(
        findings or [Finding("malformed-mlir", what, text, _hint(bindings, text, form))]
    )


def _hint(bindings: Bindings, message: str, form: Form) -> str:
    """Whose refusal it is, and what to do if another version of MLIR wrote the file."""
    elsewhere = f"with the bindings that wrote it{_others(bindings)}" if form else "in others"
    operator = _NO_OPERATOR.search(message)
    if operator is not None:
        return (
            f"{bindings} has no {operator[1] or operator[2]}, so no form of it crosses: "
            f"convert it {elsewhere}, or decompose it there"
        )
    attribute = _NO_ATTRIBUTE.search(message)
    if attribute is not None:
        return (
            f"{attribute[2]} of {bindings} has no attribute {attribute[1]}, so no form with it "
            f"crosses: leave it out, or convert it {elsewhere}"
        )
    said = f"this is what {bindings} says"
    if form == "bytecode" and _OTHER_BYTECODE.search(message):
        return (
            f"{said}; other versions of MLIR keep this operator otherwise in bytecode. Its generic "
            f"text crosses ({_GENERIC}), or convert it {elsewhere}"
        )
    if form == "text":
        return (
            f"{said}; if other tools read the file: the syntax of TOSA operators differs between "
            f"versions of MLIR. The generic form crosses ({_GENERIC}), or convert it {elsewhere}"
        )
    return said


def _others(bindings: Bindings) -> str:
    """Which other bindings there are to try."""
    names = [name for name in installed() if name != bindings.package]
    return f" (installed: {', '.join(f'--bindings {name}' for name in names)})" if names else ""


#: What the bindings' RuntimeError says when they cannot make a Python string of what MLIR holds.
_NOT_UNICODE: Final = "str_from_cstr"
#: What their TypeError says of an attribute that is a location: they take it for a class of its own,
#: whose constructor wants something else.
_LOCATION: Final = re.compile(r"\(\w+: [\w.]*\.Location, /\) -> ")


@contextlib.contextmanager
def refused_by_bindings() -> Iterator[None]:
    """Turn what the bindings cannot hand over into a finding.

    That is text that is not UTF-8, which gets into modules and from there into MLIR's messages through
    damaged bytecode, and a location in an attribute's place, which MLIR's parser takes.
    """
    try:
        yield
    except RuntimeError as error:
        if _NOT_UNICODE not in str(error):
            raise
        raise fail(
            "malformed-mlir",
            "",
            "a name, location or message of the module is not UTF-8",
            "the bytecode is damaged; write it again",
        ) from None
    except TypeError as error:
        if not _LOCATION.search(str(error)):
            raise
        raise fail(
            "unsupported-attribute",
            "",
            "the value of an attribute is a location, which the bindings do not hand over",
            "leave the attribute out, or give it another value",
        ) from None
