"""MLIR text that is nested without end is refused before MLIR's parser sees it."""

from __future__ import annotations

import pytest

import tosa_convert as tc
from tosa_convert.bindings.untrusted import text

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
        '// c\nmodule attributes {a = "' + "a" * (1 << 24) + '", b = ' + "[" * 100_000,
        "//" + "a" * (1 << 24) + '"\nmodule attributes {b = ' + "[" * 100_000,
        "module attributes {a = affine_map<(d0) -> (" + "- " * 100_000 + "d0)>} {}",
        "#a0 = [1]\n" + "".join(f"#a{i + 1} = [#a{i}]\n" for i in range(5000)),
    ],
    ids=[
        *("lists", "regions", "types", "strings", "comments", "escapes", "arrows"),
        *("long-string", "long-comment", "signs", "aliases"),
    ],
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


@pytest.mark.parametrize(
    "operands",
    ["%3#2147483647", "%a #400000000", "%" + "a" * 300 + "#400000000",
     ", ".join(f"%a{i}#99999" for i in range(2000))],
    ids=["plain", "blank", "long-name", "many"],
)  # fmt: skip
def test_the_number_of_a_result_is_no_wish_for_memory(operands: str) -> None:
    with pytest.raises(tc.TosaConvertError, match="no operation has that many") as caught:
        tc.load(f"module {{ return {operands} : i32 }}".encode())
    assert caught.value.code == "malformed-mlir"


def test_sound_numbers_of_results_are_let_pass() -> None:
    text.check(memoryview(b'return %3#12, %4#1234, %"x#1234567" : i32, i32'))


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["#l0 = loc(unknown)"]
    lines += [f"#l{i + 1} = loc(callsite(#l{i} at\n #l{i}))" for i in range(40)]
    for source in ("\n".join(lines), " ".join(lines), "\n".join(reversed(lines))):
        with pytest.raises(tc.TosaConvertError, match="stands for over") as caught:
            tc.load(source.encode())
        assert caught.value.code == "too-large"


def test_many_aliases_and_a_module_that_uses_them_are_let_pass() -> None:
    lines = ["#map = affine_map<(d0) -> (d0)>", *(f'#loc{i} = loc("f":{i}:1)' for i in range(9999))]
    lines += ["module {", *(f'  "x.y"() : () -> () loc(#loc{i})' for i in range(9999)), "}"]
    lines += [f"#c{i + 1} = loc(callsite(#loc{i} at #c{i}))" for i in range(300)]
    for order in (lines, [*lines[:1], *lines[10_000:], *lines[1:10_000]]):
        text.check(memoryview("\n".join(order).encode()))
    # An alias that stands for itself is MLIR's to refuse.
    text.check(memoryview(b"#a = [#b]\n#b = [#a]\n"))


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("module attributes {tosa.a = dense<1> : tensor<2xi16777215>} {}", "unsupported-dtype"),
        (
            "module attributes {tosa.a = dense_resource<b> : tensor<1xi32>} {}\n"
            '{-# dialect_resources: { builtin: { b: "0x0000000001000000" } } #-}',
            "malformed-mlir",
        ),
    ],
    ids=["width", "alignment"],
)
def test_other_wishes_for_memory_are_refused(source: str, code: str) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(source.encode())
    assert caught.value.code == code
    text.check(
        memoryview(b'%i16777215 = "x"() : i64, @i1234567, dense<"0x00000000"> : tensor<1xi32>')
    )


def test_a_long_string_costs_no_more_than_itself() -> None:
    import tracemalloc

    source = b'// c\nmodule attributes {tosa.a = "' + b"a" * (1 << 24) + b'"} {}'
    tracemalloc.start()
    text.check(memoryview(source))
    assert tracemalloc.get_traced_memory()[1] < 8 * len(source)
    tracemalloc.stop()


def test_what_is_as_deep_as_allowed_is_parsed() -> None:
    depth = text.MAX_DEPTH - 1
    source = b"module attributes {tosa.a = " + b"[" * depth + b"]" * depth + b"} {}"
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(source)
    assert caught.value.code == "no-function", str(caught.value)
