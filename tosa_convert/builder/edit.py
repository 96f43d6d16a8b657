"""Edit programs: a function of the caller sees each operator, and puts others in its place."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from operator import is_
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from tosa_convert.builder.values import Data, DTypeLike, complete_attributes, dtype_of
from tosa_convert.errors import fail, refuse_unknown
from tosa_convert.graph.constant import Constant, constant_of
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.dtypes import INT64, DType
from tosa_convert.graph.model import (
    DYNAMIC,
    UNKNOWN_LOCATION,
    Block,
    Graph,
    Operator,
    ShapeValue,
    Tensor,
    block_path,
    element_value,
    in_usual_order,
    operator_path,
    quoted,
    require_graphs,
)
from tosa_convert.graph.opset import (
    CONST,
    CONST_SHAPE,
    IDENTITY,
    OPERATORS,
    AttributeValue,
    OperatorSpec,
    operator,
)
from tosa_convert.graph.verify import refuse_unsound

if TYPE_CHECKING:
    from tosa_convert.builder.infer_results import Inference
    from tosa_convert.rules.operator_view import ValueType

__all__ = ["BlockEditor", "rewrite"]

# -- the values of a block that is edited: what is known of them, and new ones ---------------------

#: Larger buffers are not read to find out whether all elements are equal, in bytes.
_MOST_COMPARED: Final = 1 << 16
#: Larger constants are equal only if they share memory.
_SMALL_BYTES: Final = 1 << 8


class BlockValues:
    """Know the values of a block by name, and the operators that define them; see `BlockEditor`."""

    #: Whether equal constants that are made are one constant.
    shares_constants = True

    def __init__(self, block: Block, where: str = "") -> None:
        self.source = block
        self.where = where or f"block {quoted(block.name)}"
        self.tensors = dict(block.tensors)
        self.shapes = dict(block.shapes)
        self.operators: list[Operator] = []
        self.producers: dict[str, Operator] = {}
        self.location = ""
        self.stem = ""
        #: `constant_key` of a constant, or the sizes of a constant shape -> the first one that has it.
        self.constants: dict[object, str] = {}
        self._bits: dict[str, bytes | None] = {}
        self._taken = ChainMap[str, Any](self.tensors, self.shapes)
        self._numbers: dict[str, int] = {}

    def add(self, op: Operator) -> None:
        """Add an operator after those that were added; its operands and results are declared."""
        self.operators.append(op)
        for name in op.outputs:
            self.producers[name] = op

    # -- what is known ---------------------------------------------------------------------------

    def data_of(self, name: str) -> Constant | None:
        """Return the data of a tensor that a CONST defines; None for any other value."""
        producer = self.producers.get(name)
        if producer is None or producer.spec is not CONST:
            return None
        tensor = self.tensors[name]
        return tensor.data if tensor.scale is None else None

    def bits_of(self, name: str) -> bytes | None:
        """Return the bits that all elements of a constant have.

        None for any other value, or if they differ or are too many to read.
        """
        if name not in self._bits:
            data = self.data_of(name)
            self._bits[name] = None if data is None else _uniform_bits(data)
        return self._bits[name]

    def number_of(self, name: str) -> bool | int | float | None:
        """Return the value that all elements of a constant have; None as for `bits_of`."""
        bits = self.bits_of(name)
        return None if bits is None else _number(bits, self.tensors[name].dtype)

    def sizes_of(self, name: str) -> tuple[int, ...] | None:
        """Return the sizes of a shape that a CONST_SHAPE defines; None for any other value."""
        producer = self.producers.get(name)
        if producer is None or producer.spec is not CONST_SHAPE:
            return None
        return self.shapes[name].values()

    # -- new values ------------------------------------------------------------------------------

    def fresh_name(self, wanted: str = "") -> str:
        """Return a name that no value has: the wanted one or a similar one."""
        return unused_name(wanted or self.stem or "value", self._taken, numbers=self._numbers)

    def new_tensor(self, wanted: str, dtype: DType, shape: tuple[int, ...] | None) -> str:
        """Add a tensor, which an operator has to define; return its name, `wanted` or a similar one."""
        name = self.fresh_name(wanted)
        self.tensors[name] = Tensor(name, dtype, shape)
        return name

    def constant(self, elements: Data, dtype: DTypeLike, *, name: str = "") -> str:
        """Return the name of a constant: a new one, or one with these elements that was made before.

        Args:
            elements: Its elements, in its shape. Floating-point numbers are rounded.
            dtype: Its element type.
            name: The name that it gets, or a similar one.

        Raises:
            TosaConvertError: "value-out-of-range"; "unsupported-dtype".

        Example:
            >>> import tosa_convert as tc
            >>> from tosa_convert.graph import Block
            >>> edit = tc.edit.BlockEditor(Block("main"))
            >>> edit.constant([[1, 2]], "int8", name="weight")
            'weight'
            >>> edit.tensors["weight"]
            Tensor("weight", INT8 [1, 2], constant)
        """
        array = np.asarray(elements)
        return self.constant_of(self._data(array, dtype_of(dtype)), array.shape, name=name)

    def constant_of(self, data: Constant, shape: tuple[int, ...], *, name: str = "") -> str:
        """Return the name of a constant with this data, as `constant` does."""
        key = constant_key(Tensor("", data.dtype, shape, data)) if self.shares_constants else None
        if key in self.constants:
            return self.constants[key]
        data.padding = data.usual_padding
        made = self.new_tensor(name or self._named("constant"), data.dtype, shape)
        self.tensors[made].data = data
        return self._add_constant(CONST, made, key)

    def number(self, value: float, like: str, *, name: str = "") -> str:
        """Return the name of a constant of one element, which broadcasts with a tensor.

        Args:
            value: The element.
            like: A tensor, whose element type and rank it has.
            name: The name that it gets, or a similar one.

        Raises:
            TosaConvertError: "value-out-of-range".

        Example:
            >>> import tosa_convert as tc
            >>> from tosa_convert.graph import Block, Tensor, dtype
            >>> x = Tensor("x", dtype("FP32"), (2, 3))
            >>> edit = tc.edit.BlockEditor(Block("main", tensors={"x": x}))
            >>> edit.tensors[edit.number(0.5, like="x")]
            Tensor("constant", FP32 [1, 1], constant)
        """
        tensor = self.tensors[like]
        ones = (1,) * len(tensor.shape or ())
        return self.constant_of(self._data(np.array([value]), tensor.dtype), ones, name=name)

    def const_shape(self, sizes: Sequence[int], *, name: str = "") -> str:
        """Return the name of a constant of type !tosa.shape, as `constant` does.

        Raises:
            TosaConvertError: "value-out-of-range" for a size that does not fit into 64 bits.
        """
        key = tuple(sizes) if self.shares_constants else None
        if key in self.constants:
            return self.constants[key]
        data = self._data(np.array(sizes or (), object), INT64)
        made = self.fresh_name(name or self._named("sizes"))
        self.shapes[made] = ShapeValue(made, len(sizes), data)
        return self._add_constant(CONST_SHAPE, made, key)

    def _add_constant(self, spec: OperatorSpec, name: str, key: object) -> str:
        if key is not None:
            self.constants[key] = name
        self.add(Operator(spec, (), (name,), {}, self.location))
        return name

    # -- inside ----------------------------------------------------------------------------------

    def _named(self, kind: str) -> str:
        return f"{self.stem}_{kind}" if self.stem else kind

    def _data(self, array: npt.NDArray[Any], element: DType) -> Constant:
        try:
            return constant_of(array, element)
        except ValueError as error:
            raise fail("value-out-of-range", self.where, str(error)) from None


#: Programs have few different numbers in many constants.
_number: Final = lru_cache(1 << 10)(element_value)


def _uniform_bits(data: Constant) -> bytes | None:
    if data.count == 1 and not data.dtype.is_packed:
        return bytes(data.buffer)
    if not data.splat and len(data.buffer) > _MOST_COMPARED:
        return None
    element = data.uniform()
    return None if element is None else bytes(element)


def constant_key(tensor: Tensor) -> object:
    """Return what equal constants have in common; large ones are not read: it is their memory."""
    data = tensor.data
    assert data is not None
    element, shape, buffer = tensor.dtype, tensor.shape, data.buffer
    if data.splat:
        if len(buffer) * data.count > _SMALL_BYTES:
            return element, shape, "splat", bytes(buffer)
        return element, shape, bytes(buffer) * data.count
    if len(buffer) > _SMALL_BYTES:
        return element, shape, data.unpacked, data.address
    if element.is_packed and not data.unpacked:
        return element, shape, data.elements().tobytes()
    return element, shape, bytes(buffer)


_CONSTANTS: Final = (CONST, CONST_SHAPE)
#: Operators whose results do not follow from their operands.
_NOT_INFERRED: Final = frozenset(
    map(operator, ("CONST", "CONST_SHAPE", "COND_IF", "WHILE_LOOP", "CUSTOM", "VARIABLE"))
)


class BlockEditor(BlockValues):
    """Visits the operators of a block, adds values and operators, and puts others in their place.

    Values go by their names, as in `graph.Block`. What is emitted goes before the operator that is
    visited, and gets its location. The given block does not change; `finish` returns the new one.

    Args:
        block: The block.
        where: Its path, for messages.

    Attributes:
        source: The block as it was given.
        tensors, shapes: Its values and the new ones, by name.
        operators: Those that were visited or emitted, in order.
        producers: The name of a value -> the one of `operators` that defines it.
        location: The location that operators get from now on.
        stem: How the names of new values begin that get no name of their own.

    Example:
        >>> import tosa_convert as tc
        >>> from tosa_convert.builder import Builder
        >>> b = Builder()
        >>> b.output(b.negate(b.negate(b.input("x", "fp32", (4,)))), name="y")
        >>> edit = tc.edit.BlockEditor(b.graph().main)
        >>> for op in edit.visit():
        ...     before = edit.producers.get(op.inputs[0]) if op.inputs else None
        ...     if op.spec.name == "NEGATE" and before and before.spec is op.spec:
        ...         edit.replace(op, before.inputs[:1])
        >>> print(edit.finish())
        block "main": (x: FP32 [4]) -> (y: FP32 [4])
          zero = CONST() : FP32 [1]
          negate = NEGATE(x, zero, zero) : FP32 [4]
          y = IDENTITY(x) : FP32 [4]
    """

    def __init__(self, block: Block, where: str = "") -> None:
        super().__init__(block, where)
        #: A value that operators no longer use -> the equal value that they use instead.
        self.same: dict[str, str] = {}
        #: A value -> the result of the block that is equal to it, whose name it takes in the end.
        self._renamed: dict[str, str] = {}
        self._results = frozenset(block.outputs)
        #: An operator with its types and attributes -> the constants of operands that are left out.
        self._defaults: dict[object, tuple[str, ...]] = {}
        #: The operands and results of the visited operator, how many operators are before it, and
        #: whether it goes.
        self._operands: tuple[str, ...] = ()
        self._visited: tuple[str, ...] = ()
        self._start = 0
        self._is_gone = False

    @cached_property
    def kinds(self) -> frozenset[OperatorSpec]:
        """Return the operators that the given block has."""
        return frozenset([op.spec for op in self.source.operators])

    @cached_property
    def uses(self) -> Counter[str]:
        """Return how often operators of the given block take each value, or the block returns it.

        Those that `take_emitted` returns count, too, instead of the operator that they replace, if this
        was asked before.
        """
        taken = [name for op in self.source.operators for name in op.inputs]
        return Counter((*taken, *self.source.outputs))

    # -- new operators ---------------------------------------------------------------------------

    def emit(
        self,
        kind: str | OperatorSpec,
        operands: Sequence[str],
        attributes: Mapping[str, AttributeValue] | None = None,
        *,
        results: Sequence[str] | None = None,
        like: str = "",
        dtype: DTypeLike | None = None,
        name: str = "",
    ) -> str:
        """Add an operator, before the one that is visited.

        TOSA's rules infer the types of its results, unless `results` or `like` say what they are.

        Args:
            kind: Its name, such as "CONV2D", or its row of the operator table.
            operands: The names of its operands. Zero points at the end and the shift of MUL may be left
                out: they are 0.
            attributes: Its attributes; those with a default may be left out.
            results: The names of its results, if the block declares them, as those of the operator that
                it replaces.
            like: A tensor whose type and shape the result has, except for `dtype`.
            dtype: The element type of the first result, where the operands leave a choice.
            name: The name that its result gets, or a similar one.

        Returns:
            The name of its first result. `operators[-1].outputs` are all of them.

        Raises:
            TosaConvertError: "invalid-operator" with a finding for each rule that is broken,
                "malformed-operator", "undefined-name"; "option-conflict" if there is no such operator,
                or if its operands leave a choice of types.

        Example:
            >>> from tosa_convert.graph import Block, Tensor, dtype
            >>> edit = BlockEditor(Block("main", tensors={"x": Tensor("x", dtype("FP32"), (2, 3))}))
            >>> edit.emit("REDUCE_SUM", [edit.emit("MUL", ["x", "x"])], {"axis": 1}, name="squares")
            'squares'
            >>> edit.tensors["squares"]
            Tensor("squares", FP32 [2, 1])
        """
        spec = kind if isinstance(kind, OperatorSpec) else _spec(kind)
        inputs = tuple([self.same.get(operand, operand) for operand in operands])
        made = Operator(
            spec, inputs, tuple(results or ()), complete_attributes(spec, attributes or {})
        )
        dtypes = () if dtype is None else (dtype_of(dtype),)
        if len(operands) < len(spec.operands):
            made.inputs += self._default_operands(made, dtypes)
        if like:
            tensor = self.tensors[like]
            wanted = name or self._named(spec.name.lower())
            made.outputs = (self.new_tensor(wanted, *dtypes or (tensor.dtype,), tensor.shape),)
        elif results is None:
            made.outputs = self._infer(made, dtypes, name)
        made.location = self.location
        self.add(made)
        return made.outputs[0] if made.outputs else ""

    def _infer(self, draft: Operator, dtypes: Sequence[DType], name: str) -> tuple[str, ...]:
        """Declare the results that an operator has by the rules of TOSA; complete its attributes."""
        if draft.spec in _NOT_INFERRED:
            raise TypeError(f"emit(): the results of {draft.spec} do not follow: pass results=")
        from tosa_convert.builder.infer_results import new_value

        types = [self._type(draft, operand) for operand in draft.inputs]
        self._inference.check_form(draft, types)
        inferred = self._inference.results(draft, types, dtypes)
        draft.attributes.update(inferred.attributes)
        names = []
        for type_ in inferred.types:
            names.append(self.fresh_name(name or self._named(draft.spec.name.lower())))
            value = new_value(names[-1], type_)
            if isinstance(value, Tensor):
                self.tensors[value.name] = value
            else:
                self.shapes[value.name] = value
        return tuple(names)

    @cached_property
    def _inference(self) -> Inference:
        # Not imported by upgrades of programs, which say the types of all values.
        from tosa_convert.builder.infer_results import Inference
        from tosa_convert.rules.operator_view import TypeTable

        return Inference(TypeTable(), self._path)

    def _type(self, draft: Operator, name: str) -> ValueType:
        table = self._inference.table
        if name in self.tensors:
            return table.of_tensor(self.tensors[name], with_data=name in self.producers)
        if name in self.shapes:
            return table.of_shape(self.shapes[name])
        raise fail("undefined-name", self._path(draft), f"there is no value {quoted(name)}")

    def _default_operands(self, draft: Operator, dtypes: Sequence[DType]) -> tuple[str, ...]:
        """Return the constants of operands that are left out; nothing if one has no default."""
        spec = draft.spec
        left_out = spec.operands[len(draft.inputs) :]
        if any(row.arity for row in spec.operands) or None in [row.default for row in left_out]:
            return ()
        given = [self.tensors[name].dtype for name in draft.inputs if name in self.tensors]
        key = (spec, *given, None, *dtypes, *draft.attributes.items())
        if self.shares_constants and key in self._defaults:
            return self._defaults[key]
        from tosa_convert.builder.infer_results import UNKNOWN, Known, element_of_number

        types: list[Known] = [*given, *[UNKNOWN] * len(left_out)]
        constants, location = [], self.location
        for position, row in enumerate(left_out, len(given)):
            element = element_of_number(draft, row, types, position, dtypes, self._path)
            types[position] = element
            name = ""
            if self.shares_constants:
                # Operators at other locations have it, too.
                name, self.location = f"{spec.name.lower()}_{row.name}", UNKNOWN_LOCATION
            constants.append(self.constant([row.default], element, name=name))
            self.location = location
        self._defaults[key] = tuple(constants)
        return self._defaults[key]

    # -- visiting --------------------------------------------------------------------------------

    def visit(self) -> Iterator[Operator]:
        """Iterate over the operators of the block, in order.

        Each has the operands that it has by then. It stays, behind what is emitted meanwhile, unless it
        is replaced or removed, or something that is emitted has its results.
        """
        for op in self.source.operators:
            current = self.current(op)
            self.begin(current)
            yield current
            if not self._is_gone and self.producers.keys().isdisjoint(current.outputs):
                self.add(current)

    def begin(self, op: Operator) -> None:
        self.location = op.location
        self._operands = op.inputs
        self._visited = outputs = op.outputs
        self.stem = outputs[0] if outputs else ""
        self._start = len(self.operators)
        self._is_gone = False

    def current(self, op: Operator) -> Operator:
        """Return an operator with the values that replace its operands."""
        same = self.same
        if not same or same.keys().isdisjoint(op.inputs):
            return op
        inputs = tuple([same.get(name, name) for name in op.inputs])
        return Operator(op.spec, inputs, op.outputs, op.attributes, op.location)

    def remove(self, op: Operator) -> None:
        """Remove the visited operator. Nothing may use its results."""
        self._is_gone = True

    def replace(self, op: Operator, values: Sequence[str]) -> None:
        """Use other values instead of the results of the visited operator, and remove it.

        A value that was emitted meanwhile takes the name of the result. Another one keeps its name, and
        later operators use it. A result of the block keeps its name: if the value cannot take it, an
        IDENTITY has it.

        Args:
            op: The operator.
            values: The names of values, one for each of its results.

        Raises:
            TosaConvertError: "malformed-operator" if a value does not have the type of the result.
        """
        if len(values) != len(op.outputs):
            raise TypeError(f"replace(): found {len(values)} values, expected {len(op.outputs)}")
        taken: dict[str, str] = {}
        for result, value in zip(op.outputs, values, strict=True):
            value = taken.get(value, self.same.get(value, value))
            emitted = (one for one in self.operators[self._start :] if one.spec not in _CONSTANTS)
            if value not in op.outputs and any(value in one.outputs for one in emitted):
                self._refuse_other_type(op, result, value)
                taken[value] = result
                self._rename_emitted(value, result)
            elif self.can_stand_for(value, result):
                self.substitute(value, result)
            else:
                self._refuse_other_type(op, result, value)
                self.add(Operator(IDENTITY, (value,), (result,), {}, op.location))
        self._is_gone = True

    def substitute(self, value: str, result: str) -> None:
        """Use a value instead of a result of the visited operator; `can_stand_for` allows it."""
        self.same[result] = value
        self.uses[value] += self.uses[result]
        if result in self._results:
            self._renamed[value] = result
        self._is_gone = True

    def can_replace(self, op: Operator, value: str) -> bool:
        """Return whether `replace` removes the operator, of one result, for a value of equal type."""
        (result,) = op.outputs
        if self.can_stand_for(value, result):
            return True
        one, other = self.tensors.get(value), self.tensors.get(result)
        return op.spec is not IDENTITY and one is not None and _equal_types(one, other)

    def can_stand_for(self, value: str, result: str) -> bool:
        """Return whether a value can be used instead of a result, and all results keep their names."""
        if value in self.shapes and result in self.shapes:
            ranks = {self.shapes[name].rank for name in (value, result)}
            return len(ranks) == 1 and result not in self._results
        one, other = self.tensors.get(value), self.tensors.get(result)
        if one is None or not _equal_types(one, other):
            return False
        if result not in self._results:
            return True
        return value in self.producers and value not in self._results and value not in self._renamed

    def replace_by_constant(self, op: Operator, data: Constant) -> None:
        """Make the only result of the visited operator a constant."""
        (name,) = op.outputs
        if name in self.tensors:
            spec = CONST
            self.tensors[name] = replace(self.tensors[name], data=data)
        else:
            spec = CONST_SHAPE
            self.shapes[name] = replace(self.shapes[name], data=data)
        self.add(Operator(spec, (), (name,), {}, op.location))

    def take_emitted(self) -> list[Operator]:
        """Remove the operators that were emitted for the visited one, except new constants."""
        self.uses.subtract(self._operands)
        if len(self.operators) == self._start:
            return []
        emitted = self.operators[self._start :]
        del self.operators[self._start :]
        taken = []
        for op in emitted:
            if op.spec in _CONSTANTS and op.outputs[0] not in self._visited:
                self.operators.append(op)
                continue
            taken.append(op)
            self.uses.update(op.inputs)
            for name in op.outputs:
                del self.producers[name]
        return taken

    def finish(self) -> Block:
        """Return the block with what was changed; the given one if nothing was."""
        operators = self.operators
        if len(operators) == len(self.source.operators) and all(
            map(is_, operators, self.source.operators)
        ):
            return self.source
        if self._renamed:
            operators = [_with_names(op, self._renamed) for op in operators]
            for old, new in self._renamed.items():
                self.tensors[new] = replace(self.tensors.pop(old), name=new)
        self._forget_undefined(operators)
        tensors, shapes = in_usual_order(self.tensors), dict(sorted(self.shapes.items()))
        return replace(self.source, operators=operators, tensors=tensors, shapes=shapes)

    # -- inside ----------------------------------------------------------------------------------

    def _path(self, draft: Operator) -> str:
        return operator_path(self.where, len(self.operators), draft)

    def _refuse_other_type(self, op: Operator, result: str, value: str) -> None:
        """Refuse a value that cannot be where a result is. A size that is not known fits any."""
        found, expected = (
            self.tensors.get(name) or self.shapes.get(name) for name in (value, result)
        )
        if found is None or expected is None:
            name = result if expected is None else value
            raise fail("undefined-name", self._path(op), f"there is no value {quoted(name)}")
        if isinstance(found, Tensor) and isinstance(expected, Tensor):
            fits = found.dtype is expected.dtype and _may_be_equal(found.shape, expected.shape)
        else:
            fits = type(found) is type(expected) is ShapeValue and found.rank == expected.rank
        if not fits:
            raise fail(
                "malformed-operator",
                self._path(op),
                f"{quoted(value)} is {found.type_text()}, and replaces {expected.type_text()}",
                "emit a CAST or a RESHAPE",
            )

    def _rename_emitted(self, value: str, result: str) -> None:
        """Give a value that was emitted for the visited operator the name of a result."""
        names = {value: result}
        for index in range(self._start, len(self.operators)):
            op = self.operators[index] = _with_names(self.operators[index], names)
            for name in op.outputs:
                self.producers[name] = op
        del self.producers[value]

    def _forget_undefined(self, operators: list[Operator]) -> None:
        """Remove the values of the block's operators, and new ones, that no operator defines now."""
        defined = {name for op in operators for name in op.outputs}
        before = {name for op in self.source.operators for name in op.outputs}
        gone = [*(before - defined)]
        # What one rule makes, the next one may replace.
        gone += self.tensors.keys() - self.source.tensors.keys() - defined
        gone += self.shapes.keys() - self.source.shapes.keys() - defined
        for name in gone:
            self.tensors.pop(name, None)
            self.shapes.pop(name, None)


