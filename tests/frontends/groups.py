"""Groups of frameworks that `nox -s frontends` tests, each in an environment of its own.

A group is a file of third_party/frontends: a constraints file of pip, whose comments say the rest.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).resolve().parents[2] / "third_party" / "frontends"
TESTS: Final = Path(__file__).resolve().parent
#: A line `# key: words`, and a release with the licence and the purpose of its package.
_KEY: Final = re.compile(r"^# (extras|packages|tests): (.+)$", re.MULTILINE)
_PACKAGE: Final = re.compile(r"^([\w.-]+)==\S+ # ([^:\n]+): (.+)$", re.MULTILINE)


class Group(NamedTuple):
    """extras: of this package. packages: further ones. tests: patterns of files in tests/frontends.

    licences: package -> its licence and its purpose.
    """

    extras: tuple[str, ...]
    packages: tuple[str, ...]
    tests: tuple[str, ...]
    licences: dict[str, tuple[str, str]]

    def files(self) -> list[Path]:
        """Return the test files of the group, in order."""
        return sorted({path for pattern in self.tests for path in TESTS.glob(pattern)})


def group_of(path: Path) -> Group:
    """Return the group of a constraints file.

    By default its extra and its tests have the file's name.
    """
    text = path.read_text(encoding="utf-8")
    said: dict[str, list[str]] = {
        "extras": [path.stem],
        "packages": [],
        "tests": [f"test_{path.stem.replace('-', '_')}*.py", "test_imports.py"],
    }
    rows = _KEY.findall(text)
    said.update({key: [] for key, _ in rows})
    for key, words in rows:
        said[key] += words.split()
    licences = {name: (licence, purpose) for name, licence, purpose in _PACKAGE.findall(text)}
    extras, packages, tests = (tuple(said[key]) for key in ("extras", "packages", "tests"))
    return Group(extras, packages, tests, licences)


def groups() -> dict[str, Group]:
    """Return every group by its name."""
    return {path.stem: group_of(path) for path in sorted(FOLDER.glob("*.txt"))}
