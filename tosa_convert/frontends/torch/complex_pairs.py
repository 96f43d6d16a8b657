"""Rewrites the complex tensors of a program as pairs of real ones: TOSA has no complex numbers.

A real and an imaginary part take the place of each complex tensor. Each operator that takes or computes
complex tensors is traced with pairs, by the functions of `complex_arithmetic`, and its nodes are put in
its place.
"""

from __future__ import annotations

import operator
from typing import Any, Final

import torch
from torch._guards import detect_fake_mode
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, TensorArgument
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from tosa_convert.frontends.torch.complex_arithmetic import (
    RULES,
    Pair,
    TooLargeError,
    matrices_of,
)
from tosa_convert.frontends.torch.signature import held_tensor, user_inputs
from tosa_convert.frontends.torch.unlowered_report import NotLoweredError, Unlowered, locate

_NO_FORM: Final = "it has no form with pairs of real numbers here"
_TOO_LARGE: Final = "the matrix of its transform would be too large"
_NOT_INSIDE: Final = "it is complex: take and return real tensors, by torch.view_as_real"


def has_complex_tensors(program: Any) -> bool:
    """Return whether a tensor of the program is complex."""
    return any(_is_complex(node) for node in program.graph.nodes)


def refuse_complex_inputs(program: Any) -> None:
    """Raise NotLoweredError if the program takes complex tensors; torch may not decompose it then.

    What it returns that is complex is named, too.
    """
    user = {spec.arg.name for spec in user_inputs(program, TensorArgument)}
    inputs = [node for node in program.graph.nodes if node.name in user and _is_complex(node)]
    if inputs:
        results = program.graph.output_node().all_input_nodes
        outputs = [node for node in results if _is_complex(node) and node not in inputs]
        names = [f"input {node.name}" for node in inputs]
        names += [f"output {node.name}" for node in outputs]
        raise NotLoweredError({Unlowered(name, "", _NOT_INSIDE): 1 for name in names})


def write_as_pairs(program: Any) -> None:
    """Rewrite the complex tensors of a decomposed program in place."""
    _Writer(program).write()


def _values(node: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(node.meta.get("val")) if torch.is_tensor(leaf)]


def _is_complex(node: Any) -> bool:
    return any(value.is_complex() for value in _values(node))


class _NoFormError(Exception):
    """A rule does not take the arguments of an operator."""


