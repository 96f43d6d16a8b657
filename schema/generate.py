"""Turn schema/tosa.fbs into tosa_convert/formats/wire/layout.py.

    python schema/generate.py           # rewrite layout.py
    python schema/generate.py --check   # exit 1 and print the fix if layout.py is stale

Understands the part of the schema language that tosa.fbs uses: enums, one union, tables of scalars,
strings, tables and vectors of those. Anything else is an error, never skipped.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

SCHEMA = Path(__file__).with_name("tosa.fbs")
#: Columns of a line.
WIDTH = 100
LAYOUT = SCHEMA.parent.parent / "tosa_convert" / "formats" / "wire" / "layout.py"

SCALARS = {
    "bool": "bool",
    "ubyte": "u8",
    "int32": "i32",
    "uint32": "u32",
    "uint64": "u64",
    "ulong": "u64",
}
DECLARATION = re.compile(
    r"""\s*(?:
      namespace\s+(?P<namespace>\w+)\s*;
    | file_identifier\s+"(?P<identifier>[^"]{4})"\s*;
    | file_extension\s+"(?P<extension>\w+)"\s*;
    | root_type\s+(?P<root>\w+)\s*;
    | enum\s+(?P<enum>\w+)\s*:\s*(?P<base>\w+)\s*\{(?P<members>[^}]*)\}
    | union\s+(?P<union>\w+)\s*\{(?P<options>[^}]*)\}
    | table\s+(?P<table>\w+)\s*\{(?P<fields>[^}]*)\}
    )""",
    re.VERBOSE,
)
FIELD = re.compile(
    r"(?P<name>\w+)\s*:\s*(?P<type>\w+|\[\w+\])\s*(?:=\s*(?P<default>[-\w]+))?"
    r"\s*(?:\((?P<flags>[^)]*)\))?$"
)


@dataclass
class Schema:
    """What tosa.fbs declares, in its order."""

    identifier: str = ""
    root: str = ""
    enums: dict[str, dict[str, int]] = field(default_factory=dict)
    union: tuple[str, list[str]] = ("", [])
    tables: dict[str, list[str]] = field(default_factory=dict)


def parse(text: str) -> Schema:
    """Read the schema's declarations; raises SyntaxError for any other declaration."""
    source = re.sub(r"//[^\n]*", "", text)
    schema = Schema()
    position = 0
    while source[position:].strip():
        match = DECLARATION.match(source, position)
        if match is None:
            rest = source[position:].lstrip()
            line = source.count("\n", 0, len(source) - len(rest)) + 1
            raise SyntaxError(f"{SCHEMA.name}:{line}: not understood: {rest[:60]!r}")
        position = match.end()
        if match["identifier"]:
            schema.identifier = match["identifier"]
        elif match["root"]:
            schema.root = match["root"]
        elif match["enum"]:
            if match["base"] not in ("uint32",):
                raise SyntaxError(f"enum {match['enum']}: base type {match['base']}")
            value = -1
            members: dict[str, int] = {}
            for member in filter(None, (part.strip() for part in match["members"].split(","))):
                name, _, explicit = (part.strip() for part in member.partition("="))
                value = int(explicit) if explicit else value + 1
                members[name] = value
            schema.enums[match["enum"]] = members
        elif match["union"]:
            options = [part.strip() for part in match["options"].split(",") if part.strip()]
            schema.union = (match["union"], options)
        elif match["table"]:
            declared = [part.strip() for part in match["fields"].split(";") if part.strip()]
            schema.tables[match["table"]] = declared
    return schema


