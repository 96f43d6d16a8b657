"""Which format is it?"""

from __future__ import annotations

import pytest

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats import EXTENSIONS, FORMATS, of_path, sniff


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"ML\xefR\x0d", "mlirbc"),
        (b"ML\xefR" + bytes(10_000), "mlirbc"),
        (b"\x10\0\0\0TOSA", "tosa"),
        (b"    TOSA is what this text starts with", "tosa"),
        (b"{}", "json"),
        (b'  \n\t{\n  "version": 1', "json"),
        (b"\xef\xbb\xbf{}", "json"),
        (b"module {}", "mlir"),
        (b"\n// a comment\nfunc.func @f() {}", "mlir"),
        (b"{-# dialect_resources: {} #-}", "mlir"),
        (b"  {-#", "mlir"),
        (b"\xef\xbb\xbfmodule {}", "mlir"),
        ("// Ünïcödé".encode(), "mlir"),
        (b"x" * 4095 + "é".encode() * 10, "mlir"),
        (b"x" * 4094 + "\N{GRINNING FACE}".encode() * 10, "mlir"),
        (b"#loc = loc(unknown)", "mlir"),
    ],
)
def test_the_content_tells_the_format(data: bytes, expected: str) -> None:
    assert sniff(memoryview(data), "x") == expected


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"\x1c\0\0\0TFL3\x14\0", "tosa-converter-for-tflite"),
        (b"\x08\x08\x12\x07onnx-ml:", "lower it to TOSA first"),
        (b"\x89PNG\r\n\x1a\n\0", ""),
        (b"PK\3\4\0\0", ""),
        (b"\xff\xfe\xfd", ""),
        (b"abc\xff", ""),
        (b"x" * 4096 + b"\xff\xff", "mlir"),
    ],
)
def test_anything_else_is_refused_with_what_was_found(data: bytes, hint: str) -> None:
    if hint == "mlir":
        # Only the first bytes are looked at: MLIR's own parser finds the rest.
        assert sniff(memoryview(data), "x") == "mlir"
        return
    with pytest.raises(TosaConvertError) as caught:
        sniff(memoryview(data), "model.bin")
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("unrecognised-input", "model.bin")
    assert repr(data[:8]) in finding.message
    assert hint in finding.hint
    assert bool(hint) == bool(finding.hint)


def test_nothing_is_refused_as_nothing() -> None:
    with pytest.raises(TosaConvertError, match="the input is empty") as caught:
        sniff(memoryview(b""), "model.bin")
    assert caught.value.code == "empty-input"
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_the_extension_tells_the_format_of_an_output(extension: str) -> None:
    assert of_path(f"dir.x/model.y{extension}") == EXTENSIONS[extension]
    assert of_path(f"model{extension.upper()}") == EXTENSIONS[extension]


def test_every_format_has_an_extension() -> None:
    assert set(EXTENSIONS.values()) == set(FORMATS)


@pytest.mark.parametrize(
    "path", ["model", "model.", "model.txt", "model.tosa.bak", ".tosa", "a.tosa/b"]
)
def test_another_extension_is_refused_with_the_choice(path: str) -> None:
    with pytest.raises(TosaConvertError) as caught:
        of_path(path)
    assert caught.value.code == "unknown-format"
    assert caught.value.exit_code == 2
    assert ".tosa" in str(caught.value)
