"""Read programs as users give them, with the arrays that they take and give, random ones too."""

from __future__ import annotations

import contextlib
import fnmatch
import itertools
import math
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from tosa_convert import api
from tosa_convert.custom import give_meaning
from tosa_convert.errors import Finding, Findings, TosaConvertError, fail, suggest
from tosa_convert.formats.read import open_input, read_module, weights_beside
from tosa_convert.formats.read import read as read_graph
from tosa_convert.golden.arrays.by_name import (
    SCALE_SUFFIX,
    Array,
    Arrays,
    Slot,
    coerce,
    match,
    slots,
)
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.derived import reachable, unused_name, with_main
from tosa_convert.graph.dtypes import DTYPES, FLOATS, DType
from tosa_convert.graph.model import (
    DYNAMIC,
    INT32_MAX,
    Block,
    Graph,
    Operator,
    Region,
    Tensor,
    quoted,
    require_graphs,
)
from tosa_convert.graph.opset import VARIABLE_READ, VARIABLE_WRITE, OperatorSpec
from tosa_convert.graph.static_shapes import has_open_sizes
from tosa_convert.graph.verify import refuse_unsound
from tosa_convert.io.keywords import refuse_unexpected
from tosa_convert.io.option_table import refuse_inapplicable
from tosa_convert.io.options import ReadOptions, given_options
from tosa_convert.rules.infer import settled

# -- random inputs: seeded, by name, in the range that the operators that use them accept ----------

#: Ranges of inputs: (pattern of the name, lowest, highest).
Ranges = Sequence[tuple[str, float, float]]

_WIDE: Final = (-(2**30), 2**30)
#: Lowest and highest value by element type. INT32 and wider stay small enough for sums of products.
RANGES: Final[dict[str, tuple[int, int]]] = {
    row.name: row.limits if row.bits <= 16 else (-(2**15), 2**15) if row.bits == 32 else _WIDE
    for row in DTYPES
    if row.kind == "integer"
}
#: Lowest code of a scale, and the code after the highest: 2**-3 to 2**2 of FP8UE8M0.
_SCALE_CODES: Final = (124, 130)
#: Most elements of a random array. They are drawn in 8 bytes each.
_MOST_ELEMENTS: Final = INT32_MAX
#: The share of the elements of random inputs that are evenly spread over exponents.
_SIZED: Final = 0.125
_FLOATS: Final = {row.name: row.numbers for row in FLOATS if row.numbers is not None}


def random_inputs(
    graph: Graph, wanted: Iterable[Slot], seed: int, ranges: Ranges = ()
) -> dict[str, Array]:
    """Return an array for each slot; the same seed gives the same arrays.

    ranges: (pattern of names, lowest, highest) instead of the usual range; the last match counts.
    """
    if seed < 0:
        raise fail("option-conflict", "random", f"found the seed {seed}, expected 0 or more")
    slots = list(wanted)
    limits = limits_of_inputs(graph.main) | requested_ranges(slots, ranges)
    return {slot.key: _of_more_sizes(slot, seed, limits.get(slot.key)) for slot in slots}


def _of_more_sizes(slot: Slot, seed: int, limit: tuple[float, float] | None) -> Array:
    """Draw an array with evenly spread sizes, of floats so small that two have a normal product."""
    array = random_array(slot, seed, limit)
    row = slot.dtype
    if not array.size or not (row.name in _FLOATS or (row.kind == "integer" and row.bits > 8)):
        return array
    low, high = limit if limit is not None else RANGES.get(row.name, (-1.0, 1.0))
    least = 1.0 if row.kind == "integer" else math.sqrt(_FLOATS[row.name].least)
    generator = np.random.default_rng([seed, zlib.crc32(slot.key.encode()), 3])
    chosen = np.flatnonzero(generator.random(array.size) < _SIZED)
    sign = np.where(generator.integers(0, 2, chosen.size) == 1, 1.0, -1.0)
    first = np.maximum(np.where(sign > 0, low, -high), least)
    most = np.where(sign > 0, high, -low)
    chosen, sign, first, most = (own[most > first] for own in (chosen, sign, first, most))
    sizes = sign * first * (most / first) ** generator.random(chosen.size)
    array.reshape(-1)[chosen] = np.trunc(sizes) if row.kind == "integer" else sizes
    return array


