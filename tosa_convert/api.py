"""The public functions: load, save, export, import.

A Graph is the hub; this module alone knows which adapter reads and writes which format.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.files import PathLike, map_file, replace_file, same_file
from tosa_convert.formats import Format, of_path, sniff
from tosa_convert.version import PRODUCER

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph

Names = Literal["retain", "generate"]
#: "1.0" or "1.1" as asked for, or "" for the lowest that expresses the graph.
TosaVersion = Literal["", "1.0", "1.1"]
Weights = Literal["auto", "embedded", "offset"]

#: What --weights and weights= may be.
WEIGHTS: Final = ("auto", "embedded", "offset")


def load(
    source: PathLike | bytes | bytearray | memoryview,
    *,
    func: str | None = None,
    names: Names = "retain",
    bindings: str = "",
    full_paths: bool = False,
) -> Graph:
    """Read a program: a `.tosa` flatbuffer, MLIR text or MLIR bytecode, told apart by content.

    source: a path, or the bytes themselves. A file is mapped: constants are views of it.
    func, names, full_paths: see `export_tosa_func_to_flatbuffer`; for MLIR only.
    bindings: the package of MLIR bindings to use, else the first installed.

    Raises TosaConvertError: what is wrong with the input, every finding at once.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        data, where = memoryview(source).cast("B"), ""
    else:
        data, where = map_file(source), os.fspath(source)
    kind = sniff(data, where)
    if kind == "tosa":
        from tosa_convert.flatbuffer.read import read

        return read(data, where)
    if kind == "json":
        raise fail("unrecognised-input", where, "JSON is not read by this version")
    from tosa_convert.mlir.bindings import default_bindings
    from tosa_convert.mlir.parse import parse
    from tosa_convert.mlir.read import read as read_module

    chosen = default_bindings(bindings)
    module = parse(chosen, chosen.new_context(), data, where)
    return read_module(module, func=func, names=names, full_paths=full_paths)


def stamp(graph: Graph, tosa_version: str = "") -> Graph:
    """The same graph under the TOSA version asked for, or the lowest that expresses it.

    Raises TosaConvertError("version-too-low") with a finding for each operator and tensor.
    """
    from tosa_convert.graph.model import Graph as GraphClass
    from tosa_convert.graph.versions import BY_NAME, beyond, lowest_version

    if not tosa_version:
        version = lowest_version(graph)
    elif tosa_version in BY_NAME:
        version = BY_NAME[tosa_version]
        findings = list(beyond(graph, version))
        if findings:
            raise TosaConvertError(findings)
    else:
        raise fail(
            "option-conflict",
            "tosa_version",
            f"found {tosa_version!r}, expected one of {', '.join(BY_NAME)}",
        )
    return GraphClass(version, graph.regions, graph.producer)


def encode(graph: Graph, *, weights: Weights = "auto") -> Iterator[Any]:
    """The pieces of a `.tosa` file for a graph, in order; constants are views of their buffers."""
    from tosa_convert.flatbuffer.write import plan
    from tosa_convert.graph.verify import verify

    if weights not in WEIGHTS:
        raise fail(
            "option-conflict", "weights", f"found {weights!r}, expected one of {', '.join(WEIGHTS)}"
        )
    findings = verify(graph)
    if findings:
        raise TosaConvertError(findings)
    out_of_line = {"auto": None, "embedded": False, "offset": True}[weights]
    return plan(graph, PRODUCER, out_of_line=out_of_line).pieces()


def save(
    graph: Graph,
    path: PathLike,
    *,
    weights: Weights = "auto",
    names: Names = "retain",
    bindings: str = "",
) -> None:
    """Write a graph to `path`; the extension says in which format. The file is replaced whole.

    weights: "embedded" in the flatbuffer, "offset" behind it, or "auto": behind it only where it
        would otherwise pass 2 GiB.
    names, bindings: see `import_tosa_func_from_flatbuffer`; for MLIR only.
    Raises TosaConvertError; nothing is left behind then.
    """
    kind = of_path(path)
    replace_file(path, render(graph, kind, weights=weights, names=names, bindings=bindings))


