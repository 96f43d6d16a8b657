module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.1.0d"} {
  func.func @main(%arg0: tensor<1x1x2x1xf16> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<1x1x1x1xf16> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.const_shape  {values = dense<[0, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
    %1 = tosa.const_shape  {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>
    %2 = tosa.const_shape  {values = dense<1> : tensor<4xindex>} : () -> !tosa.shape<4>
    %3 = tosa.const_shape  {values = dense<0> : tensor<4xindex>} : () -> !tosa.shape<4>
    %4 = tosa.add_shape %2, %3 : (!tosa.shape<4>, !tosa.shape<4>) -> !tosa.shape<4>
    %5 = tosa.resize %arg0, %4, %0, %1 {mode = NEAREST_NEIGHBOR} : (tensor<1x1x2x1xf16>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x1x1x1xf16>
    return %5 : tensor<1x1x1x1xf16>
  }
}

