"""The command's own process: whether it may fork workers."""

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
