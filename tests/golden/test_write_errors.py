"""Full disks, read-only places and files where folders are needed: `file-error`, and nothing is left."""

from __future__ import annotations

import errno
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden.conftest import MakeBuilder
from hostile.faults import Disk, failing

import tosa_convert as tc
from tosa_convert import golden
from tosa_convert.cli.main import run as run_verb
from tosa_convert.cli.main import verb
from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays import OutputFolder, load_npz, npy_pieces, save_npz
from tosa_convert.golden.backends.runners import Record
from tosa_convert.golden.running.run import Intermediate, save_to_folder
from tosa_convert.graph import Graph
from tosa_convert.graph.dtypes import DTYPES, DType
from tosa_convert.qualify.bisection.judge_operators import Case, Divergence

X = np.array([3, -4, 0, 7], np.int32)
#: Calls that fail on a full disk. Python cannot start a child process if the others fail.
WRITING = ("open", "write", "mkdir", "rename", "replace")
FAULTS = ("ENOSPC", "EROFS", "part", "interrupt before", "interrupt after")


def tensors() -> Iterator[Intermediate]:
    for name in ("a", "b"):
        yield Intermediate(name, {name: np.arange(2000)}, 0, "operator #0 ABS", "")


def divergence(graph: Graph) -> Divergence:
    arrays = {"c": X}
    comparison = golden.compare(arrays, {"c": X + 1})
    case = Case(graph, {"x": X}, arrays, {"c": X + 1}, comparison)
    return Divergence(((3, "operator #3 SUB", "", "()"),), case)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def outcome(work: Callable[[], Any], disk: Disk) -> str:
    """Return the outcome of `work` on this disk."""
    try:
        with failing(disk):
            work()
    except TosaConvertError as error:
        return error.code
    except KeyboardInterrupt:
        return "interrupt"
    return "done"


def writing_calls(work: Callable[[], Any]) -> list[str]:
    """Return the file system calls that `work` makes."""
    disk = Disk()
    assert outcome(work, disk) == "done"
    return disk.calls


def at_every_call(
    work: Callable[[], Any],
    after: Callable[[bool], None],
    before: Callable[[], None] = lambda: None,
) -> int:
    """Let every file system call of `work` fail in turn; `after` checks the files that are left.

    Returns how many calls there are. `after` is told whether the work succeeded: not every call is
    needed, such as one that only makes a rename durable.
    """
    counting = Disk()
    before()
    with failing(counting):
        work()
    after(True)
    for fault in FAULTS:
        for place in range(len(counting.calls)):
            if fault == "part" and counting.calls[place] != "write":
                continue
            before()
            ended = outcome(work, Disk(fault, place))
            assert ended in ("done", fault.split()[0] if "interrupt" in fault else "file-error")
            after(ended == "done")
    return len(counting.calls)


def test_a_folder_of_intermediates_is_complete_or_absent(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder"

    def after(ok: bool) -> None:
        if ok:
            assert files(target) == ["a.npy", "b.npy", "manifest.json"]
            assert np.load(target / "b.npy").tolist() == list(range(2000))
            for path in target.iterdir():
                path.unlink()
            target.rmdir()
            target.parent.rmdir()
        assert files(tmp_path) == []

    assert at_every_call(lambda: save_to_folder(tensors(), target), after) > 8


def test_files_that_were_there_stay_whole_when_intermediates_cannot_be_saved(
    tmp_path: Path,
) -> None:
    def before() -> None:
        (tmp_path / "mine.txt").write_text("mine")
        np.save(tmp_path / "a.npy", X)

    def after(ok: bool) -> None:
        assert (tmp_path / "mine.txt").read_text() == "mine"
        assert np.load(tmp_path / "a.npy").shape in ((4,), (2000,))
        for path in tmp_path.iterdir():
            assert path.name in {"mine.txt", "a.npy"} or ok, path
            path.unlink()

    at_every_call(lambda: save_to_folder(tensors(), tmp_path), after, before)


@pytest.mark.slow
def test_a_case_is_complete_or_absent(chain: Graph, tmp_path: Path) -> None:
    first = divergence(chain)

    def after(ok: bool) -> None:
        if ok:
            assert len(files(tmp_path / "case")) == 5
            for path in (tmp_path / "case").iterdir():
                path.unlink()
            (tmp_path / "case").rmdir()
        assert files(tmp_path) == []

    backend = Record("left", {})
    at_every_call(lambda: golden.save_case(first, tmp_path / "case", backend), after)


@pytest.mark.usefixtures("refmodel")
def test_a_run_whose_temporary_folder_fails_says_so_and_leaves_nothing(
    chain: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    golden.run(chain, {"x": X})  # The first run makes one call more: it starts the keeper.
    for place, name in enumerate(writing_calls(lambda: golden.run(chain, {"x": X}))):
        if name in WRITING:
            ended = outcome(lambda: golden.run(chain, {"x": X}), Disk("ENOSPC", place))
            # Folders are also opened to be removed; an error at that point is not reported.
            assert ended == "file-error" or (ended, name) == ("done", "open")
            assert ended == "done" or files(tmp_path) == []


@pytest.mark.slow
@pytest.mark.usefixtures("refmodel")
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_model_that_cannot_write_its_output_is_a_file_error(
    builder: MakeBuilder, tmp_path: Path
) -> None:
    b = builder()
    b.input("x", "INT8", (8192,))
    b.op("CAST", ["x"], "y", "INT32", (8192,))  # four times as large as what we write
    tc.save(b.graph("y"), tmp_path / "m.tosa")
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)); "
        "from tosa_convert.cli.main import run, verb; "
        "sys.exit(run(verb('run'), ['m.tosa', '--random', '1']))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert (ended.returncode, "file-error" in ended.stderr) == (2, True), ended.stderr
    assert "Traceback" not in ended.stderr
    assert files(tmp_path) == ["m.tosa"]


