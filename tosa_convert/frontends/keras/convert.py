"""Keras models and TensorFlow SavedModels, through TFLite."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np

from tosa_convert.errors import TosaConvertError, fail, suggest
from tosa_convert.frontends.process.python_file import call_factory
from tosa_convert.frontends.process.request import (
    INPUT_NAMES,
    OUTPUT_NAMES,
    Interface,
    NotLowered,
    Request,
    say_stage,
)
from tosa_convert.frontends.tflite.convert import lower_file
from tosa_convert.frontends.tflite.read import TfliteFile, read_tflite
from tosa_convert.frontends.unlowered import line_of

# --------------------------------------------------------------------------------------------------
# prepares Keras models for TFLite, before they are traced: fixed sizes, unrolled layers, no
# dropout.
# TFLite keeps the steps of a recurrent layer in lists, whose rows need a batch of fixed size.
# What is changed in a layer is compared with the layer as it was.

#: The most steps of a recurrent layer that are written one after the other.
_MOST_STEPS: Final = 64
#: What TFLite calls the input of a class with a `call` of its own.
_ONLY_INPUT: Final = "args_0"
_STRUCTURES: Final = ("_inputs_struct", "_outputs_struct")
_MASKED: Final = (
    "make the model with unroll=True and check its numbers, or compute the layer outside"
)


def fix_sizes(model: Any, shapes: Mapping[str, Sequence[int]]) -> Any:
    """Return a model around a Keras model with the given sizes, or itself if these do not apply.

    A class with a `call` of its own is called with the sizes for which it was built; dictionaries of
    inputs and outputs become lists.
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
    """Write a Keras model as a SavedModel with the given sizes; Keras would leave the batch open."""
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


#: What TFLite says of operators that it has only as TensorFlow's own, and of those that are custom ones.
_NOT_IN_TFLITE: Final = re.compile(r"^\s*(?:TF Select|Flex|Custom) ops: (.+)$", re.MULTILINE)
_REASON: Final = "TFLite has no such operator"
_HINT: Final = "write the layer with operators of TFLite, or compute it before or after the program"
#: What TFLite says of operators of other types than FP32, and of the steps of a recurrent layer.
_NOT_FP32: Final = re.compile(r"tensor<[^>]*x(f16|bf16|f64)>")
_FP32_ONLY: Final = "TFLite has it for FP32 only, and the model computes in "
_POLICY: Final = "make the model with the policy float32, and load the same weights"
_OPEN_BATCH: Final = "requires element_shape to be static"
_STEPS: Final = "TensorListReserve"
_OPEN_REASON: Final = (
    "TFLite keeps the steps of a recurrent layer in lists, which need a fixed batch"
)
_FIXED_BATCH: Final = (
    "make or export the model with a fixed batch: keras.Input(batch_shape=(1, ...))"
)
_NOT_BUILT: Final = "the model has no input shapes: nothing has called it"
_BUILD: Final = "begin it with keras.Input(shape), or call model.build(shape), and save it again"
_NO_CONFIGURATION: Final = "No model config found"
_ONLY_WEIGHTS: Final = (
    "the file has weights only: convert what model.save() writes, or FILE.py:FUNCTION, which makes the "
    "model and loads them"
)
_BEFORE: Final = "convert the model from before quantize(), or quantise its TFLite model"
_DEFAULT: Final = "serving_default"
_SIGN: Final = (
    "save it with signatures=, or with a tf.function that has an input_signature: "
    "tf.saved_model.save(module, folder, signatures=module.f)"
)
#: The file with the weights of a model that a function makes.
_WEIGHTS: Final = "weights.npz"
_PLACEHOLDER: Final = "Placeholder"
#: Operators of a GraphDef whose values are in a checkpoint, and those that compute no output.
_VARIABLES: Final = ("Variable", "VariableV2", "VarHandleOp")
_NO_OUTPUTS: Final = ("Const", "NoOp", "Assert")


