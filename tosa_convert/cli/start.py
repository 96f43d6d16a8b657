"""`tosa-flatbuffer` and `tosa-flatbuffer-convert`: the entry points."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final, NoReturn

    from tosa_convert.cli.verbs import Described
    from tosa_convert.io.option_table import Row


#: Columns of a terminal from which click makes the lines of the help no longer.
HELP_WIDTH: Final = 80
#: Where an installation has the texts of the help.
_HELP: Final = os.path.join(os.path.dirname(__file__), "help")


def main() -> None:
    words = sys.argv[1:]
    if words == ["--version"] and _printed(_version()):
        os._exit(0)
    if _printed(help_text("tosa-flatbuffer", words)):
        os._exit(0)
    _main("", words)


def main_convert() -> None:
    words = sys.argv[1:]
    if _printed(help_text("tosa-flatbuffer-convert", words)):
        os._exit(0)
    _main("convert", words)


def _version() -> str:
    from tosa_convert.version import version_text

    return version_text("tosa-flatbuffer")


def help_text(program: str, words: list[str], folder: str = _HELP) -> str:
    """Return the help that a command line asks for, if `folder` has it, and click need not break it."""
    if not words or words[-1] not in ("-h", "--help") or len(words) > 3:
        return ""
    package = getattr(sys.modules["__main__"], "__package__", None)
    if package or os.path.basename(sys.argv[0]) != program:
        return ""
    if not all(word.isalpha() and word.isascii() for word in words[:-1]) or _columns() < HELP_WIDTH:
        return ""
    try:
        with open(os.path.join(folder, ".".join([program, *words[:-1], "txt"])), "rb") as file:
            return file.read().decode("ascii")
    except OSError:
        return ""


def _columns() -> int:
    """Return the columns of the terminal; 0 if $COLUMNS says it, or a shell asks for completions."""
    if any(name == "COLUMNS" or name.endswith("_COMPLETE") for name in os.environ):
        return 0
    try:
        number = -1 if sys.__stdout__ is None else sys.__stdout__.fileno()
        return os.get_terminal_size(number).columns or HELP_WIDTH
    except (OSError, ValueError):
        return HELP_WIDTH


def _printed(text: str) -> bool:
    """Print a text; return whether that was possible. Otherwise the parser tries it and reports."""
    if not text:
        return False
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (AttributeError, OSError, ValueError):
        return False
    return True


def _main(verb_name: str, words: list[str]) -> NoReturn:
    """Run a verb, or the command that has all of them, in a process of our own."""
    import gc
    import signal

    gc.disable()  # `before_own_work` turns it on for verbs that need it
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tosa_convert.cli.ending import leave
    from tosa_convert.process.ending_signals import RequestToEnd

    # numpy's linear algebra starts a thread for each core when it is imported, which takes half of the
    # import's time, and nothing here uses any.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    request = RequestToEnd()
    request.install()
    code = exit_code(verb_name, words)
    leave(request.exit_code or code)


def exit_code(verb_name: str, words: list[str]) -> int:
    """Do what a command line asks for and return its exit code."""
    from tosa_convert.cli.ending import before_own_work, exit_code_of

    def work() -> object:
        call = plain_call(verb_name, words)
        if call is not None:
            return call.run(before_own_work)
        from tosa_convert.cli.main import run, tosa_flatbuffer, verb

        return run(verb(verb_name) if verb_name else tosa_flatbuffer, own_process=True)

    return exit_code_of(work)


# -- command lines of small jobs, parsed without click ---------------------------------------------
# Plain is a verb of `DESCRIBED` with options whose values are texts, each once. Any other line, and
# any line with a mistake, is for click.

#: A sign that Windows, whose shells leave it to the program, would replace.
_EXPANDED: Final = frozenset("*?[]~%$")
#: Values that are taken as they are.
_TEXTS: Final = frozenset(("text", "read", "write"))


class PlainCall:
    """A verb with the values of its parameters.

    name: the verb. given: flag -> value. words: its command line. is_alone: the verb is a command of its
    own.
    """

    __slots__ = ("given", "is_alone", "name", "values", "words")

    def __init__(
        self, name: str, words: Sequence[str], given: dict[str, Any], is_alone: bool
    ) -> None:
        from tosa_convert.cli.verbs import DESCRIBED
        from tosa_convert.io.option_table import row_of

        self.name, self.words, self.given, self.is_alone = name, words, given, is_alone
        verb = DESCRIBED[name]
        self.values = {argument: given[argument] for argument in verb.arguments}
        for flag in verb.options.split():
            row, changes = row_of(flag), verb.changes.get(flag, {})
            absent = () if "multiple" in changes else changes.get("default", row.absent())
            self.values[changes.get("name", row.name)] = given.get(flag, absent)

    def run(self, before: Callable[[str], None]) -> Any:
        """Do the work. before: the set-up of the process, called with the verb."""
        from tosa_convert.cli.ending import work_of_verb
        from tosa_convert.cli.messages import STANDARD_OUTPUT, UsageError, take_streams
        from tosa_convert.cli.verbs import DESCRIBED, work_of

        take_streams({STANDARD_OUTPUT: "--output"} if self.values.get("output") == "-" else {})
        try:
            return work_of_verb(
                self.name,
                lambda: work_of(DESCRIBED[self.name])(**self.values),
                before,
                quiet="--quiet" in self.given,
                verbose="--verbose" in self.given,
            )
        except UsageError as error:
            from tosa_convert.cli.main import usage_error_of

            message, alone = str(error), self.is_alone
            raise usage_error_of(message, self.name, self.words, alone=alone) from None


def plain_call(verb_name: str, words: Sequence[str]) -> PlainCall | None:
    """Return what a plain command line asks for; None if it is for click."""
    from tosa_convert.cli.verbs import DESCRIBED

    if any(name.startswith("_") and name.endswith("_COMPLETE") for name in os.environ):
        return None  # a shell asks for completions
    name, rest = (verb_name, words) if verb_name else (words[0] if words else "", words[1:])
    if name not in DESCRIBED:
        return None
    given = _given(DESCRIBED[name], rest)
    return None if given is None else PlainCall(name, rest, given, bool(verb_name))


def _plain_options(verb: Described) -> dict[str, Row]:
    """Return the options of a verb that a plain line may have, by all of their names."""
    from tosa_convert.io.option_table import row_of

    rows = map(row_of, (*verb.options.split(), "--quiet", "--verbose"))
    return {
        name: row
        for row in rows
        if (row.choices or row.kind in _TEXTS or row.kind in ("flag", "no"))
        and row.words.isdisjoint(("many", "parsed"))
        for name in row.flags
    }


def _given(verb: Described, words: Sequence[str]) -> dict[str, Any] | None:
    """Return the values of arguments and options; None if the line is not plain."""
    options = _plain_options(verb)
    given: dict[str, Any] = {}
    arguments: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word or (sys.platform == "win32" and not _EXPANDED.isdisjoint(word)):
            return None
        if word == "-" or word[0] != "-":
            arguments.append(word)
            continue
        name, equals, text = word.partition("=")
        row = options.get(name)
        if row is None or row.flag in given:
            return None
        if row.kind in ("flag", "no"):
            if equals:
                return None
            given[row.flag] = row.kind == "flag"
            continue
        if equals and not name.startswith("--"):
            return None
        value = text if equals else next(rest, "")
        if not value or (value[0] == "-" and value != "-"):
            return None
        if row.choices and value not in row.choices:
            return None
        given[row.flag] = value
    if _contradict(verb, options, given):
        return None
    return _with_arguments(verb, given, arguments)


def _contradict(verb: Described, options: Mapping[str, Row], given: Mapping[str, Any]) -> bool:
    """Return whether options exclude each other, or one that another needs is missing."""
    for flag in given:
        row = options[flag]
        excluded = verb.changes.get(flag, {}).get("excludes", row.excludes)
        if not given.keys().isdisjoint(excluded):
            return True
        if row.needs and given.keys().isdisjoint(row.needs):
            return True
    return any(
        "required" in changes and flag not in given for flag, changes in verb.changes.items()
    )


def _with_arguments(
    verb: Described, given: dict[str, Any], arguments: list[str]
) -> dict[str, Any] | None:
    """Add the arguments; return None if their number is wrong, or several are standard input."""
    if arguments.count("-") > 1:
        return None
    (name, metavar), *others = verb.arguments.items()
    if metavar.endswith("..."):
        return {name: tuple(arguments), **given}
    if len(arguments) != 1 + len(others):
        return None
    return {**dict(zip(verb.arguments, arguments, strict=True)), **given}
