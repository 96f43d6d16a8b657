module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x1x1x1xf32> {tosa.tensor_name = "x"}) -> (tensor<1x1x1x1xf32> {tosa.tensor_name = "y"}) {
    %0 = tosa.const_shape  {values = dense<[2, 1, 2, 1]> : tensor<4xindex>} : () -> !tosa.shape<4>
    %1 = tosa.const_shape  {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>
    %2 = tosa.resize %arg0, %0, %1, %1 {mode = BILINEAR} : (tensor<1x1x1x1xf32>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x1x1x1xf32>
    return %2 : tensor<1x1x1x1xf32>
  }
}

