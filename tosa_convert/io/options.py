"""The options of reading and writing, as immutable values that are passed as arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, cast, get_args

from tosa_convert.errors import Findings, TosaConvertError, fail, refuse_unknown

Names = Literal["retain", "generate"]
#: Where constants can be stored in files of their own.
WeightForm = Literal["npy", "safetensors", "irpa"]
Weights = Literal["auto", "embedded", "offset", "npy", "safetensors", "irpa"]
Constants = Literal["auto", "dense", "resource"]
#: Operations of MLIR that can hold a program.
FunctionOperation = Literal["func.func", "ml_program.func", "ml_program.subgraph"]
#: "1.0", "1.1" or the draft of a month, on request, or "" for the version that the input has or needs.
TosaVersion = Literal["", "1.0", "1.1", "1.1-2026-08", "1.1-2026-09"]
Narrow = Literal["i64", "f64", "f32", "quant"]
#: What says the meaning of CUSTOM operators: `tosa_convert.Custom`, a Python file, or an extension.
CustomLike = Any
#: Argument -> its sizes in elements.
Shapes = Mapping[str, Sequence[int] | tuple[int | str, ...] | list[int | str]]

NAMES: Final[tuple[Names, ...]] = get_args(Names)
WEIGHTS: Final[tuple[Weights, ...]] = get_args(Weights)
WEIGHT_FORMS: Final[tuple[WeightForm, ...]] = get_args(WeightForm)
CONSTANTS: Final[tuple[Constants, ...]] = get_args(Constants)
FUNCTION_OPERATIONS: Final[tuple[FunctionOperation, ...]] = get_args(FunctionOperation)
NARROW: Final[tuple[Narrow, ...]] = get_args(Narrow)
#: Versions of MLIR's bytecode, and the one that is written unless another is asked for: every MLIR that
#: reads bytecode reads it.
BYTECODE_VERSIONS: Final = range(7)
BYTECODE_VERSION: Final = 1


def _limit(default: int, what: str, *, least: int = 1, most: int = sys.maxsize) -> Any:
    return field(default=default, metadata={"what": what, "least": least, "most": most})


#: Most seconds of a time limit: no system has a timer for much more (Windows: 49 days).
MOST_SECONDS: Final = 4_000_000


def refuse_time_limit(seconds: float) -> None:
    """Raise TosaConvertError("option-conflict") for a time limit that no timer has, such as NaN.

    Example:
        >>> refuse_time_limit(float("inf"))
        Traceback (most recent call last):
        tosa_convert.errors.TosaConvertError: timeout: error: found inf, expected ...
    """
    if not 0 <= seconds <= MOST_SECONDS:
        message = f"found {seconds!r}, expected seconds from 0 to {MOST_SECONDS}"
        raise fail("option-conflict", "timeout", message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on the resources that one input may use; the command line's `--limit NAME=N`.

    In error messages and on the command line a name has hyphens: `input-bytes`.

    Raises:
        TosaConvertError: "option-conflict" for values outside of a limit's range.

    Example:
        >>> Limits(input_bytes=1 << 20).input_bytes
        1048576
    """

    input_bytes: int = _limit(sys.maxsize, "size of an input, in bytes")
    flatbuffer_memory: int = _limit(
        32 << 20, "memory that the tables of any flatbuffer may use, in bytes"
    )
    flatbuffer_memory_per_byte: int = _limit(
        12, "memory that they may use in addition, for each byte of the file"
    )
    json_depth: int = _limit(64, "nesting of lists and objects in JSON")
    # The functions that write locations are recursive.
    location_depth: int = _limit(64, "nesting of locations that are written as MLIR", most=200)
    text_depth: int = _limit(100, "nesting of brackets in MLIR text", most=200)
    text_parts: int = _limit(
        10_000, "entries of one list in MLIR text, and operations in modules instead of functions"
    )
    manifest_bytes: int = _limit(64 << 20, "size of the manifest or header of weights, in bytes")
    converter_memory: int = _limit(
        4 << 30, "memory that the converter of any framework's model may use, in bytes"
    )
    converter_memory_per_byte: int = _limit(
        16, "memory that it may use in addition, for each byte of the model"
    )

    def __post_init__(self) -> None:
        findings = Findings()
        for row in fields(self):
            value = getattr(self, row.name)
            least, most = row.metadata["least"], row.metadata["most"]
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                where = f"limit {row.name.replace('_', '-')}"
                message = f"found {value!r}, expected a whole number from {least} to {most}"
                findings.add("option-conflict", where, message)
        findings.raise_if_any()


DEFAULT_LIMITS: Final = Limits()
#: Names as users write them -> what they bound.
LIMIT_NAMES: Final[dict[str, str]] = {
    row.name.replace("_", "-"): row.metadata["what"] for row in fields(Limits)
}


#: Limits as a caller may give them.
LimitsLike = Limits | Mapping[str, int] | None


def limits_of(given: LimitsLike) -> Limits:
    """Return the limits that a caller gave, by names with hyphens or underscores; others by default."""
    if given is None:
        return DEFAULT_LIMITS
    if isinstance(given, Limits):
        return given
    for name in given:
        refuse_unknown("limit", name.replace("_", "-"), LIMIT_NAMES)
    return Limits(**{name.replace("-", "_"): value for name, value in given.items()})


