module {
  func.func @leftovers(%arg0: tensor<2x4xi64>) -> (tensor<2x4xi64>, tensor<2x4xi64>, tensor<2x4xf64>, tensor<2x4xf64>) {
    %cst = arith.constant dense<2.500000e+00> : tensor<2x4xf64>
    %cst_0 = arith.constant dense<5.000000e-01> : tensor<2x4xf64>
    %cst_1 = arith.constant dense<-3> : tensor<2x4xi64>
    %0 = "tosa.const"() <{values = dense<[0, 1, 2, 3]> : tensor<4xi64>}> : () -> tensor<4xi64>
    %1 = tosa.const_shape  {values = dense<[1, 4]> : tensor<2xindex>} : () -> !tosa.shape<2>
    %2 = tosa.cast %0 : (tensor<4xi64>) -> tensor<4xi32>
    %3 = tosa.reshape %2, %1 : (tensor<4xi32>, !tosa.shape<2>) -> tensor<1x4xi32>
    %4 = tosa.cast %arg0 : (tensor<2x4xi64>) -> tensor<2x4xi32>
    %5 = tosa.add %4, %3 : (tensor<2x4xi32>, tensor<1x4xi32>) -> tensor<2x4xi32>
    %6 = tosa.cast %5 : (tensor<2x4xi32>) -> tensor<2x4xi64>
    return %6, %cst_1, %cst_0, %cst : tensor<2x4xi64>, tensor<2x4xi64>, tensor<2x4xf64>, tensor<2x4xf64>
  }
}

