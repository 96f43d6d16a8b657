"""A write that fails at any system call leaves the old file or the new one, and no other files.

`python tests/hostile/test_write_faults.py` prints a table of every fault at every call, with
what was on disk afterwards.
"""

from __future__ import annotations

import collections
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from refusing import refused

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from hostile.faults import CALLS, FAULTS, Disk, failing
from unit.building import graph, op, tensor

from tosa_convert import api
from tosa_convert.cli.main import run, verb
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.exit_codes import EXIT_INTERRUPTED
from tosa_convert.formats.weights.write import write as write_weights
from tosa_convert.graph import Graph
from tosa_convert.io.files import (
    GATHER_BYTES,
    hold,
    release,
    remove_left,
    replace_file,
    temporary_path,
)

OLD, NEW = b"old" * 1000, b"new" * 5000


def program(value: int) -> Graph:
    """Return a program with two constants whose bytes all have this value."""
    data = bytes([value]) * 4096
    values = [tensor(name, "INT8", (4096,), data=data) for name in ("v", "w")]
    return graph("", "v w", list(values), [op("CONST", "", "v"), op("CONST", "", "w")])


def content(path: Path) -> object:
    """Return the content of a path: bytes, a folder's files, or None."""
    if path.is_dir():
        return {entry.name: entry.read_bytes() for entry in sorted(path.iterdir())}
    return path.read_bytes() if path.exists() else None


class Subject:
    """A file or folder that is written: its name, and functions that write the old and the new one."""

    def __init__(self, name: str, target: str, old: Callable[[Path], object] | None,
                 new: Callable[[Path], object]) -> None:  # fmt: skip
        self.name, self.target, self.old, self.new = name, target, old, new
        self.known: tuple[object, object] | None = None

    def __str__(self) -> str:
        return self.name

    def prepare(self, folder: Path) -> Path:
        """Write the old one into an empty folder; return its path."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if self.old is not None:
            self.old(folder / self.target)
        return folder / self.target

    def states(self, folder: Path) -> tuple[object, object]:
        """Return the content before a write and after one that succeeds."""
        if self.known is None:
            before = content(self.prepare(folder))
            self.new(folder / self.target)
            self.known = before, content(folder / self.target)
        return self.known


def old_file(path: Path) -> None:
    path.write_bytes(OLD)


def new_file(path: Path) -> None:
    replace_file(path, [NEW[:100], NEW[100:]])


def large_file(path: Path) -> None:
    """Pieces that are too large to be gathered: one write call each."""
    replace_file(path, [bytes([value]) * GATHER_BYTES for value in range(3)])


def checked_file(path: Path) -> None:
    replace_file(path, [NEW], lambda beside: None)


def weights(value: int) -> Callable[[Path], object]:
    return lambda path: write_weights(program(value), path)


def saved(value: int) -> Callable[[Path], object]:
    return lambda path: api.save(program(value), path)


def commanded(path: Path) -> None:
    """Run the command and raise what its exit code means."""
    source = path.parent.parent / "source.tosa"
    if not source.exists():
        api.save(program(2), source)
    code = run(verb("convert"), [str(source), "-o", str(path)])
    assert code in (0, 2, EXIT_INTERRUPTED), code
    if code:
        raise KeyboardInterrupt if code == EXIT_INTERRUPTED else fail("file-error", "", "")


SUBJECTS = [
    Subject("the command over another file", "m.json", saved(1), commanded),
    Subject("a new file", "m.tosa", None, new_file),
    Subject("a file over another", "m.tosa", old_file, new_file),
    Subject("a large file over another", "m.tosa", old_file, large_file),
    Subject("a checked file over another", "m.tosa", old_file, checked_file),
    Subject("a program over another", "m.tosa", saved(1), saved(2)),
    Subject("a program as JSON over another", "m.json", saved(1), saved(2)),
    Subject("a new folder of weights", "m.weights", None, weights(2)),
    Subject("a folder of weights over another", "m.weights", weights(1), weights(2)),
]


def trace(subject: Subject, folder: Path) -> list[str]:
    """Return the calls of a write that succeeds."""
    target = subject.prepare(folder)
    disk = Disk()
    with failing(disk):
        subject.new(target)
    return disk.calls


def cases(subject: Subject, folder: Path) -> Iterator[tuple[int, str, str]]:
    """Iterate over every place at which a fault may happen, the call there, and every fault."""
    for place, call in enumerate(trace(subject, folder)):
        for fault in FAULTS:
            if fault != "part" or call == "write":
                yield place, call, fault


def outcome(subject: Subject, folder: Path, place: int, fault: str) -> tuple[str, str]:
    """Return the result of a fault: the exception, and whether the old or the new file is there."""
    before, after = subject.states(folder)
    target = subject.prepare(folder)
    raised = "nothing"
    disk = Disk(fault, place)
    if fault.startswith("kill"):
        killed = os.fork()
        if not killed:
            with failing(disk):
                subject.new(target)
            os._exit(0)
        _, status = os.waitpid(killed, 0)
        raised = "killed" if os.WIFSIGNALED(status) else "nothing"
    else:
        try:
            with failing(disk):
                subject.new(target)
        except TosaConvertError as error:
            raised = error.code
        except (KeyboardInterrupt, OSError) as error:
            raised = type(error).__name__
    found = content(target)
    which = "new" if found == after else "old" if found == before else "NEITHER"
    litter = [path.name for path in folder.iterdir() if path != target]
    if litter:
        # As in another process.
        remove_left.cache_clear()
        subject.new(target)
        assert content(target) == after, f"what is left disturbs the next write: {litter}"
        left = [path.name for path in folder.iterdir() if path != target]
        assert not left or raised != "killed", f"the next write leaves {left}"
    return raised, which + (" and litter" if litter else "")


#: Whether temporary files may remain: the process was killed, or their removal is what fails.
def may_litter(call: str, fault: str) -> bool:
    return fault.startswith("kill") or call in ("unlink", "rmdir")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Yield the path of a folder; in memory if possible, because the test flushes thousands of times."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(prefix="faults-", dir=memory) as place:
        yield Path(place, "folder")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a copy of this process")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # fork, with idle threads
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_a_fault_at_any_call_leaves_the_old_or_the_new_file(subject: Subject, folder: Path) -> None:
    count = 0
    subject.states(folder)
    for place, call, fault in cases(subject, folder):
        raised, which = outcome(subject, folder, place, fault)
        case = f"call {place} {call}, {fault}: raised {raised}, found {which}"
        assert which.startswith(("old", "new")), case
        assert "litter" not in which or may_litter(call, fault), case
        # If a fault raises nothing, the new file must be there.
        assert raised != "nothing" or which.startswith("new"), case
        assert raised != "OSError", case
        count += 1
    assert count > 20


def test_the_faults_reveal_a_writer_that_writes_in_place(folder: Path) -> None:
    """The same faults on a writer that writes in place must destroy the file."""
    careless = Subject("in place", "m.tosa", old_file, _in_place)
    found = {
        outcome(careless, folder, place, fault)[1] for place, _, fault in cases(careless, folder)
    }
    assert "NEITHER" in found


def _in_place(path: Path) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(NEW[:100])
        file.write(NEW[100:])


def test_each_relevant_call_was_among_those_that_failed(folder: Path) -> None:
    calls = set().union(*(trace(subject, folder) for subject in SUBJECTS))
    assert calls >= {"open", "write", "fsync", "replace", "mkdir", "rename", "unlink", "rmdir"}
    assert calls <= set(CALLS)


@pytest.mark.slow
def test_without_an_exchange_the_old_folder_is_moved_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On file systems that cannot exchange two names, neither folder exists for a moment."""
    monkeypatch.setattr("tosa_convert.formats.weights.folder._exchanged", lambda one, other: False)
    subject = SUBJECTS[-1]
    for place, call, fault in cases(subject, folder):
        if fault.startswith("kill"):
            continue
        _, which = outcome(subject, folder, place, fault)
        case = f"call {place} {call}, {fault}: {which}"
        assert which.startswith(("old", "new")), case
        assert "litter" not in which or may_litter(call, fault), case


