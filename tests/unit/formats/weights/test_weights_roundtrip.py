"""Constants go into a folder of .npy files and come back bit for bit."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.building import PRODUCER, counting, example, graph, op, region, tensor
from unit.weights_folder import (
    data_of,
    entries,
    every_bit,
    flat,
    forms,
    one,
    scaled,
    snapshot,
)

from tosa_convert.formats.weights import npy
from tosa_convert.formats.weights.read import read
from tosa_convert.formats.weights.write import write
from tosa_convert.graph import DTYPES, Constant, DType, compare, dtype

#: numpy's reader and writer of .npy files, which has no types.
numpy_format: Any = np.lib.format


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


def test_padding_of_a_flatbuffer_survives(folder: Path) -> None:
    made = one("INT8", (3,), b"\1\2\3")
    made.main.tensors["w"].data = Constant(dtype("INT8"), 3, b"\1\2\3", padding=5)
    assert flat(read(write(made, folder), folder)) == flat(made)


def test_sizes_of_shapes_stay_in_the_program(folder: Path) -> None:
    apart = write(example(), folder)
    assert apart.main.shapes["to"].values() == (3,)
    assert [row["tensor"] for row in entries(folder)] == ["w"]


def test_arrays_are_written_in_the_numpy_type_of_their_elements(folder: Path) -> None:
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


def test_the_manifest_lists_every_constant_with_its_file(folder: Path) -> None:
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
