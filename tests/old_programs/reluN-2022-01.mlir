// replaced by a clamp
module {
  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "tosa.reluN"(%a) {max_fp = 6.0 : f32, max_int = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<4xf32> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<4xf32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.clamp %arg0 {max_val = 6.000000e+00 : f32, min_val = 0.000000e+00 : f32} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

