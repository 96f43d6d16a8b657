"""Recognition of the format of an input or output."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from tosa_convert.errors import TosaConvertError
from tosa_convert.io.files import map_file
from tosa_convert.io.formats import EXTENSIONS, FORMATS, READ_ONLY, WRITTEN, of_path, sniff


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


def test_only_the_first_bytes_decide() -> None:
    # MLIR's parser reports what follows.
    assert sniff(memoryview(b"x" * 4096 + b"\xff\xff"), "x") == "mlir"


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0",
        b"\xff\xfe\xfd",
        b"abc\xff",
        b"\x08",
        b"\x08\x08",
        b"\x08\x08\xff",
        b"P\0",
    ],
)
def test_an_unknown_input_is_refused_with_its_first_bytes(data: bytes) -> None:
    with pytest.raises(TosaConvertError) as caught:
        sniff(memoryview(data), "model.bin")
    (finding,) = caught.value.findings
    assert (finding.code, finding.where, finding.hint) == ("unrecognised-input", "model.bin", "")
    assert repr(data[:8]) in finding.message


def archive(*members: str) -> bytes:
    """Return a ZIP archive with these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for member in members:
            file.writestr(member, bytes(5000))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "what", "hint"),
    [
        (b"\x1c\0\0\0TFL3\x14\0", "a TFLite model", "tosa-flatbuffer-convert"),
        (b"\x08\x08\x12\x07onnx-ml:", "an ONNX model", "tosa-flatbuffer-convert"),
        (b"\x08\x0a\x12\x07pytorch\x1a\x052.9.0", "an ONNX model", "tosa-flatbuffer-convert"),
        (b"\x08\x09:\x80\x01\n\x04", "an ONNX model", "tosa-flatbuffer-convert"),
        (b"\x08\x01\x12\xff\x01\n\x10", "the file of a TensorFlow SavedModel", "folder"),
        (b"\x89HDF\r\n\x1a\n\0\0", "an HDF5 file, such as a Keras model", "tosa-flatbuffer frontends"),
        (archive("metadata.json", "config.json", "model.weights.h5"), "a Keras model",
         "tosa-flatbuffer-convert"),
        (archive("m/archive_format", "m/models/model.json", "m/data/weights/w"),
         "a program of torch.export", "tosa-flatbuffer-convert"),
        (archive("version", "serialized_exported_program.json"),
         "a program of torch.export", "tosa-flatbuffer-convert"),
        (archive("m/data.pkl", "m/data/0", "m/version"), "a file of torch.save", "torch.export"),
        (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", "a file of torch.save", "torch.export"),
        (archive("x.npy"), "a file of NumPy arrays", ""),
        (b"\x93NUMPY\1\0v\0{", "a file of NumPy arrays", ""),
        (archive("readme.txt"), "a ZIP archive", "extract it"),
        (b"PK\3\4\0\0", "a ZIP archive", "extract it"),
        (b"\x1f\x8b\x08\0", "compressed with gzip", "gunzip"),
    ],
)  # fmt: skip
def test_a_model_of_another_framework_is_named_with_the_way_to_tosa(
    data: bytes, what: str, hint: str
) -> None:
    with pytest.raises(TosaConvertError) as caught:
        sniff(memoryview(data), "model.bin")
    (finding,) = caught.value.findings
    assert finding.code == "unrecognised-input"
    assert f"the input is {what}" in finding.message
    assert "expected MLIR text" in finding.message
    assert hint in finding.hint
    assert bool(hint) == bool(finding.hint)


