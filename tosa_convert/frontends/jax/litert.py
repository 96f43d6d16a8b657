"""Functions of JAX through TFLite, by litert-converter, which has some that we do not lower."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun
from litert_converter.mlir import ir, passmanager
from litert_converter.mlir._mlir_libs import converter_api_ext

from tosa_convert.errors import fail
from tosa_convert.frontends.jax.convert import (
    failures_of,
    made_function,
    not_lowered,
    write_example_arguments,
)
from tosa_convert.frontends.jax.lowering import Arguments, Traced, trace
from tosa_convert.frontends.jax.modules import changes, name_of
from tosa_convert.frontends.jax.source import Place, place_of_location, unused
from tosa_convert.frontends.process.request import PROGRAM_FILE, Interface, NotLowered, Request
from tosa_convert.frontends.process.run import run_converter
from tosa_convert.frontends.read_result import finish
from tosa_convert.frontends.tflite.edit_bytes import in_order
from tosa_convert.frontends.tflite.failing_operators import words_on_stderr
from tosa_convert.frontends.tflite.read import read_tflite
from tosa_convert.frontends.unlowered import line_of
from tosa_convert.graph.model import Graph
from tosa_convert.io.options import ReadOptions
from tosa_convert.records import dataclass, replace

_NAME: Final = "litert-converter"
#: The signature of the model.
_SIGNATURE: Final = "serving_default"
#: Dialects of what can be written as a TFLite model.
_DIALECTS: Final = ("tfl", "func", "arith", "builtin")
#: What helps where this route does not.
OWN_WAY: Final = "convert without --via litert-converter, where more primitives lower"
_NO_STATE: Final = "a call changes it, and TFLite models by litert-converter have no states"
_WITH_STATE: Final = "convert without --via litert-converter, which makes variables of states"
_NO_OPERATOR: Final = "litert-converter finds no operator of TFLite for it"
_LOOP: Final = "litert-converter cannot write a loop that uses values from outside of it"
_UNROLLED: Final = "scan(..., unroll=True) has no loop; or convert without --via litert-converter"
#: What the converter says of an operation that it cannot turn into one of TFLite.
_ILLEGAL: Final = re.compile(
    r"(?:^|passes: )(?:(?P<line>[^:\n]+:\d+):\d+: )?error: "
    r"failed to legalize operation '(?P<name>[\w.]+)'(?:.*?: (?P<types>\(.*))?",
    re.MULTILINE,
)
#: What a custom call of StableHLO calls.
_TARGET: Final = "call_target_name"
#: In the text of the dimensions of a gather.
_AXES: Final = re.compile(r"start_index_map = \[([\d, ]*)\]")
_VECTOR: Final = re.compile(r"index_vector_dim = (\d+)")
#: The limit of the calls that JAX writes into a location; those of libraries count, too.
_CALLS_OPTION: Final = "jax_traceback_in_locations_limit"


@dataclass(frozen=True)
class TfliteModel:
    """A model whose signature names arguments and results in0, in1, ..., out0, out1, ... in order.

    places: name of a tensor -> the location in the source of what makes it.
    """

    data: bytes
    places: dict[str, str]


def tflite_model(traced: Traced) -> TfliteModel | list[NotLowered]:
    """Return the TFLite model of a function, or the operators and states that prevent it."""
    if states := list(_changed_states(traced)):
        return states
    inputs = [f"in{index}" for index in range(len(traced.inputs))]
    outputs = [f"out{index}" for index in range(len(traced.outputs))]
    text = _stablehlo(traced)
    context = ir.Context()
    converter_api_ext.prepare_mlir_context(context)
    # It writes warnings about TensorFlow's kernels there, which say nothing about the function.
    with words_on_stderr(), context:
        module = ir.Module.parse(text)
        for operation in _operations(module):
            if operation.name == "stablehlo.gather":
                _bound(operation.operation)
        converter_api_ext.set_signature(module.operation, _SIGNATURE, inputs, outputs)
        config = converter_api_ext.ConvertToTFLConfig()
        config.canonicalizing_inf_as_min_max_float = False
        failure = ""
        try:
            converter_api_ext.run_convert_to_tfl_passes(module, passmanager.PassManager(), config)
        except ValueError as error:
            failure = str(error)
        if rows := _foreign(module):
            return rows
        if failure:
            return _illegal(failure)
        loops = _loops(module)
        places = _named(module)
        try:
            data = converter_api_ext.export_flatbuffer_to_bytes(module.operation)
        except ValueError as error:
            return loops or _illegal(str(error))
    return TfliteModel(in_order(data, inputs, outputs), places)


@contextmanager
def _all_calls() -> Iterator[None]:
    """JAX writes all calls into locations, so that those of the user's files are among them."""
    before = getattr(jax.config, _CALLS_OPTION)
    jax.config.update(_CALLS_OPTION, -1)
    try:
        yield
    finally:
        jax.config.update(_CALLS_OPTION, before)


