module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.1.0d"} {
  func.func @main() -> (tensor<2xi64> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<[1147966999, 5]> : tensor<2xi64>}> : () -> tensor<2xi64>
    %1 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %2 = tosa.mul %0, %0, %1 : (tensor<2xi64>, tensor<2xi64>, tensor<1xi8>) -> tensor<2xi64>
    return %2 : tensor<2xi64>
  }
}

