"""Single operations of older releases: what each becomes today, and why one is refused."""

from __future__ import annotations

import pytest

import tosa_convert as tc
from tosa_convert.graph import Graph

IMAGE, LARGER = "1x3x3x1xf32", "1x5x5x1xf32"
#: A RESIZE of 2022.
STRIDES = {
    "mode": '"BILINEAR"',
    "offset": "[0, 0]",
    "offset_fp": "[0.0 : f32, 0.0 : f32]",
    "output_size": "[5, 5]",
    "shift": "0 : i32",
    "stride": "[0, 0]",
    "stride_fp": "[0.5 : f32, 0.5 : f32]",
}
#: Its stride is the nearest number of FP32 to a third.
THIRD = "[0.333333343 : f32, 0.333333343 : f32]"
POOL = "kernel = [2, 2], pad = [0, 0, 0, 0], stride = [2, 2]"
DECONVOLUTION = "out_pad = [0, 0], out_shape = [1, -1, -1, 1], stride = [1, 1]"
RESCALE = (
    "input_zp = 0 : i32, multiplier = [1 : i32], output_zp = 0 : i32, per_channel = false, "
    "scale32 = false, shift = [30 : i32]"
)


def resize(**changes: str) -> str:
    return ", ".join(f"{name} = {value}" for name, value in (STRIDES | changes).items())


def upgraded(name: str, attributes: str, operands: str, result: str) -> Graph:
    """Read a program with this operation, and with a MUL that shows how old it is."""
    types = [f"tensor<{operand}>" for operand in operands.split()]
    names = [f"%a{index}" for index in range(len(types))]
    inputs = ", ".join(f"{value}: {type_}" for value, type_ in zip(names, types, strict=True))
    floats = "tensor<1xf32>"
    text = f"""func.func @f(%m: {floats}, {inputs}) -> (tensor<{result}>, {floats}) {{
      %1 = "tosa.mul"(%m, %m) {{shift = 0 : i32}} : ({floats}, {floats}) -> {floats}
      %0 = "tosa.{name}"({", ".join(names)}) {{{attributes}}} : ({", ".join(types)}) -> tensor<{result}>
      return %0, %1 : tensor<{result}>, {floats}
    }}"""
    return tc.load(text.encode())


