// the shift is i8, the operands are i8
module {
  func.func @main(%a: tensor<4xi8>, %b: tensor<4xi8>) -> tensor<4xi32> {
    %0 = tosa.mul %a, %b {shift = 2 : i8} : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi32>
    return %0 : tensor<4xi32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<4xi8> {tosa.tensor_name = "TosaInput_0"}, %arg1: tensor<4xi8> {tosa.tensor_name = "TosaInput_1"}) -> (tensor<4xi32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.cast %arg0 : (tensor<4xi8>) -> tensor<4xi32>
    %1 = tosa.cast %arg1 : (tensor<4xi8>) -> tensor<4xi32>
    %2 = "tosa.const"() <{values = dense<2> : tensor<1xi8>}> : () -> tensor<1xi8>
    %3 = tosa.mul %0, %1, %2 : (tensor<4xi32>, tensor<4xi32>, tensor<1xi8>) -> tensor<4xi32>
    return %3 : tensor<4xi32>
  }
}

