"""`suite --frontends`, with a test double instead of each framework."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from frontends import fake_framework
from frontends.onnx_files import node_test

import tosa_convert as tc
from tosa_convert.builder import Builder, DTypeName
from tosa_convert.cli.main import run, verb
from tosa_convert.qualify.suite.run_model_case import ModelAnswer, Settings, run_model_case

pytestmark = pytest.mark.usefixtures("cases_here")

TFLITE = b"\x1c\0\0\0TFL3".ljust(64, b"\0")
EVERY = ("tflite", "torch", "onnx")


@pytest.fixture
def python(program: Callable[[str], str]) -> str:
    """Return the test double of a framework, started as `--python`."""
    path = fake_framework.__file__
    return program(f"import runpy\nrunpy.run_path({path!r}, run_name='__main__')")


def add(name: DTypeName = "fp32", shape: tuple[int, ...] = (2, 3)) -> tc.Graph:
    b = Builder()
    b.output(b.add(b.input("x", name, shape), b.input("y", name, shape)), name="sum")
    return b.graph()


def tflite(folder: Path, name: str, graph: tc.Graph | None = None, does: str = "") -> Path:
    """Return a model: what it is converted to, or what its converter does instead."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.tflite"
    path.write_bytes(TFLITE)
    if does:
        path.with_suffix(".does").write_text(does)
    else:
        tc.save(graph or add(), path.with_suffix(".tosa"))
    return path


def one(folder: Path, name: str, python: str, timeout: float = 60.0) -> ModelAnswer:
    settings = Settings(frontends=EVERY, python=python, timeout=timeout, narrow=("i64",))
    return run_model_case(str(folder), name, settings=settings)


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
def test_an_equal_model_passes(tmp_path: Path, python: str) -> None:
    tflite(tmp_path, "m")
    found = one(tmp_path, "tflite/m.tflite", python)
    assert (found.status, found.message) == ("pass", "")
    assert (found.lowered, found.exported, found.equal) == (True, True, True)
    assert (found.operator, found.types, found.outputs) == ("m", "tflite", 1)
    assert found.largest_error == 0


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
def test_a_wrong_result_has_its_largest_error(tmp_path: Path, python: str) -> None:
    tflite(tmp_path, "m").with_suffix(".off").write_text("0.25")
    found = one(tmp_path, "tflite/m.tflite", python)
    assert (found.status, found.lowered, found.exported) == ("wrong", True, True)
    assert found.largest_error == pytest.approx(0.25, rel=1e-5)
    assert "FAIL sum" in found.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("does", "status", "part"),
    [
        (fake_framework.UNLOWERED, "refused", "FFT has no lowering to TOSA, 2 times"),
        (fake_framework.REFUSE, "refused", "unknown-argument"),
        (fake_framework.CRASH, "crashed", "SIGSEGV"),
        (fake_framework.HANG, "crashed", "did not end within 2 s"),
    ],
)
def test_each_end_of_a_converter_is_an_answer(
    does: str, status: str, part: str, tmp_path: Path, python: str
) -> None:
    tflite(tmp_path, "m", does=does)
    found = one(tmp_path, "tflite/m.tflite", python, timeout=2)
    assert (found.status, found.lowered, found.exported) == (status, False, False)
    assert part in found.message
    operators = {"FFT": 2, "SORT": 1} if does == fake_framework.UNLOWERED else {}
    assert found.not_lowered == operators


@pytest.mark.slow
def test_a_program_that_tosa_forbids_is_not_exported(tmp_path: Path, python: str) -> None:
    graph = add()
    graph.main.tensors["sum"] = tc.graph.Tensor("sum", tc.graph.dtype("FP32"), (3, 2))
    tflite(tmp_path, "m")
    tc.save(graph, tmp_path / "m.tosa", validate=False)
    found = one(tmp_path, "tflite/m.tflite", python)
    assert (found.status, found.lowered, found.exported) == ("refused", False, False)


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
def test_a_model_runs_on_the_inputs_beside_it(tmp_path: Path, python: str) -> None:
    path = tflite(tmp_path, "m", add("int32"))
    path.with_suffix(".off").write_text("1")  # the sum that the message then shows
    given = np.full((2, 3), 20, np.int64)
    np.savez(tmp_path / "m.inputs.npz", x=given, y=given)
    found = one(tmp_path, "tflite/m.tflite", python)
    assert "expected 40, found 41" in found.message
    np.savez(tmp_path / "m.inputs.npz", other=given)
    assert "expected 40, found 41" not in one(tmp_path, "tflite/m.tflite", python).message


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
def test_a_factory_runs_on_its_example_arguments(tmp_path: Path, python: str) -> None:
    """Of integers they are: random ones may be no indices. Equal floating-point numbers are not."""
    source = tmp_path / "nets.py"
    source.write_text(
        "import torch\n\n\ndef make_ids():\n    ...\n\n\ndef make_zeros():\n    ...\n"
    )
    for name in ("ids", "zeros"):
        tc.save(add("int32" if name == "ids" else "fp32"), tmp_path / f"{name}.tosa")
        given = np.arange(6).reshape(2, 3) if name == "ids" else np.zeros((2, 3), np.float32)
        np.savez(tmp_path / f"{name}.npz", **{"0": given, "1": given})
    (tmp_path / "nets.off").write_text("1")  # the sum that the message then shows
    ids = one(tmp_path, "torch/nets.py:make_ids", python)
    assert ids.status == "wrong"
    assert "expected 10, found 11" in ids.message or "expected 0, found 1" in ids.message
    zeros = one(tmp_path, "torch/nets.py:make_zeros", python)
    assert zeros.operator == "zeros"
    assert "expected 0.0," not in zeros.message


