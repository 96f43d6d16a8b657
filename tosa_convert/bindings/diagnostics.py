"""Errors that MLIR and its bindings report, as findings."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Final, Literal

from tosa_convert.bindings.packages import Bindings, installed
from tosa_convert.bindings.source_text import UNNAMED, SourceText
from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.mlir.locations import plain_location
from tosa_convert.mlir.lowering_hints import lowering_hint

#: The encoding of the file that MLIR rejects; "" if the module is not from a file.
Form = Literal["", "text", "generic", "bytecode"]

#: What MLIR reports for operators and attributes that the bindings do not define.
_UNKNOWN_OPERATOR: Final = re.compile(
    r"Dialect `[^']*' not found for custom op '([^']+)'"
    r"|custom op '([^'.]+\.[^']+)' is unknown"
    r"|unregistered operation '([^']+)' found in dialect"
)
_UNKNOWN_ATTRIBUTE: Final = re.compile(r"invalid properties (\{[^}]*\}) for op (tosa\.\w+)")
#: What its verifier reports for an operator of TOSA.
_VERIFIER: Final = re.compile(r"'(tosa\.\w+)' op ")
#: What it reports for other dialects: for an operator in the generic form, which it does not name, for
#: a type or attribute, and for bytecode.
_UNNAMED_OPERATOR: Final = "operation being parsed with an unregistered dialect"
_FOREIGN_PART: Final = re.compile(
    r'([!#])"([^"]+)"<"(.*)">.* (type|attribute) created with unregistered dialect', re.DOTALL
)
_FOREIGN_DIALECT: Final = re.compile(r"dialect '([^']+)' is unknown")
#: What it reports for bytecode in which the properties of an operator are encoded differently.
_OTHER_BYTECODE: Final = re.compile(r"missing BytecodeOpInterface|expected mlir::\w+, but got")
#: The name of an operator in the generic form, and the bytes that are searched for it.
_QUOTED_NAME: Final = re.compile(rb'"([\w$.-]+)"\s*\Z')
_LONGEST_NAME: Final = 300

_GENERIC: Final = "get_asm(print_generic_op_form=True), or --mlir-print-op-generic"


def form_of(data: bytes) -> Form:
    """The encoding of a file, by its first bytes."""
    if data.startswith(b"ML\xefR"):
        return "bytecode"
    return "generic" if b'"builtin.module"' in data or b'"func.func"' in data else "text"


def diagnostics(
    bindings: Bindings,
    error: Exception,
    where: str,
    *,
    form: Form = "",
    source: SourceText | None = None,
) -> TosaConvertError:
    """MLIR's error as ours, with one finding for each diagnostic.

    Args:
        bindings: The bindings that raised the error.
        error: Their MLIRError.
        where: The place to report if MLIR reports none.
        form: The encoding of the file that was parsed. Another version of MLIR may have written it;
            the hint says which encoding these bindings would read.
        source: The text that was parsed.
    """
    reported = getattr(error, "error_diagnostics", None) or []
    rows = [(plain_location(str(row.location)), str(row.message)) for row in reported]
    findings = [
        _foreign(place, message, form, where, source)
        or Finding("malformed-mlir", place, message, _hint(bindings, message, form))
        for place, message in rows or [(where, str(error).strip())]
    ]
    return TosaConvertError(findings)


# -- programs of other dialects ---------------------------------------------------------------------


def _foreign(
    place: str, message: str, form: Form, where: str, source: SourceText | None
) -> Finding | None:
    """A finding if MLIR rejects the program because it is in another dialect, else None."""
    if not form:
        return None
    if form == "bytecode":
        # MLIR reports positions in the printed form of a type, which the user has not seen.
        place = where or UNNAMED
    match = _UNKNOWN_OPERATOR.search(message)
    if match is not None:
        return _foreign_operator(place, match[1] or match[2] or match[3])
    if _UNNAMED_OPERATOR in message:
        return _unnamed_operator(place, source)
    match = _FOREIGN_PART.search(message)
    if match is not None:
        sigil, dialect, body, what = match.groups()
        said = f"the {what} {sigil}{dialect}.{body} belongs to the dialect '{dialect}', not to TOSA"
        return Finding("foreign-operator", place, said, lowering_hint(dialect))
    match = _FOREIGN_DIALECT.search(message)
    if match is not None:
        said = f"the program uses the dialect '{match[1]}', which is not TOSA"
        return Finding("foreign-operator", place, said, lowering_hint(match[1]))
    return None


def _foreign_operator(place: str, name: str) -> Finding | None:
    # Operators of these dialects are written wrongly, or belong to another version of the dialect.
    if name.partition(".")[0] in ("tosa", "func", "builtin"):
        return None
    message = f"'{name}' is not a TOSA operator"
    return Finding("foreign-operator", place, message, lowering_hint(name))


def _unnamed_operator(place: str, source: SourceText | None) -> Finding | None:
    """The finding for an operator that MLIR does not name; it reports the position after the name."""
    offset = source.offset(place) if source is not None else None
    if source is None or offset is None:
        return None
    start = max(0, offset - _LONGEST_NAME)
    match = _QUOTED_NAME.search(bytes(source.data[start:offset]))
    if match is None:
        return None
    return _foreign_operator(source.where(start + match.start()), match[1].decode())


# -- hints ------------------------------------------------------------------------------------------


def _hint(bindings: Bindings, message: str, form: Form) -> str:
    """What reported the error, and what to do if another version of MLIR wrote the file."""
    elsewhere = (
        f"convert it with the bindings that wrote it{_other_bindings(bindings)}"
        if form
        else "use other bindings"
    )
    operator = _UNKNOWN_OPERATOR.search(message)
    name = next(filter(None, operator.groups())) if operator is not None else ""
    if name.startswith("tosa."):
        return (
            f"{bindings} does not define {name}, in any syntax: "
            f"{elsewhere}, or decompose the operator first"
        )
    attribute = _UNKNOWN_ATTRIBUTE.search(message)
    if attribute is not None:
        return (
            f"{bindings} does not define the attribute {attribute[1]} of {attribute[2]}, in any "
            f"syntax: remove the attribute, or {elsewhere}"
        )
    reporter = f"reported by {bindings}"
    if form == "bytecode" and _OTHER_BYTECODE.search(message):
        return (
            f"{reporter}; other versions of MLIR encode this operator differently in bytecode. "
            f"Write it in the generic text form ({_GENERIC}), or {elsewhere}"
        )
    operator = _VERIFIER.match(message)
    if form in ("text", "generic") and operator is not None:
        return (
            f"{reporter}; if other tools read the file: versions of MLIR define {operator[1]} "
            f"differently, so {elsewhere}"
        )
    if form == "text":
        return (
            f"{reporter}; if other tools read the file: the syntax of TOSA operators differs between "
            f"versions of MLIR. Write it in the generic form ({_GENERIC}), or {elsewhere}"
        )
    return reporter


def _other_bindings(bindings: Bindings) -> str:
    """The options that select the other installed bindings."""
    names = [name for name in installed() if name != bindings.package]
    return f" (installed: {', '.join(f'--bindings {name}' for name in names)})" if names else ""


# -- what the bindings cannot convert to Python -----------------------------------------------------

#: Part of the bindings' RuntimeError for a string that is not UTF-8.
_NOT_UTF8: Final = "str_from_cstr"
#: Part of their TypeError for an attribute that is a location: they choose a class for it whose
#: constructor takes something else.
_LOCATION_ATTRIBUTE: Final = re.compile(r"\(\w+: [\w.]*\.Location, /\) -> ")


@contextlib.contextmanager
def refused_by_bindings() -> Iterator[None]:
    """Report what the bindings cannot convert to Python as a finding.

    That is text that is not UTF-8, which damaged bytecode brings into modules and so into MLIR's
    messages, and a location as the value of an attribute, which MLIR's parser accepts.
    """
    try:
        yield
    except RuntimeError as error:
        if _NOT_UTF8 not in str(error):
            raise
        raise fail(
            "malformed-mlir",
            "",
            "a name, location or message of the module is not UTF-8",
            "the bytecode is damaged; write it again",
        ) from None
    except TypeError as error:
        if not _LOCATION_ATTRIBUTE.search(str(error)):
            raise
        raise fail(
            "unsupported-attribute",
            "",
            "the value of an attribute is a location, which the bindings cannot convert to Python",
            "remove the attribute, or give it another value",
        ) from None