def requested_ranges(slots: list[Slot], ranges: Ranges) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    findings = Findings()
    for pattern, low, high in ranges:
        where = f"range {pattern}={low:g}:{high:g}"
        matched = [slot for slot in slots if fnmatch.fnmatchcase(slot.key, pattern)]
        if not matched:
            names = ", ".join(slot.key for slot in slots)
            hint = suggest(pattern, [slot.key for slot in slots])
            findings.add("option-conflict", where, f"no input matches it; they are {names}", hint)
        for slot in matched:
            least, most = _whole_range(slot.dtype)
            if not least <= low <= high <= most:
                message = f"{slot} holds {least:g} to {most:g}"
                findings.add("option-conflict", where, message, "LOW:HIGH inside of it")
            elif slot.dtype.name in RANGES and (low % 1 or high % 1):
                findings.add("option-conflict", where, f"{slot} holds integers")
            found[slot.key] = (low, high)
    findings.raise_if_any()
    return found


def _whole_range(dtype: DType) -> tuple[float, float]:
    if dtype.is_in_bytes:
        low, high = dtype.limits
        return float(low), float(high)
    if dtype.name in RANGES:
        bits = min(dtype.bits - 1, 53)  # the range is given in FP64
        return -(2.0**bits), 2.0**bits - 1
    if dtype.kind in ("bool", "scale", "fixed"):  # random ones always have the same range
        return -math.inf, math.inf
    info: Any = ml_dtypes.finfo
    largest = float(info(dtype.numpy).max)
    return -largest, largest


def random_array(slot: Slot, seed: int, limit: tuple[float, float] | None = None) -> Array:
    """Draw one array: integers uniform over RANGES, or a limit, floating point uniform over -1 to 1."""
    generator = np.random.default_rng([seed, zlib.crc32(slot.key.encode())])
    is_scale = slot.key.endswith(SCALE_SUFFIX)
    with contextlib.suppress(MemoryError):
        # numpy refuses the product of the others beside a 0, too.
        if math.prod(size or 1 for size in slot.shape) <= _MOST_ELEMENTS:
            return draw(generator, slot.dtype, slot.shape, limit, is_scale=is_scale)
    message = f"{slot} has too many elements for random values"
    raise fail("unsupported-shape", f"input {quoted(slot.key)}", message)


def draw(
    generator: np.random.Generator,
    dtype: DType,
    shape: tuple[int, ...],
    limit: tuple[float, float] | None = None,
    *,
    is_scale: bool = False,
) -> Array:
    """Return random elements of a dtype within a range."""
    target: np.dtype[Any] = dtype.numpy
    if dtype.kind == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind == "fixed":
        return generator.integers(-127, 128, shape).astype(np.int8)
    if dtype.kind == "scale" or is_scale:
        return generator.integers(*_SCALE_CODES, shape).astype(np.uint8).view(target)
    if dtype.name in RANGES:
        low, high = limit if limit is not None else RANGES[dtype.name]
        values = generator.integers(int(low), int(high), shape, np.int64, endpoint=True)
        return values.astype(np.int8).astype(target) if dtype.is_in_bytes else values.astype(target)
    low, high = limit if limit is not None else (-1.0, 1.0)
    return generator.uniform(low, high, shape).astype(np.float32).astype(target)


#: Most forms of inputs that are kept of one tensor.
_MOST_FORMS: Final = 8
#: The domains of operands that have a range of their own; see `OperandSpec`.
DOMAINS: Final = ("index", "shift", "divisor", "positive")


