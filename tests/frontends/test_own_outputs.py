"""A model that returns an input, one value twice or a constant: each output has its own name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontends.run_parts import run_parts
from frontends.tflite_models import OperatorRow, TensorRow, model

import tosa_convert as tc
from tosa_convert.cli.main import run, verb

X = np.array([4, -5, 6], np.float32)
C = np.array([0, 1, 2], np.float32)


def checked(graph: tc.Graph, expected: Mapping[str, Any]) -> None:
    """Assert that a program of the input X has these outputs, and is written as such."""
    assert tc.validate(graph) == []
    assert len({*graph.main.inputs, *graph.main.outputs}) == 1 + len(expected)
    pytest.importorskip("tosa_reference_model", reason="tosa-tools is not installed")
    for program in (graph, tc.load(tc.dumps(graph, "tosa"))):
        found = tc.run(program, {program.main.inputs[0]: X}).outputs
        assert list(found) == list(expected)
        for name, want in expected.items():
            np.testing.assert_allclose(found[name], want, rtol=1e-5, err_msg=name)


@pytest.mark.filterwarnings("ignore")
def test_outputs_of_torch_have_their_keys() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch_mlir", reason="torch-mlir is not installed")

    class Model(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor(C))
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x: Any) -> dict[str, Any]:
            y = x + self.weight
            self.count.add_(1)
            return {
                "given": x,
                "sum": y,
                "again": y,
                "view": y.view(3),
                "state": self.count,
                "weight": self.weight,
                "weight2": self.weight,
                "ones": torch.ones(2),
            }

    graph = tc.frontends.from_torch(Model().eval(), (torch.tensor(X),))
    total = X + C
    expected = {"given": X, "sum": total, "again": total, "view": total, "state": np.ones(3)}
    checked(graph, {**expected, "weight": C, "weight2": C, "ones": np.ones(2)})


def onnx_file(path: Path, *more: tuple[str, str], shape: Sequence[int] = (3,)) -> Path:
    """Return a model of the sum x + w, with further operators of one input: (operator, input)."""
    onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed")
    nodes = [onnx.helper.make_node("Add", ["x", "w"], ["sum"])]
    for kind, given in more:
        name = f"{kind}_{given}"
        nodes.append(onnx.helper.make_node(kind, [given], [name], name=name))
    outputs = [one.output[0] for one in nodes]
    graph = onnx.helper.make_graph(
        nodes,
        "graph",
        [onnx.helper.make_tensor_value_info("x", 1, shape)],
        [
            *map(onnx.helper.make_empty_tensor_value_info, outputs),
            onnx.helper.make_tensor_value_info("w", 1, [3]),
        ],
        [onnx.numpy_helper.from_array(C, "w")],
    )
    opset = onnx.helper.make_opsetid("", 21)
    made = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)
    onnx.save(onnx.shape_inference.infer_shapes(made), path)
    return path


def test_outputs_of_onnx_have_the_names_of_the_graph(tmp_path: Path) -> None:
    copies = [("Identity", "x"), ("Identity", "sum"), ("Identity", "w")]
    path = onnx_file(tmp_path / "m.onnx", *copies, ("Abs", "w"))
    expected = {"sum": X + C, "Identity_x": X, "Identity_sum": X + C, "Identity_w": C, "Abs_w": C}
    checked(tc.frontends.from_onnx(path), {**expected, "w": C})
    words = [str(path), "-o", str(tmp_path / "m.tosa"), "--check"]
    assert run(verb("convert"), words) == 0


def test_outputs_of_jax_have_their_keys() -> None:
    jnp = pytest.importorskip("jax.numpy", reason="jax is not installed")

    def function(x: Any) -> dict[str, Any]:
        y, constant = x + C, jnp.array(C)
        return {"a": x, "b": y, "c": y, "d": constant, "e": constant, "f": jnp.zeros(2)}

    graph = tc.frontends.from_jax(function, (X,))
    total = X + C
    checked(graph, {"a": X, "b": total, "c": total, "d": C, "e": C, "f": np.zeros(2)})


TENSORS = [
    TensorRow("x", "float32", (3,)),
    TensorRow("w", "float32", (3,), C),
    TensorRow("y", "float32", (3,)),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signature", "names"),
    [
        ((["image"], ["a", "b", "c", "d"]), ["a", "b", "c", "d"]),
        (None, ["y", "y_1", "x_1", "w"]),
        ((["image"], ["a", "a", "c", "d"]), ["y", "y_1", "x", "w"]),
    ],
)
def test_outputs_of_tflite_have_the_names_of_the_signature(
    tmp_path: Path, signature: Any, names: list[str]
) -> None:
    path = tmp_path / "m.tflite"
    sum_of = [OperatorRow("ADD", (0, 1), (2,))]
    path.write_bytes(model(TENSORS, sum_of, [0], [2, 2, 0, 1], signature=signature))
    graph = tc.frontends.from_tflite(path)
    assert graph.main.inputs == ["image" if signature else "x"]
    checked(graph, dict(zip(names, (X + C, X + C, X, C), strict=True)))


def test_outputs_of_keras_are_all_there(tmp_path: Path) -> None:
    keras: Any = pytest.importorskip("keras", reason="keras is not installed")
    pytest.importorskip("jax", reason="jax is not installed")
    x = keras.Input(batch_shape=(3,), name="x")
    y = keras.ops.add(x, C)
    path = tmp_path / "m.keras"
    keras.Model(x, {"given": x, "sum": y, "again": y}).save(path)
    graph = tc.frontends.from_keras(path)
    by_name = {"given": X, "sum": X + C, "again": X + C}
    assert sorted(graph.main.outputs) == sorted(by_name)
    checked(graph, {name: by_name[name] for name in graph.main.outputs})


# -- in parts ------------------------------------------------------------------------------------


def in_parts(source: Path) -> Any:
    words = [str(source), "-o", str(source.with_suffix(".tosa")), "--partial"]
    assert run(verb("convert"), words) == 0
    return json.loads(source.with_suffix(".json").read_text(encoding="utf-8"))


def test_outputs_of_a_tflite_model_in_parts_have_their_names(tmp_path: Path) -> None:
    """The model returns its input, and twice what an operator gives that was cut out."""
    pytest.importorskip("tosa_reference_model", reason="tosa-tools is not installed")
    segments = TensorRow("segments", "int32", (3,), np.array([0, 2, 2], np.int32))
    rows = [*TENSORS, segments, TensorRow("s", "float32", (3,))]
    operators = [OperatorRow("ADD", (0, 1), (2,)), OperatorRow("HASHTABLE_LOOKUP", (2, 3), (4,))]
    names = ["first", "second", "given", "sum"]
    path = tmp_path / "m.tflite"
    path.write_bytes(model(rows, operators, [0], [4, 4, 0, 2], signature=(["x"], names)))
    assert in_parts(path)["outputs"] == names
    found = run_parts(path.with_suffix(".json"), {"x": X}, _segment_sum)
    sums = np.array([4, 0, 4])
    for want, got in zip((sums, sums, X, X + C), found, strict=True):
        np.testing.assert_allclose(got, want)


def _segment_sum(name: str, arguments: list[Any], attributes: Mapping[str, Any]) -> list[Any]:
    assert name == "HASHTABLE_LOOKUP"
    return [np.array([arguments[0][0], 0, arguments[0][1:].sum()], np.float32)]


def test_outputs_of_an_onnx_model_in_parts_have_their_names(tmp_path: Path) -> None:
    """One output is an operand of an operator that was cut out, another one what it gives."""
    more = [("Bernoulli", "sum"), ("Identity", "Bernoulli_sum")]
    more += [("Identity", "x"), ("Neg", "Bernoulli_sum")]
    path = onnx_file(tmp_path / "m.onnx", *more, shape=(3, 3))
    rows = in_parts(path)
    assert rows["outputs"] == [
        *("sum", "Bernoulli_sum", "Identity_Bernoulli_sum", "Identity_x", "Neg_Bernoulli_sum", "w")
    ]
    (step,) = (row for row in rows["steps"] if "operator" in row)
    assert step["arguments"] == [{"value": "sum"}]
    assert step["results"] == ["Bernoulli_sum"]
    pytest.importorskip("tosa_reference_model", reason="tosa-tools is not installed")
    x = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 10]], np.float32)
    found = run_parts(path.with_suffix(".json"), {"x": x}, _draw)
    (value,) = _draw("Bernoulli", [x + C], {})
    for want, got in zip((x + C, value, value, x, -value, C), found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4)


def _draw(name: str, arguments: list[Any], attributes: Mapping[str, Any]) -> list[Any]:
    return [np.asarray(arguments[0] > 5, np.float32)]
