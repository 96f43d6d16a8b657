"""Bytecode that we write: every kind of entry is what both bindings read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.mlir.bytecode.encode import Encoder
from tosa_convert.formats.mlir.bytecode.format import HAS_ATTRIBUTES, HAS_REGIONS
from tosa_convert.formats.mlir.bytecode.operation_columns import (
    encode_together,
    integers_of,
    join_together,
)
from tosa_convert.formats.mlir.bytecode.read_sections import read_sections
from tosa_convert.formats.mlir.bytecode.varints import encode_varint
from tosa_convert.formats.mlir.names import result_names
from tosa_convert.formats.mlir.types import AttributeWriter, TypeWriter
from tosa_convert.formats.mlir.write.region_body import LocationWriter, encode_plain
from tosa_convert.graph.constant import in_order
from tosa_convert.graph.dtypes import dtype
from tosa_convert.graph.opset import operator

Make = Callable[[Encoder], bytes]


def with_attribute(make: Make, *, location: Make | None = None) -> bytes:
    """Return an empty module whose attribute test.x is what `make` adds."""
    encoder = Encoder()
    value, numbers = make(encoder), encoder.numbers
    place = encoder.unknown if location is None else location(encoder)
    pieces = [
        encoder.operation("builtin.module"),
        bytes((HAS_ATTRIBUTES | HAS_REGIONS,)),
        place,
        encoder.dictionary([("test.x", value)]),
        numbers[1 << 1 | 1],  # a region
        numbers[1],  # of one block
        numbers[0],  # without values
        numbers[0],  # and without operations
    ]
    return b"".join(in_order(encoder.finish(pieces)))


def read_back(bindings: Bindings, context: Any, make: Make) -> Any:
    data = with_attribute(make)
    read_sections(memoryview(data))
    return bindings.ir.Module.parse(data, context).operation.attributes["test.x"]


def parsed(bindings: Bindings, context: Any, text: str) -> Any:
    return bindings.ir.Attribute.parse(text, context)


# -- numbers ------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 2**49 - 1) | st.integers(0, 300), max_size=9))
def test_numbers_joined_together_equal_others(numbers: list[int]) -> None:
    pieces = [encode_varint(number) for number in numbers]
    encoded, widths = encode_together(np.array(numbers, np.int64))
    assert join_together(encoded, widths) == b"".join(pieces)
    again = integers_of(pieces)
    assert (again[0] == encoded).all()
    assert (again[1] == widths).all()


def test_generated_names_are_numbered() -> None:
    found = result_names()
    assert all(next(found) == f"layer_{number}" for number in range(12_345))


# -- attributes ---------------------------------------------------------------------------------


def attribute(name: str, row: str, value: Any, element: str = "") -> Make:
    """Return the attribute of an operator, written and read by MLIR."""

    def make(encoder: Encoder) -> bytes:
        spec = operator(name)
        writer = AttributeWriter(encoder, TypeWriter(encoder))
        (found,) = [found for found in spec.attributes if found.name == row]
        return writer(spec, found, value, dtype(element) if element else None)

    return make


ATTRIBUTES: dict[str, Make] = {
    "0 : i32": attribute("ARGMAX", "axis", 0),
    "-1 : i32": attribute("ARGMAX", "axis", -1),
    "2147483647 : i32": attribute("ARGMAX", "axis", 2**31 - 1),
    "-2147483648 : i32": attribute("ARGMAX", "axis", -(2**31)),
    "true": attribute("FFT2D", "inverse", True),
    "false": attribute("FFT2D", "inverse", False),
    "array<i64: 1, -2, 2147483647, 0>": attribute("MAX_POOL2D", "pad", (1, -2, 2**31 - 1, 0)),
    "array<i32: 2, 0, 1>": attribute("TRANSPOSE", "perms", (2, 0, 1)),
    "array<i32>": attribute("TRANSPOSE", "perms", ()),
    "i48": attribute("CONV2D", "acc_type", dtype("INT48")),
    "f32": attribute("CONV2D", "acc_type", dtype("FP32")),
    '"op"': attribute("CUSTOM", "operator_name", "op"),
    "127 : i8": attribute("CLAMP", "max_val", b"\x7f", "INT8"),
    "-128 : i8": attribute("CLAMP", "max_val", b"\x80", "INT8"),
    "-3 : i4": attribute("CLAMP", "max_val", b"\x0d", "INT4"),
    "-2 : i16": attribute("CLAMP", "max_val", b"\xfe\xff", "INT16"),
    "-140737488355328 : i48": attribute("CLAMP", "max_val", b"\0\0\0\0\0\x80", "INT48"),
    "-1 : i64": attribute("CLAMP", "max_val", b"\xff" * 8, "INT64"),
    "-9223372036854775808 : i64": attribute("CLAMP", "max_val", bytes(7) + b"\x80", "INT64"),
    "true ": attribute("CLAMP", "max_val", b"\x01", "BOOL"),
    "0xFFC12345 : f32": attribute("CLAMP", "max_val", bytes.fromhex("4523c1ff"), "FP32"),
    "-0.0 : f32": attribute("CLAMP", "max_val", b"\0\0\0\x80", "FP32"),
    "0x7E01 : f16": attribute("CLAMP", "max_val", b"\x01\x7e", "FP16"),
    "0xFFC1 : bf16": attribute("CLAMP", "max_val", b"\xc1\xff", "BF16"),
    "0x7C : f8E5M2": attribute("CLAMP", "max_val", b"\x7c", "FP8E5M2"),
    "0xFF : f8E4M3FN": attribute("CLAMP", "max_val", b"\xff", "FP8E4M3"),
}


@pytest.mark.parametrize("text", ATTRIBUTES)
def test_attributes_of_operators_survive(bindings: Bindings, context: Any, text: str) -> None:
    found = read_back(bindings, context, ATTRIBUTES[text])
    assert found == parsed(bindings, context, text)


# -- types --------------------------------------------------------------------------------------


# -- data ---------------------------------------------------------------------------------------


# -- locations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ('loc("f":1:2)', ""),
        ('loc("f":999999999:999999999)', ""),
        ('loc("f":4294967295:0)', ""),
        ('loc("f":1:2 to :2)', 'loc("f":1:2)'),
        ('loc("f":1:2 to 1:9)', 'loc("f":1:2 to :9)'),
        ('loc("f":1:2 to 2:1)', ""),
        ('loc(fused["a"])', 'loc("a")'),
        ("loc(fused[unknown])", "loc(unknown)"),
        ('loc(fused["a", unknown, fused["b", "a"]])', 'loc(fused["a", "b"])'),
        ('loc("n"(callsite("a" at fused["b", "f":1:2])))', ""),
        ('loc("f":\u0661:2)', r'loc("loc(\22f\22:\D9\A1:2)")'),
    ],
)
def test_locations_survive(bindings: Bindings, context: Any, text: str, printed: str) -> None:
    data = with_attribute(
        lambda encoder: encoder.unknown, location=lambda encoder: LocationWriter(encoder)(text)
    )
    module = bindings.ir.Module.parse(data, context)
    assert str(module.operation.location) == (printed or text)


LINES = st.integers(0, 10**9 - 1).map(str) | st.sampled_from(["007", "\u0661", "", "1" * 10, "x"])


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ['loc("f"', 'loc("f"', 'loc("f"', 'loc("g"', "x", 'loc("f\n"', 'loc("f:"']
            ),
            LINES,
            LINES,
            st.sampled_from([")", ")", ")", "", ":", "\n", ":1)"]),
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 3),
)
def test_locations_in_one_file_equal_others(
    parts: list[tuple[str, str, str, str]], odd: int
) -> None:
    """All of the first kind but the last ones."""
    texts = [f"{a}:{b}:{c}{d}" for a, b, c, d in parts[len(parts) - odd :]]
    texts = [f'loc("f":{n}:{n * n})' for n in range(100, 103 + odd)] + texts
    texts = list(dict.fromkeys(texts))
    encoder, other = Encoder(), Encoder()
    quick = encode_plain(texts, LocationWriter(encoder).head)
    found = LocationWriter(other).all(texts)
    if quick is not None:
        assert sum(quick.sizes) == len(quick.joined)
        written = b"".join(encoder.attributes.entries) + quick.joined
        assert written == b"".join(other.attributes.entries)
        first = encoder.attributes.count
        assert [encode_varint(first + which) for which in quick.which.tolist()] == found
    if not odd:
        assert quick is not None


@pytest.mark.slow
@given(
    st.lists(
        st.lists(
            st.builds(
                'loc("{}":{}:{})'.format, st.sampled_from("ffffg"), st.integers(0, 300), LINES
            ),
            max_size=100,
        ),
        max_size=3,
    )
)
def test_locations_as_integers_equal_others(blocks: list[list[str]]) -> None:
    """Of several blocks, some of which have a location twice."""
    blocks = [[f'loc("f":{n % 90}:1)' for n in range(100)] * (len(b) % 2) + b for b in blocks]
    encoder, other = Encoder(), Encoder()
    writer, slowly = LocationWriter(encoder), LocationWriter(other)
    for texts in blocks:
        integers, widths = writer.together(texts)
        expected = slowly.all(texts)
        assert join_together(integers, widths) == b"".join(expected)
        assert widths.tolist() == [len(number) for number in expected]
        assert writer.all(texts) == expected
    assert encoder.attributes.offsets() == other.attributes.offsets()
    assert b"".join(encoder.attributes.pieces()) == b"".join(other.attributes.pieces())


def test_locations_written_together_equal_those_written_one_by_one() -> None:
    texts = ['loc("f":1:2)', "", 'loc("f":1:2)', "name", 'loc("g":1:2)', 'loc("f":3:2)', "loc(x"]
    found = LocationWriter(Encoder()).all(texts)
    writer = LocationWriter(Encoder())
    assert found == [writer(text) for text in texts]
    assert len(set(found)) == len(set(texts))
