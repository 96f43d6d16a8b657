"""Signatures of the builder's functions; schema/generate_stubs.py writes this file."""

from collections.abc import Sequence

from tosa_convert.builder.block_builder import BlockBuilder
from tosa_convert.builder.values import DTypeLike, Operand, Sizes, Value
from tosa_convert.graph.dtypes import BlockSize, NanPropagationMode, ResizeMode, RoundingMode

class Operators(BlockBuilder):
    def argmax(
        self,
        input: Operand,
        *,
        axis: int,
        nan_mode: NanPropagationMode | str = ...,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
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
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
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
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
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
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
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
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def fft2d(
        self,
        input_real: Operand,
        input_imag: Operand,
        *,
        inverse: bool = ...,
        local_bound: bool = ...,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> tuple[Value, Value]: ...
    def matmul(
        self,
        a: Operand,
        b: Operand,
        a_zp: Operand | None = ...,
        b_zp: Operand | None = ...,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def max_pool2d(
        self,
        input: Operand,
        *,
        kernel: Sequence[int],
        stride: Sequence[int] = ...,
        pad: Sequence[int] = ...,
        nan_mode: NanPropagationMode | str = ...,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def rfft2d(
        self,
        input_real: Operand,
        *,
        local_bound: bool = ...,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> tuple[Value, Value]: ...
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
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def clamp(
        self,
        input: Operand,
        *,
        min_val: float,
        max_val: float,
        nan_mode: NanPropagationMode | str = ...,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def erf(
        self,
        input: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def sigmoid(
        self,
        input: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def tanh(
        self,
        input: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def add(
        self,
        input1: Operand,
        input2: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def arithmetic_right_shift(
        self,
        input1: Operand,
        input2: Operand,
        *,
        round: bool = ...,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def bitwise_and(
        self,
        input1: Operand,
        input2: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def bitwise_or(
        self,
        input1: Operand,
        input2: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def bitwise_xor(
        self,
        input1: Operand,
        input2: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def intdiv(
        self,
        input1: Operand,
        input2: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def logical_and(
        self,
        input1: Operand,
        input2: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def logical_left_shift(
        self,
        input1: Operand,
        input2: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def logical_right_shift(
        self,
        input1: Operand,
        input2: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def logical_or(
        self,
        input1: Operand,
        input2: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def logical_xor(
        self,
        input1: Operand,
        input2: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def maximum(
        self,
        input1: Operand,
        input2: Operand,
        *,
        nan_mode: NanPropagationMode | str = ...,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def minimum(
        self,
        input1: Operand,
        input2: Operand,
        *,
        nan_mode: NanPropagationMode | str = ...,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def mul(
        self,
        input1: Operand,
        input2: Operand,
        shift: Operand | None = ...,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def pow(
        self,
        input1: Operand,
        input2: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def sub(
        self,
        input1: Operand,
        input2: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def table(
        self,
        input1: Operand,
        table: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def abs(
        self,
        input1: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def bitwise_not(
        self,
        input1: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def ceil(
        self,
        input1: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def clz(
        self,
        input1: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def cos(
        self,
        input1: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def exp(
        self,
        input1: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def floor(
        self,
        input1: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def log(
        self,
        input1: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def logical_not(
        self,
        input1: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def negate(
        self,
        input1: Operand,
        input1_zp: Operand | None = ...,
        output_zp: Operand | None = ...,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def reciprocal(
        self,
        input1: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def rsqrt(
        self,
        input1: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def sin(
        self,
        input1: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def select(
        self,
        input1: Operand,
        input2: Operand,
        input3: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def equal(
        self,
        input1: Operand,
        input2: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def greater(
        self,
        input1: Operand,
        input2: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def greater_equal(
        self,
        input1: Operand,
        input2: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def reduce_all(
        self,
        input: Operand,
        *,
        axis: int,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def reduce_any(
        self,
        input: Operand,
        *,
        axis: int,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def reduce_max(
        self,
        input: Operand,
        *,
        axis: int,
        nan_mode: NanPropagationMode | str = ...,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def reduce_min(
        self,
        input: Operand,
        *,
        axis: int,
        nan_mode: NanPropagationMode | str = ...,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def reduce_product(
        self,
        input: Operand,
        *,
        axis: int,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def reduce_sum(
        self,
        input: Operand,
        *,
        axis: int,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def concat(
        self,
        input1: Sequence[Operand],
        *,
        axis: int,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def pad(
        self,
        input1: Operand,
        padding: Sizes,
        pad_const: Operand | None = ...,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def reshape(
        self,
        input1: Operand,
        shape: Sizes,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def reverse(
        self,
        input1: Operand,
        *,
        axis: int,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def slice(
        self,
        input1: Operand,
        start: Sizes,
        size: Sizes,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def tile(
        self,
        input1: Operand,
        multiples: Sizes,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def transpose(
        self,
        input1: Operand,
        *,
        perms: Sequence[int],
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def gather(
        self,
        values: Operand,
        indices: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def scatter(
        self,
        values_in: Operand,
        indices: Operand,
        input: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def resize(
        self,
        input: Operand,
        scale: Sizes,
        offset: Sizes,
        border: Sizes,
        *,
        mode: ResizeMode | str,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def cast(
        self,
        input: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        scaled: bool = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
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
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def identity(
        self,
        input1: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def matmul_t_block_scaled(
        self,
        a_data: Operand,
        a_scale: Operand,
        b_data: Operand,
        b_scale: Operand,
        *,
        block_size: BlockSize | int | None = ...,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def cast_from_block_scaled(
        self,
        input_data: Operand,
        input_scale: Operand,
        *,
        block_size: BlockSize | int | None = ...,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def cast_to_block_scaled(
        self,
        input_data: Operand,
        *,
        block_size: BlockSize | int | None = ...,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> tuple[Value, Value]: ...
    def dim(
        self,
        input1: Operand,
        *,
        axis: int,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def concat_shape(
        self,
        input: Sequence[Sizes],
        *,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def add_shape(
        self,
        input1: Sizes,
        input2: Sizes,
        *,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def sub_shape(
        self,
        input1: Sizes,
        input2: Sizes,
        *,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def mul_shape(
        self,
        input1: Sizes,
        input2: Sizes,
        *,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def slice_shape(
        self,
        input: Sizes,
        start: Operand,
        size: Operand,
        *,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def exp2_shape(
        self,
        input: Sizes,
        *,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def log2_ceil_shape(
        self,
        input: Sizes,
        *,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def log2_floor_shape(
        self,
        input: Sizes,
        *,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def max_shape(
        self,
        input1: Sizes,
        input2: Sizes,
        *,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def min_shape(
        self,
        input1: Sizes,
        input2: Sizes,
        *,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def mod_shape(
        self,
        input1: Sizes,
        input2: Sizes,
        *,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def div_ceil_shape(
        self,
        input1: Sizes,
        input2: Sizes,
        *,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def div_floor_shape(
        self,
        input1: Sizes,
        input2: Sizes,
        *,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def assert_equal_shape(
        self,
        input1: Sizes,
        input2: Sizes,
        *,
        allow_broadcast: bool = ...,
    ) -> None: ...
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
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def max_pool2d_adaptive(
        self,
        input: Operand,
        kernel: Sizes,
        stride: Sizes,
        pad: Sizes,
        *,
        nan_mode: NanPropagationMode | str = ...,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
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
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def reshape_block_scaled(
        self,
        input: Operand,
        new_value_shape: Sizes,
        *,
        input_scale: Operand | None = ...,
        block_size: BlockSize | int | None = ...,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value | tuple[Value, ...]: ...
    def row_gather_block_scaled(
        self,
        values: Operand,
        indices: Operand,
        row_count: Operand,
        *,
        values_scale: Operand | None = ...,
        block_size: BlockSize | int | None = ...,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value | tuple[Value, ...]: ...
    def row_gather(
        self,
        values: Operand,
        indices: Operand,
        row_count: Operand,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
    def matmul_t(
        self,
        a: Operand,
        b: Operand,
        a_zp: Operand | None = ...,
        b_zp: Operand | None = ...,
        *,
        dtype: DTypeLike | Sequence[DTypeLike] | None = ...,
        name: str | Sequence[str] = ...,
    ) -> Value: ...
