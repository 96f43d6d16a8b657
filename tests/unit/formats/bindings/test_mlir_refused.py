"""Modules that cannot be converted: every code, with the line, and all findings at once."""

from __future__ import annotations

from typing import Any

import pytest
from unit.building import graph, op, tensor

from tosa_convert.errors import CODES, TosaConvertError
from tosa_convert.formats.bindings.modules import read, write
from tosa_convert.formats.bindings.packages import Bindings


def function(body: str, arguments: str = "%a: tensor<2xf32>", results: str = "") -> str:
    """Return a function around lines of a body; the first of them is line 2."""
    return f"func.func @f({arguments}) {results and '-> ' + results} {{\n{body}\n}}\n"


# Text, then code, line and column, and a part of the message, for each finding.
REFUSED: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "another dialect": (
        function(
            "%0 = arith.addf %a, %a : tensor<2xf32>\nreturn %0 : tensor<2xf32>",
            results="tensor<2xf32>",
        ),
        [("foreign-operator", "2:6", "'arith.addf' is not a TOSA operator")],
    ),
    "an operator that the format lacks": (
        function(
            '%0 = "tosa.apply_scale"(%a, %b, %c) <{rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>'
            "}> : (i32, i32, i8) -> i32\nreturn",
            "%a: i32, %b: i32, %c: i8",
        ),
        [
            ("unsupported-type", "1:1", "argument 0: i32 is not a tensor"),
            ("unsupported-type", "1:1", "argument 1: i32 is not a tensor"),
            ("unsupported-type", "1:1", "argument 2: i8 is not a tensor"),
            ("unsupported-operator", "2:6", "'tosa.apply_scale' is in the dialect but not"),
        ],
    ),
    "a type that is not a tensor": (
        function("return", "%a: memref<2xf32>"),
        [("unsupported-type", "1:1", "memref<2xf32> is not a tensor or a !tosa.shape")],
    ),
    "a tensor with an encoding": (
        function("return", '%a: tensor<2xf32, "enc">'),
        [("unsupported-type", "1:1", "has an encoding")],
    ),
    "f64": (
        function("return", "%a: tensor<2xf64>"),
        [("unsupported-dtype", "1:1", "TOSA has no element type f64")],
    ),
    "f64 as a result": (
        function(
            '%0 = "tosa.custom"(%a) <{operator_name = "f", domain_name = "d", '
            'implementation_attrs = ""}> : '
            "(tensor<2xf32>) -> tensor<2xf64>\nreturn"
        ),
        [("unsupported-dtype", "2:6", "'tosa.custom' result 0: tensor<2xf64>")],
    ),
    "a variable of f64": (
        "module {\ntosa.variable @v : tensor<2xf64>\nfunc.func @f() { return }\n}\n",
        [("unsupported-dtype", "2:1", "variable @v: tensor<2xf64>: TOSA has no element type f64")],
    ),
    "an unsigned type of another width": (
        function("return", "%a: tensor<2xui24>"),
        [("unsupported-dtype", "1:1", "no element type ui24")],
    ),
    "a signed type": (
        function("return", "%a: tensor<2xsi8>"),
        [("unsupported-dtype", "1:1", "no element type si8")],
    ),
    "a quantised type": (
        function("return", "%a: tensor<2x!quant.uniform<i8:f32, 0.5>>"),
        [("unsupported-dtype", "1:1", "!quant<...>")],
    ),
    "complex": (
        function("return", "%a: tensor<2xcomplex<f32>>"),
        [("unsupported-dtype", "1:1", "complex<f32>")],
    ),
    "index": (
        function("return", "%a: tensor<2xindex>"),
        [("unsupported-dtype", "1:1", "element type index")],
    ),
    "an odd integer": (
        function("return", "%a: tensor<2xi33>"),
        [("unsupported-dtype", "1:1", "element type i33")],
    ),
    "a dimension over 2^31 - 1": (
        function("return", "%a: tensor<2147483648xi8>"),
        [("unsupported-shape", "1:1", "a dimension over 2147483647")],
    ),
    "a list over 32 bits": (
        function(
            '%0 = "tosa.max_pool2d"(%a) <{kernel = array<i64: 1, 5000000000>, '
            "stride = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, "
            "nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<?x?x?x?xf32>) -> "
            "tensor<?x?x?x?xf32>\nreturn",
            "%a: tensor<?x?x?x?xf32>",
        ),
        [("value-out-of-range", "2:6", "attribute kernel: 5000000000 does not fit into 32 bits")],
    ),
    "a captured value": (
        function(
            '%0 = "tosa.cond_if"(%c) ({\n'
            "%1 = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32>\n"
            '"tosa.yield"(%1) : (tensor<2xf32>) -> ()\n'
            "}, {\n"
            '"tosa.yield"(%a) : (tensor<2xf32>) -> ()\n'
            "}) : (tensor<i1>) -> tensor<2xf32>\nreturn",
            "%a: tensor<2xf32>, %c: tensor<i1>",
        ),
        [
            ("captured-value", "3:6", "'tosa.exp' uses %arg0 from outside its region"),
            ("captured-value", "6:1", "'tosa.yield' uses %arg0 from outside its region"),
        ],
    ),
    "several blocks": (
        function("cf.br ^b\n^b:\nreturn"),
        [("malformed-structure", "1:1", "function @f has 2 blocks, expected 1")],
    ),
    "no function": (
        "module {\n}\n",
        [("no-function", "1:1", "found no func.func, expected a function with a body")],
    ),
    "only a declaration": (
        "func.func private @f(tensor<2xf32>)\n",
        [("no-function", "", "only declarations: @f")],
    ),
    "two functions": (
        "func.func @f() { return }\nfunc.func @g() { return }\n",
        [
            ("ambiguous-function", "1:1", "function @f is one of 2 that could be exported: @f, @g"),
            ("ambiguous-function", "2:1", "function @g is one of 2 that could be exported: @f, @g"),
        ],
    ),
    "a missing resource": (
        function(
            '%0 = "tosa.const"() <{values = dense_resource<gone> : tensor<2xf32>}> : '
            "() -> tensor<2xf32>\nreturn"
        ),
        [("constant-form", "2:6", "attribute values: it has no data")],
    ),
    "a sparse constant": (
        function(
            "%0 = arith.constant sparse<[[0]], [1.0]> : tensor<2xf32>\nreturn",
        ),
        [("constant-form", "2:6", "attribute value: it is neither dense nor a dense_resource")],
    ),
    "two results of one name": (
        'func.func @f(%a: tensor<2xf32> {tosa.tensor_name = "n"}, '
        '%b: tensor<2xf32> {tosa.tensor_name = "n"}) { return }\n',
        [("duplicate-name", "1:1", 'argument 1 is called "n", and so is another value')],
    ),
    "everything at once": (
        "func.func @f(%a: tensor<2xf64>) -> tensor<2xf64> {\n"
        "  %0 = arith.addf %a, %a : tensor<2xf64>\n"
        "  return %0 : tensor<2xf64>\n}\n"
        "func.func @g(%a: tensor<2xi33>) -> tensor<2xi33> {\n"
        "  %0 = arith.addi %a, %a : tensor<2xi33>\n"
        "  %1 = arith.muli %0, %0 : tensor<2xi33>\n"
        "  return %1 : tensor<2xi33>\n}\n",
        [
            ("ambiguous-function", "1:1", "@f is one of 2"),
            ("ambiguous-function", "5:1", "@g is one of 2"),
            ("unsupported-dtype", "1:1", "f64"),
            ("foreign-operator", "2:8", "'arith.addf'"),
            ("unsupported-dtype", "5:1", "i33"),
            ("foreign-operator", "6:8", "'arith.addi'"),
            ("foreign-operator", "7:8", "'arith.muli'"),
        ],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_module_is_refused_with_every_finding(parse: Any, name: str) -> None:
    text, expected = REFUSED[name]
    with pytest.raises(TosaConvertError) as caught:
        read(parse(text))
    found = caught.value.findings
    assert [(f.code, f.where) for f in found] == [
        (code, f"-:{at}" if at else "-") for code, at, _ in expected
    ]
    for finding, (_, _, message) in zip(found, expected, strict=True):
        assert message in finding.message


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("another dialect", "lower it to TOSA"),
        ("f64", "narrow"),
        ("an unsigned type of another width", "tosa-convert-integer-type-to-signless"),
        ("a quantised type", "RESCALE"),
        ("complex", "real and imaginary"),
        ("two functions", "--func f"),
        ("a captured value", "pass it in as an operand"),
        ("a missing resource", "no elision"),
        ("two results of one name", "names='generate'"),
        ("several blocks", "tosa.cond_if"),
    ],
)
def test_the_first_finding_says_what_to_do(parse: Any, name: str, hint: str) -> None:
    with pytest.raises(TosaConvertError) as caught:
        read(parse(REFUSED[name][0]))
    assert hint in caught.value.findings[0].hint


