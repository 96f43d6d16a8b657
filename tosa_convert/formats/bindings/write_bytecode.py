"""The bytecode of an MLIR operation, without a copy of its weights.

MLIR hands bytecode over in pieces, and the data of a constant is a piece by itself: the memory of the
attribute. Through MLIR's C API such a piece becomes a view that keeps the operation's context alive. If
the bindings do not export the C API, it becomes a copy.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final

from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.format import VERSION
from tosa_convert.formats.mlir.bytecode.sections import BytecodeFile, Section, SectionCollector
from tosa_convert.process.ending_signals import signals_deferred


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
