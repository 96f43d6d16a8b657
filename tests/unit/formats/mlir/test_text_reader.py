"""MLIR text is read without MLIR: every form that released tools print, and errors at their places."""

from __future__ import annotations

import random
import re

import pytest
from unit.formats.mlir.text_modules import bytecode, function, printed, refusal

import tosa_convert as tc
from tosa_convert.formats.mlir.text.parse import attributes as locations_module
from tosa_convert.formats.mlir.text.parse import operations as lines_module
from tosa_convert.formats.mlir.text.parse.module import parse
from tosa_convert.formats.mlir.text.print.module import module_text


@pytest.mark.parametrize("escape", ["\\7", "\\r", "\\x41", "\\"])
def test_an_unknown_escape_in_a_string_is_refused(escape: str) -> None:
    text = f'module attributes {{a = "b{escape} "}} {{}}'
    found = refusal(text)
    assert (found.where, "backslash" in found.message) == ("-:1:26", True)


def argmax(attributes: str) -> str:
    return function(
        f"%0 = tosa.argmax %a {attributes} : (tensor<2xf32>) -> tensor<i32>", "tensor<i32>"
    )


FLOATS = "tensor<2xf32>"


def pool(kernel: str) -> str:
    image = "tensor<1x2x2x1xf32>"
    form = f"kernel({kernel}) pad([0, 0, 0, 0]) stride([1, 1])"
    return function(f"%0 = tosa.max_pool2d %a {form} : ({image}) -> {image}", image, image)


# -- operations ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (pool("[1, 1]"), "kernel = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>"),
        (function("%0 = arith.constant true", "i1"), "<{value = true}> : () -> i1"),
        (function("%0 = arith.constant 7", "i64"), "<{value = 7 : i64}> : () -> i64"),
        (function("%0 = arith.constant 1.5", "f64"), "<{value = 1.500000e+00 : f64}> : () -> f64"),
        (function("%0 = arith.constant 3 : index", "index"), "<{value = 3 : index}> : () -> index"),
        (
            "ml_program.global private @v(dense<1> : tensor<1xi8>) : tensor<1xi8>" + function(""),
            'sym_name = "v", sym_visibility = "private", type = tensor<1xi8>, value = dense<1>',
        ),
        (
            "ml_program.global private mutable @v : tensor<1xi8>" + function(""),
            '<{is_mutable, sym_name = "v", sym_visibility = "private", type = tensor<1xi8>}>',
        ),
        (
            "tosa.variable @v = dense_resource<w> : tensor<1xi8>\n" + function(""),
            'initial_value = dense_resource<w> : tensor<1xi8>, sym_name = "v", type = i8',
        ),
        (
            function(f"tosa.cond_if %a (%b = %a) : {FLOATS} ({FLOATS}) {{ tosa.yield }}"),
            "^bb0(%arg1: ",
        ),
        (function('%0 = "a.b"(%a) [^bb1] : (tensor<2xf32>) -> i8', "i8"), '"a.b"(%arg0) : '),
    ],
)
def test_rare_forms_of_operations_are_read(text: str, expected: str) -> None:
    assert expected in printed(text.replace("return %0 : tensor<2xf32>", "return"))


@pytest.mark.parametrize(
    "line",
    [
        "%0 = tosa.argmax %a {axis = 0 : i32, nan_mode = IGNORE} : (tensor<2xf32>) -> tensor<i32>",
        "%0 = tosa.argmax %a axis(0) nan_mode<IGNORE> : (tensor<2xf32>) -> tensor<i32>",
        '%0 = "tosa.argmax"(%a) <{axis = 0 : i32, nan_mode = #tosa.nan_mode<IGNORE>}>'
        " : (tensor<2xf32>) -> tensor<i32>",
        '%0 = "tosa.argmax"(%a) {axis = 0 : i32, nan_mode = #tosa<nan_mode IGNORE>}'
        " : (tensor<2xf32>) -> tensor<i32>",
        '%0 = "tosa.argmax"(%a) <{axis = 0 : i32}> {nan_mode = #tosa.nan_mode<IGNORE>}\n'
        "    // the types\n    : (tensor<2xf32>)\n    -> (tensor<i32>)",
    ],
)
def test_the_forms_of_an_operation_are_the_same(line: str) -> None:
    text = function(line, "tensor<i32>")
    assert '"tosa.argmax"(%arg0) <{axis = 0 : i32, nan_mode = #tosa.nan_mode<IGNORE>}>' in printed(
        text
    )


