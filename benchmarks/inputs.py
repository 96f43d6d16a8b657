"""Makes the inputs, each in a process of its own so that the harness stays small.

    python benchmarks/inputs.py chain|branch OPERATORS OUT.mlirbc
    python benchmarks/inputs.py weights MIB DTYPE dense|resource OUT.mlirbc
    python benchmarks/inputs.py small COUNT FOLDER
    python benchmarks/inputs.py tosa IN.mlirbc OUT.tosa
    python benchmarks/inputs.py sparse GIB OUT.tosa
    python benchmarks/inputs.py renamed IN.tosa OUT.tosa
    python benchmarks/inputs.py tflite OPERATORS OUT.tflite
    python benchmarks/inputs.py onnx OUT.onnx

The same parameters make the same bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import default_bindings

#: Weights are split into this many constants.
CONSTANTS = 8
#: Operators of small modules, repeated in this order.
SMALL_SIZES = (1, 2, 4, 8, 16, 40)


class Builder:
    """A module with one function, built without a type-inferring builder."""

    def __init__(self, type_text: str) -> None:
        self.ir = ir = default_bindings().ir
        self.context = ir.Context()
        self.type = ir.Type.parse(type_text, self.context)
        self.number = 0
        self.keep: list[object] = []

    def module(self, body: Any) -> Any:
        """@main, a function of one value to one of the same type; `body` fills it."""
        ir = self.ir
        with self.context, ir.Location.unknown():
            module = ir.Module.create()
            kind = ir.FunctionType.get([self.type], [self.type])
            attributes = {
                "sym_name": ir.StringAttr.get("main"),
                "function_type": ir.TypeAttr.get(kind),
            }
            function = ir.Operation.create("func.func", attributes=attributes, regions=1)
            module.body.append(function)
            block = function.regions[0].blocks.append(self.type)
            with ir.InsertionPoint(block):
                ir.Operation.create("func.return", operands=[body(block.arguments[0])])
            module.operation.verify()
        return module

    def op(self, name: str, *operands: Any, result: Any = None, **attributes: Any) -> Any:
        """Return one operator with its own source location, as after parsing text."""
        ir = self.ir
        self.number += 1
        return ir.Operation.create(
            f"tosa.{name}",
            results=[self.type if result is None else result],
            operands=list(operands),
            attributes=attributes,
            loc=ir.Location.file("model.py", self.number, 7),
        ).result


def chain(count: int) -> Any:
    """`count` operators, each applied to the result of the previous one."""
    build = Builder("tensor<4x4xf32>")
    names = ("abs", "tanh", "floor", "ceil")

    def body(value: Any) -> Any:
        for index in range(count):
            value = build.op(names[index & 3], value)
        return value

    return build.module(body)


def branch(count: int) -> Any:
    """Blocks of eleven operators that fork and join, with constants, shapes and attributes."""
    build = Builder("tensor<8xf32>")
    ir = build.ir
    parse = build.context
    square = ir.Type.parse("tensor<2x4xf32>", parse)
    shape_types = [ir.Type.parse(f"!tosa.shape<{rank}>", parse) for rank in (1, 2)]
    shapes = [
        ir.Attribute.parse(text, parse)
        for text in ("dense<8> : tensor<1xindex>", "dense<[2, 4]> : tensor<2xindex>")
    ]
    limits = [ir.Attribute.parse(f"{value} : f32", parse) for value in ("0.0", "6.0")]

    def body(value: Any) -> Any:
        for index in range(count // 11):
            data = np.arange(8, dtype=np.float32) + index
            constant = build.op("const", values=ir.DenseElementsAttr.get(data, type=build.type))
            first = build.op("add", value, constant)
            left, right = build.op("tanh", first), build.op("sigmoid", first)
            joined = build.op("maximum", left, right)
            clamped = build.op("clamp", joined, min_val=limits[0], max_val=limits[1])
            two = build.op("const_shape", result=shape_types[1], values=shapes[1])
            folded = build.op("reshape", clamped, two, result=square)
            one = build.op("const_shape", result=shape_types[0], values=shapes[0])
            value = build.op("add", build.op("reshape", folded, one), value)
        return value

    return build.module(body)


def weights(mib: int, dtype: str, form: str) -> Any:
    """CONSTANTS constants of `mib` MiB together, in a chain; random, finite."""
    each = mib * (1 << 20) // CONSTANTS
    width = {"f32": 4, "bf16": 2, "i8": 1}[dtype]
    build = Builder(f"tensor<{each // width}x{dtype}>")
    ir = build.ir
    random = np.random.default_rng(0)
    operator = "bitwise_xor" if dtype == "i8" else "add"

    def constant(index: int) -> Any:
        data: np.ndarray[Any, Any]
        if dtype == "f32":
            data = random.random(each // 4, dtype=np.float32)
        else:
            data = random.integers(0, 256, each, dtype=np.uint8)
            if dtype == "bf16":
                data[1::2] &= 0x3F  # no infinity, no NaN
        if form == "dense":
            return ir.DenseElementsAttr.get(data, type=build.type)
        build.keep.append(data)
        return ir.DenseResourceElementsAttr.get_from_buffer(
            data, f"w{index}", build.type, alignment=16
        )

    def body(value: Any) -> Any:
        for index in range(CONSTANTS):
            value = build.op(operator, value, build.op("const", values=constant(index)))
        return value

    return build.module(body)


def small(count: int, folder: Path) -> None:
    """`count` small modules as m<number>.mlirbc, every other one with constants."""
    folder.mkdir(parents=True)
    made: dict[tuple[int, bool], bytes] = {}
    for index in range(count):
        size, forks = SMALL_SIZES[index % len(SMALL_SIZES)], bool(index & 1)
        if (size, forks) not in made:
            path = folder / "made"
            _bytecode(branch(11 * max(1, size // 11)) if forks else chain(size), path)
            made[size, forks] = path.read_bytes()
            path.unlink()
        (folder / f"m{index:05}.mlirbc").write_bytes(made[size, forks])


def sparse(gib: int, out: Path) -> None:
    """A .tosa file whose weights are a hole: `gib` GiB of zeros that take no space."""
    from tosa_convert.api import encode
    from tosa_convert.graph.constant import Constant
    from tosa_convert.graph.dtypes import INT8
    from tosa_convert.graph.model import Block, Graph, Operator, Region, Tensor, Version
    from tosa_convert.graph.opset import CONST, operator

    each = 1 << 30
    hole = memoryview(bytearray(1)).cast("B")
    block = Block("main", ["in"], ["out"])
    value = "in"
    block.tensors["in"] = Tensor("in", INT8, (each,))
    for index in range(gib):
        name, result = f"w{index}", "out" if index == gib - 1 else f"v{index}"
        block.tensors[name] = Tensor(name, INT8, (each,), Constant(INT8, each, hole, splat=True))
        block.tensors[result] = Tensor(result, INT8, (each,))
        block.operators.append(Operator(CONST, (), (name,)))
        block.operators.append(Operator(operator("BITWISE_XOR"), (value, name), (result,)))
        value = result
    graph = Graph(Version(1, 0), [Region("main", [block])])
    with open(out, "wb") as file:
        for piece in encode(graph, weights="offset"):
            # Long runs of zeros become holes.
            if len(piece) >= 1 << 16 and not any(memoryview(piece)[:64]):
                file.seek(len(piece), 1)
            else:
                file.write(piece)
        file.truncate(file.tell())


def renamed(source: str, out: Path) -> None:
    """The same program, in which every value has another name and one CLAMP another bound."""
    graph = tc.load(source)
    block = graph.main
    names = {name: f"value_{n}" for n, name in enumerate((*block.tensors, *block.shapes))}
    for operator in block.operators:
        operator.inputs = tuple(names[name] for name in operator.inputs)
        operator.outputs = tuple(names[name] for name in operator.outputs)
    block.inputs = [names[name] for name in block.inputs]
    block.outputs = [names[name] for name in block.outputs]
    for tensor in block.tensors.values():
        tensor.name = names[tensor.name]
    for shape in block.shapes.values():
        shape.name = names[shape.name]
    block.tensors = {tensor.name: tensor for tensor in block.tensors.values()}
    block.shapes = {shape.name: shape for shape in block.shapes.values()}
    clamps = [operator for operator in block.operators if operator.spec.name == "CLAMP"]
    changed = clamps[len(clamps) // 2].attributes
    bound = changed["max_val"]
    assert isinstance(bound, bytes)
    # The bytes of one element, and what follows them in the field.
    changed["max_val"] = np.float32(5).tobytes() + bound[4:]
    tc.save(graph, out)


def tflite(count: int, out: Path) -> None:
    """A TFLite model: a chain of products and sums with one constant."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from frontends.tflite_models import OperatorRow, TensorRow, model

    tensors = [
        TensorRow("factor", "float32", (1, 16), np.full((1, 16), 0.5, np.float32)),
        *(TensorRow(f"value{index}", "float32", (4, 16)) for index in range(count + 1)),
    ]
    operators = [
        OperatorRow(("MUL", "ADD")[index % 2], (index + 1, 0), (index + 2,))
        for index in range(count)
    ]
    out.write_bytes(model(tensors, operators, [1], [count + 1]))


