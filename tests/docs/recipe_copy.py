"""A copy of the checkout, in which a recipe of CONTRIBUTING.md is carried out."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
#: What generators and tests read.
_FOLDERS: Final = (
    *("benchmarks", "docs", "findings", "examples", "manual", "schema", "tests", "third_party"),
    *("tosa_convert", "zoo"),
)
_CACHES: Final = shutil.ignore_patterns("__pycache__", "*.pyc")

#: File, text in it, and what takes its place. The text is there once; "" is the end of the file.
Edit = tuple[str, str, str]


def recipe(title: str) -> str:
    """Return the text of a section of CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def refuse_stale(edits: Iterable[Edit]) -> None:
    """Check that each text that is replaced is in its file once."""
    for name, old, _ in edits:
        text = (ROOT / name).read_text(encoding="utf-8") if old else ""
        assert not old or text.count(old) == 1, (name, old)


def copy_checkout(root: Path, edits: Iterable[Edit]) -> Path:
    """Copy the checkout into a folder, and carry out steps there; returns the folder."""
    for path in (*ROOT.glob("*.md"), ROOT / "noxfile.py", ROOT / "pyproject.toml"):
        shutil.copy(path, root / path.name)
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, root / name, ignore=_CACHES)
    for name, old, new in edits:
        path = root / name
        path.parent.mkdir(exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        path.write_text(text.replace(old, new) if old else text + new, encoding="utf-8")
    return root


def run(root: Path, *arguments: str, fails: bool = False, path: str = "") -> str:
    """Run Python on the copy, with another folder of packages; returns its output."""
    ended = subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(root), path)))},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
    )
    assert fails or ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def changed(root: Path) -> set[str]:
    """Return the files of the copy that differ from those of the checkout, or are not there."""
    pairs = [(path, ROOT / path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    return {
        path.relative_to(root).as_posix()
        for path, own in pairs
        if not {"__pycache__", ".pytest_cache"} & set(path.parts)
        and not (own.exists() and path.read_bytes() == own.read_bytes())
    }
