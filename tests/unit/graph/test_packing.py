"""Elements below 8 bits. The expected bytes come from files that the reference model accepts."""

from __future__ import annotations

import numpy as np
import pytest

from tosa_convert.graph import Constant, constant, dtype
from tosa_convert.graph import constant as packing
from tosa_convert.graph.constant import pack, sign_extend, unpack


def by_hand(elements: list[int], bits: int) -> bytes:
    """Return the same packing through one large integer: bits of element i start at bit i * bits."""
    whole = sum((element & (1 << bits) - 1) << i * bits for i, element in enumerate(elements))
    return whole.to_bytes((len(elements) * bits + 7) // 8, "little")


def test_the_first_int4_is_the_low_nibble() -> None:
    # 1, -2 (0xE), 7 -> 0xE1, 0x07
    assert pack(np.array([0x1, 0xE, 0x7], np.uint8), 4).tobytes() == bytes.fromhex("e107")


def test_fp6_is_one_stream_of_bits() -> None:
    # FP6E2M3 1.0 = 0x08, -2.0 = 0x30, 7.0 = 0x1E: 001000 | 110000 | 011110 from the lowest bit up
    assert pack(np.array([0x08, 0x30, 0x1E], np.uint8), 6).tobytes() == bytes.fromhex("08ec01")


@pytest.mark.parametrize("bits", [4, 6])
@pytest.mark.parametrize("count", [*range(18), 1001])
def test_packing_agrees_with_one_large_integer_and_unpacks_again(bits: int, count: int) -> None:
    elements = np.random.default_rng(count).integers(0, 1 << bits, count).astype(np.uint8)
    packed = pack(elements, bits)
    assert packed.tobytes() == by_hand(elements.tolist(), bits)
    assert unpack(packed, bits, count).tolist() == elements.tolist()


@pytest.mark.parametrize("bits", [4, 6])
def test_bits_above_the_element_do_not_reach_its_neighbours(bits: int) -> None:
    elements = np.array([0xFF, 0x00, 0xFF, 0x00, 0xFF], np.uint8)
    assert pack(elements, bits).tobytes() == by_hand(elements.tolist(), bits)


@pytest.mark.parametrize("bits", [4, 6])
def test_packing_in_blocks_is_packing_at_once(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant, "BLOCK", 8)
    elements = np.arange(37, dtype=np.uint8) & np.uint8((1 << bits) - 1)
    element = dtype("INT4" if bits == 4 else "FP6E2M3")
    pieces = list(Constant(element, 37, elements, unpacked=True).chunks())
    assert len(pieces) == 5
    assert b"".join(pieces) == pack(elements, bits).tobytes()


def test_a_block_ends_on_a_byte_for_every_width() -> None:
    assert packing.BLOCK % 4 == 0


@pytest.mark.parametrize("bits", [3, 5, 8])
def test_other_widths_are_refused(bits: int) -> None:
    with pytest.raises(ValueError, match="are not packed"):
        pack(np.zeros(4, np.uint8), bits)
    with pytest.raises(ValueError, match="are not packed"):
        unpack(np.zeros(4, np.uint8), bits, 4)


def test_sign_extension_gives_twos_complement() -> None:
    assert sign_extend(np.array([0, 7, 8, 9, 15], np.uint8), 4).tolist() == [0, 7, -8, -7, -1]
