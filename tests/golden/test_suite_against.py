"""The official test suite on a backend: the verdict of each case, its selection, and the reports."""

from __future__ import annotations

import json
import re
import shutil
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden.official_cases import X, make_suite, unary, write_case

import tosa_convert as tc
from tosa_convert.builder import Builder
from tosa_convert.cli import main
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import load_npz, save_npz
from tosa_convert.golden.running import reference_model_process
from tosa_convert.qualify.suite.answers import Answer, Expected, changes, read_expected, verdict
from tosa_convert.qualify.suite.run_cases import Qualification, qualify_case

pytestmark = pytest.mark.usefixtures("refmodel", "cases_here")

ABS = {"y": np.array([3, 4, 0, 7], np.int32)}
#: What `run` does -> the status of the case, and a part of its message.
BEHAVIOURS = {
    "return {'y': np.abs(inputs['x'])}": ("pass", ""),
    "return {'y': np.abs(inputs['x']) + (inputs['x'] == 7)}": (
        "wrong",
        "y: 1 of 4 elements are refused, the first at [3]: expected 7, found 8; the largest finite "
        "error is 1 at [3] [EXACT]",
    ),
    "return {'y': np.abs(inputs['x']).astype(np.int64)}": ("wrong", "expected int32, found int64"),
    "return {'z': inputs['x']}": ("crashed", "run() returned no y"),
    "return [inputs['x']]": ("crashed", "run() returned list, expected a dict of arrays by name"),
    "return {'y': [[1, 2], [3]]}": ("crashed", "run() returned no array for y"),
    "return {'y': inputs['x'] * 1j}": (
        "crashed",
        "run() returned complex128 for y, expected real numbers",
    ),
    "raise NotImplementedError('no ABS')": ("refused", "no ABS"),
    "raise ValueError('a defect')": ("crashed", "a defect"),
    "import os; os.abort()": ("crashed", "SIGABRT"),
    "import time; time.sleep(60)": ("crashed", "did not end within"),
}


def backend(folder: Path, body: str) -> str:
    path = folder / "backend.py"
    path.write_text(f"import numpy as np\n\n\ndef run(model, inputs):\n    {body}\n")
    return str(path)


def one(root: Path, against: str, name: str = "case", **more: Any) -> Answer:
    return qualify_case(str(root), name, settings=Qualification(against=against, **more))


@pytest.mark.slow
@pytest.mark.parametrize("body", BEHAVIOURS)
def test_each_end_of_a_backend_is_a_status_of_its_own(body: str, tmp_path: Path) -> None:
    write_case(tmp_path / "case", unary("ABS"), X)
    timeout = 4.0 if "sleep" in body else 60.0
    answer = one(
        tmp_path, backend(tmp_path, body), timeout=timeout, keep=tmp_path / "kept", level="none"
    )
    status, message = BEHAVIOURS[body]
    assert answer.status == status, answer.message
    assert message in answer.message
    assert (answer.operator, answer.types) == ("ABS", "INT32")
    kept = tmp_path / "kept" / "case"
    assert kept.exists() == (status != "pass")
    if status != "pass":
        assert answer.message.splitlines()[0] in (kept / "log.txt").read_text()
        assert (kept / "model.tosa").read_bytes() == (tmp_path / "case/test.tosa").read_bytes()
        assert np.array_equal(load_npz(kept / "inputs.npz")["x"], X["x"])
    if status == "wrong":
        assert np.array_equal(load_npz(kept / "reference.npz")["y"], ABS["y"])
        assert (kept / "found.npz").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize(("times", "status"), [(1, "pass"), (2, "crashed")])
