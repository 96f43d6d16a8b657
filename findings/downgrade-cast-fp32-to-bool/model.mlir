module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.1.0d"} {
  func.func @main(%arg0: tensor<4xf32> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<4xi1> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.cast %arg0 : (tensor<4xf32>) -> tensor<4xi1>
    return %0 : tensor<4xi1>
  }
}

