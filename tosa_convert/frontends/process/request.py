"""What a converter is asked to do, and what it returns beside the program."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.io.options import Narrow

#: The file of a request in the folder that parent and child share.
REQUEST_FILE: Final = "request.json"
#: Option of the ONNX frontend: an `.npz` file with inputs that become constants.
CONSTANTS: Final = "constants"
#: Option of the tensorflow frontend: a JSON list of the names that a Keras model has for its outputs.
OUTPUT_NAMES: Final = "output-names"
#: ... and of those for its inputs.
INPUT_NAMES: Final = "input-names"
#: Option of the torch frontend: "yes" if the file was made in this process, and its code may run.
TRUSTED: Final = "trusted"

#: Option of the torch frontend: a JSON object with the names of sizes that are not fixed, by symbol.
SIZE_NAMES: Final = "size-names"


# -- operators that do not lower and were cut out of a program, as values and as JSON --------------
# A converter makes the results of such an operator arguments of the program, after the model's
# inputs, and what it takes results of the program. A value's place is its position among the
# program's results, or -1 - n for the argument n.


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """What an operator takes: a value, or a number, text, list or None that the model fixes.

    place: that of the value; None for what is fixed.
    items: those of a list of values.
    literal: what is fixed.
    """

    place: int | None = None
    items: tuple[Operand, ...] | None = None
    literal: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOperator:
    """An operator that was cut out.

    operator: its name in the framework's words. where: its place in the source.
    operands: what it takes, in order.
    results: the positions of its results among the program's arguments.
    attributes: what else it is given, by name. reason, hint: as of `NotLowered`.
    """

    operator: str
    where: str = ""
    operands: tuple[Operand, ...] = ()
    results: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What was cut out of a program.

    inputs: how many of the arguments are the model's inputs; they come first.
    outputs: the place of each of the model's outputs.
    operators: those that were cut out, in the order of the model.
    """

    inputs: int
    outputs: tuple[int, ...]
    operators: tuple[CutOperator, ...]


