"""The rules of constants, copies, variables and operators of other domains."""

from __future__ import annotations

from tosa_convert.rules.values import shape_text


def test_a_shape_is_shown_as_far_as_it_is_known() -> None:
    assert shape_text(None) == "of unknown rank"
    assert shape_text((2, None, -1)) == "[2, ?, ?]"
    assert shape_text((1,) * 80).endswith(", ... 80 sizes]")
