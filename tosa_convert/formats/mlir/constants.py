"""Constants from MLIR's attributes, and to them: views, bit for bit, wherever forms agree."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tosa_convert.formats.mlir.bytecode.attributes import (
    Attribute,
    DenseAttr,
    DenseStringsAttr,
    ResourceAttr,
    TensorType,
    Type,
)
from tosa_convert.formats.mlir.bytecode.format import DENSE_STRINGS
from tosa_convert.formats.mlir.types import TypeReader, TypeWriter, ValueType, is_stored_as
from tosa_convert.graph.constant import Constant, Rearranged
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.dtypes import INT64, DType, dtype
from tosa_convert.graph.lazy_numpy import FEW, np
from tosa_convert.graph.model import Operator, ShapeValue, Tensor
from tosa_convert.io.options import Constants

if TYPE_CHECKING:
    from tosa_convert.formats.mlir.bytecode.decode import Bytecode
    from tosa_convert.formats.mlir.bytecode.encode import Encoder
    from tosa_convert.formats.mlir.bytecode.operations import Operation
    from tosa_convert.formats.mlir.locations import Report
    from tosa_convert.formats.mlir.read.scope import Narrowing, Scope


# -- booleans in MLIR: bits, or bytes, of which all but 0 are true; bytes in the graph -------------

_BOOL: Final = dtype("BOOL")


def read_booleans(data: memoryview, count: int) -> Constant | None:
    """Read booleans: one byte if all are equal, else bits, or bytes in newer releases; or None."""
    if len(data) == 1 and (count == 1 or data[0] in (0, 0xFF)):
        return Constant(_BOOL, count, bytes([data[0] != 0]), splat=True)
    if len(data) == (count + 7) // 8:
        if count < FEW:
            # Fast path of unpackbits; equal by test test_few_booleans_are_read_and_written_as_many
            bits = int.from_bytes(data, "little")
            return Constant(_BOOL, count, bytes(bits >> index & 1 for index in range(count)))
        raw = np.frombuffer(data, np.uint8)
        return Constant(_BOOL, count, np.unpackbits(raw, count=count, bitorder="little"))
    return read_boolean_bytes(data) if len(data) == count else None


def read_boolean_bytes(data: memoryview) -> Constant:
    """Read booleans of a byte each. Other bytes than 0 and 1 become 1, which MLIR writes for them."""
    if len(data) < FEW:
        # Fast path of the arrays; equal by test test_few_booleans_are_read_and_written_as_many
        is_plain = max(data, default=0) <= 1
        return Constant(_BOOL, len(data), data if is_plain else bytes(map(bool, data)))
    raw = np.frombuffer(data, np.uint8)
    if len(raw) and raw.max() > 1:
        raw = (raw != 0).view(np.uint8)
    return Constant(_BOOL, len(raw), raw)


def write_booleans(data: Constant) -> bytes | memoryview:
    """Return the bits of a dense attribute, or one byte if all booleans are equal."""
    splat = data.uniform()
    if data.count < FEW:
        # Fast path of packbits; equal by test test_few_booleans_are_read_and_written_as_many
        values = data.values()
        if values and all(values):
            return b"\xff"
        bits = sum(value << index for index, value in enumerate(values))
        return bits.to_bytes((len(values) + 7) // 8, "little") if bits or not values else b"\0"
    truths = (data.elements() if splat is None else np.frombuffer(splat, np.uint8)) != 0
    if truths.size and truths.all():
        return b"\xff"
    if truths.size and not truths.any():
        return b"\0"
    return np.packbits(truths.reshape(-1), bitorder="little").data


#: A frontend may leave plain constants of another dialect.
ARITH_CONSTANT: Final = "arith.constant"

#: Constants up to this size become dense attributes, which passes can fold; larger ones resources.
DENSE_BYTES: Final = 256
#: Constants of at most this many bytes are searched for a value that all elements share.
SPLAT_BYTES: Final = 1 << 16

#: Strictest alignment of a resource that MLIR's bytecode can carry, in bytes.
MAX_ALIGNMENT: Final = 16
#: The name of the resource of a constant without a name.
UNNAMED_RESOURCE: Final = "constant"
#: The name of a resource without data, which stays in MLIR's context.
_PLACEHOLDER: Final = "tosa_convert"

#: Characters of an attribute that a message quotes.
_QUOTED: Final = 60
_STRING_ELEMENT: Final = rb"0x([0-9A-Fa-f]+)\Z"
_SCALES: Final = r"!tosa\.block_scaled<[^,>]*, \{([^}]*)\}>"
_E8M0: Final = dtype("FP8UE8M0")
#: NaN among the scales: MLIR takes hexadecimal digits for the bits of a double, although it prints 0xFF.
_NAN_TEXT: Final = "0x7FF8000000000000"
_MXINT8: Final = dtype("MXINT8")


# -- MLIR -> graph: an attribute --------------------------------------------------------------------


class Unreadable(Exception):
    """A constant whose data is not available; the message says why."""


def read(attribute: Attribute, dtype: DType, count: int) -> Constant:
    """Read the data of a dense attribute, one of strings, or a dense_resource, as `count` elements."""
    if isinstance(attribute, DenseAttr):
        return read_dense(attribute.data, dtype, count)
    if isinstance(attribute, ResourceAttr):
        return _read_resource(attribute, dtype, count)
    if isinstance(attribute, DenseStringsAttr):
        return _read_strings(attribute, dtype, count)
    found = f"{attribute[:_QUOTED]}, which" if isinstance(attribute, str) else "it"
    raise Unreadable(f"{found} is neither dense nor a dense_resource")


def read_block_scaled(
    attribute: Attribute, dtype: DType, count: int, block: int
) -> tuple[Constant, Constant]:
    """Read the values and the scales of a block-scaled constant, whose scales are part of its type."""
    if not isinstance(attribute, (DenseAttr, DenseStringsAttr)):
        raise Unreadable("it is not dense")
    type_ = attribute.type
    match = re.match(_SCALES, type_.element) if isinstance(type_, TensorType) else None
    if match is None:
        raise Unreadable("its type has no scales")
    scales = bytes(map(_e8m0_from_text, match[1].split(",")))
    blocks = count // block
    if len(scales) not in (1, blocks):
        raise Unreadable(f"it has {len(scales)} scales, expected {blocks}")
    scale = Constant(_E8M0, blocks, scales, splat=len(scales) == 1)
    return read(attribute, dtype, count), scale


def read_dense(data: memoryview, dtype: DType, count: int) -> Constant:
    """Read the data of a dense attribute from its elements in MLIR's form."""
    width = dtype.element_bytes
    if dtype is _BOOL and count:
        booleans = read_booleans(data, count)
        if booleans is None:
            raise Unreadable(f"it has {len(data)} bytes of data, expected {(count + 7) // 8}")
        return booleans
    splat = len(data) == width
    data = data if count else data[:0]  # one element may stand for none, too
    if not splat and len(data) != width * count:
        raise Unreadable(f"it has {len(data)} bytes of data, expected {width * count}")
    return Constant(dtype, count, data, unpacked=dtype.is_packed, splat=splat and count > 0)