@pytest.mark.parametrize(
    ("name", "attributes", "operands", "result", "reason"),
    [
        ("resize", resize(), "3x3xf32", "5x5xf32", "its input or result is not of rank 4"),
        ("resize", resize(), "1x?x3x1xf32", LARGER, "is not known, and the border needs it"),
        ("resize", resize(shift="31 : i32"), "1x3x3x1xi8", "1x5x5x1xi32", "its shift is 31"),
        ("resize", resize(stride_fp="[-0.5 : f32, 0.5 : f32]"), IMAGE, LARGER, "its stride is -0.5"),
        ("resize", resize(stride_fp="[0x7F800000 : f32, 0.5 : f32]"), IMAGE, LARGER, "stride is inf"),
        ("resize", resize(stride_fp="[0.5 : f32]"), IMAGE, LARGER, "is not a list of two numbers"),
        ("resize", resize(stride_fp="[1, 2]"), IMAGE, LARGER, "is not a list of two numbers"),
        ("resize", resize(mode='"CUBIC"'), IMAGE, LARGER, "'CUBIC', expected one of NEAREST, BILIN"),
        ("resize", resize(mode="1"), IMAGE, LARGER, "its attribute mode is not a string in UTF-8"),
        ("resize", resize(scale="[1, 2]"), IMAGE, LARGER, "scale has 2 values, expected 4"),
        ("resize", resize(scale="7"), IMAGE, LARGER, "scale is not a list of integers"),
        ("mul", "shift = 1.5 : f32", "2xi32 2xi32", "2xi32", "its attribute shift is not an integer"),
        ("mul", "shift = 0 : i32", "2xi32", "2xi32", "it has 1 operands, expected 2"),
        ("negate", 'quantization_info = "x"', "2xi8", "2xi8", "quantization_info has an unknown form"),
        ("negate", "quantization_info = {input_zp = true}", "2xi8", "2xi8", "zero point input_zp is"),
        ("custom", 'identifier = 7, config = "b"', "2xi8", "2xi8", "identifier is not a string in"),
        ("custom", 'identifier = "\\FF", config = "b"', "2xi8", "2xi8", "is not a string in UTF-8"),
        (
            "custom", 'identifier = "a", config = "b", implementation_attrs = 7', "2xi8", "2xi8",
            "implementation_attrs is not a string",
        ),
        ("fully_connected", "", "1x2x3xf32 2x3xf32 2xf32", "1x2xf32", "result is not of rank 2"),
        (
            "transpose_conv2d", DECONVOLUTION, "2x2x1xf32 1x1x1x1xf32 1xf32", "1x2x2x1xf32",
            "its input, weight or result is not of rank 4",
        ),
        (
            "transpose_conv2d", DECONVOLUTION, "1x?x2x1xf32 1x1x1x1xf32 1xf32", "1x?x?x1xf32",
            "out_pad has two values, and the others need the size of the result",
        ),
        (
            "transpose_conv2d", DECONVOLUTION.replace("[0, 0]", "[0, 0, 0]"),
            "1x2x2x1xf32 1x1x1x1xf32 1xf32", "1x2x2x1xf32", "out_pad has 3 values, expected 4",
        ),
        ("slice", "start = [0], size = [-1]", "?xf32", "?xf32", "a size is -1, and the result does"),
        ("slice", "start = [0], size = [-1]", "?xf32", "*xf32", "a size is -1, and the result does"),
        ("slice", "start = 7, size = [1]", "4xf32", "4xf32", "start is not a list of integers"),
        ("add", "", "*xf32 1x2xf32", "1x2xf32", "the rank of an operand is not known"),
        ("reduce_sum", "axis = -1 : i64", "*xf32", "*xf32", "the rank of an operand or result is"),
        ("max_pool2d", POOL, "?x5x5x1xf32", "?x2x2x1xf32", "its stride does not divide"),
        ("clamp", "max_fp = 1, min_fp = 0, max_int = 0, min_int = 0", "2xf32", "2xf32", "floating-poi"),
        ("rescale", f"double_round = 7, {RESCALE}", "4xi8", "4xi8", "double_round is not a bool"),
    ],
)  # fmt: skip
def test_an_operation_without_a_form_today_is_refused(
    name: str, attributes: str, operands: str, result: str, reason: str
) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        upgraded(name, attributes, operands, result)
    (finding,) = caught.value.findings
    assert (finding.code, reason in finding.message) == ("cannot-upgrade", True), finding


