"""Where the objects of a flatbuffer may end: each may be the last of the file, and none goes beyond."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import pytest
from unit.both_readers import read
from unit.building import PRODUCER, counting, example
from unit.graph.test_verify import zoo
from unit.surgery import File

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.flatbuffer.annotate import Annotation
from tosa_convert.formats.flatbuffer.read import read_few
from tosa_convert.formats.flatbuffer.write import plan
from tosa_convert.graph import Graph, compare

BLOCK = "regions 0 blocks 0"
#: Paths of objects from which no offset leads on -> bytes of an element of a vector; or the kind.
LEAVES: dict[str, int | str] = {
    "regions 0 name": "string",
    f"{BLOCK} tensors 1 name": "string",
    f"{BLOCK} operators 1 location text": "string",
    f"{BLOCK} tensors 1 shape": 4,
    f"{BLOCK} tensors 1 data": 1,
    f"{BLOCK} shapes 0 data": 1,
    "version": "table",
    f"{BLOCK} operators 2 attribute": "table",
}


def encode(made: Graph, **options: Any) -> bytes:
    return b"".join(plan(made, PRODUCER, **options).pieces())


def ending_with(path: str) -> bytes:
    """Return the example, whose file ends with the object at a path."""
    data, kind = File(encode(example())), LEAVES[path]
    place = data.at(path)
    start, vtable = place.target, 0
    if isinstance(kind, int):
        size = 4 + data.u32(start) * kind
    elif kind == "string":
        size = 4 + data.u32(start) + 1
    else:
        vtable = start - struct.unpack_from("<i", data, start)[0]
        (size,) = struct.unpack_from("<H", data, vtable + 2)
    data += bytes(-len(data) % 16 + 12)  # data of 16 bytes and more begins at a multiple of 16
    end = len(data)
    data += data[start : start + size]
    data.put("I", place.field, end - place.field)
    if vtable:
        data.put("i", end, end - vtable)
    return bytes(data)


@pytest.mark.parametrize("path", LEAVES)
def test_an_object_may_be_the_last_bytes_of_a_file(path: str) -> None:
    data = ending_with(path)
    assert compare(read(data), example(), locations=True) is None
    assert Annotation(memoryview(data)).errors == []
    # The bytes that are cut off may be few, or all but the first of a length or an offset.
    for size in (1, 2, 4):
        cut = data[:-size]
        with pytest.raises(TosaConvertError) as caught:
            read(cut)
        assert caught.value.code == "malformed-flatbuffer", size
        assert len(Annotation(memoryview(cut)).errors) == 1, size


def test_data_after_the_flatbuffer_may_be_the_last_bytes_of_a_file() -> None:
    data = encode(example(), out_of_line=True)
    assert compare(read(data), example(), locations=True) is None
    with pytest.raises(TosaConvertError) as caught:
        read(data[:-1])
    assert caught.value.code == "missing-data"
    (error,) = Annotation(memoryview(data[:-1])).errors
    assert (error.offset, error.path) == (len(data) - 24, "regions[0].blocks[0].tensors[1]")


@pytest.mark.parametrize(
    ("make", "out_of_line"), [(example, True), (counting, False), (zoo, False)]
)
def test_a_changed_byte_is_read_alike_in_both_ways(
    make: Callable[[], Graph], out_of_line: bool
) -> None:
    sound = encode(make(), out_of_line=out_of_line)
    read(sound)
    rng = random.Random(f"{make.__name__} {out_of_line}")
    taken = refused = 0
    for position in rng.sample(range(len(sound)), 100):
        old = sound[position]
        changed = bytearray(sound)
        changed[position] = rng.choice([old ^ 1, old + 4 & 255, old - 4 & 255, 255, 0, 128])
        try:
            read(changed)
        except TosaConvertError:
            refused += 1
            continue
        # What is right is taken by the reader of few tables, too.
        assert read_few(memoryview(changed)) is not None, position
        taken += 1
    assert min(taken, refused) > 10
