"""Which of our rules answer the conditions that the official negative tests are named after.

A pattern matches rules, such as `*-rank`; `code:` precedes a code of `errors.CODES`, where a
program is refused as unsound before its operators are judged.
"""

from __future__ import annotations

from typing import Final

#: Conditions that the generator names, and makes no test of.
NEVER_MADE: Final = {"WrongScaledBlockShapeDimension"}

_ROWS: Final = """
ArgmaxOutputRankMismatch          argmax-output-rank
ArgmaxOutputShapeMismatch         argmax-output-shape
AssertShapesNotEqual              assert-equal-shape-equal
AxisLargerRank                    *-axis
AxisSmallerZero                   *-axis
BatchMismatch                     resize-output-batch *fft2d-output-real-batch
BorderLargerEqualMax              resize-border-range
BorderSmallerMin                  resize-border-range
BroadcastShapesMismatch           *-broadcast
ChannelMismatch                   resize-output-channels
ConcatInputDimMismatch            concat-sizes
ConcatInputRankMismatch           concat-rank
ConcatNoInputList                 concat-empty concat-shape-input-list
ConcatShapeRankZeroInput          concat-shape-input-rank
ConcatShapeSumMismatch            concat-output-shape
CondGraphOutputNotMatchingBool    while-loop-condition-type
CondGraphOutputShapeNotSizeOne    while-loop-condition-shape
CondIfCondNotMatchingBool         cond-if-condition-type
CondIfCondShapeNotSizeOne         cond-if-condition-shape
CondIfInputListElseGraphMismatch  cond-if-else-inputs
CondIfInputListThenGraphMismatch  cond-if-then-inputs
CondIfOutputListElseGraphMismatch cond-if-else-outputs
CondIfOutputListThenGraphMismatch cond-if-then-outputs
ConvBiasShapeMismatch             *conv*-bias-size
ConvOutputShapeMismatch           *conv*-output-* transpose-conv2d-*-below-one
ConvOutputShapeNonInteger         *conv*-not-divisible
DilationSmallerOne                *conv*-dilation-below-one
DimensionMismatch                 *-output-shape
FFTInputShapeMismatch             fft2d-input-shapes
FFTOutputShapeMismatch            *fft2d-output-real-*
IndexOutsideBounds                transpose-perms-range
IndexUsedTwice                    transpose-perms-duplicate
InputDimensionMismatch            cast-from-block-scaled-input-scale-shape
InputListBodyGraphInputMismatch   while-loop-body-inputs
InputListBodyGraphOutputMismatch  while-loop-body-outputs
InputListCondGraphMismatch        while-loop-cond-inputs
InputListOutputListMismatch       while-loop-output-list
InputRank1WrongRank               mul-shift-shape
InputShapeRankMismatch            *-shape-rank
InputSizeStartLengthMismatch      slice-start-length slice-size-length
InputZeroPointNotZero             *-input-zp-not-zero *-input1-zp-not-zero matmul*-a-zp-not-zero
KernelNotPowerOfTwo               *fft2d-height-power-of-two *fft2d-width-power-of-two
KernelSmallerOne                  *pool2d*-kernel-below-one
MatmulTBlockScaledBroadcastShapeMismatch matmul-t-block-scaled-batch
MaxDimExceeded                    resize-input-*-range resize-output-*-range
MaxSmallerMin                     clamp-range
OffsetLargerEqualMax              resize-offset-range
OffsetSmallerMin                  resize-offset-range
OutputShapeRankMismatch           *-shape-output-rank
OutputZeroPointNotZero            *-output-zp-not-zero
PadLargerEqualKernel              *pool2d*-pad-height *pool2d*-pad-width transpose-conv2d-out-pad-*
PadOutputShapeMismatch            pad-output-shape
PadSmallerZero                    *-pad-negative pad-negative
PoolingOutputShapeMismatch        *pool2d*-output-height *pool2d*-output-width
PoolingOutputShapeNonInteger      *pool2d*-not-divisible
RankMismatch                      *-rank
RescaleI32InputOutputUnsigned     rescale-output-unsigned
RescaleI32InputUnsigned           rescale-input-unsigned
RescaleI32OutputInputUnsigned     rescale-input-unsigned
RescaleI32OutputUnsigned          rescale-output-unsigned
RescaleI48InputOutputUnsigned     rescale-output-unsigned
RescaleI48InputUnsigned           rescale-input-unsigned
RescaleInputUnsignedOutputUnsigned rescale-unsigned
RescalePerChannelRank0            rescale-per-channel
ReshapeNewShapeOutputMismatch     reshape-*element* reshape-*output-* reshape-*-new-value-shape-blocks
ResizeOutputShapeMismatch         resize-output-height resize-output-width
ResizeOutputShapeNonInteger       resize-*-not-divisible
ScaleDLargerMax                   resize-scale-denominator
ScaleNLargerMax                   resize-scale-numerator
ScaleNotTrue                      rescale-rounding-mode
ScaleSmallerEqualZero             resize-scale-numerator resize-scale-denominator
ScaleTrue                         rescale-scale32
ShapeOfAxisNotOne                 reduce-*-output-shape
SizeOutputShapeMismatch           slice-output-shape slice-shape-output-rank
SizeSmallerEqualZero              slice-size slice-shape-size
StartSizeOutsideBounds            slice-bounds slice-shape-bounds
StartSmallerZero                  slice-start slice-shape-start
StrideSmallerOne                  *-stride-below-one
TensorSizeInputOutputMismatch     reshape-*element* reshape-*output-*
TileMultiplesOutputShapeMismatch  tile-output-shape
TransposePermsOutputShapeMismatch transpose-output-shape
U16InputZeroPointNotValid         rescale-input-zp-uint16
U16OutputZeroPointNotValid        rescale-output-zp-uint16
UnknownBlockSizeEnum              code:malformed-operator
WeightZeroPointNotZero            *conv*-weight-zp-not-zero
WrongBlockSizeDimension           *-block-scaled-*-blocks
WrongInputList                    code:malformed-operator code:undefined-name row-gather-*-scaled-results
WrongInputShapeType               code:malformed-operator
WrongOutputList                   code:malformed-operator code:undefined-name
WrongOutputShapeType              code:malformed-operator
WrongRank                         *-rank code:version-too-low
"""

#: Condition -> the patterns of the rules that may answer it.
RULES: Final = {
    condition: tuple(patterns)
    for condition, *patterns in map(str.split, _ROWS.strip().splitlines())
}
