"""The hub: a TOSA program, independent of any file format. Names are unique within a block."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from tosa_convert.errors import fail
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import BlockShape, DType
from tosa_convert.graph.opset import AttributeValue, OperatorSpec

# -- the target environment that a program names besides the TOSA version --------------------------


class Target(NamedTuple):
    """A target environment; its TOSA version is that of the graph.

    level: "8K" or "NONE".
    profiles: such as ("PRO-INT",), in order.
    extensions: such as ("EXT-INT16", "EXT-CONTROLFLOW"), in order.

    The names need not be known: `spec.target.check` says which are not.

    Example:
        >>> print(Target("8K", ("PRO-INT",), ("EXT-INT16",)))
        PRO-INT,EXT-INT16 at level 8K
    """

    level: str
    profiles: tuple[str, ...]
    extensions: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = ",".join((*self.profiles, *self.extensions)) or "no profile"
        return f"{names} at level {self.level}"


#: The size of a dynamic dimension.
DYNAMIC: Final = -1
#: The largest size of a dimension, and the largest value of an attribute.
INT32_MAX: Final = 2**31 - 1
#: Most dimensions of a tensor. Without a limit, the product of a million sizes would take forever.
MAX_RANK: Final = 64
#: The highest rank of a shape that is not constant.
MAX_UNKNOWN_SIZES: Final = 1 << 12
#: Element counts above this are not computed exactly.
_EXACT_COUNT: Final = 2**63
#: Most characters of a name in a message. A damaged file can have a name of megabytes.
_NAME_CHARACTERS: Final = 200
#: Most characters of a name, most names and values of a list, and most operators that are printed.
_PRINTED_CHARACTERS, _PRINTED_ITEMS, _PRINTED_OPERATORS = 40, 4, 40


class Version(NamedTuple):
    """A version of the TOSA specification.

    Example:
        >>> print(Version(1, 0), Version(1, 1, 0, draft=True), sep=", ")
        1.0.0, 1.1.0 draft
    """

    major: int
    minor: int
    patch: int = 0
    draft: bool = False

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}{' draft' if self.draft else ''}"


class SoftwareVersion(NamedTuple):
    """The name and release of the program that wrote a file."""

    major: int
    minor: int
    micro: int
    modifier: str = ""

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.micro}{self.modifier and ' ' + self.modifier}"


@dataclass(slots=True, eq=False)
class BlockScale:
    """The scales of a block-scaled (MX) tensor: consecutive elements share a scale.

    dtype: the element type of the scales.
    shape: how many elements share a scale.
    data: the scales in row-major order; None unless the tensor is a constant.
    """

    dtype: DType
    shape: BlockShape
    data: Constant | None = None


@dataclass(slots=True, eq=False, repr=False)
class Tensor:
    """A tensor that operators of one block produce or use.

    name: unique among the tensors and shapes of the block.
    shape: the size of each dimension, DYNAMIC (-1) where unknown. () has rank 0; None is unranked.
    data: the value of a constant, or the initial value of a variable; else None.
    scale: the scales of a block-scaled tensor; else None.
    variable: whether the tensor is state that outlives one run; `variable_name` is its symbol.

    Example:
        >>> from tosa_convert.graph import dtype
        >>> tensor = Tensor("x", dtype("FP32"), (1, 28, 28, 1))
        >>> tensor
        Tensor("x", FP32 [1, 28, 28, 1])
        >>> tensor.element_count()
        784
    """

    name: str
    dtype: DType
    shape: tuple[int, ...] | None
    data: Constant | None = None
    scale: BlockScale | None = None
    variable: bool = False
    variable_name: str = ""

    def element_count(self) -> int | None:
        """Return the number of elements, or None if a dimension or the rank is unknown."""
        return element_count(self.shape)

    def __repr__(self) -> str:
        parts = [_short(self.name), self.type_text()]
        if self.variable:
            parts.append(f"variable {_short(self.variable_name)}")
        elif self.data is not None:
            parts.append("constant")
        return f"Tensor({', '.join(parts)})"

    def type_text(self) -> str:
        """Return the element type and shape, such as "FP32 [1, 10]"."""
        scales = f" in blocks of {int(self.scale.shape)}" if self.scale is not None else ""
        shape = "unranked" if self.shape is None else f"[{_listed(map(str, self.shape), 8)}]"
        return f"{self.dtype} {shape}{scales}"


@dataclass(slots=True, eq=False, repr=False)
class ShapeValue:
    """A value of type !tosa.shape: the sizes that an operator such as RESHAPE takes.

    rank: the number of sizes.
    data: the sizes as INT64 if they are constant; else None.
    """

    name: str
    rank: int
    data: Constant | None = None

    def values(self) -> tuple[int, ...] | None:
        """Return the sizes, or None if they are not constant."""
        return None if self.data is None else tuple(self.data.values())

    def __repr__(self) -> str:
        return f"ShapeValue({_short(self.name)}, {self.type_text()})"

    def type_text(self) -> str:
        """Return the sizes, or the rank if they are not constant, as text."""
        if self.data is None or self.rank > MAX_RANK:
            return f"shape of rank {self.rank}"
        return f"shape [{_listed(map(str, self.values() or ()), 8)}]"


@dataclass(slots=True, eq=False, repr=False)
class Operator:
    """An operator of a block.

    spec: its row in the operator table; `spec.name` is its name.
    inputs, outputs: names of tensors and shapes of the same block.
    attributes: name -> value. A value of kind `element`, such as `min_val` of CLAMP, is the
        little-endian bytes of one element of the first input; `print(block)` shows it as a number.
    location: the text of an MLIR location such as `loc("f.mlir":2:8)`, or "".

    Example:
        >>> from tosa_convert.graph import operator
        >>> Operator(operator("REDUCE_SUM"), ("x",), ("y",), {"axis": 1})
        Operator(y = REDUCE_SUM(x) {axis = 1})
    """

    spec: OperatorSpec
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    location: str = ""

    def __repr__(self) -> str:
        return f"Operator({self._text(None)})"

    def _text(self, element: DType | None) -> str:
        """Format the operator in a line; element: the type of values of that kind, if known."""
        outputs = _listed(map(_plain, self.outputs))
        text = f"{self.spec.name}({_listed(map(_plain, self.inputs), 8)})"
        rows = self._attribute_texts(element)
        attributes = ", ".join(f"{_plain(name)} = {value}" for name, value in rows)
        return (f"{outputs} = " if outputs else "") + text + (attributes and f" {{{attributes}}}")

    def _attribute_texts(self, element: DType | None) -> Iterator[tuple[str, str]]:
        for name, value in self.attributes.items():
            yield name, value_text(value, element if name in _element_names(self) else None)


@dataclass(slots=True, eq=False, repr=False)
class Block:
    """Operators in topological order, and the values that they refer to.

    inputs, outputs: names of the values that the block takes and returns.
    tensors, shapes: name -> value; every name that an operator mentions is in one of them.

    `print(block)` lists its operators.
    """

    name: str
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    shapes: dict[str, ShapeValue] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"Block({_short(self.name)}, {counted(len(self.operators), 'operator')}, "
            f"{self._signature()})"
        )

    def __str__(self) -> str:
        shown = self.operators[:_PRINTED_OPERATORS]
        lines = [f"block {_short(self.name)}: {self._signature()}"]
        lines += [f"  {self.operator_text(op)}" for op in shown]
        if hidden := len(self.operators) - len(shown):
            lines.append(f"  ... {counted(hidden, 'more operator')}")
        return "\n".join(lines)

    def _signature(self) -> str:
        return f"({self._types(self.inputs)}) -> ({self._types(self.outputs)})"

    def _types(self, names: Sequence[str]) -> str:
        shown = [f"{_plain(name)}: {self._type(name)}" for name in names[: _PRINTED_ITEMS + 1]]
        return _listed(shown, total=len(names))

    def _type(self, name: str) -> str:
        value = self.tensors.get(name) or self.shapes.get(name)
        return "undefined" if value is None else value.type_text()

    def attribute_texts(self, operator: Operator) -> list[tuple[str, str]]:
        """Return the attributes of an operator as people read them; long values are shortened."""
        return list(operator._attribute_texts(self._element(operator)))

    def element_of(self, operator: Operator, attribute: str) -> bool | int | float | None:
        """Return the value of an attribute of kind `element`; None for others or an unknown type."""
        value = operator.attributes.get(attribute)
        if not isinstance(value, bytes) or attribute not in _element_names(operator):
            return None
        element = self._element(operator)
        if element is None or len(value) < element.element_bytes:
            return None
        return element_value(value, element)

    def _element(self, operator: Operator) -> DType | None:
        """Return the type of an operator's values of kind `element`: that of its first operand."""
        operand = self.tensors.get(operator.inputs[0]) if operator.inputs else None
        return None if operand is None else operand.dtype

    def operator_text(self, operator: Operator) -> str:
        """Format an operator of this block in a line, with the types of its results."""
        text = operator._text(self._element(operator))
        results = [self._type(name) for name in operator.outputs[: _PRINTED_ITEMS + 1]]
        return text + (f" : {_listed(results, total=len(operator.outputs))}" if results else "")


