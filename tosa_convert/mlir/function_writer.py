"""A graph's main region as a function, with all regions inside it, as bytecode."""

from __future__ import annotations

from collections import Counter
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
from tosa_convert.mlir.attributes import AttributeWriter
from tosa_convert.mlir.bytecode.encode import Encoder, Pairs
from tosa_convert.mlir.bytecode.format import (
    ARGUMENTS_OMIT_LOCATIONS,
    DICTIONARY,
    HAS_ATTRIBUTES,
    HAS_NATIVE_PROPERTIES,
    HAS_OPERANDS,
    HAS_PROPERTIES,
    HAS_REGIONS,
    HAS_RESULTS,
    HAS_USE_LIST_ORDERS,
)
from tosa_convert.mlir.bytecode.varint import decode_varint, encode_varint
from tosa_convert.mlir.constants import ConstantWriter
from tosa_convert.mlir.locations import LocationWriter
from tosa_convert.mlir.names import NAME_ATTRIBUTE, REGIONS_ATTRIBUTE, result_names
from tosa_convert.mlir.types import TypeWriter
from tosa_convert.options import Constants, Limits

#: The maximum nesting depth of regions; TOSA's own limit at level 8K.
MAX_NESTING: Final = 256
#: The most operators of a module: OPERATORS_FREE for any graph, plus COPIES for each of its operators.
#: A region that several operators run is in the module several times.
COPIES: Final = 16
OPERATORS_FREE: Final = 100_000

#: Operator -> the positions of its compile-time constants, counted from the end, because optional
#: operands come before them. They must be dense: on resources, MLIR's verifiers crash or never return,
#: and IREE 3.13 silently takes multipliers and shifts for zeros.
_CONSTANT_OPERANDS: Final = {
    spec: positions
    for spec in OPERATORS
    if (
        positions := [
            position - len(spec.operands)
            for position, row in enumerate(spec.operands)
            if row.is_constant
        ]
    )
}
#: Operators with attributes whose type is that of their first operand.
_WITH_ELEMENT_ATTRIBUTES: Final = frozenset(
    spec for spec in OPERATORS if any(row.kind == "element" for row in spec.attributes)
)

#: The count at the beginning of the encoding of one operand, or of one result.
_ONE: Final = encode_varint(1)


class Body:
    """A region at one place of the module.

    shared: its constants that become resources once MLIR has parsed the module, by their operators.
    children: the regions that its operators run, in order.
    needed: whether it or a region inside it shares a constant.
    parts: its encoding before `finish`: bytes, and the regions of one operator. pieces, size: after it.
    """

    __slots__ = ("children", "depth", "needed", "parts", "pieces", "region", "shared", "size")

    def __init__(self, region: Region, depth: int = 0) -> None:
        self.region = region
        self.depth = depth
        self.parts: list[bytes | tuple[Body, ...]] = []
        self.pieces: list[bytes | Body] = []
        self.size = 0
        self.shared: dict[Operator, Tensor] = {}
        self.children: list[Body] = []
        self.needed = False

    @property
    def block(self) -> Block:
        """The region's only block."""
        return self.region.blocks[0]

    def finish(self, encoder: Encoder) -> None:
        """Put the parts together, once the regions inside it are finished."""
        for part in self.parts:
            if isinstance(part, bytes):
                self.pieces.append(part)
                self.size += len(part)
            else:
                inside = sum(child.size for child in part)
                head = encoder.isolated_regions(len(part), inside)
                self.pieces += head, *part
                self.size += len(head) + inside
        self.needed = bool(self.shared) or any(child.needed for child in self.children)

    def encoding(self) -> Iterator[bytes]:
        """The encoding of the block and of those inside it."""
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
    """The encodings of one result, by the dtype and shape of its tensor."""

    def __init__(self, types: TypeWriter) -> None:
        self.types = types

    def __missing__(self, key: tuple[DType, tuple[int, ...] | None]) -> bytes:
        encoded = self[key] = _ONE + self.types.tensor(Tensor("", *key))
        return encoded