def test_these_cases_use_every_code_that_is_about_modules() -> None:
    used = {code for _, expected in REFUSED.values() for code, _, _ in expected}
    about_modules = {
        "foreign-operator", "unsupported-operator", "unsupported-dtype", "unsupported-type",
        "unsupported-shape", "value-out-of-range", "captured-value", "no-function",
        "constant-form", "ambiguous-function", "malformed-structure", "duplicate-name",
    }  # fmt: skip
    assert about_modules <= used <= CODES.keys()


def test_invalid_modules_are_refused_before_they_are_read(bindings: Bindings) -> None:
    ir = bindings.ir
    with bindings.new_context(), ir.Location.file("m.mlir", 3, 5):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            # No operand, no sym_name: printing or writing this would crash the process.
            ir.Operation.create(
                "tosa.exp", results=[ir.RankedTensorType.get([2], ir.F32Type.get())]
            )
        with pytest.raises(TosaConvertError) as caught:
            read(module)
    assert caught.value.code == "malformed-mlir"
    assert caught.value.findings[0].where == "m.mlir:3:5"


def test_an_operator_that_mlir_refuses_is_reported_by_its_path(
    bindings: Bindings, context: Any
) -> None:
    # No operator of the file has a location, so findings name their paths in the file.
    values = [tensor("a"), tensor("b"), tensor("c", "INT8")]
    made = graph("a", "", list(values), [op("EXP", "a", "b"), op("EXP", "b", "c")])
    with pytest.raises(TosaConvertError) as caught:
        write(made, bindings, context)
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("malformed-mlir", 'block "main" operator #1 EXP')
    assert "tosa.exp" in finding.message


def test_an_undeclared_variable_is_refused_by_mlir_or_by_us(parse: Any, bindings: Bindings) -> None:
    text = function("%0 = tosa.variable_read @v : tensor<2xf32>\nreturn")
    try:
        module = parse(text)
    except bindings.ir.MLIRError:
        return
    with pytest.raises(TosaConvertError) as caught:
        read(module)
    assert caught.value.code in ("malformed-mlir", "undefined-name")
