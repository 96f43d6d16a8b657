"""The data of constant operations, as the file will have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import INT64
from tosa_convert.graph.model import Operator, Tensor
from tosa_convert.mlir.block_scope import Scope
from tosa_convert.mlir.bytecode.decode import Attribute, Bytecode
from tosa_convert.mlir.bytecode.operations import Operation
from tosa_convert.mlir.narrowing import Narrowing
from tosa_convert.mlir.reading import constants
from tosa_convert.mlir.reading.types import TypeReader, ValueType
from tosa_convert.mlir.report import Report

#: Data from a dense attribute is padded with zeros to a multiple of this, in bytes, in a file.
PADDING: Final = 8
#: ... except data of these, which are written as long as they are.
_UNPADDED: Final = frozenset({"FP6E2M3", "FP6E3M2", "FP4E2M1", "MXINT8"})

#: What a plain constant is called where a frontend leaves one of another dialect.
ARITH_CONSTANT: Final = "arith.constant"


class ConstantReader:
    """Attaches data to the values that constants produce.

    pad_resources: pad what comes from a dense_resource as what comes from a dense attribute, so that
        bytes do not depend on how a frontend stored a weight. tosa-opt does not.
    """

    def __init__(
        self,
        bytecode: Bytecode,
        types: TypeReader,
        narrowing: Narrowing,
        report: Report,
        *,
        pad_resources: bool,
    ) -> None:
        self.bytecode = bytecode
        self.types = types
        self.narrowing = narrowing
        self.say = report.say
        self.pad_resources = pad_resources
        #: Data by the numbers of dictionary and type; programs repeat shapes and zero points.
        self.known: dict[tuple[int, int], Constant | None] = {}

    def plain(self, key: tuple[int, int], kind: ValueType) -> Constant | None:
        """The data of a constant that has nothing but dense elements; None: `fill` looks at it.

        key: the numbers of its dictionary and of its type. kind: what the type says.
        """
        found = self.bytecode.only_dense(key[0])
        if found is None or found[0] != key[1] or not kind.is_plain or kind.count is None:
            return None
        assert kind.dtype is not None
        try:
            data = constants.dense(found[1], kind.dtype, kind.count)
        except constants.Unreadable:
            return None  # which `fill` tells
        data.padding = _padding(data)
        self.known[key] = data
        return data

    def fill(self, operator: Operator, operation: Operation, scope: Scope) -> None:
        """Attach the data of a constant to the value it produces."""
        tensors, shapes, name = scope.tensors, scope.shapes, operator.outputs[0]
        # By the operation's own type: a name that stands twice may be another value's.
        kind = self.types(operation.types[0])
        if kind.problem:
            return
        key = (operation.attributes, operation.types[0])
        names = self.bytecode.names
        label = names[operation.name]
        attribute = "value" if label == ARITH_CONSTANT else "values"
        value = self.bytecode.attribute(self.bytecode.dictionary(operation.attributes)[attribute])
        if kind.dtype is None:
            try:
                shapes[name].data = constants.read(value, INT64, shapes[name].rank)
            except constants.Unreadable as problem:
                self.say(operation, "constant-form", f"'{label}': {problem}")
            else:
                self.known[key] = shapes[name].data
        elif kind.scale is None:
            data = tensors[name].data = self.constant(
                operation, attribute, value, kind, lambda: scope.users(operation.first, names)
            )
            if data is not None and not kind.narrowed:
                self.known[key] = data
        else:
            self.block_scaled(operation, attribute, value, tensors[name])

    def constant(
        self,
        operation: Operation,
        name: str,
        value: Attribute,
        kind: ValueType,
        users: Callable[[], set[str]],
    ) -> Constant | None:
        """The data of the attribute `name`, or None and a finding.

        users: the names of the operations that use it.
        """
        dtype, count = kind.dtype, kind.count
        assert dtype is not None
        label = self.bytecode.names[operation.name]
        if count is None:
            self.say(
                operation,
                "unsupported-shape",
                f"'{label}' has data for a dynamic shape: {getattr(value, 'type', kind.shape)}",
                "a constant needs a static shape",
            )
            return None
        try:
            if kind.narrowed:
                stored = self.narrowing.stored(kind.narrowed)
                assert stored is not None
                data = self.narrowing.convert(constants.read(value, stored, count), dtype, users)
            else:
                data = constants.read(value, dtype, count)
        except OverflowError as problem:
            self.say(
                operation,
                "value-out-of-range",
                f"'{label}' attribute {name}: {problem}",
                f"leave {kind.narrowed} out of the types to narrow, or change the value",
            )
            return None
        except constants.Unreadable as problem:
            self.say(
                operation,
                "constant-form",
                f"'{label}' attribute {name}: {problem}",
                "print or save the module with its resources (no elision) and export again",
            )
            return None
        if self.pad_resources or not constants.is_resource(value):
            data.padding = _padding(data)
        return data

    def block_scaled(
        self, operation: Operation, name: str, value: Attribute, tensor: Tensor
    ) -> None:
        label = self.bytecode.names[operation.name]
        count = tensor.element_count()
        assert count is not None
        assert tensor.scale is not None
        try:
            tensor.data, tensor.scale.data = constants.block_scaled(
                value, tensor.dtype, count, int(tensor.scale.shape)
            )
        except constants.Unreadable as problem:
            self.say(operation, "constant-form", f"'{label}' attribute {name}: {problem}")


def _padding(data: Constant) -> int:
    return 0 if data.dtype.name in _UNPADDED else -data.nbytes % PADDING
