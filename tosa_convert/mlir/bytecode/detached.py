"""Constants whose data is not in a module's bytecode but in the file that the module was read from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class DetachedConstant(NamedTuple):
    """The data of a constant, and whether the file holds it as a dense attribute (else a resource)."""

    data: memoryview
    is_dense: bool


#: Detached constants by the name of the resource that replaces each in the module.
DetachedWeights = Mapping[str, DetachedConstant]
NO_DETACHED_WEIGHTS: Final[DetachedWeights] = {}
