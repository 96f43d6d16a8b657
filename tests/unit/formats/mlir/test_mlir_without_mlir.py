"""Programs as bytecode and back without MLIR: everything in mlir/ works if no bindings are installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tosa_convert.formats.mlir.bytecode import operation_columns
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.encode import Encoder
from tosa_convert.formats.mlir.bytecode.format import (
    HAS_ATTRIBUTES,
    HAS_OPERANDS,
    HAS_PROPERTIES,
    HAS_RESULTS,
    VERSION,
)
from tosa_convert.formats.mlir.bytecode.operation_columns import (
    decode_columns,
    varints_at,
    words_of,
)
from tosa_convert.formats.mlir.bytecode.operations import _decode, _Regions, operations_of
from tosa_convert.formats.mlir.bytecode.read_sections import BytecodeFile, read_sections
from tosa_convert.formats.mlir.bytecode.varints import decode_varint, encode_varint
from tosa_convert.formats.mlir.locations import LocationReader
from tosa_convert.formats.mlir.write.region_body import LocationWriter
from tosa_convert.graph.constant import in_order


def file_of(file: bytes) -> BytecodeFile:
    """Return the sections of a file that `Encoder` wrote."""
    return read_sections(memoryview(file))


def no_properties(name: int, attributes: int, properties: int) -> int:
    raise AssertionError("this version has no native properties")


NUMBERS = st.one_of(
    *(st.integers(0, (1 << 7 * width) - 1) for width in (1, 2, 3, 4)), st.integers(0, 2**63)
)
LISTS = st.lists(NUMBERS, max_size=3)
OPERATIONS = st.lists(
    st.tuples(NUMBERS, NUMBERS, st.none() | NUMBERS, LISTS, LISTS), min_size=1, max_size=4
)


@pytest.mark.slow
@given(OPERATIONS)
def test_operations_are_decoded_as_they_were_encoded(
    operations: list[tuple[int, int, int | None, list[int], list[int]]],
) -> None:
    data = encode_varint(len(operations) << 1)
    for name, location, attributes, types, operands in operations:
        has = HAS_ATTRIBUTES * (attributes is not None)
        has |= HAS_RESULTS * bool(types) | HAS_OPERANDS * bool(operands)
        data += encode_varint(name) + bytes([has]) + encode_varint(location)
        data += b"" if attributes is None else encode_varint(attributes)
        for numbers in (types, operands):
            if numbers:
                data += encode_varint(len(numbers)) + b"".join(map(encode_varint, numbers))
    expected: list[object] = []
    value = 0
    for name, location, attributes, types, operands in operations:
        number = -1 if attributes is None else attributes
        expected.append((name, location, number, types, operands, value, []))
        value += len(types)
    assert _decode(data, _Regions(data, VERSION, 1 << 63, no_properties)) == expected


def small(limit: int) -> st.SearchStrategy[int]:
    return st.integers(0, limit)


#: Operations of which most are ordinary: location, attributes, properties, types and operands.
ORDINARY = st.lists(
    st.tuples(
        small(5), st.none() | small(200), st.none() | small(200), small(9), st.lists(small(1 << 15))
    ),
    min_size=1,
    max_size=60,
)


@pytest.mark.slow
@given(
    ORDINARY, st.integers(0, 1 << 40), st.integers(0, 9), st.integers(0), st.sampled_from([3, 99])
)
def test_operations_decoded_in_columns_equal_others(
    operations: list[tuple[int, int | None, int | None, int, list[int]]],
    odd: int,
    names: int,
    damage: int,
    window: int,
) -> None:
    """The last operand may be a long number, and a bit may be another."""
    encoded: list[bytes] = []
    for name, attributes, properties, type_, operands in operations:
        flags = HAS_ATTRIBUTES * (attributes is not None)
        flags |= HAS_PROPERTIES * (properties is not None)
        flags |= HAS_RESULTS * (type_ > 1) | HAS_OPERANDS * bool(operands)
        numbers = [name * 999, attributes, properties]
        numbers += [1, type_] if type_ > 1 else []
        numbers += [len(operands), *operands] if operands else []
        if len(operands) > 2:
            numbers[-1] = odd
        rest = [encode_varint(number) for number in numbers if number is not None]
        encoded.append(encode_varint(name) + bytes([flags]) + b"".join(rest))
    data = bytearray(encode_varint(len(operations) << 1) + b"".join(encoded))
    if damage % 3 == 0:
        data[damage // 3 % len(data)] ^= 1 << damage % 8
    raw = bytes(data)
    head, start = decode_varint(raw, 0) if raw[0] else (0, 1)

    def join(*key: int) -> int:
        return hash(key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operation_columns, "_WINDOW", window)
        found = decode_columns(raw, start, head >> 1, 7, names, join) if head >> 1 else None
    if found is None:
        return
    columns, end = found
    expected = _decode(raw[:end], _Regions(raw[:end], VERSION, names, join))
    shifted = [(*fields[:5], fields[5] + 7, fields[6]) for fields in expected]
    assert list(operations_of(columns)) == shifted
    for index, fields in enumerate(shifted):
        assert list(operations_of(columns.only(index))) == [fields]


def test_ordinary_operations_are_decoded_in_columns() -> None:
    ends = {}
    for count in (1, 2, 30_000):
        operation = bytes((3, HAS_RESULTS | HAS_OPERANDS, 5)) + b"".join(
            map(encode_varint, (1, 7, 3, 4, 300, 70_000))
        )
        data = b"..." + operation * count
        decoded = decode_columns(data, 3, count, 0, 2, no_properties)
        assert decoded is not None
        columns, ends[count] = decoded
        assert ends[count] == len(data)
        assert columns.operands.tolist() == [4, 300, 70_000] * count
        assert decode_columns(data, 3, count, 0, 1, no_properties) is None
        assert decode_columns(data, 3, count + 1, 0, 2, no_properties) is None
        assert decode_columns(data[:-1], 3, count, 0, 2, no_properties) is None


@pytest.mark.slow
@given(st.lists(NUMBERS, max_size=9), st.binary(max_size=9))
def test_varints_decoded_together_equal_others(numbers: list[int], last: bytes) -> None:
    data = b"".join(map(encode_varint, numbers)) + last
    at = np.arange(len(data))
    found, after = varints_at(words_of(data), at)
    everywhere = varints_at(words_of(data), slice(None))
    assert (everywhere[0][: len(data)] == found).all()
    assert (everywhere[1][: len(data)] == after).all()
    for place, number, end in zip(at.tolist(), found.tolist(), after.tolist(), strict=True):
        if end > len(data):
            continue
        expected, stop = decode_varint(data + bytes(9), place)
        assert (number, end) == (expected, stop) if stop - place <= 4 else end == place


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from("fg"), NUMBERS, NUMBERS), min_size=1, max_size=5))
def test_plain_locations_equal_parsed_ones(
    places: list[tuple[str, int, int]],
) -> None:
    texts = [f'loc("{file}":{line % 2**32}:{column % 2**32})' for file, line, column in places]
    encoder = Encoder()
    writer = LocationWriter(encoder)
    numbers = writer.all(texts)
    by_parser: dict[str, Any] = {text: writer.parse(text) for text in texts}
    encoder.operation("builtin.module")
    file = b"".join(in_order(encoder.finish([encode_varint(0), b"\0", encode_varint(0)])))
    reader = LocationReader(Bytecode(file_of(file)), full_paths=True)
    indices = [decode_varint(number, 0)[0] for number in numbers]
    assert reader.together(np.array(indices)) == texts
    for text, number in zip(texts, numbers, strict=True):
        index = decode_varint(number, 0)[0]
        assert reader([index]) == [reader.full(index)] == [text]
        parsed = decode_varint(by_parser[text], 0)[0]
        entries = encoder.attributes.entries
        assert entries[index] == entries[parsed]
