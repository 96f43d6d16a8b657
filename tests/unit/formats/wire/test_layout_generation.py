"""layout.py is what schema/generate.py makes of schema/tosa.fbs, and the generator skips nothing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


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
