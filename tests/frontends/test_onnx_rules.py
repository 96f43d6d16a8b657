"""Recurrent, resizing, sampling and quantised operators of ONNX in this process, by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from frontends.lowered_arrays import names

import tosa_convert as tc

onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

pytestmark = pytest.mark.quick

MICROSOFT = "com.microsoft"
RNG = np.random.default_rng(11)
F32, I8, U8 = np.float32, np.int8, np.uint8


def real(*shape: int) -> Any:
    return (RNG.normal(size=shape) / 2).astype(F32)


def whole(dtype: Any, *shape: int) -> Any:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


class Row(NamedTuple):
    """Describe a node. inputs: None for one that is left out. size: the operators of its program."""

    kind: str
    inputs: list[Any]
    size: int
    attributes: Mapping[str, Any] = MappingProxyType({})
    given: tuple[int, ...] = (0,)
    outputs: int = 1
    domain: str = ""


def layer(kind: str, gates: int, count: int, *more: Any, ways: int = 1, **given: Any) -> Row:
    """Return a recurrent layer of 5 numbers over 4 steps of 3 rows. more: operands after the biases."""
    sizes = (gates * 5, 2), (gates * 5, 5), (gates * 10,)
    operands = [real(4, 3, 2), *(real(ways, *size) for size in sizes), *more]
    direction = {"direction": "bidirectional"} if ways == 2 else {}
    attributes = {"hidden_size": 5, **direction, **given}
    return Row(kind, operands, count, attributes, outputs=3 if kind == "LSTM" else 2)


def resized(scales: list[float], count: int, x: Any = None, **given: Any) -> Row:
    image = real(1, 3, 4, 6) if x is None else x
    return Row("Resize", [image, None, np.array([1, 1, *scales], F32)], count, given)


def one(number: float, dtype: Any = F32) -> Any:
    return np.asarray(number, dtype)


#: A scale and a zero point of UINT8, of INT8, and without a zero point.
BYTES, SIGNED, CENTRED = (
    (one(0.07), one(120, U8)),
    (one(0.05), one(-9, I8)),
    (one(0.02), one(0, I8)),
)
BY_CHANNEL = np.array([0.01, 0.02, 0.005, 0.03], F32), np.zeros(4, I8)
#: Not more: onnxruntime saturates sums of two products on some processors.
FILTERS = whole(I8, 4, 2, 3, 3) // I8(2)
LENGTHS = np.array([4, 2, 1], np.int32)
STATE = real(1, 3, 5)
NUMBERS = [real(2, 6) * F32(9), *BYTES]
EDGES = np.array([-2, -1, -0.0, 0, 4, np.inf, -np.inf, np.nan], F32)

ROWS: dict[str, Row] = {
    "powers": Row("Pow", [EDGES, np.array([[2], [3], [-1], [0.5]], F32)], 43, {}, (0, 1)),
    "power of a fraction": Row("Pow", [EDGES, one(1.5)], 11),
    "power of an inverse root": Row("Pow", [EDGES, one(-0.5)], 4),
    "numbers without bounds": Row("Clip", [EDGES], 1),
    "sums before one": Row("CumSum", [real(1, 3), np.array(0)], 0, {"exclusive": 1}),
    "sequences": Row("ReverseSequence", [real(4, 3, 2), np.array([1, 4, 2])], 11, {}, (0, 1)),
    "truth values": Row(
        *("ScatterElements", [real(2, 3) > 0, np.array([[0, 0, 1], [1, 0, 1]]), real(2, 3) > 0], 7),
        {"reduction": "mul"},
        (0, 2),
    ),
    "lstm": layer("LSTM", 4, 60),
    "lstm both ways": layer("LSTM", 4, 136, LENGTHS, ways=2),
    "lstm of nothing": layer("LSTM", 4, 73, LENGTHS % np.int32(4), STATE, STATE),
    "lstm with peepholes": layer("LSTM", 4, 106, None, STATE, STATE, real(1, 15), clip=0.5),
    "lstm of coupled gates": layer("LSTM", 4, 60, input_forget=1),
    "lstm of other functions": layer(
        *("LSTM", 4, 80),
        ways=1,
        activations=["HardSigmoid", "Affine", "ScaledTanh"],
        activation_alpha=[0.3, 0.9, 0.8],
        activation_beta=[0.4, 0.1, 1.1],
    ),
    "gru": layer("GRU", 3, 57),
    "gru with a late reset": layer("GRU", 3, 63, linear_before_reset=1),
    "gru of other functions": layer("GRU", 3, 73, activations=["Softsign", "LeakyRelu"]),
    "rnn backwards": layer("RNN", 1, 26, LENGTHS, STATE, direction="reverse"),
    "rnn of limited sums": layer("RNN", 1, 35, clip=0.2, activations=["Elu"]),
    "nearest": resized([2, 3], 3, mode="nearest"),
    "nearest of bytes": resized([2, 2], 3, whole(U8, 1, 2, 3, 3), mode="nearest"),
    "nearest of fewer": resized([0.6, 0.7], 3, mode="nearest"),
    "nearest of ties": resized(
        *([1.3, 0.6], 3, real(1, 1, 5, 7)),
        mode="nearest",
        coordinate_transformation_mode="half_pixel_symmetric",
    ),
    "nearest of a region": Row(
        "Resize",
        [real(4, 3), np.array([0.1, -0.2, 0.8, 1.1], F32), None, np.array([3, 3])],
        1,
        {"nearest_mode": "ceil", "coordinate_transformation_mode": "tf_crop_and_resize"},
    ),
    "linear": resized([2, 2], 3, mode="linear"),
    "linear of fewer": resized([0.5, 0.5], 8, mode="linear"),
    "antialiased": resized([0.6, 1], 5, mode="linear", antialias=1),
    "antialiased to the same size": resized([1.2, 2], 3, mode="linear", antialias=1),
    "cubic": resized([1.5, 2], 8, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
    "corners": resized([2, 2], 3, mode="linear", coordinate_transformation_mode="align_corners"),
    "grid": Row("GridSample", [real(1, 2, 4, 5), real(1, 3, 3, 2)], 39, {}, (0, 1)),
    "grid by reflection": Row(
        *("GridSample", [real(1, 2, 4, 5), real(1, 3, 3, 2)], 79),
        {"padding_mode": "reflection", "mode": "cubic"},
        (0, 1),
    ),
    "pool of gaps": Row(
        *("MaxPool", [real(1, 1, 7, 8)], 11),
        {"kernel_shape": [2, 4], "dilations": [2, 1], "auto_pad": "SAME_LOWER"},
    ),
    "transform": Row("DFT", [real(2, 8, 1)], 3, {"onesided": 1}),
    "frames": Row("STFT", [real(1, 32, 1), one(4, np.int64), real(8)], 3),
    "quantise": Row("QuantizeLinear", NUMBERS, 3),
    "dequantise": Row("DequantizeLinear", [whole(U8, 3, 4), *BYTES], 3),
    "dequantise blocks": Row(
        *("DequantizeLinear", [whole(I8, 4, 4), real(2, 4), whole(I8, 2, 4)], 3),
        {"axis": 0, "block_size": 2},
    ),
    "quantise by the range": Row("DynamicQuantizeLinear", [real(3, 4)], 80, outputs=3),
    "product of bytes": Row(
        "MatMulInteger", [whole(U8, 2, 4), whole(I8, 4, 3), one(7, U8), one(-2, I8)], 4
    ),
    "convolution of bytes": Row(
        "ConvInteger",
        [whole(U8, 1, 2, 5, 5), whole(U8, 4, 2, 3, 3), one(9, U8)],
        4,
        {"pads": [1] * 4},
    ),
    "quantised product": Row(
        "QLinearMatMul",
        [whole(U8, 2, 4), *BYTES, whole(I8, 4, 3), *SIGNED, one(0.3), one(7, U8)],
        8,
    ),
    "quantised convolution": Row(
        "QLinearConv",
        [
            *(whole(U8, 1, 2, 5, 5), *BYTES, FILTERS, *BY_CHANNEL),
            *(one(0.2), one(99, U8), whole(np.int16, 4).astype(np.int32)),
        ],
        8,
    ),
    "quantised sum": Row(
        *("QLinearAdd", [whole(U8, 2, 6), *BYTES, whole(U8, 2, 6), *BYTES, *BYTES], 10),
        given=(0, 3),
        domain=MICROSOFT,
    ),
    "quantised sigmoid": Row(
        "QLinearSigmoid",
        [whole(I8, 2, 6), *SIGNED, one(1 / 256), one(-128, I8)],
        1,
        domain=MICROSOFT,
    ),
    "quantised gemm": Row(
        "QGemm",
        [
            *(whole(U8, 2, 6), *BYTES, whole(I8, 3, 6), one(0.02), one(0, I8)),
            *(whole(np.int16, 3).astype(np.int32), one(0.4), one(128, U8)),
        ],
        9,
        {"transB": 1},
        domain=MICROSOFT,
    ),
    "gelu": Row("Gelu", [real(2, 6)], 5, domain=MICROSOFT),
    "norm of a sum": Row(
        *("SkipLayerNormalization", [real(1, 2, 6), real(1, 2, 6), real(6), real(6)], 11),
        {"epsilon": 1e-5},
        (0, 1),
        domain=MICROSOFT,
    ),
    "weights of 4 bits": Row(
        *("MatMulNBits", [real(2, 32), whole(U8, 3, 2, 8), real(6), whole(U8, 3)], 3),
        {"K": 32, "N": 3, "bits": 4, "block_size": 16},
        domain=MICROSOFT,
    ),
}


#: Rows whose results ONNX defines otherwise, as a warning says.
REMARKED = {
    "lstm of nothing",
    "nearest of a region",
    "antialiased to the same size",
    "pool of gaps",
}


def model(row: Row) -> Any:
    from onnx import helper, numpy_helper

    labels = ["" if a is None else f"x{k}" for k, a in enumerate(row.inputs)]
    results = [f"y{k}" for k in range(row.outputs)]
    node = helper.make_node(row.kind, labels, results, domain=row.domain, **row.attributes)
    held = {label: a for label, a in zip(labels, row.inputs, strict=True) if label}
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in held.items()
        if int(name[1:]) in row.given
    ]
    given = {info.name for info in infos}
    tensors = [numpy_helper.from_array(a, name) for name, a in held.items() if name not in given]
    outputs = [helper.make_empty_tensor_value_info(name) for name in results]
    graph = helper.make_graph([node], "graph", infos, outputs, tensors)
    sets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10)


@pytest.mark.parametrize("name", ROWS)
def test_a_node_has_the_results_of_onnxruntime_and_few_operators(name: str) -> None:
    import onnxruntime

    from tosa_convert.frontends.onnx.convert import lower_graph
    from tosa_convert.frontends.onnx.weights import Weights

    row, made = ROWS[name], model(ROWS[name])
    feed = {f"x{index}": row.inputs[index] for index in row.given}
    session = onnxruntime.InferenceSession(made.SerializeToString())
    found = lower_graph(made, Weights(Path()))
    assert found.problems == []
    assert bool(found.remarks) == (name in REMARKED)
    assert found.graph is not None
    graph = tc.rewrites.apply(found.graph).graph
    assert [one for one in tc.validate(graph) if one.code != "requires-extension"] == []
    slots = graph.main.tensors
    held = {name: a.view(slots[name].dtype.numpy) for name, a in feed.items()}
    results = tc.golden.run(graph, held, engine="numpy").outputs.values()
    for got, wanted in zip(results, session.run(None, feed), strict=True):
        assert got.shape == wanted.shape
        if wanted.dtype == F32:
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=2e-6)
        else:
            np.testing.assert_array_equal(got.view(wanted.dtype), wanted)
    assert sum(names(graph).values()) == row.size
