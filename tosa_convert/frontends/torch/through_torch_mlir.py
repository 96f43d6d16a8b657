"""Lowers a torch program by torch-mlir."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Final

from torch._subclasses.fake_tensor import UnsupportedOperatorException

from tosa_convert.frontends.process.request import Interface
from tosa_convert.frontends.torch.complex_pairs import (
    has_complex_tensors,
    refuse_complex_inputs,
    write_as_pairs,
)
from tosa_convert.frontends.torch.cut import Cutter
from tosa_convert.frontends.torch.decompositions import (
    composites,
    decompositions,
    decompositions_of,
)
from tosa_convert.frontends.torch.dialect import TO_TOSA, lower_or_list, to_tosa
from tosa_convert.frontends.torch.import_program import import_program
from tosa_convert.frontends.torch.indexing import select_by_tensors, use_views_of_aten
from tosa_convert.frontends.torch.integers import absent_types, wrong_operators
from tosa_convert.frontends.torch.refusals import (
    NO_TENSOR,
    OBJECT,
    control_flow,
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
from tosa_convert.records import NamedTuple, replace

#: Rounds in which torch's decompositions of what does not lower are added: one may use another.
_ROUNDS: Final = 4


class LoweredByDialect(NamedTuple):
    """The signature of a program that was written, and what was cut out of it."""

    names: Signature
    cutter: Cutter | None

    def add_cuts_to(self, interface: Interface) -> None:
        """Say in the interface of the program what was cut out of it."""
        if self.cutter is not None:
            self.cutter.add_to(interface)


def lower_and_write(program: Any, path: Path, *, partial: bool) -> LoweredByDialect:
    """Lower a program and write it as MLIR bytecode."""
    cutter = Cutter() if partial else None
    module, names = lower_program(program, cutter)
    # By name: MLIR would pass the whole of a constant to a file of Python.
    module.operation.write_bytecode(str(path))
    return LoweredByDialect(names, cutter)


def lower_program(program: Any, cutter: Cutter | None = None) -> tuple[Any, Signature]:
    """Lower a program to a module of TOSA with the function `main`; also return its signature.

    What torch-mlir does not lower is decomposed by torch where torch can, and tried again.
    """
    merge_tied(program)
    if refused := {**absent_types(program), **control_flow(program)}:
        raise NotLoweredError(refused)
    if cutter is None and (refused := data_dependent(program)):
        raise NotLoweredError(refused)
    select_by_tensors(program)
    use_views_of_aten(program)
    weight_bytes = sum(tensor.nbytes for tensor in program.state_dict.values())
    table = decompositions()
    found: dict[Unlowered, int] = {}
    left: dict[Unlowered, int] = {}
    for _ in range(_ROUNDS):
        try:
            decomposed, names, wrong = _decomposed(program, table)
        except AssertionError:
            if not found:
                raise
            break  # One of torch's own decompositions changes a tensor, which torch then refuses.
        if found_effects := effects(decomposed):
            # A decomposition may add them: what is known of the model says more.
            found = found or found_effects
            break
        try:
            module = import_program(decomposed)
            lower_or_list(module, to_tosa(weight_bytes))
        except NotLoweredError as error:
            # The first list names the operators as the model has them.
            found, left = found or {**wrong, **error.found}, error.found
            more = decompositions_of(row.operator for row in error.found)
            if all(operator in table for operator in more):
                break
            table = {**more, **table}
        else:
            if not wrong:
                return module, names
            found = found or wrong
            break
    if cutter is None:
        raise NotLoweredError(found)
    return _lower_without(program, cutter, found, left)


def _decomposed(program: Any, table: dict[Any, Any]) -> tuple[Any, Signature, dict[Unlowered, int]]:
    """Decompose a program and lift its state; also return its names and what is wrong in it.

    torch-mlir would lower what is wrong to other numbers.
    """
    inputs = input_names(program)
    names = Signature(inputs, output_names(program, inputs))
    dropouts = dropouts_between_layers(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if has_complex_tensors(program):
            refuse_complex_inputs(program)
            program = program.run_decompositions(composites())
            write_as_pairs(program)
        try:
            decomposed = program.run_decompositions(table)  # A copy.
        except UnsupportedOperatorException as error:
            raise NotLoweredError(not_traced(program, str(error.func))) from None
    wrong = {
        **objects(decomposed),
        **random_operators(decomposed),
        **dropouts,
        **wrong_operators(decomposed),
    }
    if any(row.reason == OBJECT for row in wrong):
        raise NotLoweredError(wrong)
    drop_numbers(decomposed, names)
    lift_state(decomposed, names)
    if not decomposed.graph_signature.output_specs:
        raise NotLoweredError({Unlowered(THE_MODEL, "", NO_TENSOR): 1})
    return decomposed, names, wrong


def _lower_without(
    program: Any, cutter: Cutter, found: dict[Unlowered, int], left: dict[Unlowered, int]
) -> tuple[Any, Signature]:
    """Lower a program without the operators that do not lower; return the module and the names."""
    places = {row.location for row in left}
    help_of = (row.operator for row in found if row.location not in places)
    table = {
        **decompositions_of(help_of),
        **decompositions(),
    }
    decomposed, names, wrong = _decomposed(program, table)
    wrong |= effects(decomposed)
    if wrong:
        raise NotLoweredError(
            {
                replace(row, reason=f"{row.reason}, and it cannot be cut out"): count
                for row, count in wrong.items()
            }
        )
    module = import_program(decomposed, cutter)
    cutter.lower(TO_TOSA)
    return module, names
