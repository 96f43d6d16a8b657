"""A function of an MLIR module as a graph, from the module's bytecode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tosa_convert.errors import MAX_FINDINGS, TosaConvertError
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.sections import read_sections, sections_in_pieces
from tosa_convert.formats.mlir.names import VERSION_ATTRIBUTE, text_of
from tosa_convert.formats.mlir.read.function import FunctionReader
from tosa_convert.formats.mlir.read.narrowing import Narrowing
from tosa_convert.formats.mlir.read.scope import CapturedValues
from tosa_convert.formats.mlir.read.select_function import MODULE, names_with_body, select
from tosa_convert.formats.mlir.read.shape_operations import leaves_sizes_open
from tosa_convert.formats.mlir.target_env import TARGET_ENV, TargetEnv, read
from tosa_convert.graph.model import Graph
from tosa_convert.graph.versions import lowest_version, parse_version
from tosa_convert.io import log
from tosa_convert.io.options import ReadOptions

if TYPE_CHECKING:
    from tosa_convert.eras.old_operations import Upgrade

_READ_OPTIONS: Final = ReadOptions()


def read_file(
    data: memoryview,
    where: str = "",
    options: ReadOptions = _READ_OPTIONS,
    upgrade: Upgrade | None = None,
    narrowing: Narrowing | None = None,
) -> Graph:
    """Read the graph of a bytecode file of any version of the format; see `read_module`."""
    return read_module(Bytecode(read_sections(data, where)), options, upgrade, narrowing)


def read_text(
    data: memoryview,
    path: str = "",
    options: ReadOptions = _READ_OPTIONS,
    upgrade: Upgrade | None = None,
    narrowing: Narrowing | None = None,
) -> Graph:
    """Read the graph of MLIR text of any release; see `read_module`."""
    from tosa_convert.formats.mlir.text.parse.module import parse
    from tosa_convert.formats.mlir.text.parse.source_text import quoting

    with quoting(data, path):
        packed_bools = None
        if options.dialect:
            from tosa_convert.eras.dialect_states import BOOLEAN_BYTES, state_of

            packed_bools = state_of(options.dialect) < BOOLEAN_BYTES
        pieces = parse(
            data,
            path,
            options.limits,
            packed_bools=packed_bools,
            function=options.func or None,
            pass_captured=options.pass_captured,
        )
        return read_module(Bytecode(sections_in_pieces(pieces)), options, upgrade, narrowing)


def function_names(data: memoryview, *, is_text: bool) -> list[str]:
    """Return the names of the functions with a body in MLIR text or bytecode.

    Raises TosaConvertError("malformed-mlir").
    """
    if is_text:
        from tosa_convert.formats.mlir.text.parse.module import parse

        return names_with_body(Bytecode(sections_in_pieces(parse(data, "", _READ_OPTIONS.limits))))
    return names_with_body(Bytecode(read_sections(data)))


def read_module(
    bytecode: Bytecode,
    options: ReadOptions = _READ_OPTIONS,
    upgrade: Upgrade | None = None,
    narrowing: Narrowing | None = None,
) -> Graph:
    """Read the graph of one function of a module."""
    noted = upgrade
    if options.dialect:
        from tosa_convert.eras.dialect_states import OPERANDS, OPERATOR_NAMES, state_of
        from tosa_convert.eras.old_operations import Upgrade

        state = state_of(options.dialect)
        bytecode.has_operator_names = state >= OPERATOR_NAMES
        noted = Upgrade() if upgrade is None else upgrade
        noted.state, noted.is_old = state, noted.is_old or state < OPERANDS
    functions, variables, others, findings = select(bytecode, options.func)
    graph = None
    noted_narrowing, narrowing = narrowing, narrowing or Narrowing(options.narrow)
    captures: CapturedValues | None = None
    for function in functions:
        # With several functions there is a finding already, and nothing of them is returned.
        narrowing = noted_narrowing or Narrowing(options.narrow)
        if options.pass_captured:
            from tosa_convert.formats.mlir.read.scope import CapturedValues

            captures = CapturedValues()
        root = bytecode.rooted(function.operation)
        reader = FunctionReader(root, options, narrowing, captures, noted)
        try:
            declared = variables
            if others:
                from tosa_convert.formats.mlir.variables import used_globals

                declared = variables + used_globals(root, others)
            graph = reader.graph(map(bytecode.rooted, declared))
        except TosaConvertError as error:
            findings += error.findings
    if findings or graph is None:
        raise TosaConvertError(findings[:MAX_FINDINGS])
    changes = () if noted_narrowing else narrowing.report()
    for line in (*changes, *(captures.report() if captures is not None else ())):
        log.warning("%s", line)
    if upgrade is None and reader.upgrade:
        log.warning("%s", reader.upgrade.summary())
    if leaves_sizes_open(graph, reader.reader.types) and not options.input_shapes:
        from tosa_convert.rules.infer import causes, settled

        open_graph, graph = graph, settled(graph)
        for cause in causes(graph) if graph is not open_graph else ():
            log.warning("%s", cause)
    requested, graph.target = _target(bytecode)
    graph.version = lowest_version(graph) if requested is None else requested
    return graph


def _target(bytecode: Bytecode) -> TargetEnv:
    if bytecode.names[bytecode.root.name] != MODULE:
        return TargetEnv(None, None)
    attributes = bytecode.dictionary(bytecode.root.attributes)
    found = TargetEnv(None, None)
    if TARGET_ENV in attributes:
        value = bytecode.attribute(attributes[TARGET_ENV])
        found = read(value) if isinstance(value, str) else found
        if found.target is None:
            log.warning("the attribute %s has an unknown form: it is not preserved", TARGET_ENV)
    exact = parse_version(text_of(bytecode, attributes.get(VERSION_ATTRIBUTE)) or "")
    if found.version is None:
        return TargetEnv(exact, found.target)
    # The target has neither the patch nor whether 1.0 is a draft.
    if exact is not None and exact.minor == found.version.minor:
        return TargetEnv(exact, found.target)
    return found
