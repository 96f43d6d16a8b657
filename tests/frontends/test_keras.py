"""Keras models and SavedModels, where Keras and TensorFlow are installed (`nox -s frontends`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tosa_convert as tc
from tosa_convert.cli.main import run, verb

pytest.importorskip("tensorflow", reason="tensorflow is not installed")
keras: Any = pytest.importorskip("keras", reason="keras is not installed")

pytestmark = pytest.mark.filterwarnings("default")


def network() -> Any:
    image = keras.Input((8, 8, 1), name="image")
    hidden = keras.layers.Conv2D(4, 3, activation="gelu")(image)
    average = keras.layers.GlobalAveragePooling2D(name="average")(hidden)
    return keras.Model(image, average, name="network")


def signature(graph: tc.Graph) -> list[tuple[str, tuple[int, ...] | None]]:
    main = graph.main
    return [(name, main.tensors[name].shape) for name in (*main.inputs, *main.outputs)]


EXPECTED = [("image", (1, 8, 8, 1)), ("output_0", (1, 4))]


def test_a_model_a_file_and_a_saved_model_give_one_program(tmp_path: Path) -> None:
    model = network()
    model.save(tmp_path / "m.keras")
    model.save(tmp_path / "m.h5")
    model.export(tmp_path / "saved", verbose=False)
    shapes = {"image": (1, 8, 8, 1)}
    saved = tc.frontends.from_file(tmp_path / "saved", input_shapes=shapes)
    assert signature(saved) == EXPECTED
    named = [EXPECTED[0], ("average", (1, 4))]
    for file in ("m.keras", "m.h5"):
        graph = tc.frontends.from_file(tmp_path / file, input_shapes=shapes)
        assert signature(graph) == named
    assert signature(tc.frontends.from_keras(model, input_shapes=shapes)) == named


def test_the_program_gives_what_the_model_gives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network().save(tmp_path / "m.keras")
    words = [str(tmp_path / "m.keras"), "-o", str(tmp_path / "m.tosa"), "--check"]
    assert run(verb("convert"), words) == 0
    assert capsys.readouterr().out.startswith("ok   average")


def test_a_function_of_a_python_file_makes_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nets.py").write_text(
        "import keras\n\n\ndef make_sum():\n    x = keras.Input(batch_shape=(1, 4), name='x')\n"
        "    return keras.Model(x, x + 1)\n\n\ndef make_nothing():\n    return 3\n"
    )
    for name, code, text in (
        ("make_sum", 0, "ok   "),
        ("make_nothing", 4, "must return a keras.Model, found int"),
    ):
        words = [f"{tmp_path / 'nets.py'}:{name}", "-o", str(tmp_path / "m.tosa"), "--check"]
        assert run(verb("convert"), words) == code
        said = capsys.readouterr()
        assert text in said.out + said.err


def test_outputs_and_operators_have_the_names_and_lines_of_layers(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(
        "import keras\n\n\ndef make():\n    x = keras.Input(batch_shape=(1, 4), name='x')\n"
        "    hidden = keras.layers.Dense(3, activation='relu', name='hidden')(x)\n"
        "    scores = keras.layers.Dense(2, name='scores')(hidden)\n"
        "    return keras.Model(x, [scores, hidden + 1])\n"
    )
    graph = tc.frontends.from_file(f"{tmp_path / 'nets.py'}:make")
    assert set(graph.main.outputs) == {"scores", "add"}
    places = " ".join(operator.location for operator in graph.main.operators)
    for place in (
        '"hidden/max"("nets.py":6:0)',
        '"scores/add"("nets.py":7:0)',
        '"add/add"("nets.py":',
    ):
        assert place in places


MODELS = """
import keras


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2, name="scores")

    def call(self, x):
        return self.dense(x)


def make_own():
    model = Own()
    model(keras.ops.zeros((1, 4)))
    return model


def make_sequence():
    layers = [keras.layers.Dense(3, activation="relu"), keras.layers.Dense(2, name="scores")]
    return keras.Sequential([keras.Input(batch_shape=(1, 4)), *layers])


def make_nested():
    dense = keras.layers.Dense(3, name="scores")
    return keras.Sequential([keras.Input(batch_shape=(1, 4)), make_sequence(), dense])
