"""The types that type checkers find for the public functions. This file is checked and never run.

After `reveal_type(x)`, the comment `reveals T` says which type both checkers find, without the names of
modules. A comment `error: why` says that both report an error on its line; they report no others.
"""

from __future__ import annotations

import io
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tosa_convert as tc


def load(
    path: Path,
    data: bytes,
    anything: os.PathLike[str],
    array: npt.NDArray[np.uint8],
    mapped: mmap.mmap,
) -> None:
    reveal_type(tc.load(path))  # reveals Graph
    reveal_type(tc.load("m.tosa", func="main", names="generate"))  # reveals Graph
    reveal_type(tc.load(data))  # reveals Graph
    tc.load(bytearray(data))
    tc.load(memoryview(data))
    tc.load(anything)
    tc.load("m.mlir", narrow=["i64"], input_shapes={"x": (1, 2)})
    tc.load(io.BytesIO(data))
    tc.load(open("m.tosa", "rb"))  # noqa: SIM115
    tc.load(array)
    tc.load(mapped)
    tc.load(data, copy=True, limits={"input-bytes": 1})
    tc.load(data, limits=tc.Limits(input_bytes=1))
    tc.load("m.mlir", narrow="i64")
    tc.load(3)  # error: neither a path nor bytes
    tc.load(open("m.mlir"))  # error: a file in text mode  # noqa: SIM115
    tc.load()  # error: there must be a source
    tc.load("m.tosa", "main")  # error: options are keywords
    tc.load("m.tosa", names="keep")  # error: not one of the choices
    tc.load("m.tosa", name="retain")  # error: no such option
    tc.load("m.tosa", input_shapes={"x": "1x2"})  # error: sizes are integers


def save(graph: tc.Graph, path: Path) -> None:
    reveal_type(tc.save(graph, path))  # reveals None
    tc.save(graph, "m.json", to="json", weights="npy", names="generate", verify=True)
    tc.save(graph, path, progress=print)
    tc.save(graph)  # error: there must be a path
    tc.save(path, graph)  # error: the graph comes first
    tc.save(graph, path, to="onnx")  # error: not a format
    tc.save(graph, path, weights="beside")  # error: not one of the choices
    tc.save(graph, path, progress=lambda: None)  # error: it is called with a number


def dumps(graph: tc.Graph) -> None:
    reveal_type(tc.dumps(graph))  # reveals bytes
    reveal_type(tc.dumps(graph, "json", verify=True))  # reveals bytes
    tc.dumps(graph, "onnx")  # error: not a format
    tc.dumps("m.tosa")  # error: a graph, not a path


def modules(graph: tc.Graph, module: Any) -> None:
    reveal_type(tc.to_module(graph))  # reveals Any
    tc.to_module(graph, module, names="generate", constants="dense")
    reveal_type(tc.from_module(module, func="main"))  # reveals Graph
    tc.from_module(module, "main")  # error: options are keywords


def weights(graph: tc.Graph, path: Path) -> None:
    reveal_type(tc.export_weights(graph, path, larger_than=16))  # reveals int
    reveal_type(tc.import_weights(graph, path, accept_changed_weights=True))  # reveals Graph
    reveal_type(tc.strip_weights(graph))  # reveals Graph


def parts(graph: tc.Graph) -> None:
    reveal_type(tc.extract(graph, ["y"], ["x"]))  # reveals Graph
    reveal_type(tc.rename(graph, ["x"], output_names=["y"]))  # reveals Graph
    rewritten, changes = tc.rewrites.apply(graph, "repair")
    reveal_type(rewritten)  # reveals Graph
    reveal_type(changes.count("pow-by-constant"))  # reveals int


