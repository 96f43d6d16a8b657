"""Graph -> ir.Module, in the bindings of the context it is given.

MLIR can abort the process on malformed IR, so nothing is built from a graph that `verify` refuses,
operations are created with explicit types only, and MLIR's own verifier runs before the module is
handed out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np

from tosa_convert.errors import Finding, TosaConvertError, fail, refuse_unknown
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.dtypes import dtype
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
    VARIABLE,
    VARIABLE_READ,
    VARIABLE_WRITE,
    OperatorSpec,
)
from tosa_convert.graph.opset import operator as operator_spec
from tosa_convert.graph.verify import verify
from tosa_convert.graph.versions import lowest_version, spell
from tosa_convert.mlir.bindings import Bindings
from tosa_convert.mlir.diagnostics import diagnostics
from tosa_convert.mlir.kept import NAME_ATTRIBUTE, REGIONS_ATTRIBUTE, VERSION_ATTRIBUTE
from tosa_convert.mlir.naming import Namer
from tosa_convert.mlir.writing.attributes import AttributeWriter
from tosa_convert.mlir.writing.locations import LocationWriter
from tosa_convert.mlir.writing.types import TypeWriter

Constants = Literal["auto", "dense", "resource"]

#: Constants of at most this many bytes become dense attributes, so that passes can fold them;
#: larger ones become resources that share the graph's memory.
DENSE_BYTES: Final = 256
#: Constants of at most this many bytes are searched for a value that all elements share.
SPLAT_BYTES: Final = 1 << 16
#: How deep regions may be nested; TOSA's own limit at level 8K.
MAX_NESTING: Final = 256
#: Operators a module may have for each one of the graph, and for any graph at all: a region that is
#: run from two places is in the module twice.
COPIES: Final = 16
OPERATORS_FREE: Final = 100_000
#: Strictest alignment of a resource that MLIR's bytecode can carry, in bytes.
MAX_ALIGN: Final = 16

#: IREE 3.13 takes multipliers and shifts that are resources for zeros, without a word.
_RESCALE: Final = operator_spec("RESCALE")
_BOOL: Final = dtype("BOOL")
_MXINT8: Final = dtype("MXINT8")


log = logging.getLogger("tosa_convert")


def write(
    graph: Graph,
    bindings: Bindings,
    context: Any,
    *,
    names: Literal["retain", "generate"] = "retain",
    constants: Constants = "auto",
) -> Any:
    """The graph as a module with one function: @main, or what the first region is called.

    names: "retain" keeps names that reading would not generate anyway, as discardable attributes
        (tosa.tensor_name, tosa.regions); "generate" keeps those of arguments and results only, as
        tosa-opt does.
    constants: "auto" shares the memory of large constants with the graph's buffers, which then live
        as long as the context; "dense" copies all; "resource" shares all that can be.

    Raises TosaConvertError if the graph is not sound, or with what MLIR's verifier says of it.
    """
    refuse_unknown("names", names, ("retain", "generate"))
    refuse_unknown("constants", constants, ("auto", "dense", "resource"))
    findings = verify(graph)
    if findings:
        raise TosaConvertError(findings)
    return _Writer(graph, bindings, context, names == "retain", constants).module()


class _Writer:
    def __init__(
        self, graph: Graph, bindings: Bindings, context: Any, retain: bool, constants: Constants
    ) -> None:
        self.graph = graph
        self.bindings = bindings
        self.ir = bindings.ir
        self.context = context
        self.retain = retain
        self.constants = constants
        self.types = TypeWriter(bindings, context)
        #: Types by dtype and shape: asked once for each result.
        self.plain_types: dict[tuple[int, tuple[int, ...] | None], Any] = {}
        self.attributes = AttributeWriter(bindings, context, self.types)
        self.location = LocationWriter(bindings, context)
        self.regions = {region.name: region for region in graph.regions}
        self.namer = Namer()
        #: Whether operators get their path in the graph as their location.
        self.by_path = False
        #: Names in the current block of constants that compilers look into and so must be dense.
        self.folded: set[str] = set()
        #: Variable symbols by the name of their tensor.
        self.symbols: dict[str, str] = {}

    def module(self) -> Any:
        ir, graph = self.ir, self.graph
        with self.context, self.location.unknown:
            module = ir.Module.create(self.location.unknown)
            operation = module.operation
            version = graph.version
            stamp = f"{version.major}.{version.minor}.{version.patch}{'d' if version.draft else ''}"
            operation.attributes["tosa.description"] = self.attributes.string("TOSA FBS Converted")
            operation.attributes["tosa.fbs_version"] = self.attributes.string(stamp)
            if self.retain and version > lowest_version(graph):
                operation.attributes[VERSION_ATTRIBUTE] = self.attributes.string(spell(version))
            try:
                with ir.InsertionPoint(module.body):
                    self.declare_variables()
                    self.function(graph.regions[0])
                operation.verify()
            except ir.MLIRError as error:
                refusal = diagnostics(self.bindings, error, "module")
            else:
                return module
        if not self.by_path and not all(found.where for found in refusal.findings):
            # MLIR names operators by location, and these have none: say it again with their paths.
            self.again_by_path()
        raise refusal

    def again_by_path(self) -> None:
        """Build once more with each operator's path as its location; raises what MLIR says then."""
        again = _Writer(
            self.graph, self.bindings, self.bindings.new_context(), self.retain, self.constants
        )
        again.by_path = True
        again.module()

    def tensor_type(self, tensor: Tensor) -> Any:
        scale = tensor.scale
        if scale is not None:
            return self.types.tensor(tensor.dtype, tensor.shape, (scale.dtype, scale.shape))
        key = (tensor.dtype.code, tensor.shape)
        kind = self.plain_types.get(key)
        if kind is None:
            kind = self.plain_types[key] = self.types.tensor(tensor.dtype, tensor.shape)
        return kind

    def value_type(self, block: Block, name: str) -> Any:
        tensor = block.tensors.get(name)
        if tensor is not None:
            return self.tensor_type(tensor)
        return self.types.shape(block.shapes[name].rank)

    # -- variables ----------------------------------------------------------------------------

    def declare_variables(self) -> None:
        """Every block lists the variables; declare each symbol once, in the order of the names."""
        declared: dict[str, Tensor] = {}
        findings: list[Finding] = []
        for where, block in self.graph.blocks():
            for tensor in block.tensors.values():
                if not tensor.variable:
                    continue
                symbol = tensor.variable_name or tensor.name
                first = declared.setdefault(symbol, tensor)
                if (first.dtype, first.shape) != (tensor.dtype, tensor.shape):
                    findings.append(
                        Finding(
                            "malformed-tensor",
                            f'{where} tensor "{tensor.name}"',
                            f"variable @{symbol} is {tensor.dtype} {tensor.shape} here and "
                            f"{first.dtype} {first.shape} elsewhere",
                        )
                    )
                if tensor.shape is None:
                    findings.append(
                        Finding(
                            "unsupported-shape",
                            f'{where} tensor "{tensor.name}"',
                            f"variable @{symbol} is unranked",
                            "give the variable a rank",
                        )
                    )
            findings += self.misused_variables(where, block)
        if findings:
            raise TosaConvertError(findings)
        for symbol, tensor in sorted(declared.items(), key=lambda item: _natural(item[1].name)):
            sizes = ", ".join(str(size) if size > 0 else "-1" for size in tensor.shape or ())
            attributes = {
                "sym_name": self.attributes.string(symbol),
                "var_shape": self.attributes.parse(
                    f"dense<[{sizes}]> : tensor<{len(tensor.shape or ())}xindex>"
                ),
                "type": self.ir.TypeAttr.get(self.types.element(tensor.dtype)),
            }
            if tensor.data is not None:
                kind = self.tensor_type(tensor)
                attributes["initial_value"] = self.dense(tensor.name, kind, tensor.data)
            self.create(VARIABLE, [], [], attributes, self.location.unknown)

    @staticmethod
    def misused_variables(where: str, block: Block) -> Iterator[Finding]:
        """Variables where the dialect needs a value: only reading and writing operators name them."""
        variables = {tensor.name for tensor in block.tensors.values() if tensor.variable}
        variables -= set(block.inputs)
        if not variables:
            return
        hint = "read it into a tensor of its own with VARIABLE_READ"
        for name in block.outputs:
            if name in variables:
                message = f'block output "{name}" is a variable, expected a value'
                yield Finding("malformed-structure", where, message, hint)
        for index, operator in enumerate(block.operators):
            touched = [name for name in operator.inputs + operator.outputs if name in variables]
            if len(touched) > (operator.spec.encoded_as == IDENTITY.name):
                yield Finding(
                    "malformed-operator",
                    operator_path(where, index, operator),
                    f'"{touched[-1]}" is a variable, expected a value',
                    hint,
                )

    # -- functions and blocks -----------------------------------------------------------------

    def create(
        self,
        spec: OperatorSpec,
        results: list[Any],
        operands: list[Any],
        attributes: dict[str, Any],
        location: Any,
        regions: int = 0,
    ) -> Any:
        return self.ir.Operation.create(
            spec.mlir,
            results=results,
            operands=operands,
            attributes=attributes,
            regions=regions,
            loc=location,
        )

    def function(self, region: Region) -> None:
        ir, block = self.ir, region.blocks[0]
        inputs = [self.value_type(block, name) for name in block.inputs]
        outputs = [self.value_type(block, name) for name in block.outputs]
        attributes = {
            "sym_name": self.attributes.string((self.retain and region.name) or "main"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(inputs, outputs)),
        }
        for which, names in (("arg_attrs", block.inputs), ("res_attrs", block.outputs)):
            if names:
                attributes[which] = self.signature(names)
        function = ir.Operation.create(
            "func.func",
            attributes=attributes,
            regions=1,
            loc=self.location.unknown,
        )
        nested = self.block(block, function.regions[0].blocks.append(*inputs), "func.return")
        # Depth first, in the order of reading. Not recursive, because files may nest and share
        # regions as they like, and each place that runs a region gets a copy of it.
        pending = [(inner, 1) for inner in reversed(nested)]
        built = len(block.operators)
        left = {other.name for other in self.graph.regions[1:]}
        limit = OPERATORS_FREE + COPIES * sum(len(b.operators) for _, b in self.graph.blocks())
        while pending:
            (name, place), depth = pending.pop()
            block = self.regions[name].blocks[0]
            built += len(block.operators) + 1
            if depth > MAX_NESTING or built > limit:
                raise fail(
                    "too-large",
                    block_path(name, block.name),
                    f"regions are nested more than {MAX_NESTING} deep"
                    if depth > MAX_NESTING
                    else f"regions that are run from many places come to over {limit} operators",
                    "MLIR has a copy of a region at each place that runs it",
                )
            kinds = [self.value_type(block, name) for name in block.inputs]
            locations = [self.location.unknown] * len(kinds)
            body = place.blocks.append(*kinds, arg_locs=locations)
            nested = self.block(block, body, "tosa.yield")
            pending += [(inner, depth + 1) for inner in reversed(nested)]
            left.discard(name)
        if left:
            listing = ", ".join(
                quoted(other.name) for other in self.graph.regions if other.name in left
            )
            log.warning(
                "regions that nothing runs are left out, MLIR has no place for them: %s", listing
            )

    def signature(self, names: list[str]) -> Any:
        """The names of arguments or results, as the dialect keeps them."""
        ir = self.ir
        return ir.ArrayAttr.get(
            [ir.DictAttr.get({NAME_ATTRIBUTE: self.attributes.string(name)}) for name in names]
        )

    def block(self, block: Block, body: Any, terminator: str) -> list[tuple[str, Any]]:
        """Build a block; returns the regions that its control flow runs, each with its place."""
        ir = self.ir
        values: dict[str, Any] = dict(zip(block.inputs, body.arguments, strict=True))
        for tensor in block.tensors.values():
            if tensor.variable:
                self.symbols[tensor.name] = tensor.variable_name or tensor.name
        # Advance the counters as reading would, to see which names need not be kept.
        outputs = set(block.outputs)
        self.folded = {
            name
            for operator in block.operators
            if operator.spec is _RESCALE
            for name in operator.inputs[1:]
        }
        nested: list[tuple[Operator, Any]] = []
        create, location, by_path = self.ir.Operation.create, self.location, self.by_path
        with ir.InsertionPoint(body):
            for index, operator in enumerate(block.operators):
                spec = operator.spec
                if spec.encoded_as == IDENTITY.name:
                    self.identity(block, operator, values, outputs)
                    continue
                results = [self.value_type(block, name) for name in operator.outputs]
                attributes: dict[str, Any] = {}
                if spec.attributes:
                    element = None
                    if operator.inputs and operator.inputs[0] in block.tensors:
                        element = block.tensors[operator.inputs[0]].dtype
                    for row in spec.attributes:
                        if row.kind != "region":
                            attributes[row.name] = self.attributes(
                                spec, row, operator.attributes[row.name], element
                            )
                elif spec is CONST or spec is CONST_SHAPE:
                    attributes["values"] = self.values(block, operator.outputs[0])
                if self.retain:
                    self.keep_names(operator, outputs, attributes)
                    if spec.regions:
                        self.keep_regions(operator, attributes)
                try:
                    built = create(
                        spec.mlir,
                        results,
                        [values[name] for name in operator.inputs],
                        attributes,
                        None,
                        len(spec.regions),
                        location(
                            self.path(block, index, operator) if by_path else operator.location
                        ),
                    )
                except ir.MLIRError as error:
                    path = self.path(block, index, operator)
                    raise diagnostics(self.bindings, error, path) from None
                if len(results) == 1:
                    values[operator.outputs[0]] = built.result
                else:
                    values.update(zip(operator.outputs, built.results, strict=True))
                if spec.regions:
                    nested.append((operator, built))
            ir.Operation.create(terminator, operands=[values[name] for name in block.outputs])
        return [
            (str(operator.attributes[row.name]), region)
            for operator, built in nested
            for row, region in zip(operator.spec.regions, built.regions, strict=True)
        ]

    @staticmethod
    def path(block: Block, index: int, operator: Operator) -> str:
        return operator_path(f'block "{block.name}"', index, operator)

    def identity(
        self, block: Block, operator: Operator, values: dict[str, Any], outputs: set[str]
    ) -> None:
        """IDENTITY, or what a file writes as one: reading or writing a variable."""
        spec = operator.spec
        source, target = operator.inputs[0], operator.outputs[0]
        location = self.location(operator.location)
        attributes: dict[str, Any] = {}
        if block.tensors[target].variable if target in block.tensors else False:
            attributes["name"] = self.attributes.string(self.symbols[target])
            self.create(VARIABLE_WRITE, [], [values[source]], attributes, location)
            return
        reads = source in block.tensors and block.tensors[source].variable
        if reads and source not in block.inputs:
            attributes["name"] = self.attributes.string(self.symbols[source])
            operands, spec = [], VARIABLE_READ
        else:
            operands = [values[source]]
            spec = IDENTITY
        if self.retain:
            self.keep_names(operator, outputs, attributes)
        kind = self.value_type(block, target)
        values[target] = self.create(spec, [kind], operands, attributes, location).result

    def keep_names(self, operator: Operator, outputs: set[str], attributes: dict[str, Any]) -> None:
        """Note names that reading the module would not generate by itself."""
        needed = False
        for name in operator.outputs:
            generated = self.namer.result()
            needed = needed or (name != generated and name not in outputs)
        if needed:
            strings = [self.attributes.string(name) for name in operator.outputs]
            attributes[NAME_ATTRIBUTE] = (
                strings[0] if len(strings) == 1 else self.ir.ArrayAttr.get(strings)
            )

    def keep_regions(self, operator: Operator, attributes: dict[str, Any]) -> None:
        """Note what the file calls an operator's regions and their arguments and results."""
        ir, string = self.ir, self.attributes.string
        entries = []
        for row in operator.spec.regions:
            name = str(operator.attributes[row.name])
            block = self.regions[name].blocks[0]
            entries.append(
                ir.DictAttr.get(
                    {
                        "name": string(name),
                        "block": string(block.name),
                        "inputs": ir.ArrayAttr.get(list(map(string, block.inputs))),
                        "outputs": ir.ArrayAttr.get(list(map(string, block.outputs))),
                    }
                )
            )
        attributes[REGIONS_ATTRIBUTE] = ir.ArrayAttr.get(entries)

    # -- constants ----------------------------------------------------------------------------

    def values(self, block: Block, name: str) -> Any:
        """The `values` of a constant."""
        ir = self.ir
        shape = block.shapes.get(name)
        if shape is not None:
            sizes = list(shape.values() or ())
            text = ", ".join(map(str, sizes))
            return self.attributes.parse(f"dense<[{text}]> : tensor<{len(sizes)}xindex>")
        tensor = block.tensors[name]
        data = tensor.data
        assert data is not None
        kind = self.tensor_type(tensor)
        if tensor.scale is not None:
            assert tensor.scale.data is not None
            return self.block_scaled(tensor, data, tensor.scale.data)
        shared = self.constants == "resource" or (
            self.constants == "auto" and data.nbytes > DENSE_BYTES and name not in self.folded
        )
        if shared and data.is_view and not data.dtype.is_packed and data.dtype is not _BOOL:
            uniform = data.nbytes <= SPLAT_BYTES and data.uniform() is not None
            if not uniform or self.constants == "resource":
                # The alignment is part of what MLIR prints, so it must not depend on the address: it
                # is the element's own, and data that lies askew (files may) is moved.
                buffer: Any = data.buffer
                alignment = min(MAX_ALIGN, data.dtype.element_bytes & -data.dtype.element_bytes)
                raw = np.frombuffer(buffer, np.uint8)
                if raw.ctypes.data % alignment:
                    buffer = raw.copy()
                return ir.DenseResourceElementsAttr.get_from_buffer(
                    buffer,
                    name or "constant",
                    kind,
                    alignment=alignment,
                    is_mutable=False,
                    context=self.context,
                )
        return self.dense(name, kind, data)

    def dense(self, name: str, kind: Any, data: Constant) -> Any:
        """A dense attribute; the data is copied into the context."""
        if data.count == 0:
            return self.ir.Attribute.parse(f"dense<> : {kind}", self.context)
        if data.dtype is _MXINT8:
            # The dialect spells these elements as strings.
            elements = [f'"0x{byte:X}"' for byte in data.elements().reshape(-1).tolist()]
            body = elements[0] if data.uniform() is not None else _nested(elements, kind.shape)
            return self.ir.Attribute.parse(f"dense<{body}> : {kind}", self.context)
        splat = data.uniform()
        raw: Any
        if splat is not None:
            raw = np.frombuffer(splat, np.uint8)
        else:
            # One byte for each element below 8 bits; MLIR copies, so a view is enough.
            raw = np.ascontiguousarray(data.elements()).reshape(-1)
        if data.dtype is _BOOL:
            raw = (raw != 0).astype(np.uint8)
        return self.ir.DenseElementsAttr.get(raw, type=kind, context=self.context)

    def block_scaled(self, tensor: Tensor, data: Constant, scales: Constant) -> Any:
        """Values as a dense attribute whose element type carries the scales."""
        assert tensor.scale is not None
        literals = ", ".join(map(_e8m0, scales.elements().reshape(-1).tolist()))
        sizes = "x".join(map(str, tensor.shape or ()))
        kind = self.ir.Type.parse(
            f"tensor<{sizes}x!tosa.block_scaled<{tensor.scale.shape.name}:"
            f"{tensor.scale.dtype.mlir}:{tensor.dtype.mlir}, {{{literals}}}>>",
            self.context,
        )
        raw = np.ascontiguousarray(data.elements()).reshape(-1)
        return self.ir.DenseElementsAttr.get(raw, type=kind, context=self.context)


def _natural(name: str) -> tuple[str, int]:
    """Sort Variable_10 behind Variable_9."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1)


def _nested(elements: list[str], shape: Any) -> str:
    """Elements in the brackets of a dense attribute's rows."""
    sizes = list(shape)
    parts = elements
    for size in reversed(sizes):
        parts = [
            "[" + ", ".join(parts[start : start + size]) + "]"
            for start in range(0, len(parts), size)
        ]
    return parts[0]


def _e8m0(code: int) -> str:
    """A scale as MLIR reads it: 0xFF is NaN, everything else a power of two."""
    return "0xFF" if code == 0xFF else repr(2.0 ** (code - 127))
