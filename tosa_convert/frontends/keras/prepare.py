"""Prepares Keras models for TFLite, before they are traced: fixed sizes, unrolled layers, no dropout.

TFLite keeps the steps of a recurrent layer in lists, whose rows need a batch of fixed size. What is
changed in a layer is compared with the layer as it was.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from tosa_convert.errors import fail

#: The most steps of a recurrent layer that are written one after the other.
_MOST_STEPS: Final = 64
#: What TFLite calls the input of a class with a `call` of its own.
_ONLY_INPUT: Final = "args_0"
_STRUCTURES: Final = ("_inputs_struct", "_outputs_struct")
_MASKED: Final = (
    "make the model with unroll=True and check its numbers, or compute the layer outside"
)


def fix_sizes(model: Any, shapes: Mapping[str, Sequence[int]]) -> Any:
    """Return a model around a Keras model whose inputs have the given sizes.

    The model itself is returned if none of its open sizes is given, or if sizes contradict it, which is
    found later. A class with a `call` of its own, whose sizes TFLite would compute, is called with an
    input of the sizes for which it was built; dictionaries of inputs and outputs become lists.
    """
    import keras

    if not isinstance(model, keras.Model):  # One of tf_keras.
        return model
    inputs = getattr(model, "inputs", None) or []
    if not inputs:
        built = getattr(model, "_build_shapes_dict", None) or {}
        sizes = shapes.get(_ONLY_INPUT, shapes.get("arg0", next(iter(built.values()), None)))
        if len(built) != 1 or not isinstance(sizes, tuple) or None in sizes:
            return model
        only = keras.Input(batch_shape=sizes, dtype=model.input_dtype, name=_ONLY_INPUT)
        return keras.Model(only, model(only), name=model.name)
    if any(isinstance(getattr(model, name, None), dict) for name in _STRUCTURES):
        model = keras.Model(inputs, model.outputs, name=model.name)
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
    # A model that returns an input would be called the origin of it.
    is_passed = any(output is tensor for output in model.outputs for tensor in inputs)
    return keras.Model(given, (model.call if is_passed else model)(given), name=model.name)


@contextlib.contextmanager
def prepared(model: Any) -> Iterator[None]:
    """Unroll the recurrent layers that return each step, and leave out dropout, inside the block.

    TFLite writes a step into the sequence by slices of computed sizes, which TOSA does not have, and
    Keras draws the seeds of dropout in inference, too.
    """
    import keras

    with contextlib.ExitStack() as changes:
        for layer in getattr(model, "_flatten_layers", list)():
            if not isinstance(layer, keras.layers.RNN) or not (shape := _built_shape(layer)):
                continue
            is_short = len(shape) > 1 and shape[1] in range(1, _MOST_STEPS + 1)
            unrolls = layer.return_sequences and not layer.unroll and is_short
            rates = _dropout_rates(layer)
            if not unrolls and not rates:
                continue
            sizes = [size or number for size, number in zip(shape, (2, *[5] * 9), strict=False)]
            given = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
            before = _results(layer, given)
            for cell, name in rates:
                changes.callback(setattr, cell, name, getattr(cell, name))
                setattr(cell, name, 0.0)
            if unrolls:
                changes.callback(_roll, layer)
                _unroll(layer)
            if not _agree(before, _results(layer, given)):
                message = (
                    f"the layer {layer.name} computes something else when its loop is unrolled"
                )
                raise fail("not-lowered", layer.name, message, _MASKED)
        yield


def _dropout_rates(layer: Any) -> list[tuple[Any, str]]:
    """Return the cells of a recurrent layer that have a rate of dropout, and which rate."""
    cells = getattr(layer.cell, "cells", None) or [layer.cell]
    names = ("dropout", "recurrent_dropout")
    return [(cell, name) for cell in cells for name in names if getattr(cell, name, 0)]


def _unroll(layer: Any) -> None:
    """Unroll a layer. Unrolled backwards, Keras applies the mask to the outputs in the wrong order."""
    from keras import ops

    layer.unroll = True
    looped = layer.inner_loop

    def inner_loop(sequences: Any, initial_state: Any, mask: Any, training: bool = False) -> Any:
        if mask is None or not (layer.go_backwards and layer.zero_output_for_mask):
            return looped(sequences, initial_state, mask, training=training)
        layer.zero_output_for_mask = False
        try:
            last, outputs, states = looped(sequences, initial_state, mask, training=training)
        finally:
            layer.zero_output_for_mask = True
        kept = ops.reshape(ops.flip(mask, 1), (*ops.shape(mask), *[1] * (len(outputs.shape) - 2)))
        outputs = ops.where(kept, outputs, ops.zeros_like(outputs))
        return ops.where(kept[:, -1], last, ops.zeros_like(last)), outputs, states

    layer.inner_loop = inner_loop


def _roll(layer: Any) -> None:
    layer.unroll = False
    del layer.inner_loop


def _results(layer: Any, given: Any) -> list[Any]:
    """Return what a layer computes of numbers, without a mask and with two; its states stay."""
    import keras

    kept = [(one, np.array(one)) for one in layer.variables]
    steps = np.arange(given.shape[1])
    masks = [None, *(np.tile(row, (len(given), 1)) for row in (steps < steps[-1], steps % 3 > 0))]
    found = []
    for mask in masks:
        made = layer(given, mask=mask, training=False)
        found += [np.asarray(one) for one in keras.tree.flatten(made)]
        for variable, value in kept:
            variable.assign(value)
    return found


def _agree(before: Sequence[Any], after: Sequence[Any]) -> bool:
    return all(np.allclose(*pair, rtol=1e-3, atol=1e-5) for pair in zip(before, after, strict=True))


def _built_shape(layer: Any) -> Any:
    """Return the shape with which a recurrent layer was built, None for open sizes; () if not known."""
    # By the name of the argument of `build`.
    shapes = getattr(layer, "_build_shapes_dict", None) or {}
    return next(iter(shapes.values()), None) or ()


def export(model: Any, path: str, shapes: Mapping[str, Sequence[int]]) -> None:
    """Write a Keras model as a SavedModel, with the given sizes, and with a batch that is fixed in it.

    Keras exports a model of symbolic inputs with an open batch, whatever they say.
    """
    with prepared(model):
        _export(fix_sizes(model, shapes), path)


def _export(fixed: Any, path: str) -> None:
    import keras

    inputs = getattr(fixed, "inputs", None) or []
    if not isinstance(fixed, keras.Model) or not inputs:
        fixed.export(path, verbose=False)
        return
    tree = getattr(fixed, "_inputs_struct", inputs[0] if len(inputs) == 1 else inputs)
    signature = keras.tree.map_structure(
        lambda tensor: keras.InputSpec(dtype=tensor.dtype, shape=tensor.shape, name=tensor.name),
        tree,
    )
    archive = keras.export.ExportArchive()
    archive.track(fixed)
    # Random layers, such as RandomRotation, pass images on in inference only.
    archive.add_endpoint("serve", partial(fixed.__call__, training=False), [signature])
    archive.write_out(path, verbose=False)


def command_for(model: Any) -> str:
    """Return the options that fix a model's open sizes, with 1 for each; "" if none are known."""
    options = []
    for tensor in getattr(model, "inputs", None) or []:
        if None in tensor.shape:
            sizes = "x".join(str(size or 1) for size in tensor.shape)
            options.append(f"--input-shape {tensor.name}={sizes}")
    return " ".join(options)