@pytest.mark.parametrize(
    "head",
    [
        'module {{ func.func @f(%a: tensor<2xf32> {{tosa.tensor_name = "x"}})'
        " -> tensor<2xf32> {{ {} }} }}",
        'module  {{ func @f(%a: tensor<2xf32> {{tosa.tensor_name = "x"}})'
        " -> tensor<2xf32> {{ {} }} }}",
        'builtin.func @f(%a: tensor<2xf32> {{tosa.tensor_name = "x"}}) -> (tensor<2xf32>) {{ {} }}',
        '"builtin.module"() ( {{ "builtin.func"() ( {{'
        " ^bb0(%a: tensor<2xf32>):  // no predecessors\n {} }})"
        ' {{sym_name = "f", type = (tensor<2xf32>) -> tensor<2xf32>,'
        ' arg_attrs = [{{tosa.tensor_name = "x"}}]}} : () -> () }}) : () -> ()',
    ],
)
@pytest.mark.parametrize(
    "end",
    [
        "return %0 : tensor<2xf32>",
        "std.return %0 : tensor<2xf32>",
        '"func.return"(%0) : (tensor<2xf32>) -> ()',
        '"std.return"(%0) : (tensor<2xf32>) -> ()',
    ],
)
def test_functions_of_every_release_are_read(head: str, end: str) -> None:
    body = f'%0 = "tosa.exp"(%a) : (tensor<2xf32>) -> tensor<2xf32>\n {end}\n'
    graph = tc.load(head.format(body).encode())
    assert graph.main.inputs == ["x"]
    assert [op.spec.name for op in graph.main.operators] == ["EXP"]


def test_all_operations_of_other_dialects_are_listed_at_once() -> None:
    text = """func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%a : tensor<2xf32>) outs(%a : tensor<2xf32>) {
    ^bb0(%x: f32, %y: f32):
      linalg.yield %x : f32
  } -> tensor<2xf32>
  %1 = math.exp %0 : tensor<2xf32>
  return %a : tensor<2xf32>
}"""
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(text.encode())
    assert [(finding.code, finding.where) for finding in caught.value.findings] == [
        ("foreign-operator", "-:2:8"),
        ("foreign-operator", "-:7:8"),
    ]


# -- aliases and locations ----------------------------------------------------------------------


def test_aliases_may_come_before_and_after_their_use() -> None:
    text = "!t = tensor<2xf32>\n#mode = #tosa.nan_mode<IGNORE>\n" + function(
        "%0 = tosa.reduce_max %a {axis = 0 : i32, nan_mode = #mode} : (!t) -> tensor<1xf32> loc(#loc2)",
        "tensor<1xf32>",
        "!t",
    )
    text += '\n#loc1 = loc("m.py":3:4)\n#loc2 = loc("name"(#loc1))\n'
    graph = tc.load(text.encode())
    assert graph.main.operators[0].location == 'loc("name"("m.py":3:4))'


def test_an_alias_of_2022_has_the_word_type() -> None:
    text = "!t = type tensor<2xf32>\n" + function("%0 = tosa.exp %a : (!t) -> !t", "!t", "!t")
    assert tc.load(text.encode()).main.operators[0].spec.name == "EXP"


@pytest.mark.parametrize(
    ("location", "expected"),
    [("fused[]", "unknown"), ("fused[unknown, unknown]", "unknown"), ('loc("a")', '"a"')],
)
def test_locations_that_say_the_same_are_the_same(location: str, expected: str) -> None:
    line = "%0 = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32>"
    location = f'callsite({location} at "b")'
    graph = tc.load(function(f"{line} loc({location})").encode())
    assert graph.main.operators[0].location == f'loc(callsite({expected} at "b"))'


