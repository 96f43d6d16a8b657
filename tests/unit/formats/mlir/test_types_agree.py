"""What MLIR's verifier refuses is refused, in text and in bytecode: types that disagree, and symbols."""

from __future__ import annotations

import time

import pytest
from refusing import error_of

import tosa_convert as tc
from tosa_convert.formats.bindings.packages import default_bindings
from tosa_convert.formats.mlir.text.parse.module import parse

RETURN_A = "return %a : tensor<4xi16>"


def constant(values: str, result: str, operation: str = "tosa.const", key: str = "values") -> str:
    return (
        f'func.func @f() -> {result} {{\n%0 = "{operation}"() {{{key} = {values}}} : () -> {result}\n'
        f"return %0 : {result}\n}}\n"
    )


def resource(type_: str, result: str, digits: str) -> str:
    declared = f'{{-# dialect_resources: {{ builtin: {{ w: "0x04000000{digits}" }} }} #-}}\n'
    return constant(f"dense_resource<w> : {type_}", result) + declared


def operation(line: str, argument: str, result: str) -> str:
    return (
        f"func.func @f(%a: {argument}) -> {result} {{\n%0 = {line} : ({argument}) -> {result}\n"
        f"return %0 : {result}\n}}\n"
    )


def clamp(low: str, high: str, type_: str) -> str:
    return operation(f"tosa.clamp %a {{min_val = {low}, max_val = {high}}}", type_, type_)


def function(returned: str, results: str = "tensor<4xi16>", before: str = "") -> str:
    return (
        f"module {{\n{before}func.func @f(%a: tensor<4xi16>) -> {results} {{\n{returned}\n}}\n}}\n"
    )


def declared(*lines: str) -> str:
    return function(RETURN_A, before="".join(f"{line}\n" for line in lines))


VARIABLE = "tosa.variable @v = dense<1> : tensor<2xi8>"
CONSTANT, ATTRIBUTE, STRUCTURE = (
    "malformed-operator",
    "unsupported-attribute",
    "malformed-structure",
)

