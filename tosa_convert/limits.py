"""What a file may ask for: constants that stand beside what they limit, by name, to be set.

`set_limit("input-bytes", 1 << 20)` here, `--limit input-bytes=1048576` on the command line. They hold
for the process.
"""

from __future__ import annotations

import importlib
import sys
from typing import Final, NamedTuple

from tosa_convert.errors import fail, refuse_unknown


class Limit(NamedTuple):
    """A constant of a module, what it limits, and the values that it may have."""

    module: str
    constant: str
    what: str
    least: int = 1
    most: int = sys.maxsize


#: Name -> constant.
LIMITS: Final = {
    "input-bytes": Limit("api", "MAX_INPUT_BYTES", "bytes of an input"),
    "flatbuffer-memory": Limit(
        "flatbuffer.check", "MEMORY_FREE", "bytes of memory that any flatbuffer may take"
    ),
    "flatbuffer-memory-per-byte": Limit(
        "flatbuffer.check", "MEMORY_PER_BYTE", "further ones for each byte of the file"
    ),
    "json-depth": Limit("jsontext.scan", "MAX_DEPTH", "lists and objects within one another"),
    # Read by functions that call themselves.
    "location-depth": Limit(
        "mlir.writing.locations", "MAX_DEPTH", "locations within one another", most=200
    ),
    "text-depth": Limit("bindings.untrusted.text", "MAX_DEPTH", "brackets within one another"),
    "manifest-bytes": Limit("weights.manifest", "MAX_BYTES", "bytes of a folder's manifest"),
    "isolated-seconds": Limit("isolation", "SECONDS", "seconds that a child may take"),
    "isolated-memory": Limit("isolation", "MEMORY_FREE", "bytes of memory that any child may take"),
}


def limit(name: str) -> int:
    """The value that a limit has."""
    row = LIMITS[name]
    return int(getattr(importlib.import_module(f"tosa_convert.{row.module}"), row.constant))


def set_limit(name: str, value: int) -> None:
    """Set a limit for all that this process does from now on.

    Raises TosaConvertError("option-conflict") for a name that is none, or a value that it cannot have.
    """
    refuse_unknown("limit", name, LIMITS)
    row = LIMITS[name]
    if not row.least <= value <= row.most:
        raise fail(
            "option-conflict", f"limit {name}", f"found {value}, expected {row.least} to {row.most}"
        )
    setattr(importlib.import_module(f"tosa_convert.{row.module}"), row.constant, value)
