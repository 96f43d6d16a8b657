"""The file formats: content decides that of an input, the extension that of an output."""

from __future__ import annotations

import os
import re
from typing import Final, Literal, NamedTuple

from tosa_convert.errors import TosaConvertError, fail, suggest

Format = Literal["mlir", "mlirbc", "tosa", "json", "vgf", "spv", "pte"]

#: Format -> its description.
FORMATS: Final[dict[Format, str]] = {
    "mlir": "MLIR text",
    "mlirbc": "MLIR bytecode",
    "tosa": "TOSA flatbuffer",
    "json": "TOSA flatbuffer as JSON",
    "vgf": "VGF file",
    "spv": "SPIR-V module",
    "pte": "ExecuTorch program",
}
#: Formats that are read, and not written.
READ_ONLY: Final = frozenset[Format](("vgf", "spv", "pte"))
#: Formats that are written.
WRITTEN: Final = tuple(name for name in FORMATS if name not in READ_ONLY)
#: Extension of a file -> its format. The first extension of a format is the preferred one.
EXTENSIONS: Final[dict[str, Format]] = {
    ".mlir": "mlir",
    ".mlirbc": "mlirbc",
    ".bc": "mlirbc",
    ".tosa": "tosa",
    ".json": "json",
}


class WeightFile(NamedTuple):
    """A form of weights in files of their own.

    extension: of the file or folder. where: how messages say that weights are in it. sign: the first
    bytes of a file, or b"" if they do not tell. is_written: whether it can be an output.
    """

    extension: str
    where: str
    sign: bytes = b""
    is_written: bool = True


#: Form of weights -> its row. Beside a program, those that are written are looked for.
WEIGHT_FILES: Final = {
    "npy": WeightFile(".weights", "in .npy files"),
    "safetensors": WeightFile(".safetensors", "in a safetensors file"),
    "irpa": WeightFile(".irpa", "in a parameter archive of IREE", b"IRPA"),
    "gguf": WeightFile(".gguf", "in a GGUF file", b"GGUF", is_written=False),
}
#: Formats that need MLIR's Python bindings.
MLIR_FORMATS: Final = frozenset({"mlir", "mlirbc"})

_BYTECODE: Final = b"ML\xefR"
#: A portable artifact of StableHLO: bytecode, a version of it, and the producer.
_ARTIFACT: Final = rb"(?s)ML\xefR.StableHLO_v"
#: Operations of these dialects at the start of a line of text, or after results.
_OPERATION: Final = r"(?m)^[ \t]*(?:%[\w$.:, %#-]+=[ \t]*)?\"?(?:DIALECTS)\.\w"
#: Bytes at both ends of a module that are searched for them.
_MODULE_BYTES: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"
#: Text that can precede the first word: white space, and comments of MLIR and of our JSON.
_COMMENTS: Final = rb"(?s)\A(?:\s+|//[^\n]*\n?|/\*.*?\*/)*"
#: Bytes at the start of an input that decide its format.
_SNIFF_BYTES: Final = 4096
#: Bytes at the end of a ZIP archive that are searched for the names of its members.
_ZIP_TAIL_BYTES: Final = 1 << 16
#: Characters that a text does not contain: control characters other than white space.
_CONTROLS: Final = bytes({*range(32)} - {*b"\t\n\v\f\r"})


class _OtherModel(NamedTuple):
    """A format of models of frameworks: its name, what to do with it, and the frontend that reads it."""

    what: str
    hint: str
    frontend: str = ""


_CONVERT: Final = (
    "convert it first: tosa-flatbuffer-convert MODEL -o MODEL.tosa, or "
    "tosa_convert.frontends.from_file; `tosa-flatbuffer frontends` says what that needs"
)
_TFLITE: Final = _OtherModel("a TFLite model", _CONVERT, "tflite")
_ONNX: Final = _OtherModel("an ONNX model", _CONVERT, "onnx")
_KERAS: Final = _OtherModel("a Keras model", _CONVERT, "keras")
_SAVED_MODEL_FILE: Final = _OtherModel(
    "the file of a TensorFlow SavedModel", "give the folder that contains it"
)
_SAVED_MODEL: Final = _OtherModel("a TensorFlow SavedModel", _CONVERT, "tensorflow")
_GRAPH_DEF: Final = _OtherModel("a TensorFlow GraphDef", _CONVERT, "tensorflow")
_HDF5: Final = _OtherModel("an HDF5 file, such as a Keras model", _CONVERT, "keras")
_EXPORTED_PROGRAM: Final = _OtherModel("a program of torch.export", _CONVERT, "torch")
_STABLEHLO: Final = _OtherModel("a module of StableHLO", _CONVERT, "stablehlo")
_TORCH_MODULE: Final = _OtherModel("a module of the torch dialect", _CONVERT, "torch-mlir")
_EXPORT: Final = (
    "write a Python function that builds the module, loads its weights and returns (module.eval(), "
    "example arguments), and convert FILE.py:FUNCTION; or a .pt2 file of torch.export.save"
)
_TORCH: Final = _OtherModel("a file of torch.save", _EXPORT)
_TORCH_SCRIPT: Final = _OtherModel("a TorchScript program of torch.jit.save", _EXPORT)
_NUMPY: Final = _OtherModel("a file of NumPy arrays, not a program", "")
_WEIGHTS: Final = _OtherModel(
    "a file of weights, not a program",
    "put them into a program: tosa-flatbuffer weights import PROGRAM FILE -o OUT",
)
_ZIP: Final = _OtherModel("a ZIP archive", "extract it and convert the model that it holds")
_GZIP: Final = _OtherModel("compressed with gzip", "decompress it first: gunzip")


