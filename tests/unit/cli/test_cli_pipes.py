"""The command-line tool as a process: pipes, terminals, and pipes that are closed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from unit.building import graph, op, tensor
from unit.cli.test_cli import TEXT

import tosa_convert as tc
from tosa_convert.graph import Graph

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


@pytest.mark.slow
def test_a_pipeline_of_both_directions_gives_the_same_bytes(
    torch_mlir: Any, tmp_path: Path
) -> None:
    source = tmp_path / "m.mlir"
    source.write_text(TEXT)
    first = tool("--export-to-flatbuffer", str(source))
    assert (first.returncode, first.stderr) == (0, b"")
    back = tool("--import-from-flatbuffer", data=first.stdout)
    assert (back.returncode, back.stderr) == (0, b"")
    again = tool("--export-to-flatbuffer", data=back.stdout)
    assert again.stdout == first.stdout
    binary = tool("--import-from-flatbuffer", "--to", "mlirbc", data=first.stdout)
    assert binary.stdout.startswith(b"ML\xefR")
    assert tool("--export-to-flatbuffer", data=binary.stdout).stdout == first.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", b"<stdin>: error: the input is empty"),
        (b"\x89PNG\r\n\x1a\n\0", b"<stdin>: error: the input starts with"),
        (b"func.func @f(", b"-:1:14: error:"),
        (b"module {}\n" + b" " * 5000 + b"\xff", b"[malformed-mlir]"),
    ],
)
def test_bad_input_from_a_pipe_is_exit_code_3_and_no_output(
    torch_mlir: Any, data: bytes, message: bytes
) -> None:
    found = tool(data=data)
    assert found.returncode == 3
    assert found.stdout == b""
    assert message in found.stderr
    assert b"Traceback" not in found.stderr


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


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ("x=4294967296x4", "at most"),
        ("x=" + "9" * 5000, "each size a number from 0"),
        ("x=\u0663x4", "each size a number from 0"),
        ("=2x4", "expected NAME"),
    ],
    ids=["large", "long", "other-digits", "no-name"],
)
def test_invalid_dimension_sizes_are_usage_errors(
    shape: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from tosa_convert.cli.main import run, verb

    assert run(verb("convert"), ["m.tosa", "-o", "n.tosa", "--input-shape", shape]) == 2
    assert told in capsys.readouterr().err
