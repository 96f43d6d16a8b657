# SPDX-License-Identifier: Apache-2.0
"""Convert a Keras model, and compare the program with Keras.

    python convert_keras_classifier.py [FILE]   # default: classifier.tosa

It needs: pip install '.[keras,refmodel]'
"""

from __future__ import annotations

import os
import sys

import numpy as np

os.environ.setdefault("KERAS_BACKEND", "jax")
import keras

import tosa_convert as tc


def classifier() -> keras.Model:
    """Return a small convolutional network with seeded weights."""
    keras.utils.set_random_seed(2026)
    image = keras.Input((16, 16, 1), name="image")
    hidden = keras.layers.Conv2D(8, 3, 2, activation="gelu")(image)
    hidden = keras.layers.BatchNormalization()(hidden)
    hidden = keras.layers.GlobalAveragePooling2D()(hidden)
    return keras.Model(image, keras.layers.Dense(10, activation="softmax")(hidden))


def main() -> None:
    target = sys.argv[1] if len(sys.argv) > 1 else "classifier.tosa"
    model = classifier()
    # Keras leaves the number of images open.
    tc.save(tc.frontends.from_keras(model, input_shapes={"image": (1, 16, 16, 1)}), target)
    image = np.random.default_rng(2026).random((1, 16, 16, 1), np.float32)
    (found,) = tc.run(target, {"image": image}).outputs.values()
    expected = keras.ops.convert_to_numpy(model(image))
    print(f"largest error {np.abs(found - expected).max():.1g}")


if __name__ == "__main__":
    main()