@pytest.mark.parametrize(
    ("name", "claimed"),
    [
        ("m.onnx", "an ONNX model"),
        ("m.tflite", "a TFLite model"),
        ("m.PT2", "a program of torch.export"),
        ("m.keras", "a Keras model"),
        ("m.tosa", "TOSA flatbuffer"),
        ("m.json", "TOSA flatbuffer as JSON"),
        ("m.mlirbc", "MLIR bytecode"),
    ],
)
@pytest.mark.parametrize(
    "data", [b"\xfe\xed\xff\0", b"PK\3\4\0\0", b"Hello, this is text.\n", b"# Words\n"]
)
def test_a_file_that_is_not_what_its_extension_says_is_named(
    name: str, claimed: str, data: bytes
) -> None:
    with pytest.raises(TosaConvertError) as caught:
        sniff(memoryview(data), name)
    (finding,) = caught.value.findings
    assert finding.code == "unrecognised-input"
    assert f"expected {claimed}, as its extension says" in finding.message
    assert "damaged" in finding.hint


@pytest.mark.parametrize(
    ("data", "hint"),
    [(archive("m/data.pkl", "m/version"), "FILE.py:FUNCTION"), (b"\x1f\x8b\x08\0", "gunzip")],
)
def test_a_file_with_the_extension_of_another_says_the_way_to_tosa(data: bytes, hint: str) -> None:
    with pytest.raises(TosaConvertError) as caught:
        sniff(memoryview(data), "m.pt2")
    assert "expected a program of torch.export" in str(caught.value)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("m.tflite", "expected a TFLite model, as its extension says"),
        ("m.tosa", "expected MLIR text"),
    ],
)
def test_an_empty_file_is_refused_with_what_was_expected(name: str, expected: str) -> None:
    with pytest.raises(TosaConvertError, match=f"the input is empty, {expected}"):
        sniff(memoryview(b""), name)


@pytest.mark.parametrize("name", ["notes.txt", "model.py"])
def test_text_that_is_no_program_is_not_taken_for_mlir(name: str) -> None:
    with pytest.raises(TosaConvertError) as caught:
        sniff(memoryview(b"import torch\n"), name)
    assert caught.value.code == "unrecognised-input"


@pytest.mark.parametrize("name", ["m.tosa", "m.txt", "m.json", "m.onnx"])
@pytest.mark.parametrize(
    "text",
    [
        *("module {}", "func.func @f() {}", '"builtin.module"() ({}) : () -> ()', "#a = 1 : i32"),
        *("!t = tensor<2xf32>", "// a comment\nmodule @m {}", "builtin.module {}", "{-# -#}"),
    ],
)
def test_the_content_decides_and_not_the_extension(name: str, text: str) -> None:
    assert sniff(memoryview(text.encode()), name) == "mlir"


def test_a_saved_model_directory_is_named_with_the_way_to_tosa(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    (folder / "variables").mkdir(parents=True)
    with pytest.raises(TosaConvertError) as caught:
        map_file(folder)
    assert caught.value.code == "file-error"
    (folder / "saved_model.pb").write_bytes(b"\x08\x01\x12\0")
    with pytest.raises(TosaConvertError) as caught:
        map_file(folder)
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("unrecognised-input", str(folder))
    assert "a TensorFlow SavedModel" in finding.message
    assert "tosa-flatbuffer-convert" in finding.hint


def test_an_empty_input_is_refused() -> None:
    with pytest.raises(TosaConvertError, match="the input is empty") as caught:
        sniff(memoryview(b""), "model.bin")
    assert caught.value.code == "empty-input"
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_the_extension_tells_the_format_of_an_output(extension: str) -> None:
    assert of_path(f"dir.x/model.y{extension}") == EXTENSIONS[extension]
    assert of_path(f"model{extension.upper()}") == EXTENSIONS[extension]


def test_every_format_has_an_extension() -> None:
    assert set(EXTENSIONS.values()) == set(WRITTEN) == set(FORMATS) - READ_ONLY


@pytest.mark.parametrize(
    "path", ["model", "model.", "model.txt", "model.tosa.bak", ".tosa", "a.tosa/b"]
)
def test_another_extension_is_refused_with_the_choice(path: str) -> None:
    with pytest.raises(TosaConvertError) as caught:
        of_path(path)
    assert caught.value.code == "unknown-format"
    assert caught.value.exit_code == 2
    assert ".tosa" in str(caught.value)
