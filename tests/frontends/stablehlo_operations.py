"""The operations that the specification of StableHLO lists, each in a module that uses it.

A row has the arguments, the results and the body of @main, whose arguments are %a0, %a1, ...
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

#: What `record_stablehlo.py` wrote: who judged the modules of each operation, on how many values.
JUDGES: Final = Path(__file__).with_name("stablehlo_judges.json")


class Case(NamedTuple):
    """A module: the types of its arguments and results, and its body, which returns %r."""

    arguments: str
    results: str
    body: str
    before: str = ""

    def kinds(self) -> list[str]:
        """Return the types of the arguments."""
        return [kind for kind in self.arguments.split(", ") if kind]

    def text(self) -> str:
        """Return the module."""
        given = ", ".join(f"%a{i}: tensor<{kind}>" for i, kind in enumerate(self.kinds()))
        made = ", ".join(f"tensor<{kind}>" for kind in self.results.split(", "))
        count = len(self.results.split(", "))
        values = "%r" if count == 1 else ", ".join(f"%r#{i}" for i in range(count))
        return (
            f"{self.before}\nfunc.func @main({given}) -> ({made}) {{\n{self.body}\n"
            f"return {values} : {made}\n}}\n"
        )


def _unary(name: str, kind: str = "2x3xf32") -> Case:
    return Case(kind, kind, f"%r = stablehlo.{name} %a0 : tensor<{kind}>")


def _binary(name: str, kind: str = "2x3xf32") -> Case:
    return Case(f"{kind}, {kind}", kind, f"%r = stablehlo.{name} %a0, %a1 : tensor<{kind}>")


_F, _I, _BYTES = "2x3xf32", "2x3xi32", "2x3x!quant.uniform<i8:f32,0.1:3>"
_ADD = """^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %z = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %z : tensor<f32>"""
_GREATEST = """^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %z = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %z : tensor<i1>"""
_ZERO = "%zero = stablehlo.constant dense<0.0> : tensor<f32>\n"

_GROUPS = "replica_groups = dense<0> : tensor<1x1xi64>"


def _alone(name: str, attributes: str, is_reduction: bool = False) -> Case:
    """Return a module that communicates in a group of one device."""
    region = f" ({{\n{_ADD}\n}})" if is_reduction else ""
    kind = f"tensor<{_F}>"
    made = f'%r = "stablehlo.{name}"(%a0) <{{{attributes}}}>{region} : ({kind}) -> {kind}'
    return Case(_F, _F, made)


#: Operation of the specification -> modules with it.
CASES: Final[dict[str, list[Case]]] = {
    **{
        name: [_unary(name)]
        for name in (
            *("abs", "cbrt", "ceil", "cosine", "exponential", "exponential_minus_one", "floor"),
            *("log", "log_plus_one", "logistic", "negate", "round_nearest_afz"),
            *("round_nearest_even", "rsqrt", "sign", "sine", "sqrt", "tan", "tanh"),
        )
    },
    **{
        name: [_binary(name), _binary(name, _I)]
        for name in ("add", "divide", "maximum", "minimum", "multiply", "remainder", "subtract")
    },
    **{name: [_binary(name, _I), _binary(name, "2x3xi1")] for name in ("and", "or", "xor")},
    **{
        name: [_binary(name, _I)]
        for name in ("shift_left", "shift_right_arithmetic", "shift_right_logical")
    },
    **{name: [_unary(name, _I)] for name in ("count_leading_zeros", "popcnt", "not")},
    "atan2": [_binary("atan2")],
    "power": [_binary("power")],
    "is_finite": [
        Case(_F, "2x3xi1", "%r = stablehlo.is_finite %a0 : (tensor<2x3xf32>) -> tensor<2x3xi1>")
    ],
    "bitcast_convert": [
        Case(
            "4xi32",
            "4xui32",
            "%r = stablehlo.bitcast_convert %a0 : (tensor<4xi32>) -> tensor<4xui32>",
        )
    ],
    "broadcast_in_dim": [
        Case(
            "3x1xf32",
            "2x3x4xf32",
            "%r = stablehlo.broadcast_in_dim %a0, dims = [1, 2] : "
            "(tensor<3x1xf32>) -> tensor<2x3x4xf32>",
        )
    ],
    "case": [
        Case(
            "i32, 3xf32",
            "3xf32",
            """%r = "stablehlo.case"(%a0) ({
            %x = stablehlo.negate %a1 : tensor<3xf32>
            stablehlo.return %x : tensor<3xf32>
            }, {
            %x = stablehlo.abs %a1 : tensor<3xf32>
            stablehlo.return %x : tensor<3xf32>
            }) : (tensor<i32>) -> tensor<3xf32>""",
        )
    ],
    "cholesky": [
        Case(
            "2x3x3xf32",
            "2x3x3xf32, 2x3x3xf32",
            "%s = stablehlo.dot_general %a0, %a0, batching_dims = [0] x [0], contracting_dims = [2] x "
            "[2] : (tensor<2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>\n"
            "%l = stablehlo.cholesky %s, lower = true : tensor<2x3x3xf32>\n"
            "%u = stablehlo.cholesky %s : tensor<2x3x3xf32>\n"
            "%r:2 = stablehlo.optimization_barrier %l, %u : tensor<2x3x3xf32>, tensor<2x3x3xf32>",
        )
    ],
    "clamp": [
        Case(
            f"f32, {_F}, f32",
            _F,
            "%r = stablehlo.clamp %a0, %a1, %a2 : "
            "(tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>",
        )
    ],
    "compare": [
        Case(
            f"{kind}, {kind}",
            "2x3xi1",
            f"%r = stablehlo.compare {word}, %a0, %a1{how} : "
            f"(tensor<{kind}>, tensor<{kind}>) -> tensor<2x3xi1>",
        )
        for kind, how in ((_F, ""), (_F, ", TOTALORDER"), (_I, ", SIGNED"))
        for word in ("EQ", "NE", "GE", "GT", "LE", "LT")
    ],
    **{
        name: [
            Case(
                "2x4xf32, 2x4xf32",
                "2x4xf32",
                "%c = stablehlo.complex %a0, %a1 : tensor<2x4xcomplex<f32>>\n"
                "%d = stablehlo.constant dense<[[(1.0, 2.0), (0.5, -1.0), (0.0, 1.0), (3.0, 0.0)], "
                "[(1.0, 0.0), (0.0, 0.0), (-2.0, -0.5), (1.0, 1.0)]]> : tensor<2x4xcomplex<f32>>\n"
                "%e = stablehlo.multiply %c, %d : tensor<2x4xcomplex<f32>>\n"
                f"%r = stablehlo.{part} %e : (tensor<2x4xcomplex<f32>>) -> tensor<2x4xf32>",
            )
        ]
        for name, part in (("complex", "real"), ("real", "real"), ("imag", "imag"))
    },
    "fft": [
        Case(
            "2x6xf32, 2x6xf32",
            "2x6xf32, 2x6xf32",
            "%c = stablehlo.complex %a0, %a1 : tensor<2x6xcomplex<f32>>\n"
            "%f = stablehlo.fft %c, type = FFT, length = [2, 6] : (tensor<2x6xcomplex<f32>>) -> "
            "tensor<2x6xcomplex<f32>>\n%b = stablehlo.fft %f, type = IFFT, length = [6] : "
            "(tensor<2x6xcomplex<f32>>) -> tensor<2x6xcomplex<f32>>\n"
            "%u = stablehlo.real %b : (tensor<2x6xcomplex<f32>>) -> tensor<2x6xf32>\n"
            "%h = stablehlo.fft %a0, type = RFFT, length = [6] : (tensor<2x6xf32>) -> "
            "tensor<2x4xcomplex<f32>>\n%g = stablehlo.multiply %h, %h : tensor<2x4xcomplex<f32>>\n"
            "%v = stablehlo.fft %g, type = IRFFT, length = [6] : (tensor<2x4xcomplex<f32>>) -> "
            "tensor<2x6xf32>\n%r:2 = stablehlo.optimization_barrier %u, %v : tensor<2x6xf32>, "
            "tensor<2x6xf32>",
        )
    ],
    "composite": [
        Case(
            _F,
            _F,
            '%r = stablehlo.composite "own.negate" %a0 {decomposition = @own} : '
            "(tensor<2x3xf32>) -> tensor<2x3xf32>",
            "func.func private @own(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
            "%y = stablehlo.negate %x : tensor<2x3xf32>\nreturn %y : tensor<2x3xf32>\n}",
        )
    ],
    "concatenate": [
        Case(
            f"{_F}, 2x2xf32",
            "2x5xf32",
            "%r = stablehlo.concatenate %a0, %a1, dim = 1 : "
            "(tensor<2x3xf32>, tensor<2x2xf32>) -> tensor<2x5xf32>",
        )
    ],
    "constant": [
        Case("", "3xf32", "%r = stablehlo.constant dense<[1.0, -2.5, 1.0e-30]> : tensor<3xf32>"),
        Case("", "3xi8", "%r = stablehlo.constant dense<[1, -128, 127]> : tensor<3xi8>"),
        Case("", "2xi1", "%r = stablehlo.constant dense<[true, false]> : tensor<2xi1>"),
    ],
    "convert": [
        Case(_F, _I, "%r = stablehlo.convert %a0 : (tensor<2x3xf32>) -> tensor<2x3xi32>"),
        Case(_I, _F, "%r = stablehlo.convert %a0 : (tensor<2x3xi32>) -> tensor<2x3xf32>"),
        Case(_I, "2x3xi1", "%r = stablehlo.convert %a0 : (tensor<2x3xi32>) -> tensor<2x3xi1>"),
        Case(_F, "2x3xf16", "%r = stablehlo.convert %a0 : (tensor<2x3xf32>) -> tensor<2x3xf16>"),
    ],
    "convolution": [
        Case(
            "1x8x8x4xf32, 3x3x2x6xf32",
            "1x4x4x6xf32",
            "%r = stablehlo.convolution(%a0, %a1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],"
            " window = {stride = [2, 2], pad = [[1, 1], [1, 1]]} "
            "{batch_group_count = 1 : i64, feature_group_count = 2 : i64} : "
            "(tensor<1x8x8x4xf32>, tensor<3x3x2x6xf32>) -> tensor<1x4x4x6xf32>",
        ),
        Case(
            "2x3x7xf32, 5x3x2xf32",
            "2x5x13xf32",
            "%r = stablehlo.convolution(%a0, %a1) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],"
            " window = {lhs_dilate = [2], pad = [[1, 1]], rhs_dilate = [2], reverse = [true]} "
            "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
            "(tensor<2x3x7xf32>, tensor<5x3x2xf32>) -> tensor<2x5x13xf32>",
        ),
    ],
    "custom_call": [
        Case(
            _F,
            _F,
            "%r = stablehlo.custom_call @Sharding(%a0) : (tensor<2x3xf32>) -> tensor<2x3xf32>",
        )
    ],
    "dot_general": [
        Case(
            "2x3x4xf32, 2x4x5xf32",
            "2x3x5xf32",
            "%r = stablehlo.dot_general %a0, %a1, batching_dims = [0] x [0], contracting_dims = "
            "[2] x [1] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>",
        ),
        Case(
            "3x4xi8, 5x4xi8",
            "3x5xi32",
            "%r = stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [1] : "
            "(tensor<3x4xi8>, tensor<5x4xi8>) -> tensor<3x5xi32>",
        ),
    ],
    "dynamic_broadcast_in_dim": [
        Case(
            "3xf32",
            "2x3xf32",
            "%s = stablehlo.constant dense<[2, 3]> : tensor<2xi64>\n"
            "%r = stablehlo.dynamic_broadcast_in_dim %a0, %s, dims = [1] : "
            "(tensor<3xf32>, tensor<2xi64>) -> tensor<2x3xf32>",
        )
    ],
    "dynamic_conv": [
        Case(
            "1x5x2xf32, 3x2x2xf32",
            "1x5x2xf32",
            "%s = stablehlo.constant dense<[[1, 1]]> : tensor<1x2xi64>\n"
            '%r = "stablehlo.dynamic_conv"(%a0, %a1, %s) <{batch_group_count = 1 : i64, '
            "feature_group_count = 1 : i64, dimension_numbers = "
            "#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>}> : "
            "(tensor<1x5x2xf32>, tensor<3x2x2xf32>, tensor<1x2xi64>) -> tensor<1x5x2xf32>",
        )
    ],
    "dynamic_gather": [
        Case(
            "5x3xf32",
            "2x3xf32",
            "%i = stablehlo.constant dense<[[4], [1]]> : tensor<2x1xi32>\n"
            "%s = stablehlo.constant dense<[1, 3]> : tensor<2xi32>\n"
            '%r = "stablehlo.dynamic_gather"(%a0, %i, %s) <{dimension_numbers = #stablehlo.gather<'
            "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim "
            "= 1>, indices_are_sorted = false}> : "
            "(tensor<5x3xf32>, tensor<2x1xi32>, tensor<2xi32>) -> tensor<2x3xf32>",
        )
    ],
    "dynamic_iota": [
        Case(
            "",
            "2x3xi32",
            "%s = stablehlo.constant dense<[2, 3]> : tensor<2xi64>\n"
            "%r = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi64>) -> tensor<2x3xi32>",
        )
    ],
    "dynamic_pad": [
        Case(
            "3xf32, f32",
            "6xf32",
            "%l = stablehlo.constant dense<1> : tensor<1xi64>\n"
            "%h = stablehlo.constant dense<2> : tensor<1xi64>\n"
            "%n = stablehlo.constant dense<0> : tensor<1xi64>\n"
            "%r = stablehlo.dynamic_pad %a0, %a1, %l, %h, %n : (tensor<3xf32>, tensor<f32>, "
            "tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<6xf32>",
        )
    ],
    "dynamic_reshape": [
        Case(
            _F,
            "3x2xf32",
            "%s = stablehlo.constant dense<[3, 2]> : tensor<2xi64>\n"
            "%r = stablehlo.dynamic_reshape %a0, %s : "
            "(tensor<2x3xf32>, tensor<2xi64>) -> tensor<3x2xf32>",
        )
    ],
    "dynamic_slice": [
        Case(
            "5x4xf32, i32, i32",
            "2x3xf32",
            "%r = stablehlo.dynamic_slice %a0, %a1, %a2, sizes = [2, 3] : "
            "(tensor<5x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>",
        ),
        Case(
            "5x4xf32, i32",
            "2x3xf32",
            "%n = stablehlo.negate %a1 : tensor<i32>\n"
            "%r = stablehlo.dynamic_slice %a0, %n, %a1, sizes = [2, 3] : "
            "(tensor<5x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>",
        ),
    ],
    "dynamic_update_slice": [
        Case(
            "5x4xf32, 2x3xf32, i32, i32",
            "5x4xf32",
            "%r = stablehlo.dynamic_update_slice %a0, %a1, %a2, %a3 : (tensor<5x4xf32>, "
            "tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<5x4xf32>",
        ),
        Case(
            "5x4xf32, 2x3xf32, i32",
            "5x4xf32",
            "%n = stablehlo.constant dense<-1> : tensor<i32>\n"
            "%r = stablehlo.dynamic_update_slice %a0, %a1, %n, %a2 : (tensor<5x4xf32>, "
            "tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<5x4xf32>",
        ),
    ],
    "gather": [
        Case(
            "5x3xf32, 2x1xi32",
            "2x2xf32",
            '%r = "stablehlo.gather"(%a0, %a1) <{dimension_numbers = #stablehlo.gather<offset_dims = '
            "[1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
            "indices_are_sorted = false, slice_sizes = array<i64: 1, 2>}> : "
            "(tensor<5x3xf32>, tensor<2x1xi32>) -> tensor<2x2xf32>",
        )
    ],
    "get_dimension_size": [
        Case(
            _F,
            "i32",
            "%r = stablehlo.get_dimension_size %a0, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>",
        )
    ],
    "get_tuple_element": [
        Case(
            "2xf32, 3xi32",
            "3xi32",
            "%t = stablehlo.tuple %a0, %a1 : tuple<tensor<2xf32>, tensor<3xi32>>\n"
            "%r = stablehlo.get_tuple_element %t[1] : "
            "(tuple<tensor<2xf32>, tensor<3xi32>>) -> tensor<3xi32>",
        )
    ],
    "if": [
        Case(
            "i1, 3xf32",
            "3xf32",
            """%r = "stablehlo.if"(%a0) ({
            %x = stablehlo.negate %a1 : tensor<3xf32>
            stablehlo.return %x : tensor<3xf32>
            }, {
            stablehlo.return %a1 : tensor<3xf32>
            }) : (tensor<i1>) -> tensor<3xf32>""",
        )
    ],
    "iota": [Case("", "2x3xf32", "%r = stablehlo.iota dim = 1 : tensor<2x3xf32>")],
    "map": [
        Case(
            f"{_F}, {_F}",
            _F,
            f"""%r = "stablehlo.map"(%a0, %a1) <{{dimensions = array<i64: 0, 1>}}> ({{
            {_ADD}
            }}) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>""",
        )
    ],
    "optimization_barrier": [
        Case(
            f"{_F}, {_I}",
            f"{_F}, {_I}",
            "%r:2 = stablehlo.optimization_barrier %a0, %a1 : tensor<2x3xf32>, tensor<2x3xi32>",
        )
    ],
    "pad": [
        Case(
            f"{_F}, f32",
            "4x7xf32",
            "%r = stablehlo.pad %a0, %a1, low = [1, -1], high = [1, 3], interior = [0, 1] : "
            "(tensor<2x3xf32>, tensor<f32>) -> tensor<4x7xf32>",
        )
    ],
    "partition_id": [Case("", "ui32", "%r = stablehlo.partition_id : tensor<ui32>")],
    "reduce": [
        Case(
            f"{_F}, f32",
            "2xf32",
            f"%r = stablehlo.reduce(%a0 init: %a1) applies stablehlo.{name} across dimensions = [1] : "
            "(tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>",
        )
        for name in ("add", "multiply", "maximum", "minimum")
    ],
    "reduce_precision": [
        Case(_F, _F, "%r = stablehlo.reduce_precision %a0, format = e5m10 : tensor<2x3xf32>")
    ],
    "reduce_window": [
        Case(
            "1x6x6x2xf32",
            "1x3x3x2xf32",
            f"""{_ZERO}%r = "stablehlo.reduce_window"(%a0, %zero) <{{
            window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}}> ({{
            {_ADD}
            }}) : (tensor<1x6x6x2xf32>, tensor<f32>) -> tensor<1x3x3x2xf32>""",
        ),
        Case(
            "7xf32",
            "4xf32",
            f"""{_ZERO}%r = "stablehlo.reduce_window"(%a0, %zero) <{{base_dilations = array<i64: 2>,
            padding = dense<[[1, 0]]> : tensor<1x2xi64>, window_dilations = array<i64: 3>,
            window_dimensions = array<i64: 3>, window_strides = array<i64: 2>}}> ({{
            {_ADD}
            }}) : (tensor<7xf32>, tensor<f32>) -> tensor<4xf32>""",
        ),
    ],
    "replica_id": [Case("", "ui32", "%r = stablehlo.replica_id : tensor<ui32>")],
    "reshape": [
        Case(_F, "3x2xf32", "%r = stablehlo.reshape %a0 : (tensor<2x3xf32>) -> tensor<3x2xf32>")
    ],
    "reverse": [Case(_F, _F, "%r = stablehlo.reverse %a0, dims = [0, 1] : tensor<2x3xf32>")],
    "scatter": [
        Case(
            "5x3xf32, 2x1xi32, 2x3xf32",
            "5x3xf32",
            f"""%r = "stablehlo.scatter"(%a0, %a1, %a2) <{{indices_are_sorted = false,
            scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
            inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
            unique_indices = false}}> ({{
            {_ADD}
            }}) : (tensor<5x3xf32>, tensor<2x1xi32>, tensor<2x3xf32>) -> tensor<5x3xf32>""",
        )
    ],
    "select": [
        Case(
            f"2x3xi1, {_F}, {_F}",
            _F,
            "%r = stablehlo.select %a0, %a1, %a2 : tensor<2x3xi1>, tensor<2x3xf32>",
        )
    ],
    "select_and_scatter": [
        Case(
            "4x4xf32, 2x2xf32",
            "4x4xf32",
            f"""{_ZERO}%r = "stablehlo.select_and_scatter"(%a0, %a1, %zero) <{{
            window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}}> ({{
            {_GREATEST}
            }}, {{
            {_ADD}
            }}) : (tensor<4x4xf32>, tensor<2x2xf32>, tensor<f32>) -> tensor<4x4xf32>""",
        ),
        Case(
            "4x2xi32, 2x2xi32, i32",
            "4x2xi32",
            f"""%r = "stablehlo.select_and_scatter"(%a0, %a1, %a2) <{{
            window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 2, 1>,
            padding = dense<[[0, 1], [0, 0]]> : tensor<2x2xi64>}}> ({{
            {_GREATEST.replace("f32", "i32")}
            }}, {{
            {_ADD.replace("f32", "i32")}
            }}) : (tensor<4x2xi32>, tensor<2x2xi32>, tensor<i32>) -> tensor<4x2xi32>""",
        ),
    ],
    "slice": [
        Case(
            "5x4xf32",
            "2x2xf32",
            "%r = stablehlo.slice %a0 [1:4:2, 0:3:2] : (tensor<5x4xf32>) -> tensor<2x2xf32>",
        )
    ],
    "sort": [
        Case(
            "2x5xf32, 2x5xi32",
            "2x5xf32, 2x5xi32",
            f"""%r:2 = "stablehlo.sort"(%a0, %a1) <{{dimension = 1 : i64, is_stable = true}}> ({{
            ^bb0(%x: tensor<f32>, %y: tensor<f32>, %u: tensor<i32>, %v: tensor<i32>):
            %z = stablehlo.compare {word}, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %z : tensor<i1>
            }}) : (tensor<2x5xf32>, tensor<2x5xi32>) -> (tensor<2x5xf32>, tensor<2x5xi32>)""",
        )
        for word in ("LT", "GT")
    ],
    "transpose": [
        Case(
            _F,
            "3x2xf32",
            "%r = stablehlo.transpose %a0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>",
        )
    ],
    "triangular_solve": [
        Case(
            "2x3x3xf32, 2x3x2xf32",
            "2x3x2xf32",
            "%d = stablehlo.constant dense<[[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]]> : "
            "tensor<3x3xf32>\n%e = stablehlo.broadcast_in_dim %d, dims = [1, 2] : (tensor<3x3xf32>) -> "
            "tensor<2x3x3xf32>\n%s = stablehlo.add %a0, %e : tensor<2x3x3xf32>\n"
            '%r = "stablehlo.triangular_solve"(%s, %a1) <{left_side = true, lower = false, '
            "transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> : "
            "(tensor<2x3x3xf32>, tensor<2x3x2xf32>) -> tensor<2x3x2xf32>",
        )
    ],
    "tuple": [
        Case(
            "2xf32, 3xi32",
            "2xf32",
            "%t = stablehlo.tuple %a0, %a1 : tuple<tensor<2xf32>, tensor<3xi32>>\n"
            "%r = stablehlo.get_tuple_element %t[0] : "
            "(tuple<tensor<2xf32>, tensor<3xi32>>) -> tensor<2xf32>",
        )
    ],
    "while": [
        Case(
            "i32, 3xf32",
            "i32, 3xf32",
            """%one = stablehlo.constant dense<1> : tensor<i32>
            %end = stablehlo.constant dense<5> : tensor<i32>
            %r:2 = stablehlo.while(%i = %a0, %x = %a1) : tensor<i32>, tensor<3xf32>
            cond {
              %c = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %c : tensor<i1>
            } do {
              %n = stablehlo.add %i, %one : tensor<i32>
              %y = stablehlo.add %x, %x : tensor<3xf32>
              stablehlo.return %n, %y : tensor<i32>, tensor<3xf32>
            }""",
        )
    ],
    **{
        f"batch_norm_{name}": [
            Case(
                ", ".join(
                    ["2x4x3xf32", *["3xf32"] * count, *(["2x4x3xf32"] if name == "grad" else [])]
                ),
                ", ".join(["2x4x3xf32", *["3xf32"] * (0 if name == "inference" else 2)]),
                f'%r{"" if name == "inference" else ":3"} = "stablehlo.batch_norm_{name}"'
                f"({', '.join(f'%a{i}' for i in range(count + 1 + (name == 'grad')))}) "
                "<{epsilon = 1.0e-3 : f32, feature_index = 2 : i64}> : ("
                + ", ".join(
                    f"tensor<{kind}>"
                    for kind in [
                        "2x4x3xf32",
                        *["3xf32"] * count,
                        *(["2x4x3xf32"] if name == "grad" else []),
                    ]
                )
                + ") -> "
                + (
                    "tensor<2x4x3xf32>"
                    if name == "inference"
                    else "(tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>)"
                ),
            )
        ]
        for name, count in (("inference", 4), ("training", 2), ("grad", 3))
    },
    **{
        f"uniform_{name}": [
            Case(
                given,
                made,
                f"%r = stablehlo.uniform_{name} %a0 : (tensor<{given}>) -> tensor<{made}>",
            )
        ]
        for name, given, made in (("quantize", _F, _BYTES), ("dequantize", _BYTES, _F))
    },
    # One device: nothing changes.
    "after_all": [
        Case(
            _F,
            _F,
            '%t = "stablehlo.after_all"() : () -> !stablehlo.token\n'
            "%u = stablehlo.after_all %t, %t : !stablehlo.token\n"
            "%r = stablehlo.abs %a0 : tensor<2x3xf32>",
        )
    ],
    "all_gather": [_alone("all_gather", "all_gather_dim = 0 : i64, " + _GROUPS)],
    "all_reduce": [_alone("all_reduce", _GROUPS, is_reduction=True)],
    "all_to_all": [
        _alone(
            "all_to_all",
            "concat_dimension = 0 : i64, split_count = 1 : i64, split_dimension = 1 : i64, "
            + _GROUPS,
        )
    ],
    "collective_broadcast": [_alone("collective_broadcast", _GROUPS)],
    "collective_permute": [
        _alone("collective_permute", "source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>")
    ],
    "reduce_scatter": [
        _alone("reduce_scatter", "scatter_dimension = 0 : i64, " + _GROUPS, is_reduction=True)
    ],
}

#: Operations that XLA does not run, such as those of computed sizes -> what they return in their
#: modules, by the formulas of the specification.
FORMULAS: Final[Mapping[str, Any]] = {
    "collective_broadcast": lambda x: [x],
    "dynamic_broadcast_in_dim": lambda x: [np.broadcast_to(x, (2, 3))],
    "dynamic_conv": lambda x, w: [
        sum(np.pad(x, ((0, 0), (1, 1), (0, 0)))[:, k : k + 5] @ w[k] for k in range(3))
    ],
    "dynamic_gather": lambda x: [x[[4, 1]]],
    "dynamic_iota": lambda: [np.broadcast_to(np.arange(3), (2, 3))],
    "dynamic_pad": lambda x, v: [np.concatenate([[v], x, [v, v]])],
    "dynamic_reshape": lambda x: [x.reshape(3, 2)],
    "uniform_dequantize": lambda x: [(x.astype(np.float32) - 3) * np.float32(0.1)],
    "uniform_quantize": lambda x: [np.clip(np.round(x / np.float32(0.1)) + 3, -128, 127)],
}

#: Operation that lowers with a limit -> the limit.
LIMITS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *("all_gather", "all_reduce", "all_to_all", "collective_broadcast"),
            *("collective_permute", "reduce_scatter"),
        ),
        "only in groups of one device, where it changes nothing",
    ),
    "atan2": "the sign of a zero has no effect",
    "custom_call": "only calls of which JAX says that they change no value, such as @Sharding",
    "bitcast_convert": "between types of one width, integers or floating point",
    "cholesky": "matrices of at most 64 rows, and NaN for those that are not positive definite",
    **dict.fromkeys(
        ("complex", "imag", "real"), "inside of a program; its arguments and results are real"
    ),
    "convolution": "floating point, and integers of 8 bits",
    "fft": "of lengths up to 2048",
    "divide": "a subnormal divisor may count as 0, and its quotient be an infinity",
    "popcnt": "integers of at most 32 bits",
    "power": (
        "of integers, only with a constant exponent in one element; the sign of a zero has no effect"
    ),
    "reduce_precision": "to the bits of BF16 or FP16",
    "remainder": (
        "of floating point as if the last bit of the dividend were not sure, so with no digit for "
        "quotients of 2<sup>24</sup>"
    ),
    "triangular_solve": "matrices of at most 64 rows",
    "scatter": "one array, and a region that is a sum, a product, an extreme or the update",
    "sort": "at most 2<sup>22</sup> pairs, all of which are compared",
    **dict.fromkeys(
        (
            *("dynamic_broadcast_in_dim", "dynamic_conv", "dynamic_gather", "dynamic_iota"),
            *("dynamic_pad", "dynamic_reshape"),
        ),
        "sizes that follow from constants and from the sizes of the arguments",
    ),
    **dict.fromkeys(
        ("uniform_dequantize", "uniform_quantize"), "a scale for each tensor, or for each channel"
    ),
}

_RANDOM: Final = "random numbers that depend on arguments: TOSA does not have them"
_OUTSIDE: Final = "it communicates with the host or with other devices"
_TOKEN: Final = "%t = stablehlo.create_token : !stablehlo.token\n"
_CHANNEL: Final = (
    "channel_handle = #stablehlo.channel_handle<handle = 5, type = %d>, is_host_transfer = true"
)
_FUTURE: Final = f"""%f = "stablehlo.async_start"(%a0) ({{
^bb0(%p: tensor<{_F}>):
%q = "stablehlo.all_reduce"(%p) <{{{_GROUPS}}}> ({{
{_ADD}
}}) : (tensor<{_F}>) -> tensor<{_F}>
stablehlo.return %q : tensor<{_F}>
}}) : (tensor<{_F}>) -> !stablehlo.future<tensor<{_F}>>
%r = "stablehlo.async_done"(%f) : (!stablehlo.future<tensor<{_F}>>) -> tensor<{_F}>"""


def _receives(name: str, attributes: str) -> str:
    return (
        f'{_TOKEN}%q:2 = "stablehlo.{name}"(%t) <{{{attributes}}}> : '
        f"(!stablehlo.token) -> (tensor<{_F}>, !stablehlo.token)\n%r = stablehlo.abs %q#0 : tensor<{_F}>"
    )


def _gives(name: str, attributes: str) -> str:
    return (
        f'{_TOKEN}%u = "stablehlo.{name}"(%a0, %t) <{{{attributes}}}> : '
        f"(tensor<{_F}>, !stablehlo.token) -> !stablehlo.token\n%r = stablehlo.abs %a0 : tensor<{_F}>"
    )


#: Operation that TOSA cannot hold -> the reason that the converter gives, and a module with it.
REFUSED: Final[Mapping[str, tuple[str, Case]]] = {
    "rng": (
        _RANDOM,
        Case(
            "f32, f32",
            "3xf32",
            "%s = stablehlo.constant dense<3> : tensor<1xi64>\n"
            "%r = stablehlo.rng %a0, %a1, %s, distribution = UNIFORM : "
            "(tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>",
        ),
    ),
    "rng_bit_generator": (
        _RANDOM,
        Case(
            "2xui64",
            "2xui64, 3xui32",
            "%r:2 = stablehlo.rng_bit_generator %a0, algorithm = THREE_FRY : "
            "(tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>)",
        ),
    ),
    "infeed": (_OUTSIDE, Case("", _F, _receives("infeed", 'infeed_config = ""'))),
    "outfeed": (_OUTSIDE, Case(_F, _F, _gives("outfeed", 'outfeed_config = ""'))),
    "recv": (_OUTSIDE, Case("", _F, _receives("recv", _CHANNEL % 3))),
    "send": (_OUTSIDE, Case(_F, _F, _gives("send", _CHANNEL % 2))),
    "async_start": (_OUTSIDE, Case(_F, _F, _FUTURE)),
    "async_done": (_OUTSIDE, Case(_F, _F, _FUTURE)),
}


def table() -> str:
    """Return the table of docs/stablehlo.md: counts, and a row for each operation."""
    count = len(CASES) + len(REFUSED)
    judges: dict[str, Any] = json.loads(JUDGES.read_text(encoding="utf-8"))
    rows = judges["operations"]
    by_interpreter = sum("interpreter" in row["judges"] for row in rows.values())
    lines = [
        f"Of {count} operations {len(CASES)} lower, which is {100 * len(CASES) / count:.1f} %. "
        f"The interpreter of jaxlib {judges['jaxlib']} judges",
        f"{by_interpreter} of them on {judges['values']:,} edge values.",
        "",
        "| operation | lowers | judged by | modules | edge values | limits, or why not |",
        "|---|---|---|---|---|---|",
    ]
    for name in sorted({*CASES, *REFUSED}):
        if name in REFUSED:
            cells = ["no", "", "", "", REFUSED[name][0]]
        else:
            row = rows[name]
            shown = f"{row['values']:,}" if row["values"] else ""
            limit = LIMITS.get(name, "")
            judged = " and ".join(row["judges"])
            if "why" in row:
                judged += f"; the interpreter {row['why']}"
            cells = ["yes", judged, str(len(CASES[name])), shown, limit]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


TABLES: Final = {"stablehlo-operations": table}
