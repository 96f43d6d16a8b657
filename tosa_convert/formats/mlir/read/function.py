"""A function of a module as a graph: its regions, blocks and values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Final, cast

from tosa_convert.errors import fail
from tosa_convert.formats.mlir.bytecode import operations as bytecode_operations
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.operations import Fields, Operation
from tosa_convert.formats.mlir.names import (
    NAME_ATTRIBUTE,
    RESULT_PREFIX,
    names_of,
    signature_names,
    text_of,
)
from tosa_convert.formats.mlir.read.narrowing import Narrowing, is_identity, without_clamp
from tosa_convert.formats.mlir.read.operator import ANY_NUMBER, OperatorReader
from tosa_convert.formats.mlir.read.scope import CapturedValues, PendingRegion, Scope
from tosa_convert.formats.mlir.read.select_function import bodies_of, signature_of
from tosa_convert.formats.mlir.types import ValueType
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.model import Block, Graph, Operator, Region, Tensor
from tosa_convert.graph.opset import (
    IDENTITY,
    VARIABLE,
    operator,
)
from tosa_convert.graph.versions import V1_1_DRAFT
from tosa_convert.io import log
from tosa_convert.io.options import ReadOptions

if TYPE_CHECKING:
    from tosa_convert.eras.old_operations import OldOperation, Upgrade
    from tosa_convert.formats.mlir.read.calls import Calls
    from tosa_convert.formats.mlir.read.old_operations import OldOperations

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
        """Read the graph. variables: the module's tosa.variable operations.

        Raises TosaConvertError with everything that cannot be carried.
        """
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
            from tosa_convert.formats.mlir.read.shared_regions import merge_copies

            self.regions = merge_copies(self.regions, self.reader.noted)
        return Graph(V1_1_DRAFT, self.regions)

    def _inner_variables(self) -> Iterator[Bytecode]:
        """Iterate over variables that are declared in the function, as they were up to early 2025."""
        if VARIABLE.mlir in self.bytecode.names:
            from tosa_convert.formats.mlir.read.foreign_operations import operations_named

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
            from tosa_convert.formats.mlir.read.shape_operations import equal_values

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
        """Return the names that operations carry for their results, by the indices of values.

        With each name, the number of the operation's own.
        """
        carried: dict[int, tuple[str, int]] = {}
        if self.reader.fixed:
            carried.update(self.reader.loaded(body))
        if not self.retain:
            return carried
        from tosa_convert.formats.mlir.read.columns import attributes_and_results

        without = {-1}
        bytecode = self.bytecode
        for label, attributes, result_count, first in attributes_and_results(body):
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
        """Return a generated name, changed if it is taken."""
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
        from tosa_convert.formats.mlir.read import calls, shape_operations

        reader, scope = self.reader, self.scope
        name, count = reader.name(operation), len(operation.types)
        operands = map(self.value_of(operation), operation.operands)
        if name == calls.CALL:
            if self.calls is None:
                self.calls = calls.Calls(bodies_of(self.bytecode), [self.symbol])
            operators, regions = calls.inlined(
                self.calls, reader, scope, operation, list(operands), self._called
            )
            self.regions += regions
            return operators
        if name in shape_operations.READ and count == 1 and operation.operands:
            source = next(operands)
            return shape_operations.read(reader, scope, operation, source, location, self.generate)
        reader.foreign(operation)
        # Its results count as defined: their users need no finding.
        scope.values.update((operation.first + index, "") for index in range(count))
        return []

    def _called(self, function: Operation) -> Graph:
        """Read a function that this one calls."""
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
            from tosa_convert.eras.old_operations import Upgrade
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
        """Return the block's operations except the last, without variables and what is not used.

        Variables are not of the block. Frontends leave constants of type index after folding, and other
        operations that compute sizes; `canonicalize` would remove them.
        """
        names = self.bytecode.names
        declaring = names.index(VARIABLE.mlir) if VARIABLE.mlir in names else -1
        dead: set[int] = set()
        if self.has_pure:
            from tosa_convert.formats.mlir.read.shape_operations import dead_operations

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
