"""Rare operators of ONNX, and types and forms of others, against onnx's reference."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(
            importlib.util.find_spec(name) is None
            for name in ("onnx", "onnxruntime", "tosa_reference_model")
        ),
        reason="onnx, onnxruntime or tosa-tools is not installed",
    ),
]


def real(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def whole(low: int, high: int, *shape: int, dtype: Any = np.int64) -> Any:
    return np.random.default_rng(0).integers(low, high, shape).astype(dtype)


SIZES: Any = np.abs(real(2, 12, 3, 2, seed=4))
REGIONS: Any = np.array([[-3, 0, 5, 9], [1, 1, 2, 2], [4, 4, 20, 22]], np.float32)
#: The sizes of two parameters of an optimizer.
_PAIR = ((2,), (2, 3))
_PENALTY = {"domain": "ai.onnx.preview.training", "norm_coefficient": 0.25}
_POOL = {
    "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7, 1, 2, 3],
    "ngram_counts": [0, 4, 10],
    "ngram_indexes": [0, 1, 2, 6, 4, 5, 3, 8],
    "weights": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    "min_gram_length": 1,
    "max_gram_length": 3,
}

#: Operator, inputs, the positions of those that are constants, outputs, attributes.
CASES: list[tuple[str, list[Any], tuple[int, ...], int, dict[str, Any]]] = [
    ("Binarizer", [real(3, 4)], (), 1, {"domain": "ai.onnx.ml", "threshold": 0.3}),
    (
        "ArrayFeatureExtractor",
        [real(2, 3, 5), np.array([[4, 0, 4]])],
        (),
        1,
        {"domain": "ai.onnx.ml"},
    ),
    ("Det", [real(2, 5, 3, 3)], (), 1, {}),
    ("Det", [real(4, 1, 1)], (), 1, {}),
    ("Einsum", [real()], (), 1, {"equation": "->"}),
    ("BitCast", [np.array([-1, -128, 0, 5], np.int8)], (), 1, {"to": 2, "opset": 26}),
    ("BitCast", [np.array([0, 65535, 40000], np.uint16)], (), 1, {"to": 5, "opset": 26}),
    ("TopK", [whole(0, 4, 3, 6, 2), np.array([4])], (1,), 2, {"axis": 1}),
    ("TopK", [whole(-3, 3, 7, dtype=np.int32), np.array([7])], (1,), 2, {"largest": 0}),
    ("TopK", [np.array([7, 2**30, 2**30 + 1]), np.array([2])], (1,), 2, {}),
    ("TfIdfVectorizer", [whole(1, 9, 3, 8)], (), 1, {"mode": "TF", "max_skip_count": 2, **_POOL}),
    *(
        (
            *("TfIdfVectorizer", [whole(1, 9, 9)], (), 1),
            {**_POOL, "ngram_indexes": list(range(8)), "mode": mode, "max_skip_count": skips},
        )
        for mode, skips in (("TFIDF", 1), ("IDF", 0))
    ),
    (
        "MaxPool",
        [real(2, 3, 7, 6)],
        (),
        2,
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
    ),
    ("MaxPool", [real(1, 2, 5, 6)], (), 2, {"kernel_shape": [2, 3], "storage_order": 1}),
    (
        "MaxUnpool",
        [
            real(1, 2, 2, 3),
            np.array([0, 3, 5, 14, 9, 17, 18, 27, 29, 30, 33, 35]).reshape(1, 2, 2, 3),
        ],
        (),
        1,
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    (
        "ConvTranspose",
        [real(1, 3, 4, 5), real(3, 2, 3, 3, seed=1), real(2, seed=2)],
        (1, 2),
        1,
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    ),
    (
        "DeformConv",
        [
            real(2, 4, 5, 6),
            real(6, 2, 2, 3, seed=1),
            2 * real(2, 24, 3, 2, seed=2),
            real(6, seed=3),
            np.abs(real(2, 12, 3, 2, seed=4)),
        ],
        (1, 3),
        1,
        {"group": 2, "offset_group": 2, "strides": [2, 2], "pads": [1, 0, 0, 0]},
    ),
    (
        "RoiAlign",
        [
            real(2, 3, 8, 6),
            np.array([[-3, 0, 5, 9], [1, 1, 2, 2], [4, 4, 20, 22]], np.float32),
            np.array([1, 0, 1]),
        ],
        (),
        1,
        {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.5},
    ),
    ("Add", [whole(0, 65536, 5, dtype=np.uint16), whole(0, 9, 5, dtype=np.uint16)], (), 1, {}),
    (
        "Adagrad",
        [np.float32(0.1), np.array(3), real(2), real(2, seed=1), np.abs(real(2, seed=2))],
        (),
        2,
        {**_PENALTY, "decay_factor": 0.1, "epsilon": 1e-3},
    ),
    *(
        (
            "Adam",
            [
                np.float32(0.1),
                np.array(count),
                real(2),
                real(2, 3),
                real(2, seed=1),
                real(2, 3, seed=1),
                real(2, seed=2),
                real(2, 3, seed=2),
                np.abs(real(2, seed=3)),
                np.abs(real(2, 3, seed=3)),
            ],
            (),
            6,
            {**_PENALTY, "alpha": 0.9, "beta": 0.99, "norm_coefficient_post": 0.2},
        )
        for count in (0, 4)
    ),
    *(
        (
            "Momentum",
            [np.float32(0.1), np.array(count), real(2), real(2, seed=1), real(2, seed=2)],
            (),
            2,
            {**_PENALTY, "alpha": 0.9, "beta": 0.7, "mode": mode},
        )
        for count, mode in ((0, "standard"), (2, "standard"), (2, "nesterov"))
    ),
]


def write(path: Path, case: tuple[str, list[Any], tuple[int, ...], int, dict[str, Any]]) -> Any:
    """Write a model of one operator; return it."""
    import onnx
    from onnx import helper, numpy_helper

    kind, arrays, constants, count, attributes = case
    attributes = dict(attributes)
    domain, opset = attributes.pop("domain", ""), attributes.pop("opset", 22)
    names, results = [f"x{index}" for index in range(len(arrays))], [f"y{n}" for n in range(count)]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in zip(names, arrays, strict=True)
        if names.index(name) not in constants
    ]
    weights = [numpy_helper.from_array(arrays[index], names[index]) for index in constants]
    node = helper.make_node(kind, names, results, domain=domain, **attributes)
    graph = helper.make_graph([node], "graph", inputs, [], weights)
    kinds = _output_types(kind, arrays, attributes, count)
    graph.output.extend(
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), None)
        for name, dtype in zip(results, kinds, strict=True)
    )
    sets = [helper.make_opsetid("", opset)]
    if domain:
        sets.append(helper.make_opsetid(domain, 1))
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return model


def _output_types(
    kind: str, arrays: list[Any], attributes: dict[str, Any], count: int
) -> list[np.dtype[Any]]:
    from onnx import helper

    if kind == "BitCast":
        return [helper.tensor_dtype_to_np_dtype(attributes["to"])]
    if kind in ("TopK", "MaxPool"):
        return [arrays[0].dtype, np.dtype(np.int64)]
    if kind == "TfIdfVectorizer":
        return [np.dtype(np.float32)]
    return [arrays[0].dtype] * count


@pytest.mark.parametrize("case", CASES, ids=[f"{row[0]}{n}" for n, row in enumerate(CASES)])
def test_results_are_those_of_onnx(
    tmp_path: Path, case: tuple[str, list[Any], tuple[int, ...], int, dict[str, Any]]
) -> None:
    import onnxruntime
    from onnx.reference import ReferenceEvaluator

    path = tmp_path / "m.onnx"
    model = write(path, case)
    graph = tc.frontends.from_onnx(path, narrow=["i64", "f64"])
    assert tc.validate(graph) == []
    given = {f"x{n}": a for n, a in enumerate(case[1]) if n not in case[2]}
    if case[0] == "MaxPool":  # The reference counts positions in columns by a rule of its own.
        expected = onnxruntime.InferenceSession(path).run(None, given)
    else:
        expected = ReferenceEvaluator(model).run(None, given)
    slots = {name: graph.main.tensors[name].dtype.numpy for name in graph.main.inputs}
    fed = {
        name: np.asarray(given[name]).view(kind)
        if given[name].dtype.itemsize == np.dtype(kind).itemsize
        else np.asarray(given[name]).astype(kind)
        for name, kind in slots.items()
    }
    found = tc.run(graph, fed).outputs
    for name, wanted in zip(graph.main.outputs, expected, strict=True):
        assert found[name].shape == np.asarray(wanted).shape
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-5)
        else:
            same = wanted.dtype.itemsize == found[name].dtype.itemsize
            assert (
                found[name].view(wanted.dtype) if same else found[name]
            ).tolist() == wanted.tolist()


def test_an_ensemble_takes_every_way_of_its_trees(tmp_path: Path) -> None:
    import onnx
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    node = helper.make_node(
        *("TreeEnsemble", ["x"], ["y"]),
        domain="ai.onnx.ml",
        n_targets=2,
        nodes_featureids=[0, 1, 2, 0],
        nodes_modes=numpy_helper.from_array(np.array([0, 3, 5, 1], np.uint8)),
        nodes_splits=numpy_helper.from_array(np.array([0, 0.5, 1, -0.5], np.float32)),
        nodes_truenodeids=[1, 0, 2, 4],
        nodes_trueleafs=[0, 1, 1, 1],
        nodes_falsenodeids=[2, 1, 3, 5],
        nodes_falseleafs=[0, 1, 1, 1],
        tree_roots=[0, 3],
        leaf_targetids=[0, 1, 1, 0, 1, 0],
        leaf_weights=numpy_helper.from_array(np.arange(1, 7, dtype=np.float32)),
    )
    x = np.random.default_rng(0).integers(-2, 3, (16, 3)).astype(np.float32) / 2
    graph = helper.make_graph(
        *([node], "graph", [helper.make_tensor_value_info("x", 1, x.shape)]),
        [helper.make_tensor_value_info("y", 1, [16, 2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 5)])
    onnx.save(model, tmp_path / "m.onnx")
    program = tc.frontends.from_onnx(tmp_path / "m.onnx")
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    expected = np.asarray(expected)
    assert len(np.unique(expected, axis=0)) > 4
    np.testing.assert_array_equal(tc.run(program, {"x": x}).outputs["y"], expected)
