"""Writes the Keras networks of the zoo as TFLite models, with floating point and quantised.

python zoo/write_tflite.py FOLDER [--forms float,int8,int16] [NAME ...]

`FOLDER/int8/unet.tflite` has int8 activations, weights, inputs and outputs; `int16` has activations,
inputs and outputs of 16 bits. The ranges are those of seeded images. It needs the extra `keras`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FOLDER = Path(__file__).parent
PREFIX = "make_"
FAMILIES = ("keras_classifiers", "keras_mobile", "keras_images", "keras_sequences")
FORMS = ("float", "int8", "int16")
#: Sets of inputs from which the ranges of a quantised network are taken.
_SETS = 4
#: Whole numbers are tokens of an embedding, all of which have at least as many rows.
_TOKENS = 20

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")


def networks() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Family, name and factory of each network."""
    sys.path.insert(0, str(FOLDER))
    for family in FAMILIES:
        module = importlib.import_module(family)
        for name, factory in vars(module).items():
            if name.startswith(PREFIX):
                yield family, name.removeprefix(PREFIX), factory


def example_inputs(model: Any, seed: int) -> dict[str, npt.NDArray[Any]]:
    """Seeded inputs of a network by name: values of a normal distribution, and tokens."""
    random = np.random.default_rng(seed)
    return {
        one.name: random.integers(0, _TOKENS, one.shape, np.int32)
        if one.dtype == "int32"
        else random.normal(size=one.shape).astype(np.float32)
        for one in model.inputs
    }


def frozen(model: Any) -> Any:
    """A network as a function of TensorFlow with constant weights.

    TFLite's converter takes a Keras model, too, but writes and reads it as a SavedModel each time, which
    takes longer than the conversion.
    """
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import (
        convert_variables_to_constants_v2,
    )

    specifications = [tf.TensorSpec(one.shape, one.dtype, one.name) for one in model.inputs]
    called = tf.function(lambda *args: model(list(args) if len(args) > 1 else args[0]))
    return convert_variables_to_constants_v2(called.get_concrete_function(*specifications))


def tflite(model: Any, function: Any, form: str) -> bytes:
    """A network as a TFLite model: "float", "int8" or "int16"; function: the frozen one."""
    import tensorflow as tf

    with _quiet():
        converter = tf.lite.TFLiteConverter.from_concrete_functions([function])
        if form != "float":
            operators = tf.lite.OpsSet
            eights = operators.TFLITE_BUILTINS_INT8
            sixteens = operators.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: (
                list(example_inputs(model, seed).values()) for seed in range(_SETS)
            )
            converter.target_spec.supported_ops = [eights if form == "int8" else sixteens]
            converter.inference_input_type = converter.inference_output_type = getattr(tf, form)
        return bytes(converter.convert())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what TensorFlow's converter writes on the terminal."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in (1, 2)]
    with open(os.devnull, "wb") as nowhere:
        for number in (1, 2):
            os.dup2(nowhere.fileno(), number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in enumerate(kept, 1):
            os.dup2(copy, number)
            os.close(copy)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="networks; by default all")
    parser.add_argument("--forms", default=",".join(FORMS))
    chosen = parser.parse_args()
    import keras

    for _, name, factory in networks():
        if chosen.names and name not in chosen.names:
            continue
        keras.utils.clear_session()  # Names of layers count from the first.
        model = factory()
        function = frozen(model)
        for form in chosen.forms.split(","):
            path = chosen.folder / form / f"{name}.tflite"
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                path.write_bytes(tflite(model, function, form))
            except Exception as error:  # The converter raises what it likes.
                reason = str(error).strip().splitlines()[:1]
                print(f"{form}/{name}: {type(error).__name__}: {' '.join(reason)}", flush=True)
            else:
                print(path, flush=True)


if __name__ == "__main__":
    main()
