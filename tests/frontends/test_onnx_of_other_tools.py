"""ONNX models as onnxruntime's tools and scikit-learn's converter write them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.onnx_models import node

import tosa_convert as tc

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(n) is None for n in ("onnx", "onnxruntime")),
    reason="onnx or onnxruntime is not installed",
)
MS, ML = "com.microsoft", "ai.onnx.ml"
_RANDOM = np.random.default_rng(0)


def f32(*shape: int) -> Any:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def of(value: float, dtype: Any = np.float32) -> Any:
    return np.array(value, dtype)


def written(
    path: Path,
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: list[str],
    weights: dict[str, Any],
) -> Path:
    """Write a model of opset 17 with the domains of other tools."""
    import onnx
    from onnx import helper, numpy_helper

    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in inputs.items()
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(nodes, "graph", given, results, tensors)
    sets = [helper.make_opsetid(*row) for row in (("", 17), (MS, 1), (ML, 3))]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=8), path)
    return path


def expected(path: Path, inputs: dict[str, Any]) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    found = onnxruntime.InferenceSession(path, options).run(None, inputs)
    return [np.asarray(array) for array in found]


X = f32(2, 32)
BYTES, OTHERS = (np.arange(36, dtype=np.uint8).reshape(1, 1, 6, 6) + start for start in (3, 180))
Q = {"s": of(0.05), "z": of(10, np.uint8), "t": of(0.02), "y": of(20, np.uint8)}
PACKED = _RANDOM.integers(0, 256, (4, 2, 8), dtype=np.uint8)
BLOCKS = {"w": PACKED, "s": np.abs(f32(8)) + np.float32(0.1)}


@pytest.mark.parametrize(
    ("kind", "inputs", "weights", "attributes"),
    [
        (
            "MatMulNBits",
            {"x": X},
            BLOCKS | {"z": np.array([0x37, 0x19, 0x88, 0xF0], np.uint8)},
            {"K": 32, "N": 4, "bits": 4, "block_size": 16},
        ),
        ("MatMulNBits", {"x": X}, BLOCKS, {"K": 32, "N": 4, "bits": 4, "block_size": 16}),
        (
            "QGemm",
            {"x": BYTES.reshape(6, 6)},
            {
                "as": of(0.05),
                "az": of(100, np.uint8),
                "b": _RANDOM.integers(-90, 90, (4, 6), dtype=np.int8),
                "bs": np.abs(f32(4)) / 99,
                "bz": np.zeros(4, np.int8),
                "c": np.arange(-400, 400, 200, dtype=np.int32),
                "ys": of(0.2),
                "yz": of(90, np.uint8),
            },
            {"transB": 1},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_operators_of_onnxruntime_lower(
    kind: str, inputs: dict[str, Any], weights: dict[str, Any], attributes: Any, tmp_path: Path
) -> None:
    nodes = [node(kind, [*inputs, *weights], ["result"], domain=MS, **attributes)]
    _compare(tmp_path, nodes, inputs, weights)


def _compare(tmp_path: Path, nodes: list[Any], inputs: Any, weights: Any, count: int = 1) -> None:
    """Compare with onnxruntime: integers may be one step apart."""
    outputs = ["result", "second"][:count]
    path = written(tmp_path / "m.onnx", nodes, inputs, outputs, weights)
    graph = tc.frontends.from_onnx(path, narrow=["i64"])
    given = {
        name: x.view(np.int8) if x.dtype == np.uint8 else x
        for name, x in inputs.items()
        if name in graph.main.inputs
    }
    found = tc.run(graph, given).outputs
    for name, reference in zip(outputs, expected(path, inputs), strict=True):
        one = found[name]
        if reference.dtype in (np.uint8, np.int8):
            steps = one.view(reference.dtype).astype(int) - reference.astype(int)
            assert np.abs(steps).max() <= 1
            assert len(np.unique(reference)) > 1 or reference.size == 1
        else:
            np.testing.assert_allclose(one, reference, 1e-5, 1e-5)


def test_quantised_operators_of_onnxruntime_follow_one_another(tmp_path: Path) -> None:
    weights = Q | {"other": OTHERS}
    first = ["x", "s", "z", "other", "t", "y", "t", "z"]
    second = ["s", "y", "sum", "t", "z", "x", "s", "z"]
    nodes = [
        node("QLinearAdd", first, ["sum"], domain=MS, name="add"),
        node("QLinearConcat", second, ["result"], domain=MS, name="concat", axis=1),
    ]
    _compare(tmp_path, nodes, {"x": BYTES}, weights)


def test_a_table_of_unsigned_integers_is_gathered(tmp_path: Path) -> None:
    table = _RANDOM.integers(0, 256, (9, 4), dtype=np.uint8)
    weights = {"table": table, "s": of(0.01), "z": of(90, np.uint8)}
    nodes = [
        node("Gather", ["table", "ids"], ["q"], name="gather"),
        node("DequantizeLinear", ["q", "s", "z"], ["result"], name="dequantise"),
    ]
    _compare(tmp_path, nodes, {"ids": np.array([[8, 0, 3]], np.int32)}, weights)


@pytest.mark.parametrize("domain", [MS, "own"])
def test_an_operator_of_another_domain_is_refused_by_its_name(domain: str, tmp_path: Path) -> None:
    nodes = [node("Unheard", ["x"], ["result"], domain=domain, name="here")]
    path = written(tmp_path / "m.onnx", nodes, {"x": X}, ["result"], {})
    with pytest.raises(tc.TosaConvertError, match="ONNX does not define it") as caught:
        tc.frontends.from_onnx(path)
    assert f"{domain}.Unheard" in str(caught.value)


def test_a_result_that_is_a_map_is_refused_with_what_helps(tmp_path: Path) -> None:
    nodes = [node("ZipMap", ["x"], ["result"], domain=ML, classlabels_int64s=[1, 2])]
    path = written(tmp_path / "m.onnx", nodes, {"x": f32(1, 2)}, ["result"], {})
    with pytest.raises(tc.TosaConvertError, match="zipmap"):
        tc.frontends.from_onnx(path)


@pytest.mark.parametrize("condition", [True, False])
def test_an_if_whose_condition_is_computed_selects(condition: bool, tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    sides = [
        helper.make_graph(
            [node(kind, ["x", "x"], [name])],
            *(name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, X.shape)]),
        )
        for kind, name in (("Add", "twice"), ("Mul", "square"))
    ]
    attributes = {"then_branch": sides[0], "else_branch": sides[1]}
    nodes = [node("If", ["c"], ["result"], **attributes)]
    _compare(tmp_path, nodes, {"c": np.array(condition), "x": X}, {})


def test_a_model_need_not_name_the_version_of_onnx_itself(tmp_path: Path) -> None:
    import onnx

    nodes = [node("Binarizer", ["x"], ["result"], domain=ML, threshold=0.3)]
    model = onnx.load(written(tmp_path / "m.onnx", nodes, {"x": X}, ["result"], {}))
    del model.opset_import[0]
    onnx.save(model, tmp_path / "m.onnx")
    found = tc.run(tc.frontends.from_onnx(tmp_path / "m.onnx"), {"x": X}).outputs["result"]
    np.testing.assert_array_equal(found, np.greater(X, np.float32(0.3)))
