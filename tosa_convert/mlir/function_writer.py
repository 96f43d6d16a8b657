"""The function that a graph is, with all regions within it, as bytecode."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

from tosa_convert.errors import fail
from tosa_convert.graph.dtypes import DType
from tosa_convert.graph.model import (
    Block,
    Graph,
    Operator,
    Region,
    Tensor,
    block_path,
    operator_path,
    quoted,
)
from tosa_convert.graph.opset import (
    CONST,
    CONST_SHAPE,
    IDENTITY,
    OPERATORS,
    VARIABLE_READ,
    VARIABLE_WRITE,
    OperatorSpec,
)
from tosa_convert.mlir.bytecode.encode import Encoder
from tosa_convert.mlir.bytecode.format import HAS_ATTRIBUTES, HAS_OPERANDS, HAS_REGIONS, HAS_RESULTS
from tosa_convert.mlir.bytecode.varint import encode_varint
from tosa_convert.mlir.kept import NAME_ATTRIBUTE, REGIONS_ATTRIBUTE
from tosa_convert.mlir.naming import results
from tosa_convert.mlir.writing.attributes import AttributeWriter
from tosa_convert.mlir.writing.constants import Constants, ConstantWriter
from tosa_convert.mlir.writing.locations import LocationWriter
from tosa_convert.mlir.writing.types import TypeWriter
from tosa_convert.options import DEFAULT_LIMITS, Limits

#: How deep regions may be nested; TOSA's own limit at level 8K.
MAX_NESTING: Final = 256
#: Operators a module may have for each one of the graph, and for any graph at all: a region that is
#: run from two places is in the module twice.
COPIES: Final = 16
OPERATORS_FREE: Final = 100_000

#: Operator -> the positions of its compile-time constants, counted from the end, because optional
#: operands come before them. They must be dense: on resources, MLIR's verifiers crash or never return,
#: and IREE 3.13 silently takes multipliers and shifts for zeros.
_FOLDED: Final = {
    spec: places
    for spec in OPERATORS
    if (
        places := [
            place - len(spec.operands) for place, row in enumerate(spec.operands) if row.is_constant
        ]
    )
}
#: Operators with attributes that depend on the type of what they work on.
_OF_ELEMENTS: Final = frozenset(
    spec for spec in OPERATORS if any(row.kind == "element" for row in spec.attributes)
)

#: How an operation tells that it has one operand.
_ONE: Final = encode_varint(1)

#: Attributes of an operator: name and index.
_Pairs = tuple[tuple[str, bytes], ...]

log = logging.getLogger("tosa_convert")


class Body:
    """A region at one place of the module.

    shared: its constants that become resources once the module is there, by their operators.
    children: what its operators run, in their order. needed: whether something is shared here or below.
    """

    __slots__ = ("children", "depth", "needed", "pieces", "region", "shared")

    def __init__(self, region: Region, depth: int = 0) -> None:
        self.region = region
        self.depth = depth
        self.pieces: list[bytes | Body] = []
        self.shared: dict[Operator, Tensor] = {}
        self.children: list[Body] = []
        self.needed = False

    @property
    def block(self) -> Block:
        """The region's only block."""
        return self.region.blocks[0]

    def joined(self) -> Iterator[bytes]:
        """The encoding of the block and of those within it."""
        pending: list[Iterator[bytes | Body]] = [iter(self.pieces)]
        while pending:
            for piece in pending[-1]:
                if isinstance(piece, Body):
                    pending.append(iter(piece.pieces))
                    break
                yield piece
            else:
                pending.pop()


class _ResultTypes(dict[tuple[DType, tuple[int, ...] | None], bytes]):
    """How an operation tells that it has one result, by the type of the tensor."""

    def __init__(self, types: TypeWriter) -> None:
        self.types = types

    def __missing__(self, key: tuple[DType, tuple[int, ...] | None]) -> bytes:
        found = self[key] = _ONE + self.types.tensor(Tensor("", *key))
        return found


