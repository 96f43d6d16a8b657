"""Keras layers and operations, one at a time, against TFLite; docs/frontends.md has the result."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import tosa_convert as tc

for package in ("tosa_reference_model", "keras", "scipy"):
    pytest.importorskip(package, reason=f"{package} is not installed")
tf: Any = pytest.importorskip("tensorflow", reason="tensorflow is not installed")
CASES: Final = importlib.import_module("frontends.keras_layers").CASES
keras: Final[Any] = importlib.import_module("keras")

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("default")]

#: What TFLite does not take -> the operator of TensorFlow.
NOT_IN_TFLITE = {
    "UpSampling2D_bicubic": "ResizeBicubic",
    "MaxPooling3D": "MaxPool3D",
    "AveragePooling3D": "AvgPool3D",
    "ops.erf": "Erf",
    "ops.tan": "Tan",
    "ops.argmax": "BitwiseAnd",
    "ops.argmin": "BitwiseAnd",
    "ops.take_along_axis": "BitwiseAnd",
    "ops.affine_transform": "ImageProjectiveTransformV3",
}
#: What does not lower -> what the converter says.
NOT_LOWERED = {
    "ops.rfft": "fails for complex64",
}


def model_of(name: str) -> Any:
    case = CASES[name]
    keras.utils.set_random_seed(0)
    kind = "int32" if case.below else "float32"
    x = keras.Input(batch_shape=(1, *case.shape), name="x", dtype=kind)
    return keras.Model(x, case.make(x))


def example(name: str) -> Any:
    case, random = CASES[name], np.random.default_rng(0)
    if case.below:
        return random.integers(0, case.below, (1, *case.shape), np.int32)
    return random.standard_normal((1, *case.shape)).astype(np.float32)


def by_tflite(data: bytes, x: Any) -> list[Any]:
    """Return what TFLite gives; by its reference kernels, where it has them for every operator."""
    kinds = tf.lite.experimental.OpResolverType
    for kind in (kinds.BUILTIN_REF, kinds.BUILTIN):
        try:
            machine = tf.lite.Interpreter(model_content=data, experimental_op_resolver_type=kind)
            machine.allocate_tensors()
        except (RuntimeError, ValueError):
            continue
        break
    for given in machine.get_input_details():
        machine.set_tensor(given["index"], x)
    machine.invoke()
    return [machine.get_tensor(row["index"]) for row in machine.get_output_details()]


def lowered(path: Path) -> tc.Graph:
    return tc.frontends.from_tflite(path, narrow="i64,f64")


@pytest.mark.parametrize("name", list(CASES))
def test_a_layer_gives_what_tflite_gives_or_is_named(name: str, tmp_path: Path) -> None:
    converter = tf.lite.TFLiteConverter.from_keras_model(model_of(name))
    if name in NOT_IN_TFLITE:
        with pytest.raises(Exception, match=NOT_IN_TFLITE[name]):
            converter.convert()
        return
    data = converter.convert()
    path = tmp_path / "layer.tflite"
    path.write_bytes(data)
    if name in NOT_LOWERED:
        with pytest.raises(tc.TosaConvertError, match=NOT_LOWERED[name]):
            lowered(path)
        return
    x = example(name)
    graph = lowered(path)
    found = tc.run(graph, dict.fromkeys(graph.main.inputs, x)).outputs.values()
    for want, got in zip(by_tflite(data, x), found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_most_layers_are_equal() -> None:
    assert len(CASES) - len(NOT_IN_TFLITE) - len(NOT_LOWERED) >= 140
