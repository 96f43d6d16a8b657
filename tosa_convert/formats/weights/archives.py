"""The formats of weights in one file: how each is read, and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tosa_convert.formats.weights import gguf, irpa, safetensors
from tosa_convert.formats.weights.archive import Contents, Item
from tosa_convert.io.options import Limits, WeightForm
from tosa_convert.records import NamedTuple

#: Form of weights -> what returns the arrays of a file: its bytes and its name for messages are given.
READERS: Final[dict[str, Callable[[memoryview, str, Limits], Contents]]] = {
    "safetensors": safetensors.read,
    "irpa": irpa.read,
    "gguf": gguf.read,
}


class Writer(NamedTuple):
    """Writes a format.

    layout: puts arrays in the order of the file. elements: the bytes of an array. pieces: the content of
    a file of these arrays and a manifest.
    """

    layout: Callable[[Sequence[Item]], list[Item]]
    elements: Callable[[Item], Iterator[memoryview]]
    pieces: Callable[[Sequence[Item], bytes], Iterator[bytes | memoryview]]


#: Form of weights -> how it is written.
WRITERS: Final[dict[WeightForm, Writer]] = {
    "safetensors": Writer(safetensors.layout, safetensors.elements, safetensors.pieces),
    "irpa": Writer(irpa.layout, irpa.elements, irpa.pieces),
}