NUMBERS = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("off", [0, 1])
def test_an_onnx_node_test_has_its_own_inputs_and_outputs(
    off: int, tmp_path: Path, python: str
) -> None:
    given = {"x": NUMBERS, "y": NUMBERS}
    node_test(tmp_path / "test_add", "Add", given, {"sum": NUMBERS * 2 + np.float32(off)})
    tc.save(add(), tmp_path / "test_add" / "model.tosa")
    found = one(tmp_path, "onnx/test_add", python)
    assert found.status == ("wrong" if off else "pass"), found.message
    assert (found.operator, found.types, found.outputs) == ("Add", "onnx", 1)
    assert found.largest_error == off


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
def test_64_bit_integers_of_a_node_test_are_narrowed_if_they_fit(
    tmp_path: Path, python: str
) -> None:
    for name, most in (("fits", 1), ("overflows", 2**40)):
        given = {"x": np.full((2, 3), most), "y": np.zeros((2, 3), np.int64)}
        node_test(tmp_path / name, "Add", given, {"sum": given["x"]})
        tc.save(add("int32"), tmp_path / name / "model.tosa")
    assert one(tmp_path, "onnx/fits", python).status == "pass"
    assert one(tmp_path, "onnx/overflows", python).status == "wrong"


def test_a_node_test_without_tensors_is_not_run(tmp_path: Path, python: str) -> None:
    node_test(tmp_path / "test_s", "Identity", {"x": NUMBERS}, {"y": NUMBERS})
    data = (tmp_path / "test_s" / "model.onnx").read_bytes()
    # The element type of the first input: float becomes string.
    changed = data.replace(
        b"\x0a\x01x\x12\x0e\x0a\x0c\x08\x01", b"\x0a\x01x\x12\x0e\x0a\x0c\x08\x08"
    )
    assert changed != data
    (tmp_path / "test_s" / "model.onnx").write_bytes(changed)
    found = one(tmp_path, "onnx/test_s", python)
    assert (found.status, found.operator) == ("not-run", "Identity")
    assert "strings" in found.message


