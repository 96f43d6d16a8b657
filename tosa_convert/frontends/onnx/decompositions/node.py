"""What a decomposition sees of a node, and how it builds the nodes that replace it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tosa_convert.frontends.onnx.weights import Weights
from tosa_convert.records import dataclass, field


class NotDecomposedError(Exception):
    """The decomposition does not apply to this node; the node stays as it is."""


class RefusedError(Exception):
    """The node would be lowered to wrong numbers, and no decomposition applies; the text says why."""


@dataclass
class Values:
    """What is known of the values of a graph.

    types: name -> the type that shape inference found.
    constants: name -> the tensor; large ones are views of files.
    """

    types: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the sizes of a value if all are known, or None."""
        if name in self.constants:
            return tuple(self.constants[name].shape)
        kind = self.types.get(name)
        if kind is None or not kind.tensor_type.HasField("shape"):
            return None
        dims = kind.tensor_type.shape.dim
        if any(not dim.HasField("dim_value") for dim in dims):
            return None
        return tuple(dim.dim_value for dim in dims)

    def element_type(self, name: str) -> int:
        """ONNX's number of the element type, 0 if it is not known."""
        if name in self.constants:
            return int(helper.np_dtype_to_tensor_dtype(self.constants[name].dtype))
        kind = self.types.get(name)
        return int(kind.tensor_type.elem_type) if kind is not None else 0


