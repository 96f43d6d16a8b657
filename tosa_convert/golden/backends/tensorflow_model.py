"""Run what a user gave to the Keras frontend, in the framework's Python and without our modules."""

import importlib.util
import json
import os
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

#: Computes the outputs of arrays, both in the program's order.
Call = Callable[[list[Any]], list[Any]]


def opened(description: str) -> Callable[[list[Any], list[str]], list[Any]]:
    """Return what runs the model that a JSON file describes, as the frontend wrote it."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with open(description, encoding="utf-8") as file:
        asked = json.load(file)
    asked["weights"] = os.path.join(os.path.dirname(description), asked["weights"])
    # As when it was converted.
    os.environ["KERAS_BACKEND"] = "jax" if asked["kind"] == "keras" else "tensorflow"
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    makers = {"keras": _keras, "saved_model": _saved_model, "graph_def": _graph_def}
    call = makers[asked["kind"]](asked)
    return lambda inputs, types: [np.asarray(one) for one in call(inputs)]


def _keras(asked: Any) -> Call:
    import keras

    if asked["member"]:
        model = _made(asked)
    else:
        model = keras.saving.load_model(asked["path"], compile=False, safe_mode=True)
    slots = list(getattr(model, "inputs", None) or [])
    tree = getattr(model, "_inputs_struct", None)

    def call(inputs: list[Any]) -> list[Any]:
        wanted = [str(slot.dtype) for slot in slots] or [str(one.dtype) for one in inputs]
        given: Any = [_in_type(*pair) for pair in zip(inputs, wanted, strict=True)]
        if tree is not None:
            given = keras.tree.pack_sequence_as(tree, given)
        elif len(given) == 1:
            (given,) = given
        return _listed(model(given, training=False), asked["outputs"])

    return call


def _made(asked: Any) -> Any:
    """Return the model of a function in a Python file, with the weights that were converted."""
    spec = importlib.util.spec_from_file_location("eager_model", asked["path"])
    assert spec is not None
    assert spec.loader is not None
    sys.dont_write_bytecode = True
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("eager_model", module)
    sys.path[:] = [os.path.dirname(asked["path"]), *filter(None, sys.path)]
    own = os.getcwd()
    os.chdir(asked["folder"] or own)
    random.seed(0)
    np.random.seed(0)
    try:
        spec.loader.exec_module(module)
        model = getattr(module, asked["member"])()
    finally:
        os.chdir(own)
    with np.load(asked["weights"], allow_pickle=False) as kept:
        for variable, name in zip(model.variables, kept.files, strict=True):
            variable.assign(kept[name])
    return model


def _saved_model(asked: Any) -> Call:
    import tensorflow

    # What the signature computes belongs to the model, which must stay.
    model = tensorflow.saved_model.load(asked["path"])
    function = model.signatures[asked["func"] or "serving_default"]
    _, slots = function.structured_input_signature

    def call(inputs: list[Any]) -> list[Any]:
        given = {
            name: tensorflow.constant(_in_type(one, slots[name].dtype.name))
            for name, one in zip(asked["inputs"], inputs, strict=True)
        }
        assert model is not None
        return _listed(function(**given), asked["outputs"])

    return call


def _graph_def(asked: Any) -> Call:
    import tensorflow

    with open(asked["path"], "rb") as file:
        definition = tensorflow.compat.v1.GraphDef.FromString(file.read())
    graph = tensorflow.Graph()
    with graph.as_default():
        tensorflow.import_graph_def(definition, name="")
    results = [graph.get_tensor_by_name(f"{name}:0") for name in asked["outputs"]]
    slots = [graph.get_tensor_by_name(f"{name}:0") for name in asked["inputs"]]

    def call(inputs: list[Any]) -> list[Any]:
        given = zip(slots, inputs, strict=True)
        with tensorflow.compat.v1.Session(graph=graph) as session:
            feed = {slot: _in_type(one, slot.dtype.name) for slot, one in given}
            return list(session.run(results, feed))

    return call


def _listed(results: Any, names: list[str]) -> list[Any]:
    """Return results in the program's order: a dictionary's by name, others by position."""
    if isinstance(results, dict) and set(names) == set(results):
        return [results[name] for name in names]
    import keras

    return list(keras.tree.flatten(results))


def _in_type(array: Any, name: str) -> Any:
    """Convert an array to the type of an input: TOSA has no unsigned and no 64-bit integers."""
    wanted = np.dtype(name)
    same_bits = wanted.kind == "u" and array.dtype.itemsize == wanted.itemsize
    return array.view(wanted) if same_bits else array.astype(wanted)
