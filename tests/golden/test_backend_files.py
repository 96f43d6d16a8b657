"""Arrays of every element type through files, and backends that fail."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from golden.conftest import Builder

import tosa_convert as tc
from tosa_convert.cli.check import check as check_verb
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import load_npz, read_npy, save_npz, write_npy
from tosa_convert.golden.backends.isolated import Command
from tosa_convert.golden.backends.process import Machine
from tosa_convert.golden.backends.runners import open_backend
from tosa_convert.golden.checking.check import check
from tosa_convert.golden.running.random_inputs import draw
from tosa_convert.golden.running.run import run
from tosa_convert.graph import Graph
from tosa_convert.graph.dtypes import DTYPES, DType
from tosa_convert.qualify.bisection.bisect import bisect
from tosa_convert.qualify.bisection.judge_operators import save_case
from tosa_convert.qualify.reduction.reduce import Failure, reduce

X = {"x": np.array([3, -4, 0, 7], np.int32)}
COPY = """
import sys
from tosa_convert.golden.arrays import load_npz, save_npz
given = load_npz(sys.argv[2])
save_npz(sys.argv[3], {"y" + name[1:]: given[name] for name in given})
"""


def test_fp8_that_numpy_wrote_is_read(tmp_path: Path) -> None:
    array = np.arange(6).astype(ml_dtypes.float8_e5m2).reshape(2, 3)
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", x=array)
    for found in (read_npy(tmp_path / "a.npy"), load_npz(tmp_path / "a.npz")["x"]):
        assert found.view(array.dtype).tobytes() == array.tobytes()


def copies(types: list[DType]) -> tuple[Graph, dict[str, Any]]:
    """Return a program that returns its inputs through IDENTITY."""
    b = Builder()
    given = {}
    for number, row in enumerate(types):
        b.input(f"x{number}", row.name, (1, 32))
        b.op("IDENTITY", [f"x{number}"], f"y{number}", row.name, (1, 32))
        given[f"x{number}"] = draw(np.random.default_rng(number), row, (1, 32))
    return b.graph(*(f"y{number}" for number in range(len(types)))), given


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
def test_every_type_goes_through_a_command_a_folder_an_archive_and_a_case(tmp_path: Path) -> None:
    names = ("BOOL", "INT8", "INT16", "INT32", "FP32", "FP16", "BF16", "FP8E4M3", "FP8E5M2")
    graph, given = copies([row for row in DTYPES if row.name in names])
    script = tmp_path / "backend.py"
    script.write_text(COPY)
    backend = Command([sys.executable, str(script)], Machine(sys.executable, 60))
    assert check(graph, backend, given).ok
    answer = run(graph, given).outputs
    save_npz(tmp_path / "answer.npz", answer)
    assert check(graph, str(tmp_path / "answer.npz"), given).ok
    (tmp_path / "folder").mkdir()
    for name, array in answer.items():
        write_npy(tmp_path / "folder" / f"{name}.npy", array)
    assert check(graph, str(tmp_path / "folder"), given).ok
    number = next(n for n, row in enumerate(names) if row == "FP8E5M2")
    wrong = {**answer, f"y{number}": answer[f"y{number}"][:, ::-1].copy()}
    result = bisect(graph, wrong, given)
    assert result.first is not None
    save_case(
        result.first, tmp_path / "case", open_backend(str(tmp_path / "answer.npz"), graph, given)
    )
    inputs = load_npz(tmp_path / "case" / "inputs.npz")
    assert check(
        tmp_path / "case" / "case.tosa", str(tmp_path / "case" / "expected.npz"), inputs
    ).ok


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", signal.SIGSEGV.name),
        (
            "import sys; [print('line', i, file=sys.stderr) for i in range(30)]; sys.exit(9)",
            "line 10",
        ),
        ("open(__import__('sys').argv[3], 'w').write('garbage')", "not a valid .npz file"),
        ("pass", "no outputs"),
    ],
)
@pytest.mark.usefixtures("refmodel")
def test_a_backend_that_fails_says_how_and_its_files_are_kept(
    chain: Graph, tmp_path: Path, program: str, expected: str
) -> None:
    backend = Command(
        [sys.executable, "-c", program], Machine(sys.executable, 60), tmp_path / "kept"
    )
    with pytest.raises(TosaConvertError) as caught:
        check(chain, backend, X)
    assert caught.value.code == "backend-failed"
    assert expected in str(caught.value)
    assert "line 9\n" not in str(caught.value)
    kept = tmp_path / "kept" / "failed-0"
    assert tc.load(kept / "model.tosa").main.outputs == ["c"]
    assert np.array_equal(load_npz(kept / "in.npz")["x"], X["x"])


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
def test_the_printed_command_of_a_case_repeats_the_difference(chain: Graph, tmp_path: Path) -> None:
    script = tmp_path / "a folder" / "wrong.py"
    script.parent.mkdir()
    script.write_text(
        "import sys, numpy as np\n"
        "from tosa_convert import golden\n"
        "answer = golden.run(sys.argv[1], dict(np.load(sys.argv[2]))).outputs\n"
        "np.savez(sys.argv[3], **{name: array + 1 for name, array in answer.items()})\n"
    )
    backend = Command([sys.executable, str(script)], Machine(sys.executable, 60))
    result = bisect(chain, backend, X)
    assert result.first is not None
    command = save_case(result.first, tmp_path / "case", backend)[-1]
    assert f"{sys.executable} '{script}'" in command.replace("'\"'\"'", "'")
    import shlex

    words = shlex.split(command)[2:]
    words[0] = str(tmp_path / "case" / "case.tosa")
    words[words.index("-i") + 1] = str(tmp_path / "case" / "inputs.npz")
    ended = CliRunner().invoke(check_verb, words)
    assert ended.exit_code in (0, 1), ended.output
    assert "FAIL" in ended.output


def test_a_command_that_always_fails_is_not_reduced(chain: Graph, tmp_path: Path) -> None:
    command = f"{sys.executable} no_such_file.py"
    with pytest.raises(TosaConvertError, match="fails on a program without operators") as caught:
        reduce(chain, command, tmp_path / "work")
    assert caught.value.code == "option-conflict"
    assert "no_such_file.py" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("expect", [Failure(7), Failure(text="lost"), Failure(7, "lost")])
def test_only_the_expected_failure_counts(chain: Graph, tmp_path: Path, expect: Failure) -> None:
    script = tmp_path / "check.py"
    script.write_text(
        "import sys, tosa_convert as tc\n"
        "kinds = [op.spec.name for op in tc.load(sys.argv[1]).main.operators]\n"
        "if 'ADD' in kinds:\n"
        "    print('lost')\n"
        "    sys.exit(7)\n"
        "sys.exit(3)\n"
    )
    result = reduce(chain, f"{sys.executable} {script}", tmp_path / "work", expect=expect)
    assert [op.spec.name for op in result.graph.main.operators] == ["CONST", "ADD"]
    with pytest.raises(TosaConvertError, match="does not fail as expected"):
        reduce(chain, f"{sys.executable} {script}", tmp_path / "other", expect=Failure(8))
