"""Lowers Keras models as JAX does: Keras traces them on its backend for JAX, without TensorFlow."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Final

import jax
import numpy as np

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.frontends.jax.convert import failures_of, rows_of
from tosa_convert.frontends.jax.lowering import Arguments, Lowered, lower_function, use_cpu
from tosa_convert.frontends.jax.modules import State
from tosa_convert.frontends.jax.source import Place
from tosa_convert.frontends.jax.walk import Walk
from tosa_convert.frontends.keras.signature import (
    Slot,
    inference_of,
    output_names,
    packed,
    slots_of,
)
from tosa_convert.frontends.lower_model import WEIGHTS_FILE, write_original, write_program
from tosa_convert.frontends.lowering.open_sizes import lowered_openly, open_dimensions, trial_sizes
from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.frontends.process.python_file import call_factory
from tosa_convert.frontends.process.request import Interface, Request, options_for, say_stage
from tosa_convert.frontends.process.request import NotLowered as Unlowered
from tosa_convert.frontends.unlowered import THE_MODEL, unlowered
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.model import Graph

#: The name of the states of Keras's random number generators.
_SEEDS: Final = "seed_generator_state"
#: How Keras begins its error about a damaged archive.
_NO_ARCHIVE: Final = "File not found"
_NO_CONFIGURATION: Final = "No model config found"
_ONLY_WEIGHTS: Final = (
    "the file has weights only: convert what model.save() writes, or FILE.py:FUNCTION, which makes the "
    "model and loads them"
)
_OWN_LAYERS: Final = (
    "layers of your own: convert FILE.py:FUNCTION, which makes the model with its weights"
)
_NO_TEXT: Final = "leave out the layers that turn text into numbers, and take the numbers as inputs"
_EQUAL_SIZES: Final = "it fails if the open sizes of its inputs differ from one another"
#: What Keras adds to a message about a class that it does not know.
_CONFIGURATION: Final = re.compile(r"\s*Full object config: .*", re.DOTALL)
_OF_TENSORFLOW: Final = "layers that call TensorFlow convert as a SavedModel: model.export(FOLDER)"


def lower(request: Request, folder: Path) -> Interface:
    """Lower a Keras model: .keras, .h5, or what a function in a Python file returns."""
    # What the file says comes too late: Keras is imported before it.
    os.environ["KERAS_BACKEND"] = "jax"
    use_cpu()
    source = Path(request.source)
    with layer_lines(source) as lines:
        model = _made_model(request) if request.member else _loaded_model(request)
    if request.member and "examples" in request.options:
        np.savez(folder / WEIGHTS_FILE, *(np.asarray(one) for one in model.variables))
    with _calls_of_tensorflow(), failures_of(source):
        interface = lower_model(model, request, folder, lines)
    member, users = request.member, request.users_folder
    write_original(interface, folder, "keras", str(source), member=member, users=users)
    return interface


def lower_model(
    model: Any, request: Request, folder: Path, lines: Mapping[int, int] | None = None
) -> Interface:
    """Lower a model of this process. lines: of the layers in the source, by their ids; None for none."""
    slots = slots_of(model, request.input_shapes, request.shown or request.source)
    if refused := list(_refused_types(slots, request.narrow)):
        return Interface(not_lowered=refused)
    say_stage(folder, "lowering the model")
    made = Lowered(None, [], [], [])
    layers = {layer.name: (lines or {}).get(id(layer), 0) for layer in _layers(model)}

    def lowered(shapes: Sequence[Sequence[int]]) -> Graph | None:
        nonlocal made
        structs = [
            jax.ShapeDtypeStruct(tuple(shape), slot.dtype)
            for shape, slot in zip(shapes, slots, strict=True)
        ]
        made = lower_function(
            model,
            Arguments(tuple(structs), {}),
            [slot.name for slot in slots],
            names_of_results=output_names(model) or None,
            walk=_Walk(layers, model.name, "" if lines is None else request.source),
            state=_state(model),
        )
        return made.graph

    shapes = [slot.shape for slot in slots]
    found = list(open_dimensions(shapes))
    problems = made.problems
    try:
        graph = lowered(shapes) if not found else _lowered_openly(lowered, shapes, found)
        problems = made.problems
    except NotLowered as problem:
        graph = None
        problems = [
            unlowered(
                THE_MODEL,
                "",
                problem.reason,
                f"set them: {options_for((slot.name, slot.shape) for slot in slots)}",
            )
        ]
    if graph is not None:
        write_program(graph, folder)
    remarks = [
        f"{slot.name} is {slot.dtype} in the model and {port.dtype} in JAX"
        for slot, port in zip(slots, made.inputs, strict=bool(made.inputs))
        if slot.dtype != port.dtype
    ]
    return Interface(
        inputs=made.inputs, outputs=made.outputs, not_lowered=rows_of(problems), remarks=remarks
    )


def _refused_types(slots: Sequence[Slot], narrow: Collection[str]) -> Iterator[Unlowered]:
    for slot in slots:
        what = f"the input {slot.name}"
        try:
            kind = jax.numpy.dtype(slot.dtype)
        except TypeError:
            yield unlowered(what, "", f"TOSA does not have the element type {slot.dtype}", _NO_TEXT)
            continue
        held = jax.dtypes.canonicalize_dtype(kind)
        option = "f64" if kind.kind == "f" else "i64"
        if held != kind and option not in narrow:
            reason = f"it is {slot.dtype}, and on JAX Keras computes in {held}"
            yield unlowered(what, "", reason, f"to compute in 32 bits: --narrow {option}")


def _lowered_openly(
    lower: Callable[[Sequence[Sequence[int]]], Graph | None],
    shapes: Sequence[Sequence[Any]],
    found: Sequence[Any],
) -> Graph | None:
    sizes = trial_sizes([(symbol, is_first) for _, _, symbol, is_first in found])

    def trial(number: int) -> Graph | None:
        given = [list(shape) for shape in shapes]
        for position, axis, symbol, _ in found:
            given[position][axis] = sizes[symbol][number]
        try:
            return lower(given)
        except (TypeError, ValueError):
            if len(sizes) < 2:
                raise
            raise NotLowered(_EQUAL_SIZES) from None

    return lowered_openly(trial)


def _state(model: Any) -> State:
    """Return a model's weights and states, and the model as a pure function of them."""
    import keras

    recurrent = (one for one in model._flatten_layers() if isinstance(one, keras.layers.RNN))
    # Keras does not list those of recurrent layers among a model's variables.
    states = [
        one for layer in recurrent if layer.stateful for one in keras.tree.flatten(layer.states)
    ]
    variables = [*model.trainable_variables, *model.non_trainable_variables, *states]
    known = {id(one) for one in variables}
    mode = inference_of(model)

    def pure(state: Any, *arrays: Any) -> Any:
        mapping = list(zip(variables, state, strict=True))
        with (
            keras.StatelessScope(state_mapping=mapping) as scope,
            _named_operations(),
            warnings.catch_warnings(),
        ):
            # What 64 bits become is refused or told before.
            warnings.filterwarnings("ignore", "Explicitly requested dtype", UserWarning)
            results = model(*packed(model, arrays), **mode)
        if not scope.state_mapping.keys() <= known:
            message = "a call changes a variable that is none of the model's variables"
            raise fail("frontend-failed", model.name, message, "make it with add_weight()")
        after = [scope.get_current_value(one) for one in variables]
        kept = [old if new is None else new for old, new in zip(state, after, strict=True)]
        return keras.tree.flatten(results), kept

    values = [one.value for one in variables]
    random = [one.name == _SEEDS for one in variables]
    names: dict[str, Any] = {}
    for one in variables:
        names[unused_name(one.path.replace("/", "."), names)] = one
    return State(pure, values, list(names), random)


