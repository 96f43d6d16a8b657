"""The jobs of measured processes, for our package and for the peer's Python builder.

    python benchmarks/jobs.py export IN.mlirbc OUT.tosa
    python benchmarks/jobs.py export-module IN.mlirbc OUT.tosa
    python benchmarks/jobs.py import IN.tosa
    python benchmarks/jobs.py export-many FOLDER OUT
    python benchmarks/jobs.py build-ours|build-peer OPERATORS OUT.tosa
    python benchmarks/jobs.py export-phases|import-phases|import-memory|export-memory IN [OUT]
    python benchmarks/jobs.py progress IN.tosa OUT.tosa
    python benchmarks/jobs.py same ONE.tosa OTHER.tosa
    python benchmarks/jobs.py torch-mlir FILE.py:FUNCTION OUT.mlir
    python benchmarks/jobs.py torch-mlir-onnx IN.onnx OUT.mlir

Jobs that measure something print it as JSON. Imports are inside the jobs, so
that a job takes the time of its own imports only.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def memory(*keys: str) -> list[int]:
    """Figures of this process's memory, in bytes: VmRSS, VmHWM, RssAnon, RssFile, RssShmem."""
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return [int(rows[key].split()[0]) * 1024 for key in keys]


def parsed(path: str) -> Any:
    """Return the module in a file, in a fresh context of the default bindings."""
    from tosa_convert.formats.bindings.packages import default_bindings

    bindings = default_bindings()
    return bindings.ir.Module.parseFile(path, bindings.new_context())


def export(source: str, target: str) -> None:
    """MLIR bytecode -> .tosa, from file to file."""
    import tosa_convert as tc

    tc.save(tc.load(source), target)


def export_module(source: str, target: str) -> None:
    """The same export of a module in memory, as a frontend has it."""
    import tosa_convert as tc

    tc.export_tosa_func_to_flatbuffer(parsed(source), target)


def import_(source: str) -> None:
    """.tosa -> module in memory."""
    import tosa_convert as tc

    tc.import_tosa_func_from_flatbuffer(source)


def export_many(folder: str, target: str) -> None:
    """Every file of a folder, in one process and one context."""
    import tosa_convert as tc
    from tosa_convert.formats.bindings.packages import default_bindings

    bindings = default_bindings()
    context = bindings.new_context()
    Path(target).mkdir(exist_ok=True)
    for path in sorted(Path(folder).iterdir()):
        module = bindings.ir.Module.parseFile(str(path), context)
        tc.export_tosa_func_to_flatbuffer(module, Path(target, path.name).with_suffix(".tosa"))


def build_ours(count: str, target: str) -> None:
    """A chain of operators made by Python calls on our Graph, then written."""
    import tosa_convert as tc
    from tosa_convert.graph import Block, Graph, Operator, Region, Tensor, Version, dtype, operator

    tanh, fp32 = operator("TANH"), dtype("FP32")
    block = Block("main", ["in"])
    block.tensors["in"] = Tensor("in", fp32, (4, 4))
    value = "in"
    for index in range(int(count)):
        result = f"t{index}"
        block.tensors[result] = Tensor(result, fp32, (4, 4))
        block.operators.append(Operator(tanh, (value,), (result,)))
        value = result
    block.outputs.append(value)
    tc.save(Graph(Version(1, 0), [Region("main", [block])]), target)


def build_peer(count: str, target: str) -> None:
    """The same chain made with `tosa_serializer`."""
    import tosa_serializer as ts

    serializer = ts.TosaSerializer()
    block = serializer.currRegion.basicBlocks[0]
    shape, kind = [4, 4], ts.DType.FP32
    value = "in"
    attribute = ts.TosaSerializerAttribute()
    attribute.TanhAttribute()
    block.addTensor(value, shape, kind)
    block.addInput(value)
    for index in range(int(count)):
        result = f"t{index}"
        block.addTensor(result, shape, kind)
        block.addOperator(ts.Op.TANH, [value], [result], attribute)
        value = result
    block.addOutput(value)
    Path(target).write_bytes(serializer.serialize())


