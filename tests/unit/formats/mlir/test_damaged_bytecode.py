"""Bytecode of which one byte is wrong, and text with attributes that MLIR does not allow."""

from __future__ import annotations

import re

import pytest
from refusing import error_of

import tosa_convert as tc
from tosa_convert.formats.mlir.bytecode import format as code
from tosa_convert.formats.mlir.bytecode.decode import Bytecode
from tosa_convert.formats.mlir.bytecode.read_sections import read_sections
from tosa_convert.formats.mlir.text.parse.module import parse

TEXT = """module attributes {tosa.first = "a"} {
  func.func @main(%arg0: tensor<2xf32> {tosa.tensor_name = "input"}) -> tensor<2xf32> {
    %0 = tosa.exp %arg0 {tosa.tensor_name = "exp"} : (tensor<2xf32>) -> tensor<2xf32> loc("f":1:2)
    return %0 : tensor<2xf32>
  }
}
"""
FILE = tc.dumps(tc.load(TEXT.encode()), "mlirbc")
BYTECODE = Bytecode(read_sections(memoryview(FILE)))


def refusal(data: bytes) -> str:
    """Why a module is refused."""
    return error_of(tc.load, data).findings[0].message


def changed(entry: int, place: int, byte: int) -> bytes:
    """Return the file with another byte in an attribute or a type."""
    data = bytearray(FILE)
    offset = BYTECODE.file_offset(BYTECODE.starts[entry]) + place
    assert data[offset] != byte
    data[offset] = byte
    return bytes(data)


def first_of_kind(kind: int, length: int = -1) -> int:
    """Return the first attribute of a kind, and of so many bytes."""
    starts = BYTECODE.starts
    return next(
        entry
        for entry in range(BYTECODE.attribute_count)
        if BYTECODE.bytes[starts[entry]] == kind << 1 | 1
        and length in (-1, starts[entry + 1] - starts[entry])
    )


def string(text: bytes) -> int:
    """Return the attribute that is a string."""
    return next(n for n in range(BYTECODE.attribute_count) if BYTECODE.attribute(n) == text)


@pytest.mark.parametrize(
    ("kind", "place", "byte", "message"),
    [
        (code.FILE_LOCATION, 0, code.UNIT << 1 | 1, "is not a location"),
        (code.FILE_LOCATION, 0, code.NAME_LOCATION << 1 | 1, "a location has 3 numbers"),
        (code.FILE_LOCATION, 3, 2, "a location has bytes after its end|a location is cut off"),
        (code.UNKNOWN_LOCATION, 0, code.FILE_LOCATION << 1 | 1, "is not a string"),
    ],
)
def test_a_damaged_location_is_refused(kind: int, place: int, byte: int, message: str) -> None:
    found = refusal(changed(first_of_kind(kind), place, byte))
    assert any(part in found for part in message.split("|"))


@pytest.mark.parametrize("name", [b"exp", b"input"])
def test_an_attribute_of_an_unknown_kind_is_refused(name: bytes) -> None:
    unknown = code.NEWEST_ATTRIBUTE + 1
    assert f"kind {unknown}" in refusal(changed(string(name), 0, unknown << 1 | 1))


def test_bytes_after_an_attribute_are_refused() -> None:
    assert "bytes after its end" in refusal(changed(string(b"exp"), 0, code.UNIT << 1 | 1))


def test_an_attribute_that_contains_itself_is_refused() -> None:
    entry = first_of_kind(code.DICTIONARY, 4)
    assert "contains itself" in refusal(changed(entry, 3, entry << 1 | 1))


def test_a_name_that_a_dictionary_has_twice_is_refused() -> None:
    entry = first_of_kind(code.DICTIONARY, 6)
    first = BYTECODE.bytes[BYTECODE.starts[entry] + 2]
    assert "a name twice" in refusal(changed(entry, 4, first))


@pytest.mark.parametrize(
    ("difference", "message"),
    [
        (2, "the outermost block has arguments"),
        (-2, "a region has more than the 1 values that it announces"),
    ],
)
def test_damaged_counts_of_operations_are_refused(difference: int, message: str) -> None:
    section = BYTECODE.file.sections[code.IR]
    found = set()
    for place in range(section.offset, section.offset + len(section.bytes)):
        data = bytearray(FILE)
        data[place] = (data[place] + difference) & 0xFF
        try:
            tc.load(bytes(data))
        except tc.TosaConvertError as error:
            found.add(error.findings[0].message)
    assert any(text.startswith(message) for text in found)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tosa.first", "first", "'builtin.module' has an attribute 'first'"),
        ("{tosa.tensor_name", "{name", "'func.func' has an attribute 'name' in arg_attrs"),
        ("> {\n", '> attributes {sym_visibility = "x"} {\n', "'func.func' has the visibility 'x'"),
    ],
)
def test_attributes_that_mlir_does_not_allow_are_refused(old: str, new: str, message: str) -> None:
    assert message in refusal(TEXT.replace(old, new, 1).encode())


#: A resource, regions, a variable, an array, and locations of several kinds.
RICH = """tosa.variable @v = dense<[1, 2]> : tensor<2xi8>
func.func @main(%a: tensor<2xf32>, %c: tensor<i1>) -> (tensor<2xf32>, tensor<2xi8>) {
  %k = "tosa.const"() {values = dense_resource<w> : tensor<2xf32>} : () -> tensor<2xf32>
    loc(fused<"p">["x", "m.py":3:4])
  %0 = tosa.add %a, %k : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    loc(callsite("n"("m.py":1:2) at "b"))
  %1 = tosa.cond_if %c (%x = %0) : tensor<i1> (tensor<2xf32>) -> tensor<2xf32> {
    tosa.yield %x : tensor<2xf32>
  } else {
    tosa.yield %x : tensor<2xf32>
  }
  %2 = tosa.variable_read @v : tensor<2xi8>
  %3 = tosa.transpose %2 {perms = array<i32: 0>} : (tensor<2xi8>) -> tensor<2xi8>
  return %1, %3 : tensor<2xf32>, tensor<2xi8>
}
{-# dialect_resources: {builtin: {w: "0x040000000000C03F000000C0"}} #-}
"""


def test_a_byte_that_is_inverted_anywhere_is_found_or_harmless() -> None:
    """Each place but those of names: no other error than ours, and these among them."""
    data = b"".join(map(bytes, parse(memoryview(RICH.encode()))))
    names = read_sections(memoryview(data)).sections[code.STRINGS]
    found = set()
    for place in {*range(len(data))} - {*range(names.offset, names.offset + len(names.bytes))}:
        changed_file = bytearray(data)
        changed_file[place] ^= 0xFF
        try:
            tc.load(bytes(changed_file))
        except tc.TosaConvertError as error:
            found.add(re.sub(r"-?\d+", "N", error.findings[0].message))
    assert {
        "a dialect is outside its section",
        "a dialect's name is string N of N",
        "a dictionary has a name twice",
        "a location of N locations has N numbers",
        "a resource has N bytes, but only N are left",
        "a size of a tensor is negative",
        "a type has bytes after its end",
        "an attribute is cut off, or refers to a string that is not there",
        "attributes and types have N bytes, their section has N",
        "found N bytes for an array of N iN",
        "found N resources, but only N bytes are left",
        "found alignment N, expected a power of two",
        "found properties N, expected less than N",
        "found type N, expected less than N",
        "the kind of a resource is outside its section",
        "the location of an operation is number N, expected less than N",
        "the section ends in the middle of an operation",
        "variable @v: tensor<NxiN> has a dimension over N",
    } - found == set()