# -- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("func.func", "-:1:10", "found the end of the text, expected a symbol"),
        ("module {", "-:1:9", "'}' is missing"),
        (function("%0 = tosa.exp %b : (tensor<2xf32>) -> tensor<2xf32>"), "-:2:17", "%b is used here"),
        (function("%0 = tosa.exp %a : (tensor<3xf32>) -> tensor<2xf32>"), "-:2:22", "another type"),
        (function("%0 = tosa.exp %a : () -> tensor<2xf32>"), "-:2:22", "0 types of operands for 1"),
        (function("%0:2 = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32>"), "-:2:3", "2 results"),
        (function("%a = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32>"), "-:2:3", "defined twice"),
        (function("%0 = tosa.exp %a {x = #y} : (tensor<2xf32>) -> tensor<2xf32>"), "-:2:25", "#y"),
        (function("%0 = tosa.exp %a {x = 1, x = 2} : () -> tensor<2xf32>"), "-:2:28", "twice"),
        (function("%0 = tosa.exp %a : (tensor<2xf32) -> tensor<2xf32>"), "-:2:35", "expected '>'"),
        ("#a = #b\n#b = #a\nmodule {}", "-:2:6", "refers to itself"),
        ("#a = 1\n#a = 1\nmodule {}", "-:2:1", "#a is defined twice"),
        ("#a = 1 #a = 2\nmodule {}", "-:1:8", "#a is defined twice"),
        ("#a = 1 #b = 2 #b = 3 module {}", "-:1:15", "#b is defined twice"),
        (
            function("%0 = tosa.cond_if %a (%b = %a) { tosa.yield %b : tensor<2xf32> }"),
            "-:2:34",
            "found '{', expected ':' and the types",
        ),
        ("module attributes {a.b = [1, }", "-:1:30", "expected an attribute"),
        ('module attributes {a.b = "x}', "-:1:26", "not closed"),
        ("module attributes {a.b = @}", "-:1:27", "expected the name of a symbol"),
        ("module attributes {a.b = #}", "-:1:26", "expected the name of an attribute"),
        ("module attributes {a.b = 1.5 : i8}", "-:1:26", "found the number 1.5 of type i8"),
        ("module attributes {a.b = 1 : f32}", "-:1:26", "expected a decimal point"),
        ("module attributes {a.b = 300 : i8}", "-:1:26", "'300' does not fit i8"),
        ("module attributes {a.b = array<!x.y: 1>}", "-:1:32", "expected the type of a number"),
        ("module attributes {a.b = array<i8: x>}", "-:1:36", "expected a number"),
        ("module attributes {a.b = array<i8: 300>}", "-:1:36", "'300' does not fit i8"),
        ("module attributes {a.b = array<f32: 1>}", "-:1:37", "'1' is not a number of f32"),
        ("module attributes {a.b = loc}", "-:1:26", "expected 'loc('"),
        (argmax("axis(0) axis(1)"), "-:2:31", "the attribute axis is there twice"),
        (argmax("axis(0) {axis = 0 : i32}"), "-:2:31", "the attribute axis is there twice"),
        (argmax("foo<FOO>"), "-:2:23", "'tosa.argmax' has no attribute foo"),
        (pool("[1, x]"), "-:2:38", "found 'x', expected a number"),
        ("tosa.variable @v : tensor<*xi8>", "-:1:18", "expected a ranked tensor"),
        ("tosa.variable @v = 7", "-:1:20", "found '7', expected a constant"),
        (function("tosa.cond_if %a (7 = %a) {}"), "-:2:20", "expected the name of an argument"),
        (
            function(
                "tosa.while_loop (%b = %a) : (tensor<2xf32>) -> tensor<2xf32>"
                " { tosa.yield %b : tensor<2xf32> } { }"
            ),
            "-:2:98",
            "expected 'do'",
        ),
        (function('"a.b"(%a, )'), "-:2:13", "found ')', expected a value such as %0"),
        (function("%0:0 = a.b"), "-:2:6", "a number of results that no operation has"),
        (function("%0, = a.b"), "-:2:7", "found '=', expected the name of a result"),
        (function('%0 = "a.b"() <{c}> {c} : () -> i8'), "-:2:22", "the attribute c is there twice"),
        (function('%0 = "a.b"() : () -> tensor<2x*xi8>'), "-:2:24", "expected only '*'"),
        (function('%0 = "a.b"() : () -> tensor<2xtensor<2xi8>>'), "-:2:33", "the element type of"),
        (function('%0 = "a.b"() : () -> !'), "-:2:24", "expected the name of a type"),
        (function('%0 = "a.b"() : () -> i8 loc(foo)'), "-:2:31", "found 'foo', expected a location"),
        ("module attributes {a.b = #a.b<(]>} {}", "-:1:32", "found ']', expected ')'"),
        ("module attributes {a.b = #a.b<(", "-:1:30", "'<' is not closed"),
        ("module attributes {7 = 1} {}", "-:1:20", "expected the name of an attribute"),
        ("module attributes {a.b = dense<0x> : tensor<2xi8>}", "-:1:31", "'0x' is not an integer"),
        ("module attributes {a.b = dense<0x> : tensor<2xf32>}", "-:1:31", "'0x' is not a number"),
        ("module attributes {a.b = dense<0x123456789> : tensor<2xf32>}", "-:1:31", "more bits than"),
        ("%0 = 7", "-:1:6", "expected an operation"),
        ("module {} }", "-:1:11", "expected an operation"),
    ],
)  # fmt: skip
def test_an_error_is_at_its_line_and_column(text: str, where: str, message: str) -> None:
    finding = refusal(text)
    assert (finding.code, finding.where) == ("malformed-mlir", where)
    assert message in finding.message
    assert finding.excerpt.endswith("^")


