"""Reading a folder of weights: .npy files that are damaged, missing, linked or changed."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusing import refused
from unit.building import tensor
from unit.weights_folder import (
    data_of,
    edit_entry,
    flat,
    one,
    refusal,
    several,
)

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.weights import folder as folders
from tosa_convert.formats.weights.read import read
from tosa_convert.formats.weights.write import strip, write
from tosa_convert.graph import dtype


def npy_file(descr: str = "'<i4'", order: str = "False", dims: str = "(2,)") -> bytes:
    """Return a header like numpy's with these values in it, before 8 bytes of elements."""
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {dims}, }}"
    return npy_text(text)


def npy_text(text: str) -> bytes:
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text.encode("latin-1") + bytes(8)


def test_the_file_that_these_tests_damage_is_sound(folder: Path) -> None:
    apart = write(one("INT32", (2,), bytes(8)), folder)
    (folder / "w.npy").write_bytes(npy_file())
    read(apart, folder)


@pytest.mark.parametrize(
    ("raw", "code", "message"),
    [
        (b"", "malformed-weights", "which is not an .npy file"),
        (b"\x93NUMP", "malformed-weights", "which is not an .npy file"),
        (b"\x93NUMPY\1", "malformed-weights", "which is not an .npy file"),
        (b"PK\3\4" + bytes(100), "malformed-weights", "which is not an .npy file"),
        (b"\x93NUMPY\3\0" + bytes(100), "malformed-weights", "its format is 3.0"),
        (b"\x93NUMPY\1\1" + bytes(100), "malformed-weights", "its format is 1.1"),
        (b"\x93NUMPY\1\0\1", "malformed-weights", "within its header"),
        (b"\x93NUMPY\2\0\1\0\0", "malformed-weights", "within its header"),
        (b"\x93NUMPY\1\0\xff\xff{", "malformed-weights", "its header has 65535 bytes"),
        (b"\x93NUMPY\2\0\xff\xff\xff\xff{", "malformed-weights", "its header has 4294967295"),
        (npy_text("{'descr': '<i4', \xe9}"), "malformed-weights", "not ASCII"),
        (npy_text(""), "malformed-weights", "not that of an array"),
        (npy_text("{}"), "malformed-weights", "not that of an array"),
        (npy_text("{'descr': '<i4', 'shape': (2,)}"), "malformed-weights", "not that of an array"),
        (npy_text("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), 'x': True}"),
         "malformed-weights", "not that of an array"),
        (npy_text("{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': (2,)}"),
         "malformed-weights", "not that of an array"),
        (npy_text("{'descr': '<i4' 'fortran_order': False, 'shape': (2,)}"),
         "malformed-weights", "not that of an array"),
        (npy_text("__import__('os').system('true')"), "malformed-weights", "not that of an array"),
        (npy_text("(" * 5000), "malformed-weights", "not that of an array"),
        (npy_text("{" + "'a':" * 3000), "malformed-weights", "not that of an array"),
        (npy_text("-" * 15000), "malformed-weights", "not that of an array"),
        (npy_file("[('a', '<i4')]"), "malformed-weights", "not that of an array"),
        (npy_file("'|O'"), "mismatched-weights", "its type is '|O'"),
        (npy_file("'>i4'"), "mismatched-weights", "its type is '>i4'"),
        (npy_file("'<f4'"), "mismatched-weights", "INT32 is stored as '<i4'"),
        (npy_file("True"), "malformed-weights", "not that of an array"),
        (npy_file(order="True"), "malformed-weights", "Fortran order"),
        (npy_file(order="'x'"), "malformed-weights", "not that of an array"),
        (npy_file(order="1"), "malformed-weights", "not that of an array"),
        (npy_file(dims="(3,)"), "mismatched-weights", "its shape is [3], expected [2]"),
        (npy_file(dims="(2, 1)"), "mismatched-weights", "its shape is [2, 1]"),
        (npy_file(dims="()"), "mismatched-weights", "its shape is []"),
        (npy_file(dims="(-2,)"), "malformed-weights", "not that of an array"),
        (npy_file(dims="(2L,)"), "malformed-weights", "not that of an array"),
        (npy_file(dims="(,)"), "malformed-weights", "not that of an array"),
        (npy_file(dims="(2,,)"), "malformed-weights", "not that of an array"),
        (npy_file(dims="(1 2)"), "malformed-weights", "not that of an array"),
        (npy_file(dims=f"({'9' * 5000},)"), "malformed-weights", "not that of an array"),
        (npy_file(dims=f"({'1,' * 33})"), "malformed-weights", "not that of an array"),
        (npy_file(dims="'(2,)'"), "malformed-weights", "not that of an array"),
        (npy_file() + b"\0", "malformed-weights", "9 bytes after the header"),
        (npy_file()[:-1], "malformed-weights", "7 bytes after the header"),
    ],
)  # fmt: skip
def test_a_file_without_the_expected_array_is_refused(
    raw: bytes, code: str, message: str, folder: Path
) -> None:
    apart = write(one("INT32", (2,), bytes(8)), folder)
    (folder / "w.npy").write_bytes(raw)
    for accept in (False, True):
        error = refusal(apart, folder, accept_changed=accept)
        assert error.code == code
        assert message in str(error)
        assert "w.npy" in str(error)
        assert len(str(error)) < 1000


