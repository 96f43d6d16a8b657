"""The pytest plugin, in a folder of tests that is not ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden.conftest import Builder
from golden.official_cases import X, make_suite

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.golden.arrays import save_npz
from tosa_convert.graph.model import Graph
from tosa_convert.pytest_plugin import TosaFailure, _assert_equal

#: Knows ABS, and is wrong about ABS of 7.
BACKEND = """
import numpy as np
import tosa_convert as tc


def run(model, inputs):
    (op,) = tc.load(model).main.operators
    if op.spec.name != "ABS":
        raise NotImplementedError(op.spec.name)
    x = inputs[op.inputs[0]]
    return {"y": np.abs(x) + (x == 7)}
"""


def one_operator(kind: str) -> Graph:
    b = Builder()
    b.input("x", "INT32", (4,))
    b.op(kind, ["x"], "y", "INT32", (4,))
    return b.graph("y")


def save_case(folder: Path, kind: str, values: list[int]) -> None:
    folder.mkdir(parents=True)
    tc.save(one_operator(kind), folder / "model.tosa")
    save_npz(folder / "inputs.npz", {"x": np.array(values, np.int32)})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a repository with a test, two programs, and cases that pass, fail and are refused."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    (tmp_path / "backend.py").write_text(BACKEND)
    tc.save(one_operator("ABS"), tmp_path / "good.tosa")
    graph = one_operator("ABS")
    graph.main.tensors["y"].shape = (5,)
    tc.save(graph, tmp_path / "bad.tosa", validate=False)
    save_case(tmp_path / "cases/right", "ABS", [1, -2, 3, 4])
    save_case(tmp_path / "cases/wrong", "ABS", [1, -2, 7, 4])
    save_case(tmp_path / "cases/unknown", "CLZ", [1, 2, 3, 4])
    return tmp_path


def run_pytest(folder: Path, *words: str, code: int = 0) -> str:
    """Return the output of pytest, which must end with this exit code."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "XDIST"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *words],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def outcomes(output: str) -> dict[str, str]:
    """Return the outcome of each test, from the last lines of a report."""
    rows = re.findall(r"^(PASSED|FAILED|SKIPPED|XFAIL|XPASS) (\S+)", output, re.MULTILINE)
    return {name: outcome for outcome, name in rows}


@pytest.mark.slow
def test_nothing_is_collected_or_imported_that_is_not_named(project: Path) -> None:
    (project / "test_own.py").write_text(
        "import sys\n\ndef test_own():\n"
        "    ours = {name for name in sys.modules if name.startswith('tosa_convert')}\n"
        "    allowed = {'tosa_convert', 'tosa_convert.version', 'tosa_convert.pytest_plugin'}\n"
        "    assert 'tosa_convert.pytest_plugin' in ours\n"
        "    assert ours <= allowed\n"
        "    assert 'numpy' not in sys.modules\n"
    )
    assert outcomes(run_pytest(project)) == {"test_own.py::test_own": "PASSED"}
    assert outcomes(run_pytest(project, ".", "cases")) == {"test_own.py::test_own": "PASSED"}


@pytest.mark.slow
def test_programs_and_cases_on_the_command_line_are_tests(project: Path) -> None:
    output = run_pytest(project, "good.tosa", "bad.tosa", "cases/wrong", code=1)
    assert outcomes(output) == {
        "good.tosa::validate": "PASSED",
        "bad.tosa::validate": "FAILED",
        "cases/wrong/inputs.npz::case": "PASSED",  # the conversion keeps what it computes
    }
    assert "abs-output-shape" in output
    assert "Traceback" not in output


@pytest.mark.slow
def test_what_the_setting_names_is_run_on_a_backend(project: Path) -> None:
    setting = ("-o", "tosa_files=cases/* good.tosa", "--tosa-against", "backend.py")
    output = run_pytest(project, *setting, code=1)
    assert outcomes(output) == {
        "test_own.py::test_own": "PASSED",
        "good.tosa::validate": "PASSED",
        "good.tosa::check": "PASSED",
        "cases/right/inputs.npz::case": "PASSED",
        "cases/wrong/inputs.npz::case": "FAILED",
        "[1]": "SKIPPED",
    }
    assert "wrong: FAIL y int32[4]" in output
    assert "tosa-flatbuffer suite cases/wrong --against backend.py" in output
    assert "refused: " in output
    assert "--keep" not in output, "pytest has no such option"
    more = ("--tosa-xfail", "wrong=7 is not implemented", "--tosa-xfail", "cases/ri*")
    output = run_pytest(project, *setting, *more, code=1)
    assert "XFAIL cases/wrong/inputs.npz::case - 7 is not implemented" in output
    assert "[XPASS(strict)] a pattern of --tosa-xfail" in output


