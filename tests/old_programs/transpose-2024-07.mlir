// the permutation is a tensor of i64
module {
  func.func @main(%a: tensor<2x3xf32>) -> tensor<3x2xf32> {
    %p = "tosa.const"() <{value = dense<[1, 0]> : tensor<2xi64>}> : () -> tensor<2xi64>
    %0 = tosa.transpose %a, %p : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<3x2xf32>
    return %0 : tensor<3x2xf32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<2x3xf32> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<3x2xf32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.transpose %arg0 {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
    return %0 : tensor<3x2xf32>
  }
}

