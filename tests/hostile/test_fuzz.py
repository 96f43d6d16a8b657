"""The fuzzers run, find defects that are injected, and make the same inputs in every run."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch_mlir", reason="the targets use MLIR")


def fuzz(root: Path, script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, str(root / "fuzz" / script), *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)


#: A campaign whose reader fails in every way that is counted, each at some of the inputs.
_WRONG = """
import os, sys, zlib
sys.path.insert(0, {fuzz!r})
import campaign, targets
class Wrong(targets.Flatbuffer):
    held = []
    def use(self, data):
        first = zlib.crc32(data) % 14 if data != self.seeds[0] else 0
        if first == 1: raise ValueError("wrong")
        if first == 2: os.abort()
        if first == 3:
            while True: pass
        if first == 4: self.held.append(bytearray(100 << 20))
targets.Target.hang_after = 0.2
targets.TARGETS["tosa"] = targets.Row(Wrong, 1.0, 1.0)
campaign.__file__ = __file__
sys.exit(campaign.main())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_a_campaign_finds_every_kind_of_defect(root: Path, tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text(_WRONG.format(fuzz=str(root / "fuzz")))
    options = ["--targets", "tosa", "--inputs", "30", "--seconds", "40", "--workers", "1"]
    line = [sys.executable, str(script), *options, "--state", str(tmp_path / "state")]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith("tosa | "))
    inputs, _, _, crashes, hangs, foreign, memory = map(int, row.split(" | ")[1:8])
    assert inputs == 30
    assert min(crashes, hangs, foreign, memory) > 0, row


#: A verb that does what a verb must not do: which, is the name of a function.
_MISBEHAVING = """
import os, sys, tempfile
from pathlib import Path
from random import Random
sys.path.insert(0, {fuzz!r})
import click, verb_targets
from verb_lines import LINES
from tosa_convert.cli.main import verb

def exit_70(): return 70
def exit_1(): return 1
def silent(): return 3
def escape(): print("\\x1b[31m"); return 0
def trace(): print("Traceback (most recent call last)", file=sys.stderr); return 0
def outside(): Path("stray").write_text(""); return 0
def beside(): Path("../stray").write_text(""); return 0
def changed(): Path("in/m.tosa").write_text(""); return 0
def partial(): Path("out/m.tosa.part").write_text(""); return 0
def refused(): Path("out/m.tosa").write_text(""); print("no", file=sys.stderr); return 3
def temporary(): tempfile.mkstemp(); return 0

target = verb_targets.VERB_TARGETS["verb-show"].make("verb-show", [], Path({scratch!r}))
assert target.run(target.sound()) == "tosa exit 0"
for what in (exit_70, exit_1, silent, escape, trace, outside, beside, changed, partial, refused,
        temporary):
    verb_targets.run = lambda command, words: what()
    try:
        target.run(target.sound())
    except AssertionError as error:
        print(what.__name__, str(error).splitlines()[0])

for name, (make, _, _) in LINES.items():
    command, *further = name.removesuffix("-run").split("-")
    known = verb(command)
    for part in further:
        known = known.commands[part]
    names = {{option for row in known.params for option in row.opts}}
    for seed in range(200):
        line = verb_targets.Line(name.removesuffix("-run"), target.files, Random(seed))
        make(line)
        given = {{w for w in line.case.words if w.startswith("-") and not w[1:].isdigit()}} - {{"-"}}
        assert given <= names, (name, given - names)
"""


@pytest.mark.slow
def test_a_campaign_of_verbs_judges_what_a_user_sees(root: Path, tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text(_MISBEHAVING.format(fuzz=str(root / "fuzz"), scratch=str(tmp_path / "verb")))
    line = [sys.executable, str(script)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "exit_70 exit code 70",
        "exit_1 exit code 1",
        "silent exit code 3 without a message",
        "escape control characters on standard output: ['\\x1b']",
        "trace a traceback",
        "outside files changed: ['stray']",
        "beside files outside: ['stray']",
        "changed files changed: ['in/m.tosa']",
        "partial partial files: ['out/m.tosa.part']",
        "refused files changed: ['out/m.tosa']",
        f"temporary temporary files: {done.stdout.rpartition('temporary files: ')[2].strip()}",
    ]


@pytest.mark.slow
def test_an_input_is_the_same_in_every_run(root: Path) -> None:
    arguments = ("campaign.py", "--show", "json", "--seed", "9", "--index", "77")
    first, second = fuzz(root, *arguments), fuzz(root, *arguments)
    assert first.stdout == second.stdout
    assert first.stdout.startswith("{")


@pytest.mark.slow
def test_large_files_are_measured(root: Path) -> None:
    done = fuzz(root, "large_files.py", "--megabytes", "0.5", "tosa", "mlir")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines()]
    assert len(rows) == 52
    assert {len(row) for row in rows} == {7}


@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None,
    reason="atheris is not installed: pip install '.[fuzz]' (Linux on x86-64)",
)
@pytest.mark.parametrize("name", ["flatbuffer", "json", "weights"])
def test_coverage_guided_inputs_find_no_defect(name: str, root: Path) -> None:
    done = fuzz(root, "atheris_fuzz.py", name, "-runs=500", "-rss_limit_mb=4096")
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Done 500 runs" in done.stderr
