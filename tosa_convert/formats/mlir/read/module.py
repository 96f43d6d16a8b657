"""A function of an MLIR module as a graph, from the module's bytecode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Final, cast

from tosa_convert.errors import MAX_FINDINGS, TosaConvertError, fail
from tosa_convert.formats.mlir.bytecode import operations as bytecode_operations
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.operations import Fields, Operation
from tosa_convert.formats.mlir.bytecode.read_sections import read_sections, sections_in_pieces
from tosa_convert.formats.mlir.names import (
    NAME_ATTRIBUTE,
    RESULT_PREFIX,
    VERSION_ATTRIBUTE,
    names_of,
    signature_names,
    text_of,
)
from tosa_convert.formats.mlir.read.operator import ANY_NUMBER, OperatorReader
from tosa_convert.formats.mlir.read.scope import (
    CapturedValues,
    Narrowing,
    PendingRegion,
    Scope,
    is_identity,
    without_clamp,
)
from tosa_convert.formats.mlir.read.select_function import (
    MODULE,
    bodies_of,
    names_with_body,
    select,
    signature_of,
)
from tosa_convert.formats.mlir.types import TARGET_ENV, TargetEnv, ValueType, read
from tosa_convert.graph.compare import compare
from tosa_convert.graph.derived import unrun_regions, unused_name
from tosa_convert.graph.model import DYNAMIC, Block, Graph, Operator, Region, Tensor, quoted
from tosa_convert.graph.opset import IDENTITY, VARIABLE, operator
from tosa_convert.graph.versions import V1_1_DRAFT, lowest_version, parse_version
from tosa_convert.io import log
from tosa_convert.io.options import ReadOptions

if TYPE_CHECKING:
    from tosa_convert.eras.editor import OldOperation, Upgrade
    from tosa_convert.formats.mlir.read.old_operations import OldOperations
    from tosa_convert.formats.mlir.read.settled_operations import Calls
    from tosa_convert.formats.mlir.types import TypeReader


# -- A function of a module as a graph: its regions, blocks and values -----------------------------

#: So many operations that are not all ordinary are read at once.
_AT_ONCE: Final = 1 << 12
_YIELD: Final = "tosa.yield"
_RETURN: Final = "func.return"
_CAST: Final = operator("CAST")
_CLAMP: Final = operator("CLAMP")


class FunctionReader:
    """Reads one function.

    bytecode: the func.func operation. options: `names` and `full_paths` apply.
    captures: passes in what regions capture, instead of refusing it; else None.
    upgrade: what is noted about old operations; None until there is one.
    """

    def __init__(
        self,
        bytecode: Bytecode,
        options: ReadOptions,
        narrowing: Narrowing,
        captures: CapturedValues | None = None,
        upgrade: Upgrade | None = None,
    ) -> None:
        self.bytecode = bytecode
        self.options = options
        self.retain = options.names == "retain"
        self.narrowing = narrowing
        self.captures = captures
        self.reader = OperatorReader(bytecode, options, narrowing, captures)
        self.report = self.reader.report
        self.namer = self.reader.namer
        self.regions: list[Region] = []
        self.upgrade = upgrade
        self.old: OldOperations | None = None
        #: The values of unsigned types, by the identity of their block.
        self.unsigned: dict[int, set[str]] = {}
        #: Whether the module has operations of dialects that may only say shapes.
        self.has_pure = any(name.startswith(("arith.", "tensor.")) for name in bytecode.names)
        #: The calls that are inlined, once there is one.
        self.calls: Calls | None = None
        #: Results of casts with the values that they are, in the block that is read.
        self.equal: dict[int, int] = {}
        self.scope: Scope

    @property
    def symbol(self) -> str:
        attributes = self.bytecode.dictionary(self.bytecode.root.attributes)
        return text_of(self.bytecode, attributes.get("sym_name")) or ""

    def graph(self, variables: Iterable[Bytecode]) -> Graph:
        """Read the graph, with the module's tosa.variable operations; raise what cannot be carried."""
        taken: set[str] = set()
        inner = list(self._inner_variables())
        fixed: dict[str, str] = {}
        for variable in chain(variables, inner):
            from tosa_convert.formats.mlir.variables import fixed_globals, read_variable

            fixed |= fixed_globals([variable])

            tensor, findings = read_variable(
                variable, len(self.reader.variables), self.narrowing, taken, retain=self.retain
            )
            self.report.findings.extend(findings)
            if tensor is not None:
                if tensor.variable_name in self.reader.variables:
                    message = f"variable @{tensor.variable_name} is declared twice"
                    self.report.add(variable.root, "duplicate-name", message)
                if tensor.variable_name in fixed:
                    self.reader.fixed[tensor.variable_name] = fixed[tensor.variable_name], tensor
                    continue
                taken.add(tensor.name)
                self.reader.variables[tensor.variable_name] = tensor
        # Depth first, in the order of the file. Not recursive: modules may nest deeply.
        pending = [self._main()]
        while pending:
            item = pending.pop()
            self.regions.append(item.region)
            self._block(item)
            pending += reversed(self.scope.pending)
        if self.captures is not None and not self.report.findings:
            self.captures.finish()
        is_old = self.old is not None or self.reader.constants.found_old or self.reader.renamed
        if is_old or inner or self.unsigned or self.upgrade is not None:
            self._upgrade(len(inner))
        self.report.findings.raise_if_any()
        if any(name != noted for name, noted in self.reader.noted.items()):
            self.regions = merge_copies(self.regions, self.reader.noted)
        return Graph(V1_1_DRAFT, self.regions)

    def _inner_variables(self) -> Iterator[Bytecode]:
        """Iterate over variables that are declared in the function, as they were up to early 2025."""
        if VARIABLE.mlir in self.bytecode.names:
            from tosa_convert.formats.mlir.read.select_function import operations_named

            number = self.bytecode.names.index(VARIABLE.mlir)
            yield from map(self.bytecode.rooted, operations_named(self.bytecode.root, {number}))

    def _main(self) -> PendingRegion:
        # Readers of files expect the first block to be called main; the region may keep its name.
        name = self.symbol if self.retain else "main"
        self.namer.regions.add(name)
        root = self.bytecode.root
        blocks = root.regions[0].blocks
        if len(blocks) != 1:
            message = f"function @{self.symbol} has {len(blocks)} blocks, expected 1"
            hint = "lower control flow to tosa.cond_if and tosa.while_loop"
            raise fail("malformed-structure", self.report.where(root), message, hint)
        block = blocks[0]
        pending = PendingRegion(Region(name, [Block("main")]), block, root)
        if self.retain:
            pending.inputs = signature_names(self.bytecode, "arg_attrs", len(block.arguments))
            last = block.last()
            returned = 0 if last is None else len(last.operands)
            pending.outputs = signature_names(self.bytecode, "res_attrs", returned)
        return pending

    # -- blocks -------------------------------------------------------------------------------

    def _block(self, item: PendingRegion) -> None:
        """Read a block. The regions of its operators are in `scope.pending` then."""
        body, owner, block = item.body, item.owner, item.region.blocks[0]
        tensors = {tensor.name: tensor for tensor in self.reader.variables.values()}
        scope = self.scope = Scope(item, block, tensors, set(tensors))
        if self.captures is not None:
            self.captures.entered(scope)
        self.equal = {}
        if self.has_pure:
            from tosa_convert.formats.mlir.read.settled_operations import equal_values

            self.equal = equal_values(self.bytecode, body)
        carried = self._carried_names(body)
        for names in (item.inputs, item.outputs, (name for name, _ in carried.values())):
            scope.taken.update(name for name in names if name is not None)
        self._arguments(item)
        last = body.last()
        in_function = self.reader.name(owner) == "func.func"
        terminator = _RETURN if in_function else _YIELD
        if last is None or self.reader.name(last) != terminator:
            label = terminator if last is None else self.reader.name(last)
            if last is not None and label.partition(".")[0] not in ("func", "tosa"):
                self.reader.foreign(last)
            else:
                message = f"the block does not end in {terminator}"
                self.report.add(last or owner, "malformed-structure", message)
            return
        if last.types:
            self.report.add(last, "malformed-structure", f"{terminator} has results, expected none")
        self._name_results(item, [self.equal.get(v, v) for v in last.operands], carried)
        self._operations(block)
        # Those of the operations have been read, and no others are kept.
        self.reader.location([*body.locations, last.location])
        block.outputs += map(self.value_of(last), last.operands)
        if in_function:
            self._check_signature(body, last)
        # The order of tosa-opt: variables, the last declared first, then everything by name.
        variables = {tensor.name: tensor for tensor in self.reader.variables.values()}
        for name in variables:
            tensors.pop(name, None)
        if variables and self.retain and terminator is not _RETURN:
            # With generated names the file is that of tosa-opt, where each block lists all.
            used = {name for op in block.operators for name in (*op.inputs, *op.outputs)}
            variables = {name: row for name, row in variables.items() if name in used}
        block.tensors = dict(reversed(variables.items()))
        # Sorting the names in the order in which they were numbered is fast: it has long sorted runs.
        ordered = sorted(tensors)
        block.tensors.update(zip(ordered, map(tensors.__getitem__, ordered), strict=True))
        block.shapes = {name: scope.shapes[name] for name in sorted(scope.shapes)}
        scope.tensors, scope.shapes = block.tensors, block.shapes
        if scope.unsigned:
            self.unsigned[id(block)] = scope.unsigned

    def _check_signature(self, body: bytecode_operations.Block, last: Operation) -> None:
        bytecode, types = self.bytecode, self.bytecode.type
        signature = signature_of(bytecode, bytecode.root)
        if signature is None or not self.symbol:
            message = f"function @{self.symbol} has no {'name' if signature else 'type'}"
            self.report.add(bytecode.root, "malformed-structure", message)
            return
        arguments = list(map(types, body.arguments))
        # Results of foreign operations, and values from outside, have findings of their own.
        returned = [
            types(number) if number >= 0 and self.scope.values.get(value) else wanted
            for value, number, wanted in zip_longest(
                last.operands, body.types_of(last.operands), signature.results
            )
            if value is not None
        ]
        for what, operation, found, expected in (
            ("has arguments of types", bytecode.root, arguments, signature.inputs),
            ("returns values of types", last, returned, signature.results),
        ):
            if tuple(found) != expected:
                listed, wanted = (", ".join(map(str, part)) or "none" for part in (found, expected))
                message = f"function @{self.symbol} {what} {listed}; its own type has {wanted}"
                self.report.add(operation, "malformed-structure", message)

    def _arguments(self, item: PendingRegion) -> None:
        """Name a block's arguments and add them to its values."""
        body, block, scope = item.body, item.region.blocks[0], self.scope
        for index, type_index in enumerate(body.arguments):
            carried = item.inputs[index] if index < len(item.inputs) else None
            if carried is None:
                name = self.generate(self.namer.input())
            else:
                name = self._claim(carried, f"argument {index}")
            scope.values[body.first + index] = name
            block.inputs.append(name)
            value_type = self.reader.types(type_index)
            self.reader.value(item.owner, f"argument {index}", name, value_type, scope)

    def _carried_names(self, body: bytecode_operations.Block) -> dict[int, tuple[str, int]]:
        """Return the names that operations carry for results, by values, each with its own number."""
        carried: dict[int, tuple[str, int]] = {}
        if self.reader.fixed:
            carried.update(self.reader.loaded(body))
        if not self.retain:
            return carried
        without = {-1}
        bytecode = self.bytecode
        for label, attributes, result_count, first in bytecode_operations.attributes_and_results(
            body
        ):
            if attributes in without:
                continue
            number = bytecode.discardable(attributes)
            text = bytecode.only_text(number, NAME_ATTRIBUTE)
            if text is not None and result_count == 1:
                carried[first] = text, label
                self.reader.names_only.add(attributes)
                continue
            index = bytecode.dictionary(number).get(NAME_ATTRIBUTE)
            if index is None:
                without.add(attributes)
                continue
            for number, name in enumerate(names_of(bytecode, index)[:result_count], first):
                if name is not None:
                    carried[number] = name, label
        return carried

    def _name_results(
        self, item: PendingRegion, returned: list[int], carried: dict[int, tuple[str, int]]
    ) -> None:
        """Name the results of operations that are returned, or that carry a name."""
        scope = self.scope
        for index, value in enumerate(returned):
            if value in scope.values or value in scope.names:
                continue
            name = item.outputs[index] if index < len(item.outputs) else None
            if name is None:
                # The signature's names come first, then the operation's, then generated ones.
                name, _ = carried.get(value, (None, 0))
            if name is None:
                scope.names[value] = self.generate(self.namer.output())
            else:
                scope.names[value] = self._claim(name, f"result {index}")
        for value, (name, number) in carried.items():
            if value not in scope.names:
                label = self.bytecode.names[number]
                scope.names[value] = self._claim(name, f"the result of '{label}'")

    def generate(self, name: str) -> str:
        name = unused_name(name, self.scope.taken)
        self.scope.taken.add(name)
        return name

    def _claim(self, name: str, what: str) -> str:
        """Claim a name that the module carries for a value; add a finding if another value has it."""
        scope = self.scope
        if name in scope.claimed or name in scope.tensors:
            message = f'{what} is called "{name}", and so is another value of the function'
            hint = f"give every value its own {NAME_ATTRIBUTE}, or use names='generate'"
            self.report.add(scope.item.owner, "duplicate-name", message, hint)
        scope.claimed.add(name)
        return name

    # -- operations ---------------------------------------------------------------------------

    def _operations(self, block: Block) -> None:
        """Read a block's operations except the last."""
        if self.scope.item.body.columns is not None:
            from tosa_convert.formats.mlir.read.columns import read_all_at_once

            if read_all_at_once(self.reader, self.scope, block):
                return
        operations = self._live_operations()
        # There may be so many findings in the first that the others are not read.
        while some := list(islice(operations, _AT_ONCE)):
            self._one_by_one(block, some, self.reader.location([fields[1] for fields in some]))

    def _one_by_one(self, block: Block, operations: list[Fields], locations: list[str]) -> None:
        """Read any operations, and report what is wrong with them."""
        scope, reader, specs, types = self.scope, self.reader, self.reader.specs, self.reader.types
        values, tensors, names, taken = scope.values, scope.tensors, scope.names, scope.taken
        narrowing = bool(self.narrowing)
        # Old operations are among the operators until all blocks have been read.
        items = cast("list[Operator | OldOperation]", block.operators)
        append, count = items.append, self.namer.results
        operand_counts = reader.operand_counts
        # Whether a generated name might already belong to another value.
        may_clash = any(name.startswith(RESULT_PREFIX) for name in taken)
        for fields, location in zip(operations, locations, strict=True):
            name, _, attributes, type_indices, operands, number, _ = fields
            spec = specs[name]
            other_count = operand_counts[name] not in (ANY_NUMBER, len(operands))
            if spec is None and not other_count:
                self.namer.results = count
                items += self._not_of_tosa(Operation(*fields), location)
                count = self.namer.results
                continue
            try:
                inputs = tuple([values[operand] for operand in operands])
            except KeyError:
                inputs = tuple(map(self.value_of(Operation(*fields)), operands))
            outputs: tuple[str, ...] = ()
            value_type = None
            for type_index in type_indices:
                output = f"{RESULT_PREFIX}{count}"
                count += 1
                if number in names:
                    output = names[number]
                elif may_clash and output in taken:
                    output = self.generate(output)
                values[number] = output
                number += 1
                value_type = types(type_index)
                if value_type.is_plain:
                    tensors[output] = Tensor(output, value_type.dtype, value_type.shape)  # type: ignore[arg-type]
                else:
                    reader.value(
                        Operation(*fields), f"result {len(outputs)}", output, value_type, scope
                    )
                outputs += (output,)
            old = self._old(fields, inputs, outputs, location) if other_count else None
            if old is not None:
                append(old)
                continue
            assert spec is not None
            operator = Operator(spec, inputs, outputs, {}, location)
            if spec is _CAST and narrowing and is_identity(operator, scope):
                operator.spec = IDENTITY
            if attributes != -1 or reader.has_attributes[name]:
                self._complete(operator, fields, value_type)
            if spec is _CLAMP and value_type is not None and value_type.narrowed == "i64":
                items += without_clamp(operator, scope, self.narrowing)
                continue
            append(operator)
        self.namer.results = count

    def _not_of_tosa(self, operation: Operation, location: str) -> list[Operator]:
        """Return the operators that an operation of another dialect is, or report it."""
        from tosa_convert.formats.mlir.read import settled_operations

        reader, scope = self.reader, self.scope
        name, count = reader.name(operation), len(operation.types)
        operands = map(self.value_of(operation), operation.operands)
        if name == settled_operations.CALL:
            if self.calls is None:
                self.calls = settled_operations.Calls(bodies_of(self.bytecode), [self.symbol])
            operators, regions = settled_operations.inlined(
                self.calls, reader, scope, operation, list(operands), self._called
            )
            self.regions += regions
            return operators
        if name in settled_operations.READ and count == 1 and operation.operands:
            source = next(operands)
            return settled_operations.read(
                reader, scope, operation, source, location, self.generate
            )
        reader.foreign(operation)
        # Its results count as defined: their users need no finding.
        scope.values.update((operation.first + index, "") for index in range(count))
        return []

    def _called(self, function: Operation) -> Graph:
        captures = None if self.captures is None else CapturedValues()
        root = self.bytecode.rooted(function)
        inner = FunctionReader(root, self.options, self.narrowing, captures, self.upgrade)
        inner.calls, inner.namer, inner.reader.namer = self.calls, self.namer, self.namer
        inner.reader.variables, inner.reader.fixed = self.reader.variables, self.reader.fixed
        graph = inner.graph(())
        self.reader.noted |= inner.reader.noted
        self.upgrade = self.upgrade or inner.upgrade
        for line in () if captures is None else captures.report():
            log.warning("%s", line)
        return graph

    def _complete(self, operator: Operator, fields: Fields, value_type: ValueType | None) -> None:
        """Give an operator what its attributes say. value_type: of its last result."""
        name, _, attributes, types, _, _, _ = fields
        if len(types) != 1 or not self.reader.is_completed(
            operator, name, attributes, types[0], value_type, self.scope
        ):
            self.reader.read(operator, Operation(*fields), self.scope)

    def _old(
        self, fields: Fields, inputs: tuple[str, ...], outputs: tuple[str, ...], location: str
    ) -> OldOperation | None:
        """Read the operation if it has the form of an older release, or return None."""
        if not self.reader.is_other_form(fields, inputs, self.scope):
            return None
        return self._old_operations().read(fields, inputs, outputs, location, self.scope)

    def _old_operations(self) -> OldOperations:
        if self.old is None:
            from tosa_convert.eras.editor import Upgrade
            from tosa_convert.formats.mlir.read.old_operations import OldOperations

            if self.upgrade is None:
                self.upgrade = Upgrade()
            self.old = OldOperations(self.bytecode, self.report, self.upgrade)
        return self.old

    def _upgrade(self, moved: int) -> None:
        """Bring the function to the form of TOSA 1.0. moved: how many variables it declares itself."""
        old = self._old_operations()
        assert self.upgrade is not None
        self.upgrade.is_old |= moved > 0
        for _ in range(moved):
            self.upgrade.add("variable", "the module declares it, not the function")
        self.upgrade.is_old |= self.reader.constants.found_old
        old.count_renamed(self.reader.renamed)
        if self.upgrade.is_old or self.unsigned:
            old.finish((region.blocks[0] for region in self.regions), self.unsigned)

    def _live_operations(self) -> Iterator[Fields]:
        """Return operations but the last, without variables, and unused sizes that frontends leave."""
        names = self.bytecode.names
        declaring = names.index(VARIABLE.mlir) if VARIABLE.mlir in names else -1
        dead: set[int] = set()
        if self.has_pure:
            from tosa_convert.formats.mlir.read.settled_operations import dead_operations

            dead = dead_operations(self.bytecode, self.scope.item.body)
        for fields in self.scope.item.body.without_last():
            if fields[0] != declaring and (fields[5] not in dead or not fields[3]):
                yield fields

    def value_of(self, operation: Operation) -> Callable[[int], str]:
        """Return what names the values that an operation uses, those from outside included."""
        scope, captured = self.scope, self.reader.captured
        return lambda value: (
            scope.values[value] if value in scope.values else captured(operation, value, scope)
        )