def lower(request: Request, folder: Path) -> Interface:
    """Lower a Keras model (.keras, .h5, of a function in a Python file), a SavedModel or a GraphDef."""
    # Before TensorFlow is imported: its messages would hide the reason of a failure.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    import tensorflow

    source = Path(request.source)
    if source.is_dir():
        chosen, *others = _signatures(tensorflow, source, request)
        make = tensorflow.lite.TFLiteConverter.from_saved_model
        converter = make(str(source), signature_keys=[chosen])
        interface = _lower(converter.convert, request, folder)
        if others and not request.func:
            listed = ", ".join(map(repr, others))
            interface.remarks.append(
                f"other signatures are not converted: {listed}; --func chooses one"
            )
        order(interface, json.loads(request.options.get(INPUT_NAMES, "[]")))
        describe(interface, folder, "saved_model", str(source), func=chosen)
        name_outputs(interface, json.loads(request.options.get(OUTPUT_NAMES, "[]")))
        return interface
    shown = request.shown or str(source)
    if request.frontend == "tensorflow":
        converter = _of_graph_def(tensorflow, source, request)
        interface = _lower(converter.convert, request, folder)
        describe(interface, folder, "graph_def", str(source))
        return interface
    with layer_lines(source) as lines:
        model = _made_model(request) if request.member else _keras_model(source, shown)
    if not getattr(model, "built", True):
        raise fail("frontend-failed", shown, _NOT_BUILT, _BUILD)
    if request.member and "examples" in request.options:
        # Before anything is changed in the model.
        np.savez(folder / _WEIGHTS, *(np.asarray(one) for one in model.variables))
    with prepared(model):
        fixed = fix_sizes(model, request.input_shapes)
        converter = tensorflow.lite.TFLiteConverter.from_keras_model(fixed)
        with _quantised_layers(model, shown):
            interface = _lower(converter.convert, request, folder, command_for(fixed))
    order(interface, [tensor.name for tensor in getattr(model, "inputs", None) or []])
    member, users = request.member, request.users_folder
    describe(interface, folder, "keras", str(source), member=member, users=users)
    if interface.model and interface.outputs:
        tflite = read_tflite((folder / interface.model).read_bytes())
        add_source(interface, model, tflite, str(source), lines)
    return interface


def _signatures(tensorflow: Any, folder: Path, request: Request) -> list[str]:
    """Return the signatures of a SavedModel, the one that is converted first."""
    shown = request.shown or str(folder)
    names = list(tensorflow.saved_model.load(str(folder)).signatures)
    if not names:
        message = "the SavedModel has no signature, which would say what its inputs are"
        raise fail("frontend-failed", shown, message, _SIGN)
    func = request.func or (_DEFAULT if _DEFAULT in names else names[0])
    if func not in names:
        message = f"the SavedModel has no signature {func!r}; it has {', '.join(map(repr, names))}"
        raise fail(
            "unknown-function", "--func", message, suggest(func, names, "choose one of them")
        )
    return [func, *(name for name in names if name != func)]


@contextlib.contextmanager
def _quantised_layers(model: Any, shown: str) -> Iterator[None]:
    """Raise TosaConvertError for layers that Keras quantised if TFLite's converter fails."""
    try:
        yield
    except TosaConvertError:
        raise
    except Exception:
        layers: Iterable[Any] = getattr(model, "_flatten_layers", list)()
        modes = {row.name: getattr(row, "quantization_mode", None) for row in layers}
        found = [f"{name} ({mode})" for name, mode in modes.items() if mode]
        if not found:
            raise
        message = f"TFLite's converter fails, and Keras quantised the layers {', '.join(found[:5])}"
        raise fail("frontend-failed", shown, message, _BEFORE) from None


def _of_graph_def(tensorflow: Any, source: Path, request: Request) -> Any:
    """Return the converter of a frozen GraphDef: what no other node takes are the outputs."""
    from google.protobuf.message import DecodeError

    graph = tensorflow.compat.v1.GraphDef()
    try:
        graph.ParseFromString(source.read_bytes())
    except DecodeError as error:
        message = f"the GraphDef is damaged: {error}"
        raise fail("unrecognised-input", request.shown, message) from None
    if variables := [node.name for node in graph.node if node.op in _VARIABLES]:
        message = f"the GraphDef is not frozen: it reads the variables {', '.join(variables[:5])}"
        hint = "convert the SavedModel, or freeze it with convert_variables_to_constants_v2"
        raise fail("frontend-failed", request.shown, message, hint)
    taken = {name.lstrip("^").partition(":")[0] for node in graph.node for name in node.input}
    inputs = [node.name for node in graph.node if node.op == _PLACEHOLDER]
    outputs = [
        node.name
        for node in graph.node
        if node.name not in taken and node.op not in (_PLACEHOLDER, *_NO_OUTPUTS)
    ]
    shapes = {name: list(sizes) for name, sizes in request.input_shapes.items() if name in inputs}
    make = tensorflow.compat.v1.lite.TFLiteConverter.from_frozen_graph
    return make(str(source), inputs, outputs, shapes or None)


