// out_pad adds, as today
module {
  func.func @main(%a: tensor<1x2x2x1xf32>, %b: tensor<1x3x3x1xf32>, %c: tensor<1xf32>) -> tensor<1x3x4x1xf32> {
    %0 = "tosa.transpose_conv2d"(%a, %b, %c) {out_pad = array<i64: -1, 0, 0, 0>, out_shape = array<i64: -1, -1, -1, -1>, stride = array<i64: 1, 1>} : (tensor<1x2x2x1xf32>, tensor<1x3x3x1xf32>, tensor<1xf32>) -> tensor<1x3x4x1xf32>
    return %0 : tensor<1x3x4x1xf32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x2x2x1xf32> {tosa.tensor_name = "TosaInput_0"}, %arg1: tensor<1x3x3x1xf32> {tosa.tensor_name = "TosaInput_1"}, %arg2: tensor<1xf32> {tosa.tensor_name = "TosaInput_2"}) -> (tensor<1x3x4x1xf32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xf32>}> : () -> tensor<1xf32>
    %1 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xf32>}> : () -> tensor<1xf32>
    %2 = tosa.transpose_conv2d %arg0, %arg1, %arg2, %0, %1 {acc_type = f32, out_pad = array<i64: -1, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x2x2x1xf32>, tensor<1x3x3x1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x3x4x1xf32>
    return %2 : tensor<1x3x4x1xf32>
  }
}

