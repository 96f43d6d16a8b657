"""Element types and shapes of the graph as MLIR types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import DYNAMIC, BlockScale, Tensor
from tosa_convert.mlir.bytecode.encode import Encoder
from tosa_convert.mlir.bytecode.format import (
    BF16_TYPE,
    F16_TYPE,
    F32_TYPE,
    FUNCTION_TYPE,
    INDEX_TYPE,
    INTEGER_TYPE,
    RANKED_TENSOR_TYPE,
    UNRANKED_TENSOR_TYPE,
)
from tosa_convert.mlir.bytecode.varint import encode_varint, to_zigzag

#: Builtin types that every version of bytecode has a number for; younger ones are spelled.
_NUMBERED: Final = {"f32": F32_TYPE, "f16": F16_TYPE, "bf16": BF16_TYPE, "index": INDEX_TYPE}
#: How MLIR keeps a size that is not known.
_DYNAMIC: Final = -(2**63)


class TypeWriter:
    """Adds types to a file, each distinct one once, and returns their indices."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.numbers = encoder.numbers
        self.types = encoder.types
        self.elements: dict[str, bytes] = {}
        self.tensors: dict[tuple[DType, tuple[int, ...] | None], bytes] = {}

    def builtin(self, text: str) -> bytes:
        """The element type that `text` spells."""
        found = self.elements.get(text)
        if found is None:
            found = self.elements[text] = self._builtin(text)
        return found

    def _builtin(self, text: str) -> bytes:
        numbers = self.numbers
        if text in _NUMBERED:
            return self.types(numbers[_NUMBERED[text]])
        if text[0] == "i" and text[1:].isdigit():
            # Two bits tell about the sign: these have none.
            return self.types(numbers[INTEGER_TYPE] + numbers[int(text[1:]) << 2])
        return self.types.text(text)

    def element(self, dtype: DType, scale: BlockScale | None = None) -> bytes:
        """The element type."""
        if scale is None:
            return self.builtin(dtype.mlir)
        return self.builtin(
            f"!tosa.block_scaled<{scale.shape.name}:{scale.dtype.mlir}:{dtype.mlir}>"
        )

    def ranked(self, shape: Iterable[int], element: bytes) -> bytes:
        """The tensor type of these sizes."""
        sizes = [encode_varint(to_zigzag(_DYNAMIC if size == DYNAMIC else size)) for size in shape]
        numbers = self.numbers
        return self.types(
            numbers[RANKED_TENSOR_TYPE] + numbers[len(sizes)] + b"".join(sizes) + element
        )

    def tensor(self, tensor: Tensor) -> bytes:
        """The type of a tensor; shape None is unranked."""
        scale, shape = tensor.scale, tensor.shape
        key = (tensor.dtype, shape)
        found = self.tensors.get(key) if scale is None else None
        if found is None:
            element = self.element(tensor.dtype, scale)
            if shape is None:
                found = self.types(self.numbers[UNRANKED_TENSOR_TYPE] + element)
            else:
                found = self.ranked(shape, element)
            if scale is None:
                self.tensors[key] = found
        return found

    def shape(self, rank: int) -> bytes:
        """The !tosa.shape type."""
        return self.builtin(f"!tosa.shape<{rank}>")

    def function(self, inputs: list[bytes], outputs: list[bytes]) -> bytes:
        """The type of a function."""
        numbers = self.numbers
        return self.types(
            b"".join(
                (
                    numbers[FUNCTION_TYPE],
                    numbers[len(inputs)],
                    *inputs,
                    numbers[len(outputs)],
                    *outputs,
                )
            )
        )