def _stablehlo(traced: Traced) -> str:
    """Return the function as text of StableHLO; the state, which no call changes, is constant."""
    leaves = jax.tree.leaves(traced.state.tree)
    whole = jaxpr_as_fun(traced.jaxpr)

    def main(*arrays: Any) -> Any:
        return whole(*leaves, *arrays)[: len(traced.outputs)]

    avals = traced.jaxpr.in_avals[len(leaves) :]
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    with _all_calls():
        lowered = jax.jit(main, keep_unused=True).lower(*shapes)
        text: str = lowered.as_text(debug_info=True)
    return text


def _changed_states(traced: Traced) -> Iterator[NotLowered]:
    for index, is_changed in enumerate(changes(traced.state, traced.jaxpr.jaxpr)):
        if is_changed:
            name = name_of(traced.state, index)
            yield NotLowered(operator=name, reason=_NO_STATE, hint=_WITH_STATE)


def _foreign(module: Any) -> list[NotLowered]:
    """Return the operations that stayed in other dialects, each kind once."""
    places: dict[str, list[Place]] = {}

    def visit(operation: Any) -> Any:
        if operation.name.partition(".")[0] in _DIALECTS:
            return ir.WalkResult.ADVANCE
        name = operation.name
        if _TARGET in operation.attributes:
            name = f"{name} of {operation.attributes[_TARGET].value}"
        places.setdefault(name, []).append(place_of_location(str(operation.location)))
        return ir.WalkResult.SKIP

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return [_row(name, found, _NO_OPERATOR, OWN_WAY) for name, found in places.items()]


def _operations(module: Any) -> list[Any]:
    """Return the operations of a module, each before those in it."""
    found: list[Any] = []

    def visit(operation: Any) -> Any:
        found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _loops(module: Any) -> list[NotLowered]:
    found = [
        place_of_location(str(operation.location))
        for operation in _operations(module)
        if operation.name == "tfl.while"
    ]
    return [_row("while", found, _LOOP, _UNROLLED)] if found else []


def _row(name: str, places: list[Place], reason: str, hint: str) -> NotLowered:
    return NotLowered(
        operator=name, where=str(places[0]), count=len(places), reason=reason, hint=hint
    )


def _illegal(text: str) -> list[NotLowered]:
    """Return the operations that the converter's message names."""
    rows = [
        NotLowered(
            operator=found["name"],
            where=found["line"] or "",
            reason=_NO_OPERATOR + (f" of the types {found['types']}" if found["types"] else ""),
            hint=OWN_WAY,
        )
        for found in _ILLEGAL.finditer(text)
    ]
    if not rows:
        lines = text.strip().splitlines() or ["it fails without a reason"]
        raise fail("frontend-failed", "litert-converter", lines[0], OWN_WAY)
    return rows


def _named(module: Any) -> dict[str, str]:
    """Give each operation a name, which its tensor gets; returns the place of each by name."""
    taken: set[str] = set()
    places: dict[str, str] = {}
    for operation in _operations(module):
        if operation.name == "func.return":
            for index, value in enumerate(operation.operands):
                maker = value.owner
                made_by = getattr(getattr(maker, "location", None), "name_str", "")
                if made_by in places:
                    places[f"{_SIGNATURE}_out{index}_output"] = places[made_by]
        elif len(operation.results):
            place = place_of_location(str(operation.location))
            name = unused(place.scope or operation.name, taken)
            operation.location = ir.Location.name(name)
            if place.file:
                places[name] = place.location("", True)
    return places


