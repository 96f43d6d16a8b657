"""The public functions: load, save, export, import.

A Graph is the hub; this module alone knows which adapter reads and writes which format.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.files import PathLike, Pieces, Progress, map_file, replace_file, same_file
from tosa_convert.formats import WEIGHTS, Format, Weights, of_path, sniff
from tosa_convert.gc_pause import garbage_collection_paused
from tosa_convert.version import __version__

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph, SoftwareVersion
    from tosa_convert.mlir.bytecode.detached import DetachedWeights

Names = Literal["retain", "generate"]
#: "1.0" or "1.1" as asked for, or "" for the one the input has or needs.
TosaVersion = Literal["", "1.0", "1.1"]
Source = PathLike | bytes | bytearray | memoryview

#: Constants that together take more than this many bytes are not written as JSON text unless asked
#: for: each byte becomes up to 20.
JSON_INLINE_BYTES: Final = 1 << 20
#: The release of tosa-tools whose schema ours equals; a test compares them.
SCHEMA_RELEASE: Final = (2026, 8, 0)
#: Constants of at most this many bytes stay in the file when weights go beside it.
SMALL_BYTES: Final = 1 << 10


#: Bytes of an input; more are refused.
MAX_INPUT_BYTES: Final = sys.maxsize

#: Entered with an input's name before MLIR is loaded to read it, and left when it was read. The command
#: line puts a process in between here.
around_mlir: Callable[[str], AbstractContextManager[object]] = nullcontext


def producer() -> SoftwareVersion:
    """What this program stamps into the files it writes.

    Readers take the numbers for the release of the schema that the writer followed, and warn of
    releases older than their own; so the numbers are that, and the modifier says who wrote the file.
    """
    from tosa_convert.graph.model import SoftwareVersion

    return SoftwareVersion(*SCHEMA_RELEASE, f"tosa-convert {__version__}")


def load(
    source: Source,
    *,
    func: str | None = None,
    names: Names = "retain",
    bindings: str = "",
    full_paths: bool = False,
    narrow: Collection[str] = (),
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    accept_changed_weights: bool = False,
    context: Any = None,
    isolate: bool = False,
) -> Graph:
    """Read a program: a `.tosa` flatbuffer, its JSON, MLIR text or bytecode, told apart by content.

    source: a path, or the bytes themselves. A file is mapped: constants are views of it. Weights in a
        folder beside a file (`m.weights/` of `m.tosa` or `m.json`) are found by themselves.
    func, names, full_paths, narrow: see `export_tosa_func_to_flatbuffer`; MLIR only.
    input_shapes: see there, too; of other formats as well, if there are MLIR bindings.
    bindings: the package of MLIR bindings to use, else the first installed.
    accept_changed_weights: take weights whose checksum is not the one in their manifest.
    context: an ir.Context to parse MLIR in, instead of a fresh one: making one takes longer than
        reading a small file. It keeps the attributes of all that was parsed in it.
    isolate: parse MLIR in a process of its own, which costs its start: MLIR's parser can crash on
        damaged bytecode, and takes this process with it otherwise.

    Raises TosaConvertError: what is wrong with the input, every finding at once.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        data, where = memoryview(source).cast("B"), ""
    else:
        data, where = map_file(source), os.fspath(source)
    if len(data) > MAX_INPUT_BYTES:
        raise fail(
            "too-large",
            where,
            f"the input has {len(data)} bytes, the limit is {MAX_INPUT_BYTES}",
            "--limit input-bytes=N allows more",
        )
    kind = sniff(data, where)
    graph: Graph | None = None
    with garbage_collection_paused():
        if kind == "tosa":
            from tosa_convert.flatbuffer.read import read

            graph = _with_weights(read(data, where), where, accept_changed_weights)
        elif kind == "json":
            from tosa_convert.jsontext.read import read as read_json

            graph = _with_weights(read_json(data, where), where, accept_changed_weights)
    if graph is not None:
        return _with_shapes(graph, input_shapes, bindings) if input_shapes else graph
    if isolate:
        from tosa_convert.isolation import load as load_isolated

        return load_isolated(
            data,
            where,
            func=func,
            names=names,
            bindings=bindings,
            full_paths=full_paths,
            narrow=list(narrow),
            input_shapes=dict(input_shapes or {}),
        )
    with around_mlir(where):
        from tosa_convert.bindings.packages import bindings_of, default_bindings
        from tosa_convert.bindings.parse import parse
        from tosa_convert.bindings.source_text import quoting

        if context is None:
            context = default_bindings(bindings).new_context()
        module, apart = parse(bindings_of(context), context, data, where)
        with quoting(data, where):
            return read_module(
                module,
                func=func,
                names=names,
                full_paths=full_paths,
                narrow=narrow,
                input_shapes=input_shapes,
                verified=True,
                apart=apart,
            )