def narrow_types(given: str | Iterable[str]) -> tuple[Narrow, ...]:
    """Return element types to narrow, from a collection of them or one string with commas.

    Example:
        >>> narrow_types("i64, f64")
        ('i64', 'f64')
    """
    names = [part.strip() for part in given.split(",")] if isinstance(given, str) else list(given)
    return cast("tuple[Narrow, ...]", tuple(name for name in names if name != ""))


def shapes_of(given: Shapes | None) -> dict[str, tuple[int | str, ...]]:
    """Return shapes of arguments, with sizes as tuples.

    Example:
        >>> shapes_of({"x": [1, 2]})
        {'x': (1, 2)}
    """
    return {name: tuple(sizes) for name, sizes in (given or {}).items()}


def _refuse_unknown_rows(rows: Iterable[tuple[str, object, Collection[object]]]) -> None:
    """Raise TosaConvertError("option-conflict") with a finding for each value that is not a choice."""
    findings = Findings()
    for option, value, choices in rows:
        try:
            refuse_unknown(option, value, choices)
        except TosaConvertError as error:
            findings.extend(error.findings)
    findings.raise_if_any()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ReadOptions:
    """Options for reading a program; `tosa_convert.load` documents each of them.

    Raises:
        TosaConvertError: "option-conflict" for values that are not among an option's choices.
    """

    func: str | None = None
    names: Names = "retain"
    dialect: str = ""
    full_paths: bool = False
    narrow: tuple[Narrow, ...] = ()
    pass_captured: bool = False
    exact: bool = False
    input_shapes: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    custom: tuple[CustomLike, ...] = ()
    accept_changed_weights: bool = False
    copy: bool = False
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        _refuse_unknown_rows(
            (("names", self.names, NAMES), *(("narrow", name, NARROW) for name in self.narrow))
        )

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> ReadOptions:
        """Return the options among keywords of the public functions.

        Example:
            >>> ReadOptions.of({"narrow": "i64,f64", "verify": True}).narrow
            ('i64', 'f64')
        """
        return cls(**_values_of(cls, keywords))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class WriteOptions:
    """Options for writing a program; `tosa_convert.save` documents each of them.

    Raises:
        TosaConvertError: "option-conflict" for values that are not among an option's choices.
    """

    weights: Weights = "auto"
    names: Names = "retain"
    constants: Constants = "auto"
    bytecode_version: int = BYTECODE_VERSION
    dialect: str = ""
    function_op: FunctionOperation = "func.func"
    generic: bool = False
    locations: bool = True
    elide: int | None = None
    verify: bool = False
    validate: bool = True
    limits: Limits = DEFAULT_LIMITS

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> WriteOptions:
        """Return the options among keywords of the public functions; see `ReadOptions.of`."""
        return cls(**_values_of(cls, keywords))

    def __post_init__(self) -> None:
        _refuse_unknown_rows(
            (
                ("weights", self.weights, WEIGHTS),
                ("names", self.names, NAMES),
                ("constants", self.constants, CONSTANTS),
                ("function_op", self.function_op, FUNCTION_OPERATIONS),
                ("bytecode_version", self.bytecode_version, BYTECODE_VERSIONS),
            )
        )
        if self.dialect and self.function_op != FUNCTION_OPERATIONS[0]:
            message = (
                f"found {self.function_op}, expected {FUNCTION_OPERATIONS[0]} for an older MLIR"
            )
            raise fail("option-conflict", "function_op", message)
        if self.elide is None:
            return
        if not isinstance(self.elide, int) or isinstance(self.elide, bool) or self.elide < 0:
            message = f"found {self.elide!r}, expected a number of elements"
            raise fail("option-conflict", "elide", message)
        if self.verify:
            message = "verify does not apply: text without its constants cannot be read back"
            raise fail("option-conflict", "elide", message, "leave out verify or elide")


def given_options(options: ReadOptions | WriteOptions) -> set[str]:
    """Return the names of the options whose value is not the default."""
    default = type(options)()
    return {
        row.name
        for row in fields(options)
        if getattr(options, row.name) != getattr(default, row.name)
    }


#: Option -> how the value of a keyword becomes that of a field.
_CONVERTED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "narrow": narrow_types,
    "input_shapes": shapes_of,
    "custom": lambda given: tuple(given) if isinstance(given, (list, tuple)) else (given,),
    "limits": limits_of,
}


def _values_of(options: type, keywords: Mapping[str, Any]) -> dict[str, Any]:
    given = {row.name: keywords[row.name] for row in fields(options) if row.name in keywords}
    return {
        name: _CONVERTED[name](value) if name in _CONVERTED else value
        for name, value in given.items()
    }


#: Digits of the largest limit.
_DIGITS: Final = len(str(sys.maxsize))


def parse_limit(text: str) -> tuple[str, int]:
    """Parse `NAME=N` of the command line as a name and a number.

    Example:
        >>> parse_limit("json-depth=10")
        ('json-depth', 10)
    """
    name, equals, value = text.partition("=")
    if not equals or not value.isdecimal() or not value.isascii() or len(value) > _DIGITS:
        raise fail("option-conflict", f"--limit {text[:200]}", "expected NAME=N, a whole number")
    return name, int(value)
