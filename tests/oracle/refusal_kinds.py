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


#: Who refuses. What both MLIR refuse is said of "MLIR".
_REFUSES: Final = r"(MLIR|torch-mlir|tosa-opt) refuses: (unknown: )?(custom op '\S+' )?"
_WE: Final = r"we refuse: "

EXPLAINED: Final = (
    Explained(
        rf"{_REFUSES}.*'axis' failed to satisfy constraint: _-bit",
        "an axis of type i64",
        "both",
        "releases until October 2023 wrote it so",
    ),
    Explained(
        rf"{_REFUSES}(redefinition of SSA value|use of undeclared SSA)",
        "a name in the region of a function in generic form, and around it",
        "both",
        "MLIR takes the names around an isolated region for visible while it parses the generic form",
    ),
    Explained(
        rf"{_REFUSES}'tosa.variable' op symbol's parent must have the SymbolTable trait",
        "a variable that the function declares",
        "both",
        "releases until early 2025 wrote it so",
    ),
    Explained(
        rf"{_REFUSES}invalid tensor dimension size",
        "bytecode: a size of -1",
        "both",
        "until 2022 a dynamic size was -1; other negative sizes are refused",
    ),
    Explained(
        rf"{_REFUSES}'tosa.variable_(read|write)' op require same shapes",
        "a variable of unknown sizes, and a value of sizes that fit",
        "both",
        "MLIR compares the types, and we the sizes that are known",
    ),
    Explained(
        rf"{_REFUSES}'tosa.negate' op expected _ operands",
        "an operator with the operands that it had in an older release",
        "both",
        "it is upgraded, and a warning says so",
    ),
    Explained(
        rf"{_REFUSES}Dialect `arith' not found",
        "a constant of the dialect arith",
        "tosa-convert",
        "torch-mlir reads it; `tosa-opt` does not know the dialect",
    ),
    Explained(
        r"(tosa-opt refuses|MLIR refuses|we and tosa-opt refuse|we and torch-mlir refuse): MLIR ends",
        "bytecode: MLIR ends with a failed assertion, or does not end",
        "tosa-convert",
        "such as a dictionary that has a name twice or contains itself: a defect of MLIR",
    ),
    Explained(
        rf"{_REFUSES}(expected (attribute of type: )?mlir::|unknown (attribute|type) code|attempting to"
        r" parse|unexpected trailing bytes|invalid (attribute|Attribute|type|Type|string) index"
        r"|Unable to parse|expected integer or index)",
        "bytecode: a damaged part of an attribute that no field of the program has",
        "MLIR",
        "attributes of other kinds and dialects are not decoded; the program has none of them",
    ),
    Explained(
        rf"{_REFUSES}(invalid properties|expected attribute value)",
        "an attribute that the operator does not have",
        "MLIR",
        "of an operator, the attributes that TOSA has are read",
    ),
    Explained(
        rf"{_WE}duplicate-name",
        "two values that carry one name",
        "tosa-convert",
        'the names of a file must differ; `names="generate"` drops them',
    ),
    Explained(
        rf"{_WE}malformed-mlir: the properties of|{_WE}malformed-structure: 'func.func' has \w+_attrs",
        "bytecode: an optional property that is cut off, or of the wrong kind",
        "tosa-convert",
        "MLIR takes it for one that is absent",
    ),
    Explained(
        rf"{_WE}malformed-mlir: the regions of an operation end",
        "bytecode: bytes after the last operation of a region",
        "tosa-convert",
        "MLIR does not look at them",
    ),
    Explained(
        rf"{_REFUSES}'builtin.module' op visibility expected",
        "bytecode: a module with an unknown visibility",
        "MLIR",
        "a module's visibility has no meaning in TOSA",
    ),
    Explained(
        rf"{_REFUSES}Broken properties section: didn't exhaust",
        "bytecode: bytes after the last of the properties",
        "MLIR",
        "they belong to no operation",
    ),
    Explained(
        rf"{_REFUSES}.*unexpected character",
        "bytecode: a control character in the text of an attribute or a type",
        "MLIR",
        "it is taken for a space, and the numbers are the same",
    ),
    Explained(
        rf"{_WE}malformed-operator: 'tosa.variable' attribute initial_value",
        "the initial value of a variable of another type",
        "tosa-convert",
        "MLIR's verifier does not compare it",
    ),
    Explained(
        rf"{_WE}malformed-mlir: found (_ operations at the top|'xFF')"
        rf"|{_WE}malformed-mlir: the section ends",
        "several operations at the top of bytecode; a column in hexadecimal",
        "MLIR",
        "no program writes them",
    ),
    Explained(
        r"\S+ differs: .* scales data",
        "other numbers: the scale `0xFF` in the type of a block-scaled constant",
        "tosa-convert",
        "MLIR prints NaN so, and reads the same text as the bits of a double",
    ),
)


def explanation(kind: str) -> Explained | None:
    """Who is right in a kind of disagreement and why; None if it is not known."""
    return next((row for row in EXPLAINED if re.match(row.pattern, kind)), None)
