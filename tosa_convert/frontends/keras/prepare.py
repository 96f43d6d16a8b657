"""Prepares Keras models for TFLite, before they are traced: fixed sizes, and unrolled layers.

TFLite keeps the steps of a recurrent layer in lists, whose rows need a batch of fixed size.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

#: The most steps of a recurrent layer that are written one after the other.
_MOST_STEPS: Final = 64


def fix_sizes(model: Any, shapes: Mapping[str, Sequence[int]]) -> Any:
    """Return a model around a Keras model whose inputs have the given sizes.

    The model itself is returned if none of its open sizes is given, or if sizes contradict it, which is
    found later, and if it has no symbolic inputs, as a class with a `call` of its own.

    Args:
        model: a keras.Model.
        shapes: input, or `arg0` for the first one, -> its sizes.
    """
    import keras

    if not isinstance(model, keras.Model):  # One of tf_keras.
        return model
    inputs = getattr(model, "inputs", None) or []
    fixed = {}
    for position, tensor in enumerate(inputs):
        sizes = shapes.get(tensor.name, shapes.get(f"arg{position}", tensor.shape))
        if len(sizes) != len(tensor.shape) or any(
            own not in (None, size) for own, size in zip(tensor.shape, sizes, strict=True)
        ):
            return model
        fixed[id(tensor)] = keras.Input(
            batch_shape=tuple(sizes), dtype=tensor.dtype, name=tensor.name
        )
    if all(tensor.shape == fixed[id(tensor)].shape for tensor in inputs):
        return model
    tree = getattr(model, "_inputs_struct", inputs[0] if len(inputs) == 1 else inputs)
    given = keras.tree.map_structure(lambda tensor: fixed[id(tensor)], tree)
    return keras.Model(given, model(given), name=model.name)


@contextlib.contextmanager
def unrolled(model: Any) -> Iterator[None]:
    """Unroll the recurrent layers that return each step, inside the block.

    TFLite writes a step into the sequence by slices of computed sizes, which TOSA does not have.
    """
    import keras

    changed = [
        layer
        for layer in getattr(model, "_flatten_layers", list)()
        if isinstance(layer, keras.layers.RNN)
        and (layer.return_sequences and not layer.unroll)
        and _steps(layer) in range(1, _MOST_STEPS + 1)
    ]
    for layer in changed:
        layer.unroll = True
    try:
        yield
    finally:
        for layer in changed:
            layer.unroll = False


def _steps(layer: Any) -> Any:
    """Return the steps with which a recurrent layer was built; None for any number."""
    # By the name of the argument of `build`.
    shapes = getattr(layer, "_build_shapes_dict", None) or {}
    shape: Any = next(iter(shapes.values()), None) or ()
    return shape[1] if len(shape) > 1 else None


def export(model: Any, path: str, shapes: Mapping[str, Sequence[int]]) -> None:
    """Write a Keras model as a SavedModel, with the given sizes, and with a batch that is fixed in it.

    Keras exports a model of symbolic inputs with an open batch, whatever they say.
    """
    with unrolled(model):
        _export(fix_sizes(model, shapes), path)


def _export(fixed: Any, path: str) -> None:
    import keras

    inputs = getattr(fixed, "inputs", None) or []
    if not isinstance(fixed, keras.Model) or all(tensor.shape[:1] == (None,) for tensor in inputs):
        fixed.export(path, verbose=False)
        return
    tree = getattr(fixed, "_inputs_struct", inputs[0] if len(inputs) == 1 else inputs)
    signature = keras.tree.map_structure(
        lambda tensor: keras.InputSpec(dtype=tensor.dtype, shape=tensor.shape, name=tensor.name),
        tree,
    )
    fixed.export(path, verbose=False, input_signature=[signature])


def command_for(model: Any) -> str:
    """Return the options that fix a model's open sizes, with 1 for each; "" if none are known."""
    options = []
    for tensor in getattr(model, "inputs", None) or []:
        if None in tensor.shape:
            sizes = "x".join(str(size or 1) for size in tensor.shape)
            options.append(f"--input-shape {tensor.name}={sizes}")
    return " ".join(options)