def _with_shapes(graph: Graph, shapes: Mapping[str, tuple[int, ...]], bindings: str) -> Graph:
    """The graph of a file with sizes for its arguments. MLIR infers the rest, so it takes a module."""
    from tosa_convert.bindings.packages import default_bindings
    from tosa_convert.bindings.write import write

    found = default_bindings(bindings)
    return read_module(write(graph, found, found.new_context()), input_shapes=shapes)


def _with_weights(graph: Graph, path: str, accept_changed: bool) -> Graph:
    """The graph with the weights that lie in a folder beside its file, if one does."""
    if not path:
        return graph
    folder = weights_folder(path)
    if not folder.is_dir() or not _lacks_data(graph):
        return graph
    from tosa_convert.weights.read import read

    return read(graph, folder, accept_changed=accept_changed)


def _lacks_data(graph: Graph) -> bool:
    return any(
        name in block.tensors
        and (block.tensors[name].data is None or _lacks_scales(block.tensors[name]))
        for _, block in graph.blocks()
        for name in (
            *(name for op in block.operators if not op.spec.operands for name in op.outputs),
            *(tensor.name for tensor in block.tensors.values() if tensor.variable),
        )
    )


def _lacks_scales(tensor: Any) -> bool:
    return tensor.scale is not None and tensor.scale.data is None


def weights_folder(path: PathLike) -> Path:
    """The folder for the weights of a file: `m.weights` beside `m.tosa`."""
    return Path(path).with_suffix(".weights")


def export_weights(graph: Graph, folder: PathLike, *, larger_than: int = 0) -> int:
    """Write the constants of more than `larger_than` bytes into a folder; returns how many."""
    from tosa_convert.weights.write import write

    _check(graph)
    left = write(graph, folder, larger_than=larger_than, producer=producer())
    return sum(1 for _ in graph.constants()) - sum(1 for _ in left.constants())


def import_weights(
    graph: Graph, folder: PathLike, *, accept_changed_weights: bool = False
) -> Graph:
    """The graph with the constants of a folder in place of its own; shapes and types must agree."""
    from tosa_convert.weights.read import read

    return read(graph, folder, accept_changed=accept_changed_weights)


def strip_weights(graph: Graph, *, keep_small: bool = True) -> Graph:
    """The graph with zeros for weights; constants of a few elements stay unless not `keep_small`."""
    from tosa_convert.weights.strip import strip

    return strip(graph, keep_parameters=keep_small)


