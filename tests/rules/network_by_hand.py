"""`networks.residual_block` made of operators and tensors, to compare what is written for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from rules.networks import BIASES, CHANNELS, KERNELS

from tosa_convert.graph import Block, Graph, Operator, Region, Tensor, dtype, operator
from tosa_convert.graph.constant import constant_of
from tosa_convert.graph.dtypes import DType, RoundingMode
from tosa_convert.graph.opset import AttributeValue
from tosa_convert.graph.versions import V1_0


def residual_block_by_hand() -> Graph:
    """Return the same program as `networks.residual_block`."""
    int8, int32 = dtype("INT8"), dtype("INT32")
    image = (1, 6, 6, CHANNELS)
    block = Block("main", ["x"], ["y"], tensors={"x": Tensor("x", int8, image)})
    conv: dict[str, AttributeValue] = {"pad": (1, 1, 1, 1), "stride": (1, 1), "dilation": (1, 1)}
    conv |= {"local_bound": False, "acc_type": int32}
    rescale: dict[str, AttributeValue] = {"scale32": True}
    rescale |= {"rounding_mode": RoundingMode.SINGLE_ROUND, "per_channel": False}
    rescale |= {"input_unsigned": False, "output_unsigned": False}

    def const(name: str, data: Any, kind: DType) -> None:
        array = np.asarray(data)
        block.tensors[name] = Tensor(name, kind, array.shape, constant_of(array, kind))
        block.operators.append(Operator(operator("CONST"), (), (name,)))

    def op(spec: str, inputs: str, name: str, kind: DType, **attributes: AttributeValue) -> None:
        block.tensors[name] = Tensor(name, kind, image)
        operands = tuple(inputs.split())
        block.operators.append(Operator(operator(spec), operands, (name,), attributes))

    const("const", KERNELS[0], int8)
    const("const_1", BIASES[0], int32)
    const("const_2", [-5], int8)
    const("zero", [0], int8)
    op("CONV2D", "x const const_1 const_2 zero", "conv2d", int32, **conv)
    const("const_3", [1 << 30], int32)
    const("const_4", [40], int8)
    const("zero_1", [0], int32)
    const("const_5", [-5], int8)
    op("RESCALE", "conv2d const_3 const_4 zero_1 const_5", "rescale", int8, **rescale)
    const("const_6", KERNELS[1], int8)
    const("const_7", BIASES[1], int32)
    const("const_8", [-5], int8)
    op("CONV2D", "rescale const_6 const_7 const_8 zero", "conv2d_1", int32, **conv)
    const("const_9", [1 << 30], int32)
    const("const_10", [40], int8)
    const("const_11", [-5], int8)
    op("RESCALE", "conv2d_1 const_9 const_10 zero_1 const_11", "rescale_1", int8, **rescale)
    const("const_12", [1 << 30], int32)
    const("const_13", [20], int8)
    const("const_14", [-5], int8)
    op("RESCALE", "x const_12 const_13 const_14 zero_1", "rescale_2", int32, **rescale)
    const("const_15", [1 << 30], int32)
    const("const_16", [20], int8)
    const("const_17", [-5], int8)
    op("RESCALE", "rescale_1 const_15 const_16 const_17 zero_1", "rescale_3", int32, **rescale)
    op("ADD", "rescale_2 rescale_3", "add", int32)
    const("const_18", [1 << 30], int32)
    const("const_19", [41], int8)
    const("const_20", [3], int8)
    op("RESCALE", "add const_18 const_19 zero_1 const_20", "y", int8, **rescale)
    return Graph(V1_0, [Region("main", [block])])
