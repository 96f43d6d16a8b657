"""Modules in text that parse, with operations that MLIR does not allow."""

from __future__ import annotations

import pytest
from unit.formats.mlir.text_modules import constant, function

import tosa_convert as tc

SCALED = "tensor<1x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E5M2>>"
RESHAPE = "%0 = tosa.reshape %a, %s : (tensor<2xf32>, !tosa.shape<2>) -> tensor<2xf32>"
FLOATS = "tensor<2xf32>"
YIELD = "{ tosa.yield %a : tensor<2xf32> }"


def scaled(scales: str, value: str = "0.5 : f8E5M2", type_: str = SCALED) -> str:
    own = SCALED.replace(">>", f", {{{scales}}}>>") if scales else SCALED
    return constant(f"dense<{own} : {value}>", type_)


def resource(digits: str, type_: str) -> str:
    text = constant(f"dense_resource<w> : {type_}", type_)
    return f'{text}\n{{-# dialect_resources: {{builtin: {{w: "0x01000000{digits}"}}}} #-}}'


def operation(name: str, attributes: str, result: str = FLOATS) -> str:
    return function(f'%0 = "tosa.{name}"() {{{attributes}}} : () -> {result}', result)


def sizes(attribute: str) -> str:
    line = f'%s = "tosa.const_shape"() {{values = {attribute}}} : () -> !tosa.shape<2>'
    return function(f"{line}\n{RESHAPE}")


def branch(regions: str) -> str:
    return function(f'%0 = "tosa.cond_if"(%a) ({regions}) : ({FLOATS}) -> {FLOATS}')


def argmax(attributes: str) -> str:
    line = f'%0 = "tosa.argmax"(%a) {{{attributes}}} : ({FLOATS}) -> tensor<i32>'
    return function(line, "tensor<i32>")


def module(function_attributes: str, variable: str = "", symbol: str = '"v"') -> str:
    read = (
        f'%0 = "tosa.variable_read"() {{name = {symbol}}} : () -> tensor<1xi8>\n'
        if variable
        else ""
    )
    return (
        f'"builtin.module"() ({{ {variable} "func.func"() ({{ {read}"func.return"() : () -> () }})'
        f" {{{function_attributes}}} : () -> () }}) : () -> ()"
    )


