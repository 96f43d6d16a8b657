"""Refusing hostile MLIR text takes time and memory in proportion to the text."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

import tosa_convert as tc
from tosa_convert.errors import Finding
from tosa_convert.formats.mlir.bytecode import operations
from tosa_convert.formats.mlir.bytecode.operation_columns import OperationColumns
from tosa_convert.formats.mlir.bytecode.operations import Fields, operations_of

FOREIGN = "".join(f'  %{n} = "other.op"(%x) : (tensor<2xf32>) -> i32\n' for n in range(1001))
FUNCTIONS = "".join(f"func.func @f{n}() {{\n  return\n}}\n" for n in range(1001))
NESTED = '"other.op"() ({\n"other.op"() : () -> ()\n}) : () -> ()\n' * 1001
RETURN = "  return\n}\n"


def of_function(head: str, body: str) -> str:
    return f"func.func {head}(%x: tensor<2xf32>) {{\n{body}{RETURN}"


def refusal(text: str, func: str | None = None) -> tuple[Finding, ...]:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(text.encode(), func=func)
    return caught.value.findings


@pytest.mark.parametrize(
    ("head", "body", "end", "func"),
    [
        ("func.func @f(%x: tensor<2xf32>) {\n", FOREIGN, RETURN, None),
        ("func.func public @f(%x: tensor<2xf32>) {\n", FOREIGN, RETURN, "f"),
        ("func.func private @f(%x: tensor<2xf32>) {\n", FOREIGN, RETURN, "@f"),
        ("module @m {\nfunc.func @f(%x: tensor<2xf32>) {\n", FOREIGN, f"{RETURN}}}\n", None),
        ("func.func @f() {\n", NESTED, RETURN, None),
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


def test_a_name_that_is_not_unicode_is_that_of_no_function() -> None:
    assert refusal(of_function("@f", ""), "\ud800")[0].code == "unknown-function"


HEAD = "func.func @f(%x: tensor<2xf32>) {\n"


@pytest.mark.parametrize(
    ("head", "unit"),
    [
        pytest.param(
            *(HEAD, "  %{0} = tosa.abs %x : (tensor<2xf32>) -> tensor<2xf32>\n"),
            marks=pytest.mark.slow,
        ),
        (HEAD, "\n" * 50),
        (HEAD, "//\n" * 10),
        (f"{HEAD} other.op ", "[" * 10),
        (f"{HEAD} return %x", ", %x" * 10),
        (f'{HEAD} "other.op"() {{a = "', "\\22" * 10),
    ],
    ids=["operators", "line ends", "comments", "brackets", "operands", "escapes"],
)
def test_a_text_that_is_cut_off_takes_little_memory(head: str, unit: str) -> None:
    refusal(head)
    text = head + "".join(map(unit.format, range(10_000)))
    tracemalloc.start()
    try:
        refusal(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
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
