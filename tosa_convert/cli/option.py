"""Options and arguments of verbs: their headings in the help, what contradicts what, and paths."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import click

from tosa_convert.cli.messages import STANDARD_INPUT, STANDARD_OUTPUT, take_streams
from tosa_convert.errors import TosaConvertError, fail, printable, refuse_unknown
from tosa_convert.io.files import STANDARD, refuse_same_file

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tosa_convert.formats.read import Input
    from tosa_convert.graph.model import Graph


#: The last heading, of the options that all verbs have.
MESSAGES: Final = "Help and messages"
#: Heading in the help -> the options below it, of whatever verb, in their order.
SECTIONS: Final = {
    "Output": "--output --to --export-to-flatbuffer --import-from-flatbuffer --count --verify "
    "--no-validate --save-inputs --save-variables --bounds --intermediates --inside "
    "--until --print --precise --work --resume --depends",
    "Selection": "--outputs --inputs --seed --size --only --like --pattern --max-tensors --list "
    "--operators --tensors --constants --grep --hex --all-bytes --as --scopes --errors",
    "Comparison": "--against --reference --frontends --through --original --atol --rtol "
    "--official --strict --widen --repeat --compare-names --compare-locations "
    "--ignore-order --max-cases --seconds",
    "Failures": "--command --expect-exit --expect-text --max-runs --xfail --refused --baseline "
    "--slowdown --fail-slowdown --case --known --keep --reduce",
    "Reports": "--json --sarif --json-report --junit --html --svg --dot --model-explorer --stat "
    "--context --all --color --save",
    "MLIR input": "--func --split-input-file --input-shape --narrow --pass-captured --full-paths "
    "--custom",
    "MLIR output": "--bytecode-version --function-op --generic --no-locations --elide",
    "Names": "--names --input-names --output-names",
    "Weights": "--weights --accept-changed-weights --larger-than --parameters",
    "Target": "--for --tosa-version --spec-version --profile --types --scaled --level --least",
    "Framework models": "--via --exact --random-weights --partial --check",
    "Values of inputs": "--input --random --range --edges --no-edges --seeds --calibration --variables",
    "Processes and limits": "--jobs --engine --python --scheduler --timeout --limit --batch-mib",
    MESSAGES: "--quiet --verbose --version --help",
}
#: Flag -> its heading and its place below all headings.
_PLACES: Final = {
    flag: (heading, place)
    for place, (flag, heading) in enumerate(
        (flag, heading) for heading, flags in SECTIONS.items() for flag in flags.split()
    )
}
#: Options below one heading, besides those of all verbs, if there are no more than these.
_FEW: Final = 5


class Option(click.Option):
    """An option of a verb. It is given at most once, unless `multiple` adds its values up.

    distinct: of values that add up, the part in which no two of them may be equal.
    excludes: options that contradict it. needs: options of which at least one must be given, too.
    old: earlier spellings, which are still accepted and not shown.
    """

    def __init__(
        self,
        *declarations: Any,
        distinct: Callable[[str], str] | None = None,
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
                name = self.distinct(text)
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
    """Raise click.UsageError for options that are given twice or contradict each other.

    order: the parameters in the order of the command line, as often as they are given.
    """
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
    rows.sort(key=lambda row: row[0][1])
    is_short = sum(heading != MESSAGES for (heading, _), _ in rows) <= _FEW
    sections: dict[str, list[tuple[str, str]]] = {}
    for (heading, _), record in rows:
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
        """Let the shell complete names of folders."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="dir")]


class NamesFile(click.types.StringParamType):
    """A text that has, or may have, the name of a file in it, which `-` is not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse standard input."""
        if value == STANDARD:
            self.fail("it cannot be read from standard input", param, ctx)
        return super().convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Let the shell complete names of files."""
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
            _name_in_messages(row)
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
    """Refuse to write two files under one name, and to write over a program that is an argument.

    Raises click.UsageError, and TosaConvertError("would-overwrite-input").
    """
    writers: dict[str, str] = {}
    for row in ctx.command.params:
        if not isinstance(row.type, WritePath):
            continue
        for text in _texts(row, ctx.params.get(row.name or "")):
            name, path = _name_in_messages(row), os.path.realpath(text)
            if text != STANDARD and path in writers:
                message = f"{writers[path]} and {name} cannot both be {printable(text)}"
                raise click.UsageError(message, ctx)
            writers[path] = name
            for argument in ctx.command.params:
                if isinstance(argument, click.Argument) and isinstance(argument.type, ReadPath):
                    for source in _texts(argument, ctx.params.get(argument.name or "")):
                        refuse_same_file(source, text)


def _name_in_messages(row: click.Parameter) -> str:
    return row.flag if isinstance(row, Option) else row.human_readable_name


_READ: Final = (ReadPath, ArrayFile)


def _texts(row: click.Parameter, value: Any) -> Sequence[str]:
    """Return the values of a parameter; an argument that takes several files, and gets none, is `-`."""
    if isinstance(row, click.Argument) and row.nargs == -1:
        return value or (STANDARD,)
    return value if isinstance(value, tuple) else () if value is None else (value,)


# --------------------------------------------------------------------------------------------------
# what a shell completes: names in lists, and functions and tensors of the file that is named.

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
    """Complete the functions of the module on the command line."""

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
    """Return the first argument that is the name of a file, or ""."""
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
