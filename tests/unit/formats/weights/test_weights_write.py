"""Writing a folder of weights: file names, replacing a folder, and what is refused."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusing import refused
from unit.building import region
from unit.weights_folder import (
    entries,
    flat,
    one,
    several,
    snapshot,
)

from tosa_convert.formats.weights import folder as manifest
from tosa_convert.formats.weights import npy
from tosa_convert.formats.weights.read import read
from tosa_convert.formats.weights.write import NAME_LENGTH, write
from tosa_convert.graph import Constant, compare, dtype
from tosa_convert.graph.model import Tensor


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("conv1/weights", "conv1_weights"),
        ("a.b-c+d_e", "a.b-c+d_e"),
        ("", "_"),
        (".", "_"),
        ("..", "_"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("C:\\x", "C_x"),
        ("-rf", "rf"),
        (".hidden", "hidden"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("Lpt9", "_Lpt9"),
        ("console", "console"),
        ("a\0b\nc", "a_b_c"),
        ("a b.", "a_b"),
        ("größe", "gr_e"),
        ("重み", "_"),
        ("a\udcff", "a_"),
        ("x" * 500, "x" * NAME_LENGTH),
    ],
)
def test_file_names_contain_the_tensor_name_and_are_safe_on_every_system(
    name: str, file: str, folder: Path
) -> None:
    made = several(name)
    apart = write(made, folder)
    assert set(snapshot(folder)) == {f"{file}.npy", "manifest.json"}
    assert manifest.is_safe(f"{file}.npy")
    assert compare(read(apart, folder), made) is None


@pytest.mark.slow
@given(st.lists(st.text(max_size=8), unique=True, max_size=12))
def test_any_names_come_back(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    folder = tmp_path_factory.mktemp("names") / "w"
    made = several(*names)
    assert flat(read(write(made, folder), folder)) == flat(made)
    assert len({row["file"].lower() for row in entries(folder)}) == len(names)


@pytest.mark.slow
def test_thousands_of_equal_names_take_linear_time(folder: Path) -> None:
    made = several(*("?" * (i + 1) for i in range(3000)))
    write(made, folder)
    assert len(entries(folder)) == 3000


def test_progress_is_reported_up_to_the_total(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    made = several("a", "b")
    write(made, folder, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(8, 16), (16, 16)]


def test_an_empty_folder_is_filled(folder: Path) -> None:
    folder.mkdir()
    write(several("a"), folder)
    assert len(entries(folder)) == 1


def test_a_folder_of_arrays_without_a_manifest_is_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / "a.npy").write_bytes(b"precious")
    with refused("foreign-folder"):
        write(several("a"), folder)
    assert snapshot(folder) == {"a.npy": b"precious"}


def test_a_file_in_place_of_the_folder_is_left_alone(folder: Path) -> None:
    folder.write_bytes(b"precious")
    with refused("foreign-folder"):
        write(several("a"), folder)
    assert folder.read_bytes() == b"precious"


class _Interrupted(Exception):
    pass


def interrupt(done: int, total: int) -> None:
    if done == total:
        raise _Interrupted


@pytest.mark.parametrize("there", [False, True])
def test_a_write_that_fails_leaves_everything_as_it_was(there: bool, folder: Path) -> None:
    if there:
        write(several("a"), folder)
    before = snapshot(folder) if there else None
    with pytest.raises(_Interrupted):
        write(several("b", "c"), folder, progress=interrupt)
    assert (snapshot(folder) if folder.exists() else None) == before
    assert [path.name for path in folder.parent.iterdir()] == ([folder.name] if there else [])


def test_a_rename_that_fails_puts_the_old_folder_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(several("a"), folder)
    before = snapshot(folder)
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name.endswith(".part"):
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    monkeypatch.setattr("tosa_convert.formats.weights.folder._exchanged", lambda one, other: False)
    with refused("file-error"):
        write(several("b"), folder)
    assert snapshot(folder) == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_parent_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    with refused("file-error"):
        write(several("a"), tmp_path / "no" / "such")


def test_more_dimensions_than_an_array_has_are_refused(folder: Path) -> None:
    with refused("unsupported-shape"):
        write(one("INT8", (1,) * (npy.MAX_RANK + 1), b"\1"), folder)


def test_two_blocks_of_one_name_are_refused(folder: Path) -> None:
    made = several("a")
    made.regions.append(region("main", "", "", [], []))
    made.regions[1].blocks[0].name = "main"
    with refused("duplicate-name"):
        write(made, folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["INT8", "INT4", "FP6E2M3", "BOOL", "INT48"])
def test_weights_are_written_and_read_without_a_copy_of_them(kind: str, folder: Path) -> None:
    row = dtype(kind)
    count = 1 << 23
    made = one("INT8", (1,), b"\1")
    made.main.tensors["w"] = Tensor("w", row, (count,))
    buffer = bytes(row.wire_bytes(count))
    made.main.tensors["w"].data = Constant(row, count, buffer)
    tracemalloc.start()
    apart = write(made, folder)
    written = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    read(apart, folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Blocks of a million elements, and the temporaries of their conversion.
    assert written < 40 << 20
    # INT4 and INT48 are packed; nothing else is copied.
    packed = len(buffer) if kind in ("INT4", "INT48") else 0
    assert peak < (40 << 20) + 2 * packed
