"""Options that several verbs have, and lists of names as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from tosa_convert.cli.command import Option, note, option
from tosa_convert.consumers.readers import every_reader, reader_named, releases
from tosa_convert.errors import refuse_unknown
from tosa_convert.io.formats import FORMATS
from tosa_convert.io.options import LIMIT_NAMES, NARROW, limits_of, parse_limit

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: Names that a value may have. They are made when they are needed: some are expensive.
Choices = Callable[[], Iterable[str]]


def complete_from(choices: Choices) -> Callable[..., list[CompletionItem]]:
    """Return what completes the last name of a list that is separated by commas."""

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        before, comma, last = incomplete.rpartition(",")
        return [
            CompletionItem(f"{before}{comma}{name}")
            for name in choices()
            if name.lower().startswith(last.lower())
        ]

    return complete


def names_option(
    *declarations: str, choices: Choices, absent: str | None = None, **attributes: Any
) -> Callable[[Any], Any]:
    """Return the decorator of an option whose values are lists of names; several lists add up.

    The verb gets one list with the names as `choices` writes them, or `absent`.
    """

    def joined(ctx: click.Context, param: Option, texts: tuple[str, ...]) -> str | None:
        if not texts:
            return absent
        words = [word.strip() for text in texts for word in text.split(",") if word.strip()]
        by_fold = {name.lower(): name for name in choices()}
        for word in words:
            if word.lower() not in by_fold:
                refuse_unknown(param.flag, word, tuple(by_fold.values()))
        return ",".join(dict.fromkeys(by_fold[word.lower()] for word in words))

    return option(
        *declarations,
        multiple=True,
        callback=joined,
        shell_complete=complete_from(choices),
        **attributes,
    )


def profiles() -> Iterable[str]:
    """Return the names of TOSA's profiles and extensions."""
    from tosa_convert.rules.profiles import CAPABILITIES

    return CAPABILITIES


def _reader_releases() -> list[str]:
    """Return what --for takes: programs, and each with a release."""
    return [
        text
        for name in every_reader()
        for text in (name, *(f"{name}=={release}" for release in releases(reader_named(name))))
    ]


def reader_option(
    *declarations: str, says_release: bool = True, **attributes: Any
) -> Callable[[Any], Any]:
    """Return the decorator of --for, which refuses unknown readers before any work.

    says_release: the release that counts is printed if none is given.
    """

    def checked(ctx: click.Context, param: Option, value: Any) -> Any:
        for text in value if param.multiple else filter(None, [value]):
            row = reader_named(text, param.flag)
            if says_release and "==" not in text:
                how = f" with {row.options}" if row.options and ":" not in text else ""
                note(f"--for {text}: {row.release}{how} counts, the newest known release")
        return value

    return option(
        "--for",
        *declarations,
        metavar="READER[:VARIANT][==RELEASE]",
        callback=checked,
        shell_complete=complete_from(_reader_releases),
        **attributes,
    )


#: For verbs that read modules.
func_option: Final = option(
    "--func", metavar="NAME", help="The function of an MLIR module, if it has several."
)

#: For verbs that read modules whose element types may be wider than TOSA's.
narrow_option: Final = names_option(
    "--narrow",
    metavar="TYPES",
    choices=lambda: NARROW,
    absent="",
    help="Element types to convert, separated by commas: i64 to i32, f64 to f32, quant (quantised "
    "types) to the integers that they are stored as. Each tensor that is narrowed is reported.",
)

#: For verbs that write programs.
to_option: Final = option(
    "--to",
    type=click.Choice(list(FORMATS)),
    help="Format of the output; by default what its extension says, and for standard output that of "
    "the input.",
)

#: For verbs that write programs.
no_validate_option: Final = option(
    "--no-validate",
    is_flag=True,
    help="Also write a program that TOSA forbids. By default .tosa and MLIR are only written if "
    "`tosa-flatbuffer validate` has no finding.",
)

#: For verbs that write files for another program.
consumer_option: Final = reader_option(
    "consumer",
    help="The program that will open the output, such as vela:ethos-u85 or iree==3.2: "
    + ", ".join(every_reader())
    + ". The output gets a form that it opens. What it does not read is refused.",
)

#: For verbs that take several files.
jobs_option: Final = option(
    "-j",
    "--jobs",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Number of processes that work on several files side by side; by default one for each core if "
    "there are many small files, else one.",
)


def _limits(ctx: click.Context, param: Option, texts: tuple[str, ...]) -> Any:
    """Return the limits that the texts set."""
    given = dict(map(parse_limit, texts))
    for name in given:
        refuse_unknown(param.flag, name, LIMIT_NAMES)
    return limits_of(given)


#: For verbs that read files that may be damaged.
limit_option: Final = option(
    "--limit",
    "limits",
    metavar="NAME=N",
    multiple=True,
    distinct=lambda text: text.partition("=")[0],
    callback=_limits,
    shell_complete=complete_from(lambda: [f"{name}=" for name in LIMIT_NAMES]),
    help="Set a resource limit: " + ", ".join(LIMIT_NAMES) + ". May be repeated.",
)