def _bound(gather: Any) -> None:
    """Clamp the positions of a gather of StableHLO: TFLite leaves those outside of the operand open."""
    operand, positions = gather.operands
    kind = ir.RankedTensorType(positions.type)
    sign, _, bits = str(kind.element_type).rpartition("i")
    element = np.dtype(f"{sign}int{bits}")
    highest = _highest(gather, ir.RankedTensorType(operand.type).shape, kind.shape)
    with ir.InsertionPoint(gather), gather.location:
        low, high = (
            ir.Operation.create(
                "stablehlo.constant",
                results=[kind],
                attributes={"value": ir.DenseElementsAttr.get(array.astype(element), type=kind)},
            ).result
            for array in (np.zeros(kind.shape), highest)
        )
        bounded = ir.Operation.create(
            "stablehlo.clamp", results=[kind], operands=[low, positions, high]
        )
    gather.operands[1] = bounded.result


def _highest(gather: Any, sizes: list[int], shape: list[int]) -> Any:
    """Return the greatest position of each slice that is within the operand."""
    dimensions = str(gather.attributes["dimension_numbers"])
    axes_found, vector_found = _AXES.search(dimensions), _VECTOR.search(dimensions)
    axes = [int(word) for word in axes_found[1].split(",")] if axes_found else []
    # The text leaves a number out that is 0.
    vector = int(vector_found[1]) if vector_found else 0
    slices = list(gather.attributes["slice_sizes"])
    limits = [sizes[axis] - slices[axis] for axis in axes]
    if vector == len(shape):
        return np.full(shape, limits[0])
    along = [-1 if axis == vector else 1 for axis in range(len(shape))]
    return np.ascontiguousarray(np.broadcast_to(np.reshape(limits, along), shape))


def lower(request: Request, folder: Path) -> Interface:
    """Lower the function that a factory in a Python file returns, with its example arguments."""
    path = Path(request.source)
    function, arguments = made_function(path, request)
    with failures_of(path):
        traced = trace(function, arguments, shapes=request.input_shapes)
    model = tflite_model(traced)
    if not isinstance(model, TfliteModel):
        return Interface(not_lowered=model)
    write_example_arguments(request, folder, arguments)
    return _lowered(model, traced, folder, request.member)


def graph_of(
    function: Callable[..., Any],
    arguments: Arguments,
    names: Sequence[str] | None,
    has_full_paths: bool,
    exact: bool,
) -> Graph:
    """Return the program of a function of this process; see `tosa_convert.frontends.from_jax`."""
    traced = trace(function, arguments, names)
    model = tflite_model(traced)
    if not isinstance(model, TfliteModel):
        raise not_lowered(function, model)
    name = getattr(function, "__name__", type(function).__name__)
    with tempfile.TemporaryDirectory(
        prefix="tosa-frontend-", ignore_cleanup_errors=True
    ) as scratch:
        folder = Path(scratch)
        interface = _lowered(model, traced, folder, "model")
        request = Request(frontend=_NAME, source=str(folder / interface.model), shown=name)
        options = ReadOptions(full_paths=has_full_paths, exact=exact, copy=True)
        return finish(request, interface, folder, options)


def _lowered(model: TfliteModel, traced: Traced, folder: Path, name: str) -> Interface:
    """Lower a TFLite model, in a process of its own: the converter forks, which JAX forbids."""
    inner = folder / "tflite"
    inner.mkdir()
    path = inner / f"{name}.tflite"
    path.write_bytes(model.data)
    interface = run_converter(Request(frontend="tflite", source=str(path), shown=name), inner)
    program = inner / PROGRAM_FILE
    if program.exists():
        program.rename(folder / PROGRAM_FILE)
    interface.inputs, interface.outputs = traced.inputs, traced.outputs
    interface.places, interface.operators = model.places, {}
    # They are about metadata of the TFLite model, which the user does not see.
    interface.remarks = []
    if interface.not_lowered:
        interface.not_lowered = list(_with_lines(interface.not_lowered, model))
    return interface


def _with_lines(rows: Sequence[NotLowered], model: TfliteModel) -> Iterator[NotLowered]:
    """Iterate over operators of a TFLite model that do not lower, with their source lines."""
    names = {index: name for name, index in read_tflite(model.data).operator_making().items()}
    for row in rows:
        name = "" if row.index is None else names.get(row.index, "")
        where = line_of(model.places.get(name, "")) or row.where
        yield replace(row, where=where, hint=row.hint or OWN_WAY)
