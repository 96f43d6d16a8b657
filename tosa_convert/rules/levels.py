"""Levels: limits of ranks, sizes, kernels and nesting that a target supports.

Sources: the level checks of LLVM's TOSA dialect, and experiments with `tosa-opt --tosa-validate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING, Final

from tosa_convert.errors import Finding
from tosa_convert.graph.model import DYNAMIC, block_path, operator_path, quoted
from tosa_convert.records import NamedTuple
from tosa_convert.rules.families.core import Violation, dashed, known
from tosa_convert.rules.operator_view import OperatorView
from tosa_convert.rules.program import unjudged_inputs
from tosa_convert.rules.values import ShapeType, Size, TensorType, ValueType

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph, Operator


class Level(NamedTuple):
    """The highest values that a level allows.

    name: "8K" or "NONE".
    rank: of tensors.
    kernel: of kernels, with their dilation, of padding, and of the sides of Fourier transforms.
    stride: of strides.
    scale: of the factors of RESIZE.
    log2_size: the bytes of a tensor are fewer than 2 to this power.
    nesting: the depth of control flow, which is 1 in the main graph, is less than this.
    list_size: of lists of tensors.
    shape_length: of a !tosa.shape.
    """

    name: str
    rank: int
    kernel: int
    stride: int
    scale: int
    log2_size: int
    nesting: int
    list_size: int
    shape_length: int

    @property
    def mlir(self) -> str:
        """Return its name in MLIR."""
        return self.name.lower()


LEVEL_8K: Final = Level("8K", 6, 8192, 8192, 256, 31, 6, 64, 16)
LEVEL_NONE: Final = Level("NONE", 32, 2**31 - 1, 2**31 - 1, 2048, 63, 256, 256, 64)
#: Name -> level.
LEVELS: Final = {level.name: level for level in (LEVEL_8K, LEVEL_NONE)}

#: Family -> the limit of each of its attributes or !tosa.shape operands.
_LIMITED: Final = {
    "pooling": {"kernel": "kernel", "stride": "stride", "pad": "kernel"},
    "convolution": {
        "dilation": "kernel",
        "out_pad": "kernel",
        "pad": "kernel",
        "stride": "stride",
    },
}


def violations(view: OperatorView, level: Level) -> Iterator[Violation]:
    """Report what a level does not allow an operator.

    `nesting_violations` has the depth of control flow.

    What is not known violates nothing. The names of the rules begin with "level-".
    """
    yield from _value_violations(view, level)
    family = view.spec.family
    for part, limit in _LIMITED.get(family, {}).items():
        yield from _largest(part, _parts(view, part), level, getattr(level, limit))
    if family == "convolution":
        yield from _kernel_violations(view, level)
    elif family == "fft":
        shape = view.shape("input_real") or ()
        yield from _largest("input_real", shape[1:], level, level.kernel)
    elif family == "resize":
        yield from _scale_violations(view, level)


def _value_violations(view: OperatorView, level: Level) -> Iterator[Violation]:
    """Ranks, sizes and lengths of operands and results, and their number."""
    operands = [(row.name, row.arity, value) for row, value in view.operands()]
    results = [(row.name, row.arity, value) for row, value in view.results()]
    for values in (operands, results):
        for name in dict.fromkeys(name for name, arity, _ in values if arity == "*"):
            count = sum(other == name for other, _, _ in values)
            if count > level.list_size:
                yield _over(f"{name}-list", f"{name} is a list of {count}", level, level.list_size)
        for name, arity, value in values:
            # The tensors are passed on: a level limits them where they are used.
            exempt = view.spec.family == "control" and arity == "*"
            yield from _one_value(name, value, level, exempt=exempt)


def _one_value(name: str, value: ValueType, level: Level, *, exempt: bool) -> Iterator[Violation]:
    if isinstance(value, ShapeType):
        if value.rank > level.shape_length:
            text = f"{name} has {value.rank} sizes"
            yield _over(f"{name}-length", text, level, level.shape_length)
        return
    if value.rank is not None and value.rank > level.rank and not exempt:
        yield _over(f"{name}-rank", f"{name} is {value}", level, level.rank, "rank ")
    count = _elements(value)
    size = max(1, value.dtype.bits // 8) * count
    if size >= 1 << level.log2_size:
        text = f"{name} is {value}, {size} bytes"
        most = f"fewer than {1 << level.log2_size} bytes in level {level.name}"
        yield Violation(f"level-{dashed(name)}-size", text, most)


def _elements(value: TensorType) -> int:
    """Return the number of elements, 0 if it is not known."""
    if value.shape is None or DYNAMIC in value.shape:
        return 0
    return prod(value.shape)


def _over(rule: str, text: str, level: Level, limit: int, unit: str = "") -> Violation:
    return Violation(f"level-{dashed(rule)}", text, f"{unit}at most {limit} in level {level.name}")


def _parts(view: OperatorView, name: str) -> tuple[Size, ...]:
    """Return the values of an attribute, or of the !tosa.shape operand that has its place, if any."""
    if name in view.attributes:
        return tuple(view.attributes[name])
    return view.sizes(name) if view.has(name) else ()


def _largest(name: str, values: Iterable[Size], level: Level, limit: int) -> Iterator[Violation]:
    """Report a violation if one of the values is above a limit."""
    found = [value for value in values if value is not None]
    if found and max(found) > limit:
        yield _over(name, f"{name} has {max(found)}", level, limit)


def _kernel_violations(view: OperatorView, level: Level) -> Iterator[Violation]:
    _, weight, _ = view.spec.multiply_accumulates
    shape = view.shape(weight)
    if shape is None:
        return
    first = view.spec.kernel_dimension
    for size, factor in zip(shape[first:], _parts(view, "dilation") or (1, 1), strict=False):
        if known(size) and factor is not None and size * factor > level.kernel:
            times = f" with dilation {factor}" if factor != 1 else ""
            text = f"the kernel has {size}{times}"
            yield _over("kernel", text, level, level.kernel)


def _scale_violations(view: OperatorView, level: Level) -> Iterator[Violation]:
    scale = view.sizes("scale")
    for numerator, denominator in zip(scale[0::2], scale[1::2], strict=False):
        if numerator is None or denominator is None or denominator <= 0:
            continue
        if numerator // denominator > level.scale:
            text = f"scale is {numerator}/{denominator}"
            yield _over("scale", text, level, level.scale)


def input_findings(graph: Graph, level: Level) -> Iterator[Finding]:
    """Yield what a level does not allow of tensors that blocks take and no operator uses."""
    for where, name, type_ in unjudged_inputs(graph):
        for found in _one_value("input", type_, level, exempt=False):
            message = f"{quoted(name)}: {found.message}; expected {found.expected}"
            yield Finding("outside-level", where, message, rule=f"program-{found.rule}")


class DeepOperator(NamedTuple):
    """An operator that runs regions at a depth that a level does not allow.

    where: the path of the operator. violation: its depth.
    """

    where: str
    operator: Operator
    violation: Violation


def nesting_violations(graph: Graph, level: Level) -> Iterator[DeepOperator]:
    """Find the operators of control flow that are nested deeper than a level allows.

    An operator of the main graph has depth 1. A region that several operators run counts at the
    greatest depth.
    """
    depths = _depths(graph)
    regions = {region.name: region for region in graph.regions}
    for name, depth in depths.items():
        if depth < level.nesting:
            continue
        for block in regions[name].blocks:
            for index, operator in enumerate(block.operators):
                if operator.spec.regions:
                    where = operator_path(block_path(name, block.name), index, operator)
                    expected = f"less than {level.nesting} in level {level.name}"
                    found = Violation("level-nesting", f"control flow at depth {depth}", expected)
                    yield DeepOperator(where, operator, found)


def _depths(graph: Graph) -> dict[str, int]:
    """Return the depth at which operators of each region run, for the regions that run."""
    runs = {
        region.name: {
            str(operator.attributes[row.name])
            for block in region.blocks
            for operator in block.operators
            for row in operator.spec.regions
        }
        for region in graph.regions
    }
    callers = dict.fromkeys(runs, 0)
    for targets in runs.values():
        for target in targets:
            callers[target] += 1
    depths = {name: 1 for name, count in callers.items() if not count}
    ready = list(depths)
    while ready:
        name = ready.pop()
        for target in runs[name]:
            depths[target] = max(depths.get(target, 0), depths[name] + 1)
            callers[target] -= 1
            if not callers[target]:
                ready.append(target)
    return depths