# -- the command ------------------------------------------------------------------------------

#: Waits in the middle of the file that it writes.
_SLOW = """
import signal, sys, time
for name in ("SIGTERM", "SIGHUP"):  # they may be ignored in the process that started the tests
    signal.signal(getattr(signal, name), signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["tosa-flatbuffer-convert", sys.argv[1], "-o", sys.argv[2]]
from tosa_convert.io import files
from tosa_convert.cli.start import main_convert
real = files._write_all
def slow(file, piece, *args):
    count = real(file, piece, *args)
    print("written", flush=True)
    time.sleep(60)
    return count
files._write_all = slow
main_convert()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals of POSIX")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_during_a_write_leaves_only_the_old_file(name: str, tmp_path: Path) -> None:
    api.save(program(1), tmp_path / "in.tosa")
    target = tmp_path / "out" / "m.json"
    target.parent.mkdir()
    target.write_bytes(OLD)
    command = [sys.executable, "-c", _SLOW, str(tmp_path / "in.tosa"), str(target)]
    number = getattr(signal, name)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"written\n"
            assert len(os.listdir(target.parent)) == 2
            process.send_signal(number)
            process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 128 + number
    assert target.read_bytes() == OLD
    assert os.listdir(target.parent) == ["m.json"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="permissions of POSIX")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_a_folder_that_is_read_only_stays_as_it_was(subject: Subject, folder: Path) -> None:
    target = subject.prepare(folder)
    before = content(target)
    subject.states(folder.parent / "writable")  # the input of the cases that read a file
    folder.chmod(0o555)
    folder.parent.chmod(0o755)
    child = os.fork()
    if not child:
        code = 1
        try:
            if os.geteuid() == 0:  # root may write anywhere
                os.setuid(65534)
            subject.new(target)
        except TosaConvertError as error:
            code = 0 if error.code == "file-error" else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    folder.chmod(0o755)
    assert content(target) == before
    assert os.listdir(folder) == ([target.name] if subject.old else [])


_WRITER = """
import sys
from pathlib import Path
from unit.building import graph, op, tensor
from tosa_convert import api
from tosa_convert.errors import TosaConvertError
value, target, times = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
data = bytes([value]) * 4096
values = [tensor(name, "INT8", (4096,), data=data) for name in ("v", "w")]
made = graph("", "v w", values, [op("CONST", "", "v"), op("CONST", "", "w")])
done = 0
for _ in range(times):
    try:
        if target.suffix == ".weights":
            api.export_weights(made, target)
        else:
            api.save(made, target)
        done += 1
    except TosaConvertError as error:
        assert error.code in ("file-error", "foreign-folder", "missing-data"), error
