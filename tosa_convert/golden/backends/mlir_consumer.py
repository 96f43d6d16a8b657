"""Run passes of MLIR on a program, or compile and run it, in a Python that has numpy and torch-mlir.

It is a backend as a Python file is: `names.json` beside `model.mlir` has the passes as `pipeline`.
"""

import ctypes
import json
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.passmanager import PassManager

#: The pipeline that lowers TOSA, then what MLIR needs to run the result on this processor.
_LOWERING = "builtin.module(tosa-to-linalg-pipeline)"
_TO_LLVM = """builtin.module(
    func.func(tosa-to-arith{include-apply-rescale=true},tosa-to-tensor,tosa-to-scf),
    canonicalize,one-shot-bufferize{bufferize-function-boundaries
    function-boundary-type-conversion=identity-layout-map},
    buffer-results-to-out-params{modify-public-functions=true},
    convert-linalg-to-loops,expand-strided-metadata,lower-affine,convert-scf-to-cf,
    convert-math-to-llvm,convert-math-to-libm,
    arith-expand,convert-arith-to-llvm,
    finalize-memref-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,convert-index-to-llvm,
    reconcile-unrealized-casts)"""
#: Element types whose arrays numpy has in memory as LLVM has.
_TYPES = ("i1", "i8", "i16", "i32", "i64", "f16", "f32")


def run(model: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Write `program.mlir` after the passes; or, for the pipeline `run`, return the outputs."""
    with open("names.json", encoding="utf-8") as file:
        names = json.load(file)
    with open("model.mlir", encoding="utf-8") as file:
        text = file.read()
    with ir.Context():
        module = _done(lambda: ir.Module.parse(text))
        if names["pipeline"] != "run":
            _done(lambda: PassManager.parse(names["pipeline"]).run(module.operation))
            with open("program.mlir", "w", encoding="utf-8") as file:
                file.write(str(module))
            return {}
        (function,) = (op for op in module.body.operations if op.OPERATION_NAME == "func.func")
        kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        results = [ir.RankedTensorType(one) for one in kind.results]
        kinds = [str(one.element_type) for one in results]
        taken = [str(ir.RankedTensorType(one).element_type) for one in kind.inputs]
        if unknown := {*kinds, *taken} - {*_TYPES}:
            raise NotImplementedError(f"no tensors of {', '.join(sorted(unknown))}")
        if "bf16" in text:  # LLVM calls a library for its roundings
            raise NotImplementedError("no bfloat16")
        function.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
        name = ir.StringAttr(function.attributes["sym_name"]).value
        _done(lambda: PassManager.parse(_LOWERING).run(module.operation))
        _done(lambda: PassManager.parse(_TO_LLVM).run(module.operation))
        engine = _done(lambda: ExecutionEngine(module, opt_level=2))
        given = [np.ascontiguousarray(array) for array in inputs.values()]
        outputs = [np.zeros(one.shape, _bits(str(one.element_type))) for one in results]
        engine.raw_register_runtime("memrefCopy", ctypes.cast(_MEMREF_COPY, ctypes.c_void_p))
        engine.invoke(name, *(_pointer(array) for array in (*given, *outputs)))
    views = {"i1": "bool", "f16": "float16", "f32": "float32"}
    return {
        key: array.view(views.get(kind, array.dtype))
        for key, array, kind in zip(names["results"], outputs, kinds, strict=True)
    }


def _done(step: Any) -> Any:
    """Return the result of a step; an error that MLIR reports is a refusal."""
    try:
        return step()
    except (RuntimeError, ValueError, ir.MLIRError) as error:
        raise NotImplementedError(" / ".join(str(error).split("\n")[:6])) from None


def _bits(kind: str) -> str:
    return "i1" if kind == "i1" else f"i{int(kind.strip('ibf')) // 8}"


def _pointer(array: Any) -> Any:
    """Return a pointer to a pointer to the descriptor of an array."""
    rank = array.ndim
    numbers = [array.ctypes.data, array.ctypes.data, 0, *array.shape]
    numbers += [stride // array.itemsize for stride in array.strides]
    descriptor = (ctypes.c_int64 * (3 + 2 * rank))(*numbers)
    return ctypes.pointer(ctypes.pointer(descriptor))


class _Unranked(ctypes.Structure):
    _fields_ = (("rank", ctypes.c_int64), ("descriptor", ctypes.POINTER(ctypes.c_int64)))


def _copy(size: int, source: Any, target: Any) -> None:
    """Copy elements between two descriptors, as MLIR's runtime library does."""
    _view(size, target[0])[...] = _view(size, source[0])


def _view(size: int, unranked: Any) -> Any:
    rank = unranked.rank
    fields = [unranked.descriptor[i] for i in range(3 + 2 * rank)]
    shape, strides = fields[3 : 3 + rank], fields[3 + rank :]
    last = sum((count - 1) * step for count, step in zip(shape, strides, strict=True))
    if 0 in shape:
        return np.zeros(shape, f"V{size}")
    start = fields[1] + fields[2] * size
    memory = (ctypes.c_char * ((last + 1) * size)).from_address(start)
    array = np.frombuffer(memory, f"V{size}")
    return np.lib.stride_tricks.as_strided(array, shape, [step * size for step in strides])


_COPY_TYPE = ctypes.CFUNCTYPE(
    None, ctypes.c_int64, ctypes.POINTER(_Unranked), ctypes.POINTER(_Unranked)
)
_MEMREF_COPY = _COPY_TYPE(_copy)
