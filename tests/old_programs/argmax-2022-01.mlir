// the result has 64 bits
module {
  func.func @main(%a: tensor<2x3xf32>) -> tensor<2xi64> {
    %s = "tosa.const"() {value = dense<1> : tensor<i8>} : () -> tensor<i8>
    %0 = "tosa.argmax"(%a) {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2xi64>
    return %0 : tensor<2xi64>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.1.0d"} {
  func.func @main(%arg0: tensor<2x3xf32> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<2xi64> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<1> : tensor<i8>}> : () -> tensor<i8>
    %1 = tosa.argmax %arg0 {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2xi32>
    %2 = tosa.cast %1 : (tensor<2xi32>) -> tensor<2xi64>
    return %2 : tensor<2xi64>
  }
}

