"""Element types, shapes, attribute values and the target of a graph, from MLIR and to it."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.attributes import (
    DenseArrayAttr,
    ScalarAttr,
    TensorType,
    Type,
    TypeAttr,
)
from tosa_convert.formats.mlir.bytecode.format import FLOAT, INTEGER, TYPE
from tosa_convert.formats.mlir.bytecode.varints import encode_varint, to_zigzag
from tosa_convert.formats.mlir.read.scope import QUANT, QUANTISED
from tosa_convert.graph.constant import ELEMENT_BYTES
from tosa_convert.graph.dtypes import BY_MLIR, BlockShape, DType
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import (
    DYNAMIC,
    INT32_MAX,
    BlockScale,
    Target,
    Tensor,
    Version,
    element_count,
)
from tosa_convert.graph.opset import AttributeSpec, AttributeValue, OperatorSpec
from tosa_convert.graph.versions import BY_NAME

if TYPE_CHECKING:
    from tosa_convert.formats.mlir.bytecode.decode import Bytecode
    from tosa_convert.formats.mlir.bytecode.encode import Encoder
    from tosa_convert.formats.mlir.read.scope import Narrowing


_SHAPE: Final = re.compile(r"!tosa\.shape<([0-9]{1,9})>$")
_SCALES: Final = re.compile(r",\s*\{[^}]*\}(?=>\Z)")
#: The block is first, or, in some states of the dialect, last.
_BLOCK_SCALED: Final = r"!tosa\.block_scaled<([\w!.]+):([\w!.]+):([\w!.]+)>$"

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
    """Return the bits of an integer element in MLIR. i1 has one, though it takes a byte in a file."""
    return 1 if dtype.name == "BOOL" else dtype.bits


def is_stored_as(found: Type, wanted: Type) -> bool:
    """Tell whether values of a type are those of another, such as integers of a quantised type."""
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
        from tosa_convert.formats.mlir.read.select_function import lowering_hint

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
        self.cache: dict[int, ValueType] = {}

    def __call__(self, index: int) -> ValueType:
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
            if value in BlockShape.__members__:
                block, value = value, block
            if value in BY_MLIR and scale in BY_MLIR and block in BlockShape.__members__:
                scaling = (BY_MLIR[scale], BlockShape[block])
                return ValueType(BY_MLIR[value], shape, scaling, count=count)
        advice = next((hint for start, hint in _ADVICE.items() if element.startswith(start)), "")
        code, problem = "unsupported-dtype", f"{type_}: TOSA has no element type {element}"
        from tosa_convert.remedies import hint_for

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


# -- attribute values of the graph from attributes of MLIR, and back, by kind ----------------------

#: Lists are array<i64> in MLIR, except these, which are array<i32>.
I32_ARRAYS: Final = {("TRANSPOSE", "perms")}
#: Enum class of the graph -> mnemonic of MLIR's attribute.
MNEMONICS: Final = {
    "NanPropagationMode": "nan_mode",
    "RoundingMode": "rounding_mode",
    "ResizeMode": "resize_mode",
    "BlockSize": "block_size",
}
#: Members of enums that have another name in MLIR.
MLIR_MEMBERS: Final = {("ResizeMode", "NEAREST"): "NEAREST_NEIGHBOR"}
_GRAPH_MEMBERS: Final = {(enum, mlir): member for (enum, member), mlir in MLIR_MEMBERS.items()}

#: The mnemonic and the member of an enum's attribute: `#tosa.nan_mode<PROPAGATE>`.
_MEMBER: Final = re.compile(r"#tosa[.<](\w+)[<\s]\s*(\w+)\s*>\Z")
#: The types of integers; up to October 2023 they were i64.
_INTEGERS: Final = ("i32", "i64")
#: Of the elements of an array, by their bits.
_FORMATS: Final = {8: "b", 16: "h", 32: "i", 64: "q"}


# -- MLIR -> graph ----------------------------------------------------------------------------------


class BadAttribute(Exception):
    """An attribute that is not of the expected kind; the message says what was found."""


class AttributeReader:
    """Reads the attributes of a bytecode."""

    def __init__(self, bytecode: Bytecode, narrowing: Narrowing) -> None:
        self.bytecode = bytecode
        self.narrowing = narrowing

    def __call__(self, row: AttributeSpec, index: int, of: Type = "") -> AttributeValue:
        """Return an attribute's value, read as that of `row`. of: the type of the operation's result."""
        if row.kind == "element":
            self._check_element(index, of)
        return _READERS[row.kind](self, row, index)

    def _wrong(self, index: int, expected: str) -> BadAttribute:
        from tosa_convert.formats.mlir.text.print.attributes import short_text

        return BadAttribute(f"found {short_text(self.bytecode, index)}, expected {expected}")

    def _i32(self, row: AttributeSpec, index: int) -> int:
        attribute = self.bytecode.attribute(index)
        if not isinstance(attribute, ScalarAttr) or attribute.type not in _INTEGERS:
            raise self._wrong(index, "an integer of type i32")
        return attribute.signed()

    def _i32s(self, row: AttributeSpec, index: int) -> tuple[int, ...]:
        array = self.bytecode.attribute(index)
        if isinstance(array, list):  # up to 2022
            return tuple(self._i32(row, item) for item in array)
        bits = 32 if any(row.name == name for _, name in I32_ARRAYS) else 64
        if not isinstance(array, DenseArrayAttr) or array.element != f"i{bits}":
            raise self._wrong(index, f"an array of integers of type i{bits}")
        return struct.unpack(f"<{array.count}{'i' if bits == 32 else 'q'}", array.data)

    def _bool(self, row: AttributeSpec, index: int) -> bool:
        attribute = self.bytecode.attribute(index)
        if not isinstance(attribute, ScalarAttr) or attribute.type != "i1":
            raise self._wrong(index, "a bool")
        return bool(attribute.bits)

    def _dtype(self, row: AttributeSpec, index: int) -> DType:
        attribute = self.bytecode.attribute(index)
        if isinstance(attribute, TypeAttr):
            text = str(attribute.type)
            # Accumulators stay in FP32, which all operators of FP16 with one have.
            dtype = self.narrowing.target(text) if text != "f32" else None
            dtype = dtype or BY_MLIR.get(text)
            if dtype is not None:
                return dtype
        raise self._wrong(index, "one of " + ", ".join(choice.mlir for choice in row.choices))

    def _enum(self, row: AttributeSpec, index: int) -> IntEnum:
        assert row.enum is not None
        text, name = self.bytecode.attribute(index), ""
        if isinstance(text, bytes):  # up to 2025-07
            name = text.decode("utf-8", "replace")
        elif isinstance(text, str):
            match = _MEMBER.match(text)
            name = match[2] if match and match[1] == MNEMONICS[row.enum.__name__] else ""
        name = _GRAPH_MEMBERS.get((row.enum.__name__, name), name)
        if name not in row.enum.__members__:
            raise self._wrong(index, "one of " + ", ".join(row.enum.__members__))
        return row.enum[name]

    def _check_element(self, index: int, of: Type) -> None:
        attribute = self.bytecode.attribute(index)
        if isinstance(of, TensorType) and isinstance(attribute, ScalarAttr):
            found = of._replace(element=str(attribute.type))
            if not is_stored_as(found, of):
                raise self._wrong(index, f"a number of type {of.element}")

    def _element(self, row: AttributeSpec, index: int) -> bytes:
        attribute = self.bytecode.attribute(index)
        text = str(attribute.type) if isinstance(attribute, ScalarAttr) else ""
        narrow = self.narrowing.target(text)
        dtype = narrow or BY_MLIR.get(text)
        if not isinstance(attribute, ScalarAttr) or dtype is None:
            raise self._wrong(index, "a number of a TOSA element type")
        bits = attribute.bits
        if narrow is not None:
            forms = ("<f", "<I") if text == "f32" else ("<d", "<Q")
            wide = (
                struct.unpack(forms[0], struct.pack(forms[1], bits))[0]
                if attribute.is_float
                else attribute.signed()
            )
            try:
                value = self.narrowing.bound(text, wide, upper=row.name == "max_val")
            except OverflowError:
                raise self._wrong(index, f"a number that fits {dtype.mlir}") from None
            if attribute.is_float:
                return np.array(value, dtype.numpy).tobytes().ljust(ELEMENT_BYTES, b"\0")
            bits = int(value) & (1 << int_bits(dtype)) - 1
        return bits.to_bytes(ELEMENT_BYTES, "little")

    def _string(self, row: AttributeSpec, index: int) -> str:
        try:
            return self._bytes(row, index).decode()
        except UnicodeDecodeError:
            raise self._wrong(index, "a string in UTF-8") from None

    def _bytes(self, row: AttributeSpec, index: int) -> bytes:
        attribute = self.bytecode.attribute(index)
        if not isinstance(attribute, bytes):
            raise self._wrong(index, "a string")
        return attribute


#: By kind. In the module, because an instance that held its own methods would refer to itself.
_READERS: Final[dict[str, Callable[[AttributeReader, AttributeSpec, int], AttributeValue]]] = {
    "i32": AttributeReader._i32,
    "i32s": AttributeReader._i32s,
    "bool": AttributeReader._bool,
    "dtype": AttributeReader._dtype,
    "enum": AttributeReader._enum,
    "element": AttributeReader._element,
    "string": AttributeReader._string,
    "bytes": AttributeReader._bytes,
}


# -- graph -> MLIR ----------------------------------------------------------------------------------


class AttributeWriter:
    """Adds attributes to a bytecode, equal ones once, and returns their encoded numbers."""

    def __init__(self, encoder: Encoder, types: TypeWriter) -> None:
        self.encoder = encoder
        self.numbers = encoder.numbers
        self.types = types

    def __call__(
        self, spec: OperatorSpec, row: AttributeSpec, value: AttributeValue, element: DType | None
    ) -> bytes:
        """Encode the attribute of `spec`'s `row`. `element`: dtype of the operator's first operand."""
        if row.kind == "i32":
            assert isinstance(value, int)
            return self.integer(value, 32)
        if row.kind == "i32s":
            assert isinstance(value, tuple)
            return self.list(value, 32 if (spec.name, row.name) in I32_ARRAYS else 64)
        if row.kind == "bool":
            return self.integer(bool(value), 1)
        if row.kind == "dtype":
            assert isinstance(value, DType)
            return self.type(self.types.element(value))
        if isinstance(value, IntEnum):
            return self.enum(value)
        if row.kind == "element":
            assert isinstance(value, bytes)
            assert element is not None
            return self.number(value, element)
        assert isinstance(value, (str, bytes))
        return self.encoder.string_attribute(value)

    def type(self, type_: bytes) -> bytes:
        return self.encoder.attributes(self.numbers[TYPE] + type_)

    def integer(self, value: int, bits: int) -> bytes:
        return self.bits(INTEGER, self.types.builtin(f"i{bits}"), value, bits)

    def list(self, values: tuple[int, ...], bits: int) -> bytes:
        """Encode integers as an array<i8: ...>, array<i32: ...> or array<i64: ...>."""
        raw = struct.pack(f"<{len(values)}{_FORMATS[bits]}", *values)
        return self.encoder.dense_array(self.types.builtin(f"i{bits}"), len(values), raw)

    def enum(self, value: IntEnum) -> bytes:
        enum = type(value).__name__
        member = MLIR_MEMBERS.get((enum, value.name), value.name)
        return self.encoder.attributes.text(f"#tosa.{MNEMONICS[enum]}<{member}>")

    def number(self, value: bytes, element: DType) -> bytes:
        """Encode a number given by the bytes of an element."""
        number = int.from_bytes(value[: element.element_bytes], "little")
        code = INTEGER if element.mlir[0] == "i" else FLOAT
        return self.bits(code, self.types.element(element), number, int_bits(element))

    def bits(self, code: int, type_: bytes, number: int, bits: int) -> bytes:
        """Encode a number given by its bits; more than 8 as if there were 64, the sign included."""
        number &= (1 << bits) - 1
        body = bytes((number,)) if bits <= 8 else encode_varint(to_zigzag(number))
        return self.encoder.attributes(self.numbers[code] + type_ + body)


# -- the attribute `tosa.target_env` of a module, both directions ----------------------------------
# Its text is `#tosa.target_env<specification_version = "1.1.draft", level = "8k", profiles =
# [pro_int], extensions = [int16]>`. Older bindings have no version in it.

TARGET_ENV: Final = "tosa.target_env"

_VERSION: Final = r'specification_version = "?(\d+\.\d+)'
_FORM: Final = (
    r'#tosa\.target_env<(?:specification_version = "?[\w.]{1,20}"?, )?level = "?(\w{1,20})"?, '
    r"profiles = \[([\w, ]{0,1000})\], extensions = \[([\w, ]{0,1000})\]>"
)


class TargetEnv(NamedTuple):
    """What the attribute says. version: None unless it is one that is read.

    target: None if its text has another form.
    """

    version: Version | None
    target: Target | None


def read(text: str) -> TargetEnv:
    """Read the target environment of the attribute's text."""
    version, form = re.search(_VERSION, text), re.fullmatch(_FORM, text)
    target = None
    if form is not None:
        profiles, extensions = map(_names, (form[2], form[3]))
        target = Target(
            form[1].upper(), profiles, tuple(f"EXT-{extension}" for extension in extensions)
        )
    return TargetEnv(None if version is None else BY_NAME.get(version[1]), target)


def _names(text: str) -> tuple[str, ...]:
    words = (word.strip() for word in text.split(","))
    return tuple(word.upper().replace("_", "-") for word in words if word)


def text_of(target: Target, version: Version) -> str | None:
    """Return the attribute's text; None if MLIR cannot read it: its parser refuses an empty list.

    Example:
        >>> print(text_of(Target("8K", ("PRO-FP",), ("EXT-MX-INT8",)), Version(1, 1, 0, draft=True)))
        #tosa.target_env<specification_version = "1.1.draft", level = "8k", profiles = [pro_fp], \
extensions = [mx_int8]>
    """
    profiles, extensions = map(_mlir_names, (target.profiles, target.extensions))
    if not profiles or not extensions:
        return None
    level = target.level.lower()
    shown = level if level.isalpha() else f'"{level}"'
    number = f"{version.major}.{version.minor}" + (".draft" if version.minor else "")
    return (
        f'#tosa.target_env<specification_version = "{number}", level = {shown}, '
        f"profiles = [{profiles}], extensions = [{extensions}]>"
    )


def _mlir_names(names: tuple[str, ...]) -> str:
    return ", ".join(name.removeprefix("EXT-").lower().replace("-", "_") for name in names)