def test_an_operand_that_old_releases_do_not_print_is_explained() -> None:
    text = """func.func @f(%c: tensor<i1>, %a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tosa.cond_if %c -> (tensor<2xf32>) {
    tosa.yield %arg3 : tensor<2xf32>
  } else {
    tosa.yield %arg3 : tensor<2xf32>
  }
  return %0 : tensor<2xf32>
}"""
    finding = refusal(text)
    assert "%arg3" in finding.message
    assert "generic form" in finding.hint


def test_regions_may_nest_deeply_and_not_without_bound() -> None:
    def nested(depth: int) -> str:
        return "module {" * depth + "}" * depth

    assert bytecode(nested(900)).root.regions
    assert refusal(nested(1100)).code == "too-large"


# -- fast paths ---------------------------------------------------------------------------------

LINES = (
    "%1 = tosa.argmax %a {axis = 0 : i32} : (tensor<2xf32>) -> tensor<i32>",
    "%2 = tosa.argmax %a {axis = 0 : i32} : (tensor<2xf32>) -> tensor<i32>",
    '%0 = tosa.add %a, %a {tosa.tensor_name = "n"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>',
)


def spread(line: str) -> str:
    """Return the same operation over many lines."""
    for mark in ("{", "}", "(", ")", ",", " : ", "="):
        line = line.replace(mark, f"\n {mark} // comment\n ")
    return line


def both(lines: tuple[str, ...] = LINES) -> None:
    plain, other = ("\n".join(map(change, lines)) for change in (str, spread))
    assert printed(function(plain)) == printed(function(other))


def test_types_parsed_in_place_equal_others() -> None:
    both()


def test_operands_in_a_row_equal_single_ones() -> None:
    both()


def test_plain_locations_of_text_equal_others() -> None:
    one, other = (
        bytecode(function(f"%0 = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32> loc({text})"))
        for text in ('"m.py":3:4', '"m.py" : 3 : 4')
    )
    texts = [b"".join(module_text(module)) for module in (one, other)]
    assert texts[0].replace(b"3:4", b"") == texts[1].replace(b"3:4", b"")
    assert b'loc("m.py":3:4)' in texts[0]
    assert b'loc("m.py":3:4)' in texts[1]


