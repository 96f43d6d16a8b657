"""`suite --against` on one's own cases: folders that `check --save`, `bisect` and `generate` write."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from golden.conftest import Builder
from golden.official_cases import X, make_suite

import tosa_convert as tc
from tosa_convert.cli import main
from tosa_convert.golden.arrays import load_npz, save_npz
from tosa_convert.qualify.suite.answers import Answer, Baseline, Status, slowdowns, verdict
from tosa_convert.qualify.suite.html_table import backend_page, html_report
from tosa_convert.qualify.suite.run_cases import Qualification

pytestmark = pytest.mark.usefixtures("refmodel", "cases_here")

#: Knows ABS and CLZ, and is wrong about ABS of 7.
BACKEND = """
import numpy as np
import tosa_convert as tc


def run(model, inputs):
    values = dict(inputs)
    main = tc.load(model).main
    for op in main.operators:
        x = values[op.inputs[0]]
        if op.spec.name == "ABS":
            values[op.outputs[0]] = np.abs(x) + (x == 7)
        elif op.spec.name == "CLZ":
            bits = [32 if v < 0 else int(v).bit_length() for v in x]
            values[op.outputs[0]] = np.array([32 - n for n in bits], np.int32)
        else:
            raise NotImplementedError(op.spec.name)
    return {name: values[name] for name in main.outputs}
"""


def save(folder: Path, *kinds: str) -> None:
    """Write a case of operators in a row, on X."""
    b = Builder()
    b.input("x", "INT32", (4,))
    for number, kind in enumerate(kinds):
        last = number == len(kinds) - 1
        name = "y" if last else f"t{number}"
        b.op(kind, ["x" if not number else f"t{number - 1}"], name, "INT32", (4,))
    folder.mkdir(parents=True)
    tc.save(b.graph("y"), folder / "model.tosa")
    save_npz(folder / "inputs.npz", X)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sim.py").write_text(BACKEND)
    for name, kinds in {
        "one/abs": ("ABS",),
        "one/clz": ("CLZ",),
        "nets/both": ("CLZ", "ABS", "ABS"),
        "nets/wrong": ("ABS", "CLZ"),
        "nets/not": ("BITWISE_NOT", "ABS"),
    }.items():
        save(tmp_path / "cases" / name, *kinds)
    return tmp_path


def suite(*arguments: object) -> int:
    return main.run(main.verb("suite"), [*map(str, arguments), "--jobs", "1"])


@pytest.mark.slow
def test_what_is_kept_of_a_wrong_case_is_a_case_that_is_wrong(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert suite("cases", "--against", "sim.py", "--keep", "kept") == 1
    assert "2 of 5 cases pass (2 wrong, 1 refused" in capsys.readouterr().out
    kept = own / "kept/one/abs"
    files = {"model.tosa", "inputs.npz", "reference.npz", "found.npz", "log.txt"}
    assert {path.name for path in kept.iterdir()} == files
    assert load_npz(kept / "reference.npz")["y"].tolist() == [3, 4, 0, 7]
    assert load_npz(kept / "found.npz")["y"].tolist() == [3, 4, 0, 8]
    log = (kept / "log.txt").read_text()
    assert log.startswith("one/abs\n")
    command = "tosa-flatbuffer suite cases/one/abs --against sim.py\n"
    assert log.endswith(command)
    refused = {path.name for path in (own / "kept/nets/not").iterdir()}
    assert refused == {"model.tosa", "inputs.npz", "log.txt", "failed-0"}
    assert not (own / "kept/one/clz").exists()
    assert suite("kept/one/abs", "--against", "sim.py") == 1


@pytest.mark.slow
def test_the_inputs_of_a_wrong_case_are_reduced(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert suite("cases/one/abs", "--against", "sim.py", "--keep", "kept", "--reduce") == 1
    assert load_npz(own / "kept/abs/inputs.npz")["x"].tolist() == [0, 0, 0, 7]
    log = (own / "kept/abs/log.txt").read_text()
    assert "reduced: 1 of 4 input elements are not zero" in log


@pytest.mark.slow
def test_further_inputs_find_what_the_case_does_not(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ABS of the largest integer, which random inputs do not have."""
    (own / "sim.py").write_text(BACKEND.replace("+ (x == 7)", "- (x == 2**31 - 1)"))
    make_suite(own / "official")
    for folder, case in (("cases/one", "abs"), ("official", "abs/a")):
        common = (folder, "--against", "sim.py", "--keep", "kept", "--max-cases", "4")
        assert suite(*common) in (0, 1)
        assert f"WRONG {case}" not in capsys.readouterr().out
        assert suite(*common, "--seeds", "2", "--no-edges") in (0, 1)
        assert f"WRONG {case}" not in capsys.readouterr().out
        assert suite(*common, "--seeds", "2") == 1
        assert f"WRONG {case}: edges-0: " in capsys.readouterr().out
        assert suite(*common, "--seeds", "2", "--edges") == 1
        assert f"WRONG {case}: edges-0: " in capsys.readouterr().out
        kept = load_npz(own / "kept" / case / "inputs.npz")["x"]
        assert 2**31 - 1 in kept
        assert "--seeds 2 --edges" in (own / "kept" / case / "log.txt").read_text()
    assert suite("cases/one", "--against", "sim.py", "--edges") == 1
    assert "WRONG abs: edges-0: " in capsys.readouterr().out
    assert suite("cases/one", "--against", "sim.py", "--no-edges") == 2
    assert "--no-edges needs --seeds" in capsys.readouterr().err
    (own / "results").mkdir()
    assert suite("official", "--against", "results", "--seeds", "2") == 2


