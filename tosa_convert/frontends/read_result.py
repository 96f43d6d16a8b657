"""From what a converter wrote to a Graph: names, states, repairs, and what did not lower."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tosa_convert import rewrites
from tosa_convert.errors import MAX_FINDINGS, Finding, TosaConvertError, fail
from tosa_convert.formats.read import Input, open_input, read_narrowed
from tosa_convert.frontends.process.request import (
    PROGRAM_FILE,
    STATE_FILE,
    Cut,
    Interface,
    NotLowered,
    Request,
    State,
    Value,
    options_for,
)
from tosa_convert.frontends.unlowered import line_of, name_of, place_text
from tosa_convert.graph.constant import Constant, constant_of
from tosa_convert.graph.derived import rename_in_order, unused_name, with_main
from tosa_convert.graph.dtypes import INT64
from tosa_convert.graph.model import DYNAMIC, Block, Graph, Operator, Tensor, counted
from tosa_convert.graph.opset import IDENTITY, VARIABLE_READ, VARIABLE_WRITE
from tosa_convert.graph.static_shapes import open_inputs
from tosa_convert.graph.verify import refuse_unsound
from tosa_convert.io import log
from tosa_convert.io.options import ReadOptions
from tosa_convert.rewrites.table import EXACT
from tosa_convert.rules.infer import infer
from tosa_convert.rules.validate import Validator

if TYPE_CHECKING:
    from tosa_convert.formats.read import Narrowing


# -- changes of a lowered program's main block: outputs of their own, and states as variables ------
# Converters return an argument, or one value twice, where a framework has several outputs with
# one value.


def with_own_outputs(graph: Graph, kept: Collection[int] = ()) -> Graph:
    """Add an IDENTITY for each result that is an argument or an earlier result.

    Example:
        >>> from tosa_convert.builder import Builder
        >>> b = Builder()
        >>> x = b.input("x", "fp32", (4,))
        >>> b.output(x)
        >>> print(with_own_outputs(b.graph()).main)
        block "main": (x: FP32 [4]) -> (x_output: FP32 [4])
          x_output = IDENTITY(x) : FP32 [4]
    """
    main = graph.main
    taken = set(main.inputs)
    outputs: list[str] = []
    copies: list[Operator] = []
    tensors = dict(main.tensors)
    places = {name: one.location for one in main.operators for name in one.outputs}
    for position, name in enumerate(main.outputs):
        if name in taken and position not in kept and name in tensors:
            copy = unused_name(f"{name}_output", {*tensors, *main.shapes})
            tensors[copy] = Tensor(copy, tensors[name].dtype, tensors[name].shape)
            copies.append(Operator(IDENTITY, (name,), (copy,), {}, places.get(name, "")))
            name = copy
        taken.add(name)
        outputs.append(name)
    if not copies:
        return graph
    block = replace(main, outputs=outputs, operators=[*main.operators, *copies], tensors=tensors)
    return with_main(graph, block)


def with_states(graph: Graph, interface: Interface, folder: Path) -> Graph:
    """Make each state of a converter a variable, in place of argument and result."""
    arrays = _arrays(folder / STATE_FILE)
    main = graph.main
    block = replace(main, operators=list(main.operators), tensors=dict(main.tensors))
    reads: list[Operator] = []
    for state in interface.states:
        argument, result = _value(main.inputs, state.argument), _value(main.outputs, state.result)
        if argument is None and result is None:
            raise fail("frontend-failed", state.name, "the program neither reads nor writes it")
        like = main.tensors[str(argument if argument is not None else result)]
        name = unused_name(state.name, {*block.tensors, *block.shapes})
        block.tensors[name] = Tensor(
            name,
            like.dtype,
            like.shape,
            _initial(arrays, state, like),
            variable=True,
            variable_name=state.name,
        )
        if argument is not None:
            reads.append(Operator(VARIABLE_READ, (name,), (argument,)))
        if result is not None:
            block.operators.append(Operator(VARIABLE_WRITE, (result,), (name,)))
    block.operators[:0] = reads
    gone = {state.argument for state in interface.states}, {s.result for s in interface.states}
    block.inputs = [name for index, name in enumerate(main.inputs) if index not in gone[0]]
    block.outputs = [name for index, name in enumerate(main.outputs) if index not in gone[1]]
    return with_main(graph, block)


def _value(names: list[str], position: int | None) -> str | None:
    return None if position is None else names[position]


def _arrays(path: Path) -> Mapping[str, Any]:
    import zipfile

    try:
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        message = f"the initial values of its states cannot be read: {error}"
        raise fail("frontend-failed", STATE_FILE, message, "please report it") from None


def _initial(arrays: Mapping[str, Any], state: State, like: Tensor) -> Constant:
    """Return the value of a state before the first call."""
    array = arrays.get(state.array)
    if array is None or array.shape != like.shape:
        found = "no value" if array is None else f"a value of the shape {list(array.shape)}"
        message = f"the state has {found}, the program has {like.type_text()}"
        raise fail("frontend-failed", state.name, message, "please report it")
    if array.dtype.kind == "V" and array.dtype.itemsize == like.dtype.numpy.itemsize:
        array = array.view(like.dtype.numpy)
    try:
        return constant_of(array, like.dtype)
    except ValueError as error:
        message = f"the state has {array.dtype} values: {error}"
        raise fail("value-out-of-range", state.name, message) from None


_NO_INTERFACE: Final = Interface()


def finish(request: Request, interface: Interface, folder: Path, options: ReadOptions) -> Graph:
    """Read the program of a converter, with the framework's names and with states as variables."""
    for remark in interface.remarks:
        log.warning("%s", remark)
    if interface.not_lowered:
        raise _listed(interface.not_lowered, request, interface)
    with log.timed("reading the program"):
        graph, narrowing = _program(request, interface, folder, options)
    if interface.states:
        graph = with_states(graph, interface, folder)
    named = partial(_values_of_model, graph, interface)
    for line in narrowing.report(named) if narrowing else ():
        log.warning("%s", line)
    graph = _named(graph, interface, request.frontend)
    with log.timed("rewriting it"):
        graph, report = rewrites.apply(graph, *(EXACT if options.exact else ()))
    with log.timed("validating it"):
        refuse_forbidden(graph, request.shown or request.source, interface)
    for change in report.changes:
        log.debug("%s", change)
    for line in _beyond_1_0(graph, interface):
        log.warning("%s", line)
    return graph


