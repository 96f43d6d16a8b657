"""A kept answer counts only while all that decided it stays the same."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from golden.official_cases import X, make_suite, unary, write_case

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.cli import main
from tosa_convert.golden.backends import process
from tosa_convert.golden.running import reference_model_process
from tosa_convert.qualify.suite.engine import on_local_processes
from tosa_convert.qualify.verbs import run_suite

pytestmark = pytest.mark.usefixtures("refmodel", "cases_here")

RIGHT = "import numpy as np\nfrom parts import helper\n\n\ndef run(model, inputs):\n    return "
GOOD = RIGHT + "{'y': helper.absolute(inputs['x'])}\n"
HELPER = "import numpy as np\nabsolute = np.abs\n"


def run_verb(verb: str, *arguments: object) -> int:
    return main.run(main.verb(verb), list(map(str, arguments)))


def counts(said: str) -> tuple[int, int]:
    """Return how many cases the last line says were run now, and how many are from an earlier run."""
    found = re.search(r"(\d+) run now, (\d+) from an earlier run", said.splitlines()[-1])
    assert found is not None, said
    return int(found[1]), int(found[2])


def backend_files(folder: Path) -> Path:
    (folder / "parts").mkdir()
    (folder / "parts/__init__.py").write_text("")
    (folder / "parts/helper.py").write_text(HELPER)
    (folder / "sim.py").write_text(GOOD)
    return folder / "sim.py"


def change_inputs(root: Path) -> None:
    for name in ("abs/a", "abs/b"):
        np.save(root / f"cases/{name}/x.npy", np.array([1, 2, 3, 4], np.int32))


def change_programs(root: Path) -> None:
    for name in ("abs/a", "abs/b"):
        tc.save(unary("NEGATE"), root / f"cases/{name}/test.tosa")


def change_descriptors(root: Path) -> None:
    for path in root.glob("cases/abs/*/desc.json"):
        path.write_text(path.read_text() + "\n")


#: What changes between an interrupted run and the next one, of which every answer is in doubt.
CHANGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda root: None,
    "backend": lambda root: (root / "sim.py").write_text(RIGHT + "{}\n"),
    "module": lambda root: (root / "parts/helper.py").write_text(
        HELPER + "absolute = np.negative\n"
    ),
    "inputs": change_inputs,
    "programs": change_programs,
    "descriptors": change_descriptors,
}


def interrupted(root: Path, *arguments: object) -> list[object]:
    """Arguments of a run that has one answer more than the cases have, so that it is not complete."""
    for name in ("abs/a", "abs/b"):
        write_case(root / "cases" / name, unary("ABS"), X)
    common = ["suite", root / "cases", *arguments, "--jobs", "1", "--work", root / "out"]
    run_verb(*common)  # type: ignore[arg-type]
    write_case(root / "cases/clz", unary("CLZ"), X)
    return common


@pytest.mark.parametrize(
    "change",
    [name if name == "module" else pytest.param(name, marks=pytest.mark.slow) for name in CHANGES],
)
def test_an_answer_of_a_backend_counts_only_for_what_was_run(
    change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = interrupted(tmp_path, "--against", backend_files(tmp_path))
    CHANGES[change](tmp_path)
    capsys.readouterr()
    code = run_verb(*common)  # type: ignore[arg-type]
    out = capsys.readouterr().out
    assert counts(out) == ((1, 2) if change == "nothing" else (3, 0))
    assert code == 1, out
    if change in ("backend", "module", "programs"):
        assert "0 of 3 cases pass" in out


#: Reads what no text of it names: a module on PYTHONPATH, a module and a file whose names it
#: computes, a file in another folder, and an environment variable.
READING = """
import importlib, os, sys
import numpy as np
import on_the_path

base = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(base, "else" + "where"))
late = importlib.import_module("".join(["la", "te"]))


