module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  tosa.variable @s = dense<[1, -2]> : tensor<2xi48>
  func.func @main() -> (tensor<2xi48> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.variable_read @s : tensor<2xi48>
    return %0 : tensor<2xi48>
  }
}

