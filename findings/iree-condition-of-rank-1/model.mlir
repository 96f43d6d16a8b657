module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main() -> (tensor<1xi32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %1 = tosa.while_loop (%arg0 = %0) : (tensor<1xi32>) -> tensor<1xi32> {
      %2 = "tosa.const"() <{values = dense<3> : tensor<1xi32>}> : () -> tensor<1xi32>
      %3 = tosa.greater %2, %arg0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
      tosa.yield %3 : tensor<1xi1>
    } do {
    ^bb0(%arg0: tensor<1xi32>):
      %2 = "tosa.const"() <{values = dense<1> : tensor<1xi32>}> : () -> tensor<1xi32>
      %3 = tosa.add %arg0, %2 : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi32>
      tosa.yield %3 : tensor<1xi32>
    }
    return %1 : tensor<1xi32>
  }
}

