"""A program of any format -> Graph. Each input is opened once, and its format is determined once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, get_args

from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.io import log
from tosa_convert.io.files import map_file, read_at_most, too_large
from tosa_convert.io.formats import FORMATS, MLIR_FORMATS, READ_ONLY, WEIGHT_FILES, Format, sniff
from tosa_convert.io.garbage_collection import garbage_collection_paused
from tosa_convert.io.option_table import refuse_inapplicable
from tosa_convert.io.options import WEIGHT_FORMS, ReadOptions, WeightForm, given_options

if TYPE_CHECKING:
    from tosa_convert.eras.editor import Upgrade
    from tosa_convert.formats.flatbuffer.annotate import Annotation as Annotation
    from tosa_convert.formats.mlir.read.scope import Narrowing as Narrowing
    from tosa_convert.graph.constant import Constant
    from tosa_convert.graph.dtypes import DType
    from tosa_convert.graph.model import Graph, Tensor

#: Where a constant is stored.
StoredForm = Literal["embedded", "offset", "npy", "safetensors", "irpa"]
STORED_FORMS: Final[tuple[StoredForm, ...]] = get_args(StoredForm)


class Buffer(Protocol):
    """Any object with bytes: bytes, bytearray, memoryview, mmap, array, a numpy array."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


class Array(Protocol):
    """A numpy array. Before Python 3.12 type checkers do not know that it has a buffer."""

    @property
    def data(self) -> memoryview: ...


class BinaryFile(Protocol):
    """Any object whose `read` returns bytes: io.BytesIO, a file opened in binary mode."""

    def read(self, size: int, /) -> bytes: ...


#: The types of sources from which a program can be read.
Source = str | os.PathLike[str] | os.PathLike[bytes] | Buffer | Array | BinaryFile

_READ_OPTIONS: Final = ReadOptions()


class Input(NamedTuple):
    """An opened input.

    path: "" unless the bytes are those of a regular file. where: how messages name the input.
    """

    data: memoryview
    path: str
    where: str
    format: Format

    @property
    def is_mlir(self) -> bool:
        return self.format in MLIR_FORMATS


def open_input(source: Source, options: ReadOptions = _READ_OPTIONS, *, where: str = "") -> Input:
    """Open a source: return its bytes and their format."""
    path, limit = "", options.limits.input_bytes
    if isinstance(source, (str, os.PathLike)):
        name = os.fsdecode(source)
        data = map_file(name, copy=options.copy, limit=limit)
        path = name if os.path.isfile(name) else ""
        where = where or name
    else:
        name = getattr(source, "name", "")
        where = where or (name if isinstance(name, str) else "")
        data = _bytes_of(source, limit, where)
        if options.copy:
            data = memoryview(bytes(data))
    if len(data) > limit:
        raise too_large(where, len(data), limit)
    file_format = sniff(data, where)
    log.info("%s: %s by its content, %d bytes", where, FORMATS[file_format], len(data))
    return Input(data, path, where, file_format)


def _bytes_of(source: Any, limit: int, where: str) -> memoryview:
    """Return the bytes of a buffer, copied if strided, or of at most `limit` of a binary file."""
    try:
        view = memoryview(source)
    except TypeError:
        view = None
    if view is None:
        read = getattr(source, "read", None)
        if not callable(read):
            raise TypeError(
                f"found {type(source).__name__}, expected a path, bytes or an open binary file"
            )
        if isinstance(read(0), str):
            raise TypeError("the file is open in text mode, expected binary mode: open(path, 'rb')")
        view = read_at_most(source, limit, where)
    if view.format == "O":
        raise TypeError("found an array of Python objects, expected an array of bytes")
    # An array of no elements cannot be cast.
    if not view.c_contiguous or not view.nbytes:
        return memoryview(view.tobytes())
    return view.cast("B")


