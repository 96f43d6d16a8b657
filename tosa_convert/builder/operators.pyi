"""Signatures of the builder's functions; schema/generate_stubs.py writes this file."""

from collections.abc import Sequence
from typing import TypeAlias

from tosa_convert.builder.block_builder import BlockBuilder
from tosa_convert.builder.values import DTypeLike, Operand, Sizes, Value
from tosa_convert.graph.dtypes import BlockSize, NanPropagationMode, ResizeMode, RoundingMode

_DTypes: TypeAlias = DTypeLike | Sequence[DTypeLike] | None
_Names: TypeAlias = str | Sequence[str]

class Operators(BlockBuilder):
    """A function for each operator.

    Types are those that a target with the profile takes together; BF16, FP8, INT4, INT48, INT64 and
    block-scaled types also need the extensions of these types.
    """

    def argmax(
        self,
        input: Operand,
        *,
        axis: int,
        nan_mode: NanPropagationMode | str = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator ARGMAX, which returns output.

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
        self,
        input: Operand,
        input_zp: Operand | None = ...,
        output_zp: Operand | None = ...,
        *,
        kernel: Sequence[int],
        stride: Sequence[int] = ...,
        pad: Sequence[int] = ...,
        acc_type: DTypeLike | None = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator AVG_POOL2D, which returns output.

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
        self,
        input: Operand,
        weight: Operand,
        bias: Operand,
        input_zp: Operand | None = ...,
        weight_zp: Operand | None = ...,
        *,
        pad: Sequence[int] = ...,
        stride: Sequence[int] = ...,
        dilation: Sequence[int] = ...,
        local_bound: bool = ...,
        acc_type: DTypeLike | None = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator CONV2D, which returns output.

        Types:
            input T, weight U, bias B, input_zp T, weight_zp U, acc_type A -> output B
              PRO-INT: T INT8; U INT8 or INT4; B INT32; A INT32
              PRO-INT: T INT16; U INT8; B INT48; A INT48
              PRO-FP: T FP16; U FP16; B FP16; A FP16 or FP32
              PRO-FP: T FP32; U FP32; B FP32; A FP32
              PRO-FP: T BF16; U BF16; B BF16; A FP32
              PRO-FP: T FP8E4M3; U FP8E4M3; B FP16; A FP16
              PRO-FP: T FP8E5M2; U FP8E5M2; B FP16; A FP16
              PRO-FP, TOSA 1.1: T FP32, FP16, BF16, FP8E4M3 or FP8E5M2; U FP32, FP16, BF16, FP8E4M3
                or FP8E5M2; B FP32; A FP32
              PRO-FP, TOSA 1.1: T FP16, FP8E4M3 or FP8E5M2; U FP16, FP8E4M3 or FP8E5M2; B FP16; A
                FP16 or FP32
              PRO-FP, TOSA 1.1: T BF16, FP8E4M3 or FP8E5M2; U BF16, FP8E4M3 or FP8E5M2; B BF16; A
                BF16 or FP32
              PRO-FP, EXT-MXFP-CONV: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled; U
                block-scaled; B FP32; A FP32
              PRO-FP, EXT-MXFP-CONV: T block-scaled; U FP32, FP16, BF16, FP8E4M3 or FP8E5M2; B FP32;
                A FP32
              PRO-FP, EXT-MXFP-CONV: T FP16, FP8E4M3, FP8E5M2 or block-scaled; U block-scaled; B
                FP16; A FP16 or FP32
              PRO-FP, EXT-MXFP-CONV: T block-scaled; U FP16, FP8E4M3 or FP8E5M2; B FP16; A FP16 or
                FP32
              PRO-FP, EXT-MXFP-CONV: T BF16, FP8E4M3, FP8E5M2 or block-scaled; U block-scaled; B
                BF16; A BF16 or FP32
              PRO-FP, EXT-MXFP-CONV: T block-scaled; U BF16, FP8E4M3 or FP8E5M2; B BF16; A BF16 or
                FP32

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
            - sizes of one letter are equal: output [N, P, Q, O], weight [O, K, L, C], input [N, _,
              _, C]
        """
    def conv3d(
        self,
        input: Operand,
        weight: Operand,
        bias: Operand,
        input_zp: Operand | None = ...,
        weight_zp: Operand | None = ...,
        *,
        pad: Sequence[int] = ...,
        stride: Sequence[int] = ...,
        dilation: Sequence[int] = ...,
        local_bound: bool = ...,
        acc_type: DTypeLike | None = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator CONV3D, which returns output.

        Types:
            input T, weight U, bias B, input_zp T, weight_zp U, acc_type A -> output B
              PRO-INT: T INT8; U INT8 or INT4; B INT32; A INT32
              PRO-INT: T INT16; U INT8; B INT48; A INT48
              PRO-FP: T FP16; U FP16; B FP16; A FP16 or FP32
              PRO-FP: T FP32; U FP32; B FP32; A FP32
              PRO-FP: T BF16; U BF16; B BF16; A FP32
              PRO-FP: T FP8E4M3; U FP8E4M3; B FP16; A FP16
              PRO-FP: T FP8E5M2; U FP8E5M2; B FP16; A FP16
              PRO-FP, TOSA 1.1: T FP32, FP16, BF16, FP8E4M3 or FP8E5M2; U FP32, FP16, BF16, FP8E4M3
                or FP8E5M2; B FP32; A FP32
              PRO-FP, TOSA 1.1: T FP16, FP8E4M3 or FP8E5M2; U FP16, FP8E4M3 or FP8E5M2; B FP16; A
                FP16 or FP32
              PRO-FP, TOSA 1.1: T BF16, FP8E4M3 or FP8E5M2; U BF16, FP8E4M3 or FP8E5M2; B BF16; A
                BF16 or FP32
              PRO-FP, EXT-MXFP-CONV: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled; U
                block-scaled; B FP32; A FP32
              PRO-FP, EXT-MXFP-CONV: T block-scaled; U FP32, FP16, BF16, FP8E4M3 or FP8E5M2; B FP32;
                A FP32
              PRO-FP, EXT-MXFP-CONV: T FP16, FP8E4M3, FP8E5M2 or block-scaled; U block-scaled; B
                FP16; A FP16 or FP32
              PRO-FP, EXT-MXFP-CONV: T block-scaled; U FP16, FP8E4M3 or FP8E5M2; B FP16; A FP16 or
                FP32
              PRO-FP, EXT-MXFP-CONV: T BF16, FP8E4M3, FP8E5M2 or block-scaled; U block-scaled; B
                BF16; A BF16 or FP32
              PRO-FP, EXT-MXFP-CONV: T block-scaled; U BF16, FP8E4M3 or FP8E5M2; B BF16; A BF16 or
                FP32

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
            - sizes of one letter are equal: output [N, P, Q, R, O], weight [O, K, L, M, C], input
              [N, _, _, _, C]
        """
    def depthwise_conv2d(
        self,
        input: Operand,
        weight: Operand,
        bias: Operand,
        input_zp: Operand | None = ...,
        weight_zp: Operand | None = ...,
        *,
        pad: Sequence[int] = ...,
        stride: Sequence[int] = ...,
        dilation: Sequence[int] = ...,
        local_bound: bool = ...,
        acc_type: DTypeLike | None = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator DEPTHWISE_CONV2D, which returns output.

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
            - sizes of one letter are equal: output [N, P, Q, CM], weight [K, L, C, M], input [N, _,
              _, C]
        """
    def fft2d(
        self,
        input_real: Operand,
        input_imag: Operand,
        *,
        inverse: bool = ...,
        local_bound: bool = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> tuple[Value, Value]:
        """Add the operator FFT2D, which returns output_real, output_imag.

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
        self,
        a: Operand,
        b: Operand,
        a_zp: Operand | None = ...,
        b_zp: Operand | None = ...,
        *,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator MATMUL, which returns output.

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
        self,
        input: Operand,
        *,
        kernel: Sequence[int],
        stride: Sequence[int] = ...,
        pad: Sequence[int] = ...,
        nan_mode: NanPropagationMode | str = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator MAX_POOL2D, which returns output.

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
        self,
        input_real: Operand,
        *,
        local_bound: bool = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> tuple[Value, Value]:
        """Add the operator RFFT2D, which returns output_real, output_imag.

        Types:
            input_real FP32 -> output_real FP32, output_imag FP32
              PRO-FP, EXT-FFT

        Rules:
            - input_real has rank 3
            - height and width are powers of two
            - output_real is [batch, height, width]
        """
    def transpose_conv2d(
        self,
        input: Operand,
        weight: Operand,
        bias: Operand,
        input_zp: Operand | None = ...,
        weight_zp: Operand | None = ...,
        *,
        out_pad: Sequence[int] = ...,
        stride: Sequence[int] = ...,
        local_bound: bool = ...,
        acc_type: DTypeLike | None = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator TRANSPOSE_CONV2D, which returns output.

        Types:
            input T, weight U, bias B, input_zp T, weight_zp U, acc_type A -> output B
              PRO-INT: T INT8; U INT8 or INT4; B INT32; A INT32
              PRO-INT: T INT16; U INT8; B INT48; A INT48
              PRO-FP: T FP16; U FP16; B FP16; A FP16 or FP32
              PRO-FP: T FP32; U FP32; B FP32; A FP32
              PRO-FP: T BF16; U BF16; B BF16; A FP32
              PRO-FP: T FP8E4M3; U FP8E4M3; B FP16; A FP16
              PRO-FP: T FP8E5M2; U FP8E5M2; B FP16; A FP16
              PRO-FP, TOSA 1.1: T FP32, FP16, BF16, FP8E4M3 or FP8E5M2; U FP32, FP16, BF16, FP8E4M3
                or FP8E5M2; B FP32; A FP32
              PRO-FP, TOSA 1.1: T FP16, FP8E4M3 or FP8E5M2; U FP16, FP8E4M3 or FP8E5M2; B FP16; A
                FP16 or FP32
              PRO-FP, TOSA 1.1: T BF16, FP8E4M3 or FP8E5M2; U BF16, FP8E4M3 or FP8E5M2; B BF16; A
                BF16 or FP32
              PRO-FP, EXT-MXFP-CONV: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled; U
                block-scaled; B FP32; A FP32
              PRO-FP, EXT-MXFP-CONV: T block-scaled; U FP32, FP16, BF16, FP8E4M3 or FP8E5M2; B FP32;
                A FP32
              PRO-FP, EXT-MXFP-CONV: T FP16, FP8E4M3, FP8E5M2 or block-scaled; U block-scaled; B
                FP16; A FP16 or FP32
              PRO-FP, EXT-MXFP-CONV: T block-scaled; U FP16, FP8E4M3 or FP8E5M2; B FP16; A FP16 or
                FP32
              PRO-FP, EXT-MXFP-CONV: T BF16, FP8E4M3, FP8E5M2 or block-scaled; U block-scaled; B
                BF16; A BF16 or FP32
              PRO-FP, EXT-MXFP-CONV: T block-scaled; U BF16, FP8E4M3 or FP8E5M2; B BF16; A BF16 or
                FP32

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
            - sizes of one letter are equal: output [N, _, _, O], weight [O, K, L, C], input [N, H,
              W, C]
        """
    def clamp(
        self,
        input: Operand,
        *,
        min_val: float,
        max_val: float,
        nan_mode: NanPropagationMode | str = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator CLAMP, which returns output.

        Types:
            input T -> output T
              PRO-INT: T INT8
              PRO-INT, EXT-INT16: T INT16
              PRO-FP: T FP32, FP16 or BF16

        Rules:
            - min_val and max_val are numbers, and in order
        """
    def erf(self, input: Operand, *, dtype: _DTypes = ..., name: _Names = ...) -> Value:
        """Add the operator ERF, which returns output.

        Types:
            input T -> output T
              PRO-FP: T FP32, FP16 or BF16
        """
    def sigmoid(self, input: Operand, *, dtype: _DTypes = ..., name: _Names = ...) -> Value:
        """Add the operator SIGMOID, which returns output.

        Types:
            input T -> output T
              PRO-FP: T FP32, FP16 or BF16
        """
    def tanh(self, input: Operand, *, dtype: _DTypes = ..., name: _Names = ...) -> Value:
        """Add the operator TANH, which returns output.

        Types:
            input T -> output T
              PRO-FP: T FP32, FP16 or BF16
        """
    def add(
        self, input1: Operand, input2: Operand, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator ADD, which returns output.

        Types:
            input1 T, input2 T -> output T
              PRO-INT or PRO-FP: T INT32 or INT64
              PRO-FP: T FP32, FP16 or BF16

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
        """
    def arithmetic_right_shift(
        self,
        input1: Operand,
        input2: Operand,
        *,
        round: bool = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator ARITHMETIC_RIGHT_SHIFT, which returns output.

        Types:
            input1 T, input2 T -> output T
              PRO-INT: T INT8, INT16 or INT32
              PRO-INT or PRO-FP: T INT64

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
            - no value is shifted by a negative amount, or by as many bits as it has or more
        """
    def bitwise_and(
        self, input1: Operand, input2: Operand, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator BITWISE_AND, which returns output.

        Types:
            input1 T, input2 T -> output T
              PRO-INT: T INT8, INT16 or INT32
              PRO-INT or PRO-FP: T INT64

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
        """
    def bitwise_or(
        self, input1: Operand, input2: Operand, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator BITWISE_OR, which returns output.

        Types:
            input1 T, input2 T -> output T
              PRO-INT: T INT8, INT16 or INT32
              PRO-INT or PRO-FP: T INT64

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
        """
    def bitwise_xor(
        self, input1: Operand, input2: Operand, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator BITWISE_XOR, which returns output.

        Types:
            input1 T, input2 T -> output T
              PRO-INT: T INT8, INT16 or INT32
              PRO-INT or PRO-FP: T INT64

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
        """
    def intdiv(
        self, input1: Operand, input2: Operand, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator INTDIV, which returns output.

        Types:
            input1 T, input2 T -> output T
              PRO-INT or PRO-FP: T INT32 or INT64

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
            - no value is divided by 0
        """
    def logical_and(
        self, input1: Operand, input2: Operand, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator LOGICAL_AND, which returns output.

        Types:
            input1 BOOL, input2 BOOL -> output BOOL
              PRO-INT or PRO-FP

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
        """
    def logical_left_shift(
        self, input1: Operand, input2: Operand, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator LOGICAL_LEFT_SHIFT, which returns output.

        Types:
            input1 T, input2 T -> output T
              PRO-INT or PRO-FP: T INT8, INT16, INT32 or INT64

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
            - no value is shifted by a negative amount, or by as many bits as it has or more
        """
    def logical_right_shift(
        self, input1: Operand, input2: Operand, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator LOGICAL_RIGHT_SHIFT, which returns output.

        Types:
            input1 T, input2 T -> output T
              PRO-INT or PRO-FP: T INT8, INT16, INT32 or INT64

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
            - no value is shifted by a negative amount, or by as many bits as it has or more
        """
    def logical_or(
        self, input1: Operand, input2: Operand, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator LOGICAL_OR, which returns output.

        Types:
            input1 BOOL, input2 BOOL -> output BOOL
              PRO-INT or PRO-FP

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
        """
    def logical_xor(
        self, input1: Operand, input2: Operand, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator LOGICAL_XOR, which returns output.

        Types:
            input1 BOOL, input2 BOOL -> output BOOL
              PRO-INT or PRO-FP

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
        """
    def maximum(
        self,
        input1: Operand,
        input2: Operand,
        *,
        nan_mode: NanPropagationMode | str = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator MAXIMUM, which returns output.

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
        self,
        input1: Operand,
        input2: Operand,
        *,
        nan_mode: NanPropagationMode | str = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator MINIMUM, which returns output.

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
        self,
        input1: Operand,
        input2: Operand,
        shift: Operand | None = ...,
        *,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator MUL, which returns output.

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
    def pow(
        self, input1: Operand, input2: Operand, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator POW, which returns output.

        Types:
            input1 T, input2 T -> output T
              PRO-FP: T FP32, FP16 or BF16

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
        """
    def sub(
        self, input1: Operand, input2: Operand, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator SUB, which returns output.

        Types:
            input1 T, input2 T -> output T
              PRO-INT or PRO-FP: T INT32 or INT64
              PRO-FP: T FP32, FP16 or BF16

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
        """
    def table(
        self, input1: Operand, table: Operand, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator TABLE, which returns output.

        Types:
            input1 T, table T -> output U
              PRO-INT: T INT8; U INT8
              PRO-INT, EXT-INT16: T INT16; U INT32

        Rules:
            - table has rank 1
            - a table has an entry for each value of INT8, or 513 for INT16
        """
    def abs(self, input1: Operand, *, dtype: _DTypes = ..., name: _Names = ...) -> Value:
        """Add the operator ABS, which returns output.

        Types:
            input1 T -> output T
              PRO-INT: T INT32
              PRO-INT or PRO-FP: T INT64
              PRO-FP: T FP32, FP16 or BF16
        """
    def bitwise_not(self, input1: Operand, *, dtype: _DTypes = ..., name: _Names = ...) -> Value:
        """Add the operator BITWISE_NOT, which returns output.

        Types:
            input1 T -> output T
              PRO-INT: T INT8, INT16 or INT32
              PRO-INT or PRO-FP: T INT64
        """
    def ceil(self, input1: Operand, *, dtype: _DTypes = ..., name: _Names = ...) -> Value:
        """Add the operator CEIL, which returns output.

        Types:
            input1 T -> output T
              PRO-FP: T FP32, FP16 or BF16
        """
    def clz(self, input1: Operand, *, dtype: _DTypes = ..., name: _Names = ...) -> Value:
        """Add the operator CLZ, which returns output.

        Types:
            input1 T -> output T
              PRO-INT: T INT32
              PRO-INT or PRO-FP: T INT64
        """
    def cos(self, input1: Operand, *, dtype: _DTypes = ..., name: _Names = ...) -> Value:
        """Add the operator COS, which returns output.

        Types:
            input1 T -> output T
              PRO-FP: T FP32, FP16 or BF16
        """
    def exp(self, input1: Operand, *, dtype: _DTypes = ..., name: _Names = ...) -> Value:
        """Add the operator EXP, which returns output.

        Types:
            input1 T -> output T
              PRO-FP: T FP32, FP16 or BF16
        """
    def floor(self, input1: Operand, *, dtype: _DTypes = ..., name: _Names = ...) -> Value:
        """Add the operator FLOOR, which returns output.

        Types:
            input1 T -> output T
              PRO-FP: T FP32, FP16 or BF16
        """
    def log(self, input1: Operand, *, dtype: _DTypes = ..., name: _Names = ...) -> Value:
        """Add the operator LOG, which returns output.

        Types:
            input1 T -> output T
              PRO-FP: T FP32, FP16 or BF16
        """
    def logical_not(self, input1: Operand, *, dtype: _DTypes = ..., name: _Names = ...) -> Value:
        """Add the operator LOGICAL_NOT, which returns output.

        Types:
            input1 BOOL -> output BOOL
              PRO-INT or PRO-FP
        """
    def negate(
        self,
        input1: Operand,
        input1_zp: Operand | None = ...,
        output_zp: Operand | None = ...,
        *,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator NEGATE, which returns output.

        Types:
            input1 T, input1_zp T, output_zp T -> output T
              PRO-INT: T INT8, INT16 or INT32
              PRO-INT or PRO-FP: T INT64
              PRO-FP: T FP32, FP16 or BF16

        Rules:
            - input1_zp has the shape [1], and is 0 unless it is of INT8
            - output_zp has the shape [1], and is 0 unless it is of INT8
        """
    def reciprocal(self, input1: Operand, *, dtype: _DTypes = ..., name: _Names = ...) -> Value:
        """Add the operator RECIPROCAL, which returns output.

        Types:
            input1 T -> output T
              PRO-FP: T FP32, FP16 or BF16
        """
    def rsqrt(self, input1: Operand, *, dtype: _DTypes = ..., name: _Names = ...) -> Value:
        """Add the operator RSQRT, which returns output.

        Types:
            input1 T -> output T
              PRO-FP: T FP32, FP16 or BF16
        """
    def sin(self, input1: Operand, *, dtype: _DTypes = ..., name: _Names = ...) -> Value:
        """Add the operator SIN, which returns output.

        Types:
            input1 T -> output T
              PRO-FP: T FP32, FP16 or BF16
        """
    def select(
        self,
        input1: Operand,
        input2: Operand,
        input3: Operand,
        *,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator SELECT, which returns output.

        Types:
            input1 BOOL, input2 T, input3 T -> output T
              PRO-INT or PRO-FP: T BOOL or INT64
              PRO-INT: T INT8, INT16 or INT32
              PRO-FP: T FP32, FP16 or BF16

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
        """
    def equal(
        self, input1: Operand, input2: Operand, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator EQUAL, which returns output.

        Types:
            input1 T, input2 T -> output BOOL
              PRO-INT: T INT32
              PRO-INT or PRO-FP: T INT64
              PRO-FP: T FP32, FP16 or BF16

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
        """
    def greater(
        self, input1: Operand, input2: Operand, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator GREATER, which returns output.

        Types:
            input1 T, input2 T -> output BOOL
              PRO-INT: T INT32
              PRO-INT or PRO-FP: T INT64
              PRO-FP: T FP32, FP16 or BF16

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
        """
    def greater_equal(
        self, input1: Operand, input2: Operand, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator GREATER_EQUAL, which returns output.

        Types:
            input1 T, input2 T -> output BOOL
              PRO-INT: T INT32
              PRO-INT or PRO-FP: T INT64
              PRO-FP: T FP32, FP16 or BF16

        Rules:
            - the operands that are broadcast have one rank
            - sizes in each dimension are equal or 1
        """
    def reduce_all(
        self, input: Operand, *, axis: int, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator REDUCE_ALL, which returns output.

        Types:
            input BOOL -> output BOOL
              PRO-INT or PRO-FP

        Rules:
            - input has rank at least 1
            - axis is a dimension of input
        """
    def reduce_any(
        self, input: Operand, *, axis: int, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator REDUCE_ANY, which returns output.

        Types:
            input BOOL -> output BOOL
              PRO-INT or PRO-FP

        Rules:
            - input has rank at least 1
            - axis is a dimension of input
        """
    def reduce_max(
        self,
        input: Operand,
        *,
        axis: int,
        nan_mode: NanPropagationMode | str = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator REDUCE_MAX, which returns output.

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
        self,
        input: Operand,
        *,
        axis: int,
        nan_mode: NanPropagationMode | str = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator REDUCE_MIN, which returns output.

        Types:
            input T -> output T
              PRO-INT: T INT8, INT16 or INT32
              PRO-INT or PRO-FP: T INT64
              PRO-FP: T FP32, FP16 or BF16

        Rules:
            - input has rank at least 1
            - axis is a dimension of input
        """
    def reduce_product(
        self, input: Operand, *, axis: int, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator REDUCE_PRODUCT, which returns output.

        Types:
            input T -> output T
              PRO-FP: T FP32, FP16 or BF16

        Rules:
            - input has rank at least 1
            - axis is a dimension of input
        """
    def reduce_sum(
        self, input: Operand, *, axis: int, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator REDUCE_SUM, which returns output.

        Types:
            input T -> output T
              PRO-INT: T INT32
              PRO-INT or PRO-FP: T INT64
              PRO-FP: T FP32, FP16 or BF16

        Rules:
            - input has rank at least 1
            - axis is a dimension of input
        """
    def concat(
        self, input1: Sequence[Operand], *, axis: int, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator CONCAT, which returns output.

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
        self,
        input1: Operand,
        padding: Sizes,
        pad_const: Operand | None = ...,
        *,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator PAD, which returns output.

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
    def reshape(
        self, input1: Operand, shape: Sizes, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator RESHAPE, which returns output.

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
    def reverse(
        self, input1: Operand, *, axis: int, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator REVERSE, which returns output.

        Types:
            input1 T -> output T
              PRO-INT or PRO-FP: T BOOL or INT64
              PRO-INT: T INT8, INT16 or INT32
              PRO-FP: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled

        Rules:
            - input1 has rank at least 1
            - axis is a dimension of input1
        """
    def slice(
        self,
        input1: Operand,
        start: Sizes,
        size: Sizes,
        *,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator SLICE, which returns output.

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
    def tile(
        self, input1: Operand, multiples: Sizes, *, dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator TILE, which returns output.

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
    def transpose(
        self, input1: Operand, *, perms: Sequence[int], dtype: _DTypes = ..., name: _Names = ...
    ) -> Value:
        """Add the operator TRANSPOSE, which returns output.

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
    def gather(
        self,
        values: Operand,
        indices: Operand,
        row_count: Operand | None = ...,
        *,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator GATHER, which returns output.

        Types:
            values T, indices U -> output T
              PRO-INT: T INT8, INT16 or INT32; U INT32
              PRO-FP, TOSA 1.1: T INT8, INT16 or INT32; U INT32
              PRO-INT or PRO-FP, TOSA 1.1: T BOOL or INT64; U INT32 or INT64
              PRO-INT or PRO-FP, TOSA 1.1: T INT8, INT16 or INT32; U INT64
              PRO-FP: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled; U INT32 or INT64
            values T, indices U, row_count INT32 -> output T
              PRO-INT or PRO-FP, TOSA 1.1: T BOOL, INT8, INT16, INT32 or INT64; U INT32 or INT64
              PRO-FP, TOSA 1.1: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled; U INT32 or
                INT64

        Rules:
            - values has rank 3
            - indices has rank 2
            - sizes of the same name agree: values [N, K, C], indices [N, W]
            - row_count has the shape [1]
            - row_count is at least 1, and not more than the rows of values
            - every index is that of a row
            - output is [batch, indices, channels]
        """
    def scatter(
        self,
        values_in: Operand,
        indices: Operand,
        input: Operand,
        *,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator SCATTER, which returns values_out.

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
    def resize(
        self,
        input: Operand,
        scale: Sizes,
        offset: Sizes,
        border: Sizes,
        *,
        mode: ResizeMode | str,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator RESIZE, which returns output.

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
    def cast(
        self, input: Operand, *, dtype: _DTypes = ..., scaled: bool = ..., name: _Names = ...
    ) -> Value:
        """Add the operator CAST, which returns output.

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
        self,
        input: Operand,
        multiplier: Operand,
        shift: Operand,
        input_zp: Operand | None = ...,
        output_zp: Operand | None = ...,
        *,
        scale32: bool = ...,
        rounding_mode: RoundingMode | str = ...,
        per_channel: bool = ...,
        input_unsigned: bool = ...,
        output_unsigned: bool = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator RESCALE, which returns output.

        Types:
            input T, multiplier INT32, shift INT8, input_zp T, output_zp U, scale32 True -> output U
              PRO-INT: T INT8, INT16, INT32 or INT48; U INT8, INT16 or INT32
            input T, multiplier INT16, shift INT8, input_zp T, output_zp U, scale32 False -> output
              U
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
    def identity(self, input1: Operand, *, dtype: _DTypes = ..., name: _Names = ...) -> Value:
        """Add the operator IDENTITY, which returns output.

        Types:
            input1 T -> output T
              PRO-INT or PRO-FP: T BOOL, INT8, INT16, INT32 or INT64
              PRO-INT: T INT4 or INT48
              PRO-FP: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled
        """
    def matmul_t_block_scaled(
        self,
        a_data: Operand,
        a_scale: Operand,
        b_data: Operand,
        b_scale: Operand,
        *,
        block_size: BlockSize | int | None = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator MATMUL_T_BLOCK_SCALED, which returns output_data.

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
            - sizes of one letter are equal: output_data [N, I, J], a_data [N, I, K], b_data [_, J,
              K]
        """
    def cast_from_block_scaled(
        self,
        input_data: Operand,
        input_scale: Operand,
        *,
        block_size: BlockSize | int | None = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator CAST_FROM_BLOCK_SCALED, which returns output_data.

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
        self,
        input_data: Operand,
        *,
        block_size: BlockSize | int | None = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> tuple[Value, Value]:
        """Add the operator CAST_TO_BLOCK_SCALED, which returns output_data, output_scale.

        Types:
            input_data T -> output_data U, output_scale S
              PRO-FP: T FP32 or BF16; U data of block-scaled; S FP8UE8M0

        Rules:
            - no blocks of one element, of an operator that takes or makes scales
            - input_data has rank at least 1
            - the last dimension of input_data is a multiple of the block size
        """
    def dim(self, input1: Operand, *, axis: int, name: _Names = ...) -> Value:
        """Add the operator DIM, which returns output.

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
    def concat_shape(self, input: Sequence[Sizes], *, name: _Names = ...) -> Value:
        """Add the operator CONCAT_SHAPE, which returns output.

        Types:
            input shape -> output shape
              PRO-INT or PRO-FP, EXT-SHAPE

        Rules:
            - there is at least one operand
            - no operand is a shape of rank 0
        """
    def add_shape(self, input1: Sizes, input2: Sizes, *, name: _Names = ...) -> Value:
        """Add the operator ADD_SHAPE, which returns output.

        Types:
            input1 shape, input2 shape -> output shape
              PRO-INT or PRO-FP, EXT-SHAPE

        Rules:
            - both operands have one rank
            - the values of the result fit into 64 bits
        """
    def sub_shape(self, input1: Sizes, input2: Sizes, *, name: _Names = ...) -> Value:
        """Add the operator SUB_SHAPE, which returns output.

        Types:
            input1 shape, input2 shape -> output shape
              PRO-INT or PRO-FP, EXT-SHAPE

        Rules:
            - both operands have one rank
            - the values of the result fit into 64 bits
        """
    def mul_shape(self, input1: Sizes, input2: Sizes, *, name: _Names = ...) -> Value:
        """Add the operator MUL_SHAPE, which returns output.

        Types:
            input1 shape, input2 shape -> output shape
              PRO-INT or PRO-FP, EXT-SHAPE

        Rules:
            - both operands have one rank
            - the values of the result fit into 64 bits
        """
    def slice_shape(
        self, input: Sizes, start: Operand, size: Operand, *, name: _Names = ...
    ) -> Value:
        """Add the operator SLICE_SHAPE, which returns output.

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
    def exp2_shape(self, input: Sizes, *, name: _Names = ...) -> Value:
        """Add the operator EXP2_SHAPE, which returns output.

        Types:
            input shape -> output shape
              PRO-INT or PRO-FP, EXT-SHAPE

        Rules:
            - the values of input are 0 to 62
        """
    def log2_ceil_shape(self, input: Sizes, *, name: _Names = ...) -> Value:
        """Add the operator LOG2_CEIL_SHAPE, which returns output.

        Types:
            input shape -> output shape
              PRO-INT or PRO-FP, EXT-SHAPE

        Rules:
            - the values of input are 1 or more
        """
    def log2_floor_shape(self, input: Sizes, *, name: _Names = ...) -> Value:
        """Add the operator LOG2_FLOOR_SHAPE, which returns output.

        Types:
            input shape -> output shape
              PRO-INT or PRO-FP, EXT-SHAPE

        Rules:
            - the values of input are 1 or more
        """
    def max_shape(self, input1: Sizes, input2: Sizes, *, name: _Names = ...) -> Value:
        """Add the operator MAX_SHAPE, which returns output.

        Types:
            input1 shape, input2 shape -> output shape
              PRO-INT or PRO-FP, EXT-SHAPE

        Rules:
            - both operands have one rank
        """
    def min_shape(self, input1: Sizes, input2: Sizes, *, name: _Names = ...) -> Value:
        """Add the operator MIN_SHAPE, which returns output.

        Types:
            input1 shape, input2 shape -> output shape
              PRO-INT or PRO-FP, EXT-SHAPE

        Rules:
            - both operands have one rank
        """
    def mod_shape(self, input1: Sizes, input2: Sizes, *, name: _Names = ...) -> Value:
        """Add the operator MOD_SHAPE, which returns output.

        Types:
            input1 shape, input2 shape -> output shape
              PRO-INT or PRO-FP, EXT-SHAPE

        Rules:
            - both operands have one rank
            - no value of input2 is 0
        """
    def div_ceil_shape(self, input1: Sizes, input2: Sizes, *, name: _Names = ...) -> Value:
        """Add the operator DIV_CEIL_SHAPE, which returns output.

        Types:
            input1 shape, input2 shape -> output shape
              PRO-INT or PRO-FP, EXT-SHAPE

        Rules:
            - both operands have one rank
            - no value of input2 is 0
        """
    def div_floor_shape(self, input1: Sizes, input2: Sizes, *, name: _Names = ...) -> Value:
        """Add the operator DIV_FLOOR_SHAPE, which returns output.

        Types:
            input1 shape, input2 shape -> output shape
              PRO-INT or PRO-FP, EXT-SHAPE

        Rules:
            - both operands have one rank
            - no value of input2 is 0
        """
    def assert_equal_shape(
        self, input1: Sizes, input2: Sizes, *, allow_broadcast: bool = ...
    ) -> None:
        """Add the operator ASSERT_EQUAL_SHAPE, which returns nothing.

        Types:
            input1 shape, input2 shape -> nothing
              PRO-INT or PRO-FP, EXT-SHAPE

        Rules:
            - both operands have one rank
            - the shapes are equal; with allow_broadcast a value may be 1
        """
    def conv2d_block_scaled(
        self,
        input_data: Operand,
        input_scale: Operand,
        weight_data: Operand,
        weight_scale: Operand,
        bias: Operand,
        pad: Sizes,
        stride: Sizes,
        dilation: Sizes,
        *,
        block_size: BlockSize | int | None = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator CONV2D_BLOCK_SCALED, which returns output.

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
            - sizes of one letter are equal: output [N, P, Q, O], weight_data [O, K, L, C],
              input_data [N, _, _, C]
        """
    def max_pool2d_adaptive(
        self,
        input: Operand,
        kernel: Sizes,
        stride: Sizes,
        pad: Sizes,
        *,
        nan_mode: NanPropagationMode | str = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator MAX_POOL2D_ADAPTIVE, which returns output.

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
        self,
        input: Operand,
        kernel: Sizes,
        stride: Sizes,
        pad: Sizes,
        *,
        input_zp: Operand | None = ...,
        output_zp: Operand | None = ...,
        acc_type: DTypeLike | None = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator AVG_POOL2D_ADAPTIVE, which returns output.

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
        self,
        input: Operand,
        new_value_shape: Sizes,
        *,
        input_scale: Operand | None = ...,
        block_size: BlockSize | int | None = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value | tuple[Value, ...]:
        """Add the operator RESHAPE_BLOCK_SCALED, which returns output, output_scale.

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
        self,
        values: Operand,
        indices: Operand,
        row_count: Operand,
        *,
        values_scale: Operand | None = ...,
        block_size: BlockSize | int | None = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value | tuple[Value, ...]:
        """Add the operator ROW_GATHER_BLOCK_SCALED, which returns output, output_scale.

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
    def row_gather(
        self,
        values: Operand,
        indices: Operand,
        row_count: Operand,
        *,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator ROW_GATHER, which returns output.

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
        self,
        a: Operand,
        b: Operand,
        a_zp: Operand | None = ...,
        b_zp: Operand | None = ...,
        *,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator MATMUL_T, which returns output.

        Types:
            a T, b U, a_zp T, b_zp U -> output A
              PRO-INT: T INT8; U INT8; A INT32
              PRO-INT: T INT16; U INT16; A INT48
              PRO-FP: T FP16; U FP16; A FP16
              PRO-FP: T FP32, FP16, BF16, FP8E4M3, FP8E5M2 or block-scaled; U FP32, FP16, BF16,
                FP8E4M3, FP8E5M2 or block-scaled; A FP32
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
        self,
        input: Operand,
        *,
        axis: int,
        nan_mode: NanPropagationMode | str = ...,
        dtype: _DTypes = ...,
        name: _Names = ...,
    ) -> Value:
        """Add the operator ARGMIN, which returns output.

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
