"""Every expected failure, by code.

A `TosaConvertError` says what is wrong with the input or with the request. Any other exception that
leaves this package is a defect of the package and is never wrapped in one. Each code has a row in
`CODES` and a section in docs/errors.md. Codes are stable; messages are not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal, cast

from tosa_convert.exit_codes import EXIT_BAD_INPUT, EXIT_UNSUPPORTED, EXIT_USAGE


class Category(IntEnum):
    """The kind of a failure; its value is the exit code of the command-line tool.

    USAGE: the request: another option, another path or an installation would help.
    BAD_INPUT: the input is damaged, or breaks a rule of TOSA or of its format.
    UNSUPPORTED: the input is valid, but it has no equivalent in the output.
    """

    USAGE = EXIT_USAGE
    BAD_INPUT = EXIT_BAD_INPUT
    UNSUPPORTED = EXIT_UNSUPPORTED


_USAGE, _BAD, _UNSUPPORTED = Category.USAGE, Category.BAD_INPUT, Category.UNSUPPORTED

#: The codes, for type checkers: they see a comparison with another text.
ErrorCode = Literal[
    "ambiguous-function", "unknown-function", "unknown-argument", "unknown-name",
    "unknown-format", "would-overwrite-input", "option-conflict", "missing-bindings",
    "missing-layout", "frontend-missing", "not-an-mlir-object", "verification-failed",
    "file-error", "foreign-folder", "unrecognised-input", "empty-input", "malformed-mlir",
    "malformed-flatbuffer", "malformed-tensor", "malformed-operator", "invalid-operator",
    "malformed-structure", "undefined-name", "duplicate-name", "missing-data", "data-length",
    "int4-minus-8", "malformed-json", "malformed-pte", "malformed-vgf", "malformed-weights",
    "mismatched-weights", "changed-weights", "unsafe-path", "unsupported-version",
    "version-too-low", "cannot-upgrade", "foreign-operator", "unsupported-operator",
    "unsupported-attribute", "unsupported-dtype", "unsupported-type", "unsupported-shape",
    "value-out-of-range", "captured-value", "no-function", "constant-form", "outside-profile",
    "outside-level", "unsupported-by-reader", "too-large", "not-lowered", "frontend-failed",
    "missing-refmodel", "missing-backend", "input-mismatch", "refmodel-refused",
    "refmodel-failed", "refmodel-timeout", "backend-failed", "backend-refused",
    "backend-unreachable"
]  # fmt: skip
#: Code -> its category, and its meaning in one line.
CODES: Final[dict[str, tuple[Category, str]]] = {
    # Requests
    "ambiguous-function": (_USAGE, "the module has several functions and none was chosen"),
    "unknown-function": (_USAGE, "there is no function or signature of the requested name"),
    "unknown-argument": (_USAGE, "the function has no argument of the given name"),
    "unknown-name": (_USAGE, "no error code, rule or operator has the given name"),
    "unknown-format": (_USAGE, "the extension of the output does not name a format"),
    "would-overwrite-input": (_USAGE, "the output is the same file as the input"),
    "option-conflict": (
        _USAGE,
        "an option is unknown, missing, repeated or invalid, or options contradict each other",
    ),
    "missing-bindings": (_USAGE, "MLIR is needed, and its Python bindings are not installed"),
    "missing-layout": (_USAGE, "the library that lays out pictures is not installed"),
    "frontend-missing": (_USAGE, "a package that a frontend needs is not installed"),
    "not-an-mlir-object": (_USAGE, "the given object does not belong to any known MLIR bindings"),
    "verification-failed": (_BAD, "the written file reads back differently from the program"),
    "file-error": (_USAGE, "a file cannot be opened, read or written"),
    "foreign-folder": (
        _USAGE,
        "the output directory contains files that tosa-convert did not write",
    ),
    # Damaged files, and files that break a rule
    "unrecognised-input": (_BAD, "the input is not in a format that tosa-convert reads"),
    "empty-input": (_BAD, "the input is empty"),
    "malformed-mlir": (
        _BAD,
        "MLIR text or bytecode is malformed, or MLIR's verifier rejects the module",
    ),
    "malformed-flatbuffer": (_BAD, "an offset, length or string in the flatbuffer is invalid"),
    "malformed-tensor": (_BAD, "the fields of a tensor contradict each other"),
    "malformed-operator": (_BAD, "an operator has the wrong operands, results or attributes"),
    "invalid-operator": (_BAD, "TOSA forbids an operator: its types, shapes or attributes"),
    "malformed-structure": (_BAD, "regions, blocks or graph inputs and outputs are inconsistent"),
    "undefined-name": (_BAD, "a name is used before it is defined, or is never defined"),
    "duplicate-name": (_BAD, "a name is defined twice"),
    "missing-data": (_BAD, "a constant has no data"),
    "data-length": (_BAD, "the length of the data does not match the shape and dtype"),
    "int4-minus-8": (_BAD, "an INT4 constant contains -8, which TOSA does not allow"),
    "malformed-json": (_BAD, "the JSON is malformed or does not follow the schema"),
    "malformed-pte": (_BAD, "a table or a segment of the ExecuTorch program is damaged"),
    "malformed-vgf": (
        _BAD,
        "a section, a module or a constant of the VGF or SPIR-V file is damaged",
    ),
    "malformed-weights": (_BAD, "a manifest or array file in a weights folder is malformed"),
    "mismatched-weights": (_BAD, "the arrays of a weights folder do not match the program"),
    "changed-weights": (_BAD, "the checksum of a weights file is not the one in the manifest"),
    "unsafe-path": (_BAD, "a file name leads out of its directory"),
    # Valid input that cannot be converted
    "unsupported-version": (_UNSUPPORTED, "the TOSA version of the file cannot be read"),
    "version-too-low": (_UNSUPPORTED, "the requested TOSA version cannot express the program"),
    "cannot-upgrade": (_UNSUPPORTED, "an operation of an older TOSA has no form in TOSA 1.0"),
    "foreign-operator": (_UNSUPPORTED, "an operation does not belong to the TOSA dialect"),
    "unsupported-operator": (_UNSUPPORTED, "the format does not have this TOSA operator"),
    "unsupported-attribute": (_UNSUPPORTED, "the format does not have this attribute"),
    "unsupported-dtype": (_UNSUPPORTED, "TOSA does not have this element type"),
    "unsupported-type": (_UNSUPPORTED, "the type is neither a tensor nor a shape"),
    "unsupported-shape": (_UNSUPPORTED, "the format cannot express this shape"),
    "value-out-of-range": (_UNSUPPORTED, "a value does not fit into its field"),
    "captured-value": (_UNSUPPORTED, "a nested region uses a value from outside"),
    "no-function": (_UNSUPPORTED, "the module does not have a function with a body"),
    "constant-form": (_UNSUPPORTED, "the data of a constant is not available"),
    "outside-profile": (
        _UNSUPPORTED,
        "an operator needs a profile or an extension that the target does not have",
    ),
    "outside-level": (_UNSUPPORTED, "an operator exceeds a limit of the requested level"),
    "unsupported-by-reader": (
        _UNSUPPORTED,
        "the program that is to read the file does not read this",
    ),
    "too-large": (_UNSUPPORTED, "the input or the result exceeds a size limit"),
    "not-lowered": (_UNSUPPORTED, "an operator of a framework has no lowering to TOSA"),
    "frontend-failed": (_UNSUPPORTED, "the converter of a framework did not convert the model"),
    # Running and comparing
    "missing-refmodel": (_USAGE, "the reference model is needed and not installed"),
    "missing-backend": (_USAGE, "a dependency of the backend is not installed"),
    "input-mismatch": (_USAGE, "the given arrays do not match the inputs of the model"),
    "refmodel-refused": (_BAD, "the reference model rejects the program or the data"),
    "refmodel-failed": (_UNSUPPORTED, "the reference model ended without a result or a reason"),
    "refmodel-timeout": (_UNSUPPORTED, "a run did not end within its time limit"),
    "backend-failed": (_UNSUPPORTED, "a backend did not run the model"),
    "backend-refused": (_UNSUPPORTED, "a backend does not support the model"),
    "backend-unreachable": (_UNSUPPORTED, "the device of a backend cannot be reached now"),
}


#: Most findings that one error has. A damaged file can have one for each of its bytes.
MAX_FINDINGS: Final = 1000
#: Most characters of each text of a finding. A damaged file can have a name or a shape of megabytes.
_CHARACTERS: Final = 2000
#: Characters of names that are compared to find a mistyped one.
_COMPARED: Final = 100
#: How many messages with one hint, and how many further locations of one message, are printed.
_SHOWN_MESSAGES, _SHOWN_PLACES = 8, 4


def printable(text: str) -> str:
    """Return a text from outside as one line: controls, and commands of CI runners, are escaped."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    if "##" in text and "[" in text:
        text = text.replace("#", "\\x23")
    if "::" in text and text.lstrip().startswith("::"):
        text = text.replace(":", "\\x3a", 1)
    return text


