"""Constants of the graph as attributes: dense ones in the file, large ones as resources.

A resource shares the graph's memory, so it cannot lie in the file: a resource without data stands in
its place until the module is there.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import dtype
from tosa_convert.graph.model import ShapeValue, Tensor
from tosa_convert.mlir.bytecode.encode import Encoder
from tosa_convert.mlir.bytecode.format import DENSE_STRINGS
from tosa_convert.mlir.writing.types import TypeWriter

Constants = Literal["auto", "dense", "resource"]

#: Constants of at most this many bytes become dense attributes, so that passes can fold them;
#: larger ones become resources that share the graph's memory.
DENSE_BYTES: Final = 256
#: Constants of at most this many bytes are searched for a value that all elements share.
SPLAT_BYTES: Final = 1 << 16
#: Strictest alignment of a resource that MLIR's bytecode can carry, in bytes.
MAX_ALIGN: Final = 16

_BOOL: Final = dtype("BOOL")
_MXINT8: Final = dtype("MXINT8")


class ConstantWriter:
    """Adds the values of constants to a file and returns their indices."""

    def __init__(self, encoder: Encoder, types: TypeWriter, constants: Constants) -> None:
        self.encoder = encoder
        self.numbers = encoder.numbers
        self.types = types
        self.constants = constants
        self.known_sizes: dict[bytes, bytes] = {}

    def shape(self, shape: ShapeValue) -> bytes:
        """The sizes of a constant shape."""
        data = shape.data
        return self.sizes(b"" if data is None else bytes(data.packed()))

    def sizes(self, raw: bytes) -> bytes:
        """64-bit integers of type index."""
        found = self.known_sizes.get(raw)
        if found is None:
            kind = self.types.ranked((len(raw) // 8,), self.types.builtin("index"))
            found = self.known_sizes[raw] = self.encoder.dense(kind, raw)
        return found

    def is_shared(self, tensor: Tensor, *, folded: bool) -> bool:
        """Whether a constant becomes a resource. `folded`: whether compilers look into it."""
        data = tensor.data
        assert data is not None
        if self.constants == "dense" or folded or tensor.scale is not None or not data.is_view:
            return False
        if data.dtype.is_packed or data.dtype is _BOOL:
            return False
        if self.constants == "resource":
            return True
        if data.nbytes <= DENSE_BYTES:
            return False
        return data.nbytes > SPLAT_BYTES or data.uniform() is None

    def without_data(self, tensor: Tensor) -> bytes:
        """What stands for a resource that is shared."""
        return self.encoder.without_data(self.types.tensor(tensor))

    def dense(self, tensor: Tensor) -> bytes:
        """A dense attribute; the data is copied."""
        data, scale = tensor.data, tensor.scale
        assert data is not None
        if scale is not None:
            assert scale.data is not None
            return self._block_scaled(tensor, data, scale.data)
        kind = self.types.tensor(tensor)
        if data.dtype is _MXINT8:
            return self._strings(kind, data)
        if data.dtype is _BOOL:
            return self.encoder.dense(kind, _bits(data))
        return self.encoder.dense(kind, _elements(data))

    def _strings(self, kind: bytes, data: Constant) -> bytes:
        """The dialect spells these elements as strings."""
        splat = data.uniform()
        raw = data.elements() if splat is None else np.frombuffer(splat, np.uint8)
        codes, places = np.unique(raw, return_inverse=True)
        names = [self.encoder.string(f"0x{code:X}") for code in codes.tolist()]
        listing = b"".join(map(names.__getitem__, places.reshape(-1).tolist()))
        head = self.numbers[DENSE_STRINGS] + kind + self.numbers[splat is not None]
        return self.encoder.attributes.data(head, listing)

    def _block_scaled(self, tensor: Tensor, data: Constant, scales: Constant) -> bytes:
        """Values as a dense attribute whose element type carries the scales."""
        assert tensor.scale is not None
        literals = ", ".join(map(_e8m0, scales.elements().reshape(-1).tolist()))
        element = self.encoder.types.text(
            f"!tosa.block_scaled<{tensor.scale.shape.name}:"
            f"{tensor.scale.dtype.mlir}:{tensor.dtype.mlir}, {{{literals}}}>"
        )
        raw = np.ascontiguousarray(data.elements()).reshape(-1)
        return self.encoder.dense(self.types.ranked(tensor.shape or (), element), raw.data)


def _elements(data: Constant) -> bytes | memoryview:
    """A constant's elements as MLIR keeps them, or one that stands for all."""
    if data.is_view and not data.dtype.is_packed and data.nbytes <= DENSE_BYTES:
        return data.buffer  # MLIR sees for itself whether they are equal
    splat = data.uniform()
    if splat is not None:
        return splat
    return np.ascontiguousarray(data.elements()).reshape(-1).data


def _bits(data: Constant) -> bytes | memoryview:
    """A constant's truths as MLIR keeps them."""
    splat = data.uniform()
    truths = (data.elements() if splat is None else np.frombuffer(splat, np.uint8)) != 0
    if truths.size and truths.all():
        return b"\xff"
    if truths.size and not truths.any():
        return b"\0"
    return np.packbits(truths.reshape(-1), bitorder="little").data


def _e8m0(code: int) -> str:
    """A scale as MLIR reads it: 0xFF is NaN, everything else a power of two."""
    return "0xFF" if code == 0xFF else repr(2.0 ** (code - 127))


def resource(ir: Any, context: Any, tensor: Tensor, kind: Any) -> Any:
    """A constant as a resource of the type `kind`, which lives as long as the context."""
    data = tensor.data
    assert data is not None
    # The alignment is part of what MLIR prints, so it must not depend on the address: it is the
    # element's own, and data that lies askew (files may) is moved.
    buffer: Any = data.buffer
    alignment = min(MAX_ALIGN, data.dtype.element_bytes & -data.dtype.element_bytes)
    raw = np.frombuffer(buffer, np.uint8)
    if raw.__array_interface__["data"][0] % alignment:
        buffer = raw.copy()
    return ir.DenseResourceElementsAttr.get_from_buffer(
        buffer,
        tensor.name or "constant",
        kind,
        alignment=alignment,
        is_mutable=False,
        context=context,
    )
