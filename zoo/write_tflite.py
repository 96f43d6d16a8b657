"""Writes the Keras networks of the zoo as TFLite models, with floating point and quantised.

python zoo/write_tflite.py FOLDER [NAME ...] [--forms float,int8,int16]

`keras:MobileNet` names a network of keras.applications.

`FOLDER/int8/unet.tflite` has int8 activations, weights, inputs and outputs; `int16` has activations,
inputs and outputs of 16 bits. The ranges are those of seeded inputs. `FOLDER/int8/unet.inputs.npz` has
another input, with which `suite` compares the model and its program. It needs keras and TensorFlow.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from networks import KERAS, chosen

from tosa_convert.frontends.tflite.read import read_tflite

FORMS = ("float", "int8", "int16")
#: Sets of inputs from which the ranges of a quantised network are taken.
_SETS = 4
#: Places of an image that are alike, in each direction.
_BLOCK = 8
#: Whole numbers are tokens of an embedding, all of which have at least as many rows.
_TOKENS = 20

Array = npt.NDArray[Any]

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")


def example_inputs(model: Any, seed: int) -> list[Array]:
    """Return seeded inputs of a network: images of blocks with noise, other numbers, and tokens."""
    random = np.random.default_rng(seed)
    arrays = []
    for one in model.inputs:
        if one.dtype == "int32":
            arrays.append(random.integers(0, _TOKENS, one.shape, np.int32))
            continue
        array = random.normal(size=one.shape)
        if len(one.shape) == 4:
            first, high, wide, channels = one.shape
            blocks = random.normal(size=(first, -(-high // _BLOCK), -(-wide // _BLOCK), channels))
            whole = blocks.repeat(_BLOCK, 1).repeat(_BLOCK, 2)[:, :high, :wide]
            array = whole + 0.3 * array
        arrays.append(array.astype(np.float32))
    return arrays


def checked_inputs(model: Any, data: bytes) -> dict[str, Array]:
    """Return inputs of a TFLite model by name, in its types.

    None of those from which ranges were taken.
    """
    file = read_tflite(data)
    found = {}
    for tensor, array in zip(file.inputs, example_inputs(model, _SETS), strict=True):
        row = file.tensors[tensor]
        if row.dtype in ("int8", "int16"):
            limits = np.iinfo(row.dtype)
            steps = np.rint(array / row.scale) + row.zero_point
            array = np.clip(steps, limits.min, limits.max).astype(row.dtype)
        found[file.input_name(tensor)] = array
    return found


def frozen(model: Any) -> Any:
    """Return a network as a function of TensorFlow with constant weights.

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


def tflite(function: Any, model: Any, form: str) -> bytes:
    """Return a frozen network as a TFLite model: "float", "int8" or "int16"."""
    import tensorflow as tf

    with _quiet():
        converter = tf.lite.TFLiteConverter.from_concrete_functions([function])
        if form != "float":
            operators = tf.lite.OpsSet
            eights = operators.TFLITE_BUILTINS_INT8
            sixteens = operators.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: (
                example_inputs(model, seed) for seed in range(_SETS)
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


def write(folder: Path, names: Collection[str], forms: Sequence[str]) -> Iterator[str]:
    """Write networks, all if none is named, and yield a line for each file, or why there is none."""
    import keras

    for name, factory in chosen(KERAS, names):
        keras.utils.clear_session()  # Names of layers count from the first.
        model = factory()
        function = frozen(model)
        for form in forms:
            path = folder / form / f"{name}.tflite"
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                data = tflite(function, model, form)
            except Exception as error:  # The converter raises what it likes.
                reason = str(error).strip().partition("\n")[0]
                yield f"{form}/{name}: {type(error).__name__}: {reason}"
                continue
            path.write_bytes(data)
            with open(path.with_suffix(".inputs.npz"), "wb") as file:
                np.savez(file, **checked_inputs(model, data))
            yield str(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="networks; by default all")
    parser.add_argument("--forms", default=",".join(FORMS))
    given = parser.parse_args()
    for line in write(given.folder, given.names, given.forms.split(",")):
        print(line, flush=True)


if __name__ == "__main__":
    main()
