"""Cases, journals and reports from elsewhere: nothing outside their folder is touched, nothing waits."""

from __future__ import annotations

import json
import os
import random
import sys
import tracemalloc
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden.official_cases import X, make_suite, unary, write_case

import tosa_convert as tc
from tosa_convert.cli import main
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import read_npy
from tosa_convert.qualify.suite import official_case, run_cases
from tosa_convert.qualify.suite.answers import (
    STATUSES,
    Answer,
    Journal,
    junit,
    read_baseline,
    read_expected,
    verdict,
)
from tosa_convert.qualify.suite.engine import answered
from tosa_convert.qualify.suite.official_case import read_descriptor
from tosa_convert.qualify.suite.run_cases import Qualification, qualify_case, run_case

pytestmark = pytest.mark.usefixtures("refmodel", "cases_here")
POSIX = pytest.mark.skipif(os.name != "posix", reason="pipes and links as POSIX has them")


def run_verb(verb: str, *arguments: object) -> int:
    return main.run(main.verb(verb), list(map(str, arguments)))


def described(folder: Path, **fields: Any) -> None:
    """Change fields of a case's descriptor."""
    path = folder / "desc.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def both_answers(root: Path, results: Path) -> list[Answer]:
    """Return the answers for "case" from `suite` without and with --against."""
    settings = Qualification(against=str(results), timeout=20.0)
    return [
        run_case(str(root), "case", timeout=20.0),
        qualify_case(str(root), "case", settings=settings),
    ]


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """Return a case, the right results of a backend, and a file outside of both."""
    write_case(tmp_path / "cases/case", unary("ABS"), X)
    (tmp_path / "results/case").mkdir(parents=True)
    np.save(tmp_path / "results/case/y.npy", np.abs(X["x"]))
    (tmp_path / "mine.npy").write_bytes(b"mine")
    return tmp_path / "cases/case"


@pytest.mark.parametrize("field", ["ofm_file", "variable_file"])
@pytest.mark.parametrize("form", ["absolute", "relative"])
def test_no_file_outside_is_written(field: str, form: str, case: Path, tmp_path: Path) -> None:
    """The reference model writes the files of outputs and variables that a descriptor names."""
    target = tmp_path / "mine.npy"
    name = str(target) if form == "absolute" else "../" * 12 + str(target).lstrip("/")
    described(case, **{field: [name], "variable_name": ["v"]})
    for answer in both_answers(tmp_path / "cases", tmp_path / "results"):
        assert answer.status == "pass", answer.message
    assert target.read_bytes() == b"mine"
    assert sorted(path.name for path in case.iterdir()) == ["desc.json", "test.tosa", "x.npy"]


@POSIX
@pytest.mark.parametrize("field", ["tosa_file", "ifm_file"])
@pytest.mark.parametrize("form", ["absolute", "relative", "link", "folder link"])
def test_no_file_outside_is_read(field: str, form: str, case: Path, tmp_path: Path) -> None:
    own = "test.tosa" if field == "tosa_file" else "x.npy"
    (tmp_path / "out").mkdir()
    outside = tmp_path / "out" / own
    (case / own).rename(outside)
    if form == "link":
        (case / own).symlink_to(outside)
    elif form == "folder link":
        (case / "below").symlink_to(tmp_path / "out")
    name = {"absolute": str(outside), "relative": f"../../out/{own}", "link": own}.get(
        form, f"below/{own}"
    )
    described(case, **{field: name if field == "tosa_file" else [name]})
    for answer in both_answers(tmp_path / "cases", tmp_path / "results"):
        assert (answer.status, "[unsafe-path]" in answer.message) == ("error", True), answer.message


def test_a_file_in_a_folder_of_the_case_is_read(case: Path, tmp_path: Path) -> None:
    (case / "below").mkdir()
    (case / "x.npy").rename(case / "below/x.npy")
    described(case, ifm_file=["below/x.npy"])
    for answer in both_answers(tmp_path / "cases", tmp_path / "results"):
        assert answer.status == "pass", answer.message


@POSIX
@pytest.mark.parametrize("name", ["desc.json", "test.tosa", "x.npy"])
def test_a_pipe_in_a_case_costs_that_case_only(name: str, case: Path, tmp_path: Path) -> None:
    (case / name).unlink()
    os.mkfifo(case / name)
    for answer in both_answers(tmp_path / "cases", tmp_path / "results"):
        assert answer.status == "error"
        assert "it is a pipe, expected a regular file" in answer.message


