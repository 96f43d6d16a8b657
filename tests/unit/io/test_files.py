"""Writing a file leaves the old one or the new one, complete, and no other file."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from refusing import refused

from tosa_convert.errors import TosaConvertError
from tosa_convert.io import files
from tosa_convert.io import files as temporary
from tosa_convert.io.files import gathered, map_file, replace_file, same_file, write_pieces

POSIX = pytest.mark.skipif(
    os.name != "posix", reason="permissions, links and pipes as POSIX has them"
)
NOT_ROOT = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_is_complete_and_the_only_one(tmp_path: Path) -> None:
    assert replace_file(tmp_path / "new", [b"ab", bytearray(b"c"), memoryview(b"de")]) == 5
    assert (tmp_path / "new").read_bytes() == b"abcde"
    assert listing(tmp_path) == ["new"]


def test_an_empty_file_can_be_written(tmp_path: Path) -> None:
    assert replace_file(tmp_path / "new", []) == 0
    assert (tmp_path / "new").read_bytes() == b""


class Boom(Exception):
    pass


@pytest.mark.parametrize("existed", [True, False])
@pytest.mark.parametrize("size", [1, 3 << 20])
@pytest.mark.parametrize("failure", [Boom, KeyboardInterrupt, MemoryError])
def test_pieces_that_fail_leave_only_the_old_file(
    tmp_path: Path, existed: bool, size: int, failure: type[BaseException]
) -> None:
    target = tmp_path / "model.tosa"
    if existed:
        target.write_bytes(b"old")

    def pieces() -> Iterator[bytes]:
        yield bytes(size)
        raise failure

    with pytest.raises(failure):
        replace_file(target, pieces())
    assert listing(tmp_path) == (["model.tosa"] if existed else [])
    if existed:
        assert target.read_bytes() == b"old"


@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace", "fchmod"])
def test_a_call_that_fails_leaves_only_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    target = tmp_path / "model.tosa"
    target.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if call == "write":
        monkeypatch.setattr(files, "write_pieces", full)
    else:
        monkeypatch.setattr(os, call, full)
    with refused("file-error") as caught:
        replace_file(target, [b"new"])
    assert str(caught.value).startswith(f"{target}: error: cannot be written: No space left")
    assert target.read_bytes() == b"old"
    assert listing(tmp_path) == ["model.tosa"]


def test_a_check_that_fails_leaves_only_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "model.tosa"
    target.write_bytes(b"old")

    def check(beside: str) -> None:
        assert Path(beside).read_bytes() == b"new"
        assert target.read_bytes() == b"old"
        raise Boom

    with pytest.raises(Boom):
        replace_file(target, [b"new"], check)
    assert target.read_bytes() == b"old"
    assert listing(tmp_path) == ["model.tosa"]


@POSIX
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o440])
def test_permissions_of_the_old_file_are_kept(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "model.tosa"
    target.write_bytes(b"old")
    target.chmod(mode)
    replace_file(target, [b"new"])
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == mode


@POSIX
def test_a_new_file_has_the_permissions_that_any_new_file_has(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    replace_file(tmp_path / "ours", [b"new"])
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1


@POSIX
def test_a_symbolic_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "model.tosa"
    target.write_bytes(b"old")
    link = tmp_path / "link.tosa"
    link.symlink_to(target)
    replace_file(link, [b"new"])
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    dangling = tmp_path / "dangling.tosa"
    dangling.symlink_to(tmp_path / "real" / "made.tosa")
    replace_file(dangling, [b"made"])
    assert dangling.is_symlink()
    assert (tmp_path / "real" / "made.tosa").read_bytes() == b"made"
    assert listing(tmp_path / "real") == ["made.tosa", "model.tosa"]


@POSIX
def test_a_fifo_is_written_into_and_stays_a_fifo(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(fifo.read_bytes()))
    reader.start()
    payload = bytes(range(256)) * 4096
    assert replace_file(fifo, [payload, b"end"]) == len(payload) + 3
    reader.join(20)
    assert found == [payload + b"end"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert listing(tmp_path) == ["pipe"]


@POSIX
def test_a_device_is_written_into(tmp_path: Path) -> None:
    assert replace_file("/dev/null", [b"new"]) == 3
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    if os.path.exists("/dev/full"):
        with pytest.raises(TosaConvertError, match="No space left"):
            replace_file("/dev/full", [b"new"])


@POSIX
@NOT_ROOT
def test_a_folder_that_may_not_be_written_is_an_expected_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(TosaConvertError, match="Permission denied") as caught:
            replace_file(tmp_path / "model.tosa", [b"new"])
    finally:
        tmp_path.chmod(0o700)
    assert caught.value.code == "file-error"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("path", ["missing/model.tosa", "file/model.tosa", "folder"])
def test_a_path_at_which_no_file_can_be_written_is_an_expected_error(
    tmp_path: Path, path: str
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "folder").mkdir()
    with refused("file-error", str(tmp_path / path)):
        replace_file(tmp_path / path, [b"new"])
    assert listing(tmp_path) == ["file", "folder"]


def test_a_file_with_a_long_name_can_be_replaced(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 250 + ".tosa")
    replace_file(target, [b"new"])
    assert listing(tmp_path) == [target.name]


def test_a_file_with_a_long_name_of_wide_characters_can_be_replaced(tmp_path: Path) -> None:
    # 255 bytes are the limit, not characters.
    target = tmp_path / ("\N{GRINNING FACE}" * 62 + ".tosa")
    replace_file(target, [b"new"])
    assert listing(tmp_path) == [target.name]


def test_many_writers_of_one_file_leave_one_of_their_files(tmp_path: Path) -> None:
    target = tmp_path / "model.tosa"
    contents = [bytes([value]) * 300_000 for value in range(8)]
    threads = [
        threading.Thread(target=replace_file, args=(target, [content])) for content in contents
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_bytes() in contents
    assert listing(tmp_path) == ["model.tosa"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
def test_a_temporary_file_that_is_taken_for_a_leftover_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, calls = tmp_path / "model.tosa", []
    real = temporary.hold

    def hold(opened: int | str | os.PathLike[str]) -> int:
        calls.append(opened)
        if len(calls) == 1:
            temporary.remove_left.__wrapped__(str(tmp_path))
            assert listing(tmp_path) == []
        return real(opened)

    monkeypatch.setattr(temporary, "hold", hold)
    assert replace_file(target, [b"content"]) == 7
    assert target.read_bytes() == b"content"
    assert len(calls) == 2


def test_a_mapped_file_may_be_replaced_while_it_is_read(tmp_path: Path) -> None:
    target = tmp_path / "model.tosa"
    target.write_bytes(b"old" * 1000)
    view = map_file(target)
    replace_file(target, [b"new"])
    assert bytes(view) == b"old" * 1000
    assert bytes(map_file(target)) == b"new"


def test_a_mapped_file_cannot_be_changed_through_the_view(tmp_path: Path) -> None:
    target = tmp_path / "model.tosa"
    target.write_bytes(b"old")
    assert map_file(target).readonly


def test_an_empty_file_and_a_pipe_are_read(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert bytes(map_file(tmp_path / "empty")) == b""
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"abc",))
        writer.start()
        assert bytes(map_file(tmp_path / "pipe")) == b"abc"
        writer.join()


@pytest.mark.parametrize("path", ["missing", ".", "missing/x"])
def test_what_cannot_be_read_is_an_expected_error(tmp_path: Path, path: str) -> None:
    with refused("file-error", match="cannot be read") as caught:
        map_file(tmp_path / path)
    assert caught.value.findings[0].where == str(tmp_path / path)


@pytest.mark.parametrize("path", ["a\0b", "half\ud800"])
def test_a_path_that_no_file_can_have_is_an_expected_error(tmp_path: Path, path: str) -> None:
    with refused("file-error"):
        map_file(path)
    with refused("file-error"):
        replace_file(path, [b"new"])


def test_small_pieces_are_gathered_and_large_ones_are_not_copied() -> None:
    large = bytes(files.GATHER_BYTES)
    pieces = [b"a", b"b", large, b"c", b"", large, large, b"d"]
    found = list(gathered(pieces))
    assert b"".join(found) == b"".join(pieces)
    assert [piece is large for piece in found] == [False, True, False, True, True, False]
    many = list(gathered([b"x" * 1000] * 5000))
    assert sum(map(len, many)) == 5_000_000
    assert len(many) == 5


def test_a_write_that_takes_only_a_part_is_continued() -> None:
    class Slow(io.RawIOBase):
        def __init__(self) -> None:
            self.written = bytearray()

        def write(self, piece: Any) -> int:
            self.written += bytes(piece[:7])
            return min(7, len(piece))

    file = Slow()
    assert write_pieces(file, [b"0123456789" * 3, b"end"]) == 33  # type: ignore[arg-type]
    assert file.written == b"0123456789" * 3 + b"end"


def test_a_writer_that_calls_back_fails_like_any_other(tmp_path: Path) -> None:
    target = tmp_path / "model.tosa"

    def two(sink: files.Sink) -> None:
        sink.write(b"ab")
        sink.write(b"c")

    assert replace_file(target, two) == 3
    assert target.read_bytes() == b"abc"

    class Broken(io.RawIOBase):
        def write(self, piece: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    calls: list[int] = []

    def writer(sink: files.Sink) -> None:
        # Foreign code cannot handle an exception, so `write` reports success to it.
        calls.extend(sink.write(b"abc") for _ in range(3))

    with pytest.raises(OSError, match="No space left"):
        write_pieces(Broken(), writer)  # type: ignore[arg-type]
    assert calls == [3, 3, 3]


def test_one_file_is_recognised_under_every_name(tmp_path: Path) -> None:
    one = tmp_path / "one"
    one.write_bytes(b"")
    assert same_file(one, tmp_path / "." / "one")
    assert not same_file(one, tmp_path / "other")
    assert not same_file(tmp_path / "other", tmp_path / "other")
    if os.name == "posix":
        (tmp_path / "link").symlink_to(one)
        os.link(one, tmp_path / "hard")
        assert same_file(one, tmp_path / "link")
        assert same_file(one, tmp_path / "hard")


@pytest.mark.parametrize(
    ("path", "problem"),
    [("a\0b", "it contains a NUL byte"), ("a\ud800b", "it contains a character that")],
)
def test_an_invalid_path_is_refused_with_the_reason(path: str, problem: str) -> None:
    for use in (map_file, lambda path: replace_file(path, [b"x"])):
        with refused("file-error", match=f"invalid path: {problem}") as caught:
            use(path)
        assert caught.value.findings[0].where == ascii(path)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away"
)
def test_the_owner_and_the_group_of_a_replaced_file_stay(tmp_path: Path) -> None:
    target = tmp_path / "model.tosa"
    target.write_bytes(b"old")
    os.chown(target, 1234, 1235)
    target.chmod(0o4640)
    replace_file(target, [b"new"])
    status = target.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 1235, 0o4640)
    assert target.read_bytes() == b"new"


@POSIX
def test_the_group_stays_where_the_owner_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "model.tosa"
    target.write_bytes(b"old")
    tried: list[tuple[int, int]] = []

    def refuse_others(descriptor: int, owner: int, group: int) -> None:
        tried.append((owner, group))
        if owner != -1:
            raise PermissionError(errno.EPERM, "Operation not permitted")

    real = os.fstat

    def of_another(descriptor: int) -> os.stat_result:
        found = list(real(descriptor))
        found[stat.ST_UID] += 1
        return os.stat_result(found)

    monkeypatch.setattr(os, "fchown", refuse_others)
    monkeypatch.setattr(os, "fstat", of_another)
    replace_file(target, [b"new"])
    assert tried == [(target.stat().st_uid, target.stat().st_gid), (-1, target.stat().st_gid)]
    assert target.read_bytes() == b"new"