def golden(graph: tc.Graph, folder: Path) -> None:
    reveal_type(tc.run(graph, random=1))  # reveals Result
    tc.run("m.mlir", precise=True, level="8k", engine="numpy", narrow="i64", func="main")
    tc.run(graph, engine="torch")  # error: no such engine
    tc.check("m.mlir", "iree", narrow="i64", input_shapes={"x": (1, 2)})
    tc.check("m.mlir", "iree", narow="i64")  # error: no such option
    reveal_type(tc.check(graph, "iree").to_dict())  # reveals dict[str, Any]
    reveal_type(tc.check(graph, "iree", random=1).ok)  # reveals bool
    reveal_type(tc.bisect(graph, "iree", random=1))  # reveals Bisection
    reveal_type(tc.reduce(graph, "false", folder))  # reveals Reduction
    reveal_type(tc.generate(seed=1, operators=3))  # reveals Graph
    reveal_type(tc.golden.generate(seed=1, operators=3))  # reveals Graph
    tc.generate(1, 3, level="none")
    tc.generate(1, 3, level="4k")  # error: no such level


def export(module: Any, path: Path, maybe: Path | None) -> None:
    reveal_type(tc.export_tosa_func_to_flatbuffer(module))  # reveals bytes
    reveal_type(tc.export_tosa_func_to_flatbuffer(module, None))  # reveals bytes
    reveal_type(tc.export_tosa_func_to_flatbuffer(module, path))  # reveals None
    reveal_type(tc.export_tosa_func_to_flatbuffer(module, "m.tosa"))  # reveals None
    reveal_type(tc.export_tosa_func_to_flatbuffer(module, maybe))  # reveals bytes | None
    tc.export_tosa_func_to_flatbuffer(module, path, tosa_version="1.1", to="json")
    tc.export_tosa_func_to_flatbuffer(module, b"m.tosa", input_names=["x"], output_names=("y",))
    tc.export_tosa_func_to_flatbuffer(module, progress=print)  # error: needs a path
    tc.export_tosa_func_to_flatbuffer(module, tosa_version="2.0")  # error: not a version we write
    tc.export_tosa_func_to_flatbuffer(module, path, to="mlir")  # error: not a flatbuffer
    tc.export_tosa_func_to_flatbuffer(module, names="mine")  # error: not one of the choices
    tc.export_tosa_func_to_flatbuffer()  # error: there must be a module


def import_(path: Path, data: bytes) -> None:
    reveal_type(tc.import_tosa_func_from_flatbuffer(path))  # reveals Any
    tc.import_tosa_func_from_flatbuffer(data, names="generate", constants="resource")
    tc.import_tosa_func_from_flatbuffer(data, constants="lazy")  # error: not one of the choices
    tc.import_tosa_func_from_flatbuffer(data, 3)  # error: options are keywords


def verify(graph: tc.Graph) -> None:
    reveal_type(tc.verify(graph))  # reveals list[Finding]
    for finding in tc.verify(graph):
        reveal_type(finding.code)  # reveals str
        reveal_type(finding.where)  # reveals str
        finding.code = "x"  # error: findings do not change
    tc.verify("m.tosa")  # error: a graph, not a path


def validate(graph: tc.Graph) -> None:
    reveal_type(tc.validate(graph))  # reveals list[Finding]
    tc.validate(graph, profile=["PRO-INT", "EXT-INT16"], level="8k", for_reader="vela")
    tc.validate(graph, profile="PRO-INT")
    tc.validate(graph, profile="PRO-XX")  # error: no such profile
    tc.validate(graph, profile=["EXT-XX"])  # error: no such extension
    tc.validate(graph, level="16k")  # error: no such level
    tc.validate(graph, "PRO-INT")  # error: targets are keywords
    tc.validate("m.tosa")  # error: a graph, not a path


def summarize(graph: tc.Graph) -> None:
    reveal_type(tc.summarize(graph))  # reveals Summary
    reveal_type(tc.summarize(graph).work)  # reveals Amount
    tc.summarize("m.tosa")  # error: a graph, not a path


def report(graph: tc.Graph) -> None:
    reveal_type(tc.report(graph, to="svg"))  # reveals Report
    drawn: str = tc.report(graph, to="dot")
    print(drawn)
    tc.report(graph, to="png")  # error: no such form


