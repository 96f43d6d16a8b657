"""An operation's bytecode, as MLIR writes it, without copying its weights.

MLIR hands bytecode over in pieces, and the data of a constant is a piece of its own: the memory that
the attribute has. Through MLIR's C API such a piece is a view that lives as long as the operation's
context; where the bindings do not export it, a copy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from tosa_convert.bindings.packages import Bindings
from tosa_convert.ending_signals import signals_deferred
from tosa_convert.mlir.bytecode.format import (
    ALIGNED,
    ATTRIBUTES_AND_TYPES,
    FILLER,
    MAGIC,
    RESOURCES,
    VERSION,
)
from tosa_convert.mlir.bytecode.varint import decode_varint, encode_varint

#: Pieces of at most this many bytes are copied, whatever they hold.
COPIED_BYTES: Final = 1 << 12
#: Sections in which data lies between what MLIR writes itself.
_WITH_DATA: Final = frozenset({ATTRIBUTES_AND_TYPES, RESOURCES})


@dataclass(slots=True)
class Section:
    """A section's bytes without the data that is larger than COPIED_BYTES.

    data: where such data is left out, as an offset in `bytes` -> the data.
    """

    bytes: bytes = b""
    data: dict[int, memoryview] = field(default_factory=dict)


def capture(bindings: Bindings, operation: Any) -> dict[int, Section]:
    """The sections of an operation's bytecode, by their ids.

    operation: a module, a function or a variable: an operation whose results have no uses, because
        MLIR wants to number the users, which are not part of what it writes.
    """
    collector = _Collector()
    api = _c_api(bindings)
    with signals_deferred():
        if api is None:
            sink = _Sink(collector)
            operation.write_bytecode(sink, desired_version=VERSION)
        else:
            api.write(operation, collector)
    return collector.sections


class _Collector:
    """Sorts pieces into sections while they arrive."""

    def __init__(self) -> None:
        self.sections: dict[int, Section] = {}
        self.kind = -1
        #: Bytes of the current section that are still to come.
        self.left = 0
        self.runs: list[bytes] = []
        self.length = 0
        self.data: dict[int, memoryview] = {}
        self.after_run = False
        self.started = False

    def take(self, size: int, copy: Callable[[], bytes], view: Callable[[], memoryview]) -> None:
        """One piece: its size in bytes, and two ways to have it."""
        if not size:
            return
        if not self.left:
            self.header(copy())
            return
        self.left -= size
        # What MLIR writes itself and the data of constants take turns, and a size is before the data.
        is_data = self.after_run and self.kind in _WITH_DATA
        if is_data and size > COPIED_BYTES and self.announced(size):
            self.data[self.length] = view()
        else:
            is_data = is_data and size <= COPIED_BYTES
            self.runs.append(copy())
            self.length += size
        self.after_run = not is_data
        if not self.left:
            self.sections[self.kind] = Section(b"".join(self.runs), self.data)

    def announced(self, size: int) -> bool:
        tail = self.runs[-1]
        wanted = encode_varint(size)
        return tail.endswith(wanted) or tail.rstrip(bytes([FILLER])).endswith(wanted)

    def header(self, piece: bytes) -> None:
        at = 0
        if not self.started:
            self.started = True
            _, at = decode_varint(piece, len(MAGIC))
            at = piece.index(b"\0", at) + 1
        while at < len(piece) and not self.left:
            self.kind = piece[at] & ~ALIGNED
            aligned = piece[at] & ALIGNED
            self.left, at = decode_varint(piece, at + 1)
            if aligned:
                # Only bytes that fill up to the alignment follow.
                at = len(piece)
        self.runs, self.length, self.data, self.after_run = [], 0, {}, False


class _Sink:
    """What the bindings write to where there is no C API."""

    def __init__(self, collector: _Collector) -> None:
        self.collector = collector

    def write(self, piece: bytes) -> None:
        self.collector.take(len(piece), lambda: piece, lambda: memoryview(piece))


# -- MLIR's C API -----------------------------------------------------------------------------------


class _StringRef(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Handle(ctypes.Structure):
    """MlirOperation, MlirBytecodeWriterConfig: a struct of one pointer, passed by value."""

    _fields_ = (("pointer", ctypes.c_void_p),)


class _Result(ctypes.Structure):
    """MlirLogicalResult."""

    _fields_ = (("value", ctypes.c_int8),)


_WRITE: Final = ctypes.CFUNCTYPE(None, _StringRef, ctypes.c_void_p)
_get_name = ctypes.pythonapi.PyCapsule_GetName
_get_name.restype = ctypes.c_char_p
_get_name.argtypes = (ctypes.py_object,)
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


class _CApi:
    """The functions of MLIR's C API that the bindings' own library exports."""

    def __init__(self, library: ctypes.CDLL) -> None:
        create = library.mlirBytecodeWriterConfigCreate
        create.restype, create.argtypes = _Handle, ()
        desire = library.mlirBytecodeWriterConfigDesiredEmitVersion
        desire.restype, desire.argtypes = None, (_Handle, ctypes.c_int64)
        self.write_bytecode = library.mlirOperationWriteBytecodeWithConfig
        self.write_bytecode.restype = _Result
        self.write_bytecode.argtypes = (_Handle, _Handle, _WRITE, ctypes.c_void_p)
        self.config = create()
        desire(self.config, VERSION)

    def write(self, operation: Any, collector: _Collector) -> None:
        errors: list[BaseException] = []

        def piece(text: Any, _: object) -> None:
            # An exception must not cross foreign code.
            try:
                collector.take(text.length, lambda: _copy(text), lambda: _view(text, operation))
            except BaseException as error:
                errors.append(error)

        capsule = operation._CAPIPtr
        handle = _Handle(_get_pointer(capsule, _get_name(capsule)))
        result = self.write_bytecode(handle, self.config, _WRITE(piece), None)
        if errors:
            raise errors[0]
        if not result.value:
            raise RuntimeError("MLIR did not write its bytecode")


@cache
def _c_api(bindings: Bindings) -> _CApi | None:
    for path in bindings.libraries:
        try:
            return _CApi(ctypes.CDLL(str(path)))
        except (OSError, AttributeError):
            continue
    return None


def _copy(text: Any) -> bytes:
    return ctypes.string_at(text.data, text.length)


def _view(text: Any, owner: object) -> memoryview:
    array = (ctypes.c_ubyte * text.length).from_address(text.data)
    array._owner = owner
    return memoryview(array).cast("B")
