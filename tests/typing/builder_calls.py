"""Calls of the builder, as type checkers see them. This file is checked and never run.

`public_functions.py` says what the comments mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tosa_convert.builder import Builder, Value, Variable, dtype_of
from tosa_convert.graph.dtypes import BlockSize, NanPropagationMode, RoundingMode


def values(b: Builder, array: npt.NDArray[np.float32], name: str) -> None:
    reveal_type(b.input("x", "fp32", (1, 8)))  # reveals Value
    reveal_type(b.const(array))  # reveals Value
    reveal_type(b.const([[1, 2.5]], np.float32, name="c"))  # reveals Value
    reveal_type(b.const_shape([1, 8]))  # reveals Value
    reveal_type(b.const(array).shape)  # reveals tuple[int, ...] | None
    reveal_type(b.output(b.const(array), name="y"))  # reveals None
    reveal_type(b.graph())  # reveals Graph
    b.input("x", "fp32", None, scaled=True)
    b.input("x", "f32", (1, 8))
    b.input("x", dtype_of(name), (1, 8))
    b.input("x", name, (1, 8))  # error: a name that is not checked
    b.input("x", "fp23", (1, 8))  # error: no such element type
    b.input("x", "fp32")  # error: there must be a shape
    b.input("x", "fp32", (1, 8), True)  # error: options are keywords
    b.input(3, "fp32", (1, 8))  # error: a name is a string
    b.const(array, name=1)  # error: a name is a string
    b.const_shape(3)  # error: sizes are a sequence
    b.const_shape([1.5])  # error: sizes are integers
    b.output(array)  # error: a value of the builder


def operators(b: Builder, x: Value, array: npt.NDArray[np.float32]) -> None:
    reveal_type(b.add(x, array))  # reveals Value
    reveal_type(b.add(x, 0.5, name="y"))  # reveals Value
    reveal_type(b.fft2d(x, x, inverse=True))  # reveals tuple[Value, Value]
    reveal_type(b.assert_equal_shape((1, 2), (1, 2)))  # reveals None
    reveal_type(b.reshape_block_scaled(x, (4, 32)))  # reveals Value | tuple[Value, ...]
    b.conv2d(x, array, [0.0, 1.0], pad=(1, 1, 1, 1), acc_type="fp32")
    b.rescale(x, 1 << 30, 30, 0, 5, dtype="int8", rounding_mode=RoundingMode.SINGLE_ROUND)
    b.reduce_max(x, axis=1, nan_mode="IGNORE")
    b.reduce_max(x, axis=1, nan_mode=NanPropagationMode.IGNORE)
    b.cast_to_block_scaled(x, block_size=BlockSize.BLOCK_SIZE_32, dtype=("fp8e4m3", "fp8ue8m0"))
    b.concat([x, array], axis=0)
    b.reshape(x, (2, 4))
    b.reshape(x, b.dim(x, axis=0))
    b.add(x)  # error: there must be two operands
    b.add(x, None)  # error: an operand, and not None
    b.add(x, 1.0, axis=0)  # error: no such attribute
    b.adds(x, 1.0)  # error: no such operator
    b.reduce_sum(x)  # error: there must be an axis
    b.reduce_sum(x, 1)  # error: attributes are keywords
    b.reduce_sum(x, axis=1.5)  # error: an axis is an integer
    b.reduce_sum(x, axis="1")  # error: an axis is an integer
    b.reduce_max(x, axis=1, nan_mode=RoundingMode.SINGLE_ROUND)  # error: another enum
    b.conv2d(x, array, array, pad=1)  # error: pads are a sequence
    b.conv2d(x, array, array, local_bound="no")  # error: a flag
    b.rescale(x, 1, 1, per_channel=3)  # error: a flag
    b.clamp(x, min_val="0", max_val=6)  # error: a bound is a number
    b.concat(x, axis=0)  # error: a list of operands
    b.reshape(x, 8)  # error: sizes are a sequence
    b.max_pool2d(x, kernel=(2, 2), stride=2.0)  # error: strides are a sequence
    b.cast(x, dtype=8)  # error: an element type is not a number
    b.cast(x, dtype="float")  # error: no such element type
    b.conv2d(x, array, array, acc_type="f23")  # error: no such element type
    b.abs(x, name=3)  # error: a name is a string


def state(b: Builder, x: Value) -> None:
    variable = b.variable("state", "fp32", (1, 8), initial=0)
    reveal_type(variable)  # reveals Variable
    reveal_type(b.read(variable))  # reveals Value
    reveal_type(b.write(variable, x))  # reveals None
    b.read("state")  # error: a variable, not its name
    b.write(x, x)  # error: a variable comes first


def regions(b: Builder, x: Value, v: Variable) -> None:
    def same(b: Builder, x: Value) -> Value:
        return b.abs(x)

    def wrong(b: Builder, x: Value) -> int:
        return 3

    reveal_type(b.cond_if(x, [x], same, same))  # reveals tuple[Value, ...]
    reveal_type(b.while_loop([x], same, same))  # reveals tuple[Value, ...]
    b.cond_if(True, [x], same, same)
    b.cond_if(x, [x], same)  # error: there must be two regions
    b.cond_if(x, [x], same, wrong)  # error: a region returns values
    b.while_loop(x, same, same)  # error: a sequence of values
    b.custom([x], [("fp32", (1,))], operator_name="n", domain_name="d")
    b.custom([x], [("fp32", (1,))], operator_name="n")  # error: there must be a domain


def by_row(b: Builder, x: Value, spec: Any) -> None:
    reveal_type(b.apply(spec, [x], {"axis": 1}))  # reveals tuple[Value, ...]
    b.apply("ABS", [x], {})  # error: a row, not a name
