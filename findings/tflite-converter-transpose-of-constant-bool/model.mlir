module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main() -> (tensor<3x2xi1> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<[[true, false, false], [true, true, false]]> : tensor<2x3xi1>}> : () -> tensor<2x3xi1>
    %1 = tosa.transpose %0 {perms = array<i32: 1, 0>} : (tensor<2x3xi1>) -> tensor<3x2xi1>
    return %1 : tensor<3x2xi1>
  }
}

