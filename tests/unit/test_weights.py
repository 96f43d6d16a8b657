"""Constants in a folder of .npy files: out, back in, and everything that may be wrong with one."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.building import PRODUCER, counting, example, graph, op, region, tensor

from tosa_convert.errors import MAX_FINDINGS, TosaConvertError
from tosa_convert.flatbuffer.write import plan
from tosa_convert.graph import DTYPES, Constant, DType, Graph, compare, dtype
from tosa_convert.graph.dtypes import BlockShape
from tosa_convert.graph.model import BlockScale, Tensor
from tosa_convert.options import Limits
from tosa_convert.weights import folder as folders
from tosa_convert.weights import manifest, npy
from tosa_convert.weights.read import read
from tosa_convert.weights.strip import strip
from tosa_convert.weights.write import NAME_LENGTH, write

Json = Any

#: numpy's own reader and writer of .npy files, which has no types.
numpy_format: Any = np.lib.format


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "m.weights"


def one(kind: str, dims: tuple[int, ...], data: bytes, name: str = "w") -> Graph:
    """A graph of one constant."""
    return graph("", name, [tensor(name, kind, dims, data)], [op("CONST", "", name)])


def several(*names: str) -> Graph:
    """A graph of constants of these names; the first element of each is its position."""
    values: list[Any] = [
        tensor(name, "INT32", (2,), bytes([i % 256, 0, 0, 0] * 2)) for i, name in enumerate(names)
    ]
    made = graph("", "", values, [])
    made.main.operators = [op("CONST") for _ in names]
    for row, name in zip(made.main.operators, names, strict=True):
        row.outputs = (name,)
    return made


def scaled() -> Graph:
    """A block-scaled constant."""
    value = tensor("w", "FP4E2M1", (2, 32), bytes(range(32)))
    value.scale = BlockScale(
        dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32, Constant(dtype("FP8UE8M0"), 2, b"\x7f\x80")
    )
    return graph("", "w", [value], [op("CONST", "", "w")])


def flat(made: Graph) -> bytes:
    """Everything of a graph, padding and unused values included."""
    return b"".join(plan(made, PRODUCER).pieces())


def data_of(made: Graph, name: str = "w") -> Constant:
    found = made.main.tensors[name].data
    assert found is not None
    return found


def entries(folder: Path) -> Json:
    return json.loads((folder / "manifest.json").read_text())["constants"]


def edit(folder: Path, change: Callable[[Json], None]) -> None:
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def edit_entry(folder: Path, **fields: Any) -> None:
    edit(folder, lambda content: content["constants"][0].update(fields))


def refused(made: Graph, folder: Path, **options: Any) -> TosaConvertError:
    with pytest.raises(TosaConvertError) as caught:
        read(made, folder, **options)
    return caught.value


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def every_bit(row: DType) -> bytes:
    """Unpacked elements with every bit pattern of 8 bits or less, and many of the others."""
    count = 1 << min(row.bits, 8)
    raw = np.random.default_rng(5).integers(0, 256, (count, row.element_bytes)).astype(np.uint8)
    raw[:, 0] = np.arange(count)
    if row.name == "BOOL":
        raw &= 1
    if row.name == "INT4":
        raw[8] = 7
    if row.bits == 16:
        # NaNs with payloads of FP16 and BF16, -0, infinity.
        raw[:6] = [[1, 0x7C], [1, 0xFE], [0x81, 0x7F], [1, 0xFF], [0, 0x80], [0, 0x7C]]
    if row.bits == 32:
        raw[:3] = [[1, 0, 0x80, 0x7F], [1, 0, 0xC0, 0xFF], [0, 0, 0, 0x80]]
    return raw.tobytes()


def forms(row: DType) -> Iterator[Constant]:
    """The same elements in every form a constant may have."""
    raw = every_bit(row)
    count = len(raw) // row.element_bytes
    unpacked = Constant(row, count, raw, unpacked=row.is_packed)
    yield unpacked
    if row.is_packed:
        yield Constant(row, count, unpacked.packed())


# -- there and back -----------------------------------------------------------------------------


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_every_bit_of_every_type_comes_back(row: DType, folder: Path) -> None:
    files = []
    for constant in forms(row):
        made = one(row.name, (constant.count,), constant.packed().tobytes())
        made.main.tensors["w"].data = constant
        before = flat(made)
        found = read(write(made, folder), folder)
        assert flat(found) == before == flat(made)
        assert compare(made, found) is None
        files.append(snapshot(folder))
    # The form in memory makes no difference to the files.
    assert all(row == files[0] for row in files)


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_splats_are_expanded(row: DType, folder: Path) -> None:
    made = one(row.name, (3, 5), bytes(row.wire_bytes(15)))
    element = every_bit(row)[row.element_bytes : 2 * row.element_bytes]
    made.main.tensors["w"].data = Constant(row, 15, element, splat=True)
    found = read(write(made, folder), folder)
    assert flat(found) == flat(made)
    loaded = np.load(folder / "w.npy", allow_pickle=False)
    assert loaded.shape == (3, 5)
    assert loaded.tobytes() == loaded.tobytes()[: loaded.itemsize] * 15


@pytest.mark.parametrize("kind", ["INT4", "FP4E2M1", "FP6E2M3", "FP6E3M2"])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
def test_odd_counts_of_packed_elements_come_back(kind: str, count: int, folder: Path) -> None:
    row = dtype(kind)
    made = one(kind, (count,), bytes(row.wire_bytes(count)))
    elements = bytes(i % 7 + 1 for i in range(count))
    made.main.tensors["w"].data = Constant(row, count, elements, unpacked=True)
    assert flat(read(write(made, folder), folder)) == flat(made)


@pytest.mark.parametrize("dims", [(), (1,), (1, 1, 1), (2, 3)])
def test_every_rank_comes_back(dims: tuple[int, ...], folder: Path) -> None:
    made = one("FP32", dims, np.arange(np.prod(dims), dtype="<f4").tobytes())
    assert flat(read(write(made, folder), folder)) == flat(made)
    assert np.load(folder / "w.npy").shape == dims


def test_empty_constants_stay_in_the_program(folder: Path) -> None:
    made = one("FP32", (2, 0), b"")
    found = write(made, folder)
    assert data_of(found).count == 0
    assert entries(folder) == []
    assert flat(read(found, folder)) == flat(made)


def test_scales_of_block_scaled_constants_come_back(folder: Path) -> None:
    made = scaled()
    apart = write(made, folder)
    assert apart.main.tensors["w"].data is None
    assert apart.main.tensors["w"].scale is not None
    assert apart.main.tensors["w"].scale.data is None
    assert sorted(snapshot(folder)) == ["manifest.json", "w.npy", "w.scale.npy"]
    assert np.load(folder / "w.scale.npy").tolist() == [0x7F, 0x80]
    found = read(apart, folder)
    assert flat(found) == flat(made)
    assert compare(made, found) is None


def test_initial_values_of_variables_come_back(folder: Path) -> None:
    made = counting()
    apart = write(made, folder)
    assert apart.main.tensors["v"].data is None
    assert flat(read(apart, folder)) == flat(made)


def test_the_same_name_in_two_regions_is_two_constants(folder: Path) -> None:
    made = one("INT8", (1,), b"\1")
    inner = [tensor("w", "INT8", (1,), b"\2")]
    made.regions.append(region("other", "", "w", list(inner), [op("CONST", "", "w")]))
    apart = write(made, folder)
    assert [(row["region"], row["file"]) for row in entries(folder)] == [
        ("main", "w.npy"),
        ("other", "w-2.npy"),
    ]
    assert flat(read(apart, folder)) == flat(made)


def test_padding_of_a_flatbuffer_comes_back(folder: Path) -> None:
    made = one("INT8", (3,), b"\1\2\3")
    made.main.tensors["w"].data = Constant(dtype("INT8"), 3, b"\1\2\3", padding=5)
    assert flat(read(write(made, folder), folder)) == flat(made)


def test_sizes_of_shapes_stay_in_the_program(folder: Path) -> None:
    apart = write(example(), folder)
    assert apart.main.shapes["to"].values() == (3,)
    assert [row["tensor"] for row in entries(folder)] == ["w"]


def test_what_is_written_is_what_numpy_has_for_it(folder: Path) -> None:
    values = [
        tensor("bool", "BOOL", (2,), b"\0\2"),
        tensor("int4", "INT4", (3,), b"\xe1\x07"),
        tensor("int48", "INT48", (2,), b"\xff" * 6 + b"\0\0\0\0\0\x40"),
        tensor("half", "FP16", (1,), b"\0\x3c"),
        tensor("brain", "BF16", (1,), b"\x80\x3f"),
        tensor("fp6", "FP6E2M3", (3,), b"\x08\xec\x01"),
        tensor("mx", "MXINT8", (1,), b"\xff"),
    ]
    made = graph("", "", list(values), [op("CONST", "", value.name) for value in values])
    write(made, folder)
    found = {row.name: np.load(folder / f"{row.name}.npy", allow_pickle=False) for row in values}
    assert found["bool"].tolist() == [False, True]
    assert found["int4"].tolist() == [1, -2, 7]
    assert found["int48"].tolist() == [-1, 2**46]
    assert found["half"].tolist() == [1.0]
    assert found["brain"].tolist() == [0x3F80]
    assert found["fp6"].tolist() == [0x08, 0x30, 0x1E]
    assert found["mx"].tolist() == [0xFF]


def test_the_header_is_one_that_numpy_writes_and_reads(tmp_path: Path) -> None:
    for row in DTYPES:
        for dims in [(), (7,), (2, 3, 4), (2**31 - 1,) * 6, (1,) * npy.MAX_RANK]:
            head = npy.header(row, dims)
            assert len(head) % 64 == 0
            path = tmp_path / "h.npy"
            path.write_bytes(head)
            with open(path, "rb") as file:
                assert numpy_format.read_magic(file) == (1, 0)
                assert numpy_format.read_array_header_1_0(file) == (
                    dims,
                    False,
                    np.dtype(npy.DESCR[row]),
                )
                assert file.tell() == len(head)


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_arrays_that_numpy_saves_are_read(version: tuple[int, int], folder: Path) -> None:
    apart = write(one("FP32", (2, 2), bytes(16)), folder)
    with open(folder / "w.npy", "wb") as file:
        numpy_format.write_array(file, np.eye(2, dtype="<f4"), version=version)
    found = read(apart, folder, accept_changed=True)
    assert data_of(found).numpy().tolist() == [1, 0, 0, 1]


def test_the_manifest_says_what_is_where(folder: Path) -> None:
    write(one("INT4", (3,), b"\xe1\x07"), folder, producer=PRODUCER)
    content = json.loads((folder / "manifest.json").read_text())
    array = np.load(folder / "w.npy")
    assert content == {
        "format": "tosa-convert weights",
        "version": 1,
        "producer": "test 1.2.3",
        "constants": [
            {
                "region": "main",
                "block": "main",
                "tensor": "w",
                "part": "data",
                "file": "w.npy",
                "dtype": "INT4",
                "shape": [3],
                "padding": 0,
                "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
            }
        ],
    }


# -- writing ------------------------------------------------------------------------------------


def test_the_graph_that_is_written_is_not_changed_and_shares_everything_else(folder: Path) -> None:
    made = example()
    before = flat(made)
    apart = write(made, folder)
    assert flat(made) == before
    assert made.main.tensors["w"].data is not None
    assert apart.main.operators is made.main.operators
    assert apart.main.tensors["x"] is made.main.tensors["x"]
    assert list(apart.main.tensors) == list(made.main.tensors)
    back = read(apart, folder)
    assert apart.main.tensors["w"].data is None
    assert back.main.operators is made.main.operators


def test_only_constants_larger_than_the_limit_are_written(folder: Path) -> None:
    made = several("a", "b")
    made.main.tensors["b"] = tensor("b", "INT32", (3,), bytes(12))
    apart = write(made, folder, larger_than=8)
    assert [row["tensor"] for row in entries(folder)] == ["b"]
    assert data_of(apart, "a").count == 2
    assert flat(read(apart, folder)) == flat(made)


def test_the_same_graph_has_the_same_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(several("a", "b", "é"), tmp_path / name)
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")


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
def test_file_names_tell_the_tensor_and_are_safe_on_every_system(
    name: str, file: str, folder: Path
) -> None:
    made = several(name)
    apart = write(made, folder)
    assert set(snapshot(folder)) == {f"{file}.npy", "manifest.json"}
    assert manifest.is_safe(f"{file}.npy")
    assert compare(read(apart, folder), made) is None


def test_names_that_would_be_one_file_get_numbers(folder: Path) -> None:
    names = ["a", "A", "a-2", "a/", "a_", "重", "み", "x" * 200, "x" * 201, "w.scale"]
    made = several(*names)
    apart = write(made, folder)
    files = [row["file"] for row in entries(folder)]
    assert len({file.lower() for file in files}) == len(names)
    assert files[:3] == ["a.npy", "A-2.npy", "a-2-2.npy"]
    assert flat(read(apart, folder)) == flat(made)


@given(st.lists(st.text(max_size=8), unique=True, max_size=12))
def test_any_names_come_back(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    folder = tmp_path_factory.mktemp("names") / "w"
    made = several(*names)
    assert flat(read(write(made, folder), folder)) == flat(made)
    assert len({row["file"].lower() for row in entries(folder)}) == len(names)


def test_thousands_of_equal_names_take_no_time_to_speak_of(folder: Path) -> None:
    made = several(*("?" * (i + 1) for i in range(3000)))
    write(made, folder)
    assert len(entries(folder)) == 3000


def test_progress_goes_from_nothing_to_all(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    made = several("a", "b")
    write(made, folder, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(8, 16), (16, 16)]


def test_a_folder_of_ours_is_replaced_whole(folder: Path) -> None:
    write(several("a", "b"), folder)
    made = several("b", "c")
    apart = write(made, folder)
    assert sorted(snapshot(folder)) == ["b.npy", "c.npy", "manifest.json"]
    assert flat(read(apart, folder)) == flat(made)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_an_empty_folder_is_filled(folder: Path) -> None:
    folder.mkdir()
    write(several("a"), folder)
    assert len(entries(folder)) == 1


def test_a_graph_can_be_written_over_the_files_it_is_read_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MAP_BYTES", 0)
    made = several("a", "b")
    back = read(write(made, folder), folder)
    again = write(back, folder)
    assert flat(back) == flat(made)
    assert flat(read(again, folder)) == flat(made)


@pytest.mark.parametrize("name", ["mine.txt", "other.npy", "sub"])
def test_a_folder_that_holds_anything_else_is_left_alone(name: str, folder: Path) -> None:
    write(several("a"), folder)
    if name == "sub":
        (folder / name).mkdir()
    else:
        (folder / name).write_bytes(b"precious")
    before = sorted(os.listdir(folder))
    with pytest.raises(TosaConvertError) as caught:
        write(several("b"), folder)
    assert caught.value.code == "foreign-folder"
    assert name in str(caught.value)
    assert sorted(os.listdir(folder)) == before


def test_a_folder_of_arrays_without_a_manifest_is_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / "a.npy").write_bytes(b"precious")
    with pytest.raises(TosaConvertError) as caught:
        write(several("a"), folder)
    assert caught.value.code == "foreign-folder"
    assert snapshot(folder) == {"a.npy": b"precious"}


def test_a_folder_with_a_manifest_of_somebody_else_is_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(TosaConvertError):
        write(several("a"), folder)
    assert snapshot(folder) == {"manifest.json": b"{}"}


def test_a_file_in_place_of_the_folder_is_left_alone(folder: Path) -> None:
    folder.write_bytes(b"precious")
    with pytest.raises(TosaConvertError) as caught:
        write(several("a"), folder)
    assert caught.value.code == "foreign-folder"
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
    monkeypatch.setattr("tosa_convert.weights.folder._exchanged", lambda one, other: False)
    with pytest.raises(TosaConvertError) as caught:
        write(several("b"), folder)
    assert caught.value.code == "file-error"
    assert snapshot(folder) == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_what_comes_into_the_old_folder_meanwhile_is_not_removed(folder: Path) -> None:
    write(several("a"), folder)

    def intrude(done: int, total: int) -> None:
        (folder / "late.txt").write_text("precious")

    write(several("b"), folder, progress=intrude)
    assert sorted(snapshot(folder)) == ["b.npy", "manifest.json"]
    (old,) = (path for path in folder.parent.iterdir() if path != folder)
    assert (old / "late.txt").read_text() == "precious"


def test_a_parent_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TosaConvertError) as caught:
        write(several("a"), tmp_path / "no" / "such")
    assert caught.value.code == "file-error"


def test_int4_minus_8_is_refused_before_anything_is_written(folder: Path) -> None:
    with pytest.raises(TosaConvertError) as caught:
        write(one("INT4", (2,), b"\x81"), folder)
    assert caught.value.code == "int4-minus-8"
    assert not folder.exists()


@pytest.mark.parametrize("dims", [(3,), (-1,), None])
def test_data_that_does_not_fit_its_shape_is_refused(
    dims: tuple[int, ...] | None, folder: Path
) -> None:
    made = one("INT8", (2,), b"\1\2")
    made.main.tensors["w"].shape = dims
    with pytest.raises(TosaConvertError) as caught:
        write(made, folder)
    assert caught.value.code == "data-length"


def test_more_dimensions_than_an_array_has_are_refused(folder: Path) -> None:
    with pytest.raises(TosaConvertError) as caught:
        write(one("INT8", (1,) * (npy.MAX_RANK + 1), b"\1"), folder)
    assert caught.value.code == "unsupported-shape"


def test_two_blocks_of_one_name_are_refused(folder: Path) -> None:
    made = several("a")
    made.regions.append(region("main", "", "", [], []))
    made.regions[1].blocks[0].name = "main"
    with pytest.raises(TosaConvertError) as caught:
        write(made, folder)
    assert caught.value.code == "duplicate-name"


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
    # Blocks of a million elements, and what they are converted through.
    assert written < 40 << 20
    # INT4 and INT48 are packed; nothing else is copied.
    packed = len(buffer) if kind in ("INT4", "INT48") else 0
    assert peak < (40 << 20) + 2 * packed


# -- reading: the manifest ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is no JSON"),
        ("{", "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        ('{"a": ' * 100_000, "it is no JSON"),
        ('{"format": 1, "format": 1}', "a key occurs twice"),
        ('{"version": NaN}', "NaN is not a whole number"),
        ('{"version": 1.0}', "1.0 is not a whole number"),
        ('{"version": 1e5}', "1e5 is not a whole number"),
        ('{"version": ' + "9" * 10_000 + "}", "it is no JSON"),
        ("[]", "no manifest"),
        ("{}", "no manifest"),
        ('{"format": "tosa-convert weights"}', "its version is None, we read 1"),
        ('{"format": "tosa-convert weights", "version": 2}', "its version is 2, we read 1"),
        ('{"format": "tosa-convert weights", "version": true}', "its version is True"),
        ('{"format": "tosa-convert weights", "version": ' + "9" * 4000 + "}", "a huge number"),
        ('{"format": "tosa-convert weights", "version": 1}', "'constants' is missing"),
    ],
)
def test_a_manifest_that_is_none_is_refused(text: str, message: str, folder: Path) -> None:
    apart = write(several("a"), folder)
    (folder / "manifest.json").write_text(text)
    error = refused(apart, folder)
    assert error.code == "malformed-weights"
    assert message in str(error)
    assert len(str(error)) < 2000


def test_a_manifest_that_is_not_text_is_refused(folder: Path) -> None:
    apart = write(several("a"), folder)
    (folder / "manifest.json").write_bytes(b'{"format": "\xff\xfe"}')
    assert refused(apart, folder).code == "malformed-weights"


def test_an_enormous_manifest_is_refused_unread(folder: Path) -> None:
    apart = write(several("a"), folder)
    error = refused(apart, folder, limits=Limits(manifest_bytes=100))
    assert "the limit is 100" in str(error)


def test_a_missing_manifest_or_folder_is_named(folder: Path) -> None:
    apart = write(several("a"), folder)
    (folder / "manifest.json").unlink()
    error = refused(apart, folder)
    assert error.code == "missing-data"
    assert "manifest.json" in str(error)
    assert refused(apart, folder / "no").code == "missing-data"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(extra=1), "there is no field 'extra'"),
        (lambda c: c.pop("producer"), "'producer' is missing"),
        (lambda c: c.update(producer=1), "producer: error: found 1, expected str"),
        (lambda c: c.update(constants={}), "constants: error: found an object, expected list"),
        (lambda c: c.update(constants=[1]), "constants[0]: error: found 1, expected dict"),
        (lambda c: c["constants"][0].update(more=1), "constants[0]: error: there is no field"),
        (lambda c: c["constants"][0].pop("file"), "constants[0]: error: the field 'file'"),
    ],
)
def test_a_manifest_with_other_fields_is_refused(
    change: Callable[[Json], None], message: str, folder: Path
) -> None:
    apart = write(several("a"), folder)
    edit(folder, change)
    error = refused(apart, folder)
    assert error.code == "malformed-weights"
    assert message in str(error)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("region", 1),
        ("block", None),
        ("tensor", ["a"]),
        ("part", "scales"),
        ("part", 0),
        ("file", 7),
        ("dtype", "int32"),
        ("dtype", "SHAPE"),
        ("dtype", 5),
        ("shape", "2"),
        ("shape", ["2"]),
        ("shape", [True]),
        ("shape", [-1]),
        ("shape", [2**31]),
        ("shape", [1] * 33),
        ("shape", 2),
        ("padding", -1),
        ("padding", 8),
        ("padding", True),
        ("padding", "0"),
        ("sha256", "0" * 63),
        ("sha256", "A" * 64),
        ("sha256", 0),
    ],
)
def test_an_entry_with_a_wrong_value_is_refused(field: str, value: Any, folder: Path) -> None:
    apart = write(several("a"), folder)
    edit(folder, lambda c: c["constants"][0].update({field: value}))
    error = refused(apart, folder)
    assert error.code == "malformed-weights"
    assert f"constants[0].{field}" in str(error)


def test_no_more_findings_about_a_manifest_are_reported_than_anybody_reads(folder: Path) -> None:
    apart = write(several("a"), folder)
    edit(folder, lambda c: c.update(constants=[0] * 10_000))
    assert len(refused(apart, folder).findings) == MAX_FINDINGS


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../a.npy",
        "..",
        ".",
        "",
        "sub/a.npy",
        "sub\\a.npy",
        "C:a.npy",
        "C:\\a.npy",
        "\\\\server\\a.npy",
        "a.npy:stream",
        "a.npy\0",
        "a\0.npy",
        "a.npy ",
        "a.npy.",
        "a.npy\n",
        ".a.npy",
        "~/a.npy",
        "-a.npy",
        "CON.npy",
        "nul.x.npy",
        "é.npy",
        "a.NPY",
        "a",
        "manifest.json",
        "a" * 200 + ".npy",
        "file:///a.npy",
        "%2e%2e/a.npy",
    ],
)
def test_a_file_name_that_leads_anywhere_else_is_refused(name: str, folder: Path) -> None:
    apart = write(several("a"), folder)
    edit_entry(folder, file=name)
    error = refused(apart, folder)
    assert error.code == "unsafe-path"
    assert "constants[0].file" in str(error)


def test_one_file_for_two_constants_is_refused(folder: Path) -> None:
    apart = write(several("a", "b"), folder)
    edit_entry(folder, file="B.npy")
    assert "two constants are in the file 'b.npy'" in str(refused(apart, folder))


def test_one_constant_in_two_files_is_refused(folder: Path) -> None:
    apart = write(several("a", "b"), folder)
    edit_entry(folder, tensor="b")
    assert 'tensor "b" is there twice' in str(refused(apart, folder))


# -- reading: the program -----------------------------------------------------------------------


@pytest.mark.parametrize("field", ["region", "block", "tensor"])
def test_weights_of_a_tensor_that_is_not_there_are_refused(field: str, folder: Path) -> None:
    apart = write(several("a"), folder)
    edit_entry(folder, **{field: "other"})
    error = refused(apart, folder)
    assert error.code == "undefined-name"
    assert "belong to another program" in str(error)


@pytest.mark.parametrize(("field", "value"), [("dtype", "FP32"), ("shape", [1, 2]), ("shape", [])])
def test_weights_of_another_type_or_shape_are_refused(field: str, value: Any, folder: Path) -> None:
    apart = write(several("a"), folder)
    edit_entry(folder, **{field: value})
    error = refused(apart, folder)
    assert error.code == "mismatched-weights"
    assert "the program has INT32 [2]" in str(error)


@pytest.mark.parametrize("dims", [(-1,), None])
def test_weights_of_a_dynamic_or_unranked_tensor_are_refused(
    dims: tuple[int, ...] | None, folder: Path
) -> None:
    apart = write(several("a"), folder)
    apart.main.tensors["a"].shape = dims
    assert refused(apart, folder).code == "mismatched-weights"


def test_scales_of_a_tensor_without_blocks_are_refused(folder: Path) -> None:
    apart = write(several("a"), folder)
    edit_entry(folder, part="scale_data")
    assert "the tensor is not block-scaled" in str(refused(apart, folder))


def test_scales_of_another_number_are_refused(folder: Path) -> None:
    apart = write(scaled(), folder)
    edit(folder, lambda c: c["constants"][1].update(shape=[3]))
    assert refused(apart, folder).code == "mismatched-weights"


@pytest.mark.parametrize("index", [0, 1])
def test_a_constant_that_nobody_has_is_missed(index: int, folder: Path) -> None:
    apart = write(scaled(), folder)
    edit(folder, lambda c: c["constants"].pop(index))
    error = refused(apart, folder)
    assert error.code == "missing-data"
    assert f"constant's {('data', 'scale_data')[index]}" in str(error)


def test_weights_replace_what_the_program_has(folder: Path) -> None:
    made = several("a")
    write(made, folder)
    other = several("a")
    other.main.tensors["a"].data = Constant(dtype("INT32"), 2, bytes(range(8)))
    assert flat(read(other, folder)) == flat(made)


# -- reading: the files -------------------------------------------------------------------------


def npy_file(descr: str = "'<i4'", order: str = "False", dims: str = "(2,)") -> bytes:
    """A header like numpy's with these values in it, before 8 bytes of elements."""
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {dims}, }}"
    return npy_text(text)