class _Form(NamedTuple):
    """Describe values that are an input times a factor, plus a number from `low` to `high`."""

    source: str
    factor: int = 1
    low: int = 0
    high: int = 0

    def limit(self, least: float, most: float) -> tuple[float, float]:
        """Return the range of the input for which the values are in a range."""
        if self[1:] == (1, 0, 0):
            return least, most
        return math.ceil((least - self.low) / self.factor), (most - self.high) // self.factor


def limits_of_inputs(
    block: Block, domains: Collection[str] = DOMAINS
) -> dict[str, tuple[float, float]]:
    """Return the ranges of inputs that an operator uses as indices, shifts, divisors or bases.

    Between the two may be casts, operators that move elements, sums and products with constants, and
    SELECT: frameworks add the number of rows to indices below 0, and number the elements of rows.
    """
    limits: dict[str, tuple[float, float]] = {}
    forms: dict[str, tuple[_Form, ...]] = {name: (_Form(name),) for name in block.inputs}
    for op in block.operators:
        if not op.spec.takes(len(op.inputs), len(op.outputs)):
            continue
        for position, name in enumerate(op.inputs):
            if op.spec.operand(position, len(op.inputs)).domain not in domains:
                continue
            if forms.get(name) and (limit := _limit(op, position, block)) is not None:
                for form in forms[name]:
                    low, high = form.limit(*limit)
                    least, most = limits.get(form.source, (low, high))
                    if low <= high:
                        limits[form.source] = max(low, least), min(high, most)
        if len(op.outputs) == 1:
            forms[op.outputs[0]] = tuple(dict.fromkeys(_forms(op, block, forms)))[:_MOST_FORMS]
    return {name: (low, high) for name, (low, high) in limits.items() if low <= high}


def _forms(
    operator: Operator, block: Block, forms: Mapping[str, tuple[_Form, ...]]
) -> Iterable[_Form]:
    """Return the forms of an operator's result, given those of its operands."""
    operands = [forms.get(name, ()) for name in operator.inputs]
    match operator.spec.name:
        case "CONCAT":
            return itertools.chain(*operands)
        case "SELECT":
            # Of an index and one that counts from the end, the index.
            rows = {row.source: row for row in operands[2]}
            for row in operands[1]:
                if abs(row.low) < abs(rows.get(row.source, row._replace(low=INT32_MAX)).low):
                    rows[row.source] = row
            return rows.values()
        case "ADD" | "SUB" | "MUL" as kind:
            for first, second in ((0, 1), (1, 0)):
                own = operands[first]
                found = _integers(block, operator.inputs[second]) if own else None
                if found is None:
                    continue
                low, high = found if kind != "SUB" else (-found[1], -found[0])
                if kind == "ADD" or (kind == "SUB" and first == 0):
                    return [row._replace(low=row.low + low, high=row.high + high) for row in own]
                if (
                    kind == "MUL"
                    and 0 < low == high
                    and _integers(block, operator.inputs[2]) == (0, 0)
                ):
                    return [_Form(row.source, *(low * part for part in row[1:])) for row in own]
            return ()
    return operands[0] if operator.spec.accuracy in ("operand", "cast") else ()


def _integers(block: Block, name: str) -> tuple[int, int] | None:
    """Return the least and the greatest element of a constant of integers; None for anything else."""
    tensor = block.tensors.get(name)
    if tensor is None or tensor.data is None or tensor.variable or tensor.dtype.name not in RANGES:
        return None
    values = tensor.data.numpy()
    return (int(values.min()), int(values.max())) if values.size else None


def _limit(operator: Operator, position: int, block: Block) -> tuple[float, float] | None:
    first = block.tensors.get(operator.inputs[0])
    if first is None or first.shape is None:
        return None
    match operator.spec.operand(position, len(operator.inputs)).domain:
        case "index":
            index = indexed(block, operator.spec, operator.inputs)
            return None if index is None else (0, index.rows - 1)
        case "shift":
            return 0, first.dtype.bits - 1
        case "divisor":
            return 1, 1000
        case "positive":
            return 0.05, 4.0
    return None


