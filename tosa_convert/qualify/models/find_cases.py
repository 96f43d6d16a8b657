"""The cases of a suite of models: models, factories in Python files, and ONNX node tests."""

from __future__ import annotations

import ast
import contextlib
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tosa_convert.errors import Finding, Findings, TosaConvertError, fail
from tosa_convert.frontends.table import frontend, recognize
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.golden.arrays.npz import Shape, fits, load_npz
from tosa_convert.golden.backends.process import files_of_python
from tosa_convert.graph.model import quoted
from tosa_convert.io import log
from tosa_convert.io.files import open_regular, walk
from tosa_convert.io.formats import MODEL_EXTENSIONS, is_saved_model
from tosa_convert.records import dataclass

#: Functions of a Python file that make a model.
_PREFIX: Final = "make_"
#: The file of an ONNX node test, and the folders with its inputs and outputs.
NODE_TEST_MODEL: Final = "model.onnx"
#: Instead of a model's extension: its inputs by name.
INPUTS_SUFFIX: Final = ".inputs.npz"
DATA_SETS: Final = "test_data_set_*"


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases below a folder.

    root: the folder that the names begin at.
    names: `FRONTEND/PATH`, and `:FUNCTION` for a factory, sorted.
    left_out: frontend -> the cases that it would have, if it had been asked for.
    """

    root: Path
    names: list[str]
    left_out: dict[str, int]


def find_cases(given: Sequence[str], frontends: Collection[str]) -> Cases:
    """Find the cases in files and below folders, for these frontends."""
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
    """List the files that decide a case: its model, those that the model names, and its inputs.

    A Python file brings the modules that it imports, a folder all files in it.
    """
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
    """Return the arrays that a model brings along: those of `lenet.inputs.npz` beside `lenet.tflite`.

    shapes: of the program's inputs; see `load_npz`.

    Raises TosaConvertError: "file-error", and "input-mismatch" with a finding for each array of another
    shape, or that no input takes.
    """
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
    """Frontend and model of each case that a path of the user's names: `file.py:NAME` is one."""
    model = recognize(text) if ".py:" in text else None
    if model is not None:
        yield model.frontend, model.shown
    elif os.path.exists(text):
        yield from _cases(Path(text))
    else:
        raise fail("file-error", text, "cannot be read: there is no such file or folder")


def _cases(path: Path) -> Iterator[tuple[str, str]]:
    """Frontend and model of each case in a file or below a folder."""
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
        factories = _factories(path)
        models = [recognize(f"{path}:{name}") for name in factories]
    except (TosaConvertError, SyntaxError, ValueError) as error:
        log.warning("%s has no cases: %s", path, error)
        return
    for model in models:
        if model is not None:
            yield model.frontend, model.shown


def _factories(path: Path) -> list[str]:
    """Find the functions of a Python file that make a model, in the order of the file."""
    tree = ast.parse(path.read_bytes(), str(path))
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith(_PREFIX)
    ]


def short_name(name: str) -> str:
    """Return what a case is called in a table: its network, without where it is.

    Example:
        >>> short_name("torch/nets/vision.py:make_lenet"), short_name("tflite/lenet.tflite")
        ('lenet', 'lenet')
    """
    path, colon, member = name.rpartition(":")
    return member.removeprefix(_PREFIX) if colon and path.endswith(".py") else Path(name).stem
