"""Errors that MLIR and its bindings report, as findings."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Final

from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.mlir.locations import plain_location

#: What MLIR reports for an operator that the bindings do not define.
_UNKNOWN_OPERATOR: Final = re.compile(r"unregistered operation '(tosa\.[^']+)' found in dialect")


def diagnostics(bindings: Bindings, error: Exception, where: str) -> TosaConvertError:
    """MLIR's error as ours, with one finding for each diagnostic."""
    reported = getattr(error, "error_diagnostics", None) or []
    rows = [(plain_location(str(row.location)), str(row.message)) for row in reported]
    return TosaConvertError(
        Finding("malformed-mlir", place, message, _hint(bindings, message))
        for place, message in rows or [(where, str(error).strip())]
    )


def _hint(bindings: Bindings, message: str) -> str:
    operator = _UNKNOWN_OPERATOR.search(message)
    if operator is not None:
        return (
            f"{bindings} does not define {operator[1]}: "
            "use other bindings, or decompose the operator first"
        )
    return f"reported by {bindings}"


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
        message = "a name, location or message of the module is not UTF-8"
        hint = "the bytecode is damaged; write it again"
        raise fail("malformed-mlir", "", message, hint) from None
    except TypeError as error:
        if not _LOCATION_ATTRIBUTE.search(str(error)):
            raise
        raise fail(
            "unsupported-attribute",
            "",
            "the value of an attribute is a location, which the bindings cannot convert to Python",
            "remove the attribute, or give it another value",
        ) from None
