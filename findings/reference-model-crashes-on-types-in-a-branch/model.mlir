module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.1.0d"} {
  func.func @main(%arg0: tensor<1x4x6x1xbf16> {tosa.tensor_name = "transpose_conv2d_slice"}) -> (tensor<1x7x8x1xf32> {tosa.tensor_name = "transpose_conv2d"}) {
    %0 = "tosa.const"() <{values = dense<true> : tensor<i1>}> : () -> tensor<i1>
    %1 = tosa.cond_if %0 (%arg1 = %arg0) : tensor<i1> (tensor<1x4x6x1xbf16>) -> tensor<1x7x8x1xf32> {
    ^bb0(%arg1: tensor<1x4x6x1xbf16>):
      %2 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1x1x1x1xf8E5M2>}> : () -> tensor<1x1x1x1xf8E5M2>
      %3 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xf32>}> : () -> tensor<1xf32>
      %4 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xbf16>}> : () -> tensor<1xbf16>
      %5 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xf8E5M2>}> : () -> tensor<1xf8E5M2>
      %6 = tosa.transpose_conv2d %arg1, %2, %3, %4, %5 {acc_type = f32, out_pad = array<i64: 1, 2, 2, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x6x1xbf16>, tensor<1x1x1x1xf8E5M2>, tensor<1xf32>, tensor<1xbf16>, tensor<1xf8E5M2>) -> tensor<1x7x8x1xf32>
      tosa.yield %6 : tensor<1x7x8x1xf32>
    } else {
    ^bb0(%arg1: tensor<1x4x6x1xbf16>):
      %2 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1x7x8x1xf32>}> : () -> tensor<1x7x8x1xf32>
      tosa.yield %2 : tensor<1x7x8x1xf32>
    }
    return %1 : tensor<1x7x8x1xf32>
  }
}