@pytest.mark.usefixtures("refmodel")
def test_a_temporary_folder_that_does_not_exist_is_a_file_error(
    chain: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(TosaConvertError, match="TMPDIR") as caught:
        golden.run(chain, {"x": X})
    assert caught.value.code == "file-error"


@pytest.mark.usefixtures("refmodel")
@pytest.mark.parametrize(
    "words",
    [
        ("run", "m.tosa", "--random", "1", "--intermediates", "file"),
        ("run", "m.tosa", "--random", "1", "--intermediates", "file/below"),
        ("run", "m.tosa", "--random", "1", "--intermediates", "file/below.npz"),
        ("run", "m.tosa", "--random", "1", "-o", "file/out.npz"),
        ("run", "m.tosa", "--random", "1", "--save-inputs", "folder"),
        ("reduce", "m.tosa", "--command", "false", "--work", "file"),
        ("reduce", "m.tosa", "--command", "false", "--work", "file/below"),
        ("generate", "--seed", "1", "-o", "file/below.tosa"),
        ("generate", "--seed", "1", "--count", "2", "-o", "file"),
        ("bisect", "m.tosa", "--random", "1", "--against", "wrong.npz", "--case", "file"),
    ],
    ids=lambda words: " ".join(words),
)
def test_a_verb_that_cannot_write_its_result_ends_with_a_file_error(
    chain: Graph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    tc.save(chain, "m.tosa")
    save_npz("wrong.npz", {"c": X})
    Path("file").write_text("mine")
    Path("folder").mkdir()
    before = files(tmp_path)
    assert run_verb(verb(words[0]), list(words[1:])) == 2
    said = capsys.readouterr()
    assert "[file-error]" in said.err
    assert "Traceback" not in said.err
    assert files(tmp_path) == before
    assert Path("file").read_text() == "mine"
    if words[0] == "bisect":
        assert "operator #3 SUB" in said.out  # the answer is printed before the case is saved


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("false"), reason="the command is `false`")
@pytest.mark.usefixtures("refmodel")
def test_a_reduction_that_cannot_write_leaves_no_truncated_file(
    chain: Graph, tmp_path: Path
) -> None:

    def reduce(name: str) -> None:
        golden.reduce(chain, "false", tmp_path / name, {"x": X}, expect=golden.Failure(1))

    for place, name in enumerate(writing_calls(lambda: reduce("all"))):
        if name not in WRITING or place % 3:
            continue
        work = tmp_path / str(place)
        assert outcome(functools.partial(reduce, str(place)), Disk("ENOSPC", place)) in (
            "file-error",
            "done",
        )
        for path in work.rglob("*.npz") if work.exists() else ():
            load_npz(path)
        for path in work.rglob("*.tosa") if work.exists() else ():
            tc.load(path)
        assert not list(work.rglob("*.part"))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_an_archive_on_a_full_device_is_a_file_error() -> None:
    with pytest.raises(TosaConvertError, match=os.strerror(errno.ENOSPC)) as caught:
        save_npz("/dev/full", {"x": np.zeros(1 << 20)})
    assert caught.value.code == "file-error"


def test_an_archive_that_cannot_be_written_stops_computing_its_arrays(tmp_path: Path) -> None:
    computed = []

    def arrays() -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
        for number in range(100):
            computed.append(number)
            yield str(number), np.zeros(1 << 18)

    assert outcome(lambda: save_npz(tmp_path / "a.npz", arrays()), Disk("EIO", 1)) == "file-error"
    assert len(computed) < 5
    assert files(tmp_path) == []


def test_an_error_of_the_caller_removes_the_files_written_so_far(tmp_path: Path) -> None:
    def work() -> None:
        with OutputFolder(tmp_path / "a" / "b") as folder:
            folder.write("one.txt", [b"1"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert files(tmp_path) == []


@pytest.mark.parametrize("row", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)])
def test_an_npy_file_has_the_bytes_that_numpy_writes(
    row: DType, shape: tuple[int, ...], tmp_path: Path
) -> None:
    array = np.ones(shape, np.int8).astype(row.numpy)
    # numpy cannot read what it writes for FP8E5M2; bytes without a type are read.
    np.save(tmp_path / "a.npy", array.view("V1") if row.name == "FP8E5M2" else array)
    assert b"".join(npy_pieces(array)) == (tmp_path / "a.npy").read_bytes()
    # A transposed array is written in C order.
    assert b"".join(npy_pieces(array.copy(order="F"))) == (tmp_path / "a.npy").read_bytes()


def test_a_negative_seed_is_refused(chain: Graph, tmp_path: Path) -> None:
    tc.save(chain, tmp_path / "m.tosa")
    assert run_verb(verb("run"), [str(tmp_path / "m.tosa"), "--random", "-5"]) == 2
    words = ["--seed", "-5", "--count", "2", "-o", str(tmp_path / "cases")]
    assert run_verb(verb("generate"), words) == 2
    assert not (tmp_path / "cases").exists()
    with pytest.raises(TosaConvertError, match="-5") as caught:
        golden.run(chain, random=-5)
    assert caught.value.code == "option-conflict"
