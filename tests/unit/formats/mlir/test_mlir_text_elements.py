"""Numbers, constants and resources in MLIR text: bits survive, and the text is MLIR's own.

The expected texts are those of tosa-opt, with which tests/oracle/test_printed_text.py compares more.
"""

from __future__ import annotations

import io
import re
import tracemalloc
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest
from unit.building import graph, op, shape, tensor

import tosa_convert as tc
from tosa_convert.formats.bindings.modules import read
from tosa_convert.formats.bindings.packages import Bindings
from tosa_convert.formats.mlir.text.numbers import float_text
from tosa_convert.formats.mlir.text.print.attributes import (
    CHUNK_BYTES,
    nested,
    splat,
)
from tosa_convert.formats.mlir.text.print.module import write
from tosa_convert.graph import Constant, Graph, Tensor, dtype
from tosa_convert.graph.dtypes import BlockShape
from tosa_convert.graph.model import BlockScale
from tosa_convert.io.options import WriteOptions


def constant(kind: str, sizes: tuple[int, ...], raw: bytes) -> Graph:
    return graph("", "y", [tensor("y", kind, sizes, raw)], [op("CONST", "", "y")])


def printed(made: Graph, **options: Any) -> str:
    """Return the attribute `values` of the constant in a program of one."""
    text = b"".join(write(made, WriteOptions(locations=False, **options))).decode()
    match = re.search(r"<\{values = (.*)\}> : ", text)
    assert match is not None
    return match[1]


NUMBERS: Final = {
    "f32": (
        (0.1, "1.000000e-01"),
        (1.234567, "1.23456705"),
        (3.14159274, "3.14159274"),
        (16777216.0, "0x4B800000"),
        (1e-30, "1.000000e-30"),
        (123456.7, "123456.703"),
        (0.001234567, "0.00123456703"),
        (0.0001234567, "1.23456703E-4"),
        (99999.99, "99999.9921"),
        (999999.9, "999999.875"),
        (1e10, "1.000000e+10"),
        (float("inf"), "0x7F800000"),
        (float("-inf"), "0xFF800000"),
        (-0.0, "-0.000000e+00"),
    ),
    "f16": (
        (0.1, "9.997550e-02"),
        (2**-10, "9.765620e-04"),
        (65504.0, "6.550400e+04"),
        (1e-7, "1.192090e-07"),
        (float("inf"), "0x7C00"),
    ),
    "bf16": ((0.1, "1.000980e-01"), (1e38, "9.969200e+37"), (65504.0, "6.553600e+04")),
    "f8E8M0FNU": ((1.0, "1.000000e+00"), (2**-127, "5.877470e-39"), (2.0**127, "1.701410e+38")),
    "f8E4M3FN": ((448.0, "4.480000e+02"), (-0.0, "-0.000000e+00"), (2**-9, "1.953130e-03")),
    "f8E5M2": ((57344.0, "5.734400e+04"), (float("inf"), "0x7C")),
    "f6E2M3FN": ((7.5, "7.500000e+00"),),
    "f6E3M2FN": ((-28.0, "-2.800000e+01"),),
    "f4E2M1FN": ((0.5, "5.000000e-01"),),
}
_BITS: Final = {1: "<u1", 2: "<u2", 4: "<u4"}


@pytest.mark.parametrize(
    ("element", "value", "expected"),
    [(element, *row) for element, rows in NUMBERS.items() for row in rows],
)
def test_floats_have_the_digits_that_mlir_prints(element: str, value: float, expected: str) -> None:
    kind = next(row for row in tc.graph.DTYPES if row.mlir == element).numpy
    bits = int(np.array([value]).astype(kind).view(_BITS[kind.itemsize])[0])
    assert float_text(bits, element) == expected


@pytest.mark.parametrize("element", NUMBERS)
def test_every_number_is_printed_so_that_it_is_read_back(element: str) -> None:
    row = next(row for row in tc.graph.DTYPES if row.mlir == element)
    kind = row.numpy
    count = 1 << row.bits if row.bits <= 16 else 0
    numbers = range(count) if count else np.random.default_rng(1).integers(0, 2**32, 5000).tolist()
    for bits in numbers:
        text = float_text(int(bits), element)
        if text.startswith("0x"):
            assert int(text, 16) == bits
        else:
            assert re.fullmatch(r"-?\d+\.\d+([eE][+-]\d+)?", text)
            found = np.array(float(text)).astype(kind).view(_BITS[kind.itemsize])
            assert int(found) == bits


