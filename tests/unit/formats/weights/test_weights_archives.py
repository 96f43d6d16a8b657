"""Constants go into one file, safetensors or an archive of IREE, and come back bit for bit.

The libraries of the formats judge what is written, and write what is read.
"""

from __future__ import annotations

import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from refusing import refused
from unit.building import counting, example, graph, op, region, tensor
from unit.weights_folder import data_of, every_bit, flat, forms, one, refusal, scaled, several

import tosa_convert as tc
from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.weights.read import read
from tosa_convert.formats.weights.write import write
from tosa_convert.graph import DTYPES, Constant, DType, Graph, dtype
from tosa_convert.io.options import WeightForm

FORMS: tuple[WeightForm, ...] = ("safetensors", "irpa")


def file_of(folder: Path, form: str) -> Path:
    return folder / f"w.{form}"


def round_trip(made: Graph, folder: Path, form: WeightForm) -> Graph:
    path = file_of(folder, form)
    return read(write(made, path, form=form), path)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_every_bit_of_every_type_comes_back(row: DType, form: WeightForm, tmp_path: Path) -> None:
    files = []
    for constant in forms(row):
        made = one(row.name, (constant.count,), constant.packed().tobytes())
        made.main.tensors["w"].data = constant
        assert flat(round_trip(made, tmp_path, form)) == flat(made)
        files.append(file_of(tmp_path, form).read_bytes())
    # The form in memory makes no difference to the file.
    assert len(set(files)) == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("row", DTYPES, ids=str)
@pytest.mark.parametrize("count", [1, 3, 8])
def test_splats_come_back(row: DType, count: int, form: WeightForm, tmp_path: Path) -> None:
    made = one(row.name, (count,), bytes(row.wire_bytes(count)))
    element = every_bit(row)[row.element_bytes : 2 * row.element_bytes]
    made.main.tensors["w"].data = Constant(row, count, element, splat=True)
    assert flat(round_trip(made, tmp_path, form)) == flat(made)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("made", [example(), scaled(), counting(), several("a", "A", "a/b", "é")])
def test_programs_come_back(made: Graph, form: WeightForm, tmp_path: Path) -> None:
    assert flat(round_trip(made, tmp_path, form)) == flat(made)


@pytest.mark.parametrize("form", FORMS)
def test_the_same_name_in_two_regions_is_two_arrays(form: WeightForm, tmp_path: Path) -> None:
    made = one("INT8", (1,), b"\1")
    inner = [tensor("w", "INT8", (1,), b"\2")]
    made.regions.append(region("other", "", "w", list(inner), [op("CONST", "", "w")]))
    assert flat(round_trip(made, tmp_path, form)) == flat(made)


@pytest.mark.parametrize("form", FORMS)
def test_padding_of_a_flatbuffer_survives(form: WeightForm, tmp_path: Path) -> None:
    made = one("INT8", (3,), b"\1\2\3")
    made.main.tensors["w"].data = Constant(dtype("INT8"), 3, b"\1\2\3", padding=5)
    assert flat(round_trip(made, tmp_path, form)) == flat(made)


@pytest.mark.parametrize("form", FORMS)
def test_edited_weights_need_to_be_accepted(form: WeightForm, tmp_path: Path) -> None:
    path = file_of(tmp_path, form)
    apart = write(one("INT32", (2,), b"\1\0\0\0\2\0\0\0"), path, form=form)
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    assert refusal(apart, path).code == "changed-weights"
    found = read(apart, path, accept_changed=True)
    assert data_of(found).numpy().tolist() == [1, 0x01000002]


@pytest.mark.parametrize("form", FORMS)
def test_int4_minus_8_is_refused(form: WeightForm, tmp_path: Path) -> None:
    path = file_of(tmp_path, form)
    apart = write(one("INT4", (2,), b"\x11"), path, form=form)
    tail = b"\x18" if form == "irpa" else b"\xf8\x01"
    path.write_bytes(path.read_bytes()[: -len(tail)] + tail)
    assert refusal(apart, path, accept_changed=True).code == "int4-minus-8"


