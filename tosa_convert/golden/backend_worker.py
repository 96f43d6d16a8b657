"""Run a model with third-party software, in a process of its own because the software may crash.

    python backend_worker.py SOFTWARE MODEL

The working folder has the inputs as in0.npy, in1.npy, ... in the model's order; it gets out0.npy,
out1.npy, ... and, if the software gives them, the results of its own operators as step0.npy,
step1.npy, ... in running order, each written before the next is fetched. The script needs only numpy
and the software, so any Python that has both can run it.
"""

import os
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

Arrays = Iterable[Any]


def _iree(model: str, inputs: list[Any]) -> tuple[Arrays, Arrays]:
    import iree.compiler as compiler
    import iree.runtime as runtime

    try:
        binary = compiler.compile_file(
            model,
            input_type="tosa",
            target_backends=["llvm-cpu"],
            # The default limit is for embedded targets; a host's threads have megabytes of stack.
            extra_args=[
                "--iree-llvmcpu-target-cpu=host",
                "--iree-llvmcpu-stack-allocation-limit=4194304",
            ],
        )
    except compiler.CompilerToolError as error:
        lines = [line for line in str(error).splitlines() if "error:" in line]
        raise SystemExit(
            "IREE cannot compile the model: " + " / ".join(lines[:3] or [str(error)[:500]])
        ) from None
    config = runtime.Config("local-task")
    context = runtime.SystemContext(config=config)
    loaded = runtime.VmModule.copy_buffer(config.vm_instance, binary)
    context.add_vm_module(loaded)
    # One function has the program's name; the others are IREE's own.
    (name,) = [name for name in loaded.function_names if not name.startswith("__")]
    results = context.modules[loaded.name][name](*inputs)
    results = results if isinstance(results, (list, tuple)) else [results]
    return [np.asarray(result.to_host()) for result in results], []


def _tflite(model: str, inputs: list[Any]) -> tuple[Arrays, Arrays]:
    import importlib

    try:
        tflite = importlib.import_module("ai_edge_litert.interpreter")
    except ImportError:
        tflite = importlib.import_module("tensorflow.lite.python.interpreter")
    reference = tflite.OpResolverType.BUILTIN_REF
    machine = tflite.Interpreter(
        model, experimental_op_resolver_type=reference, experimental_preserve_all_tensors=True
    )
    details = machine.get_input_details()
    if len(details) != len(inputs):
        raise SystemExit(f"the TFLite model has {len(details)} inputs, the TOSA one {len(inputs)}")
    for row, array in zip(details, inputs, strict=True):
        if tuple(row["shape"]) != array.shape:
            machine.resize_tensor_input(row["index"], array.shape)
    machine.allocate_tensors()
    for row, array in zip(details, inputs, strict=True):
        machine.set_tensor(row["index"], array)
    machine.invoke()
    outputs = (machine.get_tensor(row["index"]) for row in machine.get_output_details())
    rows = machine._get_ops_details()
    steps = (machine.get_tensor(index) for row in rows for index in row["outputs"])
    return outputs, steps


def _torch(model: str, inputs: list[Any]) -> tuple[Arrays, Arrays]:
    import importlib.util

    import torch

    path, _, name = model.rpartition(":")
    if path and path.endswith(".py"):
        spec = importlib.util.spec_from_file_location("eager_model", path)
        if spec is None or spec.loader is None:
            raise SystemExit(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        spec.loader.exec_module(module)
        eager = getattr(module, name)
        if not isinstance(eager, torch.nn.Module):
            eager = eager()
    else:
        eager = torch.export.load(model).module()
    with torch.no_grad():
        results = eager(*(torch.from_numpy(array) for array in inputs))
    results = results if isinstance(results, (list, tuple)) else [results]
    return [result.detach().numpy() for result in results], []


def _save(prefix: str, arrays: Arrays) -> None:
    for number, array in enumerate(arrays):
        np.save(f"{prefix}{number}.npy", array)


def main() -> None:
    software, model = sys.argv[1:]
    inputs: list[Any] = []
    while os.path.exists(path := f"in{len(inputs)}.npy"):
        inputs.append(np.load(path, allow_pickle=False))
    runners = {"iree": _iree, "tflite": _tflite, "torch": _torch}
    try:
        outputs, steps = runners[software](model, inputs)
        _save("out", outputs)
        _save("step", steps)
    except ImportError as error:
        print(error, file=sys.stderr)
        raise SystemExit(3) from None


if __name__ == "__main__":
    main()
