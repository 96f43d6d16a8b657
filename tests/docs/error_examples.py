"""The smallest example that raises each error code; docs/errors.md shows its message."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from refusing import refused
from unit.building import block, example, graph, op, tensor

import tosa_convert as tc
from tosa_convert import api
from tosa_convert.cli.main import tosa_flatbuffer, verb
from tosa_convert.formats.bindings.packages import default_bindings
from tosa_convert.frontends.process.request import Interface, NotLowered
from tosa_convert.golden import RunOptions, run
from tosa_convert.golden.backends.runners import Record, open_backend
from tosa_convert.graph import Constant, Graph, Version, dtype

#: Code -> what the example needs, and a function that raises the error in an empty working folder.
#: "mlir" needs torch-mlir's bindings, "refmodel" the reference model.
EXAMPLES: dict[str, tuple[str, Callable[[], object]]] = {}

#: Codes without an example, and why.
WITHOUT_EXAMPLE = {"verification-failed": "only a defect of tosa-convert raises it"}


def raises(code: str, needs: str = "") -> Callable[[Callable[[], object]], Callable[[], object]]:
    def register(function: Callable[[], object]) -> Callable[[], object]:
        assert code not in EXAMPLES
        EXAMPLES[code] = (needs, function)
        return function

    return register


def message_of(code: str) -> str:
    """Return the message of a code's example, without the parts that depend on the machine."""
    with refused(code) as caught:
        EXAMPLES[code][1]()
    return plain(str(caught.value))


def plain(text: str) -> str:
    """Return a message without versions, folders of this machine, and line numbers of other programs."""
    text = text.replace(f"{Path.cwd()}{os.sep}", "")
    text = re.sub(r"\btorch_mlir \d[\w.+-]*", "torch_mlir VERSION", text)
    # As it is in a clone where `pip install .` was run.
    text = re.sub(r"pip install (?:-e )?'[^']*\[(\w+)\]'", r"pip install '.[\1]'", text)
    return re.sub(r"\.cpp:\d+", ".cpp:LINE", text)


def module(text: str, **options: Any) -> Graph:
    Path("m.mlir").write_text(text, encoding="utf-8")
    return tc.load("m.mlir", **options)


def function(body: str, result: str = "tensor<2xf32>", argument: str = "tensor<2xf32>") -> str:
    return f"func.func @main(%x: {argument}) -> {result} {{\n  {body}\n  return %0 : {result}\n}}\n"


def summed(shape: tuple[int, ...] = (2, 3)) -> Graph:
    """Return a sum of two inputs."""
    values = [tensor(name, shape=shape) for name in "xyz"]
    return graph("x y", "z", values, [op("ADD", "x y", "z")])


def written(made: Graph, name: str = "m.tosa", **options: Any) -> str:
    tc.save(made, name, **options)
    return name


def tflite_model(path: str) -> None:
    """A TFLite model that nothing reads but what recognises it."""
    Path(path).write_bytes(b"\x1c\0\0\0TFL3".ljust(64, b"\0"))


def converter(path: str, operator: str, count: int) -> None:
    """A program in place of a converter's Python: it says that an operator does not lower."""
    found = NotLowered(
        operator=operator, where="operator 7", count=count, hint="write it otherwise"
    )
    script = Path(path)
    text = Interface(not_lowered=[found]).to_json()
    script.write_text(f"#!{sys.executable}\nopen('interface.json', 'w').write({text!r})\n")
    script.chmod(0o755)


# -- requests --------------------------------------------------------------------------------------

TWO = "func.func @one() { return }\nfunc.func @two() { return }\n"


raises("ambiguous-function", "mlir")(lambda: module(TWO))
raises("unknown-function", "mlir")(lambda: module(TWO, func="three"))


@raises("unknown-argument", "mlir")
def _() -> object:
    text = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }\n"
    return module(text, input_shapes={"image": (4,)})


raises("unknown-name")(lambda: tosa_flatbuffer.main(["explain", "conv2"], standalone_mode=False))
raises("unknown-format")(lambda: written(example(), "m.bin"))
raises("would-overwrite-input")(
    lambda: verb("convert").main([written(example()), "-o", "m.tosa"], standalone_mode=False)
)
raises("option-conflict")(lambda: written(example(), "m.json", weights="offset"))
raises("missing-bindings")(lambda: default_bindings("vendor_mlir"))


@raises("missing-layout")
def _() -> object:
    with mock.patch.dict("sys.modules", {"fast_sugiyama": None}):
        return tc.report(example())


@raises("frontend-missing")
def _() -> object:
    tflite_model("m.tflite")
    return tc.frontends.from_tflite("m.tflite", python="no-such-python")


raises("not-an-mlir-object")(lambda: tc.export_tosa_func_to_flatbuffer("m.mlir"))
raises("file-error")(lambda: tc.load("absent.tosa"))


@raises("foreign-folder")
def _() -> object:
    Path("m.weights").mkdir()
    Path("m.weights", "notes.txt").touch()
    return written(example(), weights="npy")


