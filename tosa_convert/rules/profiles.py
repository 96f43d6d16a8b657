"""What a target supports: profiles and extensions, and the limits of levels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from tosa_convert.errors import Finding, Findings
from tosa_convert.graph.dtypes import V1_0, V1_1, RoundingMode
from tosa_convert.graph.model import DYNAMIC, Target, block_path, located, operator_path, quoted
from tosa_convert.rules.families.checks import Violation, dashed, known
from tosa_convert.rules.operator_view import OperatorView, ShapeType, Size, TensorType, ValueType
from tosa_convert.rules.types import Element, Need, match
from tosa_convert.rules.validate import unjudged_inputs

if TYPE_CHECKING:
    from tosa_convert.graph.model import Block, Graph, Operator


class Capability(NamedTuple):
    """A profile or an extension.

    name: such as "PRO-INT" or "EXT-MX-FP8E4M3".
    since: the TOSA version that introduced it.
    profiles: of an extension, the profiles of which a target must have one.
    implies: what a target that has it has as well.
    removed: the month in which it left the draft of TOSA 1.1; "" if it did not.
    """

    name: str
    since: tuple[int, int] = V1_0
    profiles: tuple[str, ...] = ()
    implies: tuple[str, ...] = ()
    removed: str = ""

    @property
    def mlir(self) -> str:
        """Return its name in MLIR.

        Example:
            >>> CAPABILITIES["PRO-INT"].mlir, CAPABILITIES["EXT-MX-INT8"].mlir
            ('pro_int', 'mx_int8')
        """
        return self.name.removeprefix("EXT-").lower().replace("-", "_")


_INT, _FP = ("PRO-INT",), ("PRO-FP",)
_ANY: Final = _INT + _FP
_MX: Final = tuple(
    f"EXT-MX-{name}" for name in ("FP4E2M1", "FP6E2M3", "FP6E3M2", "FP8E4M3", "FP8E5M2", "INT8")
)

#: Names of profiles and extensions, for type checkers.
ProfileName = Literal[
    "PRO-INT", "PRO-FP", "EXT-INT16", "EXT-INT4", "EXT-BF16", "EXT-FP8E4M3", "EXT-FP8E5M2",
    "EXT-FFT", "EXT-VARIABLE", "EXT-CONTROLFLOW", "EXT-DOUBLEROUND", "EXT-INEXACTROUND",
    "EXT-DYNAMIC", "EXT-INT64", "EXT-SHAPE", "EXT-MX-COMMON", "EXT-MX-FP4E2M1", "EXT-MX-FP6E2M3",
    "EXT-MX-FP6E3M2", "EXT-MX-FP8E4M3", "EXT-MX-FP8E5M2", "EXT-MX-INT8", "EXT-MXFP-CONV", "EXT-MXFP"
]  # fmt: skip

PROFILES: Final = (Capability("PRO-INT"), Capability("PRO-FP"))
EXTENSIONS: Final = (
    Capability("EXT-INT16", V1_0, _INT),
    Capability("EXT-INT4", V1_0, _INT),
    Capability("EXT-BF16", V1_0, _FP),
    Capability("EXT-FP8E4M3", V1_0, _FP),
    Capability("EXT-FP8E5M2", V1_0, _FP),
    Capability("EXT-FFT", V1_0, _FP),
    Capability("EXT-VARIABLE", V1_0, _ANY),
    Capability("EXT-CONTROLFLOW", V1_0, _ANY),
    Capability("EXT-DOUBLEROUND", V1_0, _INT),
    Capability("EXT-INEXACTROUND", V1_0, _INT),
    Capability("EXT-DYNAMIC", V1_0, _ANY),
    Capability("EXT-INT64", V1_1, _ANY),
    Capability("EXT-SHAPE", V1_1, _ANY),
    Capability("EXT-MX-COMMON", V1_1, _FP),
    *(Capability(name, V1_1, _FP) for name in _MX),
    Capability("EXT-MXFP-CONV", V1_1, _FP, removed="2026-09"),
    # The name that earlier drafts of 1.1 had for all of these types; MLIR still knows it.
    Capability("EXT-MXFP", V1_1, _FP, ("EXT-MX-COMMON", *_MX)),
)
#: Name -> profile or extension, in the order in which they are listed.
CAPABILITIES: Final = {row.name: row for row in (*PROFILES, *EXTENSIONS)}
BY_MLIR: Final = {row.mlir: row for row in CAPABILITIES.values()}

#: Rounding mode of RESCALE -> the extension that has it.
_ROUNDING: Final = {
    RoundingMode.DOUBLE_ROUND: "EXT-DOUBLEROUND",
    RoundingMode.INEXACT_ROUND: "EXT-INEXACTROUND",
}
#: Operands that, besides zero points and the like, must be constants unless a target has EXT-DYNAMIC.
_CONSTANTS: Final = ("pad_const", "table")
#: Constant operands that are part of what the operator does: EXT-DYNAMIC does not allow others.
_ALWAYS_CONSTANT: Final = ("start", "size", "row_count")


class Requirement(NamedTuple):
    """What an operator needs of a target.

    where: the path of the operator. needs: the alternatives, of which a target must have one.
    """

    where: str
    operator: Operator
    needs: tuple[Need, ...]


class Misfit(NamedTuple):
    """An operator that a target does not have.

    where: the path of the operator. message: what it needs. hint: what to do about it.
    """

    where: str
    message: str
    hint: str


def parse(text: str) -> frozenset[str]:
    """Return the profiles and extensions of a list such as "PRO-INT,EXT-INT16", of any letter case."""
    findings = Findings()
    names: dict[str, None] = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        names[word.upper()] = None
        if word.upper() not in CAPABILITIES:
            known = ", ".join(CAPABILITIES)
            findings.add("option-conflict", "profile", f"found {word!r}, expected {known}")
    for row in (CAPABILITIES[name] for name in names if name in CAPABILITIES):
        if row.profiles and not names.keys() & set(row.profiles):
            needed = " or ".join(row.profiles)
            findings.add(
                "option-conflict", "profile", f"{row.name} needs {needed}", "add it to the list"
            )
    if not names:
        findings.add("option-conflict", "profile", "the list is empty", "name at least a profile")
    findings.raise_if_any()
    return frozenset(names)


def listed(names: Iterable[str]) -> str:
    """Return names in their order, as `parse` reads them."""
    found = set(names)
    return ",".join(name for name in CAPABILITIES if name in found)


def complete(names: Iterable[str]) -> frozenset[str]:
    found = frozenset(names)
    return found.union(*(CAPABILITIES[name].implies for name in found))


def requirements(graph: Graph) -> Iterator[Requirement]:
    """Iterate over what each operator needs, in order, except those whose types are not allowed."""
    known: dict[object, tuple[Need, ...]] = {}
    for where, block in graph.blocks():
        for index, operator in enumerate(block.operators):
            needs = _needs(block, operator, known)
            if needs:
                yield Requirement(
                    located(operator_path(where, index, operator), operator), operator, needs
                )


def _needs(
    block: Block, operator: Operator, known: dict[object, tuple[Need, ...]]
) -> tuple[Need, ...]:
    inputs = tuple(_element(block, name) for name in operator.inputs)
    outputs = tuple(_element(block, name) for name in operator.outputs)
    further = _further(block, operator)
    key = (operator.spec, inputs, outputs, further, *_type_attributes(operator.attributes))
    needs = known.get(key)
    if needs is None:
        row = match(operator.spec, inputs, outputs, operator.attributes)
        found = () if row is None else row.needs
        needs = known[key] = tuple(Need(need.names | further, need.since) for need in found)
    return needs


def _type_attributes(attributes: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(attributes.get(name) for name in ("acc_type", "mode", "scale32"))


def _element(block: Block, name: str) -> Element:
    tensor = block.tensors.get(name)
    if tensor is None:
        return None
    return tensor.dtype if tensor.scale is None else (tensor.dtype, tensor.scale.dtype)


def _further(block: Block, operator: Operator) -> frozenset[str]:
    """Return the extensions that an operator needs for other reasons than its types."""
    names = set()
    mode = operator.attributes.get("rounding_mode")
    if isinstance(mode, RoundingMode) and mode in _ROUNDING:
        names.add(_ROUNDING[mode])
    for row, name in zip(operator.spec.operands, operator.inputs, strict=False):
        must_be_constant = row.name in _CONSTANTS or (
            row.is_constant and row.name not in _ALWAYS_CONSTANT
        )
        if must_be_constant and not _is_constant(block, name):
            names.add("EXT-DYNAMIC")
    return frozenset(names)


def _is_constant(block: Block, name: str) -> bool:
    tensor = block.tensors.get(name)
    return tensor is None or (tensor.data is not None and not tensor.variable)


def least(
    requirements: Iterable[Requirement], version: tuple[int, int] = V1_1
) -> frozenset[str] | None:
    """Return the least profiles and extensions for all requirements; PRO-INT before PRO-FP."""
    wanted = list(dict.fromkeys(row.needs for row in requirements))
    for count in range(1, len(PROFILES) + 1):
        found = (
            _with_profiles(wanted, profiles, version) for profiles in combinations(_ANY, count)
        )
        best = min((names for names in found if names is not None), key=len, default=None)
        if best is not None:
            return best
    return None


def suitable_profiles(
    requirements: Iterable[Requirement], version: tuple[int, int] = V1_1
) -> tuple[str, ...]:
    """Return the profiles each of which suffices, with extensions, for all requirements."""
    wanted = list(dict.fromkeys(row.needs for row in requirements))
    return tuple(name for name in _ANY if _with_profiles(wanted, (name,), version) is not None)


def _with_profiles(
    wanted: list[tuple[Need, ...]], profiles: tuple[str, ...], version: tuple[int, int]
) -> frozenset[str] | None:
    """Return the least names with these profiles and no others, or None."""
    names = set(profiles)
    others = frozenset(_ANY) - names
    open_needs = []
    for needs in wanted:
        choices = [
            need.names for need in needs if need.since <= version and not need.names & others
        ]
        if not choices:
            return None
        if len(choices) == 1:
            names |= choices[0]
        else:
            open_needs.append(choices)
    for choices in open_needs:
        names |= min(choices, key=lambda choice: len(choice - names))
    return frozenset(names)


def misfits(
    graph: Graph, names: Iterable[str], version: tuple[int, int] = V1_1
) -> Iterator[Misfit]:
    """Find operators that need another target; not those that no target of the version has."""
    has = complete(names)
    fits: dict[tuple[Need, ...], str] = {}
    for row in requirements(graph):
        if row.needs not in fits:
            fits[row.needs] = _missing(row.needs, has, version)
        if fits[row.needs]:
            yield Misfit(
                row.where,
                f"{row.operator.spec.name} needs {_alternatives(row.needs)}",
                fits[row.needs],
            )


def fits(block: Block, operator: Operator, has: frozenset[str]) -> bool:
    """Return whether a target, from `complete`, has an operator; one of wrong types needs nothing."""
    needs = _needs(block, operator, {})
    return not needs or any(need.names <= has for need in needs)


def _missing(needs: tuple[Need, ...], has: frozenset[str], version: tuple[int, int]) -> str:
    """Return what to add so that a target satisfies a requirement. "" if it does or never can."""
    allowed = [need for need in needs if need.since <= version]
    if not allowed or any(need.names <= has for need in allowed):
        return ""
    fewest = min((need.names - has for need in allowed), key=len)
    return f"add {' and '.join(listed(fewest).split(','))} to the target"


def _alternatives(needs: tuple[Need, ...]) -> str:
    return " or ".join(" and ".join(listed(need.names).split(",")) for need in needs)


def check_target(target: Target, version: tuple[int, int] = V1_1) -> Iterator[Finding]:
    """Report what is wrong with a target: names that TOSA lacks, at all or in a version."""
    findings = Findings()
    where = "target"
    if target.level not in LEVELS:
        expected = " or ".join(LEVELS)
        findings.add("option-conflict", where, f"found level {target.level}, expected {expected}")
    for name in (*target.profiles, *target.extensions):
        row = CAPABILITIES.get(name)
        if row is None:
            findings.add("option-conflict", where, f"TOSA has no {name}")
            continue
        if row.profiles and not set(row.profiles) & set(target.profiles):
            findings.add("option-conflict", where, f"{name} needs {' or '.join(row.profiles)}")
        if row.since > version:
            findings.add(
                "option-conflict", where, f"{name} needs TOSA {row.since[0]}.{row.since[1]}"
            )
    yield from findings.rows


# -- levels: limits of ranks, sizes, kernels and nesting that a target supports --------------------
# Sources: the level checks of LLVM's TOSA dialect, and experiments with `tosa-opt --tosa-
# validate`.


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
    """Report what a level does not allow an operator, but nesting; the unknown violates nothing."""
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
    """Check ranks, sizes and lengths of operands and results, and their number."""
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
    """Find control flow nested deeper, by its deepest use, than a level allows; main has depth 1."""
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
