"""Programs run on the reference model or on numpy, and the result says on which."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden.official_cases import X, unary, write_case

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.builder import Builder
from tosa_convert.cli import run_model
from tosa_convert.cli.main import run as run_verb
from tosa_convert.cli.main import verb
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.golden.arrays import load_npz
from tosa_convert.golden.running import reference_model_process, run_options
from tosa_convert.graph import Graph
from tosa_convert.process.child import Ended
from tosa_convert.qualify.suite.run_cases import Qualification, qualify_case, run_case

NUMPY = golden.RunOptions(engine="numpy")
#: What a run gives that does not take place.
RAN = golden.Result({})


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the reference model."""

    def locate() -> Path:
        raise fail("missing-refmodel", "", "it is not installed")

    monkeypatch.delenv(reference_model_process.ENVIRONMENT, raising=False)
    monkeypatch.setattr(reference_model_process, "locate", locate)


@pytest.fixture
def network() -> Graph:
    b = Builder("main")
    x = b.input("x", "FP32", (2, 8))
    hidden = b.tanh(b.add(x, b.const(np.full((2, 8), 0.5, np.float32)), name="sum"))
    b.output(b.reduce_sum(hidden, axis=1), name="y")
    return b.graph()


@pytest.mark.usefixtures("no_model")
def test_without_the_reference_model_numpy_reduces_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = Builder("main")
    scaled = b.mul(b.input("x", "FP32", (1, 2, 4)), b.const(np.full((1, 2, 4), 2, np.float32)))
    real, imaginary = b.fft2d(scaled, b.negate(scaled))
    b.output(b.add(real, b.exp(imaginary)), name="y")
    expected = golden.run(b.graph(), random=1, intermediates="*").intermediates
    computed: set[str] = set()

    def judge(words: list[str], **_: object) -> Ended:
        main, given = tc.load(words[1]).main, load_npz(words[2])
        assert sorted(given) == sorted(main.inputs)
        computed.update(
            name
            for name, array in given.items()
            if name in expected and np.array_equal(array, expected[name])
        )
        return Ended(int(any(op.spec.name == "FFT2D" for op in main.operators)), "bad")

    monkeypatch.setattr("tosa_convert.qualify.reduction.reduce.run_command", judge)
    tc.save(b.graph(), tmp_path / "m.tosa")
    words = [str(tmp_path / "m.tosa"), "--random", "1", "--command", "true {model} {inputs}"]
    words += ["--expect-exit", "1", "--expect-text", "bad", "--work", str(tmp_path / "work")]
    assert run_verb(verb("reduce"), words) == 0
    reduced = tc.load(tmp_path / "work" / "reduced.tosa").main
    assert [op.spec.name for op in reduced.operators] == ["FFT2D"]
    # The candidates got what numpy computes in the whole program.
    assert computed >= set(reduced.inputs)
    assert len(computed) >= 2


@pytest.mark.usefixtures("no_model")
def test_without_the_reference_model_numpy_judges_official_cases(tmp_path: Path) -> None:
    write_case(tmp_path / "abs", unary("ABS"), X)
    answer = run_case(str(tmp_path), "abs")
    assert (answer.status, answer.message, answer.outputs) == ("pass", "", 1)
    backend = tmp_path / "backend.py"
    backend.write_text(
        "import numpy as np\n"
        "def run(model, inputs):\n"
        "    return {'y': np.maximum(inputs['x'], 0)}  # right for numbers above 0\n"
    )
    settings = Qualification(against=str(backend))
    wrong = qualify_case(str(tmp_path), "abs", settings=settings)
    assert wrong.status == "wrong", wrong.message
    backend.write_text(
        backend.read_text().replace("np.maximum(inputs['x'], 0)", "abs(inputs['x'])")
    )
    assert qualify_case(str(tmp_path), "abs", settings=settings).status == "pass"
    itself = qualify_case(str(tmp_path), "abs", settings=Qualification(against="numpy"))
    assert "nothing would be compared" in itself.message


