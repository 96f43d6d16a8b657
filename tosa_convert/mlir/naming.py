"""Names for values that have none.

Names are generated as tosa-opt generates them, because people compare files of the two and because
names are how one finds a value again: arguments are TosaInput_k, returned values TosaOutput_k, all
others layer_k, and variables Variable_k. The counters run over all regions, in the order of the
regions in the file; layer_k counts every result, also those that get another name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import chain, count
from typing import Any, Final

from tosa_convert.mlir.quoting import STRING, unquote

_FILE: Final = re.compile(rf"loc\(({STRING}):(\d+):")


#: What the name of a result that has no other begins with; a number follows.
RESULT: Final = "layer_"


class Namer:
    """The counters of one graph."""

    def __init__(self) -> None:
        self.inputs = 0
        self.outputs = 0
        self.results = 0
        self.control_flow = 0
        self.regions: set[str] = set()

    def input(self) -> str:
        """The name of the next argument."""
        self.inputs += 1
        return f"TosaInput_{self.inputs - 1}"

    def output(self) -> str:
        """The name of the next returned value."""
        self.outputs += 1
        return f"TosaOutput_{self.outputs - 1}"

    def result(self) -> str:
        """The name of the next result that is not returned; call `count` for the others."""
        self.results += 1
        return f"{RESULT}{self.results - 1}"

    def count(self) -> None:
        """Count a result that has another name."""
        self.results += 1

    def region(self, stem: str, kind: str, given: str | None = None) -> str:
        """The name of a region, unique in the graph: readers find regions by name."""
        name = wanted = given or f"{stem}_{kind}"
        repeat = 0
        while name in self.regions:
            repeat += 1
            name = f"{wanted}_{repeat}"
        self.regions.add(name)
        return name

    def stem(self, location: str, mlir_name: str) -> str:
        """What the regions of a control-flow operator share: where it stands, or its number.

        location: as MLIR prints it, with the folders of files.
        """
        self.control_flow += 1
        found = _FILE.match(location)
        if found is None:
            return f"{self.control_flow - 1}_{mlir_name}"
        name = os.path.basename(unquote(found[1]))
        return f"{os.path.splitext(name)[0]}_L{found[2]}_{mlir_name}"


def results() -> Iterator[str]:
    """The names that `Namer.result` gives, one after the other."""
    # Formatting each number would take longer than all the rest that is done with a name.
    digits = [f"{number:03}" for number in range(1000)]
    return chain(
        map(f"{RESULT}{{}}".format, range(1000)),
        chain.from_iterable(map(f"{RESULT}{thousands}".__add__, digits) for thousands in count(1)),
    )


def unused(name: str, taken: set[str] | dict[str, Any]) -> str:
    """`name`, or the first of name_1, name_2, ... that is free."""
    if name not in taken:
        return name
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"