print(done)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["m.tosa", "m.weights"])
def test_of_two_concurrent_writers_one_wins_completely(name: str, tmp_path: Path) -> None:
    target = tmp_path / "folder" / name
    target.parent.mkdir()
    allowed = []
    write = api.export_weights if name == "m.weights" else api.save
    for value in (1, 2):
        write(program(value), target)
        allowed.append(content(target))
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(value), str(target), "15"],
            stdout=subprocess.PIPE,
            env=environment,
        )
        for value in (1, 2)
    ]
    torn = 0
    while any(writer.poll() is None for writer in writers):
        try:
            torn += content(target) not in allowed
        except FileNotFoundError:
            torn += name != "m.weights"  # a folder's files are read one after the other
        if name == "m.weights":
            torn = 0
    done = [int(writer.communicate()[0]) for writer in writers]
    assert all(writer.returncode == 0 for writer in writers)
    assert min(done) > 0
    assert torn == 0
    assert content(target) in allowed
    assert os.listdir(target.parent) == [name]


def main() -> None:
    """Print the table of faults."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "folder"
        total = 0
        for subject in SUBJECTS:
            rows: dict[tuple[int, str], dict[str, str]] = collections.defaultdict(dict)
            for number, call, fault in cases(subject, folder):
                _, which = outcome(subject, folder, number, fault)
                rows[number, call][fault] = which
                total += 1
            print(f"\n{subject}: {len(rows)} calls")
            for (number, call), row in rows.items():
                grouped: dict[str, list[str]] = collections.defaultdict(list)
                for fault, which in row.items():
                    grouped[which].append(fault)
                print(
                    f"  {number:2} {call:8}",
                    "; ".join(f"{which}: {', '.join(faults)}" for which, faults in grouped.items()),
                )
        print(f"\n{total} faults")


if __name__ == "__main__":
    main()


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such locks")
def test_a_write_removes_what_killed_writes_left_and_nothing_else(tmp_path: Path) -> None:
    mine = [
        tmp_path / name for name in (".m.tosa.part", ".0123456789ab.part", "m.0123456789ab.part")
    ]
    for path in mine:
        path.write_bytes(b"mine")
    left, running = (Path(temporary_path(tmp_path / "other.tosa")) for _ in range(2))
    folder = Path(temporary_path(tmp_path / "m.weights"))
    link = Path(temporary_path(tmp_path / "m.tosa"))
    left.write_bytes(b"left")
    folder.mkdir()
    (folder / "w.npy").write_bytes(b"left")
    link.symlink_to(mine[0])
    with open(running, "wb") as file:
        lock = hold(file.fileno())
    replace_file(tmp_path / "m.tosa", [NEW])
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {path.name for path in (*mine, running, link, tmp_path / "m.tosa")}
    release(lock)
    remove_left.cache_clear()
    replace_file(tmp_path / "m.tosa", [NEW])
    assert not running.exists()


class SmallDisk:
    """A disk whose files take at most `room` bytes; a write beyond that finds it full."""

    def __init__(self, folder: Path, room: int) -> None:
        self.folder, self.room = folder, room

    def write(self, file: BinaryIO, piece: bytes) -> int:
        found = [path.stat().st_size for path in self.folder.rglob("*") if path.is_file()]
        if sum(found) + len(piece) > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return file.write(piece)


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such locks")
@pytest.mark.parametrize("seen", [False, True], ids=["a new process", "one that has looked"])
@pytest.mark.parametrize("form", ["a file", "a folder of weights", "a leftover folder"])
def test_what_a_killed_write_left_does_not_fill_the_disk(
    form: str, seen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "m.tosa"
    left = Path(temporary_path(target))
    remove_left.cache_clear()
    if seen:  # what a later kill leaves is found where the disk is full
        remove_left(str(tmp_path))
    if form == "a leftover folder":
        left.mkdir()
        (left / "w.npy").write_bytes(bytes(12_000))
    else:
        left.write_bytes(bytes(12_000))
    disk = SmallDisk(tmp_path, 20_000)
    monkeypatch.setattr("tosa_convert.io.files._write", disk.write)
    if form == "a folder of weights":
        write_weights(program(1), target)
    else:
        replace_file(target, [NEW])
    assert {path.name for path in tmp_path.iterdir()} == {target.name}


def test_a_full_disk_is_an_error_where_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tosa_convert.io.files._write", SmallDisk(tmp_path, 4000).write)
    with refused("file-error", match="No space left"):
        replace_file(tmp_path / "m.tosa", [NEW])
    assert not list(tmp_path.iterdir())
