module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<2xi8> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<2xi8> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %1 = tosa.negate %arg0, %0, %0 : (tensor<2xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2xi8>
    %2 = tosa.negate %1, %0, %0 : (tensor<2xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2xi8>
    return %2 : tensor<2xi8>
  }
}

