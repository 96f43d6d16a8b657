// another name
module {
  func.func @main(%a: tensor<2x3xf32>) -> tensor<2x1xf32> {
    %0 = "tosa.reduce_prod"(%a) {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x1xf32>
    return %0 : tensor<2x1xf32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<2x3xf32> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<2x1xf32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.reduce_product %arg0 {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x1xf32>
    return %0 : tensor<2x1xf32>
  }
}

