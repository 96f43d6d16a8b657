"""Attributes and types as values in Python, and native properties, which hold attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.formats.mlir.bytecode.format import Cursor
from tosa_convert.formats.mlir.bytecode.varints import decode_varint, encode_varint
from tosa_convert.graph.opset import OPERATORS


class TensorType(NamedTuple):
    """A tensor type.

    shape: None if unranked; -1 is a dynamic dimension. element: the element type as MLIR prints it.
    encoded: it has an encoding attribute.
    """

    shape: tuple[int, ...] | None
    element: str
    encoded: bool = False

    def __str__(self) -> str:
        if self.shape is None:
            return f"tensor<*x{self.element}>"
        sizes = "".join(f"{'?' if size < 0 else size}x" for size in self.shape)
        return f"tensor<{sizes}{self.element}>"


class FunctionType(NamedTuple):
    """The types of a function's arguments and results."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]

    def __str__(self) -> str:
        results = ", ".join(map(str, self.results))
        if len(self.results) != 1:
            results = f"({results})"
        return f"({', '.join(map(str, self.inputs))}) -> {results}"


#: A tensor or function type, or any other type as MLIR prints it.
Type = TensorType | FunctionType | str


class ScalarAttr(NamedTuple):
    """An integer or a float: its type, and its bits as an unsigned number."""

    type: Type
    bits: int
    is_float: bool

    def signed(self) -> int:
        """Return the integer in two's complement; of type i1, 0 or 1."""
        width = bit_width(self.type)
        return self.bits - (self.bits >> (width - 1) << width) if width > 1 else self.bits


class TypeAttr(NamedTuple):
    """A type as an attribute."""

    type: Type


@dataclass(slots=True, repr=False)
class DenseArrayAttr:
    """array<i64: ...>: the element type, the number of elements, and their bytes."""

    element: Type
    count: int
    data: bytes


class DenseAttr(NamedTuple):
    """dense<...>: the elements' bytes, or the bytes of one element that all share."""

    type: Type
    data: memoryview


class DenseStringsAttr(NamedTuple):
    """dense<"..."> : the strings, or one string that all elements share."""

    type: Type
    is_splat: bool
    strings: list[bytes]


class ResourceAttr(NamedTuple):
    """dense_resource<...>; data is None if the module does not have it. alignment: in bytes."""

    type: Type
    data: memoryview | None
    name: bytes = b""
    alignment: int = 1


class SymbolAttr(NamedTuple):
    """@name: a reference to a symbol."""

    name: bytes


class OpaqueAttr:
    """An attribute that is not decoded, because no TOSA program consists of it."""


#: bytes: a string. str: an attribute of a dialect as MLIR prints it. list, dict: numbers of attributes.
#: None: unit.
Attribute = (
    bytes
    | str
    | list[int]
    | dict[str, int]
    | ScalarAttr
    | TypeAttr
    | DenseArrayAttr
    | DenseAttr
    | DenseStringsAttr
    | ResourceAttr
    | SymbolAttr
    | OpaqueAttr
    | None
)


def bit_width(type_: Type) -> int:
    """Return the bits of an integer, index or float type; 0 for any other type."""
    known = _COMMON.get(type_)
    if known is not None:
        return known
    if not isinstance(type_, str):
        return 0
    if type_[0] in "sui":
        return _number(type_.lstrip("sui"))
    if type_[0] == "f":  # f32 or f8E4M3FN
        return _number(type_[1:].partition("E")[0])
    return 0


#: Types whose bits are not in their names, and those that most programs have.
_COMMON: Final[dict[Type, int]] = {
    "index": 64,
    "bf16": 16,
    "tf32": 19,
    **{f"i{bits}": bits for bits in (1, 4, 8, 16, 32, 48, 64)},
    **{f"f{bits}": bits for bits in (16, 32, 64)},
}


def _number(digits: str) -> int:
    """Parse an integer of a few ASCII digits; return 0 for any other text."""
    return int(digits) if len(digits) <= 9 and digits.isascii() and digits.isdigit() else 0


