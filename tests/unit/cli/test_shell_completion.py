"""What a shell shows for Tab: verbs, options, choices and file names, without doing any work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from unit.building import encode, graph, op, tensor

from manual.commands import programs, verbs
from tosa_convert.cli import option
from tosa_convert.cli.main import tosa_flatbuffer

#: What click needs to know to write and to answer a shell's script.
SHELLS = ("bash", "zsh", "fish")
#: A value of an option that is, or has in it, the name of a file or folder.
FILE = re.compile(r"\b(FILES?|DIR|NPZ|BACKEND|PROGRAM|IN)\b")


def completions(line: str) -> list[tuple[str, str]]:
    """Return the kind and the text of what bash is offered at the end of a line."""
    words = line.split(" ")
    program = words[0]
    environment = {
        **os.environ,
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        f"_{program.replace('-', '_').upper()}_COMPLETE": "bash_complete",
    }
    entry = "main_convert" if program.endswith("-convert") else "main"
    code = f"import sys; from tosa_convert.cli import start; sys.argv[0] = {program!r}; start.{entry}()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return [(kind, text) for kind, _, text in (row.partition(",") for row in done.stdout.split())]


def test_options_and_their_choices_are_completed() -> None:
    assert ("plain", "--weights") in completions("tosa-flatbuffer-convert x --we")
    assert ("plain", "--weights") in completions("tosa-flatbuffer convert x --we")
    assert completions("tosa-flatbuffer convert --weights n") == [("plain", "npy")]


@pytest.mark.parametrize(
    "line",
    [
        "tosa-flatbuffer check m",
        "tosa-flatbuffer-convert m",
        "tosa-flatbuffer convert m.tosa -o n",
        "tosa-flatbuffer check m.tosa -i image=i",
        "tosa-flatbuffer check m.tosa --against b",
    ],
)
def test_file_names_are_completed(line: str) -> None:
    assert [kind for kind, _ in completions(line)] == ["file"]


def test_every_value_that_is_a_file_is_completed() -> None:
    for documented in (*verbs(), *programs()):
        for parameter in documented.command.params:
            if FILE.search(parameter.metavar or ""):
                items = parameter.shell_complete(documented.context, "")
                kinds = {item.type for item in items}
                assert kinds & {"file", "dir"}, f"{documented.name}: {parameter.name}"


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("program", ["tosa-flatbuffer", "tosa-flatbuffer-convert"])
def test_the_script_for_a_shell_is_valid(shell: str, program: str, tmp_path: Path) -> None:
    entry = "main_convert" if program.endswith("-convert") else "main"
    code = f"import sys; from tosa_convert.cli import start; sys.argv[0] = {program!r}; start.{entry}()"
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    if shell == "bash" and sys.platform in {"win32", "darwin"}:
        pytest.skip("click needs bash 4.4 to write its script")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, variable: f"{shell}_source"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert variable in done.stdout
    assert program in done.stdout
    executable = shutil.which(shell)
    if executable is None:
        pytest.skip(f"{shell} is not installed, so its script is not parsed")
    script = tmp_path / "script"
    script.write_text(done.stdout, encoding="utf-8")
    subprocess.run([executable, "-n", str(script)], check=True)


def test_what_does_not_exist_is_not_completed() -> None:
    assert completions("tosa-flatbuffer abs") == []
    assert completions("tosa-flatbuffer convert --abs") == []


# -- what a file has -------------------------------------------------------------------------------

MODULE = """
func.func @first(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }
func.func private @second(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }
func.func private @declared(tensor<2xf32>)
"""


@pytest.fixture
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["image", "layer/1:0", "logits", "x; rm -r .", "\x1b[2J"]
    tensors = [tensor(name, "FP32", (2,)) for name in names]
    steps = [op("EXP", "image", "layer/1:0"), op("EXP", "layer/1:0", "logits")]
    made = graph("image", "logits", tensors, steps)
    data = encode(made)
    Path("m.tosa").write_bytes(data)
    Path("bad.tosa").write_bytes(data[: len(data) // 2])
    Path("m.mlir").write_text(MODULE)
    Path("bad.mlir").write_text(MODULE[:80])


def offered(line: str) -> list[str]:
    """Return what is offered at the end of a line, in this process."""
    *words, incomplete = line.split(" ")
    found = ShellComplete(tosa_flatbuffer, {}, "tosa-flatbuffer", "").get_completions(
        words, incomplete
    )
    return [item.value if item.type == "plain" else item.type for item in found]


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("convert m.mlir --func ", ["first", "second"]),
        ("show m.mlir --func s", ["second"]),
        ("validate --func f m.mlir --func S", ["second"]),
        ("show m.tosa --func ", []),
        ("extract m.tosa --outputs ", ["image", "layer/1:0", "logits"]),
        ("extract m.tosa --outputs L", ["layer/1:0", "logits"]),
        ("extract m.tosa --outputs logits,lay", ["logits,layer/1:0"]),
        ("extract --func f m.tosa --inputs im", ["image"]),
        ("extract m.tosa -o x.tosa --outputs logits --inputs im", ["image"]),
        ("run m.tosa --intermediates o --pattern la", ["layer/1:0"]),
        ("run m.tosa -i im", ["image=", "file"]),
        ("run m.tosa -i image=x", ["file"]),
        ("bisect m.tosa --range ", ["image="]),
        ("convert m.tosa --input-shape i", ["image="]),
        ("check m.tosa --atol ", ["logits:"]),
        ("check m.tosa --rtol logits:", []),
        ("convert x --via ex", ["executorch"]),
        ("convert x --narrow i64,f", ["i64,f64", "i64,f32"]),
        ("validate m.tosa --profile PRO-INT,ext-int1", ["PRO-INT,EXT-INT16"]),
        ("frontends on", ["onnx"]),
        ("extract gone.tosa --outputs ", []),
        ("extract - --outputs ", []),
        ("extract --outputs ", []),
        ("extract . --outputs ", []),
    ],
)
def test_names_of_the_file_are_completed(line: str, expected: list[str]) -> None:
    assert offered(line) == expected


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("file", ["bad.tosa", "bad.mlir"])
def test_a_damaged_file_is_no_reason_to_say_something(
    file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for line in (f"extract {file} --outputs ", f"show {file} --func ", f"check {file} --range "):
        assert offered(line) == []
    assert offered("convert m.tosa --for vela --to mlirb") == ["mlirbc"]
    assert offered("convert m.tosa --for nosuch --limit x --to mlirb") == ["mlirbc"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("_files")
def test_a_large_file_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "show m.mlir --func s"
    monkeypatch.setattr(option, "_MOST_TEXT", 80)
    assert offered(line) == []
    assert offered("extract m.tosa --outputs im") == ["image"]
    monkeypatch.setattr(option, "_MOST_BINARY", 80)
    assert offered("extract m.tosa --outputs im") == []


@pytest.mark.slow
@pytest.mark.usefixtures("_files")
@pytest.mark.skipif(sys.platform == "win32", reason="it measures the time of child processes")
def test_names_of_a_small_file_are_there_at_once() -> None:
    """Completing takes little longer than importing numpy and click, which is half of it or more."""
    least = {}
    for name in ("imports", "completion"):
        times = []
        for _ in range(5):
            before = os.times().children_user
            if name == "imports":
                subprocess.run([sys.executable, "-c", "import numpy, click"], check=True)
            else:
                assert completions("tosa-flatbuffer extract m.tosa --outputs im")
            times.append(os.times().children_user - before)
        least[name] = min(times)
    assert least["completion"] < max(0.3, 2 * least["imports"])
