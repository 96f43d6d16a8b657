"""`tosa-flatbuffer data`: arrays of .npy, .npz and folders of weights as numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from unit.building import graph, op, tensor

import tosa_convert as tc
from tosa_convert.cli.main import run, verb
from tosa_convert.graph import DTYPES, DType


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> Any:
    """Run `data` in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(verb("data"), list(arguments))
        return (code, *capfd.readouterr())

    return call


def rows(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()[1:]]


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_an_element_type_of_the_table_is_accepted_in_any_case(row: DType, data: Any) -> None:
    np.save("a.npy", np.zeros(2, f"V{row.element_bytes}"))
    assert data("a.npy", "--as", row.name.lower())[0] == 0


def test_another_element_type_is_refused_with_the_near_one(data: Any) -> None:
    np.save("a.npy", np.zeros(2, "V1"))
    code, _, err = data("a.npy", "--as", "FP8E4M")
    assert code == 2
    assert "FP8E4M3" in err


def test_opaque_bytes_are_shown_as_the_numbers_that_they_are(data: Any) -> None:
    np.save("b.npy", np.array([1.5, 2.5], ml_dtypes.bfloat16))
    np.save("f.npy", np.array([1.5, 2.5], ml_dtypes.float8_e4m3fn))
    np.save("e.npy", np.array([1.5, 2.5], ml_dtypes.float8_e5m2))
    np.save("u.npy", np.array([1.5, 2.5], ml_dtypes.float8_e5m2).view("u1"))
    assert rows(data("b.npy")[1]) == ["b.npy BF16 [2] 1.5 2.5 2 0 0 0 1.5, 2.5"]
    assert rows(data("f.npy")[1]) == ["f.npy |V1 [2]"]
    assert rows(data("f.npy", "--as", "fp8e4m3")[1]) == [
        "f.npy FP8E4M3 [2] 1.5 2.5 2 0 0 0 1.5, 2.5"
    ]
    for name in ("e", "u"):
        (row,) = rows(data(f"{name}.npy", "--as", "FP8E5M2")[1])
        assert row == f"{name}.npy FP8E5M2 [2] 1.5 2.5 2 0 0 0 1.5, 2.5"


def test_a_folder_of_weights_has_the_types_of_its_manifest(data: Any) -> None:
    values = [tensor("w", "BF16", (2,), b"\xc0\x3f\x20\x40"), tensor("k", "INT4", (2,), b"\xf1")]
    made = graph("", "w", values, [op("CONST", "", "w"), op("CONST", "", "k")])
    tc.save(made, "m.tosa", weights="npy", validate=False)
    assert rows(data("m.weights")[1]) == [
        "k.npy INT4 [2] -1 1 0 0 0 0 -1, 1",
        "w.npy BF16 [2] 1.5 2.5 2 0 0 0 1.5, 2.5",
    ]


def test_arrays_of_other_things_than_numbers_have_a_type_and_a_shape(data: Any) -> None:
    np.savez("a.npz", s=np.array(["a"]), c=np.array([1j]), r=np.zeros(2, [("x", "f4")]))
    assert [row.split()[0] for row in rows(data("a.npz")[1])] == ["s", "c", "r"]


@pytest.mark.parametrize(
    "content",
    [b"", b"no array", b"\x93NUMPY\x01\x00\x10\x00", b"PK\3\4 no archive"],
)
@pytest.mark.parametrize("extension", ["npy", "npz"])
def test_a_damaged_file_does_not_stop_the_others(data: Any, content: bytes, extension: str) -> None:
    Path(f"bad.{extension}").write_bytes(content)
    np.save("good.npy", np.zeros(1))
    code, out, err = data(f"bad.{extension}", "missing.npy", "good.npy")
    assert code == 2
    assert rows(out) == ["good.npy float64 [1] 0 0 0 1 0 0 0"]
    assert "bad." in err
    assert "missing.npy" in err


def test_a_header_that_promises_more_than_the_file_has_is_an_error(data: Any) -> None:
    np.save("x.npy", np.zeros(8))
    raw = Path("x.npy").read_bytes()
    # The second header does not close its bracket, on which numpy's parser raises an error of its own.
    for header in (b"(80000000,), }", b"(80000000000,)"):
        Path("x.npy").write_bytes(raw.replace(b"(8,), }       ", header))
        code, _, err = data("x.npy")
        assert (code, "[file-error]" in err) == (2, True)


def test_a_folder_without_arrays_is_an_error(data: Any) -> None:
    Path("empty").mkdir()
    assert data("empty")[0] == 2


def test_the_json_has_the_same_numbers(data: Any) -> None:
    np.savez("a.npz", x=np.array([1.0, np.inf], "f4"), s=np.array(["a"]))
    (file,) = json.loads(data("a.npz", "--json")[1])["files"]
    assert file["file"] == "a.npz"
    number, text = file["arrays"]
    assert (number["name"], number["type"], number["shape"]) == ("x", "float32", [2])
    assert (number["greatest"], number["infinities"]) == (1.0, 1)
    assert text == {"name": "s", "type": "<U1", "shape": [1]}


@pytest.mark.parametrize(
    ("form", "found"), [("tosa", "found TOSA flatbuffer"), ("bin", "found a file that begins with")]
)
def test_a_file_that_has_no_arrays_is_called_what_it_is(data: Any, form: str, found: str) -> None:
    tc.save(graph("x", "x", [tensor("x")], []), "m.tosa")
    Path("m.bin").write_bytes(b"\0\1\2")
    code, out, err = data(f"m.{form}")
    assert (code, out) == (2, "")
    assert f"m.{form}: error: {found}" in err
    assert "expected .npy, .npz or a folder of them" in err
    assert ("show --constants" in err) == (form == "tosa")