ORDINARY = """#loc = loc("a.py":1:2)
func.func @f(%a: tensor<2xf32>, %c: tensor<i1>) -> tensor<2xf32> {
  %0 = tosa.abs %a : (tensor<2xf32>) -> tensor<2xf32>
  %1 = tosa.abs %0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = tosa.add %1, %0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc(#loc)
  %3 = tosa.add %1, %2 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc(#after)
  %4 = tosa.abs %3 {} : (tensor<2xf32>) -> tensor<2xf32> loc("b.py":3:4)
  %5 = tosa.add %1, %2 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    loc("c.py":5:6)
  %6 = tosa.clamp %5 {max_val = 1.0 : f32, min_val = 0.0 : f32} : (tensor<2xf32>) -> tensor<2xf32>
  %7 = tosa.clamp %6 {max_val = 1.0 : f32, min_val = 0.0 : f32} : (tensor<2xf32>) -> tensor<2xf32>
  %8 = tosa.abs %7 : (tensor<2xf32>) -> tensor<2xf32> // a comment
  %9 = tosa.cond_if %c (%x = %8) : tensor<i1> (tensor<2xf32>) -> tensor<2xf32> {
    %n = tosa.abs %x : (tensor<2xf32>) -> tensor<2xf32>
    %m = tosa.abs %n : (tensor<2xf32>) -> tensor<2xf32>
    tosa.yield %m : tensor<2xf32>
  } else {
    %n = tosa.abs %x : (tensor<2xf32>) -> tensor<2xf32>
    tosa.yield %n : tensor<2xf32>
  }
  %10 = tosa.abs %9 : (tensor<2xf32>) -> tensor<2xf32> return %10 : tensor<2xf32>
}
#after = loc("d.py":7:8)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("%1, %2", "%1, %z"),
        ("%2 = ", "%1 = "),
        ("%1 = ", "%0 = "),
        ("tosa.abs %0", "tosa.abs %c"),
        ("%10 = ", "%n = "),
        ("(%x = %8)", ""),
        ("%3 {}", "%3 {} {}"),
        ("tosa.abs %n :", "tosa.abs %8 :"),
        ("tosa.abs %9 : (tensor<2xf32>)", "tosa.abs %9 : (tensor<3xf32>)"),
        ("#after = ", "#other = "),
        ("%0 = tosa.abs", "%0, %z = tosa.abs"),
        ("%1 = tosa.abs", "%1 = tosa.other"),
        ("return %10", "}"),
        (" = tosa.abs %0 :", ' = "tosa.abs"(%0) :'),
        (" = tosa.abs %0 :", ' = "tosa.abs" %0) :'),
        ("%6 = tosa.clamp %5 {", "%6 = tosa.clamp %5#0 {"),
        ("%7 = tosa.clamp %6 {", "%7 = tosa.clamp %6#0 {"),
        ("\n", "\r\n"),
    ],
)
def test_ordinary_lines_equal_others(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = ORDINARY.replace(old, new, -1 if old == "\n" else 1).encode()
    assert text != ORDINARY.encode() or not old

    assert_equal_without_lines([text], monkeypatch)


def assert_equal_without_lines(texts: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare what texts become with what they become if each line is parsed."""

    def outcome(text: bytes) -> bytes | tuple[tc.Finding, ...]:
        try:
            return b"".join(map(bytes, parse(memoryview(text), function=None)))
        except tc.TosaConvertError as error:
            return error.findings

    found = list(map(outcome, texts))
    for module, name in ((lines_module, "_LINE"), (locations_module, "_PLAIN_ALIAS")):
        monkeypatch.setattr(module, name, re.compile(rb"(?!)"))
    for text, quick in zip(texts, found, strict=True):
        assert quick == outcome(text), text.decode()


