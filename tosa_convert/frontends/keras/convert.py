"""Keras models and TensorFlow SavedModels, through TFLite."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tosa_convert.errors import fail
from tosa_convert.frontends.keras.source import add_source, layer_lines, name_outputs
from tosa_convert.frontends.process.interface import Interface, NotLowered
from tosa_convert.frontends.process.python_file import call_factory
from tosa_convert.frontends.process.request import OUTPUT_NAMES, Request
from tosa_convert.frontends.tflite.convert import lower_file
from tosa_convert.frontends.tflite.read import read_tflite

#: What TFLite says of operators that it has only as TensorFlow's own, and of those that are custom ones.
_NOT_IN_TFLITE: Final = re.compile(r"^\s*(?:TF Select|Flex|Custom) ops: (.+)$", re.MULTILINE)
_REASON: Final = "TFLite has no such operator"
_HINT: Final = "write the layer with operators of TFLite, or compute it before or after the program"


def lower(request: Request, folder: Path) -> Interface:
    """Lower a Keras model (.keras, or of a function in a Python file) or a folder with a SavedModel."""
    # Before TensorFlow is imported: its messages would hide the reason of a failure.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    import tensorflow

    source = Path(request.source)
    if source.is_dir():
        converter = tensorflow.lite.TFLiteConverter.from_saved_model(str(source))
        interface = _lower(converter.convert, request, folder)
        name_outputs(interface, json.loads(request.options.get(OUTPUT_NAMES, "[]")))
        return interface
    shown = request.shown or str(source)
    with layer_lines(source) as lines:
        model = _made_model(request) if request.member else _keras_model(source, shown)
    converter = tensorflow.lite.TFLiteConverter.from_keras_model(model)
    interface = _lower(converter.convert, request, folder)
    if interface.model and interface.outputs:
        tflite = read_tflite((folder / interface.model).read_bytes())
        add_source(interface, model, tflite, str(source), lines)
    return interface


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
    except (TypeError, ValueError) as error:
        hint = "layers of your own: build the model in Python and use tosa_convert.frontends.from_keras"
        raise fail("frontend-failed", shown, f"Keras does not load it: {error}", hint) from None


def _lower(convert: Callable[[], bytes], request: Request, folder: Path) -> Interface:
    # Locations have the file's name.
    model = folder / f"{Path(request.source).stem}.tflite"
    try:
        model.write_bytes(convert())
    except Exception as error:  # TFLite's converter has an exception class that is not public.
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
                NotLowered(operator=name, count=names.count(name), reason=_REASON, hint=_HINT)
                for name in unique
            ]
        )
    interface = lower_file(model, request, folder)
    interface.model = model.name
    return interface
