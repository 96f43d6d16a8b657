"""Attributes and types of a hostile bytecode, checked and decoded when they are first used."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from copy import copy
from typing import Final

from tosa_convert.formats.mlir.bytecode import attributes as props
from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.attributes import (
    Attribute,
    DenseArrayAttr,
    DenseAttr,
    DenseStringsAttr,
    FunctionType,
    OpaqueAttr,
    Properties,
    PropertyTable,
    ResourceAttr,
    ScalarAttr,
    SymbolAttr,
    TensorType,
    Type,
    TypeAttr,
    bit_width,
)
from tosa_convert.formats.mlir.bytecode.format import Cursor, malformed
from tosa_convert.formats.mlir.bytecode.operations import (
    Operation,
    decode_operations,
    largest_numbers,
)
from tosa_convert.formats.mlir.bytecode.read_sections import (
    BytecodeFile,
    Resource,
    Tables,
    decode_resources,
)
from tosa_convert.formats.mlir.bytecode.varints import decode_varint, encode_varint, from_zigzag

#: Numbers of more bits are not decoded: TOSA has none, and a file can claim any width.
MAX_BITS: Final = 256
#: Tensor types within one another: MLIR has no tensors of tensors.
_MAX_TYPE_DEPTH: Final = 4
_OPAQUE: Final = OpaqueAttr()
#: How strings begin.
_STRINGS: Final = (bytes((code.STRING << 1 | 1,)), bytes((code.STRING_WITH_TYPE << 1 | 1,)))
_NO_PREFIX: Final = b"\xff"  # of no attribute
#: Names that are the only one of many dictionaries.
_COMMON: Final = ("values", "tosa.tensor_name")
#: What MLIR stamped in the months in which the attributes of tosa.custom got other names.
_TWO_STATES: Final = "MLIR18.0.0git"
#: Operations of which an attribute changed its type in the same months.
_DATING: Final = {
    "tosa.mul": "shift",
    **dict.fromkeys(("tosa.argmax", "tosa.reduce_sum", "tosa.reverse", "tosa.concat"), "axis"),
}
#: How MLIR encodes a dynamic size: today, and until 2022.
_DYNAMIC_SIZES: Final = {-(2**63), -1}
_SIGNEDNESS: Final = ("i", "si", "ui", "?")


class Bytecode(Tables):
    """The bytecode of one operation, `root`."""

    def __init__(self, file: BytecodeFile) -> None:
        super().__init__(file)
        #: The names of operations in the file. Those in `names` a reader may replace by today's.
        self.written_names = self.names
        #: Whether custom operators have the names of attributes of today, if it is known.
        self.has_operator_names: bool | None = None
        self._types: dict[int, Type] = {}
        self._type_depth = 0
        self._attributes: dict[int, Attribute] = {}
        self._keys: dict[int, str] = {}
        self._key_texts: dict[bytes, str] = {}
        #: How dictionaries begin whose only entry has one of the `_COMMON` names, once it was decoded.
        self._prefixes: dict[str, bytes] = {}
        self._resources: list[Resource] | None = None
        self._properties = PropertyTable(self.cursor(code.PROPERTIES))
        #: Dictionaries with native properties: the numbers of operation name, dictionary and properties.
        self._joined: list[tuple[int, int, int]] = []
        self._joined_numbers: dict[tuple[int, int, int], int] = {}
        # They are numbered from -2 downwards: no number in the file can mean one of them.
        section = file.sections[code.IR]
        self.root = self.module = decode_operations(
            section, file.version, len(self.names), self._join, file.where
        )
        limits = len(self.names), self.attribute_count, self.attribute_count
        for what, number, limit in zip(
            ("name", "location", "dictionary"), largest_numbers(self.root), limits, strict=True
        ):
            if number >= limit:
                message = (
                    f"the {what} of an operation is number {number}, expected less than {limit}"
                )
                raise malformed(file.where, section.offset, message)

    def rooted(self, root: Operation) -> Bytecode:
        """Return the same bytecode for an operation inside it, which must be isolated from above."""
        other = copy(self)
        other.root = root
        return other

    def string(self, index: int) -> bytes:
        # The kind comes first, because attributes of other kinds may refer to more attributes.
        value = self.attribute(index) if self._begins_as_string(index) else None
        if not isinstance(value, bytes):
            self.refuse(index, "an attribute is not a string, and its user expects one")
        return value

    def _begins_as_string(self, index: int) -> bool:
        is_encoded = index < self.attribute_count and bool(self.is_encoded[index])
        return is_encoded and self.bytes[self.starts[index] : self.starts[index] + 1] in _STRINGS

    # -- native properties --------------------------------------------------------------------

    def _join(self, name: int, attributes: int, properties: int) -> int:
        key = name, attributes, properties
        number = self._joined_numbers.get(key)
        if number is None:
            number = self._joined_numbers[key] = -2 - len(self._joined)
            self._joined.append(key)
        return number

    def _joined_dictionary(self, number: int) -> dict[str, int]:
        """Return the attributes of an operation by name, native properties included."""
        name, attributes, properties = self._joined[-2 - number]
        cursor = self._properties.cursor(properties)
        operation = self.written_names[name]
        pairs = dict(self.dictionary(attributes))
        if not self.is_registered[name]:
            pairs.update(self.dictionary(cursor.index("a dictionary", self.attribute_count)))
        elif operation in props.LAYOUTS or operation in props.OLD_NAMES:
            pairs.update(self._native(operation, cursor))
        # The properties of other operations have layouts that are not known, and need not be.
        return pairs

    def _native(self, operation: str, blob: Cursor) -> Properties:
        """Decode the attributes in the blob of an operation of a known dialect."""
        start, layouts = blob.at, props.LAYOUTS.get(operation, ())
        rules = (self.attribute_count, self._is_of_kind)
        fitting = props.fitting_properties(layouts, blob, *rules)
        if not fitting:
            blob.at, layouts = start, layouts + props.OLD_LAYOUTS.get(operation, ())
            fitting = props.fitting_properties(layouts, blob, *rules)
        if len(fitting) != 1:
            raise props.misfit(operation, layouts, blob, start, ambiguous=bool(fitting))
        (found,) = fitting
        if operation == "tosa.custom" and self.file.producer == _TWO_STATES:
            dating = self._dating_attributes()
            return props.custom_names(found, dating, self.file.where, self.has_operator_names)
        return found

    def _dating_attributes(self) -> Iterator[tuple[str, Attribute]]:
        """Iterate over other operations' attributes that tell the dialect's state, with their names."""
        for name, _, properties in list(self._joined):
            if self.is_registered[name] and self.names[name] in _DATING:
                found = self._native(self.names[name], self._properties.cursor(properties))
                key = _DATING[self.names[name]]
                if key in found:
                    yield key, self.attribute(found[key])

    def _is_of_kind(self, index: int, kind: str) -> bool:
        value = self.attribute(index)
        if kind in ("i32", "element", "bool"):
            return isinstance(value, ScalarAttr) and (value.type == "i1") == (kind == "bool")
        if kind == "enum":
            return isinstance(value, (str, bytes))  # strings up to 2025-07
        expected: dict[str, type | tuple[type, ...]] = {
            "i32s": DenseArrayAttr,
            "dtype": TypeAttr,
            "type": TypeAttr,
            "string": bytes,
            "bytes": bytes,
            "array": list,
            "unit": type(None),
            "zero points": str,
            "symbol": SymbolAttr,
            "elements": (DenseAttr, DenseStringsAttr, ResourceAttr),
            "value": (DenseAttr, ResourceAttr, ScalarAttr, str),
            "any": object,
        }
        return isinstance(value, expected[kind])

    # -- attributes ---------------------------------------------------------------------------

    def attribute(self, index: int) -> Attribute:
        try:
            return self._attributes[index]
        except KeyError:
            decoded = self._attributes[index] = self._checked_attribute(index)
            return decoded

    def _checked_attribute(self, index: int) -> Attribute:
        if index < -1:
            return self._joined_dictionary(index)
        if not 0 <= index < self.attribute_count:
            self.refuse(
                index, f"found attribute {index}, expected less than {self.attribute_count}"
            )
        # An attribute that refers to itself finds this in its place, which nothing accepts.
        self._attributes[index] = _OPAQUE
        try:
            return self._attribute(index)
        except IndexError:
            self.refuse(index, "an attribute is cut off, or refers to a string that is not there")

    def dictionary(self, index: int) -> dict[str, int]:
        """Return the indices of a dictionary's attributes by name. Index -1 is an empty dictionary."""
        decoded = self.attribute(index) if index != -1 else {}
        if not isinstance(decoded, dict):
            self.refuse(index, "an attribute is not a dictionary, and its user expects one")
        return decoded

    def discardable(self, index: int) -> int:
        """Return a dictionary with all discardable attributes of a dictionary, and perhaps others."""
        if index >= -1:
            return index
        name, attributes, _ = self._joined[-2 - index]
        # An operation that the writer did not know has them among its properties.
        return attributes if self.is_registered[name] else index

    def only_dense(self, index: int) -> tuple[int, memoryview] | None:
        """Return type and data of a dictionary that is just `values = dense<...>`; not of the first."""
        # Fast path of `attribute`; equal by test test_the_fast_path_of_plain_constants_is_equal
        try:
            if index < 0:
                return self._dense(self._only_property(index))
            prefix = self._prefixes.get("values", _NO_PREFIX)
            data, offset = self.bytes, self.starts[index]
            if not data.startswith(prefix, offset) or not self.is_encoded[index]:
                return None
            value, after = decode_varint(data, offset + len(prefix))
            return self._dense(value) if after == self.starts[index + 1] else None
        except IndexError:
            return None  # `attribute` refuses it

    def only_text(self, index: int, name: str) -> str | None:
        """Return the text of a seen dictionary that is just `name = "..."`, or None."""
        # Fast path of `attribute`; equal by test test_names_read_in_place_equal_decoded_ones
        prefix = self._prefixes.get(name, _NO_PREFIX)
        data, starts, encoded = self.bytes, self.starts, self.is_encoded
        try:
            if index < 0 or not encoded[index] or not data.startswith(prefix, starts[index]):
                return None
            value, after = decode_varint(data, starts[index] + len(prefix))
            if after != starts[index + 1] or value >= self.attribute_count or not encoded[value]:
                return None
            offset = starts[value]
            if data[offset] != code.STRING << 1 | 1:
                return None
            dialects, dialect_of = self.dialects, self.dialect_of
            if not dialects[dialect_of[index]] == dialects[dialect_of[value]] == "builtin":
                return None
            text, after = decode_varint(data, offset + 1)
            return self.strings[text].decode() if after == starts[value + 1] else None
        except (IndexError, UnicodeDecodeError):
            return None  # `attribute` refuses it

    def _only_property(self, index: int) -> int:
        """Return the attribute `values` of an operation with only this one; else more than there are."""
        name, attributes, properties = self._joined[-2 - index]
        if (
            attributes != -1
            or not self.is_registered[name]
            or self.names[name] not in props.VALUES_ONLY
        ):
            return self.attribute_count
        return self._properties.only_number(properties, self.attribute_count)

    def _dense(self, value: int) -> tuple[int, memoryview] | None:
        """Return the type's index and the data of a dense attribute; None if it is something else."""
        if value >= self.attribute_count:
            return None
        data, offset = self.bytes, self.starts[value]
        if data[offset] != code.DENSE_ELEMENTS << 1 | 1 or not self.is_encoded[value]:
            return None
        if self.dialects[self.dialect_of[value]] != "builtin":
            return None
        type_index, offset = decode_varint(data, offset + 1)
        size, offset = decode_varint(data, offset)
        elements, after = self._data(size, offset, self.starts[value + 1])
        return (type_index, elements) if after == self.starts[value + 1] else None

    def _attribute(self, index: int) -> Attribute:
        if not self.is_encoded[index]:
            return self._text(index)
        if self.dialects[self.dialect_of[index]] != "builtin":
            return _OPAQUE
        data, offset, end = self.bytes, self.starts[index], self.starts[index + 1]
        tag, offset = decode_varint(data, offset)
        # All but a unit begin with a number: of a string, of a type, or of elements.
        has_number = offset < end and tag != code.UNIT
        first, offset = decode_varint(data, offset) if has_number else (0, offset)
        found: Attribute
        parts: Collection[int] = ()
        if tag == code.DICTIONARY:
            found = pairs = {}
            self._expect(first * 2, "numbers", offset, end)
            for _ in range(first):
                name, offset = decode_varint(data, offset)
                value, offset = decode_varint(data, offset)
                pairs[self._keys.get(name) or self._key(name)] = value
            if len(pairs) != first:
                self.refuse(index, "a dictionary has a name twice")
            parts = pairs.values()
        elif tag == code.ARRAY:
            self._expect(first, "numbers", offset, end)
            found, offset = self._numbers(first, offset)
            parts = found
        elif tag == code.INTEGER or tag == code.FLOAT:
            found, offset = self._scalar(first, offset, end, tag == code.FLOAT)
        elif tag == code.STRING or tag == code.STRING_WITH_TYPE:
            found = self.strings[first]
            offset = offset if tag == code.STRING else decode_varint(data, offset)[1]
        elif tag == code.TYPE:
            found = TypeAttr(self.type(first))
        elif tag == code.FLAT_SYMBOL:
            found = SymbolAttr(self.string(first))
        elif tag == code.UNIT:
            found = None
        else:
            found, offset = self._elements(tag, first, offset, end)
        if offset != end:
            self.refuse(index, "an attribute has bytes after its end")
        if parts and (max(parts) >= self.attribute_count or index in parts):
            self.refuse(index, "an attribute contains itself, or one that the file does not have")
        return found

    def _elements(self, tag: int, type_index: int, offset: int, end: int) -> tuple[Attribute, int]:
        """Decode an attribute of several elements; return it with the offset after it."""
        data = self.bytes
        if tag == code.DENSE_ELEMENTS:
            size, offset = decode_varint(data, offset)
            elements, offset = self._data(size, offset, end)
            return DenseAttr(self.type(type_index), elements), offset
        if tag == code.DENSE_ARRAY:
            count, offset = decode_varint(data, offset)
            size, offset = decode_varint(data, offset)
            elements, after = self._data(size, offset, end)
            element = self.type(type_index)
            if size != count * -(-bit_width(element) // 8):
                self.refuse_data(offset, f"{size} bytes for an array of {count} {element}")
            return DenseArrayAttr(element, count, bytes(elements)), after
        if tag == code.DENSE_STRINGS:
            is_splat, offset = decode_varint(data, offset)
            numbers, offset = self._numbers(end - offset, offset, end)
            strings = [self.strings[number] for number in numbers]
            return DenseStringsAttr(self.type(type_index), bool(is_splat), strings), offset
        if tag == code.DENSE_RESOURCE:
            handle, offset = decode_varint(data, offset)
            if self._resources is None:
                self._resources = decode_resources(self)
            resource = self._resources[handle]
            return ResourceAttr(
                self.type(type_index), resource.data, resource.name, resource.alignment
            ), offset
        if tag > code.NEWEST_ATTRIBUTE:
            self.refuse_data(offset, f"an attribute of kind {tag}, which is not known")
        return _OPAQUE, end

    def _key(self, index: int) -> str:
        raw = self.string(index)
        # Equal keys share their text, which many attributes may have.
        key = self._keys[index] = self._key_texts.setdefault(raw, raw.decode("utf-8", "replace"))
        if key in _COMMON:
            prefix = bytes((code.DICTIONARY << 1 | 1, 1 << 1 | 1))
            self._prefixes[key] = prefix + encode_varint(index)
        return key

    def _scalar(
        self, type_index: int, offset: int, end: int, is_float: bool
    ) -> tuple[Attribute, int]:
        type_ = self.type(type_index)
        width = bit_width(type_)
        if not 0 < width <= MAX_BITS or is_float != (str(type_)[0] not in "sui"):
            return _OPAQUE, end
        if width <= 8:
            bits, offset = self.bytes[offset], offset + 1
        elif width <= 64:
            bits, offset = decode_varint(self.bytes, offset)
            bits = from_zigzag(bits)
        else:
            count, offset = decode_varint(self.bytes, offset)
            words, offset = self._numbers(count, offset)
            bits = 0
            for position, word in enumerate(words):
                bits |= (from_zigzag(word) & (1 << 64) - 1) << 64 * position
        if width <= 8 and bits >> width:
            return _OPAQUE, end
        return ScalarAttr(type_, bits & (1 << width) - 1, is_float), offset

    # -- types --------------------------------------------------------------------------------

    def type(self, index: int) -> Type:
        try:
            return self._types[index]
        except KeyError:
            decoded = self._types[index] = self._checked_type(index)
            return decoded

    def _checked_type(self, index: int) -> Type:
        entry, limit = index + self.attribute_count, len(self.is_encoded)
        if entry >= limit:
            self.refuse(
                entry, f"found type {index}, expected less than {limit - self.attribute_count}"
            )
        self._type_depth += 1
        try:
            if self._type_depth > _MAX_TYPE_DEPTH:
                self.refuse(entry, "types are nested in a way that MLIR does not have")
            return self._type(entry)
        except IndexError:
            self.refuse(entry, "a type is cut off")
        finally:
            self._type_depth -= 1

    def _type(self, entry: int) -> Type:
        data, offset, end = self.bytes, self.starts[entry], self.starts[entry + 1]
        if not self.is_encoded[entry]:
            return self._text(entry)
        dialect = self.dialects[self.dialect_of[entry]]
        if dialect != "builtin":
            return f"!{dialect}<...>"
        tag, offset = decode_varint(data, offset)
        found: Type
        if tag == code.INTEGER_TYPE:
            number, offset = decode_varint(data, offset)
            found = f"{_SIGNEDNESS[number & 3]}{number >> 2}"
        elif tag in code.PLAIN_TYPES:
            found = code.PLAIN_TYPES[tag]
        elif tag in (code.RANKED_TENSOR_TYPE, code.RANKED_TENSOR_TYPE_WITH_ENCODING):
            found, offset = self._tensor(
                entry, offset, tag == code.RANKED_TENSOR_TYPE_WITH_ENCODING
            )
        elif tag in (code.UNRANKED_TENSOR_TYPE, code.COMPLEX_TYPE):
            number, offset = decode_varint(data, offset)
            element = self._element(entry, number)
            is_complex = tag == code.COMPLEX_TYPE
            found = f"complex<{element}>" if is_complex else TensorType(None, element)
        elif tag == code.FUNCTION_TYPE:
            signature = []
            for _ in range(2):
                count, offset = decode_varint(data, offset)
                self._expect(count, "types", offset, end)
                numbers, offset = self._numbers(count, offset)
                signature.append(numbers)
            found = FunctionType(*(tuple(map(self.type, numbers)) for numbers in signature))
        elif tag == code.MEMREF_TYPE:
            memref, _ = self._tensor(entry, offset)
            return str(memref).replace("tensor", "memref", 1)
        else:
            return f"a type of kind {tag} of the builtin dialect"
        if offset != end:
            self.refuse(entry, "a type has bytes after its end")
        return found

    def _tensor(self, entry: int, offset: int, encoded: bool = False) -> tuple[TensorType, int]:
        """Decode a tensor type from its sizes or its encoding on; return it with the offset after it."""
        data = self.bytes
        if encoded:
            _, offset = decode_varint(data, offset)
        rank, offset = decode_varint(data, offset)
        self._expect(rank + 1, "numbers", offset, self.starts[entry + 1])
        sizes, offset = self._numbers(rank + 1, offset)
        element = self._element(entry, sizes.pop())
        shape = tuple(map(from_zigzag, sizes))
        if any(size < 0 and size not in _DYNAMIC_SIZES for size in shape):
            self.refuse(entry, "a size of a tensor is negative")
        shape = tuple(max(size, -1) for size in shape)
        return TensorType(shape, element, encoded), offset

    def _element(self, entry: int, index: int) -> str:
        element = self.type(index)
        if not isinstance(element, str):
            self.refuse(entry, "the element type of a tensor is a tensor or a function")
        return element
