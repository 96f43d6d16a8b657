module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.1.0d"} {
  func.func @main(%arg0: tensor<2xi64> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<2xi64> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<0> : tensor<1xi64>}> : () -> tensor<1xi64>
    %1 = tosa.negate %arg0, %0, %0 : (tensor<2xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
    return %1 : tensor<2xi64>
  }
}

