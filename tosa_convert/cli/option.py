"""Options and arguments of verbs for click: their values, what contradicts what, and completion."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import click

from tosa_convert.cli.messages import STANDARD_INPUT, STANDARD_OUTPUT, note, take_streams
from tosa_convert.errors import TosaConvertError, fail, printable, refuse_unknown
from tosa_convert.io.files import STANDARD, refuse_same_file
from tosa_convert.io.option_table import FLAGS, MESSAGES, Row, row_of
from tosa_convert.io.options import LIMIT_NAMES, NARROW, limits_of, parse_limit

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tosa_convert.formats.read import Input
    from tosa_convert.graph.model import Graph


#: Flag -> its place in the help, and its heading.
_PLACES: Final = {
    **{flag: (place, row_of(flag).section) for place, flag in enumerate(FLAGS)},
    "--version": (len(FLAGS), MESSAGES),
    "--help": (len(FLAGS) + 1, MESSAGES),
}
#: Options below one heading, besides those of all verbs, if there are no more than these.
_FEW: Final = 5


class Option(click.Option):
    """An option of a verb. It is given at most once, unless `multiple` adds its values up.

    distinct: of values that add up, no two may be equal before the last of these characters.
    excludes: options that contradict it. needs: options of which at least one must be given, too.
    old: earlier spellings, which are still accepted and not shown.
    """

    def __init__(
        self,
        *declarations: Any,
        distinct: str | None = None,
        excludes: Sequence[str] = (),
        needs: Sequence[str] = (),
        old: Sequence[str] = (),
        **attributes: Any,
    ) -> None:
        super().__init__(*declarations, **attributes)
        self.distinct, self.excludes, self.needs, self.old = distinct, excludes, needs, old

    @property
    def flag(self) -> str:
        """Return the name in messages: the first long one."""
        return next((name for name in self.opts if name.startswith("--")), self.opts[0])

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Let the parser know the earlier spellings, too."""
        shown = self.opts
        self.opts = [*shown, *self.old]
        super().add_to_parser(parser, ctx)
        self.opts = shown

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Refuse what is not a choice as all options do, with the nearest choice."""
        if self.distinct is not None and value:
            seen: set[str] = set()
            for text in value:
                name = text.rpartition(self.distinct)[0] if self.distinct else text
                if name in seen:
                    raise click.UsageError(f"{self.flag} {name} is given twice", ctx)
                seen.add(name)
        try:
            found = super().type_cast_value(ctx, value)
            if isinstance(found, float) and not isfinite(found):
                raise click.BadParameter("it is not finite")
            return found
        except click.BadParameter:
            if isinstance(self.type, click.Choice):
                for text in value if self.multiple else [value]:
                    refuse_unknown(self.flag, text, self.type.choices)
            if isinstance(self.type, (click.types.IntParamType, click.types.FloatParamType)):
                message = f"found {value!r}, expected {_numbers(self.type)}"
                raise fail("option-conflict", self.flag, message) from None
            raise


def _numbers(kind: Any) -> str:
    """Name the numbers that an option takes."""
    noun = "a whole number" if isinstance(kind, click.types.IntParamType) else "a number"
    least = getattr(kind, "min", None)
    if least is None:
        return noun
    most = "" if kind.max is None else f" to {kind.max}"
    if getattr(kind, "min_open", False):
        return f"{noun} above {least}" + most.replace(" to", ", at most")
    return f"{noun} from {least}{most or ' up'}"


def refuse_contradictions(ctx: click.Context, order: Iterable[click.Parameter]) -> None:
    """Refuse options that are given twice or contradict each other. order: as on the command line."""
    given = [row for row in order if isinstance(row, Option)]
    flags = {row.flag for row in given}
    by_name: dict[str | None, Option] = {}
    for row in given:
        before = by_name.get(row.name)
        if before is not None and not row.multiple:
            if before is row:
                raise click.UsageError(f"{row.flag} is given twice; it has one value", ctx)
            raise click.UsageError(f"{before.flag} and {row.flag} exclude each other", ctx)
        by_name[row.name] = row
    for row in given:
        for other in row.excludes:
            if other in flags:
                raise click.UsageError(f"{row.flag} and {other} exclude each other", ctx)
        if row.needs and not flags.intersection(row.needs):
            raise click.UsageError(f"{row.flag} needs {' or '.join(row.needs)}", ctx)


def option_sections(
    command: click.Command, ctx: click.Context
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the headings of a command's options, each with the help of its options."""
    rows = []
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None and isinstance(param, click.Option):
            flag = next(name for name in param.opts if name.startswith("--"))
            rows.append((_PLACES[flag], record))
    rows.sort(key=lambda row: row[0][0])
    is_short = sum(heading != MESSAGES for (_, heading), _ in rows) <= _FEW
    sections: dict[str, list[tuple[str, str]]] = {}
    for (_, heading), record in rows:
        shown = "Options" if is_short and heading != MESSAGES else heading
        sections.setdefault(shown, []).append(record)
    yield from sections.items()


