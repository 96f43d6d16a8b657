from __future__ import annotations

import errno
import functools
import io
import json
import os
import signal
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.cli import main
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import save_npz
from tosa_convert.golden.running.programs import input_slots
from tosa_convert.golden.running.random_inputs import random_inputs
from tosa_convert.golden.running.run import run
from tosa_convert.qualify.random_graphs.generate import generate
from tosa_convert.qualify.suite import run_cases
from tosa_convert.qualify.suite.answers import Answer, Journal, junit, summary, verdict
from tosa_convert.qualify.suite.engine import (
    conversion_plan,
    on_executor,
    on_local_processes,
    run_all,
)
from tosa_convert.qualify.suite.run_cases import find_cases, run_case

pytestmark = pytest.mark.usefixtures("refmodel")


def make_cases(root: Path, count: int) -> None:
    for seed in range(count):
        graph = generate(seed, 5)
        folder = root / "group" / f"seed{seed}"
        folder.mkdir(parents=True)
        tc.save(graph, folder / "model.tosa")
        save_npz(folder / "inputs.npz", random_inputs(graph, input_slots(graph), seed))


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cases")
    make_cases(root, 4)
    return root


def conversion(root: Path) -> Callable[[str], Answer]:
    """Runs a case below a folder, as `suite` does without --against."""
    return functools.partial(run_case, str(root))


