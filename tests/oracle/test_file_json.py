"""The JSON of two files may differ only where a rule allows it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from oracle.file_json import CORRECTIONS, first_difference, simplified

BLOCK_SCALED, NANS, NAMES, VARIABLES = CORRECTIONS.values()


def file(*tensors: Any, **block: Any) -> Any:
    """Return a file with one region and these tensors."""
    return {"regions": [{"name": "main", "blocks": [{"tensors": list(tensors), **block}]}]}


def tensor(kind: str, data: bytes, *shape: int, **more: Any) -> Any:
    return {"name": "t", "type": kind, "shape": list(shape), "data": list(data), **more}


def test_stamps_locations_and_empty_fields_do_not_count() -> None:
    one = {
        "software_version": {"_major": 1},
        "operators": [{"location": {"text": "a"}, "op": "ADD"}],
    }
    other = {"operators": [{"op": "ADD", "inputs": []}], "shapes": [], "name": ""}
    assert simplified(one) == simplified(other) == {"operators": [{"op": "ADD"}]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"op": "ADD"}, {"op": "SUB"}),
        ({"axis": 1}, {}),
        ({"data": [1, 2]}, {"data": [1, 2, 0]}),
        ({"a": [{"b": "x"}]}, {"a": [{"b": "y"}]}),
        ({"compatibility": {"features": 2}}, {"compatibility": {}}),
    ],
)
def test_every_other_difference_counts(one: Any, other: Any) -> None:
    assert first_difference(simplified(one), simplified(other))


def test_a_difference_is_reported_with_its_path() -> None:
    one, other = {"a": [{"b": [1, 2]}]}, {"a": [{"b": [1, 3]}]}
    assert first_difference(one, other) == ".a[0].b[1]: 2 != 3"


def test_block_scaled_data_is_packed_and_nothing_else() -> None:
    scaled = {"block_shape": "BLOCK_SHAPE_32"}
    fp8 = tensor("FP8E4M3", b"".join(bytes([i]) + bytes(7) for i in range(32)), 32, **scaled)
    fp4 = tensor("FP4E2M1", bytes(i % 16 for i in range(32)), 32, **scaled)
    fp6 = tensor("FP6E2M3", bytes(range(32)), 32, **scaled)
    found = file(fp8, fp4, fp6)
    assert BLOCK_SCALED(found, {})
    assert fp8["data"] == list(range(32))
    assert fp4["data"] == [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE] * 2
    assert fp6["data"][:3] == [0x40, 0x20, 0x0C]
    # The defect does not produce these: another byte set, too long, not a block-scaled tensor.
    for kept in (
        tensor("FP8E4M3", b"\1\1" * 128, 32, **scaled),
        tensor("FP8E4M3", bytes(32), 32, **scaled),
        tensor("FP4E2M1", b"\x10" * 32, 32, **scaled),
        tensor("FP8E4M3", b"\1" + bytes(7), 1),
    ):
        before = copy.deepcopy(kept)
        assert not BLOCK_SCALED(file(kept), {})
        assert kept == before


def test_only_nans_that_tosa_opt_replaced_are_restored() -> None:
    theirs = tensor("FP16", b"\x00\x7e\x00\x3c\x00\x7e", 3)
    assert NANS(file(theirs), file(tensor("FP16", b"\x01\x7c\x00\x3c\xff\xff", 3)))
    assert bytes(theirs["data"]) == b"\x01\x7c\x00\x3c\xff\xff"
    for ours in (b"\x00\x7c", b"\x00\x3c"):  # infinity and a number are not NaN
        theirs = tensor("FP16", b"\x00\x7e", 1)
        assert not NANS(file(theirs), file(tensor("FP16", ours, 1)))
    theirs = tensor("FP16", b"\x01\x7e", 1)  # the defect does not make other NaNs
    assert not NANS(file(theirs), file(tensor("FP16", b"\x02\x7e", 1)))
    theirs = tensor("FP32", b"\x00\x00\xc0\x7f", 1)  # a type whose NaNs it preserves
    assert not NANS(file(theirs), file(tensor("FP32", b"\x01\x00\xc0\x7f", 1)))


def regions(*names: str) -> Any:
    """Return a main region with an operator for each two names, and the regions of those names."""
    operators = [
        {"op": "COND_IF", "attribute": {"then_graph": then, "else_graph": other}}
        for then, other in zip(names[::2], names[1::2], strict=True)
    ]
    found = [{"name": "main", "blocks": [{"name": "main", "operators": operators}]}]
    found += [{"name": name, "blocks": [{"name": f"{name}_bb0"}]} for name in names]
    return {"regions": found}


def test_region_names_may_differ_only_by_our_number() -> None:
    theirs = regions("then", "else", "then", "else")
    ours = regions("then", "else", "then_1", "else_1")
    assert NAMES(theirs, ours)
    assert first_difference(theirs, ours) == ""
    assert not NAMES(theirs, regions("then", "else", "other", "else_1"))
    assert not NAMES(regions("a", "b"), regions("a_1", "b_1"))
    swapped = regions("then", "else", "then_1", "else_1")
    swapped["regions"][0]["blocks"][0]["operators"].reverse()
    # Both have the same name now, and differ only by their content.
    swapped["regions"][1]["blocks"][0]["operators"] = [{"op": "ADD"}]
    assert NAMES(theirs, swapped)
    assert first_difference(theirs, swapped)


def test_only_many_variables_may_be_in_another_order() -> None:
    def variables(order: list[int], data: int = 0) -> Any:
        found: list[Any] = [{"name": f"Variable_{i}", "variable": True, "data": [i]} for i in order]
        found[0]["data"][0] += data
        return file(*found, {"name": "z"})

    nine = list(range(9))
    theirs, ours = variables(nine[::-1]), variables(nine)
    assert VARIABLES(theirs, ours)
    assert first_difference(theirs, ours) == ""
    theirs, ours = variables(nine[::-1], 1), variables(nine)
    VARIABLES(theirs, ours)
    assert first_difference(theirs, ours)
    theirs, ours = variables([1, 0]), variables([0, 1])
    assert not VARIABLES(theirs, ours)
    assert first_difference(theirs, ours)
