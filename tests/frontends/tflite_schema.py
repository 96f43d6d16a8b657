"""Operators of TFLite and the fields of their options, from TensorFlow's schema.

`test_tflite_operators.py` compares the table with the classes that LiteRT has for the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Element type of numpy -> its code.
ELEMENT_TYPES: Final[Mapping[str, int]] = {
    "float32": 0,
    "float16": 1,
    "int32": 2,
    "uint8": 3,
    "int64": 4,
    "bool": 6,
    "int16": 7,
    "complex64": 8,
    "int8": 9,
    "float64": 10,
    "uint64": 12,
    "resource": 13,
    "uint32": 15,
    "uint16": 16,
}
#: Activation that is part of another operator -> its code.
ACTIVATIONS: Final[Mapping[str, int]] = {
    "none": 0,
    "relu": 1,
    "relu_n1_to_1": 2,
    "relu6": 3,
    "tanh": 4,
}
SAME, VALID = 0, 1
#: A line for each operator: its code, the number of its options in their union (0 without), and the
#: fields of these: name, position, and type (b, i, I, f and ? as in `struct`; * is a list of integers, F
#: one of floats, s a text).
_TABLE: Final = """
ADD 0 11 activation:0b pot_scale_int16:1?
AVERAGE_POOL_2D 1 5 padding:0b stride_w:1i stride_h:2i filter_width:3i filter_height:4i activation:5b
CONCATENATION 2 10 axis:0i activation:1b
CONV_2D 3 1 padding:0b stride_w:1i stride_h:2i activation:3b dilation_w:4i dilation_h:5i \
quantized_bias_type:6b
DEPTHWISE_CONV_2D 4 2 padding:0b stride_w:1i stride_h:2i depth_multiplier:3i activation:4b \
dilation_w:5i dilation_h:6i
DEPTH_TO_SPACE 5 94 block_size:0i
DEQUANTIZE 6 38
EMBEDDING_LOOKUP 7 0
FLOOR 8 0
HASHTABLE_LOOKUP 10 0
FULLY_CONNECTED 9 8 activation:0b weights_format:1b keep_num_dims:2? quantized_bias_type:4b
L2_NORMALIZATION 11 12 activation:0b
L2_POOL_2D 12 5 padding:0b stride_w:1i stride_h:2i filter_width:3i filter_height:4i activation:5b
LOCAL_RESPONSE_NORMALIZATION 13 13 radius:0i bias:1f alpha:2f beta:3f
LOGISTIC 14 0
LSTM 16 14 activation:0b cell_clip:1f proj_clip:2f kernel_type:3b
MAX_POOL_2D 17 5 padding:0b stride_w:1i stride_h:2i filter_width:3i filter_height:4i activation:5b
MUL 18 21 activation:0b
RELU 19 0
RELU_N1_TO_1 20 0
RELU6 21 0
CALL 31 16 subgraph:0I
RESHAPE 22 17 new_shape:0*
RESIZE_BILINEAR 23 15 align_corners:2? half_pixel_centers:3?
RNN 24 7 activation:0b
SOFTMAX 25 9 beta:0f
SPACE_TO_DEPTH 26 19 block_size:0i
SVDF 27 6 rank:0i activation:1b
TANH 28 0
PAD 34 22
UNIDIRECTIONAL_SEQUENCE_RNN 35 31 time_major:0? activation:1b
GATHER 36 23 axis:0i batch_dims:1i
BATCH_TO_SPACE_ND 37 24
SPACE_TO_BATCH_ND 38 25
TRANSPOSE 39 26
MEAN 40 27 keep_dims:0?
SUB 41 28 activation:0b pot_scale_int16:1?
DIV 42 29 activation:0b
SQUEEZE 43 30 squeeze_dims:0*
UNIDIRECTIONAL_SEQUENCE_LSTM 44 71 activation:0b cell_clip:1f proj_clip:2f time_major:3?
STRIDED_SLICE 45 32 begin_mask:0i end_mask:1i ellipsis_mask:2i new_axis_mask:3i shrink_axis_mask:4i
BIDIRECTIONAL_SEQUENCE_RNN 46 70 time_major:0? activation:1b merge_outputs:2?
EXP 47 33
TOPK_V2 48 34
SPLIT 49 35 num_splits:0i
LOG_SOFTMAX 50 36
BIDIRECTIONAL_SEQUENCE_LSTM 52 69 activation:0b cell_clip:1f proj_clip:2f merge_outputs:3? time_major:4?
CAST 53 37 in_data_type:0b out_data_type:1b
PRELU 54 0
MAXIMUM 55 39
ARG_MAX 56 40 output_type:0b
MINIMUM 57 39
LESS 58 41
NEG 59 42
PADV2 60 43
GREATER 61 44
GREATER_EQUAL 62 45
LESS_EQUAL 63 46
SELECT 64 47
SLICE 65 48
SIN 66 0
TRANSPOSE_CONV 67 49 padding:0b stride_w:1i stride_h:2i activation:3b quantized_bias_type:4b
SPARSE_TO_DENSE 68 50 validate_indices:0?
TILE 69 51
EXPAND_DIMS 70 52
EQUAL 71 53
NOT_EQUAL 72 54
LOG 73 0
SUM 74 27 keep_dims:0?
SQRT 75 0
RSQRT 76 0
SHAPE 77 55 out_type:0b
POW 78 56
ARG_MIN 79 57 output_type:0b
FAKE_QUANT 80 58 min:0f max:1f num_bits:2i narrow_range:3?
REDUCE_PROD 81 27 keep_dims:0?
REDUCE_MAX 82 27 keep_dims:0?
PACK 83 59 values_count:0i axis:1i
LOGICAL_OR 84 60
ONE_HOT 85 61 axis:0i
LOGICAL_AND 86 62
LOGICAL_NOT 87 63
UNPACK 88 64 num:0i axis:1i
REDUCE_MIN 89 27 keep_dims:0?
FLOOR_DIV 90 65
REDUCE_ANY 91 27 keep_dims:0?
SQUARE 92 66
ZEROS_LIKE 93 67
FILL 94 68
FLOOR_MOD 95 72
RANGE 96 73
RESIZE_NEAREST_NEIGHBOR 97 74 align_corners:0? half_pixel_centers:1?
LEAKY_RELU 98 75 alpha:0f
SQUARED_DIFFERENCE 99 76
MIRROR_PAD 100 77 mode:0b
ABS 101 78
SPLIT_V 102 79 num_splits:0i
UNIQUE 103 80 idx_out_type:0b
CEIL 104 0
REVERSE_V2 105 81
ADD_N 106 82
GATHER_ND 107 83
COS 108 84
WHERE 109 85
RANK 110 86
ELU 111 0
REVERSE_SEQUENCE 112 87 seq_dim:0i batch_dim:1i
MATRIX_DIAG 113 88
QUANTIZE 114 89
MATRIX_SET_DIAG 115 90
ROUND 116 0
HARD_SWISH 117 91
IF 118 92 then_subgraph_index:0i else_subgraph_index:1i
WHILE 119 93 cond_subgraph_index:0i body_subgraph_index:1i
SCATTER_ND 122 97
SELECT_V2 123 98
SEGMENT_SUM 125 100
BATCH_MATMUL 126 101 adj_x:0? adj_y:1?
CUMSUM 128 102 exclusive:0? reverse:1?
CALL_ONCE 129 103 init_subgraph_index:0i
BROADCAST_TO 130 104
RFFT2D 131 105
CONV_3D 132 106 padding:0b stride_d:1i stride_w:2i stride_h:3i activation:4b \
dilation_d:5i dilation_w:6i dilation_h:7i
IMAG 133 0
REAL 134 0
COMPLEX_ABS 135 0
REDUCE_ALL 140 27 keep_dims:0?
CONV_3D_TRANSPOSE 141 106 padding:0b stride_d:1i stride_w:2i stride_h:3i activation:4b \
dilation_d:5i dilation_w:6i dilation_h:7i
VAR_HANDLE 142 111 shared_name:1s
READ_VARIABLE 143 112
ASSIGN_VARIABLE 144 113
BROADCAST_ARGS 145 0
BUCKETIZE 147 115 boundaries:0F
GELU 150 116 approximate:0?
DYNAMIC_UPDATE_SLICE 151 117
RELU_0_TO_1 152 0
UNSORTED_SEGMENT_PROD 153 118
UNSORTED_SEGMENT_MAX 154 119
UNSORTED_SEGMENT_SUM 155 121
ATAN2 156 122
UNSORTED_SEGMENT_MIN 157 120
SIGN 158 123
BITCAST 159 124
BITWISE_XOR 160 125
RIGHT_SHIFT 161 126
"""


def _row(line: str) -> tuple[str, tuple[int, int, str]]:
    name, code, union, *fields = line.split()
    return name, (int(code), int(union), " ".join(fields))


#: Operator -> its code, the number of its options, and their fields.
OPERATORS: Final[Mapping[str, tuple[int, int, str]]] = dict(map(_row, _TABLE.split("\n")[1:-1]))
