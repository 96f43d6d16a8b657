"""The values of absent fields."""

from __future__ import annotations

from typing import Any, Final

from tosa_convert.formats.wire.layout import TABLES
from tosa_convert.formats.wire.tables import Field


def default_of(field: Field) -> Any:
    """Return the value of an absent field.

    It is the schema's default, something empty, or None for a table.
    """
    match field.kind:
        case "bool":
            return bool(field.default)
        case "string":
            return ""
        case "[u8]":
            return b""
        case "[i32]" | "[string]" | "[table]":
            return ()
        case "table" | "union":
            return None
        case _:
            return field.default


#: Table -> field -> its value where the file leaves it out.
DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    name: {field.name: default_of(field) for field in table.fields}
    for name, table in TABLES.items()
}
