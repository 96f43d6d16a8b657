"""The command when MLIR crashes: a message, an exit code, no litter, and the other files converted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("torch_mlir", reason="reads MLIR")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="supervised on Linux only")

TEXT = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tosa.exp %x : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""
#: Nested so deeply that MLIR's parser overflows its stack, if our own check lets it pass.
DEEP = f"func.func @f() attributes {{a = {'[' * 200_000}}} {{ return }}"

#: nohup, and "&" in a script, start the tests with signals ignored, which a child process inherits.
_DEFAULT_SIGNALS = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
for name in ("SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_DFL)
"""

#: The command, with a parser that crashes on files called bad* as the first argument says.
_COMMAND = """
import os, signal, sys, time
from tosa_convert.cli.main import main_convert
from tosa_convert.bindings import parse
way = sys.argv.pop(1)
real = parse.parse
def parsed(bindings, context, data, path="", **options):
    if "bad" in path:
        print("reading", file=sys.stderr, flush=True)
        if way == "deaf":  # native code: Python's signal handlers do not run
            sum(range(10**12))
        os.kill(os.getpid(), getattr(signal, way))
    return real(bindings, context, data, path, **options)
parse.parse = parsed
main_convert()
"""


def command(way: str, *arguments: str | Path) -> list[str]:
    return [sys.executable, "-c", _DEFAULT_SIGNALS + _COMMAND, way, *map(str, arguments)]


@contextmanager
def started(line: list[str], **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A running command, which does not outlive the test."""
    process: subprocess.Popen[bytes] = subprocess.Popen(line, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def run(way: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(way, *arguments), capture_output=True, text=True, check=False, timeout=60
    )


def installed(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command with MLIR's own parser."""
    line = [sys.executable, "-m", "tosa_convert", "convert", *map(str, arguments)]
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        line, capture_output=True, text=True, check=False, timeout=60, **options
    )


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "bad.mlir"
    path.parent.mkdir()
    path.write_text(TEXT)
    return path


def test_a_file_on_which_mlir_crashes_is_named(tmp_path: Path) -> None:
    """A real crash, of MLIR's own parser."""
    source, target = tmp_path / "deep.mlir", tmp_path / "out" / "m.tosa"
    source.write_text(DEEP)
    target.parent.mkdir()
    target.write_bytes(b"old")
    done = installed(source, "-o", target)
    assert "nested more than 1024 deep" in done.stderr
    let_pass = ("--limit", "text-depth=1000000")
    done = installed(source, "-o", target, *let_pass)
    assert done.returncode == 3
    assert (
        f"{source}: error: MLIR crashed while it read the file (SIGSEGV) [malformed-mlir]"
        in done.stderr
    )
    assert target.read_bytes() == b"old"
    assert os.listdir(target.parent) == ["m.tosa"]
    done = installed(*let_pass, input=DEEP)
    assert done.returncode == 3
    assert "<stdin>: error: MLIR crashed" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("way", ["SIGABRT", "SIGBUS", "SIGKILL"])
def test_every_signal_that_ends_mlir_is_reported(way: str, bad: Path, tmp_path: Path) -> None:
    done = run(way, bad, "-o", tmp_path / "m.tosa")
    assert done.returncode == 3
    assert f"({way})" in done.stderr
    assert "[malformed-mlir]" in done.stderr
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_other_files_are_converted(jobs: int, bad: Path, tmp_path: Path) -> None:
    names = {f"{name}.tosa" for name in "abcxyz"}
    for name in "abcxyz":
        (bad.parent / f"{name}.mlir").write_text(TEXT)
    (bad.parent / "bad2.mlir").write_text(TEXT)
    done = run("SIGSEGV", bad.parent, "-o", tmp_path / "out", "-j", str(jobs))
    assert done.returncode == 3
    assert set(os.listdir(tmp_path / "out")) == names
    crashes = [line for line in done.stderr.splitlines() if "MLIR crashed" in line]
    assert [line.partition(":")[0] for line in crashes] == [str(bad), str(bad.parent / "bad2.mlir")]
    assert "6 of 8 files converted" in done.stderr


