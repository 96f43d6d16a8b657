// strides of f32
module {
  func.func @main(%a: tensor<1x3x3x1xf32>) -> tensor<1x6x6x1xf32> {
    %0 = "tosa.resize"(%a) {mode = "NEAREST_NEIGHBOR", offset = [0, 0], offset_fp = [-0.25 : f32, -0.25 : f32], output_size = [6, 6], shift = 0 : i32, stride = [0, 0], stride_fp = [0.5 : f32, 0.5 : f32]} : (tensor<1x3x3x1xf32>) -> tensor<1x6x6x1xf32>
    return %0 : tensor<1x6x6x1xf32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x3x3x1xf32> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<1x6x6x1xf32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.const_shape  {values = dense<[4, 2, 4, 2]> : tensor<4xindex>} : () -> !tosa.shape<4>
    %1 = tosa.const_shape  {values = dense<-1> : tensor<2xindex>} : () -> !tosa.shape<2>
    %2 = tosa.const_shape  {values = dense<1> : tensor<2xindex>} : () -> !tosa.shape<2>
    %3 = tosa.resize %arg0, %0, %1, %2 {mode = NEAREST_NEIGHBOR} : (tensor<1x3x3x1xf32>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x6x6x1xf32>
    return %3 : tensor<1x6x6x1xf32>
  }
}

