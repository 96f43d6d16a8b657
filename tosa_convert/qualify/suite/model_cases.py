"""Find the cases of a suite of models: models, factories in Python files, and ONNX node tests."""

from __future__ import annotations

import ast
import contextlib
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np

from tosa_convert.errors import Finding, Findings, TosaConvertError, fail
from tosa_convert.frontends.onnx.header import read_onnx
from tosa_convert.frontends.protobuf import fields, message, numbers
from tosa_convert.frontends.table import frontend, recognize
from tosa_convert.golden.arrays import Array, Shape, fits, load_npz
from tosa_convert.golden.backends.process import files_of_python
from tosa_convert.graph.constant import sign_extend, unpack
from tosa_convert.graph.model import quoted
from tosa_convert.io import log
from tosa_convert.io.files import map_file, open_regular, walk
from tosa_convert.io.formats import MODEL_EXTENSIONS, is_saved_model

_PREFIX: Final = "make_"
#: The file of an ONNX node test, and the folders with its inputs and outputs.
NODE_TEST_MODEL: Final = "model.onnx"
#: Instead of a model's extension: its inputs by name.
INPUTS_SUFFIX: Final = ".inputs.npz"
DATA_SETS: Final = "test_data_set_*"


@dataclass(frozen=True, slots=True)
class Cases:
    """Hold the cases below a folder.

    root: the folder that the names begin at. names: `FRONTEND/PATH`, and `:FUNCTION` for a factory,
        sorted.
    left_out: frontend -> the cases that it would have, if it had been asked for.
    """

    root: Path
    names: list[str]
    left_out: dict[str, int]


def find_cases(given: Sequence[str], frontends: Collection[str]) -> Cases:
    findings: list[Finding] = []
    for name in frontends:
        try:
            frontend(name)
        except TosaConvertError as error:
            findings += error.findings
    if findings:
        raise TosaConvertError(findings)
    paths = [os.path.abspath(text) for text in given]
    root = Path(os.path.commonpath(paths))
    if not root.is_dir() or is_node_test(root) or is_saved_model(root):
        root = root.parent
    names: list[str] = []
    left_out: Counter[str] = Counter()
    for path in paths:
        for name, source in _named(path):
            if name in frontends:
                names.append(f"{name}/{os.path.relpath(source, root).replace(os.sep, '/')}")
            else:
                left_out[name] += 1
    if not names:
        found = ", ".join(f"{count} for {name}" for name, count in sorted(left_out.items()))
        message = f"no case for {', '.join(frontends)}" + (f"; there are {found}" if found else "")
        hint = (
            f"models ({', '.join(MODEL_EXTENSIONS)}, SavedModel), Python files with functions make_*, "
            "folders with model.onnx and test_data_set_0"
        )
        raise fail("unrecognised-input", ", ".join(given), message, hint)
    return Cases(root, sorted(set(names)), dict(left_out))


def source_of(root: Path, name: str) -> tuple[str, str]:
    """Return the frontend of a case, and its model as a frontend recognises it."""
    kind, _, path = name.partition("/")
    return kind, str(root / path)


def files_of_model(root: str, name: str) -> list[str]:
    """List the files that decide a case: its model, all that it names or imports, and its inputs."""
    _, source = source_of(Path(root), name)
    path = Path(source.rpartition(":")[0] if ".py:" in source else source)
    if path.is_dir():
        return [os.path.join(folder, file) for folder, files in walk(path) for file in files]
    if path.suffix == ".py":
        return [str(found) for found in files_of_python(path)]
    inputs = path.with_suffix(INPUTS_SUFFIX)
    return [str(path), *([str(inputs)] if inputs.exists() else []), *_external_data(path)]


def _external_data(model: Path) -> Iterator[str]:
    """Yield the files beside or below an ONNX model whose names are in it."""
    if model.suffix != ".onnx":
        return
    with contextlib.suppress(TosaConvertError), open_regular(model) as file:
        content = file.read()
        for folder, names in walk(model.parent):
            for name in names:
                place = os.path.relpath(os.path.join(folder, name), model.parent)
                if (
                    not name.endswith(MODEL_EXTENSIONS)
                    and os.fsencode(place.replace(os.sep, "/")) in content
                ):
                    yield os.path.join(folder, name)