# -- values ----------------------------------------------------------------------------------------


class ReadPath(click.Path):
    """A file to read; `-` is standard input."""


class WritePath(click.Path):
    """A file to write; `-` is standard output."""


class Folder(click.Path):
    """A folder, which `-` is not."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Refuse what would be a folder of this name."""
        if value == STANDARD:
            self.fail("- is standard input or output, and here is a folder", param, ctx)
        return super().convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="dir")]


class NamesFile(click.types.StringParamType):
    """A text that has, or may have, the name of a file in it, which `-` is not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == STANDARD:
            self.fail("it cannot be read from standard input", param, ctx)
        return super().convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class ArrayFile(NamesFile):
    """FILE or NAME=FILE; `-` as FILE is standard input."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take any text."""
        return value


def refuse_shared_streams(ctx: click.Context) -> None:
    """Raise click.UsageError if two parameters are standard input, or two are standard output."""
    taken: dict[str, str] = {}
    for kinds, stream in ((_READ, STANDARD_INPUT), (WritePath, STANDARD_OUTPUT)):
        users = [
            name_in_messages(row)
            for row in ctx.command.params
            if isinstance(row.type, kinds)
            for text in _texts(row, ctx.params.get(row.name or ""))
            if text == STANDARD
            or (isinstance(row.type, ArrayFile) and text.endswith(f"={STANDARD}"))
        ]
        if len(users) > 1:
            raise click.UsageError(f"{' and '.join(users)} cannot both be {stream}", ctx)
        if users:
            taken[stream] = users[0]
    take_streams(taken)


def refuse_shared_files(ctx: click.Context) -> None:
    """Refuse to write two files under one name, and to write over a program that is an argument."""
    writers: dict[str, str] = {}
    for row in ctx.command.params:
        if not isinstance(row.type, WritePath):
            continue
        for text in _texts(row, ctx.params.get(row.name or "")):
            name, path = name_in_messages(row), os.path.realpath(text)
            if text != STANDARD and path in writers:
                message = f"{writers[path]} and {name} cannot both be {printable(text)}"
                raise click.UsageError(message, ctx)
            writers[path] = name
            for argument in ctx.command.params:
                if isinstance(argument, click.Argument) and isinstance(argument.type, ReadPath):
                    for source in _texts(argument, ctx.params.get(argument.name or "")):
                        refuse_same_file(source, text)


def name_in_messages(row: click.Parameter) -> str:
    return row.flag if isinstance(row, Option) else row.human_readable_name


_READ: Final = (ReadPath, ArrayFile)


def _texts(row: click.Parameter, value: Any) -> Sequence[str]:
    """Return the values of a parameter; an argument that takes several files, and gets none, is `-`."""
    if isinstance(row, click.Argument) and row.nargs == -1:
        return value or (STANDARD,)
    return value if isinstance(value, tuple) else () if value is None else (value,)


# -- what a shell completes: names in lists, and functions and tensors of a file -------------------

#: Names that a value may have. They are made when they are needed: some are expensive.
Choices = Callable[[], Iterable[str]]
#: What click calls for the completions of a value.
Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]

