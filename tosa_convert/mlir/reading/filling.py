"""The data of constant operations, as the file will have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT64
from tosa_convert.graph.model import Operator, Shape, Tensor
from tosa_convert.mlir.bindings import Bindings
from tosa_convert.mlir.reading import constants
from tosa_convert.mlir.reading.narrowing import Narrowing
from tosa_convert.mlir.reading.types import TypeReader, ValueType

#: Data from a dense attribute is padded with zeros to a multiple of this, in bytes, in a file.
PADDING: Final = 8
#: ... except data of these, which are written as long as they are.
_UNPADDED: Final = frozenset({"FP6E2M3", "FP6E3M2", "FP4E2M1", "MXINT8"})

#: What a plain constant is called where a frontend leaves one of another dialect.
ARITH_CONSTANT: Final = "arith.constant"


class ConstantReader:
    """Attaches data to the values that constants produce.

    say: told of a finding: the operation, a code, a message, and perhaps a hint.
    pad_resources: pad what comes from a dense_resource as what comes from a dense attribute, so that
        bytes do not depend on how a frontend stored a weight. tosa-opt does not.
    """

    def __init__(
        self,
        bindings: Bindings,
        types: TypeReader,
        narrowing: Narrowing,
        say: Callable[..., None],
        *,
        pad_resources: bool,
    ) -> None:
        self.bindings = bindings
        self.ir = bindings.ir
        self.types = types
        self.narrowing = narrowing
        self.say = say
        self.pad_resources = pad_resources

    def fill(
        self,
        operator: Operator,
        operation: Any,
        tensors: dict[str, Tensor],
        shapes: dict[str, Shape],
    ) -> None:
        """Attach the data of a constant to the value it produces."""
        name = operator.outputs[0]
        attribute = "value" if operation.name == ARITH_CONSTANT else "values"
        # By the operation's own type: a name that stands twice may be another value's.
        kind = self.types(operation.results[0].type)
        if kind.problem:
            return
        if kind.dtype is not None:
            tensor = tensors[name]
            if kind.scale is None:
                tensor.data = self.constant(operation, attribute, kind)
            else:
                self.block_scaled(operation, attribute, tensor)
        else:
            try:
                value = operation.attributes[attribute]
                shapes[name].data = constants.dense(
                    self.bindings, operation, value, INT64, shapes[name].rank
                )
            except (constants.Unreadable, ValueError, AttributeError) as error:
                self.say(operation, "constant-form", f"'{operation.name}': {error}")

    def constant(self, operation: Any, name: str, kind: ValueType) -> Constant | None:
        """The data of the attribute `name`, or None and a finding."""
        ir, dtype = self.ir, kind.dtype
        assert dtype is not None
        count = Tensor("", dtype, kind.shape).element_count()
        attribute = operation.attributes[name]
        if count is None:
            self.say(
                operation,
                "unsupported-shape",
                f"'{operation.name}' has data for a dynamic shape: {attribute.type}",
                "a constant needs a static shape",
            )
            return None
        stored = self.narrowing.stored(kind.narrowed) or dtype
        try:
            if isinstance(attribute, ir.DenseElementsAttr):
                data = constants.dense(self.bindings, operation, attribute, stored, count)
                data = self.narrowing.convert(data, dtype, operation)
                data.padding = _padding(data)
                return data
            text = str(attribute)
            if text.startswith("dense_resource<"):
                data = constants.resource(self.bindings, operation, stored, count)
                data = self.narrowing.convert(data, dtype, operation)
                if self.pad_resources:
                    data.padding = _padding(data)
                return data
            if text.startswith("dense<"):
                data = constants.strings(attribute, dtype, count)
                data.padding = _padding(data)
                return data
            raise constants.Unreadable("it is neither dense nor a dense_resource")
        except OverflowError as problem:
            self.say(
                operation,
                "value-out-of-range",
                f"'{operation.name}' attribute {name}: {problem}",
                f"leave {kind.narrowed} out of the types to narrow, or change the value",
            )
            return None
        except constants.Unreadable as problem:
            self.say(
                operation,
                "constant-form",
                f"'{operation.name}' attribute {name}: {problem}",
                "print or save the module with its resources (no elision) and export again",
            )
            return None

    def block_scaled(self, operation: Any, name: str, tensor: Tensor) -> None:
        count = tensor.element_count()
        assert count is not None
        assert tensor.scale is not None
        try:
            tensor.data, tensor.scale.data = constants.block_scaled(
                self.bindings, operation, name, tensor.dtype, count, int(tensor.scale.shape)
            )
        except constants.Unreadable as problem:
            self.say(operation, "constant-form", f"'{operation.name}' attribute {name}: {problem}")


def _padding(data: Constant) -> int:
    return 0 if data.dtype.name in _UNPADDED else -data.nbytes % PADDING