class Here(Executor):
    """Runs everything at once, in this process."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


here = on_executor(Here(), window=2)


def test_cases_are_found_in_order_and_a_folder_without_cases_is_an_error(
    cases: Path, tmp_path: Path
) -> None:
    assert find_cases(cases) == [f"group/seed{i}" for i in range(4)]
    with pytest.raises(TosaConvertError, match="no case below it"):
        find_cases(tmp_path)


@pytest.mark.parametrize(
    ("given", "root", "expected"),
    [
        (["group"], "group", ["seed0", "seed1", "seed2", "seed3"]),
        (["group/seed2"], "group", ["seed2"]),
        (["group/seed2", "group/seed2"], "group", ["seed2"]),
        (["group/seed3", "group/seed0"], "group", ["seed0", "seed3"]),
        (["group/seed1", "."], ".", [f"group/seed{i}" for i in range(4)]),
    ],
)
def test_several_folders_have_names_from_the_folder_that_has_all(
    given: list[str], root: str, expected: list[str], cases: Path
) -> None:
    plan = conversion_plan([(cases / text).resolve() for text in given])
    assert (plan.header["folder"], plan.names) == (str((cases / root).resolve()), expected)


@pytest.mark.parametrize("via", ["tosa", "json"])
def test_a_case_passes_if_the_converted_file_gives_the_same_outputs(cases: Path, via: str) -> None:
    answer = run_case(str(cases), "group/seed1", via)  # type: ignore[arg-type]
    assert (answer.status, answer.message) == ("pass", "")
    assert answer.outputs > 0


def test_a_case_with_a_different_expected_result_fails_and_names_the_tensor(
    cases: Path, tmp_path: Path
) -> None:
    make_cases(tmp_path, 1)
    folder = tmp_path / "group" / "seed0"
    graph = tc.load(folder / "model.tosa")
    with np.load(folder / "inputs.npz") as archive:
        outputs = run(graph, dict(archive)).outputs
    save_npz(folder / "expected.npz", outputs)
    assert run_case(str(tmp_path), "group/seed0").status == "pass"
    name = next(k for k, v in outputs.items() if v.dtype != bool)
    save_npz(
        folder / "expected.npz", {**outputs, name: outputs[name] + outputs[name].dtype.type(9)}
    )
    answer = run_case(str(tmp_path), "group/seed0")
    assert answer.status == "fail"
    assert name in answer.message


def official(root: Path, converted_differs: bool, monkeypatch: pytest.MonkeyPatch) -> Answer:
    graph = generate(1, 4, kinds=["MATMUL"], types=["FP32"])  # whose constants matter
    folder = root / "case"
    folder.mkdir()
    tc.save(graph, folder / "test.tosa")
    inputs = random_inputs(graph, input_slots(graph), 1)
    for i, name in enumerate(graph.main.inputs):
        np.save(folder / f"in{i}.npy", inputs[name])
    description = {
        "tosa_file": "test.tosa",
        "ifm_name": graph.main.inputs,
        "ifm_file": [f"in{i}.npy" for i in range(len(graph.main.inputs))],
        "ofm_name": graph.main.outputs,
        "ofm_file": [f"out{i}.npy" for i in range(len(graph.main.outputs))],
        "expected_failure": False,
    }
    (folder / "desc.json").write_text(json.dumps(description))
    if converted_differs:
        other = generate(1, 4, kinds=["MATMUL"], types=["FP32"])
        for op in other.main.operators:
            constant = other.main.tensors.get(op.outputs[0])
            if constant is not None and constant.data is not None and constant.data.count > 1:
                constant.data = type(constant.data)(
                    constant.dtype, constant.data.count, bytes(constant.data.nbytes)
                )
        data = b"".join(tc.api.encode(other))
        monkeypatch.setattr(run_cases, "convert_there_and_back", lambda given, via: data)
    return run_case(str(root), "case")


def test_the_official_form_is_compared_byte_for_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = official(tmp_path, False, monkeypatch)
    assert (answer.status, answer.message) == ("pass", "")


def test_different_outputs_of_the_converted_file_are_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = official(tmp_path, True, monkeypatch)
    assert answer.status == "fail", answer


def test_an_interrupted_run_continues_and_counts_no_case_twice(cases: Path, tmp_path: Path) -> None:
    names = find_cases(cases)
    header = {"folder": str(cases)}
    journal = Journal(tmp_path / "a.jsonl", header)
    run_all(names[:2], here, journal, conversion(cases))
    journal.close()
    with open(tmp_path / "a.jsonl", "a") as file:
        file.write('{"case": "group/se')  # truncated in the middle of a line
    ran: list[str] = []
    journal = Journal(tmp_path / "a.jsonl", header)
    run_all(
        names, here, journal, conversion(cases), progress=lambda answer: ran.append(answer.case)
    )
    journal.close()
    assert sorted(ran) == names[2:]
    again = Journal(tmp_path / "a.jsonl", header)
    again.close()
    assert sorted(again.answers) == names
    assert not again.add(again.answers[names[0]])
    with pytest.raises(TosaConvertError, match="another run"):
        Journal(tmp_path / "a.jsonl", {"folder": "elsewhere"})


def _dies_once(root: str, name: str) -> Answer:
    marker = Path(root, f"died-{name}")
    if name == "b" and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return Answer(name, "pass")


def _always_dies(root: str, name: str) -> Answer:
    if name == "b":
        os.kill(os.getpid(), signal.SIGKILL)
    return Answer(name, "pass")


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.parametrize(("work", "status"), [(_dies_once, "pass"), (_always_dies, "error")])
def test_a_case_that_kills_its_worker_runs_again_and_affects_no_other(
    tmp_path: Path, work: Callable[[str, str], Answer], status: str
) -> None:
    journal = Journal(tmp_path / "a.jsonl", {})
    seen: Counter[str] = Counter()

    def count(answer: Answer) -> None:
        seen[answer.case] += 1

    here_or_dead = functools.partial(work, str(tmp_path))
    run_all("abcdef", on_local_processes(2, fork=True), journal, here_or_dead, progress=count)
    journal.close()
    assert seen == Counter("abcdef")
    assert {a.case: a.status for a in journal.answers.values()} == {
        **dict.fromkeys("acdef", "pass"),
        "b": status,
    }
    if status == "error":
        assert journal.answers["b"].message == "its worker process ended with SIGKILL"


@pytest.mark.slow
def test_fresh_processes_give_the_same_answers(cases: Path, tmp_path: Path) -> None:
    """As on macOS and Windows, where processes are spawned and not forked."""
    journal = Journal(tmp_path / "a.jsonl", {})
    run_all(find_cases(cases), on_local_processes(2), journal, conversion(cases))
    journal.close()
    assert {answer.status for answer in journal.answers.values()} == {"pass"}
    assert sorted(journal.answers) == find_cases(cases)


class FullDisk(io.StringIO):
    def flush(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_ends_the_run_with_a_file_error(cases: Path, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a.jsonl", {})
    journal.close()
    journal.file = FullDisk()  # type: ignore[assignment]
    with pytest.raises(TosaConvertError, match="No space left") as caught:
        run_all(find_cases(cases), here, journal, conversion(cases))
    assert caught.value.code == "file-error"


@pytest.mark.parametrize("name", ["file", "file/below", "journal"])
def test_an_out_folder_that_cannot_be_used_is_a_file_error(
    name: str, cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "journal" / "answers.jsonl").mkdir(parents=True)
    folders = [str(cases / "group/seed0"), str(cases / "group/seed1")]
    arguments = [*folders, "--work", str(tmp_path / name), "--max-cases", "1"]
    assert main.run(main.verb("suite"), arguments) == 2
    assert "[file-error]" in capsys.readouterr().err


def test_a_temporary_folder_that_cannot_be_made_is_a_file_error(
    cases: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(cases / "nothing"))
    assert main.run(main.verb("suite"), [str(cases), "--max-cases", "1"]) == 2
    assert "[file-error]" in capsys.readouterr().err


def test_reports_say_what_did_not_pass() -> None:
    answers = [
        Answer("g/a", "pass"),
        Answer("g/b", "fail", 'x < "y" \0'),
        Answer("c", "error", "e"),
    ]
    run_of_three = verdict(answers)
    report = summary(run_of_three, 2.0)
    assert (report["cases"], report["passed"], report["failed"], report["errors"]) == (3, 1, 1, 1)
    assert [row["case"] for row in report["not_passed"]] == ["c", "g/b"]
    tree = ET.fromstring(b"".join(junit(run_of_three, 2.0)))
    found = tree.find("testsuite")
    assert found is not None
    assert (found.get("tests"), found.get("failures"), found.get("errors")) == ("3", "1", "1")
    failure = found.find("testcase[@name='b']/failure")
    assert failure is not None
    assert failure.get("message") == 'x < "y" \\x00'
    assert [row.get("classname") for row in found.iter("testcase")] == ["cases", "g", "g"]


def test_a_case_that_no_worker_could_run_is_an_error(cases: Path, tmp_path: Path) -> None:
    class Dying(Here):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            if args != (first,):
                return super().submit(fn, *args, **kwargs)
            future: Future[Any] = Future()
            future.set_exception(RuntimeError("its workers died"))
            return future

    first, *others = find_cases(cases)
    journal = Journal(tmp_path / "a.jsonl", {})
    run_all([first, *others], on_executor(Dying(), window=2), journal, conversion(cases))
    journal.close()
    assert journal.answers[first].status == "error"
    assert "RuntimeError: its workers died" in journal.answers[first].message
    assert [journal.answers[name].status for name in others] == ["pass"] * len(others)


@pytest.mark.oracle
def test_a_dask_cluster_gives_the_same_answers(cases: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        journal = Journal(tmp_path / "a.jsonl", {})
        on_dask = on_executor(client.get_executor(pure=False), window=16)
        run_all(find_cases(cases), on_dask, journal, conversion(cases))
        journal.close()
    assert {a.status for a in journal.answers.values()} == {"pass"}
    assert sorted(journal.answers) == find_cases(cases)


@pytest.mark.oracle
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_dask_worker_that_is_killed_costs_no_answer(cases: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    answers: list[Answer] = []
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):

        def kill_a_worker(answer: Answer) -> None:
            answers.append(answer)
            if len(answers) == 1:
                workers = list(client.run(os.getpid).values())
                os.kill(workers[0], signal.SIGKILL)

        journal = Journal(tmp_path / "a.jsonl", {})
        on_dask = on_executor(client.get_executor(pure=False), window=4)
        run_all(find_cases(cases), on_dask, journal, conversion(cases), progress=kill_a_worker)
        journal.close()
    assert {a.status for a in journal.answers.values()} == {"pass"}
    assert sorted(answer.case for answer in answers) == find_cases(cases)
