"""The bytecode of an MLIR operation, without a copy of its weights.

MLIR hands bytecode over in pieces, and the data of a constant is a piece by itself: the memory of the
attribute. Through MLIR's C API such a piece becomes a view that keeps the operation's context alive. If
the bindings do not export the C API, it becomes a copy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.format import (
    ALIGNED,
    ATTRIBUTES_AND_TYPES,
    FILLER,
    MAGIC,
    RESOURCES,
    VERSION,
)
from tosa_convert.formats.mlir.bytecode.sections import COPIED_BYTES, BytecodeFile, Section
from tosa_convert.formats.mlir.bytecode.varint import decode_varint, encode_varint
from tosa_convert.process.ending_signals import signals_deferred

#: Sections in which data lies between what the producer writes itself.
_WITH_DATA: Final = frozenset({ATTRIBUTES_AND_TYPES, RESOURCES})


def bytecode_of(bindings: Bindings, operation: Any) -> Bytecode:
    """Return the decoded bytecode of an operation; see `capture`."""
    return Bytecode(BytecodeFile(VERSION, "", capture(bindings, operation)))


def capture(bindings: Bindings, operation: Any) -> dict[int, Section]:
    """Return the sections of an operation's bytecode, by their ids.

    operation: a module, a function or a variable. Its results must have no uses, because MLIR numbers
        the users, which are not part of what it writes.
    """
    collector = SectionCollector()
    api = _c_api(bindings)
    with signals_deferred():
        if api is None:
            operation.write_bytecode(_Sink(collector), desired_version=VERSION)
        else:
            api.write(operation, collector)
    return collector.sections


class SectionCollector:
    """Sorts the pieces of one bytecode into sections as they arrive."""

    def __init__(self) -> None:
        #: Complete sections by their ids.
        self.sections: dict[int, Section] = {}
        self._section_id = -1
        #: Bytes of the current section that have not arrived yet.
        self._left = 0
        self._copies: list[bytes] = []
        self._length = 0
        self._data: dict[int, memoryview] = {}
        self._after_own_bytes = False
        self._started = False

    def add(self, size: int, copy: Callable[[], bytes], view: Callable[[], memoryview]) -> None:
        """Take one piece: its size in bytes, and two ways to get it."""
        if not size:
            return
        if not self._left:
            self._header(copy())
            return
        self._left -= size
        # The producer's own bytes and data alternate, and the size of data precedes it.
        is_data = self._after_own_bytes and self._section_id in _WITH_DATA
        if is_data and size > COPIED_BYTES and self._is_announced(size):
            self._data[self._length] = view()
        else:
            is_data = is_data and size <= COPIED_BYTES
            self._copies.append(copy())
            self._length += size
        self._after_own_bytes = not is_data
        if not self._left:
            self.sections[self._section_id] = Section(b"".join(self._copies), self._data)

    def _is_announced(self, size: int) -> bool:
        """Return whether the bytes before this piece end with its size, as they do before data."""
        tail = self._copies[-1]
        expected = encode_varint(size)
        return tail.endswith(expected) or tail.rstrip(bytes([FILLER])).endswith(expected)

    def _header(self, piece: bytes) -> None:
        offset = 0
        if not self._started:
            self._started = True
            _, offset = decode_varint(piece, len(MAGIC))
            offset = piece.index(b"\0", offset) + 1
        while offset < len(piece) and not self._left:
            self._section_id = piece[offset] & ~ALIGNED
            is_aligned = piece[offset] & ALIGNED
            self._left, offset = decode_varint(piece, offset + 1)
            if is_aligned:
                # Only the filler up to the alignment follows.
                offset = len(piece)
        self._copies, self._length, self._data, self._after_own_bytes = [], 0, {}, False


class _Sink:
    """The file object that the bindings write to if there is no C API."""

    def __init__(self, collector: SectionCollector) -> None:
        self.collector = collector

    def write(self, piece: bytes) -> None:
        self.collector.add(len(piece), lambda: piece, lambda: memoryview(piece))


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

    def write(self, operation: Any, collector: SectionCollector) -> None:
        errors: list[BaseException] = []

        def piece(text: Any, _: object) -> None:
            # An exception must not cross foreign code.
            try:
                collector.add(text.length, lambda: _copy(text), lambda: _view(text, operation))
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
