"""Damaged and hostile models: an error that names the file and what is wrong, and nothing is left."""

from __future__ import annotations

import importlib.util
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from frontends.tflite_models import OperatorRow, TensorRow, model

import tosa_convert as tc
from tosa_convert.frontends.lower_model import FrontendOptions, lowered
from tosa_convert.frontends.table import Recognised
from tosa_convert.frontends.tflite.read import DamagedError, read_tflite
from tosa_convert.io.options import ReadOptions, limits_of

Program = Callable[[str], str]
needs_onnx = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxruntime")),
    reason="onnx or onnxruntime is not installed",
)
X, Y = TensorRow("x", "float32", (2, 3)), TensorRow("y", "float32", (2, 3))


def refused(path: Path) -> tc.TosaConvertError:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_file(path, timeout=120)
    assert str(path) in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert "defect" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("tensor", [2, -2, 1 << 30])
def test_an_operator_that_names_a_tensor_that_is_not_there_is_damaged(tensor: int) -> None:
    data = model([X, Y], [OperatorRow("RELU", (tensor,), (1,))], [0], [1])
    with pytest.raises(DamagedError, match="names a tensor that it does not have"):
        read_tflite(data)


def test_a_constant_that_is_shorter_than_its_shape_is_damaged() -> None:
    """The converter reads beyond its end, for hours."""
    axis = TensorRow("axis", "int32", (961_656_599,), np.zeros(1, np.int32))
    data = model([X, axis, Y], [OperatorRow("MEAN", (0, 1), (2,))], [0], [2])
    with pytest.raises(DamagedError, match=r'"axis" has 4 bytes, its shape needs 3846626396'):
        read_tflite(data)


def test_a_small_file_that_shares_a_long_name_describes_no_more_than_it_could_hold() -> None:
    """100,000 tensors whose names are one text would otherwise take gigabytes."""
    tensors = [TensorRow(str(number), "float32", (1,)) for number in range(3000)]
    data = bytearray(model([TensorRow("n" * 300_000, "float32", (1,)), *tensors], [], [0], [0]))
    root = struct.unpack_from("<I", data)[0]

    def field(table: int, position: int) -> int:
        place = table - struct.unpack_from("<i", data, table)[0] + 4 + 2 * position
        at = table + int(struct.unpack_from("<H", data, place)[0])
        return at + int(struct.unpack_from("<I", data, at)[0])

    graphs = field(root, 2)
    main = graphs + 4 + struct.unpack_from("<I", data, graphs + 4)[0]
    rows = field(main, 0)
    first = rows + 4 + struct.unpack_from("<I", data, rows + 4)[0]
    for number in range(3001):
        struct.pack_into("<I", data, rows + 4 + 4 * number, first - (rows + 4 + 4 * number))
    start = time.monotonic()
    with pytest.raises(DamagedError, match="describes more than it could hold"):
        read_tflite(bytes(data))
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(
    ("operator", "inputs", "scale"), [("RELU6", (), float("inf")), ("ABS", (0,), 1e-45)]
)
def test_an_operator_without_its_operands_is_named(
    operator: str, inputs: tuple[int, ...], scale: float, tmp_path: Path
) -> None:
    x = TensorRow("x", "int8", (2, 3), scales=(0.5,), zero_points=(0,))
    wrong = TensorRow("y", "int8", (2, 3), scales=(scale,), zero_points=(0,))
    path = tmp_path / "m.tflite"
    path.write_bytes(model([x, wrong], [OperatorRow(operator, inputs, (1,))], [0], [1]))
    error = refused(path)
    assert error.code == "unrecognised-input"
    of = "int8" if inputs else "nothing"
    assert f'operator 0, which makes "y": {operator} of {of} does not have' in str(error)


def test_two_tensors_of_one_name_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    same = TensorRow("x", "float32", (2, 3))
    path.write_bytes(model([X, same], [OperatorRow("RELU", (0,), (1,))], [0], [1]))
    graph = tc.frontends.from_file(path)
    assert (graph.main.inputs, graph.main.outputs) == (["x"], ["x_1"])


