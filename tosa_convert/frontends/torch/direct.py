"""Lowers an exported torch program by the walk: decomposed, and with its state lifted."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Final

from torch._subclasses.fake_tensor import UnsupportedOperatorException

from tosa_convert.frontends.process.request import Cut, Interface, Value
from tosa_convert.frontends.torch.complex_pairs import (
    has_complex_tensors,
    refuse_complex_inputs,
    write_as_pairs,
)
from tosa_convert.frontends.torch.decompositions import composites, direct_decompositions
from tosa_convert.frontends.torch.export import placeholder_values
from tosa_convert.frontends.torch.indexing import select_by_tensors, use_views_of_aten
from tosa_convert.frontends.torch.integers import absent_types
from tosa_convert.frontends.torch.refusals import (
    NO_TENSOR,
    data_dependent,
    dropouts_between_layers,
    effects,
    not_traced,
    objects,
    random_operators,
)
from tosa_convert.frontends.torch.signature import (
    Signature,
    drop_numbers,
    input_names,
    lift_state,
    merge_tied,
    output_names,
)
from tosa_convert.frontends.torch.unlowered_report import THE_MODEL, NotLoweredError, Unlowered
from tosa_convert.frontends.torch.walk import Walk
from tosa_convert.graph.model import Graph
from tosa_convert.records import NamedTuple, replace

_OPEN: Final = "it has sizes that are not fixed"
_FIX: Final = "give them numbers: --input-shape"


class Lowered(NamedTuple):
    """A program of TOSA, its signature, and the walk that made it."""

    graph: Graph
    names: Signature
    walk: Walk

    def add_cuts_to(self, interface: Interface) -> None:
        """Say in the interface of the program what was cut out of it."""
        cuts = self.walk.cuts
        if not cuts:
            return
        inputs, outputs = len(interface.inputs), len(interface.outputs)
        for number, one in enumerate(cuts):
            label = f"{one.operator}.{number}"
            count = len(one.results)
            names = [label] if count == 1 else [f"{label}.{n}" for n in range(count)]
            interface.inputs += [Value(name=name) for name in names]
        states = sum(state.result is not None for state in interface.states)
        more = len(self.graph.main.outputs) - outputs - states
        interface.outputs += [Value(name=f"operand.{number}") for number in range(more)]
        interface.cut = Cut(inputs=inputs, outputs=tuple(range(outputs)), operators=tuple(cuts))


def lower_directly(program: Any, narrow: Sequence[str], *, partial: bool = False) -> Lowered:
    """Lower a program. Raises NotLoweredError with all operators that do not lower.

    narrow: the element types that are narrowed afterwards. partial: cut out what does not lower.
    """
    merge_tied(program)
    if any(
        not isinstance(size, int)
        for value in placeholder_values(program).values()
        for size in value.shape
    ):
        raise NotLoweredError({Unlowered(THE_MODEL, "", _OPEN, _FIX): 1})
    refused = {**absent_types(program), **({} if partial else data_dependent(program))}
    if refused:
        raise NotLoweredError(refused)
    select_by_tensors(program)
    use_views_of_aten(program)
    decomposed, names, wrong = _decomposed(program)
    if wrong and partial:
        stuck = {
            replace(row, reason=f"{row.reason}, and it cannot be cut out"): count
            for row, count in wrong.items()
        }
        raise NotLoweredError(stuck)
    walk = Walk(narrow, partial)
    walk.problems.update(wrong)
    graph = walk.program(decomposed)
    if walk.problems:
        raise NotLoweredError(dict(walk.problems))
    return Lowered(graph, names, walk)


def _decomposed(program: Any) -> tuple[Any, Signature, dict[Unlowered, int]]:
    """Decompose a program and lift its state; also return its names and what nothing lowers."""
    inputs = input_names(program)
    names = Signature(inputs, output_names(program, inputs))
    dropouts = dropouts_between_layers(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if has_complex_tensors(program):
                refuse_complex_inputs(program)
                program = program.run_decompositions(composites())
                write_as_pairs(program)
            decomposed = program.run_decompositions(direct_decompositions())
        except UnsupportedOperatorException as error:
            raise NotLoweredError(not_traced(program, str(error.func))) from None
    wrong = {
        **objects(decomposed),
        **random_operators(decomposed),
        **dropouts,
        **effects(decomposed),
    }
    drop_numbers(decomposed, names)
    lift_state(decomposed, names)
    if not decomposed.graph_signature.output_specs:
        raise NotLoweredError({Unlowered(THE_MODEL, "", NO_TENSOR): 1})
    return decomposed, names, wrong
