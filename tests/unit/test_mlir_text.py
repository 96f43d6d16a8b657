"""MLIR text that MLIR's parser must not read, because it would exhaust the stack or the memory."""

from __future__ import annotations

from random import Random

import pytest

import tosa_convert as tc
from tosa_convert.bindings.untrusted import text, text_nesting
from tosa_convert.options import DEFAULT_LIMITS, Limits

torch_mlir = pytest.importorskip("torch_mlir", reason="reads MLIR")

DEPTH = DEFAULT_LIMITS.text_depth


@pytest.mark.parametrize(
    "source",
    [
        "module attributes {a = " + "[" * 100_000,
        "module { func.func @main() { " + '"x.y"() ({' * 20_000,
        "module attributes {a = " + "tuple<" * 100_000,
        # Strings, comments and arrows contain brackets that close nothing.
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
def test_text_nested_too_deeply_is_refused(source: str) -> None:
    with pytest.raises(tc.TosaConvertError, match="nested more than") as caught:
        tc.load(source.encode())
    assert caught.value.code == "too-large"


def test_brackets_side_by_side_or_in_strings_do_not_nest() -> None:
    text.check(memoryview(b"[]" * 10_000))
    text.check(memoryview(b'"' + b"[" * 10_000 + b'"'))
    text.check(memoryview(b"// " + b"[" * 10_000 + b"\n"))
    text.check(memoryview(b"() -> () " * 10_000))
    text.check(memoryview(b"[" * DEPTH))
    with pytest.raises(tc.TosaConvertError):
        text.check(memoryview(b"[" * (DEPTH + 1)))


@pytest.mark.parametrize(
    "operands",
    ["%3#2147483647", "%a #400000000", "%" + "a" * 300 + "#400000000",
     ", ".join(f"%a{i}#99999" for i in range(2000))],
    ids=["plain", "blank", "long-name", "many"],
)  # fmt: skip
def test_a_result_number_that_no_operation_defines_is_refused(operands: str) -> None:
    with pytest.raises(tc.TosaConvertError, match="can define at most") as caught:
        tc.load(f"module {{ return {operands} : i32 }}".encode())
    assert caught.value.code == "malformed-mlir"


def test_result_numbers_of_sound_text_are_accepted() -> None:
    text.check(memoryview(b'return %3#12, %4#1234, %"x#1234567" : i32, i32'))


def test_many_uses_of_results_with_large_numbers_are_accepted() -> None:
    """The numbers of uses are not added up: MLIR allocates the results of an operation once."""
    count = 2000
    operands = ", ".join(f"%0#{index}" for index in range(count))
    types = ", ".join(["tensor<1xf32>"] * count)
    uses = "\n".join(f'  "x.y"({operands}) : ({types}) -> ()' for _ in range(3))
    text.check(memoryview(f'%0:{count} = "x.z"() : () -> ({types})\n{uses}'.encode()))
    assert sum(range(1000, count)) * 3 > text.MAX_RESULTS


def test_text_may_refer_to_as_many_results_as_it_has_bytes() -> None:
    padding = b"// sound text has a type for each result\n" + b"tensor<1xi8>, " * 150_000
    text.check(memoryview(b"%0#1500000 " + padding))
    with pytest.raises(tc.TosaConvertError, match="can define at most"):
        text.check(memoryview(b"%0#1500000"))
    with pytest.raises(tc.TosaConvertError, match="can define at most"):
        text.check(memoryview(b"%0#1500000 %1#1500000 " + padding))


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["#l0 = loc(unknown)"]
    lines += [f"#l{i + 1} = loc(callsite(#l{i} at\n #l{i}))" for i in range(40)]
    for source in ("\n".join(lines), " ".join(lines), "\n".join(reversed(lines))):
        with pytest.raises(tc.TosaConvertError, match="expands to more than") as caught:
            tc.load(source.encode())
        assert caught.value.code == "too-large"


def test_many_aliases_and_a_module_that_uses_them_are_accepted() -> None:
    lines = ["#map = affine_map<(d0) -> (d0)>", *(f'#loc{i} = loc("f":{i}:1)' for i in range(9999))]
    lines += ["module {", *(f'  "x.y"() : () -> () loc(#loc{i})' for i in range(9999)), "}"]
    lines += [f"#c{i + 1} = loc(callsite(#loc{i} at #c{i}))" for i in range(300)]
    for order in (lines, [*lines[:1], *lines[10_000:], *lines[1:10_000]]):
        text.check(memoryview("\n".join(order).encode()))
    # MLIR itself refuses an alias that uses itself.
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
def test_types_and_alignments_that_need_too_much_memory_are_refused(source: str, code: str) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(source.encode())
    assert caught.value.code == code
    text.check(
        memoryview(b'%i16777215 = "x"() : i64, @i1234567, dense<"0x00000000"> : tensor<1xi32>')
    )


def test_a_long_string_is_checked_in_little_memory() -> None:
    import tracemalloc

    source = b'// c\nmodule attributes {tosa.a = "' + b"a" * (1 << 24) + b'"} {}'
    tracemalloc.start()
    text.check(memoryview(source))
    assert tracemalloc.get_traced_memory()[1] < 8 * len(source)
    tracemalloc.stop()


def test_text_at_the_limit_is_parsed() -> None:
    depth = DEPTH - 1
    source = b"module attributes {tosa.a = " + b"[" * depth + b"]" * depth + b"} {}"
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(source)
    assert caught.value.code == "no-function", str(caught.value)


def brackets(depth: int) -> str:
    return "[" * depth + "]" * depth


def signs(depth: int) -> str:
    """The brackets of the map count, too."""
    return "affine_map<(d0) -> (" + "- " * (depth - 2) + "d0)>"


def signed_brackets(depth: int) -> str:
    pairs = (depth - 2) // 2
    return "affine_map<(d0) -> (" + "-(" * pairs + "d0" + ")" * pairs + ")>"


def aliases(depth: int) -> str:
    rows = [f"#a{i} = [#a{i - 1}]" for i in range(1, depth)]
    return "\n".join(["#a0 = [1]", *rows])


@pytest.mark.parametrize("nested", [brackets, signs, signed_brackets, aliases])
@pytest.mark.parametrize("limit", [4, 10, 1024, 5000])
def test_the_limit_on_depth_is_exact(nested: object, limit: int) -> None:
    assert callable(nested)
    limits = Limits(text_depth=limit)
    text.check(memoryview(nested(limit).encode()), limits=limits)
    with pytest.raises(tc.TosaConvertError, match=f"nested more than {limit} deep") as caught:
        text.check(memoryview(nested(limit + 2).encode()), limits=limits)
    assert caught.value.code == "too-large"
    if nested is not signed_brackets:
        with pytest.raises(tc.TosaConvertError):
            text.check(memoryview(nested(limit + 1).encode()), limits=limits)


def test_an_alias_counts_with_its_depth_where_it_is_used() -> None:
    source = "#a = [[[1]]]\nmodule attributes {x = [{y = #a}]} {}"
    text.check(memoryview(source.encode()), limits=Limits(text_depth=6))
    with pytest.raises(tc.TosaConvertError, match="nested more than 5 deep") as caught:
        text.check(memoryview(source.encode()), "m.mlir", Limits(text_depth=5))
    assert caught.value.findings[0].where == "m.mlir:2:30"


def test_signs_multiplied_by_brackets_are_refused() -> None:
    """Each bracket is nested in all signs before it."""
    source = "affine_map<(d0) -> (" + ("-" * 900 + "(") * 500 + "d0" + ")" * 500 + ")>"
    with pytest.raises(tc.TosaConvertError, match="nested more than"):
        tc.load(f"module attributes {{a = {source}}} {{}}".encode())


def test_negative_numbers_and_differences_do_not_nest() -> None:
    source = "dense<[-1, -2, -3]> affine_map<(d0) -> (d0 - 1, d0 - d0 - d0)>"
    text.check(memoryview(source.encode()), limits=Limits(text_depth=2))


def random_code(random: Random) -> bytes:
    pieces = (
        b"[",
        b"]",
        b"(",
        b")",
        b"-",
        b"- ",
        b"x",
        b" ",
        b"\n",
        b"#a",
        b"#b",
        b"#c",
        b"<",
        b">",
    )
    definitions = b"".join(
        name + b" = " + b"".join(random.choices(pieces[:-2], k=random.randrange(12))) + b"\n"
        for name in (b"#a", b"#b", b"#c")
    )
    return definitions + b"".join(random.choices(pieces, k=random.randrange(30)))


def test_the_bound_is_never_below_the_exact_depth() -> None:
    random = Random(1)
    for _ in range(3000):
        code = random_code(random)
        found = text_nesting.definitions(code)
        bound = text_nesting._bound(code, found, 0)
        depths: dict[bytes, int] = {}
        for name in found:
            depths[name] = text_nesting.exact_depth(found[name].body, depths, 1 << 30)[0]
        exact = max(*depths.values(), text_nesting.exact_depth(code, depths, 1 << 30)[0])
        assert exact <= bound, code


def test_text_is_the_same_with_and_without_the_fast_path() -> None:
    random = Random(2)
    for _ in range(500):
        words = random.choices([b'"["', b'""', b"[", b"->", b"(", b"x", b"\n"], k=20)
        code = b" ".join(words)
        slow = text._code_of(code + b" //")
        assert text._code_of(code).split() == slow.split()


@pytest.mark.parametrize(
    ("source", "where", "line"),
    [
        ('module {\n  // [\n  x = "[" [[[[\n}', "3:14", '  x = "[" [[[['),
        ("module {\n\n  use %a#99999999999 : i32\n}", "3:7", "  use %a#99999999999 : i32"),
        ("module {\n  f(tensor<2xi99999>)\n}", "2:14", "  f(tensor<2xi99999>)"),
        ('{-# dialect_resources: {\n a: "0x00000000"', "2:3", ' a: "0x00000000"'),
    ],
    ids=["brackets", "results", "integers", "alignment"],
)
def test_a_problem_in_text_quotes_the_line_with_a_caret(source: str, where: str, line: str) -> None:
    for path in ("", "some folder/m.mlir"):
        with pytest.raises(tc.TosaConvertError) as caught:
            text.check(memoryview(source.encode()), path, Limits(text_depth=4))
        (finding,) = caught.value.findings
        assert finding.where == f"{path or '-'}:{where}"
        assert finding.excerpt == f"{line}\n{' ' * (int(where.partition(':')[2]) - 1)}^"
