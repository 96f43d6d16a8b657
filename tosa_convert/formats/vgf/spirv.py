"""SPIR-V modules: their instructions, types and constants, as far as graphs use them.

Numbers of instructions, and the order of their operands: the SPIR-V specification, SPV_ARM_tensors and
SPV_ARM_graph.
"""

from __future__ import annotations

import math
import struct
from typing import Final

import numpy.typing as npt

from tosa_convert.formats.vgf.container import malformed
from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.records import NamedTuple, dataclass, field

_MAGIC: Final = 0x07230203
_HEADER_WORDS: Final = 5
#: Instructions by number; others are skipped.
STRING, IMPORT, EXTENDED, CONSTANT_TRUE, CONSTANT_FALSE = 7, 11, 12, 41, 42
CONSTANT, COMPOSITE, NULL, SPEC_CONSTANT, REPLICATED = 43, 44, 46, 50, 4461
TYPE_BOOL, TYPE_INT, TYPE_FLOAT, TYPE_ARRAY, TYPE_TENSOR = 20, 21, 22, 28, 4163
TYPE_STRUCT, DECORATE, EXTRACT = 30, 71, 81
GRAPH_CONSTANT, ENTRY_POINT, GRAPH = 4181, 4182, 4183
GRAPH_INPUT, GRAPH_OUTPUT, GRAPH_END = 4184, 4185, 4186
#: The decoration that says the binding of a variable.
_BINDING: Final = 33
#: The most sizes of a tensor, and the most numbers of a list, that a damaged file may ask for.
_MOST_RANK: Final = 64
_MOST_NUMBERS: Final = 256
_BODY: Final = frozenset((GRAPH_INPUT, GRAPH_OUTPUT, EXTENDED, EXTRACT))
#: Formats of floating point: its bits, and the word after them if there is one -> element type.
_FLOATS: Final = {
    (32, None): "FP32",
    (16, None): "FP16",
    (16, 0): "BF16",
    (8, 4214): "FP8E4M3",
    (8, 4215): "FP8E5M2",
}
#: Integers of 64 bits are the 48 bits of TOSA 1.0.
_INTEGERS: Final = {8: "INT8", 16: "INT16", 32: "INT32", 64: "INT48"}


class Type(NamedTuple):
    """A type: of tensors, of arrays of one dimension, and of numbers, which have shape ().

    shape: None if a module gives the rank only, or nothing.
    width: bits of an element.
    """

    element: DType
    shape: tuple[int, ...] | None
    width: int

    def __str__(self) -> str:
        sizes = "of unknown rank" if self.shape is None else str(list(self.shape))
        return f"{self.element} {sizes}"

    def elements(self) -> int:
        """Return the number of elements; ValueError if it is not known."""
        if self.shape is None or min(self.shape, default=0) < 0:
            raise ValueError("a constant of unknown size")
        return math.prod(self.shape)


@dataclass(slots=True)
class Value:
    """A constant of a module.

    numbers: its elements, or one that all have; None if it is one of the container, `stored`.
    """

    type: Type
    numbers: npt.NDArray[np.int64] | None
    stored: int = 0


@dataclass(slots=True)
class Module:
    """What a module defines, by id.

    sets: extended instruction sets. structs: the types of several results.
    entry_points: the name under which a graph is run -> its id, and those of its inputs and outputs.
    bindings: the binding of an input or output.
    bodies: the instructions of its graphs, in order: number and words.
    after: instructions of extended sets behind the graphs.
    """

    strings: dict[int, str] = field(default_factory=dict)
    sets: dict[int, str] = field(default_factory=dict)
    types: dict[int, Type] = field(default_factory=dict)
    structs: dict[int, tuple[int, ...]] = field(default_factory=dict)
    values: dict[int, Value] = field(default_factory=dict)
    entry_points: dict[str, tuple[int, ...]] = field(default_factory=dict)
    bindings: dict[int, int] = field(default_factory=dict)
    bodies: dict[int, list[tuple[int, tuple[int, ...]]]] = field(default_factory=dict)
    after: list[tuple[int, ...]] = field(default_factory=list)


def read_module(words: memoryview, where: str) -> Module:
    if len(words) < 4 * _HEADER_WORDS or struct.unpack_from("<I", words)[0] != _MAGIC:
        raise malformed(where, "its module is not SPIR-V")
    numbers = np.frombuffer(words, "<u4").tolist()
    module = Module()
    graph, at = 0, _HEADER_WORDS
    while at < len(numbers):
        number, length = numbers[at] & 0xFFFF, numbers[at] >> 16
        operands = tuple(numbers[at + 1 : at + length])
        if length == 0 or len(operands) != length - 1:
            raise malformed(where, f"its module is cut off at word {at}")
        try:
            if number == GRAPH:
                graph = operands[1]
                module.bodies[graph] = []
            elif number == GRAPH_END:
                graph = 0
            elif graph and number in _BODY:
                module.bodies[graph].append((number, operands))
            elif number == EXTENDED:
                module.after.append(operands)
            else:
                _define(module, number, operands)
        except (LookupError, ValueError, OverflowError) as error:
            message = f"instruction {number} at word {at} of its module is damaged: {error}"
            raise malformed(where, message) from None
        at += length
    return module