# -- native properties: an operation's attributes in bytecode 5 and 6 ------------------------------
# A blob has slots sorted by name, and neither names nor a count: a required one is an index, another
# `index << 1 | 1`, or 0 if absent. The layout is taken that uses up the blob with the right kinds.
# Source: OpDefinitionsGen.cpp of LLVM, and files of tosa-opt, torch-mlir, IREE and older releases.


class Slot(NamedTuple):
    """An attribute in a blob. kind: that of `AttributeSpec`, or one of those that only MLIR has."""

    name: str
    kind: str
    is_optional: bool = False


Layout = tuple[Slot, ...]
#: A blob's content: the indices of attributes by name.
Properties = dict[str, int]


def _sorted(*slots: Slot) -> Layout:
    return tuple(sorted(slots, key=lambda slot: slot.name))


_VARIABLE: Final = (
    Slot("initial_value", "elements", True),
    Slot("sym_name", "string"),
    Slot("type", "type"),
    Slot("var_shape", "elements"),
)

#: Operation -> the layouts that its blob may have, today's first.
LAYOUTS: Final[dict[str, tuple[Layout, ...]]] = {
    **{
        spec.mlir: (
            _sorted(
                *(Slot(a.name, a.kind, a.optional) for a in spec.attributes if a.kind != "region")
            ),
        )
        for spec in OPERATORS
    },
    "tosa.const": (_sorted(Slot("values", "elements")),),
    "tosa.const_shape": (_sorted(Slot("values", "elements")),),
    "tosa.variable": (
        _sorted(*_VARIABLE),
        _sorted(*_VARIABLE, Slot("sym_visibility", "string", True)),  # IREE 3.13
    ),
    "tosa.variable_read": (_sorted(Slot("name", "string")),),
    "tosa.variable_write": (_sorted(Slot("name", "string")),),
    "tosa.cast": ((), _sorted(Slot("input_unsigned", "bool", True))),  # the second: IREE 3.13
    "tosa.yield": ((),),
    "builtin.module": (
        _sorted(Slot("sym_name", "string", True), Slot("sym_visibility", "string", True)),
    ),
    "func.func": (
        _FUNCTION := _sorted(
            Slot("arg_attrs", "array", True),
            Slot("function_type", "type"),
            Slot("no_inline", "unit", True),
            Slot("res_attrs", "array", True),
            Slot("sym_name", "string"),
            Slot("sym_visibility", "string", True),
        ),
        tuple(slot for slot in _FUNCTION if slot.name != "no_inline"),  # before 2025
    ),
    "func.call": (
        _CALL := _sorted(
            Slot("arg_attrs", "array", True),
            Slot("callee", "symbol"),
            Slot("no_inline", "unit", True),
            Slot("res_attrs", "array", True),
        ),
        (_CALL[1], _CALL[2]),  # before 2025
        (_CALL[1],),
    ),
    "func.return": ((),),
    **dict.fromkeys(("ml_program.func", "ml_program.subgraph"), (_FUNCTION[:2] + _FUNCTION[3:],)),
    **dict.fromkeys(("ml_program.return", "ml_program.output", "util.return"), ((),)),
    "util.global": (
        _sorted(
            Slot("initial_value", "value", True),
            Slot("inlining_policy", "any", True),
            Slot("is_mutable", "unit", True),
            Slot("sym_name", "string"),
            Slot("sym_visibility", "string", True),
            Slot("type", "type"),
        ),
    ),
    "util.global.load": (_sorted(Slot("global", "symbol"), Slot("is_immutable", "unit", True)),),
    "util.global.store": (_sorted(Slot("global", "symbol")),),
    "ml_program.global": (
        _sorted(
            Slot("is_mutable", "unit", True),
            Slot("sym_name", "string"),
            Slot("sym_visibility", "string", True),
            Slot("type", "type"),
            Slot("value", "value", True),
        ),
    ),
    **dict.fromkeys(
        ("ml_program.global_load", "ml_program.global_load_const"),
        (_sorted(Slot("global", "symbol")),),
    ),
    "ml_program.global_store": (_sorted(Slot("global", "symbol")),),
    "arith.constant": (_sorted(Slot("value", "elements")),),
}


