"""Signals that ask a program to end: as exceptions, and deferred while foreign code calls back."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

#: Signals that ask a program to end, as far as the system has them.
ENDING: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
#: A shell reports a process that a signal ended as this number plus the signal's.
EXIT_SIGNAL: Final = 128
#: Seconds in which a second request to end is the first one again: a terminal sends it to all
#: processes, and a parent forwards it. It must not disturb the clean-up.
SAME_REQUEST: Final = 1.0


class Terminated(BaseException):
    """A signal other than Ctrl-C asked the process to end."""

    def __init__(self, number: int) -> None:
        self.number = number


class RequestToEnd:
    """A signal handler for a process of our own: it raises, so that unfinished files are removed.

    Python loses the exception of a signal handler in some places, such as the compiler of modules and
    `__del__`. So the request is remembered, too.
    """

    def __init__(self) -> None:
        #: The signal that asked the process to end, or 0.
        self.number = 0
        self._heard_at = -SAME_REQUEST

    def install(self) -> None:
        """Handle the signals that are not ignored, as nohup ignores one."""
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self)

    @property
    def exit_code(self) -> int:
        """Return the exit code of a process that was asked to end, or 0."""
        return EXIT_SIGNAL + self.number if self.number else 0

    def __call__(self, number: int, frame: object) -> None:
        now = time.monotonic()
        if now - self._heard_at < SAME_REQUEST:
            return
        self._heard_at = now
        self.number = number
        self.raise_if_heard()

    def raise_if_heard(self) -> None:
        """Raise KeyboardInterrupt or Terminated if the process was asked to end."""
        if self.number == signal.SIGINT:
            raise KeyboardInterrupt
        if self.number:
            raise Terminated(self.number)


@contextlib.contextmanager
def signals_deferred() -> Iterator[Sequence[int]]:
    """Defer the signals that ask a program to end, and handle the first one after the `with` block.

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