@dataclass(frozen=True, slots=True)
class Indexed:
    """Hold the operand that has indices, the tensor they index, and its rows: each index is less."""

    position: int
    tensor: str
    rows: int


def indexed(block: Block, spec: OperatorSpec, operands: Sequence[str]) -> Indexed | None:
    """Return what an operator indexes, or None if it indexes nothing or a tensor of unknown size."""
    rows = [spec.operand(i, len(operands)).domain for i in range(len(operands))]
    if "index" not in rows:
        return None
    tensor = block.tensors.get(operands[0])
    if tensor is None or tensor.shape is None or len(tensor.shape) < 2 or tensor.shape[1] < 1:
        return None
    return Indexed(rows.index("index"), tensor.name, tensor.shape[1])


def inputs_of(block: Block, names: Iterable[str]) -> list[str]:
    """Return the inputs of a block that values are computed from, in its order."""
    producers = {output: op for op in block.operators for output in op.outputs}
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += producers[name].inputs if name in producers else ()
    return [name for name in dict.fromkeys(block.inputs) if name in found]


# -- the states of a program's variables: set before a run, and known after it ---------------------

#: Before the name of a variable: the key of its state after a run among a backend's results.
STATE_PREFIX: Final = "variable:"


def variables_of(graph: Graph) -> dict[str, Tensor]:
    """Return the variables of the main block by name: the symbol if there is one, else the tensor's."""
    return {_name(tensor): tensor for tensor in graph.main.tensors.values() if tensor.variable}


def _name(tensor: Tensor) -> str:
    return tensor.variable_name or tensor.name


def state_slots(graph: Graph) -> dict[str, Slot]:
    result: dict[str, Slot] = {}
    for name, tensor in variables_of(graph).items():
        own = slots(graph.main, tensor.name)[0]
        result[STATE_PREFIX + name] = replace(own, key=STATE_PREFIX + name)
    return result


def with_variables(graph: Graph, states: Mapping[str, Any]) -> Graph:
    if not states:
        return graph
    declared = variables_of(graph)
    names = ", ".join(map(repr, declared))
    message = f"there is no such variable; the variables are: {names or 'none'}"
    findings = [
        Finding("input-mismatch", f'variable "{name}"', message)
        for name in states
        if name not in declared
    ]
    if findings:
        raise TosaConvertError(findings)
    initialised: dict[str, Tensor] = {}
    for name, array in states.items():
        tensor = declared[name]
        slot = slots(graph.main, tensor.name)[0]
        initialised[name] = replace(tensor, data=constant_of(coerce(slot, array), slot.dtype))

    def with_states(block: Block) -> Block:
        tensors = {
            key: initialised.get(_name(tensor), tensor) if tensor.variable else tensor
            for key, tensor in block.tensors.items()
        }
        return replace(block, tensors=tensors)

    regions = [
        Region(region.name, [with_states(block) for block in region.blocks])
        for region in graph.regions
    ]
    return replace(graph, regions=regions)


def without_unused_variables(graph: Graph) -> Graph:
    """Return the graph without the variables that its main block declares and does not use."""
    unused = unused_variables(graph)
    if not unused:
        return graph
    tensors = {name: tensor for name, tensor in graph.main.tensors.items() if name not in unused}
    return with_main(graph, replace(graph.main, tensors=tensors))


def needs_another_name(graph: Graph) -> bool:
    """Return whether the reference model crashes because of the main block's name."""
    return graph.main.name != "main" and bool(variables_of(graph))


def with_name_of_main_block(graph: Graph) -> Graph:
    """Return the graph with a main block that the reference model runs."""
    return (
        with_main(graph, replace(graph.main, name="main")) if needs_another_name(graph) else graph
    )