def render(
    graph: Graph,
    kind: Format,
    *,
    weights: Weights = "auto",
    names: Names = "retain",
    bindings: str = "",
) -> Iterator[Any]:
    """The pieces of a file of the given format."""
    if kind == "tosa":
        return encode(graph, weights=weights)
    if kind == "json":
        raise fail("unknown-format", "", "JSON is not written by this version")
    from tosa_convert.mlir.bindings import default_bindings
    from tosa_convert.mlir.parse import dump
    from tosa_convert.mlir.write import write

    chosen = default_bindings(bindings)
    module = write(graph, chosen, chosen.new_context(), names=names)
    return dump(module, binary=kind == "mlirbc")


@overload
def export_tosa_func_to_flatbuffer(
    module_or_func: Any,
    path: None = None,
    *,
    func: str | None = None,
    names: Names = "retain",
    tosa_version: TosaVersion = "",
    weights: Weights = "auto",
    full_paths: bool = False,
) -> bytes: ...
@overload
def export_tosa_func_to_flatbuffer(
    module_or_func: Any,
    path: PathLike,
    *,
    func: str | None = None,
    names: Names = "retain",
    tosa_version: TosaVersion = "",
    weights: Weights = "auto",
    full_paths: bool = False,
) -> None: ...
def export_tosa_func_to_flatbuffer(
    module_or_func: Any,
    path: PathLike | None = None,
    *,
    func: str | None = None,
    names: Names = "retain",
    tosa_version: TosaVersion = "",
    weights: Weights = "auto",
    full_paths: bool = False,
) -> bytes | None:
    """Write a function of an MLIR module as a TOSA flatbuffer; the bytes, or to `path`.

    module_or_func: a module, a func.func or an operation of any MLIR Python bindings. It is not
        changed, and nothing in it is kept alive afterwards.
    func: which function, needed where the module has several with a body.
    names: "retain" keeps names that the module carries as tosa.tensor_name and generates the rest;
        "generate" generates all, as tosa-opt does.
    tosa_version: "1.0" or "1.1"; by default the lowest that expresses the function.
    weights: "embedded" in the flatbuffer, "offset" behind it, or "auto": behind it only where it
        would otherwise pass 2 GiB.
    full_paths: keep the folders of file names in locations; by default only the last component is
        kept, so that the bytes do not depend on where the module was made.

    Raises TosaConvertError with every finding at once: operators of other dialects, types that TOSA
    does not have, values that do not fit. Nothing is narrowed, dropped or left behind.
    """
    from tosa_convert.mlir.read import read

    graph = read(module_or_func, func=func, names=names, full_paths=full_paths)
    pieces = encode(stamp(graph, tosa_version), weights=weights)
    if path is None:
        return b"".join(pieces)
    replace_file(path, pieces)
    return None


def import_tosa_func_from_flatbuffer(
    source: PathLike | bytes | bytearray | memoryview,
    *,
    context: Any = None,
    names: Names = "retain",
    constants: Literal["auto", "dense", "resource"] = "auto",
) -> Any:
    """Read a TOSA flatbuffer as an `ir.Module` with one function.

    source: a path, or the bytes. A file is mapped and large constants share its pages: they take no
        memory until they are touched, and the mapping lives as long as the context.
    context: an ir.Context (or anything that belongs to one); the module is built in its bindings.
        By default a new context of the first bindings installed: torch_mlir, mlir, iree.compiler.
    names: "retain" keeps names that would not be generated anyway, as tosa.tensor_name attributes;
        "generate" keeps those of arguments and results only.
    constants: "auto", or all as "dense" attributes, or all that can be as "resource".

    Raises TosaConvertError: what is wrong with the file, every finding at once.
    """
    from tosa_convert.mlir.bindings import bindings_of, default_bindings
    from tosa_convert.mlir.write import write

    graph = load(source)
    if context is None:
        bindings = default_bindings()
        context = bindings.new_context()
    else:
        bindings = bindings_of(context)
        context = getattr(context, "context", context)
    return write(graph, bindings, context, names=names, constants=constants)


def refuse_same_file(source: PathLike, target: PathLike) -> None:
    """Raise TosaConvertError("would-overwrite-input") if both are one file."""
    if same_file(source, target):
        raise fail(
            "would-overwrite-input",
            os.fspath(target),
            "the output is the input file",
            "choose another name for the output",
        )
