"""ir.Module -> Graph, with the Python bindings the module came from."""

from __future__ import annotations

import logging
import re
from typing import Any, Final

from tosa_convert.bindings.diagnostics import diagnostics, refused_by_bindings
from tosa_convert.bindings.packages import bindings_of
from tosa_convert.bindings.select_function import enclosing_module, operation_of, select
from tosa_convert.errors import TosaConvertError
from tosa_convert.graph.model import Graph, Version
from tosa_convert.graph.versions import BY_NAME, lowest_version, parse_version
from tosa_convert.mlir.bytecode.detached import NO_DETACHED_WEIGHTS, DetachedWeights
from tosa_convert.mlir.function_reader import FunctionReader
from tosa_convert.mlir.kept import VERSION_ATTRIBUTE
from tosa_convert.mlir.narrowing import Narrowing
from tosa_convert.mlir.reading.given import text
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

    module_or_func: a module, a func.func, or the operation of either, of any MLIR bindings.
    options: `func`, `names`, `full_paths` and `narrow` are used; `tosa_convert.load` describes them.
        Every tensor that is narrowed is logged; a value that does not fit is a finding.
    verified: MLIR's verifier has passed the module already, as it does at the end of parsing.
    weights: what `parse` took out of the file that the module comes from.

    The graph's version is the one the module asks for (tosa.target_env), else the lowest that
    expresses it. Its constants are views of memory that the module's context owns.
    Raises TosaConvertError with every finding that could be told: operators, types, attributes.
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
    for function in functions:
        reader = FunctionReader(
            bindings,
            function,
            options.names,
            options.full_paths,
            Narrowing(options.narrow),
            weights,
        )
        try:
            graph = reader.graph(variables)
        except TosaConvertError as error:
            findings += error.findings
    if findings or graph is None:
        raise TosaConvertError(findings)
    for line in reader.narrowing.report():
        log.warning("%s", line)
    asked = _asked_version(operation)
    graph.version = lowest_version(graph) if asked is None else asked
    return graph


def _asked_version(operation: Any) -> Version | None:
    """The TOSA version that the module is for, if it says so."""
    module = enclosing_module(operation)
    if module is None:
        return None
    attributes = module.attributes
    if _TARGET_ENV in attributes:
        found = _SPECIFICATION.search(str(attributes[_TARGET_ENV]))
        if found is not None:
            return BY_NAME.get(found[1])
    if VERSION_ATTRIBUTE in attributes:
        return parse_version(
            text(getattr(attributes[VERSION_ATTRIBUTE], "value_bytes", None)) or ""
        )
    return None
