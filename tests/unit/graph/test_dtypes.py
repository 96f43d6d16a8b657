"""Element types: the rows of their table, and what is computed from a row."""

from __future__ import annotations

from tosa_convert.graph.dtypes import BY_CODE, BY_MLIR, DTYPES, ENUMS, BlockSize

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


def test_codes_names_and_mlir_types_are_distinct() -> None:
    assert len(BY_CODE) == len(BY_MLIR) == len({row.name for row in DTYPES}) == len(DTYPES)


def test_no_enum_of_the_graph_has_a_member_for_unknown() -> None:
    for enum in ENUMS.values():
        assert 0 not in {int(member) for member in enum}
        assert "UNKNOWN" not in enum.__members__


def test_blocks_have_1_or_32_elements() -> None:
    assert [int(size) for size in BlockSize] == [1, 32]