def _made_model(request: Request) -> Any:
    import keras

    member, shown = request.member, request.shown or request.source
    made = call_factory(Path(request.source), member, request.users_folder)
    if not isinstance(made, keras.Model):
        message = f"{member}() must return a keras.Model, found {type(made).__name__}"
        raise fail("frontend-failed", shown, message)
    return made


def _keras_model(path: Path, shown: str) -> Any:
    import keras

    try:
        # Safe mode: code in the file is not run.
        return keras.saving.load_model(str(path), compile=False, safe_mode=True)
    except OSError as error:
        message = f"Keras does not load it: {error}"
        raise fail("frontend-failed", shown, message, "the file is damaged or incomplete") from None
    except (TypeError, ValueError) as error:
        hint = (
            "layers of your own: convert FILE.py:FUNCTION, which makes the model with its weights"
        )
        if _NO_CONFIGURATION in str(error):
            hint = _ONLY_WEIGHTS
        # Before and in the text are whole configurations.
        text = _CONFIGURATION.sub("", str(error).rpartition("Exception encountered: ")[2])
        raise fail("frontend-failed", shown, f"Keras does not load it: {text}", hint) from None


def _lower(
    convert: Callable[[], bytes], request: Request, folder: Path, fixing: str = ""
) -> Interface:
    """Convert a model to TFLite, and lower that. fixing: the options that fix its sizes, if known."""
    # Locations have the file's name.
    model = folder / f"{Path(request.source).stem}.tflite"
    say_stage(folder, "converting the model to TFLite")
    try:
        model.write_bytes(convert())
    except Exception as error:  # TFLite's converter has an exception class that is not public.
        if _OPEN_BATCH in str(error):
            hint = f"{fixing} fixes it" if fixing else _FIXED_BATCH
            row = NotLowered(operator=_STEPS, count=1, reason=_OPEN_REASON, hint=hint)
            return Interface(not_lowered=[row])
        other_type = _NOT_FP32.search(str(error))
        names = [
            name.strip().partition("(")[0]
            for listed in _NOT_IN_TFLITE.findall(str(error))
            for name in re.split(r",\s*(?![^()]*\))", listed)
        ]
        if not names:
            raise
        unique = dict.fromkeys(names)
        return Interface(
            not_lowered=[
                NotLowered(
                    operator=name,
                    count=names.count(name),
                    reason=f"{_FP32_ONLY}{other_type[1]}" if other_type else _REASON,
                    hint=_POLICY if other_type else _HINT,
                )
                for name in unique
            ]
        )
    interface = lower_file(model, request, folder)
    interface.model = model.name
    return interface


#: What Keras adds to a message about a class that it does not know.
_CONFIGURATION: Final = re.compile(r"\s*Full object config: .*", re.DOTALL)
#: What TFLite calls the outputs of a model that returns them in a list.
_OUTPUT: Final = re.compile(r"output_(\d+)")


@contextlib.contextmanager
def layer_lines(path: Path) -> Iterator[dict[int, int]]:
    """Collect the line of a Python file that makes a layer, by the layer's id, inside the block."""
    import keras

    lines: dict[int, int] = {}
    original = keras.Operation.__init__

    def init(self: Any, *arguments: Any, **keywords: Any) -> None:
        original(self, *arguments, **keywords)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != str(path):
            frame = frame.f_back
        if frame is not None:
            lines[id(self)] = frame.f_lineno

    keras.Operation.__init__ = init
    try:
        yield lines
    finally:
        keras.Operation.__init__ = original