def read_module(
    module_or_func: Any,
    *,
    func: str | None = None,
    names: Names = "retain",
    full_paths: bool = False,
    narrow: Collection[str] = (),
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    verified: bool = False,
    apart: DetachedWeights | None = None,
) -> Graph:
    """The graph of a function of an MLIR module; see `export_tosa_func_to_flatbuffer`.

    verified: the module comes straight from MLIR's parser, which runs MLIR's verifier.
    apart: weights that MLIR did not get to read.
    """
    from tosa_convert.bindings.read import read

    if input_shapes:
        from tosa_convert.bindings.infer_shapes import resolve

        module_or_func, func = resolve(module_or_func, input_shapes, func=func)
        verified = False
    with garbage_collection_paused():
        graph = read(
            module_or_func,
            func=func,
            names=names,
            full_paths=full_paths,
            narrow=narrow,
            verified=verified,
            weights=apart or {},
        )
    if input_shapes:
        from tosa_convert.graph.static_shapes import log_dynamic_tensors, make_reshapes_static

        make_reshapes_static(graph)
        log_dynamic_tensors(graph)
    return graph


def stamp(graph: Graph, tosa_version: str = "") -> Graph:
    """The same graph under the TOSA version asked for, or the one it already has.

    Raises TosaConvertError("version-too-low") with a finding for each operator and tensor that the
    version cannot express.
    """
    from tosa_convert.graph.model import Graph as GraphClass
    from tosa_convert.graph.versions import BY_NAME, version_findings

    if tosa_version and tosa_version not in BY_NAME:
        raise fail(
            "option-conflict",
            "tosa_version",
            f"found {tosa_version!r}, expected one of {', '.join(BY_NAME)}",
        )
    version = BY_NAME[tosa_version] if tosa_version else graph.version
    findings = list(version_findings(graph, version))
    if findings:
        raise TosaConvertError(findings)
    return GraphClass(version, graph.regions, graph.producer)


def _check(graph: Graph) -> None:
    from tosa_convert.graph.verify import verify

    findings = verify(graph)
    if findings:
        raise TosaConvertError(findings)


def encode(graph: Graph, *, weights: Weights = "auto") -> Iterator[Any]:
    """The pieces of a `.tosa` file for a graph, in order; constants are views of their buffers.

    Raises TosaConvertError if the graph is not sound or does not fit.
    """
    from tosa_convert.flatbuffer.write import plan

    out_of_line = {"auto": None, "embedded": False, "offset": True, "npy": None}[weights]
    with garbage_collection_paused():
        return plan(graph, producer(), out_of_line=out_of_line).pieces()


