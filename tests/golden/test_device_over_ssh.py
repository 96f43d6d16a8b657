"""`examples/board.sh`, against an sshd on this machine."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from golden.official_cases import X, make_suite, unary

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.checking.check import check
from tosa_convert.qualify.bisection.bisect import bisect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs sshd, flock and /proc"),
]
ROOT = Path(__file__).resolve().parents[2]
#: The device's command. It notes when it begins and ends, and cuts its connection if it is told to.
RUNNER = """\
import os, signal, sys, time
from pathlib import Path
import numpy as np

folder = Path(__file__).parent
with (folder / "times").open("a", buffering=1) as file:
    print("begin", file=file)
    if (folder / "cut").exists():
        (folder / "cut").unlink()
        process = os.getppid()
        while "sshd" not in Path(f"/proc/{process}/comm").read_text():
            process = int(Path(f"/proc/{process}/stat").read_text().split()[3])
        os.kill(process, signal.SIGKILL)
    print("npu: 41 degrees")
    time.sleep(0.3 if (folder / "busy").exists() else 0)
    inputs = np.load(sys.argv[2])
    if not (folder / "silent").exists():
        np.savez(sys.argv[3], y=np.abs(inputs["x"]) + (folder / "wrong").exists())
    print("end", file=file)
"""


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of a device, which is an sshd on this machine, with the script."""
    server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if server is None:
        pytest.skip("sshd is not installed: apt-get install openssh-server")
    folder = tmp_path_factory.mktemp("board")
    for name in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "sshd.config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {folder}/user.pub\nStrictModes no\nSubsystem sftp internal-sftp\n"
    )
    (folder / "ssh.config").write_text(
        f"Host npu\nHostName 127.0.0.1\nPort {port}\nUser {getpass.getuser()}\nLogLevel ERROR\n"
        f"IdentityFile {folder}/user\nUserKnownHostsFile {folder}/known\nStrictHostKeyChecking no\n"
    )
    shutil.copy(ROOT / "examples/board.sh", folder)
    (folder / "runner.py").write_text(RUNNER)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    log = (folder / "sshd.log").open("w")
    with (
        log,
        subprocess.Popen([server, "-D", "-e", "-f", folder / "sshd.config"], stderr=log) as ran,
    ):
        try:
            for _ in range(100):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.1)
            else:
                pytest.fail((folder / "sshd.log").read_text())
            yield folder
        finally:
            ran.terminate()


@pytest.fixture
def against(board: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the backend, and remove what an earlier test told the device."""
    monkeypatch.setenv("BOARD", "npu")
    monkeypatch.setenv("SSH_OPTIONS", f"-F {board}/ssh.config")
    monkeypatch.setenv("RUNNER", f"{sys.executable} {board}/runner.py")
    monkeypatch.setenv("PAUSES", "0 0 0")
    for name in ("cut", "wrong", "busy", "silent", "times", "board.log"):
        (board / name).unlink(missing_ok=True)
    return f"{board}/board.sh {{model}} {{inputs}} {{outputs}}"


def test_a_program_runs_on_the_device_and_what_it_prints_is_kept(board: Path, against: str) -> None:
    assert check(unary("ABS"), against, X).ok
    assert (board / "board.log").read_text() == "npu: 41 degrees\n"
    (board / "wrong").touch()
    assert not check(unary("ABS"), against, X).ok
    assert "its own result is wrong" in str(bisect(unary("ABS"), against, X))


def test_a_run_is_repeated_if_the_connection_is_cut(board: Path, against: str) -> None:
    (board / "cut").touch()
    assert check(unary("ABS"), against, X).ok
    # The first run may outlive its connection.
    times = (board / "times").read_text().split()
    assert (times.count("begin"), times[-1]) == (2, "end")


def test_runs_wait_for_one_another(board: Path, against: str) -> None:
    (board / "busy").touch()
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda _: check(unary("ABS"), against, X).ok, range(3)))
    assert found == [True] * 3
    assert (board / "times").read_text().split() == ["begin", "end"] * 3


def test_a_device_that_cannot_be_reached_is_no_verdict(
    against: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_suite(tmp_path / "cases")

    def answered() -> str:
        command = [sys.executable, "-m", "tosa_convert", "suite", "cases", "--against", against]
        command += ["--max-cases", "1", "--work", "work", "--resume"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout

    monkeypatch.setenv("BOARD", "elsewhere")
    with pytest.raises(TosaConvertError, match="elsewhere cannot be reached") as caught:
        check(unary("ABS"), against, X)
    assert caught.value.code == "backend-unreachable"
    assert "0 of 1 cases pass (0 wrong, 0 refused, 0 crashed, 0 not run, 1 errors)" in answered()
    monkeypatch.setenv("BOARD", "npu")
    assert "1 of 1 cases pass" in answered()


def test_a_run_without_outputs_is_the_failure_of_the_device(board: Path, against: str) -> None:
    (board / "silent").touch()
    with pytest.raises(TosaConvertError, match=r"outputs\.npz") as caught:
        check(unary("ABS"), against, X)
    assert caught.value.code == "backend-failed"
    assert (board / "times").read_text().split() == ["begin", "end"]
