"""MLIR text that is nested without end is refused before MLIR's parser sees it."""

from __future__ import annotations

import pytest

import tosa_convert as tc
from tosa_convert.mlir import nesting

torch_mlir = pytest.importorskip("torch_mlir", reason="reads MLIR")

DEEP = nesting.MAX_DEPTH + 1


@pytest.mark.parametrize(
    "text",
    [
        "module attributes {a = " + "[" * 100_000,
        "module { func.func @main() { " + '"x.y"() ({' * 20_000,
        "module attributes {a = " + "tuple<" * 100_000,
        # Strings, comments and arrows that seem to close what they do not.
        "module attributes {a = " + '["]", ' * 100_000,
        "module attributes {a = " + "[// ]\n" * 100_000,
        "module attributes {a = " + '["\\"]", ' * 100_000,
        "module attributes {a = " + "() -> (" * 100_000,
    ],
    ids=["lists", "regions", "types", "strings", "comments", "escapes", "arrows"],
)
def test_text_nested_without_end_is_refused(text: str) -> None:
    with pytest.raises(tc.TosaConvertError, match="nested more than") as caught:
        tc.load(text.encode())
    assert caught.value.code == "too-large"


def test_brackets_side_by_side_or_in_strings_are_no_nesting() -> None:
    nesting.check(memoryview(b"[]" * 10_000))
    nesting.check(memoryview(b'"' + b"[" * 10_000 + b'"'))
    nesting.check(memoryview(b"// " + b"[" * 10_000 + b"\n"))
    nesting.check(memoryview(b"() -> () " * 10_000))
    nesting.check(memoryview(b"[" * nesting.MAX_DEPTH))
    with pytest.raises(tc.TosaConvertError):
        nesting.check(memoryview(b"[" * DEEP))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_pieces_are_looked_at_as_a_whole(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting, "_CHUNK", size)
    nesting.check(memoryview(b'"' + b"[" * DEEP + b'"'))
    with pytest.raises(tc.TosaConvertError):
        nesting.check(memoryview(b'"]]]]" [ ' * DEEP))


def test_what_is_as_deep_as_allowed_is_parsed() -> None:
    depth = nesting.MAX_DEPTH - 1
    text = b"module attributes {tosa.a = " + b"[" * depth + b"]" * depth + b"} {}"
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(text)
    assert caught.value.code == "no-function", str(caught.value)