class FunctionWriter:
    """Encodes one graph's main region as a function.

    retain: keep names that reading the module would not generate by itself.
    constants, embed: see `ConstantWriter`.
    by_path: locate operators by their path in the graph instead of their location.
    limits: see `LocationWriter`.
    """

    def __init__(
        self,
        graph: Graph,
        encoder: Encoder,
        *,
        retain: bool,
        constants: Constants,
        embed: bool,
        by_path: bool,
        limits: Limits,
    ) -> None:
        self.graph = graph
        self.encoder = encoder
        self.numbers = encoder.numbers
        self.retain = retain
        self.by_path = by_path
        self.types = TypeWriter(encoder)
        self.result_types = _ResultTypes(self.types)
        self.attributes = AttributeWriter(encoder, self.types)
        self.constants = ConstantWriter(encoder, self.types, constants, embed=embed)
        self.locations = LocationWriter(encoder, limits)
        self.regions = {region.name: region for region in graph.regions}
        #: The names that reading the module would generate.
        self.generated = result_names()
        #: The current block's tensors that are compile-time constants of an operator.
        self.compile_time: set[str] = set()
        #: The symbols of variables by the names of their tensors.
        self.symbols: dict[str, str] = {}
        #: The results of `row`, by operator.
        self.rows: dict[OperatorSpec, tuple[bool, list[bytes]]] = {}
        #: The beginning of a dictionary that has just the name of a result.
        self.named = b""
        #: The attributes of operators, encoded: most operators share theirs.
        self.attributes_cache: dict[Any, tuple[Pairs, int, bytes]] = {}

    def function(self) -> Body:
        """The function, whose encoding is the body's."""
        encoder, region = self.encoder, self.graph.regions[0]
        block = region.blocks[0]
        inputs = [self.value_type(block, name) for name in block.inputs]
        outputs = [self.value_type(block, name) for name in block.outputs]
        attributes = {
            "sym_name": encoder.string_attribute((self.retain and region.name) or "main"),
            "function_type": self.attributes.type(self.types.function(inputs, outputs)),
        }
        for key, names in (("arg_attrs", block.inputs), ("res_attrs", block.outputs)):
            if names:
                attributes[key] = self.signature(names)
        name = encoder.operation("func.func")
        body = Body(region)
        self.block(block, body, "func.return")
        self.nested_regions(body)
        has, own = encoder.attributes_of("func.func", tuple(attributes.items()))
        regions = encoder.isolated_regions(1, body.size)
        head = name + bytes((has | HAS_REGIONS,)) + encoder.unknown + own + regions
        body.pieces.insert(0, head)
        return body

    def nested_regions(self, body: Body) -> None:
        """Encode the regions that the operators of `body` run, and those inside them.

        Each operator that runs a region gets a copy of it. Depth first, in the order of reading. Not
        recursive, because files may nest regions deeply.
        """
        bodies = [body]
        pending = body.children[::-1]
        operators = len(body.block.operators)
        written = Counter([body.region.name])
        limit = OPERATORS_FREE + COPIES * sum(len(b.operators) for _, b in self.graph.blocks())
        while pending:
            inner = pending.pop()
            bodies.append(inner)
            operators += len(inner.block.operators) + 1
            if inner.depth > MAX_NESTING or operators > limit:
                raise fail(
                    "too-large",
                    block_path(inner.region.name, inner.block.name),
                    f"regions are nested more than {MAX_NESTING} deep"
                    if inner.depth > MAX_NESTING
                    else f"with a copy of a region for each use, there are over {limit} operators",
                    "MLIR needs a copy of a region for each operator that runs it",
                )
            self.block(inner.block, inner, "tosa.yield")
            pending += inner.children[::-1]
            written[inner.region.name] += 1
        # A region's children come after it in the list.
        for inner in reversed(bodies):
            inner.finish(self.encoder)
        if len(bodies) != len(self.graph.regions) or len(written) != len(bodies):
            from tosa_convert.mlir.shared_regions import warn_of_regions

            warn_of_regions(self.graph, written)

    def value_type(self, block: Block, name: str) -> bytes:
        """The type of a tensor or shape."""
        tensor = block.tensors.get(name)
        if tensor is not None:
            return self.types.tensor(tensor)
        return self.types.shape(block.shapes[name].rank)

    def signature(self, names: list[str]) -> bytes:
        """The names of arguments or results, in the dialect's form."""
        string, dictionary = self.encoder.string_attribute, self.encoder.dictionary
        return self.encoder.array([dictionary([(NAME_ATTRIBUTE, string(name))]) for name in names])

    # Long because this is the longest loop over a graph: what most operators need is done in line, and
    # everything else in the branch of those that are not plain.
    def block(self, block: Block, body: Body, terminator: str) -> None:
        """Encode a region of one block. The regions that its operators run are noted, still empty."""
        numbers, result_types, rows = self.numbers, self.result_types, self.rows
        retain, generated, returned = self.retain, self.generated, set(block.outputs)
        tensors = block.tensors
        values = {name: numbers[index] for index, name in enumerate(block.inputs)}
        count = len(values)
        self.enter(block)
        # The pieces before the next region. The first piece is set when the values are counted.
        pieces: list[bytes] = []
        body.parts.append(b"")
        for operator, location in zip(block.operators, self.locations_of(block), strict=True):
            spec, inputs, outputs = operator.spec, operator.inputs, operator.outputs
            is_plain, heads = rows.get(spec) or self.row(spec)
            pairs: Pairs = ()
            has = 0
            attributes = operands = results = b""
            if not is_plain:
                if spec.encoded_as == IDENTITY.name:
                    spec, inputs, outputs, pairs = self.identity(block, operator)
                    _, heads = rows.get(spec) or self.row(spec)
                elif spec is CONST or spec is CONST_SHAPE:
                    pairs = (("values", self.values(block, operator, body)),)
                else:
                    pairs, has, attributes = self.attributes_of(block, operator)
            if retain:
                # Keep names that reading the module would not generate by itself.
                is_named = False
                for name in outputs:
                    if name != next(generated) and name not in returned:
                        is_named = True
                if is_named or spec.regions:
                    has, attributes = self.with_names(spec, operator, pairs, is_named)
            if pairs and not has:
                has, attributes = self.encoder.attributes_of(spec.mlir, pairs)
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
                types = [self.value_type(block, name) for name in outputs]
                results = numbers[len(outputs)] + b"".join(types)
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
                pieces += heads[has], location, attributes, results, operands
                continue
            pieces += heads[has | HAS_REGIONS], location, attributes, results, operands
            self.run_regions(operator, body, pieces)
        pieces.append(self.terminator(terminator, [values[name] for name in block.outputs]))
        body.parts[0] = self.begin(block, count)
        body.parts.append(b"".join(pieces))

    def run_regions(self, operator: Operator, body: Body, pieces: list[bytes]) -> None:
        """Note the regions that an operator runs, after the pieces before them, which are cleared."""
        children = tuple(
            Body(self.regions[str(operator.attributes[row.name])], body.depth + 1)
            for row in operator.spec.regions
        )
        # The regions are isolated: each numbers its values from 0.
        body.parts += b"".join(pieces), children
        body.children += children
        pieces.clear()

    def enter(self, block: Block) -> None:
        """Set what depends on the block: symbols of variables, compile-time constants."""
        for tensor in block.tensors.values():
            if tensor.variable:
                self.symbols[tensor.name] = tensor.variable_name or tensor.name
        self.compile_time = {
            operator.inputs[position]
            for operator in block.operators
            if operator.spec in _CONSTANT_OPERANDS
            for position in _CONSTANT_OPERANDS[operator.spec]
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
        """Whether an operator has no attributes, and the beginnings of its encoding by HAS_ flags."""
        name = self.encoder.operation(spec.mlir)
        is_plain = not spec.attributes and spec not in (CONST, CONST_SHAPE)
        is_plain = is_plain and spec.encoded_as != IDENTITY.name
        most = HAS_PROPERTIES if self.encoder.version >= HAS_NATIVE_PROPERTIES else HAS_REGIONS
        heads = [name + bytes((has,)) for has in range(2 * most)]
        row = self.rows[spec] = is_plain, heads
        return row

    def begin(self, block: Block, values: int) -> bytes:
        """The beginning of a region of one block: its size and its arguments."""
        numbers = self.numbers
        count = len(block.operators) + 1
        if not block.inputs:
            return numbers[1] + numbers[values] + numbers[count << 1]
        types = [self.value_type(block, name) for name in block.inputs]
        version = self.encoder.version
        if version >= ARGUMENTS_OMIT_LOCATIONS:
            arguments = [numbers[decode_varint(number, 0)[0] << 1] for number in types]
        else:
            arguments = [number + self.encoder.unknown for number in types]
        if version >= HAS_USE_LIST_ORDERS:
            arguments.append(b"\0")
        return b"".join(
            (
                numbers[1],
                numbers[values],
                numbers[count << 1 | 1],
                numbers[len(types)],
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

    def attributes_of(self, block: Block, operator: Operator) -> tuple[Pairs, int, bytes]:
        """The attributes of the operator's row, and what `Encoder.attributes_of` makes of them."""
        spec = operator.spec
        element = None
        if spec in _WITH_ELEMENT_ATTRIBUTES and operator.inputs[0] in block.tensors:
            element = block.tensors[operator.inputs[0]].dtype
        key = (spec, element, *operator.attributes.items())
        encoded = self.attributes_cache.get(key)
        if encoded is None:
            pairs = tuple(
                (row.name, self.attributes(spec, row, operator.attributes[row.name], element))
                for row in spec.attributes
                if row.kind != "region"
            )
            encoded = pairs, *self.encoder.attributes_of(spec.mlir, pairs)
            self.attributes_cache[key] = encoded
        return encoded

    def identity(
        self, block: Block, operator: Operator
    ) -> tuple[OperatorSpec, tuple[str, ...], tuple[str, ...], Pairs]:
        """IDENTITY, or reading or writing a variable, which a file encodes as IDENTITY.

        Returns the operator in MLIR, with operands, results and attributes.
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
        """The attribute `values` of a constant."""
        name = operator.outputs[0]
        shape = block.shapes.get(name)
        if shape is not None:
            return self.constants.shape(shape)
        tensor = block.tensors[name]
        if self.constants.is_resource(tensor, must_be_dense=name in self.compile_time):
            if not self.constants.embed:
                body.shared[operator] = tensor
            return self.constants.resource(tensor)
        return self.constants.dense(tensor)

    def with_names(
        self, spec: OperatorSpec, operator: Operator, own: Pairs, is_named: bool
    ) -> tuple[int, bytes]:
        """The attributes `own`, the names of results if `is_named`, and those of regions, encoded.

        spec: the operator in MLIR.
        """
        outputs, string = operator.outputs, self.encoder.string_attribute
        if is_named and len(outputs) == 1 and not own and not spec.regions:
            # Fast path of attributes_of; equal by test test_names_written_at_once_equal_others
            if not self.named:
                self.named = bytes((DICTIONARY << 1 | 1, 3)) + self.encoder.name(NAME_ATTRIBUTE)
            return HAS_ATTRIBUTES, self.encoder.attributes.add(self.named + string(outputs[0]))
        names: Pairs = ()
        if is_named:
            name = (
                string(outputs[0])
                if len(outputs) == 1
                else self.encoder.array([*map(string, outputs)])
            )
            names = ((NAME_ATTRIBUTE, name),)
        if spec.regions:
            names = (*names, (REGIONS_ATTRIBUTE, self.region_names(operator)))
        return self.encoder.attributes_of(spec.mlir, own, names, unique=True)

    def region_names(self, operator: Operator) -> bytes:
        """The names of an operator's regions and of their blocks, arguments and results."""
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