# -- damaged files, and files that break a rule ----------------------------------------------------


raises("unrecognised-input")(lambda: tc.load(b"\x1c\0\0\0TFL3\0\0"))
raises("empty-input")(lambda: tc.load(b""))
raises("malformed-mlir", "mlir")(
    lambda: module(function("%0 = tosa.abs %y : (tensor<2xf32>) -> tensor<2xf32>"))
)


@raises("malformed-flatbuffer")
def _() -> object:
    name = Path(written(example()))
    name.write_bytes(name.read_bytes()[:200])
    return tc.load(name)


@raises("malformed-tensor")
def _() -> object:
    made = example()
    made.main.tensors["x"].variable_name = "state"
    return written(made)


@raises("malformed-operator")
def _() -> object:
    values = [tensor("x"), tensor("y")]
    return written(graph("x", "y", list(values), [op("ADD", "x", "y")]))


@raises("invalid-operator")
def _() -> object:
    shapes = {"x": (2, 3), "y": (5, 7), "z": (9, 9)}
    values = [tensor(name, shape=shape) for name, shape in shapes.items()]
    program = graph("x y", "z", values, [op("ADD", "x y", "z")])
    raise tc.TosaConvertError(tc.validate(program))


@raises("malformed-structure")
def _() -> object:
    made = example()
    made.regions[0].blocks.append(block("", "", [], [], "other"))
    return written(made)


raises("undefined-name")(
    lambda: written(graph("x", "y", [tensor("x"), tensor("y")], [op("ADD", "x z", "y")]))
)


@raises("duplicate-name", "mlir")
def _() -> object:
    name = '{tosa.tensor_name = "x"}'
    return module(
        f"func.func @main(%a: tensor<2xf32> {name}, %b: tensor<2xf32> {name}) {{ return }}\n"
    )


raises("missing-data")(lambda: written(graph("", "w", [tensor("w")], [op("CONST", "", "w")])))


@raises("data-length")
def _() -> object:
    weight = tensor("w", data=bytes(24))
    weight.shape = (2, 4)
    return written(graph("", "w", [weight], [op("CONST", "", "w")]))


@raises("int4-minus-8")
def _() -> object:
    weight = tensor("w", "INT4", (2,), data=b"\x81")
    return written(graph("", "w", [weight], [op("CONST", "", "w")]))


raises("malformed-json")(lambda: tc.load(b'{"version": {"_major": 1, "_minor": "zero"}}'))


def program_beside_weights() -> Path:
    """Write a program with its weights in a folder beside it; return the manifest."""
    written(example(), weights="npy")
    return Path("m.weights", "manifest.json")


def of_bytes(name: str, data: bytes) -> object:
    Path(name).write_bytes(data)
    return tc.load(name)


raises("malformed-pte")(lambda: of_bytes("m.pte", b"\xff\0\0\0ET12" + bytes(60)))
raises("malformed-vgf")(lambda: of_bytes("m.vgf", b"VGF1" + bytes(60)))


@raises("malformed-weights")
def _() -> object:
    manifest = program_beside_weights()
    manifest.write_text(manifest.read_text().replace('"FP32"', '"FP64"'))
    return tc.load("m.tosa")


@raises("mismatched-weights")
def _() -> object:
    program_beside_weights()
    np.save("m.weights/w.npy", np.zeros((3, 3), np.float32))
    return tc.load("m.tosa")


@raises("changed-weights")
def _() -> object:
    program_beside_weights()
    np.save("m.weights/w.npy", np.zeros((2, 3), np.float32))
    return tc.load("m.tosa")


@raises("unsafe-path")
def _() -> object:
    manifest = program_beside_weights()
    content = json.loads(manifest.read_text())
    content["constants"][0]["file"] = "../w.npy"
    manifest.write_text(json.dumps(content))
    return tc.load("m.tosa")


# -- valid input that cannot be converted ----------------------------------------------------------


@raises("unsupported-version")
def _() -> object:
    made = example()
    made.version = Version(0, 60)
    return tc.load(b"".join(api.encode(made)), names="retain")


@raises("version-too-low")
def _() -> object:
    values = [tensor("x", "INT64"), tensor("y", "INT64")]
    return api.stamp(graph("x", "y", list(values), [op("IDENTITY", "x", "y")]), "1.0")


@raises("cannot-upgrade", "mlir")
def _() -> object:
    text = function(
        '%0 = "tosa.transpose"(%x, %p) : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<3x2xf32>',
        "tensor<3x2xf32>",
        "tensor<2x3xf32>, %p: tensor<2xi32>",
    )
    return module(text)


raises("foreign-operator", "mlir")(
    lambda: module(function("%0 = arith.addf %x, %x : tensor<2xf32>"))
)


