module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  tosa.variable @state = dense<0> : tensor<2xi16>
  func.func @main() -> (tensor<2xi16> {tosa.tensor_name = "before"}) {
    %0 = "tosa.const"() <{values = dense<[5, 6]> : tensor<2xi16>}> : () -> tensor<2xi16>
    %1 = tosa.variable_read @state : tensor<2xi16>
    tosa.variable_write @state, %0 : tensor<2xi16>
    return %1 : tensor<2xi16>
  }
}