class Phases:
    """Seconds of processor time and their names: other load on the machine does not count."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, work: Any) -> Any:
        started = time.process_time()
        result = work()
        self.seconds[name] = time.process_time() - started
        return result


def export_phases(source: str, target: str) -> dict[str, float]:
    """Return the time of each phase of an export, in seconds."""
    from tosa_convert import api
    from tosa_convert.formats.bindings.modules import bytecode_of
    from tosa_convert.formats.bindings.packages import default_bindings
    from tosa_convert.formats.flatbuffer.write import plan
    from tosa_convert.formats.mlir.read.module import read_module
    from tosa_convert.graph.verify import verify
    from tosa_convert.io.files import replace_file

    bindings = default_bindings()  # imported before the clock starts
    gc.disable()
    phase = Phases()
    module = phase("MLIR: parse and verify", lambda: parsed(source))
    # An export of a module includes this.
    phase("MLIR: verify again", module.operation.verify)
    graph = phase("read the module", lambda: read_module(bytecode_of(bindings, module.operation)))
    graph = phase("stamp the version", lambda: api.stamp(graph))
    if phase("check the graph", lambda: verify(graph)):
        raise SystemExit("the graph is not sound")
    planned = phase("lay out the file", lambda: plan(graph, api.producer()))
    phase("write it", lambda: replace_file(target, planned.pieces()))
    return phase.seconds


def import_phases(source: str) -> dict[str, float]:
    """Return the time of each phase of an import, in seconds."""
    import tosa_convert as tc
    from tosa_convert.formats.bindings.modules import write
    from tosa_convert.formats.bindings.packages import default_bindings
    from tosa_convert.formats.flatbuffer import read as _read
    from tosa_convert.graph.verify import verify

    assert _read
    gc.disable()
    phase = Phases()
    bindings = default_bindings()
    graph = phase("map and check the file", lambda: tc.load(source))
    phase("check the graph", lambda: verify(graph))
    context = bindings.new_context()
    module = phase(
        "build the module (both checks included)", lambda: write(graph, bindings, context)
    )
    phase("MLIR: verify", module.operation.verify)
    return phase.seconds


def export_memory(source: str, target: str) -> dict[str, int]:
    """Resident memory once the module is parsed, and the most while it is exported, in bytes."""
    import tosa_convert as tc
    from tosa_convert.formats.bindings import modules as _read
    from tosa_convert.formats.flatbuffer import write as _write

    assert _write
    assert _read
    module = parsed(source)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of parsing
    before, before_anonymous = memory("VmRSS", "RssAnon")
    tc.export_tosa_func_to_flatbuffer(module, target)
    peak, after_anonymous = memory("VmHWM", "RssAnon")
    return {
        "parsed": before,
        "peak": peak,
        "anonymous_before": before_anonymous,
        "anonymous_after": after_anonymous,
    }


def import_memory(source: str) -> dict[str, int]:
    """Return the growth of resident memory during an import, by kind of page, in bytes."""
    import tosa_convert as tc
    from tosa_convert.formats.bindings import modules as _write
    from tosa_convert.formats.bindings.packages import default_bindings

    assert _write
    context = default_bindings().new_context()
    keys = ("RssAnon", "RssFile", "RssShmem")
    before = memory(*keys)
    module = tc.import_tosa_func_from_flatbuffer(source, context=context)
    grown = [after - was for after, was in zip(memory(*keys), before, strict=True)]
    assert module
    return dict(zip(("anonymous", "file", "shared"), grown, strict=True))


def progress(source: str, target: str, writes: int = 8) -> dict[str, float]:
    """Seconds that writes with a progress bar on a terminal take, and how many of them the bar takes.

    Several writes under one bar, as if they were one: no bar is shown in the first second.
    """
    import contextlib
    import os

    import tosa_convert as tc
    from tosa_convert.cli.messages import ProgressDisplay

    graph = tc.load(source)
    total = writes * sum(data.nbytes for _, data in graph.constants())
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    os.dup2(theirs, 2)
    spent = 0.0
    before = 0

    def tell(done: int) -> None:
        nonlocal spent
        entered = time.perf_counter()
        bar(before + done)
        spent += time.perf_counter() - entered
        # A terminal's output has to be read. Not in a thread, which the bar would wait for.
        with contextlib.suppress(BlockingIOError):
            os.read(ours, 1 << 16)

    started = time.perf_counter()
    with ProgressDisplay(target, total) as bar:
        for number in range(writes):
            before = number * total // writes
            tc.save(graph, target, progress=tell)
        drawn = bar.bar is not None
        last = time.perf_counter()
    ended = time.perf_counter()
    assert drawn or ended - started < 1, "no bar was drawn"
    return {"writing": ended - started, "the bar": spent + ended - last}


def same(one: str, other: str) -> dict[str, str]:
    """Return whether two files hold the same program, bit for bit; the difference, or ""."""
    import tosa_convert as tc

    difference = tc.compare(tc.load(one), tc.load(other))
    return {"difference": "" if difference is None else str(difference)}


def torch_mlir(model: str, *rest: str) -> None:
    """Lower a torch model to TOSA as MLIR bytecode, by torch-mlir's own pipeline."""
    import importlib.util

    from torch_mlir import fx

    if model.startswith("timm:"):
        import timm
        import torch

        made = timm.create_model(model.removeprefix("timm:")).eval()
        size = made.default_cfg["input_size"]
        arguments: tuple[Any, ...] = (torch.zeros(1, *size),)
    else:
        path, _, function = model.rpartition(":")
        sys.path.insert(0, str(Path(path).parent))
        specification = importlib.util.spec_from_file_location("model", path)
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        made, arguments = getattr(module, function)()[:2]
    with open(rest[-1], "wb") as file:
        lowered = fx.export_and_import(made, *arguments, output_type="tosa")
        lowered.operation.write_bytecode(file)


