"""`tosa-flatbuffer show`: the screen, listings, several files, JSON, and exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from unit.building import branching, counting, encode, example, graph, op, tensor

import tosa_convert as tc
from tosa_convert.cli import text_columns
from tosa_convert.cli.main import run, verb
from tosa_convert.graph import Constant, Graph, Region, dtype
from tosa_convert.graph.opset import OPERATORS


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> Any:
    """Run `show` in a folder that has m.tosa: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    tc.save(example(), "m.tosa")

    def call(*arguments: str, name: str = "show") -> tuple[int, str, str]:
        code = run(verb(name), list(arguments))
        return (code, *capfd.readouterr())

    return call


# -- the screen ------------------------------------------------------------------------------------


def test_constants_in_several_places_are_listed_apart(show: Any) -> None:
    tc.save(example(), "m.tosa", weights="npy")
    made = tc.load("m.tosa")
    made.main.operators.insert(0, op("CONST", "", "k"))
    made.main.tensors["k"] = tensor("k", "INT8", (3,), b"123")
    # The folder stays, and the new file has only the new constant.
    made.main.tensors["w"].data = None

    Path("m.tosa").write_bytes(encode(made))
    out = show("m.tosa")[1]
    assert "constants   2, 27 bytes\n" in out
    assert "  1, 3 bytes, in the file\n" in out
    assert "  1, 24 bytes, in .npy files beside it\n" in out


def test_constants_without_data_are_counted(show: Any) -> None:
    tc.save(example(), "m.tosa", weights="npy")
    for path in Path("m.weights").iterdir():
        path.unlink()
    Path("m.weights").rmdir()
    out = show("m.tosa")[1]
    assert "constants   1 without data\n" in out
    assert "[missing-data]" in out
    assert "needs       no target: TOSA forbids the program\n" in out


def test_regions_and_variables_have_their_lines(show: Any) -> None:
    tc.save(branching(), "b.tosa")
    out = show("b.tosa")[1]
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "regions main 1 operator" in lines
    assert "else 0 operators" in lines
    assert "each region counted once" in out
    assert "memory      at least" in out
    tc.save(counting(), "c.tosa")
    assert "variables   counter  INT32 [1]\n" in show("c.tosa")[1]


def test_many_inputs_and_kinds_fit_the_screen(show: Any) -> None:
    names = [f"x{index}" for index in range(100)]
    made = graph(" ".join(names), "x0", [tensor(name) for name in names], [])
    kinds = [row for row in OPERATORS if not row.regions][:60]
    made.main.operators = [op(row.name) for row in kinds]
    tc.save(made, "wide.json", validate=False) if not tc.verify(made) else None
    from tosa_convert.cli.show_text import Shown, screen

    lines = list(screen(Shown("wide", "tosa", 1, (), tc.summarize(made))))
    assert len(lines) < 60
    assert any("... 88 more values" in line for line in lines)
    assert any("findings    " in line for line in lines)


def test_names_of_a_file_cannot_write_lines_of_their_own(show: Any) -> None:
    made = example()
    made.main.tensors["x\n  findings    none\x1b[2J"] = renamed = tensor(
        "x\n  findings    none\x1b[2J"
    )
    made.main.inputs = [renamed.name]
    made.main.operators[1] = op("ADD", "", "s", "loc(\n\x1b)")
    made.main.operators[1].inputs = (renamed.name, "w")
    del made.main.tensors["x"]
    tc.save(made, "m.tosa")
    for arguments in ([], ["--operators"], ["--tensors"], ["--hex"]):
        out = show("m.tosa", *arguments)[1]
        assert "\x1b" not in out
        assert "\n  findings    none\x1b" not in out
    assert show("m.tosa")[1].count("\n  findings ") == 1


# -- input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["m.tosa", "--grep", "x"],
        ["m.tosa", "--operators", "--grep", "("],
        ["m.tosa", "--all-bytes"],
        ["m.tosa", "--hex", "--json"],
        ["m.tosa", "--hex", "--operators"],
        ["m.tosa", "m.tosa", "--hex"],
        ["m.tosa", "m.tosa", "--operators"],
        ["m.tosa", "--func", "main"],
        ["m.json", "--hex"],
        ["m.tosa", "-"],
    ],
)
def test_options_that_have_no_effect_are_refused(show: Any, arguments: list[str]) -> None:
    tc.save(example(), "m.json")
    code, out, err = show(*arguments)
    assert (code, out) == (2, "")
    assert err