_READ_OPTIONS: Final = ReadOptions()


def read_file(
    data: memoryview,
    where: str = "",
    options: ReadOptions = _READ_OPTIONS,
    upgrade: Upgrade | None = None,
    narrowing: Narrowing | None = None,
) -> Graph:
    """Read the graph of a bytecode file of any version of the format; see `read_module`."""
    return read_module(Bytecode(read_sections(data, where)), options, upgrade, narrowing)


def read_text(
    data: memoryview,
    path: str = "",
    options: ReadOptions = _READ_OPTIONS,
    upgrade: Upgrade | None = None,
    narrowing: Narrowing | None = None,
) -> Graph:
    """Read the graph of MLIR text of any release; see `read_module`."""
    from tosa_convert.formats.mlir.text.parse.cursor import quoting
    from tosa_convert.formats.mlir.text.parse.module import parse

    with quoting(data, path):
        packed_bools = None
        if options.dialect:
            from tosa_convert.eras.dialect_states import BOOLEAN_BYTES, state_of

            packed_bools = state_of(options.dialect) < BOOLEAN_BYTES
        pieces = parse(
            data,
            path,
            options.limits,
            packed_bools=packed_bools,
            function=options.func or None,
            pass_captured=options.pass_captured,
        )
        return read_module(Bytecode(sections_in_pieces(pieces)), options, upgrade, narrowing)


