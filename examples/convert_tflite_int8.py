# SPDX-License-Identifier: Apache-2.0
"""Convert a quantised TFLite model, and compare the program with TFLite's reference kernels.

    python convert_tflite_int8.py [FILE]   # default: int8.tosa

TensorFlow makes and quantises the model, and runs it; the conversion needs neither:
pip install '.[tflite]'
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import tosa_convert as tc

SHAPE = (1, 12, 12, 2)


def images(count: int) -> Iterator[list[Any]]:
    """Images by which TFLite chooses the ranges of the quantisation."""
    random = np.random.default_rng(2026)
    for _ in range(count):
        yield [random.random(SHAPE, np.float32)]


def write_model(path: Path) -> None:
    """Write a network of int8, quantised after training."""
    tf.keras.utils.set_random_seed(2026)
    image = tf.keras.Input(batch_shape=SHAPE, name="image")
    hidden = tf.keras.layers.Conv2D(6, 3, activation="relu")(image)
    hidden = tf.keras.layers.MaxPooling2D()(hidden)
    hidden = tf.keras.layers.Dense(5)(tf.keras.layers.Flatten()(hidden))
    converter = tf.lite.TFLiteConverter.from_keras_model(tf.keras.Model(image, hidden))
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: images(20)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    path.write_bytes(converter.convert())


def by_tflite(path: Path, image: Any) -> Any:
    """Return what TFLite's reference kernels give."""
    kernels = tf.lite.experimental.OpResolverType.BUILTIN_REF
    machine = tf.lite.Interpreter(str(path), experimental_op_resolver_type=kernels)
    machine.allocate_tensors()
    machine.set_tensor(machine.get_input_details()[0]["index"], image)
    machine.invoke()
    return machine.get_tensor(machine.get_output_details()[0]["index"])


def main() -> None:
    target = sys.argv[1] if len(sys.argv) > 1 else "int8.tosa"
    image = np.random.default_rng(7).integers(-128, 128, SHAPE, np.int8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        write_model(path)
        tc.save(tc.frontends.from_tflite(path), target)
        expected = by_tflite(path, image)
    (found,) = tc.run(target, {"image": image}).outputs.values()
    print(f"{np.count_nonzero(found != expected)} of {expected.size} elements differ")


if __name__ == "__main__":
    main()