@pytest.mark.parametrize(
    ("given", "keyword", "message"),
    [
        ("numpy", "reference-model", "and the options have engine='numpy'"),
        ("reference-model", "numpy", "and the options have engine='reference-model'"),
        ("auto", "nump", "numpy"),
    ],
)
def test_two_different_engines_and_unknown_ones_are_refused(
    network: Graph, given: Any, keyword: Any, message: str
) -> None:
    with pytest.raises(TosaConvertError, match=message) as caught:
        golden.run(network, options=golden.RunOptions(engine=given), random=1, engine=keyword)
    assert caught.value.code == "option-conflict"


def test_numpy_is_no_reference_for_itself(
    network: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tc.save(network, tmp_path / "m.tosa")
    arguments = [str(tmp_path / "m.tosa"), "--random", "1", "--reference", "numpy"]
    assert run_verb(verb("check"), [*arguments, "--against", "numpy"]) == 2
    assert "nothing would be compared" in capsys.readouterr().err


def test_a_run_in_numpy_ends_at_its_time_limit(network: Graph) -> None:
    options = golden.RunOptions(engine="numpy", timeout=1e-9)
    with pytest.raises(TosaConvertError) as caught:
        golden.run(network, options=options, random=1)
    assert caught.value.code == "refmodel-timeout"


def test_a_run_in_numpy_checks_the_level(network: Graph) -> None:
    b = Builder("main")
    x = b.input("x", "FP32", (1, 1, 9000, 1))
    b.output(b.max_pool2d(x, kernel=[1, 8500], stride=[1, 1], pad=[0] * 4), name="y")
    options = golden.RunOptions(engine="numpy", level="8k")
    with pytest.raises(TosaConvertError) as caught:
        golden.run(b.graph(), options=options, random=1)
    assert caught.value.code == "outside-level"


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize("engine", ["numpy", "reference-model"])
def test_a_run_ends_at_a_tensor_and_prints_others(
    network: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    tc.save(network, tmp_path / "m.tosa")
    np.save(tmp_path / "x.npy", np.arange(16, dtype=np.float32).reshape(2, 8))
    arguments = [str(tmp_path / "m.tosa"), "-i", f"x={tmp_path / 'x.npy'}", "--engine", engine]
    assert run_verb(verb("run"), [*arguments, "--until", "sum", "--print", "su*"]) == 0
    out = capsys.readouterr().out
    assert "sum: float32[2, 8] by operator #1 ADD" in out
    assert "[ 0.5  1.5" in out
    assert "output sum" in out
    assert "output y" not in out
    assert run_verb(verb("run"), [*arguments, "--print", "sum", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["printed"]
    assert row["values"][:3] == [0.5, 1.5, 2.5]
    assert run_verb(verb("run"), [*arguments, "--until", "nothing"]) == 3


@pytest.mark.parametrize("engine", ["numpy", "reference-model"])
def test_a_long_run_of_the_reference_model_is_foretold(
    network: Graph,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
) -> None:
    b = Builder("main")
    b.output(b.matmul(b.input("x", "FP32", (1, 32, 32)), b.input("y", "FP32", (1, 32, 32))))
    tc.save(b.graph(), tmp_path / "m.tosa")
    monkeypatch.setattr(run_options, "_MULTIPLY_ACCUMULATES", 1000)
    monkeypatch.setattr(run_model, "run_program", lambda *given: RAN)
    arguments = [str(tmp_path / "m.tosa"), "--random", "1", "--engine", engine]
    assert run_verb(verb("run"), arguments) == 0
    found = "takes about 33 s; --engine numpy takes less" in capsys.readouterr().err
    assert found == (engine == "reference-model")


@pytest.mark.slow
@pytest.mark.usefixtures("cases_here")
@pytest.mark.parametrize("against", [False, True])
def test_a_suite_runs_on_the_engine_that_is_asked_for(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    against: bool,
) -> None:
    model, backend, found = (tmp_path / name for name in ("model", "backend.py", "found.json"))
    model.write_text("#!/bin/sh\nexit 39\n")
    model.chmod(0o755)
    monkeypatch.setenv(reference_model_process.ENVIRONMENT, str(model))
    backend.write_text("def run(model, inputs):\n    return {'y': abs(inputs['x'])}\n")
    write_case(tmp_path / "suite" / "abs", unary("ABS"), X)
    words = [str(tmp_path / "suite"), "--jobs", "1", "--json-report", str(found)]
    words += ["--against", str(backend)] if against else []
    assert run_verb(verb("suite"), [*words, "--engine", "numpy"]) == 0
    report = json.loads(found.read_text())
    assert (report["passed"], report["outputs"], report["engine"]) == (1, 1, "numpy")
    assert "engine: numpy" in capsys.readouterr().err
    run_verb(verb("suite"), [*words, "--engine", "reference-model"])
    report = json.loads(found.read_text())
    assert (report["outputs"], report["engine"]) == (0, "reference-model")
    assert "39" in report["answers"][0]["message"]


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel", "cases_here")
def test_a_suite_compares_the_engines_in_both_directions(tmp_path: Path) -> None:
    write_case(tmp_path / "abs", unary("ABS"), X)
    words = [str(tmp_path), "--jobs", "1"]
    for engine, other in (("numpy", "reference-model"), ("reference-model", "numpy")):
        assert run_verb(verb("suite"), [*words, "--engine", engine, "--against", other]) == 0
        assert run_verb(verb("suite"), [*words, "--engine", engine, "--against", engine]) == 1


def test_the_command_line_names_the_engine(
    network: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.tosa"
    tc.save(network, path)
    arguments = [str(path), "--random", "1", "--engine", "numpy"]
    assert run_verb(verb("run"), arguments) == 0
    assert "engine: numpy" in capsys.readouterr().out
    assert run_verb(verb("run"), [*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"] == "numpy"
    assert run_verb(verb("check"), [*arguments, "--against", "numpy"]) == 2
    assert "nothing would be compared" in capsys.readouterr().err
    answer = str(tmp_path / "answer.npz")
    assert run_verb(verb("run"), [*arguments, "--intermediates", answer]) == 0
    for name in ("check", "bisect"):
        assert run_verb(verb(name), [*arguments, "--against", answer]) == 0
        assert "engine: numpy" in capsys.readouterr().err
        assert run_verb(verb(name), [*arguments, "--against", answer, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["engine"] == "numpy"


def open_slice(*, size: int) -> Graph:
    """Slice the second half of x, whose first size is unknown."""
    b = Builder("main")
    x = b.input("x", "FP32", (-1, 4))
    b.output(b.slice(x, start=(0, 2), size=(size, 2)), name="y")
    return b.graph()


def test_numpy_names_the_rule_of_what_it_cannot_compute() -> None:
    """-1 is an index from the end in Python: the slice would have one row less."""
    program = open_slice(size=-1)
    for name in ("x", "y"):
        program.main.tensors[name].shape = (3, program.main.tensors[name].shape[1])  # type: ignore[index]
    with pytest.raises(TosaConvertError) as caught:
        golden.run(program, random=0, options=NUMPY)
    assert [row.rule for row in caught.value.findings] == ["slice-size"]


def test_what_numpy_cannot_compute_in_a_valid_program_is_a_finding(
    network: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tosa_convert.reference import evaluate

    def fails(_: object) -> object:
        raise ValueError("a defect")

    monkeypatch.setitem(evaluate.OPERATIONS, "TANH", fails)
    with pytest.raises(TosaConvertError) as caught:
        golden.run(network, random=0, options=NUMPY)
    (found,) = caught.value.findings
    assert found.code == "refmodel-failed"
    assert "TANH" in found.where
    assert "ValueError: a defect" in found.message