# -- the verb --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("refmodel")
def test_a_case_that_is_not_judged_is_named_with_the_reason(
    tmp_path: Path, python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """TOSA requires shift amounts below the number of bits."""
    b = Builder()
    x, amount = b.input("x", "int8", (4,)), b.input("y", "int8", (4,))
    b.output(b.logical_left_shift(x, amount), name="shifted")
    tflite(tmp_path, "shift", b.graph())
    np.savez(tmp_path / "shift.inputs.npz", x=np.ones(4, np.int8), y=np.full(4, 40, np.int8))
    html = tmp_path / "r.html"
    suite(tmp_path, "--frontends", "tflite", "--python", python, "--html", html)
    lines = capsys.readouterr().out.splitlines()
    (place,) = (number for number, line in enumerate(lines) if line.startswith("not judged"))
    assert lines[place + 1].startswith("tflite/shift.tflite")
    assert "the specification leaves the result unpredictable" in lines[place + 1]
    assert "<h2>Not judged</h2>" in html.read_text()


def suite(*words: object) -> int:
    return run(verb("suite"), [*map(str, words), "--jobs", "1"])


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Five models: equal, wrong, not lowered, and one that crashes its converter; two folders."""
    root = tmp_path / "models"
    tflite(root / "good", "equal")
    tflite(root / "good", "off").with_suffix(".off").write_text("1")
    tflite(root / "bad", "fft", does=fake_framework.UNLOWERED)
    tflite(root / "bad", "crash", does=fake_framework.CRASH)
    return root


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
def test_reports_state_the_result_of_every_case(
    models: Path, tmp_path: Path, python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {kind: tmp_path / f"r.{kind}" for kind in ("json", "junit", "html")}
    reports = [word for kind, path in names.items() for word in (f"--{kind}", path)]
    assert suite(models, "--frontends", "tflite", "--python", python, *reports) == 1
    out = capsys.readouterr().out
    table = [line.split() for line in out.splitlines()]
    assert ["equal", "tflite", "1", "1", "1", "1", "0"] in [row[:7] for row in table]
    assert ["off", "tflite", "1", "1", "1", "0", "1"] in [row[:7] for row in table]
    assert ["fft", "tflite", "1", "0", "0", "0"] in [row[:6] for row in table]
    assert ["FFT", "1", "2", "tflite"] in table
    assert "1 of 4 cases are equal (1 differ, 1 do not lower, 1 crash" in out
    report = json.loads(names["json"].read_text())
    rows = {row["case"]: row for row in report["answers"]}
    assert rows["tflite/bad/fft.tflite"]["not_lowered"] == {"FFT": 2, "SORT": 1}
    assert rows["tflite/good/off.tflite"]["exported"]
    assert not rows["tflite/good/off.tflite"]["equal"]
    cases = ET.parse(names["junit"]).getroot().findall("testsuite/testcase")
    problems = {
        (case.get("classname"), case.get("name"), sum(row.tag != "properties" for row in case))
        for case in cases
    }
    assert problems == {
        ("tflite/good", "equal.tflite", 0),
        ("tflite/good", "off.tflite", 1),
        ("tflite/bad", "fft.tflite", 1),
        ("tflite/bad", "crash.tflite", 1),
    }
    html = names["html"].read_text()
    assert "What does not lower" in html
    assert (
        f"tosa-flatbuffer suite {os.path.relpath(models)}/bad/crash.tflite --frontends tflite"
        in html
    )


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
def test_a_run_is_resumed_and_compared_with_an_earlier_one(
    models: Path, tmp_path: Path, python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    common = [models, "--frontends", "tflite", "--python", python]
    first = tmp_path / "first.json"
    out = tmp_path / "out"
    suite(*common, "--max-cases", "2", "--work", out)
    assert suite(*common, "--work", out, "--json-report", first) == 1
    assert "2 run now, 2 from an earlier run" in capsys.readouterr().out
    assert len((out / "answers.jsonl").read_text().splitlines()) == 5
    (models / "good" / "off.off").unlink()
    known = tmp_path / "known.txt"
    known.write_text("tflite/bad/* it is not there yet\n")
    assert suite(*common, "--baseline", first, "--xfail", known) == 0
    text = capsys.readouterr().out
    assert "newly passing: 1: tflite/good/off.tflite" in text
    assert "2 failures were expected" in text


@pytest.mark.slow
def test_cases_of_several_folders_and_files_are_run_together(
    models: Path, tmp_path: Path, python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--frontends", "tflite", "--python", python, "--json-report", tmp_path / "r.json"]
    suite(models / "bad", models / "good" / "equal.tflite", *words)
    rows = json.loads((tmp_path / "r.json").read_text())["answers"]
    assert [row["case"] for row in rows] == [
        "tflite/bad/crash.tflite",
        "tflite/bad/fft.tflite",
        "tflite/good/equal.tflite",
    ]
    (models / "net.py").write_text("import torch\n\n\ndef make_a(): ...\n\n\ndef make_b(): ...\n")
    words[1] = "torch"
    suite(f"{models / 'net.py'}:make_b", *words)
    rows = json.loads((tmp_path / "r.json").read_text())["answers"]
    assert [row["case"] for row in rows] == ["torch/net.py:make_b"]
    capsys.readouterr()
    suite(models, *words)
    assert "left out: 4 for tflite" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--frontends", "tflite", "--against", "iree"],
        ["--frontends", "tflite", "--through", "json"],
        ["--frontends", "tflite", "--level", "none"],
        ["--frontends", "tflite", "--keep", "d"],
        ["--frontends", ","],
        ["--frontends", "caffe"],
        ["--frontends", "onnx"],
        ["--narrow", "i64"],
        ["--python", "python3"],
    ],
)
def test_options_that_do_not_apply_are_refused(words: list[str], models: Path) -> None:
    assert suite(models, *words) in (2, 3)


def test_a_file_is_no_suite_without_frontends(models: Path) -> None:
    assert suite(models / "good" / "equal.tflite") == 2


def test_a_path_that_does_not_exist_is_a_file_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert suite(tmp_path / "nothing", "--frontends", "tflite") == 2
    assert "file-error" in capsys.readouterr().err


def test_frontends_that_are_not_installed_are_named_before_a_case_is_run(
    models: Path, program: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = json.dumps(
        [{"frontend": name, "versions": {"that": None}} for name in tc.frontends.table.FRONTENDS]
    )
    python = program(
        "import pathlib, sys\n"
        f"pathlib.Path(sys.argv[4], 'installed.json').write_text({nothing!r})\n"
    )
    assert suite(models, "--frontends", "tflite", "--python", python) == 2
    assert "frontend-missing" in capsys.readouterr().err


@pytest.mark.slow
def test_python_files_that_are_no_cases_are_named(
    models: Path, python: str, caplog: pytest.LogCaptureFixture
) -> None:
    (models / "helper.py").write_text("X = 1\n")
    (models / "both.py").write_text("import torch, jax\n\n\ndef make_x(): ...\n")
    (models / "broken.py").write_text("def make_x(:\n")
    suite(models, "--frontends", "tflite", "--python", python)
    assert "both.py has no cases" in caplog.text
    assert "broken.py has no cases" in caplog.text
    assert "helper.py" not in caplog.text
