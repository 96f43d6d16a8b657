// another name
module {
  func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
    %0 = tosa.int_div %a, %b : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
    return %0 : tensor<4xi32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<4xi32> {tosa.tensor_name = "TosaInput_0"}, %arg1: tensor<4xi32> {tosa.tensor_name = "TosaInput_1"}) -> (tensor<4xi32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.intdiv %arg0, %arg1 : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
    return %0 : tensor<4xi32>
  }
}