def _read_resource(attribute: ResourceAttr, dtype: DType, count: int) -> Constant:
    """Read elements, those below 8 bits a byte each, as in a dense attribute, or packed."""
    data = attribute.data
    if data is None:
        raise Unreadable("it has no data: the resource is missing, or was elided when printed")
    packed, unpacked = dtype.wire_bytes(count), dtype.element_bytes * count
    if len(data) not in (packed, unpacked):
        expected = " or ".join(dict.fromkeys((str(packed), str(unpacked))))
        raise Unreadable(f"it has {len(data)} bytes of data, expected {expected}")
    if dtype is _BOOL:
        return read_boolean_bytes(data)
    return Constant(dtype, count, data, unpacked=dtype.is_packed and len(data) != packed)


def _read_strings(attribute: DenseStringsAttr, dtype: DType, count: int) -> Constant:
    """Read elements written as strings, as of !tosa.mxint8: one for each, one for all, or all in one."""
    # Only one string for all elements is long: a file could repeat a long one at no cost.
    only = len(attribute.strings) == 1
    matches = [
        re.match(_STRING_ELEMENT, text) if only or len(text) <= 4 else None
        for text in attribute.strings
    ]
    digits = [match[1].decode() if match is not None else "" for match in matches]
    splat = attribute.is_splat or len(digits) == 1
    if splat and count > 1 and digits and len(digits[0]) == 2 * count:
        elements, splat = bytes.fromhex(digits[0]), False
    elif any(not 0 < len(element) <= 2 for element in digits):
        elements = b""
    else:
        elements = bytes(int(element, 16) for element in digits)
    splat = splat and len(elements) == 1
    if not splat and len(elements) != count:
        raise Unreadable(f"it has {len(elements)} readable elements, expected {count}")
    if dtype.is_packed and max(elements, default=0) >> dtype.bits:
        raise Unreadable(f"an element has more than the {dtype.bits} bits of {dtype}")
    return Constant(dtype, count, elements, unpacked=dtype.is_packed, splat=splat)