@dataclass(slots=True, eq=False, repr=False)
class Region:
    """A named graph that control-flow operators run. TOSA regions have exactly one block."""

    name: str
    blocks: list[Block] = field(default_factory=list)

    def __repr__(self) -> str:
        operators = sum(len(block.operators) for block in self.blocks)
        return (
            f"Region({_short(self.name)}, {counted(len(self.blocks), 'block')}, "
            f"{counted(operators, 'operator')})"
        )


@dataclass(slots=True, eq=False, repr=False)
class Graph:
    """A TOSA program.

    `tosa_convert.load` reads one from a file and `tosa_convert.save` writes one. `print(graph)` lists
    its operators. Graphs can be pickled and copied.

    version: the version of TOSA that it is written for.
    regions: its regions; regions[0] is the main graph.
    producer: the program that wrote the file, or None.
    target: the target environment that the program names, or None. Only MLIR has it.

    Example:
        >>> import tosa_convert as tc
        >>> graph = tc.load("digits_cnn.tosa")
        >>> graph
        Graph(TOSA 1.0.0, 1 region, 27 operators, (image: FP32 [1, 1, 16, 16]) -> (logits: FP32 [1, 10]))
        >>> graph.main.operators[0].spec.name
        'CONST'
    """

    version: Version
    regions: list[Region] = field(default_factory=list)
    producer: SoftwareVersion | None = None
    target: Target | None = None

    @property
    def main(self) -> Block:
        """Return the block that runs first; raise TosaConvertError if there is none."""
        if not self.regions or not self.regions[0].blocks:
            raise fail("malformed-structure", "graph", "it has no main block")
        return self.regions[0].blocks[0]

    def blocks(self) -> Iterator[tuple[str, Block]]:
        """Iterate over the blocks, each with its path, such as `region "main" block "main"`."""
        for region in self.regions:
            for block in region.blocks:
                yield block_path(region.name, block.name), block

    def constants(self) -> Iterator[tuple[str, Constant]]:
        """Iterate over the name and data of tensors that have data; scales follow as "NAME/scale"."""
        for _, block in self.blocks():
            for tensor in block.tensors.values():
                if tensor.data is not None:
                    yield tensor.name, tensor.data
                if tensor.scale is not None and tensor.scale.data is not None:
                    yield f"{tensor.name}/scale", tensor.scale.data

    def __repr__(self) -> str:
        parts = [
            f"TOSA {self.version}",
            counted(len(self.regions), "region"),
            counted(sum(len(block.operators) for _, block in self.blocks()), "operator"),
        ]
        if self.regions and self.regions[0].blocks:
            parts.append(self.main._signature())
        return f"Graph({', '.join(parts)})"

    def __str__(self) -> str:
        lines = [repr(self)]
        for region in self.regions[:_PRINTED_ITEMS]:
            lines.append(f"region {_short(region.name)}")
            for block in region.blocks[:_PRINTED_ITEMS]:
                lines += [f"  {line}" for line in str(block).splitlines()]
            if (hidden := len(region.blocks) - _PRINTED_ITEMS) > 0:
                lines.append(f"  ... {counted(hidden, 'more block')}")
        if (hidden := len(self.regions) - _PRINTED_ITEMS) > 0:
            lines.append(f"... {counted(hidden, 'more region')}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        from html import escape

        operators = Counter(op.spec.name for _, block in self.blocks() for op in block.operators)
        most = [f"{name} {count}" for name, count in operators.most_common(8)]
        constants = [data.nbytes for _, data in self.constants()]
        rows = {
            "TOSA version": str(self.version),
            "producer": str(self.producer or "unknown"),
            "regions": _listed((_plain(region.name) for region in self.regions), 8),
            "operators": f"{sum(operators.values())}: {_listed(most, 8, total=len(operators))}",
            "constants": f"{len(constants)}, {sum(constants)} bytes",
        }
        if self.regions and self.regions[0].blocks:
            rows["inputs"] = self.main._types(self.main.inputs)
            rows["outputs"] = self.main._types(self.main.outputs)
        cells = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in rows.items()
        )
        return f"<table>{cells}</table>"


