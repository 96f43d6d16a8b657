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


def test_numbers_of_other_dtypes_or_counts_differ() -> None:
    one = Constant(dtype("INT8"), 4, bytes(4))
    assert not one.same_bits(Constant(dtype("FP8E4M3"), 4, bytes(4)))
    assert not one.same_bits(Constant(dtype("INT8"), 3, bytes(3)))


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
