"""What locations name: tensors of a TFLite model, and the source from which it was made."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tosa_convert.graph.model import Graph

#: In a location: the name of a tensor, and the TFLite file.
_TENSOR: Final = re.compile(r'"((?:[^"\\]|\\.)*)"\("(?:[^"\\]|\\.)*":0:0\)')
#: The first name of a location; a file is not one.
_NAME: Final = re.compile(r'^loc\((?:callsite\()?(?:fused\[)?"((?:[^"\\]|\\.)*)"(?!:)')
#: A file and a line.
_LINE: Final = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):')


def with_places(graph: Graph, places: Mapping[str, str], *, has_full_paths: bool) -> Graph:
    """Make places in the source the locations of the graph's operators.

    Example:
        >>> from tosa_convert.builder import Builder
        >>> b = Builder("main")
        >>> b.output(b.abs(b.input("x", "fp32", (1,))))
        >>> graph = b.graph()
        >>> graph.main.operators[0].location = 'loc("a"("m.tflite":0:0))'
        >>> places = {"a": 'loc("head/abs"("/home/net.py":9:0))'}
        >>> with_places(graph, places, has_full_paths=False).main.operators[0].location
        'loc("head/abs"("net.py":9:0))'
    """

    def place(found: re.Match[str]) -> str:
        text = places.get(found[1], "").removeprefix("loc(").removesuffix(")")
        if not text:
            return found[0]
        if has_full_paths:
            return text
        return _LINE.sub(lambda line: f'"{os.path.basename(line[1])}":{line[2]}:', text)

    for block in (block for region in graph.regions for block in region.blocks):
        for operator in block.operators:
            operator.location = _TENSOR.sub(place, operator.location)
    return graph


def place_text(index: int, *tensors: str) -> str:
    """Return where an operator is, for messages.

    That is its position, and the names of the tensors that it makes.
    """
    made = ", ".join(f'"{name}"' for name in tensors)
    return f"operator {index}, which makes {made}"


def line_of(location: str) -> str:
    """File and line of a location, as messages have them; "" if it has none.

    Example:
        >>> line_of('loc("head/abs"("/home/net.py":9:0))')
        '/home/net.py:9'
    """
    found = _LINE.search(location)
    return f"{found[1]}:{found[2]}" if found else ""


def name_of(location: str) -> str:
    """Return the name in a location such as `loc("x"("model.tflite":0:0))`; of several, the first.

    Example:
        >>> name_of('loc("/embed/Gather")')
        '/embed/Gather'
    """
    found = _NAME.match(location)
    return found[1] if found else ""
