"""`tosa_convert.golden` has documented functions, whatever was imported before."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest

from tosa_convert import golden
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.running import programs
from tosa_convert.io.keywords import ReadKeywords
from tosa_convert.io.options import ReadOptions

FUNCTIONS = ("run", "check", "bisect", "reduce", "generate", "compare")
#: Words of a docstring, and the keywords that they stand for; docs/reference/options.md has them.
GROUPS = (("keywords are those of `tosa_convert.load`", get_type_hints(ReadKeywords)),)
X = np.array([3, -4, 0, 7], np.int32)


@pytest.mark.parametrize("name", golden.__all__)
def test_a_public_name_is_listed_documented_and_not_a_module(name: str) -> None:
    value = getattr(golden, name)
    assert name in dir(golden)
    assert not inspect.ismodule(value)
    assert inspect.isclass(value) or inspect.isfunction(value) or name == "Backend"
    if name != "Backend":
        assert inspect.getdoc(value)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_documents_its_arguments_and_has_an_example(name: str) -> None:
    text = inspect.getdoc(getattr(golden, name)) or ""
    assert "Args:" in text
    assert "Example:" in text
    documented = text.partition("Args:")[2]
    keywords = {word for group in GROUPS if group[0] in text for word in group[1]}
    for parameter in inspect.signature(getattr(golden, name)).parameters.keys() - keywords:
        assert f"{parameter}:" in documented, f"{name}: {parameter} is not documented"


@pytest.mark.slow
def test_importing_modules_of_the_package_hides_no_function() -> None:
    program = """
import importlib, pathlib, tosa_convert.golden as golden
folder = pathlib.Path(golden.__file__).parent
for path in folder.rglob("*.py"):
    if path.parts[-2:] != ("backends", "worker.py") and path.stem != "__init__":
        parts = path.relative_to(folder).with_suffix("").parts
        importlib.import_module(".".join(("tosa_convert.golden", *parts)))
print([name for name in golden.__all__ if "module" in type(getattr(golden, name)).__name__])
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout.strip() == "[]"


def test_importing_the_package_imports_neither_numpy_nor_its_modules() -> None:
    program = """
import sys
from tosa_convert import golden
print([name for name in sys.modules if name == "numpy" or name.startswith("tosa_convert.golden.")])
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        golden.nothing  # noqa: B018


@pytest.mark.usefixtures("refmodel")
def test_read_options_reach_the_reader(tmp_path: Path) -> None:
    pytest.importorskip("torch_mlir", reason="reads MLIR")
    text = """
func.func @one(%x: tensor<4xi32>) -> tensor<4xi32> {
  %0 = tosa.abs %x : (tensor<4xi32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}
func.func @two(%x: tensor<4xi32>) -> tensor<4xi32> { return %x : tensor<4xi32> }
"""
    (tmp_path / "m.mlir").write_text(text)
    from torch_mlir import ir
    from torch_mlir.dialects import tosa as _  # noqa: F401

    with ir.Context():
        module = ir.Module.parse(text)
        for func, expected in (("one", abs(X)), ("two", X)):
            read = ReadOptions(func=func)
            for program in (tmp_path / "m.mlir", module):
                inputs = dict.fromkeys(programs.as_graph(program, read).main.inputs, X)
                (output,) = golden.run(program, inputs, read=read).outputs.values()
                assert np.array_equal(output, expected)
        with pytest.raises(TosaConvertError) as caught:
            golden.run(module, random=1, read=ReadOptions(func="three"))
        assert caught.value.code == "unknown-function"
