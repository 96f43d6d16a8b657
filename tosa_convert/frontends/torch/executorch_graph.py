"""Reads the graph that ExecuTorch leaves: delegates, their borders, and what stays in torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch

#: Arguments of a quantise or dequantise operator: the tensor, scale, zero point, bounds, element type.
_PER_TENSOR: Final = 6
_GET: Final = "getitem"


class Scale(NamedTuple):
    """An integer i means scale * (i - zero_point)."""

    scale: float
    zero_point: int
    lowest: int
    highest: int
    dtype: torch.dtype

    def quantised(self, tensor: Any) -> Any:
        """Quantise real numbers to integers, rounded as torch does."""
        wide = torch.round(tensor / self.scale) + self.zero_point
        return wide.clamp(self.lowest, self.highest).to(self.dtype)


@dataclass
class Boundary:
    """An argument or a result of the program.

    node: the placeholder, or what is returned. value: the value of the parts that it is.
    scale: if the value is quantised and the argument or result in torch is not.
    """

    node: Any
    value: str
    scale: Scale | None = None


@dataclass
class Reading:
    """The graph, read.

    delegates: (node of the call, the lowered module, names of what it takes, of what it gives).
    left: the nodes that stay in torch, in order.
    """

    delegates: list[tuple[Any, Any, list[str], list[str]]] = field(default_factory=list)
    left: list[Any] = field(default_factory=list)


def is_operator(node: Any, name: str) -> bool:
    """Return whether a node calls an operator of pt2e, by its name."""
    return node.op == "call_function" and f"quantized_decomposed.{name}" in str(node.target)


def scale_of(node: Any) -> Scale | None:
    """Return the scale of a node that quantises or dequantises a whole tensor by numbers, or None."""
    arguments = node.args
    if len(arguments) != _PER_TENSOR or any(
        isinstance(one, torch.fx.Node) for one in arguments[1:]
    ):
        return None
    scale, zero_point, lowest, highest, dtype = arguments[1:]
    return Scale(float(scale), int(zero_point), int(lowest), int(highest), dtype)


def argument(placeholder: Any) -> Boundary:
    """Return what the parts take for an argument.

    These are its integers if its only use is one quantise operator.
    """
    users = list(placeholder.users)
    if len(users) == 1 and is_operator(users[0], "quantize_per_tensor"):
        scale = scale_of(users[0])
        if scale is not None:
            return Boundary(placeholder, users[0].name, scale)
    return Boundary(placeholder, placeholder.name)


def result(node: Any) -> Boundary:
    """Return what the parts give for a result: the integers before a dequantise operator."""
    if is_operator(node, "dequantize_per_tensor"):
        scale = scale_of(node)
        if scale is not None:
            return Boundary(node, value_of(node.args[0]), scale)
    return Boundary(node, value_of(node))


def value_of(node: Any) -> str:
    """Return the name of a node's value.

    What is taken out of a node with several is called after that.
    """
    if node.op == "call_function" and _GET in str(node.target):
        return f"{node.args[0].name}.{node.args[1]}"
    return str(node.name)


def results_of(node: Any) -> list[Any]:
    """Return the tensors without data that a node gives."""
    found = node.meta.get("val")
    return list(found) if isinstance(found, (list, tuple)) else [found]


def names_of(node: Any) -> list[str]:
    """Return the names of what a node gives."""
    found = node.meta.get("val")
    if isinstance(found, (list, tuple)):
        return [f"{node.name}.{place}" for place in range(len(found))]
    return [str(node.name)]


def read_graph(program: Any, bounds: Sequence[Boundary]) -> Reading:
    """Find the delegates and the nodes that stay in torch."""
    reading = Reading()
    around = {bound.value for bound in bounds if bound.scale} | {
        bound.node.name for bound in bounds if bound.scale
    }
    for node in program.graph.nodes:
        if node.op != "call_function" or _GET in str(node.target):
            continue
        if "executorch_call_delegate" in str(node.target):
            module = getattr(program.graph_module, str(node.args[0].target))
            taken = [value_of(one) for one in node.args[1:]]
            reading.delegates.append((node, module, taken, names_of(node)))
        elif not (node.name in around and _is_border(node)):
            reading.left.append(node)
    return reading


def _is_border(node: Any) -> bool:
    """Return whether a node quantises an argument, or dequantises what is only a result."""
    if is_operator(node, "quantize_per_tensor"):
        return bool(node.args[0].op == "placeholder")
    return is_operator(node, "dequantize_per_tensor") and all(
        user.op == "output" for user in node.users
    )


def tensors_in(arguments: Any) -> Iterator[Any]:
    """Iterate over the nodes among arguments, also in lists."""
    for one in arguments:
        if isinstance(one, torch.fx.Node):
            yield one
        elif isinstance(one, (list, tuple)):
            yield from tensors_in(one)
