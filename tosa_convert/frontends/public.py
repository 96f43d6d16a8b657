"""The public functions: a model of a framework as a Graph."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.extensions import is_extension
from tosa_convert.frontends.lower_model import FrontendOptions, lowered
from tosa_convert.frontends.model_summary import describe as describe
from tosa_convert.frontends.process.request import (
    Request,
    numeric_shapes,
)
from tosa_convert.frontends.table import (
    FRONTENDS,
    Recognised,
    absent,
    frontend,
    missing,
    model_kinds,
    recognize,
)
from tosa_convert.io.keywords import refuse_unexpected, takes_keywords
from tosa_convert.io.options import LimitsLike, ReadOptions, Shapes
from tosa_convert.process.child import temporary_folder

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tosa_convert.graph.model import Graph


class ModelKeywords(TypedDict, total=False):
    """Keywords of the functions that convert models; `from_file` documents each of them."""

    input_shapes: Shapes | None
    full_paths: bool
    exact: bool
    narrow: str | Iterable[str]
    python: str
    timeout: float
    limits: LimitsLike


class TFLiteKeywords(ModelKeywords, total=False):
    """Keywords of `from_tflite`."""

    func: str | None


class TorchKeywords(ModelKeywords, total=False):
    """Keywords of `from_torch`."""

    via: str


class FileKeywords(TFLiteKeywords, TorchKeywords, total=False):
    """Keywords of `from_file`."""

    random_weights: bool


#: Defaults of the keywords that `ReadOptions` does not have.
_DEFAULTS: Final = {
    row.name: row.default
    for row in fields(FrontendOptions)
    if row.name in ("python", "timeout", "via", "random_weights")
}


@takes_keywords(FileKeywords, **_DEFAULTS)
def from_file(path: str | os.PathLike[str], **options: Unpack[FileKeywords]) -> Graph:
    """Convert a model of any framework, which its content tells.

    Args:
        path: a model, a folder with a SavedModel, `file.py:NAME`, or the name of a model that a library
            makes, such as `timm:resnet50`.
        input_shapes: input -> its sizes in elements, for inputs with dynamic dimensions; an input
            goes by its name or its position (`arg0`).
        narrow: element types to convert, "i64" to i32 and "f64" to f32. Every tensor that is narrowed is
            logged.
        full_paths: keep the folders of file names in locations.
        exact: keep every rounding of the model: no normalisation becomes part of the convolution before
            it.
        func: the signature of a TFLite model that is converted; by default that of its main subgraph.
        via: another route than the usual one, such as "executorch" for torch models, or a frontend of
            another package, `extension:NAME`, for any file.
        random_weights: make a model that is named by its library from its configuration, without its
            trained weights and without a download.
        python: the Python that has the framework's packages; by default this one.
        timeout: seconds that the converter may take.
        limits: as in `load`; `converter-memory` bounds the converter.

    Returns:
        The program, with the framework's names of inputs and outputs, and its states as variables.

    Raises:
        TosaConvertError: "unrecognised-input" for what is not a model; "frontend-missing" if a
            package is not installed; "not-lowered" with every operator that does not lower;
            "frontend-failed" if the converter crashed, refused the model or took too long;
            "unknown-argument" or "option-conflict" for shapes that the model does not have.

    Example:
        >>> import tosa_convert as tc
        >>> graph = tc.frontends.from_file("model.tflite", input_shapes={"image": (4, 3)})
        >>> graph.main.tensors["image"].shape
        (4, 3)
    """
    refuse_unexpected(from_file, options)
    name, via = os.fspath(path), options.get("via", "")
    model = Recognised(via, os.path.abspath(name), name) if is_extension(via) else recognize(name)
    if is_extension(via) and not os.path.exists(name):
        raise fail("file-error", name, "cannot be read: No such file or directory")
    if model is None:
        message = (
            f"the input is not a model that a frontend reads, expected one of: {model_kinds()}"
        )
        raise fail("unrecognised-input", name, message)
    return _of_model(model, _options_of(options))


@takes_keywords(TFLiteKeywords, **_DEFAULTS)
def from_tflite(path: str | os.PathLike[str], **options: Unpack[TFLiteKeywords]) -> Graph:
    """Convert a TFLite model. Further keywords are those of `from_file`.

    Args:
        path: a .tflite file.
        input_shapes: an input goes by its name in the signature, the name of its tensor, or its
            position (`arg0`).

    Returns:
        The program. Inputs and outputs have their names in the signature, else those of the tensors;
        locations name the tensors.

    Raises:
        TosaConvertError: "unrecognised-input" for what is not a TFLite model, or a damaged one;
            "frontend-missing" if the other Python lacks numpy or ml_dtypes; others as `from_file`.

    Example:
        >>> import tosa_convert as tc
        >>> graph = tc.frontends.from_tflite("model.tflite", input_shapes={"image": (4, 3)})
        >>> graph.main.inputs
        ['image']
    """
    refuse_unexpected(from_tflite, options)
    return _of_frontend("tflite", path, options)


def from_jax(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    names: Sequence[str] | None = None,
    full_paths: bool = False,
    exact: bool = False,
) -> Graph:
    """Convert a JAX function, which is lowered in this process.

    What the function takes from outside, such as weights, becomes constants.

    Args:
        function: what `jax.jit` takes; or a module of flax.nnx, whose state, such as a cache, becomes
            variables if a call changes it.
        args: example arguments: arrays, `jax.ShapeDtypeStruct`, and trees of them. Only their types and
            shapes matter.
        kwargs: example arguments by keyword.
        names: the names of `args`; by default those of the function's parameters. An array of a tree
            has its path after it: `params.Dense_0.kernel`.
        full_paths: keep the folders of file names in locations.
        exact: as in `from_file`.

    Returns:
        The program. Results are called `output`, `output_0`, ... or by their keys; unsigned integers
        are signed ones with the same bits.

    Raises:
        TosaConvertError: "frontend-missing" if jax is not installed; "not-lowered" with every
            primitive that does not lower, its lines, and what would help. What the function raises
            while JAX traces it is passed on.

    Example:
        >>> import jax, numpy as np
        >>> import tosa_convert as tc
        >>> graph = tc.frontends.from_jax(lambda x: {"y": jax.nn.relu(x)}, [np.ones(3, np.float32)])
        >>> graph.main.inputs, graph.main.outputs
        (['x'], ['y'])
    """
    row = frontend("jax")
    if distributions := absent(row):
        raise TosaConvertError(missing(row, distributions))
    from tosa_convert.frontends.jax.convert import arguments_of, graph_of

    return graph_of(function, arguments_of(args, kwargs, names), names, full_paths, exact)


@takes_keywords(ModelKeywords, **_DEFAULTS)
def from_keras(model: Any, **options: Unpack[ModelKeywords]) -> Graph:
    """Convert a Keras model. Further keywords are those of `from_file`.

    Args:
        model: a keras.Model, or the path of a .keras or .h5 file. A model in memory is lowered in this
            process if Keras's backend is JAX, and saved for a process of its own if it is another one;
            with layers of your own as a SavedModel, which TensorFlow lowers.
        python: the Python that has Keras and JAX; by default this one.

    Returns:
        The program. Outputs have the names of the layers that make them.

    Raises:
        TypeError: `model` is neither a model nor a path.
        TosaConvertError: as `from_file`; "option-conflict" for `python` and `timeout` of a model that
            is lowered in this process. What layers raise there while JAX traces them is passed on.

    Example:
        >>> import keras
        >>> import tosa_convert as tc
        >>> image = keras.Input(batch_shape=(4, 3), name="image")
        >>> model = keras.Model(image, keras.layers.ReLU()(image))
        >>> tc.frontends.from_keras(model).main.inputs
        ['image']
    """
    refuse_unexpected(from_keras, options)
    if isinstance(model, (str, os.PathLike)):
        return _of_frontend("keras", model, options)
    if not hasattr(model, "export"):
        raise TypeError(f"found {type(model).__name__}, expected a keras.Model or a path")
    from tosa_convert.frontends.keras.signature import saved

    with temporary_folder("tosa-frontend-") as folder:
        read = _options_of(options).read
        way = saved(model, folder, numeric_shapes(read.input_shapes))
        if way is None:
            _refuse_of_a_process(options)
            return _in_this_process(model, Path(folder), read)
        return _of_frontend(way.frontend, way.path, options, way.options)


def _refuse_of_a_process(options: ModelKeywords) -> None:
    for name in ("python", "timeout"):
        if options.get(name, _DEFAULTS[name]) != _DEFAULTS[name]:
            message = "it is for another process, and a model on JAX is lowered in this one"
            raise fail(
                "option-conflict", name, message, "leave it out, or save the model to a file"
            )


def _in_this_process(model: Any, folder: Path, read: ReadOptions) -> Graph:
    """Lower a Keras model whose backend is JAX."""
    from tosa_convert.frontends.keras.convert import lower_model
    from tosa_convert.frontends.read_result import finish

    shapes = numeric_shapes(read.input_shapes)
    request = Request(frontend="keras", source=model.name, input_shapes=shapes, narrow=read.narrow)
    return finish(request, lower_model(model, request, folder), folder, read)


@takes_keywords(ModelKeywords, **_DEFAULTS)
def from_onnx(path: str | os.PathLike[str], **options: Unpack[ModelKeywords]) -> Graph:
    """Convert an ONNX model. Further keywords are those of `from_file`.

    Args:
        path: an .onnx file; files of external weights are beside it.

    Returns:
        The program. Inputs and outputs have the names of the graph; locations name the nodes.

    Raises:
        TosaConvertError: "unrecognised-input" for what is not an ONNX model; "missing-data" or
            "unsafe-path" for external weights that are not in the model's folder; others as
            `from_file`.

    Example:
        >>> import tosa_convert as tc
        >>> graph = tc.frontends.from_onnx("model.onnx", input_shapes={"image": (4, 3)})
        >>> graph.main.inputs
        ['image']
    """
    refuse_unexpected(from_onnx, options)
    return _of_frontend("onnx", path, options)


@takes_keywords(TorchKeywords, **_DEFAULTS)
def from_torch(
    module: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[TorchKeywords],
) -> Graph:
    """Convert a torch module; buffers that a call changes become variables.

    Further keywords are those of `from_file`.

    Args:
        module: a `torch.nn.Module`, which is exported with the arguments, or a
            `torch.export.ExportedProgram`, which is taken as it is.
        args: example arguments: tensors of the types and sizes that the program is to take.
        kwargs: example arguments by keyword.
        via: a module that was quantised by pt2e has integer arithmetic by way of "executorch".
        input_shapes: for an exported program with dynamic dimensions.
        python: the Python that has the packages of the route, and can load the program that this one
            saves; by default this one.

    Returns:
        The program. Its inputs have the names of the arguments, and the outputs those of the
        operators that compute them, or their keys in a dictionary.

    Raises:
        TosaConvertError: as `from_file` does.

    Example:
        >>> import torch
        >>> import tosa_convert as tc
        >>> graph = tc.frontends.from_torch(torch.nn.Linear(3, 2).eval(), [torch.ones(4, 3)])
        >>> graph.main.inputs, graph.main.outputs
        (['input'], ['linear'])
    """
    refuse_unexpected(from_torch, options)
    if importlib.util.find_spec("torch") is None:
        raise TosaConvertError(missing(frontend("torch"), ["torch"]))
    from tosa_convert.frontends.torch.export import save_program

    with temporary_folder("tosa-frontend-") as name:
        path = Path(name) / "module.pt2"
        saved = save_program(module, args, kwargs, path)
        model = Recognised("torch", str(path), type(module).__name__)
        return _of_model(model, _options_of(options, saved))


def _options_of(
    keywords: Mapping[str, Any], options: Mapping[str, str] | None = None
) -> FrontendOptions:
    own = {name: keywords[name] for name in _DEFAULTS if name in keywords}
    return FrontendOptions(read=ReadOptions.of(keywords), options=options or {}, **own)


def _of_model(model: Recognised, options: FrontendOptions) -> Graph:
    with lowered(model, options) as found:
        return found.graph


def _of_frontend(
    name: str,
    path: str | os.PathLike[str],
    keywords: Mapping[str, Any],
    options: Mapping[str, str] | None = None,
) -> Graph:
    """Convert a model of one framework, or refuse another. options: what only its frontend knows."""
    chosen = _options_of(keywords, options)
    model = recognize(os.fspath(path))
    if model is None or model.frontend != name:
        found = f"a model for {model.frontend}" if model else "something else"
        message = f"the input is {found}, expected {FRONTENDS[name].reads}"
        raise fail("unrecognised-input", os.fspath(path), message)
    return _of_model(model, chosen)
