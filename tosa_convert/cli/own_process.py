"""Whether the command may fork its workers."""

from __future__ import annotations

import sys
import threading

from tosa_convert.cli.command import is_own_process


def may_fork() -> bool:
    """Return whether workers may be forked, which takes a millisecond.

    Only on Linux: the system libraries of macOS do not work after a fork, and Windows has none. Only
    without threads: a lock that one of them holds would never be released in the child.
    """
    return is_own_process() and sys.platform == "linux" and threading.active_count() == 1