def _define(module: Module, number: int, words: tuple[int, ...]) -> None:
    match number:
        case _ if number == STRING:
            module.strings[words[0]] = text_of(words[1:])
        case _ if number == IMPORT:
            module.sets[words[0]] = text_of(words[1:])
        case _ if number == ENTRY_POINT:
            name = text_of(words[1:])
            module.entry_points[name] = (words[0], *words[2 + len(name.encode()) // 4 :])
        case _ if number == DECORATE and words[1] == _BINDING:
            module.bindings[words[0]] = words[2]
        case _ if number == TYPE_BOOL:
            module.types[words[0]] = Type(dtype("BOOL"), (), 8)
        case _ if number == TYPE_INT:
            module.types[words[0]] = Type(dtype(_INTEGERS[words[1]]), (), words[1])
        case _ if number == TYPE_FLOAT:
            name = _FLOATS[words[1], words[2] if len(words) > 2 else None]
            module.types[words[0]] = Type(dtype(name), (), words[1])
        case _ if number == TYPE_STRUCT:
            module.structs[words[0]] = words[1:]
        case _ if number in (TYPE_ARRAY, TYPE_TENSOR):
            module.types[words[0]] = _shaped(module, number, words)
        case _ if number in (CONSTANT, SPEC_CONSTANT, CONSTANT_TRUE, CONSTANT_FALSE):
            kind = module.types[words[0]]
            bits = words[2] | words[3] << 32 if len(words) > 3 else sum(words[2:3])
            bits = (
                int(number == CONSTANT_TRUE) if number in (CONSTANT_TRUE, CONSTANT_FALSE) else bits
            )
            module.values[words[1]] = Value(kind, np.array(_signed(bits, kind)))
        case _ if number in (COMPOSITE, REPLICATED):
            parts = [numbers_of(module.values[word]) for word in words[2:]]
            kind = module.types[words[0]]
            module.values[words[1]] = Value(kind, _joined(parts, kind))
        case _ if number == NULL:
            module.values[words[1]] = Value(module.types[words[0]], np.zeros((), np.int64))
        case _ if number == GRAPH_CONSTANT:
            module.values[words[1]] = Value(module.types[words[0]], None, words[2])


def _shaped(module: Module, number: int, words: tuple[int, ...]) -> Type:
    element = module.types[words[1]]
    if number == TYPE_ARRAY:
        return element._replace(shape=(int(numbers_of(module.values[words[2]]).reshape(())),))
    if len(words) > 3:
        return element._replace(shape=listed(module.values[words[3]]))
    rank = int(numbers_of(module.values[words[2]]).reshape(())) if len(words) > 2 else -1
    if rank > _MOST_RANK:
        raise ValueError(f"a tensor of rank {rank}")
    return element._replace(shape=None if rank < 0 else (-1,) * rank)


def numbers_of(value: Value) -> npt.NDArray[np.int64]:
    if value.numbers is None:
        raise ValueError("a constant of the container stands for a number")
    return value.numbers


def listed(value: Value) -> tuple[int, ...]:
    """Return the numbers of a list, such as sizes; ValueError for more than a program has."""
    count = value.type.elements()
    if count > _MOST_NUMBERS:
        raise ValueError(f"a list of {count} numbers")
    return tuple(np.broadcast_to(numbers_of(value), (count,)).tolist())


def _joined(parts: list[npt.NDArray[np.int64]], kind: Type) -> npt.NDArray[np.int64]:
    """Return the elements of a composite: of numbers, or of composites with fewer dimensions."""
    if len(parts) == 1 and parts[0].ndim == 0:
        return parts[0]
    return np.concatenate([np.broadcast_to(part, part.shape or (1,)) for part in parts])


def _signed(bits: int, kind: Type) -> int:
    """Return an integer as a number; floating point stays bits, of which `bytes_of` makes elements."""
    bits &= (1 << kind.width) - 1
    is_negative = kind.element.name.startswith("INT") and bits >> (kind.width - 1)
    return bits - (1 << kind.width) if is_negative else bits if bits < 1 << 63 else bits - (1 << 64)


def text_of(words: tuple[int, ...]) -> str:
    """Return a literal text, which ends with a zero."""
    data = struct.pack(f"<{len(words)}I", *words)
    return data[: data.index(0)].decode(errors="replace")


def bytes_of(value: Value) -> bytes:
    """Return the elements of a constant of the module, one for a splat, as a `.tosa` file has them."""
    width = 6 if value.type.element.name == "INT48" else value.type.width // 8
    numbers = np.ascontiguousarray(numbers_of(value).reshape(-1).astype("<i8"))
    return numbers.view(np.uint8).reshape(-1, 8)[:, :width].tobytes()
