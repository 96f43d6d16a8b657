"""Element types and shapes of the graph as MLIR types."""

from __future__ import annotations

from typing import Any

from tosa_convert.graph.dtypes import BlockShape, DType
from tosa_convert.graph.model import DYNAMIC
from tosa_convert.mlir.bindings import Bindings


class TypeWriter:
    """Makes types, each distinct one once."""

    def __init__(self, bindings: Bindings, context: Any) -> None:
        self.ir = bindings.ir
        self.context = context
        self.elements: dict[str, Any] = {}
        self.tensors: dict[Any, Any] = {}

    def parse(self, text: str) -> Any:
        """The type that `text` spells."""
        found = self.elements.get(text)
        if found is None:
            found = self.elements[text] = self.ir.Type.parse(text, self.context)
        return found

    def element(self, dtype: DType, scale: tuple[DType, BlockShape] | None = None) -> Any:
        """The element type."""
        if scale is None:
            return self.parse(dtype.mlir)
        return self.parse(f"!tosa.block_scaled<{scale[1].name}:{scale[0].mlir}:{dtype.mlir}>")

    def tensor(
        self,
        dtype: DType,
        shape: tuple[int, ...] | None,
        scale: tuple[DType, BlockShape] | None = None,
    ) -> Any:
        """The tensor type; shape None is unranked."""
        key = (dtype.code, shape, scale)
        found = self.tensors.get(key)
        if found is None:
            element = self.element(dtype, scale)
            unknown = self.ir.Location.unknown(self.context)
            if shape is None:
                found = self.ir.UnrankedTensorType.get(element, unknown)
            else:
                dynamic = self.ir.ShapedType.get_dynamic_size()
                sizes = [dynamic if size == DYNAMIC else size for size in shape]
                found = self.ir.RankedTensorType.get(sizes, element, None, unknown)
            self.tensors[key] = found
        return found

    def shape(self, rank: int) -> Any:
        """The !tosa.shape type."""
        return self.parse(f"!tosa.shape<{rank}>")