@pytest.mark.slow
def test_a_folder_for_a_backend_names_what_is_below_it(project: Path) -> None:
    none, edges = "no program or case was collected", "--tosa-seeds 1 adds them"
    cases = {"cases/right/inputs.npz::case": "PASSED"}
    wrong = {"cases/wrong/inputs.npz::case": "FAILED", "[1]": "SKIPPED"}
    programs = {f"{name}.tosa::validate" for name in ("good", "bad")}
    for words, code, found, notes in (
        (["cases", "--tosa-seeds", "1"], 1, {*cases, *wrong}, set[str]()),
        (["cases/right", "--tosa-no-edges"], 0, {*cases}, set()),
        (["."], 1, {*cases, *wrong, *programs, "good.tosa::check", "bad.tosa::check"}, {edges}),
        (["."], 1, {*cases, *wrong}, {edges}),
        ([], 0, set(), {none}),
    ):
        settings = ["-o", "tosa_files=cases/*"] if words == ["."] and programs - found else []
        output = run_pytest(project, "--tosa-against=backend.py", *words, *settings, code=code)
        assert outcomes(output).keys() - {"test_own.py::test_own"} == found
        assert {note for note in (none, edges) if note in output} == notes


@pytest.mark.slow
def test_official_cases_are_tests(project: Path) -> None:
    names = make_suite(project / "official")
    words = ("-o", "tosa_files=official/*", "--tosa-against", "backend.py", "official")
    found = outcomes(run_pytest(project, *words, code=1))
    assert {f"official/{name}/desc.json::case" for name in names if "abs" in name} <= found.keys()
    assert not [name for name in found if ".tosa" in name], "programs of cases are no tests"


@pytest.mark.slow
def test_a_backend_that_runs_nothing_is_refused_before_the_first_test(project: Path) -> None:
    output = run_pytest(project, "--tosa-against", "no-such-program", code=4)
    assert "--against no-such-program: error:" in output


#: Wrong about ABS of the largest integer, which edge inputs have and random ones do not.
EDGE_BUG = """
import numpy as np
import tosa_convert as tc


def run(model, inputs):
    (op,) = tc.load(model).main.operators
    x = inputs[op.inputs[0]]
    return {"y": np.where(x == 2**31 - 1, 0, np.abs(x)).astype(np.int32)}
"""


@pytest.mark.slow
def test_programs_are_checked_as_the_printed_command_does(project: Path) -> None:
    (project / "edge_bug.py").write_text(EDGE_BUG)
    words = ("good.tosa", "--tosa-against", "edge_bug.py")
    output = run_pytest(project, *words, code=1)
    assert outcomes(output)["good.tosa::check"] == "FAILED"
    # In CI, pytest's summary has the whole text of a failure again.
    (command,) = {*re.findall("^tosa-flatbuffer (check .*)$", output, re.MULTILINE)}
    done = run_verb(project, *command.split())
    assert done.returncode == 1
    wrong = set(re.findall(r"^(\S+-\d+): ?", output, re.MULTILINE))
    told = re.findall(r"^(\S+-\d+):\n(.*)", done.stdout, re.MULTILINE)
    assert wrong == {name for name, line in told if line.startswith("FAIL")}
    assert all(name.startswith("edges-") for name in wrong)
    assert "XFAIL" not in run_pytest(project, *words, "--tosa-no-edges")
    more = run_pytest(project, *words, "--tosa-seeds", "2", code=1)
    assert "--seeds 2 --against edge_bug.py" in more
    output = run_pytest(project, "good.tosa", "--tosa-no-edges", code=4)
    assert "--tosa-no-edges needs --tosa-against BACKEND" in output