def element_count(shape: tuple[int, ...] | None) -> int | None:
    """Return the number of elements of a tensor, or None if a dimension or the rank is unknown.

    Exact up to 2**63. For a larger shape, a number above that, which no data can have.

    Example:
        >>> element_count((2, 3)), element_count(()), element_count((2, -1)), element_count(None)
        (6, 1, None, None)
    """
    if shape is None or min(shape, default=0) < 0:
        return None
    if 0 in shape:
        return 0
    count = 1
    for size in shape:
        count *= size
        if count > _EXACT_COUNT:
            break
    return count


def in_usual_order(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors in the order of `tosa-opt`: variables first, as they are, then others by name."""
    ordered = {name: tensor for name, tensor in tensors.items() if tensor.variable}
    ordered.update((name, tensors[name]) for name in sorted(tensors))
    return ordered


# -- names, and places in messages --------------------------------------------------------------------


def quoted(name: str) -> str:
    """Return a name in quotes, for messages. A very long name loses its middle."""
    return f'"{_without_middle(name, _NAME_CHARACTERS)}"'


def sizes(shape: Sequence[int]) -> str:
    """Format a shape for messages. A very long shape loses its end."""
    if len(shape) <= MAX_RANK:
        return str(list(shape))
    return f"{str(list(shape[:MAX_RANK]))[:-1]}, ... {len(shape)} dimensions]"


def block_path(region: str, block: str) -> str:
    return f"region {quoted(region)} block {quoted(block)}"


def operator_path(where: str, index: int, operator: Operator) -> str:
    """Return the path of an operator, for messages: that of its block, its index and its name."""
    return f"{where} operator #{index} {operator.spec.name}"


def _without_middle(text: str, limit: int) -> str:
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]}...{text[-half:]}"


# -- printing ----------------------------------------------------------------------------------------


def _plain(name: str) -> str:
    """Return a name without quotes, on one line."""
    text = _without_middle(name, _PRINTED_CHARACTERS)
    return text if text.isprintable() and text else repr(text)


def _short(name: str) -> str:
    return f'"{_without_middle(name, _PRINTED_CHARACTERS)}"' if name.isprintable() else _plain(name)


def counted(count: int, noun: str) -> str:
    """Return a count and its noun, such as "1 tensor" and "2 tensors"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _listed(items: Iterable[str], limit: int = _PRINTED_ITEMS, total: int | None = None) -> str:
    """List the first items; total: how many there are, if that is more than `items` has."""
    rows = list(items)
    hidden = (len(rows) if total is None else total) - limit
    return ", ".join(rows[:limit]) + (f", ... {hidden} more" if hidden > 0 else "")


def _element_names(operator: Operator) -> frozenset[str]:
    return frozenset(row.name for row in operator.spec.attributes if row.kind == "element")


def value_text(value: object, element: DType | None) -> str:
    """Format an attribute's value in a line. element: the type of the element whose bytes it is."""
    if isinstance(value, bytes):
        if element is not None and len(value) >= element.element_bytes:
            number = element_value(value, element)
            return f"{number:.9g}" if isinstance(number, float) else str(number)
        return f"0x{value[:16][::-1].hex()}" if len(value) <= 16 else f"{len(value)} bytes"
    if isinstance(value, IntEnum):
        return value.name
    if isinstance(value, tuple):
        return f"[{_listed(map(str, value), 8)}]"
    return _short(value) if isinstance(value, str) else str(value)


def element_value(raw: bytes, element: DType) -> bool | int | float:
    """Return the value of the little-endian bytes of one element; further bytes are padding.

    Example:
        >>> from tosa_convert.graph import dtype
        >>> element_value(bytes([128]), dtype("INT8"))
        -128
        >>> element_value(bytes.fromhex("0000c03f"), dtype("FP32"))
        1.5
    """
    (number,) = Constant(element, 1, raw[: element.element_bytes], splat=True).values()
    return float(number) if element.is_float else number


def require_graphs(*values: object) -> None:
    """Raise TypeError for a value that is not a graph, which a caller without types can pass."""
    for value in values:
        if not isinstance(value, Graph):
            message = (
                f"found {type(value).__name__}, expected a Graph, as tosa_convert.load returns it"
            )
            raise TypeError(message)


# -- locations of operators, which are texts as MLIR prints them, in messages ----------------------

#: The location that a program read from MLIR has where nothing is known.
UNKNOWN_LOCATION: Final = "loc(unknown)"
#: Texts of the location of an operator that has none.
UNLOCATED: Final = ("", UNKNOWN_LOCATION)
#: A position in a file, as locations of MLIR have it. Those of bytecode are in line 0.
_FILE_POSITION: Final = re.compile(r'"([^"\\]{1,4096})":([1-9]\d{0,8}):(\d{1,9})')
#: A location that begins with a name, as those of tensors do. MLIR escapes bytes in hexadecimal.
_NAMED: Final = re.compile(r'loc\("((?:[^"\\]|\\.)*)"[()]')
_ESCAPED: Final = re.compile(rb"\\(?:([0-9A-Fa-f]{2})|(.))", re.DOTALL)


def located(path: str, operator: Operator) -> str:
    """Return an operator's path behind its location, whose line and column editors can open.

    Example:
        >>> from tosa_convert.graph.opset import operator
        >>> from tosa_convert.graph.model import Operator
        >>> exp = Operator(operator("EXP"), ("x",), ("y",), {}, 'loc("f.mlir":2:8)')
        >>> print(located('region "f" block "main" operator #0 EXP', exp))
        f.mlir:2:8: region "f" block "main" operator #0 EXP
    """
    location = operator.location
    if location in UNLOCATED:
        return path
    match = _FILE_POSITION.search(location)
    if match is None or not match[1].isprintable():
        return f"{location}: {path}"
    position = f"{match[1]}:{match[2]}:{match[3]}"
    is_all = location == f"loc({match[0]})"
    return f"{position}: {path}" if is_all else f"{position}: {location}: {path}"


def name_in_location(location: str) -> str:
    """Return the name with which a location begins, such as the framework's tensor; or ""."""
    match = _NAMED.match(location)
    if match is None:
        return ""

    def character(found: re.Match[bytes]) -> bytes:
        return bytes([int(found[1], 16)]) if found[1] else found[2]

    return _ESCAPED.sub(character, match[1].encode()).decode(errors="replace")