@pytest.mark.parametrize(
    ("name", "many"),
    [("SIGTERM", False), ("SIGTERM", True), ("SIGINT", False), ("SIGINT", True), ("SIGHUP", False)],
)
def test_a_parser_that_does_not_end_can_be_stopped(
    name: str, many: bool, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = (bad.parent, "out") if many else (bad, "m.tosa")
    arguments: list[str | Path] = [source, "-o", tmp_path / target]
    if many:
        (bad.parent / "bad2.mlir").write_text(TEXT)
    number = getattr(signal, name)
    with started(command("deaf", *arguments), stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"reading\n"
        process.send_signal(number)
        # The pipe ends when no process has it open: no child is left.
        process.communicate(timeout=20)
    assert process.returncode == 128 + number
    assert not list(tmp_path.rglob("*.tosa")) + list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("many", [False, True])
def test_no_process_goes_on_when_the_command_is_killed(
    many: bool, bad: Path, tmp_path: Path
) -> None:
    source, target = (bad.parent, "out") if many else (bad, "m.tosa")
    arguments: list[str | Path] = [source, "-o", tmp_path / target]
    if many:
        (bad.parent / "bad2.mlir").write_text(TEXT)
    process = subprocess.Popen(command("deaf", *arguments), stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert process.stderr.readline() == b"reading\n"
    began = time.monotonic()
    process.kill()
    process.communicate(timeout=20)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
@pytest.mark.parametrize("to_all", [False, True])
def test_a_command_that_is_writing_cleans_up(name: str, to_all: bool, tmp_path: Path) -> None:
    """Also when the terminal tells all processes at once, so that the child hears it twice."""
    source = tmp_path / "in.mlir"
    source.write_text(TEXT)
    target = tmp_path / "out" / "m.tosa"
    target.parent.mkdir()
    slow = _DEFAULT_SIGNALS + (
        "import sys, time\n"
        "from tosa_convert import files\n"
        "from tosa_convert.cli.main import main_convert\n"
        "def slow(*args):\n"
        "    print('writing', flush=True)\n"
        "    time.sleep(60)\n"
        "files._write_all = slow\n"
        "main_convert()\n"
    )
    line = [sys.executable, "-c", slow, str(source), "-o", str(target)]
    number = getattr(signal, name)
    with started(line, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        if to_all:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        process.communicate(timeout=20)
    assert process.returncode == 128 + number
    assert os.listdir(target.parent) == []


def test_the_command_does_not_fork_for_bytecode(root: Path, tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from tosa_convert.cli.main import main_convert\n"
        "def fork(): sys.exit(9)\n"
        "os.fork = fork\n"
        "main_convert()\n"
    )
    source = tmp_path / "m.mlir"
    source.write_text(TEXT)
    codes = [
        subprocess.run(
            [sys.executable, "-c", code, path, "-o", tmp_path / "m.tosa"], check=False, timeout=60
        ).returncode
        for path in (root / "examples" / "digits_cnn.mlirbc", source)
    ]
    assert codes == [0, 9]


def test_exit_codes_and_output_pass_through(tmp_path: Path) -> None:
    done = installed("--to", "json", input=TEXT)
    assert done.returncode == 0
    assert '"op": "EXP"' in done.stdout
    done = installed("--to", "json", input=TEXT.replace("f32", "f64"))
    assert done.returncode == 4
    assert "[unsupported-dtype]" in done.stderr
    done = installed("--to", "json", input="func.func")
    assert done.returncode == 3


def test_a_program_that_imports_us_is_not_forked() -> None:
    code = (
        "import os, tosa_convert as tc; before = os.getpid()\n"
        f"tc.load({TEXT.encode()!r}); assert os.getpid() == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
