"""Kinds of disagreement about changed modules: what they are, who is right, and why."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

#: How the judges can agree.
VERDICTS: Final = (
    "all refuse",
    "all accept, equal",
    "a rule of TOSA refuses",
    "valid, but no file can hold it",
    "one MLIR refuses, and we",
    "only MLIR refuses",
    "only we refuse",
    "other numbers",
)


class Explained(NamedTuple):
    """Kinds of disagreement that match a pattern: what they are, who is right, and why."""

    pattern: str
    what: str
    who: str
    why: str


EXPLAINED: Final = (
    Explained(
        r"MLIR refuses: .*'axis' failed to satisfy constraint: _-bit",
        "an axis of type i64",
        "both",
        "releases until October 2023 wrote it so",
    ),
    Explained(
        r"MLIR refuses: (redefinition of SSA value|use of undeclared SSA)",
        "a name in the region of a function in generic form, and around it",
        "both",
        "MLIR takes the names around an isolated region for visible while it parses the generic form",
    ),
    Explained(
        r"MLIR refuses: (expected (attribute of type: )?mlir::|expected mlir::StringAttr)",
        "bytecode: a location or a string that is another attribute",
        "MLIR",
        "locations and names of attributes without a field do not change what a program computes",
    ),
    Explained(
        r"MLIR refuses: (unknown: )?'\S+' op (can only contain|arguments may only|results may only"
        r"|visibility expected|expects (argument|result) attribute array)",
        "an attribute of a function or module that its dialect does not allow",
        "MLIR",
        "only names and the target are read",
    ),
    Explained(
        r"MLIR refuses: (unknown (attribute|type) code|attempting to parse|unexpected trailing bytes"
        r"|invalid (attribute|Attribute|type|Type|string) index|MLIR ends|Unable to parse|value index)",
        "bytecode: a damaged entry that the program does not use",
        "MLIR",
        "we decode an entry when an operation uses it, and MLIR decodes or checks all",
    ),
    Explained(
        r"we refuse: duplicate-name",
        "two values that carry one name",
        "we",
        "the names of a file must differ; `names='generate'` drops them",
    ),
    Explained(
        r"we refuse: malformed-mlir: the properties of",
        "bytecode: properties that are cut off, or of the wrong kind",
        "we",
        "MLIR takes a damaged optional property for one that is absent",
    ),
    Explained(
        r"we refuse: malformed-operator: 'tosa.variable' attribute initial_value",
        "the initial value of a variable of another type",
        "we",
        "MLIR's verifier does not compare it",
    ),
    Explained(
        r"we refuse: malformed-mlir: found (_ operations at the top|'xFF')"
        r"|we refuse: malformed-mlir: the section ends",
        "several operations at the top of bytecode; a column in hexadecimal",
        "MLIR",
        "no program writes them",
    ),
    Explained(
        r"MLIR refuses: invalid tensor dimension size",
        "bytecode: a size of -1",
        "both",
        "until 2022 a dynamic size was -1; other negative sizes are refused",
    ),
    Explained(
        r"MLIR refuses: ('tosa.variable_read' op|unknown: 'func.return' op expects parent|'builtin.mod"
        r"ule' op expects region|expected operation name|invalid properties|expected integer or index)",
        "an operation outside the function that is read, or an unknown attribute",
        "MLIR",
        "we read one function, and of an operation the attributes that it has in TOSA",
    ),
    Explained(
        r"differs: .* scales data",
        "the scale 0xFF in the type of a block-scaled constant",
        "we",
        "MLIR prints NaN so, and reads the same text as the bits of a double",
    ),
)


def explanation(kind: str) -> Explained | None:
    """Who is right in a kind of disagreement and why; None if it is not known."""
    return next((row for row in EXPLAINED if re.match(row.pattern, kind)), None)
