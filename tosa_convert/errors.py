"""Every expected failure, by name.

A `TosaConvertError` says what is wrong with the input or the request. Anything else that escapes
this package is a bug of ours and is never wrapped in one. Each code has a row in `CODES` and a
paragraph in docs/errors.md; codes are stable, messages are not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Blame(IntEnum):
    """Who can mend a failure; the value is the exit code of the command-line tool."""

    USAGE = 2
    BAD_INPUT = 3
    UNSUPPORTED = 4


USAGE, BAD, UNSUPPORTED = Blame.USAGE, Blame.BAD_INPUT, Blame.UNSUPPORTED

#: Code -> who can mend it, and what it means in a line.
CODES: Final[dict[str, tuple[Blame, str]]] = {
    # Requests
    "ambiguous-function": (USAGE, "the module has several functions and none was chosen"),
    "unknown-function": (USAGE, "the module has no function of the name asked for"),
    "unknown-argument": (USAGE, "the function has no argument of the name given"),
    "unknown-format": (USAGE, "the output's extension names no format"),
    "would-overwrite-input": (USAGE, "the output is the input file"),
    "option-conflict": (USAGE, "options that exclude one another"),
    "missing-bindings": (USAGE, "MLIR is needed and no Python bindings are installed"),
    "not-an-mlir-object": (USAGE, "the object given belongs to no MLIR bindings we know"),
    "verification-failed": (BAD, "what was written does not read back as what was meant"),
    "file-error": (USAGE, "a file cannot be opened, read or written"),
    "foreign-folder": (USAGE, "the output folder holds files that are not ours"),
    # Files that are not what they should be
    "unrecognised-input": (BAD, "the input is no format we know"),
    "empty-input": (BAD, "the input has no bytes"),
    "malformed-mlir": (BAD, "MLIR's own parser or verifier refuses the module"),
    "malformed-flatbuffer": (BAD, "an offset, length or string of the flatbuffer is wrong"),
    "malformed-tensor": (BAD, "a tensor's fields contradict one another"),
    "malformed-operator": (BAD, "an operator has the wrong operands, results or attributes"),
    "malformed-structure": (BAD, "regions, blocks or graph inputs and outputs are inconsistent"),
    "undefined-name": (BAD, "a name is used that nothing defines at that point"),
    "duplicate-name": (BAD, "a name is defined twice"),
    "missing-data": (BAD, "a constant has no data"),
    "data-length": (BAD, "data is shorter than the shape and dtype need"),
    "int4-minus-8": (BAD, "an INT4 constant holds -8, which TOSA excludes"),
    "bad-location": (BAD, "an operator's location cannot be understood"),
    "malformed-json": (BAD, "JSON that is malformed or does not follow the schema"),
    "malformed-weights": (BAD, "a manifest or array file in a folder of weights is malformed"),
    "mismatched-weights": (BAD, "a folder of weights does not fit the program"),
    "changed-weights": (BAD, "a weight is no longer what the manifest says"),
    "unsafe-path": (BAD, "a file name that leads out of its folder"),
    # Good input that cannot be carried
    "unsupported-version": (UNSUPPORTED, "the file's TOSA version is not one we read"),
    "version-too-low": (UNSUPPORTED, "the TOSA version asked for cannot express the graph"),
    "foreign-operator": (UNSUPPORTED, "an operator of another dialect"),
    "unsupported-operator": (UNSUPPORTED, "a TOSA operator that the format does not have"),
    "unsupported-attribute": (UNSUPPORTED, "an attribute that the format does not have"),
    "unsupported-dtype": (UNSUPPORTED, "an element type that TOSA does not have"),
    "unsupported-type": (UNSUPPORTED, "a type that is not a tensor or a shape"),
    "unsupported-shape": (UNSUPPORTED, "a shape that the format cannot express there"),
    "value-out-of-range": (UNSUPPORTED, "a value that does not fit its field"),
    "captured-value": (UNSUPPORTED, "a nested region uses a value from outside"),
    "no-function": (UNSUPPORTED, "the module has no function with a body"),
    "constant-form": (UNSUPPORTED, "a constant whose data cannot be had"),
    "too-large": (UNSUPPORTED, "the result would not fit the format"),
    # Running and comparing
    "missing-refmodel": (USAGE, "the reference model is needed and not installed"),
    "missing-backend": (USAGE, "what a backend needs is not installed"),
    "input-mismatch": (USAGE, "arrays given for a run are not those the model takes"),
    "refmodel-refused": (BAD, "the reference model refuses the graph or the data"),
    "refmodel-failed": (UNSUPPORTED, "the reference model ended without a result or a reason"),
    "refmodel-timeout": (UNSUPPORTED, "a run did not end within its time limit"),
    "backend-failed": (UNSUPPORTED, "a backend did not run the model"),
}


#: Findings of one kind that are told. A damaged file may have one in each of its bytes.
MAX_FINDINGS: Final = 1000
#: Characters of each text of a finding. A damaged file may have a name or shape of megabytes.
_CHARACTERS: Final = 2000


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: where, what was found and expected, and what to do.

    excerpt: the line of the source text with a caret below it, as `source_excerpt` makes it.

    Texts of more than 2000 characters lose their middle.
    """

    code: str
    where: str
    message: str
    hint: str = ""
    excerpt: str = ""

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"error code {self.code!r} has no row in CODES")
        for name in ("where", "message", "hint", "excerpt"):
            text = getattr(self, name)
            if len(text) > _CHARACTERS:
                half = _CHARACTERS // 2
                object.__setattr__(self, name, f"{text[:half]} ... {text[-half:]}")

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        excerpt = "".join(f"\n    {line}" for line in self.excerpt.splitlines())
        hint = f"\n    {self.hint}" if self.hint else ""
        return f"{place}error: {self.message} [{self.code}]{excerpt}{hint}"


class TosaConvertError(Exception):
    """An expected failure: one or more findings, all that could be told independently.

    `code` is the first finding's stable code, `exit_code` that of the command-line tool.
    """

    def __init__(self, findings: Finding | Iterable[Finding]) -> None:
        self.findings = (findings,) if isinstance(findings, Finding) else tuple(findings)
        if not self.findings:
            raise ValueError("an error needs a finding")
        super().__init__("\n".join(map(str, self.findings)))

    def __reduce__(self) -> tuple[type[TosaConvertError], tuple[tuple[Finding, ...]]]:
        return type(self), (self.findings,)

    @property
    def code(self) -> str:
        """The first finding's code."""
        return self.findings[0].code

    @property
    def exit_code(self) -> int:
        """2 for a request, 3 for bad input, 4 for what cannot be carried; the first finding's."""
        return int(CODES[self.code][0])


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


def refuse_unknown(option: str, value: object, choices: Collection[str]) -> None:
    """Raise TosaConvertError("option-conflict") for a value that is none of an option's choices."""
    if value not in choices:
        expected = ", ".join(choice or '""' for choice in choices)
        raise fail("option-conflict", option, f"found {value!r}, expected one of {expected}")


def lone_surrogate(error: UnicodeEncodeError) -> TosaConvertError:
    """The error for a name or location that is no Unicode text, to be raised by whoever writes it."""
    text = ascii(error.object[:_CHARACTERS])
    return fail(
        "value-out-of-range",
        text,
        "this name or location holds half a character, which UTF-8 does not have",
        "rename what is called that",
    )


def fail(
    code: str, where: str, message: str, hint: str = "", excerpt: str = ""
) -> TosaConvertError:
    """The error with this one finding, to be raised by the caller."""
    return TosaConvertError(Finding(code, where, message, hint, excerpt))
