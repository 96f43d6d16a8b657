"""Computes a function of a StableHLO module with `jax.lax`, so that JAX traces it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
from jax.extend.mlir import ir

from tosa_convert.frontends.jax.table import REFUSED
from tosa_convert.frontends.lowering.scope import NotLowered
from tosa_convert.frontends.stablehlo.attributes import Attributes, dtype_of, shape_of, zeros_of

#: Calls a function of the module, or a region, with arrays.
Function = Callable[..., list[Any]]
#: Scope of the equations of an operation: this and the operation's number.
SCOPE: Final = "stablehlo."
_NO_RULE: Final = ("the operation has no lowering to TOSA", "compute it outside")
#: The operations that end a block.
_RETURNS: Final = frozenset(("stablehlo.return", "func.return", "chlo.return", "mhlo.return"))


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation with its operands.

    name: without its dialect. types: of its results. operand_types: of its operands.
    regions: each as a function.
    call: calls a function of the module by its name.
    """

    name: str
    operands: list[Any]
    attributes: Attributes
    types: Sequence[Any]
    regions: list[Function]
    blocks: list[Any]
    call: Callable[..., list[Any]]
    operand_types: Sequence[Any]


#: Computes the results of an operation.
Rule = Callable[[Operation], Any]


def row(function: Callable[..., Any], *readers: Callable[[Operation], Any]) -> Rule:
    """Return the rule that gives a function the operands, and what is read of the operation."""
    return lambda op: function(*op.operands, *(read(op) for read in readers))


def shape(op: Operation) -> tuple[int, ...]:
    """Return the shape of the first result."""
    return shape_of(op.types[0])


def dtype(op: Operation) -> Any:
    """Return the element type of the first result."""
    return dtype_of(op.types[0])


def numbers(name: str, default: Sequence[int] | None = None) -> Callable[[Operation], Any]:
    """Return what reads an attribute that is an array of numbers."""
    return lambda op: tuple(op.attributes.numbers(name, default))


def number(name: str, default: Any = None) -> Callable[[Operation], Any]:
    """Return what reads an attribute that is one number."""
    return lambda op: op.attributes.number(name, default)


def text(name: str) -> Callable[[Operation], str]:
    """Return what reads an attribute that is a word."""
    return lambda op: op.attributes.text(name)


class Evaluator:
    """Computes functions of a module.

    operations: all operations that were met, in order; an operation's number is its index.
    problems: those that no call of `jax.lax` computes, with the reasons.
    """

    def __init__(self, module: Any, rules: Mapping[str, Rule]) -> None:
        self.rules = rules
        self.operations: list[Any] = []
        self.problems: list[tuple[Any, NotLowered]] = []
        self.functions = {
            ir.StringAttr(operation.attributes["sym_name"]).value: operation
            for operation in module.body.operations
            if "sym_name" in operation.attributes and operation.operation.name == "func.func"
        }

    def call(self, name: str, *arguments: Any) -> list[Any]:
        """Return the results of a function for arrays."""
        if name not in self.functions:
            raise NotLowered(f"the module has no function @{name}", "give the whole module")
        (block,) = self.functions[name].regions[0].blocks
        return self.block(block, arguments, {})

    def block(self, block: Any, arguments: Sequence[Any], outer: Mapping[Any, Any]) -> list[Any]:
        """Return what a block returns. outer: values of the blocks around it."""
        values = dict(outer)
        values.update(zip(block.arguments, arguments, strict=True))
        for held in block.operations:
            operation = held.operation
            operands = [values[value] for value in operation.operands]
            if operation.name in _RETURNS:
                return operands
            number = len(self.operations)
            self.operations.append(operation)
            with jax.named_scope(f"{SCOPE}{number}"):
                results = self._results_or_zeros(operation, operands, values)
            values.update(zip(operation.results, results, strict=True))
        raise NotLowered("a block does not end in a return", "verify the module")

    def _results_or_zeros(
        self, operation: Any, operands: list[Any], values: Mapping[Any, Any]
    ) -> list[Any]:
        """Return the results; zeros for an operation that has no lowering, which is noted."""
        try:
            return self._results(operation, operands, values)
        except NotLowered as problem:
            self.problems.append((operation, problem))
        except (TypeError, ValueError, NotImplementedError) as error:
            # What `jax.lax` refuses.
            lines = str(error).splitlines() or [type(error).__name__]
            self.problems.append((operation, NotLowered(f"JAX refuses it: {lines[0]}")))
        return [zeros_of(result.type) for result in operation.results]

    def _results(self, operation: Any, operands: list[Any], values: Mapping[Any, Any]) -> list[Any]:
        dialect, _, name = operation.name.partition(".")
        rule = self.rules.get(name if dialect in ("stablehlo", "mhlo", "chlo") else operation.name)
        if rule is None:
            raise NotLowered(*REFUSED.get(name, _NO_RULE))
        blocks = [region.blocks[0] for region in operation.regions if len(region.blocks)]
        made = rule(
            Operation(
                name,
                operands,
                Attributes(operation),
                [result.type for result in operation.results],
                [self._function(block, values) for block in blocks],
                blocks,
                self.call,
                [value.type for value in operation.operands],
            )
        )
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def _function(self, block: Any, values: Mapping[Any, Any]) -> Function:
        return lambda *arguments: self.block(block, arguments, values)
