"""MLIR text that is nested without end is refused before MLIR's parser sees it."""

from __future__ import annotations

import pytest

import tosa_convert as tc
from tosa_convert.mlir import text

torch_mlir = pytest.importorskip("torch_mlir", reason="reads MLIR")

DEEP = text.MAX_DEPTH + 1


@pytest.mark.parametrize(
    "source",
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
def test_text_nested_without_end_is_refused(source: str) -> None:
    with pytest.raises(tc.TosaConvertError, match="nested more than") as caught:
        tc.load(source.encode())
    assert caught.value.code == "too-large"


def test_brackets_side_by_side_or_in_strings_are_no_nesting() -> None:
    text.check(memoryview(b"[]" * 10_000))
    text.check(memoryview(b'"' + b"[" * 10_000 + b'"'))
    text.check(memoryview(b"// " + b"[" * 10_000 + b"\n"))
    text.check(memoryview(b"() -> () " * 10_000))
    text.check(memoryview(b"[" * text.MAX_DEPTH))
    with pytest.raises(tc.TosaConvertError):
        text.check(memoryview(b"[" * DEEP))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_pieces_are_looked_at_as_a_whole(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_CHUNK", size)
    text.check(memoryview(b'"' + b"[" * DEEP + b'"'))
    with pytest.raises(tc.TosaConvertError):
        text.check(memoryview(b'"]]]]" [ ' * DEEP))


def test_the_number_of_a_result_is_no_wish_for_memory() -> None:
    with pytest.raises(tc.TosaConvertError, match="has that many results") as caught:
        tc.load(b"module { return %3#2147483647 : i32 }")
    assert caught.value.code == "malformed-mlir"
    text.check(memoryview(b'return %3#12, %"x#1234567" : i32, i32'))


def test_what_is_as_deep_as_allowed_is_parsed() -> None:
    depth = text.MAX_DEPTH - 1
    source = b"module attributes {tosa.a = " + b"[" * depth + b"]" * depth + b"} {}"
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(source)
    assert caught.value.code == "no-function", str(caught.value)