def is_node_test(folder: Path) -> bool:
    """Return whether a folder is a test of ONNX: a model, and inputs with what it must give."""
    return (folder / NODE_TEST_MODEL).is_file() and any(folder.glob(DATA_SETS))


def inputs_of(model: Path, shapes: Mapping[str, Shape]) -> dict[str, Array]:
    """Return the arrays that a model brings along: `lenet.inputs.npz` beside `lenet.tflite`."""
    path = model.with_suffix(INPUTS_SUFFIX)
    if model.suffix not in MODEL_EXTENSIONS or not path.is_file():
        return {}
    arrays = load_npz(path, shapes)
    findings = Findings()
    for key, array in arrays.items():
        if key not in shapes:
            message = f"the inputs are {', '.join(map(quoted, shapes)) or 'none'}"
        elif not fits(array.shape, shapes[key]):
            message = f"found shape {list(array.shape)}, expected {list(shapes[key])}"
        else:
            continue
        findings.add("input-mismatch", f"{path}: {quoted(key)}", message)
    findings.raise_if_any()
    return arrays


def _named(text: str) -> Iterator[tuple[str, str]]:
    """Return frontend and model of each case that a path of the user's names: `file.py:NAME` is one."""
    model = recognize(text) if ".py:" in text else None
    if model is not None:
        yield model.frontend, model.shown
    elif os.path.exists(text):
        yield from _cases(Path(text))
    else:
        raise fail("file-error", text, "cannot be read: there is no such file or folder")


def _cases(path: Path) -> Iterator[tuple[str, str]]:
    """Return frontend and model of each case in a file or below a folder."""
    if path.is_file():
        yield from _of_file(path)
    elif is_node_test(path):
        yield "onnx", str(path)
    elif is_saved_model(path):
        yield "tensorflow", str(path)
    else:
        for child in sorted(path.iterdir()):
            is_hidden = child.name.startswith((".", "__"))
            if not is_hidden and (child.is_dir() or child.suffix in (*MODEL_EXTENSIONS, ".py")):
                yield from _cases(child)


def _of_file(path: Path) -> Iterator[tuple[str, str]]:
    if path.suffix != ".py":
        model = recognize(str(path))
        if model is None:
            log.warning("%s is not a case: no frontend reads it", path)
        else:
            yield model.frontend, str(path)
        return
    try:
        models = [recognize(f"{path}:{name}") for name in _factories(path)]
    except (TosaConvertError, SyntaxError, ValueError) as error:
        log.warning("%s has no cases: %s", path, error)
        return
    for model in models:
        if model is not None:
            yield model.frontend, model.shown


