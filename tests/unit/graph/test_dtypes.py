"""Element types: the rows of their table, and what is computed from a row."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tosa_convert.graph.dtypes import BY_CODE, BY_MLIR, DTYPES, ENUMS, BlockSize, DType, dtype

#: TOSA version -> the types that are new in it -> their bits, from the specification's table of types
#: and the release notes of the dialect, independent of the rows.
NEW_IN = {
    (1, 0): {
        "BOOL": 8, "INT4": 4, "INT8": 8, "INT16": 16, "INT32": 32, "INT48": 48,
        "FP16": 16, "BF16": 16, "FP32": 32, "FP8E4M3": 8, "FP8E5M2": 8,
    },
    (1, 1): {"INT64": 64, "MXINT8": 8, "FP8UE8M0": 8, "FP6E2M3": 6, "FP6E3M2": 6, "FP4E2M1": 4},
}  # fmt: skip
BITS = {name: bits for types in NEW_IN.values() for name, bits in types.items()}


def test_every_type_has_the_bits_and_the_version_of_the_specification() -> None:
    assert {row.name: row.bits for row in DTYPES} == BITS
    for version, types in NEW_IN.items():
        assert {row.name for row in DTYPES if row.since == version} == types.keys()


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_a_row_is_found_by_name_code_and_mlir_type(row: DType) -> None:
    assert dtype(row.name) is row
    assert BY_CODE[row.code] is row
    assert BY_MLIR[row.mlir] is row


def test_codes_names_and_mlir_types_are_distinct() -> None:
    assert len(BY_CODE) == len(BY_MLIR) == len({row.name for row in DTYPES}) == len(DTYPES)


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_an_unpacked_element_is_as_wide_as_its_numpy_type(row: DType) -> None:
    expected = 8 if row.name == "INT48" else row.element_bytes
    assert row.numpy.itemsize == expected


@pytest.mark.parametrize("row", DTYPES, ids=str)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 1000])
def test_bytes_on_the_wire_are_bits_rounded_up(row: DType, count: int) -> None:
    assert row.wire_bytes(count) == -(-count * BITS[row.name] // 8)


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_a_row_stays_itself_when_pickled(row: DType) -> None:
    assert pickle.loads(pickle.dumps(row)) is row


def test_only_types_below_a_byte_are_packed() -> None:
    assert {row.name for row in DTYPES if row.is_packed} == {
        name for name, bits in BITS.items() if bits < 8
    }


def test_an_unknown_name_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        dtype("FP64")


def test_no_enum_of_the_graph_has_a_member_for_unknown() -> None:
    for enum in ENUMS.values():
        assert 0 not in {int(member) for member in enum}
        assert "UNKNOWN" not in enum.__members__


def test_numpy_types_that_numpy_has_do_not_come_from_ml_dtypes() -> None:
    assert dtype("INT8").numpy == np.int8
    assert dtype("FP32").numpy == np.float32


def test_blocks_have_1_or_32_elements() -> None:
    assert [int(size) for size in BlockSize] == [1, 32]