def refuse_forbidden(graph: Graph, source: str, interface: Interface = _NO_INTERFACE) -> None:
    """Refuse a program that TOSA forbids, by the names of the model's operators."""
    columns = refuse_unsound(graph)
    rows = list(islice(Validator(graph, columns=columns).findings(), MAX_FINDINGS))
    if rows:
        raise TosaConvertError(_forbidden(row, source, interface) for row in rows)


def _forbidden(found: Finding, source: str, interface: Interface) -> Finding:
    """Return a finding of the rules as one about an operator of the model."""
    tensor = name_of(found.where)
    index = interface.operators.get(tensor)
    where = line_of(found.where)
    if index is not None:
        where = place_text(index, tensor)
    kind = interface.kinds.get(tensor, "")
    made = f"{kind or 'it'} would become what TOSA forbids: {found.message}"
    other = "write it with other operators, or leave it to the caller"
    is_long = "INT64" in found.message
    hint = found.hint or ("to compute in 32 bits: --narrow i64" if is_long else other)
    where = f"{source}: {where or found.where}"
    return replace(found, code="not-lowered", where=where, message=made, hint=hint)


def _beyond_1_0(graph: Graph, interface: Interface) -> Iterator[str]:
    """Say what a model brings that TOSA 1.0 does not have, and which option leaves it out."""
    for name, sizes in open_inputs(graph):
        begin = f"the input {name} has sizes that are not fixed"
        # What torch says has the bounds of the sizes, too.
        if not any(remark.startswith(f"{begin}:") for remark in interface.remarks):
            option = shlex.join(["--input-shape", f"{name}={sizes.replace('?', '1')}"])
            yield f"{begin}: {sizes}; set them when you convert: {option}"
    yield from _sizes_that_do_not_fit(graph)
    found = {
        name: None
        for _, block in graph.blocks()
        for name, tensor in block.tensors.items()
        if tensor.dtype is INT64
    }
    if found:
        values = _values_of_model(graph, interface, list(found))
        yield (
            f"{counted(len(found), 'tensor')} of INT64 {'needs' if len(found) == 1 else 'need'} "
            f"EXT-INT64 of TOSA 1.1: {values}; to compute in 32 bits instead: --narrow i64"
        )


#: Sizes of batches and of other dimensions that are not fixed: what frontends try, and their neighbours.
_SIZES: Final = ((3, 96), (4, 96), (3, 97))


def _sizes_that_do_not_fit(graph: Graph) -> Iterator[str]:
    """Say for which sizes of open inputs the operators do not fit: strides divide only some."""
    shapes = {name: graph.main.tensors[name].shape for name, _ in open_inputs(graph)}

    def refusal(batch: int, others: int) -> str:
        given = {
            name: tuple((others if axis else batch) if n == DYNAMIC else n for axis, n in row)
            for name, row in ((name, enumerate(shape or ())) for name, shape in shapes.items())
        }
        try:
            infer(graph, given)
        except TosaConvertError as error:
            first = error.findings[0]
            sizes = ", ".join(f"{name}={'x'.join(map(str, row))}" for name, row in given.items())
            return f"not all sizes fit the program; with {sizes}, {first.where}: {first.message}"
        return ""

    if shapes and None not in shapes.values() and not refusal(*_SIZES[0]):
        yield from filter(None, (refusal(*sizes) for sizes in _SIZES[1:]))


