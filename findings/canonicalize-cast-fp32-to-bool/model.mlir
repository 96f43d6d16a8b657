module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.1.0d"} {
  func.func @main() -> (tensor<2xi1> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<2.000000e+00> : tensor<2xf32>}> : () -> tensor<2xf32>
    %1 = tosa.cast %0 : (tensor<2xf32>) -> tensor<2xi1>
    return %1 : tensor<2xi1>
  }
}