"""


@pytest.mark.parametrize(
    ("member", "output"),
    [("make_own", "output_0"), ("make_sequence", "scores"), ("make_nested", "scores")],
)
def test_models_that_are_not_functional_convert(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], member: str, output: str
) -> None:
    (tmp_path / "nets.py").write_text(MODELS)
    words = ["--input-shape", "args_0=1x4"] if member == "make_own" else []
    source = f"{tmp_path / 'nets.py'}:{member}"
    assert run(verb("convert"), [source, "-o", str(tmp_path / "m.tosa"), "--check", *words]) == 0
    assert capsys.readouterr().out.startswith(f"ok   {output} ")


def test_an_hdf5_file_of_weights_alone_is_refused(tmp_path: Path) -> None:
    network().save_weights(tmp_path / "m.weights.h5")
    with pytest.raises(tc.TosaConvertError, match="Keras does not load it") as caught:
        tc.frontends.from_file(tmp_path / "m.weights.h5")
    assert caught.value.code == "frontend-failed"
    assert "weights only" in caught.value.findings[0].hint


@pytest.mark.parametrize("ending", ["h5", "keras"])
def test_an_incomplete_file_is_called_so(tmp_path: Path, ending: str) -> None:
    network().save(tmp_path / f"m.{ending}")
    (tmp_path / f"cut.{ending}").write_bytes((tmp_path / f"m.{ending}").read_bytes()[:3000])
    with pytest.raises(tc.TosaConvertError, match="Keras does not load it") as caught:
        tc.frontends.from_file(tmp_path / f"cut.{ending}")
    assert caught.value.code == "frontend-failed"
    assert "incomplete" in caught.value.findings[0].hint


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "SimpleRNN"])
def test_a_loop_gives_what_the_model_gives(tmp_path: Path, layer: str) -> None:
    words = keras.Input(batch_shape=(1, 6, 4), name="words")
    keras.Model(words, getattr(keras.layers, layer)(5)(words)).save(tmp_path / "m.keras")
    command = [str(tmp_path / "m.keras"), "-o", str(tmp_path / "m.tosa"), "--check"]
    assert run(verb("convert"), command) == 0


def recurrent() -> Any:
    """Layers one after the other, as most models have them, with a batch of any size."""
    layers = keras.layers
    sequence = layers.LSTM(3, return_sequences=True)
    return keras.Sequential(
        [keras.Input((5, 4), name="words"), layers.Bidirectional(sequence), layers.GRU(2)]
    )


def test_recurrent_layers_need_a_fixed_batch_and_the_option_that_is_named_gives_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recurrent().save(tmp_path / "m.keras")
    words = [str(tmp_path / "m.keras"), "-o", str(tmp_path / "m.tosa"), "--check"]
    assert run(verb("convert"), words) == 4
    option = "--input-shape words=1x5x4"
    assert f"set them: {option}" in capsys.readouterr().err
    assert run(verb("convert"), [*words, *option.split()]) == 0
    assert capsys.readouterr().out.startswith("ok   ")


def test_a_recurrent_model_in_memory_converts_and_stays_as_it_is() -> None:
    model = recurrent()
    graph = tc.frontends.from_keras(model, input_shapes={"words": (2, 5, 4)})
    given = np.linspace(-1, 1, 40, dtype=np.float32).reshape(2, 5, 4)
    (found,) = tc.run(graph, {"words": given}).outputs.values()
    np.testing.assert_allclose(found, np.asarray(model(given)), atol=1e-5)
    assert not model.layers[0].forward_layer.unroll
    fixed = keras.Sequential([keras.Input(batch_shape=(1, 5, 4)), keras.layers.LSTM(2)])
    assert tc.frontends.from_keras(fixed).main.tensors  # Keras exports it with an open batch.


def test_a_model_without_shapes_is_refused_with_the_reason(tmp_path: Path) -> None:
    keras.Sequential([keras.layers.Dense(2)]).save(tmp_path / "unbuilt.keras")
    with pytest.raises(tc.TosaConvertError, match=re.escape("model.build(shape)")):
        tc.frontends.from_file(tmp_path / "unbuilt.keras")


@pytest.mark.parametrize("form", ["float16", "bfloat16", "mixed_float16", "int8"])
def test_models_of_other_types_give_what_keras_gives(tmp_path: Path, form: str) -> None:
    policy = None if form == "int8" else form
    layers = [
        keras.layers.Dense(8, dtype=policy, activation="relu"),
        keras.layers.Dense(3, dtype=policy),
    ]
    model = keras.Sequential([keras.Input((4,), batch_size=2), *layers])
    if form == "int8":
        model.quantize("int8")
    model.save(tmp_path / "m.keras")
    words = [str(tmp_path / "m.keras"), "-o", str(tmp_path / "m.tosa"), "--check"]
    assert run(verb("convert"), words) == 0


@pytest.mark.parametrize(
    ("sizes", "code", "message"),
    [
        ({"imag": (1, 8, 8, 1)}, "unknown-argument", "it has image"),
        ({"image": (1, 9, 8, 1)}, "option-conflict", "the input of the model is ?x8x8x1"),
    ],
)
def test_sizes_that_the_model_does_not_take_are_refused(
    tmp_path: Path, sizes: Any, code: str, message: str
) -> None:
    network().save(tmp_path / "m.keras")
    with pytest.raises(tc.TosaConvertError, match=re.escape(message)) as caught:
        tc.frontends.from_file(tmp_path / "m.keras", input_shapes=sizes)
    assert caught.value.code == code


def test_layers_that_call_tensorflow_are_refused_with_a_way(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(
        "import keras\nimport tensorflow as tf\n\n\nclass Own(keras.layers.Layer):\n"
        "    def call(self, x):\n        return tf.math.lgamma(x)\n\n\n"
        "def make():\n    x = keras.Input(batch_shape=(1, 4), name='x')\n"
        "    return keras.Model(x, Own()(x))\n"
    )
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_file(f"{tmp_path / 'nets.py'}:make")
    assert caught.value.code == "frontend-failed"
    assert "model.export(FOLDER)" in caught.value.findings[0].hint


def test_a_saved_model_without_a_signature_is_refused_by_name(tmp_path: Path) -> None:
    tensorflow = pytest.importorskip("tensorflow")
    module = tensorflow.Module()
    module.f = tensorflow.function(lambda x: x * 2)
    tensorflow.saved_model.save(module, str(tmp_path / "saved"))
    with pytest.raises(tc.TosaConvertError, match="has no signature") as caught:
        tc.frontends.from_file(tmp_path / "saved")
    assert "input_signature" in caught.value.findings[0].hint


def test_operators_that_tflite_does_not_have_are_listed(tmp_path: Path) -> None:
    x = keras.Input(batch_shape=(1, 4), name="x")
    keras.Model(x, keras.ops.erf(keras.ops.tan(x))).export(tmp_path / "saved", verbose=False)
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_file(tmp_path / "saved")
    assert caught.value.code == "not-lowered"
    assert {"Erf", "Tan"} == {
        row.message.split()[0].removeprefix("Flex") for row in caught.value.findings
    }


def test_operators_that_do_not_lower_are_listed(tmp_path: Path) -> None:
    x = keras.Input(batch_shape=(4, 3), name="x")
    keras.Model(x, keras.ops.view(x, "int32")).save(tmp_path / "m.keras")
    with pytest.raises(tc.TosaConvertError, match="bitcast_convert_type has no lowering to TOSA"):
        tc.frontends.from_file(tmp_path / "m.keras")


def test_a_layer_that_the_child_does_not_know_is_an_error_in_a_file_and_not_in_python(
    tmp_path: Path,
) -> None:
    class Twice(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return x * 2

    x = keras.Input(batch_shape=(1, 4), name="x")
    model = keras.Model(x, Twice()(x))
    model.save(tmp_path / "m.keras")
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.frontends.from_keras(tmp_path / "m.keras")
    assert caught.value.code == "frontend-failed"
    assert tc.frontends.from_keras(model).main.inputs == ["x"]


def _encoded_twice() -> Any:
    encode = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)], name="enc")
    second, first = (keras.Input(batch_shape=(1, 4), name=name) for name in "ba")
    return keras.Model([second, first], [encode(second), encode(first)])


def _of_words(*layers: Any) -> Any:
    words = keras.Input(batch_shape=(1, 6), dtype="int32", name="words")
    return keras.Sequential([words, keras.layers.Embedding(9, 4, mask_zero=True), *layers])


def _both_ways(**options: Any) -> Any:
    return keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True), **options)


def _with_dropout(kind: str, **options: Any) -> Any:
    layer = getattr(keras.layers, kind)(3, dropout=0.2, recurrent_dropout=0.1, **options)
    return keras.Sequential([keras.Input(batch_shape=(1, 5, 4)), layer])


def _returning_an_input() -> Any:
    x = keras.Input((4,), name="x")
    return keras.Model(x, [x, keras.layers.Dense(2)(x)])


def _of_dictionaries() -> Any:
    x, y = (keras.Input(batch_shape=(1, 4), name=name) for name in "xy")
    return keras.Model({"z": x, "c": y}, {"u": x - y, "k": keras.layers.Dense(2)(y)})


def _own_class() -> Any:
    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense, self.rnn = keras.layers.Dense(2), keras.layers.LSTM(3)

        def call(self, x: Any) -> Any:
            return self.rnn(self.dense(x))

    model = Own()
    model(keras.ops.zeros((1, 5, 3)))
    return model


def _rotated() -> Any:
    image = keras.Input(batch_shape=(1, 6, 6, 1), name="image")
    return keras.Sequential([image, keras.layers.RandomRotation(0.1), keras.layers.Conv2D(2, 3)])


MADE: dict[str, Any] = {
    "one layer twice": _encoded_twice,
    "states": lambda: keras.Sequential(
        [keras.Input(batch_shape=(1, 5, 4)), keras.layers.LSTM(3, return_state=True, unroll=True)]
    ),
    "mask, concatenated": lambda: _of_words(_both_ways()),
    "mask, summed, two layers": lambda: _of_words(_both_ways(merge_mode="sum"), _both_ways()),
    "dropout of LSTM": lambda: _with_dropout("LSTM"),
    "dropout of each step": lambda: _with_dropout("GRU", return_sequences=True),
    "an input that is an output": _returning_an_input,
    "dictionaries": _of_dictionaries,
    "a class": _own_class,
    "a random layer": _rotated,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_a_program_has_the_numbers_and_the_order_of_the_model(name: str) -> None:
    keras.utils.set_random_seed(0)
    model = MADE[name]()
    graph = tc.frontends.from_keras(model, input_shapes={"x": (1, 4)} if "input" in name else None)
    random = np.random.default_rng(0)
    given = {}
    for key in graph.main.inputs:
        shape = graph.main.tensors[key].shape or ()
        given[key] = random.standard_normal(shape).astype(np.float32)
        if key == "words":
            given[key] = np.array([[3, 1, 4, 1, 0, 0]], np.int32)
    values = list(given.values())
    asked: Any = values if len(values) > 1 else values[0]
    if name == "dictionaries":
        asked = {"c": given["y"], "z": given["x"]}
    expected = keras.tree.flatten(model(asked, training=False))
    found = tc.run(graph, given, engine="numpy").outputs
    assert len(found) == len(expected)
    for made, want in zip(found.values(), expected, strict=True):
        np.testing.assert_allclose(made, np.asarray(want), atol=1e-5)
    if name == "one layer twice":
        assert (graph.main.inputs, graph.main.outputs) == (["b", "a"], ["enc", "enc_1"])


@pytest.mark.slow
def test_halves_are_judged_by_keras_and_not_by_tflite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TFLite and Keras agree on halves; a program that rounds them away from even must not pass."""
    x = keras.Input(batch_shape=(1, 5), name="x")
    keras.Model(x, keras.ops.round(x)).save(tmp_path / "m.keras")
    np.save(tmp_path / "x.npy", np.array([[0.5, 1.5, 2.5, -0.5, 4.5]], np.float32))
    words = [str(tmp_path / "m.keras"), "-o", str(tmp_path / "m.tosa"), "--check"]
    code = run(verb("convert"), [*words, "-i", f"x={tmp_path / 'x.npy'}"])
    said = capsys.readouterr().out
    graph = tc.load(tmp_path / "m.tosa")
    (found,) = tc.run(graph, {"x": np.load(tmp_path / "x.npy")}).outputs.values()
    is_right = np.array_equal(found, [[0, 2, 2, 0, 4]])
    assert code == int(not is_right), said


@pytest.mark.slow
def test_func_chooses_a_signature_of_a_saved_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensorflow = pytest.importorskip("tensorflow")
    spec = tensorflow.TensorSpec([2, 3], tensorflow.float32, name="e")
    module = tensorflow.Module()
    for name, factor in (("encode", 2.0), ("decode", 3.0)):
        function = tensorflow.function(lambda e, by=factor: {"out": e * by}, [spec])
        setattr(module, name, function)
    signatures = {name: getattr(module, name) for name in ("encode", "decode")}
    tensorflow.saved_model.save(module, str(tmp_path / "two"), signatures=signatures)
    given = np.ones((2, 3), np.float32)
    for name, factor in (("encode", 2.0), ("decode", 3.0)):
        graph = tc.frontends.from_file(tmp_path / "two", func=name)
        (found,) = tc.run(graph, {"e": given}, engine="numpy").outputs.values()
        assert (found == factor).all()
    with pytest.raises(tc.TosaConvertError, match="it has") as caught:
        tc.frontends.from_file(tmp_path / "two", func="nosuch")
    assert caught.value.code == "unknown-function"
