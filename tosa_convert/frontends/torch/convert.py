"""Lowers a torch program to TOSA: decomposed, with its state lifted, node by node."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch._subclasses.fake_tensor import UnsupportedOperatorException
from torch.export.graph_signature import SymIntArgument
from torch.utils import _pytree as pytree

from tosa_convert.frontends.lower_model import write_examples, write_program
from tosa_convert.frontends.lowering.open_sizes import differs, lowered_openly, trial_sizes
from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.frontends.process.request import (
    Interface,
    Request,
    Value,
    say_stage,
)
from tosa_convert.frontends.process.request import NotLowered as Unlowered
from tosa_convert.frontends.torch.decompositions import decompositions, use_views_of_aten
from tosa_convert.frontends.torch.export import (
    arrays_of,
    bounds_of,
    drop_checks,
    example_tensors,
    float_remarks,
    load_program,
    open_size_remarks,
    placeholder_values,
    remarks_of,
    said_by_torch,
    scatter_remarks,
    symbols_of,
    training_remarks,
    value_of_tensor,
    with_sizes,
    write_runnable,
    write_states,
)
from tosa_convert.frontends.torch.refusals import (
    NO_TENSOR,
    NotLoweredError,
    absent_types,
    complex_inputs,
    data_dependent,
    dropouts_between_layers,
    effects,
    not_traced,
    objects,
    writes_into_expanded,
)
from tosa_convert.frontends.torch.signature import (
    Signature,
    drop_numbers,
    input_names,
    lift_state,
    merge_tied,
    output_names,
    user_inputs,
)
from tosa_convert.frontends.torch.walk import Walk
from tosa_convert.frontends.unlowered import THE_MODEL, grouped, unlowered
from tosa_convert.graph.model import Graph


def warm_up() -> None:
    """Import what the first export imports; for a process that many models share."""
    program = torch.export.export(torch.nn.ReLU(), (torch.zeros(1),))
    program.run_decompositions(decompositions())


def lower(request: Request, folder: Path) -> Interface:
    """Lower the program of a `.pt2` file or of a factory; see `Interface`."""
    runnable = write_runnable(request, folder)
    program = load_program(request)
    write_examples(request, folder, arrays_of(example_tensors(program)))
    return lower_program(program, request, folder, runnable)


def lower_program(program: Any, request: Request, folder: Path, runnable: str) -> Interface:
    """Lower a program. runnable: what runs the model, as a name in the folder."""
    dropped = drop_checks(program)
    remarks = scatter_remarks(program)
    say_stage(folder, "lowering the model")
    try:
        found = lower_directly(program, request.narrow, partial=request.partial)
    except NotLoweredError as error:
        return Interface(not_lowered=grouped(error.found, "torch"), remarks=remarks_of(program))
    write_program(found.graph, folder)
    names, tensors = found.names, placeholder_values(program)
    interface = Interface(
        model=runnable,
        inputs=[value_of_tensor(name, tensors[name]) for name in names.inputs],
        outputs=[
            Value(name=name) for name in (*names.outputs, *map(_changed, names.changed_inputs))
        ],
        remarks=[
            *dropped,
            *training_remarks(program),
            *open_size_remarks(program),
            *float_remarks(program),
            *remarks,
            *(f"{number}, which is not a tensor and is left out" for number in names.numbers),
            *(
                f"the program writes to its input {name}: its new value is the output {_changed(name)}"
                for name in names.changed_inputs
            ),
        ],
        states=write_states(names.states, folder),
    )
    if found.walk.cutter is not None:
        found.walk.cutter.add_to(interface)
    return interface


def _changed(name: str) -> str:
    return f"{name}_changed"


# -- an exported program as a program of TOSA ------------------------------------------------------

_OPEN: Final = "it has sizes that are not fixed"
_NUMBER: Final = "it is a number that is not fixed, and programs take tensors only"
_FIX: Final = "give them numbers: --input-shape"


class Lowered(NamedTuple):
    """A program of TOSA, its signature, and the walk that made it."""

    graph: Graph
    names: Signature
    walk: Walk


def lower_directly(program: Any, narrow: Sequence[str], *, partial: bool = False) -> Lowered:
    """Lower a program; raise NotLoweredError with all that does not lower. partial: cut that out."""
    merge_tied(program)
    if not (found := _open_dimensions(program)):
        return _lowered(program, narrow, partial=partial)
    if partial:
        raise NotLoweredError(unlowered(THE_MODEL, "", _OPEN, _FIX))
    _refuse_open_numbers(program)
    tried: list[Lowered] = []

    def lower(trial: int) -> Graph:
        of_trial = {str(symbol): pair[trial] for symbol, pair in sizes.items()}
        tried.append(_lowered(with_sizes(program, of_trial), narrow))
        return tried[-1].graph

    try:
        sizes = trial_sizes(found, bounds_of(program))
        _refuse_settled_sizes(program, sizes)
        graph = lowered_openly(lower)
    except NotLowered as problem:
        row = unlowered(THE_MODEL, "", problem.reason, problem.advice)
        raise NotLoweredError(row) from None
    assert graph is not None
    names = tried[0].names
    names.inputs = input_names(program)
    return Lowered(graph, names, tried[0].walk)


def _open_dimensions(program: Any) -> list[tuple[Any, bool]]:
    """Return the symbols of sizes that are not fixed, and whether each is of a first dimension."""
    return [
        (str(symbol), axis == 0)
        for value in placeholder_values(program).values()
        for axis, size in enumerate(value.shape)
        if not isinstance(size, int)
        for symbol in symbols_of(size)
    ]


def _refuse_settled_sizes(program: Any, sizes: Mapping[Any, tuple[int, int]]) -> None:
    """Refuse sizes and numbers that depend on open sizes, and are the same for both that are tried."""
    for node in program.graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            for size in value.shape if isinstance(value, torch.Tensor) else [value]:
                if not isinstance(size, (torch.SymInt, torch.SymFloat)):
                    continue
                symbols = symbols_of(size)
                if any(str(symbol) not in sizes for symbol in symbols):
                    continue
                one, other = (
                    size.node.expr.subs({symbol: sizes[str(symbol)][trial] for symbol in symbols})
                    for trial in (0, 1)
                )
                if symbols and one == other:
                    raise differs(f"{size} ({node.name})")


def _refuse_open_numbers(program: Any) -> None:
    """Refuse inputs that are numbers whose values are not fixed: TOSA's are tensors."""
    names = [spec.arg.name for spec in user_inputs(program, SymIntArgument)]
    if names:
        advice = "give the example arguments a number of Python that stays as it is"
        raise NotLoweredError(*(unlowered(f"the input {n}", "", _NUMBER, advice) for n in names))