def load(source: Source, options: ReadOptions = _READ_OPTIONS) -> Graph:
    """Load as `api.load` does, with the options as one value."""
    opened = open_input(source, options)
    refuse_inapplicable(given_options(options), opened.where, read_from=opened.format)
    return read(opened, options)


def read(opened: Input, options: ReadOptions = _READ_OPTIONS) -> Graph:
    """Read the graph of an opened input, whose options apply to its format."""
    return _with_shapes(_read_file(opened, options), options, opened)


def read_narrowed(opened: Input, options: ReadOptions) -> tuple[Graph, Narrowing]:
    """Read the graph of an MLIR module, and what narrowing changed in it, which is not logged."""
    from tosa_convert.formats.mlir.read.scope import Narrowing

    narrowing = Narrowing(options.narrow)
    graph = _read_file(opened, options, narrowing=narrowing)
    return _with_shapes(graph, options, opened), narrowing


def read_upgraded(opened: Input, options: ReadOptions) -> tuple[Graph, Upgrade]:
    """Read the graph of an input as a program of an older TOSA. Also returns what was changed in it."""
    from tosa_convert.eras.editor import Upgrade

    upgrade = Upgrade(is_old=True)
    options = replace(options, pass_captured=opened.is_mlir)
    return _with_shapes(_read_file(opened, options, upgrade), options, opened), upgrade


def read_module(module_or_func: Any, options: ReadOptions = _READ_OPTIONS) -> Graph:
    from tosa_convert.formats.bindings.modules import read as read_function

    with garbage_collection_paused():
        return _with_shapes(read_function(module_or_func, options), options)


def _read_file(
    opened: Input,
    options: ReadOptions,
    upgrade: Upgrade | None = None,
    narrowing: Narrowing | None = None,
) -> Graph:
    """Read the graph of a file, with the weights of the folder beside a flatbuffer or its JSON."""
    with garbage_collection_paused():
        graph = _read_alone(opened, options, upgrade, narrowing)
        return with_weights(graph, opened.path, options)


def _read_alone(
    opened: Input,
    options: ReadOptions,
    upgrade: Upgrade | None = None,
    narrowing: Narrowing | None = None,
) -> Graph:
    """Read a graph without the weights of a folder. upgrade: notes changes; None logs a summary."""
    if opened.format == "mlir":
        from tosa_convert.formats.mlir.read.module import read_text

        return read_text(opened.data, opened.path, options, upgrade, narrowing)
    if opened.format == "mlirbc":
        from tosa_convert.formats.mlir.read.module import read_file

        return read_file(opened.data, opened.where, options, upgrade, narrowing)
    if opened.format == "tosa":
        from tosa_convert.formats.flatbuffer.read import read as read_flatbuffer

        return read_flatbuffer(opened.data, opened.where, options.limits, upgrade)
    if opened.format in ("vgf", "spv"):
        from tosa_convert.formats.vgf import read_vgf

        return read_vgf(opened.data, opened.where, options.func)
    if opened.format == "pte":
        from tosa_convert.formats.pte import vgf_payload
        from tosa_convert.formats.vgf import read_vgf

        return read_vgf(vgf_payload(opened.data, opened.where, options.func), opened.where)
    from tosa_convert.formats.json.read import read as read_json

    return read_json(opened.data, opened.where, limits=options.limits)


def quoted(findings: Iterable[Finding], opened: Input) -> tuple[Finding, ...]:
    """Return findings of an input's program that name its file, and quote its line of MLIR text."""
    from tosa_convert.remedies import with_file

    path = opened.path
    found = [replace(row, hint=with_file(row.hint, path) if path else row.hint) for row in findings]
    if opened.format != "mlir":
        return tuple(found)
    from tosa_convert.formats.mlir.text.parse.cursor import SourceText

    return SourceText(opened.data, path).of_operators(found)


@contextmanager
def quoting(opened: Input) -> Iterator[None]:
    """Let errors about an input's program that are raised inside name its file and quote its lines."""
    try:
        yield
    except TosaConvertError as error:
        raise TosaConvertError(quoted(error.findings, opened)) from None