def compare(graph: tc.Graph) -> None:
    difference = tc.compare(graph, graph, names=False, locations=True)
    reveal_type(difference is None)  # reveals bool
    if difference is not None:
        reveal_type(difference.path)  # reveals str
    tc.compare(graph)  # error: two graphs


def diff(graph: tc.Graph) -> None:
    found: tc.Diff = tc.diff(graph, graph, names=True, locations=True, order=False, version=False)
    reveal_type(found)  # reveals Diff
    for change in found:
        reveal_type(change.kind == "added")  # reveals bool
        reveal_type(change.left)  # reveals Item | None
    found.changes = ()  # error: differences do not change
    tc.diff(graph)  # error: two graphs
    tc.diff(graph, graph, True)  # error: options are keywords


def models(path: Path) -> None:
    reveal_type(tc.frontends.from_tflite(path))  # reveals Graph
    reveal_type(tc.frontends.from_onnx("m.onnx"))  # reveals Graph
    tc.frontends.from_onnx()  # error: there must be a path


def graphs(graph: tc.Graph) -> None:
    reveal_type(graph.regions)  # reveals list[Region]
    reveal_type(graph.main.operators)  # reveals list[Operator]
    reveal_type(graph.main.tensors)  # reveals dict[str, Tensor]
    for operator in graph.main.operators:
        reveal_type(operator.inputs)  # reveals tuple[str, ...]
        reveal_type(operator.spec.name)  # reveals str
    for tensor in graph.main.tensors.values():
        reveal_type(tensor.shape)  # reveals tuple[int, ...] | None
        if tensor.data is not None:
            reveal_type(tensor.data.numpy())  # reveals ndarray[Any, dtype[Any]]


def own_rewrite(graph: tc.Graph) -> None:
    def rule(op: object, edit: tc.edit.BlockEditor) -> None:
        reveal_type(edit)  # reveals BlockEditor

    reveal_type(tc.edit.rewrite(graph, rule))  # reveals Graph
    tc.edit.rewrite(graph)  # error: no rule


def errors() -> None:
    try:
        tc.load("m.tosa")
    except tc.TosaConvertError as error:
        if error.code == "not-lowerd":  # error: no such code
            return
        reveal_type(error.exit_code)  # reveals int
        reveal_type(error.findings)  # reveals tuple[Finding, ...]
        error.code = "x"  # error: computed
    reveal_type(len(tc.__version__))  # reveals int


def edit(graph: tc.Graph) -> None:
    def rule(op: object, editor: tc.edit.BlockEditor) -> None:
        reveal_type(editor)  # reveals BlockEditor

    reveal_type(tc.edit.rewrite(graph, rule))  # reveals Graph


def custom(path: Path, meaning: tc.Custom) -> None:
    reveal_type(tc.load(path, custom=[meaning, "acme.py"]))  # reveals Graph
    reveal_type(meaning.accuracy)  # reveals str
    tc.Custom("acme", "SWISH")  # error: no value


def library(x: npt.NDArray[np.float32], scaled: tc.reference.Scaled) -> None:
    reveal_type(tc.reference.add(x, 1.0))  # reveals ndarray[Any, dtype[Any]]
    reveal_type(tc.reference.reshape(x, (2, 1)))  # reveals ndarray[Any, dtype[Any]]
    reveal_type(tc.reference.reshape(scaled, (2, 32)).scale)  # reveals ndarray[Any, dtype[Any]]
    blocks = tc.reference.cast(x, out_type="FP8E4M3", scaled=True)
    reveal_type(blocks.scale)  # reveals ndarray[Any, dtype[Any]]
    reveal_type(tc.reference.cast(scaled, out_type="FP32"))  # reveals ndarray[Any, dtype[Any]]
    reveal_type(tc.reference.rfft2d(x)[1])  # reveals ndarray[Any, dtype[Any]]
    tc.reference.reduce_sum(x)  # error: no axis
    tc.reference.cast(x, out_type="FP33")  # error: no such type
    outputs, status = tc.reference.run(b"", [x])
    reveal_type(outputs)  # reveals list[ndarray[Any, dtype[Any]]]
    reveal_type(status)  # reveals GraphStatus
