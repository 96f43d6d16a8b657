"""ir.Module -> Graph, with the Python bindings to which the module belongs."""

from __future__ import annotations

import logging
import re
from typing import Any, Final

from tosa_convert.bindings.diagnostics import diagnostics, refused_by_bindings
from tosa_convert.bindings.packages import bindings_of
from tosa_convert.bindings.select_function import enclosing_module, operation_of, select
from tosa_convert.bindings.write_bytecode import bytecode_of
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph.model import Graph, Version
from tosa_convert.graph.versions import BY_NAME, lowest_version, parse_version
from tosa_convert.mlir.bytecode.detached import NO_DETACHED_WEIGHTS, DetachedWeights
from tosa_convert.mlir.function_reader import FunctionReader
from tosa_convert.mlir.names import VERSION_ATTRIBUTE, text
from tosa_convert.mlir.narrowing import Narrowing
from tosa_convert.options import ReadOptions

_TARGET_ENV: Final = "tosa.target_env"
_SPECIFICATION: Final = re.compile(r'specification_version = "?(\d+\.\d+)')

_READ_OPTIONS: Final = ReadOptions()

log = logging.getLogger("tosa_convert")


@refused_by_bindings()
def read(
    module_or_func: Any,
    options: ReadOptions = _READ_OPTIONS,
    *,
    verified: bool = False,
    weights: DetachedWeights = NO_DETACHED_WEIGHTS,
) -> Graph:
    """The graph of one function of a module.

    Args:
        module_or_func: a module, a func.func, or the operation of either, of any MLIR bindings.
        options: `func`, `names`, `full_paths` and `narrow` apply. Every tensor that narrowing changes is
            logged, and a value that does not fit is a finding.
        verified: MLIR's verifier has passed the module already, as it does at the end of parsing.
        weights: the constants that `parse` detached from the file that the module comes from.

    Returns:
        The graph. Its version is the one that the module asks for (tosa.target_env), else the lowest
        that expresses it. Its constants are views of memory that the module's context owns.

    Raises:
        TosaConvertError: everything that cannot be carried: operators, types, attributes.
    """
    bindings = bindings_of(module_or_func)
    operation = operation_of(bindings, module_or_func)
    if not verified:
        try:
            operation.verify()
        except bindings.ir.MLIRError as error:
            raise diagnostics(bindings, error, "module") from None
    functions, variables, findings = select(bindings, operation, options.func)
    graph = None
    narrowing = Narrowing(options.narrow)
    for function in functions:
        # With several functions there is a finding already, and nothing of them is returned.
        narrowing = Narrowing(options.narrow)
        reader = FunctionReader(
            bytecode_of(bindings, function, weights), options.names, options.full_paths, narrowing
        )
        try:
            graph = reader.graph(bytecode_of(bindings, item, weights) for item in variables)
        except TosaConvertError as error:
            findings += error.findings
    if findings or graph is None:
        raise TosaConvertError(findings)
    for line in narrowing.report():
        log.warning("%s", line)
    requested = _requested_version(operation)
    graph.version = lowest_version(graph) if requested is None else requested
    return graph


def _requested_version(operation: Any) -> Version | None:
    """The TOSA version that the module asks for, if it does."""
    module = enclosing_module(operation)
    if module is None:
        return None
    attributes = module.attributes
    if _TARGET_ENV in attributes:
        match = _SPECIFICATION.search(str(attributes[_TARGET_ENV]))
        if match is not None:
            return BY_NAME.get(match[1])
    if VERSION_ATTRIBUTE in attributes:
        raw = getattr(attributes[VERSION_ATTRIBUTE], "value_bytes", None)
        return parse_version(text(raw) or "")
    return None