def test_a_backend_that_is_killed_runs_again_once(times: int, status: str, tmp_path: Path) -> None:
    write_case(tmp_path / "case", unary("ABS"), X)
    marks = tmp_path / "marks"
    marks.mkdir()
    body = f"""import os, tempfile
    if len(os.listdir({str(marks)!r})) < {times}:
        tempfile.mkstemp(dir={str(marks)!r})
        os.kill(os.getpid(), 9)
    return {{'y': np.abs(inputs['x'])}}"""
    answer = one(tmp_path, backend(tmp_path, body))
    assert answer.status == status, answer.message
    assert ("SIGKILL" in answer.message) == (status == "crashed")


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_reference_model_that_is_killed_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_case(tmp_path / "case", unary("ABS"), X)
    program, mark = tmp_path / "model", tmp_path / "mark"
    program.write_text(
        f"#!/bin/sh\n[ -e {mark} ] || {{ touch {mark}; kill -9 $$; }}\n"
        f'exec {reference_model_process.locate()} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv(reference_model_process.ENVIRONMENT, str(program))
    answer = one(tmp_path, backend(tmp_path, "return {'y': np.abs(inputs['x'])}"))
    assert (answer.status, mark.exists()) == ("pass", True), answer.message


@pytest.mark.parametrize(("sign", "status"), [("", "pass"), ("-", "wrong")])
def test_a_saved_case_is_judged_as_by_check(sign: str, status: str, tmp_path: Path) -> None:
    (tmp_path / "case").mkdir()
    tc.save(unary("ABS"), tmp_path / "case" / "model.tosa")
    save_npz(tmp_path / "case" / "inputs.npz", X)
    against = backend(tmp_path, f"return {{'y': {sign}np.abs(inputs['x'])}}")
    answer = one(tmp_path, against)
    assert (answer.status, answer.operator) == (status, "ABS")
    assert ("3 of 4 elements differ" in answer.message) == (status == "wrong")
    assert one(tmp_path, against, claims=frozenset({"PRO-FP"})).status == "not-run"
    assert one(tmp_path, backend(tmp_path, "raise NotImplementedError")).status == "refused"


def test_a_command_gets_the_file_as_it_is_and_refuses_with_exit_code_77(tmp_path: Path) -> None:
    write_case(tmp_path / "case", unary("ABS"), X)
    path = tmp_path / "case" / "test.tosa"
    against = f"sh -c 'cmp -s {{model}} {path} && echo no ABS here >&2 && exit 77'"
    answer = one(tmp_path, against)
    assert (answer.status, "no ABS here" in answer.message) == ("refused", True)


@pytest.mark.parametrize("name", ["y.npy", "ref-y.npy"])
def test_results_in_a_folder_are_judged_and_missing_ones_are_not_run(
    name: str, tmp_path: Path
) -> None:
    write_case(tmp_path / "cases/case", unary("ABS"), X)
    (tmp_path / "results/case").mkdir(parents=True)
    np.save(tmp_path / "results/case" / name, ABS["y"])
    assert one(tmp_path / "cases", str(tmp_path / "results")).status == "pass"
    np.save(tmp_path / "results/case" / name, -ABS["y"])
    assert one(tmp_path / "cases", str(tmp_path / "results")).status == "wrong"
    shutil.rmtree(tmp_path / "results/case")
    answer = one(tmp_path / "cases", str(tmp_path / "results"))
    assert (answer.status, "has no results" in answer.message) == ("not-run", True)


@pytest.mark.slow
def test_a_program_that_must_be_refused_passes_if_it_is(tmp_path: Path) -> None:
    write_case(tmp_path / "case", unary("ABS"), X, expected_failure=True)
    refusing = backend(tmp_path, "raise NotImplementedError")
    assert one(tmp_path, refusing).status == "pass"
    answer = one(tmp_path, backend(tmp_path, "return {'y': inputs['x']}"))
    assert (answer.status, "expected to be refused" in answer.message) == ("wrong", True)


@pytest.mark.parametrize(
    ("claims", "level", "stated", "reason"),
    [
        ({"PRO-INT"}, "8k", ["tosa-pro-int"], ""),
        ({"PRO-FP"}, "8k", ["tosa-pro-int"], "it needs PRO-INT"),
        ({"PRO-FP"}, "8k", None, "ABS needs PRO-INT"),
        (None, "8k", ["tosa-pro-int"], ""),
    ],
)
def test_claims_select_cases_by_the_descriptor_or_else_by_the_rules(
    claims: set[str] | None, level: str, stated: list[str] | None, reason: str, tmp_path: Path
) -> None:
    more: dict[str, Any] = (
        {} if stated is None else {"test_requirements": {"profiles_supported": stated}}
    )
    write_case(tmp_path / "case", unary("ABS"), X, **more)
    (tmp_path / "results/case").mkdir(parents=True)
    np.save(tmp_path / "results/case/y.npy", ABS["y"])
    has = None if claims is None else frozenset(claims)
    answer = one(tmp_path, str(tmp_path / "results"), claims=has, level=level)
    assert (answer.status, answer.message) == (("not-run", reason) if reason else ("pass", ""))


def test_an_extension_and_a_level_that_are_missing_leave_a_case_out(tmp_path: Path) -> None:
    needs = {"profiles_supported": ["tosa-pro-int"], "extensions_required": ["tosa-ext-int16"]}
    write_case(tmp_path / "case", unary("ABS"), X, test_requirements=needs)
    answer = one(tmp_path, str(tmp_path), claims=frozenset({"PRO-INT"}))
    assert (answer.status, answer.message) == ("not-run", "it needs EXT-INT16")
    from golden.conftest import Builder

    b = Builder()
    shape = (1, 1, 1, 1, 1, 1, 4)
    b.input("x", "INT32", shape)
    b.op("ABS", ["x"], "y", "INT32", shape)
    write_case(tmp_path / "deep", b.graph("y"), {"x": X["x"].reshape(shape)})
    assert "outside level 8K" in one(tmp_path, str(tmp_path), "deep").message


def test_an_operator_that_the_model_runs_with_a_level_alone_is_run_without_one(
    tmp_path: Path,
) -> None:
    b = Builder("main")
    shape = b.exp2_shape(b.const_shape([2]))
    b.output(b.reshape(b.input("x", "INT32", (2, 2)), shape), name="y")
    write_case(tmp_path / "case", b.graph(), {"x": X["x"].reshape(2, 2)})
    answer = one(tmp_path, backend(tmp_path, "return {'y': inputs['x'].reshape(4)}"), level="none")
    assert answer.status == "pass", answer.message


def test_a_damaged_descriptor_costs_one_case(tmp_path: Path) -> None:
    write_case(tmp_path / "case", unary("ABS"), X)
    for text in ("{", "[]", '{"tosa_file": "test.tosa"}', '{"tosa_file": 5}'):
        (tmp_path / "case/desc.json").write_text(text)
        answer = one(tmp_path, str(tmp_path))
        assert (answer.status, "not a test descriptor" in answer.message) == ("error", True)


@pytest.mark.parametrize(
    ("against", "message"),
    [
        ("tflite", "runs models of its own"),
        ("onnxruntime:m.onnx", "runs models of its own"),
        ("no-such-program", "expected numpy, iree, .* vela:ethos-u55, .* extension:NAME, a .py"),
        ("ethos-u65", "did you mean vela:ethos-u65"),
        ("vela:ethos-u95", "did you mean vela:ethos-u[568]5"),
        ("results.npz", "a folder of results"),
    ],
)
def test_a_backend_that_cannot_run_cases_is_refused_before_the_first(
    against: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("results.npz", y=np.zeros(1))
    with pytest.raises(TosaConvertError, match=message):
        Qualification(against=against).require_backend()


# -- the command ---------------------------------------------------------------------------------------


@pytest.fixture
def two_wrong(tmp_path: Path) -> tuple[Path, list[str]]:
    """Four cases, and arguments of a run with results of which those of ABS are wrong."""
    cases, results = tmp_path / "cases", tmp_path / "results"
    for name in make_suite(cases):
        x = X["x"]
        good = {"abs": np.abs(x), "clz": np.array([30, 0, 32, 29], np.int32), "not": ~x}
        (results / name).mkdir(parents=True)
        answer = good[name[:3]] + (name == "abs/a")
        np.save(results / name / "y.npy", answer.astype(np.int32))
    return tmp_path, [str(cases), "--against", str(results), "--jobs", "1"]


def run_verb(arguments: list[str]) -> int:
    return main.run(main.verb("suite"), arguments)


@pytest.mark.slow
def test_expected_failures_turn_the_exit_code_and_an_unexpected_pass_fails(
    two_wrong: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, arguments = two_wrong
    listed = folder / "xfail.txt"
    out = ["--work", str(folder / "out")]
    assert run_verb([*arguments, *out]) == 1
    assert "3 of 4 cases pass (1 wrong" in capsys.readouterr().out
    listed.write_text("# known\nabs/a  it adds one\n")
    assert run_verb([*arguments, *out, "--xfail", str(listed)]) == 0
    listed.write_text("abs/*  it adds one\nno/such*  gone\n")
    assert run_verb([*arguments, *out, "--xfail", str(listed)]) == 1
    said = capsys.readouterr()
    assert "UNEXPECTED PASS abs/b: it adds one" in said.out
    assert "no case matches the expected failure no/such*" in said.err
    listed.write_text("abs/a\n")
    assert run_verb([*arguments, *out, "--xfail", str(listed)]) == 2
    assert "abs/a has no reason" in capsys.readouterr().err


@pytest.mark.slow
def test_the_baseline_shows_what_changed(
    two_wrong: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, arguments = two_wrong
    result = folder / "result.json"
    run_verb([*arguments, "--json-report", str(result)])
    np.save(folder / "results/abs/a/y.npy", np.abs(X["x"]))
    np.save(folder / "results/clz/a/y.npy", X["x"])
    capsys.readouterr()
    run_verb([*arguments, "--baseline", str(result), "--json-report", str(folder / "new.json")])
    said = capsys.readouterr().out
    assert "newly failing: 1: clz/a" in said
    assert "newly passing: 1: abs/a" in said
    assert json.loads((folder / "new.json").read_text())["changes"]["failing"] == ["clz/a"]


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "href":
                self.targets.append(str(value))
            if name == "id":
                self.anchors.add(str(value))


@pytest.mark.slow
def test_the_table_needs_nothing_else_and_its_links_lead_somewhere(
    two_wrong: tuple[Path, list[str]],
) -> None:
    folder, arguments = two_wrong
    page = folder / "reports" / "table.html"
    page.parent.mkdir()
    run_verb([*arguments, "--html", str(page), "--keep", str(folder / "kept")])
    text = page.read_text()
    assert not re.search(r"https?:|<script|<link|<img|@import|url\(", text)
    links = Links()
    links.feed(text)
    assert {"table", "details"} <= links.tags
    for target in links.targets:
        if target.startswith("#"):
            assert target[1:] in links.anchors
        else:
            assert (page.parent / target).is_dir(), target
    assert "#ABS-INT32" in links.targets
    assert "tosa-flatbuffer suite" in text
    assert re.search(
        r"<th>ABS</th><td[^>]*>1/2<small>1 w</small></td><td[^>]*><a [^>]*>1/2<small>1 w</small>",
        text,
    )


@pytest.mark.slow
def test_the_junit_report_has_failures_and_skips(two_wrong: tuple[Path, list[str]]) -> None:
    folder, arguments = two_wrong
    listed, report = folder / "xfail.txt", folder / "junit.xml"
    listed.write_text("not/a  passes all the same\n")
    shutil.rmtree(folder / "results/clz/a")
    run_verb([*arguments, "--junit", str(report), "--xfail", str(listed)])
    suite = ET.parse(report).getroot().find("testsuite")
    assert suite is not None
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "2", "errors": "0", "skipped": "1"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--keep", "k"],
        ["--html", "h"],
        ["--reduce", "--keep", "k"],
        ["--against", "false", "--reduce"],
        ["--profile", "PRO-INT"],
        ["--against", "false", "--through", "mlir"],
        ["--against", "false", "--profile", "EXT-INT16"],
    ],
)
def test_options_that_do_not_apply_are_refused(arguments: list[str], tmp_path: Path) -> None:
    make_suite(tmp_path / "cases")
    assert run_verb([str(tmp_path / "cases"), *arguments]) == 2


@pytest.mark.slow
def test_another_backend_does_not_continue_the_answers(
    two_wrong: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, arguments = two_wrong
    out = ["--work", str(folder / "out")]
    run_verb([*arguments, *out])
    assert run_verb([*arguments, *out, "--level", "none"]) == 2
    assert "it belongs to another run" in capsys.readouterr().err


def test_the_first_pattern_gives_the_reason_and_nothing_run_is_no_success() -> None:
    run = verdict([Answer("a/b", "wrong")], [Expected("a/*", "first"), Expected("*", "second")])
    assert run.expected == {"a/b": "first"}
    assert run.ok
    assert not verdict([Answer("a", "not-run")]).ok
    assert not verdict([]).ok
    changed = changes([Answer("a", "not-run"), Answer("b", "crashed")], {"a": "pass", "c": "pass"})
    assert (changed.failing, changed.other, changed.new, changed.gone) == (
        (),
        ("a",),
        ("b",),
        ("c",),
    )


def test_a_list_that_cannot_be_read_is_a_file_error(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"a \xff")
    for name in ("latin", "absent"):
        with pytest.raises(TosaConvertError) as caught:
            read_expected(tmp_path / name)
        assert caught.value.code == "file-error"
