"""One process that imports a converter and lowers many models, each in a fork."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tosa_convert.frontends.process.request import INTERFACE_FILE, REQUEST_FILE, Request
from tosa_convert.frontends.process.run import can_serve, server_of
from tosa_convert.frontends.table import FRONTENDS
from tosa_convert.process.workers import OUTPUT_FILE, KeptProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")

#: A converter that does what its source's name says, and counts its imports.
CONVERTER = """
import os, signal, sys, time
from pathlib import Path
from tosa_convert.frontends.process.request import Interface, Value

COUNT = Path(__file__).with_name("imports")
COUNT.write_text(COUNT.read_text() + "x" if COUNT.exists() else "x")
print("noise while it is imported")


def lower(request, folder):
    print("noise", flush=True)
    if request.source == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if request.source == "hang":
        time.sleep(60)
    if request.source == "large":
        filled = b"x" * (1 << 28)
        time.sleep(0.5)
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
raise SystemExit(run(["--serve", "own"]))
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeptProcess]:
    (tmp_path / "own_converter.py").write_text(CONVERTER)
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    found = KeptProcess([sys.executable, "-c", START])
    yield found
    found.close()


def folder_of(tmp_path: Path, source: str) -> Path:
    folder = tmp_path / source
    folder.mkdir(parents=True)
    (folder / REQUEST_FILE).write_text(Request(frontend="own", source=source).to_json())
    return folder


def test_each_model_is_lowered_in_a_fork_of_one_process(
    server: KeptProcess, tmp_path: Path
) -> None:
    for source, code, said in (
        ("first", 0, "noise"),
        ("crash", -signal.SIGSEGV, "noise"),
        ("raise", 1, "ValueError: a defect"),
        ("second", 0, "noise"),
    ):
        folder = folder_of(tmp_path, source)
        ended = server.run(folder, 60)
        assert (ended.code, ended.timed_out) == (code, False)
        assert said in ended.stderr
        assert (folder / INTERFACE_FILE).exists() == (code == 0)
        assert (folder / OUTPUT_FILE).exists()
    assert (tmp_path / "imports").read_text() == "x"


def test_a_model_that_hangs_costs_that_model_only(server: KeptProcess, tmp_path: Path) -> None:
    start = time.monotonic()
    ended = server.run(folder_of(tmp_path, "hang"), 1)
    assert ended.timed_out
    assert time.monotonic() - start < 30
    ended = server.run(folder_of(tmp_path, "first"), 60)
    assert ended.code == 0
    assert (tmp_path / "imports").read_text() == "x"


def test_a_run_says_what_it_used_and_can_be_limited_in_memory(
    server: KeptProcess, tmp_path: Path
) -> None:
    used = server.run(folder_of(tmp_path, "first"), 60).used
    assert used.seconds >= used.processor_seconds / 64 > 0
    assert 1 << 22 < used.memory < 1 << 30
    large = server.run(folder_of(tmp_path, "large"), 60)
    assert large.used.memory > used.memory + (1 << 27)
    ended = server.run(folder_of(tmp_path / "again", "large"), 60, 1 << 27)
    assert ended.too_large
    assert not ended.timed_out


def test_a_process_that_died_is_started_again(server: KeptProcess, tmp_path: Path) -> None:
    server.run(folder_of(tmp_path, "first"), 60)
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGKILL)
    ended = server.run(folder_of(tmp_path, "lost"), 60)
    assert ended.code < 0
    ended = server.run(folder_of(tmp_path, "second"), 60)
    assert ended.code == 0


def test_a_process_that_cannot_start_is_not_tried_again(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    program = f"open({str(mark)!r}, 'a').write('x'); raise SystemExit(3)"
    server = KeptProcess([sys.executable, "-c", program])
    assert [server.can_start(), server.can_start()] == [False, False]
    assert mark.read_text() == "x"


def test_only_frontends_that_fork_have_one() -> None:
    assert {name for name, row in FRONTENDS.items() if can_serve(row)} == {
        *("hf", "onnx", "tflite", "timm", "torch", "torch-mlir", "torchvision"),
    }
    assert server_of("keras") is None
    assert server_of("onnx") is not None