#: Bytes of text, and of other files, above which nothing is completed: a shell waits for the answer.
_MOST_TEXT: Final = 1 << 22
_MOST_BINARY: Final = 1 << 26


def complete_from(choices: Choices) -> Completer:
    """Return what completes the last name of a list that is separated by commas."""

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return _in_list(choices(), incomplete)

    return complete


def complete_functions(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    def functions(opened: Input) -> Iterable[str]:
        from tosa_convert.formats.read import function_names

        return function_names(opened)

    return _items(_from_file(ctx, functions), incomplete)


def tensors_of(graph: Graph) -> Iterable[str]:
    """Return the names of the tensors and shapes of a program, outside regions."""
    return (*graph.main.tensors, *graph.main.shapes)


def complete_tensors(names_of: Callable[[Graph], Iterable[str]], before: str = "") -> Completer:
    """Return what completes names of the program on the command line."""

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        def names(opened: Input) -> Iterable[str]:
            from tosa_convert.formats.read import read
            from tosa_convert.io.options import ReadOptions

            return names_of(read(opened, ReadOptions(func=ctx.params.get("func"))))

        found = []
        if not before:
            found = _in_list(_from_file(ctx, names), incomplete)
        elif before not in incomplete:
            found = _items((f"{name}{before}" for name in _from_file(ctx, names)), incomplete)
        return [*found, *param.type.shell_complete(ctx, param, incomplete)]

    return complete


def _from_file(ctx: click.Context, read: Callable[[Input], Iterable[str]]) -> Iterable[str]:
    """Return the names in the first file on the command line; none if it cannot be read at once."""
    path = _path(ctx)
    if not os.path.isfile(path):
        return ()
    from tosa_convert.formats.read import open_input
    from tosa_convert.io import log

    log.choose_level(quiet=True)
    try:
        size = os.path.getsize(path)
        if size > _MOST_BINARY:
            return ()
        opened = open_input(path)
        if opened.format in ("mlir", "json") and size > _MOST_TEXT:
            return ()
        return read(opened)
    except (TosaConvertError, OSError):
        return ()
    finally:
        log.choose_level()


def _path(ctx: click.Context) -> str:
    for row in ctx.command.params:
        value = ctx.params.get(row.name or "")
        if isinstance(row, click.Argument) and isinstance(row.type, ReadPath) and value:
            return str(value[0] if isinstance(value, tuple) else value)
    # click stops before the arguments where the last option has no value yet.
    return ctx.args[0] if ctx.args else ""


def _in_list(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    before, comma, last = incomplete.rpartition(",")
    return _items((f"{before}{comma}{name}" for name in names), f"{before}{comma}{last}")


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Return the names that begin with the text and that are one plain word for a shell."""
    from shlex import quote

    from click.shell_completion import CompletionItem

    wanted = incomplete.lower()
    return [
        CompletionItem(name)
        for name in names
        if name.lower().startswith(wanted) and quote(name) == name
    ]


# -- values that are more than a text ---------------------------------------------------------------

#: The largest size of a dimension in a file.
_MAX_SIZE: Final = 2**31 - 1
#: A number, "?", or a symbol: "x" separates sizes, so that it is not a letter of symbols.
_SIZE: Final = "[0-9]{1,10}|[?]|[A-Za-wyz_][A-Za-wyz_0-9]{0,63}"


def parsed(given: Iterable[str]) -> dict[str, tuple[int | str, ...]]:
    """Parse the shapes that `NAME=1x2x3` texts give, by name.

    Example:
        >>> parsed(["x=Bx2x?", "a=b=4", "B=8"])
        {'x': ('B', 2, '?'), 'a=b': (4,), 'B': (8,)}
    """
    shapes: dict[str, tuple[int | str, ...]] = {}
    for text in given:
        # A name may contain any character, so the last = separates.
        name, _, sizes = text.rpartition("=")
        parts = sizes.split("x") if sizes else []
        if not name or not all(re.fullmatch(_SIZE, part) for part in parts):
            raise click.UsageError(
                f"--input-shape {text[:200]}: expected NAME=SIZExSIZE..., each size a number from 0, "
                "a symbol without the letter x, or ?"
            )
        sizes_given = tuple(int(part) if part.isdecimal() else part for part in parts)
        if any(isinstance(size, int) and size > _MAX_SIZE for size in sizes_given):
            raise click.UsageError(f"--input-shape {text}: a size is at most {_MAX_SIZE}")
        if name in shapes:
            raise click.UsageError(f"--input-shape {text}: {name} has a shape already")
        shapes[name] = sizes_given
    return shapes


#: What makes a command of a function, or adds a parameter to a command.
Decorator = Callable[[Any], Any]


def names_from(
    choices: Choices, absent: str | None = None, *, with_extensions: bool = False
) -> dict[str, Any]:
    """Return attributes of an option of lists of names, which add up; extensions stay as they are."""

    def joined(ctx: click.Context, param: Option, texts: tuple[str, ...]) -> str | None:
        if not texts:
            return absent
        words = [word.strip() for text in texts for word in text.split(",") if word.strip()]
        by_fold = {name.lower(): name for name in choices()}
        if with_extensions:
            from tosa_convert.extensions import is_extension

            by_fold.update({word.lower(): word for word in words if is_extension(word)})
        for word in words:
            if word.lower() not in by_fold:
                refuse_unknown(param.flag, word, tuple(by_fold.values()))
        return ",".join(dict.fromkeys(by_fold[word.lower()] for word in words))

    return {"multiple": True, "callback": joined, "shell_complete": complete_from(choices)}


def _profiles() -> Iterable[str]:
    from tosa_convert.rules.profiles import CAPABILITIES

    return CAPABILITIES


def _reader_releases() -> list[str]:
    """Return what --for takes: programs, and each with a release."""
    from tosa_convert.consumers.readers import every_reader, reader_named, releases

    return [
        text
        for name in every_reader()
        for text in (name, *(f"{name}=={release}" for release in releases(reader_named(name))))
    ]


def _checked_readers(ctx: click.Context, param: Option, value: Any) -> Any:
    """Refuse unknown readers before any work, and say which release counts if none is given."""
    from tosa_convert.consumers.readers import reader_named

    for text in value if param.multiple else filter(None, [value]):
        row = reader_named(text, param.flag)
        # `doctor` prints the release of each program, and a completion nothing.
        if not ctx.resilient_parsing and ctx.command.name != "doctor" and "==" not in text:
            how = f" with {row.options}" if row.options and ":" not in text else ""
            note(f"--for {text}: {row.release}{how} counts, the newest known release")
    return value


def _limits(ctx: click.Context, param: Option, texts: tuple[str, ...]) -> Any:
    given = dict(map(parse_limit, texts))
    for name in given:
        refuse_unknown(param.flag, name, LIMIT_NAMES)
    return limits_of(given)


def _in_order(ctx: click.Context, param: Option, given: tuple[str, ...]) -> tuple[str, ...] | None:
    """Split names separated by commas; options given for each name may have commas in names."""
    return tuple(given[0].split(",")) if len(given) == 1 else given or None


def _element_type(ctx: click.Context, param: Option, value: str | None) -> str | None:
    if value is not None and value.upper() not in _element_types():
        refuse_unknown(param.flag, value, tuple(_element_types()))
    return value and value.upper()


def _element_types() -> Iterable[str]:
    from tosa_convert.graph.dtypes import DTYPES

    return [row.name for row in DTYPES]


def frontend_names() -> Iterable[str]:
    from tosa_convert.frontends.table import FRONTENDS

    return FRONTENDS


def _routes() -> Iterable[str]:
    from tosa_convert.frontends.table import ROUTES

    return ROUTES


_INPUTS: Final = complete_tensors(lambda graph: graph.main.inputs, "=")
_OUTPUTS: Final = complete_tensors(lambda graph: graph.main.outputs, ":")
_TENSORS: Final = {"shell_complete": complete_tensors(tensors_of)}
#: Flag -> what the table of options does not say: what becomes of its text, and what completes it.
_FURTHER: Final[Mapping[str, dict[str, Any]]] = {
    "--as": {"callback": _element_type, "shell_complete": complete_from(_element_types)},
    "--atol": {"shell_complete": _OUTPUTS},
    "--bytecode-version": {"callback": lambda ctx, param, text: int(text)},
    "--for": {"callback": _checked_readers, "shell_complete": complete_from(_reader_releases)},
    "--frontends": names_from(frontend_names),
    "--func": {"shell_complete": complete_functions},
    "--input": {"shell_complete": _INPUTS},
    "--input-names": {"callback": _in_order},
    "--input-shape": {
        "callback": lambda ctx, param, texts: parsed(texts),
        "shell_complete": _INPUTS,
    },
    "--inputs": _TENSORS,
    "--limit": {
        "callback": _limits,
        "shell_complete": complete_from(lambda: [f"{name}=" for name in LIMIT_NAMES]),
    },
    "--narrow": names_from(lambda: NARROW, absent=""),
    "--only": {},  # each verb has others
    "--output-names": {"callback": _in_order},
    "--outputs": _TENSORS,
    "--pattern": _TENSORS,
    "--print": _TENSORS,
    "--profile": names_from(_profiles),
    "--range": {"shell_complete": _INPUTS},
    "--rtol": {"shell_complete": _OUTPUTS},
    "--types": names_from(_element_types),
    "--until": _TENSORS,
    "--via": {"shell_complete": complete_from(_routes)},
}
_TYPES: Final[Mapping[str, Any]] = {
    "text": click.STRING,
    "read": ReadPath(),
    "write": WritePath(),
    "file": NamesFile(),
    "folder": Folder(),
    "arrays": ArrayFile(),
    "whole": click.INT,
}


def _attributes(row: Row) -> dict[str, Any]:
    """Return the attributes of `Option` that the table of options says."""
    found: dict[str, Any] = {
        "metavar": row.metavar,
        "multiple": "many" in row.words,
        "distinct": row.distinct,
        "excludes": row.excludes,
        "needs": row.needs,
        "old": row.old,
    }
    if row.kind in ("flag", "no"):
        found["is_flag"] = True
        if row.kind == "no":
            found["callback"] = lambda ctx, param, value: not value
    elif row.kind.startswith("value:"):
        found["flag_value"] = row.kind.removeprefix("value:")
    else:
        found["type"] = _type_of(row)
        if not found["multiple"] and row.absent() is not None:
            found["default"] = str(row.absent()) if row.choices else row.absent()
    return {**found, **_FURTHER.get(row.flag, {})}


def _type_of(row: Row) -> Any:
    if row.choices:
        return click.Choice(row.choices, case_sensitive="folded" not in row.words)
    if row.kind in _TYPES:
        return _TYPES[row.kind]
    least, _, most = row.kind.removeprefix("real:").partition("..")
    number = click.FloatRange if row.kind.startswith("real:") else click.IntRange
    return number(int(least.rstrip("<")), int(most) if most else None, min_open="<" in least)


def declared(
    flag: str, changes: Mapping[str, Any], name: str = "", more: str | None = None
) -> dict[str, Any]:
    """Return what `Option` is made from: a row of the table with what a verb changes."""
    row = row_of(flag)
    attributes = {"help": row.help, **_attributes(row), **changes}
    further = row.more if more is None else more
    attributes["help"] = f"{attributes['help']} {further}".strip()
    return {"param_decls": (*row.flags, name or row.name), **attributes}


def option(flag: str, name: str = "", *, more: str | None = None, **changes: Any) -> Decorator:
    """Return the decorator for an option of the table. changes: attributes; more: of its help."""
    attributes = declared(flag, changes, name, more)
    return click.option(*attributes.pop("param_decls"), cls=Option, **attributes)


def add_options(flags: str) -> Decorator:
    """Return the decorator that gives a verb options of the table, separated by blanks."""

    def add(command: Any) -> Any:
        for flag in reversed(flags.split()):  # as decorators, the last of which is the first
            command = option(flag)(command)
        return command

    return add