@pytest.mark.parametrize("form", FORMS)
def test_a_program_has_its_weights_in_a_file_beside_it(form: WeightForm, tmp_path: Path) -> None:
    tc.save(example(), tmp_path / "m.tosa", weights=form)
    assert file_of(tmp_path, form).with_stem("m").is_file()
    assert flat(tc.load(tmp_path / "m.tosa")) == flat(example())
    tc.save(example(), tmp_path / "m.tosa", weights=form, verify=True)
    with refused("foreign-folder", match="others are here"):
        tc.save(example(), tmp_path / "m.tosa", weights="npy")
    (tmp_path / "m.weights").mkdir()
    with pytest.raises(TosaConvertError, match="its weights can be those in"):
        tc.load(tmp_path / "m.tosa")


def test_a_file_of_another_program_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(bytes((2, *bytes(7))) + b"{}")
    with refused("foreign-folder", match="did not write this file"):
        tc.save(example(), tmp_path / "m.tosa", weights="safetensors")
    assert not (tmp_path / "m.tosa").exists()


def test_export_takes_the_form_from_the_extension(tmp_path: Path) -> None:
    for name in ("w.safetensors", "w.irpa", "w.weights"):
        assert tc.export_weights(example(), tmp_path / name) == 1
        found = tc.import_weights(tc.strip_weights(example()), tmp_path / name)
        assert flat(found) == flat(example())
    assert (tmp_path / "w.weights").is_dir()
    assert tc.export_weights(example(), tmp_path / "other", to="irpa") == 1
    assert (tmp_path / "other").read_bytes().startswith(b"IRPA")


@pytest.mark.parametrize("form", FORMS)
def test_damaged_files_are_refused_or_read(form: WeightForm, tmp_path: Path) -> None:
    path = file_of(tmp_path, form)
    apart = write(several("a", "b", "c"), path, form=form)
    whole = path.read_bytes()
    dice = random.Random(7)
    refusals, codes = 0, set()
    for _ in range(1500):
        content = bytearray(whole[: dice.choice([len(whole), dice.randrange(len(whole))])])
        for _ in range(dice.randrange(3)):
            if content:
                content[dice.randrange(len(content))] = dice.choice(
                    [0, 1, 255, dice.randrange(256)]
                )
        path.write_bytes(content)
        try:
            read(apart, path)
        except TosaConvertError as error:
            refusals += 1
            codes.add(error.code)
    assert refusals > 700
    assert codes <= {
        *("malformed-weights", "mismatched-weights", "changed-weights", "missing-data"),
        *("undefined-name", "file-error"),
    }


# -- judged by the libraries of the formats -------------------------------------------------------


def test_safetensors_reads_what_we_write(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    expected = {"INT4": "I8", "INT48": "I64", "MXINT8": "I8", "BF16": "BF16", "FP16": "F16"}
    for row in DTYPES:
        made = one(row.name, (8,), bytes(row.wire_bytes(8)))
        write(made, tmp_path / "w.safetensors", form="safetensors")
        ((name, found),) = safetensors.deserialize((tmp_path / "w.safetensors").read_bytes())
        assert (name, found["shape"]) == ("w", [8])
        assert found["dtype"] == expected.get(row.name, found["dtype"])
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    write(one("FP32", (2, 3), values.tobytes()), tmp_path / "w.safetensors", form="safetensors")
    numpy_of: Any = pytest.importorskip("safetensors.numpy")
    assert np.array_equal(numpy_of.load_file(tmp_path / "w.safetensors")["w"], values)


def test_safetensors_of_another_program_are_read(tmp_path: Path, caplog: Any) -> None:
    numpy_of: Any = pytest.importorskip("safetensors.numpy")
    values = {
        "w": np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3),
        "other": np.zeros(3, np.float64),
    }
    numpy_of.save_file(values, tmp_path / "w.safetensors")
    found = read(one("BF16", (2, 3), bytes(12)), tmp_path / "w.safetensors")
    assert data_of(found).numpy().tolist() == [0, 1, 2, 3, 4, 5]
    assert "1 arrays have no tensor of their name in the program: other" in caplog.text
    for made, said in (
        (one("FP16", (2, 3), bytes(12)), r"it is BF16 \[2, 3\], FP16 \[2, 3\] is stored as F16"),
        (one("BF16", (3, 2), bytes(12)), r"the program has BF16 \[3, 2\]"),
        (one("BF16", (2, 3), bytes(12), "v"), "no tensor of a name in it: other, w"),
    ):
        with pytest.raises(TosaConvertError, match=said):
            read(made, tmp_path / "w.safetensors")