def test_a_missing_file_is_named(folder: Path) -> None:
    apart = write(several("a", "b"), folder)
    (folder / "b.npy").unlink()
    error = refusal(apart, folder)
    assert error.code == "missing-data"
    assert "b.npy" in str(error)


def test_findings_about_several_files_are_reported_together(folder: Path) -> None:
    apart = write(several("a", "b", "c"), folder)
    (folder / "a.npy").unlink()
    (folder / "b.npy").write_bytes(b"")
    assert len(refusal(apart, folder).findings) == 2


needs_links = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows needs a privilege to make symbolic links"
)


@needs_links
@pytest.mark.parametrize("name", ["a.npy", "manifest.json"])
def test_a_link_is_followed_only_inside_the_folder(name: str, folder: Path) -> None:
    apart = write(several("a"), folder)
    elsewhere = folder.parent / "elsewhere"
    (folder / name).rename(elsewhere)
    (folder / name).symlink_to(elsewhere)
    error = refusal(apart, folder)
    assert error.code == "unsafe-path"
    assert f"leads to {elsewhere.resolve()}" in str(error)
    (folder / name).unlink()
    elsewhere.rename(folder / "elsewhere")
    (folder / name).symlink_to("elsewhere")
    assert read(apart, folder).main.tensors["a"].data is not None


