"""How a verb's work begins and ends: set-up, what becomes of its exceptions, and exit codes.

Exit codes: 0 done; 1 a check found something; 2 usage; 3 bad input; 4 valid but unsupported; 5 a check
cannot tell (weak); 70 a bug of ours; 128 and its number if a signal ended the command (130 for Ctrl-C).
"""

from __future__ import annotations

import errno
import os
import sys

from tosa_convert.cli.messages import note, report_bug, say
from tosa_convert.errors import Category, TosaConvertError, fail
from tosa_convert.exit_codes import EXIT_BUG, EXIT_CLOSED_PIPE, EXIT_INTERRUPTED, EXIT_SIGNAL
from tosa_convert.io import log
from tosa_convert.process.ending_signals import Terminated

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final, NoReturn


#: Errors of a device that takes no more.
_FULL: Final = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO)

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


def before_work(verb_name: str) -> None:
    """Set up what a verb's work needs, and its help does not."""
    log.print_for_command_line()


def before_own_work(verb_name: str) -> None:
    """Set up the same for the command's own process, which may fork workers."""
    import gc

    before_work(verb_name)
    declare_own_process()
    if verb_name in ONE_SHOT_VERBS:
        gc.disable()
    else:
        gc.enable()
    if verb_name not in STARTS_WITHOUT_NUMPY:
        from tosa_convert.graph.lazy_numpy import import_numpy

        import_numpy()


def work_of_verb(
    verb_name: str,
    work: Callable[[], Any],
    before: Callable[[str], None] | None,
    *,
    quiet: bool,
    verbose: bool,
) -> Any:
    """Do a verb's work after its set-up, and say with --verbose how long it took."""
    log.choose_level(quiet=quiet, verbose=verbose)
    if before is not None:
        before(verb_name)
    with log.timed(verb_name):
        return work()


def _name_explanation(error: TosaConvertError) -> None:
    """Say at a terminal how to see more of an error, unless it is one of the command line."""
    if error.exit_code == Category.USAGE or sys.stderr is None or not sys.stderr.isatty():
        return
    first = error.findings[0]
    note(f"    more: tosa-flatbuffer explain {first.rule or first.code}")


#: What terminals and editors take for a place to open, at the beginning of a line.
_PLACE: Final = r"([^\s<:][^:]*):([1-9]\d*):\d+(?=: |$)"


def _without_lost_places(error: TosaConvertError) -> TosaConvertError:
    """Return an error in which no location looks like a place in a file that is not here."""
    import re
    from dataclasses import replace

    def shown(where: str) -> str:
        found = re.match(_PLACE, where)
        if found is None or found[1] == "-" or os.path.exists(found[1]):
            return where
        return f"{found[1]} line {found[2]} (no such file here){where[found.end() :]}"

    return TosaConvertError(replace(row, where=shown(row.where)) for row in error.findings)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the system refused memory, to us or to a library that is being loaded."""
    refused = ("failed to map segment", "annot allocate memory")
    return isinstance(error, MemoryError) or (
        isinstance(error, (ImportError, OSError)) and any(text in str(error) for text in refused)
    )


def out_of_memory() -> TosaConvertError:
    """Return the error for what the memory of this process does not suffice for."""
    message = "there is not enough memory, or a limit of this process is too low for it"
    return fail("too-large", "", message, "see `ulimit -v`, and the limits of the container")


def exit_code_of(work: Callable[[], Any]) -> int:
    """Do the work and return its exit code, having said on stderr why it failed."""
    try:
        result = work()
        if sys.stdout is not None:
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except TosaConvertError as error:
        say(str(_without_lost_places(error)), err=True)
        _name_explanation(error)
        return error.exit_code
    except Terminated as terminated:
        return EXIT_SIGNAL + terminated.number
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has closed our output; prevent an error message of the interpreter at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_CLOSED_PIPE
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            from tosa_convert.io.files import file_error

            # Other files are named where they are written.
            failure = file_error("<stdout>", error, "written")
            say(str(failure), err=True)
            return failure.exit_code
        if is_out_of_memory(error):
            say(str(out_of_memory()), err=True)
            return out_of_memory().exit_code
        import traceback

        report_bug(traceback.format_exc())
        return EXIT_BUG
    finally:
        log.choose_level()


def leave(code: int) -> NoReturn:
    """End the process at once: freeing graphs would take a fifth of a short command's time."""
    if "logging" in sys.modules:
        sys.modules["logging"].shutdown()
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None if they are closed
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(code)


# -- the command's own process: whether it may fork workers ----------------------------------------

_is_declared = False


def declare_own_process() -> None:
    """Declare that this process is the command's own, and not that of a test or another program."""
    global _is_declared
    _is_declared = True


def may_fork() -> bool:
    """Return whether workers may be forked, which takes a millisecond.

    Only on Linux: the system libraries of macOS do not work after a fork, and Windows has none. Only
    without threads: a lock that one of them holds would never be released in the child.
    """
    import threading

    return _is_declared and sys.platform == "linux" and threading.active_count() == 1