class Storage(NamedTuple):
    """How many constants, and how many bytes of them, are stored in one form.

    form: "embedded" in the file, at an "offset" after the flatbuffer, or that of files beside it.
    """

    form: StoredForm
    constants: int
    nbytes: int


def read_with_storage(
    opened: Input, options: ReadOptions = _READ_OPTIONS, upgrade: Upgrade | None = None
) -> tuple[Graph, tuple[Storage, ...]]:
    """Read, to look only, with each form that constants are stored in. upgrade: notes changes."""
    if opened.is_mlir or opened.format in READ_ONLY:
        graph = _with_shapes(_read_file(opened, options, upgrade), options, opened)
        return graph, _storage(graph, lambda constant: "embedded")
    with garbage_collection_paused():
        alone = _read_alone(opened, options, upgrade)
        graph = with_weights(alone, opened.path, options, checked=False)
    inside = {id(constant) for _, constant in alone.constants()}
    after: set[int] = set()
    if opened.format == "tosa":
        from tosa_convert.formats.flatbuffer.read import addresses_of_data_after

        after = addresses_of_data_after(opened.data, options.limits)

    beside: StoredForm = next((form for form, _ in weights_beside(opened.path)), "npy")

    def form(constant: Constant) -> StoredForm:
        if id(constant) not in inside:
            return beside
        return "offset" if after and constant.address in after else "embedded"

    return _with_shapes(graph, options), _storage(graph, form)


def read_as_stored(
    opened: Input, options: ReadOptions = _READ_OPTIONS
) -> tuple[Graph, tuple[Storage, ...], bool]:
    """Read with storage; also say whether the file has the form of an older TOSA, without a log."""
    from tosa_convert.eras.editor import Upgrade

    upgrade = Upgrade()
    found = read_with_storage(opened, options, upgrade)
    return *found, upgrade.is_old or bool(upgrade)


def _storage(graph: Graph, form: Callable[[Constant], StoredForm]) -> tuple[Storage, ...]:
    sizes: dict[StoredForm, list[int]] = {}
    for _, constant in graph.constants():
        sizes.setdefault(form(constant), []).append(constant.nbytes)
    return tuple(
        Storage(name, len(sizes[name]), sum(sizes[name])) for name in STORED_FORMS if name in sizes
    )


def function_names(opened: Input) -> list[str]:
    """Return the names of a module's functions with a body, of graphs, or of payloads."""
    if opened.format in READ_ONLY:
        return programs(opened)[0]
    if not opened.is_mlir:
        return []
    from tosa_convert.formats.mlir.read.module import function_names as names_in

    return names_in(opened.data, is_text=opened.format == "mlir")


def programs(opened: Input) -> tuple[list[str], list[str]]:
    """Return the names of programs in a VGF file or an ExecuTorch program, and what else is there."""
    if opened.format in ("vgf", "spv"):
        from tosa_convert.formats.vgf import segments

        return segments(opened.data, opened.where)
    if opened.format == "pte":
        from tosa_convert.formats.pte import payloads

        return payloads(opened.data, opened.where)
    return [], []


def annotate(opened: Input) -> Annotation:
    """Describe each byte of a `.tosa` file with its field; the file may be damaged."""
    if opened.format != "tosa":
        message = (
            f"its bytes cannot be shown: it is {FORMATS[opened.format]}, not a TOSA flatbuffer"
        )
        raise fail("option-conflict", opened.where, message, "convert it to .tosa first")
    from tosa_convert.formats.flatbuffer.annotate import Annotation

    return Annotation(opened.data)