def field_rows(schema: Schema, table: str) -> list[str]:
    """One `Field(...)` expression for each slot of a table; a union takes two slots."""
    rows: list[str] = []
    for text in schema.tables[table]:
        match = FIELD.match(text)
        if match is None:
            raise SyntaxError(f"table {table}: not understood: {text!r}")
        name, kind, default = match["name"], match["type"], match["default"]
        arguments = [repr(name), str(len(rows))]
        flags = [flag.strip() for flag in (match["flags"] or "").split(",") if flag.strip()]
        align = 0
        required = False
        for flag in flags:
            if flag == "required":
                required = True
            elif flag.startswith("force_align:"):
                align = int(flag.partition(":")[2])
            else:
                raise SyntaxError(f"table {table}: field {name}: attribute {flag!r}")
        element = kind.strip("[]")
        if kind == schema.union[0]:
            rows.append(f"Field({f'{name}_type'!r}, {len(rows)}, 'u8')")
            arguments[1] = str(len(rows))
            arguments.append("'union'")
        elif kind.startswith("["):
            if element in SCALARS:
                arguments.append(repr(f"[{SCALARS[element]}]"))
            elif element == "string":
                arguments.append("'[string]'")
            elif element in schema.tables:
                arguments += ["'[table]'", f"table={element!r}"]
            else:
                raise SyntaxError(f"table {table}: field {name}: type {kind}")
        elif element == "string":
            arguments.append("'string'")
        elif element in SCALARS:
            arguments.append(repr(SCALARS[element]))
        elif element in schema.enums:
            arguments += ["'u32'", f"enum={element!r}"]
        elif element in schema.tables:
            arguments += ["'table'", f"table={element!r}"]
        else:
            raise SyntaxError(f"table {table}: field {name}: type {kind}")
        if default is not None:
            value = {"true": 1, "false": 0}.get(default)
            arguments.append(f"default={int(default) if value is None else value}")
        if align:
            arguments.append(f"align={align}")
        if required:
            arguments.append("required=True")
        rows.append(f"Field({', '.join(arguments)})")
    return [row.replace("'", '"') for row in rows]


def joined(start: str, rows: list[str], end: str, *, one: str = "") -> list[str]:
    """Return the lines of a list: one, or as few as hold its rows. one: follows an only row."""
    line = f"{start}{', '.join(rows)}{one}{end}"
    if len(line) <= WIDTH:
        return [line]
    indent = " " * (len(start) - len(start.lstrip()))
    lines = [start, f"{indent}   "]
    for row in rows:
        if len(lines[-1]) + len(row) + 2 > WIDTH:
            lines.append(f"{indent}   ")
        lines[-1] += f" {row},"
    return [*lines, f"{indent}{end}"]


def render(schema: Schema) -> str:
    """Return the text of layout.py."""
    lines = [
        '"""The TOSA flatbuffer\'s tables and enums, slot by slot.',
        "",
        "Generated from schema/tosa.fbs by `python schema/generate.py`; do not edit.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final",
        "",
        "from tosa_convert.formats.wire.tables import Field, Table",
        "",
        f'IDENTIFIER: Final = b"{schema.identifier}"',
        f'ROOT: Final = "{schema.root}"',
        "",
        "#: Enum -> name -> value.",
        "ENUMS: Final[dict[str, dict[str, int]]] = {",
    ]
    for enum, members in schema.enums.items():
        rows = [f'"{name}": {value}' for name, value in members.items()]
        lines += joined(f'    "{enum}": {{', rows, "},")
    lines += [
        "}",
        "",
        "#: Table -> its slots.",
        "TABLES: Final[dict[str, Table]] = {",
    ]
    for table in schema.tables:
        rows = field_rows(schema, table)
        lines += joined(
            f'    "{table}": Table("{table}", (', rows, ")),", one="," * (len(rows) == 1)
        )
    lines += [
        "}",
        "",
        f"#: Members of union {schema.union[0]}: the position is the discriminator; 0 is NONE.",
    ]
    rows = [f'"{name}"' for name in ("NONE", *schema.union[1])]
    lines += joined("ATTRIBUTES: Final[tuple[str, ...]] = (", rows, ")")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write layout.py; with --check, report whether it is up to date."""
    text = render(parse(SCHEMA.read_text(encoding="utf-8")))
    if "--check" in arguments:
        if LAYOUT.read_text(encoding="utf-8") == text:
            return 0
        print(f"{LAYOUT.name} is stale. To update it: python schema/generate.py", file=sys.stderr)
        return 1
    LAYOUT.write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
