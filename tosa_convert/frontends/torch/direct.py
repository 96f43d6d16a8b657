"""Lowers an exported torch program by the walk: decomposed, and with its state lifted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch._subclasses.fake_tensor import UnsupportedOperatorException
from torch.export.graph_signature import SymIntArgument
from torch.utils import _pytree as pytree

from tosa_convert.frontends.lowering.open_sizes import differs, lowered_openly, trial_sizes
from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.frontends.process.request import NotLowered as Unlowered
from tosa_convert.frontends.torch.export import (
    bounds_of,
    placeholder_values,
    symbols_of,
    with_sizes,
)
from tosa_convert.frontends.torch.facts import drop_checks
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
from tosa_convert.frontends.torch.table import decompositions, use_views_of_aten
from tosa_convert.frontends.torch.walk import Walk
from tosa_convert.frontends.unlowered import THE_MODEL, unlowered
from tosa_convert.graph.model import Graph

_OPEN: Final = "it has sizes that are not fixed"
_NUMBER: Final = "it is a number that is not fixed, and programs take tensors only"
_FIX: Final = "give them numbers: --input-shape"


class Lowered(NamedTuple):
    """A program of TOSA, its signature, and the walk that made it."""

    graph: Graph
    names: Signature
    walk: Walk


def lower_directly(program: Any, narrow: Sequence[str], *, partial: bool = False) -> Lowered:
    """Lower a program. Raises NotLoweredError with all operators that do not lower.

    narrow: the element types that are narrowed afterwards. partial: cut out what does not lower.
    """
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
    """Lower a program whose sizes are fixed."""
    refused = absent_types(program) + complex_inputs(program)
    refused += [] if partial else data_dependent(program)
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
    drop_checks(decomposed)
    wrong = objects(decomposed) + dropouts + effects(decomposed)
    drop_numbers(decomposed, names)
    lift_state(decomposed, names)
    if not decomposed.graph_signature.output_specs:
        raise NotLoweredError(unlowered(THE_MODEL, "", NO_TENSOR))
    return decomposed, names, wrong
