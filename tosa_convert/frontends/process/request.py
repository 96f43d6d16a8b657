"""What a converter is asked to do, as a value and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

from tosa_convert.errors import Finding, TosaConvertError
from tosa_convert.io.options import Narrow
from tosa_convert.records import dataclass, field

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
    cut: operators of a TFLite model that do not lower, by their numbers, with their names.
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
    cut: tuple[tuple[int, str], ...] = ()

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
        """Return the request of a JSON text that `to_json` made."""
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
    """Return what JSON made of a value of a type."""
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
