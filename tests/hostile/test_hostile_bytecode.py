"""Hostile bytecode files: refused at a byte, with time and memory in proportion to the file."""

from __future__ import annotations

import contextlib
import io
import re
import time
import tracemalloc
from collections.abc import Callable
from functools import cache

import pytest
from refusing import refused
from unit.building import graph, op, shape, tensor
from unit.graph.test_verify import zoo

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.format import NEWEST_VERSION
from tosa_convert.formats.mlir.bytecode.read_sections import read_sections
from tosa_convert.formats.mlir.bytecode.varints import encode_varint
from tosa_convert.formats.mlir.text.print.attributes import short_text
from tosa_convert.formats.mlir.write.module import encode_module
from tosa_convert.graph.constant import in_order
from tosa_convert.io.options import WriteOptions

VERSIONS = range(NEWEST_VERSION + 1)


@cache
def bytecode(bindings: Bindings, version: int) -> bytes:
    sink = io.BytesIO()
    tc.to_module(zoo(), bindings.new_context()).operation.write_bytecode(sink, version)
    return sink.getvalue()


def attributes_of(data: bytes) -> list[str]:
    """Return the attributes of the file's operation, as messages print them."""
    bytecode = Bytecode(read_sections(memoryview(data)))
    found = bytecode.dictionary(bytecode.root.attributes)
    return [short_text(bytecode, index) for index in found.values()]


def refusal(data: bytes, read: Callable[[bytes], object] = tc.load) -> str:
    """Return what the refusal of a file says; it names the byte."""
    with refused("malformed-mlir") as caught:
        read(data)
    assert re.match(r"byte \d+: error: ", str(caught.value))
    return str(caught.value)


#: The number 2**62, in nine bytes.
HUGE = b"\x00" + (1 << 62).to_bytes(8, "little")
NAMES = ("strings", "dialects", "entries", "offsets", "operations", "resources", "resource_offsets",
         "versions", "properties")  # fmt: skip


def numbers(*values: int) -> bytes:
    return b"".join(map(encode_varint, values))


def build(**contents: bytes) -> bytes:
    """Return a file of version 6 with these sections; the others are those of an empty module."""
    strings = [b"builtin", b"module"]
    lengths = numbers(len(strings), *(len(text) + 1 for text in reversed(strings)))
    file = {
        "strings": lengths + b"\0".join(strings) + b"\0",
        # One dialect without a version, and one operation of it.
        "dialects": numbers(1, 0 << 1, 1, 0, 1, 1 << 1 | 1),
        "entries": numbers(15),
        "offsets": numbers(1, 0, 0, 1, 1 << 1 | 1),
        # A block with one operation: its name, nothing else, and its location.
        "operations": numbers(1 << 1) + numbers(0) + b"\x00" + numbers(0),
        **contents,
    }
    data = b"ML\xefR" + numbers(6) + b"x\0"
    for name in sorted(file, key=NAMES.index):
        data += bytes([NAMES.index(name)]) + numbers(len(file[name])) + file[name]
    return data


def with_dictionary(*encoded: bytes) -> bytes:
    """Return a file of version 4 with a module that has the first of these attributes."""
    operations = numbers(1 << 1, 0) + b"\x01" + numbers(0, 1)
    names = numbers(1, 0, 1, 0, 1, 1)
    data = build(operations=operations, dialects=names, **entries(*encoded))
    return data.replace(b"ML\xefR" + numbers(6), b"ML\xefR" + numbers(4), 1)


def entries(*encoded: bytes) -> dict[str, bytes]:
    """Attributes after the unknown location; they are numbered from 1."""
    every = [numbers(15), *encoded]
    sizes = [len(entry) << 1 | 1 for entry in every]
    return {"entries": b"".join(every), "offsets": numbers(len(every), 0, 0, len(every), *sizes)}


