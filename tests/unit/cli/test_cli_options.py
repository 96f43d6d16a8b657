"""Options of all verbs: each is given once, or its values add up, and all errors have one form."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
import pytest
from unit.building import encode, example, graph, op, tensor

from manual.commands import Documented, verbs
from tosa_convert.cli.main import run, tosa_flatbuffer
from tosa_convert.cli.option import Option
from tosa_convert.io import option_table

ALL = [verb for verb in verbs() if not isinstance(verb.command, click.Group)]
OPTIONS = [
    pytest.param(verb, param, id=f"{verb.name} {param.opts[-1]}")
    for verb in ALL
    for param in verb.command.params
    if isinstance(param, click.Option) and not param.is_eager
]
#: Two values of each option whose values add up.
VALUES = {
    "--known": ("a", "b"),
    "--like": ("a.tosa", "b.tosa"),
    "--against": ("one", "other"),
    "--custom": ("a.py", "b.py"),
    "--depends": ("a", "b"),
    "--atol": ("a:1", "b:2"),
    "--for": ("vela", "flatc"),
    "--frontends": ("onnx", "torch"),
    "--input": ("a=a.npy", "b=b.npy"),
    "--input-names": ("a", "b"),
    "--input-shape": ("a=1", "b=2"),
    "--inputs": ("a", "b"),
    "--limit": ("json-depth=7", "text-depth=9"),
    "--narrow": ("i64", "f64"),
    "--only": ("REPAIR", "clean-up"),
    "--output-names": ("a", "b"),
    "--outputs": ("a", "b"),
    "--pattern": ("a*", "b*"),
    "--print": ("a*", "b*"),
    "--profile": ("PRO-INT", "ext-int16"),
    "--range": ("a=0:1", "b=0:1"),
    "--types": ("INT8", "fp32"),
    "--rtol": ("a:1", "b:2"),
    "--until": ("a*", "b*"),
}


def tokens(param: click.Option, value: str = "x") -> list[str]:
    return [param.opts[-1]] if param.is_flag else [param.opts[-1], value]


@pytest.mark.parametrize(("verb", "param"), OPTIONS)
def test_an_option_is_one_of_ours(verb: Documented, param: click.Option) -> None:
    assert isinstance(param, Option)
    listed = {name for other in verb.command.params for name in other.opts}
    assert {*param.excludes, *param.needs} <= listed


@pytest.mark.parametrize(
    ("verb", "param"),
    [row for row in OPTIONS if not row.values[1].multiple],  # type: ignore[union-attr]
)
def test_an_option_that_is_given_twice_is_refused(
    verb: Documented, param: Option, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [*verb.name.split(), *tokens(param), *tokens(param, "y")]
    assert run(tosa_flatbuffer, given) == 2
    assert f"{param.flag} is given twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "param"),
    [row for row in OPTIONS if row.values[1].multiple],  # type: ignore[union-attr]
)
def test_all_values_of_an_option_reach_the_verb(
    verb: Documented, param: Option, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = VALUES[param.flag]
    if param.flag == "--only" and verb.name in ("fuzz", "generate"):
        values = "ABS", "add"
    seen: dict[str, Any] = {}
    monkeypatch.setattr(verb.command, "callback", lambda **given: seen.update(given))
    monkeypatch.setattr(param, "needs", ())
    monkeypatch.setattr(verb.command, "params", [param])
    monkeypatch.setattr(verb.command, "_parser", None)  # it would keep these parameters
    given = [*verb.name.split(), *tokens(param, values[0]), *tokens(param, values[1])]
    assert run(tosa_flatbuffer, given) == 0
    text = repr(seen[param.name or ""]).lower().replace("_", "-").replace("': (", "=")
    assert all(value.lower() in text for value in values)


@pytest.mark.parametrize(
    ("arguments", "expected", "near"),
    [
        (["conver"], "found 'conver', expected one of", "did you mean convert?"),
        (["weights", "strp"], "found 'strp'", "did you mean strip?"),
        (["show", "--operator"], "there is no option --operator", "did you mean --operators?"),
        (["show", "--xyzzy"], "there is no option --xyzzy", "see `"),
        (["convert", "--to", "mir"], "--to: error: found 'mir'", "did you mean mlir?"),
        (["convert", "--for", "velo"], "--for: error: found 'velo'", "did you mean vela?"),
        (["doctor", "x", "--for", "iree==3.22"], "'3.22'", "did you mean 3.2.0?"),
        (["show", "--limit", "text-dept=3"], "--limit: error: found 'text-dept'", "text-depth?"),
        (["show", "--limit", "depth"], "--limit depth: error: expected NAME=N", ""),
        (["validate", "--profile", "PRO_INT"], "--profile: error: found 'PRO_INT'", "PRO-INT?"),
        (["suite", "x", "--against", "y", "--profile", "INT16"], "--profile: error: ", "EXT-INT16?"),
        (["rewrite", "--only", "clean"], "--only: error: found 'clean'", "did you mean clean-up?"),
        (["generate", "--seed", "1", "--only", "ADDD"], "--only: error: ", "did you mean ADD?"),
        (["run", "x", "--narrow", "i46"], "--narrow: error: found 'i46'", "did you mean i64?"),
        (["suite", "x", "--frontends", "onx"], "--frontends: error: ", "did you mean onnx?"),
        (["generate", "--seed", "one"], "--seed: error: found 'one', expected a whole number", ""),
        (["run", "x", "--random", "-1"], "found '-1', expected a whole number from 0 up", ""),
        *(
            (["run", "x", "--timeout", far], f"found '{far}', expected a number above 0, at most", "")
            for far in ("inf", "nan", "1e300")
        ),
        (["fuzz", "--against", "x", "--work", "y", "--seconds", "nan"], "found 'nan', expected", ""),
        (["run", "x", "--timeout", "0"], "--timeout: error: found '0', expected a number above 0", ""),
        (["convert", "--out", "x"], "there is no option --out", "did you mean --output?"),
        (["data", "--as", "bf17", "x"], "--as: error: found 'bf17'", "did you mean BF16?"),
        *(
            (["convert", "m.tosa", "--input-shape", f"x={size}x4"], "each size a number from 0", "")
            for size in ("9" * 5000, "\u0663")
        ),
        (["convert", "m.tosa", "--input-shape", "x=4294967296x4"], "at most", ""),
        (["convert", "m.tosa", "--input-shape", "=2x4"], "expected NAME", ""),
        (["frontends", "onx"], "error: found 'onx', expected one of", "did you mean onnx?"),
        (["extract"], "MODEL is missing", "see `"),
        (["show", "--grep", "("], "--grep needs --operators", "see `"),
        (["run", "x", "--inside", "1"], "--inside needs --intermediates", "see `"),
        (["show", "--limit", "json-depth=1", "--limit", "json-depth=2"], "is given twice", ""),
    ],
)  # fmt: skip
def test_all_errors_of_the_command_line_have_one_form(
    arguments: list[str], expected: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tosa_flatbuffer, arguments) == 2
    out, err = capsys.readouterr()
    head, *hints = err.splitlines()
    assert out == ""
    assert expected in head
    assert ": error: " in head
    assert head.endswith("[option-conflict]")
    assert near in " ".join(hints)


def test_quiet_leaves_errors_and_data_and_verbose_says_what_was_recognised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path, part = tmp_path / "m.tosa", tmp_path / "part.tosa"
    path.write_bytes(encode(example()))
    given = ["extract", str(path), "--outputs", example().main.outputs[0], "-o", str(part)]
    assert run(tosa_flatbuffer, given) == 0
    assert capsys.readouterr().err.startswith(f"{part}: ")
    assert run(tosa_flatbuffer, [*given, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert not caplog.messages
    assert run(tosa_flatbuffer, [*given, "-v"]) == 0
    read, written, took = caplog.messages
    assert read.startswith(f"{path}: TOSA flatbuffer")
    assert written.startswith(f"{part}: TOSA flatbuffer, TOSA 1.0")
    assert took.startswith("extract took ")
    capsys.readouterr()
    assert run(tosa_flatbuffer, ["show", "-q", str(path)]) == 0
    assert capsys.readouterr().out
    assert run(tosa_flatbuffer, ["show", "-q", str(tmp_path / "gone.tosa")]) == 2
    assert "[file-error]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("extract m.tosa --outputs layer2 -o x.tosa", '"layer_2"'),
        ("extract m.tosa --outputs layer_2 -o x.tos", ".tosa"),
        ("convert m.tosa --input-shape layer1=1 -o x.tosa", '"layer_1"'),
        ("convert m.mlir --func frist -o x.tosa", "@first"),
        ("run m.tosa --random 1 --range layer1=0:1", "layer_1"),
        ("run m.tosa -i layer1=x.npy", '"layer_1"'),
        ("run m.tosa --random 1 --intermediates o --pattern layer2", "layer_2"),
        ("check m.tosa --random 1 --against m2.tosa --atol layer2:1", "layer_2"),
        ("check m.tosa --random 1 --against onnxruntim:x", "onnxruntime"),
    ],
)
def test_a_mistyped_name_of_the_file_gets_a_suggestion(
    words: str,
    near: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    if words.startswith(("run", "check")):
        request.getfixturevalue("refmodel")
    monkeypatch.chdir(tmp_path)
    tensors = [tensor("layer_1", "FP32", (1,)), tensor("layer_2", "FP32", (1,))]
    made = graph("layer_1", "layer_2", tensors, [op("EXP", "layer_1", "layer_2")])
    for name in ("m.tosa", "m2.tosa"):
        Path(name).write_bytes(encode(made))
    body = "(%x: tensor<1xf32>) -> tensor<1xf32> { return %x : tensor<1xf32> }"
    Path("m.mlir").write_text(f"func.func @first{body}\nfunc.func @second{body}\n")
    np.save("x.npy", np.ones(1, np.float32))
    assert run(tosa_flatbuffer, words.split()) in (2, 3)
    assert f"did you mean {near}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        ("nosuch.py", "cannot be read: No such file or directory [file-error]"),
        ("nosuch.tosa", "cannot be read: No such file or directory [file-error]"),
        ("keras:m.keras", "are run when they are converted"),
        ("tensorflow:folder", "are run when they are converted"),
        ("onnxruntim:m.onnx", "did you mean onnxruntime?"),
    ],
)
def test_a_backend_that_is_not_there_is_named(
    backend: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.tosa"
    path.write_bytes(encode(example()))
    given = ["check", str(path), "--random", "1", "--against", backend]
    assert run(tosa_flatbuffer, given) == 2
    assert expected in capsys.readouterr().err


#: Verb and flag -> the earlier spelling, which documents had.
OLD = {
    ("diff", "--compare-locations"): "--locations",
    ("diff", "--compare-names"): "--names",
    ("fuzz", "--work"): "--state",
    ("generate", "--size"): "--operators",
    ("reduce", "--command"): "--check",
    ("show", "--constants"): "--weights",
    ("suite", "--json-report"): "--json",
    ("suite", "--max-cases"): "--limit",
    ("suite", "--profile"): "--extensions",
    ("suite", "--through"): "--via",
    ("suite", "--work"): "--out",
    ("upgrade", "--json-report"): "--report",
    ("weights strip", "--parameters"): "--all",
}


@pytest.mark.parametrize(("verb", "flag"), OLD)
def test_an_earlier_spelling_is_the_same_option_and_not_shown(
    verb: str, flag: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (documented,) = (row for row in ALL if row.name == verb)
    (param,) = (row for row in documented.command.params if flag in row.opts)
    assert isinstance(param, Option)
    old = OLD[verb, flag]
    given = [old, *tokens(param)[1:], *tokens(param, "y")]
    if param.multiple:
        assert run(tosa_flatbuffer, ["suite", "x", "--against", "y", old, "INT16"]) == 2
        assert f"{flag}: error: found 'INT16'" in capsys.readouterr().err
    else:
        assert run(tosa_flatbuffer, [*verb.split(), *given]) == 2
        assert f"{flag} is given twice" in capsys.readouterr().err
    assert run(tosa_flatbuffer, [*verb.split(), "--help"]) == 0
    assert not re.search(rf"{old}(?![-a-z])", capsys.readouterr().out)
    completed = documented.command.shell_complete(documented.context, "--")
    assert flag in {item.value for item in completed}
    assert old not in {item.value for item in completed}
    named = re.compile(rf"\b{verb}\b[^|`\n]*\s{old}(?![-a-z])")
    for path in [root / "README.md", *root.glob("docs/**/*.md")]:
        assert not named.search(path.read_text(encoding="utf-8")), path


def meaning(param: click.Option) -> tuple[object, ...]:
    """Return what a flag takes, and the first sentence of its help."""
    sentence = (param.help or "").partition(". ")[0].rstrip(".")
    return param.is_flag, param.metavar, param.type.to_info_dict(), sentence


#: Weights are written in formats of their own.
OTHER_MEANING: Final = {("weights export", "--to")}


def test_a_flag_has_one_meaning_in_all_verbs() -> None:
    meanings: dict[str, list[tuple[str, tuple[object, ...]]]] = {}
    for verb in ALL:
        for param in verb.command.params:
            if isinstance(param, click.Option):
                for name in param.opts:
                    if (verb.name, name) in OTHER_MEANING:
                        continue
                    meanings.setdefault(name, []).append((verb.name, meaning(param)))
    assert len(meanings["--output"]) > 10
    different = {
        name: rows for name, rows in meanings.items() if any(row[1] != rows[0][1] for row in rows)
    }
    assert different == {}


def test_runs_of_other_programs_end() -> None:
    found = {
        verb.name: param.get_default(verb.context)
        for verb in ALL
        for param in verb.command.params
        if "--timeout" in param.opts
    }
    # The converter of a framework has a limit of its own.
    assert found.pop("convert") is None
    assert found.pop("suite") == 60
    assert set(found.values()) == {600}


def test_some_verb_has_every_option_of_the_table() -> None:
    found = {p.flag for verb in ALL for p in verb.command.params if isinstance(p, Option)}
    assert found == {*option_table.FLAGS}