@pytest.mark.slow
def test_a_seed_has_the_edge_inputs_that_it_has_in_check(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Find the third set of edge inputs of a small program by its number."""
    (own / "sim.py").write_text(BACKEND.replace("(x == 7)", "(x == -16385)"))
    assert suite("cases/one", "--against", "sim.py", "--seeds", "1") == 1
    assert "WRONG abs: edges-2000: " in capsys.readouterr().out


@pytest.mark.slow
def test_a_green_answer_says_that_it_had_no_edge_inputs(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    advice = "without edge inputs, which show many rounding bugs: --seeds 1 adds them"
    assert suite("cases/one/clz", "--against", "sim.py") == 0
    assert advice in capsys.readouterr().err
    assert suite("cases/one/clz", "--against", "sim.py", "--edges") == 0
    assert advice not in capsys.readouterr().err
    assert suite("no-such-folder", "--against", "sim.py") == 2
    assert "no-such-folder: error: no such folder" in capsys.readouterr().err


@pytest.mark.slow
def test_what_was_kept_of_a_case_that_passes_now_is_removed(own: Path) -> None:
    (own / "sim.py").write_text("def run(model, inputs):\n    raise KeyError('shape5')\n")
    assert suite("cases", "--against", "sim.py", "--keep", "kept") == 1
    (own / "kept/one/clz/notes.txt").write_text("mine\n")
    (own / "sim.py").write_text(BACKEND)
    assert suite("cases", "--against", "sim.py", "--keep", "kept") == 1
    found = {str(path.relative_to(own / "kept")) for path in (own / "kept").glob("*/*")}
    assert found == {"one/abs", "one/clz", "nets/wrong", "nets/not"}
    assert [path.name for path in (own / "kept/one/clz").iterdir()] == ["notes.txt"]
    # The cases may be those that were kept.
    assert suite("kept/one/abs", "--against", "sim.py", "--keep", "kept/one") == 1
    assert (own / "kept/one/abs/model.tosa").exists()


@pytest.mark.slow
def test_crashes_and_refusals_say_why(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Show the exception, even if the line of Python before it ends with a bracket."""
    (own / "sim.py").write_text(
        "def run(model, inputs):\n    name = 'shape5'\n    t = inputs[name]\n"
    )
    assert suite("cases/one", "--against", "sim.py") == 1
    out = capsys.readouterr().out
    assert re.search(r"^CRASHED abs: .*KeyError: 'shape5' \[backend-failed\]$", out, re.MULTILINE)
    assert "\n    1 more case: clz\n" in out
    (own / "sim.py").write_text(BACKEND)
    assert suite("cases/nets", "--against", "sim.py") == 1
    err = capsys.readouterr().err
    assert "refused: 1 case, such as not: NotImplementedError: BITWISE_NOT\n" in err
    command = "tosa-flatbuffer bisect DIR/wrong/model.tosa -i DIR/wrong/inputs.npz --against sim.py"
    assert f"with --keep DIR, {command} names the operator that is wrong" in err


@pytest.mark.slow
def test_expected_failures_have_the_name_of_a_single_case(own: Path) -> None:
    (own / "known.txt").write_text("abs  it adds one\n")
    assert suite("cases/one/abs", "--against", "sim.py", "--xfail", "known.txt") == 0
    (own / "known.txt").write_text("*/abs  it adds one\nnets/wrong  the same\n")
    assert suite("cases", "--against", "sim.py", "--xfail", "known.txt") == 0


@pytest.mark.slow
def test_a_case_that_is_refused_is_skipped_in_every_report(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = ("--junit", "j.xml", "--json-report", "r.json", "--html", "t.html")
    (own / "known.txt").write_text("*/abs  it adds one\nnets/wrong  the same\n")
    common = ("cases", "--against", "sim.py", "--xfail", "known.txt", *reports)
    for more, code, skipped in (((), 0, 1), (("--refused", "fail"), 1, 0)):
        assert suite(*common, *more) == code
        tree = ET.parse(own / "j.xml").getroot().find("testsuite")
        assert tree is not None
        # Of JUnit's skipped cases two are failures that were expected.
        assert (tree.get("skipped"), tree.get("failures")) == (str(skipped + 2), str(1 - skipped))
        report = json.loads((own / "r.json").read_text())
        assert (report["skipped"], report["refused"], report["ok"]) == (skipped, 1, not code)
        page = (own / "t.html").read_text()
        assert ("refused, skipped" in page) == bool(skipped)
    save(own / "alone/not", "BITWISE_NOT")
    capsys.readouterr()
    assert suite("alone", "--against", "sim.py") == 1
    assert "no case ran" in capsys.readouterr().err


@pytest.mark.slow
def test_the_table_has_a_row_for_each_operator_and_no_path_of_this_machine(own: Path) -> None:
    reports = ["--html", "out/t.html", "--keep", "kept", "--json-report", "r.json"]
    reports += ["--junit", "j.xml"]
    (own / "out").mkdir()
    suite("cases", "--against", "sim.py", *reports)
    page = (own / "out/t.html").read_text()
    rows = {
        name: re.sub("<[^>]*>", " ", cells).split()
        for name, cells in re.findall(r"<tr><th>(\w+)</th>(<td.*?)</tr>", page)
    }
    # A network that passes counts in the rows of all its operators, a wrong one in that of ABS.
    assert rows == {
        "ABS": ["1/3", "2", "w"] * 2,
        "CLZ": ["2/2"] * 2,
        "network": ["1", "r"] * 2,
        "all": ["2/4", "2", "w", "1", "r", "2/4", "2", "w", "1", "r"],
    }
    properties = {
        case.get("name"): [row.get("value") for row in case.iterfind(".//*[@name='operator']")]
        for case in ET.parse(own / "j.xml").iter("testcase")
    }
    assert properties == {
        "abs": ["ABS INT32"],
        "wrong": ["ABS INT32"],
        "clz": [],
        "both": [],
        "not": [],
    }
    assert str(own) not in page
    assert "prefers-color-scheme: dark" in page
    assert page.count("<pre>") == 3, "each failure is described once"
    anchors = set(re.findall(r'id="([^"]*)"', page))
    assert set(re.findall(r'href="#([^"]*)"', page)) <= anchors
    assert "Slowest on the backend: 5 of 5 cases" in page
    answers = {
        row["case"]: (row.get("covers"), row.get("at_fault"))
        for row in json.loads((own / "r.json").read_text())["answers"]
    }
    assert answers["nets/wrong"] == (["ABS INT32", "CLZ INT32"], ["ABS INT32"])
    assert answers["one/abs"] == (None, None)


@pytest.mark.slow
def test_only_cases_that_run_count_towards_the_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_suite(tmp_path / "cases/int", profiles_supported=["tosa-pro-int"])
    make_suite(tmp_path / "cases/fp", profiles_supported=["tosa-pro-fp"])
    command = ("--against", "sh -c 'exit 77'", "--profile", "PRO-INT", "--max-cases", "3")
    suite(tmp_path / "cases", *command, "--json-report", tmp_path / "r.json")
    names = [row["case"] for row in json.loads((tmp_path / "r.json").read_text())["answers"]]
    assert len(names) == 3
    assert all(name.startswith("int/") for name in names)


@pytest.mark.parametrize(
    ("status", "at_fault", "expected"),
    [
        ("pass", (), {"ABS": 120, "ADD": 120}),
        ("wrong", ("ABS INT32",), {"ABS": 0}),
        ("wrong", (), {"network": 0}),
    ],
)
def test_only_operators_at_fault_are_painted_red(
    status: Status, at_fault: tuple[str, ...], expected: dict[str, int]
) -> None:
    covers = ("ABS INT32", "ADD INT32")
    answer = Answer("net", status, operator="network", covers=covers, at_fault=at_fault)
    page = backend_page(Path(), Qualification(against="sim.py"))
    text = b"".join(html_report(verdict([answer]), page, Path("t.html"))).decode()
    rows = re.findall(r'<tr><th>(\w+)</th><td class="share all" style="--hue:(\d+)"', text)
    assert {name: int(hue) for name, hue in rows if name != "all"} == expected


def test_time_and_memory_are_compared_with_the_baseline() -> None:
    def answer(case: str, seconds: float | None, mib: int | None) -> Answer:
        memory = None if mib is None else mib << 20
        return Answer(case, "pass", backend_seconds=seconds, backend_memory=memory)

    before = Baseline(
        dict.fromkeys("abcde", "pass"),
        {"a": 1.0, "b": 1.0, "c": 0.01, "d": 1.0},
        dict.fromkeys("abc", 100.0 * (1 << 20)),
    )
    now = [
        answer("a", 2.1, 100),
        answer("b", 1.9, 250),
        answer("c", 0.05, None),
        answer("d", None, 10),
        answer("e", 9.0, 900),
    ]
    time, memory = slowdowns(now, before)
    assert (time.what, time.median, dict(time.cases)) == ("time", 2.1, {"a": (1.0, 2.1)})
    assert list(memory.cases) == ["b"]
    assert [list(one.cases) for one in slowdowns(now, before, 1.5)] == [["a", "b"], ["b"]]
    assert slowdowns(now, Baseline({}, {}, {})) == []


@pytest.mark.slow
def test_a_slower_backend_is_reported_and_fails_only_if_asked(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ("cases/one/clz", "--against", "sim.py")
    assert suite(*common, "--json-report", "before.json", "--junit", "j.xml") == 0
    properties = ET.parse(own / "j.xml").getroot().findall(".//property")
    names = {row.get("name") for row in properties}
    assert names >= {"backend_seconds", "backend_memory_bytes"}
    (own / "sim.py").write_text(
        BACKEND.replace("    values =", "    import time; time.sleep(1.0)\n    values =")
    )
    capsys.readouterr()
    assert suite(*common, "--baseline", "before.json", "--json-report", "now.json") == 0
    said = capsys.readouterr().out
    assert "1 case much more" in said
    assert "SLOWER clz: " in said
    assert "clz" in json.loads((own / "now.json").read_text())["slowdowns"]["time"]["cases"]
    assert suite(*common, "--baseline", "before.json", "--fail-slowdown") == 1
    assert suite(*common, "--baseline", "before.json", "--fail-slowdown", "--slowdown", "1000") == 0
    assert suite(*common, "--fail-slowdown") == 2


@pytest.mark.slow
def test_low_precision_is_said_in_every_report_and_fails_if_asked(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers of about 1 in the sixth channel, from which BF16 keeps two bits behind 64."""
    b = Builder()
    x = b.input("x", "BF16", (16, 8))
    for name, number in (("big", 64.0), ("back", -64.0)):
        row = np.zeros((1, 8))
        row[0, 5] = number
        b.const(name, "BF16", row)
    y = b.op("ADD", [b.op("ADD", [x, "big"], "sum", "BF16", (16, 8)), "back"], "y", "BF16", (16, 8))
    folder = own / "low/one"
    folder.mkdir(parents=True)
    tc.save(b.graph(y), folder / "model.tosa")
    values = np.random.default_rng(1).normal(size=(16, 8)) * [200, 200, 200, 200, 200, 1, 200, 200]
    save_npz(folder / "inputs.npz", {"x": values.astype(tc.graph.dtype("BF16").numpy)})
    (own / "sim.py").write_text(
        "from tosa_convert import golden\n"
        "def run(model, inputs):\n"
        "    return golden.run(model, inputs, golden.RunOptions(engine='numpy')).outputs\n"
    )
    reports = ("--junit", "j.xml", "--json-report", "r.json", "--html", "t.html")
    assert suite("low", "--against", "sim.py", *reports) == 0
    said = "low precision in 1 of 8 channels: channel [5] may err by "
    assert f"LOW PRECISION one: y: {said}" in capsys.readouterr().out
    report = json.loads((own / "r.json").read_text())
    assert report["low_precision"] == 1
    assert said in report["answers"][0]["low_precision"]
    assert said in (own / "j.xml").read_text()
    assert said in (own / "t.html").read_text()
    arguments = [str(folder / "model.tosa"), "--against", "sim.py"]
    arguments += ["-i", str(folder / "inputs.npz"), "--json"]
    assert main.run(main.verb("check"), arguments) == 0
    (own / "check.json").write_text(capsys.readouterr().out)
    picture = [arguments[0], "--errors", "check.json", "-o", "p.html"]
    assert main.run(main.verb("report"), picture) == 0
    assert said in (own / "p.html").read_text()
    assert suite("low", "--against", "sim.py", "--strict", "--keep", "kept") == 1
    assert f": {said}" in capsys.readouterr().out
    assert "--strict" in (own / "kept/one/log.txt").read_text()
    assert suite("low", "--strict") == 2