# -- what a converter is asked to do, and what it returns -------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One model to lower.

    frontend: its name in the table.
    source: the absolute path of the model, or of the Python file that makes it.
    shown: the model as the user named it, for messages.
    users_folder: the folder in which the user works, for the code of the Python file.
    member: what the Python file calls the model, its factory or its function; else "".
    input_shapes: input -> its sizes, for those whose dynamic dimensions get a size.
    func: the key of a signature of the model; "" for its main function.
    narrow: element types to convert, for a child that reads the program itself.
    options: what only this frontend knows, by name.
    partial: cut out what does not lower.
    """

    frontend: str
    source: str
    shown: str = ""
    users_folder: str = ""
    member: str = ""
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    func: str = ""
    narrow: tuple[Narrow, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    partial: bool = False

    def to_json(self) -> str:
        """Return the request as JSON; `from_json` is the way back.

        Example:
            >>> request = Request(frontend="tflite", source="m.tflite", input_shapes={"x": (1, 2)})
            >>> Request.from_json(request.to_json()) == request
            True
        """
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Request:
        return restored(cls, json.loads(text))


_T = TypeVar("_T")
_hints: Final[Callable[[Any], dict[str, Any]]] = cache(get_type_hints)


def restored(kind: type[_T], row: Any) -> _T:
    """Return a dataclass from what JSON makes of its `dataclasses.asdict`."""
    if not isinstance(row, dict):
        raise TypeError(f"found {type(row).__name__}, expected the fields of {kind.__name__}")
    hints = _hints(kind)
    return kind(**{name: _value(hints[name], value) for name, value in row.items()})


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    origin, arguments = get_origin(hint), get_args(hint)
    has_rows = bool(arguments) and get_origin(arguments[-1]) is not None
    if origin is UnionType:
        return _value(next(one for one in arguments if one is not NoneType), value)
    if is_dataclass(hint):
        return restored(cast("type[Any]", hint), value)
    if origin is list or arguments[1:] == (...,):
        return origin(_value(arguments[0], one) for one in value)
    if origin is tuple:
        return tuple(value)
    if origin is Mapping:
        rows = dict(value)
        return {name: _value(arguments[1], rows[name]) for name in rows} if has_rows else rows
    return value


def numeric_shapes(given: Mapping[str, tuple[int | str, ...]]) -> dict[str, tuple[int, ...]]:
    """Return the shapes with a number for each symbol.

    Entries that only give a symbol its value are left out.

    Example:
        >>> numeric_shapes({"x": ("B", 3), "B": (8,)})
        {'x': (8, 3)}
    """
    values = {
        size: given[size][0]
        for sizes in given.values()
        for size in sizes
        if isinstance(size, str) and len(given.get(size, ())) == 1
    }
    findings = list(_open_sizes(given, values))
    if findings:
        raise TosaConvertError(findings)
    return {
        name: tuple(int(values[size] if isinstance(size, str) else size) for size in sizes)
        for name, sizes in given.items()
        if name not in values
    }


def _open_sizes(
    given: Mapping[str, tuple[int | str, ...]], values: Mapping[str, int | str]
) -> Iterator[Finding]:
    for name, sizes in given.items():
        for size in sizes:
            if isinstance(size, str) and size not in values:
                yield Finding(
                    "option-conflict",
                    f"--input-shape {name}",
                    f"the size {size!r} has no value, expected numbers: the framework gets them",
                    "convert without the option to keep the size dynamic"
                    if size == "?"
                    else f"set it: --input-shape {size}=8",
                )


def by_position(
    inputs: Sequence[tuple[Sequence[str], Sequence[int] | None]],
    given: Mapping[str, tuple[int, ...]],
) -> dict[int, tuple[int, ...]]:
    """Return the sizes that a request has for inputs, by the position of each.

    inputs: the names of each, the last of which is shown, and its sizes: below 0 if they are open; None
        if any are taken. `arg0`, `arg1`, ... are names, too.

    Example:
        >>> by_position([(["x"], (-1, 3)), (["y"], (-1, 3))], {"arg1": (2, 3)})
        {1: (2, 3)}
    """
    known = {f"arg{position}": position for position in range(len(inputs))}
    known |= {name: position for position, (names, _) in enumerate(inputs) for name in names}
    findings, found = [], dict[int, tuple[int, ...]]()
    for name, sizes in given.items():
        where = f"--input-shape {name}"
        if name in known and found.setdefault(known[name], tuple(sizes)) != tuple(sizes):
            message = f"the input has the sizes {list(found[known[name]])} by another of its names"
            findings.append(Finding("option-conflict", where, message))
        elif name not in known:
            shown = (f"{names[-1]} {list(own)}" if own else names[-1] for names, own in inputs)
            message = f"the model has no input of this name; it has {', '.join(shown)}"
            findings.append(Finding("unknown-argument", where, message))
        elif (own := inputs[known[name]][1]) is not None and (
            len(own) != len(sizes) or any(0 <= a != b for a, b in zip(own, sizes, strict=True))
        ):
            message = f"found the shape {list(sizes)}, the model has {list(own)} (-1 is dynamic)"
            findings.append(Finding("option-conflict", where, message))
    if findings:
        raise TosaConvertError(findings)
    return found


def options_for(inputs: Iterable[tuple[str, Sequence[Any]]]) -> str:
    """Return the options that fix the sizes of inputs that are open, with 1 for each; "" for none.

    Example:
        >>> options_for([("x", (-1, 3)), ("y", (2, 3)), ("z", ("T", 3))])
        '--input-shape x=1x3 --input-shape z=1x3'
    """
    words = []
    for name, sizes in inputs:
        held = [size if isinstance(size, int) and size >= 0 else 1 for size in sizes]
        if held != list(sizes):
            words += ["--input-shape", f"{name}={'x'.join(map(str, held))}"]
    return shlex.join(words)


# --------------------------------------------------------------------------------------------------
# what a converter returns beside the program: names, states, what did not lower, what was done.

#: Files in the folder that parent and child share.
PROGRAM_FILE: Final = "program.mlirbc"
INTERFACE_FILE: Final = "interface.json"
STATE_FILE: Final = "state.npz"
CONSTANTS_FILE: Final = "constants.npz"
INSTALLED_FILE: Final = "installed.json"
#: An empty file, which says that the process is a Python that could begin.
STARTED_FILE: Final = "started"
#: The first argument for a process that lowers many models.
SERVE: Final = "--serve"
#: A line for each stage of the converter: the time at which it began, and a few words.
STAGE_FILE: Final = "stages"


def say_stage(folder: Path, words: str) -> None:
    """Say what is done from now on, for the parent that waits."""
    with (folder / STAGE_FILE).open("a", encoding="utf-8") as file:
        file.write(f"{time.time()} {words}\n")


def stages(folder: Path) -> list[tuple[float, str]]:
    """Return the stages of a converter that have begun: when, in seconds since 1970, and what."""
    try:
        text = (folder / STAGE_FILE).read_text(encoding="utf-8")
    except OSError:
        return []
    # The last line may be half written, when the converter is killed.
    lines = text.split("\n")[:-1]
    return [(float(began), words) for began, _, words in (line.partition(" ") for line in lines)]


@dataclass(slots=True, kw_only=True)
class Value:
    """An input or an output in the framework's words.

    name: what the framework calls it. dtype: its element type there, such as "int64", "" if unknown.
    shape: its sizes; -1 where they are dynamic, None if unknown.
    scale, zero_point: an integer i means scale * (i - zero_point); None if it is not quantised.
    """

    name: str
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    scale: float | None = None
    zero_point: int = 0


def scale_text(scale: float, zero_point: int) -> str:
    """Return a scale with all digits that FP32 has.

    Example:
        >>> scale_text(0.024480115622282028, -128)
        'scale 0.0244801156 zero point -128'
    """
    return f"scale {scale:.9g} zero point {zero_point}"


@dataclass(slots=True, kw_only=True)
class State:
    """A value that a call changes and the next call sees.

    name: what the framework calls it.
    argument, result: its positions among all arguments and results of the lowered function; None if the
        function does not take it, or does not change it.
    array: its key in `state.npz`, with the value before the first call.
    """

    name: str
    argument: int | None
    result: int | None
    array: str


@dataclass(slots=True, kw_only=True)
class NotLowered:
    """Operators that have no lowering.

    operator: in the framework's words. where: the first of them, in the source.
    count: how many there are. reason: why. hint: what would help.
    index: the number of an operator of a TFLite model; None for others.
    """

    operator: str
    where: str = ""
    count: int = 1
    reason: str = ""
    hint: str = ""
    index: int | None = None


@dataclass(slots=True, kw_only=True)
class Part:
    """A program in a file of its own, of several that are one together.

    file: a `.tosa` file of the folder.
    inputs, outputs: values of the whole, in the order of the file's.
    """

    file: str
    inputs: list[str]
    outputs: list[str]


@dataclass(slots=True, kw_only=True)
class Whole:
    """A program in parts, in place of `program.mlirbc`.

    parts: in an order in which they can be run.
    values: its arguments and results, and what the parts take and give: their types.
    inputs, outputs: the arguments and results, in order, states among them.
    constants: value -> its key in `constants.npz`.
    """

    parts: list[Part]
    values: list[Value]
    inputs: list[str]
    outputs: list[str]
    constants: dict[str, str]


@dataclass(slots=True, kw_only=True)
class Interface:
    """The result of a converter, beside `program.mlirbc`.

    inputs, outputs: in the order of the lowered function, without states.
    states: become variables of the program.
    not_lowered: the operators that have no lowering. If there are any, the program is that of the other
        operators, or there is none.
    remarks: what was changed, for the user.
    versions: distribution -> version, of what took part.
    model: a file of the folder, which was converted in place of the source, such as the TFLite model of
        a SavedModel; else "".
    original: a file of the folder that describes the source to what runs it for `--check`; "" where that
        is the model itself.
    input_order, output_order: positions of the inputs and outputs in the order of the user's model;
        empty where it is that of the lowered function.
    function: the function of the program that is the model, if there are others; else "".
    operators: name of a tensor -> the number of the operator of a TFLite model that makes it.
    kinds: name of a tensor -> what that operator is called.
    absent: the distributions that the frontend needs and this Python does not have.
    findings: an expected failure, which the parent raises.
    cut: what was cut out of the program, if that was asked for and necessary. `inputs` and `outputs` are
        then all arguments and results of the program.
    whole: the program, if the converter wrote it as parts; there is no `program.mlirbc` then.
    """

    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    not_lowered: list[NotLowered] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    versions: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    original: str = ""
    input_order: list[int] = field(default_factory=list)
    output_order: list[int] = field(default_factory=list)
    function: str = ""
    operators: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    cut: Cut | None = None
    whole: Whole | None = None

    def to_json(self) -> str:
        """Return the interface as JSON; `from_json` is the way back.

        Example:
            >>> interface = Interface(inputs=[Value(name="x", dtype="int8", shape=(1, 2))])
            >>> Interface.from_json(interface.to_json()) == interface
            True
        """
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Interface:
        row = json.loads(text)
        if not row:
            raise ValueError("it is empty")
        return restored(cls, row)
