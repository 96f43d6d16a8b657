"""MLIR text, read by MLIR's parser."""

from __future__ import annotations

import os
from typing import Any, Final

from tosa_convert.bindings.diagnostics import diagnostics, form_of, refused_by_bindings
from tosa_convert.bindings.packages import Bindings
from tosa_convert.bindings.source_text import SourceText
from tosa_convert.bindings.untrusted import text
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.options import DEFAULT_LIMITS, Limits
from tosa_convert.source_excerpt import excerpt_at

#: Bytes of a file that are read to determine its encoding.
_HEAD_BYTES: Final = 1 << 16


@refused_by_bindings()
def parse(
    bindings: Bindings,
    context: Any,
    data: memoryview,
    path: str = "",
    limits: Limits = DEFAULT_LIMITS,
) -> Any:
    """Parse a module from text.

    Args:
        bindings: The bindings that parse.
        context: A context of theirs.
        data: The text.
        path: The file that it is the content of, or "".
        limits: Bounds for text.

    Returns:
        The ir.Module.

    Raises:
        TosaConvertError: "malformed-mlir" with MLIR's diagnostics, "foreign-operator" for a program
            of a dialect that these bindings do not define, and the codes of `untrusted.text.check`.
            Findings quote the line.
    """
    text.check(data, path, limits)
    source = SourceText(data, path)
    try:
        if path and _is_utf8(path) and os.path.isfile(path):
            return bindings.ir.Module.parseFile(path, context)
        source = SourceText(data)
        return bindings.ir.Module.parse(bytes(data).decode(), context)
    except UnicodeDecodeError as error:
        where = SourceText(data, path).where(error.start)
        excerpt = excerpt_at(data, error.start)
        raise fail("malformed-mlir", where, "the text is not UTF-8", excerpt=excerpt) from None
    except bindings.ir.MLIRError as error:
        form = form_of(bytes(data[:_HEAD_BYTES]))
        findings = diagnostics(bindings, error, path, form=form, source=source).findings
        raise TosaConvertError(source.with_excerpts(findings)) from None


def _is_utf8(path: str) -> bool:
    """Whether the bindings can be given this path: they take text, and a path may be any bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
