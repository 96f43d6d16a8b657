"""Refusing hostile MLIR text takes time and memory in proportion to the text."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from refusing import error_of

import tosa_convert as tc
from tosa_convert.errors import Finding
from tosa_convert.formats.mlir.bytecode import operations
from tosa_convert.formats.mlir.bytecode.operation_columns import OperationColumns
from tosa_convert.formats.mlir.bytecode.operations import Fields, operations_of

FOREIGN = "".join(f'  %{n} = "other.op"(%x) : (tensor<2xf32>) -> i32\n' for n in range(1001))
FUNCTIONS = "".join(f"func.func @f{n}() {{\n  return\n}}\n" for n in range(1001))
NESTED = '"other.op"() ({\n"other.op"() : () -> ()\n}) : () -> ()\n' * 1001
CAPTURED = "%c = tosa.const {values = dense<true> : tensor<i1>} : () -> tensor<i1>\n" + (
    "tosa.cond_if %c : tensor<i1> {\n  %n = tosa.abs %x : (tensor<2xf32>) -> tensor<2xf32>\n"
    "  tosa.yield\n} else {\n  tosa.yield\n}\n" * 1001
)
RETURN = "  return\n}\n"


def of_function(head: str, body: str) -> str:
    return f"func.func {head}(%x: tensor<2xf32>) {{\n{body}{RETURN}"


def refusal(text: str, func: str | None = None) -> tuple[Finding, ...]:
    return error_of(tc.load, text.encode(), func=func).findings


@pytest.mark.parametrize(
    ("head", "body", "end", "func"),
    [
        ("func.func @f(%x: tensor<2xf32>) {\n", FOREIGN, RETURN, None),
        ("func.func public @f(%x: tensor<2xf32>) {\n", FOREIGN, RETURN, "f"),
        ("func.func private @f(%x: tensor<2xf32>) {\n", FOREIGN, RETURN, "@f"),
        ("module @m {\nfunc.func @f(%x: tensor<2xf32>) {\n", FOREIGN, f"{RETURN}}}\n", None),
        ("func.func @f() {\n", NESTED, RETURN, None),
        ("func.func @f(%x: tensor<2xf32>) {\n", CAPTURED, RETURN, None),
        (
            "func.func @f(%x: tensor<2xf32>) -> (tensor<2xf32> {a.b}) {\n",
            CAPTURED,
            "return %x : tensor<2xf32>\n}\n",
            None,
        ),
        ("", FUNCTIONS, "", None),
        ("module {\n", FUNCTIONS, "}\n", None),
        ("", FUNCTIONS.replace("@f1", "@f"), "", None),
    ],
)
def test_a_text_is_parsed_no_further_than_to_the_findings_that_refuse_it(
    head: str, body: str, end: str, func: str | None
) -> None:
    found = refusal(f"{head}{body}{end}", func)
    assert len(found) == 1000
    assert refusal(f"{head}{body})", func) == found


@pytest.mark.parametrize(
    ("text", "func"),
    [
        (of_function("@f", FOREIGN), "g"),
        (of_function("private @f", FOREIGN), None),
        (f"module {{\nmodule {{\n{of_function('@f', FOREIGN)}}}\n}}\n", None),
        (f"module {{\n}}\nmodule {{\n{of_function('@f', FOREIGN)}}}\n", None),
        (FUNCTIONS, "f7"),
        (FUNCTIONS.replace("@", "private @"), None),
        (FUNCTIONS.replace(" {\n  return\n}", ""), None),
    ],
)
def test_findings_of_what_is_not_read_do_not_refuse_a_text(text: str, func: str | None) -> None:
    assert refusal(f"{text})", func)[0].code == "malformed-mlir"
    read = tc.load(f"{text}{of_function('@g', '')}".encode(), func=func or "g")
    assert read.main.operators == []


HEAD = "func.func @f(%x: tensor<2xf32>) {\n"


END = "return\n}\n"
TYPES = "(tensor<2xf32>) -> tensor<2xf32>"
YIELD = "{ tosa.yield %x : tensor<2xf32> }"
OTHER = f'{HEAD}"other.op"'
#: Name -> the start of a text, what is repeated with numbers for ~, the end, and the code.
REPEATED = {
    "operators": (HEAD, f"  %~ = tosa.abs %x : {TYPES}\n", "", "malformed-mlir"),
    "line ends": (HEAD, "\n" * 50, "", "malformed-mlir"),
    "comments": (HEAD, "//\n" * 10, "", "malformed-mlir"),
    "brackets": (f"{HEAD} other.op ", "[" * 10, "", "too-large"),
    "operands": (f"{HEAD} return %x", ", %x" * 10, "", "malformed-mlir"),
    "escapes": (f'{OTHER}() {{a = "', "\\22" * 10, "", "malformed-mlir"),
    "missing attributes": (
        HEAD, "%~ = tosa.argmax %x : (tensor<2xf32>) -> tensor<i32>\n", END, "malformed-operator"
    ),
    "captured values": (
        HEAD,
        "%c~ = tosa.const {values = dense<true> : tensor<i1>} : () -> tensor<i1>\n"
        f"%~ = tosa.cond_if %c~ -> (tensor<2xf32>) {YIELD} else {YIELD}\n",
        END,
        "captured-value",
    ),
    "declarations": ("", "func.func private @f~()\n", "", "too-large"),
    "the same variable": ("", "tosa.variable @v = dense<1> : tensor<1xi8>\n", "", "too-large"),
    "modules": ("", "module {}\n", "", "too-large"),
    "regions": (f"{OTHER}() (", "{}, ", "{}) : () -> ()\n" + END, "too-large"),
    "regions of many operators": (f"{HEAD}", '"a.b"() ({}, {}) : () -> ()\n', END, "foreign-operator"),
    "blocks": (f"{OTHER}() ({{", "^b~:\n", "}) : () -> ()\n" + END, "too-large"),
    "arguments": ("func.func @f(", "%~: tensor<4xf64>, ", "%x: i1) { return }", "too-large"),
    "results": (f"{OTHER}() : () -> (", "i32, ", "i32)\n" + END, "too-large"),
    "sizes": (f"{OTHER}() : () -> tensor<", "1x", "f32>\n" + END, "too-large"),
    "a dictionary": (f"{OTHER}() {{", "a~ = ~ : i32, ", "z} : () -> ()\n" + END, "too-large"),
    "an array": (f"{OTHER}() {{a = [", "~ : i32, ", "1]} : () -> ()\n" + END, "too-large"),
    "numbers": (f"{OTHER}() {{a = array<i8: ", "1, ", "1>} : () -> ()\n" + END, "too-large"),
    "locations": (f"{OTHER}() : () -> () loc(fused[", '"a", ', '"a"])\n' + END, "too-large"),
    "names of attributes": (
        HEAD, f"%~ = tosa.abs %x {{a~ = 1 : i32}} : {TYPES}\n", END, "too-large"
    ),
    "aliases": ("", "#a~ = ~ : i32\n", "x", "too-large"),
    "aliases of types": ("", "!a~ = tensor<~xf32>\n", "x", "too-large"),
    "aliases of locations": ("", '#a~ = loc("a":~:1)\n', "x", "too-large"),
}  # fmt: skip


def filled(name: str, size: int) -> str:
    head, unit, end, _ = REPEATED[name]
    units: list[str] = []
    length = len(head) + len(end)
    while length < size:
        units.append(unit.replace("~", str(len(units))))
        length += len(units[-1])
    return f"{head}{''.join(units)}{end}"


def limited(text: bytes) -> tuple[Finding, ...]:
    return error_of(tc.load, text, limits={"text-parts": 100}).findings


#: Texts with a thousand findings, which take memory of their own.
LARGE = ("missing attributes", "captured values")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name in REPEATED],
)
def test_refusing_a_text_takes_less_than_eight_times_its_size(name: str) -> None:
    limited(filled(name, 10_000).encode())  # modules that are imported on first use must not count
    text = filled(name, 2_000_000 if name in LARGE else 200_000).encode()
    tracemalloc.start()
    try:
        found = limited(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found[0].code == REPEATED[name][-1]
    assert peak < 8 * len(text)


def test_operations_after_the_findings_that_refuse_a_text_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = "  %{0} = tosa.abs %x : (tensor<2xf32>) -> tensor<2xf64>\n"
    body = "".join(map(line.format, range(20_000)))
    read: list[Fields] = []

    def counted(columns: OperationColumns) -> Iterator[Fields]:
        for fields in operations_of(columns):
            read.append(fields)
            yield fields

    monkeypatch.setattr(operations, "operations_of", counted)
    assert len(refusal(f"{HEAD}{body}{RETURN}")) == 1000
    assert 1000 <= len(read) < 5000
