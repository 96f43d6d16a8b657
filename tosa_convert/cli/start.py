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
    from typing import NoReturn


def main() -> None:
    """`tosa-flatbuffer`."""
    words = sys.argv[1:]
    if words == ["--version"] and _print_version():
        os._exit(0)
    _main("", words)


def main_convert() -> None:
    """`tosa-flatbuffer-convert`."""
    _main("convert", sys.argv[1:])


def _print_version() -> bool:
    """Print the version; return whether that was possible. Otherwise the parser tries it and reports."""
    from tosa_convert.version import __version__

    try:
        sys.stdout.write(f"tosa-flatbuffer, version {__version__}\n")
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
    """Do what a command line asks for and return its exit code.

    Args:
        verb_name: the verb if the words do not begin with it.
        words: the command line. It is that of this process if it is not plain.
    """
    from tosa_convert.cli.ending import before_own_work, exit_code_of
    from tosa_convert.cli.plain import plain_call

    def work() -> object:
        call = plain_call(verb_name, words)
        if call is not None:
            return call.run(before_own_work)
        from tosa_convert.cli.main import run, tosa_flatbuffer, verb

        return run(verb(verb_name) if verb_name else tosa_flatbuffer, own_process=True)

    return exit_code_of(work)
