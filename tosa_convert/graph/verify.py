"""The rules every Graph keeps, whatever it was read from.

`verify` returns all findings at once; nothing is raised and nothing is changed. After it returns an
empty list, an adapter may rely on every rule here without checking again.
"""

from __future__ import annotations

import contextlib
from typing import Final

from tosa_convert.errors import MAX_FINDINGS, Finding
from tosa_convert.graph.dtypes import BLOCK_SCALE, BLOCK_SCALED, INT64, DType
from tosa_convert.graph.model import (
    DYNAMIC,
    MAX_RANK,
    Block,
    Graph,
    Operator,
    ShapeValue,
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
    VARIABLE,
    VARIABLE_READ,
    VARIABLE_WRITE,
    AttributeSpec,
)

INT32_MAX: Final = 2**31 - 1
_PYTHON_TYPE: Final = {
    "i32": int,
    "i32s": tuple,
    "bool": bool,
    "dtype": DType,
    "element": bytes,
    "string": str,
    "bytes": bytes,
    "region": str,
}


def verify(graph: Graph) -> list[Finding]:
    """Every rule of the graph that is broken, in the graph's order; [] if it is sound.

    Of more than MAX_FINDINGS, the first ones.
    """
    verifier = _Verifier(graph)
    with contextlib.suppress(_Enough):
        verifier.run()
    return verifier.findings


class _Enough(Exception):
    """There are as many findings as anybody reads."""


