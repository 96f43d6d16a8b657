// scale, offset and border are attributes
module {
  func.func @main(%a: tensor<1x3x3x1xi8>) -> tensor<1x5x5x1xi32> {
    %0 = "tosa.resize"(%a) {border = array<i64: 0, 0>, mode = "BILINEAR", offset = array<i64: 0, 0>, scale = array<i64: 4, 2, 4, 2>} : (tensor<1x3x3x1xi8>) -> tensor<1x5x5x1xi32>
    return %0 : tensor<1x5x5x1xi32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x3x3x1xi8> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<1x5x5x1xi32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.const_shape  {values = dense<[4, 2, 4, 2]> : tensor<4xindex>} : () -> !tosa.shape<4>
    %1 = tosa.const_shape  {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>
    %2 = tosa.const_shape  {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>
    %3 = tosa.resize %arg0, %0, %1, %2 {mode = BILINEAR} : (tensor<1x3x3x1xi8>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x5x5x1xi32>
    return %3 : tensor<1x5x5x1xi32>
  }
}

