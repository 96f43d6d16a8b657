"""Graph -> a program of any format. A graph is verified once, before any writer sees it."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tosa_convert.errors import fail, refuse_unknown
from tosa_convert.formats.read import (
    Input,
    read,
    weights_beside,
    weights_folder,
    with_weights,
)
from tosa_convert.io import log
from tosa_convert.io.files import Progress, map_file, one_writer, replace_file
from tosa_convert.io.formats import FORMATS, MLIR_FORMATS, WRITTEN, Format
from tosa_convert.io.garbage_collection import garbage_collection_paused
from tosa_convert.io.option_table import FORMS, Form, refuse_weights
from tosa_convert.io.options import WEIGHT_FORMS, ReadOptions, WeightForm, Weights, WriteOptions
from tosa_convert.version import __version__

if TYPE_CHECKING:
    from tosa_convert.graph.columns import BlockColumns
    from tosa_convert.graph.model import Graph, SoftwareVersion

AnyPath: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]

#: Constants that together have more than this many bytes are written as JSON text only on request:
#: each byte becomes up to 20.
JSON_INLINE_BYTES: Final = 1 << 20
#: The release of tosa-tools with the same schema as ours; a test compares the two.
SCHEMA_RELEASE: Final = (2026, 8, 0)
#: Constants of at most this many bytes stay in the file when the others are stored beside it.
SMALL_BYTES: Final = 1 << 10

#: The older version of `.tosa` files that is written.
OLDER_TOSA: Final = "0.80"

_WRITE_OPTIONS: Final = WriteOptions()


def producer() -> SoftwareVersion:
    """Return the producer: the numbers are the schema's release, as readers take them."""
    from tosa_convert.graph.model import SoftwareVersion

    return SoftwareVersion(*SCHEMA_RELEASE, f"tosa-convert {__version__}")


def stamp(graph: Graph, tosa_version: str = "") -> Graph:
    """Return the graph with the requested version; forms of 1.1 that become those of 1.0 are logged."""
    from tosa_convert.errors import TosaConvertError
    from tosa_convert.graph.verify import verify
    from tosa_convert.graph.versions import BY_NAME, V1_0, draft_findings, version_findings

    if tosa_version:
        refuse_unknown("tosa_version", tosa_version, BY_NAME)
    version = BY_NAME[tosa_version] if tosa_version else graph.version
    findings = list(version_findings(graph, version))
    if month := tosa_version.partition("-")[2]:
        findings += draft_findings(graph, month)
    if findings and version == V1_0 and not verify(graph):
        from tosa_convert.eras.downgrade import in_forms_of_1_0

        other, changed = in_forms_of_1_0(graph)
        if next(version_findings(other, version), None) is None:
            log.warning("changed for TOSA 1.0, and computes the same: %s", changed)
            return replace(other, version=version)
    if findings:
        raise TosaConvertError(findings)
    return replace(graph, version=version)


def encode(
    graph: Graph, *, weights: Weights = "auto", columns: Mapping[str, BlockColumns] | None = None
) -> Iterator[Any]:
    """Iterate over the pieces of a `.tosa` file of a verified graph; constants are views."""
    from tosa_convert.formats.flatbuffer.write import plan

    _warn_of_target(graph)
    out_of_line = {"embedded": False, "offset": True}.get(weights)
    with garbage_collection_paused():
        found = plan(graph, producer(), out_of_line=out_of_line, columns=columns or {})
        return found.pieces()


