module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x2xi8> {tosa.tensor_name = "x"}) -> (tensor<1x2xi8> {tosa.tensor_name = "reverse"}, tensor<1x2xi8> {tosa.tensor_name = "bitwise_not"}) {
    %0 = tosa.reverse %arg0 {axis = 0 : i32} : (tensor<1x2xi8>) -> tensor<1x2xi8>
    %1 = tosa.bitwise_not %arg0 : (tensor<1x2xi8>) -> tensor<1x2xi8>
    return %0, %1 : tensor<1x2xi8>, tensor<1x2xi8>
  }
}

