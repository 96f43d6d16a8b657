"""Attributes and types of a bytecode, decoded when they are first used.

The bytecode comes from MLIR's own writer, so it is trusted. Files are checked by `bindings.untrusted`
and read by MLIR's parser first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tosa_convert.mlir.bytecode import format as code
from tosa_convert.mlir.bytecode.attributes import (
    Attribute,
    DenseArrayAttr,
    DenseAttr,
    DenseStringsAttr,
    OpaqueAttr,
    ResourceAttr,
    ScalarAttr,
    TensorType,
    Type,
    TypeAttr,
    bit_width,
)
from tosa_convert.mlir.bytecode.detached import NO_DETACHED_WEIGHTS, DetachedWeights
from tosa_convert.mlir.bytecode.opaque import module_with
from tosa_convert.mlir.bytecode.resources import decode_resources
from tosa_convert.mlir.bytecode.sections import Section
from tosa_convert.mlir.bytecode.tables import Tables
from tosa_convert.mlir.bytecode.varint import decode_varint, encode_varint, from_zigzag

#: Prints the attribute `opaque.KEY` of the module in a bytecode file.
PrintAsm = Callable[[bytes], str]

#: Printing takes time in proportion to the module, so after this many the text is "...".
MAX_PRINTED: Final = 64

_OPAQUE: Final = OpaqueAttr()
#: No attribute begins with this.
_NO_PREFIX: Final = b"\xff"
_SIGNEDNESS: Final = ("i", "si", "ui")


class Bytecode(Tables):
    """The bytecode of one operation.

    print_asm: prints what is not decoded.
    weights: constants that were detached from the file before MLIR read it.
    """

    def __init__(
        self,
        sections: Mapping[int, Section],
        print_asm: PrintAsm,
        weights: DetachedWeights = NO_DETACHED_WEIGHTS,
    ) -> None:
        super().__init__(sections)
        self.weights = weights
        self._print_asm = print_asm
        self._types: dict[int, Type] = {}
        self._attributes: dict[int, Attribute] = {}
        self._keys: dict[int, str] = {}
        #: How a dictionary begins whose only entry is called "values", once such a name was decoded.
        self._values_prefix = _NO_PREFIX
        #: Printed attributes and types, by their numbers.
        self._printed: dict[tuple[int, int], str] = {}
        self._resources: list[tuple[str, memoryview | None]] | None = None

    def print_attribute(self, index: int) -> str:
        """The attribute with this number, as MLIR prints it."""
        return self._print(index, -1)

    def print_type(self, index: int) -> str:
        """The type with this number, as MLIR prints it."""
        return self._print(-1, index)

    def _print(self, attribute: int, type_index: int) -> str:
        key = attribute, type_index
        text = self._printed.get(key)
        if text is None:
            if len(self._printed) >= MAX_PRINTED:
                return "..."
            file = module_with(self, attribute=attribute, type_index=type_index)
            text = self._printed[key] = self._print_asm(file)
        return text

    # -- attributes ---------------------------------------------------------------------------

    def attribute(self, index: int) -> Attribute:
        """The attribute with this number."""
        try:
            return self._attributes[index]
        except KeyError:
            decoded = self._attributes[index] = self._attribute(index)
            return decoded

    def dictionary(self, index: int) -> dict[str, int]:
        """The numbers of a dictionary's attributes by name. Index -1 is an empty dictionary."""
        decoded = self.attribute(index) if index >= 0 else {}
        assert isinstance(decoded, dict)
        return decoded

    def only_dense(self, index: int) -> tuple[int, memoryview] | None:
        """The type's number and the data of a dictionary that is just `values = dense<...>`.

        None if it is another dictionary, the first one with that name, or a detached constant. Those
        take the way through `dictionary` and `attribute`.
        """
        # Fast path of `attribute`; equal by test test_the_fast_path_of_plain_constants_is_equal
        data, offset = self.bytes, self.starts[index]
        if not data.startswith(self._values_prefix, offset) or not self.is_encoded[index]:
            return None
        value, _ = decode_varint(data, offset + len(self._values_prefix))
        offset = self.starts[value]
        if data[offset] != code.DENSE_ELEMENTS << 1 | 1 or not self.is_encoded[value]:
            return None
        if self.dialects[self.dialect_of[value]] != "builtin":
            return None
        type_index, offset = decode_varint(data, offset + 1)
        size, offset = decode_varint(data, offset)
        return type_index, self._data(size, offset)

    def _attribute(self, index: int) -> Attribute:
        data, offset, end = self.bytes, self.starts[index], self.starts[index + 1]
        if not self.is_encoded[index]:
            return data[offset : end - 1].decode("utf-8", "replace")
        if self.dialects[self.dialect_of[index]] != "builtin":
            return _OPAQUE
        tag, offset = decode_varint(data, offset)
        if tag == code.UNIT:
            return None
        # All others begin with a number: of a string, of a type, or of elements.
        first, offset = decode_varint(data, offset) if offset < end else (0, offset)
        if tag == code.STRING or tag == code.STRING_WITH_TYPE:
            return self.strings[first]
        if tag == code.DICTIONARY:
            pairs = {}
            for _ in range(first):
                name, offset = decode_varint(data, offset)
                value, offset = decode_varint(data, offset)
                pairs[self._keys.get(name) or self._key(name)] = value
            return pairs
        if tag == code.ARRAY:
            return self._numbers(first, offset)
        if tag == code.INTEGER or tag == code.FLOAT:
            return self._scalar(first, offset, tag == code.FLOAT)
        if tag == code.TYPE:
            return TypeAttr(self.type(first))
        return self._elements(tag, first, offset, end)

    def _elements(self, tag: int, type_index: int, offset: int, end: int) -> Attribute:
        """An attribute of several elements whose type, or whose elements' type, has this number."""
        data = self.bytes
        if tag == code.DENSE_ELEMENTS:
            size, offset = decode_varint(data, offset)
            return DenseAttr(self.type(type_index), self._data(size, offset))
        if tag == code.DENSE_ARRAY:
            count, offset = decode_varint(data, offset)
            size, offset = decode_varint(data, offset)
            raw = bytes(self._data(size, offset))
            return DenseArrayAttr(self.type(type_index), count, raw)
        if tag == code.DENSE_STRINGS:
            is_splat, offset = decode_varint(data, offset)
            numbers = self._numbers(end - offset, offset, end)
            strings = [self.strings[number] for number in numbers]
            return DenseStringsAttr(self.type(type_index), bool(is_splat), strings)
        if tag == code.DENSE_RESOURCE:
            handle, offset = decode_varint(data, offset)
            return self._resource(handle, self.type(type_index))
        return _OPAQUE

    def _resource(self, handle: int, type_: Type) -> ResourceAttr | DenseAttr:
        """The resource with this number, or the detached constant that it stands for."""
        if self._resources is None:
            self._resources = decode_resources(self.sections, self.strings)
        name, data = self._resources[handle]
        detached = self.weights.get(name)
        if detached is None:
            return ResourceAttr(type_, data)
        if detached.is_dense:
            return DenseAttr(type_, detached.data)
        return ResourceAttr(type_, detached.data)

    def _key(self, index: int) -> str:
        """The text of a string attribute that is a key of dictionaries."""
        raw = self.attribute(index)
        assert isinstance(raw, bytes)
        key = self._keys[index] = raw.decode("utf-8", "replace")
        if raw == b"values":
            prefix = bytes((code.DICTIONARY << 1 | 1, 1 << 1 | 1))
            self._values_prefix = prefix + encode_varint(index)
        return key

    def _numbers(self, count: int, offset: int, end: int = -1) -> list[int]:
        """At most `count` numbers, fewer if they reach `end`."""
        numbers: list[int] = []
        while len(numbers) < count and offset != end:
            number, offset = decode_varint(self.bytes, offset)
            numbers.append(number)
        return numbers

    def _data(self, size: int, offset: int) -> memoryview:
        left_out = self.data.get(offset) if self.data else None
        if left_out is not None and len(left_out) == size:
            return left_out
        return memoryview(self.bytes)[offset : offset + size]

    def _scalar(self, type_index: int, offset: int, is_float: bool) -> Attribute:
        type_ = self.type(type_index)
        width = bit_width(type_)
        if not width:
            return _OPAQUE
        if width <= 8:
            bits = self.bytes[offset]
        elif width <= 64:
            bits = from_zigzag(decode_varint(self.bytes, offset)[0])
        else:
            count, offset = decode_varint(self.bytes, offset)
            bits = 0
            for position, word in enumerate(self._numbers(count, offset)):
                bits |= (from_zigzag(word) & (1 << 64) - 1) << 64 * position
        return ScalarAttr(type_, bits & (1 << width) - 1, is_float)

    # -- types --------------------------------------------------------------------------------

    def type(self, index: int) -> Type:
        """The type with this number."""
        try:
            return self._types[index]
        except KeyError:
            decoded = self._types[index] = self._type(index)
            return decoded

    def _type(self, index: int) -> Type:
        entry = index + self.attribute_count
        data, offset = self.bytes, self.starts[entry]
        if not self.is_encoded[entry]:
            return data[offset : self.starts[entry + 1] - 1].decode("utf-8", "replace")
        if self.dialects[self.dialect_of[entry]] == "builtin":
            tag, offset = decode_varint(data, offset)
            if tag == code.INTEGER_TYPE:
                number, offset = decode_varint(data, offset)
                return f"{_SIGNEDNESS[number & 3]}{number >> 2}"
            if tag in code.PLAIN_TYPES:
                return code.PLAIN_TYPES[tag]
            if tag in (code.RANKED_TENSOR_TYPE, code.RANKED_TENSOR_TYPE_WITH_ENCODING):
                encoded = tag == code.RANKED_TENSOR_TYPE_WITH_ENCODING
                if encoded:
                    _, offset = decode_varint(data, offset)
                rank, offset = decode_varint(data, offset)
                sizes = self._numbers(rank + 1, offset)
                element = self.type(sizes.pop())
                shape = tuple(max(from_zigzag(size), -1) for size in sizes)
                return TensorType(shape, str(element), encoded)
            if tag == code.UNRANKED_TENSOR_TYPE:
                return TensorType(None, str(self.type(decode_varint(data, offset)[0])))
        return self.print_type(index)
