module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x1x3x1xf32> {tosa.tensor_name = "x"}, %arg1: tensor<1x1x1x3xf32> {tosa.tensor_name = "y"}) -> (tensor<1x1x2x3xf32> {tosa.tensor_name = "p"}, tensor<1x1x3x3xf32> {tosa.tensor_name = "m"}) {
    %0 = tosa.sub %arg1, %arg0 : (tensor<1x1x1x3xf32>, tensor<1x1x3x1xf32>) -> tensor<1x1x3x3xf32>
    %1 = tosa.max_pool2d %0 {kernel = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 2>} : (tensor<1x1x3x3xf32>) -> tensor<1x1x2x3xf32>
    %2 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %3 = tosa.mul %arg1, %0, %2 : (tensor<1x1x1x3xf32>, tensor<1x1x3x3xf32>, tensor<1xi8>) -> tensor<1x1x3x3xf32>
    return %1, %3 : tensor<1x1x2x3xf32>, tensor<1x1x3x3xf32>
  }
}