@contextlib.contextmanager
def _named_operations() -> Iterator[None]:
    """Give functions such as x + 1 a scope of their name inside the block, as layers have."""
    import keras

    original = keras.Operation.__call__

    def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
        with jax.named_scope(self.name):
            return original(self, *arguments, **keywords)

    keras.Operation.__call__ = call
    try:
        yield
    finally:
        keras.Operation.__call__ = original


class _Walk(Walk):
    """Names operators by the layers that they are of. layers: name -> its line in the source."""

    def __init__(self, layers: Mapping[str, int], model: str, file: str) -> None:
        super().__init__(has_full_paths=True)
        self.layers, self.model, self.file = layers, model, file

    def place_of(self, equation: Any, outer: Place) -> Place:
        place = super().place_of(equation, outer)
        words = place.scope.split("/")
        for at in reversed(range(len(words))):
            if (line := self.layers.get(words[at])) is not None:
                return Place("/".join(words[at:]), place.file or self.file, place.line or line)
        return place._replace(scope="/".join(words[words[0] == self.model :]))


@contextlib.contextmanager
def _calls_of_tensorflow() -> Iterator[None]:
    """Say what to do where code of the user's fails and has imported TensorFlow."""
    try:
        yield
    except TosaConvertError as error:
        (found,) = error.findings
        if found.hint or "tensorflow" not in sys.modules:
            raise
        raise TosaConvertError([replace(found, hint=_OF_TENSORFLOW)]) from None


def _made_model(request: Request) -> Any:
    import keras

    member, shown = request.member, request.shown or request.source
    with _calls_of_tensorflow():
        made = call_factory(Path(request.source), member, request.users_folder)
    if not isinstance(made, keras.Model):
        message = f"{member}() must return a keras.Model, found {type(made).__name__}"
        raise fail("frontend-failed", shown, message)
    return made


def _loaded_model(request: Request) -> Any:
    import keras

    shown = request.shown or request.source
    try:
        # Safe mode: code in the file is not run.
        return keras.saving.load_model(request.source, compile=False, safe_mode=True)
    except (OSError, TypeError, ValueError) as error:
        said, hint = str(error), _OWN_LAYERS
        if isinstance(error, OSError) or said.startswith(_NO_ARCHIVE):
            hint = "the file is damaged or incomplete"
        elif _NO_CONFIGURATION in said:
            hint = _ONLY_WEIGHTS
        # Before and in the text are whole configurations.
        text = _CONFIGURATION.sub("", said.rpartition("Exception encountered: ")[2])
        raise fail("frontend-failed", shown, f"Keras does not load it: {text}", hint) from None


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


def _layers(model: Any) -> Iterator[Any]:
    # The operations of a functional model are its layers, and functions such as x + 1.
    for layer in getattr(model, "operations", ()) or getattr(model, "layers", ()):
        yield layer
        yield from _layers(layer)
