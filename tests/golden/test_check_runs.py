"""`check` on several sets of inputs, several times on each, and against another backend."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from golden.official_cases import X, unary

import tosa_convert as tc
from tosa_convert import builder
from tosa_convert.cli import main
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import load_npz, save_npz
from tosa_convert.golden.backends.runners import open_backend
from tosa_convert.golden.checking.check import check as check_arrays
from tosa_convert.graph import Graph
from tosa_convert.qualify.suite.run_cases import run_case

pytestmark = pytest.mark.usefixtures("refmodel")

RIGHT = "return {'y': np.abs(inputs['x'])}"
#: Wrong for negative numbers only.
COPY = "return {'y': inputs['x']}"
#: Another result in each run.
UNSTEADY = "import time; return {'y': np.abs(inputs['x']) + np.int32(time.time_ns() & 0xFFFF)}"

Check = Callable[..., tuple[int, str]]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Runs `check` on y = ABS(x) against a Python file with this body."""
    tc.save(unary("ABS"), tmp_path / "m.tosa")

    def run(body: str, *arguments: str) -> tuple[int, str]:
        path = tmp_path / "backend.py"
        path.write_text(f"import numpy as np\n\n\ndef run(model, inputs):\n    {body}\n")
        words = [str(tmp_path / "m.tosa"), "--against", str(path), *arguments]
        code = main.run(main.verb("check"), words)
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


