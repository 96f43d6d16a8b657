"""Constant data in its three forms: packed as in a file, unpacked, splat."""

from __future__ import annotations

import gc
import math
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

from tosa_convert.graph import constant
from tosa_convert.graph import constant as packing
from tosa_convert.graph.constant import (
    Constant,
    Rearranged,
    constant_of,
    dtype_of_array,
    in_order,
    pack,
)
from tosa_convert.graph.dtypes import DTYPES, DType, dtype


def random_bytes(row: DType, count: int) -> bytes:
    """Unpacked elements with the upper bits 0, as MLIR keeps them."""
    raw = np.random.default_rng(7).integers(0, 256, count * row.element_bytes).astype(np.uint8)
    if row.name == "BOOL":
        raw &= 1
    elif row.is_packed:
        raw &= (1 << row.bits) - 1
    return raw.tobytes()


def in_file(row: DType, unpacked: bytes) -> bytes:
    """Return the form in a file of unpacked elements."""
    if row.is_packed:
        return pack(np.frombuffer(unpacked, np.uint8), row.bits).tobytes()
    return unpacked


def forms(row: DType, unpacked: bytes, count: int) -> list[Constant]:
    made = [Constant(row, count, in_file(row, unpacked))]
    if row.is_packed:
        made.append(Constant(row, count, unpacked, unpacked=True))
    return made


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 8 elements, so that every loop over blocks runs more than once."""
    monkeypatch.setattr(constant, "BLOCK", 8)
    monkeypatch.setattr(packing, "BLOCK", 8)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("row", DTYPES, ids=str)
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 33])
def test_all_forms_of_the_same_elements_are_equal_in_every_view(row: DType, count: int) -> None:
    unpacked = random_bytes(row, count)
    for made in forms(row, unpacked, count):
        assert made.nbytes == row.wire_bytes(count)
        assert b"".join(made.chunks()) == in_file(row, unpacked)
        assert bytes(made.packed()) == in_file(row, unpacked)
        assert made.elements().tobytes() == unpacked
        assert made.elements().shape == (count, row.element_bytes)
        for other in forms(row, unpacked, count):
            assert made.same_bits(other)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("row", DTYPES, ids=str)
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 33])
def test_a_splat_is_its_element_repeated(row: DType, count: int) -> None:
    element = random_bytes(row, 1)
    splat = Constant(row, count, element, splat=True)
    full = Constant(row, count, in_file(row, element * count))
    assert b"".join(splat.chunks()) == bytes(full.buffer)
    assert splat.same_bits(full)
    assert full.same_bits(splat)
    assert splat.elements().tobytes() == element * count
    assert bytes(splat.uniform() or b"") == (element if count else b"")


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("row", DTYPES, ids=str)
@pytest.mark.parametrize("place", [0, 1, 8, 15, 16, 32])
def test_one_changed_element_anywhere_is_noticed(row: DType, place: int) -> None:
    count = 33
    same = random_bytes(row, 1) * count
    changed = bytearray(same)
    changed[place * row.element_bytes] ^= 1
    for one in forms(row, same, count):
        assert bytes(one.uniform() or b"") == same[: row.element_bytes]
        for other in forms(row, bytes(changed), count):
            assert other.uniform() is None
            assert not one.same_bits(other)
            assert not other.same_bits(Constant(row, count, same[: row.element_bytes], splat=True))


def test_a_constant_without_elements_has_no_uniform_element() -> None:
    assert Constant(dtype("FP32"), 0, b"").uniform() is None
    assert Constant(dtype("FP32"), 0, bytes(4), splat=True).uniform() is None


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_the_first_elements_are_a_constant_of_the_same_form(row: DType) -> None:
    unpacked = random_bytes(row, 9)
    splat = Constant(row, 9, unpacked[: row.element_bytes], splat=True)
    for made in (*forms(row, unpacked, 9), splat):
        for count in (0, 1, 5, 9, 10):
            found = made.first(count)
            assert found.count == min(count, 9)
            assert (found.unpacked, found.splat) == (made.unpacked, made.splat)
            assert found.elements().tobytes() == made.elements()[:count].tobytes()
            assert found.buffer.obj is made.buffer.obj


def test_minus_zero_is_not_zero_and_nan_payloads_count() -> None:
    row = dtype("FP32")
    zeros = Constant(row, 2, bytes(8))
    mixed = Constant(row, 2, bytes.fromhex("00000000 00000080"))
    assert mixed.uniform() is None
    assert not mixed.same_bits(zeros)
    nans = Constant(row, 2, bytes.fromhex("0000c07f 0000c07f"))
    assert nans.same_bits(nans)
    assert bytes(nans.uniform() or b"").hex() == "0000c07f"
    assert not nans.same_bits(Constant(row, 2, bytes.fromhex("0000c07f 0100c07f")))


def test_numbers_of_other_dtypes_or_counts_differ() -> None:
    one = Constant(dtype("INT8"), 4, bytes(4))
    assert not one.same_bits(Constant(dtype("FP8E4M3"), 4, bytes(4)))
    assert not one.same_bits(Constant(dtype("INT8"), 3, bytes(3)))


@pytest.mark.parametrize(
    ("row", "data", "expected"),
    [
        ("BOOL", "00 01 02", [False, True, True]),
        ("INT4", "e1 07", [1, -2, 7]),
        ("INT8", "01 80 ff", [1, -128, -1]),
        ("INT16", "0080 ffff 0100", [-32768, -1, 1]),
        ("INT48", "ffffffffffff 000000000080 010000000000", [-1, -(2**47), 1]),
        ("INT64", "ffffffffffffffff 0000000000000080 0100000000000000", [-1, -(2**63), 1]),
        ("BF16", "803f 00c0 0000", [1.0, -2.0, 0.0]),
        ("FP16", "003c 00c0 0000", [1.0, -2.0, 0.0]),
        ("FP32", "0000803f 000000c0 00000000", [1.0, -2.0, 0.0]),
        ("FP8E4M3", "38 c0 00", [1.0, -2.0, 0.0]),
        ("FP8E5M2", "3c c0 00", [1.0, -2.0, 0.0]),
        ("FP8UE8M0", "7f 80 7e", [1.0, 2.0, 0.5]),
        ("FP6E2M3", "08 ec 01", [1.0, -2.0, 7.0]),
        ("FP4E2M1", "c2 07", [1.0, -2.0, 6.0]),
        ("MXINT8", "40 c0 00", [64, -64, 0]),
    ],
)
def test_bytes_of_a_file_are_these_numbers(row: str, data: str, expected: list[float]) -> None:
    found = Constant(dtype(row), 3, bytes.fromhex(data)).numpy()
    assert found.astype(np.float64).tolist() == [float(number) for number in expected]
    assert not found.flags.writeable


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_a_buffer_of_another_length_is_refused(row: DType) -> None:
    needed = row.wire_bytes(5)
    for wrong in (needed - 1, needed + 1):
        with pytest.raises(ValueError, match=rf"5 x {row} take {needed} bytes"):
            Constant(row, 5, bytes(wrong))
    with pytest.raises(ValueError, match=r"take \d+ bytes"):
        Constant(row, 5, bytes(2 * row.element_bytes), splat=True)


def test_only_the_form_of_a_file_is_a_view() -> None:
    row = dtype("INT4")
    assert repr(Constant(row, 4, bytes(2))) == "Constant(4 x INT4, packed)"
    assert repr(Constant(row, 4, bytes(4), unpacked=True)) == "Constant(4 x INT4, unpacked)"
    assert repr(Constant(row, 4, bytes(1), splat=True)) == "Constant(4 x INT4, splat)"
    assert Constant(row, 4, bytes(2)).is_view
    assert not Constant(row, 4, bytes(4), unpacked=True).is_view
    assert not Constant(row, 4, bytes(1), splat=True).is_view
    # Of a type of whole bytes, unpacked and packed are the same.
    assert Constant(dtype("INT8"), 4, bytes(4), unpacked=True).is_view


def test_the_buffer_is_not_copied_and_any_shape_of_buffer_will_do() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    made = Constant(dtype("FP32"), 6, array)
    array[0, 0] = 5.0
    assert made.numpy()[0] == 5.0
    for given in (array.reshape(-1), array.view(np.uint8)):
        assert Constant(dtype("FP32"), 6, given).buffer == made.buffer
    assert np.shares_memory(np.frombuffer(made.packed(), np.uint8), array)


@pytest.mark.parametrize(("protocol", "outside"), [(4, 0), (5, 1)])
def test_data_is_pickled_beside_the_stream_where_the_protocol_can(
    protocol: int, outside: int
) -> None:
    made = Constant(dtype("INT8"), 1000, bytes(1000))
    buffers: list[pickle.PickleBuffer] = []
    given: Any = {"buffer_callback": buffers.append} if protocol >= 5 else {}
    raw = pickle.dumps(made, protocol, **given)
    assert (len(buffers), len(raw) < 1000) == (outside, bool(outside))
    assert pickle.loads(raw, buffers=buffers).same_bits(made)


@pytest.mark.slow
def test_the_owner_lives_as_long_as_the_constant() -> None:
    class Owner:
        pass

    owner = Owner()
    alive = weakref.ref(owner)
    made = Constant(dtype("INT8"), 1, b"\1", owner=owner)
    del owner
    gc.collect()
    assert alive() is not None
    del made
    gc.collect()
    assert alive() is None


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("place", [0, 7, 8, 20])
def test_minus_8_in_int4_is_found_in_every_form(place: int) -> None:
    row = dtype("INT4")
    unpacked = bytearray(21)
    for made in forms(row, bytes(unpacked), 21):
        assert not made.holds_int4_minus_8()
    unpacked[place] = 8
    for made in forms(row, bytes(unpacked), 21):
        assert made.holds_int4_minus_8()
    assert Constant(row, 21, b"\x08", splat=True).holds_int4_minus_8()
    assert not Constant(row, 0, b"\x08", splat=True).holds_int4_minus_8()
    assert not Constant(dtype("FP4E2M1"), 2, b"\x88").holds_int4_minus_8()


def test_the_unused_nibble_of_an_odd_int4_is_not_an_element() -> None:
    assert not Constant(dtype("INT4"), 1, b"\x81").holds_int4_minus_8()


@pytest.mark.parametrize(
    ("kind", "values", "stored"),
    [
        ("INT4", [-8, -1, 7], b"\xf8\x07"),
        ("INT48", [-1, 2**47 - 1], b"\xff" * 6 + b"\xff" * 5 + b"\x7f"),
        ("INT8", [-128, 127], b"\x80\x7f"),
        ("BOOL", [0, 1], b"\0\1"),
        ("FP16", [1, -2], b"\0\x3c\0\xc0"),
        ("BF16", [1.5, 3], b"\xc0\x3f\x40\x40"),
        ("FP8E4M3", [448, -448], b"\x7e\xfe"),
        ("FP16", [65504, math.inf], b"\xff\x7b\x00\x7c"),
    ],
)
def test_arrays_become_constants_of_every_kind(
    kind: str, values: list[float], stored: bytes
) -> None:
    made = constant_of(np.array(values), dtype(kind))
    assert made.count == len(values)
    assert b"".join(made.chunks()) == stored
    assert made.numpy().tolist() == values


@pytest.mark.parametrize(
    ("kind", "paddings"),
    [
        ("INT8", [0, 7, 6, 5, 4, 3, 2, 1, 0, 7]),
        ("INT4", [0, 7, 7, 6, 6, 5, 5, 4, 4, 3]),
        ("INT48", [0, 2, 4, 6, 0, 2, 4, 6, 0, 2]),
        ("FP32", [0, 4] * 5),
        ("FP4E2M1", [0] * 10),
        ("FP6E2M3", [0] * 10),
    ],
)
def test_data_is_padded_as_tosa_opt_pads_it(kind: str, paddings: list[int]) -> None:
    made = [constant_of(np.zeros(count), dtype(kind)) for count in range(10)]
    assert [constant.padding for constant in made] == paddings


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("INT4", 8, "8 does not fit INT4"),
        ("INT4", -9, "-9 does not fit INT4"),
        ("INT8", 128, "128 does not fit INT8"),
        ("INT48", 2**47, "140737488355328 does not fit INT48"),
        ("INT48", -(2**47) - 1, "-140737488355329 does not fit INT48"),
        ("INT32", 0.5, "0.5 does not fit INT32"),
        # Types that saturate, or have NaN or an infinity above their largest number.
        ("FP6E2M3", 7.75, "7.75 does not fit FP6E2M3"),
        ("FP4E2M1", -6.5, "-6.5 does not fit FP4E2M1"),
        ("FP4E2M1", math.inf, "inf does not fit FP4E2M1"),
        ("FP8E4M3", 500.0, "500.0 does not fit FP8E4M3"),
        ("FP8E5M2", 65000.0, "65000.0 does not fit FP8E5M2"),
        ("FP16", 65520.0, "65520.0 does not fit FP16"),
        ("BOOL", 2, "BOOL holds only true and false"),
    ],
)
def test_values_that_do_not_fit_are_refused(kind: str, value: float, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        constant_of(np.array([0, value]), dtype(kind))


@pytest.mark.parametrize(
    ("kind", "array", "said"),
    [
        ("INT8", np.array([200], np.uint8), "200"),
        ("INT16", np.array([0.5], np.float16), "0.5"),
        ("INT64", np.array([0, 2**63], np.uint64), str(2**63)),
        ("INT64", np.array([0, 2**63], object), str(2**63)),
        ("INT32", np.array([-(2**31) - 1]), str(-(2**31) - 1)),
    ],
)
def test_the_type_of_an_array_does_not_let_its_values_through(
    kind: str, array: Any, said: str
) -> None:
    with pytest.raises(ValueError, match=f"^{said} does not fit {kind}$"):
        constant_of(array, dtype(kind))


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_an_arrays_type_stands_for_an_element_type(row: DType) -> None:
    expected = {"INT48": "INT64", "MXINT8": "INT8"}.get(row.name, row.name)
    assert dtype_of_array(np.zeros(1, row.numpy)) is dtype(expected)
    assert dtype_of_array(np.zeros(1, np.complex64)) is None


@pytest.mark.parametrize("kind", [np.float32, np.int8, np.int64])
def test_a_large_array_in_another_order_is_copied_only_when_it_is_read(kind: Any) -> None:
    array = np.arange(1 << 21).astype(kind).reshape(1 << 11, 1 << 10).T
    element = dtype_of_array(array)
    assert element is not None
    found, expected = constant_of(array, element), constant_of(np.ascontiguousarray(array), element)
    assert isinstance(found, Rearranged)
    assert found.buffer == expected.buffer
    assert found.same_bits(expected)
    assert (len(found), found.nbytes) == (expected.nbytes, expected.nbytes)
    assert found.padding == expected.padding
    assert found.uniform() is None
    assert found.address != constant_of(array, element).address
    assert b"".join(in_order([b"a", found])) == b"a" + bytes(expected.buffer)


def test_equal_elements_in_another_order_are_uniform() -> None:
    array = np.ones((1 << 11, 1 << 10), np.float32).T
    found = constant_of(array, dtype("FP32"))
    assert bytes(found.uniform() or b"") == bytes.fromhex("0000803f")