@needs_links
def test_a_link_that_takes_a_files_place_at_the_last_moment_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(several("a"), folder)
    (folder / "a.npy").rename(folder.parent / "elsewhere")
    (folder / "a.npy").symlink_to(folder.parent / "elsewhere")
    monkeypatch.setattr(folders, "size_of", lambda folder, name: 8)
    monkeypatch.setattr(folders, "_followed", lambda folder, name: os.fspath(folder / name))
    with refused("file-error"):
        folders.view(folder, "a.npy", mapped=True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_place_of_a_file_is_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = write(several("a"), folder)
    (folder / "a.npy").unlink()
    os.mkfifo(folder / "a.npy")
    assert refusal(apart, folder).code == "unsafe-path"
    monkeypatch.setattr(folders, "size_of", lambda folder, name: 8)
    with refused("unsafe-path"):
        folders.view(folder, "a.npy", mapped=True)


def test_an_error_of_the_system_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = write(several("a"), folder)

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    for name in ("open", "lstat"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, denied)
            error = refusal(apart, folder)
        assert error.code == "file-error"
        assert "Permission denied" in str(error)


def test_a_folder_in_place_of_a_file_is_refused(folder: Path) -> None:
    apart = write(several("a"), folder)
    (folder / "a.npy").unlink()
    (folder / "a.npy").mkdir()
    assert refusal(apart, folder).code == "unsafe-path"


@needs_links
def test_the_folder_itself_may_be_a_link(folder: Path) -> None:
    made = several("a")
    write(made, folder)
    link = folder.parent / "link"
    link.symlink_to(folder, target_is_directory=True)
    apart = write(made, link)
    assert link.is_symlink()
    assert flat(read(apart, link)) == flat(made)


@pytest.mark.parametrize(
    ("kind", "elements", "code"),
    [
        ("INT4", np.array([1, -8], "|i1"), "int4-minus-8"),
        ("INT4", np.array([1, 8], "|i1"), "value-out-of-range"),
        ("INT4", np.array([1, -128], "|i1"), "value-out-of-range"),
        ("INT48", np.array([1, 2**47], "<i8"), "value-out-of-range"),
        ("INT48", np.array([1, -(2**47) - 1], "<i8"), "value-out-of-range"),
        ("BOOL", np.array([1, 2], "|u1").view("|b1"), "value-out-of-range"),
        ("FP4E2M1", np.array([1, 16], "|u1"), "value-out-of-range"),
        ("FP6E3M2", np.array([1, 64], "|u1"), "value-out-of-range"),
    ],
)
def test_a_value_that_the_type_does_not_have_is_refused(
    kind: str, elements: Any, code: str, folder: Path
) -> None:
    apart = write(one(kind, (2,), bytes(dtype(kind).wire_bytes(2))), folder)
    np.save(folder / "w.npy", elements)
    edit_entry(folder, sha256=hashlib.sha256(elements.tobytes()).hexdigest())
    error = refusal(apart, folder)
    assert error.code == code
    assert "w.npy" in str(error)


@pytest.mark.parametrize(
    ("kind", "elements", "packed"),
    [
        ("INT4", np.array([-7, 7, -1], "|i1"), b"\x79\x0f"),
        (
            "INT48",
            np.array([-(2**47), 2**47 - 1], "<i8"),
            b"\0\0\0\0\0\x80" + b"\xff" * 5 + b"\x7f",
        ),
        ("BOOL", np.array([False, True]), b"\0\1"),
        ("FP4E2M1", np.array([15, 1], "|u1"), b"\x1f"),
        ("FP6E3M2", np.array([63, 1], "|u1"), b"\x7f\0"),
    ],
)
def test_the_extreme_values_of_a_type_are_read(
    kind: str, elements: Any, packed: bytes, folder: Path
) -> None:
    count = len(elements)
    apart = write(one(kind, (count,), bytes(dtype(kind).wire_bytes(count))), folder)
    np.save(folder / "w.npy", elements)
    found = read(apart, folder, accept_changed=True)
    assert data_of(found).packed().tobytes() == packed


def test_changed_weights_are_refused_unless_they_are_accepted(folder: Path) -> None:
    apart = write(several("a", "b"), folder)
    np.save(folder / "b.npy", np.array([5, 6], "<i4"))
    error = refusal(apart, folder)
    assert error.code == "changed-weights"
    assert "b.npy" in str(error)
    assert "a.npy" not in str(error)
    found = read(apart, folder, accept_changed=True)
    assert data_of(found, "b").numpy().tolist() == [5, 6]


def test_weights_are_read_only_when_they_are_used_if_changes_are_accepted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = write(several("a"), folder)

    def unwanted(*_: object) -> None:
        raise AssertionError("the elements were read")

    monkeypatch.setattr("tosa_convert.formats.weights.read.hashlib.sha256", unwanted)
    read(apart, folder, accept_changed=True)


def test_large_files_are_mapped_and_stay_readable_when_the_folder_is_gone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows does not remove files that are mapped")
    monkeypatch.setattr(folders, "MAP_BYTES", 0)
    made = several("a")
    found = read(write(made, folder), folder)
    assert type(data_of(found, "a").buffer.obj).__name__ == "mmap"
    write(several("b"), folder)
    assert flat(found) == flat(made)


def test_no_more_files_are_mapped_than_a_process_may_have_open(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MAP_BYTES", 0)
    monkeypatch.setattr("tosa_convert.formats.weights.read.files_to_map", lambda: 1)
    made = several("a", "b", "c")
    made.main.tensors["b"] = tensor("b", "INT32", (3,), bytes(12))
    found = read(write(made, folder), folder)
    kinds = {name: type(data_of(found, name).buffer.obj).__name__ for name in "abc"}
    # The largest files are mapped first.
    assert kinds == {"a": "bytes", "b": "mmap", "c": "bytes"}
    assert flat(found) == flat(made)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not limit open files")
@pytest.mark.parametrize(
    ("limit", "keeps_open", "expected"),
    [(1024, True, 512), (7, True, 3), (-1, True, sys.maxsize), (1024, False, sys.maxsize)],
)
def test_at_most_half_of_the_files_that_a_process_can_open_are_mapped(
    limit: int, keeps_open: bool, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    monkeypatch.setattr(folders, "_KEEPS_OPEN", keeps_open)
    monkeypatch.setattr(resource, "RLIM_INFINITY", -1)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    assert folders.files_to_map() == expected


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not limit open files")
def test_more_weights_than_a_process_can_open_files_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    monkeypatch.setattr(folders, "MAP_BYTES", 0)
    made = several(*(f"w{number}" for number in range(400)))
    apart = write(made, folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * used + 50, hard))
    try:
        found = read(apart, folder)
        with open(os.devnull, "rb"):
            assert flat(found) == flat(made)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@given(st.binary(min_size=1, max_size=8), st.integers(0, 140))
def test_a_damaged_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, damage: bytes, at: int
) -> None:
    folder = tmp_path_factory.mktemp("damage") / "w"
    apart = write(one("INT32", (2,), bytes(8)), folder)
    for name in ("w.npy", "manifest.json"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:at] + damage + whole[at + len(damage) :])
        try:
            found = read(apart, folder, accept_changed=True)
        except TosaConvertError:
            continue
        finally:
            (folder / name).write_bytes(whole)
        assert data_of(found).count == 2


def test_weights_can_be_put_back_into_a_stripped_program(folder: Path) -> None:
    made = one("INT8", (64,), bytes(range(64)))
    write(made, folder)
    assert flat(read(strip(made), folder)) == flat(made)
