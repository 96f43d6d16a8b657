"""Variables: declared once in a module, where a graph lists them in every block."""

from __future__ import annotations

from collections.abc import Iterator

from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.graph.model import Block, Graph, Tensor, operator_path
from tosa_convert.graph.opset import IDENTITY


def declared(graph: Graph) -> list[tuple[str, Tensor]]:
    """The variables by their symbols, in the order of their tensors' names.

    Raises TosaConvertError if they differ from block to block, or stand where MLIR wants a value.
    """
    found: dict[str, Tensor] = {}
    findings: list[Finding] = []
    for where, block in graph.blocks():
        for tensor in block.tensors.values():
            if not tensor.variable:
                continue
            symbol = tensor.variable_name or tensor.name
            first = found.setdefault(symbol, tensor)
            if (first.dtype, first.shape) != (tensor.dtype, tensor.shape):
                findings.append(
                    Finding(
                        "malformed-tensor",
                        f'{where} tensor "{tensor.name}"',
                        f"variable @{symbol} is {tensor.dtype} {tensor.shape} here and "
                        f"{first.dtype} {first.shape} elsewhere",
                    )
                )
            if tensor.shape is None:
                findings.append(
                    Finding(
                        "unsupported-shape",
                        f'{where} tensor "{tensor.name}"',
                        f"variable @{symbol} is unranked",
                        "give the variable a rank",
                    )
                )
        findings += _misused(where, block)
    if findings:
        raise TosaConvertError(findings)
    return sorted(found.items(), key=lambda item: _natural(item[1].name))


def _misused(where: str, block: Block) -> Iterator[Finding]:
    """Variables where the dialect needs a value: only reading and writing operators name them."""
    variables = {tensor.name for tensor in block.tensors.values() if tensor.variable}
    variables -= set(block.inputs)
    if not variables:
        return
    hint = "read it into a tensor of its own with VARIABLE_READ"
    for name in block.outputs:
        if name in variables:
            message = f'block output "{name}" is a variable, expected a value'
            yield Finding("malformed-structure", where, message, hint)
    for index, operator in enumerate(block.operators):
        touched = [name for name in operator.inputs + operator.outputs if name in variables]
        if len(touched) > (operator.spec.encoded_as == IDENTITY.name):
            yield Finding(
                "malformed-operator",
                operator_path(where, index, operator),
                f'"{touched[-1]}" is a variable, expected a value',
                hint,
            )


def _natural(name: str) -> tuple[str, int]:
    """Sort Variable_10 behind Variable_9."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1)
