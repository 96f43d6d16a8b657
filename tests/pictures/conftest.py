"""Shared by the tests of pictures: a browser, and the layout library."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pictures.browser import Browser, browser, missing


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Yield a browser in light colours."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def _layout() -> None:
    """Skip without the layout library."""
    pytest.importorskip("fast_sugiyama", reason="fast-sugiyama is not installed")