def run(model, inputs):
    with open(os.path.join(base, "elsewhere", "sc" + "ale.txt")) as file:
        scale = int(file.read())
    factor = on_the_path.FACTOR * late.FACTOR * scale * int(os.environ.get("SIM_FACTOR", "1"))
    return {"y": np.abs(inputs["x"]) * np.int32(factor)}
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="what is read is recorded in a kept process")
@pytest.mark.parametrize("change", ["nothing", "path", "late", "file", "variable"])
def test_an_answer_counts_only_while_all_that_the_backend_read_is_the_same(
    change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A kept backend has imported what it did; a worker has a new one.
    monkeypatch.setattr(run_suite, "on_local_processes", on_local_processes)
    other = tmp_path / "elsewhere"
    (other / "on_path").mkdir(parents=True)
    (other / "on_path/on_the_path.py").write_text("FACTOR = 1\n")
    (other / "late.py").write_text("FACTOR = 1\n")
    (other / "scale.txt").write_text("1")
    (tmp_path / "sim.py").write_text(READING)
    monkeypatch.setenv("PYTHONPATH", str(other / "on_path"))
    monkeypatch.setenv("SIM_FACTOR", "1")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    common = interrupted(tmp_path, "--against", tmp_path / "sim.py")
    assert "2 of 2 cases pass" in capsys.readouterr().out
    if change == "path":
        (other / "on_path/on_the_path.py").write_text("FACTOR = 2\n")
    elif change == "late":
        (other / "late.py").write_text("FACTOR = 2\n")
    elif change == "file":
        (other / "scale.txt").write_text("2")
    elif change == "variable":
        monkeypatch.setenv("SIM_FACTOR", "2")
    run_verb(*common)  # type: ignore[arg-type]
    out = capsys.readouterr().out
    assert counts(out) == ((1, 2) if change == "nothing" else (3, 0)), out
    assert ("2 of 3 cases pass" in out) == (change == "nothing")


@pytest.mark.parametrize(
    "change",
    [
        "nothing",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("inputs", "programs", "descriptors")
        ),
    ],
)
def test_an_answer_of_a_conversion_counts_only_for_the_case_as_it_was(
    change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = interrupted(tmp_path)
    CHANGES[change](tmp_path)
    capsys.readouterr()
    run_verb(*common)  # type: ignore[arg-type]
    assert counts(capsys.readouterr().out) == ((1, 2) if change == "nothing" else (3, 0))


@pytest.mark.parametrize(
    "what",
    [
        "command",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("program of a script", "result", "timeout", "release", "model")
        ),
    ],
)
def test_results_commands_options_and_releases_are_part_of_what_decides(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "sim"
    tool = tmp_path / "tool"
    tool.write_text("exit 77\n")
    script.write_text(f"#!/bin/sh\n. {tool}\n")
    script.chmod(0o755)
    for name in ("abs/a", "abs/b"):
        (tmp_path / "results" / name).mkdir(parents=True)
        np.save(tmp_path / "results" / name / "y.npy", np.abs(X["x"]))
    against = tmp_path / "results" if what == "result" else f"sh {script}"
    common = interrupted(tmp_path, "--against", against, "--depends", tool)
    more: list[object] = []
    if what == "program of a script":
        tool.write_text("exit 78\n")
    elif what == "result":
        for name in ("abs/a", "abs/b"):
            np.save(tmp_path / "results" / name / "y.npy", X["x"])
    elif what == "command":
        script.write_text("#!/bin/sh\nexit 78\n")
    elif what == "timeout":
        more = ["--timeout", "61"]
    elif what == "release":
        monkeypatch.setattr(process, "__version__", "0.0.0")
    else:
        program = tmp_path / "model"
        program.write_text(f'#!/bin/sh\nexec {reference_model_process.locate()} "$@"\n')
        program.chmod(0o755)
        monkeypatch.setenv(reference_model_process.ENVIRONMENT, str(program))
    capsys.readouterr()
    run_verb(*common, *more)  # type: ignore[arg-type]
    assert counts(capsys.readouterr().out) == (3, 0)
    tool.unlink()
    assert run_verb(*common, *more) == 2  # type: ignore[arg-type]
    assert f"{tool}: error: cannot be read" in capsys.readouterr().err


@pytest.mark.slow
def test_a_complete_run_begins_anew_unless_it_is_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_suite(tmp_path / "cases")
    common = [tmp_path / "cases", "--against", "sh -c 'exit 77'", "--jobs", "1"]
    out = ["--work", tmp_path / "out"]
    assert run_verb("suite", *common, "--resume") == 2
    found = []
    for more in (
        [],
        [],
        ["--resume"],
        ["--max-cases", "2"],
        ["--max-cases", "2", "--resume"],
        ["--resume"],
    ):
        run_verb("suite", *common, *out, *more)
        found.append(counts(capsys.readouterr().out))
    assert found == [(4, 0), (4, 0), (0, 4), (2, 0), (0, 2), (0, 4)]


@pytest.mark.slow
def test_answers_that_say_nothing_of_what_decided_them_do_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As journals of earlier releases have them."""
    common = interrupted(tmp_path)
    journal = tmp_path / "out/answers.jsonl"
    journal.write_text(re.sub(r', "key": "\w*"', "", journal.read_text()))
    capsys.readouterr()
    run_verb(*common)  # type: ignore[arg-type]
    assert counts(capsys.readouterr().out) == (3, 0)


# -- reduce


@pytest.fixture
def reduction(tmp_path: Path) -> list[object]:
    """Arguments of a reduction whose command is a Python file with a module beside it."""
    tc.save(golden.generate(seed=2, operators=4, kinds=["ABS"]), tmp_path / "m.tosa")
    (tmp_path / "fails.py").write_text("import decides\n")
    (tmp_path / "decides.py").write_text(
        "import sys\nsys.exit(len(open(sys.argv[1], 'rb').read()) > 1)\n"
    )
    command = f"{sys.executable} {tmp_path / 'fails.py'}"
    return [
        tmp_path / "m.tosa",
        "--command",
        command,
        "--work",
        tmp_path / "w",
        "--expect-exit",
        "1",
    ]


def tried(said: str) -> tuple[int, int]:
    found = re.search(r"(\d+) candidates? tried now, (\d+) answers? from an earlier run", said)
    assert found is not None, said
    return int(found[1]), int(found[2])


def test_an_answer_of_a_reduction_counts_only_for_the_command_as_it_was(
    reduction: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_verb("reduce", *reduction) == 0
    first = tried(capsys.readouterr().out)
    assert first[0] > 0
    assert first[1] == 0
    assert run_verb("reduce", *reduction, "--resume") == 0
    assert tried(capsys.readouterr().out) == (0, first[0])
    assert run_verb("reduce", *reduction) == 0
    assert tried(capsys.readouterr().out) == first
    (tmp_path / "decides.py").write_text("")
    assert run_verb("reduce", *reduction, "--resume") == 2
    assert "it does not fail as expected" in capsys.readouterr().err


# -- fingerprints


def test_a_program_of_another_python_is_known_by_its_packages(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho one\n")
    program.chmod(0o755)
    before = process.of_software(str(program))
    program.write_text("#!/bin/sh\necho two\n")
    assert process.of_software(str(program)) != before
    assert process.of_software(str(tmp_path / "absent")) != before
    assert process.of_software() == process.of_software()
