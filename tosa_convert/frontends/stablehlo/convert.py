"""The StableHLO converter, in the child process: a module of StableHLO becomes a program."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import jax
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters.mlir import make_ir_context

from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.formats.write import save
from tosa_convert.frontends.jax.convert import rows_of
from tosa_convert.frontends.jax.lowering import Arguments, lower_function, use_cpu
from tosa_convert.frontends.jax.source import Place, place_of_location
from tosa_convert.frontends.jax.walk import Walk
from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.frontends.module_header import (
    MAIN,
    argument_names,
    choose_function,
    result_names,
    unique,
)
from tosa_convert.frontends.process.request import PROGRAM_FILE, Interface, Request
from tosa_convert.frontends.process.request import NotLowered as Unlowered
from tosa_convert.frontends.stablehlo import elementwise, quantised, run_module, structured
from tosa_convert.frontends.stablehlo.attributes import shape_of
from tosa_convert.frontends.stablehlo.evaluate import SCOPE, Evaluator
from tosa_convert.frontends.stablehlo.modules import read_module, refined, rename_to_main
from tosa_convert.frontends.unlowered import unlowered

#: The file in the folder that runs the module for `--check`.
_RUNS: Final = "run_module.py"
_RULES: Final = {
    name: quantised.aware(rule) for name, rule in {**elementwise.RULES, **structured.RULES}.items()
}
#: The number of an operation in the name stack of its equations; the last is the innermost.
_NUMBER: Final = re.compile(re.escape(SCOPE) + r"(\d+)")
#: What JAX calls a result, such as `result['logits'][0]`.
_RESULT_KEY: Final = re.compile(r"\[(?:'([^']*)'|(\d+))\]|\.(\w+)")
#: Operations at computed places, whose results have known sizes.
_FIXED_SIZES: Final = frozenset(("stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"))


def lower(request: Request, folder: Path) -> Interface:
    """Lower a function of a module, by default @main or the only one that is public."""
    use_cpu()
    context = make_ir_context()
    # A module says each element type itself, also those of 64 bits.
    with context, ir.Location.unknown(), jax.enable_x64(True):
        module = read_module(Path(request.source).read_bytes(), request.shown, context)
        rename_to_main(module, choose_function(ir, module, request))
        if request.input_shapes or _is_dynamic(module):
            module = refined(module, request)
        return _lowered(module, request, folder)


def _lowered(module: Any, request: Request, folder: Path) -> Interface:
    evaluator = Evaluator(module, _RULES)
    function = evaluator.functions[MAIN]
    inputs, outputs = _names(function)
    arguments = [_argument(kind) for kind in _kinds(function, "inputs")]
    walk = _Walk(evaluator, request)
    found = lower_function(
        lambda *arrays: evaluator.call(MAIN, *arrays),
        Arguments(tuple(arguments), {}),
        inputs,
        names_of_results=outputs,
        walk=walk,
    )
    problems = [*map(walk.problem, evaluator.problems), *found.problems]
    if found.graph is not None and not problems:
        save(found.graph, folder / PROGRAM_FILE, "mlirbc")
        data = _artifact(module, evaluator, arguments)
        (folder / run_module.MODULE_FILE).write_bytes(data)
        if quantised.has_quantised_types(module):
            (folder / run_module.REPLACED_FILE).touch()
        rows = [(list(row.shape or ()), row.dtype) for row in found.inputs]
        (folder / run_module.ARGUMENTS_FILE).write_text(json.dumps(rows), encoding="utf-8")
        shutil.copy(run_module.__file__, folder / _RUNS)
    return Interface(
        inputs=found.inputs,
        outputs=found.outputs,
        not_lowered=rows_of(problems),
        model=f"{_RUNS}:{run_module.module.__name__}",
    )


def _artifact(module: Any, evaluator: Evaluator, arguments: Sequence[Any]) -> bytes:
    """Return what XLA runs: the module, or its arithmetic of integers if it has quantised types."""
    if not quantised.has_quantised_types(module):
        target = stablehlo.get_current_version()
        return bytes(stablehlo.serialize_portable_artifact(module, target))
    function = jax.jit(lambda *arrays: evaluator.call(MAIN, *arrays), keep_unused=True)
    exported = jax.export.export(function, platforms=["cpu"])(*arguments)
    return bytes(exported.mlir_module_serialized)


class _Walk(Walk):
    """Lowers what JAX traced, with the places of the module's operations."""

    def __init__(self, evaluator: Evaluator, request: Request) -> None:
        super().__init__()
        self.operations = evaluator.operations
        self.file = request.shown

    def place_of(self, equation: Any, outer: Place) -> Place:
        """Return the place of the operation that an equation is part of."""
        numbers = _NUMBER.findall(str(equation.source_info.name_stack))
        found = outer
        # Operations of a function that is called often have no place of their own.
        for number in reversed(numbers):
            place = self.place_in_module(self.operations[int(number)])
            found = place if found is outer else found._replace(file=place.file, line=place.line)
            if found.file:
                break
        return found

    def place_in_module(self, operation: Any) -> Place:
        """Return the place of an operation: of the user's code, else in the module's text."""
        text = str(operation.location)
        found = place_of_location(text)
        scope = found.scope.rpartition("/")[0]
        file = self.file if found.file in ("", "-") else found.file
        return Place(scope, file if found.line else "", found.line)

    def problem(self, noted: tuple[Any, NotLowered]) -> Unlowered:
        """Return the row of an operation that no call of `jax.lax` computes."""
        operation, problem = noted
        place = str(self.place_in_module(operation))
        return unlowered(operation.name, place, problem.reason, problem.advice)


# -- functions, arguments and names --------------------------------------------------------------


def _kinds(function: Any, which: str) -> list[Any]:
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return list(getattr(kind, which))


def _is_dynamic(module: Any) -> bool:
    """Return whether a size is unknown, or computed by an operation of the program."""
    found = False

    def visit(operation: Any) -> Any:
        nonlocal found
        found = found or ("dynamic_" in operation.name and operation.name not in _FIXED_SIZES)
        found = found or any("?" in str(result.type) for result in operation.results)
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _argument(kind: Any) -> jax.ShapeDtypeStruct:
    try:
        return jax.ShapeDtypeStruct(shape_of(kind), quantised.stored_type(kind))
    except NotLowered as problem:
        raise TosaConvertError(
            [Finding("not-lowered", str(kind), problem.reason, problem.advice)]
        ) from None


def _names(function: Any) -> tuple[list[str], list[str]]:
    """Return the names of the arguments and of the results, which JAX writes into the module."""
    rows: Any = (
        ir.ArrayAttr(function.attributes["res_attrs"]) if "res_attrs" in function.attributes else []
    )
    outputs = result_names(len(_kinds(function, "results")))
    for position, row in enumerate(map(ir.DictAttr, rows)):
        text = str(ir.StringAttr(row["jax.result_info"]).value) if "jax.result_info" in row else ""
        words = [a or b or c for a, b, c in _RESULT_KEY.findall(text)]
        if words and words[0].isdigit():
            words[0] = f"output_{words[0]}"
        outputs[position] = ".".join(words) or outputs[position]
    return argument_names(function), unique(outputs)
