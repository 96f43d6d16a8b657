"""Test constants, resources and other attributes of MLIR text, read without MLIR."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from unit.formats.mlir.text_modules import constant, data_of, printed, refusal

import tosa_convert as tc

# -- constants ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "type_", "expected"),
    [
        ("dense<[1, -1]> : tensor<2xi8>", "tensor<2xi8>", b"\x01\xff"),
        ("dense<255> : tensor<2xi8>", "tensor<2xi8>", b"\xff\xff"),
        ('dense<"0x01FF"> : tensor<2xi8>', "tensor<2xi8>", b"\x01\xff"),
        ('dense<"0x7F"> : tensor<2xi8>', "tensor<2xi8>", b"\x7f\x7f"),
        ("dense<[0x10, 16]> : tensor<2xi8>", "tensor<2xi8>", b"\x10\x10"),
        ("dense<> : tensor<0xi8>", "tensor<0xi8>", b""),
        ("dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>", "tensor<2x2xi8>", b"\x01\x02\x03\x04"),
        ("dense<1.5> : tensor<1xf32>", "tensor<1xf32>", np.float32(1.5).tobytes()),
        ("dense<0x7FC00000> : tensor<1xf32>", "tensor<1xf32>", b"\0\0\xc0\x7f"),
        ("dense<0xFFF0> : tensor<1xbf16>", "tensor<1xbf16>", b"\xf0\xff"),
        ("dense<[true, false]> : tensor<2xi1>", "tensor<2xi1>", b"\1\0"),
        ("dense<true> : tensor<3xi1>", "tensor<3xi1>", b"\1\1\1"),
        ("dense<[1, -1]> : tensor<2xi48>", "tensor<2xi48>", b"\1\0\0\0\0\0" + b"\xff" * 6),
        ("dense<[-8, 7]> : tensor<2xi4>", "tensor<2xi4>", b"\x78"),
        ("sparse<[[0], [2]], [5, 6]> : tensor<4xi8>", "tensor<4xi8>", b"\x05\0\x06\0"),
        ("sparse<[0, 2], 5> : tensor<4xi8>", "tensor<4xi8>", b"\x05\0\x05\0"),
        ("sparse<[[0, 1], [1, 0]], [5, 6]> : tensor<2x2xi8>", "tensor<2x2xi8>", b"\0\5\6\0"),
        ("sparse<1, 3> : tensor<2x2xi8>", "tensor<2x2xi8>", b"\0\0\0\3"),
        ("sparse<> : tensor<2xi8>", "tensor<2xi8>", b"\0\0"),
        ("sparse<[], []> : tensor<2xi16>", "tensor<2xi16>", b"\0" * 4),
        ('dense<"0xFF"> : tensor<9xi1>', "tensor<9xi1>", b"\1" * 9),
        ('dense<"0x00"> : tensor<9xi1>', "tensor<9xi1>", b"\0" * 9),
        ("dense<0x1> : tensor<i1>", "tensor<i1>", b"\1"),
        ("dense<[]> : tensor<0xi8>", "tensor<0xi8>", b""),
        ('dense<["0x1F", "0x02"]> : tensor<2x!tosa.mxint8>', "tensor<2x!tosa.mxint8>", b"\x1f\2"),
    ],
)
def test_a_constant_is_read_in_every_form(attribute: str, type_: str, expected: bytes) -> None:
    found = data_of(attribute, type_)
    assert found[: len(expected)] == expected
    assert not found[len(expected) :].strip(b"\0")  # a file pads constants to 8 bytes


@pytest.mark.parametrize(
    ("digits", "expected"),
    [
        ("01000100000000000001", b"\1\0\1\0\0\0\0\0\0\1"),  # a byte for each, from March 2026
        ("0502", b"\1\0\1\0\0\0\0\0\0\1"),  # packed, until January 2026
        ("05020000000000000000", b"\1\0\1\0\0\0\0\0\0\1"),  # packed and padded, until April 2022
    ],
)
def test_booleans_in_hexadecimal_are_read_as_their_release_wrote_them(
    digits: str, expected: bytes
) -> None:
    found = data_of(f'dense<"0x{digits}"> : tensor<10xi1>', "tensor<10xi1>")
    assert found[:10] == expected


@pytest.mark.parametrize(
    ("scale", "expected"),
    [("2.0", 128), ("3.0", 129), ("6.0", 130), ("0.0", 0), ("1.0e39", 255), ("0xFF", 255),
     ("0x00", 0), ("0x4000000000000000", 128), ("0x7FF8000000000000", 255), ("-4.0", None)],
)  # fmt: skip
def test_the_scale_of_a_block_is_the_number_that_mlir_reads(
    scale: str, expected: int | None
) -> None:
    plain = "tensor<1x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E5M2>>"
    own = plain.replace(">>", f", {{{scale}}}>>")
    text = constant(f"dense<{own} : 0.5 : f8E5M2>", plain)
    if expected is None:
        with pytest.raises(tc.TosaConvertError, match="not a number of f8E8M0FNU"):
            tc.load(text.encode())
        return
    found = tc.load(text.encode()).main.tensors["TosaOutput_0"].scale
    assert found is not None
    assert found.data is not None
    assert bytes(found.data.packed())[0] == expected


@pytest.mark.parametrize(
    ("attribute", "type_", "message"),
    [
        ("dense<[1, 2, 3]> : tensor<2xi8>", "tensor<2xi8>", "not in lists of the sizes"),
        ("dense<[1, 2]> : tensor<1x2xi8>", "tensor<1x2xi8>", "not in lists of the sizes"),
        ("dense<256> : tensor<1xi8>", "tensor<1xi8>", "'256' does not fit i8"),
        ("dense<-129> : tensor<1xi8>", "tensor<1xi8>", "'-129' does not fit i8"),
        ("dense<1.5> : tensor<1xi8>", "tensor<1xi8>", "'1.5' is not an integer"),
        ("dense<1> : tensor<1xf32>", "tensor<1xf32>", "'1' is not a number of f32"),
        ("dense<[1.0, 2]> : tensor<2xf16>", "tensor<2xf16>", "'2' is not a number of f16"),
        ('dense<"0x012"> : tensor<1xi8>', "tensor<1xi8>", "odd number"),
        ('dense<"0x0102"> : tensor<3xi8>', "tensor<3xi8>", "found 2 bytes, expected 3"),
        ('dense<"0x01ZZ"> : tensor<2xi8>', "tensor<2xi8>", "no hexadecimal digit"),
        ("dense<1> : tensor<?xi8>", "tensor<?xi8>", "expected sizes that are known"),
        ("dense<1> : i8", "tensor<1xi8>", "expected a tensor"),
        ("dense<> : tensor<2xi8>", "tensor<2xi8>", "found no element, expected 2"),
        ('dense<"0x0102"> : tensor<30xi1>', "tensor<30xi1>", "found 2 bytes for 30 booleans"),
        ('dense<["0x1F"]> : tensor<2x!tosa.mxint8>', "tensor<1xi8>", "not in lists of the sizes"),
        ('dense<["0x1F"> : tensor<1x!tosa.mxint8>', "tensor<1xi8>", "not in lists of the sizes"),
        ("sparse<[[9]], [1]> : tensor<4xi8>", "tensor<4xi8>", "do not fit"),
        ("sparse<[[-1]], [1]> : tensor<4xi8>", "tensor<4xi8>", "do not fit"),
        ("sparse<[[0, 1, 2]], [1]> : tensor<4x4xi8>", "tensor<4x4xi8>", "do not fit"),
        ("sparse<[0, 1, 1, 0], [1, 2]> : tensor<2x2xi8>", "tensor<2x2xi8>", "do not fit"),
        ("sparse<[[0], [1]], [[1], [2]]> : tensor<4xi8>", "tensor<4xi8>", "do not fit"),
    ],
)
def test_a_constant_that_its_type_contradicts_is_refused(
    attribute: str, type_: str, message: str
) -> None:
    assert message in refusal(constant(attribute, type_)).message


@pytest.mark.parametrize(
    ("resources", "where", "message"),
    [
        ('dialect_resources: {b: {w: "0x0800"}}', "2:35", "no alignment, expected 4 bytes"),
        ('dialect_resources: {b: {w: "0x03000000AA"}}', "2:35", "aligned to 3 bytes"),
        ('dialect_resources: {b: {w: "0x", w: "0x"}}', "2:38", "the resource is there twice"),
        ("dialect_resources: {b: {w: 7}}", "2:32", "expected the bytes of a resource"),
        ('dialect_resources: {: {w: "0x"}}', "2:25", "expected the name of a dialect"),
        ("7", "2:5", "expected 'dialect_resources', 'external_resources' or '#-}'"),
    ],
)
def test_a_resource_that_is_malformed_is_refused_at_its_place(
    resources: str, where: str, message: str
) -> None:
    used = "module attributes {a.b = dense_resource<w> : tensor<1xi8>} {}"
    finding = refusal(f"{used}\n{{-# {resources} #-}}")
    assert (finding.where, message in finding.message) == (f"-:{where}", True), finding


def test_resources_of_other_tools_are_skipped() -> None:
    text = constant("dense_resource<w> : tensor<1xi8>", "tensor<1xi8>")
    resources = (
        'external_resources: {a: {b: "x}"}}, dialect_resources: {builtin: {w: "0x0100000007"}}'
    )
    data = tc.load(f"{text}\n{{-# {resources} #-}}\n".encode()).main.tensors["TosaOutput_0"].data
    assert data is not None
    assert bytes(data.packed())[:1] == b"\7"


# -- attributes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"x" : i32', '"x"'),
        ('@"q r"', '@"q r"'),
        ("1", "1 : i64"),
        ("1.5", "1.500000e+00 : f64"),
        ("0x7FC0 : f32", "4.582810e-41 : f32"),
        ("-0x1 : i8", "-1 : i8"),
        ("18446744073709551615 : ui64", "18446744073709551615 : ui64"),
        ("1.5 : f80", "1.5 : f80"),
        ("array<i1: true, false>", "array<i1: true, false>"),
        ("array<i48: 1, -1>", "array<i48: 1, -1>"),
        ("array<f64: 1.5, 0x7FF8000000000000>", "array<f64: 1.500000e+00, 0x7FF8000000000000>"),
        ("array<bf16>", "array<bf16>"),
        ("affine_map<(d0) -> (d0)>", "affine_map<(d0) -> (d0)>"),
        ('distinct[0]<"x">', 'distinct[0]<"x">'),
        ("strided<[1, 2], offset: 3>", "strided<[1, 2], offset: 3>"),
        ("#a.b<c> : i32", "#a.b<c>"),
        ("dense<1> : vector<2xi8>", "dense<1> : vector<2xi8>... : vector<2xi8>"),
        ("sparse<0, 1> : tensor<2xi8>", "dense<[1, 0]> : tensor<2xi8>"),
    ],
)
def test_attributes_that_no_operator_has_are_shown(text: str, expected: str) -> None:
    shown = printed(f'module attributes {{a.b = {text}}} {{ "a.c"() : () -> () }}')
    assert shown.rstrip().endswith(f"}}) {{a.b = {expected}}} : () -> ()")


@pytest.mark.parametrize(
    ("number", "type_"), [("1", "150000xi8"), ("[1]", "150000x1xi8"), ("1.", "150000xf32")]
)
def test_a_listed_constant_takes_memory_in_proportion_to_its_text(number: str, type_: str) -> None:
    listed = ",".join([number] * 150_000)
    text = constant(f"dense<[{listed}]> : tensor<{type_}>", f"tensor<{type_}>").encode()
    tracemalloc.start()
    try:
        tc.load(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * len(text) + (4 << 20)