def _e8m0_from_text(text: str) -> int:
    """Return the byte of a scale: decimal, NaN as 0xFF, or hexadecimal bits of a double."""
    from tosa_convert.formats.mlir.text.numbers import powers_of_two  # few constants have scales

    text = text.strip().lower()
    text = "nan" if text == "0xff" else text
    try:
        bits = np.array([int(text, 16)], "<u8") if text.startswith("0x") else None
        value = float(text) if bits is None else float(bits.view("<f8")[0])
    except (ValueError, OverflowError):
        value = -1.0
    if value < 0 or text.isdigit():
        raise Unreadable("a scale in its type is not a number of f8E8M0FNU")
    return int(powers_of_two(np.array([value]))[0])


# -- MLIR -> graph: an operation --------------------------------------------------------------------


class ConstantReader:
    """Attaches data to the values that constant operations produce.

    pad_resources: pad data from a dense_resource like data from a dense attribute, so that bytes do not
        depend on how a frontend stored a weight. tosa-opt does not pad it.
    """

    def __init__(
        self,
        bytecode: Bytecode,
        types: TypeReader,
        narrowing: Narrowing,
        report: Report,
        *,
        pad_resources: bool,
    ) -> None:
        self.bytecode = bytecode
        self.types = types
        self.narrowing = narrowing
        self.report = report
        self.pad_resources = pad_resources
        #: Data by the numbers of dictionary and type; programs repeat shapes and zero points.
        self.cache: dict[tuple[int, int], Constant | None] = {}
        #: Whether a constant of an older release was read.
        self.found_old = False

    def plain(self, key: tuple[int, int], value_type: ValueType) -> Constant | None:
        """Return the data of a constant whose only attribute is dense; None if `fill` must read it."""
        # Fast path of `fill`; equal by test test_the_fast_path_of_plain_constants_is_equal
        dense = self.bytecode.only_dense(key[0])
        if dense is None or dense[0] != key[1]:
            return None
        if not value_type.is_plain or value_type.count is None:
            return None
        assert value_type.dtype is not None
        try:
            data = read_dense(dense[1], value_type.dtype, value_type.count)
        except Unreadable:
            return None  # `fill` reports it
        data.padding = data.usual_padding
        self.cache[key] = data
        return data

    def fill(self, operator: Operator, operation: Operation, scope: Scope) -> None:
        """Attach the data of a constant to the value it produces."""
        if len(operator.outputs) != 1:
            message = f"a constant has {len(operator.outputs)} results, expected 1"
            self.report.add(operation, "malformed-operator", message)
            return
        tensors, shapes, name = scope.tensors, scope.shapes, operator.outputs[0]
        # The operation's own type: where a name is a duplicate, the tensor may be another value's.
        value_type = self.types(operation.types[0])
        if value_type.problem:
            return
        if name not in (shapes if value_type.dtype is None else tensors):
            return  # a duplicate name of another value, which is a finding
        key = (operation.attributes, operation.types[0])
        names = self.bytecode.names
        label = names[operation.name]
        dictionary = self.bytecode.dictionary(operation.attributes)
        # Releases before 2025-03 have the attribute that other dialects have, `value`.
        is_old = "values" not in dictionary and "value" in dictionary
        attribute_name = "value" if is_old else "values"
        self.found_old |= is_old and label != ARITH_CONSTANT
        if attribute_name not in dictionary:
            message = f"'{label}' has no attribute {attribute_name}"
            self.report.add(operation, "malformed-operator", message)
            return
        attribute = self.bytecode.attribute(dictionary[attribute_name])
        is_shape, wanted = value_type.dtype is None, self.bytecode.type(operation.types[0])
        if is_shape:
            wanted = TensorType((shapes[name].rank,), "index")
        # A constant of unknown size has a finding of its own.
        known = is_shape or value_type.count is not None
        if known and not self.is_of_type(operation, attribute_name, attribute, wanted):
            return
        if is_shape:
            try:
                shapes[name].data = read(attribute, INT64, shapes[name].rank)
            except Unreadable as problem:
                self.report.add(operation, "constant-form", f"'{label}': {problem}")
            else:
                self.cache[key] = shapes[name].data
        elif value_type.scale is None:
            data = tensors[name].data = self.constant(
                operation,
                attribute_name,
                attribute,
                value_type,
                lambda: scope.users(operation.first, names),
            )
            if data is not None and not value_type.narrowed:
                self.cache[key] = data
        else:
            self._fill_block_scaled(operation, attribute_name, attribute, tensors[name])

    def is_of_type(
        self, operation: Operation, name: str, attribute: Attribute, wanted: Type
    ) -> bool:
        """Tell whether the attribute `name` has the type of the value that it is for, or report it."""
        found = getattr(attribute, "type", wanted)
        if found == wanted or is_stored_as(found, wanted):
            return True
        label = self.bytecode.names[operation.name]
        message = f"'{label}' attribute {name}: its type is {found}, expected {wanted}"
        self.report.add(operation, "malformed-operator", message)
        return False

    def constant(
        self,
        operation: Operation,
        name: str,
        attribute: Attribute,
        value_type: ValueType,
        users: Callable[[], set[str]],
    ) -> Constant | None:
        """Return the data of the attribute `name`, or None and add a finding."""
        dtype, count = value_type.dtype, value_type.count
        assert dtype is not None
        label = self.bytecode.names[operation.name]
        if count is None:
            type_ = getattr(attribute, "type", value_type.shape)
            message = f"'{label}' has data for a dynamic shape: {type_}"
            hint = "a constant needs a static shape"
            self.report.add(operation, "unsupported-shape", message, hint)
            return None
        try:
            stored = self.narrowing.stored(value_type.narrowed)
            if stored is not None:
                data = self.narrowing.convert(read(attribute, stored, count), dtype, users)
            else:
                data = read(attribute, dtype, count)
        except OverflowError as problem:
            message = f"'{label}' attribute {name}: {problem}"
            hint = f"leave {value_type.narrowed} out of the types to narrow, or change the value"
            self.report.add(operation, "value-out-of-range", message, hint)
            return None
        except Unreadable as problem:
            message = f"'{label}' attribute {name}: {problem}"
            is_cut = isinstance(attribute, ResourceAttr) and attribute.data is not None
            hint = (
                "the module's resource is cut off, or of another type; write the module again"
                if is_cut
                else "print or save the module with its resources (no elision) and export again"
            )
            self.report.add(operation, "constant-form", message, hint)
            return None
        if self.pad_resources or not isinstance(attribute, ResourceAttr):
            data.padding = data.usual_padding
        return data

    def _fill_block_scaled(
        self, operation: Operation, name: str, attribute: Attribute, tensor: Tensor
    ) -> None:
        count = tensor.element_count()
        try:
            if count is None or tensor.scale is None:
                raise Unreadable("its shape is not static")
            tensor.data, tensor.scale.data = read_block_scaled(
                attribute, tensor.dtype, count, int(tensor.scale.shape)
            )
        except Unreadable as problem:
            label = self.bytecode.names[operation.name]
            self.report.add(operation, "constant-form", f"'{label}' attribute {name}: {problem}")