#: Lines on values of the same type, and what single lines are changed by.
POOL = (
    "%@ = tosa.abs %? : (tensor<2xf32>) -> tensor<2xf32>",
    '%@ = "tosa.abs"(%?) : (tensor<2xf32>) -> tensor<2xf32>',
    "%@ = tosa.add %?, %? : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
    '%@ = "tosa.custom"(%?) {a = " loc("} : (tensor<2xf32>) -> tensor<2xf32>',
    "%@ = tosa.clamp %? {max_val = 1.0 : f32, min_val = 0.0 : f32} : (tensor<2xf32>) -> tensor<2xf32>",
    "%@ = tosa.const {values = dense<1.0> : tensor<2xf32>} : () -> tensor<2xf32>",
)
PLACES = (
    "",
    " loc(#a)",
    " loc(#b)",
    ' loc("m":1:2)',
    " loc(unknown)",
    "\n loc(#a)",
    " loc(#a) loc(#b)",
)
CHANGES = (
    *((" = ", ":2 = "), (" = ", " ="), ("%", "%z"), ("(%", " %"), (" %", "(%"), ("2x", "3x")),
    *((") ->", "#0) ->"), (" :", " // :"), (") -> tensor<2xf32>", ") -> (tensor<2xf32>)"), ("f", "h")),
    *((") -> tensor<2xf32>", ") -> (tensor<2xf32>, i1)"), (" :", "#0 :"), ("loc", "locs"), ("#", "#z")),
    *(("\n", "\r\n"), ("\n", " // a\n"), ("\n", "\n\n"), ("\n", " "), ("\n", " }\n"), (" ", "  ")),
)  # fmt: skip


def random_text(choose: random.Random) -> str:
    """Return a program of lines of the pool, one or two of which may be changed."""
    pool, places = choose.sample(POOL, 3), choose.sample(PLACES, 3)
    lines = ["func.func @f(%v1: tensor<2xf32>) {\n"]
    for index in range(2, 16):
        line = choose.choice(pool).replace("@", f"v{index}") + choose.choice(places[:2])
        while "?" in line:
            line = line.replace("?", f"v{choose.randrange(1, index)}", 1)
        lines.append(f"  {line}\n")
    lines += ["  return\n", "}\n", '#a = loc("a":3:4)\n', "#b = loc(#a)\n", '#c = loc("c":1:2)\n']
    for _ in range(choose.choice((0, 1, 1, 1, 2))):
        at = choose.randrange(1, len(lines))
        lines[at] = choose.choice(
            [lines[at].replace(*choose.choice(CHANGES), 1)] * 9 + [choose.choice(lines), ""]
        )
    return "".join(lines)


@pytest.mark.parametrize(
    "lines",
    [
        "%x = tosa.abs %g#1 : (tensor<2xf32>) -> tensor<2xf32>\n"
        "%y = tosa.abs %x#1 : (tensor<2xf32>) -> tensor<2xf32>",
        "%x = tosa.abs %a : (tensor<2xf32>) -> tensor<2xf32> loc(unknown)\n"
        "%y = tosa.abs %a : (tensor<2xf32>) -> tensor<2xf32> loc(unknown) }",
        "%x = tosa.abs %a : (tensor<2xf32>) -> tensor<2xf32> loc(unknown)\n"
        "%y = tosa.abs %a : (tensor<2xf32>) -> tensor<2xf32> loc(callsite(#a at #b))",
    ],
)
def test_rare_lines_equal_others(lines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    group = '%g:2 = "tosa.custom"() : () -> (tensor<2xf32>, tensor<2xf32>)'
    text = f'func.func @f(%a: tensor<2xf32>) {{\n{group}\n{lines}\nreturn\n}}\n#a = loc("a":1:2)\n'
    assert_equal_without_lines([text.encode(), text.replace(group, "").encode()], monkeypatch)


def test_random_lines_equal_others(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = random.Random(1)
    assert_equal_without_lines([random_text(choose).encode() for _ in range(150)], monkeypatch)