CONSTANTS: Final = [
    ("INT8", (2,), b"\x01\xff", "dense<[1, -1]> : tensor<2xi8>"),
    ("INT8", (1,), b"\x80", "dense<-128> : tensor<1xi8>"),
    ("INT8", (), b"\x80", "dense<-128> : tensor<i8>"),
    ("INT8", (3, 1), b"\x05" * 3, "dense<5> : tensor<3x1xi8>"),
    ("INT8", (2, 1, 2), b"\1\2\3\4", "dense<[[[1, 2]], [[3, 4]]]> : tensor<2x1x2xi8>"),
    ("INT16", (2,), b"\0\x80\xff\x7f", "dense<[-32768, 32767]> : tensor<2xi16>"),
    ("INT4", (3,), b"\xe1\x07", "dense<[1, -2, 7]> : tensor<3xi4>"),
    ("INT48", (2,), b"\0\0\0\0\0\x80\xff\xff\xff\xff\xff\x7f",
     "dense<[-140737488355328, 140737488355327]> : tensor<2xi48>"),
    ("INT64", (1,), b"\xff" * 7 + b"\x7f", "dense<9223372036854775807> : tensor<1xi64>"),
    ("BOOL", (3,), b"\0\1\1", "dense<[false, true, true]> : tensor<3xi1>"),
    ("BOOL", (9,), b"\1" * 9, "dense<true> : tensor<9xi1>"),
    ("BOOL", (5,), b"\0" * 5, "dense<false> : tensor<5xi1>"),
    ("BOOL", (101,), b"\0\1" * 50 + b"\0", f'dense<"0x{"0001" * 50}00"> : tensor<101xi1>'),
    ("INT8", (101,), bytes(range(101)),
     f'dense<"0x{bytes(range(101)).hex().upper()}"> : tensor<101xi8>'),
    ("INT4", (102,), b"\x21" * 51, f'dense<"0x{"0102" * 51}"> : tensor<102xi4>'),
    ("FP4E2M1", (2,), b"\xf2", "dense<[1.000000e+00, -6.000000e+00]> : tensor<2xf4E2M1FN>"),
    ("FP32", (2,), b"\x01\0\x80\x7f\0\0\0\x80",
     "dense<[0x7F800001, -0.000000e+00]> : tensor<2xf32>"),
    ("MXINT8", (2,), b"\x0f\xff", 'dense<["0xF", "0xFF"]> : tensor<2x!tosa.mxint8>'),
    ("MXINT8", (3,), b"\x7f" * 3, 'dense<"0x7F"> : tensor<3x!tosa.mxint8>'),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "sizes", "raw", "expected"), CONSTANTS)
def test_constants_are_listed_or_in_hexadecimal_or_one_element(
    kind: str, sizes: tuple[int, ...], raw: bytes, expected: str
) -> None:
    assert printed(constant(kind, sizes, raw)) == expected


def test_shapes_are_printed() -> None:
    made = graph("", "", [shape("a"), shape("b", 3, 3)], [op("CONST_SHAPE", "", "a")])
    assert "{values = dense<> : tensor<0xindex>} : () -> !tosa.shape<0>" in text_of(made)
    made.main.operators = [op("CONST_SHAPE", "", "b")]
    assert "{values = dense<3> : tensor<2xindex>} : () -> !tosa.shape<2>" in text_of(
        made, names="generate"
    )


def text_of(made: Graph, **options: Any) -> str:
    return re.sub(
        r"tosa.tensor_name = \S+, ", "", b"".join(write(made, WriteOptions(**options))).decode()
    )


# -- block-scaled constants -------------------------------------------------------------------------


def block_scaled(kind: str, values: bytes, scales: bytes) -> Graph:
    made = constant(kind, (1, 32 * len(scales)), values)
    scale = Constant(dtype("FP8UE8M0"), len(scales), scales)
    made.main.tensors["y"].scale = BlockScale(dtype("FP8UE8M0"), BlockShape.BLOCK_SHAPE_32, scale)
    return made


def test_a_large_block_scaled_constant_is_a_list(bindings: Bindings) -> None:
    values = (b"\x38" * 31 + b"\x40") * 300
    made = block_scaled("FP8E4M3", values, b"\x7f\xff" * 150)
    text = printed(made)
    assert text.count(" : f8E4M3FN") == 9600
    module = bindings.ir.Module.parse(b"".join(write(made)), bindings.new_context())
    assert tc.compare(made, read(module), names=False) is None


