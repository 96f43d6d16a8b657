module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<2xf32> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<1xf32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.reduce_min %arg0 {axis = 0 : i32} : (tensor<2xf32>) -> tensor<1xf32>
    return %0 : tensor<1xf32>
  }
}