class _Verifier:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.findings: list[Finding] = []
        self.regions = {region.name: region for region in graph.regions}
        #: What the operators of a block produce, made only where a message needs it.
        self.produced: set[str] = set()
        self.produced_in: Block | None = None
        #: Types of bare tensors that keep every rule: most tensors share a few.
        self.sound: set[tuple[DType, tuple[int, ...] | None, bool]] = set()
        #: Region -> regions its operators run, to find cycles.
        self.calls: dict[str, list[str]] = {}

    def say(self, code: str, where: str, message: str, hint: str = "") -> None:
        self.findings.append(Finding(code, where, message, hint))
        if len(self.findings) == MAX_FINDINGS:
            raise _Enough

    def run(self) -> None:
        if not self.graph.regions:
            self.say(
                "malformed-structure", "graph", "it has no regions", "a graph needs a main one"
            )
            return
        if len(self.regions) != len(self.graph.regions):
            seen: set[str] = set()
            for region in self.graph.regions:
                if region.name in seen:
                    self.say(
                        "duplicate-name",
                        f'region "{region.name}"',
                        "two regions have this name, and control flow refers to regions by name",
                    )
                seen.add(region.name)
        for region in self.graph.regions:
            self.calls.setdefault(region.name, [])
            if len(region.blocks) != 1:
                self.say(
                    "malformed-structure",
                    f'region "{region.name}"',
                    f"it has {len(region.blocks)} blocks; a TOSA region has exactly one",
                )
            for block in region.blocks:
                self.block(block_path(region.name, block.name), region.name, block)
        self.cycles()

    def block(self, where: str, region: str, block: Block) -> None:
        for name in block.tensors.keys() & block.shapes.keys():
            self.say(
                "duplicate-name", f'{where} "{name}"', "both a tensor and a shape have this name"
            )
        for key, tensor in block.tensors.items():
            # Most have nothing but a name and a type.
            is_bare = tensor.data is None and tensor.scale is None and not tensor.variable_name
            if is_bare and tensor.name == key:
                kind = (tensor.dtype, tensor.shape, tensor.variable)
                if kind not in self.sound:
                    found = len(self.findings)
                    self.tensor(f"{where} tensor {quoted(key)}", key, tensor)
                    if len(self.findings) == found:
                        self.sound.add(kind)
            else:
                self.tensor(f"{where} tensor {quoted(key)}", key, tensor)
        for key, shape in block.shapes.items():
            self.shape(f"{where} shape {quoted(key)}", key, shape)
        defined = {tensor.name for tensor in block.tensors.values() if tensor.variable}
        if len(set(block.inputs)) != len(block.inputs):
            self.say("duplicate-name", where, "a name stands twice among the block's inputs")
        for name in block.inputs:
            if name not in block.tensors and name not in block.shapes:
                self.say("undefined-name", where, f'block input "{name}" is not in its tensors')
        defined.update(block.inputs)
        tensors, shapes = block.tensors, block.shapes
        only_tensors = shapes.keys().isdisjoint
        for index, operator in enumerate(block.operators):
            spec, inputs, outputs = operator.spec, operator.inputs, operator.outputs
            if not defined.issuperset(inputs):
                for name in inputs:
                    if name not in defined:
                        self.undefined(where, index, operator, name, block)
            for name in outputs:
                if name in defined and not self.is_variable_target(block, operator, name):
                    self.say(
                        "duplicate-name",
                        operator_path(where, index, operator),
                        f'output "{name}" is already defined',
                        "every value needs a name of its own within its block",
                    )
                elif name not in tensors and name not in shapes:
                    self.say(
                        "undefined-name",
                        operator_path(where, index, operator),
                        f'output "{name}" is in neither the tensors nor the shapes of the block',
                    )
                defined.add(name)
            # Most operators have just what their row has.
            count, results, kinds = _FIXED.get(spec.code, _NEVER)
            if len(inputs) != count or len(outputs) != results:
                self.arity(where, index, operator, block)
            elif kinds is None:
                if not (only_tensors(inputs) and only_tensors(outputs)):
                    self.arity(where, index, operator, block)
            else:
                for is_shape, name in zip(kinds, inputs + outputs, strict=True):
                    if (name in shapes) is not is_shape:
                        self.arity(where, index, operator, block)
                        break
            if spec.attributes or operator.attributes:
                self.attributes(where, region, index, operator, block)
            if spec is CONST or spec is CONST_SHAPE:
                self.constant(where, index, operator, block)
            elif spec is VARIABLE_READ or spec is VARIABLE_WRITE:
                self.state(where, index, operator, block)
        for name in block.outputs:
            if name not in defined:
                self.say("undefined-name", where, f'block output "{name}" is never defined')

    @staticmethod
    def is_variable_target(block: Block, operator: Operator, name: str) -> bool:
        """Whether the operator writes a variable, which may be written any number of times."""
        tensor = block.tensors.get(name)
        return tensor is not None and tensor.variable and operator.spec.encoded_as == IDENTITY.name

    def undefined(
        self, where: str, index: int, operator: Operator, name: str, block: Block
    ) -> None:
        if block is not self.produced_in:
            self.produced_in = block
            self.produced = {output for op in block.operators for output in op.outputs}
        # What stands before is defined already, so whatever produces it stands behind.
        later = name in self.produced
        self.say(
            "undefined-name",
            operator_path(where, index, operator),
            f'input "{name}" is ' + ("defined only later" if later else "never defined"),
            "operators must stand in topological order" if later else "",
        )

    def arity(self, where: str, index: int, operator: Operator, block: Block) -> None:
        spec = operator.spec
        if spec is VARIABLE:
            self.say(
                "malformed-operator",
                operator_path(where, index, operator),
                "a variable is declared by its tensor; there is no operator for it",
            )
            return
        sides = (
            ("input", operator.inputs, spec.operands, spec.operand_range, spec.operand),
            ("output", operator.outputs, spec.results, spec.result_range, spec.result),
        )
        tensors, shapes = block.tensors, block.shapes
        for side, names, rows, expected_range, row_at in sides:
            count = len(names)
            if count != len(rows) or (rows and rows[-1].arity):
                fewest, most = expected_range()
                if count < fewest or (most is not None and count > most):
                    expected = str(fewest) if fewest == most else f"{fewest} to {most or 'any'}"
                    self.say(
                        "malformed-operator",
                        operator_path(where, index, operator),
                        f"it has {count} {side}s, expected {expected}: "
                        + (", ".join(row.name for row in rows) or "none"),
                    )
                    continue
                rows = tuple(row_at(i, count) for i in range(count))
            for row, name in zip(rows, names, strict=False):
                if name in (tensors if row.is_shape else shapes):
                    found, wanted = ("tensor", "shape") if row.is_shape else ("shape", "tensor")
                    self.say(
                        "malformed-operator",
                        operator_path(where, index, operator),
                        f'{side} {row.name} "{name}" is a {found}, expected a {wanted}',
                    )

    def attributes(
        self, where: str, region: str, index: int, operator: Operator, block: Block
    ) -> None:
        rows = operator.spec.attributes
        values = operator.attributes
        if len(values) != len(rows) or any(row.name not in values for row in rows):
            known = {row.name for row in rows}
            for name in values.keys() - known:
                self.say(
                    "malformed-operator",
                    operator_path(where, index, operator),
                    f'it has an attribute "{name}", expected: '
                    + (", ".join(row.name for row in rows) or "none"),
                )
            for row in rows:
                if row.name not in values:
                    self.say(
                        "malformed-operator",
                        operator_path(where, index, operator),
                        f'attribute "{row.name}" is missing',
                    )
        for row in rows:
            if row.name not in values:
                continue
            problem = attribute_problem(row, values[row.name])
            if not problem and row.kind == "element" and operator.inputs:
                problem = _element_problem(values[row.name], block.tensors.get(operator.inputs[0]))
            if problem:
                self.say(
                    "malformed-operator",
                    operator_path(where, index, operator),
                    f'attribute "{row.name}": {problem}',
                )
            elif row.kind == "region":
                target = str(values[row.name])
                self.calls[region].append(target)
                if target not in self.regions:
                    self.say(
                        "undefined-name",
                        operator_path(where, index, operator),
                        f'attribute "{row.name}" names region "{target}", which does not exist',
                        "regions: " + ", ".join(f'"{name}"' for name in list(self.regions)[:8]),
                    )

    def state(self, where: str, index: int, operator: Operator, block: Block) -> None:
        side, names = "input", operator.inputs
        if operator.spec is VARIABLE_WRITE:
            side, names = "output", operator.outputs
        for name in names:
            tensor = block.tensors.get(name)
            if tensor is not None and not tensor.variable:
                self.say(
                    "malformed-operator",
                    operator_path(where, index, operator),
                    f'{side} "{name}" is not a variable',
                )

    def constant(self, where: str, index: int, operator: Operator, block: Block) -> None:
        for name in operator.outputs:
            value: Tensor | ShapeValue | None = block.tensors.get(name) or block.shapes.get(name)
            if value is not None and value.data is None:
                self.say(
                    "missing-data",
                    operator_path(where, index, operator),
                    f'the constant "{name}" has no data',
                    "if the file came with weights beside it, keep them together",
                )
            elif isinstance(value, Tensor) and value.scale is not None and value.scale.data is None:
                self.say(
                    "missing-data",
                    operator_path(where, index, operator),
                    f'the block-scaled constant "{name}" has no scales',
                )

    def tensor(self, where: str, key: str, tensor: Tensor) -> None:
        if tensor.name != key:
            self.say("malformed-tensor", where, f'its name is "{tensor.name}"')
        rank = len(tensor.shape or ())
        if rank > MAX_RANK:
            self.say(
                "unsupported-shape",
                where,
                f"its shape has {rank} dimensions, we carry at most {MAX_RANK}",
                "merge dimensions with a RESHAPE where the model is made",
            )
            return
        for size in tensor.shape or ():
            if not DYNAMIC <= size <= INT32_MAX:
                self.say(
                    "unsupported-shape",
                    where,
                    f"dimension {size} in shape {list(tensor.shape or ())}",
                    f"a dimension is {DYNAMIC} (dynamic) or 0 to {INT32_MAX}",
                )
                break
        if tensor.variable_name and not tensor.variable:
            self.say(
                "malformed-tensor",
                where,
                f'it has the variable name "{tensor.variable_name}" but is no variable',
            )
        count = tensor.element_count()
        scale = tensor.scale
        if scale is not None:
            block = int(scale.shape)
            last = tensor.shape[-1] if tensor.shape else 0
            if not tensor.shape or (last != DYNAMIC and (last % block or last == 0)):
                self.say(
                    "malformed-tensor",
                    where,
                    f"shape {tensor.shape} cannot be divided into blocks of {block}",
                    f"the last dimension must be a multiple of {block}",
                )
            elif tensor.dtype not in BLOCK_SCALED or scale.dtype is not BLOCK_SCALE:
                self.say(
                    "malformed-tensor",
                    where,
                    f"{tensor.dtype} with scales of {scale.dtype} in blocks",
                    f"block-scaled are {', '.join(map(str, BLOCK_SCALED))} with {BLOCK_SCALE}",
                )
            elif scale.data is not None and (
                count is None
                or scale.data.count * block != count
                or scale.data.dtype is not scale.dtype
            ):
                self.say(
                    "data-length",
                    where,
                    f"{scale.data.count} scales of {scale.data.dtype} for shape {tensor.shape} in "
                    f"blocks of {block} of {scale.dtype}",
                )
        data = tensor.data
        if data is None:
            return
        if count is None or data.count != count:
            self.say(
                "data-length",
                where,
                f"{data.count} elements of data for shape "
                f"{'unranked' if tensor.shape is None else list(tensor.shape)}",
                "constant data needs a static shape and as many elements as it has",
            )
        if data.dtype is not tensor.dtype:
            self.say("malformed-tensor", where, f"{data.dtype} data in a {tensor.dtype} tensor")
        elif data.holds_int4_minus_8():
            self.say(
                "int4-minus-8",
                where,
                "an INT4 element is -8; TOSA's INT4 goes from -7 to 7 and readers corrupt -8",
                "requantise the weight to -7..7",
            )

    def shape(self, where: str, key: str, shape: ShapeValue) -> None:
        if shape.name != key:
            self.say("malformed-tensor", where, f'its name is "{shape.name}"')
        if not 0 <= shape.rank <= INT32_MAX:
            self.say("malformed-tensor", where, f"rank {shape.rank}, expected 0 to {INT32_MAX}")
        elif shape.data is not None and shape.data.count != shape.rank:
            self.say("data-length", where, f"{shape.data.count} sizes in a shape of {shape.rank}")
        elif shape.data is not None and shape.data.dtype is not INT64:
            self.say("malformed-tensor", where, f"{shape.data.dtype} data in a shape, not INT64")

    def cycles(self) -> None:
        """Report regions that run themselves, however indirectly; iterative, depth does not matter."""
        done: set[str] = set()
        for start in self.calls:
            path: list[tuple[str, int]] = [(start, 0)]
            on_path = {start}
            while path:
                name, position = path.pop()
                targets = self.calls.get(name, [])
                if name in done or position == len(targets):
                    done.add(name)
                    on_path.discard(name)
                    continue
                path.append((name, position + 1))
                target = targets[position]
                if target in on_path:
                    self.say(
                        "malformed-structure",
                        f'region "{name}"',
                        f'it runs region "{target}", which runs it: regions must not form a cycle',
                    )
                elif target not in done:
                    path.append((target, 0))
                    on_path.add(target)
        if self.graph.regions[0].name in {
            name for called in self.calls.values() for name in called
        }:
            self.say(
                "malformed-structure",
                f'region "{self.graph.regions[0].name}"',
                "the first region is the main graph, and control flow refers to it",
            )