@POSIX
@pytest.mark.parametrize("name", ["inputs.npz", "model.tosa", "expected.npz"])
def test_a_pipe_in_a_saved_case_costs_that_case_only(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    import tosa_convert as tc

    tc.save(unary("ABS"), folder / "model.tosa")
    np.savez(folder / "inputs.npz", **X)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    answer = run_case(str(tmp_path), "case")
    assert (answer.status, "it is a pipe" in answer.message) == ("error", True)


@POSIX
@pytest.mark.parametrize(
    "read",
    [
        lambda path: Journal(path, {}),
        read_baseline,
        read_expected,
        lambda path: read_descriptor(path.parent),
    ],
)
def test_a_pipe_is_refused_wherever_a_file_is_expected(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "desc.json")
    with pytest.raises(TosaConvertError, match="it is a pipe, expected a regular file"):
        read(tmp_path / "desc.json")


@pytest.mark.slow
def test_one_bad_case_is_its_own_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_suite(tmp_path / "cases")
    for name, text in (
        ("deep", "[" * 100_000),
        ("number", "1" * 5000),
        ("text", '"x"'),
        ("nul", "\0"),
    ):
        (tmp_path / "cases" / name).mkdir()
        (tmp_path / "cases" / name / "desc.json").write_text(text)
    backend = tmp_path / "sim.py"
    backend.write_text("def run(model, inputs):\n    raise NotImplementedError\n")
    for more, passed in (([], 4), (["--against", backend], 0)):
        assert run_verb("suite", tmp_path / "cases", "--jobs", "2", *more) == 1
        said = capsys.readouterr().out
        assert f"{passed} of 8 cases pass" in said
        assert "4 errors" in said


def test_a_defect_of_ours_costs_one_case(
    case: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:

    def broken(*_: object) -> None:
        raise ZeroDivisionError("nothing")

    monkeypatch.setattr(run_cases, "case_inputs", broken)
    answer = answered(
        "case", run=lambda name: run_case(str(tmp_path / "cases"), name), key=str.upper, kind=Answer
    )
    assert (answer.status, answer.key) == ("error", "CASE")
    assert "a defect of tosa-convert: ZeroDivisionError" in answer.message


# -- damaged files


def mutants(seed: int, valid: Any, count: int) -> list[bytes]:
    """Damaged forms of a JSON value: a part of another type, removed or doubled, and changed bytes."""
    others: list[Any] = [
        None,
        True,
        -1,
        0.5,
        1e400,
        10**400,
        "",
        "\ud800",
        "../x",
        "\0",
        [],
        {},
        [[]],
    ]
    others += [["x"], {"x": {}}, [None], "x" * 3000, {"tensors": []}]
    chance = random.Random(seed)

    def changed(value: Any) -> Any:
        if isinstance(value, dict) and value and chance.random() < 0.85:
            key = chance.choice(list(value))
            kind = chance.random()
            if kind < 0.1:
                return {name: one for name, one in value.items() if name != key}
            if kind < 0.2:
                return {**value, chance.choice(["x", "", key.upper()]): value[key]}
            return {**value, key: changed(value[key])}
        if isinstance(value, list) and value and chance.random() < 0.85:
            place = chance.randrange(len(value))
            kind = chance.random()
            if kind < 0.2:
                return [*value, value[place]]
            if kind < 0.3:
                return value[:place]
            return [*value[:place], changed(value[place]), *value[place + 1 :]]
        return chance.choice(others)

    found = []
    for _ in range(count):
        text = json.dumps(changed(valid)).encode()
        if chance.random() < 0.2:
            place = chance.randrange(len(text))
            text = text[:place] + bytes([chance.randrange(256)]) + text[place + 1 :]
        found.append(text)
    return found


def survives(work: Callable[[], object]) -> None:
    """The work succeeds, or it raises an expected failure."""
    try:
        work()
    except TosaConvertError as error:
        str(error).encode(errors="backslashreplace")


ROWS = [Answer("a/b", "pass", "m", 0.5, 1, "ABS", "INT32", "k"), Answer("c", "wrong")]


#: Damaged files of each kind: some in every run, the rest with the slow tests.
SHARES = [pytest.param(20, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)]


@pytest.mark.parametrize("every", SHARES)
def test_damaged_journals_are_refused_or_read(every: int, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    valid = [{"folder": "/x"}, *({f: getattr(row, f) for f in row.__slots__} for row in ROWS)]

    def work() -> None:
        journal = Journal(path, {"folder": "/x"})
        journal.close()
        b"".join(junit(verdict(journal.answers.values()), 1.0))
        for answer in journal.answers.values():
            assert answer.status in STATUSES

    for number in range(3):
        rows = [json.dumps(row).encode() for row in valid]
        for text in mutants(number, valid[number], 500)[::every]:
            path.write_bytes(b"\n".join([*rows[:number], text, *rows[number + 1 :], b""]))
            survives(work)


@pytest.mark.parametrize(
    "row",
    [
        '{"case": "a", "status": "fine"}',
        '{"case": 5, "status": "pass"}',
        '{"case": "a", "status": ["pass"]}',
        '{"case": "a", "status": "pass", "seconds": 1e400}',
        '{"case": "a", "status": "pass", "more": 1}',
        '{"status": "pass"}',
        "[]",
        "[" * 100_000,
    ],
)
def test_a_row_that_suite_did_not_write_is_refused_with_its_line(row: str, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text("{}\n" + '{"case": "z", "status": "pass"}\n' + row + "\n")
    with pytest.raises(TosaConvertError, match=r"answers\.jsonl:3: error: not an answer") as caught:
        Journal(path, {})
    assert caught.value.code == "file-error"
    path = tmp_path / "baseline.json"
    path.write_text('{"answers": [' + row + "]}")
    if '"more"' not in row and "seconds" not in row:
        with pytest.raises(TosaConvertError, match="not a report that suite --json-report wrote"):
            read_baseline(path)


@pytest.mark.parametrize("every", SHARES)
def test_damaged_baselines_are_refused_or_read(every: int, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    valid = {"answers": [{"case": "a", "status": "pass"}, {"case": "b", "status": "wrong"}]}
    for text in mutants(7, valid, 1000)[::every]:
        path.write_bytes(text)
        survives(lambda: read_baseline(path))


@pytest.mark.parametrize("every", SHARES)
def test_damaged_states_of_a_reduction_are_refused(
    every: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import tosa_convert as tc
    from tosa_convert import golden

    tc.save(golden.generate(seed=2, operators=2, kinds=["ABS"]), tmp_path / "m.tosa")
    arguments = [
        tmp_path / "m.tosa",
        "--command",
        "false",
        "--work",
        tmp_path,
        "--expect-exit",
        "1",
    ]
    assert run_verb("reduce", *arguments) == 0
    path = tmp_path / "state.json"
    valid = json.loads(path.read_text())
    texts = [b"[" * 100_000, b"{}", b"\xff", *mutants(3, valid, 60)[::every]]
    for text in (*texts, json.dumps({**valid, "answers": {"x": 1}}).encode()):
        path.write_bytes(text)
        capsys.readouterr()
        code = run_verb("reduce", *arguments, "--resume")
        assert code in (0, 2), capsys.readouterr().err


@pytest.mark.parametrize("every", SHARES)
def test_damaged_descriptors_are_errors_of_their_case(
    every: int, case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The official library ends its process on some of these descriptors.
    monkeypatch.setattr(official_case, "_library", lambda: lambda *given: False)
    rule = {"mode": "ULP", "data_type": "INT32", "ulp_info": {"ulp": 1}}
    described(
        case,
        test_details={"operator": "ABS"},
        test_requirements={"profiles_supported": ["tosa-pro-int"], "extensions_required": []},
        meta={"compliance": {"tensors": {"y": rule}}, "data_gen": {"tensors": {"x": {}}}},
    )
    valid = json.loads((case / "desc.json").read_text())
    settings = Qualification(against=str(tmp_path / "absent"), claims=frozenset({"PRO-INT"}))
    for text in mutants(11, valid, 1500)[::every]:
        (case / "desc.json").write_bytes(text)
        survives(lambda: read_descriptor(case))
        # The backend does not exist: a descriptor that can be used ends there.
        survives(lambda: qualify_case(str(tmp_path / "cases"), "case", settings=settings))


def test_names_that_are_not_utf_8_are_reported() -> None:
    run = verdict([Answer("a/\udcff", "wrong", "\udcff")])
    tree = ET.fromstring(b"".join(junit(run, 1.0)))
    assert tree[0][0].get("name") == "\\udcff"


# -- what a backend refuses


@pytest.mark.slow
def test_a_refused_case_is_skipped_unless_it_is_to_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_suite(tmp_path / "cases")
    backend, report = tmp_path / "sim.py", tmp_path / "junit.xml"
    backend.write_text(
        "import numpy as np, tosa_convert as tc\n\n\ndef run(model, inputs):\n"
        "    if tc.load(model).main.operators[0].spec.name != 'ABS':\n"
        "        raise NotImplementedError\n    return {'y': np.abs(inputs['x'])}\n"
    )
    common = ["suite", tmp_path / "cases", "--against", backend, "--junit", report]
    for more, code, counts in (
        ([], 0, ("0", "2")),
        (["--refused", "skip"], 0, ("0", "2")),
        (["--refused", "fail"], 1, ("2", "0")),
    ):
        assert run_verb(*common, *more) == code  # type: ignore[arg-type]
        assert "2 of 4 cases pass (0 wrong, 2 refused" in capsys.readouterr().out
        suite = ET.parse(report).getroot()[0]
        assert (suite.get("failures"), suite.get("skipped")) == counts
    backend.write_text("def run(model, inputs):\n    raise NotImplementedError\n")
    assert run_verb(*common) == 1  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_single_case_has_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_case(tmp_path / "cases/abs_1", unary("ABS"), X)
    listed = tmp_path / "xfail.txt"
    listed.write_text("abs_* it is known\n")
    backend = tmp_path / "sim.py"
    backend.write_text("def run(model, inputs):\n    return {'y': inputs['x']}\n")
    arguments = [tmp_path / "cases/abs_1", "--against", backend]
    assert run_verb("suite", *arguments) == 1
    assert "WRONG abs_1: " in capsys.readouterr().out
    assert run_verb("suite", *arguments, "--xfail", listed) == 0


# -- what a backend writes

_HUGE = """
import sys, zipfile, numpy as np
from numpy.lib import format
with zipfile.ZipFile(sys.argv[1], 'w') as archive, archive.open('y.npy', 'w') as file:
    format.write_array_header_1_0(file, {'descr': '<i4', 'fortran_order': False, 'shape': (1 << 40,)})
"""


@POSIX
@pytest.mark.parametrize("name", ["{outputs}", "{output_dir}/out0.npy"])
def test_a_backend_that_makes_a_pipe_of_its_output_has_failed(
    name: str, case: Path, tmp_path: Path
) -> None:
    settings = Qualification(against=f"mkfifo {name}", timeout=20.0, keep=tmp_path / "kept")
    answer = qualify_case(str(tmp_path / "cases"), "case", settings=settings)
    assert answer.status == "crashed"
    assert "it is a pipe, expected a regular file" in answer.message
    assert (tmp_path / "kept/case/failed-0/model.tosa").is_file()


def test_the_data_of_an_output_of_another_shape_is_not_read(case: Path, tmp_path: Path) -> None:
    """The array has 4 TiB by its header, and no data."""
    (tmp_path / "huge.py").write_text(_HUGE)
    against = f"{sys.executable} {tmp_path / 'huge.py'} {{outputs}}"
    settings = Qualification(against=against, timeout=60.0)
    answer = qualify_case(str(tmp_path / "cases"), "case", settings=settings)
    assert answer.status == "wrong"
    assert "expected shape [4], found [1099511627776]" in answer.message
    np.save(tmp_path / "small.npy", X["x"])
    assert read_npy(tmp_path / "small.npy", (4,)).tolist() == X["x"].tolist()
    assert read_npy(tmp_path / "small.npy", (2, 2)).tolist() == [0] * 4


@pytest.mark.parametrize("bomb", ["inputs", "expected"])
def test_arrays_of_another_shape_are_not_unpacked(bomb: str, tmp_path: Path) -> None:
    folder = tmp_path / "cases/case"
    folder.mkdir(parents=True)
    (tmp_path / "results").mkdir()
    tc.save(unary("ABS"), folder / "model.tosa")
    np.savez(folder / "inputs.npz", x=X["x"])
    name = "x" if bomb == "inputs" else "y"
    np.savez_compressed(folder / f"{bomb}.npz", **{name: np.zeros(32 << 20, np.float32)})
    tracemalloc.start()
    first, second = both_answers(tmp_path / "cases", tmp_path / "results")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
    assert first.status == ("error" if bomb == "inputs" else "fail"), first
    assert "33554432" in first.message
    assert bomb == "expected" or "33554432" in second.message
