"""`tosa-flatbuffer` and `tosa-flatbuffer-convert`: the entry points.

Ctrl-C during the imports ends the process as it ends any other: until `RequestToEnd` handles signals,
Python would answer one with a traceback of whatever it was importing. Nothing has been written by then,
so there is nothing to clean up.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final, NoReturn


#: Columns of a terminal from which click makes the lines of the help no longer.
HELP_WIDTH: Final = 80
#: Where an installation has the texts of the help.
_HELP: Final = os.path.join(os.path.dirname(__file__), "help")


def main() -> None:
    """`tosa-flatbuffer`."""
    words = sys.argv[1:]
    if words == ["--version"] and _printed(_version()):
        os._exit(0)
    if _printed(help_text("tosa-flatbuffer", words)):
        os._exit(0)
    _main("", words)


def main_convert() -> None:
    """`tosa-flatbuffer-convert`."""
    words = sys.argv[1:]
    if _printed(help_text("tosa-flatbuffer-convert", words)):
        os._exit(0)
    _main("convert", words)


def _version() -> str:
    from tosa_convert.version import __version__

    return f"tosa-flatbuffer, version {__version__}\n"


def help_text(program: str, words: list[str], folder: str = _HELP) -> str:
    """Return the help that a command line asks for, if the installation has its text; else "".

    A checkout has none; and click breaks the lines for a narrow terminal, and names the program as it
    was called.

    program: the name of the command. folder: where the texts are.
    """
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


# --------------------------------------------------------------------------------------------------
# command lines of small jobs, parsed without click, which takes longer to import than they take.
# A line is plain if it has a verb of `PLAIN`, some of the options of its row, each once, and
# arguments. Any other line, and any line with a mistake, is for click. A plain line means what it
# means to click.

#: What follows the option on the command line: a value, one of some values, or nothing.
_ANY: Final = None
_TO: Final = ("mlir", "mlirbc", "tosa", "json")
_WEIGHTS: Final = ("auto", "embedded", "offset", "npy", "safetensors", "irpa")
_VERSIONS: Final = ("1.0", "1.1")

#: Flag -> the parameter, and the values that may follow, or what the flag alone means.
_MESSAGES: Final = {
    "-q": ("quiet", True),
    "--quiet": ("quiet", True),
    "-v": ("verbose", True),
    "--verbose": ("verbose", True),
}
_OUTPUT: Final = {"-o": ("output", _ANY), "--output": ("output", _ANY)}
_WRITING: Final = {
    **_OUTPUT,
    "--to": ("to", _TO),
    "--verify": ("verify", True),
    "--no-validate": ("validate", False),
    "--weights": ("weights", _WEIGHTS),
}
_OF_WRITING: Final = {
    "output": None,
    "to": None,
    "verify": False,
    "validate": True,
    "weights": "auto",
    "accept_changed_weights": False,
    "consumer": None,
}


class PlainVerb:
    """A verb: its work, its arguments and options, and the values of those that are not given."""

    __slots__ = ("arguments", "defaults", "function", "module", "needed", "options")

    def __init__(
        self,
        work: str,
        arguments: Sequence[str],
        options: Mapping[str, tuple[str, Any]],
        defaults: Mapping[str, Any],
        needed: str = "",
    ) -> None:
        """work: a module of this package and its function. arguments: "*" after a name: any number."""
        self.module, self.function = work.split(":")
        self.arguments, self.needed = arguments, needed
        self.options = {**_MESSAGES, **options}
        self.defaults = defaults


PLAIN: Final = {
    "convert": PlainVerb(
        "convert_work:convert",
        ["paths*"],
        {
            **_WRITING,
            "--export-to-flatbuffer": ("export_to_flatbuffer", True),
            "--import-from-flatbuffer": ("import_from_flatbuffer", True),
            "--names": ("names", ("retain", "generate")),
            "--tosa-version": ("tosa_version", _VERSIONS),
            "--generic": ("generic", True),
            "--no-locations": ("locations", False),
            "--full-paths": ("full_paths", True),
            "--func": ("func", _ANY),
        },
        {
            **_OF_WRITING,
            "export_to_flatbuffer": False,
            "import_from_flatbuffer": False,
            "split_input_file": False,
            "names": "retain",
            "tosa_version": "",
            "bytecode_version": 1,
            "function_op": "func.func",
            "generic": False,
            "locations": True,
            "elide": None,
            "full_paths": False,
            "input_names": None,
            "output_names": None,
            "via": "",
            "exact": False,
            "partial": False,
            "check": False,
            "random_weights": False,
            "arrays": (),
            "random": None,
            "engine": "auto",
            "timeout": None,
            "limits": None,
            "python": "",
            "jobs": 0,
            "pass_captured": False,
            "narrow": "",
            "input_shapes": {},
            "func": None,
        },
    ),
    "repack": PlainVerb("convert_work:repack", ["source"], _WRITING, _OF_WRITING, needed="output"),
    "validate": PlainVerb(
        "validate_files:validate_programs",
        ["files*"],
        {
            **_OUTPUT,
            "--level": ("level", ("8k", "none")),
            "--spec-version": ("spec_version", _VERSIONS),
            "--least": ("least", True),
            "--json": ("as_json", True),
            "--func": ("func", _ANY),
        },
        {
            "output": None,
            "profile": None,
            "level": None,
            "spec_version": None,
            "readers": (),
            "least": False,
            "as_json": False,
            "as_sarif": False,
            "limits": None,
            "jobs": 0,
            "func": None,
        },
    ),
    "show": PlainVerb(
        "show_files:show",
        ["files*"],
        {
            "--operators": ("operators", True),
            "--tensors": ("tensors", True),
            "--constants": ("constants", True),
            "--json": ("as_json", True),
            "--func": ("func", _ANY),
        },
        {
            "operators": False,
            "tensors": False,
            "constants": False,
            "grep": None,
            "as_hex": False,
            "all_bytes": False,
            "as_json": False,
            "limits": None,
            "jobs": 0,
            "func": None,
        },
    ),
    "diff": PlainVerb(
        "diff_files:diff",
        ["left", "right"],
        {
            "--compare-names": ("compare_names", True),
            "--compare-locations": ("compare_locations", True),
            "--ignore-order": ("ignore_order", True),
            "--func": ("func", _ANY),
        },
        {
            "compare_names": False,
            "compare_locations": False,
            "ignore_order": False,
            "context": 1,
            "everything": False,
            "stat": False,
            "as_json": False,
            "color": None,
            "func": None,
        },
    ),
}
#: Parameters of which a line has one at most.
_EXCLUSIVE: Final = ({"quiet", "verbose"}, {"export_to_flatbuffer", "import_from_flatbuffer"})
#: A sign that Windows, whose shells leave it to the program, would replace.
_EXPANDED: Final = frozenset("*?[]~%$")


class PlainCall:
    """A verb with the values of its parameters.

    name: the verb. values: all of its parameters. words: its command line.
    is_alone: the verb is a command of its own.
    """

    __slots__ = ("given", "is_alone", "name", "values", "words")

    def __init__(
        self, name: str, words: Sequence[str], given: dict[str, Any], is_alone: bool
    ) -> None:
        self.name, self.words, self.given, self.is_alone = name, words, given, is_alone
        self.values = {**PLAIN[name].defaults, **given}
        self.values.pop("quiet", None)
        self.values.pop("verbose", None)

    def run(self, before: Callable[[str], None]) -> Any:
        """Do the work. before: the set-up of the process, called with the verb."""
        from importlib import import_module

        from tosa_convert.cli.ending import work_of_verb
        from tosa_convert.cli.messages import STANDARD_OUTPUT, UsageError, take_streams

        take_streams({STANDARD_OUTPUT: "--output"} if self.values.get("output") == "-" else {})
        row = PLAIN[self.name]
        work = getattr(import_module(f"tosa_convert.cli.{row.module}"), row.function)
        try:
            return work_of_verb(
                self.name,
                lambda: work(**self.values),
                before,
                quiet="quiet" in self.given,
                verbose="verbose" in self.given,
            )
        except UsageError as error:
            from tosa_convert.cli.main import usage_error_of

            message, alone = str(error), self.is_alone
            raise usage_error_of(message, self.name, self.words, alone=alone) from None


def plain_call(verb_name: str, words: Sequence[str]) -> PlainCall | None:
    """Return what a plain command line asks for; None if it is for click.

    verb_name: the verb if the words do not begin with it.
    """
    if any(name.startswith("_") and name.endswith("_COMPLETE") for name in os.environ):
        return None  # a shell asks for completions
    name, rest = (verb_name, words) if verb_name else (words[0] if words else "", words[1:])
    if name not in PLAIN:
        return None
    given = _given(PLAIN[name], rest)
    return None if given is None else PlainCall(name, rest, given, bool(verb_name))


def _given(row: PlainVerb, words: Sequence[str]) -> dict[str, Any] | None:
    """Return the values of the parameters that a plain command line gives; None if it is not plain."""
    given: dict[str, Any] = {}
    arguments: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word or (sys.platform == "win32" and not _EXPANDED.isdisjoint(word)):
            return None
        if word == "-" or word[0] != "-":
            arguments.append(word)
            continue
        flag, equals, text = word.partition("=")
        name, values = row.options.get(flag, ("", _ANY))
        if not name or name in given:
            return None
        if isinstance(values, bool):
            if equals:
                return None
            given[name] = values
            continue
        if equals and not flag.startswith("--"):
            return None
        value = text if equals else next(rest, "")
        if not value or (value[0] == "-" and value != "-") or (values and value not in values):
            return None
        given[name] = value
    if any(len(pair & given.keys()) > 1 for pair in _EXCLUSIVE) or (
        row.needed and row.needed not in given
    ):
        return None
    return _with_arguments(row, given, arguments)


def _with_arguments(
    row: PlainVerb, given: dict[str, Any], arguments: list[str]
) -> dict[str, Any] | None:
    """Add the arguments; return None if their number is wrong, or several are standard input."""
    if arguments.count("-") > 1:
        return None
    if row.arguments[0].endswith("*"):
        return {row.arguments[0].rstrip("*"): tuple(arguments), **given}
    if len(arguments) != len(row.arguments):
        return None
    return {**dict(zip(row.arguments, arguments, strict=True)), **given}