def _factories(path: Path) -> list[str]:
    """Find the functions of a Python file that make a model, or are assigned to such a name."""
    names: list[str] = []
    for node in ast.parse(path.read_bytes(), str(path)).body:
        if isinstance(node, ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [name for name in names if name.startswith(_PREFIX)]


def short_name(name: str) -> str:
    """Return what a case is called in a table: its network, without where it is.

    Example:
        >>> short_name("torch/nets/vision.py:make_lenet"), short_name("tflite/lenet.tflite")
        ('lenet', 'lenet')
    """
    path, colon, member = name.rpartition(":")
    return member.removeprefix(_PREFIX) if colon and path.endswith(".py") else Path(name).stem


# -- what ONNX's files say, read without the package onnx: tensors, and the operators of a model ---
# Field numbers are those of ONNX's schema, onnx.proto.

#: ONNX's number of an element type -> its elements. Those of 4 bits have a byte each here.
_TYPES: Final[dict[int, Any]] = {
    1: np.float32,
    2: np.uint8,
    3: np.int8,
    4: np.uint16,
    5: np.int16,
    6: np.int32,
    7: np.int64,
    9: np.bool_,
    10: np.float16,
    11: np.float64,
    12: np.uint32,
    13: np.uint64,
    16: np.dtype(ml_dtypes.bfloat16),
    17: np.dtype(ml_dtypes.float8_e4m3fn),
    19: np.dtype(ml_dtypes.float8_e5m2),
    21: np.uint8,
    22: np.int8,
}
_UINT4, _INT4 = 21, 22
#: Names of types that have no row above.
_OTHERS: Final = {
    8: "strings",
    14: "complex64",
    15: "complex128",
    **{number: f"float8 (type {number})" for number in (18, 20, 24)},
    23: "float4e2m1",
}
#: Field of a TensorProto -> the type of its numbers, if they are not in `raw_data`.
_LISTS: Final[dict[int, Any]] = {4: np.float32, 10: np.float64}
_WHOLE: Final = (5, 7, 11)
_RAW: Final = 9


class NoTensorError(ValueError):
    """Tell that a value is not a tensor of numbers, or that TOSA cannot hold it."""


def read_tensor(path: Path) -> Array:
    data = map_file(path)
    try:
        return _tensor(data)
    except NoTensorError:
        raise
    except ValueError as error:
        raise fail("file-error", str(path), f"not a tensor of ONNX: {error}") from None


def _tensor(data: memoryview) -> Array:
    shape: list[int] = []
    kind = 0
    raw: memoryview | None = None
    whole: list[int] = []
    lists: list[Array] = []
    for number, value in fields(data):
        if number == 1:
            shape += numbers(value)
        elif number == 2:
            kind = numbers(value)[0]
        elif number == _RAW:
            raw = message(value)
        elif number in _WHOLE:
            whole += numbers(value)
        elif number in _LISTS:
            lists.append(np.frombuffer(message(value), _LISTS[number]))
    if kind not in _TYPES:
        raise NoTensorError(f"it has {_OTHERS.get(kind, f'elements of the type {kind}')}")
    target = np.dtype(_TYPES[kind])
    if raw is not None:
        flat = _unpacked(kind, np.frombuffer(raw, np.uint8), target)
    elif lists:
        flat = np.concatenate(lists).astype(target)
    else:
        flat = _of_numbers(kind, whole, target)
    return flat[: int(np.prod(shape, dtype=np.int64))].reshape(shape)


def _of_numbers(kind: int, whole: list[int], target: np.dtype[Any]) -> Array:
    """Return elements that are a list of whole numbers: short floats as their bits, others by value."""
    # Negative numbers have 64 bits there, whatever their type.
    given = np.array(whole, np.uint64)
    if kind in (_INT4, _UINT4):
        return _unpacked(kind, given.astype(np.uint8), target)
    if target.kind in "fV":
        return given.astype(f"u{target.itemsize}").view(target)
    return given.astype(np.bool_) if target.kind == "b" else given.view(np.int64).astype(target)


def _unpacked(kind: int, raw: Array, target: np.dtype[Any]) -> Array:
    """Unpack elements of their bytes; two of 4 bits are in a byte, the first in its lower half."""
    if kind not in (_INT4, _UINT4):
        return raw.view(target)
    halves = unpack(raw, 4, 2 * len(raw))
    return sign_extend(halves, 4) if kind == _INT4 else halves


@dataclass(slots=True)
class OnnxModel:
    """Hold what a model's file says.

    operators: of its nodes, in order, without those of functions and inner graphs. inputs: names, in
        order, without initializers. outputs: names.
    not_tensors: inputs and outputs that TOSA cannot hold, and why. open_inputs: inputs with sizes that
        are not fixed.
    """

    operators: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    not_tensors: list[str] = field(default_factory=list)
    open_inputs: set[str] = field(default_factory=set)


def read_model(path: Path) -> OnnxModel:
    try:
        found = read_onnx(map_file(path))
    except ValueError as error:
        raise fail("file-error", str(path), f"not a model of ONNX: {error}") from None
    inputs, outputs = ([value.name for value in row] for row in (found.inputs, found.outputs))
    model = OnnxModel(found.operators, inputs, outputs)
    for value in (*found.inputs, *found.outputs):
        if value.kind:
            model.not_tensors.append(f"{value.name}: it is {value.kind}")
        elif value.element and value.element not in _TYPES:
            why = _OTHERS.get(value.element, f"elements of the type {value.element}")
            model.not_tensors.append(f"{value.name}: it has {why}")
    model.open_inputs = {value.name for value in found.inputs if value.is_open}
    return model
