"""The public functions: load, save, dumps, export, import, and conversion from and to modules.

They take keyword arguments, make values of `options` of them at once, and hand these down to `reading`
and `writing`, which know the adapters.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tosa_convert.errors import refuse_unknown
from tosa_convert.formats.read import Source, form_of_weights, weights_folder
from tosa_convert.formats.write import AnyPath, encode, producer, stamp
from tosa_convert.io.files import PathLike, Progress, refuse_same_file
from tosa_convert.io.formats import FORMATS, Format, of_path
from tosa_convert.io.keywords import ReadKeywords, WriteKeywords, refuse_unexpected, takes_keywords
from tosa_convert.io.option_table import refuse_inapplicable
from tosa_convert.io.options import (
    WEIGHT_FORMS,
    LimitsLike,
    ReadOptions,
    WeightForm,
    WriteOptions,
    given_options,
    limits_of,
)
from tosa_convert.module_api import (
    export_tosa_func_to_flatbuffer,
    from_module,
    import_tosa_func_from_flatbuffer,
    to_module,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tosa_convert.graph.model import Graph

__all__ = [
    "dumps",
    "encode",
    "export_tosa_func_to_flatbuffer",
    "export_weights",
    "from_module",
    "import_tosa_func_from_flatbuffer",
    "import_weights",
    "load",
    "producer",
    "refuse_same_file",
    "render",
    "save",
    "stamp",
    "strip_weights",
    "to_module",
    "weights_folder",
]


@takes_keywords(ReadKeywords)
def load(source: Source, **options: Unpack[ReadKeywords]) -> Graph:
    """Read a program: a `.tosa` flatbuffer, its JSON, MLIR text or MLIR bytecode, by its content.

    An option that has no effect on the input's format is refused; see `io.applicable_options`.

    Args:
        source: a path; or the bytes of a file, as any object with a buffer (bytes, memoryview, mmap, a
            numpy array) or an open binary file, which is read from its current position. A file is
            mapped, and constants are views of the mapping. Weights in a folder beside a file
            (`m.weights/` of `m.tosa` or `m.json`) are loaded with it.
        func: MLIR: the function to read, needed where a module has several with a body.
        names: MLIR: "retain" keeps the names that the module carries and generates the others;
            "generate" generates all, as tosa-opt does.
        dialect: MLIR text and bytecode: the month of the program's TOSA dialect, such as "2022-06". It
            decides what the program itself leaves open: the sign of `out_pad`, the names of the strings
            of a custom operator in bytecode, and booleans in hexadecimal. "" takes what it shows.
        full_paths: MLIR: keep the folders of file names in locations, instead of the last component.
        narrow: MLIR: element types to convert, "i64" to i32, "f64" to f32, "f32" to f16, and "quant",
            quantised types (`!quant.uniform`), to the integers that they are stored as: a collection, or
            one text with commas. Every tensor that is narrowed is logged.
        pass_captured: MLIR: pass the values that a region uses from outside as operands of its
            control-flow operator, and copy constants into the region, instead of refusing them. What is
            passed and copied is logged.
        input_shapes: argument -> its sizes in elements, for arguments with dynamic dimensions; an
            argument goes by its name or its position (`arg0`). All other shapes are inferred. A size may
            be a symbol, which has one value wherever it occurs and may have an entry of its own:
            `{"x": ("B", 3), "y": ("B", 4), "B": (8,)}`; "?" and a symbol without a value stay open. What
            stays dynamic is logged with the reason.
        custom: the meaning of CUSTOM operators, for shapes and for what runs the graph: a Python file or
            an extension that defines a list `CUSTOM` of `tosa_convert.Custom`, such a value, or several.
        accept_changed_weights: `.tosa` and JSON: accept `.npy` weights whose checksum is not the one in
            their manifest.
        copy: read files instead of mapping them, and copy buffers. A mapped file must not be changed in
            place while the graph is used; replacing it by a rename, as `save` does, is safe.
        limits: bounds on the resources that the input may use: a `Limits`, or a mapping such as
            `{"input-bytes": 1 << 20}`. The others keep their defaults.

    Returns:
        The program. Its version is the one in a flatbuffer, the one that an MLIR module is for, or the
        lowest that expresses the module.

    Raises:
        TypeError: the source is neither a path nor an object with bytes.
        TosaConvertError: what is wrong with the input, all findings at once: for example "file-error",
            "unrecognised-input", "malformed-flatbuffer", "malformed-json", "malformed-mlir",
            "foreign-operator", "too-large"; "option-conflict" for options that do not apply.

    Example:
        >>> import tosa_convert as tc
        >>> graph = tc.load("digits_cnn.tosa")
        >>> len(graph.main.inputs)
        1
    """
    from tosa_convert.formats.read import load as load_with

    refuse_unexpected(load, options)
    return load_with(source, ReadOptions.of(options))


@takes_keywords(WriteKeywords)
def save(
    graph: Graph,
    path: AnyPath,
    *,
    to: Format | None = None,
    progress: Progress | None = None,
    **options: Unpack[WriteKeywords],
) -> None:
    """Write a graph to a file, which is replaced as a whole: after a failure the old file is unchanged.

    Args:
        graph: the program.
        path: the file; its extension says the format.
        to: the format ("tosa", "json", "mlir" or "mlirbc") instead of the one of the extension.
        weights: where constants are stored. "embedded": in the file. "offset": after the flatbuffer, in
            the same file. "npy": each in a `.npy` in a folder beside the file. "safetensors", "irpa": in
            a file of this format beside it. "auto": embedded, except
            that the constants of a flatbuffer of 2 GiB or more are stored after it, and those of JSON
            beside it if they have more than 1 MiB.
        names: MLIR: "retain" keeps names that reading would not generate, as discardable attributes;
            "generate" keeps those of arguments and results only.
        bytecode_version: MLIR bytecode: the version of the format, 0 to 6. Every MLIR that reads
            bytecode reads version 1. In versions 5 and 6 attributes have no names, so an MLIR whose
            operators have other attributes cannot read them.
        dialect: MLIR text and bytecode: a month such as "2023-02". The program is written in the form
            that the TOSA dialect had then, in generic form or in version 0 or 1 of bytecode; what had no
            form then is refused. "" is today. `.tosa`: "0.80", the only older version that is written.
        function_op: MLIR text and bytecode: the operation that holds the program: "func.func",
            "ml_program.func", with globals of ml_program as variables, or "ml_program.subgraph", whose
            operations have no order, so that a program with variables is refused.
        generic: MLIR text: print every operation in MLIR's generic form, which every MLIR with the same
            operators parses, instead of the form that tosa-opt and torch-mlir print.
        locations: MLIR text: print the locations of operators.
        elide: MLIR text: leave out constants of more elements than this, unless one value stands for
            all. Such a text is for people: it cannot be read back.
        verify: read the result back and compare it bit for bit before the file is replaced.
        validate: `.tosa` and MLIR: refuse a program that TOSA forbids, with the findings of `validate`.
            JSON is written for any program that `verify` accepts.
        progress: called with the number of bytes written so far, every 16 MiB at most.
        limits: as for `load`: bounds the nesting of locations in MLIR, and what `verify` reads.

    Raises:
        TosaConvertError: what is wrong with the graph, all findings at once, such as
            "invalid-operator" for what TOSA forbids; "unknown-format", "option-conflict",
            "too-large", "file-error" or "verification-failed".

    Example:
        >>> import tosa_convert as tc, os, tempfile
        >>> graph = tc.load("digits_cnn.tosa")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tc.save(graph, os.path.join(folder, "digits.json"), verify=True)
        ...     sorted(os.listdir(folder))
        ['digits.json']
    """
    from tosa_convert.formats.write import save as save_with

    refuse_unexpected(save, options)
    path = os.fsdecode(path)
    if to is not None:
        refuse_unknown("to", to, FORMATS)
    file_format = to or of_path(path)
    written = WriteOptions.of(options)
    refuse_inapplicable(given_options(written), path, read_from="graph", written_as=file_format)
    save_with(graph, path, file_format, written, progress)


@takes_keywords(WriteKeywords)
def dumps(
    graph: Graph,
    format: Format = "tosa",  # noqa: A002
    **options: Unpack[WriteKeywords],
) -> bytes:
    """Return the content of a file of the given format, as bytes.

    Args:
        graph: the program.
        format: "tosa", "json", "mlir" or "mlirbc".
        weights: "embedded", or "offset" to store constants after a flatbuffer; "auto" as for `save`.
        names: MLIR: as for `save`.
        bytecode_version: MLIR bytecode: as for `save`.
        dialect: MLIR and `.tosa`: as for `save`.
        function_op: MLIR text and bytecode: as for `save`.
        generic: MLIR text: as for `save`; so are locations and elide.
        locations: MLIR text: as for `save`.
        elide: MLIR text: as for `save`.
        verify: read the result back and compare it bit for bit.
        validate: as for `save`.
        limits: as for `save`.

    Returns:
        The bytes, which `load` reads.

    Raises:
        TosaConvertError: as for `save`; "option-conflict" also for weights that would be stored beside
            the file.

    Example:
        >>> import tosa_convert as tc
        >>> data = tc.dumps(tc.load("digits_cnn.tosa"))
        >>> data[4:8]
        b'TOSA'
    """
    from tosa_convert.formats.write import dumps as dumps_with

    refuse_unexpected(dumps, options)
    refuse_unknown("format", format, FORMATS)
    written = WriteOptions.of(options)
    refuse_inapplicable(given_options(written), "", read_from="graph", written_as=format)
    return dumps_with(graph, format, written)


@takes_keywords(WriteKeywords)
def render(graph: Graph, file_format: Format, **options: Unpack[WriteKeywords]) -> Iterable[Any]:
    """Return the content of a file as `dumps` does, but in pieces.

    Constants are views of their buffers. The program is not validated.
    """
    from tosa_convert.formats.write import render as render_with

    refuse_unexpected(render, options)
    return render_with(graph, file_format, WriteOptions.of({**options, "validate": False}))


def export_weights(
    graph: Graph, folder: PathLike, *, to: WeightForm | None = None, larger_than: int = 0
) -> int:
    """Write a graph's constants into a folder, a `.npy` for each, or into one file.

    Args:
        graph: the program.
        folder: the folder, which is replaced as a whole; it may only hold files of an earlier export. Or
            the file, which is replaced.
        to: "npy" for a folder; "safetensors" or "irpa", IREE's format, for a file. By default what the
            extension says: `.safetensors`, `.irpa`, and a folder for any other.
        larger_than: constants of at most so many bytes are left out.

    Returns:
        The number of constants written.

    Raises:
        TosaConvertError: what is wrong with the graph; "foreign-folder" or "file-error".

    Example:
        >>> import tosa_convert as tc, os, tempfile
        >>> graph = tc.load("digits_cnn.tosa")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     count = tc.export_weights(graph, os.path.join(folder, "digits.weights"))
        ...     count == len(list(graph.constants()))
        True
    """
    from tosa_convert.formats.write import export_weights as export_sound
    from tosa_convert.graph.verify import refuse_unsound

    refuse_unsound(graph)
    if to is not None:
        refuse_unknown("to", to, WEIGHT_FORMS)
    form = to or form_of_weights(folder)
    return export_sound(graph, folder, form=form, larger_than=larger_than)


def import_weights(
    graph: Graph,
    folder: PathLike,
    *,
    accept_changed_weights: bool = False,
    limits: LimitsLike = None,
) -> Graph:
    """Return the graph with the constants of a folder or a file in place of its own.

    Shapes and types must agree.

    Args:
        graph: the program, which is not changed.
        folder: what `export_weights` wrote, perhaps with edited arrays; or a safetensors, `.irpa` or
            GGUF file of another program, whose arrays have the names of the tensors.
        accept_changed_weights: accept arrays whose checksum is not the one in the manifest.
        limits: as for `load`; `manifest_bytes` applies.

    Returns:
        A graph whose constants are views of the mapped files where that is possible.

    Raises:
        TosaConvertError: "malformed-weights", "mismatched-weights", "changed-weights", "missing-data",
            "unsafe-path" or "file-error".

    Example:
        >>> import tosa_convert as tc, os, tempfile
        >>> graph = tc.load("digits_cnn.tosa")
        >>> with tempfile.TemporaryDirectory() as parent:
        ...     folder = os.path.join(parent, "digits.weights")
        ...     count = tc.export_weights(graph, folder)
        ...     print(tc.compare(graph, tc.import_weights(tc.strip_weights(graph), folder)))
        None
    """
    from tosa_convert.formats.weights.read import read

    return read(graph, folder, accept_changed=accept_changed_weights, limits=limits_of(limits))


def strip_weights(graph: Graph, *, keep_parameters: bool = True) -> Graph:
    """Return the graph with zeros for weights. Names and locations stay.

    Args:
        graph: the program, which is not changed.
        keep_parameters: keep zero points, shifts, multipliers, slice bounds and padding values.

    Returns:
        A graph with the same operators, names and shapes.

    Example:
        >>> import tosa_convert as tc
        >>> stripped = tc.strip_weights(tc.load("digits_cnn.tosa"))
        >>> bool(stripped.main.tensors["layer_8"].data.numpy().any())
        False
    """
    from tosa_convert.formats.weights.write import strip

    return strip(graph, keep_parameters=keep_parameters)
