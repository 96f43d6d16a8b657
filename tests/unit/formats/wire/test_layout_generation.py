"""layout.py is what schema/generate.py makes of schema/tosa.fbs, and the generator skips nothing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tosa_convert.formats.wire import layout
from tosa_convert.formats.wire.tables import Field


@pytest.fixture
def generate(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", root / "schema" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "generate", module)
    spec.loader.exec_module(module)
    return module


def test_the_layout_in_the_tree_is_up_to_date(generate: ModuleType) -> None:
    # To update it: python schema/generate.py
    assert generate.main(["--check"]) == 0


def test_a_stale_layout_is_reported_with_the_fix(
    generate: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stale = tmp_path / "layout.py"
    monkeypatch.setattr(generate, "LAYOUT", stale)
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    fresh = stale.read_text()
    stale.write_text(fresh.replace('"BOOL": 1,', '"BOOL": 2,'))
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().err == (
        "layout.py is stale. To update it: python schema/generate.py\n"
    )
    assert '"BOOL": 2,' in stale.read_text()
    assert generate.main([]) == 0
    assert stale.read_text() == fresh


def test_a_changed_schema_makes_the_layout_stale(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = tmp_path / "tosa.fbs"
    changed.write_text(generate.SCHEMA.read_text().replace("axis: int32;", "axis: int32 = 7;", 1))
    monkeypatch.setattr(generate, "SCHEMA", changed)
    assert generate.main(["--check"]) == 1


SMALL = """
// A comment; table Gone { x: int32; }
namespace n;
file_identifier "ABCD";
file_extension "x";
enum E : uint32 { ZERO, FIVE = 5, SIX, }
union U { A, B }
table A { }
table B {
  /// Documented.
  flag: bool = true;
  number: int32 = -3;
  choice: E;
  text: string;
  child: A (required);
  children: [A];
  numbers: [int32];
  raw: [ubyte] (force_align: 16);
  texts: [string];
  any: U;
  far: ulong;
}
root_type B;
"""


def test_each_kind_of_declaration_becomes_its_slot(generate: ModuleType) -> None:
    text = generate.render(generate.parse(SMALL))
    made: dict[str, object] = {}
    exec(compile(text, "layout.py", "exec"), made)
    assert made["IDENTIFIER"] == b"ABCD"
    assert made["ROOT"] == "B"
    assert made["ENUMS"] == {"E": {"ZERO": 0, "FIVE": 5, "SIX": 6}}
    assert made["ATTRIBUTES"] == ("NONE", "A", "B")
    tables = made["TABLES"]
    assert isinstance(tables, dict)
    assert tables.keys() == {"A", "B"}
    assert tables["A"].fields == ()
    assert tables["B"].fields == (
        Field("flag", 0, "bool", default=1),
        Field("number", 1, "i32", default=-3),
        Field("choice", 2, "u32", enum="E"),
        Field("text", 3, "string"),
        Field("child", 4, "table", table="A", required=True),
        Field("children", 5, "[table]", table="A"),
        Field("numbers", 6, "[i32]"),
        Field("raw", 7, "[u8]", align=16),
        Field("texts", 8, "[string]"),
        Field("any_type", 9, "u8"),
        Field("any", 10, "union"),
        Field("far", 11, "u64"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("struct S { x: int32; }", "tosa.fbs:1: not understood: 'struct S"),
        ("\n\nrpc_service R { }", "tosa.fbs:3: not understood"),
        ("enum E : byte { A }", "enum E: base type byte"),
        ("table T { x: float; }", "table T: field x: type float"),
        ("table T { x: [double]; }", "table T: field x: type \\[double\\]"),
        ("table T { x: int32 (deprecated); }", "table T: field x: attribute 'deprecated'"),
        ("table T { x int32; }", "table T: not understood: 'x int32'"),
        ("table T { x: Missing; }", "table T: field x: type Missing"),
        ("table T { x: [Missing]; }", "table T: field x: type \\[Missing\\]"),
    ],
)
def test_an_unknown_declaration_is_an_error_and_never_skipped(
    generate: ModuleType, text: str, message: str
) -> None:
    with pytest.raises(SyntaxError, match=message):
        generate.render(generate.parse(text))


def test_the_layout_of_a_table_has_gaps_only_after_the_distance_to_the_vtable() -> None:
    for table in layout.TABLES.values():
        layout_of_all = table.layout(tuple(field.name for field in table.fields))
        taken = sorted((layout_of_all.offsets[field.name], field.width) for field in table.fields)
        end = 4
        for offset, width in taken:
            assert offset % width == 0
            assert offset >= end
            # Gaps are only before the first slot, and smaller than the widest slot.
            assert offset == end or end == 4
            end = offset + width
        assert layout_of_all.size == end + -end % 4
