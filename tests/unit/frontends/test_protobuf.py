"""Fields of protocol buffers, written and read without a schema."""

from __future__ import annotations

import pytest

from tosa_convert.frontends.protobuf import (
    encoded_bytes,
    encoded_number,
    fields,
    message,
    numbers,
    spans,
)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32, 2**64 - 1])
def test_a_number_that_was_encoded_is_read(value: int) -> None:
    data = encoded_number(3, value)
    assert list(fields(data)) == [(3, value)]
    assert list(spans(data + data)) == [
        (3, value, 0, len(data)),
        (3, value, len(data), 2 * len(data)),
    ]
    ((_, found),) = fields(data)
    assert numbers(found) == [value]
    with pytest.raises(ValueError, match="a field has a number, expected bytes"):
        message(found)


@pytest.mark.parametrize("pieces", [[], [b"ab"], [b"a" * 100, b"b" * 100]])
def test_a_text_in_pieces_is_read_as_one(pieces: list[bytes]) -> None:
    data = b"".join(encoded_bytes(20, *pieces))
    ((number, value),) = fields(data)
    assert (number, bytes(message(value))) == (20, b"".join(pieces))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x0b", "the unknown wire type 3"),
        (b"\x0a\x05ab", "a field ends after the data"),
        (b"\x0d\x00\x00", "a field ends after the data"),
        (b"\x08" + b"\xff" * 11, "a number"),
        (b"\x08\x80", "a number"),
    ],
)
def test_what_is_no_protocol_buffer_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        list(fields(data))