def test_iree_reads_what_we_write(tmp_path: Path) -> None:
    runtime: Any = pytest.importorskip("iree.runtime")
    made = several("a", "b")
    made.main.tensors["b"].data = Constant(dtype("INT32"), 2, b"\5\0\0\0", splat=True)
    write(made, tmp_path / "w.irpa", form="irpa")
    index = runtime.ParameterIndex()
    index.load(str(tmp_path / "w.irpa"))
    found = {row.key: row for _, row in index.items()}
    assert bytes(found["a"].file_view) == bytes(8)
    assert found["b"].length == 8
    assert json.loads(bytes(found["tosa-convert.manifest"].file_view))["version"] == 1


def test_archives_of_iree_are_read(tmp_path: Path) -> None:
    runtime: Any = pytest.importorskip("iree.runtime")
    index = runtime.ParameterIndex()
    index.add_splat("b", b"\7\0\0\0", 8)
    index.add_splat("c", b"\1", 8)
    index.add_buffer("a", np.array([3, 4], "<i4").tobytes())
    index.create_archive_file(str(tmp_path / "w.irpa"))
    found = read(several("a", "b", "c"), tmp_path / "w.irpa")
    values = [data_of(found, name).numpy().tolist() for name in "abc"]
    assert values == [[3, 4], [7, 7], [0x01010101] * 2]


def test_gguf_is_read(tmp_path: Path) -> None:
    gguf: Any = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "w.gguf", "test")
    writer.add_array("words", ["one", "two"])
    writer.add_array("sizes", [1, 2, 3])
    numbers = np.random.default_rng(3).normal(size=(2, 64)).astype(np.float32)
    kind = gguf.GGMLQuantizationType.MXFP4
    blocks = gguf.quants.quantize(numbers, kind)
    writer.add_tensor("w", blocks, raw_dtype=kind)
    writer.add_tensor("f", np.arange(6, dtype=np.float16).reshape(2, 3))
    writer.add_tensor(
        "q", gguf.quants.quantize(numbers, gguf.GGMLQuantizationType.Q8_0),
        raw_dtype=gguf.GGMLQuantizationType.Q8_0,
    )  # fmt: skip
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    made = scaled()
    values = [
        *made.main.tensors.values(),
        tensor("f", "FP16", (2, 3), bytes(12)),
    ]
    values[0].shape = (2, 64)
    values[0].data = None
    assert values[0].scale is not None
    values[0].scale.data = None
    made = graph("", "w,f", values, [op("CONST", "", "w"), op("CONST", "", "f")])
    found = read(made, tmp_path / "w.gguf")
    assert data_of(found, "f").numpy().tolist() == [0, 1, 2, 3, 4, 5]
    scale = found.main.tensors["w"].scale
    assert scale is not None
    assert scale.data is not None
    real = data_of(found).numpy().astype(np.float32).reshape(-1, 32)
    real = real * scale.data.numpy().astype(np.float32)[:, None]
    assert np.array_equal(real.reshape(2, 64), gguf.quants.dequantize(blocks, kind))
    with pytest.raises(TosaConvertError, match="it is GGUF Q8_0"):
        read(one("FP32", (2, 64), bytes(512), "q"), tmp_path / "w.gguf")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
def test_writers_of_different_forms_leave_one_set_that_belongs_to_the_program(
    tmp_path: Path,
) -> None:
    program = tmp_path / "m.json"

    def write_form(number: int) -> str:
        data = np.full(3, number, "<f4").tobytes()
        made = graph("", "w", [tensor("w", "FP32", (3,), data)], [op("CONST", "", "w")])
        try:
            tc.save(made, program, weights=("npy", *FORMS)[number % 3])
        except TosaConvertError as error:
            return error.code
        return "written"

    with ThreadPoolExecutor(9) as pool:
        found = list(pool.map(write_form, range(9)))
    assert set(found) == {"written", "foreign-folder"}
    assert len(list(tmp_path.iterdir())) == 2
    assert tc.load(program).main.tensors["w"].data is not None  # its checksum is right