def function_names(data: memoryview, *, is_text: bool) -> list[str]:
    """Return the names of the functions with a body in MLIR text or bytecode."""
    if is_text:
        from tosa_convert.formats.mlir.text.parse.module import parse

        return names_with_body(Bytecode(sections_in_pieces(parse(data, "", _READ_OPTIONS.limits))))
    return names_with_body(Bytecode(read_sections(data)))


def read_module(
    bytecode: Bytecode,
    options: ReadOptions = _READ_OPTIONS,
    upgrade: Upgrade | None = None,
    narrowing: Narrowing | None = None,
) -> Graph:
    noted = upgrade
    if options.dialect:
        from tosa_convert.eras.dialect_states import OPERANDS, OPERATOR_NAMES, state_of
        from tosa_convert.eras.editor import Upgrade

        state = state_of(options.dialect)
        bytecode.has_operator_names = state >= OPERATOR_NAMES
        noted = Upgrade() if upgrade is None else upgrade
        noted.state, noted.is_old = state, noted.is_old or state < OPERANDS
    functions, variables, others, findings = select(bytecode, options.func)
    graph = None
    noted_narrowing, narrowing = narrowing, narrowing or Narrowing(options.narrow)
    captures: CapturedValues | None = None
    for function in functions:
        # With several functions there is a finding already, and nothing of them is returned.
        narrowing = noted_narrowing or Narrowing(options.narrow)
        captures = CapturedValues() if options.pass_captured else None
        root = bytecode.rooted(function.operation)
        reader = FunctionReader(root, options, narrowing, captures, noted)
        try:
            declared = variables
            if others:
                from tosa_convert.formats.mlir.variables import used_globals

                declared = variables + used_globals(root, others)
            graph = reader.graph(map(bytecode.rooted, declared))
        except TosaConvertError as error:
            findings += error.findings
    if findings or graph is None:
        raise TosaConvertError(findings[:MAX_FINDINGS])
    changes = () if noted_narrowing else narrowing.report()
    for line in (*changes, *(captures.report() if captures is not None else ())):
        log.warning("%s", line)
    if upgrade is None and reader.upgrade:
        log.warning("%s", reader.upgrade.summary())
    if _leaves_sizes_open(graph, reader.reader.types) and not options.input_shapes:
        from tosa_convert.rules.infer import causes, settled

        open_graph, graph = graph, settled(graph)
        for cause in causes(graph) if graph is not open_graph else ():
            log.warning("%s", cause)
    requested, graph.target = _target(bytecode)
    graph.version = lowest_version(graph) if requested is None else requested
    return graph


