"""Command lines on programs and files that are damaged in ways the campaign of fuzz/ has found."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from refusing import refused
from unit.building import branching, encode, example, graph, op, tensor

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.wire import layout
from tosa_convert.golden.arrays import load_npz
from tosa_convert.graph import OPERATORS

#: Verbs that look at every operator, and their arguments after the file.
INSPECTING = {
    "show": ["--operators"],
    "show --json": ["--json", "--operators", "--tensors"],
    "validate": ["--for", "vela"],
    "doctor": [],
    "report": ["-o", "m.dot"],
    "rewrite": ["-o", "out.tosa", "--no-validate"],
    "extract": ["--outputs", "y", "-o", "out.tosa", "--no-validate"],
    "weights": ["-o", "out.tosa"],
    "diff": ["m.json"],
    "convert": ["-o", "out.mlir", "--no-validate"],
    "upgrade": ["-o", "out.tosa", "--no-validate"],
}


def test_constants_of_a_wrong_number_of_operands_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tc.save(example(), "m.json")
    program = json.loads(Path("m.json").read_text())
    operators = program["regions"][0]["blocks"][0]["operators"]
    (constant,) = (row["outputs"][0] for row in operators if row["op"] == "CONST")
    operators[-1]["inputs"] += [constant] * 5
    Path("wrong.json").write_text(json.dumps(program))
    assert run(verb("diff"), ["m.json", "wrong.json"]) == 1
    operators[:] = [row for row in operators if row["op"] != "CONST"]
    Path("none.json").write_text(json.dumps(program))
    assert run(verb("diff"), ["wrong.json", "none.json"]) in (1, 3), capsys.readouterr().err


@pytest.mark.parametrize(
    ("operands", "every"),
    [(1, 16), *(pytest.param(operands, 1, marks=pytest.mark.slow) for operands in (0, 1, 9))],
)
def test_operators_with_a_wrong_number_of_operands_are_no_defect(
    operands: int,
    every: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    values, operators = [tensor("x", "INT8"), tensor("y", "INT8")], [op("IDENTITY", "x", "y")]
    program = json.loads(tc.dumps(graph("x", "y", values, operators), "json"))
    block = program["regions"][0]["blocks"][0]
    wrong = []
    for spec in OPERATORS[::every]:
        operator = {
            "op": spec.name,
            "attribute_type": layout.ATTRIBUTES[spec.code],
            "attribute": {},
        }
        block["operators"] = [{**operator, "inputs": ["x"] * operands, "outputs": ["y"]}]
        Path("m.json").write_text(json.dumps(program))
        try:
            Path("m.tosa").write_bytes(encode(tc.load("m.json")))
        except TosaConvertError:
            continue  # It lacks an attribute that has no default.
        for words, further in INSPECTING.items():
            name = words.split()[0]
            command = ["strip", "m.tosa"] if name == "weights" else ["m.tosa"]
            code = run(verb(name), [*command, *further])
            if code not in (0, 1, 2, 3, 4):
                wrong.append(f"{spec.name} {words}: {capsys.readouterr().err[-900:]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("field", ["regions", "blocks"])
def test_a_program_without_a_block_is_no_defect(
    field: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    program = json.loads(tc.dumps(example(), "json"))
    (program if field == "regions" else program["regions"][0])[field] = []
    Path("m.json").write_text(json.dumps(program))
    for words, further in INSPECTING.items():
        name = words.split()[0]
        command = ["strip", "m.json"] if name == "weights" else ["m.json"]
        code = run(verb(name), [*command, *further])
        assert code in (0, 1, 2, 3, 4), (words, capsys.readouterr().err)


#: Command lines that write to standard output: text, bytes, what click prints, and the others.
WRITING = [["show", "m.tosa"], ["convert", "m.tosa"], ["--help"]]
WRITING_AS_THOSE = [
    ["show", "m.tosa", "--json"],
    ["validate", "m.tosa", "--least"],
    ["doctor", "m.tosa"],
    ["doctor", "m.tosa", "--json"],
    ["diff", "m.tosa", "other.tosa"],
    ["report", "m.tosa", "--dot"],
    ["data", "x.npy"],
    ["frontends", "tflite"],
    ["explain", "add-broadcast"],
    ["extensions"],
    ["rewrite", "--list"],
    ["show", "--help"],
    ["--version"],
]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize(
    "words",
    [*WRITING, *(pytest.param(words, marks=pytest.mark.slow) for words in WRITING_AS_THOSE)],
    ids=" ".join,
)
def test_a_full_standard_output_is_a_file_error(words: list[str], tmp_path: Path) -> None:
    tc.save(example(), tmp_path / "m.tosa")
    tc.save(branching(), tmp_path / "other.tosa")
    np.save(tmp_path / "x.npy", np.zeros(3, np.float32))
    line = [sys.executable, "-m", "tosa_convert", *words]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            line, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
        )
        assert (done.returncode, b"[file-error]" in done.stderr) == (2, True), done.stderr
    if words[0] == "show":
        with open("/dev/full", "w") as full:
            code = subprocess.run(
                line, cwd=tmp_path, stdout=full, stderr=full, check=False
            ).returncode
        assert code == 2


DIGITS = "1" * 5000


@pytest.mark.parametrize(
    "type_",
    [f"tensor<{DIGITS}xf32>", f"tensor<2xi{DIGITS}>", f"tensor<2xsi{DIGITS}>", f"i{DIGITS}"],
)
def test_numbers_of_thousands_of_digits_in_types_are_malformed(type_: str) -> None:
    text = f"func.func @f(%a: {type_}) -> {type_} {{ return %a : {type_} }}"
    with refused("malformed-mlir"):
        tc.load(text.encode())


def test_the_widest_integer_type_of_mlir_is_read() -> None:
    for bits, code in ((2**24 - 1, "unsupported-dtype"), (2**24, "malformed-mlir")):
        text = f"func.func @f(%a: tensor<2xi{bits}>) {{ return }}"
        with refused(code):
            tc.load(text.encode())


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 400])
def test_errors_of_infinite_size_are_no_defect(
    number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tc.save(example(), "m.tosa")
    row = {"name": "y", "ok": False, "problem": "", "differing": 1, "elements": 3, "failing": 1}
    row |= {"margin": 2.5, "rule": "exact"}
    for field in ("differing", "elements", "failing", "margin"):
        text = json.dumps({"ok": False, "tensors": [{**row, field: "@"}]}).replace('"@"', number)
        Path("e.json").write_text(text)
        assert run(verb("report"), ["m.tosa", "--errors", "e.json", "-o", "m.dot"]) in (0, 2)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have shorter paths")
def test_folders_of_any_depth_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tc.save(example(), "m.tosa")
    folder = os.path.join("deep", *["a"] * 1200)
    here = Path()
    for _ in range(1201):
        here = here / ("a" if here.name else "deep")
        here.mkdir()
    Path("m.tosa").rename(f"{folder}/m.tosa")
    try:
        for words in (["show", "deep"], ["validate", "deep"], ["convert", "deep", "-o", "out"]):
            assert run(verb(words[0]), words[1:]) == 0
        assert os.path.isfile(folder.replace("deep", "out", 1) + "/m.mlir")
    finally:
        # pytest cannot remove folders as deep.
        subprocess.run(["rm", "-rf", "deep", "out"], check=True)


def looping() -> tc.Graph:
    """Return a loop whose condition and body are the branches of `branching`."""
    program = json.loads(tc.dumps(branching(), "json"))
    (operator,) = program["regions"][0]["blocks"][0]["operators"]
    operator |= {"op": "WHILE_LOOP", "attribute_type": "WhileLoopAttribute"}
    operator["attribute"] = {"cond_graph": "then", "body_graph": "else"}
    operator["inputs"] = ["x"]
    return tc.load(json.dumps(program).encode())


@pytest.mark.parametrize("count", [1, 3])
def test_regions_with_other_arguments_than_their_operator_passes_are_refused_in_text(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for made in (branching(), looping()):
        program = json.loads(tc.dumps(made, "json"))
        (operator,) = program["regions"][0]["blocks"][0]["operators"]
        operator["inputs"] = operator["inputs"][:1] * count
        Path("m.json").write_text(json.dumps(program))
        for options in ([], ["--generic"]):
            words = ["m.json", "-o", "m.mlir", "--no-validate", *options]
            assert run(verb("convert"), words) in (0, 3, 4)


@pytest.mark.parametrize("verb_name", ["run", "check", "bisect", "reduce"])
def test_programs_that_are_not_sound_are_refused_before_they_run(
    verb_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    further = {
        "run": ["--random", "1"],
        "check": ["--random", "1", "--against", "m.json"],
        "bisect": ["--random", "1", "--against", "m.json"],
        "reduce": ["--random", "1", "--command", "false", "--work", "work"],
    }
    for field in ("inputs", "outputs", "tensors", "blocks", "regions"):
        program = json.loads(tc.dumps(example(), "json"))
        block = program["regions"][0]["blocks"][0]
        if field in ("inputs", "outputs"):
            block[field] = ["nothing"]
        elif field == "tensors":
            block[field] = []
        elif field == "blocks":
            program["regions"][0][field] = []
        else:
            program[field] = []
        Path("m.json").write_text(json.dumps(program))
        code = run(verb(verb_name), ["m.json", *further[verb_name]])
        assert code == 3, (field, capsys.readouterr().err)


def test_a_member_of_an_archive_that_is_not_an_array_is_a_file_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tc.save(example(), "m.tosa")
    for name in ("metadata.json", "x", "x.npy/", "\x1b.npy"):
        with zipfile.ZipFile("x.npz", "w") as archive:
            archive.writestr(name, "{}")
        assert run(verb("data"), ["x.npz"]) in (0, 2), name
        assert run(verb("run"), ["m.tosa", "-i", "x.npz"]) == 2, name


def test_every_damaged_byte_of_a_compressed_archive_is_a_file_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez_compressed("x.npz", x=np.arange(60, dtype=np.float32))
    sound = Path("x.npz").read_bytes()
    codes = set()
    for at in range(len(sound)):
        for value in (0, 1, 0xFF):
            Path("x.npz").write_bytes(sound[:at] + bytes([value]) + sound[at + 1 :])
            codes.add(run(verb("data"), ["x.npz"]))
            with contextlib.suppress(TosaConvertError):
                load_npz("x.npz")
    assert codes == {0, 2}


def test_an_array_that_unpacks_to_much_takes_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tc.save(example(), "m.tosa")
    np.savez_compressed("x.npz", x=np.zeros((64, 1 << 19), np.float32))
    with zipfile.ZipFile("no.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(128 << 20))
    for words, code in (
        (["data", "x.npz"], 0),
        (["data", "no.npz"], 2),
        (["run", "m.tosa", "-i", "x.npz"], 2),
        (["run", "m.tosa", "-i", "no.npz"], 2),
    ):
        tracemalloc.start()
        assert run(verb(words[0]), words[1:]) == code, capsys.readouterr().err
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 64 << 20, (words, peak)
    assert "found shape [64, 524288]" in capsys.readouterr().err


def test_shapes_of_many_unknown_sizes_take_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(
        "func.func @main(%a: !tosa.shape<20000000>) -> !tosa.shape<20000000> "
        "{ return %a : !tosa.shape<20000000> }"
    )
    for words, expected in (
        (["validate", "m.mlir"], 1),
        (["convert", "m.mlir", "-o", "m.tosa"], 4),
    ):
        tracemalloc.start()
        code = run(verb(words[0]), words[1:])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (code, peak < 16 << 20) == (expected, True), (peak, capsys.readouterr().err)


@pytest.mark.parametrize(
    "sizes", ["2147483647x2147483647x4", "2147483647x2147483647x4x0", "65536x32768"]
)
def test_more_random_elements_than_fit_into_memory_are_refused(
    sizes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    type_ = f"tensor<{sizes}xf32>"
    Path("m.mlir").write_text(f"func.func @f(%a: {type_}) -> {type_} {{ return %a : {type_} }}")
    assert run(verb("run"), ["m.mlir", "--random", "1"]) == 4
    assert "too many elements for random values" in capsys.readouterr().err