#: MLIR does not compare these.
UNVERIFIED = "a variable's value of another type"
#: Modules that MLIR refuses -> our code and a part of the message.
DISAGREEING: dict[str, tuple[str, str, str]] = {
    "bf16 for f16": (
        constant("dense<[1.0, 2.0]> : tensor<2xbf16>", "tensor<2xf16>"),
        CONSTANT,
        "attribute values: its type is tensor<2xbf16>, expected tensor<2xf16>",
    ),
    "i32 for f32": (
        constant("dense<1> : tensor<1xi32>", "tensor<1xf32>"),
        CONSTANT,
        "its type is tensor<1xi32>, expected tensor<1xf32>",
    ),
    "unsigned for signless": (
        constant("dense<1> : tensor<2xui8>", "tensor<2xi8>"),
        CONSTANT,
        "its type is tensor<2xui8>",
    ),
    "another rank": (
        constant("dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>", "tensor<4xf32>"),
        CONSTANT,
        "its type is tensor<2x2xf32>, expected tensor<4xf32>",
    ),
    "one element for another shape": (
        constant("dense<1.0> : tensor<3xf32>", "tensor<4xf32>"),
        CONSTANT,
        "its type is tensor<3xf32>",
    ),
    "strings of another shape": (
        constant('dense<"0x01"> : tensor<3x!tosa.mxint8>', "tensor<4x!tosa.mxint8>"),
        CONSTANT,
        "its type is tensor<3x!tosa.mxint8>",
    ),
    "a resource of another type": (
        resource("tensor<1xi32>", "tensor<1xf32>", "01000000"),
        CONSTANT,
        "its type is tensor<1xi32>",
    ),
    "a resource of another shape": (
        resource("tensor<1x1xi32>", "tensor<1xi32>", "01000000"),
        CONSTANT,
        "its type is tensor<1x1xi32>",
    ),
    "a constant of another dialect": (
        constant("dense<1> : tensor<2xi16>", "tensor<2xi8>", "arith.constant", "value"),
        CONSTANT,
        "attribute value: its type is tensor<2xi16>",
    ),
    "sizes of another type": (
        constant("dense<[1, 2]> : tensor<2xi64>", "!tosa.shape<2>", "tosa.const_shape"),
        CONSTANT,
        "its type is tensor<2xi64>, expected tensor<2xindex>",
    ),
    "sizes of another rank": (
        constant("dense<1> : tensor<3xindex>", "!tosa.shape<2>", "tosa.const_shape"),
        CONSTANT,
        "its type is tensor<3xindex>",
    ),
    "sizes in two dimensions": (
        constant("dense<1> : tensor<2x1xindex>", "!tosa.shape<2>", "tosa.const_shape"),
        CONSTANT,
        "its type is tensor<2x1xindex>",
    ),
    "a variable's value of another type": (
        function(
            RETURN_A,
            before='"tosa.variable"() <{sym_name = "v", var_shape = dense<2> : tensor<1xindex>, '
            "type = f32, initial_value = dense<1> : tensor<2xi32>}> : () -> ()\n",
        ),
        CONSTANT,
        "attribute initial_value: its type is tensor<2xi32>, expected tensor<2xf32>",
    ),
    "bounds of a narrower type": (
        clamp("0.0 : f16", "2.0 : f16", "tensor<4xf32>"),
        ATTRIBUTE,
        "expected a number of type f32",
    ),
    "bounds of a wider type": (
        clamp("0 : i48", "2 : i48", "tensor<4xi16>"),
        ATTRIBUTE,
        "found 0 : i48, expected a number of type i16",
    ),
    "one bound of another type": (
        clamp("0 : i16", "2 : i8", "tensor<4xi16>"),
        ATTRIBUTE,
        "attribute max_val: found 2 : i8",
    ),
    "an axis of 8 bits": (
        operation("tosa.argmax %a {axis = 1 : i8}", "tensor<4x4xf32>", "tensor<4xi32>"),
        ATTRIBUTE,
        "found 1 : i8, expected an integer of type i32",
    ),
    "a permutation of 64 bits": (
        operation(
            "tosa.transpose %a {perms = array<i64: 1, 0>}", "tensor<4x5xf32>", "tensor<5x4xf32>"
        ),
        ATTRIBUTE,
        "expected an array of integers of type i32",
    ),
    "a member of another enum": (
        operation(
            "tosa.argmax %a {axis = 1 : i32, nan_mode = #tosa.other_mode<IGNORE>}",
            "tensor<4x4xf32>",
            "tensor<4xi32>",
        ),
        ATTRIBUTE,
        "found #tosa.other_mode<IGNORE>",
    ),
    "a bare return": (
        function("return"),
        STRUCTURE,
        "returns values of types none; its own type has tensor<4xi16>",
    ),
    "a value of another type": (
        function(RETURN_A, "tensor<5xi16>"),
        STRUCTURE,
        "returns values of types tensor<4xi16>; its own type has tensor<5xi16>",
    ),
    "two values for one": (
        function("return %a, %a : tensor<4xi16>, tensor<4xi16>"),
        STRUCTURE,
        "returns values of types tensor<4xi16>, tensor<4xi16>",
    ),
    "an argument of another type": (
        '"func.func"() ({\n^bb0(%a: tensor<4xi16>):\n"func.return"(%a) : (tensor<4xi16>) -> ()\n}) '
        '{sym_name = "f", function_type = (tensor<5xi16>) -> tensor<4xi16>} : () -> ()\n',
        STRUCTURE,
        "has arguments of types tensor<4xi16>; its own type has tensor<5xi16>",
    ),
    "an argument too many": (
        '"func.func"() ({\n^bb0(%a: tensor<4xi16>):\n"func.return"(%a) : (tensor<4xi16>) -> ()\n}) '
        '{sym_name = "f", function_type = () -> tensor<4xi16>} : () -> ()\n',
        STRUCTURE,
        "has arguments of types tensor<4xi16>; its own type has none",
    ),
    "a variable twice": (
        declared(VARIABLE, VARIABLE.replace("1", "2")),
        "duplicate-name",
        "variable @v is declared twice",
    ),
    "a variable and a function": (
        declared(VARIABLE.replace("@v", "@f")),
        "duplicate-name",
        "the symbol @f is defined twice",
    ),
    "a function twice": (
        declared("func.func private @g()", "func.func private @g()"),
        "duplicate-name",
        "the symbol @g is defined twice",
    ),
}


def refusal(data: bytes) -> tc.Finding:
    return error_of(tc.load, data).findings[0]


@pytest.mark.parametrize("name", DISAGREEING)
def test_text_that_mlir_refuses_is_refused(name: str) -> None:
    text, code, message = DISAGREEING[name]
    found = refusal(text.encode())
    assert found.code == code
    assert message in found.message
    if name == UNVERIFIED:
        return
    bindings = default_bindings("torch_mlir")
    with pytest.raises(bindings.ir.MLIRError):
        bindings.ir.Module.parse(text, bindings.new_context())


@pytest.mark.parametrize("name", DISAGREEING)
def test_bytecode_that_mlir_refuses_is_refused(name: str) -> None:
    text, code, message = DISAGREEING[name]
    found = refusal(b"".join(map(bytes, parse(memoryview(text.encode())))))
    assert found.code == code
    assert message in found.message