def save(
    graph: Graph,
    path: PathLike,
    *,
    to: Format | None = None,
    weights: Weights = "auto",
    names: Names = "retain",
    bindings: str = "",
    verify: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write a graph to `path`; the extension, or `to`, says in which format. It is replaced whole.

    weights: "embedded" in the file; "offset" behind the flatbuffer; "npy" in a folder beside the
        file, a `.npy` for each constant; "auto": embedded, but behind the flatbuffer where it would
        pass 2 GiB, and beside JSON where they take more than 1 MiB.
    names, bindings: see `import_tosa_func_from_flatbuffer`; for MLIR only.
    verify: read the result back and compare it bit for bit before it takes its place.
    progress: called with the bytes written so far, every 16 MiB at most.

    Raises TosaConvertError; nothing is left behind then.
    """
    kind = to or of_path(path)
    beside = _beside(graph, kind, weights)
    written = graph
    if beside is not None:
        from tosa_convert.weights.write import without

        _check(graph)
        written = without(graph, larger_than=beside)
    pieces = render(
        written,
        kind,
        weights=weights,
        names=names,
        bindings=bindings,
        checked=beside is not None,
    )

    def finish(new: Path) -> None:
        # The weights follow once the new file is complete, and right before it takes its place.
        if beside is not None:
            export_weights(graph, weights_folder(path), larger_than=beside)
        if verify:
            _read_back(graph, new, path, kind, names, bindings)

    replace_file(path, pieces, finish if verify or beside is not None else None, progress)


def _read_back(
    graph: Graph, new: Path, path: PathLike, kind: Format, names: Names, bindings: str
) -> None:
    """Raise TosaConvertError("verification-failed") if the new file is not what was meant."""
    from tosa_convert.graph.compare import compare

    found = load(map_file(new), names=names, bindings=bindings)
    found = _with_weights(found, os.fspath(path), accept_changed=False)
    difference = compare(graph, found, names=names == "retain" or kind in ("tosa", "json"))
    if difference is not None:
        raise fail(
            "verification-failed",
            os.fspath(path),
            f"what was written reads back differently: {difference}",
            "nothing was put in place; this is a defect of the converter, please report it",
        )


def _beside(graph: Graph, kind: Format, weights: Weights) -> int | None:
    """Constants larger than this many bytes go into a folder beside the file; None: none do."""
    if weights not in WEIGHTS:
        raise fail(
            "option-conflict", "weights", f"found {weights!r}, expected one of {', '.join(WEIGHTS)}"
        )
    if kind not in ("tosa", "json"):
        if weights not in ("auto", "embedded"):
            raise fail(
                "option-conflict",
                "weights",
                f'weights="{weights}" and {kind}: MLIR keeps its constants inside',
                "leave the option out",
            )
        return None
    if kind == "json" and weights == "offset":
        raise fail(
            "option-conflict",
            "weights",
            'weights="offset" and json: there is no place behind JSON text',
            'use "npy" or "embedded"',
        )
    if weights == "npy":
        return 0
    if kind == "json" and weights == "auto":
        total = sum(constant.nbytes for _, constant in graph.constants())
        return SMALL_BYTES if total > JSON_INLINE_BYTES else None
    return None


def render(
    graph: Graph,
    kind: Format,
    *,
    weights: Weights = "auto",
    names: Names = "retain",
    bindings: str = "",
    checked: bool = False,
) -> Pieces:
    """The content of a file of the given format, all of it in one file.

    checked: the graph was verified, and may lack data that lies beside the file.
    """
    if not checked:
        if _beside(graph, kind, weights) is not None:
            raise fail(
                "option-conflict",
                "weights",
                "the weights would go into a folder beside the file, and there is no file",
                "give the output a name, or use weights='embedded'",
            )
        _check(graph)
    if kind == "tosa":
        return encode(graph, weights=weights)
    if kind == "json":
        from tosa_convert.jsontext.write import write as write_json

        return write_json(graph, producer())
    from tosa_convert.bindings.packages import default_bindings
    from tosa_convert.bindings.parse import dump
    from tosa_convert.bindings.write import write

    chosen = default_bindings(bindings)
    with garbage_collection_paused():
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
    to: Literal["tosa", "json"] | None = None,
    weights: Weights = "auto",
    full_paths: bool = False,
    narrow: Collection[str] = (),
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    verify: bool = False,
    progress: Progress | None = None,
) -> bytes: ...
@overload
def export_tosa_func_to_flatbuffer(
    module_or_func: Any,
    path: PathLike,
    *,
    func: str | None = None,
    names: Names = "retain",
    tosa_version: TosaVersion = "",
    to: Literal["tosa", "json"] | None = None,
    weights: Weights = "auto",
    full_paths: bool = False,
    narrow: Collection[str] = (),
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    verify: bool = False,
    progress: Progress | None = None,
) -> None: ...
def export_tosa_func_to_flatbuffer(
    module_or_func: Any,
    path: PathLike | None = None,
    *,
    func: str | None = None,
    names: Names = "retain",
    tosa_version: TosaVersion = "",
    to: Literal["tosa", "json"] | None = None,
    weights: Weights = "auto",
    full_paths: bool = False,
    narrow: Collection[str] = (),
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    verify: bool = False,
    progress: Progress | None = None,
) -> bytes | None:
    """Write a function of an MLIR module as a TOSA flatbuffer; the bytes, or to `path`.

    module_or_func: a module, a func.func or an operation of any MLIR Python bindings. It is not
        changed, and nothing in it is kept alive afterwards.
    path: a `.tosa` file, or a `.json` file for the same as text; `to` overrules the extension.
    func: which function, needed where the module has several with a body.
    names: "retain" keeps the names the module carries and generates the rest; "generate" generates
        all, and writes what tosa-opt writes.
    tosa_version: "1.0" or "1.1"; by default what the module's tosa.target_env says, else the lowest
        that expresses the function.
    weights: where constants go: see `save`.
    full_paths: keep the folders of file names in locations; by default only the last component is
        kept, so that the bytes do not depend on where the module was made.
    narrow: element types to convert, "i64" to i32 and "f64" to f32; the tensors are logged.
    input_shapes: argument -> its sizes, for arguments with dynamic dimensions; the rest follows by
        MLIR's shape inference, and what stays dynamic is logged with the reason.
    verify: read the result back and compare it bit for bit before it takes its place.
    progress: called with the bytes written so far, every 16 MiB at most; for files only.

    Raises TosaConvertError with every finding at once: operators of other dialects, types that TOSA
    does not have, values that do not fit. Nothing is narrowed, dropped or left behind.
    """
    graph = read_module(
        module_or_func,
        func=func,
        names=names,
        full_paths=full_paths,
        narrow=narrow,
        input_shapes=input_shapes,
    )
    graph = stamp(graph, tosa_version)
    if path is not None:
        save(
            graph,
            path,
            to=to or _flatbuffer_format(path),
            weights=weights,
            verify=verify,
            progress=progress,
        )
        return None
    pieces = render(graph, to or "tosa", weights=weights)
    # Joined at once, so that weights are copied once; only MLIR's printer calls back instead.
    assert not callable(pieces)
    data = b"".join(pieces)
    if verify:
        from tosa_convert.graph.compare import compare

        difference = compare(graph, load(data))
        if difference is not None:
            raise fail("verification-failed", "", f"it reads back differently: {difference}")
    return data


def _flatbuffer_format(path: PathLike) -> Format:
    """The format of a flatbuffer's file: JSON by its extension, else binary, whatever it is called."""
    return "json" if os.fspath(path).lower().endswith(".json") else "tosa"


def import_tosa_func_from_flatbuffer(
    source: Source,
    *,
    context: Any = None,
    names: Names = "retain",
    constants: Literal["auto", "dense", "resource"] = "auto",
    accept_changed_weights: bool = False,
) -> Any:
    """Read a TOSA flatbuffer, or its JSON, as an `ir.Module` with one function.

    source: a path, or the bytes. A file is mapped and large constants share its pages: they take no
        memory until they are touched, and the mapping lives as long as the context.
    context: an ir.Context (or anything that belongs to one); the module is built in its bindings.
        By default a new context of the first bindings installed: torch_mlir, mlir, iree.compiler.
    names: "retain" keeps names that would not be generated anyway, as discardable attributes;
        "generate" keeps those of arguments and results only.
    constants: "auto", or all as "dense" attributes, or all that can be as "resource".
    accept_changed_weights: take weights whose checksum is not the one in their manifest.

    Raises TosaConvertError: what is wrong with the file, every finding at once.
    """
    from tosa_convert.bindings.packages import bindings_of, context_of, default_bindings
    from tosa_convert.bindings.write import write

    if context is None:
        bindings = default_bindings()
        context = bindings.new_context()
    else:
        bindings = bindings_of(context)
        context = context_of(context)
    graph = load(source, accept_changed_weights=accept_changed_weights)
    with garbage_collection_paused():
        return write(graph, bindings, context, names=names, constants=constants)


def new_context(bindings: str = "") -> Any:
    """An MLIR context of the bindings called `bindings`, or of the first installed."""
    from tosa_convert.bindings.packages import default_bindings

    return default_bindings(bindings).new_context()


def refuse_same_file(source: PathLike, target: PathLike) -> None:
    """Raise TosaConvertError("would-overwrite-input") if both are one file."""
    if same_file(source, target):
        raise fail(
            "would-overwrite-input",
            os.fspath(target),
            "the output is the input file",
            "choose another name for the output",
        )