def _leaves_sizes_open(graph: Graph, types: TypeReader) -> bool:
    """Return whether a type that was read, or a constant shape, leaves a size to be found."""
    read = [row for row in types.cache.values() if row.dtype is not None]
    if any(row.shape is None or DYNAMIC in row.shape for row in read):
        return True
    shapes = chain.from_iterable(block.shapes.values() for _, block in graph.blocks())
    data = {id(shape.data): shape.data for shape in shapes}
    return any(b"\xff" * 8 in bytes(row.buffer) for row in data.values() if row is not None)


def _target(bytecode: Bytecode) -> TargetEnv:
    if bytecode.names[bytecode.root.name] != MODULE:
        return TargetEnv(None, None)
    attributes = bytecode.dictionary(bytecode.root.attributes)
    found = TargetEnv(None, None)
    if TARGET_ENV in attributes:
        value = bytecode.attribute(attributes[TARGET_ENV])
        found = read(value) if isinstance(value, str) else found
        if found.target is None:
            log.warning("the attribute %s has an unknown form: it is not preserved", TARGET_ENV)
    exact = parse_version(text_of(bytecode, attributes.get(VERSION_ATTRIBUTE)) or "")
    # The target has neither the patch nor whether 1.0 is a draft.
    if found.version is None or (exact is not None and exact.minor == found.version.minor):
        return TargetEnv(exact, found.target)
    return found


