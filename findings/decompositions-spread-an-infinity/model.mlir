module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x1x1x1xf32> {tosa.tensor_name = "avg_pool2d"}) -> (tensor<1x2x3x1xf32> {tosa.tensor_name = "transpose_conv2d"}) {
    %0 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xf32>}> : () -> tensor<1xf32>
    %1 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1x1x1x1xf32>}> : () -> tensor<1x1x1x1xf32>
    %2 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xf32>}> : () -> tensor<1xf32>
    %3 = tosa.transpose_conv2d %arg0, %1, %2, %0, %0 {acc_type = f32, out_pad = array<i64: 0, 1, 2, 0>, stride = array<i64: 2, 1>} : (tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x2x3x1xf32>
    return %3 : tensor<1x2x3x1xf32>
  }
}

