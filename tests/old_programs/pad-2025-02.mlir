// the padding is a shape, the value of rank 0
module {
  func.func @main(%a: tensor<2x3xf32>) -> tensor<4x5xf32> {
    %p = tosa.const_shape {value = dense<[1, 1, 2, 0]> : tensor<4xindex>} : () -> !tosa.shape<4>
    %s = "tosa.const"() <{value = dense<1.5> : tensor<f32>}> : () -> tensor<f32>
    %0 = tosa.pad %a, %p, %s : (tensor<2x3xf32>, !tosa.shape<4>, tensor<f32>) -> tensor<4x5xf32>
    return %0 : tensor<4x5xf32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<2x3xf32> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<4x5xf32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.const_shape  {values = dense<[1, 1, 2, 0]> : tensor<4xindex>} : () -> !tosa.shape<4>
    %1 = "tosa.const"() <{values = dense<1.500000e+00> : tensor<1xf32>}> : () -> tensor<1xf32>
    %2 = tosa.pad %arg0, %0, %1 : (tensor<2x3xf32>, !tosa.shape<4>, tensor<1xf32>) -> tensor<4x5xf32>
    return %2 : tensor<4x5xf32>
  }
}

