module {
  func.func @argmax(%arg0: tensor<3x3xf32>) -> tensor<3xi64> {
    %0 = tosa.argmax %arg0 {axis = 1 : i32} : (tensor<3x3xf32>) -> tensor<3xi64>
    return %0 : tensor<3xi64>
  }
}

