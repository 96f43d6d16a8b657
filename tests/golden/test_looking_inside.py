"""Every value of a run: step by step, by name, in regions; how much is done; and a run that is ended."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
from frontends.tflite_models import OperatorRow, TensorRow, model
from golden.test_regions import X, branches, inputs, loop

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.builder import Builder
from tosa_convert.cli.main import run as run_verb
from tosa_convert.cli.main import verb
from tosa_convert.cli.messages import RunProgress, StageDisplay
from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.process.request import STAGE_FILE, say_stage, stages
from tosa_convert.golden.running import reference_model_process
from tosa_convert.graph import Graph

pytestmark = pytest.mark.usefixtures("refmodel")
NUMPY = golden.RunOptions(engine="numpy")
MODEL = golden.RunOptions(engine="reference-model")
ENGINES = ["numpy", pytest.param("reference-model", marks=pytest.mark.slow)]


def chain(length: int, size: int = 4) -> Graph:
    """x + 1, `length` times."""
    b = Builder("main")
    value = b.input("x", "FP32", (size,))
    for number in range(length):
        value = b.add(value, b.const(np.ones(size, np.float32)), name=f"t{number}")
    b.output(value)
    return b.graph()


def test_steps_are_those_of_numpy() -> None:
    with pytest.raises(TosaConvertError, match="does not stop at operators"):
        next(golden.steps(chain(1), options=MODEL, random=1))


def test_the_time_between_steps_is_not_that_of_the_run() -> None:
    options = golden.RunOptions(engine="numpy", timeout=0.3)
    for _ in golden.steps(chain(3), options=options, random=1):
        time.sleep(0.15)


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "given"), [(branches(), inputs(True)), (loop(), {"x": X})])
@pytest.mark.parametrize(
    ("patterns", "iterations"), [(["*"], 0), (["*"], 2), (["y"], 1), (["*[1]/s", "a"], 9)]
)
def test_both_engines_give_the_same_tensors(
    graph: Graph, given: dict[str, object], patterns: list[str], iterations: int
) -> None:
    def rows(options: golden.RunOptions) -> list[object]:
        try:
            tensors = golden.iterate_tensors(graph, given, patterns, options, iterations=iterations)  # type: ignore[arg-type]
            return [(t.name, t.index, t.operator, t.arrays[t.name].tolist()) for t in tensors]
        except TosaConvertError as error:
            return [str(error)]

    assert rows(NUMPY) == rows(MODEL)


@pytest.fixture
def looping(tmp_path: Path) -> list[str]:
    """Return the arguments that run `loop`."""
    tc.save(loop(), tmp_path / "m.tosa")
    np.save(tmp_path / "x.npy", X)
    return [str(tmp_path / "m.tosa"), "-i", f"x={tmp_path / 'x.npy'}"]


@pytest.mark.parametrize("engine", ENGINES)
def test_tensors_in_regions_are_printed(
    looping: list[str], capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    words = [*looping, "--engine", engine, "--json", "--print", "n/body[[]?]/s", "--print", "a"]
    assert run_verb(verb("run"), words) == 0
    rows = json.loads(capsys.readouterr().out)["printed"]
    assert [row["name"] for row in rows] == ["a", *(f"n/body[{k}]/s" for k in range(5))]
    assert rows[1]["operator"] == "operator #2 WHILE_LOOP body[0] operator #3 ADD"
    assert rows[1]["values"] == X.reshape(-1).tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_ends_at_tensors_in_regions(
    looping: list[str], capsys: pytest.CaptureFixture[str], engine: str, tmp_path: Path
) -> None:
    words = [*looping, "--engine", engine, "-o", str(tmp_path / "out.npz")]
    assert run_verb(verb("run"), [*words, "--until", "n/body[1]/m", "--until", "a"]) == 0
    with np.load(tmp_path / "out.npz") as found:
        assert sorted(found) == ["a", "n/body[1]/m"]
        assert np.array_equal(found["n/body[1]/m"], X[:, :, ::-1] + 1)
    assert run_verb(verb("run"), [*words, "--until", "*/body*/w"]) == 0
    with np.load(tmp_path / "out.npz") as found:
        assert len(found) == 5
    assert run_verb(verb("run"), [*words, "--until", "?"]) == 0
    with np.load(tmp_path / "out.npz") as found:
        assert "y" in found and "a" in found  # noqa: PT018
    capsys.readouterr()
    for name, said in [
        ("n/body[1]/n", "did you mean n/body[0]/"),
        ("n/bdy[0]/m", "did you mean"),
        ("q", "none of"),
    ]:
        for flag in ("--until", "--print"):
            assert run_verb(verb("run"), [*words, flag, name]) == 3
            assert said in capsys.readouterr().err, (flag, name)
    assert run_verb(verb("run"), [*words, "--until", "n/body[7]/m"]) == 3
    assert "nothing that ran matches it" in capsys.readouterr().err


def test_states_are_not_those_of_a_run_that_ends_in_a_region(looping: list[str]) -> None:
    for flag in ("--save-variables", "--bounds"):
        words = [*looping, "--engine", "numpy", "--until", "n/body[0]/m", flag, "v.npz"]
        assert run_verb(verb("run"), words) == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_reports_how_much_is_done(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    options = golden.RunOptions(
        engine=engine,  # type: ignore[arg-type]
        progress=lambda done, total: seen.append(done / total),
    )
    if engine == "numpy":
        golden.run(chain(4), options=options, random=1)
        assert sorted({round(share, 3) for share in seen}) == [0, 0.25, 0.5, 0.75, 1]
    else:
        real = reference_model_process.run

        def slow(*given: object) -> object:
            time.sleep(0.7)
            return real(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(reference_model_process, "run", slow)
        golden.run(chain(4), options=options, random=1)
        assert seen[0] == pytest.approx(0.99)  # it has taken longer than was estimated


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_further_run_has_a_bar_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    now, screen = [100.0], Terminal()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", screen)
    with RunProgress("reference") as progress:
        for done in (1, 3, 2, 3):
            now[0] += 1.5
            progress.report(done, 4)
    bars = screen.getvalue().splitlines(keepends=True)
    assert [bar.endswith("\n") for bar in bars if "75%" in bar] == [True, True]


def test_a_converter_has_a_line_that_is_gone_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now, screen = [100.0], Terminal()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", screen)
    show = StageDisplay("m.pt2")
    show("loading the model")  # Most models are converted before a line is worth while.
    assert not screen.getvalue()
    now[0] += 12
    show("lowering the model")
    show("writing the program")
    show("")
    first, second = "m.pt2: lowering the model, 12 s", "m.pt2: writing the program, 12 s"
    lines = screen.getvalue().split("\r")
    assert lines == ["", first, second.ljust(len(first)), " " * len(second), ""]


def test_verbose_says_how_long_each_step_of_a_model_took(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [TensorRow("x", "float32", (2,)), TensorRow("y", "float32", (2,))]
    path = tmp_path / "m.tflite"
    path.write_bytes(model(rows, [OperatorRow("NEG", (0,), (1,))], [0], [1]))
    given = [str(path), "-o", str(tmp_path / "m.tosa")]
    assert run_verb(verb("convert"), [*given, "-v"]) == 0
    steps = [line.rpartition(" took ")[0] for line in caplog.messages if line.endswith(" s")]
    assert steps == [
        "starting the converter",
        "importing the converter for tflite",
        "loading the model",
        "lowering the model",
        "writing the program",
        "reading the program",
        "rewriting it",
        "validating it",
        "writing it",
        "convert",
    ]


def test_a_stage_that_is_half_written_is_left_out(tmp_path: Path) -> None:
    assert stages(tmp_path) == []
    say_stage(tmp_path, "loading the model")
    with (tmp_path / STAGE_FILE).open("a") as file:
        file.write("17")
    assert [words for _, words in stages(tmp_path)] == ["loading the model"]


#: The first MATMUL is that of the run for the outputs; the second takes minutes in one call of numpy.
_SLOW = """
import numpy as np
from tosa_convert.cli.start import main
from tosa_convert.reference import evaluate
calls = []
def multiply(call):
    calls.append(call)
    if len(calls) == 2:
        print("started", flush=True)
        np.einsum("i,j,k->", *[np.ones(8000)] * 3)
    return call.value("a") @ call.value("b")
