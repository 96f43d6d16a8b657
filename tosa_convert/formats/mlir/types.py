"""Element types and shapes of the graph from MLIR types, and the other way round."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.attributes import TensorType, Type
from tosa_convert.formats.mlir.bytecode.varint import to_zigzag
from tosa_convert.formats.mlir.read.narrowing import QUANT, QUANTISED
from tosa_convert.graph.dtypes import BY_MLIR, BlockShape, DType
from tosa_convert.graph.model import DYNAMIC, INT32_MAX, BlockScale, Tensor, element_count
from tosa_convert.records import dataclass
from tosa_convert.remedies import hint_for

if TYPE_CHECKING:
    from tosa_convert.formats.mlir.bytecode.decode import Bytecode
    from tosa_convert.formats.mlir.bytecode.encode import Encoder
    from tosa_convert.formats.mlir.read.narrowing import Narrowing


_SHAPE: Final = re.compile(r"!tosa\.shape<([0-9]{1,9})>$")
_SCALES: Final = re.compile(r",\s*\{[^}]*\}(?=>\Z)")
_BLOCK_SCALED: Final = r"!tosa\.block_scaled<(\w+):([\w!.]+):([\w!.]+)>$"

#: Prefixes of element types that programs have but TOSA does not, with hints.
_ADVICE: Final = {
    "ui": "run tosa-convert-integer-type-to-signless; TOSA types are signless",
    "si": "run tosa-convert-integer-type-to-signless; TOSA types are signless",
    "complex": "split it into real and imaginary parts",
    "index": "cast it to i32",
}

#: Builtin types that every version of bytecode has a number for; others are written as text.
_NUMBERED: Final = {
    "f32": code.F32_TYPE,
    "f16": code.F16_TYPE,
    "bf16": code.BF16_TYPE,
    "index": code.INDEX_TYPE,
}
#: A dynamic size in MLIR's encoding.
_DYNAMIC: Final = -(2**63)


def int_bits(dtype: DType) -> int:
    """Bits of an integer element in MLIR. i1 has one, though it takes a byte in a file."""
    return 1 if dtype.name == "BOOL" else dtype.bits


def is_stored_as(found: Type, wanted: Type) -> bool:
    """Tell whether values of a type are those of another one in the form that constants have.

    A quantised type has the integers that it is stored as, and a constant's type has its scales.
    """
    if not isinstance(found, TensorType) or not isinstance(wanted, TensorType):
        return False
    element = _SCALES.sub("", found.element)
    quantised = QUANTISED.match(wanted.element)
    elements = (f"i{quantised[2]}", f"ui{quantised[2]}") if quantised else (wanted.element,)
    return element in elements and found.shape == wanted.shape and not found.encoded


def _hint_of(text: str) -> str:
    """Return what to do about a type that is not TOSA's."""
    dialect = text[1:].partition(".")[0] if text.startswith("!") else ""
    if dialect not in ("", "tosa"):
        from tosa_convert.formats.mlir.read.foreign_operations import lowering_hint

        return lowering_hint(dialect)
    return "TOSA functions take and return tensors only"


