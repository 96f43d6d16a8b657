module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.1.0d"} {
  func.func @main() -> (tensor<2xf32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<true> : tensor<2xi1>}> : () -> tensor<2xi1>
    %1 = tosa.cast %0 : (tensor<2xi1>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
}

