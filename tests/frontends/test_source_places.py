"""Where in the user's files operations and operators come from, without a framework."""

from __future__ import annotations

import pytest

from tosa_convert.frontends.jax.source import place_of_location, scope_of
from tosa_convert.frontends.unlowered import line_of

CALLS = 'callsite("f"("/home/net.py":7:17) at "<module>"("/home/net.py":90:1))'


@pytest.mark.parametrize(
    ("location", "scope"),
    [
        (f'loc("jit(main)/head/mul"({CALLS}))', "head/mul"),
        (f'loc(callsite("max" at "jit(main)/head/jit(relu)"({CALLS})))', "head/max"),
        (f'loc(fused["jit(main)/add"({CALLS}), "jit(main)/mul"({CALLS})])', "add"),
        (f'loc("jit(main)/jit(<lambda>)/Dense_0/dot_general"({CALLS}))', "Dense_0/dot_general"),
        ("loc(unknown)", ""),
        (f"loc({CALLS})", ""),
    ],
)
def test_the_scope_is_in_the_name(location: str, scope: str) -> None:
    assert scope_of(location) == scope


def test_the_place_is_the_innermost_call_of_the_user() -> None:
    frozen = 'callsite("call"("<frozen runpy>":9:1) at '
    place = place_of_location(f'loc("jit(main)/mul"({frozen}{CALLS})))')
    assert (place.scope, place.file, place.line) == ("mul", "/home/net.py", 7)
    assert place_of_location('loc("jit(main)/mul")').file == ""


def test_a_location_has_a_line() -> None:
    assert line_of('loc("head/cumsum"("/home/net.py":9:0))') == "/home/net.py:9"
    assert line_of('loc("head/a")') == ""