def torch_mlir_onnx(source: str, target: str) -> None:
    """Lower an ONNX model to TOSA as MLIR bytecode, by torch-mlir's own pipeline."""
    import onnx
    from torch_mlir import ir
    from torch_mlir.compiler_utils import OutputType, lower_mlir_module
    from torch_mlir.dialects import torch as dialect
    from torch_mlir.extras import onnx_importer
    from torch_mlir.passmanager import PassManager

    model = onnx.shape_inference.infer_shapes(onnx.load(source), data_prop=True)
    with ir.Context() as context:
        dialect.register_dialect(context)
        info = onnx_importer.ModelInfo(model)
        module = info.create_module(context=context).operation
        onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
        passes = "func.func(convert-torch-onnx-to-torch),torch-function-to-torch-backend-pipeline"
        PassManager.parse(f"builtin.module({passes})").run(module)
        lowered = lower_mlir_module(False, OutputType.TOSA, module)
        with open(target, "wb") as file:
            lowered.operation.write_bytecode(file)


JOBS: dict[str, Callable[..., object]] = {
    "export": export,
    "export-module": export_module,
    "import": import_,
    "export-many": export_many,
    "build-ours": build_ours,
    "build-peer": build_peer,
    "export-phases": export_phases,
    "import-phases": import_phases,
    "export-memory": export_memory,
    "import-memory": import_memory,
    "progress": progress,
    "same": same,
    "torch-mlir": torch_mlir,
    "torch-mlir-onnx": torch_mlir_onnx,
}

if __name__ == "__main__":
    found = JOBS[sys.argv[1]](*sys.argv[2:])
    if found is not None:
        print(json.dumps(found))