def npy_text(text: str) -> bytes:
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text.encode("latin-1") + bytes(8)


def test_the_file_of_these_tests_is_a_right_one(folder: Path) -> None:
    apart = write(one("INT32", (2,), bytes(8)), folder)
    (folder / "w.npy").write_bytes(npy_file())
    read(apart, folder)


@pytest.mark.parametrize(
    ("raw", "code", "message"),
    [
        (b"", "malformed-weights", "which is no .npy file"),
        (b"\x93NUMP", "malformed-weights", "which is no .npy file"),
        (b"\x93NUMPY\1", "malformed-weights", "which is no .npy file"),
        (b"PK\3\4" + bytes(100), "malformed-weights", "which is no .npy file"),
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
        (npy_file("'<f4'"), "mismatched-weights", "a INT32 is stored as '<i4'"),
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
        (npy_file() + b"\0", "malformed-weights", "9 bytes behind the header"),
        (npy_file()[:-1], "malformed-weights", "7 bytes behind the header"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_hold_the_array_is_refused(
    raw: bytes, code: str, message: str, folder: Path
) -> None:
    apart = write(one("INT32", (2,), bytes(8)), folder)
    (folder / "w.npy").write_bytes(raw)
    for accept in (False, True):
        error = refused(apart, folder, accept_changed=accept)
        assert error.code == code
        assert message in str(error)
        assert "w.npy" in str(error)
        assert len(str(error)) < 1000


def test_a_missing_file_is_named(folder: Path) -> None:
    apart = write(several("a", "b"), folder)
    (folder / "b.npy").unlink()
    error = refused(apart, folder)
    assert error.code == "missing-data"
    assert "b.npy" in str(error)


def test_findings_about_several_files_are_reported_together(folder: Path) -> None:
    apart = write(several("a", "b", "c"), folder)
    (folder / "a.npy").unlink()
    (folder / "b.npy").write_bytes(b"")
    assert len(refused(apart, folder).findings) == 2


needs_links = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows needs a privilege to make symbolic links"
)


@needs_links
@pytest.mark.parametrize("name", ["a.npy", "manifest.json"])
def test_a_link_in_place_of_a_file_is_not_followed(name: str, folder: Path) -> None:
    apart = write(several("a"), folder)
    elsewhere = folder.parent / "elsewhere"
    (folder / name).rename(elsewhere)
    (folder / name).symlink_to(elsewhere)
    error = refused(apart, folder)
    assert error.code == "unsafe-path"
    assert "a symbolic link" in str(error)


@needs_links
def test_a_link_that_takes_a_files_place_at_the_last_moment_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(several("a"), folder)
    (folder / "a.npy").rename(folder.parent / "elsewhere")
    (folder / "a.npy").symlink_to(folder.parent / "elsewhere")
    monkeypatch.setattr(folders, "size_of", lambda folder, name: 8)
    with pytest.raises(TosaConvertError) as caught:
        folders.view(folder, "a.npy", mapped=True)
    assert caught.value.code == "file-error"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_place_of_a_file_is_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = write(several("a"), folder)
    (folder / "a.npy").unlink()
    os.mkfifo(folder / "a.npy")
    assert refused(apart, folder).code == "unsafe-path"
    monkeypatch.setattr(folders, "size_of", lambda folder, name: 8)
    with pytest.raises(TosaConvertError) as caught:
        folders.view(folder, "a.npy", mapped=True)
    assert caught.value.code == "unsafe-path"


def test_what_the_system_refuses_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = write(several("a"), folder)

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    for name in ("open", "lstat"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, denied)
            error = refused(apart, folder)
        assert error.code == "file-error"
        assert "Permission denied" in str(error)


def test_a_folder_in_place_of_a_file_is_refused(folder: Path) -> None:
    apart = write(several("a"), folder)
    (folder / "a.npy").unlink()
    (folder / "a.npy").mkdir()
    assert refused(apart, folder).code == "unsafe-path"


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
    error = refused(apart, folder)
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


def test_changed_weights_are_refused_unless_they_are_asked_for(folder: Path) -> None:
    apart = write(several("a", "b"), folder)
    np.save(folder / "b.npy", np.array([5, 6], "<i4"))
    error = refused(apart, folder)
    assert error.code == "changed-weights"
    assert "b.npy" in str(error)
    assert "a.npy" not in str(error)
    found = read(apart, folder, accept_changed=True)
    assert data_of(found, "b").numpy().tolist() == [5, 6]


def test_weights_are_not_read_before_they_are_used_if_their_sums_are_not_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = write(several("a"), folder)

    def unwanted(*_: object) -> None:
        raise AssertionError("the elements were read")

    monkeypatch.setattr("tosa_convert.weights.read.hashlib.sha256", unwanted)
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
    monkeypatch.setattr("tosa_convert.weights.read.files_to_map", lambda: 1)
    made = several("a", "b", "c")
    made.main.tensors["b"] = tensor("b", "INT32", (3,), bytes(12))
    found = read(write(made, folder), folder)
    kinds = {name: type(data_of(found, name).buffer.obj).__name__ for name in "abc"}
    # The largest is worth it most.
    assert kinds == {"a": "bytes", "b": "mmap", "c": "bytes"}
    assert flat(found) == flat(made)


def test_half_of_the_files_that_may_be_open_are_left_to_others() -> None:
    assert folders.files_to_map() > 16


@given(st.binary(min_size=1, max_size=8), st.integers(0, 140))
def test_a_damaged_file_is_read_or_refused_and_nothing_else(
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
