"""Lowers a torch program to TOSA: `.pt2` files, and modules with example arguments."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch._subclasses.fake_tensor import UnsupportedOperatorException
from torch.export.graph_signature import InputKind

from tosa_convert.frontends.lower_model import write_examples
from tosa_convert.frontends.process.request import (
    PROGRAM_FILE,
    STATE_FILE,
    Interface,
    Request,
    State,
    Value,
    say_stage,
)
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
from tosa_convert.frontends.torch.dialect import (
    THE_MODEL,
    TO_TOSA,
    NotLoweredError,
    Unlowered,
    lower_or_list,
    to_tosa,
)
from tosa_convert.frontends.torch.export import (
    arrays_of,
    example_tensors,
    load_program,
    placeholder_values,
    write_runnable,
)
from tosa_convert.frontends.torch.facts import (
    drop_checks,
    float_remarks,
    open_size_remarks,
    remainder_remarks,
    remarks_of,
    scatter_remarks,
    training_remarks,
)
from tosa_convert.frontends.torch.import_program import import_program
from tosa_convert.frontends.torch.indexing import select_by_tensors, use_views_of_aten
from tosa_convert.frontends.torch.integers import absent_types, wrong_operators
from tosa_convert.frontends.torch.signature import (
    Signature,
    drop_numbers,
    input_names,
    lift_state,
    merge_tied,
    output_names,
)
from tosa_convert.frontends.torch.unlowered_report import locate, report
from tosa_convert.records import replace

#: Rounds in which torch's decompositions of what does not lower are added: one may use another.
_ROUNDS: Final = 4
_NO_TENSOR: Final = "it returns no tensor, and programs return nothing else"
_RANDOM: Final = "it draws random numbers"
#: Operators that take programs, as torch.export writes them.
_BRANCHES: Final = frozenset(
    ("cond", "while_loop", "scan", "associative_scan", "map_impl", "flex_attention")
)
_OBJECT: Final = "it is an object, and programs have tensors only"


def warm_up() -> None:
    """Import what the first export imports; for a process that many models share."""
    program = torch.export.export(torch.nn.ReLU(), (torch.zeros(1),))
    program.run_decompositions(decompositions())


def lower(request: Request, folder: Path) -> Interface:
    """Lower the program of a `.pt2` file or of a factory; see `Interface`."""
    say_stage(folder, "torch loads it")
    runnable = write_runnable(request, folder)
    program = load_program(request)
    dropped = drop_checks(program)
    remarks = [*scatter_remarks(program), *remainder_remarks(program)]
    cutter = Cutter() if request.partial else None
    say_stage(folder, "torch-mlir lowers it")
    try:
        module, names = lower_program(program, cutter)
    except NotLoweredError as error:
        return Interface(not_lowered=report(error.found), remarks=remarks_of(program))
    say_stage(folder, "it is written")
    # By name: MLIR would pass the whole of a constant to a file of Python.
    module.operation.write_bytecode(str(folder / PROGRAM_FILE))
    write_examples(request, folder, arrays_of(example_tensors(program)))
    interface = Interface(
        model=runnable,
        inputs=_values(names.inputs, placeholder_values(program)),
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
    )
    if names.states:
        values = arrays_of(state.value for state in names.states)
        arrays = {f"state{index}": value for index, value in enumerate(values)}
        np.savez(folder / STATE_FILE, allow_pickle=False, **arrays)
        interface.states = [
            State(name=state.name, argument=state.argument, result=state.result, array=key)
            for key, state in zip(arrays, names.states, strict=True)
        ]
    if cutter is not None:
        cutter.add_to(interface)
    return interface


def _values(names: list[str], tensors: dict[str, Any]) -> list[Value]:
    return [
        Value(
            name=name,
            dtype=str(tensors[name].dtype).removeprefix("torch."),
            shape=tuple(size if isinstance(size, int) else -1 for size in tensors[name].shape),
        )
        for name in names
    ]


def _changed(name: str) -> str:
    return f"{name}_changed"


def lower_program(program: Any, cutter: Cutter | None = None) -> tuple[Any, Signature]:
    """Lower a program to a module of TOSA with the function `main`; also return its signature.

    What torch-mlir does not lower is decomposed by torch where torch can, and tried again.
    """
    merge_tied(program)
    if refused := {**absent_types(program), **_control_flow(program)}:
        raise NotLoweredError(refused)
    if cutter is None and (refused := _data_dependent(program)):
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
        if effects := _effects(decomposed):
            # A decomposition may add them: what is known of the model says more.
            found = found or effects
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
    dropouts = _dropouts_between_layers(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if has_complex_tensors(program):
            refuse_complex_inputs(program)
            program = program.run_decompositions(composites())
            write_as_pairs(program)
        try:
            decomposed = program.run_decompositions(table)  # A copy.
        except UnsupportedOperatorException as error:
            raise NotLoweredError(_not_traced(program, str(error.func))) from None
    wrong = {
        **_objects(decomposed),
        **_random_operators(decomposed),
        **dropouts,
        **wrong_operators(decomposed),
    }
    if any(row.reason == _OBJECT for row in wrong):
        raise NotLoweredError(wrong)
    drop_numbers(decomposed, names)
    lift_state(decomposed, names)
    if not decomposed.graph_signature.output_specs:
        raise NotLoweredError({Unlowered(THE_MODEL, "", _NO_TENSOR): 1})
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
    wrong |= _effects(decomposed)
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


def _effects(program: Any) -> dict[Unlowered, int]:
    """Count the operators that check or print something, in an order that tokens keep."""
    return Counter(
        Unlowered(str(node.args[1]), locate(node), "it returns nothing but an effect")
        for node in program.graph.nodes
        if node.op == "call_function" and node.target is torch.ops.higher_order.with_effects
    )


def _control_flow(program: Any) -> dict[Unlowered, int]:
    """Count the branches and loops on data, which torch-mlir's importer does not take."""
    return Counter(
        Unlowered(f"torch.{node.target}", locate(node), "torch-mlir has no control flow for TOSA")
        for node in program.graph.nodes
        if str(node.target) in _BRANCHES
    )