@pytest.mark.parametrize(
    ("name", "attributes", "operands", "result", "expected"),
    [
        ("resize", resize(stride_fp=THIRD), IMAGE, "1x9x9x1xf32",
         "RESIZE(3, 1, 3, 1)(0, 0)(2, 2)"),
        ("resize", resize(stride_fp=THIRD, offset_fp="[0.25 : f32, 0.0 : f32]"), IMAGE, "1x9x9x1xf32",
         "RESIZE(12, 4, 3, 1)(3, 0)(11, 2)"),
        ("reshape", "new_shape = [2, -1]", "4xf32", "2x?xf32", "RESHAPE(2, 2)"),
        ("slice", "start = [1], size = [-1]", "4xf32", "3xf32", "SLICE(1,)(3,)"),
        ("add", "", "2xf32 1x2xf32", "1x2xf32", "RESHAPE(1, 2) ADD"),
        ("reduce_sum", "axis = -1 : i64", "2x3xf32", "2x1xf32", "REDUCE_SUM axis=1"),
        # It has no such axis, which `validate` says.
        ("reduce_sum", "axis = -3 : i64", "2x3xf32", "2x1xf32", "REDUCE_SUM axis=-3"),
        ("argmax", "axis = -1 : i64", "2x3xf32", "2xi64", "ARGMAX axis=1 CAST"),
        ("max_pool2d", POOL, "1x5x5x1xf32", "1x2x2x1xf32",
         "SLICE(0, 0, 0, 0)(1, 4, 4, 1) MAX_POOL2D pad=(0, 0, 0, 0)"),
        ("max_pool2d", POOL.replace("[0, 0, 0, 0]", "[0, 1, 0, 1]"), "1x4x4x1xf32", "1x2x2x1xf32",
         "MAX_POOL2D pad=(0, 0, 0, 0)"),
        # Nothing is known of what no window reaches, or `validate` refuses the stride.
        ("max_pool2d", POOL, "*xf32", "*xf32", "MAX_POOL2D pad=(0, 0, 0, 0)"),
        ("max_pool2d", POOL.replace("stride = [2, 2]", "stride = [0, 0]"), "1x5x5x1xf32",
         "1x2x2x1xf32", "MAX_POOL2D pad=(0, 0, 0, 0)"),
        ("conv2d", "pad = [0, 0, 0, 0], stride = [2, 2], dilation = [1, 1]",
         "1x5x5x1xf32 *xf32 1xf32", "1x2x2x1xf32", "CONV2D pad=(0, 0, 0, 0)"),
        ("clamp", "max_val = 5 : i32, min_val = 0 : i32", "2xi32", "2xi32", "MAXIMUM MINIMUM"),
    ],
)  # fmt: skip
def test_an_operation_of_an_older_release_is_written_with_those_of_today(
    name: str, attributes: str, operands: str, result: str, expected: str
) -> None:
    block = upgraded(name, attributes, operands, result).main
    words = []
    for operator in block.operators:
        if operator.spec.name in ("CONST", "CONST_SHAPE", "MUL"):
            continue
        shapes = [
            block.shapes[value].values() for value in operator.inputs if value in block.shapes
        ]
        shown = [
            f" {key}={operator.attributes[key]!r}"
            for key in ("axis", "pad")
            if key in operator.attributes
        ]
        words.append(operator.spec.name + "".join(map(str, shapes)) + "".join(shown))
    assert " ".join(words) == expected


def test_bounds_beyond_a_type_of_8_bits_are_its_largest_numbers() -> None:
    bounds = "max_fp = 500.0 : f32, min_fp = -1.0e39 : f64, max_int = 0, min_int = 0"
    clamp = upgraded("clamp", bounds, "2xf8E4M3FN", "2xf8E4M3FN").main.operators[-1]
    assert [clamp.attributes[name] for name in ("min_val", "max_val")] == [
        b"\xfe" + bytes(7),
        b"\x7e" + bytes(7),
    ]


@pytest.mark.parametrize(
    ("name", "attributes", "operands", "result", "codes"),
    [
        ("max_pool2d", POOL.replace("[0, 0, 0, 0]", "[0]"), "1x5x5x1xf32", "1x2x2x1xf32",
         "value-out-of-range"),
        ("max_pool2d", POOL.replace("[0, 0, 0, 0]", "7"), "1x5x5x1xf32", "1x2x2x1xf32",
         "unsupported-attribute"),
        ("max_pool2d", POOL.replace("kernel = [2, 2]", "kernel = [2]"), "1x5x5x1xf32", "1x2x2x1xf32",
         "value-out-of-range"),
        ("clamp", "max_val = 5 : i8, min_val = 0 : i8", "2xi32", "2xi32",
         "unsupported-attribute unsupported-attribute cannot-upgrade"),
    ],
)  # fmt: skip
def test_malformed_attributes_are_reported_beside_what_has_no_form(
    name: str, attributes: str, operands: str, result: str, codes: str
) -> None:
    with pytest.raises(tc.TosaConvertError) as caught:
        upgraded(name, attributes, operands, result)
    assert [finding.code for finding in caught.value.findings] == codes.split()