def test_the_files_built_here_are_sound() -> None:
    with refused("no-function", match=r"no func\.func"):
        tc.load(build())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_truncated_file_is_refused_at_a_byte(bindings: Bindings, version: int) -> None:
    data = bytecode(bindings, version)
    for size in range(5, len(data) - 1, 31):
        refusal(data[:size])


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"strings": HUGE}, "found 4611686018427387904 strings, but only 0 bytes are left"),
        ({"strings": numbers(1) + HUGE}, "a string has 4611686018427387904 bytes"),
        ({"strings": numbers(1, 0)}, "a string of 0 bytes"),
        ({"dialects": HUGE}, "found 4611686018427387904 dialects"),
        ({"dialects": numbers(0) + HUGE}, "found 4611686018427387904 operation names"),
        ({"dialects": numbers(1, 9 << 1, 0)}, "a dialect's name is string 9 of 2"),
        ({"dialects": numbers(1, 0, 1, 1, 1, 2)}, "dialect of operations is 1, expected less"),
        ({"dialects": numbers(1, 0, 1, 0, 1, 9 << 1)}, "operation's name is string 9 of 2"),
        ({"offsets": HUGE + numbers(0)}, "found 4611686018427387904 attributes"),
        ({"offsets": numbers(0) + HUGE}, "found 4611686018427387904 types"),
        ({"offsets": numbers(1, 0, 3, 1, 3)}, "is of dialect 3, expected less than 1"),
        ({"offsets": numbers(1, 0, 0, 2, 3, 3)}, "found 2 attributes or types of a dialect"),
        ({"offsets": numbers(1, 0, 0, 1, 99)}, "attributes and types have 49 bytes"),
        ({"properties": HUGE}, "found 4611686018427387904 properties"),
        ({"properties": numbers(1, 5)}, "properties has 5 bytes, but only 0 are left"),
        ({"operations": numbers(9 << 1)}, "ends in the middle of an operation"),
        ({"operations": HUGE}, "ends in the middle of an operation"),
        ({"operations": numbers(1 << 1, 7) + b"\0" + numbers(0)}, "name of an operation is number 7"),
        ({"operations": numbers(1 << 1, 0) + b"\0" + numbers(7)}, "location of an operation is num"),
        ({"operations": numbers(1 << 1, 0) + b"\1" + numbers(0, 7)}, "dictionary of an operation is"),
        ({"operations": numbers(0)}, "found 0 operations at the top, expected one"),
        ({"resource_offsets": numbers(0, 0) + HUGE, "resources": b""}, "found 46116860184273879"),
    ],
)  # fmt: skip
def test_a_count_or_a_number_outside_the_file_is_refused(
    contents: dict[str, bytes], message: str
) -> None:
    assert message in refusal(build(**contents))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"ML\xefR", "the version is outside"),
        (b"ML\xefR\x0dx", "the producer's name has no end"),
        (b"ML\xefR\x0dx\x00\x09\x01", "found section 9, expected at most 8"),
        (b"ML\xefR\x0dx\x00\x00\xff", "has 127 bytes, but only 0 are left"),
        (b"ML\xefR\x0dx\x00\x80\x01\x07", "found alignment 3, expected a power of two"),
        (b"ML\xefR\x0dx\x00\x00\x01\x00\x01", "found a second section of strings"),
        (b"ML\xefR\x0dx\x00", "the section of strings is missing"),
    ],
)
def test_a_wrong_section_structure_is_refused(data: bytes, message: str) -> None:
    assert message in refusal(data)


def test_a_version_that_is_not_known_is_refused() -> None:
    with refused("unsupported-version", match="found version 7"):
        tc.load(build().replace(numbers(6) + b"x", numbers(7) + b"x", 1))


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        ([numbers(1) + HUGE], "9223372036854775808 numbers, but only 0 bytes are left"),
        ([numbers(1, 1, 2, 3), numbers(2, 9), numbers(7)], "refers to a string that is not there"),
        ([numbers(0, 0)], "is not a dictionary"),
        ([numbers(1, 1, 1, 1)], "is not a string"),
    ],
)
def test_a_malformed_attribute_is_refused(encoded: list[bytes], message: str) -> None:
    assert message in refusal(with_dictionary(*encoded), attributes_of)


