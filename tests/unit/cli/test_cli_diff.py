"""`tosa-flatbuffer diff`: formats, text, colour, JSON, exit codes, and the recipe for git."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from unit.building import branching, example, graph, op, tensor
from unit.cli.test_cli import save
from unit.graph.test_compare import renamed
from unit.views.test_diff import layers, named

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.graph import Graph
from tosa_convert.graph.versions import V1_1_DRAFT


def changed() -> Graph:
    """`example` with other names and another axis."""
    made = renamed(example())
    made.main.operators[2].attributes["axis"] = 1
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the test: a.tosa, the same with other names, and with another axis."""
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "a.tosa", example())
    save(tmp_path / "renamed.tosa", renamed(example()))
    save(tmp_path / "changed.tosa", changed())
    return tmp_path


@pytest.fixture
def diff(folder: Path, capfd: pytest.CaptureFixture[str]) -> Any:
    """Run `diff` in that folder: (exit code, stdout, stderr)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(verb("diff"), list(arguments))
        return (code, *capfd.readouterr())

    return call


def test_equal_programs_print_nothing(diff: Any) -> None:
    assert diff("a.tosa", "a.tosa") == (0, "", "")
    assert diff("a.tosa", "renamed.tosa") == (0, "", "")


def test_a_changed_attribute_is_printed_with_the_operators_around_it(diff: Any) -> None:
    code, out, err = diff("a.tosa", "changed.tosa")
    assert (code, err) == (1, "")
    assert out.splitlines()[:2] == [
        "--- a.tosa: TOSA 1.0.0, 5 operators, written by 1.2.3 test",
        "+++ changed.tosa: TOSA 1.0.0, 5 operators, written by 1.2.3 test",
    ]
    assert out.splitlines()[2:] == [
        '@@ region "main" @@',
        "  #1 s = ADD(x, w) : FP32 [2, 3]",
        "~ #2 m = REDUCE_SUM(s) {axis = 0} : FP32 [1, 3]",
        "-     attribute axis: 0",
        "+     attribute axis: 1",
        "  #4 y = RESHAPE(m, to) : FP32 [3]",
        "1 operator changed",
    ]
    assert "ADD" not in diff("a.tosa", "changed.tosa", "-U", "0")[1]


def test_what_was_added_is_printed_where_the_region_has_another_name(
    diff: Any, folder: Path
) -> None:
    other = example()
    other.main.tensors["e"] = tensor("e")
    other.main.operators.insert(2, op("EXP", "s", "e"))
    other.main.operators[3].inputs = ("e",)
    save(folder / "b.tosa", other)
    same = diff("a.tosa", "b.tosa")[1].splitlines()[2:]
    other.regions[0].name = other.main.name = "block"
    save(folder / "b.tosa", other)
    assert diff("a.tosa", "b.tosa")[1].splitlines()[2:] == same
    assert "+ #2 e = EXP(s) : FP32 [2, 3]" in same


def test_constants_added_and_removed_operators_and_moves_are_printed(
    diff: Any, folder: Path
) -> None:
    other = example()
    weight = other.main.tensors["w"].data
    assert weight is not None
    values = weight.numpy().copy()
    values[4] = 6
    other.main.tensors["w"] = tensor("w", data=values.tobytes())
    other.main.tensors["e"] = tensor("e")
    other.main.operators.insert(2, op("EXP", "s", "e"))
    other.main.operators[3].inputs = ("e",)
    save(folder / "b.tosa", other)
    assert diff("a.tosa", "b.tosa")[1].splitlines()[3:] == [
        "~ #0 w = CONST() : FP32 [2, 3]",
        "~     input2 of #1 ADD",
        "~     data: 1 of 6 elements differs by up to 2 (relative 0.333), the first is element 4",
        "-     data: [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]",
        "+     data: [0.0, 1.0, 2.0, 3.0, 6.0, 5.0]",
        "  #1 s = ADD(x, w) : FP32 [2, 3]",
        "+ #2 e = EXP(s) : FP32 [2, 3]",
        "  #2 m = REDUCE_SUM(s) {axis = 0} : FP32 [1, 3]",
        "1 operator added, 1 constant changed",
    ]
    assert "- #2 e = EXP(s)" in diff("b.tosa", "a.tosa")[1]


def test_what_changed_and_moved_has_one_heading(diff: Any, folder: Path) -> None:
    def program(order: str, value: float) -> Graph:
        """Three constants in an order, and what is computed from them and an input."""
        data = {"u": 3.0, "v": value, "w": 5.0}
        tensors = [tensor(name) for name in "xsty"]
        tensors += [tensor(name, data=struct.pack("<6f", *6 * [data[name]])) for name in "uvw"]
        operators = [op("CONST", "", name) for name in order]
        operators += [op("ADD", "x v", "s"), op("SUB", "s w", "t"), op("ADD", "t u", "y")]
        return graph("x", "y", tensors, operators)

    save(folder / "a.tosa", program("vwu", 1))
    save(folder / "b.tosa", program("wuv", 2))
    assert diff("a.tosa", "b.tosa")[1].splitlines()[3:] == [
        "~ #0 v = CONST() : FP32 [2, 3]",
        "~     input2 of #3 ADD",
        "~     data: 6 of 6 elements differ by up to 1 (relative 0.5), the first is element 0",
        "-     data: [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]",
        "+     data: [2.0, 2.0, 2.0, 2.0, 2.0, 2.0]",
        "~     moved: #0 -> #2",
        "1 constant changed, 1 constant moved",
    ]


def test_further_constants_that_moved_are_counted(diff: Any, folder: Path) -> None:
    left, right = layers(5), layers(5)
    right.main.operators.sort(key=lambda row: bool(row.inputs))
    save(folder / "l.tosa", left)
    save(folder / "r.tosa", right)
    (line,) = (row for row in diff("l.tosa", "r.tosa")[1].splitlines() if "moved: #" in row)
    assert line.endswith(", and 3 further constants")


def test_types_that_follow_are_listed_up_to_a_number(diff: Any, folder: Path) -> None:
    left, right = layers(5), layers(5)
    for value in right.main.tensors.values():
        if value.data is None and value.shape is not None:
            value.shape = (8, *value.shape[1:])
    save(folder / "l.tosa", left)
    save(folder / "r.tosa", right)
    out = diff("l.tosa", "r.tosa")[1]
    assert "~ 15 operators: the types of results differ because those of operands do" in out
    assert "~     ... 12 more" in out
    out = diff("l.tosa", "r.tosa", "--all")[1]
    assert "more" not in out
    assert out.count("CLAMP: FP32 [1, 4, 4, 2] -> FP32 [8, 4, 4, 2]") == 5


def test_statistics_count_operators_by_name(diff: Any) -> None:
    assert diff("a.tosa", "changed.tosa", "--stat")[1].splitlines() == [
        " REDUCE_SUM | 1 changed",
        "1 operator changed",
    ]
    assert diff("a.tosa", "renamed.tosa", "--stat")[:2] == (0, "")


def test_json_is_one_object(diff: Any) -> None:
    code, out, _ = diff("a.tosa", "changed.tosa", "--json")
    document = json.loads(out)
    assert code == 1
    assert document["left"]["file"] == "a.tosa"
    (change,) = document["changes"]
    assert change["details"][0] == {
        "what": "attribute axis",
        "left": "0",
        "right": "1",
        "elements": None,
    }
    code, out, _ = diff("a.tosa", "renamed.tosa", "--json")
    assert (code, json.loads(out)["equal"]) == (0, True)


def test_infinity_in_json_is_a_text(diff: Any, folder: Path) -> None:
    for name, value in (("l", 1.0), ("r", float("inf"))):
        made = layers(1)
        weight = made.main.tensors[named(made, "CONV2D")[0].inputs[1]]
        assert weight.data is not None
        values = weight.data.numpy().copy()
        values[0] = value
        weight.data = type(weight.data)(weight.dtype, weight.data.count, values.tobytes())
        save(folder / f"{name}.tosa", made)
    out = diff("l.tosa", "r.tosa", "--json")[1]
    document = json.loads(out, parse_constant=lambda text: pytest.fail(text))
    assert document["changes"][0]["details"][0]["elements"]["max_absolute"] == "inf"


@pytest.mark.parametrize("form", ["json", "mlirbc", "mlir"])
def test_any_two_formats_are_compared(diff: Any, folder: Path, form: str) -> None:
    if form == "mlir":
        pytest.importorskip("torch_mlir")
    save(folder / "b.tosa", branching())
    tc.save(branching(), folder / f"b.{form}")
    assert diff("b.tosa", f"b.{form}")[0] == 0
    assert diff(f"b.{form}", "a.tosa")[0] == 1


def test_the_version_of_a_module_that_states_none_is_not_compared(diff: Any, folder: Path) -> None:
    newer = example()
    newer.version = V1_1_DRAFT
    save(folder / "newer.tosa", newer)
    assert diff("a.tosa", "newer.tosa")[0] == 1
    tc.save(newer, folder / "newer.mlirbc")
    found = diff("a.tosa", "newer.mlirbc")
    stated = tc.load(folder / "newer.mlirbc").target is not None
    assert found[0] == int(stated)


def test_colour_is_for_terminals_or_on_request(diff: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" not in diff("a.tosa", "changed.tosa")[1]
    assert "\x1b[" not in diff("a.tosa", "changed.tosa", "--color", "never")[1]
    out = diff("a.tosa", "changed.tosa", "--color", "always")[1]
    assert "\x1b[31m-     attribute axis: 0\x1b[0m" in out
    assert "\x1b[32m+     attribute axis: 1\x1b[0m" in out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\x1b[" in diff("a.tosa", "changed.tosa")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in diff("a.tosa", "changed.tosa")[1]


@pytest.mark.parametrize(
    "options",
    [
        ("--json", "--stat"),
        ("--json", "--all"),
        ("--stat", "--color", "always"),
        ("--color", "sometimes"),
        ("-U", "-1"),
    ],
)
def test_options_that_contradict_each_other_are_refused(diff: Any, options: tuple[str]) -> None:
    code, out, err = diff("a.tosa", "changed.tosa", *options)
    assert (code, out) == (2, "")
    assert "[option-conflict]" in err


def test_files_that_cannot_be_read_have_the_exit_code_of_their_error(
    diff: Any, folder: Path
) -> None:
    (folder / "broken.tosa").write_bytes(b"\x10\0\0\0TOSA")
    assert diff("a.tosa", "broken.tosa")[0] == 3
    assert diff("missing.tosa", "a.tosa")[0] == 2
    assert diff("-", "-")[0] == 2
    assert diff("a.tosa", "changed.tosa", "--func", "f")[0] == 2


# -- git -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.skipif(sys.platform == "win32", reason="the recipe is for a POSIX shell")
def test_git_shows_flatbuffers_as_text_and_as_differences(folder: Path) -> None:
    command = f"{sys.executable} -m tosa_convert"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": str(folder),
    }

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(
            ["git", *who, *words],
            env=environment,
            check=True,
            capture_output=True,
            encoding="utf-8",
        )
        return done.stdout

    git("init", "-q")
    (folder / ".gitattributes").write_text("*.tosa diff=tosa\n")
    git("add", "a.tosa", ".gitattributes")
    git("commit", "-qm", "one")
    shutil.copy("changed.tosa", "a.tosa")
    assert "Binary files" in git("diff")
    git("config", "diff.tosa.textconv", f"{command} convert --to mlir --elide 16 --no-locations")
    lines = git("diff").splitlines()
    assert any(line.startswith("-") and "axis = 0" in line for line in lines)
    driver = f'f() {{ {command} diff "$2" "$5" || true; }}; f'
    git("config", "diff.tosa.command", driver)
    assert "+     attribute axis: 1" in git("diff").splitlines()
