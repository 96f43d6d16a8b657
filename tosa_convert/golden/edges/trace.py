"""Single elements of a program: of which elements they are made, and how a run computes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from tosa_convert.errors import TosaConvertError
from tosa_convert.golden.arrays.by_name import Array
from tosa_convert.graph.derived import computed_tensors
from tosa_convert.graph.model import Block, Graph, Operator, Region
from tosa_convert.reference.block_scaled import plain
from tosa_convert.reference.call import Call, Step, Type, UndefinedResult, store
from tosa_convert.reference.evaluate import OPERATIONS, Machine, call_of, operation_of

# --------------------------------------------------------------------------------------------------
# single elements of an operator: of which elements of its operands, and for other values of
# these.

#: Rules of one operator that an element can break, one after another.
_MOST_RULES: Final = 6


def has_elements(operator: Operator) -> bool:
    """Return whether each element of the result is made of one element of each operand."""
    return operator.spec.elementwise > 0 or operator.spec.name == "RESCALE"


def moves(operator: Operator) -> bool:
    """Return whether the elements of the result are elements of the operands."""
    spec = operator.spec
    return spec.accuracy == "operand" and spec.name in OPERATIONS


@dataclass(slots=True)
class Elements:
    """The elements of an operator that computes each one by itself.

    call: the operator with its operands.
    """

    call: Call
    count: int = field(init=False)
    _calls: int = 0

    def __post_init__(self) -> None:
        self.count = max(self.call.spec.elementwise, 1)

    @property
    def size(self) -> int:
        """Return the number of elements of the result."""
        return math.prod(self.call.result.shape)

    def operand_ids(self, position: int, ids: Array) -> Array:
        """Return the elements of an operand that elements of the result are made of."""
        shape, own = self.call.result.shape, self.call.operands[position].shape
        if shape == own:
            return ids
        places = np.unravel_index(ids, shape) if shape else ()
        kept = [
            np.where(np.int64(size) == 1, 0, place)
            for place, size in zip(places[len(shape) - len(own) :], own, strict=True)
        ]
        if not kept:
            return np.zeros(len(ids), np.int64)
        return np.asarray(np.ravel_multi_index(kept, own), np.int64)

    def values(self, position: int, ids: Array) -> Array:
        """Return the elements of an operand that elements of the result are made of."""
        found: Array = self.call.operands[position].reshape(-1)[self.operand_ids(position, ids)]
        return found

    def part(self, ids: Array, replaced: Mapping[int, Array]) -> Call:
        """Return the operator that computes only some elements, for other values of operands.

        ids: the elements. replaced: position of an operand -> its value for each of them.
        """
        call = self.call
        operands = [
            replaced[position] if position in replaced else self.values(position, ids)
            for position in range(self.count)
        ] + list(call.operands[self.count :])
        if call.spec.name == "RESCALE" and call.attributes["per_channel"]:
            channel = ids % call.result.shape[-1]
            for position in (1, 2):
                operands[position] = operands[position].reshape(-1)[channel]
        kind = Type(call.result.dtype, (len(ids),))
        types = tuple(
            Type(own.dtype, (len(ids),)) if position < self.count else own
            for position, own in enumerate(call.types)
        )
        return replace(call, operands=tuple(operands), types=types, results=(kind,))

    def compute(self, ids: Array, replaced: Mapping[int, Array]) -> Array:
        """Return elements of the result for other values of operands; see `part`.

        Raises UndefinedResult if TOSA does not define one of them.
        """
        part = self.part(ids, replaced)
        if not len(ids):
            return store(ids, part.result, "own")
        with np.errstate(all="ignore"):
            return store(operation_of(part)(part), part.result, "own")

    def compute_defined(self, ids: Array, replaced: Mapping[int, Array]) -> tuple[Array, Array]:
        """Return which of the elements TOSA defines, and these; see `compute`."""
        kept = np.arange(len(ids))
        for _ in range(_MOST_RULES):
            if not len(kept):
                break
            given = {position: values[kept] for position, values in replaced.items()}
            try:
                return kept, self.compute(ids[kept], given)
            except UndefinedResult as error:
                wrong = np.broadcast_to(error.wrong, kept.shape)
                kept = kept[~wrong]
        element = self.call.result.dtype
        assert element is not None
        return kept[:0], np.zeros(0, element.numpy)

    def undefined(self) -> Array:
        """Return the elements of the result that TOSA does not define for these operands."""
        kept, _ = self.compute_defined(np.arange(self.size), {})
        return np.setdiff1d(np.arange(self.size), kept)


def moved_ids(block: Block, operator: Operator, operands: Sequence[Array]) -> tuple[Array, Array]:
    """Return for each element of the result of an operator that moves elements where it is from."""
    spec = operator.spec
    count = len(operands)
    offset = 0
    starts = []
    given = []
    for position, array in enumerate(operands):
        row = spec.operand(position, count)
        if row.is_shape or row.is_constant or row.domain:
            given.append(np.full_like(array, -1) if row.name == "pad_const" else array)
            starts.append(-1)
            continue
        given.append(np.arange(offset, offset + array.size, dtype=np.int64).reshape(array.shape))
        starts.append(offset)
        offset += array.size
    call = call_of(block, operator, given, "own")
    ids = np.asarray(OPERATIONS[spec.name](call)).reshape(-1)
    positions = np.full(ids.shape, -1)
    local = np.zeros(ids.shape, np.int64)
    for position, start in enumerate(starts):
        if start >= 0:
            inside = (ids >= start) & (ids < start + operands[position].size)
            positions[inside] = position
            local[inside] = ids[inside] - start
    return positions, local


def operands_of(graph: Graph, operator: Operator, values: Mapping[str, Array]) -> list[Array]:
    """Return the operands of an operator of the main block, of the values of a run or constants."""
    block, machine = graph.main, Machine(graph)
    return [
        values[name] if name in values else plain(machine.value(block, {}, name))
        for name in operator.inputs
    ]


def undefined_elements(graph: Graph, index: int, values: Mapping[str, Array]) -> Array | None:
    """Return the elements of an operator's result that TOSA does not define; None if not known."""
    operator = graph.main.operators[index]
    if not has_elements(operator):
        return None
    call = call_of(graph.main, operator, operands_of(graph, operator, values), "own")
    found = Elements(call).undefined()
    return found if len(found) else None


