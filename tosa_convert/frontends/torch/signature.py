"""What an exported torch program takes, returns and keeps, by the names that its author gave.

The names are taken before `run_decompositions`, which renames what a program returns. Only afterwards
does a program say which buffers it changes.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from tosa_convert.errors import fail

#: What a result is that is the new value of a buffer or a parameter.
CHANGED_STATE: Final = (OutputKind.BUFFER_MUTATION, getattr(OutputKind, "PARAMETER_MUTATION", None))

#: Inputs whose tensors a program holds.
HELD: Final = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@dataclass
class State:
    """Hold a buffer or parameter that a call changes, with its places in the function.

    name: its name in the module. value: the tensor that it holds before the first call.
    """

    name: str
    argument: int
    result: int
    value: Any


@dataclass
class Signature:
    """What a lowered program takes and returns.

    inputs, outputs: names in order, without state.
    changed_inputs: those that are written to.
    numbers: results that are not tensors, such as `output 1 is 2`.
    """

    inputs: list[str]
    outputs: list[str]
    numbers: list[str] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    changed_inputs: list[str] = field(default_factory=list)


def user_inputs(program: Any, *kinds: type) -> list[Any]:
    """Return the specifications of what a program takes from its user: those of all or some kinds."""
    return [
        spec
        for spec in program.graph_signature.input_specs
        if spec.kind == InputKind.USER_INPUT and (not kinds or isinstance(spec.arg, kinds))
    ]


def held_tensor(program: Any, spec: Any) -> Any:
    """Return the tensor of a parameter, a buffer or a constant, by its specification."""
    held = program.state_dict if spec.target in program.state_dict else program.constants
    return held[spec.target].detach().cpu()


def merge_tied(program: Any) -> None:
    """Let a program take once, in place, a tensor that it holds by several names.

    torch does not decompose a program that has these, as of a cache of keys, and changes a tensor.
    """
    signature = program.graph_signature
    held = [one for one in program.constants.values() if isinstance(one, torch.Tensor)]
    if any(map(is_functorch_wrapped_tensor, held)):
        message = "torch.export loses what a transformation such as torch.func.grad is given"
        hint = "record it by make_fx, and export what that returns"
        raise fail("not-lowered", "torch", message, hint)
    changed = {spec.target for spec in signature.output_specs}
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    first: dict[tuple[Any, ...], Any] = {}
    for spec in list(signature.input_specs):
        if spec.kind not in HELD or spec.target in changed:
            continue
        tensor, node = held_tensor(program, spec), nodes[spec.arg.name]
        key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if tensor.numel() and first.setdefault(key, node) is not node:
            node.replace_all_uses_with(first[key])
            program.graph.erase_node(node)
            signature.input_specs.remove(spec)
    program.graph_module.recompile()


def input_names(program: Any) -> list[str]:
    """Return the names of the tensors that a program takes: `image`; if nested, `batch['ids']`."""
    flat, user = _input_paths(program), user_inputs(program)
    if len(flat) != len(user):  # Arguments that are constants are not in every release's tree.
        flat = [spec.arg.name for spec in user]
    return [
        name
        for name, spec in zip(flat, user, strict=True)
        if isinstance(spec.arg, (TensorArgument, SymIntArgument))
    ]


def _input_paths(program: Any) -> list[str]:
    call = program.module_call_graph[0].signature
    arguments = list(call.forward_arg_names or ())
    tree = program.call_spec.in_spec
    positions = pytree.tree_unflatten(range(tree.num_leaves), tree)
    found = []
    for path, _ in pytree.tree_flatten_with_path(positions)[0]:
        group, first, *rest = path
        if group.idx == 0:  # A positional argument; the others are by keyword.
            if first.idx >= len(arguments):
                return []
            top = arguments[first.idx]
        else:
            top = str(first.key)
        found.append(top + pytree.keystr(tuple(rest)))
    return found


def name_results(program: Any) -> None:
    """Put dictionaries in place of torch's named tuples among the results, which files do not hold."""
    for call in program.module_call_graph:
        spec = call.signature.out_spec if call.signature else None
        if spec is None:
            continue
        tree = pytree.tree_unflatten(range(spec.num_leaves), spec)
        named = pytree.tree_map(_fields, tree, is_leaf=_is_named)
        if pytree.tree_structure(named) != spec:
            call.signature.out_spec = pytree.tree_structure(named)


def _is_named(value: Any) -> bool:
    return type(value).__module__ == "torch.return_types"


def _fields(value: Any) -> Any:
    return dict(zip(type(value).__match_args__, value, strict=True)) if _is_named(value) else value