class Decomposition:
    """One node that is to be replaced; the new nodes are appended to `nodes`.

    Values are names. Inputs are counted as in the operator's definition; those left out are "".
    """

    def __init__(self, node: Any, values: Values, opset: int, prefix: str) -> None:
        self.node = node
        self.opset = opset
        self.nodes: list[Any] = []
        self._made = 0
        self._values = values
        self.prefix = prefix
        self._attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self.inputs: list[str] = list(node.input)

    # -- what the node has ------------------------------------------------------------------------

    def leave_if(self, condition: bool, why: str) -> None:
        """Raise NotDecomposedError if the condition holds: the node stays as it is."""
        if condition:
            raise NotDecomposedError(why)

    def has(self, index: int) -> bool:
        """Return whether the input is given."""
        return index < len(self.inputs) and self.inputs[index] != ""

    def wants(self, index: int) -> bool:
        """Return whether the output is used."""
        return index < len(self.node.output) and self.node.output[index] != ""

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, or `default`; text and lists of texts are decoded."""
        value = self._attributes.get(name, default)
        if isinstance(value, bytes):
            return value.decode()
        if not isinstance(value, Sequence) or isinstance(value, str):
            return value
        return [row.decode() if isinstance(row, bytes) else row for row in value]

    @property
    def attributes(self) -> dict[str, Any]:
        """Return the values of all attributes."""
        return {name: self.attribute(name) for name in self._attributes}

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the sizes of an input. Raises NotDecomposedError if they are not all known."""
        return self._shape(self.inputs[index])

    def output_shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the sizes of an output. Raises NotDecomposedError if they are not all known."""
        return self._shape(self.node.output[index])

    def _shape(self, name: str) -> tuple[int, ...]:
        found = self._values.shape(name)
        if found is None:
            raise NotDecomposedError(f"the shape of {name} is not fixed")
        return found

    def number(self, index: int, default: int | None = None) -> int:
        """Return the number that a constant input is; `default` if it may be left out, and is."""
        if default is not None and not self.has(index):
            return default
        return int(self.value(index).reshape(-1)[0])

    def type(self, index: int) -> int:
        """Return the element type of an input, as an enumerator of `onnx.TensorProto`."""
        return self._values.element_type(self.inputs[index])

    def output_type(self, index: int = 0) -> int:
        """Return the element type of an output."""
        return self._values.element_type(self.node.output[index])

    def value(self, index: int) -> np.ndarray[Any, Any]:
        """Return the value of an input. Raises NotDecomposedError if it is not a constant."""
        known = self.has(index) and self.inputs[index] in self._values.constants
        self.leave_if(not known, f"{self.inputs[index]} is not a constant")
        found: np.ndarray[Any, Any] = self._values.constants[self.inputs[index]]
        return found

    def numpy_type(self, index: int = 0) -> Any:
        """Return the element type of an input as a numpy type.

        Raises NotDecomposedError if it is unknown.
        """
        kind = self.type(index)
        self.leave_if(not kind, f"the type of {self.inputs[index]} is not known")
        return helper.tensor_dtype_to_np_dtype(kind)

    # -- what replaces it -------------------------------------------------------------------------

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; return the name of the output."""
        return self.ops(kind, *inputs, outputs=1, **attributes)[0]

    def ops(self, kind: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """Add a node; return the names of its outputs."""
        # Not the count of `nodes`, which who unrolls a loop empties.
        names = [f"{self.prefix}/{self._made}_{index}" for index in range(outputs)]
        self._made += 1
        given = {key: value for key, value in attributes.items() if value is not None}
        name = self.node.name or self.prefix
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=name, **given))
        return names

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Add a constant; return its name."""
        array = np.asarray(value, dtype=dtype)
        return self.op(
            "Constant",
            value=numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape)),
        )

    def like(self, value: Any, index: int = 0) -> str:
        """Add a constant of the element type of an input; return its name."""
        return self.constant(value, self.numpy_type(index))

    def ints(self, *values: int) -> str:
        """Add a constant list of sizes, axes or positions; return its name."""
        return self.constant(np.array(values, np.int64))

    def cast(self, name: str, to: int) -> str:
        """Add a cast of the value to another element type; return its name."""
        return self.op("Cast", name, to=to)

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """Add a reshape of the value to other sizes; return its name."""
        return self.op("Reshape", name, self.ints(*shape))

    def transpose(self, name: str, order: Sequence[int]) -> str:
        """Add a transpose of the value, unless the order stays; return the name of the result."""
        if list(order) == list(range(len(order))):
            return name
        return self.op("Transpose", name, perm=list(order))

    def slice(self, name: str, axis: int, start: int, end: int, step: int = 1) -> str:
        """Return elements of one axis."""
        return self.op(
            "Slice", name, self.ints(start), self.ints(end), self.ints(axis), self.ints(step)
        )

    def pad(self, name: str, before: Sequence[int], after: Sequence[int], value: Any = 0) -> str:
        """Add elements around the value, of the type of the first input, in the form of the opset."""
        if self.opset < 11:
            return self.op("Pad", name, pads=[*before, *after], value=float(value))
        return self.op("Pad", name, self.ints(*before, *after), self.like(value))

    def unsqueeze(self, name: str, axis: int) -> str:
        """Add an axis of size 1, in the form of the operator set."""
        if self.opset >= 13:
            return self.op("Unsqueeze", name, self.ints(axis))
        return self.op("Unsqueeze", name, axes=[axis])

    def reduce(self, kind: str, name: str, axes: Sequence[int], keepdims: int = 1) -> str:
        """Add a reduction over axes in the form of the operator set: axes were attributes once."""
        since = 13 if kind == "ReduceSum" else 18
        if self.opset >= since:
            return self.op(kind, name, self.ints(*axes), keepdims=keepdims)
        return self.op(kind, name, axes=list(axes), keepdims=keepdims)

    def result(self, name: str, index: int = 0) -> None:
        """Make a value the node's output."""
        self.nodes.append(
            helper.make_node(
                "Identity", [name], [self.node.output[index]], name=self.node.name or self.prefix
            )
        )


def values_of(model: Any, weights: Weights) -> Values:
    """Collect what is known of the values of a model after shape inference."""
    values = Values()
    for info in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        if info.type.WhichOneof("value") == "tensor_type":
            values.types[info.name] = info.type
    for tensor in model.graph.initializer:
        kind = onnx.TypeProto()
        kind.tensor_type.elem_type = tensor.data_type
        for size in tensor.dims:
            kind.tensor_type.shape.dim.add().dim_value = size
        values.types[tensor.name] = kind
        values.constants[tensor.name] = weights.array(tensor)
    return values
