"""Replaces the nodes of an ONNX model by simpler ones until nothing is left to replace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import Any, Final

import onnx

from tosa_convert.frontends.onnx.decompositions.integers import refuse_unsigned
from tosa_convert.frontends.onnx.decompositions.microsoft import DOMAIN, MICROSOFT, adopt
from tosa_convert.frontends.onnx.decompositions.node import (
    Decomposition,
    NotDecomposedError,
    RefusedError,
    Values,
    values_of,
)
from tosa_convert.frontends.onnx.decompositions.table import DECOMPOSITIONS, GRAPHS
from tosa_convert.frontends.onnx.fold import fold_constants, keep_quantised_weights
from tosa_convert.frontends.onnx.functions import INLINED, function_body, inlined
from tosa_convert.frontends.onnx.shapes import infer
from tosa_convert.frontends.onnx.versions import opset_of
from tosa_convert.frontends.onnx.weights import Weights
from tosa_convert.frontends.torch.dialect import Unlowered

#: Rounds after which a model is taken as it is: each may make nodes that are replaced in the next.
_ROUNDS: Final = 40
#: The sets of operators that ONNX itself defines; no two have operators of one name.
_DOMAINS: Final = frozenset(("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training"))
#: Operators that onnxruntime lacks for some types, and whose definitions overflow.
_OVERFLOWING: Final = ("Celu", "HardSigmoid", "LeakyRelu", "ReduceLogSumExp", "Softplus")
#: Why a node stays whose decomposition failed: it takes what ONNX defines for granted.
_OTHER_FORM: Final = "it does not have the operands, shapes or attributes that ONNX defines"


def decompose(model: Any, weights: Weights) -> tuple[Any, dict[Unlowered, int]]:
    """Apply every decomposition, compute constants and infer shapes; also return what is refused."""
    # Why a node stays, by its outputs: only in the end is it known that no round helps.
    refused: dict[tuple[str, ...], Unlowered] = {}
    adopt(model)
    keep_quantised_weights(model)
    for _ in range(_ROUNDS):
        model = infer(model)
        folded = fold_constants(model, weights)
        refused = {}
        if not (_decompose_once(model, weights, refused) or folded):
            break
    return model, Counter([*_other_types(model), *refused.values()])


def _other_types(model: Any) -> list[Unlowered]:
    """List the inputs and outputs that are not tensors of numbers."""
    makers = {name: node for node in model.graph.node for name in node.output}
    found = []
    for info in (*model.graph.input, *model.graph.output):
        if info.type.WhichOneof("value") not in (None, "tensor_type"):
            what = "a sequence, a map or an optional value"
        elif info.type.tensor_type.elem_type == onnx.TensorProto.STRING:
            what = "text"
        else:
            continue
        reason = f"{info.name} is {what}, and TOSA has tensors of numbers only"
        maker = makers.get(info.name)
        found.append(_unlowered(maker, reason) if maker else Unlowered("an input", "", reason))
    return found


def decompose_first(model: Any, weights: Weights) -> tuple[Any, dict[Unlowered, int]]:
    """Decompose what onnxruntime would expand badly, as `decompose` does."""
    if all(node.op_type not in _OVERFLOWING for node in model.graph.node):
        return model, {}
    refused: dict[tuple[str, ...], Unlowered] = {}
    _decompose_once(model, weights, refused, _OVERFLOWING)
    # Another form may be that of a constant which is not computed yet.
    found = Counter(row for row in refused.values() if row.reason != _OTHER_FORM)
    return infer(model), found


def _decompose_once(
    model: Any,
    weights: Weights,
    refused: dict[tuple[str, ...], Unlowered],
    kinds: Container[str] | None = None,
) -> bool:
    """Replace nodes in place, of these kinds if they are given; return whether there was one."""
    values, opset = values_of(model, weights), opset_of(model)
    taken = set(values.types) | set(values.constants)
    taken |= {name for node in model.graph.node for name in node.output}
    nodes: list[Any] = []
    changed = False
    for number, node in enumerate(model.graph.node):
        if kinds is not None and node.op_type not in kinds:
            nodes.append(node)
            continue
        prefix = _unused(node.name or f"{node.op_type}_{number}", taken)
        try:
            made = _replacement(node, values, opset, prefix)
        except RefusedError as error:
            refused[tuple(node.output)] = _unlowered(node, str(error))
            made = None
        except (LookupError, ValueError, TypeError, ArithmeticError):
            refused[tuple(node.output)] = _unlowered(node, _OTHER_FORM)
            made = None
        if made is None:
            nodes.append(node)
        else:
            changed = True
            taken |= {name for inner in made for name in inner.output}
            nodes += made
    if changed:
        del model.graph.node[:]
        model.graph.node.extend(nodes)
    return changed


def _unlowered(node: Any, reason: str) -> Unlowered:
    domain = "onnx" if node.domain in _DOMAINS else node.domain
    return Unlowered(f"{domain}.{node.op_type}", f'loc("{node.name}")', reason)


def _unused(name: str, taken: set[str]) -> str:
    """Return a prefix with which no value begins."""
    number, found = 0, name
    while any(value.startswith(f"{found}/") for value in taken):
        number += 1
        found = f"{name}.{number}"
    return found


def _replacement(node: Any, values: Values, opset: int, prefix: str) -> list[Any] | None:
    """Return the nodes that replace a node, or None if it stays."""
    if node.domain not in _DOMAINS:
        return _of_another_domain(node, values, opset, prefix)
    decomposition = Decomposition(node, values, opset, prefix)
    if node.op_type in GRAPHS:
        try:
            return GRAPHS[node.op_type](decomposition)
        except NotDecomposedError:
            return None
    if node.op_type in DECOMPOSITIONS:
        try:
            DECOMPOSITIONS[node.op_type](decomposition)
        except NotDecomposedError:
            decomposition.nodes.clear()
        else:
            return decomposition.nodes
    if node.op_type in INLINED:
        function = function_body(node, values, opset)
        if function is not None:
            return inlined(node, function, prefix)
    if not onnx.defs.has(node.op_type, node.domain.removesuffix("ai.onnx")):
        raise RefusedError("ONNX does not define it")
    refuse_unsigned(decomposition)
    return None


def _of_another_domain(node: Any, values: Values, opset: int, prefix: str) -> list[Any]:
    """Return the nodes that replace an operator that ONNX does not define."""
    own = MICROSOFT.get(node.op_type) if node.domain == DOMAIN else None
    if own is None:
        raise RefusedError("ONNX does not define it")
    decomposition = Decomposition(node, values, opset, prefix)
    try:
        own(decomposition)
    except NotDecomposedError as error:
        raise RefusedError(f"ONNX does not define it, and {error}") from None
    return decomposition.nodes
