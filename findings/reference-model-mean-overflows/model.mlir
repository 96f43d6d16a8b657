module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x1x2x1xf16> {tosa.tensor_name = "x"}) -> (tensor<1x1x1x1xf16> {tosa.tensor_name = "y"}) {
    %0 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xf16>}> : () -> tensor<1xf16>
    %1 = tosa.avg_pool2d %arg0, %0, %0 {acc_type = f16, kernel = array<i64: 1, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 2>} : (tensor<1x1x2x1xf16>, tensor<1xf16>, tensor<1xf16>) -> tensor<1x1x1x1xf16>
    return %1 : tensor<1x1x1x1xf16>
  }
}

