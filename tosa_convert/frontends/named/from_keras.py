"""Makes models of keras.applications."""

from __future__ import annotations

import inspect
import random
from typing import Any, Final

import numpy as np

from tosa_convert.frontends.named.wanted import NOISE, SEED, Wanted, imports_of

#: The name of the input; that of Keras has a number, which depends on the models that were made before.
_INPUT: Final = "image"


def make_model(wanted: Wanted) -> Any:
    """Return a model of keras.applications with an input of fixed sizes."""
    with imports_of("keras"):
        import keras
    known = {
        name: function
        for name, function in vars(keras.applications).items()
        if inspect.isfunction(function)
    }
    if wanted.name not in known:
        raise wanted.unknown("application", known)
    random.seed(SEED)  # Keras's own function would import TensorFlow, which takes 600 MB.
    weights = None if wanted.random_weights else "imagenet"
    # For its sizes; without values for its weights.
    with wanted.made(), keras.StatelessScope(initialize_variables=False):
        (image,) = known[wanted.name](weights=None).inputs
    shape = wanted.shape(_INPUT, (wanted.size("batch", 1), *image.shape[1:]))
    wanted.refuse_unused([_INPUT])
    tensor = keras.Input(batch_shape=shape, name=_INPUT)
    with wanted.made():
        made = known[wanted.name](weights=weights, input_tensor=tensor)
    if wanted.random_weights:
        _scatter(made)
        wanted.assume(f"its weights are random, of the seed {SEED}")
    return made


def _scatter(model: Any) -> None:
    """Leave no weight all equal: zeros and ones would hide operators from a comparison."""
    generator = np.random.default_rng(SEED)
    for variable in model.weights:
        value = np.asarray(variable)
        if value.dtype.kind == "f" and (value == value.flat[0]).all():
            variable.assign(value + NOISE * generator.random(value.shape, np.float32))
