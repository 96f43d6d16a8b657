"""`tosa-flatbuffer VERB` and `tosa-flatbuffer-convert`: entry points, signals and exit codes.

Exit codes: 0 done; 1 a check found something; 2 usage; 3 bad input; 4 valid but unsupported;
70 a bug of ours; 128 and its number if a signal ended the command (130 for Ctrl-C).
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import os
import signal
import sys
from typing import Final, NoReturn

import click

from tosa_convert.cli.command import (
    EXIT_BUG,
    Verbs,
    report_bug,
    say,
    usage_error,
)
from tosa_convert.cli.own_process import declare_own_process
from tosa_convert.errors import TosaConvertError
from tosa_convert.io import log
from tosa_convert.io.files import file_error
from tosa_convert.process.ending_signals import EXIT_SIGNAL, RequestToEnd, Terminated
from tosa_convert.version import __version__

EXIT_INTERRUPTED: Final = EXIT_SIGNAL + signal.SIGINT

#: Errors of a device that takes no more.
_FULL: Final = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO)

#: Heading in the help -> verb -> the module that defines it, under the verb's name.
SECTIONS: Final = {
    "Convert": {
        "convert": "tosa_convert.cli.convert",
        "extensions": "tosa_convert.cli.extensions",
        "frontends": "tosa_convert.cli.frontends",
        "repack": "tosa_convert.cli.repack",
        "upgrade": "tosa_convert.cli.upgrade",
        "weights": "tosa_convert.cli.weights",
    },
    "Look": {
        "data": "tosa_convert.cli.data",
        "diff": "tosa_convert.cli.diff",
        "doctor": "tosa_convert.cli.doctor",
        "report": "tosa_convert.cli.report",
        "show": "tosa_convert.cli.show",
        "validate": "tosa_convert.cli.validate",
    },
    "Run and check": {
        "bisect": "tosa_convert.cli.bisect",
        "check": "tosa_convert.cli.check",
        "fuzz": "tosa_convert.cli.fuzz",
        "generate": "tosa_convert.cli.generate",
        "power": "tosa_convert.cli.power",
        "reduce": "tosa_convert.cli.reduce",
        "run": "tosa_convert.cli.run",
        "suite": "tosa_convert.cli.suite",
    },
    "Edit": {
        "extract": "tosa_convert.cli.extract",
        "rewrite": "tosa_convert.cli.rewrite",
    },
}
#: Verb -> its module.
VERBS: Final = {name: module for rows in SECTIONS.values() for name, module in rows.items()}


#: Verbs that end soon after they made a graph, and never collect garbage. No object of ours is part of a
#: cycle, and collecting with 100,000 operators takes 4 % of the time of their conversion.
ONE_SHOT_VERBS: Final = frozenset(
    {
        *("convert", "diff", "doctor", "extract", "repack", "report", "rewrite", "show", "upgrade"),
        "validate",
    }
)


#: Verbs that use numpy for large programs only, and those that start another program before.
STARTS_WITHOUT_NUMPY: Final = frozenset(
    {"convert", "diff", "doctor", "repack", "show", "upgrade", "validate"}
)


class _AllVerbs(Verbs):
    """The verbs. Each is imported when it is used: a short command should not wait for the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        return verb(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs below the headings of what they are for."""
        for heading, rows in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, verb(name).get_short_help_str()) for name in rows])


def verb(name: str) -> click.Command:
    """Return the command of a verb."""
    command: click.Command = getattr(importlib.import_module(VERBS[name]), name)
    return command


@click.command(cls=_AllVerbs)
@click.version_option(__version__, prog_name="tosa-flatbuffer")
def tosa_flatbuffer() -> None:
    """Convert, run and check TOSA programs: MLIR text and bytecode, flatbuffers, JSON."""


def run(
    command: click.Command, arguments: list[str] | None = None, *, own_process: bool = False
) -> int:
    """Run a command and return its exit code.

    Data goes to stdout, everything else to stderr.

    own_process: this process is the command's own. It is not if a test or another program calls `run`.
    """
    try:
        result = command.main(
            arguments, standalone_mode=False, obj=_before_own_work if own_process else _before_work
        )
        if sys.stdout is not None:
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except TosaConvertError as error:
        say(str(error), err=True)
        return error.exit_code
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.UsageError as error:
        say(str(usage_error(error)), err=True)
        return error.exit_code
    except Terminated as terminated:
        return EXIT_SIGNAL + terminated.number
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has closed our output; prevent an error message of the interpreter at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            # Other files are named where they are written.
            failure = file_error("<stdout>", error, "written")
            say(str(failure), err=True)
            return failure.exit_code
        import traceback

        report_bug(traceback.format_exc())
        return EXIT_BUG


def _before_work(verb_name: str) -> None:
    """Set up what a verb's work needs; `Verb` calls it before the work, but not for help."""
    log.print_for_command_line()


def _before_own_work(verb_name: str) -> None:
    """Set up the same for the command's own process, which may fork workers."""
    _before_work(verb_name)
    declare_own_process()
    if verb_name in ONE_SHOT_VERBS:
        gc.disable()
    if verb_name not in STARTS_WITHOUT_NUMPY:
        from tosa_convert.graph.lazy_numpy import import_numpy

        import_numpy()


def main() -> None:
    """`tosa-flatbuffer`."""
    _main()


def main_convert() -> None:
    """`tosa-flatbuffer-convert`."""
    _main("convert")


def _main(verb_name: str = "") -> NoReturn:
    """Run a verb, or the command that has all of them, in a process of our own."""
    # numpy's linear algebra starts a thread for each core when it is imported, which takes half of the
    # import's time, and nothing here uses any.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    request = RequestToEnd()
    request.install()
    command = verb(verb_name) if verb_name else tosa_flatbuffer
    code = run(command, own_process=True)
    _leave(request.exit_code or code)


def _leave(code: int) -> NoReturn:
    """End the process at once; all files are written and closed.

    Freeing graphs and MLIR's contexts first would take a fifth of a short command's time.
    """
    if "logging" in sys.modules:
        sys.modules["logging"].shutdown()
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None if they are closed
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
