"""Signals that ask a program to end, and how they wait until foreign code has returned."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

#: Signals that ask a program to end, as far as the system has them.
ENDING: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
#: A shell reports a process that a signal ended as this number plus the signal's.
EXIT_SIGNAL: Final = 128


@contextlib.contextmanager
def signals_deferred() -> Iterator[Sequence[int]]:
    """Let the signals that ask a program to end wait inside, and handle the first one afterwards.

    Foreign code that calls back into Python cannot propagate an exception. A signal handler may raise
    one at any instruction of the callback, also before its first `try`, and then it would be lost.

    Yields the signals that have arrived so far. Python handles signals in the main thread, so nothing
    happens in another one.

    Example:
        >>> import signal
        >>> try:
        ...     with signals_deferred() as arrived:
        ...         signal.raise_signal(signal.SIGINT)
        ...         print("still here:", len(arrived))
        ... except KeyboardInterrupt:
        ...     print("interrupted")
        still here: 1
        interrupted
    """
    arrived: list[int] = []
    handlers: dict[int, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:
                handler = signal.getsignal(number)
                if callable(handler):
                    handlers[number] = handler
                    signal.signal(number, lambda number, frame: arrived.append(number))
        yield arrived
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[0])