def printable_lines(text: str) -> str:
    """Return a text with its line ends, each line as `printable` returns it."""
    return "\n".join(map(printable, text.split("\n")))


def indented(text: str) -> str:
    """Return the printable lines of a text; those after the first cannot be taken for a finding."""
    return "\n    ".join(printable(line.strip()) for line in text.split("\n"))


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    code: a stable name such as "unsupported-dtype"; `CODES` lists all of them.
    where: a location such as `m.mlir:3:8` or `region "main" block "main" tensor "w"`; "" for the input
        as a whole.
    message: what was found, and what was expected instead.
    hint: what to do about it, or ""; by default what `remedies` has for it.
    excerpt: the line of the source text with a caret below it, as `source_excerpt` makes it, or "".
    rule: the name of the rule of TOSA that is broken, such as "add-broadcast", or "".

    A text of more than 2000 characters is shortened in the middle.

    Example:
        >>> finding = Finding("missing-data", 'tensor "w"', "the constant has no data")
        >>> print(finding)
        tensor "w": error: the constant has no data [missing-data]
    """

    code: str
    where: str
    message: str
    hint: str = ""
    excerpt: str = ""
    rule: str = ""

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"error code {self.code!r} has no row in CODES")
        if not self.hint:
            from tosa_convert.remedies import hint_for

            object.__setattr__(self, "hint", hint_for(self.code, self.rule, self.message))
        for name in ("where", "message", "hint", "excerpt"):
            text = getattr(self, name)
            if len(text) > _CHARACTERS:
                half = _CHARACTERS // 2
                object.__setattr__(self, name, f"{text[:half]} ... {text[-half:]}")

    def __str__(self) -> str:
        return "\n".join(grouped((self,)))

    def to_dict(self) -> dict[str, str]:
        """Return the fields, as JSON has them."""
        return {name: getattr(self, name) for name in Finding.__slots__}

    def headline(self) -> str:
        """Return the first line of the printed finding: location, message and code."""
        place = f"{printable(self.where)}: " if self.where else ""
        name = f"{self.code}: {self.rule}" if self.rule else self.code
        return f"{place}error: {indented(self.message)} [{name}]"


class TosaConvertError(Exception):
    """An expected failure, with one or more findings.

    findings: all findings, in the order of the input. `str()` groups those that differ only in
        their locations.

    Example:
        >>> try:
        ...     raise fail("empty-input", "m.tosa", "the input is empty")
        ... except TosaConvertError as error:
        ...     print(error.code, error.exit_code, error.findings[0].where)
        empty-input 3 m.tosa
    """

    def __init__(self, findings: Finding | Iterable[Finding]) -> None:
        self.findings: tuple[Finding, ...] = (
            (findings,) if isinstance(findings, Finding) else tuple(findings)
        )
        if not self.findings:
            raise ValueError("an error needs a finding")
        super().__init__("\n".join(grouped(self.findings)))

    def __reduce__(self) -> tuple[type[TosaConvertError], tuple[tuple[Finding, ...]]]:
        return type(self), (self.findings,)

    @property
    def code(self) -> ErrorCode:
        """Return the code of the first finding."""
        return cast("ErrorCode", self.findings[0].code)

    @property
    def exit_code(self) -> int:
        """Return the exit code of the first finding.

        2 usage, 3 bad input, 4 unsupported; see `Category`.
        """
        return int(CODES[self.code][0])


def grouped(findings: Iterable[Finding]) -> Iterator[str]:
    """Iterate over the lines that print findings. Each message and each hint is printed once.

    Findings of the same code and hint form a group: first their messages, then the hint. Findings of
    the same message, too, share a line and list their locations.

    Example:
        >>> rows = [Finding("unsupported-dtype", f"m.mlir:{line}:1", "TOSA has no f64", "use f32")
        ...         for line in range(1, 18)]
        >>> for line in grouped(rows):
        ...     print(line)
        m.mlir:1:1: error: TOSA has no f64 [unsupported-dtype]
            also at m.mlir:2:1, m.mlir:3:1, m.mlir:4:1, m.mlir:5:1 and 12 more
            use f32
    """
    groups: dict[tuple[str, str, str], dict[str, list[Finding]]] = {}
    for finding in findings:
        # Different messages without a hint have nothing in common that could be printed once.
        key = (finding.code, finding.hint, "" if finding.hint else finding.message)
        groups.setdefault(key, {}).setdefault(finding.message, []).append(finding)
    for by_message in groups.values():
        yield from _group_lines(list(by_message.values()))


def _group_lines(messages: Sequence[Sequence[Finding]]) -> Iterator[str]:
    """Iterate over the lines of one group; messages: the findings of each message."""
    for equal in messages[:_SHOWN_MESSAGES]:
        first, *others = equal
        yield first.headline()
        yield from (f"    {printable(line)}" for line in first.excerpt.splitlines())
        places = [other.where for other in others if other.where]
        if places:
            more = len(places) - _SHOWN_PLACES
            text = ", ".join(map(printable, places[:_SHOWN_PLACES]))
            yield f"    also at {text} and {more} more" if more > 0 else f"    also at {text}"
        elif others:
            yield f"    {len(equal)} times"
    first = messages[0][0]
    hidden = sum(map(len, messages[_SHOWN_MESSAGES:]))
    if hidden:
        yield f"    and {hidden} more [{first.code}]"
    if first.hint:
        yield f"    {indented(first.hint)}"


class Findings:
    """Collects findings, so that one error can report all of them.

    Example:
        >>> findings = Findings()
        >>> findings.add("missing-data", 'tensor "w"', "the constant has no data")
        >>> findings.raise_if_any()
        Traceback (most recent call last):
        tosa_convert.errors.TosaConvertError: tensor "w": error: the constant has no data [missing-data]
    """

    def __init__(self, limit: int = MAX_FINDINGS) -> None:
        self.limit = limit
        self.rows: list[Finding] = []

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, code: str, where: str, message: str, hint: str = "") -> None:
        """Add a finding. Raises TosaConvertError with all of them when there are `limit`."""
        self.rows.append(Finding(code, where, message, hint))
        if len(self.rows) >= self.limit:
            raise TosaConvertError(self.rows)

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add findings of another error. Raises TosaConvertError like `add`."""
        for finding in findings:
            self.rows.append(finding)
            if len(self.rows) >= self.limit:
                raise TosaConvertError(self.rows)

    def raise_if_any(self) -> None:
        """Raise TosaConvertError with all findings, or return if there are none."""
        if self.rows:
            raise TosaConvertError(self.rows)


