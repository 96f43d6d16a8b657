"""MLIR files, text and bytecode: read by MLIR's parser, written by MLIR's printer."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from tosa_convert.bindings.detach_weights import detach
from tosa_convert.bindings.diagnostics import diagnostics, form_of, refused_by_bindings
from tosa_convert.bindings.packages import Bindings
from tosa_convert.bindings.source_text import SourceText
from tosa_convert.bindings.untrusted import bytecode, text
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.files import Sink
from tosa_convert.mlir.bytecode.detached import NO_DETACHED_WEIGHTS, DetachedWeights
from tosa_convert.mlir.bytecode.format import MAGIC
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
    *,
    copy: bool = False,
) -> tuple[Any, DetachedWeights]:
    """Parse a module; large weights of bytecode are detached, so that MLIR does not copy them.

    Damaged bytecode that passes `untrusted.bytecode.check` may still crash MLIR's parser, and with it
    this process.

    Args:
        bindings: The bindings that parse.
        context: A context of theirs.
        data: The content of the file: text, or bytecode of any version.
        path: The file; MLIR maps it if its weights are not detached, unless `copy`.
        limits: Bounds for text.
        copy: Copy the weights of bytecode that MLIR reads itself, so that no file stays mapped.

    Returns:
        The ir.Module, and the weights that it lacks.

    Raises:
        TosaConvertError: "malformed-mlir" with MLIR's diagnostics, "foreign-operator" for a program
            of a dialect that these bindings do not define, and the codes of `untrusted.text.check`.
            Findings in text quote the line.
    """
    if bytes(data[: len(MAGIC)]) == MAGIC:
        return _parse_bytecode(bindings, context, data, path, copy=copy)
    text.check(data, path, limits)
    return _parse_whole(bindings, context, data, path), NO_DETACHED_WEIGHTS


def _parse_bytecode(
    bindings: Bindings, context: Any, data: memoryview, path: str, *, copy: bool
) -> tuple[Any, DetachedWeights]:
    detached = detach(data, bytecode.check(data, path))
    if detached is not None:
        module, weights = detached
        # If this fails, MLIR reads the file itself, so that it reports what is wrong with that.
        with suppress(bindings.ir.MLIRError):
            return bindings.ir.Module.parse(module, context), weights
    return _parse_whole(bindings, context, data, path, copy=copy), NO_DETACHED_WEIGHTS


def _parse_whole(
    bindings: Bindings, context: Any, data: memoryview, path: str, *, copy: bool = False
) -> Any:
    """The module, with its weights in MLIR's memory or in a file that MLIR maps."""
    source = SourceText(data, path)
    try:
        # parseFile maps bytecode, so that resources are not copied.
        if path and not copy and _is_utf8(path) and os.path.isfile(path):
            return bindings.ir.Module.parseFile(path, context)
        source = SourceText(data)
        raw = bytes(data)
        is_text = raw[: len(MAGIC)] != MAGIC
        return bindings.ir.Module.parse(raw.decode() if is_text else raw, context)
    except UnicodeDecodeError as error:
        where = SourceText(data, path).where(error.start)
        excerpt = excerpt_at(data, error.start)
        raise fail("malformed-mlir", where, "the text is not UTF-8", excerpt=excerpt) from None
    except bindings.ir.MLIRError as error:
        form = form_of(bytes(data[:_HEAD_BYTES]))
        findings = diagnostics(bindings, error, path, form=form, source=source).findings
        raise TosaConvertError(
            findings if form == "bytecode" else source.with_excerpts(findings)
        ) from None


def _is_utf8(path: str) -> bool:
    """Whether the bindings can be given this path: they take text, and a path may be any bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def dump(module: Any, *, binary: bool, locations: bool = True) -> Callable[[Sink], None]:
    """A function that writes the module to a sink, as bytecode or as text.

    MLIR passes on its output piece by piece, so memory does not grow with the weights.

    Args:
        module: An ir.Module.
        binary: Bytecode, else text.
        locations: Whether text has locations.
    """

    def write(sink: Sink) -> None:
        if binary:
            module.operation.write_bytecode(sink)
        else:
            module.operation.print(file=sink, binary=True, enable_debug_info=locations)
            sink.write(b"\n")

    return write
