"""Every way to damage a flatbuffer: refused, with the offset of the byte."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusing import error_of
from unit.both_readers import read
from unit.building import PRODUCER, branching, encode, example, graph, op, tensor
from unit.graph.test_verify import zoo
from unit.surgery import File

from tosa_convert.errors import TosaConvertError
from tosa_convert.formats.flatbuffer import columns
from tosa_convert.formats.json.write import write as write_json
from tosa_convert.graph import Graph, compare, operator, verify

BLOCK = "regions 0 blocks 0"


def file(make: Callable[[], object] = example) -> File:
    return File(encode(make()))  # type: ignore[arg-type]


def refusal(data: bytes) -> TosaConvertError:
    return error_of(read, data)


#: Each function damages a file and returns the offset that the error must name.
def damage_identifier(f: File) -> int:
    f[4:8] = b"TFL3"
    return 4


def root_at_zero(f: File) -> int:
    f.put("I", 0, 0)
    return 0


def root_outside(f: File) -> int:
    f.put("I", 0, len(f))
    return len(f)


def root_far_outside(f: File) -> int:
    f.put("I", 0, 0xFFFFFFFF)
    return 0xFFFFFFFF


def root_skewed(f: File) -> int:
    f.put("I", 0, f.u32(0) + 2)
    return f.u32(0)


def offset_zero(path: str) -> Callable[[File], int]:
    def damage(f: File) -> int:
        field = f.at(path).field
        f.put("I", field, 0)
        return field

    return damage


def offset_outside(path: str) -> Callable[[File], int]:
    def damage(f: File) -> int:
        field = f.at(path).field
        f.put("I", field, 0x40000000)
        return field + 0x40000000

    return damage


def offset_skewed(path: str) -> Callable[[File], int]:
    def damage(f: File) -> int:
        place = f.at(path)
        f.put("I", place.field, place.target - place.field + 1)
        return place.target + 1

    return damage


def vtable_outside(f: File) -> int:
    table = f.at("version").target
    f.put("i", table, -0x40000000)
    return table + 0x40000000


def vtable_before_the_file(f: File) -> int:
    table = f.at("version").target
    f.put("i", table, 0x40000000)
    return table - 0x40000000


def vtable_at_the_last_place(f: File) -> int:
    """Its size is there, and the size of the table is not."""
    table = f.at("version").target
    assert len(f) % 2 == 0
    f.put("i", table, table - (len(f) - 2))
    return len(f)


def vtable_skewed(f: File) -> int:
    place = f.at("version major")
    f.put("i", place.table, place.table - place.vtable - 1)
    return place.vtable + 1


def vtable_size(size: int) -> Callable[[File], int]:
    def damage(f: File) -> int:
        vtable = f.at("version major").vtable
        f.put("H", vtable, size)
        return vtable

    return damage


def table_size(size: int) -> Callable[[File], int]:
    def damage(f: File) -> int:
        place = f.at("version major")
        f.put("H", place.vtable + 2, size)
        return place.vtable if size < 0x4000 else place.table

    return damage


def entry(value: int) -> Callable[[File], int]:
    def damage(f: File) -> int:
        place = f.at("version minor")
        f.put("H", place.entry, value)
        return place.table + value if value == 6 else place.vtable

    return damage


def length(path: str) -> Callable[[File], int]:
    def damage(f: File) -> int:
        target = f.at(path).target
        f.put("I", target, 0x7FFFFFFF)
        return target

    return damage


def no_terminator(f: File) -> int:
    at = f.at(f"{BLOCK} tensors 1 name").target
    end = at + 4 + f.u32(at)
    f[end] = 1
    return end


def not_utf8(f: File) -> int:
    at = f.at(f"{BLOCK} name").target
    f[at + 6] = 0xFF
    return at + 6


def absent_version(f: File) -> int:
    place = f.at("version")
    f.put("H", place.entry, 0)
    return place.table


DAMAGED: dict[str, tuple[Callable[[File], int], str]] = {
    "identifier": (damage_identifier, "the identifier is b'TFL3', expected b'TOSA'"),
    "root at 0": (root_at_zero, "the offset of the root table TosaGraph is 0"),
    "root outside": (root_outside, "table TosaGraph lies outside the file"),
    "root far outside": (root_far_outside, "table TosaGraph lies outside the file"),
    "root skewed": (root_skewed, "table TosaGraph is not aligned to 4 bytes"),
    "version absent": (absent_version, "TosaGraph.version is required and absent"),
    "version at 0": (offset_zero("version"), "the offset of TosaGraph.version is 0"),
    "version outside": (offset_outside("version"), "table Version lies outside the file"),
    "vtable outside": (vtable_outside, "the vtable of a Version lies outside the file"),
    "vtable before": (vtable_before_the_file, "the vtable of a Version lies outside the file"),
    "vtable at the end": (vtable_at_the_last_place, "the vtable of a Version lies outside the file"),
    "vtable skewed": (vtable_skewed, "the vtable of a Version is not aligned to 2 bytes"),
    "vtable of 2 bytes": (vtable_size(2), "the vtable of a Version has an impossible size"),
    "vtable of 7 bytes": (vtable_size(7), "the vtable of a Version has an impossible size"),
    "vtable too long": (vtable_size(0xFFFE), "the vtable of a Version has an impossible size"),
    "table of 3 bytes": (table_size(3), "the vtable of a Version has an impossible size"),
    "table too long": (table_size(0xFFFF), "a Version lies partly outside the file"),
    "field in the head": (entry(2), "Version._minor lies outside its table"),
    "field after its table": (entry(21), "Version._minor lies outside its table"),
    "field skewed": (entry(6), "Version._minor is not aligned to 4 bytes"),
    "regions at 0": (offset_zero("regions"), "the offset of TosaGraph.regions is 0"),
    "regions outside": (offset_outside("regions"), "length of TosaGraph.regions lies outside"),
    "regions too many": (length("regions"), "TosaGraph.regions has 2147483647 elements of 4 bytes"),
    "region at 0": (offset_zero("regions 0"), "the offset of TosaGraph.regions is 0"),
    "region outside": (offset_outside("regions 0"), "table TosaRegion lies outside the file"),
    "blocks too many": (length("regions 0 blocks"), "TosaRegion.blocks has 2147483647 elements"),
    "operators too many": (length(f"{BLOCK} operators"), "TosaBasicBlock.operators has 2147483647"),
    "operator outside": (offset_outside(f"{BLOCK} operators 1"), "table TosaOperator lies outside"),
    "inputs skewed": (offset_skewed(f"{BLOCK} inputs"), "TosaBasicBlock.inputs is not aligned"),
    "inputs too many": (length(f"{BLOCK} inputs"), "TosaBasicBlock.inputs has 2147483647 elements"),
    "name outside": (offset_outside(f"{BLOCK} inputs 0"), "TosaBasicBlock.inputs lies outside"),
    "attribute at 0": (offset_zero(f"{BLOCK} operators 2 attribute"), "ReduceSumAttribute is 0"),
    "attribute outside": (offset_outside(f"{BLOCK} operators 2 attribute"),
                          "table ReduceSumAttribute lies outside the file"),
    "location outside": (offset_outside(f"{BLOCK} operators 2 location"),
                         "table OpLocation lies outside the file"),
    "text at 0": (offset_zero(f"{BLOCK} operators 2 location text"), "OpLocation.text is 0"),
    "name too long": (length(f"{BLOCK} tensors 1 name"), ".inputs runs over the end"),
    "no terminating zero": (no_terminator, ".inputs is not terminated by a zero"),
    "not UTF-8": (not_utf8, "TosaRegion.name is not UTF-8"),
    "shape outside": (offset_outside(f"{BLOCK} tensors 1 shape"), "TosaTensor.shape lies outside"),
    "shape too long": (length(f"{BLOCK} tensors 1 shape"), "TosaTensor.shape has 2147483647 elements"),
    "data too long": (length(f"{BLOCK} tensors 1 data"), "TosaTensor.data has 2147483647 elements"),
    "data outside": (offset_outside(f"{BLOCK} shapes 0 data"), "TosaShape.data lies outside"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused_with_the_byte(name: str) -> None:
    damage, message = DAMAGED[name]
    damaged = file()
    blamed = damage(damaged)
    error = refusal(bytes(damaged))
    assert error.code == "malformed-flatbuffer"
    assert error.exit_code == 3
    (finding,) = error.findings
    assert finding.where == f"byte {blamed}"
    assert message in finding.message
    assert finding.hint


@pytest.mark.parametrize("size", range(8))
def test_a_file_that_ends_within_its_header_is_refused(size: int) -> None:
    assert refusal(bytes(file()[:size])).findings[0].where == f"byte {size}"


@pytest.mark.slow
@pytest.mark.parametrize("out_of_line", [False, True])
def test_a_truncated_file_is_refused(out_of_line: bool) -> None:
    data = encode(example(), out_of_line=out_of_line)
    codes = {refusal(data[:size]).code for size in range(len(data))}
    assert codes <= {"malformed-flatbuffer", "missing-data"}


@pytest.mark.slow
@pytest.mark.parametrize("change", [0x01, 0x80])
def test_any_changed_byte_gives_a_graph_or_an_expected_error(change: int) -> None:
    original = file(branching)
    accepted = 0
    # Every byte is changed in one of the two runs.
    for position in range(change & 1, len(original), 2):
        damaged = bytearray(original)
        damaged[position] ^= change
        try:
            found = read(bytes(damaged))
        except TosaConvertError:
            continue
        accepted += 1
        findings = verify(found)
        assert all(finding.message for finding in findings)
        if not findings:  # It can be written.
            again = read(encode(found))
            assert compare(found, again, locations=True, version=True) is None
    # Texts, numbers and padding may be anything.
    assert accepted


# -- fast paths ---------------------------------------------------------------------------------


def many_vtables() -> bytes:
    """Return tensors with every subset of six fields, which makes a vtable for each."""
    outside = pytest.importorskip("unit.outside_flatbuffer", reason="flatbuffers is not installed")
    fields = {
        "shape": (2,), "data": b"\1\2", "variable_name": "s", "variable": True,
        "offset": 1, "size": 7,
    }  # fmt: skip
    rows = [
        {"name": f"t{bits}", "type": 3}
        | {name: value for at, (name, value) in enumerate(fields.items()) if bits >> at & 1}
        for bits in range(64)
        if bits & 3 != 2
    ]
    version = {"_major": 1, "_minor": 0, "_patch": 0, "_draft": False}
    block = {"name": "main", "tensors": rows}
    made: bytes = outside.write(
        {"version": version, "regions": [{"name": "main", "blocks": [block]}]}
    )
    return made


def both_ways(
    monkeypatch: pytest.MonkeyPatch, name: str, fast: object, slow: object, data: bytes
) -> list[str]:
    """Return the result of reading with the fast path and with the slow one.

    The program or the findings.
    """
    results = []
    for path in (fast, slow):
        with monkeypatch.context() as patched:
            owner = columns if hasattr(columns, name) else columns.Columns
            patched.setattr(owner, name, path)
            try:
                results.append(b"".join(write_json(read(data), PRODUCER)).decode())
            except TosaConvertError as error:
                results.append(str(error))
    return results


def test_tables_of_many_vtables_are_read_and_a_damaged_vtable_is_refused() -> None:
    f = File(many_vtables())
    read(bytes(f))
    vtable = f.at(f"{BLOCK} tensors 3 name").vtable
    for offset, number in ((0, 3), (0, 60_000), (2, 2), (4, 2), (4, 60_000), (8, 3), (8, 60_000)):
        damaged = File(bytes(f))
        damaged.put("H", vtable + offset, number)
        with pytest.raises(TosaConvertError, match="malformed-flatbuffer"):
            read(bytes(damaged))


def test_strings_are_read_alike_together_and_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*_: object) -> None:
        return None

    fast = columns.Columns.all_at_once
    for make in (example, branching, zoo):
        data = bytes(file(make))
        quick, slow = both_ways(monkeypatch, "all_at_once", fast, slowly, data)
        assert quick == slow
        assert "malformed" not in quick
    damaged = file()
    at = damaged.at(f"{BLOCK} tensors 0 name").target
    damaged[at + 4 : at + 5] = b"\xff"
    quick, slow = both_ways(monkeypatch, "all_at_once", fast, slowly, bytes(damaged))
    assert quick == slow
    assert "is not UTF-8" in quick


def chain_of_three() -> Graph:
    """Return operators of one operand and one result each, with locations."""
    values = [tensor(name) for name in "abcd"]
    rows = [op("ABS", a, b, f'loc("{b}")') for a, b in zip("abc", "bcd", strict=True)]
    return graph("a", "d", list(values), rows)


def test_lists_of_one_and_of_several_names_are_read() -> None:
    for count in (1, 2):
        made = chain_of_three()
        made.main.operators[-1].inputs = ("c",) * count
        made.main.operators[-1].spec = operator(("EXP", "ADD")[count - 1])
        found = read(encode(made)).main.operators
        assert [row.inputs for row in found] == [("a",), ("b",), ("c",) * count]
        assert [row.outputs for row in found] == [("b",), ("c",), ("d",)]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 1, 0), (0, 0, 2)])
def test_locations_in_order_are_read_as_others(order: tuple[int, ...]) -> None:
    made = chain_of_three()
    f = File(encode(made))
    tables = [f.at(f"{BLOCK} operators {index} location").target for index in range(3)]
    for index, which in enumerate(order):
        field = f.at(f"{BLOCK} operators {index} location").field
        f.put("I", field, tables[which] - field)
    found = read(bytes(f)).main.operators
    assert [row.location for row in found] == [f'loc("{"bcd"[which]}")' for which in order]