#: Operators that always have as many operands and results: how many, by code, and which of them all
#: are shapes if any are.
_FIXED: Final = {
    spec.code: (
        len(spec.operands),
        len(spec.results),
        tuple(row.is_shape for row in rows) if any(row.is_shape for row in rows) else None,
    )
    for spec in OPERATORS
    if spec is not VARIABLE
    for rows in [spec.operands + spec.results]
    if not any(row.arity for row in rows)
}
_NEVER: Final = (-1, -1, None)


def attribute_problem(row: AttributeSpec, value: object) -> str:
    """What is wrong with an attribute's value, or "" if nothing is."""
    expected = row.enum if row.kind == "enum" else _PYTHON_TYPE[row.kind]
    assert expected is not None
    if not isinstance(value, expected) or (row.kind == "i32" and isinstance(value, bool)):
        return f"found {value!r}, expected {expected.__name__}"
    if row.kind == "i32":
        assert isinstance(value, int)
        return _i32_problem(value)
    if row.kind == "i32s":
        assert isinstance(value, tuple)
        if row.length >= 0 and len(value) != row.length:
            return f"{len(value)} values, expected {row.length}: {list(value)[:16]}"
        if len(value) > MAX_RANK:
            return f"{len(value)} values, and no tensor has more than {MAX_RANK} dimensions"
        return next(filter(None, map(_i32_problem, value)), "")
    if row.kind == "dtype" and value not in row.choices:
        return f"found {value}, expected one of " + ", ".join(map(str, row.choices))
    return ""


def _i32_problem(value: object) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        return f"found {value!r}, expected int"
    if -INT32_MAX - 1 <= value <= INT32_MAX:
        return ""
    return f"{value} does not fit 32 bits"


def _element_problem(value: object, tensor: Tensor | None) -> str:
    assert isinstance(value, bytes)
    if tensor is None or len(value) >= tensor.dtype.element_bytes:
        return ""
    return f"{len(value)} bytes, an element of {tensor.dtype} has {tensor.dtype.element_bytes}"
