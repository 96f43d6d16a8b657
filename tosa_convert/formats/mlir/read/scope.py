"""The state of the block that is being read, and values that regions capture, passed in on request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tosa_convert.formats.mlir.bytecode import operations
from tosa_convert.formats.mlir.bytecode.operations import Operation
from tosa_convert.graph.constant import Constant
from tosa_convert.graph.derived import unused_name
from tosa_convert.graph.dtypes import BY_MLIR, INT32, INT64, DType, dtype
from tosa_convert.graph.lazy_numpy import np
from tosa_convert.graph.model import (
    Block,
    Operator,
    Region,
    ShapeValue,
    Tensor,
    counted,
    in_usual_order,
)
from tosa_convert.graph.opset import CONST, CONST_SHAPE, operator
from tosa_convert.io.options import Narrow


@dataclass(slots=True, eq=False, repr=False)
class RegionNames:
    """Names that an import noted for a region; None for those it did not note."""

    name: str | None = None
    block: str | None = None
    inputs: list[str | None] = field(default_factory=list)
    outputs: list[str | None] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class PendingRegion:
    """A region that is named, but whose block is not read yet.

    inputs, outputs: the names that its arguments and results carry; they may be fewer than there are.
    in_function: its values are numbered after those of the function, not from 0.
    runner: the operator that runs it. outer: the scope of that operator's block, whose values the region
        sees; None if it is isolated.
    """

    region: Region
    body: operations.Block
    owner: Operation
    inputs: list[str | None] = field(default_factory=list)
    outputs: list[str | None] = field(default_factory=list)
    in_function: bool = True
    runner: Operator | None = None
    outer: Scope | None = None


@dataclass(slots=True, eq=False, repr=False)
class Scope:
    """The state of the block that is being read.

    item: the region that the block is of.
    tensors, shapes: the values of the block, which are those of `block` once it has been read.
    taken: names that must not be generated. claimed: names that the module carries.
    values: names by the numbers of values; "" for a value that has a finding already.
    names: names that results of operations get, by the numbers of values.
    captured: names of values from outside that were passed in. copies: of constants from outside.
    unsigned: tensors whose elements were unsigned.
    uses: the names of the operations that use each value, made on the first call of `users`.
    """

    item: PendingRegion
    block: Block
    tensors: dict[str, Tensor]
    taken: set[str]
    captured: dict[int, str] = field(default_factory=dict)
    copies: list[Operator] = field(default_factory=list)
    shapes: dict[str, ShapeValue] = field(default_factory=dict)
    values: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    claimed: set[str] = field(default_factory=set)
    unsigned: set[str] = field(default_factory=set)
    pending: list[PendingRegion] = field(default_factory=list)
    uses: dict[int, set[str]] | None = None

    def users(self, value: int, names: list[str]) -> set[str]:
        """Return the names of the operations that use a value of this block."""
        if self.uses is None:
            self.uses = {}
            blocks = [self.item.body]
            while blocks:
                for fields in blocks.pop().operations:
                    operation = Operation(*fields)
                    for operand in operation.operands:
                        self.uses.setdefault(operand, set()).add(names[operation.name])
                    for region in operation.regions:
                        blocks += region.blocks
        return self.uses.get(value, set())


_WHILE_LOOP: Final = operator("WHILE_LOOP")


class CapturedValues:
    """Makes outside values available in the blocks that use them. `finish` completes the operators."""

    def __init__(self) -> None:
        #: Each control-flow operator with the scopes of its regions, in order.
        self._flows: dict[int, tuple[Operator, list[Scope]]] = {}
        #: Names of values that were passed in or copied, as their own block calls them.
        self._passed: dict[str, None] = {}
        self._copied: dict[str, None] = {}
        self._operators = 0

    def entered(self, scope: Scope) -> None:
        """Note the scope of a region that is about to be read."""
        runner = scope.item.runner
        if runner is not None:
            self._flows.setdefault(id(runner), (runner, []))[1].append(scope)

    def local(self, value: int, scope: Scope) -> str | None:
        """Return the name in a block of a value from outside; None if it cannot be passed in."""
        inner = [scope]
        source = scope.item.outer
        while source is not None and value not in source.values:
            inner.append(source)
            source = source.item.outer
        if source is None:
            return None
        name = source.values[value]
        if name == "":
            return name  # it has a finding
        constant = _constant(source, name)
        if constant is not None:
            self._copied[name] = None
            return _copied(scope, value, constant, is_unsigned=name in source.unsigned)
        if name not in source.tensors:
            return None  # a !tosa.shape cannot be an operand of control flow
        self._passed[name] = None
        tensor = source.tensors[name]
        for through in reversed(inner):
            name = _declared(through, replace(tensor, name=f"{tensor.name}_captured"))
            through.values[value] = through.captured[value] = name
            if tensor.name in source.unsigned:
                through.unsigned.add(name)
        return name

    def finish(self) -> None:
        """Give the operators the operands, results and region inputs that were added."""
        for op, scopes in self._flows.values():
            values = list(dict.fromkeys(value for scope in scopes for value in scope.captured))
            if values:
                self._operators += 1
                _complete(op, scopes, values)
            for scope in scopes:
                scope.block.operators[:0] = scope.copies
                if values or scope.copies:
                    _sort(scope.block)
                if values and scope.item.outer is not None:
                    _sort(scope.item.outer.block)

    def report(self) -> Iterator[str]:
        """Iterate over what was passed in and copied, one line for each."""
        if self._passed:
            yield (
                f"passed {counted(len(self._passed), 'captured value')} as operands of "
                f"{counted(self._operators, 'control-flow operator')}: {', '.join(self._passed)}"
            )
        if self._copied:
            yield (
                f"copied {counted(len(self._copied), 'captured constant')} into the regions that use "
                f"them: {', '.join(self._copied)}"
            )


def _constant(source: Scope, name: str) -> Tensor | ShapeValue | None:
    """Return the constant of this name, or None if the value is computed."""
    value = source.tensors.get(name) or source.shapes.get(name)
    return value if value is not None and value.data is not None else None


def _copied(scope: Scope, value: int, constant: Tensor | ShapeValue, *, is_unsigned: bool) -> str:
    """Add a copy of a constant to a block and return its name; both share the data."""
    name = _declared(scope, replace(constant, name=f"{constant.name}_copy"))
    if is_unsigned:
        scope.unsigned.add(name)
    spec = CONST if isinstance(constant, Tensor) else CONST_SHAPE
    scope.copies.append(Operator(spec, (), (name,)))
    scope.values[value] = name
    return name


def _declared(scope: Scope, wanted: Tensor | ShapeValue) -> str:
    # Names that are not in `taken` are generated and have another form.
    wanted.name = unused_name(wanted.name, scope.taken)
    scope.taken.add(wanted.name)
    if isinstance(wanted, Tensor):
        scope.tensors[wanted.name] = wanted
    else:
        scope.shapes[wanted.name] = wanted
    return wanted.name


def _complete(op: Operator, scopes: list[Scope], values: list[int]) -> None:
    """Pass values to an operator, and add them to the inputs of all its regions in one order."""
    outer = scopes[0].item.outer
    assert outer is not None
    names = [outer.values[value] for value in values]
    op.inputs += tuple(names)
    for scope in scopes:
        for value, name in zip(values, names, strict=True):
            if value not in scope.captured:
                tensor = outer.tensors[name]
                local = _declared(scope, replace(tensor, name=f"{name}_captured"))
                scope.captured[value] = local
        scope.block.inputs += [scope.captured[value] for value in values]
    if op.spec is _WHILE_LOOP:
        body = scopes[-1]
        body.block.outputs += [body.captured[value] for value in values]
        for name in names:
            tensor = outer.tensors[name]
            op.outputs += (_declared(outer, replace(tensor, name=f"{name}_unchanged")),)


def _sort(block: Block) -> None:
    """Sort a block's values in the order of tosa-opt: variables first, then everything by name."""
    block.tensors = in_usual_order(block.tensors)
    block.shapes = dict(sorted(block.shapes.items()))


