// Operators on values and scales in separate tensors.
func.func @separate(%v: tensor<1x4x64xf8E4M3FN>, %s: tensor<1x4x2xf8E8M0FNU>, %w: tensor<1x5x64xf8E4M3FN>, %ws: tensor<1x5x2xf8E8M0FNU>, %i: tensor<1x2xi32>, %plain: tensor<2x6xf32>) -> (tensor<1x4x5xf32>, tensor<1x4x64xbf16>, tensor<2x128xf8E4M3FN>, tensor<2x4xf8E8M0FNU>, tensor<1x4x64xf8E4M3FN>, tensor<1x4x2xf8E8M0FNU>, tensor<12xf32>, tensor<1x2x64xf8E4M3FN>) {
  %0 = "tosa.matmul_t_block_scaled"(%v, %s, %w, %ws) <{block_size = #tosa.block_size<BLOCK_SIZE_32>}> : (tensor<1x4x64xf8E4M3FN>, tensor<1x4x2xf8E8M0FNU>, tensor<1x5x64xf8E4M3FN>, tensor<1x5x2xf8E8M0FNU>) -> tensor<1x4x5xf32>
  %1 = "tosa.cast_from_block_scaled"(%v, %s) <{block_size = #tosa.block_size<BLOCK_SIZE_32>}> : (tensor<1x4x64xf8E4M3FN>, tensor<1x4x2xf8E8M0FNU>) -> tensor<1x4x64xbf16>
  %2:2 = "tosa.cast_to_block_scaled"(%1) <{block_size = #tosa.block_size<BLOCK_SIZE_32>}> : (tensor<1x4x64xbf16>) -> (tensor<1x4x64xf8E4M3FN>, tensor<1x4x2xf8E8M0FNU>)
  %shape = "tosa.const_shape"() <{values = dense<[2, 128]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %3:2 = "tosa.reshape_block_scaled"(%2#0, %2#1, %shape) <{block_size = #tosa.block_size<BLOCK_SIZE_32>}> : (tensor<1x4x64xf8E4M3FN>, tensor<1x4x2xf8E8M0FNU>, !tosa.shape<2>) -> (tensor<2x128xf8E4M3FN>, tensor<2x4xf8E8M0FNU>)
  %rows = "tosa.const"() <{values = dense<2> : tensor<1xi32>}> : () -> tensor<1xi32>
  %4:2 = "tosa.row_gather_block_scaled"(%v, %s, %i, %rows) <{block_size = #tosa.block_size<BLOCK_SIZE_32>}> : (tensor<1x4x64xf8E4M3FN>, tensor<1x4x2xf8E8M0FNU>, tensor<1x2xi32>, tensor<1xi32>) -> (tensor<1x4x64xf8E4M3FN>, tensor<1x4x2xf8E8M0FNU>)
  %flat = "tosa.const_shape"() <{values = dense<12> : tensor<1xindex>}> : () -> !tosa.shape<1>
  %5 = "tosa.reshape_block_scaled"(%plain, %flat) <{block_size = #tosa.block_size<BLOCK_SIZE_1>}> : (tensor<2x6xf32>, !tosa.shape<1>) -> tensor<12xf32>
  %one = "tosa.const"() <{values = dense<1> : tensor<1xi32>}> : () -> tensor<1xi32>
  %6 = "tosa.row_gather_block_scaled"(%v, %i, %one) <{block_size = #tosa.block_size<BLOCK_SIZE_1>}> : (tensor<1x4x64xf8E4M3FN>, tensor<1x2xi32>, tensor<1xi32>) -> tensor<1x2x64xf8E4M3FN>
  return %0, %1, %3#0, %3#1, %4#0, %4#1, %5, %6 : tensor<1x4x5xf32>, tensor<1x4x64xbf16>, tensor<2x128xf8E4M3FN>, tensor<2x4xf8E8M0FNU>, tensor<1x4x64xf8E4M3FN>, tensor<1x4x2xf8E8M0FNU>, tensor<12xf32>, tensor<1x2x64xf8E4M3FN>
}

// -----

// A convolution whose shapes are operands.
func.func @convolution(%a: tensor<1x4x5x32xf4E2M1FN>, %as: tensor<1x4x5x1xf8E8M0FNU>) -> tensor<1x3x4x2xf32> {
  %w = "tosa.const"() <{values = dense<1.5> : tensor<2x2x2x32xf4E2M1FN>}> : () -> tensor<2x2x2x32xf4E2M1FN>
  %ws = "tosa.const"() <{values = dense<2.0> : tensor<2x2x2x1xf8E8M0FNU>}> : () -> tensor<2x2x2x1xf8E8M0FNU>
  %bias = "tosa.const"() <{values = dense<[0.5, -0.5]> : tensor<2xf32>}> : () -> tensor<2xf32>
  %pad = "tosa.const_shape"() <{values = dense<0> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %stride = "tosa.const_shape"() <{values = dense<1> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %dilation = "tosa.const_shape"() <{values = dense<1> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %0 = "tosa.conv2d_block_scaled"(%a, %as, %w, %ws, %bias, %pad, %stride, %dilation) <{block_size = #tosa.block_size<BLOCK_SIZE_32>}> : (tensor<1x4x5x32xf4E2M1FN>, tensor<1x4x5x1xf8E8M0FNU>, tensor<2x2x2x32xf4E2M1FN>, tensor<2x2x2x1xf8E8M0FNU>, tensor<2xf32>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x3x4x2xf32>
  return %0 : tensor<1x3x4x2xf32>
}

// -----

// Values and scales in one tensor: constants of each type of values.
func.func @constants(%a: tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN>>) -> (tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN>>, tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E5M2>>, tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f6E2M3FN>>, tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f6E3M2FN>>, tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN>>, tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:!tosa.mxint8>>) {
  %0 = "tosa.const"() <{values = dense<"0x052A4F7499BEE3082D52779CC1E60B30557A9FC4E90E33587DA2C7EC11365B80A5CAEF14395E83A8CDF2173C6186ABD0F51A3F6489AED3F81D42678CB1D6FB20"> : tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN, {1.0, 0.25}>>}> : () -> tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN>>
  %1 = "tosa.const"() <{values = dense<"0x052A4F7499BEE3082D52779CC1E60B30557A9FC4E90E33587DA2C7EC11365B80A5CAEF14395E83A8CDF2173C6186ABD0F51A3F6489AED3F81D42678CB1D6FB20"> : tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E5M2, {1.0, 0.25}>>}> : () -> tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E5M2>>
  %2 = "tosa.const"() <{values = dense<"0x052A0F34193E23082D12371C01260B30153A1F04290E33183D22072C11361B00250A2F14391E03280D32173C21062B10351A3F24092E13381D02270C31163B20"> : tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f6E2M3FN, {1.0, 0.25}>>}> : () -> tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f6E2M3FN>>
  %3 = "tosa.const"() <{values = dense<"0x052A0F34193E23082D12371C01260B30153A1F04290E33183D22072C11361B00250A2F14391E03280D32173C21062B10351A3F24092E13381D02270C31163B20"> : tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f6E3M2FN, {1.0, 0.25}>>}> : () -> tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f6E3M2FN>>
  %4 = "tosa.const"() <{values = dense<"0x050A0F04090E03080D02070C01060B00050A0F04090E03080D02070C01060B00050A0F04090E03080D02070C01060B00050A0F04090E03080D02070C01060B00"> : tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN, {1.0, 0.25}>>}> : () -> tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN>>
  %5 = "tosa.const"() <{values = dense<"0x052A4F7499BEE3082D52779CC1E60B30557A9FC4E90E33587DA2C7EC11365B80A5CAEF14395E83A8CDF2173C6186ABD0F51A3F6489AED3F81D42678CB1D6FB20"> : tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:!tosa.mxint8, {1.0, 0.25}>>}> : () -> tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:!tosa.mxint8>>
  return %0, %1, %2, %3, %4, %5 : tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN>>, tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E5M2>>, tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f6E2M3FN>>, tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f6E3M2FN>>, tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN>>, tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:!tosa.mxint8>>
}

// -----

// The same value throughout, and the extreme scales: the least, the greatest, NaN.
func.func @splat() -> (tensor<3x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN>>, tensor<1x64x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E5M2>>) {
  %0 = "tosa.const"() <{values = dense<tensor<3x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN, {0x00, 0xFE, 0x01}>> : -6.0 : f4E2M1FN>}> : () -> tensor<3x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN>>
  %1 = "tosa.const"() <{values = dense<tensor<1x64x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E5M2, {2.0, 2.0}>> : 0.5 : f8E5M2>}> : () -> tensor<1x64x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E5M2>>
  return %0, %1 : tensor<3x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN>>, tensor<1x64x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E5M2>>
}
