"""The builder of a program: variables, regions, and the program at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from tosa_convert.build.block_builder import names_of
from tosa_convert.build.operators import Operators
from tosa_convert.build.values import Data, DTypeLike, Value, Variable, dtype_of
from tosa_convert.errors import fail
from tosa_convert.graph.model import BlockScale, Graph, Operator, Region, ShapeValue, Tensor, Version, quoted
from tosa_convert.graph.names import unused_name
from tosa_convert.graph.opset import IDENTITY, AttributeValue, OperatorSpec, operator
from tosa_convert.graph.verify import refuse_unsound
from tosa_convert.graph.versions import V1_1_DRAFT, lowest_version
from tosa_convert.spec.operator_view import OperatorView
from tosa_convert.spec.rules.core import Violation
from tosa_convert.spec.values import ShapeType, TensorType, TypeTable, ValueType
from tosa_convert.spec.verdict import judge

_COND_IF: Final = operator("COND_IF")
_WHILE_LOOP: Final = operator("WHILE_LOOP")
_CUSTOM: Final = operator("CUSTOM")
_VARIABLE_WRITE: Final = operator("VARIABLE_WRITE")

#: A function that builds a region: it gets the region's builder and its arguments, and returns its
#: results.
Body = Callable[..., Value | Sequence[Value]]


class Builder(Operators):
    """Builds a program, operator by operator.

    Each operator of TOSA is a function of its name in lower case. Its arguments have the names of the
    operator table. Where an operand is a constant, an array or numbers will do; zero points and shifts
    are 0 by default. The shapes and element types of results are inferred. A call that TOSA forbids
    raises an error with the name of the rule, and adds nothing.

    Args:
        name: The name of the main region.

    Example:
        >>> builder = Builder("net")
        >>> x = builder.input("x", "fp32", (1, 8))
        >>> y = builder.add(x, [[1.0]])
        >>> y
        Value(add: FP32 [1, 8])
        >>> builder.output(y, name="y")
        >>> builder.graph()
        Graph(TOSA 1.0.0, 1 region, 2 operators, (x: FP32 [1, 8]) -> (y: FP32 [1, 8]))
    """

    def __init__(self, name: str = "main") -> None:
        super().__init__(name)
        self._regions = [Region(name, [self._block])]
        self._variables: dict[str, Tensor] = {}

    # -- variables -------------------------------------------------------------------------------

    def variable(
        self, name: str, dtype: DTypeLike, shape: Sequence[int], initial: Data | None = None
    ) -> Variable:
        """Declare a variable: state that outlives a run.

        Args:
            name: Its name, by which runs refer to it.
            dtype: Its element type.
            shape: Its sizes in elements.
            initial: Its initial value, in its shape; None if it has none.

        Raises:
            TosaConvertError: "duplicate-name", "unsupported-dtype", "value-out-of-range".
        """
        if name in self._variables:
            raise fail("duplicate-name", self._where(), f"there is a variable {quoted(name)} already")
        element = dtype_of(dtype)
        tensor = Tensor("", element, tuple(map(int, shape)), variable=True, variable_name=name)
        if initial is not None:
            array = np.broadcast_to(np.asarray(initial), tensor.shape or ())
            tensor.data = self._constant(array, element)
        self._variables[name] = tensor
        return Variable(name, self._table.tensor(element, tensor.shape))

    def read(self, variable: Variable, *, name: str = "") -> Value:
        """The value of a variable at this point of the program."""
        source = self._of_variable(variable)
        chosen = self._name(name, "variable_read")
        value = self._tensor(chosen, Tensor(chosen, variable.type.dtype, variable.type.shape))
        self._block.operators.append(Operator(IDENTITY, (source,), (chosen,)))
        return value

    def write(self, variable: Variable, value: Value | Data) -> None:
        """Set a variable.

        Raises:
            TosaConvertError: "invalid-operator" if the value does not have the variable's type.
        """
        given = self._operand(value, variable.type.dtype, variable.type.rank)
        if given.type is not variable.type and (
            given.dtype is not variable.type.dtype or given.shape != variable.type.shape
        ):
            self._refuse(
                Operator(_VARIABLE_WRITE, (given.name,), (variable.name,)),
                [Violation("type", f"the value is {given.type}", f"{variable.type}, as it is declared")],
            )
        target = self._of_variable(variable)
        self._block.operators.append(Operator(IDENTITY, (given.name,), (target,)))

    def _of_variable(self, variable: Variable) -> str:
        """The name of the tensor that stands for a variable in this block."""
        for tensor in self._block.tensors.values():
            if tensor.variable and tensor.variable_name == variable.name:
                return tensor.name
        declared = self._variables[variable.name]
        name = self._name("", variable.name)
        self._block.tensors[name] = replace(declared, name=name)
        return name

    # -- regions and other domains ---------------------------------------------------------------

    def cond_if(
        self,
        condition: Value,
        inputs: Sequence[Value],
        then_graph: Body,
        else_graph: Body,
        *,
        name: str | Sequence[str] = "",
    ) -> tuple[Value, ...]:
        """Run one of two regions.

        Args:
            condition: A BOOL tensor of one element.
            inputs: The operands of the regions. A region uses no other values.
            then_graph: Builds the region that runs if the condition is true.
            else_graph: Builds the other one.
            name: Names of the results.

        Returns:
            The results, which both regions return with the same types.

        Example:
            >>> builder = Builder()
            >>> c, x = builder.input("c", "bool", ()), builder.input("x", "fp32", (4,))
            >>> (y,) = builder.cond_if(c, [x], lambda b, x: b.abs(x), lambda b, x: b.exp(x))
            >>> y.shape
            (4,)
        """
        attributes: dict[str, AttributeValue] = {}
        types: list[ValueType] = []
        for key, body in (("then_graph", then_graph), ("else_graph", else_graph)):
            attributes[key], types = self._region(key.partition("_")[0], body, inputs)
        return self._run_regions(_COND_IF, (condition, *inputs), attributes, types, name)

    def while_loop(
        self,
        inputs: Sequence[Value],
        cond_graph: Body,
        body_graph: Body,
        *,
        name: str | Sequence[str] = "",
    ) -> tuple[Value, ...]:
        """Run a region as long as another one returns true.

        Args:
            inputs: The state before the first iteration.
            cond_graph: Builds the region that says whether to go on: it returns one BOOL.
            body_graph: Builds the region that returns the next state.
            name: Names of the results.

        Returns:
            The state after the last iteration.
        """
        attributes: dict[str, AttributeValue] = {}
        attributes["cond_graph"], _ = self._region("cond", cond_graph, inputs)
        attributes["body_graph"], types = self._region("body", body_graph, inputs)
        return self._run_regions(_WHILE_LOOP, inputs, attributes, types, name)

    def custom(
        self,
        inputs: Sequence[Value],
        results: Sequence[tuple[DTypeLike, Sequence[int] | None]],
        *,
        operator_name: str,
        domain_name: str,
        implementation_attrs: bytes = b"",
        name: str | Sequence[str] = "",
    ) -> tuple[Value, ...]:
        """An operator of another domain.

        Args:
            inputs: Its operands.
            results: The element type and shape of each result.
            operator_name: Its name in the domain.
            domain_name: The domain.
            implementation_attrs: Any bytes, for the implementation.
            name: Names of the results.
        """
        types: list[ValueType] = [
            self._table.tensor(dtype_of(kind), None if shape is None else tuple(shape))
            for kind, shape in results
        ]
        attributes: dict[str, AttributeValue] = {
            "operator_name": operator_name,
            "domain_name": domain_name,
            "implementation_attrs": implementation_attrs,
        }
        for value in inputs:
            self._refuse_foreign(value)
        draft = Operator(_CUSTOM, tuple(value.name for value in inputs), (), attributes)
        return self._add(draft, types, names_of(name))

    def graph(self, *, version: Version | None = None) -> Graph:
        """The program. version: of TOSA; by default the lowest that has all of it.

        Raises:
            TosaConvertError: What `verify` finds, such as a program without results.
        """
        made = Graph(version or V1_1_DRAFT, self._regions)
        if version is None:
            made = replace(made, version=lowest_version(made))
        refuse_unsound(made)
        return made

    def _region(
        self, kind: str, body: Body, inputs: Sequence[Value]
    ) -> tuple[str, list[ValueType]]:
        """Build a region; returns its name and the types of its results."""
        name = unused_name(f"{self._block.name}_{kind}", {row.name for row in self._regions})
        inner = Builder(name)
        inner._regions, inner._variables, inner._table = self._regions, self._variables, self._table
        self._regions.append(Region(name, [inner._block]))
        arguments = []
        for value in inputs:
            self._refuse_foreign(value)
            arguments.append(inner._argument(value))
        returned = body(inner, *arguments)
        values = (returned,) if isinstance(returned, Value) else tuple(returned)
        inner.output(*values)
        return name, [value.type for value in values]

    def _argument(self, value: Value) -> Value:
        """An argument of a region, of the type of an operand."""
        type_ = value.type
        self._block.inputs.append(value.name)
        if isinstance(type_, ShapeType):
            self._block.shapes[value.name] = ShapeValue(value.name, type_.rank)
            return Value(value.name, self._table.shape((None,) * type_.rank), self._block)
        scale = None if type_.scale is None else BlockScale(*type_.scale)
        return self._tensor(value.name, Tensor(value.name, type_.dtype, type_.shape, scale=scale))

    def _run_regions(
        self,
        spec: OperatorSpec,
        operands: Sequence[Value],
        attributes: dict[str, AttributeValue],
        types: Sequence[ValueType],
        name: str | Sequence[str],
    ) -> tuple[Value, ...]:
        for value in operands:
            self._refuse_foreign(value)
        draft = Operator(spec, tuple(value.name for value in operands), (), attributes)
        inputs = tuple(value.type for value in operands)
        regions = {region.name: region.blocks[0] for region in self._regions}
        view = OperatorView(draft, inputs, tuple(types), regions)
        violations = judge(view).violations
        if violations:
            self._refuse(draft, violations)
        plain = [
            self._table.tensor(type_.dtype, type_.shape, type_.scale)
            if isinstance(type_, TensorType)
            else self._table.shape((None,) * type_.rank)
            for type_ in types
        ]
        return self._add(draft, plain, names_of(name))
