"""Imports an exported torch program into torch-mlir's dialect without a copy of its weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import fx
from torch_mlir import ir
from torch_mlir.extras.fx_importer import FxImporter, FxImporterHooks, create_mlir_tensor_type

from tosa_convert.frontends.torch.cut import Cutter
from tosa_convert.frontends.torch.dialect import (
    NotLoweredError,
    Unlowered,
    new_context,
    operator_name,
    run_passes,
)
from tosa_convert.frontends.torch.signature import HELD, held_tensor

#: torch-mlir's pipeline from imported programs to the backend form of its dialect.
_TO_BACKEND: Final = (
    "builtin.module(func.func(torch-match-quantized-custom-ops),"
    " torchdynamo-export-to-torch-backend-pipeline)"
)
_aten: Final[Any] = torch.ops.aten
#: Operators whose results have equal elements: what these are, by the arguments.
_FILLED: Final[dict[Any, Callable[[Sequence[Any]], Any]]] = {
    _aten.full: lambda arguments: arguments[1],
    _aten.full_like: lambda arguments: arguments[1],
    _aten.scalar_tensor: lambda arguments: arguments[0],
    **dict.fromkeys((_aten.zeros, _aten.zeros_like), lambda _: 0),
    **dict.fromkeys((_aten.ones, _aten.ones_like), lambda _: 1),
}
#: Operators that move equal elements.
_MOVES: Final = (
    *(_aten.view, _aten._unsafe_view, _aten.reshape, _aten.expand, _aten.permute, _aten.alias),
    *(_aten.unsqueeze, _aten.squeeze, _aten.clone, _aten.lift_fresh_copy, _aten.transpose),
)


def import_program(program: Any, cutter: Cutter | None = None) -> Any:
    """Import a program as a module of torch-mlir's dialect in backend form, with the function `main`.

    The module's weights are views of the tensors of the program, which must outlive it.
    """
    hooks = FxImporterHooks()
    hooks.resolve_literal = _SharedLiterals().resolve
    importer = FxImporter(context=new_context(), hooks=hooks)
    fold_equal_elements(program)
    importer.import_program(program, func_name="main")
    module = importer.module
    if cutter is not None:
        cutter.module = module
        cutter.run(_TO_BACKEND, _unknown_operators)
        return module
    try:
        run_passes(module, _TO_BACKEND)
    except ir.MLIRError:
        unknown = _unknown_operators(module)
        if not unknown:
            raise
        raise NotLoweredError(Counter(row for _, row in unknown)) from None
    return module


def fold_equal_elements(program: Any) -> None:
    """Let torch compute, in place, elementwise operators of constants whose elements are all equal.

    torch-mlir folds these wrongly: `ones < 0` to True, `-7 % 4` to -3, and integer quotients to 2^62.
    """
    graph, known = program.graph, _numbers_held(program)
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        packet = getattr(node.target, "overloadpacket", None)
        if packet in (_aten.eq, _aten.mul):
            _keep_nan(node, known)
        if packet in _FILLED:
            number = _FILLED[packet](node.args)
        elif packet in _MOVES and node.args[0] in known:
            number = known[node.args[0]]
        elif all(one in known for one in node.all_input_nodes) and _is_elementwise(node):
            value = node.meta["val"]
            number = _computed(node, known)
            if not math.isfinite(number):
                continue
            node.target = _aten.full.default
            node.args, node.kwargs = (list(value.shape), number), {"dtype": value.dtype}
        else:
            continue
        if isinstance(number, (bool, int, float)):
            known[node] = number
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def _keep_nan(node: Any, known: Mapping[Any, Any]) -> None:
    """Write `x == x` and `x * 0` of floating point, in place, in a form that torch-mlir does not fold.

    It makes True of the one and 0 of the other, also of infinities and NaN.
    """
    first, second = node.args[:2]
    value = first.meta["val"]
    if not value.is_floating_point():
        return
    if node.target is _aten.eq.Tensor and first is second:
        with node.graph.inserting_before(node):
            other = node.graph.call_function(_aten.ne.Tensor, (first, first))
        other.meta = dict(node.meta)
        node.target, node.args = _aten.logical_not.default, (other,)
    elif node.target in (_aten.mul.Tensor, _aten.mul.Scalar):
        for x, number in ((first, second), (second, first)):
            given = getattr(x, "meta", {}).get("val")
            is_zero = known.get(number, number if isinstance(number, (int, float)) else 1) == 0
            if is_zero and x not in known and _is_like(given, node.meta["val"]):
                node.target, node.args = _aten.sub.Tensor, (x, x)
                return


def _is_like(value: Any, other: Any) -> bool:
    return value is not None and (value.dtype, value.shape) == (other.dtype, other.shape)


def _numbers_held(program: Any) -> dict[Any, Any]:
    """Return the numbers of the tensors with one element that a program holds, by their nodes."""
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    held = [spec for spec in program.graph_signature.input_specs if spec.kind in HELD]
    tensors = [(nodes[spec.arg.name], held_tensor(program, spec)) for spec in held]
    return {
        node: tensor.item()
        for node, tensor in tensors
        if tensor.numel() == 1 and not tensor.is_complex()
    }


def _is_elementwise(node: Any) -> bool:
    tags = getattr(node.target, "tags", ())
    value = node.meta.get("val")
    return (
        (torch.Tag.pointwise in tags or node.target is _aten.floor_divide.default)
        and torch.Tag.nondeterministic_seeded not in tags
        and isinstance(value, torch.Tensor)
        and value.dtype is not torch.uint8
        and not value.is_complex()
        and all(isinstance(size, int) for size in value.shape)
    )


def _computed(node: Any, known: Mapping[Any, Any]) -> Any:
    """Compute one element of an elementwise operator of known numbers."""

    def tensor_of(one: Any) -> Any:
        value = one.meta["val"]
        return torch.full([1] * value.dim(), known[one], dtype=value.dtype)

    arguments = fx.map_arg(node.args, tensor_of)
    return node.target(*arguments, **fx.map_arg(node.kwargs, tensor_of)).item()


def _unknown_operators(module: Any) -> list[tuple[Any, Unlowered]]:
    """Find the operators that torch-mlir's dialect does not have."""
    found: list[tuple[Any, Unlowered]] = []

    def collect(operation: Any) -> Any:
        if operation.name == "torch.operator":
            name = operator_name(operation)
            if not name.startswith("quantized_decomposed."):
                row = Unlowered(name, str(operation.location), "torch-mlir does not know it")
                found.append((operation, row))
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect)
    return found


