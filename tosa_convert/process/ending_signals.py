"""Signals that ask a program to end: as exceptions, deferred while foreign code calls back."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tosa_convert.exit_codes import EXIT_SIGNAL

if TYPE_CHECKING:
    import socket

#: Signals that ask a program to end, as far as the system has them.
ENDING: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
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

    def end_if_not_heard(self, wakeups: socket.socket) -> None:
        """Wait for signals in a thread, and end the process if its main thread does not handle one."""
        while received := wakeups.recv(1):
            number = received[0]
            late = time.monotonic() + SAME_REQUEST
            # The handler is another one while signals are deferred.
            while not self.number and signal.getsignal(number) is self:
                if time.monotonic() > late:
                    for remove in reversed(_UNFINISHED):
                        with contextlib.suppress(OSError):
                            remove()
                    os._exit(EXIT_SIGNAL + number)
                time.sleep(_LOOK_EVERY)


#: What removes unfinished files.
_UNFINISHED: Final[list[Callable[[], object]]] = []
#: Seconds between two looks at whether a signal was handled.
_LOOK_EVERY: Final = 0.05


@contextlib.contextmanager
def removed_if_ended(remove: Callable[[], object]) -> Iterator[None]:
    """Call `remove` if the process is ended inside of the block without an exception."""
    _UNFINISHED.append(remove)
    try:
        yield
    finally:
        _UNFINISHED.remove(remove)


@contextlib.contextmanager
def ended_while_computing() -> Iterator[None]:
    """Let signals end the process inside of the block even while numpy computes one large array.

    Python calls a signal handler between two of its instructions, and a product of large matrices is
    one. So a thread hears of the signal, too; where the handler has not been called a second later, it
    removes unfinished files and ends the process. Temporary folders are removed as after a kill.

    Nothing happens in a process whose signals are not handled by `RequestToEnd`.
    """
    handlers = map(signal.getsignal, ENDING)
    request = next((h for h in handlers if isinstance(h, RequestToEnd)), None)
    if request is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    import socket

    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    watcher = threading.Thread(target=request.end_if_not_heard, args=(ours,), daemon=True)
    before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    try:
        watcher.start()
        yield
    finally:
        signal.set_wakeup_fd(before)
        theirs.close()
        if watcher.ident is not None:
            watcher.join()
        ours.close()


@contextlib.contextmanager
def signals_deferred() -> Iterator[Sequence[int]]:
    """Defer the signals that ask a program to end, and handle the first one after the `with` block.

    Foreign code that calls back into Python cannot propagate an exception. A signal handler may raise
    one at any instruction of the callback, also before its first `try`, and then it would be lost.

    Yields the signals that have arrived so far. Python handles signals in the main thread, so nothing
    happens in another one.
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
