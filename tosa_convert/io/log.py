"""The log of the package: `logging`, imported with the first message, under "tosa_convert"."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Final

from tosa_convert.errors import printable

NAME: Final = "tosa_convert"
#: How the command line prints a message on stderr.
_FORMAT: Final = "%(levelname)s: %(message)s"

_for_command_line = False
#: The level of logging.INFO, logging.WARNING or logging.ERROR.
_INFO, _WARNING, _ERROR = 20, 30, 40
_level = _WARNING


def print_for_command_line() -> None:
    """Let warnings be printed as the command line does, unless the program has configured logging."""
    global _for_command_line
    _for_command_line = True


def choose_level(*, quiet: bool = False, verbose: bool = False) -> None:
    """Choose what the command line prints: with `quiet` no warnings, with `verbose` also `info`."""
    global _level
    _level = _ERROR if quiet else _INFO if verbose else _WARNING


def is_quiet() -> bool:
    """Return whether the command line prints errors only."""
    return _level == _ERROR


def is_verbose() -> bool:
    """Return whether the command line prints more than the result."""
    return _level == _INFO


def info(message: str, *values: object) -> None:
    """Print what the command line recognised or assumed, if --verbose asks for it."""
    if _for_command_line and _level == _INFO:
        _log(_INFO, message, values)


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    """Say with --verbose how long the block took."""
    start = time.perf_counter()
    yield
    info("%s took %.2f s", what, time.perf_counter() - start)


def warning(message: str, *values: object) -> None:
    """Log a warning. values: for the %-places of the message."""
    if not is_quiet():
        _log(_WARNING, message, values)


def _log(level: int, message: str, values: tuple[object, ...]) -> None:
    import logging

    if _for_command_line:
        logging.basicConfig(format=_FORMAT, level=logging.WARNING)
        if _level == _INFO:
            logging.getLogger(NAME).setLevel(_INFO)
    plain = [row if isinstance(row, (int, float)) else printable(str(row)) for row in values]
    logging.getLogger(NAME).log(level, message, *plain, stacklevel=3)


@contextlib.contextmanager
def warnings_off() -> Iterator[None]:
    """Log no warnings inside the block: of a thousand models nobody reads them.

    Example:
        >>> with warnings_off():
        ...     warning("%d tensors are dynamic", 2)
    """
    import logging

    logger = logging.getLogger(NAME)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def shows_debug() -> bool:
    """Return whether messages of `debug` are shown: never while logging is not imported."""
    logging = sys.modules.get("logging")
    return logging is not None and logging.getLogger(NAME).isEnabledFor(logging.DEBUG)


def debug(message: str, *values: object) -> None:
    """Log a message for those who look for the reason of a result."""
    if not shows_debug():
        return
    import logging

    logging.getLogger(NAME).debug(message, *values, stacklevel=2)