@pytest.mark.parametrize("lines", [1, 70_000])
def test_findings_after_many_lines_are_found_in_linear_time(lines: int) -> None:
    body = "\n" * lines + "".join(f"%{n} = foo.bar %a : tensor<4xi16>\n" for n in range(900))
    text = function(f"{body}{RETURN_A}")
    started = time.process_time()
    with pytest.raises(tc.TosaConvertError) as caught:
        tc.load(text.encode())
    assert time.process_time() - started < 5
    found = caught.value.findings
    assert [finding.where for finding in found] == [
        f"-:{3 + lines + n}:{len(f'%{n} = ') + 1}" for n in range(900)
    ]
    assert found[-1].excerpt.startswith("%899 = foo.bar %a")


def test_a_size_that_is_negative_in_bytecode_is_refused() -> None:
    data = b"".join(map(bytes, parse(memoryview(function(RETURN_A).encode()))))
    # A tensor type of rank 1 and size 4: its numbers are encoded as varints, the size by its sign.
    place = data.index(bytes((13 << 1 | 1, 1 << 1 | 1, 8 << 1 | 1)))
    for size, is_read in ((-1, True), (-2, False)):
        changed = bytearray(data)
        changed[place + 2] = (-size * 2 - 1) << 1 | 1
        if is_read:
            assert tc.load(bytes(changed)).main.tensors["TosaInput_0"].shape == (-1,)
        else:
            assert "negative" in refusal(bytes(changed)).message


def test_a_bool_of_more_than_one_bit_in_bytecode_is_refused() -> None:
    text = (
        "func.func @f(%a: tensor<4xi16>) -> tensor<4xi16> {\n%0 = "
        "tosa.arithmetic_right_shift %a, %a {round = true} : "
        "(tensor<4xi16>, tensor<4xi16>) -> tensor<4xi16>\nreturn %0 : tensor<4xi16>\n}\n"
    )
    data = b"".join(map(bytes, parse(memoryview(text.encode()))))
    assert tc.load(data).main.operators[0].attributes["round"] is True
    places = [n for n in range(len(data) - 2) if data[n] == 8 << 1 | 1 and data[n + 2] == 1]
    found = []
    for place in places:
        changed = bytearray(data)
        changed[place + 2] = 2
        try:
            tc.load(bytes(changed))
        except tc.TosaConvertError as error:
            found.append(error.findings[0].message)
    assert any("attribute round" in message for message in found)


def test_a_variable_in_the_function_is_of_the_module(caplog: pytest.LogCaptureFixture) -> None:
    text = function(
        f"{VARIABLE}\n%0 = tosa.variable_read @v : tensor<2xi8>\nreturn %0 : tensor<2xi8>",
        "tensor<2xi8>",
    )
    inside = tc.load(text.encode())
    outside = tc.load(
        function(
            "%0 = tosa.variable_read @v : tensor<2xi8>\nreturn %0 : tensor<2xi8>",
            "tensor<2xi8>",
            f"{VARIABLE}\n",
        ).encode()
    )
    assert not tc.compare(inside, outside)
    assert "upgraded from an older TOSA: variable 1" in caplog.text
    twice = text.replace(VARIABLE, f"{VARIABLE}\n{VARIABLE}")
    assert refusal(twice.encode()).code == "duplicate-name"


@pytest.mark.parametrize(
    "attribute",
    [
        "#tosa.block_size<BLOCK_SIZE_32> : i32",
        '#hal.device.target<"local", [1, 2]> : !hal.device',
        "#ml_program.extern : tensor<2xi8>",
    ],
)
def test_an_attribute_of_a_dialect_may_have_a_type(attribute: str) -> None:
    text = operation(f"tosa.identity %a {{x = {attribute}}}", "tensor<4xf32>", "tensor<4xf32>")
    assert len(tc.load(text.encode()).main.operators) == 1


@pytest.mark.parametrize(
    ("line", "code", "message", "hint"),
    [
        ("tosa.addd %a, %a", "unsupported-operator", "'tosa.addd' is not an op", "tosa.add?"),
        ("tosa.conv2 %a", "unsupported-operator", "'tosa.conv2' is not an op", "tosa.conv2d?"),
        ("tosa.qqq %a", "unsupported-operator", "'tosa.qqq' is not an operator of TOSA", ""),
        ("tfl.exp %a", "foreign-operator", "is not a TOSA operator", "the .tflite file"),
    ],
)
def test_an_unknown_operator_is_named(line: str, code: str, message: str, hint: str) -> None:
    type_ = "(tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>" if "," in line else ""
    type_ = type_ or "(tensor<4xi8>) -> tensor<4xi8>"
    for end in ("\n", " "):
        found = refusal(
            f"func.func @f(%a: tensor<4xi8>) -> tensor<4xi8> {{ %0 = {line} : {type_}{end}"
            "return %0 : tensor<4xi8> }".encode()
        )
        assert (found.code, message in found.message) == (code, True)
        assert hint in found.hint
