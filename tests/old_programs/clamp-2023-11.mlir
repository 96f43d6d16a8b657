// bounds of f16
module {
  func.func @main(%a: tensor<4xf16>) -> tensor<4xf16> {
    %0 = tosa.clamp %a {max_fp = 5.25 : f16, max_int = 5 : i64, min_fp = -1.5 : f16, min_int = -1 : i64} : (tensor<4xf16>) -> tensor<4xf16>
    return %0 : tensor<4xf16>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<4xf16> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<4xf16> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.clamp %arg0 {max_val = 5.250000e+00 : f16, min_val = -1.500000e+00 : f16} : (tensor<4xf16>) -> tensor<4xf16>
    return %0 : tensor<4xf16>
  }
}

