"""Reads the inputs and outputs of a Keras model, on any backend, and saves it for another process."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

from tosa_convert.errors import fail
from tosa_convert.frontends.process.request import INPUT_NAMES, OUTPUT_NAMES, by_position

#: The name of the input of a class with a `call` of its own.
_ONLY_INPUT: Final = "args_0"
#: The first size of every input, if it is not fixed.
_BATCH: Final = "batch"
_NOT_BUILT: Final = "the model has no input shapes: nothing has called it"
_BUILD: Final = "begin it with keras.Input(shape), or call model.build(shape), and save it again"


@dataclass(frozen=True, slots=True)
class Slot:
    """Describe an input. shape: a text or None for a size that is not fixed."""

    name: str
    shape: tuple[Any, ...]
    dtype: str


def slots_of(model: Any, given: Mapping[str, tuple[int, ...]], shown: str) -> list[Slot]:
    """Return the inputs of a model, with the sizes that were asked for."""
    slots = [
        Slot(tensor.name, (tensor.shape[0] or _BATCH, *tensor.shape[1:]), tensor.dtype)
        for tensor in getattr(model, "inputs", None) or []
    ]
    if not slots:
        shapes: Mapping[str, Any] = getattr(model, "_build_shapes_dict", None) or {}
        if not getattr(model, "built", True) or not shapes:
            raise fail("frontend-failed", shown, _NOT_BUILT, _BUILD)
        names = (
            [name.removesuffix("_shape") for name in shapes] if len(shapes) > 1 else [_ONLY_INPUT]
        )
        # Such a class takes other sizes than those for which it was built.
        slots = [
            Slot(name, given.get(name, given.get(f"arg{number}", shape)), model.input_dtype)
            for number, (name, shape) in enumerate(zip(names, shapes.values(), strict=True))
        ]
    inputs = [
        ([slot.name], [size if isinstance(size, int) else -1 for size in slot.shape])
        for slot in slots
    ]
    for position, sizes in by_position(inputs, given).items():
        slots[position] = replace(slots[position], shape=sizes)
    return slots


def output_names(model: Any) -> list[str]:
    """Return what a model calls its outputs; [] for a class with a `call` of its own."""
    import keras

    if not (outputs := getattr(model, "outputs", None)):
        return []
    returned = getattr(model, "_outputs_struct", None)
    if isinstance(model, keras.Sequential):
        names = [model.layers[-1].name]
    elif isinstance(returned, dict):
        names = sorted(returned)
    else:
        names = list(model.output_names)
    return names + [f"output_{number}" for number in range(len(names), len(outputs))]


def inference_of(model: Any) -> Any:
    """Return the keywords that call a model in inference."""
    parameters = inspect.signature(model.call).parameters.values()
    takes = any(one.name == "training" or one.kind is one.VAR_KEYWORD for one in parameters)
    return {"training": False} if takes else {}


def packed(model: Any, values: Sequence[Any]) -> list[Any]:
    """Return the inputs of a model as the arguments of a call."""
    import keras

    tree = getattr(model, "_inputs_struct", None)
    return list(values) if tree is None else [keras.tree.pack_sequence_as(tree, list(values))]


class Way(NamedTuple):
    """Say how another process lowers a model of this one."""

    frontend: str
    path: str
    options: Mapping[str, str]


def saved(model: Any, folder: str, given: Mapping[str, tuple[int, ...]]) -> Way | None:
    """Save a model for another process; None for a model on JAX, which this one lowers."""
    import keras

    if keras.backend.backend() == "jax":
        return None
    path = os.path.join(folder, model.name)
    if all(type(layer).__module__.startswith("keras.") for layer in model._flatten_layers()):
        path += ".keras"
        model.save(path)
        return Way("keras", path, {})
    # A SavedModel has no Python code: layers of one's own need not be known to the child.
    _export(model, path, given)
    inputs = [tensor.name for tensor in getattr(model, "inputs", None) or []]
    names = {INPUT_NAMES: inputs, OUTPUT_NAMES: output_names(model)}
    return Way("tensorflow", path, {key: json.dumps(row) for key, row in names.items()})


def _export(model: Any, path: str, given: Mapping[str, tuple[int, ...]]) -> None:
    import keras

    rows = [
        keras.InputSpec(
            dtype=slot.dtype,
            shape=[size if isinstance(size, int) else None for size in slot.shape],
            name=slot.name,
        )
        for slot in slots_of(model, given, model.name)
    ]
    archive = keras.export.ExportArchive()
    archive.track(model)
    call = partial(model.__call__, **inference_of(model))
    archive.add_endpoint("serve", call, packed(model, rows))
    archive.write_out(path, verbose=False)
