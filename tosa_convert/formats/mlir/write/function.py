"""A graph's main region as a function, with all regions inside it, as bytecode."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, compress, count, islice
from operator import ne
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.errors import fail
from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.encode import Encoder, Pairs
from tosa_convert.formats.mlir.bytecode.varints import decode_varint
from tosa_convert.formats.mlir.constants import ConstantWriter
from tosa_convert.formats.mlir.names import (
    NAME_ATTRIBUTE,
    REGIONS_ATTRIBUTE,
    result_names,
    written_regions,
    written_signature,
)
from tosa_convert.formats.mlir.types import AttributeWriter, TypeWriter
from tosa_convert.formats.mlir.write.region_body import (
    ONE,
    Body,
    LocationWriter,
    ResultTypes,
    terminating,
)
from tosa_convert.graph.model import Block, Graph, Operator, Tensor, block_path, operator_path
from tosa_convert.graph.opset import (
    CONST,
    CONST_SHAPE,
    IDENTITY,
    OPERATORS,
    VARIABLE_READ,
    VARIABLE_WRITE,
    OperatorSpec,
)
from tosa_convert.io.options import WriteOptions

if TYPE_CHECKING:
    from tosa_convert.graph.columns import BlockColumns

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
#: A function without an order of operations.
SUBGRAPH: Final = "ml_program.subgraph"
#: The operation of IREE that takes the place of a constant whose data is a parameter.
PARAMETER_LOAD: Final = replace(CONST, mlir="util.global.load")
#: The operation of a function -> the one that ends it.
_RETURNS: Final[Mapping[str, str]] = {
    "func.func": "func.return",
    "ml_program.func": "ml_program.return",
    SUBGRAPH: "ml_program.output",
}
#: The operation of a variable of ml_program, and the operators that read and write it.
GLOBAL: Final = "ml_program.global"
_GLOBAL_LOAD: Final = replace(VARIABLE_READ, mlir="ml_program.global_load")
_GLOBAL_STORE: Final = replace(VARIABLE_WRITE, mlir="ml_program.global_store")
#: Operators with attributes whose type is that of their first operand.
_WITH_ELEMENT_ATTRIBUTES: Final = frozenset(
    spec for spec in OPERATORS if any(row.kind == "element" for row in spec.attributes)
)


class FunctionWriter:
    """Encodes one graph's main region as a function.

    options, embed, by_path, columns: see `encode_module`.
    retain: keep names that reading the module would not generate by itself.
    """

    def __init__(
        self,
        graph: Graph,
        encoder: Encoder,
        options: WriteOptions,
        *,
        embed: bool,
        by_path: bool,
        columns: Mapping[str, BlockColumns],
    ) -> None:
        self.graph = graph
        self.columns = columns
        self.encoder = encoder
        self.numbers = encoder.numbers
        self.retain = options.names == "retain"
        self.by_path = by_path
        self.types = TypeWriter(encoder)
        self.result_types = ResultTypes(self.types)
        self.attributes = AttributeWriter(encoder, self.types)
        self.constants = ConstantWriter(encoder, self.types, options.constants, embed=embed)
        self.locations = LocationWriter(encoder, options.limits)
        self.regions = {region.name: region for region in graph.regions}
        #: The names that reading the module would generate.
        self.generated = result_names()
        #: The current block's tensors that are compile-time constants of an operator.
        self.compile_time: set[str] = set()
        #: The symbols of variables by the names of their tensors.
        self.symbols: dict[str, str] = {}
        #: The tensors whose data are parameters, in order.
        self.parameters: list[str] = []
        #: The results of `row`, by operator.
        self.rows: dict[OperatorSpec, list[bytes]] = {}
        #: The beginning of a dictionary that has just the name of a result.
        self.named = b""
        #: The attributes of operators, encoded: most operators share theirs.
        self.attributes_cache: dict[Any, tuple[Pairs, int, bytes]] = {}
        #: The names of the function's operation, of its type, and of the one that ends it.
        self.function_name: str = options.function_op
        self.type_name, self.return_name = "function_type", _RETURNS[options.function_op]
        #: Whether variables are those of ml_program.
        self.has_globals = options.function_op != "func.func"

    def function(self) -> Body:
        """Encode the function as a body, whose encoding is the function's."""
        encoder, region = self.encoder, self.graph.regions[0]
        block = region.blocks[0]
        inputs = [self.value_type(block, name) for name in block.inputs]
        outputs = [self.value_type(block, name) for name in block.outputs]
        attributes = {
            "sym_name": encoder.string_attribute((self.retain and region.name) or "main"),
            self.type_name: self.attributes.type(self.types.function(inputs, outputs)),
        }
        for key, names in (("arg_attrs", block.inputs), ("res_attrs", block.outputs)):
            if names:
                attributes[key] = written_signature(encoder, names)
        name = encoder.operation(self.function_name)
        body = Body(region)
        self.block(block, body, self.return_name)
        self.nested_regions(body)
        has, own = encoder.attributes_of(self.function_name, tuple(attributes.items()))
        regions = encoder.isolated_regions(1, body.size)
        head = name + bytes((has | code.HAS_REGIONS,)) + encoder.unknown + own + regions
        body.pieces.insert(0, head)
        return body

    def nested_regions(self, body: Body) -> None:
        """Encode the regions inside `body`, a copy for each use, depth first and without recursion."""
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
            from tosa_convert.formats.mlir.read.module import warn_of_regions

            warn_of_regions(self.graph, written)

    def value_type(self, block: Block, name: str) -> bytes:
        tensor = block.tensors.get(name)
        if tensor is not None:
            return self.types.tensor(tensor)
        return self.types.shape(block.shapes[name].rank)

    def block(self, block: Block, body: Body, terminator: str) -> None:
        """Encode a region of one block. The regions that its operators run are noted, still empty."""
        numbers = self.numbers
        values = {name: numbers[index] for index, name in enumerate(block.inputs)}
        self.enter(block)
        # The first piece is set when the values are counted.
        body.parts.append(b"")
        locations = [operator.location for operator in block.operators]
        if self.by_path:
            where = f'block "{block.name}"'
            locations = [operator_path(where, *item) for item in enumerate(block.operators)]
        columns, encoded = self.columns.get(body.region.name), None
        if columns is not None:
            from tosa_convert.formats.mlir.write.columns import write_all_at_once

            encoded = write_all_at_once(self, block, body, columns, locations, values)
        if encoded is None:
            pieces = self.one_by_one(block, body, self.locations.all(locations), values)
            value_count = len(values)
        else:
            pieces = [encoded]
            value_count = len(block.inputs) + len(block.operators)
        returned = [values[name] for name in block.outputs]
        pieces.append(terminating(self.encoder, terminator, returned))
        body.parts[0] = self.begin(block, value_count)
        body.parts.append(b"".join(pieces))

    def named_results(self, block: Block, outputs: list[tuple[str, ...]]) -> set[int]:
        """Return the positions of the operators whose results' names reading would not generate."""
        if not self.retain:
            return set()
        returned = set(block.outputs)
        differ = map(ne, chain.from_iterable(outputs), islice(self.generated, len(outputs)))
        return {index for index in compress(count(), differ) if outputs[index][0] not in returned}

    def result(self, block: Block, name: str) -> bytes:
        """Encode the type of the only result, after the count of results."""
        tensor = block.tensors.get(name)
        if tensor is not None and tensor.scale is None:
            return self.result_types[tensor.dtype, tensor.shape]
        return ONE + self.value_type(block, name)

    def one_by_one(
        self, block: Block, body: Body, locations: list[bytes], values: dict[str, bytes]
    ) -> list[bytes]:
        """Encode any operators. The results are added to `values`, regions to `body`."""
        numbers, rows = self.numbers, self.rows
        retain, generated, returned = self.retain, self.generated, set(block.outputs)
        # The pieces before the next region.
        pieces: list[bytes] = []
        for operator, location in zip(block.operators, locations, strict=True):
            inputs, outputs = operator.inputs, operator.outputs
            spec = self.operation(block, operator)
            heads = rows.get(spec) or self.row(spec)
            pairs: Pairs = ()
            if spec.encoded_as == IDENTITY.name:
                spec, inputs, outputs, pairs = self.identity(block, operator)
                heads = rows.get(spec) or self.row(spec)
            is_named = False
            if retain:
                # Keep names that reading the module would not generate by itself.
                for name in outputs:
                    if name != next(generated) and name not in returned:
                        is_named = True
            has, attributes = self.encoded_attributes(
                block, operator, body, spec=spec, own=pairs, is_named=is_named
            )
            operands = results = b""
            if outputs:
                has |= code.HAS_RESULTS
                if len(outputs) == 1:
                    results = self.result(block, outputs[0])
                else:
                    types = [self.value_type(block, name) for name in outputs]
                    results = numbers[len(outputs)] + b"".join(types)
                for name in outputs:
                    values[name] = numbers[len(values)]
            if inputs:
                has |= code.HAS_OPERANDS
                operands = numbers[len(inputs)] + b"".join([values[name] for name in inputs])
            if not spec.regions:
                pieces += heads[has], location, attributes, results, operands
                continue
            pieces += heads[has | code.HAS_REGIONS], location, attributes, results, operands
            self.run_regions(operator, body, pieces)
        return pieces

    def operation(self, block: Block, operator: Operator) -> OperatorSpec:
        """Return the row of an operator, with its name in MLIR."""
        if operator.spec is CONST:
            tensor = block.tensors.get(operator.outputs[0])
            if tensor is not None and tensor.data is None:
                return PARAMETER_LOAD
        return operator.spec

    def parameter_symbol(self, name: str) -> str:
        """Note a constant whose data is a parameter of IREE; return the symbol of its global."""
        if name in self.parameters:
            message = "two constants have this name, which the parameter would have, too"
            raise fail("duplicate-name", f'tensor "{name}"', message, "rename one of them")
        self.parameters.append(name)
        return f"parameter_{len(self.parameters) - 1}"

    def encoded_attributes(
        self,
        block: Block,
        operator: Operator,
        body: Body,
        *,
        spec: OperatorSpec,
        own: Pairs = (),
        is_named: bool,
    ) -> tuple[int, bytes]:
        """Encode attributes as HAS_ flags and indices. own: a variable's. is_named: with names."""
        has, attributes = 0, b""
        if spec is PARAMETER_LOAD:
            symbol = self.parameter_symbol(operator.outputs[0])
            own = (("global", self.encoder.symbol_attribute(symbol)),)
        elif spec is CONST or spec is CONST_SHAPE:
            own = (("values", self.values(block, operator, body)),)
        elif spec.attributes and not own:
            own, has, attributes = self.attributes_of(block, operator)
        if is_named or (self.retain and spec.regions):
            return self.with_names(spec, operator, own, is_named)
        if own and not has:
            return self.encoder.attributes_of(spec.mlir, own)
        return has, attributes

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
        self.name_variables(block)
        self.compile_time = {
            operator.inputs[position]
            for operator in block.operators
            if operator.spec in _CONSTANT_OPERANDS
            for position in _CONSTANT_OPERANDS[operator.spec]
        }

    def name_variables(self, block: Block) -> None:
        for tensor in block.tensors.values():
            if tensor.variable:
                self.symbols[tensor.name] = tensor.variable_name or tensor.name

    def row(self, spec: OperatorSpec) -> list[bytes]:
        """Return the beginnings of an operator's encoding, by HAS_ flags."""
        name = self.encoder.operation(spec.mlir)
        most = (
            code.HAS_PROPERTIES
            if self.encoder.version >= code.HAS_NATIVE_PROPERTIES
            else code.HAS_REGIONS
        )
        heads = self.rows[spec] = [name + bytes((has,)) for has in range(2 * most)]
        return heads

    def begin(self, block: Block, values: int) -> bytes:
        """Encode the beginning of a region of one block: its size and its arguments."""
        numbers = self.numbers
        count = len(block.operators) + 1
        if not block.inputs:
            return numbers[1] + numbers[values] + numbers[count << 1]
        types = [self.value_type(block, name) for name in block.inputs]
        version = self.encoder.version
        if version >= code.ARGUMENTS_OMIT_LOCATIONS:
            arguments = [numbers[decode_varint(number, 0)[0] << 1] for number in types]
        else:
            arguments = [number + self.encoder.unknown for number in types]
        if version >= code.HAS_USE_LIST_ORDERS:
            arguments.append(b"\0")
        return b"".join(
            (numbers[1], numbers[values], numbers[count << 1 | 1], numbers[len(types)], *arguments)
        )

    # -- attributes ---------------------------------------------------------------------------

    def variable_attributes(self, symbol: str, tensor: Tensor) -> dict[str, bytes]:
        attributes = {"sym_name": self.encoder.string_attribute(symbol)}
        if self.has_globals:
            attributes["is_mutable"] = self.encoder.attributes(self.numbers[code.UNIT])
            attributes["sym_visibility"] = self.encoder.string_attribute("private")
            attributes["type"] = self.attributes.type(self.types.tensor(tensor))
        else:
            sizes = struct.pack(f"<{len(tensor.shape or ())}q", *(tensor.shape or ()))
            attributes["var_shape"] = self.constants.sizes(sizes)
            attributes["type"] = self.attributes.type(self.types.element(tensor.dtype))
        if tensor.data is not None:
            key = "value" if self.has_globals else "initial_value"
            attributes[key] = self.constants.dense(tensor)
        return attributes

    def attributes_of(self, block: Block, operator: Operator) -> tuple[Pairs, int, bytes]:
        """Return the attributes of the operator's row, and how `Encoder.attributes_of` encodes them."""
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
        """Return IDENTITY, or a variable's access, with operands, results and attributes."""
        source, target = operator.inputs[0], operator.outputs[0]
        if target in block.tensors and block.tensors[target].variable:
            spec = _GLOBAL_STORE if self.has_globals else VARIABLE_WRITE
            return spec, (source,), (), self.variable_of(target)
        reads = source in block.tensors and block.tensors[source].variable
        if reads and source not in block.inputs:
            spec = _GLOBAL_LOAD if self.has_globals else VARIABLE_READ
            return spec, (), (target,), self.variable_of(source)
        return IDENTITY, (source,), (target,), ()

    def variable_of(self, name: str) -> Pairs:
        """Encode the attribute that says which variable an operator reads or writes."""
        symbol = self.symbols[name]
        if self.has_globals:
            return (("global", self.encoder.symbol_attribute(symbol)),)
        return (("name", self.encoder.string_attribute(symbol)),)

    def values(self, block: Block, operator: Operator, body: Body) -> bytes:
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
        """Encode the attributes `own`, the names of results if `is_named`, and those of regions."""
        outputs, string = operator.outputs, self.encoder.string_attribute
        if is_named and len(outputs) == 1 and not own and not spec.regions:
            # Fast path of attributes_of; equal by test test_names_written_at_once_equal_others
            if not self.named:
                self.named = bytes((code.DICTIONARY << 1 | 1, 3)) + self.encoder.name(
                    NAME_ATTRIBUTE
                )
            return code.HAS_ATTRIBUTES, self.encoder.attributes.add(self.named + string(outputs[0]))
        names: Pairs = ()
        if is_named:
            name = (
                string(outputs[0])
                if len(outputs) == 1
                else self.encoder.array([*map(string, outputs)])
            )
            names = ((NAME_ATTRIBUTE, name),)
        if spec.regions:
            regions = [str(operator.attributes[row.name]) for row in spec.regions]
            blocks = [(name, self.regions[name].blocks[0]) for name in regions]
            names = (*names, (REGIONS_ATTRIBUTE, written_regions(self.encoder, blocks)))
        return self.encoder.attributes_of(spec.mlir, own, names, unique=True)
