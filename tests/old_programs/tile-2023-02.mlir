// multiples are an attribute
module {
  func.func @main(%a: tensor<2x3xf32>) -> tensor<4x3xf32> {
    %0 = "tosa.tile"(%a) {multiples = array<i64: 2, 1>} : (tensor<2x3xf32>) -> tensor<4x3xf32>
    return %0 : tensor<4x3xf32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<2x3xf32> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<4x3xf32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.const_shape  {values = dense<[2, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
    %1 = tosa.tile %arg0, %0 : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<4x3xf32>
    return %1 : tensor<4x3xf32>
  }
}