evaluate.OPERATIONS["MATMUL"] = multiply
main()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals of POSIX")
@pytest.mark.parametrize("place", ["folder", "file.npz"])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_run_is_ended_in_the_middle_of_an_operator(tmp_path: Path, name: str, place: str) -> None:
    b = Builder("main")
    x = b.input("x", "FP32", (1, 2, 2))
    b.output(b.matmul(b.add(x, x, name="sum"), x))
    tc.save(b.graph(), tmp_path / "m.tosa")
    target, scratch = tmp_path / "out" / place, tmp_path / "scratch"
    target.parent.mkdir()
    scratch.mkdir()
    words = ["run", "m.tosa", "--random", "1", "--engine", "numpy", "--intermediates", str(target)]
    command = [sys.executable, "-c", _SLOW, *words]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"started\n"
            time.sleep(1)  # until numpy computes
            process.send_signal(getattr(signal, name))
            process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 128 + getattr(signal, name)
    assert os.listdir(target.parent) == []
    for _ in range(50):
        if not os.listdir(scratch):
            break
        time.sleep(0.2)
    assert os.listdir(scratch) == []


def test_numpy_gives_one_tensor_after_another_and_drops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tosa_convert.golden.running.run.batches", None
    )  # those are for the reference model
    references = []
    tensors = golden.iterate_tensors(chain(6), {"x": np.zeros(4, np.float32)}, options=NUMPY)
    for tensor in tensors:
        references.append(weakref.ref(tensor.arrays[tensor.name]))
        del tensor
        # One is the operand of the next operator, and one its result.
        assert sum(reference() is not None for reference in references) <= 2
    assert len(references) == 6
