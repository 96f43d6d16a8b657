"""Computes a function of a StableHLO module with `jax.lax`, so that JAX traces it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.extend.mlir import ir

from tosa_convert.frontends.jax.table import REFUSED
from tosa_convert.frontends.lowering.scope import NotLowered

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
    return shape_of(op.types[0])


def dtype(op: Operation) -> Any:
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


# -- attributes and types as values of Python ------------------------------------------------------

#: Element type of MLIR -> that of JAX. Signless integers are signed ones.
_DTYPES: Final = {
    "i1": "bool",
    **{f"i{bits}": f"int{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "bf16": "bfloat16",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
    **{
        f"f8{name}": f"float8_{name.lower()}"
        for name in ("E3M4", "E4M3", "E4M3FN", "E4M3B11FNUZ", "E4M3FNUZ", "E5M2", "E5M2FNUZ")
    },
    "f8E8M0FNU": "float8_e8m0fnu",
    "f4E2M1FN": "float4_e2m1fn",
}
#: An element of a constant as MLIR prints it: a number, its bits, or a truth value.
_ELEMENT: Final = re.compile(r"0x[0-9A-Fa-f]+|true|false|-?[0-9][-+.0-9e]*")
_HEX: Final = re.compile(r'dense<"0x([0-9A-Fa-f]*)">')


def dtype_of(kind: Any) -> Any:
    """Return the element type of a type of MLIR, such as `tensor<4xf32>` or `f32`."""
    element = str(kind.element_type if hasattr(kind, "element_type") else kind)
    name = _DTYPES.get(element)
    if name is None or not hasattr(jnp, name.replace("bool", "bool_")):
        raise NotLowered(f"the element type {element}", "cast to a type that TOSA has before")
    return np.dtype(jnp.dtype(name))


def shape_of(kind: Any) -> tuple[int, ...]:
    shaped = ir.RankedTensorType(kind)
    if not shaped.has_static_shape:
        raise NotLowered(f"the type {kind} has unknown sizes", "set them with --input-shape")
    return tuple(shaped.shape)


def zeros_of(kind: Any) -> Any:
    """Return zeros of a type; None for a tensor that JAX does not have."""
    try:
        return jnp.zeros(shape_of(kind), dtype_of(kind))
    except (NotLowered, ValueError, TypeError):
        return None


def array_of(attribute: Any) -> npt.NDArray[Any]:
    """Return the elements of a constant; one element for a splat."""
    kind = ir.RankedTensorType(attribute.type)
    dtype, shape = dtype_of(kind), shape_of(kind)
    dense = ir.DenseElementsAttr(attribute)
    if dense.is_splat and dtype.kind in "biuf" and dtype.isbuiltin == 1:
        value: Any = dense.get_splat_value()
        if dtype.kind != "f" or dtype.itemsize >= 4:
            return np.broadcast_to(np.array(value.value, dtype), shape)
    if dtype.isbuiltin == 1:
        try:
            return np.asarray(np.array(dense), dtype).reshape(shape)
        except (TypeError, ValueError):
            pass  # Types that the bindings do not give as arrays are read from the text.
    return _of_text(str(attribute), dtype, shape)


def _of_text(text: str, dtype: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the elements of a constant as MLIR prints it."""
    if found := _HEX.match(text):
        raw = np.frombuffer(bytes.fromhex(found[1]), np.uint8)
        # Integers below 8 bits take a byte each.
        values = raw.view(dtype)
        return values.reshape(shape) if values.size > 1 else np.broadcast_to(values[0], shape)
    inside = text[text.index("<") + 1 : text.rindex(">", 0, text.rindex(":"))]
    words = _ELEMENT.findall(inside)
    if dtype.kind == "c":
        numbers = np.array([float(word) for word in words], np.float64)
        values = (numbers[::2] + 1j * numbers[1::2]).astype(dtype)
    else:
        values = np.array([_element(word, dtype) for word in words], dtype)
    return np.broadcast_to(values.reshape(()), shape) if values.size == 1 else values.reshape(shape)


def _element(word: str, dtype: Any) -> Any:
    if word in ("true", "false"):
        return word == "true"
    if word.startswith("0x"):
        bits = np.array(int(word, 16), f"u{dtype.itemsize}")
        return bits.view(dtype)[()]
    return np.array(float(word) if dtype.kind in "fV" else int(word)).astype(dtype)[()]


class Attributes:
    """Hold the attributes of an operation, by name, as values of Python."""

    def __init__(self, operation: Any) -> None:
        self._operation = operation
        self._all = operation.attributes

    def __contains__(self, name: str) -> bool:
        return name in self._all

    def raw(self, name: str) -> Any:
        return self._all[name]

    def constant(self, kind: Any) -> npt.NDArray[Any]:
        """Return the elements of the constant in `value`, which has this type."""
        dtype = dtype_of(kind)
        if dtype.kind != "c":
            return array_of(self._all["value"])
        # The bindings refuse to return such an attribute, but print it.
        text = self._operation.get_asm()
        return _of_text(
            text[text.index("dense<") :].partition(" : ")[0] + ":", dtype, shape_of(kind)
        )

    def numbers(self, name: str, default: Any = None) -> Any:
        """Return an array of integers or truth values; the default if the operation has none."""
        if name not in self._all:
            return default
        attribute = self._all[name]
        if isinstance(attribute, ir.DenseElementsAttr):
            found = np.array(attribute)
            return [tuple(row) for row in found.tolist()] if found.ndim == 2 else found.tolist()
        return list(attribute)

    def number(self, name: str, default: Any = None) -> Any:
        """Return an integer, a floating-point number or a truth value."""
        return self._all[name].value if name in self._all else default

    def text(self, name: str, default: str = "") -> str:
        """Return a string, the name of a symbol, or the word of an enumeration."""
        if name not in self._all:
            return default
        attribute = self._all[name]
        if hasattr(attribute, "value") and isinstance(attribute.value, str):
            return str(attribute.value)
        return re.split(r"[ <>]+", str(attribute).rstrip(">"))[-1].lstrip("@")
