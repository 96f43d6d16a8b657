// start and size are attributes
module {
  func.func @main(%a: tensor<4x5xf32>) -> tensor<2x2xf32> {
    %0 = "tosa.slice"(%a) {size = [2, -1], start = [1, 3]} : (tensor<4x5xf32>) -> tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<4x5xf32> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<2x2xf32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.const_shape  {values = dense<[1, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
    %1 = tosa.const_shape  {values = dense<2> : tensor<2xindex>} : () -> !tosa.shape<2>
    %2 = tosa.slice %arg0, %0, %1 : (tensor<4x5xf32>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x2xf32>
    return %2 : tensor<2x2xf32>
  }
}

