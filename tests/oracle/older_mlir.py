"""Parse, verify and print modules with the MLIR of an older package; run by `compare_older_releases`.

    PYTHON older_mlir.py IN OUT < NAMES              # the package iree.compiler of that Python
    python older_mlir.py IN OUT LIBRARY < NAMES      # the C functions of a shared library

NAMES are those of files in the folder IN, one on each line. For each, its name and the error, if there
is one, are printed at once, since MLIR may crash; the module goes to OUT in generic form. Uses only the
standard library.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Parse = Callable[[bytes], str]


def with_bindings() -> Parse:
    """Parsing with the bindings of this Python."""
    from iree.compiler import ir  # type: ignore[import-not-found, unused-ignore]

    def parse(data: bytes) -> str:
        with ir.Context() as context:
            context.allow_unregistered_dialects = False
            module = ir.Module.parse(data)
            if not module.operation.verify():
                raise ValueError("the module is not valid")
            return str(module.operation.get_asm(print_generic_op_form=True))

    return parse


class _Text(ctypes.Structure):
    _fields_ = (("data", ctypes.c_char_p), ("length", ctypes.c_size_t))


class _Handle(ctypes.Structure):
    _fields_ = (("pointer", ctypes.c_void_p),)


_Written = ctypes.CFUNCTYPE(None, _Text, ctypes.c_void_p)
_Reported = ctypes.CFUNCTYPE(ctypes.c_int8, _Handle, ctypes.c_void_p)


def with_library(path: str) -> Parse:
    """Parsing with the C functions of a library."""
    library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)

    def function(name: str, result: Any, *arguments: Any) -> Any:
        found = getattr(library, name)
        found.restype, found.argtypes = result, arguments
        return found

    context = function("mlirContextCreate", _Handle)()
    function("ireeCompilerRegisterAllDialects", None, _Handle)(context)
    create = function("mlirModuleCreateParse", _Handle, _Handle, _Text)
    operation_of = function("mlirModuleGetOperation", _Handle, _Handle)
    destroy = function("mlirModuleDestroy", None, _Handle)
    verify = function("mlirOperationVerify", ctypes.c_bool, _Handle)
    flags = function("mlirOpPrintingFlagsCreate", _Handle)()
    function("mlirOpPrintingFlagsPrintGenericOpForm", None, _Handle)(flags)
    write = function(
        "mlirOperationPrintWithFlags", None, _Handle, _Handle, _Written, ctypes.c_void_p
    )
    show = function("mlirDiagnosticPrint", None, _Handle, _Written, ctypes.c_void_p)
    attach = function(
        "mlirContextAttachDiagnosticHandler", ctypes.c_uint64,
        _Handle, _Reported, ctypes.c_void_p, ctypes.c_void_p,
    )  # fmt: skip
    reported: list[str] = []

    def note(diagnostic: Any, _: Any) -> int:
        reported.append(printed(lambda each: show(diagnostic, each, None)))
        return 1

    def printed(call: Callable[[Any], object]) -> str:
        pieces: list[bytes] = []
        call(_Written(lambda text, _: pieces.append(ctypes.string_at(text.data, text.length))))
        return b"".join(pieces).decode()

    report = _Reported(note)
    attach(context, report, None, None)

    def parse(data: bytes) -> str:
        reported.clear()
        module = create(context, _Text(data, len(data)))
        if not module.pointer:
            raise ValueError(" ".join(reported) or "it is not parsed")
        operation = operation_of(module)
        if not verify(operation):
            raise ValueError(" ".join(reported) or "the module is not valid")
        text = printed(lambda each: write(operation, flags, each, None))
        destroy(module)
        return text

    return parse


def main(source: Path, target: Path, library: str = "") -> None:
    """Parse the files whose names are on standard input."""
    parse = with_library(library) if library else with_bindings()
    for line in sys.stdin:
        name = line.rstrip("\n")
        try:
            (target / name).write_text(parse((source / name).read_bytes()), encoding="utf-8")
            problem = ""
        except Exception as error:
            problem = " ".join(str(error).split()) or type(error).__name__
        print(name, problem, sep="\t", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
