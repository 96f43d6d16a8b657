"""Finds operators of a torch program that do not lower: random numbers, effects, and other objects."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import torch
from torch.export.graph_signature import InputKind, TensorArgument
from torch.utils import _pytree as pytree

from tosa_convert.frontends.torch.signature import user_inputs
from tosa_convert.frontends.torch.unlowered_report import Unlowered, arguments_of, locate

NO_TENSOR: Final = "it returns no tensor, and programs return nothing else"
RANDOM: Final = "it draws random numbers"
#: Types of torch that TOSA does not have.
_ABSENT: Final = frozenset(("uint16", "uint32", "uint64"))
COMPLEX: Final = "it is complex: take and return real tensors, by torch.view_as_real"
OBJECT: Final = "it is an object, and programs have tensors only"


def absent_types(program: Any) -> dict[Unlowered, int]:
    """Count the inputs and operators of a program that have or make integers that TOSA does not have."""
    found: Counter[Unlowered] = Counter()
    for node in program.graph.nodes:
        kind = str(getattr(node.meta.get("val"), "dtype", "")).removeprefix("torch.")
        if kind in _ABSENT and node.op in ("call_function", "placeholder"):
            name = str(node.target) if node.op == "call_function" else f"the input {node.name}"
            reason = f"TOSA has no {kind}; compute in int32 or int64, and convert outside"
            found[Unlowered(name, locate(node), reason)] += 1
    return found


def complex_inputs(program: Any) -> dict[Unlowered, int]:
    """Name the complex tensors of a program that takes some; torch may not decompose it then."""
    user = {spec.arg.name for spec in user_inputs(program, TensorArgument)}
    nodes = (node for node in program.graph.nodes if node.name in user)
    names = [f"input {node.name}" for node in nodes if _is_complex(node)]
    if names:
        results = program.graph.output_node().all_input_nodes
        names += [f"output {n.name}" for n in results if _is_complex(n) and n.name not in user]
    return {Unlowered(name, "", COMPLEX): 1 for name in names}


def _is_complex(node: Any) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_complex()


def effects(program: Any) -> dict[Unlowered, int]:
    """Count the operators that check or print something, in an order that tokens keep."""
    return Counter(
        Unlowered(str(node.args[1]), locate(node), "it returns nothing but an effect")
        for node in program.graph.nodes
        if node.op == "call_function" and node.target is torch.ops.higher_order.with_effects
    )


def not_traced(program: Any, operator: str) -> dict[Unlowered, int]:
    """Return the operator that torch cannot trace, at the first node whose name it begins with."""
    nodes = (node for node in program.graph.nodes if node.op == "call_function")
    names = ((node, str(node.target).rpartition(".")[0]) for node in nodes)
    found = next((node for node, name in names if name and operator.startswith(name)), None)
    where = locate(found) if found is not None else ""
    return {Unlowered(operator, where, "torch has no shapes of its results"): 1}


def objects(program: Any) -> dict[Unlowered, int]:
    """Count the objects of a program, such as generators of random numbers; TOSA has tensors only."""
    specs = program.graph_signature.input_specs
    targets = [spec.target for spec in specs if spec.kind == InputKind.CUSTOM_OBJ]
    kinds = [program.constants.get(target) for target in targets]
    return Counter(Unlowered(type(one).__name__, "", OBJECT) for one in kinds)


def data_dependent(program: Any) -> dict[Unlowered, int]:
    """Count the operators whose results have a size that depends on the data."""
    return Counter(
        Unlowered(str(node.target), locate(node), "the size of its result depends on the data")
        for node in program.graph.nodes
        if node.op == "call_function"
        and torch.Tag.dynamic_output_shape in getattr(node.target, "tags", ())
        and any(
            not str(size).isdigit()
            for value in pytree.tree_leaves(node.meta.get("val"))
            for size in getattr(value, "shape", ())
        )
    )


def dropouts_between_layers(program: Any) -> dict[Unlowered, int]:
    """Count the recurrent operators with a dropout between layers, which torch decomposes away."""
    found: Counter[Unlowered] = Counter()
    for node in program.graph.nodes:
        if node.op != "call_function" or not hasattr(node.target, "_schema"):
            continue
        given = arguments_of(node)
        if given.get("dropout") and given.get("train") and given.get("num_layers", 1) > 1:
            found[Unlowered(f"dropout of {node.target}", locate(node), RANDOM)] += 1
    return found


def is_random(node: Any) -> bool:
    """Return whether an operator draws random numbers, for which TOSA has no operator."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
