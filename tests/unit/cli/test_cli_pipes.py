"""The command-line tool as a process: pipes, terminals, and pipes that are closed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from unit.building import encode, example, graph, op, tensor

import tosa_convert as tc
from tosa_convert.graph import Graph, compare

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes and terminals as POSIX has them")

TOOL = [sys.executable, "-W", "error", "-m", "tosa_convert", "convert"]


def large() -> Graph:
    """Return a graph of 4 MiB, more than any pipe holds."""
    weight = tensor("w", "INT8", (1 << 22,), bytes(range(256)) * (1 << 14))
    return graph("", "w", [weight], [op("CONST", "", "w")])


def tool(*arguments: str, data: bytes = b"", **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*TOOL, *arguments], input=data, capture_output=True, timeout=120, check=False, **options
    )


def test_standard_input_becomes_standard_output() -> None:
    for arguments in (("--to", "json"), ("-", "--to", "json"), ("-", "--to", "json", "-o", "-")):
        found = tool(*arguments, data=encode(example()))
        assert (found.returncode, found.stderr) == (0, b"")
        assert compare(tc.load(found.stdout), example(), locations=True) is None


def test_a_pipe_that_is_closed_early_is_not_a_bug(tmp_path: Path) -> None:
    source = tmp_path / "m.tosa"
    source.write_bytes(encode(large()))
    process = subprocess.Popen(
        [*TOOL, str(source), "--to", "tosa"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(8)[4:] == b"TOSA"
    process.stdout.close()
    message = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 128 + signal.SIGPIPE
    assert message == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_standard_output_on_a_full_disk_is_an_expected_error(tmp_path: Path) -> None:
    source = tmp_path / "m.tosa"
    source.write_bytes(encode(large()))
    with open("/dev/full", "wb") as full:
        found = subprocess.run(
            [*TOOL, str(source), "--to", "tosa"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert found.returncode == 2
    assert b"No space left on device" in found.stderr
    assert b"Traceback" not in found.stderr
    assert b"Exception ignored" not in found.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_closed_standard_streams_are_a_wrong_request(tmp_path: Path, closed: str) -> None:
    source = tmp_path / "m.tosa"
    source.write_bytes(encode(example()))
    name = "-" if closed == "<&-" else str(source)
    command = f'"$@" {closed}'
    found = subprocess.run(
        ["/bin/sh", "-c", command, "sh", *TOOL, name, "--to", "json"],
        capture_output=True,
        check=False,
    )
    assert found.returncode == 2
    assert b"standard" in found.stderr
    assert b"Traceback" not in found.stderr


def on_a_terminal(*arguments: str) -> tuple[int, bytes]:
    """Run with standard output on a terminal: (exit code, all output)."""
    import pty

    master, slave = pty.openpty()
    try:
        process = subprocess.Popen(
            [*TOOL, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        out = b""
        while True:
            ready, _, _ = select.select([master], [], [], 60)
            assert ready, "nothing happens"
            try:
                piece = os.read(master, 65536)
            except OSError:
                break  # the other end is closed
            if not piece:
                break
            out += piece
        return process.wait(60), out
    finally:
        os.close(master)


@pytest.mark.parametrize("kind", ["tosa", "mlirbc"])
def test_binary_never_goes_to_a_terminal(torch_mlir: Any, tmp_path: Path, kind: str) -> None:
    source = tmp_path / "m.tosa"
    source.write_bytes(encode(example()))
    code, out = on_a_terminal(str(source), "--to", kind)
    assert code == 2
    assert b"does not go to a terminal" in out
    assert b"TOSA\0" not in out
    assert b"ML\xefR" not in out


def test_text_goes_to_a_terminal(tmp_path: Path) -> None:
    source = tmp_path / "m.tosa"
    source.write_bytes(encode(example()))
    code, out = on_a_terminal(str(source), "--to", "json")
    assert code == 0
    assert b"regions" in out


def test_converting_without_mlir_needs_no_bindings(tmp_path: Path) -> None:
    (tmp_path / "m.tosa").write_bytes(encode(example()))
    script = (
        "import sys\n"
        "for name in ('torch_mlir', 'iree', 'mlir'):\n"
        "    sys.modules[name] = None\n"
        "from tosa_convert.cli.main import run, verb\n"
        "files = ['m.tosa', 'm.json', 'm.mlir', 'm.mlirbc', 'n.tosa']\n"
        "for one, other in zip(files, files[1:]):\n"
        "    assert run(verb('convert'), [one, '-o', other, '--verify']) == 0\n"
        "assert 'tosa_convert.formats.bindings' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    assert compare(tc.load(tmp_path / "n.tosa"), example()) is None


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="a pipe has no path here")
@pytest.mark.parametrize("verb", ["convert", "extract"])
def test_a_pipe_is_accepted_in_place_of_a_file(verb: str, tmp_path: Path) -> None:
    """As in `tosa-flatbuffer-convert <(...)`: a file that is not a regular file is read once."""
    source = tmp_path / "m.tosa"
    subprocess.run(
        [*TOOL[:-1], "generate", "--seed", "1", "--size", "3", "-o", str(source)], check=True
    )
    expected, found = tmp_path / "expected.json", tmp_path / "found.json"
    options: list[str] = []
    if verb == "extract":
        options = ["--outputs", tc.load(source).main.outputs[0]]
    command = [sys.executable, "-m", "tosa_convert", verb, *options]
    subprocess.run([*command, str(source), "-o", str(expected)], check=True)
    reads, writes = os.pipe()
    os.write(writes, source.read_bytes())
    os.close(writes)
    try:
        subprocess.run(
            [*command, f"/dev/fd/{reads}", "-o", str(found)], check=True, pass_fds=[reads]
        )
    finally:
        os.close(reads)
    assert found.read_bytes() == expected.read_bytes()
