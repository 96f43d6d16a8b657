"""Well-formed flatbuffers with meaningless fields: refused, with the operator or tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from unit.both_readers import read
from unit.building import encode
from unit.graph.test_verify import zoo

from tosa_convert.errors import MAX_FINDINGS, TosaConvertError
from tosa_convert.graph import compare, verify

flatbuffers = pytest.importorskip("flatbuffers", reason="the flatbuffers package is not installed")

from unit import outside_flatbuffer as outside  # noqa: E402 - it imports flatbuffers

Fields = dict[str, Any]
MAIN = 'region "main" block "main"'


def fields(*, out_of_line: bool = False) -> Fields:
    """Return the fields of a sound file, to be changed."""
    return outside.read(encode(zoo(), out_of_line=out_of_line))


def main(root: Fields) -> Fields:
    found: Fields = root["regions"][0]["blocks"][0]
    return found


def operator(root: Fields, index: int, **changes: Any) -> None:
    main(root)["operators"][index].update(changes)


def attribute(root: Fields, index: int, **changes: Any) -> None:
    main(root)["operators"][index]["attribute"].update(changes)


def tensor(root: Fields, name: str, **changes: Any) -> None:
    (found,) = [value for value in main(root)["tensors"] if value["name"] == name]
    found.update(changes)


def shape(root: Fields, name: str, **changes: Any) -> None:
    (found,) = [value for value in main(root)["shapes"] if value["name"] == name]
    found.update(changes)


def twice(root: Fields, kind: str) -> None:
    main(root)[kind].append(dict(main(root)[kind][0]))


def without_attribute(root: Fields) -> None:
    del main(root)["operators"][4]["attribute"]


def version(root: Fields, major: int, minor: int, patch: int = 0, draft: bool = False) -> None:
    root["version"] = {"_major": major, "_minor": minor, "_patch": patch, "_draft": draft}


# The change, the code, the location, and a part of the message.
CASES: dict[str, tuple[Callable[[Fields], None], str, str, str]] = {
    "no operator": (lambda r: operator(r, 0, op=0), "unsupported-operator",
                    f"{MAIN} operator #0", "operator code 0 (UNKNOWN)"),
    "operator 9999": (lambda r: operator(r, 8, op=9999), "unsupported-operator",
                      f"{MAIN} operator #8", "operator code 9999 is not"),
    "others' attributes": (lambda r: operator(r, 5, attribute_type=2, attribute={"acc_type": 5}),
                           "malformed-operator", f"{MAIN} operator #5",
                           "has attributes of AvgPool2dAttribute, expected TransposeAttribute"),
    "attributes 255": (lambda r: operator(r, 0, attribute_type=255), "malformed-operator",
                       f"{MAIN} operator #0", "attributes of type 255"),
    "no attributes": (without_attribute, "malformed-operator", f"{MAIN} operator CLAMP #4",
                      "CLAMP has no attributes"),
    "an enum of 0": (lambda r: attribute(r, 4, nan_mode=0), "malformed-operator",
                     f"{MAIN} operator CLAMP #4", '"nan_mode" is 0, expected PROPAGATE (1), IGNORE (2)'),
    "an enum of 7": (lambda r: attribute(r, 4, nan_mode=7), "malformed-operator",
                     f"{MAIN} operator CLAMP #4", '"nan_mode" is 7'),
    "an accumulator of 0": (lambda r: attribute(r, 6, acc_type=0), "malformed-operator",
                            f"{MAIN} operator AVG_POOL2D #6", '"acc_type" is UNKNOWN, which means that'),
    "an accumulator of 99": (lambda r: attribute(r, 6, acc_type=99), "malformed-operator",
                             f"{MAIN} operator AVG_POOL2D #6", "code 99, which is not a DType"),
    "no type": (lambda r: tensor(r, "i", type=0), "malformed-tensor",
                f'{MAIN} tensor #0 "i"', "UNKNOWN"),
    "type SHAPE": (lambda r: tensor(r, "i", type=10), "malformed-tensor",
                   f'{MAIN} tensor #0 "i"', "SHAPE, which the type of a TosaShape"),
    "type 99": (lambda r: tensor(r, "i", type=99), "malformed-tensor",
                f'{MAIN} tensor #0 "i"', "code 99"),
    "unranked of a shape": (lambda r: tensor(r, "i", is_unranked=True), "malformed-tensor",
                            f'{MAIN} tensor #0 "i"', "unranked and has shape [1, 4, 4, 2]"),
    "block shape 16": (lambda r: tensor(r, "mx", block_shape=16), "malformed-tensor",
                       f'{MAIN} tensor #3 "mx"', "block shape 16"),
    "block shape alone": (lambda r: tensor(r, "mx", scale_type=0), "malformed-tensor",
                          f'{MAIN} tensor #3 "mx"', "scales of type UNKNOWN"),
    "scale type alone": (lambda r: tensor(r, "mx", block_shape=0), "malformed-tensor",
                         f'{MAIN} tensor #3 "mx"', "block shape 0"),
    "scales alone": (lambda r: tensor(r, "k", scale_data=b"\0"), "malformed-tensor",
                     f'{MAIN} tensor #2 "k"', "it has scales and no block shape"),
    "data too short": (lambda r: tensor(r, "k", data=b"\1"), "data-length",
                       f'{MAIN} tensor #2 "k"', "1 bytes of data, 3 x INT4 need 2"),
    "data laid out otherwise": (lambda r: tensor(r, "k", data=bytes(20) + b"\1"), "data-length",
                                f'{MAIN} tensor #2 "k"', "and the rest is not 0"),
    "scales too short": (lambda r: tensor(r, "mx", scale_data=b"\0\0\0"), "data-length",
                         f'{MAIN} tensor #3 "mx"', "3 bytes of scales, 4 x FP8UE8M0 need 4"),
    "data of any size": (lambda r: tensor(r, "k", shape=[-1]), "data-length",
                         f'{MAIN} tensor #2 "k"', "dynamic shape [-1]"),
    "data of any rank": (lambda r: tensor(r, "k", shape=[], is_unranked=True), "data-length",
                         f'{MAIN} tensor #2 "k"', "dynamic shape"),
    "sizes too short": (lambda r: shape(r, "to", data=bytes(31)), "data-length",
                        f'{MAIN} shape #0 "to"', "31 bytes of data, 4 sizes need 32"),
    "more sizes than data": (lambda r: shape(r, "to", rank=2**32 - 1), "data-length",
                             f'{MAIN} shape #0 "to"', "4294967295 sizes"),
    "a tensor twice": (lambda r: twice(r, "tensors"), "duplicate-name", MAIN,
                       'two tensors of the block are called "i"'),
    "a shape twice": (lambda r: twice(r, "shapes"), "duplicate-name", MAIN,
                      'two shapes of the block are called "to"'),
    "data after the end": (lambda r: tensor(r, "k", offset=2**40, size=2), "missing-data",
                            f'{MAIN} tensor #2 "k"', f"2 bytes at {2**40}, the file ends at"),
    "data over the end": (lambda r: tensor(r, "k", offset=64, size=2**63), "missing-data",
                          f'{MAIN} tensor #2 "k"', f"{2**63 - 1} bytes at 64"),
    "offset of 2^64 - 1": (lambda r: tensor(r, "k", offset=2**64 - 1, size=2**64 - 1), "missing-data",
                           f'{MAIN} tensor #2 "k"', "the file ends at"),
    "scales after the end": (lambda r: tensor(r, "mx", scale_offset=2**40, scale_size=4),
                              "missing-data", f'{MAIN} tensor #3 "mx"', "the file ends at"),
    "data out of line, too short": (lambda r: tensor(r, "k", offset=64, size=1), "data-length",
                               f'{MAIN} tensor #2 "k"', "1 bytes of data, 3 x INT4 need 2"),
    "TOSA 0.60": (lambda r: version(r, 0, 60), "unsupported-version", "version",
                  "the file is TOSA 0.60.0; readable versions are 1.0.0"),
    "TOSA 1.1": (lambda r: version(r, 1, 1), "unsupported-version", "version", "TOSA 1.1.0; readable"),
    "TOSA 1.2": (lambda r: version(r, 1, 2, draft=True), "unsupported-version", "version",
                 "1.2.0 draft"),
    "TOSA 2.0": (lambda r: version(r, 2, 0), "unsupported-version", "version", "TOSA 2.0.0"),
    "no version": (lambda r: r["version"].clear(), "unsupported-version", "version",
                   "states no version of TOSA"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_meaningless_field_is_refused_by_name(name: str) -> None:
    change, code, where, message = CASES[name]
    changed = fields()
    change(changed)
    with pytest.raises(TosaConvertError) as caught:
        read(outside.write(changed))
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == (code, where)
    assert message in finding.message


def test_several_findings_are_reported_at_once() -> None:
    changed = fields()
    tensor(changed, "k", data=b"\1")
    shape(changed, "to", data=b"\1")
    operator(changed, 0, op=0)
    with pytest.raises(TosaConvertError) as caught:
        read(outside.write(changed))
    assert [finding.code for finding in caught.value.findings] == [
        "unsupported-operator",
        "data-length",
        "data-length",
    ]


def test_the_number_of_findings_is_limited() -> None:
    changed = fields()
    main(changed)["tensors"] = [{"name": f"{i}", "type": 99} for i in range(5000)]
    with pytest.raises(TosaConvertError) as caught:
        read(outside.write(changed))
    assert len(caught.value.findings) == MAX_FINDINGS


def test_each_finding_names_its_block() -> None:
    changed = fields()
    for region in changed["regions"]:
        region["blocks"][0]["tensors"][-1]["type"] = 99
    with pytest.raises(TosaConvertError) as caught:
        read(outside.write(changed))
    assert [finding.where for finding in caught.value.findings] == [
        f'{MAIN} tensor #10 "dyn"',
        'region "then" block "then_bb0" tensor #0 "a"',
        'region "else" block "else_bb0" tensor #0 "a"',
    ]


@pytest.mark.parametrize("offset", [0, 1])
def test_an_offset_of_0_or_1_means_that_the_data_is_inside(offset: int) -> None:
    changed = fields()
    tensor(changed, "k", offset=offset, size=1000)
    assert compare(read(outside.write(changed)), zoo()) is None


def test_data_after_the_flatbuffer_takes_precedence_over_data_inside() -> None:
    changed = fields()
    tensor(changed, "k", data=b"\7\7", offset=64, size=2)
    inside = outside.write(changed)
    tensor(changed, "k", offset=len(inside))
    found = read(outside.write(changed) + b"\xe1\x07")
    assert compare(found, zoo()) is None


def test_data_after_the_flatbuffer_may_lie_anywhere_and_be_longer_than_needed() -> None:
    changed = fields()
    tensor(changed, "k", data=b"", offset=2**20, size=3)
    end = len(outside.write(changed))
    tensor(changed, "k", offset=end + 1)
    assert compare(read(outside.write(changed) + b"\xff\xe1\x07\xff"), zoo()) is None


def test_bools_other_than_0_and_1_are_true() -> None:
    changed = fields()
    tensor(changed, "c", shape=[3], data=b"\0\1\x02")
    data = read(outside.write(changed)).main.tensors["c"].data
    assert data is not None
    assert data.numpy().tolist() == [False, True, True]


def test_unknown_fields_of_newer_schemas_are_ignored() -> None:
    known = dict(outside.SCHEMA)
    changed = fields()
    changed["version"]["_future"] = 7
    try:
        outside.SCHEMA["Version"] += " _future:i32"
        data = outside.write(changed)
    finally:
        outside.SCHEMA.update(known)
    assert verify(read(data)) == []
