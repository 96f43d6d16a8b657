"""MLIR types as element types and shapes of the graph."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tosa_convert.bindings.print_asm import spell
from tosa_convert.graph.dtypes import BY_MLIR, BlockShape, DType
from tosa_convert.graph.model import INT32_MAX, element_count
from tosa_convert.mlir.bytecode.decode import Bytecode, TensorType
from tosa_convert.mlir.narrowing import Narrowing

_SHAPE: Final = re.compile(r"!tosa\.shape<(\d+)>$")
_BLOCK_SCALED: Final = re.compile(r"!tosa\.block_scaled<(\w+):([\w!.]+):([\w!.]+)>$")

#: Element types people arrive with, and what to do about them.
_ADVICE: Final = {
    "f64": "TOSA has no FP64; to compute in f32 instead: --narrow f64, or narrow=['f64']",
    "ui": "run tosa-convert-integer-type-to-signless; TOSA types are signless",
    "si": "run tosa-convert-integer-type-to-signless; TOSA types are signless",
    "!quant": "lower quantised types first; TOSA carries scales in RESCALE operators",
    "complex": "split it into real and imaginary parts",
    "index": "cast it to i32",
}


@dataclass(slots=True)
class ValueType:
    """What the type of an MLIR value says. shape None: unranked. rank: of a !tosa.shape, else -1.

    narrowed: the MLIR element type that was narrowed to `dtype` on request, or "".
    is_plain: a tensor without a scale that is not narrowed, as most are.
    count: elements of a tensor, or None if its shape is not static.
    problem: why it cannot be carried, with `code` and `hint`; the rest is then meaningless.
    """

    dtype: DType | None = None
    shape: tuple[int, ...] | None = None
    scale: tuple[DType, BlockShape] | None = None
    rank: int = -1
    narrowed: str = ""
    code: str = ""
    problem: str = ""
    hint: str = ""
    is_plain: bool = False
    count: int | None = None


class TypeReader:
    """Reads the types of a bytecode, each once."""

    def __init__(self, bytecode: Bytecode, narrowing: Narrowing) -> None:
        self.bytecode = bytecode
        self.narrowing = narrowing
        self.known: dict[int, ValueType] = {}

    def __call__(self, index: int) -> ValueType:
        """What the type with this number says."""
        found = self.known.get(index)
        if found is None:
            found = self.known[index] = self._read(index)
        return found

    def _read(self, index: int) -> ValueType:
        kind = self.bytecode.type(index)
        if isinstance(kind, TensorType):
            if kind.encoded:
                return ValueType(
                    code="unsupported-type",
                    problem=f"{spell(self.bytecode, type_index=index)} has an encoding, which the "
                    "format has no field for",
                    hint="remove the encoding if the consumer does not need it",
                )
            return self.tensor(kind)
        shape_type = _SHAPE.match(kind)
        if shape_type is not None:
            return ValueType(rank=int(shape_type[1]))
        return ValueType(
            code="unsupported-type",
            problem=f"{kind} is not a tensor or a !tosa.shape",
            hint="TOSA functions take and return tensors only",
        )

    def tensor(self, kind: TensorType) -> ValueType:
        """What a tensor type without an encoding says."""
        shape, text = kind.shape, kind.element
        if shape is not None and any(size > INT32_MAX for size in shape):
            return ValueType(
                code="unsupported-shape",
                problem=f"{kind} has a dimension over {INT32_MAX}",
                hint="split the tensor",
            )
        count = element_count(shape)
        narrow = self.narrowing.target(text)
        if narrow is not None:
            return ValueType(narrow, shape, narrowed=text, count=count)
        dtype = BY_MLIR.get(text)
        if dtype is not None:
            return ValueType(dtype, shape, is_plain=True, count=count)
        scaled = _BLOCK_SCALED.match(text)
        if scaled is not None:
            block, scale, value = scaled.groups()
            if value in BY_MLIR and scale in BY_MLIR and block in BlockShape.__members__:
                scaling = (BY_MLIR[scale], BlockShape[block])
                return ValueType(BY_MLIR[value], shape, scaling, count=count)
        advice = next((hint for start, hint in _ADVICE.items() if text.startswith(start)), "")
        return ValueType(
            code="unsupported-dtype",
            problem=f"{kind}: TOSA has no element type {text}",
            hint=advice or "element types: " + ", ".join(BY_MLIR),
        )
