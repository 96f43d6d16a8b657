"""ONNX models: names, sizes, external weights, decompositions, and what does not lower."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.onnx_models import node, saved

import tosa_convert as tc

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(n) is None for n in ("onnx", "onnxruntime")),
    reason="onnx or onnxruntime is not installed",
)


def test_names_of_inputs_outputs_and_nodes_are_those_of_the_model(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["y"], name="first"),
        node("Relu", ["y"], ["z.out"], name="second"),
    ]
    weights = {"w": np.ones((3, 2), np.float32)}
    path = saved(tmp_path / "m.bin", nodes, {"x": (np.float32, [4, 3])}, ["z.out"], weights)
    graph = tc.frontends.from_file(path)
    assert graph.main.inputs == ["x"]
    assert graph.main.outputs == ["z.out"]
    assert any("second" in operator.location for operator in graph.main.operators)
    found = tc.run(graph, {"x": np.ones((4, 3), np.float32)}).outputs["z.out"]
    assert found.tolist() == [[3, 3]] * 4


def test_functions_of_a_model_are_inlined(tmp_path: Path) -> None:
    import onnx

    path = saved(
        tmp_path / "m.onnx",
        [node("Twice", ["x"], ["y"], domain="own")],
        {"x": (np.float32, [2, 3])},
        ["y"],
        functions=[
            onnx.helper.make_function(
                *("own", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])]),
                [onnx.helper.make_opsetid("", 21)],
            )
        ],
    )
    graph = tc.frontends.from_onnx(path)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert tc.run(graph, {"x": x}).outputs["y"].tolist() == (2 * x).tolist()


def test_external_weights_are_read_from_the_folder_of_the_model(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).random((32, 32)).astype(np.float32)
    path = saved(
        tmp_path / "m.onnx",
        [node("MatMul", ["x", "w"], ["y"])],
        {"x": (np.float32, [2, 32])},
        ["y"],
        {"w": weight},
        save_as_external_data=True,
        size_threshold=0,
        location="m.data",
    )
    assert (tmp_path / "m.data").exists()
    x = np.ones((2, 32), np.float32)
    found = tc.run(tc.frontends.from_onnx(path), {"x": x}).outputs["y"]
    np.testing.assert_allclose(found, x @ weight, rtol=1e-5)


def test_a_dimension_of_one_name_gets_one_size_everywhere(tmp_path: Path) -> None:
    nodes = [node("Add", ["x", "y"], ["z"])]
    inputs: dict[str, tuple[Any, list[int | str]]] = {
        "x": (np.float32, ["n", 2]),
        "y": (np.float32, ["n", 2]),
    }
    path = saved(tmp_path / "m.onnx", nodes, inputs, ["z"])
    graph = tc.frontends.from_onnx(path, input_shapes={"x": (3, 2)})
    assert graph.main.tensors["y"].shape == (3, 2)
    for shapes, code in (
        ({"w": (3, 2)}, "unknown-argument"),
        ({"x": (3,)}, "option-conflict"),
        ({"x": (3, 4)}, "option-conflict"),
        ({"x": (3, 2), "y": (4, 2)}, "option-conflict"),
    ):
        with pytest.raises(tc.TosaConvertError) as caught:
            tc.frontends.from_onnx(path, input_shapes=shapes)
        assert caught.value.findings[0].code == code


def test_every_operator_that_does_not_lower_is_named_with_its_node(tmp_path: Path) -> None:
    nodes = [
        node("NonZero", ["x"], ["a"], name="where"),
        node("Det", ["x"], ["b"], name="determinant"),
    ]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (np.float32, [20, 20])}, ["a", "b"])
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_onnx(path)
    found = {finding.code for finding in caught.value.findings}
    assert found == {"not-lowered"}
    text = str(caught.value)
    assert "NonZero" in text
    assert "Det" in text


def one(tmp_path: Path, kind: str, x: Any, *constants: Any, **attributes: Any) -> Any:
    """Return what one operator gives on the reference model, for an input and constants."""
    weights = {f"c{index}": array for index, array in enumerate(constants) if array is not None}
    names = [f"c{index}" if array is not None else "" for index, array in enumerate(constants)]
    nodes = [node(kind, ["x", *names], ["y"], **attributes)]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (x.dtype, list(x.shape))}, ["y"], weights)
    graph = tc.frontends.from_onnx(path, narrow=["i64", "f64"])
    wanted = graph.main.tensors["x"].dtype.numpy
    given = x.view(wanted) if x.dtype.itemsize == wanted.itemsize else x.astype(wanted)
    return tc.run(graph, {"x": given}).outputs["y"]


def test_uint8_is_not_taken_for_signed(tmp_path: Path) -> None:
    x = np.array([0, 1, 127, 128, 200, 255], np.uint8)
    scale, zero = np.array(0.5, np.float32), np.array(10, np.uint8)
    found = one(tmp_path, "DequantizeLinear", x, scale, zero)
    assert found.tolist() == [-5, -4.5, 58.5, 59, 95, 122.5]
    reals = np.array([-100, -5, 0, 95, 1000], np.float32)
    found = one(tmp_path, "QuantizeLinear", reals, scale, zero)
    assert found.view(np.uint8).tolist() == [0, 0, 10, 200, 255]


@pytest.mark.parametrize(
    ("flags", "expected"), [((1, 0), [True, False]), ((0, 1), [False, True]), ((0, 0), [False] * 2)]
)
def test_is_inf_keeps_its_flags(
    tmp_path: Path, flags: tuple[int, int], expected: list[bool]
) -> None:
    x = np.array([np.inf, -np.inf, 3, np.nan], np.float32)
    found = one(tmp_path, "IsInf", x, detect_positive=flags[0], detect_negative=flags[1])
    assert found.tolist() == [*expected, False, False]


def test_nearest_resize_rounds_down_where_it_is_asked_to(tmp_path: Path) -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    found = one(
        tmp_path,
        "Resize",
        x,
        None,
        np.array([1, 1, 2, 3], np.float32),
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )
    assert found.reshape(4, 6).tolist() == np.kron(x[0, 0], np.ones((2, 3))).tolist()


def test_normalising_zeros_gives_zeros(tmp_path: Path) -> None:
    x = np.array([[0, 0], [3, 4]], np.float32)
    found = one(tmp_path, "LpNormalization", x, axis=1, p=2)
    np.testing.assert_allclose(found, [[0.0, 0.0], [0.6, 0.8]], rtol=1e-6)


def test_an_lstm_is_unrolled(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.random((3, 2, 4)).astype(np.float32)
    weights = [random.random((2, 20, n)).astype(np.float32) - 0.5 for n in (4, 5)]
    bias = random.random((2, 40)).astype(np.float32)
    attributes = {"hidden_size": 5, "direction": "bidirectional"}
    found = one(tmp_path, "LSTM", x, *weights, bias, **attributes)
    import onnxruntime

    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    expected: Any = session.run(None, {"x": x})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_random_operators_are_refused(tmp_path: Path) -> None:
    x = np.full((2, 3), 0.5, np.float32)
    with pytest.raises(tc.TosaConvertError, match="it draws random numbers"):
        one(tmp_path, "Bernoulli", x)
    ratio, training = np.array(0.5, np.float32), np.array(True)
    with pytest.raises(tc.TosaConvertError, match=r"Dropout.*draws random numbers"):
        one(tmp_path, "Dropout", x, ratio, training)
    assert one(tmp_path, "Dropout", x, np.array(0, np.float32), training).tolist() == x.tolist()
    assert one(tmp_path, "Dropout", x).tolist() == x.tolist()


def test_a_definition_without_its_attributes_has_their_defaults(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((2, 3, 4, 5)).astype(np.float32)
    found = one(tmp_path, "MeanVarianceNormalization", x)
    axes = (0, 2, 3)
    centred = x - x.mean(axes, keepdims=True)
    np.testing.assert_allclose(found, centred / x.std(axes, keepdims=True), atol=1e-5)


def test_padding_wraps_around(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = one(tmp_path, "Pad", x, np.array([0, 2, 1, 4], np.int64), mode="wrap")
    assert found.tolist() == np.pad(x, ((0, 1), (2, 4)), mode="wrap").tolist()


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("sizes", [(3, 4), (2, 3, 4)])
def test_an_affine_grid_of_known_sizes_is_computed(
    sizes: tuple[int, ...], corners: int, tmp_path: Path
) -> None:
    axes = len(sizes)
    theta = np.random.default_rng(0).random((2, axes, axes + 1)).astype(np.float32)
    size = np.array([2, 1, *sizes], np.int64)
    found = one(tmp_path, "AffineGrid", theta, size, align_corners=corners)
    import onnx.reference

    reference = onnx.reference.ReferenceEvaluator(str(tmp_path / "m.onnx"))
    expected: Any = reference.run(None, {"x": theta})[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_quantised_operators_of_old_sets_lower(tmp_path: Path) -> None:
    import onnx

    a = np.array([[10, 20], [30, 40]], np.uint8)
    weights: dict[str, Any] = {
        **{name: np.array(0.5, np.float32) for name in ("s0", "s1", "s2")},
        **{name: np.array(3, np.uint8) for name in ("z0", "z1", "z2")},
        "b": np.array([[3, 4], [5, 6]], np.uint8),
    }
    nodes = [node("QLinearMatMul", ["x", "s0", "z0", "b", "s1", "z1", "s2", "z2"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (np.uint8, [2, 2])}, ["y"], weights)
    model = onnx.load(path)
    model.opset_import[0].version = 10
    model.ir_version = 5
    onnx.save(model, path)
    graph = tc.frontends.from_onnx(path)
    found = tc.run(graph, {"x": a.view(np.int8)}).outputs["y"].view(np.uint8)
    real = (a.astype(int) - 3) @ np.array([[0, 1], [2, 3]]) * 0.25
    assert found.tolist() == (np.rint(real / 0.5) + 3).tolist()


@pytest.mark.parametrize("kind", ["ReduceL2", "ReduceLogSum", "ReduceLogSumExp"])
@pytest.mark.parametrize("axes", [[1], [0, -1], []])
def test_reductions_of_powers_and_logarithms(kind: str, axes: list[int], tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((2, 3, 4)).astype(np.float32)
    keepdims = len(axes) % 2
    found = one(tmp_path, kind, x, np.array(axes, np.int64), keepdims=keepdims)
    terms = {"ReduceL2": x * x, "ReduceLogSum": x, "ReduceLogSumExp": np.exp(x)}[kind]
    total = terms.sum(tuple(axes) or None, keepdims=bool(keepdims))
    np.testing.assert_allclose(
        found, np.sqrt(total) if kind == "ReduceL2" else np.log(total), rtol=1e-5
    )


@pytest.mark.parametrize("seed", [None, 1])
def test_dynamic_quantisation_rounds_as_onnx_does(seed: int | None, tmp_path: Path) -> None:
    x = np.array([0, 2, -3, -2.5, 1.34, 0.5], np.float32)  # two of them are close to ties
    if seed is not None:
        x = np.random.default_rng(seed).standard_normal(2000).astype(np.float32)
    nodes = [node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])]
    inputs = {"x": (np.float32, list(x.shape))}
    path = saved(tmp_path / "m.onnx", nodes, inputs, ["y", "scale", "zero"])
    found = tc.run(tc.frontends.from_onnx(path), {"x": x}).outputs
    scale = np.float32(x.max() - x.min()) / np.float32(255)
    zero = np.rint(-x.min() / scale)
    assert found["scale"] == scale
    assert found["zero"].view(np.uint8) == zero
    expected = np.clip(np.rint(x / scale) + zero, 0, 255)
    np.testing.assert_array_equal(found["y"].view(np.uint8), expected)


def test_corners_of_a_size_that_is_not_whole_are_refused(tmp_path: Path) -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    corners = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    whole = np.array([1, 1, 0.75, 0.75], np.float32)
    found = one(tmp_path, "Resize", x, None, whole, **corners)
    assert found[0, 0, -1, -1] == 15
    with pytest.raises(tc.TosaConvertError, match="give it sizes, not scales"):
        one(tmp_path, "Resize", x, None, whole + np.array([0, 0, 0.1, 0.1], np.float32), **corners)


def test_rows_are_gathered_as_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = np.arange(14, dtype=np.float32).reshape(7, 2)
    nodes = [node("Gather", ["table", "tokens"], ["y"], name="embed", axis=0)]
    path = saved(
        tmp_path / "m.onnx", nodes, {"tokens": (np.int64, [1, 3])}, ["y"], {"table": table}
    )
    graph = tc.frontends.from_file(path, narrow=["i64"])
    assert "narrowed i64 to i32 in 1 tensor: tokens" in caplog.text
    (gather,) = [row for row in graph.main.operators if row.spec.name == "GATHER"]
    assert graph.main.tensors[gather.inputs[0]].shape == (1, 7, 2)
    found = tc.run(graph, {"tokens": np.array([[6, 0, -2]], np.int32)}).outputs["y"]
    assert found.tolist() == [[[12, 13], [0, 1], [10, 11]]]


def test_sizes_that_are_not_fixed_are_said_beside_what_does_not_lower(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = [node("Shape", ["x"], ["s"]), node("Reshape", ["x", "s"], ["y"])]
    nodes += [node("Det", ["y"], ["z"])]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (np.float32, ["batch", 20, 20])}, ["z"])
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_file(path)
    assert caught.value.code == "not-lowered"
    assert "more operators lower once they are: --input-shape x=1x20x20" in caplog.text
