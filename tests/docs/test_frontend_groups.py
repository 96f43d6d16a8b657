"""The groups of frameworks, which `nox -s frontends` tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from frontends.groups import TESTS, group_of, groups

from tosa_convert.frontends.table import FRONTENDS


def test_every_test_of_frontends_belongs_to_a_group() -> None:
    named = {path for group in groups().values() for path in group.files()}
    assert sorted({*TESTS.glob("test_*.py")} - named) == []


@pytest.mark.parametrize("name", list(groups()))
def test_every_pattern_names_a_test_and_every_release_is_exact(name: str) -> None:
    for pattern in groups()[name].tests:
        assert list(TESTS.glob(pattern)), pattern
    path = TESTS.parents[1] / "third_party" / "frontends" / f"{name}.txt"
    for line in path.read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"#.*|[\w.-]+==[\w.]+( # [^:]+: .+)?", line), line


def test_every_frontend_has_a_group_with_its_extra() -> None:
    extras = {extra for group in groups().values() for extra in group.extras}
    assert {row.extra for row in FRONTENDS.values()} == extras


def test_a_group_without_comments_has_the_tests_of_its_name(tmp_path: Path) -> None:
    path = tmp_path / "tiny-net.txt"
    path.write_text("tiny-net==1.0 # MIT: makes nets\nnumpy==2.1.3\n", encoding="utf-8")
    found = group_of(path)
    assert found.extras == ("tiny-net",)
    assert found.tests == ("test_tiny_net*.py", "test_imports.py")
    assert found.licences == {"tiny-net": ("MIT", "makes nets")}
