"""Our schema is equivalent to the one that tosa-tools was built with."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from oracle import official_suite
from oracle.file_json import first_difference

pytest.importorskip("flatbuffers", reason="the flatbuffers package reads binary schemas")
from oracle.reflection import reflect

from tosa_convert.formats.wire.layout import ATTRIBUTES
from tosa_convert.graph.opset import OPERATORS

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(bool(official_suite.missing()), reason=official_suite.missing()),
]


def flatc(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(official_suite.native("flatc")), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def reflected(schema: Path, folder: Path) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    done = flatc("--binary", "--schema", "--bfbs-builtins", "-o", folder, schema)
    assert done.returncode == 0, done.stderr + done.stdout
    return reflect((folder / f"{schema.stem}.bfbs").read_bytes())


def conforms(newer: Path, older: Path) -> bool:
    """Return whether files of `older` can be read with `newer`."""
    return flatc("--conform", older, newer).returncode == 0


@pytest.fixture(scope="module")
def ours(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return our schema without the operators that the tools do not have yet."""
    text = (pytestconfig.rootpath / "schema" / "tosa.fbs").read_text(encoding="utf-8")
    for row in OPERATORS:
        if not row.is_in_tools:
            table = ATTRIBUTES[row.code]
            text = re.sub(rf"  (?:{row.name}|{table}),\n|\ntable {table} {{[^}}]*}}\n", "", text)
    path = tmp_path_factory.mktemp("schema") / "tosa.fbs"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def theirs() -> Path:
    return official_suite.schema()


def test_each_schema_reads_files_of_the_other(ours: Path, theirs: Path) -> None:
    assert conforms(ours, theirs)
    assert conforms(theirs, ours)


def test_both_have_the_same_tables_slots_types_defaults_and_alignment(
    ours: Path, theirs: Path, tmp_path: Path
) -> None:
    left, right = reflected(theirs, tmp_path / "theirs"), reflected(ours, tmp_path / "ours")
    assert first_difference(left, right) == ""
    # The comparison is not empty.
    assert len(right["tables"]) == 110
    assert len(right["enums"]["tosa.Attribute"]["members"]) == 101
    aligned = [
        found["name"]
        for table in right["tables"].values()
        for found in table["fields"]
        if found["attributes"].get("force_align") == "8"
    ]
    assert sorted(aligned) == ["data", "data", "max_val", "min_val", "scale_data"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "incompatible"),
    [
        ("  BF16,\n  SHAPE,", "  SHAPE,\n  BF16,", True),
        ("  BILINEAR,", "  BILINEAR = 3,", True),
        ("  axis: int32;\n  nan_mode", "  axes: int32;\n  nan_mode", False),
        ("  axis: int32;\n  nan_mode", "  axis: int32 = 1;\n  nan_mode", True),
        ("  axis: int32;\n  nan_mode", "  axis: uint32;\n  nan_mode", True),
        ("  scale32: bool;", "  scale32: bool;\n  scale48: bool;", True),
        ("_draft: bool = true", "_draft: bool = false", True),
        ("(force_align: 8)", "", False),
        ("version: Version (required)", "version: Version", False),
        ('file_identifier "TOSA"', 'file_identifier "TOSB"', False),
        ('file_extension "tosa"', 'file_extension "bin"', False),
        ("root_type TosaGraph", "root_type TosaRegion", False),
        (
            "  ArgMaxAttribute,\n  AvgPool2dAttribute,",
            "  AvgPool2dAttribute,\n  ArgMaxAttribute,",
            True,
        ),
        ("enum BlockShape : uint32", "enum BlockShape : uint8", True),
    ],
)
def test_a_change_of_the_schema_is_found(
    ours: Path, theirs: Path, tmp_path: Path, old: str, new: str, incompatible: bool
) -> None:
    text = ours.read_text(encoding="utf-8")
    assert old in text
    changed = tmp_path / "tosa.fbs"
    changed.write_text(text.replace(old, new, 1), encoding="utf-8")
    left = reflected(theirs, tmp_path / "theirs")
    assert first_difference(left, reflected(changed, tmp_path / "changed"))
    # flatc accepts what it calls an evolution, which is why reflection is compared, too.
    assert (conforms(changed, theirs) and conforms(theirs, changed)) != incompatible