class _Dialects(NamedTuple):
    """Dialects whose modules are models, and how text and bytecode show that they have them."""

    model: _OtherModel
    words: tuple[bytes, ...]
    text: bytes
    bytecode: bytes


def _dialects(model: _OtherModel, *names: str) -> _Dialects:
    joined = "|".join(names)
    return _Dialects(
        model,
        tuple(f"{name}.".encode() for name in names),
        _OPERATION.replace("DIALECTS", joined).encode(),
        rf"\0(?:{joined})\0".encode(),
    )


_DIALECTS: Final = (
    _dialects(_STABLEHLO, "stablehlo", "chlo", "vhlo", "mhlo"),
    _dialects(_TORCH_MODULE, "torch"),
)

#: Names of members -> the kind of a ZIP archive; the first match decides.
_ZIP_MEMBERS: Final = (
    (b"model.weights.h5", _KERAS),
    (b"archive_format", _EXPORTED_PROGRAM),
    (b"serialized_exported_program", _EXPORTED_PROGRAM),
    (b"constants.pkl", _TORCH_SCRIPT),
    (b"data.pkl", _TORCH),
    (b".npy", _NUMPY),
)
_MODELS: Final = {
    ".tflite": _TFLITE,
    ".onnx": _ONNX,
    ".pt2": _EXPORTED_PROGRAM,
    ".keras": _KERAS,
    ".h5": _HDF5,
}
#: Extensions of files that may be models of frameworks.
MODEL_EXTENSIONS: Final = tuple(_MODELS)
#: Extension -> what it says that a file is.
_CLAIMS: Final = {
    **{extension: kind.what for extension, kind in _MODELS.items()},
    **{extension: FORMATS[name] for extension, name in EXTENSIONS.items()},
}
#: How MLIR's text begins: an alias, a value, a name in quotes, or the name of an operation.
_BEGINS_MLIR: Final = rb"[#!][A-Za-z_]|[%^@\"{]|module\b|func\b|[a-z_]\w*\.\w"
#: Wire tags that follow `ir_version` in an ONNX ModelProto: producer_name to opset_import.
_ONNX_TAGS: Final = frozenset(b"\x12\x1a\x22\x28\x32\x3a\x42")
#: How a GraphDef begins: a node, its name, and its operator.
_BEGINS_GRAPH_DEF: Final = (
    rb"\n[\x80-\xff]{0,4}[\x01-\x7f]\n[\x01-\x7f][A-Za-z0-9.][\w.\\/>-]{0,126}"
    rb"\x12[\x02-\x7f][A-Z_]\w+"
)


def sniff(data: memoryview, where: str) -> Format:
    """Detect the format of an input, from its first bytes."""
    extension = os.path.splitext(where)[1].lower()
    if not len(data):
        expected = _expected()
        if extension in _MODELS:
            expected = f"{_CLAIMS[extension]}, as its extension says"
        raise fail("empty-input", where, f"the input is empty, expected {expected}")
    head = bytes(data[:_SNIFF_BYTES])
    if module := _module_of_dialects(data, head):
        raise _unrecognised(module, head, where)
    if head.startswith(_BYTECODE):
        return "mlirbc"
    if head[4:8] == b"TOSA":
        return "tosa"
    if head.startswith(b"VGF1"):
        return "vgf"
    if head.startswith(b"\x03\x02\x23\x07"):
        return "spv"
    if head[4:8] == b"ET12":
        return "pte"
    if head.translate(None, _CONTROLS) == head:
        text = re.sub(_COMMENTS, b"", head.removeprefix(_BOM), count=1)
        # A JSON object starts with a brace, and so does `{-#`, the resource section of MLIR.
        if text.startswith(b"{") and not text.startswith(b"{-#"):
            return "json"
        # Text without a sign of another format is MLIR's, and its parser says what is wrong.
        if _is_text(head) and (extension in ("", ".mlir") or re.match(_BEGINS_MLIR, text)):
            return "mlir"
    raise _unrecognised(_other_model(data, head), head, where)


