"""The builder of a program: variables, regions, and the program at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tosa_convert.builder import values
from tosa_convert.builder.block_builder import all_or_nothing
from tosa_convert.builder.operators import Operators
from tosa_convert.builder.values import Data, DTypeLike, Value, Variable, dtype_of
from tosa_convert.errors import TosaConvertError, fail
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.model import (
    Block,
    Graph,
    Operator,
    Region,
    Tensor,
    Version,
    in_usual_order,
    quoted,
)
from tosa_convert.graph.opset import (
    VARIABLE_READ,
    VARIABLE_WRITE,
    AttributeValue,
    OperatorSpec,
    operator,
)
from tosa_convert.graph.verify import refuse_unsound
from tosa_convert.graph.versions import V1_1_DRAFT, lowest_version
from tosa_convert.rules.operator_view import OperatorView, ShapeType, ValueType
from tosa_convert.rules.validate import judge, program_findings

_COND_IF: Final = operator("COND_IF")
_WHILE_LOOP: Final = operator("WHILE_LOOP")
_CUSTOM: Final = operator("CUSTOM")

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

    # -- variables -------------------------------------------------------------------------------

    @all_or_nothing
    def variable(
        self, name: str, dtype: DTypeLike, shape: Sequence[int], initial: Data | None = None
    ) -> Variable:
        """Declare a variable: state that outlives a run.

        Args:
            name: Its name, by which runs refer to it.
            dtype: Its element type.
            shape: Its sizes in elements.
            initial: Its initial value, in its shape, or one number for all elements; None if it has
                none.

        Raises:
            TosaConvertError: "duplicate-name", "unsupported-dtype", "unsupported-shape",
                "value-out-of-range"; "data-length" if the initial value has another shape.

        Example:
            >>> builder = Builder()
            >>> builder.variable("state", "fp32", (1, 8), initial=0)
            Variable(state: FP32 [1, 8])
        """
        if not values.text("variable() argument name", name):
            raise values.wrong("variable() argument name", name, "a name")
        if name in self._variables:
            message = f"there is a variable {quoted(name)} already"
            raise fail("duplicate-name", self._where(), message, "pass another name")
        element = dtype_of(dtype)
        sizes = values.integers("variable() argument shape", shape)
        tensor = Tensor("", element, sizes, variable=True, variable_name=name)
        if not values.static(sizes):
            message = f"variable {quoted(name)} has the shape {list(sizes)}"
            raise fail("unsupported-shape", self._where(), message, "its sizes must be known")
        if initial is not None:
            tensor.data = self._constant(
                self._filled("variable", "initial", initial, sizes), element
            )
        self._variables[name] = tensor
        variable = Variable(name, self._inference.table.tensor(element, sizes))
        self._of_variable(variable)
        return variable

    @all_or_nothing
    def read(self, variable: Variable, *, name: str = "") -> Value:
        """Read the value of a variable at this point of the program.

        Args:
            variable: What `variable` returned, of this program.
            name: The name of the value; by default a name that is not taken.

        Raises:
            TosaConvertError: "undefined-name" for a variable of another program, "duplicate-name".

        Example:
            >>> builder = Builder()
            >>> builder.read(builder.variable("state", "fp32", (1, 8)))
            Value(variable_read: FP32 [1, 8])
        """
        source = Value(self._of_variable(variable), variable.type, self._block)
        (value,) = self._apply(
            VARIABLE_READ, [source], {}, names=values.names("read() argument name", name)
        )
        return value

    @all_or_nothing
    def write(self, variable: Variable, value: Value | Data) -> None:
        """Set a variable.

        Args:
            variable: What `variable` returned, of this program.
            value: Its next value; numbers become a constant of its type, one number for all elements.

        Raises:
            TosaConvertError: "invalid-operator" if the value does not have the variable's type;
                "undefined-name" for a variable of another program.

        Example:
            >>> builder = Builder()
            >>> state = builder.variable("state", "fp32", (1, 8), initial=0)
            >>> builder.write(state, builder.add(builder.read(state), 1.0))
        """
        target = self._of_variable(variable)
        type_ = variable.type
        if not isinstance(value, Value):
            value = self.const(
                self._filled("write", "value", value, type_.shape or ()), type_.dtype
            )
        self._refuse_foreign(value)
        draft = Operator(VARIABLE_WRITE, (value.name,), (target,))
        violations = judge(OperatorView(draft, (value.type,), (type_,))).violations
        if violations:
            self._inference.refuse(draft, violations)
        self._append(draft)

    def _filled(self, method: str, argument: str, data: Data, shape: tuple[int, ...]) -> Any:
        """Return the data of a variable in its shape; one number is for all elements."""
        array = values.array(f"{method}() argument {argument}", data)
        if array.shape not in ((), shape):
            raise fail(
                "data-length",
                self._where(),
                f"{argument} has the shape {list(array.shape)}, expected {list(shape)}",
                "pass all elements, or one number for all of them",
            )
        return np.broadcast_to(array, shape).copy()

    def _of_variable(self, variable: Variable) -> str:
        """Return the name of the tensor that stands for a variable in this block."""
        if not isinstance(variable, Variable):
            raise TypeError(f"found {variable!r}, expected a variable, as variable() returns")
        declared = self._variables.get(variable.name)
        if declared is None:
            message = f"variable {quoted(variable.name)} is not declared in this program"
            raise fail("undefined-name", self._where(), message, "declare it with variable()")
        name = self._tensor_of.get(variable.name)
        if name is None:
            name = self._tensor_of[variable.name] = self._name("", variable.name)
            self._declare(replace(declared, name=name))
        return name

    # -- regions and other domains ---------------------------------------------------------------

    @all_or_nothing
    def cond_if(
        self,
        condition: Value | bool,
        inputs: Sequence[Value],
        then_graph: Body,
        else_graph: Body,
        *,
        name: str | Sequence[str] = "",
    ) -> tuple[Value, ...]:
        """Run one of two regions.

        Args:
            condition: A BOOL tensor of one element; or True or False.
            inputs: The operands of the regions. A region uses no other values.
            then_graph: Builds the region that runs if the condition is true.
            else_graph: Builds the other one.
            name: Names of the results.

        Returns:
            The results, which both regions return with the same types.

        Raises:
            TosaConvertError: "invalid-operator" if the regions return different types;
                "captured-value" if a region uses other values than its arguments.

        Example:
            >>> builder = Builder()
            >>> c, x = builder.input("c", "bool", ()), builder.input("x", "fp32", (4,))
            >>> (y,) = builder.cond_if(c, [x], lambda b, x: b.abs(x), lambda b, x: b.exp(x))
            >>> y.shape
            (4,)
        """
        inputs = values.values("cond_if() argument inputs", inputs)
        if isinstance(condition, (bool, np.bool_)):
            condition = self.const(np.asarray(condition))
        values.value("cond_if() argument condition", condition)
        attributes: dict[str, AttributeValue] = {}
        types: list[ValueType] = []
        for key, body in (("then_graph", then_graph), ("else_graph", else_graph)):
            attributes[key], types = self._build_region("cond_if", key, body, inputs)
        return self._run_regions(_COND_IF, (condition, *inputs), attributes, types, name)

    @all_or_nothing
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

        Raises:
            TosaConvertError: "invalid-operator" if the body returns other types than it gets, or the
                condition something else than one BOOL; "captured-value" if a region uses other
                values than its arguments.

        Example:
            >>> builder = Builder()
            >>> x = builder.input("x", "int32", ())
            >>> (y,) = builder.while_loop(
            ...     [x], lambda b, x: b.greater(100, x), lambda b, x: b.mul(x, 2)
            ... )
            >>> y.shape
            ()
        """
        inputs = values.values("while_loop() argument inputs", inputs)
        attributes: dict[str, AttributeValue] = {}
        attributes["cond_graph"], _ = self._build_region(
            "while_loop", "cond_graph", cond_graph, inputs
        )
        attributes["body_graph"], types = self._build_region(
            "while_loop", "body_graph", body_graph, inputs
        )
        return self._run_regions(_WHILE_LOOP, inputs, attributes, types, name)

    @all_or_nothing
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
        """Add an operator of another domain.

        Args:
            inputs: Its operands.
            results: The element type and shape of each result.
            operator_name: Its name in the domain.
            domain_name: The domain.
            implementation_attrs: Any bytes, for the implementation.
            name: Names of the results.

        Returns:
            Its results.

        Raises:
            TosaConvertError: "unsupported-dtype"; "duplicate-name".

        Example:
            >>> builder = Builder()
            >>> x = builder.input("x", "fp32", (4,))
            >>> builder.custom([x], [("fp32", (4,))], operator_name="GELU", domain_name="acme")
            (Value(custom: FP32 [4]),)
        """
        operands = values.values("custom() argument inputs", inputs)
        types: list[ValueType] = [
            self._inference.table.tensor(
                dtype_of(kind), values.shape("custom() argument results", shape)
            )
            for kind, shape in results
        ]
        if not isinstance(implementation_attrs, bytes):
            label = "custom() argument implementation_attrs"
            raise values.wrong(label, implementation_attrs, "bytes")
        attributes: dict[str, AttributeValue] = {
            "operator_name": values.text("custom() argument operator_name", operator_name),
            "domain_name": values.text("custom() argument domain_name", domain_name),
            "implementation_attrs": implementation_attrs,
        }
        for value in operands:
            self._refuse_foreign(value)
        draft = Operator(_CUSTOM, tuple(value.name for value in operands), (), attributes)
        return self._add(draft, types, values.names("custom() argument name", name))

    # -- the program -----------------------------------------------------------------------------

    def graph(self, *, version: Version | None = None) -> Graph:
        """Return the program so far. What is added later does not change it.

        Args:
            version: The TOSA version that it is written for; by default the lowest that has all of it.

        Raises:
            TosaConvertError: "malformed-structure" for a program that neither returns a value nor
                writes a variable; what `verify` finds.

        Example:
            >>> builder = Builder("net")
            >>> x = builder.input("x", "fp32", (1, 8))
            >>> builder.output(builder.tanh(x), name="y")
            >>> print(builder.graph())
            Graph(TOSA 1.0.0, 1 region, 1 operator, (x: FP32 [1, 8]) -> (y: FP32 [1, 8]))
            region "net"
              block "main": (x: FP32 [1, 8]) -> (y: FP32 [1, 8])
                y = TANH(x) : FP32 [1, 8]
        """
        if not self._block.outputs and not self._variables:
            message = "the program returns nothing"
            raise fail(
                "malformed-structure", self._where(), message, "call output() with its results"
            )
        made = Graph(version or V1_1_DRAFT, [self._copied(region) for region in self._regions])
        if version is None:
            made = replace(made, version=lowest_version(made))
        refuse_unsound(made)
        findings = list(program_findings(made))
        if findings:
            raise TosaConvertError(findings)
        return made

    def _copied(self, region: Region) -> Region:
        (block,) = region.blocks
        copy = Block(
            block.name,
            list(block.inputs),
            list(block.outputs),
            list(block.operators),
            # Modules declare variables by name, and `tosa-opt` lists the last declared one first.
            in_usual_order(dict(sorted(block.tensors.items(), reverse=True))),
            dict(sorted(block.shapes.items())),
        )
        return Region(region.name, [copy])

    # -- regions ---------------------------------------------------------------------------------

    def _build_region(
        self, method: str, argument: str, body: Body, inputs: Sequence[Value]
    ) -> tuple[str, list[ValueType]]:
        kind = argument.partition("_")[0]
        name = unused_name(f"{self._region}_{kind}", {row.name for row in self._regions})
        inner = Builder(name)
        inner._variables, inner.location = self._variables, self.location
        inner._inference.table = self._inference.table
        inner._block.name = f"{name}_bb0"
        self._regions.append(inner._regions[0])
        inner._regions = self._regions
        given = []
        for value in inputs:
            self._refuse_foreign(value)
            given.append(inner._argument(value))
        if not callable(body):
            raise values.wrong(f"{method}() argument {argument}", body, "a function")
        returned = body(inner, *given)
        results = (returned,) if isinstance(returned, Value) else returned
        label = f"{method}(): the result of {argument}"
        inner.output(*values.values(label, results))
        inner._is_finished = True
        return name, [inner._type_of(output) for output in inner._block.outputs]

    def _type_of(self, name: str) -> ValueType:
        block = self._block
        if name in block.shapes:
            return self._inference.table.shape((None,) * block.shapes[name].rank)
        return self._inference.table.of_tensor(block.tensors[name], with_data=False)

    def _argument(self, value: Value) -> Value:
        """Add an argument of a region, of the type of an operand."""
        type_: ValueType = self._inference.without_data(value.type)
        if isinstance(type_, ShapeType):
            type_ = self._inference.table.shape((None,) * type_.rank)
        name = self._name("", value.name)
        self._block.inputs.append(name)
        return self._value(name, type_)

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
        violations = judge(OperatorView(draft, inputs, tuple(types), regions)).violations
        if violations:
            self._inference.refuse(draft, violations)
        label = f"{spec.name.lower()}() argument name"
        return self._add(draft, types, values.names(label, name))