# -- narrower element types, on request: i64, f64, f32 and quantised types -------------------------
# What changes is reported, and what does not fit is an error. TOSA has no CLAMP of INT32: that of
# INT64 becomes MAXIMUM and MINIMUM.

#: The element type of f64 constants while they are read. It is not a TOSA type, so it has no row.
_FP64: Final = DType("FP64", -1, 64, "float64", "f64", "float")
_FP32: Final = dtype("FP32")
_FP16: Final = dtype("FP16")

#: Element type in MLIR -> the type of its constants before narrowing, and the narrower type.
TARGETS: Final = {"i64": (INT64, INT32), "f64": (_FP64, _FP32), "f32": (_FP32, _FP16)}
#: The form of constants in numpy.
_FORMS: Final = {INT64: "<i8", INT32: "<i4", _FP64: "<f8", _FP32: "<f4", _FP16: "<f2"}

QUANT: Final = "quant"
#: A quantised type with the integer that it is stored as, which may have bounds.
QUANTISED: Final = re.compile(r"!quant\.(?:uniform|any)<([iu])([0-9]{1,3})[<:,>]")

#: Operators whose result depends on the number of bits, not only on the value.
WIDTH_MATTERS: Final = frozenset({"CLZ", "LOGICAL_RIGHT_SHIFT"})


