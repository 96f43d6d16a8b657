"""What of a torch program does not lower, and where it was written."""

from __future__ import annotations

import re
from typing import Any, Final

import torch
from torch.export.graph_signature import InputKind, TensorArgument
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from tosa_convert.frontends.process.request import NotLowered
from tosa_convert.frontends.torch.signature import user_inputs
from tosa_convert.frontends.unlowered import unlowered


class NotLoweredError(Exception):
    """Operators do not lower; `found` has a row for each use, or for several."""

    def __init__(self, *found: NotLowered) -> None:
        super().__init__("; ".join(f"{row.operator}: {row.reason}" for row in found))
        self.found = found


_FRAME: Final = re.compile(r'"([^"]*)":(\d+)')
_NAMED: Final = re.compile(r'loc\("([^"]*)"')
#: Folders of torch, and of all that is installed.
_OF_TORCH: Final = re.compile(r"[/\\](?:torch|executorch)[/\\]")
_INSTALLED: Final = re.compile(r"[/\\](?:(?:site|dist)-packages|lib[/\\]python3\.\d+)[/\\]")


def arguments_of(node: Any) -> dict[str, Any]:
    """Return the arguments of an operator by name, in the order of its schema, with defaults."""
    rows = node.target._schema.arguments
    given = dict(zip((row.name for row in rows), node.args, strict=False)) | dict(node.kwargs)
    return {row.name: given.get(row.name, row.default_value) for row in rows}


def place_of(node: Any) -> str:
    return place(locate(node))