@raises("unsupported-operator", "mlir")
def _() -> object:
    text = function(
        "%0 = tosa.apply_scale %x, %x, %s {rounding_mode = SINGLE_ROUND} : "
        "(tensor<2xi32>, tensor<2xi32>, tensor<2xi8>) -> tensor<2xi32>",
        "tensor<2xi32>",
        "tensor<2xi32>, %s: tensor<2xi8>",
    )
    return module(text)


raises("unsupported-attribute", "mlir")(
    lambda: module(
        function(
            '%0 = tosa.custom %x {domain_name = "d", implementation_attrs = "", '
            'operator_name = "\\FF"} : (tensor<2xf32>) -> tensor<2xf32>'
        )
    )
)
raises("unsupported-dtype", "mlir")(
    lambda: module("func.func @main(%x: tensor<2xsi8>) { return }\n")
)
raises("unsupported-type", "mlir")(lambda: module("func.func @main(%x: i32) { return }\n"))
raises("unsupported-shape", "mlir")(
    lambda: module("func.func @main(%x: tensor<4294967296xi8>) { return }\n")
)


@raises("value-out-of-range", "mlir")
def _() -> object:
    text = (
        '%0 = "tosa.const"() <{values = dense<[1, 4294967296]> : tensor<2xi64>}>'
        " : () -> tensor<2xi64>"
    )
    return module(function(text, "tensor<2xi64>"), narrow=["i64"])


@raises("captured-value", "mlir")
def _() -> object:
    text = """%0 = "tosa.cond_if"(%c) ({
    %y = tosa.abs %x : (tensor<2xf32>) -> tensor<2xf32>
    tosa.yield %y : tensor<2xf32>
  }, {
    tosa.yield %x : tensor<2xf32>
  }) : (tensor<i1>) -> tensor<2xf32>"""
    return module(function(text, argument="tensor<2xf32>, %c: tensor<i1>"))


raises("no-function", "mlir")(lambda: module("func.func private @elsewhere(tensor<2xf32>)\n"))


@raises("constant-form", "mlir")
def _() -> object:
    text = (
        '%0 = "tosa.const"() <{values = dense_resource<w> : tensor<2xf32>}> : () -> tensor<2xf32>'
    )
    return module(function(text))


@raises("outside-profile")
def _() -> object:
    raise tc.TosaConvertError(tc.validate(summed(), profile=["PRO-INT", "EXT-INT16"]))


@raises("outside-level")
def _() -> object:
    raise tc.TosaConvertError(tc.validate(summed((1,) * 7), level="8k"))


@raises("unsupported-by-reader")
def _() -> object:
    raise tc.TosaConvertError(tc.validate(summed(), for_reader="vela"))


@raises("too-large")
def _() -> object:
    weight = tensor("w", "INT8", (2**31 - 1,))
    weight.data = Constant(dtype("INT8"), 2**31 - 1, b"\0", splat=True)
    made = graph("", "w", [weight], [op("CONST", "", "w")])
    return written(made, weights="embedded")


# -- running and comparing -------------------------------------------------------------------------


def model(program: str) -> Any:
    """Return an environment in which the reference model is the named program."""
    return mock.patch.dict(os.environ, {"TOSA_REFERENCE_MODEL": program})


def x() -> dict[str, Any]:
    return {"x": np.ones((2, 3), np.float32)}


@raises("not-lowered")
def _() -> object:
    converter("program.py", "CUMSUM", 3)
    tflite_model("m.tflite")
    return tc.frontends.from_tflite("m.tflite", python="./program.py")


@raises("frontend-failed")
def _() -> object:
    tflite_model("m.tflite")
    return tc.frontends.from_tflite("m.tflite", python="false")


@raises("missing-refmodel")
def _() -> object:
    with model("absent/tosa_reference_model"):
        return run(example(), x())


raises("missing-backend")(lambda: open_backend("my-simulator", example(), x()))
raises("input-mismatch")(lambda: run(example(), {"x": np.ones((3, 2), np.float32)}))


@raises("refmodel-refused", "refmodel")
def _() -> object:
    values = [tensor("x"), tensor("y", shape=(2, 2)), tensor("z")]
    made = graph("x y", "z", list(values), [op("ADD", "x y", "z", 'loc("f.mlir":2:8)')])
    return run(made, {**x(), "y": np.ones((2, 2), np.float32)})


@raises("refmodel-failed")
def _() -> object:
    with model(str(shutil.which("false"))):
        return run(example(), x())


@raises("refmodel-timeout")
def _() -> object:
    slow = Path("slow").absolute()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    with model(str(slow)):
        return run(example(), x(), RunOptions(timeout=0.25))


def backend(command: str) -> object:
    """Compute with a program as the backend."""
    opened = open_backend(command, example(), x())
    assert not isinstance(opened, Record)
    return opened.compute(example(), ["y"], x(), [], Path.cwd())


raises("backend-refused")(lambda: backend("sh -c 'echo no FP8 here >&2; exit 77'"))
raises("backend-unreachable")(lambda: backend("sh -c 'echo no route to npu3 >&2; exit 75'"))
raises("backend-failed")(lambda: backend("false"))