def with_weights(graph: Graph, path: str, options: ReadOptions, *, checked: bool = True) -> Graph:
    """Return the graph with the weights beside its file, if any; `checked`: read all values."""
    if not path:
        return graph
    beside = weights_beside(path)
    if not beside or not _lacks_data(graph):
        return graph
    if len(beside) > 1:
        message = "its weights can be those in " + " and ".join(name for _, name in beside)
        hint = "move away those that are not, or use `weights import`"
        raise fail("mismatched-weights", path, message, hint)
    folder = beside[0][1]
    from tosa_convert.formats.weights.read import read as read_weights

    return read_weights(
        graph,
        folder,
        accept_changed=options.accept_changed_weights,
        checked=checked,
        copy=options.copy,
        limits=options.limits,
    )


def types_of_weights(folder: str | os.PathLike[str]) -> dict[str, DType]:
    import pathlib

    from tosa_convert.formats.weights.folder import NAME, manifest_of
    from tosa_convert.graph.dtypes import dtype

    if not os.path.isfile(os.path.join(folder, NAME)):
        return {}
    entries = manifest_of(pathlib.Path(folder), _READ_OPTIONS.limits)
    return {entry.file: dtype(entry.dtype) for entry in entries}


def weights_folder(path: str | os.PathLike[str], form: WeightForm = "npy") -> str:
    """Return the folder or file for the weights of a file: `m.weights` beside `m.tosa`."""
    return os.path.splitext(path)[0] + WEIGHT_FILES[form].extension


def form_of_weights(path: str | os.PathLike[str]) -> WeightForm:
    """Return the form of weights that the extension of a file says; a folder has any other."""
    extension = os.path.splitext(os.fspath(path))[1].lower()
    forms = (form for form in WEIGHT_FORMS if WEIGHT_FILES[form].extension == extension)
    return next(forms, "npy")


def weights_beside(path: str | os.PathLike[str]) -> list[tuple[WeightForm, str]]:
    """Return the folder and the files that are beside a program, and may have its weights."""
    rows = [(form, weights_folder(path, form)) for form in WEIGHT_FORMS] if path else []
    return [
        (form, name)
        for form, name in rows
        if (os.path.isdir if form == "npy" else os.path.isfile)(name)
    ]


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


def _lacks_scales(tensor: Tensor) -> bool:
    return tensor.scale is not None and tensor.scale.data is None


def _with_shapes(graph: Graph, options: ReadOptions, opened: Input | None = None) -> Graph:
    """Return the graph with the shapes and CUSTOM meanings of the options; log what stays dynamic."""
    if options.custom:
        from tosa_convert.custom import give_meaning

        graph = give_meaning(graph, options.custom)
    if not options.input_shapes:
        return graph
    names: list[str] = []
    if opened is not None and opened.format == "mlir":
        from tosa_convert.formats.mlir.text.parse.cursor import argument_names

        names = argument_names(opened.data, graph.regions[0].name)
    return with_shapes(graph, options.input_shapes, names)


def with_shapes(
    graph: Graph, shapes: Mapping[str, tuple[int | str, ...]], text_names: Sequence[str] = ()
) -> Graph:
    """Return the graph with shapes of arguments, named as in MLIR text, and what follows from them."""
    from tosa_convert.formats.mlir.names import Namer
    from tosa_convert.graph.static_shapes import make_placeholders_static
    from tosa_convert.graph.verify import refuse_unsound
    from tosa_convert.rules.infer import causes, infer, refuse_impossible_symbols, resolved

    refuse_unsound(graph)
    namer = Namer()
    aliases = {namer.input(): index for index in range(len(graph.main.inputs))}
    for index, name in enumerate(text_names):
        aliases[name] = index
        # Without the %, arg0 is the first argument, whatever its name.
        if re.fullmatch(r"%arg\d+", name) is None:
            aliases[name.removeprefix("%")] = index
    given = resolved(graph, shapes, aliases)
    refuse_impossible_symbols(graph, shapes, aliases)
    inferred = infer(graph, given)
    make_placeholders_static(inferred)
    for cause in causes(inferred):
        log.warning("%s", cause)
    return inferred
