"""The public functions that take or give MLIR modules; `api` has all public functions."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, overload

from tosa_convert.errors import fail, refuse_unknown
from tosa_convert.formats.read import Source
from tosa_convert.formats.write import AnyPath, stamp
from tosa_convert.io.files import Progress
from tosa_convert.io.formats import Format
from tosa_convert.io.keywords import (
    BuildKeywords,
    ExportKeywords,
    ImportKeywords,
    ModuleKeywords,
    refuse_unexpected,
    takes_keywords,
)
from tosa_convert.io.option_table import refuse_inapplicable, refuse_weights
from tosa_convert.io.options import ReadOptions, TosaVersion, WriteOptions, given_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tosa_convert.graph.model import Graph

_FLATBUFFER_FORMATS: Final = ("tosa", "json")


@takes_keywords(ModuleKeywords)
def from_module(
    module_or_func: Any, *, tosa_version: TosaVersion = "", **options: Unpack[ModuleKeywords]
) -> Graph:
    """Read the graph of a function of an MLIR module.

    Args:
        module_or_func: a module, a func.func or an operation of any MLIR Python bindings. It is not
            changed. The graph's constants are views of memory that the module's context owns.
        func: as for `load`; so are names, full_paths, narrow, pass_captured and input_shapes.
        names: see `load`.
        full_paths: see `load`.
        narrow: see `load`.
        pass_captured: see `load`.
        input_shapes: see `load`.
        tosa_version: "1.0" or "1.1"; by default the version in the module's tosa.target_env, else the
            lowest that expresses the function.

    Returns:
        The program.

    Raises:
        TosaConvertError: what is wrong with the function, all findings at once: "not-an-mlir-object",
            "ambiguous-function", "foreign-operator", "unsupported-dtype", "version-too-low" and others.

    Example:
        >>> import tosa_convert as tc
        >>> from torch_mlir import ir
        >>> with ir.Context():
        ...     module = ir.Module.parse("func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> "
        ...                              "{ return %x : tensor<2xf32> }")
        >>> tc.from_module(module).main.inputs
        ['TosaInput_0']
    """
    from tosa_convert.formats.read import read_module

    refuse_unexpected(from_module, options)
    return stamp(read_module(module_or_func, ReadOptions.of(options)), tosa_version)


@takes_keywords(BuildKeywords)
def to_module(graph: Graph, context: Any = None, **options: Unpack[BuildKeywords]) -> Any:
    """Return a graph as an `ir.Module` with one function.

    Args:
        graph: the program.
        context: an ir.Context, or anything that belongs to one; the module is built in its bindings. By
            default the current context (`with context:`), else a new one of the first bindings
            installed: torch_mlir, mlir, iree.compiler.
        names: "retain" keeps names that reading would not generate, as discardable attributes;
            "generate" keeps those of arguments and results only.
        constants: "dense" copies all constants into the context; "resource" shares the graph's memory
            wherever possible, for as long as the context lives; "auto" shares that of large ones.
        validate: refuse a program that TOSA forbids; MLIR's verifier misses some of it.
        limits: as for `save`.

    Returns:
        The `ir.Module`, which MLIR's verifier has accepted.

    Raises:
        TosaConvertError: what is wrong with the graph, all findings at once, such as
            "invalid-operator"; "missing-bindings", "not-an-mlir-object" or "malformed-mlir".

    Example:
        >>> import tosa_convert as tc
        >>> module = tc.to_module(tc.load("digits_cnn.tosa"))
        >>> module.operation.verify()
        True
    """
    from tosa_convert.formats.write import to_module as to_module_with

    refuse_unexpected(to_module, options)
    return to_module_with(graph, _context(context), WriteOptions.of(options))


@overload
def export_tosa_func_to_flatbuffer(
    module_or_func: Any,
    path: None = None,
    *,
    progress: None = None,
    **options: Unpack[ExportKeywords],
) -> bytes: ...
@overload
def export_tosa_func_to_flatbuffer(
    module_or_func: Any,
    path: AnyPath,
    *,
    progress: Progress | None = None,
    **options: Unpack[ExportKeywords],
) -> None: ...
@overload
def export_tosa_func_to_flatbuffer(
    module_or_func: Any,
    path: AnyPath | None,
    *,
    progress: Progress | None = None,
    **options: Unpack[ExportKeywords],
) -> bytes | None: ...
@takes_keywords(ExportKeywords, tosa_version="", to=None, input_names=None, output_names=None)
def export_tosa_func_to_flatbuffer(
    module_or_func: Any,
    path: AnyPath | None = None,
    *,
    progress: Progress | None = None,
    **options: Unpack[ExportKeywords],
) -> bytes | None:
    """Write a function of an MLIR module as a TOSA flatbuffer: as bytes, or to a file.

    Nothing is narrowed or dropped unless asked for, and after a failure the old file is unchanged.

    Args:
        module_or_func: a module, a func.func or an operation of any MLIR Python bindings. It is not
            changed, and nothing in it is kept alive afterwards.
        path: a `.tosa` file, or a `.json` file for the same as text; None to get bytes.
        func: the function, needed where the module has several with a body.
        names: "retain" keeps the names that the module carries and generates the others; "generate"
            generates all, and writes what tosa-opt writes.
        tosa_version: "1.0" or "1.1"; by default the version in the module's tosa.target_env, else the
            lowest that expresses the function.
        to: "tosa" or "json", instead of what the extension says.
        weights: where constants are stored; see `save`.
        full_paths: keep the folders of file names in locations. By default only the last component is
            kept, so that the bytes do not depend on where the module was made.
        narrow: element types to convert, "i64" to i32 and "f64" to f32; the tensors are logged.
        pass_captured: pass values that regions use from outside as operands; see `load`.
        input_shapes: argument -> its sizes in elements, for arguments with dynamic dimensions; the
            others are inferred. What stays dynamic is logged with the reason. See `load`.
        input_names: a name for each argument, in order, instead of those that `names` gives.
        output_names: a name for each result, in order.
        verify: read the result back and compare it bit for bit before the file is replaced.
        validate: as for `save`: refuse a program that TOSA forbids, unless it is written as JSON.
        progress: called with the number of bytes written so far, every 16 MiB at most; needs a path.

    Returns:
        The flatbuffer, or None if there is a path.

    Raises:
        TosaConvertError: all findings at once: operators of other dialects ("foreign-operator"), types
            that TOSA does not have ("unsupported-dtype", "unsupported-type"), values that do not fit
            ("value-out-of-range"), names that clash ("option-conflict"), and what `save` raises.

    Example:
        >>> import tosa_convert as tc
        >>> from torch_mlir import ir
        >>> with ir.Context():
        ...     module = ir.Module.parse("func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> "
        ...                              "{ return %x : tensor<2xf32> }")
        >>> data = tc.export_tosa_func_to_flatbuffer(module, input_names=["image"])
        >>> tc.load(data).main.inputs
        ['image']
    """
    from tosa_convert.formats import read as reading
    from tosa_convert.formats import write as writing
    from tosa_convert.graph.derived import rename

    refuse_unexpected(export_tosa_func_to_flatbuffer, options)
    path = None if path is None else os.fsdecode(path)
    to = options.get("to")
    if to is not None:
        refuse_unknown("to", to, _FLATBUFFER_FORMATS)
    file_format: Format = to or ("json" if path and path.lower().endswith(".json") else "tosa")
    # Names apply to what is read.
    written = replace(WriteOptions.of(options), names="retain")
    given = given_options(written)
    refuse_inapplicable(given, path or "", read_from="module", written_as=file_format)
    refuse_weights(file_format, written.weights)
    if progress is not None and path is None:
        message = "the option progress does not apply without a path"
        raise fail("option-conflict", "progress", message, "give a path, or leave it out")
    read = reading.read_module(module_or_func, ReadOptions.of(options))
    graph = stamp(read, options.get("tosa_version", ""))
    graph = rename(graph, options.get("input_names"), options.get("output_names"))
    if path is None:
        return writing.dumps(graph, file_format, written)
    writing.save(graph, path, file_format, written, progress)
    return None


@takes_keywords(ImportKeywords)
def import_tosa_func_from_flatbuffer(
    source: Source, *, context: Any = None, **options: Unpack[ImportKeywords]
) -> Any:
    """Read a TOSA flatbuffer, or its JSON, as an `ir.Module` with one function.

    Args:
        source: a path, or the bytes, as for `load`. A file is mapped and large constants share its
            pages: they take no memory until they are used, and the mapping lives as long as the context.
        context: as for `to_module`: by default the current context, else a new one.
        names: as for `to_module`.
        constants: as for `to_module`.
        accept_changed_weights: accept weights whose checksum is not the one in their manifest.
        copy: read files instead of mapping them.
        validate: as for `to_module`.
        limits: as for `load` and `save`.

    Returns:
        The `ir.Module`, which MLIR's verifier has accepted.

    Raises:
        TosaConvertError: what is wrong with the file, all findings at once; see `load` and `to_module`.

    Example:
        >>> import tosa_convert as tc
        >>> data = tc.dumps(tc.load("digits_cnn.tosa"))
        >>> module = tc.import_tosa_func_from_flatbuffer(data)
        >>> module.body.operations[0].name.value
        'digits_cnn'
    """
    from tosa_convert.formats import read as reading
    from tosa_convert.formats import write as writing

    refuse_unexpected(import_tosa_func_from_flatbuffer, options)
    # Names apply to the module that is built.
    read_options = replace(ReadOptions.of(options), names="retain")
    write_options = WriteOptions.of(options)
    context = _context(context)
    opened = reading.open_input(source, read_options)
    given = given_options(read_options) | given_options(write_options)
    refuse_inapplicable(given, opened.where, read_from=opened.format, written_as="module")
    return writing.to_module(reading.read(opened, read_options), context, write_options)


def _context(given: Any) -> Any:
    """Return the ir.Context to build in: that of the object given, the current one, or a new one."""
    from tosa_convert.formats.bindings.packages import context_of, current_context, default_bindings

    if given is not None:
        return context_of(given)
    current = current_context()
    return default_bindings().new_context() if current is None else current