@pytest.mark.parametrize(
    ("kind", "mlir"), [("FP8E4M3", "f8E4M3FN"), ("FP6E2M3", "f6E2M3FN"), ("MXINT8", "!tosa.mxint8")]
)
def test_a_block_scaled_type_may_name_its_values_first(kind: str, mlir: str) -> None:
    made = block_scaled(kind, b"\4" * dtype(kind).wire_bytes(32), b"\x7f")
    text = text_of(made)
    other = text.replace(f"BLOCK_SHAPE_32:f8E8M0FNU:{mlir}", f"{mlir}:f8E8M0FNU:BLOCK_SHAPE_32")
    assert other != text
    assert tc.compare(made, tc.load(io.BytesIO(other.encode())), names=False) is None


# -- resources --------------------------------------------------------------------------------------


def weights(*names: str, kind: str = "INT16") -> Graph:
    """Return constants of 600 bytes."""
    raw = np.arange(300, dtype="<i2").tobytes()
    values = [tensor(name, kind, (300,), raw) for name in names]
    return graph("", "", values, [op("CONST", "", name) for name in names])


def test_constants_that_are_elided_are_not_among_the_resources() -> None:
    made = weights("big")
    made.main.tensors["small"] = tensor("small", "INT8", (3,), b"\1\2\3")
    made.main.tensors["same"] = tensor("same", "INT8", (400,), b"\1" * 400)
    made.main.tensors["strings"] = tensor("strings", "MXINT8", (3,), b"\1\2\3")
    made.main.operators += [op("CONST", "", name) for name in ("small", "same", "strings")]

    def elided(limit: int) -> list[tuple[str, str]]:
        text = text_of(made, elide=limit, locations=False)
        assert ("{-#" in text) == (limit >= 300)
        found: list[tuple[str, str]] = re.findall(r"values = (\w+)<\"?(\w*)", text)
        return found

    dense, gone = ("dense", "1"), ("dense_resource", "__elided__")
    assert elided(2) == [gone, gone, dense, gone]
    assert elided(3) == [gone, ("dense", ""), dense, ("dense", "")]
    assert elided(300) == [("dense_resource", "big"), ("dense", ""), dense, ("dense", "")]


def test_an_elided_text_is_not_read(torch_mlir: Bindings) -> None:
    with pytest.raises(tc.TosaConvertError, match="was elided when printed"):
        tc.load(tc.dumps(constant("INT8", (3,), b"\1\2\3"), "mlir", elide=2))


# -- memory -----------------------------------------------------------------------------------------


def large(kind: str) -> Graph:
    """Return a constant of 32 MiB."""
    count = 1 << 25
    values = np.zeros(count, np.uint8)
    values[1] = 1
    made = Tensor("y", dtype(kind), (count,))
    made.data = Constant(dtype(kind), count, values.data)
    return graph("", "y", [made], [op("CONST", "", "y")])


@pytest.mark.parametrize("kind", ["INT8", "BOOL"])
def test_memory_does_not_grow_with_constants(kind: str) -> None:
    pieces: Iterator[bytes] = write(large(kind))
    first = next(pieces)
    tracemalloc.start()
    try:
        size = len(first) + sum(len(piece) for piece in pieces)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 2 << 25
    assert peak < 12 * CHUNK_BYTES


# -- parts ------------------------------------------------------------------------------------------


def test_elements_are_nested_as_their_shape_is() -> None:
    def text(count: int, sizes: tuple[int, ...]) -> str:
        return b"".join(nested(map(str, range(count)), sizes)).decode()

    assert text(1, ()) == "0"
    assert text(4, (2, 2)) == "[[0, 1], [2, 3]]"
    assert text(8, (2, 2, 2)) == "[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]"
    assert text(0, (0, 2)) == ""
    assert text(5000, (5000,)) == f"[{', '.join(map(str, range(5000)))}]"


def test_a_splat_is_found_wherever_the_data_ends() -> None:
    data = bytearray(b"\1\2" * (CHUNK_BYTES // 2 + 5))
    count = len(data) // 2
    assert splat(memoryview(data), count, "i16") == b"\1\2"
    data[-1] = 3
    assert splat(memoryview(data), count, "i16") is None
    assert splat(memoryview(b"\1\2"), 1 << 40, "i16") == b"\1\2"
    assert splat(memoryview(b""), 0, "i16") is None
    assert splat(memoryview(b"\x1f"), 5, "i1") == b"\1"
    assert splat(memoryview(b"\x1f"), 6, "i1") is None