# -- MLIR -> graph ----------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, repr=False)
class ValueType:
    """The type of an MLIR value.

    shape: None if unranked. rank: of a !tosa.shape, else -1.
    narrowed: the kind of element type that was narrowed to `dtype` on request, or "".
    is_plain: a tensor without a scale that is not narrowed, as most are.
    count: elements of a tensor, or None if its shape is not static.
    unsigned: its elements were unsigned; `dtype` is signless and has the same bits.
    problem: why the type cannot be carried, with `code` and `hint`; the rest is then meaningless.
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
    unsigned: bool = False


class TypeReader:
    """Reads the types of a bytecode, each once."""

    def __init__(self, bytecode: Bytecode, narrowing: Narrowing) -> None:
        self.bytecode = bytecode
        self.narrowing = narrowing
        #: The types that were read, by their numbers.
        self.cache: dict[int, ValueType] = {}

    def __call__(self, index: int) -> ValueType:
        """Return the type with this index."""
        value_type = self.cache.get(index)
        if value_type is None:
            value_type = self.cache[index] = self._read(index)
        return value_type

    def _read(self, index: int) -> ValueType:
        type_ = self.bytecode.type(index)
        if isinstance(type_, TensorType):
            if type_.encoded:
                return ValueType(
                    code="unsupported-type",
                    problem=f"{type_} has an encoding, which the format has no field for",
                    hint="remove the encoding if the consumer does not need it",
                )
            return self.tensor(type_)
        text = str(type_)
        shape_type = _SHAPE.match(text)
        if shape_type is not None:
            return ValueType(rank=int(shape_type[1]))
        return ValueType(
            code="unsupported-type",
            problem=f"{type_} is not a tensor or a !tosa.shape",
            hint=_hint_of(text),
        )

    def tensor(self, type_: TensorType) -> ValueType:
        shape, element = type_.shape, type_.element
        if shape is not None and any(size > INT32_MAX for size in shape):
            return ValueType(
                code="unsupported-shape",
                problem=f"{type_} has a dimension over {INT32_MAX}",
                hint="split the tensor",
            )
        count = element_count(shape)
        narrow = self.narrowing.target(element)
        if narrow is not None:
            return ValueType(narrow, shape, narrowed=element, count=count)
        dtype = BY_MLIR.get(element)
        if dtype is not None:
            return ValueType(dtype, shape, is_plain=True, count=count)
        storage = self.narrowing.storage(element)
        if storage is not None:
            dtype, unsigned = storage
            return ValueType(dtype, shape, narrowed=QUANT, count=count, unsigned=unsigned)
        if element.startswith("ui") and element[1:] in BY_MLIR:
            return ValueType(BY_MLIR[element[1:]], shape, count=count, unsigned=True)
        scaled = re.match(_BLOCK_SCALED, element)
        if scaled is not None:
            block, scale, value = scaled.groups()
            if value in BY_MLIR and scale in BY_MLIR and block in BlockShape.__members__:
                scaling = (BY_MLIR[scale], BlockShape[block])
                return ValueType(BY_MLIR[value], shape, scaling, count=count)
        advice = next((hint for start, hint in _ADVICE.items() if element.startswith(start)), "")
        code, problem = "unsupported-dtype", f"{type_}: TOSA has no element type {element}"
        advice = advice or hint_for(code, "", problem) or "element types: " + ", ".join(BY_MLIR)
        return ValueType(code=code, problem=problem, hint=advice)


# -- graph -> MLIR ----------------------------------------------------------------------------------


class TypeWriter:
    """Adds types to a bytecode, each distinct one once, and returns their encoded numbers."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.numbers = encoder.numbers
        self.types = encoder.types
        self.elements: dict[str, bytes] = {}
        self.tensors: dict[tuple[DType, tuple[int, ...] | None], bytes] = {}
        #: Until 2022 MLIR had another number for a dynamic size.
        self.dynamic_size = _DYNAMIC

    def builtin(self, text: str) -> bytes:
        number = self.elements.get(text)
        if number is None:
            number = self.elements[text] = self._builtin(text)
        return number

    def _builtin(self, text: str) -> bytes:
        numbers = self.numbers
        if text in _NUMBERED:
            return self.types(numbers[_NUMBERED[text]])
        if text[0] == "i" and text[1:].isdigit():
            # The two lowest bits are the signedness: zero is signless.
            return self.types(numbers[code.INTEGER_TYPE] + numbers[int(text[1:]) << 2])
        return self.types.text(text)

    def element(self, dtype: DType, scale: BlockScale | None = None) -> bytes:
        if scale is None:
            return self.builtin(dtype.mlir)
        return self.builtin(
            f"!tosa.block_scaled<{scale.shape.name}:{scale.dtype.mlir}:{dtype.mlir}>"
        )

    def ranked(self, shape: Iterable[int], element: bytes, encoding: bytes = b"") -> bytes:
        """Encode the tensor type of these sizes. encoding: the number of its attribute, or nothing."""
        numbers, dynamic = self.numbers, self.dynamic_size
        sizes = [numbers[to_zigzag(dynamic if size == DYNAMIC else size)] for size in shape]
        kind = code.RANKED_TENSOR_TYPE_WITH_ENCODING if encoding else code.RANKED_TENSOR_TYPE
        return self.types(b"".join((numbers[kind], encoding, numbers[len(sizes)], *sizes, element)))

    def tensor(self, tensor: Tensor) -> bytes:
        scale, shape = tensor.scale, tensor.shape
        key = (tensor.dtype, shape)
        number = self.tensors.get(key) if scale is None else None
        if number is None:
            element = self.element(tensor.dtype, scale)
            if shape is None:
                number = self.types(self.numbers[code.UNRANKED_TENSOR_TYPE] + element)
            else:
                number = self.ranked(shape, element)
            if scale is None:
                self.tensors[key] = number
        return number

    def shape(self, rank: int) -> bytes:
        return self.builtin(f"!tosa.shape<{rank}>")

    def function(self, inputs: list[bytes], outputs: list[bytes]) -> bytes:
        numbers = self.numbers
        parts = numbers[len(inputs)], *inputs, numbers[len(outputs)], *outputs
        return self.types(numbers[code.FUNCTION_TYPE] + b"".join(parts))