# -- several files ---------------------------------------------------------------------------------


def test_a_file_that_cannot_be_read_does_not_stop_the_others(show: Any) -> None:
    Path("broken.tosa").write_bytes(b"\x10\0\0\0TOSA")
    code, out, err = show("broken.tosa", "m.tosa")
    assert code == 3
    assert out.splitlines()[1].startswith("m.tosa")
    assert "[malformed-flatbuffer]" in err
    code, out, err = show("broken.tosa", "m.tosa", "--json")
    assert code == 3
    files = json.loads(out)["files"]
    assert [row["readable"] for row in files] == [False, True]
    assert files[0]["findings"][0]["code"] == "malformed-flatbuffer"


def test_a_folder_without_programs_is_an_error(show: Any) -> None:
    Path("empty").mkdir()
    assert show("empty")[0] == 3


# -- listings --------------------------------------------------------------------------------------


def test_operators_of_regions_follow_the_operator_that_runs_them(show: Any) -> None:
    tc.save(branching(), "b.tosa")
    assert [line.rstrip() for line in show("b.tosa", "--operators")[1].splitlines()] == [
        "region main",
        "  #0    COND_IF (c: BOOL [], x: FP32 [2, 3]) -> y: FP32 [2, 3] "
        '{then_graph = "then", else_graph = "else"}',
        "    region then",
        "      #0    EXP (a: FP32 [2, 3]) -> b: FP32 [2, 3]",
    ]


@pytest.mark.slow
def test_regions_that_run_each_other_end() -> None:
    from tosa_convert.cli.show_text import operator_lines

    made = branching()
    made.regions[1].blocks[0].operators.append(
        op("COND_IF", "a", "b", then_graph="main", else_graph="gone")
    )
    deep = [Region(f"r{index}", []) for index in range(3000)]
    from unit.building import block

    for index, region in enumerate(deep):
        inner = op("COND_IF", "", "", then_graph=f"r{index + 1}", else_graph=f"r{index}")
        region.blocks.append(block("", "", [], [inner], "b"))
    lines = list(operator_lines(Graph(made.version, [*made.regions, *deep]), lambda _: True))
    assert sum("#" in line for line in lines) == 3 + 3000
    assert max(map(len, lines)) < 200


def test_a_pattern_selects_by_name_operator_user_and_location(show: Any) -> None:
    def shown(*arguments: str) -> list[str]:
        return [line.split()[0] for line in show("m.tosa", *arguments)[1].splitlines()[1:]]

    assert shown("--operators", "--grep", "^RES") == ["#4"]
    assert shown("--operators", "--grep", "f.mlir") == ["#1"]
    assert shown("--operators", "--grep", "^to$") == ["#3", "#4"]
    assert sorted(shown("--tensors", "--grep", "^ADD$")) == ["s", "w", "x"]
    assert shown("--constants", "--grep", "^ADD$") == ["w"]
    assert shown("--constants", "--grep", "nothing") == []


def test_several_listings_follow_each_other(show: Any) -> None:
    out = show("m.tosa", "--operators", "--tensors")[1]
    assert out.startswith("region main\n")
    assert "\n\ntensor " in out


def test_lines_are_cut_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert list(text_columns.fitted(["x" * 30])) == ["x" * 30]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert list(text_columns.fitted(["x" * 30, "y"])) == ["x" * 17 + "...", "y"]


# -- bytes -----------------------------------------------------------------------------------------


def test_large_data_is_shortened_unless_asked_for(show: Any) -> None:
    made = example()
    made.main.tensors["w"] = tensor("w", shape=(512, 3), data=bytes(512 * 3 * 4))
    made.main.tensors["x"].shape = made.main.tensors["s"].shape = (512, 3)
    tc.save(made, "m.tosa")
    assert "      ... 6,112 more bytes\n" in show("m.tosa", "--hex")[1]
    out = show("m.tosa", "--hex", "--all-bytes")[1]
    assert "more bytes" not in out
    assert (
        sum(len(line[6:29].split()) for line in out.splitlines()) == Path("m.tosa").stat().st_size
    )


