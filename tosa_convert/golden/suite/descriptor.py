"""The `desc.json` of an official case: read and checked, its files found, and written for a run.

A descriptor comes from elsewhere, and the reference model reads and writes every file that it names. So
the model gets a descriptor of our own, whose files are in a temporary folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tosa_convert.errors import fail
from tosa_convert.golden.arrays.slots import SCALE_FILE
from tosa_convert.io.files import path_below, read_json

NAME: Final = "desc.json"


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _are_rows(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(row, dict) for row in value.values())


#: Path of a field -> whether it must be there, and what it holds.
_FIELDS: Final[Mapping[str, tuple[bool, Callable[[object], bool]]]] = {
    "tosa_file": (True, _is_text),
    "ifm_name": (True, _are_texts),
    "ifm_file": (True, _are_texts),
    "ofm_name": (True, _are_texts),
    "ofm_file": (True, _are_texts),
    "expected_failure": (False, _is_flag),
    "test_details": (False, lambda value: isinstance(value, dict)),
    "test_requirements": (False, lambda value: isinstance(value, dict)),
    "test_requirements.profiles_supported": (False, _are_texts),
    "test_requirements.extensions_required": (False, _are_texts),
    "meta": (False, lambda value: isinstance(value, dict)),
    "meta.data_gen": (False, lambda value: isinstance(value, dict)),
    "meta.data_gen.tensors": (False, _are_rows),
    "meta.compliance": (False, lambda value: isinstance(value, dict)),
    "meta.compliance.tensors": (False, _are_rows),
}
#: Fields that the reference model gets as they are.
_FOR_THE_MODEL: Final = ("expected_failure", "test_requirements", "meta")
_ABSENT: Final = object()


def read_descriptor(folder: Path) -> dict[str, Any]:
    """Read the descriptor of a case, whose fields have the types that official tests give them.

    Raises:
        TosaConvertError: "file-error".
    """
    path = folder / NAME
    content = read_json(path, "a test descriptor")
    if not isinstance(content, dict):
        raise fail("file-error", str(path), "not a test descriptor: expected an object")
    for name, (is_needed, holds) in _FIELDS.items():
        value: Any = content
        for part in name.split("."):
            value = value.get(part, _ABSENT) if isinstance(value, dict) else _ABSENT
        if value is _ABSENT:
            if is_needed:
                raise fail("file-error", str(path), f"not a test descriptor: it has no {name}")
        elif not holds(value):
            raise fail("file-error", str(path), f"not a test descriptor: {name} is {value!r:.80}")
    for kind in ("ifm", "ofm"):
        names, files = content[f"{kind}_name"], content[f"{kind}_file"]
        if len(names) != len(files):
            message = f"it has {len(names)} in {kind}_name, and {len(files)} in {kind}_file"
            raise fail("file-error", str(path), f"not a test descriptor: {message}")
    return content


def case_file(folder: Path, name: str) -> Path:
    """Find a file that a descriptor names. Raises TosaConvertError("unsafe-path") and ("file-error")."""
    return Path(path_below(folder, name, str(folder / NAME)))


def case_files(folder: Path, description: Mapping[str, Any]) -> tuple[Path, dict[str, Path]]:
    """Find the program of a case, and the files of its inputs by their names in `described_run`.

    Files of scales are beside those of the values; files that do not exist are left out.
    """
    found: dict[str, Path] = {}
    for number, name in enumerate(description["ifm_file"]):
        for suffix in ("", SCALE_FILE):
            path = case_file(folder, f"{name.removesuffix('.npy')}{suffix}.npy")
            if os.path.exists(path):
                found[f"in{number}{suffix}.npy"] = path
    return case_file(folder, description["tosa_file"]), found


def described_run(description: Mapping[str, Any]) -> dict[str, Any]:
    """Make the descriptor of a run in a folder that has model.tosa and in0.npy and gets out0.npy."""
    kept = {name: description[name] for name in _FOR_THE_MODEL if name in description}
    return {
        **kept,
        "tosa_file": "model.tosa",
        "ifm_name": description["ifm_name"],
        "ifm_file": [f"in{i}.npy" for i in range(len(description["ifm_name"]))],
        "ofm_name": description["ofm_name"],
        "ofm_file": [f"out{i}.npy" for i in range(len(description["ofm_name"]))],
    }