#: Operations of older releases that have another name today, or none.
OLD_NAMES: Final = frozenset(
    ("tosa.fully_connected", *(old for spec in OPERATORS for old, _ in spec.old_names))
)
#: Operations whose only property is the attribute `values`.
VALUES_ONLY: Final = frozenset(
    name for name, layouts in LAYOUTS.items() if layouts == ((Slot("values", "elements"),),)
)


class PropertyTable:
    """The section of properties: blobs, by their numbers. section: a cursor at its start."""

    def __init__(self, section: Cursor) -> None:
        self._section = section
        self._places: list[tuple[int, int]] = []
        if section.end:
            for _ in range(section.count("properties")):
                size = section.varint("the size of properties")
                start = section.skip(size, "properties")
                self._places.append((start, start + size))

    def cursor(self, number: int) -> Cursor:
        section = self._section
        if number >= len(self._places):
            section.refuse(f"found properties {number}, expected less than {len(self._places)}", 0)
        start, end = self._places[number]
        return Cursor(section.data, start, end, section.base, section.where)

    def only_number(self, number: int, default: int) -> int:
        """Return the integer that is all of a blob; `default` if the blob is something else."""
        start, end = self._places[number]
        found, stop = decode_varint(self._section.data, start)
        return found if stop == end else default


def encode_properties(operation: str, attributes: Mapping[str, bytes]) -> bytes:
    """Encode an operation's blob in the current layout; nothing if its definition has no attributes."""
    slots: list[bytes] = []
    for slot in LAYOUTS[operation][0]:
        number = attributes.get(slot.name)
        if slot.is_optional:
            number = (
                b"\1" if number is None else encode_varint(decode_varint(number, 0)[0] << 1 | 1)
            )
        assert number is not None, f"{operation} has no attribute {slot.name}"
        slots.append(number)
    return b"".join(slots)


#: Whether an attribute is of a slot's kind, by the attribute's index and the kind.
IsOfKind = Callable[[int, str], bool]


def fitting_properties(
    layouts: tuple[Layout, ...], blob: Cursor, attribute_count: int, is_of_kind: IsOfKind
) -> list[Properties]:
    """Return the different contents of a blob by the layouts that fit it."""
    start = blob.at
    fitting: list[Properties] = []
    for layout in layouts:
        blob.at = start
        found = _decode(layout, blob, attribute_count)
        if found is None or found in fitting:
            continue
        if all(is_of_kind(found[slot.name], slot.kind) for slot in layout if slot.name in found):
            fitting.append(found)
    return fitting


def misfit(
    operation: str, layouts: tuple[Layout, ...], blob: Cursor, start: int, *, ambiguous: bool
) -> TosaConvertError:
    """Return the error for a blob that no layout fits, or that several fit differently."""
    listing = " or ".join(
        "(" + ", ".join(slot.name + "?" * slot.is_optional for slot in layout) + ")"
        for layout in layouts
    )
    problem = "are ambiguous between" if ambiguous else "fit none of"
    return blob.refusal(f"the properties of '{operation}' {problem} the layouts {listing}", start)


def _decode(layout: Layout, blob: Cursor, attribute_count: int) -> Properties | None:
    found: Properties = {}
    for slot in layout:
        if blob.at >= blob.end:
            return None
        number = blob.varint("a property")
        if slot.is_optional:
            if not number & 1:
                if number:
                    return None
                continue
            number >>= 1
        if number >= attribute_count:
            return None
        found[slot.name] = number
    return found if blob.at == blob.end else None