def onnx_classifier(out: Path) -> None:
    """Write a small ONNX model: two convolutions with pooling, and a dense layer."""
    import onnx
    from onnx import helper, numpy_helper

    random = np.random.default_rng(0)
    shapes = {"k1": (8, 1, 3, 3), "b1": (8,), "k2": (16, 8, 3, 3), "b2": (16,), "w": (784, 10)}
    nodes = []
    last = "image"
    for layer in ("1", "2"):
        nodes += [
            helper.make_node("Conv", [last, f"k{layer}", f"b{layer}"], ["c" + layer], pads=[1] * 4),
            helper.make_node("Relu", ["c" + layer], ["r" + layer]),
            helper.make_node(
                "MaxPool", ["r" + layer], ["p" + layer], kernel_shape=[2, 2], strides=[2, 2]
            ),
        ]
        last = "p" + layer
    nodes += [
        helper.make_node("Flatten", [last], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["classes"]),
    ]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, [1, 1, 28, 28])],
        [helper.make_tensor_value_info("classes", onnx.TensorProto.FLOAT, [1, 10])],
        [
            numpy_helper.from_array(random.standard_normal(shape, np.float32), name)
            for name, shape in shapes.items()
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), out)


def _bytecode(module: Any, out: Path) -> None:
    with open(out, "wb") as file:
        module.operation.write_bytecode(file)


def main(kind: str, *rest: str) -> None:
    """Make one input."""
    out = Path(rest[-1])
    match kind:
        case "chain":
            _bytecode(chain(int(rest[0])), out)
        case "branch":
            _bytecode(branch(int(rest[0])), out)
        case "weights":
            _bytecode(weights(int(rest[0]), rest[1], rest[2]), out)
        case "small":
            small(int(rest[0]), out)
        case "sparse":
            sparse(int(rest[0]), out)
        case "onnx":
            onnx_classifier(out)
        case "tflite":
            tflite(int(rest[0]), out)
        case "renamed":
            renamed(rest[0], out)
        case "tosa":
            module = default_bindings().ir.Module.parseFile(
                rest[0], default_bindings().new_context()
            )
            tc.export_tosa_func_to_flatbuffer(module, out, names="generate")
        case _:
            raise SystemExit(f"no input is called {kind}")


if __name__ == "__main__":
    main(*sys.argv[1:])