def _not_traced(program: Any, operator: str) -> dict[Unlowered, int]:
    """Return the operator that torch cannot trace, at the first node whose name it begins with."""
    nodes = (node for node in program.graph.nodes if node.op == "call_function")
    names = ((node, str(node.target).rpartition(".")[0]) for node in nodes)
    found = next((node for node, name in names if name and operator.startswith(name)), None)
    where = locate(found) if found is not None else ""
    return {Unlowered(operator, where, "torch has no shapes of its results"): 1}


def _objects(program: Any) -> dict[Unlowered, int]:
    """Count the objects of a program, such as generators of random numbers; TOSA has tensors only."""
    specs = program.graph_signature.input_specs
    targets = [spec.target for spec in specs if spec.kind == InputKind.CUSTOM_OBJ]
    kinds = [program.constants.get(target) for target in targets]
    return Counter(Unlowered(type(one).__name__, "", _OBJECT) for one in kinds)


def _data_dependent(program: Any) -> dict[Unlowered, int]:
    """Count the operators whose results have a size that depends on the data."""
    return Counter(
        Unlowered(str(node.target), locate(node), "the size of its result depends on the data")
        for node in program.graph.nodes
        if node.op == "call_function"
        and torch.Tag.dynamic_output_shape in getattr(node.target, "tags", ())
        and any(not str(size).isdigit() for size in getattr(node.meta.get("val"), "shape", ()))
    )


def _dropouts_between_layers(program: Any) -> dict[Unlowered, int]:
    """Count the recurrent operators with a dropout between layers, which torch decomposes away."""
    found: Counter[Unlowered] = Counter()
    for node in program.graph.nodes:
        if node.op != "call_function" or not hasattr(node.target, "_schema"):
            continue
        names = (argument.name for argument in node.target._schema.arguments)
        given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        if given.get("dropout") and given.get("train") and given.get("num_layers", 1) > 1:
            found[Unlowered(f"dropout of {node.target}", locate(node), _RANDOM)] += 1
    return found


def _random_operators(program: Any) -> dict[Unlowered, int]:
    """Count the operators that draw random numbers, which torch-mlir would lower to constants."""
    return Counter(
        Unlowered(str(node.target), locate(node), _RANDOM)
        for node in program.graph.nodes
        if node.op == "call_function"
        and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        and node.users
    )