#: Operation -> layouts, separated by bars. "?" marks an optional attribute.
_OLD_TEXT: Final = {
    "argmax reduce_max reduce_min reduce_prod": "axis",
    "avg_pool2d": "acc_type kernel pad quantization_info? stride"
    " | acc_type input_zp? kernel output_zp? pad stride",
    "max_pool2d": "kernel pad stride",
    "conv2d conv3d depthwise_conv2d": "dilation pad quantization_info? stride"
    " | dilation local_bound? pad quantization_info? stride"
    " | acc_type dilation local_bound? pad quantization_info? stride",
    "transpose_conv2d": "out_pad out_shape quantization_info? stride"
    " | local_bound? out_pad out_shape quantization_info? stride"
    " | acc_type local_bound? out_pad out_shape quantization_info? stride"
    " | acc_type local_bound? out_pad out_shape stride",
    "fully_connected": "quantization_info?",
    "matmul": "quantization_info? | a_zp? b_zp?",
    "negate": "quantization_info? | input1_zp? output_zp?",
    "pad": "quantization_info? | input_zp?",
    "clamp": "max_fp max_int min_fp min_int | max_fp max_int min_fp min_int nan_mode?",
    "maximum minimum transpose rfft2d div int_div": "",
    "mul": "shift",
    "reshape": "new_shape",
    "tile": "multiples",
    "slice": "size start",
    "resize": "border mode offset scale",
    "rescale": "double_round input_zp multiplier output_zp per_channel scale32 shift"
    " | double_round input_unsigned? input_zp multiplier output_unsigned? output_zp per_channel"
    " scale32 shift",
    "fft2d": "inverse",
    "variable": "initial_value? sym_name type",
    "variable.read variable.write": "name",
}

_OLD_KINDS: Final = {
    "acc_type": "dtype",
    "quantization_info": "zero points",
    "initial_value": "elements",
    "sym_name": "string",
    "name": "string",
    "type": "type",
    "mode": "enum",
    "nan_mode": "enum",
    **dict.fromkeys(
        (
            *("kernel", "pad", "stride", "dilation", "out_pad", "out_shape", "new_shape"),
            *("multiples", "size", "start", "border", "offset", "scale", "multiplier"),
        ),
        "i32s",
    ),
    **dict.fromkeys(
        (
            *("local_bound", "double_round", "per_channel", "scale32", "inverse"),
            *("input_unsigned", "output_unsigned"),
        ),
        "bool",
    ),
    **dict.fromkeys(
        (
            *("axis", "input_zp", "output_zp", "a_zp", "b_zp", "input1_zp"),
            *("max_int", "min_int", "max_fp", "min_fp"),
        ),
        "i32",
    ),
}


def _old_layout(operation: str, text: str) -> Layout:
    slots = []
    for word in text.split():
        name = word.rstrip("?")
        kind = _OLD_KINDS.get(name) or ("i32s" if operation == "rescale" else "i32")  # shift
        slots.append(Slot(name, kind, name != word))
    return tuple(slots)


#: Operation -> the layouts of its blob in older releases.
OLD_LAYOUTS: Final[dict[str, tuple[Layout, ...]]] = {
    f"tosa.{operation}": tuple(_old_layout(operation, layout) for layout in text.split("|"))
    for operations, text in _OLD_TEXT.items()
    for operation in operations.split()
}

#: The attributes of tosa.custom up to October 2023 -> those that have their places today.
_OLD_CUSTOM: Final = {
    "domain_name": "config",
    "implementation_attrs": "identifier",
    "operator_name": "implementation_attrs",
}


def custom_names(
    found: Properties, dating: Iterable[tuple[str, Attribute]], where: str, is_new: bool | None
) -> Properties:
    """Return a tosa.custom's attributes; other operations tell if its names are those of today."""
    if is_new is not None:
        return found if is_new else {_OLD_CUSTOM[today]: index for today, index in found.items()}
    for name, attribute in dating:
        type_ = attribute.type if isinstance(attribute, ScalarAttr) else None
        if (name, type_) == ("shift", "i8"):
            return found
        if (name, type_) in (("shift", "i32"), ("axis", "i64")):
            return {_OLD_CUSTOM[today]: index for today, index in found.items()}
    raise fail(
        "cannot-upgrade",
        where or "'tosa.custom'",
        "'tosa.custom' has three strings, and the file does not tell which is the operator's name: "
        "MLIR changed their order in November 2023",
        'say the month of the MLIR that wrote it, dialect="2023-10", or convert the program from text, '
        "in which they have names",
    )
