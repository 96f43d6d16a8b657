"""The examples of docs/backends.md, and the software that takes models of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from golden.official_cases import X, make_suite, unary, write_case
from golden.test_backend_files import copies

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.backends.runners import open_backend
from tosa_convert.golden.checking.check import check
from tosa_convert.graph.dtypes import DTYPES, DType
from tosa_convert.qualify.suite.run_cases import Qualification, qualify_case

ROOT = Path(__file__).resolve().parents[2]


def example(language: str, first_line: str) -> str:
    """Return the block of the page that begins with a line."""
    text = (ROOT / "docs" / "backends.md").read_text(encoding="utf-8")
    found = re.search(rf"```{language}\n{re.escape(first_line)}\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def statuses(root: Path, against: str) -> dict[str, str]:
    settings = Qualification(against=against)
    return {
        name: qualify_case(str(root), name, settings=settings).status for name in ("abs/a", "clz/a")
    }


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
def test_the_python_example_runs_what_it_supports(tmp_path: Path) -> None:
    source = example("python", "# simulator.py")
    assert len(source.splitlines()) <= 40
    (tmp_path / "simulator.py").write_text(source)
    make_suite(tmp_path / "cases")
    found = statuses(tmp_path / "cases", str(tmp_path / "simulator.py"))
    assert found == {"abs/a": "pass", "clz/a": "refused"}


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
def test_the_cpp_example_compiles_and_runs_what_it_supports(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    try:
        include = Path(str(metadata.distribution("tosa-tools").locate_file("include")))
    except metadata.PackageNotFoundError:
        pytest.skip("tosa-tools, which has the classes of TOSA's schema, is not installed")
    source = example("cpp", "// c++ -std=c++17 -I include backend.cpp -o backend")
    assert 20 <= len(source.splitlines()) <= 60
    (tmp_path / "backend.cpp").write_text(source)
    folders = [include, include / "tosa_serialization_lib"]
    command = [compiler, "-std=c++17", *(f"-I{folder}" for folder in folders), "backend.cpp"]
    built = subprocess.run(
        [*command, "-o", "backend"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    make_suite(tmp_path / "cases")
    against = f"{tmp_path / 'backend'} {{model}} {{input_dir}} {{output_dir}}"
    assert statuses(tmp_path / "cases", against) == {"abs/a": "pass", "clz/a": "refused"}


@pytest.mark.usefixtures("refmodel")
def test_every_type_goes_through_a_python_file(tmp_path: Path) -> None:
    (tmp_path / "b.py").write_text(
        "def run(model, inputs):\n"
        "    return {'y' + name[1:]: array for name, array in inputs.items()}\n"
    )
    names = ("BOOL", "INT8", "INT16", "INT32", "FP32", "FP16", "BF16", "FP8E4M3", "FP8E5M2")
    graph, given = copies([row for row in DTYPES if row.name in names])
    assert check(graph, str(tmp_path / "b.py"), given).ok


FAKE_ONNXRUNTIME = """
import types

GraphOptimizationLevel = types.SimpleNamespace(ORT_DISABLE_ALL="none")
SessionOptions = types.SimpleNamespace


class InferenceSession:
    def __init__(self, path, options, providers):
        assert options.graph_optimization_level == "none"
        assert path.endswith("m.onnx") and providers == ["CPUExecutionProvider"]

    def get_inputs(self):
        return [types.SimpleNamespace(name="in", type="tensor(float)")]

    def get_outputs(self):
        return [types.SimpleNamespace(name="out")]

    def run(self, outputs, given):
        return [abs(given["in"])]
"""


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
def test_onnx_runtime_runs_the_original_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onnxruntime.py").write_text(FAKE_ONNXRUNTIME)
    (tmp_path / "m.onnx").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert check(unary("ABS"), f"onnxruntime:{tmp_path / 'm.onnx'}", X).ok
    assert not check(unary("BITWISE_NOT"), f"onnxruntime:{tmp_path / 'm.onnx'}", X).ok
    graph, given = copies([row for row in DTYPES if row.name == "BF16"])
    with pytest.raises(TosaConvertError, match="numpy has no type bfloat16") as caught:
        check(graph, f"onnxruntime:{tmp_path / 'm.onnx'}", given)
    assert caught.value.code == "backend-refused"


@pytest.mark.parametrize("software", ["tflite", "torch", "onnxruntime"])
def test_software_with_models_of_its_own_needs_the_original(software: str) -> None:
    with pytest.raises(TosaConvertError, match="the original model is needed") as caught:
        open_backend(software, unary("ABS"), X)
    assert caught.value.code == "option-conflict"
    with pytest.raises(TosaConvertError, match="--original names another model"):
        open_backend(f"{software}:a", unary("ABS"), X, original="b")


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(row, id=row.name, marks=() if row.name == "INT48" else pytest.mark.slow)
        for row in DTYPES
        if row.name not in {"FP6E2M3", "FP6E3M2", "FP4E2M1", "FP8UE8M0", "INT64", "MXINT8"}
    ],
)
def test_iree_takes_int4_bf16_and_fp8_and_gives_int48_with_its_sign(dtype: DType) -> None:
    pytest.importorskip("iree.compiler", reason="IREE is not installed")
    pytest.importorskip("iree.runtime", reason="IREE's runtime is not installed")
    graph, given = copies([dtype])
    assert check(graph, "iree", given).ok


@pytest.mark.usefixtures("refmodel")
def test_a_program_whose_inputs_iree_does_not_take_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("iree.compiler", reason="IREE is not installed")
    pytest.importorskip("iree.runtime", reason="IREE's runtime is not installed")
    # TOSA copies tensors of FP6 in blocks only, so that this program would not be written as it is.
    graph, given = copies([row for row in DTYPES if row.name == "FP6E2M3"])
    write_case(tmp_path / "case", graph, given, validate=False)
    settings = Qualification(against="iree", python=sys.executable)
    assert qualify_case(str(tmp_path), "case", settings=settings).status == "refused"
