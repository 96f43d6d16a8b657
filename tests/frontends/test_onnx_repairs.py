"""ONNX operators of which the forms are easily mistaken, against onnxruntime."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(n) is None for n in ("onnx", "onnxruntime")),
    reason="onnx or onnxruntime is not installed",
)


def values(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


# -- whole models ------------------------------------------------------------------------------------


def _model(nodes: list[Any], weights: dict[str, Any], *, opset: int = 17, **more: Any) -> Any:
    """Return a model of x, of 1x2x5x5, and y without a shape; more: of the graph, and `ir_version`."""
    import onnx
    from onnx import helper, numpy_helper

    version = more.pop("ir_version", 8)
    inputs = [helper.make_tensor_value_info("x", 1, (1, 2, 5, 5)), *more.pop("inputs", ())]
    outputs = [helper.make_tensor_value_info("y", more.pop("kind", 1), more.pop("declared", None))]
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in weights.items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, tensors, **more)
    sets = [helper.make_opsetid("", opset)]
    return onnx.helper.make_model(graph, opset_imports=sets, ir_version=version)


def _pool(kind: str = "AveragePool", source: str = "x", result: str = "pool") -> Any:
    from onnx import helper

    given = {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "strides": [2, 2], "ceil_mode": 1}
    return helper.make_node(kind, [source], [result], **given)


def _of_pools() -> Any:
    """A pool whose size onnx infers otherwise than onnxruntime, and what takes its shape."""
    from onnx import helper

    node = helper.make_node
    begin = [node("Shape", ["pool"], ["s"]), node("Slice", ["s", "zero", "two"], ["b"])]
    joined = [node("Concat", ["b", "rest"], ["r"], axis=0), node("Reshape", ["pool", "r"], ["y"])]
    weights = {"zero": [0], "two": [2], "rest": [-1]}
    wrong = helper.make_tensor_value_info("pool", 1, (1, 2, 4, 4))
    last = node("Relu", ["pool"], ["y"])
    return (
        _model([_pool(), *begin, *joined], weights),
        _model([_pool(), last], {}, value_info=[wrong], declared=(1, 2, 4, 4)),
        _model([_pool(), _pool("MaxPool", "pool", "y")], {}),
    )


def _of_resize() -> Any:
    from onnx import helper

    node = helper.make_node
    for mode in ("nearest", "linear"):
        nodes = [
            node("Resize", ["x", "", "scales"], ["wide"], mode=mode),
            *(node("Shape", ["wide"], ["s"]), node("Gather", ["s", "two"], ["d"])),
            *(node("Cast", ["d"], ["f"], to=1), node("Mul", ["wide", "f"], ["y"])),
        ]
        yield _model(nodes, {"scales": np.array([1, 1, 4.6, 0.7], np.float32), "two": 2})


def _loop(scans: bool) -> Any:
    """Add the rows that the counter names, and return the sums of each step if `scans`."""
    from onnx import TensorProto, helper

    info, node = helper.make_tensor_value_info, helper.make_node
    body = helper.make_graph(
        [
            *(node("Gather", ["rows", "i"], ["r"], axis=0), node("Add", ["a", "r"], ["a2"])),
            *(node("Identity", ["c"], ["c2"]), node("Mul", ["a2", "a2"], ["squares"])),
        ],
        "body",
        [info("i", 7, []), info("c", TensorProto.BOOL, []), info("a", 1, [2, 5])],
        [info("c2", TensorProto.BOOL, []), info("a2", 1, [2, 5]), info("squares", 1, [2, 5])],
    )
    results = ["other", "y"] if scans else ["y", "other"]
    nodes = [
        node("Reshape", ["x", "shape"], ["rows"]),
        node("Loop", ["n", "t", "start"], results, body=body),
    ]
    weights = {"n": 5, "t": True, "start": np.zeros((2, 5), np.float32), "shape": [5, 2, 5]}
    return _model(nodes, weights)


def _of_old_format() -> Any:
    """All constants are inputs, too, as the third version of the format wants it."""
    from onnx import helper

    node = helper.make_node
    weights = {
        "low": np.float32(-1),
        "high": np.float32(1),
        "two": [2, 25],
        "axis": [1],
        "end": [9],
    }
    nodes = [
        *(node("Clip", ["x", "low", "high"], ["a"]), node("Reshape", ["a", "two"], ["b"])),
        *(node("ReduceSum", ["b", "axis"], ["c"]), node("Expand", ["c", "two"], ["d"])),
        node("Slice", ["d", "axis", "end", "axis"], ["y"]),
    ]
    kinds = {name: np.asarray(value) for name, value in weights.items()}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in kinds.items()
    ]
    return _model(nodes, weights, opset=13, ir_version=3, inputs=inputs)


def _of_quantised_layers() -> Any:
    """A layer of int8 with Relu, whose zero point is the least integer or another."""
    from onnx import helper

    node = helper.make_node
    scale, zero = np.float32(0.05), np.int8(0)
    for least, channels in ((-128, 0), (0, 0), (-128, 1)):
        each: dict[str, Any] = {"ws": scale, "wz": zero}
        if channels:
            each = {"ws": np.full(3, scale), "wz": np.zeros(3, np.int8)}
        nodes = [
            node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            node("DequantizeLinear", ["w", "ws", "wz"], ["v"], **({"axis": 0} if channels else {})),
            *(node("Conv", ["d", "v"], ["c"]), node("Relu", ["c"], ["r"])),
            node("QuantizeLinear", ["r", "s", "l"], ["p"]),
            node("DequantizeLinear", ["p", "s", "l"], ["y"]),
        ]
        w = np.random.default_rng(0).integers(-99, 99, (3, 2, 2, 2), np.int8)
        yield _model(nodes, {"s": scale, "z": zero, "w": w, "l": np.int8(least), **each}, opset=13)


def _models() -> dict[str, Any]:
    rows = {"pools": _of_pools, "sizes": _of_resize, "quantised": _of_quantised_layers}
    found = {f"{name}{i}": one for name, make in rows.items() for i, one in enumerate(make())}
    found |= {"loop": _loop(scans=False), "scan": _loop(scans=True), "old": _of_old_format()}
    return found


@pytest.mark.parametrize(
    "name",
    [
        *("pools0", "loop", "old"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("pools1", "pools2", "sizes0", "sizes1", "scan")
        ),
        *(pytest.param(f"quantised{i}", marks=pytest.mark.slow) for i in range(3)),
    ],
)
def test_a_model_computes_what_onnxruntime_computes(tmp_path: Path, name: str) -> None:
    import onnx
    import onnxruntime

    model, path = _models()[name], tmp_path / "m.onnx"
    onnx.save(model, path)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    x = values(1, 2, 5, 5)
    expected: Any = session.run(None, {"x": x})[0]
    graph = tc.frontends.from_onnx(path, narrow=["i64"])
    (found,) = tc.run(graph, {"x": x}, engine="numpy").outputs.values()
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-5, strict=True)


def test_nodes_without_a_name_are_called_after_what_they_make(tmp_path: Path) -> None:
    import onnx
    from onnx import helper

    nodes = [
        *(helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Floor", ["a"], ["b"])),
        helper.make_node("Mod", ["b", "a"], ["c"], fmod=1),
        *(helper.make_node("Unique", ["c"], ["u"]), helper.make_node("Neg", ["u"], ["y"])),
    ]
    onnx.save(_model(nodes, {}), tmp_path / "m.onnx")
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_onnx(tmp_path / "m.onnx")
    found = {
        (one.where.rpartition(": ")[2], one.message.split()[0]) for one in caught.value.findings
    }
    assert found == {("u", "onnx.Unique")}
