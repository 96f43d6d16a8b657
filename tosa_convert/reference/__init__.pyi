"""Functions of arrays; schema/generate_stubs.py writes this file."""

from collections.abc import Sequence
from typing import Literal, overload

from tosa_convert.builder.values import Data, DTypeLike
from tosa_convert.golden.arrays import Array
from tosa_convert.golden.running.operator_functions import GraphStatus as GraphStatus
from tosa_convert.golden.running.operator_functions import run as run
from tosa_convert.graph.dtypes import BlockSize, NanPropagationMode, ResizeMode, RoundingMode
from tosa_convert.reference.block_scaled import Scaled as Scaled

def argmax(
    input: Data,
    *,
    axis: int,
    nan_mode: NanPropagationMode | str = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the index of the greatest element, the first of several. NaN is greater than every
    number; if nan_mode is IGNORE it is passed over, and the index is 0 where there is nothing
    else.

    Types:
        input T -> output U
          PRO-INT: T INT8; U INT32
          PRO-INT: T INT8, INT16, INT32 or INT64; U INT64
          PRO-INT, EXT-INT16: T INT16; U INT32
          PRO-FP: T FP32, FP16, BF16, FP8E4M3 or FP8E5M2; U INT32 or INT64

    Rules:
        - input has rank at least 1
        - axis is a dimension of input
    """

def avg_pool2d(
    input: Data,
    input_zp: Data | None = ...,
    output_zp: Data | None = ...,
    *,
    kernel: Sequence[int],
    stride: Sequence[int] = ...,
    pad: Sequence[int] = ...,
    acc_type: DTypeLike | None = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the mean of each window, without the elements outside the image.

    Integers: the sum of (input - input_zp) times a reciprocal of the count, as a multiplier of
    31 bits and a shift, rounded half up; then output_zp is added, and the result saturates.

    Types:
        input T, input_zp T, output_zp T, acc_type A -> output T
          PRO-INT: T INT8; A INT32
          PRO-INT, EXT-INT16: T INT16; A INT32
          PRO-FP: T FP16; A FP16 or FP32
          PRO-FP: T FP32 or BF16; A FP32
          PRO-FP: T FP8E4M3 or FP8E5M2; A FP16

    Rules:
        - input has rank 4
        - the values of kernel are at least 1
        - the values of stride are at least 1
        - the values of pad are at least 0
        - no position of the kernel has padding only, and the last ends with the input
        - input_zp has the shape [1], and is 0 unless it is of INT8
        - output_zp has the shape [1], and is 0 unless it is of INT8
        - output is [batch, height, width, channels]
    """

def conv2d(
    input: Data | Scaled,
    weight: Data | Scaled,
    bias: Data,
    input_zp: Data | None = ...,
    weight_zp: Data | None = ...,
    *,
    pad: Sequence[int] = ...,
    stride: Sequence[int] = ...,
    dilation: Sequence[int] = ...,
    local_bound: bool = ...,
    acc_type: DTypeLike | None = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the sums over window and channels of (input - input_zp) * (weight - weight_zp), plus
    bias.

    CONV2D and CONV3D. The sums of integers are exact; those of floating point are those of BLAS
    in FP32, which adds in an order of its own, as the specification allows.

    Types:
        input T, weight U, bias B, input_zp T, weight_zp U, acc_type A -> output B
          PRO-INT: T INT8; U INT8 or INT4; B INT32; A INT32
          PRO-INT: T INT16; U INT8; B INT48; A INT48
          PRO-FP: T FP16; U FP16; B FP16; A FP16 or FP32
          PRO-FP: T FP32; U FP32; B FP32; A FP32
          PRO-FP: T BF16; U BF16; B BF16; A FP32
          PRO-FP: T FP8E4M3; U FP8E4M3; B FP16; A FP16
          PRO-FP: T FP8E5M2; U FP8E5M2; B FP16; A FP16
          PRO-FP, TOSA 1.1: T FP32, FP16, BF16, FP8E4M3 or FP8E5M2; U FP32, FP16, BF16, FP8E4M3 or
            FP8E5M2; B FP32; A FP32
          PRO-FP, TOSA 1.1: T FP16, FP8E4M3 or FP8E5M2; U FP16, FP8E4M3 or FP8E5M2; B FP16; A FP16
            or FP32
          PRO-FP, TOSA 1.1: T BF16, FP8E4M3 or FP8E5M2; U BF16, FP8E4M3 or FP8E5M2; B BF16; A BF16
            or FP32
          PRO-FP, EXT-MXFP-CONV: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled; U
            block-scaled; B FP32; A FP32
          PRO-FP, EXT-MXFP-CONV: T block-scaled; U FP32, FP16, BF16, FP8E4M3 or FP8E5M2; B FP32; A
            FP32
          PRO-FP, EXT-MXFP-CONV: T FP16, FP8E4M3, FP8E5M2 or block-scaled; U block-scaled; B FP16; A
            FP16 or FP32
          PRO-FP, EXT-MXFP-CONV: T block-scaled; U FP16, FP8E4M3 or FP8E5M2; B FP16; A FP16 or FP32
          PRO-FP, EXT-MXFP-CONV: T BF16, FP8E4M3, FP8E5M2 or block-scaled; U block-scaled; B BF16; A
            BF16 or FP32
          PRO-FP, EXT-MXFP-CONV: T block-scaled; U BF16, FP8E4M3 or FP8E5M2; B BF16; A BF16 or FP32

    Rules:
        - input has rank 4
        - weight has rank 4
        - bias has rank 1
        - the weight is for as many channels as the input has
        - the bias has one element, or one for each output channel
        - the values of pad are at least 0
        - the values of stride are at least 1
        - the values of dilation are at least 1
        - the kernel fits, and its positions end where the padded input ends
        - input_zp has the shape [1], and is 0 unless it is of INT8
        - weight_zp has the shape [1], and is 0 unless it is of INT8
        - sizes of one letter are equal: output [N, P, Q, O], weight [O, K, L, C], input [N, _, _,
          C]
    """

def conv3d(
    input: Data | Scaled,
    weight: Data | Scaled,
    bias: Data,
    input_zp: Data | None = ...,
    weight_zp: Data | None = ...,
    *,
    pad: Sequence[int] = ...,
    stride: Sequence[int] = ...,
    dilation: Sequence[int] = ...,
    local_bound: bool = ...,
    acc_type: DTypeLike | None = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the sums over window and channels of (input - input_zp) * (weight - weight_zp), plus
    bias.

    CONV2D and CONV3D. The sums of integers are exact; those of floating point are those of BLAS
    in FP32, which adds in an order of its own, as the specification allows.

    Types:
        input T, weight U, bias B, input_zp T, weight_zp U, acc_type A -> output B
          PRO-INT: T INT8; U INT8 or INT4; B INT32; A INT32
          PRO-INT: T INT16; U INT8; B INT48; A INT48
          PRO-FP: T FP16; U FP16; B FP16; A FP16 or FP32
          PRO-FP: T FP32; U FP32; B FP32; A FP32
          PRO-FP: T BF16; U BF16; B BF16; A FP32
          PRO-FP: T FP8E4M3; U FP8E4M3; B FP16; A FP16
          PRO-FP: T FP8E5M2; U FP8E5M2; B FP16; A FP16
          PRO-FP, TOSA 1.1: T FP32, FP16, BF16, FP8E4M3 or FP8E5M2; U FP32, FP16, BF16, FP8E4M3 or
            FP8E5M2; B FP32; A FP32
          PRO-FP, TOSA 1.1: T FP16, FP8E4M3 or FP8E5M2; U FP16, FP8E4M3 or FP8E5M2; B FP16; A FP16
            or FP32
          PRO-FP, TOSA 1.1: T BF16, FP8E4M3 or FP8E5M2; U BF16, FP8E4M3 or FP8E5M2; B BF16; A BF16
            or FP32
          PRO-FP, EXT-MXFP-CONV: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled; U
            block-scaled; B FP32; A FP32
          PRO-FP, EXT-MXFP-CONV: T block-scaled; U FP32, FP16, BF16, FP8E4M3 or FP8E5M2; B FP32; A
            FP32
          PRO-FP, EXT-MXFP-CONV: T FP16, FP8E4M3, FP8E5M2 or block-scaled; U block-scaled; B FP16; A
            FP16 or FP32
          PRO-FP, EXT-MXFP-CONV: T block-scaled; U FP16, FP8E4M3 or FP8E5M2; B FP16; A FP16 or FP32
          PRO-FP, EXT-MXFP-CONV: T BF16, FP8E4M3, FP8E5M2 or block-scaled; U block-scaled; B BF16; A
            BF16 or FP32
          PRO-FP, EXT-MXFP-CONV: T block-scaled; U BF16, FP8E4M3 or FP8E5M2; B BF16; A BF16 or FP32

    Rules:
        - input has rank 5
        - weight has rank 5
        - bias has rank 1
        - the weight is for as many channels as the input has
        - the bias has one element, or one for each output channel
        - the values of pad are at least 0
        - the values of stride are at least 1
        - the values of dilation are at least 1
        - the kernel fits, and its positions end where the padded input ends
        - input_zp has the shape [1], and is 0 unless it is of INT8
        - weight_zp has the shape [1], and is 0 unless it is of INT8
        - sizes of one letter are equal: output [N, P, Q, R, O], weight [O, K, L, M, C], input [N,
          _, _, _, C]
    """

def depthwise_conv2d(
    input: Data,
    weight: Data,
    bias: Data,
    input_zp: Data | None = ...,
    weight_zp: Data | None = ...,
    *,
    pad: Sequence[int] = ...,
    stride: Sequence[int] = ...,
    dilation: Sequence[int] = ...,
    local_bound: bool = ...,
    acc_type: DTypeLike | None = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the sums over the window alone, for each channel and multiplier, as CONV2D.

    Types:
        input T, weight U, bias B, input_zp T, weight_zp U, acc_type A -> output B
          PRO-INT: T INT8; U INT8 or INT4; B INT32; A INT32
          PRO-INT: T INT16; U INT8; B INT48; A INT48
          PRO-FP: T FP16; U FP16; B FP16; A FP16 or FP32
          PRO-FP: T FP32; U FP32; B FP32; A FP32
          PRO-FP: T BF16; U BF16; B BF16; A FP32
          PRO-FP: T FP8E4M3; U FP8E4M3; B FP16; A FP16
          PRO-FP: T FP8E5M2; U FP8E5M2; B FP16; A FP16
          PRO-FP, TOSA 1.1: T FP8E4M3; U FP8E4M3; B FP32; A FP32
          PRO-FP, TOSA 1.1: T FP8E5M2; U FP8E5M2; B FP32; A FP32

    Rules:
        - input has rank 4
        - weight has rank 4
        - bias has rank 1
        - the weight is for as many channels as the input has
        - the bias has one element, or one for each output channel
        - the values of pad are at least 0
        - the values of stride are at least 1
        - the values of dilation are at least 1
        - the kernel fits, and its positions end where the padded input ends
        - input_zp has the shape [1], and is 0 unless it is of INT8
        - weight_zp has the shape [1], and is 0 unless it is of INT8
        - sizes of one letter are equal: output [N, P, Q, CM], weight [K, L, C, M], input [N, _, _,
          C]
    """

def fft2d(
    input_real: Data,
    input_imag: Data,
    *,
    inverse: bool = ...,
    local_bound: bool = ...,
    out_type: DTypeLike | Sequence[DTypeLike] | None = ...,
) -> tuple[Array, Array]:
    """Return the discrete Fourier transform of each image, not normalised; `inverse` changes the
    sign.

    Computed in FP64 and rounded once.

    Types:
        input_real FP32, input_imag FP32 -> output_real FP32, output_imag FP32
          PRO-FP, EXT-FFT

    Rules:
        - input_real has rank 3
        - input_imag has rank 3
        - height and width are powers of two
        - the real and the imaginary part have one shape
        - output_real is [batch, height, width]
    """

def matmul(
    a: Data,
    b: Data,
    a_zp: Data | None = ...,
    b_zp: Data | None = ...,
    *,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the products of the matrices of each batch, (a - a_zp) @ (b - b_zp); integers are
    exact.

    Batches are broadcast.

    Types:
        a T, b U, a_zp T, b_zp U -> output A
          PRO-INT: T INT8; U INT8; A INT32
          PRO-INT: T INT16; U INT16; A INT48
          PRO-FP: T FP16; U FP16; A FP16 or FP32
          PRO-FP: T FP32; U FP32; A FP32
          PRO-FP: T BF16; U BF16; A FP32
          PRO-FP: T FP8E4M3; U FP8E4M3; A FP16
          PRO-FP: T FP8E5M2; U FP8E5M2; A FP16
          PRO-FP, TOSA 1.1: T FP8E4M3 or FP8E5M2; U FP8E4M3 or FP8E5M2; A FP16 or FP32

    Rules:
        - a has rank at least 2
        - b has rank at least 2
        - batch sizes are equal or 1, aligned on the right
        - rows of one operand are as long as columns of the other
        - a_zp has the shape [1], and is 0 unless it is of INT8
        - b_zp has the shape [1], and is 0 unless it is of INT8
        - sizes of one letter are equal: output [..., I, J], a [..., I, K], b [..., K, J]
    """

def max_pool2d(
    input: Data,
    *,
    kernel: Sequence[int],
    stride: Sequence[int] = ...,
    pad: Sequence[int] = ...,
    nan_mode: NanPropagationMode | str = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the greatest element of each window, without those outside the image.

    Types:
        input T -> output T
          PRO-INT: T INT8
          PRO-INT, EXT-INT16: T INT16
          PRO-FP: T FP32, FP16, BF16, FP8E4M3 or FP8E5M2

    Rules:
        - input has rank 4
        - the values of kernel are at least 1
        - the values of stride are at least 1
        - the values of pad are at least 0
        - no position of the kernel has padding only, and the last ends with the input
        - output is [batch, height, width, channels]
    """

def rfft2d(
    input_real: Data,
    *,
    local_bound: bool = ...,
    out_type: DTypeLike | Sequence[DTypeLike] | None = ...,
) -> tuple[Array, Array]:
    """Return the columns 0 to W / 2 of the discrete Fourier transform of each real image.

    The imaginary part leaves out terms whose sine is 0, so that NaN stays out of it.

    Types:
        input_real FP32 -> output_real FP32, output_imag FP32
          PRO-FP, EXT-FFT

    Rules:
        - input_real has rank 3
        - height and width are powers of two
        - output_real is [batch, height, width]
    """

def transpose_conv2d(
    input: Data | Scaled,
    weight: Data | Scaled,
    bias: Data,
    input_zp: Data | None = ...,
    weight_zp: Data | None = ...,
    *,
    out_pad: Sequence[int] = ...,
    stride: Sequence[int] = ...,
    local_bound: bool = ...,
    acc_type: DTypeLike | None = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the sums of the products of each element of the image with the whole window.

    The product of the element at (y, x) with the weight at (ky, kx) is added at (y * stride +
    ky + out_pad_top, x * stride + kx + out_pad_left).

    Types:
        input T, weight U, bias B, input_zp T, weight_zp U, acc_type A -> output B
          PRO-INT: T INT8; U INT8 or INT4; B INT32; A INT32
          PRO-INT: T INT16; U INT8; B INT48; A INT48
          PRO-FP: T FP16; U FP16; B FP16; A FP16 or FP32
          PRO-FP: T FP32; U FP32; B FP32; A FP32
          PRO-FP: T BF16; U BF16; B BF16; A FP32
          PRO-FP: T FP8E4M3; U FP8E4M3; B FP16; A FP16
          PRO-FP: T FP8E5M2; U FP8E5M2; B FP16; A FP16
          PRO-FP, TOSA 1.1: T FP32, FP16, BF16, FP8E4M3 or FP8E5M2; U FP32, FP16, BF16, FP8E4M3 or
            FP8E5M2; B FP32; A FP32
          PRO-FP, TOSA 1.1: T FP16, FP8E4M3 or FP8E5M2; U FP16, FP8E4M3 or FP8E5M2; B FP16; A FP16
            or FP32
          PRO-FP, TOSA 1.1: T BF16, FP8E4M3 or FP8E5M2; U BF16, FP8E4M3 or FP8E5M2; B BF16; A BF16
            or FP32
          PRO-FP, EXT-MXFP-CONV: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled; U
            block-scaled; B FP32; A FP32
          PRO-FP, EXT-MXFP-CONV: T block-scaled; U FP32, FP16, BF16, FP8E4M3 or FP8E5M2; B FP32; A
            FP32
          PRO-FP, EXT-MXFP-CONV: T FP16, FP8E4M3, FP8E5M2 or block-scaled; U block-scaled; B FP16; A
            FP16 or FP32
          PRO-FP, EXT-MXFP-CONV: T block-scaled; U FP16, FP8E4M3 or FP8E5M2; B FP16; A FP16 or FP32
          PRO-FP, EXT-MXFP-CONV: T BF16, FP8E4M3, FP8E5M2 or block-scaled; U block-scaled; B BF16; A
            BF16 or FP32
          PRO-FP, EXT-MXFP-CONV: T block-scaled; U BF16, FP8E4M3 or FP8E5M2; B BF16; A BF16 or FP32

    Rules:
        - input has rank 4
        - weight has rank 4
        - bias has rank 1
        - the weight is for as many channels as the input has
        - the bias has one element, or one for each output channel
        - the values of stride are at least 1
        - the padding does not cut off a whole kernel, and the result is not empty
        - input_zp has the shape [1], and is 0 unless it is of INT8
        - weight_zp has the shape [1], and is 0 unless it is of INT8
        - sizes of one letter are equal: output [N, _, _, O], weight [O, K, L, C], input [N, H, W,
          C]
    """

def clamp(
    input: Data,
    *,
    min_val: float,
    max_val: float,
    nan_mode: NanPropagationMode | str = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the element within min_val and max_val; NaN stays, or is min_val if nan_mode is
    IGNORE.

    Types:
        input T -> output T
          PRO-INT: T INT8
          PRO-INT, EXT-INT16: T INT16
          PRO-FP: T FP32, FP16 or BF16

    Rules:
        - min_val and max_val are numbers, and in order
    """

def erf(input: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the error function, computed in FP64 and rounded once; of FP32 within 0.75 units in
    the last place.

    Types:
        input T -> output T
          PRO-FP: T FP32, FP16 or BF16
    """

def sigmoid(input: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return 1 / (1 + exp(-x)), computed in FP64 and rounded once; of FP32 within 0.501 units in
    the last place.

    Types:
        input T -> output T
          PRO-FP: T FP32, FP16 or BF16
    """

def tanh(input: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the hyperbolic tangent, computed in FP64 and rounded once; of FP32 within 0.52 units
    in the last place.

    Types:
        input T -> output T
          PRO-FP: T FP32, FP16 or BF16
    """

def add(input1: Data, input2: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return input1 + input2.

    Types:
        input1 T, input2 T -> output T
          PRO-INT or PRO-FP: T INT32 or INT64
          PRO-FP: T FP32, FP16 or BF16

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
    """

def arithmetic_right_shift(
    input1: Data, input2: Data, *, round: bool = ..., out_type: DTypeLike | None = ...
) -> Array:
    """Return input1 >> input2 with its sign; with `round`, the last bit shifted out is added.

    Types:
        input1 T, input2 T -> output T
          PRO-INT: T INT8, INT16 or INT32
          PRO-INT or PRO-FP: T INT64

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
        - no value is shifted by a negative amount, or by as many bits as it has or more
    """

def bitwise_and(input1: Data, input2: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the bits that both have.

    Types:
        input1 T, input2 T -> output T
          PRO-INT: T INT8, INT16 or INT32
          PRO-INT or PRO-FP: T INT64

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
    """

def bitwise_or(input1: Data, input2: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the bits that one or both have.

    Types:
        input1 T, input2 T -> output T
          PRO-INT: T INT8, INT16 or INT32
          PRO-INT or PRO-FP: T INT64

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
    """

def bitwise_xor(input1: Data, input2: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the bits that only one has.

    Types:
        input1 T, input2 T -> output T
          PRO-INT: T INT8, INT16 or INT32
          PRO-INT or PRO-FP: T INT64

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
    """

def intdiv(input1: Data, input2: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the quotient of integers, rounded toward zero. A division by zero is not defined.

    Types:
        input1 T, input2 T -> output T
          PRO-INT or PRO-FP: T INT32 or INT64

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
        - no value is divided by 0
    """

def logical_and(input1: Data, input2: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return whether both are true.

    Types:
        input1 BOOL, input2 BOOL -> output BOOL
          PRO-INT or PRO-FP

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
    """

def logical_left_shift(input1: Data, input2: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the bits of input1 shifted left by input2, with zeros from the right.

    Types:
        input1 T, input2 T -> output T
          PRO-INT or PRO-FP: T INT8, INT16, INT32 or INT64

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
        - no value is shifted by a negative amount, or by as many bits as it has or more
    """

def logical_right_shift(input1: Data, input2: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the bits of input1 shifted right by input2, with zeros from the left.

    Types:
        input1 T, input2 T -> output T
          PRO-INT or PRO-FP: T INT8, INT16, INT32 or INT64

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
        - no value is shifted by a negative amount, or by as many bits as it has or more
    """

def logical_or(input1: Data, input2: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return whether one or both are true.

    Types:
        input1 BOOL, input2 BOOL -> output BOOL
          PRO-INT or PRO-FP

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
    """

def logical_xor(input1: Data, input2: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return whether only one is true.

    Types:
        input1 BOOL, input2 BOOL -> output BOOL
          PRO-INT or PRO-FP

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
    """

def maximum(
    input1: Data,
    input2: Data,
    *,
    nan_mode: NanPropagationMode | str = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the greater element; NaN if one is NaN, or the other one if nan_mode is IGNORE.

    Types:
        input1 T, input2 T -> output T
          PRO-INT: T INT32
          PRO-INT or PRO-FP: T INT64
          PRO-FP: T FP32, FP16 or BF16

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
    """

def minimum(
    input1: Data,
    input2: Data,
    *,
    nan_mode: NanPropagationMode | str = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the lesser element; NaN if one is NaN, or the other one if nan_mode is IGNORE.

    Types:
        input1 T, input2 T -> output T
          PRO-INT: T INT32
          PRO-INT or PRO-FP: T INT64
          PRO-FP: T FP32, FP16 or BF16

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
    """

def mul(
    input1: Data, input2: Data, shift: Data | None = ..., *, out_type: DTypeLike | None = ...
) -> Array:
    """Return input1 * input2.

    The product of INT32 operands has 64 bits and is shifted right by `shift`, of 0 to 63, with
    rounding half up. Products of narrower integers are exact as INT32.

    Types:
        input1 T, input2 T, shift INT8 -> output U
          PRO-INT: T INT8 or INT16; U INT32
          PRO-INT or PRO-FP: T INT32; U INT32
          PRO-INT or PRO-FP: T INT64; U INT64
          PRO-FP: T FP32; U FP32
          PRO-FP: T FP16; U FP16
          PRO-FP: T BF16; U BF16

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
        - shift has the shape [1]
        - shift is 0 to 63, and 0 unless the operands are of INT32
    """

def pow(input1: Data, input2: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return input1 to the power of input2.

    A negative base, 0 to a power of at most 0, infinities and NaN are not defined.

    Types:
        input1 T, input2 T -> output T
          PRO-FP: T FP32, FP16 or BF16

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
    """

def sub(input1: Data, input2: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return input1 - input2.

    Types:
        input1 T, input2 T -> output T
          PRO-INT or PRO-FP: T INT32 or INT64
          PRO-FP: T FP32, FP16 or BF16

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
    """

def table(input1: Data, table: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the entries of a table.

    INT8: entry input + 128. INT16: the upper 9 bits choose an entry and the lower 7 interpolate
    to the next one; the result has 7 bits after the point.

    Types:
        input1 T, table T -> output U
          PRO-INT: T INT8; U INT8
          PRO-INT, EXT-INT16: T INT16; U INT32

    Rules:
        - table has rank 1
        - a table has an entry for each value of INT8, or 513 for INT16
    """

def abs(input1: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the absolute value. That of the least integer is not defined.

    Types:
        input1 T -> output T
          PRO-INT: T INT32
          PRO-INT or PRO-FP: T INT64
          PRO-FP: T FP32, FP16 or BF16
    """

def bitwise_not(input1: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return each bit inverted.

    Types:
        input1 T -> output T
          PRO-INT: T INT8, INT16 or INT32
          PRO-INT or PRO-FP: T INT64
    """

def ceil(input1: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the least integer that is not less.

    Types:
        input1 T -> output T
          PRO-FP: T FP32, FP16 or BF16
    """

def clz(input1: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the number of zero bits before the first one; the bits of the type for 0.

    Types:
        input1 T -> output T
          PRO-INT: T INT32
          PRO-INT or PRO-FP: T INT64
    """

def cos(input1: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the cosine of an angle in radians, within 2 units in the last place.

    Types:
        input1 T -> output T
          PRO-FP: T FP32, FP16 or BF16
    """

def exp(input1: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return e to the power of the operand, computed in FP64 and rounded once; of FP32 within
    0.501 units in the last place.

    Types:
        input1 T -> output T
          PRO-FP: T FP32, FP16 or BF16
    """

def floor(input1: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the greatest integer that is not greater.

    Types:
        input1 T -> output T
          PRO-FP: T FP32, FP16 or BF16
    """

def log(input1: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the natural logarithm, which is NaN for negative operands, computed in FP64 and
    rounded once; of FP32 within 0.82 units in the last place.

    Types:
        input1 T -> output T
          PRO-FP: T FP32, FP16 or BF16
    """

def logical_not(input1: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return whether the operand is false.

    Types:
        input1 BOOL -> output BOOL
          PRO-INT or PRO-FP
    """

def negate(
    input1: Data,
    input1_zp: Data | None = ...,
    output_zp: Data | None = ...,
    *,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return output_zp - (input1 - input1_zp), saturated; floats change the sign.

    The negative of the least INT32 or INT64 is not defined.

    Types:
        input1 T, input1_zp T, output_zp T -> output T
          PRO-INT: T INT8, INT16 or INT32
          PRO-INT or PRO-FP: T INT64
          PRO-FP: T FP32, FP16 or BF16

    Rules:
        - input1_zp has the shape [1], and is 0 unless it is of INT8
        - output_zp has the shape [1], and is 0 unless it is of INT8
    """

def reciprocal(input1: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return 1 / x, correctly rounded.

    Types:
        input1 T -> output T
          PRO-FP: T FP32, FP16 or BF16
    """

def rsqrt(input1: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the reciprocal of the correctly rounded root; NaN for negative operands.

    Types:
        input1 T -> output T
          PRO-FP: T FP32, FP16 or BF16
    """

def sin(input1: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the sine of an angle in radians, within 2 units in the last place.

    Types:
        input1 T -> output T
          PRO-FP: T FP32, FP16 or BF16
    """

def select(input1: Data, input2: Data, input3: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the element of input2 where input1 is true, and of input3 elsewhere.

    Types:
        input1 BOOL, input2 T, input3 T -> output T
          PRO-INT or PRO-FP: T BOOL or INT64
          PRO-INT: T INT8, INT16 or INT32
          PRO-FP: T FP32, FP16 or BF16

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
    """

def equal(input1: Data, input2: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return whether both are equal; NaN equals nothing.

    Types:
        input1 T, input2 T -> output BOOL
          PRO-INT: T INT32
          PRO-INT or PRO-FP: T INT64
          PRO-FP: T FP32, FP16 or BF16

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
    """

def greater(input1: Data, input2: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return whether input1 > input2; false for NaN.

    Types:
        input1 T, input2 T -> output BOOL
          PRO-INT: T INT32
          PRO-INT or PRO-FP: T INT64
          PRO-FP: T FP32, FP16 or BF16

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
    """

def greater_equal(input1: Data, input2: Data, *, out_type: DTypeLike | None = ...) -> Array:
    """Return whether input1 >= input2; false for NaN.

    Types:
        input1 T, input2 T -> output BOOL
          PRO-INT: T INT32
          PRO-INT or PRO-FP: T INT64
          PRO-FP: T FP32, FP16 or BF16

    Rules:
        - the operands that are broadcast have one rank
        - sizes in each dimension are equal or 1
    """

def reduce_all(input: Data, *, axis: int, out_type: DTypeLike | None = ...) -> Array:
    """Return whether all elements along the axis are true.

    Types:
        input BOOL -> output BOOL
          PRO-INT or PRO-FP

    Rules:
        - input has rank at least 1
        - axis is a dimension of input
    """

def reduce_any(input: Data, *, axis: int, out_type: DTypeLike | None = ...) -> Array:
    """Return whether any element along the axis is true.

    Types:
        input BOOL -> output BOOL
          PRO-INT or PRO-FP

    Rules:
        - input has rank at least 1
        - axis is a dimension of input
    """

def reduce_max(
    input: Data,
    *,
    axis: int,
    nan_mode: NanPropagationMode | str = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the greatest element along the axis; NaN if one is NaN, unless nan_mode is IGNORE.

    Types:
        input T -> output T
          PRO-INT: T INT8, INT16 or INT32
          PRO-INT or PRO-FP: T INT64
          PRO-FP: T FP32, FP16 or BF16

    Rules:
        - input has rank at least 1
        - axis is a dimension of input
    """

def reduce_min(
    input: Data,
    *,
    axis: int,
    nan_mode: NanPropagationMode | str = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the least element along the axis; NaN if one is NaN, unless nan_mode is IGNORE.

    Types:
        input T -> output T
          PRO-INT: T INT8, INT16 or INT32
          PRO-INT or PRO-FP: T INT64
          PRO-FP: T FP32, FP16 or BF16

    Rules:
        - input has rank at least 1
        - axis is a dimension of input
    """

def reduce_product(input: Data, *, axis: int, out_type: DTypeLike | None = ...) -> Array:
    """Return the product of the elements along the axis, computed in FP64 and rounded once.

    Types:
        input T -> output T
          PRO-FP: T FP32, FP16 or BF16

    Rules:
        - input has rank at least 1
        - axis is a dimension of input
    """

def reduce_sum(input: Data, *, axis: int, out_type: DTypeLike | None = ...) -> Array:
    """Return the sum of the elements along the axis; floating point in numpy's order, in FP32.

    Integers are added in their order, and all sums on the way have to fit.

    Types:
        input T -> output T
          PRO-INT: T INT32
          PRO-INT or PRO-FP: T INT64
          PRO-FP: T FP32, FP16 or BF16

    Rules:
        - input has rank at least 1
        - axis is a dimension of input
    """

@overload
def concat(input1: Sequence[Scaled], *, axis: int, out_type: DTypeLike | None = ...) -> Scaled: ...  # type: ignore[overload-overlap]
@overload
def concat(
    input1: Sequence[Data | Scaled], *, axis: int, out_type: DTypeLike | None = ...
) -> Array:
    """Return the operands one after another along the axis.

    Types:
        input1 T -> output T
          PRO-INT or PRO-FP: T BOOL or INT64
          PRO-INT: T INT8 or INT32
          PRO-INT, EXT-INT16: T INT16
          PRO-FP: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled

    Rules:
        - there is at least one operand, and all have one rank of at least 1
        - axis is a dimension of input1
        - sizes agree in each dimension but the axis
    """

def pad(
    input1: Data,
    padding: Sequence[int] | Array,
    pad_const: Data | None = ...,
    *,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return input1 inside a border of pad_const, whose widths are those before and after each
    axis.

    Types:
        input1 T, padding shape, pad_const T -> output T
          PRO-INT or PRO-FP: T BOOL or INT64
          PRO-INT: T INT8, INT16 or INT32
          PRO-FP: T FP32, FP16, BF16, FP8E4M3 or FP8E5M2

    Rules:
        - input1 has rank at least 1
        - padding has 2 values for each dimension of input1
        - the values of padding are at least 0
        - pad_const has the shape [1]
    """

@overload
def reshape(  # type: ignore[overload-overlap]
    input1: Scaled, shape: Sequence[int] | Array, *, out_type: DTypeLike | None = ...
) -> Scaled: ...
@overload
def reshape(
    input1: Data | Scaled, shape: Sequence[int] | Array, *, out_type: DTypeLike | None = ...
) -> Array:
    """Return the same elements in row-major order, in the shape of the result.

    Types:
        input1 T, shape shape -> output T
          PRO-INT or PRO-FP: T BOOL or INT64
          PRO-INT: T INT8, INT16 or INT32
          PRO-FP: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled

    Rules:
        - the result has a rank that a tensor can have
        - the sizes are those of a shape
        - the result has as many elements as the input
    """

@overload
def reverse(input1: Scaled, *, axis: int, out_type: DTypeLike | None = ...) -> Scaled: ...  # type: ignore[overload-overlap]
@overload
def reverse(input1: Data | Scaled, *, axis: int, out_type: DTypeLike | None = ...) -> Array:
    """Return the elements in the opposite order along the axis.

    Types:
        input1 T -> output T
          PRO-INT or PRO-FP: T BOOL or INT64
          PRO-INT: T INT8, INT16 or INT32
          PRO-FP: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled

    Rules:
        - input1 has rank at least 1
        - axis is a dimension of input1
    """

@overload
def slice(  # type: ignore[overload-overlap]
    input1: Scaled,
    start: Sequence[int] | Array,
    size: Sequence[int] | Array,
    *,
    out_type: DTypeLike | None = ...,
) -> Scaled: ...
@overload
def slice(
    input1: Data | Scaled,
    start: Sequence[int] | Array,
    size: Sequence[int] | Array,
    *,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the elements from `start` on, as many as `size` says along each axis.

    Types:
        input1 T, start shape, size shape -> output T
          PRO-INT or PRO-FP: T BOOL or INT64
          PRO-INT: T INT8, INT16 or INT32
          PRO-FP: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled

    Rules:
        - input1 has rank at least 1
        - start and size has one value for each dimension of input1
        - the values of start are at least 0
        - the values of size are at least 1
        - a slice ends within the input
        - a slice begins with a block: scales are not divided
    """

@overload
def tile(  # type: ignore[overload-overlap]
    input1: Scaled, multiples: Sequence[int] | Array, *, out_type: DTypeLike | None = ...
) -> Scaled: ...
@overload
def tile(
    input1: Data | Scaled, multiples: Sequence[int] | Array, *, out_type: DTypeLike | None = ...
) -> Array:
    """Return input1 repeated along each axis.

    Types:
        input1 T, multiples shape -> output T
          PRO-INT or PRO-FP: T BOOL or INT64
          PRO-INT: T INT8, INT16 or INT32
          PRO-FP: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled

    Rules:
        - input1 has rank at least 1
        - multiples has one value for each dimension of input1
        - the values of multiples are at least 1
    """

@overload
def transpose(  # type: ignore[overload-overlap]
    input1: Scaled, *, perms: Sequence[int], out_type: DTypeLike | None = ...
) -> Scaled: ...
@overload
def transpose(
    input1: Data | Scaled, *, perms: Sequence[int], out_type: DTypeLike | None = ...
) -> Array:
    """Return input1 with its axes in the order of `perms`.

    Types:
        input1 T -> output T
          PRO-INT or PRO-FP: T BOOL or INT64
          PRO-INT: T INT8, INT16 or INT32
          PRO-FP: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled

    Rules:
        - input1 has rank at least 1
        - perms has an index for each dimension
        - each dimension occurs once in perms
        - the last dimension of a block-scaled tensor, which has its blocks, stays the last
    """

@overload
def gather(  # type: ignore[overload-overlap]
    values: Scaled, indices: Data, row_count: Data | None = ..., *, out_type: DTypeLike | None = ...
) -> Scaled: ...
@overload
def gather(
    values: Data | Scaled,
    indices: Data,
    row_count: Data | None = ...,
    *,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the rows of each batch of `values` that `indices` names, or `row_count` rows from
    each.

    Types:
        values T, indices U -> output T
          PRO-INT: T INT8, INT16 or INT32; U INT32
          PRO-FP, TOSA 1.1: T INT8, INT16 or INT32; U INT32
          PRO-INT or PRO-FP, TOSA 1.1: T BOOL or INT64; U INT32 or INT64
          PRO-INT or PRO-FP, TOSA 1.1: T INT8, INT16 or INT32; U INT64
          PRO-FP: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled; U INT32 or INT64
        values T, indices U, row_count INT32 -> output T
          PRO-INT or PRO-FP, TOSA 1.1: T BOOL, INT8, INT16, INT32 or INT64; U INT32 or INT64
          PRO-FP, TOSA 1.1: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled; U INT32 or INT64

    Rules:
        - values has rank 3
        - indices has rank 2
        - sizes of the same name agree: values [N, K, C], indices [N, W]
        - row_count has the shape [1]
        - row_count is at least 1, and not more than the rows of values
        - every index is that of a row
        - output is [batch, indices, channels]
    """

@overload
def scatter(  # type: ignore[overload-overlap]
    values_in: Scaled, indices: Data, input: Scaled, *, out_type: DTypeLike | None = ...
) -> Scaled: ...
@overload
def scatter(
    values_in: Data | Scaled,
    indices: Data,
    input: Data | Scaled,
    *,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return `values_in` with the rows of `input` at the places that `indices` names.

    Types:
        values_in T, indices U, input T -> values_out T
          PRO-INT: T INT8, INT16 or INT32; U INT32
          PRO-FP, TOSA 1.1: T INT8, INT16 or INT32; U INT32
          PRO-INT or PRO-FP, TOSA 1.1: T BOOL or INT64; U INT32 or INT64
          PRO-INT or PRO-FP, TOSA 1.1: T INT8, INT16 or INT32; U INT64
          PRO-FP: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled; U INT32 or INT64

    Rules:
        - values_in has rank 3
        - indices has rank 2
        - input has rank 3
        - sizes of the same name agree: values_in [N, K, C], indices [N, W], input [N, W, C]
        - there is a row for each index, since an index occurs at most once
        - every index is that of a row
        - an index occurs at most once in a batch: each row is written once
        - values_out is [batch, rows, channels]
    """

@overload
def resize(  # type: ignore[overload-overlap]
    input: Scaled,
    scale: Sequence[int] | Array,
    offset: Sequence[int] | Array,
    border: Sequence[int] | Array,
    *,
    mode: ResizeMode | str,
    out_type: DTypeLike | None = ...,
) -> Scaled: ...
@overload
def resize(
    input: Data | Scaled,
    scale: Sequence[int] | Array,
    offset: Sequence[int] | Array,
    border: Sequence[int] | Array,
    *,
    mode: ResizeMode | str,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the image at another resolution.

    The element (y, x) of the result is at (y * scale_d + offset) / scale_n of the image, whose
    edges continue. NEAREST takes the nearest element, the later one of two at the same
    distance. BILINEAR weighs the four around it; the weights of integers are multiples of 1 /
    scale_n, and the sum is not divided again.

    Types:
        input T, scale shape, offset shape, border shape, mode NEAREST -> output T
          PRO-INT: T INT8
          PRO-INT, EXT-INT16: T INT16
          PRO-FP: T FP32, FP16 or BF16
          PRO-FP, TOSA 1.1: T FP8E4M3, FP8E5M2 or block-scaled
        input T, scale shape, offset shape, border shape, mode BILINEAR -> output U
          PRO-INT: T INT8; U INT32
          PRO-INT, EXT-INT16: T INT16; U INT48
          PRO-FP: T FP32; U FP32
          PRO-FP: T FP16; U FP16
          PRO-FP: T BF16; U BF16
          PRO-FP, TOSA 1.1: T FP8E4M3; U FP8E4M3
          PRO-FP, TOSA 1.1: T FP8E5M2; U FP8E5M2

    Rules:
        - input has rank 4
        - scale has 4 values
        - offset has 2 values
        - border has 2 values
        - scale, offset, border and the sizes that follow are in their ranges
        - block-scaled tensors are not interpolated: mode is NEAREST
        - output is [batch, height, width, channels]
    """

@overload
def cast(
    input: Data | Scaled, *, out_type: DTypeLike | None = ..., scaled: Literal[True]
) -> Scaled: ...
@overload
def cast(
    input: Data | Scaled, *, out_type: DTypeLike | None = ..., scaled: Literal[False] = ...
) -> Array:
    """Return the values in another element type.

    Floating point becomes the nearest integer, ties to even, and saturates; NaN becomes 0.
    Integers that do not fit lose their upper bits. Numbers become BOOL by comparison with 0.

    Types:
        input T -> output U
          PRO-INT: T BOOL; U INT8, INT16, INT32 or INT64
          PRO-INT: T INT8; U BOOL, INT16 or INT32
          PRO-INT: T INT16; U BOOL, INT8 or INT32
          PRO-INT: T INT32; U BOOL, INT8, INT16 or INT64
          PRO-INT: T INT64; U BOOL or INT32
          PRO-FP: T INT8, INT16 or INT32; U FP32, FP16 or BF16
          PRO-FP: T FP32, FP16 or BF16; U INT8, INT16 or INT32
          PRO-FP: T FP16; U FP32, FP8E4M3 or FP8E5M2
          PRO-FP: T FP32; U FP16, BF16, FP8E4M3 or FP8E5M2
          PRO-FP: T BF16; U FP32, FP8E4M3 or FP8E5M2
          PRO-FP: T FP8E4M3 or FP8E5M2; U FP32, FP16 or BF16
          PRO-FP, TOSA 1.1: T BOOL; U FP32
          PRO-FP, TOSA 1.1: T FP32; U BOOL
          PRO-FP, TOSA 1.1: T FP32, FP16, BF16, FP8E4M3 or FP8E5M2; U block-scaled
          PRO-FP, TOSA 1.1: T block-scaled; U FP32, FP16, BF16, FP8E4M3 or FP8E5M2
    """

def rescale(
    input: Data,
    multiplier: Data,
    shift: Data,
    input_zp: Data | None = ...,
    output_zp: Data | None = ...,
    *,
    scale32: bool = ...,
    rounding_mode: RoundingMode | str = ...,
    per_channel: bool = ...,
    input_unsigned: bool = ...,
    output_unsigned: bool = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return round((input - input_zp) * multiplier / 2^shift) + output_zp, saturated.

    With `per_channel` the last axis has a multiplier and a shift for each element. Rounding is
    half up; with DOUBLE_ROUND, a shift of more than 31 bits first rounds away from zero at bit
    30. An implementation of INEXACT_ROUND may scale with an error of 2^-22 of the value. Shifts
    are from 2 to 62; with `scale32` a value has at most as many bits as the shift, and without,
    the scaled value has 32.

    Types:
        input T, multiplier INT32, shift INT8, input_zp T, output_zp U, scale32 True -> output U
          PRO-INT: T INT8, INT16, INT32 or INT48; U INT8, INT16 or INT32
        input T, multiplier INT16, shift INT8, input_zp T, output_zp U, scale32 False -> output U
          PRO-INT: T INT8, INT16, INT32 or INT48; U INT8, INT16 or INT32

    Rules:
        - multiplier has rank 1
        - shift has rank 1
        - input_zp has the shape [1]
        - output_zp has the shape [1]
        - input_zp is 0 unless input is of INT8; 32768 for unsigned INT16
        - output_zp is 0 unless output is of INT8; 32768 for unsigned INT16
        - scale32 fits the input and the rounding mode
        - at most one side is unsigned, and none if the other or itself is of INT32 or INT48
        - there is one multiplier and shift, or one for each channel of the input
        - multipliers are not negative, and shifts are 2 to 62
    """

@overload
def identity(input1: Scaled, *, out_type: DTypeLike | None = ...) -> Scaled: ...  # type: ignore[overload-overlap]
@overload
def identity(input1: Data | Scaled, *, out_type: DTypeLike | None = ...) -> Array:
    """Return the operand.

    Types:
        input1 T -> output T
          PRO-INT or PRO-FP: T BOOL, INT8, INT16, INT32 or INT64
          PRO-INT: T INT4 or INT48
          PRO-FP: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled
    """

def matmul_t_block_scaled(
    a_data: Data,
    a_scale: Data,
    b_data: Data,
    b_scale: Data,
    *,
    block_size: BlockSize | int | None = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the product of the numbers that block-scaled a and transposed b stand for, in FP32.

    Types:
        a_data T, a_scale S, b_data T, b_scale S -> output_data FP32
          PRO-FP: T data of block-scaled; S FP8UE8M0

    Rules:
        - a_data has rank 3
        - b_data has rank 3
        - no blocks of one element, of an operator that takes or makes scales
        - a_scale has rank 3
        - b_scale has rank 3
        - batch sizes are equal or 1, aligned on the right
        - rows of one operand are as long as columns of the other
        - the last dimension of a_data is a multiple of the block size
        - the last dimension of b_data is a multiple of the block size
        - a_scale has one element for each block of a_data
        - b_scale has one element for each block of b_data
        - sizes of one letter are equal: output_data [N, I, J], a_data [N, I, K], b_data [_, J, K]
    """

def cast_from_block_scaled(
    input_data: Data,
    input_scale: Data,
    *,
    block_size: BlockSize | int | None = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the numbers that block-scaled data stand for.

    Types:
        input_data T, input_scale S -> output_data U
          PRO-FP: T data of block-scaled; S FP8UE8M0; U FP32 or BF16

    Rules:
        - no blocks of one element, of an operator that takes or makes scales
        - input_data has rank at least 1
        - input_scale has the rank of input_data
        - the last dimension of input_data is a multiple of the block size
        - input_scale has one element for each block of input_data
    """

def cast_to_block_scaled(
    input_data: Data,
    *,
    block_size: BlockSize | int | None = ...,
    out_type: DTypeLike | Sequence[DTypeLike] | None = ...,
) -> tuple[Array, Array]:
    """Return data and scales.

    The scale of a block is the least power of two by which its largest absolute value can be
    divided so that it rounds to a number of the element type, within the exponents of FP8UE8M0.
    Elements are divided by it and rounded to nearest, ties to even. A block with NaN or
    infinity has the scale NaN; its elements are NaN, or the greatest power of two of a type
    without NaN, or 127 of MXINT8.

    Types:
        input_data T -> output_data U, output_scale S
          PRO-FP: T FP32 or BF16; U data of block-scaled; S FP8UE8M0

    Rules:
        - no blocks of one element, of an operator that takes or makes scales
        - input_data has rank at least 1
        - the last dimension of input_data is a multiple of the block size
    """

def dim(input1: Data | Scaled, *, axis: int) -> Array:
    """Return the size of the axis, as a shape of one size.

    Types:
        input1 T -> output shape
          PRO-INT or PRO-FP, EXT-SHAPE: T BOOL or INT64
          PRO-INT, EXT-SHAPE: T INT8, INT16 or INT32
          PRO-FP, EXT-SHAPE: T FP32, FP16, BF16, FP8E4M3, FP8E5M2, block-scaled, data of
            block-scaled or FP8UE8M0

    Rules:
        - input1 has rank at least 1
        - axis is a dimension of input1
    """

def concat_shape(input: Sequence[Sequence[int] | Array]) -> Array:
    """Return the sizes of the operands one after another.

    Types:
        input shape -> output shape
          PRO-INT or PRO-FP, EXT-SHAPE

    Rules:
        - there is at least one operand
        - no operand is a shape of rank 0
    """

def add_shape(input1: Sequence[int] | Array, input2: Sequence[int] | Array) -> Array:
    """Return the sums of the sizes.

    Types:
        input1 shape, input2 shape -> output shape
          PRO-INT or PRO-FP, EXT-SHAPE

    Rules:
        - both operands have one rank
        - the values of the result fit into 64 bits
    """

def sub_shape(input1: Sequence[int] | Array, input2: Sequence[int] | Array) -> Array:
    """Return the differences input1 - input2.

    Types:
        input1 shape, input2 shape -> output shape
          PRO-INT or PRO-FP, EXT-SHAPE

    Rules:
        - both operands have one rank
        - the values of the result fit into 64 bits
    """

def mul_shape(input1: Sequence[int] | Array, input2: Sequence[int] | Array) -> Array:
    """Return the products of the sizes.

    Types:
        input1 shape, input2 shape -> output shape
          PRO-INT or PRO-FP, EXT-SHAPE

    Rules:
        - both operands have one rank
        - the values of the result fit into 64 bits
    """

def slice_shape(input: Sequence[int] | Array, start: Data, size: Data) -> Array:
    """Return the sizes of the input from `start` on, as many as `size` says.

    Types:
        input shape, start INT32, size INT32 -> output shape
          PRO-INT or PRO-FP, EXT-SHAPE

    Rules:
        - input is not of rank 0
        - start has the shape [1]
        - size has the shape [1]
        - start is at least 0
        - size is at least 1
        - the slice ends within the input
    """

def exp2_shape(input: Sequence[int] | Array) -> Array:
    """Return 2 to the power of each size.

    Types:
        input shape -> output shape
          PRO-INT or PRO-FP, EXT-SHAPE

    Rules:
        - the values of input are 0 to 62
    """

def log2_ceil_shape(input: Sequence[int] | Array) -> Array:
    """Return the logarithms to the base 2, rounded up.

    Types:
        input shape -> output shape
          PRO-INT or PRO-FP, EXT-SHAPE

    Rules:
        - the values of input are 1 or more
    """

def log2_floor_shape(input: Sequence[int] | Array) -> Array:
    """Return the logarithms to the base 2, rounded down.

    Types:
        input shape -> output shape
          PRO-INT or PRO-FP, EXT-SHAPE

    Rules:
        - the values of input are 1 or more
    """

def max_shape(input1: Sequence[int] | Array, input2: Sequence[int] | Array) -> Array:
    """Return the greater sizes.

    Types:
        input1 shape, input2 shape -> output shape
          PRO-INT or PRO-FP, EXT-SHAPE

    Rules:
        - both operands have one rank
    """

def min_shape(input1: Sequence[int] | Array, input2: Sequence[int] | Array) -> Array:
    """Return the lesser sizes.

    Types:
        input1 shape, input2 shape -> output shape
          PRO-INT or PRO-FP, EXT-SHAPE

    Rules:
        - both operands have one rank
    """

def mod_shape(input1: Sequence[int] | Array, input2: Sequence[int] | Array) -> Array:
    """Return the remainders of input1 / input2.

    Types:
        input1 shape, input2 shape -> output shape
          PRO-INT or PRO-FP, EXT-SHAPE

    Rules:
        - both operands have one rank
        - no value of input2 is 0
    """

def div_ceil_shape(input1: Sequence[int] | Array, input2: Sequence[int] | Array) -> Array:
    """Return the quotients, rounded up. TOSA defines none of negative sizes.

    Types:
        input1 shape, input2 shape -> output shape
          PRO-INT or PRO-FP, EXT-SHAPE

    Rules:
        - both operands have one rank
        - no value of input2 is 0
    """

def div_floor_shape(input1: Sequence[int] | Array, input2: Sequence[int] | Array) -> Array:
    """Return the quotients, rounded down. TOSA defines none of negative sizes.

    Types:
        input1 shape, input2 shape -> output shape
          PRO-INT or PRO-FP, EXT-SHAPE

    Rules:
        - both operands have one rank
        - no value of input2 is 0
    """

def assert_equal_shape(
    input1: Sequence[int] | Array, input2: Sequence[int] | Array, *, allow_broadcast: bool = ...
) -> None:
    """Refuse shapes that differ; with allow_broadcast a size of 1 equals every other.

    Types:
        input1 shape, input2 shape -> nothing
          PRO-INT or PRO-FP, EXT-SHAPE

    Rules:
        - both operands have one rank
        - the shapes are equal; with allow_broadcast a value may be 1
    """

def conv2d_block_scaled(
    input_data: Data,
    input_scale: Data,
    weight_data: Data,
    weight_scale: Data,
    bias: Data,
    pad: Sequence[int] | Array,
    stride: Sequence[int] | Array,
    dilation: Sequence[int] | Array,
    *,
    block_size: BlockSize | int | None = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the convolution of the numbers that block-scaled data and weights stand for.

    Types:
        input_data T, input_scale S, weight_data T, weight_scale S, bias FP32, pad shape, stride
          shape, dilation shape -> output FP32
          PRO-FP, EXT-MXFP-CONV: T data of block-scaled; S FP8UE8M0

    Rules:
        - no blocks of one element, of an operator that takes or makes scales
        - input_data has rank 4
        - weight_data has rank 4
        - bias has rank 1
        - input_scale has rank 4
        - weight_scale has rank 4
        - pad has 4 values
        - stride has 2 values
        - dilation has 2 values
        - the weight is for as many channels as the input has
        - the bias has one element, or one for each output channel
        - the values of pad are at least 0
        - the values of stride are at least 1
        - the values of dilation are at least 1
        - the kernel fits, and its positions end where the padded input ends
        - the last dimension of input_data is a multiple of the block size
        - the last dimension of weight_data is a multiple of the block size
        - input_scale has one element for each block of input_data
        - weight_scale has one element for each block of weight_data
        - sizes of one letter are equal: output [N, P, Q, O], weight_data [O, K, L, C], input_data
          [N, _, _, C]
    """

def max_pool2d_adaptive(
    input: Data,
    kernel: Sequence[int] | Array,
    stride: Sequence[int] | Array,
    pad: Sequence[int] | Array,
    *,
    nan_mode: NanPropagationMode | str = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the greatest element of each window, without those outside the image.

    Types:
        input T, kernel shape, stride shape, pad shape -> output T
          PRO-INT: T INT8
          PRO-INT, EXT-INT16: T INT16
          PRO-FP: T FP32, FP16, BF16, FP8E4M3 or FP8E5M2

    Rules:
        - input has rank 4
        - kernel has 2 values
        - stride has 2 values
        - pad has 4 values
        - the values of kernel are at least 1
        - the values of stride are at least 1
        - the values of pad are at least 0
        - no position of the kernel has padding only, and the last ends with the input
        - output is [batch, height, width, channels]
    """

def avg_pool2d_adaptive(
    input: Data,
    kernel: Sequence[int] | Array,
    stride: Sequence[int] | Array,
    pad: Sequence[int] | Array,
    *,
    input_zp: Data | None = ...,
    output_zp: Data | None = ...,
    acc_type: DTypeLike | None = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the mean of each window, without the elements outside the image.

    Integers: the sum of (input - input_zp) times a reciprocal of the count, as a multiplier of
    31 bits and a shift, rounded half up; then output_zp is added, and the result saturates.

    Types:
        input T, input_zp T, output_zp T, kernel shape, stride shape, pad shape, acc_type A ->
          output T
          PRO-INT: T INT8; A INT32
          PRO-INT, EXT-INT16: T INT16; A INT32
          PRO-FP: T FP16; A FP16 or FP32
          PRO-FP: T FP32 or BF16; A FP32
          PRO-FP: T FP8E4M3 or FP8E5M2; A FP16

    Rules:
        - input has rank 4
        - kernel has 2 values
        - stride has 2 values
        - pad has 4 values
        - the values of kernel are at least 1
        - the values of stride are at least 1
        - the values of pad are at least 0
        - no position of the kernel has padding only, and the last ends with the input
        - input_zp has the shape [1], and is 0 unless it is of INT8
        - output_zp has the shape [1], and is 0 unless it is of INT8
        - output is [batch, height, width, channels]
    """

def reshape_block_scaled(
    input: Data,
    new_value_shape: Sequence[int] | Array,
    *,
    input_scale: Data | None = ...,
    block_size: BlockSize | int | None = ...,
    out_type: DTypeLike | Sequence[DTypeLike] | None = ...,
) -> Array | tuple[Array, Array]:
    """Return data, and scales if there are any, in the shapes of the results.

    Types:
        input T, new_value_shape shape -> output T
          PRO-INT or PRO-FP: T BOOL or INT64
          PRO-INT: T INT8, INT16 or INT32
          PRO-FP: T FP32, FP16, BF16, FP8E4M3 or FP8E5M2
        input T, input_scale S, new_value_shape shape -> output T, output_scale S
          PRO-FP: T data of block-scaled; S FP8UE8M0

    Rules:
        - there is input_scale if block_size is not 1, and only then
        - input has rank at least 1
        - input_scale has the rank of input
        - the new shape of a block-scaled tensor has whole blocks
        - the last dimension of input is a multiple of the block size
        - input_scale has one element for each block of input
        - all sizes of the new shape are at least 1
        - the result has as many elements as the input
    """

def row_gather_block_scaled(
    values: Data,
    indices: Data,
    row_count: Data,
    *,
    values_scale: Data | None = ...,
    block_size: BlockSize | int | None = ...,
    out_type: DTypeLike | Sequence[DTypeLike] | None = ...,
) -> Array | tuple[Array, Array]:
    """Return the rows of block-scaled data, and of its scales if it has them.

    Types:
        values T, values_scale U, indices INT32 -> output T
          PRO-INT or PRO-FP: T BOOL, INT8, INT16 or INT32; U INT32 or INT64
          PRO-INT or PRO-FP: T INT64; U INT64
          PRO-FP: T FP32, FP16, BF16, FP8E4M3 or FP8E5M2; U INT32 or INT64
        values T, values_scale S, indices U, row_count INT32 -> output T, output_scale S
          PRO-FP: T data of block-scaled; S FP8UE8M0; U INT32 or INT64

    Rules:
        - there is values_scale if block_size is not 1, and only then
        - values has rank 3
        - indices has rank 2
        - values_scale has the rank of values
        - the last dimension of values is a multiple of the block size
        - values_scale has one element for each block of values
        - row_count has the shape [1]
        - row_count is at least 1, and not more than the rows of values
        - values and indices have one batch size
        - every index is that of a row
        - output is [batch, rows, channels]
    """

@overload
def row_gather(  # type: ignore[overload-overlap]
    values: Scaled, indices: Data, row_count: Data, *, out_type: DTypeLike | None = ...
) -> Scaled: ...
@overload
def row_gather(
    values: Data | Scaled, indices: Data, row_count: Data, *, out_type: DTypeLike | None = ...
) -> Array:
    """Return `row_count` rows of each batch of `values` from each index on.

    Types:
        values T, indices U, row_count INT32 -> output T
          PRO-INT or PRO-FP: T BOOL, INT8, INT16, INT32 or INT64; U INT32 or INT64
          PRO-FP: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled; U INT32 or INT64

    Rules:
        - values has rank 3
        - indices has rank 2
        - sizes of the same name agree: values [N, K, C], indices [N, W]
        - row_count has the shape [1]
        - row_count is at least 1, and not more than the rows of values
        - every index is that of a row
        - output is [batch, rows, channels]
    """

def matmul_t(
    a: Data | Scaled,
    b: Data | Scaled,
    a_zp: Data | None = ...,
    b_zp: Data | None = ...,
    *,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the products of the matrices of a and the transposed ones of b, as MATMUL.

    Types:
        a T, b U, a_zp T, b_zp U -> output A
          PRO-INT: T INT8; U INT8; A INT32
          PRO-INT: T INT16; U INT16; A INT48
          PRO-FP: T FP16; U FP16; A FP16
          PRO-FP: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled; U FP32, FP16, BF16, FP8E4M3,
            FP8E5M2 or block-scaled; A FP32
          PRO-FP: T BF16, FP8E4M3, FP8E5M2 or block-scaled; U FP16, BF16, FP8E4M3, FP8E5M2 or
            block-scaled; A BF16
          PRO-FP: T FP16; U BF16, FP8E4M3, FP8E5M2 or block-scaled; A BF16

    Rules:
        - a has rank at least 2
        - b has rank at least 2
        - batch sizes are equal or 1, aligned on the right
        - rows of one operand are as long as columns of the other
        - a_zp has the shape [1], and is 0 unless it is of INT8
        - b_zp has the shape [1], and is 0 unless it is of INT8
        - sizes of one letter are equal: output [..., I, J], a [..., I, K], b [..., J, K]
    """

def argmin(
    input: Data,
    *,
    axis: int,
    nan_mode: NanPropagationMode | str = ...,
    out_type: DTypeLike | None = ...,
) -> Array:
    """Return the index of the least element, the first of several. NaN is less than every number;
    if nan_mode is IGNORE it is passed over, and the index is 0 where there is nothing else.

    Types:
        input T -> output U
          PRO-INT: T INT8; U INT32
          PRO-INT: T INT8, INT16, INT32 or INT64; U INT64
          PRO-INT, EXT-INT16: T INT16; U INT32
          PRO-FP: T FP32, FP16, BF16, FP8E4M3 or FP8E5M2; U INT32 or INT64

    Rules:
        - input has rank at least 1
        - axis is a dimension of input
    """