def refuse_unknown(option: str, value: object, choices: Collection[object]) -> None:
    """Raise TosaConvertError("option-conflict") unless the value is one of an option's choices.

    Example:
        >>> refuse_unknown("--for", "velo", ["vela", "iree"])
        Traceback (most recent call last):
        tosa_convert.errors.TosaConvertError: --for: error: found 'velo', expected one of ...
            did you mean vela?
    """
    if value not in choices:
        expected = ", ".join(str(choice) or '""' for choice in choices)
        message = f"found {value!r}, expected one of {expected}"
        raise fail("option-conflict", option, message, suggest(value, choices))


def suggest(value: object, choices: Iterable[object], otherwise: str = "") -> str:
    """Return the hint that names what a mistyped value is meant to be; `otherwise` if nothing is close.

    Example:
        >>> suggest("imgae", ["image", "mask"]), suggest("x", ["image"], "see --help")
        ('did you mean image?', 'see --help')
    """
    near = near_match(value, choices)
    return f"did you mean {near}?" if near else otherwise


def near_match(value: object, choices: Iterable[object]) -> str:
    """Return the choice that a mistyped or shortened value is closest to; "" if none is close.

    Example:
        >>> near_match("PRO_INT", ["PRO-INT", "PRO-FP"]), near_match("--out", ["--to", "--output"])
        ('PRO-INT', '--output')
    """
    from difflib import get_close_matches

    by_fold = {str(choice).lower()[:_COMPARED]: str(choice) for choice in choices}
    wanted = str(value).lower()[:_COMPARED]
    found = get_close_matches(wanted, by_fold, 1)
    if len(wanted.lstrip("-")) > 1:
        found = sorted((one for one in by_fold if one.startswith(wanted)), key=len) or found
    return by_fold[found[0]] if found else ""


def lone_surrogate(error: UnicodeEncodeError) -> TosaConvertError:
    """Return the error for a name or location that UTF-8 cannot encode, for the caller to raise."""
    message = "the name contains a lone surrogate (U+D800 to U+DFFF) and cannot be encoded as UTF-8"
    hint = "rename the value or region"
    return fail("value-out-of-range", ascii(error.object[:_CHARACTERS]), message, hint)


def fail(
    code: str, where: str, message: str, hint: str = "", excerpt: str = ""
) -> TosaConvertError:
    """Return an error with one finding, for the caller to raise."""
    return TosaConvertError(Finding(code, where, message, hint, excerpt))
