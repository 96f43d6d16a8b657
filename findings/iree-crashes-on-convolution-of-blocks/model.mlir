module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.1.0d"} {
  func.func @main(%arg0: tensor<1x1x1x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E5M2>> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<1x1x1x1xf32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<1.000000e+00> : tensor<1x1x1x32xbf16>}> : () -> tensor<1x1x1x32xbf16>
    %1 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xf32>}> : () -> tensor<1xf32>
    %2 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xf32>}> : () -> tensor<1xf32>
    %3 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xbf16>}> : () -> tensor<1xbf16>
    %4 = tosa.transpose_conv2d %arg0, %0, %1, %2, %3 {acc_type = f32, out_pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x1x1x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E5M2>>, tensor<1x1x1x32xbf16>, tensor<1xf32>, tensor<1xf32>, tensor<1xbf16>) -> tensor<1x1x1x1xf32>
    return %4 : tensor<1x1x1x1xf32>
  }
}