def order(interface: Interface, inputs: Sequence[str]) -> None:
    """Note the model's order of inputs and outputs, which TFLite changes. inputs: names, if known."""
    given = [value.name for value in interface.inputs]
    if len(set(inputs)) == len(inputs) and sorted(given) == sorted(inputs):
        interface.input_order = [given.index(name) for name in inputs]
    numbers = [_OUTPUT.fullmatch(value.name) for value in interface.outputs]
    found = [int(number[1]) for number in numbers if number]
    if sorted(found) == list(range(len(interface.outputs))):
        interface.output_order = [found.index(place) for place in range(len(found))]


def describe(
    interface: Interface,
    folder: Path,
    kind: str,
    path: str,
    *,
    func: str = "",
    member: str = "",
    users: str = "",
) -> None:
    """Write what `--check` has to run, which is the user's model and not the TFLite one."""
    if not interface.model:
        return
    inputs, outputs = (
        [values[place].name for place in places or range(len(values))]
        for values, places in (
            (interface.inputs, interface.input_order),
            (interface.outputs, interface.output_order),
        )
    )
    row: dict[str, Any] = {
        "kind": kind,
        "path": path,
        "func": func,
        "member": member,
        "folder": users,
    }
    row |= {"weights": str(folder / _WEIGHTS), "inputs": inputs, "outputs": outputs}
    interface.original = "original.json"
    (folder / interface.original).write_text(json.dumps(row), encoding="utf-8")


def name_outputs(interface: Interface, names: Sequence[str]) -> None:
    """Give the outputs of a model the names that Keras has for them, in the order of the model."""
    for value in interface.outputs:
        numbered = _OUTPUT.fullmatch(value.name)
        if numbered and int(numbered[1]) < len(names):
            value.name = names[int(numbered[1])]


def add_source(
    interface: Interface, model: Any, tflite: TfliteFile, file: str, lines: Mapping[int, int]
) -> None:
    """Add what the user calls the outputs and the operators to the interface of a TFLite model."""
    layers = {layer.name: layer for layer in _layers(model)}
    made_by = {}
    name_outputs(interface, _output_names(model))
    for value, number in zip(interface.outputs, tflite.outputs, strict=True):
        made_by[tflite.tensors[number].name] = value.name
    places = {}
    for tensor in interface.operators:
        # A fused operator has the names of all that it was made of.
        parts = dict.fromkeys(_part(name, layers) for name in tensor.split(";"))
        if not any(parts):
            parts = dict.fromkeys([_part(made_by.get(tensor, ""), layers)])
        found = [_location(*part, file, lines) for part in parts if part is not None]
        if found and tensor.isprintable():
            text = found[0] if len(found) == 1 else f"fused[{', '.join(found)}]"
            places[tensor] = f"loc({text})"
    interface.places = places
    tensors = {number: tensor for tensor, number in interface.operators.items()}
    for row in interface.not_lowered:
        place = places.get(tensors.get(-1 if row.index is None else row.index, ""), "")
        row.where = line_of(place) or row.where


def _output_names(model: Any) -> Sequence[str]:
    import keras

    # Functional models have names. A class with a `call` of its own has none, nor layers in order.
    if isinstance(model, keras.Sequential):
        return [layer.name for layer in model.layers[-1:]]
    returned = getattr(model, "_outputs_struct", None)
    if isinstance(returned, dict) and len(returned) == len(model.outputs):
        return sorted(returned)
    return getattr(model, "output_names", ())


def _layers(model: Any) -> Iterator[Any]:
    # The operations of a functional model are its layers, and functions such as x + 1.
    for layer in getattr(model, "operations", ()) or getattr(model, "layers", ()):
        yield layer
        yield from _layers(layer)


def _part(name: str, layers: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Return an operator's name from its layer on, and the layer; TensorFlow numbers names: hidden_1."""
    words = name.split("/")
    for at in reversed(range(len(words))):
        layer = layers.get(words[at]) or layers.get(re.sub(r"_\d+$", "", words[at]))
        if layer is not None:
            return "/".join([layer.name, *words[at + 1 :]]), layer
    return None


def _location(name: str, layer: Any, file: str, lines: Mapping[int, int]) -> str:
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in (name, file)]
    return f'"{quoted[0]}"("{quoted[1]}":{lines.get(id(layer), 0)}:0)'