def _encode_080(graph: Graph, options: WriteOptions) -> Iterator[Any]:
    """Iterate over the pieces of a `.tosa` file of the older version that the options ask for."""
    if options.dialect != OLDER_TOSA:
        raise fail(
            "option-conflict",
            "dialect",
            f"the option dialect is {options.dialect!r}, expected {OLDER_TOSA!r}, the only older "
            "version of .tosa files that is written",
        )
    if options.weights not in ("auto", "embedded"):
        message = (
            f'weights="{options.weights}": a file of TOSA {OLDER_TOSA} stores its weights inside'
        )
        raise fail("option-conflict", "weights", message, "use embedded")
    from tosa_convert.eras.downgrade import downgrade_graph, form_080
    from tosa_convert.formats.flatbuffer.tosa_080 import plan
    from tosa_convert.graph.model import UNLOCATED

    _warn_of_target(graph)
    located = sum(
        op.location not in UNLOCATED for _, block in graph.blocks() for op in block.operators
    )
    if located:
        log.warning(
            "the locations of %d operators are not in the file: TOSA %s has no field for them",
            located,
            OLDER_TOSA,
        )
    with garbage_collection_paused():
        return plan(downgrade_graph(graph, form_080())).pieces()


def _warn_of_target(graph: Graph) -> None:
    """Say that a file of the schema does not hold the target."""
    if graph.target is not None:
        log.warning(
            "the target %s is not in the file: the schema has no field for it", graph.target
        )


def render(
    graph: Graph, file_format: Format, options: WriteOptions = _WRITE_OPTIONS
) -> Iterable[Any]:
    refuse_weights(file_format, options.weights)
    if _size_beside(graph, file_format, options.weights) is not None:
        message = "the weights would be stored in a folder beside the file, and there is no file"
        hint = "give the output a name, or use weights='embedded'"
        raise fail("option-conflict", "weights", message, hint)
    columns = _refuse_wrong(graph, file_format, options)
    return _render_sound(graph, file_format, options, columns)


def _refuse_wrong(graph: Graph, written_as: Form, options: WriteOptions) -> dict[str, BlockColumns]:
    """Refuse an unsound graph, or one that TOSA forbids unless it is only to be looked at."""
    from tosa_convert.graph.verify import refuse_unsound

    columns = refuse_unsound(graph)
    if options.validate and written_as != "json" and options.elide is None:
        from tosa_convert.rules.operator_view import SHAPE_DIVISIONS
        from tosa_convert.rules.public import refuse_invalid

        refuse_invalid(graph, columns)
        if any(
            op.spec.name in SHAPE_DIVISIONS for _, row in graph.blocks() for op in row.operators
        ):
            from tosa_convert.rules.infer import undefined_shapes

            for finding in undefined_shapes(graph):
                log.warning("%s: %s", finding.where, finding.message)
    return columns


def _render_sound(
    graph: Graph, file_format: Format, options: WriteOptions, columns: Mapping[str, BlockColumns]
) -> Iterable[Any]:
    if file_format == "tosa":
        if options.dialect:
            return _encode_080(graph, options)
        return encode(graph, weights=options.weights, columns=columns)
    if file_format == "json":
        from tosa_convert.formats.json.write import write as write_json

        _warn_of_target(graph)
        return write_json(graph, producer())
    state = _older_state(options)
    if state:
        from tosa_convert.eras.downgrade import dialect_form, downgrade_graph

        graph, columns = downgrade_graph(graph, dialect_form(state)), {}
    if file_format == "mlirbc":
        from tosa_convert.formats.mlir.write.module import encode_module

        version = _bytecode_version(options, state)
        options = replace(options, bytecode_version=version)
        with garbage_collection_paused():
            from tosa_convert.graph.constant import in_order

            return in_order(encode_module(graph, options, columns=columns, state=state).pieces)
    from tosa_convert.formats.mlir.text.print.module import write as write_text

    with garbage_collection_paused():
        text = write_text(graph, options, columns=columns, state=state)
    return _paused(text)


def _older_state(options: WriteOptions) -> str:
    """Return the state of the dialect in the month that the options ask for; "" for the current one."""
    if not options.dialect:
        return ""
    from tosa_convert.eras.dialect_states import STATES, state_of

    state = state_of(options.dialect)
    return "" if state == STATES[-1] else state


