"""Lowers TensorFlow SavedModels and frozen GraphDefs through TFLite."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tosa_convert.errors import fail, suggest
from tosa_convert.frontends.lower_model import write_original
from tosa_convert.frontends.process.request import (
    INPUT_NAMES,
    OUTPUT_NAMES,
    Interface,
    NotLowered,
    Request,
    say_stage,
)
from tosa_convert.frontends.tflite.convert import lower_file

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
_FIXED_BATCH: Final = "export the model with a fixed batch: keras.Input(batch_shape=(1, ...))"
_DEFAULT: Final = "serving_default"
_SIGN: Final = (
    "save it with signatures=, or with a tf.function that has an input_signature: "
    "tf.saved_model.save(module, folder, signatures=module.f)"
)
_PLACEHOLDER: Final = "Placeholder"
#: Operators of a GraphDef whose values are in a checkpoint, and those that compute no output.
_VARIABLES: Final = ("Variable", "VariableV2", "VarHandleOp")
_NO_OUTPUTS: Final = ("Const", "NoOp", "Assert")


#: What TFLite calls the outputs of a model that returns them in a list.
_OUTPUT: Final = re.compile(r"output_(\d+)")


def lower(request: Request, folder: Path) -> Interface:
    """Lower a SavedModel or a GraphDef."""
    # Before TensorFlow is imported: its messages would hide the reason of a failure.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow

    source = Path(request.source)
    if not source.is_dir():
        converter = _of_graph_def(tensorflow, source, request)
        interface = _lower(converter.convert, request, folder)
        if interface.model:
            write_original(interface, folder, "graph_def", str(source))
        return interface
    chosen, *others = _signatures(tensorflow, source, request)
    make = tensorflow.lite.TFLiteConverter.from_saved_model
    interface = _lower(make(str(source), signature_keys=[chosen]).convert, request, folder)
    if others and not request.func:
        listed = ", ".join(map(repr, others))
        interface.remarks.append(
            f"other signatures are not converted: {listed}; --func chooses one"
        )
    _order(interface, json.loads(request.options.get(INPUT_NAMES, "[]")))
    if interface.model:
        write_original(interface, folder, "saved_model", str(source), func=chosen)
    _name_outputs(interface, json.loads(request.options.get(OUTPUT_NAMES, "[]")))
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


def _lower(convert: Callable[[], bytes], request: Request, folder: Path) -> Interface:
    """Convert a model to TFLite, and lower that."""
    # Locations have the file's name.
    model = folder / f"{Path(request.source).stem}.tflite"
    say_stage(folder, "converting the model to TFLite")
    try:
        model.write_bytes(convert())
    except Exception as error:  # TFLite's converter has an exception class that is not public.
        if _OPEN_BATCH in str(error):
            row = NotLowered(operator=_STEPS, count=1, reason=_OPEN_REASON, hint=_FIXED_BATCH)
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


def _order(interface: Interface, inputs: Sequence[str]) -> None:
    """Note the model's order of inputs and outputs, which TFLite changes. inputs: names, if known."""
    given = [value.name for value in interface.inputs]
    if len(set(inputs)) == len(inputs) and sorted(given) == sorted(inputs):
        interface.input_order = [given.index(name) for name in inputs]
    numbers = [_OUTPUT.fullmatch(value.name) for value in interface.outputs]
    found = [int(number[1]) for number in numbers if number]
    if sorted(found) == list(range(len(interface.outputs))):
        interface.output_order = [found.index(place) for place in range(len(found))]


def _name_outputs(interface: Interface, names: Sequence[str]) -> None:
    """Give the outputs of a model the names that Keras has for them, in the order of the model."""
    for value in interface.outputs:
        numbered = _OUTPUT.fullmatch(value.name)
        if numbered and int(numbered[1]) < len(names):
            value.name = names[int(numbered[1])]
