"""What is read of ONNX's files without the package onnx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends import onnx_files as written

from tosa_convert.errors import TosaConvertError
from tosa_convert.frontends.protobuf import fields
from tosa_convert.qualify.suite.model_cases import NoTensorError, read_model, read_tensor


def read(data: bytes, tmp_path: Path) -> Any:
    path = tmp_path / "t.pb"
    path.write_bytes(data)
    return read_tensor(path)


@pytest.mark.parametrize("name", written.TYPES)
def test_the_elements_of_a_tensor_are_read(name: str, tmp_path: Path) -> None:
    array = np.arange(6).reshape(2, 3).astype(name)
    found = read(written.tensor(array), tmp_path)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_numbers_may_be_a_list_of_their_own(tmp_path: Path) -> None:
    head = written.number(1, 3)
    negative = written.varint(2**64 - 2)
    packed = written.part(7, negative + written.varint(1) + written.varint(5))
    assert read(head + written.number(2, 7) + packed, tmp_path).tolist() == [-2, 1, 5]
    single = b"".join(written.number(5, number) for number in (1, 0, 1))
    assert read(head + written.number(2, 9) + single, tmp_path).tolist() == [True, False, True]
    floats = written.part(4, np.array([1, -2, 0.5], np.float32).tobytes())
    assert read(head + written.number(2, 1) + floats, tmp_path).tolist() == [1, -2, 0.5]


def test_16_bit_floats_are_stored_as_their_bits(tmp_path: Path) -> None:
    bits = written.part(5, written.varint(0x3C00) + written.varint(0xC000))
    half = read(written.number(1, 2) + written.number(2, 10) + bits, tmp_path)
    assert half.tolist() == [1, -2]
    raw = written.part(9, np.array([0x3F80, 0xC000], np.uint16).tobytes())
    brain = read(written.number(1, 2) + written.number(2, 16) + raw, tmp_path)
    assert brain.astype(np.float32).tolist() == [1, -2]


def test_two_elements_of_4_bits_are_in_a_byte(tmp_path: Path) -> None:
    raw = written.number(1, 3) + written.part(9, bytes([0x8F, 0x07]))
    assert read(raw + written.number(2, 22), tmp_path).tolist() == [-1, -8, 7]
    assert read(raw + written.number(2, 21), tmp_path).tolist() == [15, 8, 7]


def test_elements_that_tosa_does_not_have_are_refused(tmp_path: Path) -> None:
    data = written.tensor(np.zeros(2, np.float32), kind=written.STRING)
    with pytest.raises(NoTensorError, match="strings"):
        read(data, tmp_path)


@pytest.mark.parametrize("data", [b"\x0a\xff", b"\xff" * 11, b"\x0b", b"\x0a"])
def test_a_damaged_file_is_a_file_error(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"field|number"):
        list(fields(data))
    with pytest.raises(TosaConvertError, match="not a tensor of ONNX"):
        read(data, tmp_path)


def test_a_model_says_its_operators_inputs_and_outputs(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    inputs = [written.value("x", 1, [2, "N"]), written.value("w", 1, [2])]
    outputs = [written.value("y", written.STRING, [2])]
    constants = {"w": np.zeros(2, np.float32)}
    path.write_bytes(written.model(["Add", "Abs"], inputs, outputs, constants))
    found = read_model(path)
    assert found.operators == ["Add", "Abs"]
    assert (found.inputs, found.outputs) == (["x"], ["y"])
    assert found.open_inputs == {"x"}
    assert found.not_tensors == ["y: it has strings"]


def test_onnx_files_are_read_as_by_the_package_onnx(tmp_path: Path) -> None:
    onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed")
    for kind in (1, 3, 6, 7, 9, 10, 11, 13, 16, 21, 22):
        tensor = onnx.helper.make_tensor("t", kind, [3], [1, 0, 3])
        found = read(tensor.SerializeToString(), tmp_path)
        wanted = onnx.numpy_helper.to_array(tensor)
        np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))
