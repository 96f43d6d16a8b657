"""`tosa-flatbuffer validate`: what it reads, its reports, and its exit codes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from unit.building import graph, op, tensor
from unit.cli.test_cli import save

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.cli.validate_files import FileReport, Status, as_json, as_sarif, as_text
from tosa_convert.errors import CODES, printable
from tosa_convert.formats.write import stamp
from tosa_convert.graph import Graph

FINDING = (
    'region "main" block "main" operator #0 ADD: error: sizes 3 and 5 in dimension 1: '
    "input1 INT32 [2, 3], input2 INT32 [2, 5]; expected equal sizes, or 1 "
    "[invalid-operator: add-broadcast]"
)
#: The same of a function of text.
TEXT_FINDING = FINDING.replace('region "main"', 'region "f"')
TEXT = """func.func @f(%a: tensor<2x3xi32>, %b: tensor<2x3xi32>) -> tensor<2x3xi32> {
  %0 = tosa.add %a, %b : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  return %0 : tensor<2x3xi32>
}
"""


def total(second: int = 3, kind: str = "INT32") -> Graph:
    """Return a sum of two inputs, which TOSA allows if they have equal sizes."""
    shapes = {"x": (2, 3), "y": (2, second), "z": (2, 3)}
    values = [tensor(name, kind, shape) for name, shape in shapes.items()]
    return graph("x y", "z", values, [op("ADD", "x y", "z")])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the test: good.tosa, bad.tosa and broken.tosa."""
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "good.tosa", total())
    save(tmp_path / "bad.tosa", total(5))
    (tmp_path / "broken.tosa").write_bytes(b"\x10\0\0\0TOSA\0\0\0\0\0\0\0\0")
    return tmp_path


