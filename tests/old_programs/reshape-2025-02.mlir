// the shape is an attribute
module {
  func.func @main(%a: tensor<2x3xf32>) -> tensor<3x2xf32> {
    %0 = tosa.reshape %a {new_shape = array<i64: 3, 2>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
    return %0 : tensor<3x2xf32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<2x3xf32> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<3x2xf32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.const_shape  {values = dense<[3, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
    %1 = tosa.reshape %arg0, %0 : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<3x2xf32>
    return %1 : tensor<3x2xf32>
  }
}

