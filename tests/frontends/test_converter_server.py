"""One process that imports a converter and lowers many models, each in a fork."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tosa_convert.frontends.process.child import OUTPUT_FILE
from tosa_convert.frontends.process.interface import INTERFACE_FILE
from tosa_convert.frontends.process.request import REQUEST_FILE, Request
from tosa_convert.frontends.process.run import ConverterServer, can_serve, server_of
from tosa_convert.frontends.table import FRONTENDS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")

#: A converter that does what its source's name says, and counts its imports.
CONVERTER = """
import os, signal, sys, time
from pathlib import Path
from tosa_convert.frontends.process.interface import Interface, Value

COUNT = Path(__file__).with_name("imports")
COUNT.write_text(COUNT.read_text() + "x" if COUNT.exists() else "x")
print("noise while it is imported")


def lower(request, folder):
    print("noise", flush=True)
    if request.source == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if request.source == "hang":
        time.sleep(60)
    if request.source == "raise":
        raise ValueError("a defect")
    return Interface(inputs=[Value(name=request.source)])
"""
#: Starts the child with a row for that converter.
START = """
import sys
from tosa_convert.frontends import table
from tosa_convert.frontends.process.child import run
row = table.Frontend(name="own", reads="", extra="", packages={}, converter="own_converter")
table.FRONTENDS["own"] = row
raise SystemExit(run(sys.argv[1:]))
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConverterServer]:
    (tmp_path / "own_converter.py").write_text(CONVERTER)
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    found = ConverterServer("own", lambda arguments: [sys.executable, "-c", START, *arguments])
    yield found
    found.close()


def folder_of(tmp_path: Path, source: str) -> Path:
    folder = tmp_path / source
    folder.mkdir()
    (folder / REQUEST_FILE).write_text(Request(frontend="own", source=source).to_json())
    return folder


def test_each_model_is_lowered_in_a_fork_of_one_process(
    server: ConverterServer, tmp_path: Path
) -> None:
    for source, code, said in (
        ("first", 0, "noise"),
        ("crash", -signal.SIGSEGV, "noise"),
        ("raise", 1, "ValueError: a defect"),
        ("second", 0, "noise"),
    ):
        folder = folder_of(tmp_path, source)
        ended = server.run(folder, 60)
        assert ended is not None
        assert (ended.code, ended.timed_out) == (code, False)
        assert said in ended.stderr
        assert (folder / INTERFACE_FILE).exists() == (code == 0)
        assert (folder / OUTPUT_FILE).exists()
    assert (tmp_path / "imports").read_text() == "x"


def test_a_model_that_hangs_costs_that_model_only(server: ConverterServer, tmp_path: Path) -> None:
    start = time.monotonic()
    ended = server.run(folder_of(tmp_path, "hang"), 1)
    assert ended is not None
    assert ended.timed_out
    assert time.monotonic() - start < 30
    ended = server.run(folder_of(tmp_path, "first"), 60)
    assert ended is not None
    assert ended.code == 0
    assert (tmp_path / "imports").read_text() == "x"


def test_a_process_that_died_is_started_again(server: ConverterServer, tmp_path: Path) -> None:
    assert server.run(folder_of(tmp_path, "first"), 60) is not None
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGKILL)
    ended = server.run(folder_of(tmp_path, "lost"), 60)
    assert ended is not None
    assert ended.code < 0
    ended = server.run(folder_of(tmp_path, "second"), 60)
    assert ended is not None
    assert ended.code == 0


def test_without_a_process_each_model_has_its_own(tmp_path: Path) -> None:
    server = ConverterServer("own", lambda arguments: [sys.executable, "-c", "raise SystemExit(3)"])
    for source in ("first", "second"):
        assert server.run(folder_of(tmp_path, source), 60) is None


def test_only_frontends_that_fork_have_one() -> None:
    assert {name for name, row in FRONTENDS.items() if can_serve(row)} == {
        "onnx",
        "tflite",
        "torch",
    }
    assert server_of("keras") is None
    assert server_of("onnx") is not None