def _unrecognised(other: _OtherModel | None, head: bytes, where: str) -> TosaConvertError:
    found = f"is {other.what}" if other else f"starts with {head[:8]!r}"
    hint = other.hint if other else ""
    claimed = _CLAIMS.get(os.path.splitext(where)[1].lower())
    is_module = any(other is row.model for row in _DIALECTS)
    if is_module or claimed in (None, other and other.what):
        return fail("unrecognised-input", where, f"the input {found}, expected {_expected()}", hint)
    message = f"the input {found}, expected {claimed}, as its extension says"
    if other is None or other is _ZIP or other.frontend or not hint:
        hint = "the file is damaged or incomplete, or has the extension of another format"
    return fail("unrecognised-input", where, message, hint)


def _expected() -> str:
    return ", ".join(FORMATS.values())


def _is_text(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # The last character can be cut off at the end of the window.
        return len(head) == _SNIFF_BYTES and error.start > _SNIFF_BYTES - 4
    return True


def _other_model(data: memoryview, head: bytes) -> _OtherModel | None:
    """Return the model format of another framework that the input is in, or None."""
    if head[4:8] == b"TFL3":
        return _TFLITE
    if head.startswith(b"PK\3\4"):
        names = head + bytes(data[-_ZIP_TAIL_BYTES:])
        return next((kind for member, kind in _ZIP_MEMBERS if member in names), _ZIP)
    if re.search(_ARTIFACT, head):
        return _STABLEHLO
    if head.startswith(b"\x89HDF\r\n"):
        return _HDF5
    if head.startswith(b"\x93NUMPY"):
        return _NUMPY
    if weights_kind(data):
        return _WEIGHTS
    if head.startswith(b"\x1f\x8b"):
        return _GZIP
    # torch.save before 1.6: a pickle of a magic number.
    if head.startswith(b"\x80\x02\x8a\x0al\xfc"):
        return _TORCH
    # SavedModel has schema version 1 and then its graphs, ONNX the version of its IR and then any field.
    if head.startswith(b"\x08\x01\x12"):
        return _SAVED_MODEL_FILE
    if re.match(_BEGINS_GRAPH_DEF, head):
        return _GRAPH_DEF
    if len(head) > 2 and head[0] == 8 and 1 < head[1] < 32 and head[2] in _ONNX_TAGS:
        return _ONNX
    return None


def weights_kind(data: memoryview) -> str:
    """Return the form of weights of a file, "" if none; safetensors is told by its header of JSON."""
    head = bytes(data[:16])
    for name, row in WEIGHT_FILES.items():
        if row.sign and head.startswith(row.sign):
            return name
    is_header = head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= len(data) - 8
    return "safetensors" if is_header else ""


def model_kind(data: memoryview) -> str:
    """Return the name of the frontend that reads a file; "" if it is not a model of a framework."""
    head = bytes(data[:_SNIFF_BYTES])
    other = _other_model(data, head)
    if other is None:
        other = _module_of_dialects(data, head)
    return other.frontend if other is not None else ""


def _module_of_dialects(data: memoryview, head: bytes) -> _OtherModel | None:
    """Return what a module of MLIR is whose operations are of a framework, and none of TOSA."""
    # In bytecode the names are at the end, after weights.
    parts = [bytes(data[:_MODULE_BYTES])]
    is_bytecode = head.startswith(_BYTECODE)
    if is_bytecode:
        parts.append(bytes(data[-_MODULE_BYTES:]))
    if any((b"\0tosa\0" if is_bytecode else b"tosa.") in part for part in parts):
        return None
    for row in _DIALECTS:
        if not is_bytecode and not any(word in parts[0] for word in row.words):
            continue
        pattern = row.bytecode if is_bytecode else row.text
        if any(re.search(pattern, part) for part in parts):
            return row.model
    return None


def is_saved_model(path: str | os.PathLike[str]) -> bool:
    """Return whether a directory holds a TensorFlow SavedModel."""
    return os.path.isfile(os.path.join(path, "saved_model.pb"))


def refuse_model_directory(path: str | os.PathLike[str]) -> None:
    """Raise TosaConvertError("unrecognised-input") if the path is a directory that holds a model."""
    if is_saved_model(path):
        message = f"the input is {_SAVED_MODEL.what}, expected {_expected()}"
        raise fail("unrecognised-input", os.fspath(path), message, _SAVED_MODEL.hint)


def of_path(path: str | os.PathLike[str]) -> Format:
    """Return the format of an output, from its extension.

    Example:
        >>> of_path("model.tosa"), of_path("MODEL.BC")
        ('tosa', 'mlirbc')
    """
    extension = os.path.splitext(os.fspath(path))[1].lower()
    if extension not in EXTENSIONS:
        raise fail(
            "unknown-format",
            os.fspath(path),
            f"the extension {extension!r} does not name a format, expected one of "
            + ", ".join(EXTENSIONS),
            suggest(extension, EXTENSIONS, "choose the format with --to"),
        )
    return EXTENSIONS[extension]
