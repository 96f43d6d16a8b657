// strides and a shift
module {
  func.func @main(%a: tensor<1x3x3x1xi8>) -> tensor<1x5x5x1xi32> {
    %0 = "tosa.resize"(%a) {mode = "BILINEAR", offset = [0, 0], offset_fp = [0.0 : f32, 0.0 : f32], output_size = [5, 5], shift = 6 : i32, stride = [32, 32], stride_fp = [0.0 : f32, 0.0 : f32]} : (tensor<1x3x3x1xi8>) -> tensor<1x5x5x1xi32>
    return %0 : tensor<1x5x5x1xi32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x3x3x1xi8> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<1x5x5x1xi32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.const_shape  {values = dense<[64, 32, 64, 32]> : tensor<4xindex>} : () -> !tosa.shape<4>
    %1 = tosa.const_shape  {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>
    %2 = tosa.const_shape  {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>
    %3 = tosa.resize %arg0, %0, %1, %2 {mode = BILINEAR} : (tensor<1x3x3x1xi8>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x5x5x1xi32>
    return %3 : tensor<1x5x5x1xi32>
  }
}