PLAIN = 'sym_name = "f", function_type = () -> ()'


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (constant(f"dense_resource<w> : {SCALED}", SCALED), "constant-form", "it is not dense"),
        (scaled(""), "constant-form", "its type has no scales"),
        (scaled("1.0, 2.0"), "constant-form", "it has 2 scales, expected 1"),
        (scaled("abc"), "constant-form", "a scale in its type is not a number of f8E8M0FNU"),
        (scaled("3"), "constant-form", "a scale in its type is not a number of f8E8M0FNU"),
        (scaled("1.0", type_=SCALED.replace("1x", "?x")), "constant-form", "its shape is not static"),
        (scaled("1.0", "[0.5 : f8E5M2]"), "malformed-mlir", "are not in lists of the sizes"),
        (scaled("1.0", "0.5 : f8E4M3FN"), "malformed-mlir", "of type f8E4M3FN, expected f8E5M2"),
        (resource("010203", "tensor<10xi8>"), "constant-form", "it has 3 bytes of data, expected 10"),
        (resource("0102", "tensor<10xi1>"), "constant-form", "it has 2 bytes of data, expected 10"),
        (constant('dense<["0x1F"]> : tensor<1xi4>', "tensor<1xi4>"), "constant-form", "than the 4 bits"),
        (
            constant('dense<["0x1FF"]> : tensor<1x!tosa.mxint8>', "tensor<1x!tosa.mxint8>"),
            "constant-form",
            "it has 0 readable elements, expected 1",
        ),
        (constant("dense<1> : tensor<2xi8>", "tensor<?xi8>"), "unsupported-shape", "a dynamic shape"),
        (constant("dense<1> : tensor<2xi8>", "tensor<3xi8>"), "malformed-operator", "its type is tens"),
        (operation("const", ""), "malformed-operator", "'tosa.const' has no attribute values"),
        (operation("const", 'tosa.tensor_name = "x"'), "malformed-operator", "no attribute values"),
        (operation("const_shape", "", "!tosa.shape<1>"), "malformed-operator", "no attribute values"),
        (operation("variable_read", ""), "malformed-operator", "does not name a variable"),
        (operation("variable_read", 'name = "v"'), "undefined-name", "@v, which is not declared"),
        (sizes("dense<[1, 2]> : tensor<2xi32>"), "malformed-operator", "expected tensor<2xindex>"),
        (sizes("7"), "malformed-operator", "its type is i64, expected tensor<2xindex>"),
        (sizes('"x"'), "constant-form", "'tosa.const_shape'"),
        (branch(YIELD), "malformed-operator", "has 1 regions, expected then_graph, else_graph"),
        (branch(f"{YIELD}, {{}}"), "malformed-structure", "else_graph has 0 blocks, expected 1"),
        (
            branch(f"{{ ^b: tosa.yield %a : {FLOATS}\n ^c: tosa.yield %a : {FLOATS} }}, {YIELD}"),
            "malformed-structure",
            "then_graph has 2 blocks, expected 1",
        ),
        (
            branch(f'{{ %q = "tosa.yield"() : () -> i32 }}, {YIELD}'),
            "malformed-structure",
            "tosa.yield has results, expected none",
        ),
        (argmax(""), "malformed-operator", "'tosa.argmax' has no attribute axis"),
        (argmax('axis = 0 : i32, nan_mode = "FOO"'), "unsupported-attribute", 'found "FOO", expected'),
        (argmax("axis = 0 : i32, nan_mode = 7"), "unsupported-attribute", "expected one of PROPAGATE"),
        (
            operation("custom", 'operator_name = 7, domain_name = "b", implementation_attrs = "c"'),
            "unsupported-attribute",
            "operator_name: found 7 : i64, expected a string",
        ),
        (module('sym_name = "f"'), "malformed-structure", "function @f has no type"),
        (module("function_type = () -> ()"), "malformed-structure", "function @ has no name"),
        (module(f"{PLAIN}, arg_attrs = [{{}}]"), "malformed-structure", "an array of 0 dictionaries"),
        (module(f"{PLAIN}, arg_attrs = 7"), "malformed-structure", "an array of 0 dictionaries"),
        (
            '"builtin.module"() ({\n^a:\n"func.func"() ({ "func.return"() : () -> () })'
            f" {{{PLAIN}}} : () -> ()\n^b:\n}}) : () -> ()",
            "malformed-structure",
            "'builtin.module' has 2 blocks, expected 1",
        ),
        (
            f'func.func @f(%a: {FLOATS}) -> {FLOATS} {{ %q = "func.return"(%a) : ({FLOATS}) -> i32 }}',
            "malformed-structure",
            "func.return has results, expected none",
        ),
        (
            module(PLAIN, 'tosa.variable @v = dense<1> : tensor<1xi8>\n' * 2),
            "duplicate-name",
            "variable @v is declared twice",
        ),
        (
            module(PLAIN, '"tosa.variable"() {sym_name = "v", type = i8} : () -> ()\n'),
            "malformed-operator",
            "variable @v has no shape or no type",
        ),
        (
            module(
                PLAIN,
                '"tosa.variable"() {sym_name = "v", type = i8, '
                "var_shape = dense<1> : tensor<1x1xindex>} : () -> ()\n",
            ),
            "malformed-operator",
            "variable @v has no shape or no type",
        ),
        (
            module(PLAIN, "tosa.variable @v = dense<1> : tensor<1xi8>\n", "7"),
            "malformed-operator",
            "'tosa.variable_read' does not name a variable",
        ),
    ],
)  # fmt: skip
def test_what_mlir_does_not_allow_is_refused(text: str, code: str, message: str) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(text.encode())
    assert [row for row in caught.value.findings if row.code == code and message in row.message], (
        caught.value.findings
    )
