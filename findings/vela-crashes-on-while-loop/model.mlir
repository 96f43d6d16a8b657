module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1xi32> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<1xi32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.while_loop (%arg1 = %arg0) : (tensor<1xi32>) -> tensor<1xi32> {
      %1 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
      %2 = tosa.greater %1, %arg1 : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
      tosa.yield %2 : tensor<1xi1>
    } do {
    ^bb0(%arg1: tensor<1xi32>):
      %1 = "tosa.const"() <{values = dense<1> : tensor<1xi32>}> : () -> tensor<1xi32>
      %2 = tosa.add %arg1, %1 : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi32>
      tosa.yield %2 : tensor<1xi32>
    }
    return %0 : tensor<1xi32>
  }
}

