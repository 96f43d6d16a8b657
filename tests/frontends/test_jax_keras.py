"""Keras models whose backend is JAX, in this process; docs/frontends.md says which layers lower."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.cli.main import run, verb

for package in ("jax", "scipy"):
    pytest.importorskip(package, reason=f"{package} is not installed")
keras: Any = pytest.importorskip("keras", reason="keras is not installed")
if keras.backend.backend() != "jax":
    pytest.skip("Keras has another backend here", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("default")
CASES: Final = importlib.import_module("frontends.keras_layers").CASES


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_a_layer_gives_what_keras_gives(name: str) -> None:
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    case = CASES[name]
    x = keras.Input(batch_shape=(1, *case.shape), dtype="int32" if case.below else "float32")
    model = keras.Model(x, case.make(x))
    random = np.random.default_rng(0)
    given: Any = random.standard_normal((1, *case.shape)).astype(np.float32)
    if case.below:
        given = random.integers(0, case.below, (1, *case.shape), np.int32)
    graph = tc.frontends.from_keras(model)
    found = tc.run(graph, {graph.main.inputs[0]: given}, engine="numpy").outputs.values()
    for got, want in zip(found, keras.tree.flatten(model(given, training=False)), strict=True):
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-4, atol=1e-5)


def test_a_layer_of_the_users_own_converts_with_its_line() -> None:
    class Twice(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return x * 2

    x = keras.Input(batch_shape=(1, 4), name="x")
    graph = tc.frontends.from_keras(keras.Model(x, Twice(name="twice")(x)))
    assert (graph.main.inputs, graph.main.outputs) == (["x"], ["twice"])
    line = f'"twice/mul"("{Path(__file__).name}":'
    assert any(line in operator.location for operator in graph.main.operators)


def test_a_state_that_inference_changes_is_a_variable() -> None:
    class Count(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.count = self.add_weight(shape=(1,), initializer="zeros", trainable=False, name="n")

        def call(self, x: Any) -> Any:
            self.count.assign_add(keras.ops.ones(1))
            return x + self.count

    x = keras.Input(batch_shape=(1, 2), name="x")
    model = keras.Model(x, Count(name="count")(x))
    graph = tc.frontends.from_keras(model)
    (state,) = [one for one in graph.main.tensors.values() if one.variable]
    assert state.variable_name == "count.n"
    assert float(model.weights[0][0]) == 0
    (result,) = tc.run(graph, {"x": np.zeros((1, 2), np.float32)}).outputs.values()
    np.testing.assert_array_equal(result, [[1, 1]])


def test_states_of_recurrent_layers_are_variables(tmp_path: Path) -> None:
    x = keras.Input(batch_shape=(1, 3, 2), name="x")
    model = keras.Model(x, keras.layers.LSTM(2, stateful=True)(x))
    graph = tc.frontends.from_keras(model)
    assert sum(one.variable for one in graph.main.tensors.values()) == 2
    given = np.random.default_rng(0).standard_normal((1, 3, 2)).astype(np.float32)
    first, second = (np.asarray(model(given)) for _ in range(2))
    assert np.abs(first - second).max() > 1e-3
    result = tc.run(graph, {"x": given})
    np.testing.assert_allclose(result.outputs["lstm"], first, rtol=1e-5, atol=1e-6)
    model.save(tmp_path / "m.keras")
    words = [str(tmp_path / "m.keras"), "-o", str(tmp_path / "m.tosa"), "--check"]
    assert run(verb("convert"), [*words, "--engine", "numpy"]) == 0


def test_a_change_of_a_variable_that_the_model_does_not_list_is_refused() -> None:
    hidden = [keras.Variable(np.zeros(1, np.float32))]

    class Count(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            hidden[0].assign(hidden[0] + 1)
            return x + hidden[0]

    x = keras.Input(batch_shape=(1, 2), name="x")
    model = keras.Model(x, Count()(x))
    with pytest.raises(tc.TosaConvertError, match="none of the model's variables"):
        tc.frontends.from_keras(model)


@pytest.mark.parametrize(
    ("dtype", "narrow", "hint"),
    [("int64", "i64", "--narrow i64"), ("float64", "f64", "--narrow f64"), ("string", "", "text")],
)
def test_inputs_are_narrowed_on_request_only(dtype: str, narrow: str, hint: str) -> None:
    x = keras.Input(batch_shape=(1, 4), dtype=dtype, name="x")
    model = keras.Model(x, x if dtype == "string" else x + 1)
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_keras(model)
    assert caught.value.code == "not-lowered"
    assert hint in caught.value.findings[0].hint
    if narrow:
        graph = tc.frontends.from_keras(model, narrow=narrow)
        assert graph.main.tensors["x"].dtype.bits == 32


def test_open_sizes_that_have_to_be_equal_are_refused_with_the_options() -> None:
    one, other = (keras.Input((None, 4), name=name) for name in "ab")
    with pytest.raises(tc.TosaConvertError, match="open sizes of its inputs differ") as caught:
        tc.frontends.from_keras(keras.Model([one, other], one + other))
    assert "--input-shape a=1x1x4 --input-shape b=1x1x4" in caught.value.findings[0].hint


def test_options_of_another_process_are_refused() -> None:
    x = keras.Input(batch_shape=(1, 4), name="x")
    for options in ({"python": "python3"}, {"timeout": 1.0}):
        with pytest.raises(tc.TosaConvertError) as caught:
            tc.frontends.from_keras(keras.Model(x, x * 2), **options)
        assert caught.value.code == "option-conflict"


def test_the_batch_stays_open(tmp_path: Path) -> None:
    x = keras.Input((8, 8, 3), name="x")
    hidden = keras.layers.BatchNormalization()(keras.layers.Conv2D(4, 3)(x))
    model = keras.Model(x, keras.layers.Dense(2)(keras.layers.Flatten()(hidden)))
    graph = tc.frontends.from_keras(model)
    assert graph.main.tensors["x"].shape == (-1, 8, 8, 3)
    given = np.random.default_rng(0).standard_normal((5, 8, 8, 3)).astype(np.float32)
    tc.save(graph, tmp_path / "m.tosa")
    fixed = tc.load(tmp_path / "m.tosa", input_shapes={"x": given.shape})
    (found,) = tc.run(fixed, {"x": given}).outputs.values()
    np.testing.assert_allclose(found, np.asarray(model(given)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("value", "index"), [([0.0, -0.0], 0), ([-0.0, 0.0], 1), ([1.0, 2.0], 1), ([-1.0, -2.0], 0)]
)
def test_argmax_tells_zeros_apart_as_keras_does(value: list[float], index: int) -> None:
    x = keras.Input(batch_shape=(2,), name="x")
    graph = tc.frontends.from_keras(keras.Model(x, keras.ops.argmax(x, -1)))
    (found,) = tc.run(graph, {"x": np.array(value, np.float32)}).outputs.values()
    assert int(found) == index
