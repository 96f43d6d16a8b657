"""Every example (`>>>`) in a docstring of the package runs and prints what it says.

An example runs in a folder that holds the example network as `digits_cnn.mlirbc`, `digits_cnn.tosa`
and `digits_cnn_input.npy`, and models of frameworks as `model.tflite` and `model.onnx`. It sees
the globals of its module, as with `python -m doctest`.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import installed

PACKAGE = "tosa_convert"
ROOT = Path(__file__).resolve().parents[2]

#: Codes of errors that say that an optional dependency is not installed.
NOT_INSTALLED = {"missing-bindings", "missing-refmodel", "missing-backend", "frontend-missing"}
#: The optional dependencies that an example may import; sympy comes with torch.
OPTIONAL = {"torch_mlir", "iree", "torch", "sympy", "jax", "keras"}


class Docstring(NamedTuple):
    """A docstring with an example: `tosa_convert.api`, `load`, its text and its first line."""

    module: str
    name: str
    text: str
    line: int


def docstrings(module: str, source: str) -> Iterator[Docstring]:
    """Yield the docstrings of a module that have an example; those of private names, too."""

    def visit(node: ast.AST, names: tuple[str, ...]) -> Iterator[Docstring]:
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node, clean=False)
            if text and ">>>" in text:
                yield Docstring(module, ".".join(names), text, node.body[0].lineno - 1)
        for child in ast.iter_child_nodes(node):
            name = getattr(child, "name", None)
            is_scope = isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            if isinstance(child, ast.stmt):  # expressions have no docstrings, and are most nodes
                yield from visit(child, (*names, name) if is_scope and name else names)

    if ">>>" in source:
        yield from visit(ast.parse(source), ())


def all_docstrings() -> Iterator[Docstring]:
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        yield from docstrings(module, path.read_text(encoding="utf-8"))


class Runner(doctest.DebugRunner):
    """Raises at the first example that fails."""


def run(docstring: Docstring, names: dict[str, object]) -> str:
    """Run the examples of a docstring; return what failed, or an empty string.

    Skips the test where an optional dependency is not installed.
    """
    test = doctest.DocTestParser().get_doctest(
        docstring.text, names, docstring.name or docstring.module, docstring.module, docstring.line
    )
    try:
        Runner(optionflags=doctest.ELLIPSIS).run(test)
    except doctest.DocTestFailure as failure:
        return f"{failure.example.source}expected:\n{failure.example.want}got:\n{failure.got}"
    except doctest.UnexpectedException as failure:
        error = failure.exc_info[1]
        if isinstance(error, tc.TosaConvertError) and error.code in NOT_INSTALLED:
            pytest.skip(str(error))
        if isinstance(error, ModuleNotFoundError) and error.name in OPTIONAL:
            pytest.skip(f"{error.name} is not installed")
        return f"{failure.example.source}raised {error!r}"
    return ""


@pytest.fixture(scope="session")
def flatbuffer(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the example network as a flatbuffer."""
    if not installed():
        pytest.skip("MLIR bindings are not installed; they make digits_cnn.tosa")
    path = tmp_path_factory.mktemp("example") / "digits_cnn.tosa"
    tc.save(tc.load(root / "examples" / "digits_cnn.mlirbc"), path)
    return path


def write_tflite_model(path: Path) -> None:
    """A model of one addition, with the dynamic input `image`."""
    pytest.importorskip("flatbuffers", reason="flatbuffers, which writes the model, is missing")
    models = importlib.import_module("frontends.tflite_models")
    tensors = [models.TensorRow(name, "float32", (-1, 3)) for name in ("image", "sum")]
    operators = [models.OperatorRow("ADD", (0, 0), (1,))]
    path.write_bytes(models.model(tensors, operators, [0], [1]))


def write_onnx_model(path: Path) -> None:
    """A model of one operator, with the dynamic input `image`."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    float32 = onnx.TensorProto.FLOAT
    given, made = (
        onnx.helper.make_tensor_value_info(name, float32, ["batch", 3])
        for name in ("image", "relu")
    )
    node = onnx.helper.make_node("Relu", ["image"], ["relu"])
    graph = onnx.helper.make_graph([node], "main", [given], [made])
    opset = onnx.helper.make_opsetid("", 21)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset]), path)


@pytest.mark.parametrize(
    "docstring",
    list(all_docstrings()),
    ids=lambda docstring: f"{docstring.module}:{docstring.name}",
)
def test_an_example_prints_what_its_docstring_says(
    docstring: Docstring,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    for name in ("digits_cnn.mlirbc", "digits_cnn_input.npy"):
        shutil.copy(root / "examples" / name, tmp_path)
    if "digits_cnn.tosa" in docstring.text:
        shutil.copy(request.getfixturevalue("flatbuffer"), tmp_path)
    if "model.tflite" in docstring.text:
        write_tflite_model(tmp_path / "model.tflite")
    if "model.onnx" in docstring.text:
        write_onnx_model(tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    try:
        module = importlib.import_module(docstring.module)
    except ModuleNotFoundError as error:
        if error.name in OPTIONAL:
            pytest.skip(f"{error.name} is not installed")
        raise
    if problem := run(docstring, dict(vars(module))):
        pytest.fail(f"{docstring.module}, {docstring.name}: {problem}", pytrace=False)


# -- the runner can fail ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("example", "problem"),
    [
        (">>> 1 + 1\n2\n", ""),
        (">>> 1 + 1\n3\n", "expected:\n3\ngot:\n2\n"),
        (">>> 1 // 0\n", "raised ZeroDivisionError"),
        (">>> 1 // 0\nTraceback (most recent call last):\n    ...\nZeroDivisionError: ...\n", ""),
        (">>> import no_such_module\n", "raised ModuleNotFoundError"),
    ],
)
def test_a_wrong_example_fails(example: str, problem: str) -> None:
    result = run(Docstring("module", "name", example, 1), {})
    assert problem in result
    assert bool(problem) == bool(result)


def test_examples_are_found_in_modules_classes_functions_and_methods() -> None:
    source = '''
"""Module.

>>> 1
1
"""

class A:
    """A.

    >>> 2
    2
    """

    @property
    def b(self):
        """B.

        >>> 3
        3
        """

if True:
    def c():
        """C.

        >>> 4
        4
        """

def d():
    """Without an example."""
'''
    assert [row.name for row in docstrings("m", source)] == ["", "A", "A.b", "c"]
