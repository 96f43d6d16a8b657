"""What repairs a finding without a hint of its own: the first row that fits, each tested."""

from __future__ import annotations

import re
import shlex
from typing import Final, NamedTuple


class Remedy(NamedTuple):
    """What repairs findings of one kind.

    code: of the finding. rule, message: regular expressions that its rule and its message match.
    hint: what to do; groups of the message are inserted. rewrites: those that do it.
    """

    code: str
    rule: str
    message: str
    hint: str
    rewrites: tuple[str, ...] = ()


#: The program's file in a command, where it is not known.
_FILE: Final = "FILE"
_REWRITE: Final = f"tosa-flatbuffer rewrite {_FILE} -o repaired.mlir"
#: A command with a file that may be named; other hints have a FILE that is another one.
_COMMAND: Final = re.compile(rf"(tosa-flatbuffer(?: rewrite|-convert)) {_FILE}\b")
_NUMBERS: Final = "abs|add|intdiv|maximum|minimum|mul|reduce-sum|sub|equal|greater|greater-equal"
_BOOLEANS: Final = (
    "abs|add|argmax|bitwise-(?:and|not|or|xor)|equal|greater|greater-equal|maximum|minimum|mul|"
    "reduce-(?:max|min|product)|sub"
)
_EQUAL_TYPES: Final = r"is ({}) with (?:input1 \1 and )?(?:input2|output) \1\b"
_HALVES: Final = "(?:BF16|FP16|BOOL) with input (?:BF16|FP16|BOOL)"

REMEDIES: Final[tuple[Remedy, ...]] = (
    Remedy(
        "invalid-operator",
        f"(?:{_NUMBERS})-(?:input1?|output)-type",
        _EQUAL_TYPES.format("INT8|INT16"),
        f"to compute it in INT32: {_REWRITE}",
        ("narrow-integers",),
    ),
    Remedy(
        "invalid-operator",
        f"(?:{_BOOLEANS})-input1?-type",
        r"is BOOL with (?:input2 BOOL|output (?:BOOL|INT32))\b",
        f"to compute it by logical operators: {_REWRITE}",
        ("boolean-arithmetic",),
    ),
    Remedy(
        "invalid-operator",
        "clamp-input-type",
        "is (?:BOOL|INT32|INT64) with",
        f"to compute it by MAXIMUM and MINIMUM: {_REWRITE}",
        ("integer-clamps",),
    ),
    Remedy(
        "invalid-operator",
        "cast-output-type",
        rf"is (?:(\w+) with input \1;|(?:{_HALVES});)",
        f"to cast by way of another type, or not at all: {_REWRITE}",
        ("casts",),
    ),
    Remedy(
        "invalid-operator",
        "",
        r"^[^;]*\bINT64\b[^;]*;.*\bINT32\b",
        "to compute in 32 bits: --narrow i64, or narrow=['i64']",
    ),
    Remedy(
        "invalid-operator",
        "resize-scale-(?:numerator|denominator)",
        "",
        "a resize of known sizes is linear: a MATMUL with a constant matrix for each axis computes it",
    ),
    Remedy(
        "outside-level",
        ".*-level-.*-rank",
        "",
        f"to merge dimensions, except those of inputs and results: {_REWRITE}",
        ("high-ranks",),
    ),
    Remedy(
        "version-too-low",
        "",
        r"^(?:DIM|\w+_SHAPE) needs ",
        f"to compute shapes that are known: {_REWRITE}",
        ("fold-shapes",),
    ),
    Remedy(
        "version-too-low",
        "",
        r"\bINT64\b",
        "pass --tosa-version 1.1, or compute in 32 bits: --narrow i64",
    ),
    Remedy(
        "version-too-low",
        "",
        r"^unknown sizes",
        "give the inputs their sizes: --input-shape NAME=2x3, or pass --tosa-version 1.1",
    ),
    Remedy(
        "version-too-low", "", r"needs TOSA 1\.1", "pass --tosa-version 1.1, or omit the version"
    ),
    Remedy(
        "unsupported-shape",
        "",
        r"\bonly static shapes can be run|its shape is not static",
        "give the inputs static shapes: --input-shape NAME=SIZES, here or when converting",
    ),
    Remedy(
        "unsupported-dtype",
        "",
        r"\bf64\b",
        "TOSA has no FP64; to compute in f32 instead: --narrow f64, or narrow=['f64']",
    ),
    Remedy(
        "unsupported-dtype",
        "",
        "!quant",
        "lower quantised types first, TOSA carries scales in RESCALE operators; or take the integers "
        "that they are stored as, without scales: --narrow quant, or narrow=['quant']",
    ),
    Remedy(
        "captured-value",
        "",
        "",
        "pass it in as an operand of the control-flow operator, as --pass-captured (pass_captured=True) "
        "does; a TOSA region sees only its inputs",
    ),
    Remedy(
        "ambiguous-function",
        "",
        r"function @(\S+) is one of",
        r"choose one: --func \1, or func='\1'",
    ),
    Remedy(
        "duplicate-name",
        "",
        r"the symbol @\S+ is defined twice",
        "rename one of them; parts of a file that lines of // ----- separate: --split-input-file",
    ),
    Remedy(
        "refmodel-refused",
        "",
        "TOSA does not define the result: .*the operands are constants",
        "other inputs do not help: change the constants, or what computes them, in the model",
    ),
    Remedy(
        "refmodel-refused",
        "",
        r"\ba negative base\b|\bOpPow\b",
        f"to compute a power by a constant without POW: {_REWRITE}",
        ("pow-by-constant",),
    ),
    Remedy(
        "refmodel-refused",
        "",
        "TOSA does not define the result",
        "use other inputs; --range NAME=LOW:HIGH limits random ones",
    ),
)


def hint_for(code: str, rule: str, message: str) -> str:
    """Return what repairs a finding, or ""."""
    for row in REMEDIES:
        if row.code == code and (not row.rule or re.fullmatch(row.rule, rule)):
            found = re.search(row.message, message)
            if found is not None:
                return found.expand(row.hint) if found.re.groups else row.hint
    return ""


def with_file(hint: str, path: str) -> str:
    """Return a hint whose command names the file that is concerned.

    Example:
        >>> with_file("to repair it: tosa-flatbuffer rewrite FILE -o repaired.mlir", "my net.mlir")
        "to repair it: tosa-flatbuffer rewrite 'my net.mlir' -o repaired.mlir"
    """
    return _COMMAND.sub(lambda found: f"{found[1]} {shlex.quote(path)}", hint)