def run_verb(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tosa_convert", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )


@pytest.mark.slow
def test_cases_run_on_further_seeds_too(project: Path) -> None:
    (project / "edge_bug.py").write_text(EDGE_BUG)
    words = ("cases/right", "--tosa-against", "edge_bug.py")
    run_pytest(project, *words)
    output = run_pytest(project, *words, "--tosa-seeds", "1", code=1)
    assert "--against edge_bug.py --seeds 1" in output


@pytest.mark.slow
def test_an_expected_failure_of_a_program_is_that_of_the_backend(project: Path) -> None:
    (project / "backend.py").write_text("def run(model, inputs):\n    return {}\n")
    for name in ("other", "third", "valid"):
        tc.save(one_operator("ABS"), project / f"{name}.tosa")
    files = [f"{name}.tosa" for name in ("good", "other", "third", "bad", "valid")]
    patterns = ["good.tosa=known", "oth*=known", "third.tosa::check=known", "none=x"]
    patterns += ["bad.tosa::validate=its shape", "valid.tosa::validate"]
    words = [word for pattern in patterns for word in ("--tosa-xfail", pattern)]
    output = run_pytest(project, *files, "--tosa-against", "backend.py", *words, code=1)
    found = outcomes(output)
    for name in files[:3]:
        assert (found[f"{name}::validate"], found[f"{name}::check"]) == ("PASSED", "XFAIL")
    assert found["bad.tosa::validate"] == "XFAIL"
    assert output.count("[XPASS(strict)]") >= 1
    assert "no test matches --tosa-xfail none=x" in output
    assert "no test matches --tosa-xfail good" not in output
    # An option of `addopts` stays there if no backend is named.
    run_pytest(
        project, "good.tosa", "cases/right", "--tosa-xfail", "good.tosa", "--tosa-xfail", "r*"
    )


@pytest.mark.slow
def test_a_backend_outside_of_the_folder_needs_an_equals_sign(project: Path) -> None:
    """With a blank, pytest looks for its settings beside the backend, and collects nothing."""
    outside = project / "other"
    outside.mkdir()
    (project / "backend.py").rename(outside / "backend.py")
    own = project / "own"
    own.mkdir()
    (project / "good.tosa").rename(own / "good.tosa")
    (own / "pytest.ini").write_text("[pytest]\ntosa_files = *.tosa\n")
    assert "2 passed" in run_pytest(own, "--tosa-against=../other/backend.py")
    output = run_pytest(own, "--tosa-against", "../other/backend.py", code=4)
    assert "write --tosa-against=../other/backend.py" in output


@pytest.mark.slow
def test_the_fixtures_run_and_compare(project: Path) -> None:
    (project / "test_own.py").write_text(
        "import numpy as np\n"
        "def test_equal(tosa_run, assert_tosa_equal):\n"
        "    x = np.array([3, -4, 0, 7], np.int32)\n"
        "    assert_tosa_equal(tosa_run('good.tosa', {'x': x}), {'y': np.abs(x)})\n"
        "def test_different(tosa_run, assert_tosa_equal):\n"
        "    result = tosa_run('good.tosa', random=1)\n"
        "    assert_tosa_equal(result, {'y': result.outputs['y'] + 1})\n"
    )
    output = run_pytest(project, code=1)
    found = {"test_own.py::test_equal": "PASSED", "test_own.py::test_different": "FAILED"}
    assert outcomes(output) == found
    assert "FAIL y int32[4]" in output
    assert "pytest_plugin.py" not in output, "the report shows the line of the test"


def ints(values: list[int]) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


def test_results_are_compared_in_every_form() -> None:
    result = golden.run(one_operator("ABS"), X, engine="numpy")
    _assert_equal(result, {"y": np.abs(X["x"])})
    _assert_equal(np.array([1.0, 2.0]), np.array([1.0, 2.0001]))
    loose = golden.Tolerances(atol=(("y", 1.0),))
    _assert_equal({"y": ints([1])}, {"y": ints([2])}, tolerances=loose)
    for other in ({"y": ints([1])}, {"x": ints([0])}, {}):
        with pytest.raises(TosaFailure, match="the results differ"):
            _assert_equal({"y": ints([0])}, other)
    with pytest.raises(TosaFailure, match="only the other side has it"):
        _assert_equal({"y": ints([0])}, {"y": ints([0]), "z": ints([0])})
    with pytest.raises(TypeError, match="found str, expected a result of tosa_run"):
        _assert_equal("good.tosa", result)