class Narrowing:
    """The element types to narrow, and what narrowing changed. False if there are none.

    Element types are in MLIR's notation: "i64", "f64".
    """

    def __init__(self, elements: Collection[Narrow] = ()) -> None:
        self.elements = frozenset(elements)
        #: The tensors that were narrowed, by their element type.
        self.narrowed: dict[str, list[str]] = {
            element: [] for element in (*TARGETS, QUANT) if element in self.elements
        }
        #: How many elements and bounds lost digits, and elements that became 0, by the types' names.
        self.rounded: Counter[str] = Counter()
        self.rounded_bounds: Counter[str] = Counter()
        self.flushed: Counter[str] = Counter()
        self.saturated = 0
        self.replaced_clamps = 0

    def __bool__(self) -> bool:
        return bool(self.elements)

    def target(self, element: str) -> DType | None:
        """Return the narrower type of an element type, or None if it is not narrowed."""
        found = TARGETS[element][1] if element in self.elements else None
        return self.target("f32") or found if found is _FP32 else found

    def _change(self, element: str) -> str:
        """Return the types' names in messages: f64 to f32."""
        target = self.target(element)
        return f"{element} to {element if target is None else target.mlir}"

    def storage(self, element: str) -> tuple[DType, bool] | None:
        """Return the integer that stores a quantised type, if asked for, and whether it is unsigned.

        Example:
            >>> Narrowing(["quant"]).storage("!quant.uniform<u8<1:255>:f32, 0.5:128>")
            (INT8, True)
        """
        found = QUANTISED.match(element) if QUANT in self.elements else None
        integer = BY_MLIR.get(f"i{found[2]}") if found is not None else None
        return None if found is None or integer is None else (integer, found[1] == "u")

    def stored(self, element: str) -> DType | None:
        """Return the type of a type's constants before narrowing, or None if it is not narrowed."""
        return TARGETS[element][0] if element in TARGETS and element in self.elements else None

    def add(self, element: str, name: str) -> None:
        self.narrowed[element].append(name)

    def bound(self, element: str, value: Any, *, upper: bool) -> Any:
        """Convert a bound of a CLAMP, at most the range's end; OverflowError if no value is in it."""
        narrow: Any
        lowest: Any
        highest: Any
        if element == "i64":
            narrow, lowest, highest = int(value), -(2**31), 2**31 - 1
        else:
            target = self.target(element)
            kind = np.dtype(_FORMS[_FP32 if target is None else target])
            with np.errstate(over="ignore"):
                narrow = kind.type(value)
            limits = np.finfo(kind)
            lowest, highest = float(limits.min), float(limits.max)
            if not np.isfinite(value):
                return narrow
            if np.isfinite(narrow):
                self.rounded_bounds[self._change(element)] += float(narrow) != float(value)
                return narrow
        if lowest <= value <= highest:
            return narrow
        if (value > highest) is not upper:
            raise OverflowError(f"{value} does not fit {self._change(element).split()[-1]}")
        self.saturated += 1
        return highest if upper else lowest

    def convert(self, data: Constant, target: DType, users: Callable[[], set[str]]) -> Constant:
        """Convert a constant to the narrower type; raise OverflowError if an element does not fit."""
        if data.dtype is target:
            return data
        is_integer = data.dtype is INT64
        wide = np.frombuffer(data.buffer, _FORMS[data.dtype])
        with np.errstate(over="ignore", under="ignore"):
            narrow = wide.astype(_FORMS[target])
        if is_integer:
            lost = narrow != wide
        else:
            lost = np.isfinite(wide) & ~np.isfinite(narrow)
            change = self._change(data.dtype.mlir)
            self.rounded[change] += int((np.isfinite(wide) & ~lost & (narrow != wide)).sum())
            self.flushed[change] += int(((narrow == 0) & (wide != 0)).sum())
        if lost.any():
            saturated = lost & _IS_UNBOUNDED[_only_user(users())](wide)
            limits = np.iinfo("<i4") if is_integer else np.finfo(_FORMS[target])
            narrow[saturated] = np.where(wide[saturated] > 0, limits.max, limits.min)
            self.saturated += int(saturated.sum())
            lost &= ~saturated
        if lost.any():
            index = int(lost.argmax())
            raise OverflowError(
                f"element {index} is {wide[index]}, which does not fit {target.mlir}"
            )
        return Constant(target, data.count, narrow.view(np.uint8), splat=data.splat)

    def report(self, listed: Callable[[list[str]], str] = ", ".join) -> Iterator[str]:
        """Iterate over the changes of narrowing, one line for each kind; `listed` joins names."""
        for element, names in self.narrowed.items():
            if names and element == QUANT:
                yield (
                    f"quantised types became the integers that they are stored as in "
                    f"{_count(names, 'tensor')}, and their scales and zero points are lost: "
                    + listed(names)
                )
            elif names:
                change = self._change(element)
                yield f"narrowed {change} in {_count(names, 'tensor')}: {listed(names)}"
        if self.replaced_clamps:
            what = _count(self.replaced_clamps, "CLAMP")
            yield f"narrowing i64 to i32 replaced {what} by MAXIMUM and MINIMUM"
        for change, number in (+self.rounded).items():
            yield f"narrowing {change} rounded {_count(number, 'constant element')}"
        for change, number in (+self.flushed).items():
            yield f"narrowing {change} made 0 of {_count(number, 'small constant element')}"
        for change, number in (+self.rounded_bounds).items():
            yield f"narrowing {change} rounded {_count(number, 'bound')} of CLAMP"
        if self.saturated:
            yield f"narrowing moved {_count(self.saturated, 'bound')} to the end of the type's range"


