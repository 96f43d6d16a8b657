"""Imports an exported torch program into torch-mlir's dialect without a copy of its weights."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import torch
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

#: torch-mlir's pipeline from imported programs to the backend form of its dialect.
_TO_BACKEND: Final = (
    "builtin.module(func.func(torch-match-quantized-custom-ops),"
    " torchdynamo-export-to-torch-backend-pipeline)"
)


def import_program(program: Any, cutter: Cutter | None = None) -> Any:
    """Import a program as a module of torch-mlir's dialect in backend form, with the function `main`.

    The module's weights are views of the tensors of the program, which must outlive it.

    Args:
        program: the exported program.
        cutter: cuts out the operators that torch-mlir does not know; None to refuse them.

    Raises:
        NotLoweredError: with these operators.
    """
    hooks = FxImporterHooks()
    hooks.resolve_literal = _SharedLiterals().resolve
    importer = FxImporter(context=new_context(), hooks=hooks)
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