def locate(node: Any) -> str:
    """Return where a node of a torch program was written, in MLIR's form, innermost first."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    frames = [line.split('"') for line in lines if line.startswith('File "')]
    return " ".join(
        f'"{path}":{rest.removeprefix(", line ").split(",")[0]}:0'
        for _, path, rest in reversed(frames)
    )


def place(location: str) -> str:
    """Return where an operator is: the innermost line of the user's code, or the name of the node.

    Without lines of the user's code it is the innermost one of a library, of torch only at last.

    Example:
        >>> place('loc(callsite("/lib/torch/nn/modules/linear.py":134:0 at "model.py":25:0))')
        'model.py:25'
        >>> place('loc(callsite("/lib/site-packages/timm/layers/drop.py":9:0 at "model.py":25:0))')
        'model.py:25'
        >>> place('loc("conv_1")')
        'conv_1'
    """
    # Code that torch.fx wrote is in no file.
    frames = [(path, line) for path, line in _FRAME.findall(location) if path[:1] != "<"]
    above = [frame for frame in frames if not _OF_TORCH.search(frame[0])]
    own = [frame for frame in above if not _INSTALLED.search(frame[0])]
    if frames:
        path, line = (own or above or frames)[0]
        return f"{path}:{line}"
    named = _NAMED.search(location)
    return named[1] if named else ""


NO_TENSOR: Final = "it returns no tensor, and programs return nothing else"
RANDOM: Final = "it draws random numbers"
#: Types of torch that TOSA does not have.
_ABSENT: Final = frozenset(("uint16", "uint32", "uint64"))
COMPLEX: Final = "it is complex: take and return real tensors, by torch.view_as_real"
_DEPENDS: Final = "the size of its result depends on the data"
_EXPANDED: Final = "it writes into an expanded view, as torch decomposes by rounded differences"
OBJECT: Final = "it is an object, and programs have tensors only"


def absent_types(program: Any) -> list[NotLowered]:
    """List the inputs and operators of a program that have or make integers that TOSA does not have."""
    found = []
    for node in program.graph.nodes:
        kind = str(getattr(node.meta.get("val"), "dtype", "")).removeprefix("torch.")
        if kind in _ABSENT and node.op in ("call_function", "placeholder"):
            name = str(node.target) if node.op == "call_function" else f"the input {node.name}"
            reason = f"TOSA has no {kind}; compute in int32 or int64, and convert outside"
            found.append(unlowered(name, place_of(node), reason))
    return found


def complex_inputs(program: Any) -> list[NotLowered]:
    """List the complex tensors of a program that takes some; torch may not decompose it then."""
    user = {spec.arg.name for spec in user_inputs(program, TensorArgument)}
    nodes = (node for node in program.graph.nodes if node.name in user)
    names = [f"input {node.name}" for node in nodes if _is_complex(node)]
    if names:
        results = program.graph.output_node().all_input_nodes
        names += [f"output {n.name}" for n in results if _is_complex(n) and n.name not in user]
    return [unlowered(name, "", COMPLEX) for name in names]


def _is_complex(node: Any) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_complex()


def effects(program: Any) -> list[NotLowered]:
    """List the operators that check or print something, in an order that tokens keep."""
    return [
        unlowered(str(node.args[1]), place_of(node), "it returns nothing but an effect")
        for node in program.graph.nodes
        if node.op == "call_function" and node.target is torch.ops.higher_order.with_effects
    ]


def not_traced(program: Any, operator: str) -> NotLowered:
    """Return the operator that torch cannot trace, at the first node whose name it begins with."""
    nodes = (node for node in program.graph.nodes if node.op == "call_function")
    names = ((node, str(node.target).rpartition(".")[0]) for node in nodes)
    found = next((node for node, name in names if name and operator.startswith(name)), None)
    where = place_of(found) if found is not None else ""
    return unlowered(operator, where, "torch has no shapes of its results")


def objects(program: Any) -> list[NotLowered]:
    """List the objects of a program, such as generators of random numbers; TOSA has tensors only."""
    specs = program.graph_signature.input_specs
    targets = [spec.target for spec in specs if spec.kind == InputKind.CUSTOM_OBJ]
    kinds = [program.constants.get(target) for target in targets]
    return [unlowered(type(one).__name__, "", OBJECT) for one in kinds]


def data_dependent(program: Any) -> list[NotLowered]:
    """List the operators whose results have a size that depends on the data."""
    return [
        unlowered(str(node.target), place_of(node), _DEPENDS, "select with a mask: torch.where")
        for node in program.graph.nodes
        if node.op == "call_function"
        and _unknown_sizes(node) - set().union(*map(_unknown_sizes, node.all_input_nodes))
    ]


def _unknown_sizes(node: Any) -> set[Any]:
    """Return what is unknown in the sizes of an operator's results until the data are there."""
    sizes = [
        size
        for value in pytree.tree_leaves(node.meta.get("val"))
        for size in getattr(value, "shape", ())
    ]
    return set().union(*map(free_unbacked_symbols, sizes))


def writes_into_expanded(program: Any) -> list[NotLowered]:
    """List what writes numbers into expanded views: torch decomposes that into rounded differences."""
    return [
        unlowered(str(node.target), place_of(node), _EXPANDED, "write into what is expanded")
        for node in program.graph.nodes
        if getattr(getattr(node.target, "_schema", None), "is_mutable", False)
        and _is_expanded(node.args[0])
    ]


def _is_expanded(view: Any) -> bool:
    rows = getattr(getattr(getattr(view, "target", None), "_schema", None), "arguments", ())
    if not rows or not rows[0].alias_info or not view.meta["val"].is_floating_point():
        return False
    return str(view.target).startswith("aten.expand") or _is_expanded(view.args[0])


def dropouts_between_layers(program: Any) -> list[NotLowered]:
    """List the recurrent operators with a dropout between layers, which torch decomposes away."""
    found = []
    for node in program.graph.nodes:
        if node.op != "call_function" or not hasattr(node.target, "_schema"):
            continue
        given = arguments_of(node)
        if given.get("dropout") and given.get("train") and given.get("num_layers", 1) > 1:
            found.append(unlowered(f"dropout of {node.target}", place_of(node), RANDOM))
    return found


def is_random(node: Any) -> bool:
    """Return whether an operator draws random numbers, for which TOSA has no operator."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
