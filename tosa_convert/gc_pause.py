"""Python's cyclic garbage collector, while graphs are made and when it goes on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: New objects from which on it pays to spare the collector a look at each.
MANY_OBJECTS: Final = 50_000
#: Every so many times that it was spared, the collector looks at everything.
SPARED_TIMES: Final = 10
_spared = 0


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Graphs are many small objects and no cycles: collecting while they are made only costs time.

    Nor is the collector to look at each of them when it goes on, which takes time once more: they are
    made old right away, and with them what others just left, which is found when all is looked at.
    """
    global _spared
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        is_large = gc.get_count()[0] > MANY_OBJECTS
        # Somebody who froze objects means them to stay frozen.
        if is_large and hasattr(gc, "freeze") and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
            _spared += 1
        gc.enable()
        if _spared >= SPARED_TIMES:
            _spared = 0
            gc.collect()
