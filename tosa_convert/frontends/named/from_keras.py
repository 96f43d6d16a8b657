"""Makes models of keras.applications."""

from __future__ import annotations

import inspect
from typing import Any

from tosa_convert.frontends.named.wanted import SEED, Wanted, imports_of


def make_model(wanted: Wanted) -> Any:
    """Return a model of keras.applications with an input of fixed sizes.

    Raises:
        TosaConvertError: "frontend-missing"; "frontend-failed" for an unknown name, or weights that
            cannot be had; "unknown-argument" or "option-conflict" for shapes.
    """
    with imports_of("keras"):
        import keras
    known = {
        name: function
        for name, function in vars(keras.applications).items()
        if inspect.isfunction(function)
    }
    if wanted.name not in known:
        raise wanted.unknown("application", known)
    keras.utils.set_random_seed(SEED)
    weights = None if wanted.random_weights else "imagenet"
    with wanted.made():
        made = known[wanted.name](weights=weights)
    (image,) = made.inputs
    shape = wanted.shape(image.name, (wanted.size("batch", 1), *image.shape[1:]))
    wanted.refuse_unused([image.name])
    tensor = keras.Input(batch_shape=shape, name=image.name)
    if shape[1:] == tuple(image.shape[1:]):
        made = keras.models.clone_model(made, input_tensors=tensor)
    else:
        made = known[wanted.name](weights=weights, input_tensor=tensor)
    if wanted.random_weights:
        wanted.assume(f"its weights are random, of the seed {SEED}")
    return made
