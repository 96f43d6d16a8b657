"""The StableHLO converter, in the child process: a module of StableHLO becomes a program."""

from __future__ import annotations

import importlib
import io
import itertools
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
from jax import export
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters.mlir import make_ir_context
from jaxlib import _jax

from tosa_convert.errors import Finding, TosaConvertError, fail
from tosa_convert.frontends.jax.convert import rows_of
from tosa_convert.frontends.jax.lowering import Arguments, lower_function, use_cpu
from tosa_convert.frontends.jax.source import Place, place_of_location
from tosa_convert.frontends.jax.walk import Walk
from tosa_convert.frontends.lower_model import write_program
from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.frontends.module_header import (
    MAIN,
    argument_names,
    choose_function,
    functions,
    result_names,
    set_argument_types,
    symbol,
    unique,
)
from tosa_convert.frontends.process.request import Interface, Request, options_for, say_stage
from tosa_convert.frontends.process.request import NotLowered as Unlowered
from tosa_convert.frontends.stablehlo import operations, quantised, run_module
from tosa_convert.frontends.stablehlo.evaluate import SCOPE, Evaluator, shape_of
from tosa_convert.frontends.stablehlo.quantised import with_encodings
from tosa_convert.frontends.unlowered import unlowered

#: The file in the folder that runs the module for `--check`.
_RUNS: Final = "run_module.py"
_RULES: Final = {name: quantised.aware(rule) for name, rule in operations.RULES.items()}
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
    say_stage(folder, "lowering the model")
    found = lower_function(
        lambda *arrays: evaluator.call(MAIN, *arrays),
        Arguments(tuple(arguments), {}),
        inputs,
        names_of_results=outputs,
        walk=walk,
    )
    problems = [*map(walk.problem, evaluator.problems), *found.problems]
    if found.graph is not None and not problems:
        write_program(found.graph, folder)
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


# -- reading modules -------------------------------------------------------------------------------

_BYTECODE: Final = b"ML\xefR"
#: How the producer of a portable artifact begins.
_ARTIFACT: Final = b"StableHLO_v"
#: How MLIR names the dialect of quantised types, in text and in bytecode.
_QUANTISED: Final = ('!"quant"', "dialect 'quant' is unknown")
#: Lists of numbers that text before StableHLO 1.0 has as `dense<[1, 2]> : tensor<2xi64>`.
_LIST: Final = re.compile(
    r"\b((?:broadcast_|expanding_)?dimensions|known_\w*expanding_dimensions|permutation|strides|"
    r"broadcast_sizes|slice_sizes|(?:start|limit)_indices|(?:edge|interior)_padding\w*|fft_length|"
    r"window_(?:dimensions|strides|dilations|reversal)|(?:base_dilations|[lr]hs_dilation))"
    r" = dense<([^>]*)> : tensor<(\d+)x(i64|i1)>"
)
#: The custom call that has the type of an argument before its sizes were set.
_WRAPPER: Final = "stablehlo.shape_refinement_operand_wrapper"
#: What the assertions of `jax.export` say of the arguments with symbolic sizes, and the sizes of each.
_SYMBOLIC: Final = re.compile(r"polymorphic shapes specifications: (.*?)\. Obtained")
_SYMBOLIC_SHAPE: Final = re.compile(r"\.shape = (\(.*?\))(?=,(?:kw)?args|$)")
#: The most dimensions of a tensor in such a list.
_MOST_NUMBERS: Final = 64


