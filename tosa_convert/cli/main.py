"""`tosa-flatbuffer VERB` and `tosa-flatbuffer-convert`: entry points, exit codes, the last resort.

Exit codes: 0 done; 1 a check found a difference; 2 usage; 3 bad input; 4 valid but unsupported;
70 a bug of ours.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from typing import NoReturn

import click

from tosa_convert.cli.command import Verbs
from tosa_convert.errors import TosaConvertError
from tosa_convert.version import __version__

EXIT_BUG = 70
EXIT_INTERRUPTED = 130
#: What a shell adds the number of a signal to.
EXIT_SIGNAL = 128
_ISSUES = "please report it with the command and, if you can share it, the input"

#: Verb -> the module that has it, under the verb's name. Imported when the verb is used.
VERBS = {
    "bisect": "tosa_convert.cli.bisect",
    "check": "tosa_convert.cli.check",
    "convert": "tosa_convert.cli.convert",
    "extract": "tosa_convert.cli.extract",
    "generate": "tosa_convert.cli.generate",
    "reduce": "tosa_convert.cli.reduce",
    "repack": "tosa_convert.cli.repack",
    "run": "tosa_convert.cli.run",
    "suite": "tosa_convert.cli.suite",
    "weights": "tosa_convert.cli.weights",
}


class _AllVerbs(Verbs):
    """The verbs, imported one at a time: a short command should not wait for the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        return verb(cmd_name)


def verb(name: str) -> click.Command:
    """The command of a verb."""
    found: click.Command = getattr(importlib.import_module(VERBS[name]), name)
    return found


@click.command(cls=_AllVerbs)
@click.version_option(__version__, prog_name="tosa-flatbuffer")
def tosa_flatbuffer() -> None:
    """Convert, inspect and check TOSA programs: MLIR, flatbuffers, JSON."""


def run(
    command: click.Command, arguments: list[str] | None = None, *, own_process: bool = False
) -> int:
    """Run a command; returns the exit code. Data goes to stdout, everything else to stderr.

    own_process: this process is the command's own, and not a test's or somebody's who embeds it.
    """
    try:
        result = command.main(
            arguments, standalone_mode=False, obj=_before_own_work if own_process else _before_work
        )
        if sys.stdout is not None:
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except TosaConvertError as error:
        click.echo(str(error), err=True)
        return error.exit_code
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except _Terminated as asked:
        return EXIT_SIGNAL + asked.number
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception:  # The one place where everything is caught: to say that it is our fault.
        import traceback

        traceback.print_exc()
        click.echo(f"internal error in tosa-convert {__version__}: {_ISSUES}", err=True)
        return EXIT_BUG


def _before_work() -> None:
    """What is imported for work alone, and not to tell a verb's help: a `Verb` calls it."""
    import logging

    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)


def _before_own_work() -> None:
    """The same, and what survives MLIR."""
    _before_work()
    from tosa_convert.cli import supervise

    supervise.install()


def main() -> None:
    """`tosa-flatbuffer`."""
    _start()
    _leave(run(tosa_flatbuffer, own_process=True))


def main_convert() -> None:
    """`tosa-flatbuffer-convert`."""
    _start()
    _leave(run(verb("convert"), own_process=True))


def _start() -> None:
    # numpy's linear algebra starts a thread for each core when it is imported, and nothing here
    # uses any: half of the import's time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # By default these end the process where it stands, and what it was writing would stay behind.
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminated)


class _Terminated(BaseException):
    """Somebody asked the process to end."""

    def __init__(self, number: int) -> None:
        self.number = number


def _terminated(number: int, frame: object) -> NoReturn:
    raise _Terminated(number)


def _leave(code: int) -> NoReturn:
    """End the process at once, when all files are written and closed.

    Taking graphs and MLIR's contexts apart first would take a fifth of a short command's time.
    """
    if "logging" in sys.modules:
        sys.modules["logging"].shutdown()
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None where they are closed
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
