// operands of different rank; the constant is reshaped itself
module {
  func.func @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %s = "tosa.const"() <{value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>}> : () -> tensor<3xf32>
    %0 = tosa.add %a, %s : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<2x3xf32> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<2x3xf32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<[[1.000000e+00, 2.000000e+00, 3.000000e+00]]> : tensor<1x3xf32>}> : () -> tensor<1x3xf32>
    %1 = tosa.add %arg0, %0 : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }
}