@pytest.mark.skipif(sys.platform == "win32", reason="the reference model here is a script")
def test_the_reference_model_runs_while_the_backend_runs(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, started = tmp_path / "slow_reference_model", tmp_path / "started"
    script.write_text(f"#!/bin/sh\ntouch {started}\nexec sleep 300\n")
    script.chmod(0o755)
    monkeypatch.setenv("TOSA_REFERENCE_MODEL", str(script))
    body = f"""import os, time
    while not os.path.exists({str(started)!r}):
        time.sleep(0.01)
    raise NotImplementedError"""
    code, said = check(body, "--no-edges", "--timeout", "30")
    assert (code, "backend-refused" in said) == (4, True)


@pytest.mark.slow
def test_each_seed_is_a_run_of_its_own(check: Check) -> None:
    words = "--seeds", "3", "--random", "5", "--no-edges"
    code, said = check(RIGHT, *words)
    assert code == 0
    assert said.startswith(
        "ok   3 of 3 runs agree, nearest to its bound in seed-5: y int32[4] [exact]:"
    )
    assert said.count("\n") == 1
    code, said = check(RIGHT, *words, "--verbose")
    assert "3 of 3 runs agree" in said
    assert [line for line in said.splitlines() if line.startswith("seed-")] == [
        "seed-5:",
        "seed-6:",
        "seed-7:",
    ]
    code, said = check(COPY, "--seeds", "2", "--no-edges", "--range", "x=0:9")
    assert (code, "2 of 2 runs agree" in said) == (0, True)
    code, said = check(COPY, "--seeds", "2", "--no-edges", "--range", "x=-9:-1", "--json")
    assert code == 1
    answer = json.loads(said)
    assert (answer["ok"], [row["run"] for row in answer["runs"]]) == (False, ["seed-0", "seed-1"])


@pytest.mark.slow
def test_a_wrong_output_accuses_no_operator_and_names_the_command_that_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    b = builder.Builder("two")
    b.output(b.clz(b.abs(b.input("x", "int32", (4,)))), name="y")
    tc.save(b.graph(), tmp_path / "two.tosa")
    (tmp_path / "sim.py").write_text(
        "import numpy as np\n\n\ndef run(model, inputs):\n"
        "    return {'y': np.zeros(4, np.int32) + np.int32(inputs['x'] == 2**31 - 1)}\n"
    )
    words = [str(tmp_path / "two.tosa"), "--against", str(tmp_path / "sim.py")]
    assert main.run(main.verb("check"), [*words, "--random", "3", "--seeds", "2"]) == 1
    said = capsys.readouterr()
    assert "       computed by operator #1 CLZ" in said.out
    command = f"tosa-flatbuffer bisect {words[0]} --random 3 --against {words[2]}\n"
    assert f"the operator that is wrong: {command}" in said.err
    assert (
        main.run(main.verb("check"), [*words, "--random", "3", "--edges", "--range", "x=0:4"]) == 1
    )
    said = capsys.readouterr()
    command = command.replace("3 --against", "3 --edges --against").rstrip()
    assert f"wrong: {command}, with the other options of this command\n" in said.err
    save_npz(tmp_path / "x.npz", {"x": np.zeros(4, np.int32)})
    assert main.run(main.verb("check"), [*words, "-i", str(tmp_path / "x.npz")]) == 1
    assert "bisect, with the same options, names the operator" in capsys.readouterr().err


@pytest.mark.slow
def test_samples_of_a_calibration_file_are_checked(check: Check, tmp_path: Path) -> None:
    samples = np.array([[1, 2, 3, 4], [1, -2, 3, 4], [5, 6, 7, 8]], np.int32)
    save_npz(tmp_path / "c.npz", {"x": samples})
    code, said = check(COPY, "--calibration", str(tmp_path / "c.npz"))
    assert (code, "2 of 3 runs agree" in said) == (1, True)
    for wrong, message in (
        ({"x": samples[:, :3]}, "expected [samples, 4]"),
        ({"z": samples}, "the inputs are x"),
        ({"x": samples[:0]}, "it has no samples"),
        ({}, "it has no samples"),
    ):
        save_npz(tmp_path / "c.npz", wrong)
        code, said = check(COPY, "--calibration", str(tmp_path / "c.npz"))
        assert (code, message in said) == (2, True), said


@pytest.mark.slow
def test_a_backend_that_changes_its_results_is_nondeterministic(
    check: Check, tmp_path: Path
) -> None:
    code, said = check(RIGHT, "--random", "1", "--repeat", "2")
    assert code == 0, said
    code, said = check(UNSTEADY, "--random", "1", "--repeat", "2")
    assert code == 1
    assert "nondeterministic: run 2 on the same inputs gives other values in 4 of 4" in said
    save_npz(tmp_path / "r.npz", {"y": X["x"]})
    words = [str(tmp_path / "m.tosa"), "--against", str(tmp_path / "r.npz"), "--random", "1"]
    assert main.run(main.verb("check"), [*words, "--repeat", "2"]) == 2


@pytest.mark.slow
def test_what_is_saved_is_a_case_of_suite(check: Check, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    code, _ = check(COPY, "--seeds", "2", "--no-edges", "--save", str(saved))
    assert code == 1
    assert sorted(path.name for path in saved.iterdir()) == ["seed-0", "seed-1"]
    folder = saved / "seed-1"
    x = load_npz(folder / "inputs.npz")["x"]
    assert np.array_equal(load_npz(folder / "expected.npz")["y"], np.abs(x))
    assert np.array_equal(load_npz(folder / "found.npz")["y"], x)
    assert json.loads((folder / "comparison.json").read_text())["ok"] is False
    assert run_case(str(saved), "seed-1").status == "pass"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seeds", "2", "--calibration", "c.npz"],
        ["--random", "1", "--calibration", "c.npz"],
        ["--calibration", "c.npz", "--range", "x=0:1"],
        ["-i", "x.npz", "--range", "x=0:1"],
        ["-i", "x.npz", "--seeds", "2"],
        ["--random", "1", "--range", "x=1:0"],
        ["--random", "1", "--range", "x"],
        ["--random", "1", "--range", "x=a:b"],
        ["--random", "1", "--range", "x=0.5:2"],
        ["--random", "1", "--range", "x=0:1e10"],
        ["--random", "1", "--range", "z=0:1"],
    ],
)
def test_options_that_do_not_fit_together_are_refused(
    arguments: list[str], check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_npz(tmp_path / "x.npz", X)
    code, said = check(RIGHT, *arguments)
    assert code == 2, said


@pytest.mark.parametrize("order", [(RIGHT, COPY), (COPY, RIGHT)])
def test_every_backend_that_is_named_is_run(
    check: Check, tmp_path: Path, order: tuple[str, str]
) -> None:
    other = tmp_path / "other.py"
    other.write_text(f"import numpy as np\n\n\ndef run(model, inputs):\n    {order[1]}\n")
    given = ("--random", "3", "--no-edges", "--range", "x=-9:-1", "--against", str(other))
    code, said = check(order[0], *given, "--save", str(tmp_path / "saved"))
    assert (code, "1 of 2 runs agree" in said) == (1, True)
    names = [
        f"against {tmp_path / name}:"
        for name, body in zip(("backend.py", "other.py"), order, strict=True)
        if body != RIGHT
    ]
    assert [line for line in said.splitlines() if line.startswith("against")] == names
    assert {path.name for path in (tmp_path / "saved").iterdir()} == {"backend-0", "backend-1"}
    code, said = check(order[0], *given, "--seeds", "2", "--json")
    answer = json.loads(said)
    assert [row["ok"] for row in answer["runs"]] == 2 * [body == RIGHT for body in order]
    assert answer["runs"][3]["run"] == f"seed-4 against {other}"


TORCH = """
class Array:
    dtype = "int32"
    def __init__(self, array): self.array = array
    detach = clone = lambda self: self
    def numpy(self): return self.array
    def to(self, dtype): return self
Tensor = Array
class no_grad:
    def __enter__(self): pass
    def __exit__(self, *given): pass
def from_numpy(array): return Array(array)
manual_seed = float
class nn:
    class Module:
        training = True
        def eval(self):
            self.training = False
            return self
class backends:
    class mha:
        set_fastpath_enabled = staticmethod(bool)
class export:
    class ExportedProgram: pass
class utils:
    class _pytree:
        tree_leaves = staticmethod(lambda tree: [tree])
        tree_flatten = staticmethod(lambda example: (list(example[0]), None))
        tree_unflatten = staticmethod(lambda leaves, spec: (leaves, {}))
"""
NET = """
import torch
one = int(open("weights").read())
class Net(torch.nn.Module):
    def __call__(self, x): return torch.Array(one + abs(x.array) - x.array + self.training)
def factory(): return Net().eval(), (torch.Array([1, 2, 3, 4]),)
def trained(): return Net()
class Worse(torch.nn.Module):
    def __call__(self, x): raise ValueError("no such luck")
"""


@pytest.mark.slow
def test_a_backend_process_returns_its_results_and_leaves_no_folder(
    chain: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test double replaces torch: the test is about how arrays are passed."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "torch.py").write_text(TORCH)
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "users").mkdir()
    (tmp_path / "users/weights").write_text("1")
    monkeypatch.chdir(tmp_path / "users")
    x = {"x": np.array([3, -4, 0, 7], np.int32)}
    backend = open_backend("torch", chain, x, original="../net.py:Net")
    assert len(list((tmp_path / "scratch").iterdir())) == 1
    assert check_arrays(chain, backend, x).ok
    # A class is put into evaluation mode; what a function returns has the mode that it chose.
    for name, is_equal in (("factory", True), ("trained", False)):
        made = open_backend("torch", chain, x, original=f"{tmp_path / 'net.py'}:{name}")
        assert check_arrays(chain, made, x).ok == is_equal
        del made
    with pytest.raises(TosaConvertError, match="no such luck") as caught:
        open_backend("torch", chain, x, original=f"{tmp_path / 'net.py'}:Worse")
    assert caught.value.code == "backend-failed"
    del backend
    gc.collect()
    assert list((tmp_path / "scratch").iterdir()) == []
    assert [path.name for path in (tmp_path / "users").iterdir()] == ["weights"]


def test_later_calls_begin_with_the_states_of_the_call_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    b = builder.Builder("counter")
    x = b.input("x", "fp32", (4,))
    total = b.variable("total", "fp32", (4,), initial=0)
    after = b.add(b.read(total), x)
    b.write(total, after)
    b.output(after, name="y")
    tc.save(b.graph(), tmp_path / "m.tosa")
    body = "import numpy as np\nfrom tosa_convert import golden\n\n\ndef run(model, inputs):\n"
    body += "    return golden.run(model, inputs, engine='numpy'{}).outputs\n"
    words = [str(tmp_path / "m.tosa"), "--against", str(tmp_path / "device.py"), "--no-edges"]
    (tmp_path / "device.py").write_text(body.format(""))
    assert main.run(main.verb("check"), words) == 0
    assert "3 of 3 runs agree" in capsys.readouterr().out
    # A device that begins each call with zeros is right in the first one.
    zeros = ", variables={'total': np.zeros(4, np.float32)}"
    (tmp_path / "device.py").write_text(body.format(zeros))
    assert main.run(main.verb("check"), [*words, "--json"]) == 1
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [(row["run"], row["ok"]) for row in runs] == [
        ("seed-0", True),
        ("call-2", False),
        ("call-3", False),
    ]
