"""Pauses Python's cyclic garbage collector while graphs are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector, unless it is paused already.

    A graph is many small objects and no cycles, so collecting while one is made only takes time.

    Example:
        >>> import gc
        >>> with garbage_collection_paused():
        ...     gc.isenabled()
        False
        >>> gc.isenabled()
        True
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