@pytest.fixture
def validate(folder: Path, capfd: pytest.CaptureFixture[str]) -> Any:
    """Run `validate` in that folder: (exit code, stdout, stderr)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(verb("validate"), list(arguments))
        return (code, *capfd.readouterr())

    return call


# -- exit codes and text ---------------------------------------------------------------------------


def test_a_valid_program_prints_nothing(validate: Any) -> None:
    assert validate("good.tosa") == (0, "", "")


def test_findings_are_printed_with_their_file(validate: Any) -> None:
    assert validate("bad.tosa") == (1, f"bad.tosa: {FINDING}\n", "")


def test_a_file_that_cannot_be_read_has_the_exit_code_of_its_error(validate: Any) -> None:
    code, out, err = validate("broken.tosa")
    assert (code, err) == (3, "")
    assert out.startswith("broken.tosa")
    assert "[malformed-flatbuffer]" in out
    assert validate("missing.tosa")[0] == 2


def test_one_bad_file_does_not_stop_the_others(validate: Any) -> None:
    code, out, err = validate("broken.tosa", "bad.tosa", "good.tosa")
    assert code == 3
    assert "[malformed-flatbuffer]" in out
    assert f"bad.tosa: {FINDING}\n" in out
    assert err == "1 of 3 files valid, 1 invalid, 1 unreadable\n"


def test_a_directory_is_read_recursively(validate: Any, folder: Path) -> None:
    (folder / "deep" / "er").mkdir(parents=True)
    tc.save(total(), folder / "deep" / "er" / "good.json")
    (folder / "deep" / "er" / "readme.txt").write_text("not a program")
    code, out, err = validate("deep")
    assert (code, out, err) == (0, "", "")
    code, _, err = validate(".")
    assert code == 3
    assert err == "2 of 4 files valid, 1 invalid, 1 unreadable\n"


def test_a_directory_without_programs_is_an_error(validate: Any, folder: Path) -> None:
    (folder / "empty").mkdir()
    code, out, err = validate("empty")
    assert (code, out) == (3, "")
    assert "[unrecognised-input]" in err


def test_every_format_is_read(validate: Any, folder: Path, torch_mlir: Any) -> None:
    for name in ("json", "mlirbc"):
        tc.save(total(), folder / f"m.{name}")
    (folder / "m.mlir").write_text(TEXT)
    assert validate("m.json", "m.mlirbc", "m.mlir")[0] == 0


@pytest.mark.slow
def test_many_files_are_read_side_by_side(validate: Any, folder: Path) -> None:
    (folder / "many").mkdir()
    for number in range(8):
        save(folder / "many" / f"{number}.tosa", total(3 if number % 2 else 5))
    code, out, err = validate("many", "-j", "2")
    assert code == 1
    assert [line.partition(":")[0] for line in out.splitlines()] == [
        f"many/{number}.tosa" for number in range(0, 8, 2)
    ]
    assert err == "4 of 8 files valid, 4 invalid, 0 unreadable\n"


def test_a_graph_that_is_not_sound_is_invalid(validate: Any, folder: Path) -> None:
    made = total()
    made.main.outputs.append("gone")
    save(folder / "unsound.tosa", made)
    code, out, _ = validate("unsound.tosa")
    assert code == 1
    assert 'block output "gone" is never defined [undefined-name]' in out


def test_a_bug_of_ours_does_not_stop_the_other_files(
    validate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = tc.validate

    def wrong(program: Graph, **options: Any) -> Any:
        if program.main.tensors["y"].shape == (2, 5):
            raise ZeroDivisionError("on purpose")
        return right(program, **options)

    monkeypatch.setattr("tosa_convert.cli.validate_files.validate", wrong)
    code, out, err = validate("bad.tosa", "good.tosa")
    assert (code, out) == (70, "")
    assert "on purpose" in err
    assert "bad.tosa: internal error in tosa-convert" in err
    assert "1 of 2 files valid" in err


# -- standard input and output ---------------------------------------------------------------------


def tool(data: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "tosa_convert", "validate"]
    return subprocess.run(command, input=data, capture_output=True, check=False)


@pytest.mark.slow
def test_standard_input_is_read() -> None:
    found = tool(tc.dumps(total(5), "json"))
    assert found.returncode == 1
    assert found.stdout.decode().splitlines() == [f"<stdin>: {FINDING}"]


def test_standard_input_is_not_one_of_several_inputs(validate: Any) -> None:
    code, _, err = validate("-", "good.tosa")
    assert code == 2
    assert "standard input cannot be one of several inputs" in err


def test_a_report_goes_into_a_file(validate: Any, folder: Path) -> None:
    assert validate("bad.tosa", "-o", "report.txt") == (1, "", "")
    assert (folder / "report.txt").read_text() == f"bad.tosa: {FINDING}\n"
    assert validate("bad.tosa", "--json", "-o", "report.json") == (1, "", "")
    assert json.loads((folder / "report.json").read_text())["summary"]["invalid"] == 1
    assert validate("good.tosa", "-o", "no/such/folder")[0] == 2


# -- options ---------------------------------------------------------------------------------------


def test_targets_are_checked(validate: Any, folder: Path) -> None:
    save(folder / "float.tosa", total(kind="FP32"))
    code, out, _ = validate("float.tosa", "--profile", "PRO-INT")
    assert code == 1
    assert "[outside-profile]" in out
    assert validate("good.tosa", "--profile", "pro-int,EXT-INT16", "--level", "8K")[0] == 0
    assert validate("good.tosa", "--for", "vela")[0] == 0


def test_an_unknown_profile_is_refused_once(validate: Any) -> None:
    code, out, err = validate("good.tosa", "bad.tosa", "--profile", "PRO-X")
    assert (code, out) == (2, "")
    assert err.count("found 'PRO-X'") == 1


def test_the_least_target_is_printed(validate: Any) -> None:
    code, out, _ = validate("good.tosa", "bad.tosa", "--least")
    assert code == 1
    assert "good.tosa: needs TOSA 1.0, PRO-INT, level 8k\n" in out
    assert "bad.tosa: needs" not in out


def test_unknown_sizes_need_1_1_and_the_inputs_that_have_them_are_named(
    validate: Any, folder: Path
) -> None:
    program = total()
    for value in program.main.tensors.values():
        value.shape = (-1, 3)
    save(folder / "open.tosa", program)
    said = (
        "note: open.tosa: unknown sizes need TOSA 1.1, and have to be set before it runs: "
        "--input-shape of convert sets x ?x3, y ?x3\n"
    )
    assert validate("open.tosa") == (0, "", said)
    assert validate("open.tosa", "--least") == (
        0,
        "open.tosa: needs TOSA 1.1, PRO-INT, level 8k\n",
        said,
    )
    assert validate("open.tosa", "--json")[2] == ""
    assert "[version-too-low]" in validate("open.tosa", "--spec-version", "1.0")[1]


def test_the_least_target_is_printed_of_a_program_that_needs_another_profile(
    validate: Any, folder: Path
) -> None:
    save(folder / "float.tosa", total(kind="FP32"))
    code, out, _ = validate("float.tosa", "--least", "--profile", "PRO-INT")
    assert code == 1
    assert out.startswith("float.tosa: needs TOSA 1.0, PRO-FP, level 8k\n")


@pytest.mark.parametrize("wrong", [("--json", "--sarif"), ("--least", "--sarif")])
def test_options_that_exclude_each_other_are_refused(validate: Any, wrong: Any) -> None:
    assert validate("good.tosa", *wrong)[0] == 2


def test_an_option_that_does_not_apply_to_a_file_is_refused(validate: Any) -> None:
    code, out, _ = validate("good.tosa", "--func", "main")
    assert code == 2
    assert "[option-conflict]" in out


# -- JSON ------------------------------------------------------------------------------------------


def test_json_has_every_file_with_its_findings(validate: Any) -> None:
    code, out, _ = validate("good.tosa", "bad.tosa", "broken.tosa", "--json")
    assert code == 3
    report = json.loads(out)
    assert report["tool"].startswith("tosa-convert ")
    assert report["summary"] == {
        "files": 3,
        "valid": 1,
        "invalid": 1,
        "unreadable": 1,
        "findings": 2,
    }
    good, bad, broken = report["files"]
    assert good == {
        "file": "good.tosa",
        "status": "valid",
        "findings": [],
        "needs": {"version": "1.0", "profiles": ["PRO-INT"], "extensions": [], "level": "8k"},
    }
    assert (bad["status"], broken["status"]) == ("invalid", "unreadable")
    assert bad["needs"] is broken["needs"] is None
    (finding,) = bad["findings"]
    assert finding.keys() == {"code", "rule", "where", "message", "hint"}
    assert finding["rule"] == "add-broadcast"
    assert broken["findings"][0]["code"] == "malformed-flatbuffer"


# -- SARIF -----------------------------------------------------------------------------------------


def check_sarif(text: str) -> dict[str, Any]:
    """Check what SARIF 2.1.0 requires, and what services that show it need; returns the run."""
    log = json.loads(text)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (only,) = log["runs"]
    driver = only["tool"]["driver"]
    assert driver["name"] == "tosa-convert"
    rules = driver["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"]
    for result in only["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in {"error", "warning", "note", "none"}
        assert result["message"]["text"]
        (location,) = result["locations"]
        physical = location["physicalLocation"]
        assert physical["artifactLocation"]["uri"].isascii()
        assert physical["region"]["startLine"] >= 1
        for logical in location.get("logicalLocations", []):
            assert logical.keys() == {"name", "fullyQualifiedName", "kind"}
    for invocation in only["invocations"]:
        assert isinstance(invocation["executionSuccessful"], bool)
        for notification in invocation.get("toolExecutionNotifications", []):
            assert notification["message"]["text"]
    run_of: dict[str, Any] = only
    return run_of


def test_sarif_has_rules_and_places(validate: Any) -> None:
    code, out, _ = validate("good.tosa", "bad.tosa", "broken.tosa", "--sarif")
    assert code == 3
    found = check_sarif(out)
    assert found["tool"]["driver"]["rules"][0] == {
        "id": "add-broadcast",
        "shortDescription": {"text": "ADD: broadcast"},
        "fullDescription": {"text": CODES["invalid-operator"][1]},
        "help": {"text": "tosa-flatbuffer explain add-broadcast"},
        "properties": {"code": "invalid-operator"},
    }
    bad, broken = found["results"]
    (location,) = bad["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "bad.tosa"
    assert location["logicalLocations"] == [
        {
            "name": "operator #0 ADD",
            "fullyQualifiedName": 'region "main" block "main" operator #0 ADD',
            "kind": "operator",
        },
        {
            "name": 'region "main" block "main"',
            "fullyQualifiedName": 'region "main" block "main"',
            "kind": "block",
        },
    ]
    assert broken["ruleId"] == "malformed-flatbuffer"


def in_lines_of(*lines: int) -> Graph:
    """Wrong sums from lines of a model, each below a line of a framework."""
    program = total(5)
    program.main.operators *= len(lines)
    program.main.operators[:] = [
        replace(row, location=f'loc(callsite("module.py":7:0 at "net.py":{line}:4))')
        for row, line in zip(program.main.operators, lines, strict=True)
    ]
    for number, row in enumerate(program.main.operators[1:]):
        row.outputs = (f"z{number}",)
        program.main.tensors[f"z{number}"] = replace(program.main.tensors["z"], name=f"z{number}")
        program.main.outputs.append(f"z{number}")
    return program


def test_sarif_shows_equal_findings_once_in_the_source_of_the_model(
    validate: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".git").mkdir()
    (folder / "net.py").touch()
    (folder / "models").mkdir()
    save(folder / "models/net.tosa", in_lines_of(9, 12, 9))
    monkeypatch.chdir(folder / "models")  # as `working-directory:` of a workflow
    for given in (".", "net.tosa", str(folder / "models")):
        (result,) = check_sarif(validate(given, "--sarif")[1])["results"]
        places = [
            row["physicalLocation"] for row in (*result["locations"], *result["relatedLocations"])
        ]
        assert [(row["artifactLocation"]["uri"], row["region"]) for row in places] == [
            ("net.py", {"startLine": 9, "startColumn": 4}),
            ("models/net.tosa", {"startLine": 1}),
            ("net.py", {"startLine": 12, "startColumn": 4}),
        ]
        assert {row["artifactLocation"]["uriBaseId"] for row in places} == {"%SRCROOT%"}
        assert "\nat 3 places" in result["message"]["text"]


def test_sarif_names_the_root_and_files_outside_of_it(
    validate: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "here").mkdir()
    monkeypatch.chdir(folder / "here")
    run = check_sarif(validate("../bad.tosa", "--sarif")[1])
    assert run["originalUriBaseIds"] == {"%SRCROOT%": {"uri": f"{(folder / 'here').as_uri()}/"}}
    (result,) = run["results"]
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": (folder / "bad.tosa").as_uri()}


def test_sarif_says_that_a_file_was_not_checked(validate: Any) -> None:
    (done,) = check_sarif(validate("bad.tosa", "--sarif")[1])["invocations"]
    assert done == {"executionSuccessful": True}
    (done,) = check_sarif(validate("bad.tosa", "broken.tosa", "--sarif")[1])["invocations"]
    assert not done["executionSuccessful"]
    assert done["toolExecutionNotifications"] == [
        {"level": "error", "message": {"text": "not checked: broken.tosa"}}
    ]


def test_sarif_without_findings_is_complete() -> None:
    assert check_sarif(as_sarif([FileReport("m.tosa", Status.VALID)]))["results"] == []


def test_sarif_has_the_line_of_a_text(validate: Any, folder: Path, torch_mlir: Any) -> None:
    (folder / "m.mlir").write_text(TEXT.replace("xi32", "xf64"))
    code, out, _ = validate("m.mlir", "--sarif")
    assert code == 4
    lines = {
        (region["startLine"], region["startColumn"])
        for result in check_sarif(out)["results"]
        for region in [result["locations"][0]["physicalLocation"]["region"]]
    }
    assert (1, 1) in lines


def test_a_finding_about_text_begins_with_its_position_and_quotes_the_line(
    folder: Path, validate: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "d").mkdir()
    text = TEXT.replace("tensor<2x3xi32>)", "tensor<2x5xi32>)")
    (folder / "d" / "m.mlir").write_text(text)
    head = f"d/m.mlir:2:8: {TEXT_FINDING}"
    quoted = f"      {text.splitlines()[1].strip()}\n           ^\n"
    assert validate("d/m.mlir")[1] == f"{head}\n{quoted}"
    assert run(verb("convert"), ["d/m.mlir", "-o", "m.tosa"]) == 3
    assert capfd.readouterr().err.startswith(f"{head}\n{quoted}")
    (result,) = check_sarif(validate("d/m.mlir", "--sarif")[1])["results"]
    physical = result["locations"][0]["physicalLocation"]
    assert (physical["region"]["startLine"], physical["region"]["startColumn"]) == (2, 8)
    assert result["locations"][0]["logicalLocations"][0]["name"] == "operator #0 ADD"


@pytest.mark.parametrize("flags", [["--level", "8k"], ["--profile", "PRO-FP"], ["--for", "vela"]])
def test_findings_about_a_target_quote_the_line(
    folder: Path, validate: Any, flags: list[str]
) -> None:
    shape, seven = "tensor<2x3xi32>", "tensor<1x1x1x1x1x1x2xi8>"
    text = TEXT.replace(shape, seven).replace("tosa.add %a, %b", "tosa.bitwise_and %a, %b")
    dim = f"%s = tosa.dim %0 {{axis = 0 : i32}} : ({seven}) -> !tosa.shape<1>"
    text = text.replace("return", f"{dim}\n  return")
    (folder / "m.mlir").write_text(text)
    lines = validate("m.mlir", *flags)[1].splitlines()
    places = [line.removeprefix("    also at ") for line in lines if "operator #" in line]
    assert places
    assert all(line.startswith(("m.mlir:2:8: region", "m.mlir:3:8: region")) for line in places)


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ('loc("model.py":9:4)', "m.mlir: model.py:9:4: "),
        ('loc("sum"("model.py":9:4))', 'm.mlir: model.py:9:4: loc("sum"("model.py":9:4)): '),
        ('loc("sum")', 'm.mlir: loc("sum"): '),
        # The text may have been printed from another file of its name.
        ('loc("m.mlir":9:4)', "m.mlir:9:4: "),
        ("loc(unknown)", "m.mlir: "),
    ],
)
def test_a_location_in_the_text_is_before_the_path_and_its_line_is_not_quoted(
    folder: Path, validate: Any, location: str, place: str
) -> None:
    text = TEXT.replace("tensor<2x3xi32>)", "tensor<2x5xi32>)")
    text = text.replace(") -> tensor<2x3xi32>\n", f") -> tensor<2x3xi32> {location}\n")
    (folder / "m.mlir").write_text(text)
    assert validate("m.mlir")[1] == f"{place}{TEXT_FINDING}\n"


def test_operands_of_different_rank_may_be_those_of_an_older_program(
    folder: Path, validate: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "m.mlir").write_text(
        TEXT.replace("%a: tensor<2x3xi32>", "%a: tensor<3xi32>").replace(
            "(tensor<2x3xi32>", "(tensor<3xi32>"
        )
    )
    assert "tosa-flatbuffer upgrade, or dialect=" in validate("m.mlir")[1]
    assert run(verb("convert"), ["m.mlir", "-o", "m.tosa"]) == 3
    error = capfd.readouterr().err
    assert "tosa-flatbuffer upgrade, or dialect=" in error
    assert "--no-validate" in error
    assert run(verb("upgrade"), ["m.mlir", "-o", "m.tosa"]) == 0


def test_sarif_has_the_line_of_an_operator_location() -> None:
    where = 'm.mlir:7:9: region "main" block "main" operator #3 ADD'
    finding = tc.Finding("invalid-operator", where, "x", rule="add-rank")
    for name, line in (("a b/m.mlir", 7), ("n.mlir", 1)):
        report = FileReport(name, Status.INVALID, (finding,))
        (result,) = check_sarif(as_sarif([report]))["results"]
        physical = result["locations"][0]["physicalLocation"]
        assert physical["region"]["startLine"] == line
        assert unquote(physical["artifactLocation"]["uri"]) == name


def test_a_defect_of_ours_is_a_notification_in_sarif() -> None:
    found = check_sarif(as_sarif([FileReport("m.tosa", Status.UNREADABLE, trace="Traceback")]))
    assert found["results"] == []
    assert found["invocations"][0]["executionSuccessful"] is False


def test_a_file_name_that_is_not_unicode_is_reported() -> None:
    finding = tc.Finding("empty-input", "", "the input is empty")
    reports = [FileReport("\udcff.tosa", Status.UNREADABLE, (finding,))]
    for form in (as_text, as_json, as_sarif):
        assert form(reports).encode("utf-8", "backslashreplace")


# -- progress --------------------------------------------------------------------------------------


def test_a_terminal_gets_a_bar(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr("tosa_convert.cli.messages.PATIENCE", 0.0)
    assert run(verb("validate"), ["good.tosa", "bad.tosa"]) == 1
    assert "files" in screen.getvalue()
    assert "bad.tosa: region" in capfd.readouterr().out


def test_what_left_the_draft_is_a_note_and_with_its_month_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = [tensor("x", "INT8", (1, 4, 2)), tensor("i", "INT32", (1, 3))]
    values += [tensor("c", "INT32", (1,), b"\1\0\0\0"), tensor("y", "INT8", (1, 3, 2))]
    made = graph("x i", "y", values, [op("CONST", "", "c"), op("ROW_GATHER", "x i c", "y")])
    # A line end in a name cannot forge a finding.
    path = str(tmp_path / ("gone.tosa" if sys.platform == "win32" else "gone\nerror: x.tosa"))
    save(Path(path), stamp(made, "1.1"))
    gone = "ROW_GATHER is not in TOSA 1.1 since the draft of September 2026"
    assert run(verb("validate"), [path]) == 0
    note = f"note: {printable(path)}: {gone}: GATHER with a row count replaces it"
    assert note in capsys.readouterr().err
    assert run(verb("validate"), [path, "--spec-version", "1.1-2026-08"]) == 0
    assert gone not in "".join(capsys.readouterr())
    assert run(verb("validate"), [path, "--spec-version", "1.1-2026-09"]) == 1
    assert gone in "".join(capsys.readouterr())