# -- graph -> MLIR ----------------------------------------------------------------------------------


def resource_alignment(dtype: DType) -> int:
    """Return the alignment of a resource: its element's size, since MLIR prints it."""
    return min(MAX_ALIGNMENT, dtype.element_bytes & -dtype.element_bytes)


class ConstantWriter:
    """Adds the values of constants to a bytecode and returns their encoded numbers.

    embed: the bytecode has the data of resources. Otherwise it declares one resource without data, which
        takes the place of all until MLIR has parsed the module; they then share the graph's memory.
    """

    def __init__(
        self, encoder: Encoder, types: TypeWriter, constants: Constants, *, embed: bool
    ) -> None:
        self.encoder = encoder
        self.numbers = encoder.numbers
        self.types = types
        self.constants = constants
        self.embed = embed
        self.sizes_cache: dict[bytes, bytes] = {}
        #: The resources of constants, by their identity: regions that are copied share theirs.
        self.resources: dict[int, bytes] = {}
        self.names: set[str] = set()
        self.name_numbers: dict[str, int] = {}

    def shape(self, shape: ShapeValue) -> bytes:
        data = shape.data
        return self.sizes(b"" if data is None else bytes(data.packed()))

    def sizes(self, raw: bytes) -> bytes:
        """Return 64-bit integers of type index."""
        number = self.sizes_cache.get(raw)
        if number is None:
            type_ = self.types.ranked((len(raw) // 8,), self.types.builtin("index"))
            number = self.sizes_cache[raw] = self.encoder.dense(type_, raw)
        return number

    def is_resource(self, tensor: Tensor, *, must_be_dense: bool) -> bool:
        """Return whether a constant becomes a resource; not if MLIR reads its elements."""
        data = tensor.data
        assert data is not None
        if self.constants == "dense" or must_be_dense or tensor.scale is not None:
            return False
        if not data.is_view or data.dtype.is_packed or data.dtype is _BOOL:
            return False
        if self.constants == "resource":
            return True
        if data.nbytes <= DENSE_BYTES:
            return False
        return data.nbytes > SPLAT_BYTES or data.uniform() is None

    def resource(self, tensor: Tensor) -> bytes:
        """Encode a resource attribute, whose data is a view of the graph's memory."""
        data = tensor.data
        assert data is not None
        key = id(data) if self.embed else 0
        number = self.resources.get(key)
        if number is None:
            if self.embed:
                number = self._embedded(tensor.name or UNNAMED_RESOURCE, data)
            else:
                number = self.encoder.add_resource(_PLACEHOLDER)
            self.resources[key] = number
        return self.encoder.resource(self.types.tensor(tensor), number)

    def _embedded(self, wanted: str, data: Constant) -> bytes:
        name = unused_name(wanted, self.names, numbers=self.name_numbers)
        self.names.add(name)
        piece = data if isinstance(data, Rearranged) else data.buffer
        return self.encoder.add_resource(name, piece, resource_alignment(data.dtype))

    def dense(self, tensor: Tensor) -> bytes:
        data, scale = tensor.data, tensor.scale
        assert data is not None
        if scale is not None:
            assert scale.data is not None
            return self._block_scaled(tensor, data, scale.data)
        type_ = self.types.tensor(tensor)
        if data.dtype is _MXINT8:
            return self._strings(type_, data)
        if data.dtype is _BOOL:
            return self.encoder.dense(type_, write_booleans(data))
        return self.encoder.dense(type_, _elements(data))

    def _strings(self, type_: bytes, data: Constant) -> bytes:
        """Return elements as strings, which is the dialect's form for this type."""
        splat = data.uniform()
        raw = data.elements() if splat is None else np.frombuffer(splat, np.uint8)
        codes, places = np.unique(raw, return_inverse=True)
        names = [self.encoder.string(f"0x{code:X}") for code in codes.tolist()]
        listing = b"".join(map(names.__getitem__, places.reshape(-1).tolist()))
        head = self.numbers[DENSE_STRINGS] + type_ + self.numbers[splat is not None]
        return self.encoder.attributes.data(head, listing)

    def _block_scaled(self, tensor: Tensor, data: Constant, scales: Constant) -> bytes:
        """Return values as a dense attribute whose element type has the scales."""
        assert tensor.scale is not None
        literals = ", ".join(map(_e8m0_to_text, scales.elements().reshape(-1).tolist()))
        element = self.encoder.types.text(
            f"!tosa.block_scaled<{tensor.scale.shape.name}:"
            f"{tensor.scale.dtype.mlir}:{tensor.dtype.mlir}, {{{literals}}}>"
        )
        raw = np.ascontiguousarray(data.elements()).reshape(-1)
        return self.encoder.dense(self.types.ranked(tensor.shape or (), element), raw.data)


def _elements(data: Constant) -> bytes | memoryview:
    """Return a constant's elements in MLIR's form, or one element if all are equal."""
    splat = data.uniform()
    if splat is not None:
        return splat
    if data.is_unit:
        return data.buffer
    return np.ascontiguousarray(data.elements()).reshape(-1).data


def _e8m0_to_text(code: int) -> str:
    """Return a scale as MLIR prints it, a power of two; NaN as MLIR parses it."""
    from tosa_convert.formats.mlir.text.numbers import float_text  # few constants have scales

    return _NAN_TEXT if code == 0xFF else float_text(code, _E8M0.mlir)