def _spec(kind: str) -> OperatorSpec:
    try:
        return operator(kind)
    except KeyError:
        refuse_unknown("operator", kind, [row.name for row in OPERATORS])
        raise


def _with_names(op: Operator, names: Mapping[str, str]) -> Operator:
    if names.keys().isdisjoint(op.inputs) and names.keys().isdisjoint(op.outputs):
        return op
    inputs, outputs = (
        tuple([names.get(name, name) for name in values]) for values in (op.inputs, op.outputs)
    )
    return Operator(op.spec, inputs, outputs, op.attributes, op.location)


def _equal_types(one: Tensor, other: Tensor | None) -> bool:
    if other is None or one.variable or other.variable or one.scale or other.scale:
        return False
    return one.dtype is other.dtype and one.shape == other.shape


def _may_be_equal(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> bool:
    """Return whether two shapes are equal as far as they are known."""
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(
        a == b or DYNAMIC in (a, b) for a, b in zip(one, other, strict=True)
    )


#: Changes a program at an operator that is visited. What it returns is ignored.
Rule = Callable[[Operator, BlockEditor], object]


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """Return the graph with each operator rewritten by a function.

    Args:
        graph: A program that `verify` finds sound. It does not change; the result shares operators,
            tensors and constants with it.
        rule: Is called with each operator of each block, in order, and the `BlockEditor` of the block.
            It may emit operators, and replace or remove the operator that it is called with. It is not
            called with operators that it emits.

    Returns:
        The rewritten graph, which is the same object if nothing was changed. `rewrites.apply` removes
        what no result depends on any more.

    Raises:
        TosaConvertError: What `BlockEditor` refuses; what `verify` finds in the result.

    Example:
        >>> import tosa_convert as tc
        >>> from tosa_convert.builder import Builder
        >>> b = Builder()
        >>> x = b.input("x", "fp32", (2, 3))
        >>> b.output(b.sigmoid(x), name="y")
        >>> def sigmoid_by_tanh(op, edit):
        ...     if op.spec.name == "SIGMOID":
        ...         (x,), half = op.inputs, edit.number(0.5, like=op.inputs[0])
        ...         tanh = edit.emit("TANH", [edit.emit("MUL", [x, half])])
        ...         edit.replace(op, [edit.emit("ADD", [edit.emit("MUL", [tanh, half]), half])])
        >>> graph = tc.edit.rewrite(b.graph(), sigmoid_by_tanh)
        >>> [op.spec.name for op in graph.main.operators]
        ['CONST', 'CONST', 'MUL', 'TANH', 'MUL', 'ADD']
    """
    require_graphs(graph)

    def change(where: str, block: Block) -> Block:
        edit = BlockEditor(block, where)
        for op in edit.visit():
            rule(op, edit)
        return edit.finish()

    made = change_blocks(graph, change)
    if made is not graph:
        refuse_unsound(made)
    return made


def change_blocks(graph: Graph, change: Callable[[str, Block], Block]) -> Graph:
    """Return the graph with each block changed; the same object if all blocks are the same objects."""
    regions = []
    for region in graph.regions:
        blocks = [change(block_path(region.name, block.name), block) for block in region.blocks]
        is_changed = any(new is not old for new, old in zip(blocks, region.blocks, strict=True))
        regions.append(replace(region, blocks=blocks) if is_changed else region)
    if all(new is old for new, old in zip(regions, graph.regions, strict=True)):
        return graph
    return replace(graph, regions=regions)
