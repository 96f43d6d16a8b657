"""The raw bytes of constant attributes, which the bindings do not all give.

From the cheapest way to the dearest: the buffer protocol (a view), MLIR's C API in the bindings' own
library (a view), and the bytecode of the single operation, in which the data is one chunk (a copy).
None of them prints numbers, so bits survive: NaN payloads, -0.0.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from typing import Any, Final

import numpy as np

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import DType, dtype
from tosa_convert.mlir.bindings import Bindings

#: Operation.write_bytecode hands over this many chunks for one operation with one constant, and the
#: data is at these places among them: of a dense attribute, of a dense_resource.
_CHUNKS: Final = 17
_DENSE_CHUNK: Final = 6
_RESOURCE_CHUNK: Final = 12

_STRING_ELEMENTS: Final = re.compile(r'"0x([0-9A-Fa-f]+)"')
_STRING_ATTRIBUTE: Final = re.compile(r'dense<\[*"[^>]*>')
_SCALES: Final = re.compile(r"!tosa\.block_scaled<[^,>]*, \{([^}]*)\}>")
_E8M0: Final = dtype("FP8UE8M0")


class Unreadable(Exception):
    """A constant whose data cannot be had; the message says why."""


class _StringRef(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Handle(ctypes.Structure):
    """MlirAttribute, MlirOperation: a struct of one pointer, passed by value."""

    _fields_ = (("pointer", ctypes.c_void_p),)


_WRITE: Final = ctypes.CFUNCTYPE(None, _StringRef, ctypes.c_void_p)
_get_name = ctypes.pythonapi.PyCapsule_GetName
_get_name.restype = ctypes.c_char_p
_get_name.argtypes = (ctypes.py_object,)
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


def _handle(thing: Any) -> _Handle:
    capsule = thing._CAPIPtr
    return _Handle(_get_pointer(capsule, _get_name(capsule)))


class _CApi:
    """The functions of MLIR's C API that the bindings' own library exports."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.raw_data = library.mlirDenseElementsAttrGetRawData
        self.raw_data.restype = ctypes.c_void_p
        self.raw_data.argtypes = (_Handle,)
        self.by_name = library.mlirOperationGetAttributeByName
        self.by_name.restype = _Handle
        self.by_name.argtypes = (_Handle, _StringRef)
        self.is_splat = library.mlirDenseElementsAttrIsSplat
        self.is_splat.restype = ctypes.c_bool
        self.is_splat.argtypes = (_Handle,)
        self.write_bytecode = library.mlirOperationWriteBytecode
        self.write_bytecode.restype = None
        self.write_bytecode.argtypes = (_Handle, _WRITE, ctypes.c_void_p)


@cache
def _c_api(bindings: Bindings) -> _CApi | None:
    for path in bindings.libraries:
        try:
            return _CApi(ctypes.CDLL(str(path)))
        except (OSError, AttributeError):
            continue
    return None


def _view(address: int, length: int, owner: object) -> memoryview:
    array = (ctypes.c_ubyte * length).from_address(address)
    array._owner = owner  # type: ignore[attr-defined]
    return memoryview(array).cast("B")


def _chunks(bindings: Bindings, operation: Any) -> list[Any]:
    """The chunks of an operation's bytecode: views of MLIR's memory where that can be had."""
    # MLIR crashes on an operation whose result has several uses, because it wants to number the users,
    # which are not part of what it writes. A copy has none; it shares the attributes, so the data too.
    # False: not inserted anywhere, whatever insertion point the caller is at.
    copy = operation.clone(False)
    copy = getattr(copy, "operation", copy)
    api = _c_api(bindings)
    if api is not None:
        spans: list[tuple[int, int]] = []
        callback = _WRITE(lambda text, _: spans.append((text.data or 0, text.length)))
        api.write_bytecode(_handle(copy), callback, None)
        # Only the data outlives the call, so only it may be looked at: by address, not by content.
        return [_Span(address, length, operation) for address, length in spans]

    class Sink:
        def __init__(self) -> None:
            self.parts: list[bytes] = []

        def write(self, part: bytes) -> None:
            self.parts.append(part)

    sink = Sink()
    copy.write_bytecode(sink)
    return sink.parts


class _Span:
    """Memory of MLIR's that was handed to a callback; `view` is valid while the data lives."""

    def __init__(self, address: int, length: int, owner: object) -> None:
        self.address, self.length, self.owner = address, length, owner

    def __len__(self) -> int:
        return self.length

    def view(self) -> memoryview:
        return _view(self.address, self.length, self.owner)


def _chunk(bindings: Bindings, operation: Any, place: int, lengths: tuple[int, ...]) -> memoryview:
    chunks = _chunks(bindings, operation)
    if len(chunks) != _CHUNKS:
        raise Unreadable("it has no data: the resource is missing, or was elided when printed")
    chunk = chunks[place]
    if len(chunk) not in lengths:
        raise Unreadable(
            f"it has {len(chunk)} bytes of data, expected " + " or ".join(map(str, lengths))
        )
    return chunk.view() if isinstance(chunk, _Span) else memoryview(chunk)


