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
    from typing import Final, NoReturn


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
    from tosa_convert.cli.plain import plain_call

    def work() -> object:
        call = plain_call(verb_name, words)
        if call is not None:
            return call.run(before_own_work)
        from tosa_convert.cli.main import run, tosa_flatbuffer, verb

        return run(verb(verb_name) if verb_name else tosa_flatbuffer, own_process=True)

    return exit_code_of(work)