class FunctionWriter:
    """One graph's main region as a function, in a file."""

    def __init__(
        self,
        graph: Graph,
        encoder: Encoder,
        *,
        retain: bool,
        constants: Constants,
        by_path: bool,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.graph = graph
        self.encoder = encoder
        self.numbers = encoder.numbers
        self.retain = retain
        #: Whether operators get their path in the graph as their location.
        self.by_path = by_path
        self.types = TypeWriter(encoder)
        self.result_types = _ResultTypes(self.types)
        self.attributes = AttributeWriter(encoder, self.types)
        self.constants = ConstantWriter(encoder, self.types, constants)
        self.locations = LocationWriter(encoder, limits)
        self.regions = {region.name: region for region in graph.regions}
        #: Names as reading the module would generate them.
        self.generated = results()
        #: Names in the current block of constants that compilers look into and so must be dense.
        self.folded: set[str] = set()
        #: Variable symbols by the name of their tensor.
        self.symbols: dict[str, str] = {}
        #: What is to know of each operator's row.
        self.rows: dict[OperatorSpec, tuple[bool, list[bytes]]] = {}
        #: Attributes of operators and their dictionaries: most operators share theirs.
        self.dictionaries: dict[Any, tuple[_Pairs, bytes]] = {}

    def function(self, region: Region) -> Body:
        """The function, whose encoding is the body's pieces."""
        encoder, numbers = self.encoder, self.numbers
        block = region.blocks[0]
        inputs = [self.value_type(block, name) for name in block.inputs]
        outputs = [self.value_type(block, name) for name in block.outputs]
        attributes = {
            "sym_name": encoder.string_attribute((self.retain and region.name) or "main"),
            "function_type": self.attributes.type(self.types.function(inputs, outputs)),
        }
        for which, names in (("arg_attrs", block.inputs), ("res_attrs", block.outputs)):
            if names:
                attributes[which] = self.signature(names)
        body = Body(region)
        self.block(block, body, "func.return")
        head = b"".join(
            (
                encoder.operation("func.func"),
                bytes((HAS_ATTRIBUTES | HAS_REGIONS,)),
                encoder.unknown,
                encoder.dictionary(attributes.items()),
                numbers[1 << 1 | 1],
            )
        )
        body.pieces.insert(0, head)
        # Depth first, in the order of reading. Not recursive, because files may nest and share
        # regions as they like, and each place that runs a region gets a copy of it.
        bodies = [body]
        pending = body.children[::-1]
        built = len(block.operators)
        left = {other.name for other in self.graph.regions[1:]}
        limit = OPERATORS_FREE + COPIES * sum(len(b.operators) for _, b in self.graph.blocks())
        while pending:
            inner = pending.pop()
            bodies.append(inner)
            name, block = inner.region.name, inner.block
            built += len(block.operators) + 1
            if inner.depth > MAX_NESTING or built > limit:
                raise fail(
                    "too-large",
                    block_path(name, block.name),
                    f"regions are nested more than {MAX_NESTING} deep"
                    if inner.depth > MAX_NESTING
                    else f"regions that are run from many places come to over {limit} operators",
                    "MLIR has a copy of a region at each place that runs it",
                )
            self.block(block, inner, "tosa.yield")
            pending += inner.children[::-1]
            left.discard(name)
        # Those within others come later.
        for inner in reversed(bodies):
            inner.needed = bool(inner.shared) or any(child.needed for child in inner.children)
        if left:
            listing = ", ".join(
                quoted(other.name) for other in self.graph.regions if other.name in left
            )
            log.warning(
                "regions that nothing runs are left out, MLIR has no place for them: %s", listing
            )
        return body

    def value_type(self, block: Block, name: str) -> bytes:
        tensor = block.tensors.get(name)
        if tensor is not None:
            return self.types.tensor(tensor)
        return self.types.shape(block.shapes[name].rank)

    def signature(self, names: list[str]) -> bytes:
        """The names of arguments or results, as the dialect keeps them."""
        string, dictionary = self.encoder.string_attribute, self.encoder.dictionary
        return self.encoder.array([dictionary([(NAME_ATTRIBUTE, string(name))]) for name in names])

    def block(self, block: Block, body: Body, terminator: str) -> None:
        """Write a region of one block. What its operators run is noted, and empty so far."""
        # What is looked up or called here costs each operator; the rest is behind `is_plain`.
        numbers, result_types, rows = self.numbers, self.result_types, self.rows
        retain, generated, returned = self.retain, self.generated, set(block.outputs)
        tensors = block.tensors
        values = {name: numbers[index] for index, name in enumerate(block.inputs)}
        count = len(values)
        self.enter(block)
        # What comes before the next region; first of all the beginning, once the values are counted.
        pieces: list[bytes] = []
        body.pieces.append(b"")
        for operator, location in zip(block.operators, self.locations_of(block), strict=True):
            spec, inputs, outputs = operator.spec, operator.inputs, operator.outputs
            is_plain, heads = rows.get(spec) or self.row(spec)
            pairs: _Pairs = ()
            dictionary = operands = results = b""
            if not is_plain:
                if spec.encoded_as == IDENTITY.name:
                    spec, inputs, outputs, pairs = self.identity(block, operator)
                    _, heads = rows.get(spec) or self.row(spec)
                elif spec is CONST or spec is CONST_SHAPE:
                    pairs = (("values", self.values(block, operator, body)),)
                else:
                    pairs, dictionary = self.attributes_of(block, operator)
            if retain:
                # Names are kept that reading the module would not generate by itself.
                is_named = False
                for name in outputs:
                    if name != next(generated) and name not in returned:
                        is_named = True
                if is_named or spec.regions:
                    dictionary = self.keep_names(operator, pairs, is_named)
            if pairs and not dictionary:
                dictionary = self.encoder.dictionary(pairs)
            has = HAS_ATTRIBUTES if dictionary else 0
            if len(outputs) == 1:
                has |= HAS_RESULTS
                name = outputs[0]
                tensor = tensors.get(name)
                if tensor is not None and tensor.scale is None:
                    results = result_types[tensor.dtype, tensor.shape]
                else:
                    results = _ONE + self.value_type(block, name)
                values[name] = numbers[count]
                count += 1
            elif outputs:
                has |= HAS_RESULTS
                kinds = [self.value_type(block, name) for name in outputs]
                results = numbers[len(outputs)] + b"".join(kinds)
                for name in outputs:
                    values[name] = numbers[count]
                    count += 1
            if len(inputs) == 1:
                has |= HAS_OPERANDS
                operands = _ONE + values[inputs[0]]
            elif inputs:
                has |= HAS_OPERANDS
                operands = numbers[len(inputs)] + b"".join([values[name] for name in inputs])
            if not spec.regions:
                pieces += heads[has], location, dictionary, results, operands
                continue
            inner = [
                Body(self.regions[str(operator.attributes[row.name])], body.depth + 1)
                for row in spec.regions
            ]
            # Nothing is seen from outside, so that values are numbered from 0 in each.
            isolated = numbers[len(inner) << 1 | 1]
            pieces += heads[has | HAS_REGIONS], location, dictionary, results, operands, isolated
            body.pieces += b"".join(pieces), *inner
            body.children += inner
            pieces.clear()
        pieces.append(self.terminator(terminator, [values[name] for name in block.outputs]))
        body.pieces[0] = self.begin(block, count)
        body.pieces.append(b"".join(pieces))

    def enter(self, block: Block) -> None:
        """Learn what the operators of a block need to know of it."""
        for tensor in block.tensors.values():
            if tensor.variable:
                self.symbols[tensor.name] = tensor.variable_name or tensor.name
        self.folded = {
            operator.inputs[place]
            for operator in block.operators
            if operator.spec in _FOLDED
            for place in _FOLDED[operator.spec]
        }

    def locations_of(self, block: Block) -> list[bytes]:
        """The location of each operator."""
        if not self.by_path:
            return self.locations.all([operator.location for operator in block.operators])
        where = f'block "{block.name}"'
        return self.locations.all(
            [operator_path(where, *item) for item in enumerate(block.operators)]
        )

    def row(self, spec: OperatorSpec) -> tuple[bool, list[bytes]]:
        """Whether an operator has no attributes, and how it begins, by what it has."""
        name = self.encoder.operation(spec.mlir)
        is_plain = not spec.attributes and spec not in (CONST, CONST_SHAPE)
        is_plain = is_plain and spec.encoded_as != IDENTITY.name
        heads = [name + bytes((has,)) for has in range(2 * HAS_REGIONS)]
        found = self.rows[spec] = is_plain, heads
        return found

    def begin(self, block: Block, values: int) -> bytes:
        """How a region of one block begins: its size and its arguments."""
        numbers = self.numbers
        count = len(block.operators) + 1
        if not block.inputs:
            return numbers[1] + numbers[values] + numbers[count << 1]
        arguments = [self.value_type(block, name) + self.encoder.unknown for name in block.inputs]
        return b"".join(
            (
                numbers[1],
                numbers[values],
                numbers[count << 1 | 1],
                numbers[len(arguments)],
                *arguments,
            )
        )

    def terminator(self, name: str, values: list[bytes]) -> bytes:
        """The operation that ends a block."""
        head = self.encoder.operation(name) + bytes((HAS_OPERANDS if values else 0,))
        if not values:
            return head + self.encoder.unknown
        return head + self.encoder.unknown + self.numbers[len(values)] + b"".join(values)

    # -- attributes ---------------------------------------------------------------------------

    def attributes_of(self, block: Block, operator: Operator) -> tuple[_Pairs, bytes]:
        """The attributes that the operator's row has, and the dictionary of them."""
        spec = operator.spec
        element = None
        if spec in _OF_ELEMENTS and operator.inputs[0] in block.tensors:
            element = block.tensors[operator.inputs[0]].dtype
        key = (spec, element, *operator.attributes.items())
        found = self.dictionaries.get(key)
        if found is None:
            pairs = tuple(
                (row.name, self.attributes(spec, row, operator.attributes[row.name], element))
                for row in spec.attributes
                if row.kind != "region"
            )
            found = pairs, self.encoder.dictionary(pairs) if pairs else b""
            self.dictionaries[key] = found
        return found

    def identity(
        self, block: Block, operator: Operator
    ) -> tuple[OperatorSpec, tuple[str, ...], tuple[str, ...], _Pairs]:
        """IDENTITY, or what a file writes as one: reading or writing a variable.

        Returns what it is in MLIR, with operands, results and attributes.
        """
        source, target = operator.inputs[0], operator.outputs[0]
        string = self.encoder.string_attribute
        if target in block.tensors and block.tensors[target].variable:
            return VARIABLE_WRITE, (source,), (), (("name", string(self.symbols[target])),)
        reads = source in block.tensors and block.tensors[source].variable
        if reads and source not in block.inputs:
            return VARIABLE_READ, (), (target,), (("name", string(self.symbols[source])),)
        return IDENTITY, (source,), (target,), ()

    def values(self, block: Block, operator: Operator, body: Body) -> bytes:
        """The `values` of a constant."""
        name = operator.outputs[0]
        shape = block.shapes.get(name)
        if shape is not None:
            return self.constants.shape(shape)
        tensor = block.tensors[name]
        if self.constants.is_shared(tensor, folded=name in self.folded):
            body.shared[operator] = tensor
            return self.constants.without_data(tensor)
        return self.constants.dense(tensor)

    def keep_names(self, operator: Operator, pairs: _Pairs, is_named: bool) -> bytes:
        """The attributes with what the file calls the results, if that is needed, and the regions."""
        outputs, string = operator.outputs, self.encoder.string_attribute
        if is_named:
            names = (
                string(outputs[0])
                if len(outputs) == 1
                else self.encoder.array([*map(string, outputs)])
            )
            pairs = (*pairs, (NAME_ATTRIBUTE, names))
        if operator.spec.regions:
            pairs = (*pairs, (REGIONS_ATTRIBUTE, self.names_of_regions(operator)))
        return self.encoder.dictionary(pairs, unique=True)

    def names_of_regions(self, operator: Operator) -> bytes:
        """What the file calls an operator's regions and their arguments and results."""
        string, array = self.encoder.string_attribute, self.encoder.array
        entries = []
        for row in operator.spec.regions:
            name = str(operator.attributes[row.name])
            block = self.regions[name].blocks[0]
            entries.append(
                self.encoder.dictionary(
                    [
                        ("name", string(name)),
                        ("block", string(block.name)),
                        ("inputs", array(list(map(string, block.inputs)))),
                        ("outputs", array(list(map(string, block.outputs)))),
                    ]
                )
            )
        return array(entries)