def dense(bindings: Bindings, operation: Any, attribute: Any, kind: DType, count: int) -> Constant:
    """The data of a DenseElementsAttr that `operation` holds."""
    try:
        view = memoryview(attribute)
    except BufferError:
        return _raw(bindings, operation, attribute, attribute.is_splat, kind, count)
    if attribute.is_splat:
        array = np.asarray(view)
        element = array[(0,) * array.ndim].tobytes()
        return Constant(kind, count, element, splat=True)
    if view.ndim == 1:
        return Constant(kind, count, view.cast("B") if view.format != "B" else view)
    return Constant(kind, count, np.asarray(view).reshape(-1).view(np.uint8))


def _raw(
    bindings: Bindings, operation: Any, attribute: Any, splat: bool, kind: DType, count: int
) -> Constant:
    """Raw data by address: one byte for each element below 8 bits, one element of a splat."""
    length = kind.element_bytes * (1 if splat else count)
    api = _c_api(bindings)
    if api is None:
        data = _chunk(bindings, operation, _DENSE_CHUNK, (length,))
    else:
        handle = attribute if isinstance(attribute, _Handle) else _handle(attribute)
        owner = operation if isinstance(attribute, _Handle) else attribute
        data = _view(api.raw_data(handle), length, owner) if length else memoryview(b"")
    return Constant(kind, count, data, unpacked=kind.is_packed, splat=splat)


def resource(bindings: Bindings, operation: Any, kind: DType, count: int) -> Constant:
    """The data of the dense_resource that `operation` holds, or Unreadable.

    Elements below 8 bits may lie one in a byte, as MLIR keeps dense ones, or packed.
    """
    packed, unpacked = kind.wire_bytes(count), kind.element_bytes * count
    data = _chunk(bindings, operation, _RESOURCE_CHUNK, (packed, unpacked))
    return Constant(kind, count, data, unpacked=kind.is_packed and len(data) != packed)


def strings(attribute: Any, kind: DType, count: int) -> Constant:
    """The data of a dense attribute of string elements, which is how !tosa.mxint8 is spelled."""
    return _from_strings(str(attribute), kind, count)


def _from_strings(text: str, kind: DType, count: int) -> Constant:
    """Elements written as strings: one for each, one for all, or one with the bytes of all."""
    found = _STRING_ELEMENTS.findall(text)
    if len(found) == 1 and len(found[0]) == 2 * count:
        elements = bytes.fromhex(found[0])
    elif any(len(element) > 2 for element in found):
        elements = b""
    else:
        elements = bytes(int(element, 16) for element in found)
    splat = len(elements) == 1 and not text.startswith("dense<[")
    if not splat and len(elements) != count:
        raise Unreadable(f"it has {len(elements)} readable elements, expected {count}")
    if kind.is_packed and max(elements) >> kind.bits:
        raise Unreadable(f"an element has more than the {kind.bits} bits of {kind}")
    return Constant(kind, count, elements, unpacked=kind.is_packed, splat=splat)


def block_scaled(
    bindings: Bindings, operation: Any, name: str, kind: DType, count: int, block: int
) -> tuple[Constant, Constant]:
    """The values and the scales of a block-scaled constant attribute."""
    # The bindings cannot represent the attribute, so it is reached by name through the C API, and
    # its scales, which are part of its element type, through its text without the values.
    text = operation.get_asm(large_elements_limit=0)
    found = _SCALES.search(text)
    if found is None:
        raise Unreadable("its type has no scales")
    scales = bytes(map(_e8m0, found[1].split(",")))
    blocks = count // block
    if len(scales) not in (1, blocks):
        raise Unreadable(f"it has {len(scales)} scales, expected {blocks}")
    scale = Constant(_E8M0, blocks, scales, splat=len(scales) == 1)
    if len(_chunks(bindings, operation)) != _CHUNKS:
        # Where many values were printed, they were parsed as one string, and so are no raw data.
        spelled = _STRING_ATTRIBUTE.search(operation.get_asm(print_generic_op_form=True))
        if spelled is None:
            raise Unreadable("its values are neither numbers nor strings")
        return _from_strings(spelled[0], kind, count), scale
    api = _c_api(bindings)
    if api is None:
        splat = False
        handle = None
    else:
        encoded = name.encode()
        buffer = ctypes.create_string_buffer(encoded, len(encoded))
        handle = api.by_name(_handle(operation), _StringRef(ctypes.addressof(buffer), len(encoded)))
        splat = api.is_splat(handle)
    return _raw(bindings, operation, handle, splat, kind, count), scale


def _e8m0(text: str) -> int:
    """The byte of a scale, a power of two printed in decimal."""
    text = text.strip()
    if text.startswith("0x"):
        return int(text, 16)
    if text.lower() in ("nan", "+nan", "-nan"):
        return 0xFF
    mantissa, exponent = np.frexp(float(text))
    # frexp gives 0.5 <= mantissa < 1; printed digits may fall just short of the power of two.
    return int(exponent) + 126 + int(mantissa > 0.75)