# -- regions that several operators run: copies in MLIR, one again in the graph --------------------

#: The most regions that a region is compared with: a module of many different ones takes linear time.
_COMPARED: Final = 8


def warn_of_regions(graph: Graph, written: Counter[str]) -> None:
    """Log which regions a module does not hold as the graph does."""
    unrun = [quoted(region.name) for region in unrun_regions(graph)]
    copied = [f"{quoted(name)} ({count} copies)" for name, count in written.items() if count > 1]
    if unrun:
        log.warning(
            "regions that no operator runs are omitted, because MLIR cannot hold them: %s",
            ", ".join(unrun),
        )
    if copied:
        log.warning(
            "MLIR cannot share a region, so each operator that runs one of these has a copy: %s",
            ", ".join(copied),
        )


def merge_copies(regions: list[Region], noted: Mapping[str, str]) -> list[Region]:
    """Merge regions that are copies of others: operators that ran a copy run the other instead.

    A region is a copy of an earlier one for which the same name was noted, if the two are equal except
    for locations, which in text may be its own lines. A pass may have changed one of them: then both
    stay. Operators that ran a copy run an equal region, so the program is the same.
    """
    originals: dict[str, list[Region]] = {}
    merged: dict[str, str] = {}
    # The regions that a region runs are merged before it.
    for region in _innermost_first(regions):
        _rename(region, merged)
        if region.name not in noted:
            continue
        same_name = originals.setdefault(noted[region.name], [])
        equal = (original for original in same_name if _equal(original, region))
        original = next(equal, None)
        if original is not None:
            merged[region.name] = original.name
        elif len(same_name) < _COMPARED:
            same_name.append(region)
    remaining = [region for region in regions if region.name not in merged]
    taken = {region.name for region in remaining}
    names: dict[str, str] = {}
    for region in remaining:
        given = noted.get(region.name, region.name)
        if given not in taken:
            names[region.name] = given
            taken.add(given)
    for region in remaining:
        _rename(region, names)
        region.name = names.get(region.name, region.name)
    return remaining


def _innermost_first(regions: list[Region]) -> list[Region]:
    """Return regions in an order in which each comes after those that its operators run."""
    heights: dict[str, int] = {}
    for region in reversed(regions):
        inside = [heights[name] for _, _, name in _runs(region)]
        heights[region.name] = 1 + max(inside, default=0)
    return sorted(regions, key=lambda region: heights[region.name])


def _runs(region: Region) -> Iterator[tuple[Operator, str, str]]:
    """Iterate over the operators that run regions, the attribute that names one, and its name."""
    for op in region.blocks[0].operators:
        for row in op.spec.regions:
            yield op, row.name, str(op.attributes[row.name])


def _rename(region: Region, names: Mapping[str, str]) -> None:
    for op, attribute, name in _runs(region):
        op.attributes[attribute] = names.get(name, name)


def _equal(left: Region, right: Region) -> bool:
    """Return whether two regions are equal except for their own names and for locations."""
    left, right = (Region("", region.blocks) for region in (left, right))
    graphs = Graph(V1_1_DRAFT, [left]), Graph(V1_1_DRAFT, [right])
    return compare(*graphs, names=True) is None