def read_module(data: bytes, where: str, context: Any) -> Any:
    try:
        return _parsed(data, context)
    except (ir.MLIRError, ValueError, UnicodeDecodeError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        said = "; ".join(lines[1:3] or lines[:1] or [type(error).__name__])
        hint = (
            "a portable artifact (.mlirbc of jax.export) can be read by later releases, text cannot"
        )
        if any(name in said for name in _QUANTISED):
            message = f"JAX's bindings do not parse quantised types: {said.partition(' type')[0]}"
            hint = (
                "text with a scale for each tensor or channel is read: write the module as text; or, if "
                "this is MLIR bytecode and no portable artifact, pip install iree-base-compiler, which "
                "parses it"
            )
            raise fail("unsupported-dtype", where, message, hint) from None
        raise fail(
            "malformed-mlir", where, f"MLIR's parser of jaxlib refuses it: {said}", hint
        ) from None


def _parsed(data: bytes, context: Any) -> Any:
    """Return a module. Text that current MLIR refuses is tried with lists as current text has them."""
    if data.startswith(_BYTECODE):
        if data[5:].startswith(_ARTIFACT):
            return stablehlo.deserialize_portable_artifact(context, data)
        return _of_bytecode(data, context)
    if is_exported(data):
        exported = export.deserialize(bytearray(data))
        return stablehlo.deserialize_portable_artifact(context, exported.mlir_module_serialized)
    text = with_encodings(data.decode())
    try:
        return ir.Module.parse(text, context)
    except ir.MLIRError:
        current = _LIST.sub(_as_array, text)
        if current == text:
            raise
        return ir.Module.parse(current, context)


def _of_bytecode(data: bytes, context: Any) -> Any:
    """Return the module in bytecode. IREE's bindings print one that has quantised types as text."""
    try:
        return ir.Module.parse(data, context)
    except ir.MLIRError as error:
        if not any(name in str(error) for name in _QUANTISED):
            raise
        try:
            other = importlib.import_module("iree.compiler.ir")
        except ImportError:
            raise error from None
        try:
            with other.Context():
                text = other.Module.parse(data).operation.get_asm(enable_debug_info=True)
        except other.MLIRError:
            raise error from None
    return ir.Module.parse(with_encodings(text), context)


def _as_array(found: re.Match[str]) -> str:
    """Return a list of numbers as current text has it: `array<i64: 1, 2>`."""
    name, values, count, kind = found.groups()
    numbers = [word.strip() for word in values.strip("[]").split(",") if word.strip()]
    if len(numbers) == 1:
        numbers *= min(int(count), _MOST_NUMBERS)
    return f"{name} = array<{kind}{': ' if numbers else ''}{', '.join(numbers)}>"


def is_exported(data: bytes) -> bool:
    """Return whether a file is a function of `jax.export`: a flatbuffer around a portable artifact."""
    start = data.find(_BYTECODE)
    return start > 0 and data[start + 5 :].startswith(_ARTIFACT)


def rename_to_main(module: Any, name: str) -> None:
    """Give a function the name @main, which XLA runs; what has it gets another one."""
    if name == MAIN:
        return
    names = {symbol(ir, row) for row in functions(module)}
    other = next(made for number in itertools.count() if (made := f"{MAIN}_{number}") not in names)
    for old, new, visibility in ((MAIN, other, "private"), (name, MAIN, "public")):
        for row in functions(module):
            if symbol(ir, row) == old:
                ir.SymbolTable.replace_all_symbol_uses(old, new, module.operation)
                ir.SymbolTable.set_symbol_name(row, new)
                row.attributes["sym_visibility"] = ir.StringAttr.get(visibility)


def _keep_type(function: Any, argument: Any, kind: Any) -> None:
    """Give the uses of an argument its old type until that is inferred, as StableHLO's own pass does."""
    sizes = argument.type.shape
    integers = ir.RankedTensorType.get([len(sizes)], ir.IntegerType.get_signless(64))
    positions = ir.RankedTensorType.get([1], ir.IntegerType.get_signless(64))
    with ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0]):
        value = ir.DenseElementsAttr.get(np.array(sizes, np.int64), type=integers)
        shape = ir.Operation.create(
            "stablehlo.constant", results=[integers], attributes={"value": value}
        )
        made = ir.Operation.create(
            "stablehlo.custom_call",
            results=[kind],
            operands=[argument, shape.result],
            attributes={
                "call_target_name": ir.StringAttr.get(_WRAPPER),
                "indices_of_shape_operands": ir.DenseElementsAttr.get(
                    np.array([1], np.int64), type=positions
                ),
            },
        )
    argument.replace_all_uses_except(made.result, made)


def _symbolic(module: Any, kinds: Mapping[str, Any]) -> str:
    """Return which arguments have open sizes: with JAX's symbols if there are any, else their types."""
    found = {name: str(kind) for name, kind in kinds.items() if "?" in str(kind)}
    said = _SYMBOLIC.search(module.operation.get_asm(large_elements_limit=16)) if found else None
    rows = _SYMBOLIC_SHAPE.findall(said[1]) if said else []
    pairs = zip(found, rows if len(rows) == len(found) else found.values(), strict=True)
    return ", ".join(f"{name} is {text}" for name, text in pairs)


def refined(module: Any, request: Request) -> Any:
    """Return a module with the sizes of arguments set, and those of all other tensors inferred."""
    (function,) = [row for row in functions(module) if symbol(ir, row) == MAIN]
    arguments = function.regions[0].blocks[0].arguments
    kinds = [argument.type for argument in arguments]
    set_argument_types(
        ir, function, request, lambda kind, sizes: ir.RankedTensorType.get(sizes, kind.element_type)
    )
    for argument, kind in zip(arguments, kinds, strict=True):
        if argument.type != kind:
            _keep_type(function, argument, kind)
    names = argument_names(function)
    shown = _symbolic(module, dict(zip(names, kinds, strict=True)))
    shapes = (getattr(argument.type, "shape", ()) for argument in arguments)
    if options := options_for(zip(names, shapes, strict=True)):
        message = f"sizes of its arguments are not fixed: {shown}"
        hint = f"set them, with your numbers: {options}"
        raise fail("unsupported-shape", request.shown, message, hint)
    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    try:
        made = _jax.mlir.refine_polymorphic_shapes(stream.getvalue(), True, True)
    except Exception as error:  # The class of the bindings has no public name.
        lines = [line for line in str(error).splitlines() if line.strip()]
        said = lines[0] if lines else type(error).__name__
        hint = f"set sizes that fit with --input-shape: {shown}" if shown else ""
        raise fail(
            "unsupported-shape", request.shown, f"shapes stay unknown: {said}", hint
        ) from None
    return ir.Module.parse(made, module.context)
