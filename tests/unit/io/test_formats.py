"""Recognition of the format of an input or output."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from refusing import refused

from tosa_convert.errors import TosaConvertError
from tosa_convert.io.files import map_file
from tosa_convert.io.formats import EXTENSIONS, FORMATS, READ_ONLY, WRITTEN, sniff


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


def test_a_saved_model_directory_is_named_with_the_way_to_tosa(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    (folder / "variables").mkdir(parents=True)
    with refused("file-error") as caught:
        map_file(folder)
    (folder / "saved_model.pb").write_bytes(b"\x08\x01\x12\0")
    with pytest.raises(TosaConvertError) as caught:
        map_file(folder)
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("unrecognised-input", str(folder))
    assert "a TensorFlow SavedModel" in finding.message
    assert "tosa-flatbuffer-convert" in finding.hint


def test_every_format_has_an_extension() -> None:
    assert set(EXTENSIONS.values()) == set(WRITTEN) == set(FORMATS) - READ_ONLY
