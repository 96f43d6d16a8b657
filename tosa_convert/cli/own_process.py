"""The command's own process: whether it may fork workers, and how it imports numpy."""

from __future__ import annotations

import sys

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


def import_numpy() -> None:
    """Import numpy in a thread, where no other function is running.

    Python 3.11 and later map memory for their frames in pieces of 16 KiB, and a call that needs a new
    piece maps it and unmaps it again. Deep inside our own imports, numpy's would do so a thousand times,
    which takes longer than the conversion of a small file.
    """
    if "numpy" in sys.modules:
        return
    import threading

    thread = threading.Thread(target=_import, daemon=True)
    thread.start()
    thread.join()


def _import() -> None:
    import numpy  # noqa: F401