class _Writer:
    """Puts real nodes in the place of complex ones, in the order of the program."""

    def __init__(self, program: Any) -> None:
        self._program, self._graph = program, program.graph
        #: Complex node -> its parts, in the structure of its value.
        self._parts: dict[Any, Any] = {}
        self._constants: dict[tuple[Any, ...], Any] = {}
        self._left: dict[Unlowered, int] = {}
        nodes = list(self._graph.nodes)
        self._mode = detect_fake_mode([value for node in nodes for value in _values(node)])
        self._first = next(node for node in nodes if node.op != "placeholder")

    def write(self) -> None:
        specs = {spec.arg.name: spec for spec in self._program.graph_signature.input_specs}
        for node in list(self._graph.nodes):
            if node.op == "placeholder" and _is_complex(node):
                tensor = held_tensor(self._program, specs[node.name])
                self._parts[node] = Pair(self._constant(tensor.real), self._constant(tensor.imag))
            elif node.op == "call_function":
                self._replace(node)
            elif node.op == "output":
                for leaf in dict.fromkeys(node.all_input_nodes):
                    if self._parts.get(leaf) is not None:
                        self._leave(leaf, f"output {leaf.name}", _NOT_INSIDE)
        if self._left:
            raise NotLoweredError(self._left)
        for node in reversed(list(self._graph.nodes)):
            if node in self._parts and not node.users and node.op != "placeholder":
                self._graph.erase_node(node)
        self._drop_unused_inputs()
        self._graph.eliminate_dead_code()
        self._program.graph_module.recompile()

    def _leave(self, node: Any, name: str, reason: str) -> None:
        row = Unlowered(name, locate(node), reason)
        self._left[row] = self._left.get(row, 0) + 1
        self._parts[node] = None

    def _constant(self, tensor: Any) -> Any:
        """Return the placeholder of a constant; equal matrices of transforms are held once."""
        tensor = tensor.contiguous()
        key = (tensor.shape, tensor.dtype, tensor.numpy().tobytes())
        if key not in self._constants:
            signature = self._program.graph_signature
            with self._graph.inserting_before(next(iter(self._graph.nodes))):
                node = self._graph.placeholder(f"c_real_{len(self._constants)}")
            node.meta["val"] = self._mode.from_tensor(tensor, static_shapes=True)
            spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name=node.name), node.name)
            signature.input_specs.insert(0, spec)
            self._program.constants[node.name] = tensor
            self._constants[key] = node
        return self._constants[key]

    def _replace(self, node: Any) -> None:
        """Write the nodes of an operator with pairs, if it takes or computes complex tensors."""
        packet = getattr(node.target, "overloadpacket", node.target)
        has_pairs = any(leaf in self._parts for leaf in node.all_input_nodes)
        if not has_pairs and not _is_complex(node):
            return
        leaves, tree = pytree.tree_flatten((node.args, node.kwargs))
        given = [self._parts.get(leaf, leaf) if _is_node(leaf) else leaf for leaf in leaves]
        if any(leaf is None and old is not None for leaf, old in zip(given, leaves, strict=True)):
            self._parts[node] = None  # What it takes is in the list already.
            return
        args, keywords = pytree.tree_unflatten(given, tree)
        if node.target is operator.getitem:
            self._parts[node] = args[0][args[1]]
            return
        rule = RULES.get(packet)
        if rule is None:
            self._leave(node, str(node.target), _NO_FORM)
            return
        try:
            matrices = [self._constant(one) for one in matrices_of(packet, node)]
        except TooLargeError:
            self._leave(node, str(node.target), _TOO_LARGE)
            return
        if matrices:
            keywords = {**keywords, "matrices": matrices}
        try:
            result = self._traced(rule, args, keywords, node)
        except _NoFormError:
            self._leave(node, str(node.target), _NO_FORM)
            return
        if _is_complex(node):
            self._parts[node] = result
        else:
            node.replace_all_uses_with(result)
            self._graph.erase_node(node)

    def _traced(self, rule: Any, args: Any, keywords: Any, node: Any) -> Any:
        """Copy what a rule computes before the node; return nodes in the structure of the result."""
        leaves, tree = pytree.tree_flatten((args, keywords))
        nodes = list(dict.fromkeys(leaf for leaf in leaves if _is_node(leaf)))
        shape: list[Any] = []

        def call(*values: Any) -> list[Any]:
            by_node = dict(zip(nodes, values, strict=True))
            flat = [by_node[leaf] if _is_node(leaf) else leaf for leaf in leaves]
            given, named = pytree.tree_unflatten(flat, tree)
            result = rule(*given, **named)
            if result is NotImplemented:
                raise _NoFormError
            results, structure = pytree.tree_flatten(result)
            shape.append(structure)
            return list(results)

        with self._mode:
            traced = make_fx(call)(*(leaf.meta["val"] for leaf in nodes))
        places = [one for one in traced.graph.nodes if one.op == "placeholder"]
        with self._graph.inserting_before(node):
            before = set(self._graph.nodes)
            copied = self._graph.graph_copy(traced.graph, dict(zip(places, nodes, strict=True)))
        for one in self._graph.nodes:
            if one not in before:
                one.meta["stack_trace"] = node.meta.get("stack_trace")
        return pytree.tree_unflatten(copied, shape[-1])

    def _drop_unused_inputs(self) -> None:
        """Take away complex constants, whose parts are held."""
        signature = self._program.graph_signature
        for node in list(self._graph.nodes):
            if node.op == "placeholder" and node in self._parts:
                signature.input_specs[:] = [
                    spec
                    for spec in signature.input_specs
                    if isinstance(spec.arg, ConstantArgument) or spec.arg.name != node.name
                ]
                self._graph.erase_node(node)


def _is_node(value: Any) -> bool:
    return isinstance(value, torch.fx.Node)