def test_bytes_are_selected_by_their_field(show: Any) -> None:
    out = show("m.tosa", "--hex", "--grep", r"operators\[1\]\.op$|\.op  ADD")[1]
    assert out.count("\n") == 1
    assert out.rstrip().endswith("regions[0].blocks[0].operators[1].op  ADD (15)")


def test_a_damaged_file_is_shown_as_far_as_it_goes(show: Any) -> None:
    data = Path("m.tosa").read_bytes()
    Path("cut.tosa").write_bytes(data[:-300])
    code, out, err = show("cut.tosa", "--hex")
    assert code == 3
    assert out.startswith("0000  ")
    assert re.search(r"cut.tosa: byte \d+: error: .* is outside of the file", err)
    assert "[malformed-flatbuffer]" in err


# -- JSON ------------------------------------------------------------------------------------------


def test_the_json_has_everything(show: Any) -> None:
    code, out, err = show("m.tosa", "--json", "--operators", "--tensors", "--constants")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["schema"] == 1
    (file,) = document["files"]
    assert (file["file"], file["format"], file["version"]) == ("m.tosa", "tosa", "1.0.0")
    assert file["inputs"] == [{"name": "x", "type": "FP32", "shape": [2, 3]}]
    assert file["needs"]["profiles"] == ["PRO-FP"]
    assert file["storage"] == [{"form": "embedded", "constants": 1, "nbytes": 24}]
    assert file["macs"] == {"value": 0, "exact": True}
    assert [row["name"] for row in file["operators"]] == [
        *("CONST", "ADD", "REDUCE_SUM", "CONST_SHAPE", "RESHAPE")
    ]
    assert file["operators"][2]["attributes"] == {"axis": 0}
    assert file["operators"][3]["outputs"][0]["sizes"] == [3]
    (weight,) = file["weights"]
    assert (weight["name"], weight["greatest"], len(weight["values"])) == ("w", 5.0, 6)
    assert {row["name"] for row in file["tensors"]} == {"x", "w", "s", "m", "to", "y"}


def test_numbers_that_json_does_not_have_are_texts(show: Any) -> None:
    nan = bytes.fromhex("0000c07f")
    made = graph(
        "x",
        "y",
        [tensor("x"), tensor("y")],
        [op("CLAMP", "x", "y", min_val=nan, max_val=bytes.fromhex("0000807f"), nan_mode=1)],
    )
    from tosa_convert.graph.dtypes import NanPropagationMode

    made.main.operators[0].attributes["nan_mode"] = NanPropagationMode.IGNORE
    tc.save(made, "m.tosa", validate=False)
    (file,) = json.loads(show("m.tosa", "--json", "--operators")[1])["files"]
    assert file["operators"][0]["attributes"] == {
        "min_val": "NaN",
        "max_val": "Infinity",
        "nan_mode": "IGNORE",
    }


def test_large_int4_constants_are_not_read(show: Any) -> None:
    """Not even to look for -8, which `validate` does; small ones are."""
    for count, found in ((1 << 22, []), (1 << 10, ["int4-minus-8"])):
        made = graph("", "w", [tensor("w", "INT4", (count,))], [op("CONST", "", "w")])
        made.main.tensors["w"].data = Constant(dtype("INT4"), count, b"\x08" * (count // 2))
        assert [finding.code for finding in tc.summarize(made).findings] == found
        assert [finding.code for finding in tc.validate(made)] == ["int4-minus-8"]


@pytest.mark.parametrize("kind", ["INT4", "FP4E2M1", "BOOL", "INT48"])
def test_values_of_every_form_have_the_same_statistics(show: Any, kind: str) -> None:
    data = bytes([0x21, 0x0F, 0x31]) if kind in ("INT4", "FP4E2M1") else bytes([1, 0, 1, 0, 0, 1])
    data = data * 6 if kind == "INT48" else data
    made = graph("", "w", [tensor("w", kind, (6,), data)], [op("CONST", "", "w")])
    tc.save(made, "embedded.tosa", validate=False)
    tc.save(made, "npy.tosa", weights="npy", validate=False)
    assert show("embedded.tosa", "--constants")[1] == show("npy.tosa", "--constants")[1]