class _SharedLiterals:
    """Tensors as resources over torch's own memory.

    The importer's default builds a Python list of the elements, which takes 12 times their memory. Bits
    are kept as they are: NaN payloads survive.
    """

    def __init__(self) -> None:
        self._attributes: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def resolve(self, importer: Any, literal: Any, info: Any) -> Any:
        """Return the value of a literal, or None for the importer's default."""
        if not isinstance(literal, torch.Tensor) or literal.numel() <= 1 or literal.is_quantized:
            return None
        tensor = literal.detach().cpu().contiguous()
        # The layout of a view is part of what identifies it.
        key = (tensor.data_ptr(), tuple(tensor.shape), tensor.dtype)
        if key not in self._attributes:
            name = (
                info.input_spec.target if info is not None else f"literal_{len(self._attributes)}"
            )
            attribute = ir.DenseResourceElementsAttr.get_from_buffer(
                tensor.reshape(-1).view(torch.uint8).numpy(),
                name,
                create_mlir_tensor_type(tensor),
                alignment=min(16, tensor.element_size()),
            )
            # The tensor is held too: its address must not be given to another.
            self._attributes[key] = attribute, tensor
        attribute = self._attributes[key][0]
        kind = importer._cc.tensor_to_vtensor_type(tensor)
        return ir.Operation.create(
            "torch.vtensor.literal", results=[kind], attributes={"value": attribute}
        ).result
