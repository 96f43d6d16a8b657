"""The function that a graph is, with all regions within it, as bytecode."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

from tosa_convert.errors import fail
from tosa_convert.graph.dtypes import DType, dtype
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
from tosa_convert.graph.opset import operator as operator_spec
from tosa_convert.mlir.bytecode.encode import Encoder
from tosa_convert.mlir.bytecode.format import (
    HAS_ATTRIBUTES,
    HAS_OPERANDS,
    HAS_REGIONS,
    HAS_RESULTS,
)
from tosa_convert.mlir.kept import NAME_ATTRIBUTE, REGIONS_ATTRIBUTE
from tosa_convert.mlir.naming import Namer
from tosa_convert.mlir.writing.attributes import AttributeWriter
from tosa_convert.mlir.writing.constants import Constants, ConstantWriter
from tosa_convert.mlir.writing.locations import LocationWriter
from tosa_convert.mlir.writing.types import TypeWriter

#: How deep regions may be nested; TOSA's own limit at level 8K.
MAX_NESTING: Final = 256
#: Operators a module may have for each one of the graph, and for any graph at all: a region that is
#: run from two places is in the module twice.
COPIES: Final = 16
OPERATORS_FREE: Final = 100_000

#: IREE 3.13 takes multipliers and shifts that are resources for zeros, without a word.
_RESCALE: Final = operator_spec("RESCALE")
#: What a file writes as an identity: reading and writing variables, too.
_IDENTITIES: Final = frozenset(row for row in OPERATORS if row.encoded_as == IDENTITY.name)
#: Operators with attributes that depend on the type of what they work on.
_OF_ELEMENTS: Final = frozenset(
    spec for spec in OPERATORS if any(row.kind == "element" for row in spec.attributes)
)

#: Attributes of an operator: name and index.
_Pairs = tuple[tuple[str, bytes], ...]

log = logging.getLogger("tosa_convert")


class Body:
    """A block at one place of the module.

    shared: the constants that become resources once the module is there, by their operators' indices.
    children: what the operators run, by their indices. needed: whether here or below something is
    shared.
    """

    __slots__ = ("children", "depth", "name", "needed", "parent", "pieces", "shared")

    def __init__(self, name: str, parent: Body | None = None) -> None:
        self.name = name
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.pieces: list[bytes | Body] = []
        self.shared: list[tuple[int, Tensor]] = []
        self.children: list[tuple[int, list[Body]]] = []
        self.needed = False

    def share(self, index: int, tensor: Tensor) -> None:
        """Note a constant that becomes a resource."""
        self.shared.append((index, tensor))
        body: Body | None = self
        while body is not None and not body.needed:
            body.needed = True
            body = body.parent

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
        found = self[key] = self.types.numbers[1] + self.types.tensor(Tensor("", *key))
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
        self.locations = LocationWriter(encoder)
        self.regions = {region.name: region for region in graph.regions}
        self.namer = Namer()
        #: Names in the current block of constants that compilers look into and so must be dense.
        self.folded: set[str] = set()
        #: Variable symbols by the name of their tensor.
        self.symbols: dict[str, str] = {}
        #: How operators begin, by what they have.
        self.heads: dict[OperatorSpec, list[bytes]] = {}
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
        body = Body(region.name)
        nested = self.block(block, body, "func.return")
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
        pending = nested[::-1]
        built = len(block.operators)
        left = {other.name for other in self.graph.regions[1:]}
        limit = OPERATORS_FREE + COPIES * sum(len(b.operators) for _, b in self.graph.blocks())
        while pending:
            inner = pending.pop()
            block = self.regions[inner.name].blocks[0]
            built += len(block.operators) + 1
            if inner.depth > MAX_NESTING or built > limit:
                raise fail(
                    "too-large",
                    block_path(inner.name, block.name),
                    f"regions are nested more than {MAX_NESTING} deep"
                    if inner.depth > MAX_NESTING
                    else f"regions that are run from many places come to over {limit} operators",
                    "MLIR has a copy of a region at each place that runs it",
                )
            pending += self.block(block, inner, "tosa.yield")[::-1]
            left.discard(inner.name)
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

    def block(self, block: Block, body: Body, terminator: str) -> list[Body]:
        """Write a region of one block; returns the bodies that its control flow runs, to be filled."""
        numbers, result_types, locations = self.numbers, self.result_types, self.locations
        tensors, pieces, heads = block.tensors, body.pieces, self.heads
        values = {name: numbers[index] for index, name in enumerate(block.inputs)}
        count = len(values)
        for tensor in tensors.values():
            if tensor.variable:
                self.symbols[tensor.name] = tensor.variable_name or tensor.name
        returned = set(block.outputs)
        self.folded = {
            name
            for operator in block.operators
            if operator.spec is _RESCALE
            for name in operator.inputs[1:]
        }
        pieces.append(b"")  # the head, once the values are counted
        for index, operator in enumerate(block.operators):
            spec, inputs, outputs = operator.spec, operator.inputs, operator.outputs
            pairs: _Pairs = ()
            dictionary = b""
            keep = self.retain
            if spec in _IDENTITIES:
                spec, inputs, outputs, pairs = self.identity(block, operator)
                keep = keep and spec is not VARIABLE_WRITE
                if pairs:
                    dictionary = self.encoder.dictionary(pairs)
            elif spec.attributes:
                pairs, dictionary = self.attributes_of(block, operator)
            elif spec is CONST or spec is CONST_SHAPE:
                pairs = (("values", self.values(block, outputs[0], body, index)),)
                dictionary = self.encoder.dictionary(pairs)
            if keep:
                kept = self.names_to_keep(outputs, returned)
                if spec.regions:
                    kept += ((REGIONS_ATTRIBUTE, self.names_of_regions(operator)),)
                if kept:
                    dictionary = self.encoder.dictionary(pairs + kept)
            location = operator.location
            if self.by_path:
                location = operator_path(f'block "{block.name}"', index, operator)
            # What an operation has decides how it begins.
            has = HAS_ATTRIBUTES if dictionary else 0
            results = operands = b""
            if len(outputs) == 1:
                has |= HAS_RESULTS
                found = tensors.get(outputs[0])
                if found is not None and found.scale is None:
                    results = result_types[found.dtype, found.shape]
                else:
                    results = numbers[1] + self.value_type(block, outputs[0])
                values[outputs[0]] = numbers[count]
                count += 1
            elif outputs:
                has |= HAS_RESULTS
                kinds = [self.value_type(block, name) for name in outputs]
                results = numbers[len(outputs)] + b"".join(kinds)
                for name in outputs:
                    values[name] = numbers[count]
                    count += 1
            if inputs:
                has |= HAS_OPERANDS
                if len(inputs) == 1:
                    operands = b"\x03" + values[inputs[0]]
                elif len(inputs) == 2:
                    operands = b"\x05" + values[inputs[0]] + values[inputs[1]]
                else:
                    operands = numbers[len(inputs)] + b"".join([values[name] for name in inputs])
            if spec.regions:
                has |= HAS_REGIONS
            head = (heads.get(spec) or self.head(spec))[has]
            pieces.append(head + locations[location] + dictionary + results + operands)
            if spec.regions:
                inner = [Body(str(operator.attributes[row.name]), body) for row in spec.regions]
                # Nothing is seen from outside, so that values are numbered from 0 in each.
                pieces.append(numbers[len(inner) << 1 | 1])
                pieces += inner
                body.children.append((index, inner))
        pieces.append(self.terminator(terminator, [values[name] for name in block.outputs]))
        pieces[0] = self.begin(block, count)
        return [inner for _, children in body.children for inner in children]

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

    def head(self, spec: OperatorSpec) -> list[bytes]:
        """How an operation begins: its name, and what it has, which is the index."""
        name = self.encoder.operation(spec.mlir)
        found = self.heads[spec] = [name + bytes((has,)) for has in range(2 * HAS_REGIONS)]
        return found

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
        if block.tensors[target].variable if target in block.tensors else False:
            return VARIABLE_WRITE, (source,), (), (("name", string(self.symbols[target])),)
        reads = source in block.tensors and block.tensors[source].variable
        if reads and source not in block.inputs:
            return VARIABLE_READ, (), (target,), (("name", string(self.symbols[source])),)
        return IDENTITY, (source,), (target,), ()

    def names_to_keep(self, outputs: tuple[str, ...], returned: set[str]) -> _Pairs:
        """The names of results, where reading the module would not generate them by itself."""
        # Advance the counters as reading would, to see which names need not be kept.
        needed = False
        for name in outputs:
            generated = self.namer.result()
            needed = needed or (name != generated and name not in returned)
        if not needed:
            return ()
        strings = [self.encoder.string_attribute(name) for name in outputs]
        return ((NAME_ATTRIBUTE, strings[0] if len(strings) == 1 else self.encoder.array(strings)),)

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

    def values(self, block: Block, name: str, body: Body, index: int) -> bytes:
        """The `values` of a constant."""
        shape = block.shapes.get(name)
        if shape is not None:
            return self.constants.shape(shape)
        tensor = block.tensors[name]
        if self.constants.is_shared(tensor, folded=name in self.folded):
            body.share(index, tensor)
            return self.constants.without_data(tensor)
        return self.constants.dense(tensor)
