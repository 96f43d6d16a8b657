"""Runs a module of StableHLO: with its interpreter, or with XLA where that is not possible.

The converter writes a copy of this file beside the module. The interpreter of jaxlib is the reference
of StableHLO's specification. It evaluates one number after the other, in a process of its own: at an
operation that it does not know it ends its process. So

    python run_module.py FOLDER

evaluates the module there on in0.npy, in1.npy, ... and writes out0.npy, ...
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
from jax.extend.backend import get_backend
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters.mlir import make_ir_context
from jaxlib import _jax, xla_client

#: Files beside this one: the module as a portable artifact, and the types of its arguments.
MODULE_FILE: Final = "module.mlirbc"
ARGUMENTS_FILE: Final = "arguments.json"
#: A file beside this one if the module is the arithmetic of a module with quantised types.
REPLACED_FILE: Final = "replaced"
#: Steps of XLA's estimate up to which the interpreter runs, which takes half a microsecond for one.
_MOST_STEPS: Final = 20_000_000
#: Seconds that it gets, since loops are estimated as one turn.
_SECONDS: Final = 60
_FAILED: Final = "LLVM ERROR: "


def module() -> tuple[Callable[..., Any], list[Any]]:
    """Return the module as a function of arrays, and the types and shapes that it takes."""
    jax.config.update("jax_enable_x64", True)
    folder = Path(__file__).parent
    rows = json.loads((folder / ARGUMENTS_FILE).read_text(encoding="utf-8"))
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in rows]
    return _Module(folder), arguments


class _Module:
    """Call a module of StableHLO with arrays.

    note: after a call, what computed the results, and why it was not the interpreter.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.note = ""

    def __call__(self, *arrays: Any) -> list[Any]:
        compiled = self._compiled()
        try:
            results = self._interpreted(compiled, [np.asarray(array) for array in arrays])
            self.note = "compared with StableHLO's interpreter, which is in jaxlib"
        except _NotInterpreted as reason:
            made = compiled.execute_sharded([jax.device_put(array) for array in arrays])
            results = [parts[0] for parts in made.disassemble_into_single_device_arrays()]
            self.note = f"compared with XLA, not with StableHLO's interpreter: {reason}"
        return results

    def _compiled(self) -> Any:
        client = get_backend("cpu")
        devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
        data = (self.folder / MODULE_FILE).read_bytes()
        return client.compile_and_load(data, devices, xla_client.CompileOptions())

    def _interpreted(self, compiled: Any, arrays: Sequence[Any]) -> list[Any]:
        if (self.folder / REPLACED_FILE).exists():
            raise _NotInterpreted("it does not know quantised types")
        costs = compiled.cost_analysis()
        steps = costs.get("flops", 0) + costs.get("transcendentals", 0)
        steps += costs.get("bytes accessed", 0) / 4
        if steps > _MOST_STEPS:
            raise _NotInterpreted(f"the module is too large for it, about {steps:.0e} steps")
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            for number, array in enumerate(arrays):
                np.save(folder / f"in{number}.npy", array)
            data = (self.folder / MODULE_FILE).read_bytes()
            (folder / MODULE_FILE).write_bytes(data)
            command = [sys.executable, __file__, str(folder)]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=_SECONDS, check=False
                )
            except subprocess.TimeoutExpired:
                raise _NotInterpreted(f"it takes more than {_SECONDS} s") from None
            if done.returncode:
                said = done.stderr.partition(_FAILED)[2] or done.stderr.strip().rpartition("\n")[2]
                raise _NotInterpreted(said.partition("\n")[0].partition(". However")[0][:200])
            return [np.load(path) for path in _numbered(folder, "out")]


class _NotInterpreted(Exception):
    """The interpreter does not evaluate a module, and why."""


def evaluate(read: Callable[[Any], Any], arrays: Sequence[Any]) -> list[Any]:
    """Evaluate @main with the interpreter, which ends the process at an unknown operation."""
    with make_ir_context() as context, ir.Location.unknown():
        stablehlo.register_interpreter_dialect(context)
        made = read(context)
        main = next(row for row in made.body.operations if ir.StringAttr(row.name).value == "main")
        kinds = ir.FunctionType(main.type).inputs
        given = [_attribute(*pair) for pair in zip(arrays, kinds, strict=True)]
        return [_array(value) for value in stablehlo.eval_module(made, given)]


def _attribute(array: Any, kind: Any) -> Any:
    """Return an array as a constant of a type, which has its elements."""
    array = np.asarray(array, order="C")
    if array.dtype == np.bool_:
        element = ir.IntegerType.get_signless(1)
        return ir.DenseElementsAttr.get(array, type=element, shape=array.shape)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"values of the type {kind} are not handed to it")
    return ir.DenseElementsAttr.get(array, type=kind)


def _array(value: Any) -> Any:
    """Return the elements of a constant."""
    shape = ir.RankedTensorType(value.type).shape
    if str(ir.RankedTensorType(value.type).element_type) == "i1":
        return np.array(list(value), np.bool_).reshape(shape)
    return np.array(value).reshape(shape)


def _numbered(folder: Path, prefix: str) -> list[Path]:
    count = len(list(folder.glob(f"{prefix}*.npy")))
    return [folder / f"{prefix}{number}.npy" for number in range(count)]


def main() -> None:
    folder = Path(sys.argv[1])
    data = (folder / MODULE_FILE).read_bytes()
    arrays = [np.load(path) for path in _numbered(folder, "in")]
    try:
        found = evaluate(
            lambda context: stablehlo.deserialize_portable_artifact(context, data), arrays
        )
    except ValueError as error:
        raise SystemExit(str(error)) from None
    for number, array in enumerate(found):
        np.save(folder / f"out{number}.npy", array)


if __name__ == "__main__":
    main()