def _count(items: int | list[str], noun: str) -> str:
    number = items if isinstance(items, int) else len(items)
    return f"{number} {noun}" + "s" * (number != 1)


def _only_user(users: set[str]) -> str:
    """Return the operation in _IS_UNBOUNDED that is the only user of a constant, or ""."""
    return next(iter(users)) if len(users) == 1 and users <= _IS_UNBOUNDED.keys() else ""


#: Operation -> for each element that does not fit, whether it has no effect as the operation's operand:
#: frontends write the minimum of a value and the largest number for "unbounded".
_IS_UNBOUNDED: Final[dict[str, Callable[[Any], Any]]] = {
    "tosa.minimum": lambda wide: wide > 0,
    "tosa.maximum": lambda wide: wide < 0,
    "": lambda wide: np.zeros(wide.shape, bool),
}


_MAXIMUM: Final = operator("MAXIMUM")
_MINIMUM: Final = operator("MINIMUM")


def is_identity(cast: Operator, scope: Scope) -> bool:
    """Return whether narrowing made a CAST's types equal, which TOSA's CAST does not allow."""
    if not cast.inputs or not cast.outputs:
        return False
    source, target = (scope.tensors.get(names[0]) for names in (cast.inputs, cast.outputs))
    return source is not None and target is not None and source.dtype is target.dtype


def without_clamp(clamp: Operator, scope: Scope, narrowing: Narrowing) -> list[Operator]:
    """Return operators with the result of a narrowed CLAMP, for whose type TOSA has none."""
    complete = len(clamp.attributes) == len(clamp.spec.attributes)
    if not complete or len(clamp.inputs) != 1 or len(clamp.outputs) != 1:
        return [clamp]  # it has or gets a finding
    (value,), (result,) = clamp.inputs, clamp.outputs
    shape = scope.tensors[result].shape
    if shape is None:
        return [clamp]  # the bounds would need the rank of the operand, which is unknown
    narrowing.replaced_clamps += 1
    between = _declared(scope, Tensor(f"{result}_maximum", INT32, shape))
    made = []
    for spec, name, operand, output in (
        (_MAXIMUM, "min_val", value, between),
        (_MINIMUM, "max_val", between, result),
    ):
        raw = clamp.attributes[name]
        assert isinstance(raw, bytes)
        bound = _declared(scope, Tensor(f"{result}_{name}", INT32, (1,) * len(shape)))
        scope.tensors[bound].data = Constant(INT32, 1, raw[: INT32.element_bytes])
        attributes = {"nan_mode": clamp.attributes["nan_mode"]}
        made += [
            Operator(CONST, (), (bound,), {}, clamp.location),
            Operator(spec, (operand, bound), (output,), attributes, clamp.location),
        ]
    return made
