"""What a caller may choose about reading and writing, as values that are handed down.

`api` and the command line make these values; the adapters take them as arguments. Nothing here is
changed after it was made, and nothing is kept in a module.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, get_args

from tosa_convert.errors import fail, refuse_unknown

Names = Literal["retain", "generate"]
Weights = Literal["auto", "embedded", "offset", "npy"]
Constants = Literal["auto", "dense", "resource"]
#: "1.0" or "1.1" as asked for, or "" for the version that the input has or needs.
TosaVersion = Literal["", "1.0", "1.1"]
Narrow = Literal["i64", "f64"]

NAMES: Final[tuple[Names, ...]] = get_args(Names)
WEIGHTS: Final[tuple[Weights, ...]] = get_args(Weights)
CONSTANTS: Final[tuple[Constants, ...]] = get_args(Constants)
NARROW: Final[tuple[Narrow, ...]] = get_args(Narrow)


def _limit(default: int, what: str, *, least: int = 1, most: int = sys.maxsize) -> Any:
    return field(default=default, metadata={"what": what, "least": least, "most": most})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on the resources that one input may use; the command line's `--limit NAME=N`.

    On the command line, and in error messages, a name has hyphens: `input-bytes`.
    """

    input_bytes: int = _limit(sys.maxsize, "size of an input, in bytes")
    flatbuffer_memory: int = _limit(
        32 << 20, "memory that the tables of any flatbuffer may use, in bytes"
    )
    flatbuffer_memory_per_byte: int = _limit(
        12, "memory that they may use in addition, for each byte of the file"
    )
    json_depth: int = _limit(64, "nesting of lists and objects in JSON")
    location_depth: int = _limit(64, "nesting of locations", most=200)
    text_depth: int = _limit(1024, "nesting of brackets and signs in MLIR text")
    manifest_bytes: int = _limit(64 << 20, "size of the manifest of a weights folder, in bytes")
    isolated_seconds: int = _limit(4, "processor time of an isolated parser, in seconds")
    isolated_memory: int = _limit(4 << 30, "address space of an isolated parser, in bytes")

    def __post_init__(self) -> None:
        for row in fields(self):
            value, least, most = (
                getattr(self, row.name),
                row.metadata["least"],
                row.metadata["most"],
            )
            if not least <= value <= most:
                name = row.name.replace("_", "-")
                raise fail(
                    "option-conflict", f"limit {name}", f"found {value}, expected {least} to {most}"
                )


DEFAULT_LIMITS: Final = Limits()
#: Names as users write them.
LIMIT_NAMES: Final = tuple(row.name.replace("_", "-") for row in fields(Limits))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a program is read; `tosa_convert.load` says what each option means."""

    func: str | None = None
    names: Names = "retain"
    bindings: str = ""
    full_paths: bool = False
    narrow: tuple[Narrow, ...] = ()
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    accept_changed_weights: bool = False
    isolate: bool = False
    copy: bool = False
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        refuse_unknown("names", self.names, NAMES)
        for kind in self.narrow:
            refuse_unknown("narrow", kind, NARROW)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How a program is written; `tosa_convert.save` says what each option means."""

    weights: Weights = "auto"
    names: Names = "retain"
    bindings: str = ""
    verify: bool = False

    def __post_init__(self) -> None:
        refuse_unknown("weights", self.weights, WEIGHTS)
        refuse_unknown("names", self.names, NAMES)
