module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.1.0d"} {
  func.func @main(%arg0: tensor<3xi64> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<2xi64> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.const_shape  {values = dense<0> : tensor<1xindex>} : () -> !tosa.shape<1>
    %1 = tosa.const_shape  {values = dense<2> : tensor<1xindex>} : () -> !tosa.shape<1>
    %2 = tosa.slice %arg0, %0, %1 : (tensor<3xi64>, !tosa.shape<1>, !tosa.shape<1>) -> tensor<2xi64>
    return %2 : tensor<2xi64>
  }
}