def _bytecode_version(options: WriteOptions, state: str) -> int:
    """Return the version of bytecode for a state of the dialect, or refuse the one that is asked for."""
    if not state:
        return options.bytecode_version
    from tosa_convert.eras.dialect_states import BYTECODE, BYTECODE_1

    if state < BYTECODE:
        message = f"no MLIR of {options.dialect} reads bytecode, which there is since {BYTECODE}"
        raise fail("option-conflict", "dialect", message, "write MLIR text")
    most = int(state >= BYTECODE_1)
    if options.bytecode_version > 1:
        raise fail(
            "option-conflict",
            "bytecode_version",
            f"found {options.bytecode_version}, expected at most {most} for an MLIR of "
            f"{options.dialect}: in later versions attributes have no names",
        )
    return min(options.bytecode_version, most)


def _paused(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Iterate over the pieces, made while the garbage collector is paused."""
    while True:
        with garbage_collection_paused():
            piece = next(pieces, None)
        if piece is None:
            return
        yield piece


def to_module(graph: Graph, context: Any, options: WriteOptions = _WRITE_OPTIONS) -> Any:
    from tosa_convert.formats.bindings.modules import write
    from tosa_convert.formats.bindings.packages import bindings_of

    columns = _refuse_wrong(graph, "module", options)
    with garbage_collection_paused():
        return write(
            graph,
            bindings_of(context),
            context,
            names=options.names,
            constants=options.constants,
            limits=options.limits,
            columns=columns,
        )


def dumps(graph: Graph, file_format: Format, options: WriteOptions = _WRITE_OPTIONS) -> bytes:
    """Return the content of a file; with `options.verify` it is read back and compared first."""
    refuse_unknown("to", file_format, WRITTEN)
    _refuse_unverifiable(graph, "", file_format, options)
    # Joined at once, so that weights are copied once.
    data = b"".join(render(graph, file_format, options))
    if options.verify:
        _compare_with(graph, Input(memoryview(data), "", "", file_format), "", options)
    return data


def save(
    graph: Graph,
    path: AnyPath,
    file_format: Format,
    options: WriteOptions = _WRITE_OPTIONS,
    progress: Progress | None = None,
) -> None:
    target = os.fsdecode(path)
    refuse_unknown("to", file_format, WRITTEN)
    refuse_weights(file_format, options.weights)
    size_beside = _size_beside(graph, file_format, options.weights)
    form: WeightForm = "npy" if options.weights not in WEIGHT_FORMS else options.weights
    beside, only_parameters = weights_folder(target, form), file_format in MLIR_FORMATS
    _refuse_special_file(target, file_format, options, beside=size_beside is not None)
    _refuse_unverifiable(graph, target, file_format, options)
    if size_beside is not None:
        _refuse_others_beside(target, form)  # again below, when no other process writes them
    columns = _refuse_wrong(graph, file_format, options)
    written = graph
    if size_beside is not None:
        from tosa_convert.formats.weights.write import without

        written = without(graph, larger_than=size_beside, only_parameters=only_parameters)
        columns = {}
    pieces = _render_sound(written, file_format, options, columns)

    def finish(new: str) -> None:
        # The weights are written when the new file is complete, and right before it is renamed.
        if size_beside is not None:
            _refuse_others_beside(target, form)
            _export(graph, beside, form, size_beside, only_parameters)
        if options.verify:
            _compare_with(graph, Input(map_file(new), "", "", file_format), target, options)

    needs_finish = options.verify or size_beside is not None
    folder = os.path.dirname(os.path.realpath(target))
    with one_writer(folder) if size_beside is not None else contextlib.nullcontext():
        size = replace_file(target, pieces, finish if needs_finish else None, progress)
    weights = "" if size_beside is None else f", weights in {beside}"
    what = FORMATS[file_format]
    log.info("%s: %s, TOSA %s, %d bytes%s", target, what, graph.version, size, weights)


def _compare_with(graph: Graph, written: Input, path: str, options: WriteOptions) -> None:
    """Raise TosaConvertError("verification-failed") unless the written program equals the graph."""
    from tosa_convert.graph.compare import compare

    names = options.names if written.is_mlir else "retain"
    reading = ReadOptions(names=names, limits=options.limits)
    found = with_weights(read(written, reading), path, reading)
    difference = compare(graph, found, names=names == "retain")
    if difference is not None:
        message = f"what was written reads back differently: {difference}"
        hint = "the output was discarded; this is a defect of the converter, please report it"
        raise fail("verification-failed", path, message, hint)


def _refuse_unverifiable(
    graph: Graph, path: str, file_format: Format, options: WriteOptions
) -> None:
    """Refuse to verify regions that MLIR cannot hold, and programs in an older form."""
    if not options.verify or file_format == "json":
        return
    if options.dialect and (file_format == "tosa" or _older_state(options)):
        message = (
            "the option verify does not apply to a program in an older form: upgraded, it has other "
            "constants"
        )
        raise fail("option-conflict", path, message, "leave out verify")
    if file_format == "tosa":
        return
    from tosa_convert.graph.derived import unrun_regions
    from tosa_convert.graph.model import quoted

    unrun = [quoted(region.name) for region in unrun_regions(graph)]
    if unrun:
        raise fail(
            "option-conflict",
            path,
            "the option verify does not apply: MLIR cannot hold regions that no operator runs: "
            + ", ".join(unrun),
            "remove these regions, or leave out verify, so that they are omitted",
        )


def _refuse_special_file(
    path: str, file_format: Format, options: WriteOptions, *, beside: bool
) -> None:
    """Refuse what a pipe or a device cannot do: be read back, or have a folder beside it."""
    if not (options.verify or beside):
        return
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return
    if not regular and not os.path.isdir(path):
        option = "verify" if options.verify else "weights"
        reason = "read back" if options.verify else "have a folder of weights beside it"
        message = f"the option {option} does not apply: a pipe or device cannot {reason}"
        hint = f"write the {FORMS[file_format]} to a regular file"
        raise fail("option-conflict", path, message, hint)


def _refuse_others_beside(path: str, form: WeightForm) -> None:
    """Refuse to write weights beside others, and in place of a file that tosa-convert did not write."""
    for other, name in weights_beside(path):
        if other != form:
            message = f"the weights would be in {weights_folder(path, form)}, and others are here"
            raise fail("foreign-folder", name, message, "move it away, or choose another name")
        if form != "npy":
            from tosa_convert.formats.weights.read import refuse_foreign_file

            refuse_foreign_file(name)


def _size_beside(graph: Graph, file_format: Format, weights: Weights) -> int | None:
    """Return above how many bytes constants are stored beside the file; None if all are in it."""
    if file_format in MLIR_FORMATS:
        return SMALL_BYTES if weights == "irpa" else None
    if weights in WEIGHT_FORMS:
        return 0
    if file_format == "json" and weights == "auto":
        total = sum(constant.nbytes for _, constant in graph.constants())
        return SMALL_BYTES if total > JSON_INLINE_BYTES else None
    return None


def export_weights(
    graph: Graph, path: str | os.PathLike[str], *, form: WeightForm = "npy", larger_than: int = 0
) -> int:
    """Write the constants of more than `larger_than` bytes of a sound graph; returns their number."""
    left = _export(graph, path, form, larger_than)
    return sum(1 for _ in graph.constants()) - sum(1 for _ in left.constants())


def _export(
    graph: Graph,
    path: str | os.PathLike[str],
    form: WeightForm,
    larger_than: int,
    only_parameters: bool = False,
) -> Graph:
    from tosa_convert.formats.weights.write import write

    return write(
        graph,
        path,
        form=form,
        larger_than=larger_than,
        only_parameters=only_parameters,
        producer=producer(),
    )