def sources(
    graph: Graph, name: str, ids: Array, values: Mapping[str, Array]
) -> dict[str, Array] | None:
    """Return the elements of inputs that elements of a tensor are made of."""
    block = graph.main
    masks: dict[str, Array] = {name: ids}
    for op in reversed(block.operators):
        wanted = [masks.pop(name) for name in op.outputs if name in masks]
        if not wanted or not op.inputs or op.spec.name.startswith("VARIABLE"):
            continue
        for position, own in _operand_elements(graph, op, np.concatenate(wanted), values):
            operand = op.inputs[position]
            if own is None:
                if _depends_on_inputs(block, operand):
                    return None
                continue
            masks[operand] = np.union1d(masks.get(operand, own[:0]), own)
    return {own: masks[own] for own in block.inputs if own in masks}


def _operand_elements(
    graph: Graph, op: Operator, ids: Array, values: Mapping[str, Array]
) -> list[tuple[int, Array | None]]:
    """Return for each operand that results are made of its elements; None if they are mixed."""
    operands = operands_of(graph, op, values)
    if has_elements(op):
        elements = Elements(call_of(graph.main, op, operands, "own"))
        return [(p, elements.operand_ids(p, ids)) for p in range(elements.count)]
    if moves(op):
        position, local = moved_ids(graph.main, op, operands)
        return [
            (p, np.unique(local[ids[position[ids] == p]])) for p in set(position[ids]) if p >= 0
        ]
    return [(p, None) for p in range(len(operands))]


def _depends_on_inputs(block: Block, name: str) -> bool:
    return bool(inputs_of(block, [name]))


def inputs_of(block: Block, names: Sequence[str]) -> list[str]:
    """Return the inputs of a block that values are computed from, in its order."""
    producers: dict[str, Operator] = {output: op for op in block.operators for output in op.outputs}
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += producers[name].inputs if name in producers else ()
    return [name for name in dict.fromkeys(block.inputs) if name in found]


# --------------------------------------------------------------------------------------------------
# one run of a program on numpy, with the values on the way, up to where TOSA leaves a result
# open.

#: Codes of errors that other values avoid.
_OF_VALUES: Final = frozenset(("refmodel-refused", "input-mismatch"))
#: Programs whose tensors have more bytes than this together run without their values being kept.
KEPT_BYTES: Final = 256 << 20


@dataclass(slots=True)
class Run:
    """What a run computed.

    values: the arrays of the main block, by name; only inputs and outputs of a large program.
    error: why it ended early; operator: the one of the main block where it did.
    is_stopped: whether it ended early because it was asked to.
    """

    values: dict[str, Array] = field(default_factory=dict)
    error: TosaConvertError | None = None
    operator: int = -1
    is_stopped: bool = False


def run_forward(
    graph: Graph,
    inputs: Mapping[str, Array],
    watch: Callable[[Step], None] | None = None,
    stops: Callable[[Step], bool] | None = None,
) -> Run:
    """Run a program on numpy, up to an operator of the main block at which it stops."""
    result = Run(dict(inputs))
    keeps = kept_bytes(graph) <= KEPT_BYTES
    outputs: dict[str, Array] = {}
    result.operator = 0
    try:
        for step in Machine(graph, "own").steps(inputs, outputs):
            if watch is not None:
                watch(step)
            if not step.inside.path:
                if stops is not None and stops(step):
                    result.operator, result.is_stopped = step.index, True
                    return result
                result.operator = step.index + 1
                if keeps:
                    result.values |= step.operands | step.results
    except TosaConvertError as error:
        if not {row.code for row in error.findings} <= _OF_VALUES:
            raise
        result.error = error
    result.values |= outputs
    return result


#: Operators that combine elements, through how many of which values are propagated back: of what is
#: behind more of them, hardly anything is met.
_COMBINED: Final = 2


def beginning(graph: Graph) -> Graph:
    """Return the operators of a program before those that are behind many that combine elements."""
    block = graph.main
    depths: dict[str, int] = {}
    end = len(block.operators)
    for index, operator in enumerate(block.operators):
        depth = max((depths.get(name, 0) for name in operator.inputs), default=0)
        if operator.inputs and not has_elements(operator) and not moves(operator):
            depth += any(name in depths or name in block.inputs for name in operator.inputs)
        if depth > _COMBINED:
            end = index
            break
        depths |= dict.fromkeys(operator.outputs, depth)
    if end == len(block.operators):
        return graph
    later = {name for operator in block.operators[end:] for name in operator.inputs}
    outputs = [
        name
        for operator in block.operators[:end]
        for name in operator.outputs
        if name in block.tensors and (name in later or name in block.outputs)
    ]
    main = replace(block, operators=block.operators[:end], outputs=outputs)
    return replace(graph, regions=[Region(graph.regions[0].name, [main]), *graph.regions[1:]])


def kept_bytes(graph: Graph) -> int:
    """Return the bytes of all tensors that a program computes."""
    total = 0
    for _, name in computed_tensors(graph):
        tensor = graph.main.tensors[name]
        size = tensor.dtype.element_bytes
        for length in tensor.shape or ():
            size *= max(length, 1)
        total += size
    return total