def unused_variables(graph: Graph) -> set[str]:
    """Return the variables that the main block declares and does not use."""
    main = graph.main
    unused = {name for name, tensor in main.tensors.items() if tensor.variable}
    if unused:
        unused.difference_update(main.inputs, main.outputs)
        for op in main.operators:
            unused.difference_update(op.inputs, op.outputs)
    return unused


def with_final_states(graph: Graph) -> tuple[Graph, dict[str, str]]:
    """Return a graph with each variable's final state as a tensor, and those tensors by variable.

    It is the tensor that the main block writes last, or else, if regions use variables, that of a read
    at the end of the main block: the reference model runs operators in order. A variable is left out if
    nothing writes it, or if regions use variables and it has no initial value to be read.
    """
    tensors = graph.main.tensors
    if not any(op.spec in (VARIABLE_WRITE, VARIABLE_READ) for op in _nested_operators(graph)):
        return graph, {
            _name(tensors[op.outputs[0]]): op.inputs[0]
            for op in graph.main.operators
            if op.spec is VARIABLE_WRITE
        }
    added, operators, states = dict(tensors), list(graph.main.operators), {}
    for name, variable in variables_of(graph).items():
        if variable.data is not None:
            states[name] = unused_name(f"{name}/final", added)
            added[states[name]] = Tensor(states[name], variable.dtype, variable.shape)
            operators.append(Operator(VARIABLE_READ, (variable.name,), (states[name],)))
    return with_main(graph, replace(graph.main, operators=operators, tensors=added)), states


def writes_variables(graph: Graph, operator: Operator, names: Iterable[str]) -> bool:
    """Return whether an operator of the main block, or a region of it, writes one of some variables."""
    wanted = set(names)
    inner = [block for region in reachable(graph, [operator]) for block in region.blocks]
    return any(
        op.spec is VARIABLE_WRITE and _name(block.tensors[op.outputs[0]]) in wanted
        for block, operators in ((graph.main, [operator]), *((b, b.operators) for b in inner))
        for op in operators
    )


def _nested_operators(graph: Graph) -> list[Operator]:
    return [op for _, block in list(graph.blocks())[1:] for op in block.operators]


def final_states(
    graph: Graph, tensors: Mapping[str, str], values: Arrays, initial: Mapping[str, Any]
) -> dict[str, Array]:
    """Return the states after a run, by variable.

    tensors: as `with_final_states` returns them. values: their arrays. initial: the states that the run
        was given.
    """
    uses_regions = any(op.spec is VARIABLE_WRITE for op in _nested_operators(graph))
    states: dict[str, Array] = {}
    for name, tensor in variables_of(graph).items():
        slot = slots(graph.main, tensor.name)[0]
        if name in tensors:
            states[name] = values[tensors[name]]
        elif uses_regions:
            continue
        elif name in initial:
            states[name] = coerce(slot, initial[name])
        elif tensor.data is not None:
            states[name] = tensor.data.numpy().reshape(slot.shape)
    return states


AS_IT_IS = ReadOptions()


@dataclass(frozen=True, slots=True)
class Program:
    """Hold a graph, and a flatbuffer that the reference model can be given as it is, if there is one."""

    graph: Graph
    flatbuffer: Path | None = None


def load_program(source: Any, read: ReadOptions = AS_IT_IS, *, is_sound: bool = True) -> Program:
    if isinstance(source, Program):
        return source
    if isinstance(source, Graph):
        return Program(give_meaning(source, read.custom) if read.custom else source)
    try:
        opened = open_input(source, read)
    except TypeError:  # neither a path nor bytes
        return Program(api.stamp(read_module(source, read)))
    refuse_inapplicable(given_options(read), opened.where, read_from=opened.format)
    graph = read_graph(opened, read)
    if is_sound or not graph.regions or not graph.regions[0].blocks:
        refuse_unsound(graph)
    if opened.is_mlir:
        return Program(api.stamp(graph))
    if has_open_sizes(graph) and (closed := settled(graph)) is not graph:
        return Program(closed)
    # With shapes given, the program that runs differs from the file, and with weights in a folder beside
    # it, the file is not the whole program.
    is_model = (
        opened.path
        and opened.format == "tosa"
        and not read.input_shapes
        and not weights_beside(opened.path)
    )
    return Program(graph, Path(opened.path) if is_model else None)


