"""The state of the block that is being read, and values that its regions use from outside.

In MLIR a region of `tosa.cond_if` and `tosa.while_loop` sees the values around it, and some frontends
rely on that. A region of a graph sees only its inputs. So, on request, constants are copied into the
region that uses them, and other values become operands of the control-flow operator and inputs of its
regions. In a loop they are state that no iteration changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tosa_convert.formats.mlir.bytecode import operations
from tosa_convert.formats.mlir.bytecode.operations import Operation
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.model import (
    Block,
    Operator,
    Region,
    ShapeValue,
    Tensor,
    counted,
    in_usual_order,
)
from tosa_convert.graph.opset import CONST, CONST_SHAPE, operator
from tosa_convert.records import dataclass, field, replace


@dataclass(slots=True, eq=False, repr=False)
class RegionNames:
    """Names that an import noted for a region; None for those it did not note."""

    name: str | None = None
    block: str | None = None
    inputs: list[str | None] = field(default_factory=list)
    outputs: list[str | None] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class PendingRegion:
    """A region that is named, but whose block is not read yet.

    inputs, outputs: the names that its arguments and results carry; they may be fewer than there are.
    in_function: its values are numbered after those of the function, not from 0.
    runner: the operator that runs it. outer: the scope of that operator's block, whose values the region
        sees; None if it is isolated.
    """

    region: Region
    body: operations.Block
    owner: Operation
    inputs: list[str | None] = field(default_factory=list)
    outputs: list[str | None] = field(default_factory=list)
    in_function: bool = True
    runner: Operator | None = None
    outer: Scope | None = None


@dataclass(slots=True, eq=False, repr=False)
class Scope:
    """The state of the block that is being read.

    item: the region that the block is of.
    tensors, shapes: the values of the block, which are those of `block` once it has been read.
    taken: names that must not be generated. claimed: names that the module carries.
    values: names by the numbers of values; "" for a value that has a finding already.
    names: names that results of operations get, by the numbers of values.
    captured: names of values from outside that were passed in. copies: of constants from outside.
    unsigned: tensors whose elements were unsigned.
    uses: the names of the operations that use each value, made on the first call of `users`.
    """

    item: PendingRegion
    block: Block
    tensors: dict[str, Tensor]
    taken: set[str]
    captured: dict[int, str] = field(default_factory=dict)
    copies: list[Operator] = field(default_factory=list)
    shapes: dict[str, ShapeValue] = field(default_factory=dict)
    values: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    claimed: set[str] = field(default_factory=set)
    unsigned: set[str] = field(default_factory=set)
    pending: list[PendingRegion] = field(default_factory=list)
    uses: dict[int, set[str]] | None = None

    def users(self, value: int, names: list[str]) -> set[str]:
        """Return the names of the operations that use a value of this block.

        names: the full names of operations, by their numbers.
        """
        if self.uses is None:
            self.uses = {}
            blocks = [self.item.body]
            while blocks:
                for fields in blocks.pop().operations:
                    operation = Operation(*fields)
                    for operand in operation.operands:
                        self.uses.setdefault(operand, set()).add(names[operation.name])
                    for region in operation.regions:
                        blocks += region.blocks
        return self.uses.get(value, set())


_WHILE_LOOP: Final = operator("WHILE_LOOP")


class CapturedValues:
    """Makes outside values available in the blocks that use them. `finish` completes the operators."""

    def __init__(self) -> None:
        #: Each control-flow operator with the scopes of its regions, in order.
        self._flows: dict[int, tuple[Operator, list[Scope]]] = {}
        #: Names of values that were passed in or copied, as their own block calls them.
        self._passed: dict[str, None] = {}
        self._copied: dict[str, None] = {}
        self._operators = 0

    def entered(self, scope: Scope) -> None:
        """Note the scope of a region that is about to be read."""
        runner = scope.item.runner
        if runner is not None:
            self._flows.setdefault(id(runner), (runner, []))[1].append(scope)

    def local(self, value: int, scope: Scope) -> str | None:
        """Return the name in a block of a value from outside; None if it cannot be passed in.

        value: its number, which is not among the values of the scope.
        """
        inner = [scope]
        source = scope.item.outer
        while source is not None and value not in source.values:
            inner.append(source)
            source = source.item.outer
        if source is None:
            return None
        name = source.values[value]
        if name == "":
            return name  # it has a finding
        constant = _constant(source, name)
        if constant is not None:
            self._copied[name] = None
            return _copied(scope, value, constant, is_unsigned=name in source.unsigned)
        if name not in source.tensors:
            return None  # a !tosa.shape cannot be an operand of control flow
        self._passed[name] = None
        tensor = source.tensors[name]
        for through in reversed(inner):
            name = _declared(through, replace(tensor, name=f"{tensor.name}_captured"))
            through.values[value] = through.captured[value] = name
            if tensor.name in source.unsigned:
                through.unsigned.add(name)
        return name

    def finish(self) -> None:
        """Give the operators the operands, results and region inputs that were added."""
        for op, scopes in self._flows.values():
            values = list(dict.fromkeys(value for scope in scopes for value in scope.captured))
            if values:
                self._operators += 1
                _complete(op, scopes, values)
            for scope in scopes:
                scope.block.operators[:0] = scope.copies
                if values or scope.copies:
                    _sort(scope.block)
                if values and scope.item.outer is not None:
                    _sort(scope.item.outer.block)

    def report(self) -> Iterator[str]:
        """Iterate over what was passed in and copied, one line for each."""
        if self._passed:
            yield (
                f"passed {counted(len(self._passed), 'captured value')} as operands of "
                f"{counted(self._operators, 'control-flow operator')}: {', '.join(self._passed)}"
            )
        if self._copied:
            yield (
                f"copied {counted(len(self._copied), 'captured constant')} into the regions that use "
                f"them: {', '.join(self._copied)}"
            )


def _constant(source: Scope, name: str) -> Tensor | ShapeValue | None:
    """Return the constant of this name, or None if the value is computed."""
    value = source.tensors.get(name) or source.shapes.get(name)
    return value if value is not None and value.data is not None else None


def _copied(scope: Scope, value: int, constant: Tensor | ShapeValue, *, is_unsigned: bool) -> str:
    """Add a copy of a constant to a block and return its name; both share the data."""
    name = _declared(scope, replace(constant, name=f"{constant.name}_copy"))
    if is_unsigned:
        scope.unsigned.add(name)
    spec = CONST if isinstance(constant, Tensor) else CONST_SHAPE
    scope.copies.append(Operator(spec, (), (name,)))
    scope.values[value] = name
    return name


def _declared(scope: Scope, wanted: Tensor | ShapeValue) -> str:
    # Names that are not in `taken` are generated and have another form.
    wanted.name = unused_name(wanted.name, scope.taken)
    scope.taken.add(wanted.name)
    if isinstance(wanted, Tensor):
        scope.tensors[wanted.name] = wanted
    else:
        scope.shapes[wanted.name] = wanted
    return wanted.name


def _complete(op: Operator, scopes: list[Scope], values: list[int]) -> None:
    """Pass values to an operator, and add them to the inputs of all its regions in one order."""
    outer = scopes[0].item.outer
    assert outer is not None
    names = [outer.values[value] for value in values]
    op.inputs += tuple(names)
    for scope in scopes:
        for value, name in zip(values, names, strict=True):
            if value not in scope.captured:
                tensor = outer.tensors[name]
                local = _declared(scope, replace(tensor, name=f"{name}_captured"))
                scope.captured[value] = local
        scope.block.inputs += [scope.captured[value] for value in values]
    if op.spec is _WHILE_LOOP:
        body = scopes[-1]
        body.block.outputs += [body.captured[value] for value in values]
        for name in names:
            tensor = outer.tensors[name]
            op.outputs += (_declared(outer, replace(tensor, name=f"{name}_unchanged")),)


def _sort(block: Block) -> None:
    """Sort a block's values in the order of tosa-opt: variables first, then everything by name."""
    block.tensors = in_usual_order(block.tensors)
    block.shapes = dict(sorted(block.shapes.items()))