def test_a_file_that_ends_after_its_header_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(b"\x1c\0\0\0TFL3" + bytes(24))
    assert refused(path).code == "unrecognised-input"


@needs_onnx
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x08\x08\x12\x01a\xff\xff", "the ONNX model is damaged: Error parsing message"),
        (b"\x08\x08\x12\x01a", "it has no graph"),
        (
            b"\x08\x08\x12\x01a\x3a\x07\x0a\x05\x0a\x01x\x22\x00",
            "not valid ONNX, by onnx's checker",
        ),
    ],
    ids=["cut", "empty", "without an opset"],
)
def test_an_onnx_file_is_refused_by_what_is_wrong(
    data: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    error = refused(path)
    assert error.code == "unrecognised-input"
    assert message in str(error)


@needs_onnx
@pytest.mark.parametrize("opset", [0, 10**9])
def test_operators_that_onnx_does_not_have_are_refused(opset: int, tmp_path: Path) -> None:
    from onnx import TensorProto, helper, save

    rows = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    made = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", rows[:1], rows[1:])
    path = tmp_path / "m.onnx"
    save(helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)]), str(path))
    assert f"the model has operators of opset {opset}, expected 1 to" in str(refused(path))


@needs_onnx
def test_two_inputs_of_one_name_are_refused(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, save

    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    node = helper.make_node("Relu", ["x"], ["y"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    path = tmp_path / "m.onnx"
    save(helper.make_model(helper.make_graph([node], "g", [info, info], [result])), str(path))
    assert "two inputs are called 'x'" in str(refused(path))


@needs_onnx
def test_a_node_that_a_decomposition_does_not_expect_is_named(tmp_path: Path) -> None:
    """A transposed convolution of another rank than its strides."""
    from onnx import TensorProto, helper, save

    info = helper.make_tensor_value_info
    node = helper.make_node(
        "ConvTranspose", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2]
    )
    given = [info("x", TensorProto.FLOAT, [1, 1, 3]), info("w", TensorProto.FLOAT, [1, 2, 3])]
    graph = helper.make_graph([node], "g", given, [info("y", TensorProto.FLOAT, None)])
    path = tmp_path / "m.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))
    assert refused(path).code in ("not-lowered", "unrecognised-input")


@needs_onnx
@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read from /proc")
def test_a_small_model_of_a_huge_constant_is_ended(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper, save

    info = helper.make_tensor_value_info
    size = numpy_helper.from_array(np.array([500_000_000], np.int64), "size")
    nodes = [
        helper.make_node("ConstantOfShape", ["size"], ["c"]),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    given, result = info("x", TensorProto.FLOAT, [1]), info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [given], [result], [size])
    path = tmp_path / "m.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))
    with pytest.raises(tc.TosaConvertError, match=r"took more than [\d,]+ bytes of memory"):
        tc.frontends.from_onnx(path, limits={"converter-memory": 1 << 30})


def test_a_models_own_code_has_no_limit_unless_it_is_set(program: Program, tmp_path: Path) -> None:
    """A Python file says nothing about the size of what it makes."""
    if sys.platform != "linux":
        pytest.skip("the memory of a process is read from /proc")
    path = tmp_path / "own.py"
    path.write_text("import torch\n")
    python = program("import time\nheld = b'x' * (200 << 20)\ntime.sleep(1)\nraise SystemExit(3)")
    found = Recognised("torch", str(path), "own.py:make", "make")

    def said(limits: dict[str, int]) -> str:
        read = ReadOptions(limits=limits_of(limits))
        with (
            pytest.raises(tc.TosaConvertError) as caught,
            lowered(found, FrontendOptions(python=python, read=read)),
        ):
            pass
        return str(caught.value)

    assert "exit code 3" in said({"converter-memory-per-byte": 1})
    assert "bytes of memory" in said({"converter-memory": 100 << 20})