def _lowered(program: Any, narrow: Sequence[str], *, partial: bool = False) -> Lowered:
    refused = absent_types(program) + complex_inputs(program)
    refused += writes_into_expanded(program) + data_dependent(program)
    if refused:
        raise NotLoweredError(*refused)
    use_views_of_aten(program)
    decomposed, names, wrong = _decomposed(program)
    if wrong and partial:
        for row in wrong:
            row.reason += ", and it cannot be cut out"
        raise NotLoweredError(*wrong)
    walk = Walk(narrow, partial)
    walk.problems += wrong
    graph = walk.program(decomposed)
    if walk.problems:
        raise NotLoweredError(*walk.problems)
    return Lowered(graph, names, walk)


def _decomposed(program: Any) -> tuple[Any, Signature, list[Unlowered]]:
    """Decompose a program and lift its state; also return its names and what nothing lowers."""
    inputs = input_names(program)
    names = Signature(inputs, output_names(program, inputs))
    dropouts = dropouts_between_layers(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            decomposed = program.run_decompositions(decompositions())
        except UnsupportedOperatorException as error:
            raise NotLoweredError(not_traced(program, str(error.func))) from None
        except Exception as error:  # Of torch.
            raise said_by_torch(error, "torch does not decompose it", THE_MODEL) from error
    drop_checks(decomposed)
    wrong = objects(decomposed) + dropouts + effects(decomposed)
    drop_numbers(decomposed, names)
    lift_state(decomposed, names)
    if not decomposed.graph_signature.output_specs:
        raise NotLoweredError(unlowered(THE_MODEL, "", NO_TENSOR))
    return decomposed, names, wrong
