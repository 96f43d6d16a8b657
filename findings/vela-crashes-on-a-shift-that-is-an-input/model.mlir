module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x1xi32> {tosa.tensor_name = "a"}, %arg1: tensor<1x1xi32> {tosa.tensor_name = "c"}, %arg2: tensor<1xi8> {tosa.tensor_name = "s"}) -> (tensor<1x1xi32> {tosa.tensor_name = "mul"}) {
    %0 = tosa.mul %arg0, %arg1, %arg2 : (tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi8>) -> tensor<1x1xi32>
    return %0 : tensor<1x1xi32>
  }
}