def test_properties_that_fit_no_layout_are_refused() -> None:
    operations = numbers(1 << 1, 0) + b"\x40" + numbers(0, 0)
    for blob in (b"", numbers(0), numbers(0, 0, 0), numbers(2, 0), numbers(99, 0)):
        file = build(operations=operations, properties=numbers(1, len(blob)) + blob)
        message = "the properties of 'builtin.module' fit none of the layouts"
        assert message in refusal(file, attributes_of)
    file = build(operations=operations, properties=numbers(0))
    assert "found properties 0, expected less than 0" in refusal(file, attributes_of)


def test_a_dictionary_that_only_native_properties_could_be_is_refused() -> None:
    """Numbers in the file never mean the dictionaries that are put together here."""
    for number in (1, 2, 3, (1 << 64) - 2):
        operations = numbers(1 << 1, 0) + b"\x41" + numbers(0, number, 0)
        file = build(operations=operations, properties=numbers(1, 2, 0, 0))
        assert f"found attribute {number}, expected less than 1" in refusal(file, attributes_of)


def timed(data: bytes) -> tuple[float, int]:
    """Seconds and peak bytes that a file takes to refuse or to read."""
    tracemalloc.start()
    began = time.process_time()
    for read in (tc.load, attributes_of):
        with contextlib.suppress(tc.TosaConvertError):
            read(data)
    seconds = time.process_time() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return seconds, peak


def bombs() -> dict[str, bytes]:
    """Return files that expand without bound for a reader that trusts them."""
    size = 1 << 12
    long = b"builtin\0" + b"a" * (1 << 16) + b"\0"
    strings = numbers(2, (1 << 16) + 1, 8) + long
    nested = [numbers(0, 2, index + 2, index + 2) for index in range(60)]
    target = numbers(2, 1)  # the string "module"
    lists = [numbers(0, size, *[2] * 8) for _ in range(size)]
    dictionary = numbers(1, 1, 2, 3)
    return {
        "names that share a long string": build(
            strings=strings, dialects=numbers(1, 0, size) + numbers(0, size, *[1 << 1 | 1] * size)
        ),
        "arrays that share their parts": with_dictionary(dictionary, target, *nested, numbers(7)),
        "arrays that claim the bytes of others": with_dictionary(dictionary, target, *lists),
        "a location within itself": build(
            operations=numbers(1 << 1, 0) + b"\x00" + numbers(1),
            **entries(numbers(12, 2000, *[1] * 2000)),
        ),
        "locations that share their parts": build(
            operations=numbers(1 << 1, 0) + b"\x00" + numbers(1),
            **entries(*(numbers(10, index + 2, index + 2) for index in range(60)), numbers(15)),
        ),
        "symbols that refer to symbols": with_dictionary(
            dictionary, target, *(numbers(4, index + 4) for index in range(size)), target
        ),
        "regions within regions": build(
            operations=numbers(1 << 1) + (numbers(0) + b"\x10" + numbers(0, 2, 1, 0, 2)) * size
        ),
        "blocks without end": build(
            operations=numbers(1 << 1, 0) + b"\x10" + numbers(0, 2) + HUGE + numbers(*[0] * size)
        ),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", bombs())
def test_a_bomb_takes_neither_time_nor_memory(name: str) -> None:
    data = bombs()[name]
    seconds, peak = timed(data)
    assert seconds < 3
    assert peak < (32 << 20) + 400 * len(data)


def test_a_location_of_endless_text_is_refused() -> None:
    for name in ("a location within itself", "locations that share their parts"):
        with refused("too-large", match="takes more than"):
            tc.load(bombs()[name])


@pytest.mark.parametrize("version", [1, 6])
@pytest.mark.parametrize("name", ["CONST", "CONST_SHAPE"])
def test_constants_of_the_other_kind_of_value_are_refused(name: str, version: int) -> None:
    """The same constant twice: the second is found by the numbers of its attributes and type."""
    values = [tensor(one, "INT64", (2,), bytes(16)) for one in "ab"]
    shapes = [shape(one, 0, 0) for one in "st"]
    operators = [op(name, "", one) for one in "abst"]
    made = graph("", "a b", [*values, *shapes], operators)
    data = b"".join(in_order(encode_module(made, WriteOptions(bytecode_version=version)).pieces))
    findings = tc.verify(tc.load(data))
    assert [finding.code for finding in findings] == ["malformed-operator"] * 2