def output_names(program: Any, inputs: list[str]) -> list[str]:
    """Return the names of what a program returns.

    One in a plain list or tuple is called after its operator; one in a dictionary or deeper by its path.
    """
    names = [
        spec.arg.name if hasattr(spec.arg, "name") else "constant"
        for spec in program.graph_signature.output_specs
        if spec.kind == OutputKind.USER_OUTPUT
    ]
    tree = program.call_spec.out_spec
    if tree is not None and tree.num_leaves == len(names):
        positions = pytree.tree_unflatten(range(tree.num_leaves), tree)
        for path, index in pytree.tree_flatten_with_path(positions)[0]:
            names[index] = _result_name(path) or names[index]
    placeholders = {spec.arg.name for spec in user_inputs(program) if hasattr(spec.arg, "name")}
    taken, unique = set(inputs) | placeholders, []
    for name in names:
        unique.append(_unused(name, taken))
        taken.add(unique[-1])
    return unique


def _result_name(path: tuple[Any, ...]) -> str | None:
    if all(isinstance(key, pytree.SequenceKey) for key in path) and len(path) < 2:
        return None
    first, rest = path[0], path[1:]
    if isinstance(first, pytree.MappingKey) and isinstance(first.key, str):
        return first.key + str(pytree.keystr(rest))
    if isinstance(first, pytree.GetAttrKey):
        return str(first.name) + str(pytree.keystr(rest))
    return "output" + str(pytree.keystr(path))


def _unused(name: str, taken: set[str]) -> str:
    numbered = (f"{name}_output_{number}" for number in itertools.count(2))
    return next(
        new for new in itertools.chain((name, f"{name}_output"), numbered) if new not in taken
    )


def drop_numbers(program: Any, names: Signature) -> None:
    """Leave out, in place, what a decomposed program returns that is no tensor: None, and numbers."""
    specs = program.graph_signature.output_specs
    user = [n for n, spec in enumerate(specs) if spec.kind == OutputKind.USER_OUTPUT]
    dropped = {
        n: place for place, n in enumerate(user) if isinstance(specs[n].arg, ConstantArgument)
    }
    if not dropped:
        return
    values = {place: specs[n].arg.value for n, place in dropped.items()}
    names.numbers = [
        f"output {place} is {value!r}" for place, value in values.items() if value is not None
    ]
    names.outputs = [name for place, name in enumerate(names.outputs) if place not in values]
    output = program.graph.output_node()
    output.args = (tuple(one for n, one in enumerate(output.args[0]) if n not in dropped),)
    specs[:] = [spec for n, spec in enumerate(specs) if n not in dropped]
    program.graph_module.recompile()


def lift_state(program: Any, names: Signature) -> None:
    """Make arguments and results of the tensors that a decomposed program changes, in place.

    Left alone, their initial values would be constants, which passes may merge with others. State comes
    first among arguments, in the order of the program's inputs. An input that the program writes to
    becomes one more result, the last.
    """
    signature = program.graph_signature
    changed = {
        spec.target: position
        for position, spec in enumerate(signature.output_specs)
        if spec.kind in CHANGED_STATE
    }
    arguments = [
        spec
        for spec in signature.input_specs
        if spec.kind == InputKind.USER_INPUT or _is_state(spec, changed)
    ]
    arguments = [
        spec for spec in arguments if isinstance(spec.arg, (TensorArgument, SymIntArgument))
    ]
    results = list(signature.output_specs)
    for position, spec in enumerate(arguments):
        if _is_state(spec, changed):
            result = changed[spec.target]
            names.states.append(State(spec.target, position, result, held_tensor(program, spec)))
    inputs = [spec.arg.name for spec in arguments if not _is_state(spec, changed)]
    by_placeholder = dict(zip(inputs, names.inputs, strict=True))
    for index, spec in enumerate(signature.input_specs):
        if _is_state(spec, changed):
            signature.input_specs[index] = InputSpec(InputKind.USER_INPUT, spec.arg, None)
    results.sort(key=lambda spec: spec.kind == OutputKind.USER_INPUT_MUTATION)
    for index, output in enumerate(results):
        if output.kind == OutputKind.USER_INPUT_MUTATION:
            names.changed_inputs.append(by_placeholder[output.target])
        if output.kind in (*CHANGED_STATE, OutputKind.USER_INPUT_MUTATION):
            output = OutputSpec(OutputKind.USER_OUTPUT, output.arg, None)
        signature.output_specs[index] = output


def _is_state(spec: Any, changed: dict[str, int]) -> bool:
    return spec.kind in (InputKind.BUFFER, InputKind.PARAMETER) and spec.target in changed