def as_graph(
    source: Any, read: ReadOptions = AS_IT_IS, options: Mapping[str, Any] | None = None
) -> Graph:
    """Return the graph of anything that can be read; see `load_program` and `reading`."""
    return load_program(source, reading(read, options or {})).graph


def reading(read: ReadOptions, options: Mapping[str, Any]) -> ReadOptions:
    """Return how to read: as keywords say, those of `tosa_convert.load`, or as a value of them does."""
    if not options:
        return read
    refuse_unexpected(api.load, options)
    if read is not AS_IT_IS:
        message = f"{', '.join(options)} and read= both say how to read"
        raise fail("option-conflict", "read", message, "give all of them as keywords")
    return ReadOptions.of(options)


def input_slots(graph: Graph) -> list[Slot]:
    require_graphs(graph)
    return _slots_of(graph.main, graph.main.inputs, "input")


def result_slots(graph: Graph) -> dict[str, Slot]:
    """Return the slots of the main block's outputs, and of the states of its variables, by key."""
    return {slot.key: slot for slot in output_slots(graph)} | state_slots(graph)


def shapes_of_inputs(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Return the shape of each input that has a rank, by name; a size may be DYNAMIC."""
    tensors = graph.main.tensors
    shapes = {name: tensors[name].shape for name in graph.main.inputs if name in tensors}
    return {name: shape for name, shape in shapes.items() if shape is not None}


def shapes_of_results(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the main block's tensors and states, by key, as far as they are static."""
    block = graph.main
    found = {key: slot.shape for key, slot in state_slots(graph).items()}
    named = {name: tensor.shape for name, tensor in block.tensors.items()}
    static = [name for name, sizes in named.items() if sizes is not None and DYNAMIC not in sizes]
    for name in (*static, *block.shapes):
        found |= {slot.key: slot.shape for slot in slots(block, name)}
    return found


def output_slots(graph: Graph) -> list[Slot]:
    """Return the slots of the main block's outputs, in order; a repeated output has one slot."""
    return _slots_of(graph.main, dict.fromkeys(graph.main.outputs), "output")


def _slots_of(block: Block, names: Iterable[str], role: str) -> list[Slot]:
    result: list[Slot] = []
    findings: list[Finding] = []
    for name in names:
        try:
            result += slots(block, name, f'{role} "{name}"')
        except TosaConvertError as error:
            findings += error.findings
    if findings:
        raise TosaConvertError(findings)
    return result


def input_arrays(
    graph: Graph, inputs: Mapping[str, Any] | None, random: int | None = None, ranges: Ranges = ()
) -> dict[str, Array]:
    """Return an array for each input, in its type and shape.

    Args:
        graph: the program.
        inputs: arrays by the inputs' names.
        random: a seed, 0 or more, for the inputs that are not given; None to refuse those.
        ranges: (pattern of names, lowest, highest) for random inputs.

    Returns:
        The arrays by the names of inputs, in the order of the graph.

    Raises:
        TosaConvertError: `input-mismatch` with a finding for each array that is missing, that no
            input takes, or that has another type or shape; `option-conflict` for a negative seed.

    Example:
        >>> from tosa_convert import golden
        >>> graph = golden.generate(seed=2, operators=3, kinds=["ABS"])
        >>> arrays = golden.input_arrays(graph, None, random=1)
        >>> list(arrays) == graph.main.inputs
        True
    """
    wanted = input_slots(graph)
    given = dict(inputs or {})
    if random is not None:
        given = {**random_inputs(graph, wanted, random, ranges), **given}
    return match(wanted, given)
