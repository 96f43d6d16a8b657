"""Operators of torch on other types than float32."""

from __future__ import annotations

from functools import partial

import torch
from programs import flags, floats, ints, of
from torch import nn
from torch.nn import functional

make_add_fp16 = partial(
    of, torch.add, floats(2, 3).to(torch.float16), floats(2, 3, seed=1).to(torch.float16)
)
make_mul_fp16 = partial(
    of, torch.mul, floats(2, 3).to(torch.float16), floats(2, 3, seed=1).to(torch.float16)
)
make_exp_fp16 = partial(of, torch.exp, floats(2, 3).to(torch.float16))
make_relu_fp16 = partial(of, functional.relu, floats(2, 3).to(torch.float16))
make_matmul_fp16 = partial(
    of, torch.matmul, floats(2, 3).to(torch.float16), floats(3, 4, seed=1).to(torch.float16)
)
make_softmax_fp16 = partial(of, lambda x: functional.softmax(x, -1), floats(2, 3).to(torch.float16))
make_layer_norm_fp16 = partial(
    of, nn.LayerNorm(4, dtype=torch.float16), floats(2, 4).to(torch.float16)
)
make_conv2d_fp16 = partial(
    of, nn.Conv2d(3, 4, 3, dtype=torch.float16), floats(1, 3, 6, 6).to(torch.float16)
)
make_sum_fp16 = partial(of, lambda x: x.sum(1), floats(2, 3).to(torch.float16))
make_max_pool2d_fp16 = partial(of, nn.MaxPool2d(2), floats(1, 2, 4, 4).to(torch.float16))
make_to_float_fp16 = partial(of, lambda x: x.float() * 2, floats(2, 3).to(torch.float16))
make_from_float_fp16 = partial(of, lambda x: x.to(torch.float16), floats(2, 3))
make_add_bf16 = partial(
    of, torch.add, floats(2, 3).to(torch.bfloat16), floats(2, 3, seed=1).to(torch.bfloat16)
)
make_mul_bf16 = partial(
    of, torch.mul, floats(2, 3).to(torch.bfloat16), floats(2, 3, seed=1).to(torch.bfloat16)
)
make_exp_bf16 = partial(of, torch.exp, floats(2, 3).to(torch.bfloat16))
make_relu_bf16 = partial(of, functional.relu, floats(2, 3).to(torch.bfloat16))
make_matmul_bf16 = partial(
    of, torch.matmul, floats(2, 3).to(torch.bfloat16), floats(3, 4, seed=1).to(torch.bfloat16)
)
make_softmax_bf16 = partial(
    of, lambda x: functional.softmax(x, -1), floats(2, 3).to(torch.bfloat16)
)
make_layer_norm_bf16 = partial(
    of, nn.LayerNorm(4, dtype=torch.bfloat16), floats(2, 4).to(torch.bfloat16)
)
make_conv2d_bf16 = partial(
    of, nn.Conv2d(3, 4, 3, dtype=torch.bfloat16), floats(1, 3, 6, 6).to(torch.bfloat16)
)
make_sum_bf16 = partial(of, lambda x: x.sum(1), floats(2, 3).to(torch.bfloat16))
make_max_pool2d_bf16 = partial(of, nn.MaxPool2d(2), floats(1, 2, 4, 4).to(torch.bfloat16))
make_to_float_bf16 = partial(of, lambda x: x.float() * 2, floats(2, 3).to(torch.bfloat16))
make_from_float_bf16 = partial(of, lambda x: x.to(torch.bfloat16), floats(2, 3))
make_add_int8 = partial(of, torch.add, ints(2, 3).to(torch.int8), ints(2, 3, seed=1).to(torch.int8))
make_sub_int8 = partial(of, torch.sub, ints(2, 3).to(torch.int8), ints(2, 3, seed=1).to(torch.int8))
make_mul_int8 = partial(of, torch.mul, ints(2, 3).to(torch.int8), ints(2, 3, seed=1).to(torch.int8))
make_maximum_int8 = partial(
    of, torch.maximum, ints(2, 3).to(torch.int8), ints(2, 3, seed=1).to(torch.int8)
)
make_minimum_int8 = partial(
    of, torch.minimum, ints(2, 3).to(torch.int8), ints(2, 3, seed=1).to(torch.int8)
)
make_bitwise_and_int8 = partial(
    of, torch.bitwise_and, ints(2, 3).to(torch.int8), ints(2, 3, seed=1).to(torch.int8)
)
make_bitwise_or_int8 = partial(
    of, torch.bitwise_or, ints(2, 3).to(torch.int8), ints(2, 3, seed=1).to(torch.int8)
)
make_bitwise_xor_int8 = partial(
    of, torch.bitwise_xor, ints(2, 3).to(torch.int8), ints(2, 3, seed=1).to(torch.int8)
)
make_sum_int8 = partial(of, lambda x: x.sum(1), ints(2, 3).to(torch.int8))
make_less_int8 = partial(of, torch.lt, ints(2, 3).to(torch.int8), ints(2, 3, seed=1).to(torch.int8))
make_to_float_int8 = partial(of, lambda x: x.float(), ints(2, 3).to(torch.int8))
make_from_float_int8 = partial(of, lambda x: x.abs().mul(9).to(torch.int8), floats(2, 3))
make_amax_int8 = partial(of, lambda x: x.amax(1), ints(2, 3).to(torch.int8))
make_add_int16 = partial(
    of, torch.add, ints(2, 3).to(torch.int16), ints(2, 3, seed=1).to(torch.int16)
)
make_sub_int16 = partial(
    of, torch.sub, ints(2, 3).to(torch.int16), ints(2, 3, seed=1).to(torch.int16)
)
make_mul_int16 = partial(
    of, torch.mul, ints(2, 3).to(torch.int16), ints(2, 3, seed=1).to(torch.int16)
)
make_maximum_int16 = partial(
    of, torch.maximum, ints(2, 3).to(torch.int16), ints(2, 3, seed=1).to(torch.int16)
)
make_minimum_int16 = partial(
    of, torch.minimum, ints(2, 3).to(torch.int16), ints(2, 3, seed=1).to(torch.int16)
)
make_bitwise_and_int16 = partial(
    of, torch.bitwise_and, ints(2, 3).to(torch.int16), ints(2, 3, seed=1).to(torch.int16)
)
make_bitwise_or_int16 = partial(
    of, torch.bitwise_or, ints(2, 3).to(torch.int16), ints(2, 3, seed=1).to(torch.int16)
)
make_bitwise_xor_int16 = partial(
    of, torch.bitwise_xor, ints(2, 3).to(torch.int16), ints(2, 3, seed=1).to(torch.int16)
)
make_sum_int16 = partial(of, lambda x: x.sum(1), ints(2, 3).to(torch.int16))
make_less_int16 = partial(
    of, torch.lt, ints(2, 3).to(torch.int16), ints(2, 3, seed=1).to(torch.int16)
)
make_to_float_int16 = partial(of, lambda x: x.float(), ints(2, 3).to(torch.int16))
make_from_float_int16 = partial(of, lambda x: x.abs().mul(9).to(torch.int16), floats(2, 3))
make_amax_int16 = partial(of, lambda x: x.amax(1), ints(2, 3).to(torch.int16))
make_add_int32 = partial(
    of, torch.add, ints(2, 3).to(torch.int32), ints(2, 3, seed=1).to(torch.int32)
)
make_sub_int32 = partial(
    of, torch.sub, ints(2, 3).to(torch.int32), ints(2, 3, seed=1).to(torch.int32)
)
make_mul_int32 = partial(
    of, torch.mul, ints(2, 3).to(torch.int32), ints(2, 3, seed=1).to(torch.int32)
)
make_maximum_int32 = partial(
    of, torch.maximum, ints(2, 3).to(torch.int32), ints(2, 3, seed=1).to(torch.int32)
)
make_minimum_int32 = partial(
    of, torch.minimum, ints(2, 3).to(torch.int32), ints(2, 3, seed=1).to(torch.int32)
)
make_bitwise_and_int32 = partial(
    of, torch.bitwise_and, ints(2, 3).to(torch.int32), ints(2, 3, seed=1).to(torch.int32)
)
make_bitwise_or_int32 = partial(
    of, torch.bitwise_or, ints(2, 3).to(torch.int32), ints(2, 3, seed=1).to(torch.int32)
)
make_bitwise_xor_int32 = partial(
    of, torch.bitwise_xor, ints(2, 3).to(torch.int32), ints(2, 3, seed=1).to(torch.int32)
)
make_sum_int32 = partial(of, lambda x: x.sum(1), ints(2, 3).to(torch.int32))
make_less_int32 = partial(
    of, torch.lt, ints(2, 3).to(torch.int32), ints(2, 3, seed=1).to(torch.int32)
)
make_to_float_int32 = partial(of, lambda x: x.float(), ints(2, 3).to(torch.int32))
make_from_float_int32 = partial(of, lambda x: x.abs().mul(9).to(torch.int32), floats(2, 3))
make_amax_int32 = partial(of, lambda x: x.amax(1), ints(2, 3).to(torch.int32))
make_add_uint8 = partial(
    of, torch.add, ints(2, 3).to(torch.uint8), ints(2, 3, seed=1).to(torch.uint8)
)
make_sub_uint8 = partial(
    of, torch.sub, ints(2, 3).to(torch.uint8), ints(2, 3, seed=1).to(torch.uint8)
)
make_mul_uint8 = partial(
    of, torch.mul, ints(2, 3).to(torch.uint8), ints(2, 3, seed=1).to(torch.uint8)
)
make_maximum_uint8 = partial(
    of, torch.maximum, ints(2, 3).to(torch.uint8), ints(2, 3, seed=1).to(torch.uint8)
)
make_minimum_uint8 = partial(
    of, torch.minimum, ints(2, 3).to(torch.uint8), ints(2, 3, seed=1).to(torch.uint8)
)
make_bitwise_and_uint8 = partial(
    of, torch.bitwise_and, ints(2, 3).to(torch.uint8), ints(2, 3, seed=1).to(torch.uint8)
)
make_bitwise_or_uint8 = partial(
    of, torch.bitwise_or, ints(2, 3).to(torch.uint8), ints(2, 3, seed=1).to(torch.uint8)
)
make_bitwise_xor_uint8 = partial(
    of, torch.bitwise_xor, ints(2, 3).to(torch.uint8), ints(2, 3, seed=1).to(torch.uint8)
)
make_sum_uint8 = partial(of, lambda x: x.sum(1), ints(2, 3).to(torch.uint8))
make_less_uint8 = partial(
    of, torch.lt, ints(2, 3).to(torch.uint8), ints(2, 3, seed=1).to(torch.uint8)
)
make_to_float_uint8 = partial(of, lambda x: x.float(), ints(2, 3).to(torch.uint8))
make_from_float_uint8 = partial(of, lambda x: x.abs().mul(9).to(torch.uint8), floats(2, 3))
make_amax_uint8 = partial(of, lambda x: x.amax(1), ints(2, 3).to(torch.uint8))
make_floor_divide_int32 = partial(
    of, torch.floor_divide, ints(2, 3).int(), ints(2, 3, seed=1).int().abs() + 1
)
make_div_trunc_int32 = partial(
    of,
    lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    ints(2, 3).int(),
    ints(2, 3, seed=1).int().abs() + 1,
)
make_div_int32 = partial(of, torch.div, ints(2, 3).int(), ints(2, 3, seed=1).int().abs() + 1)
make_remainder_int32 = partial(
    of, torch.remainder, ints(2, 3).int(), ints(2, 3, seed=1).int().abs() + 1
)
make_fmod_int32 = partial(of, torch.fmod, ints(2, 3).int(), ints(2, 3, seed=1).int().abs() + 1)
make_abs_int32 = partial(of, torch.abs, ints(2, 3).int())
make_neg_int32 = partial(of, torch.neg, ints(2, 3).int())
make_sign_int32 = partial(of, torch.sign, ints(2, 3).int())
make_clamp_int32 = partial(of, lambda x: x.clamp(-2, 5), ints(2, 3).int())
make_bitwise_not_int32 = partial(of, torch.bitwise_not, ints(2, 3).int())
make_shift_left_int32 = partial(of, lambda x: x << 2, ints(2, 3).int())
make_shift_right_int32 = partial(of, lambda x: x >> 1, ints(2, 3).int())
make_pow_int32 = partial(of, lambda x: x**2, ints(2, 3).int())
make_mean_of_ints = partial(of, lambda x: x.float().mean(1), ints(2, 3))
make_matmul_int32 = partial(of, torch.matmul, ints(2, 3).int(), ints(3, 4, seed=1).int())
make_cumsum_int64 = partial(of, lambda x: x.cumsum(1), ints(2, 3))
make_add_int64 = partial(of, torch.add, ints(2, 3), ints(2, 3, seed=1))
make_argmax_int32 = partial(of, lambda x: x.argmax(1), ints(2, 3).int())
make_where_bool = partial(
    of, lambda m, a, b: torch.where(m, a, b), flags(2, 3), flags(2, 3, seed=1), flags(2, 3, seed=2)
)
make_add_bool = partial(of, lambda a, b: a + b, flags(2, 3), flags(2, 3, seed=1))
make_mul_bool = partial(of, lambda a, b: a * b, flags(2, 3), flags(2, 3, seed=1))
make_sum_bool = partial(of, lambda a: a.sum(1), flags(2, 3))
make_bool_to_float = partial(of, lambda a: a.float(), flags(2, 3))
make_float_to_bool = partial(of, lambda x: x.bool(), floats(2, 3))
make_cat_bool = partial(of, lambda a, b: torch.cat([a, b]), flags(2, 3), flags(1, 3, seed=1))
make_gather_bool = partial(
    of, lambda a, i: a.gather(1, i), flags(2, 4), torch.tensor([[3, 0], [1, 1]])
)