def _values_of_model(graph: Graph, interface: Interface, values: list[str]) -> str:
    """Return how the model names values: inputs, outputs, states and lines; others are counted."""
    main = graph.main
    names = {
        name: value.name
        for values_of_program, values_of_model in (
            (main.outputs, interface.outputs),
            (main.inputs, interface.inputs),
        )
        for name, value in zip(values_of_program, values_of_model, strict=False)
    }
    for op in (op for _, block in graph.blocks() for op in block.operators):
        state = op.inputs[0] if op.spec is VARIABLE_READ else ""
        place = main.tensors[state].variable_name if state in main.tensors else ""
        line = line_of(op.location)  # Files that are not text have line 0.
        place = place or (line if line and not line.endswith(":0") else name_of(op.location))
        for name in op.outputs if place else ():
            names.setdefault(name, place)
    listed = list(dict.fromkeys(names[name] for name in values if name in names))
    inside = sum(name not in names for name in values)
    return ", ".join([*listed, *([f"and {inside} without a name"] if inside else ())])


def _program(
    request: Request, interface: Interface, folder: Path, options: ReadOptions
) -> tuple[Graph, Narrowing | None]:
    """Read the program as the converter wrote it, and what was narrowed."""
    # A mapped file cannot be removed on Windows, and the folder is temporary.
    copy = options.copy or os.name == "nt"
    if interface.whole is not None:
        from tosa_convert.frontends.partial import joined

        if options.narrow:
            message = f"programs of {request.frontend} have no types that can be narrowed"
            raise fail("option-conflict", "--narrow", message, "leave the option out")
        plain = ReadOptions(limits=options.limits, copy=copy)
        return joined(interface.whole, folder, plain, request.frontend), None
    path = folder / PROGRAM_FILE
    if not path.exists():
        message = f"the converter wrote no {PROGRAM_FILE}"
        raise fail("frontend-failed", request.frontend, message, "please report it")
    func = interface.function or None
    options = replace(options, func=func, input_shapes={}, pass_captured=True, copy=copy)
    return read_program(open_input(path, options, where=request.shown or request.source), options)


def read_program(opened: Input, options: ReadOptions) -> tuple[Graph, Narrowing]:
    """Read the program, and note what was narrowed; if two values have one name, all are generated."""
    try:
        return read_narrowed(opened, options)
    except TosaConvertError as error:
        if any(finding.code != "duplicate-name" for finding in error.findings):
            raise
        return read_narrowed(opened, replace(options, names="generate"))


def _listed(rows: list[NotLowered], request: Request, interface: Interface) -> TosaConvertError:
    from tosa_convert.frontends import unlowered as leftovers

    for value in interface.inputs:
        if -1 in (value.shape or ()) and value.name not in request.input_shapes:
            log.warning(
                "the input %s has sizes that are not fixed, and more operators lower once they are: %s",
                value.name,
                options_for([(value.name, value.shape or ())]),
            )

    return TosaConvertError(leftovers.findings(rows, request.shown or request.source))


def _named(graph: Graph, interface: Interface, name: str) -> Graph:
    """Return the graph with the framework's names, and in the order of the user's model."""
    main = graph.main
    _order(main, interface)
    for what, given, found in (
        ("inputs", interface.inputs, main.inputs),
        ("outputs", interface.outputs, main.outputs),
    ):
        if len(given) != len(found):
            message = f"the program has {len(found)} {what}, the converter names {len(given)}"
            raise fail("frontend-failed", name, message, "please report it")
    names = [value.name for value in interface.inputs]
    output_names = [value.name for value in interface.outputs]
    kept: set[int] = set()
    if interface.cut is not None:
        arguments = _given_to_caller(main, interface.cut)
        # What a cut operator gives to the caller has the output's name. What it takes is any value.
        for place, position in arguments.items():
            names[position] = output_names[place]
        returned = set(interface.cut.outputs) - arguments.keys()
        kept = set(range(len(output_names))) - returned
    return rename_in_order(with_own_outputs(graph, kept), names, output_names)


def _order(main: Block, interface: Interface) -> None:
    """Put inputs and outputs of a program and of its interface in the order of the model, in place."""
    if interface.cut is not None:
        return
    rows: list[tuple[list[int], list[str], list[Value]]] = [
        (interface.input_order, main.inputs, interface.inputs),
        (interface.output_order, main.outputs, interface.outputs),
    ]
    for order, names, values in rows:
        if order and len(names) == len(values) == len(order):
            names[:] = [names[position] for position in order]
            values[:] = [values[position] for position in order]


def _given_to_caller(main: Block, cut: Cut) -> dict[int, int]:
    """Map the place of an output to the argument of a cut operator that it is, each at most once."""
    arguments = {
        name: position
        for position, name in enumerate(main.inputs)
        if position >= cut.inputs and -1 - position not in cut.outputs
    }
    return {
        place: arguments.pop(main.outputs[place])
        for place in cut.outputs
        if place >= 0 and main.outputs[place] in arguments
    }
