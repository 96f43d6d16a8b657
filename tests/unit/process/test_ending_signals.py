"""An interrupt is never lost, neither in a callback from foreign code nor during clean-up."""

from __future__ import annotations

import ctypes
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.building import example

from tosa_convert import api
from tosa_convert.io.files import Sink, write_pieces
from tosa_convert.process.ending_signals import ENDING, RequestToEnd, Terminated, signals_deferred

TEXT = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tosa.exp %x : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Yield every test must leave the signal handlers unchanged."""
    before = [signal.getsignal(number) for number in ENDING]
    trace = sys.gettrace()
    yield
    sys.settrace(trace)
    assert [signal.getsignal(number) for number in ENDING] == before


def interrupting(name: str) -> Callable[..., Any]:
    """For sys.settrace: an interrupt at the first instruction of the next call of a function."""

    def trace(frame: Any, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_name == name:
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)

    return trace


def call_back(function: Callable[[], None]) -> None:
    """Let foreign code, which drops exceptions, call a function."""
    ctypes.CFUNCTYPE(None)(function)()


@pytest.mark.parametrize("deferred", [True, False])
def test_an_interrupt_at_the_start_of_a_callback_is_raised_afterwards(
    deferred: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the deferral it would be lost, so the test can fail."""
    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: lost.append(args.exc_type))

    def callback() -> None:
        pass

    def work() -> None:
        sys.settrace(interrupting("callback"))
        call_back(callback)

    if deferred:
        with pytest.raises(KeyboardInterrupt), signals_deferred():
            work()
        assert lost == []
    else:
        work()
        assert lost == [KeyboardInterrupt]


def test_an_interrupt_while_mlir_hands_bytecode_over_is_not_lost(torch_mlir: Any) -> None:
    from tosa_convert.formats.bindings.modules import capture

    context = torch_mlir.new_context()
    module = torch_mlir.ir.Module.parse(TEXT, context)
    assert capture(torch_mlir, module.operation)
    sys.settrace(interrupting("piece"))  # the callback
    with pytest.raises(KeyboardInterrupt):
        capture(torch_mlir, module.operation)


def test_after_an_interrupt_no_more_is_written() -> None:
    file = io.BytesIO()

    def pieces(sink: Sink) -> None:
        sink.write(b"before")
        signal.raise_signal(signal.SIGINT)
        sink.write(b"after")

    with pytest.raises(KeyboardInterrupt):
        write_pieces(file, pieces)
    assert file.getvalue() == b"before"


def test_an_exception_of_the_work_passes() -> None:
    with pytest.raises(ZeroDivisionError), signals_deferred():
        raise ZeroDivisionError


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_deferred() as arrived:
            signal.raise_signal(signal.SIGHUP)
            assert not arrived
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_request_to_end_is_an_exception_and_is_remembered() -> None:
    for number, error, code in [
        (signal.SIGINT, KeyboardInterrupt, 130),
        (signal.SIGTERM, Terminated, 143),
    ]:
        request = RequestToEnd()
        assert request.exit_code == 0
        request.raise_if_heard()
        with pytest.raises(error):
            request(number, None)
        assert request.exit_code == code
        with pytest.raises(error):
            request.raise_if_heard()


def test_the_same_request_again_does_not_disturb_the_cleaning_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A terminal signals all processes, and a parent forwards its signal to them."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    request = RequestToEnd()
    with pytest.raises(KeyboardInterrupt):
        request(signal.SIGINT, None)
    now[0] += 0.5
    request(signal.SIGTERM, None)
    assert request.exit_code == 130
    now[0] += 2
    with pytest.raises(KeyboardInterrupt):
        request(signal.SIGINT, None)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupt_that_python_loses_is_still_the_exit_code(tmp_path: Path) -> None:
    """Python drops exceptions in `__del__`: the file is complete, the exit code reports the signal."""
    source, target = tmp_path / "m.tosa", tmp_path / "m.json"
    api.save(example(), source)
    code = (
        "import os, signal, sys\n"
        "from tosa_convert.cli import convert_work, start\n"
        "class Lost:\n"
        "    def __del__(self): os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.unraisablehook = lambda args: None\n"
        "convert_one = convert_work.convert_one\n"
        "def losing(*args):\n"
        "    Lost()\n"
        "    return convert_one(*args)\n"
        "convert_work.convert_one = losing\n"
        "start.main_convert()"
    )
    command = [sys.executable, "-c", code, str(source), "-o", str(target)]
    done = subprocess.run(command, check=False, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, b"")
    assert target.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupt_during_the_imports_ends_the_command_without_a_traceback(
    tmp_path: Path,
) -> None:
    text = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n"
    (tmp_path / "click.py").write_text(text)
    ended = subprocess.run(
        [sys.executable, "-m", "tosa_convert", "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (130, b"")


def test_another_thread_changes_no_handlers() -> None:
    """Only the main thread can set handlers, and only it is interrupted."""
    handlers: list[object] = []

    def work() -> None:
        with signals_deferred():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]
