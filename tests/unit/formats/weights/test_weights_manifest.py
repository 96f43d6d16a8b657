"""Reading a folder of weights: manifests that are damaged or do not match the program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit.weights_folder import (
    Json,
    edit,
    edit_entry,
    refusal,
    scaled,
    several,
)

from tosa_convert.errors import MAX_FINDINGS
from tosa_convert.formats.weights.read import read
from tosa_convert.formats.weights.write import write
from tosa_convert.io.options import Limits

# -- reading: the manifest ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"a": ' * 100_000, "not valid JSON"),
        ('{"format": 1, "format": 1}', "duplicate key"),
        ('{"version": NaN}', "NaN is not an integer"),
        ('{"version": 1.0}', "1.0 is not an integer"),
        ('{"version": 1e5}', "1e5 is not an integer"),
        ('{"version": ' + "9" * 10_000 + "}", "not valid JSON"),
        ("[]", "not a tosa-convert weights manifest"),
        ("{}", "not a tosa-convert weights manifest"),
        ('{"format": "tosa-convert weights"}', "its version is None, expected 1"),
        ('{"format": "tosa-convert weights", "version": 2}', "its version is 2, expected 1"),
        ('{"format": "tosa-convert weights", "version": true}', "its version is True"),
        ('{"format": "tosa-convert weights", "version": ' + "9" * 4000 + "}", "a huge number"),
        ('{"format": "tosa-convert weights", "version": 1}', "'constants' is missing"),
    ],
)
def test_a_malformed_manifest_is_refused(text: str, message: str, folder: Path) -> None:
    apart = write(several("a"), folder)
    (folder / "manifest.json").write_text(text)
    error = refusal(apart, folder)
    assert error.code == "malformed-weights"
    assert message in str(error)
    assert len(str(error)) < 2000


def test_a_manifest_above_the_limit_is_refused_unread(folder: Path) -> None:
    apart = write(several("a"), folder)
    error = refusal(apart, folder, limits=Limits(manifest_bytes=100))
    assert "the limit is 100" in str(error)
    read(apart, folder, limits=Limits(manifest_bytes=1000))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(extra=1), "unknown field 'extra'"),
        (lambda c: c.pop("producer"), "'producer' is missing"),
        (lambda c: c.update(producer=1), "producer: error: found 1, expected str"),
        (lambda c: c.update(constants={}), "constants: error: found an object, expected list"),
        (lambda c: c.update(constants=[1]), "constants[0]: error: found 1, expected dict"),
        (lambda c: c["constants"][0].update(more=1), "constants[0]: error: unknown field"),
        (lambda c: c["constants"][0].pop("file"), "constants[0]: error: the field 'file'"),
    ],
)
def test_a_manifest_with_other_fields_is_refused(
    change: Callable[[Json], None], message: str, folder: Path
) -> None:
    apart = write(several("a"), folder)
    edit(folder, change)
    error = refusal(apart, folder)
    assert error.code == "malformed-weights"
    assert message in str(error)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("region", 1),
        ("block", None),
        ("tensor", ["a"]),
        ("part", "scales"),
        ("part", 0),
        ("file", 7),
        ("dtype", "int32"),
        ("dtype", "SHAPE"),
        ("dtype", 5),
        ("shape", "2"),
        ("shape", ["2"]),
        ("shape", [True]),
        ("shape", [-1]),
        ("shape", [2**31]),
        ("shape", [1] * 33),
        ("shape", 2),
        ("padding", -1),
        ("padding", 8),
        ("padding", True),
        ("padding", "0"),
        ("sha256", "0" * 63),
        ("sha256", "A" * 64),
        ("sha256", 0),
    ],
)
def test_an_entry_with_a_wrong_value_is_refused(field: str, value: Any, folder: Path) -> None:
    apart = write(several("a"), folder)
    edit(folder, lambda c: c["constants"][0].update({field: value}))
    error = refusal(apart, folder)
    assert error.code == "malformed-weights"
    assert f"constants[0].{field}" in str(error)


def test_findings_about_a_manifest_are_limited(folder: Path) -> None:
    apart = write(several("a"), folder)
    edit(folder, lambda c: c.update(constants=[0] * 10_000))
    assert len(refusal(apart, folder).findings) == MAX_FINDINGS


def test_one_file_for_two_constants_is_refused(folder: Path) -> None:
    apart = write(several("a", "b"), folder)
    edit_entry(folder, file="B.npy")
    assert "two constants are in the file 'b.npy'" in str(refusal(apart, folder))


def test_one_constant_in_two_files_is_refused(folder: Path) -> None:
    apart = write(several("a", "b"), folder)
    edit_entry(folder, tensor="b")
    assert 'duplicate constant: region "main" block "main" tensor "b"' in str(
        refusal(apart, folder)
    )


# -- reading: the program -------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["region", "block", "tensor"])
def test_weights_of_a_tensor_that_is_not_there_are_refused(field: str, folder: Path) -> None:
    apart = write(several("a"), folder)
    edit_entry(folder, **{field: "other"})
    error = refusal(apart, folder)
    assert error.code == "undefined-name"
    assert "belong to another program" in str(error)


def test_scales_of_a_tensor_without_blocks_are_refused(folder: Path) -> None:
    apart = write(several("a"), folder)
    edit_entry(folder, part="scale_data")
    assert "the tensor is not block-scaled" in str(refusal(apart, folder))


def test_scales_of_another_number_are_refused(folder: Path) -> None:
    apart = write(scaled(), folder)
    edit(folder, lambda c: c["constants"][1].update(shape=[3]))
    assert refusal(apart, folder).code == "mismatched-weights"


@pytest.mark.parametrize("index", [0, 1])
def test_a_constant_without_data_anywhere_is_reported(index: int, folder: Path) -> None:
    apart = write(scaled(), folder)
    edit(folder, lambda c: c["constants"].pop(index))
    error = refusal(apart, folder)
    assert error.code == "missing-data"
    assert f"constant's {('data', 'scale_data')[index]}" in str(error)
