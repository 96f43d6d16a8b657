"""Which format is it? The input tells by its content, the output by its extension."""

from __future__ import annotations

import os
import re
from typing import Final, Literal, get_args

from tosa_convert.errors import fail

Format = Literal["mlir", "mlirbc", "tosa", "json"]

#: Format -> what it is.
FORMATS: Final[dict[Format, str]] = {
    "mlir": "MLIR text",
    "mlirbc": "MLIR bytecode",
    "tosa": "TOSA flatbuffer",
    "json": "TOSA flatbuffer as JSON",
}
EXTENSIONS: Final[dict[str, Format]] = {
    ".mlir": "mlir",
    ".mlirbc": "mlirbc",
    ".bc": "mlirbc",
    ".tosa": "tosa",
    ".json": "json",
}
#: Formats that only MLIR's bindings can read or write.
MLIR_FORMATS: Final = frozenset({"mlir", "mlirbc"})

Weights = Literal["auto", "embedded", "offset", "npy"]
#: Where a flatbuffer's weights may be asked to go.
WEIGHTS: Final[tuple[Weights, ...]] = get_args(Weights)

_BYTECODE: Final = b"ML\xefR"
_BOM: Final = b"\xef\xbb\xbf"
#: What may stand before a text's first word: blanks, and comments as MLIR and our JSON have them.
_COMMENTS: Final = re.compile(rb"\A(?:\s+|//[^\n]*\n?|/\*.*?\*/)*", re.DOTALL)
#: Bytes looked at to tell a format.
_SNIFF: Final = 4096
#: Characters that no text has: all below a blank but white space.
_CONTROLS: Final = bytes({*range(32)} - {*b"\t\n\v\f\r"})


def sniff(data: memoryview, where: str) -> Format:
    """The format of an input, by its first bytes.

    Raises TosaConvertError("empty-input" or "unrecognised-input").
    """
    if not len(data):
        raise fail(
            "empty-input", where, "the input is empty, expected " + ", ".join(FORMATS.values())
        )
    head = bytes(data[:_SNIFF])
    if head.startswith(_BYTECODE):
        return "mlirbc"
    if head[4:8] == b"TOSA":
        return "tosa"
    if head.translate(None, _CONTROLS) == head:
        text = _COMMENTS.sub(b"", head.removeprefix(_BOM), count=1)
        # A JSON object; MLIR's own leading brace is that of `{-#`, its resources.
        if text.startswith(b"{") and not text.startswith(b"{-#"):
            return "json"
        if _is_text(head):
            return "mlir"
    hint = ""
    if head[4:8] == b"TFL3":
        hint = "this is a TFLite model: convert it first with tosa-converter-for-tflite"
    elif head.startswith(b"\x08") and b"onnx" in head[:64].lower():
        hint = "this looks like an ONNX model: lower it to TOSA first"
    raise fail(
        "unrecognised-input",
        where,
        f"the input starts with {head[:8]!r}, expected " + ", ".join(FORMATS.values()),
        hint,
    )


def _is_text(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # The window may have cut a character in two.
        return len(head) == _SNIFF and error.start > _SNIFF - 4
    return True


def of_path(path: str | os.PathLike[str]) -> Format:
    """The format of an output, by its extension.

    Raises TosaConvertError("unknown-format").
    """
    extension = os.path.splitext(os.fspath(path))[1].lower()
    found = EXTENSIONS.get(extension)
    if found is None:
        raise fail(
            "unknown-format",
            os.fspath(path),
            f"the extension {extension!r} names no format, expected one of "
            + ", ".join(EXTENSIONS),
            "choose the format with --to",
        )
    return found
