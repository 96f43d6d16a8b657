// a negative axis of i64
module {
  func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x6xf32> {
    %s = "tosa.const"() {value = dense<1> : tensor<i8>} : () -> tensor<i8>
    %0 = "tosa.concat"(%a, %b) {axis = -1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
    return %0 : tensor<2x6xf32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<2x3xf32> {tosa.tensor_name = "TosaInput_0"}, %arg1: tensor<2x3xf32> {tosa.tensor_name = "TosaInput_1"}) -> (tensor<2x6xf32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<1> : tensor<i8>}> : () -> tensor<i8>
    %1 = tosa.concat %arg0, %arg1 {axis = 1 : i32} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
    return %1 : tensor<2x6xf32>
  }
}

