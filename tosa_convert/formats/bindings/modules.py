"""Modules of MLIR's bindings from and to graphs, by way of bytecode."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.errors import fail
from tosa_convert.formats.bindings.packages import (
    Bindings,
    bindings_of,
    diagnostics,
    refused_by_bindings,
)
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.format import (
    ALIGNED,
    ATTRIBUTES_AND_TYPES,
    FILLER,
    MAGIC,
    RESOURCES,
    VERSION,
)
from tosa_convert.formats.mlir.bytecode.read_sections import COPIED_BYTES, BytecodeFile, Section
from tosa_convert.formats.mlir.bytecode.varints import decode_varint, encode_varint
from tosa_convert.formats.mlir.constants import UNNAMED_RESOURCE, resource_alignment
from tosa_convert.formats.mlir.locations import plain_location
from tosa_convert.formats.mlir.read.module import read_module
from tosa_convert.formats.mlir.read.select_function import FUNCTION, MODULE
from tosa_convert.formats.mlir.write.module import encode_module
from tosa_convert.formats.mlir.write.region_body import Body
from tosa_convert.graph.constant import in_order
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import Graph, Tensor
from tosa_convert.graph.verify import NO_COLUMNS
from tosa_convert.io.options import (
    DEFAULT_LIMITS,
    Constants,
    Limits,
    Names,
    ReadOptions,
    WriteOptions,
)
from tosa_convert.process.ending_signals import signals_deferred

if TYPE_CHECKING:
    from tosa_convert.graph.columns import BlockColumns


# -- the bytecode of an MLIR operation, without a copy of its weights ------------------------------
# The data of a constant is a piece by itself: by MLIR's C API a view, else a copy.

#: Sections in which data lies between what the producer writes itself.
_WITH_DATA: Final = frozenset({ATTRIBUTES_AND_TYPES, RESOURCES})


def bytecode_of(bindings: Bindings, operation: Any) -> Bytecode:
    """Return the decoded bytecode of an operation; see `capture`."""
    return Bytecode(BytecodeFile(VERSION, "", capture(bindings, operation)))


def capture(bindings: Bindings, operation: Any) -> dict[int, Section]:
    """Return the bytecode sections, by id, of an operation whose results are unused."""
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


_READ_OPTIONS: Final = ReadOptions()


@refused_by_bindings()
def read(module_or_func: Any, options: ReadOptions = _READ_OPTIONS) -> Graph:
    """Read the graph of one function of a module, through the bytecode that MLIR writes of it."""
    bindings = bindings_of(module_or_func)
    operation = operation_of(bindings, module_or_func)
    if operation.name not in (MODULE, FUNCTION):
        message = f"found the operation '{operation.name}', expected a {MODULE} or a {FUNCTION}"
        raise fail("not-an-mlir-object", plain_location(str(operation.location)), message)
    try:
        operation.verify()
    except bindings.ir.MLIRError as error:
        raise diagnostics(bindings, error, "module") from None
    if operation.name == FUNCTION:
        module = enclosing_module(operation)
        if module is not None:
            options = replace(options, func=symbol_name(operation))
            operation = module
    return read_module(bytecode_of(bindings, operation), options)


def operation_of(bindings: Bindings, thing: Any) -> Any:
    """Return the ir.Operation of a module, operation view or operation, or refuse the object."""
    operation = getattr(thing, "operation", thing)
    if not isinstance(operation, bindings.ir.Operation):
        message = f"found a {type(thing).__name__} of {bindings}, expected a module or a function"
        hint = "give an ir.Module, a func.FuncOp or the ir.Operation of one"
        raise fail("not-an-mlir-object", "", message, hint)
    return operation


def symbol_name(operation: Any) -> str:
    return str(operation.attributes["sym_name"].value)


def enclosing_module(operation: Any) -> Any:
    """Return the innermost builtin.module that an operation is or is in, or None."""
    while operation is not None and operation.name != MODULE:
        try:
            operation = operation.parent
        except ValueError:  # a detached operation
            return None
        operation = getattr(operation, "operation", operation)
    return operation


# -- graph -> ir.Module: bytecode that MLIR parses in one call, and verifies -----------------------


def write(
    graph: Graph,
    bindings: Bindings,
    context: Any,
    *,
    names: Names = "retain",
    constants: Constants = "auto",
    limits: Limits = DEFAULT_LIMITS,
    columns: Mapping[str, BlockColumns] = NO_COLUMNS,
) -> Any:
    """Convert the graph to a module with one function, @main or the name of the first region."""
    options = WriteOptions(names=names, constants=constants, limits=limits)

    def module(context: Any, *, by_path: bool = False) -> Any:
        encoded = encode_module(graph, options, embed=False, by_path=by_path, columns=columns)
        parsed = bindings.ir.Module.parse(b"".join(in_order(encoded.pieces)), context)
        if encoded.body.needed:
            function = next(islice(parsed.body.operations, encoded.variable_count, None))
            with context, bindings.ir.Location.unknown(context):
                _share(bindings.ir, context, encoded.body, function.regions[0].blocks[0])
        return parsed

    try:
        return module(context)
    except bindings.ir.MLIRError as error:
        refusal = diagnostics(bindings, error, "module")
    if not all(finding.where for finding in refusal.findings):
        # MLIR identifies operators by location, and these have none: repeat it with their paths.
        try:
            module(bindings.new_context(), by_path=True)
        except bindings.ir.MLIRError as error:
            raise diagnostics(bindings, error, "module") from None
    raise refusal


def _share(ir: Any, context: Any, body: Body, block: Any) -> None:
    """Give the constants that share the graph's memory their data."""
    pending = [(body, block)]
    while pending:
        body, block = pending.pop()
        left = len(body.shared) + sum(child.needed for child in body.children)
        children, inside = iter(body.children), []
        for operator, operation in zip(body.block.operators, block.operations, strict=False):
            if operator in body.shared:
                tensor, type_ = body.shared[operator], operation.results[0].type
                operation.attributes["values"] = _resource(ir, context, tensor, type_)
                left -= 1
            for number in range(len(operator.spec.regions)):
                child = next(children)
                if child.needed:
                    inside.append((child, operation.regions[number].blocks[0]))
                    left -= 1
            if not left:
                break
        pending += inside[::-1]


def _resource(ir: Any, context: Any, tensor: Tensor, type_: Any) -> Any:
    """Return a constant as a resource, which lives as long as the context."""
    data = tensor.data
    assert data is not None
    # Data that is not aligned (in a file it may not be) is copied.
    buffer: Any = data.buffer
    alignment = resource_alignment(data.dtype)
    raw = np.frombuffer(buffer, np.uint8)
    if raw.__array_interface__["data"][0] % alignment:
        buffer = raw.copy()
    return ir.DenseResourceElementsAttr.get_from_buffer(
        buffer,
        tensor.name or UNNAMED_RESOURCE,
        type_,
        alignment=alignment,
        is_mutable=False,
        context=context,
    )
